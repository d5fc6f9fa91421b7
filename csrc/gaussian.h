/* SPDX-License-Identifier: Apache-2.0
 * The real Gaussian law by Box and Muller, added and then rounded to a grid [gaussian.md]:
 *     K = floor(f + t N + 1/2),  N = R cos theta or R sin theta,  R = sqrt(-2 ln U),
 * t the scale in grid steps, f the value's place on it. Draws i and i ^ 64 share U and theta. */
#pragma once
#include "draw.h"
#include "exponential.h"
#include "extended.h"

/* The sine if is_sine is 1, the cosine if it is 0. By a mask: the time of a branch would tell. */
DPF_INLINE double side_of(uint64_t is_sine, double sine, double cosine) {
    return double_of(bits_of(cosine) ^ ((bits_of(sine) ^ bits_of(cosine)) & (0 - is_sine)));
}

/* The nearest integers of a pair's draws (section 5): the radius's digits a, tR at their middle. */
DPF_INLINE void gaussian_pair_by_double(const dpf_plan *plan, double a, double tr, double v, uint64_t flags,
                                        const double *offset, int64_t *cells) {
    double sine, cosine;
    octant(v, &sine, &cosine);
    const double weight = a * tr, angle_error = plan->normal.half_angle * tr;
    const uint64_t swap = flags & 1;
    const double first = tr * side_of(swap, sine, cosine), second = tr * side_of(swap, cosine, sine);
    int sure;
    const double k = nearest(plan, offset[0], turned(first, flags >> 2), angle_error, weight, &sure);
    cells[0] = sure ? (int64_t)bits_of(k) : DPF_UNDECIDED_LIMB;
    const double l = nearest(plan, offset[64], turned(second, flags >> 1 & 1), angle_error, weight, &sure);
    cells[64] = sure ? (int64_t)bits_of(l) : DPF_UNDECIDED_LIMB;
}

/* Pairs by 32-bit words (section 5). */
static void gaussian_short(const dpf_plan *plan, const uint32_t *restrict words, dpf_short *restrict s) {
    const double root = dpf_root_two * plan->t, half_angle = plan->normal.half_angle;
    for (int pairs = 0; pairs < DPF_WORDS / 2; pairs += 64) {
        const uint32_t *restrict const radius = words + 2 * pairs, *restrict const angle = radius + 64;
        double *restrict const first = s->noise + 2 * pairs, *restrict const second = first + 64;
        double *restrict const weight = s->weight + pairs, *restrict const less = s->less + pairs;
        short_middles(radius, 64, 32, weight);
        short_logs(64, 32, weight, less);
        fetch_piece(s, pairs / 64, DPF_WORDS / 128);
        for (int i = 0; i < 64; i++)
            less[i] = root * __builtin_sqrt(less[i]);
        for (int i = 0; i < 64; i++)
            short_octant(short_middle(angle[i] & 0x1fffffff), &second[i], &first[i]);
        for (int i = 0; i < 64; i++) {
            const double tr = less[i], sine = second[i], cosine = first[i];
            const uint64_t flags = widened(angle[i]), swap = flags >> 29 & 1;
            first[i] = turned32(tr * side_of(swap, sine, cosine), flags);
            second[i] = turned32(tr * side_of(swap, cosine, sine), flags << 33);
            weight[i] *= tr;
            less[i] = half_angle * tr;
        }
    }
}

static void gaussian_level0(const dpf_plan *plan, const uint64_t *restrict word, const double *restrict offset,
                            int64_t *restrict cells) {
    const dpf_plan p = *plan;
    for (int base = 0; base < DPF_STEP; base += 128)
        for (int i = base; i < base + 64; i++) {
            const uint64_t radius = word[i], angle = word[i + 64];
            const double v = (as_double(angle & UINT64_MAX >> 3) + 0.5) * 0x1p-61;
            const double tr = p.t * radius64((uint32_t)(radius >> 32), (uint32_t)radius);
            gaussian_pair_by_double(&p, as_double(radius), tr, v, angle >> 61, offset + i, cells + i);
        }
}

/* The digits of draws laid out for loops: 128 of the radius, at most 125 of the angle behind its
 * flags, and what the flags mean for the draw. */
typedef struct {
    _Alignas(64) uint64_t u[DPF_STEP], more_u[DPF_STEP], v[DPF_STEP], more_v[DPF_STEP];
    uint64_t is_sine[DPF_STEP], negative[DPF_STEP];
} gaussian_digits;

