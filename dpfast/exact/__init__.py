# SPDX-License-Identifier: Apache-2.0
"""The laws in proved intervals: constants, tables, quantiles; the last tier decides every draw."""

from dpfast.exact.balls import (
    ACCEPT,
    MAX_LEVELS,
    NOISE,
    Digits,
    Read,
    alone,
    ball,
    double_above,
    flint_at,
    nearest_double,
    rounded_up,
    unique_floor,
)
from dpfast.exact.discrete_gaussian import DiscreteGaussian
from dpfast.exact.discrete_laplace import DiscreteLaplace
from dpfast.exact.gaussian import Gaussian
from dpfast.exact.laplace import Laplace
from dpfast.exact.one_sided_geometric import OneSidedGeometric
from dpfast.exact.response import Categories, Coin, Response
from dpfast.exact.winner import winner

__all__ = [
    "ACCEPT",
    "MAX_LEVELS",
    "NOISE",
    "Categories",
    "Coin",
    "Digits",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "OneSidedGeometric",
    "Read",
    "Response",
    "alone",
    "ball",
    "double_above",
    "flint_at",
    "nearest_double",
    "rounded_up",
    "unique_floor",
    "winner",
]
