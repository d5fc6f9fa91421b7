/* SPDX-License-Identifier: Apache-2.0
 * The discrete Laplace law by inversion, refined until decided [Devroye 1986, II.2; GRS09]:
 *     X = S floor(t (C - ln U)),  C = ln(2 / (1 + q)),  q = exp(-1/t).
 * The argument is in discrete_laplace.md, whose section numbers stand below. */
#ifndef DPF_ISA
#include "dpf_impl.h"

/* c, and ln c in two parts */
typedef struct {
    double c, log_high, log_low;
} dpf_twofold_row;
#include "wide_log.h"

/* Out of reach of a decided draw's upper limb, so it can stand there for "undecided". */
#define DPF_OPEN INT64_MIN

/* Draws that level 0 left open, waiting for a full batch. */
typedef struct {
    int16_t *shorts; /* where draws go, or else lo and, if wanted, hi */
    int64_t *lo, *hi, *undecided;
    uintptr_t soon; /* an address only: a prefetch may lie outside the array */
    int64_t undecided_count;
    int open;
    int64_t at[DPF_BATCH + 2 * DPF_WORDS];
    uint64_t word[DPF_BATCH + 2 * DPF_WORDS];
} dpf_waiting;

#define DPF_SELF "discrete_laplace.c"
#include "every_isa.h"

int64_t dpf_discrete_laplace_fill(int isa, const dpf_discrete_laplace *plan, int careful, const uint8_t *key,
                                  uint64_t start, int64_t n, int64_t *lo, int64_t *hi, int64_t *undecided) {
    const dpf_fpmode mode = dpf_fp_enter();
    const int64_t count =
        DPF_DISPATCH(isa, discrete_laplace_fill, plan, careful, key, start, n, NULL, lo, hi, undecided, lo);
    dpf_fp_leave(mode);
    return count;
}

int64_t dpf_discrete_laplace_fill_short(int isa, const dpf_discrete_laplace *plan, const uint8_t *key, uint64_t start,
                                        int64_t n, int16_t *out, int64_t *undecided, const void *soon) {
    const dpf_fpmode mode = dpf_fp_enter();
    const int64_t count =
        DPF_DISPATCH(isa, discrete_laplace_fill, plan, 0, key, start, n, out, NULL, NULL, undecided, soon);
    dpf_fp_leave(mode);
    return count;
}

/* Under the host's own rounding mode, on purpose: the tests set it. */
void dpf_discrete_laplace_tier(int isa, const dpf_discrete_laplace *plan, int tier, int bits, int64_t n,
                               const uint64_t *hi, const uint64_t *lo, dpf_u128 *magnitude, uint8_t *decided) {
    DPF_DISPATCH(isa, discrete_laplace_tier, plan, tier, bits, n, hi, lo, magnitude, decided);
}

#else /* for one instruction set */

#include "chacha.h"
#include "decide.h"

DPF_INLINE int64_t FN(signed)(int64_t magnitude, uint64_t negative) {
    const int64_t mask = -(int64_t)negative;
    return (magnitude ^ mask) - mask;
}

/* Tier 1 (section 3): 16-bit words, a lookup each, while the next pair of groups is enciphered. An open draw
 * is left at DPF_UNDECIDED. soon: what the caller reads next, fetched a line at a time. */
__attribute__((noinline)) static void FN(by_table)(const dpf_discrete_laplace *plan, const uint8_t *key, uint64_t next,
                                                   uint32_t *restrict next_words, const uint32_t *restrict words,
                                                   int16_t *restrict out, uint8_t *restrict open, uintptr_t soon) {
    uint64_t counter[DPF_BATCH];
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = next * DPF_BATCH + (uint64_t)b;
    const uint64_t nonce = dpf_nonce(DPF_PURPOSE_NOISE, 0, 0);
    if (next_words) {
        FN(blocks_meanwhile)(key, counter, nonce, next_words, plan->table, words, out, soon);
    } else {
        for (int step = 0; step < FN(look_ups); step++)
            FN(look_up)(plan->table, words, out, step);
    }
    for (int i = 0; i < 2 * DPF_WORDS; i++)
        open[i] = out[i] == DPF_UNDECIDED;
}

