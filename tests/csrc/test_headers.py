# SPDX-License-Identifier: Apache-2.0
"""Headers of csrc/ include what they use: each compiles alone, for the portable instruction set.

And the unit that has most of them compiles without a warning where nothing is optimized, as for
threads in .ci/run: there intrinsics are macros, and helpers are calls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT

CSRC = ROOT / "csrc"
ABI = "dpf_abi.h"  # which cffi reads: it has no preprocessor, and dpf_impl.h gives it its types
HEADERS = sorted(path.name for path in CSRC.glob("*.h") if path.name != ABI)
COMMAND = [
    *("gcc", "-std=c11", "-fsyntax-only", "-x", "c", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-DPy_LIMITED_API=0x030b0000"),
    *(f"-I{CSRC}", "-isystem", sysconfig.get_path("include")),
]  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """What the compiler says of a file that includes a header and nothing else.

    Of all intrinsics, 40,000 lines that each file would read, it has those of SSE2, by which the
    portable instruction set stores.
    """
    few = tmp_path_factory.mktemp("intrinsics")
    (few / "immintrin.h").write_text("#include <emmintrin.h>\n")

    def compiled(header: Path) -> str:
        text = f'#include "{header}"\n'
        command = [*COMMAND, f"-I{few}", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stderr

    return compiled


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_compiles_alone(said: Callable[[Path], str], name: str) -> None:
    assert said(CSRC / name) == ""


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        pytest.param("laplace.h", "extended.h", marks=pytest.mark.slow),
        pytest.param("refine.h", "stream.h", marks=pytest.mark.slow),
        ("stream.h", "chacha.h"),
    ],
)
def test_a_header_that_leans_on_others_is_found(
    said: Callable[[Path], str], tmp_path: Path, name: str, left_out: str
) -> None:
    text = (CSRC / name).read_text()
    assert text.count(f'#include "{left_out}"\n') == 1
    leaning = shutil.copy(CSRC / name, tmp_path / name)
    assert said(leaning) == ""
    leaning.write_text(text.replace(f'#include "{left_out}"\n', ""))
    assert "error" in said(leaning)


def test_a_unit_compiles_without_a_warning_unoptimized() -> None:
    strict = "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Wno-psabi", "-Werror"
    command = ["gcc", "-std=c11", "-O0", "-S", "-o", os.devnull, *strict, f"-I{CSRC}", CSRC / "isa_avx512.c"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
