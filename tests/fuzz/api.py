# SPDX-License-Identifier: Apache-2.0
"""The public API: any call with some arguments in the places of good ones.

Only dpfast's errors may come, nothing private may be told, a failed call leaves `out` alone and is
not charged (tests/hostile.py), and a release of many cells never returns them as they were.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from doors import PRIVATE, SEEN, Call, surface
from hostile import HOSTILE, hostile, outcome

import dpfast
from fuzz import Finding
from fuzz.choices import Choices

FRESH = 400  # calls before all objects are made anew, so that a finding rests on few earlier calls
DTYPES = [
    "i8", "i8", "f8", "f8", "i1", "u1", "i2", ">i4", "u4", "u8", ">i8", "f4", ">f8", "f2", "?", "c16", "S3", "U2", "O",
]  # fmt: skip
SHAPES = [(), (0,), (1,), (3,), (3,), (64,), (256,), (4, 5), (0, 3), (2, 3, 4), (300, 1)]
MANY = 200  # cells that cannot all keep their value by chance


class Target:
    def __init__(self, folder: Path) -> None:
        self._home, self._folder, self._calls, self._done = folder, folder, [], 0

    def seeds(self) -> Iterator[bytes]:
        many = len(self._surface())
        for call in range(many):
            yield bytes([call % 256, call // 256, 1, 0, 0, call % 7, 3, 1, 2, 3, 4, 5])
            yield bytes([call % 256, call // 256, 2, 0, 1, call % 5, 9, 1, 0, 2, 3, 6, 200, 100, 50])

    def __call__(self, data: bytes) -> None:
        calls = self._surface()
        with self._inside():
            self._try(calls, Choices(data))

    def _try(self, calls: list[Call], chosen: Choices) -> None:
        call = calls[int.from_bytes(chosen.take(2), "little") % len(calls)]
        changed: dict[str, Any] = {}
        for _ in range(chosen.below(4)):
            name = call.fuzzed[chosen.below(len(call.fuzzed))]
            changed[name] = self._argument(chosen, name, call)
        arguments = call.arguments(**changed)
        data_of = call.data
        if data_of and "out" not in changed and chosen.below(4) == 1:
            arguments["out"] = arguments[data_of]
        before = np.array(arguments[data_of], copy=True) if data_of and _plain(arguments[data_of]) else None
        result: list[Any] = []
        watched = call._replace(function=_kept(call.function, result))
        wrong, _ = outcome(watched, arguments)
        if wrong:
            raise Finding(f"{call.name}: {wrong}")
        if before is not None and result and _unnoised(before, result[0], arguments):
            raise Finding(f"{call.name}: returned the values without noise")

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Files go to a folder of their own: a ledger may be named by any text."""
        before = tempfile.tempdir
        tempfile.tempdir = str(self._folder)
        try:
            with contextlib.chdir(self._folder):
                yield
        finally:
            tempfile.tempdir = before

    def _surface(self) -> list[Call]:
        if self._done % FRESH == 0:
            for old in self._home.iterdir():
                shutil.rmtree(old, ignore_errors=True)
            folder = self._home / str(self._done)
            folder.mkdir()
            self._folder = folder
            with self._inside():
                self._calls = [call for call in surface(folder) if call.fuzzed]
        self._done += 1
        return self._calls

    def _argument(self, chosen: Choices, name: str, call: Call) -> Any:
        kind = chosen.below(5)
        if kind == 0:
            return hostile(name, sorted(HOSTILE)[chosen.below(len(HOSTILE))])
        if kind == 1 and (name in PRIVATE or name == "out"):
            return self._array(chosen)
        if kind == 3:
            return call.good[name]()
        if kind != 2 and name in PRIVATE:
            return self._array(chosen)
        made = chosen.text() if kind == 2 else chosen.number()
        # A message may show what is public: it must not look like a private value.
        return call.good[name]() if name not in PRIVATE and SEEN.search(str(made)) else made

    def _array(self, chosen: Choices) -> Any:
        dtype, shape = np.dtype(chosen.pick(DTYPES)), chosen.pick(SHAPES)
        size = int(np.prod(shape))
        raw = chosen.take(1 + chosen.below(64))
        if dtype.kind in "OSU":
            made = np.resize(np.array([chosen.number(), chosen.text(), None], object), shape)
            return (
                made
                if dtype.kind == "O"
                else made.astype(str).astype(dtype, casting="unsafe")
                if dtype.kind == "U"
                else made
            )
        cells = np.resize(np.frombuffer(raw, np.uint8), size * dtype.itemsize)
        return (cells % 2 == 1 if dtype.kind == "b" else cells.view(dtype)).reshape(shape)


def _plain(values: Any) -> bool:
    return type(values) is np.ndarray and values.dtype.kind in "iuf" and values.size >= MANY


def _kept(function: Any, result: list[Any]) -> Any:
    """The function, whose result is looked at afterwards. Its signature stays the same."""
    import functools

    @functools.wraps(function)
    def kept(*given: Any, **named: Any) -> Any:
        result.append(function(*given, **named))
        return result[0]

    if isinstance(getattr(function, "__self__", None), dpfast.Ledger):
        kept.__self__ = function.__self__  # type: ignore[attr-defined]
    return kept


def _unnoised(before: Any, result: Any, arguments: dict[str, Any]) -> bool:
    """Public bounds may pin every cell; then nothing is said."""
    if any(arguments.get(name) is not None for name in ("lower", "upper", "clamp", "missing", "dtype")):
        return False
    if not isinstance(result, np.ndarray) or result.shape != before.shape or result.dtype.kind not in "iuf":
        return False
    if before.dtype.kind in "iu" and (np.abs(before.astype(float)) > 2**62).any():
        return False  # saturated
    if before.dtype.kind == "f" and (np.spacing(np.abs(before)) > 1).any():
        return False  # rounded away
    return bool((result == before).mean() > 0.9)
