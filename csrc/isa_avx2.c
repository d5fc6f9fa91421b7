/* SPDX-License-Identifier: Apache-2.0
 * x86-64 from Haswell and Excavator on. No lzcnt: a CPU without it executes bsr without a fault. */
#include "dpf_impl.h"

#ifdef __x86_64__
#include <immintrin.h>

#define DPF_NEEDS(F)        F("avx2") F("fma") F("bmi") F("bmi2") F("popcnt")
#define DPF_VECTOR          32
#define DPF_FMA             1
#define DPF_STORE(to, from) _mm256_stream_si256((__m256i *)(to), _mm256_loadu_si256((const __m256i *)(from)))
#define DPF_VECTOR_ROTATE   DPF_ROTATE
#include "isa.h"

const dpf_isa dpf_isa_avx2 = DPF_OFFERS("avx2");
#endif
