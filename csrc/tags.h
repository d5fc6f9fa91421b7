/* SPDX-License-Identifier: Apache-2.0
 * Keyed tags of bins and rows, and the least of them. A tag is SipHash-2-4 of what an entry is,
 * never of where it stands: a pseudo-random function of short messages under 128 secret bits, with
 * 64 bits of output [AB12, section 2]. Its state x has four words, or four vectors of words. */
#pragma once
#include "dpf_impl.h"

#define DPF_SIP_ROTATE(x, k) ((x) << (k) | (x) >> (64 - (k)))
#define DPF_SIP_ROUND(x)                                                                                               \
    (x[0] += x[1], x[2] += x[3], x[1] = DPF_SIP_ROTATE(x[1], 13) ^ x[0], x[3] = DPF_SIP_ROTATE(x[3], 16) ^ x[2],       \
     x[0] = DPF_SIP_ROTATE(x[0], 32), x[2] += x[1], x[0] += x[3], x[1] = DPF_SIP_ROTATE(x[1], 17) ^ x[2],              \
     x[3] = DPF_SIP_ROTATE(x[3], 21) ^ x[0], x[2] = DPF_SIP_ROTATE(x[2], 32))
#define DPF_SIP_TAKE(x, word) (x[3] ^= (word), DPF_SIP_ROUND(x), DPF_SIP_ROUND(x), x[0] ^= (word))
#define DPF_SIP_END(x)                                                                                                 \
    (x[2] ^= 0xff, DPF_SIP_ROUND(x), DPF_SIP_ROUND(x), DPF_SIP_ROUND(x), DPF_SIP_ROUND(x), x[0] ^ x[1] ^ x[2] ^ x[3])

/* The state before the first word. */
DPF_INLINE void dpf_sip_begin(const uint64_t *key, uint64_t *x) {
    x[0] = key[0] ^ 0x736f6d6570736575;
    x[1] = key[1] ^ 0x646f72616e646f6d;
    x[2] = key[0] ^ 0x6c7967656e657261;
    x[3] = key[1] ^ 0x7465646279746573;
}

/* The hash of n words, each little-endian; n < 32. */
DPF_INLINE uint64_t dpf_sip_words(const uint64_t *key, const uint64_t *words, int n) {
    uint64_t x[4];
    dpf_sip_begin(key, x);
    for (int i = 0; i < n; i++)
        DPF_SIP_TAKE(x, words[i]);
    DPF_SIP_TAKE(x, (uint64_t)n << 59); /* the last word: the length in bytes, modulo 256, on top */
    return DPF_SIP_END(x);
}

DPF_INLINE uint64_t dpf_word_of_unit(const dpf_choice *how, uint64_t unit) {
    return how->units ? how->units[unit] : how->base + unit;
}

DPF_INLINE uint64_t dpf_word_of_bin(const dpf_choice *how, uint64_t row) {
    return how->bins[row & (((uint64_t)1 << how->bits) - 1)];
}

/* The entry `at` goes down the heap, largest tag first, until no child is larger. */
DPF_INLINE void dpf_sink(uint64_t *heap, int64_t *place, int64_t at, int64_t most) {
    for (;;) {
        int64_t child = 2 * at + 1;
        child += child + 1 < most && heap[child + 1] > heap[child];
        if (child >= most || heap[child] <= heap[at])
            return;
        const uint64_t tag = heap[at];
        const int64_t other = place[at];
        heap[at] = heap[child], place[at] = place[child];
        heap[child] = tag, place[child] = other;
        at = child;
    }
}

/* Hold one entry more, or instead of the largest tag if there is no room. */
DPF_INLINE void dpf_hold(uint64_t *heap, int64_t *place, int64_t held, int64_t most, uint64_t tag, int64_t at) {
    if (held < most) {
        heap[held] = tag, place[held] = at;
        for (int64_t i = held == most - 1 ? most / 2 - 1 : -1; i >= 0; i--)
            dpf_sink(heap, place, i, most);
    } else if (tag < heap[0]) {
        heap[0] = tag, place[0] = at;
        dpf_sink(heap, place, 0, most);
    }
}
