# SPDX-License-Identifier: Apache-2.0
"""What a job refuses, on the driver and before anything is read or paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from jobs_of_visits import ROWS, counted, key_of
from visits import PAGES, SECRET, at_home, charges, files, job, mechanism

import dpfast
from dpfast import DiscreteLaplace
from dpfast.engines import jobs
from dpfast.engines.jobs import tasks, verbs
from dpfast.errors import BudgetExhausted, DTypeError, FileError, KeyReuseError, OtherInputError, ParameterError

# ------------------------------------------------------------------ bad input


def test_a_ledger_of_another_unit_is_answered_with_what_to_write(tmp_path) -> None:
    """The ledger says `unit`, and `unit=` of these counts is a column."""
    home = at_home(tmp_path)
    ledger = dpfast.Ledger(home / "users.db", epsilon=9, create=True, unit="user")
    few: dict[str, Any] = {"by": "country", "domain": ["no", "se", "dk"], "max_contributions": 3}
    few |= {"max_partitions": None, "max_per_partition": None}

    def release(counts: jobs.Counts, **options: Any) -> dict[str, Any]:
        given = {"key": key_of(home), "ledger": ledger, "to": home / "out", **options}
        return jobs.release(counts, DiscreteLaplace(1, counts.sensitivity), **given)

    counts = counted(home, **few)
    told = r"^privacy_unit must be the unit of the ledger, 'user', got 'person': bounded_counts\(…, privacy_unit='user'\), on a stage"
    with pytest.raises(ParameterError, match=told):
        release(counts)
    assert (len(ledger.history()), (home / "out").exists()) == (0, False)
    release(counted(home, name="b", privacy_unit="user", **few))
    assert ledger.spent.epsilon == 1
    with pytest.raises(DTypeError, match="^ledger must be"):
        release(counts, ledger=5)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"by": "town"}, ParameterError, "must have a column 'town'"),
        ({"unit": "person"}, ParameterError, "must have a column 'person'"),
        ({"values": "hours", "lower": 0, "upper": 1}, ParameterError, "must have a column 'hours'"),
        ({"values": "country", "lower": 0, "upper": 1}, DTypeError, "^country must be a column of integers, float64 or float32, not string: CAST it"),
        ({"by": ["page", "page"]}, ParameterError, "none twice"),
        ({"by": [["page"]]}, DTypeError, "must be texts"),
        ({"by": []}, ParameterError, "at least one column"),
        ({"by": "minutes"}, DTypeError, "integers or texts"),
        ({"unit": "minutes"}, DTypeError, "integers or texts"),
        ({"unit": dpfast.EACH_ROW}, ParameterError, "an engine may be handed a row twice"),
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
        return connection.from_arrow(rows), pytest.importorskip("dpfast.engines.duckdb").Relations(2)
    if engine == "polars":
        polars = pytest.importorskip("polars")
        return polars.from_arrow(rows).lazy(), pytest.importorskip("dpfast.engines.polars").LazyFrames(2)
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
