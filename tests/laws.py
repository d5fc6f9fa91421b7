# SPDX-License-Identifier: Apache-2.0
"""A record a law: how it is made and tested, where its tiers change, its golden file."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import gof
import numpy as np
import pytest
import reference
import tiers

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric

HALF = Fraction(1, 2)
Defect = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class Law(NamedTuple):
    """Scales are in steps of the grid; sigmas for the Gaussians."""

    name: str  # in csrc, in the stream and in tests/vectors
    parameter: str  # what the scale is called in tests/vectors
    make: Callable[[Fraction], Any]
    reference: Callable[[Fraction], Any]  # with cdf, quantile, variance and fourth_moment, symmetric about 0
    scales: list[Fraction]  # the ends of the range, and both sides of each change of width, tier and kernel
    judged: list[Fraction]  # whose draws statistics look at
    small: list[Fraction]  # the same in small calls
    real: bool  # it rounds a real draw about any value
    left: int = 0  # how many of some hundred draws C may leave to the exact tier
    truncated: float = 0.9995  # where a defective tail ends
    defects: dict[str, Defect] = {}  # noqa: RUF012  of its own, at scale 10
    vectors: list[tuple[Fraction, int]] = []  # noqa: RUF012  scales and first draws
    offset: Callable[[int], list[float]] = lambda n: [0.0] * n  # where on the grid the noise of its golden draws begins

    def __str__(self) -> str:
        return self.name


def laplace(ratio: Fraction, exponent: int = 0) -> Laplace:
    """This ratio of scale and granularity, with granularity 2^exponent."""
    return Laplace(1, ratio * Fraction(2) ** exponent, granularity=Fraction(2) ** exponent)


class Signed:
    """The one-sided magnitude with the fair sign that C draws and `sample` takes off."""

    def __init__(self, scale: Fraction) -> None:
        self.scale, self.one_sided = scale, reference.OneSidedGeometric(1 / scale)
        self.variance, self.fourth_moment = self.one_sided.second_moment, self.one_sided.fourth_moment

    def cdf(self, k: int) -> float:
        return 1 - float(self.one_sided.tail(k + 1)) / 2 if k >= 0 else float(self.one_sided.tail(-k)) / 2

    def quantile(self, p: float) -> int:
        away = max(0, math.floor(-float(self.scale) * math.log(2 * min(p, 1 - p))))
        return away if p >= 0.5 else -away


class TwoSided(reference.DiscreteLaplace):
    """With quantiles, which the mechanism finds."""

    def quantile(self, p: float) -> int:
        return DiscreteLaplace(1, 1 / self.rate).quantile(p)


def numbers(text: str) -> list[Fraction]:
    """Fractions as a row of a table writes them: 3/7, 2^20, 10^9/7, 2^-60."""
    found = []
    for word in text.split():
        value = Fraction(1)
        for turn, part in enumerate(word.split("/")):
            base, _, power = part.partition("^")
            value *= (Fraction(base) ** int(power or 1)) ** (-1 if turn else 1)
        found.append(value)
    return found


LAWS = [
    Law(
        "discrete_laplace", "scale", lambda scale: DiscreteLaplace(1, scale), lambda scale: TwoSided(1 / scale),
        scales=numbers("2^-60 1/1000 1/3 1 37/10 100 128 1000 2^12 4097 2^17 10^6 2^20 10^9 10^12 2^44 10^15 2^60"),
        judged=numbers("1/4 1 10 100 1000 10^6 10^12 2^50"), small=numbers("1 1000 2^30"), real=False,
        vectors=[
            (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(10), 2**41 + 100), (Fraction(128), 1),
            (Fraction(1000), 0), (Fraction(2**20), 2**40 + 77), (Fraction(10**9), 0), (Fraction(10**12), 2**39 + 3),
            (Fraction(10**15), 0), (Fraction(2**60), 2**63 - 20_001),
        ],
    ),
    Law(
        "discrete_gaussian", "sigma", DiscreteGaussian, lambda sigma: reference.DiscreteGaussian(sigma**2),
        scales=numbers("1/1000 1/3 1 37/10 10 100 128 129 200 1000 10^4 10^6 1048577 10^9"),
        judged=numbers("1/2 10 100 129 1000 10^6"), small=numbers("1 129"), real=False, left=1, truncated=0.9993,
        vectors=[
            (Fraction(1, 1000), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(10), 2**41 + 100), (Fraction(128), 1),
            (Fraction(129), 64), (Fraction(1000), 2**40 + 77), (Fraction(10**4), 0), (Fraction(2**20), 2**39 + 3),
            (Fraction(10**9), 2**63 - 20_001),
        ],
    ),
    Law(
        "laplace", "ratio", laplace, reference.Laplace,
        scales=numbers("2^-60 2^-20 1/1000 1/3 1 37/10 1000 2^17 13631488/9 2^21 10^9/7 10^12 2^40 2^44 10^15/3 2^60"),
        judged=numbers("1/4 1 10 1000 2^21 10^9 2^44 2^47"), small=numbers("1 2^21 2^42"), real=True,
        vectors=[
            (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(1000), 2**41 + 100),
            (Fraction(2**20 * 13, 9), 1), (Fraction(2**21), 2**40 + 77), (Fraction(10**9), 0), (Fraction(10**12), 2**39 + 3),
            (Fraction(2**44), 0), (Fraction(10**15), 0), (Fraction(2**60), 2**63 - 20_001),
        ],
        offset=lambda n: [(i * 37 % 65 - 32) / 66 for i in range(n)],
    ),
    Law(
        "gaussian", "ratio", lambda ratio: Gaussian(ratio, granularity=1), lambda ratio: reference.Gaussian(ratio**2),
        scales=numbers("2^-60 2^-30 1/1000 1/3 1 37/10 1000 2^16 2^20 2^21 10^9/7 2^40 2^48 10^17/7 2^60"),
        judged=numbers("1/2 10 100 10^6 2^30 2^45"), small=numbers("1/2 2^20"), real=True, left=1,
        defects={
            "shifted by a tenth of sigma": lambda x, rng: x + round(x.std() / 10),
            "a normal without its tail of the radius": lambda x, rng: np.rint(
                gof.stats.norm.ppf(rng.uniform(2**-12, 1 - 2**-12, x.size)) * 10
            ).astype(int),
        },
        vectors=[
            (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 64), (Fraction(10), 2**41 + 100), (Fraction(2**21), 1),
            (Fraction(10**9, 7), 2**40 + 77), (Fraction(2**40), 0), (Fraction(2**48), 2**39 + 3), (Fraction(2**60), 2**63 - 20_001),
        ],
    ),
    Law(
        "one_sided_geometric", "scale", lambda scale: OneSidedGeometric(1, scale), Signed,
        scales=numbers("2^-60 1/1000 1/3 1 37/10 128 1000 2^17 2^20 10^9 2^44 10^15 2^60"),
        judged=numbers("1/4 1 10 100 1000 10^6 2^50"), small=numbers("10"), real=False, left=1,
        defects={"the two-sided magnitude": lambda x, rng: np.where(rng.random(x.size) < 0.05, x - np.sign(x), x)},
    ),
]  # fmt: skip
BY_NAME = {law.name: law for law in LAWS}


def over(*fields: str, laws: list[Law] = LAWS) -> pytest.MarkDecorator:
    """A test of each law at each of its scales in these fields of its record."""
    cases = [(law, scale) for law in laws for field in fields for scale in getattr(law, field)]
    return pytest.mark.parametrize(("law", "scale"), cases, ids=str)


def noise(law: Law, mechanism: Any, n: int, key: bytes) -> np.ndarray:
    """n draws under one key by the fused kernel, as a release of zeros has them, in grid steps."""
    if law.real:
        return (tiers.noised(mechanism, np.zeros(n), key) / mechanism.granularity).astype(np.int64)
    return tiers.drawn(mechanism, n, tiers.StreamKey(key))


@cache
def reference_of(law: str, scale: Fraction) -> Any:
    found = BY_NAME[law].reference(scale)
    for name in ("cdf", "quantile", "variance", "fourth_moment"):
        setattr(found, name, cache(getattr(found, name)))
    return found


def judged(law: Law, scale: Fraction, draws: np.ndarray) -> list[str]:
    """What is wrong with draws of this law, at a false-alarm rate of 1e-9."""
    right = reference_of(law.name, scale)
    return gof.rejections(draws, right.cdf, right.quantile, right.variance(), right.fourth_moment())


def exact_draws(law: Law, mechanism: Any, read: Any, start: int, offsets: list[float]) -> list[int]:
    """The exact tier's draws from `start` on, of these digits; for a real law about grid places."""
    exact = tiers.law(mechanism)
    return [exact.draw(read, start + i, *([Fraction(f)] if law.real else [])) for i, f in enumerate(offsets)]


