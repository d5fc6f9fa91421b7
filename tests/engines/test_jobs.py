# SPDX-License-Identifier: Apache-2.0
"""Jobs in one process: one release, however it is cut; a driver that is killed anywhere."""

from __future__ import annotations

import json
import os
import pickle
from fractions import Fraction
from typing import Any

import neighbours
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
import visits
from jobs_of_visits import ROWS, counted, key_of
from visits import KINDS, PAGES, PHASES, SECRET, at_home, charges, files, job, mechanism, same

import dpfast
from dpfast import DiscreteLaplace, bounded_histogram
from dpfast.counts.records.bounded_histogram import Bounds
from dpfast.counts.records.partitions import NOISE, canonical
from dpfast.engines import jobs
from dpfast.engines.jobs import table, tasks, verbs
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.keys import ipc, names_of_runs, runs_of
from dpfast.errors import FileError, OtherInputError, ParameterError
from dpfast.noise.release.names import Names
from dpfast.noise.release.seal import bytes_of

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
        buckets=1, values=None, bounds=Bounds(max_contributions=1), chooser=None,
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
    with pytest.raises(OtherInputError, match="computed twice, with different counts"):
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
    assert list(neighbours.leaks(kind, ROWS, at_home(tmp_path), jobs.OneProcess(2))) == []


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
    found = list(neighbours.leaks(kind, ROWS, at_home(tmp_path), jobs.OneProcess()))
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


def test_nothing_private_is_shown(tmp_path, capsys) -> None:
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
    told += json.dumps(jobs.release(counts, how, key=key, ledger=None, to=home / "o", resume=True))
    told += "".join(capsys.readouterr())  # warnings of a log are in it
    assert str(SECRET)[:9] not in told
    for secret in (master, *tiers.drawing(sealed), tiers.choosing(key.chooser()), tiers.secret_of(key)):
        assert secret.hex() not in told
        assert repr(secret)[2:-1] not in told
    assert master not in pickle.dumps([publish.only(1), digest.only(1), bound])  # none of them can do all
    assert len(pickle.dumps(publish.only(1))) < 3000
    tables = [file.read_bytes() for file in (home / "o").iterdir()]
    assert not any(str(SECRET)[:9].encode() in each for each in tables)
