# SPDX-License-Identifier: Apache-2.0
"""Audits find each planted unsafe mechanism and no mechanism of dpfast's.

An audit accuses a private mechanism with probability ALPHA at most. OneSidedGeometric is noise for
other mechanisms, with no release, so it is not audited by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from proofs import CSRC

import dpfast
from dpfast.evidence import audit

DELTA = 1e-3
CELL = dpfast.Sensitivity(1, 1)
Function = Callable[[float, int], Any]


def _released(mechanism: Any, kind: type = np.int64, **options: Any) -> Function:
    return lambda count, n: mechanism.release(np.full(n, count, kind), **options)


def _chosen(mechanism: Any) -> Function:
    """The winner of three scores, the first of which is the count."""
    return lambda count, n: [mechanism.select([int(count), 0, 1]) for _ in range(n)]


def _halted(count: float, n: int) -> list[int]:
    """The place of the first answer above a threshold of 1; 3 if there is none."""
    above = (dpfast.AboveThreshold(1, 1, threshold=1).run([int(count), 0, int(count)]) for _ in range(n))
    return [3 if place is None else place for place in above]


LAPLACE, GEOMETRIC = dpfast.Laplace(1, 1), dpfast.DiscreteLaplace(1, 1)
NORMALS = dpfast.DiscreteGaussian.calibrated(1, CELL, delta=DELTA), dpfast.Gaussian.calibrated(1, CELL, delta=DELTA)
BITS = {"pairs": [(0, 1)]}
# Each with epsilon 1: the function, options of the audit.
OWN: dict[str, tuple[Function, dict[str, Any]]] = {
    "DiscreteLaplace": (_released(GEOMETRIC), {}),
    "DiscreteLaplace, constant time": (_released(GEOMETRIC, constant_time=True), {}),
    "DiscreteLaplace, narrow": (_released(GEOMETRIC, dtype=np.int8, lower=-2, upper=2), {}),
    "Laplace": (_released(LAPLACE, np.float64), {}),
    "Laplace, float32": (_released(LAPLACE, np.float32), {}),
    "Snapping": (_released(dpfast.Snapping(1, 1, bound=64), np.float64), {}),
    "DiscreteGaussian": (_released(NORMALS[0]), {"delta": DELTA, "pairs": [(0, 1), (0, 2)]}),
    "Gaussian": (_released(NORMALS[1], np.float64), {"delta": DELTA, "pairs": [(0, 1), (0, 2)]}),
    "RandomizedResponse": (_released(dpfast.RandomizedResponse(1)), BITS),
    "RandomizedResponse, two coins": (_released(dpfast.RandomizedResponse.two_coin(epsilon=1)), BITS),
}
CHOOSERS: dict[str, tuple[Function, dict[str, Any]]] = {
    "AboveThreshold": (_halted, BITS),
    **{
        one.__name__: (_chosen(one(1, 1)), BITS) for one in (dpfast.NoisyMax, dpfast.Exponential, dpfast.PermuteAndFlip)
    },
}
LAWS: dict[str, tuple[Function, Any, dict[str, Any]]] = {
    "DiscreteLaplace": (_released(GEOMETRIC), GEOMETRIC, {}),
    "DiscreteGaussian": (_released(NORMALS[0]), NORMALS[0], {}),
    "Laplace": (
        _released(LAPLACE, np.float64),
        dpfast.Laplace(1, 1, granularity=LAPLACE.granularity),
        {"on_grid": True},
    ),
    "Gaussian": (_released(NORMALS[1], np.float64), NORMALS[1], {"on_grid": True}),
}
UNSAFE: dict[str, tuple[Function, dict[str, Any]]] = {
    "examples/audited.py: NumPy's Laplace": (audit.load(f"{CSRC.parent}/examples/audited.py:numpy_laplace"), {}),
    "half the noise": (_released(dpfast.DiscreteLaplace(2, 1)), {}),
    "half the noise, floats": (_released(dpfast.Laplace(2, 1), np.float64), {}),
    "half the Gaussian noise": (
        _released(dpfast.DiscreteGaussian(NORMALS[0].sigma / 2)), {"delta": DELTA, "pairs": [(0, 1), (0, 2)]}),
    "no noise": (lambda count, n: np.full(n, count), {}),
    "noise used again": (lambda count, n: count + np.random.default_rng(5).laplace(0, 1, n), {}),
    "low bit of the noise cleared": (lambda count, n: count + (GEOMETRIC.sample(n) & ~1), {}),
    "clipped noise": (lambda count, n: count + np.clip(GEOMETRIC.sample(n), -4, 4), {}),
    "an answer too often true": (_released(dpfast.RandomizedResponse(1.2)), BITS),
}  # fmt: skip


def check(*, cheap: bool) -> dict[str, Any]:
    """Audit each mechanism, its law, and what must be found."""
    n = 40_000 if cheap else 1_000_000
    chosen = 2_000 if cheap else 100_000
    draws, false_alarms = 0, []
    accepted: dict[str, float] = {}

    def run(judge: Callable[..., Any], *arguments: Any, n: int, **options: Any) -> Any:
        nonlocal draws
        counted = [0]
        function = arguments[0]

        def counting(count: float, size: int) -> Any:
            counted[0] += size
            return function(count, size)

        report = judge(counting, *arguments[1:], n=n, **options)
        draws += counted[0]
        return report

    for (name, (function, options)), size in [(one, n) for one in OWN.items()] + [
        (one, chosen) for one in CHOOSERS.items()
    ]:
        report = run(audit.privacy, function, 1, n=size, **options)
        accepted[name] = round(report.bound, 4)
        false_alarms += [report.text()] * report.found
    for function, law, options in LAWS.values():
        report = run(audit.law, function, law, n=n, **options)
        false_alarms += [report.text()] * report.found
    assert not false_alarms, "\n".join(false_alarms)
    audits = len(OWN) + len(CHOOSERS) + len(LAWS)
    found = {
        name: run(audit.privacy, function, 1, n=max(n, 100_000), **options)
        for name, (function, options) in UNSAFE.items()
    }
    missed = [name for name, report in found.items() if not report.found]
    assert not missed, missed
    return {
        "audits of dpfast": audits, "found there": 0, "false alarms allowed, at most": audits * audit.ALPHA,
        "planted": len(UNSAFE), "found of these": len(found), "draws": draws,
        "epsilon proved spent, of 1": accepted,
        "epsilon proved spent by the planted": {name: round(one.bound, 4) if math.isfinite(one.bound) else "any" for name, one in found.items()},
    }  # fmt: skip
