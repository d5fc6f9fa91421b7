/* SPDX-License-Identifier: Apache-2.0
 * Find the code for an instruction set's number and a plan. */
#include "dpf_impl.h"

/* The instruction sets of this library, each isa_<name>.c; a later one is preferred. */
#ifdef __x86_64__
#define DPF_ISAS(F) F(portable) F(avx2) F(avx512)
#elif defined(__aarch64__)
#define DPF_ISAS(F) F(portable) F(neon)
#else
#define DPF_ISAS(F) F(portable)
#endif
#define DPF_DECLARE(name) extern const dpf_isa dpf_isa_##name;
#define DPF_ENTRY(name)   &dpf_isa_##name,
DPF_ISAS(DPF_DECLARE)
static const dpf_isa *const isas[] = {DPF_ISAS(DPF_ENTRY)};
enum { ISAS = sizeof isas / sizeof *isas };

const dpf_isa *dpf_isa_of(int isa) {
    return isas[isa > 0 && isa < ISAS ? isa : DPF_PORTABLE];
}

const char *dpf_isa_name(int isa) {
    return isa >= 0 && isa < ISAS ? isas[isa]->name : NULL;
}

const char *dpf_law_name(int law) {
    const dpf_code *const code = isas[DPF_PORTABLE]->laws[law];
    return code ? code->name : NULL;
}

int dpf_isa_runs(int isa) {
    return isa >= 0 && isa < ISAS && isas[isa]->runs();
}

int dpf_best_isa(void) {
    int isa = ISAS - 1;
    while (!isas[isa]->runs())
        isa--;
    return isa;
}

uint64_t dpf_enter(void) {
    return (uint64_t)dpf_fp_enter();
}

void dpf_leave(uint64_t mode) {
    dpf_fp_leave((dpf_fpmode)mode);
}

/* Write each page of the stack that a call may need, from the top on. */
__attribute__((noinline)) static void touch(void) {
    volatile char room[DPF_STACK];
    for (int at = DPF_STACK - 1; at >= 0; at -= 4096)
        room[at] = 0;
    (void)room[0];
}

/* A law's frame is larger than the page that guards a stack's end, and would step over it. So the
 * pages are touched first, when a thread comes from elsewhere than the last time: a stack that is
 * too small ends the thread by a signal, and no memory of others is written. */
__attribute__((noinline)) void dpf_reach(void) {
    static _Thread_local uintptr_t top;
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (top - here <= DPF_NEAR)
        return;
    touch();
    top = here;
}

/* Draw under our own floating-point mode. */
int64_t dpf_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    dpf_reach();
    const dpf_fpmode mode = dpf_fp_enter();
    const dpf_code *const code = dpf_isa_of(how->isa)->laws[how->plan->law];
    const int64_t done = code->add(how, start, n, in, out);
    dpf_fp_leave(mode);
    if (done < 0)
        dpf_wipe(out, n * (how->kind == DPF_NOISE ? 16 : dpf_size(how->kind)));
    return done;
}

int64_t dpf_add_fresh(const dpf_release *how, int64_t n, const void *in, void *out) {
    uint8_t key[32];
    const int status = dpf_entropy(key, 32);
    if (status != 0)
        return status == DPF_INTERRUPTED ? DPF_AGAIN : DPF_NO_KEY;
    dpf_release keyed = *how;
    keyed.key = key;
    const int64_t done = dpf_add(&keyed, 0, n, in, out);
    dpf_wipe(key, sizeof key);
    return done;
}

int dpf_all_finite(int kind, int64_t n, const void *in) {
    const char *const bytes = in;
    int finite = 1;
    if (kind == DPF_FLOAT32)
        for (int64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, bytes + 4 * i, sizeof x);
            finite &= __builtin_fabsf(x) <= FLT_MAX;
        }
    else
        for (int64_t i = 0; i < n; i++) {
            double x;
            memcpy(&x, bytes + 8 * i, sizeof x);
            finite &= __builtin_fabs(x) <= DBL_MAX;
        }
    return finite;
}

void dpf_bounded_counts(const dpf_choice *how, const uint64_t *rows, int64_t n, int64_t most, int64_t cap,
                        uint64_t *heap, int64_t *begin, int64_t *many, int64_t *counts) {
    dpf_isa_of(how->isa)->bounded_counts(how, rows, n, most, cap, heap, begin, many, counts);
}

/* This one keeps the host's rounding mode: the tests set it. */
void dpf_tier(int isa, const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted, dpf_u128 *found,
              uint8_t *decided) {
    dpf_isa_of(isa)->laws[plan->law]->tier(plan, tier, bits, n, planted, found, decided);
}

void dpf_blocks(int isa, const uint8_t *key, const uint64_t *counter, uint64_t nonce, uint32_t *out) {
    dpf_isa_of(isa)->blocks(key, counter, nonce, DPF_AT_HAND(out), out);
    dpf_scrub_cipher();
}

void dpf_key_stream(int isa, const uint8_t *key, uint64_t batch, int64_t n, uint8_t *out, int non_temporal) {
    const uint64_t nonce = dpf_nonce(DPF_PURPOSE_BYTES, 0, 0);
    const int64_t whole = DPF_WORDS * sizeof(uint32_t);
    uint32_t words[DPF_WORDS];
    for (; n > 0; batch++, out += whole, n -= whole) {
        dpf_isa_of(isa)->batch_words(key, nonce, batch, DPF_AT_HAND(words), words);
        if (n >= whole)
            dpf_isa_of(isa)->store(out, words, whole / 8, non_temporal);
        else
            memcpy(out, words, (size_t)n);
    }
    dpf_fence();
    dpf_scrub_cipher();
    dpf_wipe(words, sizeof words);
}
