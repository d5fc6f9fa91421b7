# SPDX-License-Identifier: Apache-2.0
"""What was measured, as a table for people, as JSON, and as a short table for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from dpfast.bench.curves import Curve
from dpfast.bench.measure import MEBIBYTE, Result
from dpfast.errors import FileError
from dpfast.tables.atomic_write import atomic_write

START, END = "<!-- dpfast bench:start -->", "<!-- dpfast bench:end -->"
HEADS = ("", "", "ns a count", "counts a second", "than NumPy's noise", "peak grows, MiB", "counts")
RATIO = (
    "NumPy's noise: its unsafe Laplace at scale 10 (int64 or float64, as the row's numbers), chunked, on one thread, timed "
    "just before each run."
)
SAFETY = (
    "unsafe: noise added in floating point, whose low bits give counts away [Mir12]. safe: a secure generator and a way "
    "around that, by the package's own account."
)
OURS = "dpfast: law(...).release(counts, out=other, threads=...); OneSidedGeometric, which is no mechanism: .sample(n)."


@dataclass(frozen=True)
class Report:
    """One run of the benchmark."""

    facts: Mapping[str, str]
    size: int
    rounds: int
    results: Sequence[Result]
    versions: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    latency: Curve | None = None
    scaling: Curve | None = None

    @property
    def chosen(self) -> list[Result]:
        """The rows of the picture and of the short table, fastest first."""
        return sorted((result for result in self.results if result.row.chart), key=lambda result: result.ns)

    @property
    def machine(self) -> str:
        facts = self.facts
        return f"{facts['processor']}, {facts['cores']} cores, {facts['instruction set']}"

    def software(self, *, peers: bool = True) -> str:
        shown = {name: self.facts[name] for name in ("dpfast", "Python", "NumPy", "numba")}
        shown |= dict(self.versions) if peers else {}
        return ", ".join(f"{name} {number}" for name, number in shown.items() if number)

    def record(self) -> dict[str, object]:
        """All of it, as JSON has it."""
        curves: dict[str, object] = {}
        if self.latency:
            curves["latency"] = self.latency.record("counts", "seconds")
        if self.scaling:
            curves["scaling"] = self.scaling.record("threads", "counts_per_second")
        return {
            **{name.replace(" ", "_"): value for name, value in self.facts.items()},
            "size": self.size,
            "rounds": self.rounds,
            "peers": dict(self.versions),
            "absent": dict(self.absent),
            "meaning": [RATIO, SAFETY, OURS],
            "rows": [result.record() for result in self.results],
            **curves,
        }

    def table(self) -> str:
        """For a terminal."""
        lines = [f"{name:16}{value}" for name, value in {**self.facts, **self.versions}.items()]
        lines += [f"{name:16}absent: {why}" for name, why in self.absent.items()]
        lines += ["", f"Medians of {self.rounds} rounds, {self.size:,} counts where nothing else is said.", ""]
        cells = [HEADS, *(self._cells(result) for result in self.results)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        shown = ["  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))) for row in cells]  # fmt: skip
        lines.append(shown[0].rstrip())
        for _, group in groupby(zip(self.results, shown[1:], strict=True), key=lambda pair: _group(pair[0])):
            lines += ["-" * len(shown[0]), *(text for _, text in group)]
        lines += ["", RATIO, SAFETY, OURS, "", "What was called"]
        lines += [f"  {result.row.name}: {result.row.called}" for result in self.results if result.row.who != "dpfast"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _cells(result: Result) -> tuple[str, ...]:
        row = result.row
        grown = "" if result.grown is None else f"{result.grown / MEBIBYTE:.2f}"
        kind = "" if row.kind == "floor" else row.kind
        return row.name, kind, figure(result.ns), rate(result), times(result.ratio), grown, f"{row.counts:,}"

    def markdown(self) -> str:
        lines = ["| | | ns a count | counts a second | than NumPy's noise |", "| --- | --- | --: | --: | --: |"]
        for result in self.chosen:
            row = result.row
            kind = "" if row.kind == "floor" else row.kind
            cells = row.name, kind, figure(result.ns), rate(result), times(result.ratio)
            lines.append(f"| {' | '.join(cells)} |")
        missing = f" Absent: {', '.join(self.absent)}." if self.absent else ""
        medians = f"Medians of {self.rounds} rounds, {self.size:,} counts (peers fewer), one thread where no other number is said."
        facts = f"{self.machine}; {self.software()}; {self.facts['date']}."
        return "\n".join([*lines, "", f"{medians}{missing} {RATIO}", SAFETY, facts])


def _group(result: Result) -> tuple[str, str, int]:
    """Rows between two rules: of one law, or of one package."""
    law = result.row.name.partition(",")[0] if result.row.who == "dpfast" else ""
    return result.row.who, law, result.row.threads


def figure(ns: float) -> str:
    """Three digits."""
    return f"{ns:,.0f}" if ns >= 100 else f"{ns:.1f}" if ns >= 10 else f"{ns:.2f}"


def rate(result: Result) -> str:
    """Counts a second; of the key stream bytes, too."""
    per = result.per_second
    shown = next(
        (f"{per / unit:.3g} {name}" for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if per >= unit), f"{per:.3g}"
    )
    return f"{shown} ({8 * per / 1e9:.3g} GB/s)" if result.row.name.startswith("key stream") else shown


def times(ratio: float) -> str:
    if 0.95 < ratio < 1.05:
        return "as fast"
    return f"{figure(1 / ratio)} × faster" if ratio < 1 else f"{figure(ratio)} × slower"


def write_between_marks(path: Path, text: str) -> None:
    """Put the text in place of what stood between the two marks."""
    before, start, rest = path.read_text().partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise FileError(f"{path} has no lines {START} and {END} to write between")
    with atomic_write(path, force=True) as file:
        file.write(f"{before}{START}\n{text}\n{END}{after}".encode())
