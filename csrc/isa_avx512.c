/* SPDX-License-Identifier: Apache-2.0
 * x86-64 with vectors of 64 bytes: from Skylake-SP and Zen 4 on. No lzcnt, as in isa_avx2.c. */
#include "dpf_impl.h"

#ifdef __x86_64__
#include <immintrin.h>

#ifndef __clang__
#pragma GCC target("prefer-vector-width=512")
#endif
#define DPF_NEEDS(F)                                                                                                   \
    F("avx2")                                                                                                          \
    F("fma") F("bmi") F("bmi2") F("popcnt") F("avx512f") F("avx512bw") F("avx512cd") F("avx512dq") F("avx512vl")
#define DPF_VECTOR          64
#define DPF_FMA             1
#define DPF_STORE(to, from) _mm512_stream_si512((void *)(to), _mm512_loadu_si512((const void *)(from)))
#define DPF_VECTOR_ROTATE   DPF_ROTATE
#define DPF_EQUAL(from, k)                                                                                             \
    (uint64_t) _mm512_cmpeq_epi16_mask(_mm512_loadu_si512((const void *)(from)), _mm512_set1_epi16(k))
#define DPF_EQUAL_BITS 1
#include "isa.h"

const dpf_isa dpf_isa_avx512 = DPF_OFFERS("avx512");
#endif
