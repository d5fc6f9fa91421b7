# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SLF001  selftest alone may reach private tiers (docs/design.md, who may import whom)
"""Tables and thresholds in proved intervals; bounds beside boundaries.

The intervals of tables and thresholds are apart from those of the reference.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, _native
from dpfast.evidence.selftest import reference
from dpfast.evidence.selftest.check import Outcome, Run, below, instruction_sets, sets
from dpfast.privacy.exact import Ball, Digits, alone, ball, flint_at

PRECISION = 512
TABLE_SCALES = Fraction(1, 3), Fraction(1), Fraction(10), Fraction(100), Fraction(128)
TABLE_SIGMAS = Fraction(1), Fraction(10), Fraction(100), Fraction(128)


def geometric_tail(mechanism: DiscreteLaplace | OneSidedGeometric) -> Callable[[int], Ball]:
    """P(|X| >= k), k >= 1."""
    rate = mechanism.epsilon / mechanism.sensitivity
    weight = 1 if isinstance(mechanism, OneSidedGeometric) else 2 / (1 + ball(-rate).exp())
    return lambda k: weight * ball(-k * rate).exp()


def gaussian_tail(mechanism: DiscreteGaussian) -> Callable[[int], Ball]:
    """P(|X| >= k), k >= 1: terms down to 2^-PRECISION, and a geometric series above the rest."""
    from flint import arb

    squared = mechanism.sigma_squared

    def f(k: int) -> Ball:
        return ball(-Fraction(k**2) / (2 * squared)).exp()

    last = next(k for k in itertools.count(1) if k * k > 2 * squared * PRECISION)  # exp(-PRECISION) < 2^-PRECISION
    ratio = ball(-Fraction(2 * last + 1) / (2 * squared)).exp()
    sums = [arb(0, f(last) / (1 - ratio))]
    for k in reversed(range(last)):
        sums.append(sums[-1] + f(k))
    tails = sums[::-1]
    theta = 2 * tails[0] - 1
    return lambda k: 2 * tails[min(k, last)] / theta


def tail_of(mechanism: Any) -> Callable[[int], Ball]:
    return gaussian_tail(mechanism) if isinstance(mechanism, DiscreteGaussian) else geometric_tail(mechanism)


def cells_of(tail: Callable[[int], Ball], bits: int) -> Iterator[int]:
    """The cell of 2^bits that holds P(|X| >= k), k = 1, 2, ... while that is not cell 0."""
    for k in itertools.count(1):
        cell = (tail(k) * 2**bits).floor().unique_fmpz()
        if cell is None:
            raise ArithmeticError("a threshold is too near the edge of a cell for this check")
        if cell == 0:
            return
        yield int(cell)


def tables(run: Run) -> Outcome:
    mechanisms = [
        *(DiscreteLaplace(1, t) for t in TABLE_SCALES), *(OneSidedGeometric(1, t) for t in TABLE_SCALES[1:]),
        *(DiscreteGaussian(sigma) for sigma in TABLE_SIGMAS),
    ]  # fmt: skip
    half, entries = 2**_native.TABLE_BITS, 0
    for at, mechanism in enumerate(mechanisms):
        run.step(at / len(mechanisms))
        with alone, flint_at(PRECISION):
            thresholds = np.array([*cells_of(tail_of(mechanism), _native.TABLE_BITS)][::-1], np.int64)
        cells = np.arange(half)
        above = thresholds.size - np.searchsorted(thresholds, cells, side="right")
        inside = np.isin(cells, thresholds)
        inside[0] = True  # it holds infinitely many
        right = [None if open_ else k for k, open_ in zip(above.tolist(), inside.tolist(), strict=True)]
        found = mechanism._bulk_plan.tier(_native.TABLE, 16, range(2 * half), isa=_native.best_isa())
        found = run.under_test("table", found)
        mirrored = [None if k is None else -k for k in right]
        entries += len(found)
        run.expect(found == right + mirrored, f"{mechanism!r}: an entry is not the law's")
    return run.outcome(f"{entries:,} entries of {len(mechanisms)} tables, each derived anew")


def thresholds(run: Run) -> Outcome:
    seen, sigmas = 0, (Fraction(1, 3), *TABLE_SIGMAS)
    for at, sigma in enumerate(sigmas):
        run.step(at / len(sigmas))
        mechanism = DiscreteGaussian(sigma)
        with alone, flint_at(PRECISION):
            right = [*cells_of(gaussian_tail(mechanism), 64)]
        found = run.under_test("thresholds", mechanism._constant_work_plan.thresholds())
        run.expect(found == right, f"sigma {sigma}: a threshold is not floor(2^64 P(|X| >= k))")
        seen += len(right)
        cells = sorted({cell for at in (*right, 2**64 - 1) for cell in (at - 1, at, at + 1) if 0 < cell < 2**64})
        edges, ascending = {*right}, sorted(right)
        truth = [None if cell in edges else len(right) - bisect_right(ascending, cell) for cell in cells]
        for isa in instruction_sets():
            chosen = mechanism._constant_work_plan.tier(_native.DOUBLE, 64, cells, isa=isa)
            run.expect(chosen == truth, f"sigma {sigma}, {_native.ISA_NAMES[isa]}: a search beside one goes wrong")
    return run.outcome(f"{seen:,} 64-bit thresholds of {len(sigmas)} sigmas, and a search on each side, {sets()}")


# ------------------------------------------------------------------ decisions

TIERS = {"double": _native.DOUBLE, "double-double": _native.DOUBLE_DOUBLE, "integer": _native.INTEGER}


class Tally:
    """Decisions of one tier on planted digits, by instruction sets and by exact arithmetic."""

    def __init__(self, run: Run) -> None:
        self.run, self.decided, self.planted = run, 0, 0

    def compare(self, what: str, truth: list[int | None], tier: Callable[[int], list[int | None]]) -> None:
        for isa in instruction_sets():
            found = self.run.under_test("decisions", tier(isa))
            sure = [(k, right) for k, right in zip(found, truth, strict=True) if k is not None]
            self.run.expect(all(k == right for k, right in sure), f"{what}, {_native.ISA_NAMES[isa]}: wrong")
            self.decided += len(sure)
            self.planted += len(found)


def beside(at: int, bits: int) -> Iterator[int]:
    """Cells at a boundary, next to it, and at random distances of all sizes from it."""
    for move in (-1, 0, 1, *((-1) ** below(2) * (below(at + 1) >> below(bits)) for _ in range(7))):
        if 0 < at + move < 2**bits:
            yield at + move


def spread(most: int) -> int:
    """A number of a random size up to `most`."""
    return min(most, 1 + below(2 ** (1 + below(most.bit_length()))))


def magnitudes(tally: Tally, n: int) -> None:
    """The geometric laws beside their thresholds."""
    scales = 1, 10, 1000, 10**6, 2**20, 10**12, 2**44, 2**60
    mechanisms: list[Any] = [*(DiscreteLaplace(1, t) for t in scales), OneSidedGeometric(1, 1000)]
    for mechanism in mechanisms:
        plan, scale = mechanism._bulk_plan, int(mechanism.scale)
        wide = plan.width + 63
        tiers = {"integer": wide}
        if scale <= 2**44:
            tiers["double"] = 64
        if wide >= 95:
            tiers["double-double"] = wide
        for name, bits in tiers.items():
            with alone, flint_at(PRECISION):
                tail = tail_of(mechanism)
                near = [(tail(spread(35 * scale)) * 2**bits).mid().floor() for _ in range(n)]
            cells = [cell for at in near for cell in beside(int(at.unique_fmpz() or 1), bits)]
            truth = [reference.of(mechanism).magnitude(cell, bits) for cell in cells]
            planted = _tier(plan, name, bits, cells)
            tally.compare(f"{mechanism!r}, {name}", truth, planted)


def _tier(plan: _native.Plan, name: str, bits: int, cells: list[int], **more: Any) -> Callable[[int], list[int | None]]:
    return lambda isa: plan.tier(TIERS[name], bits, cells, isa=isa, **more)


def laplace_grid(tally: Tally, n: int) -> None:
    """The real Laplace law beside the boundaries between steps of the grid."""
    for exponent, tiers in (
        (0, ("double", "integer")),
        (20, ("double", "double-double", "integer")),
        (60, ("double-double", "integer")),
    ):
        ratio = 2**exponent
        mechanism = Laplace(1, 1, granularity=Fraction(1, ratio))
        for name, negative in itertools.product(tiers, (False, True)):
            bits = 64 if name == "double" else 127
            offset = Fraction(below(2**20) - 2**19, 2**20)
            with alone, flint_at(PRECISION):
                heights = [spread(30 * ratio) - Fraction(1, 2) + (offset if negative else -offset) for _ in range(n)]
                near = [(2**bits * ball(-height / ratio).exp()).mid().floor() for height in heights]
            cells = [cell for at in near for cell in beside(int(at.unique_fmpz() or 1), bits)]
            truth = [reference.of(mechanism).rounded(negative, cell, bits, offset) for cell in cells]
            planted = _tier(mechanism._bulk_plan, name, bits, cells, offset=float(offset), negative=negative)
            tally.compare(f"{mechanism!r}, {name}", truth, planted)


def gaussian_grid(tally: Tally, n: int) -> None:
    """The real Gaussian law: an angle, and radii at which a draw crosses a boundary."""
    for exponent, tiers in ((30, ("double", "double-double")), (60, ("double-double",))):  # 128 digits
        ratio = 2**exponent
        mechanism = Gaussian(1, granularity=Fraction(1, ratio))
        for name, sine in itertools.product(tiers, (False, True)):
            offset = Fraction(below(2**20) - 2**19, 2**20)
            cells, angles = [], []
            for _ in range(n):
                flags, v = below(8), below(2**125)
                negative, falling = flags >> (1 if sine else 2) & 1, sine == bool(flags & 1)
                with alone, flint_at(PRECISION):
                    turns = ball(Fraction(v, 2**127))
                    side = turns.cos_pi() if falling else turns.sin_pi()
                    height = ball((spread(6 * ratio) - Fraction(1, 2) + (offset if negative else -offset)) / ratio)
                    at = (2**128 * (-((height / side) ** 2) / 2).exp()).mid().floor().unique_fmpz()
                for cell in beside(int(at or 1), 128):
                    cells.append(cell)
                    angles.append(flags << 125 | v)
            truth = [
                reference.of(mechanism).rounded(Digits(cell, 128), Digits(angle, 128), sine, offset)
                for cell, angle in zip(cells, angles, strict=True)
            ]
            more = {"angles": angles, "offset": float(offset), "sine": sine}
            tally.compare(f"{mechanism!r}, {name}", truth, _tier(mechanism._bulk_plan, name, 128, cells, **more))


def decisions(run: Run) -> Outcome:
    tally, n = Tally(run), run.scaled(200, 8)
    for at, kind in enumerate((magnitudes, laplace_grid, gaussian_grid)):
        run.step(at / 3)
        kind(tally, n)
    run.expect(4 * tally.decided > tally.planted, "the tiers decide next to nothing, so this shows nothing")
    return run.outcome(
        f"{tally.decided:,} decisions right, {tally.planted - tally.decided:,} left open, beside boundaries, {sets()}"
    )
