# SPDX-License-Identifier: Apache-2.0
"""`dpfast show`: what a colleague's file says of itself; damaged and hostile ones say nothing."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command import one_error
from html_faults import faults
from table_files import read, store

import dpfast
from dpfast.app.cli import main
from dpfast.engines import jobs

ROWS = "person,city,hours\n" + "".join(f"{i},{'Oslo' if i % 3 else 'Lima'},{i % 7}\n" for i in range(40))
BY = ["--by", "city", "--domain", "Oslo,Lima", "--unit", "person", "--max-partitions", "2"]
TOTAL = ["--unit-is-row", "--epsilon", "1"]
MADE = {  # how OUT is made, and what its record says
    "out.csv": (["histogram", *BY, "--epsilon", "1", "--intervals"], ["epsilon 1 per person, add-remove", "95 % of each cell, ±6", "±7", "max-partitions 2"]),
    "sum.parquet": (["histogram", *BY, "--sum", "hours", "--clamp", "0", "7", "--epsilon", "1", "--delta", "1e-6", "--mechanism", "discrete-gaussian"],
                    ["cost epsilon 1, delta 1e-6 (or, counted in rho: 0.0280145) per person", "discrete gaussian, epsilon 1, delta 1e-6, in steps", "sum              hours"]),
    "row.arrow": (["histogram", *TOTAL], ["each row is another unit, as whoever released it says", "one, the total", "±3"]),
    "seen.jsonl": (["histogram", "--by", "city", "--unit-is-row", "--threshold", "--epsilon", "2", "--delta", "1e-3"],
                   ["the keys whose noisy number reached the threshold", "threshold"]),
    "p.csv": (["privatize", "--column", "hours", "--mechanism", "laplace", "--epsilon", "1/2", "--l0", "1", "--linf", "7", "--lower", "0"],
              ["laplace, epsilon 0.5, sensitivity 7", "lower 0"]),
    "s.tsv": (["privatize", "--column", "hours", "--mechanism", "snapping", "--epsilon", "1", "--sensitivity", "1", "--bound", "1024"], ["snapping", "bound 1024"]),
    "mean.csv": (["histogram", *BY, "--max-per-partition", "1", "--mean", "hours", "--clamp", "0", "7", "--epsilon", "1", "--intervals"],
                 ["95 % of each cell, sum ±41.9403, count ±12", "mean hours", "±12 ±15"]),
    "half.csv": (["histogram", *BY, "--max-per-partition", "1", "--mean", "hours", "--clamp", "0.5", "1e1", "--epsilon", "1"],
                 ["clamp 0.5, 1E+1", "mean hours"]),
    "tenths.csv": (["histogram", *BY, "--sum", "hours", "--clamp", "0", "6.5", "--epsilon", "1", "--intervals"], ["clamp 0, 6.5"]),
    "median.csv": (["histogram", *BY, "--quantile", "hours=0.5", "--quantile", "hours=0.9", "--clamp", "0", "8", "--step", "1/2", "--epsilon", "1", "--jointly",
                    "--intervals", "0.9"], ["90 % of all rows jointly", "quantiles 0.5, 0.9", "tree, epsilon 1 (or, counted in rho: "]),
    "whole.parquet": (["histogram", *TOTAL, "--quantile", "hours=0.5", "--clamp", "0", "20", "--mechanism", "discrete-gaussian", "--delta", "1e-6", "--intervals"],
                      ["95 % of each row"]),
    "two.csv.gz": (["privatize", "--column", "hours", "--column", "person", "--mechanism", "gaussian", "--epsilon-is", "total", "--epsilon", "1", "--delta",
                    "1e-6", "--l0", "1", "--linf", "1"], ["one sigma for all columns", "hours", "person"]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ROWS)


def make(name: str) -> str:
    command, *words = MADE[name][0]
    assert main([command, "rows.csv", name, *words, "--quiet"]) == 0
    return name


def record_of(name: str) -> dict[str, Any]:
    if name.endswith((".parquet", ".arrow")):
        return json.loads(read(Path(name)).schema.metadata[b"dpfast"])
    return json.loads(Path(f"{name}.json").read_text())


@pytest.mark.parametrize("name", MADE)
def test_a_file_says_what_its_record_has(capsys, name: str) -> None:
    """As people and as programs read it, and as a page, which nothing is wrong with."""
    make(name)
    assert main(["show", name, "--report", "page.html"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    text = re.sub(" {3,}", lambda space: space[0], out)
    assert f"What {name} says of itself is repeated here and proves nothing" in " ".join(out.split())
    assert not [said for said in MADE[name][1] if said not in text and said not in " ".join(out.split())], out
    page = Path("page.html").read_text("utf-8")
    assert list(faults(page)) == []
    assert "Nothing here was checked" in page
    assert main(["show", name, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    facts = json.loads(out)
    assert facts["record"] == record_of(name)
    assert facts["verified"] is False
    assert facts["cost"]["epsilon"] == facts["record"]["epsilon_total"]
    assert facts["each_row_a_unit"] is (name in {"row.arrow", "seen.jsonl", "whole.parquet"})


@pytest.mark.parametrize("name", ["mean.csv", "median.csv", "whole.parquet"])
def test_a_page_shows_the_intervals_of_means_and_quantiles(capsys, name: str) -> None:
    """As OUT has them, beside its keys and shares."""
    make(name)
    assert main(["show", name, "--report", "page.html"]) == 0
    page = re.sub("<[^>]+>", " ", Path("page.html").read_text("utf-8"))
    assert "columns that were computed" not in page
    column = "mean" if name == "mean.csv" else "value"
    cells = read(Path(name)).to_pydict()
    assert re.search(rf"Columns with noise\s+.*\b{column}\b", page)
    shown = {(float(low), float(high)) for low, high in re.findall(r"(\d[\d.]*) to (\d[\d.]*)", page)}
    if name != "mean.csv":  # whose ends a page rounds
        assert {*zip(map(float, cells["low"]), map(float, cells["high"]), strict=True)} <= shown
    if name == "mean.csv":
        assert "Numbers of mean below 0 are set to 0, and above 7" in " ".join(page.split())
        return
    capsys.readouterr()
    assert main([MADE[name][0][0], "rows.csv", name, *MADE[name][0][1:], "--explain"]) == 0
    (reach,) = re.findall(r"rank of a value known within (±\d+) rows, 95 %", capsys.readouterr().out)
    assert f"the rank of a value within {reach} rows" in " ".join(page.split())
    assert main(["show", name]) == 0
    assert f"rank wrong by at most {reach[1:]} rows" in capsys.readouterr().out
    assert re.search(r"Columns without noise\s+(city\s*, )?\s*quantile", page)


def test_quantiles_without_intervals_have_no_page(capsys) -> None:
    words = ["--quantile", "hours=0.5", "--clamp", "0", "20"]
    assert main(["histogram", "rows.csv", "q.csv", *TOTAL, *words, "--quiet"]) == 0
    assert main(["show", "q.csv", "--json"]) == 0
    (column,) = json.loads(capsys.readouterr().out)["columns"]
    assert column == {"column": "value", "mechanism": "tree", "rows_up_to_a_cell_95": 12}
    assert main(["show", "q.csv", "--report", "page.html"]) == 2
    one_error(capsys.readouterr().err, "OUT has no intervals, which --intervals of dpfast histogram writes")


def test_half_widths_are_those_of_the_mechanism(capsys) -> None:
    mechanism = dpfast.DiscreteLaplace(1, dpfast.Sensitivity(2, 1))
    make("out.csv")
    assert main(["show", "out.csv", "--json"]) == 0
    (column,) = json.loads(capsys.readouterr().out)["columns"]
    assert column == {
        "column": "count",
        "mechanism": "discrete_laplace",
        "stddev": mechanism.stddev,
        "half_width_95": str(mechanism.interval(0.95)),
    }


def test_an_array_a_record_by_itself_and_the_output_of_an_engine(tmp_path, capsys) -> None:
    np.save("in.npy", np.arange(6).reshape(2, 3))
    assert main(["privatize", "in.npy", "out.npy", "--epsilon", "1", "--sensitivity", "1", "--quiet"]) == 0
    key = dpfast.Key.generate().derive("visits")
    rows = pa.table({"person": [1, 1, 2], "city": ["Oslo", "Lima", "Oslo"]})
    caps = {"max_partitions": 1, "max_per_partition": 1}
    counts = jobs.bounded_counts(
        rows, unit="person", by="city", key=key, stage=tmp_path / "stage", domain=["Oslo", "Lima"], **caps
    )
    jobs.release(counts, dpfast.DiscreteLaplace(1, counts.sensitivity), key=key, ledger=None, to=tmp_path / "out")
    capsys.readouterr()
    for name, said in (("out.npy", "±3"), ("out.npy.json", "±3"), ("out", "all 2 combinations of the keys")):
        assert main(["show", name]) == 0
        assert said in capsys.readouterr().out
    assert main(["show", "out.npy", "--report", "array.html"]) == 0
    assert list(faults(Path("array.html").read_text("utf-8"))) == []
    capsys.readouterr()
    for name in ("out.npy.json", "out"):
        assert main(["show", name, "--report", "page.html"]) == 2
        one_error(capsys.readouterr().err, "--report must be left out")
    assert main(["show", "stage"]) == 1
    one_error(capsys.readouterr().err, "dpfast jobs show reads a stage")


def test_noise_that_is_not_known_is_shown_as_it_is_said(capsys) -> None:
    """Releases of other kinds: several columns beside each other, and a tree of levels."""
    make("out.csv")
    record = record_of("out.csv")
    (one,) = record["releases"]
    level = {name: one[name] for name in ("mechanism", "epsilon", "sensitivity", "secure")}
    tree = {
        "column": "value",
        "mechanism": "tree",
        "epsilon": "3",
        "adjacency": "add-remove",
        "unit": "person",
        "levels": [level] * 3,
    }
    widths = {"sum": "719/2", "count": "6"}
    told = {"confidence": "19/20", "of": "each cell", "half_width": widths}
    record |= {"releases": [one | {"column": "sum"}, tree], "intervals": told, "novelty": {"deep": ["x"]}}
    record["epsilon_total"] = "4"
    Path("other.json").write_text(json.dumps(record))
    assert main(["show", "other.json"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for said in ("95 % of each cell, sum ±359.5, count ±6", "tree, epsilon 3, 3 levels not said", "novelty deep x"):
        assert said in text, text
    assert "WARNING" not in text
    level["secure"] = False
    Path("other.json").write_text(json.dumps(record))
    assert main(["show", "other.json"]) == 0
    assert "WARNING this noise came from a fixed key" in " ".join(capsys.readouterr().out.split())


# ------------------------------------------------------------------ what is no record


def spoilt(record: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Records that cannot be, and what is said of them."""

    def but(**changes: Any) -> dict[str, Any]:
        return {**record, "releases": [{**record["releases"][0], **changes}]}

    one = record["releases"][0]
    yield {**record, "epsilon_total": "-1"}, "epsilon must"
    yield {**record, "epsilon_total": "0"}, "it states no cost"
    yield {**record, "epsilon_total": "1e999999999"}, "a figure is no number"
    yield {**record, "epsilon_total": "9" * 1100}, "a figure is beyond reason"
    yield {**record, "epsilon_total": "1/0"}, "a figure is beyond reason"
    yield {**record, "epsilon_total": True}, "a figure is no number"
    yield {**record, "delta_total": "2"}, "delta must"
    yield {name: value for name, value in record.items() if name != "epsilon_total"}, "it states no cost"
    yield {**record, "releases": []}, "it names no columns with noise"
    yield {**record, "releases": [one] * 20_000}, "it names no columns with noise"
    yield {**record, "releases": [one, {**one, "unit": "dog"}]}, "its columns protect different units"
    yield {**record, "intervals": {"confidence": "2", "half_width": "1"}}, "its intervals cannot be"
    yield {**record, "epsilon_total": "1/2"}, "its epsilon in all is not what its parts spend"
    yield {**record, "delta_total": "1/1000000000"}, "its delta in all"
    yield {**record, "releases": [one, {**one, "column": "more"}]}, "its epsilon in all"
    yield but(step="0"), "its noise is beyond reason"
    wide = {**but(step=f"{2**990}", epsilon=f"1/{2**40}"), "epsilon_total": f"1/{2**40}"}
    del wide["releases"][0]["scale"]
    yield wide, "its noise is beyond reason"
    yield but(step=f"1/{2**1200}"), "a figure is beyond reason"
    yield but(scale=1.0), "its scale is not that of its noise"
    yield but(epsilon="1/9"), "its scale is not that of its noise"
    yield but(epsilon="-1"), "epsilon must be positive"
    yield but(sensitivity="1" * 400), "damaged"
    yield but(sigma_squared="-1"), "damaged"
    yield but(adjacency="nearby"), "adjacency must"
    yield but(mechanism=7), "damaged"
    yield but(step="x"), "a figure is no number"
    yield but(scale="2"), "damaged"
    for other in (
        [],
        7,
        "text",
        None,
        {},
        {"releases": 7},
        {"releases": [7]},
        {"spends": 7},
        {"spends": {}, "release": {}},
    ):
        yield other, "damaged"


