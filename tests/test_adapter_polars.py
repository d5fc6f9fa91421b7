# SPDX-License-Identifier: Apache-2.0
"""Polars: a column in, a column out, of what NumPy would have made of it; an expression is one release when evaluated."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from decimal import Decimal

import numpy as np
import pytest
from fresh import python
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("polars")

import polars as pl

from dpfast import (
    DiscreteGaussian,
    DiscreteLaplace,
    DpfastError,
    DTypeError,
    Gaussian,
    InsecureKeyWarning,
    Key,
    Laplace,
    ParameterError,
    Snapping,
    adapters,
    kernels,
)
from dpfast.testing import fixed_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # OpenDP may have been here before
    from dpfast.adapters.polars import NUMPY, Noise

COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3)
WIDE = DiscreteLaplace(1, 2**40)  # a cell comes out as it went in with probability 2^-41
INTEGERS = [kind for kind in NUMPY if kind.is_integer()]
REALS = [kind for kind in NUMPY if not kind.is_integer()]
FAILED = (DpfastError, RuntimeError, pl.exceptions.ComputeError)  # early versions wrap what an expression raises
STREAMING = {"engine": "streaming"} if hasattr(pl, "self_dtype") else {"streaming": True}
n = pl.col("n")


def keyed(values, mech=COUNTS, start=0, **options):
    """A release whose noise is a function of what NumPy would have been given."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive("polars"), start=start, **options)


class Spy:
    """A mechanism that counts its calls, and remembers what reaches the engine."""

    def __init__(self, mech=COUNTS):
        self.mech, self.calls, self.given = mech, [], None

    def release(self, values, **options):
        if type(values) is not np.ndarray:
            return adapters.releaser(values, None)(
                self.release, values, {"dtype": np.dtype(np.int64), "missing": None, **options}
            )
        self.calls.append(values.size)
        self.given = values
        return self.mech.release(values, **options)


@pytest.fixture
def frame():
    return pl.DataFrame({"g": [1, 1, 2, 2, 2, 3], "n": [10, 20, 30, 40, 50, 60]})


# ------------------------------------------------------------------ the same kind


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers(kind):
    """Int64, whatever came in, or dtype; the name is kept."""
    counts = pl.Series("visits", range(100), dtype=kind)
    noisy = keyed(counts)
    assert (type(noisy), noisy.name, noisy.dtype) == (pl.Series, "visits", pl.Int64)
    assert noisy.to_list() == keyed(np.arange(100)).tolist()
    assert keyed(counts, dtype=np.uint8).dtype == pl.UInt8
    assert keyed(counts, dtype=">i4").to_list() == noisy.to_list()
    assert keyed(counts, lower=3, upper=9).is_between(3, 9).all()
    assert counts.to_list() == list(range(100))
    assert not (WIDE.release(counts) == counts).any()


@pytest.mark.parametrize("kind", REALS, ids=str)
@pytest.mark.parametrize("mech", [VALUES, Gaussian(2), Snapping(1, 3, bound=64)], ids=lambda m: m.NAME)
def test_reals(kind, mech):
    """A real type stays."""
    numbers = np.linspace(-5, 5, 100).astype(NUMPY[kind])
    noisy = keyed(pl.Series("x", numbers), mech)
    assert (noisy.name, noisy.dtype) == ("x", kind)
    assert noisy.to_list() == keyed(numbers, mech).tolist()
    assert keyed(pl.Series(numbers), mech, dtype=np.float32).dtype == pl.Float32
    assert mech.release(pl.Series("x", [], dtype=kind)).dtype == kind


