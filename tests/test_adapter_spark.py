# SPDX-License-Identifier: Apache-2.0
"""Spark: an application gives the bytes of one process, whatever is killed."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")

import tiers
import visits
from on_spark import Fault, Planted
from pyspark.sql import DataFrame, SparkSession
from visits import CAPS, KINDS, SECRET, at_home, charges, files, job, same

import dpfast
from dpfast import DTypeError, FileError, OtherInputError, ParameterError, jobs
from dpfast.adapters import spark
from dpfast.jobs import tasks, verbs

pytestmark = [
    pytest.mark.own_environment,
    pytest.mark.filterwarnings("ignore"),  # pyspark leaves sockets open, and warns of pandas 3
]
TESTS = Path(__file__).parent
ROWS = visits.visits()


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def session(events) -> Iterator[SparkSession]:
    """One application; its workers find the modules of the tests, and a task may fail."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *sys.path[1:]]))
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        config = {
            "spark.driver.memory": "1g",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.enabled": "true",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "5",
            "spark.ui.enabled": "false",
        }
        builder = SparkSession.builder.master("local[2,4]").appName("dpfast")
        for name, value in config.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        yield made
        made.stop()


def frame(session: SparkSession, rows: pa.Table = ROWS) -> DataFrame:
    """The rows in three partitions; Spark adds no row to one that is empty."""
    return session.createDataFrame(rows.select(["user", "page", "country", "minutes"])).repartition(3)


