# SPDX-License-Identifier: Apache-2.0
"""One answer: the best of many, the first above, the truth or a lie."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("the sparse vector's answers get half their noise", "dpfast/noise/mechanisms/above_threshold.py", "self.epsilon / 4",
           "self.epsilon / 2", "test_above_threshold.py -k scales"),
    Mutant("an answer at the threshold is below", "dpfast/noise/mechanisms/above_threshold.py", "+ next(noise) >= least",
           "+ next(noise) > least", "test_above_threshold.py"),
    Mutant("nominations have no margin for the logarithm", "dpfast/noise/kernels/nominate.py", "_MARGIN = 2.0**-30", "_MARGIN = 2.0**-50",
           "test_selection.py -k doubles_err"),
    Mutant("nominations have too little margin for the digits", "dpfast/noise/kernels/nominate.py", "off = 0.5 / np", "off = 0.05 / np",
           "test_selection.py -k nominat"),
    Mutant("a selection leaves its noise in memory", "dpfast/noise/mechanisms/selection.py",
           "            stream.wipe()\n            noise.fill(0)", "            stream.wipe()", "test_selection.py -k nothing_private_is_left"),
    Mutant("k picks in one shot cost a rho of k single ones", "dpfast/noise/mechanisms/selection.py",
           "return rho_of_epsilon(k * self.epsilon)", "return k * rho_of_epsilon(self.epsilon)",
           "test_selection.py -k price_of_k"),
    Mutant("the leader's place is taken for that of the last of k", "dpfast/noise/mechanisms/selection.py", "leaders = np.full(k, -np.inf)",
           "leaders = np.full(1, -np.inf)", "test_selection.py -k put_in_order"),
    Mutant("every score is taken for monotonic", "dpfast/noise/mechanisms/selection.py", "(1 if self.monotonic else 2)", "1",
           "test_selection.py -k winners_follow"),
    Mutant("the truth is told a little too often", "dpfast/noise/mechanisms/randomized_response.py",
           "np.array([e + (self.categories - 1)]), np.array([e])",
           "np.array([e + (self.categories - 1)]), np.array([e * (1 + 2.0**-30)])", "test_randomized_response.py -k planted_words"),
    Mutant("every selection has a bounded range", "dpfast/noise/mechanisms/selection.py", "return rho_of_epsilon(k * self.epsilon)", "return k * self.epsilon**2 / 8",
           "test_accounting_units.py -k rho_of_a_selection"),
    Mutant("doubles decide answers that are near a threshold", "dpfast/noise/kernels/respond.py", "margin = slope[at] * 2.0**-49", "margin = slope[at] * 2.0**-60",
           "test_randomized_response.py -k 'room_for_its_errors or planted_words'"),
    Mutant("what randomized response drew stays in memory", "dpfast/noise/mechanisms/randomized_response.py", "            words.fill(0)\n", "",
           "test_randomized_response.py -k nothing_private"),
    Mutant("answers are drawn before they are paid for", "dpfast/noise/mechanisms/randomized_response.py", "            if charge is not None:\n                charge()\n            return self._answered(said.reshape(-1)).astype(array.dtype).reshape(said.shape)", "            return self._answered(said.reshape(-1)).astype(array.dtype).reshape(said.shape)",
           "test_ledger_gdp.py -k choices_and_answers"),
    Mutant("the threshold is read before it is paid for", "dpfast/noise/mechanisms/above_threshold.py", "        if charge is not None:\n            charge()\n", "",
           "test_ledger_gdp.py -k choices_and_answers"),
]  # fmt: skip
