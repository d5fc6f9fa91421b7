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
from dpfast.key import Key, ReleaseKey
from dpfast.mechanisms import DiscreteLaplace, discrete_laplace

Geometric = DiscreteLaplace

__version__ = "0.1.0"
__all__ = [
    "DTypeError",
    "DiscreteLaplace",
    "DpfastError",
    "EntropyError",
    "Geometric",
    "InsecureKeyWarning",
    "Key",
    "KeyReuseError",
    "ParameterError",
    "ReleaseKey",
    "SelfCheckError",
    "discrete_laplace",
    "testing",
]
