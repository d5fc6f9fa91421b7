# SPDX-License-Identifier: Apache-2.0
"""What `dpfast totals` is asked of each cell: how many rows it has had in all steps so far.

A total is written in the digits that its noise justifies: to a power of ten that is at most a
thousandth of its standard deviation. An interval is wider by half of that, rounded up to the same
digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

import dpfast
from dpfast.app.cli.measures import USUAL, Count
from dpfast.app.cli.options import SECURE, one_way
from dpfast.errors import ParameterError
from dpfast.privacy import meaning
from dpfast.privacy.formatting import approximate, plain, plus_minus

MOST_SQUARED = 2**120  # what one unit moves, beyond which no noise hides it
FINE = 1000  # such a part of a standard deviation is no less than the last digit of a total


class Totals(Count):
    """How many rows a cell has had so far, of units that count in few steps."""

    COLUMN = "total"
    WHO: ClassVar[str] = "'--unit': over time units are bounded, so rows must name theirs"
    OF_KEYS = ("domain", "bins", "unknown")
    UNLISTED: ClassVar[str] = "Missing option '--domain', or '--bins': the public keys, for the life of the totals"

    def _noise(self, caps: Any, grid: Any) -> Any:
        """Raises: click.UsageError, DTypeError, ParameterError."""
        given = self.given
        named = [name for name in ("rho", "epsilon", "delta") if name in given]
        if named != ["epsilon"]:  # which has an answer of its own
            one_way({("rho",): dict, ("epsilon", "delta"): dict}, given)
        spent = {name: given[name] for name in ("rho", "epsilon", "delta", "per_unit_steps", "apart") if name in given}
        change = self.bounds.sensitivity(caps, grid, self.cells)
        if change.l2_squared > MOST_SQUARED:
            raise ParameterError(
                "--max-partitions, --max-per-partition and --max-contributions must let one unit move a step by at most 2**60 rows"
            )
        made = dpfast.RunningTotals(given["steps"], sensitivity=change, **spent)
        self.rows = made.bounded(**dict(zip(self.bounds._fields, caps, strict=False)))
        return made

    @property
    def t(self) -> int:
        """The step that is taken; where none is, the last one that is expected."""
        return int(self.given.get("t", self.given["steps"]))

    @property
    def holds(self) -> tuple[Fraction, Fraction] | None:
        return meaning.example(self.mechanism.guarantee, None)

    @property
    def implied(self) -> str:
        return implied(self.mechanism)

    @property
    def noise(self) -> Noise:
        return Noise(self.mechanism, min(self.t, self.mechanism.ceiling))

    def within(self, confidence: Fraction, cells: int = 1) -> Fraction:
        return self.noise.interval(confidence, cells)

    def about(self) -> dict[str, Any]:
        found, made = super().about(), self.mechanism
        about = {
            "column": self.COLUMN,
            **made.metadata(),
            "after_step": self.t,
            "stddev": made.stddev(self.t),
            "rounded_to": str(Fraction(10) ** -self.noise.places),
            "secure": True,
        }
        low, high = self._public_ends()
        return {**found, "secure_means": SECURE, "releases": [{**about, "lower": low, "upper": high}]}

    def lines(self) -> list[str]:
        made, unit = self.mechanism, self.bounds.unit
        at = min(self.t, made.ceiling)
        wide = f"standard deviation {approximate(made.stddev(at))}, 95 % within {plus_minus(self.within(USUAL))}"
        return [
            f"over time: one {unit} counts in {often(made.per_unit_steps, made.apart)}, first come, first served",
            f"{made.steps:,} step{'s' * (made.steps != 1)} expected; {further(made.ceiling)}",
            f"noise of a total after step {at:,}: {wide}",
        ]

    def counted(self, keys: Any, units: Any, values: Any, key: Any) -> Any:
        """The rows of a step: who counts is for the totals to say, which know the earlier ones."""
        del values, key
        return keys, units

    def columns(self, noisy: Any) -> dict[str, Any]:
        low, high = self._public_ends()
        within = -math.inf if low is None else low, math.inf if high is None else high
        places = self.noise.places
        totals = [round(each, places) for each in noisy.tolist()]
        found = {self.COLUMN: np.clip(np.array(totals, np.float64) + 0.0, *within)}  # which makes 0 of -0
        if (width := self.half_width) is not None:
            ends = [[max(round(each + way * float(width), places), 0.0) for each in totals] for way in (-1, 1)]
            found |= {name: np.array(end, np.float64) for name, end in zip(("low", "high"), ends, strict=True)}
        return found


@dataclass(frozen=True)
class Noise:
    """That of totals after step t, as they are written."""

    INTEGERS: ClassVar[bool] = False
    made: Any
    t: int

    @property
    def stddev(self) -> float:
        return float(self.made.stddev(self.t))

    @property
    def places(self) -> int:
        """Digits behind the point, negative of tens: those of a thousandth of the deviation."""
        return -int(f"{self.stddev / FINE:e}".partition("e")[2])

    def interval(self, confidence: Fraction, cells: int = 1) -> Fraction:
        """Rounded up in the places; one of several at once misses with its part of the chance."""
        last = Fraction(10) ** -self.places
        needs = Fraction(self.made.interval(self.t, 1 - (1 - confidence) / cells)) + last / 2
        return math.ceil(needs / last) * last


def made_of(terms: Mapping[str, Any]) -> Any:
    """The totals of a manifest. Raises: ParameterError."""
    return dpfast.RunningTotals.of_terms({n: each for n, each in terms.items() if not n.startswith(("--", "max_"))})


def implied(made: Any) -> str:
    """The (epsilon, delta) that a rho implies, in words after it; nothing after an epsilon."""
    holds = meaning.example(made.guarantee, None) if made.guarantee.epsilon is None else None
    return f" (so epsilon {plain(holds[0])} at delta {plain(holds[1])})" if holds else ""


def further(ceiling: int) -> str:
    return f"you may go on to step {ceiling:,} at no further charge, with somewhat more noise"


def often(times: int, apart: int) -> str:
    """Such as "at most 4 steps, 7 apart"."""
    return f"at most {times:,} step{'s' * (times != 1)}" + (f", {apart:,} apart" if apart > 1 else "")
