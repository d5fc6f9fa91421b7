/* SPDX-License-Identifier: Apache-2.0
 * The discrete Gaussian law P(k) ~ exp(-k^2 / 2 sigma^2) [CKS20]: by inversion among thresholds where
 * they are few, else by a rounded Gaussian that is nearly always accepted [discrete_gaussian.md]. */
#ifndef DPF_ISA
#include "dpf_impl.h"

#define DPF_SELF "discrete_gaussian.c"
#include "every_isa.h"

#else /* for one instruction set */

#include "chacha.h"
#include "decide.h"

#define DPF_LAW_TABLE  1
#define DPF_LAW_LEVEL0 0
#define DPF_LAW_PAIRS  0
#define DPF_LAW_LAST   DPF_DOUBLE
static void FN(decide)(const dpf_plan *, int, const dpf_lot *);
#include "refine.h"

/* Section 2: the magnitude for U in [u, u + 1) 2^-64 is the number of thresholds above u, unless one lies in the cell.
 */
DPF_INLINE int64_t FN(search)(const dpf_plan *plan, uint64_t u, int *decided) {
    const uint64_t bits = FN(bits_of)(FN(as_double)(u | (u == 0)));
    uint64_t at = plan->guide[(bits >> 48) - (1023 << 4)];
    for (int step = plan->steps - 1; step >= 0; step--) {
        const uint64_t next = at + ((uint64_t)1 << step);
        at = plan->thresholds[next - 1] > u ? next : at;
    }
    *decided = plan->thresholds[at] != u;
    return (int64_t)at;
}

/* Read every line that a search may read: else a large draw, whose lines are rarely asked for, would take longer. */
static void FN(warm)(const dpf_plan *plan) {
    const volatile uint16_t *guide = plan->guide;
    const volatile uint64_t *thresholds = plan->thresholds;
    for (int i = 0; i <= 64 * 16; i += 32)
        (void)guide[i];
    for (int i = 0; i < guide[0] + (1 << plan->steps); i += 8)
        (void)thresholds[i];
}

static void FN(decide)(const dpf_plan *plan, int tier, const dpf_lot *lot) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = lot->word[0], *restrict more = lot->more[0];
    int64_t *restrict lo = lot->lo, *restrict hi = lot->hi;
    (void)tier;
    for (int i = 0; i < lot->n; i++) {
        int decided;
        const int64_t magnitude = FN(search)(&p, word[i] << 49 | more[i] >> 15, &decided);
        const int64_t mask = -(int64_t)(word[i] >> 15);
        lo[i] = (magnitude ^ mask) - mask;
        hi[i] = decided ? lo[i] >> 63 : DPF_OPEN;
    }
}

/* Section 4. W = 2^64 - 1 - V's first 64 digits: 1 - V lies in (W, W + 1] 2^-64, and a proposal k is accepted if
 * 1 - V > P(k is rejected). 1: accepted, 0: rejected, -1: open. */
DPF_INLINE int FN(accepts)(const dpf_plan *plan, int64_t k, uint64_t w) {
    const double size = (double)k, most = plan->rejects * (size * size);
    const double least = most * (1.0 - 0x1p-17 - most);
    const double low = (double)w * 0x1p-64, high = ((double)w + 1.0) * 0x1p-64;
    return low > most * (1.0 + 0x1p-40) ? 1 : high < least * (1.0 - 0x1p-40) ? 0 : -1;
}

DPF_INLINE uint64_t FN(accept_nonce)(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_ACCEPT, candidate, level);
}

/* Leave draw `at` to the exact tier. */
DPF_INLINE void FN(give_up)(const dpf_target *to, int64_t at, int64_t *count) {
    to->lo[at] = 0;
    to->undecided[(*count)++] = at;
}

/* Take back the proposals that their acceptance words do not accept at once and then not for sure. */
static int64_t FN(accept_bulk)(const dpf_plan *plan, const uint8_t *key, uint64_t start, int64_t n, int64_t count,
                               const dpf_target *to) {
    enum { PER_PAIR = 2 * DPF_WORDS };
    uint32_t words[DPF_WORDS];
    uint64_t digits[PER_PAIR], draw[DPF_BATCH], more[DPF_BATCH];
    int64_t waiting[PER_PAIR];
    const int64_t proposed = count; /* these are open already */
    for (uint64_t pair = start / PER_PAIR; pair * PER_PAIR < start + (uint64_t)n; pair++) {
        const int64_t at = (int64_t)(pair * PER_PAIR - start);
        const int from = at < 0 ? (int)-at : 0, end = at + PER_PAIR > n ? (int)(n - at) : PER_PAIR;
        int open = 0, some = 0;
        FN(pair)(key, FN(accept_nonce)(0, 0), pair, words);
        for (int i = 0; i < DPF_WORDS; i++)
            some |= ((words[i] & 0xffff) >= (uint32_t)plan->surely) | (words[i] >> 16 >= (uint32_t)plan->surely);
        if (!some)
            continue;
        FN(expand)(words, 16, digits);
        for (int i = from; i < end; i++)
            if (digits[i] >= (uint64_t)plan->surely)
                waiting[open++] = i;
        for (int first = 0; first < open; first += DPF_BATCH) {
            for (int b = 0; b < DPF_BATCH; b++)
                draw[b] = pair * PER_PAIR + (uint64_t)waiting[first + b < open ? first + b : first];
            FN(scattered)(key, FN(accept_nonce)(0, 1), draw, more);
            for (int b = 0; b < DPF_BATCH && first + b < open; b++) {
                const int64_t i = waiting[first + b];
                const uint64_t v = digits[i] << 48 | more[b] >> 16;
                int known = 0;
                for (int64_t u = 0; u < proposed; u++)
                    known |= to->undecided[u] == at + i;
                if (!known && FN(accepts)(plan, to->lo[at + i], ~v) != 1)
                    FN(give_up)(to, at + i, &count);
            }
        }
    }
    dpf_scrub_law();
    dpf_wipe(words, sizeof words);
    dpf_wipe(digits, sizeof digits);
    dpf_wipe(more, sizeof more);
    return count;
}

