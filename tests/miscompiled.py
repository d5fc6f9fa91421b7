# SPDX-License-Identifier: Apache-2.0
"""Lines of C, each spoilt as a compiler might spoil it; which builds the self-check alone finds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from places import ROOT

CSRC = ROOT / "csrc"
COMMON = "dispatch", "chacha", "cpu", "entropy", "exact", "plan", "self_check"
FLAGS = "-std=c11", "-O0", "-g0", "-w", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"
LONGEST = 300  # seconds of one compilation or check


class Spoilt(NamedTuple):
    """What is spoilt, in words; file; text and replacement; the builds in which it is compiled."""

    name: str
    file: str
    old: str
    new: str
    builds: str = "with fma and without"


FUSED, PLAIN, CELLS, SERIES = "with fma", "without fma", "for AVX-512", "but for AVX-512"

SPOILT = [
    # the cipher and its addresses
    Spoilt("the upper half of a counter is dropped", "chacha.h", "(uint32_t)(counter[base + set * L + lane] >> 32)", "0"),
    Spoilt("the key is not added at the end", "chacha.h", "(i == 12 || i == 13 ? count[set][i - 12] : start[i])", "(i < 12 && i > 3 ? (vector){0} : i == 12 || i == 13 ? count[set][i - 12] : start[i])"),
    Spoilt("a round is left out", "chacha.h", "round < 10; round++, ", "round < 9; round++, "),
    Spoilt("few: a round is left out", "chacha.h", "round < 10; round++)  ", "round < 9; round++)  "),
    Spoilt("a key stream repeats its first batch", "dispatch.c", "n > 0; batch++, out", "n > 0; out"),
    Spoilt("the end of a key stream is zeros", "dispatch.c", "            memcpy(out, words, (size_t)n);\n", "            memset(out, 0, (size_t)n);\n"),
    Spoilt("blocks of all batches are those of the first", "stream.h", "counter[b] = batch * DPF_BATCH + (uint64_t)b;", "counter[b] = batch / 4 * DPF_BATCH + (uint64_t)b;"),
    Spoilt("32-bit words are two places on", "stream.h", "digits[s] = words[s];", "digits[s] = words[s ^ 2];"),
    Spoilt("64-bit words have their halves exchanged", "stream.h", "low[0] = words[2 * s + l], low[1] = words[2 * s + DPF_LANES + l]", "low[1] = words[2 * s + l], low[0] = words[2 * s + DPF_LANES + l]"),
    Spoilt("scattered draws read a neighbour's slot", "stream.h", "draw[b] % 128 / DPF_LANES * 2 * DPF_LANES", "(draw[b] % 128 / DPF_LANES ^ 1) * 2 * DPF_LANES"),
    Spoilt("scattered draws are of the group before", "stream.h", "draw[b] / 128 * DPF_LANES", "draw[b] / 256 * DPF_LANES"),
    Spoilt("acceptance reads the words of noise", "refine.h", "dpf_nonce(DPF_PURPOSE_ACCEPT, candidate, level)", "dpf_nonce(DPF_PURPOSE_NOISE, candidate, level)"),
    Spoilt("a nonce forgets the candidate", "dpf_impl.h", "purpose << 56 | candidate << 24 | level", "purpose << 56 | level"),
    Spoilt("a nonce forgets the level", "dpf_impl.h", "purpose << 56 | candidate << 24 | level", "purpose << 56 | candidate << 24"),
    # doubles
    Spoilt("a logarithm drops its last bits", "decide.h", "(shifted & 0x000fffffffffffff) + dpf_split", "(shifted & 0x000ffffffffffff8) + dpf_split"),
    Spoilt("ln 2 has one bit more", "approximations.h", "dpf_one_ln2 = 0x1.62e42fefa39efp-1", "dpf_one_ln2 = 0x1.62e42fefa39fep-1"),
    Spoilt("a short logarithm is moved by 2^-40", "decide.h", "digits * dpf_one_ln2 + dpf_short_log", "digits * dpf_one_ln2 + (dpf_short_log + 0x1p-40)", SERIES),
    Spoilt("a short logarithm counts fewer digits of m", "decide.h", "0x40a0000000000000 | bits >> 11", "0x40a0000000000000 | (bits >> 11 & ~(uint64_t)0x3fff)", SERIES),
    Spoilt("cells: of m's digits those that find its cell are one place on", "decide.h", "(dpf_patterns)x >> 48;", "(dpf_patterns)x >> 49;", CELLS),
    Spoilt("cells: one c has one bit more", "approximations.h", "0x1.5cap-1", "0x1.5cbp-1", CELLS),
    Spoilt("cells: one c's logarithm is moved by 2^-46", "approximations.h", "-0x1.39240dde5ce92p-1", "-0x1.39240dde5d092p-1", CELLS),
    Spoilt("cells: the last coefficient", "approximations.h", "0x1.fffffffffffe7p-1", "0x1.fffffffffdfe7p-1", CELLS),
    Spoilt("cells: the last coefficient, to fewer digits", "approximations.h", "0x1.0000000011d4bp0", "0x1.0000000111d4bp0", CELLS),
    Spoilt("cells: no 1 is taken from c m", "decide.h", "-1.0 - (dpf_doubles){0}", "(0x1p-47 - 1.0) - (dpf_doubles){0}", CELLS),
    Spoilt("cells: draws behind whole vectors have none", "exponential.h", "for (int i = minus_logs_by_cells(n, digits, 0, x, e); i < n; i++)", "for (int i = minus_logs_by_cells(n, digits, 0, x, e); i < n / 8 * 8; i++)", CELLS),
    Spoilt("cells: words of 32 bits have no digits", "decide.h", "DPF_FUSED(of, one_ln2, log_c[half])", "log_c[half]", CELLS),
    Spoilt("the middle of a 32-bit cell is its end", "decide.h", "double_of(0x4330000000000000 | a) - (0x1p52 - 0.5)", "double_of(0x4330000000000000 | a) - 0x1p52", SERIES),
    Spoilt("the middle of a 32-bit cell is its end, by a conversion", "decide.h", "(double)(uint32_t)a + 0.5", "(double)(uint32_t)a", CELLS),
    Spoilt("nearest has no margin but for the constant", "decide.h", " - plan->relative_error * __builtin_fabs(y) - angle_error", " - angle_error"),
    Spoilt("nearest has half the relative margin", "decide.h", "plan->relative_error * __builtin_fabs(y)", "0.5 * plan->relative_error * __builtin_fabs(y)"),
    Spoilt("nearest forgets the angle's error", "decide.h", " - plan->relative_error * __builtin_fabs(y) - angle_error", " - plan->relative_error * __builtin_fabs(y)"),
    Spoilt("nearest has no cell", "decide.h", "error_margin * weight > plan->half_cell", "error_margin * weight > 0.0"),
    Spoilt("nearest has no constant margin", "decide.h", "        plan->margin - __builtin_fabs(g)", "        0.5 - __builtin_fabs(g)"),
    Spoilt("32-bit words have no margin", "decide.h", "plan->margin32 - less", "0.5 - less"),
    Spoilt("32-bit words have half a cell too little", "decide.h", "room * weight > plan->half_cell", "room * weight > 0.9 * plan->half_cell"),
    Spoilt("a sign is turned for the other word", "decide.h", "bits_of(x) ^ (word & 0x8000000000000000)", "bits_of(x) ^ (word << 1 & 0x8000000000000000)"),
    Spoilt("a decided double is no integer", "refine.h", "cells[i] = integer_of(double_of((uint64_t)cells[i]) + DPF_TO_INTEGER);", "cells[i] = (int64_t)cells[i];"),
    Spoilt("a short logarithm's last coefficient", "approximations.h", "-0x1.f27eff8f6762ap2", "-0x1.f27eff8e6762ap2", SERIES),
    Spoilt("a logarithm's second coefficient", "approximations.h", "    sum = fused(sum, z, 0x1.5555555555558p-1);\n    sum = fused(sum, z, 2.0);", "    sum = fused(sum, z, 0x1.5555555555758p-1);\n    sum = fused(sum, z, 2.0);"),
    Spoilt("a sine's last coefficient", "approximations.h", "    sum = fused(sum, w, 0x1.921fb54442d18p-1);\n", "    sum = fused(sum, w, 0x1.921fb54442d98p-1);\n"),
    Spoilt("a cosine's second coefficient", "approximations.h", "-0x1.3bd3cc9be459dp-2", "-0x1.3bd3cc9be559dp-2"),
    Spoilt("a short sine's last coefficient", "approximations.h", "0x1.921fb5443af5fp-30", "0x1.921fb5463af5fp-30"),
    Spoilt("a short cosine's last coefficient", "approximations.h", "0x1.ffffffff97c47p-1", "0x1.fffffffd97c47p-1"),
    # floats
    Spoilt("the logarithm in floats drops its last bit", "decide.h", "float_of(0x3f800000 | (bits & 0x007fffff)) - 1.5f", "float_of(0x3f800000 | (bits & 0x007ffffe)) - 1.5f", FUSED),
    Spoilt("ln 2 in floats has one bit more", "approximations.h", "dpf_float_ln2 = 0x1.62e43p-1f", "dpf_float_ln2 = 0x1.62e432p-1f", FUSED),
    Spoilt("floats' last coefficient of the logarithm", "approximations.h", "-0x1.9f323ep-2f", "-0x1.9f3242p-2f", FUSED),
    Spoilt("floats' sine", "approximations.h", "0x1.921fb4p-1f", "0x1.921fb6p-1f", FUSED),
    Spoilt("floats' cosine", "approximations.h", "-0x1.3bd3ccp-2f", "-0x1.3bd3d0p-2f", FUSED),
    Spoilt("Laplace floats have no error for each unit of noise", "discrete_laplace.h", "__builtin_fmaf(-(float)plan->float_error, z, (float)plan->float_margin)", "(float)plan->float_margin", FUSED),
    Spoilt("Laplace floats have no error of the scale", "discrete_laplace.h", "z, (float)plan->float_margin)", "z, 0.5f)", FUSED),
    Spoilt("Laplace floats have half a cell", "discrete_laplace.h", "2.0f * (float)plan->half_cell", "(float)plan->half_cell", FUSED),
    Spoilt("Laplace floats read a digit fewer", "discrete_laplace.h", "(float)(int32_t)(word & 0x7fffffff)", "(float)(int32_t)(word & 0x7ffffffe)", FUSED),
    Spoilt("Gaussian floats have no error of the logarithm", "discrete_gaussian.h", "-(float)plan->normal.float_log_error", "0.0f", FUSED),
    Spoilt("Gaussian floats have no error of the radius", "discrete_gaussian.h", "__builtin_fmaf(-(float)plan->float_error, tr, (float)plan->float_margin)", "(float)plan->float_margin", FUSED),
    Spoilt("Gaussian floats have no cell", "discrete_gaussian.h", "__builtin_fmaf(left, x, -cell)", "left * x", FUSED),
    Spoilt("Gaussian floats decide beside 1", "discrete_gaussian.h", "a < DPF_FLOAT_MOST ?", "a < INT32_MAX ?", FUSED),
    Spoilt("Gaussian floats exchange no sine", "discrete_gaussian.h", "(0 - (angle >> 29 & 1))", "(0 - (angle >> 28 & 1))", FUSED),
    # the extended tier
    Spoilt("extended: what a middle loses", "normal.h", "    *rest = below - (x - above);", "    *rest = 0.0;"),
    Spoilt("extended: what F loses", "extended.h", "const double f_low = rest * double_of(0x7fe0000000000000 - exponent);", "const double f_low = 0.0 * rest;"),
    Spoilt("extended: what 2 + F loses", "extended.h", "d_low = (f - (d - 2.0)) + f_low", "d_low = f_low"),
    Spoilt("extended: what the quotient loses", "extended.h", "fused(s, d_low, product_less(s, d, f) - f_low) * inverse", "fused(s, d_low, -f_low) * inverse"),
    Spoilt("extended: the slope of artanh", "extended.h", "-2.0 * fused(z, over, over)", "-2.0 * over"),
    Spoilt("extended: ln 2's lower part", "extended.h", "fused(count, -dpf_ln2_low, -2.0", "fused(count, 0.0, -2.0"),
    Spoilt("extended: what a sum loses", "extended.h", "((known - sum) - twice) - fused", "0.0 - fused"),
    Spoilt("extended: the lower part of R", "extended.h", "*r_low = (twice_low - product_less(root, root, twice)) / (root + root);", "*r_low = 0.0 * twice_low;"),
    Spoilt("extended: the rest of the angle in a sine", "extended.h", "fused(turn, cosine, product_less", "fused(0.0 * turn, cosine, product_less"),
    Spoilt("extended: the rest of the angle in a cosine", "extended.h", "fused(-turn, sine, product_less", "fused(turn, sine, product_less"),
    Spoilt("extended: pi/4's lower part", "extended.h", "sine_rest_polynomial(w), dpf_eighth[1])", "sine_rest_polynomial(w), 0.0)"),
    Spoilt("extended: what v^2 loses", "extended.h", "fused(w, dpf_curve[1], w_low * dpf_curve[0])", "w * dpf_curve[1]"),
    Spoilt("extended Laplace: the scale's lower part", "laplace.h", "fused(low, plan->t, plan->t_low * high)", "low * plan->t"),
    Spoilt("extended Laplace: no cell", "laplace.h", "room * x > plan->half_cell", "room * x > 0.0"),
    Spoilt("extended Laplace: no margin", "laplace.h", "room = plan->extended_margin - __builtin_fabs", "room = 0.5 - __builtin_fabs"),
    Spoilt("extended Gaussian: the scale's lower part", "gaussian.h", "fused(p.t, r_low, p.t_low * r)", "p.t * r_low"),
    Spoilt("extended Gaussian: what t R loses", "gaussian.h", "s.tr_low[i] = product_less(p.t, r, tr) + fused", "s.tr_low[i] = fused"),
    Spoilt("extended Gaussian: the side's lower part", "gaussian.h", "fused(tr, side_low, s.tr_low[i] * (side + side_low))", "s.tr_low[i] * (side + side_low)"),
    Spoilt("extended Gaussian: the product with t R's lower part", "gaussian.h", "fused(tr, side_low, s.tr_low[i] * (side + side_low))", "tr * side_low"),
    Spoilt("extended Gaussian: it decides beside U = 1", "gaussian.h", "r > 0x1p-20 ? (x - 0.5) * tr : 0.0", "(x - 0.5) * tr"),
    Spoilt("extended Gaussian: no error for each unit of the radius", "gaussian.h", "(p.extended_margin - p.normal.extended_error * tr)", "p.extended_margin"),
    Spoilt("extended Gaussian: no cell", "gaussian.h", "room * s.weight[i] > p.half_cell", "room * s.weight[i] > 0.0"),
    Spoilt("extended Gaussian: whole pairs have one sign", "gaussian.h", "const uint64_t is_sine = (second ^ flags) & 1, negative = flags >> (2 - second) & 1;", "const uint64_t is_sine = (second ^ flags) & 1, negative = flags >> (2 - (second & !both)) & 1;"),
    # double-double
    Spoilt("double-double: no carry", "wide.h", "(uint64_t)(below >> 63) + carry", "(uint64_t)(below >> 63)"),
    Spoilt("double-double: the later digits", "wide.h", "__builtin_fma(tail * unit, row->c,", "__builtin_fma(0.0 * unit, row->c,", FUSED),
    Spoilt("double-double: what a product loses", "wide.h", "__builtin_fma(m, row->c, -product)", "0.0", FUSED),
    Spoilt("double-double: what r loses in its square", "wide.h", "__builtin_fma(r, r, -square) + 2.0 * r * r_low", "__builtin_fma(r, r, -square)", FUSED),
    Spoilt("double-double: what a square loses", "wide.h", "__builtin_fma(r, r, -square) + 2.0", "2.0", FUSED),
    Spoilt("double-double: a logarithm's lower part", "wide.h", "row->log_low + c_low", "c_low", FUSED),
    Spoilt("double-double: ln 2's lower part", "wide.h", "__builtin_fma(count, dpf_ln2_low, row->log_low", "(row->log_low", FUSED),
    Spoilt("double-double: the lower part of C", "wide.h", "row->log_low + c_low", "row->log_low", FUSED),
    Spoilt("double-double: half a square's lower part", "wide.h", "(0.5 * square_low - r_low)", "(-r_low)", FUSED),
    Spoilt("double-double: what a sum loses", "wide.h", "small = (low1 + low2) +", "small = low1 +", FUSED),
    Spoilt("double-double: the last coefficient", "approximations.h", "    sum = __builtin_fma(sum, r, 0x1.5555555555555p-2);", "    sum = __builtin_fma(sum, r, 0x1.5555555565555p-2);", FUSED),
    Spoilt("double-double: the scale's lower part", "exponential.h", "__builtin_fma(plan->t, low, plan->t_low * high)", "plan->t * low", FUSED),
    Spoilt("double-double: what t times the logarithm loses", "exponential.h", "*rest = __builtin_fma(plan->t, high, -*product) +", "*rest =", FUSED),
    Spoilt("double-double: one reciprocal's logarithm has another sign", "wide_log.h", "{0x1.5d867c3ece2a5p-1, -0x1.86e919a330c00p-2, 0x1.7d700c9d20290p-48}", "{0x1.5d867c3ece2a5p-1, -0x1.86e919a330c00p-2, -0x1.7d700c9d20290p-48}", FUSED),
    Spoilt("double-double Laplace: no margin", "laplace.h", "(__builtin_fabs(off) < plan->double_double_margin) & (u", "(__builtin_fabs(off) < 0.5) & (u", FUSED),
    Spoilt("double-double Laplace: the least U", "laplace.h", "plan->double_double_margin) & (u >> 32 != 0)", "plan->double_double_margin)", FUSED),
    Spoilt("double-double: the integer law has no margin", "discrete_laplace.h", "(__builtin_fabs(off) < plan->double_double_margin) & (u", "(__builtin_fabs(off) < 0.5) & (u", FUSED),
    Spoilt("double-double: the integer law at the least U", "discrete_laplace.h", "plan->double_double_margin) & (u >> 32 != 0)", "plan->double_double_margin)", FUSED),
    Spoilt("double-double: zero's upper limb is negative", "discrete_laplace.h", "(negative & (signed_low == 0))", "0", FUSED),
    Spoilt("double-double, no fma: the lower part of the logarithm", "wide.h", "c_low + to_double((uint32_t)(rest >> 32), (uint32_t)rest) * 0x1p-111", "c_low", PLAIN),
    Spoilt("no fma: the last product of a residue", "normal.h", " + a_low * b_low;", ";", PLAIN),
    Spoilt("double-double Gaussian: what R loses", "normal.h", "- residue(root, root, square)) + rest)", "- residue(root, root, square)))"),
    Spoilt("double-double Gaussian: what the root loses", "normal.h", "(((twice - square) - residue(root, root, square)) + rest)", "((twice - square) + rest)"),
    Spoilt("double-double Gaussian: the later digits of the angle", "normal.h", "d1 * dpf_quarter_low + d2 * dpf_quarter", "d1 * dpf_quarter_low"),
    Spoilt("double-double Gaussian: pi's lower part", "normal.h", "d1 * dpf_quarter_low + d2 * dpf_quarter", "d2 * dpf_quarter"),
    Spoilt("double-double Gaussian: what a sine loses", "normal.h", "(sum_low + high_low) + (s2 + (ca", "high_low + (s2 + (ca"),
    Spoilt("double-double Gaussian: a table's lower sine", "normal.h", "(s2 + (ca * sigma", "((ca * sigma"),
    Spoilt("double-double Gaussian: a table's lower cosine", "normal.h", "(c2 - (sa * sigma", "(-(sa * sigma"),
    Spoilt("double-double Gaussian: a product of lower parts", "normal.h", "(c2 * b1 - (sa * g2 + s2 * g1))", "(-(sa * g2 + s2 * g1))"),
    Spoilt("double-double Gaussian: one row's lower sine", "wide_sine.h", "{0x1.c454f4c000000p-6, 0x1.ca763914e1401p-35", "{0x1.c454f4c000000p-6, -0x1.ca763914e1401p-35"),
    Spoilt("double-double Gaussian: the side's lower part", "gaussian.h", "(r * side_low[i] + radius_low[i] * side[i])", "(radius_low[i] * side[i])"),
    Spoilt("double-double Gaussian: the radius's lower part", "gaussian.h", "(r * side_low[i] + radius_low[i] * side[i])", "(r * side_low[i])"),
    Spoilt("double-double Gaussian: the scale's lower part", "gaussian.h", "(p.t * normal_low + p.t_low * normal)", "(p.t * normal_low)"),
    Spoilt("double-double Gaussian: no cell", "gaussian.h", "error_margin * r > p.normal.double_double_cell", "error_margin * r > 0.0"),
    Spoilt("double-double Gaussian: no margin", "gaussian.h", "error_margin = p.double_double_margin - __builtin_fabs(off)", "error_margin = 0.5 - __builtin_fabs(off)"),
    Spoilt("double-double Gaussian: it decides beside U = 1", "gaussian.h", " & (r > 0x1p-20) & ", " & "),
    Spoilt("double-double Gaussian: the least U", "gaussian.h", " & (d.u[i] >> 32 != 0)", ""),
    # integers
    Spoilt("integers: the later digits", "wide.h", "top << *zeros | rest >> 1 >> (63 - *zeros)", "top << *zeros"),
    Spoilt("integers: the cube", "wide.h", "cube / 6", "cube / 7"),
    Spoilt("integers: the fourth power", "wide.h", "(cube / 6 - (fourth >> 22))", "cube / 6"),
    Spoilt("integers: what the second step loses", "wide.h", " - (r >> 22) * dpf_step2[j]", ""),
    Spoilt("integers: what the third step loses", "wide.h", " - (r >> 28) * dpf_step3[k]", ""),
    Spoilt("integers: one reciprocal of the first step", "wide_log.h", "    800, 795, 790, 785, 781,", "    800, 795, 790, 786, 781,"),
    Spoilt("integers: one reciprocal of the second step", "wide_log.h", "8176, 8685, 9195,", "8176, 8685, 9194,"),
    Spoilt("integers: one logarithm", "wide_log.h", "{0x5ff36a25b783a4f, 0x2a0456525ed48a}", "{0x5ff36a25b783a4f, 0x2a0456525ed48b}"),
    Spoilt("integers: a product's carry", "exponential.h", "(uint64_t)(cross >> 64) + (uint64_t)(across >> 64)", "(uint64_t)(cross >> 64)"),
    Spoilt("integers: the cell forgets the zeros", "exponential.h", "plan->logarithm.wide_cell + zeros - bits", "plan->logarithm.wide_cell - bits"),
    Spoilt("integers: no error above", "discrete_laplace.h", "(fraction + error < one)", "(fraction < one)"),
    Spoilt("integers: no cell below", "discrete_laplace.h", "fraction >= error + cell", "fraction >= error"),
    Spoilt("integers: no error below", "discrete_laplace.h", "fraction >= error + cell", "fraction >= cell"),
    Spoilt("integers: 64 zeros are decided", "discrete_laplace.h", "(prefix >> 64 != 0) & ((*magnitude == 0)", "((*magnitude == 0)"),
    Spoilt("integers: nothing is known to be 0", "discrete_laplace.h", "((*magnitude == 0) | (fraction >= error + cell))", "(fraction >= error + cell)"),
    Spoilt("integers, Laplace: the cell on the wrong side", "laplace.h", "error + (negative ? 0 : cell), above = error + (negative ? cell : 0)", "error + (negative ? cell : 0), above = error + (negative ? 0 : cell)"),
    Spoilt("integers, Laplace: no error", "laplace.h", "error = scaled_log_error + 2;", "error = 0;"),
    # each law's level 0 and words
    Spoilt("Laplace: a 64-bit word's sign is digits", "laplace.h", "long_middle(word[i] & INT64_MAX)", "long_middle(word[i])"),
    Spoilt("32-bit words: the offset is left out", "refine.h", "y + (s)->noise[i]", "0.0 * y + (s)->noise[i]"),
    Spoilt("Gaussian: no error of the angle at level 0", "gaussian.h", "less[i] = half_angle * tr;", "less[i] = 0.0;"),
    Spoilt("Gaussian: no cell at level 0", "gaussian.h", "weight[i] *= tr;", "weight[i] = 0x1p80;"),
    Spoilt("Gaussian: a pair has one sign", "gaussian.h", "side_of(swap, cosine, sine), flags << 33)", "side_of(swap, cosine, sine), flags)"),
    Spoilt("Gaussian: 64-bit pairs exchange their signs", "gaussian.h", "turned(second, flags >> 1 & 1)", "turned(second, flags >> 2)"),
    Spoilt("Gaussian: the angle's lower digits are cut", "gaussian.h", "as_double(angle & UINT64_MAX >> 3) + 0.5", "as_double(angle & UINT64_MAX >> 3 & ~(uint64_t)UINT32_MAX) + 0.5"),
    Spoilt("Gaussian: the later digits of v", "gaussian.h", "d->v[i] = angle[i] << (67 - width) | more_angle[i] >> (width - 3);", "d->v[i] = angle[i] << (67 - width);"),
    Spoilt("discrete Laplace: no half a step", "discrete_laplace.h", "plan->t * e + plan->logarithm.offset", "plan->t * e"),
    Spoilt("discrete Laplace: the noise may be -1", "discrete_laplace.h", "    const double y = positive(z);", "    const double y = z;"),
    Spoilt("later digits are shifted by one", "exponential.h", "return more << (65 - width);", "return more << (64 - width);"),
    # inversion and acceptance
    Spoilt("a search decides on a threshold", "discrete_gaussian.h", "*decided = plan->search.thresholds[at] != u;", "*decided = 1;"),
    Spoilt("a search takes a threshold for one above", "discrete_gaussian.h", "plan->search.thresholds[next - 1] > u ?", "plan->search.thresholds[next - 1] >= u ?"),
    Spoilt("a proposal is accepted too soon", "discrete_gaussian.h", "low > most * (1.0 + 0x1p-40)", "low > most"),
    Spoilt("a proposal is accepted a little too soon", "discrete_gaussian.h", "low > most * (1.0 + 0x1p-40)", "low > most * (1.0 - 0x1p-20)"),
    Spoilt("a proposal is rejected too soon", "discrete_gaussian.h", "high < least * (1.0 - 0x1p-40)", "high < least"),
    Spoilt("no proposal is rejected", "discrete_gaussian.h", "(int64_t)(high < least * (1.0 - 0x1p-40))", "0"),
    Spoilt("the bound of rejection is that of acceptance", "discrete_gaussian.h", "least = most * (1.0 - 0x1p-17 - most)", "least = most"),
    Spoilt("an undecided acceptance goes on to the next candidate", "draw.h", "final[i] |= verdict[i] != -1;", "final[i] |= verdict[i] == 1;"),
    Spoilt("an undecided acceptance is one", "draw.h", "(verdict[i] == 1) & (final[i] == 0)", "(verdict[i] != -1) & (final[i] == 0)"),
    Spoilt("the last accepted candidate counts", "draw.h", "(verdict[i] == 1) & (final[i] == 0)", "(verdict[i] == 1)"),
    Spoilt("the second candidate has the first's words", "draw.h", "read_step(law, how, (uint64_t)candidate, base, job", "read_step(law, how, 0, base, job"),
    Spoilt("acceptance has 16 digits", "discrete_gaussian.h", "<< 48 | more_accept[i] >> 16", "<< 48"),
    Spoilt("bulk: every proposal is accepted", "draw.h", "word_at(accept, 16, accept_first + i) >= (uint64_t)plan->normal.accept_below", "0"),
    Spoilt("bulk: every word accepts", "draw.h", "return most < accept_below;", "return 1;"),
    Spoilt("refined: every proposal is accepted", "refine.h", "law->judge(how->plan, 1, lo + b, hi + b, job->word[2] + from + b, more_accept + b, &verdict);", "verdict = 1;"),
    Spoilt("a later proposal is always accepted", "refine.h", "law->judge(how->plan, 1, lo, hi, accept, accept + 1, &verdict);", "verdict = 1;"),
    Spoilt("later proposals have the words of the first", "refine.h", "read_few(law, how, candidate, draw, 1,", "read_few(law, how, 0, draw, 1,"),
    Spoilt("rejected proposals of constant work are followed by none", "draw.h", "rejected |= final[i] == 0;", "rejected |= final[i] > 9;"),
    Spoilt("refined: acceptance reads no second word", "refine.h", "    if (unsure) {", "    if (0) {"),
    # from draws to results
    Spoilt("refined draws of reals begin on the grid", "refine.h", "beyond(in_steps(how, made_public(how, double_of(job->value[w]))))", "0.0"),
    Spoilt("a refined pair's angle is its radius", "refine.h", "address[most + b] = draw[b] | 64;", "address[most + b] = draw[b] & ~(uint64_t)64;"),
    Spoilt("the undecided keep what is no result", "refine.h", "                memset((char *)batch->sums + bytes * i, 0, (size_t)bytes);\n", ""),
    Spoilt("a pair's other word is its own", "refine.h", "job->word[1][w] = word_at(words, width, i | 64);", "job->word[1][w] = word_at(words, width, i & ~64);"),
    Spoilt("a batch begins at its first draw", "draw.h", "const int from = at < 0 ? (int)-at : 0, end = at + per_batch", "const int from = 0, end = at + per_batch"),
    Spoilt("a sum that leaves int64 wraps", "sum.h", "const int64_t left = ((total ^ x) & (total ^ noise)) >> 63;", "const int64_t left = 0 & noise;"),
    Spoilt("a sum that leaves int64 goes to the other end", "sum.h", "(((x >> 63) ^ INT64_MAX) & left)", "(((x >> 63) ^ INT64_MIN) & left)"),
    Spoilt("no lower bound", "sum.h", "const int64_t above = sum < lower ? lower : sum;", "const int64_t above = sum;"),
    Spoilt("no upper bound", "sum.h", "return above > upper ? upper : above;", "return above;"),
    Spoilt("uint64 is taken for int64", "sum.h", "is_unsigned ? (dpf_signed)(uint64_t)x : (dpf_signed)x", "(dpf_signed)x"),
    Spoilt("a wide sum forgets the upper limb", "sum.h", "((dpf_wide)(uint64_t)hi << 64 | (uint64_t)lo)", "(dpf_wide)(dpf_signed)lo"),
    Spoilt("a wide sum has no upper bound", "sum.h", "total < lower ? lower : total > upper ? upper : total", "total < lower ? lower : total"),
    Spoilt("what is no number stays", "sum.h", "between(is_finite(x) ? x : how->missing, how->least, how->greatest)", "between(x, how->least, how->greatest)"),
    Spoilt("values have no greatest", "sum.h", "between(is_finite(x) ? x : how->missing, how->least, how->greatest)", "(is_finite(x) ? x : how->missing)"),
    Spoilt("infinity is finite", "sum.h", "return __builtin_fabs(x) <= DBL_MAX;", "return x == x;"),
    Spoilt("half of the grid's inverse", "sum.h", "(x * how->inverse) * how->inverse_too", "x * how->inverse"),
    Spoilt("a value is cut to the grid", "sum.h", "__builtin_rint(y);", "__builtin_trunc(y);", FUSED),
    Spoilt("a value is cut to the grid, no fma", "sum.h", "(__builtin_fabs(y) + 0x1p52) - 0x1p52", "(double)(int64_t)__builtin_fabs(y)", PLAIN),
    Spoilt("a large value lies off the grid", "sum.h", "return __builtin_fabs(y) < 0x1p52 ? y - to_integer(y) : 0.0;", "return __builtin_fabs(y) < 0x1p51 ? y - to_integer(y) : 0.0;"),
    Spoilt("rounded to odd, downwards", "sum.h", "(rest > 0.0) == (s > 0.0) ? 1 : UINT64_MAX", "(rest > 0.0) == (s > 0.0) ? 1 : 1"),
    Spoilt("nothing is rounded to odd", "sum.h", "return (inexact & !(bits & 1)) ?", "return (0 & !(bits & 1)) ?"),
    Spoilt("a real result has no bounds", "sum.h", "return between(point + k * how->granularity, how->real_lower, how->real_upper) + 0.0;", "return point + k * how->granularity + 0.0;"),
    Spoilt("float32 is rounded twice", "sum.h", "large ? joined_single(&how, point[i], double_of((uint64_t)lo[i]))\n", "0 ? joined_single(&how, point[i], double_of((uint64_t)lo[i]))\n"),
    Spoilt("float32 has no bounds", "sum.h", "return (double)(float)between(to_odd(total, rest), how->real_lower, how->real_upper) + 0.0;", "return (double)(float)to_odd(total, rest) + 0.0;"),
    Spoilt("wide reals lose a rest", "sum.h", "double result = total + rest;", "double result = total;"),
    Spoilt("wide reals lose the lower limb", "sum.h", "two_sum(above * how->granularity, below * how->granularity, &part, &part_rest);", "two_sum(above * how->granularity, 0.0 * below, &part, &part_rest);"),
    Spoilt("one refined real has two steps for one", "sum.h", ": joined(how, point, (double)lo);", ": joined(how, point, (double)lo * 2.0);"),
    Spoilt("one refined float32 is rounded twice", "sum.h", ": how->single   ? joined_single(how, point, (double)lo)", ": how->single   ? (double)(float)joined(how, point, (double)lo * 2.0)"),
    Spoilt("one refined count has no upper bound", "sum.h", "(int64_t)how->upper.lo ^ turn) ^ turn;", "INT64_MAX) ^ turn;"),
    Spoilt("one refined uint64 is signed", "sum.h", "(int64_t)how->upper.lo ^ turn) ^ turn;", "(int64_t)how->upper.lo ^ turn);"),
    Spoilt("uint64 is widened as it is", "sum.h", "(int64_t)((const type *)in)[i] ^ turn_of(name);", "(int64_t)((const type *)in)[i];"),
    Spoilt("one refined wide count is signed", "sum.h", "sum = clamped_sum_wide((int64_t)value, how->kind == DPF_UINT64, lo, hi,", "sum = clamped_sum_wide((int64_t)value, 0, lo, hi,"),
    # few draws
    Spoilt("few: a pair's angle is its radius", "refine.h", "angle[i] = digits_in(words, i, width[0], draw | 64);", "angle[i] = digits_in(words, i, width[0], radius);"),
    Spoilt("few: the groups are one", "refine.h", "= group * DPF_LANES + draw % DPF_LANES;", "= draw % DPF_LANES + 0 * group;"),
    Spoilt("a batch lacks the group of its last draws", "draw.h", "> (uint64_t)(16 * DPF_WORDS / width)", "> (uint64_t)(17 * DPF_WORDS / width)"),
    # the table's pipeline
    Spoilt("at once: large values have no margin", "draw.h", "    p.margin32 -= 0x1p-12;\n", ""),
    Spoilt("at once: values of any size", "draw.h", "(__builtin_fabs(y) < 0x1p40)", "(__builtin_fabs(y) < 0x1p60)"),
    Spoilt("at once: reals have no bounds", "draw.h", "!(most < how->real_upper && -most > how->real_lower)", "0"),
    Spoilt("at once: no float32 in a double", "draw.h", "how.single && kind == DPF_FLOAT64", "0"),
    Spoilt("at once: every integer is decided", "draw.h", "undecided[i] = s->cells[i] == DPF_UNDECIDED_CELL;", "undecided[i] = 0;"),
    Spoilt("at once: every real is decided", "draw.h", "undecided[i] = batch->sums[i] == DPF_UNDECIDED_LIMB;", "undecided[i] = 0;"),
    Spoilt("lanes: no saturation", "sum.h", "((total ^ value) & (total ^ draw)) >> SIGN)", "(0 & (total ^ value)) >> SIGN)"),
    Spoilt("lanes: the upper bound is the lower", "sum.h", "DPF_BLEND(sum, upper, ", "DPF_BLEND(sum, lower, "),
    Spoilt("lanes: no lower bound", "sum.h", "DPF_BLEND(sum, lower, ", "DPF_BLEND(sum, sum, "),
    Spoilt("lanes: bounds are unsigned", "sum.h", "(lanes)((signed_lanes)sum < (signed_lanes)lower)", "(lanes)(sum < lower)"),
    Spoilt("table: eight bits have no bounds", "table.h", "sums.bounded |= size == 1;", ""),
    Spoilt("table: uint16 is signed", "table.h", "int16_t, uint16_t, int16_t, 1)", "int16_t, uint16_t, int16_t, 0)"),
    Spoilt("lanes: uint32 is turned once", "sum.h", "__builtin_convertvector(sum ^ turn, cells)", "__builtin_convertvector(sizeof(lane) == 4 ? sum : sum ^ turn, cells)"),
    Spoilt("cells: unsigned integers are signed", "sum.h", "int32_t, uint32_t, int32_t, 1)", "int32_t, uint32_t, int32_t, 0)"),
    Spoilt("cells: sixteen bits have no lower bound", "sum.h", "const int32_t above = sum < lower ? lower : sum,", "const int32_t above = sum,"),
    Spoilt("cells: sixteen bits have no upper bound", "sum.h", "within = above > upper ? upper : above;", "within = above;"),
    Spoilt("cells: lanes have no bounds", "sum.h", "switch (2 * sums.kind + sums.bounded) {", "switch (2 * sums.kind) {"),
    Spoilt("table: halves are exchanged", "table.h", "noise[DPF_LANES + i] = table[half[2 * i + 1]];", "noise[DPF_LANES + i] = table[half[2 * i]];"),
    Spoilt("table: the last draw is never undecided", "table.h", "if (i < from || i >= to)", "if (i < from || i >= to - 1)"),
    Spoilt("table: the line between blocks", "table.h", "memcpy(my.noise[(begin / DPF_BLOCK + 1) % 2], old - BEFORE, BEFORE * sizeof *old);", ""),
    Spoilt("lanes: sums past the caches are one on", "sum.h", "DPF_STORE(sums->out + i * (int)sizeof(type), &x);", "DPF_STORE(sums->out + (i & ~8) * (int)sizeof(type), &x);"),
    Spoilt("table: a group's counter is the one before", "table.h", "group + (uint64_t)at / group_draws + 1", "group + (uint64_t)at / group_draws"),
    # plans
    Spoilt("plan: no half is rounded", "plan.c", "(double)(upper.limb[0] | rest)", "(double)(upper.limb[0] & ~(uint64_t)0x7ff)"),
    Spoilt("plan: a sum of terms ends early", "exact.h", "    for (; !is_zero(&at.f.low); next_term(&at))\n", "    for (; !is_zero(&at.f.low) && at.f.low.limb[POINT - 1]; next_term(&at))\n"),
    Spoilt("plan: a root lacks its last digit", "exact.h", "(i > 0 ? to[i - 1] >> 63 : !borrow);", "(i > 0 ? to[i - 1] >> 63 : !borrow && at > 0);"),
    Spoilt("plan: a quotient lacks its last digit", "exact.h", "at >= -behind; at--", "at > -behind; at--"),
    Spoilt("plan: the guide begins one sixteenth on", "plan.c", "edge = (dpf_wide)(16 + i % 16) << i / 16,", "edge = (dpf_wide)(16 + (i + 1) % 16) << (i + 1) / 16,"),
    Spoilt("plan: a table's mirror is no mirror", "plan.c", "(int16_t)-table[cell];", "table[cell];"),
    Spoilt("plan: a table's last cells are open", "plan.c", "cell < *from; cell++)", "cell + 1 < *from; cell++)"),
    Spoilt("plan: C is 0", "plan.c", "of->one_sided ? zero : log_weight_near(t)", "zero"),
    # stores, modes and what is asked beforehand
    Spoilt("past the caches: the tail is left", "machine.h", "    memcpy(out, in, (size_t)n * 8);\n}", "    if (!non_temporal)\n        memcpy(out, in, (size_t)n * 8);\n}"),
    Spoilt("past the caches: the head is left", "machine.h", "        memcpy(out, in, (size_t)first * 8);\n", ""),
    Spoilt("float32 is stored as it is", "draw.h", "store_sums(how, &batch, hi, from, end, out_at(job, at + from));", "store_sums(how, &batch, hi, from, end - (how->kind == DPF_FLOAT32), out_at(job, at + from));"),
    Spoilt("the host's rounding mode stays", "dpf_impl.h", "if ((mode & ~flags) != 0x1f80)", "if (mode & flags & ~flags)"),
    Spoilt("infinity is no reason to refuse", "dispatch.c", "finite &= __builtin_fabs(x) <= DBL_MAX;", "finite &= x == x;"),
    Spoilt("a float's infinity is no reason to refuse", "dispatch.c", "finite &= __builtin_fabsf(x) <= FLT_MAX;", "finite &= x == x;"),
    Spoilt("a value that is not finite is not refused", "sum.h", "return how.refuse && odd << 1 != 0;", "return 0;"),
    Spoilt("a release that is refused says that it is done", "draw.h", "return job.refused ? DPF_NOT_FINITE :", "return job.refused ? n :"),
    # what level 0 leaves, one by one
    Spoilt("a refined draw is the next integer", "refine.h", "sum_up_one(job->how, value, lo, hi, out_at(job, at));", "sum_up_one(job->how, value, lo + 1, hi, out_at(job, at));"),
    Spoilt("a refined draw of a table is another", "refine.h", "job->noise[at] = (int16_t)lo;", "job->noise[at] = (int16_t)(lo + 1);"),
    Spoilt("noise alone: the undecided is 0", "refine.h", "left ? DPF_UNDECIDED_LIMB : hi}", "left ? 0 : hi}"),
    Spoilt("noise alone: all are undecided", "refine.h", "{left ? 0 : lo, left ? DPF_UNDECIDED_LIMB : hi}", "{0, DPF_UNDECIDED_LIMB}"),
    Spoilt("noise alone: an undecided one has a lower limb", "refine.h", "{left ? 0 : lo,", "{left ? 1 : lo,"),
    Spoilt("noise alone: it is decided exactly", "refine.h", "    if (job->how->kind == DPF_NOISE)\n        memcpy(out_at", "    if (job->how->kind == DPF_NOISE && !left)\n        memcpy(out_at"),
]  # fmt: skip


def spoil(folder: Path, spoilt: Spoilt | None) -> Path:
    """A copy of csrc with one line spoilt. Raises: AssertionError (its text is not there once)."""
    sources = folder / "csrc"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(CSRC, sources, ignore=shutil.ignore_patterns("proofs"))
    if spoilt is not None:
        path = sources / spoilt.file
        text = path.read_text()
        assert text.count(spoilt.old) == 1, f"{spoilt.name}: its text is not in {spoilt.file} once"
        path.write_text(text.replace(spoilt.old, spoilt.new))
    return sources


def build(folder: Path, spoilt: Spoilt | None, names: Sequence[str]) -> Path:
    """The library of these instruction sets and the self-check, and nothing of Python."""
    sources, library = spoil(folder, spoilt), folder / "check.so"
    dispatch = sources / "dispatch.c"
    listed = " ".join(f"F({name})" for name in names)
    text, found = re.subn(r"F\(portable\)( F\(\w+\))+", listed, dispatch.read_text())
    assert found
    dispatch.write_text(text)
    files = [str(sources / f"{name}.c") for name in (*COMMON, *(f"isa_{name}" for name in names))]
    subprocess.run(
        ["gcc", *FLAGS, "-shared", f"-I{sources}", "-o", str(library), *files], check=True, capture_output=True, timeout=LONGEST
    )  # fmt: skip
    return library


def found_by_the_self_check(library: Path, isa: int) -> bool:
    """Whether the build is refused, or does not even end."""
    code = (
        "import ctypes, sys; at = ctypes.CDLL(sys.argv[1]); at.dpf_self_check.restype = ctypes.c_char_p; "
        "at.dpf_known_answers.restype = ctypes.c_void_p; room = (ctypes.c_uint64 * 60000)(); "
        "sys.exit(at.dpf_self_check(int(sys.argv[2]), -1, ctypes.c_void_p(at.dpf_known_answers()), room) is not None)"
    )
    try:
        return (
            subprocess.run(
                [sys.executable, "-c", code, str(library), str(isa)], timeout=LONGEST, check=False
            ).returncode
            != 0
        )
    except subprocess.TimeoutExpired:
        return True
