# SPDX-License-Identifier: Apache-2.0
"""Running totals step by step: one charge, one value a step, and never an exact difference."""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import tiers
from blake3 import blake3
from fresh import forked, python
from ledgers import MEMORY, command
from places import ROOT
from reference import E, H, integers, texts
from running import GOLDEN, LIVES, SCALE, PlainTotals

import dpfast
from dpfast import Key, KeyFile, Ledger
from dpfast.counts.running import totals as made
from dpfast.counts.running.totals import RunningTotals
from dpfast.errors import (
    BudgetExhausted,
    DTypeError,
    FileError,
    KeyReuseError,
    LedgerError,
    OtherInputError,
    ParameterError,
)
from dpfast.ledger import head, store
from dpfast.noise.release import seal
from dpfast.noise.release import steps as stepping

NAMES = ["Pune", "Lima", "Oslo"]
DAYS = np.array([[1, 2, 3], [40, -5, 6], [7, 8, 900], [10, 11, 12]])


class Place:
    """A folder with a ledger, a key file and a state."""

    def __init__(self, folder: Path, secret: Path | None = None) -> None:
        tiers.forget_labels()  # another process, with other folders
        folder.mkdir(exist_ok=True)
        self.folder, self.path, self.state = folder, folder / "budget.db", folder / "state"
        self.key = KeyFile.create(folder / "key") if secret is None else KeyFile(shutil.copy(secret, folder / "key"))
        Ledger(self.path, rho=2, create=True)

    def running(self, totals: Any = None, label: str = "sign-ups", **options: Any) -> Any:
        options = {"names": NAMES, "state": self.state, **options}
        return self.ledger.running(totals or PlainTotals(), key=self.key.derive(label), **options)

    def again(self, **options: Any) -> Any:
        return self.running(**options, resume=True)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.path)

    def keep(self, name: str) -> Path:
        """What may be restored of ledger and state: a copy of all that is there now."""
        for path in (self.path, self.state):
            if path.exists():
                shutil.copy(path, self.folder / f"{path.name}.{name}")
        return self.folder

    def restore(self, name: str, *paths: Path) -> None:
        tiers.forget_labels()  # another process
        for path in paths:
            shutil.copy(self.folder / f"{path.name}.{name}", self.folder / "between").chmod(0o600)
            (self.folder / "between").replace(path)


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path / "place")


def values(running: Any, days: Any = DAYS, begin: int = 1) -> list[list[float]]:
    return [running.step(t, day).values.tolist() for t, day in enumerate(days[begin - 1 :], begin)]


# ------------------------------------------------------------------ the same bytes, one charge


def test_each_step_releases_the_sum_with_noise_of_its_own(place) -> None:
    """One of twelve draws is beyond eight deviations with probability 1.5e-14."""
    found = np.array(values(place.running()))
    noise = found - DAYS.cumsum(axis=0)
    assert np.abs(noise).max() < 8 * SCALE
    assert len(np.unique(noise, axis=0)) == len(DAYS)
    assert noise.any(axis=1).all()
    (charge,) = place.ledger.history()
    assert (charge.label, charge.mechanism, charge.rho) == ("sign-ups", "running_totals", 0.5)
    assert place.ledger.verify(place.key) == 1


def test_each_day_has_a_process(place) -> None:
    """Opened each day, tried twice, names in another order, without a state: the same bytes."""
    whole = values(Place(place.folder.parent / "whole", place.key.path).running())
    place.running()
    for t, day in enumerate(DAYS, 1):
        running = place.again()
        assert running.step(t, day).values.tolist() == whole[t - 1]
        assert running.step(t, day).values.tolist() == whole[t - 1]
        assert place.again().step(t, resume=True).values.tolist() == whole[t - 1]
        turned = place.again(names=NAMES[::-1], totals=PlainTotals(found=8))  # another search finds others
        assert turned.totals.found == 7
        assert turned.step(t, day[::-1]).values[::-1].tolist() == whole[t - 1]
        bare = place.again(state=None, replay=iter(DAYS[: t - 1]))
        assert bare.step(t, day).values.tolist() == whole[t - 1]
    assert place.ledger.spent.rho == 0.5
    assert len(place.ledger.history()) == 1
    for path in (place.state, *(place.folder / f"state.{each}" for each in ("before", "ahead"))):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [*place.folder.glob("*.new")]


def test_two_processes_draw_one_step(place) -> None:
    """Both have opened before either steps; the slower one finds its step done, and leaves it."""
    place.running()
    one, other = place.again(), place.again()
    for t, day in enumerate(DAYS, 1):
        first = one.step(t, day).values
        state = place.state.read_bytes()
        assert (other.step(t, day).values == first).all()
        assert place.state.read_bytes() == state
    behind = place.again(state=place.folder / "another")  # which has no state yet: each step once more
    assert values(behind)[-1] == first.tolist()
    assert place.ledger.spent.rho == 0.5


def test_blocks_of_many_cells(place) -> None:
    """Equal blocks of one step have other noise; the second block is bound to all of the chain."""
    cells = 2**16 + 2**15
    one = place.running(names=range(cells))
    zeros = np.zeros(cells, np.int64)
    first, second = (one.step(t, zeros).values for t in (1, 2))
    assert np.mean(first == second) < 1e-3
    assert np.mean(first[: 2**15] == first[2**16 :]) < 1e-3
    assert (place.again(names=range(cells)).step(2, resume=True).values == second).all()
    zeros[-1] = 1
    with pytest.raises(OtherInputError):
        place.again(names=range(cells)).step(2, zeros)
    other = Place(place.folder.parent / "other", place.key.path).running(names=range(cells))
    other.step(1, zeros)  # and its last step takes it back: equal totals, and another way to them
    assert np.mean(other.step(2, -zeros).values == second) < 1e-3


def test_counts_that_know_their_sensitivity(place) -> None:
    """Two cells of one unit, and totals that hide one: refused, and nothing is written."""
    rows = {"domain": NAMES, "max_partitions": 2, "max_per_partition": 1}
    counts = dpfast.bounded_histogram(["Lima", "Oslo"], [1, 1], **rows).counts
    running = place.running()
    with pytest.raises(ParameterError, match="at least that of the counts"):
        running.step(1, counts)
    assert [*place.folder.glob("state*")] == [place.state]  # step 0, which has no counts
    one = dpfast.bounded_histogram(["Lima", "Oslo"], [1, 1], **{**rows, "max_partitions": 1}).counts
    assert running.step(1, one).t == 1


