# SPDX-License-Identifier: Apache-2.0
"""Write what the proofs and the C must have alike: `python tools/make_approximations.py`.

The C gets approximations.h. Five proofs get the logarithm's polynomial, between their marks. The
tests compare the other polynomials and constants, each in one or two proofs, with these lists.
Coefficients are in hexadecimal, the lowest first.
"""

import re
from pathlib import Path

CSRC = Path(__file__).parents[1] / "csrc"
# (ln m)/s = 2 + z R(z), s = (m - 1)/(m + 1), z = s^2: by Remez, then rounded (decide.sollya).
LOG = (
    "2.0", "0x1.5555555555558p-1", "0x1.9999999995287p-2", "0x1.2492492e0234ep-2", "0x1.c71c62cd506d9p-3",
    "0x1.7462bbc992a96p-3", "0x1.39fd724a51eadp-3", "0x1.2b63baf6b5ad3p-3",
)  # fmt: skip
# (m - 1) ln 2 - ln m, 1 <= m <= 2: fpminimax, absolute (decide.sollya).
SHORT_LOG = (
    "0x1.0867294c35df5p1", "-0x1.f27eff8f6762ap2", "0x1.0679ab9cab06fp4", "-0x1.982512196d825p4",
    "0x1.df866e6609bbap4", "-0x1.a9349efd04787p4", "0x1.1cf4dedc354cep4", "-0x1.1f32933e068dbp3",
    "0x1.accf134f6415dp1", "-0x1.cc453bc17852cp-1", "0x1.5006ae2ee1491p-3", "-0x1.2aeff2bae3afep-6",
    "0x1.e952a6a7899b7p-11",
)  # fmt: skip
# ln(1 + r) = r p(r), |r| <= 0.0304: fpminimax, absolute (decide.sollya). CELLS: of twelve bits, near
# 1/m in the middle of each sixteenth of [1, 2); CELL_LOGS: their logarithms, to nearest.
SHORT_CELL = (
    "0x1.0000000011d4bp0", "-0x1.fffffbe16bfa9p-2", "0x1.55554c8b9b5f9p-2", "-0x1.003842f0bd326p-2",
    "0x1.9a1f33fac688dp-3",
)  # fmt: skip
LONG_CELL = (
    "0x1.fffffffffffe7p-1", "-0x1.fffffffffff56p-2", "0x1.5555555608397p-2", "-0x1.000000016079bp-2",
    "0x1.99998432be38cp-3", "-0x1.5555377096f05p-3", "0x1.250b490aa5392p-3", "-0x1.0083ea4632f47p-3",
)  # fmt: skip
CELLS = (
    "0x1.f08p-1", "0x1.d42p-1", "0x1.bacp-1", "0x1.a42p-1", "0x1.8fap-1", "0x1.7dp-1", "0x1.6c2p-1",
    "0x1.5cap-1", "0x1.4e6p-1", "0x1.414p-1", "0x1.352p-1", "0x1.29ep-1", "0x1.1f8p-1", "0x1.15cp-1",
    "0x1.0cap-1", "0x1.042p-1",
)  # fmt: skip
CELL_LOGS = (
    "-0x1.f7a9b16782856p-6", "-0x1.6ef528c056a2cp-4", "-0x1.299d30c606ea7p-3", "-0x1.9509aa0044f8fp-3",
    "-0x1.fb7d86eee3b90p-3", "-0x1.2e9e2bce12286p-2", "-0x1.5d01dc49ff2e8p-2", "-0x1.898d38a89347ep-2",
    "-0x1.b44977c148f1bp-2", "-0x1.dd4aa04e1c4b6p-2", "-0x1.02582a5c9d123p-1", "-0x1.15533d3b8d7b3p-1",
    "-0x1.2779e1ec93ecap-1", "-0x1.39240dde5ce92p-1", "-0x1.4a3e862342525p-1", "-0x1.5ab505b39040bp-1",
)  # fmt: skip
# -ln(3/2 + f), |f| <= 1/2, in floats: fpminimax, absolute (decide.sollya).
FLOAT_LOG = (
    "-0x1.9f323ep-2", "-0x1.555544p-1", "0x1.c71b9cp-3", "-0x1.94a71p-4", "0x1.94e092p-5", "-0x1.a967dp-6",
    "0x1.d302bp-7", "-0x1.4fd964p-7", "0x1.9e46fap-8",
)  # fmt: skip
# ln(1 + r) = r - r^2/2 + r^3 p(r): the series, 1/3 - r/4 + ... - r^7/10, rounded.
LOG1P = (
    "0x1.5555555555555p-2", "-0x1p-2", "0x1.999999999999ap-3", "-0x1.5555555555555p-3",
    "0x1.2492492492492p-3", "-0x1p-3", "0x1.c71c71c71c71cp-4", "-0x1.999999999999ap-4",
)  # fmt: skip
# sin(pi v/4) = v p(v^2), cos(pi v/4) = q(v^2), v in [0, 1]: by Remez, then rounded (normal.sollya).
SINE = (
    "0x1.921fb54442d18p-1", "-0x1.4abbce625be09p-4", "0x1.466bc67754fffp-9", "-0x1.32d2ccdfe9424p-15",
    "0x1.50782d5f14825p-22", "-0x1.e2fe76fdffd2bp-30", "0x1.e357ef99eb0bap-38",
)  # fmt: skip
COSINE = (
    "1.0", "-0x1.3bd3cc9be459dp-2", "0x1.03c1f081b0e01p-6", "-0x1.55d3c7dc3b7f3p-12",
    "0x1.e1f4fb8227887p-19", "-0x1.a6c9c96ed0881p-26", "0x1.f3dca8531a138p-34",
)  # fmt: skip
# sin(pi v/4) = v (pi/4 + w S(w)), cos(pi v/4) = 1 - (pi^2/32) w + w^2 C(w), w = v^2: fpminimax,
# absolute (normal.sollya); pi/4 and -pi^2/32 in two doubles.
SINE_REST = (
    "-0x1.4abbce625be52p-4", "0x1.466bc6775a463p-9", "-0x1.32d2cce4fe916p-15", "0x1.50783206ab3dap-22",
    "-0x1.e3027c19b467ap-30", "0x1.e4a9327454b39p-38",
)  # fmt: skip
COSINE_REST = (
    "0x1.03c1f081b5ac4p-6", "-0x1.55d3c7e3cbfa7p-12", "0x1.e1f5068892b19p-19", "-0x1.a6d1f11c16a6ap-26",
    "0x1.f9d03119595e4p-34", "-0x1.b3ac37776e5d5p-42",
)  # fmt: skip
EIGHTH = "0x1.921fb54442d18p-1", "0x1.1a62633145c07p-55"
CURVE = "-0x1.3bd3cc9be45dep-2", "-0x1.692b71366cc04p-56"
# The same to fewer digits, for 32-bit words; the C has v in units of 2^SHORT_UNIT.
SHORT_SINE = (
    "0x1.921fb5443af5fp-1", "-0x1.4abbce564cd85p-4", "0x1.466bba8bfc001p-9", "-0x1.32ca854cad1bfp-15",
    "0x1.4bc25574d1a2cp-22",
)  # fmt: skip
SHORT_COSINE = (
    "0x1.ffffffff97c47p-1", "-0x1.3bd3cc7323531p-2", "0x1.03c1dc1bafc62p-6", "-0x1.55c57b06db5f0p-12",
    "0x1.d9c364eac5df8p-19",
)  # fmt: skip
SHORT_UNIT = -29
# The same in floats: fpminimax, absolute (normal.sollya).
FLOAT_SINE = "0x1.921fb4p-1", "-0x1.4abb7cp-4", "0x1.4650e6p-9", "-0x1.2bbf4ap-15"
FLOAT_COSINE = "1.0", "-0x1.3bd3ccp-2", "0x1.03c1b6p-6", "-0x1.55b684p-12", "0x1.d61e28p-19"
# sin b = b - b^3 P(b^2), cos b = 1 - b^2/2 + b^4 (Q0 - Q1 b^2), |b| < pi/4 2^-8: series, rounded.
SMALL_SINE = "0x1.5555555555555p-3", "-0x1.1111111111111p-7", "0x1.a01a01a01a01ap-13"
SMALL_COSINE = "0x1.5555555555555p-5", "0x1.6c16c16c16c17p-10"
# pi/4: 24 bits, the rest, and one double. The C holds each times the unit of its other factor.
QUARTER = ("0x1.921fb5p-1", -34), ("0x1.110b4611a6263p-27", -34), ("0x1.921fb54442d18p-1", -86)
ROOT_TWO = "0x1.6a09e667f3bcdp0"
LN2 = "0x1.62e42fefa39efp-1"
FLOAT_LN2 = "0x1.62e43p-1"
SPLIT = "0x1.6a09ep-1"  # m0: m lies in [m0, 2 m0), a little below the root of 1/2
SHORT_BITS, HALF_BITS = 21, 26  # short_of and residue keep so many bits of a double


