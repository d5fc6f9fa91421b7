/* SPDX-License-Identifier: Apache-2.0
 * A value plus noise: the exact sum, clamped, rounded at most once. dpf_add says what holds before
 * and after. Noise is drawn into scratch, a block at a time; a sum goes from there to its place. */

/* Where the parts of a block lie in scratch. The first two are the caller's, too. */
typedef struct {
    int64_t *undecided, *lo, *hi;
    uint64_t *kept;         /* the values of undecided draws */
    double *offset, *point; /* of a real value: its place on the grid, beyond the grid point nearest to it */
} dpf_parts;

DPF_INLINE dpf_parts parts_of(uint64_t *scratch, int64_t block) {
    return (dpf_parts){.undecided = (int64_t *)scratch,
                       .kept = scratch + block,
                       .lo = (int64_t *)(scratch + 2 * block),
                       .hi = (int64_t *)(scratch + 3 * block),
                       .point = (double *)(scratch + 3 * block),
                       .offset = (double *)(scratch + 4 * block)};
}

enum { DPF_PIECE = 512 }; /* sums that wait in the first cache to be stored past all of them */

DPF_INLINE int64_t draw_block(const dpf_release *how, uint64_t start, int64_t n, const dpf_target *to) {
    return laws[how->plan->law]->fill(how->plan, how->constant_work, how->key, start, n, to);
}

/* ---- integers */

/* x + noise clamped to [lower, upper], as if the sum had all its bits. */
DPF_INLINE int64_t clamped_sum(int64_t x, int64_t noise, int64_t lower, int64_t upper) {
    const int64_t total = (int64_t)((uint64_t)x + (uint64_t)noise);
    /* The sum left int64 iff it lacks the sign of both terms; then the end on x's side is nearest. */
    const int64_t sum = ((total ^ x) & (total ^ noise)) < 0 ? (x >> 63) ^ INT64_MAX : total;
    const int64_t above = sum < lower ? lower : sum;
    return above > upper ? upper : above;
}

/* The same in two limbs; x is unsigned or not. */
DPF_INLINE int64_t clamped_sum_wide(int64_t x, int is_unsigned, int64_t lo, int64_t hi, dpf_signed lower,
                                    dpf_signed upper) {
    const dpf_signed value = is_unsigned ? (dpf_signed)(uint64_t)x : (dpf_signed)x;
    const dpf_signed total = value + (dpf_signed)((dpf_wide)(uint64_t)hi << 64 | (uint64_t)lo);
    return (int64_t)(uint64_t)(total < lower ? lower : total > upper ? upper : total);
}

/* Keep the values of undecided draws. */
DPF_INLINE void keep_undecided(const dpf_parts *parts, int64_t left, const int64_t *x) {
    for (int64_t i = 0; i < left; i++)
        parts->kept[i] = (uint64_t)x[parts->undecided[i]];
}

/* Store sums from .. from + m - 1 of a block, with zeros for undecided draws. */
DPF_INLINE void store_sums(const dpf_release *how, const dpf_parts *parts, int64_t left, int64_t *sums, int64_t from,
                           int64_t m, int64_t *out) {
    for (int64_t i = 0; i < left; i++)
        if (parts->undecided[i] >= from && parts->undecided[i] < from + m)
            sums[parts->undecided[i] - from] = 0;
    store(out + from, sums, m, how->non_temporal);
}

static int64_t add_narrow(const dpf_release *how, uint64_t start, int64_t n, const int64_t *x, int64_t *out,
                          const dpf_parts *parts) {
    const int64_t lower = (int64_t)how->lower.lo, upper = (int64_t)how->upper.lo;
    const dpf_target to = {.lo = parts->lo, .undecided = parts->undecided};
    const int64_t left = draw_block(how, start, n, &to);
    keep_undecided(parts, left, x);
    for (int64_t from = 0; from < n; from += DPF_PIECE) {
        _Alignas(64) int64_t sums[DPF_PIECE];
        const int64_t m = n - from < DPF_PIECE ? n - from : DPF_PIECE;
        for (int64_t i = 0; i < m; i++)
            sums[i] = clamped_sum(x[from + i], parts->lo[from + i], lower, upper);
        store_sums(how, parts, left, sums, from, m, out);
    }
    return left;
}

static int64_t add_wide(const dpf_release *how, uint64_t start, int64_t n, const int64_t *x, int64_t *out,
                        const dpf_parts *parts) {
    const dpf_signed lower = (dpf_signed)wide_of(how->lower), upper = (dpf_signed)wide_of(how->upper);
    const dpf_target to = {.lo = parts->lo, .hi = parts->hi, .undecided = parts->undecided};
    const int64_t left = draw_block(how, start, n, &to);
    keep_undecided(parts, left, x);
    for (int64_t i = 0; i < n; i++)
        parts->lo[i] = clamped_sum_wide(x[i], how->kind == DPF_UINT64, parts->lo[i], parts->hi[i], lower, upper);
    store_sums(how, parts, left, parts->lo, 0, n, out);
    return left;
}

