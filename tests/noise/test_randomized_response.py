# SPDX-License-Identifier: Apache-2.0
"""Randomized response: exact probabilities by digit, both coins' loss, and estimates that hold."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import dpfast
from dpfast import RandomizedResponse
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise import kernels
from dpfast.privacy import exact

LEVEL = 1e-9  # each false alarm


def k_ary(epsilon: float, k: int) -> np.ndarray:
    """P(said | true), a row for each true answer."""
    e = math.exp(epsilon)
    law = np.full((k, k), 1 / (e + k - 1))
    np.fill_diagonal(law, e / (e + k - 1))
    return law


def coins(p: Fraction) -> list[list[Fraction]]:
    """By all outcomes of the two flips: heads, the truth; tails, then yes on heads."""
    found = [[Fraction(0)] * 2 for _ in range(2)]
    for true in (0, 1):
        found[true][true] += p
        found[true][1] += (1 - p) * p
        found[true][0] += (1 - p) * (1 - p)
    return found


def counts_of(mechanism: RandomizedResponse, true: int, n: int, dtype: type = np.int64) -> np.ndarray:
    return np.bincount(mechanism.release(np.full(n, true, dtype)).astype(int), minlength=mechanism.categories)


@pytest.mark.parametrize(("epsilon", "k"), [(1, 2), (0.1, 3), (2, 5), (Fraction(1, 3), 17), (5, 100)])
def test_answers_follow_the_law(epsilon, k) -> None:
    """400,000 answers for each of two truths; epsilon 5 % larger is rejected for the smaller k."""
    mechanism, law, n = RandomizedResponse(epsilon, k), k_ary(float(epsilon), k), 400_000
    for true in (0, k - 1):
        assert stats.chisquare(counts_of(mechanism, true, n), n * law[true]).pvalue > LEVEL
    if k <= 5 and epsilon >= 1:
        wrong = RandomizedResponse(float(epsilon) * 1.05, k)
        assert stats.chisquare(counts_of(wrong, 1, n), n * law[1]).pvalue < LEVEL


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 3), Fraction(3, 4), Fraction(1, 1000), Fraction(0.9)])
def test_coins_follow_the_law(p) -> None:
    """300,000 answers of either kind follow the law of two coins, and not another second coin's."""
    mechanism, law, n = RandomizedResponse.two_coin(p), coins(p), 300_000
    for true in (0, 1):
        said = int(counts_of(mechanism, true, n)[1])
        assert stats.binomtest(said, n, float(law[true][1])).pvalue > LEVEL
    # Planted: the second coin a fair one, as some surveys have it.
    fair = Fraction(1, 2) * (1 - p)
    if abs(fair - law[0][1]) > Fraction(1, 20):
        assert stats.binomtest(int(counts_of(mechanism, 0, n)[1]), n, float(fair)).pvalue < LEVEL


@pytest.mark.parametrize("p", [Fraction(i, 64) for i in range(1, 64)])
def test_the_loss_of_the_coins_is_the_larger_ratio(p) -> None:
    """Over both answers and truths, in rationals; rounded up by a few units in the last place."""
    law = coins(p)
    worst = max(law[a][said] / law[b][said] for a in (0, 1) for b in (0, 1) for said in (0, 1))
    mechanism = RandomizedResponse.two_coin(p)
    with mpmath.workprec(200):
        log = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        found = mpmath.mpf(mechanism.epsilon.numerator) / mechanism.epsilon.denominator
        assert log <= found <= log * (1 + mpmath.mpf(2) ** -50)
    yes = (2 - p) / (1 - p)  # the ratio of a yes alone, where course notes stop
    assert (worst == yes) is (p <= Fraction(1, 2))
    assert worst >= yes


@settings(max_examples=80, deadline=None)
@given(epsilon=st.floats(0.694, 30))
def test_coins_for_an_epsilon(epsilon) -> None:
    """Kept, but not with an eighth of a millionth more of p; by both formulas of the inverse."""
    mechanism = RandomizedResponse.two_coin(epsilon=epsilon)
    assert mechanism.epsilon <= epsilon
    e = mpmath.exp(mpmath.mpf(epsilon))
    expected = (e - 2) / (e - 1) if epsilon <= math.log(3) else (2 * e - 1 - mpmath.sqrt(4 * e - 3)) / (2 * (e - 1))
    assert abs(mechanism.coin - Fraction(float(expected))) < Fraction(1, 2**40)
    assert 2**53 % mechanism.coin.denominator == 0
    more = mechanism.coin + (1 - mechanism.coin) / 8_000_000
    assert RandomizedResponse.two_coin(more).epsilon > epsilon


