# SPDX-License-Identifier: Apache-2.0
"""Counts where each unit has a few bins, drawn by keyed tags, and a capped number of rows a bin."""

import numpy as np
from numba import types

from dpfast.kernels.jit import jit, size
from dpfast.kernels.siphash import WORDS, of_pair, word

_ONE = np.uint64(1)
_INTEGERS = types.Array(types.int64, 1, "C")


@jit(types.void(WORDS, _INTEGERS, size, size))
def _sink(tag, begin, at, most):
    """The entry `at` goes down the heap, largest tag first, until no child is larger."""
    while True:
        child = 2 * at + 1
        if child + 1 < most and tag[child + 1] > tag[child]:
            child += 1
        if child >= most or tag[child] <= tag[at]:
            return
        tag[at], tag[child] = tag[child], tag[at]
        begin[at], begin[child] = begin[child], begin[at]
        at = child


@jit(types.void(WORDS, size, size, word, word, WORDS, word, word, WORDS, _INTEGERS))
def _draw(rows, first, end, bits, name, bins, key0, key1, tag, begin):
    """Into begin: where the rows of a bin begin, for the bins of least tag in rows[first:end]."""
    low, most, held = (_ONE << bits) - _ONE, tag.size, 0
    for i in range(first, end):
        if i > first and rows[i] == rows[i - 1]:
            continue
        drawn = of_pair(key0, key1, name, bins[rows[i] & low])
        if held < most:
            tag[held], begin[held] = drawn, i
            held += 1
            if held == most:
                for j in range(most // 2 - 1, -1, -1):
                    _sink(tag, begin, j, most)
        elif drawn < tag[0]:
            tag[0], begin[0] = drawn, i
            _sink(tag, begin, 0, most)


@jit(types.void(WORDS, word, word, WORDS, WORDS, word, word, size, WORDS, _INTEGERS, _INTEGERS))
def bounded_histogram(rows, bits, base, units, bins, key0, key1, cap, tag, begin, counts):
    """Add to counts what the units keep.

    rows: sorted, each unit << bits | bin. units: the word of each unit, or none: then it is
    base + unit. bins: the word of each bin. tag, begin: scratch, one place a bin that a unit keeps.
    """
    low, most, at = (_ONE << bits) - _ONE, tag.size, 0
    while at < rows.size:
        unit, first, found = rows[at] >> bits, at, 0
        while at < rows.size and rows[at] >> bits == unit:
            if at == first or rows[at] != rows[at - 1]:
                if found < most:
                    begin[found] = at
                found += 1
            at += 1
        if found > most:
            name = units[unit] if units.size > 0 else base + unit
            _draw(rows, first, at, bits, name, bins, key0, key1, tag, begin)
        for j in range(min(found, most)):
            i, kept = begin[j], 1
            while kept < cap and i + kept < at and rows[i + kept] == rows[i]:
                kept += 1
            counts[rows[i] & low] += kept
