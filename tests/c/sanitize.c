/* SPDX-License-Identifier: Apache-2.0
 * Call every function of dpf_abi.h under sanitizers, on every instruction set of this machine, with
 * buffers of exactly the size needed, at odd starts and lengths; compare what must be equal. The
 * library does not contain it; .ci/run and tests/elsewhere.sh have the commands. sanitize [EVERY]:
 * one of so many plans is drawn from, where a run takes long. */
#include "dpf_impl.h"
#include "dpfast_keyed.h"

#include <stdio.h>
#include <stdlib.h>

enum { DISCRETE_LAPLACE = 1, LAPLACE, GAUSSIAN, DISCRETE_GAUSSIAN }; /* the order of isa.h */

static long compared;
static int every = 1;

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

static const double scales[] = {0x1p-60, 0x1p-1,        0x1p+0,  0x1.4p+3,          0x1p+7, 0x1.f4p+9,
                                0x1p+20, 0x1.dcd65p+29, 0x1p+44, 0x1.c6bf52634p+49, 0x1p+60};
enum { SCALES = sizeof scales / sizeof *scales };

static int limbs_of(const uint64_t *limb, int n) {
    while (n > 1 && limb[n - 1] == 0)
        n--;
    return n;
}

/* A law's plan at scale t, from 2^-60 to 2^60; a search, if it has one, is put beside it. */
static dpf_plan made(int law, double t, uint64_t *thresholds, uint16_t *guide) {
    uint64_t above[2] = {0}, below[5] = {0};
    int down = 0, squared = law >= GAUSSIAN;
    dpf_plan plan;
    while (t != (double)(uint64_t)t || (squared && t < 0x1p52 && down < 60))
        t *= 2.0, down++;
    const dpf_wide whole = squared ? (dpf_wide)(uint64_t)t * (uint64_t)t : (uint64_t)t;
    above[0] = (uint64_t)whole, above[1] = (uint64_t)(whole >> 64);
    down *= 1 + squared;
    below[down / 64] = (uint64_t)1 << down % 64;
    const dpf_ratio of = {law, 0, limbs_of(above, 2), limbs_of(below, 5), above, below};
    holds(dpf_make_plan(&of, &plan, thresholds, guide) == 0, "a plan is made");
    return plan;
}

/* With its table, which has what the integers decide of the cells of 15 digits. */
static dpf_plan exponential(int law, double t, int16_t *table) {
    dpf_plan plan = made(law, t, NULL, NULL);
    if (plan.bulk == DPF_TABLE) {
        dpf_make_table(&plan, table);
        for (uint64_t cell = 0; cell < 1 << DPF_TABLE_BITS; cell++) {
            const dpf_planted planted = {.digits = {cell}};
            dpf_u128 magnitude;
            uint8_t decided;
            dpf_tier(DPF_PORTABLE, &plan, DPF_INTEGER, DPF_TABLE_BITS, 1, &planted, &magnitude, &decided);
            holds(!decided || table[cell] == (int)magnitude.lo, "a table's cell");
            holds(table[cell + (1 << DPF_TABLE_BITS)] == (table[cell] == DPF_UNDECIDED ? DPF_UNDECIDED : -table[cell]),
                  "its mirror");
        }
        plan.table = table;
    }
    return plan;
}

/* libdpfast: texts that are numbers and others, and calls with one wrong argument or none. */
static void library(void) {
    static const char pieces[] = "0123456789./eE+-x 0012\0";
    static const double ends[] = {-0x1p40, 0x1p40, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 0.0};
    const int n = 5000; /* a bulk call, and some beside it are small */
    int64_t *const in = room(8 * (size_t)n), *const out = room(8 * (size_t)n);
    int32_t *const narrow = room(4 * (size_t)n);
    double *const reals = room(8 * (size_t)n), *const results = room(8 * (size_t)n);
    float *const singles = room(4 * (size_t)n);
    uint8_t key[32] = {7};
    for (int i = 0; i < n; i++)
        reals[i] = (double)(i % 97) * 1e3, singles[i] = (float)i, in[i] = i, narrow[i] = i;
    for (int i = 0; i < 6000; i++) {
        const size_t size = any() % 12 + 1;
        char *const text = room(size + 1);
        dpfast_noise *noise = (dpfast_noise *)(void *)text;
        for (size_t at = 0; at < size; at++)
            text[at] = pieces[any() % sizeof pieces];
        text[size] = '\0';
        const int status = i % 2 ? dpfast_discrete_laplace(text, &noise) : dpfast_gaussian(text, DPFAST_GRID, &noise);
        holds((status == DPFAST_OK) == (noise != NULL), "a noise is made, or there is none");
        if (i % 64 == 1 && noise) {
            const int64_t some = i % 3 ? n : i % 100, lower = (int64_t)any() >> any() % 64, upper = (int64_t)any();
            const int added = dpfast_add_int64(noise, some, in, out, lower, upper);
            holds(added == (lower <= upper ? DPFAST_OK : DPFAST_BOUNDS), "integers");
            for (int64_t at = 0; at < some; at++)
                holds(added ? out[at] == 0 : out[at] >= lower && out[at] <= upper, "within bounds, or zeros");
            const int added32 = dpfast_add_int32_keyed(noise, key, any() >> any() % 64, some, narrow, narrow, -5, 5);
            holds(added32 == DPFAST_OK || added32 == DPFAST_SIZE || added32 == DPFAST_TYPE, "a start of any size");
            holds(dpfast_add_float64(noise, n, reals, results, 0.0, 1.0) == DPFAST_TYPE && results[n - 1] == 0.0,
                  "reals");
        }
        if (i % 64 == 0 && noise) {
            const double lower = ends[any() % 6], upper = ends[any() % 6];
            const int64_t some = i % 3 ? n : i % 100;
            const int added = dpfast_add_float64(noise, some, reals, results, lower, upper);
            const int bounded = lower <= upper && lower <= DBL_MAX && upper >= -DBL_MAX;
            holds(added == (bounded ? DPFAST_OK : DPFAST_BOUNDS), "reals");
            for (int64_t at = 0; at < some; at++)
                holds(added ? results[at] == 0.0 : results[at] >= lower && results[at] <= upper, "bounds of reals");
            (void)!dpfast_add_float32_keyed(noise, key, 9, some, singles, singles, -1e3f, 1e3f);
            holds(dpfast_add_int64(noise, n, in, out, 0, 1) == DPFAST_TYPE && out[n - 1] == 0,
                  "integers to a real law");
        }
        dpfast_free(noise);
        free(text);
    }
    free(in);
    free(out);
    free(narrow);
    free(reals);
    free(results);
    free(singles);
}

