/* SPDX-License-Identifier: Apache-2.0
 * Make plans: the constants of a law from its exact scale [exact.md, section 7]. The scales at
 * which a tier, or the width of a word, hands over to the next are functions of the parameters
 * alone; the widths belong to the stream. Each law's .md derives its own. */
#define LIMBS 6 /* 256 digits behind the point: a double of what is at least 2^-123, and more */
#include "exact.h"

/* ---- the scale, or its square */

enum { BEHIND = 2 * (DPF_EXACT_LIMBS - 2), WHOLE = BEHIND + 2 };

/* A rational: its digits to the root of a unit of draws, and whether there are more. */
typedef struct {
    uint64_t limb[WHOLE];
    int more;
} measure;

static int length(const uint64_t *limb, int64_t n) {
    return 64 * (int)n - __builtin_clzll(limb[n - 1]);
}

/* 0: it is no ratio, or surely not from 2^-124 to 2^124. */
static int measured(const dpf_ratio *of, measure *to) {
    const int64_t n = of->above_limbs, m = of->below_limbs;
    if (n < 1 || m < 1 || n > DPF_RATIO_LIMBS || m > DPF_RATIO_LIMBS || !of->above[n - 1] || !of->below[m - 1])
        return 0;
    const int longer = length(of->above, n) - length(of->below, m);
    if (longer < -125 || longer > 125)
        return 0;
    memset(to, 0, sizeof *to);
    to->more = divide_integers(of->above, (int)n, of->below, (int)m, 64 * BEHIND, to->limb);
    return 1;
}

static measure power_of_two(int exponent) {
    measure a = {{0}, 0};
    const int place = exponent + 64 * BEHIND;
    a.limb[place / 64] = (uint64_t)1 << place % 64;
    return a;
}

/* Whether a <= b, where all digits of b are there. */
static int at_most(const measure *a, measure b) {
    int i = WHOLE - 1;
    while (i > 0 && a->limb[i] == b.limb[i])
        i--;
    return a->limb[i] < b.limb[i] || (a->limb[i] == b.limb[i] && !a->more);
}

static int upto(const measure *a, int exponent) {
    return at_most(a, power_of_two(exponent));
}

static int at_least(const measure *a, measure b) {
    b.more = 0;
    return at_most(&b, *a);
}

static int between(const measure *a, int least, int most) {
    return at_least(a, power_of_two(least)) && upto(a, most);
}

/* The first digits of what begins before the point. */
static fixed beginning_of(const uint64_t *limb, int limbs) {
    fixed a;
    memcpy(a.limb, limb + limbs - LIMBS, sizeof a.limb);
    return a;
}

/* ---- doubles */

