# SPDX-License-Identifier: Apache-2.0
"""fixed_point_sum: exact fractions in every host's mode; neighbours reach its sensitivity."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import tiers
from proofs import MODES, entered

from dpfast.counts.records import fixed_point
from dpfast.counts.records.fixed_point import fixed_point_sum
from dpfast.errors import DTypeError, ParameterError

INT64 = 2**63 - 1
WIDTHS = [np.float64, np.float32]
STEP = Fraction(1)
added_up = partial(fixed_point_sum, adjacency="add-remove")


def two(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def reference(values: npt.ArrayLike, lower: Fraction, upper: Fraction, grid: Fraction, missing: Fraction) -> int:
    """The definition, value by value, saturated at the end."""
    total = 0
    for value in np.asarray(values).ravel().tolist():  # a Python float, exactly
        exact = missing if math.isnan(value) else None if math.isinf(value) else Fraction(value)
        clamped = (upper if value > 0 else lower) if exact is None else min(max(exact, lower), upper)
        total += round(clamped / grid)
    return min(max(total, -INT64 - 1), INT64)


def ours(values: npt.ArrayLike, lower: Fraction, upper: Fraction, grid: Fraction, missing: Fraction) -> int:
    return added_up(values, lower=lower, upper=upper, granularity=grid, missing=missing)[0]


@pytest.fixture(params=["as it chooses", "by bits"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubles serve most grids; bits serve all."""
    if request.param == "by bits":
        monkeypatch.setattr(fixed_point, "NEAR", -1)


# ---------------------------------------------------------------- exactness


def wild(kind: type[np.floating], exponent: int) -> npt.NDArray[np.floating]:
    """Ties and their neighbours on this grid, the type's ends, every kind of bit pattern."""
    rng = np.random.default_rng([exponent + 2000, kind().itemsize])
    info = np.finfo(kind)
    values = [0.0, -0.0, math.nan, math.inf, -math.inf, info.max, -info.max, info.tiny, -info.tiny,
              info.smallest_subnormal, -info.smallest_subnormal, 1.0, -1.0]  # fmt: skip
    for step in [0, 1, 2, 3, 4, 2**10, 2**10 + 1, 2**22 - 1, 2**23, 2**40 + 1, 2**50 + 1, 2**51 - 1, 2**51, 2**52,
                 2**61, 2**62]:  # fmt: skip
        for half in (0, 1):
            exact = (step + Fraction(half, 2)) * two(exponent)
            values += [s * float(exact) for s in (1, -1) if exact <= Fraction(float(info.max))]
    with np.errstate(all="ignore"):  # on the way to single floats
        near = np.array(values).astype(kind)
        near = np.concatenate([near, np.nextafter(near, kind(math.inf)), np.nextafter(near, kind(-math.inf))])
    bits = rng.integers(-(2**63), 2**63 - 1, 300).astype(f"i{kind().itemsize}").view(kind)  # any exponent, any NaN
    mantissas = rng.uniform(-1, 1, 300)
    with np.errstate(all="ignore"):
        there = np.ldexp(mantissas, exponent + rng.integers(-3, 66, 300)).astype(kind)
    return np.concatenate([near, bits, there])


EXPONENTS = [-1074, -1073, -1060, -1023, -1022, -1021, -1018, -1017, -1016, -500, -200, -190, -180, -170, -160, -149, -127, -126, -122, -121, -120,
             -60, -20, -1, 0, 1, 30, 100, 127, 500, 960, 961, 970, 1000, 1001, 1022, 1023]  # fmt: skip
BOUNDS = [(-3, 3), (-1, Fraction(5, 2)), (Fraction(1, 2), 7), (-(2**51), 2**51), (-(2**51) - 1, 9), (-(2**62), 2**62),
          (-7, 2**62 - 1), (2**53 + 1, 2**60 + 1), (-(10**9), -3), (Fraction(-1, 3), 10**12)]  # fmt: skip


class Known(NamedTuple):
    """By the definition, the sum of an array, and that of every `step`-th value alone."""

    values: npt.NDArray[np.floating]
    arguments: tuple[Fraction, Fraction, Fraction, Fraction]
    step: int
    total: int
    singles: list[int]

    def by_kernel(self, steps: Any) -> list[int]:
        return [
            tiers.fixed_point_kernel(self.values[at : at + 1], steps)[0] for at in range(0, self.values.size, self.step)
        ]


