# SPDX-License-Identifier: Apache-2.0
"""A long check is due once something that its run opened is another; planted changes show it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deep import __main__ as main
from deep import opened, record
from mutation.depends import paths
from mutation.mutant import Mutant

TREE = {
    "check.py": """
        import contextlib, multiprocessing, os, shutil, subprocess, sys, tempfile
        import worker

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(worker.work)
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree("vectors", copy + "/vectors")
                shutil.copy("laws/flat", copy)
                open(copy + "/report", "w").close()
                subprocess.run([sys.executable, "-c", "open('vectors/golden').read()"], cwd=copy, check=True)
            subprocess.run(["true", "csrc/main.c"], check=True)
            os.listdir("laws")
            open("read/test_it.py").close()
            os.close(os.open("figure", os.O_WRONLY))
            os.close(os.open("laws/bare", os.O_RDONLY))
            if not os.fork():
                open("before.py").close()
                del os.geteuid
                if os.getuid() == 0:
                    os.setuid(65534)
                with contextlib.suppress(OSError):
                    open("others.py")
                os._exit(0)
            os.wait()
        """,
    "worker.py": """
        def work():
            import late
        """,
    "late.py": "", "before.py": "", "others.py": "", "never.py": "", "laws/one.py": "", "vectors/golden": "", "vectors/never": "",
    "laws/flat": "", "laws/bare": "", "figure": "", "report": "", "read/test_it.py": "", "csrc/main.c": '#include "law.h"\n',
    "csrc/law.h": '#include "ground.h"\n', "csrc/ground.h": "", "csrc/other.h": "", "pyproject.toml": 'version = "1"\n',
    "tests/conftest.py": "", "tests/law/test_law.py": "import laws.one\nimport helper\n", "tests/helper.py": "",
    "tests/law/test_other.py": "",
}  # fmt: skip
# What is changed or new, and whether the check that ran, one of a release, and a mutant are due.
CHANGES = {
    "check.py": "run", "worker.py": "run", "late.py": "run", "before.py": "run", "others.py": "run", "vectors/golden": "run",
    "laws/two.py": "run", "laws/flat": "run", "laws/bare": "run", "figure": "run", "read/test_it.py": "run", "read/conftest.py": "run",
    "never.py": "", "vectors/never": "", "vectors/new": "", "report": "",
    "csrc/main.c": "run release", "csrc/law.h": "run release", "csrc/ground.h": "run release", "csrc/other.h": "release",
    "pyproject.toml": "release", "laws/one.py": "mutant", "tests/law/test_law.py": "mutant", "tests/helper.py": "mutant",
    "tests/conftest.py": "mutant", "tests/law/test_other.py": "",
}  # fmt: skip
MUTANT = Mutant("a law is another", "laws/one.py", "", "x", "test_law.py -k one")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A tree, and what the check in it opened, by a Python that watches."""
    root, home = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("python")
    for name, text in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("\n".join(line[8:] if text[0] == "\n" else line for line in text.splitlines()))
    record.git("init", "-q", root=root)
    record.git("add", ".", root=root)
    record.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all", root=root)
    venv.create(home, symlinks=True)
    opened.watch(Path(sysconfig.get_path("purelib", vars={"base": str(home)})))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", os.environ["PYTEST_DEBUG_TEMPROOT"])  # which another user reaches
        return root, opened.opened([str(home / "bin" / "python"), "check.py"], root, set(record.tree(root)))


def test_what_a_run_opens_is_noted(ran: tuple[Path, list[str]]) -> None:
    """By a child, by a worker, by another user, in a copy; included files; a folder that it lists.

    Not what is only copied with its folder, or written elsewhere.
    """
    c_files, a_test = ["csrc/ground.h", "csrc/law.h", "csrc/main.c"], ["read/conftest.py", "read/test_it.py"]
    by_user, laws = ["before.py", "others.py"], ["laws/", "laws/bare", "laws/flat"]
    assert ran[1] == sorted(
        [*by_user, "check.py", *c_files, "figure", "late.py", *laws, *a_test, "vectors/golden", "worker.py"]
    )


