/* SPDX-License-Identifier: Apache-2.0
 * How every law is drawn: level 0 for all draws, level 1 for the undecided; the caller decides the
 * rest [docs/design.md]. A cell is an int64, or the bits of a double that is an integer. The cipher
 * makes a batch at once. A law's own functions inline all of this and know its constants. */

/* Draws with the words of both levels: U's, or the radius's and the angle's. */
typedef struct {
    int n;
    const uint64_t *draw, *word[2], *more[2];
    const double *offset; /* the value's place on the grid, in [-1/2, 1/2] */
    int64_t *lo, *hi;     /* the outcomes; hi has DPF_UNDECIDED_LIMB if there is none */
} dpf_draws;

/* A law: a constant in its own header. */
typedef struct {
    /* Draw a batch from level 0 alone; NULL if a bulk call begins at a table. */
    void (*level0)(const dpf_plan *, int real, const uint32_t *words, const double *offset, int64_t *cells,
                   uint8_t *undecided);
    /* Decide any draws from levels 0 and 1. */
    void (*decide)(const dpf_plan *, int tier, const dpf_draws *);
    int table;      /* a bulk call may begin at a table of level-0 words */
    int box_muller; /* draws i and i ^ 64 share a radius and an angle (stream.md) */
    int last_tier;  /* in C, asked for what the first leaves undecided */
} dpf_law;

typedef struct dpf_job {
    const dpf_plan *plan;
    const uint8_t *key;
    const dpf_target *to;
    uint64_t start, candidate;
    int64_t undecided_count;
    int waiting; /* draws that level 0 leaves undecided, until there are enough of them for a batch */
    int64_t at[DPF_BATCH + 2 * DPF_WORDS];
    uint64_t word[2][DPF_BATCH + 2 * DPF_WORDS];
} dpf_job;

enum { DPF_STEP = 8 * DPF_BATCH }; /* draws of a batch of 64-bit words */

DPF_INLINE uint64_t noise_nonce(const dpf_job *job, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_NOISE, job->candidate, level);
}

static const double no_offset[DPF_WORDS]; /* integer laws have none */

/* Whether -2^bits <= draw < 2^bits. */
DPF_INLINE int fits(int64_t lo, int64_t hi, int bits) {
    return (hi == lo >> 63) & ((uint64_t)lo + ((uint64_t)1 << bits) < (uint64_t)2 << bits);
}

