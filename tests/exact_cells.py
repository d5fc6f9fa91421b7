# SPDX-License-Identifier: Apache-2.0
"""Cells of digits beside boundaries, and what the exact tier and the reference make of them.

mpmath finds where boundaries lie. tests/csrc/test_exact_tier.py plants some, and `.ci/deep cells`
very many.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import mpmath
import tiers
from mpmath import mpf

from dpfast import Gaussian, Laplace
from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.privacy.exact import Digits

PRECISION = 1800  # bits in mpmath


def exact_tier(
    plan: tiers.Plan, words: list[Digits], *, offset: float = 0.0, sine: bool = False, proposal: int | None = None
) -> Any:
    """The last tier of C on these words: an outcome, or whether a proposal is accepted; or None."""
    if proposal is not None:
        return tiers.exactly_accepts(plan, proposal, words[0])
    return tiers.exactly(plan, words, offset, sine=sine)


OFFSETS = [
    0.0, 0.5, -0.5, 0.5 - 2.0**-54, -0.5 + 2.0**-54, 0.3, -0.0625, 2.0**-60, -(2.0**-52), 3 * 2.0**-700, -(2.0**-699)
]  # fmt: skip
TINY = [2.0**-701, -(2.0**-701), 1.7 * 2.0**-750, -(2.0**-800), 1.3 * 2.0**-830, 2.0**-833, -5e-324, 5e-324]
# scale/granularity or sensitivity/epsilon, and how many digits behind the sign are planted
LENGTHS = {
    Fraction(1, 2**60): (15, 143, 655), Fraction(1, 7): (15, 79, 655), Fraction(1): (15, 79, 655, 703),
    Fraction(37, 10): (64, 655, 703), Fraction(2**7): (31, 655), Fraction(10**6, 9973): (31, 95, 655, 671),
    Fraction(2**20): (95, 671), Fraction(10**17, 7): (63, 127, 703), Fraction(2**60): (127, 191, 703),
}  # fmt: skip


def real(value: Fraction | float) -> mpf:
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def beside(edge: mpf, bits: int, far: int = 2) -> set[int]:
    """The cell of [0, 1) with an edge inside, and those beside it."""
    cell = int(mpmath.floor(edge * mpf(2) ** bits))
    return {cell + d for d in range(-far, far + 1) if 0 <= cell + d < 2**bits}


def ends_of(bits: int, rng: random.Random) -> set[int]:
    """The ends of [0, 1), and cells anywhere."""
    some = {rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(3)}
    return {0, 1, 2**bits - 1, 2**bits - 2, 2 ** (bits - 1), 2 ** (bits - 1) - 1, *some}


def plan_of(mechanism: Any, **changed: Any) -> tiers.Plan:
    if not changed:
        return tiers.constant_work_plan(mechanism)
    return tiers.Plan(mechanism.LAW, **tiers.constants(mechanism) | changed)


Found = list[tuple[Any, Any]]  # outcomes: of C, and of the reference


def weight(mechanism: Any, t: mpf) -> mpf:
    return mpf(0) if isinstance(mechanism, OneSidedGeometric) else mpmath.ln(2 / (1 + mpmath.exp(-1 / t)))


def integer_cells(mechanism: Any, bits: int, rng: random.Random, thresholds: int = 4) -> set[int]:
    """Beside thresholds anywhere, in each a cell that holds one; and ends."""
    cells = ends_of(bits, rng)
    with mpmath.workprec(PRECISION):
        t = real(tiers.law(mechanism).scale)
        c = weight(mechanism, t)
        for _ in range(thresholds):
            u = mpf(rng.getrandbits(53) + 1) / 2**53 * mpf(2) ** -rng.choice([0, 0, rng.randrange(bits)])
            k = max(1, int(mpmath.floor(t * (c - mpmath.ln(u)))))
            cells |= beside(mpmath.exp(c - k / t), bits, rng.choice([1, 2]))
    return cells


def integers(mechanism: Any, plan: tiers.Plan, bits: int, cells: Iterable[int]) -> Iterator[tuple[Any, Any]]:
    law = tiers.law(mechanism)
    for i, cell in enumerate(cells):
        right, negative = law.magnitude(cell, bits), i % 2
        yield exact_tier(plan, [Digits(negative << bits | cell, bits + 1)]), right and (-right if negative else right)


def edges(offset: float, t: mpf, most: mpf, rng: random.Random, many: int) -> Iterator[mpf]:
    """Sizes M up to `most`, over t, at which floor(offset + 1/2 + M) or that of -M changes."""
    for _ in range(many):
        for sign in (1, -1):
            rest = Fraction(1, 2) - sign * Fraction(offset)  # to the next integer
            yield real(rest + int(rng.random() * most * t)) / t
            yield real(rest) / t


def laplace_cells(t: mpf, bits: int, offset: float, rng: random.Random, many: int) -> set[int]:
    reach = mpf(bits) * rng.random()
    chosen = {edge for edge in edges(offset, t, reach, rng, many) if edge < bits}
    return {cell for edge in chosen for cell in beside(mpmath.exp(-edge), bits, 1)}


def rounded(
    mechanism: Any, plan: tiers.Plan, bits: int, cells: Iterable[int], offset: float
) -> Iterator[tuple[Any, Any]]:
    law = tiers.law(mechanism)
    for cell, negative in product(cells, (False, True)):
        word = Digits(negative << bits | cell, bits + 1)
        yield exact_tier(plan, [word], offset=offset), law.rounded(negative, cell, bits, Fraction(offset))


def laplace_of(ratio: Fraction) -> Laplace:
    return Laplace(1, ratio, granularity=1)


RATIOS = {
    Fraction(1, 2**60): (2, 64, 704), Fraction(1, 3): (32, 128, 672), Fraction(1): (5, 128, 672, 704),
    Fraction(1000): (96, 672), Fraction(2**21): (96, 160, 672), Fraction(10**13, 3): (128, 704),
    Fraction(2**60): (192, 704),
}  # fmt: skip


def gaussian_of(ratio: Fraction) -> Gaussian:
    """Its ratio is no rational."""
    return Gaussian(sigma_squared=ratio**2 * Fraction(*(8, 7) if ratio < 1 else (6, 7)), granularity=1)


Box = tuple[Digits, Digits, bool]  # U's digits; the flags' and v's; the second draw of a pair


def boxes(t: mpf, bits: int, offset: float, rng: random.Random) -> Iterator[Box]:
    """A cell of v and cells of U beside the two at whose corners a boundary is; ends of U."""
    v_bits, sine, flags = max(bits - 3, 0), rng.random() < 0.5, rng.randrange(8)
    anywhere = rng.randrange(2**v_bits)
    v = rng.choice([0, 2**v_bits - 1, anywhere, anywhere >> rng.randrange(v_bits + 1)])
    falling = sine == bool(flags & 1)
    cells = {0, 2**bits - 1, rng.getrandbits(bits) >> rng.randrange(bits)}
    for corner in (v, v + 1):
        angle = mpmath.pi / 4 * corner / mpf(2) ** v_bits
        side = mpmath.cos(angle) if falling else mpmath.sin(angle)
        reach = mpmath.sqrt(2 * mpf(bits)) * rng.random() * side
        if side:
            sizes = edges(offset, t, reach, rng, 1)
            cells |= {cell for size in sizes for cell in beside(mpmath.exp(-((size / side) ** 2) / 2), bits, 1)}
    for cell in sorted(cells):
        yield Digits(cell, bits), Digits(flags << v_bits | v, v_bits + 3), sine


def normals(mechanism: Any, plan: tiers.Plan, offset: float, planted: Iterable[Box]) -> Iterator[tuple[Any, Any]]:
    law = tiers.law(mechanism)
    for radius, angle, sine in planted:
        ours = exact_tier(plan, [radius, angle], offset=offset, sine=sine)
        yield ours, law.rounded(radius, angle, sine, Fraction(offset))


@cache
def falling_sums(sigma: Fraction) -> list[mpf]:
    """P(|X| >= k), k = 1, 2, ..., down to 2^-720."""
    with mpmath.workprec(1100):
        found, total, k = [], mpf(0), 0
        while not found or found[-1] > mpf(2) ** -1000:
            k += 1
            found.append(mpmath.exp(-(k**2) / (2 * real(sigma) ** 2)))
        sums = []
        for f in reversed(found):
            total += f
            sums.append(total)
        return [s for s in (2 * s / (1 + 2 * total) for s in reversed(sums)) if s > mpf(2) ** -720]


def inversion_cells(sigma: Fraction, bits: int, rng: random.Random, many: int) -> set[int]:
    with mpmath.workprec(1100):
        above = [s for s in falling_sums(sigma) if s > mpf(2) ** -bits]
        chosen = rng.sample(above, min(many, len(above)))
        cells = {cell for s in [*above[:1], *above[-1:], *chosen] for cell in beside(s, bits, 1)}
    return cells | {0, 1, 2**bits - 1, rng.getrandbits(bits)}


REJECTING = [
    Fraction(2**14) + Fraction(1, 9),
    Fraction(129) ** 2,
    Fraction(10**6),
    Fraction(10**12) / 7,
    Fraction(10**18),
]


def acceptance_cells(squared: Fraction, k: int, bits: int) -> set[int]:
    """Beside A(0)/A(k), by the integral in closed form."""
    with mpmath.workprec(PRECISION):
        root = mpmath.sqrt(2 * real(squared))
        mass = mpmath.erfc((k - mpf(1) / 2) / root) - mpmath.erfc((k + mpf(1) / 2) / root)
        accepted = 2 * mpmath.erf(1 / (2 * root)) * mpmath.exp(-(k**2) / root**2) / mass
        return beside(accepted, bits)


def acceptances(mechanism: Any, plan: tiers.Plan, k: int, bits: int, cells: Iterable[int]) -> Iterator[tuple[Any, Any]]:
    law = tiers.law(mechanism)
    for cell in cells:
        right = law.accepts(k, cell, bits)
        yield exact_tier(plan, [Digits(cell, bits)], proposal=k), right
        assert exact_tier(plan, [Digits(cell, bits)], proposal=-k) == right


def moved(mechanism: Any, by: int) -> tiers.Plan:
    """A plan whose scale is off by 2^by of itself."""
    scale = tiers.constants(mechanism)["scale"]
    return plan_of(mechanism, scale=scale + (scale >> -by))


def acceptances_alone(
    mechanism: Any, plan: tiers.Plan, k: int, bits: int, cells: Iterable[int]
) -> Iterator[tuple[Any, Any]]:
    law = tiers.law(mechanism)
    for cell in cells:
        yield exact_tier(plan, [Digits(cell, bits)], proposal=k), law.accepts(k, cell, bits)
