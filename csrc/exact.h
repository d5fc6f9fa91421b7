/* SPDX-License-Identifier: Apache-2.0
 * Real numbers from 0 to 2^128, each between two ends in fixed point: what the last tier decides
 * with [exact.md]. Every function of reals rounds the lower end down and the upper end up. */
#pragma once
#include "dpf_impl.h"

/* One draw in 2^38 comes here: its code is to be small. That of plans, with limbs of its own, is to
 * be quick. */
#define ONE_COPY __attribute__((noinline, unused)) static
#if defined(__GNUC__) && !defined(__clang__) && !defined(LIMBS)
#pragma GCC optimize("Os")
#endif

/* A number has so many limbs, of 64 digits, the least first; two are before the point. */
#ifndef LIMBS
#define LIMBS DPF_EXACT_LIMBS
#endif
enum {
    POINT = LIMBS - 2,                 /* limbs behind the point: a unit is 2^-832 for draws */
    ODD_TERMS = 64 * POINT * 79 / 250, /* for atanh z, z <= 1/3 */
    TAYLOR_TERMS = 9 * POINT + 43      /* for e^-x, sin x and cos x, x <= 1.4 */
};

typedef struct {
    uint64_t limb[LIMBS];
} fixed;

typedef struct {
    fixed low, high;
} ends;

static const fixed zero = {{0}}, unit = {{1}}, one = {{[POINT] = 1}};
static const uint64_t log_two[DPF_EXACT_LIMBS] = {
    0x72ce87b19d6548ca, 0x256fa0ec7657f74b, 0xb9ea9bc3b136603b, 0x1acbda11317c387e, 0x3e96ca16224ae8c5,
    0x27573b291169b825, 0xed2eae35c1382144, 0x559552fb4afa1b10, 0xe7b876206debac98, 0x8a0d175b8baafa2b,
    0x40f343267298b62d, 0xc9e3b39803f2f6af, 0xb17217f7d1cf79ab}; /* rounded down */
static const uint64_t quarter_turn[DPF_EXACT_LIMBS] = {
    0xae9f24117c4b1fe6, 0xee386bfb5a899fa5, 0x0bff5cb6f406b7ed, 0xf44c42e9a637ed6b, 0xe485b576625e7ec6,
    0x4fe1356d6d51c245, 0x302b0a6df25f1437, 0xef9519b3cd3a431b, 0x514a08798e3404dd, 0x020bbea63b139b22,
    0x29024e088a67cc74, 0xc4c6628b80dc1cd1, 0xc90fdaa22168c234}; /* pi/4, rounded down */

/* ---- numbers */

/* a += b */
ONE_COPY void add(fixed *a, const fixed *b) {
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        const dpf_wide sum = (dpf_wide)a->limb[i] + b->limb[i] + carry;
        a->limb[i] = (uint64_t)sum;
        carry = (uint64_t)(sum >> 64);
    }
}

/* a -= b; 0 where that is less. */
ONE_COPY void take(fixed *a, const fixed *b) {
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        const dpf_wide difference = (dpf_wide)a->limb[i] - b->limb[i] - borrow;
        a->limb[i] = (uint64_t)difference;
        borrow = (uint64_t)(difference >> 64) & 1;
    }
    if (borrow)
        *a = zero;
}

ONE_COPY int less(const fixed *a, const fixed *b) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i];
    return 0;
}

static int is_zero(const fixed *a) {
    return !less(&zero, a);
}

/* a = a 2^bits */
ONE_COPY void shift_left(fixed *a, int bits) {
    const int limbs = bits / 64, rest = bits % 64;
    for (int i = LIMBS - 1; i >= 0; i--) {
        const uint64_t here = i >= limbs ? a->limb[i - limbs] : 0, below = i > limbs ? a->limb[i - limbs - 1] : 0;
        a->limb[i] = rest ? here << rest | below >> (64 - rest) : here;
    }
}

