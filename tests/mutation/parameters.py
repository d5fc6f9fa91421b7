# SPDX-License-Identifier: Apache-2.0
"""Parameters, taken exactly or refused."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("whatever is true to Python is a flag", "dpfast/privacy/parameters.py", "isinstance(value, (bool, np.bool_))",
           "isinstance(value, object)", "test_parameters.py -k flag"),
    Mutant("two_to is half", "dpfast/privacy/parameters.py", "exponent + 1023 << 52", "exponent + 1022 << 52",
           "test_parameters.py -k power_of_two"),
    Mutant("two_to is half below the normals", "dpfast/privacy/parameters.py", "1 << exponent + 1074", "1 << exponent + 1073",
           "test_parameters.py -k power_of_two"),
    Mutant("6 is a power of two", "dpfast/privacy/parameters.py", "exact.numerator & (exact.numerator - 1) or ", "",
           "test_parameters.py -k power_of_two"),
    Mutant("epsilon may be 0", "dpfast/privacy/parameters.py", "    if exact <= 0:", "    if exact < 0:", "test_parameters.py -k not_positive"),
]  # fmt: skip
