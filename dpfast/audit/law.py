# SPDX-License-Identifier: Apache-2.0
"""The audit of a law."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from dpfast.audit import report
from dpfast.audit.report import Line, Report
from dpfast.audit.statistics import POWER, at_least, binomial_p, chi2_p, quantile
from dpfast.audit.subject import DRAWS, Function, Progress, Subject, enough
from dpfast.audit.words import number, percentage
from dpfast.errors import DTypeError, ParameterError
from dpfast.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, own_laws

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.privacy.parameters import Real

TESTS = 7  # of one count
LEAST_EXPECTED = 50  # draws in a cell of the chi-squared test
Exact: TypeAlias = DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian


def exact_law(
    name: str,
    *,
    epsilon: Real | None = None,
    sensitivity: Real = 1,
    sigma: Real | None = None,
    granularity: Real | None = None,
) -> Exact:
    """The law of that name: a Laplace law from epsilon and sensitivity, a Gaussian from sigma.

    Raises: ParameterError, DTypeError.
    """
    law = name.replace("-", "_")
    if law not in own_laws():
        raise ParameterError(f"law must be one of {', '.join(own_laws())}, got {name:.40}")
    if granularity is not None and law.startswith("discrete"):
        raise ParameterError(f"granularity is for the real laws, not for {law}")
    if law.endswith("laplace"):
        if epsilon is None:
            raise ParameterError(f"epsilon must be given for {law}")
        if law == "laplace":
            return Laplace(epsilon, sensitivity, granularity=granularity)
        return DiscreteLaplace(epsilon, sensitivity)
    if sigma is None:
        raise ParameterError(f"sigma must be given for {law}")
    return Gaussian(sigma, granularity=granularity) if law == "gaussian" else DiscreteGaussian(sigma)


def law(
    function: Function,
    name: str,
    *,
    epsilon: Real | None = None,
    sensitivity: Real = 1,
    sigma: Real | None = None,
    granularity: Real | None = None,
    counts: tuple[float, float] = (0, 100),
    n: int = DRAWS,
    progress: Progress | None = None,
) -> Report:
    """Compare `function(count, n) - count` with an exact law, for two counts, n draws together.

    The false-alarm rate counts on the normal and chi-squared tails of the mean, the variance and the shape: n of 20,000
    or more. The other tests are exact.

    granularity: the grid that outputs of a real law must be on. Without it they may be on any, finer than 2^-20 scales.
    Raises: ParameterError, DTypeError.
    """
    if not callable(function):
        raise DTypeError(f"function must be callable as function(count, n), not {type(function).__name__}")
    enough(n)
    mechanism = exact_law(name, epsilon=epsilon, sensitivity=sensitivity, sigma=sigma, granularity=granularity)
    subject = Subject(function, progress)
    bins = _bins(mechanism, n // 2)
    level = report.ALPHA / (TESTS * len(counts))
    worst: dict[str, tuple[float, str]] = {}
    for count in counts:
        subject.say(f"count {number(count)}: {n // 2:,} draws")
        noise = np.asarray(subject.draw(count, n // 2) - count, np.float64)
        step = None if isinstance(mechanism, (Laplace, Gaussian)) and granularity is None else _step(mechanism)
        for test, p, detail in _compared(noise, mechanism, bins, step):
            if test not in worst or not p >= worst[test][0]:
                worst[test] = p, f"count {number(count)}: {detail}"
    lines = [
        Line(test, "passed" if p >= level else "found", f"{detail}; p = {p:.2g}") for test, (p, detail) in worst.items()
    ]
    spread = f"sigma {mechanism.scale:.6g}" if "gaussian" in mechanism.NAME else f"scale {mechanism.scale:.6g}"
    found = [line for line in lines if line.verdict == "found"]
    return Report(
        "law",
        bool(found),
        0.0,
        lines,
        n,
        f"{mechanism.NAME.replace('_', ' ')}, {spread}",
        found[0].detail if found else "",
        _sharpness(mechanism, bins, n // 2, level),
        seconds=round(time.monotonic() - subject.began, 3),
    )


class _Bins(NamedTuple):
    """Cells (-inf, edges[0]], (edges[0], edges[1]], ... and what each should hold."""

    edges: npt.NDArray[np.float64]
    mass: npt.NDArray[np.float64]


def _step(mechanism: Exact) -> float:
    return mechanism.granularity if isinstance(mechanism, (Laplace, Gaussian)) else 1.0


def _cdf(mechanism: Exact, at: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """P(noise <= at), for multiples of the step."""
    kind = np.float64 if isinstance(mechanism, (Laplace, Gaussian)) else np.int64
    return np.atleast_1d(mechanism.cdf(np.asarray(at, kind)))


def _bins(mechanism: Exact, n: int) -> _Bins:
    wanted = np.array([LEAST_EXPECTED / n, *((i + 0.5) / 129 for i in range(129)), 1 - LEAST_EXPECTED / n])
    step = _step(mechanism)
    reach = math.ceil(60 * max(mechanism.scale, step) / step)
    low, high = np.full(wanted.size, -reach, np.int64), np.full(wanted.size, reach, np.int64)
    while (high - low > 1).any():
        middle = (low + high) // 2
        short = _cdf(mechanism, middle * step) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    edges, mass, last = [], [], 0.0
    values = np.unique(high) * step
    for edge, upto in zip(values, _cdf(mechanism, values), strict=True):
        if (upto - last) * n >= LEAST_EXPECTED * 0.99 and (1 - upto) * n >= LEAST_EXPECTED * 0.99:
            edges.append(edge)
            mass.append(upto - last)
            last = upto
    return _Bins(np.array(edges), np.array([*mass, 1 - last]))


def _compared(
    noise: npt.NDArray[np.float64], mechanism: Exact, bins: _Bins, step: float | None
) -> Iterator[tuple[str, float, str]]:
    """Name, p-value and detail of each test: at most TESTS."""
    n = noise.size
    if step:
        off = int((noise != np.rint(noise / step) * step).sum())
        grid = "a whole number" if step == 1 else f"a multiple of {number(step)}"
        yield (
            "grid",
            float(off == 0),
            f"{percentage(off, n)} of the noise is not {grid}" if off else f"all of it is {grid}",
        )
    seen = np.bincount(np.searchsorted(bins.edges, noise, side="left"), minlength=bins.mass.size)
    expected = bins.mass * n
    if bins.mass.size > 1:
        statistic = float(((seen - expected) ** 2 / expected).sum())
        detail = f"chi-squared {statistic:,.0f} over {bins.mass.size} cells"
        yield "shape", chi2_p(statistic, bins.mass.size - 1), detail
    variance, fourth, skew = _moments(mechanism)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, square = float(noise.mean()), float(np.mean(noise**2))
    yield "mean", math.erfc(abs(mean) / math.sqrt(2 * variance / n)), f"mean {mean:.3g}"
    z = abs(square - variance) / math.sqrt(max(fourth - variance**2, 1e-300) / n)
    # the normal tail alone would understate that of a mean of squares: the first term of its large deviations
    p = min(1.0, math.erfc(z / math.sqrt(2)) * math.exp(min(700.0, skew * z**3 / (6 * math.sqrt(n)))))
    yield "variance", p, f"variance {square:.6g}, should be {variance:.6g}"
    positive, other = int((noise > 0).sum()), int((noise != 0).sum())
    if other:
        detail = f"{percentage(positive, other)} of what is not 0 is positive"
        yield "sign", binomial_p(positive, other, 0.5), detail
    zero = float(mechanism.pmf(0))
    p = binomial_p(n - other, n, zero) if step else at_least(n - other, n, zero)  # without a grid, 0 may be rarer
    yield "zero", p, f"{percentage(n - other, n)} of the noise is 0, should be {100 * zero:.4g} %"
    if bins.edges.size:
        far = float(bins.edges[-1])
        tail = float(1 - _cdf(mechanism, far)[0] + _cdf(mechanism, -far - _step(mechanism))[0])
        beyond = int((noise > far).sum() + (noise < -far).sum())
        detail = f"{beyond:,} draws beyond ±{number(far)}, should be {tail * n:,.0f}"
        yield "tails", binomial_p(beyond, n, tail), detail


def _moments(mechanism: Exact) -> tuple[float, float, float]:
    """Variance, fourth moment, and the skewness of the square."""
    step = _step(mechanism)
    ratio = mechanism.scale / step
    if ratio <= 1000:
        k = np.arange(1, math.ceil(60 * max(ratio, 1)) + 1) * (step if step != 1 else 1)
        mass = 2 * np.asarray(mechanism.pmf(k))
        second, fourth, sixth = (float((mass * k**power).sum()) for power in (2, 4, 6))
    else:
        b, normal = mechanism.scale, isinstance(mechanism, (Gaussian, DiscreteGaussian))
        second, fourth, sixth = (b**2, 3 * b**4, 15 * b**6) if normal else (2 * b**2, 24 * b**4, 720 * b**6)
    second = mechanism.variance if second else second
    third = sixth - 3 * second * fourth + 2 * second**3
    return second, fourth, third / max(fourth - second**2, 1e-300) ** 1.5


def _sharpness(mechanism: Exact, bins: _Bins, n: int, level: float) -> str:
    """The least error of the scale that the chi-squared test finds, nine times of ten."""
    degrees = bins.mass.size - 1
    if not degrees:
        return "So few draws tell nothing of its shape."
    low, high = float(degrees), 100.0 * degrees + 1000
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if chi2_p(middle, degrees) > level else (low, middle)
    step = None if isinstance(mechanism, (DiscreteLaplace, DiscreteGaussian)) else _step(mechanism)
    normal = isinstance(mechanism, (Gaussian, DiscreteGaussian))
    for percent in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100):
        scale = mechanism.scale * (1 + percent / 100)
        other = exact_law(mechanism.NAME, epsilon=1 / scale, sigma=scale if normal else None, granularity=step)
        mass = np.diff(np.concatenate([[0.0], _cdf(other, bins.edges), [1.0]]))
        shift = n * float(((mass - bins.mass) ** 2 / bins.mass).sum())
        if degrees + shift - quantile(1 - POWER) * math.sqrt(2 * (degrees + 2 * shift)) > high:
            return f"With probability {POWER:.0%} it finds a scale that is {percent:g} % too large."
    return "So few draws tell nothing of its scale."
