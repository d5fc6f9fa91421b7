# SPDX-License-Identifier: Apache-2.0
"""What a library needs of an engine, where it does the privacy arithmetic itself and comes with a scale."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.laplace import Laplace
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


LAWS: dict[str, Any] = {
    "discrete_laplace": lambda scale: DiscreteLaplace(1 / scale, 1),
    "discrete_gaussian": DiscreteGaussian,
    "laplace": lambda scale: Laplace(1 / scale, 1),
    "gaussian": Gaussian,
}

# As the mechanisms have them: the grid of a real law, 20 bits below its scale, has an exponent from -1074 to 900.
RANGES = {"discrete_gaussian": ("1e-3", "1e9"), "discrete_laplace": ("2**-60", "2**60")}
RANGES["laplace"] = RANGES["gaussian"] = ("2**-1054", "2**921")


def noise_source(law: str, scale: Real) -> NoiseSource:
    """The mechanism that adds noise of this law and scale, for a library that keeps epsilon and sensitivity itself.

    law: "discrete_laplace" or "discrete_gaussian" on integers, "laplace" or "gaussian" on floats.
    scale: int, float, Fraction or Decimal, taken exactly: of a Laplace law sensitivity/epsilon, of a Gaussian sigma.

    It knows nothing of a sensitivity: the Laplace laws record scale as epsilon = 1/scale for sensitivity 1. Made once
    for each law and scale, so a library may ask again for every value.
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
