# SPDX-License-Identifier: Apache-2.0
"""Counts where each unit has a few bins, drawn by keyed tags, and a capped number of rows a bin."""

import numpy as np
from numba import types

from dpfast.noise.kernels import FEW
from dpfast.noise.kernels.jit import jit, size
from dpfast.noise.kernels.siphash import WORDS, of_pair, word

VECTOR = 8  # FEW is a multiple of it
_ONE = np.uint64(1)
PLACES = types.Array(types.int64, 1, "C")
_HOW = types.UniTuple(word, 5)


@jit(types.void(_HOW, word, WORDS, size))
def _tags(how, name, words, found):
    """The words of bins become their tags, in whole vectors."""
    _, _, key0, key1, _ = how
    for i in range((found + VECTOR - 1) // VECTOR * VECTOR):
        words[i] = of_pair(key0, key1, name, words[i])


@jit(size(WORDS, size, size, PLACES, PLACES))
def _least(tags, found, most, begin, many):
    """The bins of the `most` least tags come first in begin and many. Returns how many they are.

    That is more than `most` if tags are equal. Without branches: a processor foresees no tag.
    """
    for i in range(found, FEW):
        tags[i] = ~np.uint64(0)
    kept = 0
    for i in range(found):
        tag, less = tags[i], 0
        for j in range(FEW // 2 if found <= FEW // 2 else FEW):
            less += 1 if tags[j] < tag else 0
        begin[kept], many[kept] = begin[i], many[i]
        kept += 1 if less < most else 0
    return kept


@jit(types.void(WORDS, PLACES, size, size))
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


@jit(types.void(WORDS, PLACES, size, word, size))
def hold(heap, begin, held, tag, at):
    """Hold one bin more, or instead of the largest tag if there is no room."""
    most = heap.size
    if held < most:
        heap[held], begin[held] = tag, at
        if held == most - 1:
            for i in range(most // 2 - 1, -1, -1):
                _sink(heap, begin, i, most)
    elif tag < heap[0]:
        heap[0], begin[0] = tag, at
        _sink(heap, begin, 0, most)


@jit(types.void(WORDS, size, word, WORDS, _HOW, WORDS, WORDS, PLACES, PLACES))
def _draw(rows, at, name, bins, how, tags, heap, begin, many):
    """The same for the unit of rows[at:], with any number of bins: a heap holds `most`."""
    low, most, held, found = (_ONE << how[0]) - _ONE, heap.size, 0, 0
    unit, end, inside = rows[at] >> how[0], at, True
    while inside:
        if end == at or rows[end] != rows[end - 1]:
            begin[most + found], tags[found] = end, bins[rows[end] & low]
            found += 1
        end += 1
        inside = end < rows.size and rows[end] >> how[0] == unit
        if found == FEW or not inside:
            _tags(how, name, tags, found)
            for i in range(found):
                hold(heap, begin, held, tags[i], begin[most + i])
                held = min(held + 1, most)
            found = 0
    for i in range(most):
        many[i] = 1
        while begin[i] + many[i] < end and rows[begin[i] + many[i]] == rows[begin[i]]:
            many[i] += 1


@jit(types.void(WORDS, WORDS, WORDS, _HOW, WORDS, WORDS, PLACES, PLACES, types.Array(types.int64, 1, "C")))
def bounded_histogram(rows, units, bins, how, tags, heap, begin, many, counts):
    """Add to counts what the units keep.

    rows: sorted, each unit << bits | bin. units: the word of each unit, or none: then it is
    base + unit. bins: the word of each bin. how: bits, base, two words of the key, the cap of rows
    a bin. Scratch: tags, FEW places; heap, a place a bin that a unit keeps; begin and many, FEW + 1
    more than heap.
    """
    bits, base, _, _, cap = how
    low, most, last, at = (_ONE << bits) - _ONE, heap.size, begin.size - 1, 0
    while at < rows.size:
        row, first, found = rows[at], at, 1
        unit, begin[0] = row >> bits, at
        at += 1
        while at < rows.size and rows[at] >> bits == unit:
            begin[min(found, last)] = at  # once too often is harmless: the next bin, or the end, follows
            found += 1 if rows[at] != row else 0
            row = rows[at]
            at += 1
        if found <= max(most, FEW):
            begin[found] = at
            for i in range(found):
                many[i] = begin[i + 1] - begin[i]
        kept = found
        if found > most:
            name = units[unit] if units.size > 0 else base + unit
            if found <= FEW:
                for i in range(found):
                    tags[i] = bins[rows[begin[i]] & low]
                _tags(how, name, tags, found)
                kept = _least(tags, found, most, begin, many)
            if kept > most:  # many bins, or equal tags
                _draw(rows, first, name, bins, how, tags, heap, begin, many)
                kept = most
        for i in range(kept):
            counts[rows[begin[i]] & low] += min(np.int64(cap), many[i])
