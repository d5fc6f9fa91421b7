/* SPDX-License-Identifier: Apache-2.0
 * The instruction set that a unit is compiled for. isa_<name>.c defines
 *     DPF_NEEDS(F)         x86 alone: F(feature) for each feature that runs() asks dpf_cpu for
 *     DPF_VECTOR           the width of a vector in bytes
 *     DPF_FMA              1 if one instruction multiplies and adds
 *     DPF_STORE(to, from)  store a vector at an aligned place, past the caches if possible
 *     DPF_VECTOR_ROTATE    rotate a vector's words left: DPF_ROTATE, if compilers do it well
 *     DPF_EQUAL(from, k)   which of the DPF_VECTOR / 2 numbers of 16 bits are k, in
 *     DPF_EQUAL_BITS       bits for each of them
 *     DPF_LOOK_UP(from, k) of sixteen doubles in two vectors those at the last four bits of each k,
 *                          if that is one instruction; and then, of vectors of doubles,
 *     DPF_FUSED(a, b, c)   a b + c, rounded once
 *     DPF_EXPONENT(x)      e where x = 2^e m, m in [1, 2)
 *     DPF_MANTISSA(x)      m
 *     DPF_CLEAR            clear all vector registers
 * before it includes isa.h; else these are the portable ones. */
#pragma once
#include "dpf_impl.h"

#ifndef DPF_VECTOR /* the portable one: what every 64-bit machine runs */
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
#endif

#ifdef __x86_64__
#define DPF_BIT(name) | (uint64_t)1 << DPF_CPU_##name
/* The needs add to what the command line allows (all x86-64 have sse2). So GCC may inline the
 * helpers of dpf_impl.h, which the command line compiles; after an arch= it would refuse. */
#define DPF_PRAGMA_(...) _Pragma(#__VA_ARGS__)
#define DPF_PRAGMA(...)  DPF_PRAGMA_(__VA_ARGS__)
#ifdef __clang__
#define DPF_NEED(name) "," #name
#define DPF_BEGIN                                                                                                      \
    DPF_PRAGMA(clang attribute push(__attribute__((target("sse2" DPF_NEEDS(DPF_NEED)))), apply_to = function))
#define DPF_END DPF_PRAGMA(clang attribute pop)
#else
#define DPF_NEED(name) , #name
#define DPF_BEGIN      DPF_PRAGMA(GCC push_options) DPF_PRAGMA(GCC target("sse2" DPF_NEEDS(DPF_NEED)))
#define DPF_END        DPF_PRAGMA(GCC pop_options)
#endif

/* This function is compiled for any machine. */
static int runs(void) {
    const uint64_t needs = 0 DPF_NEEDS(DPF_BIT);
    return (dpf_cpu() & needs) == needs;
}
#else
#define DPF_BEGIN
#define DPF_END
static int runs(void) {
    return 1;
}
#endif

DPF_BEGIN

/* Behind a copy of values, which alone is used. Another thread may write values during a call, and
 * a compiler that knows only where one came from may read it there again to use it again: GCC does,
 * where an instruction takes it from memory. */
#define DPF_COPIED __asm__ volatile("" ::: "memory")

/* A CPU without lzcnt executes bsr in its place, and the logarithms in integers would read beyond
 * their tables: so the self-check asks this first. one: 1, unknown to the compiler. */
static int counts_zeros(uint64_t one) {
    for (int i = 0; i < 64; i++)
        if (__builtin_clzll(one << i) != 63 - i)
            return 0;
    return 1;
}

/* Fetch the parts from .. end - 1 of what is read next: a few now and then, for a processor that is
 * asked for many at once does little else until they come. They come to the second cache: on their
 * way to the first they would hold the few buffers that stores past the caches need, and for the
 * same reason none is fetched beside such stores. Addresses only: some may lie outside. */
DPF_INLINE void fetch(dpf_ahead ahead, int from, int end) {
    for (int i = from; i < end; i++)
        __builtin_prefetch((const void *)(ahead.at + (uintptr_t)i * ahead.part), 0, 2);
}

/* While words are made so many are fetched, and the rest while a law makes noise of them. */
enum { fetched_by_cipher = 40, fetched_by_law = DPF_PARTS - fetched_by_cipher };

/* Copy n 8-byte words. non_temporal: past the caches if the machine can, for a place not read next;
 * then dpf_fence comes before another thread, or a plain store, touches that place. */
static void store(void *to, const void *from, int64_t n, int non_temporal) {
    char *out = to;
    const char *in = from;
    if (non_temporal && ((uintptr_t)out & 7) == 0) {
        const int64_t head = (int64_t)(-(uintptr_t)out & 63) / 8, first = head < n ? head : n, lines = (n - first) / 8;
        memcpy(out, in, (size_t)first * 8);
        out += 8 * first, in += 8 * first, n -= first + 8 * lines;
        for (const char *end = in + 64 * lines; in < end; in += DPF_VECTOR, out += DPF_VECTOR)
            DPF_STORE(out, in);
    }
    memcpy(out, in, (size_t)n * 8);
}