def test_a_part_of_what_was_counted_together_is_not_a_step_s(place) -> None:
    """Caps of two days together, and totals that hide one."""
    days = dpfast.bounded_histogram([1, 7], [1, 1], domain=range(9), max_partitions=2, max_per_partition=1).counts
    about = {"sensitivity": dpfast.Sensitivity(2, 1), "rho": 1}
    totals = dpfast.RunningTotals(12, **about)
    running = place.running(totals)
    for part in (days[:3], days[:3].copy()):
        with pytest.raises(ParameterError, match="per_unit_steps=2 or more and apart=1, because one unit may change 2"):
            running.step(1, part)
    hidden = place.running(dpfast.RunningTotals(12, **about, per_unit_steps=2), label="other", state=None)
    assert [hidden.step(t, days[3 * t - 3 : 3 * t]).t for t in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_totals_have_no_more_cells_than_their_sensitivity_says(place, tmp_path, adjacency) -> None:
    """Its noise is for so many: nothing is charged."""
    totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(9, 1, cells=2, adjacency=adjacency), rho=1)
    ledger = Ledger(tmp_path / "other.db", rho=2, adjacency=adjacency, create=True)
    key = place.key.derive("sign-ups")
    for given in (totals, totals.bounded(max_partitions=2, max_per_partition=1)):
        with pytest.raises(ParameterError, match="names must be of at most the 2 cells of the sensitivity, got 3"):
            ledger.running(given, key=key, names=NAMES)
    for keyed in ({}, {"key": key, "names": NAMES}):
        with pytest.raises(ParameterError, match="must be of at most the 2 cells"):
            dpfast.running_totals(totals, DAYS, **keyed)
    with pytest.raises(ParameterError, match="cells must be of at most the 2 cells"):
        totals.begin(3)
    assert not ledger.history()
    assert dpfast.running_totals(totals, DAYS[:, :2]).values.shape == (4, 2)


def test_any_integers_in_any_layout_and_clamped(place) -> None:
    """A count beyond the bound is clamped, and no error tells of it."""
    small = PlainTotals(bound=100)
    first = place.running(small).step(1, np.array([[1, 0], [-100, 0], [100, 0]], ">i2")[:, 0]).values
    for counts in ([1, -101, 2**63 - 1], np.array([1, -(2**63), 101])):
        assert (place.again(totals=small).step(1, counts).values == first).all()
    second = place.again(totals=small).step(2, np.array([2**64 - 1, 0, 100], np.uint64)).values
    for counts in ([100, 0, 100], np.array([200, 0, 100], np.uint8), np.array([101, 0, 100], ">u4")):
        assert (place.again(totals=small).step(2, counts).values == second).all()


def test_the_totals_themselves(place, monkeypatch) -> None:
    """Made anew each day, by a search that finds others by now: those of the manifest go on.

    Of 2,000 cells after three steps: the deviation is within a tenth, 6 of its own deviations.
    """
    days = np.random.default_rng(36).poisson(3, (3, 2000))
    once = dpfast.Sensitivity(1, 1)
    first = RunningTotals(365, sensitivity=once, rho="0.5", bound=1000)
    running = place.running(first, names=range(2000))
    found = np.array([running.step(t, day).values for t, day in enumerate(days[:2], 1)])
    monkeypatch.setattr(made, "ROWS", made.ROWS[::-1])
    second = RunningTotals(365, sensitivity=once, rho="0.5", bound=1000)
    assert second != first
    running = place.again(totals=second, names=range(2000))
    assert running.totals == first
    assert (running.step(2, resume=True).values == found[1]).all()
    last = running.step(3, days[2])
    assert abs(np.std(last.values - days.sum(axis=0)) / first.stddev(3) - 1) < 0.1
    assert last.interval(0.95) == first.interval(3, 0.95)
    assert last.metadata()["step"] == 3
    assert place.ledger.history()[0].parameters["manifest"]["terms"] == first.terms()
    asked = {"steps": 365, "sensitivity": once, "rho": "0.5", "bound": 1000}
    for name, other, says in (
        ("per_unit_steps", 2, "another per_unit_steps, 1, not 2"),
        ("steps", 366, "another steps, 365, not 366"),
        ("sensitivity", dpfast.Sensitivity(1, 2), "another linf, '1', not '2'"),
        ("bound", 2000, "another bound, 1000, not 2000"),
    ):
        with pytest.raises(KeyReuseError, match=says):
            place.again(totals=RunningTotals(**{**asked, name: other}), names=range(2000))


# ------------------------------------------------------------------ all steps at once

ONCE = RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")


def test_all_steps_at_once_have_the_bytes_of_sealed_steps(place) -> None:
    """Whoever took the steps, names in any order, any number of steps; nothing is charged."""
    whole, key = np.array(values(place.running(ONCE))), place.key.derive("sign-ups")
    turned = {"key": key, "names": NAMES[::-1], "resume": True}
    for steps in (4, 1, 3):
        assert (
            dpfast.running_totals(ONCE, DAYS[:steps], key=key, names=NAMES, resume=True).values == whole[:steps]
        ).all()
        found = dpfast.running_totals(ONCE, DAYS[:steps, ::-1], **turned)
        assert (found.values[:, ::-1] == whole[:steps]).all()
    assert found.interval(0.9).tolist() == [ONCE.interval(t, 0.9) for t in (1, 2, 3)]
    tiers.forget_labels()  # another process
    wide = DAYS.astype(">i2")
    assert (dpfast.running_totals(ONCE, wide, key=key, names=NAMES).values == whole).all()
    assert len(place.ledger.history()) == 1
    assert place.ledger.spent.rho == 0.5


SECRET = bytes(range(100, 132))
GOLDEN_TOTALS = [
    [0.5671329498291016, 3.372743606567383, -0.17415618896484375],
    [41.7542962856578, -2.1727019596355603, 4.8378293425666925],
    [46.2700876168737, 5.753963698316257, 907.624284918587],
    [56.98315710493952, 15.287750346385522, 921.0534365659385],
]


def test_golden_totals_are_those_of_the_reference(place) -> None:
    """Encoder, chain, keys, noise and decoder written again: the same bytes."""
    totals, key = RunningTotals.of_terms(GOLDEN), Key.from_bytes(SECRET).derive("sign-ups")
    again = reference.RunningTotals(SECRET, "sign-ups", GOLDEN, NAMES)
    steps = [again.step(day) for day in DAYS.tolist()]
    assert [[step[at] for at in range(3)] for step in steps] == GOLDEN_TOTALS
    running = place.ledger.running(totals, key=key, names=NAMES)
    assert values(running) == GOLDEN_TOTALS
    assert dpfast.running_totals(totals, DAYS, key=key, names=NAMES, resume=True).values.tolist() == GOLDEN_TOTALS


