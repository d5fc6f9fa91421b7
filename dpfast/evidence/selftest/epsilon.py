# SPDX-License-Identifier: Apache-2.0
"""An attack on our own mechanisms: a certified lower bound of epsilon for neighbouring counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Sensitivity, Snapping
from dpfast.evidence import audit
from dpfast.evidence.selftest.check import Outcome, Run, below

DRAWS = 1_000_000  # for each count
DELTA = 1e-6
ONE = Sensitivity(1, 1)
LEVEL = 6 * audit.ALPHA**2  # an accusation must repeat in fresh draws


def mechanisms() -> list[tuple[Any, float]]:
    return [
        (DiscreteLaplace(1, 1), 0.0), (DiscreteLaplace(0.1, 1), 0.0), (Laplace(1, 1), 0.0), (Snapping(1, 1, bound=2**20), 0.0),
        (DiscreteGaussian.calibrated(1, ONE, delta=DELTA), DELTA), (Gaussian.calibrated(1, ONE, delta=DELTA), DELTA),
    ]  # fmt: skip


def function_of(mechanism: Any, run: Run) -> Callable[[float, int], npt.NDArray[Any]]:
    """Outputs for a count on the grid: so the noise can be taken off and put back unchanged."""
    whole = isinstance(mechanism, (DiscreteLaplace, DiscreteGaussian))

    def outputs(count: float, n: int) -> npt.NDArray[Any]:
        counts = np.full(n, int(count) if whole else float(count))
        return counts + run.under_test("noise", mechanism.release(counts) - counts)  # type: ignore[no-any-return]

    return outputs


def epsilon(run: Run) -> Outcome:
    """Audit each mechanism; a finding must repeat in fresh draws."""
    n, chosen, said = run.scaled(DRAWS, 50_000), mechanisms(), []
    chosen = chosen[: run.scaled(len(chosen))]
    for at, (mechanism, delta) in enumerate(chosen):
        run.step(at / len(chosen))
        stated = float(mechanism.calibrated_for.epsilon if delta else mechanism.epsilon)
        count = below(10**6)
        pairs = [(count, count + 1), (count, count + round(2 / stated))]
        attack = partial(audit.privacy, function_of(mechanism, run), stated, delta=delta, pairs=pairs, n=n)
        report = attack()
        if report.found:
            report = attack()
        run.expect(not report.found, f"{mechanism!r}: spends {report.bound:.4g}, not {stated:.4g}")
        said.append(f"{report.bound:.3g}/{stated:g}")
    return run.outcome(f"{n:,} draws a count; epsilon spent at least/stated: {', '.join(said)}")