/* 2^exponent, which is normal. */
static double binary(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* The nearest double; of two, the even one. */
static double nearest(fixed a) {
    const int top = top_digit(&a), first = top - 63;
    uint64_t rest = 0;
    fixed upper = a;
    if (top < 0)
        return 0.0;
    first < 0 ? shift_left(&upper, -first) : shift_right(&upper, first);
    for (int at = 0; at < first; at++)
        rest |= digit(&a, at);
    return (double)(upper.limb[0] | rest) * binary(first - 64 * POINT);
}

/* The nearest double of a - b. */
static double nearest_difference(fixed a, fixed b) {
    if (less(&a, &b)) {
        take(&b, &a);
        return -nearest(b);
    }
    take(&a, &b);
    return nearest(a);
}

/* A double from 0 to 2^64, a multiple of a unit. */
static fixed fixed_of(double x) {
    int up = 0;
    while (x != 0.0 && x < 0x1p63)
        x *= 2.0, up++;
    fixed a = {{[POINT] = (uint64_t)x}};
    shift_right(&a, up);
    return a;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* floor(a 2^bits), below 2^128 */
static dpf_u128 floor_at(fixed a, int bits) {
    shift_right(&a, 64 * POINT - bits);
    return (dpf_u128){a.limb[0], a.limb[1]};
}

/* ---- plans */

/* What every plan has of its scale; whose first digits come back. */
static fixed scaled(dpf_plan *plan, const uint64_t *scale) {
    const fixed t = beginning_of(scale, DPF_EXACT_LIMBS);
    memcpy(plan->scale, scale, sizeof plan->scale);
    plan->t = nearest(t);
    plan->t_low = nearest_difference(t, fixed_of(plan->t));
    return t;
}

/* What the two laws that take one logarithm have in common. */
static fixed logarithmic(dpf_plan *plan, const measure *scale, double relative_error) {
    const double short_error = 3 * 0x1p-37; /* by level 0 of 32-bit words, for each unit of t + 1 */
    const fixed t = scaled(plan, scale->limb + WHOLE - DPF_EXACT_LIMBS);
    const int whole = top_digit(&t) - 64 * POINT;
    plan->relative_error = relative_error;
    plan->margin = 0.5 - relative_error * (plan->t + 2);
    plan->margin32 = 0.5 - short_error * (plan->t + 1);
    plan->half_cell = (plan->t / 2 + 0.25) * (1 + 0x1p-20);
    plan->double_double_margin = 0.5 - plan->t * 0x1p-72 - 0x1p-38;
    plan->logarithm.wide_t = floor_at(t, 67);
    plan->logarithm.wide_c = (dpf_u128){DPF_ONE_SIDED, 0};
    plan->logarithm.wide_cell = 61 + (whole < 0 ? -1 : whole);
    return t;
}

/* Makes the plans of one law, as dpf_make_plan says; `makers` lists them as isa.h does its laws. */
typedef int maker(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *thresholds, uint16_t *guide);

/* C = ln(2 / (1 + q)), but for 2^-240 */
static fixed log_weight_near(fixed t) {
    fixed half = exp_minus_of(quotient(&one, &t)).low;
    add(&half, &one);
    shift_right(&half, 1);
    return minus_log_of(half).low;
}

/* discrete_laplace.md; t (C - ln U), rounded down */
static int discrete_laplace(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *none, uint16_t *too) {
    (void)none, (void)too;
    if (!between(x, -60, 60))
        return DPF_NO_SCALE;
    const fixed t = logarithmic(plan, x, 5 * 0x1p-52);
    const fixed c = of->one_sided ? zero : log_weight_near(t);
    fixed c_high = c, half = one;
    shift_right(&half, 1);
    plan->width = upto(x, 7) ? 16 : upto(x, 20) ? 32 : 64;
    plan->bulk = upto(x, 7) ? DPF_TABLE : upto(x, 12) ? DPF_FLOAT : upto(x, 43) ? DPF_DOUBLE : DPF_DOUBLE_DOUBLE;
    plan->constant_work = upto(x, 17) ? DPF_DOUBLE : upto(x, 40) ? DPF_DOUBLE_DOUBLE : DPF_INTEGER;
    plan->float_margin = 0.5 - 0x1p-23 * (2.25 * plan->t + 4);
    plan->float_error = 3.125 * 0x1p-23;
    plan->logarithm.offset = nearest_difference(product(exactly(t), exactly(c)).low, half);
    shift_right(&c_high, 64 * POINT - 45);
    plan->logarithm.c = (double)c_high.limb[0] * 0x1p-45;
    shift_left(&c_high, 64 * POINT - 45);
    plan->logarithm.c_low = nearest_difference(c, c_high);
    if (!of->one_sided)
        plan->logarithm.wide_c = floor_at(c, 120);
    return 0;
}

/* laplace.md */
static int laplace(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *none, uint16_t *too) {
    (void)of, (void)none, (void)too;
    if (!between(x, -60, 60))
        return DPF_NO_SCALE;
    logarithmic(plan, x, 6 * 0x1p-52);
    plan->width = upto(x, 21) ? 32 : 64;
    plan->bulk = upto(x, 44) ? DPF_DOUBLE : DPF_DOUBLE_DOUBLE;
    plan->constant_work = upto(x, 17)   ? DPF_DOUBLE
                          : upto(x, 21) ? DPF_EXTENDED
                          : upto(x, 40) ? DPF_DOUBLE_DOUBLE
                                        : DPF_INTEGER;
    plan->extended_margin = 0.5 - 0x1p-35;
    return 0;
}

/* A Gaussian of this variance, in words of 32 bits where they are short: gaussian.md. */
static void normal(const measure *variance, int is_short, dpf_plan *plan) {
    const double log_error = 1.4375 * 0x1p-36; /* in -ln U, at level 0 of 32-bit words */
    uint64_t scale[DPF_EXACT_LIMBS];
    root_of_integer(variance->limb, WHOLE, scale, DPF_EXACT_LIMBS);
    scaled(plan, scale);
    const double t = plan->t;
    plan->width = is_short ? 32 : 64;
    plan->bulk = upto(variance, 2 * 40) ? DPF_DOUBLE : DPF_DOUBLE_DOUBLE;
    plan->constant_work = upto(variance, 2 * 16) ? DPF_DOUBLE : is_short ? DPF_EXTENDED : DPF_DOUBLE_DOUBLE;
    plan->margin = plan->margin32 = 0.5 - 0x1p-50;
    plan->relative_error = 20 * 0x1p-52;
    /* Beside U = 1 the root doubles half a cell and the error of -ln U; U < 2^-32 never passes. */
    plan->half_cell = t * (is_short ? larger(t * (1 + 0x1p33 * log_error), 1.75) : t) * (1 + 0x1p-20);
    /* (pi/4) 2^-(width - 2), and more; short: with the errors of sine and cosine */
    plan->normal.half_angle = is_short ? 3.375 * 0x1p-32 : 0x1p-62 * (1 + 0x1p-20);
    plan->extended_margin = 0.5 - 0x1p-48;
    plan->normal.extended_error = 0x1p-53;
    plan->double_double_margin = 0.5 - t * 0x1p-73 - 0x1p-38;
    plan->normal.double_double_cell = t * (is_short ? 0x1p-63 : 1.4143 * 0x1p-73);
}

static int gaussian(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *none, uint16_t *too) {
    (void)of, (void)none, (void)too;
    if (!between(x, -2 * 60, 2 * 60))
        return DPF_NO_SCALE;
    normal(x, upto(x, 2 * 21), plan);
    return 0;
}

/* floor(2^64 T_k) for k = 1, 2, ... while it is not 0; how many, or -1 if one is undecided. */
static int thresholds_of(const dpf_plan *plan, uint64_t *thresholds) {
    terms at = first_terms(beginning(plan->scale));
    ends tail = sum_of_terms(at);
    const ends half = sum(over_integer(exactly(one), 2), tail); /* theta/2 */
    const ends weight = ratio(exactly(one), half);
    for (int n = 0; n < DPF_THRESHOLDS; n++) {
        const ends level = product(tail, weight);
        const uint64_t least = level.low.limb[POINT - 1];
        if (least != level.high.limb[POINT - 1])
            return -1;
        if (least == 0)
            return n;
        thresholds[n] = least;
        tail = difference(tail, at.f);
        next_term(&at);
    }
    return -1;
}

/* A search among thresholds, from a guide: discrete_gaussian.md, section 2. */
static int searched(dpf_plan *plan, uint64_t *thresholds, uint16_t *guide) {
    const int n = thresholds_of(plan, thresholds);
    int above = n, above_least = n, most_between = 1, steps = 0;
    if (n < 0)
        return DPF_OPEN;
    /* Sixteenths of a binade, from u = 1 to 2^64, by u rounded to a double. That may lift u over an
     * edge, so the lower edges are taken a little lower. 0 belongs to the first. */
    for (int i = 0; i < DPF_GUIDE; i++) {
        const dpf_wide edge = (dpf_wide)(16 + i % 16) << i / 16, next = (dpf_wide)(16 + (i + 1) % 16) << (i + 1) / 16;
        const dpf_wide least = i == 0 ? 0 : edge * ((1ull << 52) - 1) >> 56, most = (next + 15) >> 4;
        while (above > 0 && thresholds[above - 1] <= most)
            above--;
        while (above_least > 0 && thresholds[above_least - 1] <= least)
            above_least--;
        guide[i] = (uint16_t)above;
        most_between = above_least - above > most_between ? above_least - above : most_between;
    }
    while (most_between >> steps)
        steps++;
    if (n + (1 << steps) > DPF_THRESHOLDS)
        return DPF_OPEN;
    memset(thresholds + n, 0, sizeof *thresholds << steps);
    plan->search.thresholds = thresholds;
    plan->search.guide = guide;
    plan->search.steps = steps;
    return 0;
}

/* From 10^-6 to 10^18: discrete_gaussian.md. */
static int discrete_gaussian(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *thresholds,
                             uint16_t *guide) {
    static const uint64_t units[] = {1}, millions[] = {1000000}, most[] = {1000000000000000000};
    measure range[2];
    (void)of;
    measured(&(dpf_ratio){.above_limbs = 1, .below_limbs = 1, .above = units, .below = millions}, range);
    measured(&(dpf_ratio){.above_limbs = 1, .below_limbs = 1, .above = most, .below = units}, range + 1);
    if (!at_least(x, range[0]) || !at_most(x, range[1]))
        return DPF_NO_SCALE;
    if (upto(x, 2 * 7)) {
        root_of_integer(x->limb, WHOLE, plan->scale, DPF_EXACT_LIMBS);
        plan->width = 16;
        plan->bulk = DPF_TABLE;
        plan->constant_work = DPF_DOUBLE;
        return searched(plan, thresholds, guide);
    }
    normal(x, upto(x, 2 * 20), plan);
    if (upto(x, 2 * 12)) /* beyond, floats leave too many draws to the next tier */
        plan->bulk = DPF_FLOAT;
    const fixed variance = beginning_of(x->limb, WHOLE);
    const double squared = nearest(variance);
    plan->float_margin = 0.5 - 4 * 0x1p-23;
    plan->float_error = 3.375 * 0x1p-23;
    plan->normal.float_log_error = 2.25 * 0x1p-23 * (plan->t * plan->t);
    plan->normal.rejects = 1 / (24 * (squared * squared));
    /* floor(2^16 (1 - 3.85 / sigma^2)): 10 sigma^2 m >= 38.5 2^16 */
    const ends part = product(but_for_a_unit(exactly(variance)), integer(10)), all = integer(2523136);
    plan->normal.accept_below = (1 << 16) - 1;
    for (fixed parts = part.high; less(&parts, &all.low); add(&parts, &part.high))
        plan->normal.accept_below--;
    plan->normal.candidates = upto(x, 2 * 13) ? 2 : 1; /* beyond, fewer than 2^-30 proposals are rejected */
    return 0;
}

int dpf_make_plan(const dpf_ratio *of, dpf_plan *plan, uint64_t *thresholds, uint16_t *guide) {
    static maker *const makers[] = {NULL, discrete_laplace, laplace, gaussian, discrete_gaussian};
    const dpf_fpmode mode = dpf_fp_enter();
    measure x;
    int status = DPF_NO_SCALE;
    memset(plan, 0, sizeof *plan);
    plan->law = of->law;
    if (of->law > 0 && of->law < (int)(sizeof makers / sizeof *makers) && measured(of, &x))
        status = makers[of->law](&x, of, plan, thresholds, guide);
    dpf_fp_leave(mode);
    return status;
}

/* ---- tables */

enum { CELLS = 1 << DPF_TABLE_BITS };

/* The cells behind those that may hold threshold number k; all from *from on have been filled. */
static void fill(int16_t *table, int *from, int k, uint64_t first, uint64_t last) {
    for (int cell = (int)last + 1; cell < *from; cell++)
        table[cell] = (int16_t)k;
    *from = *from < (int)first ? *from : (int)first;
    for (int cell = *from; cell <= (int)last; cell++)
        table[cell] = DPF_UNDECIDED;
}

void dpf_make_table(const dpf_plan *plan, int16_t *table) {
    int from = CELLS, k = 0;
    if (plan->search.steps)
        for (; plan->search.thresholds[k] >> 49; k++)
            fill(table, &from, k, plan->search.thresholds[k] >> 49, plan->search.thresholds[k] >> 49);
    else {
        const ends q = geometric_ratio(beginning(plan->scale)), all = exactly(one);
        const ends weight = one_sided(plan) ? all : ratio(integer(2), sum(all, q));
        for (ends height = product(weight, q);; height = product(height, q), k++) {
            const uint64_t first = height.low.limb[POINT - 1] >> 49, last = height.high.limb[POINT - 1] >> 49;
            if (last == 0)
                break;
            fill(table, &from, k, first, last);
        }
    }
    fill(table, &from, k, 0, 0);
    for (int cell = 0; cell < CELLS; cell++)
        table[CELLS + cell] = table[cell] == DPF_UNDECIDED ? DPF_UNDECIDED : (int16_t)-table[cell];
}
