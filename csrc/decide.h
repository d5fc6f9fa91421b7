/* SPDX-License-Identifier: Apache-2.0
 * Certified arithmetic in doubles, shared by the laws and compiled for each instruction set. Every
 * bound is proved in decide.sollya and decide.gappa, in all four rounding modes. */
#pragma once
#include "approximations.h"

DPF_INLINE double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DPF_INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* high 2^32 + low, rounded once, from the bit patterns of 2^84 + high 2^32 and 2^52 + low: below
 * AVX-512 no vector instruction converts 64-bit integers. */
DPF_INLINE double to_double(uint32_t high, uint32_t low) {
    const double above = double_of(0x4530000000000000 | high) - 0x1.00000001p84;
    return above + double_of(0x4330000000000000 | low);
}

DPF_INLINE double as_double(uint64_t x) {
    return DPF_VECTOR == 64 ? (double)x : to_double((uint32_t)(x >> 32), (uint32_t)x);
}

/* count ln 2 - ln m, f = m - 1: ln m = s (2 + z R(z)), s = (m - 1)/(m + 1), z = s^2. */
DPF_INLINE double minus_log_of(double count, double f) {
    const double s = f / (f + 2.0);
    return count * dpf_one_ln2 - s * log_polynomial(s * s);
}

/* E = -ln(x 2^-n) within 2^-52 (2.25 E + 2), for x in [1/2, 2^64] or the double above 2^64.
 * digits = n + 1023 + 2^52; x = 2^e m, m in [m0, 2 m0), m0 a little below sqrt 1/2. */
DPF_INLINE double minus_log(double x, double digits) {
    const uint64_t shifted = bits_of(x) + (0x3ff0000000000000 - dpf_split); /* exponent of x / m0 */
    const double count = digits - double_of(0x4330000000000000 | shifted >> 52);
    return minus_log_of(count, double_of((shifted & 0x000fffffffffffff) + dpf_split) - 1.0);
}

/* E = -ln(x 2^-n) within 2^-35, for x = a + 1/2 and an integer a of n <= 32 bits; digits = n + 1023
 * + 2^11. x = 2^e m, count = 2^11 + 1023 + e + m - 1: E = (digits - count) ln 2 + Q(m), where Q(m)
 * is (m - 1) ln 2 - ln m. There is no division, and no table, which few vector units look up. */
DPF_INLINE double short_minus_log(double x, double digits) {
    const uint64_t bits = bits_of(x);
    const double count = double_of(0x40a0000000000000 | bits >> 11);
    const double m = double_of(0x3ff0000000000000 | (bits & 0x000fffffffffffff));
    const double rest = fused(short_log_polynomial(m), m, digits * dpf_one_ln2 + dpf_short_log);
    return fused(count, -dpf_one_ln2, rest);
}

#ifdef DPF_LOOK_UP
typedef double dpf_doubles __attribute__((vector_size(DPF_VECTOR)));
typedef uint64_t dpf_patterns __attribute__((vector_size(DPF_VECTOR)));

/* -ln(x 2^-digits) as minus_log has it, without a division, or as short_minus_log, by five
 * coefficients for thirteen: x = 2^e m, m in a sixteenth of [1, 2), has ln m = ln(1 + r) - ln c
 * with r = c m - 1, |r| < 2^-5. Registers hold both tables, so no address tells where m lies. */
DPF_INLINE dpf_doubles minus_log_by_cells(dpf_doubles x, int digits, int is_short) {
    const double *const p = is_short ? dpf_short_cell : dpf_long_cell;
    const dpf_doubles one_ln2 = dpf_one_ln2 - (dpf_doubles){0}, of = digits - (dpf_doubles){0};
    dpf_doubles c[2], log_c[2];
    memcpy(c, dpf_cells, sizeof c);
    memcpy(log_c, dpf_cell_logs, sizeof log_c);
    for (int half = 0; half < 2 && is_short; half++)
        log_c[half] = DPF_FUSED(of, one_ln2, log_c[half]);
    const dpf_patterns cell = (dpf_patterns)x >> 48; /* its last four bits */
    const dpf_doubles exponent = DPF_EXPONENT(x), log_of_c = DPF_LOOK_UP(log_c, cell);
    const dpf_doubles r = DPF_FUSED(DPF_MANTISSA(x), DPF_LOOK_UP(c, cell), -1.0 - (dpf_doubles){0});
    dpf_doubles sum = p[is_short ? 4 : 7] - (dpf_doubles){0};
    for (int k = is_short ? 3 : 6; k >= 0; k--)
        sum = DPF_FUSED(sum, r, p[k] - (dpf_doubles){0});
    return DPF_FUSED(-r, sum, DPF_FUSED(is_short ? -exponent : of - exponent, one_ln2, log_of_c));
}

