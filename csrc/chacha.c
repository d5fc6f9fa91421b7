/* SPDX-License-Identifier: Apache-2.0
 * The ChaCha20 block function (Bernstein 2008; RFC 8439 section 2.3), which defines what every
 * instruction set must give; and the wiping of what the cipher leaves on the stack. */
#include "dpf_impl.h"

__attribute__((noinline)) static void one_block(const uint8_t *key, uint64_t counter, uint64_t nonce, uint8_t *out) {
    uint32_t start[16], x[16];
    dpf_initial(key, counter, nonce, start);
    memcpy(x, start, sizeof x);
    for (int round = 0; round < 10; round++)
        DPF_DOUBLE_ROUND(DPF_ROTATE, x);
    for (int i = 0; i < 16; i++) {
        const uint32_t word = x[i] + start[i];
        for (int b = 0; b < 4; b++)
            out[4 * i + b] = (uint8_t)(word >> 8 * b);
    }
    DPF_CLEAR_BASE;
}

void dpf_block(const uint8_t *key, uint64_t counter, uint64_t nonce, uint8_t *out) {
    one_block(key, counter, nonce, out);
    dpf_scrub_cipher();
}

__attribute__((noinline)) void dpf_scrub_cipher(void) {
    uint8_t below[2560];
    dpf_wipe(below, sizeof below);
}

__attribute__((noinline)) void dpf_scrub_law(void) {
    uint8_t below[8192];
    dpf_wipe(below, sizeof below);
}

__attribute__((noinline)) void dpf_scrub_exact(void) {
    uint8_t below[32768];
    dpf_wipe(below, sizeof below);
}