def test_what_cannot_be_is_one_line_and_no_figure(capsys) -> None:
    make("out.csv")
    for found, said in spoilt(record_of("out.csv")):
        Path("out.csv.json").write_text(json.dumps(found))
        assert main(["show", "out.csv"]) == 1, found
        out, err = capsys.readouterr()
        assert out == ""
        one_error(
            err, f"the record in out.csv.*damaged.*{said}" if said != "damaged" else "the record in out.csv.* damaged"
        )
        assert "\x1b" not in err
        assert len(err) < 400


DAMAGED = [
    b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 70 + b"1" + b"}" * 70, b'{"releases": [], "releases": []}', b'{"a": NaN}', b'{"a": Infinity}',
    b'{"a": 1e999}', b'{"a": ' + b"9" * 5000 + b"}", b"null",
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:12].decode("latin-1"))
@pytest.mark.parametrize("end", [".csv", ".parquet", ".arrow"])
def test_a_damaged_record_is_one_line(capsys, text: bytes, end: str) -> None:
    if end == ".csv":
        Path("out.csv").write_text("count\n1\n")
        Path("out.csv.json").write_bytes(text)
    else:
        store(pa.table({"count": [1]}).replace_schema_metadata({b"dpfast": text}), Path(f"out{end}"))
    assert main(["show", f"out{end}"]) == 1
    one_error(capsys.readouterr().err, "the record in .* damaged")