/* A search of its law: its table, and that no ratio that is none has a plan. */
static void plans(void) {
    uint64_t *const thresholds = room(sizeof *thresholds * DPF_THRESHOLDS);
    uint16_t *const guide = room(sizeof *guide * DPF_GUIDE);
    int16_t *const table = room(sizeof *table << 16);
    for (double t = 1.0 / 512; t <= 128.0; t *= 1.5) {
        const dpf_plan plan = made(DISCRETE_GAUSSIAN, t, thresholds, guide);
        dpf_make_table(&plan, table);
        for (int cell = 1; cell < 1 << DPF_TABLE_BITS; cell++) {
            int above = 0, inside = 0;
            for (; thresholds[above] >> 49 >= (uint64_t)cell; above++)
                inside |= thresholds[above] >> 49 == (uint64_t)cell;
            holds(table[cell] == (inside ? DPF_UNDECIDED : above), "a cell of thresholds");
        }
    }
    const uint64_t *const limbs = room(DPF_RATIO_LIMBS * sizeof *limbs);
    for (int law = DISCRETE_LAPLACE; law <= DISCRETE_GAUSSIAN; law++)
        for (int n = -1; n <= 1; n++)
            for (int m = -1; m <= 1; m++) {
                const dpf_ratio of = {law, 0, n * DPF_RATIO_LIMBS, m * DPF_RATIO_LIMBS, limbs, limbs};
                dpf_plan plan;
                holds(dpf_make_plan(&of, &plan, thresholds, guide) == (n > 0 && m > 0 ? 0 : DPF_NO_SCALE), "a ratio");
            }
    free((void *)(uintptr_t)limbs);
    free(thresholds);
    free(guide);
    free(table);
}

/* The least double of the i-th sixteenth of a binade from 1 on. */
static double sixteenth(int i) {
    const uint64_t bits = ((uint64_t)i + (1023 << 4)) << 48;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Thresholds of no law in particular: the tables and the search must agree on any that fall. */
static dpf_plan searched(uint64_t *thresholds, int count, uint16_t *guide, int16_t *table) {
    dpf_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.law = DISCRETE_GAUSSIAN;
    plan.width = 16;
    plan.bulk = DPF_TABLE;
    plan.constant_work = DPF_DOUBLE;
    plan.search.steps = 1;
    memcpy(plan.scale, made(LAPLACE, 8.0, NULL, NULL).scale,
           sizeof plan.scale); /* for the exact tier; no draw comes there */
    for (int i = 0; i < count; i++)
        thresholds[i] = i == 0 ? any() | (uint64_t)1 << 63 : thresholds[i - 1] - thresholds[i - 1] / 30 - 1;
    for (int i = 0; i <= 64 * 16; i++) {
        const uint64_t low = i == 0 ? 0 : (uint64_t)(sixteenth(i) * (1.0 - 0x1p-52));
        const uint64_t high = i >= 64 * 16 - 1 ? UINT64_MAX : (uint64_t)sixteenth(i + 1) + 1;
        int above_low = 0;
        guide[i] = 0;
        for (int k = 0; k < count; k++) {
            guide[i] = (uint16_t)(guide[i] + (thresholds[k] > high));
            above_low += thresholds[k] > low;
        }
        while (above_low - guide[i] >= 1 << plan.search.steps)
            plan.search.steps++;
    }
    memset(thresholds + count, 0, sizeof *thresholds << plan.search.steps);
    plan.search.thresholds = thresholds;
    plan.search.guide = guide;
    for (uint64_t cell = 0; cell < 1 << DPF_TABLE_BITS; cell++) {
        const uint64_t low = cell << 49, high = low | UINT64_MAX >> 15;
        int above = 0, open = cell == 0;
        for (int i = 0; i < count; i++) {
            above += thresholds[i] > high;
            open |= thresholds[i] >= low && thresholds[i] <= high;
        }
        table[cell] = (int16_t)(open ? DPF_UNDECIDED : above);
        table[cell + (1 << DPF_TABLE_BITS)] = (int16_t)(open ? DPF_UNDECIDED : -above);
    }
    plan.table = table;
    return plan;
}

static uint8_t key[32];

/* The first instruction set of this machine from number isa on, or -1. */
static int next_isa(int isa) {
    while (dpf_isa_name(isa) != NULL && !dpf_isa_runs(isa))
        isa++;
    return dpf_isa_name(isa) == NULL ? -1 : isa;
}

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
    for (int non_temporal = 0; non_temporal < 2; non_temporal++)
        for (size_t shift = 0; shift < 9; shift++) /* eight places in a line, and one off the grid */
            for (size_t n = 0; n < 40; n++) {
                const size_t at = shift < 8 ? 8 * shift : 4;
                memset(to, 0x5a, 64 * 8 + 8);
                memset(expected, 0x5a, 64 * 8 + 8);
                memcpy(expected + at, from + 8, 8 * n);
                dpf_isa_of(isa)->store(to + at, from + 8, (int64_t)n, non_temporal);
                dpf_fence();
                same(to, expected, 64 * 8 + 8, "stored words");
            }
    free(from);
    free(to);
    free(expected);
}

