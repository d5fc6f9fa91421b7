# SPDX-License-Identifier: Apache-2.0
"""What equal mechanisms share: what a constructor found, and plans. No caller can tell."""

from __future__ import annotations

import gc
import inspect
import numbers
import pickle
import threading
from abc import ABCMeta
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import tiers
from fresh import FORKED, python

from dpfast import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    OneSidedGeometric,
    Sensitivity,
    Snapping,
    noise_source,
)
from dpfast.errors import DTypeError, ParameterError

MADE: dict[str, Callable[[], Any]] = {
    "discrete_laplace": lambda: DiscreteLaplace(1, 10.0, unit="household"),
    "one_sided_geometric": lambda: OneSidedGeometric(Fraction(1, 3), sensitivity=1),
    "laplace": lambda: Laplace(1, 10, granularity=0.5),
    "snapping": lambda: Snapping(1, 1, bound=1024, adjacency="substitution"),
    "gaussian": lambda: Gaussian(sigma_squared=7),
    "discrete_gaussian": lambda: DiscreteGaussian(0.1),
}
ZERO = np.zeros(5000, np.int64)


def checks() -> tuple[int, int]:
    """How often arguments were found, and how often they were checked and kept."""
    info = tiers.kept_for_equals[1].cache_info()
    return info.hits, info.misses


@pytest.mark.parametrize("law", MADE)
def test_equal_arguments_make_equal_mechanisms_of_their_own(law: str) -> None:
    """The second is not checked: state, figures, text and pickle are the first's."""
    one, other = MADE[law](), MADE[law]()
    assert checks() == (1, 1)
    assert one is not other
    assert one == other
    assert vars(one) == vars(other)
    assert vars(one) is not vars(other)
    assert (repr(one), one.metadata(), pickle.dumps(one)) == (repr(other), other.metadata(), pickle.dumps(other))
    assert tiers.constant_work_plan(one) is tiers.constant_work_plan(other)
    assert tiers.bulk_plan(one) is tiers.bulk_plan(other)


@pytest.mark.parametrize("law", MADE)
def test_a_constructor_still_shows_its_parameters(law: str) -> None:
    kind = type(MADE[law]())
    assert "adjacency" in inspect.signature(kind).parameters or "sigma" in inspect.signature(kind).parameters
    with pytest.raises(TypeError, match="wrong"):
        kind(1, wrong=2)


def test_equal_numbers_of_other_types_are_checked_for_themselves() -> None:
    """They are taken or refused as ever, after 1 was kept; and share the plan if they are taken."""
    plan = tiers.constant_work_plan(DiscreteLaplace(1, 10))
    for refused in (True, np.True_, 1 + 0j, b"1", [1]):
        for arguments in ((refused, 10), (10, refused)):
            with pytest.raises(DTypeError):
                DiscreteLaplace(*arguments)
    for taken in (1.0, Fraction(1), Decimal(1), "1", np.int64(1), np.float64(1), np.float32(1)):
        made = DiscreteLaplace(taken, 10)
        assert made == DiscreteLaplace(1, 10)
        assert type(made.epsilon) is Fraction
        assert tiers.constant_work_plan(made) is plan


def test_nearby_numbers_are_others() -> None:
    scales = [2**53, 2**53 + 1, 2.0**53, Fraction(2**53 * 3 + 1, 3), 0.1, Fraction(1, 10)]
    assert [DiscreteLaplace(1, each).sensitivity for each in scales * 2] == [Fraction(each) for each in scales * 2]


def test_a_refusal_is_not_kept() -> None:
    """Each names what it was given; zeros, infinities and nan among them."""
    nan = float("nan")
    for epsilon, shown in ((0, "0"), (0.0, "0.0"), (-0.0, "-0.0"), (nan, "nan"), (nan, "nan"), (1e300, "1e\\+300")):
        for _ in range(2):
            with pytest.raises(ParameterError, match=f"got (epsilon=)?{shown}"):
                DiscreteLaplace(epsilon, 1)
    assert tiers.kept_for_equals[1].cache_info().currsize == 0


