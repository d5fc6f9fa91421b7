/* SPDX-License-Identifier: Apache-2.0
 * Compile DPF_SELF, the file that includes this, once for each instruction set: one source, equal
 * bytes. DPF_ISA is the suffix, DPF_VECTOR the width in bytes,
 * DPF_FMA whether fma is one instruction. No guard: many files come by. */

#define DPF_ISA    portable
#define DPF_VECTOR 16
#ifdef __aarch64__
#define DPF_FMA 1
#else
#define DPF_FMA 0
#endif
#include DPF_SELF
#undef DPF_ISA
#undef DPF_VECTOR
#undef DPF_FMA

#if DPF_X86

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif
#define DPF_ISA    avx2
#define DPF_VECTOR 32
#define DPF_FMA    1
#include DPF_SELF
#undef DPF_ISA
#undef DPF_VECTOR
#undef DPF_FMA
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#ifdef __clang__
#pragma clang attribute push(                                                                                          \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt"))),             \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#endif
#define DPF_ISA    avx512
#define DPF_VECTOR 64
#define DPF_FMA    1
#include DPF_SELF
#undef DPF_ISA
#undef DPF_VECTOR
#undef DPF_FMA
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif /* DPF_X86 */
#undef DPF_SELF
