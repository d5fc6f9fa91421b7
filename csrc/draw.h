/* SPDX-License-Identifier: Apache-2.0
 * How a call is drawn: in bulk by level 0, the undecided refined; or by both levels at once. */
#pragma once
#include <stddef.h>

#include "table.h"

/* Whether each acceptance word of a batch accepts any proposal. */
DPF_INLINE int accepts_all(const uint32_t *accept, int accept_below) {
    const dpf_half *const half = (const dpf_half *)accept;
    uint16_t most = 0;
    for (int i = 0; i < DPF_MOST; i++)
        most = half[i] > most ? half[i] : most;
    return most < accept_below;
}

/* Real values and their noise by 32-bit words in one sum, exact but for y + noise, for whose
 * rounding the margin is less (laplace.md, section 3). Of each value there is one use. 0: the sums
 * mean nothing, for a value has more than 40 bits before the point, or is no number. */
DPF_INLINE int sum_reals(const dpf_law *law, const dpf_release *given, int kind, int bounded, const void *in,
                         const dpf_short *restrict s, int64_t *restrict sums) {
    dpf_release how = *given;
    dpf_plan p = *how.plan;
    const double inverse = how.inverse * how.inverse_too;
    uint64_t large = 0;
    how.kind = kind;
    p.margin32 -= 0x1p-12;
    DPF_EACH_SHORT(law, &p, s, real_value(&how, in, i) * inverse, {
        const double sum = bounded ? joined(&how, 0.0, k) : k * how.granularity;
        large |= -(uint64_t) !(__builtin_fabs(y) < 0x1p40);
        sums[i] = sure ? (int64_t)bits_of(sum) : DPF_UNDECIDED_LIMB;
    });
    for (int i = 0; i < DPF_WORDS && how.single && kind == DPF_FLOAT64; i++)
        sums[i] = (int64_t)bits_of((double)(float)double_of((uint64_t)sums[i]));
    return !large;
}

/* The sums of a whole batch by 32-bit words, and which draws are undecided. Return the bytes of a
 * sum; 0: there are none. */
DPF_INLINE int sum_at_once(const dpf_law *law, const dpf_job *job, const uint32_t *words, const void *in, dpf_short *s,
                           dpf_batch *batch, uint8_t *restrict undecided) {
    const dpf_release *const how = job->how;
    const double most = 0x1p41 * how->granularity; /* no sum is larger */
    const int bounded = !(most < how->real_upper && -most > how->real_lower), is_single = how->kind == DPF_FLOAT32;
    int is_sum = 1;
    if (!law->real) {
        short_cells(law, how->plan, words, s);
        for (int i = 0; i < DPF_WORDS; i++)
            undecided[i] = s->cells[i] == DPF_UNDECIDED_CELL;
        sum_cells(how, s->cells, in, batch->sums);
        return dpf_size(how->kind);
    }
    law->by_short(how->plan, words, s);
    is_sum = is_single && bounded ? sum_reals(law, how, DPF_FLOAT32, 1, in, s, batch->sums)
             : is_single          ? sum_reals(law, how, DPF_FLOAT32, 0, in, s, batch->sums)
             : bounded            ? sum_reals(law, how, DPF_FLOAT64, 1, in, s, batch->sums)
                                  : sum_reals(law, how, DPF_FLOAT64, 0, in, s, batch->sums);
    for (int i = 0; i < DPF_WORDS; i++)
        undecided[i] = batch->sums[i] == DPF_UNDECIDED_LIMB;
    return is_sum * (int)sizeof *batch->sums;
}

