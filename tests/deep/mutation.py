# SPDX-License-Identifier: Apache-2.0
"""Would the tests notice? Lines on which privacy depends are spoilt one by one in a copy.

A mutant is killed if a test fails or hangs. Its old text must be there exactly once, so that the
list stays true to the code. Its tests must first pass on the code as it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from deep.record import ROOT, git

COVERS = ("dpfast", "csrc", "tests")
LONGEST = 300  # seconds of one build or run of tests; on a machine at rest none takes a tenth of it


class Mutant(NamedTuple):
    """What is spoilt, in words; file; text and replacement; the tests that must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    # --------------------------------------------------------- a release that fails leaves no count
    Mutant("a failed release keeps its counts", "dpfast/release/engine.py", "job.out.fill(0)  # one call", "pass  # one call",
           "test_real_arrays.py -k 'not_finite or finite or zero'"),
    Mutant("a failed small release keeps its counts", "csrc/small.h", "dpf_wipe(y->buf, y->len);", ";",
           "test_small.py -k before_python_finishes"),
    Mutant("C leaves the key of a small release in memory", "csrc/dispatch.c", "dpf_wipe(key, 32);", ";",
           "test_small.py -k wipes"),
    Mutant("an undecided draw leaves the key in the frame of a small release", "csrc/small.h", "dpf_wipe(key, sizeof key);", ";",
           "test_key_on_stack.py -k frame"),
    Mutant("the cipher leaves the key in vector registers", "csrc/chacha.h", "DPF_CLEAR;", ";",
           "test_key_on_stack.py -k word_of_a_key"),
    Mutant("values that are not finite are found too late", "dpfast/release/engine.py", "    if not finite:", "    if False:",
           "test_real_arrays.py -k finite"),
    Mutant("the last tier clamps noise, not the sum", "dpfast/release/engine.py",
           "min(max(value + exact(first + i), job.lower), job.upper)",
           "value + min(max(exact(first + i), job.lower), job.upper)", "test_saturation.py -k open_draws"),
    Mutant("a stream key outlives its release", "dpfast/mechanisms/mechanism.py",
           "constant_work, exact), threads)\n        finally:\n            stream.wipe()",
           "constant_work, exact), threads)\n        finally:\n            pass", "test_keys_are_wiped.py -k DiscreteLaplace"),
    Mutant("no key from the system is taken for a key", "dpfast/_native.py", "if _entropy(self._bytes, 32) != 0:",
           "if _entropy(self._bytes, 32) > 0:", "test_failure.py -k getrandom"),
    # ---------------------------------------------------------------- constant work, flags, numbers
    Mutant("small calls take the fast path", "dpfast/mechanisms/mechanism.py", "constant_work = constant_time or size < SMALL",
           "constant_work = constant_time", "test_constant_work.py -k 'table and i8'"),
    Mutant("4,095 counts are many", "csrc/dpf_abi.h", "DPF_SMALL = 4096", "DPF_SMALL = 4095", "test_constant_work.py -k 'table and i8'"),
    Mutant("a constructor finds what it kept for an equal number of another kind", "dpfast/mechanisms/equals.py",
           "and PLAIN.issuperset(map(id, map(type, (*given, *named.values()))))", "", "test_equals.py -k 'other_types or mind'"),
    Mutant("a discrete Laplace table is sure of every cell", "dpfast/exact/one_sided_geometric.py", "yield first, last",
           "yield 0, last - 1", "test_exact.py -k plans"),
    Mutant("whatever is true to Python is a flag", "dpfast/privacy/parameters.py", "isinstance(value, (bool, np.bool_))",
           "isinstance(value, object)", "test_parameters.py -k flag"),
    Mutant("a real release takes any constant_time", "dpfast/mechanisms/mechanism.py",
           'constant_time = flag("constant_time", constant_time)', "pass", "test_parameters.py -k flag"),
    Mutant("two_to is half", "dpfast/privacy/parameters.py", "exponent + 1023 << 52", "exponent + 1022 << 52",
           "test_parameters.py -k power_of_two"),
    Mutant("two_to is half below the normals", "dpfast/privacy/parameters.py", "1 << exponent + 1074", "1 << exponent + 1073",
           "test_parameters.py -k power_of_two"),
    Mutant("6 is a power of two", "dpfast/privacy/parameters.py", "exact.numerator & (exact.numerator - 1) or ", "",
           "test_parameters.py -k power_of_two"),
    Mutant("epsilon may be 0", "dpfast/privacy/parameters.py", "    if exact <= 0:", "    if exact < 0:", "test_parameters.py -k not_positive"),
    Mutant("a masked array is taken with what it hides", "dpfast/release/arrays.py", "isinstance(value, masked)", "False",
           "test_arrays.py -k masked_arrays"),
    Mutant("bounds beyond the type", "dpfast/release/arrays.py", "return max(low, least), min(high, most)", "return low, high",
           "test_saturation.py -k public_bounds"),
    # ---------------------------------------------------------------- trees
    Mutant("all levels of a tree have the leaves' sensitivity", "dpfast/privacy/sensitivity.py", "linf * min(l0, largest),", "linf,",
           "test_trees.py -k 'no_level_moves or small_worlds'"),
    Mutant("the shares of a tree's levels add up to more", "dpfast/trees/noise.py", "DiscreteLaplace(total * part / sum(parts), change)",
           "DiscreteLaplace(total * part, change)", "test_trees.py -k 'small_worlds or add_up_exactly'"),
    Mutant("a sum of leaves runs over", "dpfast/kernels/node_sums.py", "    if high > _LOW >> 1:", "    if False:", "test_trees.py -k saturate"),
    Mutant("the true counts of a tree outlive an error", "dpfast/trees/noise.py", "        nodes.fill(0)\n        raise", "        raise",
           "test_trees.py -k error_leaves"),
    Mutant("a level without noise keeps its true sums", "dpfast/trees/noise.py", "                    level.fill(0)", "                    pass",
           "test_trees.py -k keeps_no_sum"),
    Mutant("a sealed tree is charged for one level", "dpfast/release/seal.py",
           "return columns.guarantee if isinstance(columns, Levels) else compose(*columns.values())",
           "return next(iter(columns.values())).guarantee", "test_trees.py -k 'charged_once or one_release'"),
    # ---------------------------------------------------------------- keys
    Mutant("the stream key forgets the values", "dpfast/release/seal.py", "encode(column, block, digest)", "encode(column, block)",
           "test_sealed.py -k rewritten"),
    Mutant("the copy is not compared with the seal", "dpfast/release/seal.py", "not hmac.compare_digest(digest, self._digest(column, block))", "False",
           "test_sealed.py -k rewritten"),
    Mutant("the input is not compared with the one that is reserved", "dpfast/release/seal.py", "not hmac.compare_digest(seal.tag, tag)", "False",
           "test_sealed.py -k traded"),
    Mutant("a keyed release is drawn before it is reserved", "dpfast/release/seal.py", "        self._reserve(seal)\n", "",
           "test_sealed.py -k 'empty_input or second_turn'"),
    Mutant("a release key is pickled", "dpfast/release/key.py", "def __reduce__(self) -> str:", "def reduced(self) -> str:",
           "test_key.py -k no_key_pickles"),
    Mutant("what a key file's worker holds travels with its secret", "dpfast/release/key.py", "(protocol) if self._how is None else", "(protocol) if self else",
           "test_sealed.py -k path"),
    Mutant("this process forgets what it has sealed", "dpfast/release/seal.py", "_reserved[seal.key_id] = seal.manifest, seal.tag", "pass",
           "test_sealed.py -k second_turn"),
    Mutant("a ledger takes another input", "dpfast/ledger/ledger.py", "compare(seal, self._kept(found), found.tag, where=where, unlike=dearer)", "pass",
           "test_sealed.py -k 'every_refusal or two_drivers'"),
    Mutant("a ledger goes on unasked", "dpfast/ledger/ledger.py", "must_continue(label, where, resume=resume)", "pass",
           "test_sealed.py -k 'every_refusal or two_drivers'"),
    Mutant("a label may be met twice", "dpfast/release/seal.py", "if not resume:", "if False:", "test_sealed.py -k second_turn"),
    Mutant("names are not sealed", "dpfast/release/blocks.py", " if self.names else []", " if False else []", "test_sealed.py -k traded"),
    Mutant("-1 is the largest of 64 bits", "dpfast/release/names.py", '"unsigned" if unsigned else "integers"', '"integers"',
           "test_sealed.py -k minus_one"),
    Mutant("the digest forgets its block", "dpfast/release/seal.py", "blake3(encode(column, block)", "blake3(encode(column)", "test_sealed.py -k golden"),
    Mutant("the seal forgets the manifest", "dpfast/release/seal.py", "self._input = encode(about.encoded(), self._root)",
           "self._input = encode(self._root)", "test_sealed.py -k independent_noise"),
    Mutant("a lost block shrinks the release", "dpfast/release/seal.py", "if len(digests) < wanted:", "if False:", "test_sealed.py -k lost_doubled"),
    Mutant("a block may come twice", "dpfast/release/seal.py", "if len(found) < len(digests):", "if False:", "test_sealed.py -k lost_doubled"),
    Mutant("a block may have any size", "dpfast/release/seal.py", "each.rows != rows", "False", "test_sealed.py -k lost_doubled"),
    Mutant("digests of another label are taken", "dpfast/release/seal.py", "if each.key != key:", "if False:", "test_sealed.py -k another_labels"),
    Mutant("a worker takes any version", "dpfast/release/seal.py", "if (stream, version) !=", "if False and (stream, version) !=",
           "test_sealed.py -k another_key_or_version"),
    Mutant("a worker takes any key", "dpfast/release/key.py", "if key.id != key_id:", "if False:", "test_sealed.py -k another_key_or_version"),
    Mutant("the counts get noise under a key in place", "dpfast/mechanisms/mechanism.py",
           "if not (key is None or out is None or disjoint(np.asarray(values), out)):", "if False:",
           "test_sealed.py -k in_place"),
    Mutant("a copy that was kept is not wiped", "dpfast/release/blocks.py", "self.leave(self._kept)", "pass", "test_sealed.py -k wiped"),
    Mutant("a result that nobody gets is not wiped", "dpfast/release/blocks.py", "self._kept.fill(0)", "pass", "test_sealed.py -k wiped"),
    Mutant("a result of another's is trusted to keep the copies", "dpfast/mechanisms/mechanism.py", "unseen=out is None)", "unseen=True)",
           "test_sealed.py -k rewritten_between"),
    Mutant("copies of blocks are not wiped", "dpfast/release/blocks.py", "room.fill(0)", "pass", "test_sealed.py -k wiped"),
    Mutant("a forked child has the keys", "dpfast/release/key.py", "            secret._blank()  # noqa: SLF001", "            pass",
           "test_processes.py -k has_no_key"),
    Mutant("a fork resizes a key that is in use", "dpfast/release/key.py", "self._held[:] = bytes(len(self._held))", 'self._held[:] = b""',
           "test_processes.py -k has_no_key"),
    Mutant("a key file may be read by others", "dpfast/release/key.py", "if about.st_mode & 0o077:", "if False:", "test_key.py -k relied_on"),
    Mutant("a label is charged at the old price", "dpfast/ledger/ledger.py", 'if found.entry.parameters.get("cost") != record["cost"]:', "if False:",
           "test_ledger.py -k lower_price"),
    Mutant("a ledger takes another key", "dpfast/ledger/ledger.py", "if found.key.hex() != key:", "if False:",
           "test_ledger.py -k another_release_under"),
    Mutant("expressions of Polars take a key", "dpfast/adapters/polars.py", 'if options.get("key") is not None:', "if False:",
           "test_adapter_polars.py -k under_a_key"),
    Mutant("an index is not sealed", "dpfast/adapters/pandas.py", 'options["names"] = values.index', "pass", "test_adapter_pandas.py -k unasked"),
    Mutant("every label has one key", "dpfast/release/key.py", '"release key", encoded)', '"release key")', "test_key.py -k compare_and_hash"),
    # ---------------------------------------------------------------- keys that are private, too
    Mutant("the threshold is one too low", "dpfast/records/partitions.py", "noisy >= self.threshold", "noisy >= self.threshold - 1",
           "test_thresholded.py -k shown_follows"),
    Mutant("the least threshold is one too low", "dpfast/privacy/threshold.py", "max(1, 1 + unique_floor(", "max(1, unique_floor(",
           "test_thresholded.py -k threshold_is_the_least"),
    Mutant("keys that nobody has enter", "dpfast/records/partitions.py", "_sorted(names, values > 0)", "_sorted(names, values >= 0)",
           "test_thresholded.py -k keys_without_a_count"),
    Mutant("one key of all rows is taken for the worst", "dpfast/privacy/threshold.py",
           "{least, greatest, -(-least // step) * step, greatest // step * step}", "{greatest}",
           "test_thresholded.py -k least_for_rows_in_all"),
    Mutant("as many keys as there can be are taken for the worst", "dpfast/privacy/threshold.py",
           "{least, greatest, -(-least // step) * step, greatest // step * step}", "{least}",
           "test_thresholded.py -k least_for_rows_in_all"),
    Mutant("signed contributions do not cancel", "dpfast/records/partitions.py", " and not sensitivity.signed", "",
           "test_thresholded.py -k not_doubled"),
    Mutant("the least threshold beside Gaussian noise is one too low", "dpfast/privacy/gaussian_threshold.py",
           "True, key=enough) + low", "True, key=enough) + low - 1", "test_thresholded.py -k thresholds_of_gaussian"),
    Mutant("new keys leave as many to be moved", "dpfast/privacy/gaussian_threshold.py", "*changed.without(new)", "*changed.without(0)",
           "test_thresholded.py -k thresholds_of_gaussian"),
    Mutant("a pre-threshold leaves the threshold where it was", "dpfast/records/partitions.py", "self._least + self.pre_threshold - 1",
           "self._least", "test_thresholded.py -k pre_threshold"),
    Mutant("private keys are not sealed", "dpfast/records/partitions.py", "Names.of_bytes([runs[i] for i in part.tolist()])", "None",
           "test_thresholded.py -k sealed_with_their_counts"),
    Mutant("5 is the key that '5' is", "dpfast/records/partitions.py", "encode(str(_kind(name)), body)", "encode(body)",
           "test_thresholded.py -k 'canonical and nearly'"),
    Mutant("private keys are read before the price", "dpfast/records/partitions.py", "ledger.expect(under, law, resume=resume)", "pass",
           "test_thresholded.py -k price_is_known"),
    Mutant("thresholded draws unpaid", "dpfast/records/partitions.py", "if ledger is None else ledger.reserve(seal, resume=resume)", "",
           "test_thresholded.py -k another_process"),
    Mutant("a digest shows how many keys a bucket has", "dpfast/release/seal.py",
           'def __repr__(self) -> str:\n        """Without the digest', 'def hidden(self) -> str:\n        """Without the digest',
           "test_thresholded.py -k shows_nowhere"),
    Mutant("no refused value is on record", "dpfast/ledger/ledger.py",
           "self._store.refuse(charge._replace(record=record), unpaid=unpaid)", "pass",
           "test_thresholded.py -k are_recorded"),
    Mutant("a unit has rows beyond the cap", "dpfast/kernels/bounded_histogram.py", "min(np.int64(cap), many[i])", "many[i]",
           "test_bounded_histogram.py -k equal_to_the_reference"),
    Mutant("a unit of few keys keeps other keys", "dpfast/kernels/bounded_histogram.py", "1 if tags[j] < tag", "1 if tags[j] > tag",
           "test_bounded_histogram.py -k equal_to_the_reference"),
    Mutant("equal tags break the bound", "dpfast/kernels/bounded_histogram.py", "if kept > most:", "if found > FEW:",
           "test_bounded_histogram.py -k equal_tags"),
    Mutant("a unit's first rows are kept", "dpfast/kernels/bounded_histogram.py", "elif tag < heap[0]:", "elif False:",
           "test_bounded_histogram.py -k 'few_bins_and_of_many'"),
    Mutant("a mechanism for less releases counts", "dpfast/privacy/sensitivity.py", "figure is not None and figure < least", "False",
           "test_bounded_histogram.py -k made_for_less"),
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
    Mutant("rows in all square to less", "dpfast/privacy/sensitivity.py", "*([Cells(1, rest)] if rest else [])", "*()",
           "test_sensitivity.py -k norms_together"),
    Mutant("a worse change passes for a covered one", "dpfast/privacy/sensitivity.py", "-(-cells // (worst.linf // most)) <= worst.l0",
           "True", "test_sensitivity.py -k worst_change"),
    # ---------------------------------------------------------------- one answer
    Mutant("the sparse vector's answers get half their noise", "dpfast/mechanisms/above_threshold.py", "self.epsilon / 4",
           "self.epsilon / 2", "test_above_threshold.py -k scales"),
    Mutant("an answer at the threshold is below", "dpfast/mechanisms/above_threshold.py", "+ next(noise) >= least",
           "+ next(noise) > least", "test_above_threshold.py"),
    Mutant("nominations have no margin for the logarithm", "dpfast/kernels/nominate.py", "_MARGIN = 2.0**-30", "_MARGIN = 2.0**-50",
           "test_selection.py -k doubles_err"),
    Mutant("nominations have too little margin for the digits", "dpfast/kernels/nominate.py", "off = 0.5 / np", "off = 0.05 / np",
           "test_selection.py -k nominat"),
    Mutant("a selection leaves its noise in memory", "dpfast/mechanisms/selection.py",
           "            stream.wipe()\n            noise.fill(0)", "            stream.wipe()", "test_selection.py -k nothing_private_is_left"),
    Mutant("k picks in one shot cost a rho of k single ones", "dpfast/mechanisms/selection.py",
           "return rho_of_epsilon(k * self.epsilon)", "return k * rho_of_epsilon(self.epsilon)",
           "test_selection.py -k price_of_k"),
    Mutant("the leader's place is taken for that of the last of k", "dpfast/mechanisms/selection.py", "leaders = np.full(k, -np.inf)",
           "leaders = np.full(1, -np.inf)", "test_selection.py -k put_in_order"),
    Mutant("an interval forgets that two noises may miss", "dpfast/postprocess.py", "1 - miss / len(released)", "1 - 40 * miss / 41",
           "test_postprocess.py -k within_its_own"),
    Mutant("a ratio is taken to grow with its rows", "dpfast/postprocess.py", "np.where(total.lower >= 0, many, few)", "few",
           "test_postprocess.py -k within_its_own"),
    Mutant("sums keep rows of their own", "dpfast/jobs/verbs.py", "chooser or secret.chooser()", "secret.chooser()", "test_jobs.py -k two_outputs"),
    Mutant("every score is taken for monotonic", "dpfast/mechanisms/selection.py", "(1 if self.monotonic else 2)", "1",
           "test_selection.py -k winners_follow"),
    Mutant("the truth is told a little too often", "dpfast/mechanisms/randomized_response.py",
           "np.array([e + (self.categories - 1)]), np.array([e])",
           "np.array([e + (self.categories - 1)]), np.array([e * (1 + 2.0**-30)])", "test_randomized_response.py -k planted_words"),
    Mutant("two coins protect the yes alone", "dpfast/privacy/two_coins.py",
           "max((2 - p) / (1 - p), (1 - p + p * p) / (1 - p) ** 2)", "(2 - p) / (1 - p)", "test_randomized_response.py -k loss_of_the_coins"),
    # ---------------------------------------------------------------- what is promised
    Mutant("substitution is not doubled", "dpfast/privacy/sensitivity.py", "for cells in (up, down):", "for cells in (up,):",
           "test_sensitivity.py -k contributed"),
    Mutant("few cells are filled on one side", "dpfast/privacy/sensitivity.py", "self.cells // 2", "self.cells // 3",
           "test_sensitivity.py -k few_cells"),
    Mutant("an array of more cells is released", "dpfast/mechanisms/mechanism.py", "if most is not None and size > most:", "if False:",
           "test_sensitivity.py -k more_cells"),
    Mutant("signed substitution is not doubled twice", "dpfast/privacy/sensitivity.py", "2 * linf, 2 * total",
           "2 * linf, total", "test_sensitivity.py -k contributed"),
    Mutant("a negative lower bound changes nothing", "dpfast/records/fixed_point.py", "records * max(abs(steps.lower), abs(steps.upper))",
           "records * abs(steps.upper)", "test_fixed_point_sum.py -k neighbours"),
    Mutant("delta is rounded down", "dpfast/exact/balls.py", "return near if near >= exact else math.nextafter(near, math.inf)",
           "return near", "test_gaussian_privacy.py -k convolution_rounded_up"),
    Mutant("a household costs twice, not four times the rho", "dpfast/privacy/guarantee.py", "k**2 * self.rho", "k * self.rho",
           "test_composition.py -k groups_in_a_chain"),
    Mutant("one of several cells is counted", "dpfast/privacy/laplace.py", "cells.l0 * _mean_loss(", "1 * _mean_loss(",
           "test_accounting_units.py -k three_cells"),
    Mutant("the delta of a rho is free", "dpfast/privacy/guarantee.py", "(wanted - self.rho_delta, delta)", "(wanted, delta)",
           "test_composition.py -k delta_of_rho"),
    Mutant("a unit that arrives costs what a replaced one does", "dpfast/mechanisms/pure.py", "Guarantee(added.l1 / self._scale,", "Guarantee(self.epsilon,",
           "test_composition.py -k halves"),
    Mutant("every selection has a bounded range", "dpfast/mechanisms/selection.py", "return rho_of_epsilon(k * self.epsilon)", "return k * self.epsilon**2 / 8",
           "test_accounting_units.py -k rho_of_a_selection"),
    Mutant("a unit that changes parts costs one of them", "dpfast/privacy/composition.py", "largest.group(2)", "largest.group(1)",
           "test_composition.py -k parallel_of_add_remove"),
    Mutant("deltas are lost in an advanced sum", "dpfast/privacy/composition.py", "sum(n * ball(-delta).log1p() for delta, n",
           "sum(0 * ball(-delta).log1p() for delta, n", "test_composition.py -k deltas_of_their_own"),
    # ---------------------------------------------------------------- charges
    Mutant("long sums of charges are rounded down", "dpfast/ledger/store.py", "-(-amount.numerator * 2**FINEST // amount.denominator)",
           "amount.numerator * 2**FINEST // amount.denominator", "test_ledger.py -k long_fractions"),
    Mutant("a budget may be passed once", "dpfast/ledger/store.py",
           "            raise self._exhausted(before.spent, total)\n        return State", "            pass\n        return State",
           "test_ledger.py -k beyond_the_budget"),
    Mutant("a release without a key is not charged", "dpfast/ledger/ledger.py", "partial(self._store.charge, [charge]), **options",
           "lambda: None, **options", "test_ledger.py -k release_is_charged"),
    # ---------------------------------------------------------------- C: the copy is built anew
    Mutant("dpf_wipe wipes nothing", "csrc/entropy.c", "    memset(at, 0, (size_t)n);\n", "", "test_random_bytes.py -k half_way"),
    Mutant("a short read of the system's numbers is a whole one", "csrc/entropy.c", "        out += got;\n        n -= (size_t)got;",
           "        return 0;", "test_failure.py -k getrandom"),
    Mutant("a forked child inherits the bits", "csrc/entropy.c", "(void)madvise(page, sizeof(dpf_bits), MADV_WIPEONFORK);",
           "(void)page;", "test_bit_generator.py -k never_repeats"),
    Mutant("a small call leaves lines of its tables cold", "csrc/draw.h", "    read_tables(tier, law->box_muller);\n", "",
           "test_timing.py -k cold_line"),
    Mutant("scattered draws share blocks", "csrc/stream.h", "draw[b] / 128 * DPF_LANES", "draw[b] / 256 * DPF_LANES",
           "test_stream.py test_exact.py"),
    Mutant("the width of a cell is dropped", "csrc/decide.h", "*decided = error_margin * weight > plan->half_cell;",
           "*decided = error_margin * weight > 0;", "test_bounds.py -k decided"),
    Mutant("a margin is 1e-9 too small", "csrc/decide.h", "*decided = error_margin * weight > plan->half_cell;",
           "*decided = (error_margin + 1e-9) * weight > plan->half_cell;", "test_bounds.py -k decided"),
    Mutant("floats have no margin for the logarithm", "csrc/discrete_gaussian.h", "-(float)plan->normal.float_log_error", "0.0f",
           "test_discrete_gaussian.py -k floats"),
    Mutant("32-bit words have no margin", "csrc/decide.h", "(plan->margin32 - __builtin_fabs(g)) * weight",
           "(0.5 - __builtin_fabs(g)) * weight", "test_bounds.py -k decided"),
]  # fmt: skip

