# SPDX-License-Identifier: Apache-2.0
"""`PYTHONPATH=tests python -m mutation WORD…` tries the mutants whose names or files have a word.

Two at a time. `.ci/deep mutation` tries all, and keeps the figures.
"""

from __future__ import annotations

import sys

from deep.record import show

from mutation.runner import listed, survivors

if __name__ == "__main__":
    chosen = [each for each in listed() if any(word in f"{each.name} {each.file}" for word in sys.argv[1:])]
    if not chosen:
        sys.exit("usage: PYTHONPATH=tests python -m mutation WORD…")
    found = survivors(chosen, workers=2, told=show)
    sys.exit(f"no test notices: {', '.join(found)}" if found else 0)
