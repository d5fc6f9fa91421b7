/* SPDX-License-Identifier: Apache-2.0
 * Draws that level 0 leaves undecided: they wait for a batch, and level 1; the exact tier
 * decides the rest [docs/design.md]. A cell is an int64, by 32-bit words an int32 at first, or the
 * bits of a double that is an integer. A law's own functions inline all of this and know its
 * constants. */
#pragma once
#include "stream.h"
#include "sum.h"

/* Draws with the words of both levels: U's, or the radius's and the angle's. */
typedef struct {
    int n;
    const uint64_t *draw, *word[2], *more[2];
    const double *offset; /* the value's place on the grid, in [-1/2, 1/2] */
    int64_t *lo, *hi;     /* the outcomes; hi has DPF_UNDECIDED_LIMB if there is none */
} dpf_draws;

/* A law: a constant in its own header. */
typedef struct {
    /* Draw a batch from level 0 alone, by words of 64 bits. Real laws and pairs give the bits of
     * doubles. */
    void (*level0)(const dpf_plan *, const uint64_t *word, const double *offset, int64_t *cells);
    /* The same by words of 32 bits, but for the rounding: the noise and its weights. */
    void (*by_short)(const dpf_plan *, const uint32_t *words, dpf_short *);
    /* The same in floats, rounded; NULL: the law has no such tier. */
    void (*by_floats)(const dpf_plan *, const uint32_t *words, int32_t *cells);
    /* Decide any draws from levels 0 and 1. */
    void (*decide)(const dpf_plan *, int tier, const dpf_draws *);
    int table;      /* a bulk call may begin at a table of level-0 words */
    int box_muller; /* draws i and i ^ 64 share a radius and an angle (stream.md) */
    int last_tier;  /* in C, asked for what the first leaves undecided */
    int real;
    /* NULL, or: draws are proposals k. By its digits V, of levels 0 and 1, each is accepted (1),
     * rejected (-1) or left undecided (0), as one that is undecided itself. */
    void (*judge)(const dpf_plan *, int64_t n, const int64_t *k, const int64_t *k_hi, const uint64_t *accept,
                  const uint64_t *more_accept, int64_t *verdict);
    dpf_exact_law *exact; /* what decides all that these leave */
} dpf_law;

/* One call: its values, and its draws that wait for more digits. */
typedef struct {
    const dpf_law *law;
    const dpf_release *how;
    const char *in;
    char *out;
    uint64_t start;
    int64_t n;
    int refused;    /* a value is not finite */
    int open;       /* all digits leave a draw undecided */
    int16_t *noise; /* NULL, or: draws go there, and are summed later (table.h) */
    int waiting;    /* draws that level 0 leaves undecided, until there are enough of them for a batch */
    int64_t at[DPF_BATCH + DPF_MOST];
    uint64_t value[DPF_BATCH + DPF_MOST];
    uint64_t word[3][DPF_BATCH + DPF_MOST]; /* level 0: U's or the radius's; the angle's; the acceptance's */
} dpf_job;

DPF_INLINE uint64_t noise_nonce(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_NOISE, candidate, level);
}

DPF_INLINE uint64_t accept_nonce(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_ACCEPT, candidate, level);
}

/* Where value `at` of the call lies, and its result. */
DPF_INLINE const char *in_at(const dpf_job *job, int64_t at) {
    return job->in + dpf_size(job->how->kind) * at;
}

DPF_INLINE char *out_at(const dpf_job *job, int64_t at) {
    return job->out + (job->how->kind == DPF_NOISE ? 16 : dpf_size(job->how->kind)) * at;
}

/* Whether -2^bits <= draw < 2^bits. */
DPF_INLINE int fits(int64_t lo, int64_t hi, int bits) {
    return (hi == lo >> 63) & ((uint64_t)lo + ((uint64_t)1 << bits) < (uint64_t)2 << bits);
}

/* 0 if draws from .. end - 1 are decided, and one limb holds each of them if there is no other. */
DPF_INLINE uint64_t lacking_any(const dpf_law *law, const dpf_release *how, int from, int end, const int64_t *lo,
                                const int64_t *hi) {
    uint64_t open = 0, large = 0;
    for (int64_t i = from; i < end; i++) {
        const int64_t sign = lo[i] >> 63;
        const uint64_t limb = (uint64_t)hi[i] ^ (uint64_t)DPF_UNDECIDED_LIMB; /* which no decided draw has */
        open |= how->limbs == 2 ? (limb - 1) & ~limb & (uint64_t)1 << 63 : (uint64_t)(hi[i] ^ sign);
        large |= (uint64_t)(lo[i] ^ sign);
    }
    return open | (how->limbs == 2 ? 0 : large >> (law->real ? 53 : 62));
}