/* At every size near a batch and every alignment, from two places on. */
static void key_stream(int isa) {
    enum { MOST = 3 * DPF_BATCH * 64 };
    uint8_t *known = room(2 * MOST);
    dpf_key_stream(DPF_PORTABLE, key, 0, 2 * MOST, known, 0);
    for (int non_temporal = 0; non_temporal < 2; non_temporal++)
        for (int64_t n = 0; n <= MOST; n += n % 2048 > 2 && n % 2048 < 2040 ? 113 : 1)
            for (uint64_t pair = 0; pair < 3; pair += 2) {
                const size_t shift = (size_t)n % 9;
                uint8_t *out = room((size_t)n + shift);
                dpf_key_stream(isa, key, pair, n, out + shift, non_temporal);
                same(out + shift, known + 2048 * pair, (size_t)n, "key streams");
                free(out);
            }
    free(known);
}

/* The same words by any mixture of calls, over several refills; wiped behind. */
static void bit_generator(int isa) {
    dpf_bits *bits = dpf_bits_new(), *other = dpf_bits_new();
    holds(bits != NULL && other != NULL && bits->keyed == 0 && bits->left == 0, "a new state is blank");
    (void)dpf_next_uint64(other);
    holds(other->keyed == 1 && other->isa == dpf_best_isa(), "a blank state takes a key");
    holds(dpf_bits_key(bits) == 0 && bits->left == 0, "a key");
    memcpy(other, bits, sizeof *bits);
    bits->isa = isa;
    other->isa = DPF_PORTABLE;
    uint64_t rest = 0;
    int halved = 0;
    for (int i = 0; i < 5000; i++) {
        const uint64_t left = other->left, kind = any() % 3;
        if (kind == 0) {
            const uint32_t half = dpf_next_uint32(bits);
            rest = halved ? rest >> 32 : dpf_next_uint64(other);
            holds(half == (uint32_t)rest, "halves");
            halved ^= 1;
        } else if (kind == 1) {
            holds(dpf_next_uint64(bits) == dpf_next_uint64(other), "words");
        } else {
            holds(dpf_next_double(bits) == (double)(dpf_next_uint64(other) >> 11) * 0x1p-53, "doubles");
        }
        same(bits->words, other->words, sizeof bits->words, "states");
        for (uint64_t at = left < other->left ? 252 : left; at > other->left; at--)
            holds(bits->words[at + 3] == 0, "a word is wiped");
    }
    dpf_bits_free(bits);
    dpf_bits_free(other);
}

static int is_real(const dpf_plan *plan) {
    return dpf_isa_of(DPF_PORTABLE)->laws[plan->law]->real;
}

static int is_normal(const dpf_plan *plan) {
    return plan->law == GAUSSIAN || (plan->law == DISCRETE_GAUSSIAN && plan->search.steps == 0);
}

/* In [-1/2, 1/2], the ends and tiny ones among them. */
static double somewhere(void) {
    const uint64_t kind = any() % 8;
    const double inside = ((double)(any() >> 11) - 0x1p52) * 0x1p-53;
    return kind == 0 ? 0.5 : kind == 1 ? -0.5 : kind == 2 ? 0.0 : kind == 3 ? inside * 0x1p-200 : inside;
}

/* Planted digits: all tiers, all widths; whoever decides, decides the same. */
static void tiers(const dpf_plan *plan) {
    static const int widths[] = {15, 31, 63, 64, 79, 95, 127, 128};
    enum { N = 203 };
    dpf_planted *planted = room(N * sizeof *planted);
    dpf_u128 *found = room(N * sizeof *found), *known = room(N * sizeof *known);
    uint8_t *decided = room(N), *any_decided = room(N);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const int bits = widths[w];
        if (is_normal(plan)      ? bits != 128
            : plan->search.steps ? bits != 64
                                 : bits == 128 || (bits > 64 ? bits - 63 : bits + 1) < plan->width)
            continue; /* a cell so wide is no word's of this law */
        for (int i = 0; i < N; i++) {
            const uint64_t value = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? UINT64_MAX : any() >> (i % 64);
            memset(&planted[i], 0, sizeof planted[i]);
            planted[i].digits[0] = bits <= 64 ? (value & (UINT64_MAX >> (64 - bits))) : value;
            planted[i].digits[1] = bits <= 64 ? 0 : bits == 128 ? any() : any() << (128 - bits);
            planted[i].digits[2] = any();
            planted[i].digits[3] = any();
            planted[i].offset = is_real(plan) ? somewhere() : 0.0;
            planted[i].negative = is_real(plan) && i % 2;
            planted[i].sine = i % 3 == 0;
        }
        memset(any_decided, 0, N);
        for (int isa = next_isa(0); isa >= 0; isa = next_isa(isa + 1))
            for (int tier = DPF_FLOAT; tier <= (is_normal(plan) ? DPF_DOUBLE_DOUBLE : DPF_INTEGER); tier++) {
                if (!is_normal(plan) && ((tier == DPF_DOUBLE && bits > 64) || (tier == DPF_EXTENDED && bits != 64) ||
                                         (tier == DPF_DOUBLE_DOUBLE && bits <= 64)))
                    continue;
                if (tier == DPF_EXTENDED && (plan->law == DISCRETE_LAPLACE || plan->t > 0x1p21))
                    continue;
                if (tier == DPF_FLOAT && (plan->bulk != DPF_FLOAT || (bits != 31 && !is_normal(plan))))
                    continue;
                if (is_normal(plan) && tier == DPF_DOUBLE && plan->t > 0x1p40)
                    continue;
                dpf_tier(isa, plan, tier, bits, N, planted, found, decided);
                for (int i = 0; i < N; i++) {
                    if (!decided[i])
                        continue;
                    if (any_decided[i])
                        same(&found[i], &known[i], sizeof *known, "tiers");
                    known[i] = found[i];
                    any_decided[i] = 1;
                }
            }
        if (plan->table && bits == (plan->search.steps ? 64 : DPF_TABLE_BITS))
            for (int i = 0; i < N; i++) {
                planted[i].digits[0] >>= bits - DPF_TABLE_BITS;
                dpf_tier(dpf_best_isa(), plan, DPF_TABLE, 16, 1, &planted[i], found, decided);
                if (decided[0] && any_decided[i])
                    same(found, &known[i], sizeof *known, "table and tiers");
            }
    }
    free(planted);
    free(found);
    free(known);
    free(decided);
    free(any_decided);
}