def test_k_ary_is_exactly_epsilon() -> None:
    """The largest ratio is E: rows of E and 1 over E + k - 1."""
    for said in range(3):
        column = [3 if true == said else 1 for true in range(3)]
        assert max(column) / min(column) == 3


# ------------------------------------------------------------------ its rho, and its losses


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def of_truths(epsilon: Fraction, k: int) -> list[list[mpmath.mpf]]:
    """What is said under the truths 0 and 1; all other answers are one, for their losses are 0."""
    e = mpmath.exp(number(epsilon))
    return [[each / (e + k - 1) for each in (*two, k - 2)] for two in ((e, 1), (1, e))]


def of_coins(p: Fraction) -> list[list[mpmath.mpf]]:
    return [[number(each) for each in row] for row in coins(p)]


def largest_per_order(law: list[list[mpmath.mpf]]) -> mpmath.mpf:
    """The largest Rényi divergence over its order that is found: no more than the supremum."""

    def per_order(a: list[mpmath.mpf], b: list[mpmath.mpf], log: float) -> mpmath.mpf:
        over = mpmath.exp(log)  # the order less 1
        return mpmath.log(mpmath.fsum(p * (p / q) ** over for p, q in zip(a, b, strict=True) if p)) / over / (1 + over)

    found = mpmath.mpf(0)
    for a, b in (law, law[::-1]) if law[0][0] != law[1][1] else (law,):
        at = max(range(-30, 30), key=lambda log: per_order(a, b, log))
        low, high = mpmath.mpf(at - 1), mpmath.mpf(at + 1)
        for _ in range(40):  # by thirds
            third = (high - low) / 3
            rises = per_order(a, b, low + third) < per_order(a, b, high - third)
            low, high = (low + third, high) if rises else (low, high - third)
        found = max(found, per_order(a, b, low), per_order(a, b, mpmath.mpf(-40)))
    return found


@pytest.mark.parametrize("k", [2, 3, 6, 7, 10, 100, 2**31])
def test_the_rho_of_categories_is_the_supremum_over_orders(k) -> None:
    """From both sides; from k = 7 on not always at order 1, and at 100 an eighth of the worst."""
    for epsilon in (Fraction(1, 10**4), Fraction(1, 10), Fraction(1), Fraction(3), Fraction(60)):
        rho = RandomizedResponse(epsilon, k).guarantee.rho
        with mpmath.workdps(60):
            law = of_truths(epsilon, k)
            found = largest_per_order(law)
            assert found <= number(rho) <= found * (1 + mpmath.mpf(10) ** -11), (k, epsilon)
            mean = number(epsilon) * (law[0][0] - law[1][0])
        if k <= 6 or epsilon > 24:
            assert abs(number(rho) / mean - 1) < 1e-15
        elif k >= 10 and epsilon <= 1:
            assert number(rho) > mean * 1.01
        assert rho <= dpfast.Guarantee(epsilon).rho
    assert (RandomizedResponse(1, k).guarantee.rho == dpfast.Guarantee(1).rho) is (k == 2)


@pytest.mark.parametrize("p", [Fraction(1, 10**6), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(99, 100)])
def test_the_rho_of_the_coins_is_the_supremum_over_orders(p) -> None:
    mechanism = RandomizedResponse.two_coin(p)
    with mpmath.workdps(60):
        found = largest_per_order(of_coins(p))
        assert found <= number(mechanism.guarantee.rho) <= found * (1 + mpmath.mpf(10) ** -11)


@pytest.mark.parametrize("k", [2, 6, 10, 2**31])
def test_the_least_epsilon_has_a_rho(k) -> None:
    """About epsilon^2 or less, where cosh and 1 are told apart by thousands of digits alone."""
    epsilon = Fraction(1, 2**400)
    assert 0 < number(RandomizedResponse(epsilon, k).guarantee.rho / epsilon**2) <= 1 / k + 0.2
    assert 0 < RandomizedResponse(Fraction(1, 2**1000), k).guarantee.rho <= Fraction(5e-324)
    assert 0 < RandomizedResponse.two_coin(Fraction(1, 2**1000)).guarantee.rho < 2e-4


