/* SPDX-License-Identifier: Apache-2.0
 * Wider arithmetic, shared by the laws: 128-bit integers, and double-double. Proofs are in
 * double_double.gappa and in discrete_laplace.md, sections 5 and 6. */
#pragma once
#include "decide.h"
#include "wide_log.h"
#include "wide_sine.h"

/* The integer nearest to product + rest, |product| < 2^67 and |rest| < 2^36, in two limbs; *off is
 * the sum less the integer. product = 2^14 upper + middle + a fraction, the first two integers.
 * Only 2^-39 is lost, in directed rounding: there upper can be +-1 for the smallest product. */
DPF_INLINE void nearest_double_double(double product, double rest, int64_t *lo, int64_t *hi, double *off) {
    const double upper = product * 0x1p-14 + DPF_TO_INTEGER;
    const double lower = product - 0x1p14 * (upper - DPF_TO_INTEGER);
    const double middle = lower + DPF_TO_INTEGER;
    const double z = (lower - (middle - DPF_TO_INTEGER)) + rest;
    const double k = z + DPF_TO_INTEGER;
    const int64_t above = (int64_t)(bits_of(upper) - bits_of(DPF_TO_INTEGER));
    const int64_t below = (int64_t)(bits_of(middle) + bits_of(k) - 2 * bits_of(DPF_TO_INTEGER));
    const uint64_t sum = ((uint64_t)above << 14) + (uint64_t)below;
    const uint64_t carry = sum < (uint64_t)below;
    *off = z - (k - DPF_TO_INTEGER);
    *lo = (int64_t)sum;
    *hi = (int64_t)((uint64_t)(above >> 50) + (uint64_t)(below >> 63) + carry);
}

/* a + b = *sum + *rest within 2^-104 |a + b| [BGM17]; to nearest exactly [Knuth, TAOCP 4.2.2]. */
DPF_INLINE void two_sum(double a, double b, double *sum, double *rest) {
    const double s = a + b, from_b = s - a;
    *sum = s;
    *rest = (a - (s - from_b)) + (b - from_b);
}

DPF_INLINE uint64_t high_product(uint64_t a, uint64_t b) {
    return (uint64_t)((dpf_wide)a * b >> 64);
}

DPF_INLINE dpf_wide wide_of(dpf_u128 x) {
    return (dpf_wide)x.hi << 64 | x.lo;
}

/* c - ln U in units of 2^-120 within 2^-101, U = prefix 2^-128 with *zeros < 64 leading zeros. If
 * c - ln U may be below the error, c must be lifted by more (discrete_laplace.md, section 6). */
DPF_INLINE dpf_wide minus_log_integers(dpf_wide prefix, dpf_wide c, int *zeros) {
    const uint64_t first = (uint64_t)(prefix >> 64), rest = (uint64_t)prefix;
    const uint64_t top = first + (first == 0); /* 64 zeros stay undecided, but must not leave the tables */
    *zeros = __builtin_clzll(top);
    const uint64_t high = top << *zeros | rest >> 1 >> (63 - *zeros);
    const dpf_wide m = ((dpf_wide)high << 64 | rest << *zeros) >> 4; /* in [1, 2) of 2^123 */
    const uint64_t i = high >> 56 & 127;
    dpf_wide r = m * dpf_step1[i]; /* m c1 - 1 in units of 2^-133: the 1 is 2^133, gone with the carry */
    const uint64_t j = (uint64_t)(r >> 64) >> 56;
    r = r - ((dpf_wide)(dpf_step2[j] << 47) << 64) - (r >> 22) * dpf_step2[j];
    const uint64_t k = (uint64_t)(r >> 64) >> 49;
    r = r - ((dpf_wide)(dpf_step3[k] << 41) << 64) - (r >> 28) * dpf_step3[k];
    const uint64_t short_r = (uint64_t)(r >> 50);           /* units of 2^-83 */
    const uint64_t square = high_product(short_r, short_r); /* 2^-102 */
    const uint64_t cube = high_product(square, short_r);    /* 2^-121 */
    const uint64_t fourth = high_product(square, square);   /* 2^-140 */
    const dpf_wide log1p = (r >> 13) - ((dpf_wide)square << 17) + (cube / 6 - (fourth >> 22));
    return c + wide_of(dpf_ln2[*zeros + 1]) - wide_of(dpf_log1[i]) - wide_of(dpf_log2[j]) - wide_of(dpf_log3[k]) -
           log1p;
}

