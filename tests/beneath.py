# SPDX-License-Identifier: Apache-2.0
"""Columns of every type that passes through, with a secret under their nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SECRET = b"SECRET!!"  # eight bytes that no output may hold
NUMBER = int.from_bytes(SECRET, "little")


def over(kind: pa.DataType, *buffers: bytes, children: list[pa.Array] | None = None) -> pa.Array:
    """Two cells, the second null, over these buffers."""
    return pa.Array.from_buffers(kind, 2, [pa.py_buffer(b) for b in (b"\1", *buffers)], children=children)


def offsets(*places: int, kind: str = "<i4") -> bytes:
    return np.array(places, kind).tobytes()


def beneath() -> dict[str, pa.Array]:
    """By name: two cells. The second is null, with SECRET beneath it."""
    eight = b"\7" + bytes(7)
    text = pa.array(["a", SECRET.decode()])
    number = pa.array([1, NUMBER])
    made = {
        "int64": over(pa.int64(), eight + SECRET),
        "uint64": over(pa.uint64(), eight + SECRET),
        "double": over(pa.float64(), eight + SECRET),
        "timestamp": over(pa.timestamp("ns", "Europe/Berlin"), eight + SECRET),
        "duration": over(pa.duration("s"), eight + SECRET),
        "decimal": over(pa.decimal128(38), eight + bytes(8) + 2 * SECRET),
        "fixed": over(pa.binary(8), eight + SECRET),
        "string": over(pa.string(), offsets(0, 1, 9), b"a" + SECRET),
        "binary": over(pa.binary(), offsets(0, 1, 9), b"a" + SECRET),
        "large": over(pa.large_string(), offsets(0, 1, 9, kind="<i8"), b"a" + SECRET),
        "list": over(pa.list_(pa.string()), offsets(0, 1, 2), children=[text]),
        "large list": over(pa.large_list(pa.int64()), offsets(0, 1, 2, kind="<i8"), children=[number]),
        "fixed list": over(pa.list_(pa.int64(), 1), children=[number]),
        "struct": over(pa.struct([("x", pa.string()), ("y", pa.int64())]), children=[text, number]),
        "map": over(
            pa.map_(pa.string(), pa.int64()),
            offsets(0, 1, 2),
            children=[pa.StructArray.from_arrays([text, number], fields=[pa.field("key", pa.string(), nullable=False),
                                                                         pa.field("value", pa.int64())])],
        ),
        "list in struct": over(
            pa.struct([("x", pa.list_(pa.int64()))]), children=[over(pa.list_(pa.int64()), offsets(0, 1, 2), children=[number])]
        ),
        "coded": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), text),
        "coded list": over(
            pa.list_(pa.dictionary(pa.int8(), pa.string())),
            offsets(0, 1, 2),
            children=[pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), text)],
        ),
    }  # fmt: skip
    if hasattr(pa, "string_view"):
        made["view"] = pa.array(["a" * 20, SECRET.decode() * 3]).cast(pa.string_view())[:1]
        made["view"] = pa.concat_arrays([made["view"], pa.nulls(1, pa.string_view())])
    return made
