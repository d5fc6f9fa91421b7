/* SPDX-License-Identifier: Apache-2.0
 * A law that tests/csrc/test_extension.py adds to a copy of the tree: t or 2t of either sign; see
 * four_points.md. */

DPF_INLINE int64_t four_points_of(const dpf_plan *plan, uint64_t negative, uint64_t twice) {
    const int64_t magnitude = (int64_t)plan->t << (twice & 1);
    return negative ? -magnitude : magnitude;
}

static void four_points_short(const dpf_plan *plan, const uint32_t *restrict words, dpf_short *restrict s) {
    for (int i = 0; i < DPF_WORDS; i++) {
        s->noise[i] = (double)four_points_of(plan, words[i] >> 31, words[i] >> 30);
        s->weight[i] = 1.0;
    }
}

static void four_points_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    (void)tier;
    for (int i = 0; i < draws->n; i++) {
        draws->lo[i] = four_points_of(plan, draws->word[0][i] >> 31, draws->word[0][i] >> 30);
        draws->hi[i] = draws->lo[i] >> 63;
    }
}

static const dpf_law four_points_law = {
    .by_short = four_points_short, .decide = four_points_decide, .last_tier = DPF_DOUBLE};

__attribute__((noinline)) static void four_points_bulk(dpf_job *job) {
    bulk(&four_points_law, job);
}

static int64_t four_points_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out) {
    return draw_all(&four_points_law, four_points_bulk, how, start, n, in, out);
}

static void four_points_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                             dpf_u128 *found, uint8_t *decided) {
    (void)tier;
    for (int64_t i = 0; i < n; i++) {
        const int64_t draw = four_points_of(plan, (uint64_t)planted[i].negative, planted[i].digits[0] >> (bits - 1));
        found[i] = (dpf_u128){(uint64_t)draw, (uint64_t)(draw >> 63)};
        decided[i] = 1;
    }
}

static const dpf_code four_points = {"four_points", 0, four_points_add, four_points_tier};
