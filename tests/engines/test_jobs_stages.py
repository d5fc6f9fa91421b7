# SPDX-License-Identifier: Apache-2.0
"""Whose stage and whose output: what another job, key or version has left is not taken."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tiers
import visits
from jobs_of_visits import counted, key_of
from visits import at_home, charges, files, mechanism

import dpfast
from dpfast import DiscreteLaplace
from dpfast.engines import jobs
from dpfast.engines.jobs import folder as folders
from dpfast.engines.jobs import tasks, verbs
from dpfast.engines.jobs.folder import Folder
from dpfast.errors import FileError, ParameterError

# ------------------------------------------------------------------ whose stage, and whose output


def test_the_output_and_the_stage_lie_apart_whatever_they_are_called(tmp_path) -> None:
    """Whoever is given the output would get exact counts, or an output would hide on a stage."""
    home = at_home(tmp_path, "a")
    counts, ledger = counted(home, name="x/a"), dpfast.Ledger(home / "a.db")
    stage = home / "x" / "a.stage"
    (home / "link").symlink_to(stage)
    (home / "above").symlink_to(home / "x")
    there = files(stage)
    names = [
        "x/a.stage",
        "x/a.stage/",
        "x/../x/a.stage",
        "link",
        "above/a.stage",
        "x/a.stage/out",
        "link/out/in",
        "x",
        "above",
        ".",
    ]
    for to in [
        *(f"{home}/{name}" for name in names),
        f"file://{stage}",
        f"file://{home}/link/%6Fut",
        f"file://{home}/x/",
        "/",
    ]:
        with pytest.raises(ParameterError, match="to must be a folder apart from the stage, which is private: "):
            jobs.release(counts, mechanism("known", counts), key=key_of(home), ledger=ledger, to=to, resume=True)
    table = pa.table({"k": [1, 2], "n": [3, 4]})
    how = {"by": "k", "column": "n", "key": key_of(home, "t"), "ledger": ledger}
    for at, to in (("y", "y/out"), ("y/stage", "y"), ("y/stage", "y/stage"), ("above/new", "x/new")):
        with pytest.raises(ParameterError, match="to must be a folder apart from the stage"):
            jobs.release_table(table, DiscreteLaplace(1, 1), stage=home / at, to=home / to, **how)
    assert not (home / "y").exists()
    assert [*(home / "x").iterdir()] == [stage]
    assert files(stage) == there
    assert charges(home, "a") == 0
    for to in ("x/a.stage2", "x/out", "a.stage"):
        jobs.release(counts, mechanism("known", counts), key=key_of(home), ledger=ledger, to=home / to, resume=True)


def test_the_stage_is_found_where_it_is_mounted_under_another_name(tmp_path, monkeypatch) -> None:
    """No link leads there; the folder has one number."""
    (tmp_path / "stage").mkdir()
    (tmp_path / "mounted").mkdir()
    works = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **how: works(path.with_name("stage") if path.name == "mounted" else path, **how)
    )
    for name in ("mounted", "mounted/out"):
        assert Folder(tmp_path / name).meets(Folder(tmp_path / "stage"))


def test_places_of_object_stores_are_compared_without_their_options() -> None:
    def meets(one: str, other: str) -> bool:
        at = "?region=us-east-1"
        found = Folder(one + at).meets(Folder(other)), Folder(other).meets(Folder(one + at))
        assert found[0] is found[1]
        return found[0]

    stage = "s3://bucket/private/stage?region=eu-west-1"
    assert all(meets(f"s3://bucket{rest}", stage) for rest in ("", "/private", "/private/stage", "/private//stage/x"))
    assert not any(
        meets(f"s3://{rest}", stage) for rest in ("other/private/stage", "bucket/private/stage2", "bucket/public")
    )
    assert not Folder("/bucket/private/stage").meets(Folder(stage))
    assert not Folder("abfss://visits@public.dfs.core.windows.net/out").meets(
        Folder("abfss://visits@private.dfs.core.windows.net/out")
    )


def test_a_stage_is_its_owners_alone(tmp_path, monkeypatch) -> None:
    home, umask = at_home(tmp_path), os.umask(0)
    try:
        counts = counted(home)
        jobs.release(counts, mechanism("known", counts), key=key_of(home), ledger=None, to=home / "a.out")
    finally:
        os.umask(umask)
    stage = home / "a.stage"
    assert {oct(path.stat().st_mode & 0o777) for path in stage.iterdir()} == {"0o600"}
    assert {oct(path.stat().st_mode & 0o777) for path in (home / "a.out").iterdir()} == {"0o666"}
    assert stage.stat().st_mode & 0o777 == 0o700
    assert pickle.loads(pickle.dumps(counts.stage)).private
    (home / "link.stage").symlink_to(stage)
    (home / "empty").mkdir(0o700)
    (home / "free.stage").symlink_to(home / "empty")
    for name in ("link", "free"):
        with pytest.raises(FileError, match="is a link, but must be a folder"):
            counted(home, name=name)
        with pytest.raises(FileError, match="is a link, but must be a folder"):
            counted(home, name=name, stage=f"file://{home}/{name}.stage/.")
    assert not [*(home / "empty").iterdir()]
    (home / "free.stage").unlink()
    (home / "free.stage").mkdir(0o700)
    monkeypatch.setattr(folders.os, "geteuid", lambda: 4242)
    for name in ("a", "free", "new"):  # also where a file system gives what is made to somebody else
        with pytest.raises(FileError, match=rf"belongs to user {os.getuid()}, who may read .* this is user 4242"):
            counted(home, name=name)
        assert name == "a" or not [*(home / f"{name}.stage").iterdir()]


def test_digests_that_somebody_put_on_a_stage_are_believed_by_nobody(tmp_path) -> None:
    """They would be sealed and paid for, and no block would be theirs."""
    home = at_home(tmp_path, "a")
    counts, ledger = counted(home), dpfast.Ledger(home / "a.db")
    how = mechanism("known", counts)
    planted = {"mechanism": list(tiers.record(how)), "digests": [[65_536, "00" * 32]] * 2 + [[8_928, "00" * 32]]}
    (home / "a.stage" / "sealed.json").write_text(json.dumps(planted))
    jobs.release(counts, how, key=key_of(home), ledger=ledger, to=home / "a.out")
    jobs.verify(home / "a.out", counts, how, key=key_of(home))
    assert charges(home, "a") == 1


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_files_of_something_else_are_refused_before_the_charge(tmp_path, kind) -> None:
    home = at_home(tmp_path, "a", "b")
    counts, ledger, key = counted(home, kind), dpfast.Ledger(home / "a.db"), key_of(home, kind)
    how, to = mechanism(kind, counts), home / "a.out"
    to.mkdir()
    for name in (tasks.file_of(0), tasks.file_of(9), "notes.txt", verbs.MANIFEST, "folder"):
        (to / name).mkdir() if name == "folder" else (to / name).write_bytes(b"{}")
        for resume, why in ((False, "resume=True continues"), (True, "nothing of this release is reserved yet")):
            with pytest.raises(FileError, match=f"is not empty, and {why}"):
                jobs.release(counts, how, key=key, ledger=ledger, to=to, resume=resume)
        (to / name).rmdir() if name == "folder" else (to / name).unlink()
    assert charges(home, "a") == 0

    def meanwhile(*_: Any) -> None:
        (to / tasks.file_of(9)).write_bytes(b"")

    with (
        visits.dying("reserve", meanwhile),
        pytest.raises(FileError, match="not of this release: 'part-00000009.parquet'"),
    ):
        jobs.release(counts, how, key=key, ledger=ledger, to=to, resume=True)
    assert not (to / verbs.MANIFEST).exists()
    (to / tasks.file_of(9)).unlink()
    jobs.release(counts, how, key=key, ledger=ledger, to=to, resume=True)
    jobs.verify(to, counts, how, key=key)
    assert charges(home, "a") == 1


def test_another_driver_that_comes_between_is_no_stranger(tmp_path, monkeypatch) -> None:
    home = at_home(tmp_path, "a")
    counts, ledger = counted(home), dpfast.Ledger(home / "a.db")
    works = dpfast.Ledger.expect

    def release() -> None:
        jobs.release(
            counts, mechanism("known", counts), key=key_of(home), ledger=ledger, to=home / "a.out", resume=True
        )

    def expect(*given: Any, **named: Any) -> bool:
        monkeypatch.setattr(dpfast.Ledger, "expect", works)
        found = works(*given, **named)
        release()
        return found

    monkeypatch.setattr(dpfast.Ledger, "expect", expect)
    release()
    assert charges(home, "a") == 1


def test_a_stage_that_was_complete_before_the_call_is_said_with_its_date(tmp_path) -> None:
    """A job that keeps its stage would release the rows of yesterday without a word."""
    home = at_home(tmp_path)
    table = pa.table({"k": [1, 2], "n": [3, 4]})

    def again() -> None:
        counted(home)
        jobs.counted(table, by="k", column="n", key=key_of(home, "t"), stage=home / "t.stage")

    with warnings.catch_warnings():
        warnings.simplefilter("error", dpfast.errors.KeptStageWarning)
        again()
    for name in "at":
        os.utime(home / f"{name}.stage" / verbs.FROZEN, (1_795_528_800, 1_795_528_800))
    with pytest.warns(
        dpfast.errors.KeptStageWarning, match="was frozen before this call, 2026-11-24 14:00 UTC: "
    ) as told:
        again()
    assert [Path(each.filename).name for each in told] == ["jobs_of_visits.py", "test_jobs_stages.py"]
