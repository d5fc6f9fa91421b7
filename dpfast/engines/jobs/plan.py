# SPDX-License-Identifier: Apache-2.0
"""What bounded counts are counts of: public terms, from which every task knows what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa

from dpfast.counts.records.bounded_histogram import Bounds, EachRow, bounded_histogram
from dpfast.engines.jobs.keys import form, ipc, keys_of, must_be_numbers, sorted_domain, type_of
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.blocks import BLOCK
from dpfast.noise.release.key import Chooser, ReleaseKey
from dpfast.privacy.parameters import Real, exact_real, shown, whole
from dpfast.privacy.sensitivity import Sensitivity

VERSION = 1  # the stage's: its files, and how rows become blocks
ENDS = "lower", "upper", "granularity"


class Plan(NamedTuple):
    """The terms of bounded counts. They are public: nothing here depends on a row."""

    label: str
    key: str  # the id of the release key
    unit: str  # the column of the units of privacy; empty if the numbers were counted elsewhere
    by: tuple[str, ...]  # the columns of keys
    types: tuple[str, ...]  # theirs: int64, uint64 or string
    values: str | None  # the column that is summed, or of the numbers that were counted elsewhere
    how: dict[str, Any]  # the parameters of bounded_histogram
    domain: str  # SHA-256 of the keys; empty if they are unknown
    size: int  # how many keys the domain has, or how many buckets; 0 if counted elsewhere
    version: int = VERSION
    chooser: str = ""  # the id of another key, if that one chooses rows

    @property
    def known(self) -> bool:
        """Whether all keys are public, and so shown."""
        return bool(self.domain) or self.counted

    @property
    def counted(self) -> bool:
        """Whether the numbers were counted elsewhere: then a block holds its own keys."""
        return not self.unit

    @property
    def blocks(self) -> int:
        return -(-self.size // BLOCK) if self.known else self.size

    @property
    def columns(self) -> list[str]:
        """The columns of rows that are read, each once."""
        return list(
            dict.fromkeys([*filter(None, [self.unit]), *self.by, *([] if self.values is None else [self.values])])
        )

    @property
    def number(self) -> str:
        """The column of noisy numbers."""
        return "count" if self.values is None else self.values if self.counted else "sum"

    @property
    def public(self) -> dict[str, str]:
        """The terms of the seal, by the parameters of `bounded_counts`: all but label and key."""
        how = dict(self.how)
        terms = {
            "unit": self.unit or None,
            "by": json.dumps(self.by, ensure_ascii=False),
            "types": json.dumps(self.types),
            "column" if self.counted else "values": self.values,
            "privacy_unit": how.pop("unit", None),
            **how,
            "domain": self.domain or None,
            "buckets": None if self.known else self.size,
            "chooser": self.chooser or None,
            "stage version": self.version,
        }
        return {name: str(value) for name, value in terms.items() if value is not None}

    def written(self) -> bytes:
        """As JSON, numbers that are not whole as fractions."""
        exact_how = {name: str(value) if isinstance(value, Fraction) else value for name, value in self.how.items()}
        terms = {**self._asdict(), "how": exact_how}
        if not self.chooser:
            del terms["chooser"]  # as before there was one
        return json.dumps(terms, indent=2).encode()

    def histogram(self, table: Any, domain: Any, key: Any) -> Any:
        """`bounded_histogram` of all rows of some units."""
        keys = [table[name] for name in self.by]
        return bounded_histogram(
            keys[0] if len(keys) == 1 else tuple(keys),
            table[self.unit],
            values=None if self.values is None else table[self.values],
            domain=domain,
            key=key,
            **self.how,
        )


def plan(
    schema: pa.Schema,
    key: ReleaseKey,
    *,
    unit_column: str | EachRow,
    by: str | Sequence[str],
    domain: Any,
    buckets: int,
    values: str | None,
    bounds: Bounds,
    chooser: Chooser | None,
) -> tuple[Plan, pa.Table | None, Sensitivity]:
    """The terms; the domain sorted by key, or None; the change that noise must hide.

    Raises: DTypeError, ParameterError: all that is wrong whatever the rows are.
    """
    if isinstance(unit_column, EachRow):
        raise ParameterError("unit must name a column: an engine may be handed a row twice, so no row is a unit there")
    names, types = keys_in(schema, by, unit_column, *([] if values is None else [values]))
    type_of(unit_column, schema.field(unit_column).type)
    if values is not None:
        must_be_numbers(values, schema.field(values).type)
    how = bounds._asdict()
    how |= {name: _plain(name, how[name]) for name in ENDS if how[name] is not None}
    if "count" in names or "sum" in names:
        raise ParameterError("by must name no column 'count' or 'sum', which is that of the noisy numbers")
    keys = None if domain is None else sorted_domain(names, types, domain)
    listed = None if keys is None else keys_of(keys)
    size = whole("buckets", buckets, 1) if keys is None else keys.num_rows
    digest = "" if keys is None else sha256(ipc(keys)).hexdigest()
    if chooser is not None and not isinstance(chooser, Chooser):
        raise DTypeError(f"chooser must be that of a release key, key.chooser(), not {type(chooser).__name__}")
    chosen_by = "" if chooser is None or chooser.id == key.id else chooser.id
    found = Plan(key.label, key.id, unit_column, names, types, values, how, digest, size, VERSION, chosen_by)
    forms = pa.schema([(name, form(schema.field(name).type)) for name in found.columns])
    empty = found.histogram(forms.empty_table(), listed, key.chooser())  # it looks at every parameter
    return found, keys, empty.sensitivity


def keys_in(schema: pa.Schema, by: str | Sequence[str], *others: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of keys and their types, if all columns are there.

    Raises: DTypeError, ParameterError.
    """
    names = (by,) if isinstance(by, str) else tuple(by)
    try:
        there = schema.names
    except UnicodeDecodeError:
        raise DTypeError("the names of the rows' columns must be UTF-8; a file of the rows may be damaged") from None
    for name in (*others, *names):
        if not isinstance(name, str):
            raise DTypeError(f"names of columns must be texts, not {type(name).__name__}")
        if there.count(name) != 1:
            raise ParameterError(
                f"the rows must have a column {name!r:.60}, exactly one; they have {', '.join(there):.200}"
            )
    if not names or len(set(names)) < len(names):
        raise ParameterError("by must name at least one column, and none twice")
    return names, tuple(type_of(name, schema.field(name).type) for name in names)


def _plain(name: str, value: Real) -> int | Fraction:
    found = exact_real(name, value)
    return int(found) if found.denominator == 1 else found


def differences(here: Plan, there: dict[str, Any]) -> list[str]:
    """The names of terms in which a plan that was written is another."""
    mine, other = {"chooser": "", **json.loads(here.written())}, {"chooser": "", **there}
    how, others = mine.pop("how"), other.pop("how", None)
    others = others if isinstance(others, dict) else {}
    pairs = [*((name, mine[name], other.get(name)) for name in mine), *((n, how[n], others.get(n)) for n in how)]
    return [f"{name} is {shown_term(old)}, not {shown_term(new)}" for name, new, old in pairs if new != old]


def shown_term(value: Any) -> str:
    return shown(value) if isinstance(value, (int, float)) else f"{value!r:.60}"
