# SPDX-License-Identifier: Apache-2.0
"""Counts that know their sensitivity, and the doors that ask them."""

from __future__ import annotations

from mutation.mutant import Mutant

COUNTS, TESTS = "dpfast/noise/release/counts.py", "test_bounded_counts.py -k "
ARRAYS = TESTS + "'each_door and mechanism'"
MUTANTS = [
    Mutant("a mechanism releases counts by less noise", "dpfast/noise/mechanisms/mechanism.py", "        refuse_less(values, self)\n", "", ARRAYS),
    Mutant("a plain view of counts is released by less noise", "dpfast/noise/mechanisms/mechanism.py", "(values.base is None or origin_of(values.base) is None)", "True", ARRAYS),
    Mutant("few counts are written over", "dpfast/noise/mechanisms/mechanism.py", "(out is None or (type(out) is np.ndarray and out.base is None) or origin_of(out) is None)", "True", TESTS + "writes_into"),
    Mutant("counts are written over", "dpfast/noise/release/arrays.py", "if origin_of(out) is not None:", "if False:", TESTS + "writes_into"),
    Mutant("a selection takes counts for less noise", "dpfast/noise/mechanisms/selection.py", "        refuse_less(array, self)\n", "", TESTS + "'each_door and select'"),
    Mutant("a run over counts takes less noise", "dpfast/noise/mechanisms/above_threshold.py", "        refuse_less(answers, self)\n", "", TESTS + "'each_door and run'"),
    Mutant("counts are answers", "dpfast/noise/mechanisms/randomized_response.py", "        refuse_less(array, self)\n", "", TESTS + "'each_door and randomized'"),
    Mutant("a tree takes counts for less noise", "dpfast/counts/trees/release.py", "    refuse_less(leaves, noise)\n", "", TESTS + "'each_door and tree'"),
    Mutant("a threshold takes counts for less noise", "dpfast/counts/records/partitions.py", "    _refuse_less(values, stated)\n", "", TESTS + "'each_door and thresholded'"),
    Mutant("a ledger asks for its budget before the counts", "dpfast/ledger/ledger.py", "        refuse_less(values, mechanism)\n", "",
           "test_bounded_histogram.py -k made_for_less"),
    Mutant("a selection's change of one answer is taken for that of all", "dpfast/noise/mechanisms/one_answer.py", ', norm="linf")', ")", TESTS + "'each_door and select'"),
    Mutant("sums of both signs are monotonic", "dpfast/noise/mechanisms/one_answer.py", "if self.monotonic and not change.one_way:", "if False:", TESTS + "monotonic"),
    Mutant("the sums of a tree are checked as its leaves", "dpfast/counts/trees/noise.py", "change.of_sums(sums, parts)", "change", TESTS + "sums_alone"),
    Mutant("a threshold hides less than a unit contributes", "dpfast/counts/records/partitions.py", "        if given < most:", "        if False:", TESTS + "what_a_unit_contributes"),
    Mutant("noise for many cells takes counts of one", "dpfast/noise/mechanisms/pure.py", "            must_cover(self._change, change)\n", "            pass\n", TESTS + "promises_holds"),
    Mutant("what is said of adding a unit holds for less", "dpfast/privacy/sensitivity.py", "        if more or not _covers(mine, theirs):", "        if False:", TESTS + "promises_holds"),
    Mutant("cells are taken twice", COUNTS, "if np.unique(places).size < places.size:", "if False:", TESTS + "taken_twice"),
    Mutant("cells are seen twice", COUNTS, "if isinstance(values, np.ndarray) and overlaps_itself(values):", "if False:", TESTS + "taken_twice"),
    Mutant("a window of counts knows nothing", COUNTS, 'values.base if type(values).__name__ == "DummyArray" else None', "None", TESTS + "taken_twice"),
    Mutant("a Series of counts knows nothing", COUNTS, "        found = values.values\n", "        pass\n", TESTS + "'each_door and run'"),
    Mutant("a refusal tells how many private keys there are", COUNTS, 'whole.keys == "private" or ', "", TESTS + "private_keys"),
    Mutant("a part of counts needs one cell's noise", COUNTS, "whole.of_sums(max(cells, 1), 1)", "whole.of_sums(1, 1)", TESTS + "a_part_needs"),
    Mutant("a part of counts needs all noise", COUNTS, "whole.of_sums(max(cells, 1), 1)", "whole", TESTS + "a_part_needs"),
    Mutant("copies of counts know nothing", COUNTS, "            found.origin = origin\n", "            pass\n", ARRAYS),
    Mutant("plain views of chosen counts know nothing", COUNTS, "if type(found.base) is np.ndarray:", "if False:", ARRAYS),
    Mutant("a memoryview of counts knows nothing", COUNTS, "elif isinstance(values, (np.ndarray, memoryview)):", "elif isinstance(values, np.ndarray):", ARRAYS),
    Mutant("pickled counts know nothing", COUNTS, "(bounded, (_plain(self), found))", "(_plain, (_plain(self),))", ARRAYS),
    Mutant("what is computed from counts is taken for counts", COUNTS, "return _plain(found) if origin_of(found) is None else found", "return found", TESTS + "writes_into"),
    Mutant("counts can be written", COUNTS, "    made.flags.writeable = False\n", "", TESTS + "writes_into"),
    Mutant("a sum knows nothing", "dpfast/counts/records/fixed_point.py", "bounded_total(min(max(total, least), most), sensitivity)", "min(max(total, least), most)", TESTS + "a_sum_knows"),
    Mutant("a replaced field knows nothing", "dpfast/counts/records/bounded_histogram.py", "return cls(*iterable)", "return tuple.__new__(cls, iterable)", ARRAYS),
    Mutant("old pickles lose their terms", "dpfast/counts/records/bounded_histogram.py", 'self._rows.terms = state["terms"]', "pass", TESTS + "earlier_version"),
    Mutant("private keys are published as a term", "dpfast/counts/records/bounded_histogram.py", 'if self.sensitivity.keys == "public":', "if True:", TESTS + "how_counts_were_counted"),
    Mutant("an array of counts is sealed without its terms", "dpfast/noise/mechanisms/mechanism.py", "key = _keys().sealing(key, values)", "pass", TESTS + "sealed_as"),
    Mutant("a ledger seals counts without their terms", "dpfast/ledger/ledger.py", "release_key(sealing(key, values))", "release_key(key)", TESTS + "sealed_as"),
    Mutant("a tree is sealed without the terms of its counts", "dpfast/counts/trees/release.py", "release_key(sealing(payment.key, leaves))", "release_key(payment.key)", TESTS + "how_counts_were_counted"),
    Mutant("a threshold is sealed without the terms of its counts", "dpfast/counts/records/partitions.py", "release_key(sealing(key, counts))", "release_key(key)", TESTS + "how_counts_were_counted"),
]  # fmt: skip
