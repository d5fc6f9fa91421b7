/* SPDX-License-Identifier: Apache-2.0
 * What the C files share and no caller sees. */
#pragma once
#include <float.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "dpf_abi.h"

#if __FAST_MATH__ || __FINITE_MATH_ONLY__ || __ASSOCIATIVE_MATH__ || __RECIPROCAL_MATH__ || __NO_SIGNED_ZEROS__
#error "dpfast proves its rounding errors: compile it without -ffast-math and each of the flags that this implies"
#endif
#ifndef __SIZEOF_INT128__
#error "dpfast needs a 64-bit compiler with unsigned __int128"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "doubles must be evaluated as doubles");
_Static_assert(sizeof 1.0 == sizeof(double), "constants must be doubles: compile without -fsingle-precision-constant");
_Static_assert(FLT_MANT_DIG == 24 && FLT_MAX_EXP == 128, "float must be IEEE binary32");
_Static_assert(FLT_RADIX == 2 && DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024, "double must be IEEE binary64");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read in halves and pairs");
_Static_assert(CHAR_BIT == 8 && sizeof(void *) == 8, "a 64-bit machine");

#define DPF_INLINE static inline __attribute__((always_inline))

__extension__ typedef unsigned __int128 dpf_wide;
__extension__ typedef __int128 dpf_signed;
typedef uint16_t __attribute__((may_alias)) dpf_half;

/* A level-0 word holds the sign in its top bit and the first digits of U below it. */
enum {
    DPF_LANES = 16,
    DPF_WORDS = DPF_BATCH * 16,
    DPF_STEP = DPF_WORDS / 2, /* draws of a batch, by words of 64 bits */
};

/* An address's nonce (stream.md): purpose, candidate and level. The counter names the block. */
DPF_INLINE uint64_t dpf_nonce(uint64_t purpose, uint64_t candidate, uint64_t level) {
    return purpose << 56 | candidate << 24 | level;
}
enum { DPF_ONE_SIDED = 1 << 20 }; /* a plan's wide_c of the one-sided law (discrete_laplace.md, section 9) */
enum { DPF_PROPOSALS = 64 };      /* candidates that are looked at for one draw: none needs more */
enum { DPF_PURPOSE_NOISE = 1, DPF_PURPOSE_ACCEPT = 2, DPF_PURPOSE_BYTES = 3 };

/* Bytes of a value of a kind. */
DPF_INLINE int dpf_size(int kind) {
    return kind == DPF_INT8 || kind == DPF_UINT8                            ? 1
           : kind == DPF_INT16 || kind == DPF_UINT16                        ? 2
           : kind == DPF_INT32 || kind == DPF_UINT32 || kind == DPF_FLOAT32 ? 4
                                                                            : 8;
}

/* The kinds of integers but int64, and the type of each. */
#define DPF_INTEGERS(F)                                                                                                \
    F(DPF_UINT64, uint64_t)                                                                                            \
    F(DPF_INT32, int32_t)                                                                                              \
    F(DPF_UINT32, uint32_t)                                                                                            \
    F(DPF_INT16, int16_t)                                                                                              \
    F(DPF_UINT16, uint16_t)                                                                                            \
    F(DPF_INT8, int8_t)                                                                                                \
    F(DPF_UINT8, uint8_t)

DPF_INLINE int dpf_unsigned(int kind) {
    return kind == DPF_UINT64 || kind == DPF_UINT32 || kind == DPF_UINT16 || kind == DPF_UINT8;
}

/* The largest integer of a kind. The least is, but for the sign, the rest of its bits. */
DPF_INLINE uint64_t dpf_greatest(int kind) {
    return UINT64_MAX >> (64 - 8 * dpf_size(kind) + !dpf_unsigned(kind));
}

DPF_INLINE uint64_t dpf_least(int kind) {
    return dpf_unsigned(kind) ? 0 : ~dpf_greatest(kind);
}

