/* SPDX-License-Identifier: Apache-2.0
 * The discrete Laplace law by inversion, refined until decided [Devroye 1986, II.2; GRS09]:
 *     X = S floor(t (C - ln U)),  C = ln(2 / (1 + q)),  q = exp(-1/t).
 * With C = 0, and no S by the caller: the one-sided geometric law. Proof: discrete_laplace.md. */
#pragma once
#include "draw.h"
#include "exponential.h"

DPF_INLINE int64_t with_sign(int64_t magnitude, uint64_t negative) {
    const int64_t mask = -(int64_t)negative;
    return (magnitude ^ mask) - mask;
}

/* max(z, 0) without a branch: the time must not depend on the sign. */
DPF_INLINE double positive(double z) {
    const int64_t bits = (int64_t)bits_of(z);
    return double_of((uint64_t)(bits & ~(bits >> 63)));
}

/* Double (section 4): e = -ln U at the middle of its cell, which has x - 1/2 below it. */
DPF_INLINE int64_t discrete_laplace_by_double(const dpf_plan *plan, double x, double e, uint64_t negative) {
    const double z = plan->t * e + plan->logarithm.offset;
    const double y = positive(z); /* there is no threshold at 0 */
    int decided;
    const double k = nearest(plan, -0.0, y, 0.0, x, &decided) + DPF_TO_INTEGER; /* -0.0 + y is y */
    const int64_t magnitude = (int64_t)(bits_of(k) - bits_of(DPF_TO_INTEGER));
    return decided ? with_sign(magnitude, negative) : DPF_UNDECIDED_LIMB;
}

/* The same from 32-bit words of level 0, with their signs. */
static void discrete_laplace_short(const dpf_plan *plan, const uint32_t *restrict words, dpf_short *restrict s) {
    const double t = plan->t, offset = plan->logarithm.offset;
    short_middles(words, DPF_WORDS, 31, s->weight);
    fetch_piece(s, 0, 2);
    short_logs(DPF_WORDS, 31, s->weight, s->noise);
    fetch_piece(s, 1, 2);
    for (int i = 0; i < DPF_WORDS; i++)
        s->noise[i] = turned32(fused(t, s->noise[i], offset), widened(words[i]));
}

#if DPF_FMA
/* Float (section 4): the same, for a scale of at most 2^12; the digits are rounded to 24 bits. */
DPF_INLINE int32_t discrete_laplace_by_float(const dpf_plan *plan, uint32_t word) {
    const float x = (float)(int32_t)(word & 0x7fffffff);
    const float z = __builtin_fmaf((float)plan->t, minus_log_float(x), (float)plan->logarithm.offset);
    const float y = float_of(bits_of_float(z) ^ (word & 0x80000000));
    const float shifted = y + DPF_FLOAT_TO_INTEGER, g = y - (shifted - DPF_FLOAT_TO_INTEGER);
    const float margin = __builtin_fmaf(-(float)plan->float_error, z, (float)plan->float_margin);
    const int32_t k = (int32_t)(bits_of_float(shifted) - bits_of_float(DPF_FLOAT_TO_INTEGER));
    return (margin - __builtin_fabsf(g)) * x > 2.0f * (float)plan->half_cell ? k : DPF_UNDECIDED_CELL;
}

static void discrete_laplace_by_floats(const dpf_plan *plan, const uint32_t *restrict words, int32_t *restrict cells) {
    const dpf_plan p = *plan;
    for (int i = 0; i < DPF_WORDS; i++)
        cells[i] = discrete_laplace_by_float(&p, words[i]);
}
#endif

static void discrete_laplace_level0(const dpf_plan *plan, const uint64_t *restrict word, const double *restrict offset,
                                    int64_t *restrict cells) {
    const dpf_plan p = *plan;
    _Alignas(64) int64_t e[DPF_STEP];
    (void)offset;
    for (int i = 0; i < DPF_STEP; i++)
        cells[i] = long_middle(word[i] & INT64_MAX);
    long_logs(DPF_STEP, 63, cells, e);
    for (int i = 0; i < DPF_STEP; i++)
        cells[i] =
            discrete_laplace_by_double(&p, double_of((uint64_t)cells[i]), double_of((uint64_t)e[i]), word[i] >> 63);
    dpf_wipe(e, sizeof e);
}

