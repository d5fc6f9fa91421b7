# SPDX-License-Identifier: Apache-2.0
"""libdpfast: the draws of Python's releases, a status for whatever is wrong, and zeros with it."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from places import ROOT
from proofs import MODES, entered

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the library is built on Linux alone"),
]

HEADER = (ROOT / "csrc/dpfast.h").read_text()
STATUS = {name: int(value) for name, value in re.findall(r"DPFAST_(\w+) = (\d+)", HEADER)}
TYPES = {
    "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "int32": ctypes.c_int32, "float64": ctypes.c_double,
    "float32": ctypes.c_float,
}  # fmt: skip
GRID = -(2**31)
KEY = bytes(range(32))
FRESH, KEYED = "dpfast_add_%s", "dpfast_add_%s_keyed"


class Library:
    """What a C program sees of the shared library."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.dpfast_message.restype = self.c.dpfast_version.restype = ctypes.c_char_p
        self.c.dpfast_free.argtypes = [ctypes.c_void_p]
        self.c.dpfast_grid.argtypes = [ctypes.c_void_p]
        self.c.dpfast_grid.restype = ctypes.c_int32
        for law in ("discrete_laplace", "discrete_gaussian", "laplace", "gaussian"):
            grid = [] if law.startswith("discrete") else [ctypes.c_int32]
            getattr(self.c, f"dpfast_{law}").argtypes = [ctypes.c_char_p, *grid, ctypes.c_void_p]
        for name, kind in TYPES.items():
            arrays = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, kind, kind]
            getattr(self.c, FRESH % name).argtypes = [ctypes.c_void_p, *arrays]
            keyed = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, *arrays]
            getattr(self.c, KEYED % name).argtypes = keyed

    def new(self, law: str, *parameters: object) -> int:
        """A noise; it is never freed."""
        made = ctypes.c_void_p()
        assert getattr(self.c, f"dpfast_{law}")(*parameters, ctypes.byref(made)) == STATUS["OK"]
        assert made.value
        return made.value

    def status(self, law: str, *parameters: object) -> int:
        """Why a noise is not made; the place for it is NULL then."""
        made = ctypes.c_void_p(1)
        status: int = getattr(self.c, f"dpfast_{law}")(*parameters, ctypes.byref(made))
        assert not made.value
        return status

    def add(
        self, noise: int | None, values: np.ndarray, out: np.ndarray, *bounds: float, start: int | None = None
    ) -> int:
        """Under a fresh key, or from a draw on under KEY."""
        ends = bounds or _ends(values.dtype)
        keyed: tuple[object, ...] = () if start is None else (KEY, start)
        function = getattr(self.c, (FRESH if start is None else KEYED) % values.dtype)
        status: int = function(noise, *keyed, values.size, values.ctypes.data, out.ctypes.data, *ends)
        return status


