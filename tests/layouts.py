# SPDX-License-Identifier: Apache-2.0
"""Arrays in every layout: strides, byte orders, alignments, overlaps, dtypes; equal bits."""

from __future__ import annotations

import math
import zlib
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

INTEGERS = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
SWAPPED = [dtype.newbyteorder() for dtype in INTEGERS if dtype.itemsize > 1]
FLOATS = [np.dtype("f8"), np.dtype("f4"), np.dtype(">f8"), np.dtype(">f4")]
SHAPES = [(), (0,), (0, 3), (3, 0, 2), (1,), (1, 1, 1), (7,), (5001,), (3, 5, 7), (2, 60, 50), (1,) * 30]


def same(found: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays of floats are equal bit by bit, the sign of zero included."""
    kind = np.uint32 if found.dtype == np.float32 else np.uint64
    return np.array_equal(found.view(kind), right.astype(found.dtype).view(kind))


def layouts(values: np.ndarray) -> dict[str, np.ndarray]:
    """The same values, laid out in memory in other ways."""
    wide = np.zeros((*values.shape[:-1], 3 * values.shape[-1]), values.dtype)
    wide[..., 1::3] = values
    raw = np.zeros(values.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(values.dtype).reshape(values.shape)
    unaligned[...] = values
    frozen = values.copy()
    frozen.setflags(write=False)
    record = np.zeros(values.shape, [("pad", "i1"), ("x", values.dtype)])
    record["x"] = values
    backwards = np.ascontiguousarray(values[::-1])
    found = {
        "fortran": np.asfortranarray(values),
        "transposed": np.ascontiguousarray(values.T).T,
        "reversed": backwards[::-1],
        "all reversed": np.ascontiguousarray(np.flip(values))[(slice(None, None, -1),) * values.ndim],
        "axes in turn": np.moveaxis(np.ascontiguousarray(np.moveaxis(values, -1, 0)[::-1])[::-1], 0, -1),
        "strided": wide[..., 1::3],
        "unaligned": unaligned,
        "read-only": frozen,
        "a field": record["x"],
        "swapped": values.astype(values.dtype.newbyteorder()),
        "swapped and strided": wide.astype(values.dtype.newbyteorder())[..., 1::3],
        "subclass": values.view(np.recarray),
    }
    assert all((view == values).all() for view in found.values())
    assert not unaligned.flags.aligned or values.itemsize == 1
    return found


LAYOUTS = list(layouts(np.zeros((2, 3, 4), np.int64)))
NO_OUTPUT = {"read-only", "subclass"}
FILLED = {
    "fortran",
    "transposed",
    "reversed",
    "all reversed",
    "axes in turn",
}  # a block of memory, in another order than C's


def addresses(array: np.ndarray) -> np.ndarray:
    """Where each element begins, in C order, counted from the first."""
    found = np.zeros(array.shape, np.int64)
    for axis, step in enumerate(array.strides):
        along = np.arange(array.shape[axis]) * step
        found += along.reshape([-1 if each == axis else 1 for each in range(array.ndim)])
    return found.reshape(-1)


def met(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The places, in C order, of the values that draws 0, 1, 2, ... of a fresh stream meet.

    They lie one after the other in memory if values, and out if it is given, fill a block each in
    the same order; else they are in C order.
    """
    given = [values] if out is None else [values, out]
    orders = [np.argsort(addresses(array), kind="stable") for array in given]
    filled = all(
        (np.diff(addresses(array)[order]) == array.itemsize).all() for array, order in zip(given, orders, strict=True)
    )
    alike = filled and np.array_equal(orders[0], orders[-1])
    return orders[0] if alike else np.arange(values.size)


def in_places(drawn: np.ndarray, order: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Results of draws 0, 1, 2, ..., each brought to its place."""
    found = np.empty(drawn.size, drawn.dtype)
    found[order] = drawn
    return found.reshape(shape)


@st.composite
def views(draw: st.DrawFn, dtypes: list[np.dtype], many: int) -> list[np.ndarray]:
    """Zeros of one dtype and shape, each with its own slices, steps and transposes."""
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))
    found = []
    for _ in range(many):
        steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
        big = np.zeros([abs(s) * n + 3 for s, n in zip(steps, shape, strict=True)], dtype)
        order = draw(st.permutations(range(len(shape))))
        big = np.ascontiguousarray(big.transpose(order)).transpose(np.argsort(order))
        found.append(big[tuple(slice(None, None, s) for s in steps)][tuple(slice(1, n + 1) for n in shape)])
        assert found[-1].shape == shape
    return found


def wild(exponent: int, seed: object) -> np.ndarray:
    """Doubles that a careless sum, quotient or rounding gets wrong on the grid of 2^exponent."""
    rng = np.random.default_rng(zlib.crc32(str(seed).encode()))
    grid = Fraction(2) ** exponent
    found = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308, 3.4028235e38, 0.1]
    # ties, and beside the last of them
    halves = [1, 3, 5, 2**52 - 1, 2**53 - 1, 2**53 + 1, 2**54 - 2, -1, -3, -(2**53) + 1]
    counts = [Fraction(n, 2) for n in halves]
    counts += [Fraction(2**power + beside) for power in (51, 52, 53, 54, 60, 70) for beside in (-1, 0, 1, 3)]
    counts += [Fraction(float(x)) for x in rng.normal(size=10) * 10.0 ** rng.integers(-8, 16, 10)]
    counts += [-counts[i] for i in rng.integers(0, len(counts), 20)]
    for count in counts:
        try:
            found.append(float(count * grid))
        except OverflowError:
            continue
    bits = rng.integers(0, 2**63, 20).astype(np.int64).view(np.float64)
    found += [float(x) for x in np.concatenate([bits, -bits]) if math.isfinite(x)]
    return np.array(found)


def singles(values: np.ndarray) -> np.ndarray:
    """Those that are finite as float32, as such."""
    with np.errstate(all="ignore"):
        short = values.astype(np.float32)
    return short[np.isfinite(short)]


def some_counts(shape: tuple[int, ...], dtype: Any = "i8") -> np.ndarray:
    """Counts from 0 to 100, so that every dtype holds them."""
    return np.random.default_rng(math.prod(shape)).integers(0, 101, shape).astype(dtype)


def some_values(shape: tuple[int, ...], dtype: Any = "f8") -> np.ndarray:
    """Values of several sizes, which float32 holds."""
    rng = np.random.default_rng(math.prod(shape))
    sizes = 10.0 ** rng.integers(-6, 9, shape)
    return np.asarray(rng.normal(size=shape) * sizes).astype(np.float32).astype(dtype)
