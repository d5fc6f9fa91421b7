# SPDX-License-Identifier: Apache-2.0
"""From raw rows to counts that one person changes by no more than a stated amount.

A person may have many rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from dpfast import _native
from dpfast._native import Choice
from dpfast.counts.records.amounts import Amounts, Grid, grid
from dpfast.counts.records.payment import Payment, checked_ledger
from dpfast.counts.records.places import (
    KEYS,
    Finder,
    Known,
    Words,
    as_words,
    distinct,
    domain_keys,
    key_columns,
    occurring_keys,
    search_of,
    words_of,
)
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError
from dpfast.noise.mechanisms.mechanism import Releasing
from dpfast.noise.release.arrays import INT64_ENDS
from dpfast.noise.release.columns import CHUNK, Column, Integers, column, refuse_unread
from dpfast.noise.release.counts import BoundedCounts, Origin, bounded
from dpfast.noise.release.key import Chooser, Key, ReleaseKey
from dpfast.noise.release.secret import warn_insecure
from dpfast.privacy.parameters import Real, shown, unseeded, whole
from dpfast.privacy.sensitivity import MAX_CELLS, Sensitivity

if TYPE_CHECKING:
    from dpfast.counts.records.means import NoisyMeans
    from dpfast.counts.records.partitions import Thresholded
    from dpfast.counts.trees.noisy_tree import NoisyTree
    from dpfast.ledger import Ledger
    from dpfast.noise.mechanisms.selection import Selection

LONG = 1 << 10  # rows that one unit has in one partition: a sort of these is worth a call
OUTSIDE = ("drop", "refuse")
CAPS = "max_partitions", "max_per_partition", "max_contributions"
ROW_IS = "each row, as whoever counted says: nothing checks it"
NO_ROWS = (
    "max_per_partition or max_contributions must be given for a mean: with max_partitions alone a unit's sum in a key is "
    "clamped, which is of no number of rows"
)
MOST = Fraction(np.finfo(np.float64).max)
CHANGED = "unit_ids must not be written while they are counted: give a copy of the column"
SAME = "parts must be counted in one way, under one release key, from units of which each is in one part"
OTHER_KEYS = f"{SAME}; these differ: keys, or the domain"


class EachRow(Enum):
    """In place of unit_ids: each row is another unit, as the caller says. Nothing can check it.

    >>> found = dpfast.bounded_histogram(["f", "m", "f"], dpfast.EACH_ROW, domain=["f", "m"])
    >>> found.sensitivity.unit, found.sensitivity.l1
    ('row', Fraction(1, 1))
    """

    EACH_ROW = "row"

    def __repr__(self) -> str:
        return f"dpfast.{self.name}"


EACH_ROW = EachRow.EACH_ROW


class Valued(Protocol):
    """A column of values, read in parts as whole numbers."""

    def __len__(self) -> int: ...

    def __call__(self, part: slice, /) -> npt.NDArray[np.int64]: ...


class Caps(NamedTuple):
    """The caller's caps, each or None."""

    partitions: int | None
    per_partition: int | None
    contributions: int | None

    @property
    def choose_rows(self) -> bool:
        """Whether rows are chosen, and not only the partitions of a unit."""
        return self.per_partition is not None or self.contributions is not None