class Moody(numbers.Rational):
    """A number that is always equal to 1, and grows each time that it is read."""

    def __init__(self) -> None:
        self.now = 0

    @property
    def numerator(self) -> int:
        self.now += 1
        return self.now

    denominator = 1
    __hash__, __eq__ = lambda _: hash(1), lambda *_: True


for name in Moody.__abstractmethods__:
    setattr(Moody, name, lambda *_: None)
Moody.__abstractmethods__ = frozenset()


class Pretender(int):
    """An int of one value that is equal to all."""

    __hash__, __eq__ = lambda _: hash(1), lambda *_: True


def test_numbers_with_a_mind_of_their_own_meet_no_other() -> None:
    """They are read each time, and neither find what was kept nor leave anything."""
    moody = Moody()
    assert DiscreteLaplace(1, 10).epsilon == 1
    first = DiscreteLaplace(moody, 10).epsilon
    assert DiscreteLaplace(moody, 10).epsilon > first
    assert DiscreteLaplace(Pretender(5), 10).epsilon == 5
    assert DiscreteLaplace(Pretender(6), 10).epsilon == 6
    assert DiscreteLaplace(1, 10).epsilon == 1
    assert noise_source("laplace", moody).scale != noise_source("laplace", moody).scale


class Meta(ABCMeta):
    """Its classes call themselves equal to DiscreteLaplace, or to int."""

    __hash__, __eq__ = lambda cls: hash(cls.like), lambda *_: True


class Quiet(DiscreteLaplace, metaclass=Meta):
    """A mechanism that calls itself equal to any other, and has next to no noise."""

    like = DiscreteLaplace
    __hash__, __eq__ = lambda _: hash(DiscreteLaplace(1, 10)), lambda *_: True
    _scale = Fraction(1, 2**50)  # type: ignore[assignment]


class Loud(DiscreteLaplace, metaclass=Meta):
    """An honest one that calls its class equal."""

    like = DiscreteLaplace


class LikeInt(int, metaclass=Meta):
    like = int
    __hash__, __eq__ = int.__hash__, int.__eq__


def test_a_class_that_calls_itself_equal_gets_nothing_and_gives_nothing() -> None:
    for one in (1, Decimal(1)):
        tiers.forget_equals()
        assert not np.any(Quiet(one, 10).release(ZERO))
        for honest in (DiscreteLaplace, Loud):
            assert honest(one, 10).release(ZERO).std() > 10
        assert not np.any(Quiet(one, 10).release(ZERO))
    before = checks()
    assert DiscreteLaplace(LikeInt(1), 10).epsilon == 1
    assert checks() == before


class Law(str):
    """The name of a law that hashes as another."""

    __slots__ = ()
    names: ClassVar[list[str]] = []
    __hash__, __eq__ = lambda self: hash(self.names.pop(0)), lambda *_: True


def test_a_name_that_changes_its_mind_gives_nobody_else_another_law() -> None:
    Law.names = ["gaussian", "gaussian", "laplace", "laplace", "laplace"]
    noise_source(Law("laplace"), 3)
    assert isinstance(noise_source("gaussian", 3), Gaussian)


def test_a_law_may_tell_1_from_1_0() -> None:
    class Whole(DiscreteLaplace):
        @tiers.remembered
        def __init__(self, sensitivity: int) -> None:
            if not isinstance(sensitivity, int):
                raise DTypeError("sensitivity must be an int")
            super().__init__(1, sensitivity)

    assert Whole(1) == Whole(1)
    with pytest.raises(DTypeError):
        Whole(1.0)


def test_a_subclass_with_a_constructor_of_its_own_is_made_each_time() -> None:
    made = []

    class Counted(DiscreteLaplace):
        def __init__(self, *given: Any) -> None:
            made.append("init")
            super().__init__(*given)

    class New(DiscreteLaplace):
        def __new__(cls, epsilon: object, sensitivity: object) -> Any:
            made.append("new")
            return super().__new__(cls)

    class Plain(DiscreteLaplace):
        pass

    for kind in (Counted, New, Plain) * 2:
        mechanism = kind(1, 10)
        assert type(mechanism) is kind
        assert mechanism.release(ZERO).std() > 10
    assert made == ["init", "new"] * 2
    assert checks() == (1, 1)


