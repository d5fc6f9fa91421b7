# SPDX-License-Identifier: Apache-2.0
"""dpfast.ChaCha20: its stream word for word, NumPy and numba on it, forks, threads, refusals."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from chacha import chacha
from fresh import FORKED, HOME, python, workers
from tiers import ISAS

import dpfast
from dpfast import ChaCha20
from dpfast.errors import ParameterError, StateError

KEY = bytes(range(32))
WORDS = 252  # that a refill hands out


def test_the_reference_is_rfc_8439() -> None:
    """2.3.2, so that what it judges is judged."""
    found = chacha(KEY, 1 | 0x09000000 << 32, 0x4A000000)
    assert found[:4] == [0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3]
    assert found[15] == 0x4E3C50A2


def expected(refills: int) -> list[int]:
    """64-bit words in the order of csrc/bit_generator.md."""
    key, words = KEY, []
    for _ in range(refills):
        blocks = [chacha(key, counter, 3 << 56) for counter in range(32)]
        lanes = [blocks[16 * g + lane][w] for g in range(2) for w in range(16) for lane in range(16)]
        pairs = [low | high << 32 for low, high in zip(lanes[::2], lanes[1::2], strict=True)]
        key = b"".join(word.to_bytes(8, "little") for word in pairs[:4])
        words += pairs[:3:-1]
    return words


REFERENCE = expected(4)


def planted(isa: int = 0) -> ChaCha20:
    made = ChaCha20()
    made._bits.plant(KEY, isa)
    return made


@pytest.mark.parametrize("isa", ISAS)
def test_the_stream_is_the_documented_one(isa) -> None:
    """Word for word over four refills, on every instruction set, however calls are cut."""
    assert planted(isa).random_raw(4 * WORDS).tolist() == REFERENCE
    cut, found = planted(isa), []
    for n in (1, 250, 1, 1, 251, 252, 2, 250):
        found += cut.random_raw(n).tolist()
    assert found == REFERENCE
    g = np.random.Generator(planted(isa))
    assert g.integers(0, 2**64, dtype=np.uint64, size=4 * WORDS).tolist() == REFERENCE
    assert np.random.Generator(planted(isa)).random(4 * WORDS).tolist() == [(w >> 11) * 2.0**-53 for w in REFERENCE]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("before", [0, 1, WORDS - 1, WORDS, WORDS + 1, 2 * WORDS - 1])
def test_32_and_64_bit_draws_interleave(isa, before) -> None:
    """A word's lower half, whole words, the first one's upper half, at every place in a buffer."""
    made = planted(isa)
    made.random_raw(before)
    calls = made.cffi
    pattern = ["s", "w", "s", "s", "w", "w", "s", "w", "s", "s", "s", "w"]
    kept: list[int] = []
    rest = iter(REFERENCE[before:])
    for kind in pattern * 5:
        if kind == "w":
            assert calls.next_uint64(calls.state) == next(rest)
        elif kept:
            assert calls.next_uint32(calls.state) == kept.pop()
        else:
            word = next(rest)
            kept.append(word >> 32)
            assert calls.next_uint32(calls.state) == word % 2**32


def test_the_state_shows_no_earlier_number() -> None:
    """Words are wiped as they are handed out, and the key is not the one that made them."""
    made = planted()
    for n in (1, 100, WORDS - 101, 1, 77):
        before = made._bits.bytes()
        drawn = made.random_raw(n)
        state = made._bits.bytes()
        assert all(int(word).to_bytes(8, "little") not in state for word in drawn)
        assert KEY not in state
        assert state != before
    # The key that lies there is the one from which the next refill comes, and only that.
    assert int.from_bytes(state[:8], "little") not in REFERENCE


def test_fresh_generators_share_nothing() -> None:
    """Also spawned ones, of generators too, and the state begins with a key of the system's."""
    root = ChaCha20()
    made = [root, ChaCha20(), *root.spawn(3), *(g.bit_generator for g in np.random.Generator(root).spawn(3))]
    assert all(type(bits) is ChaCha20 for bits in made)
    found = [tuple(bits.random_raw(2).tolist()) for bits in made]
    assert len(set(found)) == len(made) == 8
    assert root.spawn(0) == []


def test_numpy_on_top() -> None:
    """Generator, RandomState, default_rng; two Generators share one state; it is NumPy's type."""
    made = planted()
    one, two = np.random.Generator(made), np.random.default_rng(made)
    both = [int(g.integers(0, 2**64, dtype=np.uint64)) for g in (one, two, one, two)]
    assert both == REFERENCE[:4]
    assert isinstance(made, np.random.BitGenerator)
    assert one.bit_generator is two.bit_generator is made
    assert sorted(one.permutation(100).tolist()) == list(range(100))
    assert len(set(one.choice(1000, 500, replace=False).tolist())) == 500
    assert 0 <= np.random.RandomState(made).random_sample() < 1
    assert abs(one.standard_normal(40_000).mean()) < 5 / 200 * 1.1  # 5.5 standard errors: fails by chance once in 2.6e7