class Bounds(NamedTuple):
    """What bounds a unit, in the caller's words: `bounded_histogram` has these parameters."""

    max_partitions: int | None = None
    max_per_partition: int | None = None
    max_contributions: int | None = None
    lower: Real | None = None
    upper: Real | None = None
    granularity: Real | None = None
    adjacency: str = "add-remove"
    unit: str = "person"

    def of_each_row(self) -> Self:
        """The same where each row is another unit. Raises: ParameterError."""
        for name, cap in zip(CAPS, self[:3], strict=True):
            if cap is not None and whole(name, cap, 1) != 1:
                raise ParameterError(
                    f"{name} must be left out where each row is a unit, because a row is in one partition once, got {shown(cap)}"
                )
        if self.unit != EACH_ROW.value:
            raise ParameterError(f"unit must be left out where each row is a unit, got {shown(self.unit)}")
        return self._replace(max_partitions=1, max_per_partition=1, max_contributions=None)

    def checked(self, *, summed: bool) -> tuple[Caps, Grid | None]:
        """The caps, and the ends of what is summed. Raises: DTypeError, ParameterError."""
        given = zip(CAPS, self[:3], strict=True)
        caps, ends = Caps(*(None if cap is None else whole(name, cap, 1) for name, cap in given)), None
        if summed:
            ends = grid(self.lower, self.upper, self.granularity)
        elif not self.lower is self.upper is self.granularity is None:
            raise ParameterError("lower, upper and granularity are of values: give values, or leave them out")
        enough = caps.partitions is not None and (caps.per_partition is not None or summed)
        if caps.contributions is None and not enough:
            others = "max_partitions" if summed else "max_partitions with max_per_partition"
            raise ParameterError(f"max_contributions must be given, or {others}")
        return caps, ends

    def sensitivity(self, caps: Caps, ends: Grid | None, size: int | None) -> Sensitivity:
        """The least norms that follow from all checked caps together, for a domain of this size."""
        most = min(cap for cap in (caps.partitions, caps.contributions, size) if cap is not None)
        if most > MAX_CELLS:
            name = "max_partitions" if most == caps.partitions else "max_contributions"
            raise ParameterError(f"{name} must be below 2**63, got {shown(most)}")
        rows = min((cap for cap in caps[1:] if cap is not None), default=1)
        step = 1 if ends is None else ends.most
        return Sensitivity(
            most,
            rows * step,
            l1=None if caps.contributions is None else caps.contributions * step,
            cells=size,
            adjacency=self.adjacency,
            unit=self.unit,
            signed=ends is not None and ends.signed,
            keys="private" if size is None else "public",
        )

    def of_mean(self, caps: Caps, ends: Grid | None, size: int | None) -> tuple[Sensitivity, Sensitivity]:
        """What neighbours change for a mean: sums less the middle, in half steps; and counts.

        size: how many keys the domain has, or None. Raises: ParameterError (there is no mean).
        """
        if ends is None:
            raise ParameterError("values must be given to bounded_histogram for a mean, with lower and upper")
        if size is None:
            raise ParameterError("domain must be given to bounded_histogram for a mean: its keys are private otherwise")
        if not caps.choose_rows:
            raise ParameterError(NO_ROWS)
        wide = ends.upper - ends.lower
        if not wide:
            raise ParameterError("lower must be less than upper for a mean, and not be rounded to the same step")
        if ends.most * ends.granularity > MOST:
            raise ParameterError("lower and upper must be within the range of float64 for a mean")
        return self.sensitivity(caps, Grid(-wide, wide, None), size), self.sensitivity(caps, None, size)


class Terms(NamedTuple):
    """What decides a unit's part of the counts, beside its rows and the keys that are counted.

    bounds: of values, or None of counts. key: the id of the release key, or None of a fresh one.
    each_row: whether the caller calls each row a unit.
    """

    caps: Caps
    bounds: Grid | None
    key: str | None
    each_row: bool = False


class Rows(Origin):
    """What counts of rows know of themselves."""

    def __init__(self, keys: npt.NDArray[Any], sensitivity: Sensitivity, terms: Terms | None) -> None:
        super().__init__(sensitivity)
        self.keys, self.terms = keys, terms

    def named(self, key: ReleaseKey) -> dict[str, str]:
        """What they were counted with, and their keys if these are public."""
        found = {"adjacency": self.sensitivity.adjacency, "unit": self.sensitivity.unit}
        if self.sensitivity.keys == "public":
            found["domain"] = json.dumps(self.keys.tolist(), ensure_ascii=False)
        if self.terms is None:
            return found
        if self.terms.each_row:
            found["unit_is"] = ROW_IS
        if self.terms.key is None:  # a later try would choose anew, and tell of caps
            raise ParameterError("key must be that of the choice of rows, too: bounded_histogram(…, key=key)")
        caps, bounds = zip(CAPS, self.terms.caps, strict=True), self.terms.bounds
        found |= {name: str(cap) for name, cap in caps if cap is not None}
        if bounds is not None:
            step = bounds.granularity
            found |= {"lower": str(bounds.lower * step), "upper": str(bounds.upper * step), "granularity": str(step)}
        return found if self.terms.key == key.id else {**found, "chooser": self.terms.key}


