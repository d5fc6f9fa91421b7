/* SPDX-License-Identifier: Apache-2.0
 * Every function of dpf_abi.h under the sanitizers, on every instruction set of this machine, with buffers
 * of just the size that is promised, at odd starts and lengths; what must be equal is compared. No part of the library:
 *
 *     cc -std=c11 -O1 -g -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -pedantic -Wconversion \
 *        -Wshadow -Werror -fsanitize=address,undefined -fno-sanitize-recover=all csrc/[a-z]*.c -o sanitize &&
 * ./sanitize */
#include "dpf_impl.h"

#include <stdio.h>
#include <stdlib.h>

static long compared;

static void same(const void *a, const void *b, size_t size, const char *what) {
    compared++;
    if (size > 0 && memcmp(a, b, size) != 0) {
        fprintf(stderr, "sanitize: %s differ\n", what);
        exit(1);
    }
}

static void holds(int condition, const char *what) {
    compared++;
    if (!condition) {
        fprintf(stderr, "sanitize: not so: %s\n", what);
        exit(1);
    }
}

/* Room for `size` bytes and not one more, filled with what nobody may rely on. */
static void *room(size_t size) {
    void *at = malloc(size > 0 ? size : 1);
    if (at == NULL)
        exit(2);
    memset(at, 0xa5, size);
    return at;
}

static uint64_t state = 0x9e3779b97f4a7c15;
static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* A scale and C = ln(2 / (1 + q)) in units of 2^-120. */
static const struct {
    double t;
    dpf_u128 c;
} laws[] = {
    {0x1p-60, {0xabc9e3b39803f2f6, 0xb17217f7d1cf79}},
    {0x1p-1, {0x7d5cb21b0a82fee1, 0x90f3bd4f7194e7}},
    {0x1p+0, {0xdbb14f70d67a076d, 0x61402cf8d6cae7}},
    {0x1.4p+3, {0xb822d02832a32f50, 0xc7aea0326e698}},
    {0x1p+7, {0xa4fc09c00cb70735, 0xff800015554f}},
    {0x1.f4p+9, {0x86e6524f5f094355, 0x20c282c6f0b4}},
    {0x1p+20, {0x155555555, 0x7ffffe000}},
    {0x1.dcd65p+29, {0x28c86dc227d2ab6, 0x225c17d}},
    {0x1p+44, {0xffffffffe0000000, 0x7ff}},
    {0x1.c6bf52634p+49, {0x75f3dceac28ad3a, 0x24}},
    {0x1p+60, {0x7ffffffffffffff, 0x0}},
};
enum { LAWS = sizeof laws / sizeof *laws };

static double from(dpf_wide c) {
    return ((double)(uint64_t)(c >> 64) * 0x1p64 + (double)(uint64_t)c) * 0x1p-120;
}

/* A plan as dpfast/mechanisms/discrete_laplace.py makes it, for these scales, which are doubles. */
static dpf_discrete_laplace planned(int law, int16_t *table) {
    const double t = laws[law].t, slope = 0x5p-52;
    const dpf_wide c = (dpf_wide)laws[law].c.hi << 64 | laws[law].c.lo, upper = c >> 75 << 75;
    const dpf_wide wide_t = t < 16.0 ? (dpf_wide)(uint64_t)(t * 0x1p60) << 7 : (dpf_wide)(uint64_t)t << 67;
    dpf_discrete_laplace plan;
    memset(&plan, 0, sizeof plan);
    plan.width = t <= 0x1p7 ? 16 : t <= 0x1p20 ? 32 : 64;
    plan.bulk = t <= 0x1p7 ? DPF_TABLE : t <= 0x1p44 ? DPF_DOUBLE : DPF_TWOFOLD;
    plan.careful = t <= 0x1p17 ? DPF_DOUBLE : t <= 0x1p40 ? DPF_TWOFOLD : DPF_INTEGER;
    plan.wide_cell = t < 1.0 ? 60 : 124 - __builtin_clzll((uint64_t)t);
    plan.t = t;
    plan.offset = t < 0x1p52 ? t * from(c) - 0.5 : -0.125 / t;
    plan.margin = 0.5 - slope * (t + 2.0);
    plan.slope = slope;
    plan.half_cell = t / 2.0 * (1.0 + 0x1p-20);
    plan.c = from(upper);
    plan.c_low = from(c - upper);
    plan.twofold_margin = 0.5 - t * 0x1p-72 - 0x1p-38;
    plan.wide_t.hi = (uint64_t)(wide_t >> 64);
    plan.wide_t.lo = (uint64_t)wide_t;
    plan.wide_c = laws[law].c;
    if (plan.bulk == DPF_TABLE) { /* the cells of 15 digits, by the integers */
        for (uint64_t cell = 0; cell < 1 << DPF_TABLE_BITS; cell++) {
            const uint64_t below = 0;
            dpf_u128 magnitude;
            uint8_t decided;
            dpf_discrete_laplace_tier(DPF_PORTABLE, &plan, DPF_INTEGER, DPF_TABLE_BITS, 1, &cell, &below, &magnitude,
                                      &decided);
            table[cell] = (int16_t)(decided ? (int)magnitude.lo : DPF_UNDECIDED);
            table[cell + (1 << DPF_TABLE_BITS)] = (int16_t)(decided ? -(int)magnitude.lo : DPF_UNDECIDED);
        }
        plan.table = table;
    }
    return plan;
}

