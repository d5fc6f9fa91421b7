# SPDX-License-Identifier: Apache-2.0
"""DuckDB: relations of rows and of counts give the bytes of one process, out of core."""

from __future__ import annotations

import base64
import gc
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

db = pytest.importorskip("duckdb")

import tiers  # noqa: E402
import visits  # noqa: E402
from counted_tables import ROWS, OutOfCore, cities, key_of, released, terms  # noqa: E402
from visits import CAPS, KINDS, at_home, charges, files, job, same  # noqa: E402

import dpfast  # noqa: E402
from dpfast.engines import duckdb, jobs  # noqa: E402
from dpfast.engines.jobs import out_of_core, verbs  # noqa: E402
from dpfast.errors import DTypeError, ParameterError  # noqa: E402


@cache
def connected() -> Any:
    """One connection for rows that need none of their own: each takes 20 ms."""
    return db.connect()


class TestDuckDB(OutOfCore):
    dp = duckdb
    engine = "Relations"
    start = (
        "import duckdb\n"
        "from dpfast.engines import duckdb as dp\n"
        "connection = duckdb.connect(config={'memory_limit': '200MB', 'threads': 1})\n"
        "of = connection.read_parquet"
    )

    def of(self, rows: pa.Table) -> Any:
        return db.from_arrow(rows, connection=connected())

    def arrow(self, found: Any) -> pa.Table:
        return found.to_arrow_table()

    def of_files(self, folder: Path) -> Any:
        return db.connect().read_parquet(str(folder / "*"))

    def coded(self, texts: pa.Table, names: list[str]) -> list[Any]:
        connection = in_memory(given=texts)
        listed = ", ".join(f"'{name}'" for name in names)
        return [connection.sql(f"SELECT CAST(user AS ENUM ({listed})) AS user, page FROM given")]

    def group_by(self, rows: Any) -> Any:
        return rows.aggregate('"key", count(*) AS n', '"key"').filter('"key" < 50')

    def failing(self) -> Any:
        return db.connect().sql(f"SELECT CASE range WHEN 9999 THEN CAST(u AS INT) ELSE 1 END AS user, 1 AS page FROM "
                                f"(SELECT range, '{visits.SECRET}x' AS u FROM range(20000))")  # fmt: skip


def in_memory(**tables: pa.Table) -> Any:
    connection = db.connect()
    for name, rows in tables.items():
        connection.register("arrow", rows)
        connection.execute(f"CREATE TABLE {name} AS FROM arrow")
        connection.unregister("arrow")
    return connection


# ------------------------------------------------------------------ SQL