/* What a release does on a grid of 1, with wide bounds. */
static dpf_release release(int isa, const dpf_plan *plan, int constant_work, int kind, int limbs) {
    dpf_release how;
    memset(&how, 0, sizeof how);
    how.plan = plan, how.key = key, how.isa = isa, how.constant_work = constant_work;
    how.kind = kind, how.limbs = limbs, how.single = kind == DPF_FLOAT32, how.refuse = 1;
    how.upper.lo = kind == DPF_UINT64 ? INT64_MAX : dpf_greatest(kind);
    how.lower.lo = dpf_least(kind), how.lower.hi = dpf_unsigned(kind) ? 0 : UINT64_MAX;
    how.granularity = how.inverse = how.inverse_too = 1.0;
    how.least = how.real_lower = -DBL_MAX, how.greatest = how.real_upper = DBL_MAX;
    return how;
}

/* All of a call. */
static void added(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    holds(dpf_add(how, start, n, in, out) == n, "a call is done");
}

/* Whether the call fails and leaves zeros alone. */
static void fails(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out, int64_t status) {
    const char *const made = out;
    holds(dpf_add(how, start, n, in, out) == status, "a call fails as it is to");
    for (int64_t i = 0; i < n * dpf_size(how->kind); i++)
        holds(made[i] == 0, "a call that has failed leaves zeros");
}

/* Values of a kind and noise: the same elsewhere and in place, past the caches or not, on every
 * instruction set. */
static void sums(const dpf_plan *plan, uint64_t start, int64_t n, int kind, int limbs, int constant_work) {
    const size_t each = (size_t)dpf_size(kind), size = (size_t)n * each;
    char *in = room(size), *known = room(size), *out = room(size);
    for (int64_t i = 0; i < n; i++) {
        const int64_t whole = (int64_t)(any() % 2000) - (dpf_unsigned(kind) ? 0 : 1000); /* cut, if it is wider */
        const double real = (double)whole + somewhere();
        const float single = (float)real;
        memcpy(in + (size_t)i * each, is_real(plan) ? kind == DPF_FLOAT32 ? (const void *)&single : &real : &whole,
               each);
    }
    for (int isa = next_isa(0), first = 1; isa >= 0; isa = next_isa(isa + 1), first = 0)
        for (int past = 0; past < 2; past++)
            for (int in_place = 0; in_place < 2; in_place++) {
                dpf_release how = release(isa, plan, constant_work, kind, limbs);
                how.non_temporal = past;
                memset(out, 0xa5, size);
                if (in_place)
                    memcpy(out, in, size);
                added(&how, start, n, in_place ? out : in, out);
                if (first && !past && !in_place)
                    memcpy(known, out, size);
                same(out, known, size, "sums");
            }
    if (is_real(plan) && n > 0) { /* a value that is not finite ends the call */
        const double nan = (double)__builtin_nan("");
        const float single = (float)nan;
        memcpy(in + size - each, kind == DPF_FLOAT32 ? (const void *)&single : &nan, each);
        const dpf_release how = release(dpf_best_isa(), plan, constant_work, kind, limbs);
        memset(out, 0xa5, size);
        fails(&how, start, n, in, out, DPF_NOT_FINITE);
        holds(!dpf_all_finite(kind, n, in), "and seen");
    }
    free(in);
    free(known);
    free(out);
}

/* Under a key of C's own. */
static void fresh(const dpf_plan *plan) {
    enum { N = 300 };
    double *in = room(N * sizeof *in), *out = room(N * sizeof *out);
    memset(in, 0, N * sizeof *in);
    for (int isa = next_isa(0); isa >= 0; isa = next_isa(isa + 1)) {
        dpf_release how = release(isa, plan, 1, is_real(plan) ? DPF_FLOAT64 : DPF_INT64, plan->t <= 0x1p40 ? 1 : 2);
        how.key = NULL;
        holds(dpf_add_fresh(&how, N, in, out) == N, "a fresh release");
    }
    free(in);
    free(out);
}

/* Up to this scale one limb holds all draws that C decides early, or nearly all. */
static double most_of_a_limb(const dpf_plan *plan) {
    return is_real(plan) ? 0x1p44 : 0x1p54;
}

