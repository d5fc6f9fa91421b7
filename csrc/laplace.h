/* SPDX-License-Identifier: Apache-2.0
 * The real Laplace law, added and then rounded to a grid [laplace.md, its sections]:
 *     K = floor(f + S t E + 1/2),  E = -ln U,
 * t the scale in steps of the grid, f the value's place on it. */
#pragma once
#include "draw.h"
#include "exponential.h"
#include "extended.h"

/* Double (section 3): e = -ln U at the middle of its cell, which has x - 1/2 below it. */
DPF_INLINE double laplace_by_double(const dpf_plan *plan, double x, double e, uint64_t negative, double offset,
                                    int *decided) {
    return nearest(plan, offset, turned(plan->t * e, negative), 0.0, x, decided);
}

static void laplace_short(const dpf_plan *plan, const uint32_t *restrict words, dpf_short *restrict s) {
    const double t = plan->t;
    short_middles(words, DPF_WORDS, 31, s->weight);
    fetch_piece(s, 0, 2);
    short_logs(DPF_WORDS, 31, s->weight, s->noise);
    fetch_piece(s, 1, 2);
    for (int i = 0; i < DPF_WORDS; i++)
        s->noise[i] = turned32(t * s->noise[i], widened(words[i]));
}

static void laplace_level0(const dpf_plan *plan, const uint64_t *restrict word, const double *restrict offset,
                           int64_t *restrict cells) {
    const dpf_plan p = *plan;
    _Alignas(64) int64_t e[DPF_STEP];
    for (int i = 0; i < DPF_STEP; i++)
        cells[i] = long_middle(word[i] & INT64_MAX);
    long_logs(DPF_STEP, 63, cells, e);
    for (int i = 0; i < DPF_STEP; i++) {
        const double x = double_of((uint64_t)cells[i]), by = double_of((uint64_t)e[i]);
        int sure;
        const double k = laplace_by_double(&p, x, by, word[i] >> 63, offset[i], &sure);
        cells[i] = sure ? (int64_t)bits_of(k) : DPF_UNDECIDED_LIMB;
    }
    dpf_wipe(e, sizeof e);
}

static void laplace_by_double_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    for (int i = 0; i < draws->n; i++)
        lo[i] = long_middle(upper(word[i], p.width, more[i]));
    long_logs(draws->n, 64, lo, hi);
    for (int i = 0; i < draws->n; i++) {
        const double x = double_of((uint64_t)lo[i]), e = double_of((uint64_t)hi[i]);
        int sure;
        const double k = laplace_by_double(&p, x, e, word[i] >> (p.width - 1), offset[i], &sure);
        lo[i] = (int64_t)(bits_of(k + DPF_TO_INTEGER) - bits_of(DPF_TO_INTEGER));
        hi[i] = sure ? lo[i] >> 63 : DPF_UNDECIDED_LIMB;
    }
}

/* Extended (section 8): high + low = -ln U at the middle of U's cell of 64 digits, x in it. */
DPF_INLINE void laplace_by_extended(const dpf_plan *plan, double x, double high, double low, uint64_t negative,
                                    double offset, int64_t *lo, int64_t *hi) {
    const double whole = (plan->t * high + DPF_TO_INTEGER) - DPF_TO_INTEGER;
    const double part = product_less(plan->t, high, whole) + fused(low, plan->t, plan->t_low * high);
    const double z = turned(part, negative) + offset, shifted = z + DPF_TO_INTEGER;
    const double room = plan->extended_margin - __builtin_fabs(z - (shifted - DPF_TO_INTEGER));
    *lo = integer_of(turned(whole, negative) + shifted);
    *hi = room * x > plan->half_cell ? *lo >> 63 : DPF_UNDECIDED_LIMB;
}

/* In two loops: one would wait for its own latency. */
static void laplace_by_extended_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    const int64_t n = draws->n;
    _Alignas(64) double x[64], high[64], low[64];
    for (int64_t base = 0; base < n; base += 64) {
        const int64_t some = n - base < 64 ? n - base : 64;
        for (int64_t i = 0; i < some; i++)
            minus_log_extended(upper(word[base + i], p.width, more[base + i]), &x[i], &high[i], &low[i]);
        for (int64_t i = 0; i < some; i++)
            laplace_by_extended(&p, x[i], high[i], low[i], word[base + i] >> (p.width - 1), offset[base + i],
                                &lo[base + i], &hi[base + i]);
    }
    dpf_wipe(x, sizeof x);
    dpf_wipe(high, sizeof high);
    dpf_wipe(low, sizeof low);
}

#if DPF_FMA
/* Double-double (section 4): U from at least 95 digits. */
DPF_INLINE void laplace_by_double_double(const dpf_plan *plan, uint64_t u, uint64_t more, uint64_t negative,
                                         double offset, int64_t *lo, int64_t *hi) {
    double product, rest, off;
    int64_t high;
    scaled_log_double_double(plan, u, more, &product, &rest);
    nearest_double_double(turned(product, negative), turned(rest, negative) + offset, lo, &high, &off);
    const int decided = (__builtin_fabs(off) < plan->double_double_margin) & (u >> 32 != 0);
    *hi = decided ? high : DPF_UNDECIDED_LIMB;
}

