# SPDX-License-Identifier: Apache-2.0
"""No repr, HTML, exception or pickle error shows a private value: every class, every function."""

from __future__ import annotations

import copy
import itertools
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from doors import BYTES, CELL, NAME, PRIVATE, SECRET, SEEN, VALUE, bounded, objects, surface

import dpfast

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning")
CLASSES = [name for name in dpfast.__all__ if isinstance(getattr(dpfast, name), type)]
OBJECTS = [name for name in CLASSES if not issubclass(getattr(dpfast, name), (Exception, Warning))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return objects(tmp_path_factory.mktemp("ledgers"))


def used(made: Any) -> Any:
    """What it is after it has seen private values: a mechanism keeps none."""
    for name, values in (
        ("release", np.full(5, SECRET)),
        ("release", np.full(5, VALUE)),
        ("select", np.array([SECRET, 0])),
    ):
        if hasattr(made, name):
            with suppress(dpfast.errors.DpfastError, TypeError):  # a ledger's release takes a mechanism before
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


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_shows_nothing_private(made: dict[str, Any], name: str) -> None:
    """Neither itself nor its error, if it refuses pickling. doors.py lists the classes."""
    for text in texts_of(used(made[name])):
        assert not SEEN.search(text), name


def test_a_result_that_is_not_private_yet_shows_nothing() -> None:
    """The sum of values; what `bounded_histogram` and `tree` return are classes, tested above."""
    found = dpfast.fixed_point_sum(
        np.array([float(SECRET)]), lower=0, upper=2.0**40, granularity=1, adjacency="add-remove"
    )
    assert SEEN.search(repr(found.total))
    for text in (repr(found), str(found), f"{found}", repr([found])):
        assert not SEEN.search(text)


def spoilt(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that private values spoil, each in its way: every door that takes data."""
    wrongs: list[Any] = [
        [SECRET, None], [SECRET, "x"], [[SECRET], [SECRET, 1]], NAME, [NAME], np.array([NAME, 1], object), {NAME: SECRET}, SECRET + 0.5,
        np.array([VALUE, np.nan]), np.array([VALUE], np.longdouble), np.ma.array([SECRET, 1], mask=[0, 1]), [VALUE, float("inf")],
        2**70 + SECRET, [NAME.encode()], np.array([SECRET], object),
    ]  # fmt: skip
    for door in surface(folder):
        for parameter, wrong in itertools.product(PRIVATE & door.good.keys(), wrongs):
            yield (
                f"{door.name} {parameter}",
                lambda door=door, changed={parameter: wrong}: door(door.arguments(**changed)),
            )
            if "clamp" in door.good:
                public = {parameter: wrong, "clamp": (0, 1), "missing": 0}
                yield (
                    f"{door.name} {parameter}, clamped",
                    lambda door=door, public=public: door(door.arguments(**public)),
                )
        if "out" in door.good:
            yield f"{door.name} out", lambda door=door: door(door.arguments(out=np.zeros(9, np.int64)))
    source = dpfast.noise_source("discrete_laplace", 3)
    for wrong, public in itertools.product(wrongs, ({}, {"clamp": (0, 1), "missing": 0})):
        yield "noise source", lambda wrong=wrong, public=public: source.release(wrong, **public)
    counts, law, promise = np.array([SECRET, 3]), dpfast.DiscreteLaplace(1, 1), {"epsilon": 1, "delta": 1e-6}
    yield "twice", lambda: dpfast.thresholded([NAME, NAME], [SECRET, 1], **promise, sensitivity=CELL)
    yield "negative", lambda: dpfast.thresholded([NAME], [-SECRET], **promise, sensitivity=CELL)
    yield "outside", lambda: bounded(domain=["flu"], outside="refuse")
    yield "private keys", lambda: dpfast.DiscreteLaplace(1, bounded().sensitivity)
    key = dpfast.Key(BYTES).derive("visits")
    yield "reuse", lambda: [law.release([count], key=key) for count in (SECRET, SECRET + 1)]
    yield "another input", lambda: [law.release([count], key=key, resume=True) for count in (SECRET, SECRET + 1)]
    yield "names", lambda: law.release(counts, key=key, names=[NAME, None])
    yield "another block", lambda: _sealed_block(law, [SECRET + 1])
    yield "key", lambda: dpfast.Key(BYTES + b"!")
    yield "not a key", lambda: law.release(counts, key=dpfast.Key(BYTES))


def _sealed_block(law: Any, values: Any) -> Any:
    """A block of other values than were sealed."""
    key = dpfast.Key.generate().derive("visits")
    return key.seal(law, [key.digester(law)(0, [SECRET])], shape=(1,)).without_ledger().release(0, values)


def test_an_error_shows_nothing_private(tmp_path: Path) -> None:
    """Its message and those of the errors behind it: all that a log gets but program lines."""
    said = []
    for name, call in spoilt(tmp_path):
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
    assert len(said) > 300  # so the calls were spoilt indeed


def test_the_search_sees_what_is_shown() -> None:
    """Planted: a tuple of the true counts, and errors that quote one, a number, a name or a key."""
    found = bounded()
    shown = tuple(dpfast.BoundedHistogram(found.keys, np.array([SECRET]), found.sensitivity))
    for text in (
        repr(shown), f"got {SECRET:,}", f"got {SECRET:_}", f"got {VALUE}", f"got {VALUE:_}", NAME, BYTES.hex(),
    ):  # fmt: skip
        assert SEEN.search(repr(ValueError(text))), text


def _shown_by(error: BaseException) -> Iterator[tuple[str, str]]:
    """What a report of an error that keeps the locals of frames would hold: where, and a repr."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith("dpfast."):
            for name, value in frame.f_locals.items():
                yield f"{frame.f_code.co_name}: {name}", repr(value)


REFUSED: dict[str, Callable[[dpfast.ReleaseKey], object]] = {
    "another input": lambda key: [dpfast.DiscreteLaplace(1, 1).release([1, n], key=key, resume=n > 0) for n in (0, 1)],
    "no resume": lambda key: [dpfast.DiscreteLaplace(1, 1).release([1, 2], key=key) for _ in range(2)],
    "no number": lambda key: dpfast.Laplace(1, 1).release([1.0, np.nan], key=key),
    "no number in a block": lambda key: key.digester(dpfast.Laplace(1, 1))(0, [np.nan]),
    "another block": lambda key: (
        key.seal(m := dpfast.DiscreteLaplace(1, 1), [key.digester(m)(0, [1])], shape=(1,))
        .without_ledger()
        .release(0, [2])
    ),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_no_key_stands_among_the_locals_of_a_traceback(refused: str) -> None:
    """That of digests tests guesses at the values that were digested."""
    key = dpfast.Key.generate().derive("q")
    secrets = [tiers.secret_of(key), getattr(key, tiers.KEYED)("block digest")]
    with pytest.raises(dpfast.errors.DpfastError) as caught:
        REFUSED[refused](key)
    found = dict(_shown_by(caught.value))
    assert found
    assert not [where for where, text in found.items() for secret in secrets if repr(secret)[2:-1] in text]
