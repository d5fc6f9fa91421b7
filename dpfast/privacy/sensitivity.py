# SPDX-License-Identifier: Apache-2.0
"""How much one unit of privacy can change an array, and how much it contributes."""

from __future__ import annotations

import math
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
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root


class Sensitivity(Record):
    """Arguments: what one unit of privacy *contributes*. Attributes: what a *neighbour changes*.

    l0: the most cells that one unit touches. linf: the most that it adds to a cell (with
        signed=True: adds or takes away): int, float, Fraction or Decimal, taken exactly.
    adjacency: "add-remove" (neighbours differ by the presence of one unit) or "substitution" (one
        unit contributes something else). unit: the unit of privacy, such as "person".
    signed: whether contributions can be negative. This matters under substitution. It also matters
        for a choice among answers, which are `monotonic` under add-remove if no contribution is
        negative.
    keys: "public"; or "private" if the cells are those that occur, as in bounded_histogram without
        a domain. The presence of a cell is then a secret, too, and only `thresholded` takes such a
        Sensitivity.

    Let one unit contribute the vector v before and w after. Neighbours differ by v, or under
    substitution by v - w:

    | adjacency, contributions | l0 | linf | l1 | l2_squared | largest |
    | --- | --- | --- | --- | --- | --- |
    | add-remove | l0 | linf | l0 linf | l0 linf^2 | (l0, linf) |
    | substitution, >= 0 | 2 l0 | linf | 2 l0 linf | 2 l0 linf^2 | (2 l0, linf) |
    | substitution, signed | 2 l0 | 2 linf | 2 l0 linf | 4 l0 linf^2 | (l0, 2 linf) |

    Disjoint supports double l0, and |v - w| <= |v| + |w| doubles l1. Contributions >= 0 differ by
    at most linf in a cell, and their inner product is >= 0, so |v - w|^2 <= |v|^2 + |w|^2. Signed
    contributions with opposite signs in one cell differ by 2 linf, and |v - w|^2 <= (|v| + |w|)^2
    is four times the square. Each figure is reached. A signed substitution does not reach l0 and
    linf together. `largest` is the one change that reaches l1 and
    l2_squared: this many cells, each by this much.

    `from_l2` makes one from the norm of a neighbour's change alone, `changes` from its cells: there
    `contributes` is None.
    Raises: DTypeError, ParameterError.
    """

    contributes: Cells | None
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
        l0: int,
        linf: Real,
        *,
        adjacency: str = "add-remove",
        unit: str = "person",
        signed: bool = False,
        keys: str = "public",
    ) -> None:
        cells, most = _cells(l0, linf)
        both_ways = parameters.flag("signed", signed)
        substitution = parameters.adjacency(adjacency) == "substitution"
        both = 2 if substitution else 1
        twice = 2 if substitution and both_ways else 1
        self._keep(
            contributes=Cells(cells, most),
            l0=both * cells,
            linf=twice * most,
            l1=both * cells * most,
            l2_squared=both * twice * cells * most**2,
            adjacency=adjacency,
            unit=parameters.unit(unit),
            signed=both_ways,
            keys=_keys(keys),
        )

    @classmethod
    def changes(cls, l0: int, linf: Real, *, adjacency: str = "add-remove", unit: str = "person") -> Sensitivity:
        """From what a neighbour changes: at most l0 cells, each by at most linf. Nothing doubles.

        adjacency: the one under which l0 and linf hold.
        """
        cells, most = _cells(l0, linf)
        return cls._changing(cells, most, cells * most, cells * most**2, adjacency, unit)

    @classmethod
    def from_l2(cls, squared: Real, *, adjacency: str = "add-remove", unit: str = "person") -> Sensitivity:
        """From a norm: the largest squared L2 distance between neighbours, exact. Nothing doubles.

        adjacency: the one under which the norm holds.
        Only the norm is known: l0, linf, l1, contributes and largest are None, and a mechanism that
        needs one of them refuses.
        """
        return cls._changing(None, None, None, parameters.exact_positive("squared", squared), adjacency, unit)

    @classmethod
    def _changing(
        cls, l0: int | None, linf: Fraction | None, l1: Fraction | None, l2_squared: Fraction, adjacency: str, unit: str
    ) -> Sensitivity:
        about = {"adjacency": parameters.adjacency(adjacency), "unit": parameters.unit(unit)}
        figures = {"l0": l0, "linf": linf, "l1": l1, "l2_squared": l2_squared}
        return cls._of(contributes=None, **figures, **about, signed=False, keys="public")

    @property
    def l2(self) -> float:
        """The least double not below the root of l2_squared."""
        return root_above(self.l2_squared)

    @property
    def largest(self) -> Cells | None:
        """The change that reaches l1 and l2_squared: this many cells, each by this much."""
        if self.l1 is None:
            return None
        return Cells(int(self.l1**2 / self.l2_squared), self.l2_squared / self.l1)

    @property
    def one_way(self) -> bool:
        """Whether an added unit moves all cells up: contributions >= 0, under add-remove."""
        return self.contributes is not None and not self.signed and self.adjacency == "add-remove"

    def with_public_keys(self) -> Sensitivity:
        """An equal Sensitivity with public keys, after `thresholded` has hidden the secret ones."""
        return self._of(**{**vars(self), "keys": "public"})

    def refuse_private_keys(self) -> None:
        """Called by what publishes every cell. Raises: ParameterError (keys="private")."""
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
        return (
            f"Sensitivity(l0={l0}, linf={linf}, {common}, signed={self.signed}{private}; a neighbour changes "
            f"l0={self.l0}, linf={self.linf}, l1={self.l1}, l2_squared={self.l2_squared}, l2={self.l2:.6g})"
        )


def _keys(value: str) -> str:
    if not isinstance(value, str) or value not in KEYS:
        # The message does not show the value: by mistake, it may be the keys themselves.
        raise ParameterError(f"keys must be one of {', '.join(KEYS)}")
    return value


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
    change: Sensitivity, stated: Real | Sensitivity | None, adjacency: str | None, unit: str | None
) -> None:
    """Called before a mechanism's noise hides this change in counts.

    stated, adjacency, unit: the mechanism's own. The sensitivity may be in L1 alone. Each figure
        that it states must be at least that of the change. So no change that can be is beyond it.
    Raises: ParameterError (also for private keys).
    """
    change.refuse_private_keys()
    if stated is None:
        raise ParameterError(f"mechanism must be made for a sensitivity, got one without{COVER}")
    for name, given in (("adjacency", adjacency), ("unit", unit)):
        if given != getattr(change, name):
            raise ParameterError(f"{name} must be that of the counts, {getattr(change, name)!r:.60}, got {given!r:.60}")
    figures = {name: getattr(stated, name) for name in FIGURES} if isinstance(stated, Sensitivity) else {"l1": stated}
    for name, figure in figures.items():
        least = getattr(change, name)
        if figure is not None and figure < least:
            raise ParameterError(
                f"mechanism must be made for {name} of at least {parameters.shown(least)}, got one for "
                f"{parameters.shown(figure)}{COVER}"
            )
