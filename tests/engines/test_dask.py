# SPDX-License-Identifier: Apache-2.0
"""Dask: a cluster of processes gives the bytes of one process, whatever is killed."""

from __future__ import annotations

import base64
import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from places import TESTS

distributed = pytest.importorskip("distributed")

import faulted  # noqa: E402
import neighbours  # noqa: E402
import visits  # noqa: E402
from visits import AN_ID, CAPS, PHASES, SECRET, at_home, charges, files, job, same  # noqa: E402

import dpfast  # noqa: E402
from dpfast.engines import dask, jobs  # noqa: E402
from dpfast.engines.jobs import tasks, verbs  # noqa: E402
from dpfast.engines.jobs.keys import ipc  # noqa: E402
from dpfast.errors import FileError, OtherInputError, ParameterError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = visits.visits()


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers, a process each, which find the tests' modules and log all that they can."""
    from dask import config
    from distributed.utils import get_mp_context

    patience = {"distributed.deploy.lost-worker-timeout": "600s", "distributed.comm.timeouts.connect": "600s"}
    forked = {"distributed.worker.multiprocessing-method": "forkserver"}  # workers come and go, and load nothing anew
    there = Path(__file__).parent, TESTS, TESTS.parent
    with pytest.MonkeyPatch.context() as patched, config.set(patience | forked):
        get_mp_context()  # it sets what the server loads, once, and would do so after us
        multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", __name__])
        patched.setenv("PYTHONPATH", os.pathsep.join([*map(str, there), os.environ.get("PYTHONPATH", "")]))
        patched.setenv("DASK_LOGGING__DISTRIBUTED", "debug")
        log = logging.getLogger("distributed")
        before = log.level
        log.setLevel(logging.DEBUG)
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=False
        )
        with cluster, distributed.Client(cluster) as client:
            yield client
        log.setLevel(before)
        gc.collect()  # here a warning of a socket that nobody closed fails no test


class Planted(distributed.WorkerPlugin):
    """What is done to a worker, and to each that comes after it was killed."""

    def setup(self, worker: Any) -> None:
        self.patched = pytest.MonkeyPatch()
        self.plant(self.patched)

    def teardown(self, worker: Any) -> None:
        self.patched.undo()

    def plant(self, patched: pytest.MonkeyPatch) -> None:
        raise NotImplementedError


class Killed(Planted):
    """A worker dies before or after it writes a block, one for each block; the writes are kept."""

    def __init__(self, seen: Path, *, after: bool) -> None:
        self.seen, self.after = seen, after

    def plant(self, patched: pytest.MonkeyPatch) -> None:
        put = tasks.put

        def puts(to: Any, block: int, table: pa.Table) -> Any:
            died = self.seen / f"died-{block}"
            if self.after or died.exists():
                (self.seen / f"{block}-{os.getpid()}").write_bytes(ipc(table))
                found = put(to, block, table)
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        patched.setattr(tasks, "put", puts)


class OrderedMerge(Planted):
    def plant(self, patched: pytest.MonkeyPatch) -> None:
        patched.setattr(tasks, "merged", visits.ordered)


class NoKey(Planted):
    def plant(self, patched: pytest.MonkeyPatch) -> None:
        def refuse(path: Path) -> Any:
            raise FileError(f"cannot read the key file {path}: Permission denied")

        patched.setattr(verbs, "KeyFile", refuse)


class OtherStream(Planted):
    def plant(self, patched: pytest.MonkeyPatch) -> None:
        found = verbs.Probe.__call__
        patched.setattr(verbs.Probe, "__call__", lambda probe: {**found(probe), "stream": 0})


class NoDpfast(Planted):
    def plant(self, patched: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "dpfast"]:
            patched.delitem(sys.modules, name)
        patched.setitem(sys.modules, "dpfast", None)


@pytest.fixture
def planted(client: Any) -> Iterator[Any]:
    """Plant into all workers; taken away afterwards."""
    names: list[str] = []

    def plant(what: Planted) -> None:
        names.append(f"planted-{len(names)}")
        client.register_plugin(what, name=names[-1])

    yield plant
    for name in names:
        client.unregister_worker_plugin(name)


# ------------------------------------------------------------------ one release


