# SPDX-License-Identifier: Apache-2.0
"""The audited function: found by name, and its outputs checked at each call."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.formatting import output

Outputs: TypeAlias = "npt.NDArray[np.int64] | npt.NDArray[np.float64]"
Function: TypeAlias = Callable[..., Any]
Progress: TypeAlias = Callable[[str], None]
DRAWS = 2_000_000  # for each count, by default
LEAST_DRAWS = 200
CALL = 2**18  # draws asked for in one call
LONG = 20  # seconds


def load(target: str, name: str = "target") -> Function:
    """Load MODULE:FUNCTION; MODULE is an importable name, or a file.py. Raises: ParameterError.

    name: what messages call it.
    """
    module, _, function = target.rpartition(":")
    if not module or not function:
        raise ParameterError(f"{name} must be MODULE:FUNCTION, such as my_noise:add or my_noise.py:add, got {target}")
    try:
        found: Any = _module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ParameterError(f"{name} {target} cannot be loaded: {_said(error)}") from error
    if not callable(found):
        raise ParameterError(f"{name} {target} must be a function, not {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _module(name: str) -> object:
    if not name.endswith(".py"):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # its own imports
    spec.loader.exec_module(module)
    return module


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error!s:.200}".rstrip(": ")


def needed(function: Function) -> int:
    """How many arguments it needs by place; 0 if it does not say."""
    try:
        takes = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # one in C that does not say
        return 0
    by_place = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return len([each for each in takes if each.kind in by_place and each.default is each.empty])


class Audited:
    """The function, its outputs checked, and how long it takes. real: its array is float64."""

    def __init__(self, function: Function, n: int, progress: Progress | None, *, real: bool = False) -> None:
        if not callable(function):
            raise DTypeError(
                f"function must be callable as function(counts) or function(count, n), not {type(function).__name__}"
            )
        if isinstance(n, bool) or not isinstance(n, int) or n < LEAST_DRAWS:
            raise ParameterError(f"n must be a whole number of at least {LEAST_DRAWS}, got {n!s:.40}")
        self.n = n  # draws for each count
        self.function = partial(_on_array, function, real) if needed(function) == 1 else function
        self.say: Progress = progress or (lambda _: None)
        self.began = time.monotonic()
        self.drawing, self.drawn = 0.0, 0  # seconds, outputs

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 3)

    def draw(self, count: float, n: int) -> Outputs:
        return cast("Outputs", np.concatenate(list(self.calls(count, n))))

    def calls(self, count: float, n: int) -> Iterator[Outputs]:
        """Yield n outputs, CALL at a time."""
        for start in range(0, n, CALL):
            yield self._call(count, min(CALL, n - start))

    def announce(self, n: int) -> None:
        """Say how long so many more draws will take, if long."""
        ahead = self.drawing / max(1, self.drawn) * n
        if ahead > LONG:
            self.say(f"some {ahead:,.0f} seconds of drawing ahead; n a tenth as large would take a tenth")

    def _call(self, count: float, n: int) -> Outputs:
        began = time.monotonic()
        try:
            given = self.function(count, n)
            found = np.asarray(given if hasattr(given, "__len__") else list(given))
        except Exception as error:
            raise ParameterError(
                f"the audited function failed for count {output(count)} and {n:,} outputs: {_said(error)}"
            ) from error
        self.drawing += time.monotonic() - began
        self.drawn += n
        if found.shape != (n,):
            raise ParameterError(
                f"the audited function must return n outputs, one for each draw: asked for {n:,}, got shape {found.shape}"
            )
        return _plain(found)


def _on_array(function: Function, real: bool, count: float, n: int) -> Any:
    return function(np.full(n, count, np.float64 if real or isinstance(count, float) else np.int64))


def _plain(found: npt.NDArray[Any]) -> Outputs:
    """Outputs as int64 or float64: post-processing, which can hide a defect but makes none."""
    if found.dtype.kind in "bi" or (found.dtype.kind == "u" and (found.itemsize < 8 or found.max() < 2**63)):
        return found.astype(np.int64)
    try:
        real = found.astype(np.float64) if found.dtype.kind in "ufO" else None
    except (TypeError, ValueError, OverflowError):
        real = None
    if real is None:
        raise ParameterError(f"the audited function must return real numbers, not {found.dtype}")
    if np.isnan(real).any():
        raise ParameterError("the audited function returned NaN: outputs must be numbers")
    return real