/* A value in 64 bits: widened, or the bits of a double. */
DPF_INLINE uint64_t dpf_value(int kind, const void *in) {
    switch (kind) {
#define DPF_READ(name, type)                                                                                           \
    case name:                                                                                                         \
        return (uint64_t) * (const type *)in;
        DPF_INTEGERS(DPF_READ)
    case DPF_NOISE:
        return 0;
    case DPF_FLOAT32: {
        const double value = (double)*(const float *)in;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    default:
        return *(const uint64_t *)in;
    }
}

/* No decided draw's upper limb is so low, so it can mean "undecided" there. */
#define DPF_UNDECIDED_LIMB INT64_MIN
/* The same of a draw by a 32-bit word, which is below 2^26. */
#define DPF_UNDECIDED_CELL INT32_MIN

/* dpf_add, by the code of one law. */
typedef int64_t dpf_adding(const dpf_release *, uint64_t start, int64_t n, const void *in, void *out);

/* A law's exact tier, as dpf_exact_planted says (exact.h). */
typedef int dpf_exact_law(const dpf_plan *, const dpf_digits *, double offset, int sine, dpf_u128 *found);
dpf_exact_law dpf_exact_discrete_laplace, dpf_exact_laplace, dpf_exact_gaussian, dpf_exact_discrete_gaussian;

/* Draw number `draw` from as many digits as it takes; 0: they leave it undecided.
 * pairs, accepts: as dpf_law has them. */
int dpf_exact(dpf_exact_law *law, int pairs, int accepts, const dpf_plan *plan, const uint8_t *key, uint64_t draw,
              double offset, dpf_u128 *found);

/* The code of a law; each law's header ends with one. */
typedef struct {
    const char *name;
    int real; /* it is added to real values */
    dpf_adding *add;
    void (*tier)(const dpf_plan *, int tier, int bits, int64_t n, const dpf_planted *, dpf_u128 *found,
                 uint8_t *decided);
} dpf_code;

/* What is read next, in DPF_PARTS parts of so many bytes each. */
enum { DPF_PARTS = 64 };
typedef struct {
    uintptr_t at, part;
} dpf_ahead;

/* Nothing is: what lies at hand is fetched, and the cipher need not ask. */
#define DPF_AT_HAND(place) ((dpf_ahead){(uintptr_t)(place), 0})

/* What one instruction set offers; isa_<name>.c makes it. */
typedef struct {
    const char *name;
    int arithmetic;    /* 1: one instruction multiplies and adds; 2: and logarithms are made by cells */
    int (*runs)(void); /* on this machine */
    int (*counts_zeros)(uint64_t one);
    void (*blocks)(const uint8_t *key, const uint64_t *counter, uint64_t nonce, dpf_ahead ahead, uint32_t *out);
    void (*batch_words)(const uint8_t *key, uint64_t nonce, uint64_t batch, dpf_ahead ahead, uint32_t *words);
    void (*store)(void *to, const void *from, int64_t n, int non_temporal); /* n 8-byte words */
    const dpf_code *const *laws;                                            /* at their numbers */
    void (*bounded_counts)(const dpf_choice *, const uint64_t *rows, int64_t n, int64_t most, int64_t cap,
                           uint64_t *heap, int64_t *begin, int64_t *many, int64_t *counts);
} dpf_isa;

/* After stores past the caches, before another thread or a plain store touches that place. */
DPF_INLINE void dpf_fence(void) {
#ifdef __x86_64__
    __builtin_ia32_sfence();
#endif
}

#ifdef __x86_64__
/* Features of x86-64, by the bit of dpf_cpu: 32 of leaf 1, then 32 of leaf 7. */
enum {
    DPF_CPU_fma = 12,
    DPF_CPU_popcnt = 23,
    DPF_CPU_xsave = 27, /* the system keeps registers, and says which */
    DPF_CPU_bmi = 32 + 3,
    DPF_CPU_avx2 = 32 + 5,
    DPF_CPU_bmi2 = 32 + 8,
    DPF_CPU_avx512f = 32 + 16,
    DPF_CPU_avx512dq = 32 + 17,
    DPF_CPU_avx512cd = 32 + 28,
    DPF_CPU_avx512bw = 32 + 30,
    DPF_CPU_avx512vl = 32 + 31
};

/* Those that the CPU has and the system keeps the registers of. */
uint64_t dpf_cpu(void);
#endif

/* A number that no instruction set has gets the portable one: equal bytes, only slower. */
const dpf_isa *dpf_isa_of(int isa);

/* "expand 32-byte k" */
static const uint32_t dpf_sigma[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};

#define DPF_ROTATE(x, k) ((x) << (k) | (x) >> (32 - (k)))
#define DPF_QUARTER(ROTATE, x, a, b, c, d)                                                                             \
    (x[a] += x[b], x[d] ^= x[a], x[d] = ROTATE(x[d], 16), x[c] += x[d], x[b] ^= x[c], x[b] = ROTATE(x[b], 12),         \
     x[a] += x[b], x[d] ^= x[a], x[d] = ROTATE(x[d], 8), x[c] += x[d], x[b] ^= x[c], x[b] = ROTATE(x[b], 7))

#define DPF_DOUBLE_ROUND(ROTATE, x)                                                                                    \
    (DPF_QUARTER(ROTATE, x, 0, 4, 8, 12), DPF_QUARTER(ROTATE, x, 1, 5, 9, 13), DPF_QUARTER(ROTATE, x, 2, 6, 10, 14),   \
     DPF_QUARTER(ROTATE, x, 3, 7, 11, 15), DPF_QUARTER(ROTATE, x, 0, 5, 10, 15), DPF_QUARTER(ROTATE, x, 1, 6, 11, 12), \
     DPF_QUARTER(ROTATE, x, 2, 7, 8, 13), DPF_QUARTER(ROTATE, x, 3, 4, 9, 14))

DPF_INLINE uint32_t dpf_load32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

DPF_INLINE void dpf_initial(const uint8_t *key, uint64_t counter, uint64_t nonce, uint32_t *state) {
    memcpy(state, dpf_sigma, sizeof dpf_sigma);
    for (int i = 0; i < 8; i++)
        state[4 + i] = dpf_load32(key + 4 * i);
    state[12] = (uint32_t)counter;
    state[13] = (uint32_t)(counter >> 32);
    state[14] = (uint32_t)nonce;
    state[15] = (uint32_t)(nonce >> 32);
}

/* Clear the vector registers that all machines of this kind have, where the cipher ends: compilers
 * store a register as it is where a variable has no value yet. */
#ifdef __x86_64__
#define DPF_LOW_VECTORS                                                                                                \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15"
#define DPF_CLEAR_BASE                                                                                                 \
    __asm__ volatile(".irp k,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\npxor %%xmm\\k, %%xmm\\k\n.endr" ::                 \
                         : "memory", DPF_LOW_VECTORS)
#elif defined(__aarch64__)
#define DPF_CLEAR_BASE                                                                                                 \
    __asm__ volatile(".irp k,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"  \
                     "movi v\\k\\().2d, #0\n.endr" ::                                                                  \
                         : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",  \
                           "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",  \
                           "v26", "v27", "v28", "v29", "v30", "v31")
#else
#define DPF_CLEAR_BASE ((void)0)
#endif

/* Which of eight numbers are k: 8 bits for each. */
DPF_INLINE uint64_t dpf_equal(const int16_t *from, int16_t k) {
    typedef int16_t halves __attribute__((vector_size(16)));
    typedef int8_t bytes __attribute__((vector_size(8)));
    halves eight;
    uint64_t found;
    memcpy(&eight, from, sizeof eight);
    const bytes equal = __builtin_convertvector(eight == k, bytes);
    memcpy(&found, &equal, sizeof found);
    return found;
}

/* Overwrite the stack below the caller's frame as deep as the cipher may have spilled the key: at
 * most two calls away, or under a law. Each caller of the cipher does this last, and the cipher
 * shares no frame. test_key_on_stack.py computes both depths and looks for keys. */
void dpf_scrub_cipher(void);
void dpf_scrub_law(void);
void dpf_scrub_exact(void);

/* Touch the stack that a call needs, from this place or DPF_NEAR below it, before the call does.
 * Elsewhere no frame is larger than a page. test_key_on_stack.py computes both. */
enum { DPF_STACK = 208 << 10, DPF_NEAR = 16 << 10 };
void dpf_reach(void);

/* The double tier is right in any rounding mode and with subnormals flushed, but a directed mode
 * halves how often it decides. So a fill sets its own mode, unless the host has it already, and
 * restores the host's with what was raised before. */
#ifdef __x86_64__
typedef unsigned dpf_fpmode;
#define DPF_HOSTILE_MODE 0xdfc0 /* upwards, and flush subnormals */
DPF_INLINE dpf_fpmode dpf_fp_enter(void) {
    const unsigned mode = __builtin_ia32_stmxcsr(), flags = 0x3f; /* what was raised */
    if ((mode & ~flags) != 0x1f80)
        __builtin_ia32_ldmxcsr(0x1f80); /* to nearest, no flushing, every exception masked */
    return mode;
}
DPF_INLINE void dpf_fp_leave(dpf_fpmode mode) {
    __builtin_ia32_ldmxcsr(mode);
}
#elif defined(__aarch64__)
typedef uint64_t dpf_fpmode;
#define DPF_HOSTILE_MODE 0x1400000
DPF_INLINE dpf_fpmode dpf_fp_enter(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0) : "memory");
    return mode;
}
DPF_INLINE void dpf_fp_leave(dpf_fpmode mode) {
    __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory");
}
#else
typedef int dpf_fpmode;
#define DPF_HOSTILE_MODE 0
DPF_INLINE dpf_fpmode dpf_fp_enter(void) {
    return 0;
}
DPF_INLINE void dpf_fp_leave(dpf_fpmode mode) {
    (void)mode;
}
#endif
