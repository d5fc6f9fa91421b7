# SPDX-License-Identifier: Apache-2.0
"""The judge of the laws: closed forms at high precision. Never imports dpfast, or it would be no reference."""

from __future__ import annotations

from fractions import Fraction

import mpmath

GUARD = 64  # bits beyond what an answer needs; mpmath's last digits are not proved


class DiscreteLaplace:
    """P(X = k) = (1-q)/(1+q) q^|k|, q = exp(-rate)."""

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate

    def _rate(self) -> mpmath.mpf:
        return mpmath.mpf(self.rate.numerator) / self.rate.denominator

    def pmf(self, k: int) -> float:
        with mpmath.workprec(256):
            q = mpmath.exp(-self._rate())
            return float((1 - q) / (1 + q) * q ** abs(k))

    def cdf(self, k: int) -> float:
        with mpmath.workprec(256):
            q = mpmath.exp(-self._rate())
            return float(q**-k / (1 + q) if k < 0 else 1 - q ** (k + 1) / (1 + q))

    def variance(self) -> float:
        with mpmath.workprec(256 + 128):
            q = mpmath.exp(-self._rate())
            return float(2 * q / (1 - q) ** 2)

    def fourth_moment(self) -> float:
        """E X^4 = 2q (1 + 10q + q^2) / (1-q)^4, from the polylogarithm of order -4 by (1-q)/(1+q)."""
        with mpmath.workprec(256 + 256):
            q = mpmath.exp(-self._rate())
            return float(2 * q * (1 + 10 * q + q**2) / (1 - q) ** 4)

    def threshold(self, k: int, bits: int) -> int:
        """The cell of `bits` binary digits that holds T_k = 2 q^k / (1+q)."""
        with mpmath.workprec(bits + 200 + GUARD):
            q = mpmath.exp(-self._rate())
            return int(mpmath.floor(mpmath.ldexp(2 * mpmath.exp(-k * self._rate()) / (1 + q), bits)))

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """|X| on [prefix, prefix + 1) / 2^bits, or None where a threshold lies inside."""
        if prefix == 0:
            return None
        with mpmath.workprec(bits + 200 + GUARD):
            top = mpmath.log(2 / (1 + mpmath.exp(-self._rate())))
            ends = [
                int(mpmath.floor((top - mpmath.log(mpmath.ldexp(mpmath.mpf(u), -bits))) / self._rate()))
                for u in (prefix, prefix + 1)
            ]
        return ends[0] if ends[0] == ends[1] else None