/* a = a / 2^bits, rounded down. */
ONE_COPY void shift_right(fixed *a, int bits) {
    const int limbs = bits / 64, rest = bits % 64;
    for (int i = 0; i < LIMBS; i++) {
        const uint64_t here = i + limbs < LIMBS ? a->limb[i + limbs] : 0;
        const uint64_t above = i + limbs + 1 < LIMBS ? a->limb[i + limbs + 1] : 0;
        a->limb[i] = rest ? here >> rest | above << (64 - rest) : here;
    }
}

/* The place of the uppermost digit 1, from 0 on; of 0 it is -1. */
ONE_COPY int top_digit(const fixed *a) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != 0)
            return 64 * i + 63 - __builtin_clzll(a->limb[i]);
    return -1;
}

/* a = a b */
ONE_COPY void multiply(fixed *a, const fixed *b, int up) {
    uint64_t whole[2 * LIMBS] = {0}, rest = 0;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t carry = 0;
        if (a->limb[i] == 0)
            continue; /* terms of a series have fewer and fewer */
        for (int j = 0; j < LIMBS; j++) {
            const dpf_wide part = (dpf_wide)a->limb[i] * b->limb[j] + whole[i + j] + carry;
            whole[i + j] = (uint64_t)part;
            carry = (uint64_t)(part >> 64);
        }
        whole[i + LIMBS] = carry;
    }
    for (int i = 0; i < POINT; i++)
        rest |= whole[i];
    memcpy(a->limb, whole + POINT, sizeof a->limb);
    if (up && rest)
        add(a, &unit);
}

/* a = a / by. clang-cl links no runtime that divides 128 bits. */
ONE_COPY void divide(fixed *a, uint64_t by, int up) {
    uint64_t rest = 0;
    for (int i = top_digit(a) / 64; i >= 0; i--) {
#if defined(_MSC_VER) && defined(__x86_64__)
        __asm__("divq %2" : "+a"(a->limb[i]), "+d"(rest) : "r"(by) : "cc");
#else
        const dpf_wide part = (dpf_wide)rest << 64 | a->limb[i];
        a->limb[i] = (uint64_t)(part / by);
        rest = (uint64_t)(part % by);
#endif
    }
    if (up && rest)
        add(a, &unit);
}

/* Digit `at` of a number; 0 below its last one. */
ONE_COPY uint64_t digit(const fixed *a, int at) {
    return at < 0 ? 0 : a->limb[at / 64] >> at % 64 & 1;
}

/* to = a 2^behind / b, rounded down, where to was 0. Return whether anything is left. */
ONE_COPY int divide_integers(const uint64_t *a, int n, const uint64_t *b, int m, int behind, uint64_t *to) {
    uint64_t rest[DPF_RATIO_LIMBS + 1] = {0}, less_b[DPF_RATIO_LIMBS + 1], left = 0;
    for (int at = 64 * n - 1; at >= -behind; at--) {
        uint64_t in = at < 0 ? 0 : a[at / 64] >> at % 64 & 1, borrow = 0;
        for (int i = 0; i <= m; i++) {
            const uint64_t out = rest[i] >> 63;
            rest[i] = rest[i] << 1 | in;
            const dpf_wide difference = (dpf_wide)rest[i] - (i < m ? b[i] : 0) - borrow;
            in = out;
            less_b[i] = (uint64_t)difference;
            borrow = (uint64_t)(difference >> 64) & 1;
        }
        if (!borrow) {
            memcpy(rest, less_b, (size_t)(m + 1) * sizeof *rest);
            to[(at + behind) / 64] |= (uint64_t)1 << (at + behind) % 64;
        }
    }
    for (int i = 0; i <= m; i++)
        left |= rest[i];
    return left != 0;
}