DPF_INLINE uint64_t lacking(const dpf_law *law, const dpf_release *how, int64_t lo, int64_t hi) {
    return lacking_any(law, how, 0, 1, &lo, &hi);
}

/* Draw i alone. */
DPF_INLINE dpf_draws one_of(const dpf_draws *all, int i) {
    return (dpf_draws){1,
                       all->draw + i,
                       {all->word[0] + i, all->word[1] + i},
                       {all->more[0] + i, all->more[1] + i},
                       all->offset + i,
                       all->lo + i,
                       all->hi + i};
}

/* The result of value `at` in place of a zero, by the exact tier. */
__attribute__((noinline)) static void finish_exactly(const dpf_law *law, dpf_job *job, int64_t at, uint64_t value) {
    dpf_release how = *job->how;
    const double real = law->real ? double_of(value) : 0.0;
    const double offset = law->real ? beyond(in_steps(&how, made_public(&how, real))) : 0.0;
    dpf_u128 k = {0, 0};
    how.limbs = 2;                                  /* a draw of any size has its place in the sum */
    job->refused |= how.refuse && !is_finite(real); /* another thread writes the values */
    if (job->refused || job->open)
        return; /* the call has failed */
    job->open = !dpf_exact(law->exact, law->box_muller, law->judge != NULL, how.plan, how.key,
                           job->start + (uint64_t)at, offset, &k);
    if (job->open)
        return;
    if (!job->noise)
        sum_up_one(&how, value, (int64_t)k.lo, (int64_t)k.hi, out_at(job, at));
    else if (fits((int64_t)k.lo, (int64_t)k.hi, 15))
        job->noise[at] = (int16_t)k.lo;
    else
        job->open = 1; /* a table is of scales up to 2^7, and e^-256 of their draws are so large */
    dpf_wipe(&k, sizeof k);
}

/* Store the result of value `at` in place of a zero. Noise alone, for tests, is left undecided. */
DPF_INLINE void finish_draw(const dpf_law *law, dpf_job *job, int64_t at, uint64_t value, int64_t lo, int64_t hi) {
    const int left = lacking(law, job->how, lo, hi) != 0;
    const int64_t draw[2] = {left ? 0 : lo, left ? DPF_UNDECIDED_LIMB : hi};
    if (job->how->kind == DPF_NOISE)
        memcpy(out_at(job, at), draw, sizeof draw);
    else if (left || (job->noise && !(fits(lo, hi, 15) && lo != DPF_UNDECIDED)))
        finish_exactly(law, job, at, value);
    else if (job->noise)
        job->noise[at] = (int16_t)lo;
    else
        sum_up_one(job->how, value, lo, hi, out_at(job, at));
}

/* Word i of a batch. */
DPF_INLINE uint64_t word_at(const uint32_t *words, int width, int i) {
    const int slot = i / DPF_LANES, lane = i % DPF_LANES;
    return width == 64   ? words[2 * slot * DPF_LANES + lane] | (uint64_t)words[(2 * slot + 1) * DPF_LANES + lane] << 32
           : width == 32 ? words[i]
                         : words[slot / 2 * DPF_LANES + lane] >> slot % 2 * 16 & 0xffff;
}

/* The digits of a draw, if its block is number b of those at words. */
DPF_INLINE uint64_t digits_in(const uint32_t *words, int b, int width, uint64_t draw) {
    const int slot = (int)(draw % (uint64_t)(16 * 512 / width) / DPF_LANES);
    return word_at(words + b / DPF_LANES * 16 * DPF_LANES, width, slot * DPF_LANES + b % DPF_LANES);
}

