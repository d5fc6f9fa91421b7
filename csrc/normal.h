/* SPDX-License-Identifier: Apache-2.0
 * Certified arithmetic for Box-Muller pairs: R = sqrt(-2 ln U), and the sine and cosine of an
 * octant. gaussian.md, sections 3 and 4, has the bounds; normal.sollya, normal.gappa and
 * normal_double_double.gappa prove them in all four rounding modes. dpf_sine is in wide_sine.h. */
#pragma once
#include "wide.h"

/* high 2^32 + low + 1/2, rounded once; the result + *rest is the exact sum. */
DPF_INLINE double middle(uint64_t high, uint64_t low, double *rest) {
    const double above = double_of(0x4530000000000000 | high) - 0x1.000000008p84; /* high 2^32 - 2^51 */
    const double below = double_of(0x4320000000000000 | low << 1 | 1);            /* 2^51 + low + 1/2 */
    const double x = above + below;
    *rest = below - (x - above);
    return x;
}

/* sqrt(-2 ln U), U = M 2^-count, f = M - 1 rounded at most once, M in [m0, 2 m0]: relative error
 * within 4.9 2^-52, also next to U = 1: there count is 0, and minus_log_of subtracts from 0. */
DPF_INLINE double radius(double count, double f) {
    const double e = minus_log_of(count, f);
    return __builtin_sqrt(e + e);
}

/* R at U = (a + 1/2) 2^-64, a = high 2^32 + low: f is m - 1 and the rest, rounded once. */
DPF_INLINE double radius64(uint32_t high, uint32_t low) {
    double rest;
    const uint64_t bits = bits_of(middle(high, low, &rest));
    const uint64_t shifted = bits + (0x3ff0000000000000 - dpf_split);
    const uint64_t exponent = shifted & 0xfff0000000000000;
    const double count = (0x1p52 + 1023.0 + 64.0) - double_of(0x4330000000000000 | shifted >> 52);
    const double m = double_of(bits - exponent + 0x3ff0000000000000);
    return radius(count, (m - 1.0) + rest * double_of(0x7fe0000000000000 - exponent));
}

/* sin(pi v/4) and cos(pi v/4), v in [2^-70, 1]: relative errors within 2.2 2^-52 and 1.9 2^-52; for
 * v rounded once 3.2 and 2.7, twice 4.2 and 3.4. */
DPF_INLINE void octant(double v, double *sine, double *cosine) {
    const double w = v * v;
    *sine = v * sine_polynomial(w);
    *cosine = cosine_polynomial(w);
}

/* octant for 32-bit words, v = V 2^-29: each within 0.21 2^-32, absolutely. */
DPF_INLINE void short_octant(double V, double *sine, double *cosine) {
    const double w = V * V;
    *sine = V * short_sine_polynomial(w);
    *cosine = short_cosine_polynomial(w);
}

#if DPF_FMA
/* octant in floats: within 1.13 2^-23 and 0.94 2^-23 of the polynomials. */
DPF_INLINE void float_octant(float v, float *sine, float *cosine) {
    const float w = v * v;
    *sine = v * float_sine_polynomial(w);
    *cosine = float_cosine_polynomial(w);
}
#endif

/* x to its first 21 bits, towards 0. */
DPF_INLINE double short_of(double x) {
    return double_of(bits_of(x) & dpf_short_mask);
}

/* a b - product, product = a b rounded in any mode, exponents in +-400: exact by fma, within 2^-102
 * |a b| without. */
DPF_INLINE double residue(double a, double b, double product) {
#if DPF_FMA
    return __builtin_fma(a, b, -product);
#else
    /* upper parts of 26 bits: all is exact but the last product and sum */
    const double a_high = double_of(bits_of(a) & dpf_half_mask), a_low = a - a_high;
    const double b_high = double_of(bits_of(b) & dpf_half_mask), b_low = b - b_high;
    return (((a_high * b_high - product) + a_high * b_low) + a_low * b_high) + a_low * b_low;
#endif
}

/* *r + *r_low = R within 2^-72.6 / R + 2^-99 R for every U that begins with the digits (hi, lo), if
 * hi >= 2^32 and *r >= 2^-20: the caller must leave all else undecided. Next to U = 1 the
 * logarithm's error may exceed it; *r is then 2^-32, no NaN. */
DPF_INLINE void radius_double_double(uint64_t hi, uint64_t lo, double *r, double *r_low) {
    double high, low, sum, rest;
    minus_log_double_double(hi, lo, 0.0, 0.0, &high, &low);
    two_sum(high + high, low + low, &sum, &rest);
    const double twice = sum > 0x1p-64 ? sum : 0x1p-64;
    const double root = __builtin_sqrt(twice), square = root * root;
    *r = root;
    *r_low = (((twice - square) - residue(root, root, square)) + rest) / (root + root);
}

/* The sine and cosine of pi v/4 in two parts each, within 2^-76; v = (hi, lo) 2^-128 cut to 86
 * digits. v = (j + 1/2)/128 + d, angle a + b with b = (pi/4) d. dpf_sine has sin a and cos a as
 * multiples of 2^-32 and rests, so that products of upper parts are exact. */
DPF_INLINE void octant_double_double(uint64_t hi, uint64_t lo, double *s, double *s_low, double *c, double *c_low) {
    const dpf_sine_row *row = &dpf_sine[hi >> 57];
    const double s1 = row->sine, s2 = row->sine_low, c1 = row->cosine, c2 = row->cosine_low;
    const double sa = s1 + s2, ca = c1 + c2;
    /* d = d1 + d2: 27 digits about the middle of the cell, and 52 */
    const double d1 = double_of(0x4330000000000000 | (hi >> 30 & 0x7ffffff)) - 0x1.0000004p52;
    const double d2 = double_of(0x4330000000000000 | (hi & 0x3fffffff) << 22 | lo >> 42) - 0x1p52;
    const double lead = d1 * dpf_quarter_high; /* exact: 26 bits of pi/4 */
    const double tail = d1 * dpf_quarter_low + d2 * dpf_quarter;
    const double b1 = short_of(lead), b2 = (lead - b1) + tail;
    const double b = b1 + b2, w = b * b;
    /* sin b = b1 + sigma, 1 - cos b = g1 + g2 */
    const double p = small_sine_polynomial(w);
    const double q = dpf_small_cosine[0] - dpf_small_cosine[1] * w;
    const double sigma = b2 - (b * w) * p;
    const double half = 0.5 * (b1 * b1), g1 = short_of(half);
    const double g2 = (half - g1) + (b2 * (b1 + 0.5 * b2) - (w * w) * q);
    double sum, sum_low, high, high_low;
    two_sum(c1 * b1, -(s1 * g1), &sum, &sum_low);
    two_sum(s1, sum, &high, &high_low);
    two_sum(high, (sum_low + high_low) + (s2 + (ca * sigma + (c2 * b1 - (sa * g2 + s2 * g1)))), s, s_low);
    two_sum(-(s1 * b1), -(c1 * g1), &sum, &sum_low);
    two_sum(c1, sum, &high, &high_low);
    two_sum(high, (sum_low + high_low) + (c2 - (sa * sigma + (s2 * b1 + (ca * g2 + c2 * g1)))), c, c_low);
}
