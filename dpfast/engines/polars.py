# SPDX-License-Identifier: Apache-2.0
"""Polars: sealed releases of lazy frames, out of core, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import polars as dp
    counts = dp.bounded_counts(pl.scan_parquet("visits/*"), unit="user", by="page", domain=pages,
                               max_partitions=10, max_per_partition=1, key=key, stage="private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="public/visits", resume=True)

And of a lazy frame of exact counts by public key, as a lazy frame:

    noisy = cities.pipe(dp.release, mechanism, by="city", column="people", key=key, ledger=ledger,
                        stage="private/cities", to="public/cities")

The release is made by the call, once; to collect what comes back reads its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from dpfast import DTypeError, ReleaseKey
from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs.keys import mixed
from dpfast.engines.jobs.tasks import quiet

pl = library("polars", "polars", ">=1.36")

ROWS = 1 << 18  # in a batch
TWO_TYPES = re.compile(r"data type mismatch for column (.*): incoming: (\w+)(?:\(.*\))? != target: (\w+)", re.DOTALL)


def bounded_counts(rows: Any, *, shards: int = 64, **terms: Any) -> jobs.Counts:
    """`dpfast.engines.jobs.bounded_counts` of a lazy frame, or a frame, which is evaluated once.

    shards: in how many parts units are counted. A part must fit the memory, some 60 bytes a row; it
        changes no result.
    """
    return jobs.bounded_counts(rows, engine=LazyFrames(shards), **terms)


def counted(rows: Any, **terms: Any) -> jobs.Counts:
    """`dpfast.engines.jobs.counted` of a lazy frame, or a frame; Polars sorts, in memory."""
    return jobs.counted(rows, engine=LazyFrames(), **terms)


def release(
    counts: Any,
    mechanism: Any,
    *,
    key: ReleaseKey,
    to: str | os.PathLike[str],
    ledger: Any,
    resume: bool = False,
    **table: Any,
) -> Any:
    """`dpfast.engines.jobs.release` of Counts; or of a lazy frame of exact counts, as a lazy frame.

    table: of a lazy frame `by`, `column` and `stage`, as of `counted`. What comes back reads the
        files in `to`, a local folder.
    """
    how = {"key": key, "to": to, "ledger": ledger, "resume": resume}
    if isinstance(counts, jobs.Counts):
        return jobs.release(counts, mechanism, **how, **table)
    return pl.scan_parquet(jobs.release_table(counts, mechanism, engine=LazyFrames(), **how, **table), glob=False)


def verify(to: str | os.PathLike[str], counts: Any, mechanism: Any, *, key: ReleaseKey, **table: Any) -> None:
    """`dpfast.engines.jobs.verify`. counts, table: as of `release`."""
    if not isinstance(counts, jobs.Counts):
        counts, table = counted(counts, key=key, **table), {}
    jobs.verify(to, counts, mechanism, key=key, **table)


class LazyFrames(jobs.OutOfCore):
    """The engine: this process, with rows that come from Polars' streaming engine in batches."""

    def schema(self, rows: Any) -> pa.Schema:
        if not isinstance(rows, (pl.LazyFrame, pl.DataFrame)):
            raise DTypeError(f"rows must be a LazyFrame or a DataFrame of Polars, not {type(rows).__name__}")
        with quiet(_told):
            return pl.DataFrame(schema=rows.lazy().collect_schema()).to_arrow().schema

    def batches(self, rows: Any, columns: list[str]) -> Iterable[pa.Table]:
        return _read(rows.lazy().select(pl.selectors.by_name(*columns)), keep_order=False)

    def ordered(self, rows: Any, columns: list[str], keys: int) -> Iterable[pa.Table]:
        """Texts by their bytes, whatever the order of an Enum."""
        names = pl.selectors.by_name(*columns, require_all=True)
        texts = pl.selectors.by_name(*columns) & (pl.selectors.categorical() | pl.selectors.enum())
        found = rows.lazy().select(names).with_columns(texts.cast(pl.String))
        return _read(found.sort(pl.selectors.by_name(*columns[:keys])), keep_order=True)


def _read(rows: Any, *, keep_order: bool) -> Iterator[pa.Table]:
    """Raises: DTypeError, in words that show no value, as Polars' own may."""
    with quiet(_told):
        for frame in rows.collect_batches(chunk_size=ROWS, maintain_order=keep_order, engine="streaming"):
            yield frame.to_arrow()


def _told(error: Exception) -> DTypeError:
    if found := TWO_TYPES.match(str(error)):
        return mixed(found[1], found[3], found[2])
    return DTypeError(f"rows cannot be read: {type(error).__name__} of Polars")
