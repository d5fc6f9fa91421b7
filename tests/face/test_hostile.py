# SPDX-License-Identifier: Apache-2.0
"""Hostile arguments, one at a time: taken, or refused by name before any write, charge or draw."""

from __future__ import annotations

import itertools
from typing import Never

import numpy as np
import pytest
from doors import REFUSED, Call, surface
from hostile import HOSTILE, hostile, outcome

import dpfast

# What a refusal may name instead: the argument's meaning to the mechanism or the sensitivity.
ALSO_NAMED = {
    "values": ["counts"],
    "path": ["ledger", "cannot lock", " exists", "not a file", "no such file", "key file"],
    "shape": ["rows", "blocks"],
    "releases": ["sigma"],
    "sensitivity": ["linf", "l0", "loss", "sigma"],
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> list[Call]:
    return surface(tmp_path_factory.mktemp("ledgers"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    """A ledger may be named by any text."""
    monkeypatch.chdir(tmp_path)


def test_good_arguments_are_good(calls) -> None:
    """Every public callable is there, and works with the arguments around hostile ones."""
    pytest.importorskip("dp_accounting")  # dp_event needs it
    for call in calls:
        if call.name in REFUSED:
            with pytest.raises(dpfast.errors.DpfastError):
                call(call.arguments())
        else:
            call(call.arguments())


def test_every_option_of_a_release_is_refused_before_anything_is_lost(calls) -> None:
    """In place: a refused option leaves counts and ledger as they were, and the error names it."""
    refused = 0
    for call in calls:
        if call.data is None:
            continue
        for parameter, kind in itertools.product(call.good, HOSTILE):
            if parameter in (call.data, "out"):
                continue
            data = call.good[call.data]()
            before = data.copy()
            arguments = call.arguments(**{call.data: data, "out": data, parameter: hostile(parameter, kind)})
            where = f"{call.name}({parameter}={kind})"
            wrong, refusal = outcome(call, arguments)
            assert wrong is None, f"{where}: {wrong}"
            if refusal is not None:
                assert np.array_equal(data, before), f"{where}: zeroed"
                assert named(parameter, refusal), f"{where}: {refusal}"
                refused += 1
    assert refused > 2000


def named(parameter: str, refusal: dpfast.errors.DpfastError) -> bool:
    return any(name in str(refusal).lower() for name in (parameter, *ALSO_NAMED.get(parameter, [])))


@pytest.mark.parametrize("turn", range(4))
def test_every_argument_is_taken_or_refused_by_name(calls, turn) -> None:
    """For every parameter of every callable a sixteenth of the hostile values, in four turns."""
    for i, call in enumerate(calls):
        for j, parameter in enumerate(call.fuzzed):
            for kind in itertools.islice(HOSTILE, (i + j + 4 * turn) % 16, None, 16):
                where = f"{call.name}({parameter}={kind})"
                wrong, refusal = outcome(call, call.arguments(**{parameter: hostile(parameter, kind)}))
                assert wrong is None, f"{where}: {wrong}"
                assert refusal is None or named(parameter, refusal) or call.name in REFUSED, f"{where}: {refusal}"


def test_what_an_object_has_can_be_asked(calls) -> None:
    """hasattr raises on no public object, as debuggers and documentation tools need it."""
    seen = {type(owner): owner for call in calls if (owner := getattr(call.function, "__self__", None)) is not None}
    assert len(seen) > 10
    for owner in seen.values():
        for name in dir(owner):
            hasattr(owner, name)


# ------------------------------------------------------------------ the guard finds what is planted


def _raises(counts, out) -> Never:
    raise IndexError("list index out of range")


def _tells(counts, out) -> Never:
    raise dpfast.errors.ParameterError(f"counts must be small, got {counts[0]}")


def _half_done(counts, out) -> Never:
    out[0] = 5
    raise dpfast.errors.ParameterError("counts must be small")


def _fails_late(counts, out) -> Never:
    out[:-1] = 5
    raise MemoryError


@pytest.mark.parametrize(
    ("planted", "found"),
    [(_raises, "IndexError"), (_tells, "tells"), (_half_done, "changed out"), (_fails_late, "changed out")],
)
def test_planted_flaws_are_found(planted, found) -> None:
    """A plain Python error, a private count in a message, a half-done release."""
    counts = hostile("counts", "list")
    wrong = outcome(Call("planted", planted, {}), {"counts": counts, "out": np.array(counts)}).wrong
    assert found in (wrong or "")


def test_a_charge_for_a_refused_release_is_found(tmp_path, monkeypatch) -> None:
    """Planted: a ledger that charges first, and then has the mechanism check its options."""
    ledger = dpfast.Ledger(tmp_path / "planted.db", 1, create=True)

    def careless(self, mechanism, values, /, **options) -> object:
        self.spend(mechanism)
        return mechanism.release(values, **options)

    monkeypatch.setattr(dpfast.Ledger, "release", careless)
    arguments = {"mechanism": dpfast.DiscreteLaplace(0.1, 1), "values": np.zeros(3, np.int64), "threads": "two"}
    assert "charged" in (outcome(Call("Ledger.release", ledger.release, {}), arguments).wrong or "")