/* The same of n draws at x, as many as whole vectors hold: so many. */
DPF_INLINE int minus_logs_by_cells(int n, int digits, int is_short, const void *x, void *e) {
    enum { EACH = DPF_VECTOR / 8 };
    for (size_t i = 0; i < (size_t)n / EACH; i++) {
        dpf_doubles at;
        memcpy(&at, (const char *)x + i * sizeof at, sizeof at); /* by characters: aligned as doubles are */
        at = minus_log_by_cells(at, digits, is_short);
        memcpy((char *)e + i * sizeof at, &at, sizeof at);
    }
    return n / EACH * EACH;
}
#else
DPF_INLINE int minus_logs_by_cells(int n, int digits, int is_short, const void *x, void *e) {
    (void)n, (void)digits, (void)is_short, (void)x, (void)e;
    return 0;
}
#endif

/* e = -ln(x 2^-digits) of n draws as short_minus_log has it. */
DPF_INLINE void short_logs(int n, int digits, const double *restrict x, double *restrict e) {
    for (int i = minus_logs_by_cells(n, digits, 1, x, e); i < n; i++)
        e[i] = short_minus_log(x[i], 0x1p11 + 1023.0 + digits);
}

/* a + 1/2, a below 2^32. */
DPF_INLINE double short_middle(uint64_t a) {
    return DPF_VECTOR == 64 ? (double)(uint32_t)a + 0.5 : double_of(0x4330000000000000 | a) - (0x1p52 - 0.5);
}

/* A 32-bit word at the width of a double; the top bit stays the top bit. */
DPF_INLINE uint64_t widened(uint32_t word) {
    return (uint64_t)(int64_t)(int32_t)word;
}

#if DPF_FMA
DPF_INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

DPF_INLINE uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* -ln(x 2^-31) in floats, for x in [1, 2^31]: within 2^-23 (E + 2). x = 2^e m, f = m - 3/2. */
DPF_INLINE float minus_log_float(float x) {
    const uint32_t bits = bits_of_float(x);
    const float count = (float)(127 + 31 - (int32_t)(bits >> 23));
    const float f = float_of(0x3f800000 | (bits & 0x007fffff)) - 1.5f;
    return __builtin_fmaf(count, dpf_float_ln2, float_log_polynomial(f));
}

/* 1.5 2^23, for floats what DPF_TO_INTEGER is for doubles. */
#define DPF_FLOAT_TO_INTEGER 0x1.8p23f
#endif

/* 1.5 2^52: adding it leaves the integer nearest to a double below 2^51 in the low bits. */
#define DPF_TO_INTEGER 0x1.8p52

DPF_INLINE int64_t integer_of(double shifted) {
    return (int64_t)(bits_of(shifted) - bits_of(DPF_TO_INTEGER));
}

/* The integer nearest to offset + y, |offset + y| < 2^51. *decided: it stays nearest whatever the
 * errors: the constant one, the one that grows with y, `angle_error`, and half_cell / weight. */
DPF_INLINE double nearest(const dpf_plan *plan, double offset, double y, double angle_error, double weight,
                          int *decided) {
    const double z = offset + y, k = (z + DPF_TO_INTEGER) - DPF_TO_INTEGER, g = z - k;
    const double error_margin =
        plan->margin - __builtin_fabs(g) - plan->relative_error * __builtin_fabs(y) - angle_error;
    *decided = error_margin * weight > plan->half_cell;
    return k;
}

/* What a law makes of a batch of 32-bit words before it is rounded. The loops that make it are
 * short: in a long one the processor waits for its own results. */
typedef struct {
    _Alignas(64) double noise[DPF_WORDS], weight[DPF_WORDS];
    double less[DPF_WORDS / 2];   /* pairs alone, which share their weights, too */
    int32_t cells[DPF_WORDS];     /* integers, once they are rounded */
    uint64_t word[DPF_WORDS / 2]; /* where words have 64 bits */
    dpf_ahead ahead;              /* what the law fetches meanwhile */
} dpf_short;

/* Fetch one of so many pieces of a law's share. */
DPF_INLINE void fetch_piece(const dpf_short *s, int piece, int of) {
    for (int i = fetched_by_law * piece / of; i < fetched_by_law * (piece + 1) / of; i++) {
        fetch(s->ahead, fetched_by_cipher + i, fetched_by_cipher + i + 1);
        __asm__ volatile("" : "+r"(i)); /* not unrolled, which would take ten kilobytes in all */
    }
}

/* For n words, of which U has the last `digits` bits: the middles of U's cells. */
DPF_INLINE void short_middles(const uint32_t *restrict words, int n, int digits, double *restrict x) {
    for (int i = 0; i < n; i++)
        x[i] = short_middle(words[i] & UINT32_MAX >> (32 - digits));
}

/* As nearest for z = offset + noise: plan->margin32 allows for the error of the largest noise, and
 * `less` for what grows with it beyond that. */
DPF_INLINE double nearest32(const dpf_plan *plan, double z, double less, double weight, int *decided) {
    const double k = (z + DPF_TO_INTEGER) - DPF_TO_INTEGER, room = plan->margin32 - less - __builtin_fabs(z - k);
    *decided = room * weight > plan->half_cell;
    return k;
}

/* x, or -x if negative is 1. */
DPF_INLINE double turned(double x, uint64_t negative) {
    return double_of(bits_of(x) ^ negative << 63);
}

/* x, or -x if a widened word's top bit is 1. */
DPF_INLINE double turned32(double x, uint64_t word) {
    return double_of(bits_of(x) ^ (word & 0x8000000000000000));
}
