# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SLF001  it reads what mechanisms keep (docs/design.md, who may import whom)
"""The laws once more, in intervals: each decides a draw from the digits of its words, or not yet.

By another library and another arithmetic than the C, which the self-test and the tests hold
against it. No release imports this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpfast.evidence.selftest.reference.discrete_gaussian import DiscreteGaussian
from dpfast.evidence.selftest.reference.discrete_laplace import DiscreteLaplace, OneSidedGeometric
from dpfast.evidence.selftest.reference.gaussian import Gaussian
from dpfast.evidence.selftest.reference.laplace import Laplace
from dpfast.noise.release import digits

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from dpfast._native import StreamKey
    from dpfast.privacy.exact import Read

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "OneSidedGeometric", "of", "reader"]

# By the names of the laws' figures (dpfast.privacy.exact), and what each is made from.
LAWS: dict[str, tuple[Callable[[Fraction], Any], str]] = {
    "DiscreteGaussian": (DiscreteGaussian, "sigma_squared"),
    "DiscreteLaplace": (DiscreteLaplace, "rate"),
    "Gaussian": (Gaussian, "ratio_squared"),
    "Laplace": (Laplace, "ratio"),
    "OneSidedGeometric": (OneSidedGeometric, "rate"),
}


def of(mechanism: Any) -> Any:
    """The law that decides a mechanism's draws."""
    figures = mechanism._law
    law, name = LAWS[type(figures).__name__]
    return _made(law, getattr(figures, name))


@lru_cache(maxsize=64)
def _made(law: Callable[[Fraction], Any], parameter: Fraction) -> Any:
    return law(parameter)


def reader(mechanism: Any, stream: StreamKey) -> Read:
    """The digits of the words that a mechanism's draws read."""
    return digits.reader(stream, mechanism._constant_work_plan.width)
