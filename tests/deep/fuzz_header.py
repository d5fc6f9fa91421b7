# SPDX-License-Identifier: Apache-2.0
"""Whatever a C program hands to dpfast.h: a status that says so, zeros, and no access outside.

tests/c/fuzz.c is a target of libFuzzer, under ASan and UBSan; it needs clang. FUZZ_SECONDS: how
long; FUZZ_KEEP: a folder in which the corpus is kept between runs. Lines of the library are spoilt
one by one in a copy, and each must be found from an empty corpus.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from miscompiled import COMMON, Spoilt, spoil
from places import TESTS

NEEDS = ("clang",)
FLAGS = "-std=c11", "-g", "-O1", "-w", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"
SANITIZE = "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
GUIDED = {"dpfast", "dispatch", "entropy", "plan"}  # whose edges are counted and lead on
FEW, MANY = 5000, 200_000  # inputs of a cheap case, and within which a defect must be found
ASAN, UBSAN = "ERROR: AddressSanitizer", "runtime error: "
# Spoilt lines of the library, and a pattern of what it then says. A cheap case has the first three.
PLANTED = [
    (Spoilt("a failed add leaves what was there", "dpfast.c", "if (status != DPFAST_OK && out != NULL", "if (0 && out != NULL"),
     "a failed add leaves zeros"),
    (Spoilt("bounds may be reversed", "dpfast.c", "if (status == DPFAST_OK && !bounded)", "if (0 && !bounded)"), "what is wrong is refused"),
    (Spoilt("a text is read behind its end", "dpfast.c", "at += 1 + given;", "at += 2;"), f"not so: |{ASAN}"),  # by what lies there
    (Spoilt("an exponent has five digits", "dpfast.c", "places < 4;", "places < 5;"), "what is no number is refused"),
    (Spoilt("a number has any size", "dpfast.c", "if (more != 0 && a->limbs == DPF_RATIO_LIMBS)", "if (0)"), f"{ASAN}|{UBSAN}"),
    (Spoilt("what is not made is not NULL", "dpfast.c", "    *made = NULL;\n", ""), "a noise is made, or there is NULL"),
    (Spoilt("half of what overlaps is seen", "dpfast.c", "(x != y && x < y + length", "(x < y && x < y + length"), "what is wrong is refused"),
    (Spoilt("an array may be of any length", "dpfast.c", "n < 0 || n > MOST_VALUES ||", "n < 0 ||"), f"{ASAN}|{UBSAN}"),
    (Spoilt("what is not finite is taken", "dpfast.c", "how.refuse = 1;", "how.refuse = 0;"), "what is wrong is refused"),
    (Spoilt("an upper bound is one more", "dpfast.c", ".upper = {upper, 0}}", ".upper = {upper + 1, 0}}"), "a result lies within the bounds"),
    (Spoilt("half a key is one", "entropy.c", "        if (got <= 0)\n            return -1;", "        if (got <= 0)\n            return 0;"),
     "what is wrong is refused"),
    (Spoilt("an interrupted key is none", "dispatch.c", "? DPF_AGAIN : DPF_NO_KEY;", "? DPF_NO_KEY : DPF_NO_KEY;"), "what is right is done"),
]  # fmt: skip


def check(*, cheap: bool) -> dict[str, Any]:
    """What was tried and reached, and how many planted defects were found.

    Raises: AssertionError (an input breaks a promise; a planted defect is not found).
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sources = spoil(home, None)
        if cheap:
            dispatch = sources / "dispatch.c"
            dispatch.write_text(re.sub(r"F\(portable\)( F\(\w+\))+", "F(portable)", dispatch.read_text()))
        isas = ["isa_portable"] if cheap else [path.stem for path in sources.glob("isa_*.c")]
        paths = [*(sources / f"{name}.c" for name in (*COMMON, "dpfast", "rows", *isas)), TESTS / "c/fuzz.c"]
        quick = isas if cheap else []  # a law's file, under sanitizers, takes clang five times as long
        with ThreadPoolExecutor(2) as pool:
            made = pool.map(lambda path: _compiled(path, home, watched=path.stem not in quick), paths)
            objects = dict(zip((path.name for path in paths), made, strict=True))
        figures = _tried(_linked(objects, home), cheap=cheap)
        planted = PLANTED[: 3 if cheap else None]
        for spoilt, says in planted:
            place = home / "spoilt"
            place.mkdir(exist_ok=True)
            changed = _compiled(spoil(place, spoilt) / spoilt.file, place)
            code, said = _run(_linked({**objects, spoilt.file: changed}, place), f"-runs={MANY}", "-seed=1")
            assert code != 0, f"not found: {spoilt.name}"
            assert re.search(says, said), f"{spoilt.name}: {said[-2000:]}"
    return {**figures, "planted, found": len(planted)}


def _compiled(source: Path, to: Path, *, watched: bool = True) -> Path:
    made = to / f"{source.stem}.o"
    flags = [*FLAGS, *(SANITIZE if watched else ()), *(["-fsanitize=fuzzer-no-link"] if source.stem in GUIDED else [])]
    _clang(*flags, f"-I{source.parent}", f"-I{to / 'csrc'}", "-c", "-o", made, source)
    return made


def _linked(objects: dict[str, Path], to: Path) -> Path:
    _clang(*SANITIZE, "-fsanitize=fuzzer", "-o", to / "fuzz", *objects.values(), "-lm")
    return to / "fuzz"


def _clang(*words: str | Path) -> None:
    done = subprocess.run(["clang", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _run(program: Path, *words: str) -> tuple[int, str]:
    """The exit code of libFuzzer, and what it said."""
    command = [program, f"-artifact_prefix={program.parent}/", "-max_len=2048", "-print_final_stats=1", *words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stderr


def _tried(program: Path, *, cheap: bool) -> dict[str, Any]:
    """Try inputs for so long, from those that are kept on; how far they reach."""
    seconds = float(os.environ.get("FUZZ_SECONDS", "300"))
    corpus = Path(os.environ.get("FUZZ_KEEP") or program.parent) / "header"
    corpus.mkdir(parents=True, exist_ok=True)
    much = [f"-runs={FEW}", "-seed=1"] if cheap else [f"-max_total_time={seconds:.0f}"]
    code, said = _run(program, *much, str(corpus))
    assert code == 0, said[-4000:]
    return {
        "executions": int(re.findall(r"number_of_executed_units: (\d+)", said)[-1]),
        "edges": int(re.findall(r"\((\d+) inline 8-bit counters\)", said)[0]),
        "edges taken": int(re.findall(r" cov: (\d+)", said)[-1]),
        "inputs in the corpus": len(list(corpus.iterdir())),
    }