@pytest.mark.parametrize("kind", ["known", "unknown", "sums"])
def test_a_cluster_gives_the_bytes_of_one_process(tmp_path, client, kind) -> None:
    home = at_home(tmp_path, "one", "four", "seven")
    job(jobs, kind, ROWS, home, "one")
    job(dask, kind, visits.parquet(home / "rows", ROWS), home, "four", resume=True, client=client, shards=4)
    job(
        dask,
        kind,
        [ROWS.slice(0, 0), ROWS.slice(0, 9), ROWS.slice(9)],
        home,
        "seven",
        resume=True,
        client=client,
        shards=7,
    )
    same(home, "one", "four")
    same(home, "one", "seven")
    assert charges(home, "four") == 1


def test_dask_collections_are_read(tmp_path, client) -> None:
    home = at_home(tmp_path)
    delayed, bag = pytest.importorskip("dask").delayed, pytest.importorskip("dask.bag")
    parts = [ROWS.slice(0, 4000), ROWS.slice(4000)]
    how = {"unit": "user", "by": "country", "domain": ["no", "se"], **CAPS}
    found = []
    for i, rows in enumerate(
        [
            parts,
            [delayed(pa.Table.to_pandas)(part) for part in parts],
            client.scatter(parts, hash=False),
            bag.from_sequence(parts, npartitions=2),
            ROWS,
        ]
    ):
        key = dpfast.KeyFile(home / "visits.key").derive("q")
        found.append(dask.bounded_counts(rows, key=key, stage=home / f"{i}", shards=3, **how))  # the current client
    assert all(each.hashes == found[0].hashes for each in found)


@pytest.mark.parametrize("types", visits.TWO[1::2], ids="-".join)
def test_people_of_two_types_are_refused_by_name(tmp_path, client, types) -> None:
    home = at_home(tmp_path)
    folder, tables = visits.two_types(tmp_path / "rows", *types)
    frames = pytest.importorskip("dask.dataframe").from_map(pa.Table.to_pandas, tables, meta=tables[0].to_pandas())
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    for rows in (folder, tables, frames):
        with pytest.raises(dpfast.errors.DTypeError, match=f"user {visits.MIXED}|integers or texts|cannot be read"):
            dask.bounded_counts(rows, **visits.ONCE, key=key, stage=home / "s", client=client, shards=3)
    assert not (home / "s" / verbs.FROZEN).exists()


@pytest.mark.parametrize("types", visits.ONE[:5], ids="-".join)
def test_people_of_one_type_count_once(tmp_path, client, types) -> None:
    home = at_home(tmp_path)
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    for i, rows in enumerate(visits.two_types(tmp_path / "rows", *types)):
        dask.bounded_counts(rows, **visits.ONCE, key=key, stage=home / f"{i}", client=client, shards=3)
        assert pa.ipc.open_file(home / f"{i}" / tasks.name_of(0)).read_all()["n"].to_pylist() == [3, 0]


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize(
    ("people", "message"),
    [
        ([1, 2, 3, "1", "2", "3"], f"user {visits.MIXED}"),
        ([1, 2, 3, 1.0, 2.0, 3.0], f"user {visits.MIXED}"),
        ([1, "2", 3, 1, 2, 3], "cannot be read: Arrow"),
        ([1, 2, 3, 1, float("nan"), 3], "none missing|no nulls|one type"),
        (["1", "2", "3"] * 2, ""),
        ([1, 2, 3] * 2, ""),
    ],
)
def test_objects_of_dask_are_what_they_are(tmp_path, client, convert, people, message) -> None:
    """Dask makes texts of objects by default: then 1 and 1.0 are two people, and 1 and "1" one."""
    home, pandas = at_home(tmp_path), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": pandas.Series(people, dtype=object), "page": [0] * 6, "extra": ["a"] * 6})
    with pytest.importorskip("dask").config.set({"dataframe.convert-string": convert}):
        of_pandas = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
        forms = [of_pandas, of_pandas[of_pandas.page == 0][["page", "user"]]]
        key = dpfast.KeyFile(home / "visits.key").derive("q")
        for i, rows in enumerate(forms):
            how = {**visits.ONCE, "key": key, "stage": home / f"{i}", "client": client, "shards": 3}
            if message:
                with pytest.raises(dpfast.errors.DTypeError, match=message):
                    dask.bounded_counts(rows, **how)
            else:
                dask.bounded_counts(rows, **how)
                assert pa.ipc.open_file(home / f"{i}" / tasks.name_of(0)).read_all()["n"].to_pylist() == [3, 0]