/* Draws by every path; where two paths decide, they agree, and few stay undecided. */
static void draws(const dpf_plan *plan, uint64_t start, int64_t n) {
    const size_t size = (size_t)n * sizeof(int64_t);
    int64_t *noise = room(2 * size), *sure_noise = room(2 * size);
    double *offset = room(size);
    uint8_t *sure = room((size_t)n);
    for (int64_t i = 0; i < n; i++)
        offset[i] = is_real(plan) ? somewhere() : 0.0;
    memset(sure, 0, (size_t)n);
    for (int isa = next_isa(0); isa >= 0; isa = next_isa(isa + 1))
        for (int constant_work = 0; constant_work < 2; constant_work++)
            for (int limbs = 1; limbs <= 2; limbs++) {
                const dpf_release how = release(isa, plan, constant_work, DPF_NOISE, limbs);
                memset(noise, 0xa5, 2 * size);
                int64_t left = 0;
                added(&how, start, n, offset, noise);
                const int ties =
                    is_real(plan) && plan->t < 0x1p-20; /* an offset of 1/2 then decides, by the sign of the noise */
                const int64_t few = plan->search.steps ? 4 + n / 32 : is_normal(plan) ? 4 + n / 64 : 1;
                for (int64_t i = 0; i < n; i++) {
                    if (noise[2 * i + 1] == DPF_UNDECIDED_LIMB) {
                        holds(noise[2 * i] == 0, "an open draw has a limb of zeros");
                        left++;
                        continue;
                    }
                    if (sure[i])
                        same(&noise[2 * i], &sure_noise[2 * i], 2 * sizeof *noise, "draws");
                    sure[i] = 1;
                    memcpy(&sure_noise[2 * i], &noise[2 * i], 2 * sizeof *noise);
                }
                holds(left <= ((limbs == 2 || plan->t <= most_of_a_limb(plan)) && !ties ? few : n), "few are open");
            }
    free(offset);
    free(noise);
    free(sure_noise);
    free(sure);
}

static void all_sums(const dpf_plan *plan, uint64_t start, int64_t n) {
    static const int narrow[] = {DPF_INT32, DPF_UINT16, DPF_INT8};
    for (int constant_work = 0; constant_work < 2; constant_work++)
        for (int limbs = n > 2 && plan->t > most_of_a_limb(plan) ? 2 : 1; limbs <= 2;
             limbs++) { /* else each is exact */
            sums(plan, start, n, is_real(plan) ? DPF_FLOAT64 : DPF_INT64, limbs, constant_work);
            if (!is_real(plan))
                sums(plan, start, n, DPF_UINT64, limbs, constant_work);
            else if (limbs == 1)
                sums(plan, start, n, DPF_FLOAT32, limbs, constant_work);
            for (int i = 0; !is_real(plan) && limbs == 1 && i < 3; i++)
                sums(plan, start, n, narrow[i], limbs, constant_work);
        }
}

/* ---- the exact tier */

/* What no tier but the exact one decides. */
static dpf_plan blind(const dpf_plan *plan) {
    dpf_plan made = *plan;
    made.margin = made.margin32 = made.float_margin = made.extended_margin = made.double_double_margin = -1.0;
    made.logarithm.wide_cell = 400;
    made.bulk = made.constant_work = DPF_INTEGER;
    made.table = NULL;
    return made;
}

/* Any digits, or only zeros or ones; behind them zeros. */
static dpf_digits digits_of(int kind, int bits) {
    dpf_digits made;
    memset(&made, 0, sizeof made);
    made.bits = bits;
    for (int i = 0; 64 * i < bits; i++) {
        const int left = bits - 64 * i;
        made.prefix[i] = (kind == 0 ? 0 : kind == 1 ? UINT64_MAX : any()) >> (left < 64 ? 64 - left : 0);
    }
    return made;
}

/* The first of them. */
static dpf_digits first_of(const dpf_digits *digits, int bits) {
    const int gone = digits->bits - bits, limbs = gone / 64, rest = gone % 64;
    dpf_digits made;
    memset(&made, 0, sizeof made);
    made.bits = bits;
    for (int i = 0; i + limbs < DPF_EXACT_LIMBS; i++) {
        const uint64_t above = i + limbs + 1 < DPF_EXACT_LIMBS ? digits->prefix[i + limbs + 1] : 0;
        made.prefix[i] = digits->prefix[i + limbs] >> rest | (rest > 0 ? above << (64 - rest) : 0);
    }
    return made;
}

/* Digits 64 at .. 64 at + 63 behind the first `skipped`, the first one highest. */
static uint64_t word_of(const dpf_digits *digits, int skipped, int at) {
    return first_of(digits, skipped + 64 * at + 64).prefix[0];
}

/* Planted digits: more of them decide what fewer do, and no tier decides else. */
static void exact(const dpf_plan *plan) {
    static const int lengths[] = {16, 17, 96, 129, 640, 704};
    static const double offsets[] = {0.0, 0.5, -0.5, 0x1p-900, 0.3};
    const int last = (int)(sizeof lengths / sizeof *lengths), flags = is_normal(plan) ? 3 : 1;
    for (int kind = 0; kind < 7; kind++) {
        const dpf_digits all[2] = {digits_of(kind, 704), digits_of(kind % 5, 704)};
        const int sine = kind % 2, tier = is_normal(plan) ? DPF_DOUBLE_DOUBLE : DPF_INTEGER;
        const double offset = is_real(plan) ? offsets[kind % 5] : 0.0;
        dpf_u128 known = {0, 0}, found, early;
        int is_known = 0;
        uint8_t decided = 0;
        for (int at = 0; at <= last; at++) {
            const int bits = at < last ? lengths[at] : flags + 1 + (int)(any() % 600);
            const dpf_digits digits[2] = {first_of(&all[0], bits), first_of(&all[1], bits)};
            if (!dpf_exact_planted(plan, digits, offset, sine, &found)) {
                holds(kind == 0 || bits < 640, "so many digits decide, but for zeros");
                continue;
            }
            if (is_known)
                same(&found, &known, sizeof known, "outcomes by fewer digits and by more");
            known = found, is_known = 1;
        }
        if (plan->search.steps > 0)
            continue;
        /* A pair's words of level 0 have plan->width bits, and 64 of level 1 follow. */
        const int width = plan->width;
        const dpf_planted planted = {{is_normal(plan) ? first_of(&all[0], width).prefix[0] : word_of(&all[0], 1, 0),
                                      word_of(&all[0], is_normal(plan) ? width : 1, is_normal(plan) ? 0 : 1),
                                      first_of(&all[1], width).prefix[0], word_of(&all[1], width, 0)},
                                     offset,
                                     (int)(all[0].prefix[10] >> 63),
                                     sine};
        dpf_tier(dpf_best_isa(), plan, tier, is_normal(plan) ? 127 : 128, 1, &planted, &early, &decided);
        if (!decided)
            continue;
        if (plan->law == DISCRETE_LAPLACE && planted.negative)
            early = (dpf_u128){0 - early.lo, ~early.hi + (early.lo == 0)};
        holds(is_known, "the exact tier decides what others do");
        same(&early, &known, sizeof known, "the exact tier and the last but one");
    }
}

