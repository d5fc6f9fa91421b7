# SPDX-License-Identifier: Apache-2.0
"""How the extension is built, as far as it shows here; tests/deep/builds.py makes all builds."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiers
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


def test_on_windows_clang_cl_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own flags, and none of GCC's for the linker. No Windows has built it yet."""
    here = runpy.run_path(str(ROOT / "csrc/build_ffi.py"))["FLAGS"]
    monkeypatch.setattr(sys, "platform", "win32")
    built = runpy.run_path(str(ROOT / "csrc/build_ffi.py"))
    assert built["FLAGS"] == [f"/clang:{flag}" for flag in here if flag != "-fvisibility=hidden"]
    _, text, _, how = tiers.to_build(built["ffi"])
    assert (how["extra_link_args"], how["libraries"]) == ([], ["advapi32"])
    assert "alloca.h" not in text

    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    monkeypatch.chdir(ROOT)
    building = runpy.run_path(str(ROOT / "setup.py"))["BuildExtension"]
    compiler = SimpleNamespace(
        compiler_type="msvc", cc="cl.exe", compile_options=["/O2", "/GL"], initialize=lambda: None
    )
    asked = SimpleNamespace(compiler=compiler, chosen=lambda: building.chosen(asked))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="the C compiler 'clang-cl' .*cannot be found"):
        building.build_extensions(asked)
    assert (compiler.cc, compiler.compile_options) == ("clang-cl", ["/O2"])
