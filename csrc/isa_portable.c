/* SPDX-License-Identifier: Apache-2.0
 * Every 64-bit machine runs this; it defines what the other instruction sets must give. */
#include "dpf_impl.h"

#define DPF_NEEDS(F)
#define DPF_VECTOR        16
#define DPF_FMA           0
#define DPF_VECTOR_ROTATE DPF_ROTATE
#define DPF_EQUAL         dpf_equal
#define DPF_EQUAL_BITS    8
#define DPF_CLEAR         DPF_CLEAR_BASE
#ifdef __x86_64__
#include <immintrin.h>
#define DPF_STORE(to, from) _mm_stream_si128((__m128i *)(to), _mm_loadu_si128((const __m128i *)(from)))
#else
#define DPF_STORE(to, from) memcpy(to, from, DPF_VECTOR)
#endif
#include "isa.h"

const dpf_isa dpf_isa_portable = DPF_OFFERS("portable");
