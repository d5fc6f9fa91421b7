# SPDX-License-Identifier: Apache-2.0
"""Proved intervals: figures of the laws, one file each; candidates and answers, digit by digit."""

from dpfast.privacy.exact.balls import (
    MAX_LEVELS,
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
    "MAX_LEVELS",
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
