# SPDX-License-Identifier: Apache-2.0
"""The laws in intervals against mpmath: cells and ends, draws digit by digit, sums, figures."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from types import FunctionType

import mpmath
import pytest
import tiers

from dpfast.errors import DpfastError
from dpfast.evidence.selftest import reference
from dpfast.noise.release.digits import ACCEPT, NOISE
from dpfast.privacy import exact
from dpfast.privacy.exact import Digits
from dpfast.privacy.exact.balls import erfc
from dpfast.privacy.exact.winner import winners

ZERO, HALF = Fraction(0), Fraction(1, 2)
SIZES = [16, 64, 64, *[512] * 8]


def mp(x: Fraction | int) -> mpmath.mpf:
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


def floor(x: mpmath.mpf) -> int:
    return int(mpmath.floor(x))


class Words:
    """A reader of random words that shows digits by level; some are planted, whole or part."""

    def __init__(self, seed: object, planted: dict[tuple[int, int, int], Digits] | None = None) -> None:
        self.seed, self.planted, self.deepest = seed, planted or {}, 0

    def whole(self, index: int, purpose: int = NOISE, candidate: int = 0) -> Digits:
        bits = sum(SIZES)
        word = random.Random(f"{self.seed} {index} {purpose} {candidate}").getrandbits(bits)
        known = self.planted.get((index, purpose, candidate), Digits(0, 0))
        rest = bits - known.bits
        return Digits(known.prefix << rest | word & (1 << rest) - 1, bits)

    def __call__(self, index: int, level: int, purpose: int = NOISE, candidate: int = 0) -> Digits:
        self.deepest = max(self.deepest, level)
        word, bits = self.whole(index, purpose, candidate), sum(SIZES[: level + 1])
        return Digits(word.prefix >> (word.bits - bits), bits)


def cut(word: Digits, bits: int) -> Digits:
    """Without the first `bits` digits."""
    return Digits(word.prefix & (1 << word.bits - bits) - 1, word.bits - bits)


def cells(bits: int, near: list[int], seed: object) -> Iterator[int]:
    """Random prefixes, the ends, and the neighbours of planted ones."""
    source = random.Random(str(seed))
    yield from (1, 2, 2**bits - 2, 2**bits - 1)
    yield from (source.getrandbits(bits) >> source.randrange(bits // 2) or 1 for _ in range(8))
    yield from (a + d for a in near for d in (-1, 0, 1) if 0 < a + d < 2**bits)


# ------------------------------------------------------------------ geometric


@pytest.mark.parametrize("rate", [Fraction(1, 10**9), Fraction(1, 7), Fraction(3, 2), Fraction(40)], ids=str)
def test_one_sided_geometric(rate: Fraction) -> None:
    """Magnitudes on cells, thresholds planted; draws; the reach of q^k."""
    law = reference.OneSidedGeometric(rate)
    with mpmath.workprec(600):
        for bits in (15, 79, 143):
            near = [floor(mpmath.ldexp(mpmath.exp(-k * mp(rate)), bits)) for k in (1, 2, 17)]
            for a in cells(bits, near, rate):
                ends = [floor(-mpmath.log(mpmath.ldexp(mpmath.mpf(u), -bits)) / mp(rate)) for u in (a, a + 1)]
                assert law.magnitude(a, bits) == (ends[0] if ends[0] == ends[1] else None), (bits, a)
        for i in range(20):
            read = Words(rate)
            u = cut(read.whole(i), 1)
            middle = mpmath.ldexp(mpmath.mpf(u.prefix) + HALF.numerator / 2, -u.bits)
            assert law.draw(read, i) == floor(-mpmath.log(middle) / mp(rate))
        for p in (Fraction(1, 100), HALF, Fraction(99, 100)):
            k = law.quantile(p)
            assert k == law.half_width(p, 1)
            assert 1 - mpmath.exp(-mp(rate) * (k + 1)) >= mp(p) > 1 - mpmath.exp(-mp(rate) * k)
    assert float(law.offset()) == 0
    if rate > Fraction(1, 1000):
        assert law.table(10) == [law.magnitude(a, 10) for a in range(2**10)]


# ------------------------------------------------------------------ rounded reals

OFFSETS = [ZERO, HALF, -HALF, Fraction(3, 8), Fraction(-7, 2**70), Fraction(2**1000) + HALF, Fraction(1, 3), HALF - Fraction(1, 2**900)]  # fmt: skip


def steps(offset: Fraction, low: mpmath.mpf, high: mpmath.mpf, negative: bool) -> int | None:
    """floor(offset + X + 1/2), X = ±M, low < M < high; no integer there but for M = 0."""
    whole = math.floor(offset + HALF)
    rest = offset + HALF - whole
    if negative:
        top = whole - (rest == 0) if low == 0 else whole + floor(mp(rest) - low)
        return top if top == whole + floor(mp(rest) - high) else None
    first = whole + floor(mp(rest) + low)
    return first if first == whole + floor(mp(rest) + high) else None


@pytest.mark.parametrize("ratio", [Fraction(1, 2**60), Fraction(1, 3), Fraction(5), Fraction(2**20) / 7, Fraction(2**60)], ids=str)  # fmt: skip
def test_laplace_on_cells(ratio: Fraction) -> None:
    """The rounded draw on random cells, on those beside a boundary, and at both ends of U."""
    law = reference.Laplace(ratio)
    for offset in OFFSETS:
        with mpmath.workprec(1600):
            for bits in (15, 79, 143):
                rest = mp((offset + HALF) % 1)
                bounds = [abs(m - rest) for m in (-3, -1, 0, 1, 2, 20 * math.ceil(ratio))]
                near = [floor(mpmath.ldexp(mpmath.exp(-e / mp(ratio)), bits)) for e in bounds]
                for a in cells(bits, near, (ratio, offset)):
                    e = [-mp(ratio) * mpmath.log(mpmath.ldexp(mpmath.mpf(u), -bits)) for u in (a + 1, a)]
                    for negative in (False, True):
                        assert law.rounded(negative, a, bits, offset) == steps(offset, *e, negative), (offset, a, bits)
                assert law.rounded(False, 0, bits, offset) is None


def test_laplace_beside_u_1() -> None:
    """If x + 1/2 is an integer the sign alone decides at E near 0; digits of ones do not loop."""
    for bits in (15, 79, 1000):
        law, ones = reference.Laplace(Fraction(1)), 2**bits - 1
        for whole in (0, -5, 2**1100):
            assert law.rounded(False, ones, bits, whole - HALF) == whole
            assert law.rounded(True, ones, bits, whole - HALF) == whole - 1
            assert law.rounded(False, ones, bits, Fraction(whole)) == law.rounded(True, ones, bits, Fraction(whole)) == whole  # fmt: skip
    read = Words(0, {(3, NOISE, 0): Digits(2 ** sum(SIZES) - 1, sum(SIZES))})
    assert reference.Laplace(Fraction(1)).draw(read, 3, HALF) == 0
    assert read.deepest == 1


@pytest.mark.parametrize("ratio", [Fraction(1, 9), Fraction(5), Fraction(2**40)], ids=str)
def test_laplace_draws(ratio: Fraction) -> None:
    """Digits by level give what the deepest give; a boundary over two levels asks for more."""
    law = reference.Laplace(ratio)
    with mpmath.workprec(4096):
        for offset in OFFSETS[:5]:
            for i in range(20):
                read = Words((ratio, offset))
                u = cut(read.whole(i), 1)
                assert law.draw(read, i, offset) == law.rounded(read(i, 0).prefix >> 15 == 1, *u, offset)
            m = floor(mp(ratio))
            bound = mpmath.exp(-(m + 1 - mp((offset + HALF) % 1)) / mp(ratio))
            cell = floor(mpmath.ldexp(bound, 143))
            for below in (0, 1):
                read = Words(below, {(7, NOISE, 0): Digits(cell << 10 | (0 if below else 2**10 - 1), 154)})
                assert law.draw(read, 7, offset) == math.floor(offset + HALF) + m + below
                assert read.deepest == 3


def test_half_widths_of_the_rounded_laws() -> None:
    """The least h, by the tail at h and at h - 1."""
    for ratio in (Fraction(1, 9), Fraction(1), Fraction(10**9, 7), Fraction(2**60)):
        for confidence, n in ((Fraction(1, 100), 1), (Fraction(95, 100), 1), (Fraction(95, 100), 10**9), (1 - Fraction(1, 10**30), 10**6)):  # fmt: skip
            with mpmath.workprec(600):
                share = 1 - mp(confidence) ** (mpmath.mpf(1) / n)
                laplace, gaussian = reference.Laplace(ratio), reference.Gaussian(ratio**2)
                for law, tail in (
                    (laplace, lambda h: mpmath.exp(-(h + mpmath.mpf(1) / 2) / mp(ratio))),
                    (gaussian, lambda h: mpmath.erfc((h + mpmath.mpf(1) / 2) / mp(ratio) / mpmath.sqrt(2))),
                ):
                    h = law.half_width(confidence, n)
                    assert tail(h) <= share, (law, ratio)
                    assert h == 0 or tail(h - 1) > share, (law, ratio)


def normal(u: tuple[int, int], v: tuple[int, int], cosine: bool) -> mpmath.mpf:
    angle = mpmath.pi / 4 * mpmath.ldexp(mpmath.mpf(v[0]), -v[1])
    radius = mpmath.sqrt(-2 * mpmath.log(mpmath.ldexp(mpmath.mpf(u[0]), -u[1])))
    return radius * (mpmath.cos(angle) if cosine else mpmath.sin(angle))


@pytest.mark.parametrize(
    "squared",
    [Fraction(1, 10**6), Fraction(2), *(pytest.param(x, marks=pytest.mark.slow) for x in (Fraction(10**9, 7), Fraction(2**110)))],
    ids=str,
)  # fmt: skip
def test_gaussian_on_cells(squared: Fraction) -> None:
    """The rounded draw on boxes of U and V: random, beside a boundary, at the square's corners."""
    law, source = reference.Gaussian(squared), random.Random(str(squared))
    for offset in OFFSETS:
        with mpmath.workprec(1600):
            ratio = mpmath.sqrt(mp(squared))
            for bits in (13, 77, 141):
                for signs in range(8):
                    sine, v = source.random() < 0.5, source.choice([0, 2**bits - 1, source.getrandbits(bits)])
                    negative, cosine = bool(signs >> (1 if sine else 2) & 1), sine == bool(signs & 1)
                    m = source.choice([0, 1, 2, 3 * math.isqrt(math.ceil(squared))])
                    distance = abs(m - mp((offset + HALF) % 1)) / ratio
                    factor = normal((1, 1), (2 * v + 1, bits + 1), cosine) / normal((1, 1), (0, 1), cosine=True)
                    near = floor(mpmath.ldexp(mpmath.exp(-((distance / factor) ** 2) / 2), bits + 3))
                    picks = [near - 1, near, near + 1, 1, 2 ** (bits + 3) - 1, source.getrandbits(bits + 3)]
                    for u in (u for u in picks if 0 < u < 2 ** (bits + 3)):
                        corners = [(u + 1, v + 1), (u, v)] if cosine else [(u + 1, v), (u, v + 1)]
                        ends = [ratio * normal((a, bits + 3), (b, bits), cosine) for a, b in corners]
                        found = law.rounded(Digits(u, bits + 3), Digits(signs << bits | v, bits + 3), sine, offset)
                        assert found == steps(offset, *ends, negative), (offset, u, v, signs, sine)
    assert law.rounded(Digits(0, 80), Digits(5, 80), False, ZERO) is None


