# SPDX-License-Identifier: Apache-2.0
"""The whole public surface of dpfast with good arguments, and hostile ones to put in their places."""

from __future__ import annotations

import array
import inspect
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import dpfast

SECRET = 7731907  # in every private argument; its first digits may be in no message
TELLS = "77319"
PUBLIC = 3


class Evil(Exception):
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


# Each a function of the number that it holds: public or private. Fresh every time, for a call may change it.
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
    "0-d": lambda n: np.array(n),
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

# ------------------------------------------------------------------ good arguments

PRIVATE = {"counts", "values", "scores", "answers", "keys", "unit_ids"}  # whatever holds the people's data
FORMAT_1 = Path(__file__).with_name("vectors") / "ledger_format_1.db"
OPTIONS = {
    "out",
    "dtype",
    "lower",
    "upper",
    "clamp",
    "missing",
    "threads",
    "constant_time",
}  # that Ledger.release hands on
OPEN_ENDED = {"ChaCha20.spawn.n_children"}  # a list of 2^62 things may be asked for, and takes its time
REFUSED = {  # by what has such a method for its name alone
    "ChaCha20.jumped", "OneSidedGeometric.dp_event", "OneSidedGeometric.privacy_loss_distribution",
}  # fmt: skip

GOOD: dict[str, Callable[[], Any]] = {
    "adjacency": lambda: "add-remove",
    "answer": lambda: 1,
    "bound": lambda: 8,
    "by": lambda: "basic",
    "cell_variance": lambda: 1,
    "cells": lambda: 2,
    "clamp": lambda: None,
    "confidence": lambda: 0.9,
    "create": lambda: True,
    "constant_time": lambda: False,
    "counts": lambda: np.array([SECRET, SECRET + 1, SECRET + 2]),
    "dataset": lambda: "d",
    "delta": lambda: 1e-6,
    "dtype": lambda: None,
    "epsilon": lambda: 1,
    "falling": lambda: False,
    "granularity": lambda: 2.0**-10,
    "jumps": lambda: 1,
    "k": lambda: [1, 2],
    "key": lambda: None,
    "keys": lambda: ["a", str(SECRET), "c"],
    "domain": lambda: ["a", "b"],
    "label": lambda: "q",
    "law": lambda: "laplace",
    "linf": lambda: 2,
    "l0": lambda: 2,
    "lower": lambda: None,
    "max_partitions": lambda: 2,
    "max_per_partition": lambda: 2,
    "max_records": lambda: 2,
    "missing": lambda: None,
    "monotonic": lambda: False,
    "n": lambda: 10,
    "n_children": lambda: 2,
    "noise": lambda: [0.0, 1.0],
    "noisy": lambda: [1.0, 2.0],
    "number": lambda: 7,
    "out": lambda: None,
    "outside": lambda: "drop",
    "p": lambda: 0.3,
    "also_add_remove": lambda: None,
    "prior": lambda: 0.1,
    "probability": lambda: 0.5,
    "records_per_unit": lambda: "up to",
    "release": lambda: dpfast.Guarantee(0.001, 1e-9),
    "reports": lambda: [0, 1, 1],
    "rho": lambda: None,
    "scale": lambda: 2,
    "scores": lambda: [SECRET, SECRET + 1],
    "secret": lambda: b"x" * 32,
    "seed": lambda: None,
    "sensitivity": lambda: 1,
    "sigma": lambda: 100,
    "sigma_squared": lambda: None,
    "signed": lambda: False,
    "size": lambda: 3,
    "squared": lambda: 2,
    "start": lambda: None,
    "step": lambda: 1,
    "threads": lambda: None,
    "threshold": lambda: 5,
    "total": lambda: 4.0,
    "total_variance": lambda: 1,
    "totals": lambda: [3.0, 7.0],
    "unit": lambda: "person",
    "unit_ids": lambda: ["u", str(SECRET), "u"],
    "upper": lambda: None,
    "values": lambda: np.array([SECRET + 0.5, SECRET + 1.5]),
    "zcdp": lambda: False,
    "buffer": lambda: bytearray(8),
    "value_discretization_interval": lambda: 1e-3,
    "AboveThreshold.run.answers": lambda: [SECRET, SECRET],
    "RandomizedResponse.release.answers": lambda: [0, 1, 1],
    "RandomizedResponse.two_coin.epsilon": lambda: None,
    "RandomizedResponse.categories": lambda: 2,
    "Gaussian.granularity": lambda: None,
    "Laplace.granularity": lambda: None,
    "Ledger.path": lambda: Path(tempfile.mkdtemp()) / "budget.db",
    "Ledger.copy.path": lambda: Path(tempfile.mkdtemp()) / "copy.db",
    "Ledger.upgrade.path": lambda: shutil.copy(FORMAT_1, tempfile.mkdtemp()),
    "Sensitivity.keys": lambda: "public",
    **{
        f"{owner}.release.values": lambda: np.array([SECRET, SECRET + 1])
        for owner in ("DiscreteGaussian", "DiscreteLaplace", "Ledger")
    },
    "Ledger.release.mechanism": lambda: dpfast.DiscreteLaplace(Fraction(1, 1000), 1),
    "Ledger.spend.releases": lambda: dpfast.Guarantee(0.001, 1e-9),
    "DiscreteGaussian.from_zcdp.rho": lambda: 0.1,
    "Gaussian.from_zcdp.rho": lambda: 0.1,
    "consistent.cells": lambda: [[1.0, 2.0], [3.0, 4.0]],
    "bounded_histogram.domain": lambda: None,
    "compose.parts": lambda: dpfast.DiscreteLaplace(1, 1),
    "compose.delta": lambda: None,
    "compose.adjacency": lambda: None,
    "Guarantee.rho": lambda: 0.5,
    "thresholded.sensitivity": lambda: dpfast.Sensitivity(1, 1),
    **{
        f"{law}{way}.sensitivity": lambda: dpfast.Sensitivity(1, 1)
        for law in ("DiscreteGaussian", "Gaussian")
        for way in ("", ".calibrated", ".from_zcdp", ".delta", ".rho", ".dp_event", ".privacy_loss_distribution")
    },
    "dp_event.sensitivity": lambda: None,
    "privacy_loss_distribution.sensitivity": lambda: None,
    "fixed_point_sum.lower": lambda: -5,
    "fixed_point_sum.upper": lambda: 5,
    "fixed_point_sum.values": lambda: np.array([SECRET + 0.5, 1.5]),
    "clip.lower": lambda: 0,
    "RandomizedResponse.two_coin.probability": lambda: 0.5,
    "thresholded.counts": lambda: [SECRET, SECRET, SECRET],
    "thresholded.epsilon": lambda: 5,
}

