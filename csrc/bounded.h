/* SPDX-License-Identifier: Apache-2.0
 * Counts where each unit has a few bins, those with the least tags, and a capped number of rows in
 * each. Tags are computed and compared a vector at a time. */
#pragma once
#include "machine.h"
#include "tags.h"

typedef uint64_t tags_at_once __attribute__((vector_size(DPF_VECTOR)));
typedef int64_t signed_at_once __attribute__((vector_size(DPF_VECTOR)));

/* The words of a unit's bins become their tags, DPF_FEW of them. */
DPF_INLINE void tags_of_bins(const dpf_choice *how, uint64_t name, uint64_t *words, int64_t found) {
    const uint64_t length = (uint64_t)16 << 56;
    uint64_t state[4];
    dpf_sip_begin(how->key, state);
    for (int64_t i = 0; i < found; i += DPF_VECTOR / 8) {
        tags_at_once x[4], word;
        for (int j = 0; j < 4; j++)
            x[j] = state[j] - (tags_at_once){0};
        memcpy(&word, words + i, sizeof word);
        DPF_SIP_TAKE(x, name);
        DPF_SIP_TAKE(x, word);
        DPF_SIP_TAKE(x, length);
        word = DPF_SIP_END(x);
        memcpy(words + i, &word, sizeof word);
    }
}

/* The bins of the `most` least tags come first in begin and many. Returns how many they are: more
 * than `most` if tags are equal. Without branches, for a processor foresees no tag. */
DPF_INLINE int64_t keep_least(const uint64_t *tags, int64_t found, int64_t most, int64_t *begin, int64_t *many) {
    enum { EACH = DPF_VECTOR / 8 };
    int64_t less[DPF_FEW], kept = 0;
    for (int64_t at = 0; at < found; at += EACH) { /* less[i]: how many tags are */
        tags_at_once those;
        signed_at_once sum = {0};
        memcpy(&those, tags + at, sizeof those);
        for (int64_t i = 0; i < found; i++)
            sum -= tags[i] < those;
        memcpy(less + at, &sum, sizeof sum);
    }
    for (int64_t i = 0; i < found; i++) {
        begin[kept] = begin[i], many[kept] = many[i];
        kept += less[i] < most;
    }
    return kept;
}

/* keep_least for the unit of the rows from `at` on, with any number of bins. */
static void draw_bins(const dpf_choice *how, const uint64_t *rows, int64_t n, int64_t at, uint64_t name, int64_t most,
                      uint64_t *heap, int64_t *begin, int64_t *many) {
    const uint64_t unit = rows[at] >> how->bits;
    uint64_t tags[DPF_FEW] = {0};
    int64_t held = 0, found = 0, end = at;
    for (int inside = 1; inside;) {
        if (end == at || rows[end] != rows[end - 1]) {
            begin[most + found] = end;
            tags[found++] = dpf_word_of_bin(how, rows[end]);
        }
        end++;
        inside = end < n && rows[end] >> how->bits == unit;
        if (found == DPF_FEW || !inside) {
            tags_of_bins(how, name, tags, found);
            for (int64_t i = 0; i < found; i++) {
                dpf_hold(heap, begin, held, most, tags[i], begin[most + i]);
                held += held < most;
            }
            found = 0;
        }
    }
    for (int64_t i = 0; i < most; i++)
        for (many[i] = 1; begin[i] + many[i] < end && rows[begin[i] + many[i]] == rows[begin[i]];)
            many[i]++;
}

/* dpf_bounded_counts */
static void bounded_counts(const dpf_choice *how, const uint64_t *rows, int64_t n, int64_t most, int64_t cap,
                           uint64_t *heap, int64_t *begin, int64_t *many, int64_t *counts) {
    const uint64_t low = ((uint64_t)1 << how->bits) - 1;
    const int64_t room = most > DPF_FEW ? most : DPF_FEW, last = most + DPF_FEW;
    for (int64_t at = 0; at < n;) {
        const int64_t first = at;
        const uint64_t unit = rows[at] >> how->bits;
        int64_t found = 1;
        begin[0] = at;
        for (at++; at < n && rows[at] >> how->bits == unit; at++) {
            begin[found < last ? found : last] = at; /* once too often is harmless: what follows is the end */
            found += rows[at] != rows[at - 1];
        }
        if (found <= room) {
            begin[found] = at;
            for (int64_t i = 0; i < found; i++)
                many[i] = begin[i + 1] - begin[i];
        }
        int64_t kept = found;
        if (found > most) {
            const uint64_t name = dpf_word_of_unit(how, unit);
            if (found <= DPF_FEW) {
                uint64_t tags[DPF_FEW] = {0};
                for (int64_t i = 0; i < found; i++)
                    tags[i] = dpf_word_of_bin(how, rows[begin[i]]);
                tags_of_bins(how, name, tags, found);
                kept = keep_least(tags, found, most, begin, many);
            }
            if (kept > most) { /* many bins, or equal tags */
                draw_bins(how, rows, n, first, name, most, heap, begin, many);
                kept = most;
            }
        }
        for (int64_t i = 0; i < kept; i++)
            counts[rows[begin[i]] & low] += many[i] < cap ? many[i] : cap;
    }
}
