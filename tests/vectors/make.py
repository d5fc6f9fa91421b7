# SPDX-License-Identifier: Apache-2.0
"""Write the golden file of each law named, or of all: `python tests/vectors/make.py laplace`.

Each row's first 32 draws come from the portable block function and the exact tier, the digest of
20,000 from the portable build. Scales (tests/laws.py): the range's ends, one for each word width,
tier, kernel and way of drawing; starts: 0, one inside a group or pair, one that carries.
"""

from __future__ import annotations

import hashlib
import json
import sys
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import tiers  # noqa: E402  it lies in the folder above
from laws import BY_NAME, Law, exact_draws, filled  # noqa: E402

KEY = bytes(range(32))


def row(law: Law, scale: Fraction, start: int) -> dict[str, object]:
    mech, key, offsets = law.make(scale), tiers.StreamKey(KEY), law.offset(20_000)
    exact = exact_draws(law, mech, tiers.reader(mech, key), start, offsets[:32])
    draws = filled(law, tiers.bulk_plan(mech), key, start, offsets, constant_work=False)
    assert draws[:32] == exact
    digest = hashlib.sha256(repr(draws).encode()).hexdigest()
    return {law.parameter: str(scale), "key": KEY.hex(), "start": str(start), "draws": exact, "sha256": digest}


if __name__ == "__main__":
    for name in sys.argv[1:] or [law.name for law in BY_NAME.values() if law.vectors]:
        lines = ",\n".join(json.dumps(row(BY_NAME[name], scale, start)) for scale, start in BY_NAME[name].vectors)
        (HERE / f"{name}.json").write_text(f"[\n{lines}\n]\n")
