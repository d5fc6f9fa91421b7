# SPDX-License-Identifier: Apache-2.0
"""Would the self-check alone notice? Lines of C are spoilt one by one.

tests/miscompiled.py has the lines and what builds them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

from miscompiled import CELLS, FUSED, PLAIN, SERIES, SPOILT, Spoilt, build, found_by_the_self_check

from dpfast import _native

LEAST = Fraction(95, 100)  # so many are noticed on each instruction set, or the check fails
FEW = {"an undecided acceptance goes on to the next candidate", "one refined real has two steps for one"}


def check(*, cheap: bool) -> dict[str, Any]:
    """Counts, for each instruction set, the spoilt lines and those noticed, and names the others.

    Two builds at a time.
    Raises: AssertionError (the C as it is is refused; too few are noticed).
    """
    names = [_native.ISA_NAMES[isa] for isa in (_native.ISAS[:1] if cheap else _native.ISAS)]
    tried = [spoilt for spoilt in SPOILT if spoilt.name in FEW or not cheap]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:

        def notices(at: int, spoilt: Spoilt | None) -> dict[str, bool]:
            return noticed(Path(folder) / str(at), spoilt, names)

        found = list(pool.map(notices, range(len(tried) + 1), [None, *tried]))
    assert not any(found[0].values()), "the self-check refuses the C as it is"
    return {name: score([(s, f[name]) for s, f in zip(tried, found[1:], strict=True) if name in f]) for name in names}


def noticed(folder: Path, spoilt: Spoilt | None, names: Sequence[str]) -> dict[str, bool]:
    """On which instruction sets that have the line the self-check notices that it is spoilt."""
    folder.mkdir()
    of_all = {PLAIN: {"portable"}, FUSED: {*names} - {"portable"}, CELLS: {"avx512"}, SERIES: {*names} - {"avx512"}}
    having = [name for name in names if spoilt is None or name in of_all.get(spoilt.builds, names)]
    if not having:
        return {}
    library = build(folder, spoilt, having)
    return {name: found_by_the_self_check(library, isa) for isa, name in enumerate(having)}


def score(found: Sequence[tuple[Spoilt, bool]]) -> dict[str, Any]:
    """The figures of one instruction set. Raises: AssertionError (too few are noticed)."""
    alive = [spoilt.name for spoilt, is_noticed in found if not is_noticed]
    assert len(alive) <= (1 - LEAST) * len(found), f"the self-check does not notice: {', '.join(alive)}"
    return {"spoilt": len(found), "noticed": len(found) - len(alive), "survivors": alive}
