/* SPDX-License-Identifier: Apache-2.0
 * Check that this build, on this machine, knows the answers of known.h (make_known.py). */
#include "dpf_impl.h"

#include "known.h"

const dpf_known *dpf_known_answers(void) {
    return known;
}

enum { SUMS = 1, LIMBS = 2, MOST = 1300, MOST_PLANTED = 128 };
/* Parts of the scratch memory, in words: a table, what dpf_add needs, and sums. */
enum { TABLE = (1 << 16) / 4, SCRATCH = DPF_SCRATCH * DPF_BLOCK, MOST_SUMS = DPF_CHECK - TABLE - SCRATCH };

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

/* What dpf_add adds to zeros, for long enough that all parts of its pipeline run. */
static int knows_sums(int isa, const dpf_known *row, const int16_t *table, uint64_t *scratch) {
    uint8_t key[32];
    int64_t *const sums = (int64_t *)(scratch + SCRATCH), left;
    uint64_t digest = 0;
    dpf_plan plan = row->plan;
    plan.table = table;
    if (row->n > MOST_SUMS)
        return 0;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    memset(sums, 0, (size_t)row->n * sizeof *sums);
    const dpf_release how = {.plan = &plan,
                             .key = key,
                             .isa = isa,
                             .kind = DPF_INT64,
                             .limbs = 1,
                             .lower = {(uint64_t)INT64_MIN, UINT64_MAX},
                             .upper = {INT64_MAX, 0}};
    if (dpf_add(&how, row->start, row->n, sums, sums, scratch, &left) != row->n || left != 0)
        return 0;
    for (int i = 0; i < row->n; i++)
        digest = digested(digest, (uint64_t)sums[i]);
    return digest == row->digest;
}

/* table: no law's own, and an entry in eight undecided (make_known.py). */
static int knows_fill(int isa, const dpf_known *row, const int16_t *table) {
    uint8_t key[32];
    int64_t lo[MOST], hi[MOST], undecided[MOST], count;
    double offset[MOST];
    uint64_t digest = 0;
    dpf_plan plan = row->plan;
    if (row->n > MOST)
        return 0;
    plan.table = table;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (int i = 0; i < row->n; i++)
        offset[i] = (i * 27 % 65 - 32) * 0x1p-6;
    int64_t *const upper = row->form == LIMBS ? hi : NULL;
    if (dpf_isa_of(isa)->laws[plan.law]->real)
        count = dpf_fill_real(isa, &plan, row->constant_work, key, row->start, row->n, offset, lo, upper, undecided);
    else
        count = dpf_fill(isa, &plan, row->constant_work, key, row->start, row->n, lo, upper, undecided);
    for (int i = 0; i < row->n; i++) {
        digest = digested(digest, (uint64_t)lo[i]);
        if (upper)
            digest = digested(digest, (uint64_t)upper[i]);
    }
    for (int64_t i = 0; i < count; i++)
        digest = digested(digest, (uint64_t)undecided[i]);
    return digest == row->digest;
}

static int knows(int isa, const dpf_known *row, const int16_t *table, uint64_t *scratch) {
    return row->tier           ? knows_planted(isa, row)
           : row->form == SUMS ? knows_sums(isa, row, table, scratch)
                               : knows_fill(isa, row, table);
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
    while (row->what && knows(isa, row, table, scratch + TABLE))
        row++;
    dpf_fp_leave(mode);
    return row->what;
}
