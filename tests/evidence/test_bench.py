# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench` and benchmarks/: what they show and write, in tiny sizes; never how fast."""

from __future__ import annotations

import _thread
import gc
import importlib
import json
import math
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Never, get_args, get_type_hints

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiers
from click.testing import CliRunner
from places import ROOT, TESTS

import dpfast
from dpfast.app.cli.bench import LATENCY, bench
from dpfast.errors import DpfastError, FileError, ParameterError
from dpfast.evidence.bench import curves, peers
from dpfast.evidence.bench.measure import Reference, Result, Row, growth, machine, measured, timed
from dpfast.evidence.bench.page import aligned, around_marks, markdown, write_between_marks
from dpfast.evidence.bench.report import Report, rate
from dpfast.evidence.bench.rows import SCALES, Arrays, of_this_machine, ours
from dpfast.noise.mechanisms.laws import LAWS
from dpfast.privacy.formatting import compared, quantity, short, three_digits

BENCHMARKS = ROOT / "benchmarks"
NAMES = [law.__name__ for law in LAWS.values()]
SIZE = 2_000
PNG = b"\x89PNG"
START, END = "<!-- bench:packages:start -->", "<!-- bench:packages:end -->"


def run(*options: object) -> str:
    """What `dpfast bench` prints with these options; its errors are raised."""
    words = [*map(str, options), "--quiet"]
    return CliRunner().invoke(bench, words, catch_exceptions=False, standalone_mode=False).output


@pytest.fixture(scope="module", autouse=True)
def _uncollected() -> Iterator[None]:
    """No figure is judged here, and to look for garbage takes longer than the calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *_: 0)
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[str, Path]:
    """The table of one tiny run with everything that it can write."""
    folder = tmp_path_factory.mktemp("bench")
    readme = folder / "README.md"
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "installed", lambda _: None)
        patch.setattr(curves, "STRETCH", 1_000)
        table = run(
            "--size", SIZE, "--rounds", 2, "--peers", "--plot", folder / "bench.png", "--json", folder / "bench.json",
            "--markdown", readme, "--latency", folder / "latency.svg", "--scaling", folder / "scaling.png",
        )  # fmt: skip
    return table, folder


@pytest.fixture
def benchmarks(monkeypatch) -> Iterator:
    """Import a script of benchmarks/ as its users run it: from its folder."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(f"{BENCHMARKS}{os.sep}"):
            del sys.modules[name]


def test_the_table_has_every_row(written) -> None:
    """Every law on one thread and on all, every scale, floors, key stream, NumPy; machine above."""
    table, _ = written
    for law in NAMES:
        parameter = "sigma" if "Gaussian" in law else "scale"
        for scale in ("1", "10", "1e3", "1e6"):
            assert f"\n{law}, {parameter} {scale} " in table
            if tiers.usable_threads() > 1:
                assert f"\n{law}, {parameter} {scale}, {tiers.usable_threads()} threads " in table
    for name in ("np.copyto", "in-place add", "key stream (ChaCha20)", "NumPy laplace, int64, chunked"):
        assert f"\n{name}" in table
    head = table.split("Medians of")[0]
    assert all(fact in head for fact in ("processor", "instruction set", "dpfast", "NumPy", "numba", "load"))
    assert "GB/s" in table


def test_absent_peers_are_named(written) -> None:
    table, folder = written
    absent = json.loads((folder / "bench.json").read_text())["absent"]
    assert absent.keys() == peers.PEERS.keys()
    for name, peer in peers.PEERS.items():
        assert f"{name:16}absent: not installed (pip install {peer.distribution})" in table


def test_json_has_everything(written) -> None:
    _, folder = written
    found = json.loads((folder / "bench.json").read_text())
    assert (found["size"], found["rounds"]) == (SIZE, 2)
    names = [row["name"] for row in found["rows"]]
    assert len(set(names)) == len(names) >= 24 + 3 + 8
    for row in found["rows"]:
        assert row["kind"] in {"safe", "unsafe", "floor"}
        assert (row["kind"] == "safe") == (row["who"] == "dpfast")
        assert len(row["seconds"]) == len(row["reference_seconds"]) == 2
        assert row["called"]
        assert "unsafe" in row["ratio_to"]
        assert row["counts_per_second"] == pytest.approx(1e9 / row["ns_per_count"])
    assert found["latency"]["counts"][0] == 1
    assert found["latency"]["counts"][-1] == LATENCY * SIZE
    assert found["scaling"]["threads"][-1] == tiers.usable_threads()
    for curve, across, along in (("latency", "counts", "seconds"), ("scaling", "threads", "counts_per_second")):
        places = found[curve][across]
        assert all(len(line) == len(places) for line in found[curve][along].values())