def filled(
    law: Law, plan: tiers.Plan, key: tiers.StreamKey, start: int, offsets: list[float], *, constant_work: bool, isa: int = 0
) -> list[int | None]:  # fmt: skip
    """C's draws of these, None where it leaves one open; the sign of a one-sided draw taken off."""
    places = {"offset": offsets} if law.real else {}
    found = plan.fill(key, start, len(offsets), constant_work=constant_work, isa=isa, **places)
    return [k if k is None else abs(k) for k in found] if law.name == "one_sided_geometric" else found


def expected(
    mech: Any, values: np.ndarray, key: bytes, first: int = 0, single: bool = False,
    lower: float = -math.inf, upper: float = math.inf,
) -> np.ndarray:  # fmt: skip
    """The exact sum, rounded to the grid and then once to a float, by rationals alone."""
    stream, grid = tiers.StreamKey(key), Fraction(2) ** tiers.exponent(mech)
    law, read, bound, found = tiers.law(mech), tiers.reader(mech, stream), tiers.bound(mech), []
    for i, value in enumerate(values.reshape(-1).tolist()):
        x = Fraction(value) if bound is None else min(max(Fraction(value), -Fraction(bound)), Fraction(bound))
        near = reference.nearest_float(law.draw(read, first + i, x / grid) * grid, single)
        found.append(min(max(near, lower), upper))
    return np.array(found).reshape(values.shape)


def fixed(mechanism: Any, values: object, **options: Any) -> np.ndarray:
    """A release whose noise is always the same."""
    with tiers.fixed_stream():
        return mechanism.release(values, **options)
