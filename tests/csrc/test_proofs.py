# SPDX-License-Identifier: Apache-2.0
"""The scripts of csrc/proofs: Gappa and Sollya prove each, and none that was made false."""

from __future__ import annotations

from functools import cache

import pytest
from proofs import MODES, PROOFS, certifies, fused, generator, proves, refutes, rejects

GAPPA = {path.stem: path.read_text() for path in PROOFS.glob("*.gappa")}
GAPPA |= {
    f"{name} with fma": fused(GAPPA[name])
    for name in ("decide", "normal", "short_log", "gaussian_short", "extended", "extended_normal")
}
SOLLYA = {path.stem: path.read_text() for path in PROOFS.glob("*.sollya")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(GAPPA))
def test_gappa_proves_the_roundings(name: str, mode: str) -> None:
    """Every goal is proved, in this rounding mode; with fma, where `fused` is one instruction."""
    proves(GAPPA[name], mode)


@pytest.mark.parametrize(
    ("name", "polynomial", "more"), [("decide", "LOG", 0), ("short_log", "SHORT_LOG", 1), ("extended", "LOG", 4)]
)
def test_fma_fuses_every_step_of_the_logarithm(name: str, polynomial: str, more: int) -> None:
    """So what is proved with fma is another evaluation. more: a fused step behind it."""
    steps = len(getattr(generator("make_approximations"), polynomial)) - 1
    assert GAPPA[name].count("rnd=") - GAPPA[f"{name} with fma"].count("rnd=") == steps + more


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("decide", "0x4.cdp-52", "0x4.4p-52"),  # z's bound
        ("decide", "relative_error = 0x5p-52", "relative_error = 0x4.8p-52"),
        ("short_log", "e - E in [-0x1.7p-36, 0x1.7p-36]", "e - E in [-0x1.5p-36, 0x1.5p-36]"),
        ("short_log", "q10 * m + -0x1.f27eff8f", "q10 * m + -0x1.f27eff8e"),  # a coefficient of the code alone
        ("short_log", "0x1.78p-36", "0x1.7p-36"),  # z's bound
        ("short_log", "short_error = 0x3p-37", "short_error = 0x2.cp-37"),
        ("cell_log", "0x0.8p-52", "0x0.5p-52"),  # the logarithm's bound
        ("cell_log", "r = rnd(R)", "r = rnd(R + 0x1p-54)"),
        ("cell_log", "ew - EW in [-0x1.8p-38, 0x1.8p-38]", "ew - EW in [-0x1.7p-38, 0x1.7p-38]"),
        ("cell_log", "s1 * rw + 0x1.55554c8b9b5f9p-2", "s1 * rw + 0x1.55564c8b9b5f9p-2"),  # a coefficient of the code alone
        ("cell_log", "base rnd= digits * 0x1.62e42fefa39efp-1", "base rnd= digits * 0x1.62e42fefb39efp-1"),  # ln 2 of the code alone
        ("float_log", "0x1.24p-23", "0x1.1p-23"),  # the logarithm's bound
        ("float_log", "p2 * f + -0x1.a967dp-6", "p2 * f + -0x1.a967p-6"),  # a coefficient of the code alone
        ("float_log", "2.17", "2.1"),  # z's bound
        ("float_log", "float_error = 0x3.2p-23", "float_error = 0x3p-23"),
        ("float_log", "scale_error = 2.25", "scale_error = 2.1"),
        ("double_double", "0x1.ap-74", "0x1.8p-74"),  # the logarithm's bound
        ("double_double", "rest = rnd(tail * c + q)", "rest = rnd(rnd(tail * c) + q)"),
        ("extended", "TRUE in [-0x1.8p-58, 0x1.8p-58]", "TRUE in [-0x1.6p-58, 0x1.6p-58]"),  # the logarithm's bound
        ("extended", "[-0x1.5p-36, 0x1.5p-36]", "[-0x1.4p-36, 0x1.4p-36]"),  # z's bound
        ("extended", "more rnd= over * z + over;", "more rnd= over * 1;"),  # artanh's slope forgotten
        ("extended", "dl = rnd(away + fl)", "dl = rnd(fl)"),  # what d lacks
        ("extended_normal", "SINE in [-0x1.ap-54, 0x1.ap-54]", "SINE in [-0x1.8p-55, 0x1.8p-55]"),
        ("extended_normal", "[-0x1.ap-56, 0x1.ap-56]", "[-0x1p-56, 0x1p-56]"),  # the cosine's bound
        ("extended_normal", "sine_low rnd= cosine * t + sine_part;", "sine_low rnd= sine_part;"),  # the angle's lower half
        ("extended_normal", "wc = rnd(wl * ", "wc = rnd(0 * "),  # the square's
        ("laplace", "0x4.cdp-52", "0x4.4p-52"),  # z's bound
        ("laplace", "relative_error = 0x6p-52", "relative_error = 0x4.8p-52"),
        ("laplace", "beta in [-0x3.9ap-52, 0x3.9ap-52]", "beta in [-0x4.9ap-52, 0x4.9ap-52]"),  # a worse logarithm
        ("laplace", "F in [-0.5, 0.5]", "F in [-8, 8]"),  # where the noise begins
        ("gaussian", "[-0xc.4p-52, 0xc.4p-52]", "[-0xb.cp-52, 0xb.cp-52]"),  # the error of y
        ("gaussian", "relative_error = 0x14p-52", "relative_error = 0x13p-52"),
        ("gaussian", "margin = 0.5 - 0x4p-52", "margin = 0.5 - 0x2p-52"),
        ("gaussian", "(A * (T * R))) in [-0xap-52, 0xap-52]", "(A * (T * R))) in [-0x8p-52, 0x8p-52]"),  # a cell's weight
        ("gaussian", "(half_angle * (T * R)) in [-0xap-52, 0xap-52]", "(half_angle * (T * R)) in [-0x7p-52, 0x7p-52]"),
        ("gaussian_short", "[-0x5p-52, 0x5p-52]", "[-0x3p-52, 0x3p-52]"),  # t R
        ("gaussian_short", "sine - SV in [-0x1p-38, 0x1p-38]", "sine - SV in [-0x1.bp-39, 0x1.bp-39]"),
        ("gaussian_short", "[-0x1.a5p-35, 0x1.a5p-35]", "[-0x1.a3p-35, 0x1.a3p-35]"),  # the error of y
        ("gaussian_short", "0x1.d9c364eac5df8p-19 * w", "0x1.d9c374eac5df8p-19 * w"),  # the cosine
        ("gaussian_short", "half_angle = 0x1.bp-31", "half_angle = 0x1.aep-31"),
        ("gaussian_short", "margin = 0.5 - 0x4p-52", "margin = 0.5 - 0x2p-52"),
        ("gaussian_short", "[-0x8p-52, 0x8p-52]", "[-0x6p-52, 0x6p-52]"),  # a cell's weight
        ("gaussian_float", "E in [0x1p-19, 23]", "E in [-0x1p-19, 23]"),  # no root
        ("gaussian_float", "sine - SP in [-0x1.2p-23, 0x1.2p-23]", "sine - SP in [-0x1p-23, 0x1p-23]"),
        ("gaussian_float", "cosine - CP in [-0x0.fp-23, 0x0.fp-23]", "cosine - CP in [-0x0.5p-23, 0x0.5p-23]"),
        ("gaussian_float", "p2 * w - 0x1.4abb7cp-4", "p2 * w - 0x1.4abb0cp-4"),  # a coefficient of the code alone
        ("gaussian_float", "q1 * w + 1)", "q1 * w + 0x1.00001p0)"),
        ("gaussian_float", "[-0x3.5p-23, 0x3.5p-23]", "[-0x3p-23, 0x3p-23]"),  # y's bound, by the sine
        ("gaussian_float", "[-0x3.5cp-23, 0x3.5cp-23]", "[-0x3.2p-23, 0x3.2p-23]"),  # by the cosine
        ("gaussian_float", "e -/ E in [-0x1.0ap-23, 0x1.0ap-23]", "e -/ E in [-0x1.8p-23, 0x1.8p-23]"),
        ("gaussian_float", "float_error = 0x3.6p-23", "float_error = 0x3.5p-23"),
        ("gaussian_float", "float_margin = 0.5 - 0x4p-23", "float_margin = 0.5 - 0x3p-23"),
        ("gaussian_float", "[-0x2.01p-23, 0x2.01p-23]", "[-0x1.8p-23, 0x1.8p-23]"),  # the test's product
        ("normal", "0x4.ep-52", "0x3.8p-52"),  # the radius's bound
        ("normal", "f -/ F in [-0x1p-52, 0x1p-52]", "f -/ F in [-0x2p-52, 0x2p-52]"),  # twice rounded
        ("normal", "below = fixed<-1, dn>", "below = fixed<-42, dn>"),  # the rest of middle, then inexact
        ("normal", "0x2.2p-52", "0x1.ep-52"),  # the sine's bound
        ("normal", "cosine rnd= q1 * w + 1", "cosine rnd= rnd(q1 * w + 1) * (1 + 0x1p-52)"),
        ("normal_double_double", "fl in [0, 0x0.0000007ffffffp0]", "fl in [0, 0x0.000000fffffffp0]"),  # a split one bit off
        ("normal_double_double", "root_low rnd= over", "root_low rnd= left"),  # the lower half forgotten
        ("normal_double_double", "short = float<21", "short = float<22"),  # products of 54 bits
        ("normal_double_double", "0x1.cp-77", "0x1.7p-77"),  # the sine's bound
        ("normal_double_double", "0x1.7p-77", "0x1.4p-77"),  # the cosine's
    ],
)  # fmt: skip
def test_gappa_rejects_what_is_false(name: str, old: str, new: str) -> None:
    """A smaller bound or another rounding is not proved: the hypotheses do not contradict."""
    rejects(GAPPA[name], old, new)