/* to = the root of a, rounded down, of so many limbs, for an a of at most 2 limbs - 1. */
ONE_COPY void root_of_integer(const uint64_t *a, int n, uint64_t *to, int limbs) {
    uint64_t rest[DPF_EXACT_LIMBS] = {0}, less_tried[DPF_EXACT_LIMBS];
    memset(to, 0, (size_t)limbs * sizeof *to);
    for (int at = 64 * n - 2; at >= 0; at -= 2) {
        uint64_t in = a[at / 64] >> at % 64 & 3, in_tried = 1, borrow = 0;
        for (int i = 0; i < limbs; i++) {
            const uint64_t shifted = rest[i] << 2 | in, tried = to[i] << 2 | in_tried;
            const dpf_wide difference = (dpf_wide)shifted - tried - borrow;
            in = rest[i] >> 62;
            in_tried = to[i] >> 62;
            rest[i] = shifted;
            less_tried[i] = (uint64_t)difference;
            borrow = (uint64_t)(difference >> 64) & 1;
        }
        if (!borrow)
            memcpy(rest, less_tried, (size_t)limbs * sizeof *rest);
        for (int i = limbs - 1; i >= 0; i--)
            to[i] = to[i] << 1 | (i > 0 ? to[i - 1] >> 63 : !borrow);
    }
}

/* a / b, rounded down; b > 0. */
ONE_COPY fixed quotient(const fixed *a, const fixed *b) {
    fixed to = zero;
    divide_integers(a->limb, top_digit(a) / 64 + 1, b->limb, LIMBS, 64 * POINT, to.limb);
    return to;
}

/* The square root, rounded down. */
ONE_COPY fixed root(const fixed *a) {
    uint64_t digits[POINT + LIMBS] = {0};
    fixed to;
    memcpy(digits + POINT, a->limb, sizeof a->limb);
    root_of_integer(digits, POINT + LIMBS, to.limb, LIMBS);
    return to;
}

/* ---- reals */

ONE_COPY ends exactly(fixed a) {
    return (ends){a, a};
}

ONE_COPY ends integer(uint64_t n) {
    const fixed a = {{[POINT] = n}};
    return exactly(a);
}

ONE_COPY ends sum(ends x, ends y) {
    add(&x.low, &y.low);
    add(&x.high, &y.high);
    return x;
}

/* x - y, which is not below 0. */
ONE_COPY ends difference(ends x, ends y) {
    take(&x.low, &y.high);
    take(&x.high, &y.low);
    return x;
}

ONE_COPY ends product(ends x, ends y) {
    multiply(&x.low, &y.low, 0);
    multiply(&x.high, &y.high, 1);
    return x;
}

ONE_COPY ends over_integer(ends x, uint64_t by) {
    divide(&x.low, by, 0);
    divide(&x.high, by, 1);
    return x;
}

/* x, but for at most a unit. */
ONE_COPY ends but_for_a_unit(ends x) {
    take(&x.low, &unit);
    add(&x.high, &unit);
    return x;
}

ONE_COPY ends ratio(ends x, ends y) {
    ends found = {quotient(&x.low, &y.high), quotient(&x.high, &y.low)};
    add(&found.high, &unit);
    return found;
}

ONE_COPY ends root_of(ends x) {
    ends found = {root(&x.low), root(&x.high)};
    add(&found.high, &unit);
    return found;
}

/* A real whose first digits are these, rounded down. */
ONE_COPY ends beginning(const uint64_t digits[DPF_EXACT_LIMBS]) {
    ends found;
    memcpy(found.low.limb, digits + DPF_EXACT_LIMBS - LIMBS, sizeof found.low.limb);
    found.high = found.low;
    add(&found.high, &unit);
    return found;
}

/* atanh z, z from 0 to 1/3. */
ONE_COPY ends artanh(ends z) {
    const ends square = product(z, z);
    ends power = z, found = z;
    for (uint64_t n = 3; n < 2 * ODD_TERMS; n += 2) {
        power = product(power, square);
        found = sum(found, over_integer(power, n));
    }
    return but_for_a_unit(found);
}

