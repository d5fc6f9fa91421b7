/* SPDX-License-Identifier: Apache-2.0
 * What noise makes of values: the exact sum, clamped, rounded at most once; of integers and narrow
 * noise once more, in lanes. */
#pragma once
#include "wide.h"

/* ---- integers */

/* x + noise clamped to [lower, upper], as if the sum had all its bits. */
DPF_INLINE int64_t clamped_sum(int64_t x, int64_t noise, int64_t lower, int64_t upper) {
    const int64_t total = (int64_t)((uint64_t)x + (uint64_t)noise);
    /* The sum left int64 iff it lacks the sign of both terms; then the end on x's side is nearest.
     * No branch: the time must not depend on it. */
    const int64_t left = ((total ^ x) & (total ^ noise)) >> 63;
    const int64_t sum = (total & ~left) | (((x >> 63) ^ INT64_MAX) & left);
    const int64_t above = sum < lower ? lower : sum;
    return above > upper ? upper : above;
}

/* The same in two limbs; x is unsigned or not. */
DPF_INLINE int64_t clamped_sum_wide(int64_t x, int is_unsigned, int64_t lo, int64_t hi, dpf_signed lower,
                                    dpf_signed upper) {
    const dpf_signed value = is_unsigned ? (dpf_signed)(uint64_t)x : (dpf_signed)x;
    /* modulo 2^128, for an undecided draw has an upper limb that is none */
    const dpf_signed total = (dpf_signed)((dpf_wide)value + ((dpf_wide)(uint64_t)hi << 64 | (uint64_t)lo));
    return (int64_t)(uint64_t)(total < lower ? lower : total > upper ? upper : total);
}

/* What order needs of a kind whose values are not below 2^63: their uppermost bit is turned, and
 * then they are the signed ones, bounds and sums likewise. */
DPF_INLINE int64_t turn_of(int kind) {
    return kind == DPF_UINT64 ? INT64_MIN : 0;
}

/* Copy values of a kind in 64 bits, turned. What is used is the copy alone. */
static void widen(int kind, const void *in, int64_t n, int64_t *x) {
    switch (kind) {
#define DPF_WIDEN(name, type)                                                                                          \
    case name:                                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            x[i] = (int64_t)((const type *)in)[i] ^ turn_of(name);                                                     \
        break;
        DPF_WIDEN(DPF_INT64, int64_t)
        DPF_INTEGERS(DPF_WIDEN)
    }
    DPF_COPIED;
}