def test_what_a_task_says_of_values_is_told_by_its_kind(tmp_path, client) -> None:
    home = at_home(tmp_path)
    key = dpfast.KeyFile(home / "visits.key").derive("q")
    late = [ROWS.slice(0, 9), client.submit(fail, f"at {SECRET}", pure=False)]
    for rows in (late, late[::-1]):
        with pytest.raises(
            dpfast.errors.DTypeError, match=r"^rows cannot be read: OSError of a task of Dask$"
        ) as refused:
            dask.bounded_counts(rows, **visits.ONCE, key=key, stage=home / "s", client=client, shards=3)
        assert refused.value.__suppress_context__


# ------------------------------------------------------------------ what is killed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.slow
def test_workers_killed_before_and_after_their_write_change_no_byte(tmp_path, client, planted, after) -> None:
    home = at_home(tmp_path, "one", "killed")
    seen = tmp_path / "seen"
    seen.mkdir()
    job(jobs, "known", ROWS, home, "one")
    planted(Killed(seen, after=after))
    job(dask, "known", visits.parquet(home / "rows", ROWS), home, "killed", resume=True, client=client)
    assert len(list(seen.glob("died-*"))) == 3
    for block in range(3):
        copies = [path.read_bytes() for path in seen.glob(f"{block}-*")]
        assert len(copies) >= 1 + after
        assert len(set(copies)) == 1
    same(home, "one", "killed")
    assert charges(home, "killed") == 1


@pytest.mark.slow
def test_a_driver_killed_anywhere_begins_again_and_pays_once(tmp_path, client) -> None:
    home = at_home(tmp_path, "one", *PHASES)
    rows = visits.parquet(home / "rows", ROWS)
    job(jobs, "known", ROWS, home, "one")
    address = client.scheduler.address
    drivers = [
        subprocess.Popen([sys.executable, TESTS / "visits.py", address, home, phase, phase], stderr=subprocess.PIPE)
        for phase in PHASES
    ]
    for phase, driver in zip(PHASES, drivers, strict=True):
        errors = driver.communicate(timeout=300)[1]
        assert driver.returncode == 9, errors.decode()[-2000:]
        job(dask, "known", rows, home, phase, resume=True, client=client, shards=7)
        same(home, "one", phase)
        assert charges(home, phase) == 1


def test_an_order_dependent_merge_ends_in_a_refusal(tmp_path, client, planted) -> None:
    home = at_home(tmp_path, "a")
    planted(OrderedMerge())
    with visits.dying("freeze", stop), pytest.raises(KeyboardInterrupt):
        job(dask, "known", [ROWS], home, "a", client=client, shards=4)
    with pytest.raises(OtherInputError, match="with different counts"):
        job(dask, "known", [ROWS], home, "a", client=client, shards=7)
    assert charges(home, "a") == 0
    assert not (home / "a.out").exists()


def stop() -> None:
    raise KeyboardInterrupt


# ------------------------------------------------------------------ what must not tell; bad input


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_neighbours_give_the_same_order_and_layout(tmp_path, client, kind) -> None:
    """A planted leak is found: tests/engines/test_jobs.py."""
    assert list(neighbours.leaks(kind, ROWS, at_home(tmp_path), dask.Cluster(client, 4))) == []


def told(client: Any) -> bytes:
    """The logs of scheduler, workers and nannies, and the names and descriptions of all tasks."""

    def tasks_of(dask_scheduler: Any) -> str:
        named = [(key, repr(task), task.prefix.name, task.annotations) for key, task in dask_scheduler.tasks.items()]
        return repr([named, list(dask_scheduler.transition_log), list(dask_scheduler.task_groups)])

    logs = [client.get_scheduler_logs()]
    for nanny in (False, True):
        logs += client.get_worker_logs(nanny=nanny).values()
    lines = [line for log in logs for _, line in log]  # not their repr, in which bytes look otherwise
    return "\n".join([*lines, str(client.get_events()), client.run_on_scheduler(tasks_of)]).encode()


def fail(what: str) -> None:
    raise OSError(what)


def note(what: bytes) -> None:
    logging.getLogger("distributed.worker").debug("%r", what)


