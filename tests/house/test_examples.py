# SPDX-License-Identifier: Apache-2.0
"""What README.md, docs/ and examples/ show works on the real table, as README.md quotes it."""

from __future__ import annotations

import csv
import doctest
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tiers
from fresh import each, run
from places import ROOT

import dpfast
from dpfast.app.cli import main

# They warn of themselves, or ask a server. test_spark.py, test_postgres.py and tests/deep/ray.py
# run them.
ELSEWHERE = {"with_spark.py", "with_ray.py", "with_postgres.py"}
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name not in ELSEWHERE)
CITIES = ROOT / "examples" / "data" / "city_populations.csv"
COLUMNS = ["geonameid", "name", "country", "population"]


def examples() -> list[Path]:
    """Those that are not dear and whose library is there."""
    found = {path: importlib.util.find_spec(needed(path)) for path in EXAMPLES if path.stem not in DEAR}
    return [path for path, spec in found.items() if spec]


@cache
def cheap_ones() -> dict[Path, subprocess.CompletedProcess[str]]:
    """How the cheap examples end: each is a fork of one process, in a folder of its own."""
    found = examples()
    program = "import runpy, sys; sys.path[0] = {!r}; runpy.run_path({!r}, run_name='__main__')"
    with TemporaryDirectory() as home:
        folders = {path: Path(home, path.stem) for path in found}
        for folder in folders.values():
            folder.mkdir()
        programs = {folders[path]: program.format(str(path.parent), str(path)) for path in found}
        return dict(zip(found, each(programs, "import numba, dpfast", strict=True), strict=True))


def output(example: Path) -> str:
    """What an example prints, which it does without a warning."""
    result = run(example) if example.stem in DEAR else cheap_ones()[example]
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def blocks(page: Path) -> list[str]:
    """The Python of a page, as far as the libraries that it names are installed."""
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    absent = [name for name in ("pandas", "polars", "duckdb", "psycopg") if importlib.util.find_spec(name) is None]
    return [block for block in found if not any(name in block for name in absent)]


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


# What the example of an adapter needs, where that is not its own name.
NEEDS = {"with_arrow": "pyarrow", "with_polars_lazy": "polars", "with_smartnoise": "snsql", "with_tumult": "tmlt"}


def needed(example: Path) -> str:
    """The library that an example cannot do without."""
    adapter = example.stem.removeprefix("with_")
    return "numpy" if adapter == example.stem else NEEDS.get(example.stem, adapter)


# Dear by size or by what their library imports; tests of the adapters meet the same doors.
DEAR = {"answering_others", "made_up_census", "many_workers", "records_to_release"} | {
    f"with_{name}"
    for name in ("dask", "diffprivlib", "dp_accounting", "duckdb", "opendp", "pipeline_dp", "polars_lazy")
}


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=pytest.mark.slow) if path.stem in DEAR else path for path in EXAMPLES],
    ids=lambda path: path.name,
)
def test_examples_run(example) -> None:
    """Those of an adapter where its library is installed."""
    needs = needed(example)
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    assert "95 %" in output(example)


def test_the_cities_are_real_counts() -> None:
    """Enough of them, in the order of their public ids, none twice, small enough to commit."""
    header, *rows = table(CITIES)
    ids, populations = [int(row[0]) for row in rows], [int(row[3]) for row in rows]
    assert header == COLUMNS
    assert len(rows) >= 10_000
    assert ids == sorted(set(ids))
    assert min(populations) >= 50_000
    assert CITIES.stat().st_size < 500_000


def test_the_example_prints_noisy_counts() -> None:
    """The named cities are close to the true ones and not all equal; all others stay unsaid."""
    true = {row[1]: int(row[3]) for row in table(CITIES) if row[2] == "NZ"}
    lines = re.findall(r"^(\S.*?) +NZ +([\d,]+) +±30$", output(ROOT / "examples" / "city_populations.py"), re.MULTILINE)
    noise = [int(count.replace(",", "")) - true[name] for name, count in lines]
    assert len(noise) == len(true) > 10
    assert any(noise)
    assert max(map(abs, noise)) <= dpfast.DiscreteLaplace(0.1, 1).interval(1 - 1e-9, cells=len(noise))


def test_the_command_line_on_the_cities(tmp_path) -> None:
    """Rows, their order and all other columns stay; the counts get noise of the stated spread."""
    out = tmp_path / "noisy.csv"
    options = ["--column", "population", "--epsilon", "0.1", "--sensitivity", "1", "--lower", "0"]
    assert main(["privatize", str(CITIES), str(out), *options]) == 0
    before, after = table(CITIES), table(out)
    assert [row[:3] for row in before] == [row[:3] for row in after]
    others = [re.sub(rb"\d+$", b"", line) for line in CITIES.read_bytes().split(b"\n")]
    assert others == [re.sub(rb"\d+$", b"", line) for line in out.read_bytes().split(b"\n")]
    noise = np.array([int(b[3]) - int(a[3]) for a, b in zip(before[1:], after[1:], strict=True)])
    mechanism = dpfast.DiscreteLaplace(0.1, 1)
    # Standard deviation of Laplace noise's sample variance: sqrt(5/n) of it; 7 of these: below
    # 1e-6.
    assert abs(np.var(noise) / mechanism.variance - 1) < 7 * np.sqrt(5 / noise.size)
    about = json.loads((tmp_path / "noisy.csv.json").read_text())
    assert about["epsilon_total"] == "1/10"
    assert [(r["column"], r["epsilon"], r["scale"], r["lower"]) for r in about["releases"]] == [
        ("population", "1/10", 10.0, 0)
    ]


