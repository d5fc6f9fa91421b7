# SPDX-License-Identifier: Apache-2.0
"""How the extension is built, as far as it shows here; tests/deep/builds.py makes all builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from fresh import python

from dpfast import _dpf

ROOT = Path(__file__).parents[1]


def test_the_test_extra_can_build_in_place() -> None:
    """`setup.py build_ext --inplace` runs: `test`, and so `dev`, have what it requires."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["build-system"]["requires"]) <= set(project["project"]["optional-dependencies"]["test"])
    assert "dpfast[test]" in project["project"]["optional-dependencies"]["dev"]


def test_no_debug_information_is_installed() -> None:
    """It would be two thirds of the library."""
    assert b".debug_info" not in Path(_dpf.__file__).read_bytes()


def test_an_instruction_set_is_a_file_and_a_line_and_a_law_a_header_and_two_lists(tmp_path: Path) -> None:
    """Planted in a copy: an instruction set, listed first, and a law; each draws as before."""
    csrc = tmp_path / "csrc"
    for name in ("csrc", "dpfast"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "*.o", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)

    def plant(name: str, old: str, new: str) -> None:
        text = (csrc / name).read_text()
        assert text.count(old) >= 1
        (csrc / name).write_text(text.replace(old, new))

    portable, laplace = (csrc / "isa_portable.c").read_text(), (csrc / "laplace.h").read_text()
    (csrc / "isa_planted.c").write_text(
        portable.replace("dpf_isa_portable", "dpf_isa_planted").replace('"portable"', '"planted"')
    )
    plant("dispatch.c", "F(portable)", "F(portable) F(planted)")
    (csrc / "planted.h").write_text(laplace.replace("laplace_", "planted_"))
    plant("dpf_abi.h", "    DPF_LAWS = 5", "    DPF_PLANTED = 5,\n    DPF_LAWS = 6")
    plant("isa.h", '#include "laplace.h"\n', '#include "laplace.h"\n#include "planted.h"\n')
    plant("isa.h", "[DPF_LAPLACE] =", "[DPF_PLANTED] = {planted_fill, planted_tier}, [DPF_LAPLACE] =")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"CFLAGS": "-O1"}
    )
    assert built.returncode == 0, built.stderr
    told = python(
        """
        from dpfast import Laplace, _native
        names = {name: isa for isa, name in _native.ISA_NAMES.items()}
        laplace, key, offset = Laplace(1, 1000, granularity=1), _native.StreamKey(bytes(32)), [0.25] * 700
        planted = _native.Plan("planted", **laplace._constants())
        found = {
            tuple(plan.fill(key, 5, 700, constant_work=constant_work, isa=_native.checked(isa), offset=offset))
            for isa in _native.ISAS for plan in (laplace._bulk_plan, planted) for constant_work in (False, True)
        }
        print(names["planted"] in _native.ISAS, len(found), len(set(*found)))
        """,
        home=tmp_path,
    ).split()  # fmt: skip
    assert told[:2] == ["True", "1"]
    assert int(told[2]) > 300
