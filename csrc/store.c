/* SPDX-License-Identifier: Apache-2.0
 * Results on their way to memory, past the caches where that pays. */
#ifndef DPF_ISA
#include "dpf_impl.h"

#if DPF_X86
#include <immintrin.h>
#endif

#define DPF_SELF "store.c"
#include "every_isa.h"

void dpf_store(int isa, void *to, const void *from, int64_t n, int stream) {
    char *out = to;
    const char *in = from;
    if (stream && ((uintptr_t)out & 7) == 0) {
        const int64_t head = (int64_t)(-(uintptr_t)out & 63) / 8, first = head < n ? head : n, lines = (n - first) / 8;
        memcpy(out, in, (size_t)first * 8);
        DPF_DISPATCH(isa, store, out + 8 * first, in + 8 * first, lines);
        out += 8 * first + 64 * lines;
        in += 8 * first + 64 * lines;
        n -= first + 8 * lines;
    }
    memcpy(out, in, (size_t)n * 8);
}

void dpf_fence(void) {
#if DPF_X86
    _mm_sfence();
#endif
}

#else /* for one instruction set */

/* `to` begins a line of 64 bytes. */
void FN(store)(char *to, const char *from, int64_t lines) {
    for (int64_t i = 0; i < 64 * lines; i += DPF_VECTOR)
#if DPF_X86 && DPF_VECTOR == 64
        _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
#elif DPF_X86 && DPF_VECTOR == 32
        _mm256_stream_si256((__m256i *)(to + i), _mm256_loadu_si256((const __m256i *)(from + i)));
#elif DPF_X86
        _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
#else
        memcpy(to + i, from + i, DPF_VECTOR);
#endif
}

#endif
