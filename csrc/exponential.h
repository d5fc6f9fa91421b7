/* SPDX-License-Identifier: Apache-2.0
 * y = t (C - ln U), C = ln(2/(1+q)) or 0, from the digits of U in three arithmetics: the geometric
 * and the Laplace laws round it. discrete_laplace.md, sections 4 to 6, has the bounds. */
#pragma once
#include "refine.h"

/* The first 64 digits of U from both levels: the later word continues the prefix. */
DPF_INLINE uint64_t upper(uint64_t word, int width, uint64_t more) {
    return word << (65 - width) | more >> (width - 1);
}

DPF_INLINE uint64_t lower(int width, uint64_t more) {
    return more << (65 - width);
}

/* The bits of the middle of U's cell. Draws by doubles are made in short loops, as those by
 * dpf_short are; these bits and those of -ln U lie where cells will. */
DPF_INLINE int64_t long_middle(uint64_t u) {
    return (int64_t)bits_of(as_double(u) + 0.5);
}

DPF_INLINE void long_logs(int n, int digits, const int64_t *restrict x, int64_t *restrict e) {
    for (int i = minus_logs_by_cells(n, digits, 0, x, e); i < n; i++)
        e[i] = (int64_t)bits_of(minus_log(double_of((uint64_t)x[i]), 0x1p52 + 1023.0 + digits));
}

/* The same of one planted draw: by 63 digits as one of many, as level 0 is; else as one alone. */
DPF_INLINE double long_log(double x, int digits) {
    const int n = digits == 63 ? 8 : 1;
    int64_t bits[8], e[8];
    for (int i = 0; i < n; i++)
        bits[i] = (int64_t)bits_of(x);
    long_logs(n, digits, bits, e);
    return double_of((uint64_t)e[0]);
}

#if DPF_FMA
/* product + rest = t (C - ln U). A build without fma goes on to integers. */
DPF_INLINE void scaled_log_double_double(const dpf_plan *plan, uint64_t u, uint64_t more, double *product,
                                         double *rest) {
    double high, low;
    minus_log_double_double(u, more, plan->logarithm.c, plan->logarithm.c_low, &high, &low);
    *product = plan->t * high;
    *rest = __builtin_fma(plan->t, high, -*product) + __builtin_fma(plan->t, low, plan->t_low * high);
}
#endif

/* The upper half of t (C - ln U), a 128 x 128 bit product, in units of 2^-59: within 2^20 units for
 * all U in [prefix, prefix + 2^(128 - bits)) 2^-128, and *cell units more *down*. */
DPF_INLINE dpf_wide scaled_log_integers(const dpf_plan *plan, dpf_wide prefix, int bits, uint64_t *cell) {
    int zeros;
    const dpf_wide total = minus_log_integers(prefix, wide_of(plan->logarithm.wide_c), &zeros);
    const uint64_t a1 = plan->logarithm.wide_t.hi, a0 = plan->logarithm.wide_t.lo, b1 = (uint64_t)(total >> 64),
                   b0 = (uint64_t)total;
    const dpf_wide cross = (dpf_wide)a1 * b0 + high_product(a0, b0);
    const dpf_wide across = (dpf_wide)a0 * b1 + (uint64_t)cross;
    const int width = plan->logarithm.wide_cell + zeros - bits;
    *cell = (uint64_t)1 << (width < 0 ? 0 : width > 62 ? 62 : width);
    return (dpf_wide)a1 * b1 + (uint64_t)(cross >> 64) + (uint64_t)(across >> 64);
}

enum { scaled_log_bits = 59, scaled_log_error = 1 << 20 };
