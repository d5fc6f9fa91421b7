# SPDX-License-Identifier: Apache-2.0
"""How much one unit of privacy can change an array, and how much it contributes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from dpfast.errors import ParameterError
from dpfast.privacy import parameters
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.record import Record

MAX_CELLS = 2**63 - 1  # more than any array has
KEYS = ("public", "private")
FIGURES = ("l0", "linf", "l1", "l2_squared")
COVER = ": its noise must hide what one unit can change in the counts, so make it with their own sensitivity"


class Cells(NamedTuple):
    """At most l0 cells, each by at most linf."""

    l0: int
    linf: Fraction


def _cells(l0: int, linf: Real) -> Cells:
    cells = parameters.whole("l0", l0, least=1)
    if cells > MAX_CELLS:
        raise ParameterError(f"l0 must be below 2**63, got {shown(l0)}")
    return Cells(cells, parameters.exact_positive("linf", linf))


def _stated(l0: int | None, linf: Real | None, l1: Real | None) -> tuple[Cells, Fraction]:
    if l1 is None:
        if l0 is None or linf is None:
            raise ParameterError("l0 and linf must be given, or l1: what one unit contributes at most")
        cells = _cells(l0, linf)
        return cells, cells.l0 * cells.linf
    total = parameters.exact_positive("l1", l1)
    if l0 is None and total < 1:
        raise ParameterError(f"l1 must be at least 1 without l0, because it is then of whole numbers, got {shown(l1)}")
    cells = _cells(math.floor(total) if l0 is None else l0, total if linf is None else linf)
    return Cells(cells.l0, min(cells.linf, total)), total


def _filled(cells: int, linf: Fraction, total: Fraction) -> tuple[Cells, ...]:
    """As many of the cells by linf as the total has room for, and one by the rest."""
    full, rest = divmod(min(total, cells * linf), linf)
    return (Cells(int(full), linf), *([Cells(1, rest)] if rest else []))


def root_above(square: Fraction) -> float:
    """The least double that is not below the root; infinity beyond the largest double."""
    digits = 64 + max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    near = Fraction(math.isqrt((square.numerator << 2 * digits) // square.denominator), 2**digits)
    try:
        root = float(near)
    except OverflowError:
        return math.inf
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
        if math.isinf(root):
            return root
    while root and Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root


class Sensitivity(Record):
    """Arguments: what one unit of privacy *contributes*. Attributes: what a *neighbour changes*.

    l0: the most cells that one unit touches. linf: the most that it adds to a cell (with
        signed=True: adds or takes away): int, float, Fraction or Decimal, taken exactly.
    l1: the most that it adds in all, if that is less than l0 linf. Without linf, linf = l1. Without
        l0, contributions are whole numbers, and l0 is l1 rounded down.
    adjacency: "add-remove" (neighbours differ by the presence of one unit) or "substitution" (one
        unit contributes something else). unit: the unit of privacy, such as "person".
    cells: how many cells there are in all, a public number. It bounds l0. It also lowers what a
        substitution changes, where 2 l0 cells would be more. A person who answers 3 of 4 questions
        with yes or no changes 4 answers and not 6. A release refuses an array with more cells. It
        is None where it lowers nothing.
    signed: whether contributions can be negative. This matters under substitution. It also matters
        for a choice among answers, which are `monotonic` under add-remove if no contribution is
        negative.
    keys: "public"; or "private" if the cells are those that occur, as in bounded_histogram without
        a domain. The presence of a cell is then a secret, too, and only `thresholded` takes such a
        Sensitivity.

    Let one unit contribute the vector v before and w after. Neighbours differ by v, or under
    substitution by v - w. Let s be the most that |v|^2 can be:

    | adjacency, contributions | l0 | linf | l1 | l2_squared | largest |
    | --- | --- | --- | --- | --- | --- |
    | add-remove | l0 | linf | l1 | s | (l0, linf) or (1, l1) |
    | substitution, >= 0 | 2 l0 | linf | 2 l1 | 2 s | (2 l0, linf) or (2, l1) |
    | ... in cells < 2 l0 | cells | linf | see below | see below | (cells, linf) |
    | substitution, signed | 2 l0 | 2 linf | 2 l1 | 4 s | (l0, 2 linf) or (1, 2 l1) |

    s = q linf^2 + r^2, where l1 = q linf + r, 0 <= r < linf: |v|^2 is convex, so it is largest at a
    corner of what the bounds allow, and there at most one entry is neither 0 nor linf. Without an
    l1 of its own l1 = l0 linf and s = l0 linf^2; l1 alone has s = l1^2.

    Disjoint supports double l0, and |v - w| <= |v| + |w| doubles l1. Contributions >= 0 differ by
    at most linf in a cell, and their inner product is >= 0, so |v - w|^2 <= |v|^2 + |w|^2. Signed
    contributions with opposite signs in one cell differ by 2 linf, and |v - w|^2 <= (|v| + |w|)^2
    is four times the square. Each figure is reached. A signed substitution does not reach l0 and
    linf together, nor does an l1 of its own.

    With fewer than 2 l0 cells, contributions >= 0 change at most p cells upwards and the other
    cells - p downwards. In p cells a unit contributes most, in all and squared, with min(p, l0)
    cells filled by linf, or by what l1 leaves. What a further cell adds to either never grows with
    p. So both sums over p and cells - p are largest for p = cells / 2, rounded down. Without an l1
    of its own that is cells linf, and cells linf^2 squared. A signed l1 is reached within l0 cells
    already, so there only l0 is min(2 l0, cells).

    `from_l2` makes one from the norm of a neighbour's change alone, `changes` from its cells: there
    `contributes` is None.
    Raises: DTypeError, ParameterError.

        >>> rows = dpfast.Sensitivity(l1=7)  # at most 7 rows of a person, wherever they are
        >>> rows.l0, int(rows.linf), int(rows.l1), int(rows.l2_squared)
        (7, 7, 7, 49)
        >>> int(dpfast.Sensitivity(7, 3, l1=7).l2_squared)  # and at most 3 in a cell: 9 + 9 + 1
        19
        >>> votes = dpfast.Sensitivity(4, 1, adjacency="substitution", cells=4)  # one of them in each
        >>> votes.l0, int(votes.l1)
        (4, 4)
    """

    contributes: Cells | None
    contributed: Fraction | None
    cells: int | None
    l0: int | None
    linf: Fraction | None
    l1: Fraction | None
    l2_squared: Fraction
    adjacency: str
    unit: str
    signed: bool
    keys: str

    def __init__(
        self,
        l0: int | None = None,
        linf: Real | None = None,
        *,
        l1: Real | None = None,
        cells: int | None = None,
        adjacency: str = "add-remove",
        unit: str = "person",
        signed: bool = False,
        keys: str = "public",
    ) -> None:
        there = None if cells is None else parameters.whole("cells", cells, least=1)
        stated, most = _stated(l0, linf, l1)
        contributes = stated._replace(l0=min(stated.l0, there or stated.l0))
        total = min(most, contributes.l0 * contributes.linf)
        both_ways = parameters.flag("signed", signed)
        substitution = parameters.adjacency(adjacency) == "substitution"
        changed = stated.l0 * (2 if substitution else 1)
        self._keep(
            contributes=contributes,
            contributed=total,
            cells=there if there is not None and there < changed else None,
            l0=min(changed, there or changed),
            linf=contributes.linf * (2 if substitution and both_ways else 1),
            adjacency=adjacency,
            unit=parameters.unit(unit),
            signed=both_ways,
            keys=_keys(keys),
        )
        moved = self._furthest(contributes.linf, total)
        self._keep(
            l1=sum((n * by for n, by in moved), Fraction(0)),
            l2_squared=sum((n * by**2 for n, by in moved), Fraction(0)),
        )

    def _furthest(self, linf: Fraction, total: Fraction) -> tuple[Cells, ...]:
        """The change that moves most cells furthest, if a unit contributes at most this."""
        l0 = self.contributes.l0  # type: ignore[union-attr]  # asked where it is known
        if self.adjacency == "add-remove":
            return _filled(l0, linf, total)
        if self.signed:
            return _filled(l0, 2 * linf, 2 * total)
        up = l0 if self.cells is None else self.cells // 2
        down = l0 if self.cells is None else min(l0, self.cells - up)
        sides: Counter[Fraction] = Counter()
        for cells in (up, down):
            for many, by in _filled(cells, linf, total):
                sides[by] += many
        return tuple(Cells(many, by) for by, many in sorted(sides.items(), reverse=True) if many)

    @classmethod
    def changes(cls, l0: int, linf: Real, *, adjacency: str = "add-remove", unit: str = "person") -> Sensitivity:
        """From what a neighbour changes: at most l0 cells, each by at most linf. Nothing doubles.

        adjacency: the one under which l0 and linf hold.

        >>> dpfast.Sensitivity.changes(l0=2, linf=3).l1
        Fraction(6, 1)
        """
        cells, most = _cells(l0, linf)
        return cls._changing(cells, most, cells * most, cells * most**2, adjacency, unit)

    @classmethod
    def from_l2(cls, squared: Real, *, adjacency: str = "add-remove", unit: str = "person") -> Sensitivity:
        """From a norm: the largest squared L2 distance between neighbours, exact. Nothing doubles.

        adjacency: the one under which the norm holds.
        Only the norm is known: l0, linf, l1, contributes and largest are None, and a mechanism that
        needs one of them refuses.

        >>> dpfast.Sensitivity.from_l2(25).l2
        5.0
        """
        return cls._changing(None, None, None, parameters.exact_positive("squared", squared), adjacency, unit)

    @classmethod
    def _changing(
        cls, l0: int | None, linf: Fraction | None, l1: Fraction | None, l2_squared: Fraction, adjacency: str, unit: str
    ) -> Sensitivity:
        about = {"adjacency": parameters.adjacency(adjacency), "unit": parameters.unit(unit)}
        figures = {"l0": l0, "linf": linf, "l1": l1, "l2_squared": l2_squared}
        return cls._of(contributes=None, contributed=None, cells=None, **figures, **about, signed=False, keys="public")

    @property
    def l2(self) -> float:
        """The least double not below the root of l2_squared.

        >>> dpfast.Sensitivity(l0=2, linf=1).l2
        1.4142135623730951
        """
        return root_above(self.l2_squared)

    @property
    def largest(self) -> Cells | None:
        """The change that reaches l1 and l2_squared: this many cells, each by this much.

        No change is told from none more easily (dpfast/privacy/gaussian.py). None if no such change
        is known: of an L2 norm alone, and if l1 is between linf and l0 linf.

        >>> dpfast.Sensitivity(l0=3, linf=2).largest
        Cells(l0=3, linf=Fraction(2, 1))
        """
        if self.l1 is None:
            return None
        if self.contributes is not None:
            l0, linf = self.contributes
            if self.contributed not in (linf, l0 * linf):
                return None
        return Cells(int(self.l1**2 / self.l2_squared), self.l2_squared / self.l1)

    def worst_change(self, *, integers: bool = False) -> tuple[Cells, ...]:
        """The change that Laplace noise hides least (dpfast/privacy/laplace.py, 5).

        It is `largest`; with an l1 of its own as many cells as that fills, each by linf, and one by
        the rest; empty of an L2 norm alone.
        integers: cells move by whole numbers alone.
        Raises: DTypeError.

        >>> dpfast.Sensitivity(l0=3, linf=2).worst_change()
        (Cells(l0=3, linf=Fraction(2, 1)),)
        """
        whole = parameters.flag("integers", integers)
        if self.largest is not None or self.contributes is None or self.contributed is None:
            return () if self.largest is None else (self.largest,)
        l0, linf = self.contributes
        total = self.contributed
        if whole:
            linf = Fraction(math.floor(linf))
            total = min(Fraction(math.floor(total)), l0 * linf)
        return self._furthest(linf, total) if linf else (Cells(1, linf),)

    @property
    def add_remove(self) -> Sensitivity | None:
        """What adding or removing one unit changes, where `contributes` is known.

        >>> dpfast.Sensitivity(l0=3, linf=2, adjacency="substitution").add_remove.l1
        Fraction(6, 1)
        """
        if self.contributes is None:
            return None
        about = {"unit": self.unit, "signed": self.signed, "keys": self.keys}
        return Sensitivity(*self.contributes, l1=self.contributed, adjacency="add-remove", **about)  # type: ignore[arg-type]

    @property
    def one_way(self) -> bool:
        """Whether an added unit moves all cells up: contributions >= 0, under add-remove.

        >>> dpfast.Sensitivity(l0=3, linf=2, signed=True).one_way
        False
        """
        return self.contributes is not None and not self.signed and self.adjacency == "add-remove"

    def of_sums(self, sums: int, cells: int) -> Sensitivity:
        """That of as many sums over disjoint groups of at most so many cells.

        What one unit adds to several cells of a group meets in one sum. So a sum moves by up to l0
        linf, and never by more than l1. No figure is exceeded, and each is reached where it is
        reached for the cells and enough groups are of that size.
        Raises: DTypeError, ParameterError (also if what one unit contributes is not known).

        >>> dpfast.Sensitivity(l0=3, linf=2).of_sums(sums=10, cells=4).linf
        Fraction(6, 1)
        """
        many, largest = parameters.whole("sums", sums, 1), parameters.whole("cells", cells, 1)
        if self.contributes is None:
            raise ParameterError(
                "sensitivity must say what one unit contributes, because contributions meet in sums: Sensitivity(l0, linf), or "
                "Sensitivity(l1=…)"
            )
        l0, linf = self.contributes
        return Sensitivity(
            min(l0, many),
            linf * min(l0, largest),
            l1=self.contributed,
            cells=many,
            adjacency=self.adjacency,
            unit=self.unit,
            signed=self.signed,
            keys=self.keys,
        )

    def with_public_keys(self) -> Sensitivity:
        """An equal Sensitivity with public keys, after `thresholded` has hidden the secret ones.

        >>> caps = {"max_partitions": 1, "max_per_partition": 1}
        >>> found = dpfast.bounded_histogram(["tea", "tea"], [1, 2], **caps)
        >>> found.sensitivity.keys, found.sensitivity.with_public_keys().keys
        ('private', 'public')
        """
        return self._of(**{**vars(self), "keys": "public"})

    def refuse_private_keys(self) -> None:
        """Called by what publishes every cell. Raises: ParameterError (keys="private").

        >>> caps = {"max_partitions": 1, "max_per_partition": 1}
        >>> found = dpfast.bounded_histogram(["tea", "tea"], [1, 2], **caps)
        >>> found.sensitivity.refuse_private_keys()
        Traceback (most recent call last):
            ...
        dpfast.errors.ParameterError: sensitivity is that of counts of private keys: that a ...
        """
        if self.keys == "private":
            raise ParameterError(
                "sensitivity is that of counts of private keys: that a key is there is a secret, which noise on its count "
                "does not hide. Give the counts to thresholded, or count with domain=, the keys that there can be"
            )

    def __repr__(self) -> str:
        common = f"adjacency={self.adjacency!r}, unit={self.unit!r}"
        private = ", keys='private'" if self.keys == "private" else ""
        if self.l1 is None:
            return f"Sensitivity.from_l2(squared={self.l2_squared}, {common}; a neighbour changes l2={self.l2:.6g})"
        if self.contributes is None:
            return f"Sensitivity.changes(l0={self.l0}, linf={self.linf}, {common})"
        l0, linf = self.contributes
        total = "" if self.contributed == l0 * linf else f", l1={self.contributed}"
        total += "" if self.cells is None else f", cells={self.cells}"
        return (
            f"Sensitivity(l0={l0}, linf={linf}{total}, {common}, signed={self.signed}{private}; a neighbour changes "
            f"l0={self.l0}, linf={self.linf}, l1={self.l1}, l2_squared={self.l2_squared}, l2={self.l2:.6g})"
        )


def _keys(value: str) -> str:
    if not isinstance(value, str) or value not in KEYS:
        # The message does not show the value: by mistake, it may be the keys themselves.
        raise ParameterError(f"keys must be one of {', '.join(KEYS)}")
    return value


def across_parts(change: Sensitivity) -> Sensitivity:
    """That of equal parts together, each of this Sensitivity, which knows what a unit contributes.

    `cells` is the size of one part. A unit that leaves a part and enters another changes cells of
    both, so nothing bounds how many there are in all.
    """
    if change.cells is None:
        return change
    about = {"adjacency": change.adjacency, "unit": change.unit, "signed": change.signed, "keys": change.keys}
    return Sensitivity(*change.contributes, l1=change.contributed, **about)  # type: ignore[arg-type,misc]  # known


def in_norm(
    norm: str, sensitivity: Real | Sensitivity, adjacency: str | None, unit: str | None, unknown: str
) -> tuple[Fraction, str, str]:
    """The figure that a mechanism needs, and the adjacency and the unit of privacy of it.

    norm: "l1" or "linf". unknown: the error if a Sensitivity does not know it.
    Raises: DTypeError, ParameterError.
    """
    if isinstance(sensitivity, Sensitivity):
        if adjacency is not None or unit is not None:
            raise ParameterError("adjacency and unit are those of the Sensitivity that was given: leave them out")
        figure = getattr(sensitivity, norm)
        if figure is None:
            raise ParameterError(unknown)
        sensitivity.refuse_private_keys()
        return figure, sensitivity.adjacency, sensitivity.unit
    return (
        parameters.exact_positive("sensitivity", sensitivity),
        parameters.adjacency("add-remove" if adjacency is None else adjacency),
        parameters.unit("person" if unit is None else unit),
    )


def refuse_less(
    change: Sensitivity,
    stated: Real | Sensitivity | None,
    adjacency: str | None,
    unit: str | None,
    *,
    norm: str = "l1",
) -> None:
    """Called before a mechanism's noise hides this change in counts.

    stated, adjacency, unit: the mechanism's own. The sensitivity may be a number in one norm alone.
        Each figure that it states must be at least that of the change, and it must cover the change
        (must_cover). A number stands for one cell that moves by it, the worst there is.
    Raises: ParameterError (also for private keys).
    """
    change.refuse_private_keys()
    if stated is None:
        raise ParameterError(f"mechanism must be made for a sensitivity, got one without{COVER}")
    for name, given in (("adjacency", adjacency), ("unit", unit)):
        if given != getattr(change, name):
            raise ParameterError(f"{name} must be that of the counts, {getattr(change, name)!r:.60}, got {given!r:.60}")
    figures = {name: getattr(stated, name) for name in FIGURES} if isinstance(stated, Sensitivity) else {norm: stated}
    for name, figure in figures.items():
        least = getattr(change, name)
        if figure is not None and figure < least:
            raise ParameterError(
                f"mechanism must be made for {name} of at least {parameters.shown(least)}, got one for "
                f"{parameters.shown(figure)}{COVER}"
            )
    if isinstance(stated, Sensitivity):
        must_cover(stated, change)


def must_cover(stated: Sensitivity, change: Sensitivity) -> None:
    """Called before noise whose epsilon, rho and losses are those of what is stated hides a change.

    What is said of adding and removing a unit is to hold, too, if anything is.
    Raises: ParameterError.
    """
    if not _covers(stated, change):
        raise ParameterError(f"mechanism must be made for the worst change of the counts{COVER}")
    if change.adjacency == "substitution" and (mine := stated.add_remove) and (theirs := change.add_remove):
        more = [name for name in ("l1", "l2_squared") if getattr(mine, name) < getattr(theirs, name)]
        if more or not _covers(mine, theirs):
            raise ParameterError(f"mechanism must be made for what one unit contributes to the counts{COVER}")


def _covers(stated: Sensitivity, change: Sensitivity) -> bool:
    """Whether no change of this Sensitivity is told from none more easily than one that is stated.

    A cell of the worst one stands for as many cells of the change as it moves by as much in all
    (dpfast/privacy/gaussian.py, 3). If l1 is stated by itself, the cells that move most must move
    as far as those of the change (dpfast/privacy/laplace.py, 5), as whole numbers, too.
    """
    worst = stated.largest
    if worst is None:
        return stated.l1 is None or all(
            _reach(change.worst_change(integers=whole), k) <= _reach(stated.worst_change(integers=whole), k)
            for whole in (False, True)
            for k in itertools.accumulate(each.l0 for each in change.worst_change(integers=whole))
        )
    cells, most = change.largest or Cells(change.l0, change.linf)  # type: ignore[arg-type]  # counts have both
    in_one_cell = change.l1 <= worst.linf  # type: ignore[operator]
    return in_one_cell or (most <= worst.linf and -(-cells // (worst.linf // most)) <= worst.l0)


def _reach(cells: tuple[Cells, ...], most: int) -> Fraction:
    """How far so many of the cells move in all, those first that move most."""
    moved = Fraction(0)
    for many, linf in cells:
        moved += min(many, most) * linf
        most -= min(many, most)
    return moved
