# SPDX-License-Identifier: Apache-2.0
"""The record that travels with a released file: found and read, and not believed.

Anybody may have written it. It is JSON of a size that a record may have, each name once.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dpfast.app.tables.arrow_reader import ArrowFile
from dpfast.app.tables.readers import DEEPEST
from dpfast.app.tables.source import reading
from dpfast.app.tables.streams import PIPE, form
from dpfast.errors import FileError, ParameterError

MOST = 1 << 26  # bytes
OUTPUT = "_dpfast.json"  # in the folder that an engine writes


def record_of(path: Path) -> dict[str, Any]:
    """What the file, or an engine's output, says of itself.

    It lies in the schema, or in OUT.json, or it is the file itself. Raises: FileError,
    ParameterError.
    """
    if path == PIPE:
        raise ParameterError("OUT must be a file: what - was says itself in the file of --metadata")
    try:
        path.exists()
    except OSError as error:  # a name that no file can have
        raise FileError(f"cannot read {path}: {error.strerror}") from None
    if path.is_dir():
        if not (path / OUTPUT).is_file():
            raise FileError(
                f"{path} contains no {OUTPUT}, so it is no output of an engine: dpfast jobs show reads a stage"
            )
        return _parsed(_bytes(path / OUTPUT), path / OUTPUT)
    if not path.is_file():
        raise FileError(f"cannot read {path}: {'it is no regular file' if path.exists() else 'there is no such file'}")
    if path.suffix.lower() == ".json":
        return _parsed(_bytes(path), path)
    if path.suffix.lower() in {".parquet", ".arrow", ".feather"}:
        return _parsed(_in_schema(path), path)
    beside = Path(f"{path}.json")
    if not os.path.isfile(beside):  # noqa: PTH113  it never raises, for a name that is too long
        raise FileError(f"{path} has no record: {beside.name}, which dpfast writes beside it, is not there")
    return _parsed(_bytes(beside), beside)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST + 1)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from None


def _in_schema(path: Path) -> bytes:
    kind = form(path)
    with reading(path, kind):
        schema = pq.read_schema(path) if kind.format == "Parquet" else ArrowFile(path).schema
    found = (schema.metadata or {}).get(b"dpfast")
    if found is None:
        raise FileError(f"{path} has no record: its schema holds nothing under dpfast")
    return bytes(found)


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    if len(text) > MOST:
        raise FileError(f"the record in {path} is damaged: it is larger than {MOST >> 20} MiB")
    try:
        found = json.loads(text, object_pairs_hook=_each_name_alone, parse_constant=_no_number, parse_float=_real)
    except (ValueError, RecursionError):  # whose messages quote it
        raise FileError(f"the record in {path} is damaged: it is not whole JSON, with each name once") from None
    if not isinstance(found, dict) or _depth(found) > DEEPEST:
        raise FileError(f"the record in {path} is damaged: it is no JSON object of a record's depth")
    return found


def _depth(found: Any) -> int:
    """How many objects and lists lie within each other."""
    depth, level = 0, [found]
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        level = [each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer)]
    return depth


def _each_name_alone(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


def _real(text: str) -> float:
    if math.isinf(found := float(text)):
        raise ValueError(text)
    return found