static uint8_t key[32];

static void blocks(int isa) {
    uint64_t counter[DPF_BATCH];
    uint32_t *words = room(DPF_BATCH * 64);
    for (int b = 0; b < DPF_BATCH; b++)
        counter[b] = b % 3 == 0 ? UINT64_MAX - (uint64_t)b : b % 3 == 1 ? UINT32_MAX - (uint64_t)b / 2 : any();
    const uint64_t nonce = any();
    dpf_blocks(isa, key, counter, nonce, words);
    for (int b = 0; b < DPF_BATCH; b++) {
        uint8_t block[64];
        dpf_block(key, counter[b], nonce, block);
        for (int w = 0; w < 16; w++)
            same(words + b / 16 * 256 + w * 16 + b % 16, block + 4 * w, 4, "blocks");
    }
    free(words);
}

static void store(int isa) {
    char *from = room(64 * 8 + 8), *to = room(64 * 8 + 8), *expected = room(64 * 8 + 8);
    for (size_t i = 0; i < 64 * 8 + 8; i++)
        from[i] = (char)any();
    for (int stream = 0; stream < 2; stream++)
        for (size_t shift = 0; shift < 9; shift++) /* eight places in a line, and one off the grid */
            for (size_t n = 0; n < 40; n++) {
                const size_t at = shift < 8 ? 8 * shift : 4;
                memset(to, 0x5a, 64 * 8 + 8);
                memset(expected, 0x5a, 64 * 8 + 8);
                memcpy(expected + at, from + 8, 8 * n);
                dpf_store(isa, to + at, from + 8, (int64_t)n, stream);
                dpf_fence();
                same(to, expected, 64 * 8 + 8, "stored words");
            }
    free(from);
    free(to);
    free(expected);
}

/* Planted digits: all tiers, all widths; whoever decides, decides the same. */
static void tiers(int best, const dpf_discrete_laplace *plan) {
    static const int widths[] = {15, 31, 63, 64, 79, 95, 127};
    enum { N = 203 };
    uint64_t *hi = room(N * sizeof *hi), *lo = room(N * sizeof *lo);
    dpf_u128 *magnitude = room(N * sizeof *magnitude), *known = room(N * sizeof *known);
    uint8_t *decided = room(N), *any_decided = room(N);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int bits = widths[w];
        if ((bits > 64 ? bits - 63 : bits + 1) < plan->width)
            continue; /* a cell so wide is no word's of this law */
        for (int i = 0; i < N; i++) {
            const uint64_t value = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? UINT64_MAX : any() >> (i % 64);
            hi[i] = bits <= 64 ? (value & (UINT64_MAX >> (64 - bits))) : value;
            lo[i] = bits <= 64 ? 0 : any() << (128 - bits);
        }
        memset(any_decided, 0, N);
        for (int isa = 0; isa <= best; isa++)
            for (int tier = DPF_DOUBLE; tier <= DPF_INTEGER; tier++) {
                if ((tier == DPF_DOUBLE && bits > 64) || (tier == DPF_TWOFOLD && bits <= 64))
                    continue;
                dpf_discrete_laplace_tier(isa, plan, tier, bits, N, hi, lo, magnitude, decided);
                for (int i = 0; i < N; i++) {
                    if (!decided[i])
                        continue;
                    if (any_decided[i])
                        same(&magnitude[i], &known[i], sizeof *known, "tiers");
                    known[i] = magnitude[i];
                    any_decided[i] = 1;
                }
            }
        if (bits == 15 && plan->table)
            for (int i = 0; i < N; i++) {
                dpf_discrete_laplace_tier(best, plan, DPF_TABLE, 16, 1, &hi[i], &lo[i], magnitude, decided);
                holds(decided[0] <= any_decided[i], "the table decides what the integers do");
                if (decided[0])
                    same(magnitude, &known[i], sizeof *known, "table and tiers");
            }
    }
    free(hi);
    free(lo);
    free(magnitude);
    free(known);
    free(decided);
    free(any_decided);
}

