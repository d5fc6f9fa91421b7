# SPDX-License-Identifier: Apache-2.0
"""The only room that imports numba: when first needed, because numba takes a while to load."""

from __future__ import annotations

import gc
import importlib
import sys
from functools import cache, partial
from typing import Any

from dpfast.loading import apart

KERNELS = (
    "fixed_point", "fixed_point_bits", "nominate", "respond", "last_leader", "node_sums", "least_squares", "range_sums",
    "top_down",
)  # fmt: skip


@cache
def kernel(name: str) -> Any:
    """One of KERNELS; each is compiled, or read from numba's cache, when first asked for."""
    return apart(partial(_loaded, name))


def _loaded(name: str) -> Any:
    before = set(sys.modules)
    # numba makes a million objects that stay; to look for garbage among them takes a fifth of the
    # time. Not by gc.disable, which another thread may call meanwhile for itself.
    collecting = gc.get_threshold()
    gc.set_threshold(0)
    try:
        importlib.import_module("dpfast.noise.kernels.jit")
    except BaseException:
        # Out of memory, perhaps. Python keeps the modules of the failed package that did load, and
        # the package's next import does not bind them: begin anew.
        for module in set(sys.modules) - before:
            if module.partition(".")[0] in ("numba", "llvmlite"):
                del sys.modules[module]
        raise
    else:
        return getattr(importlib.import_module(f"dpfast.noise.kernels.{name}"), name)
    finally:
        if not gc.get_threshold()[0]:  # nobody has set another
            gc.set_threshold(*collecting)


def cache_state() -> dict[str, object]:
    """Where numba keeps the compiled kernels, and how many this process loaded or compiled."""
    stats = [kernel(name).stats for name in KERNELS]
    return {
        "path": stats[0].cache_path,
        "loaded": sum(sum(s.cache_hits.values()) for s in stats),
        "compiled": sum(sum(s.cache_misses.values()) for s in stats),
    }
