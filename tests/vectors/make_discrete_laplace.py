# SPDX-License-Identifier: Apache-2.0
"""Write discrete_laplace.json: `python tests/vectors/make_discrete_laplace.py`.

The first 32 draws of each row come from the portable block function and the exact tier alone; the digest
of 20,000 from the portable build. Scales: one for each word width and tier, the ends of the range; starts:
0, one inside a group, one that carries into the counter's upper word.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from dpfast import DiscreteLaplace, _native

KEY = bytes(range(32))
ROWS = [
    (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(10), 2**41 + 100), (Fraction(128), 1),
    (Fraction(1000), 0), (Fraction(2**20), 2**40 + 77), (Fraction(10**9), 0), (Fraction(10**12), 2**39 + 3),
    (Fraction(10**15), 0), (Fraction(2**60), 2**63 - 20_001),
]  # fmt: skip


def row(scale: Fraction, start: int) -> dict[str, object]:
    mech, key = DiscreteLaplace(1, scale), _native.StreamKey(KEY)
    width = mech._bulk_plan.width
    exact = [mech._law.draw(lambda i, r: mech._digits(key, width, i, r), i) for i in range(start, start + 32)]
    draws = mech._bulk_plan.fill(key, start, 20_000, constant_work=False, isa=0)
    assert draws[:32] == exact
    digest = hashlib.sha256(repr(draws).encode()).hexdigest()
    return {"scale": str(scale), "key": KEY.hex(), "start": str(start), "draws": exact, "sha256": digest}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row(scale, start)) for scale, start in ROWS)
    (Path(__file__).parent / "discrete_laplace.json").write_text(f"[\n{lines}\n]\n")
