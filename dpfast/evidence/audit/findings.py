# SPDX-License-Identifier: Apache-2.0
"""What an audit reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from dpfast.evidence.audit.audited import Outputs

Verdict: TypeAlias = Literal["passed", "found"]
ALPHA = 1e-6  # the false-alarm rate of one audit
POWER = 0.9  # probability that an audit finds what it says it could have found
WIDTH = 100  # columns of a report
FRESH = 0.1  # share of the rate for "noise is fresh"


@dataclass(frozen=True)
class Line:
    """One check."""

    name: str
    verdict: Verdict
    detail: str


class Compared(NamedTuple):
    """Outputs for two counts, for `draw`; whether values or lowest bits tell the counts apart."""

    counts: tuple[float, float]
    outputs: tuple[Outputs, Outputs]
    steps: int
    lowest_bits: bool


@dataclass(frozen=True)
class Findings:
    """What an audit found.

    bound: from `privacy`, the largest certified epsilon: above epsilon, the promise is broken.
    event: what told the counts apart. could: what an audit of so many draws would have found.
    """

    kind: Literal["privacy", "law"]
    bound: float
    lines: list[Line]
    n: int
    promise: str
    event: str = ""
    could: str = ""
    epsilon: float | None = None
    delta: float = 0.0
    false_alarm: float = ALPHA
    seconds: float = 0.0
    compared: Compared | None = field(default=None, repr=False, compare=False)

    @property
    def found(self) -> bool:
        return any(line.verdict == "found" for line in self.lines)

    def as_dict(self) -> dict[str, Any]:
        """The findings for JSON; an infinite bound is a string."""
        names = ("kind", "found", "promise", "epsilon", "delta", "event", "could", "n", "false_alarm", "seconds")
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        facts["bound"] = None if self.kind == "law" else self.bound if math.isfinite(self.bound) else "inf"
        return facts | {"lines": [vars(line) for line in self.lines]}

    def text(self) -> str:
        """The findings for people, at most 100 columns wide. Needs dpfast[cli]."""
        from dpfast import terminal

        title = {"privacy": "Privacy", "law": "Distribution"}[self.kind]
        head = f"{title}: {self.promise}, {self.n:,} draws{' a count' if self.kind == 'privacy' else ''}"
        rows = [(line.name, line.verdict.replace("found", "FOUND"), line.detail) for line in self.lines]
        end = terminal.paragraph(f"{self._verdict()} {self.could}", WIDTH)
        return f"{head}\n\n{terminal.table(rows, indent=2, most=WIDTH)}\n\n{end}"

    def _verdict(self) -> str:
        if not self.found:
            return "Nothing found, which proves nothing."
        if self.kind == "law":
            return "FOUND: the noise does not follow that distribution."
        if math.isinf(self.bound):
            return f"FOUND: {self.event}, so no epsilon holds."
        return f"FOUND: this spends an epsilon of {self.bound:.4g} at least."
