# SPDX-License-Identifier: Apache-2.0
"""Exact differential-privacy noise at memory speed."""

from dpfast import testing
from dpfast.errors import (
    DpfastError,
    DTypeError,
    EntropyError,
    InsecureKeyWarning,
    KeyReuseError,
    ParameterError,
    SelfCheckError,
)
from dpfast.fixed_point import fixed_point_sum
from dpfast.key import Key, ReleaseKey
from dpfast.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    OneSidedGeometric,
    Snapping,
    discrete_laplace,
)
from dpfast.privacy.sensitivity import Sensitivity

Geometric = DiscreteLaplace

__version__ = "0.1.0"
__all__ = [
    "DTypeError",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DpfastError",
    "EntropyError",
    "Gaussian",
    "Geometric",
    "InsecureKeyWarning",
    "Key",
    "KeyReuseError",
    "Laplace",
    "OneSidedGeometric",
    "ParameterError",
    "ReleaseKey",
    "SelfCheckError",
    "Sensitivity",
    "Snapping",
    "discrete_laplace",
    "fixed_point_sum",
    "testing",
]