@pytest.mark.parametrize("squared", [Fraction(1, 9), Fraction(25), Fraction(2**100)], ids=str)
def test_gaussian_draws(squared: Fraction) -> None:
    """Both draws of a pair from the same two words, digits by level, at the point of all digits."""
    law = reference.Gaussian(squared)
    with mpmath.workprec(6000):
        ratio = mpmath.sqrt(mp(squared))
        for offset in OFFSETS[:5]:
            for i in (0, 5, 130, 2**40 + 3):
                read = Words((squared, offset))
                u, word = read.whole(i), read.whole(i | 64)
                v, signs = cut(word, 3), word.prefix >> (word.bits - 3)
                for sine in (False, True):
                    n = normal(u, v, cosine=sine == bool(signs & 1)) * (-1 if signs >> (2 - sine) & 1 else 1)
                    expected = math.floor(offset) + floor(mp(offset - math.floor(offset) + HALF) + ratio * n)
                    assert law.draw(read, i | 64 if sine else i, offset) == expected
    # V and its sign plain, U planted on the boundary m + 1/2 for two levels: the third decides
    with mpmath.workprec(4096):
        for m in (1, 2 * math.isqrt(math.ceil(squared))):
            v = Digits(0b000 << 1021 | 12345 << 990, 1024)
            factor = mpmath.cos(mpmath.pi / 4 * mpmath.ldexp(mpmath.mpf(12345 << 990) + HALF.numerator / 2, -1021))
            u = mpmath.exp(-(((m + mpmath.mpf(1) / 2) / mpmath.sqrt(mp(squared)) / factor) ** 2) / 2)
            cell = floor(mpmath.ldexp(u, 144))
            for below in (0, 1):
                read = Words(below, {(1, NOISE, 0): Digits(cell << 10 | (0 if below else 2**10 - 1), 154), (65, NOISE, 0): v})  # fmt: skip
                assert law.draw(read, 1, ZERO) == m + below
                assert read.deepest == 3


