# SPDX-License-Identifier: Apache-2.0
"""`dpfast histogram --quantile`: medians and other quantiles of a column, in total or by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import dpfast
from dpfast.app.cli.measures import SPENT, USUAL, Count
from dpfast.app.cli.options import SECURE, dashed, one_way
from dpfast.app.report.facts import Noisy
from dpfast.counts.records.bounded_histogram import Bounds
from dpfast.counts.records.leaves import MOST_LEAVES, Edges, InCells
from dpfast.counts.records.places import domain_keys
from dpfast.counts.trees.noisy_tree import Estimate, doubt_of
from dpfast.counts.trees.quantiles import Trees, reach
from dpfast.errors import ParameterError
from dpfast.privacy import meaning
from dpfast.privacy.formatting import approximate, exact, plain, rounded
from dpfast.privacy.parameters import exact_real, shown

if TYPE_CHECKING:
    from dpfast.app.tables.rows import Rows

FEW = 11  # cells: more than a usual share or grade between 0 and 1 has by steps of 1
WAYS: dict[str, dict[tuple[str, ...], Any]] = {
    "discrete-laplace": {("epsilon",): None},
    "discrete-gaussian": {("epsilon", "delta"): None, ("rho",): None},
}


class _Leaves(NamedTuple):
    """Counts of leaves. whole: whether the values are integers."""

    counts: Any
    whole: bool


class Quantiles(Count):
    """Quantiles of a column, from a tree for each key; all trees are one release.

    shares: those that are asked for, in their order.
    """

    COLUMN = "value"
    VALUE = "quantile"
    OPTION = "--quantile"
    PUBLIC = ("quantile",)

    def __init__(self, given: Mapping[str, Any], bounds: Bounds, cells: int | None) -> None:
        """Raises: click.UsageError, DTypeError, ParameterError."""
        self.given, self.cells, self.bounds, self.step = given, cells, bounds, Fraction(1)
        _, self.shares = _asked(given["quantile"])
        self.EACH = len(self.shares)
        low, high = given["clamp"]
        if exact_real("clamp", low) >= exact_real("clamp", high):
            raise ParameterError(f"--clamp must be A and B, A below B, got {shown(low)} and {shown(high)}")
        self.edges = Edges.of(low, high, given.get("step", 1), ("A", "B", "--step"))
        if (leaves := self._keys * self.edges.cells) > MOST_LEAVES:
            each = MOST_LEAVES // self._keys
            instead = f"{exact(self.edges.coarser(each))} does" if each > 1 else "there are too many keys for any"
            raise ParameterError(
                f"--step must make at most 2**24 cells of all keys together, got {leaves:,}: {instead}"
            )
        if "intervals" in given:
            doubt_of(self._doubt_shared)
        way = one_way(WAYS[given["mechanism"]], given)
        budget: dict[str, Any] = {name: given[name] if name in way else None for name in ("epsilon", "delta", "rho")}
        self.trees = Trees.of(self.edges, self._keys, bounds, **budget)
        self.mechanism = self.trees.noise
        self._found: list[Estimate] = []

    # ------------------------------------------------------------------ its options

    @classmethod
    def combined(cls, given: Mapping[str, Any]) -> Iterable[tuple[bool, str]]:
        for other in ("summed", "mean", "threshold"):
            option = dashed("sum" if other == "summed" else other)
            yield other in given, f"'--quantile' and {option} are two releases: give each a command, and its own budget"
        yield "clamp" not in given, "'--quantile' and '--clamp' must be given together: the public ends of values"
        for other in ("granularity", "lower", "upper"):
            yield other in given, f"'--quantile' takes no {dashed(other)}: values lie within '--clamp', by '--step'"
        yield "sigma" in given, "'--quantile' takes no '--sigma': each level of a tree has its own"
        mechanism = given["mechanism"]
        for spent in given.keys() & set(SPENT):
            taken = any(spent in way for way in WAYS[mechanism])
            yield not taken, f"{mechanism} takes no {dashed(spent)}, as discrete-gaussian would"
        jointly = "jointly" in given and "intervals" not in given
        yield jointly, "'--jointly' says what '--intervals' contain, and works only with it"

    @classmethod
    def ruled(cls, given: Mapping[str, Any], by: Sequence[str], others: set[Any]) -> Iterable[tuple[bool, str]]:
        for name in cls.written(given):
            yield name in by, f"--by must not be {name}, because OUT has another column of this name: rename it in ROWS"
        name, _ = _asked(given["quantile"])
        yield name in others, f"--quantile must name another column than --by and --unit, got {name!r:.80}"
        part = given.get("intervals", USUAL)
        yield not 0 < part < 1, f"--intervals must be above 0 and below 1, got {shown(part)}"

    @classmethod
    def written(cls, given: Mapping[str, Any]) -> list[str]:
        return ["quantile", *super().written(given)]

    @property
    def value(self) -> str:
        name, _ = _asked(self.given["quantile"])
        return name

    @property
    def charged(self) -> Any:
        return self.mechanism.columns

    @property
    def title(self) -> str:
        return f"quantiles of {self.value}"

    @property
    def size(self) -> dict[str, Any]:
        levels = zip(self.mechanism.levels, self.mechanism.shape.sizes, strict=True)
        return {"shape": tuple(nodes for law, nodes in levels if law is not None)}

    def check(self, rows: Rows) -> None:
        texts, edges = not rows.typed, self.edges
        if texts and "step" not in self.given and edges.cells < FEW:
            raise ParameterError(
                f"--step must be given, for {rows.format} says of no column whether it is of whole numbers, and steps of 1 "
                f"from A to B would be {edges.cells} cells"
            )
        if not rows.real and not texts and any(each.denominator > 1 for each in (edges.lower, edges.upper, edges.step)):
            raise ParameterError(
                f"--clamp and --step must be whole numbers for {self.value!r:.80}, a column of whole numbers"
            )
        if rows.real and not texts and "step" not in self.given:
            raise ParameterError(
                f"--step must be given for {self.value!r:.80}, a column of real numbers: how wide a cell of values is"
            )

    @property
    def holds(self) -> tuple[Fraction, Fraction] | None:
        of = self.mechanism.guarantee
        if of.epsilon is not None and of.delta is not None:
            return of.epsilon, of.delta
        if of.rho > meaning.MOST_RHO:
            return None
        epsilon = of.approximate(meaning.EXAMPLE_DELTA).epsilon or Fraction(0)
        return Fraction(rounded(epsilon, up=True, digits=3, group="")), meaning.EXAMPLE_DELTA

    # ------------------------------------------------------------------ what is said

    @property
    def _keys(self) -> int:
        return self.cells or 1

    @property
    def _doubt_shared(self) -> Fraction:
        """The confidence of one interval."""
        rows = self._keys * self.EACH if "jointly" in self.given else 1
        return 1 - (1 - self.confidence) / rows

    def terms(self) -> dict[str, Any]:
        return {
            "--quantile": self.value,
            "--clamp": f"{self.edges.lower}, {self.edges.upper}",
            "--step": self.edges.step,
        }

    def table(self) -> dict[str, Any]:
        ends = [str(self.edges.lower), str(self.edges.upper)]
        shares = [str(share) for share in self.shares]
        return {"quantiles": shares, "of": self.value, "clamp": ends, "step": str(self.edges.step)}

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "intervals" in self.given:
            found["intervals"] = {
                "confidence": str(self.confidence),
                "of": "all rows jointly" if "jointly" in self.given else "each row",
                "hold": "the quantiles of the clamped values that the bounds leave",
            }
        levels = [law.metadata() for law in self.mechanism.levels if law is not None]
        release = {"column": self.COLUMN, **self.mechanism.metadata(), "levels": levels}
        return {**found, "secure_means": SECURE, "releases": [release]}

    def lines(self) -> list[str]:
        edges, laws = self.edges, [law for law in self.mechanism.levels if law is not None]
        each = f", for each of {self._keys:,} keys" if self._keys > 1 else ""
        ends = " to ".join(plain(end) for end in (edges.lower, edges.upper))
        kind = "sigma" if "gaussian" in self.given["mechanism"] else "scale"
        wide = ", ".join(dict.fromkeys(approximate(law.scale) for law in laws))
        levels = f"on each of {len(laws)} levels" if len(laws) > 1 else "on the cells"
        return [
            f"{edges.cells:,} cells of width {plain(edges.step)} from {ends}{each}",
            f"noise of counts: {kind} {wide} {levels}; rank of a value known within {self._reach()} rows, 95 %",
        ]

    def _reach(self) -> str:
        """By how much the estimated rows up to a cell are off, at most, but for 5 %."""
        noise = self.mechanism
        levels = [law for law in noise.levels if law is not None]
        return f"±{reach(self.edges.cells, levels, noise.guarantee, USUAL):,}"

    def rows_are(self, *, keyed: bool) -> str:
        what = "The rows are the shares that were asked for"
        return f"{what}, for all combinations of the public keys." if keyed else f"{what}."

    def noisy(self, first: Any, out: Any, about: Mapping[str, Any]) -> list[Noisy]:
        rows, every = first.num_rows, out[self.COLUMN].to_numpy()
        _, low, high = zip(*self._found[:rows], strict=True)
        return [Noisy(
            self.COLUMN, "quantiles", first[self.COLUMN].to_pylist(), low, high, None, about["releases"][0], self.confidence,
            "jointly" in self.given, {"the rank of a value": f"{self._reach()} rows"}, holds="the quantile of the bounded values",
            least=every.min().item(), most=every.max().item(),
        )]  # fmt: skip

    # ------------------------------------------------------------------ the values

    def counted(self, keys: Any, units: Any, values: Any, key: Any) -> Any:
        cells = InCells(values, self.edges.lower, self.edges.upper, self.edges.step)
        known = domain_keys(np.arange(self._keys, dtype=np.int32), keys)
        return _Leaves(self.trees.counts(cells, units, keys, known, key), cells.whole)

    def drawn(self, counted: Any, **how: Any) -> Any:
        paid = {"ledger": None, "label": None, "key": None, "resume": False, **how}
        trees = self.trees.released(counted.counts, **paid)
        return [
            self.trees.estimate(tree, share, self._doubt_shared, whole=counted.whole)
            for tree in trees
            for share in self.shares
        ]

    def columns(self, noisy: list[Estimate]) -> dict[str, Any]:
        self._found = noisy
        kind = np.int64 if self.edges.whole else np.float64
        value, low, high = (np.array(each, kind) for each in zip(*noisy, strict=True))
        found = {"quantile": np.array([float(share) for share in self.shares] * self._keys), self.COLUMN: value}
        return found | ({"low": low, "high": high} if "intervals" in self.given else {})


def reach_of(clamp: tuple[Fraction, Fraction], step: Fraction, levels: Sequence[Any], of: dpfast.Guarantee) -> int:
    """The reach of a tree over these cells, but for 5 %. Raises: ParameterError (no such tree)."""
    return reach(Edges.of(*clamp, step).cells, levels, of, USUAL)


def _asked(texts: Sequence[str]) -> tuple[str, tuple[Fraction, ...]]:
    """The column, and the shares. Raises: ParameterError."""
    column, shares = "", list[Fraction]()
    for text in texts:
        name, _, share = text.rpartition("=")
        if not name:
            raise ParameterError(f"--quantile must be NAME=Q, such as age=0.5, got {text!r:.80}")
        if shares and name != column:
            raise ParameterError(f"--quantile must name one column in a command, got {column!r:.60} and {name!r:.60}")
        column, q = name, exact_real("quantile", share.strip())
        if not 0 < q < 1:
            raise ParameterError(f"--quantile must be NAME=Q with Q above 0 and below 1, got {text!r:.80}")
        if q in shares:
            raise ParameterError(f"--quantile must name each Q once, and {share.strip()!r:.40} came twice")
        shares.append(q)
    return column, tuple(shares)
