# SPDX-License-Identifier: Apache-2.0
"""NumPy's Generator on its PCG64 and on dpfast.ChaCha20; os.urandom and dpfast.random_bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from row import Row

import dpfast

VERSIONS = ()  # the facts name NumPy already
N = 1_000_000
CALLS: dict[str, Callable[[np.random.Generator], Any]] = {
    "integers(0, 2**64, dtype=uint64)": lambda g: g.integers(0, 2**64, dtype=np.uint64, size=N),
    "random()": lambda g: g.random(N),
    "integers(0, 1000)": lambda g: g.integers(0, 1000, N),
    "standard_normal()": lambda g: g.standard_normal(N),
    "permutation": lambda g: g.permutation(N),
}


def repeated(call: Callable[[int], bytes], n: int, times: int) -> None:
    for _ in range(times):
        call(n)


def rows() -> list[Row]:
    theirs, ours = np.random.Generator(np.random.PCG64()), np.random.Generator(dpfast.ChaCha20())
    made = [
        Row(f"Generator.{name}, PCG64 before", partial(call, theirs), partial(call, ours), N, N)
        for name, call in CALLS.items()
    ]
    for n, name in ((32, "32"), (1 << 14, "16 Ki"), (1 << 20, "1 Mi"), (1 << 26, "64 Mi")):
        times = max(1, (1 << 20) // n)  # calls in a run
        before, after = partial(repeated, os.urandom, n, times), partial(repeated, dpfast.random_bytes, n, times)
        made.append(Row(f"random_bytes, {name}, os.urandom before", before, after, n * times, n * times, "byte"))
    buffer = bytearray(1 << 26)
    before, after = partial(os.urandom, len(buffer)), partial(dpfast.fill_bytes, buffer)
    return [*made, Row("fill_bytes, 64 Mi, os.urandom before", before, after, len(buffer), len(buffer), "byte")]
