# SPDX-License-Identifier: Apache-2.0
"""What users of pandas, Polars and pyarrow write first works, or the message says what does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpfast

pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))

COUNTS = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
VISITS = pd.DataFrame({"city": ["Oslo", "Lima", "Oslo"], "sex": ["f", "m", "f"], "person": [1, 2, 2]})
ONCE = {"max_partitions": 1, "max_per_partition": 1}
CELLS = pd.MultiIndex.from_product([["Lima", "Oslo"], ["f", "m"]])


def mean() -> float:
    hours = np.linspace(0, 24, 1000)
    steps, sensitivity = dpfast.fixed_point_sum(hours, lower=0, upper=24, granularity=2**-10, adjacency="add-remove")
    total = dpfast.DiscreteLaplace(0.5, sensitivity).release(steps) * 2**-10
    return float(total / dpfast.DiscreteLaplace(0.5, 1).release(hours.size))


def median() -> int:
    ages = np.bincount(np.full(10_000, 42), minlength=100)
    return int(dpfast.tree(ages, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1)).quantile(0.5).value)


def ledgered(folder: Any) -> float:
    ledger = dpfast.Ledger(folder / "year.db", epsilon=1, create=True)
    ledger.release(dpfast.DiscreteLaplace(0.5, 1), VISITS["city"].value_counts(), label="cities")
    return float(ledger.remaining.epsilon)


# Each with what must be so. Noise beyond the stated reaches has probability below 1e-9.
TASKS: list[tuple[str, Callable[[Any], Any], Callable[[Any], object]]] = [
    ("groupby", lambda _: COUNTS.release(VISITS.groupby("city").size()), lambda r: [*r.index] == ["Lima", "Oslo"]),
    ("value_counts", lambda _: COUNTS.release(VISITS["city"].value_counts(), lower=0), lambda r: (r >= 0).all()),
    ("crosstab", lambda _: COUNTS.release(pd.crosstab(VISITS["city"], VISITS["sex"])), lambda r: [*r.columns] == ["f", "m"]),
    ("an expression", lambda _: pl.DataFrame({"n": [1, 2]}).select(COUNTS.release(pl.col("n"))), lambda r: r.shape == (2, 1)),
    ("agg", lambda _: pl.DataFrame({"k": ["a", "b"]}).group_by("k").agg(COUNTS.release(pl.len())), lambda r: r["len"].dtype == pl.Int64),
    ("a Table", lambda _: COUNTS.release(pa.table({"n": [1, 2]})), lambda r: isinstance(r, pa.Table)),
    ("a mean", lambda _: mean(), lambda r: abs(r - 12) < 1.5),
    ("a median", lambda _: median(), lambda r: r == 42),
    ("two keys", lambda _: dpfast.bounded_histogram(VISITS[["city", "sex"]], VISITS["person"], domain=CELLS, **ONCE), lambda r: r.sensitivity.l1 == 1),
    ("a budget", ledgered, lambda r: r == 0.5),
    ("a sampler beside its distribution", lambda _: dpfast.DiscreteGaussian(sigma=10).sample(100_000).std(), lambda r: abs(r - 10) < 0.2),
]  # fmt: skip


@pytest.mark.parametrize(("task", "holds"), [each[1:] for each in TASKS], ids=[each[0] for each in TASKS])
def test_it_works(task, holds, tmp_path) -> None:
    assert holds(task(tmp_path))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: COUNTS.release(pd.Series([1.0, 2.0, np.nan])), r"Laplace and Gaussian; astype\('int64'\)"),
    (lambda: COUNTS.release(pd.Series([1, None], dtype="Int64")), "missing=<public integer>"),
    (lambda: COUNTS.release(pd.Series(["1", "2"])), "pandas.to_numeric"),
    (lambda: COUNTS.release(pa.array([1, 2]).cast(pa.decimal128(38, 2))), r"cast\(pyarrow.decimal128\(38, 0\)\)"),
    (lambda: dpfast.Gaussian(1, 1), "Gaussian.calibrated"),
    (lambda: dpfast.Ledger("nowhere.db"), "create=True"),
    (lambda: dpfast.median, r"dpfast.quantiles"),
    (lambda: dpfast.histogram, "dpfast.bounded_histogram"),
]


@pytest.mark.parametrize(("task", "hint"), REFUSED, ids=[hint for _, hint in REFUSED])
def test_a_refusal_says_what_helps(task, hint) -> None:
    with pytest.raises((dpfast.errors.DpfastError, AttributeError), match=hint):
        task()


@pytest.mark.parametrize("name", ["count", "histogram", "mean", "median", "quantile", "sum"])
def test_what_a_hint_names_is_there(name) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(dpfast, name)
    hint = str(caught.value).partition("dpfast.")[2].partition(" ")[0].partition("(")[0]
    module, _, function = hint.rpartition(".")
    assert callable(getattr(getattr(dpfast, module) if module else dpfast, function))