def test_the_reference_has_a_second_block() -> None:
    """Cosines and sines of pairs, at both ends of each block; noise by 64-bit words."""
    cells, once = 2**16 + 70, dpfast.Sensitivity(1, 1)
    totals = RunningTotals(2, sensitivity=once, rho="1e-9")
    assert totals.sigma_squared > 2**40
    days, names = np.random.default_rng(36).integers(-9, 9, (2, cells)), [f"{at:06}" for at in range(cells)]
    again, looked = reference.RunningTotals(SECRET, "wide", totals.terms(), names), [0, 64, 2**16 - 1, 2**16, cells - 1]
    found = dpfast.running_totals(totals, days, key=Key.from_bytes(SECRET).derive("wide"), names=names)
    for values_of, day in zip(found.values, days.tolist(), strict=True):
        assert again.step(day, looked) == {at: values_of[at] for at in looked}


def test_all_steps_at_once_of_several_blocks(place) -> None:
    cells = 2**16 + 9
    days = np.random.default_rng(36).integers(-9, 9, (2, cells))
    whole = values(place.running(ONCE, names=range(cells)), days)
    found = dpfast.running_totals(ONCE, days, key=place.key.derive("sign-ups"), names=range(cells), resume=True)
    assert found.values.tolist() == whole


def test_other_counts_at_once_are_another_release() -> None:
    """From the first step that differs; this process refuses them, whoever took the steps."""
    days, key = np.tile(DAYS, 100), Key.generate().derive("sign-ups")
    given: dict[str, Any] = {"key": key, "names": range(300)}
    first = dpfast.running_totals(ONCE, days[:3], **given).values
    assert (dpfast.running_totals(ONCE, days, **given, resume=True).values[:3] == first).all()  # a day later
    other = days.copy()
    other[1, 7] += 1
    with pytest.raises(KeyReuseError, match="'sign-ups' is reserved in this process: resume=True continues it"):
        dpfast.running_totals(ONCE, days, **given)
    with pytest.raises(OtherInputError, match="with which step 2 was reserved in this process, or an earlier"):
        dpfast.running_totals(ONCE, other, **given, resume=True)
    for changed, says in (
        (
            {"totals": RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.4")},
            "other parameters of discrete_gaus",
        ),
        ({"totals": RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5", bound=9)}, "another bound"),
        ({"names": range(1, 301)}, "another public domain"),
    ):
        with pytest.raises(KeyReuseError, match=says):
            dpfast.running_totals(**{"totals": ONCE, "counts": days, **given, "resume": True, **changed})
    with pytest.raises(KeyReuseError, match="with another kind, steps, not array"):
        dpfast.DiscreteLaplace(1, 1).release([1], key=key, resume=True)
    tiers.forget_labels()
    second = dpfast.running_totals(ONCE, other, **given).values
    assert (second[0] == first[0]).all()
    assert (second[1:3] != first[1:]).mean() > 0.99
    assert len(np.unique(second[1] - first[1])) > 290  # no exact difference


def test_a_ledger_s_steps_are_known_to_the_process(place) -> None:
    """Other counts of a step, beside a ledger that has paid for these: refused."""
    values(place.running(ONCE))
    key = place.key.derive("sign-ups")
    with pytest.raises(KeyReuseError, match="in this process"):
        dpfast.running_totals(ONCE, DAYS, key=key, names=NAMES)
    with pytest.raises(OtherInputError, match="step 3"):
        dpfast.running_totals(ONCE, DAYS + np.eye(4, 3, -2, int), key=key, names=NAMES, resume=True)


def test_a_ledger_s_step_is_not_another_than_the_process_has_taken(place) -> None:
    """Without a ledger first: other counts or totals are refused, and nothing is reserved."""
    key = place.key.derive("sign-ups")
    first = dpfast.running_totals(ONCE, DAYS[:2], key=key, names=NAMES)
    with pytest.raises(KeyReuseError, match="in this process"):
        place.running(PlainTotals())
    assert not place.ledger.history()
    running = place.running(ONCE)
    with pytest.raises(OtherInputError, match="step 1 was reserved in this process"):
        running.step(1, DAYS[0] + 1)
    assert (running.step(1, DAYS[0]).values == first.values[0]).all()
    assert (running.step(2, DAYS[1]).values == first.values[1]).all()
    assert running.step(3, DAYS[2]).t == 3


def test_what_all_steps_at_once_refuse_reserves_nothing() -> None:
    key = Key.generate().derive("sign-ups")
    rows = {"domain": NAMES, "max_partitions": 1, "max_per_partition": 1}
    chosen = dpfast.bounded_histogram(["Lima", "Oslo"], [1, 2], **rows).counts[None]
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"names": None}, ParameterError, "names must be given under a key"),
        ({"names": NAMES[:2]}, ParameterError, "names must be one for each of 3 cells, got 2"),
        ({"names": ["a", "b", "a"]}, ParameterError, "'a' comes twice"),
        ({"names": [0.5, 1, 2]}, DTypeError, "names must contain integers or strings"),
        ({"key": Key.generate()}, DTypeError, "key must be a release key"),
        ({"key": None}, ParameterError, "names are for a release under a key, and there is no key"),
        ({"key": None, "names": None, "resume": True}, ParameterError, "resume is for a release under a key"),
        ({"resume": 1}, DTypeError, "resume"),
        ({"counts": DAYS / 2}, DTypeError, "counts must be of an integer dtype"),
        ({"counts": chosen}, ParameterError, "key must be that of the choice of rows, too"),
    ]
    for changed, error, says in wrong:
        with pytest.raises(error, match=says):
            dpfast.running_totals(ONCE, **{"counts": DAYS, "key": key, "names": NAMES, **changed})
    assert dpfast.running_totals(ONCE, DAYS, key=key, names=NAMES).values.shape == (4, 3)
    fixed = dpfast.testing.fixed_key(1).derive("sign-ups")
    for days in (DAYS, DAYS + 1):  # which tests use as they like
        with pytest.warns(dpfast.errors.InsecureKeyWarning):
            assert dpfast.running_totals(ONCE, days, key=fixed, names=NAMES).values.any()


