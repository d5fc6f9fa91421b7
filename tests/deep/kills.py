# SPDX-License-Identifier: Apache-2.0
"""Killed, forked, or read at the wrong moment: charges stay charged, and nothing is overspent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fresh import python
from running import LIVES

NEEDS = ("strace",)

LOCKDROP = """
    import multiprocessing, sys, threading, time
    import dpfast

    path, processes, budget = sys.argv[1], 3, int(sys.argv[2])

    def spend(found):
        '''Spend until nothing is left, while a thread opens, reads and closes the file.'''
        done, looks = threading.Event(), 0

        def look():
            nonlocal looks
            while not done.is_set():
                with open(path, "rb") as file:
                    file.read()
                looks += 1
                time.sleep(0.0005)

        reader = threading.Thread(target=look)
        reader.start()
        ledger, paid, errors = dpfast.Ledger(path), 0, []
        for _ in range(budget):
            try:
                ledger.spend(dpfast.Guarantee(1))
                paid += 1
            except dpfast.errors.BudgetExhausted:
                break
            except Exception as error:
                errors.append(repr(error))
        done.set()
        reader.join()
        found.put((paid, looks, errors))

    ledger = dpfast.Ledger(path, budget, create=True)
    found = multiprocessing.get_context("fork").SimpleQueue()
    workers = [multiprocessing.get_context("fork").Process(target=spend, args=(found,)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    results = [found.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert not any(errors for *_, errors in results), results
    assert sum(paid for paid, *_ in results) == budget, results
    assert ledger.verify() == ledger.spent.epsilon == budget
    assert all(looks for _, looks, _ in results), "no reader looked"
    print(sum(looks for _, looks, _ in results))
"""

KILLS = """
    import os, random, signal, sys, time
    import numpy as np
    import dpfast

    path, kills, by = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if by == "gdp":
        mechanism, budget = dpfast.Gaussian(10**6, sensitivity=dpfast.Sensitivity(1, 1)), {"delta": 1e-6, "by": by}
    else:
        mechanism, budget = dpfast.DiscreteLaplace(1, 10**6), {}
    ledger = dpfast.Ledger(path, 10**9, **budget, create=True)
    zeros, room = np.zeros(9, float if by == "gdp" else np.int64), ledger.fits(mechanism)
    mechanism.release(zeros)
    random.seed(7)
    released = journals = 0
    for kill in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            while True:
                ledger.release(mechanism, zeros)
                os.write(write, b"x")
        os.close(write)
        os.read(read, 1)
        time.sleep(random.expovariate(1 / 0.015))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as rest:
            said = 1 + len(rest.read())
        journals += os.path.exists(f"{path}-journal")
        charged = room - ledger.fits(mechanism) - released
        assert said <= charged <= said + 1, (kill, said, charged)
        released += charged
    assert ledger.verify() == released
    print(released, journals)
"""

SEALED = """
    import os, random, signal, sys, time
    import numpy as np
    import dpfast

    path, kills = sys.argv[1], int(sys.argv[2])
    ledger, file = dpfast.Ledger(path, 10**9, create=True), f"{path}.key"
    mechanism, counts = dpfast.DiscreteLaplace(1, 10**6), np.arange(150_000) % 10
    dpfast.KeyFile.create(file)
    mechanism.release(counts, key=dpfast.Key.generate().derive("warm"))
    random.seed(8)
    tries, between, done = 0, 0, {}
    begun = time.perf_counter()
    ledger.release(mechanism, counts, key=dpfast.KeyFile(file).derive("timed"))
    once = time.perf_counter() - begun
    for n in range(kills):
        label = f"release {n // 4}"  # tried again and again
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            noisy = ledger.release(mechanism, counts, key=dpfast.KeyFile(file).derive(label), resume=True)
            os.write(write, noisy[::500].tobytes())  # all three blocks
            signal.pause()
        os.close(write)
        time.sleep(random.uniform(0, 2 * once))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as rest:
            found = rest.read()
        once *= 0.9 if found else 1.1  # so that half of the tries end whole, however busy the machine is
        between += not found and any(entry.label == label for entry in ledger.history())
        if found:
            tries += 1
            assert done.setdefault(label, found) == found, "another noise"
    for label in {*done, label}:  # what was seen of it is what a whole release gives, in this process and unpaid
        last = ledger.release(mechanism, counts, key=dpfast.KeyFile(file).derive(label), resume=True)
        assert done.get(label, last[::500].tobytes()) == last[::500].tobytes()
        assert (mechanism.release(counts, key=dpfast.KeyFile(file).derive(label), resume=True) == last).all()
        assert abs(int((last - counts).sum())) < 20 * 10**6 * len(counts) ** 0.5  # 14 deviations
    charged = [entry.label for entry in ledger.history()]
    assert len(set(charged)) == len(charged) == ledger.spent.epsilon == ledger.verify()
    assert {*done} <= {*charged}
    print(tries, between, len(charged))
"""

FORK = """
    import os, signal, sys, threading, time
    import dpfast
    from dpfast.ledger import store

    path, rounds = sys.argv[1], int(sys.argv[2])
    ledger = dpfast.Ledger(path, 10**9, create=True)
    insert, inside = store.insert, threading.Event()

    def slow(*row):
        '''A charge that another thread finds in the middle of its transaction.'''
        inside.set()
        time.sleep(0.05)
        return insert(*row)

    def here(*row):
        '''A charge that a fork of the very thread finds there, as one in a signal's handler does.'''
        if os.fork() == 0:
            signal.alarm(60)
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

    def elsewhere():
        store.insert = slow
        threading.Thread(target=ledger.spend, args=(dpfast.Guarantee(1),), daemon=True).start()
        inside.wait()
        here()

    def same():
        store.insert = here
        ledger.spend(dpfast.Guarantee(1))

    for work in [elsewhere, same] * rounds:
        parent = os.fork()
        if parent == 0:
            os.setpgid(0, 0)
            work()
            os._exit(0)
        status = os.waitpid(parent, 0)[1]
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        os.killpg(parent, 0)  # the child that was forked lives
        store.PATIENCE = 20.0  # seconds until a charge is refused
        try:
            ledger.spend(dpfast.Guarantee(1))
        finally:
            os.killpg(parent, signal.SIGKILL)
    charges = ledger.verify()
    assert 2 * rounds <= charges <= 3 * rounds, charges
    print(charges)
"""


def lockdrop(cheap: bool) -> dict[str, int]:
    """Three processes spend one budget. Each reads the file, which drops SQLite's own locks."""
    rounds, budget, looks = (1, 60, 0) if cheap else (20, 150, 0)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            looks += int(python(LOCKDROP, Path(folder, "budget.db"), budget))
    return {"rounds": rounds, "budget": budget, "spent": budget, "reads": looks}


def ledger_kills(cheap: bool) -> dict[str, int]:
    """A release killed at a random moment: what was released is charged, and at most one more."""
    kills, released, journals = 8 if cheap else 100, 0, 0
    for by in ("epsilon", "gdp"):
        with tempfile.TemporaryDirectory() as folder:
            found = [*map(int, python(KILLS, Path(folder, "budget.db"), kills, by).split())]
        released, journals = released + found[0], journals + found[1]
    return {"kills": 2 * kills, "charges": released, "journals undone": journals}


def sealed_kills(cheap: bool) -> dict[str, int]:
    """A sealed release killed at random moments, and begun again: one noise, one charge a label."""
    kills = 16 if cheap else 200
    with tempfile.TemporaryDirectory() as folder:
        whole, between, charges = map(int, python(SEALED, Path(folder, "budget.db"), kills).split())
    return {"kills": kills, "whole tries": whole, "killed behind the charge": between, "charges": charges}


def fork_and_kill(cheap: bool) -> dict[str, int]:
    """Forked inside a charge and killed: the child holds no lock, the next charge passes."""
    rounds = 2 if cheap else 50
    with tempfile.TemporaryDirectory() as folder:
        charges = int(python(FORK, Path(folder, "budget.db"), rounds))
    return {"forks": 2 * rounds, "charges": charges}


def running_kills(cheap: bool) -> dict[str, int]:
    """Running totals killed at each call of the system, and at random moments: one value a step."""
    found = {}
    for way, what, rounds in (
        ("calls", "calls of the system", 3),
        ("exits", "planted exits", 3),
        ("kills", "kills", 50),
    ):
        for of in ("counts",) if cheap else ("counts", "rows"):
            if way != "exits" or not cheap:  # a fast test has one round of them, of rows
                with tempfile.TemporaryDirectory() as folder:
                    done, *_ = python(LIVES, folder, way, 5 * (way == "kills") if cheap else rounds, 3, of).split(",")
                found[f"{what}, {of}"] = int(done)
    return found


CHECKS: tuple[Callable[[bool], dict[str, int]], ...] = (
    lockdrop,
    ledger_kills,
    sealed_kills,
    fork_and_kill,
    running_kills,
)


def check(*, cheap: bool) -> dict[str, dict[str, int]]:
    return {each.__name__: each(cheap) for each in CHECKS}
