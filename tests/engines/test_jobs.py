# SPDX-License-Identifier: Apache-2.0
"""Jobs in one process: pure tasks, stages, and a driver that is killed anywhere."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import warnings
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import neighbours
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tiers
import visits
from click.testing import CliRunner
from pyarrow import fs
from visits import CAPS, KINDS, PAGES, PHASES, SECRET, at_home, charges, files, job, mechanism, same

import dpfast
from dpfast import (
    BudgetExhausted,
    DiscreteLaplace,
    DTypeError,
    FileError,
    KeyReuseError,
    OtherInputError,
    ParameterError,
    bounded_histogram,
    jobs,
)
from dpfast.cli import commands
from dpfast.jobs import folder as folders
from dpfast.jobs import table, tasks, verbs
from dpfast.jobs.folder import Folder
from dpfast.jobs.keys import ipc, names_of_runs, runs_of
from dpfast.records.partitions import NOISE, canonical
from dpfast.release.names import Names
from dpfast.release.seal import bytes_of

ROWS = visits.visits()


def counted(home: Path, kind: str = "known", rows: Any = ROWS, name: str = "a", **changed: Any) -> jobs.Counts:
    key = dpfast.KeyFile(home / "visits.key").derive(changed.pop("label", kind))
    return jobs.bounded_counts(
        rows, **{"unit": "user", "key": key, "stage": home / f"{name}.stage", **KINDS[kind], **changed}
    )


def key_of(home: Path, label: str = "known") -> dpfast.ReleaseKey:
    return dpfast.KeyFile(home / "visits.key").derive(label)


# ------------------------------------------------------------------ one release, however it is cut


@pytest.mark.parametrize("kind", KINDS)
def test_shards_order_and_form_of_the_rows_change_no_byte(tmp_path, kind) -> None:
    home = at_home(tmp_path, "one", "four", "seven")
    job(jobs, kind, ROWS, home, "one")
    table = ROWS.take(pa.array(np.random.default_rng(1).permutation(ROWS.num_rows)))
    job(jobs, kind, table.to_batches(max_chunksize=999), home, "four", resume=True, engine=jobs.OneProcess(4))
    job(jobs, kind, visits.parquet(home / "rows", ROWS), home, "seven", resume=True, engine=jobs.OneProcess(7))
    same(home, "one", "four")
    same(home, "one", "seven")
    assert charges(home, "one") == charges(home, "seven") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_go_through_files_give_the_same_bytes(tmp_path, kind) -> None:
    """Parquet files, cut into shards beside the stage."""
    home = at_home(tmp_path, "one", "five")
    job(jobs, kind, ROWS, home, "one")
    job(jobs, kind, visits.parquet(home / "rows", ROWS), home, "five", resume=True, engine=jobs.OutOfCore(5))
    same(home, "one", "five")
    assert charges(home, "five") == 1


@pytest.mark.parametrize("rows", [1, 6, 7, 20, 21, 22])
def test_a_table_is_cut_into_blocks_however_it_comes(rows) -> None:
    numbers = pa.table({"key": range(rows), "n": range(rows)})
    for sizes in ([rows], [1] * rows, [0, 3, 0, 11, 100], [6, 1, 7, 100]):
        starts = np.cumsum([0, *sizes]).tolist()
        cuts = [numbers.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
        blocks = list(table.in_blocks(cuts, 7))
        assert [block.num_rows for block in blocks] == [7] * (rows // 7) + [rows % 7] * (rows % 7 > 0)
        assert pa.concat_tables(blocks).equals(numbers)


class Streamed(jobs.OneProcess):
    """A table of forty blocks, which comes in pieces and is never there as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def schema(self, rows: Any) -> pa.Schema:
        return rows

    def ordered(self, rows: Any, columns: list[str], keys: int) -> Any:
        for start in range(0, 40 * tasks.BLOCK, 50_000):
            self.seen.append(pa.total_allocated_bytes())
            numbers = np.arange(start, min(start + 50_000, 40 * tasks.BLOCK))
            yield pa.table({"key": pa.array(numbers.tolist()), "n": pa.array(numbers % 9)})


def test_a_table_is_frozen_in_the_memory_of_some_blocks(tmp_path) -> None:
    home, engine = at_home(tmp_path), Streamed()
    schema = pa.schema([("key", pa.int64()), ("n", pa.int64())])
    counts = jobs.counted(schema, by="key", column="n", key=key_of(home), stage=home / "s", engine=engine)
    assert len(counts.hashes) == 40
    assert max(engine.seen) - engine.seen[0] < 8e6 < 40 * tasks.BLOCK * 16


def test_keys_ascend_strictly_column_by_column() -> None:
    for rows, ordered in (
        ([("a", 1), ("a", 2), ("b", 0)], True), ([("a", 1), ("a", 1)], False), ([("a", 2), ("a", 1)], False),
        ([("b", 0), ("a", 1)], False), ([("Z", 0), ("a", 0), ("é", 0)], True), ([("é", 0), ("z", 0)], False), ([], True),
    ):  # fmt: skip
        names, years = [name for name, _ in rows], [year for _, year in rows]
        of = {"name": pa.array(names, pa.string()), "year": pa.array(years, pa.int64()), "n": [0] * len(rows)}
        assert table.ascending(pa.table(of)) is ordered, rows