/* Acceptance, by fewer digits and by more. */
static void exact_acceptance(const dpf_plan *plan) {
    static const int lengths[] = {2, 16, 80, 704};
    static const int sigmas[] = {0, 1, -1, 9, -9};
    for (int i = 0; i < 5; i++)
        for (int kind = 0; kind < 3; kind++) {
            const int64_t k = (int64_t)(sigmas[i] * plan->t);
            const dpf_digits all = digits_of(kind, 704);
            int known = 0;
            for (int at = 0; at < 4; at++) {
                const dpf_digits v = first_of(&all, lengths[at]);
                const int verdict = dpf_exact_acceptance(plan, k, &v);
                holds(known == 0 || verdict == known, "more digits of V say what fewer say");
                known = verdict;
            }
            holds(known == (kind == 0 || k == 0 ? 1 : kind == 1 ? -1 : known) && known != 0, "V decides");
        }
    holds(dpf_exact_acceptance(plan, INT64_MIN, &(dpf_digits){{0}, 64}) == 0, "none is accepted so far out");
}

/* A release of which all draws are exact is the same as one of which hardly any is. */
static void exactly_added(const dpf_plan *plan) {
    enum { N = 3 };
    const dpf_plan none = blind(plan), *const plans[] = {plan, &none};
    const int kind = is_real(plan) ? DPF_FLOAT64 : DPF_INT64;
    double reals[N];
    int64_t *in = room(N * sizeof *in), *out[2] = {room(N * sizeof *in), room(N * sizeof *in)};
    for (int i = 0; i < N; i++)
        reals[i] = somewhere() + i, in[i] = i;
    if (is_real(plan))
        memcpy(in, reals, sizeof reals);
    for (int isa = next_isa(0); isa >= 0; isa = next_isa(isa + 1))
        for (int constant_work = 0; constant_work < 2; constant_work++) {
            dpf_release how = release(isa, plan, constant_work, kind, 2);
            const uint64_t start = any() >> 2;
            for (int of = 0; of < 2; of++) {
                how.plan = plans[of];
                added(&how, start, N, in, out[of]);
            }
            same(out[0], out[1], N * sizeof *in, "results by the exact tier alone");
            how.kind = DPF_NOISE;
            int64_t noise[2 * N];
            dpf_add(&how, start, N, reals, noise);
            for (int i = 0; i < N; i++)
                holds(noise[2 * i] == 0 && (noise[2 * i + 1] == DPF_UNDECIDED_LIMB ||
                                            (plan->law == DISCRETE_LAPLACE && noise[2 * i + 1] == 0)),
                      "noise alone is left open, but for integers of 0");
        }
    if (plan->law == DISCRETE_GAUSSIAN) { /* a scale that has no proposals: nobody decides on them */
        dpf_plan narrow = none;
        memcpy(narrow.scale, made(LAPLACE, 16.0, NULL, NULL).scale, sizeof narrow.scale);
        const dpf_release how = release(dpf_best_isa(), &narrow, 1, kind, 2);
        fails(&how, 0, N, in, out[0], DPF_OPEN);
    }
    free(in);
    free(out[0]);
    free(out[1]);
}

/* A host's mode of its own comes back after a call. */
static void mode(void) {
    const uint64_t before = dpf_enter();
    dpf_leave(DPF_HOSTILE_MODE);
    const uint64_t host = dpf_enter();
    dpf_leave(host);
    const uint64_t after = dpf_enter();
    dpf_leave(before);
    holds(host == DPF_HOSTILE_MODE && after == host, "the mode comes back");
}

static void law(const dpf_plan *plan) {
    static int turn;
    static const int64_t lengths[] = {0, 1, 2, 31, 33, 255, 257, 1023, 1024, 1025, 3001};
    static const uint64_t starts[] = {0, 1, 31, 255, 1000, 1024, ((uint64_t)1 << 32) - 7, (uint64_t)1 << 62};
    if (turn++ % every != 0)
        return;
    tiers(plan);
    fresh(plan);
    exact(plan);
    if (plan->search.steps == 0)
        exactly_added(plan);
    if (plan->law == DISCRETE_GAUSSIAN && plan->search.steps == 0)
        exact_acceptance(plan);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            draws(plan, starts[s], lengths[l]);
        all_sums(plan, starts[l % 8], lengths[l]);
        draws(plan, ((uint64_t)1 << 63) - (uint64_t)lengths[l], lengths[l]); /* the last there are */
    }
    if (plan->table) /* all parts of the pipeline run */
        for (uint64_t start = 1000; start < 4000; start += 997)
            all_sums(plan, start, 3 * DPF_BLOCK + 77);
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
    uint8_t *secret = room(32), zeros[32] = {0};
    dpf_wipe_key(secret);
    same(secret, zeros, sizeof zeros, "a wiped key and zeros");
    free(secret);
}

