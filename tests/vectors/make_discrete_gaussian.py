# SPDX-License-Identifier: Apache-2.0
"""Write discrete_gaussian.json: `python tests/vectors/make_discrete_gaussian.py`.

The first 32 draws of each row come from the portable block function and the exact tier alone; the digest of 20,000 from
the portable build. Sigmas: the ends of the range, both sides of inversion, each word width and number of candidates;
starts: 0, one inside a pair, one that carries into the counter's upper word.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from dpfast import DiscreteGaussian, _native

KEY = bytes(range(32))
ROWS = [
    (Fraction(1, 1000), 0), (Fraction(1, 3), 5), (Fraction(1), 0), (Fraction(10), 2**41 + 100), (Fraction(128), 1),
    (Fraction(129), 64), (Fraction(1000), 2**40 + 77), (Fraction(10**4), 0), (Fraction(2**20), 2**39 + 3), (Fraction(10**9), 2**63 - 20_001),
]  # fmt: skip


def row(sigma: Fraction, start: int) -> dict[str, object]:
    mech, key = DiscreteGaussian(sigma), _native.StreamKey(KEY)
    read = mech._reader(key, mech._bulk_plan.width)
    exact = [mech._law.draw(read, i) for i in range(start, start + 32)]
    draws = mech._bulk_plan.fill(key, start, 20_000, constant_work=False, isa=0)
    assert draws[:32] == exact
    digest = hashlib.sha256(repr(draws).encode()).hexdigest()
    return {"sigma": str(sigma), "key": KEY.hex(), "start": str(start), "draws": exact, "sha256": digest}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row(sigma, start)) for sigma, start in ROWS)
    (Path(__file__).parent / "discrete_gaussian.json").write_text(f"[\n{lines}\n]\n")
