# SPDX-License-Identifier: Apache-2.0
"""The tasks of a job: pure functions of a block, which an engine may run anywhere, and again.

`Bound` makes partial counts of some units, `Freeze` the blocks of a stage, `Digest` their digests,
`Draw` their noise. Each pickles, holds a key that can do this one thing, and shows no values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from dpfast.counts.records.partitions import Showing
from dpfast.counts.records.places import words_of
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.keys import columns_of, ipc, keys_of, names_of, names_of_runs, runs_of, sort, uniform
from dpfast.engines.jobs.plan import Plan
from dpfast.errors import DpfastError, DTypeError, FileError, OtherInputError
from dpfast.noise.release.blocks import BLOCK
from dpfast.noise.release.columns import column
from dpfast.noise.release.key import Bucketer, Chooser
from dpfast.noise.release.names import Names
from dpfast.noise.release.seal import BlockDigest, Digester, Sealed

DOMAIN = "domain.arrow"
MIX = np.uint64(0x9E3779B97F4A7C15)
LOW = 0xFFFFFFFF


def _by_kind(error: Exception) -> Exception:
    return DTypeError(f"rows cannot be read: {type(error).__name__}")


@contextmanager
def quiet(told: Callable[[Exception], Exception] = _by_kind) -> Iterator[None]:
    """What Arrow or a reader says of values is told by its kind. Raises: DTypeError, or as told."""
    try:
        yield
    except DpfastError:
        raise
    except Exception as error:  # readers, and functions of a user's own, raise what they like
        raise told(error) from None


class Task:
    """A function that may run twice: the second run finds what the first one wrote."""

    def only(self, *_blocks: int) -> Task:
        """The same for some blocks, in as few bytes as that takes."""
        return self

    def __call__(self, block: int) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


# ------------------------------------------------------------------ rows to blocks


def scatter(table: pa.Table, unit: str, many: int, chooser: Chooser) -> list[pa.Table]:
    """Rows in `many` shards: all rows of a unit are in one, whichever tables they come in."""
    with quiet():
        ids = column(unit, table[unit])
        words = words_of(ids, chooser.functions()[0])
        of_rows = words if ids.texts is None else words[ids.codes]
        shard = (of_rows * MIX >> np.uint64(32)) % np.uint64(many)
        return cut(table, shard.astype(np.int64), range(many))


def cut(table: pa.Table, place: npt.NDArray[np.int64], places: Iterable[int]) -> list[pa.Table]:
    """The rows of each place, in one table each: copies, for a slice is sent with its table."""
    order = np.argsort(place, kind="stable")
    whole, place = table.combine_chunks(), place[order]
    wanted = np.fromiter(places, np.int64)
    begins, ends = np.searchsorted(place, wanted), np.searchsorted(place, wanted, "right")
    return [whole.take(pa.array(order[a:b])) for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]


def schema_of(plan: Plan) -> pa.Schema:
    """The columns of partial counts: a block; a row of it, or the keys themselves; a number."""
    block, row = pa.field("block", pa.int64()), pa.field("row", pa.int64())
    keyed = key_schema(plan)
    return pa.schema([block, row, keyed.field("n")] if plan.known else [block, *keyed])


def key_schema(plan: Plan) -> pa.Schema:
    """The columns of a block that holds its keys."""
    keys = [(f"key{i}", getattr(pa, kind)()) for i, kind in enumerate(plan.types)]
    return pa.schema([*keys, ("n", pa.int64())])


class Bound:
    """All rows of some units -> their partial counts, each with the block where it belongs.

    rows: the columns of all rows, whose types must be these in each part of them.
    """

    def __init__(self, plan: Plan, rows: pa.Schema, chooser: Chooser, bucketer: Bucketer | None, stage: Folder) -> None:
        self.plan, self.chooser, self._bucketer, self._stage = plan, chooser, bucketer, stage
        self.schema = schema_of(plan)
        self._rows = pa.schema([rows.field(name) for name in plan.columns])

    def uniform(self, rows: pa.Table | pa.RecordBatch) -> pa.Table:
        """The columns that are counted, in the form of their types: before rows are cut by unit.

        Raises: DTypeError (of another type than in other rows).
        """
        with quiet():
            return uniform(rows, self._rows)

    def __call__(self, batches: Iterable[pa.Table | pa.RecordBatch]) -> pa.Table:
        """Raises: DTypeError (nulls among them), UnusableValuesError."""
        with quiet():
            tables = [self.uniform(each) for each in batches]
            rows = pa.concat_tables(tables) if tables else None
            if rows is None or not rows.num_rows:
                return self.schema.empty_table()
            if any(column.null_count for column in rows.columns):
                raise DTypeError(f"{', '.join(self.plan.columns):.200} must contain no nulls")
            found = self.plan.histogram(rows, self._domain(), self.chooser)
            counts = np.asarray(found.counts)
            live = np.flatnonzero(counts)
            counts = counts[live]
            if self.plan.known:
                return pa.table([live // BLOCK, live % BLOCK, counts], schema=self.schema)
            keys = columns_of(found.keys[live], self.plan.types)
            buckets = self._bucketer(runs_of(keys).to_pylist())  # type: ignore[misc]  # it is there for unknown keys
            return pa.table([buckets, *keys, counts], schema=self.schema)

    def _domain(self) -> Any:
        return _domain(self._stage.place, self.plan.domain) if self.plan.known else None

    def __repr__(self) -> str:
        return "<Bound>"


@lru_cache(maxsize=1)
def _domain(place: str, digest: str) -> Any:
    return keys_of(_table(place, digest))


@lru_cache(maxsize=1)
def _table(place: str, digest: str) -> pa.Table:
    return domain_of(Folder(place), digest)


def domain_of(stage: Folder, digest: str) -> pa.Table:
    """The sorted domain. Raises: FileError (it is not the one of the stage's terms)."""
    data = stage.read(DOMAIN)
    if data is None or sha256(data).hexdigest() != digest:
        raise FileError(f"{DOMAIN} on {stage.place} is damaged, or another's")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


class Freeze(Task):
    """Partial counts of some blocks -> the blocks on the stage, each written whole."""

    def __init__(self, plan: Plan, stage: Folder) -> None:
        self.plan, self.stage = plan, stage

    def __call__(self, block: int, partial: pa.Table | None = None) -> tuple[int, str]:
        """Write a block; its number, and the hash of its file. Without partial counts it is empty.

        Raises: OtherInputError (it was written with other counts), FileError.
        """
        with quiet():
            table = merged(self.plan, block, partial)
        return self.keep(block, table)

    def keep(self, block: int, table: pa.Table) -> tuple[int, str]:
        """Write a block as it is."""
        data = ipc(table)
        if not self.stage.write(name_of(block), data):
            raise OtherInputError(
                f"{self.plan.label!r}: a block was computed twice, with different counts: the rows, or how they are "
                f"counted, have changed since {self.stage.place} was begun. Nothing was sealed: remove it, and begin again"
            )
        return block, blake3(data).hexdigest()

    def all(self, blocks: Iterable[int], partial: pa.Table) -> list[tuple[int, str]]:
        """Several blocks, from all that there is of them."""
        listed = list(blocks)
        parts = cut(partial, np.asarray(partial["block"]), listed)
        return [self(block, part) for block, part in zip(listed, parts, strict=True)]


def merged(plan: Plan, block: int, partial: pa.Table | None) -> pa.Table:
    """A block from its partial counts, in whatever order these come.

    Known keys: a number for each row of the domain. Unknown ones: the keys, sorted, with theirs.
    """
    if plan.known:
        size = min(BLOCK, plan.size - block * BLOCK)
        high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
        if partial is not None:
            rows, n = np.asarray(partial["row"]), np.asarray(partial["n"])
            np.add.at(high, rows, n >> 32)
            np.add.at(low, rows, n & LOW)
        return pa.table({"n": saturated(high, low)})
    partial = schema_of(plan).empty_table() if partial is None else partial
    keys, n = partial.column_names[1:-1], np.asarray(partial["n"])
    halves = partial.select(keys).append_column("high", pa.array(n >> 32)).append_column("low", pa.array(n & LOW))
    sums = sort(
        halves.group_by(keys).aggregate([("high", "sum"), ("low", "sum")]).select([*keys, "high_sum", "low_sum"]),
        len(keys),
    )
    totals = saturated(np.asarray(sums["high_sum"]), np.asarray(sums["low_sum"]))
    return sums.select(keys).append_column("n", pa.array(totals))


def saturated(high: npt.NDArray[np.int64], low: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sums high 2^32 + low, saturated to int64: an error would tell of them."""
    high = high + (low >> 32)
    ends = np.iinfo(np.int64)
    fits = (high >= -(2**31)) & (high < 2**31)
    return np.where(fits, (high << 32) | (low & LOW), np.where(high < 0, ends.min, ends.max))


def name_of(block: int) -> str:
    return f"{block:08}.arrow"


# ------------------------------------------------------------------ blocks to noise


def _numbers(block: pa.Table, plan: Plan) -> tuple[npt.NDArray[np.int64], Names | None]:
    """The counts of a block, and the names that a seal takes in where no domain gives them."""
    counts = np.asarray(block["n"])
    if plan.counted:
        return counts, Names.read("names", names_of(block.drop(["n"])))
    if plan.known:
        return counts, None
    return counts, names_of_runs(runs_of([column.combine_chunks() for column in block.columns[:-1]]))


def _read(data: bytes | None, stage: Folder, plan: Plan) -> pa.Table:
    if data is None:
        raise FileError(f"{stage.place} lacks a block of its own: it was changed, or half of it was removed")
    try:
        found = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # which depends on the byte that is wrong
        found = None
    keyed = key_schema(plan)
    form = pa.schema([keyed.field("n")]) if plan.known and not plan.counted else keyed
    if found is None or not found.schema.equals(form) or any(column.null_count for column in found.columns):
        raise FileError(f"a block of {stage.place} is damaged")
    return found


class Digest(Task):
    """A block of a stage -> its digest. hashes: of the blocks' files, as they were frozen."""

    def __init__(self, plan: Plan, stage: Folder, hashes: Mapping[int, str], digester: Digester) -> None:
        self._plan, self._stage, self._hashes, self._digester = plan, stage, hashes, digester

    def only(self, *blocks: int) -> Digest:
        return Digest(self._plan, self._stage, {j: self._hashes[j] for j in blocks}, self._digester)

    def __call__(self, block: int) -> BlockDigest:
        """Raises: OtherInputError (not the block that was frozen), FileError."""
        data = self._stage.read(name_of(block))
        if data is not None and blake3(data).hexdigest() != self._hashes[block]:
            raise OtherInputError(
                f"{self._plan.label!r}: a block of {self._stage.place} was changed after it was frozen"
            )
        with quiet():
            counts, names = _numbers(_read(data, self._stage, self._plan), self._plan)
        return self._digester(block, counts, names=names)


class Draw(Task):
    """A block of a stage -> its noisy rows, sorted by key."""

    def __init__(self, plan: Plan, stage: Folder, sealed: Sealed, showing: Showing | None) -> None:
        self._plan, self._stage, self._sealed, self._showing = plan, stage, sealed, showing

    def only(self, *blocks: int) -> Draw:
        return Draw(self._plan, self._stage, self._sealed.only(*blocks), self._showing)

    def __call__(self, block: int) -> pa.Table:
        """Raises: OtherInputError (not the block that was sealed: nothing is drawn), FileError."""
        with quiet():
            found = _read(self._stage.read(name_of(block)), self._stage, self._plan)
            counts, names = _numbers(found, self._plan)
            noisy = self._sealed.release(block, counts, names=names)
            keys = found.columns[:-1] or self._keys(block)
            table = pa.table([*keys, pa.array(noisy)], names=[*self._plan.by, self._plan.number])
            return table if self._showing is None else table.filter(pa.array(self._showing.of(counts, noisy)))

    def _keys(self, block: int) -> list[pa.Array]:
        return [column.chunk(block) for column in _table(self._stage.place, self._plan.domain).columns]


class Publish(Task):
    """A block of a stage -> a file of noisy rows, under the block's own name."""

    def __init__(self, draw: Draw, to: Folder) -> None:
        self._draw, self._to = draw, to

    def only(self, *blocks: int) -> Publish:
        return Publish(self._draw.only(*blocks), self._to)

    def __call__(self, block: int) -> tuple[str, int]:
        return put(self._to, block, self._draw(block))


class Check(Publish):
    """Whether a file holds what is drawn again."""

    def only(self, *blocks: int) -> Check:
        return Check(self._draw.only(*blocks), self._to)

    def __call__(self, block: int) -> tuple[str, int]:
        table = self._draw(block)
        name = file_of(block)
        return name, table.num_rows if same(self._to, name, table) else -1


def put(to: Folder, block: int, table: pa.Table) -> tuple[str, int]:
    """Write a file of the output; its name, and how many rows it has. Raises: FileError."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd", row_group_size=BLOCK)  # pages end with chunks
    name = file_of(block)
    if not to.write(name, bytes(sink.getvalue())):
        raise FileError(
            f"{name} in {to.place} is not what this release gives: another's, damaged, or by another version of pyarrow; "
            "it was not replaced"
        )
    return name, table.num_rows


def same(to: Folder, name: str, table: pa.Table) -> bool:
    """Whether a file of the output holds these rows, whichever version wrote it."""
    data = to.read(name)
    try:
        return data is not None and bool(pq.read_table(pa.py_buffer(data)).equals(table))
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # a damaged page is an OSError
        return False


def file_of(block: int) -> str:
    return f"part-{block:08}.parquet"
