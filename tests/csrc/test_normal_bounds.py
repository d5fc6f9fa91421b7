# SPDX-License-Identifier: Apache-2.0
"""What csrc/normal.h and its proofs share: gaussian.md, 3 and 4 (proofs: test_proofs.py)."""

from __future__ import annotations

from math import pi

from flint import arb, ctx
from proofs import CSRC, between, constants, generator, values

MADE = generator("make_approximations")
SOLLYA = (CSRC / "proofs" / "normal.sollya").read_text()
GAPPA = (CSRC / "proofs" / "normal.gappa").read_text()
SHORT_GAPPA = (CSRC / "proofs" / "gaussian_short.gappa").read_text()
FLOAT_GAPPA = (CSRC / "proofs" / "gaussian_float.gappa").read_text()
EXTENDED = (CSRC / "proofs" / "extended_normal.gappa").read_text()
DOUBLE_DOUBLE = (CSRC / "proofs" / "normal_double_double.gappa").read_text()


def test_the_proofs_speak_of_the_code() -> None:
    """Polynomials, constants and widths of the scripts are those of the C."""
    sine, cosine = values(MADE.SINE)[::-1], values(MADE.COSINE)[:0:-1]
    assert f"p rnd= c * {MADE.LN2};" in GAPPA
    assert sine == constants(between(GAPPA, "w rnd= v * v;", "q5 rnd="))
    assert sine == constants(between(GAPPA, "W = v * v;", "Q5 ="))
    assert cosine == constants(between(GAPPA, "q5 rnd=", "W ="))
    assert cosine == constants(between(GAPPA, "Q5 =", "CP ="))
    assert constants(between(SOLLYA, "p = ", ";"))[::-1] == sine
    assert constants(between(SOLLYA, "q = 1 + ", ";"))[::-1] == cosine
    assert f"{MADE.ROOT_TWO} / sqrt(2)" in SOLLYA


def test_the_short_proofs_speak_of_the_code() -> None:
    """Those of 32-bit words: in doubles, and in floats."""
    sine, cosine = values(MADE.SHORT_SINE)[::-1], values(MADE.SHORT_COSINE)[::-1]
    assert sine == constants(between(SHORT_GAPPA, "w rnd= v * v;", "q3 rnd="))
    assert sine == constants(between(SHORT_GAPPA, "W = v * v;", "Q3 ="))
    assert cosine == constants(between(SHORT_GAPPA, "q3 rnd=", "W ="))
    assert cosine == constants(between(SHORT_GAPPA, "Q3 =", "# y,"))
    short = between(SOLLYA, "/* short_octant", "claim")
    assert constants(between(short, "p = ", ";"))[::-1] == sine
    assert constants(between(short, "q = ", ";"))[::-1] == cosine
    assert MADE.SHORT_UNIT == -29  # a 32-bit word holds so many digits of v
    assert f"root_two = {MADE.ROOT_TWO};" in SHORT_GAPPA

    sine, cosine = values(MADE.FLOAT_SINE)[::-1], values(MADE.FLOAT_COSINE)[:0:-1]
    assert sine == constants(between(FLOAT_GAPPA, "w rnd= v * v;", "sine rnd="))
    assert sine == constants(between(FLOAT_GAPPA, "W = v * v;", "Q3 ="))
    assert cosine == constants(between(FLOAT_GAPPA, "sine rnd=", "cosine ="))
    assert cosine == constants(between(FLOAT_GAPPA, "Q3 =", "CP ="))
    assert "cosine = rnd(q1 * w + 1);" in FLOAT_GAPPA
    assert "CP = Q1 * W + 1;" in FLOAT_GAPPA
    assert MADE.FLOAT_COSINE[0] == "1.0"
    short = between(SOLLYA, "/* float_octant", "claim")
    assert constants(between(short, "p = ", ";"))[::-1] == sine
    assert constants(between(short, "q = 1 + ", ";"))[::-1] == cosine