/* Sums as results of a kind that is not 64 bits wide. */
static void narrow(int kind, const int64_t *sums, int64_t n, void *out) {
    switch (kind) {
#define DPF_NARROW(name, type)                                                                                         \
    case name:                                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                                \
            ((type *)out)[i] = (type)sums[i];                                                                          \
        break;
        DPF_INTEGERS(DPF_NARROW)
    }
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

DPF_INLINE int made_public_first(const dpf_release *how) {
    return !how->refuse || how->least != -DBL_MAX || how->greatest != DBL_MAX;
}

/* x / granularity, as two products for the ends of the exponent range. A large one is infinite or
 * an integer; an underflow errs by less than 2^-1022, deciding nothing. */
DPF_INLINE double in_steps(const dpf_release *how, double x) {
    return (x * how->inverse) * how->inverse_too;
}

/* The integer nearest to y, |y| < 2^52. */
DPF_INLINE double to_integer(double y) {
#if DPF_FMA
    return __builtin_rint(y); /* an instruction, where there is fma */
#else
    return __builtin_copysign((__builtin_fabs(y) + 0x1p52) - 0x1p52, y);
#endif
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

/* Noise in two limbs: grid point plus both parts of it, rounded once [BM08, section 5]. */
DPF_INLINE double joined_wide(const dpf_release *how, double point, int64_t lo, int64_t hi) {
    /* the noise is above 2^40 + below, both exact in doubles */
    const uint64_t upper_bits = (uint64_t)hi << 24 | (uint64_t)lo >> 40;
    const double above = (double)(int64_t)upper_bits * 0x1p40, below = (double)(lo & 0xffffffffff);
    double part, part_rest, total, rest, lost;
    two_sum(above * how->granularity, below * how->granularity, &part, &part_rest);
    two_sum(point, part, &total, &rest);
    two_sum(rest, part_rest, &rest, &lost);
    rest = to_odd(rest, lost);
    double result = total + rest;
    if (how->single) {
        two_sum(total, rest, &result, &lost);
        result = (double)(float)between(to_odd(result, lost), how->real_lower, how->real_upper);
    }
    return between(result, how->real_lower, how->real_upper) + 0.0;
}

/* ---- a batch: draws from .. end - 1 of it, whose first draw is number `at` of the call */

enum { DPF_MOST = 2 * DPF_WORDS }; /* draws of a batch: as many 16-bit words */

/* What a batch's values are on the grid, and what becomes of them. */
typedef struct {
    _Alignas(64) int64_t sums[DPF_MOST];
    double offset[DPF_MOST]; /* how far a real value lies beyond a grid point, in [-1/2, 1/2] */
    double point[DPF_MOST];  /* that grid point */
} dpf_batch;

DPF_INLINE double real_value(const dpf_release *how, const void *in, int64_t i) {
    return how->kind == DPF_FLOAT32 ? (double)((const float *)in)[i] : ((const double *)in)[i];
}

DPF_INLINE int split_as(const dpf_release *given, const void *in, int from, int end, dpf_batch *batch, int is_public,
                        int kind) {
    dpf_release how = *given;
    how.kind = kind;
    double *restrict const offset = batch->offset + from, *restrict const point = batch->point + from;
    uint64_t odd = 0; /* 0 x is a zero, or no number */
    for (int64_t i = 0; i < end - from; i++)
        point[i] = real_value(&how, in, i);
    DPF_COPIED;
    for (int64_t i = 0; i < end - from; i++) {
        const double read = point[i], value = is_public ? made_public(&how, read) : read;
        const double y = in_steps(&how, value);
        odd |= bits_of(read * 0.0);
        offset[i] = beyond(y);
        point[i] = on_grid(&how, value, y);
    }
    return how.refuse && odd << 1 != 0;
}

/* Bring real values to the grid. 1: one is not finite, and refused. */
static int split(const dpf_release *how, const void *in, int from, int end, dpf_batch *batch) {
    const int is_public = made_public_first(how);
    if (how->kind == DPF_NOISE) {
        memcpy(batch->offset + from, in, (size_t)(end - from) * sizeof *batch->offset);
        return 0;
    }
    return how->kind == DPF_FLOAT32 ? split_as(how, in, from, end, batch, 1, DPF_FLOAT32)
           : is_public              ? split_as(how, in, from, end, batch, 1, DPF_FLOAT64)
                                    : split_as(how, in, from, end, batch, 0, DPF_FLOAT64);
}

/* Sum up: lo and hi are the noise; without hi, lo holds one limb, or a double of a real law. */
static void sum_up(const dpf_release *given, const void *in, int from, int end, const int64_t *all_lo,
                   const int64_t *all_hi, int real_law, dpf_batch *batch) {
    const dpf_release how = *given;
    const int64_t turn = turn_of(how.kind), n = end - from;
    const int64_t lower = (int64_t)how.lower.lo ^ turn, upper = (int64_t)how.upper.lo ^ turn;
    const int64_t *restrict const lo = all_lo + from;
    const int64_t *const hi = all_hi ? all_hi + from : NULL;
    const double *restrict const point = batch->point + from;
    int64_t *restrict const sums = batch->sums + from;
    const int is_real = how.kind == DPF_FLOAT64 || how.kind == DPF_FLOAT32;
    if (!is_real && how.kind != DPF_NOISE)
        widen(how.kind, in, n, sums);
    if (how.kind == DPF_NOISE)
        for (int64_t i = 0; i < n; i++)
            sums[i] = real_law && !hi ? (int64_t)double_of((uint64_t)lo[i]) : lo[i];
    else if (how.kind == DPF_INT64 && how.limbs == 1 && lower == INT64_MIN && upper == INT64_MAX)
        for (int64_t i = 0; i < n; i++)
            sums[i] = clamped_sum(sums[i], lo[i], INT64_MIN, INT64_MAX);
    else if (!is_real && how.limbs == 1)
        for (int64_t i = 0; i < n; i++)
            sums[i] = clamped_sum(sums[i], lo[i], lower, upper) ^ turn;
    else if (!is_real)
        for (int64_t i = 0; i < n; i++)
            sums[i] = clamped_sum_wide(sums[i] ^ turn, how.kind == DPF_UINT64, lo[i], hi ? hi[i] : lo[i] >> 63,
                                       (dpf_signed)wide_of(how.lower), (dpf_signed)wide_of(how.upper));
    else if (hi)
        for (int64_t i = 0; i < n; i++)
            sums[i] = (int64_t)bits_of(joined_wide(&how, point[i], lo[i], hi[i]));
    else {
        uint64_t large = 0; /* a sum of 2^53 steps or more, which a double may have to round */
        for (int64_t i = 0; i < n; i++) {
            const double k = double_of((uint64_t)lo[i]);
            large |= (uint64_t) !(__builtin_fabs(point[i] + k * how.granularity) < how.granularity * 0x1p53);
            sums[i] = (int64_t)bits_of(joined(&how, point[i], k));
        }
        for (int64_t i = 0; i < n && how.single; i++)
            sums[i] = (int64_t)bits_of(large ? joined_single(&how, point[i], double_of((uint64_t)lo[i]))
                                             : (double)(float)double_of((uint64_t)sums[i]) + 0.0);
    }
}

/* ---- the sum of integers and narrow noise in lanes */

/* bounded: by more than the type. non_temporal: past the caches, but for 8-bit values. */
typedef struct {
    const char *x;
    char *out;
    int kind, bounded, non_temporal;
    uint64_t lower, upper;
} dpf_sums;

DPF_INLINE dpf_sums sums_of(const dpf_release *how, const void *x, void *out) {
    const int kind = how->kind;
    return (dpf_sums){.x = x,
                      .out = out,
                      .kind = kind,
                      .bounded = how->lower.lo != dpf_least(kind) || how->upper.lo != dpf_greatest(kind),
                      .lower = how->lower.lo,
                      .upper = how->upper.lo};
}

/* b where mask, else a. */
#define DPF_BLEND(a, b, mask) ((a) ^ (((a) ^ (b)) & (mask)))

/* Sums of values at .. end - 1 of a type: clamped_sum in lanes that are as wide as the type, and as
 * the noise at least. turned: 1 if lanes are to be turned, as turn_of says. */
#define DPF_SUMS(name, type, narrow, lane, signed_lane, turned)                                                        \
    DPF_INLINE void name(const dpf_sums *sums, const narrow *noise, int at, int end, int bounded, int non_temporal) {  \
        enum { LANES = DPF_VECTOR / sizeof(lane), SIGN = 8 * sizeof(lane) - 1 };                                       \
        const lane turn = (lane)((lane)(turned) << SIGN), top = (lane)((lane) ~(lane)0 >> 1);                          \
        typedef lane lanes __attribute__((vector_size(DPF_VECTOR)));                                                   \
        typedef signed_lane signed_lanes __attribute__((vector_size(DPF_VECTOR)));                                     \
        typedef type cells __attribute__((vector_size(LANES * sizeof(type))));                                         \
        for (int i = at; i < end; i += LANES) {                                                                        \
            cells x;                                                                                                   \
            lanes draw = {0};                                                                                          \
            memcpy(&x, sums->x + i * (int)sizeof(type), sizeof x);                                                     \
            DPF_COPIED;                                                                                                \
            for (int l = 0; l < LANES; l++)                                                                            \
                draw[l] = (lane)noise[i + l];                                                                          \
            const lanes value = __builtin_convertvector(x, lanes) ^ turn;                                              \
            const lanes total = value + draw;                                                                          \
            const lanes left = (lanes)((signed_lanes)((total ^ value) & (total ^ draw)) >> SIGN);                      \
            lanes sum = DPF_BLEND(total, (lanes)((signed_lanes)value >> SIGN) ^ top, left);                            \
            if (bounded) {                                                                                             \
                const lanes lower = (lane)((lane)sums->lower ^ turn) - (lanes){0};                                     \
                const lanes upper = (lane)((lane)sums->upper ^ turn) - (lanes){0};                                     \
                sum = DPF_BLEND(sum, lower, (lanes)((signed_lanes)sum < (signed_lanes)lower));                         \
                sum = DPF_BLEND(sum, upper, (lanes)((signed_lanes)sum > (signed_lanes)upper));                         \
            }                                                                                                          \
            x = __builtin_convertvector(sum ^ turn, cells);                                                            \
            if (non_temporal && sizeof x == DPF_VECTOR)                                                                \
                DPF_STORE(sums->out + i * (int)sizeof(type), &x);                                                      \
            else                                                                                                       \
                memcpy(sums->out + i * (int)sizeof(type), &x, sizeof x);                                               \
        }                                                                                                              \
    }
DPF_SUMS(DPF_INT64_cells, int64_t, int32_t, uint64_t, int64_t, 0)
DPF_SUMS(DPF_UINT64_cells, uint64_t, int32_t, uint64_t, int64_t, 1)
DPF_SUMS(DPF_INT32_cells, int32_t, int32_t, uint32_t, int32_t, 0)
DPF_SUMS(DPF_UINT32_cells, uint32_t, int32_t, uint32_t, int32_t, 1)

/* The same of values of 16 bits or fewer and noise of 32, where the values' copy lies: by a loop,
 * which compilers convert better. A draw of an integer law by a 32-bit word is below 2^25, so no
 * sum leaves 32 bits but an undecided one, which is none. */
#define DPF_FEW_BITS(name, type)                                                                                       \
    __attribute__((noinline)) static void name(const dpf_sums *sums, const int32_t *restrict noise, int at, int end,   \
                                               int bounded, int non_temporal) {                                        \
        typedef type __attribute__((may_alias)) cell;                                                                  \
        cell *restrict const x = (cell *)sums->out;                                                                    \
        const int32_t lower = (int32_t)sums->lower, upper = (int32_t)sums->upper;                                      \
        memcpy(x + at, sums->x + at * (int)sizeof *x, (size_t)(end - at) * sizeof *x);                                 \
        DPF_COPIED;                                                                                                    \
        for (int i = at; i < end; i++) {                                                                               \
            const int32_t sum = (int32_t)((uint32_t)x[i] + (uint32_t)noise[i]);                                        \
            const int32_t above = sum < lower ? lower : sum, within = above > upper ? upper : above;                   \
            x[i] = (type)within;                                                                                       \
        }                                                                                                              \
        (void)bounded, (void)non_temporal; /* always, and never */                                                     \
    }
DPF_FEW_BITS(DPF_INT16_cells, int16_t)
DPF_FEW_BITS(DPF_UINT16_cells, uint16_t)
DPF_FEW_BITS(DPF_INT8_cells, int8_t)
DPF_FEW_BITS(DPF_UINT8_cells, uint8_t)

/* The sums of a batch of integers and draws by 32-bit words. */
static void sum_cells(const dpf_release *how, const int32_t *cells, const void *in, void *out) {
    const dpf_sums sums = sums_of(how, in, out);
    switch (2 * sums.kind + sums.bounded) {
#define DPF_CELLS(kind, type)                                                                                          \
    case 2 * kind:                                                                                                     \
        kind##_cells(&sums, cells, 0, DPF_WORDS, 0, 0);                                                                \
        break;                                                                                                         \
    case 2 * kind + 1:                                                                                                 \
        kind##_cells(&sums, cells, 0, DPF_WORDS, 1, 0);                                                                \
        break;
        DPF_CELLS(DPF_INT64, int64_t)
        DPF_INTEGERS(DPF_CELLS)
    }
}

/* Store the sums from .. end - 1 at `out`; hi: upper limbs of noise alone, if it has any. */
static void store_sums(const dpf_release *how, const dpf_batch *batch, const int64_t *hi, int from, int end,
                       void *out) {
    if (how->kind == DPF_NOISE)
        for (int i = from; i < end; i++) {
            ((int64_t *)out)[2 * (i - from)] = batch->sums[i];
            ((int64_t *)out)[2 * (i - from) + 1] = hi ? hi[i] : batch->sums[i] >> 63;
        }
    else if (how->kind == DPF_FLOAT32)
        for (int i = from; i < end; i++) /* exact: they are rounded to float32 */
            ((float *)out)[i - from] = (float)double_of((uint64_t)batch->sums[i]);
    else if (dpf_size(how->kind) < 8)
        narrow(how->kind, batch->sums + from, end - from, out);
    else
        store(out, batch->sums + from, end - from, how->non_temporal);
}

/* One value plus one draw. */
static void sum_up_one(const dpf_release *how, uint64_t value, int64_t lo, int64_t hi, void *out) {
    const int is_real = how->kind == DPF_FLOAT64 || how->kind == DPF_FLOAT32;
    const int64_t turn = turn_of(how->kind);
    int64_t sum;
    if (is_real) {
        const double given = made_public(how, double_of(value));
        const double point = on_grid(how, given, in_steps(how, given));
        const double found = how->limbs == 2 ? joined_wide(how, point, lo, hi)
                             : how->single   ? joined_single(how, point, (double)lo)
                                             : joined(how, point, (double)lo);
        if (how->kind == DPF_FLOAT32) {
            *(float *)out = (float)found;
            return;
        }
        sum = (int64_t)bits_of(found);
    } else if (how->limbs == 1) {
        sum =
            clamped_sum((int64_t)value ^ turn, lo, (int64_t)how->lower.lo ^ turn, (int64_t)how->upper.lo ^ turn) ^ turn;
    } else {
        sum = clamped_sum_wide((int64_t)value, how->kind == DPF_UINT64, lo, hi, (dpf_signed)wide_of(how->lower),
                               (dpf_signed)wide_of(how->upper));
    }
    if (dpf_size(how->kind) < 8)
        narrow(how->kind, &sum, 1, out);
    else
        *(int64_t *)out = sum;
}
