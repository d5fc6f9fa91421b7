/* SPDX-License-Identifier: Apache-2.0
 * The discrete Gaussian law P(k) ~ exp(-k^2 / 2 sigma^2) [CKS20]: by inversion if thresholds are
 * few, else by a rounded Gaussian that is nearly always accepted [discrete_gaussian.md]. */
#pragma once
#include "gaussian.h"

/* Section 2: U lies in [u, u + 1) 2^-64; count the thresholds above u, unless one lies there. */
DPF_INLINE int64_t discrete_gaussian_search(const dpf_plan *plan, uint64_t u, int *decided) {
    const uint64_t bits = bits_of(as_double(u | (u == 0)));
    uint64_t at = plan->search.guide[(bits >> 48) - (1023 << 4)];
    for (int step = plan->search.steps - 1; step >= 0; step--) {
        const uint64_t next = at + ((uint64_t)1 << step);
        at = plan->search.thresholds[next - 1] > u ? next : at;
    }
    *decided = plan->search.thresholds[at] != u;
    return (int64_t)at;
}

static void discrete_gaussian_read_tables(const dpf_plan *plan) {
    const uint16_t *const guide = plan->search.guide;
    read_lines(guide, (64 * 16 + 1) * sizeof *guide);
    read_lines(plan->search.thresholds, ((size_t)guide[0] + ((size_t)1 << plan->search.steps)) * sizeof(uint64_t));
}

static void discrete_gaussian_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    (void)tier;
    for (int i = 0; i < draws->n; i++) {
        int decided;
        const int64_t magnitude = discrete_gaussian_search(&p, word[i] << 49 | more[i] >> 15, &decided);
        const int64_t mask = -(int64_t)(word[i] >> 15);
        lo[i] = (magnitude ^ mask) - mask;
        hi[i] = decided ? lo[i] >> 63 : DPF_UNDECIDED_LIMB;
    }
}

#if DPF_FMA
enum { DPF_FLOAT_MOST = 0x7fffe000 }; /* from here on U is so near to 1 that the next tier decides */

/* The integer nearest to tr side if its distance, times weight, is below least; else it is
 * DPF_UNDECIDED_CELL. */
DPF_INLINE int32_t rounded_gaussian_cell(float tr, float side, float weight, float least) {
    const float shifted = __builtin_fmaf(tr, side, DPF_FLOAT_TO_INTEGER);
    const float g = __builtin_fmaf(tr, side, DPF_FLOAT_TO_INTEGER - shifted);
    const int32_t k = (int32_t)(bits_of_float(shifted) - bits_of_float(DPF_FLOAT_TO_INTEGER));
    return __builtin_fabsf(g) * weight < least ? k : DPF_UNDECIDED_CELL;
}

/* Floats (section 3): a pair's proposals from its words of level 0. */
DPF_INLINE void rounded_gaussian_pair(const dpf_plan *plan, uint32_t radius, uint32_t angle, int32_t *draw) {
    const float square = (float)(2.0 * plan->t * plan->t), cell = (float)plan->half_cell;
    const int32_t a = (int32_t)(radius >> 1);
    const float x = (float)a, tr = __builtin_sqrtf(square * minus_log_float(x)), weight = tr * x;
    const float room = __builtin_fmaf(-(float)plan->float_error, tr, (float)plan->float_margin);
    const float left = __builtin_fmaf(room, tr, -(float)plan->normal.float_log_error);
    const float least = a < DPF_FLOAT_MOST ? __builtin_fmaf(left, x, -cell) : -1.0f;
    float sine, cosine;
    float_octant((float)(int32_t)(angle & 0x1fffffff) * 0x1p-29f, &sine, &cosine);
    /* masks, as in side_of */
    const uint32_t swap = (bits_of_float(sine) ^ bits_of_float(cosine)) & (0 - (angle >> 29 & 1));
    const float first = float_of(bits_of_float(cosine) ^ swap ^ (angle & 0x80000000));
    const float second = float_of(bits_of_float(sine) ^ swap ^ (angle << 1 & 0x80000000));
    draw[0] = rounded_gaussian_cell(tr, first, weight, least);
    draw[64] = rounded_gaussian_cell(tr, second, weight, least);
}