/* ---- reals: the grid is granularity k for integers k; sums here have few exact terms, and are
 * rounded once */

/* x, a number, brought between bounds. */
DPF_INLINE double between(double x, double least, double most) {
    const double above = x > least ? x : least;
    return above < most ? above : most;
}

DPF_INLINE int is_finite(double x) {
    return __builtin_fabs(x) <= DBL_MAX;
}

/* x, or what stands for it if it is not finite, between public bounds. */
DPF_INLINE double made_public(const dpf_release *how, double x) {
    return between(is_finite(x) ? x : how->missing, how->least, how->greatest);
}

/* x / granularity, as two products for the ends of the exponent range. A large one is infinite or
 * an integer; an underflow errs by less than 2^-1022, deciding nothing. */
DPF_INLINE double in_steps(const dpf_release *how, double x) {
    return (x * how->inverse) * how->inverse_too;
}

/* The integer nearest to y, |y| < 2^52, with y's sign. */
DPF_INLINE double to_integer(double y) {
    const double size = (__builtin_fabs(y) + 0x1p52) - 0x1p52;
    return __builtin_copysign(size, y);
}

/* How far y lies beyond the grid point nearest to it, in [-1/2, 1/2]. */
DPF_INLINE double beyond(double y) {
    return __builtin_fabs(y) < 0x1p52 ? y - to_integer(y) : 0.0;
}

/* The grid point nearest to x, exactly: x itself if y is 2^52 or more. */
DPF_INLINE double on_grid(const dpf_release *how, double x, double y) {
    return __builtin_fabs(y) < 0x1p52 ? to_integer(y) * how->granularity : x;
}

/* s + rest, |rest| at most half a unit of s, rounded to odd: it rounds again as if once. */
DPF_INLINE double to_odd(double s, double rest) {
    const uint64_t bits = bits_of(s);
    const uint64_t towards = (rest > 0.0) == (s > 0.0) ? 1 : UINT64_MAX;
    const int inexact = (rest > 0.0) | (rest < 0.0); /* not if s is infinite */
    return (inexact & !(bits & 1)) ? double_of(bits + towards) : s;
}

/* The result of a grid point and k steps, k below 2^53. */
DPF_INLINE double joined(const dpf_release *how, double point, double k) {
    return between(point + k * how->granularity, how->real_lower, how->real_upper) + 0.0;
}

/* The same, rounded once to float32. */
DPF_INLINE double joined_single(const dpf_release *how, double point, double k) {
    double total, rest;
    two_sum(point, k * how->granularity, &total, &rest);
    return (double)(float)between(to_odd(total, rest), how->real_lower, how->real_upper) + 0.0;
}

