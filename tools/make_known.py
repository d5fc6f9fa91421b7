# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SLF001  plans are private to mechanisms
"""Write known.h, the answers that a build must know: `python tools/make_known.py`.

The self-test's reference gives the answers; a built dpfast has the plans. Digits are planted where
a tier's margin and its error nearly meet: cells beside which a rounding error more would change
whether the tier decides. Code without fma, with it, and for AVX-512, whose logarithms are made by
cells, rounds otherwise, so each of these has cells and a digest of its own: this needs a machine
that runs all three. If dpf_plan has lost a field, build once with a known.h of
`static const dpf_known known[1] = {{0}};`. It takes some minutes.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from flint import arb, ctx

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, _native
from dpfast._dpf import ffi, lib
from dpfast.evidence.selftest import reference
from dpfast.noise.release.digits import ACCEPT
from dpfast.privacy.exact import Digits, ball

SECRET = bytes(range(32))
STREAM: Any = SimpleNamespace(block=lru_cache(1 << 12)(_native.StreamKey(SECRET).block))  # a block has many words
TABLE, FLOAT, DOUBLE = _native.TABLE, _native.FLOAT, _native.DOUBLE
EXTENDED, DOUBLE_DOUBLE, INTEGER = _native.EXTENDED, _native.DOUBLE_DOUBLE, _native.INTEGER
LEVEL0, ACCEPTANCE = lib.DPF_LEVEL0, lib.DPF_ACCEPTANCE
TIERS = {
    TABLE: "table", FLOAT: "float", DOUBLE: "double", EXTENDED: "extended", DOUBLE_DOUBLE: "double-double",
    INTEGER: "integers", LEVEL0: "level 0", ACCEPTANCE: "acceptance",
}  # fmt: skip
INT64, UINT64, FLOAT64, FLOAT32, NOISE = lib.DPF_INT64, lib.DPF_UINT64, lib.DPF_FLOAT64, lib.DPF_FLOAT32, lib.DPF_NOISE
INTEGERS = "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"
KINDS = {_native.KINDS[np.dtype(name)]: name for name in INTEGERS}
INTEGER_ENDS = {kind: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for kind, name in KINDS.items()}
KINDS |= {FLOAT64: "float64", FLOAT32: "float32", NOISE: "noise alone"}
BITS = {kind: 8 * np.dtype(name).itemsize for kind, name in KINDS.items() if kind != NOISE} | {NOISE: 64}
ARITHMETIC = {"portable": 0, "avx2": 1, "neon": 1, "avx512": 2}  # that of csrc/isa.h: a digest's place
KINDS_OF_BUILDS = {ARITHMETIC[_native.ISA_NAMES[isa]]: isa for isa in _native.ISAS}


@dataclass(frozen=True)
class Planted:
    """Digits for one tier, as dpf_tier takes them."""

    digits: tuple[int, int, int, int]
    offset: float = 0.0
    negative: bool = False
    sine: bool = False


@dataclass
class Row:
    """One known answer: planted draws of one tier, or a release by draws start .. start + n - 1."""

    law: Any
    exponent: int  # the scale's
    tier: int = 0
    bits: int = 0
    constant_work: int = 0  # the first tier of a constant-work release
    how: dict[str, Any] = field(default_factory=dict)  # fields of dpf_release
    n: int = 0
    start: int = 0
    rejects: float = 0.0  # in place of the plan's: it is then no law's
    planted: list[Planted] = field(default_factory=list)
    makes: bool = False  # whether the check makes the plan, too

    @property
    def scale(self) -> Fraction:
        """A little below a power of two, in steps of the grid, and no double."""
        return Fraction(2) ** self.exponent - Fraction(1, 3)

    @cached_property
    def mechanism(self) -> Any:
        if self.law in (Laplace, DiscreteLaplace, OneSidedGeometric):
            return self.law(1, self.scale, **({"granularity": 1} if self.law is Laplace else {}))
        return self.law(self.scale, **({"granularity": 1} if self.law is Gaussian else {}))

    @property
    def what(self) -> str:
        how = "planted digits" if self.planted else "all rows of its tables"
        if not self.tier:
            how = f"{'constant work, ' if self.constant_work else ''}{KINDS[self.how['kind']]}"
        tier = self.tier or self.constant_work or self.made._plan.bulk
        return f"{self.law.__name__} of scale {float(self.scale):.3g}, {TIERS[tier]}, {how}"

    @property
    def made(self) -> _native.Plan:
        return self.mechanism._constant_work_plan

    @property
    def plan(self) -> Any:
        """The plan that is written: the mechanism's, but for the tier that is to begin."""
        plan = ffi.new("dpf_plan *", self.made._plan[0])
        plan.constant_work = self.constant_work or plan.constant_work
        plan.normal.rejects = self.rejects or plan.normal.rejects
        return plan

    @property
    def release(self) -> Any:
        lower, upper = self.how.get("limits", (0, 0))
        how = {name: value for name, value in self.how.items() if name != "limits"}
        limbs = {"lower": _native._limbs(lower), "upper": _native._limbs(upper)}
        return ffi.new("dpf_release *", how | limbs | {"constant_work": int(self.constant_work > 0)})

    @property
    def real(self) -> bool:
        return self.law in (Laplace, Gaussian)

    @property
    def pairs(self) -> bool:
        return self.law is Gaussian or (self.law is DiscreteGaussian and not reference.of(self.mechanism).inversion)

    @property
    def digits(self) -> int:
        """How many digits of U a planted draw has, or of a pair's radius."""
        if self.tier == LEVEL0:
            return int(self.made.width) - (not self.pairs)
        return {DOUBLE: 64, EXTENDED: 64}.get(self.tier, 128) if self.pairs else self.bits


