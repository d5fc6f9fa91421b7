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
    int real;
    /* NULL, or: a draw is a proposal k. W = 2^64 - 1 - V's first 64 digits accepts it (1), rejects it
     * (-1) or leaves it undecided (0). */
    int64_t (*accepts)(const dpf_plan *, int64_t k, uint64_t w);
} dpf_law;

/* One call: its values, and its draws that wait for more digits. */
typedef struct {
    const dpf_release *how;
    const char *in;
    char *out;
    uint64_t start;
    int64_t n;
    dpf_undecided *undecided;
    int64_t n_undecided;
    int refused; /* a value is not finite */
    int waiting; /* draws that level 0 leaves undecided, until there are enough of them for a batch */
    int64_t at[DPF_BATCH + DPF_MOST];
    uint64_t value[DPF_BATCH + DPF_MOST];
    uint64_t word[3][DPF_BATCH + DPF_MOST]; /* level 0: U's or the radius's; the angle's; the acceptance's */
} dpf_job;

enum { DPF_STEP = 8 * DPF_BATCH }; /* draws of a batch of 64-bit words */

DPF_INLINE uint64_t noise_nonce(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_NOISE, candidate, level);
}

DPF_INLINE uint64_t accept_nonce(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_ACCEPT, candidate, level);
}

/* Where value `at` of the call lies, and its result. */
DPF_INLINE const char *in_at(const dpf_job *job, int64_t at) {
    return job->in + (job->how->kind == DPF_FLOAT32 ? 4 : 8) * at;
}

DPF_INLINE char *out_at(const dpf_job *job, int64_t at) {
    return job->out + (job->how->kind == DPF_FLOAT32 ? 4 : job->how->kind == DPF_NOISE ? 16 : 8) * at;
}

/* Whether -2^bits <= draw < 2^bits. */
DPF_INLINE int fits(int64_t lo, int64_t hi, int bits) {
    return (hi == lo >> 63) & ((uint64_t)lo + ((uint64_t)1 << bits) < (uint64_t)2 << bits);
}

