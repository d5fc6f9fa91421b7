# SPDX-License-Identifier: Apache-2.0
"""No repr, HTML, exception or error of pickle shows a private value: every public class, and every function that takes data.

A private value here is a number or a text that stands nowhere else, so that a search for its digits or letters finds it.
"""

from __future__ import annotations

import copy
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import Sensitivity

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.InsecureKeyWarning")

COUNT, VALUE, NAME, BYTES = 918_273_645, 9182736.375, "Quillfeather", b"Quillfeather, and more than it!!"
SEEN = re.compile(rf"{COUNT:_}|{COUNT:,}|{COUNT}|{VALUE:_}|{VALUE}|9182736|{NAME}|{BYTES.hex()}", re.IGNORECASE)
ROWS = ([NAME] * 7 + ["flu"] * 90, range(COUNT, COUNT + 97))
BOUNDS: dict[str, Any] = {"max_partitions": 1, "max_per_partition": 1}
CELL = Sensitivity(1, 1)


def secret_key() -> dpfast.Key:
    return dpfast.Key(BYTES)


def bounded(**options: Any) -> Any:
    return dpfast.bounded_histogram(*ROWS, **BOUNDS, **options)


# Every public class, made from private values where it holds any. What is noisy, or a parameter, may be shown.
MADE: dict[str, Callable[[], Any]] = {
    "AboveThreshold": lambda: dpfast.AboveThreshold(1, CELL, threshold=3),
    "BoundedHistogram": bounded,
    "ChaCha20": dpfast.ChaCha20,
    "DiscreteGaussian": lambda: dpfast.DiscreteGaussian(3, sensitivity=CELL),
    "DiscreteLaplace": lambda: dpfast.DiscreteLaplace(1, 1),
    "Exponential": lambda: dpfast.Exponential(1, 1),
    "Gaussian": lambda: dpfast.Gaussian(3),
    "Geometric": lambda: dpfast.Geometric(1, 1),
    "Guarantee": lambda: dpfast.Guarantee(1),
    "Key": secret_key,
    "Laplace": lambda: dpfast.Laplace(1, 1),
    "NoisyMax": lambda: dpfast.NoisyMax(1, 1),
    "OneSidedGeometric": lambda: dpfast.OneSidedGeometric(1, 1),
    "PermuteAndFlip": lambda: dpfast.PermuteAndFlip(1, 1),
    "RandomizedResponse": lambda: dpfast.RandomizedResponse(1, 3),
    "ReleaseKey": lambda: secret_key().derive("visits"),
    "Sensitivity": lambda: bounded().sensitivity,
    "Snapping": lambda: dpfast.Snapping(1, 1, bound=8),
    "Thresholded": lambda: dpfast.thresholded([NAME, "flu"], [1, 10**6], epsilon=1, delta=1e-9, sensitivity=CELL),
}
ELSEWHERE = {"Ledger", "NoiseSource"}  # a file of budgets (test_ledger.py), and a protocol


def test_every_public_class_is_here() -> None:
    """A new one has to be added, or named as none that holds values."""
    classes = {name for name in dpfast.__all__ if isinstance(getattr(dpfast, name), type)}
    errors = {name for name in classes if issubclass(getattr(dpfast, name), (Exception, Warning))}
    assert classes - errors == MADE.keys() | ELSEWHERE


def used(made: Any) -> Any:
    """What it is after it has seen private values: a mechanism keeps none."""
    for name, values in (
        ("release", np.full(5, COUNT)),
        ("release", np.full(5, VALUE)),
        ("select", np.array([COUNT, 0])),
    ):
        if hasattr(made, name):
            with suppress(dpfast.DpfastError):
                getattr(made, name)(values)
    return made


def texts_of(made: Any) -> Iterator[str]:
    """All that shows itself where an object is looked at, logged, copied or sent."""
    yield from (repr(made), str(made), f"{made}", format(made))
    if hasattr(made, "_repr_html_"):
        yield made._repr_html_()
    if hasattr(made, "metadata"):
        yield repr(made.metadata())
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        try:
            act(made)
        except Exception:
            yield traceback.format_exc()


@pytest.mark.parametrize("name", MADE)
def test_an_object_shows_nothing_private(name: str) -> None:
    """Neither itself nor, where it refuses to be pickled or copied, its error."""
    for text in texts_of(used(MADE[name]())):
        assert not SEEN.search(text), name