/* The first tier of a bulk call reads level 0 alone. */
DPF_INLINE void bulk(const dpf_law *law, dpf_job *job) {
    const dpf_release *const how = job->how;
    const dpf_plan *const plan = how->plan;
    const int per_batch = 32 * DPF_WORDS / plan->width, size = dpf_size(how->kind);
    _Alignas(64) uint32_t words[DPF_WORDS];
    _Alignas(64) int64_t cells[DPF_MOST];
    uint8_t undecided[DPF_MOST];
    _Alignas(64) uint32_t accept[DPF_WORDS];
    dpf_short shorts;
    dpf_batch batch;
    uint64_t accept_batch = UINT64_MAX;
    int64_t done = 0;
    int accepted = 0; /* at once, by each word of accept */
    const int at_once =
        plan->width == 32 && how->limbs == 1 && how->kind != DPF_NOISE && !(law->real && made_public_first(how));
    memset(batch.offset, 0, sizeof batch.offset);
    for (uint64_t b = job->start / (uint64_t)per_batch; done < job->n && !job->refused && !job->open; b++) {
        const uint64_t first = b * (uint64_t)per_batch;
        const int64_t at = (int64_t)(first - job->start); /* may be negative: start lies within */
        const int from = at < 0 ? (int)-at : 0, end = at + per_batch > job->n ? (int)(job->n - at) : per_batch;
        /* The next batch is fetched meanwhile; its first line of results, which it shares with this
         * one, at once: a miss there would hold up all stores. */
        const uintptr_t next = (uintptr_t)size * (uintptr_t)(at + per_batch);
        __builtin_prefetch((const void *)((uintptr_t)job->out + next), 1, 3);
        shorts.ahead = (dpf_ahead){(uintptr_t)job->in + next, (uintptr_t)(size * per_batch / DPF_PARTS)};
        batch_words(how->key, noise_nonce(0, 0), b, shorts.ahead, words);
        int bytes = 0; /* each sum has so many, once there are sums */
        if (at_once && end - from == per_batch)
            bytes = sum_at_once(law, job, words, in_at(job, at), &shorts, &batch, undecided);
        if (bytes == 0) {
            job->refused |= law->real && split(how, in_at(job, at + from), from, end, &batch);
            if (job->refused)
                break;
            level0_of(law, plan, words, batch.offset, &shorts, cells, undecided);
            sum_up(how, in_at(job, at + from), from, end, cells, NULL, law->real, &batch);
            bytes = sizeof *batch.sums;
        }
        const int accept_first = (int)(first % DPF_MOST);
        if (law->judge) {
            if (first / DPF_MOST != accept_batch) {
                batch_words(how->key, accept_nonce(0, 0), accept_batch = first / DPF_MOST, DPF_AT_HAND(accept), accept);
                accepted = accepts_all(accept, plan->normal.accept_below);
            }
            for (int i = 0; i < per_batch && !accepted; i++)
                undecided[i] |= word_at(accept, 16, accept_first + i) >= (uint64_t)plan->normal.accept_below;
        }
        collect(law, job, words, accept, accept_first, undecided, from, end, at, bytes, &batch);
        if (bytes < (int)sizeof *batch.sums)
            store(out_at(job, at), batch.sums, per_batch * bytes / 8, how->non_temporal);
        else
            store_sums(how, &batch, NULL, from, end, out_at(job, at + from));
        while (job->waiting >= DPF_BATCH)
            refine(job);
        done = at + end;
    }
    while (job->waiting > 0)
        refine(job);
    dpf_wipe(words, sizeof words);
    dpf_wipe(cells, sizeof cells);
    dpf_wipe(&shorts, sizeof shorts);
    dpf_wipe(undecided, sizeof undecided);
    dpf_wipe(accept, sizeof accept);
    dpf_wipe(&batch, sizeof batch);
    dpf_wipe(job->at, sizeof job->at);
    dpf_wipe(job->value, sizeof job->value);
    dpf_wipe(job->word, sizeof job->word);
    dpf_scrub_law();
}

enum { DPF_CANDIDATES = 2 }; /* proposals that constant work looks at, at most */

/* The words of draws base .. base + DPF_STEP - 1 for one candidate, laid out for loops. */
typedef struct {
    uint64_t batch, accept_batch; /* whose level 0 lies in words and accepts, or UINT64_MAX */
    _Alignas(64) uint32_t words[DPF_WORDS], then[DPF_WORDS]; /* 64: the widest vector, whatever the frame's alignment */
    _Alignas(64) uint64_t word[DPF_STEP], more[DPF_STEP];    /* levels 0 and 1 */
    _Alignas(64) uint32_t accepts[DPF_WORDS];                /* from here on, of laws that judge */
    _Alignas(64) uint64_t accept[DPF_STEP], more_accept[DPF_STEP];
} dpf_step_words;

/* batch_words of the draws of one width, as far as those before `until` need them. */
static void words_until(const uint8_t *key, uint64_t nonce, int width, uint64_t batch, uint64_t until,
                        uint32_t *words) {
    uint64_t counter[DPF_LANES], nonces[DPF_LANES];
    if (until - batch * (uint64_t)(32 * DPF_WORDS / width) > (uint64_t)(16 * DPF_WORDS / width)) {
        batch_words(key, nonce, batch, DPF_AT_HAND(words), words);
        return;
    }
    for (int b = 0; b < DPF_LANES; b++)
        counter[b] = batch * DPF_BATCH + (uint64_t)b, nonces[b] = nonce;
    few_blocks(key, counter, nonces, DPF_LANES, words);
    memset(words + 16 * DPF_LANES, 0, 16 * DPF_LANES * sizeof *words);
}

