/* SPDX-License-Identifier: Apache-2.0
 * The real Gaussian law, rounded to a grid after it was added, by Box and Muller [gaussian.md]:
 *     K = floor(f + t N + 1/2),  N = R cos theta or R sin theta,  R = sqrt(-2 ln U),
 * t the scale in steps of the grid and f where on the grid the noise begins. Draws i and i ^ 64 share U
 * and theta. Section numbers are those of gaussian.md. */
#ifndef DPF_ISA
#include "dpf_impl.h"
#include "wide_log.h"
#include "wide_sine.h"

#define DPF_SELF "gaussian.c"
#include "every_isa.h"

#else /* for one instruction set */

#include "chacha.h"
#include "decide.h"
#include "wide.h"
#include "normal.h"

#define DPF_LAW_TABLE  0
#define DPF_LAW_LEVEL0 1
#define DPF_LAW_PAIRS  1
#define DPF_LAW_LAST   DPF_TWOFOLD
static void FN(level0)(const dpf_plan *, int, const uint32_t *, const double *, int64_t *, uint8_t *);
static void FN(decide)(const dpf_plan *, int, const dpf_lot *);
#include "refine.h"

/* A word of the angle, from its top: the cosine draw's sign, the sine draw's, whether the two are swapped
 * (the octant), and the digits of v, theta = pi v / 4. */
enum { FN(sign_of_cosine) = 1, FN(sign_of_sine) = 2, FN(swap) = 3 };

/* The nearest integers of both draws of a pair (section 3): radius digits a of n bits, R at their middle. */
DPF_INLINE void FN(pair_by_double)(const dpf_plan *plan, int flat, double a, double radius, double v, uint64_t flags,
                                   const double *offset, int64_t *cells) {
    double sine, cosine;
    FN(octant)(v, &sine, &cosine);
    const double tr = plan->t * radius, weight = a * radius, reach = plan->half_angle * radius;
    const int swap = (int)(flags & 1);
    const double first = tr * (swap ? sine : cosine), second = tr * (swap ? cosine : sine);
    int sure;
    const double y = FN(turned)(first, flags >> 2), w = FN(turned)(second, flags >> 1 & 1);
    const double k = flat ? FN(nearest_flat)(plan, offset[0], y, reach, weight, &sure)
                          : FN(nearest)(plan, offset[0], y, reach, weight, &sure);
    cells[0] = sure ? (int64_t)FN(bits_of)(k) : DPF_OPEN;
    const double l = flat ? FN(nearest_flat)(plan, offset[64], w, reach, weight, &sure)
                          : FN(nearest)(plan, offset[64], w, reach, weight, &sure);
    cells[64] = sure ? (int64_t)FN(bits_of)(l) : DPF_OPEN;
}

static void FN(level0)(const dpf_plan *plan, int real, const uint32_t *restrict words, const double *restrict offset,
                       int64_t *restrict cells, uint8_t *restrict open) {
    const dpf_plan p = *plan;
    if (p.width == 32)
        for (int base = 0; base < DPF_WORDS; base += 128)
            for (int i = base; i < base + 64; i++) {
                const uint32_t a = words[i], angle = words[i + 64];
                const double v = ((double)(int32_t)(angle & 0x1fffffff) + 0.5) * 0x1p-29;
                FN(pair_by_double)(&p, 1, FN(to_double)(0, a), FN(radius32)(a), v, angle >> 29, offset + i, cells + i);
            }
    else
        for (int base = 0; base < DPF_WORDS / 2; base += 128)
            for (int s = 0; s < 4; s++)
                for (int l = 0; l < DPF_LANES; l++) {
                    const uint32_t *at = words + 2 * base + 2 * s * DPF_LANES + l, *angle = at + 2 * 64;
                    const uint32_t low = at[0], high = at[DPF_LANES], top = angle[DPF_LANES];
                    const double v = (FN(to_double)(top & 0x1fffffff, angle[0]) + 0.5) * 0x1p-61;
                    const int i = base + s * DPF_LANES + l;
                    FN(pair_by_double)
                    (&p, 0, FN(to_double)(high, low), FN(radius64)(high, low), v, top >> 29, offset + i, cells + i);
                }
    FN(finish)(32 * DPF_WORDS / p.width, real, cells, open);
}

/* The first 64 digits of the radius, the next 64, and the same of the angle behind its three flags. */
typedef struct {
    uint64_t u, more_u, v, more_v, flags;
} FN(digits);

DPF_INLINE FN(digits) FN(digits_of)(int width, uint64_t radius, uint64_t more, uint64_t angle, uint64_t more_angle) {
    const uint64_t up = width == 64 ? radius : radius << (64 - width) | more >> width;
    const uint64_t then = width == 64 ? more : more << (64 - width);
    const uint64_t v = angle << (67 - width) | more_angle >> (width - 3), more_v = more_angle << (67 - width);
    return (FN(digits)){up, then, v, more_v, angle >> (width - 3)};
}