def test_what_has_no_record_says_so(capsys) -> None:
    Path("in.parquet").write_bytes(b"PAR1 not so PAR1")
    store(pa.table({"count": [1]}), Path("bare.parquet"))
    Path("folder").mkdir()
    for name, code, said in (
        ("rows.csv", 1, "has no record: rows.csv.json"), ("bare.parquet", 1, "has no record: its schema"), ("in.parquet", 1, "not a whole Parquet file"),
        ("no.csv", 1, "there is no such file"), ("folder", 1, "contains no _dpfast.json"), ("-", 2, "OUT must be a file"),
    ):  # fmt: skip
        assert main(["show", name]) == code
        one_error(capsys.readouterr().err, said)


@pytest.mark.parametrize("report", ["page.txt", "out.csv"])
def test_a_page_that_cannot_be_is_refused_before_the_record_is_read(capsys, monkeypatch, report: str) -> None:
    make("out.csv")
    before = Path("out.csv").read_bytes()
    monkeypatch.setattr("dpfast.app.tables.record.record_of", lambda _: pytest.fail("it was read"))
    assert main(["show", "out.csv", "--report", report]) == 2
    one_error(capsys.readouterr().err, "")
    assert Path("out.csv").read_bytes() == before


def test_a_page_is_never_written_over(capsys) -> None:
    make("out.csv")
    Path("page.html").write_text("mine")
    assert main(["show", "out.csv", "--report", "page.html"]) == 1
    one_error(capsys.readouterr().err, "page.html exists")
    assert Path("page.html").read_text() == "mine"


