/* SPDX-License-Identifier: Apache-2.0
 * The last tier: it reads digits until they decide a draw, at most to level 3 [exact.md]. Compiled
 * once: all machines decide alike. */
#include "exact.h"

enum {
    LAST_LEVEL = 3,
    SIDE_TERMS = 52, /* terms of cosh hs, h <= 1/8 */
    WIDTH_TERMS = 42 /* terms of e^(-s^2 / 2 sigma^2), sigma^2 >= 2^14 */
};

/* 2^100, between what is taken off and 0. */
static const fixed far = {{[LIMBS - 1] = (uint64_t)1 << 36}};

/* ---- cells of digits */

/* [prefix, prefix + 1) 2^-bits */
static ends cell_of(dpf_digits digits) {
    fixed prefix;
    memcpy(prefix.limb, digits.prefix, sizeof prefix.limb);
    ends cell = exactly(prefix);
    add(&cell.high, &unit);
    shift_left(&cell.low, 64 * POINT - digits.bits);
    shift_left(&cell.high, 64 * POINT - digits.bits);
    return cell;
}

/* What follows the first digits. */
static dpf_digits behind(dpf_digits digits, int first) {
    digits.bits -= first;
    for (int i = 0; i < LIMBS; i++)
        digits.prefix[i] &= 64 * i >= digits.bits         ? 0
                            : 64 * (i + 1) <= digits.bits ? UINT64_MAX
                                                          : UINT64_MAX >> (64 * (i + 1) - digits.bits);
    return digits;
}

static int flag(dpf_digits digits, int at) {
    const int place = digits.bits - 1 - at;
    return (int)(digits.prefix[place / 64] >> place % 64 & 1);
}

/* ---- from reals to integers */

static dpf_signed whole(fixed a) {
    return (dpf_signed)((dpf_wide)a.limb[LIMBS - 1] << 64 | a.limb[LIMBS - 2]);
}

/* The integer that both ends of y have as their floor, less `origin`. */
static int floor_of(ends y, fixed origin, dpf_u128 *found) {
    const dpf_signed first = whole(y.low), last = whole(y.high), k = first - whole(origin);
    *found = (dpf_u128){(uint64_t)k, (uint64_t)(k >> 64)};
    return first == last;
}

/* offset + 1/2, from 0 to 1: exactly, but for an offset below 2^-700, which may have underflowed */
static ends half_beyond(double offset) {
    const ends half = over_integer(exactly(one), 2);
    double size = __builtin_fabs(offset);
    int shift = 0;
    while (size != (double)(uint64_t)size && shift < 64 * POINT)
        size *= 2.0, shift++;
    ends part = integer((uint64_t)size);
    shift_right(&part.low, shift);
    part.high = part.low;
    const ends found = offset < 0.0 ? difference(half, part) : sum(half, part);
    return __builtin_fabs(offset) < 0x1p-700 ? but_for_a_unit(found) : found;
}

/* floor(offset + 1/2 + X), X = M or -M, M above its lower end. */
static int nearest_step(double offset, int negative, ends m, dpf_u128 *found) {
    ends y = sum(exactly(far), half_beyond(offset));
    if (!negative)
        return floor_of(sum(y, m), far, found);
    y = difference(y, m);
    take(&y.high, &unit); /* which is not reached */
    return floor_of(y, far, found);
}

/* What -ln U comes to at most, and sqrt(-2 ln U): U has so many digits, and is not 0. */
static ends up_to(ends t, int bits) {
    return (ends){zero, product(t, integer((uint64_t)bits)).high};
}

/* ---- the laws: 0 if the digits leave a draw undecided. Where the grid is far coarser than the
 * scale, the least and the most noise that there is decide it */

int dpf_exact_discrete_laplace(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine,
                               dpf_u128 *found) {
    const ends cell = cell_of(behind(digits[0], 1)), t = beginning(plan->scale);
    (void)offset, (void)sine;
    if (is_zero(&cell.low))
        return 0;
    const ends c = one_sided(plan) ? exactly(zero) : log_weight(geometric_ratio(t));
    if (!floor_of(product(t, sum(c, minus_log(cell))), zero, found))
        return 0;
    if (flag(digits[0], 0)) {
        const dpf_wide size = (dpf_wide)found->hi << 64 | found->lo, k = 0 - size;
        *found = (dpf_u128){(uint64_t)k, (uint64_t)(k >> 64)};
    }
    return 1;
}

