# SPDX-License-Identifier: Apache-2.0
"""What every kind of input file has: pieces, chosen columns, and messages that quote no cell.

Messages name the file, the column, a type or a rule, never the content or the place of a cell. So
they never repeat pyarrow's messages, which quote cells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from blake3 import blake3

from dpfast.app.tables.csv_text import Records
from dpfast.app.tables.held import NO_MEMORY
from dpfast.app.tables.numbers import EXACT
from dpfast.app.tables.streams import Form, State, states, what_is
from dpfast.errors import DpfastError, FileError, ParameterError, UnusableValuesError
from dpfast.noise.release.arrays import CountArray, RealArray

Column: TypeAlias = CountArray | RealArray

OTHER_LAWS = {  # the mechanisms for a kind of number that the chosen one refuses
    "integer": ": for counts there are discrete-laplace and discrete-gaussian",
    "floating": ": for real values there are laplace and gaussian",
}


@dataclass(frozen=True)
class Piece:
    """Some rows of a table, or elements of an array.

    weight: their share of the file in bytes. counts: the chosen cells. rows: all cells. text: the
    bytes of the file that hold the cells that pass, where a format has them apart.
    """

    weight: float
    counts: list[Column]
    rows: pa.RecordBatch | Records | None = None
    text: bytes = b""


class Passing(Protocol):
    """A digest of what passes without noise, as it is read."""

    def update(self, piece: Piece) -> None: ...

    def digest(self) -> bytes: ...


class PassingText:
    """The bytes of a text that pass; an array has none."""

    def __init__(self) -> None:
        self._found = blake3()

    def update(self, piece: Piece) -> None:
        self._found.update(piece.text)

    def digest(self) -> bytes:
        return self._found.digest()


class Source(Protocol):
    """An input file that is open, with checked columns.

    chosen: the names of the chosen columns, in the file's order. dtypes: those of their noisy
        cells: int64, or the real type of each column. passed: the names of the other columns.
    notes: the names of the metadata that no type needs. needed: of those that pass in any case, and
        may hold anything. size: bytes, if it is known.
    """

    path: Path
    form: Form
    size: int | None
    schema: pa.Schema
    places: list[int]
    chosen: list[str]
    dtypes: list[np.dtype[Any]]
    passed: Sequence[str]
    notes: Sequence[str]
    needed: Sequence[str]

    def pieces(self) -> Iterator[Piece]: ...

    def passing(self) -> Passing: ...

    def rest(self) -> bytes:
        """What OUT depends on beside the pieces' cells, or a digest of it."""

    @property
    def earlier(self) -> Callable[[], bytes] | None:
        """What makes the digest that earlier seals have of all this; None: it is as theirs."""


class Wanted(NamedTuple):
    """What a release takes from a file, as `open_source` is told.

    within: whether a clamp lies within 2**53, up to where a double holds every whole number.
    """

    columns: Sequence[str]
    real: bool = False
    missing: int | bool | None = None
    sort_by: Sequence[str] = ()
    dtype: np.dtype[Any] | None = None
    within: bool = False


@contextmanager
def cells_decide(form: str) -> Iterator[None]:
    """Within, a refusal of a column by its name or type is private where cells decide these."""
    try:
        yield
    except ParameterError as error:
        if form != "JSON lines":
            raise
        raise UnusableValuesError(str(error)) from None


@contextmanager
def reading(path: Path, form: Form, paths: Sequence[Path] = (), before: State = None) -> Iterator[None]:
    """Turn what can go wrong into messages.

    paths, before: the files, and their states when they were opened. A change is said before what
    else it may have led to.
    """
    try:
        yield
        error: Exception | None = None
    except (DpfastError, pa.ArrowException, OSError, ValueError, MemoryError) as caught:
        error = caught
    what = what_is(path)
    if before is not None and _now(paths) != before:
        raise FileError(f"{what} has changed while it was read; OUT was not written") from None
    if isinstance(error, DpfastError):
        raise error
    if isinstance(error, MemoryError):  # pyarrow's is an ArrowException, too
        raise FileError(f"cannot read {what}: {NO_MEMORY}") from None
    if isinstance(error, OSError) and error.errno:
        raise FileError(f"cannot read {what}: {os.strerror(error.errno)}") from None
    if error is not None:
        raise FileError(f"{what} is not a whole {form.format} file: damaged, cut short or misnamed") from None


def _now(paths: Sequence[Path]) -> State:
    with suppress(OSError):
        return states(paths)
    return ()


def places(names: Sequence[str], columns: Sequence[str], there: str, option: str = "--column") -> list[int]:
    """Return the places of columns, in the file's order. there: what a message says there is."""
    unknown = [column for column in columns if column not in names]
    if unknown or not columns:
        what = f"no column is named {unknown[0]!r:.80}" if unknown else f"{option} must be given for a table"
        raise ParameterError(f"{what}; {there:.500}")
    for column in columns:
        if names.count(column) > 1:
            raise ParameterError(f"{option} must name one column, and {names.count(column)} are named {column!r:.80}")
    return sorted(map(names.index, columns))


def divided(names: Sequence[str], places: Sequence[int]) -> tuple[list[str], Sequence[str]]:
    """Return the names of the chosen columns, and of the others."""
    return [names[place] for place in places], [name for i, name in enumerate(names) if i not in set(places)]


def sorting(names: Sequence[str], chosen: Sequence[str], sort_by: Sequence[str], there: str) -> list[int]:
    """Return the places of the columns that give the order of rows."""
    if len(set(sort_by)) < len(sort_by):
        raise ParameterError("--sort-by must name each column once")
    if set(sort_by) & set(chosen):
        raise ParameterError("--sort-by must name columns that pass through: the order of one to be noised is private")
    return [place for name in sort_by for place in places(names, [name], there, "--sort-by")]


def usable(what: str, is_integer: bool, is_real: bool, real: bool, held: object) -> None:
    """Refuse a type that the mechanism cannot use, and name the mechanisms that can."""
    if is_real if real else is_integer:
        return
    wanted = "float32 or float64" if real else "integers"
    hint = OTHER_LAWS["integer"] if real and is_integer else OTHER_LAWS["floating"] if is_real else ""
    raise ParameterError(f"{what} must contain {wanted}, but contains {held}{hint}")


def reals(what: str, values: RealArray, wanted: Wanted, *, rounded: bool = True) -> RealArray:
    """Real values, if they are what a mechanism takes. rounded: from other numbers, to doubles.

    Beyond 2**53 two whole numbers may come to lie farther apart so than they did. Ends of a clamp
    below it take them in.

    Raises: UnusableValuesError.
    """
    is_number = np.isfinite(values)
    if not wanted.missing and not is_number.all():
        raise UnusableValuesError(
            f"{what} contains NaN, an infinity, a null or an empty cell: --missing would put a public number in their place"
        )
    if rounded and not wanted.within and (is_number & (np.abs(values) >= EXACT)).any():
        raise UnusableValuesError(
            f"{what} must contain numbers below 2**53, because a double rounds larger ones: "
            "--clamp with ends up to 2**53 accepts them, and a float64 column of Parquet or Arrow may hold them"
        )
    return values
