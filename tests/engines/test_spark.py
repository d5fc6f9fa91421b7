# SPDX-License-Identifier: Apache-2.0
"""Spark: an application gives the bytes of one process, whatever is killed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from places import TESTS

pytest.importorskip("pyspark")

import neighbours
import tiers
import visits
from faulted import Planted
from on_spark import Fault, twice
from pyspark.sql import DataFrame, SparkSession, functions
from visits import AN_ID, CAPS, KINDS, SECRET, at_home, charges, files, job, same

import dpfast
from dpfast.engines import jobs, spark
from dpfast.engines.jobs import tasks, verbs
from dpfast.errors import DTypeError, FileError, OtherInputError, ParameterError

pytestmark = [
    pytest.mark.own_environment,
    pytest.mark.filterwarnings("ignore"),  # pyspark leaves sockets open, and warns of pandas 3
]
ROWS = visits.visits()


@pytest.fixture(scope="module")
def events(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def session(events) -> Iterator[SparkSession]:
    """One application; its workers find the modules of the tests, and a task may fail."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patched.setenv("PYSPARK_PYTHON", sys.executable)
        java = os.environ.get("JAVA_TOOL_OPTIONS", "")  # in three minutes its second compiler gains nothing
        patched.setenv("JAVA_TOOL_OPTIONS", f"{java} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        config = {
            "spark.driver.memory": "1g",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.enabled": "true",
            "spark.log.level": "OFF",
            "spark.python.daemon.module": "spark_daemon",
            "spark.sql.shuffle.partitions": "5",
            "spark.ui.enabled": "false",
        }
        builder = SparkSession.builder.master("local[2,12]").appName("dpfast")
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


def other_key_file(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(verbs, "KeyFile", lambda _: dpfast.Key.generate())


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
def test_workers_killed_before_and_after_they_give_change_no_byte(tmp_path, session, fault) -> None:
    """At each step of each block: freeze, noise, the file."""
    home = at_home(tmp_path, "one", "killed")
    job(jobs, "known", ROWS, home, "one")
    engine = Planted(spark.Cluster(session), Fault(tmp_path / "seen", fault))
    made = visits.released(jobs, "known", frame(session), home, "killed", resume=True, engine=engine)
    seen = {"frozen twice": 3, "digested twice": 0, "drawn twice": 3, "written twice": 3, "different": 0}
    assert twice(tmp_path / "seen") == seen
    jobs.verify(**made)
    same(home, "one", "killed")
    assert charges(home, "killed") == 1


def test_an_order_dependent_merge_ends_in_a_refusal(tmp_path, session) -> None:
    home = at_home(tmp_path, "a")
    with visits.dying("freeze", stop), pytest.raises(KeyboardInterrupt):
        job(jobs, "known", frame(session), home, "a", engine=Planted(spark.Cluster(session, 4), order_dependent))
    with pytest.raises(OtherInputError, match="with different counts"):
        job(jobs, "known", frame(session), home, "a", engine=Planted(spark.Cluster(session, 7), order_dependent))
    assert charges(home, "a") == 0
    assert not (home / "a.out").exists()


def stop() -> None:
    raise KeyboardInterrupt


# ------------------------------------------------------------------ what must not tell; bad input


@pytest.fixture
def told(session, events, monkeypatch) -> Iterator[Callable[[], tuple[bytes, bytes]]]:
    """Reads the plans of the test, as explain(extended=True) prints them, and the event log."""
    plans: list[str] = []
    frames = type(session.range(1))
    to_arrow = frames.toArrow

    def explained(self: Any) -> pa.Table:
        plans.append(self._jdf.queryExecution().toString())
        return to_arrow(self)

    def read() -> tuple[bytes, bytes]:
        last = token_hex()
        session.sparkContext.setJobDescription(last)
        session.range(1).collect()
        for _ in range(600):  # a thread of its own writes the log, in the order of events
            log = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
            if last.encode() in log:
                return "".join(plans).encode(), log
            time.sleep(0.1)
        raise AssertionError("Spark writes no log")

    monkeypatch.setattr(frames, "toArrow", explained)
    return read


def holds(text: bytes, secret: bytes) -> list[str]:
    """The forms in which it holds a key: bytes or characters, hex, base64, as Python shows them."""
    chars, shown = secret.decode("latin-1"), repr(secret)[2:-1]
    forms = {
        "raw": [secret, chars.encode(), json.dumps(chars, ensure_ascii=False)[1:-1].encode()],
        "hex": [secret.hex().encode(), secret.hex(" ").encode()],
        "base64": [base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"=")],
        "shown": [shown.encode(), json.dumps(shown)[1:-1].encode()],
    }
    return [name for name, each in forms.items() if any(form in (text, text.lower())[name == "hex"] for form in each)]


