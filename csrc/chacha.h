/* SPDX-License-Identifier: Apache-2.0
 * DPF_BATCH blocks of ChaCha20 at unrelated counters. */
#pragma once
#include "machine.h"

/* Two independent sets of lanes hide part of the latency of a quarter round; with 64-byte vectors
 * their 32 words are just the 32 registers. */
enum { lane_count = DPF_VECTOR / 4, in_flight = 2 * lane_count };
typedef uint32_t vector __attribute__((vector_size(DPF_VECTOR)));

__attribute__((noinline)) static void blocks(const uint8_t *key, const uint64_t *counter, uint64_t nonce,
                                             dpf_ahead ahead, uint32_t *restrict out) {
    enum { L = lane_count, SOME = fetched_by_cipher * in_flight / DPF_BATCH / 10 };
    _Static_assert(SOME * 10 * (DPF_BATCH / in_flight) == fetched_by_cipher, "of which none may be lost");
    int fetched = 0;
    uint32_t state[16];
    dpf_initial(key, 0, nonce, state);
    for (int base = 0; base < DPF_BATCH; base += in_flight) {
        vector start[16], x[2][16], count[2][2];
        for (int i = 0; i < 16; i++)
            start[i] = state[i] - (vector){0};
        for (int set = 0; set < 2; set++) {
            uint32_t low[L], high[L];
            for (int lane = 0; lane < L; lane++) {
                low[lane] = (uint32_t)counter[base + set * L + lane];
                high[lane] = (uint32_t)(counter[base + set * L + lane] >> 32);
            }
            memcpy(&count[set][0], low, sizeof low);
            memcpy(&count[set][1], high, sizeof high);
            memcpy(x[set], start, sizeof start);
            x[set][12] = count[set][0];
            x[set][13] = count[set][1];
        }
#define DPF_BOTH(a, b, c, d)                                                                                           \
    (DPF_QUARTER(DPF_VECTOR_ROTATE, x[0], a, b, c, d), DPF_QUARTER(DPF_VECTOR_ROTATE, x[1], a, b, c, d))
        for (int round = 0; round < 10; round++, fetched += SOME) {
            fetch(ahead, fetched, fetched + SOME);
            DPF_BOTH(0, 4, 8, 12);
            DPF_BOTH(1, 5, 9, 13);
            DPF_BOTH(2, 6, 10, 14);
            DPF_BOTH(3, 7, 11, 15);
            DPF_BOTH(0, 5, 10, 15);
            DPF_BOTH(1, 6, 11, 12);
            DPF_BOTH(2, 7, 8, 13);
            DPF_BOTH(3, 4, 9, 14);
        }
        for (int set = 0; set < 2; set++) {
            const int at = base + set * L;
            uint32_t *group = out + at / DPF_LANES * (16 * DPF_LANES) + at % DPF_LANES;
            for (int i = 0; i < 16; i++) {
                const vector word = x[set][i] + (i == 12 || i == 13 ? count[set][i - 12] : start[i]);
                memcpy(group + i * DPF_LANES, &word, sizeof word);
            }
        }
    }
    DPF_CLEAR;
}

/* The first `count` of such blocks, at unrelated nonces, too, and the rest of a register set, to
 * whose end all arrays reach. */
#define DPF_FEW_BLOCKS(name, words)                                                                                    \
    __attribute__((noinline)) static void name(const uint8_t *key, const uint64_t *counter, const uint64_t *nonce,     \
                                               int count, uint32_t *restrict out) {                                    \
        enum { L = sizeof(words) / 4 };                                                                                \
        uint32_t state[16];                                                                                            \
        dpf_initial(key, 0, 0, state);                                                                                 \
        for (int base = 0; base < count; base += L) {                                                                  \
            uint32_t *const group = out + base / DPF_LANES * (16 * DPF_LANES) + base % DPF_LANES;                      \
            words start[16], x[16];                                                                                    \
            uint32_t address[4][L];                                                                                    \
            for (int lane = 0; lane < L; lane++) {                                                                     \
                address[0][lane] = (uint32_t)counter[base + lane];                                                     \
                address[1][lane] = (uint32_t)(counter[base + lane] >> 32);                                             \
                address[2][lane] = (uint32_t)nonce[base + lane];                                                       \
                address[3][lane] = (uint32_t)(nonce[base + lane] >> 32);                                               \
            }                                                                                                          \
            for (int i = 0; i < 12; i++)                                                                               \
                start[i] = state[i] - (words){0};                                                                      \
            memcpy(start + 12, address, sizeof address);                                                               \
            memcpy(x, start, sizeof start);                                                                            \
            for (int round = 0; round < 10; round++)                                                                   \
                DPF_DOUBLE_ROUND(DPF_VECTOR_ROTATE, x);                                                                \
            for (int i = 0; i < 16; i++) {                                                                             \
                const words word = x[i] + start[i];                                                                    \
                memcpy(group + i * DPF_LANES, &word, sizeof word);                                                     \
            }                                                                                                          \
        }                                                                                                              \
        DPF_CLEAR;                                                                                                     \
    }
DPF_FEW_BLOCKS(few_blocks, vector)
#if DPF_VECTOR == 64 /* which a machine may take in two steps: up to four blocks need a quarter of it */
typedef uint32_t quarter __attribute__((vector_size(16)));
DPF_FEW_BLOCKS(four_blocks, quarter)
#else
#define four_blocks few_blocks
#endif