def test_pictures_are_written(written) -> None:
    _, folder = written
    for name in ("bench.png", "scaling.png"):
        assert (folder / name).read_bytes().startswith(PNG)
    assert "<svg" in (folder / "latency.svg").read_text()
    assert all((folder / name).stat().st_size > 10_000 for name in ("bench.png", "scaling.png", "latency.svg"))


def test_the_readme_gets_its_table_between_the_marks(written) -> None:
    text = (written[1] / "README.md").read_text()
    assert text.startswith(f"before\n{START}\n| |")
    assert text.endswith(f"\n{END}\nafter\n")
    assert "old" not in text
    assert "| DiscreteLaplace, scale 10 | safe |" in text
    assert "Absent: OpenDP" in text


def test_json_instead_of_the_table(monkeypatch) -> None:
    monkeypatch.setattr("dpfast.evidence.bench.rows.of_this_machine", lambda a: [next(ours(a, 1))])
    said = run("--size", 100, "--rounds", 1, "--json", "-")
    assert (len(json.loads(said)["rows"]), said.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--plot", "x.jpg"), ParameterError),
        (("--latency", "x"), ParameterError),
        (("--plot", "/nowhere/x.png"), FileError),
        (("--json", "/nowhere/x.json"), FileError),
        (("--markdown", TESTS / "conftest.py"), FileError),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused_first(monkeypatch, options, error) -> None:
    monkeypatch.setattr(sys.modules["dpfast.app.cli.bench"], "measure", lambda *_, **__: pytest.fail("measured first"))
    with pytest.raises(error):
        run(*options)


def test_marks_must_be_there(tmp_path) -> None:
    path = tmp_path / "README.md"
    path.write_text(START)
    with pytest.raises(FileError, match="no lines"):
        write_between_marks(path, "packages", "text")
    assert path.read_text() == START


def test_every_row_noises_what_it_says() -> None:
    """Each row runs alone, writes noise where it noises, and its name is its own."""
    a = Arrays(500)
    rows = list(of_this_machine(a))
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        a["other"][:], a["noisy"][:] = -(10**9), -1e9
        out = row.run()
        if row.kind == "safe":
            assert isinstance(out, np.ndarray)
            assert out.size == row.counts == 500
            assert (out > -(10**9)).all()
    assert {row.threads for row in rows} == {1, tiers.usable_threads()}
    assert len(list(ours(a, 1))) == len(NAMES) * len(SCALES)


def planted(run, who: str = "dpfast", counts: int = 1_000) -> Row:
    return Row("planted", run, counts, Reference("nothing", lambda: None, 1), who=who, called="planted", chart=True)


def test_a_repeat_stops_the_benchmark() -> None:
    """A release that gives the same noise twice is never reported as fast."""
    same = np.arange(1_000)
    with pytest.raises(DpfastError, match="equal noise"):
        measured([planted(lambda: same)], 1)
    with pytest.raises(DpfastError, match="equal noise"):
        measured([planted(lambda: [same[:1]] * 100)], 1)
    assert len(measured([planted(lambda: same, who="NumPy")], 1)) == 1


def test_rows_take_turns_after_their_reference() -> None:
    """Two untimed rounds, then timed ones, each with the reference before its row."""
    calls = []
    say = {name: partial(calls.append, name) for name in "abrp"}
    rows = [Row(name, say[name], 1, Reference("r", say["r"], 1), prepare=say["p"]) for name in "ab"]
    found = measured(rows, 3, memory=True)
    assert calls == [*"rparpb", "a", "b", *"rparpb" * 3]
    assert [len(result.runs) for result in found] == [3, 3]
    del calls[:]
    assert len(measured(rows[:1], 2)[0].runs) == 2
    assert calls == [*"rpa" * 3]


def test_the_collector_waits_for_a_timed_run() -> None:
    seconds, enabled = timed(gc.isenabled)
    assert seconds > 0
    assert not enabled
    with pytest.raises(ZeroDivisionError):
        timed(lambda: 1 / 0)
    assert gc.isenabled()


def test_a_row_may_have_a_clock_of_its_own() -> None:
    """Its figures are what the clock tells; a row without a reference has no ratio."""
    clock = iter([9.0, 9.0, 6.0, 3.0, 8.0, 2.0])  # the round that is not timed, and two
    reference = Reference("r", lambda: None, 1)
    row = Row("a", lambda: None, 2, reference, clock=lambda run: (next(clock), run()), measures="B")
    result = measured([row], 2)[0]
    assert (result.runs, result.reference) == ([3.0, 2.0], [6.0, 8.0])
    assert result.figure == 1.25
    assert result.besides.tolist() == [6, 8]
    assert (result.ratio, result.least) == (pytest.approx((0.25 + 0.125) / 2), pytest.approx(1 / 6))
    assert result.record()["bytes"] == [3.0, 2.0]
    alone = measured([replace(planted(lambda: None), against=None)], 1)[0]
    assert math.isnan(alone.ratio)
    assert json.loads(json.dumps(alone.record()))["ratio"] is None


def test_growth_of_the_peak_is_seen() -> None:
    """A run that makes 64 MiB is charged for them, where the system can tell."""
    grown, _ = growth(lambda: np.ones(2**23))
    assert math.isnan(grown) or 60 * 2**20 <= grown <= 70 * 2**20
    none, _ = growth(lambda: None)
    assert math.isnan(none) or none < 2**22


def test_where_the_system_says_nothing_of_memory(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("dpfast.evidence.bench.measure.PROCESS", tmp_path / "none")
    row = Row("a", lambda: None, 1, clock=growth, measures="B")
    result = measured([row], 2)[0]
    assert math.isnan(result.figure)
    assert json.loads(json.dumps(result.record(), allow_nan=False))["bytes"] == [None, None]


def test_a_figure_is_a_median() -> None:
    row = planted(lambda: None)
    result = Result(row, [1e-6, 3e-6, 2e-6], [2e-9, 2e-9, 2e-9])
    assert result.ns == pytest.approx(2)
    assert result.record()["counts_per_second"] == pytest.approx(5e8)
    assert result.ratio == pytest.approx(1)
    assert result.quartiles == pytest.approx((0.75, 1, 1.25))
    assert result.least == pytest.approx(0.5)
    assert rate(result) == "500 M"
    assert rate(replace(result, row=replace(row, name="key stream"))) == "500 M (4.00 GB/s)"


def test_figures_as_people_read_them() -> None:
    assert [three_digits(x) for x in (1.234, 12.34, 1234.5)] == ["1.23", "12.3", "1,234"]
    assert [three_digits(x) for x in (0.0924, 0.9996, 9.996, 99.97, 999.9)] == ["0.092", "1.00", "10.0", "100", "1,000"]
    assert [compared(x) for x in (0.1, 1.01, 250, math.nan)] == ["10.0 × faster", "as fast", "250 × slower", ""]
    assert [compared(x, "B") for x in (0.5, 1, 2)] == ["2.00 × less", "as much", "2.00 × more"]
    assert [quantity(x, "s") for x in (2.5e-9, 0.99996e-3, 0.46)] == ["2.50 ns", "1.00 ms", "460 ms"]
    assert [quantity(x, "s") for x in (12, 1e-12)] == ["12.0 s", "0.001 ns"]
    assert [quantity(x, "B") for x in (10, 2**18, 3 << 20)] == ["10.0 B", "256 KiB", "3.00 MiB"]
    assert [quantity(x) for x in (5.78e8, 12.3, math.nan)] == ["578 M", "12.3", ""]
    assert [short(x) for x in SCALES] == ["1", "10", "1e3", "1e6"]
    assert curves.sizes(1_000) == (1, 3, 10, 30, 100, 300, 1_000)
    assert curves.sizes(50) == (1, 3, 10, 30, 50)
    assert curves.threads()[-1] == tiers.usable_threads()


def test_columns_of_numbers_are_set_right() -> None:
    """On a terminal and a page; the first column is names, one without a figure is words."""
    lines = [["", "kind", "ns"], ["1 count", "safe", "1.00"], ["copy", "", ""], ["x", "unsafe", "10.0"]]
    assert aligned(lines) == ["         kind      ns", "1 count  safe    1.00", "copy", "x        unsafe  10.0"]
    assert markdown(lines).split("\n")[:3] == ["| | kind | ns |", "| --- | --- | --: |", "| 1 count | safe | 1.00 |"]


def test_a_peer_that_fails_is_absent(monkeypatch) -> None:
    monkeypatch.setattr(peers, "installed", lambda _: "1.0")

    def broken(_) -> Never:
        raise ImportError("planted")

    def works(a) -> Iterator:
        yield peers.row(a, "Works law", lambda given: None, 1_000, "works()", real=False)

    monkeypatch.setattr(peers, "PEERS", {"Broken": peers.Peer("b", broken), "Works": peers.Peer("w", works)})
    rows, versions, absent = peers.rows(Arrays(100))
    assert [row.name for row in rows] == ["Works law"]
    assert versions == {"Works": "1.0"}
    assert absent == {"Broken": "b 1.0 does not run here (ImportError: planted)"}


@pytest.mark.filterwarnings("ignore:overriding existing custom namespace:UserWarning")  # OpenDP's, over our Polars'
@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_that_is_here_runs(name) -> None:
    if peers.installed(peers.PEERS[name].distribution) is None:
        pytest.skip(f"{name} is not installed: pip install 'dpfast[peers]'")
    for row in peers.PEERS[name].rows(Arrays(20)):
        assert len(row.run()) == row.counts == 20


def test_the_picture_bears_any_machine(tmp_path) -> None:
    """One row, thousands of nanoseconds or parts of one: a picture all the same, and no warning."""
    from dpfast.app.pictures import bench as pictures

    for seconds in (1e-9, 1.0):
        result = Result(planted(lambda: None), [seconds], [1.0])
        pictures.dots(Report(machine(), 1, 1, [result]), tmp_path / "one.png")
        assert (tmp_path / "one.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_every_row_of_the_ratios_runs(benchmarks) -> None:
    """With its reference, on as many counts; a fresh process prints a number; measured."""
    ratios = benchmarks("ratios")
    rows = list(ratios.rows(300))
    names = {(row.name, row.against and row.against.name) for row in rows}
    assert len(names) == len(rows) >= 89 - 28 * len(ratios.ISAS) / 2
    assert sum(row.chart for row in rows) == 5
    fresh = [row for row in rows if "process" in row.name or "import" in row.name]
    assert len(fresh) == 7
    assert all(row.clock(row.run)[0] > 0 for row in fresh[:2])
    assert ratios.cold("print(1)") == 1
    for row in rows:
        if row not in fresh:
            row.prepare()
            assert row.run() is not None
            assert row.against is None or row.against.counts == row.counts


def test_tables_are_measured_and_written(benchmarks, tmp_path, capsys, monkeypatch) -> None:
    """`python benchmarks TABLE ...`: each in a page between its marks, and all in one JSON file."""
    page, found = tmp_path / "page.md", tmp_path / "found.json"
    marks = [f"<!-- bench:{name}:{mark} -->" for name in ("workloads", "arrow") for mark in ("start", "end")]
    page.write_text("\n".join(marks))
    options = ["workloads", "arrow", "--size", "1000", "--rounds", "1", "--markdown", page, "--json", found]
    monkeypatch.setattr(benchmarks("workloads"), "LONG", 1)
    monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, options)])
    runpy.run_path(str(BENCHMARKS), run_name="__main__")
    shown, text = capsys.readouterr().out, page.read_text()
    assert "\nWikimedia, a day of page views: 1,000 cells  NumPy's unsafe noise, chunked " in shown
    assert text.startswith(f"{marks[0]}\n| | against | time | ratio |\n| --- | --- | --: | --: |\n| Wikimedia")
    assert "| | before | after | faster |\n| --- | --: | --: | --: |\n| int64 Array" in text
    assert {name: len(record["rows"]) for name, record in json.loads(found.read_text()).items()}["arrow"] == 4
    page.write_text("nothing")
    with pytest.raises(FileError, match="bench:workloads:start"):
        runpy.run_path(str(BENCHMARKS), run_name="__main__")