def test_a_sensitivity_stays_the_one_that_was_given() -> None:
    """It is compared with no other: equal ones stay apart."""
    one, other = Sensitivity(1, 1), Sensitivity(1, 1)
    assert Gaussian(3, sensitivity=one).sensitivity is one
    assert Gaussian(3, sensitivity=other).sensitivity is other
    assert DiscreteLaplace(1, Sensitivity(1, 1, adjacency="substitution")).guarantee.add_remove
    assert not DiscreteLaplace(1, 2, adjacency="substitution").guarantee.add_remove


def test_what_is_done_to_one_mechanism_reaches_no_other() -> None:
    """Neither what a calibration notes, nor what somebody forces on a frozen record."""
    plain, calibrated = Gaussian(1), Gaussian.from_zcdp(Fraction(1, 2), Sensitivity(1, 1))
    assert calibrated.calibrated_for.rho == Fraction(1, 2)
    assert plain.calibrated_for is None
    assert Gaussian(1).calibrated_for is None
    for one in (1, Decimal(1)):
        spoilt, other = DiscreteLaplace(one, 10), DiscreteLaplace(1, 10)
        vars(spoilt).update(epsilon=Fraction(2**50), _scale=Fraction(10, 2**50))
        spoilt.release(ZERO[:9])
        spoilt.release(ZERO)
        for mechanism in (other, DiscreteLaplace(1, 10), DiscreteLaplace(Decimal(1), 10)):
            assert mechanism.epsilon == 1
            assert mechanism.release(ZERO).std() > 10
            assert mechanism.release(ZERO[:500]).std() > 5
        tiers.forget_equals()


def test_a_plan_is_made_from_a_copy_that_nobody_holds() -> None:
    """A mechanism that is spoilt after the first call spoils no plan that is made later."""
    first = DiscreteLaplace(Decimal(1), 10)
    first.release(ZERO[:9])  # by constant work: the table is not made yet
    other = DiscreteLaplace(1, 10)
    vars(first).update(epsilon=Fraction(2**50), _scale=Fraction(10, 2**50), _law=noise_source("laplace", 1))
    assert other.release(ZERO).std() > 10


def plans() -> int:
    """All that there are. `isinstance` would ask dead proxies."""
    return sum(type(each) is tiers.Plan for each in gc.get_objects())


def test_few_are_kept_and_mechanisms_end() -> None:
    """At most 64 of each kind; the others go at once, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        before = plans()  # other modules hold some
        for i in range(1, 200):
            DiscreteLaplace(1, i).release(ZERO[:1])
            Laplace(Decimal(i), 1, unit="household").release([0.0])
        for kept in tiers.kept_for_equals:
            assert kept.cache_info().currsize == 64
        left = plans() - before
    finally:
        gc.enable()
    assert left <= 2 * 64


def test_threads_that_make_the_same_at_once() -> None:
    """Each gets its own mechanism, of its own arguments."""
    found: list[bool] = []
    start = threading.Barrier(4)

    def make() -> None:
        start.wait()
        for i in range(1, 2000):
            made = DiscreteLaplace(1, i % 100 + 1)
            found.append(made.sensitivity == i % 100 + 1 and made.release(ZERO[:1]).shape == (1,))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 * 1999
    assert all(found)


def test_a_child_shares_parameters_and_no_noise() -> None:
    output = python(
        FORKED
        + """
    make = lambda: dpfast.DiscreteLaplace(1, 10**9).release(np.zeros(8, np.int64)).tobytes().hex()
    found = [make()] + [forked(make) for _ in range(3)] + [make()]
    print(len(set(found)))
    """
    )
    assert output.split() == ["5"]