def test_names_that_sql_would_have_to_quote(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    names = ['the "page". 5', "select", "a; DROP TABLE given; --"]
    rows = ROWS.select(["page", "user", "country"]).rename_columns(names)
    connection = in_memory(given=rows)
    how = {"unit": "select", "by": [names[2], names[0]], "key": key_of(home), "buckets": 3, **CAPS}
    one = jobs.bounded_counts(rows, stage=home / "one", **how)
    assert duckdb.bounded_counts(connection.table("given"), stage=home / "other", **how).hashes == one.hashes
    counts = cities(9).rename_columns([names[0], "it's"])
    to = home / 'it\'s "out"'
    found = released(duckdb, db.from_arrow(counts, connection=connection), home, "a", by=names[0], column="it's", to=to)
    assert found.columns == [names[0], "it's"]
    assert len(found.fetchall()) == 9
    assert connection.table("given").shape == (ROWS.num_rows, 3)
    assert connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_names_that_differ_by_case_alone_are_refused(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    for two in ('1 AS "key", 2 AS "KEY", 3 AS n', "1 AS key, 2 AS key, 3 AS n"):
        with pytest.raises(ParameterError, match="differ by more than case"):
            released(duckdb, db.connect().sql(f"SELECT {two}"), home, "a")
    assert charges(home, "a") == 0


@pytest.mark.parametrize("order", ["false", "true"])
def test_threads_collations_and_the_order_of_insertion_change_no_byte(tmp_path, order) -> None:
    home = at_home(tmp_path, "one", "other")
    texts = pa.table({"key": [f"{'aAbB'[i % 4]}{i:05}" for i in range(70_000)], "n": np.arange(70_000)})
    jobs.release(jobs.counted(texts, **terms(home, "one")), dpfast.DiscreteLaplace(1, 1), key=key_of(home), ledger=None,
                 to=home / "one.out")  # fmt: skip
    connection = in_memory(given=texts)
    connection.execute(f"SET preserve_insertion_order={order}; SET threads=4; SET default_collation='nocase'")
    connection.execute("SET default_order='DESC'; SET default_null_order='NULLS_LAST'")
    released(duckdb, connection.table("given"), home, "other", resume=True)
    same(home, "one", "other")


@pytest.mark.parametrize("sql", ["sum(n)", "sum(n)::DECIMAL(20, 0)", "sum(n)::UHUGEINT", "avg(n)", "max(n)::UBIGINT"])
def test_a_type_that_may_not_fit_is_refused_by_name(tmp_path, sql) -> None:
    """DuckDB's sum of integers is a HUGEINT."""
    home = at_home(tmp_path, "a")
    rows = in_memory(given=cities(9)).sql(f"SELECT key, {sql} AS n FROM given GROUP BY key")
    with pytest.raises(DTypeError, match="CAST it to BIGINT first"):
        released(duckdb, rows, home, "a")
    if "UBIGINT" not in sql:
        with pytest.raises(DTypeError, match="integers or texts"):
            duckdb.bounded_counts(rows, unit="key", by="n", key=key_of(home), stage=home / "s", **CAPS)
    assert charges(home, "a") == 0


def test_queries_that_give_other_rows_each_time_are_read_once(tmp_path) -> None:
    """random() in the query: whatever it gave is frozen, and read again from the stage."""
    home = at_home(tmp_path, "a")
    connection = db.connect()
    drawn = connection.sql("SELECT range AS key, CAST(random() * 1e9 AS BIGINT) AS n FROM range(1000)")
    found = released(duckdb, drawn, home, "a")
    there, noisy = files(home / "a.out"), found.fetchall()
    assert released(duckdb, drawn, home, "a", resume=True).fetchall() == noisy  # from the stage
    duckdb.verify(home / "a.out", drawn, dpfast.DiscreteLaplace(1, 1), **terms(home, "a"))
    assert files(home / "a.out") == there
    assert charges(home, "a") == 1


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("FROM '{files}'", DTypeError),
        ("FROM seen", DTypeError),
        ("FROM renamed", DTypeError),
        (
            "SELECT c AS user, page FROM read_parquet(['{files}'], filename = true) t(c, page) WHERE page < 1",
            DTypeError,
        ),
        ("FROM '{first}' UNION ALL SELECT CAST(user AS BIGINT), page FROM '{second}'", None),  # a cast that one can see
        ("FROM '{first}'", None),
    ],
)
def test_files_of_two_types_are_found_in_queries_and_views(tmp_path, query, kind) -> None:
    home, connection = at_home(tmp_path), db.connect()
    folder, _ = visits.two_types(tmp_path / "rows", "int", "text")
    connection.execute(f"CREATE VIEW seen AS FROM read_parquet('{folder}/*')")
    connection.execute('CREATE VIEW renamed (person, page) AS SELECT "user", page FROM seen')
    rows = connection.sql(
        query.format(files=f"{folder}/*.parquet", first=folder / "0.parquet", second=folder / "1.parquet")
    )
    how = {**visits.ONCE, "unit": rows.columns[0], "key": key_of(home), "stage": home / "s"}
    if kind is None:
        duckdb.bounded_counts(rows, **how)
    else:
        with pytest.raises(kind, match=f"user {visits.MIXED}"):
            duckdb.bounded_counts(rows, **how)
    assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(2,)]


# ------------------------------------------------------------------ connections


def test_a_closed_connection_is_one_error(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    connection = in_memory(given=cities(9))
    rows = connection.table("given")
    connection.close()
    with pytest.raises(ParameterError, match="an open connection, and theirs was closed"):
        released(duckdb, rows, home, "a")
    assert charges(home, "a") == 0


@pytest.mark.parametrize("when", ["while it is read", "before it is sealed"])
def test_another_connection_that_writes_meanwhile_changes_no_byte(tmp_path, monkeypatch, when) -> None:
    home = at_home(tmp_path, "one", "other")
    job(jobs, "known", ROWS, home, "one")
    connection = db.connect(home / "visits.duckdb")
    connection.register("given", ROWS)
    connection.execute("CREATE TABLE visits AS FROM given; CREATE VIEW seen AS FROM visits")
    other, wrote = connection.cursor(), []

    def write() -> None:
        if not wrote:
            wrote.append(other.execute("INSERT INTO visits FROM visits"))

    def then(owner: Any, name: str) -> None:
        works = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (write(), works(*given))[1])

    then(*((out_of_core, "scatter") if when == "while it is read" else (verbs, "seal_of")))
    job(duckdb, "known", connection.table("seen"), home, "other", resume=True)
    same(home, "one", "other")
    assert connection.table("seen").shape[0] == 2 * ROWS.num_rows


def test_the_output_belongs_to_the_connection_of_the_rows(tmp_path) -> None:
    home = at_home(tmp_path, "a", "b")
    connection, other = in_memory(given=cities(9)), in_memory(given=cities(9))
    one = released(duckdb, connection.table("given"), home, "a", key=key_of(home, "a"))
    two = released(duckdb, other.table("given"), home, "b", key=key_of(home, "b"))
    assert one.join(connection.table("given").set_alias("g"), "key").shape[0] == 9
    connection.close()
    assert len(two.fetchall()) == 9


