# SPDX-License-Identifier: Apache-2.0
"""AboveThreshold: every small world by exact sums, the program against them, and what it must not read."""

from __future__ import annotations

import itertools
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast import AboveThreshold, DTypeError, ParameterError, Sensitivity

REACH = 40  # of the threshold's noise; beyond it lies less than 4^-40


def cdf(q: Fraction, k: int) -> Fraction:
    """P(X <= k) of the discrete Laplace law."""
    return q**-k / (1 + q) if k < 0 else 1 - q ** (k + 1) / (1 + q)


def outcomes(answers: tuple[int, ...], q_threshold: Fraction, q_answer: Fraction) -> list[Fraction]:
    """P(the first above is i), and of none at the end, for threshold 0: but for what lies beyond REACH."""
    found = [Fraction(0)] * (len(answers) + 1)
    for x in range(-REACH, REACH + 1):
        weight = (1 - q_threshold) / (1 + q_threshold) * q_threshold ** abs(x)
        for i, answer in enumerate(answers):
            below = cdf(q_answer, x - 1 - answer)  # answer + noise < x
            found[i] += weight * (1 - below)
            weight *= below
        found[-1] += weight
    return found


def worst_ratio(q_threshold: Fraction, q_answer: Fraction, steps: tuple[int, ...]) -> Fraction:
    """Over all triples of answers from -2 to 1 and all neighbours, whose answers move by one of `steps` each."""
    worlds = list(itertools.product(range(-2, 2), repeat=3))
    law = {}

    def of(world: tuple[int, ...]) -> list[Fraction]:
        if world not in law:
            law[world] = outcomes(world, q_threshold, q_answer)
        return law[world]

    return max(
        max(a / b, b / a)
        for world in worlds
        for move in itertools.product(steps, repeat=3)
        for a, b in zip(of(world), of(tuple(x + m for x, m in zip(world, move, strict=True))), strict=True)
    )


SLACK = 1 + Fraction(1, 10**15)  # for what lies beyond REACH


def test_every_small_world_keeps_epsilon():
    """e^epsilon = 16: the threshold's noise has q = e^(-epsilon/2) = 1/4, an answer's e^(-epsilon/4) = 1/2."""
    worst = worst_ratio(Fraction(1, 4), Fraction(1, 2), (-1, 0, 1))
    assert 4 < worst <= 16 * SLACK


def test_every_small_world_of_monotonic_answers_keeps_epsilon():
    """Both noises have q = e^(-epsilon/2) = 1/4."""
    worst = worst_ratio(Fraction(1, 4), Fraction(1, 4), (0, 1))
    assert 4 < worst <= 16 * SLACK


def test_halving_both_noises_is_caught():
    """Answers that move both ways, under the noise of monotonic ones: more than epsilon, up to 1.5 of it."""
    worst = worst_ratio(Fraction(1, 4), Fraction(1, 4), (-1, 0, 1))
    assert 16 * SLACK < worst <= 64 * SLACK


def test_halving_both_noises_of_monotonic_answers_is_caught():
    """1.5 epsilon, reached by nine high answers before a low one, which all move by 1; as it is, epsilon is kept."""
    before, after = (outcomes((high,) * 9 + (-12,), Fraction(1, 16), Fraction(1, 4))[9] for high in (5, 6))
    assert 63 < before / after <= 64 * SLACK
    before, after = (outcomes((high,) * 9 + (-12,), Fraction(1, 4), Fraction(1, 4))[9] for high in (5, 6))
    assert before / after <= 16 * SLACK


