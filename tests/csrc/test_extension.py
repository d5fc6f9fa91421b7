# SPDX-License-Identifier: Apache-2.0
"""A law with C, an instruction set and an adapter: each is planted in a copy, which then draws."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fresh import python
from places import ROOT, TESTS

PLANTED = TESTS / "planted"
TREE = "csrc", "dpfast", "setup.py", "pyproject.toml", "README.md", "LICENSE"
BUILT = shutil.ignore_patterns("*.so", "*.o", "__pycache__", "_*.c")
pytestmark = pytest.mark.slow


class Grown(NamedTuple):
    """A copy of the tree with all three, and the files that each of them touched."""

    home: Path
    touched: dict[str, set[str]]


def texts(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


def edit(path: Path, *edits: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in edits:
        assert old in text, f"{path.name} has no {old!r}"
        text = text.replace(old, new)
    path.write_text(text)


PLAN = """\
static int four_points(const measure *x, const dpf_ratio *of, dpf_plan *plan, uint64_t *none, uint16_t *too) {
    (void)of, (void)none, (void)too;
    scaled(plan, x->limb + WHOLE - DPF_EXACT_LIMBS);
    plan->width = 32;
    plan->bulk = plan->constant_work = DPF_DOUBLE;
    plan->margin32 = 0.5;
    return 0;
}

