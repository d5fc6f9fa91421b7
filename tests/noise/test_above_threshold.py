# SPDX-License-Identifier: Apache-2.0
"""AboveThreshold: small worlds by exact sums, the program against them, what it must not read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from scipy import stats
from worlds import first_above, worst_ratio

import dpfast
from dpfast import AboveThreshold, Sensitivity
from dpfast.errors import DTypeError, ParameterError


def of_triples(q_threshold: Fraction, q_answer: Fraction, moves: tuple[int, ...]) -> Fraction:
    """Over all triples of answers from -2 to 1 and all neighbours."""
    return worst_ratio(lambda answers: first_above(answers, q_threshold, q_answer), moves, range(-2, 2))


SLACK = 1 + Fraction(1, 10**15)  # for what lies beyond worlds.ABOVE_REACH


@pytest.mark.parametrize(("q_answer", "moves"), [(Fraction(1, 2), (-1, 0, 1)), (Fraction(1, 4), (0, 1))])
def test_every_small_world_keeps_epsilon(q_answer, moves) -> None:
    """e^epsilon = 16: q = e^(-epsilon/2) = 1/4, for answers that move both ways e^(-epsilon/4)."""
    assert 4 < of_triples(Fraction(1, 4), q_answer, moves) <= 16 * SLACK


def run_law(answers: np.ndarray, rate: float) -> np.ndarray:
    """Where runs at epsilon 1 end, by sums of doubles. rate: that of an answer's noise."""
    z = np.arange(-150, 151)  # noise of the threshold
    still, ends = np.tanh(0.25) * np.exp(-0.5 * abs(z)), []
    for answer in answers:
        up = np.exp(-rate * abs(z - answer)) / (1 + np.exp(-rate))
        reached = np.where(z > answer, up, 1 - up * np.exp(-rate))
        ends.append(still @ reached)
        still = still * (1 - reached)
    return np.array([*ends, still.sum()])


@pytest.mark.parametrize(
    ("monotonic", "most", "many", "high", "step"),
    [
        (False, 0.058, [5, 2, 2, 1, 3, 2, 4, 2, 4, 3, 20, 69], [0, -1, 2, 1, 3, 3, 8, 8, 14, 14, 15, 20], [-1, 1] * 6),
        (True, 0.08, [4, 2, 3, 3, 3, 3, 11, 28, 10, 5, 756, 129], [-1, 0, 1, 2, 5, 6, 6, 4, 7, 9, 2, 13], [1, 0] * 6),
    ],
)
def test_the_worst_rho_that_a_search_found(monotonic, most, many, high, step) -> None:
    """The docstring's figures, with a world that has each; what is stated is 0.462."""
    answers, moved = np.repeat(high, many), np.repeat(step, many)
    rate = 0.5 if monotonic else 0.25
    p, q = run_law(answers, rate), run_law(answers + moved, rate)
    orders = 1 + np.geomspace(1e-3, 50, 300)
    found = max((np.log((a * (a / b) ** (o - 1)).sum()) / (o - 1) / o for o in orders for a, b in ((p, q), (q, p))))
    assert 0.98 * most < found <= most
    assert f"{most}" in AboveThreshold.__doc__
    assert f"{float(AboveThreshold(1, 1, threshold=1).guarantee.rho):.3f}" in AboveThreshold.__doc__


@pytest.mark.slow
def test_halving_both_noises_is_caught() -> None:
    """Answers that move both ways under monotonic noise: up to 1.5 epsilon."""
    worst = of_triples(Fraction(1, 4), Fraction(1, 4), (-1, 0, 1))
    assert 16 * SLACK < worst <= 64 * SLACK


def test_halving_both_noises_of_monotonic_answers_is_caught() -> None:
    """1.5 epsilon: nine high answers before a low one move by 1. Our noise keeps epsilon."""
    before, after = (first_above((high,) * 9 + (-12,), Fraction(1, 16), Fraction(1, 4))[9] for high in (5, 6))
    assert 63 < before / after <= 64 * SLACK
    before, after = (first_above((high,) * 9 + (-12,), Fraction(1, 4), Fraction(1, 4))[9] for high in (5, 6))
    assert before / after <= 16 * SLACK


