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
 * is accepted if 1 - V > P(k is rejected). 1: accepted, 0: rejected, -1: undecided. */
DPF_INLINE int accepts(const dpf_plan *plan, int64_t k, uint64_t w) {
    const double size = (double)k, most = plan->normal.rejects * (size * size);
    const double least = most * (1.0 - 0x1p-17 - most);
    const double low = (double)w * 0x1p-64, high = ((double)w + 1.0) * 0x1p-64;
    return low > most * (1.0 + 0x1p-40) ? 1 : high < least * (1.0 - 0x1p-40) ? 0 : -1;
}

DPF_INLINE uint64_t accept_nonce(uint64_t candidate, uint64_t level) {
    return dpf_nonce(DPF_PURPOSE_ACCEPT, candidate, level);
}

/* Leave draw `at` to the exact tier. */
DPF_INLINE void give_up(const dpf_target *to, int64_t at, int64_t *count) {
    to->lo[at] = 0;
    to->undecided[(*count)++] = at;
}

/* Leave to the exact tier each proposal that its acceptance digits do not surely accept. */
static int64_t accept_bulk(const dpf_plan *plan, const uint8_t *key, uint64_t start, int64_t n, int64_t count,
                           const dpf_target *to) {
    enum { PER_BATCH = 2 * DPF_WORDS };
    uint32_t words[DPF_WORDS];
    uint64_t digits[PER_BATCH], draw[DPF_BATCH], more[DPF_BATCH];
    int64_t waiting[PER_BATCH];
    const int64_t proposed = count; /* these are undecided already */
    for (uint64_t batch = start / PER_BATCH; batch * PER_BATCH < start + (uint64_t)n; batch++) {
        const int64_t at = (int64_t)(batch * PER_BATCH - start);
        const int from = at < 0 ? (int)-at : 0, end = at + PER_BATCH > n ? (int)(n - at) : PER_BATCH;
        int n_waiting = 0, some = 0;
        batch_words(key, accept_nonce(0, 0), batch, words);
        for (int i = 0; i < DPF_WORDS; i++)
            some |= ((words[i] & 0xffff) >= (uint32_t)plan->normal.accept_below) |
                    (words[i] >> 16 >= (uint32_t)plan->normal.accept_below);
        if (!some)
            continue;
        expand(words, 16, digits);
        for (int i = from; i < end; i++)
            if (digits[i] >= (uint64_t)plan->normal.accept_below)
                waiting[n_waiting++] = i;
        for (int first = 0; first < n_waiting; first += DPF_BATCH) {
            for (int b = 0; b < DPF_BATCH; b++)
                draw[b] = batch * PER_BATCH + (uint64_t)waiting[first + b < n_waiting ? first + b : first];
            scattered(key, accept_nonce(0, 1), draw, more);
            for (int b = 0; b < DPF_BATCH && first + b < n_waiting; b++) {
                const int64_t i = waiting[first + b];
                const uint64_t v = digits[i] << 48 | more[b] >> 16;
                int known = 0;
                for (int64_t u = 0; u < proposed; u++)
                    known |= to->undecided[u] == at + i;
                if (!known && accepts(plan, to->lo[at + i], ~v) != 1)
                    give_up(to, at + i, &count);
            }
        }
    }
    dpf_scrub_law();
    dpf_wipe(words, sizeof words);
    dpf_wipe(digits, sizeof digits);
    dpf_wipe(more, sizeof more);
    return count;
}

/* The first 64 acceptance digits, from both levels, for the 1,024 draws of a batch. */
static void acceptance(const uint8_t *key, uint64_t batch, uint64_t candidate, uint64_t *digits) {
    uint32_t words[DPF_WORDS];
    uint64_t more[DPF_STEP];
    batch_words(key, accept_nonce(candidate, 0), batch, words);
    expand(words, 16, digits);
    for (uint64_t part = 0; part < 4; part++) {
        batch_words(key, accept_nonce(candidate, 1), 4 * batch + part, words);
        expand(words, 64, more);
        for (int i = 0; i < DPF_STEP; i++)
            digits[part * DPF_STEP + (uint64_t)i] = digits[part * DPF_STEP + (uint64_t)i] << 48 | more[i] >> 16;
    }
    dpf_scrub_cipher();
    dpf_wipe(words, sizeof words);
    dpf_wipe(more, sizeof more);
}

/* Make `candidates` proposals for every draw, and take the first that is accepted. */
static int64_t accept_constant_work(const dpf_plan *plan, const uint8_t *key, uint64_t start, int64_t n,
                                    const dpf_target *to) {
    enum { PER_BATCH = 2 * DPF_WORDS };
    uint64_t digits[PER_BATCH];
    int64_t k[PER_BATCH], undecided[PER_BATCH], count = 0;
    int8_t taken[PER_BATCH]; /* 0: none yet, 1: accepted, -1: undecided */
    for (uint64_t batch = start / PER_BATCH; batch * PER_BATCH < start + (uint64_t)n; batch++) {
        const int64_t at = (int64_t)(batch * PER_BATCH - start);
        const int from = at < 0 ? (int)-at : 0, end = at + PER_BATCH > n ? (int)(n - at) : PER_BATCH, m = end - from;
        memset(taken, 0, sizeof taken);
        for (uint64_t candidate = 0; candidate < (uint64_t)plan->normal.candidates; candidate++) {
            const dpf_target proposal = {.lo = k, .undecided = undecided};
            const uint64_t first = start + (uint64_t)(at + from);
            const int64_t left = gaussian_propose(plan, 1, key, first, candidate, m, &proposal);
            acceptance(key, batch, candidate, digits);
            for (int64_t i = 0; i < left; i++)
                taken[undecided[i]] = taken[undecided[i]] == 0 ? -1 : taken[undecided[i]];
            for (int i = 0; i < m; i++) {
                const int verdict = accepts(plan, k[i], ~digits[from + i]);
                if (taken[i] == 0 && verdict == 1)
                    to->lo[at + from + i] = k[i];
                taken[i] = (int8_t)(taken[i] == 0 ? verdict : taken[i]);
            }
        }
        for (int i = 0; i < m; i++)
            if (taken[i] != 1)
                give_up(to, at + from + i, &count);
    }
    dpf_wipe(digits, sizeof digits);
    dpf_wipe(k, sizeof k);
    return count;
}

static const dpf_law discrete_gaussian_law = {.decide = discrete_gaussian_decide, .table = 1, .last_tier = DPF_DOUBLE};

static int64_t discrete_gaussian_fill(const dpf_plan *plan, int constant_work, const uint8_t *key, uint64_t start,
                                      int64_t n, const dpf_target *to) {
    if (plan->search.steps && constant_work)
        discrete_gaussian_warm(plan);
    if (plan->search.steps)
        return draw_all(&discrete_gaussian_law, plan, constant_work, key, start, 0, n, to);
    const dpf_target low = {.lo = to->lo, .undecided = to->undecided};
    const int64_t count =
        constant_work ? accept_constant_work(plan, key, start, n, &low)
                      : accept_bulk(plan, key, start, n, gaussian_propose(plan, 0, key, start, 0, n, &low), &low);
    for (int64_t i = 0; i < n && to->hi; i++)
        to->hi[i] = to->lo[i] >> 63;
    return count;
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

static void discrete_gaussian_refine(dpf_job *job, int all) {
    refine_waiting(&discrete_gaussian_law, job, all);
}

static const dpf_code discrete_gaussian = {"discrete_gaussian", 0, discrete_gaussian_fill, discrete_gaussian_tier, discrete_gaussian_refine};
