# SPDX-License-Identifier: Apache-2.0
"""Ledgers under racing, killed processes: nothing overspent or lost, no uncharged noise."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh import forked

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where a flush costs nothing

CROWD = """
    import json, os, random, signal, sys, time
    import numpy as np
    import dpfast

    path, by = sys.argv[1], sys.argv[-1]
    mechanism, zeros = dpfast.DiscreteLaplace(1, 10**6), np.zeros(9, np.int64)  # at this scale no two results are equal
    mechanism.release(zeros, key=dpfast.Key.generate().derive("warm"))

    def in_gdp(path, releases):
        '''A ledger by="gdp" that pays for so many, one of them, and zeros; none of its results are equal.'''
        one = dpfast.Gaussian.calibrated(1, dpfast.Sensitivity(1, 10**6), delta=1e-6, releases=releases)
        return dpfast.Ledger(path, 1, delta=1e-6, by="gdp", create=True), one, np.zeros(9)

    def crowd(size, work):
        '''What so many processes, let go at one moment, return.'''
        gate, opened = os.pipe()
        pipes = []
        for number in range(size):
            read, write = os.pipe()
            if os.fork() == 0:
                signal.alarm(600)
                try:
                    os.close(opened)
                    os.read(gate, 1)
                    random.seed(number)
                    with os.fdopen(write, "w") as out:
                        json.dump(work(number), out)
                    os._exit(0)
                finally:
                    os._exit(1)
            os.close(write)
            pipes.append(read)
        os.close(gate)
        os.close(opened)
        found = []
        for read in pipes:
            with os.fdopen(read) as text:
                found.append(json.loads(text.read()))
        for _ in pipes:
            assert os.wait()[1] == 0
        return found