# To show that the check can tell: a comment, which no test may notice.
HARMLESS = Mutant("nothing", "dpfast/privacy/parameters.py", "found = int(value)\n", "found = int(value)  # as it is\n",
                  "test_parameters.py -k power_of_two")  # fmt: skip


def check(*, cheap: bool) -> dict[str, object]:
    """Raises AssertionError where a mutant survives. Counts mutants and those killed."""
    mutants = [mutant for mutant in MUTANTS if mutant.name == "6 is a power of two"] if cheap else MUTANTS
    stale = [mutant.name for mutant in [*MUTANTS, HARMLESS] if (ROOT / mutant.file).read_text().count(mutant.old) != 1]
    assert not stale, f"their old text is not there once: {', '.join(stale)}"
    with _scratch() as copy:
        for tests in dict.fromkeys(mutant.tests for mutant in mutants):
            assert _passes(copy, tests), f"on clean code these fail: {tests}"
        assert _survives(copy, HARMLESS), "an edit that changes nothing was called a mutant"
        survivors = [mutant.name for mutant in mutants if _survives(copy, mutant)]
    figures = {"mutants": len(mutants), "killed": len(mutants) - len(survivors), "survivors": survivors}
    assert not survivors, f"no test notices: {', '.join(survivors)}"
    return figures


