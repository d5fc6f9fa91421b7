# SPDX-License-Identifier: Apache-2.0
"""The laws in proved intervals, one file each: tables, quantiles, the tier that decides last."""

from dpfast.privacy.exact.balls import (
    ACCEPT,
    MAX_LEVELS,
    NOISE,
    Ball,
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
from dpfast.privacy.exact.response import Categories, Coin, Response
from dpfast.privacy.exact.winner import winners

__all__ = [
    "ACCEPT",
    "MAX_LEVELS",
    "NOISE",
    "Ball",
    "Categories",
    "Coin",
    "Digits",
    "Read",
    "Response",
    "alone",
    "ball",
    "double_above",
    "flint_at",
    "nearest_double",
    "rounded_up",
    "unique_floor",
    "winners",
]