def bits_of(x: str) -> int:
    """The bit pattern of a double."""
    mantissa, exponent = float.fromhex(x).hex()[4:].split("p")
    return (int(exponent) + 1023) << 52 | int(mantissa, 16)


def mask(bits: int) -> int:
    return 2**64 - 2 ** (53 - bits)


def function(says: str, name: str, x: str, step: str, coefficients: tuple[str, ...], kind: str = "double") -> str:
    """Horner's rule in C; step combines the sum so far, x and the next coefficient."""
    *lower, highest = (c + "f" if kind == "float" else c for c in coefficients)
    lines = [f"    {kind} sum = {highest};", *(f"    sum = {step.format(x=x, c=c)};" for c in reversed(lower))]
    return f"/* {says} */\nDPF_INLINE {kind} {name}({kind} {x}) {{\n" + "\n".join([*lines, "    return sum;"]) + "\n}\n"


def scaled(coefficients: tuple[str, ...], least: int) -> tuple[str, ...]:
    """Coefficients of v^least, v^(least + 2), ... with v in units of 2^SHORT_UNIT."""
    return tuple((float.fromhex(c) * 2.0 ** (SHORT_UNIT * (least + 2 * i))).hex() for i, c in enumerate(coefficients))


def in_lines(numbers: tuple[str, ...]) -> str:
    """Numbers, four a line."""
    return ",\n    ".join(", ".join(numbers[at : at + 4]) for at in range(0, len(numbers), 4))