@pytest.mark.parametrize("name", sorted(SOLLYA))
def test_sollya_certifies_the_polynomials(name: str) -> None:
    """Every polynomial and constant lies within its stated bound."""
    certifies(PROOFS / f"{name}.sollya")


# A digit changed, and the one claim that it makes false: Sollya refuses all of a script at once.
ONE_DIGIT = {
    "decide": {
        "minus_log, (ln m)/s": ("0x1.9999999995287p-2", "0x1.9999999995307p-2"),
        "short_minus_log, Q": ("0x1.0679ab9cab06fp4", "0x1.0679ab9cac06fp4"),
        "minus_log_by_cells, S": ("0x1.55554c8b9b5f9p-2", "0x1.55555c8b9b5f9p-2"),
        "minus_log_by_cells, T": ("0x1.99998432be38cp-3", "0x1.9999843abe38cp-3"),
        "minus_log_by_cells, cell 7": ("0x1.5cap-1", "0x1.5cbp-1"),
        "minus_log_by_cells, cell 13": ("-0x1.39240dde5ce92p-1", "-0x1.39240dde5ce93p-1"),
    },
    "normal": {
        "radius, (ln M)/s": ("0x1.9999999995287p-2", "0x1.9999999995307p-2"),
        "octant, sine": ("0x1.466bc67754fffp-9", "0x1.466bc67755fffp-9"),
        "octant, cosine": ("0x1.55d3c7dc3b7f3p-12", "0x1.55d3c7dc3c7f3p-12"),
        "octant_extended, sine": ("0x1.50783206ab3dap-22", "0x1.50784206ab3dap-22"),
        "octant_extended, cosine": ("0x1.55d3c7e3cbfa7p-12", "0x1.55d3c7e3ccfa7p-12"),
        "pi/4 twice": ("0x1.1a62633145c07p-55 - pi", "0x1.1a62633145c07p-54 - pi"),
        "short_octant, sine": ("0x1.466bba8bfc001p-9", "0x1.466bbb8bfc001p-9"),
        "short_octant, cosine": ("0x1.d9c364eac5df8p-19", "0x1.d9d364eac5df8p-19"),
        "float_octant, sine": ("-0x1.4abb7cp-4", "-0x1.4abb7ep-4"),
        "float_octant, cosine": ("-0x1.55b684p-12", "-0x1.55b784p-12"),
        "octant_double_double, P": ("0x1.1111111111111p-7", "0x1.1111112111111p-7"),
        "octant_double_double, Q": ("0x1.6c16c16c16c17p-10", "0x1.6c17c16c16c17p-10"),
        "pi/4 in two parts": ("0x1.110b4611a6263p-27", "0x1.110b4611a7263p-27"),
    },
}


@cache
def refused(name: str) -> set[str]:
    """The claims of a script that are false with a digit changed for each."""
    script = SOLLYA[name]
    for old, new in ONE_DIGIT[name].values():
        assert script.count(old) == 1
        script = script.replace(old, new)
    return refutes(script)


@pytest.mark.parametrize(("name", "claim"), [(name, claim) for name, claims in ONE_DIGIT.items() for claim in claims])
def test_sollya_rejects_one_digit_changed(name: str, claim: str) -> None:
    assert claim in refused(name)
    assert refused(name) <= set(ONE_DIGIT[name])
