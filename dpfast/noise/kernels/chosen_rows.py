# SPDX-License-Identifier: Apache-2.0
"""Rows of which each unit, or each bin of a unit, keeps a few, drawn by keyed tags.

What is drawn, an entry, is a row or a whole bin. The least tags are kept. A row's tag is that of
its unit, its bin, its value, and how many equal rows come before it: equal rows are alike, so the
rows' order is nothing.
"""

import numpy as np
from numba import types

from dpfast.noise.kernels.bounded_histogram import PLACES, hold
from dpfast.noise.kernels.jit import flag, jit, size
from dpfast.noise.kernels.siphash import WORDS, of_four, of_pair, word

_ONE = np.uint64(1)
_HOW = types.UniTuple(word, 6)
_LAST = types.Tuple((word, size))
VALUES = types.Array(types.int64, 1, "C")


@jit(types.void(VALUES, size, size, size))
def _sift(values, begin, at, many):
    """The value begin + at goes down the heap of `many` values, until no child is larger."""
    while True:
        child = 2 * at + 1
        if child + 1 < many and values[begin + child + 1] > values[begin + child]:
            child += 1
        if child >= many or values[begin + child] <= values[begin + at]:
            return
        values[begin + at], values[begin + child] = values[begin + child], values[begin + at]
        at = child


@jit(types.void(VALUES, size, size))
def _sort(values, begin, end):
    """Sort values[begin:end], in time that no order of theirs makes longer."""
    many = end - begin
    for at in range(many // 2 - 1, -1, -1):
        _sift(values, begin, at, many)
    for last in range(many - 1, 0, -1):
        values[begin], values[begin + last] = values[begin + last], values[begin]
        _sift(values, begin, np.int64(0), last)


@jit(types.void(WORDS, VALUES, size, size))
def _sort_each(rows, values, at, end):
    """Sort the values of each bin of rows[at:end], so that equal rows come together."""
    while at < end:
        begin, falls = at, np.int64(0)
        while at < end and rows[at] == rows[begin]:
            falls |= np.int64(at > begin and values[at] < values[at - 1])
            at += 1
        if falls:
            _sort(values, begin, at)


@jit(flag(WORDS, VALUES, size, word), inline=True)
def _again(rows, values, i, whole):
    """Whether row i is of the bin of the row before it, or equal to it."""
    return rows[i] == rows[i - 1] and (whole != 0 or values.size == 0 or values[i] == values[i - 1])


@jit(word(WORDS, VALUES, WORDS, _HOW, word, size, size))
def _tag(rows, values, bins, how, name, i, before):
    bits, _, key0, key1, _, whole = how
    bin_ = bins[rows[i] & ((_ONE << bits) - _ONE)]
    if whole != 0:
        return of_pair(key0, key1, name, bin_)
    value = np.uint64(values[i]) if values.size > 0 else _ONE
    return of_four(key0, key1, (name, bin_, value, np.uint64(before)))


@jit(_LAST(WORDS, VALUES, WORDS, _HOW, word, size, size, WORDS, PLACES))
def _last(rows, values, bins, how, name, at, end, heap, places):
    """The largest tag of rows[at:end] that is kept, and how many entries with this tag."""
    whole, most, held, before, room = how[5], heap.size, 0, 0, 0
    for i in range(at, end):
        before = before + 1 if i > at and _again(rows, values, i, whole) else 0
        if whole == 0 or before == 0:
            hold(heap, places, held, _tag(rows, values, bins, how, name, i, before), i)
            held = min(held + 1, most)
    for i in range(most):
        room += 1 if heap[i] == heap[0] else 0
    return heap[0], room


@jit(size(WORDS, VALUES, WORDS, WORDS, _HOW, WORDS, PLACES))
def chosen_rows(rows, values, units, bins, how, heap, places):
    """The rows that are kept come first in rows and values, in their order. Returns how many.

    rows: sorted, each unit << bits | bin. values: of each row, or none, as if all were 1; those of
    a bin may be sorted here. units: the word of each unit, or none: then it is base + unit. bins:
    the word of each bin. how: bits, base, two words of the key, the shift that leaves of a row what
    it is drawn among, and whether whole bins are drawn. Scratch: heap, as many places as entries
    are kept; places, as many.
    """
    bits, base, _, _, shift, whole = how
    most, at, kept = heap.size, 0, 0
    while at < rows.size:
        begin, entries = at, 0
        while at < rows.size and rows[at] >> shift == rows[begin] >> shift:
            entries += 1 if whole == 0 or at == begin or rows[at] != rows[at - 1] else 0
            at += 1
        unit = rows[begin] >> bits
        name, last, room = base + unit, np.uint64(0), 0
        if entries > most:
            name = units[unit] if units.size > 0 else name
            if whole == 0 and values.size > 0:
                _sort_each(rows, values, begin, at)
            last, room = _last(rows, values, bins, how, name, begin, at, heap, places)
        before, keep = 0, True
        for i in range(begin, at):
            before = before + 1 if i > begin and _again(rows, values, i, whole) else 0
            if entries > most and (whole == 0 or before == 0):
                tag = _tag(rows, values, bins, how, name, i, before)
                keep = tag < last or (tag == last and room > 0)  # the first ones, where tags are equal
                room -= 1 if tag == last else 0
            if keep:
                rows[kept] = rows[i]
                if values.size > 0:
                    values[kept] = values[i]
                kept += 1
    return kept