/* -ln u, 0 < u <= 1: with w = u 2^k in [1/2, 1), k ln 2 + 2 atanh((1 - w) / (1 + w)). */
ONE_COPY ends minus_log_of(fixed u) {
    const int k = 64 * POINT - 1 - top_digit(&u);
    ends w = exactly(u);
    if (k < 0)
        return exactly(zero);
    shift_left(&w.low, k);
    w.high = w.low;
    const ends below = difference(exactly(one), w), above = sum(exactly(one), w);
    ends z = exactly(quotient(&below.low, &above.low));
    add(&z.high, &unit);
    return sum(product(beginning(log_two), integer((uint64_t)k)), product(artanh(z), integer(2)));
}

/* The same of a real. */
ONE_COPY ends minus_log(ends u) {
    return (ends){minus_log_of(u.high).low, minus_log_of(u.low).high};
}

/* x^n/n! with n = first, first + every, ...: one added, the next taken off. */
ONE_COPY ends alternating(ends x, int first, int every) {
    ends term = exactly(one), added = exactly(zero), taken = exactly(zero);
    for (int n = 0; n < TAYLOR_TERMS; n++) {
        const int place = n - first;
        if (n > 0)
            term = over_integer(product(term, x), (uint64_t)n);
        if (place >= 0 && place % (2 * every) == 0)
            added = sum(added, term);
        else if (place >= 0 && place % every == 0)
            taken = sum(taken, term);
    }
    return but_for_a_unit(difference(added, taken));
}

/* e^-x of a number: 2^-j e^-r, r = x - j ln 2. */
ONE_COPY ends exp_minus_of(fixed x) {
    const ends most = integer(600);
    fixed cut = x;
    if (!less(&x, &most.low))
        return (ends){zero, unit}; /* e^-600 < 2^-865 */
    shift_right(&cut, 64 * POINT - 32);
    const int j = (int)((dpf_wide)cut.limb[0] * 1549082004 >> 62); /* which is below 2^30/ln 2 */
    ends found = alternating(difference(exactly(x), product(beginning(log_two), integer((uint64_t)j))), 0, 1);
    shift_right(&found.low, j);
    shift_right(&found.high, j);
    add(&found.high, &unit);
    return found;
}

ONE_COPY ends exp_minus(ends x) {
    return (ends){exp_minus_of(x.high).low, exp_minus_of(x.low).high};
}

/* ---- what laws have of their scale t */

/* q = e^(-1/t) */
ONE_COPY ends geometric_ratio(ends t) {
    return exp_minus(ratio(exactly(one), t));
}

/* C = ln(2 / (1 + q)) */
ONE_COPY ends log_weight(ends q) {
    return minus_log(over_integer(sum(exactly(one), q), 2));
}

/* The one-sided law has C = 0; its plan has few units there, for a margin's sake. */
static int one_sided(const dpf_plan *plan) {
    return plan->logarithm.wide_c.hi == 0 && plan->logarithm.wide_c.lo <= DPF_ONE_SIDED;
}

/* f(k) and f(k + 1)/f(k), f(k) = e^(-k^2 / 2 sigma^2). */
typedef struct {
    ends f, growth, square;
} terms;

/* Those of k = 1. */
ONE_COPY terms first_terms(ends t) {
    const ends q = exp_minus(ratio(exactly(one), product(product(t, t), integer(2)))), square = product(q, q);
    return (terms){q, product(q, square), square};
}

ONE_COPY void next_term(terms *at) {
    at->f = product(at->f, at->growth);
    at->growth = product(at->growth, at->square);
}

/* f(1) + f(2) + ...; what follows a term is less than a geometric series. */
ONE_COPY ends sum_of_terms(terms at) {
    ends total = exactly(zero);
    for (; !is_zero(&at.f.low); next_term(&at))
        total = sum(total, at.f);
    const ends rest = ratio(at.f, difference(exactly(one), at.growth));
    add(&total.high, &rest.high);
    return total;
}
