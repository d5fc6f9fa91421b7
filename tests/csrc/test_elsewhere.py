# SPDX-License-Identifier: Apache-2.0
"""What csrc does on other systems, as far as Linux shows it; tests/elsewhere.sh has the rest."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tiers
from places import TESTS
from proofs import CSRC

from dpfast import DiscreteLaplace

STRICT = "-std=c11", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{CSRC}"
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine's builds have no CPUID")


def built(folder: Path, sources: list[Path], *flags: str, compiler: str = "gcc") -> Path:
    program = folder / "program"
    subprocess.run([compiler, *STRICT, *flags, "-o", program, *sources], check=True, timeout=100)
    return program


def said(*command: object) -> list[str]:
    run = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=100)
    return run.stdout.split()


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """A copy of a C file in which one place is another."""
    text = (CSRC / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))
    return folder / name


# ------------------------------------------------------------------ a fork that nobody wipes

HANDLER = "failed = pthread_atfork(NULL, NULL, in_child);"
FORKED = [TESTS / "c/forked.c", CSRC / "bit_generator.c", CSRC / "chacha.c"]


@pytest.mark.parametrize("threads", [0, 2])
def test_without_the_systems_wipe_a_handler_wipes(threads: int, tmp_path: Path) -> None:
    """No child of C's fork has a word of its parent, beside threads that make generators."""
    program = built(tmp_path, FORKED, "-pthread")
    assert said(program, threads) == ["0", "0", "1", "1"]


def test_without_the_handler_a_child_repeats_its_parent(tmp_path: Path) -> None:
    changed(tmp_path, "entropy.c", HANDLER, "failed = 0;")
    program = built(tmp_path, FORKED, "-pthread", "-w", "-iquote", str(tmp_path))
    assert said(program)[:2] == ["64", "64"]


def test_without_memory_for_the_handler_there_is_no_generator(tmp_path: Path) -> None:
    changed(tmp_path, "entropy.c", HANDLER, "failed = 12;")
    program = built(tmp_path, FORKED, "-pthread", "-w", "-iquote", str(tmp_path))
    assert subprocess.run([program], check=False).returncode == 2


# ------------------------------------------------------------------ CPUID

NAMES = {"fma": "fma", "popcnt": "popcnt", "bmi": "bmi1", "bmi2": "bmi2", "avx2": "avx2"}
TELLS = """
#include "dpf_impl.h"
#include <stdio.h>
#define TELL(name) (void)(dpf_cpu() >> DPF_CPU_##name & 1 ? puts(#name) : 0)
int main(void) {
    %s
    return 0;
}
"""


def features() -> dict[str, str]:
    """Each feature that is asked for, and Linux's name for it."""
    names = re.findall(r"DPF_CPU_(\w+) = ", (CSRC / "dpf_impl.h").read_text())
    return {name: NAMES.get(name, name) for name in names if name != "xsave"}


def of_linux() -> set[str]:
    found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert found
    return set(found[1].split())


def tells(folder: Path) -> Path:
    program = folder / "tells.c"
    program.write_text(TELLS % "\n    ".join(f"TELL({name});" for name in features()))
    return program


@ON_X86
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_features_are_those_of_linux(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = built(tmp_path, [tells(tmp_path), CSRC / "cpu.c"], compiler=compiler)
    assert set(said(program)) == {name for name, linux in features().items() if linux in of_linux()}


@ON_X86
def test_sets_are_those_whose_features_are_there() -> None:
    """Each set of this library asks for all that it is compiled with, and no more."""
    for isa, name in tiers.ISA_NAMES.items():
        text = (CSRC / f"isa_{name}.c").read_text()
        needs = set(re.findall(r"F\((\w+)\)", text))
        assert needs <= features().keys()
        assert (isa in tiers.ISAS) == ({NAMES.get(need, need) for need in needs} <= of_linux())


@ON_X86
@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ('__asm__ volatile("cpuid"', '__asm__ volatile("xorl %%eax, %%eax; xorl %%ebx, %%ebx; xorl %%ecx, %%ecx; xorl %%edx, %%edx"', r"\w+"),
        ("registers = kept();", "registers = kept() & 0x6;", r"avx512\w+"),
        ("registers = kept();", "registers = kept() & 0xe2;", r"avx\w+|fma"),
        ("registers = kept();", "registers = kept() & 0;", r"avx\w+|fma"),
    ],
)  # fmt: skip
def test_no_answer_means_no_feature(old: str, new: str, gone: str, tmp_path: Path) -> None:
    """A CPU that says nothing, and systems that keep less than its registers."""
    program = built(tmp_path, [tells(tmp_path), changed(tmp_path, "cpu.c", old, new)])
    there = {name for name, linux in features().items() if linux in of_linux()}
    assert set(said(program)) == {name for name in there if not re.fullmatch(gone, name)}


# ------------------------------------------------------------------ types by their bytes


def test_kinds_are_by_bytes_and_not_by_letter() -> None:
    """Two letters for the same bytes are one kind; a foreign order and other types are none."""
    for letter in "bBhHiIlLqQpPfd":
        kind = np.dtype(letter)
        assert tiers.KINDS[kind] == tiers.KINDS[np.dtype(f"{kind.kind}{kind.itemsize}")], letter
        assert kind.itemsize == 1 or kind.newbyteorder() not in tiers.KINDS
    assert len(set(tiers.KINDS.values())) == len(tiers.KINDS) == 10
    assert not {np.dtype(name) for name in ("?", "e", "g", "F", "m8[s]", "M8[s]", "S8", "O")} & tiers.KINDS.keys()


def test_few_values_of_a_second_letter_take_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few of the first letter do, and with the results' type."""
    seen = tiers.small_calls(monkeypatch)
    assert DiscreteLaplace(1, 10).release(np.arange(10, dtype=np.longlong)).dtype == np.int64
    assert seen[-1]
