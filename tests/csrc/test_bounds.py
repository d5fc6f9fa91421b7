# SPDX-License-Identifier: Apache-2.0
"""The error bounds of csrc/discrete_laplace.md: counts, planted digits (proofs: test_proofs.py)."""

from __future__ import annotations

import ctypes
import math
import random
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import tiers
from flint import arb, ctx, fmpq
from proofs import CSRC, MODES, between, constants, entered, generator, values
from tiers import ISAS

from dpfast import DiscreteLaplace

# ---------------------------------------------------------------- proofs


def test_what_proofs_and_code_share_is_written_by_one_script() -> None:
    """approximations.h and eight proofs' logarithm polynomials are make_approximations.py's."""
    files = generator("make_approximations").files()
    assert len(files) == 9
    for path, text in files.items():
        assert path.read_text() == text, path.name


def test_another_coefficient_is_written_to_code_and_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed digit in the list changes the header and each proof, which Sollya then refuses."""
    made = generator("make_approximations")
    before = made.files()
    monkeypatch.setattr(made, "LOG", tuple(c.replace("95287", "95307") for c in made.LOG))
    after = made.files()
    assert before.keys() == after.keys()
    own = {"short_log.gappa", "cell_log.gappa", "float_log.gappa"}  # they have polynomials of their own
    assert all("0x1.9999999995307p-2" in after[path] != before[path] for path in before if path.name not in own)


def test_the_proof_of_floats_speaks_of_the_code() -> None:
    """The bounds of float_log.gappa are decide.sollya's and the plan's."""
    script, made = (CSRC / "proofs" / "float_log.gappa").read_text(), generator("make_approximations")
    assert f"p = rnd(p7 * f + {made.FLOAT_LOG[0]});" in script
    assert f"P = P7 * F + {made.FLOAT_LOG[0]};" in script
    assert f"s = count * {made.FLOAT_LN2} + p;" in script
    assert float.fromhex("0x1.19p-25") >= 2.0**-24.866
    assert "float_error = 0x3.2p-23;" in script
    assert "scale_error = 2.25;\nfloat_margin = rnd(0.5 - 0x1p-23 * (scale_error * t + 4));" in script
    for scale in (Fraction(257, 2), Fraction(2**12)):
        t, plan = float(scale), tiers.constants(DiscreteLaplace(1, scale))
        assert plan["bulk"] == tiers.FLOAT
        assert plan["float_error"] == float.fromhex("0x3.2p-23")
        assert plan["float_margin"] == 0.5 - 2.0**-23 * (2.25 * t + 4)
    assert tiers.constants(DiscreteLaplace(1, Fraction(2**12 + 1)))["bulk"] == tiers.DOUBLE


def test_the_proofs_speak_of_the_code() -> None:
    """The polynomials, the split of x and the slope in the scripts are those of C and the plan."""
    sollya, gappa = (CSRC / "proofs" / "decide.sollya").read_text(), (CSRC / "proofs" / "decide.gappa").read_text()
    double_double, made = (CSRC / "proofs" / "double_double.gappa").read_text(), generator("make_approximations")
    long = values(made.LOG1P)[::-1]
    assert constants(between(sollya, "p = ", ";"))[::-1] == long
    assert constants(between(double_double, "p7 = rnd(", "P7 = ")) == long
    assert constants(between(double_double, "P7 = ", "# ")) == long
    assert sollya.count(f"m0 = {made.SPLIT};") == 1
    assert f"m in [{made.SPLIT}, {made.SPLIT[:-2]}0]" in gappa
    assert f"p rnd= c * {made.LN2};" in gappa
    assert np.array([made.bits_of(made.SPLIT)], np.uint64).view(np.float64)[0] == float.fromhex(made.SPLIT)
    assert "relative_error = 0x5p-52;" in gappa
    assert tiers.constants(DiscreteLaplace(1, 1))["relative_error"] == 5 * 2.0**-52
    cells = (CSRC / "proofs" / "cell_log.gappa").read_text()
    assert set(re.findall(r"[nk] \* \(?(0x[0-9a-f.]+p-1)", cells)) == {made.LN2}
    ends = {
        name.strip(): tuple(map(float.fromhex if "x" in pair else float, pair.split(", ")))
        for name, pair in re.findall(r"([\w *-]+) in \[(\S+, \S+)\]", cells)
    }
    domain = float(between(sollya, "domain = [-0.0304; ", "]"))
    assert ends["R"] == ends["RW"] == (-domain, domain)
    assert ends["l - L"] == (-(2.0**-54), 2.0**-54)
    assert sollya.count("sup(abs([L[i] - log(C[i])])) > 2^-54") == sollya.count("C[i] * 2^13 != nearestint") == 1
    assert "c = fixed<-13, dn>(c_);" in cells
    for name, poly, bound in (("R * T - G", "T", -56.48), ("RW * S - GW", "S", -37.5)):
        assert f'minus_log_by_cells, {poly}", {poly}, log(1 + x), 0, domain, {bound})' in sollya
        assert -ends[name][0] == ends[name][1] >= 2.0**bound
    assert ends["G"][0] <= math.log1p(-domain) - 2.0**-56
    assert ends["G"][1] >= math.log1p(domain) + 2.0**-56
    assert ends["ew - EW"] == (-0.75 * 2.0**-37, 0.75 * 2.0**-37)
    assert ends["ew - EW"][1] < 1.4375 * 2.0**-36  # short_log.gappa's
    assert cells.count("e - E - 0x9p-54 * E <= 0x0.8p-52 ") == cells.count("e - E + 0x9p-54 * E >= -0x0.8p-52 ") == 1
    assert float.fromhex("0x0.8p-52") < float.fromhex(between(gappa, "e - E - 0x9p-54 * E <= ", " "))
    for scale in (1, 1000, 2**20):
        t, plan = float(scale), tiers.constants(DiscreteLaplace(1, scale))
        assert plan["margin32"] == 0.5 - 3 * 2.0**-37 * (t + 1)
        assert plan["half_cell"] >= t / 2 * (1 + 2.0**-20) + 0.25
    assert "short_error = 0x3p-37;" in (CSRC / "proofs" / "short_log.gappa").read_text()
    assert 31 * math.log(2) - math.log(1.5) < 22  # a = 0 is never decided


def test_two_sum_in_any_rounding() -> None:
    """All pairs of few bits, any rounding: sum + rest is within 2^(2-2p) |a + b| of a + b."""
    bits = 4

    def rounded(x: np.ndarray, up: int) -> np.ndarray:
        size = np.abs(x)
        unit = 1 << np.maximum(np.frexp(size.astype(float))[1] - bits, 0)
        return np.sign(x) * ((size + up * (unit - 1)) // unit * unit)

    values = np.array([0] + [m << e for e in range(11) for m in range(2 ** (bits - 1), 2**bits)])
    a, b = (side.ravel() for side in np.meshgrid(values, np.concatenate([values, -values])))
    worst = 0.0
    for choice in range(64):
        way = iter(choice >> i & 1 for i in range(6))
        s = rounded(a + b, next(way))
        from_b = rounded(s - a, next(way))
        from_a = rounded(s - from_b, next(way))
        rest = rounded(rounded(a - from_a, next(way)) + rounded(b - from_b, next(way)), next(way))
        error, total = np.abs(s + rest - (a + b)), np.abs(a + b)
        assert not error[total == 0].any()
        worst = max(worst, float((error[total > 0] / total[total > 0]).max()))
    assert 0 < worst <= 2.0 ** (2 - 2 * bits)


# ---------------------------------------------------------------- the wide tables and section 6


def test_the_wide_tables_are_what_the_script_writes() -> None:
    """wide_log.h is make_wide_log.py's output, whose every logarithm is proved by balls."""
    before = ctx.prec
    try:
        assert generator("make_wide_log").header() == (CSRC / "wide_log.h").read_text()
    finally:
        ctx.prec = before


