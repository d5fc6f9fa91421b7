# SPDX-License-Identifier: Apache-2.0
"""Write laplace.json: `python tests/vectors/make_laplace.py`.

The first 32 draws of each row come from the portable block function and the exact tier alone, the digest of 20,000 from
the portable build, both with the noise of draw i begun at (37 i mod 65 - 32)/66 on the grid. Ratios of scale and
granularity: one for each word width, tier and kernel, the ends of the range; starts: 0, one inside a group, one that
carries into the counter's upper word.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from dpfast import Laplace, _native

KEY = bytes(range(32))
ROWS = [
    (Fraction(1, 2**60), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(1000), 2**41 + 100), (Fraction(2**20 * 13, 9), 1),
    (Fraction(2**21), 2**40 + 77), (Fraction(10**9), 0), (Fraction(10**12), 2**39 + 3), (Fraction(2**44), 0),
    (Fraction(10**15), 0), (Fraction(2**60), 2**63 - 20_001),
]  # fmt: skip


def row(ratio: Fraction, start: int) -> dict[str, object]:
    mech, key = Laplace(1, ratio, 1), _native.StreamKey(KEY)
    offset = [(i * 37 % 65 - 32) / 66 for i in range(20_000)]
    read = mech._reader(key, mech._bulk_plan.width)
    exact = [mech._law.draw(read, start + i, Fraction(offset[i])) for i in range(32)]
    draws = mech._bulk_plan.fill(key, start, 20_000, constant_work=False, isa=0, offset=offset)
    assert draws[:32] == exact
    digest = hashlib.sha256(repr(draws).encode()).hexdigest()
    return {"ratio": str(ratio), "key": KEY.hex(), "start": str(start), "draws": exact, "sha256": digest}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row(ratio, start)) for ratio, start in ROWS)
    (Path(__file__).parent / "laplace.json").write_text(f"[\n{lines}\n]\n")
