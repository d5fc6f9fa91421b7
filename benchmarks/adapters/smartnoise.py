# SPDX-License-Identifier: Apache-2.0
"""SmartNoise SQL: its mechanisms on lists and on single values, and a query."""

from __future__ import annotations

from functools import partial

import pandas as pd
import snsql
from snsql.sql import privacy as theirs

from adapters import compared
from dpfast.adapters import smartnoise as ours

VERSIONS = ("smartnoise-sql", "opendp")
SIZE = 1_000_000
FEWER = 200  # times fewer values for theirs
GROUPS, CALLS = 500, 500
PEOPLE = pd.DataFrame({"person": range(4 * GROUPS), "town": [i % GROUPS for i in range(4 * GROUPS)]})
COLUMNS_OF_PEOPLE = {"row_privacy": False, "max_ids": 1, "censor_dims": False,
                     "person": {"type": "int", "private_id": True}, "town": {"type": "int"}}  # fmt: skip
QUERY = "SELECT town, COUNT(*) AS n FROM t.people GROUP BY town"


def query(mechanisms: type) -> None:
    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6, mechanisms=mechanisms())
    reader = snsql.from_df(PEOPLE, metadata={"": {"t": {"people": COLUMNS_OF_PEOPLE}}}, privacy=privacy)
    assert len(reader.execute(QUERY)) == GROUPS + 1


def rows(size):
    many, few = [float(i) for i in range(size)], -(-size // FEWER)
    for name in ("Laplace", "Gaussian"):
        before, after = (getattr(module, name)(1.0, delta=1e-6, sensitivity=1).release for module in (theirs, ours))
        yield compared(f"`{name}.release`, a list", partial(before, many[:few]), partial(after, many), size, few=few)
        single = [lambda f=f: [f([1.0]) for _ in range(CALLS)] for f in (before, after)]
        yield compared(f"`{name}.release`, one value", *single, CALLS, "call")
    mine = partial(query, theirs.Mechanisms), partial(query, ours.Mechanisms)
    yield compared(f"`execute`, COUNT of {GROUPS} groups", *mine, 1, "query")