/* Read every cache line of a table: else a draw that looks at a cold one waits for it, and the time
 * of a small call tells which digits its noise has. */
static void read_lines(const void *table, size_t bytes) {
    const volatile char *at = table;
    for (size_t i = 0; i < bytes; i += 64)
        (void)at[i];
    (void)at[bytes - 1];
}

/* The same for all tables of a tier; box_muller: of its angles, too. */
static void read_tables(int tier, int box_muller) {
    if (tier < DPF_DOUBLE_DOUBLE)
        return; /* which has none */
    if (box_muller)
        read_lines(dpf_sine, sizeof dpf_sine);
#if DPF_FMA
    if (tier == DPF_DOUBLE_DOUBLE) {
        read_lines(dpf_reciprocals, sizeof dpf_reciprocals);
        return;
    }
#endif
    read_lines(dpf_step1, sizeof dpf_step1), read_lines(dpf_log1, sizeof dpf_log1);
    read_lines(dpf_step2, sizeof dpf_step2), read_lines(dpf_log2, sizeof dpf_log2);
    read_lines(dpf_step3, sizeof dpf_step3), read_lines(dpf_log3, sizeof dpf_log3);
    read_lines(dpf_ln2, sizeof dpf_ln2);
}

#if DPF_FMA
/* *high + *low = c - ln U within 2^-73.3, U the first 106 digits of (hi, lo), hi >= 2^32; c in two
 * parts, the first in 2^-45 Z. U = 2^e m; ln m = ln(1 + r) - ln c, r = m c - 1, |r| < 2^-8. */
DPF_INLINE void minus_log_double_double(uint64_t hi, uint64_t lo, double c, double c_low, double *high, double *low) {
    const double lead = to_double((uint32_t)(hi >> 32), (uint32_t)hi & 0xfffff800); /* 53 bits: exact */
    const double tail =
        to_double((uint32_t)(hi & 0x7ff) << 10 | (uint32_t)(lo >> 54), (uint32_t)(lo >> 22)); /* 2^-42 */
    const uint64_t bits = bits_of(lead);
    const double count = (0x1p52 + 1023.0 + 64.0) - double_of(0x4330000000000000 | bits >> 52);
    const double m = double_of((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    /* 2^(-e - 42): the exponent field of tail's unit, from that of lead's */
    const double unit = double_of(((uint64_t)(2 * 1023 - 42) << 52) - (bits & 0x7ff0000000000000));
    const dpf_reciprocal *row = &dpf_reciprocals[bits >> 45 & 127];
    const double product = m * row->c;
    const double rest = __builtin_fma(tail * unit, row->c, __builtin_fma(m, row->c, -product));
    double r, r_low;
    two_sum(product - 1.0, rest, &r, &r_low);
    const double square = r * r;
    const double square_low = __builtin_fma(r, r, -square) + 2.0 * r * r_low;
    const double p = log1p_polynomial(r);
    const double known =
        __builtin_fma(count, dpf_ln2_high, row->log_high) + c; /* exact: multiples of 2^-45 below 2^7 */
    double sum, low1, low2;
    two_sum(known, -r, &sum, &low1);
    two_sum(sum, 0.5 * square, high, &low2);
    const double small = (low1 + low2) + __builtin_fma(count, dpf_ln2_low, row->log_low + c_low);
    *low = __builtin_fma(-square * r, p, small + (0.5 * square_low - r_low));
}
#else
/* The same by integers, lifted by 2^-100 so that nothing wraps. */
DPF_INLINE void minus_log_double_double(uint64_t hi, uint64_t lo, double c, double c_low, double *high, double *low) {
    int zeros;
    const dpf_wide lift = (dpf_wide)1 << 20, total = minus_log_integers((dpf_wide)hi << 64 | lo, lift, &zeros);
    const uint64_t top = (uint64_t)(total >> 73), rest = (uint64_t)(total >> 9);
    double sum, error;
    two_sum(c, to_double((uint32_t)(top >> 32), (uint32_t)top) * 0x1p-47, &sum, &error);
    *high = sum;
    *low = error + c_low + to_double((uint32_t)(rest >> 32), (uint32_t)rest) * 0x1p-111;
}
#endif