@given(
    cells=st.lists(st.none() | st.integers(0, 100), max_size=40),
    kind=st.sampled_from([*INTEGERS, *REALS]),
    edge=st.integers(0, 40),
    cut=st.slices(40),
    missing=st.integers(0, 100),
)
@settings(max_examples=200, deadline=None)
def test_nulls_slices_and_chunks(cells, kind, edge, cut, missing):
    """A null is the public number, with noise like any cell; nothing comes back null, however the column is cut."""
    parts = [pl.Series("n", part, dtype=kind) for part in (cells[:edge], cells[edge:])]
    values = pl.concat(parts, rechunk=False)[cut]
    mech = DiscreteLaplace(1, 100) if kind in INTEGERS else Laplace(1, 100)
    if values.null_count():
        with pytest.raises(ParameterError, match="^(counts must not hold nulls|values must be finite); missing="):
            mech.release(values)
    noisy = keyed(values, mech, missing=missing, clamp=(0, 100))
    gap = missing if kind in INTEGERS else np.nan
    plain = np.array([gap if c is None else c for c in cells], NUMPY[kind])[cut]
    assert noisy.null_count() == 0
    assert noisy.to_list() == keyed(plain, mech, missing=missing, clamp=(0, 100)).tolist()


def test_what_missing_may_be():
    """A public integer that the column holds, with noise like any cell."""
    counts = pl.Series([1, None], dtype=pl.UInt64)
    assert COUNTS.release(counts, missing=2**64 - 1, clamp=(2**64 - 3, 2**64 - 1), dtype=np.uint64)[1] > 2**63
    for wrong in (-1, 2**64):
        with pytest.raises(ParameterError, match=f"^missing must be of the type of counts, uint64, got {wrong}$"):
            COUNTS.release(counts, missing=wrong, clamp=(wrong, wrong))
    with pytest.raises(DTypeError, match="^missing must be an int, "):
        VALUES.release(counts, missing=0.5, clamp=(0, 1))
    many = pl.Series([None] * 1000, dtype=pl.Int16)
    assert DiscreteLaplace(1, 1000).release(many, missing=7, clamp=(0, 100)).n_unique() > 100


# ------------------------------------------------------------------ refused