def _ends(dtype: np.dtype[Any]) -> tuple[float, float]:
    return (-math.inf, math.inf) if dtype.kind == "f" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one that DPFAST_LIBRARY names, or one that is built for these tests."""
    if given := os.environ.get("DPFAST_LIBRARY"):
        return Path(given)
    out = tmp_path_factory.mktemp("library")
    subprocess.run([ROOT / "packaging/libdpfast.sh", out], check=True)
    return out


@pytest.fixture(scope="module")
def library(built: Path) -> Library:
    return Library(built / "lib/libdpfast.so")


# ------------------------------------------------------------------ the same draws

DISCRETE = [
    ("discrete_laplace", "10", DiscreteLaplace(1, 10)),
    ("discrete_laplace", "1/0.003", DiscreteLaplace("0.003", 1)),
    ("discrete_laplace", "123456.75e3", DiscreteLaplace(1, "123456750")),
    ("discrete_laplace", "1152921504606846976", DiscreteLaplace(1, 2**60)),
    ("discrete_gaussian", "2.5e1/4", DiscreteGaussian(sigma_squared="6.25")),
    ("discrete_gaussian", "1e6", DiscreteGaussian(1000)),
    ("discrete_gaussian", "1e18", DiscreteGaussian(10**9)),
]
REAL = [
    ("laplace", "5", GRID, Laplace(1, 5)),
    ("laplace", "1/3", -50, Laplace(3, 1, granularity=2.0**-50)),
    ("laplace", "1e-300", GRID, Laplace(1, "1e-300")),
    ("laplace", "3e250", GRID, Laplace(1, "3e250")),
    ("gaussian", "9", GRID, Gaussian(3)),
    ("gaussian", "0.1", 3, Gaussian(sigma_squared="0.1", granularity=8)),
    ("gaussian", "1e9", -30, Gaussian(sigma_squared=10**9, granularity=2.0**-30)),
    ("gaussian", "3e-80", GRID, Gaussian(sigma_squared=Fraction(3, 10**80))),
]
SIZES = (1, 30, 4095, 4096, 20_000)
MANY = 3_000_000


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_integers_are_those_of_python(library: Library, dtype: str) -> None:
    """Byte for byte: any number of draws, from any start, bounded or saturated, in place or not."""
    ends = np.iinfo(dtype)
    many = [(DISCRETE[0], MANY)] if dtype == "int64" else []
    for (law, text, mechanism), n in [*itertools.product(DISCRETE, SIZES), *many]:
        noise = library.new(law, text.encode())
        values = np.arange(n).astype(dtype) * 3
        values[::7], values[3::11] = ends.max, ends.min
        for start, bounds in ((0, ()), (1000, (5, 60)), (2**59, (0, int(ends.max) - 9))):
            wanted, lower, upper = values.copy(), *(bounds or (None, None))
            tiers.added(
                values, wanted, plan=tiers.bulk_plan(mechanism), key=tiers.StreamKey(KEY), start=start, lower=lower,
                upper=upper, narrow=tiers.narrow(mechanism), constant_work=n < tiers.SMALL,
            )  # fmt: skip
            out, inside = np.empty_like(values), values.copy()
            if not tiers.narrow(mechanism) and dtype == "int32":  # no count of 32 bits can survive such noise
                assert library.add(noise, values, inside, *bounds, start=start) == STATUS["TYPE"]
                assert not inside.any()
                continue
            assert library.add(noise, values, out, *bounds, start=start) == STATUS["OK"]
            assert library.add(noise, inside, inside, *bounds, start=start) == STATUS["OK"]
            assert np.array_equal(out, wanted)
            assert np.array_equal(inside, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reals_are_those_of_python(library: Library, dtype: str) -> None:
    """Byte for byte; the grid that the library chooses is Python's."""
    for (law, text, grid, mechanism), n in itertools.product(REAL, SIZES):
        noise, exponent = library.new(law, text.encode(), grid), tiers.exponent(mechanism)
        assert library.c.dpfast_grid(noise) == exponent
        most = float(np.finfo(dtype).max)
        values = np.clip(np.linspace(-1.0, 1.0, n) * 1e5 * mechanism.scale, -most, most).astype(dtype)
        out = np.empty_like(values)
        if dtype == "float32" and exponent < -149:
            assert library.add(noise, values, out) == STATUS["TYPE"]
            assert not out.any()
            continue
        width = float(np.float32(min(mechanism.scale, 1e30)))
        for start, bounds in ((0, ()), (777, (-width, width)), (5, (-math.inf, 0.0))):
            told = {end: bound for end, bound in zip(("lower", "upper"), bounds, strict=False) if math.isfinite(bound)}
            wanted = tiers.noised(mechanism, values, KEY, start, dtype=dtype, **told)
            assert library.add(noise, values, out, *bounds, start=start) == STATUS["OK"]
            assert np.array_equal(out, wanted)


