# SPDX-License-Identifier: Apache-2.0
"""Counts that are not private yet, and know by how much one unit can change them.

They keep it as long as NumPy keeps the same cells: in views and parts, copies, other types, pickles
and columns that look at their memory. Arithmetic makes plain arrays, whose sensitivity is another.
No array is known by its address: what says so is the array itself, or who owns its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpfast.errors import ParameterError
from dpfast.noise.release.layout import overlaps_itself

if TYPE_CHECKING:
    from dpfast.privacy.sensitivity import Sensitivity

AT_PLACES = "__getitem__", "take", "compress"
SAME_CELLS = "copy", "__copy__", "__deepcopy__", "astype", "reshape", "ravel", "flatten", *AT_PLACES


class Origin:
    """What counts know of themselves: what noise must hide, and how they were counted.

    cells: how many were counted together, once they are an array.
    """

    cells: int | None = None

    def __init__(self, sensitivity: Sensitivity) -> None:
        self.sensitivity = sensitivity

    def named(self, _: Any, /) -> Mapping[str, str]:
        """The terms of a seal of these counts under a release key.

        Raises: ParameterError (this key must not seal them).
        """
        return {}

    def change(self, cells: int) -> Sensitivity:
        """By how much one unit can change so many of the cells, never more than all of them.

        How many keys occur is private, so counts of private keys are taken whole.
        """
        whole = self.sensitivity
        if whole.keys == "private" or whole.contributes is None or whole.l0 is None or cells >= whole.l0:
            return whole
        return whole.of_sums(max(cells, 1), 1)


class Twice(Origin):
    """The origin of cells among which one is taken twice."""

    def change(self, _: int) -> Sensitivity:
        raise ParameterError(
            "values must contain each cell of the counts once, because one unit moves all that are taken of it: release the "
            "counts, and take cells of the result"
        )


class BoundedTotal(int):
    """One count or sum. Arithmetic makes plain numbers."""

    origin: Origin | None = None


def bounded_total(value: int, sensitivity: Sensitivity) -> BoundedTotal:
    made = BoundedTotal(value)
    made.origin = Origin(sensitivity)
    return made


class BoundedCounts(np.ndarray[Any, np.dtype[np.int64]]):
    """An array of counts that are not private yet; `bounded` makes one.

    It owns its memory, so it is among the bases of each view, also of a plain one.
    """

    origin: Origin | None = None  # a view has none: it asks the array that owns the memory

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """What arithmetic makes is plain."""
        if out:
            options["out"] = tuple(map(_plain, out))
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return found if not out else out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """What other functions of NumPy make is plain, unless its cells are the same."""
        found = super().__array_function__(function, types, arguments, options)
        return _plain(found) if origin_of(found) is None else found

    def __reduce__(self) -> tuple[object, ...]:
        return (bounded, (_plain(self), found)) if (found := origin_of(self)) else (_plain, (_plain(self),))


def _same_cells(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of arrays whose result has the same cells, or some of them."""

    @wraps(method)
    def keeping(self: BoundedCounts, *arguments: Any, **options: Any) -> Any:
        found = method(self, *arguments, **options)
        if not isinstance(found, BoundedCounts) or any(found is each for each in (*arguments, *options.values())):
            return found  # a number; or what the caller gave to be written, which knows its own
        if type(found.base) is np.ndarray:  # cells at places: a plain view would look at this base
            found = np.ndarray.copy(found)
        if (origin := origin_of(self)) is None:
            return found
        if method.__name__ in AT_PLACES and found.base is None:
            places = method(np.arange(self.size).reshape(self.shape), *arguments, **options)
            if np.unique(places).size < places.size:
                origin = Twice(origin.sensitivity)
        if found.base is None or origin_of(found) is None:
            found.origin = origin
        return found

    return keeping


for _name in SAME_CELLS:
    setattr(BoundedCounts, _name, _same_cells(getattr(np.ndarray, _name)))


def bounded(counts: npt.NDArray[Any], origin: Origin) -> BoundedCounts:
    """A copy that nobody writes."""
    made = BoundedCounts(counts.shape, counts.dtype)
    made[...] = counts
    made.origin = origin
    if origin.cells is None:  # else it is a part that was pickled
        origin.cells = made.size
    made.flags.writeable = False
    return made


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, BoundedCounts) else value


def origin_of(values: Any) -> Origin | None:
    """What values know of themselves, or the array that owns their memory does; else None."""
    while values is not None:
        if type(values) is np.ndarray:  # first, as it is the usual one
            values = values.base
        elif isinstance(values, (BoundedCounts, BoundedTotal)) and values.origin is not None:
            return values.origin
        elif isinstance(values, (np.ndarray, memoryview)):
            values = values.obj if isinstance(values, memoryview) else values.base
        else:
            values = _looked_at(values)
    return None


def _looked_at(values: Any) -> Any:
    """The array at whose memory a Series of pandas looks, or a window of NumPy's; else None."""
    found = values.base if type(values).__name__ == "DummyArray" else None
    axes = getattr(values, "ndim", None)  # Spark answers with a column, which has no truth value
    if type(axes) is int and axes == 1 and hasattr(values, "values"):
        found = values.values
    return found if isinstance(found, np.ndarray) else None


def refuse_less(values: Any, mechanism: Any) -> None:
    """Refuse counts whose change the mechanism's noise does not hide.

    Raises: ParameterError. It depends on public numbers alone.
    """
    found = origin_of(values)
    if found is not None:
        mechanism._refuse_less(change_of(values, found))  # noqa: SLF001  the counts' own door


def change_of(values: Any, origin: Origin) -> Sensitivity:
    """By how much one unit can change these values, of counts of this origin.

    Raises: ParameterError (a cell is among them twice).
    """
    if isinstance(values, np.ndarray) and overlaps_itself(values):
        origin = Twice(origin.sensitivity)
    return origin.change(np.size(values))
