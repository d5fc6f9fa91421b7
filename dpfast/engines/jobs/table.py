# SPDX-License-Identifier: Apache-2.0
"""Numbers that were counted elsewhere, under public keys, and the verbs of a library of tables."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpfast.engines.jobs import verbs
from dpfast.engines.jobs.engine import OneProcess
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.out_of_core import OutOfCore
from dpfast.engines.jobs.plan import Plan, keys_in
from dpfast.engines.jobs.tasks import Freeze, key_schema, quiet
from dpfast.engines.jobs.verbs import FROZEN, HERE, Counts, begin, kept, must_be_apart, probe
from dpfast.errors import DTypeError, FileError, ParameterError
from dpfast.noise.release.blocks import BLOCK
from dpfast.noise.release.key import ReleaseKey, release_key


def counted(
    rows: Any,
    *,
    by: str | Sequence[str],
    column: str,
    key: ReleaseKey,
    stage: str | os.PathLike[str],
    engine: OneProcess = HERE,
) -> Counts:
    """Freeze a table of exact numbers on a stage: a row for each public key, sorted by key.

    Nothing is bounded here: the mechanism of the release must be made for what one unit can change
    in `column`. All keys are published, so none may be there because of a private row.
    rows: what the engine takes; they are read once, in the order of their keys, whatever theirs
        is. If the stage is complete they are not looked at.
    by, column: columns: one or several of keys, integers or texts, each key once; and the numbers,
        integers of at most 64 bits that fit int64. None may hold nulls.
    stage: as of bounded_counts.

    Returns: Counts, for `release` and `verify`; their sensitivity is None. A seal names by, column
        and the types of keys: another one under the label is refused, whatever the numbers are.
    Raises: DTypeError, ParameterError (a key twice, no row); FileError; OtherInputError (the rows
        changed between two tries).
    """
    secret = release_key(key)
    probe(engine, secret)
    schema = engine.schema(rows)
    names, types = keys_in(schema, by, column)
    if column in names:
        raise ParameterError("column must be that of numbers, and none of the keys")
    kind = schema.field(column).type
    if not pa.types.is_integer(kind) or kind == pa.uint64():
        raise DTypeError(f"{column} must be a column of integers that fit int64, not {kind}: CAST it to BIGINT first")
    terms = Plan(secret.label, secret.id, "", names, types, column, {}, "", 0)
    folder = Folder(stage, private=True)
    folder.make()
    begin(folder, terms)
    if (hashes := kept(folder, terms)) is None:
        freeze = Freeze(terms, folder)
        blocks = in_blocks(_checked(engine.ordered(rows, terms.columns, len(names)), terms), BLOCK)
        hashes = [freeze.keep(j, block)[1] for j, block in enumerate(blocks)]
        if not hashes:
            raise ParameterError("rows must have at least one key")
        if not folder.write(FROZEN, json.dumps(hashes).encode()):
            raise FileError(f"{folder.place} was frozen meanwhile, with other counts: begin on a stage of its own")
    return Counts(terms, folder, dict(enumerate(hashes)), None)


def release_table(
    rows: Any,
    mechanism: Any,
    *,
    by: str | Sequence[str],
    column: str,
    stage: str | os.PathLike[str],
    key: ReleaseKey,
    to: str | os.PathLike[str],
    engine: OneProcess = HERE,
    **how: Any,
) -> list[str]:
    """`counted`, then `release`: the paths of the output's files, in the order of their keys.

    Raises: ParameterError (to is not a local folder, or not apart from the stage), and what those
        raise.
    """
    out = Folder(to)
    if not out.local:
        raise ParameterError("to must be a local folder, for a table that is read from it: else release its `counted`")
    must_be_apart(Folder(stage), out)
    counts = counted(rows, by=by, column=column, key=key, stage=stage, engine=engine)
    facts = verbs.release(counts, mechanism, key=key, to=to, engine=engine, **how)
    return [f"{out.path}/{each['name']}" for each in facts["files"]]


class Tables(OutOfCore, ABC):
    """The engine of a library whose tables are queries of rows or of counts, and its verbs.

    shards: as of OutOfCore.
    """

    @abstractmethod
    def reader(self, rows: Any) -> Callable[[list[str]], Any]:
        """What makes a table like `rows` of Parquet files; sought before anything is charged."""

    @classmethod
    def bounded_counts(cls, rows: Any, *, shards: int = 64, **terms: Any) -> Counts:
        """`dpfast.engines.jobs.bounded_counts` of a table, whose query runs once.

        shards: in how many parts units are counted. A part must fit the memory, some 60 bytes a
            row; it changes no result.
        """
        return verbs.bounded_counts(rows, engine=cls(shards), **terms)

    @classmethod
    def counted(cls, rows: Any, **terms: Any) -> Counts:
        """`dpfast.engines.jobs.counted` of a table, whose query runs once; the library sorts."""
        return counted(rows, engine=cls(), **terms)

    @classmethod
    def release(
        cls,
        counts: Any,
        mechanism: Any,
        *,
        key: ReleaseKey,
        to: str | os.PathLike[str],
        ledger: Any,
        resume: bool = False,
        **table: Any,
    ) -> Any:
        """`dpfast.engines.jobs.release` of Counts; or of a table of exact counts, as a table.

        table: of a table `by`, `column` and `stage`, as of `counted`. What comes back reads the
            files in `to`, a local folder.
        """
        how = {"key": key, "to": to, "ledger": ledger, "resume": resume}
        if isinstance(counts, Counts):
            return verbs.release(counts, mechanism, **how, **table)
        engine = cls()
        read = engine.reader(counts)
        return read(release_table(counts, mechanism, engine=engine, **how, **table))

    @classmethod
    def verify(cls, to: str | os.PathLike[str], counts: Any, mechanism: Any, *, key: ReleaseKey, **table: Any) -> None:
        """`dpfast.engines.jobs.verify`. counts, table: as of `release`."""
        if not isinstance(counts, Counts):
            counts, table = cls.counted(counts, key=key, **table), {}
        verbs.verify(to, counts, mechanism, key=key, **table)


def in_blocks(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The rows in tables of `size`; the last one is what is left."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= size:
            whole = pa.concat_tables(waiting)
            for start in range(0, rows - size + 1, size):
                yield whole.slice(start, size)
            rows %= size
            waiting = [whole.slice(whole.num_rows - rows)]
    if rows:
        yield pa.concat_tables(waiting)


def _checked(tables: Iterable[pa.Table], terms: Plan) -> Iterator[pa.Table]:
    """Keys and numbers under their types on a stage. Raises: DTypeError, ParameterError."""
    schema, last = key_schema(terms), None
    for table in tables:
        with quiet():
            if any(each.null_count for each in table.columns):
                raise DTypeError(f"{', '.join(terms.columns):.200} must contain no nulls")
            cast = [each.cast(kind) for each, kind in zip(table.columns, schema.types, strict=True)]
            found = pa.table(cast, schema=schema).combine_chunks()
            if not ascending(found if last is None else pa.concat_tables([last, found])):
                raise ParameterError("rows must have each key once, in the order of their bytes")
        yield found
        last = found.slice(found.num_rows - 1) if found.num_rows else last


def ascending(table: pa.Table) -> bool:
    """Whether each row's key, all columns but the last, is above the one before it."""
    above, equal = pa.scalar(value=False), pa.scalar(value=True)
    rows = max(table.num_rows - 1, 0)
    for column in table.columns[:-1]:
        one, other = column.slice(0, rows), column.slice(1)
        above = pc.or_(above, pc.and_(equal, pc.less(one, other)))
        equal = pc.and_(equal, pc.equal(one, other))
    return not rows or bool(pc.all(above).as_py())
