# SPDX-License-Identifier: Apache-2.0
"""Noise within functions that numba compiles: laws, refusals, caches, forks, lifetimes."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import laws
import numba
import numpy as np
import pytest
import tiers
from fresh import python
from preloaded import GETRANDOM, compiled

import dpfast
import dpfast.numba as kernels
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.errors import DTypeError, ParameterError


@numba.njit(nogil=True)
def in_blocks(noise: Any, values: Any, out: Any, block: int) -> None:
    for at in range(0, values.size, block):
        kernels.add(noise, values[at : at + block], out[at : at + block])


@numba.njit(nogil=True)
def one_by_one(noise: Any, values: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = kernels.draw(noise, values[i])


@numba.njit(nogil=True)
def again(noise: Any, values: Any, out: Any) -> None:
    out[0] = kernels.draw(noise, kernels.draw(noise, values[0]))


@numba.njit(nogil=True)
def tried(noise: Any, values: Any, out: Any) -> Any:
    return kernels.try_add(noise, values, out), kernels.try_draw(noise, values[0])


@pytest.mark.parametrize("law", [law for law in laws.LAWS if law.name != "one_sided_geometric"], ids=str)
def test_the_law_is_the_mechanisms(law: laws.Law) -> None:
    """Few at once, many, and one by one; a scale 15 % larger is found out each time."""
    noise = kernels.Noise(law.make(Fraction(10)))
    for fill, n in (
        (lambda x, y: in_blocks(noise, x, y, 1000), 40_000),
        (lambda x, y: in_blocks(noise, x, y, 20_000), 40_000),
        (lambda x, y: one_by_one(noise, x, y), 40_000),
    ):
        out = np.ones(n, noise.dtype)
        fill(np.zeros(n, noise.dtype), out)
        steps = out if not law.real else (out / noise.mechanism.granularity).astype(np.int64)
        assert laws.judged(law, Fraction(10), steps) == []
        assert laws.judged(law, Fraction(23, 2), steps) != []


@pytest.mark.parametrize(
    "kind",
    ["int32", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("uint8", "uint64", "longlong", "float32"))],
)
def test_each_type_has_its_ends_and_bounds(kind: str) -> None:
    """In place, too."""
    made = Laplace if kind == "float32" else DiscreteLaplace
    noise = kernels.Noise(made(1, 10), kind, lower=3, upper=100)
    values = (np.arange(5000) % 90).astype(kind)
    in_blocks(noise, values, values, 2500)
    assert values.dtype == kind
    assert (values.min(), values.max()) == (3, 100)
    assert len(np.unique(values)) > 50
    again(noise, values, values)  # a result is of the type that a draw takes
    ends = np.full(5000, np.iinfo(np.uint8).max, np.uint8)
    in_blocks(kernels.Noise(DiscreteLaplace(1, 10), np.uint8), ends, ends, 2500)
    assert ends.max() == 255
    assert (ends == 255).mean() > 0.4  # what lies beyond the type's end becomes that end


def test_a_failure_raises_and_leaves_zeros() -> None:
    """And `try_add` says which; nothing of values is left in `out`, in place or not."""
    noise = kernels.Noise(Laplace(1, 10))
    values = np.array([1.0, np.nan, 3.0])
    for out in (np.ones(3), values.copy()):
        with pytest.raises(dpfast.errors.UnusableValuesError, match="values must be finite"):
            in_blocks(noise, values if out[0] == 1 and out[2] == 1 else out, out, 3)
        assert not out.any()
    out = np.ones(3)
    status, _ = tried(noise, values[::-1].copy(), out)
    assert status == kernels.NOT_FINITE
    assert not out.any()
    assert tried(noise, np.array([np.inf]), np.ones(1))[1] == (kernels.NOT_FINITE, 0)
    room = np.ones(10)
    apart = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float64)  # not aligned
    for values, out in (
        (room[:5], room[2:7]), (room[:5], np.ones(4)), (room[:4], np.ones(5)), (np.ones((2, 3)), np.ones((3, 2))),
        (apart, np.ones(5)), (np.ones(5), apart), (apart, apart),
    ):  # fmt: skip
        out[:] = 1
        with pytest.raises(DTypeError, match="out must be"):
            kernels.add(noise, values, out)
        assert not out.any()
    with pytest.raises(numba.TypingError, match="as many axes"):
        kernels.add(noise, np.ones((2, 3)), np.ones(6))


@pytest.mark.parametrize(
    ("values", "out", "says"),
    [
        (np.ones(3, np.int64), np.ones(3), "values must be an array of float64"),
        (np.ones(6)[::2], np.ones(3), "values must be in C order"),
        (np.ones(3), np.ones(3, np.float32), "out must be an array of float64"),
        (np.ones(3), np.frombuffer(b"0" * 24), "out must be an array that may be written"),
    ],
)
def test_what_does_not_fit_is_refused_when_compiled(values: Any, out: Any, says: str) -> None:
    with pytest.raises(numba.TypingError, match=says):
        kernels.try_add(kernels.Noise(Laplace(1, 10)), values, out)


def test_what_is_no_noise_is_refused() -> None:
    for given in (dpfast.RandomizedResponse(1, 3), 5, DiscreteLaplace):
        with pytest.raises(DTypeError, match="mechanism must be one that adds noise to arrays"):
            kernels.Noise(given)
    for mechanism, options, says in (
        (DiscreteLaplace(1, 2**60), {"dtype": "int32"}, "dtype must be one of 64 bits"),
        (DiscreteLaplace(1, 10), {"dtype": ">i8"}, "byte order"),
        (DiscreteLaplace(1, 10), {"dtype": "float64"}, "dtype must be an integer dtype"),
        (Gaussian(1), {"dtype": "int64"}, "dtype must be float64 or float32"),
    ):
        with pytest.raises(DTypeError, match=says):
            kernels.Noise(mechanism, **options)
    with pytest.raises(ParameterError, match="lower must be at most upper"):
        kernels.Noise(DiscreteLaplace(1, 10), lower=5, upper=4)
    with pytest.raises(numba.TypingError, match=r"noise must be a dpfast\.numba\.Noise"):
        kernels.try_add(5, np.ones(3), np.ones(3))
    noise = kernels.Noise(DiscreteLaplace(1, 10))
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(dpfast.errors.StateError, match="cannot be pickled or copied"):
            copied(noise)
    with pytest.raises(dpfast.errors.StateError, match="does not change"):
        noise.address = 0
    with pytest.raises(dpfast.errors.StateError, match="does not change"):
        del noise.address
    with pytest.raises(dpfast.errors.StateError, match="no subclasses"):
        type("Other", (kernels.Noise,), {})
    kernels.Noise.__init__(noise)
    assert noise.address
    with pytest.raises(ParameterError, match="without cells"):
        kernels.Noise(DiscreteLaplace(1, dpfast.Sensitivity(4, 1, adjacency="substitution", cells=4)))


@numba.njit(nogil=True)
def from_list(noises: Any, out: Any) -> None:
    kernels.add(noises[0], out, out)


def test_a_handle_lives_as_long_as_compiled_code_holds_it() -> None:
    """A call holds it no longer than it runs; a list of numba's keeps it when Python has let go."""
    noise = kernels.Noise(DiscreteGaussian(100))
    out = np.zeros(10_000, np.int64)
    in_blocks(noise, out, out, 5000)
    before = sys.getrefcount(noise)
    for _ in range(20):
        in_blocks(noise, out, out, 5000)
    assert sys.getrefcount(noise) == before
    noises = numba.typed.List.empty_list(numba.typeof(noise))
    noises.append(noise)
    mechanism, out = noise.mechanism, np.zeros(10_000, np.int64)
    held = sys.getrefcount(mechanism)
    del noise
    gc.collect()
    assert sys.getrefcount(mechanism) == held
    from_list(noises, out)
    assert abs(out.std() - 100) < 6  # 8 standard errors
    del noises
    gc.collect()
    assert sys.getrefcount(mechanism) == held - 1


