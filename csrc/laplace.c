/* SPDX-License-Identifier: Apache-2.0
 * The real Laplace law, rounded to a grid after it was added [laplace.md]:
 *     K = floor(f + S t E + 1/2),  E = -ln U,
 * t the scale in steps of the grid and f where on the grid the noise begins. Section numbers are those
 * of laplace.md. */
#ifndef DPF_ISA
#include "dpf_impl.h"
#include "wide_log.h"

#define DPF_SELF "laplace.c"
#include "every_isa.h"

#else /* for one instruction set */

#include "chacha.h"
#include "decide.h"
#include "wide.h"
#include "exponential.h"

#define DPF_LAW_TABLE  0
#define DPF_LAW_LEVEL0 1
#define DPF_LAW_PAIRS  0
#define DPF_LAW_LAST   DPF_INTEGER
static void FN(level0)(const dpf_plan *, int, const uint32_t *, const double *, int64_t *, uint8_t *);
static void FN(decide)(const dpf_plan *, int, const dpf_lot *);
#include "refine.h"

/* Double (section 3): U lies in [a, a + 1) 2^-n, `digits` as minus_log takes it. */
DPF_INLINE double FN(by_double)(const dpf_plan *plan, double a, double digits, uint64_t negative, double offset,
                                int *decided) {
    const double y = plan->t * FN(minus_log)(a + 0.5, digits);
    return FN(nearest)(plan, offset, FN(turned)(y, negative), 0.0, a, decided);
}

DPF_INLINE double FN(by_double32)(const dpf_plan *plan, uint32_t word, double offset, int *decided) {
    const double a = (double)(int32_t)(word & 0x7fffffff);
    const double y = plan->t * FN(minus_log)(a + 0.5, FN(digit_count)(31));
    return FN(nearest_flat)(plan, offset, FN(turned)(y, word >> 31), 0.0, a, decided);
}

static void FN(level0)(const dpf_plan *plan, int real, const uint32_t *restrict words, const double *restrict offset,
                       int64_t *restrict cells, uint8_t *restrict open) {
    const dpf_plan p = *plan;
    const double digits = FN(digit_count)(p.width - 1);
    if (p.width == 32)
        for (int i = 0; i < DPF_WORDS; i++) {
            int sure;
            const double k = FN(by_double32)(&p, words[i], offset[i], &sure);
            cells[i] = sure ? (int64_t)FN(bits_of)(k) : DPF_OPEN;
        }
    else
        for (int s = 0; s < DPF_GROUPS * 8; s++)
            for (int l = 0; l < DPF_LANES; l++) {
                const uint32_t low = words[2 * s * DPF_LANES + l], high = words[(2 * s + 1) * DPF_LANES + l];
                const int i = s * DPF_LANES + l;
                int sure;
                const double a = FN(to_double)(high & 0x7fffffff, low);
                const double k = FN(by_double)(&p, a, digits, high >> 31, offset[i], &sure);
                cells[i] = sure ? (int64_t)FN(bits_of)(k) : DPF_OPEN;
            }
    FN(finish)(32 * DPF_WORDS / p.width, real, cells, open);
}

static void FN(by_double_both)(const dpf_plan *plan, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = lot->word[0], *restrict more = lot->more[0];
    const double digits = FN(digit_count)(64), *restrict offset = lot->offset;
    int64_t *restrict lo = lot->lo, *restrict hi = lot->hi;
    for (int i = 0; i < lot->n; i++) {
        int sure;
        const double a = FN(as_double)(FN(upper)(word[i], p.width, more[i]));
        const double k = FN(by_double)(&p, a, digits, word[i] >> (p.width - 1), offset[i], &sure);
        lo[i] = (int64_t)(FN(bits_of)(k + DPF_TO_INTEGER) - FN(bits_of)(DPF_TO_INTEGER));
        hi[i] = sure ? lo[i] >> 63 : DPF_OPEN;
    }
}

/* Twofold (section 4): U from at least 95 digits. */
DPF_INLINE void FN(by_twofold)(const dpf_plan *plan, uint64_t u, uint64_t more, uint64_t negative, double offset,
                               int64_t *lo, int64_t *hi) {
    double product, rest, off;
    int64_t high;
    FN(height_twofold)(plan, u, more, &product, &rest);
    FN(nearest_twofold)(FN(turned)(product, negative), FN(turned)(rest, negative) + offset, lo, &high, &off);
    const int decided = (__builtin_fabs(off) < plan->twofold_margin) & (u >> 32 != 0);
    *hi = decided ? high : DPF_OPEN;
}

