# SPDX-License-Identifier: Apache-2.0
"""The constants of plans once more, in Python's numbers, by the names of dpf_plan's fields.

csrc/plan.c makes what releases use. Each law's .md says what its constants mean.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context
from fractions import Fraction
from typing import Any

import numpy as np
import tiers

from dpfast.evidence.selftest.reference import DiscreteGaussian, DiscreteLaplace, OneSidedGeometric

DIGITS = 832  # behind the point of a plan's `scale`
SHORT_ERROR = 3 * 2.0**-37  # level 0 of 32-bit words is wrong by less, for each unit of t + 1
SHORT_LOG_ERROR = 1.4375 * 2.0**-36  # bounds the error of -ln U at level 0 of a pair's 32-bit words
HALF = Fraction(1, 2)


def first(value: Fraction, *upto: tuple[int, int], last: int) -> int:
    """What stands beside the first limit that the value does not exceed."""
    return next((found for limit, found in upto if value <= limit), last)


def _logarithmic(scale: Fraction, relative_error: float) -> dict[str, Any]:
    t = float(scale)
    return {
        "t": t,
        "t_low": float(scale - Fraction(t)),
        "margin": 0.5 - relative_error * (t + 2),
        "relative_error": relative_error,
        "margin32": 0.5 - SHORT_ERROR * (t + 1),
        "half_cell": (t / 2 + 0.25) * (1 + 2.0**-20),
        "double_double_margin": 0.5 - t * 2.0**-72 - 2.0**-38,
        "scale": math.floor(scale * 2**DIGITS),
        "wide_t": math.floor(scale * 2**67),
        "wide_c": 2**20,
        "wide_cell": math.floor(scale).bit_length() + 60,
    }


def log_weight(scale: Fraction) -> Fraction:
    """C = ln(2/(1 + q)), q = e^(-1/t), within 2^-340: by decimals that round correctly."""
    by = Context(128, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, traps=[])
    q = by.exp(by.divide(-scale.denominator, scale.numerator))
    return Fraction(by.ln(by.divide(2, by.add(1, q))))


def geometric(law: OneSidedGeometric, scale: Fraction) -> dict[str, Any]:
    """A plan that rounds t (C - ln U) down: csrc/discrete_laplace.md."""
    found = _logarithmic(scale, 5 * 2.0**-52)
    offset = log_weight(scale) if isinstance(law, DiscreteLaplace) else Fraction(0)
    c45 = math.floor(offset * 2**45)
    return {
        **found,
        "width": first(scale, (2**7, 16), (2**20, 32), last=64),
        "bulk": first(
            scale, (2**7, tiers.TABLE), (2**12, tiers.FLOAT), (2**43, tiers.DOUBLE), last=tiers.DOUBLE_DOUBLE
        ),
        "constant_work": first(scale, (2**17, tiers.DOUBLE), (2**40, tiers.DOUBLE_DOUBLE), last=tiers.INTEGER),
        "offset": float(scale * offset - HALF),
        "float_margin": 0.5 - 2.0**-23 * (2.25 * found["t"] + 4),
        "float_error": 3.125 * 2.0**-23,
        "c": c45 / 2**45,
        "c_low": float(offset - Fraction(c45, 2**45)),
        "wide_c": math.floor(offset * 2**120) if isinstance(law, DiscreteLaplace) else 2**20,
    }


def laplace(ratio: Fraction) -> dict[str, Any]:
    constant_work = (2**17, tiers.DOUBLE), (2**21, tiers.EXTENDED), (2**40, tiers.DOUBLE_DOUBLE)
    return {
        **_logarithmic(ratio, 6 * 2.0**-52),
        "width": first(ratio, (2**21, 32), last=64),
        "bulk": first(ratio, (2**44, tiers.DOUBLE), last=tiers.DOUBLE_DOUBLE),
        "constant_work": first(ratio, *constant_work, last=tiers.INTEGER),
        "extended_margin": 0.5 - 2.0**-35,
    }


def _root(squared: Fraction) -> int:
    """Rounded down to so many digits."""
    return math.isqrt((squared.numerator << 2 * DIGITS) // squared.denominator)


def normal(squared: Fraction, *, short: bool) -> dict[str, Any]:
    """A Gaussian's, by its variance in steps of the grid: csrc/gaussian.md."""
    root = Fraction(_root(squared), 2**DIGITS)
    t = float(root)
    beyond = tiers.EXTENDED if short else tiers.DOUBLE_DOUBLE
    return {
        "width": 32 if short else 64,
        "bulk": first(squared, (2**80, tiers.DOUBLE), last=tiers.DOUBLE_DOUBLE),
        "constant_work": first(squared, (2**32, tiers.DOUBLE), last=beyond),
        "t": t,
        "t_low": float(root - Fraction(t)),
        "scale": _root(squared),
        "margin": 0.5 - 2.0**-50,
        "relative_error": 20 * 2.0**-52,
        "margin32": 0.5 - 2.0**-50,
        "half_cell": t * (max(t * (1 + 2.0**33 * SHORT_LOG_ERROR), 1.75) if short else t) * (1 + 2.0**-20),
        "half_angle": 3.375 * 2.0**-32 if short else 2.0**-62 * (1 + 2.0**-20),
        "extended_margin": 0.5 - 2.0**-48,
        "extended_error": 2.0**-53,
        "double_double_margin": 0.5 - t * 2.0**-73 - 2.0**-38,
        "double_double_cell": t * (2.0**-63 if short else 1.4143 * 2.0**-73),
    }


