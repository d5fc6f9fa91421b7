/* SPDX-License-Identifier: Apache-2.0
 * Numbers in an upper part and a double for the rest, for the extended tier: a double has a few
 * bits too few for a constant-work draw of the default grid, and double-double far too many.
 * laplace.md and gaussian.md, section 8, have the bounds; extended.gappa and extended_normal.gappa
 * prove them. */
#pragma once
#include "normal.h"

/* x to its first 26 bits, towards 0. */
DPF_INLINE double half_of(double x) {
    return double_of(bits_of(x) & dpf_half_mask);
}

/* a b - c within one rounding and 2^-101 |a b|, for a c so near that a product less c is exact. */
DPF_INLINE double product_less(double a, double b, double c) {
#if DPF_FMA
    return __builtin_fma(a, b, -c);
#else
    const double product = a * b;
    return (product - c) + residue(a, b, product);
#endif
}

/* *high + *low = -ln U within 2^-57.4, U = (u + 1/2) 2^-64; *x is u + 1/2, rounded. U = 2^e M,
 * ln M = 2 artanh Q, Q = F/(2 + F), F = M - 1 = f + f_low. s is Q + over, and artanh's slope there
 * about 1 + z. */
DPF_INLINE void minus_log_extended(uint64_t u, double *x, double *high, double *low) {
    double rest;
    *x = middle(u >> 32, u & 0xffffffff, &rest);
    const uint64_t bits = bits_of(*x);
    const uint64_t shifted = bits + (0x3ff0000000000000 - dpf_split);
    const uint64_t exponent = shifted & 0xfff0000000000000;
    const double count = (0x1p52 + 1023.0 + 64.0) - double_of(0x4330000000000000 | shifted >> 52);
    const double f = double_of(bits - exponent + 0x3ff0000000000000) - 1.0;
    const double f_low = rest * double_of(0x7fe0000000000000 - exponent);
    const double d = f + 2.0, d_low = (f - (d - 2.0)) + f_low;
    const double inverse = 1.0 / d, s = f * inverse, z = s * s;
    const double over = fused(s, d_low, product_less(s, d, f) - f_low) * inverse;
    const double known = count * dpf_ln2_high, twice = s + s, sum = known - twice;
    const double known_low = fused(count, -dpf_ln2_low, -2.0 * fused(z, over, over));
    *high = sum;
    *low = ((known - sum) - twice) - fused(s, z * log_rest_polynomial(z), known_low);
}

/* *r + *r_low = R = sqrt(-2 ln U) within 2^-55.5 R if R >= 2^-20, U and *x likewise. */
DPF_INLINE void radius_extended(uint64_t u, double *x, double *r, double *r_low) {
    double high, low;
    minus_log_extended(u, x, &high, &low);
    const double twice = high + high, twice_low = low + low, root = __builtin_sqrt(twice + twice_low);
    *r = root;
    *r_low = (twice_low - product_less(root, root, twice)) / (root + root);
}

/* The sine and cosine of pi v/4, v = (a + 1/2) 2^-64, in 26 bits and a rest each, within 2^-53.2
 * and 2^-55.2. dpf_eighth is pi/4 and dpf_curve -pi^2/32, in two doubles. */
DPF_INLINE void octant_extended(uint64_t a, double *s, double *s_low, double *c, double *c_low) {
    double rest;
    const double v = middle(a >> 32, a & 0xffffffff, &rest) * 0x1p-64;
    const double turn = rest * 0x1p-64 * dpf_eighth[0]; /* the angle that v lacks */
    const double w = v * v, w_low = residue(v, v, w);
    const double arch = v * fused(w, sine_rest_polynomial(w), dpf_eighth[1]);
    const double fall = fused(w * w, cosine_rest_polynomial(w), fused(w, dpf_curve[1], w_low * dpf_curve[0]));
    const double sine = half_of(fused(v, dpf_eighth[0], arch)), cosine = half_of(fused(w, dpf_curve[0], 1.0) + fall);
    *s = sine;
    *s_low = fused(turn, cosine, product_less(v, dpf_eighth[0], sine) + arch);
    *c = cosine;
    *c_low = fused(-turn, sine, product_less(w, dpf_curve[0], cosine - 1.0) + fall);
}
