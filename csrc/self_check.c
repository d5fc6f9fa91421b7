/* SPDX-License-Identifier: Apache-2.0
 * Check that this build, on this machine, knows the answers of known.h (make_known.py). */
#include "dpf_impl.h"

#include "known.h"

const dpf_known *dpf_known_answers(void) {
    return known;
}

enum { MOST = 9504, CHUNK = 128, BEHIND = 8 }; /* words of values; planted draws at once; bytes beside results */
/* Parts of the scratch memory, in words. */
enum { TABLE = (1 << 16) / 4 };
_Static_assert(TABLE + 8 + 2 * MOST <= DPF_CHECK && MOST % 8 == 0, "scratch memory");

/* A row's digest is the sum of these over its words: against accidents alone. */
static uint64_t digested(int64_t at, uint64_t word) {
    const uint64_t mixed = ((uint64_t)at * 0xd1342543de82ef95 ^ word) * 0x9e3779b97f4a7c15;
    return mixed ^ mixed >> 32;
}

/* The block of RFC 8439, section 2.3.2, from its key, counter and nonce; and blocks made in the two
 * other ways, at counters of all sizes. */
static int knows_cipher(int isa) {
    static const uint8_t block[64] = {0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3,
                                      0x20, 0x71, 0xc4, 0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22,
                                      0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa,
                                      0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1,
                                      0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
    uint8_t key[32], one[64];
    uint64_t counter[DPF_BATCH];
    uint32_t wide[DPF_WORDS];
    _Alignas(64) uint8_t stream[3 * sizeof wide / 2]; /* a batch and a part of one */
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (uint64_t b = 0; b < DPF_BATCH; b++)
        counter[b] = 0x0900000000000001 + (b << 2 * b);
    dpf_blocks(isa, key, counter, 0x4a000000, wide);
    dpf_key_stream(isa, key, 1, sizeof stream, stream, 1);
    for (uint64_t b = 0; b < 3 * DPF_BATCH / 2; b++)
        for (int streamed = b >= DPF_BATCH; streamed < 2; streamed++) {
            const uint64_t group = b / DPF_LANES * 16 * DPF_LANES + b % DPF_LANES;
            dpf_block(key, streamed ? DPF_BATCH + b : counter[b],
                      streamed ? dpf_nonce(DPF_PURPOSE_BYTES, 0, 0) : 0x4a000000, one);
            if (b == 0 && !streamed && memcmp(one, block, sizeof block) != 0)
                return 0;
            for (uint64_t w = 0; w < 16; w++) {
                const uint64_t at = group + w * DPF_LANES;
                const void *found = streamed ? (const void *)(stream + 4 * at) : (const void *)(wide + at);
                if (memcmp(found, one + 4 * w, 4) != 0)
                    return 0;
            }
        }
    return 1;
}

/* Where a value, or a draw, begins on the grid: all of [-1/2, 1/2]. */
static double offset_of(int64_t i) {
    return (double)(i * 27 % 65 - 32) * 0x1p-6;
}

/* Digits that meet all rows of all tables: seven behind U's leading 1, and the angle's first. */
static dpf_planted made_up(int i) {
    const uint64_t h = digested(i, 1), then = digested(i, 2), row = (uint64_t)i % 128;
    return (dpf_planted){{((uint64_t)1 << 63 | row << 56 | h >> 8) >> i % 32, then & ~(uint64_t)1,
                          h << 61 | row << 54 | then >> 10, digested(i, 3)},
                         offset_of(i),
                         h >> 7 & 1,
                         h >> 6 & 1};
}

static int knows_planted(int isa, const dpf_known *row) {
    dpf_planted planted[CHUNK];
    dpf_u128 found[CHUNK];
    uint8_t decided[CHUNK];
    uint64_t digest = 0;
    for (int at = 0; at < row->n; at += CHUNK) {
        const int some = row->n - at < CHUNK ? row->n - at : CHUNK;
        for (int i = 0; i < some; i++)
            planted[i] = row->planted ? row->planted[at + i] : made_up(at + i);
        dpf_tier(isa, &row->plan, row->tier, row->bits, some, planted, found, decided);
        for (int i = 0; i < some; i++)
            digest += digested(3 * (at + i), found[i].lo) + digested(3 * (at + i) + 1, found[i].hi) +
                      digested(3 * (at + i) + 2, decided[i]);
    }
    return digest == row->digest[dpf_isa_of(isa)->arithmetic];
}

/* Value i of a release of integers: beside a bound, at an end of the type, of any size. */
static uint64_t integer_value(const dpf_release *how, int64_t i) {
    const uint64_t h = digested(i, 4), few = h & 31, top = dpf_greatest(how->kind), least = dpf_least(how->kind);
    const int shift = (int)(h >> 5 & 63);
    return i % 4 == 0                ? how->lower.lo + few - 8
           : i % 4 == 1              ? how->upper.lo + 8 - few
           : i % 4 == 2              ? (h >> 63 ? top - few : least + few)
           : dpf_unsigned(how->kind) ? h >> shift
                                     : (uint64_t)((int64_t)h >> shift);
}

/* Value i of a release of reals: no number, unless refused; half-way between grid points; beside
 * the size from which all doubles are grid points; beside a bound; on the grid; large, and half-way
 * between floats; of any size. */
static double real_value(const dpf_release *how, int64_t i) {
    static const double special[8] = {__builtin_nan(""), __builtin_inf(), -__builtin_inf(), -0.0,
                                      DBL_MAX,           -DBL_MAX,        0x1p-1074,        0x1p-149};
    const uint64_t h = digested(i, 5);
    const double few = (double)(h & 7), some = (double)(h >> 12 & 0xffffff), sign = h >> 63 ? -1.0 : 1.0;
    const uint64_t power = (1023 - (h & 63)) << 52, powers = (1063 + (h & 63)) << 52;
    double least, most;
    memcpy(&least, &power, sizeof least);
    memcpy(&most, &powers, sizeof most);
    if (how->missing == 0x1p40) /* which stands for nothing here: all values are below so many steps */
        return sign * (double)(h >> 11) * 0x1p-13 * how->granularity;
    switch (i % 8) {
    case 0:
        return how->refuse ? sign * 0.0 : special[h & 7];
    case 1:
        return sign * (some + 0.5) * how->granularity;
    case 2:
        return sign * (0x1p52 - 2.0 + 0.5 * few) * how->granularity;
    case 3:
        return (h >> 63 ? how->real_lower : how->real_upper) + (few - 4.0) * how->granularity;
    case 4:
        return sign * some * how->granularity;
    case 5:
        return sign * (2.0 * some + 1.0) * most * how->granularity;
    default:
        return sign * (double)(h >> 11) * least * how->granularity;
    }
}

/* Words of any type by their bytes, each by a move: a memcpy of a size that is not a constant is a
 * call. */
#define EACH_SIZE(F)     F(1, uint8_t) F(2, uint16_t) F(4, uint32_t) F(8, uint64_t)
#define ANY(bytes, type) typedef type __attribute__((may_alias)) any_##type;
EACH_SIZE(ANY)

DPF_INLINE void put_word(void *words, int64_t i, int size, uint64_t word) {
#define PUT(bytes, type)                                                                                               \
    if (size == bytes)                                                                                                 \
        ((any_##type *)words)[i] = (type)word;
    EACH_SIZE(PUT)
}

/* The digest of words begin .. end - 1. */
static uint64_t digest_of(const void *words, int64_t begin, int64_t end, int size) {
    uint64_t digest = 0;
#define DIGEST(bytes, type)                                                                                            \
    for (int64_t i = begin; i < end && size == bytes; i++)                                                             \
        digest += digested(i, ((const any_##type *)words)[i]);
    EACH_SIZE(DIGEST)
    return digest;
}

static void put_value(const dpf_release *how, int64_t i, void *values) {
    if (how->kind == DPF_NOISE)
        ((double *)values)[i] = offset_of(i);
    else if (how->kind == DPF_FLOAT64)
        ((double *)values)[i] = real_value(how, i);
    else if (how->kind == DPF_FLOAT32)
        ((float *)values)[i] = (float)real_value(how, i);
    else
        put_word(values, i, dpf_size(how->kind), integer_value(how, i));
}

/* Infinity is found, and refused where that is asked. */
static int refuses(const dpf_release *how, uint64_t start, int64_t n, char *in, char *out) {
    const double infinite = -__builtin_inf();
    const float single = (float)infinite;
    if (dpf_all_finite(how->kind, n, in) != how->refuse)
        return 0;
    if (how->kind == DPF_FLOAT32)
        memcpy(in + n / 2 * 4, &single, sizeof single);
    else
        memcpy(in + n / 2 * 8, &infinite, sizeof infinite);
    return !dpf_all_finite(how->kind, n, in) && (!how->refuse || dpf_add(how, start, n, in, out) == DPF_NOT_FINITE);
}

/* A release in a host's mode that is not ours. room: for values and results. */
static int knows_release(int isa, const dpf_known *row, const int16_t *table, uint64_t *room) {
    uint8_t key[32];
    dpf_plan plan = row->plan;
    dpf_release how = row->how;
    const int64_t n = row->n, size = dpf_size(how.kind), each = how.kind == DPF_NOISE ? 16 : size;
    char *const in = (char *)(((uintptr_t)room + 63) & ~(uintptr_t)63); /* the results begin inside a line */
    char *const out = in + 8 * MOST + BEHIND;
    if (n * each > 8 * MOST - 2 * BEHIND)
        return 0;
    plan.table = plan.bulk == DPF_TABLE ? table : NULL;
    how.plan = &plan, how.key = key, how.isa = isa;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (int64_t i = 0; i < n; i++)
        put_value(&how, i, in);
    memset(out - BEHIND, 0x55, (size_t)(n * each + 2 * BEHIND));
    dpf_fp_leave(DPF_HOSTILE_MODE);
    const int64_t done = dpf_add(&how, row->start, n, in, out);
    (void)dpf_fp_enter();
    if (done != n)
        return 0;
    const uint64_t digest = digest_of(out, -BEHIND / size, (n * each + BEHIND) / size, (int)size);
    if ((how.kind == DPF_FLOAT64 || how.kind == DPF_FLOAT32) && !refuses(&how, row->start, n, in, out))
        return 0;
    return digest == row->digest[dpf_isa_of(isa)->arithmetic];
}

/* The plan is made as it is known; and so is its table, for which there is room at `table`. */
static int knows_plan(const dpf_known *row, int16_t *table, uint64_t *thresholds, uint16_t *guide) {
    static const uint64_t below[2] = {3, 9};
    const int squared = row->plan.normal.half_angle != 0.0 || row->plan.search.steps;
    const dpf_wide times = ((dpf_wide)3 << row->exponent) - 1, above = squared ? times * times : times;
    const uint64_t limbs[2] = {(uint64_t)above, (uint64_t)(above >> 64)};
    const dpf_ratio of = {.law = row->plan.law,
                          .above_limbs = 1 + (limbs[1] > 0),
                          .below_limbs = 1,
                          .above = limbs,
                          .below = below + squared};
    dpf_plan made;
    if (dpf_make_plan(&of, &made, thresholds, guide) != 0)
        return 0;
    if (made.bulk == DPF_TABLE) {
        dpf_make_table(&made, table);
        if (digest_of(table, 0, TABLE, sizeof(uint64_t)) != row->table)
            return 0;
    }
    if (made.search.steps != row->plan.search.steps)
        return 0;
    if (made.search.steps) {
        for (int64_t i = 0; i < DPF_GUIDE; i++)
            if (guide[i] != row->plan.search.guide[i])
                return 0;
        for (int64_t i = 0; i == 0 || thresholds[i - 1]; i++)
            if (thresholds[i] != row->plan.search.thresholds[i])
                return 0;
        made.search.thresholds = row->plan.search.thresholds;
        made.search.guide = row->plan.search.guide;
    }
    return memcmp(&made, &row->plan, sizeof made) == 0;
}

/* The first of these rows and those behind that is of the laws, or the last. */
static const dpf_known *next_of(int laws, const dpf_known *row) {
    while (row->what && !(laws >> row->plan.law & 1))
        row++;
    return row;
}

const char *dpf_self_check(int isa, int laws, const dpf_known *answers, uint64_t *scratch) {
    const dpf_known *row = next_of(laws, answers);
    dpf_reach();
    int16_t *const table = (int16_t *)scratch;
    uint64_t *const room = scratch + TABLE;
    for (const dpf_known *each = row; each->what; each = next_of(laws, each + 1))
        if (each->exponent && !knows_plan(each, table, room, (uint16_t *)(room + DPF_THRESHOLDS)))
            return each->what;
    if (!dpf_isa_of(isa)->counts_zeros(1))
        return "counting leading zeros";
    if (!knows_cipher(isa))
        return "ChaCha20 of RFC 8439, section 2.3.2";
    for (int word = 0; word < 1 << 16; word++)
        table[word] = (int16_t)(word % 64 == 37 ? DPF_UNDECIDED : (int)((unsigned)word * 40503 % 32768) - 16384);
    const dpf_fpmode mode = dpf_fp_enter();
    while (row->what && (row->tier ? knows_planted(isa, row) : knows_release(isa, row, table, room)))
        row = next_of(laws, row + 1);
    dpf_fp_leave(mode);
    return row->what;
}
