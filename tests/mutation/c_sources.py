# SPDX-License-Identifier: Apache-2.0
"""The C sources: each mutant is built."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("a failed small release keeps its counts", "csrc/small.h", "dpf_wipe(y->buf, y->len);", ";",
           "test_small.py -k before_python_finishes"),
    Mutant("C leaves the key of a small release in memory", "csrc/dispatch.c", "dpf_wipe(key, 32);", ";",
           "test_small.py -k wipes"),
    Mutant("an undecided draw leaves the key in the frame of a small release", "csrc/small.h", "dpf_wipe(key, sizeof key);", ";",
           "test_key_on_stack.py -k frame"),
    Mutant("the cipher leaves the key in vector registers", "csrc/chacha.h", "DPF_CLEAR;", ";",
           "test_key_on_stack.py -k word_of_a_key"),
    Mutant("4,095 counts are many", "csrc/dpf_abi.h", "DPF_SMALL = 4096", "DPF_SMALL = 4095", "test_constant_work.py -k 'table and i8'"),
    Mutant("dpf_wipe wipes nothing", "csrc/entropy.c", "    memset(at, 0, (size_t)n);\n", "", "test_random_bytes.py -k half_way"),
    Mutant("a short read of the system's numbers is a whole one", "csrc/entropy.c", "        out += got;\n        n -= (size_t)got;",
           "        return 0;", "test_failure.py -k getrandom"),
    Mutant("a forked child inherits the bits", "csrc/entropy.c", "(void)madvise(page, sizeof(dpf_bits), MADV_WIPEONFORK);",
           "(void)page;", "test_bit_generator.py -k never_repeats"),
    Mutant("a small call leaves lines of its tables cold", "csrc/draw.h", "    read_tables(tier, law->box_muller);\n", "",
           "test_timing.py -k cold_line -m timing"),
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
    Mutant("acceptance reads the digits of the proposal", "csrc/draw.h", "batch_words(key, accept_nonce(candidate, 0), batch, words);", "batch_words(key, noise_nonce(candidate, 0), batch, words);",
           "test_discrete_gaussian.py test_laws.py -k 'rejected_proposals or stream_maps'"),
    Mutant("a sum that leaves int64 wraps around", "csrc/sum.h", "const int64_t left = ((total ^ x) & (total ^ noise)) >> 63;", "const int64_t left = 0 * noise;",
           "test_saturation.py -k 'exact_sum or narrow_sum'"),
    Mutant("an undecided count lies open in a large result", "csrc/refine.h", "                batch->sums[i] = 0;\n", "",
           "test_no_raw_store.py test_saturation.py -k 'open_cell or no_cell'"),
    Mutant("a number that was drawn stays in memory", "csrc/bit_generator.c", "        *at = 0;                                                                                                       \\\n", "                                                                                                                       \\\n",
           "test_bit_generator.py -k earlier_number"),
    Mutant("a build that answers wrongly draws", "csrc/self_check.c", "    return row->what;\n", "    return 0;\n",
           "test_self_check.py -k 'changed_answer or does_not_know'"),
    Mutant("integers have no margin", "csrc/laplace.h", "error = scaled_log_error + 2;", "error = 0;",
           "test_bounds.py test_laplace.py -k 'worst_case or tiers_agree or decided'"),
    Mutant("half a key is left where the system fails", "csrc/entropy.c", "    if (status != 0)\n        dpf_wipe(out, n);\n", "",
           "test_failure.py -k half_a_key"),
]  # fmt: skip