/* The words of few draws from `first` on for one candidate, from their own blocks alone. */
static void read_few(const dpf_law *law, const dpf_release *how, uint64_t candidate, uint64_t first, int n,
                     uint64_t *word, uint64_t *angle, uint64_t *more, uint64_t *more_angle, uint64_t *accept,
                     uint64_t *more_accept) {
    const int width[] = {how->plan->width, 64, 16, 64}, each = law->judge ? 4 : 2;
    const uint64_t named[] = {noise_nonce(candidate, 0), noise_nonce(candidate, 1), accept_nonce(candidate, 0),
                              accept_nonce(candidate, 1)};
    uint64_t counter[DPF_BATCH] = {0}, nonce[DPF_BATCH] = {0};
    _Alignas(64) uint32_t words[DPF_WORDS];
    for (int k = 0; k < each; k++)
        for (int i = 0; i < n; i++) {
            const uint64_t draw = first + (uint64_t)i, group = draw / (uint64_t)(16 * 512 / width[k]);
            counter[k * n + i] = group * DPF_LANES + draw % DPF_LANES;
            nonce[k * n + i] = named[k];
        }
    (each * n > 4 ? few_blocks : four_blocks)(how->key, counter, nonce, each * n, words);
    for (int i = 0; i < n; i++) {
        const uint64_t draw = first + (uint64_t)i, radius = law->box_muller ? draw & ~(uint64_t)64 : draw;
        word[i] = digits_in(words, i, width[0], radius);
        more[i] = digits_in(words, n + i, 64, radius);
        if (law->box_muller) {
            angle[i] = digits_in(words, i, width[0], draw | 64);
            more_angle[i] = digits_in(words, n + i, 64, draw | 64);
        }
        if (law->judge) {
            accept[i] = digits_in(words, 2 * n + i, 16, draw);
            more_accept[i] = digits_in(words, 3 * n + i, 64, draw);
        }
    }
    dpf_wipe(words, (each * n + DPF_LANES - 1) / DPF_LANES * 16 * DPF_LANES * (int64_t)sizeof *words);
}

/* Where each earlier proposal is rejected, the next is made, from this candidate on, until one is
 * accepted or undecided: then hi says so, for nothing undecided is ever passed over. */
__attribute__((noinline)) static void propose_again(const dpf_law *law, const dpf_release *how, uint64_t draw,
                                                    uint64_t candidate, int64_t *lo, int64_t *hi) {
    const double no_offset = 0.0;
    int64_t verdict = -1;
    uint64_t word[2], more[2], accept[2];
    const dpf_draws one = {1, &draw, {word, word + 1}, {more, more + 1}, &no_offset, lo, hi};
    for (; verdict == -1 && candidate < DPF_PROPOSALS; candidate++) {
        read_few(law, how, candidate, draw, 1, word, word + 1, more, more + 1, accept, accept + 1);
        law->decide(how->plan, law->last_tier, &one);
        law->judge(how->plan, 1, lo, hi, accept, accept + 1, &verdict);
    }
    if (verdict != 1)
        *hi = DPF_UNDECIDED_LIMB;
    dpf_wipe(word, sizeof word);
    dpf_wipe(more, sizeof more);
    dpf_wipe(accept, sizeof accept);
}