# ------------------------------------------------------------------ the surface


class Call(NamedTuple):
    """A public callable, with good arguments by the names of its parameters."""

    name: str
    function: Callable[..., Any]
    good: dict[str, Callable[[], Any]]

    @property
    def fuzzed(self) -> list[str]:
        return [name for name in self.good if f"{self.name}.{name}" not in OPEN_ENDED]

    @property
    def data(self) -> str | None:
        """What a release of it would overwrite in place."""
        return next((name for name in ("counts", "values") if name in self.good), None) if "out" in self.good else None

    def arguments(self, **hostile: Any) -> dict[str, Any]:
        """Good ones, but for those given."""
        return {name: hostile[name] if name in hostile else make() for name, make in self.good.items()}

    def __call__(self, arguments: dict[str, Any]) -> Any:
        kinds = inspect.signature(self.function).parameters
        positional, named = [], {}
        for name, value in arguments.items():
            parameter = kinds.get(name)
            if parameter and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                positional.append(value)
            else:
                named[name] = value
        return self.function(*positional, **named)


def hostile(parameter: str, kind: str) -> Any:
    """A hostile argument; what stands for people's data holds SECRET."""
    with np.errstate(all="ignore"):
        return HOSTILE[kind](SECRET if parameter in PRIVATE else PUBLIC)


class Outcome(NamedTuple):
    """How a call took its arguments: what is wrong with that, and the refusal, if it was one of dpfast's."""

    wrong: str | None = None
    refusal: dpfast.DpfastError | None = None


def outcome(call: Call, arguments: dict[str, Any]) -> Outcome:
    """Make the call and look at what it left.

    Wrong are an exception that is neither dpfast's nor the argument's own, a private value in a message, an `out` that
    a failed call has changed, and a refused call that was charged.
    """
    out, ledger = arguments.get("out"), getattr(call.function, "__self__", None)
    before = out.copy() if type(out) is np.ndarray else None
    spent = ledger.spent if isinstance(ledger, dpfast.Ledger) else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of overflows in a law's figures far out, which are 0 or 1 all the same
            call(arguments)
    except (MemoryError, ImportError, Evil):
        return Outcome(_changed(out, before))
    except dpfast.DpfastError as refusal:
        if TELLS in str(refusal):
            return Outcome(f"tells a private value: {refusal}", refusal)
        if spent is not None and ledger.spent != spent:
            return Outcome(f"was charged and refused: {refusal}", refusal)
        return Outcome(_changed(out, before), refusal)
    except Exception as failure:
        return Outcome(f"{type(failure).__name__}: {failure}")
    return Outcome()