def test_integers_in_the_worst_case() -> None:
    """Over all rows of the tables: indices, widths, the sum of section 6's errors, in rationals."""
    wide = generator("make_wide_log")
    unit = Fraction(1, 2**133)
    low, high = {}, {}  # bounds of r before each step, by index; then after the last
    cuts = Fraction(0)
    (cell1, bits1, rows1), (cell2, bits2, rows2), (cell3, bits3, rows3) = wide.STEPS
    for i in range(rows1):
        c = wide.reciprocal(cell1, bits1, i)
        low[i], high[i] = (1 + Fraction(i, 2**cell1)) * c - 1, (1 + Fraction(i + 1, 2**cell1)) * c - 1
    assert min(low.values()) >= 0
    most = max(high.values())
    assert most / unit < 2**128
    for cell, bits, rows in ((cell2, bits2, rows2), (cell3, bits3, rows3)):
        last = int(most * 2**cell)
        assert last < rows
        tops = []
        for j in range(last + 1):
            c = wide.reciprocal(cell, bits, j)
            step = (1 - c) * 2**bits
            assert step.denominator == 1
            assert 0 <= step * 2 ** (69 - bits) < 2**64  # step << 47 or << 41, the upper limb of (1 - c) 2^133
            assert (1 + Fraction(j, 2**cell)) * c - 1 >= 0
            cut = step * unit  # what >> 22 or >> 28 takes from (1 - c) r
            tops.append((1 + Fraction(j + 1, 2**cell)) * c - 1 + cut)
        cuts += cut
        most = max(tops)
    assert most < Fraction(1, 2**20) + Fraction(1, 2**27)
    assert most * 2**83 < 2**64  # short_r
    # ln(1 + r) by r - r^2/2 + r^3/3 - r^4/4, r cut to 2^-83, and what each product and shift cuts.
    square = most * Fraction(1, 2**83) + Fraction(1, 2**103)
    cube = (most**2 * Fraction(1, 2**83) + most * Fraction(1, 2**102)) / 3 + Fraction(2, 2**120)
    fourth = most**3 * Fraction(1, 2**83) + most**2 * Fraction(1, 2**102) + Fraction(2, 2**120)
    series = most**5 / 5
    table = 4 * Fraction(1, 2**121) + Fraction(1, 2**120)  # four logarithms to nearest, C cut
    error = square + cube + fourth + series + table + cuts + Fraction(1, 2**123) + Fraction(1, 2**120)
    assert error < Fraction(1, 2**101)
    largest = Fraction(46)  # C - ln U < 65 ln 2 + ln 2
    units = 2**60 * error * 2**59 + largest * Fraction(2**59, 2**67) + 2
    assert units < 2**18
    assert 2**60 * largest < 2**66
    assert largest * 2**120 < 2**126


