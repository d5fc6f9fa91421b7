# SPDX-License-Identifier: Apache-2.0
"""Selection: exact laws in small worlds, programs against them, decisions digit by digit."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import pickle
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any

import mpmath
import numpy as np
import pytest
import tiers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds import (
    exponential_law,
    exponential_top,
    flip_law,
    flip_top,
    geometric_law,
    geometric_top,
    loss_and_rho,
    orders,
    worst_ratio,
)

import dpfast
from dpfast import Exponential, NoisyMax, PermuteAndFlip, Sensitivity
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise import kernels
from dpfast.privacy import exact

HALF = Fraction(1, 2)
MECHANISMS = [Exponential, PermuteAndFlip, NoisyMax]

# ----------------------------------------- small worlds, for one step of the score worth a factor 2


SLACK = 1 + Fraction(1, 10**20)  # for what lies beyond `reach`


@pytest.mark.parametrize("law", [exponential_law, flip_law, geometric_law])
def test_every_small_world_keeps_epsilon(law) -> None:
    """e^(epsilon/2) = 2 a step: e^epsilon = 4 if scores move both ways, 2 if all one way."""
    assert 2 < worst_ratio(law, (-1, 0, 1)) <= 4 * SLACK
    assert worst_ratio(law, (0, 1)) <= 2 * SLACK


def test_the_factor_two_goes_only_with_monotonic_scores() -> None:
    """Planted: without it, scores that move both ways cost more."""
    assert worst_ratio(exponential_law, (-1, 0, 1)) > 2 * SLACK
    assert worst_ratio(geometric_law, (-1, 0, 1)) > 2 * SLACK


@pytest.mark.parametrize("made", [*MECHANISMS, partial(dpfast.AboveThreshold, threshold=3)])
def test_monotonic_follows_from_what_a_unit_contributes(made) -> None:
    """Contributions >= 0, add-remove, move one way: noise halved unasked. False is kept."""
    one_way, either = Sensitivity(2, 1), Sensitivity(2, 1, signed=True)
    assert made(1, one_way).monotonic is True
    assert made(1, one_way, monotonic=False).monotonic is False
    for other in (either, Sensitivity(2, 1, adjacency="substitution"), Sensitivity.changes(2, 1), 1):
        assert made(1, other).monotonic is False
    assert made(1, Sensitivity.changes(2, 1), monotonic=True).monotonic is True  # who knows that may say it
    assert made(1, 1, monotonic=True).monotonic is True
    for wrong in (either, Sensitivity(2, 1, adjacency="substitution", signed=True)):
        with pytest.raises(ParameterError, match="^monotonic must be False"):
            made(1, wrong, monotonic=True)
    assert "monotonic=True" in repr(made(1, one_way))
    assert "monotonic=False" in repr(made(1, either))
    assert made(1, one_way).metadata()["monotonic"] is True
    again = pickle.loads(pickle.dumps(made(1, one_way, monotonic=False)))
    assert again.monotonic is False


def test_a_signed_unit_that_was_called_monotonic_cost_twice() -> None:
    """Planted: scores (0, 0) against a signed unit's (1, -1), under the noise of monotonic ones."""
    laws = [geometric_law(scores) for scores in ((0, 0), (1, -1))]
    worst = max(max(a / b, b / a) for a, b in zip(*laws, strict=True))
    assert worst > 4 * Fraction(99, 100)  # e^(2 epsilon), e^epsilon = 2
    assert tiers.rate(NoisyMax(1, Sensitivity(2, 1, signed=True))) == HALF  # so the noise has to be twice as wide


