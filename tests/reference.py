# SPDX-License-Identifier: Apache-2.0
"""The reference, without any import of dpfast: laws in closed forms, and csrc/stream.md again."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import count
from typing import TypeAlias

import mpmath
from blake3 import blake3
from chacha import chacha
from mpmath.libmp import from_rational, mpf_exp, mpf_shift, to_int

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
        """E X^4 = 2q (1 + 10q + q^2) / (1-q)^4, from the polylogarithm of order -4."""
        with mpmath.workprec(256 + 256):
            q = mpmath.exp(-self._rate())
            return float(2 * q * (1 + 10 * q + q**2) / (1 - q) ** 4)

    def _top(self) -> mpmath.mpf:
        return 2 / (1 + mpmath.exp(-self._rate()))

    def threshold(self, k: int, bits: int) -> int:
        """The cell of `bits` digits that holds P(|X| >= k): 2 q^k / (1+q), for k = 0 too."""
        with mpmath.workprec(bits + 200 + GUARD):
            return int(mpmath.floor(mpmath.ldexp(self._top() * mpmath.exp(-k * self._rate()), bits)))

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """|X| on [prefix, prefix + 1) / 2^bits, or None where a threshold lies inside."""
        if prefix == 0:
            return None
        with mpmath.workprec(bits + 200 + GUARD):
            heights = (
                mpmath.log(self._top()) - mpmath.log(mpmath.ldexp(mpmath.mpf(u), -bits)) for u in (prefix, prefix + 1)
            )
            low, high = (int(mpmath.floor(height / self._rate())) for height in heights)
        return low if low == high else None


class Laplace:
    """K = floor(f + S t E + 1/2), E exponential, S a fair sign: Laplace of scale t about f."""

    def __init__(self, ratio: Fraction) -> None:
        self.ratio = ratio

    def _rate(self) -> mpmath.mpf:
        return mpmath.mpf(self.ratio.denominator) / self.ratio.numerator

    def below(self, z: Fraction) -> mpmath.mpf:
        """P(S t E <= z)."""
        tail = mpmath.exp(-abs(mpmath.mpf(z.numerator) / z.denominator) * self._rate()) / 2
        return tail if z < 0 else 1 - tail

    def pmf(self, k: int, offset: Fraction = Fraction(0)) -> float:
        with mpmath.workprec(512):
            low, high = (k + side - offset for side in (Fraction(-1, 2), Fraction(1, 2)))
            if low > 0:  # the upper tail is the lower one, which does not cancel
                low, high = -high, -low
            return float(self.below(high) - self.below(low))

    def cdf(self, k: int, offset: Fraction = Fraction(0)) -> float:
        with mpmath.workprec(512):
            return float(self.below(k + Fraction(1, 2) - offset))

    def quantile(self, p: float) -> int:
        """The least k with P(K <= k) >= p, for f = 0 and p of few digits."""
        with mpmath.workprec(512):
            away = -mpmath.log(2 * min(mpmath.mpf(p), 1 - mpmath.mpf(p))) / self._rate()
            return int(mpmath.ceil((away if p > 0.5 else -away) - 0.5))

    def variance(self) -> float:
        """2 sinh(r/2) sum k^2 q^k."""
        with mpmath.workprec(512):
            q = mpmath.exp(-self._rate())
            return float(2 * mpmath.sinh(self._rate() / 2) * q * (1 + q) / (1 - q) ** 3)

    def fourth_moment(self) -> float:
        """2 sinh(r/2) sum k^4 q^k."""
        with mpmath.workprec(768):
            q = mpmath.exp(-self._rate())
            return float(2 * mpmath.sinh(self._rate() / 2) * q * (1 + 11 * q + 11 * q**2 + q**3) / (1 - q) ** 5)

    def cell(self, height: Fraction, bits: int) -> int:
        """The cell of `bits` binary digits of U in which t E takes this value."""
        precision, rest = bits + GUARD + 16, height / self.ratio
        tail = mpf_exp(from_rational(-rest.numerator, rest.denominator, precision), precision)
        return int(to_int(mpf_shift(tail, bits), "f"))

    def rounded(self, negative: bool, prefix: int, bits: int, offset: Fraction) -> int | None:
        """K on the cell [prefix, prefix + 1) / 2^bits of U < 1, or None if it varies."""
        if prefix == 0:
            return None
        lift = offset + Fraction(1, 2)
        with mpmath.workprec(bits + 200 + GUARD + offset.denominator.bit_length()):
            begin = mpmath.mpf(lift.numerator) / lift.denominator
            ends = set()
            for u in (prefix, prefix + 1):
                noise = -mpmath.log(mpmath.ldexp(mpmath.mpf(u), -bits)) / self._rate()
                if noise == 0:  # U = 1 is not reached
                    ends.add(math.ceil(lift) - 1 if negative else math.floor(lift))
                else:
                    ends.add(int(mpmath.floor(begin - noise if negative else begin + noise)))
        return ends.pop() if len(ends) == 1 else None


def nearest_float(value: Fraction, single: bool) -> float:
    """The nearest float64 or float32, ties to even, at most the largest; zero is positive."""
    digits, least, most = (24, -149, 2**128 - 2**104) if single else (53, -1074, 2**1024 - 2**971)
    above, below = abs(value.numerator), value.denominator
    exponent = max(least, above.bit_length() - below.bit_length() - digits)
    exponent += above << max(-exponent, 0) >= below << max(exponent, 0) + digits
    one = below << max(exponent, 0)
    whole, rest = divmod(above << max(-exponent, 0), one)
    whole += 2 * rest > one or (2 * rest == one and whole % 2)
    near = math.ldexp(whole, exponent) if exponent <= 0 else float(min(whole << exponent, most))
    return -near if value < 0 and near else near


class Gaussian:
    """K = floor(f + t N + 1/2), N standard normal: a Gaussian of deviation t about f, rounded."""

    def __init__(self, ratio_squared: Fraction) -> None:
        self.ratio_squared = ratio_squared

    def ratio(self) -> mpmath.mpf:
        return mpmath.sqrt(mpmath.mpf(self.ratio_squared.numerator) / self.ratio_squared.denominator)

    def below(self, z: Fraction) -> mpmath.mpf:
        """P(t N <= z)."""
        return mpmath.erfc(-mpmath.mpf(z.numerator) / z.denominator / self.ratio() / mpmath.sqrt(2)) / 2

    def pmf(self, k: int, offset: Fraction = Fraction(0)) -> float:
        with mpmath.workprec(1024):
            half, at = Fraction(1, 2), -abs(k - offset)
            return float(self.below(at + half) - self.below(at - half))

    def cdf(self, k: int, offset: Fraction = Fraction(0)) -> float:
        with mpmath.workprec(256):
            return float(self.below(k + Fraction(1, 2) - offset))

    def quantile(self, p: float) -> int:
        """Near the least k with P(K <= k) >= p, for f = 0."""
        return round(statistics.NormalDist().inv_cdf(p) * math.sqrt(self.ratio_squared))

    def variance(self) -> float:
        """t^2 + 1/12, but for a relative 4 exp(-2 pi^2 t^2); where that counts, a sum."""
        if self.ratio_squared >= 9:
            return float(self.ratio_squared + Fraction(1, 12))
        return self._moment(2)

    def fourth_moment(self) -> float:
        """3 t^4 + t^2/2 + 1/80, or a sum."""
        if self.ratio_squared >= 9:
            return float(3 * self.ratio_squared**2 + self.ratio_squared / 2 + Fraction(1, 80))
        return self._moment(4)

    def _moment(self, order: int) -> float:
        """Beyond 14 t lies less than 1e-40."""
        return sum(2 * k**order * self.pmf(k) for k in range(1, 3 + math.ceil(14 * math.sqrt(self.ratio_squared))))

    @staticmethod
    def side(v: int, bits: int, cosine: bool) -> mpmath.mpf:
        angle = mpmath.ldexp(mpmath.mpf(v), -bits - 2) * mpmath.pi
        return mpmath.cos(angle) if cosine else mpmath.sin(angle)

    def cell(self, height: Fraction, bits: int, v: int, v_bits: int, cosine: bool) -> int:
        """The cell of `bits` digits of U where t R at this angle reaches a height."""
        with mpmath.workprec(bits + 60 + GUARD):
            side = self.side(2 * v + 1, v_bits + 1, cosine)
            reached = mpmath.mpf(height.numerator) / height.denominator / self.ratio() / side
            return int(mpmath.floor(mpmath.ldexp(mpmath.exp(-(reached**2) / 2), bits)))

    def rounded(self, u: int, u_bits: int, flags: int, v: int, v_bits: int, sine: bool, offset: Fraction) -> int | None:
        """K on cells of U and v, theta = pi v/4, or None. flags: cosine, sine, swap."""
        if u == 0:
            return None
        cosine, negative = sine == bool(flags & 1), bool(flags >> (1 if sine else 2) & 1)
        lift = offset + Fraction(1, 2)
        with mpmath.workprec(u_bits + v_bits + 200 + GUARD + offset.denominator.bit_length()):
            begin = mpmath.mpf(lift.numerator) / lift.denominator
            ends = set()
            for far in (False, True):
                side = self.side(v + (far != cosine), v_bits, cosine)
                radius = mpmath.sqrt(-2 * mpmath.log(mpmath.ldexp(mpmath.mpf(u + (not far)), -u_bits)))
                noise = self.ratio() * radius * side
                if noise == 0:  # U = 1 and theta = 0 are not reached
                    ends.add(math.ceil(lift) - 1 if negative else math.floor(lift))
                else:
                    ends.add(int(mpmath.floor(begin - noise if negative else begin + noise)))
        return ends.pop() if len(ends) == 1 else None


class DiscreteGaussian:
    """P(X = k) = exp(-k^2/(2 sigma^2)) / theta."""

    def __init__(self, sigma_squared: Fraction) -> None:
        self.sigma_squared = sigma_squared
        self.summed = sigma_squared <= 2**21
        if self.summed:
            with mpmath.workprec(500):  # a term's relative error is below k^2 2^-496
                last = math.isqrt(int(2 * sigma_squared * 280)) + 2
                terms, ratio, again = [mpmath.mpf(1)], self._f(1), self._f(1) ** 2
                for _ in range(1, last):
                    terms.append(terms[-1] * ratio)  # f(k) = f(k - 1) f(1)^(2k - 1)
                    ratio *= again
                self.tails = [mpmath.mpf(0)]  # all k from there on
                for term in reversed(terms):
                    self.tails.append(self.tails[-1] + term)
                self.tails.reverse()
                self.theta = 2 * self.tails[0] - 1
        else:
            with mpmath.workprec(400):
                self.theta = mpmath.sqrt(2 * mpmath.pi * self._variance())  # but for exp(-2 pi^2 sigma^2)

    def _variance(self) -> mpmath.mpf:
        return mpmath.mpf(self.sigma_squared.numerator) / self.sigma_squared.denominator

    def _f(self, k: int | mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * self._variance()))

    def tail(self, k: int) -> mpmath.mpf:
        """P(X >= k), k >= 1: summed, within 2^-300; or the midpoint rule, relative sigma^-4."""
        if self.summed:
            return self.tails[min(k, len(self.tails) - 1)] / self.theta
        a, v = k - mpmath.mpf(1) / 2, self._variance()
        return mpmath.erfc(a / mpmath.sqrt(2 * v)) / 2 - a / v * self._f(a) / 24 / self.theta

    def pmf(self, k: int) -> float:
        with mpmath.workprec(400):
            return float(self._f(k) / self.theta)

    def cdf(self, k: int) -> float:
        with mpmath.workprec(400):
            return float(self.tail(-k) if k < 0 else 1 - self.tail(k + 1))

    def quantile(self, p: float) -> int:
        """The least k with P(X <= k) >= p, if p is not at a step."""
        k = round(statistics.NormalDist().inv_cdf(p) * math.sqrt(self.sigma_squared))
        while self.cdf(k) < p:
            k += 1
        while self.cdf(k - 1) >= p:
            k -= 1
        return k

    def _moment(self, order: int) -> float:
        with mpmath.workprec(400):
            return float(
                2 * mpmath.fsum(mpmath.mpf(k) ** order * self._f(k) for k in range(1, len(self.tails))) / self.theta
            )

    def variance(self) -> float:
        return self._moment(2) if self.sigma_squared <= 100 else float(self.sigma_squared)

    def fourth_moment(self) -> float:
        return self._moment(4) if self.sigma_squared <= 100 else float(3 * self.sigma_squared**2)

    def threshold(self, k: int, bits: int) -> int:
        """The cell of `bits` binary digits that holds P(|X| >= k)."""
        with mpmath.workprec(400):
            return int(mpmath.floor(mpmath.ldexp(2 * self.tail(k), bits)))

    def magnitude(self, prefix: int, bits: int) -> int | None:
        """|X| on [prefix, prefix + 1) / 2^bits, bits <= 250; None if a threshold is inside."""
        low, high = 0, len(self.tails)  # threshold(low) >= prefix > threshold(high)
        while high - low > 1:
            k = (low + high) // 2
            low, high = (k, high) if self.threshold(k, bits) >= prefix else (low, k)
        return None if (low > 0 and self.threshold(low, bits) == prefix) or prefix == 0 else low

    def rejects(self, k: int) -> mpmath.mpf:
        """1 - (p/q)(k) / (p/q)(0), q the weight of a rounded real Gaussian."""
        digits = 300 + 4 * self.sigma_squared.numerator.bit_length()
        with mpmath.workprec(digits):
            root, half = mpmath.sqrt(2 * self._variance()), mpmath.mpf(1) / 2
            k = abs(k)
            proposed = mpmath.erfc((k - half) / root) - mpmath.erfc((k + half) / root)
            return 1 - self._f(k) * 2 * mpmath.erf(half / root) / proposed


class OneSidedGeometric(DiscreteLaplace):
    """P(X = k) = (1-q) q^k, k >= 0, q = exp(-rate)."""

    def _top(self) -> mpmath.mpf:
        return mpmath.mpf(1)

    def pmf(self, k: int) -> float:
        with mpmath.workprec(256):
            return float(-mpmath.expm1(-self._rate()) * mpmath.exp(-k * self._rate())) if k >= 0 else 0.0

    def cdf(self, k: int) -> float:
        with mpmath.workprec(256):
            return float(-mpmath.expm1(-(k + 1) * self._rate())) if k >= 0 else 0.0

    def tail(self, k: int) -> mpmath.mpf:
        """P(X >= k)."""
        with mpmath.workprec(256):
            return mpmath.exp(-max(k, 0) * self._rate())

    def mean(self) -> float:
        with mpmath.workprec(384):
            q = mpmath.exp(-self._rate())
            return float(q / (1 - q))

    def variance(self) -> float:
        with mpmath.workprec(384):
            q = mpmath.exp(-self._rate())
            return float(q / (1 - q) ** 2)

    def second_moment(self) -> float:
        """q (1 + q) / (1-q)^2."""
        with mpmath.workprec(384):
            q = mpmath.exp(-self._rate())
            return float(q * (1 + q) / (1 - q) ** 2)

    def fourth_moment(self) -> float:
        """q (1 + 11q + 11q^2 + q^3) / (1-q)^4, from the polylogarithm of order -4 by (1-q)."""
        with mpmath.workprec(512):
            q = mpmath.exp(-self._rate())
            return float(q * (1 + 11 * q + 11 * q**2 + q**3) / (1 - q) ** 4)


# ------------------------------------------------------------------ keys of sealed releases


def E(*fields: bytes | str | int) -> bytes:  # noqa: N802  its name there
    found = [field if isinstance(field, bytes) else str(field).encode() for field in fields]
    return b"".join(len(field).to_bytes(8, "little") + field for field in found)


def H(key: bytes, purpose: bytes, data: bytes = b"") -> bytes:  # noqa: N802
    return hashlib.blake2b(data, key=key, digest_size=32, person=purpose).digest()


def integers(numbers: Sequence[int]) -> list[bytes]:
    kind = b"unsigned" if any(n >= 2**63 for n in numbers) else b"integers"
    return [kind, b"".join((n % 2**64).to_bytes(8, "little") for n in numbers)]


def texts(of_rows: Sequence[str]) -> list[bytes]:
    encoded = [text.encode() for text in of_rows]
    return [b"".join(len(text).to_bytes(8, "little") for text in encoded), b"".join(encoded)]


# ------------------------------------------------------------------ the stream

Digits: TypeAlias = tuple[int, int]  # a number, and how many binary digits it has


def packed(key: bytes, nonce: int, i: int, width: int) -> int:
    """The word of draw i where words lie packed."""
    group, place = divmod(i, 16 * 512 // width)
    slot, lane = divmod(place, 16)
    block = sum(word << 32 * at for at, word in enumerate(chacha(key, 16 * group + lane, nonce)))
    return block >> slot * width & 2**width - 1


def digits(key: bytes, purpose: int, candidate: int, i: int, width: int) -> Iterator[Digits]:
    """The digits of draw i, level after level; of as many as a test is likely to need."""
    found, many = 0, 0
    for level in range(3):
        bits = width if level == 0 else 64
        found = found << bits | packed(key, purpose << 56 | candidate << 24 | level, i, bits)
        many += bits
        yield found, many


def discrete_gaussian(key: bytes, i: int, sigma_squared: int) -> int:
    """Draw i of the law beyond sigma^2 = 2^14: a rounded Gaussian, accepted or not."""
    assert sigma_squared > 2**14
    width, squared = 32 if sigma_squared <= 2**40 else 64, Fraction(sigma_squared)
    proposal, law = Gaussian(squared), DiscreteGaussian(squared)
    return next(
        k
        for candidate in count()
        if _accepted(key, i, candidate, 1 - law.rejects(k := _proposed(key, i, candidate, width, proposal)))
    )


def _proposed(key: bytes, i: int, candidate: int, width: int, law: Gaussian) -> int:
    pairs = zip(*(digits(key, 1, candidate, word, width) for word in (i & ~64, i | 64)), strict=True)
    for (u, u_bits), (v, v_bits) in pairs:
        flags, rest = divmod(v, 2 ** (v_bits - 3))
        k = law.rounded(u, u_bits, flags, rest, v_bits - 3, bool(i & 64), Fraction(0))
        if k is not None:
            return k
    raise AssertionError("levels 0 to 2 leave it undecided")


def _accepted(key: bytes, i: int, candidate: int, below: mpmath.mpf) -> bool:
    for v, bits in digits(key, 2, candidate, i, 16):
        with mpmath.workprec(400):
            height = mpmath.ldexp(below, bits)
            if v + 1 <= height or v >= height:
                return bool(v + 1 <= height)
    raise AssertionError("levels 0 to 2 leave it undecided")


# ------------------------------------------------------------------ running totals


class RunningTotals:
    """Steps under a release key: encoder in unlimited integers, chain, keys, noise and decoder.

    terms: as a manifest has them. names: of the cells, sorted here.
    """

    BLOCK = 2**16

    def __init__(self, secret: bytes, label: str, terms: dict[str, int | str], names: Sequence[str]) -> None:
        self.order = sorted(range(len(names)), key=names.__getitem__)
        self.decays, self.weights = (
            [tuple(map(int, ratio.split("/2^"))) for ratio in str(terms[name]).split()]
            for name in ("decays", "weights")
        )
        self.bits, self.guard, self.bound = int(terms["bits"]), int(terms["guard"]), int(terms["bound"])
        self.sigma_squared = int(str(terms["sigma_squared"]).removesuffix("/1"))
        domain = hashlib.sha256(E(b"texts", *texts([names[at] for at in self.order]))).hexdigest()
        column = E("", "discrete_gaussian", self.sigma_squared, 1)
        of_terms = [E(name, value) for name, value in sorted(terms.items())]
        self.manifest = E(1, 2, label, "steps", domain, E(len(names)), column) + E(b"", *of_terms)
        self.key = H(secret, b"release key", label.encode())
        self.secret = H(self.key, b"running", E(self.manifest))
        self.chain, self.t = H(self.key, b"chain", E(self.manifest)), 0
        self.held = [[0] * len(names) for _ in self.decays]
        self.decoded = [[0.0] * len(names) for _ in range(len(self.decays) + 1)]

    def _digests(self, column: str, numbers: Sequence[int]) -> list[bytes]:
        key = H(self.key, b"block digest")
        blocks = [numbers[begin : begin + self.BLOCK] for begin in range(0, len(numbers), self.BLOCK)]
        return [blake3(E(column, j) + E(*integers(block)), key=key).digest() for j, block in enumerate(blocks)]

    def _encode(self, cell: int, x: int) -> int:
        """Halves go up: [y] = floor(y + 1/2)."""
        u = [held[cell] for held in self.held]
        seen = sum((a * each + 2 ** (b - 1)) >> b for each, (a, b) in zip(u, self.weights, strict=True))
        for held, each, (m, s) in zip(self.held, u, self.decays, strict=True):
            held[cell] = each - ((m * each + 2 ** (s - 1)) >> s) + (x << self.bits + self.guard)
        return (x << self.bits) + ((seen + 2 ** (self.guard - 1)) >> self.guard)

    def _decode(self, cell: int, noisy: int) -> float:
        *held, total = [each[cell] for each in self.decoded]
        y = float(noisy) / 2**self.bits
        for each, (a, b) in zip(held, self.weights, strict=True):
            y -= each * (a / 2**b)
        for j, (each, (m, s)) in enumerate(zip(held, self.decays, strict=True)):
            self.decoded[j][cell] = each * (1 - m / 2**s) + y
        self.decoded[-1][cell] = total + y
        return total + y

    def step(self, counts: Sequence[int], cells: Iterable[int] | None = None) -> dict[int, float]:
        """The totals after the next step, by the place of their names; or some of them."""
        self.t += 1
        frozen = [min(max(counts[at], -self.bound), self.bound) for at in self.order]
        self.chain = H(self.key, b"chain", E(self.chain, self.t, *self._digests("counts", frozen)))
        encoded = [self._encode(cell, x) for cell, x in enumerate(frozen)]
        keys = [
            H(self.secret, b"stream key", E(self.t, self.chain, j, digest))
            for j, digest in enumerate(self._digests("", encoded))
        ]
        wanted, found = set(self.order if cells is None else cells), {}
        for cell, at in enumerate(self.order):
            if at in wanted:
                j, i = divmod(cell, self.BLOCK)
                found[at] = self._decode(cell, encoded[cell] + discrete_gaussian(keys[j], i, self.sigma_squared))
        return found
