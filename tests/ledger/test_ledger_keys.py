# SPDX-License-Identifier: Apache-2.0
"""Releases under keys: a label is charged once, however often it is drawn."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import tiers
from ledgers import CELLS, TENTH, ZEROS, release_key

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Guarantee, Key, Laplace, Ledger, Sensitivity, _native
from dpfast.errors import BudgetExhausted, DTypeError, KeyReuseError, ParameterError
from dpfast.noise.release.secret import keyed

# ------------------------------------------------------------------ releases under keys


def test_the_ledger_says_since_when_a_label_is_reserved(ledger) -> None:
    """Also where this process knows it, which knows no date; and all columns are named."""
    ledger.reserve(sealed_table(release_key(), ZEROS))
    at = r"^'visits/age' is reserved \(number 1, \d{4}-\d\d-\d\d\) "
    for more, message in [
        ({"people": TENTH}, "with the columns 'visits', 'hours', not 'visits', 'hours', 'people': go on with"),
        ({"hours": TENTH}, "with other parameters of discrete_laplace of column 'hours'"),
        (
            {"hours": GAUSSIAN_COUNTS},
            "with another mechanism of column 'hours', discrete_laplace, not discrete_gaussian",
        ),
    ]:
        with pytest.raises(KeyReuseError, match=at + message):
            ledger.reserve(sealed_table(release_key(), ZEROS, **more), resume=True)
    with pytest.raises(KeyReuseError, match=at + "with another kind, table, not array"):
        ledger.release(DiscreteLaplace(Decimal("0.3"), 1), ZEROS, key=release_key(), resume=True)
    with pytest.raises(dpfast.errors.OtherInputError, match=r"reserved \(number 1, .* such as 'visits/age 2'"):
        ledger.reserve(sealed_table(release_key(), ZEROS + 1), resume=True)
    with pytest.raises(KeyReuseError, match=at.rstrip(" ") + ": resume=True continues it") as caught:
        ledger.reserve(sealed_table(release_key(), ZEROS + 1))
    assert not isinstance(caught.value, dpfast.errors.DataDependentError)


def test_a_label_is_charged_once(ledger) -> None:
    """In this process or another, any layout: resume=True gives equal noise, for nothing."""
    first = ledger.release(TENTH, ZEROS, key=release_key())
    again = Ledger(ledger.path).release(TENTH, ZEROS.astype(np.int8), key=release_key(), resume=True, lower=0)
    assert (np.maximum(first, 0) == again).all()
    assert (first == TENTH.release(ZEROS, key=release_key(), resume=True)).all()
    ledger.spend(Guarantee(ledger.remaining.epsilon))
    assert (ledger.release(TENTH, ZEROS, key=release_key(), resume=True) == first).all()
    assert ledger.history()[0][2:5:2] == ("visits/age", Fraction(1, 10))
    assert (ledger.spent.epsilon, len(ledger.history())) == (1, 2)


def test_resume_reserves_where_nothing_is_reserved(ledger) -> None:
    """So that an orchestrator may always say it."""
    first = ledger.release(TENTH, ZEROS, key=release_key("new"), resume=True)
    assert (first == ledger.release(TENTH, ZEROS, key=release_key("new"), resume=True)).all()
    assert len(ledger.history()) == 1


GAUSSIAN = Gaussian(3, sensitivity=Sensitivity(1, 1))


GAUSSIAN_COUNTS = DiscreteGaussian.calibrated(Decimal("0.2"), CELLS, delta=Decimal("1e-7"))


@pytest.mark.parametrize(
    ("mechanism", "values", "key", "resume", "message"),
    [
        (
            TENTH,
            ZEROS,
            release_key(),
            False,
            r"^'visits/age' is reserved \(number 1, .*resume=True continues it; new data",
        ),
        (TENTH, ZEROS + 1, release_key(), False, "resume=True continues it"),  # whatever the data
        (
            TENTH,
            ZEROS,
            Key.generate().derive("visits/age"),
            True,
            r"under another key \(id [0-9a-f]{32}, this one [0-9a-f]{32}\)",
        ),
        (
            DiscreteLaplace(Decimal("0.2"), 1000),
            ZEROS,
            release_key(),
            True,
            "with other parameters of discrete_laplace",
        ),
        (
            DiscreteGaussian.calibrated(Decimal("0.1"), CELLS, delta=Decimal("1e-7")),
            ZEROS,
            release_key(),
            True,
            "with another mechanism, discrete_laplace, not discrete_gaussian",
        ),
        (TENTH, ZEROS[:49], release_key(), True, r"with another shape, \(50,\), not \(49,\)"),
        (TENTH, ZEROS.reshape(5, 10), release_key(), True, r"with another shape, \(50,\), not \(5, 10\)"),
    ],
)
def test_another_release_under_a_label_is_refused(ledger, mechanism, values, key, resume, message) -> None:
    """It says which of label, key, parameters differs; nothing is drawn, charged or written."""
    ledger.release(TENTH, ZEROS, key=release_key())
    before, out = ledger.path.read_bytes(), np.full(values.shape, 77)
    with pytest.raises(KeyReuseError, match=message) as caught:
        ledger.release(mechanism, values, key=key, resume=resume, out=out)
    assert not isinstance(caught.value, dpfast.errors.DataDependentError)
    assert ledger.path.read_bytes() == before
    assert (out == 77).all()


def test_another_input_under_a_label_is_refused(ledger) -> None:
    """Apart from the others, for it depends on the data; the attempt is on record, at no cost."""
    ledger.release(TENTH, ZEROS, key=release_key())
    for values, names in ((ZEROS + 1, None), (ZEROS, range(50))):
        with pytest.raises(
            dpfast.errors.OtherInputError, match="^'visits/age': the input is not the one that was reserved"
        ):
            Ledger(ledger.path).release(TENTH, values, key=release_key(), names=names, resume=True)
    assert ledger.spent.epsilon == Fraction(1, 10)
    assert [(entry.refused, entry.epsilon) for entry in ledger.history()] == [
        (False, Fraction(1, 10)),
        (True, 0),
        (True, 0),
    ]


def test_another_label_is_charged(ledger) -> None:
    for label in ("a", "b", "a "):
        ledger.release(TENTH, ZEROS, key=release_key(label))
    with pytest.raises(ParameterError, match="^label must not be given beside a key"):
        ledger.release(TENTH, ZEROS, key=release_key("c"), label="d")
    assert [entry.label for entry in ledger.history()] == ["a", "b", "a "]


def test_a_lower_price_is_another_release(path) -> None:
    """A sigma does not know its guarantee: what was sold cheap is no dear release."""
    ledger = Ledger(path, rho=1, create=True)
    ledger.release(GAUSSIAN, np.zeros(3), key=release_key())
    dear = Gaussian(3, sensitivity=Sensitivity(4, 1))
    assert tiers.record(dear) == tiers.record(GAUSSIAN)
    with pytest.raises(
        KeyReuseError, match=r"at another cost, rho 0\.0555556, not rho 0\.222223: .*pay for a new label"
    ):
        ledger.release(dear, np.zeros(3), key=release_key(), resume=True)
    assert [entry.rho for entry in ledger.history()] == [Fraction(1, 18)]


def test_a_refused_release_leaves_its_label_free(path) -> None:
    """Neither a price beyond the budget nor a NaN reserves anything, here or in the process."""
    ledger, key, real = Ledger(path, Decimal("0.1"), create=True), release_key("free"), Laplace(Decimal("0.1"), 1)
    for mechanism, values, error in (
        (DiscreteLaplace(1, 1), ZEROS, BudgetExhausted),
        (real, [np.nan], dpfast.errors.UnusableValuesError),
    ):
        with pytest.raises(error):
            ledger.release(mechanism, values, key=key)
    ledger.release(real, np.zeros(50), key=key)
    assert [entry.refused for entry in ledger.history()] == [True, False]


def test_a_budget_is_looked_at_before_the_values(path, monkeypatch) -> None:
    """Nobody reads eight gigabytes to be told that nothing is left."""
    ledger = Ledger(path, Decimal("0.05"), create=True)
    for reads in ("blocks.Blocks.digests", "seal.Whole.straight"):
        monkeypatch.setattr(f"dpfast.noise.release.{reads}", lambda *_: pytest.fail("values were read"))
    for out in (None, np.zeros_like(ZEROS)):
        with pytest.raises(BudgetExhausted):
            ledger.release(TENTH, ZEROS, key=release_key(), out=out)


def sealed_table(key: dpfast.ReleaseKey, counts: np.ndarray, **more: object) -> object:
    """The seal of two columns."""
    columns = {"visits": TENTH, "hours": DiscreteLaplace(Decimal("0.2"), 5), **more}
    made = [key.digester(law, column=name)(0, counts) for name, law in columns.items()]
    return key.seal(columns, made, shape=(counts.size,))


def test_a_table_is_reserved_whole(ledger) -> None:
    """All its columns in one row, or none; equal counts in two columns get their own noise."""
    sealed = ledger.reserve(sealed_table(release_key(), ZEROS))
    assert ledger.spent.epsilon == Fraction(3, 10)
    (entry,) = ledger.history()
    assert (entry.label, entry.mechanism, set(entry.parameters["columns"])) == (
        "visits/age",
        "discrete_laplace",
        {"visits", "hours"},
    )
    noisy = [sealed.release(0, ZEROS, column=name) for name in ("visits", "hours")]
    assert (noisy[0] != noisy[1]).any()
    again = ledger.reserve(sealed_table(release_key(), ZEROS), resume=True)
    assert (again.release(0, ZEROS, column="hours") == noisy[1]).all()
    with pytest.raises(KeyReuseError, match="resume=True continues it"):
        ledger.reserve(sealed_table(release_key(), ZEROS))
    with pytest.raises(dpfast.errors.OtherInputError):
        ledger.reserve(sealed_table(release_key(), ZEROS + 1), resume=True)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(sealed_table(release_key("dear"), ZEROS, more=DiscreteLaplace(1, 1)))
    with pytest.raises(ParameterError, match="^key must be secret"):
        ledger.reserve(sealed_table(dpfast.testing.fixed_key(1).derive("x"), ZEROS))
    with pytest.raises(DTypeError, match="^seal must be a Seal"):
        ledger.reserve(TENTH)
    assert ledger.spent.epsilon == Fraction(3, 10)


def test_the_file_tells_nothing_of_keys_or_counts(ledger) -> None:
    """No secret of any kind, no root, no digest, no count."""
    key, counts, streams = release_key("told"), np.arange(918273645_546372819, 918273645_546372869), []
    real = _native.StreamKey.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native.StreamKey, "take", lambda key, secret: streams.append(secret) or real(key, secret))
        noisy = ledger.release(TENTH, counts, key=key)
        ledger.release(TENTH, counts)
    assert len(streams) == 1  # that without a key is drawn in C, where it is wiped
    found = ledger.path.read_bytes()
    held = tiers.secret_of(key)
    digest = key.digester(TENTH)(0, counts)
    seal = key.seal(TENTH, [digest], shape=counts.shape)
    secrets = [streams[0], held, bytes(range(32)), digest.digest, seal._root]
    secrets += [keyed(held, purpose) for purpose in ("block digest", "choice of bins")]
    hidden = [secret[at : at + 8] for secret in secrets for at in range(0, 32, 8)]
    hidden += [secret[:8].hex().encode() for secret in secrets]
    hidden += [
        form
        for value in (*counts, *noisy)
        for form in (value.tobytes(), value.byteswap().tobytes(), str(value).encode())
    ]
    assert not any(secret in found for secret in hidden)


# If a test before this one imported OpenDP, which has such a namespace, too.
@pytest.mark.filterwarnings("ignore:the Polars namespace dp")
def test_lazy_and_other_kinds_of_values(ledger) -> None:
    """A Series is one charge; a Polars expression one at every evaluation, and none before."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    noisy = ledger.release(TENTH, pandas.Series([1, 2], index=["a", "b"]))
    assert list(noisy.index) == ["a", "b"]
    frame = polars.DataFrame({"n": [1, 2, 3]}).lazy().select(ledger.release(TENTH, polars.col("n"), label="lazy"))
    assert len(ledger.history()) == 1
    frame.collect()
    frame.collect()
    assert [entry.label for entry in ledger.history()] == ["", "lazy", "lazy"]
