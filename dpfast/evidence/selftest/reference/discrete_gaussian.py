# SPDX-License-Identifier: Apache-2.0
"""The discrete Gaussian law on a cell of U, or of V for a proposal, and its draws."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import partial

from dpfast.errors import DpfastError
from dpfast.evidence.selftest.reference.cells import floor_ends, table_of
from dpfast.evidence.selftest.reference.gaussian import Gaussian
from dpfast.noise.release.digits import ACCEPT
from dpfast.privacy.exact import discrete_gaussian
from dpfast.privacy.exact.balls import MAX_BITS, MAX_LEVELS, Ball, Read, alone, ball, dyadic, flint_at, split

MAX_CANDIDATES = 2**32  # candidates of the stream's address


class DiscreteGaussian(discrete_gaussian.DiscreteGaussian):
    """Inversion for small scales, rejection for large ones.

    sigma^2 up to 2^14: |X| is the number of k >= 1 with U <= T_k. Beyond: the real Gaussian,
    rounded to an integer k, is accepted with probability A(0)/A(k). It is k with probability
    f(k) A(k) times a constant, where A(k) is the integral over |s| <= 1/2 of
    exp(-s^2/(2 sigma^2)) cosh(k s/sigma^2) ds, least at k = 0.
    Source: Devroye 1986, II.3 (rejection), III.2 (inversion).
    """

    def __init__(self, sigma_squared: Fraction) -> None:
        super().__init__(sigma_squared)
        self.proposal = Gaussian(sigma_squared)
        self._known: dict[int, tuple[list[int], list[int]]] = {}  # by bits

    # ------------------------------------------------------------------ inversion

    def _edges(self, bits: int) -> tuple[list[int], list[int]]:
        """The first and last cells of U that may hold T_k, while above 0; ascending, so k falls."""
        if bits not in self._known:
            precision = bits + 64
            while True:
                found = self._floors(bits, precision)
                if all(first == last for first, last in found) or precision >= max(MAX_BITS, 2 * bits):
                    break
                precision *= 2
            self._known[bits] = [first for first, _ in found][::-1], [last for _, last in found][::-1]
        return self._known[bits]

    def _floors(self, bits: int, precision: int) -> list[tuple[int, int]]:
        found = []
        with alone, flint_at(precision):
            scale = dyadic(2, -bits) / self.theta(precision)
            for tail in self._tails(precision)[1:]:
                low, high = floor_ends(tail * scale)
                if high == 0:
                    break
                found.append((low, high))
        return found

    def thresholds(self) -> list[int]:
        """floor(2^64 T_k) for k = 1, 2, ... while it is at least 1."""
        first, last = self._edges(64)
        if first != last:
            raise DpfastError("a threshold cannot be told from an edge")
        return first[::-1]

    def table(self, bits: int) -> list[int | None]:
        """The magnitude on each cell [a, a + 1) / 2^bits of U; None if one T_k may be inside."""
        return table_of(bits, [*zip(*self._edges(bits), strict=True)][::-1])

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """The magnitude on [prefix, prefix + 1) / 2^bits; None if a threshold may be inside."""
        if prefix == 0:
            return None
        first, last = self._edges(bits)
        below = bisect_right(first, prefix)  # the thresholds that are not surely above the cell
        return len(first) - below if below == bisect_left(last, prefix) else None

    # ------------------------------------------------------------------ rejection

    def _acceptance(self, k: int) -> Ball:
        """A(0) / A(k), by the integral of f over [k - 1/2, k + 1/2], which is f(k) A(k)."""
        root = (2 * ball(self.sigma_squared)).sqrt()
        k = abs(k)
        if k == 0:
            return ball(1)
        mass = (dyadic(2 * k - 1, 1) / root).erfc() - (dyadic(2 * k + 1, 1) / root).erfc()
        return 2 * (dyadic(1, 1) / root).erf() * self._f(k) / mass

    def accepts(self, k: int, prefix: int, bits: int) -> bool | None:
        """Whether V < A(0)/A(k) on [prefix, prefix + 1) / 2^bits of V; None if it varies."""
        if k == 0:
            return True
        precision = 2 * self.proposal.lost + bits + 64  # the difference of two erfc takes the bits of sigma
        while True:
            with alone, flint_at(precision):
                first, last = floor_ends(dyadic(1, -bits) * self._acceptance(k))
            if prefix < first or prefix > last:
                return prefix < first
            if first == last or precision >= max(MAX_BITS, 2 * bits):
                return None
            precision *= 2

    def _accepted(self, read: Read, i: int, k: int, candidate: int) -> bool:
        for level in range(MAX_LEVELS):
            known = read(i, level, ACCEPT, candidate)
            found = self.accepts(k, *known)
            if found is not None:
                return found
            if known.bits >= MAX_BITS:
                break
        raise DpfastError("the digits of a draw leave it open")

    def _rejection(self, read: Read, i: int) -> int:
        for candidate in range(MAX_CANDIDATES):
            proposed = self.proposal.draw(partial(read, candidate=candidate), i, Fraction(0))
            if self._accepted(read, i, proposed, candidate):
                return proposed
        raise DpfastError("the stream has no more candidates for a draw")

    # ------------------------------------------------------------------ draws

    def draw(self, read: Read, i: int) -> int:
        """Draw i; by inversion the first raw digit is the sign (1: negative).

        Raises: DpfastError if 4,096 digits do not decide it (probability below 2^-4000).
        """
        if not self.inversion:
            return self._rejection(read, i)
        for level in range(1, MAX_LEVELS):
            negative, known = split(read(i, level))
            found = self.magnitude(*known)
            if found is not None:
                return -found if negative else found
            if known.bits >= MAX_BITS:
                break
        raise DpfastError("the digits of a draw leave it open")