int dpf_exact_laplace(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine, dpf_u128 *found) {
    const ends cell = cell_of(behind(digits[0], 1)), t = beginning(plan->scale);
    const int negative = flag(digits[0], 0);
    (void)sine;
    return !is_zero(&cell.low) && (nearest_step(offset, negative, up_to(t, digits[0].bits), found) ||
                                   nearest_step(offset, negative, product(t, minus_log(cell)), found));
}

int dpf_exact_gaussian(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine, dpf_u128 *found) {
    const ends cell = cell_of(digits[0]), v = cell_of(behind(digits[1], 3)), t = beginning(plan->scale);
    const int negative = flag(digits[1], sine), falling = sine == flag(digits[1], 2);
    if (is_zero(&cell.low))
        return 0;
    if (nearest_step(offset, negative, up_to(t, digits[0].bits), found))
        return 1;
    const ends turn = beginning(quarter_turn);
    const ends least = product(turn, exactly(v.low)), most = product(turn, exactly(v.high));
    const ends from = alternating(falling ? most : least, !falling, 2);
    const ends to = alternating(falling ? least : most, !falling, 2);
    const ends side = {from.low, to.high};
    const ends r = root_of(product(minus_log(cell), integer(2)));
    return nearest_step(offset, negative, product(t, product(r, side)), found);
}

/* |X| >= k iff U <= 2 (f(k) + f(k+1) + ...)/theta, theta = 1 + 2 (f(1) + f(2) + ...) */
int dpf_exact_discrete_gaussian(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine,
                                dpf_u128 *found) {
    const ends cell = cell_of(behind(digits[0], 1));
    terms at = first_terms(beginning(plan->scale));
    ends tail = sum_of_terms(at);
    const ends half = sum(over_integer(exactly(one), 2), tail); /* theta/2 */
    const ends level = product(cell, half);
    int64_t k = 0;
    (void)offset, (void)sine;
    if (is_zero(&cell.low))
        return 0;
    while (!less(&tail.low, &level.high)) {
        k++;
        tail = difference(tail, at.f);
        next_term(&at);
    }
    if (!less(&tail.high, &level.low))
        return 0;
    k = flag(digits[0], 0) ? -k : k;
    *found = (dpf_u128){(uint64_t)k, (uint64_t)(k >> 63)};
    return 1;
}

/* Whether V < A(0)/A(k): 1, or -1, or 0 if the digits leave it undecided. With h = |k| / 2 sigma^2,
 * A(k) is the sum over m and j of h^2m/(2m)! (-1/8 sigma^2)^j/j! / (2m + 2j + 1). */
int dpf_exact_acceptance(const dpf_plan *plan, int64_t k, const dpf_digits *digits) {
    const ends t = beginning(plan->scale), v = cell_of(*digits), square = product(t, t);
    const ends h = ratio(integer(k < 0 ? 0 - (uint64_t)k : (uint64_t)k), product(square, integer(2)));
    const ends narrow = ratio(exactly(one), product(square, integer(8))), wide = product(h, h);
    const ends most_h = over_integer(exactly(one), 1 << 3), most_narrow = over_integer(exactly(one), 1 << 16);
    ends added[2] = {{zero, zero}, {zero, zero}}, taken[2] = {{zero, zero}, {zero, zero}}; /* A(0)'s, A(k)'s */
    ends side = exactly(one);
    if (k == 0)
        return 1;
    if (less(&most_h.low, &h.high) || less(&most_narrow.low, &narrow.high))
        return 0;
    for (uint64_t m = 0; m < SIDE_TERMS; m++) {
        ends term = side;
        for (uint64_t j = 0; j < WIDTH_TERMS; j++) {
            const ends part = over_integer(term, 2 * (m + j) + 1);
            for (int of = m > 0; of < 2; of++) {
                ends *const to = j % 2 ? &taken[of] : &added[of];
                *to = sum(*to, part);
            }
            term = over_integer(product(term, narrow), j + 1);
        }
        side = over_integer(product(side, wide), (2 * m + 1) * (2 * m + 2));
    }
    const ends at_zero = but_for_a_unit(difference(added[0], taken[0]));
    const ends at_k = but_for_a_unit(difference(added[1], taken[1]));
    const ends level = product(v, at_k);
    return !less(&at_zero.low, &level.high) ? 1 : less(&at_zero.high, &level.low) ? -1 : 0;
}