# ------------------------------------------------------------------ windows


def must_cover(folder: Path) -> None:
    """Nine in ten cells lie within a window's interval, and not more: 6.2 deviations off."""
    days, cells = np.random.default_rng(36).poisson(3, (9, 20_000)), range(20_000)
    running = Place(folder / "windows").running(ONCE, names=cells, state=None)
    found = [running.step(t, day) for t, day in enumerate(days, 1)]
    window = found[8].last(7, found[1].values.tolist())
    assert (window.values == found[8].last(7, found[1]).values).all()
    assert window.interval(0.9) == ONCE.interval(9, 0.9, last=7)
    inside = np.abs(window.values - days[2:].sum(axis=0)) <= window.interval(0.9)
    assert abs(inside.mean() - 0.9) < 0.0131


def test_windows_of_steps_have_intervals_of_their_own(tmp_path) -> None:
    must_cover(tmp_path)


def test_a_window_s_interval_without_covariance_is_noticed(tmp_path, monkeypatch) -> None:
    apart = lambda self, n, last: self.squares(n) + self.squares(n - last)  # noqa: E731
    monkeypatch.setattr("dpfast.counts.running.error.Inverse.window", apart)
    with pytest.raises(AssertionError):
        must_cover(tmp_path)


def test_windows_of_other_steps_are_refused(place) -> None:
    running = place.running(ONCE)
    found = [running.step(t, day) for t, day in enumerate(DAYS, 1)]
    last, other = found[3], place.running(ONCE, label="other", state=None).step(1, DAYS[0])
    stranger = Place(place.folder.parent / "another").running(ONCE).step(1, DAYS[0])  # under a key of its own
    for steps, before, error, says in (
        (3, None, ParameterError, "before must be given for the last 3 of 4 steps"),
        (4, found[0], ParameterError, "before must be left out for the last 4 of 4 steps"),
        (
            2,
            found[0],
            ParameterError,
            "before must be step 2 of the same totals, with its names in this order, got <RunningStep 1",
        ),
        (3, other, ParameterError, "before must be step 1 of the same totals"),
        (1, found[2].last(1, found[1]), ParameterError, "before must be step 3 .* windows of 1>"),
        (3, [1.0, 2.0], ParameterError, r"before must be one for each of 3 names, got shape \(2,\)"),
        (3, ["1", "2", "3"], DTypeError, "before must be a RunningStep or its values"),
        (3, [1.0, np.nan, 2.0], ParameterError, "before must be finite"),
        (3, stranger, ParameterError, "before must be step 1 of the same totals"),
        (0, None, ParameterError, "steps must be at least 1"),
    ):
        with pytest.raises(error, match=says):
            last.last(steps, before)
    with pytest.raises(ParameterError, match="with its names in this order"):
        place.again(totals=ONCE, names=NAMES[::-1]).step(4, resume=True).last(1, found[2])
    window = last.last(1, found[2])
    with pytest.raises(ParameterError, match="this is a window"):
        window.last(1, found[2])
    assert (last.last(9).values == last.values).all()
    assert last.last(9).interval() == last.interval()
    assert (window.t, window.metadata()["last"]) == (4, 1)
    rising = np.zeros(3)
    for step in found:  # docs/behind/running.md
        rising = np.maximum(rising, step.values)
    given = {"key": place.key.derive("sign-ups"), "names": NAMES, "resume": True}
    assert (dpfast.running_totals(ONCE, DAYS, **given).rising()[-1] == rising).all()


def test_the_page_runs(tmp_path, monkeypatch) -> None:
    """docs/running.md, and its line on windows."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "running.md").read_text("utf-8")
    found: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), found)
    first, second = found["first"], found["second"]
    assert "`second.last(1, first)`" in page
    made = found["totals"]
    alone = (365 / (2 * float(made.rho))) ** 0.5  # each day's noise is that of one contribution
    said = f"(ε = {float(dpfast.Guarantee(rho=made.rho).approximate('1e-6').epsilon):.1g} at δ = 10⁻⁶)"
    assert f"At ρ = {float(made.rho)} {said} and one contribution of 1" in page
    assert f"a standard deviation of {made.stddev(365):.0f}\nafter a year" in page
    assert f"it would be {alone:.0f}.\n" in page
    assert (second.last(1, first).values == second.last(1, first.values.tolist()).values).all()
    assert second.last(1, first).interval(0.95) < second.interval(0.95) + first.interval(0.95)


# ------------------------------------------------------------------ another input


def test_another_input_is_refused_at_each_step(place) -> None:
    """The last step's; any earlier one's, by replay; and what is published tells nothing of it."""
    values(place.running())
    for t in range(1, len(DAYS) + 1):
        other = DAYS.copy()
        other[t - 1, 1] += 1
        with pytest.raises(OtherInputError, match=f"with which step {t} was reserved"):
            values(place.again(state=None, replay=other[:-1]), other, len(DAYS))
    swapped = DAYS[[1, 0, 2, 3]]  # equal sums from the second step on
    with pytest.raises(OtherInputError, match="step 1"):
        place.again(state=None, replay=swapped)
    with pytest.raises(OtherInputError):
        place.again().step(4, DAYS[3] + [0, 0, 1])
    refused = [each for each in place.ledger.history() if each.refused]
    assert len(refused) == 6
    assert place.ledger.spent.rho == 0.5
    assert (place.again().step(4, resume=True).values == place.again().step(4, DAYS[3]).values).all()


def test_a_day_that_has_changed_does_not_end_the_totals(place, monkeypatch) -> None:
    """Killed once its tag is reserved: what was written ahead goes on, whoever tries another."""
    running = place.running()
    running.step(1, DAYS[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stepping, "keyed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            running.step(2, DAYS[1])
    for counts in (DAYS[1] + 1, DAYS[2]):
        with pytest.raises(OtherInputError, match="resume=True"):
            place.again().step(2, counts)
    with pytest.raises(ParameterError, match="the state is at step 1 and the ledger at 2, so give each again"):
        place.again().step(3, DAYS[2])
    second = place.again().step(2, resume=True).values
    assert (place.again().step(2, DAYS[1]).values == second).all()
    assert place.ledger.verify(place.key) == 3


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_before_it_is_reserved_a_day_may_change(place, monkeypatch) -> None:
    """Nothing was drawn, so what was written ahead makes room."""
    running = place.running()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dpfast.ledger.store.insert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            running.step(1, DAYS[0])
    assert (place.folder / "state.ahead").exists()
    first = place.again().step(1, DAYS[1]).values
    assert (place.again().step(1, resume=True).values == first).all()
    with pytest.raises(OtherInputError):
        place.again().step(1, DAYS[0])


# ------------------------------------------------------------------ planted seals


def difference(folder: Path, change: Callable[[np.ndarray], None]) -> np.ndarray:
    """What two tries of four steps show, if nothing compares them, where their inputs differ so."""
    days = DAYS.copy()
    change(days)
    secret = Place(folder / "secret").key.path
    found = [
        np.array(values(Place(folder / name, secret).running(), each)) for name, each in (("a", DAYS), ("b", days))
    ]
    return found[1] - found[0]


def changed_at_two(days: np.ndarray) -> None:
    days[1, 0] += 1


def must_hide(folder: Path) -> None:
    """An old step that is changed shows nothing: from there on all cells have other noise."""
    shown = difference(folder, changed_at_two)
    assert (shown[0] == 0).all()  # the same input so far
    assert (np.abs(shown[1:]) > 20).any(axis=1).all()  # by chance once in 10^22: three cells lie so close


def must_differ_from_step_to_step(folder: Path) -> None:
    """Equal totals, as after a step without counts, have noise of their own at each step."""
    running = Place(folder / "steps").running()
    found = np.array([running.step(t, counts).values for t, counts in enumerate([DAYS[0], [0] * 3, [0] * 3], 1)])
    assert (found[0] != found[1]).any()
    assert (found[1] != found[2]).any()


def must_bind_the_totals(folder: Path) -> None:
    """Buffers that decayed, or an earlier state's: equal inputs, and other totals, are refused."""
    running = Place(folder / "buffers").running()
    values(running, DAYS[:2])
    step = running._kept[1]
    running._kept[1] = step._replace(encoder=step.encoder + 1)
    with pytest.raises(OtherInputError):
        running.step(2, DAYS[1])