class Kept(NamedTuple):
    """The rows that the caps left, by key: their sums as top 2^64 + low, and how many they are."""

    tops: npt.NDArray[np.int64]
    lows: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.int64]

    def centred(self, ends: Grid) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sums of values less the middle of the bounds, in half steps, saturated once; and rows."""
        sums, rows = self.tops.astype(object) * 2**64 + self.lows.astype(object), self.rows.astype(object)
        return np.clip(2 * sums - (ends.lower + ends.upper) * rows, *INT64_ENDS).astype(np.int64), self.rows

    @classmethod
    def merged(cls, parts: list[Kept]) -> Kept:
        tops, lows, rows = parts[0]
        for part in parts[1:]:
            lows = lows + part.lows
            tops, rows = tops + part.tops + (lows < part.lows), rows + part.rows
        return cls(tops, lows, rows)


class _Counted(NamedTuple):
    keys: npt.NDArray[Any]
    counts: BoundedCounts
    sensitivity: Sensitivity


class BoundedHistogram(_Counted):
    """Counts, or sums, that are not private yet.

    keys: the domain in its order; or without a domain the keys that occur, sorted, which are as
        private as the counts. Integers; or an array of objects: texts, or of several columns
        tuples.
    counts: int64, one for each key, before any noise; sums in steps of `granularity`. The array is
        read-only and knows its sensitivity. So do views, copies and pickles of it or of a part:
        whatever releases them refuses to hide less than one unit can change in so many cells.
        `np.array(counts)` is a plain copy, which nothing guards (docs/records.md).
    sensitivity: the change that the noise must hide, in the same steps. `release` adds noise that
        hides it.
    terms: what parts must share to be `merged`.

    >>> caps = {"domain": ["Lima", "Oslo"], "max_partitions": 1, "max_per_partition": 1}
    >>> found = dpfast.bounded_histogram(["Oslo"], [1], **caps)
    >>> found  # shows no count
    <BoundedHistogram: keys and counts, not private yet, ...>
    """

    _kept: Kept | None = None  # what means are made of: the sums of rows that were chosen

    def __new__(
        cls,
        keys: npt.NDArray[Any],
        counts: npt.NDArray[Any],
        sensitivity: Sensitivity,
        terms: Terms | None = None,
        kept: Kept | None = None,
    ) -> Self:
        made = super().__new__(cls, keys, bounded(counts, Rows(keys, sensitivity, terms)), sensitivity)
        made._kept = kept
        return made

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # behind _replace
        return cls(*iterable)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.terms, self._kept)

    def __getstate__(self) -> None:
        """Nothing beside the arguments."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read a pickle by an earlier version, which kept the terms by themselves."""
        self._rows.terms = state["terms"]

    @property
    def _rows(self) -> Rows:
        return cast("Rows", self.counts.origin)

    @property
    def terms(self) -> Terms | None:
        return self._rows.terms

    @property
    def granularity(self) -> Fraction:
        """What a step of the counts is worth: 1, or of sums of real values a power of two.

        >>> caps = {"domain": ["Lima", "Oslo"], "max_partitions": 1, "max_per_partition": 1}
        >>> dpfast.bounded_histogram(["Oslo"], [1], **caps).granularity
        Fraction(1, 1)
        """
        return Fraction(1) if self.terms is None or self.terms.bounds is None else self.terms.bounds.granularity

    def release(self, mechanism: Releasing, /, *, ledger: Ledger | None = None, **options: Any) -> Any:
        """`mechanism.release(counts, **options)`, if the mechanism was made for this sensitivity.

        ledger: charged before the noise is drawn: `ledger.release(mechanism, counts, **options)`.
            Under a key the seal names the domain and what these were counted with: caps, bounds,
            granularity, adjacency, unit, and whose chooser chose.

            visits = bounded_histogram(towns, people, domain=known, max_partitions=2, max_per_partition=1)
            noisy = visits.release(DiscreteLaplace(1, visits.sensitivity))

        Returns: int64, one for each key, in the order of the domain.
        Raises: DTypeError; ParameterError (also a mechanism made for less, for no sensitivity, or
            for another adjacency or unit; keys without a domain, which only `thresholded` hides;
            a key, for counts whose rows were chosen without one); what the release raises. Nothing
            is charged then, and nothing drawn.
        Privacy: spends what the mechanism's guarantee says.

        >>> caps = {"domain": ["Lima", "Oslo"], "max_partitions": 1, "max_per_partition": 1}
        >>> found = dpfast.bounded_histogram(["Oslo", "Lima"], [1, 2], **caps)
        >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=found.sensitivity)
        >>> found.release(mechanism, lower=0).dtype
        dtype('int64')
        """
        if not isinstance(mechanism, Releasing):
            raise DTypeError(f"mechanism must be one of dpfast's that release arrays, not {type(mechanism).__name__}")
        if ledger is None:
            return mechanism.release(self.counts, **options)
        return checked_ledger(ledger).release(mechanism, self.counts, **options)

    @unseeded
    def mean(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        threads: int | None = None,
        ledger: Ledger | None = None,
        label: str | None = None,
        key: ReleaseKey | None = None,
        resume: bool = False,
    ) -> NoisyMeans:
        """The means of the rows' values by key: two releases, one charge.

        It is of a histogram with a domain and with `values`, whose caps choose rows:
        max_per_partition or max_contributions, or EACH_ROW. Values less the middle of lower and
        upper are summed, and the rows counted: the very rows that the caps left. Each of the two
        gets half of the budget, with noise for its own sensitivity.

        epsilon: for discrete Laplace noise; epsilon and delta, or rho, for discrete Gaussian noise.
            The budget of the whole mean.
        threads: as of a mechanism's release; one under a key.
        ledger: charged once, before any noise is drawn. label: for its history, without a key.
        key, resume: as of a mechanism's release. Sums and counts are two columns of one seal.

        Returns: a NoisyMeans. Its `value` and `interval` cost nothing more.
        Privacy: spends epsilon (delta = 0), or epsilon and delta, or rho: the two halves, composed;
            for the adjacency and the unit of the sensitivity.
        Raises: DTypeError; ParameterError (also counts; caps that choose no rows; keys without a
            domain; bounds that are equal; a key, for rows that were chosen without one); what a
            release or a ledger raises. None but OtherInputError depends on values.

        >>> town, who, hours = np.random.default_rng(1).integers(0, [[2], [900], [25]], (3, 9000))
        >>> caps = {"domain": [0, 1], "max_partitions": 2, "max_per_partition": 5}
        >>> caps |= {"values": hours, "lower": 0, "upper": 24}
        >>> found = dpfast.bounded_histogram(town, who, **caps).mean(epsilon=1)
        >>> found.value.shape, found.guarantee.epsilon
        ((2,), Fraction(1, 1))
        """
        from dpfast.counts.records.means import MeanNoise, means_of  # late, as most counts are released as they are

        payment, terms, whole = Payment.of(ledger, label, key, resume), self.terms, self.sensitivity
        if terms is None:
            raise ParameterError("a mean must be of a result of bounded_histogram as it is, or of such parts, merged")
        size = self.keys.size if whole.keys == "public" else None
        sums, rows = Bounds(adjacency=whole.adjacency, unit=whole.unit).of_mean(terms.caps, terms.bounds, size)
        if self._kept is None or terms.bounds is None:
            raise ParameterError("a mean must be of rows that this version of dpfast has counted: count them again")
        noise = MeanNoise((sums, rows), terms.bounds, (epsilon, delta, rho))
        centred, many = self._kept.centred(terms.bounds)
        values = bounded(centred, Rows(self.keys, sums, terms)), bounded(many, Rows(self.keys, rows, terms))
        return means_of(self.keys, values, noise, payment, threads)

    def select(self, selection: Selection, /, *, ledger: Ledger | None = None, **options: Any) -> Any:
        """`selection.select(counts, **options)`: a place in the domain, or k of them.

        ledger: charged before the noise is drawn: `ledger.release(selection, counts, **options)`.
        Raises: as release, and as the selection's select.
        Privacy: spends what the selection says; with k, `selection.picks(k)`.

        >>> caps = {"domain": ["Lima", "Oslo"], "max_partitions": 1, "max_per_partition": 1}
        >>> found = dpfast.bounded_histogram(["Oslo"] * 500, range(500), **caps)
        >>> place = found.select(dpfast.PermuteAndFlip(epsilon=1, sensitivity=found.sensitivity))
        >>> found.keys[place]
        'Oslo'
        """
        from dpfast.noise.mechanisms.selection import Selection  # late, because it takes intervals

        if not isinstance(selection, Selection):
            raise DTypeError(f"selection must be one of dpfast's, not {type(selection).__name__}")
        if ledger is None:
            return selection.select(self.counts, **options)
        return checked_ledger(ledger).release(selection, self.counts, **options)

    def tree(self, **options: Any) -> NoisyTree:
        """`dpfast.tree(counts, sensitivity=sensitivity, **options)`: sums over ranges of keys.

        options: those of `tree`: epsilon, delta, rho, branching, levels, ledger, key and so on.
        Raises, privacy: as of `tree`.

        >>> caps = {"domain": range(100), "max_partitions": 1, "max_per_partition": 1}
        >>> ages = dpfast.bounded_histogram([30, 71, 30], [1, 2, 3], **caps)
        >>> ages.tree(epsilon=1).estimates[0].shape
        (100,)
        """
        from dpfast.counts.trees.release import tree  # late, for a kernel of its own

        return tree(self.counts, sensitivity=self.sensitivity, **options)

    def thresholded(self, **options: Any) -> Thresholded:
        """`dpfast.thresholded(keys, counts, sensitivity=sensitivity, **options)`: frequent keys.

        options: those of `thresholded`: epsilon, delta, noise, ledger, key and so on.
        Raises, privacy: as of `thresholded`.

        >>> caps = {"max_partitions": 1, "max_per_partition": 1}
        >>> words = dpfast.bounded_histogram(["tea"] * 500, range(500), **caps)
        >>> words.thresholded(epsilon=1, delta="1e-9").keys.tolist()
        ['tea']
        """
        from dpfast.counts.records.partitions import thresholded  # late, as most counts are of known keys

        return thresholded(self.keys, self.counts, sensitivity=self.sensitivity, **options)

    @staticmethod
    def merged(parts: Iterable[BoundedHistogram]) -> BoundedHistogram:
        """The whole, from parts of which each counts *all* rows of its units.

        Rows may be cut into parts by unit and by nothing else: a unit in two parts contributes
        twice, which nothing here can see, and the sensitivity would be false. Parts in any order
        and number, empty ones too, give the bytes that all rows at once give, under the same
        release key, if no part's sum is beyond int64.

            key = release_key.chooser()  # to the workers
            parts = [bounded_histogram(towns, people, domain=known, max_contributions=5, key=key) for ...]
            visits = BoundedHistogram.merged(parts)

        Raises: DTypeError; ParameterError (no part; parts of other bounds, keys, sensitivity or
            release key, or of a fresh key).

        >>> key = dpfast.Key.generate().derive("visits, 2026-11")
        >>> caps = {"domain": ["Lima", "Oslo"], "max_partitions": 1, "max_per_partition": 1}
        >>> parts = [dpfast.bounded_histogram(["Oslo"], [who], **caps, key=key) for who in (1, 2)]
        >>> dpfast.BoundedHistogram.merged(parts).sensitivity.l1
        Fraction(1, 1)
        """
        try:
            found = list(iter(parts))
        except TypeError:
            raise DTypeError(f"parts must be results of bounded_histogram, not {type(parts).__name__}") from None
        for part in found:
            if not isinstance(part, BoundedHistogram):
                raise DTypeError(f"parts must be results of bounded_histogram, not {type(part).__name__}")
        if not found:
            raise ParameterError("parts must contain at least one")
        first = found[0]
        if first.terms is None or first.terms.key is None:
            raise ParameterError(f"{SAME}: give key= to each")
        for part in found[1:]:
            differ = [name for name in Terms._fields if getattr(part.terms, name, None) != getattr(first.terms, name)]
            if part.sensitivity != first.sensitivity:
                differ.append("sensitivity")
            if differ:
                raise ParameterError(f"{SAME}; these differ: {', '.join(differ)}")
        names, places = _in_common([part.keys for part in found], public=first.sensitivity.keys == "public")
        joined = np.concatenate([np.asarray(part.counts) for part in found])
        counts = _saturated(*_native.totals(places.astype(np.uint64), joined, 63, names.size, INT64_ENDS, each=True))
        kept = [part._kept for part in found if part._kept is not None]  # noqa: SLF001
        whole = Kept.merged(kept) if len(kept) == len(found) else None
        return BoundedHistogram(names, counts, first.sensitivity, first.terms, whole)

    def __repr__(self) -> str:
        """Shows no key, no count and no number of keys, because none of them is private yet."""
        return f"<BoundedHistogram: keys and counts, not private yet, of sensitivity={self.sensitivity!r}>"