def test_where_order_one_just_stops_being_the_worst() -> None:
    """V = 2 E L, to 300 digits: the search ends where no precision tells what rises."""
    with mpmath.workdps(320):

        def tie(e: mpmath.mpf) -> mpmath.mpf:
            both, mean = (mpmath.exp(e) + 1) / (mpmath.exp(e) + 6), e * mpmath.expm1(e) / (mpmath.exp(e) + 6)
            return both - (mean / e) ** 2 - 2 * mean / e**2

        epsilon = Fraction(int(mpmath.findroot(tie, (0.1, 1), solver="anderson") * 10**300), 10**300)
        mean = number(epsilon) * mpmath.expm1(number(epsilon)) / (mpmath.exp(number(epsilon)) + 6)
    assert 0.1 < epsilon < 1
    assert 0 <= number(RandomizedResponse(epsilon, 7).guarantee.rho) / mean - 1 < 1e-11


def epsilon_of(law: list[list[mpmath.mpf]], n: int, delta: float) -> float:
    """The least epsilon of n answers, by halves, from all sums of their losses."""
    found = 0.0
    for a, b in (law, law[::-1]):
        losses = [mpmath.log(p / q) if p else mpmath.mpf(0) for p, q in zip(a, b, strict=True)]
        sums = []
        for some in itertools.product(range(n + 1), repeat=len(a) - 1):
            counts = *some, n - sum(some)
            if counts[-1] >= 0:
                ways = math.factorial(n) // math.prod(map(math.factorial, counts))
                weight = ways * mpmath.fprod(p**c for p, c in zip(a, counts, strict=True))
                sums.append((mpmath.fsum(c * loss for c, loss in zip(counts, losses, strict=True)), weight))
        sums.sort(reverse=True)
        most = list(itertools.accumulate(weight for _, weight in sums))  # the largest losses' together
        less = list(itertools.accumulate(weight * mpmath.exp(-loss) for loss, weight in sums))
        low, high = mpmath.mpf(0), sums[0][0]
        for _ in range(40):
            middle = (low + high) / 2
            many = sum(loss > middle for loss, _ in sums)
            over = most[many - 1] - mpmath.exp(middle) * less[many - 1]
            low, high = (middle, high) if over > delta else (low, middle)
        found = max(found, float(high))
    return found


@pytest.mark.parametrize(
    ("mechanism", "law", "expected"),
    [
        pytest.param(RandomizedResponse(1, 2), lambda: of_truths(Fraction(1), 2)[0:2], 47.6494, marks=pytest.mark.slow),
        pytest.param(RandomizedResponse(1, 10), lambda: of_truths(Fraction(1), 10), 24.9610, marks=pytest.mark.slow),
        pytest.param(RandomizedResponse(1, 100), lambda: of_truths(Fraction(1), 100), 8.8220, marks=pytest.mark.slow),
        (RandomizedResponse(Fraction(1, 30), 10), lambda: of_truths(Fraction(1, 30), 10), 0.4308),
    ],
    ids=lambda each: str(each) if isinstance(each, RandomizedResponse) else "",
)
def test_fifty_answers_cost_what_their_losses_come_to(mechanism, law, expected) -> None:
    """compose by="pld" is the exact sum of losses, but for doubles; it was that of two answers."""
    pytest.importorskip("dp_accounting")
    with mpmath.workdps(40):
        exact = epsilon_of(law(), 50, 1e-6)
    assert exact == pytest.approx(expected, abs=1e-4)
    found = dpfast.compose([mechanism] * 50, by="pld", delta=1e-6)
    assert exact * (1 - 1e-9) <= found.epsilon <= exact * (1 + 1e-6)
    assert found.by == "pld"
    assert exact <= dpfast.compose([mechanism] * 50).approximate(1e-6).epsilon


def delta_of_mix(p: Fraction, epsilon: float, there: int, back: int) -> float:
    """That of answers that a unit changes from yes to no, and of others from no to yes."""
    (no, _), (_, yes) = coins(p)
    yes, no = float(yes), 1 - float(no)  # the probability of a yes, by the truth
    found = 0.0
    for said, other in itertools.product(range(there + 1), range(back + 1)):
        ways = math.comb(there, said) * math.comb(back, other)
        here, gone = (
            a**said * (1 - a) ** (there - said) * b**other * (1 - b) ** (back - other)
            for a, b in ((yes, no), (no, yes))
        )
        found += ways * max(0.0, here - math.exp(epsilon) * gone)
    return found