@cache
def known(kind: type[np.floating], missing: Fraction, turns: int, part: int, step: int) -> list[Known]:
    """Each `turns`-th pair of bounds and `part`-th value, from another one at each exponent."""
    found = []
    for turn, exponent in enumerate(EXPONENTS):
        grid, values = two(exponent), wild(kind, exponent)[turn % part :: part]
        for low, high in BOUNDS[turn % turns :: turns]:
            arguments = low * grid, high * grid, grid, missing * grid
            singles = [reference(values[at : at + 1], *arguments) for at in range(0, values.size, step)]
            found.append(Known(values, arguments, step, reference(values, *arguments), singles))
    return found


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("kind", WIDTHS)
def test_each_value_is_rounded_exactly(kind: type[np.floating]) -> None:
    """Alone, so that two errors cannot cancel: the kernel is asked for one value at a time."""
    for case in known(kind, Fraction(7, 4), 3, 1, 7):
        assert case.by_kernel(tiers.fixed_point_steps(*case.arguments)) == case.singles, case.arguments
        assert ours(case.values, *case.arguments) == case.total


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", WIDTHS)
def test_the_host_has_no_say(kind: type[np.floating], mode: str, flush: bool, host: ctypes.CDLL) -> None:
    """Rounding mode and flushed subnormals change no record, however the array lies."""
    for case in known(kind, Fraction(-3, 2), 5, 3, 41):
        swapped = np.repeat(case.values.astype(case.values.dtype.newbyteorder()), 2)[::2]
        steps = tiers.fixed_point_steps(*case.arguments)
        ours(case.values[:1], *case.arguments)  # compiled outside
        with entered(host, mode, flush):
            got = [ours(values, *case.arguments) for values in (case.values, swapped)]
            each = case.by_kernel(steps)
        assert got == [case.total] * 2, case.arguments
        assert each == case.singles


@pytest.mark.usefixtures("path")
def test_rounded_as_numpy_rounds() -> None:
    """Half to even: where the grid's doubles are exact, np.rint of clipped values agrees."""
    values = np.arange(-4001, 4001) / 16
    for lower, upper in [(-100.5, 99.5), (-0.5, 0.5), (-1.5, 2.5), (3.25, 3.75)]:
        for grid in (0.25, 1.0, 2.0):
            if np.rint(np.array([lower, upper]) / grid).any():
                want = int(np.rint(np.clip(values, lower, upper) / grid).sum())
                assert added_up(values, lower=lower, upper=upper, granularity=grid)[0] == want


@pytest.mark.usefixtures("path")
def test_many_values() -> None:
    """Longer than the kernel's block, and any order of the records."""
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(0, 1e6, 10_000), rng.normal(0, 1e-3, 2345), [math.nan] * 7])
    want = reference(values, Fraction(-(2**20)), Fraction(10**6), two(-30), Fraction(1, 3))
    for _ in range(3):
        assert ours(rng.permutation(values), Fraction(-(2**20)), Fraction(10**6), two(-30), Fraction(1, 3)) == want


def test_blocks_full_of_the_largest_steps() -> None:
    """The partial sums of the doubles' kernel and of both limbs, at their ends."""
    for steps in (2**51, 2**62):
        values = np.full(5000, 2.0 * steps)
        values[4000:] = -math.inf
        values[4999] = 1.0
        arguments = Fraction(-steps), Fraction(steps), STEP, STEP
        ends = tiers.fixed_point_steps(*arguments)
        assert tiers.fixed_point_kernel(values, ends)[0] == 4000 * steps - 999 * steps + 1
        assert tiers.fixed_point_kernel(np.full(2**14, math.inf), ends)[0] == 2**14 * steps


# ---------------------------------------------------------------- saturation