/* 0 if a draw is decided, and one limb holds it if there is no other. */
DPF_INLINE uint64_t lacking(const dpf_law *law, const dpf_release *how, int64_t lo, int64_t hi) {
    const uint64_t limb = (uint64_t)hi ^ (uint64_t)DPF_UNDECIDED_LIMB; /* which no decided draw has */
    const int bits = law->real ? 53 : 62;
    return how->limbs == 2 ? (limb - 1) & ~limb & (uint64_t)1 << 63
                           : (uint64_t)(hi ^ lo >> 63) | ((uint64_t)lo + ((uint64_t)1 << bits)) >> (bits + 1);
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

/* Store the result of value `at`, where a zero stands; or leave it undecided, and the zero there. */
DPF_INLINE void settle(const dpf_law *law, dpf_job *job, int64_t at, uint64_t value, int64_t lo, int64_t hi) {
    const int64_t draw[2] = {lo, hi};
    if (lacking(law, job->how, lo, hi)) {
        job->undecided[job->n_undecided++] = (dpf_undecided){at, value};
    } else if (job->how->kind == DPF_NOISE) {
        memcpy(out_at(job, at), draw, sizeof draw);
    } else {
        sum_up_one(job->how, value, lo, hi, out_at(job, at));
    }
}

/* Decide a batch of the waiting draws by levels 0 and 1 together. */
DPF_INLINE void refine(const dpf_law *law, dpf_job *job) {
    const int most = DPF_BATCH / (1 + law->box_muller);
    const int n = job->waiting < most ? job->waiting : most, from = job->waiting - n;
    const dpf_release *const how = job->how;
    uint64_t draw[DPF_BATCH], address[DPF_BATCH], more[DPF_BATCH], more_accept[DPF_BATCH];
    double offset[DPF_BATCH];
    int64_t lo[DPF_BATCH], hi[DPF_BATCH];
    for (int b = 0; b < most; b++) {
        const int w = from + (b < n ? b : 0);
        draw[b] = job->start + (uint64_t)job->at[w];
        offset[b] = !law->real                ? 0.0
                    : how->kind == DPF_NOISE ? double_of(job->value[w])
                                             : beyond(in_steps(how, made_public(how, double_of(job->value[w]))));
        address[b] = law->box_muller ? draw[b] & ~(uint64_t)64 : draw[b];
        if (law->box_muller)
            address[most + b] = draw[b] | 64;
    }
    scattered(how->key, noise_nonce(0, 1), address, more);
    if (law->accepts) {
        for (int b = most; b < DPF_BATCH; b++)
            draw[b] = draw[0];
        scattered(how->key, accept_nonce(0, 1), draw, more_accept);
    }
    const dpf_draws draws = {
        n, draw, {job->word[0] + from, job->word[1] + from}, {more, more + DPF_BATCH - most}, offset, lo, hi};
    law->decide(how->plan, DPF_DOUBLE, &draws);
    if (how->non_temporal)
        dpf_fence();
    for (int b = 0; b < n; b++) {
        if (hi[b] == DPF_UNDECIDED_LIMB) {
            const dpf_draws one = one_of(&draws, b);
            law->decide(how->plan, law->last_tier, &one);
        }
        if (law->accepts && hi[b] != DPF_UNDECIDED_LIMB) {
            const uint64_t v = job->word[2][from + b] << 48 | more_accept[b] >> 16;
            if (!fits(lo[b], hi[b], 62) || law->accepts(how->plan, lo[b], ~v) != 1)
                hi[b] = DPF_UNDECIDED_LIMB; /* C makes no second proposal here */
        }
        settle(law, job, job->at[from + b], job->value[from + b], lo[b], hi[b]);
    }
    job->waiting = from;
    dpf_wipe(more, sizeof more);
    dpf_wipe(more_accept, sizeof more_accept);
    dpf_wipe(offset, sizeof offset);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* Word i of a batch. */
DPF_INLINE uint64_t word_at(const uint32_t *words, int width, int i) {
    const int slot = i / DPF_LANES, lane = i % DPF_LANES;
    return width == 64   ? words[2 * slot * DPF_LANES + lane] | (uint64_t)words[(2 * slot + 1) * DPF_LANES + lane] << 32
           : width == 32 ? words[i]
                         : words[slot / 2 * DPF_LANES + lane] >> slot % 2 * 16 & 0xffff;
}

/* Queue the undecided among draws from .. end - 1 of a batch, whose first draw is number `at` of the
 * call, with their values; put zeros in the place of their sums. accept: acceptance words. */
DPF_INLINE void collect(const dpf_law *law, dpf_job *job, const uint32_t *words, const uint64_t *accept,
                        const uint8_t *undecided, int from, int end, int64_t at, dpf_batch *batch) {
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
                                                            : value_bits(job->how, in_at(job, at + i), 0);
                job->word[0][w] = word_at(words, width, law->box_muller ? i & ~64 : i);
                if (law->box_muller)
                    job->word[1][w] = word_at(words, width, i | 64);
                if (law->accepts)
                    job->word[2][w] = accept[i];
                if (law->real && job->how->refuse && !is_finite(double_of(job->value[w])))
                    job->refused = 1; /* another thread writes the values */
                batch->sums[i] = 0;
                job->waiting++;
            }
    }
}

/* Store the results of draws from .. end - 1, of noise lo (and hi); the undecided wait, and have zeros. */
DPF_INLINE void take(const dpf_law *law, dpf_job *job, const uint32_t *words, const uint64_t *accept,
                     const uint8_t *undecided, int from, int end, int64_t at, const int64_t *lo, dpf_batch *batch) {
    sum_up(job->how, in_at(job, at + from), from, end, lo, NULL, law->real, batch);
    collect(law, job, words, accept, undecided, from, end, at, batch);
    store_sums(job->how, batch, NULL, from, end, out_at(job, at + from));
    while (job->waiting >= DPF_BATCH)
        refine(law, job);
}

/* Level 0 of the acceptance words of draws DPF_MOST batch, ... */
static void acceptance_words(const uint8_t *key, uint64_t candidate, uint64_t batch, uint64_t *accept) {
    uint32_t words[DPF_WORDS];
    batch_words(key, accept_nonce(candidate, 0), batch, words);
    expand(words, 16, accept);
    dpf_wipe(words, sizeof words);
}