def _changed(out: Any, before: Any) -> str | None:
    """A call that fails may leave zeros; one that is refused leaves what there was. Anything else is a half-done release."""
    if before is None or np.array_equal(out, before, equal_nan=out.dtype.kind == "f") or not out.any():
        return None
    return "changed out and failed"


def _objects(folder: Path) -> dict[str, Any]:
    """One object of each public class that has methods."""
    return {
        "AboveThreshold": dpfast.AboveThreshold(1, 1, threshold=10 * SECRET),
        "ChaCha20": dpfast.ChaCha20(),
        "DiscreteGaussian": dpfast.DiscreteGaussian(100, sensitivity=dpfast.Sensitivity(1, 1)),
        "DiscreteLaplace": dpfast.DiscreteLaplace(1, 1),
        "Exponential": dpfast.Exponential(1, 1),
        "Gaussian": dpfast.Gaussian(100, sensitivity=dpfast.Sensitivity(1, 1)),
        "Guarantee": dpfast.Guarantee(1, rho=0.5),
        "Key": dpfast.Key.generate(),
        "Laplace": dpfast.Laplace(1, 1),
        "Ledger": dpfast.Ledger(folder / "fuzzed.db", 10**9, delta=Fraction(1, 2), create=True),
        "NoisyMax": dpfast.NoisyMax(1, 1),
        "OneSidedGeometric": dpfast.OneSidedGeometric(1, 1),
        "PermuteAndFlip": dpfast.PermuteAndFlip(1, 1),
        "RandomizedResponse": dpfast.RandomizedResponse(1, 2),
        "ReleaseKey": dpfast.Key.generate().derive("fuzzed"),
        "Sensitivity": dpfast.Sensitivity(1, 1),
        "Snapping": dpfast.Snapping(1, 1, bound=8),
    }


# Results and protocols, which nobody calls; errors; adapters, which need other libraries and have tests of their own.
NOT_CALLED = {"BoundedHistogram", "Thresholded", "NoiseSource", "adapters", "Geometric"}
# Of ReleaseKey what is made by mechanisms alone, of ChaCha20 what NumPy calls, and what takes any arguments and refuses.
NOT_FUZZED = {
    "ReleaseKey.part", "ReleaseKey.name", "ReleaseKey.stream_key", "ChaCha20.cffi", "ChaCha20.ctypes", "ChaCha20.random_raw",
    "Key.from_bytes.secret",
}  # fmt: skip


def surface(folder: Path) -> list[Call]:
    """Everything public that can be called. A parameter without a good argument is an error: give it one in GOOD."""
    found: dict[str, Callable[..., Any]] = {}
    objects = _objects(folder)
    for name in dpfast.__all__:
        thing = getattr(dpfast, name)
        if name in NOT_CALLED or isinstance(thing, type) and issubclass(thing, (Exception, Warning)):
            continue
        if isinstance(thing, ModuleType):
            found |= {each: getattr(thing, each) for each in thing.__all__ if inspect.isfunction(getattr(thing, each))}
            continue
        found[name] = thing
        if isinstance(thing, type):
            of = objects[name]
            for method in dir(thing):
                kind = inspect.getattr_static(thing, method)
                if not method.startswith("_") and (callable(kind) or isinstance(kind, (classmethod, staticmethod))):
                    found[f"{name}.{method}"] = getattr(of, method)
    return [
        Call(name, function, _good(name, function))
        for name, function in found.items()
        if name not in NOT_FUZZED and _parameters(function)
    ]


def _parameters(function: Callable[..., Any]) -> list[str]:
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += sorted(OPTIONS) if function.__qualname__ == "Ledger.release" else []
        elif not name.startswith("_"):
            found.append(name)
    return found


def _good(name: str, function: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    found = {}
    for parameter in _parameters(function):
        keys = [f"{name}.{parameter}", f"{name.rpartition('.')[2]}.{parameter}", parameter]
        key = next((key for key in keys if key in GOOD), None)
        assert key is not None, f"{name} has a parameter {parameter} for which no good argument is known"
        found[parameter] = GOOD[key]
    return found