def test_every_order_and_every_subset_is_as_likely() -> None:
    """chi-squared of 24 orders and of 10 pairs, 24,000 draws each: false alarm 7e-10."""
    g = np.random.Generator(ChaCha20())
    orders: dict[tuple[int, ...], int] = {}
    pairs: dict[tuple[int, ...], int] = {}
    for _ in range(24_000):
        order, pair = tuple(g.permutation(4).tolist()), tuple(sorted(g.choice(5, 2, replace=False).tolist()))
        orders[order] = orders.get(order, 0) + 1
        pairs[pair] = pairs.get(pair, 0) + 1
    for counts, cells, limit in ((orders, 24, 94), (pairs, 10, 62)):  # beyond the 1 - 1e-9 quantiles
        assert len(counts) == cells
        mean = 24_000 / cells
        assert sum((n - mean) ** 2 / mean for n in counts.values()) < limit


def test_the_generator_keeps_it_alive() -> None:
    """A Generator outlives its maker's name for the bit generator; ten thousand come and go."""
    g = np.random.Generator(planted())
    many = [np.random.Generator(ChaCha20()) for _ in range(10_000)]
    assert len({int(other.integers(2**63)) for other in many}) == 10_000
    del many
    gc.collect()
    assert g.integers(0, 2**64, dtype=np.uint64, size=300).tolist() == REFERENCE[:300]
    pages = g.bit_generator._bits
    g.bit_generator.__init__()  # a second time: what Generators point to stays
    assert g.bit_generator._bits is pages
    assert int(g.integers(0, 2**64, dtype=np.uint64)) == REFERENCE[300]


def test_numba_draws_from_it() -> None:
    """A compiled function reads the same stream from the Generator's ctypes interface."""
    import numba

    @numba.njit
    def draw(g, n) -> np.ndarray:
        out = np.empty(n)
        for i in range(n):
            out[i] = g.random()
        return out

    found = draw(np.random.Generator(planted()), 600)
    assert found.tolist() == [(w >> 11) * 2.0**-53 for w in REFERENCE[:600]]


def test_what_is_refused() -> None:
    """Seeds and everything that shows, sets or doubles a state."""
    made = ChaCha20()
    for seed in (0, 1234, [1, 2], np.random.SeedSequence(1), b"x"):
        with pytest.raises(ParameterError, match="takes no seed"):
            ChaCha20(seed)
    with pytest.raises(StateError, match="no seed sequence"):
        _ = made.seed_seq
    for act in (
        lambda: made.state,
        lambda: setattr(made, "state", {}),
        lambda: pickle.dumps(made),
        lambda: pickle.dumps(np.random.Generator(made)),
        lambda: copy.copy(made),
        lambda: copy.deepcopy(made),
        lambda: copy.deepcopy(np.random.Generator(made)),
        made.__getstate__,
    ):
        with pytest.raises(StateError, match="never shown, set or copied"):
            act()
    with pytest.raises(StateError, match="spawn"):
        made.jumped()
    for n in (-1, True, 1.5):
        with pytest.raises((ParameterError, dpfast.errors.DTypeError)):
            made.spawn(n)
    assert repr(made) == "<dpfast.ChaCha20>"
    assert np.random.Generator(made).random() < 1


def test_eight_threads() -> None:
    """On one generator and on spawned ones: under NumPy's lock no number comes twice."""
    shared = np.random.Generator(ChaCha20())
    own = shared.spawn(8)
    start = threading.Barrier(8)

    def work(i: int) -> list[int]:
        start.wait(300)
        found = []
        for _ in range(20):
            for g in (shared, own[i]):
                found += g.integers(0, 2**64, dtype=np.uint64, size=777).tolist()
        return found

    with ThreadPoolExecutor(8) as pool:
        found = [word for words in pool.map(work, range(8)) for word in words]
    assert len(set(found)) == len(found) == 8 * 20 * 2 * 777