def test_the_longer_proofs_speak_of_the_code() -> None:
    """Those of constant work: an upper part and a double, and pairs of doubles."""
    sine, cosine = values(MADE.SINE_REST)[::-1], values(MADE.COSINE_REST)[::-1]
    (q0, q1), (c0, c1) = values(MADE.EIGHTH), values(MADE.CURVE)
    assert [*sine, q1] == constants(between(EXTENDED, "p5 rnd=", "arch ="))
    assert [*sine, q1] == constants(between(EXTENDED, "P5 =", "SP ="))
    assert cosine == constants(between(EXTENDED, "q5 rnd=", "ww ="))
    assert cosine == constants(between(EXTENDED, "Q5 =", "CP ="))
    assert [c0, c1] == constants(between(EXTENDED, "wc =", "W ="))
    extended = between(SOLLYA, "/* octant_extended", "claim")
    assert constants(between(extended, "p = ", ";")) == [q0, q1, *sine[::-1]]
    assert constants(between(extended, "q = 1 + ", ";")) == [c0, c1, *cosine[::-1]]
    assert f"t rnd= {MADE.EIGHTH[0]} * VL;" in EXTENDED

    p, (q0, q1) = values(MADE.SMALL_SINE)[::-1], values(MADE.SMALL_COSINE)
    assert p == constants(between(DOUBLE_DOUBLE, "p1 rnd= ", "q1 rnd="))
    assert p == constants(between(DOUBLE_DOUBLE, "PX = ", ";"))
    assert p == constants(between(SOLLYA, "P = ", ";"))[::-1]
    assert [q0, -q1] == constants(between(DOUBLE_DOUBLE, "QX = ", ";"))
    assert [q0, -q1] == constants(between(SOLLYA, "Q = ", ";"))
    assert [q1, q0] == constants(between(DOUBLE_DOUBLE, "q1 rnd= ", "bw rnd="))

    # pi/4 in two parts, and in one; the units of d1 and of d2
    high, low, whole = (float.fromhex(value) for value, _ in MADE.QUARTER)
    assert [high, low, whole] == constants(between(DOUBLE_DOUBLE, "lead rnd=", "tail rnd="))
    assert constants(between(SOLLYA, '"pi/4 in two parts", ', "- pi")) == [high, low]
    assert whole == pi / 4
    assert [unit for _, unit in MADE.QUARTER] == [-34, -34, -86]
    assert "d1 = fixed<-34," in DOUBLE_DOUBLE

    # short_of keeps 20 bits and the hidden one, residue 25 and it
    assert f"@short = float<{MADE.SHORT_BITS}," in DOUBLE_DOUBLE
    assert f"fh = fixed<-{MADE.HALF_BITS - 1}," in DOUBLE_DOUBLE
    assert "c1 = fixed<-32," in DOUBLE_DOUBLE


def test_the_split_of_u() -> None:
    """normal.sollya splits x where the code does; ln M is as section 3 has it."""
    assert f"m0 = {MADE.SPLIT} *" in SOLLYA
    m0, u = arb(float.fromhex(MADE.SPLIT)), arb(2) ** -52
    low, high, ln2 = (m0 * (1 - u)).log(), (2 * m0 * (1 + u)).log(), arb(2).log()
    for size in (abs(low), abs(high)):
        assert size <= arb("0.346575")
    assert "L / E in [-0.3334, 1.0000001]" in GAPPA
    assert low / (ln2 - low) >= arb("-0.3334")
    assert high / (ln2 - high) <= arb("1.0000001")
    assert ln2 - high >= arb("0.34657")
    assert m0 * (1 - u) - 1 >= arb(-float.fromhex("0x1.2cp-2"))
    assert 2 * m0 * (1 + u) - 1 <= arb(float.fromhex("0x1.a828p-2"))


def test_the_table_is_what_the_script_writes() -> None:
    """wide_sine.h is make_wide_sine.py's, proved by balls; rows keep the Gappa premises."""
    script = generator("make_wide_sine")
    before = ctx.prec
    try:
        assert script.header() == (CSRC / "wide_sine.h").read_text()
    finally:
        ctx.prec = before
    text = (CSRC / "wide_sine.h").read_text()
    rows = [[float.fromhex(x) for x in row.split(",")] for row in between(text, "= {\n    {", "}}").split("},\n    {")]
    assert len(rows) == script.CELLS == 128
    for i, (name, low, high) in enumerate([
        ("s1", "0x1.9p-9", "0x1.6a1p-1"), ("s2", "-0x1p-33", "0x1p-33"), ("c1", "0x1.69p-1", "0x0.ffffffffp0"), ("c2", "-0x1p-33", "0x1p-33"),
    ]):  # fmt: skip
        column = [row[i] for row in rows]
        assert f"{name} in [{low}, {high}]" in DOUBLE_DOUBLE
        assert float.fromhex(low) <= min(column)
        assert max(column) <= float.fromhex(high)
    assert all((row[0] * 2**32).is_integer() and (row[2] * 2**32).is_integer() for row in rows)
    assert pi / 4 * 2.0**-8 < float.fromhex("0x1.922p-9") < float.fromhex("0x1.93p-9")
    assert "|B| in [0, 0x1.922p-9]" in DOUBLE_DOUBLE
    assert "domain = [0; 0x1.93p-9^2];" in SOLLYA