def test_integer_noise_on_quarters_would_cost_twice() -> None:
    """Planted: scores k/4, moves of 1/4, q = e^(-epsilon/(2/4)), floors: 2 epsilon."""
    epsilon = 2 * math.log(2)  # so that a quarter is worth a factor 2, and q = 2^-4

    def law(quarters: tuple[int, ...]) -> list[Fraction]:
        found, n = [0] * len(quarters), len(quarters)
        for noise in itertools.product(range(8), repeat=n):
            sums = [s + 4 * x for s, x in zip(quarters, noise, strict=True)]
            found[sums.index(max(sums))] += 15**n * 16 ** (7 * n - sum(noise))
        return [Fraction(weight, 16 ** (8 * n)) for weight in found]

    worst = worst_ratio(law, (-1, 0, 1), length=2)
    assert float(worst) > 1.9 * math.exp(epsilon)
    # The mechanism itself selects with exponential noise there.
    assert NoisyMax(1, Fraction(1, 4)).select([0, 0]) in (0, 1)


# ------------------------------------------------------------------ the programs against the laws

ALARM = 1e-9  # by chi-squared; the true tail is some 10 times heavier where a cell holds 24 draws
SCORES = [(0, 1, 2, 0), (3, 3, 1), (-3, 0, 0, 0, 2)]


def p_value(mechanism, law, scores, n, kind=np.int64) -> float:
    """Chi-squared: n winners against their law."""
    given = np.array(scores, kind)
    counts = np.bincount([mechanism.select(given) for _ in range(n)], minlength=len(scores))
    expected = np.array([float(p) for p in law(scores)])
    return stats.chisquare(counts, expected * n / expected.sum()).pvalue


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("kind", [np.int64, np.float64, np.float32])
@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(Exponential, exponential_law), (PermuteAndFlip, flip_law), (NoisyMax, None)],
    ids=["exponential", "permute-and-flip", "noisy max"],
)
def test_winners_follow_the_law(mechanism, law, kind, scores) -> None:
    """False alarm 1e-8 each. NoisyMax: geometric noise on integers, permute-and-flip on floats."""
    law = law or (geometric_law if kind is np.int64 else flip_law)
    assert p_value(mechanism(2 * math.log(2), 1), law, scores, 2000, kind) > ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_other_laws_are_rejected(mechanism) -> None:
    """The same test at power, on what the missing factor 2 would give: ALARM is passed by far."""
    n, scores = 2500, (0, 1, 2, 0)
    law = {Exponential: exponential_law, PermuteAndFlip: flip_law, NoisyMax: geometric_law}[mechanism]
    for wrong in (mechanism(2 * math.log(2), 1, monotonic=True), mechanism(math.log(2), 1)):
        assert p_value(wrong, law, scores, n) < 1e-12
    assert p_value(mechanism(math.log(2), 1, monotonic=True), law, scores, n) > ALARM


def test_ties_of_integers_go_to_the_lower_index() -> None:
    """If two scores are equal and q = 1/2 the first wins with 2/3; an upper index would get 1/3."""
    n = 3000
    wins = [NoisyMax(2 * math.log(2), 1).select([7, 7]) for _ in range(n)].count(0)
    assert stats.binomtest(wins, n, 2 / 3).pvalue > ALARM
    assert stats.binomtest(wins, n, 1 / 2).pvalue < 1e-12
    wins = [NoisyMax(math.log(2), HALF).select([7, 7]) for _ in range(n)].count(0)  # exponential noise: no ties
    assert stats.binomtest(wins, n, 1 / 2).pvalue > ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bulk_and_small_calls_agree(mechanism) -> None:
    """50,000 equal candidates in bulk: a uniform winner, by its leading digit; 1e-9."""
    n, rounds = 50_000, 400
    winners = [mechanism(1, 1).select(np.zeros(n)) for _ in range(rounds)]
    counts = np.bincount(np.array(winners) * 10 // n, minlength=10)
    assert stats.chisquare(counts).pvalue > ALARM
    better = np.zeros(n)
    better[12_345] = 60  # e^30 against 50,000
    assert all(mechanism(1, 1).select(better) == 12_345 for _ in range(20))


# ------------------------------------------------------------------ selection, digit by digit


def reader(words: dict[int, int], bits: int = 700) -> exact.Read:
    """Digits of planted words of `bits` binary digits, level by level; zeros beyond."""

    def read(i: int, level: int) -> exact.Digits:
        known = 32 + 64 * level
        return exact.Digits((words[i] << 2**15) >> bits + 2**15 - known, known)

    return read


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.integers(2**400, 2**699 - 1), min_size=2, max_size=5),
    scores=st.lists(st.fractions(-8, 0, max_denominator=1000), min_size=5, max_size=5),
    gumbel=st.booleans(),
)
def test_the_first_is_the_first(words, scores, gumbel) -> None:
    """Against 300 digits of mpmath, U = word / 2^699."""
    candidates = list(enumerate(scores[: len(words)]))
    with mpmath.workprec(1500):
        places = []
        for (_, a), word in zip(candidates, words, strict=True):
            e = -mpmath.log(mpmath.mpf(word) / mpmath.mpf(2) ** 699)
            noise = (-mpmath.log(e) if e else mpmath.inf) if gumbel else e
            places.append(mpmath.mpf(a.numerator) / a.denominator + noise)
        leaders = sorted(range(len(places)), key=lambda i: places[i])
    if places[leaders[-1]] - places[leaders[-2]] < mpmath.mpf(10) ** -150 or mpmath.inf in places:
        return
    assert exact.winners(reader(dict(enumerate(words))), candidates, gumbel=gumbel) == [leaders[-1]]


