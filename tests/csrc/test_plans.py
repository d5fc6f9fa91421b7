# SPDX-License-Identifier: Apache-2.0
"""Plans that C makes: bit for bit those of Python's numbers, or refused."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
import plans
import pytest
import tiers
from proofs import MODES, entered

from dpfast import DiscreteGaussian
from dpfast.errors import DpfastError
from dpfast.evidence.selftest import reference

TINY, LESS = Fraction(1, 2**1000), Fraction(1, 2**12_000)  # as little as a ratio of 192 limbs can tell beside 2^120
CUT = 2.0**-255  # floats of a plan are made from 256 digits behind the point


class Law(NamedTuple):
    """A law in C, its plans once more, and the scales, or their squares, that it takes."""

    name: str
    right: Callable[[Fraction], dict[str, Any]]
    least: Fraction
    most: Fraction
    limits: tuple[int, ...]  # powers of two at which tiers or words change
    one_sided: bool = False
    exact: Callable[[Fraction], Any] | None = None

    def plan(self, scale: Fraction) -> Any:
        return tiers.made_plan(self.name, scale, one_sided=self.one_sided)


def _gaussian(squared: Fraction) -> dict[str, Any]:
    return plans.normal(squared, short=squared <= 2**42)


LAWS = {
    "discrete_laplace": Law(
        "discrete_laplace", lambda t: plans.geometric(reference.DiscreteLaplace(1 / t), t), Fraction(1, 2**60),
        Fraction(2**60), (7, 12, 17, 20, 40, 43), exact=lambda t: reference.DiscreteLaplace(1 / t),
    ),
    "one_sided": Law(
        "discrete_laplace", lambda t: plans.geometric(reference.OneSidedGeometric(1 / t), t), Fraction(1, 2**60),
        Fraction(2**60), (7, 12, 17, 20, 40, 43), one_sided=True, exact=lambda t: reference.OneSidedGeometric(1 / t),
    ),
    "laplace": Law("laplace", plans.laplace, Fraction(1, 2**60), Fraction(2**60), (17, 21, 40, 44)),
    "gaussian": Law("gaussian", _gaussian, Fraction(1, 2**120), Fraction(2**120), (32, 42, 80)),
    "discrete_gaussian": Law(
        "discrete_gaussian", plans.discrete_gaussian, Fraction(1, 10**6), Fraction(10**18), (14, 24, 26, 32, 40),
        exact=reference.DiscreteGaussian,
    ),
}  # fmt: skip
BY_NAME = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def equal(law: Law, scale: Fraction) -> None:
    """Every field of the plan, and every bit of it; but of t_low what 256 digits do not hold."""
    right, found = law.right(scale), tiers.fields(law.plan(scale))
    for name, value in found.items():
        wanted = right.get(name, 0)
        if name == "t_low" and abs(value - wanted) <= CUT:
            continue
        assert np.array_equal(value, wanted), (scale, name, value, wanted)
        assert not isinstance(value, float) or value.hex() == float(wanted).hex(), (scale, name)


def drawn(law: Law, chance: random.Random) -> Fraction:
    """A scale of one of seven kinds."""
    least, most = (value.numerator.bit_length() - value.denominator.bit_length() for value in (law.least, law.most))
    while True:
        power = chance.randrange(least, most + 1)
        bits = chance.choice([300, 300, 4000])
        found = chance.choice([
            lambda: Fraction(chance.randrange(1, 10**6), chance.randrange(1, 10**6)),
            lambda: Fraction(str(round(2.0 ** min(power, 60), chance.randrange(9)))),
            lambda: Fraction(2.0 ** (power + chance.random())),
            lambda: Fraction(2) ** power + chance.choice([-1, 0, 1]) * TINY,
            lambda: Fraction(2 * chance.getrandbits(53) + 1) * Fraction(2) ** (power - 54),  # between two doubles
            lambda: (Fraction(2 * chance.getrandbits(53) + 1) + Fraction(1, 2**100)) * Fraction(2) ** (power - 54),
            lambda: Fraction(chance.getrandbits(bits) | 1, chance.getrandbits(bits) | 1) * Fraction(2) ** power,
        ])()  # fmt: skip
        if law.least <= found <= law.most:
            return found


def many(law: Law, n: int) -> None:
    chance = random.Random(f"plans of {law.name}")
    for _ in range(n):
        scale = drawn(law, chance)
        if law.name != "discrete_gaussian" or scale > 2**14 or chance.randrange(8) == 0:  # balls take 30 ms
            equal(law, scale)


@BY_NAME
def test_plans_are_those_of_the_reference(law: Law) -> None:
    """Fractions, decimals, doubles, powers of two and beside them, and ratios of 4,000 bits."""
    many(law, 150)


@pytest.mark.slow
@BY_NAME
def test_many_plans_are(law: Law) -> None:
    many(law, 2000)


@BY_NAME
def test_limits_are_exact(law: Law) -> None:
    """At a limit, and beside it by less than a plan holds: tiers, widths, and refusals."""
    limits = [*(Fraction(2) ** power for power in law.limits), law.most]
    for scale in (*limits, law.least):
        for beside in (-TINY, Fraction(0), TINY, *([-LESS, LESS] if scale in limits else [])):
            near = scale + beside
            if law.least <= near <= law.most:
                equal(law, near)
            else:
                with pytest.raises(DpfastError, match="there is no plan"):
                    law.plan(near)
    if law.name == "discrete_gaussian":  # where 2^16 * 3.85/sigma^2 is whole
        for m in range(1, 16):
            equal(law, Fraction(2523136, 10 * m))
    for beyond in (law.least / 2, law.most * 2, Fraction(1, 2**4000), Fraction(2**4000)):
        with pytest.raises(DpfastError, match=f"there is no plan of the {law.name} law"):
            law.plan(beyond)


@pytest.mark.parametrize("law", [law for law in LAWS.values() if law.exact], ids=lambda law: law.name)
def test_tables_are_those_of_the_reference(law: Law) -> None:
    """Each of 2^16 entries; none where bulk releases begin at no table."""
    for scale in (law.least, Fraction(1, 3), Fraction(1), Fraction(10), Fraction(997, 10), Fraction(128)):
        plan, cells = law.plan(scale), law.exact(scale).table(tiers.TABLE_BITS)
        assert np.array_equal(tiers.table(plan), plans.signed_table(cells)), scale
    without = law.plan(Fraction(2**20))
    assert without.tabled() is without


@pytest.mark.parametrize(
    ("above", "below"),
    [([], [1]), ([1], []), ([0], [1]), ([1], [0]), ([1, 0], [1]), ([1], [1, 0]), ([1] * 193, [1] * 193)],
)
def test_what_is_no_ratio_is_refused(above: list[int], below: list[int]) -> None:
    """No limbs, a last limb of 0, too many limbs: no plan, and zeros in its place."""
    for law in range(1, 5):
        assert tiers.plan_status(law, above, below) == (tiers.NO_SCALE, True)
    assert tiers.plan_status(1, [1] * 192, [1] * 192) == (0, False)


@pytest.mark.parametrize("beside", [-1, 1])
def test_a_threshold_beside_an_edge(beside: int) -> None:
    """By Newton's step T_1 is 2^-184 beside a multiple of 2^-64, and decided; 2^-314 is refused."""
    with mpmath.workprec(1200):

        def first(squared: mpmath.mpf) -> mpmath.mpf:
            terms = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * squared)) for k in range(1, 60)]
            return 2 * sum(terms) / (1 + 2 * sum(terms)) * 2**64

        edge = int(first(mpmath.mpf("1.7")))

        def squared(near: int) -> Fraction:
            wanted = edge + beside * mpmath.mpf(2) ** -near
            found = mpmath.findroot(
                lambda x: first(x) - wanted, (mpmath.mpf("1.69"), mpmath.mpf("1.71")), tol=mpmath.mpf(2) ** -1000
            )
            return Fraction(int(mpmath.floor(found * 2**600)), 2**600)

        plan = tiers.made_plan("discrete_gaussian", squared(120))
        assert plan.thresholds()[0] == (edge if beside > 0 else edge - 1)
        with pytest.raises(DpfastError, match="sigma_squared brings a probability too near"):
            tiers.made_plan("discrete_gaussian", squared(250))
        counts, out = np.full(5, 999), np.full(5, 777)
        with pytest.raises(DpfastError, match="give it fewer digits"):
            DiscreteGaussian(sigma_squared=squared(250)).release(counts, out=out)
        assert set(out.tolist()) <= {0, 777}


