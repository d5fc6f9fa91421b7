# SPDX-License-Identifier: Apache-2.0
"""What DuckDB and Polars must do alike: releases of rows that need not fit the memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import peak_memory
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
import visits
import worlds
from places import TESTS
from visits import CAPS, KINDS, PHASES, SECRET, at_home, charges, files, job, same

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import out_of_core, table, tasks, verbs
from dpfast.errors import DTypeError, FileError, KeyReuseError, OtherInputError, ParameterError

ROWS = visits.visits()
SIZE = 140_000  # keys of a table: three blocks
NAMES = ("[ab]", "[!b]", "out*", "out?", "**", "?", "[x]", "x[y", "a\\b[1]", "a\\*", "{a,x}", "key=1", "key=all", "n=x",
         "day=2026-11-24", "a=b=c", "it's \"; --", "é \U0001f600\n*", "%61", "~", "$HOME", ".hidden", "_2026", "a.parquet", "-")  # fmt: skip


def cities(rows: int = SIZE) -> pa.Table:
    """Exact counts by key, in no order."""
    keys = np.random.default_rng(5).permutation(rows) - rows // 2
    return pa.table({"key": keys, "n": SECRET + keys % 100})


def key_of(home: Path, label: str = "t") -> dpfast.ReleaseKey:
    return dpfast.KeyFile(home / "visits.key").derive(label)


def terms(home: Path, name: str) -> dict[str, Any]:
    return {"by": "key", "column": "n", "key": key_of(home), "stage": home / f"{name}.stage"}


def released(dp: Any, rows: Any, home: Path, name: str, **changed: Any) -> Any:
    """A table of counts, released as a table of the engine, for the ledger of its name."""
    how = {"mechanism": dpfast.DiscreteLaplace(1, 1), "to": home / f"{name}.out", **terms(home, name), **changed}
    if "ledger" not in changed:
        how["ledger"] = dpfast.Ledger(home / f"{name}.db")
    return dp.release(rows, how.pop("mechanism"), **how)


class OutOfCore:
    """Tests of an adapter: `dp`, and `of(table)`, which gives its rows to the engine."""

    dp: Any
    engine: str  # the name of its class
    start: str  # a program's lines, which make `dp` and `of`
    nulls, signed = True, False  # whether texts hold null characters, and integers are signed alone

    def of(self, rows: pa.Table) -> Any:
        raise NotImplementedError

    def arrow(self, found: Any) -> pa.Table:
        raise NotImplementedError

    # -------------------------------------------------------------- one release

    @pytest.mark.parametrize(("kind", "shards"), [("known", 64), ("unknown", 5), ("sums", 13), ("unknown", 1)])
    def test_the_bytes_are_those_of_one_process(self, tmp_path, kind, shards) -> None:
        """Also where shards and blocks are empty, and one page has half of the rows."""
        home = at_home(tmp_path, "one", "other")
        job(jobs, kind, ROWS, home, "one")
        given, key = visits.options(kind, home), key_of(home, kind)
        counts = self.dp.bounded_counts(self.of(ROWS), stage=home / "other.stage", shards=shards, **given)
        mechanism = visits.mechanism(kind, counts)
        ledger = dpfast.Ledger(home / "other.db")
        facts = self.dp.release(counts, mechanism, key=key, ledger=ledger, to=home / "other.out", resume=True)
        self.dp.verify(home / "other.out", counts, mechanism, key=key)
        same(home, "one", "other")
        assert facts["keys"] == list(counts.terms.by)
        assert charges(home, "other") == 1

    def test_people_of_text_and_no_rows_at_all(self, tmp_path) -> None:
        home = at_home(tmp_path)
        texts = ROWS.set_column(0, "user", ROWS["user"].cast(pa.string()))
        texts = texts.set_column(2, "country", texts["country"].dictionary_encode())
        for name, rows in (("texts", texts), ("none", ROWS.slice(0, 0))):
            how = {"unit": "user", "key": key_of(home), **KINDS["unknown"]}
            one = jobs.bounded_counts(rows, stage=home / f"{name} 1", **how)
            other = self.dp.bounded_counts(self.of(rows), stage=home / f"{name} 2", shards=3, **how)
            assert one.hashes == other.hashes

    def test_each_person_is_one_whatever_the_name_looks_like(self, tmp_path) -> None:
        """Each keeps one row whoever else is there, and the same as in one process."""
        home, whole = at_home(tmp_path), []
        people = [name for name in (*worlds.PEOPLE, "") if self.nulls or "\0" not in name]
        for at, few in enumerate((people, people[::2], people[1::2])):
            texts = pa.table({"user": [name for name in few * 2 for _ in "abc"], "page": [*"abc"] * 2 * len(few)})
            how = {"unit": "user", "by": "page", "domain": [*"abc"], "key": key_of(home)}
            how |= {"max_partitions": 1, "max_per_partition": 1}
            one = jobs.bounded_counts(texts, stage=home / f"{at} one", **how)
            for i, rows in enumerate((texts, texts.set_column(0, "user", texts["user"].dictionary_encode()))):
                other = self.dp.bounded_counts(self.of(rows), stage=home / f"{at} {i}", shards=3, **how)
                assert other.hashes == one.hashes
            whole.append(pa.ipc.open_file(home / f"{at} 0" / tasks.name_of(0)).read_all()["n"].to_numpy())
            assert whole[-1].sum() == len(few)
        assert (whole[0] == whole[1] + whole[2]).all()

    def test_a_table_of_counts_is_released_as_a_table(self, tmp_path) -> None:
        """Its noise is that of the mechanism's own release with the same terms, for one charge."""
        home = at_home(tmp_path, "one", "other")
        rows, mechanism = cities(), dpfast.DiscreteLaplace(1, 1)
        jobs.release(
            jobs.counted(rows, **terms(home, "one")), mechanism, key=key_of(home), ledger=None, to=home / "one.out"
        )
        found = self.arrow(released(self.dp, self.of(rows), home, "other", resume=True))
        same(home, "one", "other")
        ordered = rows.sort_by("key")
        ledger = dpfast.Ledger(home / "other.db")
        named = tiers.naming(key_of(home), self.dp.counted(self.of(rows), **terms(home, "other")).terms.public)
        plain = ledger.release(mechanism, ordered["n"], key=named, names=ordered["key"], resume=True)
        assert found["key"].to_pylist() == ordered["key"].to_pylist()
        assert found["n"].to_pylist() == plain.to_pylist()
        assert charges(home, "other") == 1
        how = terms(home, "other")
        self.dp.verify(home / "other.out", self.of(rows), mechanism, **how)
        self.dp.verify(home / "other.out", self.dp.counted(self.of(rows), **how), mechanism, key=key_of(home))
        (home / "other.out" / tasks.file_of(1)).write_bytes(b"damaged")
        with pytest.raises((FileError, pa.ArrowInvalid)):
            self.dp.verify(home / "other.out", self.of(rows), mechanism, **how)

    def test_keys_of_several_columns_and_of_texts(self, tmp_path) -> None:
        """Texts by their bytes; a column whose order is another, of a dictionary, too."""
        home = at_home(tmp_path, "a", "b")
        texts = ["é", "z", "Z", "", "a\0b" if self.nulls else "a b", "\U0001f600", "\uffff", "a"]
        rows = pa.table({"town": pa.array(texts * 2).dictionary_encode(),
                         "year": pa.array([2**62 if self.signed else 2**63] * 8 + [3] * 8, pa.int64() if self.signed else pa.uint64()), "n": pa.array(range(16), pa.uint8())})  # fmt: skip
        for name, by in (("a", ["town", "year"]), ("b", ["year", "town"])):
            found = self.arrow(released(self.dp, self.of(rows), home, name, by=by, resume=True, key=key_of(home, name)))
            keys = list(zip(*(found[each].to_pylist() for each in by), strict=True))
            assert keys == sorted(
                keys, key=lambda key: [each.encode() if isinstance(each, str) else each for each in key]
            )
            assert len(set(keys)) == 16
            one = jobs.counted(rows, **{**terms(home, f"one {name}"), "by": by, "key": key_of(home, name)})
            assert list(one.hashes.values()) == [dpfast_hash(home / f"{name}.stage" / tasks.name_of(0))]

    def test_the_files_that_were_written_are_read_whatever_their_folder_is_called(self, tmp_path) -> None:
        """Names that a query may read as a pattern or as columns, beside others that fit it."""
        home, rows = at_home(tmp_path), cities(9)
        for beside in ("a", "out1", "x"):
            (home / beside).mkdir()
            pq.write_table(rows, home / beside / tasks.file_of(0))
        for name in NAMES:
            to = home / name
            found = self.arrow(released(self.dp, self.of(rows), home, "t", to=to, ledger=None, resume=True))
            assert found.column_names == ["key", "n"], name
            assert found["key"].to_pylist() == sorted(rows["key"].to_pylist()), name
            written = pq.read_table(pa.py_buffer((to / tasks.file_of(0)).read_bytes()))
            assert found["n"].to_pylist() == written["n"].to_pylist(), name
            self.dp.verify(to, self.of(rows), dpfast.DiscreteLaplace(1, 1), **terms(home, "t"))
        rows = cities(140_000)  # several files
        found = self.arrow(released(self.dp, self.of(rows), home, "whole", to=home / "key=7" / "n=[0-9]*", ledger=None,
                                    key=key_of(home, "whole")))  # fmt: skip
        assert found["key"].to_pylist() == sorted(rows["key"].to_pylist())

    @pytest.mark.parametrize("rows", [1, 65_536, 65_537])
    def test_tables_of_about_a_block(self, tmp_path, rows) -> None:
        home = at_home(tmp_path, "a")
        found = self.arrow(released(self.dp, self.of(cities(rows)), home, "a"))
        assert found.num_rows == rows
        assert len(list((home / "a.out").glob("part-*"))) == -(-rows // 65_536)

    # -------------------------------------------------------------- what is killed

    @pytest.mark.slow
    def test_a_process_killed_anywhere_begins_again_and_pays_once(self, tmp_path) -> None:
        """Nothing of the rows stays behind but on the stage."""
        home = at_home(tmp_path, "one", "table", *PHASES, *(f"{phase} table" for phase in PHASES))
        rows = visits.parquet(home / "rows", ROWS)
        pq.write_table(cities(), home / "table.parquet")
        job(jobs, "known", ROWS, home, "one")
        released(self.dp, self.of(cities()), home, "table")
        program = [sys.executable, "-c", PROGRAM.format(start=self.start), rows, home / "table.parquet", home]
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        for several in (PHASES[:3], PHASES[3:]):
            killed = [
                subprocess.Popen([*program, phase], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)
                for phase in several
            ]
            for each in killed:
                assert b"killed twice" in each.communicate(timeout=300)[1]
        for phase in PHASES:
            left = {*files(home / f"{phase}.stage"), *files(home / f"{phase} table.stage")}
            assert left <= {verbs.TERMS, verbs.FROZEN, tasks.DOMAIN, *map(tasks.name_of, range(3))}
            assert not [*home.rglob(".dpfast-*.arrow")]
            job(self.dp, "known", self.of(ROWS), home, phase, resume=True)
            same(home, "one", phase)
            released(self.dp, self.of(cities()), home, f"{phase} table", resume=True)
            same(home, "table", f"{phase} table")
            assert charges(home, phase) == charges(home, f"{phase} table") == 1

    def test_rows_that_changed_after_a_crash_are_refused(self, tmp_path) -> None:
        """Also those of a query that gives others each time."""
        home = at_home(tmp_path, "a")
        for begin in (
            lambda: job(self.dp, "known", self.changing(), home, "a"),
            lambda: released(self.dp, self.changing_table(), home, "a", stage=home / "t.stage"),
        ):
            with visits.dying("freeze", stop), pytest.raises(KeyboardInterrupt):
                begin()
            with pytest.raises(OtherInputError, match="with different counts"):
                begin()
        assert charges(home, "a") == 0
        assert not (home / "a.out").exists()

    def changing(self) -> Any:
        """Rows that are others whenever they are read."""
        rng = np.random.default_rng()
        return self.of(ROWS.set_column(1, "page", pa.array(rng.permutation(visits.PAGES)[: ROWS.num_rows])))

    def changing_table(self) -> Any:
        rows = cities()
        return self.of(rows.set_column(1, "n", pa.array(np.random.default_rng().permutation(rows.num_rows))))

    # -------------------------------------------------------------- memory

    @peak_memory.MEASURED
    @pytest.mark.slow
    def test_memory_stays_flat_while_the_rows_grow(self, tmp_path) -> None:
        """Three million rows more cost little; in one shard they cost what this test would see."""
        started = []
        for millions, shards in ((1, 64), (4, 64), (4, 1)):
            path, unit = tmp_path / f"{millions}.parquet", np.arange(millions * 10**6)
            if not path.exists():
                rows = pa.table({"key": unit * 7919 % unit.size, "n": unit % 1000})
                pq.write_table(rows, path, row_group_size=1 << 17)
            program = [sys.executable, "-c", MEMORY.format(start=self.start), path, tmp_path / f"{millions} {shards}"]
            started.append(subprocess.Popen([*program, str(shards)], stdout=subprocess.PIPE, env=peak_memory.HELD))
        few, many, planted = [int(each.communicate(timeout=300)[0].split()[-1]) for each in started]
        assert many - few < 50
        assert planted - few > 80

    # -------------------------------------------------------------- what must not tell

    @pytest.mark.slow
    def test_neighbours_give_the_same_order_and_layout(self, tmp_path) -> None:
        """One more person, first of all, with one row: of a hidden key, and of one that is shown.

        A shown key is hidden, or a hidden one shown, once in 10^6 runs at most.
        """
        people, layouts = 400, []
        rng = np.random.default_rng(3)
        keys = rng.permutation(np.repeat(np.arange(50), people))
        for i, first in enumerate(([], [77], [int(keys[-1])])):
            home = tmp_path / f"{i}"
            home.mkdir()
            at_home(home, "a")
            all_keys = np.concatenate([first, keys]).astype(np.int64)
            rows = self.of(pa.table({"user": np.arange(all_keys.size), "key": all_keys}))
            found = []
            for name, known in (("known", range(80)), ("unknown", None)):
                how = {"max_partitions": 1, "max_per_partition": 1, "domain": known, "key": key_of(home, name)}
                counts = self.dp.bounded_counts(rows, unit="user", by="key", stage=home / name, shards=4, **how)
                hides = visits.mechanism(name, counts)
                self.dp.release(counts, hides, key=key_of(home, name), ledger=None, to=home / f"{name} out")
                found.append(layout(home / f"{name} out", "key"))
            found.append(layout(self.grouped(rows, home), "key"))
            layouts.append(found)
        assert layouts[0] == layouts[1] == layouts[2]
        assert layouts[0][1] == [("part-00000000.parquet", list(range(50)))]

    def grouped(self, rows: Any, home: Path, engine: Any = None) -> Path:
        """A release of the engine's own counts of rows, by the public keys below 50."""
        name = "grouped" if engine is None else "planted"
        where = {"stage": home / name, "to": home / f"{name} out"}
        released(engine or self.dp, self.group_by(rows), home, "a", ledger=None, key=key_of(home, name), **where)
        return home / f"{name} out"

    def group_by(self, rows: Any) -> Any:
        """Keys below 50 and `n`, how many rows each has, as the engine orders them."""
        raise NotImplementedError

    def test_the_order_of_occurrence_is_refused_and_would_be_seen(self, tmp_path, monkeypatch) -> None:
        """An adapter with a planted leak: it forgets to sort."""

        class Unsorted(getattr(self.dp, self.engine)):
            def ordered(self, rows: Any, columns: list[str], keys: int) -> Any:
                return self.batches(rows, columns)

        found = []
        for i, first in enumerate((5, 7)):
            home = tmp_path / f"{i}"
            home.mkdir()
            at_home(home, "a")
            keys = np.concatenate([[first], np.repeat(np.arange(50), 9)])
            rows = self.of(pa.table({"user": np.arange(keys.size), "key": keys}))
            with monkeypatch.context() as patched:
                with pytest.raises(ParameterError, match="in the order of their bytes"):
                    self.grouped(rows, home, Unsorted)
                patched.setattr(table, "ascending", lambda _: True)
                (home / "planted").rename(home / "begun")
                found.append(layout(self.grouped(rows, home, Unsorted), "key"))
        assert found[0] != found[1]

    # -------------------------------------------------------------- bad input

    def test_bad_rows_are_one_error(self, tmp_path) -> None:
        home = at_home(tmp_path)
        nulls = pa.array([None, *[SECRET + 5] * (ROWS.num_rows - 1)])
        for rows, changed, error, message in (
            (self.of(ROWS), {"by": "town"}, ParameterError, "a column 'town', exactly one"),
            (self.of(ROWS), {"by": "Page"}, ParameterError, "a column 'Page', exactly one"),
            (self.of(ROWS), {"by": 'page" FROM x; --'}, ParameterError, "exactly one"),
            (self.of(ROWS), {"by": "minutes"}, DTypeError, "integers or texts"),
            (self.of(ROWS), {"domain": [1, 1]}, ParameterError, "each key once"),
            (self.of(ROWS), {"shards": 0}, ParameterError, "shards"),
            (self.of(ROWS.set_column(0, "user", nulls)), {}, DTypeError, "no nulls|none missing"),
            (self.of(ROWS.set_column(1, "page", nulls)), {}, DTypeError, "must contain no nulls"),
            (ROWS, {}, DTypeError, "rows must be a "),
            (self.failing(), {}, DTypeError, "^rows cannot be read: "),
        ):
            with pytest.raises(error, match=message) as refused:
                self.dp.bounded_counts(rows, **{"unit": "user", "key": key_of(home), "stage": home / "s", **KINDS["known"], **changed})  # fmt: skip
            assert str(SECRET)[:9] not in str(refused.value)
        assert not (home / "s" / verbs.FROZEN).exists()

    casts = visits.ONE  # types of files that the engine reads as one

    def of_files(self, folder: Path) -> Any:
        """Rows of a folder of Parquet files."""
        raise NotImplementedError

    def test_people_of_two_types_are_refused_by_name(self, tmp_path) -> None:
        home = at_home(tmp_path)
        for i, types in enumerate(visits.TWO):
            folder, _ = visits.two_types(tmp_path / f"{i}", *types)
            with pytest.raises(DTypeError, match=f"user {visits.MIXED}"):
                self.dp.bounded_counts(self.of_files(folder), **visits.ONCE, key=key_of(home), stage=home / "s")
        assert not (home / "s" / verbs.FROZEN).exists()

    def test_people_of_one_type_count_once(self, tmp_path) -> None:
        home = at_home(tmp_path)
        for i, types in enumerate([*self.casts, ("view", "view")]):
            folder, tables = visits.two_types(tmp_path / f"{i}", *types)
            forms = [self.of_files(folder), *([self.of(pa.concat_tables(tables))] if types[0] == types[1] else [])]
            for rows in forms:
                stage = home / f"{i} {rows is forms[0]}"
                self.dp.bounded_counts(rows, **visits.ONCE, key=key_of(home), stage=stage)
                assert pa.ipc.open_file(stage / tasks.name_of(0)).read_all()["n"].to_pylist() == [3, 0], types

    def test_a_dictionary_takes_no_more_disk_than_its_texts(self, tmp_path, monkeypatch) -> None:
        """A dictionary in each file of a shard would be as long as all of its names, in each."""
        home, spilled, close = at_home(tmp_path), [0], out_of_core.Spill.__exit__

        def exit_(spill: Any, *given: Any) -> None:
            spilled[-1] += sum(file.tell() for file in tiers.spilled_files(spill) if not file.closed)
            close(spill, *given)

        def take(spill: Any, place: int, works: Any = out_of_core.Spill.take) -> Any:
            spilled[-1] += 0 if tiers.spilling(spill)[place] is None else tiers.spilled_files(spill)[place].tell()
            return works(spill, place)

        monkeypatch.setattr(out_of_core.Spill, "__exit__", exit_)
        monkeypatch.setattr(out_of_core.Spill, "take", take)
        names = [f"the person of number {i:09}" for i in range(5000)]
        texts = pa.table({"user": [names[i * 7 % 5000] for i in range(20_000)], "page": [i % 2 for i in range(20_000)]})
        hashes = []
        for i, rows in enumerate([self.of(texts), *self.coded(texts, names)]):
            found = self.dp.bounded_counts(rows, **visits.ONCE, key=key_of(home), stage=home / f"{i}")
            hashes.append(found.hashes)
            spilled.append(0)
        assert hashes.count(hashes[0]) == len(hashes) > 1
        assert spilled[0] > 20_000 * 28
        assert max(spilled) < 2 * spilled[0]

    def coded(self, texts: pa.Table, names: list[str]) -> list[Any]:
        """The same rows, whose people are of a type with a dictionary."""
        raise NotImplementedError

    def failing(self) -> Any:
        """Rows of a query that fails at some of them, and says at which."""
        raise NotImplementedError

    def test_bad_tables_are_one_error_and_nothing_is_charged(self, tmp_path) -> None:
        home = at_home(tmp_path, "a")
        good, nulls = cities(9), pa.array([None, *range(SECRET, SECRET + 8)])
        withholding = jobs.Withholding(1, 1e-6, dpfast.Sensitivity(1, 1))
        for i, (rows, changed, error, message) in enumerate(
            (
                (good.slice(0, 0), {}, ParameterError, "at least one key"),
                (pa.concat_tables([good, good.slice(3, 1)]), {}, ParameterError, "each key once"),
                (good.set_column(0, "key", nulls), {}, DTypeError, "must contain no nulls"),
                (good.set_column(1, "n", nulls), {}, DTypeError, "must contain no nulls"),
                (good.set_column(1, "n", pa.array(np.ones(9))), {}, DTypeError, "integers that fit int64, not double"),
                (good.set_column(1, "n", pa.array([1] * 9, pa.uint64())), {}, DTypeError, "CAST it to BIGINT"),
                (good.set_column(0, "key", pa.array(np.ones(9))), {}, DTypeError, "integers or texts"),
                (good, {"column": "key"}, ParameterError, "none of the keys"),
                (good, {"column": "m"}, ParameterError, "a column 'm', exactly one"),
                (good, {"column": 5}, DTypeError, "names of columns"),
                (good, {"by": []}, ParameterError, "at least one column"),
                (good, {"mechanism": 7}, DTypeError, "mechanism must be one"),
                (good, {"mechanism": withholding}, ParameterError, "shows every key"),
                (good, {"mechanism": dpfast.DiscreteLaplace(11, 1)}, dpfast.errors.BudgetExhausted, "epsilon"),
                (good, {"to": "s3://out/x?region=us-east-1"}, ParameterError, "a local folder"),
                (good, {"ledger": 7}, DTypeError, "ledger must be a Ledger"),
                (good, {"key": b"x" * 32}, DTypeError, "release key"),
            )
        ):
            with pytest.raises(error, match=message) as refused:
                released(self.dp, self.of(rows), home, "a", **{"stage": home / f"{i}.stage", **changed})
            assert str(SECRET)[:9] not in str(refused.value)
        assert charges(home, "a") == 0
        assert not files(home / "a.out") if (home / "a.out").exists() else True

    def test_a_label_is_one_table(self, tmp_path) -> None:
        home = at_home(tmp_path, "a")
        released(self.dp, self.of(cities(9)), home, "a")
        there = files(home / "a.out")
        with pytest.raises(KeyReuseError, match="resume=True"):
            released(self.dp, self.of(cities(9)), home, "a")
        with pytest.raises(OtherInputError):
            released(self.dp, self.of(cities(9).set_column(1, "n", pa.array(range(9)))), home, "a", resume=True,
                     stage=home / "other", to=home / "other out")  # fmt: skip
        renamed = cities(9).set_column(0, "key", pa.array(range(100, 109)))
        with pytest.raises(OtherInputError):  # equal counts under other names
            released(self.dp, self.of(renamed), home, "a", resume=True, stage=home / "renamed", to=home / "renamed out")
        with pytest.raises(ParameterError, match="stage must be of this release"):
            self.dp.bounded_counts(
                self.of(cities(9)), unit="n", by="key", **CAPS, key=key_of(home), stage=home / "a.stage"
            )
        assert files(home / "a.out") == there
        assert dpfast.Ledger(home / "a.db").spent.epsilon == 1

    def test_no_room_beside_the_stage_is_one_error(self, tmp_path, monkeypatch) -> None:
        home = at_home(tmp_path)

        def full(*_: Any, **__: Any) -> Any:
            raise OSError(28, os.strerror(28))

        for name in ("TemporaryFile", "new_stream"):
            with monkeypatch.context() as patched:
                patched.setattr(out_of_core.tempfile if name == "TemporaryFile" else pa.ipc, name, full)
                with pytest.raises(FileError, match="beside .*: No space left on device"):
                    self.dp.bounded_counts(self.of(ROWS), unit="user", key=key_of(home), stage=home / "s", **KINDS["known"])  # fmt: skip


def dpfast_hash(path: Path) -> str:
    return files(path.parent)[path.name]


def stop() -> None:
    raise KeyboardInterrupt


def layout(out: Path, *keys: str) -> list[tuple[str, list[Any]]]:
    """What an output shows but its numbers: names of files, and the keys in each."""
    return [
        (path.name, pq.read_table(path).select(list(keys)).column(0).to_pylist()) for path in sorted(out.glob("part-*"))
    ]


PROGRAM = """
import os, sys
from pathlib import Path
import dpfast, counted_tables, visits
{start}
rows, table, home, phase = sys.argv[1:]
home, died = Path(home), []
def die():
    died.append(1)
    print("killed twice" if len(died) == 2 else "", file=sys.stderr, flush=True)
    if len(died) == 2:
        os._exit(9)
    raise KeyboardInterrupt
with visits.dying(phase, die):
    try:
        visits.job(dp, "known", of(rows + "/*.parquet"), home, phase)
    except KeyboardInterrupt:
        counted_tables.released(dp, of(table), home, phase + " table")
"""

MEMORY = """
import re, sys
import dpfast
{start}
path, home, shards = sys.argv[1:]
key = dpfast.Key.generate().derive("q")
counts = dp.bounded_counts(of(path), unit="key", by="n", domain=range(1000), max_partitions=1, max_per_partition=1,
                           key=key, stage=home + " stage", shards=int(shards))
dp.release(counts, dpfast.DiscreteLaplace(1, counts.sensitivity), key=key, ledger=None, to=home + " out")
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""