def must_notice_that_a_step_was_lost(folder: Path) -> None:
    """A ledger that lacks tags and no charge, under a key file: any release is refused."""
    place = Place(folder / "lost")
    running = place.running()
    place.keep("early")
    values(running, DAYS[:2])
    place.restore("early", place.path)
    mechanism = dpfast.DiscreteGaussian.from_zcdp(0.1, dpfast.Sensitivity(1, 1))
    with pytest.raises(LedgerError, match=r"lacks tag 3 of the head beside"):
        place.ledger.release(mechanism, [1], key=place.key.derive("another"))
    with pytest.raises(LedgerError, match=r"lacks tag 3 of the head beside"):
        place.again(state=None).step(1, DAYS[1])


def test_a_ledger_that_lost_the_charge_of_totals_is_noticed(tmp_path) -> None:
    """No step was taken: what is charged is seen when it is reserved."""
    place = Place(tmp_path / "lost")
    place.keep("before")
    place.running()
    place.restore("before", place.path)
    with pytest.raises(LedgerError, match=r"lacks charge 1 of the head beside"):
        place.ledger.release(
            dpfast.DiscreteGaussian.from_zcdp(0.1, dpfast.Sensitivity(1, 1)), [1], key=place.key.derive("another")
        )


def own_chain(self: Any, _: bytes, t: int, counts: np.ndarray, units: Any = None) -> bytes:
    return H(b"own", b"chain", E(t, self.digest("counts", 0, [counts.tobytes()])))


