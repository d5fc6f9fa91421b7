# SPDX-License-Identifier: Apache-2.0
"""That a cell of a file is refused is private: one class of error, whatever the cell."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpfast.app.cli import main
from dpfast.app.tables import files
from dpfast.app.tables.keys import Key
from dpfast.app.tables.rows import Columns, Rows
from dpfast.errors import DataDependentError, UnusableValuesError

BEYOND = 2**53 + 1
CELLS = [
    "5",
    "2.5",
    "5.0",
    "null",
    '"x"',
    '"5"',
    "true",
    str(BEYOND),
    "-0",
    "1e999",
    "[1]",
    '{"a":1}',
    "[" * 70 + "]" * 70,
]
LATE = 6000  # rows of 200 bytes: more than the part that says which keys there are
TAKEN = {"real": {"5", "2.5", "5.0", "-0"}, "counts": {"5", str(BEYOND), "-0"}}
LAWS = {"real": ["--mechanism", "laplace", "--l0", "1", "--linf", "24"], "counts": ["--sensitivity", "24"]}
EXACTLY = "2**60"  # an epsilon whose noise is 0, but for one draw in 10**100


def lines(path: Path, cells: Sequence[str], name: str = "n") -> Path:
    path.write_text("".join(f'{{"id": {i}, "t": "{"x" * 180}", "{name}": {cell}}}\n' for i, cell in enumerate(cells)))
    return path


def outcome(path: Path, law: str, **options: Any) -> list[float] | None:
    """The cells as the mechanism gets them; None if they are refused as private ones."""
    try:
        source = files.open_source(path, ["n"], real=law == "real", **options)
        return [cell for piece in source.pieces() for cell in piece.counts[0].tolist()]
    except DataDependentError:
        return None


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("law", TAKEN)
def test_a_cell_of_json_lines_is_taken_or_refused_as_a_private_one(tmp_path: Path, cell: str, law: str) -> None:
    """Wherever it lies: alone, among others, and behind what says which keys there are."""
    alone = outcome(lines(tmp_path / "a.jsonl", [cell] * 3), law)
    early = outcome(lines(tmp_path / "b.jsonl", ["5", cell, "7"]), law)
    late = outcome(lines(tmp_path / "c.jsonl", ["5"] * LATE + [cell]), law)
    texts = {'"5"'} if law == "real" else {'"5"', "5.0"}  # a column of these alone holds numbers, too
    assert (alone is not None) == (cell in TAKEN[law] | texts)
    assert (early is not None) == (cell in TAKEN[law] | (texts - {'"5"'}))
    assert (late is not None) == (cell in TAKEN[law])
    if early is not None:
        assert early == [5, float(cell) if law == "real" else int(Fraction(cell)), 7]


@pytest.mark.parametrize("law", TAKEN)
def test_a_key_that_no_line_has_is_refused_as_a_private_cell(tmp_path: Path, law: str) -> None:
    """A program may leave a key out where it has no value: then all private cells are absent."""
    with pytest.raises(UnusableValuesError, match="no column is named 'n'"):
        files.open_source(lines(tmp_path / "in.jsonl", ["5"], "m"), ["n"], real=law == "real")
    with pytest.raises(UnusableValuesError, match="is empty"):
        files.open_source(lines(tmp_path / "none.jsonl", []), ["n"], real=law == "real")


@pytest.mark.parametrize("cells", [["5", "3", "8"], ["5", "3", "8", "2.5"]])
def test_whether_all_real_values_are_whole_decides_nothing(tmp_path: Path, cells: list[str]) -> None:
    path, out = lines(tmp_path / "in.jsonl", cells), tmp_path / "out.parquet"
    words = ["privatize", str(path), str(out), "--column", "n", *LAWS["real"], "--epsilon", EXACTLY, "--quiet"]
    assert main(words) == 0
    assert pq.read_table(out)["n"].to_pylist() == pytest.approx([float(cell) for cell in cells], abs=1e-6)


@pytest.mark.parametrize("cell", ['"x"', "null", "true", "[1]", str(BEYOND)])
@pytest.mark.parametrize("law", LAWS)
def test_the_code_of_a_wrong_parameter_tells_of_no_cell(tmp_path: Path, capsys, law: str, cell: str) -> None:
    for cells in ([cell], ["5", cell]):
        path = lines(tmp_path / "in.jsonl", cells)
        words = ["privatize", str(path), str(tmp_path / "out.csv"), "--column", "n", *LAWS[law], "--epsilon", "1"]
        refused = main([*words, "--force"])
        assert refused == (0 if (law, cell) == ("counts", str(BEYOND)) else 1), capsys.readouterr().err


def written(folder: Path, form: str, number: int) -> Path:
    """A file of this number and 5, which is no double there."""
    path = folder / f"in.{form.partition(' ')[0]}"
    if form == "csv":
        path.write_text(f"n\n{number}\n5\n")
    elif form == "jsonl":
        lines(path, [str(number), "5"])
    elif form == "parquet of texts":
        pq.write_table(pa.table({"n": [str(number), "5"]}), path)
    else:
        pq.write_table(
            pa.table({"n": pa.array([decimal.Decimal(number), decimal.Decimal(5)], pa.decimal128(20, 0))}), path
        )
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet of texts", "parquet of decimals"])
def test_a_number_that_a_double_rounds_is_refused_or_clamped(tmp_path: Path, capsys, form: str) -> None:
    """2**53 + 1 and 2**53 + 2 would come to lie 2 apart, for a sensitivity of 1."""
    for sign in (1, -1):
        path = written(tmp_path, form, sign * BEYOND)
        assert outcome(path, "real") is None
        assert outcome(path, "real", missing=True) is None
        assert outcome(path, "counts") == [sign * BEYOND, 5]
        assert outcome(path, "real", within=True) == [sign * 2.0**53, 5]
    assert outcome(written(tmp_path, form, 2**53 - 1), "real") == [2.0**53 - 1, 5]
    path = written(tmp_path, form, BEYOND)
    words = ["privatize", str(path), str(tmp_path / "out.csv"), "--column", "n", *LAWS["real"], "--epsilon", EXACTLY]
    for ends, code in ((["0", "24"], 0), (["0", "2**53"], 0), (["0", str(BEYOND)], 1), (["0", "2**54"], 1)):
        assert main([*words, "--clamp", *ends, "--force", "--quiet"]) == code, capsys.readouterr().err
    assert outcome(path, "real", within=True, missing=True) == [2.0**53, 5]


def test_doubles_of_a_typed_column_are_as_they_are(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1e300, 2.0**53]}), tmp_path / "in.parquet")
    assert outcome(tmp_path / "in.parquet", "real") == [1e300, 2.0**53]


ROW = {"k": '"a"', "u": "1", "v": "2"}


@pytest.mark.parametrize(
    ("name", "cell"),
    [(name, cell) for name in ROW for cell in ("null", "2.5", '"x"', "true", "7", "[1]", '{"a":1}', None)],
)
def test_a_histogram_tells_of_no_kind_by_its_code(tmp_path: Path, capsys, name: str, cell: str | None) -> None:
    """The kind of keys, units and values of JSON lines is that of private cells, in each file."""
    row = {key: cell if key == name else usual for key, usual in ROW.items()}
    other = "{" + ", ".join(f'"{key}": {cell}' for key, cell in row.items() if cell is not None) + "}\n"
    usual = "{" + ", ".join(f'"{key}": {cell}' for key, cell in ROW.items()) + "}\n"
    folder = tmp_path / "rows"
    folder.mkdir()
    for texts in ([other], [usual + other], [usual, other]):
        for i, text in enumerate(texts):
            (folder / f"{i}.jsonl").write_text(text)
        words = ["histogram", str(folder), str(tmp_path / "out.csv"), "--by", "k", "--unit", "u", "--sum", "v"]
        words += ["--clamp", "0", "8", "--max-partitions", "1", "--domain", "a,b", "--epsilon", "1", "--force"]
        assert main(words) in {0, 1}, capsys.readouterr().err


def test_no_row_decides_how_the_value_of_another_is_read(tmp_path: Path) -> None:
    """Else one 2.5 would round all other people's values."""
    rows = [f'{{"k": "a", "u": {i}, "v": {BEYOND}}}\n' for i in range(3)]
    found = []
    for more in ("", '{"k": "a", "u": 9, "v": 2.5}\n'):
        (tmp_path / "in.jsonl").write_text("".join(rows) + more)
        batches = Rows(tmp_path / "in.jsonl", Columns((Key("k", "k"),), "u", "v")).batches()
        found.append([value for batch in batches for value in batch.values.to_pylist()][:3])
    assert found[0] == found[1] == [2.0**53] * 3