DPF_INLINE int64_t as_cell(int64_t draw, int real) {
    return real ? (int64_t)bits_of((double)draw) : draw;
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

/* Store a draw; if it is undecided or too large for its place, a zero, and leave it undecided. */
static void store_decided(dpf_job *job, int64_t at, int64_t lo, int64_t hi) {
    const dpf_target *to = job->to;
    const int keep = hi != DPF_UNDECIDED_LIMB && (to->hi || fits(lo, hi, to->real ? 53 : 62));
    to->lo[at] = keep ? as_cell(lo, to->real) : 0;
    if (to->hi)
        to->hi[at] = keep ? hi : 0;
    if (!keep)
        to->undecided[job->undecided_count++] = at;
}

/* Decide a batch of the waiting draws by levels 0 and 1 together. */
DPF_INLINE void refine(const dpf_law *law, dpf_job *job) {
    const int most = DPF_BATCH / (1 + law->box_muller);
    const int n = job->waiting < most ? job->waiting : most, from = job->waiting - n;
    uint64_t draw[DPF_BATCH], address[DPF_BATCH], more[DPF_BATCH];
    double offset[DPF_BATCH];
    int64_t lo[DPF_BATCH], hi[DPF_BATCH];
    for (int b = 0; b < most; b++) {
        const int64_t at = job->at[from + (b < n ? b : 0)];
        draw[b] = job->start + (uint64_t)at;
        offset[b] = job->to->offset ? job->to->offset[at] : 0.0;
        address[b] = law->box_muller ? draw[b] & ~(uint64_t)64 : draw[b];
        if (law->box_muller)
            address[most + b] = draw[b] | 64;
    }
    scattered(job->key, noise_nonce(job, 1), address, more);
    const dpf_draws draws = {
        n, draw, {job->word[0] + from, job->word[1] + from}, {more, more + DPF_BATCH - most}, offset, lo, hi};
    law->decide(job->plan, DPF_DOUBLE, &draws);
    for (int b = 0; b < n; b++) {
        if (hi[b] == DPF_UNDECIDED_LIMB) {
            const dpf_draws one = one_of(&draws, b);
            law->decide(job->plan, law->last_tier, &one);
        }
        store_decided(job, job->at[from + b], lo[b], hi[b]);
    }
    job->waiting = from;
    dpf_wipe(more, sizeof more);
    dpf_wipe(offset, sizeof offset);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* Refine full batches of the waiting draws, or all of them. */
DPF_INLINE void refine_waiting(const dpf_law *law, dpf_job *job, int all) {
    while (job->waiting >= (all ? 1 : DPF_BATCH))
        refine(law, job);
}

/* Word i of a batch. */
DPF_INLINE uint64_t word_at(const uint32_t *words, int width, int i) {
    const int slot = i / DPF_LANES, lane = i % DPF_LANES;
    return width == 64   ? words[2 * slot * DPF_LANES + lane] | (uint64_t)words[(2 * slot + 1) * DPF_LANES + lane] << 32
           : width == 32 ? words[i]
                         : words[slot / 2 * DPF_LANES + lane] >> slot % 2 * 16 & 0xffff;
}

/* Queue the undecided among draws from .. to - 1 of one batch, whose first draw is number `at` of
 * the call. Then refine full batches of them; after the last batch of words refine them all. */
DPF_INLINE void collect(const dpf_law *law, dpf_job *job, const uint32_t *words, const uint8_t *undecided, int from,
                        int to, int64_t at, int last) {
    const int width = job->plan->width;
    for (int base = from & ~31; base < to; base += 32) {
        uint64_t eight[4]; /* a byte a draw, 1 where it is undecided */
        memcpy(eight, undecided + base, sizeof eight);
        if ((eight[0] | eight[1] | eight[2] | eight[3]) == 0)
            continue;
        for (int e = 0; e < 4; e++)
            for (uint64_t left = eight[e]; left != 0; left &= left - 1) {
                const int i = base + 8 * e + __builtin_ctzll(left) / 8;
                if (i < from || i >= to)
                    continue;
                job->at[job->waiting] = at + i;
                job->word[0][job->waiting] = word_at(words, width, law->box_muller ? i & ~64 : i);
                if (law->box_muller)
                    job->word[1][job->waiting] = word_at(words, width, i | 64);
                job->waiting++;
            }
    }
    refine_waiting(law, job, last);
}

/* Level 0 of a table: an undecided draw stays DPF_UNDECIDED. */
static void by_table(const dpf_plan *plan, const uint32_t *restrict words, int64_t *restrict cells,
                     uint8_t *restrict undecided) {
    for (int i = 0; i < 2 * DPF_WORDS; i++) {
        cells[i] = plan->table[word_at(words, 16, i)];
        undecided[i] = cells[i] == DPF_UNDECIDED;
    }
}

DPF_INLINE void bulk_by_level0(const dpf_law *law, dpf_job *job, int64_t n) {
    const int per_batch = 32 * DPF_WORDS / job->plan->width;
    const dpf_target *to = job->to;
    const int table = law->table && job->plan->bulk == DPF_TABLE;
    uint32_t words[DPF_WORDS];
    int64_t cells[2 * DPF_WORDS];
    double offset[DPF_WORDS] = {0};
    uint8_t undecided[2 * DPF_WORDS];
    for (uint64_t batch = job->start / (uint64_t)per_batch; batch * (uint64_t)per_batch < job->start + (uint64_t)n;
         batch++) {
        const int64_t at = (int64_t)(batch * (uint64_t)per_batch - job->start); /* may be negative, as above */
        const int from = at < 0 ? (int)-at : 0, end = at + per_batch > n ? (int)(n - at) : per_batch;
        const int whole = end - from == per_batch;
        int64_t *out = whole ? to->lo + at : cells;
        const double *begin = !to->offset ? no_offset : whole ? to->offset + at : offset;
        if (begin == offset)
            memcpy(offset + from, to->offset + at + from, (size_t)(end - from) * sizeof *offset);
        batch_words(job->key, noise_nonce(job, 0), batch, words);
        if (table)
            by_table(job->plan, words, out, undecided);
        else if (law->level0)
            law->level0(job->plan, to->real, words, begin, out, undecided);
        if (!whole)
            memcpy(to->lo + at + from, out + from, (size_t)(end - from) * sizeof *out);
        collect(law, job, words, undecided, from, end, at, at + per_batch >= n);
    }
    dpf_wipe(words, sizeof words);
    dpf_wipe(cells, sizeof cells);
    dpf_wipe(offset, sizeof offset);
}

/* The first tier of a bulk call reads level 0 alone. */
DPF_INLINE void bulk(const dpf_law *law, dpf_job *job, int64_t n) {
    bulk_by_level0(law, job, n);
    dpf_wipe(job->word, sizeof job->word);
    dpf_wipe(job->at, sizeof job->at);
    if (job->to->hi)
        for (int64_t i = 0; i < n; i++)
            job->to->hi[i] = job->to->lo[i] >> 63;
}

/* Read both levels for every draw: small calls, constant work, and wide scales. */
DPF_INLINE void both_levels(const dpf_law *law, dpf_job *job, int tier, int64_t n) {
    const int width = job->plan->width, per_batch = 32 * DPF_WORDS / width;
    const dpf_target *to = job->to;
    _Alignas(64) uint32_t words[DPF_WORDS]; /* 64: the widest vector, whatever the frame's alignment */
    _Alignas(64) uint64_t word[2 * DPF_WORDS], more[DPF_STEP], draw[DPF_STEP], batch = UINT64_MAX;
    _Alignas(64) uint64_t radius[DPF_STEP], angle[DPF_STEP], more_radius[DPF_STEP], more_angle[DPF_STEP];
    _Alignas(64) int64_t lo[DPF_STEP], hi[DPF_STEP];
    for (uint64_t base = job->start / DPF_STEP * DPF_STEP; base < job->start + (uint64_t)n; base += DPF_STEP) {
        const int64_t at = (int64_t)(base - job->start);
        const int from = at < 0 ? (int)-at : 0, end = at + DPF_STEP > n ? (int)(n - at) : DPF_STEP, count = end - from;
        if (base / (uint64_t)per_batch != batch) {
            batch = base / (uint64_t)per_batch;
            batch_words(job->key, noise_nonce(job, 0), batch, words);
            expand(words, width, word);
        }
        batch_words(job->key, noise_nonce(job, 1), base / DPF_STEP, words);
        expand(words, 64, more);
        const uint64_t *first = word + base % (uint64_t)per_batch, *then = more;
        for (int i = 0; i < DPF_STEP; i++)
            draw[i] = base + (uint64_t)i;
        if (law->box_muller) {
            for (int i = 0; i < DPF_STEP; i++) {
                radius[i] = first[i & ~64], angle[i] = first[i | 64];
                more_radius[i] = more[i & ~64], more_angle[i] = more[i | 64];
            }
            first = radius, then = more_radius;
        }
        const dpf_draws draws = {count,
                                 draw + from,
                                 {first + from, angle + from},
                                 {then + from, more_angle + from},
                                 to->offset ? to->offset + at + from : no_offset,
                                 lo,
                                 hi};
        law->decide(job->plan, tier, &draws);
        int undecided = 0; /* 1: a draw is undecided, or needs an upper limb and none is wanted */
        for (int i = 0; i < count; i++)
            undecided |= (hi[i] == DPF_UNDECIDED_LIMB) | ((to->hi == NULL) & !fits(lo[i], hi[i], to->real ? 53 : 62));
        for (int i = 0; i < count && undecided; i++) {
            if (hi[i] == DPF_UNDECIDED_LIMB && tier != law->last_tier) {
                const dpf_draws one = one_of(&draws, i);
                law->decide(job->plan, law->last_tier, &one);
            }
            store_decided(job, at + from + i, lo[i], hi[i]);
        }
        for (int i = 0; i < count && !undecided; i++)
            to->lo[at + from + i] = as_cell(lo[i], to->real);
        if (!undecided && to->hi)
            memcpy(to->hi + at + from, hi, (size_t)count * sizeof *hi);
    }
    dpf_wipe(words, sizeof words);
    dpf_wipe(word, sizeof word);
    dpf_wipe(more, sizeof more);
    if (law->box_muller) {
        dpf_wipe(radius, sizeof radius);
        dpf_wipe(angle, sizeof angle);
        dpf_wipe(more_radius, sizeof more_radius);
        dpf_wipe(more_angle, sizeof more_angle);
    }
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* Draw as dpf_fill says; return how many draws are undecided. */
DPF_INLINE int64_t draw_all(const dpf_law *law, const dpf_plan *plan, int constant_work, const uint8_t *key,
                            uint64_t start, uint64_t candidate, int64_t n, const dpf_target *to) {
    dpf_job job;
    job.plan = plan, job.key = key, job.to = to;
    job.start = start, job.candidate = candidate;
    job.undecided_count = 0;
    job.waiting = 0;
    if (!constant_work && plan->bulk <= DPF_DOUBLE)
        bulk(law, &job, n);
    else
        both_levels(law, &job, constant_work ? plan->constant_work : plan->bulk, n);
    dpf_scrub_law();
    return job.undecided_count;
}
