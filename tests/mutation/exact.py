# SPDX-License-Identifier: Apache-2.0
"""Intervals that contain the true value: figures, selections, and the reference of draws."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("a discrete Laplace table is sure of every cell", "dpfast/evidence/selftest/reference/discrete_laplace.py", "found.append(ends)",
           "found.append((0, ends[1] - 1))", "test_exact.py -k tables_are"),
    Mutant("delta is rounded down", "dpfast/privacy/exact/balls.py", "return near if _flint().arb(near) >= top else math.nextafter(near, math.inf)",
           "return near", "test_gaussian_privacy.py -k 'least_double_above or convolution_rounded_up'"),
    Mutant("a fraction is rounded down", "dpfast/privacy/exact/balls.py", "return near if near >= exact else math.nextafter(near, math.inf)",
           "return near", "test_gaussian_privacy.py -k least_double_above"),
    Mutant("a coin's U next below its threshold lies", "dpfast/privacy/exact/response.py", "return 0 if u > self.keep else -1", "return 0 if u >= self.keep else -1",
           "test_randomized_response.py -k coins_meet"),
    Mutant("candidates whose noise may be equal are told apart", "dpfast/privacy/exact/winner.py", "            floor = min(floor, lows[i])\n", "",
           "test_exact.py -k may_overlap"),
    Mutant("a Laplace interval of many cells is that of one", "dpfast/privacy/exact/laplace.py", "miss(confidence, cells).log()", "miss(confidence, 1).log()",
           "test_exact.py test_laplace.py -k 'half_widths or interval'"),
    Mutant("a Laplace interval forgets the rounding", "dpfast/privacy/exact/laplace.py", "return ball(Fraction(1, 2)) - ball", "return ball(Fraction(0)) - ball",
           "test_real_intervals.py"),
    Mutant("a Gaussian interval forgets the rounding", "dpfast/privacy/exact/gaussian.py", ".erfcinv() + ball(Fraction(1, 2))", ".erfcinv()",
           "test_real_intervals.py"),
    Mutant("a real interval holds on the grid alone", "dpfast/noise/mechanisms/real.py", 'if parameters.flag("on_grid", on_grid):', "if True:",
           "test_real_intervals.py"),
    Mutant("a repr's interval is rounded to nearest", "dpfast/noise/mechanisms/mechanism.py", 'rounded(Fraction(half), up=True, group="")', 'f"{half:.6g}"',
           "test_real_intervals.py -k repr"),
    Mutant("both draws of a Gaussian pair have one sign", "dpfast/evidence/selftest/reference/gaussian.py", "signs >> (1 if sine else 2) & 1", "signs >> 2 & 1",
           "test_exact.py test_gaussian.py -k 'gaussian_draws or reference_agrees'"),
]  # fmt: skip
