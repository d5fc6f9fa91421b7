# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SLF001  plans and exact laws are private to mechanisms
"""Write known.h, the answers that a build must know: `python csrc/proofs/make_known.py`.

The exact tier gives the answers; a built dpfast has the plans. Planted digits name a cell with a
boundary, which a tier must leave undecided, and on each side the nearest cell that every
instruction set of this machine decides. If dpf_plan has lost a field, build once with a known.h of
`static const dpf_known known[1] = {{0}};`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

from flint import arb, ctx

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, _native
from dpfast._dpf import ffi, lib
from dpfast.exact import Digits, ball

SECRET = bytes(range(32))
TABLE, FLOAT, DOUBLE = _native.TABLE, _native.FLOAT, _native.DOUBLE
EXTENDED, DOUBLE_DOUBLE, INTEGER = _native.EXTENDED, _native.DOUBLE_DOUBLE, _native.INTEGER
TIERS = {
    TABLE: "table", FLOAT: "float", DOUBLE: "double", EXTENDED: "extended", DOUBLE_DOUBLE: "double-double",
    INTEGER: "integers",
}  # fmt: skip
CELLS, SUMS = 0, 1  # what is digested: integers or doubles of 64 bits; what dpf_add adds to zeros
LIMBS = 2  # integers of 128 bits


@dataclass(frozen=True)
class Planted:
    """Digits for one tier, as dpf_tier takes them."""

    digits: tuple[int, int, int, int]
    offset: float
    negative: bool
    sine: bool


@dataclass
class Row:
    """One known answer: planted draws of one tier, or draws start .. start + n - 1."""

    mechanism: Any
    tier: int = 0
    bits: int = 0
    constant_work: int = 0  # the first tier of a constant-work fill
    form: int = CELLS
    n: int = 0
    start: int = 0
    planted: list[Planted] = field(default_factory=list)

    @property
    def what(self) -> str:
        law = type(self.mechanism).__name__
        how = "planted digits" if self.tier else "a constant-work fill" if self.constant_work else "a fill"
        tier = self.tier or self.constant_work or self.plan._plan.bulk
        return f"{law} of scale {self.mechanism.scale:.3g}, {TIERS[tier]}, {how}"

    @property
    def plan(self) -> _native.Plan:
        return self.mechanism._constant_work_plan

    @property
    def real(self) -> bool:
        return isinstance(self.mechanism, (Laplace, Gaussian))


def scaled(law: Any, exponent: int) -> Any:
    """A mechanism whose scale is 2^exponent steps of its grid."""
    scale = Fraction(2) ** exponent
    if law is Laplace:
        return Laplace(1, scale, granularity=1)
    if law is Gaussian:
        return Gaussian(scale, granularity=1)
    return law(scale) if law is DiscreteGaussian else law(1, scale)


# ------------------------------------------------------------------ fills

LONG = 2 * lib.DPF_BLOCK + 1300  # all parts of the pipeline of csrc/table.h run
# Each path through a fill, at its largest scale: most draws are near a boundary there. For the same
# reason a constant-work fill starts in doubles if a bulk fill of its scale does.
FILLS: Sequence[tuple[Any, int, int, int, int]] = (  # law, log2 of the scale, constant_work, form, how many
    (DiscreteLaplace, 3, 0, SUMS, LONG),
    (DiscreteLaplace, 3, 0, CELLS, 1300),
    (DiscreteLaplace, 12, 0, CELLS, 700),
    (DiscreteLaplace, 17, DOUBLE, CELLS, 200),
    (DiscreteLaplace, 20, 0, CELLS, 700),
    (DiscreteLaplace, 43, 0, CELLS, 400),
    (DiscreteLaplace, 44, DOUBLE, CELLS, 200),
    (DiscreteLaplace, 40, DOUBLE_DOUBLE, LIMBS, 200),
    (DiscreteLaplace, 54, 0, LIMBS, 200),
    (DiscreteLaplace, 60, INTEGER, LIMBS, 200),
    (OneSidedGeometric, 40, 0, CELLS, 400),
    (Laplace, 21, 0, CELLS, 700),
    (Laplace, 44, 0, CELLS, 400),
    (Laplace, 44, DOUBLE, CELLS, 200),
    (Laplace, 21, EXTENDED, CELLS, 200),
    (Laplace, 40, DOUBLE_DOUBLE, LIMBS, 200),
    (Laplace, 60, 0, LIMBS, 200),
    (Laplace, 60, INTEGER, LIMBS, 200),
    (Gaussian, 21, 0, CELLS, 700),
    (Gaussian, 40, 0, CELLS, 400),
    (Gaussian, 40, DOUBLE, CELLS, 200),
    (Gaussian, 21, EXTENDED, CELLS, 200),
    (Gaussian, 40, DOUBLE_DOUBLE, LIMBS, 200),
    (Gaussian, 48, 0, LIMBS, 200),
    (DiscreteGaussian, 2, 0, SUMS, LONG),
    (DiscreteGaussian, 2, DOUBLE, CELLS, 200),
    (DiscreteGaussian, 8, 0, CELLS, 1300),
    (DiscreteGaussian, 8, DOUBLE, CELLS, 200),
    (DiscreteGaussian, 12, 0, CELLS, 700),
    (DiscreteGaussian, 20, 0, CELLS, 700),
    (DiscreteGaussian, 20, EXTENDED, CELLS, 200),
    (DiscreteGaussian, 29, 0, CELLS, 400),
)
START = 1000  # inside a batch of any width
REJECTED = 730_528  # the first draw of the discrete Gaussian law of scale 2^8 whose first proposal is rejected


def offset(i: int) -> float:
    """The ith draw's place on the grid: all of [-1/2, 1/2] in steps of 2^-6."""
    return (i * 27 % 65 - 32) / 64


