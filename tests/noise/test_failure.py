# SPDX-License-Identifier: Apache-2.0
"""What a release does on failure: entropy, Ctrl-C, cache, a host's floating point, the build."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import laws
import numpy as np
import pytest
import tiers
from fresh import HOME, python
from places import TESTS
from preloaded import GETRANDOM, compiled

import dpfast
from dpfast import DiscreteLaplace, Key, Laplace, RandomizedResponse
from dpfast.errors import EntropyError
from dpfast.noise import kernels
from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric

# ------------------------------------------------------------------ no entropy


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return compiled(tmp_path_factory.mktemp("getrandom"), GETRANDOM)


@pytest.mark.skipif(sys.platform != "linux", reason="getrandom is Linux's")
def test_a_getrandom_that_fails(library) -> None:
    """Injected under the real build: EntropyError, out untouched; short answers are asked on.

    Where the system gives five bytes and then fails, these are wiped.
    """
    output = python(
        """
        import ctypes, sys
        import numpy as np
        import dpfast
        from dpfast import _native

        tool = ctypes.CDLL(sys.argv[1])
        way, asked = ctypes.c_int.in_dll(tool, "way"), ctypes.c_int.in_dll(tool, "asked")
        mech = dpfast.DiscreteLaplace(1, 10**6)
        key = dpfast.Key.generate().derive("x")
        expected = mech.release(np.zeros(5000, np.int64), key=key).tolist()

        def tries():
            for n in (1, 100, 5000, 2**19):
                for threads in (1, 2):
                    counts, out = np.full(n, 999), np.full(n, 777)
                    strided = np.full(2 * n, 777)[::2]
                    yield lambda: mech.release(counts, out=out, threads=threads), [counts, out]
                    yield lambda: mech.release(counts, out=counts, threads=threads), [counts]
                    yield lambda: mech.release(counts, out=strided, threads=threads), [counts, strided]
                    yield lambda: mech.release(counts, constant_time=True, lower=0), [counts]
                    yield lambda: mech.sample(n), []
            yield lambda: dpfast.DiscreteLaplace(1, 1).release([1, 2]), []

        for failing in (1, 2, 3):
            for call, arrays in tries():
                before = [array.copy() for array in arrays]
                way.value, asked.value = failing, 0
                try:
                    call()
                except dpfast.errors.EntropyError as error:
                    assert isinstance(error, OSError) and "no random key" in str(error)
                else:
                    raise AssertionError("a release without entropy")
                finally:
                    way.value = 0
                assert asked.value >= 1
                assert all(np.array_equal(array, kept) for array, kept in zip(arrays, before, strict=True))
            way.value = failing
            # A keyed release asks nobody.
            assert mech.release(np.zeros(5000, np.int64), key=key, resume=True).tolist() == expected
            way.value = 0
        way.value = 1
        try:
            dpfast.Key.generate()
        except dpfast.errors.EntropyError:
            print("no key")
        way.value, room = 3, bytearray(bytes([255]) * 32)
        try:
            _native.entropy_into(room)
        except dpfast.errors.EntropyError:
            print("no half of a key", bytes(room) == bytes(32))
        way.value, asked.value = 4, 0
        noises = {mech.release(np.zeros(64, np.int64)).tobytes() for _ in range(20)}
        assert len(noises) == 20
        assert asked.value >= 20 * 14  # 32 bytes, five at a time, every other question interrupted
        print("slow keys")
        """,
        library,
        LD_PRELOAD=os.pathsep.join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)])),
    )
    assert output.split("\n") == ["no key", "no half of a key True", "slow keys", ""]


@pytest.mark.skipif(sys.platform != "linux", reason="getrandom is Linux's")
def test_a_signal_ends_the_wait_for_entropy(library) -> None:
    """If getrandom is interrupted, the handler runs and raises, or getrandom is asked again."""
    output = python(
        """
        import ctypes, signal, sys
        import numpy as np
        import dpfast

        tool = ctypes.CDLL(sys.argv[1])
        way = ctypes.c_int.in_dll(tool, "way")
        integers, reals, counts = dpfast.DiscreteLaplace(1, 10**6), dpfast.Laplace(1, 1), np.full(5000, 999)
        calls = [
            lambda: integers.release([1, 2]),
            lambda: integers.release(counts),
            lambda: integers.sample(3),
            lambda: reals.release([1.0]),
            lambda: dpfast.RandomizedResponse(1).release([0, 1]),
            lambda: dpfast.Exponential(1, 1).select([0.5, 1.5]),
            lambda: dpfast.random_bytes(5000),
            lambda: dpfast.fill_bytes(bytearray(16)),
            dpfast.ChaCha20,
        ]
        for call in calls:
            call()
        handled = 0

        def handler(*_):
            global handled
            handled += 1
            if handled % 4 == 0:
                raise KeyboardInterrupt
            if handled % 4 == 3:
                way.value = 0

        signal.signal(signal.SIGUSR1, handler)
        for n, call in enumerate(calls):
            way.value = 5
            call()
            assert handled == 4 * n + 3, (n, handled)
            way.value = 5
            try:
                call()
            except KeyboardInterrupt:
                print(n, end=" ")
        """,
        library,
        LD_PRELOAD=os.pathsep.join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)])),
    )
    assert output.split() == [str(n) for n in range(9)]


def test_entropy_that_fails_leaves_everything_alone(monkeypatch) -> None:
    """In this process, through the two places that ask: no call gives noise without a key."""
    mech = DiscreteLaplace(1, 10)
    tiers.no_key(monkeypatch)
    for n in (100, 4096, 2**20):
        counts = np.full(n, 999)
        calls: list[Callable[[], object]] = [
            lambda counts=counts: mech.release(counts, out=counts),
            lambda counts=counts: mech.release(counts, out=counts.view(np.uint64), threads=2),
            lambda counts=counts: mech.release(counts.astype(">i2"), dtype=np.int8),
            lambda n=n: mech.sample(n),
        ]
        for call in calls:
            with pytest.raises(EntropyError):
                call()
        assert (counts == 999).all()


def test_a_failure_before_there_is_a_key_leaves_out_alone(monkeypatch) -> None:
    """A table that fails to build (Ctrl-C, memory) is no failed release: nothing was written."""
    counts, out = np.full(5000, 999), np.full(5000, 777)
    for failure in (KeyboardInterrupt, MemoryError):

        def refuse(*arguments: object, failure: type[BaseException] = failure) -> None:
            raise failure

        with monkeypatch.context() as patch:
            tiers.plant(patch, DiscreteLaplace, "made_plan", refuse)
            with pytest.raises(failure):
                DiscreteLaplace(1, 10).release(counts, out=counts)
            with pytest.raises(failure):
                DiscreteLaplace(1, 10**7).release(counts, out=out, key=Key.generate().derive("x"))
    assert (counts == 999).all()
    assert (out == 777).all()


# ------------------------------------------------------------------ Ctrl-C


@pytest.fixture(scope="module")
def interrupted() -> dict[tuple[str, str, str], list[str]]:
    """What each release says that was interrupted, by threads, place and presses; one process."""
    output = python(
        """
        import _thread, os, signal, sys, time
        import numpy as np
        import dpfast
        from dpfast import _native
        from dpfast.noise.release import engine

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it without one
        mech = dpfast.DiscreteLaplace(1, 10)
        engine.SLAB, n = 2**18, 2**21  # eight calls of C
        whole = _native.Release.add

        def interrupt(threads, where, presses):
            counts = np.full(n, 777)
            out = {"elsewhere": np.full(n, 777), "in place": counts, "strided": np.full(2 * n, 777)[::2]}[where]
            calls, over = [], False

            def press_on():
                for _ in range(presses - 1):
                    time.sleep(0.0005)
                    if not over:
                        os.kill(os.getpid(), signal.SIGINT)

            def pressed(*arguments):
                calls.append(arguments)
                if len(calls) == 2:
                    _thread.start_new_thread(press_on, ())
                    os.kill(os.getpid(), signal.SIGINT)
                return whole(*arguments)

            _native.Release.add = pressed
            caught = False
            try:
                try:
                    try:
                        mech.release(counts, out=out, threads=threads)
                    finally:
                        over = True  # no call, so no interrupt comes before it; one more may come after it
                except KeyboardInterrupt:
                    caught = True
                    print(np.count_nonzero(out), end=" ")
                    time.sleep(0.05)
            except KeyboardInterrupt:
                print(np.count_nonzero(out), end=" ")
            while _thread._count():
                time.sleep(0.001)
            print(caught, np.count_nonzero(out))

        for way in sys.argv[1:]:
            threads, where, presses = way.split(",")
            print(way, end=",")
            interrupt(int(threads), where, int(presses))
        """,
        *(",".join((threads, *way)) for threads in ("1", "2") for way in INTERRUPTED),
    )
    lines = [line.split(",") for line in output.splitlines()]
    return {(threads, where, presses): found.split() for threads, where, presses, found in lines}


INTERRUPTED = [("elsewhere", "1"), ("in place", "30"), ("strided", "1"), ("strided", "30")]


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(("where", "presses"), INTERRUPTED)
def test_ctrl_c_in_a_release(threads, where, presses, interrupted) -> None:
    """KeyboardInterrupt in the second call of C, once or repeated: every cell stays zero."""
    found = interrupted[threads, where, presses]
    assert found[-2:] == ["True", "0"]
    assert set(found[:-2]) <= {"0"}


STORM = """
    import _thread, signal, time
    import numpy as np
    import dpfast
    from dpfast import _native

    class Boom(BaseException):
        pass

    storm = False

    def boom(*_):
        if storm:
            raise Boom

    signal.signal(signal.SIGALRM, boom)
    whole, main, writing, written = _native.Release.add, _thread.get_ident(), [], []

    def slow(*arguments):
        global storm
        if _thread.get_ident() == main:
            while not writing:
                time.sleep(0.001)
            storm = True
            signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
            raise Boom
        writing.append(arguments)
        time.sleep(0.3)
        done = whole(*arguments)
        written.append(writing.pop())
        return done

    _native.Release.add = slow
    counts = np.full(2**20, 777)
    try:
        try:
            dpfast.DiscreteLaplace(1, 10).release(counts, out=counts, threads=2)
        finally:
            storm = False
    except Boom:
        print(len(writing), len(written), np.count_nonzero(counts))
    signal.setitimer(signal.ITIMER_REAL, 0)
    while _thread._count():
        time.sleep(0.001)
    print(np.count_nonzero(counts))
