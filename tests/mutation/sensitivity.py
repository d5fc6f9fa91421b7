# SPDX-License-Identifier: Apache-2.0
"""How far one unit moves what is released."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("all levels of a tree have the leaves' sensitivity", "dpfast/privacy/sensitivity.py", "linf * min(l0, largest),", "linf,",
           "test_trees.py -k 'no_level_moves or small_worlds'"),
    Mutant("a mechanism for less releases counts", "dpfast/privacy/sensitivity.py", "figure is not None and figure < least", "False",
           "test_bounded_histogram.py -k made_for_less"),
    Mutant("rows in all square to less", "dpfast/privacy/sensitivity.py", "*([Cells(1, rest)] if rest else [])", "*()",
           "test_sensitivity.py -k norms_together"),
    Mutant("a worse change passes for a covered one", "dpfast/privacy/sensitivity.py", "-(-cells // (worst.linf // most)) <= worst.l0",
           "True", "test_sensitivity.py -k worst_change"),
    Mutant("substitution is not doubled", "dpfast/privacy/sensitivity.py", "for cells in (up, down):", "for cells in (up,):",
           "test_sensitivity.py -k contributed"),
    Mutant("few cells are filled on one side", "dpfast/privacy/sensitivity.py", "self.cells // 2", "self.cells // 3",
           "test_sensitivity.py -k few_cells"),
    Mutant("signed substitution is not doubled twice", "dpfast/privacy/sensitivity.py", "2 * linf, 2 * total",
           "2 * linf, total", "test_sensitivity.py -k contributed"),
    Mutant("l2 is rounded down", "dpfast/privacy/sensitivity.py", "while Fraction(root) ** 2 < square:", "while False:",
           "test_sensitivity.py -k 'l2'"),
    Mutant("counts of secret keys are released in every cell", "dpfast/privacy/sensitivity.py", 'if self.keys == "private":\n            raise', "if False:\n            raise",
           "test_sensitivity.py test_bounded_histogram.py -k 'public_or_private or no_release'"),
    Mutant("signed contributions move all cells one way", "dpfast/privacy/sensitivity.py", "return self.contributes is not None and not self.signed and", "return self.contributes is not None and",
           "test_sensitivity.py -k one_way"),
    Mutant("cells that bound nothing are kept as if they did", "dpfast/privacy/sensitivity.py", "cells=there if there is not None and there < changed else None", "cells=there",
           "test_sensitivity.py -k cells"),
    Mutant("another adjacency covers the counts", "dpfast/privacy/sensitivity.py", 'for name, given in (("adjacency", adjacency), ("unit", unit)):', 'for name, given in (("unit", unit),):',
           "test_sensitivity.py test_bounded_histogram.py -k 'made_for'"),
    Mutant("a mechanism without a sensitivity releases counts", "dpfast/privacy/sensitivity.py", '    if stated is None:\n        raise ParameterError(f"mechanism must be made for a sensitivity', '    if stated is None:\n        return\n        raise ParameterError(f"mechanism must be made for a sensitivity',
           "test_sensitivity.py test_bounded_histogram.py -k made_for"),
    Mutant("a few cells change less than one unit fills", "dpfast/privacy/sensitivity.py", "down = l0 if self.cells is None else min(l0, self.cells - up)", "down = l0 if self.cells is None else min(up, self.cells - up)",
           "test_sensitivity.py -k few_cells"),
]  # fmt: skip
