# SPDX-License-Identifier: Apache-2.0
"""What keys are made of: cells as they are, bins of numbers, or the weeks or months of moments.

A key depends on its own cell and on public options, and on nothing else.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from dpfast.app.tables.domain import BOOLS, HELD, Domain, cells_of, domain_of, is_moment, is_text
from dpfast.app.tables.domain import RANGE as NUMBERS
from dpfast.errors import ParameterError, UnusableValuesError

UNKNOWN = "unknown"  # the key of a row that has none, with --unknown
DATE, TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
WRITTEN, ZONED = f"^{DATE}({TIME})?$", f"^{DATE}{TIME}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$"
QUARTER, A_DAY = 900, 86_400  # seconds
UNITS = "s", "ms", "us", "ns"
LATE, LAST = 2_114_380_800, 253_402_128_000  # 2037, from which on Arrow knows no summer time; 9999
RANGE = re.compile(r"([0-9]{4}[-0-9W]*)[.][.]([0-9]{4}[-0-9W]*)")
NUMBER = re.compile(r"[+-]?([0-9]{1,400}[.]?[0-9]{0,400}|[.][0-9]{1,400})([eE][+-]?[0-9]{1,3})?")
FARTHEST = 10**300  # an edge: all are doubles
CALENDAR = re.compile(r"(week|month|day|year)\((.+?)(?:, *([A-Za-z][\w+-]*(?:/[\w+-]+)*))?\)")
FORMS = {"week": "2026-W49", "month": "2026-11", "day": "2026-11-30", "year": "2026"}


class Bins(NamedTuple):
    """Half-open intervals between public edges. labels: as OUT names them."""

    edges: tuple[Fraction, ...]
    labels: list[str]

    @classmethod
    def of(cls, texts: Sequence[str], edges: Sequence[Fraction]) -> Bins:
        """texts: the edges as they are given. Raises: ParameterError."""
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)) or max(map(abs, edges)) > FARTHEST:
            raise ParameterError(f"--bins must be NAME=A,B,C, in ascending order, got {','.join(texts)!r:.80}")
        return cls(tuple(edges), [f"[{a}, {b})" for a, b in pairwise(texts)])

    def listed(self, option: str) -> Domain:
        return Domain(self.labels, [f"{label} of {option}" for label in self.labels])

    def check(self, option: str, field: pa.Field) -> None:
        """Raises: ParameterError (no column of numbers, or one that takes two edges for one)."""
        kind = cells_of(field.type)
        if not (kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)):
            raise ParameterError(
                f"{option} {field.name!r:.80} must be a column of numbers for --bins, but contains {field.type}"
            )
        edges = self._edges(kind)
        if any(a >= b for a, b in pairwise(edges)):
            raise ParameterError(f"--bins must have edges that differ as {kind}, which {field.name!r:.80} holds")

    def _edges(self, kind: pa.DataType) -> list[float]:
        """As the column would hold them: of whole numbers the least one that is not below."""
        if kinds.is_floating(kind):
            with np.errstate(over="ignore"):
                return [float(kind.to_pandas_dtype()(float(edge))) for edge in self.edges]
        return [-(-edge.numerator // edge.denominator) for edge in self.edges]

    def keys(self, cells: pa.Array) -> pa.Array:
        """Labels, and null outside."""
        there, edges = cells.drop_null().to_numpy(), self._edges(cells.type)
        if kinds.is_integer(cells.type):  # edges that no number reaches are last
            ends = np.iinfo(there.dtype)
            edges = [max(edge, ends.min) for edge in edges if edge <= ends.max]
        return _taken(self.labels, np.searchsorted(np.array(edges, there.dtype), there, "right") - 1, cells)


class Calendar(NamedTuple):
    """The week, month, day or year that a moment lies in, by the clocks of a zone."""

    part: str
    zone: str

    def label(self, day: dt.date) -> str:
        if self.part == "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        return day.isoformat()[: {"day": 10, "month": 7, "year": 4}[self.part]]

    def _first(self, text: str, where: str) -> dt.date:
        """The first day of a key that is written as OUT writes it. Raises: ParameterError."""
        found = re.fullmatch(r"(\d{4})(?:-(W?)(\d\d)(?:-(\d\d))?)?", text, re.ASCII)
        try:
            year, week, number, day = found.groups() if found else ("", "", "", "")
            if week:
                first = dt.date.fromisocalendar(int(year), int(number), 1)
            else:
                first = dt.date(int(year), int(number or 1), int(day or 1))
            if self.label(first) == text:
                return first
        except ValueError:
            pass
        raise ParameterError(f"{where} must be a {self.part} such as {FORMS[self.part]}, got {text!r:.80}")

    def domain(self, text: str, option: str) -> Domain:
        """The keys that an option names, each as OUT writes it. text: also 2026-W01..2026-W52.

        Raises: FileError, ParameterError.
        """
        if not (found := RANGE.fullmatch(text)):
            if NUMBERS.fullmatch(text):
                self._first(text, option)
            domain = domain_of(text, option)
            for key, where in zip(domain.texts, domain.where, strict=True):
                self._first(key, where)
            return domain
        first, last = self._first(found[1], option), self._first(found[2], option)
        if first > last:
            raise ParameterError(f"{option} must be a range from the earlier to the later end, got {text}")
        days = range(first.toordinal(), last.toordinal() + 1, 1 if self.part == "day" else 7)
        keys = [*dict.fromkeys([*map(self.label, map(dt.date.fromordinal, days)), found[2]])]
        return Domain(keys, [f"{key} of {option}" for key in keys])

    def check(self, option: str, field: pa.Field) -> None:
        """Raises: ParameterError."""
        kind = cells_of(field.type)
        if not (is_moment(kind) or is_text(kind)):
            raise ParameterError(
                f"{option} {field.name!r:.80} must be a column of dates, timestamps or texts of these for "
                f"{self.part}(), but contains {field.type}"
            )
        _check_zone(option, field, kind)

    def keys(self, cells: pa.Array, where: str) -> pa.Array:
        """Labels. A time without a zone, and a date, are taken as they are written.

        Raises: UnusableValuesError (a text that is no moment).
        """
        days = _days_of_texts(cells, self.zone, where) if is_text(cells.type) else _days(cells, self.zone)
        there = days.drop_null().cast(pa.int32()).to_numpy() + dt.date(1970, 1, 1).toordinal()
        known, place = np.unique(there, return_inverse=True)
        inside = (known >= 1) & (known <= dt.date.max.toordinal())  # a zone may lead beyond the calendar
        labels = [self.label(dt.date.fromordinal(day)) for day in known[inside].tolist()]
        return _taken(labels, np.where(inside, np.cumsum(inside) - 1, -1)[place], days)


class Key(NamedTuple):
    """A column of keys. name: as --by has it. column: of ROWS. made: how, or None: as they are."""

    name: str
    column: str
    made: Bins | Calendar | None = None

    @classmethod
    def of(cls, name: str, bins: Mapping[str, Bins]) -> Key:
        """What --by names. Raises: ParameterError (a zone that nobody knows)."""
        if not (found := CALENDAR.fullmatch(name)):
            return cls(name, name, bins.get(name))
        part, column, zone = found.groups()
        try:
            pc.local_timestamp(pa.array([0], pa.timestamp("s", zone or "UTC")))
            known = zone != "localtime"  # which is another one on each machine
        except (pa.ArrowException, ValueError):
            known = False
        if not known:
            raise ParameterError(f"--by {part}() must name a zone such as Europe/Berlin, got {zone!r:.40}")
        return cls(name, column, Calendar(part, zone or "UTC"))

    def keys(self, cells: pa.Array, where: str) -> pa.Array:
        """Those of cells, null where there is none. Raises: UnusableValuesError."""
        if isinstance(self.made, Calendar):
            return self.made.keys(cells, where)
        return cells if self.made is None else self.made.keys(cells)

    def kind(self, option: str, field: pa.Field) -> pa.DataType:
        """That of its keys. Raises: ParameterError (a column that has none)."""
        if self.made is not None:
            self.made.check(option, field)
            return pa.string()
        return _kind_of_key(option, field)


def missing(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    """The cells of a column that texts are: read as a domain is, but numbers by their value."""
    found = [pa.array([], kind)]
    for text in texts:
        with suppress(pa.ArrowInvalid, OverflowError):
            found.append(_cell(text, kind))
    return pa.concat_arrays(found)


def _cell(text: str, kind: pa.DataType) -> pa.Array:
    """One, or none. Raises: pa.ArrowInvalid, OverflowError (none, too)."""
    if kinds.is_boolean(kind):
        return pa.array([BOOLS[text]] if text in BOOLS else [], kind)
    if not (kinds.is_integer(kind) or kinds.is_floating(kind)):
        return pa.array([text]).cast(kind)
    if not NUMBER.fullmatch(text):
        return pa.array([], kind)
    number = Fraction(text)
    if kinds.is_floating(kind):
        return pa.array([float(number)], kind)
    return pa.array([int(number)] if number.denominator == 1 else [], kind)


def _kind_of_key(option: str, field: pa.Field) -> pa.DataType:
    kind = cells_of(field.type)
    if not (is_text(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or is_moment(kind)):
        hint = ": --bins makes keys of such numbers" if kinds.is_floating(kind) else ""
        raise ParameterError(f"{option} {field.name!r:.80} must be a column of {HELD}, but contains {field.type}{hint}")
    _check_zone(option, field, kind)
    return kind


def _check_zone(option: str, field: pa.Field, kind: pa.DataType) -> None:
    try:
        pa.nulls(1, kind).cast(pa.string())
    except pa.ArrowInvalid:
        raise ParameterError(
            f"{option} {field.name!r:.80} must be a column of times in a zone that is known, but contains {field.type}"
        ) from None


def _taken(labels: list[str], place: npt.NDArray[np.int64], cells: pa.Array) -> pa.Array:
    """Labels by their places where there is a cell, null where there is none or no label."""
    outside = (place < 0) | (place >= len(labels))
    found = pa.array(np.where(outside, 0, place), mask=outside)
    valid = pc.is_valid(cells).to_numpy(zero_copy_only=False)
    of_cell = pa.array(np.maximum(np.cumsum(valid) - 1, 0), mask=~valid)
    return pa.array(labels or [""], pa.string()).take(found.take(of_cell))


def _days(moments: pa.Array, zone: str) -> pa.Array:
    """The days by the clocks of a zone, which show some times twice: instants are rounded."""
    if not (kinds.is_timestamp(moments.type) and moments.type.tz):
        return moments.cast(pa.date32())
    ticks = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy() // 1000 ** UNITS.index(moments.type.unit)
    instants = pc.if_else(pc.is_valid(moments), pa.array(ticks), None)
    days = pc.local_timestamp(instants.cast(pa.timestamp("s", zone))).cast(pa.date32())
    late = pc.fill_null(pc.greater_equal(instants, LATE), False)
    if not pc.any(late).as_py():
        return days
    found = pc.filter(instants, late).to_numpy()
    known, place = np.unique(found // QUARTER, return_inverse=True)
    shifts = np.array([_shift(zone, quarter * QUARTER) for quarter in known.tolist()])
    of_late = pa.array(((found + shifts[place]) // A_DAY).astype(np.int32)).cast(pa.date32())
    return pc.replace_with_mask(days, late, of_late)


def _shift(zone: str, instant: int) -> int:
    """By how many seconds clocks are ahead. Rules for years to come change at quarters."""
    there = dt.datetime.fromtimestamp(min(instant, LAST), zoneinfo.ZoneInfo(zone)).utcoffset()
    return int((there or dt.timedelta()).total_seconds())


def _days_of_texts(texts: pa.Array, zone: str, where: str) -> pa.Array:
    zoned = pc.match_substring_regex(texts, ZONED)
    good = pc.all(pc.or_(zoned, pc.match_substring_regex(texts, WRITTEN))).as_py() is not False
    texts = pc.replace_substring_regex(texts, "[.][0-9]+", "")  # a second lies in one day
    try:
        instants = pc.if_else(zoned, texts, None).cast(pa.timestamp("s", "UTC")) if good else None
        written = pc.if_else(zoned, None, texts).cast(pa.timestamp("s")) if good else None
    except pa.ArrowInvalid:  # its message quotes a cell
        good = False
    if not good:
        raise UnusableValuesError(
            f"{where} must contain dates or times such as 2026-11-30 or 2026-11-30T12:00:00+01:00: --null says which texts are missing"
        )
    return pc.coalesce(_days(instants, zone), _days(written, zone))
