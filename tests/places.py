# SPDX-License-Identifier: Apache-2.0
"""Where things lie: the tree, its tests, and a test file by its name, whatever its room."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
VECTORS = TESTS / "vectors"


def every_test_file(tests: Path = TESTS) -> dict[str, Path]:
    """Path of each file of tests by its name: no two rooms have one of the same name."""
    return {path.name: path for path in sorted(tests.rglob("test_*.py")) if "planted" not in path.parts}
