# SPDX-License-Identifier: Apache-2.0
"""The public nouns: one law, validated once, with what it spends."""

from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace, discrete_laplace
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.laplace import Laplace
from dpfast.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.mechanisms.snapping import Snapping

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "OneSidedGeometric",
    "Snapping",
    "discrete_laplace",
]