def test_gaussian_law() -> None:
    """2,048 pairs, sigma = 2, normal cells: chi-square at 1e-6; squares uncorrelated."""
    law, read = reference.Gaussian(Fraction(4)), Words("law")
    pairs = [(law.draw(read, i, ZERO), law.draw(read, i | 64, ZERO)) for i in range(4096) if not i & 64]
    for draws in zip(*pairs, strict=True):
        seen = Counter(max(-5, min(5, k)) for k in draws)
        edge = [-math.inf, *(k + 0.5 for k in range(-5, 5)), math.inf]
        share = [(math.erf(b / math.sqrt(8)) - math.erf(a / math.sqrt(8))) / 2 for a, b in itertools.pairwise(edge)]  # fmt: skip
        expected = {k: len(pairs) * p for k, p in zip(range(-5, 6), share, strict=True)}
        assert sum((seen[k] - e) ** 2 / e for k, e in expected.items()) < 47.5  # 10 degrees of freedom
    assert abs(sum(a * b for a, b in pairs)) < 5 * 4.1 * math.sqrt(len(pairs))
    assert abs(sum((a * a - 4) * (b * b - 4) for a, b in pairs)) < 6 * 36 * math.sqrt(len(pairs))


def test_digits_that_end_raise() -> None:
    """4,096 zeros: the Gaussians give up, and say so."""
    nothing = Words(0, {(i, NOISE, 0): Digits(0, sum(SIZES)) for i in (0, 64)})
    for law in (reference.Gaussian(Fraction(3)), reference.DiscreteGaussian(Fraction(3)), reference.DiscreteGaussian(Fraction(10**9))):  # fmt: skip
        with pytest.raises(DpfastError, match="open"):
            law.draw(nothing, 0, *([ZERO] if isinstance(law, reference.Gaussian) else []))