/* The acceptance words of both levels, all 64 digits that count, for the 1,024 draws of a pair of groups. */
static void FN(acceptance)(const uint8_t *key, uint64_t pair, uint64_t candidate, uint64_t *digits) {
    uint32_t words[DPF_WORDS];
    uint64_t more[DPF_STEP];
    FN(pair)(key, FN(accept_nonce)(candidate, 0), pair, words);
    FN(expand)(words, 16, digits);
    for (uint64_t part = 0; part < 4; part++) {
        FN(pair)(key, FN(accept_nonce)(candidate, 1), 4 * pair + part, words);
        FN(expand)(words, 64, more);
        for (int i = 0; i < DPF_STEP; i++)
            digits[part * DPF_STEP + (uint64_t)i] = digits[part * DPF_STEP + (uint64_t)i] << 48 | more[i] >> 16;
    }
    dpf_scrub_cipher();
    dpf_wipe(words, sizeof words);
    dpf_wipe(more, sizeof more);
}

/* `candidates` proposals for every draw, and the first that is accepted. */
static int64_t FN(accept_careful)(const dpf_plan *plan, const uint8_t *key, uint64_t start, int64_t n,
                                  const dpf_target *to) {
    enum { PER_PAIR = 2 * DPF_WORDS };
    uint64_t digits[PER_PAIR];
    int64_t k[PER_PAIR], open[PER_PAIR], count = 0;
    int8_t taken[PER_PAIR]; /* 0: none yet, 1: accepted, -1: open */
    for (uint64_t pair = start / PER_PAIR; pair * PER_PAIR < start + (uint64_t)n; pair++) {
        const int64_t at = (int64_t)(pair * PER_PAIR - start);
        const int from = at < 0 ? (int)-at : 0, end = at + PER_PAIR > n ? (int)(n - at) : PER_PAIR, m = end - from;
        memset(taken, 0, sizeof taken);
        for (uint64_t candidate = 0; candidate < (uint64_t)plan->candidates; candidate++) {
            const dpf_target proposal = {.lo = k, .undecided = open};
            const uint64_t first = start + (uint64_t)(at + from);
            const int64_t opened = FN(gaussian_propose)(plan, 1, key, first, candidate, m, &proposal);
            FN(acceptance)(key, pair, candidate, digits);
            for (int64_t i = 0; i < opened; i++)
                taken[open[i]] = taken[open[i]] == 0 ? -1 : taken[open[i]];
            for (int i = 0; i < m; i++) {
                const int verdict = FN(accepts)(plan, k[i], ~digits[from + i]);
                if (taken[i] == 0 && verdict == 1)
                    to->lo[at + from + i] = k[i];
                taken[i] = (int8_t)(taken[i] == 0 ? verdict : taken[i]);
            }
        }
        for (int i = 0; i < m; i++)
            if (taken[i] != 1)
                FN(give_up)(to, at + from + i, &count);
    }
    dpf_wipe(digits, sizeof digits);
    dpf_wipe(k, sizeof k);
    return count;
}

int64_t FN(discrete_gaussian_fill)(const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n,
                                   const dpf_target *to) {
    if (plan->steps && careful)
        FN(warm)(plan);
    if (plan->steps)
        return FN(draw_all)(plan, careful, key, start, 0, n, to);
    const dpf_target low = {.lo = to->lo, .undecided = to->undecided};
    const int64_t count =
        careful ? FN(accept_careful)(plan, key, start, n, &low)
                : FN(accept_bulk)(plan, key, start, n, FN(gaussian_propose)(plan, 0, key, start, 0, n, &low), &low);
    for (int64_t i = 0; i < n && to->hi; i++)
        to->hi[i] = to->lo[i] >> 63;
    return count;
}

void FN(discrete_gaussian_tier)(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                                dpf_u128 *found, uint8_t *decided) {
    if (!plan->steps) {
        FN(gaussian_tier)(plan, tier, bits, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int sure;
        int64_t draw;
        if (tier == DPF_TABLE) {
            draw = plan->table[planted[i].digits[0]];
            sure = draw != DPF_UNDECIDED;
        } else {
            draw = FN(search)(plan, planted[i].digits[0], &sure);
        }
        decided[i] = (uint8_t)sure;
        found[i].lo = sure ? (uint64_t)draw : 0;
        found[i].hi = sure ? (uint64_t)(draw >> 63) : 0;
    }
}

#endif