/* Tier 2 (section 4): U lies in [a, a + 1) 2^-n, `digits` as minus_log takes it. The magnitude, or DPF_OPEN. */
DPF_INLINE int64_t FN(by_double)(const dpf_discrete_laplace *plan, double a, double digits, uint64_t negative) {
    const double z = plan->t * FN(minus_log)(a + 0.5, digits) + plan->offset;
    const double y = z > 0.0 ? z : 0.0; /* there is no threshold at 0 */
    const double k = y + DPF_TO_INTEGER;
    const double g = y - (k - DPF_TO_INTEGER);
    const double room = plan->margin - (g < 0.0 ? -g : g) - plan->slope * y;
    const int64_t magnitude = (int64_t)(FN(bits_of)(k) - FN(bits_of)(DPF_TO_INTEGER));
    return room * a > plan->half_cell ? FN(signed)(magnitude, negative) : DPF_OPEN;
}

DPF_INLINE double FN(digit_count)(int n) {
    return 0x1p52 + 1023.0 + n;
}

static void FN(by_double32)(const dpf_discrete_laplace *plan, const uint32_t *restrict words, int64_t *restrict out,
                            uint8_t *restrict open) {
    const dpf_discrete_laplace p = *plan;
    const double digits = FN(digit_count)(31);
    for (int i = 0; i < DPF_WORDS; i++)
        out[i] = FN(by_double)(&p, (double)(int32_t)(words[i] & 0x7fffffff), digits, words[i] >> 31);
    for (int i = 0; i < DPF_WORDS; i++)
        open[i] = out[i] == DPF_OPEN;
}

static void FN(by_double64)(const dpf_discrete_laplace *plan, const uint32_t *restrict words, int64_t *restrict out,
                            uint8_t *restrict open) {
    const dpf_discrete_laplace p = *plan;
    const double digits = FN(digit_count)(63);
    for (int s = 0; s < DPF_GROUPS * 8; s++)
        for (int l = 0; l < DPF_LANES; l++) {
            const uint32_t low = words[2 * s * DPF_LANES + l], high = words[(2 * s + 1) * DPF_LANES + l];
            out[s * DPF_LANES + l] = FN(by_double)(&p, FN(to_double)(high & 0x7fffffff, low), digits, high >> 31);
        }
    for (int i = 0; i < DPF_WORDS / 2; i++)
        open[i] = out[i] == DPF_OPEN;
}

/* The first 64 digits of U from both levels: the later word continues the prefix. */
DPF_INLINE uint64_t FN(upper)(uint64_t word, int width, uint64_t more) {
    return word << (65 - width) | more >> (width - 1);
}

DPF_INLINE uint64_t FN(lower)(int width, uint64_t more) {
    return more << (65 - width);
}

static void FN(by_double_both)(const dpf_discrete_laplace *plan, int n, const uint64_t *restrict word,
                               const uint64_t *restrict more, int64_t *restrict lo, int64_t *restrict hi) {
    const dpf_discrete_laplace p = *plan;
    const double digits = FN(digit_count)(64);
    for (int i = 0; i < n; i++) {
        const uint64_t u = FN(upper)(word[i], p.width, more[i]);
        lo[i] = FN(by_double)(&p, FN(to_double)((uint32_t)(u >> 32), (uint32_t)u), digits, word[i] >> (p.width - 1));
        hi[i] = lo[i] == DPF_OPEN ? DPF_OPEN : lo[i] >> 63;
    }
}

/* Tier 3 (section 5): U from at least 95 digits. A draw in two limbs. */
#if DPF_FMA
DPF_INLINE void FN(by_twofold)(const dpf_discrete_laplace *plan, uint64_t u, uint64_t more, uint64_t negative,
                               int64_t *lo, int64_t *hi) {
    double high, low;
    FN(minus_log_twofold)(u, more, plan->c, plan->c_low, &high, &low);
    const double product = plan->t * high;
    const double rest = __builtin_fma(plan->t, high, -product) + __builtin_fma(plan->t, low, plan->t_low * high);
    /* product = 2^14 upper + middle + a fraction, the first two integers: below 2^65 nothing is lost, but
     * 2^-39 in upward rounding, where upper is 1 for the smallest product */
    const double upper = product * 0x1p-14 + DPF_TO_INTEGER;
    const double lower = __builtin_fma(-0x1p14, upper - DPF_TO_INTEGER, product);
    const double middle = lower + DPF_TO_INTEGER;
    const double z = (lower - (middle - DPF_TO_INTEGER)) + (rest - 0.5);
    const double k = z + DPF_TO_INTEGER;
    const double g = z - (k - DPF_TO_INTEGER);
    const int64_t above = (int64_t)(FN(bits_of)(upper) - FN(bits_of)(DPF_TO_INTEGER));
    const int64_t below = (int64_t)(FN(bits_of)(middle) + FN(bits_of)(k) - 2 * FN(bits_of)(DPF_TO_INTEGER));
    const uint64_t sum = ((uint64_t)above << 14) + (uint64_t)below;
    const uint64_t carry = sum < (uint64_t)below;
    const uint64_t top = (uint64_t)(above >> 50) + (uint64_t)(below >> 63) + carry;
    const uint64_t mask = -negative, signed_sum = (sum ^ mask) - mask;
    const int decided = ((g < 0.0 ? -g : g) < plan->twofold_margin) & (u >> 32 != 0);
    *lo = (int64_t)signed_sum;
    *hi = decided ? (int64_t)((top ^ mask) + (negative & (signed_sum == 0))) : DPF_OPEN;
}

