# SPDX-License-Identifier: Apache-2.0
"""What is computed from noisy numbers: intervals that hold."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("an interval forgets that two noises may miss", "dpfast/counts/postprocess.py", "1 - miss / len(released)", "1 - 40 * miss / 41",
           "test_postprocess.py -k within_its_own"),
    Mutant("a ratio is taken to grow with its rows", "dpfast/counts/postprocess.py", "np.where(total.lower >= 0, many, few)", "few",
           "test_postprocess.py -k within_its_own"),
]  # fmt: skip
