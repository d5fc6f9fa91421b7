# SPDX-License-Identifier: Apache-2.0
"""Hostile arguments in the places of good ones (doors.py), and what a call may do with them."""

from __future__ import annotations

import array
import tempfile
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from doors import PRIVATE, SECRET, SEEN, Call

import dpfast

PUBLIC = 3


class Evil(Exception):  # noqa: N818  no error of its own: what a hostile argument does
    """What a hostile argument raises from its own methods. A call may pass it on."""


# ------------------------------------------------------------------ hostile arguments


def _evil(*_: Any, **__: Any) -> Any:
    raise Evil


class EvilObject:
    __eq__ = __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = __array__ = _evil
    __lt__ = __le__ = __gt__ = __ge__ = __str__ = __repr__ = __format__ = as_integer_ratio = guarantee = _evil
    __hash__ = None  # type: ignore[assignment]


class EvilInt(int):
    __eq__ = __bool__ = __index__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = __str__ = __repr__ = _evil
    __hash__ = int.__hash__


class EvilFloat(float):
    __eq__ = __bool__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = __str__ = __repr__ = _evil
    as_integer_ratio = _evil
    __hash__ = float.__hash__


class EvilText(str):
    __slots__ = ()
    __eq__ = __len__ = strip = encode = isprintable = __str__ = __repr__ = __format__ = _evil
    __hash__ = str.__hash__


class LyingFloat(float):
    """Says that it is 0/0."""

    def as_integer_ratio(self) -> tuple[int, int]:
        return 0, 0


class LyingFraction(Fraction):
    """Its denominator is no number."""

    numerator = denominator = "1"  # type: ignore[assignment]


class LyingInt(int):
    """Says that it is something else."""

    def __int__(self) -> int:
        return 10**6

    __index__ = __int__


class LyingArray:
    """Gives no array where one is asked for."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        return "no array"


class Subclass(np.ndarray):
    def __array_finalize__(self, _: Any) -> None: ...

    __getitem__ = __array_ufunc__ = _evil


class Parameter:
    """Has a dtype that is none."""

    dtype = shape = "garbage"


def _deep(n: int, depth: int) -> Any:
    found: Any = n
    for _ in range(depth):
        found = [found]
    return found


def _memmap(n: int, mode: Any) -> Any:
    path = Path(tempfile.mkdtemp()) / "values"
    path.write_bytes(np.full(5, n, np.int64).tobytes())
    return np.memmap(path, np.int64, mode)


def _read_only(n: int) -> Any:
    found = np.full(5, n)
    found.flags.writeable = False
    return found


def _generator(n: int) -> Iterator[int]:
    yield n


# Each is a function of the number that it holds, public or private: a call may change the argument.
SCALARS: dict[str, Callable[[int], Any]] = {
    **{
        repr(value)[:24]: (lambda _n, value=value: value)
        for value in (
            None, True, False, np.True_, 0, -0.0, -1, 1.5, 1e-9, 0.999999, 5e-324, 1e300, 1.7976931348623157e308, float("nan"),
            float("inf"), -float("inf"), 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**200, -(2**200),
            Fraction(1, 3), Fraction(1, 10**400), Fraction(10**400, 3), Decimal("0.1"), Decimal("NaN"), Decimal("sNaN"),
            Decimal("-Infinity"), Decimal("1e999999"), Decimal("1e-999999"), np.float16(0.1), np.float32("nan"),
            np.float64(0.5), np.longdouble(1) / 3, np.longdouble("1e4000"), np.int8(1), np.uint64(2**64 - 1), np.int64(-1),
            np.datetime64("NaT"), np.timedelta64(1, "s"), 1j, "", "yes", "\udc80", "x\0y", "\x1b[31m", b"", b"1", bytearray(3),
            ..., NotImplemented, float, print, object(), range(3), {}, set(), (), (3,) * 70, (2**40, 2**40), (-1,), (1.5,),
            (None,), "substitution", "exactly",
        )
    },
    "10**5000": lambda _n: 10**5000,
    "-10**5000": lambda _n: -(10**5000),
    "long text": lambda _n: "a" * 100_000,
    "evil object": lambda _n: EvilObject(),
    "evil int": lambda _n: EvilInt(3),
    "evil float": lambda _n: EvilFloat(3),
    "evil text": lambda _n: EvilText("add-remove"),
    "lying float": lambda _n: LyingFloat(3),
    "lying fraction": lambda _n: LyingFraction(3),
    "lying int": lambda _n: LyingInt(3),
    "a parameter": lambda _n: Parameter(),
}  # fmt: skip
ARRAYS: dict[str, Callable[[int], Any]] = {
    "number": lambda n: n,
    "text of it": str,
    "list": lambda n: [n, n + 1, 1],
    "empty list": lambda _n: [],
    "ragged": lambda n: [[n], [n, n]],
    "ragged and deep": lambda n: [n, [n, [n]]],
    "70 deep": lambda n: _deep(n, 70),
    "mixed": lambda n: [n, "a", None],
    "huge": lambda n: [n, 2**70],
    "fractions": lambda n: [Fraction(n, 3), Decimal(n)],
    "no array": lambda _n: LyingArray(),
    "list of evil": lambda n: [n, EvilObject()],
    "list of evil ints": lambda n: [EvilInt(n)],
    "generator": _generator,
    "dict": lambda n: {n: n},
    "set": lambda n: {n},
    "memoryview": lambda n: memoryview(np.full(5, n)),
    "array.array": lambda n: array.array("q", [n] * 5),
    "bytes": lambda _n: b"12345678",
    "read-only": _read_only,
    "read-only map": lambda n: _memmap(n, "r"),
    "private map": lambda n: _memmap(n, "c"),
    "subclass": lambda n: np.full(5, n).view(Subclass),
    "masked": lambda n: np.ma.array([n, n], mask=[0, 1]),
    "matrix": lambda n: np.full((1, 1), n).view(np.matrix),
    "0-d": np.array,
    "scalar": np.float64,
    "broadcast": lambda n: np.broadcast_to(np.int64(n), (4, 5)),
    "strided": lambda n: np.full((6, 4), n).T[::-1, ::2],
    "many axes": lambda n: np.full((1,) * 32, n),
    "no cells": lambda _n: np.zeros((0, 3), np.int64),
    "nan": lambda n: np.array([n, np.nan, np.inf]),
    "inf": lambda _n: np.array([1.0, -np.inf]),
    "ends of int64": lambda _n: np.array([2**63 - 1, -(2**63), 0]),
    "end of uint64": lambda _n: np.array([2**64 - 1, 0], np.uint64),
    "structured": lambda n: np.array([(n, 2.0)], dtype=[("a", int), ("b", float)]),
    "two bools": lambda _n: np.array([True, False]),
    "objects": lambda n: np.array([n, None], object),
    **{
        f"as {kind}": (lambda n, kind=kind: np.array([n, 1, 2]).astype(kind))
        for kind in (
            "i1", "u1", ">i2", "i4", "u4", ">u8", "f2", "f4", ">f4", "f8", ">f8", "longdouble", "?", "c16", "S9", "U9", "O",
            "M8[s]", "m8[ns]", "V8",
        )
    },
}  # fmt: skip
SENSITIVITIES: dict[str, Callable[[int], Any]] = {
    f"sensitivity {i}": (lambda _n, made=made: made)
    for i, made in enumerate(
        (
            dpfast.Sensitivity(2**62, 1e300), dpfast.Sensitivity(1, 5e-324), dpfast.Sensitivity(3, Fraction(1, 3), adjacency="substitution"),
            dpfast.Sensitivity.from_l2(Fraction(1, 10**700)), dpfast.Sensitivity.from_l2(10**1200),
            dpfast.Sensitivity.changes(2**62, Fraction(10**600, 3)),
        )
    )
}  # fmt: skip
HOSTILE = {**SCALARS, **ARRAYS, **SENSITIVITIES}

# ------------------------------------------------------------------ how a call takes them


def hostile(parameter: str, kind: str) -> Any:
    """A hostile argument; what stands for people's data holds SECRET."""
    with np.errstate(all="ignore"):
        return HOSTILE[kind](SECRET if parameter in PRIVATE else PUBLIC)


