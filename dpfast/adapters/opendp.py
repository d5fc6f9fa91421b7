# SPDX-License-Identifier: Apache-2.0
"""OpenDP measurements on exact noise: a constructor for each mechanism, and its then_ form.

    count >> then_discrete_laplace(scale=2.0)
    register()  # then, in the Context API: query.dpfast_discrete_laplace().release()

They are user measurements, so OpenDP asks for the features "contrib" and "honest-but-curious".
OpenDP's own constructor of the same family checks domain and metric first, and what it refuses is
refused here.

| constructor | numbers | metric | measure | d_out |
| --- | --- | --- | --- | --- |
| make_discrete_laplace | i32, i64, u32, u64, usize | absolute, L1 | max divergence | d_in / scale |
| make_laplace | f32, f64 | absolute, L1 | max divergence | d_in / scale |
| make_discrete_gaussian | i32, i64, u32, u64, usize | absolute, L2 | zero-concentrated | (d_in / scale)^2 / 2 |
| make_gaussian | f32, f64 | absolute, L2 | zero-concentrated | (d_in / scale)^2 / 2 |

input_domain: atom_domain(T) with an absolute distance, or vector_domain(atom_domain(T)), whose
    release is a list; or dp.numpy.arrayd_domain and array2_domain, whose release is a NumPy array,
    without a list. L1 and L2 are then those of the entries. A domain that holds NaN is refused.
scale: int, float, Fraction or Decimal, taken exactly: the scale of Laplace noise, the sigma of
    Gaussian noise.

The losses hold for d_in, which the stability maps of earlier transformations give, and which
nothing here can check. That of make_b_ary_tree under L2 is too low (OpenDP's issue #2924, open in
November 2026): use dpfast.tree for sums over ranges.

The privacy maps are computed in rationals and rounded up. Integers saturate at the ends of T. As in
OpenDP, an infinite value counts as the largest finite one of its sign, and NaN, outside the domain,
as 0: no value raises. Real mechanisms round the noisy value to a grid, after the noise, so the map
pays nothing for it.
Raises: DTypeError, ParameterError; OpenDPException for what OpenDP refuses.
Source: the maps, [DMNS06] and [CKS20] Theorem 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast import noise_source
from dpfast.adapters import library, rounded_up
from dpfast.errors import DTypeError, ParameterError

dp: Any = library("opendp.prelude", "opendp", "0.16", package="opendp")

if TYPE_CHECKING:
    from decimal import Decimal

    from opendp.mod import Domain, Measurement, Metric, _PartialConstructor

    Real = int | float | Fraction | Decimal

__all__ = [
    "make_discrete_gaussian",
    "make_discrete_laplace",
    "make_gaussian",
    "make_laplace",
    "register",
    "then_discrete_gaussian",
    "then_discrete_laplace",
    "then_gaussian",
    "then_laplace",
]

INTEGERS = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64, "usize": np.uintp}
REALS = {"f32": np.float32, "f64": np.float64}


def __dir__() -> list[str]:
    return __all__


class Family(NamedTuple):
    """What laws of one shape share in OpenDP."""

    name: str
    theirs: Callable[..., Measurement]
    measure: Callable[[], Any]
    loss: Callable[[Fraction, Fraction], Fraction]  # the exact loss of noise of a scale, at d_in


LAPLACE = Family("laplace", dp.m.make_laplace, dp.max_divergence, lambda scale, d_in: d_in / scale)
GAUSSIAN = Family(
    "gaussian", dp.m.make_gaussian, dp.zero_concentrated_divergence, lambda scale, d_in: (d_in / scale) ** 2 / 2
)


def make_discrete_laplace(input_domain: Domain, input_metric: Metric, scale: Real) -> Measurement:
    """Integers plus discrete Laplace noise: (d_in / scale)-DP."""
    return _measurement(LAPLACE, INTEGERS, input_domain, input_metric, scale)


def make_laplace(input_domain: Domain, input_metric: Metric, scale: Real) -> Measurement:
    """Floats plus real Laplace noise, on a grid of at most scale * 2^-20: (d_in / scale)-DP."""
    return _measurement(LAPLACE, REALS, input_domain, input_metric, scale)


def make_discrete_gaussian(input_domain: Domain, input_metric: Metric, scale: Real) -> Measurement:
    """Integers plus discrete Gaussian noise: ((d_in / scale)^2 / 2)-zCDP."""
    return _measurement(GAUSSIAN, INTEGERS, input_domain, input_metric, scale)


def make_gaussian(input_domain: Domain, input_metric: Metric, scale: Real) -> Measurement:
    """Floats plus real Gaussian noise, on a grid of at most scale * 2^-20.

    It is ((d_in / scale)^2 / 2)-zCDP.
    """
    return _measurement(GAUSSIAN, REALS, input_domain, input_metric, scale)


def then_discrete_laplace(scale: Real) -> _PartialConstructor:
    """make_discrete_laplace, of the space it is chained to."""
    return _then(make_discrete_laplace, scale)


def then_laplace(scale: Real) -> _PartialConstructor:
    """make_laplace, of the space it is chained to."""
    return _then(make_laplace, scale)


def then_discrete_gaussian(scale: Real) -> _PartialConstructor:
    """make_discrete_gaussian, of the space it is chained to."""
    return _then(make_discrete_gaussian, scale)


def then_gaussian(scale: Real) -> _PartialConstructor:
    """make_gaussian, of the space it is chained to."""
    return _then(make_gaussian, scale)


def register() -> None:
    """Offer the four measurements in OpenDP's Context API, beside OpenDP's own.

    They are .dpfast_laplace() and the like, with a scale that is given or searched.

    A second call changes nothing. (OpenDP refuses dp.register(make_laplace) alone, because it has
    a measurement of that name.)
    """
    from opendp.context import constructors

    for make in (make_discrete_laplace, make_laplace, make_discrete_gaussian, make_gaussian):
        name = make.__name__.replace("make", "dpfast")
        if name not in constructors:
            dp.register(make, name)


def _then(make: Callable[[Domain, Metric, Real], Measurement], scale: Real) -> _PartialConstructor:
    partial: type[_PartialConstructor] = dp._PartialConstructor  # noqa: SLF001  # in the __all__ of its module
    return partial(lambda input_domain, input_metric: make(input_domain, input_metric, scale))


def _measurement(
    family: Family, dtypes: dict[str, Any], input_domain: Domain, input_metric: Metric, scale: Real
) -> Measurement:
    law = family.name if dtypes is REALS else f"discrete_{family.name}"
    noise: Any = noise_source(law, scale)
    shape = _array_shape(input_domain)
    if shape is None:
        cells, carrier = input_domain, str(input_domain.carrier_type)
        element: Any = getattr(input_domain, "element_domain", input_domain)
        number = str(element.carrier_type)
    else:
        described: Any = input_domain.descriptor
        number, carrier = str(described.T), "ExtrinsicObject"
        cells = dp.vector_domain(dp.atom_domain(T=number, nan=getattr(described, "nan", None)))
    family.theirs(cells, input_metric, 1.0)
    if number not in dtypes:
        raise DTypeError(f"{law} noise is for {', '.join(dtypes)}, and input_domain is {input_domain}")
    dtype = np.dtype(dtypes[number])

    def function(values: Any) -> Any:
        array = np.array(values, dtype) if shape is None else _member(values, dtype, shape)
        if dtypes is REALS:
            array = np.nan_to_num(array)
        released = noise.release(array, dtype=dtype)
        return released.item() if carrier == number else released

    def privacy_map(d_in: float) -> float:
        if not 0 <= d_in < math.inf:
            raise ParameterError(f"d_in must be finite and not negative, got {d_in}")
        return rounded_up(family.loss(Fraction(scale), Fraction(d_in)))

    measurement: Measurement = dp.m.make_user_measurement(
        input_domain, input_metric, family.measure(), function, privacy_map, TO=carrier
    )
    return measurement


def _array_shape(domain: Domain) -> tuple[int | None, ...] | None:
    """The shape of the arrays of a NumPy domain (None: any length); None for another domain."""
    described: Any = getattr(domain, "descriptor", None)
    if isinstance(described, dp.numpy.NPArrayDDomain):
        return tuple(described.shape)
    if isinstance(described, dp.numpy.NPArray2Domain):
        return described.size, described.num_columns
    return None


def _member(values: Any, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> Any:
    """The array, if it is one of the domain."""
    if not isinstance(values, np.ndarray) or values.dtype != dtype:
        raise DTypeError(f"data must be a NumPy array of {dtype}, as the input domain says")
    if len(shape) != values.ndim or any(want not in (None, n) for want, n in zip(shape, values.shape, strict=True)):
        raise ParameterError("data must be of the shape that the input domain says")
    return values
