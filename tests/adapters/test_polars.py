# SPDX-License-Identifier: Apache-2.0
"""Polars: an expression is one release when evaluated (columns: test_columns.py)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tiers
from fresh import python

pl = pytest.importorskip("polars")

from columns import COUNTS, VALUES, WIDE, failing_kernels, fixed  # noqa: E402

import dpfast  # noqa: E402
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Key, Laplace, Snapping, adapters  # noqa: E402
from dpfast.errors import DpfastError, DTypeError, ParameterError  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # OpenDP may have been here before
    from dpfast.adapters.polars import Noise

FAILED = (DpfastError, RuntimeError, pl.exceptions.ComputeError)  # early versions wrap what an expression raises
STREAMING = {"engine": "streaming"} if hasattr(pl, "self_dtype") else {"streaming": True}
n = pl.col("n")


class Counter:
    """A mechanism that remembers the size of each of its releases."""

    def __init__(self) -> None:
        self.calls = []

    def release(self, values, **options) -> object:
        if type(values) is not np.ndarray:
            chosen = {"dtype": np.dtype(np.int64), "missing": None, **options}
            return adapters.releaser(values, None)(self.release, values, chosen)
        self.calls.append(values.size)
        return COUNTS.release(values, **options)


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame({"g": [1, 1, 2, 2, 2, 3], "n": [10, 20, 30, 40, 50, 60]})


# ------------------------------------------------------------------ expressions


def test_an_expression_is_the_release_of_its_column(frame) -> None:
    """Eager, lazy, streaming, anywhere: NumPy's release of the same stream, one call a column."""
    big = pl.DataFrame({"n": np.arange(300_000), "g": np.arange(300_000) % 7})
    expected = fixed(big["n"]).to_list()
    noisy = COUNTS.release(n).alias("noisy")
    with tiers.fixed_stream():
        assert big.select(noisy)["noisy"].to_list() == expected
        assert big.with_columns(noisy)["noisy"].to_list() == expected
        assert big.lazy().with_columns(noisy).collect(**STREAMING)["noisy"].to_list() == expected
        assert big.lazy().with_columns(noisy).filter(pl.col("g") == 3).collect()["noisy"].to_list() == expected[3::7]
        assert big.lazy().with_columns(noisy).filter(n > 5).tail(4).collect()["noisy"].to_list() == expected[-4:]
        assert big.select(noisy.filter(pl.col("g") == 3))["noisy"].to_list() == expected[3::7]


def test_the_schema_is_known_before(frame) -> None:
    """And nothing is released for it: Int64 or dtype for counts, a real type as it was."""
    spy = Counter()
    lazy = frame.lazy().select(a=spy.release(n), b=spy.release(n, dtype=np.dtype(np.uint8)))
    assert dict(lazy.collect_schema()) == {"a": pl.Int64, "b": pl.UInt8}
    assert lazy.explain()
    assert spy.calls == []
    assert lazy.collect().schema == {"a": pl.Int64, "b": pl.UInt8}
    for kind in (pl.Float32, pl.Float64):
        reals = pl.LazyFrame({"n": pl.Series([1, 2], dtype=kind)})
        reals = reals.select(a=VALUES.release(n), b=VALUES.release(n, dtype="f4"))
        assert dict(reals.collect().schema) == {"a": kind, "b": pl.Float32}
        if hasattr(pl, "self_dtype"):
            assert dict(reals.collect_schema()) == {"a": kind, "b": pl.Float32}


def test_an_evaluation_is_one_call(frame) -> None:
    """Whatever follows: filters, slices and joins neither cut the column nor draw again."""
    lazy = frame.lazy()
    ways = [
        lambda noisy: lazy.with_columns(noisy).filter(n > 20),
        lambda noisy: lazy.with_columns(noisy).filter(pl.col("noisy") > 20),
        lambda noisy: lazy.with_columns(noisy).filter(pl.col("noisy") > 20).select("noisy", m=pl.col("noisy") + 1),
        lambda noisy: lazy.filter(noisy > 20),
        lambda noisy: lazy.with_columns(noisy).head(2),
        lambda noisy: (
            lazy.with_columns(noisy).sort("noisy").group_by("g").agg(pl.col("noisy").sum(), m=pl.col("noisy").max())
        ),
        lambda noisy: lazy.select(noisy).with_columns(a=pl.col("noisy"), b=pl.col("noisy") * 2),
    ]
    for way in ways:
        for how in ({}, STREAMING):
            spy = Counter()
            way(spy.release(n).alias("noisy")).collect(**how)
            assert spy.calls == [6]
    spy = Counter()
    lazy.with_columns(spy.release(n).alias("unused")).select("n").collect()
    assert spy.calls == []
    assert lazy.filter(n > 99).select(spy.release(n)).collect().schema == {"n": pl.Int64}


def test_every_evaluation_is_a_release(frame) -> None:
    """Two collects, and two places, are two draws: not even two mechanisms are merged."""
    many = pl.LazyFrame({"n": np.zeros(50, np.int64)})
    lazy = many.select(a=WIDE.release(n))
    assert (lazy.collect()["a"] != lazy.collect()["a"]).all()
    noisy = WIDE.release(n)
    two = many.select(a=noisy, b=noisy, c=WIDE.release(n), d=DiscreteLaplace(20, 1).release(n)).collect()
    assert (two["a"] != two["b"]).all()
    assert (two["a"] != two["c"]).all()
    assert two["d"].abs().max() < 20 < two["a"].abs().min()  # each fails with probability 1e-9 at most


