# SPDX-License-Identifier: Apache-2.0
"""Processes and threads: no child repeats noise or hangs, and threads of any number do not meet."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fresh import FORKED, python, workers

from dpfast import DiscreteLaplace, Key

HEAVY = ["numba", "llvmlite", "scipy", "flint", "pyarrow", "pandas", "matplotlib", "click", "tqdm", "rich", "mpmath", "numpy.ma"]  # fmt: skip

FORKS = (
    FORKED
    + """
    mech = dpfast.DiscreteLaplace(1, 10**6)
    big = np.zeros(2**19, np.int64)  # two threads' shares
    key, secret = dpfast.Key.generate().derive("forks"), os.urandom(32)

    def noise(n=64):  # 64 draws at this scale are never twice the same
        return mech.release(np.zeros(n, np.int64)).tobytes().hex()

    def everything():
        made = [noise(), mech.release(big, threads=2)[:64].tobytes().hex(), mech.sample(64).tobytes().hex()]
        made.append(dpfast.DiscreteLaplace(1, 10**5).sample(5000)[:64].tobytes().hex())  # another plan
        own = dpfast.Key.from_bytes(secret).derive("big")
        again = mech.release(big, key=own, threads=2, resume=True)  # the digests' threads, too
        assert (again == mech.release(big, key=own, resume=True)).all()
        return " ".join(made)
"""
)


def test_forks_before_and_after_a_release_never_repeat_noise() -> None:
    """Children forked before a release, after small, threaded, keyed ones, by children: new."""
    output = python(
        FORKS
        + """
    found = [forked(everything) for _ in range(2)]         # before this process released anything
    found.append(noise())
    found += [forked(everything) for _ in range(2)]        # after a small release
    found.append(everything())
    found += [forked(everything) for _ in range(2)]        # after one in threads
    found.append(forked(lambda: everything() + " " + forked(everything)))
    found.append(noise())
    noises = " ".join(found).split()
    print(len(noises), len(set(noises)))
    """
    )
    assert output.split() == ["38", "38"]


@pytest.mark.slow
def test_forks_in_the_middle_of_other_threads_releases() -> None:
    """While threads release, keyed and in helpers, each forked child works and is new."""
    output = python(
        FORKS
        + """
    stop = threading.Event()
    count = [0]

    def busy(make):
        while not stop.is_set():
            make()
            count[0] += 1

    fresh = lambda: dpfast.DiscreteLaplace(1, 100 + count[0] % 1000).release(np.zeros(5000, np.int64))  # builds a table
    target = np.zeros(2**20, np.int64)
    ways = [everything, lambda: mech.release(target, out=target, threads=2), noise, fresh]
    threads = [threading.Thread(target=busy, args=(way,)) for way in ways]
    everything()
    for thread in threads:
        thread.start()
    found = [forked(everything) for _ in range(12)]
    stop.set()
    for thread in threads:
        thread.join()
    noises = " ".join(found).split()
    print(len(noises), len(set(noises)))
    """
    )
    assert output.split() == ["48", "48"]


def test_a_fork_while_another_thread_takes_a_label() -> None:
    """The lock of the record is never left held in the child."""
    output = python(
        FORKS
        + """
    import time
    from dpfast.noise.release import seal

    class Slow(dict):
        def setdefault(self, name, own):
            inside.set()
            time.sleep(0.3)
            return dict.setdefault(self, name, own)

    inside, key = threading.Event(), dpfast.Key.generate().derive("taken")
    seal._reserved = Slow()
    busy = threading.Thread(target=lambda: mech.release(big, key=key))
    busy.start()
    assert inside.wait(60)
    print(len(forked(everything).split()))
    busy.join()
    """
    )
    assert output.split() == ["4"]


def test_a_forked_child_has_no_key(tmp_path) -> None:
    """Blank, whatever another thread does: also while it hashes under the key."""
    output = python(
        FORKS
        + """
    import contextlib, time
    master = dpfast.Key.generate()
    held = [master, key, dpfast.KeyFile.create(f"{sys.argv[1]}/visits.key"), master.derive("more"), master.derive("more")]
    digester = key.digester(mech)
    digest = digester(0, [1, 2, 3])
    seal = key.seal(mech, [digest], shape=(3,))
    sealed = seal.without_ledger()
    stop = threading.Event()

    def busy():
        data = bytes(2**22)
        while not stop.is_set():
            for each in held:
                each._keyed("root", data)  # the GIL is free meanwhile

    def child():
        tries = [lambda: bytes(master), lambda: master.derive("x"), lambda: mech.release([1], key=key, resume=True), lambda: key.digester(mech),
                 lambda: seal.without_ledger(resume=True), lambda: held[2].derive("x"), lambda: held[3].chooser()]
        refused = 0
        for attempt in tries:
            try:
                attempt()
            except dpfast.errors.ParameterError as error:
                refused += "no key survives a fork" in str(error)
        assert master != dpfast.Key.from_bytes(bytes(range(32))) and key == key
        assert digester(0, [1, 2, 3]) == digest  # what can do one thing goes on
        assert not any(bytes(each._held) for each in held)
        return f"{refused} {sealed.release(0, [1, 2, 3]).tolist() == expected} "

    expected = sealed.release(0, [1, 2, 3]).tolist()
    threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]  # else a failure would hang
    for thread in threads:
        thread.start()
    for seconds in [0, 0.002, 0.01] * 10:
        time.sleep(seconds)
        print(forked(child))
    stop.set()
    for thread in threads:
        thread.join()
    assert len(bytes(master)) == 32  # the parent has its keys
    """,
        tmp_path,
    )
    assert output.split() == ["7", "True"] * 30


def test_forks_in_the_middle_of_a_first_release() -> None:
    """While another thread builds a table, imports and compiles, a forked child does not hang.

    Each first release is in a process of its own, forked from one that has released nothing.
    """
    output = python(
        FORKS
        + """
    import time

    def forks_after(delay):
        first = threading.Thread(target=lambda: dpfast.DiscreteLaplace(1, 10).release(np.zeros(5000, np.int64)))
        first.start()
        time.sleep(delay)
        found = [forked(everything)]
        first.join()
        return " ".join(str(len(set(each.split()))) for each in (*found, everything()))

    for delay in (0, 0.005, 0.02, 0.06, 0.12, 0.25):
        print(forked(lambda: forks_after(delay)))
    """
    )
    assert output.split() == ["4", "4"] * 6


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "forkserver", "fork"])
def test_multiprocessing(tmp_path, method) -> None:
    """Mechanisms, digesters, sealed keys reach workers: fresh noise differs, a block has one."""
    found = workers(
        tmp_path,
        """