def test_one_row_is_measured_by_its_name(benchmarks, capsys, monkeypatch) -> None:
    def measured(*options: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["benchmarks", "ratios", "--size", "1000", "--rounds", "1", *options])
        runpy.run_path(str(BENCHMARKS), run_name="__main__")
        lines = capsys.readouterr().out.split("\n---")[1].splitlines()[1:]
        return [line.split("  ")[0] for line in lines if line]

    assert measured("--row", "scale 100") == ["scale 100"]
    several = measured("--row", "scale 1e")
    assert len(several) > 3
    assert all("scale 1e" in name for name in several)
    with pytest.raises(SystemExit, match="'nosuch' is in none"):
        measured("--row", "nosuch")
    with pytest.raises(SystemExit):
        measured("--row", "scale 100", "--markdown", "README.md")
    assert "--markdown writes whole tables" in capsys.readouterr().err


def test_pages_get_what_their_marks_name_and_curves_are_drawn(benchmarks, tmp_path, monkeypatch) -> None:
    """One command: the main rows for each page that has marks, and a picture."""
    ratios, found = benchmarks("ratios"), tmp_path / "found.json"
    rows = {row.chart: row for row in ratios.rows(100) if row.clock is timed}
    monkeypatch.setattr(ratios, "rows", lambda _: [rows[True], rows[False]])
    pages = [tmp_path / "one.md", tmp_path / "two.md"]
    for page in pages:
        page.write_text("<!-- bench:ratios:start -->\n<!-- bench:ratios:end -->")
    for name, value in {"STRETCH": 100, "AT_SIZE": 100, "REPEATED": 10, "SCALES": (0.5, 2.0**30)}.items():
        monkeypatch.setattr(curves, name, value)
    picture = tmp_path / "curves.svg"
    options = ["--rounds", "1", "--markdown", *pages, "--curves", picture, "--largest", "30", "--json", found]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, options)])
    runpy.run_path(str(BENCHMARKS), run_name="__main__")
    for page in pages:
        lines = [line.split("|")[1].strip() for line in page.read_text().split("\n") if line.startswith("|")]
        assert lines[2:] == [rows[True].name]
    assert "<svg" in picture.read_text()
    drawn = json.loads(found.read_text())["curves"]
    assert drawn["size"]["values"] == [1, 3, 10, 30]
    lines = drawn["scale"]["seconds"]
    assert {*lines} == {"DiscreteLaplace", "DiscreteGaussian", "Laplace", "Gaussian", "np.add"}
    assert [name for name, (_, last) in lines.items() if last is None] == ["DiscreteGaussian"]


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("docs/performance.md", "ratios"),
        ("benchmarks/figures.md", "fresh_arrays"),
        ("benchmarks/figures.md", "selection"),
        ("docs/numba.md", "kernels"),
        ("docs/trees.md", "trees"),
    ],
)
def test_a_page_holds_the_rows_of_today(benchmarks, page, table) -> None:
    """Each once, in order; the rows of narrower instruction sets are those of its machine."""
    before, after = around_marks(BENCHMARKS.parent / page, table)
    text = (BENCHMARKS.parent / page).read_text()[len(before) : -len(after)]
    held = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)[1:]  # without the rule below the heads
    due = [row.name for row in benchmarks(table).rows(100) if row.chart]
    assert [name for name in held if "forced" not in name] == [name for name in due if "forced" not in name]


