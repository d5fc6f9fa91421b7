# SPDX-License-Identifier: Apache-2.0
"""Rows to counts and sums: what one unit may do to them."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("a unit has rows beyond the cap", "dpfast/kernels/bounded_histogram.py", "min(np.int64(cap), many[i])", "many[i]",
           "test_bounded_histogram.py -k equal_to_the_reference"),
    Mutant("a unit of few keys keeps other keys", "dpfast/kernels/bounded_histogram.py", "1 if tags[j] < tag", "1 if tags[j] > tag",
           "test_bounded_histogram.py -k equal_to_the_reference"),
    Mutant("equal tags break the bound", "dpfast/kernels/bounded_histogram.py", "if kept > most:", "if found > FEW:",
           "test_bounded_histogram.py -k equal_tags"),
    Mutant("a unit's first rows are kept", "dpfast/kernels/bounded_histogram.py", "elif tag < heap[0]:", "elif False:",
           "test_bounded_histogram.py -k 'few_bins_and_of_many'"),
    Mutant("a unit keeps all rows of the last tag", "dpfast/kernels/chosen_rows.py", "tag < last or (tag == last and room > 0)",
           "tag <= last", "test_bounded_rows.py -k equal_tags"),
    Mutant("rows are told apart by their order", "dpfast/kernels/chosen_rows.py", "_sort_each(rows, values, begin, at)", "pass",
           "test_bounded_rows.py -k every_order"),
    Mutant("rows that fall once are taken for sorted", "dpfast/kernels/chosen_rows.py", "falls |= ", "falls = ",
           "test_bounded_rows.py -k 'sums_are_as_defined or every_order'"),
    Mutant("a row's value has no part in its tag", "dpfast/kernels/chosen_rows.py",
           "value = np.uint64(values[i]) if values.size > 0 else _ONE", "value = _ONE", "test_bounded_rows.py -k sums_are_as_defined"),
    Mutant("rows in all are not bounded", "dpfast/records/bounded_histogram.py", "(caps.contributions, bits, 0, of_all)",
           "(None, bits, 0, of_all)", "test_bounded_rows.py -k small_world"),
    Mutant("what is summed is not clamped", "dpfast/kernels/totals.py", "min(max(value, lower), upper)", "value",
           "test_bounded_rows.py -k small_world"),
    Mutant("a long sum wraps around", "dpfast/kernels/totals.py", "if top != value >> 63:", "if False:",
           "test_bounded_rows.py -k every_width"),
    Mutant("sums of all units wrap around", "dpfast/records/bounded_histogram.py", "np.where(tops == sums >> 63, sums,",
           "np.where(True, sums,", "test_bounded_rows.py -k saturate"),
    Mutant("a row's value counts as one", "dpfast/records/bounded_histogram.py", "rows * step,", "rows,",
           "test_bounded_rows.py -k small_world"),
    Mutant("sums of both signs count as counts", "dpfast/records/bounded_histogram.py",
           "signed=bounds is not None and bounds.signed", "signed=False", "test_bounded_rows.py -k small_world"),
    Mutant("NaN is summed", "dpfast/records/amounts.py", "if np.isnan(reals).any():", "if False:", "test_bounded_rows.py -k bad_sums"),
    Mutant("parts that differ are added", "dpfast/records/bounded_histogram.py", "            if differ:", "            if False:",
           "test_bounded_rows.py -k parts_that_differ"),
    Mutant("a negative lower bound changes nothing", "dpfast/records/fixed_point.py", "records * max(abs(steps.lower), abs(steps.upper))",
           "records * abs(steps.upper)", "test_fixed_point_sum.py -k neighbours"),
]  # fmt: skip