/* The draws of a batch that level 0 decides, by a table or in doubles. */
DPF_INLINE void level0_of(const dpf_law *law, const dpf_plan *plan, const uint32_t *words, const double *offset,
                          int64_t *cells, uint8_t *undecided) {
    if (!law->table || plan->bulk != DPF_TABLE) {
        law->level0(plan, law->real, words, offset, cells, undecided);
        return;
    }
    for (int i = 0; i < DPF_MOST; i++) {
        cells[i] = plan->table[word_at(words, 16, i)];
        undecided[i] = cells[i] == DPF_UNDECIDED;
    }
}

/* The first tier of a bulk call reads level 0 alone. */
DPF_INLINE int64_t bulk(const dpf_law *law, dpf_job *job) {
    const dpf_release *const how = job->how;
    const dpf_plan *const plan = how->plan;
    const int per_batch = 32 * DPF_WORDS / plan->width;
    _Alignas(64) uint32_t words[DPF_WORDS];
    _Alignas(64) int64_t cells[DPF_MOST];
    uint8_t undecided[DPF_MOST];
    uint64_t accept[DPF_MOST];
    dpf_batch batch;
    uint64_t accept_batch = UINT64_MAX;
    int64_t done = 0;
    memset(batch.offset, 0, sizeof batch.offset);
    for (uint64_t b = job->start / (uint64_t)per_batch; done < job->n && job->n_undecided == 0; b++) {
        const uint64_t first = b * (uint64_t)per_batch;
        const int64_t at = (int64_t)(first - job->start); /* may be negative: start lies within */
        const int from = at < 0 ? (int)-at : 0, end = at + per_batch > job->n ? (int)(job->n - at) : per_batch;
        job->refused |= law->real && split(how, in_at(job, at + from), from, end, &batch);
        if (job->refused)
            break;
        batch_words(how->key, noise_nonce(0, 0), b, words);
        level0_of(law, plan, words, batch.offset, cells, undecided);
        if (law->accepts) {
            if (first / DPF_MOST != accept_batch)
                acceptance_words(how->key, 0, accept_batch = first / DPF_MOST, accept);
            for (int i = 0; i < per_batch; i++)
                undecided[i] |= accept[first % DPF_MOST + (uint64_t)i] >= (uint64_t)plan->normal.accept_below;
        }
        take(law, job, words, accept + first % DPF_MOST, undecided, from, end, at, cells, &batch);
        done = at + end;
    }
    while (job->waiting > 0)
        refine(law, job);
    dpf_wipe(words, sizeof words);
    dpf_wipe(cells, sizeof cells);
    dpf_wipe(accept, sizeof accept);
    dpf_wipe(&batch, sizeof batch);
    dpf_wipe(job->at, sizeof job->at);
    dpf_wipe(job->value, sizeof job->value);
    dpf_wipe(job->word, sizeof job->word);
    return done;
}

enum { DPF_CANDIDATES = 2 }; /* proposals that constant work looks at, at most */

/* The words of draws base .. base + DPF_STEP - 1 for one candidate, laid out for loops. */
typedef struct {
    uint64_t batch;                             /* whose level 0 lies in word, or UINT64_MAX */
    uint64_t accept_batch;                      /* the same of accept */
    _Alignas(64) uint64_t word[2 * DPF_WORDS];  /* level 0 */
    uint64_t accept[DPF_MOST];
    _Alignas(64) uint64_t more[DPF_STEP], more_accept[DPF_STEP]; /* level 1 */
} dpf_step_words;