def table(word: int) -> int:
    """A table of no law: no library must carry 2^16 draws. An entry in eight is undecided."""
    return _native.UNDECIDED if word % 8 == 5 else word * 40503 % 2**15 - 2**14


def draws(row: Row) -> Iterator[int | None]:
    """A fill's draws by the table, if it decides, else by the exact tier; None if C gives up."""
    mechanism, width, candidates = row.mechanism, row.plan.width, set()
    words = mechanism._reader(_native.StreamKey(SECRET), width)

    def read(index: int, level: int, purpose: int = 1, candidate: int = 0) -> Digits:
        candidates.add(candidate)
        return words(index, level, purpose, candidate)

    for i in range(row.n):
        candidates.clear()
        at = row.start + i
        word = read(at, 0).prefix
        if not row.constant_work and row.plan._plan.bulk == TABLE and table(word) != _native.UNDECIDED:
            yield table(word)
        elif isinstance(mechanism, OneSidedGeometric):
            draw = mechanism._law.draw(read, at)
            yield -draw if word >> (width - 1) else draw  # C draws a sign, too, and the mechanism takes it off
        else:
            draw = mechanism._law.draw(read, at, *([Fraction(offset(i))] if row.real else []))
            yield draw if row.constant_work or max(candidates) == 0 else None  # a fast fill makes no second proposal


def words(row: Row) -> Iterator[int]:
    """What C writes, in 64-bit words; for a planted draw also whether it is decided."""
    if row.tier:
        for planted in row.planted:
            known = truth(row, planted)
            draw = known or 0
            yield from (int(known is not None), draw % 2**64, (draw >> 64) % 2**64)
        return
    undecided = []
    for i, found in enumerate(draws(row)):
        draw = found or 0
        if found is None:
            undecided.append(i)
        if row.form == CELLS and row.real:
            yield int.from_bytes(ffi.buffer(ffi.new("double *", draw)), "little")
        else:
            yield draw % 2**64
        if row.form == LIMBS:
            yield (draw >> 64) % 2**64
    yield from undecided


def digest(row: Row) -> int:
    """The digest of dpf_self_check: multiply and shift, word for word, against accidents alone."""
    found = 0
    for word in words(row):
        found = (found ^ word) * 0x9E3779B97F4A7C15 % 2**64
        found ^= found >> 32
    return found


# ------------------------------------------------------------------ planted draws

PLANTS: Sequence[tuple[Any, int, int, int]] = (  # law, log2 of the scale, tier, digits of U
    (DiscreteLaplace, 12, FLOAT, 31),
    (DiscreteLaplace, 20, DOUBLE, 31),
    (DiscreteLaplace, 20, DOUBLE, 64),
    (DiscreteLaplace, 44, DOUBLE, 64),
    (DiscreteLaplace, 20, DOUBLE_DOUBLE, 95),
    (DiscreteLaplace, 44, DOUBLE_DOUBLE, 127),
    (DiscreteLaplace, 20, INTEGER, 95),
    (DiscreteLaplace, 44, INTEGER, 127),
    (OneSidedGeometric, 40, DOUBLE, 64),
    (OneSidedGeometric, 40, DOUBLE_DOUBLE, 127),
    (OneSidedGeometric, 40, INTEGER, 127),
    (Laplace, 21, DOUBLE, 31),
    (Laplace, 44, DOUBLE, 64),
    (Laplace, 21, EXTENDED, 64),
    (Laplace, 21, DOUBLE_DOUBLE, 95),
    (Laplace, 44, DOUBLE_DOUBLE, 127),
    (Laplace, 21, INTEGER, 95),
    (Laplace, 44, INTEGER, 127),
    (Gaussian, 22, DOUBLE, 128),
    (Gaussian, 40, DOUBLE, 128),
    (Gaussian, 22, EXTENDED, 128),
    (Gaussian, 22, DOUBLE_DOUBLE, 128),
    (Gaussian, 40, DOUBLE_DOUBLE, 128),
    (DiscreteGaussian, 2, DOUBLE, 64),
    (DiscreteGaussian, 12, FLOAT, 32),
    (DiscreteGaussian, 29, DOUBLE, 128),
    (DiscreteGaussian, 22, EXTENDED, 128),
    (DiscreteGaussian, 29, DOUBLE_DOUBLE, 128),
)
TAILS = Fraction(1, 50), Fraction(1), Fraction(5)  # sizes of the noise, in scales: boundaries near them are planted
OFFSETS = 0.0, 0.5, -0.375
ANGLE = 0x3F84D5B5B5470917C9E3779B97F4A7C1  # 125 digits of v, below the flags: sine and cosine are far from 0