# ------------------------------------------------------------------ releases

LONG = lib.DPF_BLOCK + 1300  # all parts of the pipeline of csrc/table.h run
SIGNED, UNSIGNED = INTEGER_ENDS[INT64], INTEGER_ENDS[UINT64]
MOST = float(np.finfo(np.float64).max)


def integers(kind: int, limits: tuple[int, int], **more: int) -> dict[str, Any]:
    return {"kind": kind, "limbs": 2 if kind == UINT64 else 1, "limits": limits, **more}


def narrow(name: str, **more: int) -> dict[str, Any]:
    """A release of integers of a kind, within the ends of the kind, of whatever width."""
    kind = _native.KINDS[np.dtype(name)]
    return integers(kind, INTEGER_ENDS[kind], **{"limbs": 1, **more})


def reals(kind: int, granularity: float, bound: float = MOST, **more: Any) -> dict[str, Any]:
    """A release of values between public bounds; results up to a bound of their own."""
    how = {"kind": kind, "limbs": 1, "granularity": granularity, "inverse": 4 / granularity, "inverse_too": 0.25}
    how |= {"missing": 1.375, "least": -MOST, "greatest": 2.0**110, "real_lower": -bound, "real_upper": bound}
    return how | more


def noise(limbs: int = 1) -> dict[str, Any]:
    return {"kind": NOISE, "limbs": limbs}


