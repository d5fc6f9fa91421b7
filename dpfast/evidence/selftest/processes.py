# SPDX-License-Identifier: Apache-2.0
"""No noise twice in a forked child, a thread or a call; no noise at all without a system key."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import numpy as np

from dpfast import DiscreteLaplace, Gaussian, Key, Laplace, _native
from dpfast.errors import EntropyError
from dpfast.evidence.selftest.check import Outcome, Run
from dpfast.evidence.selftest.subjects import subjects

WIDE = 10**6  # a scale at which 64 draws are never twice the same: below 2^-1000
HANGS = 120  # seconds


def in_child(make: Callable[[], bytes]) -> bytes:
    """What a forked child makes; a new process where the system has no forks."""
    if not hasattr(os, "fork"):
        code = f"import sys, {make.__module__} as it; sys.stdout.buffer.write(it.{make.__name__}())"
        return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, timeout=HANGS).stdout  # noqa: S603
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # another package may fork beside threads
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANGS)
        try:
            os.close(read)
            with os.fdopen(write, "wb") as out:
                out.write(make())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        made = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("a forked child failed or hung")
    return made


def noises() -> list[bytes]:
    """A small release, one in threads, one by a table, one of a real law, keys: 512 bytes each."""
    mechanism = DiscreteLaplace(1, WIDE)
    made = [
        mechanism.release(np.zeros(64, np.int64)), mechanism.release(np.zeros(2**19, np.int64), threads=2)[:64],
        DiscreteLaplace(1, 100).release(np.zeros(5000, np.int64))[:64], Laplace(1, 1).release(np.zeros(64)),
        Gaussian(1).release(np.zeros(5000))[:64], mechanism.sample(64),
    ]  # fmt: skip
    return [*(noise.tobytes() for noise in made), _native.entropy(512)]


def joined() -> bytes:
    return b"".join(noises())


def family() -> bytes:
    """The noises of a child, and of its own child."""
    return joined() + in_child(joined)


def pieces(made: bytes) -> list[bytes]:
    return [made[i : i + 512] for i in range(0, len(made), 512)]


def fork(run: Run) -> Outcome:
    children = run.scaled(6, 2)
    found = noises()
    for at in range(children):
        run.step(at / children)
        made = pieces(in_child(joined))
        found += run.under_test("noise of parent and child", (found[: len(made)], made))[1]
    grandchild = in_child(family)
    found += [*pieces(grandchild), *noises()]
    run.expect(len(set(found)) == len(found), "a process repeats the noise of another")
    processes = children + 3
    return run.outcome(f"{len(found)} noises of {processes} processes: a parent, {children + 1} children, a grandchild")


def fresh(run: Run) -> Outcome:
    """Calls of every kind in four threads at once."""
    calls, found = run.scaled(25, 5), list[bytes]()

    def work() -> None:
        for _ in range(calls):
            found.extend(noises())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    distinct = set(run.under_test("noises", found))
    run.expect(len(found) == 4 * calls * len(noises()), "a thread failed")
    run.expect(len(distinct) == len(found), "two releases have the same noise")
    return run.outcome(f"{len(found):,} noises and keys of 4 threads, all different")


MARK = 777  # in an output before a release that must not touch it


def no_entropy() -> bytes:
    """Outputs that were marked, after releases that must fail, in a forked child without keys."""

    class NoKey(_native.StreamKey):
        __slots__ = ()

        def draw(self) -> None:
            raise EntropyError("none, on purpose")

    def no_token(_: int | None = None) -> bytes:
        raise OSError("none, on purpose")

    _native.StreamKey = NoKey  # type: ignore[misc]
    _native.small = lambda *_: None
    secrets.token_bytes = no_token  # type: ignore[assignment]
    made = list[bytes]()
    try:
        Key.generate()
    except EntropyError:
        made.append(b"refused")
    for subject in subjects():
        if not subject.releases:
            continue
        for n in (64, 5000):
            out = np.full(n, MARK, np.int64 if subject.offset is None else np.float64)
            try:
                subject.mechanism.release(np.zeros_like(out), out=out)
            except EntropyError:
                made.append(b"refused " + out.astype(np.int64).tobytes())
            else:
                made.append(b"released")
    return b"|".join(made)


def entropy(run: Run) -> Outcome:
    n = run.scaled(20_000, 1000)
    keys = run.under_test("keys", [_native.entropy(32) for _ in range(n)])
    blocks = {_native.StreamKey(_native.entropy(32)).block(0, 0) for _ in range(100)} | {
        bytes(Key.generate()) for _ in range(100)
    }
    run.expect(len(set(keys)) == n, "the system gave a key twice")
    run.expect(len(blocks) == 200, "two stream keys are the same")
    found = in_child(no_entropy).split(b"|")
    marked = [b"refused " + np.full(n, MARK).tobytes() for n in (64, 5000)]
    right = [b"refused", *marked * sum(subject.releases for subject in subjects())]
    run.expect(run.under_test("outputs without a key", found) == right, "without a key, a release touched its output")
    return run.outcome(f"{n:,} keys of the system, all different; {len(right) - 1} releases without one: none made")