/* Draws by every path; where two paths decide, they agree, and next to nothing stays open. */
static void draws(int best, const dpf_discrete_laplace *plan, uint64_t start, int64_t n) {
    const size_t size = (size_t)n * sizeof(int64_t);
    int64_t *lo = room(size), *hi = room(size), *open = room(size), *sure_lo = room(size), *sure_hi = room(size);
    uint8_t *sure = room((size_t)n);
    memset(sure, 0, (size_t)n);
    for (int isa = 0; isa <= best; isa++)
        for (int careful = 0; careful < 2; careful++)
            for (int wide = 0; wide < 2; wide++) {
                memset(lo, 0xa5, size);
                memset(hi, 0xa5, size);
                const int64_t left =
                    dpf_discrete_laplace_fill(isa, plan, careful, key, start, n, lo, wide ? hi : NULL, open);
                holds(left >= 0 && left <= (wide || plan->t < 0x1p54 ? 1 : n), "few are open");
                for (int64_t i = 0, o = 0; i < n; i++) {
                    if (!wide)
                        hi[i] = lo[i] >> 63;
                    int is_open = 0;
                    for (o = 0; o < left; o++)
                        is_open |= open[o] == i;
                    if (is_open) {
                        holds(lo[i] == 0 && hi[i] == 0, "zeros where a draw is open");
                        continue;
                    }
                    if (sure[i]) {
                        same(&lo[i], &sure_lo[i], sizeof *lo, "draws");
                        same(&hi[i], &sure_hi[i], sizeof *hi, "upper limbs");
                    }
                    sure[i] = 1;
                    sure_lo[i] = lo[i];
                    sure_hi[i] = hi[i];
                }
            }
    for (int isa = 0; isa <= best && plan->table; isa++) {
        int16_t *shorts = room((size_t)n * sizeof *shorts);
        const int64_t left = dpf_discrete_laplace_fill_short(isa, plan, key, start, n, shorts, open, lo);
        holds(left >= 0 && left <= 1, "few are open");
        for (int64_t i = 0; i < n; i++)
            holds(shorts[i] == sure_lo[i] || (left > 0 && shorts[i] == 0), "short draws are the same");
        free(shorts);
    }
    free(lo);
    free(hi);
    free(open);
    free(sure_lo);
    free(sure_hi);
    free(sure);
}

static void entropy(void) {
    static const int64_t sizes[] = {0, 1, 255, 256, 257, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *bytes = room((size_t)sizes[i]);
        holds(dpf_entropy(bytes, sizes[i]) == 0, "entropy");
        dpf_wipe(bytes, sizes[i]);
        for (int64_t at = 0; at < sizes[i]; at++)
            holds(bytes[at] == 0, "wiped");
        free(bytes);
    }
    holds(dpf_entropy(NULL, -1) == -1, "a negative size is refused");
}

int main(void) {
    static const int64_t lengths[] = {0, 1, 2, 31, 33, 255, 257, 1023, 1024, 1025, 3001};
    static const uint64_t starts[] = {0, 1, 31, 255, 1000, 1024, ((uint64_t)1 << 32) - 7, (uint64_t)1 << 62};
    const int best = dpf_best_isa();
    int16_t *table = room(sizeof *table << (DPF_TABLE_BITS + 1));
    holds(dpf_entropy(key, sizeof key) == 0, "entropy");
    state ^= (uint64_t)key[0] << 8 | key[1];
    entropy();
    for (int isa = 0; isa <= best; isa++) {
        blocks(isa);
        store(isa);
    }
    for (int law = 0; law < LAWS; law++) {
        const dpf_discrete_laplace plan = planned(law, table);
        tiers(best, &plan);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
                draws(best, &plan, starts[s], lengths[l]);
            draws(best, &plan, ((uint64_t)1 << 63) - (uint64_t)lengths[l], lengths[l]); /* the last there are */
        }
    }
    free(table);
    printf("sanitize: %ld comparisons on %d instruction sets\n", compared, best + 1);
    return 0;
}