class Adverse:
    """An engine that pickles all, runs it twice in any order, and knows of no empty block."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(11)

    def schema(self, rows: Any) -> pa.Schema:
        return rows.schema

    def everywhere(self, check: Any) -> list[Any]:
        return [pickle.loads(pickle.dumps(check))() for _ in range(3)]

    def freeze(self, rows: pa.Table, bound: Any, freeze: Any) -> list[tuple[int, str]]:
        bound, freeze = pickle.loads(pickle.dumps((bound, freeze)))
        shard = np.asarray(rows["user"]) % 13
        partial = pa.concat_tables([bound(part.to_batches()) for part in jobs.cut(rows, shard, range(14))])
        partial = partial.take(pa.array(self.rng.permutation(partial.num_rows)))
        blocks = np.asarray(partial["block"])
        found = [freeze(j, partial.filter(pa.array(blocks == j))) for j in 2 * np.unique(blocks).tolist()]
        return list(self.rng.permutation(np.array(found, object)).tolist())

    def run(self, task: Any, blocks: Any) -> list[Any]:
        order = self.rng.permutation(2 * list(blocks))
        found = {int(j): pickle.loads(pickle.dumps(task.only(int(j))))(int(j)) for j in order}
        return [found[j] for j in blocks]


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_may_run_everything_twice_and_anywhere(tmp_path, kind) -> None:
    home = at_home(tmp_path, "one", "adverse")
    job(jobs, kind, ROWS, home, "one")
    job(jobs, kind, ROWS, home, "adverse", resume=True, engine=Adverse())
    same(home, "one", "adverse")
    assert charges(home, "adverse") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_bounded_histogram(tmp_path, kind) -> None:
    how = {name: value for name, value in KINDS[kind].items() if name not in ("by", "values", "buckets")}
    by, values = KINDS[kind]["by"], KINDS[kind].get("values")
    keys = ROWS[by] if isinstance(by, str) else tuple(ROWS[name] for name in by)
    at_home(tmp_path)
    counts = counted(tmp_path, kind, engine=jobs.OneProcess(3))
    whole = bounded_histogram(keys, ROWS["user"], values=values and ROWS[values], key=key_of(tmp_path, kind), **how)
    blocks = [pa.ipc.open_file(tmp_path / "a.stage" / tasks.name_of(j)).read_all() for j in range(counts.terms.blocks)]
    assert counts.sensitivity == whole.sensitivity
    if kind != "unknown":
        found = dict(zip(sorted(whole.keys.tolist()), np.concatenate([b["n"] for b in blocks]).tolist(), strict=True))
        assert found == dict(zip(whole.keys.tolist(), whole.counts.tolist(), strict=True))
        return
    rows = pa.concat_tables(blocks).to_pydict().values()
    occurring = zip(whole.keys.tolist(), whole.counts.tolist(), strict=True)
    assert {tuple(key): n for *key, n in zip(*rows, strict=True)} == {key: n for key, n in occurring if n}
    shown = dpfast.thresholded(whole.keys, whole.counts, epsilon=1, delta=1e-6, sensitivity=whole.sensitivity,
                               key=tiers.naming(key_of(tmp_path, kind), counts.terms.public), buckets=8)  # fmt: skip
    jobs.release(
        counts, mechanism(kind, counts), key=key_of(tmp_path, kind), ledger=None, to=tmp_path / "out", resume=True
    )
    out = pq.read_table(tmp_path / "out" / tasks.file_of(0))
    assert out["count"].to_pylist() == shown.counts.tolist()
    assert list(zip(out["country"].to_pylist(), out["page"].to_pylist(), strict=True)) == shown.keys.tolist()
    assert out.num_rows > 3


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("noise", NOISE)
def test_keys_are_withheld_as_by_thresholded(tmp_path, noise, least) -> None:
    """By either noise, with or without a pre-threshold: the same bytes under any sharding."""
    at_home(tmp_path)
    how = {name: value for name, value in KINDS["unknown"].items() if name not in ("by", "values", "buckets")}
    whole = bounded_histogram((ROWS["country"], ROWS["page"]), ROWS["user"], key=key_of(tmp_path, "unknown"), **how)
    named = tiers.naming(key_of(tmp_path, "unknown"), counted(tmp_path, "unknown", name="terms").terms.public)
    shown = dpfast.thresholded(whole.keys, whole.counts, epsilon=1, delta=0.9, sensitivity=whole.sensitivity, noise=noise,
                               pre_threshold=least, key=named, buckets=8)  # fmt: skip
    outputs = []
    for name, shards in (("a", 1), ("b", 5)):
        counts = counted(tmp_path, "unknown", name=name, engine=jobs.OneProcess(shards))
        law = NOISE[noise](1, 0.9, counts.sensitivity, pre_threshold=least)
        to, key = tmp_path / f"{name}.out", key_of(tmp_path, "unknown")
        facts = jobs.release(counts, law, key=key, ledger=None, to=to, resume=True, engine=jobs.OneProcess(shards))
        jobs.verify(to, counts, law, key=key)
        assert facts["threshold"] == shown.threshold
        assert facts["spends"].get("pre_threshold", 1) == least
        outputs.append(files(to))
    assert outputs[0] == outputs[1]
    out = pq.read_table(tmp_path / "a.out" / tasks.file_of(0))
    assert out["count"].to_pylist() == shown.counts.tolist()
    assert list(zip(out["country"].to_pylist(), out["page"].to_pylist(), strict=True)) == shown.keys.tolist()
    assert 3 < out.num_rows < whole.keys.size


def test_means_from_two_outputs(tmp_path) -> None:
    """One chooser, so as many rows: every interval holds the mean of what was kept; 1e-9."""
    home, chooser = at_home(tmp_path), key_of(tmp_path).chooser()
    caps = {"by": "country", "domain": ["no", "se", "dk", "is"], "max_partitions": 2, "max_per_partition": 2}
    bounds = {"values": "minutes", "lower": 0, "upper": 60, "granularity": 0.25}
    rows = {"count": counted(home, rows=ROWS, name="n", **{"domain": None, **caps}),
            "sum": counted(home, rows=ROWS, name="s", label="sums", chooser=chooser, **{**caps, **bounds})}  # fmt: skip
    with pytest.raises(ParameterError, match="chooser"):
        counted(home, rows=ROWS, name="s", label="sums", **{**caps, **bounds})
    laws, found = [], []
    for name, counts in rows.items():
        laws.append(DiscreteLaplace(1, counts.sensitivity))
        out, key = tmp_path / f"{name}.out", key_of(home, counts.terms.label)
        jobs.release(counts, laws[-1], key=key, ledger=None, to=out)
        found.append(pq.read_table(out / tasks.file_of(0)))
    noisy, facts = found[1]["sum"].to_numpy(), json.loads((tmp_path / "sum.out" / verbs.MANIFEST).read_text())
    sure = dpfast.postprocess.mean(noisy, found[0]["count"].to_numpy(), noise=laws[::-1], lower=0, upper=60,
                                   granularity=Fraction(facts["granularity"]), confidence=1 - 1e-10)  # fmt: skip
    true = [
        np.asarray(pa.ipc.open_file(tmp_path / f"{name}.stage" / tasks.name_of(0)).read_all()["n"]) for name in "ns"
    ]
    options = {"domain": found[0]["country"].to_pylist(), "key": chooser, "max_partitions": 2, "max_per_partition": 2}
    for counts, valued in zip(true, ({}, {**bounds, "values": ROWS["minutes"]}), strict=True):
        assert counts.tolist() == bounded_histogram(ROWS["country"], ROWS["user"], **options, **valued).counts.tolist()
    means = true[1] * 0.25 / np.maximum(true[0], 1)  # one key has no rows, and any interval
    assert (sure.lower <= means).all()
    assert (means <= sure.upper).all()
    assert (sure.upper - sure.lower < 30).any()


def test_a_release_is_the_counts_and_noise_of_its_law(tmp_path) -> None:
    at_home(tmp_path)
    counts = counted(tmp_path)
    facts = jobs.release(counts, mechanism("known", counts), key=key_of(tmp_path), ledger=None, to=tmp_path / "out")
    names = [each["name"] for each in facts["files"]]
    out = pa.concat_tables([pq.read_table(tmp_path / "out" / name) for name in names])
    blocks = [np.asarray(pa.ipc.open_file(tmp_path / "a.stage" / tasks.name_of(j)).read_all()["n"]) for j in range(3)]
    noise = np.asarray(out["count"]) - np.concatenate(blocks)
    assert np.asarray(out["page"]).tolist() == list(range(PAGES))
    assert abs(noise.mean()) < 0.2
    assert abs(noise.std() / mechanism("known", counts).stddev - 1) < 0.02
    assert (
        len({block.tobytes() for block in np.split(noise[:130_000], 13)}) == 13
    )  # the empty block has noise of its own


def test_sums_that_do_not_fit_saturate_in_any_order() -> None:
    ends = np.iinfo(np.int64)
    plan = verbs.plan(
        pa.schema([("u", pa.int64()), ("k", pa.int64())]), dpfast.Key.generate().derive("q"), unit_column="u", by="k", domain=[5, 7],
        buckets=1, values=None, max_contributions=1, max_partitions=None, max_per_partition=None, lower=None, upper=None,
        granularity=None, adjacency="add-remove", unit="person", chooser=None,
    )[0]  # fmt: skip
    n, row = np.array([ends.max, ends.max, -5, ends.min, -1, ends.min]), np.array([0, 0, 0, 1, 1, 1])
    rng = np.random.default_rng(3)
    for order in [rng.permutation(6) for _ in range(5)]:
        partial = pa.table({"block": np.zeros(6, np.int64), "row": row[order], "n": n[order]})
        assert tasks.merged(plan, 0, partial)["n"].to_pylist() == [ends.max, ends.min]
    exact = [2**40 - 3, -(2**33), 7]
    partial = pa.table({"block": [0] * 3, "row": [0, 1, 1], "n": exact})
    assert tasks.merged(plan, 0, partial)["n"].to_pylist() == [2**40 - 3, 7 - 2**33]


def test_the_canonical_bytes_of_columns_are_those_of_their_keys() -> None:
    """By Arrow in columns, and one by one as `thresholded` writes them."""
    texts, numbers = ["", "é", "a\0b", "5"], [-(2**63), 0, 5, 2**63 - 1]
    for columns in ([texts], [numbers], [texts, numbers], [numbers, texts, texts]):
        kinds = ["string" if each is texts else "int64" for each in columns]
        rows = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
        found = runs_of([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)])
        assert found.to_pylist() == list(map(canonical, rows))
        names, wanted = names_of_runs(found), Names.of_bytes(found.to_pylist())
        assert list(map(bytes_of, names.fields(0, 4))) == list(map(bytes_of, wanted.fields(0, 4)))
    assert runs_of([pa.array([2**64 - 1], pa.uint64())]).to_pylist() == [canonical(2**64 - 1)]
    assert len(names_of_runs(runs_of([pa.array([], pa.string())]))) == 0


# ------------------------------------------------------------------ a driver that dies


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_a_driver_killed_anywhere_begins_again_and_pays_once(tmp_path, kind) -> None:
    home = at_home(tmp_path, "whole", *PHASES)
    job(jobs, kind, ROWS, home, "whole")
    for phase in PHASES:
        child = os.fork()
        if child == 0:
            with visits.dying(phase, lambda: os._exit(9)):
                job(jobs, kind, ROWS, home, phase, resume=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, phase
        assert not (home / f"{phase}.out" / verbs.MANIFEST).exists()
        assert charges(home, phase) == (phase in ("reserve", "draw", "publish"))
        job(jobs, kind, ROWS, home, phase, resume=True, engine=jobs.OneProcess(3))
        same(home, "whole", phase)
        assert charges(home, phase) == 1


def test_a_frozen_stage_is_read_and_the_rows_are_not(tmp_path) -> None:
    at_home(tmp_path)
    before = counted(tmp_path)
    there = files(tmp_path / "a.stage")
    again = counted(tmp_path, rows=ROWS.slice(0, 10))  # a source that changed after the freeze
    assert again.hashes == before.hashes
    assert files(tmp_path / "a.stage") == there


def test_rows_that_changed_while_a_stage_was_begun_are_refused(tmp_path, monkeypatch) -> None:
    at_home(tmp_path)
    with visits.dying("freeze", lambda: (_ for _ in ()).throw(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        counted(tmp_path)
    with pytest.raises(OtherInputError, match="computed twice, and not to equal counts"):
        counted(tmp_path, rows=ROWS.slice(100))
    assert not (tmp_path / "a.stage" / verbs.FROZEN).exists()


def test_a_merge_that_depends_on_the_order_of_rows_ends_in_a_refusal(tmp_path, monkeypatch) -> None:
    at_home(tmp_path)
    monkeypatch.setattr(tasks, "merged", visits.ordered)
    with visits.dying("freeze", lambda: (_ for _ in ()).throw(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        counted(tmp_path, engine=jobs.OneProcess(4))
    with pytest.raises(OtherInputError):
        counted(tmp_path, engine=jobs.OneProcess(7))


def test_noise_that_is_drawn_anew_ends_in_a_refusal(tmp_path, monkeypatch) -> None:
    """The planted fault of other systems: NumPy's noise, which a second try draws again."""
    home, rng = at_home(tmp_path, "a"), np.random.default_rng()

    def fresh(_: Any, block: int, values: Any, **__: Any) -> Any:
        return values + rng.geometric(0.1, values.size) - rng.geometric(0.1, values.size)

    monkeypatch.setattr(tasks.Sealed, "release", fresh)
    with visits.dying("publish", lambda: (_ for _ in ()).throw(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        job(jobs, "known", ROWS, home, "a")
    there = files(home / "a.out")
    with pytest.raises(FileError, match="not what this release gives"):
        job(jobs, "known", ROWS, home, "a", resume=True)
    assert files(home / "a.out") == there
    assert len(there) == 3


def test_a_stage_that_is_written_after_it_was_frozen_or_sealed_is_refused(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    counts, ledger = counted(home), dpfast.Ledger(home / "a.db")
    how, key = mechanism("known", counts), key_of(home)
    block = home / "a.stage" / tasks.name_of(2)
    frozen, other = block.read_bytes(), (home / "a.stage" / tasks.name_of(0)).read_bytes()
    block.write_bytes(other)
    with pytest.raises(OtherInputError, match="changed after it was frozen"):
        jobs.release(counts, how, key=key, ledger=ledger, to=home / "a.out")
    assert charges(home, "a") == 0
    block.write_bytes(frozen)
    with visits.dying("draw", lambda: (_ for _ in ()).throw(KeyboardInterrupt)), pytest.raises(KeyboardInterrupt):
        jobs.release(counts, how, key=key, ledger=ledger, to=home / "a.out")
    changed = pa.ipc.open_file(block).read_all()["n"].to_numpy().copy()
    changed[0] += 1
    block.write_bytes(ipc(pa.table({"n": changed})))
    for _ in range(2):  # it was sealed with another block, and is so still
        with pytest.raises(OtherInputError, match="changed after it was frozen"):
            jobs.release(counts, how, key=key, ledger=ledger, to=home / "a.out", resume=True)
    assert not (home / "a.out" / verbs.MANIFEST).exists()
    assert not (home / "a.out" / tasks.file_of(2)).exists()
    block.unlink()
    with pytest.raises(FileError, match="lacks a block"):
        jobs.release(counts, how, key=key, ledger=ledger, to=home / "a.out", resume=True)
    assert charges(home, "a") == 1


# ------------------------------------------------------------------ what must not tell


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_neighbours_give_the_same_order_and_layout(tmp_path, kind) -> None:
    assert neighbours.leaks(kind, ROWS, at_home(tmp_path), jobs.OneProcess(2)) == []


@pytest.mark.parametrize(
    ("kind", "owner", "name", "planted", "what"),
    [
        ("unknown", verbs, "ranked", neighbours.by_appearance(ROWS), "the order of keys"),
        # six keys come sorted by chance once in 150 times, and into one file once in 33,000
        (
            "unknown",
            verbs,
            "ranked",
            neighbours.by_bucket(),
            ("the order of keys", "the sizes of files", "the names of files"),
        ),
        ("known", tasks, "put", neighbours.by_count(), "files, row groups or keys"),
    ],
)
def test_an_order_or_layout_that_tells_is_found(tmp_path, monkeypatch, kind, owner, name, planted, what) -> None:
    monkeypatch.setattr(owner, name, planted)
    found = neighbours.leaks(kind, ROWS, at_home(tmp_path), jobs.OneProcess())
    assert len(found) == 4
    assert all(each.endswith(what) for each in found)


def test_output_is_cut_by_public_rank_alone(tmp_path, monkeypatch) -> None:
    """Unknown keys: by the rank among those shown, whatever the buckets held."""
    monkeypatch.setattr(verbs, "BLOCK", 3)
    home = at_home(tmp_path, "a")
    job(jobs, "unknown", ROWS, home, "a")
    listed, _, keys = neighbours.layout(home / "a.out")
    assert [each["rows"] for each in listed["files"]][:-1] == [3] * (len(keys) - 1)
    assert len(keys) > 1
    found = [row for each in keys for row in zip(*each.values(), strict=True)]
    assert found == sorted(found)


def test_a_part_carries_its_own_rows_alone() -> None:
    """Arrow pickles a slice with all that it is a slice of: workers would be sent it many times."""
    place = np.arange(ROWS.num_rows) % 50
    parts = jobs.cut(ROWS, place, range(50))
    assert pa.concat_tables(parts).equals(ROWS.take(pa.array(np.argsort(place, kind="stable"))))
    whole = len(pickle.dumps(ROWS))
    assert max(len(pickle.dumps(part)) for part in parts) < whole / 10
    assert len(pickle.dumps(ROWS.slice(0, 10))) > whole / 10  # or else nothing of this is needed any more


def test_nothing_private_is_shown(tmp_path, capsys, caplog) -> None:
    home = at_home(tmp_path, "a")
    counts, key = counted(home, "unknown"), key_of(home, "unknown")
    master = (home / "visits.key").read_bytes()
    how = mechanism("unknown", counts)
    folder, engine = counts.stage, jobs.OneProcess(2)
    digest = tasks.Digest(counts.terms, folder, counts.hashes, key.digester(how))
    sealed = verbs.seal_of(counts, how, tiers.naming(key, counts.terms.public), engine).without_ledger()
    draw = tasks.Draw(counts.terms, folder, sealed, how.showing)
    bound = tasks.Bound(counts.terms, ROWS.schema, key.chooser(), key.bucketer(8), folder)
    publish = tasks.Publish(draw, Folder(home / "out"))
    told = " ".join(
        map(repr, (counts, counts.terms, folder, digest, draw, bound, publish, publish.only(3), key.bucketer(8)))
    )
    told += json.dumps(jobs.release(counts, how, key=key, ledger=None, to=home / "o", resume=True)) + caplog.text
    told += "".join(capsys.readouterr())
    assert str(SECRET)[:9] not in told
    for secret in (master, *tiers.drawing(sealed), tiers.choosing(key.chooser()), tiers.secret_of(key)):
        assert secret.hex() not in told
        assert repr(secret)[2:-1] not in told
    assert master not in pickle.dumps([publish.only(1), digest.only(1), bound])  # none of them can do all
    assert len(pickle.dumps(publish.only(1))) < 3000
    tables = [file.read_bytes() for file in (home / "o").iterdir()]
    assert not any(str(SECRET)[:9].encode() in each for each in tables)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"by": "town"}, ParameterError, "must have a column 'town'"),
        ({"unit": "person"}, ParameterError, "must have a column 'person'"),
        ({"values": "hours", "lower": 0, "upper": 1}, ParameterError, "must have a column 'hours'"),
        ({"by": ["page", "page"]}, ParameterError, "none twice"),
        ({"by": [["page"]]}, DTypeError, "must be texts"),
        ({"by": []}, ParameterError, "at least one column"),
        ({"by": "minutes"}, DTypeError, "integers or texts"),
        ({"unit": "minutes"}, DTypeError, "integers or texts"),
        ({"domain": [1, 2, 1]}, ParameterError, "each key once"),
        ({"domain": ["a"]}, DTypeError, "of the type of its column"),
        ({"domain": [2**63]}, ParameterError, "must fit its column"),
        ({"domain": []}, ParameterError, "at least one key"),
        ({"max_partitions": 0}, ParameterError, "max_partitions"),
        ({"key": b"x" * 32}, DTypeError, "release key"),
        ({"chooser": b"x" * 32}, DTypeError, "chooser must be that of a release key"),
        ({"stage": ""}, ParameterError, "must be named"),
        ({"stage": 5}, DTypeError, "path or a URI"),
        ({"stage": "nowhere://x/y"}, FileError, "cannot be reached"),
        ({"rows": 5}, DTypeError, "Arrow tables"),
        ({"rows": [ROWS, ROWS.drop(["page"])]}, DTypeError, "cannot be read"),
        ({"rows": [ROWS, ROWS.set_column(1, "page", ROWS["country"])]}, DTypeError, "page must be of one type"),
        ({"rows": "/nowhere/at/all"}, FileError, "Parquet"),
        ({"rows": ROWS.set_column(0, "user", pa.array([None, *[SECRET] * (ROWS.num_rows - 1)]))}, DTypeError, "no nulls"),
        ({"rows": ROWS.set_column(1, "page", pa.array([None, *[SECRET] * (ROWS.num_rows - 1)]))}, DTypeError, "no nulls"),
    ],
)  # fmt: skip
def test_bad_input_is_one_error_and_freezes_nothing(tmp_path, changed, error, message) -> None:
    at_home(tmp_path)
    with pytest.raises(error, match=message) as refused:
        counted(tmp_path, **changed)
    assert str(SECRET)[:9] not in str(refused.value)
    assert not (tmp_path / "a.stage" / verbs.FROZEN).exists()


