/* SPDX-License-Identifier: Apache-2.0
 * Addressed words: (key, purpose, candidate, level, draw) -> digits, packed as stream.md says. */
#ifndef DPF_ISA
#include "dpf_impl.h"

#define DPF_SELF "stream.c"
#include "every_isa.h"

void dpf_key_stream(int isa, const uint8_t *key, uint64_t pair, int64_t n, uint8_t *out, int stream) {
    const uint64_t nonce = dpf_nonce(DPF_PURPOSE_BYTES, 0, 0);
    const int64_t whole = DPF_WORDS * sizeof(uint32_t);
    uint32_t words[DPF_WORDS];
    for (; n > 0; pair++, out += whole, n -= whole) {
        DPF_DISPATCH(isa, pair, key, nonce, pair, words);
        if (n >= whole)
            dpf_store(isa, out, words, whole / 8, stream);
        else
            memcpy(out, words, (size_t)n);
    }
    dpf_fence();
    dpf_scrub_cipher();
    dpf_wipe(words, sizeof words);
}

#else /* for one instruction set */

/* The words of groups 2 pair and 2 pair + 1 at one level. */
void FN(pair)(const uint8_t *key, uint64_t nonce, uint64_t pair, uint32_t *words) {
    uint64_t counter[DPF_BATCH];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = pair * DPF_BATCH + (uint64_t)b;
    FN(blocks)(key, counter, nonce, words);
}

/* The same words cut to digits, draw after draw: slot s of lane l is draw 16 s + l of its group. */
void FN(expand)(const uint32_t *restrict words, int width, uint64_t *restrict digits) {
    if (width == 64)
        for (int s = 0; s < DPF_GROUPS * 8; s++)
            for (int l = 0; l < DPF_LANES; l++)
                digits[s * DPF_LANES + l] = words[2 * s * DPF_LANES + l] | (uint64_t)words[(2 * s + 1) * DPF_LANES + l]
                                                                               << 32;
    else if (width == 32)
        for (int s = 0; s < DPF_WORDS; s++)
            digits[s] = words[s];
    else
        for (int s = 0; s < DPF_GROUPS * 16; s++)
            for (int l = 0; l < DPF_LANES; l++) {
                digits[2 * s * DPF_LANES + l] = words[s * DPF_LANES + l] & 0xffff;
                digits[(2 * s + 1) * DPF_LANES + l] = words[s * DPF_LANES + l] >> 16;
            }
}

/* One packed 64-bit word for each of DPF_BATCH unrelated draws. */
void FN(scattered)(const uint8_t *key, uint64_t nonce, const uint64_t *draw, uint64_t *digits) {
    uint64_t counter[DPF_BATCH];
    uint32_t words[DPF_WORDS];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = draw[b] / 128 * DPF_LANES + draw[b] % DPF_LANES;
    FN(blocks)(key, counter, nonce, words);
    for (int b = 0; b < DPF_BATCH; b++) {
        const uint32_t *low =
            words + b / DPF_LANES * (16 * DPF_LANES) + b % DPF_LANES + draw[b] % 128 / DPF_LANES * 2 * DPF_LANES;
        digits[b] = low[0] | (uint64_t)low[DPF_LANES] << 32;
    }
    dpf_wipe(words, sizeof words);
}

#endif
