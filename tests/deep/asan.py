# SPDX-License-Identifier: Apache-2.0
"""No access outside an array: numba's bounds checks, ASan and UBSan; each catches a defect."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from places import ROOT, every_test_file

TESTS = ("arrays", "bounded_histogram", "bounded_rows", "changing_arrays", "discrete_gaussian", "discrete_laplace", "fixed_point_sum", "gaussian",
         "laplace", "one_sided_geometric", "randomized_response", "real_arrays", "saturation", "selection", "small", "thresholded",
         "trees")  # fmt: skip
SANITIZE = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"

A_FEW = """
import numpy as np, dpfast
assert dpfast.RandomizedResponse.two_coin(0.5).release(np.ones(5000, np.int64)).max() <= 1
assert dpfast.RandomizedResponse(1, 5).release(np.arange(5)).max() < 5
assert dpfast.DiscreteLaplace(1, 10).release(np.zeros(5000, np.int64)).any()
assert dpfast.fixed_point_sum(np.ones(5000), lower=0, upper=1, granularity=0.25, adjacency="add-remove")[0] == 20_000
"""
PLANTED = """
import numpy as np, dpfast
dpfast.RandomizedResponse.two_coin(0.5).release(np.full(5000, 2**50))
"""
CHECK = "if said.size and not (said.min() >= 0 and said.max() < self.categories):"


def _copy(folder: Path) -> Path:
    """What a build and the tests need."""
    for name in ("csrc", "dpfast", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def _python(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PYTHONPATH": str(home), "NUMBA_CACHE_DIR": str(home / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=home, env=os.environ | known | environment, capture_output=True, text=True, check=False
    )  # fmt: skip


def _tests(home: Path, **environment: str) -> int:
    """How many tests of kernels passed; raises if one did not."""
    files = [str(every_test_file(home / "tests")[f"test_{name}.py"]) for name in TESTS]
    run = _python(home, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, **environment)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    found = re.search(r"(\d+) passed", run.stdout)
    assert found
    return int(found[1])


def _caught(home: Path, says: str, **environment: str) -> bool:
    """The planted defect ends the script with the guard's message; without it nothing does."""
    whole = _python(home, "-c", A_FEW, **environment)
    assert whole.returncode == 0, whole.stderr[-4000:]
    place = home / "dpfast" / "noise" / "mechanisms" / "randomized_response.py"
    text = place.read_text()
    assert text.count(CHECK) == 1
    place.write_text(text.replace(CHECK, "if False:"))
    planted = _python(home, "-c", PLANTED, **environment)
    place.write_text(text)
    return planted.returncode != 0 and says in planted.stderr


def _sanitized(home: Path) -> dict[str, str]:
    """Build the extension in the copy with the sanitizers; the environment that it needs."""
    flags = {"CFLAGS": SANITIZE, "LDFLAGS": SANITIZE}
    for built in (home / "dpfast").glob("*.so"):
        built.unlink()
    build = _python(home, "setup.py", "-q", "build_ext", "--inplace", PYTHONPATH="", **flags)
    assert build.returncode == 0, build.stderr[-4000:]
    where = subprocess.run(
        [os.environ.get("CC", "cc"), "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    # Python keeps what it allocates at its start for good.
    return {"LD_PRELOAD": where.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "NUMBA_CACHE_DIR": str(home / "asan")}


def check(*, cheap: bool) -> dict[str, object]:
    """Run tests of kernels, or a few releases, under both guards; both catch the planted defect."""
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = _copy(Path(folder))
        bounds = {"NUMBA_BOUNDSCHECK": "1"}
        assert _caught(home, "IndexError", **bounds)
        figures["planted, bounds checks"] = "caught"
        if not cheap:
            figures["tests under bounds checks"] = _tests(home, **bounds)
            sanitizers = _sanitized(home)
            assert _caught(home, "AddressSanitizer", **sanitizers)
            figures["planted, sanitizers"] = "caught"
            figures["tests under sanitizers"] = _tests(home, **sanitizers)
    return figures
