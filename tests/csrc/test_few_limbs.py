# SPDX-License-Identifier: Apache-2.0
"""csrc/exact.h with 64 digits behind the point: every enclosure holds, and spoilt ones do not.

With 832 digits the ends of a draw lie so far apart that a rounding or a remainder less decides none
of them wrongly. Here each is a unit of few.
"""

from __future__ import annotations

import ctypes
import math
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from flint import arb, ctx, fmpq
from places import TESTS
from proofs import CSRC

UNIT = Fraction(1, 2**64)
SLACK = Fraction(1, 2**186)  # in units: the balls of python-flint, and sums of cut terms, leave out less
CLOSE = arb((1, -260))
MANY = 3000
NAMES = "product", "over_integer", "ratio", "root", "difference", "minus_log", "exp_minus", "cosine", "sine", "sum_of_terms"  # fmt: skip


class Ends(NamedTuple):
    low: Fraction
    high: Fraction


class Asked(NamedTuple):
    """A function of few_limbs.c, its arguments, and between which ends its values lie."""

    name: str
    given: tuple[Ends, ...]
    low: Fraction
    high: Fraction


Memory = ctypes.c_uint64 * 6


class Question(NamedTuple):
    """The same in units, and where the ends of a right answer lie."""

    name: str
    given: list[Memory]
    lows: range
    highs: range


def built(folder: Path, header: str) -> Callable[[Question], tuple[int, int]]:
    """The functions of such an exact.h."""
    (folder / "exact.h").write_text(header)
    made = folder / "few_limbs.so"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-shared", "-fPIC"]
    folders = [f"-I{folder}", f"-I{CSRC}"]
    subprocess.run(["gcc", *flags, *folders, "-o", made, TESTS / "c/few_limbs.c"], check=True, capture_output=True)
    call = ctypes.CDLL(str(made)).few_limbs

    def ask(question: Question) -> tuple[int, int]:
        found = Memory()
        call(NAMES.index(question.name), *question.given, found)
        ends = bytes(found)
        return int.from_bytes(ends[:24], "little"), int.from_bytes(ends[24:], "little")

    return ask


