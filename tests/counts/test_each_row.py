# SPDX-License-Identifier: Apache-2.0
"""Each row another unit: what is counted is all rows, and one row more changes what is stated."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import EACH_ROW, Sensitivity, bounded_histogram
from dpfast.errors import DTypeError, ParameterError

DOMAIN = ["a", "b"]
CELLS = ["a", "b", "c"]  # a key, and one outside the domain
SUM = {"lower": -2, "upper": 3}
VALUES = [-5, 1, 9]


def cells(rows: tuple[Any, ...], **options: Any) -> list[int]:
    keys = np.array([key for key, _ in rows], "U1")
    values = np.array([value for _, value in rows], np.int64) if options else None
    found = bounded_histogram(keys, EACH_ROW, values=values, domain=DOMAIN, **options)
    return np.asarray(found.counts).tolist()


@pytest.mark.parametrize("options", [{}, SUM])
def test_every_small_world(options) -> None:
    """All tables of up to three rows: all is counted, and neighbours differ as is stated."""
    kinds = list(itertools.product(CELLS, VALUES if options else [0]))
    ends = (options["lower"], options["upper"]) if options else (1, 1)
    stated = [
        bounded_histogram(
            ["a"], EACH_ROW, values=[0] if options else None, domain=DOMAIN, adjacency=adjacency, **options
        ).sensitivity
        for adjacency in ("add-remove", "substitution")
    ]
    most = [0, 0]
    for rows in itertools.chain.from_iterable(itertools.product(kinds, repeat=n) for n in range(3)):
        here = cells(rows, **options)
        wanted = {
            key: [min(max(value if options else 1, ends[0]), ends[1]) for k, value in rows if k == key]
            for key in DOMAIN
        }
        assert here == [sum(wanted[key]) for key in DOMAIN]
        for row in kinds:
            there = cells((*rows, row), **options)
            most[0] = max(most[0], sum(abs(a - b) for a, b in zip(here, there, strict=True)))
            if rows:
                there = cells((row, *rows[1:]), **options)
                most[1] = max(most[1], sum(abs(a - b) for a, b in zip(here, there, strict=True)))
    assert most == [each.l1 for each in stated]


def test_it_says_row_and_whose_word_that_is() -> None:
    found = bounded_histogram(["a", "b", "a"], EACH_ROW, domain=DOMAIN)
    assert found.sensitivity == Sensitivity(1, 1, cells=2, unit="row")
    law = dpfast.DiscreteLaplace(1, found.sensitivity)
    assert (law.unit, law.metadata()["unit"]) == ("row", "row")
    key = dpfast.Key.generate().derive("rows")
    named = bounded_histogram(["a"], EACH_ROW, domain=DOMAIN, key=key).counts.origin.named(key)
    assert named["unit"] == "row"
    assert "as whoever counted says" in named["unit_is"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"max_partitions": 2}, "max_partitions must be left out where each row is a unit, .*got 2"),
        ({"max_per_partition": 3}, "max_per_partition must be left out"),
        ({"max_contributions": 2}, "max_contributions must be left out"),
        ({"max_contributions": 0}, "max_contributions must be at least 1"),
        ({"unit": "person"}, "unit must be left out where each row is a unit, got 'person'"),
    ],
)
def test_no_other_cap_and_no_person(options, match) -> None:
    with pytest.raises(ParameterError, match=match):
        bounded_histogram(["a"], EACH_ROW, domain=DOMAIN, **options)


def test_a_misspelt_column_is_not_each_row() -> None:
    """`frame.get("ID")` of no such column is None."""
    for nothing in (None, "row", "each row"):
        with pytest.raises(DTypeError, match="unit_ids must be a column"):
            bounded_histogram(["a"], nothing, domain=DOMAIN, max_partitions=1, max_per_partition=1)


def test_what_there_is_in_place_of_none_is_said() -> None:
    """Before anything else that is asked for."""
    said = r"unit_ids must be .*, not None: dpfast\.EACH_ROW says"
    with pytest.raises(DTypeError, match=said):
        bounded_histogram(["a"], None)
    with pytest.raises(DTypeError, match=said):
        dpfast.quantiles([1], None, [0.5], lower=0, upper=1)
    with pytest.raises(DTypeError, match=r"keys must be .*, not None: for a total .* \[0\] \* len\(rows\)"):
        bounded_histogram(None, EACH_ROW)
    total = bounded_histogram([0] * 4, EACH_ROW, domain=[0], values=[2, 3, 4, 5], lower=0, upper=9)
    assert total.counts.tolist() == [14]


def test_parts_add_up_to_the_whole_and_go_with_no_others() -> None:
    key = dpfast.Key.generate().derive("rows")
    keys = list("abbacbab")
    parts = [bounded_histogram(part, EACH_ROW, domain=DOMAIN, key=key) for part in (keys[:3], keys[3:])]
    whole = bounded_histogram(keys, EACH_ROW, domain=DOMAIN, key=key)
    assert np.array_equal(dpfast.BoundedHistogram.merged(parts).counts, whole.counts)
    ids = bounded_histogram(keys, range(8), domain=DOMAIN, max_partitions=1, max_per_partition=1, unit="row", key=key)
    with pytest.raises(ParameterError, match="parts must be counted in one way"):
        dpfast.BoundedHistogram.merged([whole, ids])


def test_it_is_one_thing_in_every_process() -> None:
    assert pickle.loads(pickle.dumps(EACH_ROW)) is EACH_ROW
    assert repr(EACH_ROW) == "dpfast.EACH_ROW"


def test_rows_of_unknown_keys_go_behind_a_threshold() -> None:
    found = bounded_histogram(["a"] * 500 + ["b"], EACH_ROW)
    shown = dpfast.thresholded(found.keys, found.counts, epsilon=1, delta=1e-9, sensitivity=found.sensitivity)
    assert shown.keys.tolist() == ["a"]  # b is shown once in 10^9 runs