@pytest.mark.parametrize(
    ("p", "n", "delta"), [("0.1", 2, 0.02), ("0.05", 2, 0.006), ("0.1", 10, 2e-6), ("0.3", 10, 1e-3)]
)
def test_coins_cost_what_any_mix_of_truths_costs(p, n, delta) -> None:
    """A unit may change some answers one way and others back, which may be worse than either."""
    pytest.importorskip("dp_accounting")
    p = Fraction(p)

    def worst(epsilon: float, mixes: Iterable[int]) -> float:
        return max(delta_of_mix(p, epsilon, there, n - there) for there in mixes)

    one_way, any_way = (
        optimize.brentq(lambda e, mixes=mixes: worst(e, mixes) - delta, 0, n * 5) for mixes in ((0, n), range(n + 1))
    )
    assert worst(one_way, range(n + 1)) > delta * 1.2
    survey = RandomizedResponse.two_coin(p, answers_per_unit=n)
    for found in (
        float(dpfast.compose([RandomizedResponse.two_coin(p)] * n, by="pld", delta=delta).epsilon),
        survey.privacy_loss_distribution().get_epsilon_for_delta(delta),
    ):
        assert any_way * (1 - 1e-9) <= found <= any_way * 1.15


def test_too_many_answers_for_a_distribution_are_refused() -> None:
    pytest.importorskip("dp_accounting")
    with pytest.raises(ParameterError, match="answers_per_unit must be at most 4194304 for a distribution of losses"):
        RandomizedResponse(1, 2, answers_per_unit=2**22 + 1).privacy_loss_distribution()


# ------------------------------------------------------------------ several answers of one unit


def test_a_row_of_answers_is_one_units() -> None:
    """More columns than it may have are refused, whoever asks; nothing is charged then."""
    one, three = RandomizedResponse(1, 4), RandomizedResponse(1, 4, answers_per_unit=3)
    assert one.release(np.zeros((5, 1), int)).shape == (5, 1)
    assert three.release(np.zeros((5, 1, 3), int)).shape == (5, 1, 3)
    for mechanism, shape in ((one, (5, 2)), (one, (0, 2)), (one, (2, 1, 2)), (three, (5, 4)), (three, (5, 2, 2))):
        columns = math.prod(shape[1:])
        with pytest.raises(ParameterError, match=rf"got shape .*: RandomizedResponse\(…, answers_per_unit={columns}\)"):
            mechanism.release(np.zeros(shape, int))


@pytest.mark.parametrize("n", [2, 3])
def test_epsilon_is_that_of_all_answers_of_a_unit(n) -> None:
    """In every world of n answers of one unit, of three categories and of the coins."""
    k_ary_one, survey = (
        RandomizedResponse(1, 3, answers_per_unit=n),
        RandomizedResponse.two_coin(0.4, answers_per_unit=n),
    )
    for mechanism, law in (
        (k_ary_one, k_ary(1 / n, 3)),
        (survey, np.array([[float(p) for p in row] for row in coins(Fraction(0.4))])),
    ):
        k = mechanism.categories
        truths = list(itertools.product(range(k), repeat=n))
        said = np.array(
            [
                [math.prod(law[t, s] for t, s in zip(truth, all_said, strict=True)) for all_said in truths]
                for truth in truths
            ]
        )
        most = max(np.log(a / b).max() for a in said for b in said)
        assert float(mechanism.epsilon) == pytest.approx(most, rel=1e-12)
        assert mechanism.guarantee.epsilon == mechanism.epsilon == Fraction(mechanism.metadata()["epsilon"])
        alone = RandomizedResponse(Fraction(1, n), 3) if mechanism.coin is None else RandomizedResponse.two_coin(0.4)
        assert mechanism.guarantee.rho == n * alone.guarantee.rho
        assert mechanism.guarantee.rho >= max((a * np.log(a / b)).sum() for a in said for b in said) * (1 - 1e-12)
    again = RandomizedResponse.two_coin(epsilon=survey.epsilon, answers_per_unit=n)
    assert again.coin == pytest.approx(Fraction(0.4), rel=1e-9)
    reports = [0, 1, 2, 2]
    assert (k_ary_one.estimate(reports).share == RandomizedResponse(Fraction(1, n), 3).estimate(reports).share).all()