static void read_step(const dpf_law *law, const dpf_release *how, uint64_t candidate, uint64_t base,
                      dpf_step_words *read) {
    const int width = how->plan->width;
    const uint64_t per_batch = (uint64_t)(32 * DPF_WORDS / width);
    _Alignas(64) uint32_t words[DPF_WORDS]; /* 64: the widest vector, whatever the frame's alignment */
    if (base / per_batch != read->batch) {
        read->batch = base / per_batch;
        batch_words(how->key, noise_nonce(candidate, 0), read->batch, words);
        expand(words, width, read->word);
    }
    batch_words(how->key, noise_nonce(candidate, 1), base / DPF_STEP, words);
    expand(words, 64, read->more);
    if (law->accepts) {
        if (base / DPF_MOST != read->accept_batch)
            acceptance_words(how->key, candidate, read->accept_batch = base / DPF_MOST, read->accept);
        batch_words(how->key, accept_nonce(candidate, 1), base / DPF_STEP, words);
        expand(words, 64, read->more_accept);
    }
    dpf_wipe(words, sizeof words);
}

/* The words of each draw's radius and angle: draws i and i ^ 64 share them. */
DPF_INLINE void both_of_pairs(const uint64_t *word, uint64_t *radius, uint64_t *angle) {
    for (int pair = 0; pair < DPF_STEP; pair += 128)
        for (int half = 0; half < 128; half += 64) {
            memcpy(radius + pair + half, word + pair, 64 * sizeof *word);
            memcpy(angle + pair + half, word + pair + 64, 64 * sizeof *word);
        }
}

static const double no_offset[DPF_STEP]; /* integer laws have none */

