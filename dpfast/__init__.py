# SPDX-License-Identifier: Apache-2.0
"""Exact differential-privacy noise at memory speed."""

from functools import partial as _partial
from typing import TYPE_CHECKING, Any

from dpfast import adapters as _adapters
from dpfast import errors
from dpfast.former import stand_in as _stand_in
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.gaussian import Gaussian
from dpfast.noise.mechanisms.laplace import Laplace
from dpfast.noise.mechanisms.snapping import Snapping
from dpfast.privacy.guarantee import Guarantee
from dpfast.privacy.port import port as _port
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpfast import adapters, postprocess
    from dpfast import numba as numba
    from dpfast import testing as testing
    from dpfast.counts.records.bounded_histogram import EACH_ROW, BoundedHistogram, bounded_histogram
    from dpfast.counts.records.fixed_point import fixed_point_sum
    from dpfast.counts.records.means import NoisyMeans
    from dpfast.counts.records.partitions import Thresholded, thresholded
    from dpfast.counts.running.noisy_totals import NoisyTotals, running_totals
    from dpfast.counts.running.totals import RunningTotals
    from dpfast.counts.trees.noisy_tree import NoisyTree
    from dpfast.counts.trees.quantiles import quantiles
    from dpfast.counts.trees.release import tree
    from dpfast.ledger import Ledger
    from dpfast.noise.mechanisms.above_threshold import AboveThreshold
    from dpfast.noise.mechanisms.noise_source import NoiseSource, noise_source
    from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric
    from dpfast.noise.mechanisms.randomized_response import RandomizedResponse
    from dpfast.noise.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
    from dpfast.noise.random.bit_generator import ChaCha20
    from dpfast.noise.random.random_bytes import fill_bytes, random_bytes
    from dpfast.noise.release.key import Key, KeyFile, ReleaseKey
    from dpfast.privacy.composition import calibrate, compose

Geometric = DiscreteLaplace

__version__ = "0.1.0"
__all__ = [
    "EACH_ROW",
    "AboveThreshold",
    "BoundedHistogram",
    "ChaCha20",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Geometric",
    "Guarantee",
    "Key",
    "KeyFile",
    "Laplace",
    "Ledger",
    "NoiseSource",
    "NoisyMax",
    "NoisyMeans",
    "NoisyTotals",
    "NoisyTree",
    "OneSidedGeometric",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReleaseKey",
    "RunningTotals",
    "Sensitivity",
    "Snapping",
    "Thresholded",
    "adapters",
    "bounded_histogram",
    "calibrate",
    "compose",
    "errors",
    "fill_bytes",
    "fixed_point_sum",
    "noise_source",
    "postprocess",
    "quantiles",
    "random_bytes",
    "running_totals",
    "thresholded",
    "tree",
]

_SUBMODULES = "adapters", "numba", "postprocess", "testing"
# Imported when first asked for: `import dpfast` loads what a release of an array needs.
_LATE = {
    "dpfast.ledger": "Ledger",
    "dpfast.noise.mechanisms.above_threshold": "AboveThreshold",
    "dpfast.noise.mechanisms.noise_source": "NoiseSource noise_source",
    "dpfast.noise.mechanisms.one_sided_geometric": "OneSidedGeometric",
    "dpfast.noise.mechanisms.randomized_response": "RandomizedResponse",
    "dpfast.noise.mechanisms.selection": "Exponential NoisyMax PermuteAndFlip",
    "dpfast.privacy.composition": "calibrate compose",
    "dpfast.noise.random.bit_generator": "ChaCha20",
    "dpfast.noise.random.random_bytes": "fill_bytes random_bytes",
    "dpfast.counts.records.bounded_histogram": "BoundedHistogram EACH_ROW bounded_histogram",
    "dpfast.counts.records.fixed_point": "fixed_point_sum",
    "dpfast.counts.records.means": "NoisyMeans",
    "dpfast.counts.records.partitions": "Thresholded thresholded",
    "dpfast.noise.release.key": "Key KeyFile ReleaseKey",
    "dpfast.counts.running.noisy_totals": "NoisyTotals running_totals",
    "dpfast.counts.running.totals": "RunningTotals",
    "dpfast.counts.trees.noisy_tree": "NoisyTree",
    "dpfast.counts.trees.quantiles": "quantiles",
    "dpfast.counts.trees.release": "tree",
}


# What a reader may look for by another name.
_ELSEWHERE = {
    "count": "bounded_histogram",
    "histogram": "bounded_histogram",
    "mean": "BoundedHistogram.mean",
    "median": "quantiles(..., [1/2])",
    "quantile": "quantiles",
    "sum": "fixed_point_sum",
}


_stand_in()
_port.version, _port.releaser = __version__, _adapters.releaser
_port.accounting = _partial(_adapters.named, "dp_accounting")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"dpfast.{name}")
    for module, names in _LATE.items():
        if name in names.split():
            return globals().setdefault(name, getattr(import_module(module), name))
    if name in errors.__all__:
        from warnings import warn

        note = f"dpfast.{name} is dpfast.errors.{name}: the shorter name leaves with version 0.2"
        warn(note, DeprecationWarning, stacklevel=2)
        return getattr(errors, name)
    hint = f": dpfast.{_ELSEWHERE[name]} serves" if name in _ELSEWHERE else ""
    raise AttributeError(f"module 'dpfast' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """The public names, late ones included, without the modules that they come from."""
    return sorted({*__all__, *_SUBMODULES, *(name for name in globals() if name.startswith("__"))})
