# SPDX-License-Identifier: Apache-2.0
"""Polars: lazy frames of rows and of counts give the bytes of one process, out of core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pl = pytest.importorskip("polars", "1.36.1")

import visits  # noqa: E402
from counted_tables import ROWS, OutOfCore, cities, key_of, released, terms  # noqa: E402
from visits import CAPS, at_home, charges  # noqa: E402

import dpfast  # noqa: E402
from dpfast.engines import jobs  # noqa: E402
from dpfast.engines import polars as polars_lazy  # noqa: E402
from dpfast.errors import DTypeError, ParameterError  # noqa: E402


class TestPolars(OutOfCore):
    dp = polars_lazy
    engine = "LazyFrames"
    start = "import polars as pl\nfrom dpfast.engines import polars as dp\nof = pl.scan_parquet"

    def of(self, rows: pa.Table) -> Any:
        return pl.from_arrow(rows).lazy()

    def arrow(self, found: Any) -> pa.Table:
        return found.collect().to_arrow()

    casts = (("text", "large"),)  # Polars itself refuses the others

    def of_files(self, folder: Path) -> Any:
        return pl.scan_parquet(folder / "*.parquet")

    def coded(self, texts: pa.Table, names: list[str]) -> list[Any]:
        rows = pl.from_arrow(texts)
        return [rows.with_columns(pl.col("user").cast(kind)) for kind in (pl.Enum(names), pl.Categorical())]

    def group_by(self, rows: Any) -> Any:
        return rows.group_by("key").agg(n=pl.len()).filter(pl.col("key") < 50)

    def failing(self) -> Any:
        rows = pl.LazyFrame({"user": [f"{visits.SECRET}x"] * 9, "page": range(9)})
        return rows.with_columns(pl.col("user").cast(pl.Int64))


def test_names_that_polars_takes_for_patterns(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    rows = pl.from_arrow(ROWS.select(["page", "user", "country"])).rename(
        {"page": "^.*$", "user": "*", "country": 'the "country"'}
    )  # fmt: skip
    how = {"unit": "*", "by": ["^.*$", 'the "country"'], "key": key_of(home), "buckets": 3, **CAPS}
    one = jobs.bounded_counts(rows.to_arrow(), stage=home / "one", **how)
    assert polars_lazy.bounded_counts(rows, stage=home / "other", **how).hashes == one.hashes
    counts = pl.from_arrow(cities(9)).rename({"key": "^k.*$", "n": "*"})
    found = released(polars_lazy, counts, home, "a", by="^k.*$", column="*", to=home / "out [*]")
    assert found.collect().columns == ["^k.*$", "*"]


def test_a_lazy_frame_is_evaluated_once_and_its_release_is_files(tmp_path) -> None:
    """However often what comes back is collected; and by `pipe`."""
    home, runs = at_home(tmp_path, "a"), []

    def drawn(frame: Any) -> Any:
        runs.append(frame.height)
        return frame.with_columns(n=pl.Series(np.random.default_rng().integers(0, 9, frame.height)))

    rows = pl.from_arrow(cities(1000)).lazy().map_batches(drawn, schema={"key": pl.Int64, "n": pl.Int64})
    how = {**terms(home, "a"), "ledger": dpfast.Ledger(home / "a.db"), "to": home / "a.out", "resume": True}
    found = rows.pipe(polars_lazy.release, dpfast.DiscreteLaplace(1, 1), **how)
    assert isinstance(found, pl.LazyFrame)
    assert found.collect().equals(found.collect())
    again = rows.pipe(polars_lazy.release, dpfast.DiscreteLaplace(1, 1), **how)
    assert again.collect().equals(found.collect())
    assert runs == [1000]
    assert charges(home, "a") == 1


def test_an_enum_is_sorted_by_its_texts(tmp_path) -> None:
    home = at_home(tmp_path, "a", "b")
    for name, kind in (("a", pl.Enum(["z", "a", "é"])), ("b", pl.Categorical())):
        rows = pl.DataFrame({"key": pl.Series(["z", "é", "a"], dtype=kind), "n": [1, 2, 3]})
        found = released(polars_lazy, rows, home, name, key=key_of(home, name)).collect()
        assert found["key"].to_list() == ["a", "z", "é"]


def test_a_type_that_may_not_fit_is_refused(tmp_path) -> None:
    home = at_home(tmp_path, "a")
    for kind in (pl.UInt64, pl.Int128, pl.Decimal(20, 0), pl.Boolean):
        rows = pl.DataFrame({"key": [1, 2], "n": pl.Series([0, 1]).cast(kind)})
        with pytest.raises(DTypeError, match="CAST it to BIGINT|cannot be read"):
            released(polars_lazy, rows, home, "a")
    with pytest.raises(ParameterError, match="a column 'nobody', exactly one"):
        released(polars_lazy, rows, home, "a", by="nobody")
    with pytest.raises(DTypeError, match="cannot be read: ColumnNotFoundError of Polars"):
        released(polars_lazy, rows.lazy().select("nobody"), home, "a")
    assert charges(home, "a") == 0
