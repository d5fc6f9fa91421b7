/* SPDX-License-Identifier: Apache-2.0
 * How every law is drawn: level 0 for all, level 1 for those still open, the rest left to the caller
 * [docs/design.md]. Compiled for each instruction set and each law; a law says beforehand
 *     DPF_LAW_TABLE       1 if a bulk call may start at a table of level-0 words
 *     DPF_LAW_LEVEL0      1 if it may start at arithmetic on them
 *     DPF_LAW_PAIRS       1 if draws i and i ^ 64 share a radius and an angle (stream.md)
 *     DPF_LAW_LAST        its last tier in C, asked for what the first leaves open
 *     FN(level0)(plan, real, words, offset, cells, open)   one pair of groups, from level 0 alone
 *     FN(decide)(plan, tier, lot)                          any draws, from levels 0 and 1
 * A cell is an int64, or the bits of a double that is an integer, as the caller wants it. */

DPF_INLINE uint64_t FN(noise_nonce)(const dpf_job *job, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_NOISE, job->candidate, level);
}

/* Of integer laws. */
static const double FN(no_offset)[DPF_WORDS];

/* Whether -2^bits <= draw < 2^bits. */
DPF_INLINE int FN(fits)(int64_t lo, int64_t hi, int bits) {
    return (hi == lo >> 63) & ((uint64_t)lo + ((uint64_t)1 << bits) < (uint64_t)2 << bits);
}

DPF_INLINE int64_t FN(cell)(int64_t draw, int real) {
    return real ? (int64_t)FN(bits_of)((double)draw) : draw;
}

/* Store a draw; an open one, or one that its place cannot hold, is left to the exact tier, a zero in its place. */
DPF_INLINE void FN(settle)(dpf_job *job, int64_t at, int64_t lo, int64_t hi) {
    const dpf_target *to = job->to;
    const int keep = hi != DPF_OPEN && (to->hi || FN(fits)(lo, hi, to->shorts ? 15 : to->real ? 53 : 62));
    if (to->shorts)
        to->shorts[at] = (int16_t)(keep ? lo : 0);
    else
        to->lo[at] = keep ? FN(cell)(lo, to->real) : 0;
    if (to->hi)
        to->hi[at] = keep ? hi : 0;
    if (!keep)
        to->undecided[job->undecided_count++] = at;
}