# ---------------------------------------------------------------- measured against high precision


class Law:
    """Heights and thresholds in balls of 400 bits."""

    def __init__(self, scale: Fraction) -> None:
        with ctx.workprec(400):
            self.t = arb(fmpq(scale.numerator, scale.denominator))
            self.q1 = 1 + (-1 / self.t).exp()
            self.c = (2 / self.q1).log()
            self.ln2 = arb(2).log()

    def floor(self, value: arb) -> int:
        """The floor of a real above 0, which is no integer."""
        if value < 1:
            return 0
        found = value.floor().unique_fmpz()
        assert found is not None
        return int(found)

    def scaled_log(self, prefix: int, bits: int) -> arb:
        return self.t * (self.c + bits * self.ln2 - arb(prefix).log())

    def threshold(self, k: int, bits: int) -> arb:
        return 2 * (-arb(k) / self.t).exp() / self.q1 * arb(2) ** bits

    def magnitudes(self, cells: Iterable[int], bits: int) -> dict[int, int | None]:
        """The magnitude of each whole cell, or None. A cell's end is the next one's begin."""
        with ctx.workprec(400):
            least = self.scaled_log(1, bits)
            ends = {p: self.floor(least - self.t * arb(p).log()) for p in {p + i for p in cells for i in (0, 1)} - {0}}
        return {p: ends[p] if p and ends[p] == ends[p + 1] else None for p in cells}