def truth(row: Row, planted: Planted) -> int | None:
    """The exact tier's draw on the whole cell of these digits; None if a boundary lies inside."""
    law, begin = row.mechanism._law, Fraction(planted.offset)
    radius, angle = (high << 64 | low for high, low in (planted.digits[:2], planted.digits[2:]))
    if is_pair(row):
        read = read_of_pair(row)
        whole = Digits(radius >> 128 - read, read), Digits(angle >> max(0, 125 - read), min(128, read + 3))
        if row.tier == FLOAT:  # words of level 0, the flags in the angle's
            whole = Digits(planted.digits[0], read), Digits(planted.digits[2], read)
        return getattr(law, "proposal", law).rounded(*whole, planted.sine, begin)
    u = radius >> 64 + 64 - row.bits if row.bits > 64 else planted.digits[0]
    if isinstance(row.mechanism, DiscreteGaussian):
        limits = law.thresholds()
        return None if u in limits else sum(at > u for at in limits)
    return law.rounded(planted.negative, u, row.bits, begin) if row.real else law.magnitude(u, row.bits)


def is_pair(row: Row) -> bool:
    return isinstance(row.mechanism, Gaussian) or (isinstance(row.mechanism, DiscreteGaussian) and row.bits != 64)


def read_of_pair(row: Row) -> int:
    """How many digits of the radius a tier reads, and of v at least."""
    return {FLOAT: 32, DOUBLE: 64, EXTENDED: 64}.get(row.tier, 128)


def near(row: Row, at: int, made: Callable[[int], Planted]) -> Iterator[Planted]:
    """A boundary's cell, and on each side the nearest that every instruction set decides."""
    if truth(row, made(at)) is not None:
        raise ArithmeticError("no boundary lies in this cell")
    yield made(at)
    for side in (-1, 1):
        distance = 1
        while not all(decided(row, made(at + side * distance), isa) for isa in _native.ISAS):
            distance *= 2
        # The portable set rounds each product, the others none; twice as far leaves room for both.
        yield made(at + side * 2 * distance)


def decided(row: Row, planted: Planted, isa: int) -> bool:
    made, found, sure = ffi.new("dpf_planted[1]"), ffi.new("dpf_u128[1]"), ffi.new("uint8_t[1]")
    made[0] = (planted.digits, planted.offset, planted.negative, planted.sine)
    lib.dpf_tier(isa, row.plan._plan, row.tier, row.bits, 1, made, found, sure)
    return bool(sure[0])


def cell(minus_log: arb, bits: int) -> int:
    """The cell of 2^bits in which the probability e^-minus_log lies."""
    found = ((-minus_log).exp() * arb(2) ** bits).floor().unique_fmpz()
    if found is None:
        raise ArithmeticError("precision too low")
    return int(found)


def plant(row: Row) -> Iterator[Planted]:
    """Boundaries of all sizes: for real laws both signs, and for pairs both draws."""
    law, scale = row.mechanism._law, Fraction(row.mechanism.scale)
    if isinstance(row.mechanism, DiscreteGaussian) and not is_pair(row):
        for u in sorted({at + move for at in law.thresholds() for move in (-1, 0, 1)} - {0}):
            yield of_u(row, u)
        return
    for i, tail in enumerate(TAILS):
        begin = OFFSETS[i] if row.real else 0.0
        if is_pair(row):
            yield from plant_pair(row, scale, tail, begin, i)
            continue
        sign = -1 if row.real and i % 2 else 1
        k = round(scale * tail) * sign
        # At the boundary t (C - ln U) = k, or begin + S t E + 1/2 = k.
        minus_log = (
            ball((k - Fraction(begin) - Fraction(1, 2)) * sign / scale) if row.real else ball(k / scale) - law.offset()
        )
        yield from near(row, cell(minus_log, row.bits), partial(of_u, row, begin=begin, negative=sign < 0))


