# SPDX-License-Identifier: Apache-2.0
"""The only room that imports numba. Imported at the first release, for numba takes a while to load."""

from __future__ import annotations

import gc
import importlib
import logging  # noqa: F401  before our hook below, which must be the later: numba logs while it loads
import os
import threading
from functools import cache
from typing import Any

# 8,192 draws: the batches that refine a block's open draws are nearly full, and short noise fits L1.
BLOCK = 8192
INTERRUPTED = -2  # of add_small: by a signal, before there was a key
REAL_BLOCK = 4096  # so that a batch of open draws is nearly full

KERNELS = (
    "add_small", "add_short", "add_narrow", "add_wide", "add_grid", "add_grid_wide", "all_finite", "fixed_point",
    "fixed_point_bits", "race", "bounded_histogram", "siphash", "respond",
)  # fmt: skip

# A fork waits for a thread that is importing numba or compiling: the child would find the locks of both held for ever.
_loading = threading.RLock()
os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


@cache
def kernel(name: str) -> Any:
    """One of KERNELS; each is compiled, or read from numba's cache, when first asked for."""
    with _loading:
        collecting = gc.isenabled()
        gc.disable()  # numba makes a million objects that stay; looking for garbage among them takes a fifth of the time
        try:
            return getattr(importlib.import_module(f"dpfast.kernels.{name}"), name)
        finally:
            if collecting:
                gc.enable()


def cache_state() -> dict[str, object]:
    """Where numba keeps the compiled kernels, and how many of them this process loaded or compiled."""
    stats = [kernel(name).stats for name in KERNELS]
    return {
        "path": stats[0].cache_path,
        "loaded": sum(sum(s.cache_hits.values()) for s in stats),
        "compiled": sum(sum(s.cache_misses.values()) for s in stats),
    }
