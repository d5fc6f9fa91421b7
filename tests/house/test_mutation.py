# SPDX-License-Identifier: Apache-2.0
"""The lists of mutants are true to the code, and their runner tells who survives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from deep import mutation
from deep.record import git
from mutation.drawn import sites
from mutation.mutant import Mutant
from mutation.runner import FAST, SLOW, baseline, listed, stale, survivors
from places import ROOT, every_test_file


def spoilt(name: str, tests: str, old: str = "a + b") -> Mutant:
    return Mutant(name, "adding.py", old, "a - b", tests)


WEAK, STRONG = spoilt("a weak test's", "test_adding.py -k zero"), spoilt("a strong test's", "test_adding.py -k two")
ENDLESS = Mutant(
    "one that ends its process", "adding.py", "return", "import os; os.abort()\n    return", "test_adding.py -k two"
)

BROKEN = Mutant("one that cannot be imported", "adding.py", "def add", "-[]\n\ndef add", "test_adding.py::test_two")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A function with a test that cannot fail by it, and one that can."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "adding.py").write_text("def add(a, b):\n    return a + b\n")
    (tmp_path / "tests" / "test_adding.py").write_text(
        "from adding import add\ndef test_zero(): assert add(0, 0) == 0\ndef test_two(): assert add(1, 1) == 2\n"
    )
    git("init", "-q", root=tmp_path)
    return tmp_path


def test_each_old_text_is_there_once() -> None:
    mutants = listed()
    assert stale([*mutants, mutation.HARMLESS]) == []
    assert len({mutant.name for mutant in mutants}) == len(mutants) > 190
    assert {mutant.name for mutant in mutants} > mutation.FEW


def strangers(mutants: Iterable[Mutant]) -> dict[str, set[str]]:
    """The words that a mutant of C writes, and no file of C knows: it would not be built."""
    known = {
        word for path in (ROOT / "csrc").glob("*.[ch]") for word in re.findall(r"\b[A-Za-z_]\w*", path.read_text())
    }
    found = {
        each.name: set(re.findall(r"\b[A-Za-z_]\w*", each.new)) - known
        for each in mutants if each.file.startswith("csrc/")
    }  # fmt: skip
    return {name: words for name, words in found.items() if words}


def test_mutants_of_c_say_what_c_knows() -> None:
    assert strangers(listed()) == {}
    unknown = Mutant("equal tags break the bound", "csrc/bounded.h", "if (kept > most) {", "if (found > FEW) {", "")
    assert strangers([unknown]) == {unknown.name: {"FEW"}}


def test_tests_of_a_mutant_are_there() -> None:
    """Their files exist: that their words choose a test is found when they run."""
    files = {word for mutant in listed() for word in mutant.tests.partition(" -k ")[0].split()}
    assert files - every_test_file().keys() == set()


def test_a_stale_mutant_is_found(project: Path) -> None:
    gone, doubled = spoilt("gone", WEAK.tests, "a * b"), spoilt("doubled", WEAK.tests, "a")
    assert stale([WEAK, gone, doubled], project) == ["gone", "doubled"]
    with pytest.raises(AssertionError, match="not there once: gone"):
        survivors([gone], project)


@pytest.mark.slow
def test_a_planted_survivor_is_told_from_the_killed(project: Path) -> None:
    """The weak test passes on its mutant; the copy is whole again for the next one."""
    said: list[str] = []
    assert survivors([WEAK, STRONG, ENDLESS, BROKEN, WEAK], project, told=said.append) == [WEAK.name] * 2
    assert sorted(said) == sorted([
        "SURVIVES  a weak test's", "killed    a strong test's", "killed    one that ends its process", "killed    one that cannot be imported", "SURVIVES  a weak test's"
    ])  # fmt: skip
    assert (project / "adding.py").read_text().count("a + b") == 1


def test_tests_that_fail_without_a_mutant_kill_none(project: Path) -> None:
    (project / "adding.py").write_text("def add(a, b):\n    return a + b + 1\n")
    with pytest.raises(AssertionError, match="on clean code these fail"):
        survivors([STRONG], project)


def test_words_that_choose_no_test_are_an_error(project: Path) -> None:
    with pytest.raises(AssertionError, match="deselected"):
        survivors([spoilt("untested", "test_adding.py -k three")], project)


def test_tests_of_one_file_are_one_run() -> None:
    others = spoilt("whole", "test_other.py"), spoilt("part", "test_other.py -k zero")
    assert baseline([WEAK, STRONG, STRONG, *others]) == ["test_adding.py -k '(zero) or (two)'", "test_other.py"]
    timed = spoilt("timed", "test_other.py -k zero -m timing")
    assert baseline([*others, timed]) == ["test_other.py", timed.tests]
    assert baseline(listed())


def test_a_score_below_95_of_100_fails_and_survivors_are_named() -> None:
    alive = ["one", "another"]
    assert mutation.score([WEAK] * 40, alive) == {"mutants": 40, "killed": 38, "survivors": alive}
    with pytest.raises(AssertionError, match="no test notices: one, another"):
        mutation.score([WEAK] * 39, alive)


SPOILT = """
LIMIT = 3
def taken(values: list[int] = [5], most: int = 7) -> int:
    check(values)
    if len(values) <= most and values:
        raise ValueError(f"{most + 1}")
    return 10 * values[-1]
class Other:
    def own(self):
        return [each for each in self if each is not None]
"""


def test_a_program_spoils_each_kind_of_place() -> None:
    """A call, a bound, an operator and a constant; messages and types stay."""
    lines = SPOILT.splitlines()
    found = []
    for site in sites(SPOILT):
        spoilt = (SPOILT[: site.start] + site.new + SPOILT[site.end :]).splitlines()
        found += [(new.strip(), old.strip()) for new, old in zip(spoilt, lines, strict=True) if new != old]
    assert [new for new, _ in found] == [
        "None",
        "if len(values) < most and values:",
        "if len(values) <= most or values:",
        "return 11 * values[-1]",
        "return 10 // values[-1]",
        "return 10 * values[-2]",
        "return [each for each in self if each is None]",
    ]


@pytest.mark.slow
def test_slow_tests_alone_are_told_from_the_others(project: Path) -> None:
    """A mutant without tests of its own meets all that have the marks."""
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow', 'timing']\n")
    tests = project / "tests" / "test_adding.py"
    tests.write_text("import pytest\n" + tests.read_text().replace("def test_two", "@pytest.mark.slow\ndef test_two"))
    everywhere = STRONG._replace(tests="")
    assert survivors([STRONG, everywhere], project, marks=FAST) == [STRONG.name] * 2
    assert survivors([STRONG, everywhere], project, marks=SLOW) == survivors([everywhere], project) == []
