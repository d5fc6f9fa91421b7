# SPDX-License-Identifier: Apache-2.0
"""Would the tests notice? Lines on which privacy depends are spoilt one by one in a copy.

tests/mutation/ has the mutants and what runs them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from mutation.depends import paths
from mutation.mutant import Mutant
from mutation.runner import listed, stale, survivors

LEAST = Fraction(95, 100)  # so many mutants are killed, or the check fails
FEW = {"6 is a power of two", "-1 is the largest of 64 bits"}

# To show that the check can tell: a comment, which no test may notice.
HARMLESS = Mutant("nothing", "dpfast/privacy/parameters.py", "found = int(value)\n", "found = int(value)  # as it is\n",
                  "test_parameters.py -k power_of_two")  # fmt: skip


def named(mutant: Mutant) -> str:
    """The case of a mutant: another one once its text or its tests are others."""
    return f"{mutant.name} ({hashlib.sha256(repr(mutant).encode()).hexdigest()[:6]})"


def cases(root: Path) -> dict[str, list[str]]:
    """The files that each mutant's verdict depends on."""
    return {named(mutant): paths(mutant, root) for mutant in listed()}


def check(*, cheap: bool, only: Sequence[str] = (), before: dict[str, Any] | None = None) -> dict[str, object]:
    """Counts mutants and those killed, and names the others. A whole run takes two cores.

    only: the cases that are tried; of the others stands what was found before.
    Raises: AssertionError (more than one in twenty survives; the planted survivor does not).
    """
    mutants = listed()
    assert not (old := stale(mutants)), f"their old text is not there once: {', '.join(old)}"
    chosen = [mutant for mutant in mutants if not only or named(mutant) in only]
    tried = [mutant for mutant in chosen if mutant.name in FEW or not cheap]
    found = survivors([HARMLESS, *tried], workers=1 if cheap else 2)
    assert HARMLESS.name in found, "an edit that changes nothing was called a mutant"
    known = {mutant.name for mutant in mutants if mutant not in tried}
    kept = [name for name in before["survivors"] if name in known] if before else []
    return score(mutants if only else tried, [name for name in found if name != HARMLESS.name] + kept)


def score(tried: Sequence[Mutant], alive: list[str]) -> dict[str, object]:
    """The figures. Raises: AssertionError (too few were killed)."""
    killed = len(tried) - len(alive)
    assert killed >= LEAST * len(tried), f"no test notices: {', '.join(alive)}"
    return {"mutants": len(tried), "killed": killed, "survivors": alive}
