# SPDX-License-Identifier: Apache-2.0

"""One stream: tiers, instruction sets, threads and cuts give equal draws; keys name one release."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast import DiscreteLaplace, Key, Laplace, _native
from dpfast.errors import KeyReuseError, ParameterError
from dpfast.evidence.selftest.check import Outcome, Run, below, instruction_sets, sets
from dpfast.evidence.selftest.subjects import Subject, of_scales, subjects

LAST = 2**63  # draws in a stream


def tiers(run: Run, chosen: Sequence[Subject] = ()) -> Outcome:
    """Fresh keys: every path and instruction set decides in C what the last tier decides alone."""
    n, open_, chosen = run.scaled(1024, 8), 0, chosen or subjects()
    for at, subject in enumerate(chosen):
        run.step(at / len(chosen))
        stream, start = _native.StreamKey(_native.entropy(32)), below(LAST - n)
        last = subject.exact(stream)
        truth = [last(start + i) for i in range(n)]
        for isa in instruction_sets():
            for constant_work in (False, True):
                found = run.under_test("draws", subject.in_c(stream, start, n, constant_work=constant_work, isa=isa))
                right = all(k is None or k == exact for k, exact in zip(found, truth, strict=True))
                path = "constant work" if constant_work else "bulk"
                run.expect(right, f"{subject.name}, {_native.ISA_NAMES[isa]}, {path}: a draw is not the exact one")
                run.expect(found.count(None) <= 2 + n // 64, f"{subject.name}, {path}: too many draws left open")
                open_ += found.count(None)
    return run.outcome(
        f"{len(chosen)} mechanisms x {n} fresh draws x bulk, constant-work, exact x {sets()}; {open_} left to the last tier"
    )


def by_intervals(law: str, run: Run) -> Outcome:
    """Compare the draws of a law for which laws.py has no closed form with its intervals."""
    outcome = tiers(run, of_scales(law))
    return replace(outcome, compared=f"no closed form is known here, so intervals judge: {outcome.compared}")


def releases(run: Run) -> Outcome:
    """From key to output: a release holds the values plus the exact draws of its own stream."""
    n, seen, made = 5000, run.scaled(64, 4), 0
    chosen = [each for each in subjects() if each.releases and each.mechanism.scale / each.granularity < 2**45]
    for at, (subject, constant_time) in enumerate(itertools.product(chosen, (False, True))):
        run.step(at / len(chosen) / 2)
        key = Key.generate().derive("selftest")
        values = np.full(n, 3) if subject.offset is None else np.full(n, (3 + subject.offset) * subject.granularity)
        digest = key.digester(subject.mechanism)(0, values)
        sealed = key.seal(subject.mechanism, [digest], shape=(n,)).without_ledger()
        try:
            out = sealed.release(0, values, constant_time=constant_time, threads=1)
        except ParameterError:
            if constant_time:
                continue  # refused on some grids
            raise
        stream = _native.StreamKey(sealed.stream_key("", 0, digest.digest))
        last, places = subject.exact(stream), [below(n) for _ in range(seen)]
        found = run.under_test("outputs", [float(out[i]) for i in places])
        right = [(last(i) + 3) * subject.granularity for i in places]
        run.expect(found == right, f"{subject.name}: a release is not its values plus the exact draws")
        made += 1
    run.expect(made > 3 / 2 * len(chosen), "too few mechanisms released")
    return run.outcome(f"{made} bulk and constant-time releases of {n:,}, {seen} outputs of each from its key on")


def cuts(run: Run) -> Outcome:
    """Threads, and where a call begins and ends, do not change a draw: key and number do."""
    n, pieces = 3000, ((0, 1), (1, 2), (17, 1500), (1023, 1025), (1500, 3000), (2999, 3000))
    for at, subject in enumerate(subjects()):
        run.step(at / len(subjects()) / 2)
        stream, start = _native.StreamKey(_native.entropy(32)), below(LAST - n)
        for constant_work in (False, True):
            whole = subject.in_c(stream, start, n, constant_work=constant_work)
            for begin, end in pieces:
                part = subject.in_c(stream, start + begin, end - begin, constant_work=constant_work)
                part = run.under_test("a piece", part)
                both = [(k, w) for k, w in zip(part, whole[begin:end], strict=True) if None not in (k, w)]
                run.expect(all(k == w for k, w in both), f"{subject.name}: draws depend on where a call is cut")
    size, threads = min(2**21, run.scaled(2**21, 2**19 + 3)), (1, 2, 3, 7)
    mechanisms = [subject for subject in subjects() if subject.releases][::3]
    for at, subject in enumerate(mechanisms):
        run.step(0.5 + at / len(mechanisms) / 2)
        key = Key.generate().derive("selftest")
        values = np.arange(size, dtype=np.int64 if subject.offset is None else np.float64)
        outputs = [subject.mechanism.release(values, key=key, resume=True, threads=count) for count in threads]
        outputs[-1] = run.under_test("in threads", outputs[-1])
        same = all(np.array_equal(outputs[0], other) for other in outputs[1:])
        run.expect(same, f"{subject.name}: a release depends on its threads")
    return run.outcome(
        f"{len(subjects())} mechanisms x {len(pieces)} cuts x 2 paths; {len(mechanisms)} releases of {size:,} by {', '.join(map(str, threads))} threads"
    )


def keyed(run: Run) -> Outcome:
    """The same input has equal noise, whoever draws it; all else is independent."""
    n = 64
    counts = np.arange(10**6, 10**6 + n)
    compared = 0
    for mechanism, values in (
        (DiscreteLaplace(1, 10**9), counts),  # two of its draws agree with a probability below 1e-9
        (Laplace(1, 10**9), counts.astype(np.float64)),
    ):
        master = Key.generate()

        def noise(
            label: str = "selftest",
            values: npt.NDArray[Any] = values,
            *,
            by: Any = mechanism,
            master: Key = master,
            names: Any = None,
        ) -> npt.NDArray[Any]:
            key = master.derive(label)
            return by.release(values, key=key, names=names, resume=True) - values  # type: ignore[no-any-return]

        def by_a_worker(master: Key = master, mechanism: Any = mechanism, values: Any = values) -> npt.NDArray[Any]:
            key = master.derive("selftest")
            digester = pickle.loads(pickle.dumps(key.digester(mechanism)))  # noqa: S301  our own
            seal = key.seal(mechanism, [digester(0, values)], shape=values.shape)
            sealed = pickle.loads(pickle.dumps(seal.without_ledger(resume=True)))  # noqa: S301
            return sealed.release(0, values) - values  # type: ignore[no-any-return]

        first = noise()
        same = [run.under_test("a retry", noise()), by_a_worker()]
        compared += len(same)
        run.expect(all(np.array_equal(first, other) for other in same), "a retry has other noise")
        changed = values.copy()
        changed[7] += 1
        others = [
            noise("another"), run.under_test("noise of a changed input", (first, noise("changed", changed)))[1],
            noise("mechanism", by=type(mechanism)(1, 10**9 + 1)), noise("shape", values.reshape(8, 8)).reshape(-1),
            noise("names", names=range(n)), noise(master=Key.generate()),
        ]  # fmt: skip
        compared += len(others)
        run.expect(all((first != other).sum() > n // 2 for other in others), "unlike releases share noise")
        for wrong in (
            partial(noise, values=changed),
            partial(mechanism.release, values, key=master.derive("selftest")),
        ):
            try:
                wrong()
            except KeyReuseError:
                continue
            run.expect(False, "a label served two releases")
    return run.outcome(f"{compared} releases beside one another x {n} values; a label for a second release is refused")