def test_the_host_has_no_say(host: ctypes.CDLL) -> None:
    """Under each rounding mode, and with subnormals flushed, plans and tables are the same."""
    scales = {law: law.most / 3 if law.name == "laplace" else Fraction(1000, 7) for law in LAWS.values()}

    def texts(plans: dict[str, Any]) -> dict[str, dict[str, str]]:
        return {law: {name: repr(value) for name, value in tiers.fields(plan).items()} for law, plan in plans.items()}

    right = texts({law.name: law.plan(scale) for law, scale in scales.items() if not law.one_sided})
    for mode in MODES:
        with entered(host, mode, flush=mode != "ne"):
            found = {law.name: law.plan(scale) for law, scale in scales.items() if not law.one_sided}
        assert texts(found) == right


def test_what_was_there_before_does_not_matter() -> None:
    """Zeros are written behind the thresholds; and nothing of a plan is left as it was."""
    squared = Fraction(100)
    right, (status, thresholds) = (
        tiers.fields(tiers.made_plan("discrete_gaussian", squared)),
        tiers.over_ones(4, squared),
    )
    size = len(right["thresholds"])
    assert status == 0
    assert thresholds[:size] == right["thresholds"].tolist()
    assert set(thresholds[size:]) == {2**64 - 1}
    for law in (-(2**31), -1, 0, 5, 10**6):
        assert tiers.plan_status(law, [1], [1])[0] == tiers.NO_SCALE


def test_the_most_thresholds_fit() -> None:
    """sigma = 128 has the most: they, and the zeros behind, have room; each is the reference's."""
    found = tiers.fields(tiers.made_plan("discrete_gaussian", Fraction(2**14)))
    assert len(found["thresholds"]) <= tiers.THRESHOLDS
    right = reference.DiscreteGaussian(Fraction(2**14)).thresholds()
    assert (found["thresholds"][: len(right)].tolist(), len(right)) == (right, 1172)
    assert DiscreteGaussian(128).release([0] * 5).shape == (5,)