def secrets_of(master: dpfast.Key | dpfast.KeyFile, label: str, counts: jobs.Counts) -> list[bytes]:
    """All that a job of unknown keys holds of a key, on the driver and on workers."""
    key, how = master.derive(label), visits.mechanism("unknown", counts)
    whole = master.path.read_bytes() if isinstance(master, dpfast.KeyFile) else bytes(master)
    parts = map(tiers.choosing, (key.chooser(), key.bucketer(8), key.digester(how)))
    sealed = verbs.seal_of(counts, how, tiers.naming(key, counts.terms.public), jobs.OneProcess()).without_ledger(
        resume=True
    )
    return [whole, tiers.secret_of(key), *parts, *tiers.drawing(sealed)]


def test_plans_and_event_logs_hold_no_key(tmp_path, session, told) -> None:
    """After releases under a key in a file and one in memory, and after a task that fails."""
    secrets, masters = [], {"memory": dpfast.Key.generate(), "file": dpfast.KeyFile(at_home(tmp_path) / "visits.key")}
    for name, master in masters.items():
        key = master.derive("visits")
        counts = spark.bounded_counts(frame(session), unit="user", key=key, stage=tmp_path / name, **KINDS["unknown"])
        how = visits.mechanism("unknown", counts)
        spark.release(counts, how, key=key, ledger=None, to=tmp_path / f"{name}.out")
        secrets += secrets_of(master, "visits", counts)
    (tmp_path / "file" / tasks.name_of(0)).write_bytes(b"damaged")
    with pytest.raises(OtherInputError, match="changed after it was frozen"):
        spark.verify(tmp_path / "file.out", counts, how, key=key)
    plans, log = told()
    assert AN_ID.search(f"user={SECRET + 5},".encode())
    assert b"MapInArrow" in plans
    assert b"SparkListenerTaskEnd" in log
    for text in (plans, log):
        assert not AN_ID.search(text)
        assert not any(holds(text, secret) for secret in secrets)


@pytest.mark.parametrize(
    ("form", "write"),
    [
        ("raw", lambda secret: secret.decode("latin-1")),
        ("hex", bytes),  # a literal of bytes
        ("hex", bytes.hex),
        ("base64", lambda secret: base64.b64encode(secret).decode()),
        ("shown", repr),
    ],
)
def test_the_same_search_finds_a_key_in_a_plan(session, told, form, write) -> None:
    secret = bytes(range(0xC0, 0xE0)) if form == "raw" else bytes(dpfast.Key.generate())
    session.range(2).withColumn("key", functions.lit(write(secret))).toArrow()
    plans, log = told()
    assert form in holds(plans, secret)
    assert form in holds(log, secret)


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_neighbours_give_the_same_order_and_layout(tmp_path, session, monkeypatch, kind) -> None:
    """Planted: files for visited blocks alone, and an order that the engine chose."""
    home, given = at_home(tmp_path), partial(frame, session)
    assert list(neighbours.leaks(kind, visits.visits(), home, spark.Cluster(session), given)) == []
    monkeypatch.setattr(verbs, "sort", lambda table, _: table)  # unknown keys come as the engine has them
    (planted := home / "planted").mkdir()
    assert next(neighbours.leaks(kind, visits.visits(), planted, NoEmptyFiles(session), given))