def test_answers_of_a_unit_follow_the_law_of_each() -> None:
    """200,000 rows of two answers, each at half of epsilon; at all of epsilon they are not."""
    said = RandomizedResponse(2, 5, answers_per_unit=2).release(np.zeros((200_000, 2), int))
    counts = np.bincount(said.reshape(-1), minlength=5)
    assert stats.chisquare(counts, said.size * k_ary(1, 5)[0]).pvalue > LEVEL
    assert stats.chisquare(counts, said.size * k_ary(2, 5)[0]).pvalue < LEVEL


def test_accounting_sees_all_answers_of_a_unit() -> None:
    accounting = pytest.importorskip("dp_accounting")
    three = RandomizedResponse(3, 4, answers_per_unit=3)
    event = three.dp_event()
    assert event == accounting.SelfComposedDpEvent(RandomizedResponse(1, 4).dp_event(), 3)
    losses, one = three.privacy_loss_distribution(), RandomizedResponse(1, 4).privacy_loss_distribution()
    assert losses.get_epsilon_for_delta(1e-3) == pytest.approx(
        one.self_compose(3).get_epsilon_for_delta(1e-3), rel=1e-9
    )
    many, few = (
        dpfast.compose([each] * n, by="pld", delta=1e-6) for each, n in ((three, 20), (RandomizedResponse(1, 4), 60))
    )
    assert float(many.epsilon) == pytest.approx(float(few.epsilon), rel=1e-6)
    with pytest.raises(ParameterError, match="largest privacy loss must be at most"):
        RandomizedResponse(600, 2).privacy_loss_distribution()


# ------------------------------------------------------------------ digit by digit


@settings(max_examples=150, deadline=None)
@given(
    epsilon=st.fractions(Fraction(1, 100), 20, max_denominator=100),
    k=st.integers(2, 1000),
    prefix=st.integers(0, 2**64 - 1),
)
def test_steps_of_categories(epsilon, k, prefix) -> None:
    """Against 100 digits: truth on [0, E), and a unit each for the others."""
    found = exact.Categories(epsilon, k).step(prefix, 64)
    with mpmath.workprec(400):
        e = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)

        def step(u: mpmath.mpf) -> int:
            return max(int(mpmath.floor(u * (e + k - 1) - e)) + 1, 0)

        low = step(mpmath.mpf(prefix) / 2**64)
        high = step(mpmath.mpf(prefix + 1) / 2**64 - mpmath.mpf(10) ** -100)
    assert found == (low if low == high else None)


@pytest.mark.parametrize("k", [2, 3, 50])
def test_planted_words_beside_every_threshold(k) -> None:
    """The kernel decides as the exact law or not at all: thresholds, beside them, both ends."""
    epsilon = Fraction(3, 2)
    mechanism, law = RandomizedResponse(epsilon, k), exact.Categories(epsilon, k)
    with mpmath.workprec(200):
        e = mpmath.exp(mpmath.mpf(3) / 2)
        at = [int(mpmath.floor((e + j) / (e + k - 1) * 2**64)) for j in range(k - 1)]
    words = sorted({w + d for w in [0, 2**64 - 1, *at] for d in (-(2**12), -1, 0, 1, 2**12) if 0 <= w + d < 2**64})
    answers = np.zeros(len(words), np.int64)
    undecided = np.empty(len(words), np.int64)
    n = kernels.kernel("respond")(answers, np.array(words, np.uint64), *tiers.response_lines(mechanism), k, undecided)
    left = set(undecided[:n].tolist())
    assert 0 < n < len(words)
    for i, word in enumerate(words):
        known = law.step(word, 64)
        assert i in left or answers[i] == known, (word, known)
    assert {at_ for at_ in at if law.step(at_, 64) is None} == set(at)  # a threshold inside: 64 digits do not decide


def test_undecided_answers_read_on() -> None:
    """A word that holds a threshold is decided by its next digits, 512 at a time."""
    mechanism = RandomizedResponse(1, 2)
    with mpmath.workprec(2000):
        threshold = mpmath.e / (mpmath.e + 1)
        word = int(mpmath.floor(threshold * mpmath.mpf(2) ** 64))
        more = int(mpmath.floor((threshold * mpmath.mpf(2) ** 64 - word) * mpmath.mpf(2) ** 512))

    class Planted:
        def __init__(self, blocks: list[int]) -> None:
            self.blocks, self.read = blocks, []

        def block(self, index: int, nonce: int) -> bytes:
            self.read.append((index, nonce))
            return self.blocks[len(self.read) - 1].to_bytes(64, "little")

    below, above, long = Planted([more - 1]), Planted([more + 1]), Planted([more, 0])
    assert tiers.response_decided(mechanism, 0, word, below, 5) == 0
    assert tiers.response_decided(mechanism, 0, word, above, 5) == 1
    assert tiers.response_decided(mechanism, 0, word, long, 5) == 0
    assert long.read == [(5, tiers.nonce(0, 4)), (5, tiers.nonce(1, 4))]

    # Each answer of an array reads on at its own place, however far in.
    words, said, places = np.zeros(9000, np.uint64), np.zeros(9000, np.int64), [0, 4095, 4096, 8999]
    words[places] = word
    many = Planted([more + 1] * 4)
    tiers.respond(mechanism, said, words, many)
    assert [index for index, _ in many.read] == places
    assert np.flatnonzero(said).tolist() == places


