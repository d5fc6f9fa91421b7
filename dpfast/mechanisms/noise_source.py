# SPDX-License-Identifier: Apache-2.0
"""What a library needs of an engine, where it does the privacy arithmetic itself and comes with a scale."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from dpfast.errors import DTypeError, NoGuaranteeError, ParameterError
from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.laplace import Laplace
from dpfast.mechanisms.pure import Pure
from dpfast.mechanisms.real import grid_exponent
from dpfast.privacy import parameters

if TYPE_CHECKING:
    from dpfast.privacy.parameters import Real


class NoiseSource(Protocol):
    """Five lines that a library can ask of any engine; every mechanism here has them."""

    def release(self, values: Any, /, *, dtype: Any = None) -> Any: ...  # values plus fresh noise, or it raises
    @property
    def scale(self) -> float: ...  # of the law, in the units of the values
    @property
    def stddev(self) -> float: ...  # of a released value
    def interval(self, confidence: Real = ..., *, cells: int = 1) -> float: ...  # half-width that holds all cells
    def metadata(self) -> dict[str, object]: ...  # JSON-able: law, exact parameters, versions


class OfScale(Pure):
    """A Laplace law of which the scale alone is known, as a Gaussian can be of sigma alone: it promises nothing."""

    NAME: ClassVar[str]
    _change = None

    if TYPE_CHECKING:

        @property
        def _record(self) -> tuple[str | int, ...]: ...

    def _nobody_said(self) -> NoReturn:
        raise NoGuaranteeError(
            "sensitivity must be given: this mechanism was made by noise_source, from its scale alone, and promises nothing; "
            "one made from epsilon and sensitivity does"
        )

    epsilon = sensitivity = guarantee = property(_nobody_said)
    adjacency = unit = _cell_squared = None  # type: ignore[assignment]

    @property
    def _exact_parameters(self) -> tuple[int, ...]:
        return self._scale.denominator, self._scale.numerator, 1, 1  # the stream is that of epsilon 1/scale for 1

    @property
    def _parameters(self) -> dict[str, object]:
        return {"exact_scale": str(self._scale)}

    def _facts(self) -> dict[str, str]:
        return {"scale": f"{self.scale:.6g}"}

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self.NAME, self._scale)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._record == self._record

    def __hash__(self) -> int:
        return hash(self._record)


class DiscreteLaplaceOfScale(DiscreteLaplace, OfScale):  # type: ignore[misc]  # it has less than what it is made of
    __reduce__, __eq__, __hash__ = OfScale.__reduce__, OfScale.__eq__, OfScale.__hash__

    def __init__(self, scale: Fraction) -> None:
        DiscreteLaplace(1 / scale, 1)  # refuses a scale out of range
        object.__setattr__(self, "_scale", scale)


class LaplaceOfScale(Laplace, OfScale):  # type: ignore[misc]
    __reduce__, __eq__, __hash__ = OfScale.__reduce__, OfScale.__eq__, OfScale.__hash__

    def __init__(self, scale: Fraction) -> None:
        object.__setattr__(self, "_exponent", grid_exponent(scale**2, None))
        object.__setattr__(self, "_scale", scale)


LAWS: dict[str, Any] = {
    "discrete_laplace": DiscreteLaplaceOfScale,
    "discrete_gaussian": DiscreteGaussian,
    "laplace": LaplaceOfScale,
    "gaussian": Gaussian,
}

# As the mechanisms have them: the grid of a real law, 20 bits below its scale, has an exponent from -1074 to 900.
RANGES = {"discrete_gaussian": ("1e-3", "1e9"), "discrete_laplace": ("2**-60", "2**60")}
RANGES["laplace"] = RANGES["gaussian"] = ("2**-1054", "2**921")


def noise_source(law: str, scale: Real) -> NoiseSource:
    """The mechanism that adds noise of this law and scale, for a library that keeps epsilon and sensitivity itself.

    law: "discrete_laplace" or "discrete_gaussian" on integers, "laplace" or "gaussian" on floats.
    scale: int, float, Fraction or Decimal, taken exactly: of a Laplace law sensitivity/epsilon, of a Gaussian sigma.

    It knows nothing of a sensitivity: metadata have the scale (or sigma_squared), and no epsilon; `guarantee` raises
    NoGuaranteeError, and compositions and ledgers refuse it. Made once for each law and scale, so a library may ask again
    for every value.
    Raises: DTypeError, ParameterError.
    """
    if not isinstance(law, str):
        raise DTypeError(f"law must be a string, not {type(law).__name__}")
    if law not in LAWS:
        raise ParameterError(f"law must be one of {', '.join(LAWS)}, got {parameters.shown(law)}")
    exact = parameters.exact_positive("scale", scale)
    try:
        return _made(law, exact)
    except ParameterError:
        least, most = RANGES[law]
        raise ParameterError(
            f"scale must lie between {least} and {most} for {law}, got {parameters.shown(scale)}"
        ) from None


@lru_cache(maxsize=64)
def _made(law: str, scale: Fraction) -> NoiseSource:
    found: NoiseSource = LAWS[law](scale)
    return found
