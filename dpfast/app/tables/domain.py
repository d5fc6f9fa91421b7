# SPDX-License-Identifier: Apache-2.0
"""Public domains: the keys that a column can have, from a file of lines or from a list.

A domain is public, so messages quote its lines.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dpfast.errors import FileError, ParameterError

MOST = 1 << 26  # cells of a table
WHOLE = re.compile(r"-?[1-9][0-9]*|0")
RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
BOOLS = {"true": True, "false": False}
HELD = "texts, whole numbers, true and false, dates or timestamps"


class Domain(NamedTuple):
    """The keys of a column in their order.

    where: how messages name each, "line 3 of cities.txt". file: that of the lines.
    """

    texts: list[str]
    where: list[str]
    file: Path | None = None

    def with_text(self, text: str, where: str) -> Domain:
        """With this key at the end, if it is none of them."""
        return self if text in self.texts else self._replace(texts=[*self.texts, text], where=[*self.where, where])

    def without(self, text: str) -> Domain:
        kept = [i for i, each in enumerate(self.texts) if each != text]
        return self._replace(texts=[self.texts[i] for i in kept], where=[self.where[i] for i in kept])

    def typed(self, column: str, kind: pa.DataType) -> pa.Array:
        """The keys as a column of this type holds them. Raises: ParameterError."""
        for text, where in zip(self.texts, self.where, strict=True):
            if (kinds.is_boolean(kind) and text not in BOOLS) or (kinds.is_integer(kind) and not WHOLE.fullmatch(text)):
                raise _unlike(text, where, column, kind)
        try:
            return self.cast(kind)
        except (pa.ArrowInvalid, OverflowError):
            for text, where in zip(self.texts, self.where, strict=True):
                try:
                    self._replace(texts=[text], where=[where]).cast(kind)
                except (pa.ArrowInvalid, OverflowError):
                    raise _unlike(text, where, column, kind) from None
            raise

    def cast(self, kind: pa.DataType) -> pa.Array:
        """Raises: pa.ArrowInvalid, OverflowError; ParameterError (two texts of one moment)."""
        if kinds.is_boolean(kind):
            return pa.array([BOOLS[text] for text in self.texts])
        if kinds.is_integer(kind):
            return pa.array([int(text) for text in self.texts], kind)
        keys = pa.array(self.texts, pa.string()).cast(kind)
        if is_moment(kind):  # whose texts may differ, and it may not
            _refuse_equal(numbers(keys).to_pylist(), self.texts, self.where)
        return keys


def cells_of(kind: pa.DataType) -> pa.DataType:
    """That of the categories, where a column has these."""
    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return pa.string() if kinds.is_string_view(kind) else kind


def as_texts(cells: pa.Array) -> pa.Array:
    """Cells as OUT writes them: moments as ISO 8601 does."""
    texts = cells.cast(pa.string())
    return pc.replace_substring(texts, " ", "T") if is_moment(cells.type) else texts


def numbers(keys: pa.Array) -> pa.Array:
    """Dates and timestamps as the integers that they are kept in."""
    return keys.cast(pa.int32() if kinds.is_date32(keys.type) else pa.int64())


def _unlike(text: str, where: str, column: str, kind: pa.DataType) -> ParameterError:
    return ParameterError(f"{where} must be {_form(kind)}, because column {column!r} contains {kind}, got {text!r:.80}")


def domain_of(text: str, option: str) -> Domain:
    """The keys that an option names. text: a file; or A,B,C, or A, for one; or 1..12.

    Raises: FileError (no such file), ParameterError (a line that breaks a rule).
    """
    if found := RANGE.fullmatch(text):
        low, high = map(int, found.groups())
        if not 0 <= high - low < MOST:
            raise ParameterError(
                f"{option} must be a range from the lower to the upper end, of at most {MOST:,} keys, got {text}"
            )
        keys = [str(i) for i in range(low, high + 1)]
        return Domain(keys, [f"{key!r} of {option}" for key in keys])
    listed, alone = "," in text, text.removesuffix(",")
    if listed and os.path.isfile(text):  # noqa: PTH113  it never raises, for a name that is too long either
        raise ParameterError(
            f"{option} is a list, because it has a comma, but {text!r:.200} is also a file: rename the file"
        )
    if listed:
        parts = [alone] if alone and "," not in alone else text.split(",")
        given = [(part, f"entry {i} of {option}") for i, part in enumerate(parts, 1)]
    else:
        given = [(line, f"line {i} of {text}") for i, line in enumerate(_lines(Path(text), option), 1)]
    keys, where = [_key(part, place) for part, place in given], [place for _, place in given]
    _refuse_equal(keys, keys, where)
    return Domain(keys, where, None if listed else Path(text))


def _lines(path: Path, option: str) -> list[str]:
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no such file"
        what_else = (
            "; a list of keys holds a comma, such as A,B, or A, for one" if isinstance(error, FileNotFoundError) else ""
        )
        raise FileError(f"cannot read {str(path)!r:.200} of {option}: {why}{what_else}") from None
    lines = data.removeprefix(BOM_UTF8).split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        raise ParameterError(f"{path} must contain at least one key, one a line")
    found = []
    for i, line in enumerate(lines, 1):
        try:
            found.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            raise ParameterError(f"line {i} of {path} must be UTF-8") from None
    return found


def _key(line: str, where: str) -> str:
    """The key in a line: its letters as they are, or between quotes as in a CSV file."""
    key = line
    if line.startswith('"'):
        if not QUOTED.fullmatch(line):
            raise ParameterError(f"{where} must end with its quote, with quotes inside doubled, got {line!r:.80}")
        key = line[1:-1].replace('""', '"')
    elif "\r" in line or "\0" in line:
        raise ParameterError(
            f"{where} contains a carriage return or a zero byte: the file must be UTF-8, and its lines end in LF or CRLF"
        )
    elif line.strip() != line:
        raise ParameterError(f"{where} begins or ends with a space: leave it out, or put the key in quotes")
    if not key:
        raise ParameterError(f"{where} is blank: a row with an empty key is in no cell, so leave the line out")
    return key


def _refuse_equal(keys: Sequence[object], texts: Sequence[str], where: Sequence[str]) -> None:
    first: dict[object, int] = {}
    for i, key in enumerate(keys):
        if (j := first.setdefault(key, i)) != i:
            raise ParameterError(f"{where[i]} is the key of {where[j]} again, {texts[i]!r:.80}: name each key once")


def _form(kind: pa.DataType) -> str:
    if kinds.is_boolean(kind):
        return "true or false"
    if kinds.is_integer(kind):
        return "a whole number in plain digits, within the type"
    if kinds.is_date(kind):
        return "a date such as 2026-11-30"
    zone = "2026-11-30T12:00:00Z, with its zone" if kind.tz else "2026-11-30T12:00:00, without a zone"
    return f"a time such as {zone}"


def is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_moment(kind: pa.DataType) -> bool:
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind))