REFUSED = [
    (lambda: pl.DataFrame({"a": [91]}), "a column, not DataFrame$"),
    (lambda: pl.LazyFrame({"a": [91]}), "a column, not LazyFrame$"),
    (lambda: pl.DataFrame({"a": [91]}).group_by("a"), "a column, not GroupBy$"),
    (lambda: pl.Series([True]), "not Boolean$"),
    (lambda: pl.Series([None, None]), "not Null$"),
    (lambda: pl.Series(["91"]), "not String$"),
    (lambda: pl.Series([b"91"]), "not Binary$"),
    (lambda: pl.Series([Decimal("91")]), "not Decimal"),
    (lambda: pl.Series(["91"], dtype=pl.Categorical), "not Categorical"),
    (lambda: pl.Series(["91"], dtype=pl.Enum(["91"])), "not Enum"),
    (lambda: pl.Series([dt.date(1991, 1, 1)]), "not Date$"),
    (lambda: pl.Series([dt.timedelta(1)]), "not Duration"),
    (lambda: pl.Series([[91]]), "not List"),
    (lambda: pl.Series([[91]], dtype=pl.Array(pl.Int64, 1)), "not Array"),
    (lambda: pl.Series([{"a": 91}]), "not Struct"),
    (lambda: pl.Series([object()], dtype=pl.Object), "not Object"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("mech", [COUNTS, VALUES], ids=lambda m: m.NAME)
def test_refused(make, message, mech):
    """What is no column of numbers, by a message that names the type and never a count."""
    with pytest.raises(DTypeError, match=message) as caught:
        mech.release(make())
    assert not re.search("91", str(caught.value))


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="a Polars without 128 bits")
def test_128_bits_are_refused():
    """NumPy has no such integers: not even when they are small."""
    for mech in (COUNTS, VALUES):
        with pytest.raises(DTypeError, match="of at most 64 bits, not Int128$"):
            mech.release(pl.Series([1], dtype=pl.Int128))


def test_the_law_and_the_column_must_agree():
    """Counts to an integer law, floats to a real one, as for NumPy; nothing is written to."""
    with pytest.raises(DTypeError, match="^counts must be of an integer dtype .* not float64"):
        COUNTS.release(pl.Series([1.0]))
    with pytest.raises(DTypeError, match="^values must be of float64 or float32, not int64"):
        VALUES.release(pl.Series([1]))
    for values in (pl.Series([1]), n):
        with pytest.raises(ParameterError, match="^out is for NumPy arrays"):
            COUNTS.release(values, out=np.zeros(1, np.int64))


# ------------------------------------------------------------------ expressions


def test_an_expression_is_the_release_of_its_column(frame):
    """Eager, lazy and streaming, in any place: the NumPy release under the same key, so one call for the whole column."""
    big = pl.DataFrame({"n": np.arange(300_000), "g": np.arange(300_000) % 7})
    key = fixed_key(7).derive("polars")
    expected = keyed(big["n"]).to_list()
    noisy = COUNTS.release(n, key=key, start=0).alias("noisy")
    with pytest.warns(InsecureKeyWarning):
        assert big.select(noisy)["noisy"].to_list() == expected
        assert big.with_columns(noisy)["noisy"].to_list() == expected
        assert big.lazy().with_columns(noisy).collect(**STREAMING)["noisy"].to_list() == expected
        assert big.lazy().with_columns(noisy).filter(pl.col("g") == 3).collect()["noisy"].to_list() == expected[3::7]
        assert big.lazy().with_columns(noisy).filter(n > 5).tail(4).collect()["noisy"].to_list() == expected[-4:]
        assert big.select(noisy.filter(pl.col("g") == 3))["noisy"].to_list() == expected[3::7]


def test_the_schema_is_known_before(frame):
    """And nothing is released for it: Int64 or dtype for counts, a real type as it was."""
    spy = Spy()
    lazy = frame.lazy().select(a=spy.release(n), b=spy.release(n, dtype=np.dtype(np.uint8)))
    assert dict(lazy.collect_schema()) == {"a": pl.Int64, "b": pl.UInt8}
    assert lazy.explain() and spy.calls == []
    assert lazy.collect().schema == {"a": pl.Int64, "b": pl.UInt8}
    for kind in REALS:
        reals = pl.LazyFrame({"n": pl.Series([1, 2], dtype=kind)}).select(
            a=VALUES.release(n), b=VALUES.release(n, dtype="f4")
        )
        assert dict(reals.collect().schema) == {"a": kind, "b": pl.Float32}
        if hasattr(pl, "self_dtype"):
            assert dict(reals.collect_schema()) == {"a": kind, "b": pl.Float32}


def test_an_evaluation_is_one_call(frame):
    """However the frame goes on: filters, slices and joins neither cut the column nor draw again."""
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
            spy = Spy()
            way(spy.release(n).alias("noisy")).collect(**how)
            assert spy.calls == [6]
    spy = Spy()
    lazy.with_columns(spy.release(n).alias("unused")).select("n").collect()
    assert spy.calls == []
    assert lazy.filter(n > 99).select(spy.release(n)).collect().schema == {"n": pl.Int64}


def test_every_evaluation_is_a_release(frame):
    """Two collects, and two places, are two draws: nothing is merged, least of all two mechanisms."""
    many = pl.LazyFrame({"n": np.zeros(50, np.int64)})
    lazy = many.select(a=WIDE.release(n))
    assert (lazy.collect()["a"] != lazy.collect()["a"]).all()
    noisy = WIDE.release(n)
    two = many.select(a=noisy, b=noisy, c=WIDE.release(n), d=DiscreteLaplace(20, 1).release(n)).collect()
    assert (two["a"] != two["b"]).all() and (two["a"] != two["c"]).all()
    assert two["d"].abs().max() < 20 < two["a"].abs().min()  # each fails with probability 1e-9 at most


def test_a_release_key_is_one_release(frame):
    """Collected again, equal data get equal noise and other data are refused."""
    lazy, key = frame.lazy(), Key.generate().derive("visits")
    noisy = COUNTS.release(n, key=key, start=0)
    assert lazy.select(noisy).collect().equals(lazy.select(noisy).collect())
    with pytest.raises(FAILED, match="release key 'visits'"):
        lazy.with_columns(n + 1).select(noisy).collect()
    with pytest.raises(FAILED, match="release key 'visits'"):
        lazy.select(COUNTS.release(n, key=Key.generate().derive("visits"), start=0).over("g")).collect()


def test_groups(frame):
    """After an aggregation the groups are one column; within groups each cell has noise of its own all the same."""
    sizes = frame.group_by("g", maintain_order=True).len()
    spy = Spy()
    assert sizes.with_columns(spy.release(pl.col("len")))["len"].dtype == pl.Int64
    assert spy.calls == [3]
    within = frame.select("g", "n", noisy=WIDE.release(n).over("g"))
    assert (within["noisy"] != within["n"]).all() and within["noisy"].n_unique() == 6
    total = frame.select(WIDE.release(n.sum()))
    assert total.shape == (1, 1) and total.item() != 210


def test_what_an_expression_raises(frame):
    """The refusals of its column, when it is evaluated, and no frame."""
    cases = [
        (COUNTS.release(n / 2), "counts must be of an integer dtype"),
        (COUNTS.release(n.cast(pl.String)), "not String"),
        (COUNTS.release(pl.when(n > 10).then(n)), "counts must not hold nulls; missing="),
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


def test_a_failure_gives_nothing(monkeypatch):
    """A kernel that has written counts when it fails: no column, no frame, and what was written is zero."""
    written = []

    def planted(x, y, *rest):
        y[:] = x
        written.append(y)
        raise RuntimeError("planted")

    counts = pl.Series("n", np.full(5000, 91))
    monkeypatch.setattr(kernels, "kernel", lambda name: planted)
    for how in (
        lambda: COUNTS.release(counts),
        lambda: VALUES.release(counts.cast(pl.Float64)),
        lambda: counts.to_frame().select(COUNTS.release(n)),
        lambda: counts.to_frame().lazy().with_columns(COUNTS.release(n)).collect(**STREAMING),
    ):
        with pytest.raises(FAILED, match="planted"):
            how()
    assert len(written) == 4 and not any(y.any() for y in written)
    assert (counts == 91).all()


# ------------------------------------------------------------------ the namespace


def test_the_namespace(frame):
    """Each law by its name, with the options of release; the same for a Series and for an expression."""
    laws = [
        ("discrete_laplace", (1, 3), DiscreteLaplace(1, 3), pl.Int64),
        ("discrete_gaussian", (2,), DiscreteGaussian(2), pl.Int64),
        ("laplace", (1, 3), Laplace(1, 3), pl.Float64),
        ("gaussian", (2,), Gaussian(2), pl.Float64),
        ("snapping", (1, 3, 64), Snapping(1, 3, bound=64), pl.Float64),
    ]
    for name, parameters, mech, kind in laws:
        column, key = frame["n"].cast(kind), fixed_key(7).derive("polars")
        with pytest.warns(InsecureKeyWarning):
            expected = mech.release(column, key=key, start=0, lower=0)
            assert getattr(Noise(column), name)(*parameters, key=key, start=0, lower=0).equals(expected)
            assert Noise(column).release(mech, key=key, start=0, lower=0).equals(expected)
            noisy = getattr(Noise(n.cast(kind)), name)(*parameters, key=key, start=0, lower=0)
            assert frame.select(noisy)["n"].equals(expected)


def test_the_namespace_is_registered():
    """By the import of the adapter, under the convention's name."""
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


def test_a_namespace_of_others_stays_theirs():
    """Said once, and the release of an expression goes on without it."""
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
    assert (
        output
        == "the Polars namespace dp is that of __main__ here and stays so: write mechanism.release(pl.col(...))\n"
    )


# ------------------------------------------------------------------ copies


@pytest.mark.parametrize("kind", [*INTEGERS, *REALS], ids=str)
def test_the_column_is_not_copied(kind):
    """The engine reads Polars's memory, of a slice too."""
    whole = pl.Series(range(100), dtype=kind)
    for values in (whole, whole[7:50], whole[::-1][:5]):
        spy = Spy(COUNTS if kind in INTEGERS else VALUES)
        spy.release(values, dtype=None)
        plain = values.to_numpy(allow_copy=False)
        assert spy.given.__array_interface__["data"][0] == plain.__array_interface__["data"][0]
