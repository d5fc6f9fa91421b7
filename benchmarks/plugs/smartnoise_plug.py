# SPDX-License-Identifier: Apache-2.0
"""SmartNoise SQL: its mechanisms on lists and on single values, and a query."""

from __future__ import annotations

import pandas as pd
import snsql
from row import Row
from snsql.sql import privacy as theirs

from dpfast.adapters import smartnoise as ours

VERSIONS = ("smartnoise-sql", "opendp")
GROUPS = 500
PEOPLE = pd.DataFrame({"person": range(4 * GROUPS), "town": [i % GROUPS for i in range(4 * GROUPS)]})
COLUMNS = {"row_privacy": False, "max_ids": 1, "censor_dims": False,
           "person": {"type": "int", "private_id": True}, "town": {"type": "int"}}  # fmt: skip
QUERY = "SELECT town, COUNT(*) AS n FROM t.people GROUP BY town"


def query(mechanisms: theirs.Mechanisms) -> None:
    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6, mechanisms=mechanisms)
    reader = snsql.from_df(PEOPLE, metadata={"": {"t": {"people": COLUMNS}}}, privacy=privacy)
    assert len(reader.execute(QUERY)) == GROUPS + 1


def rows() -> list[Row]:
    found = []
    many = [float(i) for i in range(1_000_000)]
    for name in ("Laplace", "Gaussian"):
        before, after = (getattr(module, name)(1.0, delta=1e-6, sensitivity=1).release for module in (theirs, ours))
        found += [
            Row(f"`{name}.release`, a list", lambda f=before: f(many[:5_000]), lambda f=after: f(many), 5_000, 10**6),
            Row(
                f"`{name}.release`, one value",
                lambda f=before: [f([1.0]) for _ in range(500)],
                lambda f=after: [f([1.0]) for _ in range(500)],
                500, 500, "call",
            ),
        ]  # fmt: skip
    found.append(
        Row(
            f"`execute`, COUNT of {GROUPS} groups",
            lambda: query(theirs.Mechanisms()), lambda: query(ours.Mechanisms()), 1, 1, "query",
        )
    )  # fmt: skip
    return found