def test_an_expression_under_a_key_is_refused(frame, tmp_path) -> None:
    """At once, for nothing: it is evaluated for each plan, group, chunk. A Series is sealed."""
    key, ledger = Key.generate().derive("visits"), dpfast.Ledger(tmp_path / "b.db", epsilon=2, create=True)
    for call in (
        lambda: COUNTS.release(n, key=key),
        lambda: ledger.release(COUNTS, n, key=key),
        lambda: key.digester(COUNTS)(0, n),
        lambda: Noise(n).discrete_laplace(1, 1, key=key),
    ):
        with pytest.raises(ParameterError, match="^key must be left out for an expression"):
            call()
    assert ledger.spent.epsilon == 0
    noisy = ledger.release(COUNTS, frame["n"], key=key, names=["a", "b", "c", "d", "e", "f"])
    assert noisy.equals(COUNTS.release(frame["n"], key=key, names=pl.Series(list("abcdef")), resume=True))


def test_groups(frame) -> None:
    """After an aggregation the groups are one column; within groups each cell has its own noise."""
    sizes = frame.group_by("g", maintain_order=True).len()
    spy = Counter()
    assert sizes.with_columns(spy.release(pl.col("len")))["len"].dtype == pl.Int64
    assert spy.calls == [3]
    within = frame.select("g", "n", noisy=WIDE.release(n).over("g"))
    assert (within["noisy"] != within["n"]).all()
    assert within["noisy"].n_unique() == 6
    total = frame.select(WIDE.release(n.sum()))
    assert total.shape == (1, 1)
    assert total.item() != 210


def test_what_an_expression_raises(frame) -> None:
    cases = [
        (COUNTS.release(n / 2), "counts must be of an integer dtype"),
        (COUNTS.release(n.cast(pl.String)), "not String"),
        (COUNTS.release(pl.when(n > 10).then(n)), "counts must not contain nulls; missing="),
        (VALUES.release(n), "not int64: for counts there are"),
        (COUNTS.release(n, lower=2, upper=1), "lower must be at most upper"),
    ]
    for noisy, message in cases:
        for how in ({}, STREAMING):
            result = None
            with pytest.raises(FAILED, match=message):
                result = frame.lazy().select(noisy).collect(**how)
            assert result is None
    assert frame.select(noisy=COUNTS.release(pl.when(n > 10).then(n), missing=0))["noisy"].null_count() == 0
    with pytest.raises(DTypeError, match="^dtype must be an integer dtype"):
        COUNTS.release(n, dtype="no such type")


def test_a_failure_gives_nothing(monkeypatch) -> None:
    """A kernel that has written counts when it fails: no frame, and what was written is zero."""
    written = failing_kernels(monkeypatch)
    counts = pl.Series("n", np.full(5000, 91))
    for how in (
        lambda: counts.to_frame().select(COUNTS.release(n)),
        lambda: counts.to_frame().lazy().with_columns(COUNTS.release(n)).collect(**STREAMING),
    ):
        with pytest.raises(FAILED, match="planted"):
            how()
    assert len(written) == 2
    assert not any(y.any() for y in written)
    assert (counts == 91).all()


def test_out_is_for_numpy() -> None:
    with pytest.raises(ParameterError, match="^out is for NumPy arrays"):
        COUNTS.release(n, out=np.zeros(1, np.int64))


# ------------------------------------------------------------------ the namespace


def test_the_namespace(frame) -> None:
    """Each law by name, with the options of release, for a Series and for an expression."""
    laws = [
        ("discrete_laplace", (1, 3), DiscreteLaplace(1, 3), pl.Int64),
        ("discrete_gaussian", (2,), DiscreteGaussian(2), pl.Int64),
        ("laplace", (1, 3), Laplace(1, 3), pl.Float64),
        ("gaussian", (2,), Gaussian(2), pl.Float64),
        ("snapping", (1, 3, 64), Snapping(1, 3, bound=64), pl.Float64),
    ]
    for name, parameters, mech, kind in laws:
        column = frame["n"].cast(kind)
        with tiers.fixed_stream():
            expected = mech.release(column, lower=0)
            assert getattr(Noise(column), name)(*parameters, lower=0).equals(expected)
            assert Noise(column).release(mech, lower=0).equals(expected)
            noisy = getattr(Noise(n.cast(kind)), name)(*parameters, lower=0)
            assert frame.select(noisy)["n"].equals(expected)


def test_the_namespace_is_registered() -> None:
    output = python(
        """
        import numpy as np, polars as pl
        import dpfast.adapters.polars
        frame = pl.DataFrame({"n": np.zeros(1000, np.int64)})
        noisy = frame.select(pl.col("n").dp.discrete_laplace(epsilon=1, sensitivity=1))
        assert noisy["n"].n_unique() > 3 and frame["n"].dp.discrete_gaussian(sigma=5).n_unique() > 10
        assert frame.select(pl.col("n").cast(pl.Float64).dp.laplace(epsilon=1, sensitivity=1))["n"].n_unique() > 900
        print(type(pl.col("n").dp).__module__, noisy.schema)
        """
    )
    assert output.startswith("dpfast.adapters.polars")


def test_a_namespace_of_others_stays_theirs() -> None:
    output = python(
        """
        import warnings
        import polars as pl, dpfast
        @pl.api.register_expr_namespace("dp")
        class Theirs:
            def __init__(self, expr): pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import dpfast.adapters.polars
        print(caught[0].message)
        assert type(pl.col("n").dp) is Theirs and not hasattr(pl.Series, "dp")
        assert pl.DataFrame({"n": [1]}).select(dpfast.DiscreteLaplace(1, 1).release(pl.col("n"))).shape == (1, 1)
        """
    )
    words = "the Polars namespace dp is that of __main__ here and stays so: write mechanism.release(pl.col(...))"
    assert output == f"{words}\n"
