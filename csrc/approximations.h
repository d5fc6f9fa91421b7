/* SPDX-License-Identifier: Apache-2.0
 * Written by tools/make_approximations.py, which says what each is. */
#pragma once
#include "machine.h"

/* a b + c, rounded once or twice: the bounds hold for both, and a decided draw is the same. */
DPF_INLINE double fused(double a, double b, double c) {
    return DPF_FMA ? __builtin_fma(a, b, c) : a * b + c;
}

static const double dpf_one_ln2 = 0x1.62e42fefa39efp-1, dpf_root_two = 0x1.6a09e667f3bcdp0;
static const float dpf_float_ln2 = 0x1.62e43p-1f;
static const double dpf_short_log = 0x1.0867294c35df5p1;
static const uint64_t dpf_split = 0x3fe6a09e00000000; /* the pattern of m0 */
static const uint64_t dpf_short_mask = 0xffffffff00000000, dpf_half_mask = 0xfffffffff8000000;
static const double dpf_quarter_high = 0x1.921fb50000000p-35, dpf_quarter_low = 0x1.110b4611a6263p-61;
static const double dpf_quarter = 0x1.921fb54442d18p-87;
static const double dpf_eighth[2] = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}, dpf_curve[2] = {-0x1.3bd3cc9be45dep-2, -0x1.692b71366cc04p-56};
static const double dpf_small_cosine[2] = {0x1.5555555555555p-5, 0x1.6c16c16c16c17p-10};

/* (ln m)/s = 2 + z R(z): R. */
DPF_INLINE double log_rest_polynomial(double z) {
    double sum = 0x1.2b63baf6b5ad3p-3;
    sum = fused(sum, z, 0x1.39fd724a51eadp-3);
    sum = fused(sum, z, 0x1.7462bbc992a96p-3);
    sum = fused(sum, z, 0x1.c71c62cd506d9p-3);
    sum = fused(sum, z, 0x1.2492492e0234ep-2);
    sum = fused(sum, z, 0x1.9999999995287p-2);
    sum = fused(sum, z, 0x1.5555555555558p-1);
    return sum;
}

/* (ln m)/s = 2 + z R(z). */
DPF_INLINE double log_polynomial(double z) {
    double sum = 0x1.2b63baf6b5ad3p-3;
    sum = fused(sum, z, 0x1.39fd724a51eadp-3);
    sum = fused(sum, z, 0x1.7462bbc992a96p-3);
    sum = fused(sum, z, 0x1.c71c62cd506d9p-3);
    sum = fused(sum, z, 0x1.2492492e0234ep-2);
    sum = fused(sum, z, 0x1.9999999995287p-2);
    sum = fused(sum, z, 0x1.5555555555558p-1);
    sum = fused(sum, z, 2.0);
    return sum;
}

/* (m - 1) ln 2 - ln m = dpf_short_log + m p(m). */
DPF_INLINE double short_log_polynomial(double m) {
    double sum = 0x1.e952a6a7899b7p-11;
    sum = fused(sum, m, -0x1.2aeff2bae3afep-6);
    sum = fused(sum, m, 0x1.5006ae2ee1491p-3);
    sum = fused(sum, m, -0x1.cc453bc17852cp-1);
    sum = fused(sum, m, 0x1.accf134f6415dp1);
    sum = fused(sum, m, -0x1.1f32933e068dbp3);
    sum = fused(sum, m, 0x1.1cf4dedc354cep4);
    sum = fused(sum, m, -0x1.a9349efd04787p4);
    sum = fused(sum, m, 0x1.df866e6609bbap4);
    sum = fused(sum, m, -0x1.982512196d825p4);
    sum = fused(sum, m, 0x1.0679ab9cab06fp4);
    sum = fused(sum, m, -0x1.f27eff8f6762ap2);
    return sum;
}

/* ln(1 + r) = r p(r): p, the lowest first. */
static const double dpf_short_cell[] = {
    0x1.0000000011d4bp0, -0x1.fffffbe16bfa9p-2, 0x1.55554c8b9b5f9p-2, -0x1.003842f0bd326p-2,
    0x1.9a1f33fac688dp-3};

