# SPDX-License-Identifier: Apache-2.0
"""What was measured, as a table for people, as JSON, and as a short table for a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from dpfast.evidence.bench.curves import Curve
from dpfast.evidence.bench.measure import Result
from dpfast.evidence.bench.page import aligned, markdown
from dpfast.privacy.formatting import compared, quantity, three_digits

Columns: TypeAlias = Sequence[tuple[str, Callable[[Result], str]]]  # the heads, and what stands below them

RATIO = (
    "NumPy's noise: its unsafe Laplace at scale 10 (int64 or float64, as the row's numbers), chunked, on one thread, timed "
    "just before each run."
)
SAFETY = (
    "unsafe: noise added in floating point, whose low bits give counts away [Mir12]. safe: a secure generator and a way "
    "around that, by the package's own account."
)
DISPUTED = "disputed: as safe, but an open issue of the package's own says that the noise is unsafe"
OURS = (
    "dpfast: mechanism.release(counts, out=other, threads=...); OneSidedGeometric, which is no mechanism: .sample(n)."
)
ABOUT = "counts (peers fewer), one thread where no other number is said"


def rate(result: Result) -> str:
    """Counts a second; for the key stream bytes a second too."""
    per = 1 / result.figure
    return quantity(per) + (
        f" ({three_digits(8 * per / 1e9)} GB/s)" if result.row.name.startswith("key stream") else ""
    )


def disputes(results: Sequence[Result]) -> list[str]:
    """What the third mark means, and whose issue says so: a line, if there is such a row."""
    links = {result.row.dispute: result.row.who for result in results if result.row.dispute}
    return [f"{DISPUTED} ({', '.join(f'{who}: {link}' for link, who in links.items())})."] if links else []


SHORT: Columns = (
    ("", lambda r: r.row.name),
    ("", lambda r: "" if r.row.kind == "floor" else r.row.kind),
    ("ns a count", lambda r: three_digits(r.ns)),
    ("counts a second", rate),
    ("than NumPy's noise", lambda r: compared(r.ratio)),
)
FULL: Columns = (
    *SHORT,
    ("peak grows, MiB", lambda r: "" if math.isnan(r.grown) else three_digits(r.grown / 2**20)),
    ("counts", lambda r: f"{r.row.counts:,}"),
)


@dataclass(frozen=True)
class Report:
    """One run of a benchmark."""

    facts: Mapping[str, str]
    size: int
    rounds: int
    results: Sequence[Result]
    versions: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    latency: Curve | None = None
    scaling: Curve | None = None
    columns: Columns = FULL
    short: Columns = SHORT
    about: str = ABOUT  # the things that `size` counts
    meaning: Sequence[str] = (RATIO, SAFETY, OURS)

    @property
    def chosen(self) -> list[Result]:
        """The rows of the picture, fastest first."""
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
        """The whole report, for JSON."""
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
            "meaning": [*self.meaning, *disputes(self.results)],
            "rows": [result.record() for result in self.results],
            **curves,
        }

    def table(self) -> str:
        """The table for a terminal."""
        lines = [f"{name:16}{value}" for name, value in {**self.facts, **self.versions}.items()]
        lines += [f"{name:16}absent: {why}" for name, why in self.absent.items()]
        shown = aligned(self._cells(self.columns, self.results))
        lines += ["", self._medians, "", shown[0]]
        for _, group in groupby(
            zip(self.results, shown[1:], strict=True), key=lambda pair: (pair[0].row.who, pair[0].row.threads)
        ):
            lines += ["-" * len(shown[0]), *(text for _, text in group)]
        lines += ["", *self.meaning, *disputes(self.results)]
        called = [f"  {r.row.name}: {r.row.called}" for r in self.results if r.row.called and r.row.who != "dpfast"]
        return "\n".join([*lines, *(["", "What was called", *called] if called else [])]) + "\n"

    def markdown(self, results: Sequence[Result], columns: Columns | None = None) -> str:
        """These rows in this order, for a page; by default in the columns of the short table."""
        facts = f"{self.machine}; {self.software()}; {self.facts['date']}."
        missing = f"Absent: {', '.join(self.absent)}." if self.absent else ""
        said = " ".join(filter(None, (self._medians, missing, *self.meaning[:1])))
        meant = *self.meaning[1:], *disputes(results)
        return "\n".join([markdown(self._cells(columns or self.short, results)), "", said, *meant, facts])

    @property
    def _medians(self) -> str:
        return f"{'One round' if self.rounds == 1 else f'Medians of {self.rounds} rounds'}, {self.size:,} {self.about}."

    @staticmethod
    def _cells(columns: Columns, results: Sequence[Result]) -> list[list[str]]:
        return [[head for head, _ in columns], *([cell(result) for _, cell in columns] for result in results)]
