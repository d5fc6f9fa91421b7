# SPDX-License-Identifier: Apache-2.0
"""Noise on every level of a tree."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("the names of a tree's groups are not sealed", "dpfast/counts/trees/release.py", "key._naming(noise.shape.terms)", "key",
           "test_trees.py -k names_of_groups"),
    Mutant("the names of a tree's higher groups are not sealed", "dpfast/counts/trees/shape.py", "enumerate(self.names)", "enumerate(self.names[:2])",
           "test_trees.py -k names_of_groups"),
    Mutant("the shares of a tree's levels add up to more", "dpfast/counts/trees/noise.py", "DiscreteLaplace(total * part / cost, change)",
           "DiscreteLaplace(total * part, change)", "test_trees.py -k 'small_worlds or add_up_exactly'"),
    Mutant("every level of a tree pays for its worst replacement", "dpfast/counts/trees/noise.py", "        return Cost(part, Fraction(0), part)\n    added", "        pass\n    return Cost(part, Fraction(0), part)\n    added",
           "test_trees.py -k 'all_levels_together or reaches_together'"),
    Mutant("a unit is always replaced, and never there alone", "dpfast/counts/trees/noise.py", "[Fraction(0), Fraction(1), *(u", "[Fraction(0), *(u",
           "test_trees.py -k 'all_levels_together or no_pair_costs'"),
    Mutant("a unit is always there alone, and never replaced", "dpfast/counts/trees/noise.py", "[Fraction(0), Fraction(1), *(u", "[Fraction(1), *(u",
           "test_trees.py -k 'all_levels_together or no_pair_costs'"),
    Mutant("a replacement of few cells keeps a whole part of the root or none", "dpfast/counts/trees/noise.py", ", *(u for u in bends if 0 < u < 1)]", "]",
           "test_trees.py -k no_pair_costs"),
    Mutant("a signed replacement keeps the total", "dpfast/counts/trees/noise.py", 'sensitivity.adjacency == "substitution" and not sensitivity.signed', 'sensitivity.adjacency == "substitution"',
           "test_trees.py -k reaches_together"),
    Mutant("the rho of a tree of Laplace noise is the sum of its levels'", "dpfast/counts/trees/noise.py", "_with_rho(partial(_rho, made, changes))", "_with_rho(lambda: compose(*filter(None, made)).rho)",
           "test_trees.py -k no_pair_costs"),
    Mutant("a sum of leaves runs over", "dpfast/noise/kernels/node_sums.py", "    if high > _LOW >> 1:", "    if False:", "test_trees.py -k saturate"),
    Mutant("the true counts of a tree outlive an error", "dpfast/counts/trees/noise.py", "        nodes.fill(0)\n        raise", "        raise",
           "test_trees.py -k error_leaves"),
    Mutant("a level without noise keeps its true sums", "dpfast/counts/trees/noise.py", "                    level.fill(0)", "                    pass",
           "test_trees.py -k keeps_no_sum"),
    Mutant("the steps of a quantile do not share its doubt", "dpfast/counts/trees/noisy_tree.py", "z = self._z(doubt_of(confidence) / steps)", "z = self._z(doubt_of(confidence))",
           "test_trees.py -k share_its_doubt"),
    Mutant("a tree's levels are charged after their noise", "dpfast/counts/trees/noise.py", "            if charge is not None:\n                charge()\n", "",
           "test_trees.py -k charged_once"),
]  # fmt: skip