class NoEmptyFiles(spark.Cluster):
    """A planted fault: of known keys it publishes the blocks that somebody visited."""

    def freeze(self, *given: Any) -> Any:
        found = dict(super().freeze(*given))
        self.visited = set(found)
        return found.items()

    def run(self, task: tasks.Task, blocks: Any) -> list[Any]:
        return super().run(task, self.visited & set(blocks) if isinstance(task, tasks.Publish) else blocks)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (other_version, ParameterError, "every worker must have manifest version"),
        (no_key_file, FileError, "cannot read the key file"),
        (other_key_file, FileError, "holds another key on a worker"),
    ],
)
def test_an_executor_that_cannot_is_one_error_before_anything(tmp_path, session, what, error, message) -> None:
    home = at_home(tmp_path, "a")
    with pytest.raises(error, match=message):
        job(jobs, "known", frame(session), home, "a", engine=Planted(spark.Cluster(session), what))
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
    assert charges(home, "a") == 0


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"by": "town"}, ParameterError, "column 'town'"),
        ({"unit": "town"}, ParameterError, "column 'town'"),
        ({"domain": [1, 1]}, ParameterError, "each key once"),
        ({"null": "user"}, DTypeError, "must contain no nulls"),
        ({"null": "page"}, DTypeError, "must contain no nulls"),
        ({"rows": ROWS}, DTypeError, "a DataFrame of Spark"),
        ({"unit": "minutes"}, DTypeError, "integers or texts"),
    ],
)
def test_bad_input_is_one_error_on_the_driver(tmp_path, session, changed, error, message) -> None:
    key = dpfast.KeyFile(at_home(tmp_path) / "visits.key").derive("known")
    how = {"unit": "user", **KINDS["known"], "rows": frame(session), **changed}
    if (name := how.pop("null", None)) is not None:
        how["rows"] = frame(session, ROWS.slice(1)).unionByName(frame(session, null_first(name)))
    with pytest.raises(error, match=message):
        spark.bounded_counts(key=key, stage=tmp_path / "s", **how)
    assert not (tmp_path / "s" / verbs.FROZEN).exists()


@pytest.mark.parametrize("types", [each for each in visits.TWO if not {*each} & {"uint64", "bytes"}], ids="-".join)
def test_people_of_two_types_are_refused(tmp_path, session, types) -> None:
    """By Spark's reader, whose two types are told; bytes it reads as the text that they are."""
    home = at_home(tmp_path)
    folder, _ = visits.two_types(tmp_path / "rows", *types)
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    told = f"^user {visits.MIXED}|^rows cannot be read: [A-Za-z0-9, ]+ of Spark"
    with pytest.raises(DTypeError, match=told):
        spark.bounded_counts(session.read.parquet(str(folder)), **visits.ONCE, key=key, stage=home / "s")
    assert not (home / "s" / verbs.FROZEN).exists()


