# SPDX-License-Identifier: Apache-2.0
"""Rows of a job: folders, files and tables of them, and the command line."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import visits
from click.testing import CliRunner
from jobs_of_visits import ROWS, counted, key_of
from pyarrow import fs
from visits import CAPS, PAGES, PHASES, SECRET, at_home, charges, job, mechanism

import dpfast
from dpfast.app.cli import commands
from dpfast.engines import jobs
from dpfast.engines.jobs import folder as folders
from dpfast.engines.jobs import tasks, verbs
from dpfast.engines.jobs.folder import Folder
from dpfast.errors import DTypeError, FileError, KeyReuseError

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
@pytest.mark.slow
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
        with pytest.raises(dpfast.errors.DTypeError, match="names of the rows' columns must be UTF-8"):
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
        with suppress(dpfast.errors.DpfastError):
            jobs.verify(tmp_path / "out", counts, how, key=key)
    block.write_bytes(whole)
    jobs.verify(tmp_path / "out", counts, how, key=key)
    assert ledger.spent.epsilon == 1


def test_a_block_that_is_damaged_after_its_digest_is_not_drawn(tmp_path, monkeypatch) -> None:
    key = dpfast.KeyFile.create(tmp_path / "k.key").derive("q")
    counts = jobs.counted(pa.table({"k": [1, 2], "n": [3, 4]}), by="k", column="n", key=key, stage=tmp_path / "stage")
    digested = tasks.Digest.__call__

    def and_damaged(self: Any, block: int) -> Any:
        found = digested(self, block)
        (tmp_path / "stage" / tasks.name_of(block)).write_bytes(b"ARROW1")
        return found

    monkeypatch.setattr(tasks.Digest, "__call__", and_damaged)
    ledger = dpfast.Ledger(tmp_path / "budget.db", 10, create=True)
    with pytest.raises(FileError, match="is damaged"):
        jobs.release(counts, dpfast.DiscreteLaplace(1, 1), key=key, ledger=ledger, to=tmp_path / "out")
    assert not [*(tmp_path / "out").glob("*.parquet")]


@pytest.mark.parametrize("damaged", ["0", '"x"', "[]", "{}", '{"how": 0}', "null", "[[], 0]", "{"])
def test_what_a_stage_or_an_output_says_of_itself_may_be_anything(tmp_path, monkeypatch, damaged: str) -> None:
    """Found by fuzzing: a number in the place of an object was an error that was not ours."""
    monkeypatch.setitem(
        visits.KINDS, "known", {**visits.KINDS["known"], "domain": range(99)}
    )  # what is said is as long
    home = at_home(tmp_path, "a")
    job(jobs, "known", ROWS, home, "a")
    key, ledger = key_of(home), dpfast.Ledger(home / "a.db")

    def again() -> None:
        counts = counted(home)
        jobs.release(counts, mechanism("known", counts), key=key, ledger=ledger, to=home / "a.out", resume=True)

    for place in (home / "a.out" / verbs.MANIFEST, *(home / "a.stage").glob("*.json")):
        whole = place.read_bytes()
        place.write_text(damaged)
        with pytest.raises(dpfast.errors.DpfastError, match=r"damaged|of this release|key must be"):
            again()
        place.write_bytes(whole)
        again()
    assert charges(home, "a") == 1
