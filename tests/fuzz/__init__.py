# SPDX-License-Identifier: Apache-2.0
"""Fuzzing guided by coverage: four targets, each with what must hold whatever the input is.

A target is a class of a module of this package: it is made in a scratch folder, gives `seeds`, and
is called with bytes. It raises Finding if a call broke a promise. `.ci/deep fuzz` runs the targets
under atheris; corpus/ keeps small inputs that reach new branches, which test_fuzz.py replays.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

TARGETS = "api", "files", "ledger", "manifest"
CORPUS = Path(__file__).with_name("corpus")
CPU_LIMIT = 30.0  # seconds of CPU for one input: a thousand times what most take


class Finding(Exception):  # noqa: N818  it is what was found
    """A call broke a promise."""


def must(holds: bool, otherwise: str) -> None:
    """Raises: Finding."""
    if not holds:
        raise Finding(otherwise)


class TooLong(BaseException):
    """An input took more CPU time than CPU_LIMIT."""


class Target(Protocol):
    """Made in an empty folder, which it may fill."""

    def __init__(self, folder: Path) -> None: ...

    def seeds(self) -> Iterable[bytes]:
        """Inputs to begin with."""

    def __call__(self, data: bytes) -> None:
        """Try one input. Raises: Finding."""


def target(name: str) -> Any:
    """The class of a target."""
    return importlib.import_module(f"fuzz.{name}").Target


def corpus(name: str) -> dict[str, bytes]:
    """The inputs that are kept in the repository, by name."""
    path = CORPUS / f"{name}.zip"
    if not path.is_file():
        return {}
    with zipfile.ZipFile(path) as packed:
        return {each: packed.read(each) for each in packed.namelist()}


@contextlib.contextmanager
def within(seconds: float = CPU_LIMIT) -> Iterator[None]:
    """Raise TooLong in a call that takes more CPU time; a busy machine changes nothing."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judged(one: Target, data: bytes) -> str | None:
    """What is wrong with an input, in words; None if nothing is."""
    try:
        with within():
            one(data)
    except Finding as found:
        return str(found)
    except TooLong:
        return f"took more than {CPU_LIMIT:g} s of CPU time"
    return None