/* The same to more digits. */
static const double dpf_long_cell[] = {
    0x1.fffffffffffe7p-1, -0x1.fffffffffff56p-2, 0x1.5555555608397p-2, -0x1.000000016079bp-2,
    0x1.99998432be38cp-3, -0x1.5555377096f05p-3, 0x1.250b490aa5392p-3, -0x1.0083ea4632f47p-3};

/* c, near 1/m in the middle of each sixteenth of [1, 2). */
static const double dpf_cells[] = {
    0x1.f08p-1, 0x1.d42p-1, 0x1.bacp-1, 0x1.a42p-1,
    0x1.8fap-1, 0x1.7dp-1, 0x1.6c2p-1, 0x1.5cap-1,
    0x1.4e6p-1, 0x1.414p-1, 0x1.352p-1, 0x1.29ep-1,
    0x1.1f8p-1, 0x1.15cp-1, 0x1.0cap-1, 0x1.042p-1};

/* ln c. */
static const double dpf_cell_logs[] = {
    -0x1.f7a9b16782856p-6, -0x1.6ef528c056a2cp-4, -0x1.299d30c606ea7p-3, -0x1.9509aa0044f8fp-3,
    -0x1.fb7d86eee3b90p-3, -0x1.2e9e2bce12286p-2, -0x1.5d01dc49ff2e8p-2, -0x1.898d38a89347ep-2,
    -0x1.b44977c148f1bp-2, -0x1.dd4aa04e1c4b6p-2, -0x1.02582a5c9d123p-1, -0x1.15533d3b8d7b3p-1,
    -0x1.2779e1ec93ecap-1, -0x1.39240dde5ce92p-1, -0x1.4a3e862342525p-1, -0x1.5ab505b39040bp-1};

/* ln(1 + r) = r - r^2/2 + r^3 p(r). */
DPF_INLINE double log1p_polynomial(double r) {
    double sum = -0x1.999999999999ap-4;
    sum = __builtin_fma(sum, r, 0x1.c71c71c71c71cp-4);
    sum = __builtin_fma(sum, r, -0x1p-3);
    sum = __builtin_fma(sum, r, 0x1.2492492492492p-3);
    sum = __builtin_fma(sum, r, -0x1.5555555555555p-3);
    sum = __builtin_fma(sum, r, 0x1.999999999999ap-3);
    sum = __builtin_fma(sum, r, -0x1p-2);
    sum = __builtin_fma(sum, r, 0x1.5555555555555p-2);
    return sum;
}

/* -ln(3/2 + f). */
DPF_INLINE float float_log_polynomial(float f) {
    float sum = 0x1.9e46fap-8f;
    sum = __builtin_fmaf(sum, f, -0x1.4fd964p-7f);
    sum = __builtin_fmaf(sum, f, 0x1.d302bp-7f);
    sum = __builtin_fmaf(sum, f, -0x1.a967dp-6f);
    sum = __builtin_fmaf(sum, f, 0x1.94e092p-5f);
    sum = __builtin_fmaf(sum, f, -0x1.94a71p-4f);
    sum = __builtin_fmaf(sum, f, 0x1.c71b9cp-3f);
    sum = __builtin_fmaf(sum, f, -0x1.555544p-1f);
    sum = __builtin_fmaf(sum, f, -0x1.9f323ep-2f);
    return sum;
}

/* (sin pi v/4)/v, w = v^2. */
DPF_INLINE double sine_polynomial(double w) {
    double sum = 0x1.e357ef99eb0bap-38;
    sum = fused(sum, w, -0x1.e2fe76fdffd2bp-30);
    sum = fused(sum, w, 0x1.50782d5f14825p-22);
    sum = fused(sum, w, -0x1.32d2ccdfe9424p-15);
    sum = fused(sum, w, 0x1.466bc67754fffp-9);
    sum = fused(sum, w, -0x1.4abbce625be09p-4);
    sum = fused(sum, w, 0x1.921fb54442d18p-1);
    return sum;
}

