# SPDX-License-Identifier: Apache-2.0
"""Any number of tries, at once, failed at any step or killed: one charge, one noise."""

from __future__ import annotations

import itertools
import pickle
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tiers
from fresh import forked, python
from hypothesis import given, settings
from hypothesis import strategies as st
from seals import MECH, fresh, known, sealed_of

from dpfast import DiscreteLaplace, Key, Ledger
from dpfast.errors import KeyReuseError, OtherInputError
from dpfast.ledger import ledger as paying
from dpfast.ledger import store
from dpfast.noise.release import blocks
from dpfast.noise.release import seal as sealing


@st.composite
def worlds(draw: st.DrawFn) -> tuple[np.ndarray, list[Any]]:
    """A few values in blocks of two, and what is tried with them."""
    values = np.array(draw(st.lists(st.integers(-2, 2), max_size=7)), np.int64)
    blocks_ = st.integers(0, max(0, -(-values.size // 2) - 1))
    attempt = st.one_of(
        st.tuples(st.just("call"), st.integers(1, 2), st.sampled_from(["i1", "i4", ">i8"])),
        st.tuples(st.just("blocks"), st.lists(blocks_, max_size=5), st.booleans()),
        st.tuples(st.just("another"), st.integers(0, 6), st.booleans()),
        st.tuples(st.just("forgotten")),
    )
    return values, draw(st.lists(attempt, max_size=6))


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_all_tries_show_one_execution(world: tuple[np.ndarray, list[Any]]) -> None:
    """Calls, blocks in any order, again, refused tries between them: each cell has one noise."""
    values, attempts = world
    key = fresh()
    with tiers.small_blocks(2):
        seen: dict[int, int] = dict(enumerate(MECH.release(values, key=key).tolist()))
        for kind, *how in attempts:
            if kind == "call":
                noisy = MECH.release(values.astype(how[1]), key=key, threads=how[0], resume=True)
                assert dict(enumerate(noisy.tolist())) == seen
            elif kind == "blocks":
                sealed = sealed_of(key, values)
                for j in how[0] if values.size else []:
                    one = pickle.loads(pickle.dumps(sealed.only(j))) if how[1] else sealed
                    noisy = one.release(j, values[2 * j : 2 * j + 2])
                    assert noisy.tolist() == [seen[i] for i in range(2 * j, min(2 * j + 2, values.size))]
            elif kind == "another" and values.size:
                other, out = values.copy(), np.full(values.size, 77)
                other[how[0] % values.size] += 1
                with pytest.raises(OtherInputError):
                    MECH.release(other, key=key, out=out, resume=True)
                if how[1]:
                    j = how[0] % values.size // 2
                    with pytest.raises(OtherInputError):
                        sealed_of(key, values).release(j, other[2 * j : 2 * j + 2])
                assert (out == 77).all()
            elif kind == "forgotten":
                with pytest.raises(KeyReuseError):
                    MECH.release(values, key=key)


class Stopped(Exception):  # noqa: N818  it is what happened
    """What a planted step raises."""


STEPS: list[tuple[Any, str]] = [
    (blocks.Blocks, "copy"), (blocks.Blocks, "digests"), (blocks.Blocks, "_look"), (sealing.Seal, "__init__"), (sealing, "note_here"), (paying, "reserve_here"),
    (store.Store, "look"), (store.Store, "reserve"), (sealing.Seal, "_open"), (sealing, "_opened"), (blocks.Blocks, "draw"),
    (sealing.Streams, "stream_key"), (tiers.StreamKey, "take"), (blocks.Blocks, "_noise"),
]  # fmt: skip


def stop_at(patch: pytest.MonkeyPatch, step: int, nth: int, *, done: bool) -> None:
    """The n-th call of a step fails: before it does its work, or after."""
    owner, name = STEPS[step]
    real, calls = getattr(owner, name), itertools.count(1)

    def failing(*job: Any, **options: Any) -> Any:
        stop = next(calls) == nth
        if stop and not done:
            raise Stopped
        found = real(*job, **options)
        if stop:
            raise Stopped
        return found

    patch.setattr(owner, name, failing)


TRIES = st.lists(
    st.tuples(
        st.integers(0, len(STEPS) - 1),
        st.integers(1, 3),
        st.booleans(),
        st.integers(1, 2),
        st.sampled_from(["call", "blocks"]),
    ),
    max_size=8,
)


@given(st.lists(st.integers(-2, 2), max_size=7), TRIES, st.booleans())
@settings(max_examples=80, deadline=None)
@pytest.mark.slow
def test_failures_at_any_step_show_one_execution(numbers: list[int], tries: list[Any], paid: bool) -> None:
    """Each try ends whole, or with zeros or nothing; what is seen is one noise, charged once."""
    values, key, seen = np.array(numbers, np.int64), fresh(), {}
    with tiers.small_blocks(2), tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "b.db"), 9, create=True) if paid else None

        def call(threads: int) -> None:
            out = np.full(values.size, 77)
            try:
                release = MECH.release if ledger is None else partial(ledger.release, MECH)
                release(values, key=key, out=out, threads=threads, resume=True)
            finally:  # zeros, nothing, or if all was done the whole
                if out.any() and not (out == 77).all():
                    see(0, out)

        def by_blocks_again(_: int) -> None:
            digester = key.digester(MECH)
            made = [digester(j, block) for j, block in enumerate(values[i : i + 2] for i in range(0, values.size, 2))]
            seal = key.seal(MECH, made[::-1], shape=values.shape)
            sealed = seal.without_ledger(resume=True) if ledger is None else ledger.reserve(seal, resume=True)
            for j in reversed(range(len(made))):
                see(2 * j, pickle.loads(pickle.dumps(sealed.only(j))).release(j, values[2 * j : 2 * j + 2]))

        def see(begin: int, noisy: np.ndarray) -> None:
            for i, each in enumerate(noisy.tolist()):
                assert seen.setdefault(begin + i, each) == each

        for step, nth, done, threads, how in tries:
            with pytest.MonkeyPatch.context() as patch, suppress(Stopped):
                stop_at(patch, step, nth, done=done)
                (call if how == "call" else by_blocks_again)(threads)
        assert ledger is None or ledger.spent.epsilon >= bool(seen)
        call(1)
        by_blocks_again(1)
        assert ledger is None or ledger.verify() == ledger.spent.epsilon == 1
    assert len(seen) == values.size


def test_stream_keys_of_small_worlds_never_meet() -> None:
    """Inputs of up to four cells of three values: shapes, labels, laws, names; blocks of two."""
    seen: dict[bytes, Any] = {}
    master, laws = Key.generate(), (MECH, DiscreteLaplace(2, 2 * 10**6))
    with tiers.small_blocks(2):
        for n in range(5):
            for x in itertools.product(range(3), repeat=n):
                options = [(label, law, None, (n,)) for label in ("a", "b") for law in laws]
                options += [("a", MECH, [0] * n, (n,)), ("a", MECH, ["0"] * n, (n,)), ("a", MECH, None, (n, 1))]
                for label, law, named, shape in options:
                    key = master.derive(label)
                    digester = key.digester(law)
                    tiers.forget_labels()
                    made = [
                        digester(j, x[2 * j : 2 * j + 2], names=named and named[2 * j : 2 * j + 2])
                        for j in range(-(-n // 2))
                    ]
                    sealed = key.seal(law, made, shape=shape).without_ledger()
                    for each in made:
                        point = x, label, repr(law), repr(named), shape, each.block
                        stream = sealed.stream_key("", each.block, each.digest)
                        assert seen.setdefault(stream, point) == point
    assert len(seen) == 7 * sum(3**n * -(-n // 2) for n in range(5))


DRIVERS = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
import dpfast
from dpfast.ledger import store

def driver(path, number, resume, last):
    look = store.Store.look

    def together(*job):  # both have found nothing before one reserves
        look(*job)
        Path(f"{path}.{number}").touch()
        while not Path(f"{path}.{1 - number}").exists():
            time.sleep(0.001)

    store.Store.look = together
    mech, counts = dpfast.DiscreteLaplace(1, 10**6), np.append(np.arange(70_000), int(last))
    try:
        key = dpfast.KeyFile(f"{path}.key").derive("visits")
        return str(hash(dpfast.Ledger(path).release(mech, counts, key=key, resume=resume == "resume").tobytes()))
    except dpfast.errors.KeyReuseError as error:
        return type(error).__name__

for path in sys.argv[1:]:
    resume, last = Path(path).stem.split()
    dpfast.KeyFile.create(f"{path}.key")
    read, write = os.pipe()
    drivers = []
    for number in range(2):
        if (child := os.fork()) == 0:
            signal.alarm(300)
            try:
                os.write(write, f"{driver(path, number, resume, last[number])} ".encode())
            finally:
                os._exit(0)
        drivers.append(child)
    for child in drivers:
        os.waitpid(child, 0)
    os.close(write)
    print(os.read(read, 1000).decode())
"""
TOGETHER: dict[str, list[str]] = {  # whether they resume, and the last count of each; who is refused
    "resume 00": [],
    "resume 01": ["OtherInputError"],
    "forgotten 00": ["KeyReuseError"],
    "forgotten 01": ["KeyReuseError"],
}


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ledger, list[str]]]:
    """Two processes at each ledger, and what they said."""
    folder = tmp_path_factory.mktemp("drivers")
    ledgers = {name: Ledger(folder / f"{name}.db", 1000, create=True) for name in TOGETHER}
    said = forked(DRIVERS, *[ledger.path for ledger in ledgers.values()]).splitlines()
    return {name: (ledger, each.split()) for (name, ledger), each in zip(ledgers.items(), said, strict=True)}


@pytest.mark.parametrize("case", TOGETHER)
def test_two_drivers_at_once(drivers: dict[str, tuple[Ledger, list[str]]], case: str) -> None:
    """One charge, one noise: who comes second gets the same bytes, or is refused."""
    ledger, said = drivers[case]
    words = [each for each in said if each.isalpha()]
    assert words == TOGETHER[case]
    assert len(said) == 2
    assert len({*said} - {*words}) == 1
    assert ledger.spent.epsilon == 1
    assert sum(not entry.refused for entry in ledger.history()) == 1


def test_an_empty_input_costs_the_same(tmp_path: Path) -> None:
    """Else the price tells that nobody is there."""
    ledger = Ledger(tmp_path / "b.db", 1000, create=True)
    for shape in ((0,), (0, 5)):
        assert ledger.release(MECH, np.zeros(shape, np.int64), key=known(str(shape))).shape == shape
    assert ledger.spent.epsilon == 2


# A process that tries under a label, in children that may be killed; who pays, and what was noised.
TRYING = """
    import os, re, select, signal, subprocess, sys
    from pathlib import Path
    import numpy as np
    import dpfast
    from dpfast.ledger import ledger as paying, store
    from dpfast.noise.release import blocks, seal

    path = sys.argv[1]
    mech, counts = dpfast.DiscreteLaplace(1, 10**6), np.arange(70_000)
    file, ledger = dpfast.KeyFile.create(f"{path}.key"), dpfast.Ledger(path, 1000, create=True)
    mech.release(counts, key=file.derive("warm"))

    def attempt(label, pay=ledger):
        key = dpfast.KeyFile(file.path).derive(label)
        return pay.release(mech, counts, key=key, resume=True) if pay else mech.release(counts, key=key, resume=True)

    def child(work):
        if (made := os.fork()) == 0:
            signal.alarm(120)
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        return made

    def charges(label):
        return [entry.label for entry in ledger.history()].count(label)
"""
KILLED = """
    def kill_at(owner, name, nth, when):
        real, calls = getattr(owner, name), [0]
        def watched(*job, **options):
            calls[0] += 1
            if calls[0] == nth and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            found = real(*job, **options)
            if calls[0] == nth and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return found
        setattr(owner, name, watched)

    steps = [(store.Store, "look", 1), (blocks.Blocks, "_look", 1), (blocks.Blocks, "digests", 1), (seal.Seal, "__init__", 1),
             (paying, "compare_here", 1), (store.Store, "reserve", 1), (store, "insert", 1), (store, "insert", 2), (store, "move", 1),
             (paying, "reserve_here", 1), (seal.Seal, "_open", 1), (blocks.Blocks, "draw", 1), (blocks.Blocks, "_noise", 1),
             (blocks.Blocks, "_noise", 2)]
    committed = []
    for at, when in [(at, when) for at in range(len(steps)) for when in ("before", "after")]:
        label = f"{at} {when}"
        killed = child(lambda: (kill_at(*steps[at], when), attempt(label)))
        assert os.WTERMSIG(os.waitpid(killed, 0)[1]) == signal.SIGKILL, label
        committed.append(charges(label))
        noisy = attempt(label)
        assert (noisy == attempt(label)).all() and (noisy == attempt(label, None)).all()
        assert charges(label) == 1, label
    assert ledger.verify() == ledger.spent.epsilon == 2 * len(steps)
    print("".join(map(str, committed)))
"""


def test_killed_between_any_two_steps(tmp_path: Path) -> None:
    """And begun again: one charge, one noise. It was charged if it died behind the transaction."""
    reserved = forked(dedent(TRYING) + dedent(KILLED), tmp_path / "budget.db").strip()
    assert reserved == "0" * 11 + "1" + "0" * 6 + "1" * 10  # what Store.reserve does is undone until it returns


FLUSHED = """
    log = Path(f"{path}.log")

    def traced(label, *inject):
        "A child's end under strace, which has hold of it before it begins, as its calls of getppid show."
        log.unlink(missing_ok=True)
        heard, say = os.pipe()

        def begin():
            while not select.select([heard], [], [], 0.001)[0]:
                os.getppid()
            attempt(label, dpfast.Ledger(path))

        made = child(begin)
        calls = "trace=fsync,fdatasync,unlink,pwrite64,getppid"
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", calls, "-o", log, *inject, "-p", str(made)])
        while not (log.exists() and "getppid" in log.read_text()):
            assert tracer.poll() is None
            select.select([], [], [], 0.001)
        os.write(say, b"k")
        ended = os.waitpid(made, 0)[1]
        tracer.wait()
        os.close(heard), os.close(say)
        return ended

    assert traced("whole") == 0
    calls = re.findall(r"(fsync|fdatasync|unlink|pwrite64)\\(", log.read_text())
    assert {"unlink", "pwrite64"} < {*calls}
    points = [(name, at) for name in {*calls} for at in range(1, calls.count(name) + 1)]
    points = [(name, at) for name, at in points if name != "pwrite64" or at in (1, calls.count(name))]
    for name, at in points:
        label = f"{name} {at}"
        assert os.WTERMSIG(traced(label, "-e", f"inject={name}:signal=SIGKILL:when={at}")) == signal.SIGKILL, label
        assert (attempt(label) == attempt(label, None)).all()
        assert os.waitpid(child(lambda: attempt(label, dpfast.Ledger(path))), 0)[1] == 0
        assert charges(label) == 1
    assert ledger.verify() == ledger.spent.epsilon == len(points) + 1
    print(len(points))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_killed_before_and_after_each_flush(tmp_path: Path) -> None:
    """At the entry of each flush and removal of a reservation, and of the first and last writes."""
    assert int(python(dedent(TRYING) + dedent(FLUSHED), tmp_path / "budget.db")) > 5