@pytest.mark.parametrize("slab", [1, 3, 1 << 22])
def test_saturates_once_at_the_end(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial sums pass int64 in every order; a total within it is exact, one beyond is the end."""
    monkeypatch.setattr(fixed_point, "SLAB", slab)
    far = 2.0**62
    for values, want in [
        ([far] * 5 + [-far] * 5 + [3.0], 3),
        ([-far] * 7 + [far] * 6 + [5.0], -(2**62) + 5),
        ([far] * 2, INT64),
        ([-far] * 2, -INT64 - 1),
        ([-far] * 2 + [-1.0], -INT64 - 1),
        ([far, far, -1.0], INT64),
        ([far, far, -2.0], INT64 - 1),
        ([math.inf] * 3000 + [-math.inf] * 2999 + [7.0], 2**62 + 7),
        ([math.inf] * 3000, INT64),
    ]:
        assert added_up(values, lower=-far, upper=far, granularity=1)[0] == want
        assert added_up(np.repeat(values, 2)[::2], lower=-far, upper=far, granularity=1)[0] == want


# ---------------------------------------------------------------- sensitivity

NAN, INF = math.nan, math.inf
RECORDS = [-INF, -2.6, -1.0, -0.5, 0.0, 0.3, 0.5, 1.5, 2.4, INF, NAN]


def contributions(records: int, exactly: bool) -> list[tuple[float, ...]]:
    lengths = [records] if exactly else range(records + 1)
    return [c for length in lengths for c in itertools.combinations_with_replacement(RECORDS, length)]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("bounds", [(-1, 2), (1, 1), (-2, -1), (0, 3), (0.4, 0.6), (-0.7, 0.2), (0.75, 2.25)])
def test_neighbours(bounds: tuple[float, float], adjacency: str, records: int, exactly: bool) -> None:
    """Every pair of neighbours: a unit in others' company moves at most linf, and reaches it."""
    rng = random.Random(f"{bounds}{adjacency}{records}{exactly}")

    summed = partial(
        fixed_point_sum, lower=bounds[0], upper=bounds[1], granularity=0.5, adjacency=adjacency, max_records=records,
        records_per_unit="exactly" if exactly else "up to",
    )  # fmt: skip

    def total(values: tuple[float, ...]) -> int:
        return summed(np.array(values, float), missing=-9.0)[0]

    mine = contributions(records, exactly)
    if bounds in {(1, 1), (0.4, 0.6)} and adjacency == "substitution" and exactly:
        with pytest.raises(ParameterError, match="one step, and no unit can change"):
            total(())
        return
    sensitivity = summed(np.zeros(0))[1]
    assert (sensitivity.l0, sensitivity.l1, sensitivity.l2_squared) == (1, sensitivity.linf, sensitivity.linf**2)
    assert sensitivity.adjacency == adjacency
    for others in [(), *(sum((rng.choice(mine) for _ in range(4)), ()) for _ in range(2))]:
        sums = {total(others + unit) for unit in mine}
        before = {total(others)} if adjacency == "add-remove" else sums
        assert max(abs(a - b) for a in before for b in sums) == sensitivity.linf


def test_up_to_is_not_exactly() -> None:
    """L = U = 1, m = 2: m(U - L) would be 0, but one record may become two or none."""
    summed = partial(fixed_point_sum, lower=1, upper=1, granularity=1, adjacency="substitution", max_records=2)
    (one, sensitivity), (both, _) = summed([1.0]), summed([1.0] * 2)
    assert both - one == 1
    assert sensitivity.linf == summed([1.0], records_per_unit="up to")[1].linf == 2
    with pytest.raises(ParameterError, match="no unit can change the sum"):
        summed([1.0], records_per_unit="exactly")


def test_sensitivity_in_steps_of_the_rounded_bounds() -> None:
    """Bounds between grid points round as records do: 2.3 / 0.5 to 5 steps, 1.25 / 0.5 to 2."""
    for arguments, want in [
        (("add-remove", 1, "up to"), 5), (("add-remove", 3, "up to"), 15), (("add-remove", 3, "exactly"), 15),
        (("substitution", 1, "up to"), 7), (("substitution", 3, "up to"), 21), (("substitution", 3, "exactly"), 21),
    ]:  # fmt: skip
        adjacency, records, per_unit = arguments
        options = {"adjacency": adjacency, "max_records": records, "records_per_unit": per_unit, "unit": "household"}
        _, sensitivity = fixed_point_sum([], lower=-1.25, upper=2.3, granularity=0.5, **options)
        assert (sensitivity.linf, sensitivity.unit) == (want, "household")
    replaced = partial(fixed_point_sum, [], lower=1, upper=3, granularity=1, adjacency="substitution")
    assert replaced()[1].linf == 3
    assert replaced(records_per_unit="exactly")[1].linf == 2
    assert added_up([], lower=-(2**62), upper=0, granularity=1, max_records=8)[1].linf == 2**65


def test_a_float_sum_breaks_the_bound_that_this_keeps() -> None:
    """Casacuberta et al. 2022: one record of 1,001 moves a float sum by 2^53 + 500."""
    crowd, record, most = [1.5] * 1000, [2.0**53], 2**53

    def floats(values: list[float]) -> int:
        return int(np.cumsum(values)[-1])

    assert floats(record + crowd) - floats(crowd) == most + 500
    (before, sensitivity), (after, _) = (
        added_up(values, lower=0, upper=most, granularity=1) for values in (crowd, record + crowd)
    )
    assert after - before == most == sensitivity.linf


# ---------------------------------------------------------------- arrays


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("kind", WIDTHS)
def test_any_layout(kind: type[np.floating], monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes, strides, byte orders, addresses: the same values, the same sum."""
    monkeypatch.setattr(fixed_point, "BUFFER", 64)
    values = np.random.default_rng(3).normal(0, 30, (6, 10, 20)).astype(kind)
    values[0, 0, :3] = math.nan, math.inf, -math.inf
    arguments = Fraction(-50), Fraction(60), two(-16), Fraction(5)
    want = reference(values, *arguments)
    odd = np.frombuffer(b"!" + values.tobytes(), np.uint8)[1:].view(kind).reshape(values.shape)
    assert not odd.flags.aligned
    frozen = values.copy()
    frozen.flags.writeable = False
    record = np.zeros(values.shape, [("tag", "u1"), ("x", kind)])
    record["x"] = values
    for array in [values, np.asfortranarray(values), values.transpose(1, 2, 0), values[::-1, :, ::-1], odd, frozen,
                  values.astype(values.dtype.newbyteorder()), values.astype(values.dtype.newbyteorder())[..., ::-1].T,
                  np.repeat(values, 3, axis=1)[:, 1::3], record["x"], values.view(np.ndarray)[None], values.tolist()]:  # fmt: skip
        assert ours(array, *arguments) == want
    part = values[1:5:2, 3:, ::-3]
    assert ours(part, *arguments) == reference(part, *arguments)
    wide = np.broadcast_to(values[2], (9, 10, 20))
    assert ours(wide, *arguments) == reference(wide, *arguments)
    for single in (kind(7.25), np.array(7.25, kind), np.array(7.25, kind).astype(values.dtype.newbyteorder())):
        assert ours(single, *arguments) == round(Fraction(7.25) / two(-16))
    for none in (np.zeros(0, kind), np.zeros((3, 0, 2), kind), np.zeros((0, 4), values.dtype.newbyteorder())[::-1], []):
        assert ours(none, *arguments) == 0
    assert isinstance(ours(values, *arguments), int)


def test_memory_does_not_grow() -> None:
    values = np.zeros(4_000_000)
    for array in (values, values[::2], values.astype(">f8"), values.astype(np.float32)):
        ours(array[:10], Fraction(0), STEP, two(-20), STEP)
        tracemalloc.start()
        try:
            ours(array, Fraction(0), STEP, two(-20), STEP)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


# ---------------------------------------------------------------- bad input


def test_parameters_of_any_exact_kind() -> None:
    """Python's, NumPy's and decimal numbers are taken exactly, with no context that rounds."""
    for lower, upper, grid in [(-1, 2, 0.5), (Decimal(-1), Decimal(2), Decimal("0.5")), (-1.0, Fraction(2), Fraction(1, 2)),
                               (np.float32(-1), np.int8(2), np.float64(0.5))]:  # fmt: skip
        total, sensitivity = added_up([0.5, NAN, 9.0], lower=lower, upper=upper, granularity=grid, missing=upper)
        assert (total, sensitivity.linf) == (1 + 4 + 4, 4)
    assert tiers.fixed_point_steps(np.int8(-128), np.int64(-(2**62) + 2**62), 1, None)[1:3] == (-128, 0)
    above = Decimal("0.5" + "0" * 40 + "1")  # a tie, were it rounded to the context's precision
    assert tiers.fixed_point_steps(above.copy_negate(), above, 1, None)[1:3] == (-1, 1)


@pytest.mark.parametrize("kind", WIDTHS)
def test_nan_is_refused_unless_missing(kind: type[np.floating]) -> None:
    """A NaN is `missing`, clamped like any value; or an error without value and place."""
    values = np.array([0.123456, NAN, 0.654321], kind)
    with pytest.raises(ParameterError, match="no NaN, unless missing=") as caught:
        added_up(values, lower=0, upper=1, granularity=0.5)
    assert not any(word in str(caught.value) for word in ("0.1", "0.6", "index", "1 "))
    for missing, want in [(0, 1), (1, 3), (99, 3), (-99, 1)]:
        assert added_up(values, lower=0, upper=1, granularity=0.5, missing=missing)[0] == want


GOOD: dict[str, object] = {"values": [0.0], "lower": 0, "upper": 1, "granularity": 0.5, "adjacency": "add-remove"}


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"values": [1, 2]}, DTypeError, "float64 or float32, not int64: clip integers, then sum them"),
        ({"values": [True]}, DTypeError, "not bool"),
        ({"values": np.zeros(2, np.uint8)}, DTypeError, "not uint8"),
        ({"values": np.zeros(2, np.float16)}, DTypeError, "not float16$"),
        ({"values": np.zeros(2, np.longdouble)}, DTypeError, "not (float128|float96|longdouble)"),
        ({"values": [1j]}, DTypeError, "not complex128"),
        ({"values": ["7131"]}, DTypeError, "not <U4"),
        ({"values": [None, 7131.0]}, DTypeError, "not object"),
        ({"values": [[7131.0], [1.0, 2.0]]}, DTypeError, "make one array"),
        ({"values": [1.0, 7131**400]}, DTypeError, "float64 or float32"),
        ({"values": np.ma.masked_array([7131.0], [True])}, DTypeError, "masked"),
        ({"lower": math.nan}, ParameterError, "lower must be finite"),
        ({"upper": math.inf}, ParameterError, "upper must be finite"),
        ({"upper": Decimal("Infinity")}, ParameterError, "upper must be finite"),
        ({"upper": Decimal("1e999999999")}, ParameterError, "upper must be finite"),
        ({"upper": "one"}, ParameterError, "upper must be a number such as 0.1 or 1/3"),
        ({"upper": True}, DTypeError, "upper must be an int, float"),
        ({"lower": 2}, ParameterError, "lower must be at most upper, got 2 and 1"),
        ({"missing": math.nan}, ParameterError, "missing must be finite"),
        ({"missing": "mean"}, ParameterError, "missing must be a number"),
        ({"granularity": 0.3}, ParameterError, "a power of two, .*got 0.3"),
        ({"granularity": 3}, ParameterError, "a power of two"),
        ({"granularity": Fraction(3, 4)}, ParameterError, "a power of two"),
        ({"granularity": two(-1075)}, ParameterError, "within 2\\*\\*-1074"),
        ({"granularity": two(1024)}, ParameterError, "and 2\\*\\*1023"),
        ({"granularity": 0}, ParameterError, "granularity must be positive"),
        ({"granularity": -0.5}, ParameterError, "granularity must be positive"),
        ({"granularity": two(-63)}, ParameterError, "too fine: .* 2\\*\\*62 steps"),
        ({"granularity": 2}, ParameterError, "too coarse: .* zero, and no unit"),
        ({"lower": 0, "upper": 0}, ParameterError, "too coarse"),
        ({"lower": 1, "adjacency": "substitution", "records_per_unit": "exactly"}, ParameterError, "too coarse: .* one step"),
        ({"adjacency": "bounded"}, ParameterError, "adjacency must be one of"),
        ({"unit": " "}, ParameterError, "unit must name"),
        ({"max_records": 0}, ParameterError, "max_records must be at least 1"),
        ({"max_records": 1.0}, DTypeError, "max_records must be an int"),
        ({"records_per_unit": "at most"}, ParameterError, "records_per_unit must be 'up to' or 'exactly'"),
        ({"records_per_unit": ["up to"]}, ParameterError, "records_per_unit must be"),
    ],
)  # fmt: skip
def test_bad_input(change: dict[str, object], error: type[Exception], match: str) -> None:
    """Refused by name and rule; nothing of the values is quoted."""
    with pytest.raises(error, match=match) as caught:
        fixed_point_sum(**(GOOD | change))
    assert "7131" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_adjacency_has_no_default() -> None:
    with pytest.raises(TypeError, match="adjacency"):
        fixed_point_sum([0.0], lower=0, upper=1, granularity=0.5)
