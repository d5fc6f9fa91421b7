# SPDX-License-Identifier: Apache-2.0
"""pandas: the index, subclasses and strides; the rest is in test_columns.py."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")  # for pandas's Arrow columns

from columns import COUNTS, Spy, fixed  # noqa: E402
from tiers import SEALED_ROWS  # noqa: E402

from dpfast import DiscreteGaussian, Key  # noqa: E402
from dpfast.errors import DTypeError, OtherInputError  # noqa: E402


def test_every_mechanism_and_every_index() -> None:
    """A histogram as people make it: labelled by city and day, an empty one too."""
    index = pd.MultiIndex.from_product([["Ulm", "Bonn"], pd.date_range("2024-01-01", periods=3)], names=["city", "day"])
    for mech in (COUNTS, DiscreteGaussian(2)):
        noisy = mech.release(pd.Series(range(6), index))
        assert noisy.index.is_(index) or noisy.index.identical(index)
        assert noisy.loc[("Bonn", "2024-01-02")].dtype == np.int64
    empty = COUNTS.release(pd.Series([], dtype="Int64", name="n"))
    assert (len(empty), empty.dtype, empty.name) == (0, "Int64", "n")
    ones = COUNTS.release(pd.Series(1, index=["a", "a", "b"], name=3))  # a label may stand twice
    assert (ones.index.tolist(), ones.name) == (["a", "a", "b"], 3)


def everything(index) -> list:
    """What an index holds, shown or not."""
    levels = index.levels if isinstance(index, pd.MultiIndex) else [index]
    return [*(label for level in levels for label in getattr(level, "categories", level))]


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_tuples([("a", 1), ("SECRET", 2), ("b", 3)], names=["who", "n"]),
        pd.CategoricalIndex(["a", "SECRET", "b"], name="who"),
        pd.CategoricalIndex(["a", "SECRET", "b"], ["SECRET", "b", "a"], ordered=True),
        pd.MultiIndex.from_arrays([pd.Categorical(["a", "SECRET", "b"]), [1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "Int64", "int64[pyarrow]"])
def test_labels_that_no_row_has_do_not_come_along(index, dtype) -> None:
    """A filtered Series still holds all; its release holds the labels of its rows alone."""
    values = pd.Series([50, 3, 20], index, dtype=dtype)[np.array([True, False, True])]
    assert "SECRET" in everything(values.index)
    noisy = COUNTS.release(values)
    assert "SECRET" not in everything(noisy.index)
    assert b"SECRET" not in pickle.dumps(noisy)
    assert noisy.index.tolist() == values.index.tolist()
    assert noisy.index.names == values.index.names
    assert "SECRET" in everything(values.index), "the caller's index is the caller's"
    if isinstance(index, pd.CategoricalIndex):
        kept = [label for label in index.categories if label != "SECRET"]
        assert (noisy.index.ordered, noisy.index.categories.tolist()) == (index.ordered, kept)


def test_a_subclass_is_a_series() -> None:
    """Whatever the module, the result is pandas's own."""

    class Visits(pd.Series):
        @property
        def _constructor(self) -> type:
            return Visits

    noisy = fixed(Visits([1, 2, 3], index=list("abc")))
    assert type(noisy) is pd.Series
    assert noisy.tolist() == fixed([1, 2, 3]).tolist()
    assert noisy.index.tolist() == ["a", "b", "c"]


def test_a_reversed_column_is_a_view() -> None:
    values, spy = pd.Series(range(100))[::-2], Spy()
    spy.release(values)
    assert spy.given.strides == (-16,)
    assert fixed(values).tolist() == fixed(np.arange(100)[::-2]).tolist()


@pytest.mark.parametrize(
    "index",
    [
        ["a", "b", "b", "é"],
        [7, -1, 3, 3],
        pd.CategoricalIndex(["x", "y", "x", "y"], categories=["y", "z", "x"]),
        pd.Index(["a", "b", "c", "d"], dtype="string"),
        pd.RangeIndex(1, 5),
        pd.RangeIndex(0, 8, 2),
    ],
    ids=str,
)
def test_an_index_is_sealed_unasked(index) -> None:
    """As names= of its labels: another order of them is another input, at equal counts too."""
    key, counts = Key.generate().derive("visits"), pd.Series([5, 5, 5, 5], index=index)
    noisy = COUNTS.release(counts, key=key)
    assert noisy.index.tolist() == counts.index.tolist()
    names = list(counts.index)
    assert noisy.tolist() == COUNTS.release(counts.to_numpy(), key=key, names=names, resume=True).tolist()
    assert noisy.equals(COUNTS.release(counts, key=key, names=names, resume=True))
    turned = pd.Series([5, 5, 5, 5], index=counts.index[::-1])
    for other in (turned, counts.to_numpy(), counts.reset_index(drop=True)):
        with pytest.raises(OtherInputError):
            COUNTS.release(other, key=key, resume=True)


def test_places_are_no_names() -> None:
    """The index 0, 1, 2, ... says what an array's places say; so do those of a block of it."""
    key, n = Key.generate().derive("places"), SEALED_ROWS + 9
    counts = pd.Series(np.arange(n) % 10)
    noisy = COUNTS.release(counts, key=key)
    assert noisy.tolist() == COUNTS.release(counts.to_numpy(), key=key, resume=True).tolist()
    digester, blocks = key.digester(COUNTS), [counts[:SEALED_ROWS], counts[SEALED_ROWS:]]
    seal = key.seal(COUNTS, [digester(j, block) for j, block in enumerate(blocks)], shape=(n,))
    sealed = seal.without_ledger(resume=True)
    assert pd.concat([sealed.release(j, block) for j, block in enumerate(blocks)]).equals(noisy)
    assert sealed.release(1, blocks[1].reset_index(drop=True)).tolist() == noisy[SEALED_ROWS:].tolist()


@pytest.mark.parametrize(
    "index",
    [pd.date_range("2026-01-01", periods=2), pd.MultiIndex.from_tuples([("a", 1), ("b", 1)]), [0.5, 1.5], ["a", None]],
    ids=lambda index: type(index).__name__,
)
def test_other_labels_are_refused_under_a_key(index) -> None:
    """Names that cannot be sealed are never dropped in silence; names= stands for them."""
    counts = pd.Series([5, 5], index=index)
    with pytest.raises(DTypeError, match="^names must"):
        COUNTS.release(counts, key=Key.generate().derive("x"))
    assert len(COUNTS.release(counts, key=Key.generate().derive("x"), names=["a", "b"])) == 2
