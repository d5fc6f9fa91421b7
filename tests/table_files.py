# SPDX-License-Identifier: Apache-2.0
"""Files of tables for tests: how they are written and read, without the package."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq


def store(table: pa.Table, path: Path, *, rows: int = 300, compression: str = "zstd") -> bytes:
    """Write a table in groups of so many rows; the bytes of the file."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression=compression, row_group_size=rows)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path.read_bytes()


def read(path: Path) -> pa.Table:
    """From a path Arrow reads CSV with threads, which may close the file after the call."""
    if path.suffix == ".csv":
        return pacsv.read_csv(pa.py_buffer(path.read_bytes()))
    return pq.ParquetFile(path).read() if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


def csv_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "in.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