DPF_INLINE double loaded(const void *x, int kind, int64_t i) {
    return kind == DPF_FLOAT32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

DPF_INLINE int64_t add_real(const dpf_release *given, uint64_t start, int64_t n, const void *x, void *out,
                            const dpf_parts *parts, int kind) {
    const dpf_release how = *given;
    const dpf_target to = {.lo = parts->lo, .undecided = parts->undecided, .offset = parts->offset, .real = 1};
    int odd = 0, changed = 0;
    if (how.refuse && how.least == -DBL_MAX && how.greatest == DBL_MAX)
        for (int64_t i = 0; i < n; i++) {
            const double value = loaded(x, kind, i), y = in_steps(&how, value);
            odd |= !is_finite(value);
            parts->offset[i] = beyond(y);
            parts->point[i] = on_grid(&how, value, y);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const double read = loaded(x, kind, i), value = made_public(&how, read), y = in_steps(&how, value);
            odd |= !is_finite(read);
            parts->offset[i] = beyond(y);
            parts->point[i] = on_grid(&how, value, y);
        }
    if (odd & how.refuse)
        return DPF_NOT_FINITE;
    const int64_t left = draw_block(&how, start, n, &to);
    for (int64_t i = 0; i < left; i++) {
        const int64_t at = parts->undecided[i];
        const double again = loaded(x, kind, at), value = made_public(&how, again), y = in_steps(&how, value);
        changed |= beyond(y) != parts->offset[at] || on_grid(&how, value, y) != parts->point[at];
        changed |= how.refuse && !is_finite(again);
        parts->kept[i] = bits_of(again);
    }
    if (changed)
        return DPF_CHANGED;
    double *const sums = parts->offset;
    const double limit = how.granularity * 0x1p53; /* from here on a double may have to round a sum */
    int large = 0;
    for (int64_t i = 0; i < n; i++) {
        const double k = double_of((uint64_t)parts->lo[i]);
        sums[i] = joined(&how, parts->point[i], k);
        large |= !(__builtin_fabs(parts->point[i] + k * how.granularity) < limit);
    }
    if (how.single && large)
        for (int64_t i = 0; i < n; i++)
            sums[i] = joined_single(&how, parts->point[i], double_of((uint64_t)parts->lo[i]));
    for (int64_t i = 0; i < left; i++)
        sums[parts->undecided[i]] = 0.0;
    if (kind == DPF_FLOAT64 && !how.single) {
        store(out, sums, n, how.non_temporal);
        return left;
    }
    for (int64_t i = 0; i < n; i++) /* rounded once, or exactly */
        if (kind == DPF_FLOAT32)
            ((float *)out)[i] = (float)sums[i];
        else
            ((double *)out)[i] = (double)(float)sums[i];
    return left;
}

/* Noise in two limbs: grid point plus both parts of it, rounded once [BM08, section 5]. */
static int64_t add_real_wide(const dpf_release *given, uint64_t start, int64_t n, const double *x, double *out,
                             const dpf_parts *parts) {
    const dpf_release how = *given;
    const dpf_target to = {.lo = parts->lo, .hi = parts->hi, .undecided = parts->undecided, .offset = parts->offset};
    double *const sums = (double *)parts->lo;
    int odd = 0;
    for (int64_t i = 0; i < n; i++) {
        const double value = x[i]; /* read once: another thread may write it meanwhile */
        odd |= !is_finite(value);
        parts->kept[i] = bits_of(value);
        parts->offset[i] = beyond(in_steps(&how, made_public(&how, value)));
    }
    if (odd & how.refuse)
        return DPF_NOT_FINITE;
    const int64_t left = draw_block(&how, start, n, &to);
    for (int64_t i = 0; i < n; i++) {
        const double value = made_public(&how, double_of(parts->kept[i]));
        const double point = on_grid(&how, value, in_steps(&how, value));
        /* the noise is above 2^40 + below, both exact in doubles */
        const uint64_t upper_limb = (uint64_t)parts->hi[i] << 24 | (uint64_t)parts->lo[i] >> 40;
        const double above = (double)(int64_t)upper_limb * 0x1p40;
        const double below = (double)(parts->lo[i] & 0xffffffffff);
        double part, part_rest, total, rest, lost;
        two_sum(above * how.granularity, below * how.granularity, &part, &part_rest);
        two_sum(point, part, &total, &rest);
        two_sum(rest, part_rest, &rest, &lost);
        rest = to_odd(rest, lost);
        double result = total + rest;
        if (how.single) {
            two_sum(total, rest, &result, &lost);
            result = (double)(float)between(to_odd(result, lost), how.real_lower, how.real_upper);
        }
        sums[i] = between(result, how.real_lower, how.real_upper) + 0.0;
    }
    for (int64_t i = 0; i < left; i++)
        sums[parts->undecided[i]] = 0.0;
    for (int64_t i = 0; i < left; i++) /* by another place, for the positions are in no order */
        parts->offset[i] = double_of(parts->kept[parts->undecided[i]]);
    memcpy(parts->kept, parts->offset, (size_t)left * sizeof *parts->kept);
    store(out, sums, n, how.non_temporal);
    return left;
}

DPF_INLINE int64_t add_block(const dpf_release *how, uint64_t start, int64_t n, const char *x, char *out,
                             const dpf_parts *parts) {
    if (how->kind == DPF_FLOAT32)
        return add_real(how, start, n, x, out, parts, DPF_FLOAT32);
    if (how->kind == DPF_FLOAT64)
        return how->limbs == 1 ? add_real(how, start, n, x, out, parts, DPF_FLOAT64)
                               : add_real_wide(how, start, n, (const double *)x, (double *)out, parts);
    if (how->limbs == 2)
        return add_wide(how, start, n, (const int64_t *)x, (int64_t *)out, parts);
    return add_narrow(how, start, n, (const int64_t *)x, (int64_t *)out, parts);
}

/* table.h */
static int64_t add_by_table(const dpf_release *how, uint64_t start, int64_t n, const int64_t *x, int64_t *out,
                            const dpf_parts *parts, int64_t *undecided);

static int64_t add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out, uint64_t *scratch,
                   int64_t *undecided) {
    const int64_t block = n < DPF_BLOCK ? n : DPF_BLOCK, size = how->kind == DPF_FLOAT32 ? 4 : 8;
    const dpf_parts parts = parts_of(scratch, block);
    int64_t done = 0, left = 0;
    if (n > 0 && how->kind == DPF_INT64 && how->limbs == 1 && how->plan->bulk == DPF_TABLE && !how->constant_work)
        done = add_by_table(how, start, n, in, out, &parts, &left);
    while (done < n && left == 0) {
        const int64_t m = n - done < block ? n - done : block;
        left = add_block(how, start + (uint64_t)done, m, (const char *)in + size * done, (char *)out + size * done,
                         &parts);
        for (int64_t i = 0; i < left; i++)
            parts.undecided[i] += done;
        done += m;
    }
    dpf_fence();
    *undecided = left < 0 ? 0 : left;
    return left < 0 ? left : done;
}