PLAIN = {"refuse": 1, "greatest": MOST}
SINGLE = {"single": 1}
SUMMED = {**PLAIN, "missing": 2.0**40}  # values below so many steps, which are summed up at once
# Each path through a release, at its largest scale: most draws are near a boundary there. For the
# same reason a constant-work release starts in doubles if a bulk release of its scale does.
RELEASES: Sequence[
    tuple[Any, int, int, dict[str, Any], int]
] = (  # law, log2 of the scale, constant_work, how, how many
    (DiscreteLaplace, 3, 0, integers(INT64, SIGNED, non_temporal=1), LONG),
    (DiscreteLaplace, 3, 0, integers(INT64, SIGNED), LONG),
    (DiscreteLaplace, 3, 0, integers(INT64, (-128, 127)), LONG),
    (DiscreteLaplace, 3, 0, narrow("uint64"), LONG),
    (DiscreteLaplace, 3, 0, narrow("int32", non_temporal=1), LONG),
    (DiscreteLaplace, 3, 0, narrow("uint32"), LONG),
    (DiscreteLaplace, 3, 0, integers(_native.KINDS[np.dtype("int32")], (-5, 70_000)), LONG),
    (DiscreteLaplace, 3, 0, narrow("int16"), LONG),
    (DiscreteLaplace, 3, 0, narrow("uint16", non_temporal=1), LONG),
    (DiscreteLaplace, 3, 0, narrow("int8"), LONG),
    (DiscreteLaplace, 3, 0, narrow("uint8"), LONG),
    (DiscreteLaplace, 12, 0, integers(INT64, (0, 65535), non_temporal=1), 701),
    (DiscreteLaplace, 12, 0, narrow("uint16"), 701),
    (DiscreteLaplace, 12, 0, narrow("int8"), 701),
    (DiscreteLaplace, 12, 0, narrow("uint8"), 701),
    (DiscreteLaplace, 20, 0, narrow("int16"), 701),
    (DiscreteLaplace, 20, 0, narrow("int32"), 701),
    (DiscreteLaplace, 17, DOUBLE, narrow("int8"), 290),
    (DiscreteLaplace, 17, DOUBLE, narrow("uint16"), 3),
    (DiscreteLaplace, 17, DOUBLE, integers(INT64, SIGNED), 1),
    (Laplace, 44, DOUBLE, noise(), 1),
    (DiscreteLaplace, 17, DOUBLE, integers(INT64, SIGNED), 200),
    (DiscreteLaplace, 20, 0, integers(UINT64, UNSIGNED), 700),
    (DiscreteLaplace, 20, 0, narrow("uint64", non_temporal=1), 701),
    (DiscreteLaplace, 43, 0, narrow("int32"), 801),
    (DiscreteLaplace, 43, 0, integers(INT64, (-(2**42), 2**42), non_temporal=1), 801),
    (DiscreteLaplace, 43, 0, integers(UINT64, UNSIGNED), 800),
    (DiscreteLaplace, 44, DOUBLE, noise(), 200),
    (DiscreteLaplace, 40, DOUBLE_DOUBLE, integers(UINT64, (2**40, 2**63 + 2**40)), 200),
    (DiscreteLaplace, 54, 0, integers(INT64, SIGNED, limbs=2), 200),
    (DiscreteLaplace, 60, 0, integers(UINT64, UNSIGNED), 200),
    (DiscreteLaplace, 60, INTEGER, noise(2), 200),
    (OneSidedGeometric, 40, 0, integers(INT64, SIGNED), 400),
    (Laplace, 21, 0, reals(FLOAT64, 2.0**-10, non_temporal=1), 701),
    (Laplace, 21, 0, reals(FLOAT64, 2.0**-10, **SUMMED), 701),
    (Laplace, 21, 0, reals(FLOAT32, 2.0**-10, 2.0**29, **SUMMED, **SINGLE), 701),
    (Laplace, 44, 0, reals(FLOAT64, 2.0**-10, 2.0**60, **PLAIN), 400),
    (Laplace, 44, DOUBLE, reals(FLOAT64, 2.0**20, 2.0**66), 200),
    (Laplace, 21, EXTENDED, reals(FLOAT32, 2.0**-10, 2.0**40, **SINGLE), 200),
    (Laplace, 40, DOUBLE_DOUBLE, reals(FLOAT64, 2.0**-40, 2.0**40, **SINGLE), 200),
    (Laplace, 60, 0, reals(FLOAT64, 2.0**-10, limbs=2), 200),
    (Laplace, 60, INTEGER, noise(2), 200),
    (Gaussian, 21, 0, reals(FLOAT32, 2.0**-10, 2.0**100, **PLAIN, **SINGLE), 701),
    (Gaussian, 21, 0, reals(FLOAT64, 2.0**-10, 2.0**100, **SUMMED, **SINGLE), 701),
    (Gaussian, 21, 0, reals(FLOAT64, 2.0**-10, 2.0**29, **SUMMED), 701),
    (Gaussian, 40, 0, reals(FLOAT64, 2.0**-10, 2.0**100, **SINGLE), 400),
    (Gaussian, 40, DOUBLE, noise(), 200),
    (Gaussian, 21, DOUBLE, noise(), 16),
    (Gaussian, 21, EXTENDED, reals(FLOAT64, 2.0**-10, **PLAIN), 300),
    (Gaussian, 40, DOUBLE_DOUBLE, noise(2), 200),
    (Gaussian, 60, 0, reals(FLOAT64, 2.0**-10, 2.0**120, limbs=2, **SINGLE), 200),
    (DiscreteGaussian, 2, 0, integers(INT64, (0, 255)), 1300),
    (DiscreteGaussian, 2, DOUBLE, noise(), 200),
    (DiscreteGaussian, 8, 0, noise(), 1300),
    (DiscreteGaussian, 8, DOUBLE, integers(INT64, SIGNED), 200),
    (DiscreteGaussian, 8, DOUBLE, integers(INT64, SIGNED), 8),
    (DiscreteGaussian, 12, 0, integers(UINT64, UNSIGNED), 700),
    (DiscreteGaussian, 12, 0, narrow("uint32"), 700),
    (DiscreteGaussian, 20, 0, integers(INT64, SIGNED, non_temporal=1), 701),
    (DiscreteGaussian, 20, EXTENDED, noise(), 300),
    (DiscreteGaussian, 29, 0, integers(INT64, (-(2**31), 2**31 - 1)), 400),
)
START = 1000  # inside a batch of any width
ENDS = 1041  # a release of LONG counts from here ends with a draw that the table leaves undecided
LARGE = 3700  # before a draw of scale 2^60 that does not fit a limb
REJECTED = 730_528  # the first draw of the discrete Gaussian law of scale 2^8 whose first proposal is rejected
REJECTS = 0.1 / 4**8  # a tenth of a plan's proposals at that scale, and some 3 in 100 undecided


def digested(at: int, word: int) -> int:
    """A row's digest is the sum of these over its words: against accidents alone."""
    mixed = (at * 0xD1342543DE82EF95 ^ word) % 2**64 * 0x9E3779B97F4A7C15 % 2**64
    return mixed ^ mixed >> 32


def offset(i: int) -> float:
    """The ith draw's place on the grid: all of [-1/2, 1/2] in steps of 2^-6."""
    return (i * 27 % 65 - 32) / 64


def signed(word: int, bits: int = 64) -> int:
    return word - 2**bits if word >> bits - 1 else word


def integer_value(row: Row, i: int) -> int:
    """Value i of a release of integers: beside a bound, at an end of the type, of any size."""
    h = digested(i, 4)
    few, shift, bits = h & 31, h >> 5 & 63, BITS[row.how["kind"]]
    lower, upper = row.how["limits"]
    least, most = INTEGER_ENDS[row.how["kind"]]
    ends = most - few if h >> 63 else least + few
    word = (lower + few - 8, upper + 8 - few, ends, (signed(h) if least else h) >> shift)[i % 4] % 2**bits
    return signed(word, bits) if least else word


