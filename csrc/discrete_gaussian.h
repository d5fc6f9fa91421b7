/* SPDX-License-Identifier: Apache-2.0
 * The discrete Gaussian law P(k) ~ exp(-k^2 / 2 sigma^2) [CKS20]: by inversion if thresholds are
 * few, else by a rounded Gaussian that is nearly always accepted [discrete_gaussian.md]. */

/* Section 2: U lies in [u, u + 1) 2^-64; count the thresholds above u, unless one lies there. */
DPF_INLINE int64_t discrete_gaussian_search(const dpf_plan *plan, uint64_t u, int *decided) {
    const uint64_t bits = bits_of(as_double(u | (u == 0)));
    uint64_t at = plan->search.guide[(bits >> 48) - (1023 << 4)];
    for (int step = plan->search.steps - 1; step >= 0; step--) {
        const uint64_t next = at + ((uint64_t)1 << step);
        at = plan->search.thresholds[next - 1] > u ? next : at;
    }
    *decided = plan->search.thresholds[at] != u;
    return (int64_t)at;
}

/* Read every cache line that a search may read: else a large draw would find its lines cold. */
static void discrete_gaussian_warm(const dpf_plan *plan) {
    const volatile uint16_t *guide = plan->search.guide;
    const volatile uint64_t *thresholds = plan->search.thresholds;
    for (int i = 0; i <= 64 * 16; i += 32)
        (void)guide[i];
    for (int i = 0; i < guide[0] + (1 << plan->search.steps); i += 8)
        (void)thresholds[i];
}

static void discrete_gaussian_decide(const dpf_plan *plan, int tier, const dpf_draws *draws) {
    const dpf_plan p = *plan;
    const uint64_t *restrict word = draws->word[0], *restrict more = draws->more[0];
    int64_t *restrict lo = draws->lo, *restrict hi = draws->hi;
    (void)tier;
    for (int i = 0; i < draws->n; i++) {
        int decided;
        const int64_t magnitude = discrete_gaussian_search(&p, word[i] << 49 | more[i] >> 15, &decided);
        const int64_t mask = -(int64_t)(word[i] >> 15);
        lo[i] = (magnitude ^ mask) - mask;
        hi[i] = decided ? lo[i] >> 63 : DPF_UNDECIDED_LIMB;
    }
}

/* Section 4. W = 2^64 - 1 - V's first 64 digits: 1 - V lies in (W, W + 1] 2^-64, and a proposal k
 * is accepted if 1 - V > P(k is rejected). 1: accepted, -1: rejected, 0: undecided. */
static int64_t accepts(const dpf_plan *plan, int64_t k, uint64_t w) {
    const double size = (double)k, most = plan->normal.rejects * (size * size);
    const double least = most * (1.0 - 0x1p-17 - most);
    const double low = as_double(w) * 0x1p-64, high = (as_double(w) + 1.0) * 0x1p-64;
    return (int64_t)(low > most * (1.0 + 0x1p-40)) - (int64_t)(high < least * (1.0 - 0x1p-40));
}

/* With thresholds, and without. */
static const dpf_law discrete_gaussian_law = {.decide = discrete_gaussian_decide, .table = 1, .last_tier = DPF_DOUBLE};
static const dpf_law rounded_gaussian_law = {.level0 = gaussian_level0,
                                             .decide = gaussian_decide,
                                             .box_muller = 1,
                                             .last_tier = DPF_DOUBLE_DOUBLE,
                                             .accepts = accepts};

static int64_t discrete_gaussian_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out,
                                     dpf_undecided *undecided, int64_t *n_undecided) {
    if (!how->plan->search.steps)
        return draw_all(&rounded_gaussian_law, how, start, n, in, out, undecided, n_undecided);
    if (how->constant_work)
        discrete_gaussian_warm(how->plan);
    return draw_all(&discrete_gaussian_law, how, start, n, in, out, undecided, n_undecided);
}

static void discrete_gaussian_tier(const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted,
                                   dpf_u128 *found, uint8_t *decided) {
    if (!plan->search.steps) {
        gaussian_tier(plan, tier, bits, n, planted, found, decided);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int sure;
        int64_t draw;
        if (tier == DPF_TABLE) {
            draw = plan->table[planted[i].digits[0]];
            sure = draw != DPF_UNDECIDED;
        } else {
            draw = discrete_gaussian_search(plan, planted[i].digits[0], &sure);
        }
        decided[i] = (uint8_t)sure;
        found[i].lo = sure ? (uint64_t)draw : 0;
        found[i].hi = sure ? (uint64_t)(draw >> 63) : 0;
    }
}

static const dpf_code discrete_gaussian = {"discrete_gaussian", 0, discrete_gaussian_add, discrete_gaussian_tier};