def test_coins_meet_their_thresholds_exactly() -> None:
    """A rational threshold on the edge of a cell is decided: half-open cells."""
    coin = exact.Coin(Fraction(3, 4))
    assert coin.step(0b10, 2) == 0
    assert coin.step(0b11, 2) == 1
    assert coin.step(0b1, 1) is None
    assert exact.Coin(Fraction(1, 3)).step(0, 1) is None


def test_the_kernel_decides_nearly_all() -> None:
    """In a million words at most one is undecided: 4e-10 of them hold a threshold."""
    mechanism, n = RandomizedResponse(1, 4), 10**6
    words = np.random.default_rng(1).integers(0, 2**64, n, np.uint64)
    said, left = np.zeros(n, np.int64), np.empty(0, np.int64)
    assert kernels.kernel("respond")(said, words, *tiers.response_lines(mechanism), 4, left) <= 1


# ------------------------------------------------------------------ arrays


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, bool, ">i4"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5)])
def test_shapes_and_dtypes(dtype, shape) -> None:
    said = RandomizedResponse(1, answers_per_unit=5).release(np.ones(shape, dtype))
    assert (said.shape, said.dtype) == (shape, np.dtype(dtype))
    assert set(np.unique(said.astype(int))) <= {0, 1}


def test_the_ends_of_the_parameters() -> None:
    """The least and most epsilon, coin and categories: no overflow, and the plain law."""
    zeros = np.zeros(2000, np.int64)
    assert not RandomizedResponse(600, 2**31).release(zeros).any()
    assert RandomizedResponse(Fraction(1, 2**1000), 2**31).release(zeros).max() > 2**30  # missed with 2^-2000
    assert RandomizedResponse(1, 128).release(np.zeros(20_000, np.int8)).min() == 0  # int8 just holds 127
    least = RandomizedResponse.two_coin(Fraction(1, 2**1000))
    assert not least.release(np.arange(2000) % 2).any()  # yes, with 2^-999
    assert np.isfinite(np.array(least.estimate(zeros))).all()
    assert np.isfinite(np.array(RandomizedResponse(Fraction(1, 2**1000)).estimate([0, 1]))).all()
    most = RandomizedResponse.two_coin(epsilon=600)
    assert most.coin == 1 - Fraction(1, 2**53)
    assert (most.release(np.arange(2000) % 2) == np.arange(2000) % 2).all()