def test_what_spark_says_of_values_is_told_by_its_kind(tmp_path, session) -> None:
    """A cast of some row fails, one that the plan holds, and a function of a user's own."""
    home = at_home(tmp_path)
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    failing = functions.udf(lambda number: int("918273645") // (number - 5) if number < 9 else number, "long")
    for rows in (
        session.sql(f"SELECT id AS user, CAST(IF(id = 900, 'x{SECRET}', '1') AS INT) AS page FROM range(1000)"),
        session.sql(f"SELECT CAST('x{SECRET}' AS INT) AS user, 1 AS page"),
        session.range(9).select(failing("id").alias("user"), functions.lit(1).alias("page")),
    ):
        with pytest.raises(
            DTypeError, match=r"^rows cannot be read: [A-Za-z0-9, ]+ of Spark, whose own log says more$"
        ) as refused:
            spark.bounded_counts(rows, **visits.ONCE, key=key, stage=home / "s")
        assert refused.value.__suppress_context__
    assert not (home / "s" / verbs.FROZEN).exists()


def null_first(name: str) -> pa.Table:
    rows = ROWS.slice(0, 1)
    return rows.set_column(rows.column_names.index(name), name, pa.array([None], rows[name].type))


def test_a_stage_of_another_release_is_refused(tmp_path, session) -> None:
    home = at_home(tmp_path, "a")
    job(jobs, "known", ROWS, home, "a")
    before = files(home / "a.stage")
    for changed, message in (({"max_partitions": 5}, "max_partitions is 4, not 5"), ({"domain": range(9)}, "size is")):
        key = dpfast.KeyFile(home / "visits.key").derive("known")
        with pytest.raises(ParameterError, match=message):
            spark.bounded_counts(
                frame(session), unit="user", key=key, stage=home / "a.stage", **{**KINDS["known"], **changed}
            )
    assert files(home / "a.stage") == before
    assert charges(home, "a") == 1


@pytest.mark.parametrize(("phase", "charged"), [("freeze", 0), ("reserve", 1)])
def test_a_source_that_changed_between_two_tries_is_refused(tmp_path, session, phase, charged) -> None:
    """Before the seal; and after the charge, when the stage was lost: then nothing is published."""
    home, engine = at_home(tmp_path, "a"), spark.Cluster(session)
    with visits.dying(phase, stop), pytest.raises(KeyboardInterrupt):
        job(jobs, "known", frame(session), home, "a", engine=engine)
    if phase == "reserve":
        shutil.rmtree(home / "a.stage")
    with pytest.raises(OtherInputError, match="changed since" if phase == "freeze" else "input"):
        job(jobs, "known", frame(session, ROWS.slice(9)), home, "a", resume=True, engine=engine)
    assert charges(home, "a") == charged
    assert not list(home.glob("a.out/*"))
    if phase == "freeze":  # after it nothing is left of the rows but these counts
        job(jobs, "known", frame(session), home, "a", resume=True, engine=engine)
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
    with pytest.raises(dpfast.errors.DTypeError, match="AttributeError of Spark"):  # taken: it goes on to the probe
        spark.bounded_counts(rows, key=key, unit="user", by="page", stage=tmp_path / "s")


def test_an_application_of_spark_connect_gives_the_bytes_and_no_key(tmp_path) -> None:
    """On one machine: its plans, which hold the closures, and its event log."""
    pytest.importorskip("grpc")
    home = at_home(tmp_path, "one", "connect")
    visits.parquet(home / "rows", ROWS)
    job(jobs, "unknown", ROWS, home, "one")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path[1:])}
    command = [sys.executable, TESTS / "on_spark.py", home]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    same(home, "one", "connect")
    assert charges(home, "connect") == 1
    plans = (home / "plans").read_bytes()
    log = b"".join(path.read_bytes() for path in (home / "events").rglob("*") if path.is_file())
    assert plans.count(b"visits.key") > 3
    assert b"SparkListenerTaskEnd" in log
    master = dpfast.KeyFile(home / "visits.key")
    how = {"unit": "user", "key": master.derive("unknown"), "stage": home / "one.stage", **KINDS["unknown"]}
    for secret in secrets_of(master, "unknown", jobs.bounded_counts(ROWS, **how)):
        assert not holds(plans, secret)
        assert not holds(log, secret)


def test_the_example_runs() -> None:
    example = [sys.executable, TESTS.parent / "examples" / "with_spark.py"]  # pyspark warns of pandas 3
    assert "95 %" in subprocess.run(example, capture_output=True, encoding="utf-8", timeout=600, check=True).stdout