def test_the_curve_ends_where_half_of_the_free_memory_does(tmp_path, monkeypatch) -> None:
    said = tmp_path / "meminfo"
    monkeypatch.setattr(curves, "MEMORY", said)
    assert curves.that_fit(3 * 10**9) == 3 * 10**9
    said.write_text("MemTotal: 99999999 kB\nMemAvailable: 15000000 kB\n")
    assert [curves.that_fit(n) for n in (7, 10**9, 3 * 10**9)] == [7, 10**8, 10**8]
    said.write_text("MemAvailable: 16000000 kB\n")
    assert curves.that_fit(10**9) == 10**9


def test_new_arrays_are_faulted_in(benchmarks) -> None:
    """Each row runs; small pages cost a fault each, an array that exists next to none."""
    fresh = benchmarks("fresh_arrays")
    size = 1 << 20
    pages, rows = size // 512, list(fresh.rows(size))
    for row in rows:
        row.prepare()
        assert row.run() is not None
        assert row.against is None or row.against.run() is not None
    existing, _, small = [row.clock(row.run)[0] for row in rows if row.clock is fresh.faults]
    assert existing < pages / 10
    assert small >= pages


def test_a_library_that_is_not_installed_is_left_out(benchmarks, capsys, monkeypatch) -> None:
    monkeypatch.setattr(benchmarks("tables"), "ADAPTERS", ("nowhere",))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "adapters"])
    runpy.run_path(str(BENCHMARKS), run_name="__main__")
    assert "nowhere: left out" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nowhere"])
    with pytest.raises(ImportError):
        runpy.run_path(str(BENCHMARKS), run_name="__main__")