static void FN(by_double_both)(const dpf_plan *plan, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict radius = lot->word[0], *restrict angle = lot->word[1], *restrict draw = lot->draw;
    const uint64_t *restrict more = lot->more[0], *restrict more_angle = lot->more[1];
    const double *restrict offset = lot->offset;
    int64_t *restrict lo = lot->lo, *restrict hi = lot->hi;
    for (int i = 0; i < lot->n; i++) {
        const FN(digits) d = FN(digits_of)(p.width, radius[i], more[i], angle[i], more_angle[i]);
        const double r = FN(radius64)((uint32_t)(d.u >> 32), (uint32_t)d.u);
        double sine, cosine;
        FN(octant)((FN(as_double)(d.v) + 0.5) * 0x1p-64, &sine, &cosine);
        const uint64_t second = draw[i] >> 6 & 1, negative = (second ? d.flags >> 1 : d.flags >> 2) & 1;
        const double y = p.t * r * ((second ^ (d.flags & 1)) != 0 ? sine : cosine);
        int sure;
        const double k =
            FN(nearest)(&p, offset[i], FN(turned)(y, negative), p.t * r * 0x1p-60, FN(as_double)(d.u) * r, &sure);
        lo[i] = (int64_t)(FN(bits_of)(k + DPF_TO_INTEGER) - FN(bits_of)(DPF_TO_INTEGER));
        hi[i] = sure ? lo[i] >> 63 : DPF_OPEN;
    }
}

/* Twofold (section 4). */
DPF_INLINE void FN(by_twofold)(const dpf_plan *plan, FN(digits) d, uint64_t second, double offset, int64_t *lo,
                               int64_t *hi) {
    double r, r_low, sine, sine_low, cosine, cosine_low, off;
    FN(radius_twofold)(d.u, d.more_u, &r, &r_low);
    FN(octant_twofold)(d.v, d.more_v, &sine, &sine_low, &cosine, &cosine_low);
    const int is_sine = (second ^ (d.flags & 1)) != 0;
    const uint64_t negative = (second ? d.flags >> 1 : d.flags >> 2) & 1;
    const double side = is_sine ? sine : cosine, side_low = is_sine ? sine_low : cosine_low;
    const double n = r * side, n_low = FN(residue)(r, side, n) + (r * side_low + r_low * side);
    const double product = plan->t * n, rest = FN(residue)(plan->t, n, product) + (plan->t * n_low + plan->t_low * n);
    int64_t high;
    FN(nearest_twofold)(FN(turned)(product, negative), FN(turned)(rest, negative) + offset, lo, &high, &off);
    const double room = plan->twofold_margin - (off < 0.0 ? -off : off);
    *hi = (room * r > plan->twofold_cell) & (r > 0x1p-20) & (d.u >> 32 != 0) ? high : DPF_OPEN;
}

static void FN(by_twofold_both)(const dpf_plan *plan, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict radius = lot->word[0], *restrict angle = lot->word[1], *restrict draw = lot->draw;
    const uint64_t *restrict more = lot->more[0], *restrict more_angle = lot->more[1];
    const double *restrict offset = lot->offset;
    int64_t *restrict lo = lot->lo, *restrict hi = lot->hi;
    for (int i = 0; i < lot->n; i++) {
        const FN(digits) d = FN(digits_of)(p.width, radius[i], more[i], angle[i], more_angle[i]);
        FN(by_twofold)(&p, d, draw[i] >> 6 & 1, offset[i], &lo[i], &hi[i]);
    }
}

static void FN(decide)(const dpf_plan *plan, int tier, const dpf_lot *lot) {
    if (tier == DPF_DOUBLE)
        FN(by_double_both)(plan, lot);
    else
        FN(by_twofold_both)(plan, lot);
}

/* Candidate `candidate` of draws that something else accepts or rejects. */
int64_t FN(gaussian_propose)(const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, uint64_t candidate,
                             int64_t n, const dpf_target *to) {
    return FN(draw_all)(plan, careful, key, start, candidate, n, to);
}

int64_t FN(gaussian_fill)(const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n,
                          const dpf_target *to) {
    return FN(draw_all)(plan, careful, key, start, 0, n, to);
}

/* digits: 128 of the radius, then the angle's three flags and 125 of its digits. bits <= 64: that many of each word. */
void FN(gaussian_tier)(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted, dpf_u128 *found,
                       uint8_t *decided) {
    (void)bits;
    for (int64_t i = 0; i < n; i++) {
        const dpf_planted p = planted[i];
        const uint64_t draw = (uint64_t)p.sine << 6;
        int64_t low, high;
        const dpf_lot lot = {1,    &draw, {&p.digits[0], &p.digits[2]}, {&p.digits[1], &p.digits[3]}, &p.offset,
                             &low, &high};
        FN(decide)(plan, tier, &lot);
        decided[i] = high != DPF_OPEN;
        found[i].lo = decided[i] ? (uint64_t)low : 0;
        found[i].hi = decided[i] ? (uint64_t)high : 0;
    }
}

#endif
