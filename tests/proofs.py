# SPDX-License-Identifier: Apache-2.0
"""The proofs' programs, Sollya and Gappa; a host's rounding modes (`host`: conftest.py)."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from places import ROOT

CSRC = ROOT / "csrc"
PROOFS = CSRC / "proofs"
MODES = {"ne": 0, "dn": 1, "up": 2, "zr": 3}  # in the order of MXCSR


def tool(name: str) -> str:
    """A program of the proofs; without it tests are skipped (tests/skips.py has them run)."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def said(*command: str | Path, text: str | None = None) -> tuple[int, str]:
    """The exit status of a program, and what it printed."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def certifies(script: Path) -> None:
    """Sollya finds that every bound of the script holds."""
    status, output = said(tool("sollya"), script)
    assert status == 0, output
    assert output.endswith("every bound holds\n")


def refutes(script: str) -> set[str]:
    """The claims of a script that Sollya finds false, by name; there is one."""
    status, output = said(tool("sollya"), text=script)
    assert status != 0
    assert "every bound" not in output
    return set(re.findall("^(.+) FAILS: ", output, re.MULTILINE))


def apart(script: str) -> list[str]:
    """A Gappa script, cut into scripts that share no name: what is proved of each is proved of all.

    Gappa takes its time for whatever a script speaks of, not for its goals alone.
    """
    script = re.sub("#.*", "", script)
    operators = dict(re.findall(r"(@(\w+) = .+;)", script))

    def names(part: str) -> set[str]:  # formats of numbers apart
        return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", re.sub(r"\w+<[^<>=]*>", "", part))) - {
            "in",
            *operators.values(),
        }

    defined, stated, hints = re.split("[{}]", re.sub("@.+;", "", script), maxsplit=2)
    *known, goals = re.split(r"(?<=\]) ->", stated)  # a goal's own arrow stands behind no interval
    kinds = [[part for part in text.split(";") if part.strip()] for text in (defined, hints)]
    kinds += [known, goals.split("/\\")]
    groups: list[set[str]] = []
    for part in itertools.chain(*kinds):
        tied = [group for group in groups if group & names(part)]
        groups = [group for group in groups if group not in tied] + [names(part).union(*tied)]
    scripts = []
    for group in groups:
        mine, by, given, claimed = ([part for part in kind if names(part) & group] for kind in kinds)
        if claimed:
            stated = "->".join([*given, "/\\".join(claimed)])
            text = "".join([*(f"{part};" for part in mine), f"\n{{{stated}}}", *(f"{part};" for part in by)])
            used = [line for line, operator in operators.items() if re.search(rf"\b{operator}\b", text)]
            scripts.append("\n".join([*used, text]))
    assert sum(script.count("/\\") + 1 for script in scripts) == len(kinds[3])
    return scripts


def proves(script: str, mode: str) -> None:
    """Gappa proves every goal of the script in this rounding mode."""
    assert len(re.findall(r"float<ieee_(?:32|64), ne>", script)) == 1
    for part in apart(script.replace(", ne>", f", {mode}>")):
        assert said(tool("gappa"), text=part) == (0, "")


def rejects(script: str, old: str, new: str) -> None:
    """Gappa cannot prove the changed script: the hypotheses do not contradict each other."""
    program, script = tool("gappa"), script.replace(", ne>", ", zr>")
    assert old in script
    changed = [part for part in apart(script.replace(old, new)) if part not in apart(script)]
    ends = [said(program, "-Eno-auto-dichotomy", text=part) for part in changed]
    false = [output for status, output in ends if status != 0]
    assert false
    for output in false:
        assert any(words in output for words in ("some properties were not satisfied", "no contradiction was found"))


def fused(script: str) -> str:
    """The polynomials of a Gappa script as a build with fma evaluates them: one rounding a step."""
    step = re.compile(r"^(\w+) rnd= (\S+) \* (z|w|ww|m|s|t|count) ([+-]) (\S+);$", re.MULTILINE)
    last = re.compile(r"^(b|sine) rnd= (\w+) \* \((\w+) \* (z|w) \+ (\S+)\);$", re.MULTILINE)
    return last.sub(r"\1 = rnd(\2 * rnd(\3 * \4 + \5));", step.sub(r"\1 = rnd(\2 * \3 \4 \5);", script))


def constants(text: str) -> list[float]:
    """The doubles in a stretch of a script, in order, with the sign before each."""
    found = re.findall(r"(-?) ?(0x1(?:\.[0-9a-f]+)?p-\d+)", text)
    return [float.fromhex(sign + digits) for sign, digits in found]


def values(coefficients: tuple[str, ...]) -> list[float]:
    return [float.fromhex(c) for c in coefficients]


@cache
def generator(name: str) -> ModuleType:
    """A script of tools/, which write C and pictures."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where its dataclasses look for their names
    spec.loader.exec_module(module)
    return module


def between(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


SET_MODE = r"""
#if defined(__x86_64__)
enum { OURS = 0x1f80, RAISED = 0x3f };
static const unsigned long roundings[] = {0, 1 << 13, 2 << 13, 3 << 13}, flushes = 0x8040;
static unsigned long now(void) { return __builtin_ia32_stmxcsr(); }
static void set(unsigned long mode) { __builtin_ia32_ldmxcsr((unsigned)mode); }
#elif defined(__aarch64__)
enum { OURS = 0, RAISED = 0 };
static const unsigned long roundings[] = {0, 2 << 22, 1 << 22, 3 << 22}, flushes = 1 << 24;
static unsigned long now(void) { unsigned long mode; __asm__ volatile("mrs %0, fpcr" : "=r"(mode)); return mode; }
static void set(unsigned long mode) { __asm__ volatile("msr fpcr, %0" ::"r"(mode)); }
#else
#error no rounding mode
#endif

void set_mode(int rounding, int flush) {
    set(OURS | roundings[rounding] | (flush ? flushes : 0));
}

int is_put_aside(unsigned long differs, int raised, unsigned long (*enter)(void), void (*leave)(unsigned long)) {
    const unsigned long host = (OURS ^ differs) | (raised ? RAISED : 0);
    set(host);
    const unsigned long before = enter(), inside = now();
    volatile double third = 1.0; /* it is rounded, which is raised */
    third /= 3.0;
    leave(before);
    const unsigned long after = now();
    set(OURS);
    return (inside & ~(unsigned long)RAISED) == OURS && after == host;
}
"""


def set_mode_in(folder: Path) -> ctypes.CDLL:
    """A library with set_mode(rounding, flush), which no C library has whole; and is_put_aside."""
    compiler, source = tool("cc"), folder / "mode.c"
    source.write_text(SET_MODE)
    status, output = said(compiler, "-O1", "-shared", "-fPIC", "-o", source.with_suffix(".so"), source)
    assert status == 0, output
    return ctypes.CDLL(str(source.with_suffix(".so")))


@contextmanager
def entered(host: ctypes.CDLL, mode: str, flush: bool) -> Iterator[None]:
    """This thread's rounding mode, and whether subnormals are taken and left as zeros."""
    host.set_mode(MODES[mode], int(flush))
    try:
        yield
    finally:
        host.set_mode(0, 0)
