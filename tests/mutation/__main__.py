# SPDX-License-Identifier: Apache-2.0
"""`PYTHONPATH=tests python -m mutation WORD…` tries the mutants whose names or files have a word.

As many at a time as there are cores. `.ci/deep mutation` tries all, and keeps the figures. With
`--fast` before the words, only tests that are not slow may notice: a mutant's own, and then all.
"""

from __future__ import annotations

import sys

from deep.record import show

from mutation.runner import ALL, CORES, FAST, listed, survivors

if __name__ == "__main__":
    fast, words = sys.argv[1:2] == ["--fast"], [word for word in sys.argv[1:] if word != "--fast"]
    chosen = [each for each in listed() if any(word in f"{each.name} {each.file}" for word in words)]
    if not chosen:
        sys.exit("usage: PYTHONPATH=tests python -m mutation [--fast] WORD…")
    found = survivors(chosen, workers=CORES, marks=FAST if fast else ALL, told=show)
    if fast and found:
        left = [each._replace(tests="") for each in chosen if each.name in found]
        found = survivors(left, marks=FAST, told=show)
    sys.exit(f"no test notices: {', '.join(found)}" if found else 0)
