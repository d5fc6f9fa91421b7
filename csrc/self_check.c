/* SPDX-License-Identifier: Apache-2.0
 * Check that this build, on this machine, knows the answers of known.h (make_known.py). */
#include "dpf_impl.h"

#include "known.h"

const dpf_known *dpf_known_answers(void) {
    return known;
}

enum { SUMS = 1, LIMBS = 2, MOST = 1300, MOST_PLANTED = 128 };
/* Parts of the scratch memory, in words. */
enum { TABLE = (1 << 16) / 4, MOST_SUMS = DPF_CHECK - TABLE };

static uint64_t digested(uint64_t digest, uint64_t word) {
    digest = (digest ^ word) * 0x9e3779b97f4a7c15;
    return digest ^ digest >> 32;
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
    _Alignas(64) uint8_t stream[sizeof wide];
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (uint64_t b = 0; b < DPF_BATCH; b++)
        counter[b] = 0x0900000000000001 + (b << 2 * b);
    dpf_blocks(isa, key, counter, 0x4a000000, wide);
    dpf_key_stream(isa, key, 1, sizeof stream, stream, 1);
    for (uint64_t b = 0; b < DPF_BATCH; b++)
        for (int streamed = 0; streamed < 2; streamed++) {
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

static int knows_planted(int isa, const dpf_known *row) {
    dpf_u128 found[MOST_PLANTED];
    uint8_t decided[MOST_PLANTED];
    uint64_t digest = 0;
    if (row->n > MOST_PLANTED)
        return 0;
    dpf_tier(isa, &row->plan, row->tier, row->bits, row->n, row->planted, found, decided);
    for (int i = 0; i < row->n; i++)
        digest = digested(digested(digested(digest, decided[i]), found[i].lo), found[i].hi);
    return digest == row->digest;
}

/* Add a row's draws to values. left: the positions of the undecided ones. */
static int adds(const dpf_known *row, const dpf_release *how, const void *values, int64_t *out, int words,
                int64_t *left, int64_t *n_left) {
    dpf_undecided undecided[MOST];
    int64_t count;
    for (int64_t done = 0, more; done < row->n; done += more) {
        more = dpf_add(how, row->start + (uint64_t)done, row->n - done, (const char *)values + 8 * done,
                       out + words * done, undecided, &count);
        if (more <= 0 || *n_left + count > MOST)
            return 0;
        for (int64_t i = 0; i < count; i++)
            left[(*n_left)++] = done + undecided[i].at;
    }
    return 1;
}

/* table: no law's own, an entry in eight undecided (make_known.py). sums: room for MOST_SUMS. */
static int knows_draws(int isa, const dpf_known *row, const int16_t *table, int64_t *sums) {
    uint8_t key[32];
    int64_t pairs[2 * MOST], left[MOST], n_left = 0;
    double offset[MOST];
    uint64_t digest = 0;
    dpf_plan plan = row->plan;
    const int added = row->form == SUMS, real = dpf_isa_of(isa)->laws[plan.law]->real;
    if (row->n > (added ? MOST_SUMS : MOST))
        return 0;
    plan.table = table;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (int i = 0; i < MOST; i++)
        offset[i] = (i * 27 % 65 - 32) * 0x1p-6;
    memset(sums, 0, MOST_SUMS * sizeof *sums);
    const dpf_release how = {.plan = &plan,
                             .key = key,
                             .isa = isa,
                             .constant_work = row->constant_work,
                             .kind = added ? DPF_INT64 : DPF_NOISE,
                             .limbs = row->form == LIMBS ? 2 : 1,
                             .lower = {(uint64_t)INT64_MIN, UINT64_MAX},
                             .upper = {INT64_MAX, 0}};
    if (!(added ? adds(row, &how, sums, sums, 1, left, &n_left) : adds(row, &how, offset, pairs, 2, left, &n_left)))
        return 0;
    for (int i = 0; i < row->n; i++) {
        const int64_t lo = added ? sums[i] : pairs[2 * i];
        const double cell = (double)lo;
        uint64_t bits;
        memcpy(&bits, &cell, sizeof bits);
        digest = digested(digest, real && row->form != LIMBS ? bits : (uint64_t)lo);
        if (row->form == LIMBS)
            digest = digested(digest, (uint64_t)pairs[2 * i + 1]);
    }
    for (int64_t i = 0; i < n_left; i++)
        digest = digested(digest, (uint64_t)left[i]);
    return digest == row->digest;
}

const char *dpf_self_check(int isa, const dpf_known *row, uint64_t *scratch) {
    int16_t *const table = (int16_t *)scratch;
    if (!dpf_isa_of(isa)->counts_zeros(1))
        return "counting leading zeros";
    if (!knows_cipher(isa))
        return "ChaCha20 of RFC 8439, section 2.3.2";
    for (int word = 0; word < 1 << 16; word++)
        table[word] = (int16_t)(word % 8 == 5 ? DPF_UNDECIDED : (int)((unsigned)word * 40503 % 32768) - 16384);
    const dpf_fpmode mode = dpf_fp_enter();
    while (row->what &&
           (row->tier ? knows_planted(isa, row) : knows_draws(isa, row, table, (int64_t *)scratch + TABLE)))
        row++;
    dpf_fp_leave(mode);
    return row->what;
}