@unseeded
def bounded_histogram(
    keys: Any,
    unit_ids: Any,
    *,
    values: Any = None,
    domain: Any = None,
    max_partitions: int | None = None,
    max_per_partition: int | None = None,
    max_contributions: int | None = None,
    lower: Real | None = None,
    upper: Real | None = None,
    granularity: Real | None = None,
    outside: Literal["drop", "refuse"] = "drop",
    adjacency: str = "add-remove",
    unit: str | None = None,
    key: ReleaseKey | Chooser | None = None,
) -> BoundedHistogram:
    """Count rows by key, or sum their values, with bounded contributions.

    No unit of privacy touches more than max_partitions counts, adds more than max_per_partition to
    one, or more than max_contributions in all.

    keys, unit_ids: what each row counts, and the id of its unit. Two columns of equal length, of
        integers or strings: lists, NumPy arrays, columns of pandas, Polars or Arrow, categorical or
        not. Equal values are equal whatever holds them: 5 is 5 in every integer type, and never
        "5". Several columns make keys of tuples: rows[["town", "year"]], a frame of pandas, Polars
        or Arrow; a MultiIndex; or a tuple or a list of columns, (towns, years).
    values: a column of what is summed, instead of counting rows: integers, float64 or float32.
    domain: the possible keys, public, each once; a key that nobody has gets a 0. For several
        columns it is a tuple or a list of domains, one of each column, for all their combinations,
        the last column running fastest. It may also be the keys themselves, as a list of tuples, a
        MultiIndex or a frame. Without a domain the function returns the keys that occur. Which keys
        occur is private, so only `thresholded` may take them. The Sensitivity says so
        (keys="private"), and whatever publishes a cell for each key refuses it.
    max_partitions, max_per_partition, max_contributions: chosen without a look at the data; they
        may exceed what there is. Counts take max_contributions or both others. Sums take
        max_contributions or max_partitions.
    lower, upper: of values. If max_per_partition or max_contributions is given, *rows* are chosen,
        and each row's value is clamped to [lower, upper]. With max_partitions alone all rows of a
        unit in a partition are added, and their *sum* is clamped; a unit without rows there adds 0.
    granularity: of real values, a power of two: values and bounds are rounded to its multiples,
        half to even, and sums are counted in these steps. Integers have 1.
    outside: rows with a key outside the domain are dropped ("drop"), or refused ("refuse"). A
        refusal reveals that there is such a row.
    adjacency, unit: those of the sensitivity returned; unit is "person" by default.
    key: a release key, or its chooser(), for an equal choice again; otherwise a fresh key.

    The keys of the domain are the partitions. A unit keeps max_partitions of them, those whose tag
    is least. It keeps max_per_partition of its rows in each, and then max_contributions of the rows
    that are left. A partition's tag is a pseudo-random function of (key, unit id, partition), a
    row's of (key, unit id, partition, value, how many equal rows come before): SipHash-2-4 under
    keys that are derived for this alone. No noise stream is made from them. So each choice is
    equally likely, and it depends on no order of rows.

    The sensitivity is Sensitivity(l0=max_partitions, linf=max_per_partition, l1=max_contributions),
    each if it is given, l0 at most max_contributions, and cells is the size of the domain. For
    sums, linf and l1 are multiplied by the largest magnitude within [lower, upper] in steps, and
    signed if values of both signs are. So max_contributions=m alone has l0, linf, l1, l2_squared =
    m, m, m, m^2, and at most 2m, m, 2m, 2m^2 under substitution. It holds for *every* key, a public
    one too. Proof: equal ids make one unit, and ids are compared, not hashes. What a unit keeps
    depends on the key, its id and the multiset of its own rows. It depends on no other unit, no row
    number and no order of rows. So counts = the sum over units of v(key, id, rows). Each v has at
    most l0 entries, each in 0 .. linf, and they add up to at most m, the rows that are kept.
    Integers that add up to m have at most m entries that are not 0, none above m, and squares that
    add up to at most m^2. Adding or removing a unit adds or removes one such v; substituting a unit
    adds w - v, and |w - v|^2 <= |w|^2 + |v|^2 as no entry is negative. A sum's v is that many
    values within [lower, upper], each rounded and clamped on its own, or one clamped sum of a
    partition. Sums have 128 bits, and are brought into int64 once, at the end, which moves no two
    of them apart. (If two tags are equal, the order of the unit's own rows decides.)

    Parts of the rows, cut by unit, may be counted apart: `BoundedHistogram.merged` adds them up.

    Memory: 9 bytes a row of integers, 17 if ids are spread over all 64 bits or keys have no domain;
        25 of strings, besides the strings that differ; with values, or of several columns without
        a domain, 33 bytes. Time and memory access depend on the data.
    Raises: DTypeError, ParameterError; UnusableValuesError (NaN among values; a key outside the
        domain, if these are refused); EntropyError. No message shows a key, an id, a value or a
        count, but the fact that an input is refused can depend on them. Warns: InsecureKeyWarning
        (a fixed key).

    >>> city = np.array(["Oslo", "Lima", "Oslo", "Oslo"])
    >>> person = np.array([1, 1, 2, 2])
    >>> caps = {"max_partitions": 2, "max_per_partition": 1}
    >>> found = dpfast.bounded_histogram(city, person, domain=["Lima", "Oslo"], **caps)
    >>> found.sensitivity.l1, found.release(dpfast.DiscreteLaplace(1, found.sensitivity)).shape
    (Fraction(2, 1), (2,))
    """
    caps = max_partitions, max_per_partition, max_contributions
    refuse_unread("unit_ids", unit_ids)
    each_row = unit_ids is EACH_ROW
    usual = EACH_ROW.value if each_row else "person"
    of = Bounds(*caps, lower, upper, granularity, adjacency, usual if unit is None else unit)
    if each_row:
        of = of.of_each_row()
    bounded, bounds = of.checked(summed=values is not None)
    if not isinstance(outside, str) or outside not in OUTSIDE:
        raise ParameterError(f"outside must be 'drop' or 'refuse', got {shown(outside)}")
    if outside == "refuse" and domain is None:
        raise ParameterError("outside='refuse' needs a domain")
    if domain is None and bounds is not None and bounds.lower < 0:
        raise ParameterError("lower must be at least 0 without a domain, because thresholded takes no negative sums")
    known = None if domain is None else domain_keys(domain, keys)
    sensitivity = of.sensitivity(bounded, bounds, None if known is None else known.size)
    chooser = chooser_of(key)
    terms = Terms(bounded, bounds, None if key is None else chooser.id, each_row)

    amounts = None if bounds is None else Amounts(values, bounds)
    read = Read.of(keys, unit_ids, amounts, known)
    counts, kept = counted(read.held(amounts, chooser, refuse=outside == "refuse"), terms)
    return BoundedHistogram(read.known.names(), counts, sensitivity, terms, None if domain is None else kept)


