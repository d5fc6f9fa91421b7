# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: an output is whole, on the disk, beside its own record, over nothing else."""

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
from dpfast.paths import atomic_write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def publish(
    path: Path, record: str | None = "{}", *, force: bool = False, meanwhile: Callable[[], object] = bool
) -> None:
    with atomic_write(path, record, found="replace" if force else "refuse") as file:
        file.write(b"new")
        meanwhile()


@pytest.fixture(params=["without a name", "with a name"])
def kind(request, monkeypatch) -> str:
    """Both kinds of private files: without a name, and with one if the system needs it."""
    if request.param == "with a name":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("files without a name are Linux's")
    return request.param


@pytest.mark.parametrize("force", [False, True])
def test_nothing_has_a_name_before_it_is_whole(tmp_path, force) -> None:
    """Neither the output nor a temporary file; over an older output, only this until the end."""
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("files without a name are Linux's")
    if force:
        publish(tmp_path / "out.csv")
    before, seen = names(tmp_path), []
    publish(tmp_path / "out.csv", force=force, meanwhile=lambda: seen.extend(names(tmp_path)))
    assert seen == before
    assert names(tmp_path) == ["out.csv", "out.csv.json"]


@pytest.mark.parametrize("mask", [0, 0o022, 0o027, 0o077])
@pytest.mark.parametrize("force", [False, True])
def test_the_output_is_private_until_it_is_whole(tmp_path, kind, mask, force) -> None:
    """Nobody else may open it until the end; then umask's readers and writers, never to execute."""
    if force:
        publish(tmp_path / "out.csv")
    before = os.umask(mask)
    try:
        with atomic_write(tmp_path / "out.csv", "{}", found="replace" if force else "refuse") as file:
            file.write(b"x")
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    finally:
        os.umask(before)
    assert names(tmp_path) == ["out.csv", "out.csv.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666 & ~mask}


def test_the_umask_is_left_alone(tmp_path, kind, monkeypatch) -> None:
    """All threads share it: to set it, even for a moment, changes the files of the others."""
    monkeypatch.delattr(os, "umask")
    publish(tmp_path / "out.csv")
    assert names(tmp_path) == ["out.csv", "out.csv.json"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, RuntimeError, EntropyError])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, kind, failure, force) -> None:
    """Whatever fails in the middle: no new file, the old one untouched."""
    if force:
        publish(tmp_path / "out.csv")
    before = names(tmp_path)

    def fail() -> None:
        raise failure

    with pytest.raises(failure):
        publish(tmp_path / "out.csv", force=force, meanwhile=fail)
    assert names(tmp_path) == before


@pytest.mark.parametrize("name", ["out.csv", "out.csv.json"])
def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path, kind, name) -> None:
    """Neither the output nor the record beside it; and the record does not stay alone."""
    with pytest.raises(FileError, match=f"{name} exists; --force would"):
        publish(tmp_path / "out.csv", meanwhile=lambda: (tmp_path / name).write_text("old"))
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


@pytest.mark.parametrize("name", ["out.csv", "out.csv.json"])
def test_an_existing_file_is_refused_without_force(tmp_path, kind, name) -> None:
    """And with it both the output and its record are replaced."""
    (tmp_path / name).write_text("old")
    with pytest.raises(FileError, match=f"{name} exists"):
        publish(tmp_path / "out.csv")
    assert (tmp_path / name).read_text() == "old"
    publish(tmp_path / "out.csv", force=True)
    assert [(tmp_path / file).read_text() for file in ("out.csv.json", "out.csv")] == ["{}", "new"]


def test_a_record_alone_is_refused_and_said_to_be_one(tmp_path) -> None:
    """It may describe a release that was moved away."""
    (tmp_path / "out.csv.json").write_text("old")
    with pytest.raises(FileError, match=r"out\.csv\.json exists without out\.csv: a release was moved"):
        publish(tmp_path / "out.csv")
    assert names(tmp_path) == ["out.csv.json"]


def test_force_replaces_files_only(tmp_path) -> None:
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(FileError, match="is not a file"):
        publish(tmp_path / "out.csv", force=True)
    (tmp_path / "b.csv.json").mkdir()
    (tmp_path / "b.csv").write_text("old")
    with pytest.raises(FileError, match=r"b\.csv\.json exists and is not a file"):
        publish(tmp_path / "b.csv", force=True)
    assert (tmp_path / "b.csv").read_text() == "old"


def test_force_replaces_a_link_and_not_what_it_names(tmp_path) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "out.csv").symlink_to("precious")
    publish(tmp_path / "out.csv", None, force=True)
    assert (tmp_path / "precious").read_text() == "old"
    assert not (tmp_path / "out.csv").is_symlink()


@pytest.mark.parametrize("force", [False, True])
def test_the_record_comes_first_and_both_after_they_are_on_disk(tmp_path, monkeypatch, kind, force) -> None:
    """fsync of both, the record's name, the output's name, fsync of their folder."""
    calls = []

    def watch(owner: object, name: str) -> None:
        def watched(*given: object, **options: object) -> object:
            result = real(*given, **options)
            calls.append(Path(given[-1]).name if name in {"link", "replace"} else name)
            return result

        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, watched)

    for name in ("fsync", "link", "replace"):
        watch(os, name)
    if force:
        for name in ("out.csv", "out.csv.json"):
            (tmp_path / name).write_text("old")
    publish(tmp_path / "out.csv", force=force)
    named = [call for call in calls if not call.endswith(".tmp")]
    assert named == ["fsync", "fsync", "out.csv.json", "out.csv", "fsync"]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("force", [False, True])
def test_killed_between_record_and_output(tmp_path, force) -> None:
    """The record is alone, not beside an older output of other content; --force carries on."""
    if force:
        (tmp_path / "out.csv").write_text("old")
        (tmp_path / "out.csv.json").write_text("old record")
    program = f"""
        import os, signal
        from pathlib import Path
        from dpfast import paths as publish
        place = publish._place
        def killed(file, path, *, found):
            if path.name == "out.csv":
                os.kill(os.getpid(), signal.SIGKILL)
            place(file, path, found=found)
        publish._place = killed
        with publish.atomic_write(Path("out.csv"), "new record", found={"replace" if force else "refuse"!r}):
            pass
    """
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, check=False)
    assert child.returncode == -signal.SIGKILL
    assert [name for name in names(tmp_path) if hasattr(os, "O_TMPFILE") or not name.endswith(".tmp")] == [
        "out.csv.json"
    ]
    assert (tmp_path / "out.csv.json").read_text() == "new record"
    with pytest.raises(FileError, match=r"exists without out\.csv"):
        publish(tmp_path / "out.csv")
    publish(tmp_path / "out.csv", force=True)
    assert (tmp_path / "out.csv").read_text() == "new"


def test_a_file_system_without_links(tmp_path, monkeypatch) -> None:
    """It has no unnamed files either; a named one is renamed, over nothing that is there."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    monkeypatch.setattr(os, "link", refuse)
    publish(tmp_path / "out.csv")
    assert names(tmp_path) == ["out.csv", "out.csv.json"]
    with pytest.raises(FileError, match=r"out\.csv exists; --force would replace it"):
        publish(tmp_path / "out.csv", None)


@pytest.mark.parametrize(("name", "reason"), [("no/out.csv", "No such file"), ("x" * 300, "File name too long")])
@pytest.mark.parametrize("force", [False, True])
def test_where_nothing_can_be_written(tmp_path, name, reason, force) -> None:
    with pytest.raises(FileError, match=f"cannot write .*{reason}"):
        publish(tmp_path / name, None, force=force)