def test_many_are_drawn_as_by_a_bulk_release() -> None:
    """Not by constant work, which takes up to nine times as long; few always are."""
    for mechanism in (DiscreteLaplace(1, 10), DiscreteGaussian(1000), Laplace(1, 1), Gaussian(1)):
        assert tiers.constant_work_of(kernels.Noise(mechanism)) == [1, 0]


def test_bound_and_add_bounds_first() -> None:
    """In blocks, of which one may be short; what a block's failure leaves is zeros everywhere."""
    noise = kernels.Noise(DiscreteLaplace(50, 1))  # which is 0 but once in 10^21
    values = np.arange(-70_000, 70_000)
    assert np.array_equal(kernels.bound_and_add(noise, values, -5, 60_000), values.clip(-5, 60_000))
    kernels.bound_and_add(noise, values, -5, 9, out=values)
    assert (values.min(), values.max()) == (-5, 9)
    assert kernels.bound_and_add(noise, values[:0], 0, 1).size == 0
    for given, says in (
        ((5, values, 0, 1), "noise must be a Noise"),
        ((noise, values.astype(float), 0, 1), "values must be an array of int64"),
        ((noise, values[::2], 0, 1), "in C order"),
        ((noise, values, 1, 0), "least must be at most most"),
        ((noise, values, 0.5, 1), "least must be a number that int64 holds"),
        ((noise, values, 0, 2**70), "most must be a number that int64 holds"),
        ((noise, values, 0, 1, values[:9].copy()), "of their shape"),
        ((noise, values[1:], 0, 1, values[:-1]), "apart from them"),
        ((noise, values, 0, 1, np.frombuffer(bytes(8 * values.size), np.int64)), "may be written"),
    ):
        with pytest.raises((DTypeError, ParameterError), match=says):
            kernels.bound_and_add(*given)
    with pytest.raises(dpfast.errors.DpfastError, match="nothing was done"):
        kernels.check(kernels.UNDONE)
    real, out = np.ones(200_000), np.ones(200_000)
    real[150_000] = np.nan
    with pytest.raises(dpfast.errors.UnusableValuesError):
        kernels.bound_and_add(kernels.Noise(Laplace(1, 1)), real, 0, 1, out)
    assert not out.any()