def test_logs_and_names_of_tasks_hold_no_key_and_no_row(tmp_path, client) -> None:
    """After releases under a key in a file and one in memory, and after tasks that fail."""
    client.restart()  # other tests plant what these logs must not have
    home = at_home(tmp_path, "a")
    job(dask, "unknown", [ROWS], home, "a", client=client)
    master = dpfast.Key.generate()
    key = master.derive("visits")
    how = {"unit": "user", "by": "page", "domain": range(99), **CAPS, "client": client}
    counts = dask.bounded_counts([ROWS], key=key, stage=home / "s", **how)
    dask.release(counts, visits.mechanism("known", counts), key=key, ledger=None, to=home / "o", client=client)
    (home / "s" / tasks.name_of(0)).write_bytes(b"damaged")
    with pytest.raises(OtherInputError, match="changed after it was frozen"):
        dask.verify(home / "o", counts, visits.mechanism("known", counts), key=key, client=client)
    nulls = ROWS.set_column(1, "page", pa.array([None, *[SECRET + 5] * (ROWS.num_rows - 1)]))
    with pytest.raises(dpfast.errors.DTypeError, match="nulls"):
        dask.bounded_counts([nulls], key=key, stage=home / "n", **how)
    found = told(client)
    for shown in (b"Compute Failed", b"DEBUG", b"_freeze-", b"Nanny"):
        assert shown in found
    assert AN_ID.search(f"user={SECRET + 5},".encode())
    assert not AN_ID.search(found)
    of_file = dpfast.KeyFile(home / "visits.key").derive("unknown")
    masters = [(home / "visits.key").read_bytes(), bytes(master)]
    assert faulted.hits(found, *masters, *faulted.key_bytes(key, of_file)) == 0


@pytest.mark.parametrize("where", ["error", "name", "log"])
def test_a_leaked_key_is_found_in_logs_and_names(client, where) -> None:
    secret = bytes(dpfast.Key.generate())
    if where == "error":
        sent = client.submit(fail, secret.hex(), pure=False)
    elif where == "name":
        sent = client.submit(fail, "", key=f"draw-{base64.b64encode(secret).decode()}")
    else:
        sent = client.submit(note, secret, pure=False)
    distributed.wait(sent)
    assert faulted.hits(told(client), secret) > 0


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (NoKey(), FileError, "cannot read the key file"),
        (OtherStream(), ParameterError, "every worker must have stream version"),
        (NoDpfast(), ParameterError, "every worker must have dpfast"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Planted) else "",
)
def test_a_worker_that_cannot_is_one_error_before_anything(tmp_path, client, planted, what, error, message) -> None:
    home = at_home(tmp_path, "a")
    key = dpfast.KeyFile(home / "visits.key").derive("known")
    counts = jobs.bounded_counts(ROWS, unit="user", key=key, stage=home / "a.stage", **visits.KINDS["known"])
    planted(what)
    with pytest.raises(error, match=message):
        dask.release(
            counts,
            visits.mechanism("known", counts),
            key=key,
            ledger=dpfast.Ledger(home / "a.db"),
            to=home / "o",
            client=client,
        )
    assert charges(home, "a") == 0
    assert files(home / "o") == {}


def test_bad_input_is_one_error_on_the_driver(tmp_path, client) -> None:
    home = at_home(tmp_path, "a")
    key = dpfast.KeyFile(home / "visits.key").derive("known")
    nulls = pa.array([None] + [1] * (ROWS.num_rows - 1))
    for rows, changed, error, message in (
        ([ROWS], {"by": "town"}, ParameterError, "column 'town'"),
        ([ROWS], {"domain": [1, 1]}, ParameterError, "each key once"),
        ([], {}, ParameterError, "at least one part"),
        (5, {}, dpfast.errors.DTypeError, "rows must be"),
        ([ROWS.set_column(0, "user", nulls)], {}, dpfast.errors.DTypeError, "none missing|no nulls"),
        ([ROWS.set_column(1, "page", nulls)], {}, dpfast.errors.DTypeError, "no nulls"),
    ):
        with pytest.raises(error, match=message):
            dask.bounded_counts(
                rows, unit="user", key=key, stage=home / "s", client=client, **{**visits.KINDS["known"], **changed}
            )
    assert not (home / "s" / verbs.FROZEN).exists()
    job(jobs, "known", ROWS, home, "a")
    there = files(home / "a.out")
    with pytest.raises(ParameterError, match="stage must be of this release"):
        dask.bounded_counts([ROWS], unit="user", key=key, stage=home / "a.stage", client=client,
                            **{**visits.KINDS["known"], "max_partitions": 5})  # fmt: skip
    (home / "a.stage" / verbs.FROZEN).unlink()  # as a driver leaves it that is killed before the seal
    with pytest.raises(OtherInputError, match="with different counts"):
        job(dask, "known", [ROWS.slice(9)], home, "a", resume=True, client=client)  # the source has changed
    assert files(home / "a.out") == there
    assert charges(home, "a") == 1