def chooser_of(key: ReleaseKey | Chooser | None) -> Chooser:
    if key is None:
        return Key.generate().derive("bounded_histogram").chooser()
    if not isinstance(key, (ReleaseKey, Chooser)):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")
    if not key.secure:
        warn_insecure("partitions chosen")
    return key if isinstance(key, Chooser) else key.chooser()


# ------------------------------------------------------------------ the choice


class Held(NamedTuple):
    """The rows inside the domain, each as unit << bits | partition, sorted; and their values.

    names: the words of the keys in tags. functions: of the choices, as of a Chooser.
    """

    rows: Words
    values: npt.NDArray[np.int64]
    bits: int
    units: _Units
    names: Words
    functions: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many partitions there are."""
        return self.names.size

    def numbers(self) -> tuple[Words, npt.NDArray[np.intp]]:
        """The units that have rows, rising, and which of them each row is of."""
        units = self.rows >> np.uint64(self.bits)
        first = np.append(True, units[1:] != units[:-1])[: units.size]
        return units[first], np.cumsum(first) - 1

    def how(self, function: tuple[int, int]) -> Choice:
        return Choice(self.bits, self.units.base, self.units.words, self.names, function)

    def chosen(self, caps: Caps) -> tuple[Words, npt.NDArray[np.int64]]:
        """The rows that the caps leave, and their values: the arrays themselves, overwritten."""
        rows, values, (_, of_partitions, of_rows, of_all) = self.rows, self.values, self.functions
        for cap, among, whole_partitions, function in (
            (caps.partitions, self.bits, True, of_partitions),
            (caps.per_partition, 0, False, of_rows),
            (caps.contributions, self.bits, False, of_all),
        ):
            if cap is not None and cap < rows.size:
                if not whole_partitions:
                    _sort_long(rows, values)
                kept = _native.chosen_rows(rows, values, self.how(function), cap, shift=among, whole=whole_partitions)
                rows, values = rows[:kept], values[:kept]
        return rows, values


def counted(held: Held, terms: Terms) -> tuple[npt.NDArray[np.int64], Kept | None]:
    """What the units keep: counts, or sums in steps, and what means of them are made of."""
    caps, bounds, rows = terms.caps, terms.bounds, held.rows
    if bounds is None and caps.contributions is None:
        _, of_partitions, *_ = held.functions
        most = max(min(caps.partitions or rows.size, held.size, rows.size), 1)
        each = min(caps.per_partition or rows.size, max(rows.size, 1))
        return _native.bounded_counts(rows, held.how(of_partitions), most, each), None
    rows, values = held.chosen(caps)
    if bounds is None:
        return _saturated(*_native.totals(rows, values, held.bits, held.size, (1, 1), each=True)), None
    ends = bounds.lower, bounds.upper
    sums = _native.totals(rows, values, held.bits, held.size, ends, each=caps.choose_rows)
    if not caps.choose_rows:
        return _saturated(*sums), None
    _, many = _native.totals(rows, values[:0], held.bits, held.size, (1, 1), each=True)
    return _saturated(*sums), Kept(*sums, many.view(np.int64))


def _sort_long(rows: Words, values: npt.NDArray[np.int64]) -> None:
    """Sort the values of long partitions of a unit, which NumPy does faster than the kernel."""
    if not values.size:
        return
    sample = rows[::LONG]
    for row in distinct(sample[1:][sample[1:] == sample[:-1]]):
        values[np.searchsorted(rows, row) : np.searchsorted(rows, row, "right")].sort()


def _saturated(tops: npt.NDArray[np.int64], lows: Words) -> npt.NDArray[np.int64]:
    """Sums of 128 bits within int64: an overflow error would tell of them."""
    sums = lows.view(np.int64)
    return np.where(tops == sums >> 63, sums, np.where(tops < 0, *INT64_ENDS))


# ------------------------------------------------------------------ the rows


class _Units(NamedTuple):
    """How ids are numbered: those of number(ids) less base, which are at most `last`.

    The word of unit u is words[u], or base + u if there are no words. An id that another thread has
    written since the ids were first read is refused: it would have no number.
    """

    number: Callable[[Integers], Words]
    base: int
    last: int
    words: Words


def _units(ids: Column, bits: int, sip: tuple[int, int]) -> _Units:
    """Numbers below 2^(64 - bits)."""
    if ids.texts is not None:
        return _Units(as_words, 0, max(len(ids.texts) - 1, 0), words_of(ids, sip))
    low, high = (int(ids.codes.min()), int(ids.codes.max())) if ids.codes.size else (0, 0)
    if (high - low).bit_length() + bits <= 64:
        return _Units(as_words, low % 2**64, max(high - low, 0), np.empty(0, np.uint64))
    known = distinct(ids.codes)
    known = known.astype(f"{known.dtype.kind}8", copy=False)
    search = search_of(known)
    return _Units(lambda rows: as_words(search(rows)), 0, known.size - 1, as_words(known))


class Read(NamedTuple):
    """Columns of rows: how their keys are found among those that are counted, and their units."""

    known: Known
    find: Finder
    ids: Column

    @classmethod
    def of(
        cls,
        keys: Any,
        unit_ids: Any,
        values: Valued | None,
        known: Known | None,
        name: str = KEYS,
        domain: str = "domain",
    ) -> Read:
        """known: the keys of a domain; None: those that occur.

        name, domain: what the caller calls keys, and those that there can be.

        Raises: DTypeError, ParameterError.
        """
        rows, single = key_columns(keys, name)
        ids = column("unit_ids", np.arange(rows[0].codes.size) if unit_ids is EACH_ROW else unit_ids)
        if rows[0].codes.size != ids.codes.size:
            raise ParameterError(f"{name} and unit_ids must be of equal length: one of each in a row")
        if values is not None and len(values) != ids.codes.size:
            raise ParameterError("values and unit_ids must be of equal length: one of each in a row")
        if known is None:
            known = occurring_keys(rows, single=single)
        elif single is not known.single:
            raise DTypeError(f"{name} and {domain} must be both of one column, or both of several")
        elif ids.codes.size and any(
            (a.texts is None) != (b.texts is None) for a, b in zip(rows, known.columns, strict=True)
        ):
            raise DTypeError(f"{name} and {domain} must be both of integers or both of strings")
        return cls(known, Finder(rows, known), ids)

    def held(self, values: Valued | None, chooser: Chooser, *, refuse: bool) -> Held:
        """Raises: UnusableValuesError (a NaN; a key outside the domain, if `refuse`)."""
        functions = chooser.functions()
        texts, bits = functions[0], max(self.known.size - 1, 0).bit_length()
        units = _units(self.ids, bits, texts)
        rows, of_rows = _sorted_rows(self.find, self.ids, values, units, bits, refuse=refuse)
        return Held(rows, of_rows, bits, units, self.known.words(texts), functions)


def _sorted_rows(
    find: Finder, ids: Column, amounts: Valued | None, units: _Units, bits: int, *, refuse: bool
) -> tuple[Words, npt.NDArray[np.int64]]:
    """The rows inside the domain, each as unit << bits | partition, sorted; and their values."""
    rows, kept = np.empty(ids.codes.size, np.uint64), 0
    values = np.empty(0 if amounts is None else rows.size, np.int64)
    for begin in range(0, rows.size, CHUNK):
        part = slice(begin, begin + CHUNK)
        places, numbers = find(part), units.number(ids.codes[part].copy())
        found = _native.pack(numbers, places, units.base, units.last, bits, rows[kept : kept + places.size])
        if found < 0:
            raise ParameterError(CHANGED)
        if refuse and found < places.size:
            raise UnusableValuesError("keys must all be of the domain")
        if amounts is not None:
            values[kept : kept + found] = amounts(part)[places >= 0]
        kept += found
    rows = rows[:kept]
    if amounts is None:
        _native.sort(rows, units.last.bit_length() + bits)
        return rows, values
    order = np.argsort(rows)
    rows = rows[order]  # the old ones go, before there are other values
    return rows, values[order]


def _in_common(keys: list[npt.NDArray[Any]], *, public: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The keys of all parts together, and the places of each part's, one part after the other."""
    there = keys if public else [each for each in keys if each.size] or keys[:1]
    first = there[0]
    if any((each.dtype == object) != (first.dtype == object) for each in there):
        raise ParameterError(OTHER_KEYS)
    if public:
        if not all(np.array_equal(each, first) for each in there):
            raise ParameterError(OTHER_KEYS)
        return first, np.tile(np.arange(first.size), len(keys))
    if first.dtype != object:
        alike = all(each.dtype == first.dtype for each in there)
        joined = (
            np.concatenate(there) if alike else column("keys", [name for each in there for name in each.tolist()]).codes
        )
        names = distinct(joined)
        return names, np.searchsorted(names, joined)
    listed = [name for each in there for name in each.tolist()]
    try:
        place = {name: i for i, name in enumerate(sorted(set(listed)))}
    except TypeError:  # texts and tuples
        raise ParameterError(OTHER_KEYS) from None
    return np.fromiter(place, object, len(place)), np.array([place[name] for name in listed], np.int64)