"""


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder, "budget.db")


@pytest.mark.parametrize("by", ["epsilon", pytest.param("gdp", marks=pytest.mark.slow)])
def test_eight_processes_race_for_a_thousand_reservations(path, by) -> None:
    """700 of 1,000 can be paid: so many are released, the others leave their target."""
    output = forked(
        CROWD
        + """
    ledger = dpfast.Ledger(path, 700, create=True) if by == "epsilon" else None
    if by == "gdp":
        ledger, mechanism, zeros = in_gdp(path, 700)

    def work(number):
        results, ledger = [], dpfast.Ledger(path)
        for n in range(125):
            target = zeros - 7
            try:
                ledger.release(mechanism, zeros, out=target, label=f"{number} {n}")
            except dpfast.errors.BudgetExhausted:
                assert (target == -7).all()
            else:
                results.append([f"{number} {n}", target.tolist()])
        return results

    found = [result for results in crowd(8, work) for result in results]
    history = ledger.history()
    print(len(found), len({tuple(noise) for _, noise in found}), sorted(e.label for e in history) == sorted(label for label, _ in found))
    print(len(history), ledger.fits(mechanism), [e.number for e in history] == list(range(1, 701)))
    """,
        path,
        by,
    )
    assert output.split() == ["700", "700", "True", "700", "0", "True"]


@pytest.mark.slow
def test_eight_processes_want_the_last_epsilon(path) -> None:
    """One wins, in every round; every other one is by="gdp"."""
    output = forked(
        CROWD
        + """
    rounds = [
        in_gdp(f"{path}{n}", 1) if n % 2 else (dpfast.Ledger(f"{path}{n}", 1, create=True), mechanism, zeros)
        for n in range(40)
    ]
    start = time.monotonic() + 1

    def work(number):
        won = []
        for n, (ledger, mechanism, zeros) in enumerate(rounds):
            time.sleep(max(0, start + n / 25 - time.monotonic()))
            try:
                ledger.release(mechanism, zeros)
                won.append(n)
            except dpfast.errors.BudgetExhausted:
                pass
        return won

    print(*sorted(n for won in crowd(8, work) for n in won))
    print(*(ledger.fits(mechanism) == 0 and len(ledger.history()) for ledger, mechanism, _ in rounds))
    """,
        path,
    )
    assert output.split() == [*map(str, range(40)), *["1"] * 40]


def test_eight_workers_share_one_release(path) -> None:
    """Tries of one label: one charge, one noise; two inputs of it are never both released."""
    output = forked(
        CROWD
        + """
    ledger, secret = dpfast.Ledger(path, 20, create=True), os.urandom(32)

    def released(label, values, **options):
        try:
            key = dpfast.Key.from_bytes(secret).derive(label)  # none survives the fork
            return ledger.release(mechanism, values, key=key, **options).tolist()
        except dpfast.errors.KeyReuseError as refusal:
            return type(refusal).__name__

    def same(number):
        labels = [f"same {n}" for n in range(12)]
        random.shuffle(labels)
        return {label: released(label, zeros, resume=True) for label in labels}

    found = crowd(8, same)
    print(all(noisy == found[0] for noisy in found), len({tuple(noisy) for noisy in found[0].values()}))
    different = crowd(8, lambda number: released("different", zeros + number, resume=True))
    print(sum(type(noisy) is list for noisy in different), different.count("OtherInputError"))
    forgotten = crowd(8, lambda number: released("forgotten", zeros))
    print(sum(type(noisy) is list for noisy in forgotten), forgotten.count("KeyReuseError"))
    charged = [entry for entry in ledger.history() if not entry.refused]
    print(len(charged), ledger.spent.epsilon, len(ledger.history()) - len(charged))
    """,
        path,
    )
    assert output.split() == ["True", "12", "1", "7", "1", "7", "14", "14", "7"]


@pytest.mark.parametrize(
    ("place", "kills", "budget", "most", "by"),
    [
        ("memory", 80, 200, 8, "epsilon"),
        ("memory", 80, 200, 8, "gdp"),
        ("disk", 70, 60, 2, "epsilon"),
    ],
)
@pytest.mark.slow
def test_kills_at_any_moment(path, tmp_path, place, kills, budget, most, by) -> None:
    """Killed at any moment: releases are in the ledger, the ledger is sound, and works at once.

    A child that charges says its first charge before it is killed, and its last may be unsaid. So
    at least half of all charges are said, and with "exhausted" more than half of the budget. A
    journal that is left behind would stay unseen in 70 kills with a chance far below 1e-6.
    """
    output = forked(
        CROWD
        + """
    kills, budget, most = map(int, sys.argv[2:5])
    ledger, secret = dpfast.Ledger(path, budget, create=True) if by == "epsilon" else None, os.urandom(32)
    if by == "gdp":
        ledger, mechanism, zeros = in_gdp(path, budget)
    said, journals = set(), 0
    for kill in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            n = 0
            while True:
                n += 1
                label = f"{kill} {n}"
                try:
                    if n % 3:
                        ledger.release(mechanism, zeros, label=label)
                    else:
                        label = f"sealed {n % 7}"
                        key = dpfast.Key.from_bytes(secret).derive(label)
                        label += f"={hash(ledger.release(mechanism, zeros, key=key, resume=True).tobytes())}"
                except dpfast.errors.BudgetExhausted:
                    label = "exhausted"
                os.write(write, f"{label}\\n".encode())
        os.close(write)
        text = b""
        for _ in range(random.randrange(most) + 1):
            text += os.read(read, 1000)
        time.sleep(random.expovariate(1 / (0.0005 if most == 8 else 0.003)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read) as rest:
            said |= set((text.decode() + rest.read()).splitlines())
        journals += os.path.exists(f"{path}-journal")
        if kill % 10 == 9:
            history = dpfast.Ledger(path).history()
            labels = [entry.label for entry in history]
            sealed = {line for line in said if "=" in line}
            names = {line.partition("=")[0] for line in sealed}
            assert len(names) == len(sealed), "a label has one noise"
            assert said - sealed - {"exhausted"} | names <= set(labels), "released and not recorded"
            assert len(set(labels)) == len(labels), "a label is charged once"
            assert ledger.fits(mechanism) == budget - len(history) >= 0
    print("exhausted" in said, len(history), len(said) > budget / 2, journals > 0)
    """,
        path if place == "memory" else tmp_path / path.name,
        kills,
        budget,
        most,
        by,
    )
    exhausted, charges, reported, undone = output.split()
    assert (exhausted, charges, reported) == ("True", str(budget), "True")
    assert undone == "True" or place == "memory"


@pytest.mark.parametrize("locked", [True, False])
def test_a_closed_descriptor_gives_no_lock_away(path, locked) -> None:
    """The process closes the file amid a charge: SQLite drops its locks, ours stays."""
    output = forked(
        """
        import contextlib, subprocess, sys
        import dpfast
        from dpfast.ledger import store

        path, without = sys.argv[1:]
        before = "import dpfast, contextlib, sys; from dpfast.ledger import store; store.PATIENCE = 0.1\\n" + without
        exec(before)
        ledger = dpfast.Ledger(path, 2, create=True)
        insert = store.insert

        def inserted(*row):
            open(path, "rb").close()
            spend = f"{before}\\ndpfast.Ledger({path!r}).spend(dpfast.Guarantee(2))"
            run = subprocess.run([sys.executable, "-c", spend], capture_output=True, text=True)
            print(run.returncode, "is locked by another process" in run.stderr)
            return insert(*row)

        store.insert = inserted
        with contextlib.suppress(dpfast.errors.LedgerError):
            ledger.spend(dpfast.Guarantee(1))
        store.insert = insert
        print(ledger.verify(), ledger.spent.epsilon)
        """,
        path,
        "" if locked else "store.held = lambda *_, **__: contextlib.nullcontext()",
    )
    assert (output.split() == ["1", "True", "1", "1"]) is locked
    assert output.startswith("0 False") is not locked


@pytest.mark.parametrize(
    ("fork", "spoilt", "refused"),
    [
        ("os.fork()", "", False),
        ("os.fork()", "lock._files.add = lambda _: None", True),
        ("ctypes.PyDLL(None).fork()", "", False),
        ("ctypes.PyDLL(None).fork()", "lock.system.unlock = lambda file: None", True),
    ],
)
def test_a_forked_child_keeps_no_lock(path, fork, spoilt, refused) -> None:
    """A child that is forked inside a charge, and lives on, holds up nobody.

    By Python's fork its copy of the lock is closed, so that even a parent that is killed there
    gives the lock back; by the system's it is not, and the parent unlocks it before it closes it.
    Without either (planted) the next is refused.
    """
    killed = fork == "os.fork()"
    output = forked(
        f"""
        import ctypes, os, signal, sys
        import dpfast
        from dpfast.ledger import lock, store

        path, killed = sys.argv[1], {killed}
        ledger = dpfast.Ledger(path, 9, create=True)
        insert, children = store.insert, []
        {spoilt}

        def inserted(*row):
            child = {fork}
            if child == 0:
                ctypes.PyDLL(None).alarm(60)
                ctypes.PyDLL(None).pause()
            with open(path + ".child", "w") as file:
                file.write(str(child))
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)
            return insert(*row)

        store.PATIENCE = {1.0 if refused else 30.0}
        store.insert = inserted
        if not killed or os.fork() == 0:
            ledger.spend(dpfast.Guarantee(1))
        else:
            os.wait()
        store.insert = insert
        try:
            ledger.spend(dpfast.Guarantee(1))
            print("charged", ledger.spent.epsilon)
        except dpfast.errors.LedgerError as error:
            print("refused" if "is locked by another process" in str(error) else error)
        with open(path + ".child") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        """,
        path,
    )
    assert output.split() == (["refused"] if refused else ["charged", "1" if killed else "2"])
