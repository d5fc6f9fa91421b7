# SPDX-License-Identifier: Apache-2.0
"""Running totals of tests: the simplest there are, whose every figure is seen at a glance."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import dpfast
from dpfast.counts.running import steps
from dpfast.counts.running.totals import RunningTotals
from dpfast.errors import ParameterError

SCALE = 10**9  # two steps of three cells are equal by chance once in 10^27


class PlainTotals:
    """Each step releases the sum of all counts so far, with noise of its own.

    It charges what it is told: its tests are about steps, and not about what they cost.
    """

    FOUND: ClassVar[frozenset[str]] = frozenset({"found"})
    mechanism = dpfast.DiscreteGaussian(sigma_squared=SCALE**2)

    sensitivity = dpfast.Sensitivity(1, 1)

    def __init__(
        self,
        rho: Any = "1/2",
        epsilon: Any = None,
        *,
        ceiling: int = 1000,
        bound: int = 2**40,
        found: int = 7,
        per_unit_steps: int = 1,
        apart: int = 1,
    ) -> None:
        self.guarantee = dpfast.Guarantee(epsilon, None if epsilon is None else "1e-6", rho=rho)
        self.ceiling, self.bound, self.found = ceiling, bound, found
        self.per_unit_steps, self.apart = per_unit_steps, apart

    def terms(self) -> dict[str, Any]:
        about = {"rho": str(self.guarantee.rho), "ceiling": self.ceiling, "bound": self.bound, "found": self.found}
        about |= {"per_unit_steps": self.per_unit_steps, "apart": self.apart}
        return about if self.guarantee.epsilon is None else {**about, "epsilon": str(self.guarantee.epsilon)}

    @classmethod
    def of_terms(cls, terms: dict[str, Any]) -> PlainTotals:
        if not isinstance(terms["ceiling"], int):
            raise ParameterError("ceiling must be an integer")
        return cls(**terms)

    def metadata(self) -> dict[str, object]:
        return {"mechanism": "running_totals", **self.terms()}

    clamped, bounded = RunningTotals.clamped, RunningTotals.bounded

    def begin(self, cells: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((1, cells), np.int64), np.zeros((1, cells))

    def encode(self, encoder: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return encoder[0] + counts, encoder + counts

    def decode(self, decoder: np.ndarray, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = noisy.astype(np.float64)
        return values, values.reshape(decoder.shape)

    def interval(self, t: int, level: float = 0.95, last: int | None = None) -> float:
        return float(self.mechanism.interval(level))

    def _running(self, ledger: Any, *, names: Any, **options: Any) -> Any:
        return steps.opened(self, ledger, steps.Cells(names), **options)

    def _check_cells(self, name: str, many: int) -> None:
        """They say nothing of how many cells there are."""

    def _refuse_less(self, change: Any) -> None:
        if change.l0 > 1:
            raise ParameterError("sensitivity must be at least that of the counts")


# As a manifest of this version keeps them.
GOLDEN: dict[str, int | str] = {
    "steps": 365, "ceiling": 23360, "per_unit_steps": 1, "apart": 1, "bound": 274877906944,
    "decays": "3026/2^13 3255/2^16 3159/2^20 3598/2^23", "weights": "2161/2^13 2490/2^14 2527/2^15 2670/2^22",
    "bits": 19, "guard": 13, "sigma_squared": "861253248387/1", "rho": "1/2", "moved_l2_squared": "1", "moved_cells": 1,
    "adjacency": "add-remove", "unit": "person", "l0": 1, "linf": "1", "l1": "1", "signed": 0,
}  # fmt: skip

LIVES = """
    import contextlib, os, random, re, shutil, signal, subprocess, sys, time
    from pathlib import Path
    import numpy as np
    import dpfast
    import dpfast.counts.running.rows  # once, and not in each child
    from dpfast.counts.running.totals import RunningTotals
    from dpfast.ledger import store

    folder, way, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    days, NAMES, rows = int(sys.argv[4]), ["Lima", "Oslo", "Pune", "Rome", "Ulm"], sys.argv[5] == "rows"
    DAYS = [[each] for each in np.random.default_rng(36).integers(-50, 50, (days, 5))]
    dpfast.KeyFile.create(folder / "key")
    dpfast.Ledger(folder / "budget.db", rho=1, create=True)
    TOTALS = RunningTotals(8, sensitivity=dpfast.Sensitivity(1, 1), rho="1/2")
    if rows:  # half of the people come again, and are not counted
        DAYS = [([NAMES[n % 5] for n in range(t, t + 20)], [f"person {n}" for n in range(10 * t, 10 * t + 20)]) for t in range(days)]
    writes, opened = os.write, store._opened

    class Planted:
        '''Ends the process at its nth write, flush, rename, removal or commit.'''

        def __init__(self, n):
            self.left, self.seen = n, []

        def reached(self, name):
            self.seen.append(name)
            self.left -= 1
            return self.left == 0

        def before(self, name, call):
            def planted(*given, **named):
                if self.reached(name):
                    os._exit(9)
                return call(*given, **named)
            return planted

        def write(self, handle, content):
            if self.reached("write"):
                writes(handle, content[: len(content) // 2])
                os._exit(9)
            return writes(handle, content)

        @contextlib.contextmanager
        def opened(self, *given):
            with opened(*given) as connection:
                yield Committing(self, connection)

        def plant(self):
            for name in ("fsync", "replace", "unlink"):
                setattr(os, name, self.before(name, getattr(os, name)))
            os.write, store._opened = self.write, self.opened

    class Committing:
        def __init__(self, planted, connection):
            self._planted, self._connection = planted, connection

        def __getattr__(self, name):
            return getattr(self._connection, name)

        def execute(self, statement, *given):
            ends = statement == "COMMIT"
            if ends and self._planted.reached("before a commit"):
                os._exit(9)
            found = self._connection.execute(statement, *given)
            if ends and self._planted.reached("after a commit"):
                os._exit(9)
            return found

    def live(place, begin, say):
        '''What a job does that runs each day: it goes on with what is there, or begins.'''
        ledger, key = dpfast.Ledger(place / "budget.db"), dpfast.KeyFile(place / "key").derive("sign-ups")
        options = {"key": key, "names": NAMES, "state": place / "state"}
        totals = TOTALS.bounded(max_contributions=1) if rows else TOTALS
        try:
            replay = DAYS[: begin - 1] if rows else [day for day, in DAYS[: begin - 1]]
            running = ledger.running(totals, **options, replay=replay, resume=True)
        except dpfast.errors.ParameterError as error:
            assert "nothing is reserved" in str(error), error
            running = ledger.running(totals, **options)
        for t in range(begin, len(DAYS) + 1):
            try:
                found = running.step(t, resume=True)
            except dpfast.errors.ParameterError as error:
                assert "written ahead" in str(error), error
                found = running.step(t, *DAYS[t - 1])
            say(bytes([t]) + found.values.tobytes())

    def child(work):
        '''A child, and where to read what it says.'''
        read, write = os.pipe()
        made = os.fork()
        if made == 0:
            signal.alarm(100)
            try:
                work(lambda said: writes(write, said))
                os._exit(0)
            except BaseException as error:
                print("FAILED", type(error).__name__, error, file=sys.stderr, flush=True)
                os._exit(1)
        os.close(write)
        return made, read

    def ended(made, read):
        with os.fdopen(read, "rb") as rest:
            said = rest.read()
        assert len(said) % 41 == 0
        code = os.waitstatus_to_exitcode(os.waitpid(made, 0)[1])
        return code, {said[at]: said[at + 1 : at + 41] for at in range(0, len(said), 41)}

    def place(name):
        made = folder / name
        made.mkdir()
        for each in ("key", "budget.db", "budget.db.lock"):
            shutil.copy(folder / each, made / each)
        return made

    def checked(where, published, n):
        '''Some lose their state; all go on to the end: one value a step, one charge.'''
        if n % 3 == 2:
            for each in ("state", "state.before", "state.ahead")[: 2 + n % 2]:
                (where / each).unlink(missing_ok=True)

        def rest(say):
            live(where, max(published, default=0) + 1, say)
            live(where, len(DAYS), lambda said: say(bytes([9]) + said[1:]))  # the last step once more
            ledger = dpfast.Ledger(where / "budget.db")
            assert ledger.verify(dpfast.KeyFile(where / "key")) == 1 and ledger.spent == TOTALS.guarantee

        code, more = ended(*child(rest))
        assert code == 0, (where, code)
        assert {**more, **published} == {**EXPECTED, 9: EXPECTED[len(DAYS)]} and not {*more} & {*published}

    code, EXPECTED = ended(*child(lambda say: live(place("whole"), 1, say)))
    assert code == 0 and len(EXPECTED) == len(DAYS)
    done, points = 0, []
    if way == "exits":
        def planted(where, n, say):
            hook = Planted(n)
            hook.plant()
            live(where, 1, say)
            (where / "seen").write_text(",".join(hook.seen))

        for again in range(rounds):
            n = code = 1
            while code:
                where = place(f"{again} {n}")
                code, published = ended(*child(lambda say: planted(where, n, say)))
                assert code in (0, 9), code
                checked(where, published, n + again)
                n, done = n + 1, done + 1
        points = (where / "seen").read_text().split(",")
    elif way == "calls":  # system calls, also SQLite's own
        calls = "write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "link"
        log = folder / "calls.txt"

        def traced(where, *inject):
            log.unlink(missing_ok=True)
            heard, say_so = os.pipe()

            def waiting(say):
                os.set_blocking(heard, False)
                while True:
                    os.getppid()  # which the tracer writes down
                    try:
                        os.read(heard, 1)
                        break
                    except BlockingIOError:
                        time.sleep(0.001)
                live(where, 1, say)

            made, read = child(waiting)
            traces = ["-e", f"trace={','.join(calls)},getppid"]
            tracer = subprocess.Popen(["strace", "-qq", *traces, "-o", log, *inject, "-p", str(made)])
            while not (log.exists() and "getppid" in log.read_text()):
                assert tracer.poll() is None
                time.sleep(0.001)
            os.write(say_so, b"k")
            found = ended(made, read)
            tracer.wait()
            os.close(heard), os.close(say_so)
            return found

        assert traced(place("listed")) == (0, EXPECTED)
        listed = re.findall("^(" + "|".join(calls) + r")\\(", log.read_text(), re.MULTILINE)
        points = [(name, at) for name in {*listed} for at in range(1, listed.count(name) + 1)]
        for again in range(max(rounds, 1)):
            for n, (name, at) in enumerate(sorted(points)[:: 1 if rounds else 16]):
                where = place(f"{again} {name} {at}")
                code, published = traced(where, "-e", f"inject={name}:signal=SIGKILL:when={at}")
                assert code == -signal.SIGKILL, (name, at, code)
                checked(where, published, n + again)
                done += 1
        points = {*listed}
    else:
        random.seed(36)
        for n in range(rounds):
            where = place(f"{n}")
            made, read = child(lambda say: live(where, 1, say))
            time.sleep(random.uniform(0, 0.1))
            os.kill(made, signal.SIGKILL)
            checked(where, ended(made, read)[1], n)
            done += 1
    print(done, *sorted(set(points)), sep=",")
"""