ODD: list[Any] = [
    None, True, -1, 0, 1e308, 5e-324, 10**600, "", "x" * 5000, "\x1b[31m\u202e", "<script>", [], {}, [[[]]], {"a": {"b": []}}, "1/3", "9" * 400, 1.5,
    "add-remove", "0", "-1/2", f"1/{2**1100}", "x" * 300, [1] * 200, {str(i): i for i in range(200)},
]  # fmt: skip


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(part, (dict, list)):
        for name, each in part.items() if isinstance(part, dict) else enumerate(part):
            yield from places(each, (*path, name))


def place(part: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        part = part[step]
    return part


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(record)
    place(found, path[:-1])[path[-1]] = value
    return found


def shown_or_refused(capsys, *words: str) -> int:
    """An answer without infinite figures, or one line that tells what is wrong."""
    code = main(["show", *words])
    out, err = capsys.readouterr()
    assert code in {0, 1, 2}, err
    assert "please report" not in err, err
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
    assert all(len(line) < 2000 for line in err.splitlines())
    if code:
        one_error(err, "")
    elif "--json" in words:
        json.loads(out, parse_constant=pytest.fail)
    return code


def test_any_change_of_a_record_is_shown_or_refused(capsys) -> None:
    """Each place of some records gets a hostile value, or two do: an answer, or one line."""
    r = random.Random(34)
    ended = []
    for name in ("out.csv", "mean.csv", "median.csv", "two.csv.gz"):
        record = record_of(make(name))
        capsys.readouterr()
        for path in [path for path in places(record) if path]:
            found = changed(record, path, r.choice(ODD))
            other = r.choice([each for each in places(found) if each])
            found = changed(found, other, r.choice(ODD)) if r.random() < 0.3 else found
            Path(f"{name}.json").write_text(json.dumps(found))
            page = Path("page.html")
            page.unlink(missing_ok=True)
            more = r.choice([[], ["--json"], ["--json"], ["--report", "page.html"]])
            ended.append(shown_or_refused(capsys, name, *more))
            assert page.exists() is (more[:1] == ["--report"] and not ended[-1])
    assert min(map(ended.count, (0, 1))) > 50


@pytest.mark.parametrize("name", ["out.csv", "mean.csv", "median.csv", "two.csv.gz"])
def test_totals_that_are_not_what_the_releases_spend_are_refused(capsys, name: str) -> None:
    """Each figure of what was spent, in all or by a part: doubled, halved, or gone."""
    record = record_of(make(name))
    capsys.readouterr()
    spent = {"epsilon", "delta", "rho", "rho_spent", "sigma_squared", "epsilon_total", "delta_total", "rho_total"}
    tried = 0
    for path in places(record):
        if path and path[-1] in spent and Fraction(str(value := place(record, path))):
            if name == "median.csv" and path[-1] == "rho":
                continue  # that of a pure epsilon, which no total has
            for wrong in (2 * Fraction(str(value)), Fraction(str(value)) / 2):
                Path(f"{name}.json").write_text(json.dumps(changed(record, path, str(wrong))))
                assert shown_or_refused(capsys, name, "--json") == 1, (path, wrong)
                tried += 1
    assert tried >= 4


def test_a_name_that_looks_like_a_figure_is_a_name(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("1/0\na\nb\n")
    words = ["histogram", "rows.csv", "out.csv", "--by", "1/0", "--domain", "a,b", "--unit-is-row", "--epsilon", "1"]
    assert main(words) == 0
    assert main(["show", "out.csv"]) == 0
    assert "1/0" in capsys.readouterr().out
