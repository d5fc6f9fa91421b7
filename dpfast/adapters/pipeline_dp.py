# SPDX-License-Identifier: Apache-2.0
"""PipelineDP on exact noise: COUNT, SUM, PRIVACY_ID_COUNT, MEAN and add_dp_noise.

    from dpfast.adapters import pipeline_dp as adapter
    adapter.install()

The budget carries the choice. A budget that is requested while the adapter is installed is a
MechanismSpec of this module. A mechanism that is made for it is one of ours, whenever the lazy
pipeline runs, even after uninstall(). This also holds in a worker, because the budget pickles by
name: a worker without dpfast raises ModuleNotFoundError. Other budgets get PipelineDP's noise. As
long as a budget of ours lives, PipelineDP's factory is rebound. After uninstall() and the last such
budget, every name is PipelineDP's own again.

On a LocalBackend the metrics of up to BLOCK partitions are released together. Checks, bounds,
accountants and reports stay PipelineDP's, and so does the noise of VARIANCE, VECTOR_SUM,
percentiles and of the selection of partitions.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Self

import numpy as np

import dpfast
from dpfast.adapters import Installer, library

__all__ = ["install", "installed", "uninstall"]

pipeline_dp: Any = library("pipeline_dp", "pipeline-dp", "0.3", package="pipeline-dp")
accounting, combiners, dp = pipeline_dp.budget_accounting, pipeline_dp.combiners, pipeline_dp.dp_computations

BLOCK = 2**16
UNIT = "privacy id"
ROOT_2 = Fraction(math.isqrt(2 * 4**128), 2**128)  # not above the root
IN_COLUMNS = {combiners.CountCombiner, combiners.MeanCombiner, combiners.PrivacyIdCountCombiner, combiners.SumCombiner}

_TheirSpec = accounting.MechanismSpec
_their_mechanism = dp.create_additive_mechanism
_TheirMean = dp.MeanMechanism
_one_by_one = pipeline_dp.LocalBackend.map_values


def __dir__() -> list[str]:
    return __all__


class MechanismSpec(_TheirSpec):  # type: ignore[misc, valid-type]
    """A budget for our noise. As long as one lives, our factory replaces PipelineDP's."""

    def __new__(cls, *_: Any, **__: Any) -> Self:  # copies and pickles come by here, too
        spec: Self = super().__new__(cls)
        _factory.install()
        weakref.finalize(spec, _factory.uninstall).atexit = False
        return spec


def _put(ours: bool) -> None:
    accounting.MechanismSpec = MechanismSpec if ours else _TheirSpec
    pipeline_dp.LocalBackend.map_values = _map_values if ours else _one_by_one


def _put_factory(ours: bool) -> None:
    dp.create_additive_mechanism = create_additive_mechanism if ours else _their_mechanism
    dp.MeanMechanism = MeanMechanism if ours else _TheirMean


_installer, _factory = Installer(_put), Installer(_put_factory)
uninstall, installed = _installer.uninstall, _installer.installed


def install() -> None:
    """Spend every budget that is requested from here on our noise.

    This holds in this process, for all its threads, until `uninstall` was called as often. What was
    requested before stays theirs. What is requested meanwhile is ours, whenever it is computed.
    """
    _installer.install()


class Additive(dp.AdditiveMechanism):  # type: ignore[misc, name-defined]
    """A mechanism of PipelineDP that releases through one of ours."""

    def __init__(self, theirs: Any, ours: dpfast.Laplace | dpfast.Gaussian) -> None:
        self._theirs, self._ours = theirs, ours

    def add_noise(self, value: Any) -> Any:
        """`value` plus fresh noise, rounded to the grid.

        value: a number, or an array; the result is a float, or an array of floats.

        An array is one release. Raises: DTypeError; ParameterError for NaN and infinity;
        EntropyError.
        """
        noisy = self._ours.release(np.asarray(1.0 * value), dtype=np.float64)
        return noisy if isinstance(value, np.ndarray) else float(noisy)

    @property
    def noise_kind(self) -> Any:
        return self._theirs.noise_kind

    @property
    def noise_parameter(self) -> float:
        return self._ours.scale

    @property
    def std(self) -> float:
        return self._ours.stddev

    @property
    def sensitivity(self) -> float:
        return float(self._theirs.sensitivity)

    def describe(self) -> str:
        return f"{self._theirs.describe()}, drawn by dpfast: {self._ours!r}"