FORKS = (
    FORKED
    + """
    import ctypes
    from dpfast.noise.random import bit_generator

    libc = ctypes.PyDLL(None)
    made = dpfast.ChaCha20()
    g = np.random.Generator(made)
    address = made.ctypes.state_address
    g.integers(0, 2**32, dtype=np.uint32)  # half a word waits, and a full buffer

    def numbers(n=3):
        return " ".join([hex(g.integers(0, 2**32, dtype=np.uint32)), *map(hex, g.integers(0, 2**64, dtype=np.uint64, size=n))])

    def family(fork):  # two children, a grandchild and this process: 16 numbers
        return [forked(numbers, fork), forked(lambda: numbers() + " " + forked(numbers, fork), fork), numbers()]

    def keep():  # no more wiping by the system
        assert libc.madvise(ctypes.c_void_p(address), 4096, 19) == 0

    def unhook():  # no more wiping by Python
        bit_generator._living.clear()
"""
)


@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("hook", [True, False])
def test_a_child_never_repeats_its_parent(system, hook) -> None:
    """By the kernel alone (Python may miss a fork), by Python's hook alone; else it fails."""
    if system and sys.platform != "linux":
        pytest.skip("MADV_WIPEONFORK is Linux")
    found = python(
        FORKS
        + """
    system, hook = (word == "True" for word in sys.argv[1:])
    if not system: keep()
    if not hook: unhook()
    made = family(os.fork) + (family(libc.fork) if system else [])
    made = " ".join(made).split()
    print(len(made), len(set(made)))
    """,
        system,
        hook,
    )
    total, different = map(int, found.split())
    assert total == (32 if system else 16)
    assert different == total if system or hook else different < total


def test_a_fork_while_other_threads_draw() -> None:
    """The child's lock is free and its state blank, whatever the parent's threads did."""
    found = python(
        FORKS
        + """
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            g.random(2_000_000)
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads: thread.start()
    made = [forked(numbers) for _ in range(10)]
    keep()
    made += [forked(numbers) for _ in range(10)]
    with made_lock if (made_lock := g.bit_generator.lock) else None:
        made.append(forked(numbers))  # held by this very thread
    stop.set()
    for thread in threads: thread.join()
    made = " ".join(made).split()
    print(len(made), len(set(made)))
    """
    )
    assert found.split() == ["84", "84"]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_multiprocessing(tmp_path, method) -> None:
    """Workers that inherit or make one draw numbers of their own; one sent to them is refused."""
    found = workers(
        tmp_path,
        """
import multiprocessing, sys
import numpy as np
import dpfast

g = np.random.Generator(dpfast.ChaCha20())
g.random()

def work(_):
    return g.integers(0, 2**64, dtype=np.uint64, size=4).tolist()

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        found = [n for part in pool.map(work, range(9), chunksize=1) for n in part] + work(0)
        try:
            pool.map(print, [g])
        except dpfast.errors.StateError as refused:
            print(len(found), len(set(found)), "make a ChaCha20() there" in str(refused))
""",
        method,
    )
    assert found == ["40", "40", "True"]


def test_no_key_in_the_child_ends_it(tmp_path) -> None:
    """A first draw after a fork, getrandom failing: SIGABRT with a message; a new one raises."""
    if sys.platform != "linux":
        pytest.skip("getrandom is Linux")
    source, library = tmp_path / "none.c", tmp_path / "none.so"
    source.write_text(
        "#include <stdlib.h>\n#include <sys/types.h>\n#include <errno.h>\n"
        "ssize_t getrandom(void *at, size_t n, unsigned flags) { (void)at; (void)flags;"
        ' if (getenv("NONE")) { errno = EIO; return -1; } for (size_t i = 0; i < n; i++) ((char *)at)[i] = (char)rand();'
        " return (ssize_t)n; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    script = """
    import ctypes, os, signal
    import numpy as np
    import dpfast
    g = np.random.Generator(dpfast.ChaCha20())
    g.random()
    ctypes.CDLL(None).setenv(b"NONE", b"1", 1)
    g.random(); print("parent draws on")
    try:
        dpfast.ChaCha20()
    except dpfast.errors.EntropyError:
        print("refused")
    child = os.fork()
    if child == 0:
        print(g.random(), flush=True)
        os._exit(0)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGABRT)
    """
    found = python(script, home=HOME, LD_PRELOAD=str(library))
    assert found.splitlines() == ["parent draws on", "refused", "True"]


def test_nothing_is_left_at_exit() -> None:
    """Interpreter exit with generators alive, in cycles, and drawn from by a daemon thread."""
    found = python(
        """
    import threading
    import numpy as np
    import dpfast
    g = np.random.Generator(dpfast.ChaCha20())
    g_holder = [g]; g_holder.append(g_holder)
    def forever():
        while True: g.random(1000)
    threading.Thread(target=forever, daemon=True).start()
    print(g.random() < 1)
    """
    )
    assert found == "True\n"
    assert ctypes.sizeof(ctypes.c_void_p) == 8