def refused() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that private values spoil, each in its way."""
    counts, values = np.array([COUNT, 3]), np.array([VALUE, np.nan])
    laws = [dpfast.DiscreteLaplace(1, 1), dpfast.DiscreteGaussian(3), dpfast.Laplace(1, 1), dpfast.Gaussian(3)]
    laws += [
        dpfast.Snapping(1, 1, bound=8),
        dpfast.noise_source("laplace", 3),
        dpfast.noise_source("discrete_laplace", 3),
    ]  # type: ignore[list-item]
    data: list[Any] = [
        [COUNT, None], [COUNT, "x"], [[COUNT], [COUNT, 1]], NAME, [NAME], np.array([NAME, 1], object), {NAME: COUNT}, COUNT + 0.5,
        values, np.array([VALUE], np.longdouble), np.ma.array([COUNT, 1], mask=[0, 1]), [VALUE, float("inf")], 2**70 + COUNT,
        [NAME.encode()], np.array([COUNT], object),
    ]  # fmt: skip
    for i, law in enumerate(laws):
        for j, wrong in enumerate(data):
            yield f"release {i} {j}", lambda law=law, wrong=wrong: law.release(wrong)
            yield (
                f"release of counts as reals {i} {j}",
                lambda law=law, wrong=wrong: law.release(wrong, clamp=(0, 1), missing=0),
            )
        yield f"out {i}", lambda law=law: law.release(counts, out=np.zeros(3, np.int64))
    for j, wrong in enumerate(data):
        for choice in (dpfast.NoisyMax, dpfast.PermuteAndFlip, dpfast.Exponential):
            yield f"{choice.__name__} {j}", lambda wrong=wrong, choice=choice: choice(1, 1).select(wrong)
        yield f"above {j}", lambda wrong=wrong: dpfast.AboveThreshold(1, 1, threshold=3).run(wrong)
        yield f"response {j}", lambda wrong=wrong: dpfast.RandomizedResponse(1, 3).release(wrong)
        yield (
            f"sum {j}",
            lambda wrong=wrong: dpfast.fixed_point_sum(
                wrong, lower=0, upper=1, granularity=0.5, adjacency="add-remove"
            ),
        )
        yield (
            f"thresholded {j}",
            lambda wrong=wrong: dpfast.thresholded([NAME], wrong, epsilon=1, delta=1e-6, sensitivity=CELL),
        )
        yield (
            f"keys {j}",
            lambda wrong=wrong: dpfast.thresholded(wrong, [COUNT], epsilon=1, delta=1e-6, sensitivity=CELL),
        )
        yield f"rows {j}", lambda wrong=wrong: dpfast.bounded_histogram(wrong, [1, 2], **BOUNDS)
        yield f"ids {j}", lambda wrong=wrong: dpfast.bounded_histogram([1, 2], wrong, **BOUNDS)
    yield "twice", lambda: dpfast.thresholded([NAME, NAME], [COUNT, 1], epsilon=1, delta=1e-6, sensitivity=CELL)
    yield "negative", lambda: dpfast.thresholded([NAME], [-COUNT], epsilon=1, delta=1e-6, sensitivity=CELL)
    yield "outside", lambda: bounded(domain=["flu"], outside="refuse")
    yield "private keys", lambda: dpfast.DiscreteLaplace(1, bounded().sensitivity)
    yield "reuse", reused
    yield "key", lambda: dpfast.Key(BYTES + b"!")
    yield "not a key", lambda: dpfast.DiscreteLaplace(1, 1).release(counts, key=secret_key(), start=0)  # type: ignore[arg-type]


def reused() -> None:
    key = secret_key().derive("visits")
    for count in (COUNT, COUNT + 1):
        dpfast.DiscreteLaplace(1, 1).release([count], key=key, start=0)


def test_an_error_shows_nothing_private() -> None:
    """Its message, and those of the errors it was raised from: all that a log gets but the lines of the program."""
    said = []
    for name, call in refused():
        try:
            call()
        except Exception as failure:
            chain: BaseException | None = failure
            while chain is not None:
                text = f"{chain!r} {chain} {chain.args!r}"
                assert not SEEN.search(text), (name, text)
                pickle.loads(pickle.dumps(chain))
                chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
            said.append(name)
    assert len(said) > 200  # so the calls were spoilt indeed


def test_the_search_sees_what_is_shown() -> None:
    """Planted: a tuple of the true counts, and an error that quotes one."""
    found = bounded()
    assert SEEN.search(repr(tuple(dpfast.BoundedHistogram(found.keys, np.array([COUNT]), found.sensitivity))))
    assert SEEN.search(repr(ValueError(f"counts must be small, got {COUNT:,}")))