class Outcome(NamedTuple):
    """How a call took its arguments: what is wrong, and the refusal if it was dpfast's."""

    wrong: str | None = None
    refusal: dpfast.errors.DpfastError | None = None


def outcome(call: Call, arguments: dict[str, Any]) -> Outcome:
    """Make the call and look at what it left.

    Wrong: an exception neither dpfast's nor the argument's own, a private value in a message, an
    `out` changed by a failed call, and a refused call that was charged.
    """
    out, ledger = arguments.get("out"), getattr(call.function, "__self__", None)
    before = out.copy() if type(out) is np.ndarray else None
    spent = _spent(ledger) if isinstance(ledger, dpfast.Ledger) else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflows in a law's figures far out, which are 0 or 1 all the same
            call(arguments)
    except (MemoryError, ImportError, Evil):
        return Outcome(_changed(out, before))
    except dpfast.errors.DpfastError as refusal:
        if SEEN.search(str(refusal)):
            return Outcome(f"tells a private value: {refusal}", refusal)
        if spent is not None and _spent(ledger) != spent:
            return Outcome(f"was charged and refused: {refusal}", refusal)
        return Outcome(_changed(out, before), refusal)
    except Exception as failure:
        return Outcome(f"{type(failure).__name__}: {failure}")
    return Outcome()


_read: dict[Path, tuple[bytes, Any]] = {}


def _spent(ledger: dpfast.Ledger) -> Any:
    """What a ledger says, asked again once SQLite has counted another write of its file."""
    with ledger.path.open("rb") as file:
        file.seek(24)
        writes = file.read(4)  # the file's change counter
    if _read.get(ledger.path, (b"",))[0] != writes:
        _read[ledger.path] = writes, ledger.spent
    return _read[ledger.path][1]


def _changed(out: Any, before: Any) -> str | None:
    """A failed call may leave zeros, a refused one what there was; all else is half done."""
    if before is None or out.tobytes() == before.tobytes() or not out.any():  # objects by address
        return None
    return "changed out and failed"