"""


def test_no_helper_writes_when_a_storm_of_exceptions_is_over() -> None:
    """A signal handler raises every 0.1 ms while a helper writes: zeros alone, after it."""
    assert python(STORM).split() == ["0", "1", "0", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["refused", "never begins", "late"])
def test_threads_that_do_not_start_leave_their_part_to_the_caller(way) -> None:
    """Kernels, helpers: the release is as with all threads; no wait for one that never begins."""
    output = python(
        """
        import _thread, sys, threading, time, warnings
        import numpy as np
        import dpfast
        from dpfast.noise import kernels

        key = dpfast.Key.generate()
        start, late = _thread.start_new_thread, []

        def refuse(function, arguments=()):
            if sys.argv[1] == "refused":
                raise RuntimeError("can't start new thread")
            if sys.argv[1] == "late":
                late.append((function, arguments))
            return 0

        kernels.START = 0.01
        _thread.start_new_thread = threading._start_new_thread = refuse

        def released(made):
            for mech, values in ((dpfast.DiscreteLaplace(1, 10), np.arange(2**21)), (dpfast.Laplace(1, 1), np.arange(2.0**21))):
                made.append(mech.release(values, threads=3, key=key.derive(type(mech).__name__), resume=True))
            made.append(dpfast.fixed_point_sum(np.arange(9) / 9, lower=0, upper=1, granularity=0.25, adjacency="add-remove")[0])
            return made

        starved = released([])
        _thread.start_new_thread = threading._start_new_thread = start
        for function, arguments in late:
            start(function, arguments)
        while _thread._count():
            time.sleep(0.001)
        print(len(late) >= 5 or sys.argv[1] != "late", all(map(np.array_equal, starved, released([]))))
        """,
        way,
    )
    assert output.split() == ["True", "True"]


# ------------------------------------------------------------------ Ctrl-C while numba loads

LOADING = """
import os, signal, sys, threading, time, warnings
import numpy as np
import dpfast

