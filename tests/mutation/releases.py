# SPDX-License-Identifier: Apache-2.0
"""A release: what fails leaves nothing, and what is drawn is what was asked for."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("few long longs go the general way", "dpfast/noise/mechanisms/mechanism.py", "if values.dtype is LONG_LONG:", "if False:",
           "test_small.py -k long_long"),
    Mutant("long longs with bounds go the general way", "dpfast/noise/release/arrays.py", "array.view(INT64) if array.dtype is LONG_LONG else array", "array",
           "test_small.py -k long_long"),
    Mutant("a failed release keeps its counts", "dpfast/noise/release/engine.py", "job.out.fill(0)  # one call", "pass  # one call",
           "test_real_arrays.py -k 'not_finite or finite or zero'"),
    Mutant("values that are not finite are found too late", "dpfast/noise/release/engine.py", "    if not finite:", "    if False:",
           "test_real_arrays.py -k finite"),
    Mutant("the last tier clamps noise, not the sum", "dpfast/noise/release/engine.py",
           "min(max(value + exact(first + i), job.lower), job.upper)",
           "value + min(max(exact(first + i), job.lower), job.upper)", "test_saturation.py -k open_draws"),
    Mutant("a stream key outlives its release", "dpfast/noise/mechanisms/mechanism.py",
           "constant_work, exact), threads)\n        finally:\n            stream.wipe()",
           "constant_work, exact), threads)\n        finally:\n            pass", "test_keys_are_wiped.py -k DiscreteLaplace"),
    Mutant("small calls take the fast path", "dpfast/noise/mechanisms/mechanism.py", "constant_work = constant_time or size < SMALL",
           "constant_work = constant_time", "test_constant_work.py -k 'table and i8'"),
    Mutant("a constructor finds what it kept for an equal number of another kind", "dpfast/noise/mechanisms/equals.py",
           "and PLAIN.issuperset(map(id, map(type, (*given, *named.values()))))", "", "test_equals.py -k 'other_types or mind'"),
    Mutant("a real release takes any constant_time", "dpfast/noise/mechanisms/mechanism.py",
           'constant_time = flag("constant_time", constant_time)', "pass", "test_parameters.py -k flag"),
    Mutant("a masked array is taken with what it hides", "dpfast/noise/release/arrays.py", "isinstance(value, masked)", "False",
           "test_arrays.py -k masked_arrays"),
    Mutant("bounds beyond the type", "dpfast/noise/release/arrays.py", "return max(low, least), min(high, most)", "return low, high",
           "test_saturation.py -k public_bounds"),
    Mutant("the counts get noise under a key in place", "dpfast/noise/mechanisms/mechanism.py",
           "if not (key is None or out is None or disjoint(np.asarray(values), out)):", "if False:",
           "test_sealed.py -k in_place"),
    Mutant("a result of another's is trusted to keep the copies", "dpfast/noise/mechanisms/mechanism.py", "unseen=given.out is None", "unseen=True",
           "test_seal_guards.py -k rewritten_between"),
    Mutant("an array of more cells is released", "dpfast/noise/mechanisms/mechanism.py", "if most is not None and size > most:", "if False:",
           "test_sensitivity.py -k more_cells"),
    Mutant("a unit that arrives costs what a replaced one does", "dpfast/noise/mechanisms/pure.py", "Guarantee(added.l1 / self._scale,", "Guarantee(self.epsilon,",
           "test_composition.py -k halves"),
]  # fmt: skip