import multiprocessing, sys
import numpy as np
import dpfast

def work(task):
    mech, digester, sealed = task
    fresh = mech.release(np.zeros(64, np.int64)).tobytes()
    block = np.zeros(5000, np.int64)
    return fresh, digester(1, block), sealed.release(1, block).tobytes()

if __name__ == "__main__":
    mech, key = dpfast.DiscreteLaplace(1, 10**6), dpfast.Key.generate().derive("workers")
    mech.release(np.zeros(5000, np.int64))
    digester, cells = key.digester(mech), [np.zeros(65_536, np.int64), np.zeros(5000, np.int64)]
    sealed = key.seal(mech, map(digester, range(2), cells), shape=(70_536,)).without_ledger()
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        found = pool.map(work, [(mech, digester, sealed.only(1))] * 9, chunksize=1)
    found.append(work((mech, digester, sealed)))
    print(*(len({*each}) for each in zip(*found)))
""",
        method,
    )
    assert found == ["10", "1", "1"]


def test_eight_threads_at_once() -> None:
    """Eight threads over sizes, scales, kernels: no crash, no repeated noise, equal keyed parts."""
    mechs = [DiscreteLaplace(1, scale) for scale in (10**6, 50, 2**60, 10**12)]
    key = Key.generate().derive("threads")
    part = np.arange(7000)
    start = threading.Barrier(8)

    def work(number: int) -> tuple[list[bytes], list[bytes]]:
        start.wait(300)
        fresh, keyed = [], []
        for i in range(12):
            mech = mechs[(number + i) % 4]
            n = (200, 5000, 2**19 + 5, 6001)[i % 4]
            out = np.zeros(n, np.int64)
            fresh.append(mech.release(out[::-1] if i % 3 == 2 else out, threads=1 + i % 3)[:200].tobytes())
            keyed.append(mechs[0].release(part, key=key, resume=True).tobytes())
        return fresh, keyed

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    fresh = [noise for made, _ in found for noise in made]
    assert len(set(fresh)) == len(fresh) == 96
    assert len({noise for _, made in found for noise in made}) == 1


def test_eight_threads_in_a_first_release() -> None:
    """In a new process eight threads import, compile and build tables at once."""
    output = python(
        """
        import threading
        import numpy as np
        import dpfast
        mech = dpfast.DiscreteLaplace(1, 10)
        found = []
        start = threading.Barrier(8)
        def work(number):
            start.wait(300)
            own = mech if number % 2 else dpfast.DiscreteLaplace(1, 10**number)
            found.append(own.release(np.zeros(5000, np.int64)).tobytes())
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(found)))
        """
    )
    assert output.split() == ["8", "8"]


@pytest.mark.parametrize("threads", [3, 64, 1000, 10**9, 10**30])
def test_threads_far_beyond_the_cores(threads) -> None:
    """Any number of threads means "at most", for small and large calls, keyed or not."""
    mech = DiscreteLaplace(1, 100)
    before = {*threading.enumerate()}
    for n in (3, 5000, 2**21):
        counts = np.arange(n)
        key = Key.generate().derive("many")
        expected = mech.release(counts, key=key, threads=1)
        assert np.array_equal(mech.release(counts, key=key, resume=True, threads=threads), expected)
        assert mech.release(counts, threads=threads).shape == (n,)
        assert mech.sample(n, threads=threads).shape == (n,)
    assert before.issuperset(threading.enumerate())


def test_no_thread_stays_behind() -> None:
    """A release's threads end with it: there is no pool to leak or to fork."""
    before = {*threading.enumerate()}
    DiscreteLaplace(1, 100).release(np.zeros(2**21, np.int64), threads=8)
    assert before.issuperset(threading.enumerate())


def test_import_is_light() -> None:
    """`import dpfast`, keys and mechanisms load nothing heavy; a small release only its needs."""
    output = python(
        """
        import sys
        import numpy  # whose older versions bring numpy.ma
        heavy = [name for name in sys.argv[1:] if name not in sys.modules]
        import dpfast
        mech = dpfast.DiscreteLaplace(1, 1)
        key = dpfast.Key.generate().derive("x")
        print(*[name for name in heavy if name in sys.modules], "|")
        mech.release([1, 2, 3])
        print(*[name for name in ("pyarrow", "pandas", "matplotlib", "click", "tqdm", "rich") if name in sys.modules])
        """,
        *HEAVY,
    )
    assert output.split() == ["|"]