signal.signal(signal.SIGINT, signal.default_int_handler)

class Trap:  # something happens when a module is looked for, once
    def __init__(self, module, happens):
        self.module, self.happens = module, happens
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            sys.meta_path.remove(self)
            self.happens()

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)  # an interrupt in this very thread comes here

def fail():
    raise MemoryError

def release():  # a kernel computes the sum
    sums, _ = dpfast.fixed_point_sum(np.arange(9) / 9, lower=0, upper=1, granularity=0.25, adjacency="add-remove")
    return dpfast.DiscreteLaplace(1, 10**6).release(sums, key=dpfast.Key.from_bytes(bytes(range(32))).derive("loading"), resume=True)
"""


def undisturbed() -> str:
    """What a release gives where nothing happens: here."""
    _, counted, released = LOADING.partition("def release()")
    made = {"np": np, "dpfast": dpfast}
    exec(counted + released, made)
    return f"{made['release']()}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "fault"),
    [
        (module, fault)
        for module in ("numba", "numba.core.types", "numba.core.typing", "dpfast.noise.kernels.fixed_point")
        for fault in ("interrupt", "fail")
    ],
)
def test_a_fault_while_numba_loads_is_over_with_the_call(module, fault) -> None:
    """The first release raises; the next in the process gives what all give."""
    second = "print(release())\n"
    first = f"""
