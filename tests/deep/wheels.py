# SPDX-License-Identifier: Apache-2.0
"""Wheels as published: equal in two builds, and that for x86-64 tried on every Python here.

packaging/wheels.sh does the work. It needs the Debian packages gcc and gcc-aarch64-linux-gnu. The
wheel for AArch64 is tried by the check `aarch64`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from places import ROOT

RELEASED = ("csrc/", "packaging/", "pyproject.toml", "setup.py")
SCRIPT = ROOT / "packaging" / "wheels.sh"


def check(*, cheap: bool) -> dict[str, Any]:
    if cheap:
        return _cheap()
    checked = said("check")
    said("build")
    figures: dict[str, Any] = {"archives, equal in two builds": checked}
    for name in [one["name"] for one in checked if one["name"].endswith(".whl")]:
        wheel = str(ROOT / "dist" / name)
        [built] = [one for one in checked if one["name"] == name]
        shown = subprocess.run(["sha256sum", wheel], check=True, capture_output=True, text=True).stdout.split()[0]
        assert shown == built["sha256"], f"{name} in dist/ must be the wheel that was built twice"
        if "x86_64" in name:
            figures["x86-64"] = said("try", wheel)
            assert any(one["tests"] for one in figures["x86-64"]), f"no test ran from {name}"
    return figures


def _cheap() -> dict[str, Any]:
    """The script is sound text, names its parts, and finds two builds that differ."""
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder) / "one", Path(folder) / "two"
        for number, place in enumerate(lists):
            place.write_text(f'{{"name": "dpfast", "sha256": "{number}"}}\n')
        if not shutil.which("git") or not (ROOT / ".git").exists():
            return {"scripts": 1}
        ran = subprocess.run([str(SCRIPT), "equal", *map(str, lists)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    return {"scripts": 1, "planted and found": 1}


def said(*command: str) -> list[dict[str, Any]]:
    """The lines of JSON that the script says; its progress goes to this terminal."""
    ran = subprocess.run([str(SCRIPT), *command], stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise AssertionError(f"wheels.sh {command[0]} ended with {ran.returncode}")
    return [json.loads(line) for line in ran.stdout.splitlines()]
