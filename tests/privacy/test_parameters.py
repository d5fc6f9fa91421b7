# SPDX-License-Identifier: Apache-2.0
"""Parameters: taken exactly or refused with name, rule and value; what the law says of itself."""

from __future__ import annotations

import copy
import dataclasses
import html
import json
import math
import pickle
import random
import re
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Never

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import DiscreteLaplace
from dpfast.errors import DpfastError, DTypeError, ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.parameters import shown


def brief(value: object) -> str:
    """A test's name for a value that may be too long to print."""
    try:
        return f"{value!r:.30}"
    except ValueError:
        return f"{type(value).__name__}, long"


THIRD = np.longdouble(1) / 3  # has more digits than a double where the machine has such a type

EXACT = [
    (1, Fraction(1)), (7, Fraction(7)), (2**60, Fraction(2**60)), (1.0, Fraction(1)), (Fraction(1, 3), Fraction(1, 3)),
    (0.1, Fraction(3602879701896397, 36028797018963968)), (Decimal("0.1"), Fraction(1, 10)), (Decimal("1.50e-7"), Fraction(15, 10**8)),
    (5e-324, Fraction(1, 2**1074)),  # the least subnormal
    (2.0**-1060, Fraction(1, 2**1060)), (1.7976931348623157e308, Fraction(2**1024 - 2**971)), (Decimal("1e-1000"), Fraction(1, 10**1000)),
    (2**4096 - 1, Fraction(2**4096 - 1)), (Fraction(1, 2**4095), Fraction(1, 2**4095)), (np.float64(0.1), Fraction(0.1)),
    (np.float32(0.1), Fraction(13421773, 2**27)), (np.float16(0.1), Fraction(819, 2**13)), (THIRD, Fraction(*THIRD.as_integer_ratio())),
    (np.int8(3), Fraction(3)), (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
]  # fmt: skip

SHORTEST = {0.1: "0.1", np.float64(0.1): "0.1", np.float32(0.1): "0.1", np.float16(0.1): "0.1", 5e-324: "5e-324", 1e-6: "1e-6", THIRD: np.format_float_scientific(THIRD)}  # fmt: skip
WRITTEN = {"0.1": "1/10", "1/3": "1/3", "2": "2", "1e-6": "1/1000000", ".5": "1/2", "3.": "3", "+1": "1"}
NO_NUMBER_WRITTEN = [
    "",
    "one",
    "1/0",
    "1/",
    "/3",
    "1/3/5",
    "1 / 3",
    "1_000",
    "0x10",
    "nan",
    "inf",
    "1e",
    "1e99999",
    "\u0661",
    "1" * 5000,
    "1e-5000",
]
NO_NUMBER = [True, False, np.True_, b"1", None, 1j, np.complex128(1), [1], np.array(1.0), np.datetime64(1, "s"), float]  # fmt: skip
NOT_POSITIVE = [-1, 0, -1.0, 0.0, -0.0, Fraction(-1, 3), Fraction(0), Decimal(0), Decimal("-0.5"), -5e-324, np.int8(-3)]
NOT_FINITE = [math.nan, math.inf, -math.inf, np.float32("nan")]
NOT_FINITE += map(Decimal, ["NaN", "sNaN", "Infinity", "-Infinity"])
TOO_LONG = [
    *map(Decimal, ["1e999999999", "1e-999999999", "-1e999999999", "0e-999999999", "1." + "3" * 2000]), 2**4096, 10**5000, -(10**5000),
    Fraction(1, 2**4096), Fraction(1, 10**5000), Fraction(-1, 10**5000),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "value"), EXACT, ids=brief)
def test_numbers_are_taken_exactly(given_, value) -> None:
    """What meets data is the double; what is spent, its shortest decimal."""
    mech = DiscreteLaplace(given_, value)
    written = Fraction(np.format_float_scientific(given_)) if isinstance(given_, (float, np.floating)) else value
    assert (mech.epsilon, mech.sensitivity) == (written, value)
    assert DiscreteLaplace(value, given_).sensitivity == value
    assert type(mech.epsilon) is Fraction


@pytest.mark.parametrize(("given_", "decimal"), SHORTEST.items(), ids=repr)
def test_what_is_spent_is_read_by_its_shortest_decimal(given_, decimal) -> None:
    """Ten releases of 0.1 are a budget of 1: epsilon, delta and rho, wherever they are given."""
    exact, cell = Fraction(decimal), dpfast.Sensitivity(1, 1)
    promised = dpfast.Guarantee(given_, given_, rho=given_, rho_delta=given_)
    assert {promised.epsilon, promised.delta, promised.rho, promised.rho_delta} == {exact}
    if exact > 1e-3:
        assert dpfast.NoisyMax(1, given_).sensitivity == Fraction(*given_.as_integer_ratio())
        assert {dpfast.NoisyMax(given_, 1).epsilon, dpfast.RandomizedResponse(given_).epsilon} == {exact}
        assert dpfast.Gaussian.from_zcdp(given_, cell).rho() == exact
        assert dpfast.Gaussian.calibrated(given_, cell, delta=given_).guarantee.delta == exact


