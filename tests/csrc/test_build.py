# SPDX-License-Identifier: Apache-2.0
"""How the extension is built, as far as it shows here; tests/deep/builds.py makes all builds."""

from __future__ import annotations

from pathlib import Path

from places import ROOT

from dpfast import _dpf


def test_the_test_extra_can_build_in_place() -> None:
    """`setup.py build_ext --inplace` runs: `test`, and so `dev`, have what it requires."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) <= set(project["project"]["optional-dependencies"]["test"])
    assert "dpfast[test]" in project["project"]["optional-dependencies"]["dev"]


def test_no_debug_information_is_installed() -> None:
    """It would be two thirds of the library."""
    assert b".debug_info" not in Path(_dpf.__file__).read_bytes()
