# SPDX-License-Identifier: Apache-2.0
"""Partitions of the outputs; unions of their cells are the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast.evidence.audit.audited import Outputs
from dpfast.privacy.formatting import output

Cells: TypeAlias = "npt.NDArray[np.int64]"  # each output's cell, or each cell's number of outputs
Mask: TypeAlias = "npt.NDArray[np.bool_]"
SIGNIFICAND = "the output's significand"
# Families that a histogram of values would not show.
BY_BITS = {"lowest bits", "forms", "significands modulo 2", "significands modulo 256"}
LOWEST = 2100  # cells for the exponent of the lowest bit, from -1074; the last is zero


@dataclass(frozen=True, eq=False)
class Family:
    """A partition of the outputs. Events are unions of cells: also tails, if cells are ordered."""

    name: str
    size: int
    cells: Callable[[Outputs], Cells]
    words: Callable[[Mask], str]
    ordered: bool = False

    def histogram(self, outputs: Outputs) -> Cells:
        return np.bincount(self.cells(outputs), minlength=self.size)


def families(outputs: Outputs) -> list[Family]:
    """The partitions that may tell two counts apart, from the outputs for both."""
    found, (step, stepped) = [_thresholds(outputs), _values(outputs)], _grid(outputs)
    what = "the output" if step == 1 else f"the output divided by {output(step)}" if step else SIGNIFICAND
    found += [_residues("outputs", what, stepped, bits) for bits in (1, 2, 4, 8)] if step else []
    if outputs.dtype.kind == "f":
        found += [_residues("significands", SIGNIFICAND, bits_of, bits) for bits in (1, 8)] + [_lowest_bits(), _forms()]
    return [*found, _parity(outputs, stepped, what)]


def as_kind(outputs: Outputs, kind: str) -> Outputs:
    if outputs.dtype.kind == kind:
        return outputs
    if kind == "f":
        return outputs.astype(np.float64)
    return np.clip(outputs, -(2.0**62), 2.0**62).astype(np.int64)


def _edges(outputs: Outputs, most: int) -> Outputs:
    """Ends of intervals: every value, or quantiles, close together in the tails."""
    values = np.unique(outputs)
    if values.size > most:
        ordered, n = np.sort(outputs), outputs.size
        tail = np.unique(np.geomspace(1, n / 8, most // 4).astype(int))
        at = np.unique(np.concatenate([[0], tail, np.linspace(0, n - 1, most // 2).astype(int), n - 1 - tail, [n - 1]]))
        values = np.unique(ordered[at])
    if values.dtype.kind == "f":
        return np.append(values, np.nextafter(values[-1], np.inf))
    return np.append(values, min(int(values[-1]), 2**63 - 2) + 1)


def _thresholds(outputs: Outputs) -> Family:
    edges = _edges(outputs, 1024)
    kind = edges.dtype.kind

    def words(mask: Mask) -> str:
        change = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
        parts = []
        for first, last in zip(change[::2], change[1::2], strict=True):
            low, high = (edges[i - 1] if 0 < i <= edges.size else None for i in (first, last))
            if low is not None and high is not None:
                one = kind == "i" and high - low == 1
                parts.append(output(low) if one else f"from {output(low)} to below {output(high)}")
            elif low is not None:
                parts.append(f"at least {output(low)}")
            else:
                parts.append(f"below {output(high)}" if high is not None else "anything")
        return f"the output is {either(parts)}"

    return Family(
        "tails", edges.size + 1, lambda y: np.searchsorted(edges, as_kind(y, kind), side="right"), words, ordered=True
    )


def _values(outputs: Outputs) -> Family:
    """A cell for each value that repeats, and one for the rest; -0.0 and 0.0 are two floats."""

    def key(y: Outputs) -> Cells:
        return bits_of(y) if outputs.dtype.kind == "f" else as_kind(y, "i").astype(np.int64)

    found, times = np.unique(key(outputs), return_counts=True)
    if times.size > 2**15:
        most = np.sort(np.argpartition(times, -(2**15))[-(2**15) :])
        found, times = found[most], times[most]
    found = found[times > 1]
    if not found.size:
        found = key(outputs[:1])

    def cells(y: Outputs) -> Cells:
        keys = key(y)
        at = np.minimum(np.searchsorted(found, keys), found.size - 1)
        return np.where(found[at] == keys, at + 1, 0)

    def words(mask: Mask) -> str:
        chosen = found[mask[1:]]
        values = chosen.view(np.float64) if outputs.dtype.kind == "f" else chosen
        parts = [output(value) for value in sorted(values.tolist())]
        return f"the output is {either([*parts, 'a value that is rare'] if mask[0] else parts)}"

    return Family("values", found.size + 1, cells, words)


def _grid(outputs: Outputs) -> tuple[float, Callable[[Outputs], Cells]]:
    """The step of the grid that has all outputs, and outputs in steps; step 0: no grid."""
    if outputs.dtype.kind == "i":
        step = abs(int(np.gcd.reduce(outputs))) or 1
        return step, lambda y: as_kind(y, "i").astype(np.int64) // step
    finite = outputs[np.isfinite(outputs) & (outputs != 0)]
    if not finite.size:
        return 0, bits_of
    exponent = int(lowest_bit(finite).min()) - 1074
    if float(np.abs(finite).max()) >= 2.0 ** min(exponent + 52, 1023) or exponent > 900:
        return 0, bits_of
    grid = 2.0**exponent

    def stepped(y: Outputs) -> Cells:
        with np.errstate(over="ignore"):
            return np.clip(np.floor(as_kind(y, "f") / grid), -(2.0**62), 2.0**62).astype(np.int64)

    return grid, stepped


def _residues(name: str, what: str, whole: Callable[[Outputs], Cells], bits: int) -> Family:
    """The last bits of a whole number."""

    def words(mask: Mask) -> str:
        if bits == 1:
            return f"{what} is {'odd' if mask[1] else 'even'}"
        return f"{what} leaves {either([str(i) for i in np.flatnonzero(mask)])} modulo {2**bits}"

    return Family(f"{name} modulo {2**bits}", 2**bits, lambda y: whole(y) & (2**bits - 1), words)


def bits_of(outputs: Outputs) -> Cells:
    """The 64 bits of a double, as an integer."""
    return np.ascontiguousarray(as_kind(outputs, "f")).view(np.int64)


def _parts(outputs: Outputs) -> tuple[Cells, Cells, Cells]:
    """Sign, biased exponent, and zeros at the end of the significand (63 for the number zero)."""
    raw = bits_of(outputs)
    exponent = raw >> 52 & 0x7FF
    significand = raw & (2**52 - 1) | np.where(exponent > 0, 2**52, 0)
    zeros = np.frexp((significand & -significand).astype(np.float64))[1].astype(np.int64) - 1
    return (raw < 0).astype(np.int64), exponent, np.where(significand == 0, 63, zeros)


def lowest_bit(outputs: Outputs) -> Cells:
    _, exponent, zeros = _parts(outputs)
    return np.where(zeros == 63, LOWEST - 1, np.maximum(exponent, 1) - 1 + zeros)


def _lowest_bits() -> Family:
    def words(mask: Mask) -> str:
        if mask[-1] and not mask[0]:
            return f"the output is a multiple of 2**{int(np.argmax(mask)) - 1074}"
        if mask[0] and not mask[-1]:
            return f"the output is no multiple of 2**{int(np.argmin(mask)) - 1074}"
        return f"the lowest bit of the output is {either([f'2**{i - 1074}' for i in np.flatnonzero(mask)])}"

    return Family("lowest bits", LOWEST, lowest_bit, words, ordered=True)


def _forms() -> Family:
    """Sign, exponent and lowest bit: which doubles are possible varies with their size [Mir12]."""

    def cells(y: Outputs) -> Cells:
        sign, exponent, zeros = _parts(y)
        return (sign << 11 | exponent) << 6 | zeros

    def words(mask: Mask) -> str:
        parts = []
        for cell in np.flatnonzero(mask).tolist():
            sign, exponent, zeros = "-+"[cell < 2**17], cell >> 6 & 0x7FF, cell & 63
            size = f"{sign}2**{exponent - 1023} and beyond"
            lowest = max(exponent, 1) - 1075 + zeros
            parts.append(f"{sign}0.0" if zeros == 63 else f"{size} with its lowest bit at 2**{lowest}")
        return f"the output is {either(parts)}"

    return Family("forms", 2**18, cells, words)


def _parity(outputs: Outputs, whole: Callable[[Outputs], Cells], what: str) -> Family:
    """Each interval in two parts: a low bit may tell more in some places than in others."""
    edges = _edges(outputs, 64)

    def words(mask: Mask) -> str:
        cells = np.flatnonzero(mask)
        where = [f"{'odd' if i & 1 else 'even'} {_between(edges, i >> 1)}" for i in cells.tolist()]
        return f"{what} is {either(where)}"

    def cells(y: Outputs) -> Cells:
        return 2 * np.searchsorted(edges, as_kind(y, edges.dtype.kind), side="right") + (whole(y) & 1)

    return Family("parity by size", 2 * edges.size + 2, cells, words)


def _between(edges: Outputs, i: int) -> str:
    if i == 0:
        return f"below {output(edges[0])}"
    if i == edges.size:
        return f"from {output(edges[-1])} on"
    return f"from {output(edges[i - 1])} to below {output(edges[i])}"


def either(parts: Sequence[str]) -> str:
    if not parts:
        return "nothing"
    shown = list(parts[:4])
    if len(parts) > 4:
        return f"{', '.join(shown)} or one of {len(parts) - 4:,} more"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