/* As the Arrow interface defines them. */
typedef struct schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct schema **children, *dictionary;
    void (*release)(struct schema *);
    void *private_data;
} schema;
typedef struct array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct array **children, *dictionary;
    void (*release)(struct array *);
    void *private_data;
} array;
typedef struct stream {
    int (*get_schema)(struct stream *, schema *);
    int (*get_next)(struct stream *, array *);
    const char *(*get_last_error)(struct stream *);
    void (*release)(struct stream *);
    void *private_data;
} stream;

/* A huge column is refused by malloc, and not by the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* Structures that are consumed, moved in parts, kept unconsumed, and not made: nothing leaks. */
static void arrow(void) {
    static const int64_t counts[] = {5, -7, 1};
    static const float reals[] = {0.5f, 2.0f, -1.0f};
    const dpf_column two[] = {{"l", "n", counts, sizeof counts}, {"f", "x", reals, sizeof reals}};
    const dpf_column huge[] = {two[0], {"l", "y", counts, INT64_MAX / 2}};
    const dpf_columns rows = {1, 2, 3, two}, one = {0, 1, 3, two}, none = {1, 0, 0, two}, lost = {1, 2, 3, huge};
    const dpf_columns *const all[] = {&rows, &one, &none};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int kind = DPF_ARROW_SCHEMA; kind <= DPF_ARROW_STREAM; kind++) {
            void *at = dpf_arrow_new(kind);
            holds(dpf_arrow_fill(kind, at, all[i]) == 0, "memory");
            dpf_arrow_free(kind, at);
            dpf_arrow_free(kind, dpf_arrow_new(kind));
        }
    array *const lost_array = dpf_arrow_new(DPF_ARROW_ARRAY);
    stream *const lost_stream = dpf_arrow_new(DPF_ARROW_STREAM);
    holds(dpf_arrow_fill(DPF_ARROW_ARRAY, lost_array, &lost) == -1 && !lost_array->release, "beyond memory");
    holds(dpf_arrow_fill(DPF_ARROW_STREAM, lost_stream, &lost) == -1 && !lost_stream->release, "beyond memory");
    dpf_arrow_free(DPF_ARROW_ARRAY, lost_array);
    dpf_arrow_free(DPF_ARROW_STREAM, lost_stream);

    array *const parent = dpf_arrow_new(DPF_ARROW_ARRAY);
    holds(dpf_arrow_fill(DPF_ARROW_ARRAY, parent, &rows) == 0, "memory");
    holds(parent->length == 3 && parent->n_buffers == 1 && !parent->buffers[0] && parent->n_children == 2, "rows");
    array child = *parent->children[1];
    parent->children[1]->release = NULL; /* moved out, and so not the parent's any more */
    dpf_arrow_free(DPF_ARROW_ARRAY, parent);
    holds(child.length == 3 && !child.null_count && !child.offset && (uintptr_t)child.buffers[1] % 64 == 0, "a column");
    same(child.buffers[1], reals, sizeof reals, "a moved column and its cells");
    child.release(&child);
    holds(child.release == NULL, "released");

    stream *const from = dpf_arrow_new(DPF_ARROW_STREAM);
    holds(dpf_arrow_fill(DPF_ARROW_STREAM, from, &rows) == 0, "memory");
    schema told[2];
    array got[2];
    for (int i = 0; i < 2; i++) {
        holds(from->get_schema(from, told + i) == 0 && from->get_next(from, got + i) == 0, "a stream");
        holds(strcmp(told[i].format, "+s") == 0 && told[i].n_children == 2, "a schema of rows");
        holds(strcmp(told[i].children[1]->format, "f") == 0 && strcmp(told[i].children[1]->name, "x") == 0, "a name");
    }
    from->release(from); /* before what it gave */
    holds(from->get_last_error(from) != NULL && got[0].release && !got[1].release, "one array, then the end");
    same(got[0].children[0]->buffers[1], counts, sizeof counts, "a streamed column and its cells");
    got[0].release(got);
    for (int i = 0; i < 2; i++)
        told[i].release(told + i);
    dpf_arrow_free(DPF_ARROW_STREAM, from);
}

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Words of every length up to so many bits. Parts are few, many, or beyond the caches. */
static void sorted(int64_t n, int bits) {
    uint64_t *const words = room(sizeof *words * (size_t)n), *const wanted = room(sizeof *wanted * (size_t)n);
    uint64_t *const spare = room(sizeof *spare * (size_t)(n < DPF_SPARE ? n : DPF_SPARE));
    for (int64_t i = 0; i < n; i++)
        words[i] = wanted[i] = any() >> (64 - bits) >> any() % (uint64_t)bits;
    qsort(wanted, (size_t)n, sizeof *wanted, ascending);
    dpf_sort(words, n, bits, spare);
    same(words, wanted, sizeof *words * (size_t)n, "sorted words");
    free(words);
    free(wanted);
    free(spare);
}

