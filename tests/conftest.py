# SPDX-License-Identifier: Apache-2.0
"""Keys for statistical tests: fixed, unless DPFAST_FRESH_KEYS asks for the operating system's."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiers
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from places import TESTS
from proofs import set_mode_in

from dpfast.testing import fixed_key

pytest_plugins = ["skips"]
collect_ignore = ["planted"]  # what test_extension.py puts into a copy of the tree
# Else an example that loads numba fails by the clock, and so does one on a busy machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


gc.set_threshold(100_000)  # not 700: what tests make by the thousand is hardly ever garbage
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # where pytest keeps what failed
_scratch = tempfile.TemporaryDirectory(prefix="dpfast-tests-")  # all else is gone when the process ends
os.environ["TMPDIR"] = tempfile.tempdir = _scratch.name


@pytest.fixture
def secret() -> Callable[[str], bytes]:
    """Thirty-two bytes for a label."""

    def make(label: str) -> bytes:
        if os.environ.get("DPFAST_FRESH_KEYS"):
            return os.urandom(32)
        return tiers.secret_of(fixed_key(1).derive(label))

    return make


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """set_mode(rounding, flush) of this thread, as a host may have left it."""
    return set_mode_in(tmp_path_factory.mktemp("mode"))


@pytest.fixture(autouse=True)
def _own_plans() -> None:
    """No test's mechanisms share a plan with another test's, and no test meets another's labels."""
    tiers.forget_equals()
    tiers.forget_labels()


@pytest.hookimpl(trylast=True)  # once its fixtures are gone
def pytest_runtest_teardown() -> None:
    """No test leaves a rounding mode, or an exception that would be the context of others."""
    assert sys.exc_info()[1] is None
    assert 1 + 2.0**-53 == 1
    assert -1 - 2.0**-53 == -1
    assert 2.0**-1073 / 2 > 0


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Garbage is looked for in what tests make, not in all that their modules hold."""
    gc.collect(1)  # what is older was looked through twice
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Each of several processes begins at another file: what one has compiled, the others load.

    Tests and kernels are compiled when they are first imported. What is collected stays, so no
    garbage is looked for meanwhile.
    """
    config, own = session.config, getattr(session.config, "workerinput", None)
    if own and [Path(each).resolve() for each in config.args] == [TESTS]:
        files = [str(path) for path in sorted(TESTS.glob("*/test_*.py"))]
        first = len(files) * int(own["workerid"].removeprefix("gw")) // own["workercount"]
        config.args[:] = files[first:] + files[:first]
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All processes have one order of files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """One of several processes hands on a test that went well in one report, not in five messages.

    These took a fortieth of all time. --durations asks for each part of a test.
    """
    if not hasattr(item.config, "workerinput") or item.config.getoption("durations") is not None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True