def discrete_gaussian(squared: Fraction) -> dict[str, Any]:
    if squared <= 2**14:
        found = search(DiscreteGaussian(squared).thresholds())
        return {"width": 16, "bulk": tiers.TABLE, "constant_work": tiers.DOUBLE, "scale": _root(squared), **found}
    constants = normal(squared, short=squared <= 2**40)
    near, t = float(squared), constants["t"]
    return {
        **constants,
        "bulk": tiers.FLOAT if squared <= 2**24 else constants["bulk"],
        "float_margin": 0.5 - 4 * 2.0**-23,
        "float_error": 3.375 * 2.0**-23,
        "float_log_error": 2.25 * 2.0**-23 * (t * t),
        "rejects": 1 / (24 * (near * near)),
        "accept_below": math.floor(2**16 * (1 - Fraction(385, 100) / squared)),
        "candidates": 1 if squared > 2**26 else 2,
    }


def search(thresholds: Sequence[int]) -> dict[str, Any]:
    """A search among thresholds, from a guide: csrc/discrete_gaussian.md, section 2."""
    edges = [2 ** (i // 16) * Fraction(16 + i % 16, 16) for i in range(64 * 16 + 2)]
    least = [0, *(math.floor(edge * (1 - Fraction(1, 2**52))) for edge in edges[1:-1])]
    most = [math.ceil(edge) for edge in edges[1:]]
    falling = [-t for t in thresholds]
    above = [bisect_left(falling, -u) for u in most]  # thresholds above most, and then above least
    steps = max(1, *((bisect_left(falling, -u) - g).bit_length() for u, g in zip(least, above, strict=True)))
    padded = np.zeros(len(thresholds) + 2**steps, np.uint64)
    padded[: len(thresholds)] = thresholds
    return {"thresholds": padded, "guide": np.array(above, np.uint16), "steps": steps}


def signed_table(cells: Sequence[int | None]) -> np.ndarray:
    """Magnitudes by cell of U, and behind them the same with the sign, the top bit of a word."""
    found = np.array([tiers.UNDECIDED if cell is None else cell for cell in cells], np.int16)
    return np.concatenate([found, np.where(found == tiers.UNDECIDED, found, -found)])