@pytest.mark.parametrize(("epsilon", "k"), [(1, 2), (1, 7), (600, 2**31), (30, 2**31), (1e-9, 2**31), (0.01, 3)])
def test_the_kernel_has_room_for_its_errors(epsilon, k) -> None:
    """Words next to thresholds: the kernel decides as the law on the word's whole cell."""
    mechanism, law = RandomizedResponse(epsilon, k), exact.Categories(Fraction(epsilon), k)
    with mpmath.workprec(2000):
        e = mpmath.exp(mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator)
        at = [int((e + j) / (e + k - 1) * 2**64) for j in {0, 1, (k - 2) // 2, k - 2} if j < k - 1]
    near = {a + s * 2**b + d for a in at for b in (0, 11, 14, 16, 18) for s in (-1, 1) for d in (-1, 0, 1)}
    near |= {0, 2**64 - 1}
    words = np.array([w for w in near if 0 <= w < 2**64], np.uint64)
    said, open_ = np.zeros(words.size, np.int64), np.empty(words.size, np.int64)
    n = kernels.kernel("respond")(said, words, *tiers.response_lines(mechanism), k, open_)
    for i in set(range(words.size)) - set(open_[:n].tolist()):
        assert said[i] == law.step(int(words[i]), 64)


def test_calls_are_independent_and_leave_the_input() -> None:
    """Two calls on the same answers give independent ones, and change none in place."""
    answers = np.zeros(10_000, np.int64)
    mechanism = RandomizedResponse(0.5, 10)
    first, second = mechanism.release(answers), mechanism.release(answers)
    assert not answers.any()
    assert 0.5 < (first != second).mean() < 1
    assert stats.chi2_contingency(np.histogram2d(first, second, bins=10)[0]).pvalue > LEVEL


def test_nothing_private_is_left_in_arrays(monkeypatch) -> None:
    """The answers and digits that a release works on are zeros when it ends, by an error too."""
    seen = []
    original = kernels.kernel

    def spy(*arguments) -> float:
        seen.extend(arguments[:2])
        original("respond")(*arguments)
        return 0 if len(seen) < 4 else 1 / 0

    monkeypatch.setattr(kernels, "kernel", lambda _: spy)
    RandomizedResponse(1, 5).release(np.full(100, 4))
    with pytest.raises(ZeroDivisionError):
        RandomizedResponse(1, 5).release(np.full(100, 4))
    assert len(seen) == 4
    assert not any(array.any() for array in seen)


def test_no_entropy_no_answers(monkeypatch) -> None:
    """Where the system gives no key, no answer comes out."""
    tiers.no_entropy(monkeypatch)
    with pytest.raises(dpfast.errors.EntropyError):
        RandomizedResponse(1).release([0, 1])


# ------------------------------------------------------------------ estimates


@pytest.mark.parametrize("mechanism", [RandomizedResponse(1, 4), RandomizedResponse.two_coin(Fraction(1, 3))], ids=str)
def test_estimates_are_unbiased_and_their_intervals_hold(mechanism) -> None:
    """60 surveys of 300: the mean in 9 standard errors, 95 % intervals hold in 42; 1e-9."""
    k = mechanism.categories
    shares = np.arange(1, k + 1) / (k * (k + 1) / 2)
    true = np.repeat(np.arange(k), np.round(shares * 300).astype(int))
    shares = np.bincount(true, minlength=k) / true.size
    found = [mechanism.estimate(mechanism.release(true)) for _ in range(60)]
    mean = np.mean([e.share for e in found], axis=0)
    spread = np.std([e.share for e in found], axis=0) / math.sqrt(60)
    assert (abs(mean - shares) < 9 * spread).all()
    held = np.mean([(e.lower <= shares) & (shares <= e.upper) for e in found], axis=0)
    assert (held >= 0.7).all()
    naive = np.mean([np.bincount(mechanism.release(true), minlength=k) / true.size for _ in range(60)], axis=0)
    assert (abs(naive - shares) > 6 * spread).any()  # planted: what is said, taken for the truth


def test_the_estimate_of_the_course_notes() -> None:
    """(mean - p (1 - p))/p for the coins; and of shares that add up."""
    p = Fraction(1, 4)
    reports = np.array([1] * 30 + [0] * 70)
    found = RandomizedResponse.two_coin(p).estimate(reports)
    assert found.share[1] == pytest.approx((0.3 - 0.25 * 0.75) / 0.25)
    assert found.share.sum() == pytest.approx(1)
    assert RandomizedResponse(1, 3).estimate([0, 1, 1, 2]).share.sum() == pytest.approx(1)


@settings(max_examples=15, deadline=None)
@given(size=st.integers(1, 500), data=st.data(), confidence=st.sampled_from([0.5, 0.95, 0.999]))
def test_intervals_are_clopper_and_pearsons(size, data, confidence) -> None:
    """Both ends of a share are SciPy's exact ones, mapped back through the law."""
    n = data.draw(st.integers(0, size))
    mechanism = RandomizedResponse(1)
    found = mechanism.estimate(np.repeat([1, 0], [n, size - n]), confidence)
    expected = stats.binomtest(n, size).proportion_ci(confidence, "exact")
    e = math.e
    for end, share in ((found.lower[1], expected.low), (found.upper[1], expected.high)):
        assert end == pytest.approx((share - 1 / (e + 1)) / ((e - 1) / (e + 1)), abs=1e-8)


# ------------------------------------------------------------------ records and bad input


def test_records() -> None:
    mechanism = RandomizedResponse.two_coin(0.5, unit="respondent")
    promised = mechanism.guarantee
    assert (promised.epsilon, promised.adjacency, promised.unit) == (mechanism.epsilon, "substitution", "respondent")
    assert mechanism.metadata()["coin"] == "1/2"
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert pickle.loads(pickle.dumps(RandomizedResponse(1, 3))) == RandomizedResponse(1, 3)
    assert repr(mechanism).endswith("coin=0.5, unit=respondent>")
    assert repr(RandomizedResponse(1, 3)) == "<RandomizedResponse epsilon=1, categories=3, unit=person>"
    of_three = RandomizedResponse(1, 3, answers_per_unit=3)
    assert repr(of_three) == "<RandomizedResponse epsilon=1, categories=3, answers_per_unit=3, unit=person>"
    assert pickle.loads(pickle.dumps(of_three)) == of_three != RandomizedResponse(1, 3)
    assert {**RandomizedResponse(1, 3).metadata(), "answers_per_unit": 3} == of_three.metadata()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RandomizedResponse(0), ParameterError, "epsilon must be positive"),
        (lambda: RandomizedResponse(601), ParameterError, "at most 600"),
        (lambda: RandomizedResponse(Fraction(1, 2**1001)), ParameterError, r"at least 2\*\*-1000"),
        (lambda: RandomizedResponse.two_coin(epsilon=1e300), ParameterError, "at most 600"),
        (lambda: RandomizedResponse.two_coin(Fraction(1, 2**1001)), ParameterError, r"at least 2\*\*-1000"),
        (lambda: RandomizedResponse(1, 129).release(np.zeros(3, "i1")), DTypeError, "holds all 129 categories, not int8"),
        (lambda: RandomizedResponse(1, 1), ParameterError, "categories must be at least 2"),
        (lambda: RandomizedResponse(1, 2**31 + 1), ParameterError, r"at most 2\*\*31"),
        (lambda: RandomizedResponse(1, 2.0), DTypeError, "categories must be an int"),
        (lambda: RandomizedResponse(1, answers_per_unit=0), ParameterError, "answers_per_unit must be at least 1, got 0"),
        (lambda: RandomizedResponse(1, answers_per_unit=2**31 + 1), ParameterError, r"answers_per_unit must be at most 2\*\*31"),
        (lambda: RandomizedResponse(1803, answers_per_unit=3), ParameterError, "at most 600 for each answer, got 1803"),
        (lambda: RandomizedResponse.two_coin(epsilon=2, answers_per_unit=3), ParameterError, "above ln 2"),
        (lambda: RandomizedResponse.two_coin(0.5, answers_per_unit=True), DTypeError, "answers_per_unit must be an int"),
        (RandomizedResponse.two_coin, ParameterError, "probability or epsilon"),
        (lambda: RandomizedResponse.two_coin(0.5, epsilon=1), ParameterError, "not both"),
        (lambda: RandomizedResponse.two_coin(0), ParameterError, "probability must be positive"),
        (lambda: RandomizedResponse.two_coin(1), ParameterError, "strictly between 0 and 1"),
        (lambda: RandomizedResponse.two_coin(epsilon=0.693), ParameterError, "above ln 2"),
        (lambda: RandomizedResponse.two_coin(1 - Fraction(1, 2**1000)), ParameterError, "at most 600"),
        (lambda: RandomizedResponse(1, 3).release([0, 3]), ParameterError, "between 0 and 2"),
        (lambda: RandomizedResponse(1, 3).release([-1]), ParameterError, "between 0 and 2"),
        (lambda: RandomizedResponse(1, 3).release([True]), DTypeError, "integers, not bool"),
        (lambda: RandomizedResponse(1).release([0.0]), DTypeError, "integers or bools, not float64"),
        (lambda: RandomizedResponse(1).estimate([]), DTypeError, "integers or bools, not float64"),
        (lambda: RandomizedResponse(1).estimate(np.array([], int)), ParameterError, "one or more"),
        (lambda: RandomizedResponse(1).estimate([2]), ParameterError, "between 0 and 1"),
        (lambda: RandomizedResponse(1).estimate([0.5]), DTypeError, "integers or bools"),
    ],
)  # fmt: skip
def test_bad_input(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("epsilon", [Fraction(1, 2**999), 1e-200, 0.1, Fraction(69, 100)])
def test_two_coins_cannot_promise_less_than_ln_2(epsilon) -> None:
    """However small: where e^epsilon - 1 cannot be told from 0, too."""
    with pytest.raises(ParameterError, match="^epsilon must be above ln 2 for two coins"):
        RandomizedResponse.two_coin(epsilon=epsilon)