static void rounded_gaussian_by_floats(const dpf_plan *plan, const uint32_t *restrict words, int32_t *restrict cells) {
    const dpf_plan p = *plan;
    for (int base = 0; base < DPF_WORDS; base += 128)
        for (int i = base; i < base + 64; i++)
            rounded_gaussian_pair(&p, words[i], words[i + 64], cells + i);
}
#endif

/* Section 4. W = 2^64 - 1 - V's first 64 digits: 1 - V lies in (W, W + 1] 2^-64, and a proposal k
 * is accepted if 1 - V > P(k is rejected). 1: accepted, -1: rejected, 0: undecided. */
static int64_t accepts_proposal(const dpf_plan *plan, int64_t k, uint64_t w) {
    const double size = (double)k, most = plan->normal.rejects * (size * size);
    const double least = most * (1.0 - 0x1p-17 - most);
    const double low = as_double(w) * 0x1p-64, high = (as_double(w) + 1.0) * 0x1p-64;
    return (int64_t)(low > most * (1.0 + 0x1p-40)) - (int64_t)(high < least * (1.0 - 0x1p-40));
}

static void rounded_gaussian_judge(const dpf_plan *plan, int64_t n, const int64_t *restrict k,
                                   const int64_t *restrict k_hi, const uint64_t *restrict accept,
                                   const uint64_t *restrict more_accept, int64_t *restrict verdict) {
    const dpf_plan p = *plan;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = accept[i] << 48 | more_accept[i] >> 16;
        const int64_t known = -(int64_t)fits(k[i], k_hi[i], 62); /* else k is cut */
        verdict[i] = accepts_proposal(&p, k[i] & known, ~v) & known;
    }
}

/* With thresholds, and without. */
static const dpf_law discrete_gaussian_law = {
    .decide = discrete_gaussian_decide, .table = 1, .last_tier = DPF_DOUBLE, .exact = dpf_exact_discrete_gaussian};
static const dpf_law rounded_gaussian_law = {.level0 = gaussian_level0,
                                             .by_short = gaussian_short,
#if DPF_FMA
                                             .by_floats = rounded_gaussian_by_floats,
#endif
                                             .decide = gaussian_decide,
                                             .box_muller = 1,
                                             .last_tier = DPF_DOUBLE_DOUBLE,
                                             .judge = rounded_gaussian_judge,
                                             .exact = dpf_exact_gaussian};

__attribute__((noinline)) static void discrete_gaussian_bulk(dpf_job *job) {
    bulk(&discrete_gaussian_law, job);
}

__attribute__((noinline)) static void rounded_gaussian_bulk(dpf_job *job) {
    bulk(&rounded_gaussian_law, job);
}

static int64_t discrete_gaussian_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    if (!how->plan->search.steps)
        return draw_all(&rounded_gaussian_law, rounded_gaussian_bulk, how, start, n, in, out);
    if (how->constant_work)
        discrete_gaussian_read_tables(how->plan);
    return draw_all(&discrete_gaussian_law, discrete_gaussian_bulk, how, start, n, in, out);
}

static void discrete_gaussian_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                                   dpf_u128 *found, uint8_t *decided) {
    for (int64_t i = 0; i < n && tier == DPF_ACCEPTANCE; i++) {
        const int64_t verdict = accepts_proposal(plan, (int64_t)planted[i].digits[0], planted[i].digits[1]);
        decided[i] = verdict != 0;
        found[i] = (dpf_u128){verdict == 1, 0};
    }
    if (tier == DPF_ACCEPTANCE)
        return;
    if (!plan->search.steps && (tier == DPF_LEVEL0 || tier == DPF_FLOAT)) { /* floats have level 0 alone */
        planted_level0(&rounded_gaussian_law, plan, n, planted, found, decided);
        return;
    }
    if (!plan->search.steps) {
        gaussian_tier(plan, tier, bits, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int sure;
        int64_t draw;
        if (tier == DPF_TABLE) {
            draw = plan->table[planted[i].digits[0]];
            sure = draw != DPF_UNDECIDED;
        } else {
            draw = discrete_gaussian_search(plan, planted[i].digits[0], &sure);
        }
        decided[i] = (uint8_t)sure;
        found[i].lo = sure ? (uint64_t)draw : 0;
        found[i].hi = sure ? (uint64_t)(draw >> 63) : 0;
    }
}

static const dpf_code discrete_gaussian = {"discrete_gaussian", 0, discrete_gaussian_add, discrete_gaussian_tier};
