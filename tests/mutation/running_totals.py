# SPDX-License-Identifier: Apache-2.0
"""How far one unit moves running totals, and the integers that they are encoded in."""

from __future__ import annotations

from mutation.mutant import Mutant

PROOF, BUFFERS, TOTALS = (
    "dpfast/privacy/running.py",
    "dpfast/counts/running/buffers.py",
    "dpfast/counts/running/totals.py",
)
TEST = "test_running_totals.py -k "
MUTANTS = [
    Mutant("the diagonal alone is what a unit moves", PROOF, "    return square\n", "    return ball(Fraction(many))\n",
           TEST + "'small_worlds or enclosed'"),
    Mutant("a shift without the rounding", PROOF, "        return columns + ball(_margin_squared(placed, change, rounding)).sqrt()", "        return columns",
           TEST + "'small_worlds or of_the_proof'"),
    Mutant("a shift without l2", PROOF, "* ball(change.l2_squared)).sqrt()", ").sqrt()", TEST + "'small_worlds or of_the_proof'"),
    Mutant("the rounding of one cell", PROOF, "* placed.most * change.cells", "* placed.most", TEST + "of_the_proof"),
    Mutant("the rounding of one contribution", PROOF, "* placed.most * change.cells", "* change.cells", TEST + "of_the_proof"),
    Mutant("the rounding of one side", PROOF, "(2 * rounding) ** 2", "rounding**2", TEST + "'small_worlds or of_the_proof'"),
    Mutant("several contributions cost as one", TOTALS, "Placed(self.ceiling, self.per_unit_steps, self.apart)", "Placed(self.ceiling, 1, self.apart)",
           TEST + "of_the_proof"),
    Mutant("contributions lie further apart", TOTALS, "Placed(self.ceiling, self.per_unit_steps, self.apart)", "Placed(self.ceiling, self.per_unit_steps, self.apart + 1)",
           TEST + "of_the_proof"),
    Mutant("the promise of the expected steps alone", TOTALS, "Placed(self.ceiling, self", "Placed(self.steps, self", TEST + "of_the_proof"),
    Mutant("columns that grow", PROOF, "        if sum(self.shares) > 1:", "        if False:", TEST + "'that_grow or spoilt'"),
    Mutant("columns that never fall", PROOF, "all(0 < q < 1 for q in self.leaks)", "all(0 <= q <= 1 for q in self.leaks)", TEST + "that_grow"),
    Mutant("a substitution within one step alone", PROOF, "(4 if sensitivity.signed else 2) * one.l2_squared", "sensitivity.l2_squared",
           TEST + "of_the_proof"),
    Mutant("a signed substitution as one of counts", PROOF, "(4 if sensitivity.signed else 2)", "2", TEST + "of_the_proof"),
    Mutant("less noise than the kept integers ask for", PROOF, "    if moved_by**2 > 2 * rho * sigma_squared:", "    if False:", TEST + "spoilt"),
    Mutant("an epsilon that rho does not imply", TOTALS, "rho > rho_of(Fraction(epsilon), Fraction(delta))", "False", TEST + "spoilt"),
    Mutant("a bound beyond 64 bits", BUFFERS, "<= (largest := largest_bound(code, steps)):", "<= max(bound, largest := largest_bound(code, steps)):",
           TEST + "'overflows or bad_parameters'"),
    Mutant("halves are rounded down", BUFFERS, "    product += 1 << shift - 1\n", "", TEST + "'plain_integers or golden'"),
    Mutant("the lower half is not rounded with the upper one", BUFFERS, "    low <<= LOW - shift\n", "    low <<= LOW - shift - 1\n", TEST + "plain_integers"),
    Mutant("sums of more buffers than they hold", BUFFERS, "    if len(numbers) > 2 * MANY:", "    if False:", TEST + "many_buffers"),
    Mutant("a carry is lost", BUFFERS, "        new_held += carry\n", "", TEST + "plain_integers"),
    Mutant("counts without a clamp", TOTALS, "np.clip(array.astype(np.int64), low, high)", "array.astype(np.int64)", TEST + "clamped"),
    Mutant("totals beyond the ceiling", "dpfast/counts/running/noisy_totals.py", "    if len(array) > totals.ceiling:", "    if False:", TEST + "bad_steps"),
    Mutant("counts that know more are taken", "dpfast/counts/running/noisy_totals.py", "    refuse_less(counts, totals)\n", "", TEST + "know_more"),
    Mutant("a window without its covariance", "dpfast/counts/running/error.py", "        return self.squares(last) + before", "        return self.squares(n) + self.squares(n - last)",
           TEST + "'exact_inverse or simulated'"),
]  # fmt: skip