@pytest.mark.parametrize(("text", "exact"), WRITTEN.items())
def test_numbers_may_be_written(text, exact) -> None:
    for mech in (DiscreteLaplace(text, text), DiscreteLaplace(text, dpfast.Sensitivity(1, text))):
        assert (str(mech.epsilon), str(mech.sensitivity)) == (exact, exact)


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize("text", NO_NUMBER_WRITTEN, ids=brief)
def test_a_text_that_is_no_number_is_refused(name, text) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must be .*(such as 0.1 or 1/3|4096 bits)") as caught:
        DiscreteLaplace(**{"epsilon": 1, "sensitivity": 1, name: text})
    assert len(str(caught.value)) < 200


@given(st.floats(0, exclude_min=True, allow_infinity=False), st.floats(0, exclude_min=True, allow_infinity=False))
@settings(max_examples=300, deadline=None)
def test_any_two_doubles_are_taken_exactly_or_refused_by_their_scale(epsilon, sensitivity) -> None:
    """No pair of positive doubles is rounded, clamped or refused but for its exact scale."""
    scale = Fraction(sensitivity) / Fraction(repr(epsilon))
    if Fraction(1, 2**60) <= scale <= 2**60:
        mech = DiscreteLaplace(epsilon, sensitivity)
        assert mech.sensitivity / mech.epsilon == scale
        assert mech.scale == float(scale)
    else:
        with pytest.raises(ParameterError, match="times the sensitivity"):
            DiscreteLaplace(epsilon, sensitivity)


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize("bad", NO_NUMBER, ids=repr)
def test_what_is_no_real_number_is_refused_by_type(name, bad) -> None:
    with pytest.raises(
        DTypeError,
        match=rf"^{name} must be an int, float, Fraction, Decimal or text such as 1/3, not {type(bad).__name__}$",
    ):
        DiscreteLaplace(**{"epsilon": 1, "sensitivity": 1, name: bad})


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize("bad", [*NOT_POSITIVE, *NOT_FINITE], ids=repr)
def test_what_is_not_positive_and_finite_is_refused_by_value(name, bad) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must be .*positive.*, got {re.escape(str(bad))}$"):
        DiscreteLaplace(**{"epsilon": 1, "sensitivity": 1, name: bad})


@pytest.mark.parametrize("name", ["epsilon", "sensitivity"])
@pytest.mark.parametrize("bad", TOO_LONG, ids=brief)
def test_numbers_too_long_are_refused_unexpanded(name, bad) -> None:
    """A number that would fill memory, or that Python will not print, gets the same clear error."""
    with pytest.raises(ParameterError, match=rf"^{name} must be .*(positive|4096 bits)") as caught:
        DiscreteLaplace(**{"epsilon": 1, "sensitivity": 1, name: bad})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [(1, 2**60), (1, 2.0**60), (2**60, 1), (Fraction(1, 2**60), 1), (Fraction(2) ** -1000, 2.0**-1060), (3, 3 * 2**60)],
    ids=repr,
)  # fmt: skip
def test_both_ends_of_the_scale_are_inside(epsilon, sensitivity) -> None:
    """2^-60 and 2^60 themselves are scales, and a release works there."""
    mech = DiscreteLaplace(epsilon, sensitivity)
    assert mech.scale in {2.0**-60, 2.0**60}
    assert mech.release([5]).shape == (1,)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [
        (1, 2**60 + 1), (1, math.nextafter(2.0**60, math.inf)), (2**60 + 1, 1), (math.nextafter(2.0**60, math.inf), 1),
        (1, 2**60 + Fraction(1, 2**4000)), (1, Fraction(2**4000 - 1, 2**4060)), (5e-324, 1), (1, 5e-324),
        (1e308, 1e-308), (Decimal("1e-19"), 1),
    ],
    ids=lambda number: f"{number!s:.20}",
)  # fmt: skip
def test_beyond_the_ends_of_the_scale_is_refused(epsilon, sensitivity) -> None:
    """However little beyond: refused, never clamped; the message has rule and both values."""
    with pytest.raises(ParameterError, match=r"at least 2\*\*-60 and at most 2\*\*60 times the sensitivity") as caught:
        DiscreteLaplace(epsilon, sensitivity)
    assert f"the sensitivity, {shown(Fraction(sensitivity))} in L1, got {shown(epsilon)}" in str(caught.value)


def test_messages_quote_forty_letters() -> None:
    """A value of forty is quoted whole; a longer one is cut to 37 and three dots."""
    assert shown(10**39) == str(10**39)
    assert shown(10**40) == f"{10**40}"[:37] + "..."


def test_sensitivity_has_no_default() -> None:
    with pytest.raises(TypeError, match="sensitivity"):
        DiscreteLaplace(1)