def test_readme_quotes_the_ten_lines() -> None:
    """README.md begins with the example that these tests run."""
    licence, _, code = (ROOT / "examples" / "ten_lines.py").read_text("utf-8").partition("\n")
    assert licence.startswith("# SPDX-")
    assert blocks(ROOT / "README.md")[0] == code
    assert len(code.splitlines()) == 10


CHOOSING = (ROOT / "docs" / "choosing.md").read_text("utf-8")


PAGES = ("tutorial", "how_to", "choosing", "ledger", "records", "sealed", "trees", "python", "numba")


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> dict[str, subprocess.CompletedProcess[str]]:
    """How each page's code ends, each block with its own names, in one process a page."""
    code = {page: blocks(ROOT / "docs" / f"{page}.md") for page in PAGES}
    assert all(code.values())
    each_block = "for block in {!r}: exec(compile(block, block, 'exec'), {{'__name__': '__main__'}})"
    programs = {tmp_path_factory.mktemp(page): each_block.format(code[page]) for page in PAGES}
    return dict(zip(PAGES, each(programs, "import numba, dpfast", strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, ran) -> None:
    assert (ran[page].returncode, ran[page].stderr) == (0, "")


@pytest.mark.slow
def test_the_commands_of_the_recipes_run_in_an_empty_folder(tmp_path, monkeypatch) -> None:
    """All of them, in the order of the page. tests/evidence/test_selftest.py runs the last."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how_to.md").read_text("utf-8")
    script = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)).replace(
        "dpfast selftest --quick\n", ""
    )
    dpfast_here = f'dpfast() {{ "{sys.executable}" -m dpfast "$@"; }}\n'
    said = subprocess.run(["bash", "-ec", dpfast_here + script], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert script.count("dpfast ") > 5


# The modules whose docstrings have examples.
DOCUMENTED = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "dpfast").rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", DOCUMENTED)
@pytest.mark.filterwarnings("ignore::dpfast.errors.InsecureKeyWarning", "ignore::dpfast.errors.WeakGuaranteeWarning")
def test_the_examples_of_docstrings_run(module, tmp_path, monkeypatch) -> None:
    """Those of an adapter where its library is installed. No draw decides one, but for 1e-8."""
    monkeypatch.chdir(tmp_path)
    try:
        documented = importlib.import_module(module)
    except ImportError as missing:
        pytest.skip(str(missing))
    names = {"dpfast": dpfast, "np": np}
    tiers.warns_again(monkeypatch)
    found = doctest.testmod(documented, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0 < found.attempted


def test_the_table_of_sensitivities_is_what_they_are() -> None:
    """docs/choosing.md has the figures of (3, 2)."""
    rows = {
        '`adjacency="add-remove"`': dpfast.Sensitivity(3, 2),
        '`adjacency="substitution"`, contributions ≥ 0': dpfast.Sensitivity(3, 2, adjacency="substitution"),
        '`adjacency="substitution", cells=4`, contributions ≥ 0': dpfast.Sensitivity(
            3, 2, adjacency="substitution", cells=4
        ),
        '`adjacency="substitution", signed=True`': dpfast.Sensitivity(3, 2, adjacency="substitution", signed=True),
    }
    for first, s in rows.items():
        assert f"| {first} | {s.l0} | {s.linf} | {s.l1} | {s.l2_squared} |\n" in CHOOSING


def test_the_gaussian_is_the_smaller_one_from_nine_cells_on() -> None:
    """By its standard deviation, as docs/choosing.md says."""

    def spreads(l0: int) -> tuple[float, float]:
        known = dpfast.Sensitivity(l0, 1)
        return dpfast.DiscreteLaplace(1, known).stddev, dpfast.DiscreteGaussian.calibrated(1, known, delta=1e-6).stddev

    assert "the Gaussian is the smaller one from 9 cells on" in " ".join(CHOOSING.split())
    (laplace_8, gaussian_8), (laplace_9, gaussian_9) = spreads(8), spreads(9)
    assert laplace_8 < gaussian_8
    assert laplace_9 > gaussian_9


def broken(page: Path, text: str) -> Iterator[str]:
    """Links of a page to files or headings that are not there; headings are named as on the web."""
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", prose):
        file, _, mark = link.partition("#")
        there = page.parent / file if file else page
        if file and not there.exists():
            yield link
        elif mark and there.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", text if there == page else there.read_text("utf-8"), re.MULTILINE)
            if mark not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
                yield link


def test_every_link_leads_somewhere() -> None:
    """In all pages of the repository, on the site or not; planted faults are found."""
    rooms = ("*.md", "benchmarks/*.md", "docs/**/*.md", "csrc/*.md", "examples/**/*.md")
    pages = [page for room in rooms for page in sorted(ROOT.glob(room)) if page.parent.name[0] != "_"]
    assert len(pages) > 60
    assert {page.name: found for page in pages if (found := [*broken(page, page.read_text("utf-8"))])} == {}
    planted = "# A page\n[a](no.md) [b](README.md#no-such-heading) [c](#a-page) [d](README.md) [e](#b)\n"
    assert [*broken(ROOT / "x.md", planted)] == ["no.md", "README.md#no-such-heading", "#b"]


def test_choosing_is_linked_and_names_every_mechanism() -> None:
    assert "](docs/choosing.md)" in (ROOT / "README.md").read_text("utf-8")
    for name in ("DiscreteLaplace", "DiscreteGaussian", "Laplace", "Gaussian", "Snapping"):
        assert f"`{name}" in CHOOSING