@pytest.mark.slow
def test_compare_passes_and_fails(benchmarks, tmp_path, capsys, monkeypatch) -> None:
    """A baseline made 10^9 times better fails it, one 10^9 times worse passes."""
    compare = benchmarks("compare")
    baseline, tiny = tmp_path / "baseline.json", ["--size", "500", "--rounds", "1"]
    monkeypatch.setattr("dpfast.evidence.bench.rows.CALLS", 10)
    tiny += ["--baseline", str(baseline)]
    assert compare.main(tiny) == 2
    assert "--update" in capsys.readouterr().out
    assert compare.main([*tiny, "--update"]) == 0
    made = json.loads(baseline.read_text())
    isa = machine()["instruction set"]
    assert made[isa]["machine"]["processor"] == machine()["processor"]
    assert made[isa]["ratios"].keys() >= set(compare.LAWS)
    for factor, code in ((1e9, 0), (1e-9, 1)):
        there = {**made[isa], "ratios": {name: r * factor for name, r in made[isa]["ratios"].items()}}
        baseline.write_text(json.dumps({isa: there, "other": {}}))
        assert compare.main(tiny) == code
    del there["ratios"][compare.LAWS[0]]
    there["ratios"] = dict.fromkeys(there["ratios"], 1e9)
    baseline.write_text(json.dumps({isa: there}))
    assert compare.main(tiny) == 2
    assert "no baseline" in capsys.readouterr().out


