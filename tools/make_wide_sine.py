# SPDX-License-Identifier: Apache-2.0
"""Write wide_sine.h, the double-double tier's sines: `python tools/make_wide_sine.py`.

At the middle of each of 128 cells of v in [0, 1): sin(pi v/4) and cos(pi v/4), each as the nearest
multiple of 2^-32, whose product with 21 bits is exact, and a double within 2^-53 of the rest.
python-flint's balls prove all of them.
"""

from pathlib import Path

from flint import arb, ctx, fmpq

CUT = 32  # fractional bits of an upper half
CELLS = 128


def nearest(value: arb) -> int:
    """The integer nearest to a ball that does not reach a half integer."""
    found = (value + 0.5).floor().unique_fmpz()
    if found is None:
        raise ArithmeticError("precision too low")
    return int(found)


def halves(value: arb) -> str:
    """The multiple of 2^-CUT nearest to a real; the rest as a double, with relative error 2^-53."""
    high = nearest(value * 2**CUT)
    rest = value - arb(high) / 2**CUT
    low = float(rest)
    if not abs(rest - arb(low)) <= abs(rest) * arb(2) ** -53:
        raise ArithmeticError("precision too low")
    return f"{(high / 2**CUT).hex()}, {low.hex()}"


def header() -> str:
    ctx.prec = 400
    rows = []
    for cell in range(CELLS):
        angle = arb(fmpq(2 * cell + 1, 2 * CELLS)) / 4
        rows.append(f"{{{halves(angle.sin_pi())}, {halves(angle.cos_pi())}}}")
    body = ",\n    ".join(rows)
    return (
        "/* SPDX-License-Identifier: Apache-2.0\n"
        " * Written by tools/make_wide_sine.py; gaussian.md, section 4, says what it is for. */\n"
        "#pragma once\n"
        "typedef struct {\n    double sine, sine_low, cosine, cosine_low;\n} dpf_sine_row;\n"
        f"static const dpf_sine_row dpf_sine[{CELLS}] = {{\n    {body}}};\n"
    )


if __name__ == "__main__":
    (Path(__file__).parents[1] / "csrc" / "wide_sine.h").write_text(header())
