# SPDX-License-Identifier: Apache-2.0
"""Running totals of rows: a unit is bounded within a step, and over time, by dpfast itself.

What a step counts of a unit is a function of the release key, its id, its own rows in this step and
the earlier ones in which it has rows among the names (units.py). So one unit changes the counts of
at most per_unit_steps steps, apart or more from each other, each by no more than the Sensitivity
of the caps (bounded_histogram.py): what the totals are made for, and nothing more.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast.counts.records.bounded_histogram import CAPS, EACH_ROW, Bounds, Caps, Read, Terms, counted
from dpfast.counts.records.places import domain_keys
from dpfast.counts.running.state import Frozen, Kept
from dpfast.counts.running.steps import Cells, Running, RunningStep, opened
from dpfast.counts.running.units import after, in_order, may_count, must_be_alike, nobody, units_of
from dpfast.errors import DTypeError, FileError, ParameterError
from dpfast.noise.release.key import ReleaseKey, release_key
from dpfast.privacy.record import Record

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpfast.ledger import Ledger
    from dpfast.privacy.sensitivity import Sensitivity


class BoundedTotals(Record):
    """Running totals of rows, and how a unit is bounded within a step. `RunningTotals.bounded`."""

    totals: Any
    caps: Caps

    def __init__(self, totals: Any, bounds: Bounds) -> None:
        caps, _ = bounds.checked(summed=False)
        self._keep(totals=totals, caps=caps)

    def _running(self, ledger: Ledger, *, key: Any, names: Any, **options: Any) -> RunningRows:
        """What takes the steps that a ledger has paid for: its own door."""
        cells = RowCells(names, self, release_key(key))
        self.totals._check_cells("names", cells.number)  # noqa: SLF001  their own doors
        self.totals._refuse_less(cells.change)  # noqa: SLF001  once, for the rows of all steps
        return RunningRows(opened(self.totals, ledger, cells, key=key, **options))

    def __repr__(self) -> str:
        caps = ", ".join(f"{name}={cap}" for name, cap in zip(CAPS, self.caps, strict=True) if cap is not None)
        return f"<BoundedTotals of rows, {caps}, of {self.totals!r}>"


class RunningRows:
    """Running totals of rows that go on. `ledger.running(…)` makes it; a step is a method call."""

    def __init__(self, running: Running) -> None:
        self._running = running

    @property
    def totals(self) -> Any:
        return self._running.totals

    @property
    def manifest(self) -> Any:
        """What may be published of these totals: nothing in it depends on private values."""
        return self._running.manifest

    def step(self, t: int, keys: Any = None, unit_ids: Any = None, *, resume: bool = False) -> RunningStep:
        """The noisy totals after step t, of what the bounds leave of all rows so far.

        t: from 1, one after the other. keys, unit_ids: the rows of the step alone, columns as of
            `bounded_histogram`, whose domain are the names: other keys are dropped. A unit counts
            if it was counted in fewer than per_unit_steps steps so far, the last of them `apart` or
            more before; and with the rows that `bounded_histogram(…, key=key)` keeps. Late rows and
            corrections go into today's step, and use it up. Ids are integers or strings, of one
            kind in all steps.
        resume: instead of rows, what was written ahead of them (with state=).
        Returns: a RunningStep. The same step with the same rows gives the same bytes, in whatever
            order, chunk and process; nothing more is charged.
        Raises: ParameterError (a step out of order, or beyond the ceiling); OtherInputError (other
            counts or other units than this step was reserved with); LedgerError, FileError,
            DTypeError (also ids of another kind).
        Privacy: spends nothing more: the totals are paid for.
        """
        given = keys is not None and unit_ids is not None
        if not given and (keys is not None or unit_ids is not None):
            raise ParameterError("keys and unit_ids must be given together: one of each in a row")
        return self._running._step(t, (keys, unit_ids), resume, given=given)  # noqa: SLF001  it wraps it

    def begun(self, t: int) -> bool:
        """As Running.begun."""
        return self._running.begun(t)

    def __repr__(self) -> str:
        return f"{self._running!r}, of rows"


class RowCells(Cells):
    """The cells of running totals of rows, which it counts, and whom it has counted."""

    TAKES: ClassVar[str] = "keys and unit_ids"
    OF_STEP: ClassVar[str] = "rows"

    def __init__(self, names: Any, of: BoundedTotals, key: ReleaseKey) -> None:
        """Raises: DTypeError, ParameterError."""
        super().__init__(names)
        self._known, self._key, self._terms = domain_keys(self.sorted, self.sorted), key, Terms(of.caps, None, key.id)
        self._bound = of.totals.per_unit_steps, of.totals.apart
        about = of.totals.sensitivity
        self.change: Sensitivity = Bounds(*of.caps, adjacency=about.adjacency, unit=about.unit).sensitivity(
            of.caps, None, self.number
        )

    def terms(self) -> dict[str, int | str]:
        """The caps, and what the key names: how whoever reads rows makes keys and ids of them."""
        caps = {name: cap for name, cap in zip(CAPS, self._terms.caps, strict=True) if cap is not None}
        return {**dict(self._key.terms or ()), **caps}

    def nobody(self) -> npt.NDArray[np.uint64]:
        return nobody()

    def frozen(self, totals: Any, given: Any, kept: Any = None) -> Frozen:
        """given: keys and unit_ids."""
        try:
            keys, unit_ids = given
        except (TypeError, ValueError):
            raise DTypeError(f"a step of rows must be keys and unit_ids, not {type(given).__name__}") from None
        if unit_ids is EACH_ROW:
            raise ParameterError(
                "unit_ids must name units, whose steps are counted, and EACH_ROW names none: give counts of such rows to "
                "totals of counts"
            )
        read = Read.of(keys, unit_ids, None, self._known, domain="names")
        must_be_alike(kept.table, read.ids)
        held = read.held(None, self._key.chooser(), refuse=False)
        numbers, unit_of_row = held.numbers()
        units = units_of(held, numbers, read.ids, _sips(self._key))
        order = in_order(units)
        may = np.empty(order.size, bool)
        may[order] = may_count(kept.table, units[:, order], kept.t + 1, *self._bound)
        counts, _ = counted(held._replace(rows=held.rows[may[unit_of_row]]), self._terms)
        return Frozen(totals.clamped(counts, self.number), units[:, order[may[order]]])

    def resumed(self, frozen: Frozen, kept: Kept) -> Frozen:
        if not may_count(kept.table, frozen.units, kept.t + 1, *self._bound).all():
            raise FileError("what was written ahead is of other totals than those that were kept: give the rows again")
        return frozen

    def after(self, table: Any, units: Any, t: int) -> Any:
        return after(table, units, t)


def _sips(key: ReleaseKey) -> tuple[tuple[int, int], ...]:
    """Two keys of a pseudo-random function, for ids that are texts."""
    return tuple(struct.iter_unpack("<2Q", key._keyed("units of steps")))  # noqa: SLF001  a seal's own door
