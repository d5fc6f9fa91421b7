/* SPDX-License-Identifier: Apache-2.0
 * Counts plus draws from a table, as one pipeline: while the cipher makes a group of blocks, the
 * words of the group before are looked up, and the block of values before this one, all its draws
 * decided, is summed and stored. The cipher waits for its own latency, lookups wait for loads and
 * sums for memory, so that all of them together take little longer than one. */
#pragma once
#include "refine.h"

enum { DPF_PIECE = 512 }; /* sums that wait in the first cache to be stored past all of them */
enum {
    group_draws = 32 * DPF_LANES, /* sixteen blocks hold them */
    group_words = 16 * DPF_LANES,
    sets = DPF_LANES / lane_count /* register sets, one after another, that make a group */
};

DPF_SUMS(DPF_INT64_sums, int64_t, int16_t, uint64_t, int64_t, 0)
DPF_SUMS(DPF_UINT64_sums, uint64_t, int16_t, uint64_t, int64_t, 1)
DPF_SUMS(DPF_INT32_sums, int32_t, int16_t, uint32_t, int32_t, 0)
DPF_SUMS(DPF_UINT32_sums, uint32_t, int16_t, uint32_t, int32_t, 1)
DPF_SUMS(DPF_INT16_sums, int16_t, int16_t, uint16_t, int16_t, 0)
DPF_SUMS(DPF_UINT16_sums, uint16_t, int16_t, uint16_t, int16_t, 1)
DPF_SUMS(DPF_INT8_sums, int8_t, int16_t, uint16_t, int16_t, 0)
DPF_SUMS(DPF_UINT8_sums, uint8_t, int16_t, uint16_t, int16_t, 0)

