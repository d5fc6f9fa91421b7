# SPDX-License-Identifier: Apache-2.0
"""`histogram` in small worlds: all tables of two units, by the command itself, and what it states.

With next to no noise OUT holds the bounded values. So neighbours' tables can be compared with the
sensitivity and the threshold that the command states.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import unicodedata
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import tiers
import worlds
from table_files import read, store

import dpfast
from dpfast.app.cli import main

CELLS = ("a", "b", "c")
NOISELESS = 2**45  # an epsilon whose noise is 0 but for a chance of e^(-2^30) where the sensitivity is below 2^15


class Paying:
    """A key and a ledger, which forget what they have paid for."""

    def __init__(self, folder: Path, adjacency: str = "add-remove") -> None:
        self._key, self._ledger = folder / "world.key", folder / "budget.db"
        self._key.write_bytes(bytes(range(32)))  # one choice of rows, in all formats too
        self._key.chmod(0o600)
        dpfast.Ledger(self._ledger, 2**46, unit="unit", adjacency=adjacency, create=True)
        self._began = self._ledger.read_bytes()

    def again(self) -> list[str]:
        """The options of a release that nothing was released before."""
        self._ledger.write_bytes(self._began)
        self._key.with_name("world.key.head").unlink(missing_ok=True)
        tiers.forget_labels()
        return ["--ledger", str(self._ledger), "--key-file", str(self._key), "--label", "world"]


class World:
    """A folder where tables are counted under one key, as if each had a label of its own."""

    def __init__(self, folder: Path, words: list[str], cells: int) -> None:
        self.folder, self.words, self.cells = folder, words, CELLS[:cells]
        self.known: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}
        self.paying = Paying(folder, words[words.index("--adjacency") + 1])
        self.stated: dict[str, object] = {}

    def counts(self, units: tuple[tuple[tuple[int, ...], ...], ...]) -> tuple[int, ...]:
        """What OUT holds for units, each with the values of its rows in each cell."""
        key = tuple(tuple(map(tuple, unit)) for unit in units)
        if key not in self.known:
            self.known[key] = self._counted(units)
        return self.known[key]

    def _counted(self, units: tuple[tuple[tuple[int, ...], ...], ...]) -> tuple[int, ...]:
        rows = [
            f"{cell},{name},{value}"
            for name, unit in enumerate(units)
            for cell, values in zip(self.cells, unit, strict=True)
            for value in values
        ]
        source, out = self.folder / "rows.csv", self.folder / "out.csv"
        source.write_text("\n".join(["cell,unit,value", *rows]) + "\n")
        command = [
            "histogram",
            str(source),
            str(out),
            "--by",
            "cell",
            "--unit",
            "unit",
            "--force",
            "--quiet",
            *self.words,
        ]
        command += ["--domain", f"cell={','.join(self.cells)},"[:-1] if len(self.cells) > 1 else "cell=1..1"]
        assert main([*command, *self.paying.again(), "--epsilon", str(NOISELESS)]) == 0
        (self.stated,) = json.loads(Path(f"{out}.json").read_text())["releases"]
        found = read(out).column("sum" if "--sum" in self.words else "count").to_numpy()
        return tuple(np.rint(found / self.step).astype(int).tolist())

    @property
    def step(self) -> float:
        return float(self.words[self.words.index("--granularity") + 1]) if "--granularity" in self.words else 1.0


def of_unit(cells: int, values: tuple[int, ...], most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All that one unit can have: in each cell up to so many rows, with these values."""
    in_one = [rows for many in range(most + 1) for rows in itertools.combinations_with_replacement(values, many)]
    return itertools.product(in_one, repeat=cells)


