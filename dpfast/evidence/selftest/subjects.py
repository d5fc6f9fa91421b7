# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SLF001  selftest alone may reach private tiers (docs/design.md, who may import whom)
"""Every law at parameters that reach each of its words and tiers, and its draws by every path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, Snapping, _native
from dpfast.evidence.selftest import reference
from dpfast.noise.mechanisms.laws import LAWS
from dpfast.noise.mechanisms.noise_source import noise_source


@dataclass(frozen=True)
class Subject:
    """A mechanism with a name; for a real law also the value's place on the grid."""

    name: str
    mechanism: Any
    offset: float | None = None

    @property
    def law(self) -> str:
        return self.name.split()[0]

    @property
    def releases(self) -> bool:
        """Whether it is a mechanism, and not noise alone."""
        return not isinstance(self.mechanism, OneSidedGeometric)

    @property
    def granularity(self) -> float:
        return float(self.mechanism.granularity) if self.offset is not None else 1

    def plan(self, *, constant_work: bool) -> _native.Plan:
        chosen: _native.Plan = self.mechanism._constant_work_plan if constant_work else self.mechanism._bulk_plan
        return chosen

    def exact(self, stream: _native.StreamKey) -> Callable[[int], int]:
        """A draw by its number, as the reference has it."""
        law, read = reference.of(self.mechanism), reference.reader(self.mechanism, stream)
        at = () if self.offset is None else (Fraction(self.offset),)
        return lambda i: law.draw(read, i, *at)

    def in_c(
        self, stream: _native.StreamKey, start: int, n: int, *, constant_work: bool, isa: int | None = None
    ) -> list[int | None]:
        """Draws as C makes them, None where it leaves one to the last tier."""
        offset = None if self.offset is None else [self.offset] * n
        found = self.plan(constant_work=constant_work).fill(
            stream, start, n, constant_work=constant_work, isa=isa, offset=offset
        )
        if self.releases:
            return found
        return [None if k is None else abs(k) for k in found]  # a fair sign comes off again

    def draws(
        self, stream: _native.StreamKey, start: int, n: int, *, constant_work: bool, isa: int | None = None
    ) -> list[int]:
        """All draws, whichever tier decides them."""
        last = self.exact(stream)
        found = self.in_c(stream, start, n, constant_work=constant_work, isa=isa)
        return [last(start + i) if k is None else k for i, k in enumerate(found)]


def of_scales(law: str) -> tuple[Subject, ...]:
    """A law that is known by its name alone, at three scales."""
    offset = None if LAWS[law].INTEGERS else 0.375
    return tuple(Subject(f"{law} scale {scale}", noise_source(law, scale), offset) for scale in (1, 10, 1000))


@cache
def subjects() -> tuple[Subject, ...]:
    """Scales, sigmas and ratios on each side of every boundary between tiers."""
    scales = Fraction(1, 3), Fraction(1), Fraction(10), Fraction(100), Fraction(1000), Fraction(10**6), Fraction(10**12)
    found = [Subject(f"discrete_laplace scale {t}", DiscreteLaplace(1, t)) for t in (*scales, Fraction(2**60))]
    found += [Subject(f"one_sided_geometric scale {t}", OneSidedGeometric(1, t)) for t in (1, 1000, 2**50)]
    sigmas = Fraction(1), Fraction(37, 10), Fraction(100), Fraction(129), Fraction(10**6)
    found += [Subject(f"discrete_gaussian sigma {sigma}", DiscreteGaussian(sigma)) for sigma in sigmas]
    for ratio in (20, 30, 42, 60):
        grid = Fraction(1, 2**ratio)
        found.append(Subject(f"laplace ratio 2**{ratio}", Laplace(1, 1, granularity=grid), 0.375))
        found.append(Subject(f"gaussian ratio 2**{ratio}", Gaussian(1, granularity=grid), -0.125))
    found += [
        Subject("laplace ratio 1/3", Laplace(3, 1, granularity=1), 0.375),
        Subject("gaussian ratio 3", Gaussian(3, granularity=1), 0.5),
    ]
    found += [Subject(f"snapping ratio {r}", Snapping(1, r, bound=1024), 0.25) for r in (Fraction(1), Fraction(3, 4))]
    return tuple(found)