# ------------------------------------------------------------------ discrete Gaussian

SMALL = [Fraction(1, 10**6), Fraction(1, 30), Fraction(1), Fraction(10**4, 777), Fraction(2**14)]


class Sums:
    """f(k) + f(k+1) + ... by adding up, for sigma^2 small enough."""

    def __init__(self, variance: Fraction, bits: int = 400) -> None:
        with mpmath.workprec(bits + 64):
            last = math.isqrt(int(2 * variance * bits)) + 2
            step = mpmath.exp(-mp(1 / (2 * variance)))
            self.f, ratio = [mpmath.mpf(1)], step  # f(k + 1) = f(k) step^(2 k + 1)
            for _ in range(last - 1):
                self.f.append(self.f[-1] * ratio)
                ratio *= step**2
            self.tail = [mpmath.mpf(0)]
            for f in reversed(self.f):
                self.tail.append(self.tail[-1] + f)
            self.tail.reverse()
            self.theta = 1 + 2 * self.tail[1]

    def __call__(self, k: int) -> mpmath.mpf:
        """P(|X| >= k), k >= 1."""
        return 2 * self.tail[min(k, len(self.tail) - 1)] / self.theta


sums_of = cache(Sums)


@pytest.mark.parametrize("variance", SMALL, ids=str)
def test_thresholds_and_table(variance: Fraction) -> None:
    """Every threshold as mpmath adds it up, its table, and magnitudes on cells beside them."""
    law = reference.DiscreteGaussian(variance)
    assert law.inversion
    with mpmath.workprec(464):
        sums = sums_of(variance)
        k, expected = 1, []
        while (at := floor(mpmath.ldexp(sums(k), 64))) >= 1:
            expected.append(at)
            k += 1
        assert law.thresholds() == expected
        for bits in (7, 15):
            inside = [floor(mpmath.ldexp(sums(k), bits)) for k in range(1, len(expected) + 2)]
            count = Counter(inside)
            above, right = len(inside), []
            for a in range(2**bits):
                above -= count[a]
                right.append(None if a == 0 or count[a] else above)
            assert law.table(bits) == right
        for bits in (15, 79, 143):
            near = [floor(mpmath.ldexp(sums(k), bits)) for k in (1, 2, len(expected) // 2 + 1, len(expected) + 1)]
            for a in cells(bits, near, variance):
                least, most = (magnitude(sums, u, bits) for u in (a + 1, a))
                assert law.magnitude(a, bits) == (least if least == most else None), (bits, a)
    assert law.magnitude(0, 79) is None


def magnitude(sums: Sums, u: int, bits: int) -> int:
    """The number of k with T_k >= u / 2^bits, by halving."""
    low, high = 0, len(sums.tail)
    while high - low > 1:
        k = (low + high) // 2
        low, high = (k, high) if mpmath.ldexp(sums(k), bits) >= u else (low, k)
    return low


@pytest.mark.parametrize("variance", SMALL[1:], ids=str)
def test_discrete_gaussian_draws_by_inversion(variance: Fraction) -> None:
    """By level as by the first 400 digits; a planted threshold asks on; the sign is first."""
    law = reference.DiscreteGaussian(variance)
    with mpmath.workprec(464):
        sums = sums_of(variance)
        for i in range(40):
            read = Words(variance)
            word = read.whole(i)
            u = cut(Digits(word.prefix >> (word.bits - 401), 401), 1)
            assert law.draw(read, i) == magnitude(sums, *u) * (-1 if word.prefix >> (word.bits - 1) else 1)
        for k in (1, 2):
            cell = floor(mpmath.ldexp(sums(k), 143))
            for below in (0, 1):
                read = Words(below, {(2, NOISE, 0): Digits(1 << 153 | cell << 10 | (0 if below else 2**10 - 1), 154)})
                assert law.draw(read, 2) == -(k - 1 + below)
                assert read.deepest == 3


LARGE = [Fraction(2**14 + 1), Fraction(10**9, 7), Fraction(10**12), Fraction(10**18)]


@pytest.mark.parametrize("variance", LARGE, ids=str)
def test_acceptance(variance: Fraction) -> None:
    """A(0)/A(k) is p/q against p/q at 0, q by the error function; and cells of V beside it."""
    law, sigma = reference.DiscreteGaussian(variance), math.isqrt(math.floor(variance))
    assert not law.inversion
    with mpmath.workprec(2400):

        def weight(k: int) -> mpmath.mpf:
            root = mpmath.sqrt(2 * mp(variance))
            q = mpmath.erf((k + mpmath.mpf(1) / 2) / root) - mpmath.erf((k - mpmath.mpf(1) / 2) / root)
            return mpmath.exp(-mp(k**2 / (2 * variance))) / q

        def integral(k: int) -> mpmath.mpf:
            with mpmath.workprec(200):
                a = [mpmath.quad(lambda s, j=j: mpmath.exp(-(s**2) / 2 / mp(variance)) * mpmath.cosh(j * s / mp(variance)), [-0.5, 0.5]) for j in (0, k)]  # fmt: skip
                return a[0] / a[1]

        for k in (1, -1, 2, sigma, 3 * sigma, -10 * sigma, 30 * sigma):
            accept = weight(k) / weight(0)
            assert abs(accept - integral(k)) < mpmath.ldexp(1, -180)
            assert 0 < 1 - accept < 1.001 * mp(k**2) / 24 / mp(variance) ** 2 + mpmath.ldexp(1, -300)
            for bits in (16, 80, 200):
                at = floor(mpmath.ldexp(accept, bits))
                for v in {0, at - 1, at, at + 1, 2**bits - 1}:
                    if 0 <= v < 2**bits:
                        assert law.accepts(k, v, bits) is (None if v == at else v < at), (k, v, bits)
        assert law.accepts(0, 2**16 - 1, 16) is True


@pytest.mark.parametrize("variance", LARGE[:3], ids=str)
def test_discrete_gaussian_draws_by_rejection(variance: Fraction) -> None:
    """The first proposal, or the next if its acceptance word is all ones; 0 always is."""
    law = reference.DiscreteGaussian(variance)
    for i in (3, 64, 200):
        read = Words(variance)
        candidates = (lambda index, level, j=j: read(index, level, NOISE, j) for j in (0, 1))
        first, second = (law.proposal.draw(candidate, i, ZERO) for candidate in candidates)
        assert law.draw(read, i) == first != second
        ones = Words(variance, {(i, ACCEPT, 0): Digits(2**1000 - 1, 1000)})
        assert law.draw(ones, i) == second
        still = {(i & ~64, NOISE, 0): Digits(2**150 - 1, 150)}
        assert law.draw(Words(variance, {(i, ACCEPT, 0): Digits(2**1000 - 1, 1000), **still}), i) == 0


def test_tails_by_euler_maclaurin() -> None:
    """Against adding up, far into the tail and at several precisions; theta too."""
    for variance in (Fraction(2**14), Fraction(2**16) + Fraction(1, 3)):
        law = reference.DiscreteGaussian(variance)
        law.inversion = False
        sums = Sums(variance, 1000)
        with mpmath.workprec(1064):
            for precision in (128, 600):
                with exact.alone, exact.flint_at(precision):
                    for k in (1, 2, 100, 1000, 4000):
                        assert near(tiers.tail(law, k, precision), sums.tail[k], precision - 40)
                    assert near(law.theta(precision), sums.theta, precision - 10)


def test_candidates_stay_together_as_long_as_their_noise_may_overlap() -> None:
    """5 + E ends at infinity, so does 0 + E; 2 + E lies between their least ends, apart from 5 + E.

    The second word is just below 1/2, so 0 + E is the least of all: it must wait for 2 + E.
    """
    first = {0: Digits(0b00, 2), 1: Digits(0b00, 2), 2: Digits(0b01, 2)}  # a sign, then a digit of U
    later = {0: Digits(0, 66), 1: Digits(2**64 - 1, 66), 2: Digits(2**64 + 7, 66)}
    scores = [(0, Fraction(5)), (1, Fraction(0)), (2, Fraction(2))]
    assert winners(lambda i, level: (later if level > 1 else first)[i], scores, 3, gumbel=False) == [0, 2, 1]


@pytest.mark.parametrize("z", [0, 1, 30, 10**4, 10**7])
def test_erfc_of_a_ball_keeps_its_digits_far_out(z: int) -> None:
    """A relative width of 2^-124 of z becomes 2 z^2 times as much; found by fuzzing."""
    from flint import arb

    with mpmath.workprec(1200), exact.alone, exact.flint_at(128):
        inside = mpmath.mpf(z) * (1 + mpmath.mpf(2) ** -124 / 3)
        ball = arb(z) * (1 + arb(0, 1) * arb(2) ** -124)
        assert near(erfc(ball), mpmath.erfc(inside), 118 - 2 * z.bit_length())
        assert near(erfc(-ball), mpmath.erfc(-inside), 118)


def near(found: object, right: mpmath.mpf, bits: int) -> bool:
    """Whether a ball holds a number, to 2^-960 of it, and is no wider than 2^-bits of it."""
    ends = found.mid().man_exp(), found.rad().man_exp()
    middle, radius = (mpmath.ldexp(mpmath.mpf(int(m)), int(e)) for m, e in ends)
    return abs(middle - right) <= radius + mpmath.ldexp(right, -960) and radius <= mpmath.ldexp(right, -bits)


PROBABILITIES = [Fraction(1, 10**12), Fraction(1, 3), HALF, Fraction(95, 100), 1 - Fraction(1, 10**40)]


@pytest.mark.parametrize("variance", [*SMALL, Fraction(2**14 + 1), Fraction(2**18)], ids=str)
def test_figures_of_the_discrete_gaussian(variance: Fraction) -> None:
    """half_width and quantile are least; variance and theta as added up."""
    law, sums = reference.DiscreteGaussian(variance), sums_of(variance)
    with mpmath.workprec(464):
        for p in PROBABILITIES:
            for n in (1, 10**6):
                h, share = law.half_width(p, n), 1 - mp(p) ** (mpmath.mpf(1) / n)
                assert sums(h + 1) <= share
                assert h == 0 or sums(h) > share
            k = law.quantile(p)
            at, before = (1 - sums(j + 1) / 2 if j >= 0 else sums(-j) / 2 for j in (k, k - 1))
            assert before < mp(p) <= at
        right = 2 * mpmath.fsum(mpmath.mpf(k) ** 2 * f for k, f in enumerate(sums.f)) / sums.theta
        assert law.variance() == pytest.approx(float(right), rel=2**-51)
    assert float(law.theta(128)) == pytest.approx(float(sums.theta), rel=2**-50)


@pytest.mark.parametrize("variance", LARGE[1:], ids=str)
def test_figures_at_large_scales(variance: Fraction) -> None:
    """Where no sum is possible: the midpoint rule, error at most the integral of |f''| / 24."""
    law = reference.DiscreteGaussian(variance)
    with mpmath.workprec(300):
        sigma = mpmath.sqrt(mp(variance))

        def tail(k: int) -> tuple[mpmath.mpf, mpmath.mpf]:
            x = (k - mpmath.mpf(1) / 2) / sigma
            value = mpmath.erfc(x / mpmath.sqrt(2))  # theta is sigma sqrt(2 pi) but for exp(-19 sigma^2)
            error = 2 * (x + 1) * mpmath.exp(-(x**2) / 2) / 24 / sigma**2 / mpmath.sqrt(2 * mpmath.pi) * 1.1
            return value - error, value + error

        for p in (Fraction(1, 3), Fraction(95, 100), 1 - Fraction(1, 10**9)):
            for n in (1, 10**6):
                h, share = law.half_width(p, n), 1 - mp(p) ** (mpmath.mpf(1) / n)
                assert tail(h + 1)[1] <= share < tail(h)[0]
        for p in (Fraction(1, 10**6), Fraction(95, 100)):
            k, side = law.quantile(p), 2 * mp(min(p, 1 - p))
            assert tail(k + 1)[1] <= side < tail(k)[0] if k > 0 else tail(-k + 1)[1] < side <= tail(-k)[0]
    assert law.variance() == pytest.approx(float(variance), rel=2**-51)


def test_a_scale_of_a_thousandth() -> None:
    """T_1 = 2 exp(-500000) and less: only zeros, quickly; the digits that would say 1 are found."""
    law = reference.DiscreteGaussian(Fraction(1, 10**6))
    assert law.thresholds() == []
    assert law.table(4) == [None] + [0] * 15
    assert law.magnitude(1, 4000) == 0
    assert law.half_width(Fraction(999, 1000), 10**9) == law.quantile(Fraction(1, 10**9)) == 0
    with mpmath.workprec(200):
        bits = 1 - floor(mpmath.log(2 * mpmath.exp(-500000), 2))
    assert law.magnitude(1, bits + 3) == 1
    assert law.magnitude(32, bits + 3) == 0


def test_flint_is_used_under_managers_of_c_alone() -> None:
    """Signal handlers run between lines: an ``__exit__`` in Python could leave the lock held."""
    for manager in (exact.alone, exact.flint_at(64)):
        for name in ("__enter__", "__exit__"):
            assert not isinstance(getattr(type(manager), name), FunctionType)


@pytest.mark.parametrize("kind", [reference.DiscreteLaplace, reference.OneSidedGeometric])
def test_tables_are_magnitudes(kind: type) -> None:
    """Each cell of a table, at small scales and at the largest that has one."""
    for scale in (Fraction(1, 2**60), Fraction(1, 50), Fraction(1, 3), 1, 10, Fraction(383, 3), 128):
        law = kind(1 / Fraction(scale))
        assert law.table(11) == [law.magnitude(a, 11) for a in range(2**11)]
