# SPDX-License-Identifier: Apache-2.0
"""Tumult Core on exact noise: its measurement on a pandas Series, as one release.

    noisy = AddNoiseToColumn(domain, AddNoiseToSeries(AddGeometricNoise(alpha)), "count")(frame)

Domains, metrics and privacy function are Tumult Core's. The noise measurement gives the mechanism
and its exact parameter.

| noise measurement | released by | parameter |
| --- | --- | --- |
| AddGeometricNoise | DiscreteLaplace | scale = alpha |
| AddLaplaceNoise | Laplace | scale |
| AddDiscreteGaussianNoise | DiscreteGaussian | sigma_squared |
| AddGaussianNoise | Gaussian | sigma_squared |

A rational parameter is taken exactly. Tumult Core rounds an irrational one up to a double.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, noise_source
from dpfast.adapters import Installer, library
from dpfast.errors import DTypeError, ParameterError

library("tmlt.core", "tumult", "0.20")
_MEASUREMENTS = "tmlt.core.measurements"
aggregations: Any = import_module(f"{_MEASUREMENTS}.aggregations")
noise: Any = import_module(f"{_MEASUREMENTS}.noise_mechanisms")
series: Any = import_module(f"{_MEASUREMENTS}.pandas_measurements.series")
spark: Any = import_module(f"{_MEASUREMENTS}.spark_measurements")

if TYPE_CHECKING:
    import pandas as pd
    from tmlt.core.utils.exact_number import ExactNumber

__all__ = ["AddNoiseToSeries", "install", "installed", "uninstall"]

MECHANISMS: dict[type, Any] = {
    noise.AddGeometricNoise: lambda theirs: noise_source("discrete_laplace", _exact("alpha", theirs.alpha)),
    noise.AddLaplaceNoise: lambda theirs: noise_source("laplace", _exact("scale", theirs.scale)),
    noise.AddDiscreteGaussianNoise: lambda theirs: DiscreteGaussian(
        sigma_squared=_exact("sigma_squared", theirs.sigma_squared)
    ),
    noise.AddGaussianNoise: lambda theirs: Gaussian(sigma_squared=_exact("sigma_squared", theirs.sigma_squared)),
}


def __dir__() -> list[str]:
    return __all__


class AddNoiseToSeries(series.AddNoiseToSeries):  # type: ignore[misc]
    """Tumult Core's measurement of that name, which releases the Series at once.

    Raises: ParameterError for a noise measurement that adds no noise, or infinitely much;
        DTypeError for another class.
    """

    def __init__(self, noise_measurement: Any) -> None:
        super().__init__(noise_measurement)
        if type(noise_measurement) not in MECHANISMS:  # what a subclass does is not known here
            raise DTypeError(
                f"noise_measurement must be one of {', '.join(theirs.__name__ for theirs in MECHANISMS)}, "
                f"not {type(noise_measurement).__name__}"
            )
        self._mechanism = MECHANISMS[type(noise_measurement)](noise_measurement)

    def __call__(self, values: pd.Series) -> pd.Series:
        """The values plus fresh noise, int64 or float64, with their index and name.

        Integers saturate at the ends of int64. Real values come back on a grid of some 2^-20
        scales.
        Raises: DTypeError unless they are of the kind of number that the noise measurement is for;
        ParameterError for NaN and infinities.
        """
        kind = np.int64 if isinstance(self._mechanism, (DiscreteLaplace, DiscreteGaussian)) else np.float64
        noisy = self._mechanism.release(values.to_numpy(), dtype=kind)
        return type(values)(noisy, index=values.index, name=values.name)


def _put(ours: bool) -> None:
    for module in (aggregations, spark):
        module.AddNoiseToSeries = AddNoiseToSeries if ours else series.AddNoiseToSeries


_installer = Installer(_put)
uninstall, installed = _installer.uninstall, _installer.installed


def install() -> None:
    """Have Tumult Core build its own measurements on the class of this module.

    This is for create_count_measurement and the like.

    This holds in this process, for all its threads, until `uninstall` was called as often.
    Measurements that were made before stay theirs, and those made meanwhile are ours. Partition
    selection and the sparse vector technique build a measurement at each call.
    """
    _installer.install()


def _exact(name: str, number: ExactNumber) -> Fraction:
    if not number.is_finite or number <= 0:
        raise ParameterError(
            f"{name} must be finite and positive, got {number!r:.40}: there is no release without noise"
        )
    if number.expr.is_Rational:
        return Fraction(int(number.expr.p), int(number.expr.q))
    return Fraction(number.to_float(round_up=True))
