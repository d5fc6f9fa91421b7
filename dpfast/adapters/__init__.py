# SPDX-License-Identifier: Apache-2.0
"""Plugs into other libraries: a file each, on the public API, imported at its first use.

`dpfast.adapters.opendp` and the like; docs/plugging_in.md has the recipes.
"""

from __future__ import annotations

import math
import threading
import warnings
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.errors import DTypeError, ParameterError, UntestedVersionWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction
    from types import ModuleType

# The one look upward from mechanisms: who releases what is no NumPy array, by the top-level module of its type.
_KINDS = {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}


_untested = False


def allow_untested() -> None:
    """From here on, let plugs take versions of their libraries that dpfast was not tested with, in this process.

    Each such plug gives an UntestedVersionWarning when it is imported. What hangs on the library's insides may then fail,
    or leave noise to the library: look at a release before you rely on it.
    """
    global _untested
    _untested = True


def __getattr__(name: str) -> Any:
    from importlib.util import find_spec

    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def library(name: str, extra: str, tested: str, *, package: str | None = None) -> ModuleType:
    """The library `name`, if it is there and of a tested version.

    extra: of this package, that installs it. tested: such as "0.6", whose releases 0.6.x are the tested ones, or
    ">=2.2", where nothing hangs on the library's insides. package: its name on the index, where it is another.
    Raises: ImportError, which says what to install. Another version is a warning after `allow_untested`.
    """
    from importlib import metadata  # late, for it takes a while

    called = package or name
    try:
        found = import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != name.partition(".")[0]:
            raise  # it is there, and lacks something itself
        raise ImportError(f"{called} is not installed: pip install 'dpfast[{extra}]'", name=name) from None
    version = metadata.version(called)
    if not _within(version, tested):
        plug = f"dpfast plugs into {called} {tested}{'' if tested.startswith('>=') else '.x'}, which it is tested with, and"
        if not _untested:
            raise ImportError(
                f"{plug} found {version}: pip install 'dpfast[{extra}]'; "
                "dpfast.adapters.allow_untested() takes it all the same",
                name=name,
            )
        warnings.warn(
            f"{plug} this is {version}: nobody has checked that its noise comes from dpfast, nor how much of it",
            UntestedVersionWarning,
            stacklevel=2,
        )
    return found


def _within(version: str, tested: str) -> bool:
    wanted = [int(part) for part in tested.removeprefix(">=").split(".")]
    found = [int(part) if part.isdigit() else 0 for part in version.split(".")[: len(wanted)]]
    return found >= wanted if tested.startswith(">=") else found == wanted


class Installer:
    """What puts a plug in the place of its library's own, as often as it is asked to, and takes it away again.

    put(True) has the library find ours, put(False) theirs; under a lock, for all threads see the same library.
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
        """Undo one `install`; the last one puts theirs back.

        Raises: ParameterError (there was none to undo).
        """
        with self._lock:
            if self._installs == 0:
                raise ParameterError("uninstall undoes an install, and there is none")
            self._installs -= 1
            if self._installs == 0:
                self._put(False)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """`install`, and `uninstall` at the end, however it comes."""
        self.install()
        try:
            yield
        finally:
            self.uninstall()


def rounded_up(exact: Fraction) -> float:
    """The least double not below; infinite beyond the largest."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if near >= exact else math.nextafter(near, math.inf)


def releaser(values: Any, out: object) -> Callable[..., Any] | None:
    """What releases values of a kind that is no NumPy array: f(released, values, options). None for what NumPy reads.

    released: a mechanism's release, which f calls with arrays.

    A subclass, wherever it comes from, is of the kind of its base. Raises: ParameterError (out given).
    """
    adapter = _adapter(type(values))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    if adapter is None:
        return None
    if out is not None:
        raise ParameterError(f"out is for NumPy arrays: a release of {type(values).__name__} makes a new one")
    release: Callable[..., Any] = import_module(f"dpfast.adapters.{adapter}").release
    return release


@lru_cache(maxsize=64)
def _adapter(kind: type) -> str | None:
    if np.ndarray in kind.__mro__:
        return None
    names = (_KINDS.get(base.__module__.partition(".")[0]) for base in kind.__mro__)
    return next(filter(None, names), "dlpack" if hasattr(kind, "__dlpack__") else None)


def filler(missing: object, dtype: np.dtype[Any]) -> int:
    """What stands for the nulls of a column of integers, of that type.

    Raises: DTypeError (no integer), ParameterError (not given, or beyond the type).
    """
    if missing is None:
        raise ParameterError(
            "counts must not hold nulls; missing=<public integer> stands for them, and gets noise like any count"
        )
    if not isinstance(missing, int):
        raise DTypeError(f"missing must be an int, for the nulls are among {dtype}, not {type(missing).__name__}")
    ends = np.iinfo(dtype)
    if not ends.min <= missing <= ends.max:
        raise ParameterError(f"missing must be of the type of counts, {dtype}, got {missing!s:.40}")
    return missing