static void FN(by_twofold_both)(const dpf_discrete_laplace *plan, int n, const uint64_t *restrict word,
                                const uint64_t *restrict more, int64_t *restrict lo, int64_t *restrict hi) {
    const dpf_discrete_laplace p = *plan;
    for (int i = 0; i < n; i++) {
        const uint64_t u = FN(upper)(word[i], p.width, more[i]), then = FN(lower)(p.width, more[i]);
        FN(by_twofold)(&p, u, then, word[i] >> (p.width - 1), &lo[i], &hi[i]);
    }
}
#endif

DPF_INLINE uint64_t FN(high_product)(uint64_t a, uint64_t b) {
    return (uint64_t)((dpf_wide)a * b >> 64);
}

DPF_INLINE dpf_wide FN(wide_of)(dpf_u128 x) {
    return (dpf_wide)x.hi << 64 | x.lo;
}

/* Tier 4 (section 6), in integers: U lies in [prefix, prefix + 2^(128 - bits)) 2^-128. */
DPF_INLINE int FN(by_integers)(const dpf_discrete_laplace *plan, dpf_wide prefix, int bits, dpf_wide *magnitude) {
    const uint64_t first = (uint64_t)(prefix >> 64), rest = (uint64_t)prefix;
    const uint64_t top = first + (first == 0); /* 64 zeros stay open, but must not leave the tables */
    const int zeros = __builtin_clzll(top);
    const uint64_t high = top << zeros | rest >> 1 >> (63 - zeros);
    const dpf_wide m = ((dpf_wide)high << 64 | rest << zeros) >> 4; /* in [1, 2) of 2^123 */
    const uint64_t i = high >> 56 & 127;
    dpf_wide r = m * dpf_step1[i]; /* m c1 - 1 in units of 2^-133: the 1 is 2^133, gone with the carry */
    const uint64_t j = (uint64_t)(r >> 64) >> 56;
    r = r - ((dpf_wide)(dpf_step2[j] << 47) << 64) - (r >> 22) * dpf_step2[j];
    const uint64_t k = (uint64_t)(r >> 64) >> 49;
    r = r - ((dpf_wide)(dpf_step3[k] << 41) << 64) - (r >> 28) * dpf_step3[k];
    const uint64_t short_r = (uint64_t)(r >> 50);               /* units of 2^-83 */
    const uint64_t square = FN(high_product)(short_r, short_r); /* 2^-102 */
    const uint64_t cube = FN(high_product)(square, short_r);    /* 2^-121 */
    const uint64_t fourth = FN(high_product)(square, square);   /* 2^-140 */
    const dpf_wide log1p = (r >> 13) - ((dpf_wide)square << 17) + (cube / 6 - (fourth >> 22));
    const dpf_wide total = FN(wide_of)(plan->wide_c) + FN(wide_of)(dpf_ln2[zeros + 1]) - FN(wide_of)(dpf_log1[i]) -
                           FN(wide_of)(dpf_log2[j]) - FN(wide_of)(dpf_log3[k]) - log1p;

    /* The upper half of t (C - ln U), a 128 x 128 bit product: units of 2^-59. */
    const uint64_t a1 = plan->wide_t.hi, a0 = plan->wide_t.lo, b1 = (uint64_t)(total >> 64), b0 = (uint64_t)total;
    const dpf_wide cross = (dpf_wide)a1 * b0 + FN(high_product)(a0, b0);
    const dpf_wide across = (dpf_wide)a0 * b1 + (uint64_t)cross;
    const dpf_wide y = (dpf_wide)a1 * b1 + (uint64_t)(cross >> 64) + (uint64_t)(across >> 64);

    const uint64_t fraction = (uint64_t)y & (((uint64_t)1 << 59) - 1), error = (uint64_t)1 << 20;
    const int width = plan->wide_cell + zeros - bits;
    const uint64_t cell = (uint64_t)1 << (width < 0 ? 0 : width > 62 ? 62 : width);
    *magnitude = y >> 59;
    return (first != 0) & ((*magnitude == 0) | (fraction >= error + cell)) & (fraction + error < (uint64_t)1 << 59);
}