def test_a_stage_of_another_release_is_refused_by_name(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    counts = counted(home)
    there = files(home / "a.stage")
    for changed, named in (
        ({"label": "other"}, "label is 'known', not 'other'"),
        ({"max_partitions": 5}, "max_partitions is 4, not 5"),
        ({"domain": range(PAGES - 1)}, "size is"),
        ({"by": "country", "domain": ["no"]}, "by is"),
        ({"unit": "page"}, "unit is 'user', not 'page'"),
    ):
        with pytest.raises(ParameterError, match=named):
            counted(home, **changed)
    ledger = dpfast.Ledger(home / "a.db")
    with pytest.raises(ParameterError, match="must be that of the stage, which is of 'known', got 'other'"):
        jobs.release(counts, mechanism("known", counts), key=key_of(home, "other"), ledger=ledger, to=home / "a.out")
    (home / "b.stage").mkdir(0o700)
    (home / "b.stage" / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="neither empty nor a stage"):
        counted(home, name="b")
    (home / "a.stage").chmod(0o755)
    with pytest.raises(FileError, match="others may enter"):
        counted(home)
    assert files(home / "a.stage") == there
    assert charges(home, "a") == 0


def test_what_a_release_refuses_costs_nothing(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    counts, unknown, ledger = counted(home), counted(home, "unknown", name="u"), dpfast.Ledger(home / "a.db")
    how = mechanism("known", counts)

    def refused(error: type[Exception], message: str, of: Any = counts, mech: Any = how, **given: Any) -> None:
        with pytest.raises(error, match=message):
            jobs.release(of, mech, **{"key": key_of(home), "ledger": ledger, "to": home / "out", **given})

    refused(DTypeError, "counts must be those", of=[1])
    refused(DTypeError, "mechanism must be one of dpfast's", mech=7)
    refused(ParameterError, "must be made for l1 of at least", mech=DiscreteLaplace(1, 1))
    refused(ParameterError, "shows every key", mech=jobs.Withholding(1, 1e-6, unknown.sensitivity))
    refused(ParameterError, "private keys", of=unknown, mech=DiscreteLaplace(1, 8), key=key_of(home, "unknown"))
    for made in (jobs.Withholding, jobs.GaussianWithholding):
        refused(
            ParameterError,
            "counts.sensitivity, or more",
            of=unknown,
            mech=made(1, 1e-6, dpfast.Sensitivity(1, 1)),
            key=key_of(home, "unknown"),
        )
    less = jobs.Withholding(1, 1e-6, dpfast.Sensitivity(8, 1))
    refused(ParameterError, "counts.sensitivity, or more", of=unknown, mech=less, key=key_of(home, "unknown"))
    refused(DTypeError, "release key", key=None)
    refused(DTypeError, "ledger must be a Ledger", ledger=7)
    refused(DTypeError, "resume", resume=1)
    refused(BudgetExhausted, "epsilon", mech=DiscreteLaplace(11, counts.sensitivity))
    (home / "out").mkdir(exist_ok=True)
    (home / "out" / "a.txt").write_text("mine")
    refused(FileError, "is not empty")
    assert charges(home, "a") == 0
    (home / "visits.key").chmod(0o644)
    with pytest.raises(FileError, match="others may read"):
        jobs.release(counts, how, key=counts_key(home), ledger=ledger, to=home / "o2")
    assert charges(home, "a") == 0


def counts_key(home: Path) -> dpfast.ReleaseKey:
    """A key that was read before others could."""
    (home / "visits.key").chmod(0o600)
    key = key_of(home)
    (home / "visits.key").chmod(0o644)
    return key


def test_a_label_is_one_release(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    counts, ledger, key = counted(home), dpfast.Ledger(home / "a.db"), key_of(home)
    how = mechanism("known", counts)
    jobs.release(counts, how, key=key, ledger=ledger, to=home / "a.out")
    there = files(home / "a.out")
    for again in ({"to": home / "b.out"}, {"to": home / "a.out"}):
        with pytest.raises(KeyReuseError, match="resume=True"):
            jobs.release(counts, how, key=key, ledger=ledger, **again)
    other = DiscreteLaplace(2, counts.sensitivity)
    with pytest.raises(KeyReuseError, match="other parameters"):
        jobs.release(counts, other, key=key, ledger=ledger, to=home / "c.out", resume=True)
    second = counted(home, name="b", label="known 2")
    for paying, error, message in (
        (ledger, FileError, "reserved yet"),
        (None, ParameterError, "output of this release"),
    ):
        with pytest.raises(error, match=message):
            jobs.release(second, how, key=key_of(home, "known 2"), ledger=paying, to=home / "a.out", resume=True)
    jobs.release(counts, how, key=key, ledger=ledger, to=home / "d.out", resume=True)
    assert files(home / "a.out") == files(home / "d.out") == there
    (home / "d.out" / tasks.file_of(1)).write_bytes(b"damaged")
    with pytest.raises(FileError, match="not what this release gives"):
        jobs.release(counts, how, key=key, ledger=ledger, to=home / "d.out", resume=True)
    assert charges(home, "a") == 1


# Symmetric counts: each pair of places once, and nothing to add up.
ALIKE = pa.table({
    "user": range(4), "other": range(4), "from": [1, 2, 1, 2], "to": [2, 1, 1, 2], "m": [0.0] * 4, "w": [0.0] * 4,
    "n": [0] * 4, "k": [0] * 4,
})  # fmt: skip
TERMS: dict[str, Any] = {
    "unit": "other", "by": ["to", "from"], "values": "w", "max_partitions": 5, "max_per_partition": 2, "max_contributions": 7,
    "lower": 1, "upper": 8, "granularity": 0.5, "adjacency": "substitution", "privacy_unit": "visit", "chooser": None,
    "types": None, "domain": ([1, 2], [1, 3]), "buckets": 3, "column": "k",
}  # fmt: skip


def of_engine(engine: str, rows: pa.Table) -> tuple[Any, Any]:
    """Rows as an engine takes them, and the engine."""
    if engine == "duckdb":
        connection = pytest.importorskip("duckdb").connect()
        return connection.from_arrow(rows), pytest.importorskip("dpfast.adapters.duckdb").Relations(2)
    if engine == "polars":
        polars = pytest.importorskip("polars")
        return polars.from_arrow(rows).lazy(), pytest.importorskip("dpfast.adapters.polars_lazy").LazyFrames(2)
    return rows, jobs.OneProcess() if engine == "one process" else jobs.OutOfCore(2)


def of_terms(
    home: Path, kind: str, name: str, engine: str = "one process", term: str = ""
) -> tuple[jobs.Counts, Any, Any]:
    """Counts of the rows above with one term changed; a mechanism that hides what any unit does."""
    change = {} if term in ("", "types") else {term: TERMS[term]}
    if term == "chooser":
        change = {"chooser": key_of(home, "another").chooser()}
    rows = ALIKE
    if term == "types":
        rows = rows.set_column(2, "from", rows["from"].cast(pa.uint64())).set_column(
            3, "to", rows["to"].cast(pa.uint64())
        )
    given, run = of_engine(engine, rows)
    how: dict[str, Any] = {
        "by": ["from", "to"],
        "key": key_of(home, kind),
        "stage": home / f"{name}.stage",
        "engine": run,
    }
    if kind == "counted":
        return jobs.counted(given, **{**how, "column": "n", **change}), DiscreteLaplace(1, 99), run
    how |= {
        "unit": "user",
        "values": "m",
        "lower": 0,
        "upper": 9,
        "granularity": 1,
        "max_partitions": 4,
        "max_per_partition": 1,
    }
    how |= {"domain": ([1, 2], [1, 2])} if kind == "known" else {"buckets": 2}
    counts = jobs.bounded_counts(given, **{**how, **change})
    of = {"adjacency": counts.sensitivity.adjacency, "unit": counts.sensitivity.unit}
    wide = dpfast.Sensitivity(9, 99, keys="public" if kind == "known" else "private", **of)
    return counts, DiscreteLaplace(1, wide) if kind == "known" else jobs.Withholding(1, 1e-2, wide), run


def refused_by_term(home: Path, kind: str, engine: str, terms: list[str]) -> None:
    """Each other term is refused by its name, and no block is there to be read."""
    ledger = dpfast.Ledger(home / "terms.db", epsilon=99, delta=0.5, create=True)
    counts, how, run = of_terms(home, kind, "first", engine)
    release = {"key": key_of(home, kind), "engine": run, "resume": True}
    jobs.release(counts, how, **release, ledger=ledger, to=home / "first.out")
    jobs.release(counts, how, **release, ledger=None, to=home / "none.out")
    for term in terms:
        other, law, run = of_terms(home, kind, term, engine, term)
        paid = None if term in ("adjacency", "privacy_unit") else ledger  # a ledger refuses these by its own terms
        for block in (home / f"{term}.stage").glob("0*.arrow") if paid else ():
            block.unlink()
        either = {"adjacency": "|other parameters", "types": "|another domain"}.get(term, "")  # which go with them
        with pytest.raises(KeyReuseError, match=rf"(with|name) (another )?{term}\b{either}") as met:
            jobs.release(
                other, law, key=key_of(home, kind), engine=run, ledger=paid, to=home / f"{term}.out", resume=True
            )
        assert not isinstance(met.value, OtherInputError)
        assert not list((home / f"{term}.out").glob("part*"))
    jobs.release(counts, how, **release, ledger=ledger, to=home / "again.out")
    assert files(home / "first.out") == files(home / "again.out") == files(home / "none.out")
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("kind", ["known", "unknown", "counted"])
def test_every_term_of_a_job_is_sealed_whatever_the_counts_are(tmp_path, kind) -> None:
    """Else transposed tables share a charge, and acceptance tells the largest value exactly."""
    not_of = {
        "known": {"buckets", "column"},
        "unknown": {"domain", "column"},
        "counted": TERMS.keys() - {"by", "types", "column"},
    }
    refused_by_term(at_home(tmp_path), kind, "one process", [term for term in TERMS if term not in not_of[kind]])


@pytest.mark.parametrize("kind", ["known", "unknown", "counted"])
@pytest.mark.parametrize("engine", ["out of core", "duckdb", "polars"])
def test_terms_are_sealed_on_every_engine(tmp_path, kind, engine) -> None:
    refused_by_term(at_home(tmp_path), kind, engine, ["by", "column" if kind == "counted" else "upper"])


def test_no_term_of_a_plan_is_left_out_of_its_seal(tmp_path) -> None:
    """Whoever adds one says how a seal names it, and in the table above what another one is."""
    counts = of_terms(at_home(tmp_path), "known", "a")[0]
    named = {"unit", "by", "types", "values", "how", "domain", "size", "version", "chooser"}
    assert {*counts.terms._fields} == named | {"label", "key"}
    assert counts.terms.public.keys() | {"max_contributions", "chooser", "column", "buckets"} == TERMS.keys() | {
        "stage version"
    }


def test_a_domain_that_is_replaced_while_it_is_paid_for_is_refused(tmp_path, monkeypatch) -> None:
    """The names of the rows are read as they were frozen, where they are drawn, too."""
    home = at_home(tmp_path, "a")
    counts, other = counted(home), counted(home, name="b", domain=range(1, PAGES + 1))
    reserve = dpfast.Ledger.reserve

    def replaced(*given: Any, **how: Any) -> Any:
        sealed = reserve(*given, **how)
        (home / "a.stage" / tasks.DOMAIN).write_bytes((home / "b.stage" / tasks.DOMAIN).read_bytes())
        tiers.forget_domains()
        return sealed

    monkeypatch.setattr(dpfast.Ledger, "reserve", replaced)
    assert other.terms.size == counts.terms.size
    with pytest.raises(FileError, match="is damaged, or another's"):
        jobs.release(
            counts, mechanism("known", counts), key=key_of(home), ledger=dpfast.Ledger(home / "a.db"), to=home / "a.out"
        )
    assert not list((home / "a.out").glob("part*"))


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_verify_draws_again_and_compares(tmp_path, kind) -> None:
    home = at_home(tmp_path, "a")
    job(jobs, kind, ROWS, home, "a")
    counts, key, out = counted(home, kind), key_of(home, kind), home / "a.out"
    how, part = mechanism(kind, counts), out / tasks.file_of(0)
    kept, facts = part.read_bytes(), json.loads((out / verbs.MANIFEST).read_text())

    def fails(
        error: type[Exception] = FileError, message: str = "not what this release gives", mech: Any = how
    ) -> None:
        with pytest.raises(error, match=message):
            jobs.verify(out, counts, mech, key=key)

    table = pq.read_table(part)
    noisy = table["count"].to_numpy().copy()
    noisy[1] += 1
    pq.write_table(table.set_column(table.num_columns - 1, "count", pa.array(noisy)), part)
    fails()
    part.unlink()
    fails()
    pq.write_table(table, part, compression="none")  # the same rows, by another writer
    jobs.verify(out, counts, how, key=key)
    part.write_bytes(kept)
    (out / "part-00000009.parquet").write_bytes(kept)
    fails(message="holds what is not of this release: 'part-00000009.parquet'")
    (out / "part-00000009.parquet").rename(out / "_of somebody else")  # no reader of the folder takes it
    jobs.verify(out, counts, how, key=key)
    (out / verbs.MANIFEST).write_text(json.dumps({**facts, "files": facts["files"][1:]}))
    fails()
    release = {**facts["release"], "terms": {**facts["release"]["terms"], "unit": "page"}}
    for other, told in (
        (release, "was released with another unit, 'page', not 'user'"),
        ([7], "was released with no manifest"),
    ):
        (out / verbs.MANIFEST).write_text(json.dumps({**facts, "release": other}))
        fails(message=told)
    (out / verbs.MANIFEST).unlink()
    fails(message="has no _dpfast.json")


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
        with pytest.raises(FileError, match="is a link, and must be a folder"):
            counted(home, name=name)
        with pytest.raises(FileError, match="is a link, and must be a folder"):
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
        warnings.simplefilter("error", dpfast.KeptStageWarning)
        again()
    for name in "at":
        os.utime(home / f"{name}.stage" / verbs.FROZEN, (1_795_528_800, 1_795_528_800))
    with pytest.warns(dpfast.KeptStageWarning, match="was frozen before this call, 2026-11-24 14:00 UTC: ") as told:
        again()
    assert [Path(each.filename).name for each in told] == ["test_jobs.py"] * 2


# ------------------------------------------------------------------ folders, rows, the command line


def test_a_folder_never_replaces_a_file_whatever_the_file_system(tmp_path, monkeypatch) -> None:
    for name in ("local", "renames", "objects"):
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name)
        if name != "local":
            folder.local, folder.path = False, name
            folder.files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        if name == "objects":
            monkeypatch.setattr(folders, "WHOLE_AT_CLOSE", {folder.files.type_name})
        assert not folder.make()
        assert folder.read("a") is None
        assert folder.write("a", b"1")
        assert folder.write("a", b"1")
        assert not folder.write("a", b"2")
        assert folder.read("a") == b"1"
        (tmp_path / name / ".dpfast-left.tmp").write_bytes(b"")
        assert folder.names() == ["a"]
        with pytest.raises(FileError, match="No such file"):
            folder.open("b")
    again = pickle.loads(pickle.dumps(Folder(tmp_path / "local")))
    assert again.read("a") == b"1"
    with pytest.raises(FileError, match="cannot make"):
        Folder(tmp_path / "local" / "a" / "b").make()


def test_rows_may_come_in_many_forms(tmp_path) -> None:
    at_home(tmp_path)
    rows = ROWS.slice(0, 500)

    def path_of(part: pa.Table) -> Path:
        path = tmp_path / f"{part.num_rows}.parquet"
        pq.write_table(part, path)
        return path

    path = path_of(rows)
    texts = rows.set_column(2, "country", rows["country"].dictionary_encode()).set_column(
        0, "user", rows["user"].cast(pa.string())
    )
    forms = [
        rows,
        rows.to_batches()[0],
        rows.to_reader(),
        path,
        ds.dataset(path),
        rows.to_pandas(),
        [rows.slice(0, 9), rows.slice(9)],
        [path_of(rows.slice(0, 9)), path_of(rows.slice(9))],
    ]
    found = [
        counted(tmp_path, "sums", form, f"form{i}", engine=jobs.OneProcess(1 + i % 2)).hashes
        for i, form in enumerate(forms)
    ]
    assert all(each == found[0] for each in found)
    assert counted(tmp_path, "sums", texts, "texts").terms.types == ("string",)
    one, other = (counted(tmp_path, "sums", texts, f"texts{n}", engine=jobs.OneProcess(n)).hashes for n in (2, 5))
    assert one == other
    of_all, stage = counted(tmp_path, name="z").terms, Folder(tmp_path / "z.stage")
    assert tasks.Bound(of_all, ROWS.schema, key_of(tmp_path).chooser(), None, stage)([]).num_rows == 0


def forms_of(folder: Path, tables: list[pa.Table]) -> dict[str, Any]:
    paths = sorted(folder.iterdir())
    return {"folder": folder, "paths": paths, "dataset": ds.dataset(folder), "tables": tables}


ENGINES = {"one": jobs.OneProcess(), "seven": jobs.OneProcess(7), "files": jobs.OutOfCore(50)}


@pytest.mark.parametrize("types", visits.TWO, ids="-".join)
def test_people_of_two_types_are_refused_by_name(tmp_path, types) -> None:
    """Else a cast makes one of two people, or two of one; an empty table is no exception."""
    at_home(tmp_path)
    folder, tables = visits.two_types(tmp_path / "rows", *types)
    names = [str(visits.PEOPLE[each].type) for each in types]
    forms = {**forms_of(folder, tables), "empty": [tables[0], tables[1].slice(0, 0)]}
    for (form, rows), engine in ((each, engine) for each in forms.items() for engine in ENGINES):
        with pytest.raises(DTypeError, match=f"user {visits.MIXED}") as refused:
            jobs.bounded_counts(rows, **visits.ONCE, key=key_of(tmp_path), stage=tmp_path / "s", engine=ENGINES[engine])
        assert all(name in str(refused.value) for name in names), (form, engine)
    assert not (tmp_path / "s" / verbs.FROZEN).exists()


@pytest.mark.parametrize("types", visits.ONE, ids="-".join)
def test_people_of_one_type_in_several_widths_count_once(tmp_path, types) -> None:
    at_home(tmp_path)
    folder, tables = visits.two_types(tmp_path / "rows", *types)
    for (form, rows), engine in ((each, engine) for each in forms_of(folder, tables).items() for engine in ENGINES):
        stage = tmp_path / f"{form} {engine}"
        jobs.bounded_counts(rows, **visits.ONCE, key=key_of(tmp_path), stage=stage, engine=ENGINES[engine])
        assert pa.ipc.open_file(stage / tasks.name_of(0)).read_all()["n"].to_pylist() == [3, 0], (form, engine)


def test_files_of_two_types_without_rows_and_numbers_beyond_a_width(tmp_path) -> None:
    """A file that has no row has a type; and a large number after narrow ones is itself."""
    at_home(tmp_path)
    how: dict[str, Any] = {**visits.ONCE, "key": key_of(tmp_path)}
    folder, _ = visits.two_types(tmp_path / "rows", "int32", "text")
    pq.write_table(pq.read_table(folder / "1.parquet").slice(0, 0), folder / "1.parquet")
    with pytest.raises(DTypeError, match=visits.MIXED):
        jobs.bounded_counts(folder, stage=tmp_path / "s", **how)
    pq.write_table(pa.table({"user": [2**40, 2], "page": [0, 0]}), folder / "1.parquet")
    jobs.bounded_counts(folder, stage=tmp_path / "t", **how)
    assert pa.ipc.open_file(tmp_path / "t" / tasks.name_of(0)).read_all()["n"].to_pylist() == [4, 0]


@pytest.mark.parametrize("name", ["page", "minutes", "n"])
def test_keys_values_and_tables_of_two_types_are_refused(tmp_path, name) -> None:
    at_home(tmp_path)
    rows = pa.table({"user": [1, 2], "page": [0, 1], "minutes": [1.0, 2.0], "n": [1, 2]})
    other = {"page": pa.array(["2", "3"]), "minutes": pa.array([3, 4]), "n": pa.array([1.0, 2.0])}[name]
    two = [rows, rows.set_column(rows.column_names.index(name), name, other)]
    key, wrong = key_of(tmp_path), f"{name} {visits.MIXED}"
    summed: dict[str, Any] = {"values": "minutes", "lower": 0, "upper": 9, "granularity": 1}
    for engine in ENGINES.values() if name != "n" else ():
        with pytest.raises(DTypeError, match=wrong):
            jobs.bounded_counts(two, **visits.ONCE, **summed, key=key, stage=tmp_path / "s", engine=engine)
    if name != "minutes":
        with pytest.raises(DTypeError, match=wrong):
            jobs.counted(two, by="page", column="n", key=key, stage=tmp_path / "t")


def damaged(path: Path) -> Path:
    pq.write_table(ROWS, path)
    data = bytearray(path.read_bytes())
    at = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    data[at : at + 99] = b"\xff" * 99
    path.write_bytes(data)
    return path


def raising(error: Exception) -> Any:
    yield ROWS.to_batches()[0]
    raise error


@pytest.mark.parametrize("engine", ENGINES)
def test_what_readers_say_of_values_is_told_by_its_kind(tmp_path, engine) -> None:
    at_home(tmp_path)
    doubled = ROWS.to_pandas()[["user", "page", "user"]]
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, raising(RuntimeError(f"at {SECRET}")))
    mixture = ROWS.to_pandas().astype({"user": object})
    mixture.loc[5, "user"] = f"{SECRET}"
    for rows, kind in (
        (damaged(tmp_path / "a.parquet"), ""),
        (doubled, "Value"),
        (reader, ""),
        (mixture, "Arrow"),
    ):
        with pytest.raises(DTypeError, match=f"^rows cannot be read: {kind}[A-Za-z]+$") as refused:
            counted(tmp_path, rows=rows, engine=ENGINES[engine])
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__


def test_a_domain_is_sorted_by_its_keys_bytes(tmp_path) -> None:
    at_home(tmp_path)
    texts = ["é", "z", "Z", "", "a\0b", "\U0001f600", "\uffff"]
    rows = pa.table({"user": [1, 2], "town": ["z", "é"], "year": pa.array([3, 2**63], pa.uint64())})
    how: dict[str, Any] = {"unit": "user", "key": key_of(tmp_path), **CAPS}
    counts = jobs.bounded_counts(rows, by="town", domain=texts, stage=tmp_path / "s", **how)
    with counts.stage.open(tasks.DOMAIN) as file:
        assert pa.ipc.open_file(file).read_all()["town"].to_pylist() == sorted(texts, key=str.encode)
    counts = jobs.bounded_counts(rows, by=["year", "town"], domain=([2**63, 3], texts), stage=tmp_path / "t", **how)
    listed = [(year, town) for town in texts for year in (2**63, 3)]
    assert (
        jobs.bounded_counts(rows, by=["year", "town"], domain=listed, stage=tmp_path / "u", **how).hashes
        == counts.hashes
    )
    some = jobs.bounded_counts(rows, by=["year", "town"], domain=listed[1:], stage=tmp_path / "v", **how)
    with pytest.raises(KeyReuseError, match="another domain"):  # a domain without one key is another release
        for each in (counts, some):
            jobs.release(
                each,
                mechanism("known", each),
                key=key_of(tmp_path),
                ledger=None,
                to=tmp_path / each.terms.domain,
                resume=True,
            )
    jobs.release(
        counts, mechanism("known", counts), key=key_of(tmp_path), ledger=None, to=tmp_path / "out", resume=True
    )
    out = pq.read_table(tmp_path / "out" / tasks.file_of(0))
    assert out.drop(["count"]).to_pylist()[::7] == [{"year": 3, "town": ""}, {"year": 2**63, "town": ""}]


def test_a_domain_that_was_replaced_is_refused(tmp_path) -> None:
    """The noisy rows would get other keys."""
    home = at_home(tmp_path, "a")
    counts = counted(home)
    other = counted(home, name="b", domain=range(1, PAGES + 1))
    (home / "a.stage" / tasks.DOMAIN).write_bytes((home / "b.stage" / tasks.DOMAIN).read_bytes())
    assert counts.terms.domain != other.terms.domain
    with pytest.raises(FileError, match="is damaged, or another's"):
        jobs.release(
            counts, mechanism("known", counts), key=key_of(home), ledger=dpfast.Ledger(home / "a.db"), to=home / "a.out"
        )
    assert charges(home, "a") == 0


def test_a_key_file_that_was_replaced_is_found_before_a_row_is_read(tmp_path) -> None:
    at_home(tmp_path)
    key = key_of(tmp_path)
    (tmp_path / "visits.key").unlink()
    dpfast.KeyFile.create(tmp_path / "visits.key")
    with pytest.raises(FileError, match="holds another key on a worker"):
        counted(tmp_path, rows=None, key=key)
    assert not (tmp_path / "a.stage").exists()


def test_jobs_show_says_what_a_folder_is_and_no_count(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    job(jobs, "unknown", ROWS, home, "a")

    def shown(*arguments: str) -> str:
        return CliRunner().invoke(commands, ["jobs", "show", *arguments], catch_exceptions=False).output

    told = shown(str(home / "a.stage"))
    assert "stage of" in told
    assert "complete" in told
    assert re.search(r"frozen +20\d\d-\d\d-\d\d \d\d:\d\d UTC\n", told)
    assert "country, page" in told
    assert "8 buckets of unknown keys" in told
    facts = json.loads(shown(str(home / "a.out"), "--json"))
    assert facts["output of"] == "unknown"
    assert facts["threshold"] > 1
    shutil.rmtree(home / "a.out")
    with pytest.raises(FileError, match="neither a stage nor an output"):
        shown(str(home))
    (home / "a.stage" / verbs.TERMS).write_text("{}")
    with pytest.raises(FileError, match="damaged"):
        shown(str(home / "a.stage"))


@pytest.mark.filterwarnings("ignore")
def test_object_stores_hold_stages_and_outputs(tmp_path, monkeypatch) -> None:
    """S3: no rename. A driver that dies is begun again there, and the bytes are those of a disk."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "for nobody")
        at = f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        store = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        store.create_dir("visits")
        with store.open_output_stream("visits/rows/0.parquet") as file:
            pq.write_table(ROWS, file)
        home = at_home(tmp_path, "one", "s3")
        job(jobs, "known", ROWS, home, "one")
        key, ledger = key_of(home), dpfast.Ledger(home / "s3.db")

        def begin() -> None:
            counts = counted(home, rows=f"s3://visits/rows{at}", stage=f"s3://visits/private/stage{at}")
            how = mechanism("known", counts)
            jobs.release(counts, how, key=key, ledger=ledger, to=f"s3://visits/out{at}", resume=True)
            jobs.verify(f"s3://visits/out{at}", counts, how, key=key)

        for phase in PHASES:
            with (
                visits.dying(phase, lambda: (_ for _ in ()).throw(KeyboardInterrupt)),
                pytest.raises(KeyboardInterrupt),
            ):
                begin()
            assert Folder(f"s3://visits/out{at}").read(verbs.MANIFEST) is None
        begin()
        for part, place in (("stage", "visits/private/stage"), ("out", "visits/out")):
            folder = Folder(f"s3://{place}{at}")
            there = {name: folder.read(name) for name in folder.names()}
            assert there == {path.name: path.read_bytes() for path in (home / f"one.{part}").iterdir()}
        assert charges(home, "s3") == 1
    finally:
        server.stop()


@pytest.mark.parametrize(("name", "spoilt"), [("other", b"o\xffher"), ("k", b"\xff")])
def test_names_of_columns_that_are_no_texts_are_refused(tmp_path, name: str, spoilt: bytes) -> None:
    """A damaged file has them, and pyarrow opens it."""
    pq.write_table(pa.table({"k": [1, 2], "n": [3, 4], "other": [5, 6]}), tmp_path / "rows.parquet")
    whole, place = (tmp_path / "rows.parquet").read_bytes(), b"\x18%c%b" % (len(name), name.encode())
    assert place in whole
    (tmp_path / "rows.parquet").write_bytes(whole.replace(place, place[:2] + spoilt))
    key = dpfast.KeyFile.create(tmp_path / "k.key").derive("q")
    for rows in (tmp_path / "rows.parquet", pq.read_table(tmp_path / "rows.parquet")):
        with pytest.raises(dpfast.DTypeError, match="names of the rows' columns must be UTF-8"):
            jobs.counted(rows, by="k", column="n", key=key, stage=tmp_path / "stage")


def test_a_damaged_block_is_refused(tmp_path) -> None:
    """Whichever byte is wrong: pyarrow raises several kinds of errors; found by fuzzing."""
    key = dpfast.KeyFile.create(tmp_path / "k.key").derive("q")
    ledger = dpfast.Ledger(tmp_path / "budget.db", 10, create=True)
    counts = jobs.counted(pa.table({"k": [1, 2], "n": [3, 4]}), by="k", column="n", key=key, stage=tmp_path / "stage")
    how = dpfast.DiscreteLaplace(1, 1)
    jobs.release(counts, how, key=key, ledger=ledger, to=tmp_path / "out")
    block = tmp_path / "stage" / tasks.name_of(0)
    whole = block.read_bytes()
    for at in [at for at in range(len(whole)) if at % 11 == 0 or whole[at] in b"kn"]:  # names of columns, too
        block.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(dpfast.DpfastError):
            jobs.verify(tmp_path / "out", counts, how, key=key)
    block.write_bytes(whole)
    jobs.verify(tmp_path / "out", counts, how, key=key)
    assert ledger.spent.epsilon == 1


@pytest.mark.parametrize("damaged", ["0", '"x"', "[]", "{}", '{"how": 0}', "null", "[[], 0]", "{"])
def test_what_a_stage_or_an_output_says_of_itself_may_be_anything(tmp_path, damaged: str) -> None:
    """Found by fuzzing: a number in the place of an object was an error that was not ours."""
    home = at_home(tmp_path, "a")
    job(jobs, "known", ROWS, home, "a")
    key, ledger = key_of(home), dpfast.Ledger(home / "a.db")

    def again() -> None:
        counts = counted(home)
        jobs.release(counts, mechanism("known", counts), key=key, ledger=ledger, to=home / "a.out", resume=True)

    for place in (home / "a.out" / verbs.MANIFEST, *(home / "a.stage").glob("*.json")):
        whole = place.read_bytes()
        place.write_text(damaged)
        with pytest.raises(dpfast.DpfastError, match=r"damaged|of this release|key must be"):
            again()
        place.write_bytes(whole)
        again()
    assert charges(home, "a") == 1