static void discrete_laplace_by_double_both(const dpf_plan *plan, int n, const uint64_t *restrict word,
                                            const uint64_t *restrict more, int64_t *restrict lo, int64_t *restrict hi) {
    const dpf_plan p = *plan;
    for (int i = 0; i < n; i++)
        lo[i] = long_middle(upper(word[i], p.width, more[i]));
    long_logs(n, 64, lo, hi);
    for (int i = 0; i < n; i++) {
        lo[i] = discrete_laplace_by_double(&p, double_of((uint64_t)lo[i]), double_of((uint64_t)hi[i]),
                                           word[i] >> (p.width - 1));
        hi[i] = lo[i] == DPF_UNDECIDED_LIMB ? DPF_UNDECIDED_LIMB : lo[i] >> 63;
    }
}

#if DPF_FMA
/* Double-double (section 5): U from at least 95 digits. A draw in two limbs. */
DPF_INLINE void discrete_laplace_by_double_double(const dpf_plan *plan, uint64_t u, uint64_t more, uint64_t negative,
                                                  int64_t *lo, int64_t *hi) {
    double product, rest, off;
    int64_t low, high;
    scaled_log_double_double(plan, u, more, &product, &rest);
    nearest_double_double(product, rest - 0.5, &low, &high, &off);
    const uint64_t mask = -negative, signed_low = ((uint64_t)low ^ mask) - mask;
    const int decided = (__builtin_fabs(off) < plan->double_double_margin) & (u >> 32 != 0);
    *lo = (int64_t)signed_low;
    *hi = decided ? (int64_t)(((uint64_t)high ^ mask) + (negative & (signed_low == 0))) : DPF_UNDECIDED_LIMB;
}

static void discrete_laplace_by_double_double_both(const dpf_plan *plan, int n, const uint64_t *restrict word,
                                                   const uint64_t *restrict more, int64_t *restrict lo,
                                                   int64_t *restrict hi) {
    const dpf_plan p = *plan;
    for (int i = 0; i < n; i++) {
        const uint64_t u = upper(word[i], p.width, more[i]), then = lower(p.width, more[i]);
        discrete_laplace_by_double_double(&p, u, then, word[i] >> (p.width - 1), &lo[i], &hi[i]);
    }
}
#endif

/* Integers (section 6): U lies in [prefix, prefix + 2^(128 - bits)) 2^-128. */
DPF_INLINE int discrete_laplace_by_integers(const dpf_plan *plan, dpf_wide prefix, int bits, dpf_wide *magnitude) {
    uint64_t cell;
    const dpf_wide y = scaled_log_integers(plan, prefix, bits, &cell);
    const uint64_t one = (uint64_t)1 << scaled_log_bits, fraction = (uint64_t)y & (one - 1), error = scaled_log_error;
    *magnitude = y >> scaled_log_bits;
    return (prefix >> 64 != 0) & ((*magnitude == 0) | (fraction >= error + cell)) & (fraction + error < one);
}

/* A loop of its own, so that its sixty values find registers. */
__attribute__((noinline)) static void discrete_laplace_by_integers_both(const dpf_plan *plan, int n,
                                                                        const uint64_t *restrict word,
                                                                        const uint64_t *restrict more,
                                                                        int64_t *restrict lo, int64_t *restrict hi) {
    const dpf_plan p = *plan;
    for (int i = 0; i < n; i++) {
        const dpf_wide prefix = (dpf_wide)upper(word[i], p.width, more[i]) << 64 | lower(p.width, more[i]);
        dpf_wide magnitude;
        const int decided = discrete_laplace_by_integers(&p, prefix, p.width + 63, &magnitude);
        const dpf_wide mask = -(dpf_wide)(word[i] >> (p.width - 1)), draw = (magnitude ^ mask) - mask;
        lo[i] = (int64_t)(uint64_t)draw;
        hi[i] = decided ? (int64_t)(uint64_t)(draw >> 64) : DPF_UNDECIDED_LIMB;
    }
}

