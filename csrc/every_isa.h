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

/* An instruction set's needs on top of what the command line allows (sse2 every one has): then the helpers of
 * dpf_impl.h, compiled for the command line's machine, may be inlined. With an arch= of its own GCC refuses. */
#define DPF_PRAGMA_(...) _Pragma(#__VA_ARGS__)
#define DPF_PRAGMA(...)  DPF_PRAGMA_(__VA_ARGS__)
#ifdef __clang__
#define DPF_NEED(name) "," name
#define DPF_PUSH(NEEDS)                                                                                                \
    DPF_PRAGMA(clang attribute push(__attribute__((target("sse2" NEEDS(DPF_NEED)))), apply_to = function))
#define DPF_POP DPF_PRAGMA(clang attribute pop)
#else
#define DPF_NEED(name)  , name
#define DPF_PUSH(NEEDS) DPF_PRAGMA(GCC push_options) DPF_PRAGMA(GCC target("sse2" NEEDS(DPF_NEED)))
#define DPF_POP         DPF_PRAGMA(GCC pop_options)
#endif

DPF_PUSH(DPF_AVX2_NEEDS)
#define DPF_ISA    avx2
#define DPF_VECTOR 32
#define DPF_FMA    1
#include DPF_SELF
#undef DPF_ISA
#undef DPF_VECTOR
#undef DPF_FMA
DPF_POP

DPF_PUSH(DPF_AVX512_NEEDS)
#ifndef __clang__
#pragma GCC target("prefer-vector-width=512")
#endif
#define DPF_ISA    avx512
#define DPF_VECTOR 64
#define DPF_FMA    1
#include DPF_SELF
#undef DPF_ISA
#undef DPF_VECTOR
#undef DPF_FMA
DPF_POP

#undef DPF_PRAGMA_
#undef DPF_PRAGMA
#undef DPF_NEED
#undef DPF_PUSH
#undef DPF_POP

#endif /* DPF_X86 */
#undef DPF_SELF