def table(says: str, name: str, numbers: tuple[str, ...]) -> str:
    """An array in C."""
    return f"/* {says} */\nstatic const double {name}[] = {{\n    {in_lines(numbers)}}};\n"


def header() -> str:
    fused, fma, plain = "fused(sum, {x}, {c})", "__builtin_fma(sum, {x}, {c})", "sum * {x} + {c}"
    fmaf = "__builtin_fmaf(sum, {x}, {c})"
    high, low, whole = (f"{(float.fromhex(value) * 2.0**unit).hex()}" for value, unit in QUARTER)
    return "\n".join([
        "/* SPDX-License-Identifier: Apache-2.0",
        " * Written by tools/make_approximations.py, which says what each is. */",
        "#pragma once",
        '#include "machine.h"',
        "",
        "/* a b + c, rounded once or twice: the bounds hold for both, and a decided draw is the same. */",
        "DPF_INLINE double fused(double a, double b, double c) {",
        "    return DPF_FMA ? __builtin_fma(a, b, c) : a * b + c;",
        "}",
        "",
        f"static const double dpf_one_ln2 = {LN2}, dpf_root_two = {ROOT_TWO};",
        f"static const float dpf_float_ln2 = {FLOAT_LN2}f;",
        f"static const double dpf_short_log = {SHORT_LOG[0]};",
        f"static const uint64_t dpf_split = {bits_of(SPLIT):#x}; /* the pattern of m0 */",
        f"static const uint64_t dpf_short_mask = {mask(SHORT_BITS):#x}, dpf_half_mask = {mask(HALF_BITS):#x};",
        f"static const double dpf_quarter_high = {high}, dpf_quarter_low = {low};",
        f"static const double dpf_quarter = {whole};",
        f"static const double dpf_eighth[2] = {{{', '.join(EIGHTH)}}}, dpf_curve[2] = {{{', '.join(CURVE)}}};",
        f"static const double dpf_small_cosine[2] = {{{', '.join(SMALL_COSINE)}}};",
        "",
        function("(ln m)/s = 2 + z R(z): R.", "log_rest_polynomial", "z", fused, LOG[1:]),
        function("(ln m)/s = 2 + z R(z).", "log_polynomial", "z", fused, LOG),
        function("(m - 1) ln 2 - ln m = dpf_short_log + m p(m).", "short_log_polynomial", "m", fused, SHORT_LOG[1:]),
        table("ln(1 + r) = r p(r): p, the lowest first.", "dpf_short_cell", SHORT_CELL),
        table("The same to more digits.", "dpf_long_cell", LONG_CELL),
        table("c, near 1/m in the middle of each sixteenth of [1, 2).", "dpf_cells", CELLS),
        table("ln c.", "dpf_cell_logs", CELL_LOGS),
        function("ln(1 + r) = r - r^2/2 + r^3 p(r).", "log1p_polynomial", "r", fma, LOG1P),
        function("-ln(3/2 + f).", "float_log_polynomial", "f", fmaf, FLOAT_LOG, "float"),
        function("(sin pi v/4)/v, w = v^2.", "sine_polynomial", "w", fused, SINE),
        function("cos pi v/4, w = v^2.", "cosine_polynomial", "w", fused, COSINE),
        function("sin pi v/4 = v (pi/4 + w S(w)): S.", "sine_rest_polynomial", "w", fused, SINE_REST),
        function("cos pi v/4 = 1 - (pi^2/32) w + w^2 C(w): C.", "cosine_rest_polynomial", "w", fused, COSINE_REST),
        function(f"(sin pi v/4)/V, w = V^2, v = V 2^{SHORT_UNIT}.", "short_sine_polynomial", "w", fused,
                 scaled(SHORT_SINE, 1)),
        function("cos pi v/4, likewise.", "short_cosine_polynomial", "w", fused, scaled(SHORT_COSINE, 0)),
        function("(sin pi v/4)/v, w = v^2.", "float_sine_polynomial", "w", fmaf, FLOAT_SINE, "float"),
        function("cos pi v/4, w = v^2.", "float_cosine_polynomial", "w", fmaf, FLOAT_COSINE, "float"),
        function("(b - sin b)/b^3, w = b^2.", "small_sine_polynomial", "w", plain, SMALL_SINE),
    ])  # fmt: skip