def test_a_block_that_is_lost_leaves_nothing(monkeypatch) -> None:
    """An exception on a thread of numba's: lost, or raised as whatever numba makes of it."""
    noise = kernels.Noise(DiscreteLaplace(1, 10))

    def broken(*_: object) -> None:
        raise SystemError

    for instead, error in (
        (broken, SystemError),
        (lambda *_: np.array([0, kernels.UNDONE, 0]), dpfast.errors.DpfastError),
    ):
        tiers.bounded_in_kernel(monkeypatch, instead)
        values = np.full(150_000, 999)
        with pytest.raises(error):
            kernels.bound_and_add(noise, values, 0, 2000, out=values)
        assert not values.any()


CACHED = """
    import os, sys
    import numpy as np
    import dpfast.noise.kernels.jit as jit
    if sys.argv[2] != "now":
        jit.DIGEST = sys.argv[2]
    import dpfast, dpfast.numba
    sys.path.insert(0, sys.argv[1])
    from mine import noisy
    def drawn():
        return noisy(dpfast.numba.Noise(dpfast.DiscreteLaplace(1, 2**40)), np.zeros(9, np.int64))
    made = [drawn(), drawn()]
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, drawn().tobytes())
        os._exit(0)
    made.append(np.frombuffer(os.read(reader, 72), np.int64))
    assert len({each.tobytes() for each in made}) == 3
    stats = noisy.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_cached_kernel_serves_its_own_dpfast_alone(tmp_path: Path) -> None:
    """A second process loads it and draws anew, as a fork does; another dpfast compiles again."""
    (tmp_path / "mine.py").write_text(
        "import numba, numpy as np, dpfast.numba\n"
        "@numba.njit(cache=True, nogil=True)\n"
        "def noisy(noise, values):\n"
        "    out = np.empty_like(values)\n"
        "    dpfast.numba.add(noise, values, out)\n"
        "    return out\n"
    )
    said = [python(CACHED, tmp_path, which).split() for which in ("now", "now", "later", "later", "now")]
    assert said == [["0", "1"], ["1", "0"], ["0", "1"], ["1", "0"], ["1", "0"]]


LOST = """
    import ctypes, sys
    import numba, numpy as np
    import dpfast, dpfast.numba

    @numba.njit(nogil=True, parallel=True)
    def parallel(noise, values, out, statuses):
        for i in numba.prange(statuses.size):
            statuses[i] = dpfast.numba.try_add(noise, values[100 * i : 100 * i + 100], out[100 * i : 100 * i + 100])

    noise = dpfast.numba.Noise(dpfast.DiscreteLaplace(1, 10))
    values, out, statuses = np.full(800, 999), np.full(800, 777), np.ones(8, np.int64)
    parallel(noise, values, out, statuses)
    assert not statuses.any() and len(set(out.tolist())) > 5
    way = ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1]), "way")
    way.value = 1
    parallel(noise, values, out, statuses)
    assert (statuses == dpfast.numba.NO_KEY).all() and not out.any()
    assert dpfast.numba.try_draw(noise, 5) == (dpfast.numba.NO_KEY, 0)
    real = dpfast.numba.Noise(dpfast.Laplace(1, 10))
    assert dpfast.numba.try_draw(real, float("nan")) == (dpfast.numba.NO_KEY, 0)
    tries = (
        lambda: dpfast.numba.add(noise, values, out), lambda: dpfast.numba.draw(noise, 5),
        lambda: dpfast.numba.add(noise, out, out), lambda: dpfast.numba.bound_and_add(noise, values, 0, 9, out),
    )
    for number, call in enumerate(tries):
        out[:] = 777
        try:
            call()
        except dpfast.errors.EntropyError as error:
            assert "no random key" in str(error)
        else:
            raise AssertionError(number)
        assert number == 1 or not out.any()
    way.value = 4
    dpfast.numba.add(noise, values, out)
    print(len(set(out.tolist())) > 5)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="getrandom is Linux's")
def test_no_key_no_noise(tmp_path: Path) -> None:
    """In parallel code by status; elsewhere raised. Short and interrupted answers are asked on."""
    assert python(LOST, compiled(tmp_path, GETRANDOM), LD_PRELOAD=str(tmp_path / "tool.so")) == "True\n"
