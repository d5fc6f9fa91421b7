# SPDX-License-Identifier: Apache-2.0
"""What releases guarantee, alone and together: no figure below the true loss."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("two coins protect the yes alone", "dpfast/privacy/two_coins.py",
           "max((2 - p) / (1 - p), (1 - p + p * p) / (1 - p) ** 2)", "(2 - p) / (1 - p)", "test_randomized_response.py -k loss_of_the_coins"),
    Mutant("a household costs twice, not four times the rho", "dpfast/privacy/guarantee.py", "k**2 * self.rho", "k * self.rho",
           "test_composition.py -k groups_in_a_chain"),
    Mutant("one of several cells is counted", "dpfast/privacy/laplace.py", "cells.l0 * _mean_loss(", "1 * _mean_loss(",
           "test_accounting_units.py -k three_cells"),
    Mutant("the delta of a rho is free", "dpfast/privacy/guarantee.py", "(wanted - self.rho_delta, delta)", "(wanted, delta)",
           "test_composition.py -k delta_of_rho"),
    Mutant("a unit that changes parts costs one of them", "dpfast/privacy/composition.py", "largest.group(2)", "largest.group(1)",
           "test_composition.py -k parallel_of_add_remove"),
    Mutant("deltas are lost in an advanced sum", "dpfast/privacy/composition.py", "sum(n * ball(-delta).log1p() for delta, n",
           "sum(0 * ball(-delta).log1p() for delta, n", "test_composition.py -k deltas_of_their_own"),
    Mutant("the rho of an epsilon is halved", "dpfast/privacy/guarantee.py", "ball(epsilon) * (ball(epsilon) / 2).tanh()", "ball(epsilon) * (ball(epsilon) / 4).tanh()",
           "test_guarantee.py -k rho_of_any"),
    Mutant("the rho of a discrete Laplace is that of its epsilon's square by eight", "dpfast/privacy/guarantee.py", "    if epsilon == 0 or epsilon > LARGE:\n        return epsilon", "    if epsilon == 0 or epsilon > LARGE:\n        return epsilon / 2",
           "test_guarantee.py -k rho_of_any"),
    Mutant("the delta of a group grows by its size alone", "dpfast/privacy/guarantee.py", "ball(delta) * (k * ball(epsilon)).expm1() / ball(epsilon).expm1()", "ball(delta) * k",
           "test_composition.py -k groups"),
    Mutant("groups under approximate zCDP are promised something", "dpfast/privacy/guarantee.py", "if self.rho_delta and self.epsilon is None:", "if False:",
           "test_composition.py -k groups"),
    Mutant("an epsilon is promised at a smaller delta", "dpfast/privacy/guarantee.py", "and self.delta <= wanted:", "and self.delta <= 1:",
           "test_composition.py -k 'zcdp or least_bound or bad_input'"),
    Mutant("a delta is that of a smaller epsilon", "dpfast/privacy/guarantee.py", "and self.epsilon <= wanted:\n            found = min", "and self.epsilon <= 2 * wanted:\n            found = min",
           "test_accounting_units.py -k delta_at"),
    Mutant("the delta of noise forgets its own", "dpfast/privacy/guarantee.py", "found = self.rho_delta + (self._delta_of_rho(wanted) if self.rho else 0)", "found = Fraction(0) + (self._delta_of_rho(wanted) if self.rho else 0)",
           "test_accounting_units.py -k 'delta_at or withheld'"),
    Mutant("no guarantee is too weak to be said", "dpfast/privacy/guarantee.py", "    if loss <= _loudest or _searching.get():", "    if True:",
           "test_weak_guarantee.py"),
    Mutant("a weak guarantee that is only tried is warned of", "dpfast/privacy/guarantee.py", "    if loss <= _loudest or _searching.get():", "    if loss <= _loudest:",
           "test_weak_guarantee.py test_accounting_units.py"),
    Mutant("guarantees of different rho are equal", "dpfast/privacy/guarantee.py", "        self.rho  # noqa: B018\n        return super()._compared()", "        return tuple(each for each in super()._compared() if each is not self.rho)",
           "test_guarantee.py test_composition.py"),
    Mutant("the largest belief is no bound", "dpfast/privacy/belief.py", "rounded_up(lambda: 1 / (1 + _times(against, -e)))", "float(rounded_up(lambda: 1 / (1 + _times(against, -e)))) * (1 - 2.0**-52)",
           "test_meaning.py -k rounded_outwards"),
    Mutant("the least belief is rounded up", "dpfast/privacy/belief.py", "return near if (near := float(exact)) <= exact else math.nextafter(near, 0.0)", "return math.nextafter(float(exact), 1.0)",
           "test_meaning.py -k rounded_outwards"),
    Mutant("a budget in zCDP is a step beyond what implies its epsilon", "dpfast/privacy/gaussian.py", "        low, high = (middle, high) if enough(middle) else (low, middle)\n", "        low, high = (middle, high) if enough(middle) else (low, middle)\n    low = high\n",
           "test_gaussian_privacy.py test_ledger.py test_accounting_units.py -k zcdp"),
]  # fmt: skip
