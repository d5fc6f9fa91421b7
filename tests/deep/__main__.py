# SPDX-License-Identifier: Apache-2.0
"""`.ci/deep NAME` runs a long check and keeps its figures; without a name it lists old figures."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime

from call_times import Undecided

from deep.record import ASSURANCE, changed, commit, covered, module, names, old, show


def run(name: str) -> None:
    """Run one check whole and write docs/assurance/NAME.json, with the commit that it ran on."""
    found = module(name)
    if dirty := changed(found):
        sys.exit(f"commit these first, so that the figures belong to a commit:\n{dirty}")
    before, begun = covered(found), time.monotonic()
    try:
        figures = found.check(cheap=False)
    except Undecided as undecided:
        sys.exit(f"{name}: {undecided}")
    record = {
        "check": name,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "covers": before,
        "figures": figures,
    }
    ASSURANCE.mkdir(exist_ok=True)
    (ASSURANCE / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    show(f"{name}: {json.dumps(figures)}")


if __name__ == "__main__":
    if len(sys.argv) > 2 or (sys.argv[1:] and sys.argv[1] not in names()):
        sys.exit(f"usage: .ci/deep [{'|'.join(names())}]")
    if sys.argv[1:]:
        run(sys.argv[1])
    for line in old():
        show(line)