@pytest.mark.parametrize(("monotonic", "factor"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("sensitivity", [1, 3, Fraction(1, 2)])
def test_scales(monotonic, factor, sensitivity) -> None:
    """The noise that a run draws: 2 sensitivity/epsilon for the threshold always."""
    mechanism = AboveThreshold(Fraction(1, 7), sensitivity, threshold=10, monotonic=monotonic)
    of_threshold, of_answer = (noise.sensitivity / noise.epsilon for noise in tiers.noises(mechanism))
    assert (of_threshold, of_answer) == (14 * sensitivity, 7 * factor * sensitivity)


@pytest.mark.parametrize(("monotonic", "q_answer"), [(False, 0.5), (True, 0.25)])
def test_runs_follow_the_law(monotonic, q_answer) -> None:
    """False alarm 2e-8; an answer's noise of the other kind is rejected."""
    answers, n = (-1, 1, -2), 20_000
    mechanism = AboveThreshold(np.log(16.0), 1, threshold=5, monotonic=monotonic)
    runs = [mechanism.run([a + 5 for a in answers]) for _ in range(n)]
    observed = [runs.count(i) for i in (0, 1, 2, None)]

    def p_value(q: float) -> float:
        law = np.array([float(p) for p in first_above(answers, Fraction(1, 4), Fraction(q))])
        return stats.chisquare(observed, n * law / law.sum()).pvalue

    assert p_value(q_answer) > 1e-9
    assert p_value(0.75 - q_answer) < 1e-9


def test_nothing_is_read_after_the_first_above() -> None:
    """An answer after the one that ends the run is never asked for."""
    read = []

    def answers() -> Iterator[int]:
        for answer in (-(10**6), -(10**6), 10**6, 10**6):
            read.append(answer)
            yield answer

    assert AboveThreshold(1, 1, threshold=0).run(answers()) == 2
    assert len(read) == 3


def test_runs_are_independent_and_leave_nothing() -> None:
    """One run after another on the same mechanism differs; no state is kept between them."""
    mechanism = AboveThreshold(Fraction(1, 100), 1, threshold=0)
    mechanism.run([0])  # makes its noise
    before = dict(vars(mechanism))
    assert len({mechanism.run(range(-1000, 1000)) for _ in range(20)}) > 3
    assert vars(mechanism) == before
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism


def test_answers_of_any_size_are_exact() -> None:
    """Python integers, beyond those of any dtype."""
    assert AboveThreshold(1, 1, threshold=2**200).run([2**199, 2**201]) == 1
    assert AboveThreshold(1, 1, threshold=-(2**200)).run(np.array([-(2**63)])) == 0
    assert AboveThreshold(1, 1, threshold=0).run([]) is None


def test_what_it_promises() -> None:
    """epsilon once for the run, for the change of one answer; metadata that JSON holds."""
    change = Sensitivity(3, 2, adjacency="substitution", unit="household")
    mechanism = AboveThreshold(Fraction(1, 2), change, threshold=0)
    assert mechanism.sensitivity == 2  # one answer, however many a household touches
    assert mechanism.guarantee == dpfast.Guarantee(Fraction(1, 2), adjacency="substitution", unit="household")
    assert "threshold=0" in repr(mechanism)
    found = mechanism.metadata()
    assert json.loads(json.dumps(found)) == found
    assert {
        "mechanism": "above_threshold",
        "epsilon": "1/2",
        "threshold": 0,
        "monotonic": False,
    }.items() <= found.items()


def test_the_widest_noise_fits() -> None:
    """At both ends of sensitivity/epsilon that are taken."""
    assert AboveThreshold(1, 2**48, threshold=0).run([-(2**60), 2**60]) == 1
    assert AboveThreshold(2**60, 1, threshold=0).run([-1, 0]) == 1


def test_noise_is_wiped(monkeypatch) -> None:
    """Every array of noise is zeros once the run ends, by an answer that is refused, too."""
    drawn = []
    sample = dpfast.DiscreteLaplace.sample

    def kept(self: dpfast.DiscreteLaplace, *arguments: Any) -> np.ndarray:
        drawn.append(sample(self, *arguments))
        return drawn[-1]

    monkeypatch.setattr(dpfast.DiscreteLaplace, "sample", kept)
    AboveThreshold(Fraction(1, 1000), 1, threshold=0).run([-(10**9)] * 100)
    with pytest.raises(DTypeError):
        AboveThreshold(Fraction(1, 1000), 1, threshold=0).run([-(10**9), 0.5])
    assert len(drawn) == 5
    assert not any(array.any() for array in drawn)


@pytest.mark.parametrize("answer", [1.0, np.float64(1), True, "1", None, Fraction(1)])
def test_only_integers_are_answers(answer) -> None:
    """Also of types that hold one: a float of it, a bool, a text."""
    with pytest.raises(DTypeError, match="each of answers must be an int, not"):
        AboveThreshold(1, 1, threshold=0).run([-(10**9), answer])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"threshold": 0.5}, DTypeError, "threshold must be an int"),
        ({"sensitivity": 0}, ParameterError, "sensitivity must be positive"),
        ({"monotonic": 1}, DTypeError, "monotonic must be True or False"),
        ({"sensitivity": Sensitivity.from_l2(1)}, ParameterError, "in a single answer"),
        ({"sensitivity": Sensitivity(1, 1), "adjacency": "add-remove"}, ParameterError, "leave them out"),
        ({"sensitivity": 2**49}, ParameterError, r"2\*\*48, got epsilon=1, sensitivity=562949953421312"),
        ({"epsilon": 2**61}, ParameterError, r"2\*\*-60"),
        (
            {"sensitivity": Sensitivity(1, 1, adjacency="substitution"), "monotonic": True},
            ParameterError,
            "monotonic must be False under substitution",
        ),
    ],
)
def test_bad_parameters(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        AboveThreshold(**{"epsilon": 1, "sensitivity": 1, "threshold": 0} | arguments)
