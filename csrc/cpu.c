/* SPDX-License-Identifier: Apache-2.0
 * The only file that asks the CPU. The compilers' own question, __builtin_cpu_supports, is put to a
 * runtime that clang-cl does not link, and of which zig's answers 0. */
#include "dpf_impl.h"

#ifdef __x86_64__
#define FEATURE(name) (uint64_t)1 << DPF_CPU_##name

static void ask(uint32_t leaf, uint32_t *a, uint32_t *b, uint32_t *c) {
    uint32_t d;
    __asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(d) : "a"(leaf), "c"(0));
}

/* The registers that the system keeps for a thread (XCR0). */
static uint32_t kept(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint64_t answer(void) {
    enum { OF_AVX = 0x06, OF_AVX512 = 0xe6 };
    const uint64_t avx512 =
        FEATURE(avx512f) | FEATURE(avx512dq) | FEATURE(avx512cd) | FEATURE(avx512bw) | FEATURE(avx512vl);
    uint32_t last, a, b, c, high = 0, registers = 0;
    ask(0, &last, &b, &c);
    if (last >= 7)
        ask(7, &a, &high, &c);
    ask(1, &a, &b, &c);
    uint64_t found = c | (uint64_t)high << 32;
    if (found & FEATURE(xsave))
        registers = kept();
#ifdef __APPLE__
    registers &= OF_AVX; /* macOS keeps more from a thread's first AVX-512 instruction on, which traps */
#endif
    if ((registers & OF_AVX512) != OF_AVX512)
        found &= ~avx512;
    if ((registers & OF_AVX) != OF_AVX)
        found &= ~(FEATURE(fma) | FEATURE(avx2));
    return found;
}

/* Asked once: a virtual machine takes its time. */
uint64_t dpf_cpu(void) {
    enum { IS_KNOWN = 1 }; /* SSE3's bit, which nobody asks for */
    static uint64_t known;
    uint64_t found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found == 0) {
        found = answer() | IS_KNOWN;
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
}
#endif