def real_value(row: Row, i: int) -> float:
    """Value i of a release of reals, as csrc/self_check.c says."""
    h, granularity = digested(i, 5), row.how["granularity"]
    few, some, sign = h & 7, h >> 12 & 0xFFFFFF, -1.0 if h >> 63 else 1.0
    special = math.nan, math.inf, -math.inf, -0.0, MOST, -MOST, 2.0**-1074, 2.0**-149
    steps = {1: some + 0.5, 2: 2.0**52 - 2 + 0.5 * few, 4: some}.get(i % 8, float(h >> 11) * 2.0 ** -(h & 63))
    value = sign * steps * granularity
    if row.how.get("missing") == SUMMED["missing"]:
        value = sign * (h >> 11) * 2.0**-13 * granularity
    elif i % 8 == 0:
        value = sign * 0.0 if row.how.get("refuse") else special[few]
    elif i % 8 == 5:
        value = sign * (2 * some + 1) * 2.0 ** (40 + (h & 63)) * granularity
    elif i % 8 == 3:
        value = row.how["real_lower" if h >> 63 else "real_upper"] + (few - 4.0) * granularity
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if row.how["kind"] == FLOAT32 else value


def table(word: int) -> int:
    """A table of no law: no library must carry 2^16 draws. An entry in 64 is undecided."""
    return _native.UNDECIDED if word % 64 == 37 else word * 40503 % 2**15 - 2**14


def draw(row: Row, i: int, begin: Fraction) -> int | None:
    """Draw i by the table, if it decides, else by the exact tier; None if a spoilt plan leaves it open."""
    mechanism, at = row.mechanism, row.start + i
    width = int(mechanism._constant_work_plan.width)
    read = reference.reader(mechanism, STREAM)
    word = read(at, 0).prefix
    if not row.constant_work and row.made._plan.bulk == TABLE and table(word) != _native.UNDECIDED:
        return table(word)
    if row.rejects:
        return by_spoilt_plan(row, read, at)
    found = reference.of(mechanism).draw(read, at, *([begin] if row.real else []))
    if row.law is OneSidedGeometric:
        return -found if word >> (width - 1) else found  # C draws a sign, too, and the mechanism takes it off
    return found


def by_spoilt_plan(row: Row, read: Any, at: int) -> int | None:
    """The first accepted proposal, unless one before it is undecided."""
    verdict, candidate, proposed = -1, 0, 0
    while verdict < 0:
        proposed = reference.of(row.mechanism).proposal.draw(partial(read, candidate=candidate), at, Fraction(0))
        verdict = accepts(row, proposed, 2**64 - 1 - (read(at, 1, ACCEPT, candidate).prefix >> 16))
        candidate += 1
    return proposed if verdict else None


def accepts(row: Row, k: int, w: int) -> int:
    """1, -1 or 0 by the rule of csrc/discrete_gaussian.md, section 4, in rationals."""
    most, few = Fraction(row.plan.normal.rejects) * k * k, Fraction(1, 2**40)
    least = most * (1 - Fraction(1, 2**17) - most)
    return int(w > most * (1 + few) * 2**64) - int(w + 1 < least * (1 - few) * 2**64)


def result(row: Row, i: int) -> int:
    """What is stored for value i, as an integer of its size."""
    how, kind = row.how, row.how["kind"]
    if kind == NOISE:
        found = draw(row, i, Fraction(offset(i)))
        return 2**127 if found is None else found % 2**128  # left undecided
    if kind in INTEGER_ENDS:
        found = draw(row, i, Fraction(0))
        if found is None:
            raise ArithmeticError(f"{row.what}: draw {i} needs the exact tier")
        return min(max(integer_value(row, i) + found, how["limits"][0]), how["limits"][1]) % 2 ** BITS[kind]
    value = real_value(row, i)
    value = min(max(value if math.isfinite(value) else how["missing"], how["least"]), how["greatest"])
    steps = Fraction(value) / Fraction(how["granularity"])
    point = round(steps) if abs(steps) < 2**52 else steps
    found = draw(row, i, Fraction(steps - point))
    if found is None:
        raise ArithmeticError(f"{row.what}: draw {i} needs the exact tier")
    total = Fraction(how["granularity"]) * (point + found)
    total = min(max(total, Fraction(how["real_lower"])), Fraction(how["real_upper"]))
    rounded = float(to_single(total) if how.get("single") else total) + 0.0
    return int.from_bytes(np.dtype("f4" if kind == FLOAT32 else "f8").type(rounded).tobytes(), "little")


def to_single(x: Fraction) -> Fraction:
    """Rounded to a float32 once, ties to even."""
    if x == 0:
        return x
    exponent = max(math.frexp(float(abs(x)))[1] - 24, -149)
    if abs(x) < Fraction(2) ** (exponent + 23) and exponent > -149:
        exponent -= 1  # as a double it was rounded up to a power of two
    return round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent


def words_of_release(row: Row) -> Iterator[int]:
    """What lies in the results' memory and eight bytes before and behind it, word by word."""
    size = BITS[row.how["kind"]]
    unchanged = int.from_bytes(b"\x55" * (size // 8), "little")
    around = [unchanged] * (64 // size)
    yield from around
    for i in range(row.n):
        found = result(row, i)
        for at in range(0, 128 if row.how["kind"] == NOISE else size, size):
            yield found >> at & (1 << size) - 1
    yield from around


# ------------------------------------------------------------------ planted draws

PLANTS: Sequence[tuple[Any, int, int, int]] = (  # law, log2 of the scale, tier, digits of U
    (DiscreteLaplace, 12, LEVEL0, 0),
    (DiscreteLaplace, 20, LEVEL0, 0),
    (DiscreteLaplace, 43, LEVEL0, 0),
    (Laplace, 21, LEVEL0, 0),
    (Laplace, 44, LEVEL0, 0),
    (Gaussian, 21, LEVEL0, 0),
    (Gaussian, 40, LEVEL0, 0),
    (DiscreteGaussian, 12, LEVEL0, 0),
    (DiscreteGaussian, 20, LEVEL0, 0),
    (DiscreteLaplace, 20, DOUBLE, 64),
    (DiscreteLaplace, 44, DOUBLE, 64),
    (DiscreteLaplace, 44, DOUBLE_DOUBLE, 127),
    (DiscreteLaplace, 20, INTEGER, 95),
    (DiscreteLaplace, 44, INTEGER, 127),
    (OneSidedGeometric, 40, DOUBLE, 64),
    (OneSidedGeometric, 40, INTEGER, 127),
    (Laplace, 44, DOUBLE, 64),
    (Laplace, 21, EXTENDED, 64),
    (Laplace, 44, DOUBLE_DOUBLE, 127),
    (Laplace, 21, INTEGER, 95),
    (Laplace, 44, INTEGER, 127),
    (Gaussian, 22, DOUBLE, 128),
    (Gaussian, 40, DOUBLE, 128),
    (Gaussian, 22, EXTENDED, 128),
    (Gaussian, 40, DOUBLE_DOUBLE, 128),
    (DiscreteGaussian, 2, DOUBLE, 64),
    (DiscreteGaussian, 8, ACCEPTANCE, 0),
    (DiscreteGaussian, 29, ACCEPTANCE, 0),
)
# The same, and how many draws: at the largest scale an integer shows an error of 2^-60.
SWEEPS: Sequence[tuple[Any, int, int, int, int]] = (
    (DiscreteLaplace, 60, DOUBLE_DOUBLE, 127, 256),
    (Laplace, 60, INTEGER, 127, 640),
    (Gaussian, 60, DOUBLE_DOUBLE, 128, 256),
)
TAILS = Fraction(1, 50), Fraction(1), Fraction(5)  # sizes of the noise, in scales: boundaries near them are planted
FAR = Fraction(24)  # where U has 34 leading zeros, with which a cell of integers grows
OFFSETS = 0.0, 0.5, -0.375
# Cells where a margin nearly meets its error, of each arithmetic. Most of fma's are AVX-512's, too,
# and with more of its own the C library would be larger than 900,000 bytes.
FEW = {0: 16, 1: 16, 2: 6}
MILLIONS = 4  # so many million draws are tried for these


def made_up(i: int) -> Planted:
    """Planted draw i of a row that has none, as csrc/self_check.c says."""
    h, then, row = digested(i, 1), digested(i, 2), i % 128
    first = (1 << 63 | row << 56 | h >> 8) >> i % 32
    angle = (h << 61) % 2**64 | row << 54 | then >> 10
    return Planted((first, then & ~1, angle, digested(i, 3)), offset(i), bool(h >> 7 & 1), bool(h >> 6 & 1))


def truth(row: Row, planted: Planted) -> int | None:
    """The exact tier's draw on the whole cell of these digits; None if a boundary lies inside."""
    law, begin = reference.of(row.mechanism), Fraction(planted.offset)
    radius, angle = (high << 64 | low for high, low in (planted.digits[:2], planted.digits[2:]))
    if row.tier == ACCEPTANCE:
        return max(0, accepts(row, signed(planted.digits[0]), planted.digits[1]))
    if row.pairs:
        read = row.digits
        whole = Digits(radius >> 128 - read, read), Digits(angle >> max(0, 125 - read), min(128, read + 3))
        if row.tier == LEVEL0:  # the flags are in the angle's word
            whole = Digits(planted.digits[0], read), Digits(planted.digits[2], read)
        return getattr(law, "proposal", law).rounded(*whole, planted.sine, begin)
    bits, negative = row.digits, planted.negative
    u = radius >> 128 - bits if bits > 64 else planted.digits[0] % 2**bits
    if row.tier == LEVEL0:
        negative = bool(planted.digits[0] >> bits)
    if row.law is DiscreteGaussian:
        limits = law.thresholds()
        return None if u in limits else sum(at > u for at in limits)
    if row.real:
        return law.rounded(negative, u, bits, begin)
    magnitude = law.magnitude(u, bits)
    return -magnitude if magnitude and row.tier == LEVEL0 and negative else magnitude


PLANTED = np.dtype([("digits", np.uint64, 4), ("offset", np.float64), ("negative", np.int32), ("sine", np.int32)])


def as_array(planted: Sequence[Planted]) -> np.ndarray:
    return np.array([*map(as_tuple, planted)], PLANTED)


def as_tuple(planted: Planted) -> tuple[Any, ...]:
    return planted.digits, planted.offset, planted.negative, planted.sine


def by_tier(row: Row, planted: np.ndarray, isa: int, moved: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes in two words, lower first, and which are decided, with margins that much larger."""
    found, decided = np.zeros((len(planted), 2), np.uint64), np.zeros(len(planted), np.uint8)
    plan = row.plan
    for name in ("margin", "margin32", "float_margin", "extended_margin", "double_double_margin"):
        setattr(plan, name, getattr(plan, name) + moved)
    lib.dpf_tier(
        isa, plan, row.tier, row.bits, len(planted), ffi.from_buffer("dpf_planted[]", planted),
        ffi.from_buffer("dpf_u128[]", found), ffi.from_buffer("uint8_t[]", decided),
    )  # fmt: skip
    return found, decided.astype(bool)


def decided(row: Row, planted: Planted, isa: int) -> bool:
    return bool(by_tier(row, as_array([planted]), isa)[1][0])


def words_of_planted(row: Row, isa: int) -> Iterator[int]:
    """For each draw what it must be, and whether the tier decides."""
    planted = row.planted or [made_up(i) for i in range(row.n)]
    for each, sure in zip(planted, by_tier(row, as_array(planted), isa)[1], strict=True):
        known = truth(row, each)
        if sure and known is None:
            raise ArithmeticError(f"{row.what}: decided in spite of a boundary, {each}")
        right = known % 2**128 if sure and known is not None else 0
        yield from (right % 2**64, right >> 64, int(sure))


def edges(row: Row, at: int, made: Callable[[int], Planted]) -> Iterator[Planted]:
    """A boundary's cell, and on each side the cells between which a build begins to decide."""
    if truth(row, made(at)) is not None:
        raise ArithmeticError("no boundary lies in this cell")
    yield made(at)
    for side, isa in itertools.product((-1, 1), KINDS_OF_BUILDS.values()):
        near, far = 0, 1
        while 0 < at + side * far < 2**row.digits and not decided(row, made(at + side * far), isa):
            near, far = far, 2 * far
        if not 0 < at + side * far < 2**row.digits:
            continue  # in words of level 0 a cell may be wider than a step
        while far - near > 1:
            middle = (near + far) // 2
            near, far = (near, middle) if decided(row, made(at + side * middle), isa) else (middle, far)
        yield made(at + side * near)
        yield made(at + side * far)


def at_random(row: Row, seed: int) -> np.ndarray:
    """A million planted draws."""
    raw = np.random.PCG64(seed).random_raw(6 << 20).reshape(6, -1)
    planted = np.zeros(raw.shape[1], PLANTED)
    words = raw[:4].T if row.tier != LEVEL0 else raw[:4].T >> np.uint64(64 - row.made.width)
    used = (1, row.tier != LEVEL0, 1, row.tier != LEVEL0) if row.pairs else (1, 0, 0, 0)
    planted["digits"] = words * np.array(used, np.uint64)
    if row.real:
        planted["offset"] = ((raw[4] % np.uint64(65)).astype(float) - 32) / 64
    planted["sine"] = raw[5] % np.uint64(2) if row.pairs else 0
    planted["negative"] = raw[5] % np.uint64(2) if row.real and not row.pairs and row.tier != LEVEL0 else 0
    return planted


def closest(row: Row) -> Iterator[Planted]:
    """Random draws that the least change of a margin makes decided, or undecided."""
    for kind, isa in KINDS_OF_BUILDS.items():
        few = FEW[kind]
        if by_tier(row, at_random(row, 0), isa)[1].sum() > (1 << 20) - few:
            continue  # too few are near
        moved = 2.0**-12
        kept = np.concatenate([moving(row, at_random(row, seed), isa, moved) for seed in range(MILLIONS)])
        while len(kept) > few:
            nearest, moved = kept, moved / 2
            kept = moving(row, nearest, isa, moved)
        for each in np.concatenate([kept, nearest])[:few].tolist():
            yield Planted(tuple(map(int, each[0])), each[1], bool(each[2]), bool(each[3]))


def moving(row: Row, planted: np.ndarray, isa: int, moved: float) -> np.ndarray:
    """Those of planted draws for which such a change of the margins matters."""
    return planted[by_tier(row, planted, isa, moved)[1] != by_tier(row, planted, isa, -moved)[1]]


def cell(minus_log: arb, bits: int) -> int:
    """The cell of 2^bits in which the probability e^-minus_log lies."""
    found = ((-minus_log).exp() * arb(2) ** bits).floor().unique_fmpz()
    if found is None:
        raise ArithmeticError("precision too low")
    return int(found)


def corners(bits: int) -> Iterator[int]:
    """Digits of U at its ends, where tiers give up, and beside the ends of a logarithm's table."""
    yield from {1, 2**bits - 1, 2**bits - 2 ** (bits // 3), math.isqrt(2 ** (2 * bits - 1))}
    yield from (2 ** (bits - zeros) + less for zeros in (32, 42, 64) if zeros < bits for less in (-1, 0))
    yield from (2**bits - 2 ** (bits - zeros) + less for zeros in (18, 42) if zeros < bits for less in (-2, 0, 2))


def plant(row: Row) -> Iterator[Planted]:
    """Boundaries of all sizes, signs and sides; corners; the closest cells."""
    law, scale = reference.of(row.mechanism), row.scale
    if row.tier == ACCEPTANCE:
        yield from plant_acceptance(row)
        return
    if row.law is DiscreteGaussian and not row.pairs:
        for u in sorted({at + move for at in law.thresholds()[::3] for move in (-1, 0, 1)} - {0}):
            yield of_u(row, u)
        return
    for i in range({EXTENDED: 9, DOUBLE_DOUBLE: 9, INTEGER: 4}.get(row.tier, 3)):
        begin = OFFSETS[i % 3] if row.real else 0.0
        tail = FAR if row.tier == INTEGER and i == 3 else TAILS[i % 3] * (1 + Fraction(i // 3, 7))
        if row.pairs:
            at, made = boundary_of_pair(row, scale, tail, begin, i)
        else:
            sign = -1 if row.real and i % 2 else 1
            k = round(scale * tail) * sign
            # At the boundary t (C - ln U) = k, or begin + S t E + 1/2 = k.
            minus_log = (
                ball((k - Fraction(begin) - Fraction(1, 2)) * sign / scale)
                if row.real
                else ball(k / scale) - law.offset()
            )
            at, made = cell(minus_log, row.digits), partial(of_u, row, begin=begin, negative=sign < 0)
        yield from edges(row, at, made)
        yield from map(made, corners(row.digits) if i == 0 else ())
    yield from closest(row)


def of_u(row: Row, u: int, begin: float = 0.0, *, negative: bool = False) -> Planted:
    bits = row.digits
    upper, lower = (u, 0) if bits <= 64 else divmod(u << (128 - bits), 2**64)
    if row.tier == LEVEL0:
        return Planted((u | negative << bits, 0, 0, 0), begin)
    return Planted((upper, lower, 0, 0), begin, negative)


def boundary_of_pair(
    row: Row, scale: Fraction, tail: Fraction, begin: float, i: int
) -> tuple[int, Callable[[int], Planted]]:
    """A cell of a pair's radius with a boundary, and what makes planted digits of one."""
    flags, sine, read = digested(i, 9) >> 61, digested(i, 8) >> 63 == 1, row.digits
    angle = flags << 125 | (digested(i, 6) << 64 | digested(i, 7)) >> 3
    sign = -1 if flags >> (1 if sine else 2) & 1 else 1
    turns = arb((angle % 2**125, -127))
    side = turns.cos_pi() if sine == bool(flags & 1) else turns.sin_pi()
    k = round(scale * tail) * sign
    size = ball((k - Fraction(begin) - Fraction(1, 2)) * sign / scale) / side

    def made(u: int) -> Planted:
        if row.tier == LEVEL0:
            return Planted((u, 0, angle >> 128 - read, 0), begin, sine=sine)
        return Planted((*divmod(u << (128 - read), 2**64), *divmod(angle, 2**64)), begin, sine=sine)

    return cell(size * size / 2, read), made


def plant_acceptance(row: Row) -> Iterator[Planted]:
    """Beside both ends of what is undecided, which are 2^-40 of themselves away from two bounds."""
    most_of_one, sigma = Fraction(row.plan.normal.rejects), round(row.scale)
    for k in (0, 1, -3, sigma, -2 * sigma, 5 * sigma, -9 * sigma):
        most = most_of_one * k * k
        for bound in (most, most * (1 - Fraction(1, 2**17) - most)):
            for tiny in (-39, -41, 41, 39):
                w = math.floor(bound * (1 + (-1 if tiny < 0 else 1) * Fraction(1, 2 ** abs(tiny))) * 2**64)
                yield Planted((k % 2**64, w, 0, 0))
    yield from (Planted((k, w, 0, 0)) for k in (0, 1) for w in (0, 2**64 - 1))


# ------------------------------------------------------------------ all of them


@cache
def rows() -> list[Row]:
    """Every row of known.h; digits are planted, or taken from it by a test."""
    found = [Row(law, e, tier=tier, bits=bits) for law, e, tier, bits in PLANTS]
    found += [Row(law, e, tier=tier, bits=bits, n=n) for law, e, tier, bits, n in SWEEPS]
    for law, e, constant_work, how, n in RELEASES:
        usual = {(DiscreteGaussian, 8): REJECTED - 100, (DiscreteLaplace, 3): ENDS}
        start = usual.get((law, e), LARGE if e == 60 else START)
        found.append(Row(law, e, constant_work=constant_work, how=how, n=n, start=start))
    found.append(Row(DiscreteGaussian, 8, constant_work=DOUBLE, how=noise(), n=200, start=START, rejects=REJECTS))
    beside = Row(DiscreteLaplace, 17, constant_work=DOUBLE, how=integers(INT64, SIGNED), n=43, start=START + 3)
    found.append(beside)  # its draws begin where no vector does
    for law, e in ((DiscreteLaplace, 3), (Laplace, 21), (Gaussian, 21), (DiscreteGaussian, 2), (DiscreteGaussian, 20)):
        next(
            row for row in found if (row.law, row.exponent, row.constant_work, row.rejects) == (law, e, 0, 0)
        ).makes = True
    return found


def digests(row: Row) -> dict[int, int]:
    """The digests of dpf_self_check, for each arithmetic that this machine runs."""
    if row.tier:
        return {kind: digest(words_of_planted(row, isa), 0) for kind, isa in KINDS_OF_BUILDS.items()}
    return dict.fromkeys(KINDS_OF_BUILDS, digest(words_of_release(row), -64 // BITS[row.how["kind"]]))


def digest(words: Iterator[int], first: int) -> int:
    return sum(itertools.starmap(digested, enumerate(words, first))) % 2**64


def initializer(record: Any, arrays: dict[str, str]) -> str:
    """A dpf_plan, or a block of one; the table is dpf_self_check's own."""
    parts = []
    for name, kind in ffi.typeof(record).fields:
        value = getattr(record, name)
        if kind.type.kind == "pointer":
            held = arrays.get(name, "")
        elif kind.type.kind == "struct":
            held = initializer(value, arrays)
        elif kind.type.kind == "array":
            held = f"{{{', '.join(f'{each:#x}' for each in value)}}}".replace("0x0", "0")
            held = re.sub("(, 0)+}", "}", held)
        else:
            held = value.hex() if isinstance(value, float) else f"{value:#x}" if abs(value) > 2**32 else str(value)
        if held not in ("", "0", "{}", "0x0.0p+0"):
            parts.append(f".{name} = {held}")
    return f"{{{', '.join(parts)}}}"


def array(kind: str, name: str, values: Sequence[str], per_line: int) -> str:
    lines = [", ".join(values[at : at + per_line]) for at in range(0, len(values), per_line)]
    body = ",\n    ".join(lines)
    return f"static const {kind} {name}[{len(values)}] = {{\n    {body}}};"


def planted_rows() -> list[Row]:
    """The rows, with planted digits."""
    ctx.prec = 500
    for row in rows():
        if row.tier and not row.n:
            row.planted = list(dict.fromkeys(plant(row)))
            row.n = len(row.planted)
    return rows()


def header(rows: Sequence[Row]) -> str:
    """The text of known.h, of rows whose digits are planted."""
    text = [
        "/* SPDX-License-Identifier: Apache-2.0",
        " * Written by tools/make_known.py. */",
        "#pragma once",
        '#include "dpf_impl.h"',
    ]
    made, shared = [], {}  # one array for rows that have it alike
    for at, row in enumerate(rows):
        if row.planted:
            planted = [initializer(ffi.new("dpf_planted *", as_tuple(p))[0], {}) for p in row.planted]
            text.append(array("dpf_planted", f"known_planted{at}", planted, 1))
        arrays = {}
        for buffer in row.made._kept:  # thresholds and guide, if any
            kind = ffi.typeof(buffer).item.cname
            name = {"uint64_t": "thresholds", "uint16_t": "guide"}[kind]
            wide, held = name == "thresholds", tuple(buffer)
            if wide:
                held = held[: held.index(0) + 2**row.made._plan.search.steps]
            if held not in shared:
                shared[held] = f"known_{name}{at}"
                values = [f"{value:#x}" if wide else str(value) for value in held]
                text.append(array(kind, shared[held], values, 4 if wide else 24))
            arrays[name] = shared[held]
        parts = [f'.what = "{row.what}"', f".plan = {initializer(row.plan[0], arrays)}"]
        if row.makes:
            parts.append(f".exponent = {row.exponent}")
            if row.made._plan.bulk == TABLE:
                table = np.frombuffer(ffi.buffer(row.mechanism._bulk_plan._kept[-1]), np.uint64).tolist()
                parts.append(f".table = {sum(itertools.starmap(digested, enumerate(table))) % 2**64:#x}")
        if row.tier:
            parts += [f".tier = {row.tier}", f".bits = {row.bits}"]
            parts += [f".planted = known_planted{at}"] if row.planted else []
        else:
            parts += [f".how = {initializer(row.release[0], {})}", f".start = {row.start}"]
        found = digests(row)
        parts += [f".n = {row.n}", f".digest = {{{', '.join(f'{found[kind]:#x}' for kind in range(3))}}}"]
        made.append(f"{{{', '.join(parts)}}}")
    made.append("{0}")
    return "\n".join([*text, array("dpf_known", "known", made, 1)]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "csrc" / "known.h").write_text(header(planted_rows()))