/* Read both levels for every draw: small calls, constant work, and wide scales. */
DPF_INLINE int64_t both_levels(const dpf_law *law, dpf_job *job, int tier) {
    const dpf_release *const how = job->how;
    const int per_batch = 32 * DPF_WORDS / how->plan->width, candidates = law->accepts ? how->plan->normal.candidates : 1;
    const int wide = how->limbs == 2 || how->kind == DPF_NOISE;
    dpf_step_words read[DPF_CANDIDATES];
    _Alignas(64) uint64_t draw[DPF_STEP];
    _Alignas(64) uint64_t radius[DPF_STEP], angle[DPF_STEP], more_radius[DPF_STEP], more_angle[DPF_STEP];
    _Alignas(64) int64_t lo[DPF_STEP], hi[DPF_STEP], found[DPF_STEP], found_hi[DPF_STEP];
    int64_t settled[DPF_STEP];
    dpf_batch batch;
    int64_t done = 0;
    int used = 0;
    for (int candidate = 0; candidate < candidates; candidate++)
        read[candidate].batch = read[candidate].accept_batch = UINT64_MAX;
    for (uint64_t base = job->start / DPF_STEP * DPF_STEP; done < job->n && job->n_undecided == 0; base += DPF_STEP) {
        const int64_t at = (int64_t)(base - job->start);
        const int from = at < 0 ? (int)-at : 0, end = at + DPF_STEP > job->n ? (int)(job->n - at) : DPF_STEP;
        used = used > end ? used : end;
        job->refused |= law->real && split(how, in_at(job, at + from), from, end, &batch);
        if (job->refused)
            break;
        for (int i = 0; i < DPF_STEP; i++)
            draw[i] = base + (uint64_t)i;
        if (law->accepts) {
            memset(settled, 0, sizeof settled);
            for (int64_t i = from; i < end; i++)
                lo[i] = 0, hi[i] = DPF_UNDECIDED_LIMB; /* until a proposal is accepted */
        }
        for (int candidate = 0; candidate < candidates; candidate++) {
            dpf_step_words *const words = &read[candidate];
            read_step(law, how, (uint64_t)candidate, base, words);
            const uint64_t *first = words->word + base % (uint64_t)per_batch, *then = words->more;
            if (law->box_muller) {
                both_of_pairs(first, radius, angle);
                both_of_pairs(then, more_radius, more_angle);
                first = radius, then = more_radius;
            }
            int64_t *const to = law->accepts ? found : lo, *const to_hi = law->accepts ? found_hi : hi;
            const dpf_draws draws = {end - from,
                                     draw + from,
                                     {first + from, angle + from},
                                     {then + from, more_angle + from},
                                     law->real ? batch.offset + from : no_offset,
                                     to + from,
                                     to_hi + from};
            law->decide(how->plan, tier, &draws);
            uint64_t open = 0;
            for (int64_t i = from; i < end; i++) {
                const uint64_t limb = (uint64_t)to_hi[i] ^ (uint64_t)DPF_UNDECIDED_LIMB;
                open |= (limb - 1) & ~limb;
            }
            for (int i = from; i < end && open >> 63 && tier != law->last_tier; i++)
                if (to_hi[i] == DPF_UNDECIDED_LIMB) {
                    const dpf_draws one = one_of(&draws, i - from);
                    law->decide(how->plan, law->last_tier, &one);
                }
            for (int64_t i = from; i < end && law->accepts; i++) {
                const uint64_t v = words->accept[base % DPF_MOST + (uint64_t)i] << 48 | words->more_accept[i] >> 16;
                const int64_t known = -(int64_t)(lacking(law, how, found[i], found_hi[i]) == 0);
                const int64_t verdict = law->accepts(how->plan, found[i] & known, ~v) & known;
                const int64_t takes = -(int64_t)((verdict == 1) & (settled[i] == 0));
                lo[i] = (found[i] & takes) | (lo[i] & ~takes);
                hi[i] = (found_hi[i] & takes) | (hi[i] & ~takes);
                settled[i] |= verdict != -1; /* an undecided one stays so */
            }
        }
        uint64_t undecided = 0;
        for (int64_t i = from; i < end; i++)
            undecided |= lacking(law, how, lo[i], hi[i]);
        for (int i = from; i < end && undecided; i++)
            settled[i] = lacking(law, how, lo[i], hi[i]) != 0;
        if (law->real && !wide)
            for (int64_t i = from; i < end; i++) /* exact: it fits 53 bits */
                lo[i] = (int64_t)bits_of((double)(int32_t)(lo[i] >> 32) * 0x1p32 + to_double(0, (uint32_t)lo[i]));
        sum_up(how, in_at(job, at + from), from, end, lo, wide ? hi : NULL, law->real, &batch);
        for (int i = from; i < end && undecided; i++)
            if (settled[i]) {
                const uint64_t value = value_bits(how, in_at(job, at + i), 0);
                job->undecided[job->n_undecided++] = (dpf_undecided){at + i, value};
                batch.sums[i] = hi[i] = 0;
            }
        store_sums(how, &batch, hi, from, end, out_at(job, at + from));
        done = at + end;
    }
    for (int candidate = 0; candidate < candidates; candidate++)
        dpf_wipe(&read[candidate], sizeof read[candidate]);
    if (law->box_muller) {
        dpf_wipe(radius, sizeof radius);
        dpf_wipe(angle, sizeof angle);
        dpf_wipe(more_radius, sizeof more_radius);
        dpf_wipe(more_angle, sizeof more_angle);
    }
    dpf_wipe(lo, used * (int64_t)sizeof *lo);
    dpf_wipe(hi, used * (int64_t)sizeof *hi);
    dpf_wipe(found, used * (int64_t)sizeof *found);
    dpf_wipe(found_hi, used * (int64_t)sizeof *found_hi);
    dpf_wipe(batch.sums, used * (int64_t)sizeof *batch.sums);
    dpf_wipe(batch.offset, used * (int64_t)sizeof *batch.offset);
    dpf_wipe(batch.point, used * (int64_t)sizeof *batch.point);
    return done;
}

/* Draw and add as dpf_add says. */
DPF_INLINE int64_t draw_all(const dpf_law *law, const dpf_release *how, uint64_t start, int64_t n, const void *in,
                            void *out, dpf_undecided *undecided, int64_t *n_undecided) {
    const dpf_plan *const plan = how->plan;
    dpf_job job;
    job.how = how, job.in = in, job.out = out;
    job.start = start, job.n = n;
    job.undecided = undecided;
    job.n_undecided = 0;
    job.refused = job.waiting = 0;
    const int64_t done = !how->constant_work && plan->bulk <= DPF_DOUBLE
                             ? bulk(law, &job)
                             : both_levels(law, &job, how->constant_work ? plan->constant_work : plan->bulk);
    dpf_fence();
    dpf_scrub_law();
    *n_undecided = job.n_undecided;
    return job.refused ? DPF_NOT_FINITE : done;
}