/* ---- digits of the stream */

/* The word of a draw at one level, of so many bits. */
static uint64_t packed(const uint8_t *key, uint64_t nonce, int bits, uint64_t draw) {
    const uint64_t per_group = 16 * 512 / (uint64_t)bits, slot = draw % per_group / 16;
    uint8_t block[64];
    uint64_t word = 0;
    dpf_block(key, 16 * (draw / per_group) + draw % 16, nonce, block);
    memcpy(&word, block + slot * (uint64_t)bits / 8, (size_t)bits / 8);
    dpf_wipe(block, sizeof block);
    return word;
}

static void append(dpf_digits *digits, uint64_t word, int bits) {
    fixed prefix;
    memcpy(prefix.limb, digits->prefix, sizeof prefix.limb);
    shift_left(&prefix, bits);
    prefix.limb[0] |= word;
    memcpy(digits->prefix, prefix.limb, sizeof prefix.limb);
    digits->bits += bits;
}

void dpf_exact_digits(const uint8_t *key, int purpose, uint64_t candidate, int width, uint64_t draw, int level,
                      dpf_digits *digits) {
    memset(digits, 0, sizeof *digits);
    for (int at = 0; at <= level && at < LAST_LEVEL; at++) {
        const int bits = at == 0 ? width : 64;
        append(digits, packed(key, dpf_nonce((uint64_t)purpose, candidate, (uint64_t)at), bits, draw), bits);
    }
    if (level == LAST_LEVEL) {
        uint64_t words[8];
        dpf_block(key, draw, dpf_nonce((uint64_t)purpose, candidate, LAST_LEVEL), (uint8_t *)words);
        for (int i = 7; i >= 0; i--)
            append(digits, words[i], 64);
        dpf_wipe(words, sizeof words);
    }
}

/* One proposal, or the draw of a law that makes none. */
static int proposed(dpf_exact_law *law, int pairs, const dpf_plan *plan, const uint8_t *key, uint64_t candidate,
                    uint64_t draw, double offset, dpf_u128 *found) {
    for (int level = 1; level <= LAST_LEVEL; level++) {
        dpf_digits digits[2];
        for (int word = 0; word <= pairs; word++)
            dpf_exact_digits(key, DPF_PURPOSE_NOISE, candidate, plan->width,
                             !pairs ? draw
                             : word ? draw | 64
                                    : draw & ~(uint64_t)64,
                             level, digits + word);
        if (law(plan, digits, offset, (draw & 64) != 0, found))
            return 1;
    }
    return 0;
}

static int accepted(const dpf_plan *plan, const uint8_t *key, uint64_t candidate, uint64_t draw, dpf_u128 k) {
    int verdict = 0;
    for (int level = 1; level <= LAST_LEVEL && verdict == 0; level++) {
        dpf_digits v;
        dpf_exact_digits(key, DPF_PURPOSE_ACCEPT, candidate, 16, draw, level, &v);
        verdict = dpf_exact_acceptance(plan, (int64_t)k.lo, &v);
    }
    return verdict;
}

int dpf_exact(dpf_exact_law *law, int pairs, int accepts, const dpf_plan *plan, const uint8_t *key, uint64_t draw,
              double offset, dpf_u128 *found) {
    int verdict = 0;
    for (uint64_t candidate = 0; candidate < DPF_PROPOSALS; candidate++) {
        if (!proposed(law, pairs, plan, key, candidate, draw, offset, found))
            break;
        verdict = accepts ? accepted(plan, key, candidate, draw, *found) : 1;
        if (verdict != -1)
            break;
    }
    if (verdict != 1)
        *found = (dpf_u128){0, 0};
    dpf_scrub_exact();
    return verdict == 1;
}

int dpf_exact_planted(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine, dpf_u128 *found) {
    static dpf_exact_law *const laws[] = {NULL, dpf_exact_discrete_laplace, dpf_exact_laplace, dpf_exact_gaussian};
    return plan->law < 4        ? laws[plan->law](plan, digits, offset, sine, found)
           : plan->search.steps ? dpf_exact_discrete_gaussian(plan, digits, offset, sine, found)
                                : dpf_exact_gaussian(plan, digits, offset, sine, found);
}