def test_one_good_run_is_enough(benchmarks) -> None:
    verdict = benchmarks("compare").verdict
    assert verdict([1.2, 1.3, 1.16], 1) == "WORSE"
    assert verdict([1.2, 1.3, 1.14], 1) == "same"
    assert verdict([0.5, 0.6, 0.8], 1) == "better"
    assert verdict([1, 1, 1], None) == "no baseline"


def test_the_committed_baseline_is_complete(benchmarks) -> None:
    compare = benchmarks("compare")
    names = {row.name for row in compare.chosen(100)}
    for found in json.loads(compare.BASELINE.read_text()).values():
        assert found["machine"]["processor"]
        assert found["ratios"].keys() == names


def test_workloads_do_what_they_say(benchmarks, monkeypatch) -> None:
    """Every workload and its reference run; a day keeps cells above the threshold, once each."""
    workloads = benchmarks("workloads")
    monkeypatch.setattr(workloads, "DAY_CHUNK", 5_000)
    monkeypatch.setattr(workloads, "LONG", 30_000)
    found = list(workloads.rows(12_500))
    assert len({row.name for row in found}) == len(found)
    for row in found:
        assert row.run() is not None
        assert row.against.run() is not None
        assert row.counts == row.against.counts
    day = found[0]
    assert day.counts == 2 * 12_500
    cells, kept = day.run()
    assert len(set(cells.tolist())) == cells.size == kept.size
    assert cells.size == 0 or (cells.max() < 12_500 and kept.min() > workloads.KEPT_ABOVE)
    assert found[1].name == f"census, blocks: {10 * workloads.BLOCK_CELLS:,} cells"


def a_job(engine: str, rows: int, share: float) -> dict[str, object]:
    """What a job took, planted: a microsecond a row, of which noise and seal took a share."""
    cpu = rows / 1e6
    steps = {"bound": 0.5 * cpu, "merge": 0.0, "digest": 0.0, "seal": 0.0, "draw": share * cpu, "parquet": 0.0}
    took = {"cpu": cpu, "wall": cpu / 2, "rows": rows, "steps": steps, "stage": 8_000}
    return {
        "engine": engine,
        "version": "any 1",
        "keys": 1_000,
        "cold": took,
        "warm": [took] * 3,
        "cold block": [0.2],
        "peak": 2**30,
    }


def test_the_page_of_jobs_is_computed(benchmarks) -> None:
    """Limits are kept and missed, and what nobody ran follows from the costs of the largest job."""
    page = benchmarks("jobs.page")
    made = [a_job("A", 10**6, 0.5), a_job("A", 10**7, 0.05), a_job("B", 10**7, 0.06)]
    record = {"machine": machine(), "bytes a row": 5.0, "jobs": dict(enumerate(made)), "tumult": a_job("T", 10**7, 0)}
    record["tumult"]["warm"] = [{"cpu": 50.0, "rows": 10**7}]
    found = page.texts(record)
    verdicts = re.findall(r"^\| (.*?) \|.*\| (\w+) \|$", found["jobs_limits"], re.MULTILINE)[1:]
    assert [verdict for _, verdict in verdicts] == ["kept", "MISSED", "MISSED", "kept", "kept"]
    assert "| 5.00 × less | 5 × less | kept |" in found["jobs_limits"]
    far = dict(re.findall(r"^\| (\w) \| [\d,]+ \| .*? \| ([\d.]+) \|", found["jobs_more"], re.MULTILINE))
    assert far == {"A": "26.4", "B": "26.1"}  # 10^11 µs are 27.8 hours, less what is noise
    assert "0.500 TB" in found["jobs_more"]
    speed, share = page.curves(record)
    assert speed.lines["A"] == (2e6, 2e6)
    assert math.isnan(share.lines["B"][0])
    assert share.lines["B"][1] == pytest.approx(6)
    record["tumult"]["warm"] = [{"cpu": 49.0, "rows": 10**7}]
    assert "| 4.90 × less | 5 × less | MISSED |" in page.texts(record)["jobs_limits"]