PLANTED: dict[str, tuple[Callable[[Path], None], Callable[[pytest.MonkeyPatch], None]]] = {
    "a digest of the step's own input": (
        must_hide,
        lambda patched: [
            patched.setattr(stepping.Stepping, "chain", own_chain),
            patched.setattr(stepping.Stepping, "point", lambda _, t, chain, block, digest: E(t, chain, block)),
        ],
    ),
    "one key for two steps": (
        must_differ_from_step_to_step,
        lambda patched: patched.setattr(
            stepping.Stepping, "point", lambda _, t, chain, block, digest: E(block, digest)
        ),
    ),
    "a tag on inputs alone": (
        must_bind_the_totals,
        lambda patched: patched.setattr(
            stepping.Stepping, "tag", lambda self, t, chain, digests: H(chain, b"tag", E(t))
        ),
    ),
    "a head that counts charges alone": (
        must_notice_that_a_step_was_lost,
        lambda patched: patched.setattr(store, "_lacks", lambda connection, head: ["charge", ""][store._has(connection, head)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("defect", PLANTED)
def test_what_a_weaker_seal_gives_away_is_noticed(defect: str, tmp_path, monkeypatch) -> None:
    must, plant = PLANTED[defect]
    (tmp_path / "right").mkdir()
    must(tmp_path / "right")
    plant(monkeypatch)
    (tmp_path / "planted").mkdir()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        must(tmp_path / "planted")


def test_a_digest_of_the_own_step_gives_the_exact_difference(tmp_path, monkeypatch) -> None:
    """Why the chain is there: the change of an old step stands bare in each later one."""
    PLANTED["a digest of the step's own input"][1](monkeypatch)
    shown = difference(tmp_path, changed_at_two)
    assert shown[2:].tolist() == [[1, 0, 0], [1, 0, 0]]


# ------------------------------------------------------------------ restored, lost, damaged


def test_a_state_that_is_behind_the_ledger_goes_on_step_by_step(place) -> None:
    running = place.running()
    values(running, DAYS[:2])
    place.keep("early")
    whole = values(running, DAYS, 3)
    place.restore("early", place.state)
    (place.folder / "state.before").unlink()
    with pytest.raises(
        ParameterError, match="t must be 3, the step after the last one, got 5: the state is at step 2 and"
    ):
        place.again().step(5, DAYS[0])
    with pytest.raises(OtherInputError):
        place.again().step(3, DAYS[3])
    assert values(place.again(), DAYS, 3) == whole


def test_a_state_that_is_ahead_of_the_ledger_is_refused(place, tmp_path) -> None:
    """The ledger was restored, and the head, too; or the state is of another ledger."""
    running = place.running()
    values(running, DAYS[:2])
    place.keep("early")
    kept_head = head.name_of(place.key.path).read_bytes()
    values(running, DAYS, 3)
    place.restore("early", place.path)
    head.name_of(place.key.path).write_bytes(kept_head)
    with pytest.raises(
        LedgerError, match="the state is at step 4 of 'sign-ups', and the ledger at step 2: the ledger was"
    ):
        place.again()
    with pytest.raises(LedgerError, match=r"lacks tag \d of this process"):
        running.step(5, DAYS[0])
    other = Place(tmp_path / "other", place.key.path)
    values(other.running(), DAYS[1:])
    other.key.path.with_name("key.head").unlink()
    for path in other.folder.glob("state*"):
        path.unlink()
    shutil.copy(place.folder / "state.early", other.state)
    with pytest.raises(LedgerError, match="does not have step 2 of 'sign-ups' as the state does"):
        other.again().step(3, DAYS[3])
    shutil.copy(place.state, other.state)
    with pytest.raises(LedgerError, match="and the ledger at step 3"):
        other.again()
    other.again(state=None, replay=DAYS[1:]).step(4, DAYS[0])
    with pytest.raises(LedgerError, match="at step 4, of other counts: the ledger was restored"):
        other.again()


def test_after_a_restored_ledger_the_totals_are_paid_again(place, capsys) -> None:
    """A lost step may be released with other counts: `restored` charges the totals anew."""
    running = place.running()
    place.keep("early")
    values(running, DAYS[:2])
    place.restore("early", place.path)
    assert place.ledger.restored(place.key).rho == 0.5
    assert command(capsys, "ledger", "verify", place.path, "--key-file", place.key.path)[0] == 1
    assert place.ledger.restored(place.key, charge=True).rho == 0.5
    assert place.ledger.spent.rho == 1
    assert place.ledger.verify(place.key) == 2
    for path in place.folder.glob("state*"):
        path.unlink()
    assert values(place.again(), DAYS[1:])[0]
    assert place.ledger.restored(place.key).rho == 0


def test_totals_that_cannot_pay_again_do_not_go_on(place) -> None:
    """A full ledger sells no more, but a step of totals that are paid for costs nothing."""
    running = place.running()
    place.ledger.spend(dpfast.Guarantee(rho="1.25"), label="other releases")
    place.keep("early")
    values(running, DAYS[:2])
    place.restore("early", place.path)
    for _ in range(2):
        with pytest.raises(BudgetExhausted, match=r"rho 0\.5 is asked for and 0\.25 is left of 2"):
            place.ledger.restored(place.key, charge=True)
        assert place.ledger.spent.rho == 1.75
        with pytest.raises(LedgerError, match="restored from a copy"):
            place.again(state=None)


def test_each_state_has_one_running_totals(place, tmp_path) -> None:
    """Its path is taken once they are paid for; what cannot be a path of theirs costs nothing."""
    first = place.running()
    for state, error, says in (
        (place.state, FileError, "is there"),
        (place.folder / "state.ahead", ParameterError, "state must end otherwise than in .ahead"),
        (place.folder / "none" / "state", FileError, "state must lie in a folder that is there"),
        (place.folder / ("x" * 300) / "state", FileError, "state must lie in a folder that is there"),
        (place.folder / ("x" * 300), FileError, "state must be a path that files may have"),
        (place.folder / ("x" * 246), FileError, "state must be a path that files may have"),  # .ahead.new: 256
        (place.folder / "\ud800", ParameterError, "state must be text that can be written as a file's name"),
        ("/", FileError, "/ is there"),
    ):
        with pytest.raises(error, match=says):
            place.running(label="second", state=state)
    closed = tmp_path / "closed"
    closed.mkdir()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(FileError, match="where files can be made"):
        access = os.access  # root, too, is told so of a disk that is mounted read-only
        patch.setattr(os, "access", lambda path, *how, **of: path != closed and access(path, *how, **of))
        place.running(label="second", state=closed / "second")
    assert place.ledger.spent.rho == 0.5
    second = place.folder / ("x" * 245)
    place.running(label="second", state=second).step(1, DAYS[0])
    second.replace(place.state)
    with pytest.raises(FileError, match="under another key or label"):
        first.step(1, DAYS[0])
    assert not (place.folder / "state.ahead").exists()
    with pytest.raises(FileError, match="under another key or label"):
        place.again()


def test_whoever_takes_a_path_second_finds_it_taken(place) -> None:
    """Two processes open totals whose first one was killed before it took the path of the state."""
    place.running(state=None)
    first = place.again()
    whole = place.state.read_bytes()
    first._file.claim()
    assert place.state.read_bytes() == whole
    assert (first.step(1, DAYS[0]).values == place.again().step(1, resume=True).values).all()


def test_each_step_makes_its_files_anew(place) -> None:
    """What was copied back for all to read, or is kept by another name, gets nothing more."""
    running = place.running()
    values(running, DAYS[:2])
    for path in place.folder.glob("state*"):
        path.chmod(0o644)
    kept = place.folder / "kept"
    kept.hardlink_to(place.state)
    whole = kept.read_bytes()
    values(running, DAYS, 3)
    assert kept.read_bytes() == whole
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.folder.glob("state*")} == {0o600}
    place.state.chmod(0o644)
    running.step(len(DAYS) + 1, DAYS[0])  # STATE is STATE.before now
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.folder.glob("state*")} == {0o600}


def test_a_state_is_its_own(place, tmp_path) -> None:
    """Damaged, cut, another key's, another label's: refused in words, and never believed."""
    running = place.running()
    values(running, DAYS[:2])
    right = place.state.read_bytes()
    for wrong, says in (
        (right[:-1], "is damaged"),
        (right + b"\0", "is damaged"),
        (right[:90] + bytes([right[90] ^ 1]) + right[91:], "is damaged"),
        (b"", "is no file of running totals"),
        (b"x" + right[1:], "is no file of running totals"),
        ((place.folder / "state.ahead").read_bytes(), "is damaged"),
    ):
        place.state.write_bytes(wrong)
        with pytest.raises(FileError, match=says):
            place.again()
    place.state.write_bytes(right)
    second = place.running(label="second", state=place.folder / "second")
    second.step(1, DAYS[0])
    shutil.copy(place.folder / "second", place.state)
    with pytest.raises(FileError, match="under another key or label"):
        place.again()
    place.state.write_bytes(right)
    (place.folder / "state.ahead").write_bytes(right)
    with pytest.raises(FileError, match="damaged"):
        place.again().step(3, resume=True)
    assert len(values(place.again(), DAYS, 3)) == 2


def test_an_older_state_takes_no_newer_ones_place(place) -> None:
    """Whoever draws an earlier step last leaves what is there."""
    one = place.running()
    one.step(1, DAYS[0])
    slow = place.again()
    values(one, DAYS, 2)
    state = place.state.read_bytes()
    slow.step(2, DAYS[1])
    assert place.state.read_bytes() == state
    assert (slow.step(4, DAYS[3]).values == one.step(4, DAYS[3]).values).all()


def test_the_one_state_that_is_left_is_not_written_over(place, monkeypatch) -> None:
    """Between two renames there is STATE.before alone, and the next try may be stopped as well."""
    whole = values(place.running())
    place.state.unlink()
    running = place.again()
    with monkeypatch.context() as patched:
        patched.setattr("dpfast.counts.running.state.make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            running.step(4, DAYS[3])
    assert place.again().step(4, resume=True).values.tolist() == whole[3]


@pytest.mark.slow
def test_each_write_flush_rename_and_commit_may_be_the_last() -> None:
    """A process ends there, a third lose their state, all go on: one value a step, one charge.

    Of rows, whose table of units is written with all else; tests/deep/kills.py has both.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        found, *points = forked(LIVES, folder, "exits", 1, 2, "rows").strip().split(",")
    assert int(found) > 45
    assert {*points} == {"after a commit", "before a commit", "fsync", "replace", "unlink", "write"}


# ------------------------------------------------------------------ refusals


def test_what_is_refused_costs_nothing(place) -> None:
    """Each in words; nothing is charged or drawn, and no file is made."""
    ledger, key = place.ledger, place.key.derive("sign-ups")
    options: dict[str, Any] = {"key": key, "names": NAMES, "state": place.state}
    wrong: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (dpfast.DiscreteLaplace(1, 1), {}, DTypeError, "totals must be RunningTotals, not DiscreteLaplace"),
        (PlainTotals(), {"key": place.key}, DTypeError, "key must be a release key"),
        (PlainTotals(), {"key": dpfast.testing.fixed_key(1).derive("sign-ups")}, ParameterError, "key must be secret"),
        (PlainTotals(), {"names": []}, ParameterError, "names must name at least one cell"),
        (PlainTotals(), {"names": ["a", "b", "a"]}, ParameterError, "names must name each cell once, and 'a' comes twice"),
        (PlainTotals(), {"names": [1.5]}, DTypeError, "names must contain integers or strings"),
        (PlainTotals(), {"state": 5}, DTypeError, "state must name a file"),
        (PlainTotals(), {"resume": 1}, DTypeError, "resume"),
        (PlainTotals(), {"resume": True}, ParameterError, "resume must be left out, for nothing is reserved under 'sign-ups'"),
        (PlainTotals(), {"replay": [[1, 2, 3]]}, ParameterError, "replay must be left out where totals are created"),
        (PlainTotals(), {"replay": [None]}, ParameterError, "replay must be left out where totals are created"),
        (PlainTotals(), {"replay": 5}, DTypeError, "replay must give the counts of each step, not be int"),
        (PlainTotals(3), {}, BudgetExhausted, "rho 3 is asked for and 2 is left"),
    ]  # fmt: skip
    for totals, given, error, says in wrong:
        with pytest.raises(error, match=says):
            ledger.running(totals, **{**options, **given})
    place.state.write_bytes(b"")
    with pytest.raises(FileError, match="is there: resume=True goes on with its totals"):
        ledger.running(PlainTotals(), **options)
    place.state.unlink()
    assert not ledger.history()
    assert not [*place.folder.glob("state*")]


def test_which_ledgers_pay(tmp_path) -> None:
    """Rho pays in rho; a ledger in epsilon and delta needs both; pure epsilon and mu do not."""
    key = Key.generate().derive("sign-ups")
    for name, budget, says in (
        ("pure", {"epsilon": 9}, "totals must promise epsilon and delta, in which this ledger is kept"),
        ("both", {"epsilon": 9, "delta": 1e-6}, "totals must promise epsilon and delta, in which this ledger is kept"),
        ("gdp", {"epsilon": 9, "delta": 1e-6, "by": "gdp"}, "totals must be mu-GDP, in which this ledger is kept"),
    ):
        ledger = Ledger(tmp_path / name, **budget, create=True)
        with pytest.raises(ParameterError, match=says):
            ledger.running(PlainTotals(), key=key, names=NAMES)
        assert not ledger.history()
    zcdp = Ledger(tmp_path / "zcdp", epsilon=9, delta=1e-6, by="zcdp", create=True)
    assert zcdp.running(PlainTotals(), key=key, names=NAMES).step(1, DAYS[0]).values.size == 3
    both, key = Ledger(tmp_path / "both"), Key.generate().derive("sign-ups")
    both.running(PlainTotals(epsilon=4), key=key, names=NAMES).step(1, DAYS[0])
    assert (both.spent.epsilon, float(both.spent.delta)) == (4, 1e-6)


def test_which_steps_are_refused(place) -> None:
    running = place.running(PlainTotals(ceiling=3))
    running.step(1, DAYS[0])
    for t, counts, error, says in (
        (0, DAYS[0], ParameterError, "t must be"),
        (1.5, DAYS[0], DTypeError, "t must be"),
        (3, DAYS[0], ParameterError, "t must be 2, the step after the last one, got 3"),
        (
            4,
            DAYS[0],
            ParameterError,
            "t must be at most 3, up to which these totals are private, got 4: go on with new",
        ),
        (2, None, ParameterError, "counts or resume=True must be given, and one of them alone"),
        (2, [1, 2], ParameterError, r"counts must be one for each of 3 cells, got shape \(2,\)"),
        (2, [[1, 2, 3]], ParameterError, "counts must be one for each of 3 cells"),
        (2, [0.5, 1, 2], DTypeError, "counts must be of an integer dtype"),
        (2, [True, False, True], DTypeError, "counts must be of an integer dtype"),
    ):
        with pytest.raises(error, match=says):
            running.step(t, counts)
    with pytest.raises(ParameterError, match="one of them alone"):
        running.step(2, DAYS[1], resume=True)
    with pytest.raises(ParameterError, match="counts must be given for step 2, for none were written ahead for it"):
        running.step(2, resume=True)
    values(running, DAYS[:3], 2)
    with pytest.raises(ParameterError, match="t must be 3 or 4, got 1: totals of earlier steps are released"):
        running.step(1, DAYS[0])
    (place.folder / "state.before").unlink()
    with pytest.raises(ParameterError, match="t must be 4, got 3: totals of earlier steps are released"):
        place.again(totals=PlainTotals(ceiling=3)).step(3, DAYS[2])
    bare = place.again(state=None, totals=PlainTotals(ceiling=3))
    with pytest.raises(ParameterError, match="without state= none are written ahead"):
        bare.step(1, resume=True)
    with pytest.raises(ParameterError, match="replay must be the counts of the 3 steps that are reserved, got more"):
        place.again(state=None, totals=PlainTotals(ceiling=3), replay=[*DAYS[:3], DAYS[0]])
    assert len(place.ledger.history()) == 1


def test_a_label_that_is_there(place, monkeypatch) -> None:
    """As totals of other terms, names or cost, of another key, or as a release of an array."""
    place.running().step(1, DAYS[0])
    for given, says in (
        ({}, "'sign-ups' is reserved .* resume=True continues it"),
        ({"totals": PlainTotals(ceiling=999), "resume": True}, "with another ceiling, 1000, not 999"),
        ({"totals": PlainTotals("1/4"), "resume": True}, "with another rho, '1/2', not '1/4'"),
        (
            {"names": [*NAMES, "Rome"], "resume": True},
            "names must be the 3 with which 'sign-ups' was reserved, in any order",
        ),
        (
            {"names": ["Pune", "Lima", "Rome"], "resume": True},
            "such as 'other', or begin new totals with all names under",
        ),
    ):
        with pytest.raises(KeyReuseError, match=says):
            place.running(**{"state": place.folder / "new", **given})
    with pytest.raises(KeyReuseError, match="under another key"):
        place.ledger.running(PlainTotals(), key=Key.generate().derive("sign-ups"), names=NAMES, resume=True)
    mechanism = dpfast.DiscreteGaussian.from_zcdp(0.1, dpfast.Sensitivity(1, 1))
    with pytest.raises(KeyReuseError, match="with another kind, steps, not array"):
        place.ledger.release(mechanism, [1, 2], key=place.key.derive("sign-ups"), resume=True)
    place.ledger.release(mechanism, [1, 2], key=place.key.derive("array"))
    with pytest.raises(KeyReuseError, match="with another kind, array, not steps"):
        place.running(label="array", state=None, resume=True)
    monkeypatch.setattr(dpfast.Ledger, "_dearer", lambda *_: "at another price")  # as of a later version
    with pytest.raises(KeyReuseError, match="'sign-ups' is reserved .* at another price"):
        place.running(resume=True)
    assert not [*place.folder.glob("new*")]
    assert float(place.ledger.spent.rho) == 0.6


# ------------------------------------------------------------------ the description, and readers


@pytest.mark.parametrize("names", [NAMES, [7, -1, 300]])
def test_keys_are_those_of_the_description(names: list[Any], place, monkeypatch) -> None:
    """csrc/stream.md, "Running totals", once more: chain, tags and stream keys."""
    totals, taken = PlainTotals(), []
    take = seal.keyed
    monkeypatch.setattr(stepping, "keyed", lambda *given: taken.append(take(*given)) or taken[-1])
    values(place.running(names=names), DAYS[:2])
    key = H(bytes(place.key._held), b"release key", b"sign-ups")
    order = sorted(range(3), key=names.__getitem__)
    ordered = [names[at] for at in order]
    domain = E(b"texts", *texts(ordered)) if isinstance(names[0], str) else E(*integers(ordered))
    terms = [E(name, value) for name, value in sorted(totals.terms().items())]
    column = E("", "discrete_gaussian", SCALE**2, 1)
    manifest = E(1, 2, "sign-ups", "steps", sha256(domain).hexdigest(), E(3), column) + E(b"", *terms)
    secret, running = H(key, b"block digest"), H(key, b"running", E(manifest))
    chain, tags, keys, so_far = H(key, b"chain", E(manifest)), [H(key, b"tag", E(manifest))], [], np.zeros(3, np.int64)
    for t, day in enumerate(DAYS[:2, order], 1):
        counts = blake3(E("counts", 0) + E(*integers(day.tolist())), key=secret).digest()
        so_far = so_far + day
        encoded = blake3(E("", 0) + E(*integers(so_far.tolist())), key=secret).digest()
        chain = H(key, b"chain", E(chain, t, counts))
        tags.append(H(key, b"tag", E(manifest, t, chain, encoded)))
        keys.append(H(running, b"stream key", E(t, chain, 0, encoded)))
    assert taken == keys
    assert [row[0] for row in sqlite3.connect(place.path).execute("SELECT name FROM parts ORDER BY begin")] == tags


def test_readers_of_today_show_it(place, capsys) -> None:
    """One row, its cost, and the steps as tags; a copy, a plan and an upgrade go as ever."""
    values(place.running(), DAYS[:2])
    code, said, _ = command(capsys, "ledger", "show", place.path)
    assert code == 0
    assert "sign-ups" in said
    assert "running_totals" in said
    assert "0.5" in said
    code, said, _ = command(capsys, "ledger", "plan", place.path, "--rho", "0.5")
    assert code == 0, said
    assert command(capsys, "ledger", "verify", place.path, "--key-file", place.key.path)[0] == 0
    assert place.ledger.copy(place.folder / "copy.db").verify() == 1
    code, _, errors = command(capsys, "ledger", "upgrade", place.path)
    assert code == 1
    assert "is not a ledger of format 1 or 2" in errors
    (entry,) = place.ledger.history()
    about = entry.parameters["manifest"]
    assert (about["kind"], about["size"], about["terms"]) == ("steps", [3], PlainTotals().terms())
    assert place.again().manifest.metadata() == about


OLD = """
    import sys, types
    from pathlib import Path

    for name in ("dpfast", "dpfast.ledger", "dpfast.release"):  # whose own modules need all that was built then
        package = types.ModuleType(name)
        package.__path__ = [str(Path(sys.argv[1], *name.split(".")))]
        sys.modules[name] = package
    from dpfast.errors import LedgerError
    from dpfast.ledger.store import Store

    try:
        Store(Path(sys.argv[2]))
    except LedgerError as error:
        print(error)
"""


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no history here")
def test_an_earlier_version_refuses_it_in_words(place) -> None:
    """Commit 8ab3011, whose ledgers have format 2, opens none with steps."""
    values(place.running(), DAYS[:2])
    folders = ["dpfast/errors.py", "dpfast/ledger", "dpfast/privacy", "dpfast/release"]
    tree = subprocess.run(["git", "archive", "8ab3011", *folders], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(tree)) as archive:
        archive.extractall(place.folder, filter="data")
    said = python(OLD, place.folder, place.path)
    assert said == f"{place.path} is a ledger of format 3; this version of dpfast has 2\n"