int dpf_make_plan("""


def add_law(home: Path) -> None:
    shutil.copytree(PLANTED / "law", home, dirs_exist_ok=True, ignore=BUILT)
    include, listed = '#include "discrete_gaussian.h"\n', "&discrete_gaussian, "
    edit(home / "csrc/isa.h", (include, f'{include}#include "four_points.h"\n'), (listed, f"{listed}&four_points, "))
    edit(
        home / "csrc/plan.c", ("int dpf_make_plan(", PLAN), ("discrete_gaussian};", "discrete_gaussian, four_points};")
    )
    line = "from dpfast.noise.mechanisms.four_points import FourPoints\n"
    before = "from dpfast.noise.mechanisms.snapping import Snapping\n"
    edit(home / "dpfast/noise/mechanisms/laws.py", (before, before + line), ("Snapping, Gaussian)", "Snapping, Gaussian, FourPoints)"))  # fmt: skip
    edit(home / "dpfast/__init__.py", (before, before + line), ('    "Thresholded",\n', '    "Thresholded",\n    "FourPoints",\n'))  # fmt: skip
    line = "from dpfast.evidence.selftest.reference.four_points import FourPoints\n"
    after = "from dpfast.evidence.selftest.reference.laplace import Laplace\n"
    entry = '    "Gaussian": (Gaussian, "ratio_squared"),\n'
    edit(home / "dpfast/evidence/selftest/reference/__init__.py", (after, after + line), (entry, entry + '    "FourPoints": (FourPoints, "t"),\n'))  # fmt: skip


def add_instruction_set(home: Path) -> None:
    portable = (home / "csrc/isa_portable.c").read_text()
    named = portable.replace("dpf_isa_portable", "dpf_isa_planted").replace('"portable"', '"planted"')
    (home / "csrc/isa_planted.c").write_text(named)
    edit(home / "csrc/dispatch.c", ("F(portable)", "F(portable) F(planted)"))


def add_adapter(home: Path) -> None:
    shutil.copytree(PLANTED / "adapter", home, dirs_exist_ok=True, ignore=BUILT)
    edit(home / "dpfast/adapters/__init__.py", ('_KINDS = {"pandas"', '_KINDS = {"abacus": "abacus", "pandas"'))


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grown]:
    """Built once, with all three."""
    home = tmp_path_factory.mktemp("grown")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, home / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, home)
    touched = {}
    for what, add in (("law", add_law), ("instruction set", add_instruction_set), ("adapter", add_adapter)):
        before = texts(home)
        add(home)
        after = texts(home)
        assert before.keys() <= after.keys()
        touched[what] = {path for path, text in after.items() if before.get(path) != text}
        for path in touched[what] & before.keys():
            lines = list(difflib.ndiff(before[path].splitlines(), after[path].splitlines()))
            added = sum(line.startswith("+ ") for line in lines) - sum(line.startswith("- ") for line in lines)
            assert added <= 2 or path == "csrc/plan.c", f"{path}: a list takes an entry, and an import or an include"
    edit(home / "csrc" / "build_ffi.py", ('"-O3"', '"-O1"'))  # a third of the time
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    yield Grown(home, touched)
    shutil.rmtree(home)


TOUCHED = {  # its own files, and the lists that take an entry
    "law": {
        *("csrc/four_points.h", "csrc/four_points.md", "tests/noise/test_four_points.py"),
        *("dpfast/privacy/exact/four_points.py", "dpfast/noise/mechanisms/four_points.py"),
        *(f"dpfast/evidence/selftest/reference/{name}.py" for name in ("four_points", "__init__")),
        *("csrc/isa.h", "csrc/plan.c", "dpfast/noise/mechanisms/laws.py", "dpfast/__init__.py"),
    },
    "instruction set": {"csrc/isa_planted.c", "csrc/dispatch.c"},
    "adapter": {"dpfast/adapters/abacus.py", "dpfast/adapters/__init__.py"},
}


@pytest.mark.parametrize("what", TOUCHED)
def test_what_is_added_touches_its_own_files_and_its_lists(grown: Grown, what: str) -> None:
    assert grown.touched[what] == TOUCHED[what]


def test_the_planted_law_passes_its_own_test(grown: Grown) -> None:
    """Bulk or constant time: a release under a fixed key adds the draws of the exact tier."""
    told = python(
        "import pytest; print('left with', int(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/noise/test_four_points.py'])))",
        home=grown.home,
    )
    assert told.endswith("left with 0\n"), told
    assert "13 passed" in told


def test_every_list_of_laws_has_the_planted_law(grown: Grown) -> None:
    """Command line, noise sources, audits know it; the self-test finds a defect planted in it."""
    script = """
        import json
        import numpy as np
        from dpfast import FourPoints, noise_source
        from dpfast.evidence import audit, selftest
        from dpfast.app.cli.options import MECHANISMS
        from dpfast.noise.mechanisms.laws import own_laws

        check = next(each for each in selftest.CHECKS if each.name == "noise four_points")
        sound, broken = (selftest.run([check], defect=defect)[0].outcome for defect in (None, selftest.PLANTED_DEFECTS["draw-four_points"]))

        def audited(off):
            law = FourPoints(3)
            return audit.law(lambda count, n: FourPoints(3 + off).release(np.full(n, int(count))), law, n=40_000).found

        print(json.dumps({
            "registry": [*own_laws()], "options": [*MECHANISMS], "source": noise_source("four_points", 2).scale,
            "sound": [sound.passed, sound.compared], "broken": broken.passed, "audits": [audited(0), audited(1)],
        }))
    """  # fmt: skip
    told = json.loads(python(script, home=grown.home))
    assert told["registry"][-1] == "four_points"
    assert "four-points" in told["options"]
    assert told["source"] == 2.0
    assert told["sound"][0], told
    assert told["sound"][1].startswith("no closed form is known here, so intervals judge: 3 mechanisms")
    assert not told["broken"]
    assert told["audits"] == [False, True]


def test_the_planted_instruction_set_draws_what_others_draw(grown: Grown) -> None:
    """It stands before the others in the list, and every law of C goes through it."""
    told = python(
        """
        import sys
        sys.path.append(sys.argv[1])
        import tiers
        from dpfast import noise_source
        key, sizes = tiers.StreamKey(bytes(32)), []
        for name in tiers.LAWS:
            law = noise_source(name, 1000)
            offset = None if law.INTEGERS else [0.25] * 700
            for work, plan in ((False, tiers.bulk_plan(law)), (True, tiers.constant_work_plan(law))):
                found = {
                    tuple(plan.fill(key, 5, 700, constant_work=work, isa=tiers.checked(isa), offset=offset))
                    for isa in tiers.ISAS
                }
                sizes.append(len(found))
        print("planted" in {tiers.ISA_NAMES[isa] for isa in tiers.ISAS}, len(sizes), *set(sizes))
        """,
        ROOT / "tests",
        home=grown.home,
    ).split()  # fmt: skip
    assert told == ["True", "10", "1"]


def test_the_planted_adapter_releases_a_column(grown: Grown) -> None:
    """A column of a library that NumPy does not know comes back as one, with noise."""
    told = python(
        """
        import sys
        sys.path.append(sys.argv[1])
        from abacus import Column
        from dpfast import DiscreteLaplace, FourPoints
        out = FourPoints(4).release(Column([10] * 100))
        print(type(out) is Column, sorted(set(out.beads)), len(DiscreteLaplace(1, 1).release(Column([1, 2])).beads))
        """,
        PLANTED / "library",
        home=grown.home,
    )
    assert told == "True [2, 6, 14, 18] 2\n"