static void gaussian_lay_out(int width, const dpf_draws *draws, gaussian_digits *restrict d) {
    const uint64_t *restrict radius = draws->word[0], *restrict angle = draws->word[1], *restrict draw = draws->draw;
    const uint64_t *restrict more = draws->more[0], *restrict more_angle = draws->more[1];
    const int n = draws->n;
    for (int i = 0; i < n; i++) {
        const uint64_t flags = angle[i] >> (width - 3), second = draw[i] >> 6 & 1;
        d->u[i] = radius[i] << (64 - width) | (width == 64 ? 0 : more[i] >> (width & 63));
        d->more_u[i] = more[i] << (64 - width);
        d->v[i] = angle[i] << (67 - width) | more_angle[i] >> (width - 3);
        d->more_v[i] = more_angle[i] << (67 - width);
        d->is_sine[i] = (second ^ flags) & 1;
        d->negative[i] = flags >> (2 - second) & 1;
    }
}

/* Wipe the digits that n draws used. */
static void gaussian_wipe_digits(gaussian_digits *d, int n) {
    uint64_t *const parts[] = {d->u, d->more_u, d->v, d->more_v, d->is_sine, d->negative};
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        dpf_wipe(parts[part], n * (int64_t)sizeof(uint64_t));
}

static void gaussian_by_double_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    const int n = draws->n;
    gaussian_digits d;
    gaussian_lay_out(p.width, draws, &d);
    for (int i = 0; i < n; i++) {
        const double r = radius64((uint32_t)(d.u[i] >> 32), (uint32_t)d.u[i]);
        double sine, cosine;
        octant((as_double(d.v[i]) + 0.5) * 0x1p-64, &sine, &cosine);
        const double tr = p.t * r, y = turned(tr * side_of(d.is_sine[i], sine, cosine), d.negative[i]);
        int sure;
        const double k = nearest(&p, offset[i], y, tr * 0x1p-60, as_double(d.u[i]) * tr, &sure);
        lo[i] = (int64_t)(bits_of(k + DPF_TO_INTEGER) - bits_of(DPF_TO_INTEGER));
        hi[i] = sure ? lo[i] >> 63 : DPF_UNDECIDED_LIMB;
    }
    gaussian_wipe_digits(&d, n);
}

/* What the draws of pairs share in the extended tier. */
typedef struct {
    _Alignas(64) double tr[64], tr_low[64], weight[64]; /* t R, the first part in 26 bits */
    double sine[64], sine_low[64], cosine[64], cosine_low[64];
} gaussian_pairs;

/* Extended (section 8): once for both draws of a pair, where all draws come in whole pairs. */
static void gaussian_by_extended_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict radius = draws->word[0], *restrict angle = draws->word[1], *restrict draw = draws->draw;
    const uint64_t *restrict more = draws->more[0], *restrict more_angle = draws->more[1];
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    const int64_t n = draws->n;
    const int width = p.width, both = n % 128 == 0 && draw[0] % 128 == 0;
    gaussian_pairs s;
    for (int64_t base = 0; base < n; base += both ? 128 : 64) {
        const int64_t pairs = n - base < 64 ? n - base : 64;
        for (int64_t i = 0; i < pairs; i++) {
            const uint64_t first = radius[base + i] << (64 - width), then = more[base + i] >> (width & 63);
            double x, r, r_low;
            radius_extended(first | (width == 64 ? 0 : then), &x, &r, &r_low);
            const double tr = half_of(p.t * r);
            s.tr[i] = tr;
            s.tr_low[i] = product_less(p.t, r, tr) + fused(p.t, r_low, p.t_low * r);
            s.weight[i] = r > 0x1p-20 ? (x - 0.5) * tr : 0.0;
        }
        for (int64_t i = 0; i < pairs; i++) {
            const uint64_t v = angle[base + i] << (67 - width) | more_angle[base + i] >> (width - 3);
            octant_extended(v, &s.sine[i], &s.sine_low[i], &s.cosine[i], &s.cosine_low[i]);
        }
        for (int64_t from = base; from <= base + 64 * both; from += 64)
            for (int64_t i = 0; i < pairs; i++) {
                const int64_t k = from + i;
                const uint64_t flags = angle[k] >> (width - 3), second = draw[k] >> 6 & 1;
                const uint64_t is_sine = (second ^ flags) & 1, negative = flags >> (2 - second) & 1;
                const double tr = s.tr[i], side = side_of(is_sine, s.sine[i], s.cosine[i]);
                const double side_low = side_of(is_sine, s.sine_low[i], s.cosine_low[i]);
                const double product = tr * side, whole = (product + DPF_TO_INTEGER) - DPF_TO_INTEGER;
                const double part = (product - whole) + fused(tr, side_low, s.tr_low[i] * (side + side_low));
                const double z = turned(part, negative) + offset[k], shifted = z + DPF_TO_INTEGER;
                const double room =
                    (p.extended_margin - p.normal.extended_error * tr) - __builtin_fabs(z - (shifted - DPF_TO_INTEGER));
                lo[k] = integer_of(turned(whole, negative) + shifted);
                hi[k] = room * s.weight[i] > p.half_cell ? lo[k] >> 63 : DPF_UNDECIDED_LIMB;
            }
    }
    dpf_wipe(&s, sizeof s);
}

