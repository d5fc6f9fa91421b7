# SPDX-License-Identifier: Apache-2.0
"""csrc/sum.h alone, built as the library builds it: sums of any values and noise."""

from __future__ import annotations

import ctypes
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tiers
from places import ROOT

CSRC = ROOT / "csrc"  # beside the tests, wherever dpfast is installed

SOURCE = r"""
    #include "dpf_impl.h"
    #include "sum.h"

    void sums(int kind, int limbs, int64_t n, const char *x, const int64_t *lo, const int64_t *hi,
              const uint64_t *bounds, char *out) {
        const dpf_release how = {.kind = kind,
                                 .limbs = limbs,
                                 .lower = {bounds[0], bounds[1]},
                                 .upper = {bounds[2], bounds[3]}};
        static dpf_batch batch;
        for (int64_t done = 0; done < n; done += DPF_MOST) {
            const int end = n - done < DPF_MOST ? (int)(n - done) : DPF_MOST;
            const int64_t at = dpf_size(kind) * done;
            sum_up(&how, x + at, 0, end, lo + done, limbs == 2 ? hi + done : NULL, 0, &batch);
            store_sums(&how, &batch, NULL, 0, end, out + at);
        }
    }

    void each(int kind, int limbs, int64_t n, const char *x, const int64_t *lo, const int64_t *hi,
              const uint64_t *bounds, char *out) {
        const dpf_release how = {.kind = kind,
                                 .limbs = limbs,
                                 .lower = {bounds[0], bounds[1]},
                                 .upper = {bounds[2], bounds[3]}};
        for (int64_t i = 0; i < n; i++)
            sum_up_one(&how, dpf_value(kind, x + dpf_size(kind) * i), lo[i], hi[i], out + dpf_size(kind) * i);
    }
"""
Summing = Callable[[int, int, list[int], list[int], int, int], list[int]]


def limbs_of(numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper words, in two's complement."""
    words = np.array([(k % 2**64, k // 2**64 % 2**64) for k in numbers], np.uint64)
    return np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])


def summing(folder: Path) -> dict[str, Summing]:
    """Sums modulo 2^64 of (kind, limbs, values, noise, lower, upper), by two ways."""
    types = {kind: dtype for dtype, kind in tiers.KINDS.items()}
    built = runpy.run_path(str(CSRC / "build_ffi.py"))
    (folder / "sums.c").write_text(SOURCE)
    place = "-I", str(CSRC), "-shared", "-fPIC", "-o", "sums.so", "sums.c"
    flags = [flag for flag in built["FLAGS"] if flag != "-fvisibility=hidden"]
    subprocess.run(["cc", *flags, *place], check=True, capture_output=True, cwd=folder)
    library = ctypes.CDLL(str(folder / "sums.so"))

    def calling(name: str) -> Summing:
        function = getattr(library, name)

        def call(kind: int, limbs: int, values: list[int], noise: list[int], lower: int, upper: int) -> list[int]:
            x = limbs_of(values)[0].astype(types[kind])
            (lo, hi), ends, out = limbs_of(noise), limbs_of([lower, upper]), np.empty_like(x)
            bounds = np.ascontiguousarray(np.stack(ends, axis=1))
            places = (ctypes.c_void_p(array.ctypes.data) for array in (x, lo, hi, bounds, out))
            function(kind, limbs, ctypes.c_int64(x.size), *places)
            return out.astype(np.uint64).tolist()

        return call

    return {name: calling(name) for name in ("sums", "each")}