def planted(law: Law, bits: int, error: Callable[[float], float], seed: str) -> dict[int, int | None]:
    """Cells that a wrong bound would decide wrongly, and their magnitudes.

    error(z): about a tier's error in z. For every binade of U: a threshold, its cell and those
    beside it, and those where z is off by 1/8 to 8 errors; the ends of the binade and of the
    tables' cells; the split of x at sqrt 1/2. If thresholds are many, those nearest to an edge too.
    U near 1 and near 0.
    """
    rng = random.Random(seed)
    cells = {1, 2, 3, *(2**bits - i for i in range(1, 5)), *(rng.getrandbits(bits) for _ in range(50))}
    with ctx.workprec(400):
        scale = float(law.t)
        thresholds = set()
        for binade in range(min(bits, 66)):
            top = 2 ** (bits - binade)
            cells |= {top + beside for beside in (-2, -1, 0, 1, 2)}
            cells |= {int(top * 0.70710670948) + beside for beside in (-1, 0, 1)}
            cells |= {top // 2 + top * rng.randrange(128) // 256 + beside for beside in (-1, 0)}
            for _ in range(9 if binade == 31 else 1):  # where the double-double tier ends
                k = law.floor(law.scaled_log(max(1, top // 2 + rng.randrange(max(1, top // 2))), bits))
                thresholds |= {max(k, 1), k + 1, 1 + binade}
        ks = range(1, min(400, int(40 * scale) + 2))
        edges = sorted(ks, key=lambda k: abs(float((x := law.threshold(k, bits)) - x.floor()) - 0.5))
        for k in [*thresholds, *edges[-12:]]:
            here = law.threshold(k, bits)
            cell = law.floor(here)
            cells |= {cell + beside for beside in (-2, -1, 0, 1, 2)}
            for _ in range(8):
                off = error(k) * 2 ** rng.uniform(-3, 3) * rng.choice((-1, 1))
                cells.add(cell + int((here * off / scale).mid().floor().unique_fmpz()))
    return law.magnitudes([cell for cell in cells if 0 <= cell < 2**bits], bits)


SCALES = [
    Fraction(1, 2**60), Fraction(1, 2**20), Fraction(1, 7), Fraction(1, 3), Fraction(1), Fraction(37, 10), Fraction(10**6, 9973),
    Fraction(2**7), Fraction(1000), Fraction(2**12), Fraction(2**17), Fraction(2**20), Fraction(10**9, 7), Fraction(2**40), Fraction(10**13, 3),
    Fraction(2**44), Fraction(2**48), Fraction(10**17, 7), Fraction(2**60),
]  # fmt: skip
# A tier, the digits it takes, and about what its z is wrong by at magnitude k and scale t.
TIERS: dict[str, tuple[int, list[int], Callable[[float, float], float]]] = {
    "float": (tiers.FLOAT, [31], lambda k, t: 2.0**-23 * (k + t)),
    "double": (tiers.DOUBLE, [15, 31, 63, 64], lambda k, t: 2.0**-52 * (k + t + 0.1)),
    "double-double": (tiers.DOUBLE_DOUBLE, [79, 95, 127], lambda k, t: 2.0**-76 * t + 2.0**-51),
    "integer": (tiers.INTEGER, [15, 31, 63, 64, 79, 95, 127], lambda k, t: 2.0**-40),
}


def digits(scale: Fraction, name: str) -> list[int]:
    """How many digits the tier may get at this scale: words are wide enough for it (section 2)."""
    if name == "float" and scale > 2**12:
        return []
    least = 15 if scale <= 2**7 else 31 if scale <= 2**20 else 63
    return [bits for bits in TIERS[name][1] if (bits if bits <= 64 else bits - 64) >= least]


@cache
def inputs(scale: Fraction, name: str, bits: int) -> tiers.Cells:
    error = TIERS[name][2]
    cells = planted(Law(scale), bits, lambda k: error(k, float(scale)), f"{scale} {name} {bits}")
    return tiers.Cells(bits, list(cells), list(cells.values()))


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_what_is_decided_is_right(scale: Fraction, name: str, host: ctypes.CDLL) -> None:
    """Beside thresholds, any rounding mode or flush: decided magnitudes are the law's."""
    plan = tiers.constant_work_plan(DiscreteLaplace(1, scale))
    for bits in digits(scale, name):
        cells = inputs(scale, name, bits)
        for isa in ISAS:
            decided = {}
            for mode in MODES:
                for flush in (False, True):
                    with entered(host, mode, flush):
                        decided[mode], errors = cells.tried(plan, TIERS[name][0], isa)
                    assert errors == 0, f"{mode} {flush=} {bits=} {isa=}"
            if name == "integer":
                assert len(set(decided.values())) == 1
            if name == "integer" or (scale > Fraction(1, 10) and (name == "double-double" or scale <= 2**44)):
                assert min(decided.values()) > 80


DEFECTS: list[tuple[str, str, Fraction, int, dict[str, float]]] = [
    ("no error of z", "double", Fraction(1), 64, {"margin": 0.5, "relative_error": 0.0}),
    ("a fifth of it", "double", Fraction(10**9, 7), 64, {"margin": 0.5 - 2.0**-52 * 10**9 / 7, "relative_error": 2.0**-52}),
    ("no error of floats", "float", Fraction(1000), 31, {"float_margin": 0.5, "float_error": 0.0}),
    ("a third of it", "float", Fraction(1000), 31, {"float_margin": 0.5 - 2.0**-23 * 750, "float_error": 2.0**-23}),
    ("no error that grows with z", "float", Fraction(2**12), 31, {"float_error": 0.0}),
    ("no error of the short logarithm", "double", Fraction(2**20), 31, {"margin32": 0.5}),
    ("no width of the cell", "double", Fraction(37, 10), 31, {"half_cell": 0.0}),
    ("nine tenths of it", "double", Fraction(1000), 31, {"half_cell": 450.0}),
    ("no error of the double-double tier", "double-double", Fraction(10**17, 7), 127, {"double_double_margin": 0.5}),
    ("t 2^-77 for it", "double-double", Fraction(2**60), 127, {"double_double_margin": 0.5 - 2.0**-17}),
    ("2^-40 beside it, which is too little upwards", "double-double", Fraction(1), 79, {"double_double_margin": 0.5 - 2.0**-40}),
    ("C off by 2^-97", "integer", Fraction(2**60), 127, {"wide_c": 2**23}),
    ("half of the cell", "integer", Fraction(37, 10), 31, {"wide_cell": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("defect", "name", "scale", "bits", "change"), DEFECTS, ids=[d[0] for d in DEFECTS])
def test_a_planted_defect_is_caught(
    defect: str, name: str, scale: Fraction, bits: int, change: dict[str, float], host: ctypes.CDLL
) -> None:
    """A plan that allows for less error decides some of the same cells wrongly."""
    if name == "double-double" and not any(isa != 0 for isa in ISAS):
        pytest.skip("this machine's builds have no double-double tier")
    right = tiers.constants(DiscreteLaplace(1, scale))
    changed = {k: right[k] + v if k.startswith("wide") else v for k, v in change.items()}
    plan = tiers.Plan("discrete_laplace", **right | changed)
    errors = 0
    for mode in MODES:
        with entered(host, mode, flush=False):
            errors += inputs(scale, name, bits).tried(plan, TIERS[name][0], ISAS[-1])[1]
    assert errors > 0