def order_dependent(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(tasks, "merged", visits.ordered)


def other_version(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(verbs, "VERSION", 0)


def no_key_file(patched: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Any:
        raise FileError(f"cannot read the key file {path}: Permission denied")

    patched.setattr(verbs, "KeyFile", refuse)


# ------------------------------------------------------------------ one release


@pytest.mark.parametrize(
    ("kind", "shards"), [("known", 2), ("unknown", 5), ("sums", 13), ("known", 13), ("unknown", 2)]
)
def test_an_application_gives_the_bytes_of_one_process(tmp_path, session, kind, shards) -> None:
    """Also where some partitions are empty, and one page has half of the rows."""
    home = at_home(tmp_path, "one", "spark")
    job(jobs, kind, ROWS, home, "one")
    session.conf.set("spark.sql.shuffle.partitions", shards)
    job(jobs, kind, frame(session), home, "spark", resume=True, engine=spark.Cluster(session))
    session.conf.set("spark.sql.shuffle.partitions", 5)
    same(home, "one", "spark")
    assert charges(home, "spark") == 1


def test_the_verbs_are_those_of_jobs(tmp_path, session) -> None:
    """On the active session, with names that SQL would have to quote, and with large texts."""
    home = at_home(tmp_path, "one", "spark")
    rows = frame(session).withColumnRenamed("page", "the `page`. 5")
    how = {"unit": "user", "by": ["country", "the `page`. 5"], "buckets": 3, **CAPS}
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    counts = spark.bounded_counts(rows, key=key, stage=home / "spark.stage", shards=7, **how)
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
    mechanism = visits.mechanism("unknown", counts)
    how_released = {"key": key, "to": home / "spark.out"}
    facts = spark.release(counts, mechanism, ledger=dpfast.Ledger(home / "spark.db"), **how_released)
    assert spark.release(counts, mechanism, ledger=None, resume=True, **how_released) == facts
    spark.verify(home / "spark.out", counts, mechanism, key=key, session=session)
    here = ROWS.rename_columns(["user", "the `page`. 5", "country", "minutes", "extra"])
    jobs.bounded_counts(here, key=key, stage=home / "one.stage", **how)
    assert files(home / "one.stage").items() <= files(home / "spark.stage").items()


@pytest.mark.parametrize("people", [0, 2])
def test_more_shards_than_people(tmp_path, session, people) -> None:
    home = at_home(tmp_path)
    rows = ROWS.filter(pc.less(ROWS["user"], SECRET + people))
    for name, engine in (("one", jobs.OneProcess()), ("spark", spark.Cluster(session, 13))):
        key = dpfast.KeyFile(home / "visits.key").derive("q")
        given = rows if name == "one" else frame(session, rows)
        jobs.bounded_counts(given, unit="user", key=key, stage=home / name, engine=engine, **KINDS["unknown"])
    assert files(home / "one") == files(home / "spark")


def test_more_blocks_than_go_at_once(tmp_path, session, monkeypatch) -> None:
    monkeypatch.setattr(spark, "A_JOB", 3)
    assert spark.Cluster(session).run(Number(), range(5, 13)) == list(range(5, 13))


class Number(tasks.Task):
    def __call__(self, block: int) -> int:
        return block


# ------------------------------------------------------------------ what is killed


@pytest.mark.parametrize("fault", ["worker before", "worker after"])
def test_workers_killed_before_and_after_their_write_change_no_byte(tmp_path, session, fault) -> None:
    home = at_home(tmp_path, "one", "killed")
    seen = tmp_path / "seen"
    seen.mkdir()
    job(jobs, "known", ROWS, home, "one")
    job(jobs, "known", frame(session), home, "killed", resume=True, engine=Planted(session, Fault(seen, fault)))
    for block in range(3):
        copies = [path.read_bytes() for path in seen.glob(f"{block}-*")]
        assert len(copies) > 1
        assert len(set(copies)) == 1
    same(home, "one", "killed")
    assert charges(home, "killed") == 1


def test_an_order_dependent_merge_ends_in_a_refusal(tmp_path, session) -> None:
    home = at_home(tmp_path, "a")
    with visits.dying("freeze", stop), pytest.raises(KeyboardInterrupt):
        job(jobs, "known", frame(session), home, "a", engine=Planted(session, order_dependent, 4))
    with pytest.raises(OtherInputError, match="not to equal counts"):
        job(jobs, "known", frame(session), home, "a", engine=Planted(session, order_dependent, 7))
    assert charges(home, "a") == 0
    assert not (home / "a.out").exists()


def stop() -> None:
    raise KeyboardInterrupt


# ------------------------------------------------------------------ what must not tell; bad input


def test_plans_and_event_logs_hold_no_key(tmp_path, session, events, monkeypatch) -> None:
    """After releases under a key in a file and one in memory, and after a task that fails."""
    home, plans = at_home(tmp_path), []
    to_arrow = type(session.range(1)).toArrow

    def explained(self: Any) -> pa.Table:
        plans.append(self._jdf.queryExecution().toString())  # what explain(extended=True) prints
        return to_arrow(self)

    monkeypatch.setattr(type(session.range(1)), "toArrow", explained)
    master = dpfast.Key.generate()
    keys = {"memory": master.derive("visits"), "file": dpfast.KeyFile(home / "visits.key").derive("visits")}
    for name, key in keys.items():
        counts = spark.bounded_counts(frame(session), unit="user", key=key, stage=home / name, **KINDS["unknown"])
        spark.release(counts, visits.mechanism("unknown", counts), key=key, ledger=None, to=home / f"{name}.out")
    (home / "file" / tasks.name_of(0)).write_bytes(b"damaged")
    with pytest.raises(FileError, match="damaged"):
        spark.verify(home / "file.out", counts, visits.mechanism("unknown", counts), key=keys["file"])
    told = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file()) + "".join(plans).encode()
    assert b"SparkListenerTaskEnd" in told
    assert b"MapInArrow" in told
    assert str(SECRET)[:9].encode() not in told
    derived = [part for key in keys.values() for part in (tiers.secret_of(key), tiers.choosing(key.chooser()))]
    for secret in ((home / "visits.key").read_bytes(), bytes(master), *derived):
        forms = (secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1], repr(bytearray(secret)))
        assert not any(form in told for form in (secret, *(form.encode() for form in forms)))


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (other_version, ParameterError, "every worker must have manifest version"),
        (no_key_file, FileError, "cannot read the key file"),
    ],
)
def test_an_executor_that_cannot_is_one_error_before_anything(tmp_path, session, what, error, message) -> None:
    home = at_home(tmp_path, "a")
    with pytest.raises(error, match=message):
        job(jobs, "known", frame(session), home, "a", engine=Planted(session, what))
    assert not (home / "a.stage").exists()
    assert charges(home, "a") == 0