/* cos pi v/4, w = v^2. */
DPF_INLINE double cosine_polynomial(double w) {
    double sum = 0x1.f3dca8531a138p-34;
    sum = fused(sum, w, -0x1.a6c9c96ed0881p-26);
    sum = fused(sum, w, 0x1.e1f4fb8227887p-19);
    sum = fused(sum, w, -0x1.55d3c7dc3b7f3p-12);
    sum = fused(sum, w, 0x1.03c1f081b0e01p-6);
    sum = fused(sum, w, -0x1.3bd3cc9be459dp-2);
    sum = fused(sum, w, 1.0);
    return sum;
}

/* sin pi v/4 = v (pi/4 + w S(w)): S. */
DPF_INLINE double sine_rest_polynomial(double w) {
    double sum = 0x1.e4a9327454b39p-38;
    sum = fused(sum, w, -0x1.e3027c19b467ap-30);
    sum = fused(sum, w, 0x1.50783206ab3dap-22);
    sum = fused(sum, w, -0x1.32d2cce4fe916p-15);
    sum = fused(sum, w, 0x1.466bc6775a463p-9);
    sum = fused(sum, w, -0x1.4abbce625be52p-4);
    return sum;
}

/* cos pi v/4 = 1 - (pi^2/32) w + w^2 C(w): C. */
DPF_INLINE double cosine_rest_polynomial(double w) {
    double sum = -0x1.b3ac37776e5d5p-42;
    sum = fused(sum, w, 0x1.f9d03119595e4p-34);
    sum = fused(sum, w, -0x1.a6d1f11c16a6ap-26);
    sum = fused(sum, w, 0x1.e1f5068892b19p-19);
    sum = fused(sum, w, -0x1.55d3c7e3cbfa7p-12);
    sum = fused(sum, w, 0x1.03c1f081b5ac4p-6);
    return sum;
}

/* (sin pi v/4)/V, w = V^2, v = V 2^-29. */
DPF_INLINE double short_sine_polynomial(double w) {
    double sum = 0x1.4bc25574d1a2cp-283;
    sum = fused(sum, w, -0x1.32ca854cad1bfp-218);
    sum = fused(sum, w, 0x1.466bba8bfc001p-154);
    sum = fused(sum, w, -0x1.4abbce564cd85p-91);
    sum = fused(sum, w, 0x1.921fb5443af5fp-30);
    return sum;
}

/* cos pi v/4, likewise. */
DPF_INLINE double short_cosine_polynomial(double w) {
    double sum = 0x1.d9c364eac5df8p-251;
    sum = fused(sum, w, -0x1.55c57b06db5f0p-186);
    sum = fused(sum, w, 0x1.03c1dc1bafc62p-122);
    sum = fused(sum, w, -0x1.3bd3cc7323531p-60);
    sum = fused(sum, w, 0x1.ffffffff97c47p-1);
    return sum;
}

/* (sin pi v/4)/v, w = v^2. */
DPF_INLINE float float_sine_polynomial(float w) {
    float sum = -0x1.2bbf4ap-15f;
    sum = __builtin_fmaf(sum, w, 0x1.4650e6p-9f);
    sum = __builtin_fmaf(sum, w, -0x1.4abb7cp-4f);
    sum = __builtin_fmaf(sum, w, 0x1.921fb4p-1f);
    return sum;
}

/* cos pi v/4, w = v^2. */
DPF_INLINE float float_cosine_polynomial(float w) {
    float sum = 0x1.d61e28p-19f;
    sum = __builtin_fmaf(sum, w, -0x1.55b684p-12f);
    sum = __builtin_fmaf(sum, w, 0x1.03c1b6p-6f);
    sum = __builtin_fmaf(sum, w, -0x1.3bd3ccp-2f);
    sum = __builtin_fmaf(sum, w, 1.0f);
    return sum;
}

/* (b - sin b)/b^3, w = b^2. */
DPF_INLINE double small_sine_polynomial(double w) {
    double sum = 0x1.a01a01a01a01ap-13;
    sum = sum * w + -0x1.1111111111111p-7;
    sum = sum * w + 0x1.5555555555555p-3;
    return sum;
}