def of_u(row: Row, u: int, begin: float = 0.0, *, negative: bool = False) -> Planted:
    upper, lower = (u, 0) if row.bits <= 64 else divmod(u << (128 - row.bits), 2**64)
    return Planted((upper, lower, 0, 0), begin, negative, sine=False)


def plant_pair(row: Row, scale: Fraction, tail: Fraction, begin: float, i: int) -> Iterator[Planted]:
    """Cells of a Gaussian pair: the radius varies, the angle stays."""
    flags, sine, read = 3 * i % 8, i % 2 == 1, read_of_pair(row)
    angle = flags << 125 | ANGLE >> 3
    sign = -1 if flags >> (1 if sine else 2) & 1 else 1
    turns = arb((angle % 2**125, -127))
    side = turns.cos_pi() if sine == bool(flags & 1) else turns.sin_pi()
    k = round(scale * tail) * sign
    size = ball((k - Fraction(begin) - Fraction(1, 2)) * sign / scale) / side

    def made(u: int) -> Planted:
        if row.tier == FLOAT:
            return Planted((u, 0, angle >> 96, 0), begin, negative=False, sine=sine)
        return Planted((*divmod(u << (128 - read), 2**64), *divmod(angle, 2**64)), begin, negative=False, sine=sine)

    yield from near(row, cell(size * size / 2, read), made)


# ------------------------------------------------------------------ all of them


@cache
def rows() -> list[Row]:
    """Every row of known.h; digits are planted, or taken from it by a test."""
    found = [Row(scaled(law, e), tier=tier, bits=bits) for law, e, tier, bits in PLANTS]
    for law, e, constant_work, form, n in FILLS:
        start = REJECTED - 100 if (law, e) == (DiscreteGaussian, 8) else START
        found.append(Row(scaled(law, e), constant_work=constant_work, form=form, n=n, start=start))
    return found


def initializer(record: Any, arrays: dict[str, str]) -> str:
    """A dpf_plan, or a block of one; the table is dpf_self_check's own."""
    parts = []
    for name, kind in ffi.typeof(record).fields:
        value = getattr(record, name)
        if kind.type.kind == "pointer":
            held = arrays.get(name, "")
        elif kind.type.kind == "struct":
            held = initializer(value, arrays)
        else:
            held = value.hex() if isinstance(value, float) else f"{value:#x}" if abs(value) > 2**32 else str(value)
        if held not in ("", "0", "{}", "0x0.0p+0"):
            parts.append(f".{name} = {held}")
    return f"{{{', '.join(parts)}}}"


def array(kind: str, name: str, values: Sequence[str], per_line: int) -> str:
    lines = [", ".join(values[at : at + per_line]) for at in range(0, len(values), per_line)]
    body = ",\n    ".join(lines)
    return f"static const {kind} {name}[{len(values)}] = {{\n    {body}}};"


def header() -> str:
    ctx.prec = 500
    text = [
        "/* SPDX-License-Identifier: Apache-2.0",
        " * Written by proofs/make_known.py. */",
    ]
    made, shared = [], {}  # one array for rows that have it alike
    for at, row in enumerate(rows()):
        if row.tier:
            row.planted = list(plant(row))
            row.n = len(row.planted)
            planted = [
                f"{{{{{', '.join(f'{digits:#x}' for digits in p.digits)}}}, {p.offset.hex()}, {p.negative:d}, {p.sine:d}}}"
                for p in row.planted
            ]
            text.append(array("dpf_planted", f"known_planted{at}", planted, 1))
        arrays = {}
        for buffer in row.plan._kept:  # thresholds and guide, if any
            if buffer == ffi.NULL:
                continue
            kind = ffi.typeof(buffer).item.cname
            name = {"uint64_t": "thresholds", "uint16_t": "guide"}[kind]
            wide, held = name == "thresholds", bytes(ffi.buffer(buffer))
            if held not in shared:
                shared[held] = f"known_{name}{at}"
                values = [f"{value:#x}" if wide else str(value) for value in buffer]
                text.append(array(kind, shared[held], values, 4 if wide else 24))
            arrays[name] = shared[held]
        plan = ffi.new("dpf_plan *", row.plan._plan[0])
        plan.constant_work = row.constant_work or plan.constant_work
        parts = [
            f'.what = "{row.what}"', f".plan = {initializer(plan[0], arrays)}", f".tier = {row.tier}", f".bits = {row.bits}",
            f".constant_work = {int(row.constant_work > 0)}", f".form = {row.form}", f".n = {row.n}", f".start = {row.start}",
            f".digest = {digest(row):#x}",
        ]  # fmt: skip
        made.append(f"{{{', '.join([*parts, *([f'.planted = known_planted{at}'] if row.tier else [])])}}}")
    made.append("{0}")
    return "\n".join([*text, array("dpf_known", "known", made, 1)]) + "\n"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "known.h").write_text(header())