def test_an_executor_without_dpfast_is_one_error(tmp_path, session, monkeypatch) -> None:
    """Its Python has Spark and Arrow, and no dpfast."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'dpfast':\n"
        "            raise ModuleNotFoundError(\"No module named 'dpfast'\", name=name)\n"
        "sys.meta_path.insert(0, Nowhere)\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(python))
    home = at_home(tmp_path, "a")
    with pytest.raises(ParameterError, match="every executor must have dpfast"):
        job(jobs, "known", frame(session), home, "a", engine=spark.Cluster(session))
    assert not (home / "a.stage").exists()


def test_bad_input_is_one_error_on_the_driver(tmp_path, session) -> None:
    home = at_home(tmp_path, "a")
    key = dpfast.KeyFile(home / "visits.key").derive("known")
    nulls = ROWS.set_column(0, "user", pa.array([None] + [1] * (ROWS.num_rows - 1)))
    for rows, changed, error, message in (
        (frame(session), {"by": "town"}, ParameterError, "column 'town'"),
        (frame(session), {"domain": [1, 1]}, ParameterError, "each key once"),
        (frame(session, nulls), {}, DTypeError, "must hold no nulls"),
        (ROWS, {}, DTypeError, "a DataFrame of Spark"),
    ):
        with pytest.raises(error, match=message):
            spark.bounded_counts(rows, unit="user", key=key, stage=home / "s", **{**KINDS["known"], **changed})
    assert not (home / "s" / verbs.FROZEN).exists()
    job(jobs, "known", ROWS, home, "a")
    with pytest.raises(ParameterError, match="stage must be of this release"):
        spark.bounded_counts(frame(session), unit="user", key=key, stage=home / "a.stage",
                             **{**KINDS["known"], "max_partitions": 5})  # fmt: skip
    fewer = frame(session, ROWS.slice(9))
    (home / "a.stage" / verbs.FROZEN).unlink()  # as a driver leaves it that is killed before the seal
    with pytest.raises(OtherInputError, match="not to equal counts"):
        job(jobs, "known", fewer, home, "a", resume=True, engine=spark.Cluster(session))
    assert charges(home, "a") == 1


def test_spark_connect_takes_keys_of_files_alone(tmp_path) -> None:
    """Its plans carry the closures; and without any session nothing begins."""

    class Conf:
        def get(self, name: str) -> str:
            return "4" if name == "spark.sql.shuffle.partitions" else "false"

    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "conf": Conf()})()
    rows = type("DataFrame", (), {"sparkSession": remote})()
    with pytest.raises(ParameterError, match="key must be of a KeyFile under Spark Connect"):
        spark.bounded_counts(rows, key=dpfast.Key.generate().derive("q"), unit="user", by="page", stage=tmp_path / "s")
    key = dpfast.KeyFile(at_home(tmp_path) / "visits.key").derive("q")
    with pytest.raises(AttributeError, match="range"):  # taken: it goes on to the probe
        spark.bounded_counts(rows, key=key, unit="user", by="page", stage=tmp_path / "s")


def test_the_example_runs() -> None:
    example = [sys.executable, TESTS.parent / "examples" / "with_spark.py"]  # pyspark warns of pandas 3
    assert "95 %" in subprocess.run(example, capture_output=True, encoding="utf-8", timeout=600, check=True).stdout