/* A loop of its own, so that its sixty values find registers. */
__attribute__((noinline)) static void FN(by_integers_both)(const dpf_discrete_laplace *plan, int n,
                                                           const uint64_t *restrict word, const uint64_t *restrict more,
                                                           int64_t *restrict lo, int64_t *restrict hi) {
    const dpf_discrete_laplace p = *plan;
    for (int i = 0; i < n; i++) {
        const dpf_wide prefix = (dpf_wide)FN(upper)(word[i], p.width, more[i]) << 64 | FN(lower)(p.width, more[i]);
        dpf_wide magnitude;
        const int decided = FN(by_integers)(&p, prefix, p.width + 63, &magnitude);
        const dpf_wide mask = -(dpf_wide)(word[i] >> (p.width - 1)), draw = (magnitude ^ mask) - mask;
        lo[i] = (int64_t)(uint64_t)draw;
        hi[i] = decided ? (int64_t)(uint64_t)(draw >> 64) : DPF_OPEN;
    }
}

/* Whether -2^bits <= draw < 2^bits. */
DPF_INLINE int FN(fits)(int64_t lo, int64_t hi, int bits) {
    return (hi == lo >> 63) & ((uint64_t)lo + ((uint64_t)1 << bits) < (uint64_t)2 << bits);
}

/* Store a draw; an open one, or one that would lose a limb, is left to the exact tier, a zero in its place. */
DPF_INLINE void FN(settle)(dpf_waiting *w, int64_t at, int64_t lo, int64_t hi) {
    const int keep = hi != DPF_OPEN && (w->hi || FN(fits)(lo, hi, w->shorts ? 15 : 62));
    if (w->shorts)
        w->shorts[at] = (int16_t)(keep ? lo : 0);
    else
        w->lo[at] = keep ? lo : 0;
    if (w->hi)
        w->hi[at] = keep ? hi : 0;
    if (!keep)
        w->undecided[w->undecided_count++] = at;
}