/* Double-double (section 6), in three loops: one would need more registers than there are. */
static void gaussian_by_double_double_both(const dpf_plan *plan, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const double *restrict offset = draws->offset;
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    const int n = draws->n;
    gaussian_digits d;
    _Alignas(64) double radius[DPF_STEP], radius_low[DPF_STEP], side[DPF_STEP], side_low[DPF_STEP];
    gaussian_lay_out(p.width, draws, &d);
    for (int i = 0; i < n; i++)
        radius_double_double(d.u[i], d.more_u[i], &radius[i], &radius_low[i]);
    for (int i = 0; i < n; i++) {
        double sine, sine_low, cosine, cosine_low;
        octant_double_double(d.v[i], d.more_v[i], &sine, &sine_low, &cosine, &cosine_low);
        side[i] = side_of(d.is_sine[i], sine, cosine);
        side_low[i] = side_of(d.is_sine[i], sine_low, cosine_low);
    }
    for (int i = 0; i < n; i++) {
        const double r = radius[i], normal = r * side[i];
        const double normal_low = residue(r, side[i], normal) + (r * side_low[i] + radius_low[i] * side[i]);
        const double product = p.t * normal;
        const double rest = residue(p.t, normal, product) + (p.t * normal_low + p.t_low * normal);
        double off;
        int64_t low, high;
        const uint64_t negative = d.negative[i];
        nearest_double_double(turned(product, negative), turned(rest, negative) + offset[i], &low, &high, &off);
        const double error_margin = p.double_double_margin - __builtin_fabs(off);
        const int decided = (error_margin * r > p.normal.double_double_cell) & (r > 0x1p-20) & (d.u[i] >> 32 != 0);
        lo[i] = low;
        hi[i] = decided ? high : DPF_UNDECIDED_LIMB;
    }
    gaussian_wipe_digits(&d, n);
    dpf_wipe(radius, n * (int64_t)sizeof *radius);
    dpf_wipe(radius_low, n * (int64_t)sizeof *radius_low);
    dpf_wipe(side, n * (int64_t)sizeof *side);
    dpf_wipe(side_low, n * (int64_t)sizeof *side_low);
}

static void gaussian_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    if (tier == DPF_DOUBLE)
        gaussian_by_double_both(plan, draws);
    else if (tier == DPF_EXTENDED)
        gaussian_by_extended_both(plan, draws);
    else
        gaussian_by_double_double_both(plan, draws);
}

static const dpf_law gaussian_law = {.level0 = gaussian_level0,
                                     .by_short = gaussian_short,
                                     .decide = gaussian_decide,
                                     .box_muller = 1,
                                     .last_tier = DPF_DOUBLE_DOUBLE,
                                     .exact = dpf_exact_gaussian,
                                     .real = 1};

__attribute__((noinline)) static void gaussian_bulk(dpf_job *job) {
    bulk(&gaussian_law, job);
}

static int64_t gaussian_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    return draw_all(&gaussian_law, gaussian_bulk, how, start, n, in, out);
}

static void gaussian_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                          dpf_u128 *found, uint8_t *decided) {
    (void)bits;
    if (tier == DPF_LEVEL0) {
        planted_level0(&gaussian_law, plan, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const dpf_planted p = planted[i];
        const uint64_t draw = (uint64_t)p.sine << 6;
        int64_t low, high;
        const dpf_draws draws = {1,    &draw, {&p.digits[0], &p.digits[2]}, {&p.digits[1], &p.digits[3]}, &p.offset,
                                 &low, &high};
        gaussian_decide(plan, tier, &draws);
        decided[i] = high != DPF_UNDECIDED_LIMB;
        found[i].lo = decided[i] ? (uint64_t)low : 0;
        found[i].hi = decided[i] ? (uint64_t)high : 0;
    }
}

static const dpf_code gaussian = {"gaussian", 1, gaussian_add, gaussian_tier};