@pytest.mark.parametrize("gumbel", [False, True])
def test_a_selection_that_only_late_digits_decide(gumbel) -> None:
    """Equal scores, words equal for 300 digits: the smaller U leads; gumbel: the larger."""
    base = int(mpmath.mpf("0.3") * 2**300) << 399
    words = {4: base + 5, 9: base + (1 << 380)}
    assert exact.winners(reader(words), [(4, Fraction(-1)), (9, Fraction(-1))], gumbel=gumbel) == [9 if gumbel else 4]


@pytest.mark.parametrize("gumbel", [False, True])
def test_digits_not_read_yet_may_turn_a_selection(gumbel) -> None:
    """After 95 digits U's cells are neighbours: half a cell behind loses, until the next digits."""
    cell = 1 << 699 - 95
    words = {0: (1 << 698) + 9 * cell // 10, 1: (1 << 698) + cell}  # U = 1/2 and 0.9 cells, or 1 cell
    half = Fraction(1, 2**96) * (Fraction(2885, 1000) if gumbel else 2)  # half a cell, in E or in -ln E at U = 1/2
    # E is larger for the lower U, -ln E for the upper one: by a tenth of a cell, less half a cell.
    candidates = [(0, half if gumbel else Fraction(0)), (1, Fraction(0) if gumbel else half)]
    assert exact.winners(reader(words), candidates, gumbel=gumbel) == [0 if gumbel else 1]


@settings(max_examples=150, deadline=None)
@given(
    gap=st.one_of(st.just(0.0), st.floats(1e-300, 1e300)),
    noise=st.one_of(st.integers(0, 50), st.integers(0, 2**26)),
    rate=st.floats(1e-12, 1e12),
    part=st.fractions(0, 1, max_denominator=10**6).filter(lambda p: p < 1),
    gumbel=st.booleans(),
)
@example(gap=0.0, noise=0, rate=1.0, part=Fraction(999_999, 10**6), gumbel=True)
@example(gap=0.0, noise=0, rate=1.0, part=Fraction(0), gumbel=True)
@example(gap=0.0, noise=1, rate=1.0, part=Fraction(999_999, 10**6), gumbel=True)
@example(gap=0.0, noise=2**26, rate=1.0, part=Fraction(0), gumbel=False)
@example(gap=1e9, noise=3, rate=0.1, part=Fraction(1, 2), gumbel=False)
@example(gap=5e-324, noise=2**20, rate=2.0**901, part=Fraction(1, 2), gumbel=True)
def test_nominations_have_room_for_every_error(gap, noise, rate, part, gumbel) -> None:
    """For E in [G, G + 1)/2^20, the candidate lies between the kernel's ends."""
    low, high = tiers.score_ends(gap, noise, rate, int(gumbel))
    if gap * rate == math.inf:
        assert not low > -math.inf
        assert not high >= -math.inf  # NaN: no comparison lets it win
        return
    with mpmath.workprec(300):
        a = -mpmath.mpf(gap) * mpmath.mpf(rate)
        e = (noise + mpmath.mpf(part.numerator) / part.denominator) / mpmath.mpf(2) ** 20
        y = a + ((-mpmath.log(e) if e else mpmath.inf) if gumbel else e)
    assert low <= y <= high
    if noise > 100 and abs(a) < 1e3:
        assert high - low < 2.0**-18 + (2 / noise if gumbel else 0)


def test_who_may_win_is_nominated() -> None:
    """The kernel leaves out nobody within the leader's reach, whatever room it has."""
    nominate = kernels.kernel("nominate")
    gaps, noise = np.zeros(50), np.full(50, 10**6)
    noise[7] = 10**6 + 5
    found = np.empty(3, np.int64)

    def leaders(k: int = 1) -> np.ndarray:
        return np.full(k, -np.inf)

    assert nominate(gaps, noise, 1.0, False, leaders(), found) == 1
    assert found[0] == 7
    noise[9] = 10**6 + 6  # within a step of the grid
    assert nominate(gaps, noise, 1.0, False, leaders(), found) == 2
    assert found[:2].tolist() == [7, 9]
    assert nominate(gaps, noise, 1.0, False, leaders(2), found) == 2
    assert nominate(gaps, noise, 1.0, False, leaders(3), found) == 50
    assert nominate(gaps, np.full(50, 3), 1.0, True, leaders(), found) == 50
    far = np.full(50, 1e300)  # whose place no double has: nobody is left out until k have one
    far[7] = 0
    assert nominate(far, noise, 1e300, True, leaders(), found) == 1
    assert nominate(far, noise, 1e300, True, leaders(2), found) == 50


def test_a_winner_by_less_than_the_doubles_err_is_heard(monkeypatch) -> None:
    """Planted: the first candidate leads by 2^-50; the kernel's logarithms err by 2^-46.

    They err most beside the ends of [2^-1/2, 2^1/2), and towards 0: too high for the first
    candidate, too low for the other, so the first looks behind. It must be nominated all the same;
    the exact tier sees that it wins.
    """
    steps = int(0.70715 * 2**25), int(1.41415 * 2**24)  # steps of 2^-20, in which a nomination knows E
    least, most = (mpmath.mpf(g) / 2**20 for g in (steps[0] + 2.0**-40, steps[1] + 1 - 2.0**-40))
    with mpmath.workprec(300):
        lead = mpmath.log(least / most)  # that the other has, at equal scores
        gap = float(lead) + 2.0**-50
        words = [mpmath.exp(-e) for e in (least, most)]
        assert 0 < gap - lead < 2.0**-49

    def read(i: int, level: int) -> exact.Digits:
        bits = 32 + 64 * level
        with mpmath.workprec(300 + bits):
            return exact.Digits(int(mpmath.floor(words[i] * mpmath.mpf(2) ** (bits - 1))), bits)

    class Planted:
        @contextlib.contextmanager
        def drawn(self, n: int) -> Iterator[tuple[np.ndarray, exact.Read]]:
            yield np.array(steps), read

    tiers.plant_candidate_noise(monkeypatch, Planted)
    assert Exponential(2, 1).select([0.0, -gap]) == 0
    assert Exponential(2, 1).select([0.0, -(gap - 2.0**-48)]) == 1  # the other, once it is ahead in truth


def test_nominees_beyond_the_room_are_all_heard(monkeypatch) -> None:
    """Room for one only, noise too coarse to tell candidates apart: an equal law; 1e-9."""
    tiers.coarse_candidate_noise(monkeypatch)

    def coarse(
        gaps, noise, rate, gumbel, leaders, found
    ) -> int:  # everybody, as a kernel with no digits at all would say
        found[:] = np.arange(found.size)
        return gaps.size

    monkeypatch.setattr(kernels, "kernel", lambda name: coarse if name == "nominate" else original(name))
    for mechanism, law in ((Exponential, exponential_law), (PermuteAndFlip, flip_law)):
        assert p_value(mechanism(2 * math.log(2), 1), law, (0, 1, 2, 0), 1500) > ALARM


original = kernels.kernel

# ------------------------------------------------------------------ scores of every kind


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "scores",
    [
        [1e308, -1e308], [0.0, -1.7976931348623157e308], [5e-324, 0.0], np.array([0, 2**64 - 1], np.uint64)[::-1],
        np.array([2**63 - 1, -(2**63)]), np.array([200, 0], np.uint8), np.array([9, 1, 1], ">i4"), np.array([9.0, 1.0], ">f8"),
        np.arange(20, 0, -1)[::2], np.arange(20.0)[::-1], np.array([3.5], np.float32),
    ],
    ids=str,
)  # fmt: skip
def test_scores_of_every_kind(mechanism, scores) -> None:
    """The first is best beyond noise of scale 2e-3; the exact tier tells subnormals apart."""
    found = mechanism(1e3, 1).select(scores)
    assert found == 0 or scores[0] < 1e-300