@pytest.mark.parametrize("changed", CHANGES)
def test_what_changed_makes_due_what_depends_on_it(
    changed: str, ran: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, read = ran
    checks = {
        "mutant": SimpleNamespace(cases=lambda root: {"one": paths(MUTANT, root)}),
        "release": SimpleNamespace(RELEASED=("csrc/",)),
        "run": SimpleNamespace(),
    }
    files = record.tree(root)
    monkeypatch.setattr(record, "tree", lambda _root: files)
    monkeypatch.setattr(record, "names", lambda: list(checks))
    monkeypatch.setattr(record, "module", lambda name: checks[name])
    kept = {
        "mutant": {"cases": record.cases(checks["mutant"], files, root)},
        "release": {"digest": record.of_a_release(checks["release"], files, root)},
        "run": {"opened": read, "digest": record.digest(read, files)},
    }
    monkeypatch.setattr(record, "record", lambda name, _root: kept.get(name, {}))
    assert record.due(root) == []
    files[changed] = "another"
    monkeypatch.setattr(record, "version", lambda _root: "2" if changed == "pyproject.toml" else "1")
    assert sorted(due.name for due in record.due(root)) == sorted(CHANGES[changed].split())
    kept.clear()
    assert [due.name for due in record.due(root)] == list(checks)


def test_all_that_is_due_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The figures of the first are no change that keeps the second from running; a change is."""
    dirty, page = "", tmp_path / "assurance.md"

    def said(*arguments: str) -> str:
        written = "\n".join(f"?? {path.name}" for path in tmp_path.iterdir())
        return (dirty or written) if arguments[0] == "status" else "0" * 40

    def ran_alone(command: list[str], *_: object) -> list[str]:
        found = {"undecided": "a busy machine"} if command[4] == "second" else {"counted": 1}
        Path(command[5]).write_text(json.dumps(found))
        return ["read"]

    checks = "first", "second", "third"
    for name, stand_in in {
        "git": said, "commit": lambda: "0" * 40, "tree": lambda: {"read": "1"}, "record": lambda _: {},
        "module": lambda _: SimpleNamespace(), "ASSURANCE": tmp_path, "PAGE": page,
        "page": lambda folder: " ".join(sorted(path.stem for path in folder.glob("*.json"))),
    }.items():  # fmt: skip
        monkeypatch.setattr(main, name, stand_in)
    monkeypatch.setattr(opened, "watch", lambda _: None)
    monkeypatch.setattr(opened, "opened", ran_alone)
    assert not main.run(*((name, ()) for name in checks))
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["first", "third"]
    assert page.read_text() == "first third"
    dirty = " M dpfast/__init__.py"
    with pytest.raises(SystemExit, match="commit these first"):
        main.run(("first", ()))


def test_a_case_that_ran_alone_leaves_the_others_due(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that never ran, and those that ran before something changed."""
    kept: dict[str, Any] = {}
    check = SimpleNamespace(cases=lambda _root: {"one": ["read"], "two": ["read"], "three": ["other"]})
    files = {"read": "1", "other": "1"}

    def ran_alone(command: list[str], **_: object) -> None:
        Path(command[5]).write_text("{}")

    def run(*chosen: str) -> tuple[str, ...]:
        assert main.run(("parts", chosen))
        kept.update(json.loads((tmp_path / "parts.json").read_text()))
        return tuple(case for one in record.due() for case in one.cases)

    monkeypatch.setattr(main, "PAGE", tmp_path / "assurance.md")
    monkeypatch.setattr(main, "page", lambda _: "")
    for place in (main, record):
        for name, stand_in in {
            "git": lambda *_: "", "commit": lambda: "0" * 40, "tree": lambda *_: files, "record": lambda *_: kept,
            "module": lambda _: check, "names": lambda: ["parts"], "ASSURANCE": tmp_path,
        }.items():  # fmt: skip
            monkeypatch.setattr(place, name, stand_in)
    monkeypatch.setattr(record, "version", lambda _root: "1")
    monkeypatch.setattr(main, "subprocess", SimpleNamespace(run=ran_alone))  # and nothing is watched
    assert run("one") == ("two", "three")
    assert run("three") == ("two",)
    files["read"] = "2"
    assert run("two") == ("one",)
    assert run() == ()
    check = SimpleNamespace(RELEASED=())
    assert run() == ()


def test_what_a_run_writes_makes_it_no_older(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A page, read and written, is due once somebody else changes it; its own record never."""
    root = tmp_path / "tree"
    kept = root / "docs" / "assurance" / "pages.json"
    page, git = root / "page.md", partial(record.git, root=root)
    commit = ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "page")
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    page.write_text("before")
    git("init", "-q")
    git("add", ".")
    git(*commit)

    def ran_alone(command: list[str], *_: object) -> list[str]:
        page.write_text("after")
        Path(command[5]).write_text("{}")
        return ["docs/assurance/pages.json", "page.md"]

    for place in (main, record):
        for name, stand_in in {
            "git": git, "tree": lambda *_: dict(line.split()[3:1:-1] for line in git("ls-tree", "-r", "HEAD").splitlines()),
            "module": lambda _: SimpleNamespace(), "names": lambda: ["pages"], "ASSURANCE": kept.parent,
            "record": lambda *_: json.loads(kept.read_text()),
        }.items():  # fmt: skip
            monkeypatch.setattr(place, name, stand_in)
    monkeypatch.setattr(main, "PAGE", tmp_path / "assurance.md")
    monkeypatch.setattr(main, "page", lambda _: "")
    monkeypatch.setattr(opened, "watch", lambda _: None)
    monkeypatch.setattr(opened, "opened", ran_alone)
    monkeypatch.chdir(root)
    main.run(("pages", ()))
    git(*commit)
    assert record.due() == []
    page.write_text("another's")
    git(*commit)
    assert [due.name for due in record.due()] == ["pages"]


def test_who_is_watched_warns_of_nothing(tmp_path: Path) -> None:
    """Programs in tests are strict."""
    venv.create(tmp_path, symlinks=True)
    opened.watch(Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path)})))
    (tmp_path / "names").write_text("/\nhere")
    (tmp_path / "here").touch()
    strict = [str(tmp_path / "bin" / "python"), "-X", "dev", "-W", "error", "-c", "open('here').close()"]
    env = {**os.environ, "DPFAST_OPENED": str(tmp_path)}
    ran = subprocess.run(strict, env=env, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert ran.stderr == ""
    assert [file.read_text() for file in tmp_path.glob("noted.*")] == [f"{tmp_path}/here\n"]


def test_a_command_that_fails_opens_nothing(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        opened.opened([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, set())


def test_records_name_files(tmp_path: Path) -> None:
    """What lies in docs/assurance is read by the program that lists what is due."""
    (tmp_path / "docs" / "assurance").mkdir(parents=True)
    (tmp_path / "docs" / "assurance" / "kills.json").write_text(json.dumps({"minutes": 2}))
    assert record.record("kills", tmp_path) == {"minutes": 2}
    assert record.record("proofs", tmp_path) == {}
