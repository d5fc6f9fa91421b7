/* SPDX-License-Identifier: Apache-2.0
 * Certified arithmetic in doubles, shared by the laws and compiled for each instruction set. Every
 * bound is proved in decide.sollya, decide.gappa and twofold.gappa, in all four rounding modes. */

DPF_INLINE double FN(double_of)(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DPF_INLINE uint64_t FN(bits_of)(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* high 2^32 + low, rounded once: 2^84 + high 2^32 and 2^52 + low are read off their bit patterns, for
 * a conversion of 64-bit integers has no vector form below AVX-512. */
DPF_INLINE double FN(to_double)(uint32_t high, uint32_t low) {
    const double above = FN(double_of)(0x4530000000000000 | high) - 0x1.00000001p84;
    return above + FN(double_of)(0x4330000000000000 | low);
}

/* E = -ln(x 2^-n) for x in [1/2, 2^64], or the double above, within 2^-52 (2.25 E + 2); digits = n + 1023 + 2^52.
 * With x = 2^e m, m in [m0, 2 m0), m0 a little below sqrt 1/2: ln m = s (2 + z R(z)), s = (m-1)/(m+1), z = s^2. */
DPF_INLINE double FN(minus_log)(double x, double digits) {
    const uint64_t bits = FN(bits_of)(x);
    const uint64_t shifted = bits + (0x3ff0000000000000 - 0x3fe6a09e00000000); /* exponent of x / sqrt(1/2) */
    const double count = digits - FN(double_of)(0x4330000000000000 | shifted >> 52);
    const double m = FN(double_of)(bits - (shifted & 0xfff0000000000000) + 0x3ff0000000000000);
    const double f = m - 1.0;
    const double s = f / (f + 2.0);
    const double z = s * s;
    double r = 0x1.2b63baf6b5ad3p-3;
    r = r * z + 0x1.39fd724a51eadp-3;
    r = r * z + 0x1.7462bbc992a96p-3;
    r = r * z + 0x1.c71c62cd506d9p-3;
    r = r * z + 0x1.2492492e0234ep-2;
    r = r * z + 0x1.9999999995287p-2;
    r = r * z + 0x1.5555555555558p-1;
    return count * 0x1.62e42fefa39efp-1 - s * (r * z + 2.0);
}

/* 1.5 2^52: adding it leaves the integer nearest to a double below 2^51 in the low bits. */
#define DPF_TO_INTEGER 0x1.8p52

#if DPF_FMA
/* a + b = *sum + *rest: exactly to nearest [Knuth, TAOCP 4.2.2], within 2^-104 |a + b| in any mode [BGM17]. */
DPF_INLINE void FN(two_sum)(double a, double b, double *sum, double *rest) {
    const double s = a + b, from_b = s - a;
    *sum = s;
    *rest = (a - (s - from_b)) + (b - from_b);
}

/* *high + *low = c - ln U within 2^-73.3, for U the first 106 digits of (hi, lo), hi >= 2^32; c in two parts, the
 * first a multiple of 2^-45. U = 2^e m; ln m = ln(1 + r) - ln c, r = m c - 1, |r| < 2^-8. */
DPF_INLINE void FN(minus_log_twofold)(uint64_t hi, uint64_t lo, double c, double c_low, double *high, double *low) {
    const double lead = FN(to_double)((uint32_t)(hi >> 32), (uint32_t)hi & 0xfffff800); /* 53 bits: exact */
    const double tail =
        FN(to_double)((uint32_t)(hi & 0x7ff) << 10 | (uint32_t)(lo >> 54), (uint32_t)(lo >> 22)); /* 2^-42 */
    const uint64_t bits = FN(bits_of)(lead);
    const double count = (0x1p52 + 1023.0 + 64.0) - FN(double_of)(0x4330000000000000 | bits >> 52);
    const double m = FN(double_of)((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    /* 2^(-e - 42): the exponent field of tail's unit, from that of lead's */
    const double unit = FN(double_of)(((uint64_t)(2 * 1023 - 42) << 52) - (bits & 0x7ff0000000000000));
    const dpf_twofold_row *row = &dpf_twofold[bits >> 45 & 127];
    const double product = m * row->c;
    const double rest = __builtin_fma(tail * unit, row->c, __builtin_fma(m, row->c, -product));
    double r, r_low;
    FN(two_sum)(product - 1.0, rest, &r, &r_low);
    const double square = r * r;
    const double square_low = __builtin_fma(r, r, -square) + 2.0 * r * r_low;
    double p = -0x1.999999999999ap-4; /* ln(1 + r) = r - r^2/2 + r^3 p: p = 1/3 - r/4 + ... - r^7/10 */
    p = __builtin_fma(p, r, 0x1.c71c71c71c71cp-4);
    p = __builtin_fma(p, r, -0x1p-3);
    p = __builtin_fma(p, r, 0x1.2492492492492p-3);
    p = __builtin_fma(p, r, -0x1.5555555555555p-3);
    p = __builtin_fma(p, r, 0x1.999999999999ap-3);
    p = __builtin_fma(p, r, -0x1p-2);
    p = __builtin_fma(p, r, 0x1.5555555555555p-2);
    const double known =
        __builtin_fma(count, DPF_LN2_HIGH, row->log_high) + c; /* exact: multiples of 2^-45 below 2^7 */
    double sum, low1, low2;
    FN(two_sum)(known, -r, &sum, &low1);
    FN(two_sum)(sum, 0.5 * square, high, &low2);
    const double small = (low1 + low2) + __builtin_fma(count, DPF_LN2_LOW, row->log_low + c_low);
    *low = __builtin_fma(-square * r, p, small + (0.5 * square_low - r_low));
}
#endif
