# SPDX-License-Identifier: Apache-2.0
"""Write wide_log.h, the tables of the two wide logarithms: `python tools/make_wide_log.py`.

Integers: three reciprocals c1(i), c2(j), c3(k), seven bits a step, take m in [1, 2) to m c1 c2 c3
in [1, 1 + 2^-20 + 2^-27). Each is a short binary fraction, rounded up: no product falls below 1.
The logarithms are rounded to nearest in units of 2^-120.

Double-double: the double c nearest to the reciprocal of the middle of each of 128 cells; ln c as a
multiple of 2^-45, which sums exactly, and the double nearest to the rest. python-flint's balls
prove all of them.
"""

from fractions import Fraction
from math import ceil
from pathlib import Path

from flint import arb, ctx, fmpq

UNITS = 120  # fractional bits of a logarithm
CUT = 45  # fractional bits of a double-double logarithm's upper half: with up to 64 ln 2 it fits 53
STEPS = (  # fractional bits of the cell, of the reciprocal, and how many cells can occur
    (7, 10, 128),
    (13, 22, 128),
    (20, 28, 130),
)


def nearest(value: arb) -> int:
    """The integer nearest to a ball that does not reach a half integer."""
    found = (value + 0.5).floor().unique_fmpz()
    if found is None:
        raise ArithmeticError("precision too low")
    return int(found)


def reciprocal(cell: int, bits: int, index: int) -> Fraction:
    return Fraction(ceil(2**bits / (1 + Fraction(index, 2**cell))), 2**bits)


def minus_log(value: Fraction) -> int:
    return nearest(-arb(fmpq(value.numerator, value.denominator)).log() * arb(2) ** UNITS)


def reciprocal_and_log(index: int) -> str:
    c = 1 / (1 + (2 * index + 1) / 256)
    log = arb(c).log()
    high = nearest(log * 2**CUT)
    low = float(log - arb(high) / 2**CUT)
    return f"{{{c.hex()}, {(high / 2**CUT).hex()}, {low.hex()}}}"


def limbs(value: int) -> str:
    return f"{{{value % 2**64:#x}, {value >> 64:#x}}}"


def table(kind: str, name: str, values: list[str], per_line: int) -> str:
    lines = [", ".join(values[at : at + per_line]) for at in range(0, len(values), per_line)]
    body = ",\n    ".join(lines)
    return f"static const {kind} {name}[{len(values)}] = {{\n    {body}}};"


def header() -> str:
    ctx.prec = 400
    text = [
        "/* SPDX-License-Identifier: Apache-2.0",
        " * Written by tools/make_wide_log.py; discrete_laplace.md, section 5, says what it is for. */",
        "#pragma once",
        '#include "dpf_impl.h"',
    ]
    for step, (cell, bits, count) in enumerate(STEPS, 1):
        factors = [reciprocal(cell, bits, index) for index in range(count)]
        # The first step multiplies by c, the later ones subtract 1 - c.
        short = [str(int((c if step == 1 else 1 - c) * 2**bits)) for c in factors]
        text.append(table("uint64_t", f"dpf_step{step}", short, 12))
        text.append(table("dpf_u128", f"dpf_log{step}", [limbs(minus_log(c)) for c in factors], 2))
    multiples = [nearest(arb(2).log() * count * arb(2) ** UNITS) for count in range(65)]
    text.append(table("dpf_u128", "dpf_ln2", [limbs(value) for value in multiples], 2))
    text.append("typedef struct {\n    double c, log_high, log_low; /* c, and ln c in two parts */\n} dpf_reciprocal;")
    text.append(table("dpf_reciprocal", "dpf_reciprocals", [reciprocal_and_log(index) for index in range(128)], 1))
    high = nearest(arb(2).log() * 2**CUT)
    low = float(arb(2).log() - arb(high) / 2**CUT)
    text.append(f"static const double dpf_ln2_high = {(high / 2**CUT).hex()}, dpf_ln2_low = {low.hex()};")
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "csrc" / "wide_log.h").write_text(header())