def memory(ends: Ends) -> Memory:
    units = [(end.numerator << 64) // end.denominator for end in ends]
    return Memory.from_buffer_copy(b"".join(unit.to_bytes(24, "little") for unit in units))


NOTHING = memory(Ends(Fraction(0), Fraction(0)))


def question(asked: Asked) -> Question:
    """Enclosed, and tightly where a function is exact but for its last units."""
    low, high = asked.low * 2**64, asked.high * 2**64
    most, least = math.floor(low + SLACK), math.ceil(high - SLACK)
    loose = {"product": 2, "over_integer": 2, "difference": 1}.get(asked.name)
    lows = range(math.floor(low - loose) + 1 if loose else -1, most + 1)
    highs = range(least, math.ceil(high + loose) if loose else 2**192)
    return Question(asked.name, [*map(memory, asked.given), *[NOTHING] * (3 - len(asked.given))], lows, highs)


# ------------------------------------------------------------------ what is asked


def number(rng: random.Random, most: int = 20) -> Fraction:
    """A number of 64 digits behind the point, of any size below 2^most."""
    return (rng.getrandbits(64 + most) >> rng.randrange(64 + most)) * UNIT


def interval(rng: random.Random, most: int = 20) -> Ends:
    """One number, or two beside each other, or far apart."""
    low = number(rng, most)
    return Ends(low, low + rng.choice([0, 0, rng.randrange(9), rng.getrandbits(40)]) * UNIT)


def near(ball: arb) -> Fraction:
    """Within 2^-250 of what it encloses."""
    assert ball.rad() < CLOSE
    mantissa, exponent = map(int, ball.mid().man_exp())
    return Fraction(mantissa << max(exponent, 0), 1 << max(-exponent, 0))


def of_rationals(rng: random.Random) -> Iterator[Asked]:
    x, y = interval(rng), interval(rng)
    yield Asked("product", (x, y), x.low * y.low, x.high * y.high)
    n = rng.getrandbits(64) >> rng.randrange(63) or 1
    yield Asked("over_integer", (x, Ends(Fraction(n), Fraction(n))), x.low / n, x.high / n)
    divisor = Ends(y.low + Fraction(1, 2**10), y.high + Fraction(1, 2**10))
    yield Asked("ratio", (x, divisor), x.low / divisor.high, x.high / divisor.low)
    if x.low >= y.high:
        yield Asked("difference", (x, y), x.low - y.high, x.high - y.low)


def of_reals(rng: random.Random) -> Iterator[Asked]:
    """Falling functions take the upper end first."""

    def ends(first: Fraction, last: Fraction, of: Callable[[arb], arb]) -> list[Fraction]:
        return [near(of(arb(fmpq(end.numerator, end.denominator)))) for end in (first, last)]

    x = interval(rng)
    yield Asked("root", (x,), *ends(*x, arb.sqrt))
    yield Asked("exp_minus", (x,), *ends(x.high, x.low, lambda a: (-a).exp()))
    u = Ends(max(number(rng, 0), UNIT), Fraction(0))
    u = Ends(u.low, min(u.low + rng.choice([0, 5]) * UNIT, Fraction(1)))
    yield Asked("minus_log", (u,), *ends(u.high, u.low, lambda a: -a.log()))
    angle = number(rng, 0) * Fraction(3, 4) // UNIT * UNIT
    yield Asked("cosine", (Ends(angle, angle),), *ends(angle, angle, arb.cos))
    yield Asked("sine", (Ends(angle, angle),), *ends(angle, angle, arb.sin))


def of_terms(rng: random.Random) -> Iterator[Asked]:
    """f, f g, f g (g s), ...: while terms are exact, what is missing at the end is the rest."""
    f, g, s = (number(rng, 0) for _ in range(3))
    if rng.random() < 0.5:
        f, g = Fraction(1, 2 ** rng.choice([0, 60, 64])), rng.choice([Fraction(1, 2), Fraction(1, 4), Fraction(15, 16)])
    g, s = min(g, Fraction(15, 16)), rng.choice([s, Fraction(1)])
    total, (term, growth, step) = 0, (int(each * 2**400) for each in (f, g, s))
    while term >> 100:
        total, term, growth = total + term, term * growth >> 400, growth * step >> 400
    sum_of_all = Fraction(total, 2**400)
    yield Asked("sum_of_terms", tuple(Ends(each, each) for each in (f, g, s)), sum_of_all, sum_of_all)


@cache
def asked_of(made: Callable[[random.Random], Iterator[Asked]]) -> list[list[Question]]:
    """The same of every build: ten times as many of the functions of numbers as of sums."""
    before, ctx.prec = ctx.prec, 500
    try:
        rng = random.Random(f"few limbs {made.__name__}")
        return [[question(asked) for asked in made(rng)] for _ in range(MANY // 10 if made is of_terms else MANY)]
    finally:
        ctx.prec = before


def wrong(ask: Callable[[Question], tuple[int, int]], part: int = 1, only: Iterable[str] = NAMES) -> set[str]:
    """Functions whose ends do not enclose, or enclose far more than there is.

    part: one of so many questions is asked. only: of these functions.
    """
    found = set()
    for made in (of_rationals, of_reals, of_terms):
        rounds = asked_of(made)
        for each in (each for some in rounds[: len(rounds) // part] for each in some if each.name in only):
            low, high = ask(each)
            if low not in each.lows or high not in each.highs:
                found.add(each.name)
    return found


HEADER = (CSRC / "exact.h").read_text()
SPOILT = {
    "a product's upper end is rounded down": ("product", "sizeof a->limb);\n    if (up && rest)", "sizeof a->limb);\n    if (0)"),
    "both ends of a product are": ("product", "multiply(&x.high, &y.high, 1)", "multiply(&x.high, &y.high, 0)"),
    "a product's lower end is rounded up": ("product", "multiply(&x.low, &y.low, 0)", "multiply(&x.low, &y.low, 1)"),
    "digits below a product's last are not all looked at": ("product", "i < POINT; i++)\n        rest |=", "i < POINT - 1; i++)\n        rest |="),
    "a quotient by an integer is rounded down": ("over_integer", "divide(&x.high, by, 1)", "divide(&x.high, by, 0)"),
    "a ratio's upper end is": ("ratio", "{quotient(&x.low, &y.high), quotient(&x.high, &y.low)};\n    add(&found.high, &unit);", "{quotient(&x.low, &y.high), quotient(&x.high, &y.low)};"),
    "a root's upper end is": ("root", "{root(&x.low), root(&x.high)};\n    add(&found.high, &unit);", "{root(&x.low), root(&x.high)};"),
    "a difference takes like ends off": ("difference", "take(&x.low, &y.high);\n    take(&x.high, &y.low);", "take(&x.low, &y.low);\n    take(&x.high, &y.high);"),
    "a sum of terms has no rest": ("sum_of_terms", "    add(&total.high, &rest.high);\n", "    (void)rest;\n"),
    "the rest is its first term": ("sum_of_terms", "ratio(at.f, difference(exactly(one), at.growth))", "at.f"),
}  # fmt: skip


@pytest.mark.slow
def test_all_ends_enclose(tmp_path: Path) -> None:
    """Products, quotients, roots, logarithms, exponentials, sines and sums of terms."""
    assert wrong(built(tmp_path, HEADER)) == set()


@pytest.mark.parametrize("what", SPOILT)
def test_a_spoilt_number_is_noticed(what: str, tmp_path: Path) -> None:
    """In a copy, by the function that it spoils."""
    name, old, new = SPOILT[what]
    assert HEADER.count(old) == 1
    assert wrong(built(tmp_path, HEADER.replace(old, new)), 3, [name]) == {name}