def test_noise_that_outruns_distance() -> None:
    """At epsilon 1e-12 scores a million apart are as good as equal: both win; no overflow."""
    for mechanism in MECHANISMS:
        for kind in (np.int64, np.float64):
            assert {mechanism(1e-12, 1).select(np.array([0, 10**6], kind)) for _ in range(60)} == {0, 1}


def test_what_it_promises() -> None:
    """epsilon, adjacency and unit; a frozen value that pickles, whatever noise it keeps."""
    change = Sensitivity(3, 2, adjacency="substitution", unit="household")
    for mechanism in MECHANISMS:
        made = mechanism(HALF, change)
        rho = HALF**2 / 8 if mechanism is dpfast.Exponential else None  # its loss has a bounded range
        assert made.guarantee == dpfast.Guarantee(HALF, rho=rho, adjacency="substitution", unit="household")
        assert made.sensitivity == 2
        made.select([1, 2])  # which keeps noise beside the parameters
        assert pickle.loads(pickle.dumps(made)) == made
        assert made != mechanism(HALF, 2)
        found = made.metadata()
        assert json.loads(json.dumps(found)) == found
        assert (found["epsilon"], found["sensitivity"], found["unit"]) == ("1/2", "2", "household")
        assert repr(made).startswith(f"<{mechanism.__name__} epsilon=0.5")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("scores", "error", "message"),
    [
        ([], ParameterError, "at least one candidate"),
        ([[1, 2]], ParameterError, r"shape \(1, 2\)"),
        (3, ParameterError, "one dimension"),
        ([1.0, float("nan")], ParameterError, "^scores must be finite$"),
        ([1.0, float("inf")], ParameterError, "finite"),
        (["a"], DTypeError, "scores must be integers"),
        ([True, False], DTypeError, "bool"),
        (np.array([1, 2], np.float16), DTypeError, "float16"),
        ([Fraction(1, 3)], DTypeError, "object"),
        (np.ma.array([1, 2]), DTypeError, "masked"),
    ],
    ids=str,
)
def test_bad_scores(mechanism, scores, error, message) -> None:
    """Each is refused by rule, and no score is told."""
    with pytest.raises(error, match=message) as caught:
        mechanism(1, 1).select(scores)
    assert "nan" not in str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"sensitivity": -1}, ParameterError, "sensitivity must be positive"),
        ({"monotonic": "yes"}, DTypeError, "monotonic must be True or False"),
        (
            {"monotonic": True, "adjacency": "substitution"},
            ParameterError,
            "monotonic must be False under substitution",
        ),
        ({"sensitivity": Sensitivity.from_l2(2)}, ParameterError, "in a single answer"),
        ({"sensitivity": Sensitivity(1, 1), "unit": "visit"}, ParameterError, "leave them out"),
        ({"epsilon": Fraction(1, 2**1000)}, ParameterError, "2\\*\\*-899"),
    ],
    ids=str,
)
def test_bad_parameters(mechanism, arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        mechanism(**{"epsilon": 1, "sensitivity": 1} | arguments)


@pytest.mark.parametrize("epsilon", [2**62, Fraction(1, 2**50)])
def test_the_range_of_noise_on_integers(epsilon) -> None:
    """Refused beyond it, whatever the scores are; reals have no such limit."""
    assert NoisyMax(epsilon, 1).select([0.0, 1.0]) in (0, 1)
    with pytest.raises(ParameterError, match=r"on integers must lie between 2\*\*-60 and 2\*\*50"):
        NoisyMax(epsilon, 1).select([0, 1])


def test_differences_of_integers_beyond_int64() -> None:
    """The largest gap, exactly: 2^63 or more behind never wins, whatever the noise."""
    worst = np.array([-(2**63), 2**63 - 1])
    assert all(NoisyMax(Fraction(1, 2**47), 1).select(worst) == 1 for _ in range(50))
    assert all(PermuteAndFlip(Fraction(1, 2**47), 1).select(worst) == 1 for _ in range(50))


def test_nothing_private_is_left_in_arrays(monkeypatch) -> None:
    """The gaps and the noise of a selection are zeros when it ends, by an error too."""
    seen = []
    sample = dpfast.OneSidedGeometric.sample
    monkeypatch.setattr(
        dpfast.OneSidedGeometric, "sample", lambda *arguments: seen.append(sample(*arguments)) or seen[-1]
    )
    NoisyMax(Fraction(1, 1000), 1).select(np.arange(5000))

    def everybody(*arguments: Any) -> int:
        seen.extend(arguments[:2])
        arguments[-1][:] = np.arange(arguments[-1].size)
        return arguments[0].size

    monkeypatch.setattr(kernels, "kernel", lambda name: everybody if name == "nominate" else original(name))
    Exponential(1, 1).select([1.5, 2.5, 9.5])
    monkeypatch.setattr(exact, "winners", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Exponential(1, 1).select([1.5, 2.5, 9.5], k=2)
    assert len(seen) == 5
    assert not any(array.any() for array in seen)


# ------------------------------------------------------------------ the k best in one shot

TOP = {
    made: cache(law)
    for made, law in ((Exponential, exponential_top), (PermuteAndFlip, flip_top), (NoisyMax, geometric_top))
}


def worst_of_top(law: Any, k: int, monotonic: bool) -> tuple[float, float]:
    """The largest loss and rho of all worlds of three scores, at epsilon 1, both directions."""
    known: dict[tuple[int, ...], list[float]] = {}
    pairs: set[tuple[tuple[int, ...], ...]] = set()  # a law knows scores but for what they share
    for scores in itertools.product(range(3), repeat=3):
        for move in itertools.product((0, 1) if monotonic else (-1, 0, 1), repeat=3):
            moved = tuple(s + m for s, m in zip(scores, move, strict=True))
            pair = [tuple(s - max(each) for s in each) for each in (scores, moved)]
            for each in pair:
                if each not in known:
                    known[each] = law(each, math.exp(-1 if monotonic else -1 / 2), k)
                    assert abs(sum(known[each]) - 1) < 1e-8
            pairs |= {tuple(pair), tuple(pair[::-1])}
    found = [loss_and_rho(known[a], known[b]) for a, b in pairs]
    return max(loss for loss, _ in found), max(rho for _, rho in found)


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize(("mechanism", "k"), [*((made, 2) for made in MECHANISMS), (Exponential, 3), (NoisyMax, 1)])
def test_every_small_world_keeps_the_price_of_k(mechanism, k, monotonic) -> None:
    """Loss and rho within what picks(k) says; and rho beyond what would be too little."""
    spent = mechanism(1, 1, monotonic=monotonic).picks(k)
    loss, rho = worst_of_top(TOP[mechanism], k, monotonic)
    assert loss <= spent.epsilon + 1e-6 == k + 1e-6
    assert rho <= spent.rho
    assert loss > 0.8 * k or mechanism is Exponential
    if mechanism is PermuteAndFlip:
        assert rho > 2 * k / 8  # planted: Exponential's
    if mechanism is NoisyMax and k == 2 and monotonic:
        assert rho > k * math.tanh(1 / 2)  # planted: k picks, one after another
        assert rho == pytest.approx(0.9957, abs=1e-3)


def test_what_k_picks_spend() -> None:
    """k epsilon; Gumbel noise k epsilon^2/8, the others k epsilon tanh(k epsilon/2), rounded up."""
    whose = Sensitivity(1, 2, adjacency="substitution", unit="visit")
    for mechanism in MECHANISMS:
        found = mechanism(HALF, whose).picks(4)
        assert (found.epsilon, found.delta, found.adjacency, found.unit) == (2, 0, "substitution", "visit")
    assert Exponential(HALF, whose).picks(4).rho == 4 * HALF**2 / 8
    with mpmath.workprec(200):
        least = 2 * mpmath.tanh(1)
        for mechanism in (PermuteAndFlip, NoisyMax):
            rho = mechanism(HALF, whose).picks(4).rho
            assert least <= mpmath.mpf(rho.numerator) / rho.denominator <= least * (1 + mpmath.mpf(2) ** -50)
    assert Exponential(20, 1).picks(2).rho < 41 < 2 * 20**2 / 8  # where epsilon tanh(epsilon/2) is less
    assert PermuteAndFlip(1, 1).picks().rho >= Fraction(46211715, 10**8)


@pytest.mark.parametrize("scores", [(0, 1, 2), (2, 2, 1)])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_k_best_follow_the_law(mechanism, kind, scores) -> None:
    """Two of three in order; false alarm below 1e-7. The law of scores turned about is refused."""
    law, n = TOP[PermuteAndFlip if kind is np.float64 and mechanism is NoisyMax else mechanism], 1500
    made, places = mechanism(2, 1), {order: i for i, order in enumerate(orders(3, 2))}
    found = [places[tuple(made.select(np.array(scores, kind), k=2).tolist())] for _ in range(n)]
    for of, least, most in ((scores, ALARM, 1), (scores[::-1], -1, 1e-12)):
        expected = np.array(law(of, math.exp(-1), 2))
        assert least < stats.chisquare(np.bincount(found, minlength=6), expected * n / expected.sum()).pvalue <= most


@settings(max_examples=60, deadline=None)
@given(
    shared=st.integers(2**30, 2**60 - 1),
    late=st.lists(st.integers(1, 2**12), min_size=3, max_size=9, unique=True),
    scores=st.lists(st.sampled_from([0.0, -1.0, -(2.0**-50), 5e-324, -2.0]), min_size=9, max_size=9),
    k=st.integers(1, 9),
    gumbel=st.booleans(),
)
def test_the_k_best_of_words_that_are_nearly_equal(shared, late, scores, k, gumbel) -> None:
    """Words that differ after 130 digits alone: the order is that of 1,000 digits of mpmath."""
    n, k = len(late), min(k, len(late))
    words = [shared << 240 | each << 100 for each in late]  # 300 digits behind the sign
    with mpmath.workprec(1000):
        energies = [-mpmath.log(mpmath.mpf(word) / mpmath.mpf(2) ** 300) for word in words]
        sums = [mpmath.mpf(s) + (-mpmath.log(e) if gumbel else e) for s, e in zip(scores, energies, strict=False)]
        wanted = sorted(range(n), key=sums.__getitem__, reverse=True)[:k]
        steps = np.array([int(mpmath.floor(e * 2**20)) for e in energies])

    def read(i: int, level: int) -> exact.Digits:
        bits = 31 + 64 * level
        return exact.Digits(words[i] >> 300 - bits if bits <= 300 else words[i] << bits - 300, bits + 1)

    class Planted:
        @contextlib.contextmanager
        def drawn(self, n: int) -> Iterator[tuple[np.ndarray, exact.Read]]:
            yield steps, read

    with pytest.MonkeyPatch.context() as patch:
        tiers.plant_candidate_noise(patch, Planted)
        made = (Exponential if gumbel else PermuteAndFlip)(2, 1)
        assert made.select(np.array(scores[:n]), k=k).tolist() == wanted


def test_all_are_put_in_order() -> None:
    """k up to all candidates, each once; without noise to speak of, by score, and ties by index."""
    scores = np.array([3, 9, 3, 7, 9, 1])
    for mechanism in MECHANISMS:
        for kind in (np.int64, np.uint64, np.int8, np.float32):
            made = mechanism(2000, 1)
            assert made.select(np.array([3, 9, 4, 7, 8, 1], kind), k=6).tolist() == [1, 4, 3, 2, 0, 5]
            assert sorted(mechanism(1, 1).select(scores.astype(kind), k=6).tolist()) == list(range(6))
    assert NoisyMax(2000, 1).select(scores, k=4).tolist() == [1, 4, 3, 0]
    rng = np.random.default_rng(5)
    many = rng.permutation(5000)
    for mechanism in MECHANISMS:
        assert mechanism(2000, 1).select(many, k=700).tolist() == np.argsort(-many)[:700].tolist()


def test_the_k_best_of_integers_far_apart() -> None:
    """2^63 and more behind the best, the others are told apart exactly all the same."""
    scores = np.array([-(2**63), 2**63 - 1, -(2**63) + 10**6, 0])
    for mechanism in MECHANISMS:
        assert mechanism(1, 1).select(scores, k=4).tolist() == [1, 3, 2, 0]
        assert mechanism(1, 1).select([0.0, 1.7e308, -1.7e308], k=3).tolist() == [1, 0, 2]
        assert mechanism(2.0**600, 1).select([0.0, 1.7e308, -1.7e308], k=3).tolist() == [1, 0, 2]


def test_a_ledger_is_charged_for_all_picks(tmp_path) -> None:
    """And the number is on record; a single one costs what it did."""
    ledger = dpfast.Ledger(tmp_path / "b.db", 10, create=True)
    found = ledger.release(PermuteAndFlip(2, 1), [5, 900, 700], k=3)
    assert found.tolist() == [1, 2, 0]
    assert ledger.spent.epsilon == 6
    assert ledger.release(PermuteAndFlip(2, 1), [5, 900, 700]) == 1
    assert [entry.parameters.get("k") for entry in ledger.history()] == [3, None]
    with pytest.raises(dpfast.errors.BudgetExhausted):
        ledger.release(PermuteAndFlip(2, 1), [5, 900, 700], k=2)
    for wrong in (0, 4):
        with pytest.raises(ParameterError, match="k must be at "):
            ledger.release(PermuteAndFlip(Fraction(1, 10), 1), [5, 900, 700], k=wrong)
    assert ledger.spent.epsilon == 8


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ParameterError, "k must be at least 1, got 0"),
        (-1, ParameterError, "k must be at least 1"),
        (4, ParameterError, "k must be at most the number of candidates, 3, got 4"),
        (2.0, DTypeError, "k must be an int, not float"),
        (True, DTypeError, "k must be an int, not bool"),
    ],
)
def test_bad_k(mechanism, k, error, message) -> None:
    with pytest.raises(error, match=message):
        mechanism(1, 1).select([1, 2, 3], k=k)


def test_no_entropy_no_winner(monkeypatch) -> None:
    """Where the system gives no key, nobody wins."""
    tiers.no_entropy(monkeypatch)
    for mechanism in (Exponential, PermuteAndFlip):
        with pytest.raises(dpfast.errors.EntropyError):
            mechanism(1, 1).select([0.5, 1.5])