/* Levels 0 and 1 together, for a batch of the waiting. */
static void FN(refine)(dpf_job *job) {
    enum { BATCH = DPF_BATCH / (1 + DPF_LAW_PAIRS) };
    const int n = job->open < BATCH ? job->open : BATCH, from = job->open - n;
    uint64_t draw[BATCH], address[DPF_BATCH], more[DPF_BATCH];
    double offset[BATCH];
    int64_t lo[BATCH], hi[BATCH];
    for (int b = 0; b < BATCH; b++) {
        const int64_t at = job->at[from + (b < n ? b : 0)];
        draw[b] = job->start + (uint64_t)at;
        offset[b] = job->to->offset ? job->to->offset[at] : 0.0;
        address[b] = DPF_LAW_PAIRS ? draw[b] & ~(uint64_t)64 : draw[b];
        if (DPF_LAW_PAIRS)
            address[DPF_BATCH - BATCH + b] = draw[b] | 64;
    }
    FN(scattered)(job->key, FN(noise_nonce)(job, 1), address, more);
    const uint64_t *angle = job->word[1] + from, *more_angle = more + DPF_BATCH - BATCH;
    const dpf_lot lot = {n, draw, {job->word[0] + from, angle}, {more, more_angle}, offset, lo, hi};
    FN(decide)(job->plan, DPF_DOUBLE, &lot);
    for (int b = 0; b < n; b++) {
        if (hi[b] == DPF_OPEN) {
            const uint64_t *first = job->word[0] + from + b;
            const dpf_lot one = {1,      draw + b, {first, angle + b}, {more + b, more_angle + b}, offset + b,
                                 lo + b, hi + b};
            FN(decide)(job->plan, DPF_LAW_LAST, &one);
        }
        FN(settle)(job, job->at[from + b], lo[b], hi[b]);
    }
    job->open = from;
    dpf_wipe(more, sizeof more);
    dpf_wipe(offset, sizeof offset);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* Word i of a pair of groups. */
DPF_INLINE uint64_t FN(word_at)(const uint32_t *words, int width, int i) {
    const int slot = i / DPF_LANES, lane = i % DPF_LANES;
    return width == 64   ? words[2 * slot * DPF_LANES + lane] | (uint64_t)words[(2 * slot + 1) * DPF_LANES + lane] << 32
           : width == 32 ? words[i]
                         : words[slot / 2 * DPF_LANES + lane] >> slot % 2 * 16 & 0xffff;
}

/* Queue the open ones of draws from .. to of one pair of groups; at: where the first of the pair lies in the call. */
static void FN(collect)(dpf_job *job, const uint32_t *words, const uint8_t *open, int from, int to, int64_t at) {
    const int width = job->plan->width;
    for (int base = from & ~31; base < to; base += 32) {
        uint64_t eight[4]; /* a byte a draw, 1 where it is open */
        memcpy(eight, open + base, sizeof eight);
        if ((eight[0] | eight[1] | eight[2] | eight[3]) == 0)
            continue;
        for (int e = 0; e < 4; e++)
            for (uint64_t left = eight[e]; left != 0; left &= left - 1) {
                const int i = base + 8 * e + __builtin_ctzll(left) / 8;
                if (i < from || i >= to)
                    continue;
                job->at[job->open] = at + i;
                job->word[0][job->open] = FN(word_at)(words, width, DPF_LAW_PAIRS ? i & ~64 : i);
                if (DPF_LAW_PAIRS)
                    job->word[1][job->open] = FN(word_at)(words, width, i | 64);
                job->open++;
            }
    }
}

#if DPF_LAW_TABLE
/* Tier 1: 16-bit words, a lookup each, while the next pair of groups is enciphered. An open draw is left
 * at DPF_UNDECIDED. soon: what the caller reads next, fetched a line at a time. */
__attribute__((noinline)) static void FN(by_table)(const dpf_job *job, uint64_t next, uint32_t *restrict next_words,
                                                   const uint32_t *restrict words, int16_t *restrict out,
                                                   uint8_t *restrict open, uintptr_t soon) {
    const int16_t *table = job->plan->table;
    uint64_t counter[DPF_BATCH];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = next * DPF_BATCH + (uint64_t)b;
    if (next_words) {
        FN(blocks_meanwhile)(job->key, counter, FN(noise_nonce)(job, 0), next_words, table, words, out, soon);
    } else {
        for (int step = 0; step < FN(look_ups); step++)
            FN(look_up)(table, words, out, step);
    }
    for (int i = 0; i < 2 * DPF_WORDS; i++)
        open[i] = out[i] == DPF_UNDECIDED;
}

static void FN(bulk_by_table)(dpf_job *job, int64_t n) {
    enum { PER_PAIR = 2 * DPF_WORDS };
    const dpf_target *to = job->to;
    uint32_t room[2][DPF_WORDS], *words = room[0], *next = room[1];
    int16_t shorts[PER_PAIR];
    uint8_t open[PER_PAIR];
    FN(pair)(job->key, FN(noise_nonce)(job, 0), job->start / PER_PAIR, words);
    for (uint64_t pair = job->start / PER_PAIR; pair * PER_PAIR < job->start + (uint64_t)n; pair++) {
        const int64_t at = (int64_t)(pair * PER_PAIR - job->start); /* may be negative: start lies within */
        const int from = at < 0 ? (int)-at : 0, end = at + PER_PAIR > n ? (int)(n - at) : PER_PAIR;
        const int whole = end - from == PER_PAIR;
        int16_t *out = whole && to->shorts ? to->shorts + at : shorts;
        uint32_t *ahead = at + PER_PAIR < n ? next : NULL;
        FN(by_table)(job, pair + 1, ahead, words, out, open, (uintptr_t)to->soon + 8 * (uintptr_t)at);
        for (int i = from; i < end && !to->shorts; i++)
            to->lo[at + i] = out[i];
        if (to->shorts && !whole)
            memcpy(to->shorts + at + from, out + from, (size_t)(end - from) * sizeof *out);
        FN(collect)(job, words, open, from, end, at);
        while (job->open >= DPF_BATCH)
            FN(refine)(job);
        uint32_t *done = words;
        words = next;
        next = done;
    }
    dpf_wipe(room, sizeof room);
    dpf_wipe(shorts, sizeof shorts);
}
#endif

#if DPF_LAW_LEVEL0
static void FN(bulk_by_double)(dpf_job *job, int64_t n) {
    const int per_pair = 32 * DPF_WORDS / job->plan->width;
    const dpf_target *to = job->to;
    uint32_t words[DPF_WORDS];
    int64_t cells[DPF_WORDS];
    double offset[DPF_WORDS] = {0};
    uint8_t open[DPF_WORDS];
    for (uint64_t pair = job->start / (uint64_t)per_pair; pair * (uint64_t)per_pair < job->start + (uint64_t)n;
         pair++) {
        const int64_t at = (int64_t)(pair * (uint64_t)per_pair - job->start); /* may be negative: start lies within */
        const int from = at < 0 ? (int)-at : 0, end = at + per_pair > n ? (int)(n - at) : per_pair;
        const int whole = end - from == per_pair;
        int64_t *out = whole ? to->lo + at : cells;
        const double *begin = !to->offset ? FN(no_offset) : whole ? to->offset + at : offset;
        if (begin == offset)
            memcpy(offset + from, to->offset + at + from, (size_t)(end - from) * sizeof *offset);
        FN(pair)(job->key, FN(noise_nonce)(job, 0), pair, words);
        FN(level0)(job->plan, to->real, words, begin, out, open);
        if (!whole)
            memcpy(to->lo + at + from, out + from, (size_t)(end - from) * sizeof *out);
        FN(collect)(job, words, open, from, end, at);
        while (job->open >= DPF_BATCH)
            FN(refine)(job);
    }
    dpf_wipe(words, sizeof words);
    dpf_wipe(cells, sizeof cells);
    dpf_wipe(offset, sizeof offset);
}
#endif

/* The first tier of a bulk call reads level 0 alone. */
static void FN(bulk)(dpf_job *job, int64_t n) {
#if DPF_LAW_TABLE
    if (job->plan->bulk == DPF_TABLE)
        FN(bulk_by_table)(job, n);
#endif
#if DPF_LAW_LEVEL0
    if (job->plan->bulk != DPF_TABLE)
        FN(bulk_by_double)(job, n);
#endif
    while (job->open > 0)
        FN(refine)(job);
    dpf_wipe(job->word, sizeof job->word);
    dpf_wipe(job->at, sizeof job->at);
    if (job->to->hi)
        for (int64_t i = 0; i < n; i++)
            job->to->hi[i] = job->to->lo[i] >> 63;
}

/* Both levels for every draw, the same work for each: small calls, constant time, and wide scales. */
static void FN(both)(dpf_job *job, int tier, int64_t n) {
    const int width = job->plan->width, per_pair = 32 * DPF_WORDS / width;
    const dpf_target *to = job->to;
    uint32_t words[DPF_WORDS];
    uint64_t word[2 * DPF_WORDS], more[DPF_STEP], draw[DPF_STEP], pair = UINT64_MAX;
    uint64_t radius[DPF_STEP], angle[DPF_STEP], more_radius[DPF_STEP], more_angle[DPF_STEP];
    int64_t lo[DPF_STEP], hi[DPF_STEP];
    for (uint64_t base = job->start / DPF_STEP * DPF_STEP; base < job->start + (uint64_t)n; base += DPF_STEP) {
        const int64_t at = (int64_t)(base - job->start);
        const int from = at < 0 ? (int)-at : 0, end = at + DPF_STEP > n ? (int)(n - at) : DPF_STEP, count = end - from;
        if (base / (uint64_t)per_pair != pair) {
            pair = base / (uint64_t)per_pair;
            FN(pair)(job->key, FN(noise_nonce)(job, 0), pair, words);
            FN(expand)(words, width, word);
        }
        FN(pair)(job->key, FN(noise_nonce)(job, 1), base / DPF_STEP, words);
        FN(expand)(words, 64, more);
        const uint64_t *first = word + base % (uint64_t)per_pair;
        for (int i = 0; i < DPF_STEP; i++)
            draw[i] = base + (uint64_t)i;
        for (int i = 0; i < DPF_STEP && DPF_LAW_PAIRS; i++) {
            radius[i] = first[i & ~64], angle[i] = first[i | 64];
            more_radius[i] = more[i & ~64], more_angle[i] = more[i | 64];
        }
        const uint64_t *const word0 = DPF_LAW_PAIRS ? radius : first, *const more0 = DPF_LAW_PAIRS ? more_radius : more;
        const double *offset = to->offset ? to->offset + at + from : FN(no_offset);
        const dpf_lot lot = {
            count, draw + from, {word0 + from, angle + from}, {more0 + from, more_angle + from}, offset, lo, hi};
        FN(decide)(job->plan, tier, &lot);
        int odd = 0; /* some draw is open, or needs an upper limb where none is wanted */
        for (int i = 0; i < count; i++)
            odd |= (hi[i] == DPF_OPEN) | ((to->hi == NULL) & !FN(fits)(lo[i], hi[i], to->real ? 53 : 62));
        for (int i = 0; i < count && odd; i++) {
            if (hi[i] == DPF_OPEN && tier != DPF_LAW_LAST) {
                const int j = from + i;
                const dpf_lot one = {1,      draw + j, {word0 + j, angle + j}, {more0 + j, more_angle + j}, offset + i,
                                     lo + i, hi + i};
                FN(decide)(job->plan, DPF_LAW_LAST, &one);
            }
            FN(settle)(job, at + from + i, lo[i], hi[i]);
        }
        for (int i = 0; i < count && !odd; i++)
            to->lo[at + from + i] = FN(cell)(lo[i], to->real);
        if (!odd && to->hi)
            memcpy(to->hi + at + from, hi, (size_t)count * sizeof *hi);
    }
    dpf_wipe(words, sizeof words);
    dpf_wipe(word, sizeof word);
    dpf_wipe(more, sizeof more);
    if (DPF_LAW_PAIRS) {
        dpf_wipe(radius, sizeof radius);
        dpf_wipe(angle, sizeof angle);
        dpf_wipe(more_radius, sizeof more_radius);
        dpf_wipe(more_angle, sizeof more_angle);
    }
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

static int64_t FN(draw_all)(const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, uint64_t candidate,
                            int64_t n, const dpf_target *to) {
    dpf_job job;
    job.plan = plan, job.key = key, job.to = to;
    job.start = start, job.candidate = candidate;
    job.undecided_count = 0;
    job.open = 0;
    if (!careful && plan->bulk <= DPF_DOUBLE)
        FN(bulk)(&job, n);
    else
        FN(both)(&job, careful ? plan->careful : plan->bulk, n);
    dpf_scrub_law();
    return job.undecided_count;
}