def sollya() -> str:
    """2 + x R, R as Sollya takes it."""
    nested = LOG[-1]
    for c in reversed(LOG[1:-1]):
        nested = f"{c} + x * ({nested})" if nested != LOG[-1] else f"{c} + x * {nested}"
    at = nested.index("0x1.c71c")
    return f"R = {nested[:at]}\n    {nested[at:]};"


def sollya_sum(name: str, coefficients: tuple[str, ...]) -> str:
    terms = [f"{c} * x^{k}" for k, c in enumerate(coefficients)]
    return f"{name} = " + "\n    + ".join(" + ".join(terms[at : at + 3]) for at in range(0, len(terms), 3)) + ";"


def gappa(assigned: str, r: str, z: str, coefficients: tuple[str, ...], *, last: bool = False) -> str:
    """Horner's rule line by line, less its last step, unless that is asked for; assigned: how a step is rounded."""
    lines, sum_ = [], coefficients[-1]
    names = [f"{r}{i}" for i in range(1, len(coefficients) - 1)] + [r] * last
    for name, c in zip(names, reversed(coefficients[not last : -1]), strict=True):
        lines.append(f"{name} {assigned.format(f'{sum_} * {z} + {c}')};")
        sum_ = name
    return "\n".join(lines)


def between_marks(old: str, what: str, text: str) -> str:
    """A proof with other lines between its marks `polynomial <what>` and `end`."""
    marked = re.compile(rf"((?:#|/\*) polynomial {what}(?: \*/)?\n).*?(\n(?:#|/\*) end(?: \*/)?\n)", re.DOTALL)
    new, count = marked.subn(lambda m: m[1] + text + m[2], old)
    if count != 1:
        raise ValueError(f"a proof has {count} places for the polynomial {what}")
    return new


def files() -> dict[Path, str]:
    """What each file must hold."""
    found = {CSRC / "approximations.h": header()}
    exact, each, once = "= {}", "rnd= {}", "= rnd({})"
    for name in ("decide", "normal"):
        path = CSRC / "proofs" / f"{name}.sollya"
        found[path] = between_marks(path.read_text(), "R", sollya())
    for name in ("decide", "normal", "extended"):
        path = CSRC / "proofs" / f"{name}.gappa"
        rounded = between_marks(path.read_text(), "r", gappa(each, "r", "z", LOG))
        found[path] = between_marks(rounded, "R", gappa(exact, "R", "Z", LOG))
    path = CSRC / "proofs" / "decide.sollya"
    found[path] = between_marks(found[path], "Q", sollya_sum("Q", SHORT_LOG))
    found[path] = between_marks(found[path], "P", sollya_sum("P", FLOAT_LOG))
    path = CSRC / "proofs" / "short_log.gappa"
    rounded = between_marks(path.read_text(), "q", gappa(each, "q", "m", SHORT_LOG))
    found[path] = between_marks(rounded, "Q", gappa(exact, "Q", "m", SHORT_LOG))
    path = CSRC / "proofs" / "decide.sollya"
    for name, coefficients in (("S", SHORT_CELL), ("T", LONG_CELL)):
        found[path] = between_marks(found[path], name, sollya_sum(name, ("0", *coefficients)))
    lists = (f"{name} = [|{in_lines(numbers)}|];" for name, numbers in (("C", CELLS), ("L", CELL_LOGS)))
    found[path] = between_marks(found[path], "cells", "\n".join(lists))
    path = CSRC / "proofs" / "cell_log.gappa"
    rounded = path.read_text()
    for name, r, coefficients in (("s", "rw", SHORT_CELL), ("t", "r", LONG_CELL)):
        rounded = between_marks(rounded, name, gappa(once, name, r, coefficients, last=True))
        rounded = between_marks(rounded, name.upper(), gappa(exact, name.upper(), r.upper(), coefficients, last=True))
    found[path] = rounded
    path = CSRC / "proofs" / "float_log.gappa"
    rounded = between_marks(path.read_text(), "p", gappa(once, "p", "f", FLOAT_LOG))
    found[path] = between_marks(rounded, "P", gappa(exact, "P", "F", FLOAT_LOG))
    return found


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