static void laplace_by_double_double_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    for (int i = 0; i < draws->n; i++) {
        const uint64_t u = upper(word[i], p.width, more[i]), then = lower(p.width, more[i]);
        laplace_by_double_double(&p, u, then, word[i] >> (p.width - 1), offset[i], &lo[i], &hi[i]);
    }
}
#endif

/* Integers (section 5), in units of 2^-59 of a step: f is cut to them. */
DPF_INLINE int laplace_by_integers(const dpf_plan *plan, dpf_wide prefix, int bits, uint64_t negative, double offset,
                                   dpf_wide *outcome) {
    uint64_t cell;
    const dpf_wide y = scaled_log_integers(plan, prefix, bits, &cell), mask = -(dpf_wide)negative;
    const uint64_t one = (uint64_t)1 << scaled_log_bits, error = scaled_log_error + 2;
    const int64_t f = (int64_t)(offset * 0x1p59);
    const dpf_wide z = ((y ^ mask) - mask) + (uint64_t)(f + (int64_t)(one >> 1));
    const uint64_t fraction = (uint64_t)z & (one - 1);
    const uint64_t below = error + (negative ? 0 : cell), above = error + (negative ? cell : 0);
    const dpf_wide sign = -(z >> 127);
    *outcome = z >> scaled_log_bits | sign << (128 - scaled_log_bits);
    return (prefix >> 64 != 0) & (fraction >= below) & (fraction + above < one);
}

__attribute__((noinline)) static void laplace_by_integers_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    for (int i = 0; i < draws->n; i++) {
        const dpf_wide prefix = (dpf_wide)upper(word[i], p.width, more[i]) << 64 | lower(p.width, more[i]);
        dpf_wide draw;
        const int decided =
            laplace_by_integers(&p, prefix, p.width + 63, word[i] >> (p.width - 1), draws->offset[i], &draw);
        draws->lo[i] = (int64_t)(uint64_t)draw;
        draws->hi[i] = decided ? (int64_t)(uint64_t)(draw >> 64) : DPF_UNDECIDED_LIMB;
    }
}

static void laplace_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    if (tier == DPF_DOUBLE)
        laplace_by_double_both(plan, draws);
    else if (tier == DPF_EXTENDED)
        laplace_by_extended_both(plan, draws);
#if DPF_FMA
    else if (tier == DPF_DOUBLE_DOUBLE)
        laplace_by_double_double_both(plan, draws);
#endif
    else
        laplace_by_integers_both(plan, draws);
}

static const dpf_law laplace_law = {.level0 = laplace_level0,
                                    .by_short = laplace_short,
                                    .decide = laplace_decide,
                                    .table = 0,
                                    .last_tier = DPF_INTEGER,
                                    .exact = dpf_exact_laplace,
                                    .real = 1};

__attribute__((noinline)) static void laplace_bulk(dpf_job *job) {
    bulk(&laplace_law, job);
}

static int64_t laplace_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    return draw_all(&laplace_law, laplace_bulk, how, start, n, in, out);
}

static void laplace_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                         dpf_u128 *found, uint8_t *decided) {
    if (tier == DPF_LEVEL0) {
        planted_level0(&laplace_law, plan, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const dpf_planted d = planted[i];
        const uint64_t first = d.digits[0], negative = (uint64_t)d.negative;
        int64_t low = 0, high = 0;
        int sure = 1;
        if (tier == DPF_DOUBLE) {
            const uint32_t words[DPF_WORDS] = {(uint32_t)(first | negative << 31)};
            const double x = as_double(first) + 0.5;
            dpf_short s;
            s.ahead = DPF_AT_HAND(words);
            laplace_short(plan, words, &s);
            const double k = bits == 31 ? nearest32(plan, d.offset + s.noise[0], 0.0, s.weight[0], &sure)
                                        : laplace_by_double(plan, x, long_log(x, bits), negative, d.offset, &sure);
            low = sure ? (int64_t)k : 0;
            high = low >> 63;
        } else if (tier == DPF_EXTENDED) {
            double x, above, below;
            minus_log_extended(first, &x, &above, &below);
            laplace_by_extended(plan, x, above, below, negative, d.offset, &low, &high);
#if DPF_FMA
        } else if (tier == DPF_DOUBLE_DOUBLE) {
            laplace_by_double_double(plan, first, d.digits[1], negative, d.offset, &low, &high);
#endif
        } else {
            const dpf_wide prefix = bits <= 64 ? (dpf_wide)first << (128 - bits) : (dpf_wide)first << 64 | d.digits[1];
            dpf_wide draw;
            sure = laplace_by_integers(plan, prefix, bits, negative, d.offset, &draw);
            low = (int64_t)(uint64_t)draw;
            high = (int64_t)(uint64_t)(draw >> 64);
        }
        decided[i] = sure && high != DPF_UNDECIDED_LIMB;
        found[i].lo = decided[i] ? (uint64_t)low : 0;
        found[i].hi = decided[i] ? (uint64_t)high : 0;
    }
}

static const dpf_code laplace = {"laplace", 1, laplace_add, laplace_tier};
