# SPDX-License-Identifier: Apache-2.0
"""Each exit code has one meaning for every command; facts are a line of JSON: as the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from command import SECRET, one_error
from places import ROOT

import dpfast
from dpfast.app.cli import codes, commands, main
from dpfast.app.cli.request import Payer
from dpfast.engines import jobs
from dpfast.evidence import selftest
from dpfast.ledger.store import Store

PAGE = (ROOT / "docs" / "schedulers.md").read_text("utf-8")
LAW = ["--epsilon", "1", "--sensitivity", "1"]
COLUMN = ["in.csv", "out.csv", "--column", "n", *LAW]
BY = [
    "in.csv",
    "out.csv",
    "--by",
    "n",
    "--domain",
    "n=1,2",
    "--unit",
    "person",
    "--max-partitions",
    "1",
    "--epsilon",
    "1",
]
SMALL, LARGE = ["--ledger", "small.db"], ["--ledger", "large.db"]
KEYED = [*LARGE, "--key-file", "k.key", "--label", "x"]
TOTALS = [*BY[2:], "--delta", "1e-6", "--steps", "8"]
MAKE = {  # what makes or compares a file, and prints no facts
    "histogram", "totals new", "totals step", "privatize", "verify", "ledger create", "ledger copy", "ledger upgrade", "key create",
}  # fmt: skip
FAILURES: dict[str, list[tuple[list[str], int]]] = {
    "histogram": [
        (BY[:-2], 2), ([*BY, "--force", "--verify"], 2), ([*BY, *SMALL], 3), (["no.csv", *BY[1:]], 1), ([*BY, "--ledger", "no.db"], 1), ([*BY, "--unit", "no"], 2),
    ],
    "totals new": [(TOTALS[:-2], 2), ([*TOTALS, *KEYED], 2), ([*TOTALS, *KEYED, "--state", "no/s"], 1), ([*TOTALS, "--per-unit-steps", "513", "--explain"], 2)],
    "totals step": [
        (TOTALS, 2), (["1", "in.csv", "out.csv", *TOTALS, *KEYED], 2), (["1", "in.csv", "out.csv", *TOTALS, *KEYED, "--state", "s"], 2),
        (["0", "in.csv", "out.csv", *TOTALS], 2), (["1", "in.csv", "out.csv", *TOTALS, "--ledger", "no.db", *KEYED[2:], "--state", "s"], 1),
    ],
    "totals show": [([], 2), (["in.csv"], 1), (["no.db"], 1)],
    "privatize": [
        (COLUMN[:-2], 2), ([*COLUMN, *SMALL], 3), (["bad.csv", *COLUMN[1:]], 1), (["bad.csv", *COLUMN[1:], *SMALL], 3), ([*COLUMN, "--epsilon", "0"], 2),
        (["k.key", *COLUMN[1:]], 2), ([*COLUMN, "--ledger", "in.csv"], 1),
    ],
    "verify": [(COLUMN, 2), ([*COLUMN, *KEYED], 2)],
    "look": [(["in.csv", "--by", "n", "--domain", "1,2"], 2), (["no.csv", "--by", "n", "--domain", "1,2", "--private"], 1), (["in.csv", "--private"], 2)],
    "explain": [(["--epsilon", "0", "--sensitivity", "1"], 2), (["--epsilon", "1"], 2)],
    "show": [([], 2), (["in.csv"], 1), (["no.csv"], 1), (["in.csv", "--report", "p.txt"], 2)],
    "ledger create": [(["new.db"], 2), (["large.db", "--epsilon", "1"], 1), (["new.db", "--epsilon", "0"], 2)],
    "ledger show": [([], 2), (["in.csv"], 1), (["no.db"], 1)],
    "ledger plan": [(["large.db"], 2), (["no.db", "--releases", "3"], 1), (["large.db", "--epsilon", "-1"], 2)],
    "ledger verify": [([], 2), (["no.db"], 1), (["large.db", "--key-file", "no.key"], 1)],
    "ledger restored": [(["large.db"], 2), (["no.db", "--key-file", "k.key"], 1)],
    "ledger copy": [(["large.db"], 2), (["no.db", "new.db"], 1), (["large.db", "small.db"], 1)],
    "ledger upgrade": [([], 2), (["no.db"], 1)],
    "key create": [([], 2), (["k.key"], 1)],
    "key show": [([], 2), (["no.key"], 1), (["in.csv"], 1)],
    "jobs show": [([], 2), (["no"], 1)],
    "info": [(["--no"], 2)],
    "selftest": [(["--break", "nothing"], 2), (["--deep", "--quick"], 2)],
    "audit": [(["mine.py:add"], 2), (["no_such:add", "--epsilon", "1"], 2)],
    "bench": [(["--size", "0"], 2), (["--json", "no/x.json"], 1), (["--sampler", "mine.py:add"], 2)],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("n,person\n1,1\n2,2\n")
    Path("bad.csv").write_text(f"n,person\n{SECRET}x,1\n")
    dpfast.Ledger("small.db", "1/2", unit="person", create=True)
    dpfast.Ledger("large.db", 99, unit="person", create=True)
    dpfast.KeyFile.create("k.key")


def leaves(group: click.Group = commands, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{name} ")
        else:
            yield f"{before}{name}", command


def rows_of(heading: str) -> dict[str, str]:
    """A table of the page: its first column, and its second."""
    part = PAGE.partition(heading)[2].partition("\n\n")[2] if heading else PAGE
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip("`"): row[1] for row in rows}


def test_the_page_has_each_code_with_its_meaning() -> None:
    found = {int(code): meaning for code, meaning in rows_of("").items() if code.isdecimal()}
    assert found == codes.MEANS


def test_the_page_has_each_command() -> None:
    named = rows_of("## One line of JSON").keys() - {"command", "---"}
    assert named == {name for name, _ in leaves()} - MAKE
    said = " ".join(PAGE.split()).partition("The other commands make a file")[2].partition("Their facts")[0]
    assert set(re.findall(r"`([a-z ]+)`", said)) == MAKE


def test_each_command_prints_json_or_makes_a_file() -> None:
    having = {name for name, command in leaves() if any("--json" in each.opts for each in command.params)}
    assert having == {name for name, _ in leaves()} - MAKE
    assert FAILURES.keys() == {name for name, _ in leaves()}


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_has_its_code_and_costs_nothing(capsys, name: str) -> None:
    for words, code in FAILURES[name]:
        assert main([*name.split(), *words]) == code, words
        out, err = capsys.readouterr()
        assert out == ""
        one_error(err, "")
        assert "please report" not in err
    assert not dpfast.Ledger("small.db").history()
    assert all(entry.refused for entry in dpfast.Ledger("large.db").history())
    assert not Path("out.csv").exists()


def test_a_misspelt_command_and_option_are_wrong_usage(capsys) -> None:
    for words in (["histgram"], ["--no"], ["ledger", "no"]):
        assert main(words) == codes.WRONG
        one_error(capsys.readouterr().err, "No such")


FAIL_LATER: dict[str, BaseException] = {
    "no key": dpfast.errors.EntropyError("the system gave no random key"),
    "memory": MemoryError(),
    "unforeseen": RuntimeError(f"count {SECRET}"),
    "disk": OSError(28, "No space left on device"),
}


@pytest.mark.parametrize("name", FAIL_LATER)
@pytest.mark.parametrize("command", ["privatize", "histogram"])
@pytest.mark.parametrize("keyed", [False, True])
def test_whatever_fails_after_the_charge_says_so(capsys, monkeypatch, name: str, command: str, keyed: bool) -> None:
    """Without the code a scheduler tries again, and pays again."""

    def fails(*_: object, **__: object) -> None:
        raise FAIL_LATER[name]

    paid = Payer.pays

    def pays(self: Payer) -> None:
        paid(self)
        fails()

    words = [command, *(BY if command == "histogram" else COLUMN), *(KEYED if keyed else LARGE), "--quiet"]
    with monkeypatch.context() as patched:
        if command == "histogram":
            patched.setattr("dpfast.app.tables.gathered.table_of", fails)
        else:
            patched.setattr(Payer, "pays", pays)
        ended = main(words)
    err = capsys.readouterr().err
    assert (len(dpfast.Ledger("large.db").history()), Path("out.csv").exists()) == (1, False)
    assert ended == codes.CHARGED, err
    one_error(err, r"a charge in .*large.db, if made, stays: |the charge in .*large.db stays: ")
    assert ("--resume writes OUT" in err) is keyed


def test_a_charge_that_is_refused_late_is_no_charge(capsys, monkeypatch) -> None:
    """Somebody else has spent what was left since it was asked."""
    refused = dpfast.errors.BudgetExhausted(
        "large.db: epsilon 1 is asked for and 0 is left of 99; nothing was released or charged"
    )

    def exhausted(*_: object) -> None:
        raise refused

    monkeypatch.setattr(Store, "charge", exhausted)
    for words in (["privatize", *COLUMN, *LARGE], ["histogram", *BY, *LARGE]):
        assert main(words) == codes.SPENT
        one_error(capsys.readouterr().err, "0 is left of 99; nothing was released or charged$")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A call of each command that tells facts, but for bench (tests/evidence/test_bench.py)."""
    Path("mine.py").write_text(
        "import dpfast\n\ndef add(count, n):\n    return dpfast.DiscreteLaplace(1, 1).release([count] * n)\n"
    )
    assert main(["privatize", *COLUMN, "--quiet"]) == 0
    assert main(["privatize", "in.csv", "keyed.csv", *COLUMN[2:], *KEYED, "--quiet"]) == 0
    key = dpfast.Key.generate().derive("visits")
    rows = pa.table({"person": [1], "city": ["Oslo"]})
    jobs.bounded_counts(
        rows, unit="person", by="city", key=key, stage="stage", domain=["Oslo"], max_partitions=1, max_per_partition=1
    )
    monkeypatch.setattr(selftest, "CHECKS", [])
    return {
        "look": ["in.csv", "--by", "n", "--domain", "1,3", "--private"], "explain": LAW, "show": ["out.csv"], "totals show": ["large.db"], "ledger show": ["large.db"],
        "ledger plan": ["large.db", "--releases", "3"], "ledger verify": ["large.db", "--key-file", "k.key"],
        "ledger restored": ["large.db", "--key-file", "k.key"], "key show": ["k.key"], "jobs show": ["stage"], "info": [], "selftest": [],
        "audit": ["mine.py:add", "--epsilon", "1", "--n", "2000", "--distribution", "discrete_laplace"],
    }  # fmt: skip


def test_facts_are_one_line_of_json_with_the_names_of_the_page(capsys, facts: dict[str, list[str]]) -> None:
    assert {*facts, "bench"} == {name for name, _ in leaves()} - MAKE
    capsys.readouterr()
    for name, words in facts.items():
        assert main([*name.split(), *words, "--json"]) == 0, name
        out = capsys.readouterr().out
        assert (out.count("\n"), out[-1]) == (1, "\n"), name
        found: dict[str, Any] = json.loads(out, parse_constant=pytest.fail)
        listed = (
            rows_of("## One line of JSON")[name].partition(":")[0]
            if name == "look"
            else rows_of("## One line of JSON")[name]
        )
        names = set(re.findall(r"`([a-z_ ]+)`", listed)) - {"output of"}
        assert names <= found.keys(), (name, names - found.keys())
