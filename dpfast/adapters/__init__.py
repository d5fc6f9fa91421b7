# SPDX-License-Identifier: Apache-2.0
"""Adapters to other libraries: a file each, on the public API, imported at its first use.

`dpfast.adapters.opendp` and the like; docs/adapters.md has the recipes. Columns and frames need no
import: a release finds their adapter.

>>> import pandas as pd
>>> visits = pd.Series([12, 0], index=["Oslo", "Lima"])
>>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release(visits).index.tolist()
['Oslo', 'Lima']
"""

from __future__ import annotations

import json
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError, UntestedVersionWarning, UnusableValuesError

__all__ = ["allow_untested"]

# The one look upward from mechanisms: who releases what is no NumPy array, by the top-level module
# of its type.
_KINDS = {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}

OFFERS = {"__dlpack__": "dlpack", "__arrow_c_array__": "arrow_capsules", "__arrow_c_stream__": "arrow_capsules"}

_untested = False


def __dir__() -> list[str]:
    return __all__


def allow_untested() -> None:
    """Let adapters take versions of their libraries that dpfast was not tested with.

    This holds from now on, in this process.

    Each such adapter gives an UntestedVersionWarning when it is imported. What hangs on the
    library's insides may fail, or leave noise to the library: look at a release before you rely on
    it.
    """
    global _untested
    _untested = True


def __getattr__(name: str) -> Any:
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(name)


def named(name: str) -> ModuleType:
    """The adapter of that name. Raises: ImportError (its library is not there)."""
    return import_module(f"{__name__}.{name}")


def library(name: str, extra: str, tested: str, *, package: str | None = None) -> ModuleType:
    """The library `name`, if it is there and has a tested version.

    extra: the extra of this package that installs it. tested: such as "0.6", if the releases 0.6.x
    are tested, or ">=2.2", if nothing depends on the library's internals. package: its name on the
    index, if this is another.
    Raises: ImportError, which says what to install. Another version is a warning after
        `allow_untested`.
    """
    from importlib import metadata  # late, because it takes a while

    called = package or name
    try:
        found = import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != name.partition(".")[0]:
            raise  # it is there, and lacks something itself
        raise ImportError(f"{called} is not installed: pip install 'dpfast[{extra}]'", name=name) from None
    version = metadata.version(called)
    if not _within(version, tested):
        known = tested if tested.startswith(">=") else f"{tested}.x"
        adapter = f"dpfast's adapter takes {called} {known}, which it is tested with, and"
        if not _untested:
            raise ImportError(
                f"{adapter} found {version}: pip install 'dpfast[{extra}]'; "
                "dpfast.adapters.allow_untested() accepts it anyway",
                name=name,
            )
        warnings.warn(
            f"{adapter} this is {version}: nobody has checked that its noise comes from dpfast, nor how much of it",
            UntestedVersionWarning,
            stacklevel=2,
        )
    return found


def _within(version: str, tested: str) -> bool:
    wanted = [int(part) for part in tested.removeprefix(">=").split(".")]
    found = [int(part) if part.isdigit() else 0 for part in version.split(".")[: len(wanted)]]
    return found >= wanted if tested.startswith(">=") else found == wanted


class Installer:
    """Puts an adapter in the place of its library's own code, and takes it away again.

    As many calls of `uninstall` as of `install` take it away. put(True) makes the library find our
    code, put(False) its own. A lock guards both, because all threads see one library.
    """

    def __init__(self, put: Callable[[bool], None]) -> None:
        self._put, self._installs = put, 0
        self._lock = threading.RLock()  # a finalizer may call uninstall in the midst of an install

    def install(self) -> None:
        with self._lock:
            self._installs += 1  # first, so that no uninstall in the midst is the last one
            try:
                self._put(True)  # each time, for modules that were imported since
            except BaseException:
                self._installs -= 1
                raise

    def uninstall(self) -> None:
        """Undo one `install`; the last puts theirs back. Raises: ParameterError (no install)."""
        with self._lock:
            if self._installs == 0:
                raise ParameterError("uninstall undoes an install, and there is none")
            self._installs -= 1
            if self._installs == 0:
                self._put(False)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """`install`, and `uninstall` when the block ends, also by an error."""
        self.install()
        try:
            yield
        finally:
            self.uninstall()