/* until: the draw behind the call's last one. */
static void read_step(const dpf_law *law, const dpf_release *how, uint64_t candidate, uint64_t base, uint64_t until,
                      dpf_step_words *read) {
    const int width = how->plan->width;
    const uint64_t per_batch = (uint64_t)(32 * DPF_WORDS / width);
    if (base / per_batch != read->batch) {
        read->batch = base / per_batch;
        words_until(how->key, noise_nonce(candidate, 0), width, read->batch, until, read->words);
    }
    expand(read->words + base % per_batch * (uint64_t)width / 32, width, read->word);
    words_until(how->key, noise_nonce(candidate, 1), 64, base / DPF_STEP, until, read->then);
    expand(read->then, 64, read->more);
    if (law->judge) {
        if (base / DPF_MOST != read->accept_batch) {
            read->accept_batch = base / DPF_MOST;
            words_until(how->key, accept_nonce(candidate, 0), 16, read->accept_batch, until, read->accepts);
        }
        expand(read->accepts + base % DPF_MOST / 2, 16, read->accept);
        words_until(how->key, accept_nonce(candidate, 1), 64, base / DPF_STEP, until, read->then);
        expand(read->then, 64, read->more_accept);
    }
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

/* Wipe n words. A release of few would wait longer for memset's calls than for its stores. */
DPF_INLINE void wipe_words(void *at, int n) {
    if (n > 8)
        dpf_wipe(at, 8 * (int64_t)n);
    for (int i = 0; i < n && n <= 8; i++) {
        memset((char *)at + 8 * i, 0, 8);
        __asm__ volatile("" : : "r"(at) : "memory"); /* as in dpf_wipe; and no loop becomes a call */
    }
}

/* Read both levels for every draw: small calls, constant work, and wide scales. */
__attribute__((noinline)) static void both_levels(dpf_job *job, int tier) {
    const dpf_law *const law = job->law;
    const dpf_release *const how = job->how;
    const int candidates = law->judge ? how->plan->normal.candidates : 1;
    const int wide = how->limbs == 2 || how->kind == DPF_NOISE, few = job->n * (law->judge ? 4 : 2) <= DPF_BATCH;
    dpf_step_words read[DPF_CANDIDATES];
    _Alignas(64) uint64_t draw[DPF_STEP];
    _Alignas(64) uint64_t radius[DPF_STEP], angle[DPF_STEP], more_radius[DPF_STEP], more_angle[DPF_STEP];
    _Alignas(64) int64_t lo[DPF_STEP], hi[DPF_STEP], found[DPF_STEP], found_hi[DPF_STEP];
    int64_t verdict[DPF_STEP], final[DPF_STEP];
    dpf_batch batch;
    _Static_assert(sizeof *batch.sums == 8 && sizeof *batch.offset == 8 && sizeof *batch.point == 8, "wipe_words");
    int64_t done = 0;
    int used = 0, finished = 0; /* draws of a step at most; one by one: their values lie in found */
    read_tables(tier, law->box_muller);
    for (int candidate = 0; candidate < candidates; candidate++)
        read[candidate].batch = read[candidate].accept_batch = UINT64_MAX;
    for (uint64_t base = few ? job->start : job->start / DPF_STEP * DPF_STEP; done < job->n && !job->open;
         base += DPF_STEP) {
        const int64_t at = (int64_t)(base - job->start);
        const int from = at < 0 ? (int)-at : 0, end = at + DPF_STEP > job->n ? (int)(job->n - at) : DPF_STEP;
        used = used > end ? used : end;
        job->refused |= law->real && split(how, in_at(job, at + from), from, end, &batch);
        if (job->refused)
            break;
        for (int i = from; i < end && (law->judge || law->box_muller); i++)
            draw[i] = base + (uint64_t)i;
        if (law->judge) {
            memset(final, 0, sizeof final);
            for (int64_t i = from; i < end; i++)
                lo[i] = 0, hi[i] = DPF_UNDECIDED_LIMB; /* until a proposal is accepted */
        }
        uint64_t lack = 0;
        for (int candidate = 0; candidate < candidates; candidate++) {
            dpf_step_words *const words = &read[candidate];
            const uint64_t *first = radius, *then = more_radius;
            if (few) {
                read_few(law, how, (uint64_t)candidate, base, end, radius, angle, more_radius, more_angle,
                         words->accept, words->more_accept);
            } else {
                read_step(law, how, (uint64_t)candidate, base, job->start + (uint64_t)job->n, words);
                if (law->box_muller) {
                    both_of_pairs(words->word, radius, angle);
                    both_of_pairs(words->more, more_radius, more_angle);
                } else {
                    first = words->word, then = words->more;
                }
            }
            int64_t *const to = law->judge ? found : lo, *const to_hi = law->judge ? found_hi : hi;
            const dpf_draws draws = {end - from,
                                     draw + from,
                                     {first + from, angle + from},
                                     {then + from, more_angle + from},
                                     law->real ? batch.offset + from : no_offset,
                                     to + from,
                                     to_hi + from};
            law->decide(how->plan, tier, &draws);
            lack = lacking_any(law, how, from, end, to, to_hi);
            for (int i = from; i < end && lack && tier != law->last_tier; i++)
                if (to_hi[i] == DPF_UNDECIDED_LIMB) {
                    const dpf_draws one = one_of(&draws, i - from);
                    law->decide(how->plan, law->last_tier, &one);
                }
            if (!law->judge)
                continue;
            law->judge(how->plan, end - from, found + from, found_hi + from, words->accept + from,
                       words->more_accept + from, verdict + from);
            for (int64_t i = from; i < end; i++) {
                const int64_t takes = -(int64_t)((verdict[i] == 1) & (final[i] == 0));
                lo[i] = (found[i] & takes) | (lo[i] & ~takes);
                hi[i] = (found_hi[i] & takes) | (hi[i] & ~takes);
                final[i] |= verdict[i] != -1; /* an undecided one stays so */
            }
        }
        int64_t rejected = 0; /* each candidate of a draw */
        for (int64_t i = from; i < end && law->judge; i++)
            rejected |= final[i] == 0;
        for (int i = from; i < end && rejected; i++)
            if (final[i] == 0)
                propose_again(law, how, draw[i], (uint64_t)candidates, lo + i, hi + i);
        const uint64_t undecided = law->judge || lack ? lacking_any(law, how, from, end, lo, hi) : 0;
        for (int i = from; i < end && undecided; i++)
            final[i] = lacking(law, how, lo[i], hi[i]) != 0;
        if (law->real && !wide)
            for (int64_t i = from; i < end; i++) /* exact: it fits 53 bits */
                lo[i] = (int64_t)bits_of((double)(int32_t)(lo[i] >> 32) * 0x1p32 + to_double(0, (uint32_t)lo[i]));
        finished |= undecided != 0;
        sum_up(how, in_at(job, at + from), from, end, lo, wide ? hi : NULL, law->real, &batch);
        for (int i = from; i < end && undecided; i++)
            if (final[i]) {
                found[i] = (int64_t)dpf_value(how->kind, in_at(job, at + i)); /* out may be in */
                batch.sums[i] = hi[i] = 0;
            }
        store_sums(how, &batch, hi, from, end, out_at(job, at + from));
        if (undecided && how->non_temporal)
            dpf_fence();
        for (int i = from; i < end && undecided; i++)
            if (final[i])
                finish_draw(law, job, at + i, (uint64_t)found[i], 0, DPF_UNDECIDED_LIMB);
        done = at + end;
    }
    for (int candidate = 0; candidate < candidates; candidate++)
        if (!few) {
            dpf_wipe(&read[candidate], law->judge ? sizeof read[candidate] : offsetof(dpf_step_words, accepts));
        } else if (law->judge) {
            wipe_words(read[candidate].accept, used);
            wipe_words(read[candidate].more_accept, used);
        }
    if (few || law->box_muller) {
        const int held = few ? used : DPF_STEP;
        wipe_words(radius, held);
        wipe_words(angle, held);
        wipe_words(more_radius, held);
        wipe_words(more_angle, held);
    }
    wipe_words(lo, used);
    wipe_words(hi, used);
    if (law->judge || finished)
        wipe_words(found, used);
    if (law->judge)
        wipe_words(found_hi, used);
    if (law->real) {
        wipe_words(batch.offset, used);
        wipe_words(batch.point, used);
    }
    wipe_words(batch.sums, used);
    dpf_scrub_law();
}

/* Draw and add as dpf_add says. in_bulk: bulk of this law, in a frame of its own. */
DPF_INLINE int64_t draw_all(const dpf_law *law, void (*in_bulk)(dpf_job *), const dpf_release *how, uint64_t start,
                            int64_t n, const void *in, void *out) {
    const dpf_plan *const plan = how->plan;
    dpf_job job;
    job.law = law, job.how = how, job.in = in, job.out = out;
    job.start = start, job.n = n;
    job.refused = job.open = job.waiting = 0;
    job.noise = NULL;
    if (law->table && plan->table && !how->constant_work && how->kind != DPF_NOISE && how->limbs == 1)
        add_by_table(&job);
    else if (!how->constant_work && plan->bulk <= DPF_DOUBLE)
        in_bulk(&job);
    else
        both_levels(&job, how->constant_work ? plan->constant_work : plan->bulk);
    dpf_fence();
    return job.refused ? DPF_NOT_FINITE : job.open ? DPF_OPEN : n;
}
