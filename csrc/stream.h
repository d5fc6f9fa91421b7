/* SPDX-License-Identifier: Apache-2.0
 * Addressed words: (key, purpose, candidate, level, draw) -> digits, packed as stream.md says. */
#pragma once
#include "chacha.h"

/* The words of a batch at one level. */
static void batch_words(const uint8_t *key, uint64_t nonce, uint64_t batch, dpf_ahead ahead, uint32_t *words) {
    uint64_t counter[DPF_BATCH];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = batch * DPF_BATCH + (uint64_t)b;
    blocks(key, counter, nonce, ahead, words);
}

/* Words cut to digits, draw after draw, of DPF_STEP draws: slot s of lane l is draw 16 s + l of its
 * group. */
static void expand(const uint32_t *restrict words, int width, uint64_t *restrict digits) {
    typedef uint32_t __attribute__((may_alias)) half;
    if (width == 64) /* written by halves, which compilers make one shuffle of */
        for (int s = 0; s < DPF_STEP; s += DPF_LANES)
            for (int l = 0; l < DPF_LANES; l++) {
                half *const low = (half *)(digits + s + l);
                low[0] = words[2 * s + l], low[1] = words[2 * s + DPF_LANES + l];
            }
    else if (width == 32)
        for (int s = 0; s < DPF_STEP; s++)
            digits[s] = words[s];
    else
        for (int s = 0; s < DPF_STEP / DPF_LANES / 2; s++)
            for (int l = 0; l < DPF_LANES; l++) {
                digits[2 * s * DPF_LANES + l] = words[s * DPF_LANES + l] & 0xffff;
                digits[(2 * s + 1) * DPF_LANES + l] = words[s * DPF_LANES + l] >> 16;
            }
}

/* The inverse of expand for 32 and 64 bits, for planted digits. */
static void pack(const uint64_t *digits, int width, uint32_t *words) {
    for (int i = 0; i < 32 * DPF_WORDS / width; i++) {
        uint32_t *const at = words + (width == 64 ? i / DPF_LANES * 2 * DPF_LANES + i % DPF_LANES : i);
        at[0] = (uint32_t)digits[i];
        if (width == 64)
            at[DPF_LANES] = (uint32_t)(digits[i] >> 32);
    }
}

/* One packed 64-bit word for each of DPF_BATCH unrelated draws. */
static void scattered(const uint8_t *key, uint64_t nonce, const uint64_t *draw, uint64_t *digits) {
    uint64_t counter[DPF_BATCH];
    uint32_t words[DPF_WORDS];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = draw[b] / 128 * DPF_LANES + draw[b] % DPF_LANES;
    blocks(key, counter, nonce, DPF_AT_HAND(words), words);
    for (int b = 0; b < DPF_BATCH; b++) {
        const uint32_t *low =
            words + b / DPF_LANES * (16 * DPF_LANES) + b % DPF_LANES + draw[b] % 128 / DPF_LANES * 2 * DPF_LANES;
        digits[b] = low[0] | (uint64_t)low[DPF_LANES] << 32;
    }
    dpf_scrub_cipher();
    dpf_wipe(words, sizeof words);
}