def test_each_call_has_a_key_of_its_own(library: Library) -> None:
    """In threads and a forked child, too: 20 draws at scale 2^30 are equal with chance 2^-600."""
    noise, seen = library.new("discrete_laplace", b"1073741824"), []

    def draw() -> bytes:
        out = np.zeros(20, np.int64)
        assert library.add(noise, out, out) == STATUS["OK"]
        return out.tobytes()

    threads = [threading.Thread(target=lambda: seen.append(draw())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    into, out = os.pipe()
    if (child := os.fork()) == 0:
        os.write(out, draw())
        os._exit(0)
    os.waitpid(child, 0)
    seen += [os.read(into, 160), draw(), draw()]
    assert len(set(seen)) == len(seen) == 11


# ------------------------------------------------------------------ whatever is wrong


def test_what_is_no_number(library: Library) -> None:
    for text in ("", " 1", "1 ", "x", "-1", "+1", "0", "0/1", "1/0", "1/", "/1", "1/2/3", "1.2.3", ".", "e5", "1e", "1e+",
                 "1e12345", "1e9999", "1e-9999", "nan", "inf", "0x10", "1,5", "9" * 1301, "1" + "0" * 1290, "1\u0661"):  # fmt: skip
        for law, grid in (("discrete_laplace", ()), ("discrete_gaussian", ()), ("laplace", (0,)), ("gaussian", (0,))):
            assert library.status(law, text.encode(), *grid) == STATUS["NUMBER"], text


def test_numbers_of_all_forms(library: Library) -> None:
    """One scale in many forms, and one draw."""
    found = set()
    for text in ("10", "10.", "010.0", "1e1", "1E+1", "100e-1", "1/.1", "1/0.1", "5/0.5", "3.0e2/30", "0.001e4"):
        out = np.zeros(50, np.int64)
        assert library.add(library.new("discrete_laplace", text.encode()), out, out, start=0) == STATUS["OK"]
        found.add(out.tobytes())
    assert len(found) == 1


def test_scales_out_of_range(library: Library) -> None:
    """Ends belong to the range; beyond them, and grids beyond theirs, no noise is made."""
    for law, grid, least, most in (
        ("discrete_laplace", (), "1/1152921504606846976", "1152921504606846976"),
        ("discrete_gaussian", (), "1e-6", "1e18"),
        ("laplace", (0,), "1/1152921504606846976", "1152921504606846976"),
        ("gaussian", (0,), f"1/{2**120}", f"{2**120}"),
    ):
        assert library.new(law, least.encode(), *grid)
        assert library.new(law, most.encode(), *grid)
        for beyond in (f"{least}.000001" if "/" in least else "9.99999e-7", f"{most}.000001" if "e" not in most else "1000000000000000001"):  # fmt: skip
            assert library.status(law, beyond.encode(), *grid) == STATUS["SCALE"], (law, beyond)
    for grid in (-1075, 901, 2**31 - 1, GRID + 1):
        assert library.status("laplace", b"1", grid) == STATUS["SCALE"]
    for text in ("1e-320", "1e280"):
        assert library.status("laplace", text.encode(), GRID) == STATUS["SCALE"]


@pytest.fixture
def noises(library: Library) -> tuple[int, int]:
    return library.new("discrete_laplace", b"10"), library.new("laplace", b"10", GRID)


def bad_calls(noises: tuple[int, int]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Status, type, and arguments of an add; "out" stands for an array of sevens."""
    discrete, real = noises
    for name, noise, ends in (("int64", discrete, (0, 9)), ("uint64", discrete, (0, 9)), ("int32", discrete, (0, 9)),
                              ("float64", real, (0.0, 9.0)), ("float32", real, (0.0, 9.0))):  # fmt: skip
        yield "POINTER", name, (None, 100, "in", "out", *ends)
        yield "POINTER", name, (noise, 100, None, "out", *ends)
        yield "POINTER", name, ("in", 100, "in", "out", *ends)  # zeros are no noise
        yield "SIZE", name, (noise, -1, "in", "out", *ends)
        yield "SIZE", name, (noise, 2**62, "in", "out", *ends)
        yield "ARRAYS", name, (noise, 100, "beside out", "out", *ends)
        yield "ARRAYS", name, (noise, 100, "in + 1", "out", *ends)
        yield "TYPE", name, (real if noise == discrete else discrete, 100, "in", "out", *ends)
        yield "BOUNDS", name, (noise, 100, "in", "out", *ends[::-1])
    for name in ("float64", "float32"):
        for ends in ((math.nan, 1.0), (0.0, math.nan), (math.inf, math.inf), (-math.inf, -math.inf)):
            yield "BOUNDS", name, (real, 100, "in", "out", *ends)
        yield "NOT_FINITE", name, (real, 100, "nan", "out", 0.0, 9.0)


def test_bad_calls_have_a_status_and_zeros(library: Library, noises: tuple[int, int]) -> None:
    """No value of `out` is left, for each type and mistake; with a key, too."""
    for status, name, arguments in bad_calls(noises):
        room = np.full(300, 7, name)
        size = room.itemsize
        values = np.zeros(300, name) if "nan" not in arguments else np.full(300, math.nan, name)
        places = {"in": values.ctypes.data, "in + 1": values.ctypes.data + 1, "beside out": room.ctypes.data + size,
                  "nan": values.ctypes.data, "out": room.ctypes.data}  # fmt: skip
        given = [places[each] if isinstance(each, str) else each for each in arguments]
        for keyed in ((), (KEY, 0)):
            room[:] = 7
            function = getattr(library.c, (KEYED if keyed else FRESH) % name)
            assert function(given[0], *keyed, *given[1:]) == STATUS[status], (status, name, arguments)
            if 0 <= given[1] < 2**61:
                assert not room[:100].any(), (status, name, arguments)
            assert (room[100:] == 7).all()
    out = np.full(10, 7)
    keyed = library.c.dpfast_add_int64_keyed
    assert keyed(noises[0], None, 0, 10, out.ctypes.data, out.ctypes.data, 0, 9) == STATUS["POINTER"]
    for start, n in ((2**60 - 9, 10), (2**64 - 1, 10), (2**61, 0)):
        assert keyed(noises[0], KEY, start, n, out.ctypes.data, out.ctypes.data, 0, 9) == STATUS["SIZE"]
    assert not out.any()


def test_nothing_is_a_release_of_nothing(library: Library, noises: tuple[int, int]) -> None:
    """n = 0 is done wherever the arrays are, as of an empty std::vector; NULL is no noise."""
    out = np.full(1, 7)
    for at in (out.ctypes.data, None, 1):
        assert library.c.dpfast_add_int64(noises[0], 0, at, at, 0, 1) == STATUS["OK"]
        assert library.c.dpfast_add_int64(noises[0], 0, at, at, 1, 0) == STATUS["BOUNDS"]
        assert library.c.dpfast_add_float32(noises[0], 0, at, at, 0, 1) == STATUS["TYPE"]
    assert out[0] == 7
    library.c.dpfast_free(None)
    assert library.c.dpfast_grid(None) == 0
    assert library.c.dpfast_laplace(b"1", 0, None) == STATUS["POINTER"]
    assert library.status("laplace", None, 0) == STATUS["POINTER"]


def test_the_hosts_mode_has_no_say(library: Library, noises: tuple[int, int], host: ctypes.CDLL) -> None:
    """Bounds are read in our own mode: subnormal ones, and those that are no numbers."""
    fine = library.new("laplace", b"1e-310", -1074)
    tiny: tuple[Any, ...] = ctypes.c_float(1e-40), ctypes.c_float(1e-39)  # made in Python's mode
    for mode in MODES:
        for flush in (False, True):
            out, single = np.zeros(50), np.zeros(50, np.float32)
            with entered(host, mode, flush=flush):
                statuses = [
                    library.add(fine, out, out, 5e-324, 1e-323, start=0),
                    library.add(fine, out, out, 5e-324, -5e-324, start=0),
                ]
                low = library.add(noises[1], single, single, *tiny, start=0)
            assert statuses == [STATUS["OK"], STATUS["BOUNDS"]]
            assert not out.any()
            assert low == STATUS["OK"]
            assert set(single.view(np.uint32).tolist()) <= {71362, 713624}  # both bounds


def test_a_call_needs_no_more_stack_than_the_header_says(built: Path) -> None:
    """It does for all laws, few and many, and the first of a process; 80 KiB end by a signal."""
    code = """
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
def work():
    for law, text in ((library.dpfast_discrete_laplace, b"10"), (library.dpfast_discrete_gaussian, b"1e12"),
                      (library.dpfast_discrete_gaussian, b"100"), (library.dpfast_discrete_laplace, b"1e17")):
        made = ctypes.c_void_p()
        assert law(text, ctypes.byref(made)) == 0
        for n in (1, 100, 5000, 100_000):
            out = (ctypes.c_int64 * n)()
            assert library.dpfast_add_int64(made, ctypes.c_int64(n), out, out, ctypes.c_int64(0), ctypes.c_int64(9)) == 0
    print("done")
threading.stack_size(int(sys.argv[2]) * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    run = [sys.executable, "-c", code, str(built / "lib/libdpfast.so")]
    enough = subprocess.run([*run, "256"], capture_output=True, text=True, check=False)  # Python's own frames, too
    assert enough.stdout == "done\n", enough
    few = subprocess.run([*run, "80"], capture_output=True, text=True, check=False)
    assert few.returncode < 0


def test_every_status_has_words(library: Library) -> None:
    said = [library.c.dpfast_message(status) for status in range(-1, len(STATUS) + 1)]
    assert said[0] == said[-1] == b"no status"
    assert len(set(said)) == len(STATUS) + 1


def test_no_key_no_release(built: Path) -> None:
    """getrandom refused by the kernel: a status, and zeros."""
    code = """
import ctypes, sys
library, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
made, out = ctypes.c_void_p(), (ctypes.c_int64 * 50)(*[7] * 50)
assert library.dpfast_discrete_laplace(b"10", ctypes.byref(made)) == 0
# seccomp: getrandom (318 on x86-64, 278 on AArch64) fails with EPERM
import struct, platform
number = {"x86_64": 318, "aarch64": 278}[platform.machine()]
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = b"".join(struct.pack("HBBI", *line) for line in lines)
room = ctypes.create_string_buffer(program, len(program))
fprog = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(room))
held = ctypes.create_string_buffer(fprog, len(fprog))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, held, 0, 0) == 0
print(library.dpfast_add_int64(made, ctypes.c_int64(50), out, out, ctypes.c_int64(0), ctypes.c_int64(99)), sum(out))
"""
    command = [sys.executable, "-c", code, str(built / "lib/libdpfast.so")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(STATUS["ENTROPY"]), "0"]


# ------------------------------------------------------------------ what is built


def test_what_the_library_shows_and_asks(built: Path) -> None:
    """The names of the headers alone; at most twelve of libc, none of which prints or ends."""
    shared = subprocess.run(
        ["nm", "-D", built / "lib/libdpfast.so.1"], capture_output=True, text=True, check=True
    ).stdout
    archive = subprocess.run(
        ["nm", "-g", "--defined-only", built / "lib/libdpfast.a"], capture_output=True, text=True, check=True
    )
    texts = HEADER + (ROOT / "csrc/dpfast_keyed.h").read_text()
    declared = set(re.findall(r"\b(dpfast_\w+)\((?=const|int|void|dpfast)", texts))
    assert set(re.findall(r" T (\w+)@@DPFAST_1", shared)) == declared
    assert set(re.findall(r" T (\w+)", archive.stdout)) == declared
    asked = set(re.findall(r" U (\w+)@GLIBC", shared))
    assert len(asked) <= 12
    assert not asked & {"abort", "exit", "printf", "fprintf", "puts", "__assert_fail", "signal"}
    assert (built / "lib/libdpfast.so.1").stat().st_size <= 900_000


def test_the_same_tree_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    subprocess.run([ROOT / "packaging/libdpfast.sh", tmp_path], check=True)
    for name in ("lib/libdpfast.a", "lib/libdpfast.so.1", "lib/pkgconfig/dpfast.pc"):
        assert (built / name).read_bytes() == (tmp_path / name).read_bytes()
        assert str(ROOT).encode() not in (built / name).read_bytes()


def test_it_is_compiled_as_the_extension_is() -> None:
    """Each flag by which the arithmetic is strict stands in both; each C file is in one or both."""
    script, build = (ROOT / "packaging/libdpfast.sh").read_text(), (ROOT / "csrc/build_ffi.py").read_text()
    flags = re.findall(r'"(-f[\w-]+(?:=\w+)?)"', build)
    assert len(flags) >= 10
    assert [flag for flag in flags if flag not in script] == []


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_headers_stand_alone(language: str, tmp_path: Path) -> None:
    """In C11 and in C++, each by itself and twice, without a warning."""
    for header in ("dpfast.h", "dpfast_keyed.h"):
        source = tmp_path / "one.c"
        source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return dpfast_grid(0); }}\n')
        subprocess.run(
            ["gcc", "-x", language, "-std=c11" if language == "c" else "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror",
             f"-I{ROOT / 'csrc'}", "-c", "-o", tmp_path / "one.o", source], check=True,
        )  # fmt: skip