@contextmanager
def _scratch() -> Iterator[Path]:
    """A copy of git's files, with the extension built in place and numba's cached kernels."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        built = [*ROOT.glob("dpfast/*.so"), *ROOT.glob("dpfast/kernels/__pycache__/*.nb*")]
        for path in [*(ROOT / name for name in git("ls-files").splitlines()), *built]:
            if path.is_file():
                to = copy / path.relative_to(ROOT)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
        yield copy


def _survives(copy: Path, mutant: Mutant) -> bool:
    path = copy / mutant.file
    clean, extensions = path.read_text(), {so: so.read_bytes() for so in copy.glob("dpfast/*.so")}
    path.write_text(clean.replace(mutant.old, mutant.new))
    try:
        if mutant.file.startswith("csrc/"):
            _run(copy, "setup.py", "build_ext", "--inplace", "--force")
        return _passes(copy, mutant.tests)
    finally:
        path.write_text(clean)
        for so, content in extensions.items():
            so.write_bytes(content)


def _passes(copy: Path, tests: str) -> bool:
    """Whether the tests pass; a hang is a failure, and any other end is an error of this list."""
    files = [f"tests/{word}" if word.endswith(".py") else word for word in shlex.split(tests)]
    try:
        ended = _run(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files)
    except subprocess.TimeoutExpired:
        return False
    assert ended.returncode in (0, 1), f"{tests}: {ended.stdout[-1500:]}{ended.stderr[-500:]}"
    return ended.returncode == 0


def _run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip
    assert command[0] != "setup.py" or ended.returncode == 0, f"the C does not build: {ended.stderr[-1500:]}"
    return ended