WORLDS = {  # the words; cells; values of rows, and how many rows a unit has in a cell at most
    "one cell each": (["--max-partitions", "1"], 2, (0,), 2),
    "two cells, two rows": (["--max-partitions", "2", "--max-per-partition", "2"], 2, (0,), 3),
    "rows in all": (["--max-contributions", "3"], 2, (0,), 3),
    "all caps": (["--max-partitions", "2", "--max-per-partition", "2", "--max-contributions", "3"], 3, (0,), 2),
    "sums of a cell": (["--max-partitions", "1", "--sum", "value", "--clamp", "0", "2", "--granularity", "1"], 2, (-1, 1, 3), 2),
    "sums of rows": (
        ["--max-partitions", "1", "--max-per-partition", "2", "--sum", "value", "--clamp", "-1", "2", "--granularity", "1"],
        2, (-5, 1, 3), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("sums")) for name in WORLDS]
)
def test_neighbours_are_as_far_apart_as_stated(tmp_path, name, adjacency) -> None:
    """All tables of a unit beside another one are compared, and some pair attains the figure."""
    words, cells, values, most = WORLDS[name]
    world = World(tmp_path, [*words, "--adjacency", adjacency], cells)
    beside = tuple((values[-1],) for _ in range(cells))
    every = list(of_unit(cells, values, most))
    alone = world.counts((tuple(() for _ in range(cells)), beside))
    tables = [world.counts((unit, beside)) for unit in every]
    pairs = itertools.product(tables, [alone] if adjacency == "add-remove" else tables)
    apart = max(sum(abs(x - y) for x, y in zip(one, other, strict=True)) for one, other in pairs)
    stated = Fraction(str(world.stated["sensitivity"]))
    assert apart == stated


