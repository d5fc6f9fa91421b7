/* SPDX-License-Identifier: Apache-2.0
 * x86-64 with vectors of 64 bytes: from Skylake-SP and Zen 4 on. No lzcnt, as in isa_avx2.c. */
#include "dpf_impl.h"

#ifdef __x86_64__
#include <immintrin.h>
#if defined(__clang__) && defined(_MSC_VER) /* as in isa_avx2.c */
#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>

#include <avx512fintrin.h>

#include <avx512bwintrin.h>
#endif

#ifndef __clang__
#pragma GCC target("prefer-vector-width=512")
#ifndef __OPTIMIZE__ /* where its intrinsics are macros, whose masks of all bits change their sign */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
#endif
#define DPF_NEEDS(F)                                                                                                   \
    F(avx2)                                                                                                            \
    F(fma) F(bmi) F(bmi2) F(popcnt) F(avx512f) F(avx512bw) F(avx512cd) F(avx512dq) F(avx512vl)
#define DPF_VECTOR          64
#define DPF_FMA             1
#define DPF_STORE(to, from) _mm512_stream_si512((void *)(to), _mm512_loadu_si512((const void *)(from)))
#define DPF_VECTOR_ROTATE   DPF_ROTATE
#define DPF_EQUAL(from, k)                                                                                             \
    (uint64_t) _mm512_cmpeq_epi16_mask(_mm512_loadu_si512((const void *)(from)), _mm512_set1_epi16(k))
#define DPF_EQUAL_BITS       1
#define DPF_FUSED            _mm512_fmadd_pd
#define DPF_EXPONENT         _mm512_getexp_pd
#define DPF_MANTISSA(x)      _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero)
#define DPF_LOOK_UP(from, k) _mm512_permutex2var_pd((from)[0], (__m512i)(k), (from)[1])
#define DPF_CLEAR                                                                                                      \
    __asm__ volatile("vzeroall\n.irp k,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"                              \
                     "vpxord %%zmm\\k, %%zmm\\k, %%zmm\\k\n.endr" ::                                                   \
                         : "memory", DPF_LOW_VECTORS, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",   \
                           "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31")
#include "isa.h"

const dpf_isa dpf_isa_avx512 = DPF_OFFERS("avx512");
#endif