static void discrete_laplace_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    if (tier == DPF_DOUBLE)
        discrete_laplace_by_double_both(plan, draws->n, draws->word[0], draws->more[0], draws->lo, draws->hi);
#if DPF_FMA
    else if (tier == DPF_DOUBLE_DOUBLE)
        discrete_laplace_by_double_double_both(plan, draws->n, draws->word[0], draws->more[0], draws->lo, draws->hi);
#endif
    else
        discrete_laplace_by_integers_both(plan, draws->n, draws->word[0], draws->more[0], draws->lo, draws->hi);
}

static const dpf_law discrete_laplace_law = {.level0 = discrete_laplace_level0,
                                             .by_short = discrete_laplace_short,
#if DPF_FMA
                                             .by_floats = discrete_laplace_by_floats,
#endif
                                             .decide = discrete_laplace_decide,
                                             .table = 1,
                                             .last_tier = DPF_INTEGER,
                                             .exact = dpf_exact_discrete_laplace};

__attribute__((noinline)) static void discrete_laplace_bulk(dpf_job *job) {
    bulk(&discrete_laplace_law, job);
}

static int64_t discrete_laplace_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    return draw_all(&discrete_laplace_law, discrete_laplace_bulk, how, start, n, in, out);
}

static void discrete_laplace_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                                  dpf_u128 *found, uint8_t *decided) {
    if (tier == DPF_LEVEL0) {
        planted_level0(&discrete_laplace_law, plan, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint64_t first = planted[i].digits[0], then = planted[i].digits[1];
        int64_t low = 0, high = 0;
        if (tier == DPF_TABLE) {
            low = plan->table[first];
            high = low == DPF_UNDECIDED ? DPF_UNDECIDED_LIMB : low >> 63;
        } else if (tier == DPF_FLOAT || (tier == DPF_DOUBLE && bits == 31)) {
            const uint32_t words[DPF_WORDS] = {(uint32_t)first};
            dpf_short s;
            int sure;
            s.ahead = DPF_AT_HAND(words);
            discrete_laplace_short(plan, words, &s);
            const double k = nearest32(plan, s.noise[0], 0.0, s.weight[0], &sure);
            low = sure ? (int64_t)k : 0;
#if DPF_FMA
            if (tier == DPF_FLOAT) {
                low = discrete_laplace_by_float(plan, words[0]);
                sure = low != DPF_UNDECIDED_CELL;
            }
#endif
            high = sure ? low >> 63 : DPF_UNDECIDED_LIMB;
        } else if (tier == DPF_DOUBLE) {
            const double x = as_double(first) + 0.5;
            low = discrete_laplace_by_double(plan, x, long_log(x, bits), 0);
            high = low == DPF_UNDECIDED_LIMB ? DPF_UNDECIDED_LIMB : low >> 63;
#if DPF_FMA
        } else if (tier == DPF_DOUBLE_DOUBLE) {
            discrete_laplace_by_double_double(plan, first, then, 0, &low, &high);
#endif
        } else {
            const dpf_wide prefix = bits <= 64 ? (dpf_wide)first << (128 - bits) : (dpf_wide)first << 64 | then;
            dpf_wide magnitude;
            high = discrete_laplace_by_integers(plan, prefix, bits, &magnitude) ? (int64_t)(uint64_t)(magnitude >> 64)
                                                                                : DPF_UNDECIDED_LIMB;
            low = (int64_t)(uint64_t)magnitude;
        }
        decided[i] = high != DPF_UNDECIDED_LIMB;
        found[i].lo = decided[i] ? (uint64_t)low : 0;
        found[i].hi = decided[i] ? (uint64_t)high : 0;
    }
}

static const dpf_code discrete_laplace = {"discrete_laplace", 0, discrete_laplace_add, discrete_laplace_tier};
