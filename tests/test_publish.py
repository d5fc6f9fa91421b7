# SPDX-License-Identifier: Apache-2.0
"""Publishing: what appears is whole and on the disk, beside its own record, and over nothing that was there."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from dpfast.errors import EntropyError, FileError
from dpfast.publish import published


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def publish(
    path: Path, record: str | None = "{}", *, force: bool = False, meanwhile: Callable[[], object] = bool
) -> None:
    with published(path, record, force=force) as file:
        file.write(b"new")
        meanwhile()


def test_the_output_is_private_until_it_is_whole(tmp_path):
    """Under its last name there is nothing before the end, and then what umask allows."""
    mask = os.umask(0o027)
    try:
        with published(tmp_path / "out.csv", "{}", force=False) as file:
            file.write(b"x")
            (only,) = tmp_path.iterdir()
            assert stat.S_IMODE(only.stat().st_mode) == 0o600
    finally:
        os.umask(mask)
    assert names(tmp_path) == ["out.csv", "out.csv.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, RuntimeError, EntropyError])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, failure, force):
    if force:
        publish(tmp_path / "out.csv")
    before = names(tmp_path)

    def fail() -> None:
        raise failure

    with pytest.raises(failure):
        publish(tmp_path / "out.csv", force=force, meanwhile=fail)
    assert names(tmp_path) == before


@pytest.mark.parametrize("name", ["out.csv", "out.csv.json"])
def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, name):
    """Neither the output nor the record beside it; and the record does not stay alone."""
    with pytest.raises(FileError, match=f"{name} exists; --force would"):
        publish(tmp_path / "out.csv", meanwhile=lambda: (tmp_path / name).write_text("old"))
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


@pytest.mark.parametrize("name", ["out.csv", "out.csv.json"])
def test_an_existing_file_is_refused_without_force(tmp_path, name):
    (tmp_path / name).write_text("old")
    with pytest.raises(FileError, match=f"{name} exists"):
        publish(tmp_path / "out.csv")
    assert (tmp_path / name).read_text() == "old"
    publish(tmp_path / "out.csv", force=True)
    assert ["{}", "new"] == [(tmp_path / file).read_text() for file in ("out.csv.json", "out.csv")]


def test_a_record_alone_is_refused_and_said_to_be_one(tmp_path):
    (tmp_path / "out.csv.json").write_text("old")
    with pytest.raises(FileError, match=r"out\.csv\.json exists without out\.csv: a release was moved"):
        publish(tmp_path / "out.csv")
    assert names(tmp_path) == ["out.csv.json"]


def test_force_replaces_files_only(tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(FileError, match="is not a file"):
        publish(tmp_path / "out.csv", force=True)
    (tmp_path / "b.csv.json").mkdir()
    (tmp_path / "b.csv").write_text("old")
    with pytest.raises(FileError, match=r"b\.csv\.json exists and is not a file"):
        publish(tmp_path / "b.csv", force=True)
    assert (tmp_path / "b.csv").read_text() == "old"


def test_force_replaces_a_link_and_not_what_it_names(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "out.csv").symlink_to("precious")
    publish(tmp_path / "out.csv", None, force=True)
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "out.csv").is_symlink()


@pytest.mark.parametrize("force", [False, True])
def test_the_record_comes_first_and_both_after_they_are_on_disk(tmp_path, monkeypatch, force):
    calls = []

    def watch(owner: object, name: str) -> None:
        def watched(*given: object) -> object:
            calls.append((name, *(path.name for path in given if isinstance(path, Path) and path.suffix != ".tmp")))
            return real(*given)

        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((os, "fsync"), (Path, "hardlink_to"), (Path, "replace")):
        watch(owner, name)
    publish(tmp_path / "out.csv", force=force)
    place = "replace" if force else "hardlink_to"
    assert calls == [("fsync",), ("fsync",), (place, "out.csv.json"), (place, "out.csv"), ("fsync",)]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("force", [False, True])
def test_killed_between_record_and_output(tmp_path, force):
    """The record is alone, not beside an older output that it does not describe; --force then carries on."""
    if force:
        (tmp_path / "out.csv").write_text("old")
        (tmp_path / "out.csv.json").write_text("old record")
    program = f"""
        import os, signal
        from pathlib import Path
        from dpfast import publish
        place = publish._place
        def killed(file, path, *, force):
            if path.name == "out.csv":
                os.kill(os.getpid(), signal.SIGKILL)
            place(file, path, force=force)
        publish._place = killed
        with publish.published(Path("out.csv"), "new record", force={force}):
            pass
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, check=False)
    assert child.returncode == -signal.SIGKILL
    assert [name for name in names(tmp_path) if not name.endswith(".tmp")] == ["out.csv.json"]
    assert (tmp_path / "out.csv.json").read_text() == "new record"
    with pytest.raises(FileError, match=r"exists without out\.csv"):
        publish(tmp_path / "out.csv")
    publish(tmp_path / "out.csv", force=True)
    assert (tmp_path / "out.csv").read_text() == "new"


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    publish(tmp_path / "out.csv")
    assert names(tmp_path) == ["out.csv", "out.csv.json"]
    with pytest.raises(FileError, match=r"out\.csv exists; --force would replace it"):
        publish(tmp_path / "out.csv", None)


@pytest.mark.parametrize(("name", "reason"), [("no/out.csv", "No such file"), ("x" * 300, "File name too long")])
@pytest.mark.parametrize("force", [False, True])
def test_where_nothing_can_be_written(tmp_path, name, reason, force):
    with pytest.raises(FileError, match=f"cannot write .*{reason}"):
        publish(tmp_path / name, None, force=force)
