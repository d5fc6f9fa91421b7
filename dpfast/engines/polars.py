# SPDX-License-Identifier: Apache-2.0
"""Polars: sealed releases of lazy frames, out of core, with the verbs of dpfast.engines.jobs.

    from dpfast.engines import polars as dp
    counts = dp.bounded_counts(pl.scan_parquet("visits/*"), unit="user", by="page", domain=pages,
                               max_partitions=10, max_per_partition=1, key=key, stage="private/visits")
    dp.release(counts, mechanism, key=key, ledger=ledger, to="public/visits", resume=True)

And of a lazy frame of exact counts by public key, as a lazy frame:

    noisy = cities.pipe(dp.release, mechanism, by="city", column="people", key=key, ledger=ledger,
                        stage="private/cities", to="public/cities")

Rows are a lazy frame, or a frame, which is evaluated once; Polars sorts, in memory. The release is
made by the call, once; to collect what comes back reads its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from dpfast.adapters import library
from dpfast.engines import jobs
from dpfast.engines.jobs.keys import mixed
from dpfast.engines.jobs.tasks import quiet
from dpfast.errors import DTypeError

pl = library("polars", "polars", ">=1.36.1")

__all__ = ["LazyFrames", "bounded_counts", "counted", "release", "verify"]
ROWS = 1 << 18  # in a batch
TWO_TYPES = re.compile(r"data type mismatch for column (.*): incoming: (\w+)(?:\(.*\))? != target: (\w+)", re.DOTALL)


def __dir__() -> list[str]:
    return __all__


class LazyFrames(jobs.Tables):
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

    def reader(self, rows: Any) -> Callable[[list[str]], Any]:  # noqa: ARG002  any lazy frame reads files
        return partial(pl.scan_parquet, glob=False)


bounded_counts, counted = LazyFrames.bounded_counts, LazyFrames.counted
release, verify = LazyFrames.release, LazyFrames.verify


def _read(rows: Any, *, keep_order: bool) -> Iterator[pa.Table]:
    """Raises: DTypeError, in words that show no value, as Polars' own may."""
    with quiet(_told):
        for frame in rows.collect_batches(chunk_size=ROWS, maintain_order=keep_order, engine="streaming"):
            yield frame.to_arrow()


def _told(error: Exception) -> DTypeError:
    if found := TWO_TYPES.match(str(error)):
        return mixed(found[1], found[3], found[2])
    return DTypeError(f"rows cannot be read: {type(error).__name__} of Polars")
