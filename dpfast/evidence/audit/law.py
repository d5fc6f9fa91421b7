# SPDX-License-Identifier: Apache-2.0
"""The audit of a law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.errors import DTypeError
from dpfast.evidence.audit import findings
from dpfast.evidence.audit.audited import DRAWS, Audited, Function, Progress
from dpfast.evidence.audit.findings import POWER, Findings, Line
from dpfast.evidence.statistics import Distribution, GoodnessOfFit, chi_squared_p
from dpfast.noise.mechanisms.laws import own_laws
from dpfast.noise.mechanisms.pure import Pure
from dpfast.privacy.exact.binomial import normal_quantile
from dpfast.privacy.formatting import output, share

TESTS = 7  # tests for each count
LEAST_EXPECTED = 50  # draws in a cell of the chi-squared test
Exact: TypeAlias = DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian


def law(
    function: Function,
    mechanism: Exact,
    *,
    on_grid: bool = False,
    counts: tuple[float, float] = (0, 100),
    n: int = DRAWS,
    progress: Progress | None = None,
) -> Findings:
    """Compare a function's outputs less the count with a mechanism's noise: two counts, n draws.

    function: as of `privacy`; an array is of float64 if the mechanism's values are real.

    The false-alarm rate relies on normal and chi-squared tails of the mean, the variance and the
    shape: use an n of 20,000 or more. The other tests are exact.

    mechanism: a DiscreteLaplace, Laplace, DiscreteGaussian or Gaussian.
    on_grid: outputs must lie on a real law's grid; else a finer grid, as that of doubles, will do.
    Raises: ParameterError, DTypeError.
    """
    audited = Audited(function, n, progress, real=not getattr(mechanism, "INTEGERS", True))
    laws = tuple(own_laws().values())
    if type(mechanism) not in laws:
        raise DTypeError(
            f"mechanism must be a {', '.join(law.__name__ for law in laws)}, not {type(mechanism).__name__}"
        )
    step, whole = _step(mechanism), on_grid or mechanism.INTEGERS
    expected = _in_steps(mechanism)
    level = findings.ALPHA / (TESTS * len(counts))
    worst: dict[str, tuple[float, str]] = {}
    for count in counts:
        audited.say(f"count {output(count)}: {n // 2:,} draws")
        noise = np.asarray(audited.draw(count, n // 2) - count, np.float64) / step
        fit = GoodnessOfFit(expected, n // 2, LEAST_EXPECTED, whole=whole)
        for test, p, detail in _tested(noise, fit, step, whole=whole):
            if test not in worst or not p >= worst[test][0]:
                worst[test] = p, f"count {output(count)}: {detail}"
    lines = [
        Line(test, "passed" if p >= level else "found", f"{detail}; p = {p:.2g}") for test, (p, detail) in worst.items()
    ]
    spread = f"sigma {mechanism.scale:.6g}" if "gaussian" in mechanism.NAME else f"scale {mechanism.scale:.6g}"
    event = next((line.detail for line in lines if line.verdict == "found"), "")
    promise, could = f"{mechanism.NAME.replace('_', ' ')}, {spread}", _sharpness(mechanism, fit, n // 2, level)
    return Findings("law", 0.0, lines, n, promise, event, could, seconds=audited.seconds)


def _step(mechanism: Exact) -> float:
    return getattr(mechanism, "granularity", 1)


def _cdf(mechanism: Exact, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """P(noise <= k steps)."""
    return np.atleast_1d(mechanism.cdf(k * _step(mechanism)))


def _in_steps(mechanism: Exact) -> Distribution:
    """The noise divided by the step of its grid."""
    step, normal = _step(mechanism), "gaussian" in mechanism.NAME
    scale = mechanism.scale / step
    if scale <= 1000:
        k = np.arange(1, math.ceil(60 * max(scale, 1)) + 1)
        mass = 2 * np.asarray(mechanism.pmf(k * step))
        second, fourth, sixth = (float((mass * k.astype(float) ** power).sum()) for power in (2, 4, 6))
    else:
        second, fourth, sixth = (
            m * scale**power for power, m in zip((2, 4, 6), (1, 3, 15) if normal else (2, 24, 720), strict=True)
        )
    second = max(mechanism.variance / step**2 if second else second, 1e-300)
    third = sixth - 3 * second * fourth + 2 * second**3
    skewness = third / max(fourth - second**2, 1e-300) ** 1.5
    return Distribution(partial(_cdf, mechanism), 0, second, fourth, skewness)


def _tested(
    noise: npt.NDArray[np.float64], fit: GoodnessOfFit, step: float, *, whole: bool
) -> Iterator[tuple[str, float, str]]:
    """Name, p-value and detail of each test: at most TESTS. noise: in steps."""
    n = noise.size
    if whole:
        off = int((noise != np.rint(noise)).sum())
        grid = "a whole number" if step == 1 else f"a multiple of {output(step)}"
        detail = f"{share(off, n)} of the noise is not {grid}" if off else f"all of it is {grid}"
        yield "grid", float(off == 0), detail
    fit.add(noise)
    _, zero, far = fit.chances
    variance = fit.expected.variance * step**2
    details = {
        "shape": f"chi-squared {fit.chi_squared:,.0f} over {fit.mass.size} cells" if fit.edges.size else "",
        "mean": f"mean {fit.first / n * math.sqrt(variance):.3g}",
        "variance": f"variance {fit.second / n * variance:.6g}, should be {variance:.6g}",
        "sign": f"{share(fit.positive, n - fit.zero)} of what is not 0 is positive" if n > fit.zero else "",
        "zero": f"{share(fit.zero, n)} of the noise is 0, should be {100 * zero:.4g} %",
        "tails": f"{fit.far:,} draws beyond ±{output(fit.high * step)}, should be {far * n:,.0f}",
    }
    yield from ((test, p, details[test]) for test, p in fit.p_values().items() if details[test])


def _sharpness(mechanism: Exact, fit: GoodnessOfFit, n: int, level: float) -> str:
    """The least error of the scale that the chi-squared test finds with probability POWER."""
    degrees = fit.edges.size
    if not degrees:
        return "So few draws tell nothing of its shape."
    low, high = float(degrees), 100.0 * degrees + 1000
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if chi_squared_p(middle, degrees) > level else (low, middle)
    grid = {} if mechanism.INTEGERS else {"granularity": _step(mechanism)}
    law: Any = type(mechanism)
    for percent in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100):
        scale = mechanism.scale * (1 + percent / 100)
        other = law(1 / scale, 1, **grid) if isinstance(mechanism, Pure) else law(scale, **grid)
        mass = np.diff(np.concatenate([[0.0], _cdf(other, fit.edges.astype(np.int64)), [1.0]]))
        shift = n * float(((mass - fit.mass) ** 2 / fit.mass).sum())
        if degrees + shift - normal_quantile(1 - POWER) * math.sqrt(2 * (degrees + 2 * shift)) > high:
            return f"With probability {100 * POWER:g} % it finds a scale that is {percent:g} % too large."
    return "So few draws tell nothing of its scale."