/* Decide a batch of the waiting draws by levels 0 and 1 together. */
__attribute__((noinline)) static void refine(dpf_job *job) {
    const dpf_law *const law = job->law;
    const int most = DPF_BATCH / (1 + law->box_muller);
    const int n = job->waiting < most ? job->waiting : most, from = job->waiting - n;
    const dpf_release *const how = job->how;
    uint64_t draw[DPF_BATCH], address[DPF_BATCH], more[DPF_BATCH], more_accept[DPF_BATCH];
    double offset[DPF_BATCH];
    int64_t lo[DPF_BATCH], hi[DPF_BATCH];
    for (int b = 0; b < most; b++) {
        const int w = from + (b < n ? b : 0);
        draw[b] = job->start + (uint64_t)job->at[w];
        offset[b] = !law->real               ? 0.0
                    : how->kind == DPF_NOISE ? double_of(job->value[w])
                                             : beyond(in_steps(how, made_public(how, double_of(job->value[w]))));
        address[b] = law->box_muller ? draw[b] & ~(uint64_t)64 : draw[b];
        if (law->box_muller)
            address[most + b] = draw[b] | 64;
    }
    scattered(how->key, noise_nonce(0, 1), address, more);
    int unsure = 0; /* a proposal waits that level 0 alone does not accept */
    for (int b = 0; b < n && law->judge; b++)
        unsure |= job->word[2][from + b] >= (uint64_t)how->plan->normal.accept_below;
    memset(more_accept, 0, sizeof more_accept);
    if (unsure) {
        for (int b = most; b < DPF_BATCH; b++)
            draw[b] = draw[0];
        scattered(how->key, accept_nonce(0, 1), draw, more_accept);
    }
    const dpf_draws draws = {
        n, draw, {job->word[0] + from, job->word[1] + from}, {more, more + DPF_BATCH - most}, offset, lo, hi};
    law->decide(how->plan, DPF_DOUBLE, &draws);
    int open = 0;
    for (int b = 0; b < n; b++)
        open += hi[b] == DPF_UNDECIDED_LIMB;
    if (2 * open > n) /* a scale near the last of doubles: all at once are cheaper than most, one by one */
        law->decide(how->plan, law->last_tier, &draws);
    if (how->non_temporal)
        dpf_fence();
    for (int b = 0; b < n; b++) {
        if (hi[b] == DPF_UNDECIDED_LIMB) {
            const dpf_draws one = one_of(&draws, b);
            law->decide(how->plan, law->last_tier, &one);
        }
        if (law->judge) {
            int64_t verdict;
            law->judge(how->plan, 1, lo + b, hi + b, job->word[2] + from + b, more_accept + b, &verdict);
            if (verdict == -1)
                propose_again(law, how, draw[b], 1, lo + b, hi + b);
            else if (verdict == 0)
                hi[b] = DPF_UNDECIDED_LIMB;
        }
        finish_draw(law, job, job->at[from + b], job->value[from + b], lo[b], hi[b]);
    }
    job->waiting = from;
    dpf_wipe(more, sizeof more);
    dpf_wipe(more_accept, sizeof more_accept);
    dpf_wipe(offset, sizeof offset);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* For each draw i of 32-bit words: the integer k that is nearest to y = offset plus its noise, and
 * whether it is `sure`. */
#define DPF_EACH_SHORT(law, plan, s, offset, then)                                                                     \
    for (int base = 0; base < DPF_WORDS; base += 64)                                                                   \
        for (int i = base; i < base + 64; i++) {                                                                       \
            const int w = (law)->box_muller ? base / 128 * 64 + i - base : i;                                          \
            const double y = offset, less = (law)->box_muller ? (s)->less[w] : 0.0;                                    \
            int sure;                                                                                                  \
            const double k = nearest32(plan, y + (s)->noise[i], less, (s)->weight[w], &sure);                          \
            then;                                                                                                      \
        }

/* A batch of integers by 32-bit words of level 0. */
DPF_INLINE void short_cells(const dpf_law *law, const dpf_plan *plan, const uint32_t *words, dpf_short *restrict s) {
    const dpf_plan p = *plan;
    if (law->by_floats && p.bulk == DPF_FLOAT) {
        fetch_piece(s, 0, 2);
        law->by_floats(plan, words, s->cells);
        fetch_piece(s, 1, 2);
        return;
    }
    law->by_short(plan, words, s);
    DPF_EACH_SHORT(law, &p, s, -0.0, s->cells[i] = sure ? (int32_t)k : DPF_UNDECIDED_CELL); /* -0.0 + x is x */
}

/* Level 0 of a batch: cells, and which of them are undecided. */
DPF_INLINE void level0_of(const dpf_law *law, const dpf_plan *plan, const uint32_t *words,
                          const double *restrict offset, dpf_short *restrict s, int64_t *restrict cells,
                          uint8_t *restrict undecided) {
    const dpf_plan p = *plan;
    const int n = 32 * DPF_WORDS / p.width;
    if (law->table && p.bulk == DPF_TABLE) {
        for (int i = 0; i < n; i++) {
            const int16_t cell = p.table[word_at(words, 16, i)];
            cells[i] = cell == DPF_UNDECIDED ? DPF_UNDECIDED_LIMB : cell;
        }
        fetch_piece(s, 0, 1); /* a part may be two lines here: from 16 bits come most values */
        fetch((dpf_ahead){s->ahead.at + 64, s->ahead.part}, 0, DPF_PARTS);
    } else if (p.width == 64) {
        expand(words, 64, s->word);
        fetch_piece(s, 0, 2);
        law->level0(plan, s->word, offset, cells);
        fetch_piece(s, 1, 2);
    } else if (law->real) {
        law->by_short(plan, words, s);
        DPF_EACH_SHORT(law, &p, s, offset[i], cells[i] = sure ? (int64_t)bits_of(k) : DPF_UNDECIDED_LIMB);
    } else {
        short_cells(law, plan, words, s);
        for (int i = 0; i < n; i++)
            cells[i] = s->cells[i] == DPF_UNDECIDED_CELL ? DPF_UNDECIDED_LIMB : s->cells[i];
    }
    for (int i = 0; i < n; i++)
        undecided[i] = cells[i] == DPF_UNDECIDED_LIMB;
    for (int i = 0; i < n && law->box_muller && !law->real && p.width == 64; i++)
        cells[i] = integer_of(double_of((uint64_t)cells[i]) + DPF_TO_INTEGER);
}

/* dpf_tier for DPF_LEVEL0, in batches like those of a bulk call. */
__attribute__((noinline)) static void planted_level0(const dpf_law *law, const dpf_plan *plan, int64_t n,
                                                     const dpf_planted *planted, dpf_u128 *found, uint8_t *decided) {
    const int width = plan->width, most = 32 * DPF_WORDS / width / (1 + law->box_muller);
    for (int64_t base = 0; base < n; base += most) {
        uint64_t word[DPF_MOST] = {0};
        uint32_t words[DPF_WORDS];
        double offset[DPF_MOST] = {0};
        int64_t cells[DPF_MOST];
        uint8_t undecided[DPF_MOST];
        dpf_short s;
        const int some = n - base < most ? (int)(n - base) : most;
        for (int i = 0; i < some; i++) {
            const dpf_planted *const p = planted + base + i;
            const int at = law->box_muller ? i / 64 * 128 + i % 64 : i;
            word[at] = p->digits[0];
            if (law->box_muller)
                word[at + 64] = p->digits[2];
            offset[at + 64 * p->sine] = p->offset;
        }
        pack(word, width, words);
        s.ahead = DPF_AT_HAND(words);
        level0_of(law, plan, words, offset, &s, cells, undecided);
        for (int i = 0; i < some; i++) {
            const int at = (law->box_muller ? i / 64 * 128 + i % 64 : i) + 64 * planted[base + i].sine;
            const int64_t cell = law->real && !undecided[at] ? (int64_t)double_of((uint64_t)cells[at]) : cells[at];
            decided[base + i] = !undecided[at];
            found[base + i].lo = undecided[at] ? 0 : (uint64_t)cell;
            found[base + i].hi = undecided[at] ? 0 : (uint64_t)(cell >> 63);
        }
    }
}

/* Queue the undecided among draws from .. end - 1 of a batch, whose first draw is number `at` of
 * the call, with their values; put zeros in place of their sums, each of so many bytes. accept:
 * acceptance words, that of the first draw in place `first`. */
DPF_INLINE void collect(const dpf_law *law, dpf_job *job, const uint32_t *words, const uint32_t *accept, int first,
                        const uint8_t *undecided, int from, int end, int64_t at, int bytes, dpf_batch *batch) {
    const int width = job->how->plan->width;
    for (int base = from & ~31; base < end; base += 32) {
        uint64_t eight[4]; /* a byte a draw, 1 where it is undecided */
        memcpy(eight, undecided + base, sizeof eight);
        if ((eight[0] | eight[1] | eight[2] | eight[3]) == 0)
            continue;
        for (int e = 0; e < 4; e++)
            for (uint64_t left = eight[e]; left != 0; left &= left - 1) {
                const int i = base + 8 * e + __builtin_ctzll(left) / 8, w = job->waiting;
                if (i < from || i >= end)
                    continue;
                job->at[w] = at + i;
                job->value[w] = job->how->kind == DPF_NOISE ? bits_of(batch->offset[i])
                                                            : dpf_value(job->how->kind, in_at(job, at + i));
                job->word[0][w] = word_at(words, width, law->box_muller ? i & ~64 : i);
                if (law->box_muller)
                    job->word[1][w] = word_at(words, width, i | 64);
                if (law->judge)
                    job->word[2][w] = word_at(accept, 16, first + i);
                if (law->real && job->how->refuse && !is_finite(double_of(job->value[w])))
                    job->refused = 1; /* another thread writes the values */
                memset((char *)batch->sums + bytes * i, 0, (size_t)bytes);
                job->waiting++;
            }
    }
}