def test_a_planted_defect_is_found(tmp_path, monkeypatch) -> None:
    """A cap that is not applied: neighbours are further apart than stated."""
    counted = dpfast.bounded_histogram
    monkeypatch.setattr(
        dpfast, "bounded_histogram",
        lambda *given, **named: counted(*given, **{**named, "max_per_partition": 2 if len(given[0]) else 1}),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        test_neighbours_are_as_far_apart_as_stated(tmp_path, "one cell each", "add-remove")


def test_a_unit_changes_nothing_of_another(tmp_path) -> None:
    """Under one key a unit keeps the same rows beside any other unit, wherever they stand."""
    world = World(tmp_path, ["--max-partitions", "1", "--adjacency", "add-remove"], 3)
    none = ((), (), ())
    units = [((0,), (0,), (0,)), ((0, 0), (), (0,)), ((), (0,), (0, 0))]
    for one, other in itertools.permutations(units, 2):
        both, first, second = world.counts((one, other)), world.counts((one, none)), world.counts((none, other))
        assert both == tuple(x + y for x, y in zip(first, second, strict=True))


class Crowd:
    """A file of rows in a format, whose units have two rows in each of three cells."""

    def __init__(self, folder: Path, end: str) -> None:
        self.source, self.out = folder / f"rows{end}", folder / "out.csv"
        (folder / end).mkdir()
        self.paying = Paying(folder / end)

    def counts(self, people: Sequence[str]) -> list[int]:
        """What OUT holds, where each unit keeps one row in one cell."""
        rows = [(cell, name) for _ in range(2) for name in people for cell in CELLS]
        columns = {name: [row[at] for row in rows] for at, name in enumerate(("cell", "unit"))}
        if self.source.suffix == ".csv":
            with self.source.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([columns, *rows])
        elif self.source.suffix == ".jsonl":
            self.source.write_text("".join(json.dumps({"cell": cell, "unit": name}) + "\n" for cell, name in rows))
        else:
            table = pa.table(columns)
            coded = table.set_column(1, "unit", table["unit"].dictionary_encode())
            store(coded if self.source.suffix == ".arrow" else table, self.source, rows=7)
        words = ["--by", "cell", "--domain", "cell=a,b,c", "--unit", "unit", "--max-partitions", "1"]
        words += ["--max-per-partition", "1", "--epsilon", str(NOISELESS), "--force", "--quiet"]
        assert main(["histogram", str(self.source), str(self.out), *words, *self.paying.again()]) == 0
        return read(self.out)["count"].to_pylist()


@pytest.fixture
def small_pieces(monkeypatch) -> None:
    """Rows of one unit lie in many pieces."""
    monkeypatch.setattr("dpfast.app.tables.csv_text.BLOCK", 64)
    monkeypatch.setattr("dpfast.app.tables.rows.BATCH", 7)


def each_person_is_one(folder: Path) -> None:
    found = []
    for at, end in enumerate((".csv", ".jsonl", ".parquet", ".arrow")):
        crowd = Crowd(folder, end)
        whole = crowd.counts([*worlds.PEOPLE, ""])
        assert sum(whole) == len(worlds.PEOPLE)
        for bit in (at, at + 2):  # each pair that may be taken for one stands apart in some format
            halves = [[name for i, name in enumerate(worlds.PEOPLE) if i >> bit & 1 == side] for side in (0, 1)]
            both = [crowd.counts(half) for half in halves]
            assert [sum(part) for part in both] == list(map(len, halves))
            assert [x + y for x, y in zip(*both, strict=True)] == whole
        found.append(whole)
    assert found.count(found[0]) == 4


@pytest.mark.usefixtures("small_pieces")
def test_each_person_is_one_in_every_format_whatever_the_name_looks_like(tmp_path) -> None:
    """Each keeps one row whoever else is there, and the same in each format; an empty name none."""
    each_person_is_one(tmp_path)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "taken_for", [str.strip, str.lower, partial(unicodedata.normalize, "NFC")], ids=["strip", "lower", "nfc"]
)
def test_names_that_are_taken_for_one_are_found(tmp_path, monkeypatch, taken_for) -> None:
    counted = dpfast.bounded_histogram
    monkeypatch.setattr(
        dpfast, "bounded_histogram",
        lambda keys, units, **how: counted(keys, [taken_for(each) for each in pa.array(units).to_pylist()], **how),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        each_person_is_one(tmp_path)


@pytest.mark.parametrize(
    ("l0", "linf", "epsilon", "delta"),
    [(1, 1, "1", "1e-3"), (2, 1, "0.5", "1e-2"), (2, 2, "1", "1e-4"), (3, 1, "2", "1e-2")],
)
def test_the_threshold_is_the_least_that_keeps_delta(tmp_path, capsys, l0, linf, epsilon, delta) -> None:
    """The next lower one breaks delta for keys that one unit alone has. OUT and --explain agree.

    False alarm below 1e-90: the key with 999 rows is lost. Noise below -900 at a scale of 4 has a
    chance below e^(-225), and no threshold here is above 99.
    """
    rows = tmp_path / "rows.csv"
    rows.write_text("cell,unit\n" + "".join(f"a,{i}\n" for i in range(999)) + "b,999\n")
    words = [
        "--by",
        "cell",
        "--unit",
        "unit",
        "--max-partitions",
        str(l0),
        "--max-per-partition",
        str(linf),
        "--threshold",
    ]
    command = ["histogram", str(rows), str(tmp_path / "out.csv"), *words, "--epsilon", epsilon, "--delta", delta]
    assert main(command) == 0
    (stated,) = json.loads((tmp_path / "out.csv.json").read_text())["releases"]
    threshold, q = stated["threshold"], math.exp(-float(epsilon) / (l0 * linf))
    for at, holds in ((threshold, True), (threshold - 1, False)):
        assert (worlds.most_shown(q, at, l0, linf, l0 * linf) <= float(delta)) == holds or at <= linf
    shown = read(tmp_path / "out.csv").to_pydict()
    assert "a" in shown["cell"]
    assert min(shown["count"]) >= threshold  # b is shown with a chance of delta at most, and its one row is fewer
    capsys.readouterr()
    assert main([*command, "--explain"]) == 0
    assert f"keys are shown from a noisy count of {threshold}" in capsys.readouterr().out


def test_a_threshold_that_is_not_kept_is_found(tmp_path, capsys, monkeypatch) -> None:
    """Every key that has a row is shown."""
    monkeypatch.setattr(dpfast, "thresholded", lambda keys, counts, **_: SimpleNamespace(keys=keys, counts=counts))
    with pytest.raises(AssertionError, match="assert 1 >= "):
        test_the_threshold_is_the_least_that_keeps_delta(tmp_path, capsys, 1, 1, "1", "1e-3")