def rounded_up(exact: Fraction) -> float:
    """The least double that is not below; infinity beyond the largest double."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if near >= exact else math.nextafter(near, math.inf)


def rounded_down(exact: Fraction) -> float:
    """The greatest double that is not above."""
    return -rounded_up(-exact)


def releaser(values: Any, out: object) -> Callable[..., Any] | None:
    """The release function of an adapter for values that are no NumPy array.

    It is called as f(released, values, options), where `released` is a mechanism's release, which
    it calls with arrays. It is None for what NumPy reads.

    A subclass, wherever it comes from, is of the kind of its base. Raises: ParameterError (out
    given).
    """
    adapter = _adapter(type(values))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    if adapter is None and hasattr(type(values), "columns"):
        raise DTypeError(f"{type(values).__name__} is a frame that no adapter reads: release a column of it")
    if adapter is None:
        return None
    if out is not None:
        raise ParameterError(f"out is for NumPy arrays: a release of {type(values).__name__} makes a new one")
    release: Callable[..., Any] = named(adapter).release
    return release


@lru_cache(maxsize=64)
def _adapter(kind: type) -> str | None:
    if np.ndarray in kind.__mro__:
        return None
    names = (_KINDS.get(base.__module__.partition(".")[0]) for base in kind.__mro__)
    known = next(filter(None, names), None)
    return known or next((OFFERS[name] for name in OFFERS if hasattr(kind, name)), None)


def chosen(columns: Iterable[Any], asked: Any, *, labelled: bool = False, beside: str = "") -> list[int]:
    """The places of the columns of a frame that get noise, in the order asked for.

    columns: the names of all. asked: the names that the caller chose, or None. labelled: whether
        the rows have labels of their own, so that no column needs to be their key. beside: what
        puts the noisy columns into the frame, for the refusal.
    Raises: DTypeError, ParameterError (several columns and none chosen; names that are not those of
        one column each).
    """
    names = list(columns)
    if asked is None:
        if len(names) > 1 and not labelled:
            counts = ", ".join(f"{name!r:.60}" for name in names[1:4]) + ", …" * (len(names) > 4)
            raise ParameterError(
                f"columns must name the columns that get noise, because column {names[0]!r:.60} would get noise too: "
                f"noisy = release(frame, columns=[{counts}]), without any key{beside}"
            )
        return list(range(len(names)))
    if isinstance(asked, (str, bytes)) or not isinstance(asked, Iterable):
        raise DTypeError(f"columns must be a list of names, not {type(asked).__name__}")
    wanted = list(asked)
    if not wanted:
        raise ParameterError("columns must name at least one column")
    for name in wanted:
        if names.count(name) != 1 or wanted.count(name) != 1:
            raise ParameterError(f"columns must name each column once, and one of that name alone, got {name!r:.60}")
    return [names.index(name) for name in wanted]


def jointly(
    released: Callable[..., Any],
    columns: Iterable[Any],
    read: Callable[[Any, object], npt.NDArray[Any]],
    options: dict[str, Any],
    labels: Callable[[], Iterable[Iterable[object]]],
) -> Any:
    """A release of all cells of a frame as one vector: an array of noisy columns.

    columns: those that get noise. read: f(column, missing), the cells of a column. labels: what
        names the rows, then the columns: under a key a cell is sealed with both.
    Columns of several types become the least that holds them all.
    Raises: DTypeError (no columns; integers beside floats, uint64 beside signed integers; what read
        raises, with the column's place); ParameterError (names).
    """
    cells = []
    for place, column in enumerate(columns):
        try:
            cells.append(read(column, options["missing"]))
        except DTypeError as failure:
            raise DTypeError(f"column {place}: {failure}. {NUMBERS}") from None
    if not cells:
        raise DTypeError(f"there is no column. {NUMBERS}")
    kinds = {each.dtype.kind for each in cells}
    gaps = options["missing"] is not None and np.dtype(options["dtype"]).kind in "iu"  # doubles are then counts
    whole = gaps and {str(each.dtype) for each in cells if each.dtype.kind == "f"} == {"float64"} and len(kinds) == 2
    if np.result_type(*cells).kind == "f" and kinds != {"f"} and not whole:
        dtypes = ", ".join(sorted({str(each.dtype) for each in cells}))
        raise DTypeError(f"columns of {dtypes} make no array of one kind. {NUMBERS}")
    if options.get("names") is not None:
        raise ParameterError("names must be left out for a frame: its rows and columns name the cells")
    if options.get("key") is not None:
        rows, across = ([json.dumps(label, default=str) for label in each] for each in labels())
        options["names"] = [f"{column} {row}" for column in across for row in rows]
    options["columns"] = None  # they are chosen
    return released(np.stack(cells), **options)


NUMBERS = (
    "A frame is released as one vector of all its cells, so all are integers, or all are floats: choose these "
    "columns, or release a column alone"
)


def small_enough(fits: bool) -> None:
    """Raises: UnusableValuesError (a whole number of more bits than a count has)."""
    if not fits:
        raise UnusableValuesError("counts must fit int64, and one in a column of more bits does not")


def filler(missing: object, dtype: np.dtype[Any]) -> int:
    """The number that replaces the nulls of a column of integers.

    Raises: DTypeError (no integer); ParameterError (beyond the type); UnusableValuesError (not
        given).
    """
    if missing is None:
        raise UnusableValuesError(
            "counts must not contain nulls; missing=<public integer> replaces them, and gets noise like any count"
        )
    if not isinstance(missing, int):
        raise DTypeError(f"missing must be an int, because the nulls are among {dtype}, not {type(missing).__name__}")
    ends = np.iinfo(dtype)
    if not ends.min <= missing <= ends.max:
        raise ParameterError(f"missing must be of the type of counts, {dtype}, got {missing!s:.40}")
    return missing
