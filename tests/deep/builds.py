# SPDX-License-Identifier: Apache-2.0
"""Builds as people make them: each fails with a clear message, or draws what every other draws.

Each build is one by setup.py, as pip makes it, with CFLAGS or a compiler of its own. A script puts
flags behind ours. Builds are compared by one digest of the draws of 102 plans: all laws, the least
to the largest scale, each instruction set, fast and constant-work, narrow and wide. QEMU plays CPUs
without a feature.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pickle
import platform
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

ROOT = Path(__file__).resolve().parents[2]  # it is a program, too, and finds no module of the tests
CONDA = "-march=nocona -mtune=haswell -ftree-vectorize -fPIC -fstack-protector-strong -fno-plt -O2 -ffunction-sections"
# Flags for other machines, and such as change arithmetic; all must give equal draws.
SOUND = {
    "gcc": [
        "", "-march=native", CONDA, "-march=haswell", "-march=skylake-avx512", "-march=znver3", "-march=x86-64-v4",
        "-mlzcnt", "-O1", "-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math -fno-signed-zeros -fno-trapping-math",
        "-freciprocal-math", "-ffinite-math-only", "-frounding-math", "-flto", "-ffp-contract=fast -march=haswell",
    ],
    "clang": ["", "-march=native", "-march=haswell", "-ffast-math", "-funsafe-math-optimizations", "-ffp-contract=fast -march=haswell"],
}  # fmt: skip
# Behind our own flags, by a compiler that is a script: the text refuses what the compiler tells of.
UNSAFE = {
    "gcc": ["-ffast-math", "-funsafe-math-optimizations", "-fassociative-math -fno-signed-zeros -fno-trapping-math", "-freciprocal-math", "-ffinite-math-only", "-fsingle-precision-constant"],
    "clang": ["-ffast-math"],
}  # fmt: skip
# If the flag hides its macro, the self-check finds it. A harmless flag (-freciprocal-math: our
# divisors are variable or powers of two) may give equal draws.
SILENT = {
    "gcc": ["-ffast-math", "-funsafe-math-optimizations", "-fassociative-math -fno-signed-zeros -fno-trapping-math"],
    "clang": ["-ffast-math", "-funsafe-math-optimizations", "-fassociative-math -fno-signed-zeros"],
}
KEPT = "-U__FAST_MATH__ -U__ASSOCIATIVE_MATH__ -U__RECIPROCAL_MATH__ -U__NO_SIGNED_ZEROS__ -U__FINITE_MATH_ONLY__"
REFUSED = "dpfast proves its rounding errors", "compile without -fsingle-precision-constant"
# CPUs of QEMU, and the instruction set to be chosen there: another if it needs a missing feature,
# else the same, though a compiler's x86-64-v3 has the feature. (Without bmi1 glibc fails.)
CPUS = {
    **{f"max,{name}=off": "portable" for name in ("avx2", "fma", "bmi2", "popcnt")},
    **{f"max,{name}=off": "avx2" for name in ("abm", "movbe", "f16c")},
}
# A word of the cipher's text, its replacement, and what the check says.
PLANTED = "0x61707865", "0x61707864", "ChaCha20 of RFC 8439, section 2.3.2"
UNASKED = "max,abm=off"  # where a build with -mlzcnt computes something else
BY_ITSELF = "found by the self-check"
DRAWS = 3000


def check(*, cheap: bool) -> dict[str, Any]:
    if platform.machine() != "x86_64":
        raise RuntimeError("the builds are those of x86-64")
    _need("gcc", "gcc")
    if not cheap:
        _need("clang", "clang")
        _need("qemu-x86_64", "qemu-user")
    with tempfile.TemporaryDirectory() as folder:
        return _Builds(Path(folder)).cheap() if cheap else _Builds(Path(folder)).whole()


def _need(tool: str, package: str) -> None:
    if shutil.which(tool) is None:
        raise RuntimeError(f"{tool} is missing: install the Debian package {package}")


class _Builds:
    def __init__(self, folder: Path) -> None:
        self.folder, self.made, self.lock = folder, 0, Lock()
        self.tree = folder / "tree"
        self.tree.mkdir()
        built = shutil.ignore_patterns("*.so", "*.o", "__pycache__", "_dpf.c")
        for name in ("csrc", "dpfast", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.tree / name, ignore=built)
            else:
                shutil.copy(source, self.tree)
        self.cases = folder / "cases"
        with self.cases.open("wb") as file:
            pickle.dump(list(_cases()), file)

    # ------------------------------------------------------------------ what is checked

    def cheap(self) -> dict[str, Any]:
        """This machine's own instructions, and one unsafe flag in its three places."""
        flags = "-funsafe-math-optimizations"
        found = self.draws(self.build(f"-march=native {flags}", last="-O1"))
        assert found == _drawn(_installed(), self.cases), "the installed build and one with CFLAGS differ"
        self.refused(flags)
        self.found_by_itself(f"-O1 {flags}")
        return {"builds": self.made, "draws": found["digest"]}

    def whole(self) -> dict[str, Any]:
        plain = self.build("")
        golden = self.draws(plain)["digest"]
        assert golden == _drawn(_installed(), self.cases)["digest"], "the installed build is not one of this text"
        figures: dict[str, Any] = {"draws": golden, "equal": 0, "compiled alone": []}
        with ThreadPoolExecutor(2) as pool:  # two builds at a time
            for (flags, compiler), found in self.tried(pool, SOUND, lambda *how: self.draws(self.build(*how))):
                if not found:  # -march= of another machine
                    assert "-march=" in flags.replace("-march=native", ""), (compiler, flags)
                    figures["compiled alone"].append(flags)
                    continue
                assert (found["digest"], found["flushes"]) == (golden, False), (compiler, flags, found)
                figures["equal"] += 1
            figures["refused"] = len(list(self.tried(pool, UNSAFE, self.refused)))
            figures[BY_ITSELF] = len(list(self.tried(pool, SILENT, self.found_by_itself)))
            emulated = pool.map(partial(self.draws, plain), CPUS)
            for (cpu, best), found in zip(CPUS.items(), emulated, strict=True):
                assert (found["best"], found["digest"]) == (best, golden), (cpu, found)
        figures["cpus"] = len(CPUS)
        unasked = self.build("-mlzcnt")
        for name in ("portable", "avx2"):
            found = self.draws(unasked, UNASKED, name)
            assert found["failed"], (name, found)
            figures[BY_ITSELF] += 1
        self.planted()
        figures[BY_ITSELF] += 1
        return {**figures, "builds": self.made}

    @staticmethod
    def tried(pool: Executor, table: dict[str, Any], work: Callable[[str, str], Any]) -> Iterator[Any]:
        """Each pair of flags and compiler of a table, with what came of it."""
        pairs = [(flags, compiler) for compiler, all_flags in table.items() for flags in all_flags]
        return zip(pairs, pool.map(work, *zip(*pairs, strict=True)), strict=True)

    def planted(self) -> None:
        """A cipher that is not ChaCha20, equal on each instruction set, is found."""
        old, new, says = PLANTED
        (path,) = (path for path in (self.tree / "csrc").glob("*.[ch]") if old in path.read_text())
        path.write_text(path.read_text().replace(old, new))
        found = self.draws(self.build("", last="-O1"))
        assert set(found["failed"].values()) == {says}, found

    def refused(self, flags: str, compiler: str = "gcc") -> None:
        """Behind our own flags, each of these is an error that says why."""
        text = self.build("", compiler, last=flags, fails=True)
        assert any(line in text for line in REFUSED), (compiler, flags, text)

    def found_by_itself(self, flags: str, compiler: str = "gcc") -> None:
        """Without that error, the first use of the instruction set in use finds it."""
        library = self.build("", compiler, last=f"{flags} {KEPT}")
        found = self.draws(library)
        assert found["failed"], (compiler, flags, found)

    # ------------------------------------------------------------------ how

    def build(self, flags: str, compiler: str = "gcc", *, last: str = "", fails: bool = False) -> Any:
        """A new build's library, with CFLAGS and flags behind ours; or the failure's message."""
        with self.lock:
            self.made += 1
            made = self.folder / str(self.made)
        made.mkdir()
        environment = {**os.environ, "CC": compiler, "CFLAGS": flags}
        if last:
            script = made / "cc"
            script.write_text(f'#!/bin/sh\nexec {compiler} "$@" {last} -w\n')
            script.chmod(0o755)
            environment["CC"] = str(script)
        environment["LDSHARED"] = f"{environment['CC']} -shared"
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", made, "--build-temp", made / "temp"]
        done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, text=True, check=False)
        if fails:
            assert done.returncode != 0, f"{compiler} {flags} {last}: built"
            return done.stderr
        assert done.returncode == 0, f"{compiler} {flags} {last}: {done.stderr[-2000:]}"
        return next((made / "dpfast").glob("_dpf*.so"))

    def draws(self, library: Path, cpu: str | None = None, only: str | None = None) -> dict[str, Any]:
        """A build's draws in a new process, on this CPU or QEMU's; none if an instruction lacks."""
        machine = [] if cpu is None else ["qemu-x86_64", "-cpu", cpu]
        command = [*machine, sys.executable, __file__, library, self.cases, *([] if only is None else [only])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == -4:  # SIGILL
            return {}
        assert done.returncode == 0, f"{shlex.join(map(str, command))}: {done.returncode} {done.stderr[-2000:]}"
        return json.loads(done.stdout)  # type: ignore[no-any-return]


def _installed() -> Path:
    from dpfast import _dpf

    return Path(_dpf.__file__)


# ------------------------------------------------------------------ plans


def _cases() -> Iterator[dict[str, Any]]:
    """102 plans: each record's bytes, its arrays, the first draw, and offsets of a real law."""
    from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric
    from dpfast._dpf import ffi

    chance = random.Random(5)
    starts = [0, 1, 63, 64, 65, 1000, 2**41 + 100, 2**63 - DRAWS - 1]
    scales = [
        Fraction(1, 2**60), Fraction(1, 3), 1, 10, Fraction(257, 3), 128, 129, 1000, 2**17, 2**17 + 1, 2**20, 2**20 + 1, 10**9,
        2**40, 2**40 + 1, 2**44, 2**44 + 1, 2**50, 2**54, 2**54 + 1, Fraction(10**18, 7), 2**60,
    ]  # fmt: skip
    edges = [2**13, 2**13 + 1, 2**20, 2**20 + 1]
    sigmas = [Fraction(1, 1000), Fraction(1, 2), 1, 5, 50, 127, 128, 129, 1000, *edges, 10**9]
    mechanisms = [
        *(law(1, scale) for scale in scales for law in (DiscreteLaplace, OneSidedGeometric)),
        *(Laplace(1, scale, granularity=1) for scale in scales),
        *(Gaussian(Fraction(scale), granularity=1) for scale in scales),
        *(DiscreteGaussian(sigma) for sigma in sigmas),
    ]
    for at, mechanism in enumerate(mechanisms):
        plan = mechanism._bulk_plan
        begin = [
            chance.choice([0.5, -0.5, 0.0, chance.uniform(-0.5, 0.5), 2.0 ** -chance.randint(1, 1000)])
            for _ in range(DRAWS)
        ]
        arrays = {ffi.typeof(each).item.cname: bytes(ffi.buffer(each)) for each in plan._kept if each != ffi.NULL}
        real = isinstance(mechanism, (Laplace, Gaussian))
        offset = begin if real else None
        yield {"plan": bytes(ffi.buffer(plan._plan)), "arrays": arrays, "start": starts[at % 8], "offset": offset}


def _drawn(library: Path, cases: Path, only: str | None = None) -> dict[str, Any]:
    """Whether instruction sets know their answers; if so, a digest of each one's draws."""
    spec = importlib.util.spec_from_file_location("dpfast._dpf", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ffi, lib = module.ffi, module.lib
    mode = lib.dpf_enter()
    lib.dpf_leave(mode)
    best, names = lib.dpf_best_isa(), {}
    while (name := lib.dpf_isa_name(len(names))) != ffi.NULL:
        names[len(names)] = ffi.string(name).decode()
    isas = [isa for isa, name in names.items() if lib.dpf_isa_runs(isa) and only in (None, name)]
    scratch = ffi.new("uint64_t[]", lib.DPF_CHECK)
    failed = {isa: lib.dpf_self_check(isa, lib.DPF_LAWS, lib.dpf_known_answers(), scratch) for isa in isas}
    told = {names[isa]: ffi.string(what).decode() for isa, what in failed.items() if what != ffi.NULL}
    flushes = mode & 0x8040 != 0  # subnormals, since it was loaded
    found: dict[str, Any] = {"best": names[best], "failed": told, "flushes": flushes}
    if told:
        return found
    digests = set()
    arrays = {"int16_t": "table", "uint64_t": "thresholds", "uint16_t": "guide"}
    with cases.open("rb") as file:
        plans = pickle.load(file)
    draws = ffi.new("int64_t[]", 2 * DRAWS)  # the undecided among them have a limb that says so
    key = ffi.new("uint8_t[]", bytes(range(32)))
    for isa in isas:
        digest = hashlib.sha256()
        for case in plans:
            plan = ffi.new("dpf_plan *")
            ffi.memmove(plan, case["plan"], len(case["plan"]))
            kept = {arrays[kind]: ffi.from_buffer(f"{kind}[]", data) for kind, data in case["arrays"].items()}
            for name in arrays.values():
                setattr(plan if name == "table" else plan.search, name, kept.get(name, ffi.NULL))
            offset = ffi.new("double[]", case["offset"] or [0.0] * DRAWS)
            for constant_work in (0, 1):
                for limbs in (1, 2):
                    given = {"plan": plan, "key": key, "isa": isa, "constant_work": constant_work, "limbs": limbs}
                    how = ffi.new("dpf_release *", {**given, "kind": lib.DPF_NOISE})
                    assert lib.dpf_add(how, case["start"], DRAWS, offset, draws) == DRAWS
                    digest.update(ffi.buffer(draws))
        digests.add(digest.hexdigest())
    found["digest"] = ", ".join(sorted(digests))
    return found


if __name__ == "__main__":
    library, cases, *only = sys.argv[1:]
    sys.stdout.write(json.dumps(_drawn(Path(library), Path(cases), *only)))