@pytest.mark.parametrize(
    "made",
    [
        lambda: DiscreteLaplace(1, 1, "substitution"),
        lambda: dpfast.Laplace(1, 1, 0.5),
        lambda: dpfast.Snapping(1, 1, 10),
        lambda: dpfast.OneSidedGeometric(1, 1, "substitution"),
        lambda: dpfast.NoisyMax(1, 1, True),
        lambda: dpfast.AboveThreshold(1, 1, 3),
        lambda: dpfast.RandomizedResponse(1, 2, "person"),
        lambda: dpfast.Gaussian(1, 1),
        lambda: dpfast.DiscreteGaussian(1, 1),
        lambda: dpfast.Gaussian.calibrated(1, dpfast.Sensitivity(1, 1), 1e-6),
        lambda: dpfast.Sensitivity(1, 1, "substitution"),
        lambda: dpfast.Sensitivity.changes(1, 1, "substitution"),
        lambda: dpfast.Sensitivity.from_l2(1, "substitution"),
        lambda: dpfast.thresholded(["a"], [1], 1, 1e-6, dpfast.Sensitivity(1, 1)),
        lambda: dpfast.fixed_point_sum([1.0], 0, 1, 0.5),
        lambda: dpfast.Ledger("budget.db", 1, 1e-6),
    ],
)
def test_what_follows_the_second_parameter_goes_by_keyword(made) -> None:
    """No third number, boolean or adjacency by place; Gaussian(1, 1) is not (ε, sensitivity)."""
    with pytest.raises(TypeError, match="positional argument"):
        made()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: dpfast.Gaussian(epsilon=1, delta=1e-6, sensitivity=1),
            r"Gaussian: got an unexpected keyword argument 'epsilon'; .* Gaussian.calibrated\(epsilon, ",
        ),
        (
            lambda: DiscreteLaplace(eps=1, sensitivity=1),
            "DiscreteLaplace: got an unexpected keyword argument 'eps'; it takes epsilon, sensitivity by place",
        ),
        (lambda: DiscreteLaplace(scale=10), ".*, unit=; epsilon = sensitivity/scale has that scale$"),
        (lambda: dpfast.Gaussian(scale=10), r".* finds sigma$"),
        (lambda: dpfast.Exponential(scale=10), r".*(?<!that scale)$"),
        (lambda: DiscreteLaplace(epsilon=1), "DiscreteLaplace: missing a required argument: 'sensitivity'; it takes "),
        (lambda: dpfast.Laplace(1, 1, 1), r"Laplace: too many positional arguments; .* by name granularity="),
    ],
)
def test_arguments_that_do_not_fit_are_told_what_would(made, said) -> None:
    """The class as the caller wrote it, and what it takes: Gaussian(epsilon=1) is a first try."""
    with pytest.raises(dpfast.errors.DTypeError, match=f"^{said}"):
        made()


@pytest.mark.parametrize("good", ["add-remove", "substitution"])
def test_adjacency_is_recorded(good) -> None:
    mech = DiscreteLaplace(1, 1, adjacency=good)
    assert mech.adjacency == good
    assert mech.metadata()["adjacency"] == good
    assert good in repr(mech)


@pytest.mark.parametrize("bad", ["", "add", "Add-Remove", "replace", 1, ["add-remove"]], ids=repr)
def test_other_adjacencies_are_refused(bad) -> None:
    with pytest.raises(
        ParameterError, match=rf"adjacency must be one of add-remove, substitution, got {re.escape(repr(bad))}"
    ):
        DiscreteLaplace(1, 1, adjacency=bad)


@pytest.mark.parametrize("bad", ["", "  ", "\n", 7, b"person"], ids=repr)
def test_the_unit_of_privacy_must_be_named(bad) -> None:
    with pytest.raises(ParameterError, match=rf"^unit must .*, got {re.escape(repr(bad))}$"):
        DiscreteLaplace(1, 1, unit=bad)


# ------------------------------------------------------------------ options of release and sample


@pytest.mark.parametrize("bad", [0, -1, np.int8(-5)], ids=repr)
def test_threads_below_one_are_refused(bad) -> None:
    mech = DiscreteLaplace(1, 1)
    for call in (lambda: mech.release([1], threads=bad), lambda: mech.sample(1, threads=bad)):
        with pytest.raises(ParameterError, match=rf"^threads must be at least 1, got {bad}$"):
            call()


@pytest.mark.parametrize("name", ["threads", "lower", "upper"])
@pytest.mark.parametrize(
    "bad", [True, 1.0, math.nan, "1", Fraction(2), Decimal(1), np.float64(1), np.True_, [1]], ids=repr
)
def test_whole_options_must_be_integers(name, bad) -> None:
    """A number that merely looks whole is no int; the message names the parameter and the type."""
    with pytest.raises(DTypeError, match=rf"^{name} must be an int, not {type(bad).__name__}$"):
        DiscreteLaplace(1, 1).release([1], **{name: bad})


