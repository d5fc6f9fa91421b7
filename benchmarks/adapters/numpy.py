# SPDX-License-Identifier: Apache-2.0
"""NumPy's Generator on its PCG64 and on dpfast.ChaCha20; os.urandom and dpfast.random_bytes."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

import dpfast
from adapters import compared

VERSIONS = ()  # the facts name NumPy already
SIZE = 1_000_000
CALLS = {
    "integers(0, 2**64, dtype=uint64)": lambda g, n: g.integers(0, 2**64, dtype=np.uint64, size=n),
    "random()": lambda g, n: g.random(n),
    "integers(0, 1000)": lambda g, n: g.integers(0, 1000, n),
    "standard_normal()": lambda g, n: g.standard_normal(n),
    "permutation": lambda g, n: g.permutation(n),
}


def repeated(call, n, times):
    for _ in range(times):
        call(n)


def rows(size):
    theirs, ours = np.random.Generator(np.random.PCG64()), np.random.Generator(dpfast.ChaCha20())
    for name, call in CALLS.items():
        yield compared(f"Generator.{name}, PCG64 before", partial(call, theirs, size), partial(call, ours, size), size)
    for n, name in ((32, "32"), (1 << 14, "16 Ki"), (1 << 20, "1 Mi"), (1 << 26, "64 Mi")):
        times = max(1, (1 << 20) // n)  # calls in a run
        before, after = partial(repeated, os.urandom, n, times), partial(repeated, dpfast.random_bytes, n, times)
        yield compared(f"random_bytes, {name}, os.urandom before", before, after, n * times, "byte")
    buffer = bytearray(1 << 26)
    before, after = partial(os.urandom, len(buffer)), partial(dpfast.fill_bytes, buffer)
    yield compared("fill_bytes, 64 Mi, os.urandom before", before, after, len(buffer), "byte")
