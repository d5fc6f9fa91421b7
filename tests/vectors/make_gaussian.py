# SPDX-License-Identifier: Apache-2.0
"""Write gaussian.json: `python tests/vectors/make_gaussian.py`.

Draws on the grid, about 0. The first 32 of each row come from the portable block function and the exact tier alone; the
digest of 20,000 from the portable build. Ratios of sigma and granularity: one for each word width and tier, the ends of
the range; starts: 0, one inside a pair, one that carries into the counter's upper word.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from dpfast import Gaussian, _native

KEY = bytes(range(32))
ROWS = [
    (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 64), (Fraction(10), 2**41 + 100), (Fraction(2**21), 1),
    (Fraction(10**9, 7), 2**40 + 77), (Fraction(2**40), 0), (Fraction(2**48), 2**39 + 3), (Fraction(2**60), 2**63 - 20_001),
]  # fmt: skip


def row(ratio: Fraction, start: int) -> dict[str, object]:
    mech, key = Gaussian(ratio, granularity=1), _native.StreamKey(KEY)
    read = mech._reader(key, mech._bulk_plan.width)
    exact = [mech._law.draw(read, i, Fraction(0)) for i in range(start, start + 32)]
    draws = mech._bulk_plan.fill(key, start, 20_000, constant_work=False, isa=0)
    assert draws[:32] == exact
    digest = hashlib.sha256(repr(draws).encode()).hexdigest()
    return {"ratio": str(ratio), "key": KEY.hex(), "start": str(start), "draws": exact, "sha256": digest}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row(ratio, start)) for ratio, start in ROWS)
    (Path(__file__).parent / "gaussian.json").write_text(f"[\n{lines}\n]\n")