@pytest.mark.parametrize("locked", [
    "SET enable_external_access=false", "SET python_enable_replacements=false", "CREATE TABLE dpfast_released AS SELECT 'x' AS seen",
])  # fmt: skip
def test_a_connection_that_cannot_read_the_output_is_refused_before_the_charge(tmp_path, locked) -> None:
    home = at_home(tmp_path, "a")
    connection = in_memory(given=cities(9))
    connection.execute(locked)
    for resume in (False, True):
        with pytest.raises(ParameterError, match="may read Arrow tables of Python"):
            released(duckdb, connection.table("given"), home, "a", resume=resume)
    assert charges(home, "a") == 0
    assert not (home / "a.out").exists()
    assert not (home / "a.stage").exists()
    counts = duckdb.counted(connection.table("given"), **terms(home, "a"))
    duckdb.release(
        counts, dpfast.DiscreteLaplace(1, 1), key=key_of(home), ledger=dpfast.Ledger(home / "a.db"), to=home / "a.out"
    )
    assert charges(home, "a") == 1


def test_the_output_is_read_whatever_becomes_of_what_is_not_its_relation(tmp_path) -> None:
    """Also of a database that nobody may write; and twice."""
    home = at_home(tmp_path, "a")
    with db.connect(home / "cities.duckdb") as made:
        made.register("arrow", cities(9))
        made.execute("CREATE TABLE given AS FROM arrow")
    connection = db.connect(home / "cities.duckdb", read_only=True)
    found = released(duckdb, connection.table("given"), home, "a")
    few = found.filter('"key" > 0')
    noisy = found.fetchall()
    del found
    gc.collect()
    assert few.fetchall() == [row for row in noisy if row[0] > 0]
    assert few.fetchall() == few.fetchall() != []


# ------------------------------------------------------------------ what must not tell


def forms(secret: bytes) -> list[str]:
    return [secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1], repr(bytearray(secret))]


def test_plans_queries_and_profiles_hold_no_key(tmp_path, monkeypatch) -> None:
    """All that DuckDB is asked, how it plans and profiles it; a key in a query would be found."""
    home, shown = at_home(tmp_path), []
    connection = in_memory(given=ROWS, small=cities(9))
    relation = type(connection.table("given"))
    profile = home / "profile.json"
    connection.execute(f"PRAGMA enable_profiling='json'; PRAGMA profiling_output='{profile}'")

    def spied(name: str) -> None:
        works = getattr(relation, name)

        def spies(self: Any, *given: Any) -> Any:
            asked = inspect.currentframe().f_back.f_locals
            dpfast_released = asked.get("dpfast_released")  # DuckDB looks at this frame alone
            shown.extend([self.sql_query(), *map(str, given)])
            if name != "query":
                shown.extend([self.explain(), self.explain("analyze")])
            found = works(self, *given)
            del dpfast_released
            shown.append(profile.read_text("utf-8") if profile.exists() else "")
            return found

        monkeypatch.setattr(relation, name, spies)

    for name in ("arrow", "to_arrow_table", "query", "project", "order"):
        spied(name)
    master = dpfast.Key.generate()
    keys = {"memory": master.derive("visits"), "file": key_of(home, "visits")}
    secrets = [(home / "visits.key").read_bytes(), bytes(master)]
    for name, key in keys.items():
        how = {"unit": "user", "key": key, "stage": home / name, **KINDS["unknown"]}
        counts = duckdb.bounded_counts(connection.table("given"), **how)
        duckdb.release(counts, visits.mechanism("unknown", counts), key=key, ledger=None, to=home / f"{name}.out")
        label = key_of(home, "small") if name == "file" else master.derive("small")
        released(duckdb, connection.table("small"), home, f"{name} small", key=label, ledger=None)
        secrets += [tiers.secret_of(key), tiers.choosing(key.chooser()), tiers.secret_of(label)]
    texts = "".join(shown)
    assert "dpfast_released" in texts
    assert "encode(CAST" not in texts  # keys of these tables are integers
    assert '"total_bytes_read"' in texts or '"latency"' in texts
    assert not any(form in texts for secret in secrets for form in forms(secret))
    shown.clear()
    connection.table("given").project(f"'{secrets[0].hex()}' AS planted").arrow()
    assert secrets[0].hex() in "".join(shown)


def test_a_result_that_waits_on_the_default_connection_stays(tmp_path) -> None:
    """It is the caller's, whom another thread may serve: what asks about a query asks elsewhere."""
    home = at_home(tmp_path)
    pq.write_table(pa.table({"city": ["Oslo", "Lima"], "person": [1, 2]}), tmp_path / "rows.parquet")
    waiting = db.execute("SELECT 17")
    with db.connect() as connection:
        rows = connection.read_parquet(str(tmp_path / "rows.parquet"))
        counts = duckdb.bounded_counts(
            rows, unit="person", by="city", domain=["Lima", "Oslo"], max_partitions=1, max_per_partition=1,
            key=key_of(home), stage=home / "own.stage",
        )  # fmt: skip
    assert counts.hashes
    assert waiting.fetchall() == [(17,)]
