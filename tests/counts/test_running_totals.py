# SPDX-License-Identifier: Apache-2.0
"""Running totals: plain integers, brute force and simulation beside the mechanism."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from running import GOLDEN
from scipy import stats

import dpfast
from dpfast.counts.running import buffers
from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy import exact, running

ONE = dpfast.Sensitivity(1, 1)
Coefficients, Placed, Moved, Code = running.Coefficients, running.Placed, running.Moved, buffers.Code
# Coefficients of two buffers, coarse enough that rounding is seen.
COARSE = Coefficients(((5, 3), (3, 5)), ((3, 3), (5, 4)))


class Plain:
    """The encoder and the decoder again, from their definition: unlimited integers, and doubles."""

    def __init__(self, code: Any, cells: int = 1) -> None:
        self.code, self.held = code, [[0] * cells for _ in code.coefficients.decays]

    @staticmethod
    def rounded(value: Fraction) -> int:
        return math.floor(value + Fraction(1, 2))

    def step(self, x: list[int]) -> list[int]:
        (decays, weights), bits, guard = self.code
        out = []
        for cell, count in enumerate(x):
            seen = sum(self.rounded(Fraction(a * u[cell], 2**b)) for u, (a, b) in zip(self.held, weights, strict=True))
            out.append(2**bits * count + self.rounded(Fraction(seen, 2**guard)))
            for u, (m, s) in zip(self.held, decays, strict=True):
                u[cell] += 2 ** (bits + guard) * count - self.rounded(Fraction(m * u[cell], 2**s))
        return out


def column(found: Any, n: int) -> list[Fraction]:
    """c_0, c_1, ..., exactly."""
    thetas = [1 - Fraction(m, 2**s) for m, s in found.decays]
    shares = [Fraction(a, 2**b) for a, b in found.weights]
    later = (sum((w * x**k for w, x in zip(shares, thetas, strict=True)), Fraction(0)) for k in range(n - 1))
    return [Fraction(1), *later]


def summed(c: list[Fraction], places: Any) -> Fraction:
    """The square of the length of a sum of columns."""
    n = len(c)
    total = [sum((c[t - p] for p in places if p <= t), Fraction(0)) for t in range(n)]
    return sum((x * x for x in total), Fraction(0))


@cache
def made(steps: int, **options: Any) -> Any:
    return dpfast.RunningTotals(steps, sensitivity=options.pop("sensitivity", ONE), rho=Fraction(1, 2), **options)


def encode_all(code: Any, x: Any) -> Any:
    """All steps of x, (steps, cells)."""
    encoder, _ = buffers.begun(code, x.shape[1])
    found = []
    for row in x:
        v, encoder = buffers.encoded(code, encoder, np.ascontiguousarray(row))
        found.append(v)
    return np.array(found)


# ------------------------------------------------------------------ the encoder


@pytest.mark.parametrize("steps", [1, 365, 2**20])
def test_the_encoder_is_the_one_of_plain_integers(steps: int) -> None:
    totals = made(steps)
    generator = np.random.default_rng(steps)
    x = generator.integers(-totals.bound, totals.bound + 1, (60, 5))
    x[:, 1], x[:, 2], x[:, 3] = totals.bound, -totals.bound, x[:, 3] % 3
    plain, (encoder, _) = Plain(totals.code, 5), totals.begin(5)
    for row in x:
        v, encoder = totals.encode(encoder, row)
        assert v.tolist() == plain.step(row.tolist())
    whole = encoder[::2].astype(object) * 2**48 + encoder[1::2]
    assert whole.tolist() == plain.held


@pytest.mark.parametrize("steps", [1, 90, 365, 2**16, 2**20])
@pytest.mark.parametrize("sign", [1, -1])
def test_nothing_overflows_at_the_bound_itself(steps: int, sign: int) -> None:
    totals = made(steps)
    x = sign * buffers.largest_bound(totals.code, totals.ceiling)
    plain = Plain(totals.code)
    unit = 2 ** (totals.code.bits + totals.code.guard)
    reach = totals.code.coefficients.reach(totals.ceiling)
    plain.held = [[sign * math.floor(abs(x) * unit * most + most / 2)] for most in reach]  # the most there can be
    encoder = np.array([half for (u,) in plain.held for half in divmod(u, 2**48)], np.int64).reshape(-1, 1)
    for _ in range(2):
        v, encoder = buffers.encoded(totals.code, encoder, np.array([x]))
        assert v.tolist() == plain.step([x])
        assert abs(int(v[0])) <= 2**62
        # one step further would be beyond the ceiling, unless the buffer is at rest
        plain.held = [[u] for u in (int(h) * 2**48 + int(r) for h, r in encoder.reshape(-1, 2))]
    with pytest.raises(ParameterError, match="bound must be from 1 to"):
        buffers.must_fit(totals.code, totals.ceiling, abs(x) + 1)


def test_as_many_buffers_as_sums_have_room_for() -> None:
    """Weights of 1 at the most, 64 of them; one more is refused."""
    found = Coefficients(((1, 1),) * 64, ((1, 6),) * 64)
    code = Code(found, 0, 30)
    x = np.full((40, 1), -(2**17))
    plain = Plain(code)
    assert encode_all(code, x)[:, 0].tolist() == [plain.step([-(2**17)])[0] for _ in x]
    buffers.must_fit(code, 40, 1)
    with pytest.raises(ParameterError, match="at most 64 buffers, got 65"):
        buffers.must_fit(Code(Coefficients(((1, 13),) * 65, ((1, 13),) * 65), 0, 30), 40, 1)


def test_cells_beyond_a_run_are_encoded_alike() -> None:
    totals, n = made(365), buffers.RUN
    x = np.tile(np.arange(7), n // 3)[: 2 * n + 3]
    encoder, _ = totals.begin(x.size)
    few, _ = totals.begin(7)
    for _ in range(3):
        v, encoder = totals.encode(encoder, x)
        w, few = totals.encode(few, np.arange(7))
        assert (v == w[x]).all()
    assert (encoder == few[:, x]).all()


def test_a_step_changes_nothing_that_it_is_given() -> None:
    totals = made(365)
    state, _ = totals.begin(3)
    _, state = totals.encode(state, [5, 6, 7])
    before, counts = state.copy(), np.array([1, 2, 3])
    first, second = totals.encode(state, counts), totals.encode(state, counts)
    assert (state == before).all()
    assert counts.tolist() == [1, 2, 3]
    assert (first[0] == second[0]).all()
    assert (first[1] == second[1]).all()


def test_an_encoding_is_as_near_as_it_says() -> None:
    code = Code(COARSE, 2, 1)
    x = np.array(list(itertools.product(range(4), repeat=6))).T
    v, c = encode_all(code, x), column(COARSE, 6)
    bound = buffers.rounding_of(code, 6)
    real = [[4 * sum(c[t - s] * int(x[s, i]) for s in range(t + 1)) for i in range(x.shape[1])] for t in range(6)]
    worst = max(abs(int(v[t, i]) - real[t][i]) for t in range(6) for i in range(x.shape[1]))
    assert bound / 4 < worst <= bound


def test_golden_values() -> None:
    """On every machine and instruction set."""
    totals = dpfast.RunningTotals.of_terms(GOLDEN)
    encoder, decoder = totals.begin(4)
    words = hashlib.sha256()
    for t in range(200):
        v, encoder = totals.encode(encoder, np.array([t, -3 * t * t, t % 2, 10**9 + t]))
        values, decoder = totals.decode(decoder, v + (np.arange(4) * 2654435761 * (t + 1)) % 2**31)
        words.update(v.astype("<i8").tobytes() + values.astype("<f8").tobytes())
    assert words.hexdigest() == GOLDEN_DIGEST


# ------------------------------------------------------------------ the proof


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_length_of_summed_columns_is_enclosed(n: int) -> None:
    for found in (COARSE, made(365).code.coefficients):
        c = column(found, n)
        for m, k in itertools.product((1, 2, 3, n), (1, 2, 5)):
            with exact.alone, exact.flint_at(400):
                ball = running.columns_squared(found, n, m, k)
                true = exact.ball(summed(c, range(0, min(n, m * k), k)))
                assert ball.overlaps(true)
                assert float(ball.rad()) < 1e-60


def test_no_placement_is_worse_than_the_earliest_and_closest() -> None:
    """Beyond the proof: every placement of up to 12 steps, with columns that only just fall."""
    for found in (COARSE, Coefficients(((1, 10),), ((1, 1),)), Coefficients(((7, 3),), ((8, 3),))):
        found.checked()
        for n, m, k in itertools.product((4, 12), (1, 2, 3), (1, 2, 3)):
            c = column(found, n)
            worst = max(
                summed(c, places)
                for many in range(1, m + 1)
                for places in itertools.combinations(range(n), many)
                if all(b - a >= k for a, b in itertools.pairwise(places))
            )
            assert worst == summed(c, range(0, min(n, m * k), k))


def test_columns_that_grow_are_refused() -> None:
    for decays, weights in (
        (((1, 1),), ((3, 1),)),  # c_1 = 3/2
        (((2, 1),), ((1, 1),)),  # theta = 0
        (((0, 1),), ((1, 1),)),  # theta = 1
        (((1, 1),), ((0, 1),)),
        (((1, 1),), ((-1, 1),)),
        ((), ()),
        (((1, 1), (1, 2)), ((1, 1),)),
    ):
        with pytest.raises(ParameterError, match="coefficients must"):
            Coefficients(decays, weights).checked()


@pytest.mark.parametrize(("m", "k"), [(1, 1), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("bits", [0, 1, 3])
def test_small_worlds_never_move_further_than_stated(m: int, k: int, bits: int) -> None:
    """Every sequence of 2-bit counts, every neighbour; for one cell and for two."""
    n, code = 5, Code(COARSE, bits, 1)
    x = np.array(list(itertools.product(range(4), repeat=n))).T
    base, worst = encode_all(code, x), 0
    for many in range(1, m + 1):
        for places in itertools.combinations(range(n), many):
            if any(b - a < k for a, b in itertools.pairwise(places)):
                continue
            for signs in itertools.product((1, -1), repeat=many):
                y = x.copy()
                y[list(places)] += np.array(signs)[:, None]
                worst = max(worst, int(((encode_all(code, y) - base) ** 2).sum(0).max()))
    rounding, placed = buffers.rounding_of(code, n), Placed(n, m, k)
    stated = running.shift(COARSE, placed, Moved(Fraction(1), 1), bits, rounding)
    assert worst <= stated**2
    pair = running.shift(COARSE, placed, Moved(Fraction(2), 2), bits, rounding)  # two cells, each so far
    assert 2 * worst <= pair**2
    # What is left out is missed.
    c = column(COARSE, n)
    assert worst > 4**bits  # the diagonal alone
    assert worst > 4**bits * summed(c, range(0, min(n, m * k), k))  # no rounding
    if m > 1:
        assert worst > running.shift(COARSE, Placed(n, 1, 1), Moved(Fraction(1), 1), bits, Fraction(0)) ** 2
    assert 2 * worst > running.shift(COARSE, placed, Moved(Fraction(1), 1), bits, Fraction(0)) ** 2  # l2 of one cell


def test_small_worlds_spend_no_more_than_stated() -> None:
    """Every adaptive choice of 2-bit counts, step after step, both ways: the loss of all outputs.

    A step's divergence depends on how far the encodings lie apart, so the worst choice is found
    from the last step back: whatever came out, the counts that are the worst from there.
    """
    n, code, change = 3, Code(COARSE, 1, 1), Moved(Fraction(1), 1)
    rounding = buffers.rounding_of(code, n)
    for m in (1, 2):
        moved_by = running.shift(COARSE, Placed(n, m, 1), change, 1, rounding)
        rho = Fraction(1, 2)
        squared = running.least_sigma_squared(rho, moved_by)
        for order in (1.5, 2, 16):
            loss = cache(lambda d, order=order, squared=squared: divergence(d, order, float(squared)))

            def worst(t: int, left: int, x: tuple[int, ...], y: tuple[int, ...], loss: Any = loss) -> float:
                if t == n:
                    return 0.0
                found = 0.0
                for count in range(4):
                    for move in (-1, 0, 1) if left else (0,):
                        a, b = (*x, count), (*y, count + move)
                        apart = encoded_last(a) - encoded_last(b)
                        later = worst(t + 1, left - (move != 0), a, b)
                        found = max(found, loss(apart) + later, loss(-apart) + later)
                return found

            spent = worst(0, m, (), ())
            assert 0.1 * order * float(rho) < spent <= order * float(rho) * (1 + 1e-9)


@cache
def encoded_last(x: tuple[int, ...]) -> int:
    """The last encoded step of one cell."""
    plain = Plain(Code(COARSE, 1, 1))
    return [plain.step([count])[0] for count in x][-1]


def divergence(apart: int, order: float, squared: float) -> float:
    """The Renyi divergence of discrete Gaussian noise from itself, so far apart, summed."""
    k = np.arange(-400, 401)
    log = -(k**2) / (2 * squared)
    log -= np.log(np.exp(log).sum())
    other = -((k - apart) ** 2) / (2 * squared)
    other -= np.log(np.exp(-(k**2) / (2 * squared)).sum())
    return float(np.log(np.exp(order * log + (1 - order) * other).sum()) / (order - 1))


def test_real_encodings_are_told_apart_for_certain() -> None:
    """Planted: unrounded, neighbours lie no whole number apart, and whole noise hides nothing."""
    c = column(COARSE, 4)
    assert any((4 * each).denominator > 1 for each in c)
    assert encode_all(Code(COARSE, 2, 1), np.ones((4, 1), np.int64)).dtype == np.int64


@pytest.mark.parametrize(
    ("sensitivity", "l2_squared", "cells"),
    [
        (ONE, 1, 1),
        (dpfast.Sensitivity(3, 2), 12, 3),
        (dpfast.Sensitivity(7, 3, l1=7), 19, 7),
        (dpfast.Sensitivity.changes(2, 3), 18, 2),
        (dpfast.Sensitivity(3, 2, adjacency="substitution"), 24, 6),
        (dpfast.Sensitivity(3, 2, adjacency="substitution", signed=True), 48, 6),
        # In other steps the cells are others, so that there are few of them lowers nothing.
        (dpfast.Sensitivity(4, 1, adjacency="substitution", cells=4), 8, 8),
    ],
)
@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 7), (64, 1), (40, 3)])
def test_the_noise_is_that_of_the_proof(sensitivity: Any, l2_squared: int, cells: int, m: int, k: int) -> None:
    totals = made(1, sensitivity=sensitivity, per_unit_steps=m, apart=k)
    n, code = totals.ceiling, totals.code
    length = summed(column(code.coefficients, n), range(0, min(n, m * k), k))
    rounding = Fraction(1, 2) + sum(
        (Fraction(a, 2**b) * min(n, Fraction(2**s, p)) + 1 for (p, s), (a, b) in zip(*code.coefficients, strict=True)),
        Fraction(0),
    ) / 2 ** (code.guard + 1)
    steps = min(m, -(-n // k))
    shift = 2**code.bits * math.sqrt(length * l2_squared) + 2 * float(rounding) * math.sqrt(n * steps * cells)
    assert totals.sigma_squared == pytest.approx(shift**2, rel=1e-9)
    assert totals.sigma_squared > shift**2 * (1 - 1e-14)
    assert totals.guarantee.rho == Fraction(1, 2)


# ------------------------------------------------------------------ the error


def square_root(n: int) -> float:
    """The squared error of the square root factorization after n steps, known before."""
    k = np.arange(1, n)
    return float((1 + np.exp(2 * np.cumsum(np.log1p(-1 / (2 * k)))).sum()) ** 2)


@pytest.mark.parametrize("steps", [365, 2**10, 2**16, 2**20])
def test_the_largest_error_is_near_the_square_root_s(steps: int) -> None:
    totals = made(steps)
    assert totals.stddev(steps) ** 2 <= 1.05 * square_root(steps)
    assert totals.stddev(4 * steps) ** 2 <= 1.35 * square_root(4 * steps)
    assert totals.margin <= 0.001
    encoder, decoder = totals.begin(1)
    assert encoder.nbytes + decoder.nbytes <= 128


def test_no_number_of_steps_is_far_from_the_square_root() -> None:
    for steps in (4, 5, 6, 8, 11, 12, 16, 22, 23, 32, 45, 46, 724, 725, 92681, 92682, 2**19 + 1):
        assert made(steps).stddev(steps) ** 2 <= 1.08 * square_root(steps)


def test_a_year_of_days() -> None:
    totals = made(365)
    assert totals.stddev(365) <= 3.02
    assert math.sqrt(sum(totals.stddev(t) ** 2 for t in range(1, 366)) / 365) <= 2.85


@pytest.mark.parametrize("steps", [1, 12, 365, 2**20])
def test_errors_are_those_of_the_exact_inverse(steps: int) -> None:
    totals, n = made(steps), 60
    c = [float(x) for x in column(totals.code.coefficients, n)]
    inverse = [1.0]
    for k in range(1, n):
        inverse.append(-sum(c[j] * inverse[k - j] for j in range(1, k + 1)))
    b = np.cumsum(inverse)
    unit = math.sqrt(totals.sigma_squared) / 2**totals.code.bits
    for t, last in itertools.product((1, 2, 7, 30, 60), (None, 1, 2, 7, 59, 60, 100)):
        weights = b[:t].copy()
        if last is not None and last < t:
            weights[last:] -= b[: t - last]
        assert totals.stddev(t, last) == pytest.approx(unit * math.sqrt((weights**2).sum()), rel=1e-9)


def test_simulated_errors_are_the_computed_ones() -> None:
    """Within 3 % of the variance, 6.7 of its own deviations for 100,000 cells: six times."""
    totals, cells = made(48), 100_000
    counts = np.zeros((48, cells), np.int64)
    counts[5], counts[6] = 3, -2
    noisy = dpfast.running_totals(totals, counts)
    errors, truth = noisy.values, counts.cumsum(0)
    errors = errors - truth
    for t in (1, 9, 48):
        assert (errors[t - 1] ** 2).mean() == pytest.approx(totals.stddev(t) ** 2, rel=0.03)
    for last in (1, 7, 30):
        windows = noisy.last(last).values[-1] - (truth[-1] - truth[47 - last])
        found = (windows**2).mean()
        assert found == pytest.approx(totals.stddev(48, last) ** 2, rel=0.03)
        # Planted: two totals as if their noise were not for the most part the same.
        assert found < 0.8 * (totals.stddev(48) ** 2 + totals.stddev(48 - last) ** 2)
    inside = np.abs(errors[-1]) <= noisy.interval("0.9")[-1]
    assert abs(inside.mean() - 0.9) < 6.1 * math.sqrt(0.09 / cells)


def test_what_is_published_has_discrete_gaussian_noise() -> None:
    """Chi-squared of two steps together, from the totals back to the noise; at 1e-9."""
    totals, cells = made(12, per_unit_steps=2), 60_000
    noisy = dpfast.running_totals(totals, np.full((2, cells), 5)).values * 2.0**totals.code.bits
    shares = sum(float(w) for w in totals.code.coefficients.shares)
    first = noisy[0]
    second = noisy[1] - noisy[0] + shares * first  # every buffer holds the first step
    encoder, _ = totals.begin(1)
    v, encoder = totals.encode(encoder, [5])
    w, _ = totals.encode(encoder, [5])
    spread = math.sqrt(totals.sigma_squared)
    bins = [
        np.floor(8 * stats.norm.cdf((found - int(at[0])) / spread)).astype(int)
        for found, at in ((first, v), (second, w))
    ]
    seen = np.bincount(8 * bins[0] + bins[1], minlength=64)
    assert stats.chisquare(seen).pvalue > 1e-9
    planted = np.bincount(8 * bins[0] + bins[0], minlength=64)  # one key for two steps
    assert stats.chisquare(planted).pvalue < 1e-9


# --------------------------------------------------------------- decoding, and what a reader sees


def test_decoding_is_a_loop_in_a_stated_order() -> None:
    totals, cells = made(365), 3
    _, decoder = totals.begin(cells)
    held = [[0.0] * totals.buffers for _ in range(cells)]
    total = [0.0] * cells
    generator = np.random.default_rng(1)
    for _ in range(50):
        noisy = generator.integers(-(2**62), 2**62, cells)
        values, decoder = totals.decode(decoder, noisy)
        for i in range(cells):
            y = float(int(noisy[i])) * 2.0**-totals.code.bits
            for u, (a, b) in zip(held[i], totals.code.coefficients.weights, strict=True):
                y = y - u * (a / 2**b)
            for j, (m, s) in enumerate(totals.code.coefficients.decays):
                held[i][j] = held[i][j] * (1 - m / 2**s) + y
            total[i] += y
        assert values.tolist() == total


def test_without_noise_the_totals_come_back() -> None:
    totals = made(365)
    encoder, decoder = totals.begin(2)
    for t in range(1, 200):
        v, encoder = totals.encode(encoder, [2, t])
        values, decoder = totals.decode(decoder, v)
    assert values == pytest.approx([2 * 199, 199 * 100], abs=1e-3)


def test_counts_are_clamped_whatever_their_type() -> None:
    totals = made(365, bound=100)
    assert totals.metadata()["clamp"] == [-100, 100]
    for dtype in ("uint64", "int64", "uint8", ">i4", "int16"):
        ends = np.iinfo(dtype)
        counts = (
            np.array([ends.max, ends.min, 7]).astype(dtype) if dtype != "uint64" else np.array([2**64 - 1, 0, 7], dtype)
        )
        assert totals.clamped(counts, 3).tolist() == [100, max(int(ends.min), -100), 7]


def test_rising_totals_are_post_processing() -> None:
    noisy = dpfast.running_totals(made(12), [[1, 0]] * 12)
    assert isinstance(noisy, dpfast.NoisyTotals)
    rising = noisy.rising()
    assert (np.diff(rising, axis=0) >= 0).all()
    assert (rising >= 0).all()
    assert (rising >= noisy.values).all()
    windows = noisy.last(3)
    assert windows.values[:3] == pytest.approx(noisy.values[:3])
    assert windows.values[3:] == pytest.approx(noisy.values[3:] - noisy.values[:-3])
    assert windows.interval().tolist() == [made(12).interval(t, last=3) for t in range(1, 13)]
    for call in (windows.rising, lambda: windows.last(2)):
        with pytest.raises(ParameterError, match="ask the totals themselves"):
            call()


def test_counts_that_know_more_are_refused() -> None:
    found = dpfast.bounded_histogram(
        ["a", "a", "b"], ["x", "y", "x"], max_partitions=2, max_per_partition=1, domain=["x", "y"]
    )
    per_step = found.counts[None, :]
    assert dpfast.running_totals(made(12, sensitivity=dpfast.Sensitivity(2, 1)), per_step).values.shape == (1, 2)
    with pytest.raises(ParameterError, match="mechanism must be made for"):
        dpfast.running_totals(made(12), per_step)


def test_caps_over_time_are_not_those_of_a_step() -> None:
    """The noise must hide each day in which rows of one unit may lie."""
    rows = {"max_partitions": 2, "max_per_partition": 1, "domain": range(5)}
    days = dpfast.bounded_histogram([0, 3, 4], ["u", "u", "v"], **rows).counts.reshape(5, 1)
    two = dpfast.Sensitivity(2, 1)
    for wrong in ({}, {"per_unit_steps": 2, "apart": 2}):
        with pytest.raises(
            ParameterError, match="per_unit_steps=2 or more and apart=1, because one unit may change 2 "
        ):
            dpfast.running_totals(made(12, sensitivity=two, **wrong), days)
    assert dpfast.running_totals(made(12, sensitivity=two, per_unit_steps=2), days).values.shape == (5, 1)
    once = dpfast.bounded_histogram([0, 3], ["u", "u"], **{**rows, "max_partitions": 1}).counts.reshape(5, 1)
    assert dpfast.running_totals(made(12), once).values.shape == (5, 1)


# -------------------------------------------------------------- what is kept, and what is refused


@pytest.mark.parametrize(
    "options",
    [
        {"rho": "0.3"},
        {"epsilon": 1, "delta": "1e-6", "per_unit_steps": 4, "apart": 7},
        {
            "epsilon": 1,
            "delta": "1e-6",
            "sensitivity": dpfast.Sensitivity(3, 2, adjacency="substitution", unit="house"),
        },
        {"rho": 1, "sensitivity": dpfast.Sensitivity(3, 2, l1=5, signed=True, adjacency="substitution", cells=5)},
        {"rho": 1, "sensitivity": dpfast.Sensitivity.changes(2, 3), "bound": 10},
    ],
)
def test_terms_make_equal_totals(options: dict[str, Any]) -> None:
    totals = dpfast.RunningTotals(100, **{"sensitivity": ONE, **options})
    terms = totals.terms()
    assert all(type(each) in (int, str) for each in terms.values())
    again = dpfast.RunningTotals.of_terms(terms)
    assert again == totals
    assert again.guarantee == totals.guarantee
    if totals.guarantee.add_remove:
        assert totals.guarantee.add_remove.rho < totals.rho


def test_spoilt_terms_are_refused() -> None:
    terms = made(100).terms()
    weights = terms["weights"]
    for spoilt in (
        {"sigma_squared": f"{made(100).sigma_squared - 1}/1"},
        {"sigma_squared": "1/2"},
        {"sigma_squared": f"{10**19}/1"},
        {"rho": "2/5"},
        {"rho": "-1"},
        {"weights": weights + " 1/2^3"},
        {"weights": weights.replace(weights.split("/")[0], "8191", 1)},
        {"decays": "0/2^3"},
        {"decays": "x"},
        {"bits": 40},
        {"guard": 0},
        {"bound": 2**60},
        {"ceiling": 100},
        {"steps": 10**9},
        {"steps": 200},
        {"per_unit_steps": 2},
        {"per_unit_steps": 10**9},
        {"linf": "2"},
        {"l0": 2},
        {"moved_cells": 2},
        {"unit": ""},
        {"signed": 2},
        {"epsilon": "1"},
        {"epsilon": "1/100", "delta": "1/1000000"},
        {"more": 1},
    ):
        with pytest.raises(ParameterError, match="terms must be those of running totals"):
            dpfast.RunningTotals.of_terms({**terms, **spoilt})
    for name in terms:
        with pytest.raises(ParameterError, match="terms must be those of running totals"):
            dpfast.RunningTotals.of_terms({key: value for key, value in terms.items() if key != name})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilon": 1}, ParameterError, r"epsilon must come with a delta, got 1 alone: .* about 76.5, .* leaves 27"),
        ({}, ParameterError, "rho, or epsilon and delta"),
        ({"rho": 1, "epsilon": 1}, ParameterError, "rho, or epsilon and delta"),
        ({"rho": 1, "delta": "0.1"}, ParameterError, "rho, or epsilon and delta"),
        ({"rho": 0}, ParameterError, "rho must be positive"),
        ({"rho": "1e-40"}, ParameterError, "rho must ask for noise that can be"),
        ({"epsilon": "1e-25", "delta": "1e-30"}, ParameterError, "epsilon must ask for noise that can be"),
        ({"rho": 1, "steps": 0}, ParameterError, "steps must be at least 1"),
        ({"rho": 1, "steps": 2**20 + 1}, ParameterError, "steps must be at most"),
        ({"rho": 1, "steps": 1.5}, DTypeError, "steps must be an int"),
        ({"rho": 1, "per_unit_steps": 365 * 64 + 1}, ParameterError, "per_unit_steps must be at most 23,360"),
        ({"rho": 1, "per_unit_steps": 0}, ParameterError, "per_unit_steps must be at least 1"),
        ({"rho": 1, "apart": 0}, ParameterError, "apart must be at least 1"),
        ({"rho": 1, "bound": 2**50}, ParameterError, "bound must be from 1 to"),
        ({"rho": 1, "bound": 0}, ParameterError, "bound must be at least 1"),
        ({"rho": 1, "sensitivity": 1}, DTypeError, "sensitivity must be a Sensitivity"),
        ({"epsilon": "1e-1000"}, ParameterError, "epsilon must come with a delta"),
        ({"rho": 1, "sensitivity": dpfast.Sensitivity(1, 2**61)}, ParameterError, "l2 from"),
        ({"rho": 1, "sensitivity": dpfast.Sensitivity(1, Fraction(1, 2**61))}, ParameterError, "l2 from"),
        ({"rho": 1, "sensitivity": dpfast.Sensitivity.from_l2(4)}, ParameterError, "how many cells"),
        (
            {"rho": 1, "sensitivity": dpfast.Sensitivity.changes(1, 1, adjacency="substitution")},
            ParameterError,
            "what one unit contributes",
        ),
        ({"rho": 1, "sensitivity": dpfast.Sensitivity(1, 1, keys="private")}, ParameterError, "private keys"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dpfast.RunningTotals(**{"steps": 365, "sensitivity": ONE, **options})


def test_bad_steps_are_refused() -> None:
    totals = made(1)
    encoder, decoder = totals.begin(2)
    for call, error, message in (
        (lambda: totals.begin(0), ParameterError, "cells must be at least 1"),
        (lambda: totals.encode(encoder, [1.0, 2.0]), DTypeError, "counts must be of an integer dtype"),
        (lambda: totals.encode(encoder, [1]), ParameterError, r"one for each of 2 cells, got shape \(1,\)"),
        (lambda: totals.encode(encoder[:, :1], [1]), DTypeError, "C order"),
        (lambda: totals.encode(decoder, [1, 2]), DTypeError, "encoder must be an array of int64"),
        (lambda: totals.encode(encoder[:4], [1, 2]), ParameterError, r"encoder must have shape \(8, cells\)"),
        (lambda: totals.decode(decoder, [1]), ParameterError, r"noisy must be one for each cell, shape \(2,\)"),
        (lambda: totals.decode(encoder, [1, 2]), DTypeError, "decoder must be an array of float64"),
        (lambda: totals.interval(65), ParameterError, "t must be at most the ceiling, 64"),
        (lambda: totals.interval(0), ParameterError, "t must be at least 1"),
        (lambda: totals.interval(1, level=1), ParameterError, "level must lie strictly"),
        (lambda: totals.interval(1, level=1 - Fraction(1, 10**400)), ParameterError, "level must leave a chance"),
        (lambda: totals.interval(1, last=0), ParameterError, "last must be at least 1"),
        (lambda: type(totals).of_terms(totals.terms() | {"bits": 1.0}), ParameterError, "a whole number or a text"),
        (lambda: dpfast.running_totals(totals, [1, 2]), ParameterError, "counts must have shape"),
        (lambda: dpfast.running_totals(totals, np.zeros((65, 1), int)), ParameterError, "at most 64 steps"),
        (lambda: dpfast.running_totals(ONE, [[1]]), DTypeError, "totals must be RunningTotals"),
        (lambda: dpfast.running_totals(totals, [[0.5]]), DTypeError, "counts must be of an integer dtype"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert 9 * totals.stddev(1) < totals.interval(1, level=1 - Fraction(1, 10**20)) < 10 * totals.stddev(1)


def test_the_noise_of_a_step_promises_nothing_alone() -> None:
    with pytest.raises(dpfast.errors.NoGuaranteeError):
        made(365).mechanism.guarantee  # noqa: B018


GOLDEN_DIGEST = "c4a66c3227cb301db33f8f6a43bff407f2be76ca59b1816dde83bfc4812e3c4e"
