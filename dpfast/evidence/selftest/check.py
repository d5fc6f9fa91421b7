# SPDX-License-Identifier: Apache-2.0
"""A check, what it found, and the one hook through which outputs under test pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dpfast import _native

Value = TypeVar("Value")
MOST_SHOWN = 4  # findings of a check, at most


@dataclass(frozen=True)
class Outcome:
    """What was compared, in numbers, and what was wrong."""

    compared: str
    wrong: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.wrong


@dataclass(frozen=True)
class PlantedDefect:
    """A defect planted in one output of one check: in the values under test, not in the engine."""

    name: str
    check: str
    output: str
    shows: str
    alter: Callable[[Any], Any]


@dataclass
class Run:
    """One run of one check: how much to draw, the planted defect, and a callback for progress."""

    factor: float = 1.0
    defect: PlantedDefect | None = None
    step: Callable[[float], object] = lambda _: None
    outputs: set[str] = field(default_factory=set)  # names of outputs seen
    wrong: list[str] = field(default_factory=list)

    def under_test(self, output: str, value: Value) -> Value:
        """The value, or what the planted defect makes of it."""
        self.outputs.add(output)
        if self.defect and self.defect.output == output:
            value = self.defect.alter(value)
        return value

    def expect(self, right: bool, otherwise: str) -> None:
        if not right:
            self.wrong.append(otherwise)

    def outcome(self, compared: str) -> Outcome:
        more = len(self.wrong) - MOST_SHOWN
        shown = [*self.wrong[:MOST_SHOWN], f"and {more} more"] if more > 0 else self.wrong
        return Outcome(compared, tuple(shown))

    def scaled(self, n: int, least: int = 1) -> int:
        return max(least, round(n * self.factor))


@dataclass(frozen=True)
class Check:
    """One line of the table. level: its largest probability of failure on a sound build."""

    name: str
    shows: str
    run: Callable[[Run], Outcome]
    level: float = 0.0


def instruction_sets() -> tuple[int, ...]:
    """All instruction sets that this machine runs."""
    return _native.ISAS


def sets() -> str:
    n = len(instruction_sets())
    return f"{n} instruction set{'s' if n > 1 else ''}"


def below(n: int) -> int:
    """A random whole number below n, from the system: checks that plant digits do not test it."""
    return int.from_bytes(os.urandom(n.bit_length() // 8 + 9), "little") % n
