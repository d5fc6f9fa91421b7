# SPDX-License-Identifier: Apache-2.0
"""Rows in the forms that one process takes: Arrow's tables, batches and datasets, Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from dpfast.engines.jobs.keys import alike
from dpfast.engines.jobs.tasks import quiet
from dpfast.errors import DTypeError, FileError


def dataset(place: str | os.PathLike[str]) -> ds.Dataset:
    """Parquet files: a file, a folder or a URI. Raises: FileError."""
    try:
        return ds.dataset(os.fspath(place), format="parquet")
    except (pa.ArrowException, OSError) as error:
        raise FileError(f"{os.fspath(place):.200} cannot be read as Parquet files: {type(error).__name__}") from None


def schema_of(rows: Any) -> pa.Schema:
    """The columns of what `tables` takes. Raises: DTypeError, FileError."""
    if isinstance(rows, (str, os.PathLike)):
        rows = dataset(rows)
    if isinstance(rows, (list, tuple)) and rows:
        return schema_of(rows[0])
    if hasattr(rows, "physical_schema"):  # a fragment of a dataset
        return rows.physical_schema
    if hasattr(rows, "schema") and isinstance(rows.schema, pa.Schema):
        return rows.schema
    if hasattr(rows, "columns") and hasattr(rows, "dtypes"):  # pandas
        with quiet():
            return pa.Schema.from_pandas(rows, preserve_index=False)
    raise DTypeError(f"rows must be Arrow tables or batches, or Parquet files, not {type(rows).__name__}")


def tables(rows: Any, columns: list[str]) -> Iterator[pa.Table]:
    """The columns of rows: Arrow tables and batches, datasets, Parquet files, lists of these.

    Each has the types of the file or table that it is from, so that who counts sees where two
    differ. Raises: DTypeError (also of a dataset, which would cast its files), FileError.
    """
    if isinstance(rows, (str, os.PathLike)):
        rows = list(dataset(rows).get_fragments())
    with quiet():
        if isinstance(rows, (list, tuple)):
            for each in rows:
                yield from tables(each, columns)
        elif isinstance(rows, pa.Table):
            yield rows.select(columns)
        elif hasattr(rows, "to_table"):  # a dataset, or a fragment of one
            yield _checked(rows, columns)
            yield from (pa.Table.from_batches([each]) for each in rows.to_batches(columns=columns))
        elif isinstance(rows, (pa.RecordBatch, pa.RecordBatchReader)):
            for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows:
                yield pa.Table.from_batches([batch]).select(columns)
        elif hasattr(rows, "columns") and hasattr(rows, "dtypes"):
            yield pa.Table.from_pandas(rows[columns], preserve_index=False)
        else:
            raise DTypeError(f"rows must be Arrow tables or batches, or Parquet files, not {type(rows).__name__}")


def _checked(rows: Any, columns: list[str]) -> pa.Table:
    """A table without rows, of the types of a dataset or file. Raises: DTypeError (two types)."""
    if not isinstance(rows, ds.Dataset):
        return rows.physical_schema.empty_table().select(columns)
    for part in rows.get_fragments():
        for name in {*columns} & {*part.physical_schema.names}:
            alike(name, rows.schema.field(name).type, part.physical_schema.field(name).type)
    return rows.schema.empty_table().select(columns)
