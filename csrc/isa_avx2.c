/* SPDX-License-Identifier: Apache-2.0
 * x86-64 from Haswell and Excavator on. No lzcnt: a CPU without it executes bsr without a fault. */
#include "dpf_impl.h"

#ifdef __x86_64__
#include <immintrin.h>
#if defined(__clang__) && defined(_MSC_VER) /* where it leaves out what the command line does not allow */
#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>
#endif

#define DPF_NEEDS(F)        F(avx2) F(fma) F(bmi) F(bmi2) F(popcnt)
#define DPF_VECTOR          32
#define DPF_FMA             1
#define DPF_STORE(to, from) _mm256_stream_si256((__m256i *)(to), _mm256_loadu_si256((const __m256i *)(from)))
#define DPF_VECTOR_ROTATE(x, k)                                                                                        \
    ((k) % 8 ? DPF_ROTATE(x, k) : (vector)_mm256_shuffle_epi8((__m256i)(x), (k) == 16 ? DPF_BY_16 : DPF_BY_8))
#define DPF_BYTES(a, b, c, d)                                                                                          \
    _mm256_setr_epi8(a, b, c, d, 4 + a, 4 + b, 4 + c, 4 + d, 8 + a, 8 + b, 8 + c, 8 + d, 12 + a, 12 + b, 12 + c,       \
                     12 + d, a, b, c, d, 4 + a, 4 + b, 4 + c, 4 + d, 8 + a, 8 + b, 8 + c, 8 + d, 12 + a, 12 + b,       \
                     12 + c, 12 + d)
#define DPF_BY_16 DPF_BYTES(2, 3, 0, 1)
#define DPF_BY_8  DPF_BYTES(3, 0, 1, 2)
#define DPF_EQUAL(from, k)                                                                                             \
    (uint32_t)                                                                                                         \
        _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)(from)), _mm256_set1_epi16(k)))
#define DPF_EQUAL_BITS 2
#define DPF_CLEAR      __asm__ volatile("vzeroall" ::: "memory", DPF_LOW_VECTORS)
#include "isa.h"

const dpf_isa dpf_isa_avx2 = DPF_OFFERS("avx2");
#endif