def create_additive_mechanism(spec: Any, sensitivities: Any) -> Any:
    """PipelineDP's factory: for a budget of ours, our noise with PipelineDP's scale.

    If PipelineDP rounded the scale, it is rounded up.

    The distribution stays: real noise, for counts too. A Gaussian that PipelineDP calibrated keeps
    its sigma if this is proved to be (epsilon, delta)-DP; otherwise it gets the least such sigma.
    """
    theirs = _their_mechanism(spec, sensitivities)
    if not isinstance(spec, MechanismSpec):
        return theirs
    cells = None if sensitivities.l0 is None else dpfast.Sensitivity.changes(sensitivities.l0, sensitivities.linf)
    given = Fraction(float(spec.noise_standard_deviation)) if spec.standard_deviation_is_set else None
    if theirs.noise_kind == pipeline_dp.NoiseKind.LAPLACE:
        l1 = Fraction(float(sensitivities.l1))
        epsilon = Fraction(float(spec.eps)) if given is None else ROOT_2 / given
        return Additive(theirs, _laplace(epsilon, l1 if cells is None else max(l1, cells.l1 or l1)))
    squared = Fraction(float(sensitivities.l2)) ** 2
    if cells is not None:
        squared = max(squared, cells.l2_squared)
    if given is not None:
        return Additive(theirs, _gaussian(given**2 * squared, squared))
    return Additive(theirs, _gaussian(Fraction(theirs.std) ** 2, squared, spec.eps, spec.delta))


@lru_cache(maxsize=64)
def _laplace(epsilon: Fraction, l1: Fraction) -> dpfast.Laplace:
    return dpfast.Laplace(epsilon, l1, unit=UNIT)


@lru_cache(maxsize=64)
def _gaussian(
    sigma_squared: Fraction, l2_squared: Fraction, epsilon: float | None = None, delta: float = 1.0
) -> dpfast.Gaussian:
    sensitivity = dpfast.Sensitivity.from_l2(l2_squared, unit=UNIT)
    found = dpfast.Gaussian(sigma_squared=sigma_squared, sensitivity=sensitivity)
    if epsilon is None or found.delta(Fraction(epsilon)) <= delta:
        return found
    return dpfast.Gaussian.calibrated(Fraction(epsilon), sensitivity, delta=Fraction(delta))


class MeanMechanism(_TheirMean):  # type: ignore[misc, valid-type]
    """PipelineDP's mechanism for means, for columns too."""

    def compute_mean(self, count: Any, normalized_sum: Any) -> tuple[Any, Any, Any]:
        if not isinstance(count, np.ndarray):
            found: tuple[float, float, float] = super().compute_mean(count, normalized_sum)
            return found
        noisy = self._count_mechanism.add_noise(count)
        mean = self._range_middle + self._sum_mechanism.add_noise(normalized_sum) / np.maximum(1.0, noisy)
        return noisy, mean * noisy, mean


def _map_values(
    self: Any, col: Any, fn: Callable[[Any], Any], stage_name: str | None = None, resource_hints: Any = None
) -> Any:
    compound = getattr(fn, "__self__", None)
    if type(compound) is combiners.CompoundCombiner and fn.__name__ == "compute_metrics" and _is_ours(compound):
        return pipeline_dp.pipeline_backend.ReiterableLazyIterable(_in_blocks(col, compound))
    return _one_by_one(self, col, fn, stage_name, resource_hints)


def _is_ours(compound: Any) -> bool:
    """Whether every metric of it is ours, and works alike on numbers and on columns."""
    parts = compound._combiners  # noqa: SLF001  it has no other name
    if not parts or any(type(part) not in IN_COLUMNS for part in parts):
        return False
    specs = (part.mechanism_spec() for part in parts)
    return all(isinstance(s, MechanismSpec) for spec in specs for s in (spec if isinstance(spec, tuple) else (spec,)))


def _in_blocks(col: Iterable[tuple[Any, Any]], compound: Any) -> Iterator[tuple[Any, Any]]:
    """Each key with its metrics: PipelineDP's own computation, on the columns of a block."""
    rows = iter(col)
    while block := list(islice(rows, BLOCK)):
        keys, accumulators = zip(*block, strict=True)
        parts = zip(*(parts for _, parts in accumulators), strict=True)
        metrics = compound.compute_metrics((len(block), [np.array(part, np.float64).T for part in parts]))
        columns = (np.broadcast_to(column, len(block)).tolist() for column in metrics)
        yield from zip(keys, map(metrics._make, zip(*columns, strict=True)), strict=True)