@pytest.mark.slow
def test_jobs_are_measured_and_written(benchmarks, tmp_path, capfd) -> None:
    """By a driver of its own; an engine that is not here is named, and so is one that fails."""
    jobs, page, engines = (benchmarks(name) for name in ("jobs", "jobs.page", "jobs.engines"))
    engines.ENGINES |= {"absent": engines.Engine(None, "dpfast.adapters.nowhere", "nowhere")}
    engines.ENGINES |= {"unknown": engines.Engine(None, "dpfast.engines.jobs", "pyarrow")}
    written, record = tmp_path / "page.md", tmp_path / "jobs.json"
    marks = [f"<!-- bench:{name}:{at} -->" for name in page.MARKS for at in ("start", "end")]
    written.write_text("\n".join(marks))
    words = ["--rows", "30000", "--keys", "70000", "--rounds", "1", "--engines", "one process", "DuckDB", "absent"]
    places = ["--json", str(record), "--markdown", str(written)]
    jobs.main([*words, *places, "--picture", str(tmp_path / "engines.svg")])
    assert "absent: LEFT OUT" in capfd.readouterr().err
    assert "<svg" in (tmp_path / "engines.svg").read_text()
    entries = json.loads(record.read_text())["jobs"]
    assert [*entries] == ["one process 30000", "DuckDB 30000"]  # one by the verbs of jobs, and one by its own
    for entry in entries.values():
        (job,) = entry["warm"]
        assert job["rows"] == 30_000
        assert job["steps"].keys() == page.STEPS.keys()
        assert all(seconds >= 0 for seconds in job["steps"].values())
        assert job["steps"]["draw"] > 0
        assert entry["peak"] > 2**25
    text = written.read_text()
    for mark, said in page.texts(json.loads(record.read_text())).items():
        assert f"<!-- bench:{mark}:start -->\n{said}\n<!-- bench:{mark}:end -->" in text
    jobs.main(["--rows", *places])  # nothing is measured
    assert written.read_text() == text
    with pytest.raises(SystemExit):
        jobs.main([*words[:-3], "unknown", *places])
    assert "unknown: FAILED" in capfd.readouterr().err
    assert written.read_text() == text
    written.write_text("nothing")
    with pytest.raises(FileError, match="bench:jobs:start"):
        jobs.main([*words, *places])


def test_the_page_of_engines_holds_what_was_measured(benchmarks) -> None:
    """The record's figures, or that there are none yet."""
    page, record = benchmarks("jobs.page"), BENCHMARKS / "jobs.json"
    text = (BENCHMARKS / "engines.md").read_text()
    for mark, said in page.texts(json.loads(record.read_text()) if record.exists() else {"jobs": {}}).items():
        assert f"<!-- bench:{mark}:start -->\n{said}\n<!-- bench:{mark}:end -->" in text


def test_rows_are_made_again_as_they_were(benchmarks, tmp_path, monkeypatch) -> None:
    """A file at a time; half of the first is of one key; what was not finished is made anew."""
    rows = benchmarks("jobs.rows")
    monkeypatch.setattr(rows, "A_FILE", 1_000)
    one, other = (rows.make(tmp_path / name, 2_500, 50) for name in ("one", "other"))
    assert [path.name for path in sorted(one.iterdir())] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    (other / "00001.parquet").rename(other / "00001.half")
    rows.make(other, 2_500, 50)
    assert [path.read_bytes() for path in sorted(one.iterdir())] == [
        path.read_bytes() for path in sorted(other.iterdir())
    ]
    keys = pq.read_table(one)["key"].to_numpy()
    assert keys.size == 2_500
    assert (keys[:500] == 3).all()
    assert keys.max() < 50


def test_all_processes_are_counted(benchmarks) -> None:
    """Also what a process burns that a process has started, and that has ended."""
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    found = benchmarks("jobs.tree").spent(lambda: subprocess.run([sys.executable, "-c", nested], check=True))
    assert found["cpu"] >= 0.25


def test_compare_runs_as_a_script(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "--baseline", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS / "compare.py"), run_name="__main__")
    assert ended.value.code == 2


def test_the_line_of_more_threads_begins_where_more_threads_work(monkeypatch) -> None:
    """Below, threads= changes nothing: two lines of equal work would differ by chance alone."""
    started, per_call = [], {}
    start = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda *of: started.append(of) or start(*of))
    monkeypatch.setattr(curves, "usable_threads", lambda: 2)
    monkeypatch.setattr(curves, "sizes", lambda most: (1_000, 300_000, 2**19 - 1, 2**19, most))
    curve = curves.latency(700_000, 1)
    law = dpfast.DiscreteLaplace(1, 10)
    for n in curve.at:
        del started[:]
        law.release(np.zeros(n, np.int64), threads=2)
        per_call[n] = len(started)
    drawn = dict(zip(curve.at, curve.record("counts", "seconds")["seconds"]["dpfast, 2 threads"], strict=True))
    assert {n: seconds is not None for n, seconds in drawn.items()} == {n: bool(per_call[n]) for n in curve.at}
    assert any(per_call.values())
    assert not all(per_call.values())
    assert all(len(line) == len(curve.at) for name, line in curve.lines.items() if name != "dpfast, 2 threads")


