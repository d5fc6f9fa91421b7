# SPDX-License-Identifier: Apache-2.0
"""Polars: releases of Series and of expressions, and the namespace `dp` of both.

A release of a Series is a Series, of a DataFrame a DataFrame, of an expression an expression. All
cells of a DataFrame are released as one vector: the sensitivity is that of all of them together.
One of several columns needs `columns=`, those that get noise and are returned.

    import dpfast.adapters.polars
    counts.with_columns(pl.col("visits").dp.discrete_laplace(epsilon=1, sensitivity=1))

An expression releases whenever it is evaluated: every `collect` of a lazy frame is a release and
spends again, and so is every place of the frame where the expression stands. Collect once, and
derive the rest from the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Snapping
from dpfast.adapters import chosen, filler, jointly, library, small_enough
from dpfast.errors import DTypeError, ParameterError

pl = library("polars", "polars", ">=1.0")

NUMPY = {
    pl.Int8: np.int8, pl.Int16: np.int16, pl.Int32: np.int32, pl.Int64: np.int64,
    pl.UInt8: np.uint8, pl.UInt16: np.uint16, pl.UInt32: np.uint32, pl.UInt64: np.uint64,
    pl.Float32: np.float32, pl.Float64: np.float64,
}  # fmt: skip
WIDE = [getattr(pl, name) for name in ("Int128", "UInt128") if hasattr(pl, name)]
POLARS = {np.dtype(there): here for here, there in NUMPY.items()}
# As the input. None would call the function on made-up data; before Polars had the word, it left
# the schema open.
OWN = pl.self_dtype() if hasattr(pl, "self_dtype") else None


def release(released: Callable[..., Any], values: Any, options: dict[str, Any]) -> Any:
    """What `released(values, **options)`, a mechanism's release, gives for Polars.

    The type is the one that NumPy would have: integers become Int64, or `dtype`; a real type stays.
    The input is copied only if it holds nulls or lies in several chunks.
    Raises: DTypeError (no Series of numbers); ParameterError (nulls without `missing`; an
        expression under a key); what release raises. For an expression, when it is evaluated.
    """
    if isinstance(values, pl.Expr):
        if options.get("key") is not None:
            raise ParameterError(
                "key must be left out for an expression, which Polars evaluates once for each plan, group and chunk: release "
                "the Series"
            )
        # Not elementwise, which would allow Polars to cut the column, to move filters across the
        # noise, and to draw one number's noise once for each chunk that it is copied to.
        made = OWN if options["dtype"] is None else POLARS[options["dtype"]]
        # One number a group, as pl.len() in `agg`, stays one. Older versions of Polars do not tell,
        # and make a list of it.
        one = {"returns_scalar": True} if getattr(values.meta, "is_scalar", bool)() else {}
        return values.map_batches(lambda cells: released(cells, **options), return_dtype=made, **one)
    if isinstance(values, pl.DataFrame):
        beside = "; frame.with_columns(noisy) keeps the others"
        places = chosen(values.columns, options["columns"], beside=beside) if values.columns else []
        frame = values.select(pl.nth(places)) if places else values
        noisy = jointly(released, frame.get_columns(), _read, options, partial(_labels, frame))
        return pl.DataFrame([pl.Series(name, cells) for name, cells in zip(frame.columns, noisy, strict=True)])
    if not isinstance(values, pl.Series):
        hint = ": collect it, or release a column, frame.with_columns(mechanism.release(pl.col(...)))"
        raise DTypeError(
            "from Polars a release takes a Series, a DataFrame or an expression, not "
            f"{type(values).__name__}{hint if isinstance(values, pl.LazyFrame) else ''}"
        )
    return pl.Series(values.name, released(_read(values, options["missing"]), **options))


def _labels(frame: Any) -> tuple[range, list[str]]:
    return range(frame.height), frame.columns


def _read(values: Any, missing: object) -> Any:
    """The cells of a column as NumPy's, NaN for nulls. Raises: DTypeError, ParameterError."""
    if values.dtype in WIDE or (values.dtype == pl.Decimal and values.dtype.scale == 0):
        whole = values.cast(pl.Int64, strict=False)
        small_enough(whole.null_count() == values.null_count())
        values = whole
    if values.dtype not in NUMPY:
        casts = values.dtype.base_type() in {pl.Decimal, pl.Boolean}
        raise DTypeError(
            f"a Polars column must contain integers or floats of at most 64 bits, not {values.dtype.base_type()}"
            + (": column.cast(pl.Int64) makes counts of it" if casts else "")
        )
    if values.dtype.is_integer() and values.null_count():
        null = filler(missing, np.dtype(NUMPY[values.dtype]))
        values = values.fill_null(pl.lit(null, dtype=values.dtype))
    return values.to_numpy()


class Noise:
    """The namespace: `options` are those of release, such as lower, upper and missing."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def release(self, mechanism: Any, **options: Any) -> Any:
        """`mechanism.release` of this column, such as one from DiscreteGaussian.calibrated."""
        return mechanism.release(self._values, **options)

    def discrete_laplace(self, epsilon: Any, sensitivity: Any, **options: Any) -> Any:
        return self.release(DiscreteLaplace(epsilon, sensitivity), **options)

    def discrete_gaussian(self, sigma: Any, **options: Any) -> Any:
        return self.release(DiscreteGaussian(sigma), **options)

    def laplace(self, epsilon: Any, sensitivity: Any, **options: Any) -> Any:
        return self.release(Laplace(epsilon, sensitivity), **options)

    def gaussian(self, sigma: Any, **options: Any) -> Any:
        return self.release(Gaussian(sigma), **options)

    def snapping(self, epsilon: Any, sensitivity: Any, bound: Any, **options: Any) -> Any:
        return self.release(Snapping(epsilon, sensitivity, bound=bound), **options)


def _register() -> None:
    owner = getattr(pl.Expr, "dp", None) or getattr(pl.Series, "dp", None)
    if owner is not None and owner.__module__ != __name__:  # OpenDP's own has the same name
        warnings.warn(
            f"the Polars namespace dp is that of {owner.__module__} here and stays so: write mechanism.release(pl.col(...))",
            stacklevel=3,
        )
        return
    pl.api.register_expr_namespace("dp")(Noise)
    pl.api.register_series_namespace("dp")(Noise)


_register()