#define DPF_MEANWHILE(kind)                                                                                            \
    (sums->bounded        ? kind##_sums(sums, noise, at, at + DPF_VECTOR, 1, sums->non_temporal)                       \
     : sums->non_temporal ? kind##_sums(sums, noise, at, at + DPF_VECTOR, 0, 1)                                        \
                          : kind##_sums(sums, noise, at, at + DPF_VECTOR, 0, 0))

/* From number `at` on, if there are any. */
DPF_INLINE void sum_meanwhile(const dpf_sums *sums, const int16_t *noise, int at) {
    if (!noise)
        return;
    if (sums->kind == DPF_INT64) { /* without a jump through a table of addresses */
        DPF_MEANWHILE(DPF_INT64);
        return;
    }
    switch (sums->kind) {
#define DPF_CASE(kind, type)                                                                                           \
    case kind:                                                                                                         \
        DPF_MEANWHILE(kind);                                                                                           \
        break;
        DPF_INTEGERS(DPF_CASE)
    }
}

/* The draws of `count` words of a slot's lanes: low halves first, and sixteen places on the high
 * ones (stream.md's order of 16-bit draws). */
DPF_INLINE void look_up(const int16_t *restrict table, const uint32_t *restrict words, int16_t *restrict noise,
                        int count) {
    const dpf_half *half = (const dpf_half *)words;
    for (int i = 0; i < count; i++) {
        noise[i] = table[half[2 * i]];
        noise[DPF_LANES + i] = table[half[2 * i + 1]];
    }
}

/* The words of group `next`, and meanwhile the lookups of a group's words, and sums. prefetch: what
 * the caller reads next, a line for each step of lookups. before: the noise of sums, which begin
 * with a line of out; NULL: there are none. */
__attribute__((noinline)) static void group_meanwhile(const dpf_release *how, uint64_t next,
                                                      uint32_t *restrict next_words, const uint32_t *restrict words,
                                                      int16_t *restrict noise, uintptr_t prefetch, dpf_sums sums,
                                                      const int16_t *before) {
    enum { L = lane_count, STEP = 4 / sets }; /* words for each quarter round of the first eight double rounds */
    const int16_t *restrict const table = how->plan->table;
    const uint64_t counter = next * DPF_LANES;
    uint32_t state[16];
    dpf_initial(how->key, counter, dpf_nonce(DPF_PURPOSE_NOISE, 0, 0), state);
    for (int set = 0; set < sets; set++) {
        vector x[16], low;
        for (int i = 0; i < 16; i++)
            x[i] = state[i] - (vector){0};
        for (int lane = 0; lane < L; lane++)
            low[lane] = (uint32_t)(L * set + lane);
        low += state[12]; /* without a carry: a group begins at a multiple of its lanes */
        x[12] = low;
#define DPF_STEP_OF(step, a, b, c, d)                                                                                  \
    do {                                                                                                               \
        DPF_QUARTER(DPF_VECTOR_ROTATE, x, a, b, c, d);                                                                 \
        look_up(table, from + STEP * (step), to + STEP * (step) / DPF_LANES * 32 + STEP * (step) % DPF_LANES, STEP);   \
        if ((step) % sets == 0)                                                                                        \
            __builtin_prefetch((const void *)(prefetch + 64 * (uintptr_t)((8 * at + (step)) / sets)));                 \
    } while (0)
        for (int at = 8 * set; at < 8 * set + 8; at++) {
            const uint32_t *const from = words + 8 * STEP * at;
            int16_t *const to = noise + 8 * STEP * at / DPF_LANES * 32 + 8 * STEP * at % DPF_LANES;
            DPF_STEP_OF(0, 0, 4, 8, 12);
            DPF_STEP_OF(1, 1, 5, 9, 13);
            DPF_STEP_OF(2, 2, 6, 10, 14);
            DPF_STEP_OF(3, 3, 7, 11, 15);
            DPF_STEP_OF(4, 0, 5, 10, 15);
            DPF_STEP_OF(5, 1, 6, 11, 12);
            DPF_STEP_OF(6, 2, 7, 8, 13);
            DPF_STEP_OF(7, 3, 4, 9, 14);
            sum_meanwhile(&sums, before, DPF_VECTOR * at);
        }
        for (int round = 8; round < 10; round++)
            DPF_DOUBLE_ROUND(DPF_VECTOR_ROTATE, x);
        for (int i = 0; i < 16; i++) {
            const vector word = x[i] + (i == 12 ? low : state[i] - (vector){0});
            memcpy(next_words + DPF_LANES * i + L * set, &word, sizeof word);
        }
    }
    DPF_CLEAR;
}

/* The words of the first group. */
static void first_words(const dpf_release *how, uint64_t group, uint32_t *words) {
    uint64_t counter[DPF_BATCH];
    uint32_t both[DPF_WORDS];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = group * DPF_LANES + (uint64_t)b;
    blocks(how->key, counter, dpf_nonce(DPF_PURPOSE_NOISE, 0, 0), DPF_AT_HAND(both), both);
    memcpy(words, both, group_words * sizeof *words);
    dpf_wipe(both, sizeof both);
}

/* Sums outside of the pipeline; zeros for undecided draws. */
static void sum_apart(const dpf_release *how, const int16_t *noise, const char *x, char *out, int64_t n) {
    const int size = dpf_size(how->kind);
    const int64_t turn = turn_of(how->kind), lower = (int64_t)how->lower.lo ^ turn,
                  upper = (int64_t)how->upper.lo ^ turn;
    for (int64_t from = 0; from < n; from += DPF_PIECE) {
        _Alignas(64) int64_t sums[DPF_PIECE];
        const int64_t m = n - from < DPF_PIECE ? n - from : DPF_PIECE;
        widen(how->kind, x + size * from, m, sums);
        for (int64_t i = 0; i < m; i++) {
            const int64_t sum = clamped_sum(sums[i], noise[from + i], lower, upper) ^ turn;
            sums[i] = noise[from + i] == DPF_UNDECIDED ? 0 : sum;
        }
        if (size < 8)
            narrow(how->kind, sums, m, out + size * from);
        else
            store(out + size * from, sums, m, how->non_temporal);
    }
}

/* Queue the undecided draws of a group that lie in from .. to - 1; the group's first is number `at`
 * of its block of values. */
DPF_INLINE void collect_group(dpf_job *job, const uint32_t *words, const int16_t *noise, int64_t from, int64_t to,
                              int64_t at) {
    enum { AT_ONCE = DPF_VECTOR / 2 };
    for (int base = 0; base < group_draws; base += AT_ONCE) {
        uint64_t found = DPF_EQUAL(noise + base, DPF_UNDECIDED) & UINT64_MAX / ((1 << DPF_EQUAL_BITS) - 1);
        for (; __builtin_expect(found != 0, 0); found &= found - 1) {
            const int i = base + __builtin_ctzll(found) / DPF_EQUAL_BITS;
            if (i < from || i >= to)
                continue;
            job->at[job->waiting] = at + i;
            job->value[job->waiting] = 0;
            job->word[0][job->waiting++] = word_at(words, 16, i);
        }
    }
}

/* dpf_add of integers in one limb, of any kind. Draws are numbered from the first of the first
 * group on. A block of values ends with a group; its last sums wait until the next block fills
 * their line. */
__attribute__((noinline)) static void add_by_table(dpf_job *job) {
    enum { BEFORE = 64 }; /* room for the last draws of the block before: a line of the smallest values */
    struct {
        _Alignas(64) uint32_t words[2][group_words];
        _Alignas(64) int16_t noise[2][BEFORE + DPF_BLOCK];
    } my;
    const dpf_release *const how = job->how;
    const int kind = how->kind, size = dpf_size(kind);
    const char *const x = job->in;
    char *const out = job->out;
    const uint64_t group = job->start / group_draws;
    const int64_t skip = (int64_t)(job->start % group_draws), end = skip + job->n;
    /* In out a line begins at each draw that is -lead modulo its length. */
    const int64_t lead = (int64_t)(((uintptr_t)out / (uintptr_t)size - (uintptr_t)skip) % (64 / (uintptr_t)size));
    const int16_t *old = NULL; /* noise of the block before */
    int64_t begin = 0, done = skip;
    int turn = 0;
    first_words(how, group, my.words[0]);
    for (;; begin += DPF_BLOCK) {
        int16_t *const noise = my.noise[begin / DPF_BLOCK % 2] + BEFORE;
        const int64_t first = begin < skip ? skip : begin; /* value here */
        const int64_t limit = begin + DPF_BLOCK < end ? begin + DPF_BLOCK : end;
        job->start = group * group_draws + (uint64_t)first;
        job->noise = noise + (first - begin);
        for (int64_t at = begin; at < limit; at += group_draws, turn ^= 1) {
            const uint32_t *const words = my.words[turn];
            int16_t *const found = noise + (at - begin);
            const int64_t ready = at + group_draws - DPF_BLOCK - lead;
            if (at + group_draws >= end) { /* the last group; its block sums what is ready */
                for (int word = 0; word < group_words; word += DPF_LANES)
                    look_up(how->plan->table, words + word, found + 2 * word, DPF_LANES);
            } else {
                const int whole = done == ready - group_draws;
                dpf_sums sums = sums_of(how, x + size * (done - skip), out + size * (done - skip));
                sums.bounded |= size == 1;
                sums.non_temporal = how->non_temporal;
                const uintptr_t coming = (uintptr_t)x + (uintptr_t)(size * (ready - skip)); /* the next sums */
                group_meanwhile(how, group + (uint64_t)at / group_draws + 1, my.words[!turn], words, found, coming,
                                sums, whole ? old + (done - begin) : NULL);
                if (!whole && ready > done)
                    sum_apart(how, old + (done - begin), x + size * (done - skip), out + size * (done - skip),
                              ready - done);
                done = ready > done ? ready : done;
            }
            collect_group(job, words, found, first - at, end - at, at - first);
            while (job->waiting >= DPF_BATCH)
                refine(job);
        }
        while (job->waiting > 0)
            refine(job);
        if (begin - lead > done) {
            sum_apart(how, old + (done - begin), x + size * (done - skip), out + size * (done - skip),
                      begin - lead - done);
            done = begin - lead;
        }
        if (job->open || limit == end) {
            sum_apart(how, noise + (done - begin), x + size * (done - skip), out + size * (done - skip), limit - done);
            done = limit;
            break;
        }
        old = noise + DPF_BLOCK;
        memcpy(my.noise[(begin / DPF_BLOCK + 1) % 2], old - BEFORE, BEFORE * sizeof *old);
    }
    const int64_t used = BEFORE + (done + group_draws - 1) / group_draws * group_draws; /* if there is one block */
    const int64_t waited = DPF_BATCH + group_draws;
    dpf_wipe(my.words, sizeof my.words);
    dpf_wipe(my.noise, begin > 0 ? (int64_t)sizeof my.noise : used * (int64_t)sizeof **my.noise);
    dpf_wipe(job->at, waited * (int64_t)sizeof *job->at);
    dpf_wipe(job->word[0], waited * (int64_t)sizeof *job->word[0]);
    dpf_scrub_law();
}
