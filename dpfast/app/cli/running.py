# SPDX-License-Identifier: Apache-2.0
"""What `dpfast totals` is asked of each cell: how many rows it has had in all steps so far."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

import dpfast
from dpfast.app.cli.measures import USUAL, Count
from dpfast.app.cli.options import SECURE, one_way
from dpfast.errors import ParameterError
from dpfast.privacy import meaning
from dpfast.privacy.formatting import approximate, plus_minus

MOST_SQUARED = 2**120  # what one unit moves, beyond which no noise hides it
DIGITS = 10**6  # a half-width is rounded up to one part of so many


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

    def within(self, confidence: Fraction, cells: int = 1) -> Fraction:
        """A total after the step; one of several at once misses with its part of the chance."""
        return half_width(self.mechanism, min(self.t, self.mechanism.ceiling), 1 - (1 - confidence) / cells)

    def about(self) -> dict[str, Any]:
        found, made = super().about(), self.mechanism
        about = {
            "column": self.COLUMN,
            **made.metadata(),
            "after_step": self.t,
            "stddev": made.stddev(self.t),
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
            f"{made.steps:,} step{'s' * (made.steps != 1)} expected; the promise holds for {made.ceiling:,}",
            f"noise of a total after step {at:,}: {wide}",
        ]

    def counted(self, keys: Any, units: Any, values: Any, key: Any) -> Any:
        """The rows of a step: who counts is for the totals to say, which know the earlier ones."""
        del values, key
        return keys, units

    def columns(self, noisy: Any) -> dict[str, Any]:
        low, high = self._public_ends()
        within = -math.inf if low is None else low, math.inf if high is None else high
        found = {self.COLUMN: np.clip(noisy, *within)}
        if (width := self.half_width) is not None:
            found |= {name: np.maximum(noisy + way * float(width), 0) for name, way in (("low", -1), ("high", 1))}
        return found


def half_width(made: Any, t: int, confidence: Fraction) -> Fraction:
    return Fraction(math.ceil(made.interval(t, confidence) * DIGITS), DIGITS)


def often(times: int, apart: int) -> str:
    """Such as "at most 4 steps, 7 apart"."""
    return f"at most {times:,} step{'s' * (times != 1)}" + (f", {apart:,} apart" if apart > 1 else "")
