# SPDX-License-Identifier: Apache-2.0
"""Visits in PostgreSQL: rows of people, counted in one snapshot; the output as a table there.

It asks the server that PGHOST, PGUSER and PGDATABASE name, and leaves nothing there.
"""

import tempfile
import warnings
from pathlib import Path

import psycopg

import dpfast
from dpfast.engines import postgres as dp

home = Path(tempfile.mkdtemp())
dpfast.KeyFile.create(home / "visits.key")  # on the command line: dpfast key create visits.key
ledger = dpfast.Ledger(home / "budget.db", epsilon=3, delta=0, create=True)
key = dpfast.KeyFile(home / "visits.key")

connection = psycopg.connect(autocommit=True)
connection.execute(
    "CREATE TEMP TABLE visits AS SELECT n % 5000 AS person, n * 7919 % 900 AS ward FROM generate_series(1, 50000) AS n"
)

# Rows: each person counts at most once for each of at most 10 wards. Each ward gets a number.
rows = dp.Rows(connection, "SELECT person, ward FROM visits")
first = key.derive("visits 2026-11")
counts = dp.bounded_counts(rows, unit="person", by="ward", domain=range(900), max_partitions=10, max_per_partition=1,
                           key=first, stage=home / "stage")  # fmt: skip
mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=counts.sensitivity)
warnings.simplefilter("ignore", dpfast.errors.KeptStageWarning)  # the second try takes the stage of the first
for _ in range(2):  # the second time as after a crash: the same bytes, and no charge
    dp.release(counts, mechanism, key=first, ledger=ledger, to=home / "wards", resume=True)
dp.verify(home / "wards", counts, mechanism, key=first)
dp.load(home / "wards", connection, ("pg_temp", "noisy_wards"))  # what is public, as a table: all of it, or nothing

# Counts that are there already, of all groups that can be: a person changes one of them by one.
groups = dp.Rows(connection, """
    SELECT cohort, count(person) AS people
    FROM generate_series(0, 23) AS cohort LEFT JOIN (SELECT DISTINCT person FROM visits) AS p ON person % 24 = cohort
    GROUP BY cohort
""")  # fmt: skip
noisy = dp.release(groups, dpfast.DiscreteLaplace(1, 1), by="cohort", column="people", key=key.derive("cohorts 2026-11"),
                   ledger=ledger, stage=home / "cohorts stage", to=home / "cohorts")  # fmt: skip
print(noisy.head(6).to_pydict())
print(connection.execute("SELECT * FROM noisy_wards WHERE ward < 3").fetchall())
print(f"95 %: each ward within ±{mechanism.interval()}; spent {ledger.spent}")