def test_whole_options_take_every_integer_kind() -> None:
    """NumPy integers, None, and bounds far outside the output type are fine."""
    mech = DiscreteLaplace(1, 1)
    noisy = mech.release([0] * 50, threads=np.uint8(3), lower=np.int8(-1), upper=10**30)
    assert noisy.min() >= -1
    assert mech.release([1], threads=None, lower=None, upper=None).shape == (1,)
    assert mech.release([0] * 50, lower=-(10**30), upper=np.int64(1)).max() <= 1
    assert mech.release([9] * 9, lower=4, upper=4).tolist() == [4] * 9


@pytest.mark.parametrize(
    ("dtype", "lower", "upper", "rule"),
    [
        (None, 1, 0, "lower must be at most upper, got 1 and 0"),
        (None, 10**30, 5, f"lower must be at most upper, got {10**30} and 5"),
        (np.int8, 128, None, "leave something of int8"),
        (np.int8, None, -129, "leave something of int8"),
        (np.uint8, None, -1, "leave something of uint8"),
        (np.uint64, 2**64, None, "leave something of uint64"),
        (np.int64, 2**63, 2**64, "leave something of int64"),
        (np.int64, 10**5000, None, "lower must be of at most 4096 bits"),
        (np.int64, 10**5000, 0, "lower must be of at most 4096 bits"),
    ],
    ids=brief,
)
def test_bounds_that_leave_nothing_are_refused(dtype, lower, upper, rule) -> None:
    """The message names the bounds, rule and values, even where Python will not print them."""
    with pytest.raises(ParameterError, match=re.escape(rule)) as caught:
        DiscreteLaplace(1, 1).release([1], dtype=dtype, lower=lower, upper=upper)
    for bound in (lower, upper):
        if bound is not None and abs(bound) < 10**40:
            assert str(bound) in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        bool, float, complex, object, str, np.longdouble, "datetime64[s]", "timedelta64[s]", "float16", "S4", "i4,i4",
        "no such type", 7,
    ],
)  # fmt: skip
def test_dtype_must_be_an_integer_dtype(bad) -> None:
    with pytest.raises(DTypeError, match="^dtype must be an integer dtype"):
        DiscreteLaplace(1, 1).release([1], dtype=bad)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        *((bad, DTypeError, "^size must be") for bad in (1.5, "3", True, None, (2, 1.5), [2], (True,))),
        *((bad, ParameterError, "^size must be at least 0, got -1$") for bad in (-1, (3, -1))),
    ],
    ids=repr,
)
def test_size_of_a_sample_is_an_int_or_a_tuple_of_them(bad, error, message) -> None:
    with pytest.raises(error, match=message):
        DiscreteLaplace(1, 1).sample(bad)


def test_sample_has_a_shape_and_a_largest_scale() -> None:
    """The noise alone is offered for every shape, up to scale 2^50 and not beyond."""
    assert DiscreteLaplace(1, 2**50).sample((2, 0, 3)).shape == (2, 0, 3)
    assert DiscreteLaplace(1, 2**50).sample(np.int64(4)).dtype == np.int64
    assert DiscreteLaplace(1, 5).sample(()).shape == ()
    with pytest.raises(ParameterError, match=r"scale of at most 2\*\*50, got 1\.1259e\+15"):
        DiscreteLaplace(1, 2**50 + 1).sample(4)


NO_PROBABILITY = [0, 1, -0.5, 1.0, 1.5, 2, math.nan, math.inf, Decimal(1), Decimal("sNaN"), Fraction(3, 2)]


@pytest.mark.parametrize(("method", "name"), [("quantile", "p"), ("interval", "confidence")])
@pytest.mark.parametrize(
    ("bad", "error", "rule"),
    [
        *((bad, ParameterError, f".*, got {re.escape(str(bad))}$") for bad in NO_PROBABILITY),
        *((bad, DTypeError, "be") for bad in (True, b"0.95", None, 1j)),
    ],
    ids=repr,
)
def test_probabilities_are_real_numbers_strictly_between_0_and_1(method, name, bad, error, rule) -> None:
    """The message names the parameter and, of a real number, the value."""
    with pytest.raises(error, match=f"^{name} must {rule}"):
        getattr(DiscreteLaplace(1, 1), method)(bad)


@pytest.mark.parametrize(
    ("bad", "error"),
    [(0, ParameterError), (-1, ParameterError), (2.0, DTypeError), (True, DTypeError), ("3", DTypeError)],
)
def test_cells_is_a_positive_integer(bad, error) -> None:
    with pytest.raises(error, match="^cells must be"):
        DiscreteLaplace(1, 1).interval(0.95, cells=bad)


def test_every_refusal_is_a_dpfast_error() -> None:
    """One base catches them all, and each is also the built-in error that one would expect."""
    for error in (
        ParameterError,
        DTypeError,
        dpfast.errors.EntropyError,
        dpfast.errors.KeyReuseError,
        dpfast.errors.SelfCheckError,
    ):
        assert issubclass(error, DpfastError), error
    assert issubclass(ParameterError, ValueError)
    assert issubclass(DTypeError, TypeError)
    assert issubclass(dpfast.errors.InsecureKeyWarning, Warning)


