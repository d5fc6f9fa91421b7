# SPDX-License-Identifier: Apache-2.0
"""What a Python without its lock would break, shown with it; see docs/behind/free_threads.md."""

from __future__ import annotations

import gc
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import tiers
from fresh import python
from places import TESTS
from proofs import CSRC

# ------------------------------------------------------------------ the record that threads share

SHARED = """
import sys
import numpy as np
sys.path.append(sys.argv[2])
import tiers
import dpfast

n = 2**20
with tiers.record_that_threads_only_read(writes=sys.argv[1] == "planted") as calls:
    for mechanism, values in [
        (dpfast.DiscreteLaplace(1, 100), np.zeros(n, np.int64)),
        (dpfast.DiscreteLaplace(1, 2**56), np.zeros(n, np.int32)),
        (dpfast.Laplace(1, 1), np.zeros(2 * n, np.float32)[::2]),
        (dpfast.Gaussian(1), np.zeros((n // 8, 8)).T),
    ]:
        before = len(calls)
        found = mechanism.release(values, threads=4)
        assert len(calls) >= before + 4 and np.count_nonzero(found) > n // 2
print("unwritten")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect is not Windows'")
def test_nothing_writes_the_record_that_threads_share() -> None:
    """Neither Python nor C, of integers and reals, plain and in pieces."""
    assert python(SHARED, "as it is", TESTS).split() == ["unwritten"]
    with pytest.raises(AssertionError, match=r"exit -(10|11)"):  # SIGBUS on macOS
        python(SHARED, "planted", TESTS)


# ------------------------------------------------------------------ the garbage collector


@pytest.fixture
def collector() -> Iterator[None]:
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(
    ("by_another", "left"),
    [
        (lambda: None, (True, (701, 11, 12))),
        (gc.disable, (False, (701, 11, 12))),
        (lambda: gc.set_threshold(900, 20, 30), (True, (900, 20, 30))),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_another_thread_asks_of_the_collector_while_kernels_load_stays(
    by_another: Callable[[], None], left: object, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where nobody asks anything, it is as it was; meanwhile nothing is collected."""
    collected = []
    gc.enable()
    gc.set_threshold(701, 11, 12)

    def note(phase: str, _: object) -> None:
        collected.append(phase)

    def load() -> None:
        gc.callbacks.append(note)
        kept = [[] for _ in range(5000)]
        gc.callbacks.remove(note)
        assert kept
        other = threading.Thread(target=by_another)
        other.start()
        other.join()
        if fails:
            raise ImportError

    tiers.loads_kernels_by(monkeypatch, load)
    with suppress(ImportError):
        tiers.load_a_kernel()
    gone = gc.isenabled(), gc.get_threshold()
    assert gone == left
    assert not collected


# ------------------------------------------------------------------ the first calls of a process

FIRST = """
import sys, threading
sys.setswitchinterval(1e-6)
import numpy as np
import dpfast

together, errors, found = threading.Barrier(6), [], set()

def work(i):
    try:
        together.wait()
        mechanism = [dpfast.DiscreteLaplace(1, 10**9), dpfast.Laplace(1, 1), dpfast.Gaussian(1)][i % 3]
        for n in (50, 5000):
            found.add(mechanism.release(np.zeros(n, float if i % 3 else int))[:50].tobytes())
        dpfast.ChaCha20()
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors, errors
print(len(found))
"""


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="with the interpreter's lock it cannot fail"
)
def test_threads_whose_calls_are_the_first_of_a_process() -> None:
    """cffi lays structs out at their first use. CPython 3.13t without its lock failed here."""
    for _ in range(3):
        assert int(python(FIRST)) == 12


def test_an_import_makes_all_functions_and_structs() -> None:
    """By one thread: a child that is forked while cffi makes one in another waits for ever."""
    assert set(tiers.FUNCTIONS) >= set(
        re.findall(r"^[^ /#].*?\b(dpf_\w+)\(", (CSRC / "dpf_abi.h").read_text(), re.MULTILINE)
    )
    assert set(tiers.STRUCTS) == set(re.findall(r"^\} (dpf_\w+);", (CSRC / "dpf_abi.h").read_text(), re.MULTILINE))