static void FN(by_twofold_both)(const dpf_plan *plan, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = lot->word[0], *restrict more = lot->more[0];
    const double *restrict offset = lot->offset;
    int64_t *restrict lo = lot->lo, *restrict hi = lot->hi;
    for (int i = 0; i < lot->n; i++) {
        const uint64_t u = FN(upper)(word[i], p.width, more[i]), then = FN(lower)(p.width, more[i]);
        FN(by_twofold)(&p, u, then, word[i] >> (p.width - 1), offset[i], &lo[i], &hi[i]);
    }
}

/* Integers (section 5), in units of 2^-59 of a step: f is cut to them. */
DPF_INLINE int FN(by_integers)(const dpf_plan *plan, dpf_wide prefix, int bits, uint64_t negative, double offset,
                               dpf_wide *outcome) {
    uint64_t cell;
    const dpf_wide y = FN(height_integers)(plan, prefix, bits, &cell), mask = -(dpf_wide)negative;
    const uint64_t one = (uint64_t)1 << FN(height_bits), error = FN(height_error) + 2;
    const int64_t f = (int64_t)(offset * 0x1p59);
    const dpf_wide z = ((y ^ mask) - mask) + (uint64_t)(f + (int64_t)(one >> 1));
    const uint64_t fraction = (uint64_t)z & (one - 1);
    const uint64_t below = error + (negative ? 0 : cell), above = error + (negative ? cell : 0);
    const dpf_wide sign = -(z >> 127);
    *outcome = z >> FN(height_bits) | sign << (128 - FN(height_bits));
    return (prefix >> 64 != 0) & (fraction >= below) & (fraction + above < one);
}

__attribute__((noinline)) static void FN(by_integers_both)(const dpf_plan *plan, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = lot->word[0], *restrict more = lot->more[0];
    for (int i = 0; i < lot->n; i++) {
        const dpf_wide prefix = (dpf_wide)FN(upper)(word[i], p.width, more[i]) << 64 | FN(lower)(p.width, more[i]);
        dpf_wide draw;
        const int decided = FN(by_integers)(&p, prefix, p.width + 63, word[i] >> (p.width - 1), lot->offset[i], &draw);
        lot->lo[i] = (int64_t)(uint64_t)draw;
        lot->hi[i] = decided ? (int64_t)(uint64_t)(draw >> 64) : DPF_OPEN;
    }
}

static void FN(decide)(const dpf_plan *plan, int tier, const dpf_lot *lot) {
    if (tier == DPF_DOUBLE)
        FN(by_double_both)(plan, lot);
    else if (tier == DPF_TWOFOLD && DPF_FMA)
        FN(by_twofold_both)(plan, lot);
    else
        FN(by_integers_both)(plan, lot);
}

int64_t FN(laplace_fill)(const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n,
                         const dpf_target *to) {
    return FN(draw_all)(plan, careful, key, start, 0, n, to);
}

void FN(laplace_tier)(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted, dpf_u128 *found,
                      uint8_t *decided) {
    for (int64_t i = 0; i < n; i++) {
        const dpf_planted d = planted[i];
        const uint64_t first = d.digits[0], negative = (uint64_t)d.negative;
        int64_t low = 0, high = 0;
        int sure = 1;
        if (tier == DPF_DOUBLE) {
            const double a = FN(as_double)(first);
            low = (int64_t)FN(by_double)(plan, a, FN(digit_count)(bits), negative, d.offset, &sure);
            high = low >> 63;
        } else if (tier == DPF_TWOFOLD && DPF_FMA) {
            FN(by_twofold)(plan, first, d.digits[1], negative, d.offset, &low, &high);
        } else {
            const dpf_wide prefix = bits <= 64 ? (dpf_wide)first << (128 - bits) : (dpf_wide)first << 64 | d.digits[1];
            dpf_wide draw;
            sure = FN(by_integers)(plan, prefix, bits, negative, d.offset, &draw);
            low = (int64_t)(uint64_t)draw;
            high = (int64_t)(uint64_t)(draw >> 64);
        }
        decided[i] = sure && high != DPF_OPEN;
        found[i].lo = decided[i] ? (uint64_t)low : 0;
        found[i].hi = decided[i] ? (uint64_t)high : 0;
    }
}

#endif