/* Rows of units with few bins and with many: what is kept, by each instruction set. */
static void rows(int isa, int64_t most, int with_units) {
    enum { ROWS = 2500, BITS = 7, BINS = 1 << BITS, UNITS = 40 };
    uint64_t *const row = room(sizeof *row * ROWS), *const bins = room(sizeof *bins * BINS);
    uint64_t *const units = room(sizeof *units * UNITS), *const heap = room(sizeof *heap * (size_t)most);
    int64_t *const place = room(sizeof *place * ROWS), *const table = room(sizeof *table * (BINS + 1));
    int64_t *const begin = room(sizeof *begin * (size_t)(most + DPF_FEW + 1));
    int64_t *const many = room(sizeof *many * (size_t)(most + DPF_FEW + 1));
    int64_t *const value = room(sizeof *value * ROWS), *const counts = room(sizeof *counts * BINS);
    int64_t *const same_counts = room(sizeof *counts * BINS), *const tops = room(sizeof *tops * BINS);
    uint64_t *const lows = room(sizeof *lows * BINS);
    for (int i = 0; i < ROWS; i++) {
        row[i] = any() % UNITS;
        place[i] = (int64_t)(any() % (1 + 3 * row[i]));
        value[i] = (int64_t)(any() % 5) - 2;
    }
    for (int i = 0; i <= BINS; i++)
        table[i] = i < BINS ? i : -1;
    dpf_look_up((const uint64_t *)place, ROWS, 0, table, BINS, place);
    const int64_t n = dpf_pack(row, place, ROWS, 0, UNITS - 1, BITS, row);
    holds(n == ROWS, "all rows are of a unit and a bin");
    dpf_sort(row, ROWS, BITS + 6, (uint64_t *)place);
    for (int i = 0; i < BINS; i++)
        bins[i] = any(), counts[i] = same_counts[i] = tops[i] = 0, lows[i] = 0;
    for (int i = 0; i < UNITS; i++)
        units[i] = any();
    dpf_choice how = {isa, BITS, {any(), any()}, any(), with_units ? units : NULL, bins};
    dpf_bounded_counts(&how, row, ROWS, most, 2, heap, begin, many, counts);
    how.isa = DPF_PORTABLE;
    dpf_bounded_counts(&how, row, ROWS, most, 2, heap, begin, many, same_counts);
    same(counts, same_counts, sizeof *counts * BINS, "bounded counts");
    int64_t kept = dpf_chosen_rows(&how, row, NULL, ROWS, BITS, 1, most, heap, place);
    kept = dpf_chosen_rows(&how, row, value, kept, 0, 0, 2 < most ? 2 : most, heap, place);
    kept = dpf_chosen_rows(&how, row, value, kept, BITS, 0, most, heap, place);
    holds(kept > 0 && kept <= most * UNITS, "units keep what they may");
    dpf_totals(row, value, kept, BITS, -1, 1, 1, tops, lows);
    dpf_totals(row, NULL, kept, BITS, 0, 9, 0, tops, lows);
    const int64_t begins[] = {0, UNITS};
    qsort(units, UNITS, sizeof *units, ascending);
    dpf_search(units, UNITS, units, 63, (const int64_t[]){0, UNITS, UNITS}, 2, place);
    dpf_search(units, UNITS, units, 63, begins, 1, place);
    holds(place[UNITS - 1] == UNITS - 1, "the last word is found");
    uint8_t *const texts = room(15);
    for (int i = 0; i < 15; i++)
        texts[i] = (uint8_t)i;
    dpf_hash_texts((const uint64_t[]){0x0706050403020100, 0x0f0e0d0c0b0a0908}, texts, (const int64_t[]){15}, 1, lows);
    holds(lows[0] == 0xa129ca6149be45e5, "SipHash's known answer");
    void *all[] = {row, bins, units, heap, place, table, begin, many, value, counts, same_counts, tops, lows, texts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(int count, char **given) {
    static const double normals[] = {0x1p-60, 0.37, 1.0, 129.0, 1e3, 1e4, 0x1p20, 1e9, 0x1p40, 1e15, 0x1p60};
    int sets = 0;
    int16_t *table = room(sizeof *table << (DPF_TABLE_BITS + 1));
    every = count > 1 ? atoi(given[1]) : 1;
    holds(every > 0 && dpf_entropy(key, sizeof key) == 0, "entropy");
    state ^= (uint64_t)key[0] << 8 | key[1];
    holds(strcmp(dpf_law_name(DISCRETE_LAPLACE), "discrete_laplace") == 0, "law 1");
    holds(strcmp(dpf_law_name(DISCRETE_GAUSSIAN), "discrete_gaussian") == 0 && !dpf_law_name(5), "law 4, the last");
    entropy();
    arrow();
    plans();
    library();
    mode();
    static const int64_t sizes[] = {0, 1, 32, 33, 1000, DPF_SPARE, DPF_SPARE + 1, 3 * DPF_SPARE + 5};
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++)
        for (int bits = 1; bits <= 64; bits += 7)
            sorted(sizes[at], bits);
    for (int isa = next_isa(0); isa >= 0; isa = next_isa(isa + 1)) {
        blocks(isa);
        store(isa);
        key_stream(isa);
        bit_generator(isa);
        for (int64_t most = 1; most < 200; most = 3 * most + 1)
            rows(isa, most, most % 2 == 0);
        uint64_t *scratch = room(DPF_CHECK * sizeof *scratch);
        holds(dpf_self_check(isa, DPF_LAWS, dpf_known_answers(), scratch) == NULL, "known answers");
        free(scratch);
        sets++;
    }
    for (int at = 0; at < SCALES; at++)
        for (int which = DISCRETE_LAPLACE; which <= LAPLACE; which++) {
            const dpf_plan plan = exponential(which, scales[at], table);
            law(&plan);
        }
    for (size_t at = 0; at < sizeof normals / sizeof *normals; at++)
        for (int which = GAUSSIAN; which <= DISCRETE_GAUSSIAN; which++) {
            const double t = normals[at];
            if (which == DISCRETE_GAUSSIAN && (t <= 128.0 || t > 1e9))
                continue;
            const dpf_plan plan = made(which, t, NULL, NULL);
            law(&plan);
        }
    for (int many = 1; many <= 500; many *= 7) {
        uint64_t *thresholds = room(sizeof *thresholds * (size_t)(many + 64));
        uint16_t *guide = room(sizeof *guide * (64 * 16 + 1));
        const dpf_plan plan = searched(thresholds, many, guide, table);
        holds(plan.search.steps <= 6, "a sixteenth of a binade has few thresholds");
        law(&plan);
        free(thresholds);
        free(guide);
    }
    free(table);
    printf("sanitize: %ld comparisons on %d instruction sets\n", compared, sets);
    return 0;
}