@pytest.mark.slow
def test_no_line_pays_for_the_one_before_it(monkeypatch) -> None:
    """A call after another line's finds cold caches: it is not timed, on a clock of our own."""
    clock, last = [0.0], [None]

    def call(name) -> None:
        clock[0] += 1 if last[0] == name else 101
        last[0] = name

    monkeypatch.setattr(curves, "Row", partial(Row, clock=partial(timed, clock=lambda: clock[0])))
    runs = {n: {name: partial(call, name) for name in "ab"} for n in (1, 1_000_000)}
    curve = tiers.curve(curves)(runs, 3, iter, lambda n: 1_000_000 // n)
    assert curve.lines == {"a": (1.0, 1.0), "b": (1.0, 1.0)}


# ------------------------------------------------------------------ words about other packages

PACKAGES = (ROOT / "benchmarks" / "figures.md").read_text("utf-8").partition(START)[2].partition(END)[0]
OF_A_ROW = re.compile(r"^\| ([^|]+) \| (\w*) ?\| ([\d,.]+) \|", re.MULTILINE)  # its name, its mark, nanoseconds


def test_what_a_package_disputes_of_itself_is_marked_in_table_page_and_json() -> None:
    """The floats of diffprivlib alone; each mark comes with its link."""
    pytest.importorskip("diffprivlib")
    a = Arrays(10)
    rows = [*peers.diffprivlib(a), next(ours(a, 1))]
    marks = {row.name: row.kind for row in rows[:-1]}
    assert marks == {f"diffprivlib {name}": kind for name, kind in [
        ("Geometric", "safe"), ("Laplace", "disputed"), ("GaussianDiscrete", "safe"), ("GaussianAnalytic", "disputed")
    ]}  # fmt: skip
    results = [Result(row, runs=[1e-6], reference=[1e-6]) for row in rows]
    report = Report(machine(), 10, 1, results)
    said = f"(diffprivlib: {peers.DIFFPRIVLIB})."
    for text in (report.table(), report.markdown(results), "\n".join(report.record()["meaning"])):
        assert text.count("an open issue of the package's own") == text.count(said) == 1
    assert "| diffprivlib Laplace | disputed |" in report.markdown(results)
    assert report.record()["rows"][1]["dispute"] == peers.DIFFPRIVLIB
    assert "disputed" not in report.markdown(results[-1:])
    written = {name: kind for name, kind, _ in OF_A_ROW.findall(PACKAGES) if name.startswith("diffprivlib")}
    assert written == marks
    assert said in PACKAGES


def test_the_picture_has_every_mark(tmp_path) -> None:
    from dpfast.app.pictures import bench as pictures

    kinds = set(get_args(get_type_hints(Row)["kind"])) - {"sampler"}
    results = [Result(replace(planted(None, who=kind), kind=kind), runs=[1e-9]) for kind in kinds]
    pictures.dots(Report(machine(), 10, 1, results), tmp_path / "bench.svg")
    for text in ((tmp_path / "bench.svg").read_text(), (ROOT / "docs" / "bench.svg").read_text()):
        for kind in kinds:
            assert f"<!-- {pictures.KINDS[kind][1]} -->" in text


def test_what_the_readme_says_of_others_is_in_the_figures() -> None:
    """So many times as long, whichever rows are compared; and the picture's machine is named."""
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    rows = [(name, kind, float(ns.replace(",", ""))) for name, kind, ns in OF_A_ROW.findall(PACKAGES)]
    theirs = [ns for name, kind, ns in rows if name.split()[0] in {"OpenDP", "diffprivlib", "PyDP"}]
    own = [ns for name, _, ns in rows if name.partition(",")[0] in NAMES]
    numpy = [ns for _, kind, ns in rows if kind == "unsafe"]
    assert (len(theirs), len(own), len(numpy)) == (12, 7, 5)
    [times] = re.findall(r"OpenDP, diffprivlib and PyDP take over (\d+) times as long as dpfast", readme)
    assert min(theirs) > int(times) * max(own)
    assert "faster than NumPy's noise" in readme
    assert max(own) < min(numpy)
    [machine, date] = re.findall(r"^(AMD .*?), \d+ cores.*; (\S+)\.$", PACKAGES, re.MULTILINE)[0]
    drawn = (ROOT / "docs" / "bench.svg").read_text()
    assert f"<!-- {machine}, " in drawn
    assert f"; {date} -->" in drawn
    assert f"Measured on an {machine}, {date}." in readme
