# SPDX-License-Identifier: Apache-2.0
"""Calls below 4,096 counts, or on request, do equal work for every draw: seen, not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tiers

import dpfast
from dpfast.noise.mechanisms.mechanism import Mechanism

INTEGERS = {
    "table": dpfast.DiscreteLaplace(1, 1),
    "short": dpfast.DiscreteLaplace(1, 10**6),
    "wide": dpfast.DiscreteLaplace(1, 2**56),
    "discrete Gaussian": dpfast.DiscreteGaussian(10),
    "wide discrete Gaussian": dpfast.DiscreteGaussian(10**6),
}
REALS = {
    "Laplace": dpfast.Laplace(1, 1),
    "wide Laplace": dpfast.Laplace(1, 1, granularity=2.0**-50),
    "Gaussian": dpfast.Gaussian(10),
    "snapping": dpfast.Snapping(1, 1, bound=8),
}


@pytest.fixture
def constant_work(monkeypatch) -> set[bool]:
    """Whether the next calls' draws are constant-work: a set, which a mixture fills with both."""
    seen: set[bool] = set()

    def watched(call: Callable[..., Any], release: Any, *arguments: Any) -> Any:
        seen.add(tiers.in_constant_work(release))
        return call(*arguments)

    tiers.around_c(monkeypatch, watched)
    return seen


def plain(n: int, kind: str) -> dict[str, Any]:
    return {"values": np.zeros(n, kind)}


def strided(n: int, kind: str) -> dict[str, Any]:
    return {"values": np.zeros((n, 2), kind)[:, 0]}


def in_place(n: int, kind: str) -> dict[str, Any]:
    values = np.zeros(n, kind)
    return {"values": values, "out": values}


def under_a_key(n: int, kind: str) -> dict[str, Any]:
    return {"values": np.zeros(n, kind), "key": dpfast.Key.generate().derive("one")}


def swapped(n: int, kind: str) -> dict[str, Any]:
    return {"values": np.zeros(n, np.dtype(kind).newbyteorder())}


WAYS = [plain, strided, in_place, under_a_key, swapped]
RELEASES = [
    pytest.param(mechanism, way, kind, id=f"{name}-{way.__name__}-{kind}")
    for laws, kinds in ((INTEGERS, ("i8", "i4", "u1", "u8")), (REALS, ("f8", "f4")))
    for name, mechanism in laws.items()
    for way in WAYS
    for kind in kinds
]


def released(mechanism: Any, way: Callable[[int, str], dict[str, Any]], kind: str, n: int, **options: Any) -> None:
    arguments = way(n, kind)
    mechanism.release(arguments.pop("values"), **arguments, **options)


@pytest.mark.parametrize(("mechanism", "way", "kind"), RELEASES)
def test_every_release_below_4096_counts_does_the_same_work(constant_work, mechanism, way, kind) -> None:
    """Every law, dtype and layout, keyed or not; at 4,096 only a call that asks for it."""
    assert tiers.SMALL == 4096
    for n, asked, same in [
        (1, False, True), (2, False, True), (tiers.SMALL - 1, False, True), (tiers.SMALL, False, False),
        (2, True, True), (tiers.SMALL - 1, True, True), (tiers.SMALL, True, True),
    ]:  # fmt: skip
        option = asked and mechanism is not REALS["wide Laplace"]  # which refuses constant_time
        constant_work.clear()
        released(mechanism, way, kind, n, constant_time=option)
        assert constant_work == {same and (option or not asked or n < tiers.SMALL)}, (
            f"{n} counts, constant_time={option}"
        )


@pytest.mark.parametrize(
    "mechanism", [*INTEGERS.values(), dpfast.OneSidedGeometric(1, 1)], ids=[*INTEGERS, "one-sided"]
)
def test_every_sample_below_4096_draws_does_the_same_work(constant_work, mechanism) -> None:
    """As releases do; at 4,096 only a call that asks for it."""
    if mechanism.scale > 2**50:
        pytest.skip("sample refuses so wide a law")
    for n, option, same in [
        (1, False, True),
        (tiers.SMALL - 1, False, True),
        (tiers.SMALL, False, False),
        (tiers.SMALL, True, True),
    ]:
        constant_work.clear()
        mechanism.sample(n, constant_time=option)
        assert constant_work == {same}


@pytest.mark.parametrize(
    "ask",
    [
        lambda: dpfast.AboveThreshold(1, 1, threshold=50).run(range(200)),
        lambda: dpfast.NoisyMax(1, 1).select(np.arange(100)),
        lambda: dpfast.Exponential(1, 1).select(np.arange(100)),
        lambda: dpfast.PermuteAndFlip(1, 1).select(np.linspace(0, 1, 100)),
        lambda: dpfast.thresholded(["a", "b"], [100, 200], epsilon=1, delta=1e-6, sensitivity=dpfast.Sensitivity(1, 1)),
    ],
    ids=["above threshold", "noisy max", "exponential", "permute and flip", "thresholded"],
)
def test_small_questions_do_the_same_work(constant_work, ask) -> None:
    ask()
    assert constant_work == {True}


def test_a_plan_that_forgets_small_calls_is_seen(constant_work, monkeypatch) -> None:
    """Planted: constant work only on request. The watch sees it, under a key and without."""

    def forgets(self: Any, size: int, constant_time: bool) -> Any:
        return constant_time, self._constant_work_plan if constant_time else self._bulk_plan

    tiers.plant(monkeypatch, Mechanism, "plan", forgets)
    for way in (under_a_key, strided):
        constant_work.clear()
        released(INTEGERS["table"], way, "i8", 2)
        assert constant_work == {False}