/* Levels 0 and 1 together, for a batch of the waiting. */
static void FN(refine)(const dpf_discrete_laplace *plan, const uint8_t *key, uint64_t start, dpf_waiting *w) {
    const int n = w->open < DPF_BATCH ? w->open : DPF_BATCH, from = w->open - n;
    uint64_t draw[DPF_BATCH], more[DPF_BATCH];
    int64_t lo[DPF_BATCH], hi[DPF_BATCH];
    for (int b = 0; b < DPF_BATCH; b++)
        draw[b] = start + (uint64_t)w->at[from + (b < n ? b : 0)];
    FN(scattered)(key, dpf_nonce(DPF_PURPOSE_NOISE, 0, 1), draw, more);
    FN(by_double_both)(plan, n, w->word + from, more, lo, hi);
    for (int b = 0; b < n; b++) {
        if (hi[b] == DPF_OPEN)
            FN(by_integers_both)(plan, 1, w->word + from + b, more + b, lo + b, hi + b);
        FN(settle)(w, w->at[from + b], lo[b], hi[b]);
    }
    w->open = from;
    dpf_wipe(more, sizeof more);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

/* Queue the open ones of draws from .. to of one pair of groups; at: where in the block the first of the pair lies. */
static void FN(collect)(int width, const uint32_t *words, const uint8_t *open, int from, int to, int64_t at,
                        dpf_waiting *w) {
    for (int base = from & ~31; base < to; base += 32) {
        uint64_t eight[4]; /* a byte a draw, 1 where it is open */
        memcpy(eight, open + base, sizeof eight);
        if ((eight[0] | eight[1] | eight[2] | eight[3]) == 0)
            continue;
        for (int e = 0; e < 4; e++)
            for (uint64_t left = eight[e]; left != 0; left &= left - 1) {
                const int i = base + 8 * e + __builtin_ctzll(left) / 8, slot = i / DPF_LANES, lane = i % DPF_LANES;
                if (i < from || i >= to)
                    continue;
                w->at[w->open] = at + i;
                w->word[w->open++] = width == 64 ? words[2 * slot * DPF_LANES + lane] |
                                                       (uint64_t)words[(2 * slot + 1) * DPF_LANES + lane] << 32
                                     : width == 32 ? words[i]
                                                   : words[slot / 2 * DPF_LANES + lane] >> slot % 2 * 16 & 0xffff;
            }
    }
}

/* The first tier of a bulk call reads level 0 alone. */
static void FN(bulk)(const dpf_discrete_laplace *plan, const uint8_t *key, uint64_t start, int64_t n, dpf_waiting *w) {
    const int per_pair = 32 * DPF_WORDS / plan->width, table = plan->bulk == DPF_TABLE;
    uint32_t room[2][DPF_WORDS], *words = room[0], *next = room[1];
    int16_t shorts[2 * DPF_WORDS];
    int64_t longs[DPF_WORDS];
    uint8_t open[2 * DPF_WORDS];
    if (table)
        FN(pair)(key, dpf_nonce(DPF_PURPOSE_NOISE, 0, 0), start / (uint64_t)per_pair, words);
    for (uint64_t pair = start / (uint64_t)per_pair; pair * (uint64_t)per_pair < start + (uint64_t)n; pair++) {
        const int64_t at = (int64_t)(pair * (uint64_t)per_pair - start); /* may be negative: start lies within */
        const int from = at < 0 ? (int)-at : 0, to = at + per_pair > n ? (int)(n - at) : per_pair;
        const int whole = to - from == per_pair;
        if (table) {
            int16_t *out = whole && w->shorts ? w->shorts + at : shorts;
            uint32_t *ahead = at + per_pair < n ? next : NULL;
            FN(by_table)(plan, key, pair + 1, ahead, words, out, open, w->soon + 8 * (uintptr_t)at);
            for (int i = from; i < to && !w->shorts; i++)
                w->lo[at + i] = out[i];
            if (w->shorts && !whole)
                memcpy(w->shorts + at + from, out + from, (size_t)(to - from) * sizeof *out);
        } else {
            int64_t *out = whole ? w->lo + at : longs;
            FN(pair)(key, dpf_nonce(DPF_PURPOSE_NOISE, 0, 0), pair, words);
            if (plan->width == 32)
                FN(by_double32)(plan, words, out, open);
            else
                FN(by_double64)(plan, words, out, open);
            if (!whole)
                memcpy(w->lo + at + from, out + from, (size_t)(to - from) * sizeof *out);
        }
        FN(collect)(plan->width, words, open, from, to, at, w);
        while (w->open >= DPF_BATCH)
            FN(refine)(plan, key, start, w);
        if (table) {
            uint32_t *done = words;
            words = next;
            next = done;
        }
    }
    while (w->open > 0)
        FN(refine)(plan, key, start, w);
    dpf_wipe(room, sizeof room);
    dpf_wipe(shorts, sizeof shorts);
    dpf_wipe(longs, sizeof longs);
    dpf_wipe(w->word, sizeof w->word);
    dpf_wipe(w->at, sizeof w->at);
    if (w->hi)
        for (int64_t i = 0; i < n; i++)
            w->hi[i] = w->lo[i] >> 63;
}

/* Both levels for every draw, the same work for each: small calls, constant time, and wide scales. */
static void FN(both)(const dpf_discrete_laplace *plan, int tier, const uint8_t *key, uint64_t start, int64_t n,
                     dpf_waiting *w) {
    enum { STEP = 8 * DPF_BATCH }; /* draws of a pair of groups of 64-bit words */
    const int width = plan->width, per_pair = 32 * DPF_WORDS / width;
    uint32_t words[DPF_WORDS];
    uint64_t word[2 * DPF_WORDS], more[STEP], pair = UINT64_MAX;
    int64_t lo[STEP], hi[STEP];
    for (uint64_t base = start / STEP * STEP; base < start + (uint64_t)n; base += STEP) {
        const int64_t at = (int64_t)(base - start);
        const int from = at < 0 ? (int)-at : 0, to = at + STEP > n ? (int)(n - at) : STEP, count = to - from;
        if (base / (uint64_t)per_pair != pair) {
            pair = base / (uint64_t)per_pair;
            FN(pair)(key, dpf_nonce(DPF_PURPOSE_NOISE, 0, 0), pair, words);
            FN(expand)(words, width, word);
        }
        FN(pair)(key, dpf_nonce(DPF_PURPOSE_NOISE, 0, 1), base / STEP, words);
        FN(expand)(words, 64, more);
        const uint64_t *first = word + base % (uint64_t)per_pair + from, *then = more + from;
        if (tier == DPF_DOUBLE)
            FN(by_double_both)(plan, count, first, then, lo, hi);
#if DPF_FMA
        else if (tier == DPF_TWOFOLD)
            FN(by_twofold_both)(plan, count, first, then, lo, hi);
#endif
        else
            FN(by_integers_both)(plan, count, first, then, lo, hi);
        int odd = 0; /* some draw is open, or needs an upper limb where none is wanted */
        for (int i = 0; i < count; i++)
            odd |= (hi[i] == DPF_OPEN) |
                   ((w->hi == NULL) & ((hi[i] != lo[i] >> 63) | ((lo[i] ^ (int64_t)((uint64_t)lo[i] << 1)) < 0)));
        for (int i = 0; i < count && odd; i++) {
            if (hi[i] == DPF_OPEN)
                FN(by_integers_both)(plan, 1, first + i, then + i, lo + i, hi + i);
            FN(settle)(w, at + from + i, lo[i], hi[i]);
        }
        if (!odd)
            memcpy(w->lo + at + from, lo, (size_t)count * sizeof *lo);
        if (!odd && w->hi)
            memcpy(w->hi + at + from, hi, (size_t)count * sizeof *hi);
    }
    dpf_wipe(words, sizeof words);
    dpf_wipe(word, sizeof word);
    dpf_wipe(more, sizeof more);
    dpf_wipe(lo, sizeof lo);
    dpf_wipe(hi, sizeof hi);
}

int64_t FN(discrete_laplace_fill)(const dpf_discrete_laplace *plan, int careful, const uint8_t *key, uint64_t start,
                                  int64_t n, int16_t *shorts, int64_t *lo, int64_t *hi, int64_t *undecided,
                                  const void *soon) {
    dpf_waiting w;
    w.shorts = shorts;
    w.lo = lo;
    w.hi = hi;
    w.undecided = undecided;
    w.undecided_count = 0;
    w.soon = (uintptr_t)soon;
    w.open = 0;
    if (!careful && plan->bulk <= DPF_DOUBLE)
        FN(bulk)(plan, key, start, n, &w);
    else
        FN(both)(plan, careful ? plan->careful : plan->bulk, key, start, n, &w);
    return w.undecided_count;
}

void FN(discrete_laplace_tier)(const dpf_discrete_laplace *plan, int tier, int bits, int64_t n, const uint64_t *hi,
                               const uint64_t *lo, dpf_u128 *magnitude, uint8_t *decided) {
    const double digits = FN(digit_count)(bits);
    for (int64_t i = 0; i < n; i++) {
        int64_t low = 0, high = 0;
        if (tier == DPF_TABLE) {
            low = plan->table[hi[i]];
            high = low == DPF_UNDECIDED ? DPF_OPEN : 0;
        } else if (tier == DPF_DOUBLE) {
            low = FN(by_double)(plan, FN(to_double)((uint32_t)(hi[i] >> 32), (uint32_t)hi[i]), digits, 0);
            high = low >> 63;
#if DPF_FMA
        } else if (tier == DPF_TWOFOLD) {
            FN(by_twofold)(plan, hi[i], lo[i], 0, &low, &high);
#endif
        } else {
            const dpf_wide prefix = bits <= 64 ? (dpf_wide)hi[i] << (128 - bits) : (dpf_wide)hi[i] << 64 | lo[i];
            dpf_wide found;
            high = FN(by_integers)(plan, prefix, bits, &found) ? (int64_t)(uint64_t)(found >> 64) : DPF_OPEN;
            low = (int64_t)(uint64_t)found;
        }
        decided[i] = high >= 0;
        magnitude[i].lo = high >= 0 ? (uint64_t)low : 0;
        magnitude[i].hi = high >= 0 ? (uint64_t)high : 0;
    }
}

#endif