# ------------------------------------------------------------------ a frozen record


def test_a_mechanism_is_frozen() -> None:
    mech = DiscreteLaplace(1, 1)
    for _ in range(2):
        for name in ("epsilon", "sensitivity", "adjacency", "unit", "scale", "other"):
            with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
                setattr(mech, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            del mech.epsilon
        mech.release(np.zeros(5000, np.int64))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_mechanism_pickles_its_parameters_only(protocol) -> None:
    """Tables and plans stay behind: a used mechanism pickles as a fresh one does."""
    mech = DiscreteLaplace(Fraction(1, 3), 0.1, adjacency="substitution", unit="household")
    fresh = pickle.dumps(mech, protocol)
    mech.release(np.zeros(5000, np.int64))
    assert pickle.dumps(mech, protocol) == fresh
    assert len(fresh) < 400
    again = pickle.loads(fresh)
    assert again == mech
    assert again.metadata() == mech.metadata()
    assert again.release([1]).shape == (1,)


def test_mechanisms_copy_compare_and_hash_by_their_exact_parameters() -> None:
    """Equal parameters are equal mechanisms; a change by the double 0.1 is not one by a tenth."""
    mech = DiscreteLaplace(0.5, 1)
    same = [DiscreteLaplace(Fraction(1, 2), 1.0), DiscreteLaplace(Decimal("0.5"), Decimal(1))]
    same += [copy.copy(mech), copy.deepcopy(mech)]
    assert all(other == mech and hash(other) == hash(mech) for other in same)
    different = [
        DiscreteLaplace(1, 2),  # the same scale spends another epsilon
        DiscreteLaplace(0.5, 1, adjacency="substitution"),
        DiscreteLaplace(0.5, 1, unit="household"),
        DiscreteLaplace(0.5, Fraction(10**30 + 1, 10**30)),
    ]
    assert len({mech, *same, *different}) == 5
    assert DiscreteLaplace(0.1, 1) == DiscreteLaplace(Decimal("0.1"), 1) == DiscreteLaplace("0.1", 1)
    assert DiscreteLaplace(1, 0.1) != DiscreteLaplace(1, Decimal("0.1"))
    assert mech != (Fraction(1, 2), Fraction(1))
    assert dpfast.Geometric is DiscreteLaplace
    assert dataclasses.replace(mech, epsilon=0.25) == DiscreteLaplace(0.25, 1)


def test_repr_shows_what_is_spent_and_how_far_the_noise_reaches() -> None:
    """Exact epsilon, sensitivity, adjacency, unit, scale, standard deviation, 95 % interval."""
    text = repr(DiscreteLaplace(Decimal("0.1"), 3, adjacency="substitution", unit="household"))
    for part in ("epsilon=0.1", "sensitivity=3", "substitution", "household", "scale=30", "standard deviation=42.4244", "±90"):  # fmt: skip
        assert part in text, part
    assert "\n" not in text


@pytest.mark.parametrize(("given_", "value"), EXACT, ids=brief)
def test_repr_never_fails(given_, value) -> None:
    """Any parameter that is accepted can be shown, however long or far from a double."""
    for epsilon in (value, value * Fraction(10**30 + 1, 10**30) if value.denominator < 2**3000 else value):
        if epsilon < 2**3900:
            mech = DiscreteLaplace(epsilon, epsilon)
            assert "epsilon=" in repr(mech) + mech._repr_html_()
    assert f"epsilon={Fraction(10**400, 3)}," in repr(DiscreteLaplace(Fraction(10**400, 3), 10**400))


def test_html_shows_the_same_and_is_escaped() -> None:
    """A unit that looks like HTML stays text in a notebook."""
    mech = DiscreteLaplace(1, 10, unit="<script>alert('&')</script>")
    page = mech._repr_html_()
    assert "<script" not in page
    assert html.escape(mech.unit) in page
    for part in ("scale", "10", "standard deviation", "14.1362", "95 % interval", "±30"):
        assert f">{part}<" in page, part


def test_metadata_goes_through_json() -> None:
    """Fractions travel as exact strings, and with JSON nothing is lost."""
    mech = DiscreteLaplace(0.1, Fraction(1, 3), unit="household")
    record = mech.metadata()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (Fraction(record["epsilon"]), Fraction(record["sensitivity"])) == (mech.epsilon, mech.sensitivity)
    assert record["mechanism"] == "discrete_laplace"
    assert (record["adjacency"], record["unit"], record["scale"]) == ("add-remove", "household", mech.scale)
    assert (record["dpfast"], record["stream_version"], record["secure"]) == (dpfast.__version__, 2, True)


# ---------------------------------------------------- the law's figures, against 60 digits and more

SCALES = [Fraction(1, 2**60), Fraction(1, 1000), Fraction(1), Fraction(10), Fraction(10**6), Fraction(2**60)]
by_scale = pytest.mark.parametrize("scale", SCALES, ids=str)


class Reference:
    """P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-1/t), in mpmath."""

    def __init__(self, scale: Fraction, digits: int = 120) -> None:
        with mpmath.workdps(digits):
            self.rate = mpmath.mpf(scale.denominator) / scale.numerator
            self.q = mpmath.exp(-self.rate)

    def pmf(self, k: int) -> mpmath.mpf:
        return (1 - self.q) / (1 + self.q) * mpmath.exp(-self.rate * abs(k))

    def below(self, k: int) -> mpmath.mpf:
        """P(X <= k) for k < 0; by symmetry P(X >= -k)."""
        assert k < 0
        return mpmath.exp(self.rate * k) / (1 + self.q)

    def cdf(self, k: int) -> mpmath.mpf:
        return self.below(k) if k < 0 else 1 - self.below(-k - 1)

    def sf(self, k: int) -> mpmath.mpf:
        return 1 - self.below(k) if k < 0 else self.below(-k - 1)

    def at_most(self, k: int, p: Fraction) -> bool:
        """Whether P(X <= k) >= p; compared on the side where nothing cancels."""
        if k < 0:
            return self.below(k) >= mpmath.mpf(p.numerator) / p.denominator
        return self.below(-k - 1) <= mpmath.mpf((1 - p).numerator) / (1 - p).denominator

    def holds(self, h: int, confidence: Fraction, cells: int) -> bool:
        """Whether |X| <= h in all cells so likely: cells ln(1 - P(|X| > h)) >= ln(confidence)."""
        if h < 0:
            return False
        return cells * mpmath.log1p(-2 * self.below(-h - 1)) >= mpmath.log(
            mpmath.mpf(confidence.numerator) / confidence.denominator
        )


@cache
def places(scale: Fraction) -> list[int]:
    """Small k, and k at all sizes that the scale gives weight to, to where doubles underflow."""
    sizes = {0, 1, 2, 3, 10} | {int(scale * Fraction(x)) for x in (0.3, 1, 2.5, 10, 37, 100, 300, 700, 745, 800, 10**4)}
    return sorted({sign * k + beside for k in sizes for sign in (1, -1) for beside in (-1, 0, 1)})


def close(found: float, true: mpmath.mpf) -> bool:
    return abs(mpmath.mpf(float(found)) - true) <= true * mpmath.mpf(10) ** -12 + mpmath.mpf(2) ** -1070


@by_scale
def test_figures_are_right_to_twelve_digits(scale) -> None:
    """pmf, cdf and sf in both tails, moments, against mpmath; arrays give what integers give."""
    mech, true = DiscreteLaplace(1, scale), Reference(scale)
    with mpmath.workdps(120):
        for k in places(scale):
            assert close(mech.pmf(k), true.pmf(k)), k
            assert close(mech.cdf(k), true.cdf(k)), k
            assert close(mech.sf(k), true.sf(k)), k
        variance = 2 * true.q / (1 - true.q) ** 2
        assert close(mech.variance, variance)
        if variance > mpmath.mpf(2) ** -1000:
            assert close(mech.stddev, mpmath.sqrt(variance))
    assert mech.scale == float(scale)
    small = [k for k in places(scale) if abs(k) < 2**63]
    assert mech.pmf(small).tolist() == [float(mech.pmf(k)) for k in small]
    assert mech.cdf(np.array(small)).tolist() == [float(mech.cdf(k)) for k in small]
    assert mech.sf(np.array(small)).tolist() == [float(mech.sf(k)) for k in small]
    assert mech.pmf(np.zeros((2, 3), np.uint8)).shape == (2, 3)


@pytest.mark.parametrize("bad", [True, 1.0, "1", None, [1.5], Fraction(1, 2), [True], ["1"], [2**70]], ids=repr)
def test_probabilities_are_of_integers_only(bad) -> None:
    for method in ("pmf", "cdf", "sf"):
        with pytest.raises(DTypeError, match="^k must be an integer"):
            getattr(DiscreteLaplace(1, 1), method)(bad)


def test_probabilities_are_of_integers_of_any_size() -> None:
    """At scale 2^60 the law gives weight to integers that fit no dtype; no size of k fails."""
    mech = DiscreteLaplace(1, 2**60)
    assert math.isclose(mech.pmf(2**65), math.exp(-32) * 2**-61, rel_tol=1e-12)
    assert math.isclose(mech.cdf(-(2**65)), math.exp(-32) / 2, rel_tol=1e-12)
    assert math.isclose(mech.sf(2**65), math.exp(-32) / 2, rel_tol=1e-12)
    assert (mech.pmf(10**4000), mech.cdf(10**4000), mech.cdf(-(10**4000))) == (0, 1, 0)
    assert (mech.sf(10**4000), mech.sf(-(10**4000))) == (0, 1)


def probabilities() -> list[Fraction]:
    doubles = [1e-300, 1e-30, 1e-9, 0.025, 0.1, 0.25, 0.49, 0.5, 0.51, 0.75, 0.9, 0.975, 1 - 1e-9, 1 - 2.0**-53]
    doubles += [math.nextafter(0.5, 0), math.nextafter(0.5, 1)]
    return [*map(Fraction, doubles), Fraction(1, 10**50), 1 - Fraction(1, 10**50), Fraction(1, 3), Fraction(95, 100)]


@by_scale
def test_quantile_is_the_least_integer_that_reaches_p(scale) -> None:
    """P(X <= k) >= p > P(X <= k - 1), for p near both ends and beside one half."""
    mech, true = DiscreteLaplace(1, scale), Reference(scale)
    with mpmath.workdps(120):
        for p in probabilities():
            k = mech.quantile(p)
            assert true.at_most(k, p), p
            assert not true.at_most(k - 1, p), p
    assert mech.quantile(0.5) == 0
    assert mech.quantile(0.975) == mech.quantile(Fraction(0.975)) == mech.quantile(np.float64(0.975))


@by_scale
def test_quantile_inverts_the_distribution_function_exactly(scale) -> None:
    """At a p that 400 bits put just below P(X <= k) it is k, and just above it is k + 1."""
    mech, true = DiscreteLaplace(1, scale), Reference(scale, digits=360)
    with mpmath.workprec(1200):
        # Where one step in the tail is below 2^-400 such p do not separate the two.
        for k in (k for k in places(scale) if -250 < k / scale < 250):
            cut = int(mpmath.floor(mpmath.ldexp(true.cdf(k), 400)))
            if not 0 < cut < 2**400 - 1:
                continue
            assert mech.quantile(Fraction(cut, 2**400)) == k
            if true.pmf(k + 1) > mpmath.mpf(2) ** -390:
                assert mech.quantile(Fraction(cut + 1, 2**400)) == k + 1


@by_scale
@pytest.mark.parametrize("cells", [1, 2, 7, 1000, 10**8, 10**40])
def test_interval_is_the_least_half_width_that_holds_all_cells(scale, cells) -> None:
    """P(|X| <= h)^cells >= confidence, and h - 1 would not do."""
    mech, true = DiscreteLaplace(1, scale), Reference(scale)
    with mpmath.workdps(200):
        for confidence in map(Fraction, ["1/1000", "1/2", "0.95", 0.99, 1 - Fraction(1, 10**15)]):
            h = mech.interval(confidence, cells=cells)
            assert h >= 0
            assert true.holds(h, confidence, cells), confidence
            assert not true.holds(h - 1, confidence, cells), confidence


def test_interval_defaults_to_95_percent_of_one_cell() -> None:
    """The decimal 0.95, not the double beside it; one cell unless told."""
    mech = DiscreteLaplace(1, 10**6)
    assert mech.interval() == mech.interval(Decimal("0.95"), cells=1) == mech.interval(Fraction(19, 20))
    assert mech.interval(0.95, cells=np.int64(10)) > mech.interval(0.95)


def test_quantile_and_interval_agree() -> None:
    """The half width that holds one cell is the quantile of the upper tail."""
    rng = random.Random(3)
    for _ in range(40):
        mech = DiscreteLaplace(Fraction(rng.randint(1, 10**6), 10**5), rng.randint(1, 50))
        confidence = Fraction(rng.randint(1, 10**6 - 1), 10**6)
        # P(|X| <= h) = 2 P(X <= h) - 1
        assert mech.interval(confidence) == max(0, mech.quantile((1 + confidence) / 2))


# ------------------------------------------------------------------ powers of two


def test_a_power_of_two_is_built_from_its_bits_and_read_back() -> None:
    """Subnormal, normal, largest: exactly 2^exponent, its exponent from float and Fraction."""
    for exponent in (*range(-1074, -1018), *range(-60, 61), *range(960, 1024)):
        assert Fraction(parameters.two_to(exponent)) == Fraction(2) ** exponent, exponent
        for value in (parameters.two_to(exponent), Fraction(2) ** exponent):
            assert parameters.power_of_two("granularity", value) == exponent


@pytest.mark.parametrize(
    "value", [3, 6, 0.75, Fraction(1, 3), Fraction(2, 3), Fraction(4, 3), 2**60 + 1, 5e-324 * 3, 0.1]
)
def test_what_is_no_power_of_two_is_refused(value) -> None:
    """Neither numerator nor denominator may have a second bit; the message names the parameter."""
    with pytest.raises(ParameterError, match="granularity must be a power of two, got"):
        parameters.power_of_two("granularity", value)


# ------------------------------------------------------------------ flags


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_is_true_or_false(value) -> None:
    assert parameters.flag("constant_time", value) is bool(value)


@pytest.mark.parametrize("value", [1, 0, 1.0, 1e-9, "yes", "", None, np.array(True), [True], 2**32])
def test_nothing_else_is_a_flag(value) -> None:
    """A kernel's flag is an integer of 32 bits: 1e-9 and 2^32 are true to Python and 0 there."""
    with pytest.raises(DTypeError, match="constant_time must be True or False, not"):
        parameters.flag("constant_time", value)
    for mechanism in (DiscreteLaplace(1, 1), dpfast.DiscreteGaussian(100), dpfast.Laplace(1, 1)):
        data = np.full(5000, 999, np.float64 if isinstance(mechanism, dpfast.Laplace) else np.int64)
        with pytest.raises(DTypeError, match="constant_time must be True or False, not"):
            mechanism.release(data, out=data, constant_time=value)
        assert (data == 999).all()
    with pytest.raises(DTypeError, match="constant_time"):
        dpfast.DiscreteGaussian(100).sample(3, constant_time=value)


# ------------------------------------------------------------------ found by hostile arguments


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: DiscreteLaplace(1, 1).sample((2**40, 2**40)), "size"),
        (lambda: DiscreteLaplace(1, 1).sample(2**62), "size"),
        (lambda: DiscreteLaplace(1, 1).sample((3,) * 70), "size"),
        (lambda: DiscreteLaplace(1, 1).pmf([[1], [1, 2]]), "k"),
        (lambda: dpfast.Laplace(1, 1).cdf([[1.0], [1.0, 2.0]]), "noise"),
        (lambda: DiscreteLaplace(1, 1, adjacency=np.array([1, 2])), "adjacency"),
        (lambda: DiscreteLaplace(1, 1, adjacency=10**5000), "adjacency"),
        (lambda: DiscreteLaplace(1, 1, unit=10**5000), "unit"),
        (lambda: DiscreteLaplace(1, 1).metadata(5), "key"),
        (lambda: DiscreteLaplace(np.timedelta64(1, "s"), 1), "epsilon"),
        (lambda: DiscreteLaplace(1, 1).interval(cells=np.timedelta64(1, "s")), "cells"),
        (lambda: DiscreteLaplace(1, 1).release([1], names=[10**5000]), "names"),
        (lambda: DiscreteLaplace(1, 1).release([1], resume=10**5000), "resume"),
        (lambda: DiscreteLaplace(1, 1).release([1], dtype="i4,("), "dtype"),
        (lambda: DiscreteLaplace(1, 1).dp_event(zcdp=np.array([1, 2])), "zcdp"),
        (lambda: DiscreteLaplace(1, 1).privacy_loss_distribution(value_discretization_interval="x"), "value_discretization"),
        (lambda: DiscreteLaplace(1, 1).privacy_loss_distribution(value_discretization_interval=1e300), "value_discretization"),
        (lambda: dpfast.AboveThreshold(1, 1, threshold=5).run(None), "answers"),
        (lambda: dpfast.RandomizedResponse.two_coin(np.array([1, 2])), "probability"),
        (lambda: dpfast.random_bytes(2**63 - 1), "n"),
        (lambda: dpfast.testing.fixed_key(10**5000), "number"),
        (lambda: dpfast.Guarantee(1).group(10**5000), "size"),
        (lambda: dpfast.fixed_point_sum([1.0], lower=0, upper=1, granularity=1, adjacency="add-remove", records_per_unit=np.array([1, 2])), "records_per"),
        (lambda: dpfast.bounded_histogram([1], [1], max_partitions=1, max_per_partition=1, outside=np.array([1, 2])), "outside"),
        (lambda: dpfast.compose(dpfast.Guarantee(1), by=np.array([1, 2])), "by"),
        (lambda: dpfast.postprocess.clip([[1], [1, 2]], 0), "noisy"),
        (lambda: dpfast.postprocess.clip(np.longdouble(1), 0), "noisy"),
        (lambda: dpfast.postprocess.rounded([1.5], 2**2000), "step"),
        (lambda: dpfast.postprocess.consistent([[1.0]], [1.0], cell_variance=10**400), "cell_variance"),
        (lambda: dpfast.Key(bytearray(32)), "secret"),
    ],
)  # fmt: skip
def test_what_once_raised_a_plain_error_names_its_parameter(call, name) -> None:
    if name in ("zcdp", "value_discretization"):
        pytest.importorskip("dp_accounting")
    with pytest.raises(DpfastError, match=rf"\b{name}"):
        call()


@pytest.mark.parametrize("epsilon", [1, 1.7e308, 5e-324])
@pytest.mark.parametrize("squared", [Fraction(1, 10**700), Fraction(1, 10**600), 1, 10**600, 10**1200], ids=brief)
def test_calibration_ends_at_every_scale(epsilon, squared) -> None:
    """Far out a search step or a quotient of sigmas would overflow: a mechanism, or a refusal."""
    try:
        found = dpfast.Gaussian.calibrated(epsilon, dpfast.Sensitivity.from_l2(squared), delta=1e-6)
    except ParameterError:
        return
    assert found.delta(epsilon) <= 1e-6


def test_a_unit_may_be_any_kind_of_text() -> None:
    """One whose own methods fail is read as the text that it is."""

    class Text(str):
        __slots__ = ()

        def strip(self, *_) -> Never:
            raise RuntimeError("planted")

    assert DiscreteLaplace(1, 1, unit=Text("visit")).guarantee.unit == "visit"
