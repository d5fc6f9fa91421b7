/* SPDX-License-Identifier: Apache-2.0
 * ChaCha20 as a NumPy bit generator, with fast key erasure: bit_generator.md. */
#include "dpf_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { DPF_KEY_WORDS = 4, DPF_BITS = sizeof((dpf_bits *)0)->words / sizeof(uint64_t) - DPF_KEY_WORDS };

int dpf_bits_key(dpf_bits *bits) {
    dpf_wipe(bits, sizeof *bits);
    const int status = dpf_entropy((uint8_t *)bits->words, 8 * DPF_KEY_WORDS);
    if (status != 0)
        return status;
    bits->isa = dpf_best_isa();
    bits->keyed = 1;
    return 0;
}

/* `left` is right at every moment, also during a refill: threads that draw without NumPy's lock may
 * get equal words, but read nothing else. */
static void dpf_refill(dpf_bits *bits) {
    uint8_t key[8 * DPF_KEY_WORDS];
    int status = 0;
    while (!bits->keyed && (status = dpf_bits_key(bits)) == DPF_INTERRUPTED)
        continue; /* no Python signal handler can run from here */
    if (status != 0) {
        fputs("dpfast: the operating system gave no random key to a ChaCha20 bit generator\n", stderr);
        abort();
    }
    memcpy(key, bits->words, sizeof key);
    dpf_isa_of(bits->isa)->batch_words(key, dpf_nonce(DPF_PURPOSE_BYTES, 0, 0), 0, DPF_AT_HAND(bits->words),
                                       (uint32_t *)bits->words);
    dpf_scrub_cipher();
    dpf_wipe(key, sizeof key);
    bits->left = DPF_BITS;
}

/* A call costs a tenth more if it begins inside a cache line, or keeps a frame for the refill. */
#define DPF_NEXT(type, name, made_of_word)                                                                             \
    __attribute__((noinline, cold)) static type dpf_refilled_##name(void *state) {                                     \
        dpf_refill(state);                                                                                             \
        return dpf_next_##name(state);                                                                                 \
    }                                                                                                                  \
    __attribute__((aligned(64))) type dpf_next_##name(void *state) {                                                   \
        dpf_bits *bits = state;                                                                                        \
        const uint64_t left = bits->left;                                                                              \
        if (__builtin_expect(left == 0, 0))                                                                            \
            return dpf_refilled_##name(bits);                                                                          \
        bits->left = left - 1;                                                                                         \
        uint64_t *at = bits->words + (DPF_KEY_WORDS - 1) + left;                                                       \
        const uint64_t word = *at;                                                                                     \
        *at = 0;                                                                                                       \
        return made_of_word;                                                                                           \
    }

DPF_NEXT(uint64_t, uint64, word)
DPF_NEXT(double, double, (double)(word >> 11) * 0x1p-53)

uint32_t dpf_next_uint32(void *state) {
    dpf_bits *bits = state;
    uint64_t word = bits->half;
    if (bits->halved) {
        bits->half = bits->halved = 0;
    } else {
        word = dpf_next_uint64(bits);
        bits->half = (uint32_t)(word >> 32);
        bits->halved = 1;
    }
    return (uint32_t)word;
}