Trap({module!r}, {fault})
try:
    release()
except (KeyboardInterrupt, MemoryError) as error:
    print(type(error).__name__)
"""
    raised, _, rest = python(LOADING + first + second).partition("\n")
    assert raised == ("KeyboardInterrupt" if fault == "interrupt" else "MemoryError")
    assert rest == undisturbed()


MEANWHILE = {
    "the program ends": "",
    "the program is ended by the interrupt": """
        sys.excepthook = lambda kind, *_: print(kind.__name__, flush=True)
        if os.fork() == 0:
            raise KeyboardInterrupt
        assert os.waitstatus_to_exitcode(os.wait()[1]) in (1, -signal.SIGINT)
    """,
    "the program forks": """
        child = os.fork()
        if child == 0:
            os._exit(int(not release().any()))
        assert os.waitpid(child, 0)[1] == 0
        assert release().any()
    """,
    "other threads release": """
        found = []
        threads = [threading.Thread(target=lambda: found.append(release().any())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 3
    """,
    "a release at the end of the program": """
        import atexit
        atexit.register(lambda: print(release().any()))
    """,
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what == "the program ends" else pytest.mark.slow) for what in MEANWHILE]
)
def test_what_comes_while_numba_still_loads(what) -> None:
    """After Ctrl-C: nothing hangs, nothing crashes, and whoever releases gets noise."""
    script = f"""
Trap("numba.core.types", interrupt)
try:
    release()
except KeyboardInterrupt:
    print("interrupted", flush=True)
{dedent(MEANWHILE[what])}
print("right", flush=True)
"""
    more = {
        "the program is ended by the interrupt": ["KeyboardInterrupt"],
        "a release at the end of the program": ["True"],
    }
    assert sorted(python(LOADING + script).split()) == sorted(["interrupted", "right", *more.get(what, [])])


def test_ctrl_c_from_outside_leaves_no_counts(tmp_path) -> None:
    """A terminal's SIGINT during a release into a mapped file: the file holds zeros."""
    script = """
        import signal, sys
        import numpy as np
        import dpfast
        from dpfast import _native
        from dpfast.noise.release import engine
        signal.signal(signal.SIGINT, signal.default_int_handler)
        mech = dpfast.DiscreteLaplace(1, 2**60)
        mech.release([1])
        engine.SLAB, n = 2**18, 2**20
        out = np.asarray(np.memmap(sys.argv[1], np.int64, "w+", shape=(n,)))
        out[:] = 777
        whole, calls = _native.Release.add, []
        def endless(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                print("ready", flush=True)
                while True:
                    whole(*arguments)
            return whole(*arguments)
        _native.Release.add = endless
        try:
            mech.release(out, out=out, constant_time=True, threads=1)
        except KeyboardInterrupt:
            print("interrupted")
    """
    run = subprocess.Popen([sys.executable, "-c", dedent(script), tmp_path / "out"], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    assert run.communicate(timeout=300)[0] == "interrupted\n"
    assert run.returncode == 0
    assert not np.fromfile(tmp_path / "out", np.int64).any()


# ------------------------------------------------------------------ no place for numba's cache


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """dpfast in a folder where no cache can be written beside it, whoever asks: even root."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(HOME / "dpfast", folder / "dpfast", ignore=shutil.ignore_patterns("__pycache__"))
    for room in (folder / "dpfast", *(folder / "dpfast").rglob("*")):
        if room.is_dir():
            (room / "__pycache__").write_text("a file where a folder should be")
    return folder


WORK = """
    import sys
    import numpy as np
    import dpfast
    from dpfast.noise import kernels
    assert len(np.unique(dpfast.RandomizedResponse(1).release(np.zeros(100, int)))) > 1
    if "all" in sys.argv:
        dpfast.fixed_point_sum(np.ones(9), lower=0, upper=1, granularity=1, adjacency="add-remove")
        rows = np.zeros(9, int)
        dpfast.bounded_histogram(rows, rows, domain=rows[:1], max_partitions=1, max_per_partition=1)
        dpfast.NoisyMax(1, 1).select([1, 2])
        state = kernels.cache_state()  # which compiles every kernel
        found = state["path"], state["loaded"], state["compiled"]
    else:
        stats = kernels.kernel("respond").stats
        found = stats.cache_path, stats.cache_hits.total(), stats.cache_misses.total()
    print(*found, dpfast.__file__)
"""


TWICE = """
    import os
    import numba
    import dpfast
    if first := os.fork():  # which compiles before the second
        assert os.waitpid(first, 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kernels", "least"), [("one", 1), ("all", 4)])
def test_an_install_that_cannot_be_written(kernels, least, home, tmp_path) -> None:
    """The kernels are cached in the user's folder, and the next process loads them there."""
    cache = tmp_path / "cache"
    places = {"HOME": "/dev/null", "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": None}
    first, second = map(str.split, python(TWICE + WORK, kernels, home=home, **places).splitlines())
    assert first[0].startswith(str(cache))
    assert first[1] == "0"
    assert second[:3] == [first[0], first[2], "0"]
    assert int(first[2]) >= least
    assert second[3].startswith(str(home))


@pytest.mark.slow
def test_no_place_to_write_at_all(home) -> None:
    """Nor in the user's folder: compiled in every process, and nothing else changes."""
    places = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "NUMBA_CACHE_DIR": None}
    output = python(WORK, home=home, **places).split()
    assert output[1] == "0"
    assert int(output[2]) == 1
    assert output[3].startswith(str(home))


RESPONDING = """
    import numpy as np
    import dpfast
    from dpfast.noise import kernels
    dpfast.RandomizedResponse(1).release(np.zeros(3, np.int64))
    print(kernels.kernel("respond").stats.cache_path)
"""


@pytest.mark.slow
def test_a_cache_that_others_may_write_is_not_read(tmp_path) -> None:
    """Its files are pickles and machine code: what was planted there ran beside keys and rows."""
    shared, private = tmp_path / "shared", tmp_path / "home"
    cache = shared / "numba"
    cache.mkdir(parents=True)
    places = {"NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(private)}
    assert python(RESPONDING, **places).startswith(str(cache))
    told = tmp_path / "told"
    for index in cache.rglob("*.nbi"):
        index.write_bytes(b"cposix\nsystem\n(S'touch " + os.fsencode(told) + b"'\ntR.")
    for spoilt in (cache, shared, next(cache.iterdir())):  # the folder, one above it, the kernels' own
        spoilt.chmod(0o777)
        assert python(RESPONDING, **places).startswith(str(private / "dpfast"))
        assert not told.exists()
        assert (private / "dpfast").stat().st_mode & 0o777 == 0o700
        spoilt.chmod(0o700)
    python(RESPONDING, **places)
    assert told.exists()  # planted: it runs where the cache is trusted


@pytest.mark.slow
def test_no_cache_is_better_than_one_of_others(tmp_path) -> None:
    for name in ("cache", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    assert python(RESPONDING, **places) == "None\n"
    assert not list(tmp_path.rglob("*.nb?"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a file size limit stands for a full disk")
def test_a_full_disk_under_the_cache(tmp_path) -> None:
    """A cache that can be opened and not be written, or that holds rubbish, is done without."""
    cache = tmp_path / "cache"
    work = """
        import resource, sys
        import numpy as np
        import dpfast
        if sys.argv[1:]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        print(dpfast.RandomizedResponse(1, answers_per_unit=2).release(np.zeros((2, 2), np.int64)).shape)
    """
    assert python(work, "full", NUMBA_CACHE_DIR=str(cache)) == "(2, 2)\n"
    assert not [path for path in cache.rglob("*.nb?") if path.stat().st_size]
    python(work, NUMBA_CACHE_DIR=str(cache))
    files = list(cache.rglob("*.nb?"))
    assert files
    for path in files:
        path.write_bytes(b"")  # as a power cut may leave them
    assert python(work, NUMBA_CACHE_DIR=str(cache)) == "(2, 2)\n"


def test_a_compiler_that_fails_is_not_hidden(monkeypatch) -> None:
    """Only the cache is done without: other failures come through."""

    def broken(name: str) -> object:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(kernels, "kernel", broken)
    with pytest.raises(RuntimeError, match="no kernel"):
        RandomizedResponse(1).release(np.zeros(5000, np.int64))


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize(("mech", "value"), [(DiscreteLaplace(1, 1), 999), (Laplace(1, 1), 1.5)])
def test_a_release_that_fails_at_once_zeroes_out_too(mech, value, n, monkeypatch) -> None:
    """In place, small and large, with nothing drawn yet: no value is left as it was."""

    def broken(*_: Any) -> Any:
        raise MemoryError("no memory")

    values = np.full(n, value)
    tiers.around_c(monkeypatch, broken)
    with pytest.raises(MemoryError, match="no memory"):
        mech.release(values, out=values)
    assert not values.any()


# ------------------------------------------------------------------ a host's floating point

MODES = r"""
    #include <fenv.h>
    #if defined(__x86_64__)
    #include <immintrin.h>
    /* rounding 0 to 3: nearest, down, up, zero; flush: subnormals to zero, in and out */
    void set_mode(int rounding, int flush) {
        _mm_setcsr((_mm_getcsr() & ~0xe040u) | (unsigned)rounding << 13 | (flush ? 0x8040u : 0));
    }
    long get_mode(void) { return (long)(_mm_getcsr() & 0xe040u); }
    #elif defined(__aarch64__)
    void set_mode(int rounding, int flush) {
        static const unsigned long codes[4] = {0, 2, 1, 3};
        __asm__ volatile("msr fpcr, %0" ::"r"(codes[rounding] << 22 | (unsigned long)flush << 24));
    }
    long get_mode(void) { long mode; __asm__ volatile("mrs %0, fpcr" : "=r"(mode)); return mode; }
    #else
    void set_mode(int rounding, int flush) {
        static const int codes[4] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
        fesetround(codes[rounding]);
    }
    long get_mode(void) { return fegetround(); }
    #endif
"""


@pytest.fixture(scope="module")
def modes(tmp_path_factory) -> Path:
    return compiled(tmp_path_factory.mktemp("modes"), MODES)


def test_rounding_modes_and_flushing_change_nothing(modes) -> None:
    """In eight modes new mechanisms draw as to nearest, in every thread, and the mode is kept."""
    output = python(
        """
        import ctypes, sys
        import numpy as np
        import dpfast
        from dpfast.noise.mechanisms import equals
        tool = ctypes.CDLL(sys.argv[1])
        tool.get_mode.restype = ctypes.c_long
        key = lambda label: dpfast.Key.from_bytes(bytes(range(32))).derive(label)
        scales = [2.0**-60, 0.1, 1, 10, 100, 1000, 10**6, 10**9, 2**40 + 1, 10**13, 2**54, 2**54 + 1, 2**60]

        def work():
            made = []
            equals._checked.cache_clear()
            equals._first_of_equals.cache_clear()
            for i, scale in enumerate(scales):
                mech = dpfast.DiscreteLaplace(1, scale)
                for n in (1000, 20000) if i % 4 else (1000, 20000, 2**19 + 1):
                    counts = np.zeros(n, np.int64)
                    made.append(mech.release(counts, key=key(f"{scale} {n}"), resume=True, threads=2))
                made.append(mech.interval(cells=1000))
                made.append(mech.quantile(dpfast.DiscreteLaplace(3, 4).epsilon / 7))
            return made

        expected = work()
        for rounding in (1, 2, 3, 0):
            for flush in (0, 1):
                tool.set_mode(rounding, flush)
                mode = tool.get_mode()
                if rounding or flush:
                    assert mode != 0
                found = work()
                kept = tool.get_mode()
                tool.set_mode(0, 0)
                assert kept == mode
                assert all(map(np.array_equal, expected, found)), (rounding, flush)
                print(rounding, flush)
        """,
        modes,
    )
    assert len(output.split("\n")) == 9


def test_plans_are_made_to_nearest(modes) -> None:
    """Any host's rounding mode at the first release: every plan has the proofs' numbers."""
    output = python(
        """
        import ctypes, sys
        import numpy as np
        import dpfast
        from dpfast.noise.mechanisms import equals
        sys.path.append(sys.argv[2])
        import tiers
        tool = ctypes.CDLL(sys.argv[1])

        def numbers(plan):
            found = tiers.fields(plan)
            return {name: value for name, value in found.items() if name not in ("thresholds", "guide")}

        def mechanisms():
            for epsilon, sensitivity in ((11, 123457), (7, 10**12 + 39), (3, 100), (9, 10**9 + 7), (7, 10**18)):
                yield dpfast.DiscreteLaplace(epsilon, sensitivity)
                if sensitivity < 10**18:  # such noise might not fit a sample
                    yield dpfast.OneSidedGeometric(epsilon, sensitivity)
            for sigma in (3, 1000, 10**7 + 1):
                yield dpfast.DiscreteGaussian(sigma=sigma)
            yield dpfast.Laplace(3, 7)
            yield dpfast.Gaussian(sigma=0.3)
            yield dpfast.Gaussian(sigma=10**5, granularity=2.0**-40)

        def made(mode):
            equals._checked.cache_clear()
            equals._first_of_equals.cache_clear()
            for mechanism in mechanisms():
                real = mechanism.LAW in ("laplace", "gaussian")
                few, many = (np.zeros(n, float if real else int) for n in (5, 5000))
                call = mechanism.sample if mechanism.NAME == "one_sided_geometric" else mechanism.release
                tool.set_mode(mode, 0)
                try:
                    for values in (few, many):
                        call(values.size if call == mechanism.sample else values)
                finally:
                    tool.set_mode(0, 0)
                yield mechanism, numbers(mechanism._constant_work_plan), numbers(mechanism._bulk_plan)

        expected = list(made(0))
        differing = set()
        for mode in (1, 2, 3):
            for (mechanism, *right), (_, *found) in zip(expected, made(mode)):
                for a, b in zip(right, found):
                    differing |= {(mechanism.NAME, name) for name in a if a[name] != b[name]}
        print(len(expected), sorted(differing))
        """,
        modes,
        TESTS,
    )
    assert output == "15 []\n"


def test_no_release_asks_python_flint_or_the_reference() -> None:
    """With both refused, each law draws and makes plans: few and many, under a key, and alone."""
    output = python(
        """
        import sys
        REFUSED = "flint", "dpfast.evidence.selftest.reference", "dpfast.evidence.selftest"
        sys.modules |= dict.fromkeys(REFUSED)  # an import of one fails
        import numpy as np
        import dpfast
        key = dpfast.testing.fixed_key(32)
        laws = [dpfast.DiscreteLaplace(1, scale) for scale in (1, 10, 10**4, 10**9, 2**60)]
        laws += [dpfast.DiscreteGaussian(sigma) for sigma in ("0.001", 1, 10, 128, 129, 10**6)]
        laws += [dpfast.Laplace(1, 10), dpfast.Laplace(1, 10, granularity=2.0**20), dpfast.Snapping(1, 10, bound=1024.0)]
        laws += [dpfast.Gaussian(3), dpfast.Gaussian(3, granularity=2.0**-50)]
        for at, law in enumerate(laws):
            for n in (5, 5000):
                values = np.zeros(n, int if law.INTEGERS else float)
                law.release(values)
                law.release(values, key=key.derive(f"{at} {n}"))
        dpfast.OneSidedGeometric(1, 10).sample(9000)
        for asks in (lambda: laws[0].interval(0.95), lambda: __import__(REFUSED[1])):
            try:
                asks()
            except ImportError:
                print("it is not there")
        """
    )
    assert output == "it is not there\n" * 2


def test_no_release_asks_c_for_draws_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes from the C by name: functions that decide a draw or fail, and no noise alone.

    A small release calls one more, which has its own address, and either answers or does nothing.
    """
    tiers.forget_equals()
    tiers.no_small_calls(monkeypatch)
    names, key = tiers.names_in_c(monkeypatch), Key.generate()
    for law in laws.LAWS:
        for scale in law.scales[1::4]:
            mechanism = law.make(scale)
            for n in (5, 5000):
                if isinstance(mechanism, OneSidedGeometric):
                    mechanism.sample(n)
                    continue
                values = np.zeros(n, float if law.real else int)
                mechanism.release(values)
                mechanism.release(values, key=key.derive(f"names {law} {scale} {n}"))
    functions = {name for name in names if name.startswith("dpf_")}
    assert functions - {"dpf_all_finite", "dpf_enter", "dpf_leave"} == {"dpf_make_plan", "dpf_make_table", "dpf_add"}
    assert not names & tiers.MAY_BE_OPEN
    for may_be_open in tiers.open_draws(mechanism):  # which the self-test and tests take
        may_be_open()
        assert names & tiers.MAY_BE_OPEN
        names.clear()