@pytest.mark.parametrize(("monotonic", "factor"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("sensitivity", [1, 3, Fraction(1, 2)])
def test_scales(monotonic, factor, sensitivity):
    """Of the noise that a run draws: 2 sensitivity/epsilon for the threshold always."""
    mechanism = AboveThreshold(Fraction(1, 7), sensitivity, threshold=10, monotonic=monotonic)
    of_threshold, of_answer = (noise.sensitivity / noise.epsilon for noise in mechanism._noise)
    assert (of_threshold, of_answer) == (14 * sensitivity, 7 * factor * sensitivity)


@pytest.mark.parametrize(("monotonic", "q_answer"), [(False, 0.5), (True, 0.25)])
def test_runs_follow_the_law(monotonic, q_answer):
    """False alarm 1e-6; an answer's noise of the other kind is rejected."""
    answers, n = (-1, 1, -2), 20_000
    mechanism = AboveThreshold(np.log(16.0), 1, threshold=5, monotonic=monotonic)
    runs = [mechanism.run([a + 5 for a in answers]) for _ in range(n)]
    observed = [runs.count(i) for i in (0, 1, 2, None)]

    def p_value(q: float) -> float:
        law = np.array([float(p) for p in outcomes(answers, Fraction(1, 4), Fraction(q))])
        return stats.chisquare(observed, n * law / law.sum()).pvalue

    assert p_value(q_answer) > 1e-6
    assert p_value(0.75 - q_answer) < 1e-6


def test_nothing_is_read_after_the_first_above():
    read = []

    def answers():
        for answer in (-(10**6), -(10**6), 10**6, 10**6):
            read.append(answer)
            yield answer

    assert AboveThreshold(1, 1, threshold=0).run(answers()) == 2
    assert len(read) == 3


def test_runs_are_independent_and_leave_nothing():
    """One run after another on the same mechanism differs; no state is kept between them."""
    mechanism = AboveThreshold(Fraction(1, 100), 1, threshold=0)
    mechanism.run([0])  # makes its noise
    before = dict(vars(mechanism))
    assert len({mechanism.run(range(-1000, 1000)) for _ in range(20)}) > 3
    assert vars(mechanism) == before
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism


def test_answers_of_any_size_are_exact():
    """Python integers, beyond those of any dtype."""
    assert AboveThreshold(1, 1, threshold=2**200).run([2**199, 2**201]) == 1
    assert AboveThreshold(1, 1, threshold=-(2**200)).run(np.array([-(2**63)])) == 0
    assert AboveThreshold(1, 1, threshold=0).run([]) is None


def test_what_it_promises():
    change = Sensitivity(3, 2, adjacency="substitution", unit="household")
    mechanism = AboveThreshold(Fraction(1, 2), change, threshold=0)
    assert mechanism.sensitivity == 2  # of one answer, however many a household touches
    assert mechanism.guarantee == dpfast.Guarantee(Fraction(1, 2), adjacency="substitution", unit="household")
    assert "threshold=0" in repr(mechanism)
    found = mechanism.metadata()
    assert json.loads(json.dumps(found)) == found
    assert (found["mechanism"], found["epsilon"], found["threshold"], found["monotonic"]) == (
        "above_threshold",
        "1/2",
        0,
        False,
    )


def test_the_widest_noise_fits():
    """At both ends of sensitivity/epsilon that are taken."""
    assert AboveThreshold(1, 2**48, threshold=0).run([-(2**60), 2**60]) == 1
    assert AboveThreshold(2**60, 1, threshold=0).run([-1, 0]) == 1


def test_noise_is_wiped(monkeypatch):
    """Every array of noise is zeros once the run ends, by an answer that is refused, too."""
    drawn = []
    sample = dpfast.DiscreteLaplace.sample

    def kept(self, *arguments):
        drawn.append(sample(self, *arguments))
        return drawn[-1]

    monkeypatch.setattr(dpfast.DiscreteLaplace, "sample", kept)
    AboveThreshold(Fraction(1, 1000), 1, threshold=0).run([-(10**9)] * 100)
    with pytest.raises(DTypeError):
        AboveThreshold(Fraction(1, 1000), 1, threshold=0).run([-(10**9), 0.5])
    assert len(drawn) == 5
    assert not any(array.any() for array in drawn)


@pytest.mark.parametrize("answer", [1.0, np.float64(1), True, "1", None, Fraction(1)])
def test_only_integers_are_answers(answer):
    with pytest.raises(DTypeError, match="each of answers must be an int, not"):
        AboveThreshold(1, 1, threshold=0).run([-(10**9), answer])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 0, 1), ParameterError, "epsilon must be positive"),
        ((1, 0.5, 1), DTypeError, "threshold must be an int"),
        ((1, 0, 0), ParameterError, "sensitivity must be positive"),
        ((1, 0, 1, 1), DTypeError, "monotonic must be True or False"),
        ((1, 0, Sensitivity.from_l2(1)), ParameterError, "in a single answer"),
        ((1, 0, Sensitivity(1, 1), False, "add-remove"), ParameterError, "leave them out"),
        ((1, 0, 2**49), ParameterError, r"2\*\*48, got epsilon=1, sensitivity=562949953421312"),
        ((2**61, 0, 1), ParameterError, r"2\*\*-60"),
        (
            (1, 0, Sensitivity(1, 1, adjacency="substitution"), True),
            ParameterError,
            "monotonic must be False under substitution",
        ),
    ],
)
def test_bad_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        AboveThreshold(*arguments)
