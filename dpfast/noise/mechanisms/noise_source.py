# SPDX-License-Identifier: Apache-2.0
"""What a library needs of an engine if it does the privacy arithmetic itself and brings a scale."""

from __future__ import annotations

from dataclasses import Field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn, Protocol

from dpfast.errors import DTypeError, NoGuaranteeError, ParameterError
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.laplace import Laplace
from dpfast.noise.mechanisms.laws import own_laws
from dpfast.noise.mechanisms.pure import Pure
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, shown, unseeded
from dpfast.privacy.record import unwritten, written


class NoiseSource(Protocol):
    """Five lines that a library can ask of any engine; every mechanism here has them.

    >>> source: dpfast.NoiseSource = dpfast.noise_source("laplace", scale=2)
    >>> source.scale
    2.0
    """

    def release(self, values: Any, /, *, dtype: Any = None) -> Any: ...  # values plus fresh noise, or it raises
    @property
    def scale(self) -> float: ...  # the law's, in the units of the values
    @property
    def stddev(self) -> float: ...  # a released value's
    def interval(self, confidence: Real = ..., *, cells: int = 1) -> float: ...  # half-width that holds all cells
    def metadata(self) -> dict[str, object]: ...  # JSON-able: law, exact parameters, versions


class OfScale(Pure):
    """A Laplace law known by its scale alone, as a Gaussian by sigma alone: it states no spend."""

    _scale: Fraction = written(
        stream=lambda scale: (scale.denominator, scale.numerator, 1, 1),  # as of epsilon 1/scale for a sensitivity of 1
        metadata=lambda scale: {"exact_scale": str(scale)},
        words=unwritten,
    )

    def _unknown(self) -> NoReturn:
        raise NoGuaranteeError(
            "sensitivity must be given: this mechanism was made by noise_source, from its scale alone, and promises nothing; "
            "one made from epsilon and sensitivity does"
        )

    epsilon = sensitivity = guarantee = property(_unknown)
    adjacency = unit = property(lambda _: None)
    _cell_squared = None
    PROMISES = False

    @classmethod
    def _fields(cls) -> tuple[Field[Any], ...]:
        return tuple(each for each in super()._fields() if each.name in ("_scale", "_exponent"))


class DiscreteLaplaceOfScale(DiscreteLaplace, OfScale):
    def __init__(self, scale: Fraction) -> None:
        self._keep(_scale=scale)
        super().__init__(1 / scale, 1)


class LaplaceOfScale(Laplace, OfScale):
    def __init__(self, scale: Fraction) -> None:
        self._keep(_scale=scale)
        super().__init__(1 / scale, 1)


OF_SCALE: dict[str, Any] = {**own_laws(), "discrete_laplace": DiscreteLaplaceOfScale, "laplace": LaplaceOfScale}


@unseeded
def noise_source(law: str, scale: Real) -> NoiseSource:
    """The mechanism of this law and scale, for a library that keeps epsilon and sensitivity itself.

    law: "discrete_laplace" or "discrete_gaussian" on integers, "laplace" or "gaussian" on floats.
    scale: int, float, Fraction or Decimal, taken exactly: sensitivity/epsilon, or sigma.

    It knows no sensitivity: metadata have the scale (or sigma_squared), and no epsilon; `guarantee`
    raises NoGuaranteeError; compositions and ledgers refuse it. Made once for each law and scale.
    Raises: DTypeError, ParameterError.

    >>> dpfast.noise_source("discrete_laplace", scale=10).release([12, 0, 7]).shape
    (3,)
    """
    if not isinstance(law, str):
        raise DTypeError(f"law must be a string, not {type(law).__name__}")
    if law not in OF_SCALE:
        raise ParameterError(f"law must be one of {', '.join(OF_SCALE)}, got {shown(law)}")
    exact = parameters.exact_positive("scale", scale)
    try:
        return _made(law, exact)
    except ParameterError:
        least, most = OF_SCALE[law].SCALES
        raise ParameterError(f"scale must lie between {least} and {most} for {law}, got {shown(scale)}") from None


@lru_cache(maxsize=64, typed=True)
def _made(law: str, scale: Fraction) -> NoiseSource:
    found: NoiseSource = OF_SCALE[law](scale)
    return found
