/* SPDX-License-Identifier: Apache-2.0
 * Everything that is compiled for one instruction set, as one translation unit: equal bytes from each. isa_<name>.c
 * says DPF_NEEDS(F)          of x86: F("feature") for each that the CPU must have: what is compiled is what is asked
 * for DPF_VECTOR            the width of a vector in bytes DPF_FMA               1 if a fused multiply-add is one
 * instruction DPF_STORE(to, from)   one vector to a place that begins one, past the caches where there is a way
 *     DPF_VECTOR_ROTATE     turns the words of a vector to the left: DPF_ROTATE, where the compiler has an instruction
 * and ends with its table, of DPF_OFFERS. Only that table leaves the unit. */
#include "wide_log.h"
#include "wide_sine.h"

#ifdef __x86_64__
#define DPF_HAS(name) &&__builtin_cpu_supports(name)
/* The needs come on top of what the command line allows (sse2 every one has): then the helpers of dpf_impl.h, compiled
 * for the command line's machine, may be inlined. With an arch= of its own GCC refuses. */
#define DPF_PRAGMA_(...) _Pragma(#__VA_ARGS__)
#define DPF_PRAGMA(...)  DPF_PRAGMA_(__VA_ARGS__)
#ifdef __clang__
#define DPF_NEED(name) "," name
#define DPF_BEGIN                                                                                                      \
    DPF_PRAGMA(clang attribute push(__attribute__((target("sse2" DPF_NEEDS(DPF_NEED)))), apply_to = function))
#define DPF_END DPF_PRAGMA(clang attribute pop)
#else
#define DPF_NEED(name) , name
#define DPF_BEGIN      DPF_PRAGMA(GCC push_options) DPF_PRAGMA(GCC target("sse2" DPF_NEEDS(DPF_NEED)))
#define DPF_END        DPF_PRAGMA(GCC pop_options)
#endif

/* Compiled for any machine. */
static int runs(void) {
    __builtin_cpu_init();
    return 1 DPF_NEEDS(DPF_HAS);
}
#else
#define DPF_BEGIN
#define DPF_END
static int runs(void) {
    return 1;
}
#endif

DPF_BEGIN

/* Where lzcnt is compiled, a CPU that lacks it executes bsr; the logarithms in integers would then read beyond their
 * tables, so the self-check asks this first. one: 1, unknown to the compiler. */
static int counts_zeros(uint64_t one) {
    for (int i = 0; i < 64; i++)
        if (__builtin_clzll(one << i) != 63 - i)
            return 0;
    return 1;
}

/* Lines of 64 bytes to a place that begins one. */
static void store(char *to, const char *from, int64_t lines) {
    for (int64_t i = 0; i < 64 * lines; i += DPF_VECTOR)
        DPF_STORE(to + i, from + i);
}

#include "chacha.h"
#include "stream.h"

#include "decide.h"
#include "wide.h"
#include "exponential.h"
#include "normal.h"

#include "refine.h"

#include "discrete_laplace.h"
#include "laplace.h"
#include "gaussian.h"
#include "discrete_gaussian.h"

DPF_END

#define DPF_OFFERS(isa_name)                                                                                           \
    {                                                                                                                  \
        .name = isa_name, .runs = runs, .counts_zeros = counts_zeros, .blocks = blocks, .batch_words = batch_words,    \
        .store = store, .laws = {                                                                                      \
            [DPF_DISCRETE_LAPLACE] = {discrete_laplace_fill, discrete_laplace_tier},                                   \
            [DPF_LAPLACE] = {laplace_fill, laplace_tier},                                                              \
            [DPF_GAUSSIAN] = {gaussian_fill, gaussian_tier},                                                           \
            [DPF_DISCRETE_GAUSSIAN] = {discrete_gaussian_fill, discrete_gaussian_tier}                                 \
        }                                                                                                              \
    }
