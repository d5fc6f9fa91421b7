# SPDX-License-Identifier: Apache-2.0
"""Running totals that a ledger has paid for, step by step.

The order of a step: its counts are frozen and written ahead, its tag is reserved in the ledger, its
noise is drawn, and totals and state are kept in one file. Whatever stops it, the same step with the
same counts gives the same bytes; with other counts it is refused, never noised anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast.counts.running.state import Frozen, Kept, StateFile
from dpfast.errors import DTypeError, FileError, KeyReuseError, LedgerError, ParameterError
from dpfast.noise.release.columns import column
from dpfast.noise.release.counts import refuse_less
from dpfast.noise.release.key import release_key
from dpfast.noise.release.seal import another
from dpfast.noise.release.steps import STEPS, Stepping
from dpfast.privacy.parameters import flag, shown, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from dpfast.ledger import Ledger


class RunningStep:
    """The noisy totals of one step.

    t: its number. values: float64, in the order of the names. names: as they were given.
    """

    def __init__(self, totals: Any, t: int, values: npt.NDArray[np.float64], cells: Cells) -> None:
        self._totals, self.t, self.values, self._cells = totals, t, values, cells
        self.names = cells.names

    def interval(self, level: Any = 0.95) -> Any:
        """The half-width within which a total's noise stays with this probability."""
        return self._totals.interval(self.t, level)

    def metadata(self) -> dict[str, object]:
        """What a reader is told: JSON-able."""
        return {**self._totals.metadata(), **self._cells.terms(), "step": self.t}

    def __repr__(self) -> str:
        return f"<RunningStep {self.t}: {self.values.size} totals>"


class Running:
    """Running totals that go on. `ledger.running(…)` makes it; each step is a method call."""

    def __init__(self, totals: Any, seal: Stepping, cells: Cells) -> None:
        self.totals, self._seal, self._cells = totals, seal, cells
        encoder, decoder = totals.begin(cells.number)
        first = Kept(0, seal.chain_0, seal.tag_0, encoder, decoder, cells.nobody())
        self._first, self._kept = first, [first]
        self._file: StateFile | None = None
        self._steps: Any = None

    @property
    def manifest(self) -> Any:
        """What may be published of these totals: nothing in it depends on private values."""
        return self._seal.manifest

    def step(self, t: int, counts: Any = None, *, resume: bool = False) -> RunningStep:
        """The noisy totals after step t, of all counts so far.

        t: from 1, one after the other. counts: of the step alone, integers, a value a name, in the
            order of the names. They are frozen here: clamped to the bound of the totals, copied,
            and written ahead. Late rows and corrections go into today's step.
        resume: instead of counts, those that were written ahead (with state=).
        Returns: a RunningStep. The same step with the same counts gives the same bytes, in whatever
            process; nothing more is charged.
        Raises: ParameterError (a step out of order, or beyond the ceiling); OtherInputError (other
            counts than this step was reserved with); LedgerError, FileError, DTypeError.
        Privacy: spends nothing more: the totals are paid for.
        """
        return self._step(t, counts, resume, given=counts is not None)

    def _step(self, t: int, rows: Any, resume: bool, *, given: bool) -> RunningStep:
        """rows: what the step takes: its counts. given: whether the caller has given them."""
        at, again = whole("t", t, 1), flag("resume", resume)
        label, ceiling = self._seal.manifest.label, self.totals.ceiling
        if given is again:
            raise ParameterError(f"{self._cells.TAKES} or resume=True must be given, and one of them alone")
        if at > ceiling:
            raise ParameterError(
                f"t must be at most {ceiling:,}, up to which these totals are private, got {shown(t)}: go on with new "
                f"totals under {another(label)}, which are paid for"
            )
        kept = self._before(at)
        if again:
            return self._take(kept, self._cells.resumed(self._ahead(at), kept))
        return self._take(kept, self._cells.frozen(self.totals, rows, kept))

    def _take(self, kept: Kept, frozen: Frozen, *, keep: bool = True) -> RunningStep:
        """The step after the one that is kept. keep: whether its state goes to the disk."""
        t, file, tags = kept.t + 1, self._file, list[bytes]()
        chain = self._seal.chain(kept.chain, t, frozen.counts, frozen.units)
        encoded, encoder = self.totals.encode(kept.encoder, frozen.counts)

        def reserve(tag: bytes) -> None:
            tags.append(tag)
            self._steps.reserve(t, tag, kept.tag, lambda: None if file is None else file.write_ahead(t, frozen))

        noisy = self._seal.noised(self.totals.mechanism, t, chain, encoded, reserve)
        values, decoder = self.totals.decode(kept.decoder, noisy)
        after = Kept(t, chain, tags[0], encoder, decoder, self._cells.after(kept.table, frozen.units, t))
        if file is not None and keep:
            with self._steps.locked():
                file.replace(after)
        if t > self._kept[0].t:
            self._kept = [after, kept]
        return RunningStep(self.totals, t, self._cells.as_given(values), self._cells)

    def _begin(self, steps: Any, file: StateFile | None, replay: Iterable[Any]) -> Running:
        """Go on where the state is; or where none is, draw the steps of a replay again.

        steps: of the ledger, which has paid.
        """
        self._steps, self._file = steps, file
        if self._read():
            return self
        last, _ = steps.last()
        if file is not None and last == 0:
            with steps.locked():
                file.claim()
        for t, counts in enumerate(replay, 1):
            if t > last:
                raise ParameterError(
                    f"replay must be the {self._cells.OF_STEP} of the {last:,} steps that are reserved, got more"
                )
            kept = self._kept[0]
            self._take(kept, self._cells.frozen(self.totals, counts, kept), keep=t >= last - 1)
        return self

    def _before(self, t: int) -> Kept:
        """What is kept of step t - 1. Raises: ParameterError, LedgerError, FileError."""
        found = [kept for kept in self._kept if kept.t == t - 1] or [kept for kept in self._read() if kept.t == t - 1]
        if found:
            return found[0]
        newest, (last, _) = self._kept[0].t, self._steps.last()
        if t <= newest:
            can = " or ".join(str(kept.t + 1) for kept in self._kept[::-1])
            raise ParameterError(
                f"t must be {can}, got {t}: totals of earlier steps are released, and stand where they "
                "were written; an object without state= draws them again, from replay= or step by step"
            )
        behind = f": the state is at step {newest} and the ledger at {last}, so give each again with the same {self._cells.OF_STEP}"
        raise ParameterError(
            f"t must be {newest + 1}, the step after the last one, got {t}{behind if last > newest else ''}"
        )

    def _read(self) -> list[Kept]:
        """What the file has, if it agrees with the ledger. Raises: LedgerError, FileError."""
        if self._file is None:
            return []
        with self._steps.locked():
            found = self._file.read()
        if not found:
            return []
        if found[-1].t == 1:
            found.append(self._first)
        last, tag = self._steps.last()
        if found[0].t > last or (found[0].t == last and found[0].tag != tag):
            raise LedgerError(
                f"the state is at step {found[0].t} of {self._seal.manifest.label!r}, and the ledger at step {last}"
                f"{'' if found[0].t > last else ', of other counts'}: the ledger was restored from a copy, or the state is of "
                "another one; nothing was released"
            )
        if found[0].t >= self._kept[0].t:
            self._kept = found
        return found

    def _ahead(self, t: int) -> Frozen:
        """What was written ahead of step t. Raises: ParameterError, FileError."""
        found = None if self._file is None else self._file.written_ahead(t)
        if found is None:
            where = "without state= none are written ahead" if self._file is None else "none were written ahead for it"
            raise ParameterError(f"{self._cells.TAKES} must be given for step {t}, for {where}")
        return found

    def __repr__(self) -> str:
        return f"<Running {self._seal.manifest.label!r}, {self._cells.number} totals, at step {self._kept[0].t}>"


class Cells:
    """The cells of running totals: by public names, in whatever order these are given.

    They are kept in the order of the names, so another order gives each cell the same bytes.
    TAKES: what a step takes, as its parameters. OF_STEP: in a sentence.
    """

    TAKES: ClassVar[str] = "counts"
    OF_STEP: ClassVar[str] = "counts"

    def __init__(self, names: Any) -> None:
        """Raises: DTypeError, ParameterError (no names, or one of them twice)."""
        found = column("names", names)
        given = found.codes.tolist()
        if found.texts is not None:
            given = [found.texts[code] for code in given]
        self.names, self.number = given, len(given)
        self._order = np.array(sorted(range(self.number), key=given.__getitem__), np.intp)
        self.sorted = [given[place] for place in self._order]
        if not given:
            raise ParameterError("names must name at least one cell")
        twice = next((one for one, other in zip(self.sorted, self.sorted[1:], strict=False) if one == other), None)
        if twice is not None:
            raise ParameterError(f"names must name each cell once, and {shown(twice)} comes twice")

    def terms(self) -> dict[str, int | str]:
        """What a manifest says of how counts are made, beside the totals: nothing of counts."""
        return {}

    def nobody(self) -> Any:
        """The table of units before step 1, if there is one."""

    def frozen(self, totals: Any, counts: Any, kept: Any = None) -> Frozen:
        """What is frozen of a step: counts, clamped, in the order of the sorted names.

        counts: what the caller gives of the step. kept: of the step before.
        Raises: DTypeError, ParameterError.
        """
        del kept
        refuse_less(counts, totals)
        return Frozen(totals.clamped(counts, self.number)[self._order])

    def resumed(self, frozen: Frozen, kept: Kept) -> Frozen:
        """What was written ahead, if it may follow what is kept. Raises: FileError."""
        del kept
        return frozen

    def after(self, table: Any, units: Any, t: int) -> Any:
        """The table of units after step t, which has counted these, if there is one."""
        del table, units, t

    def as_given(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values in the order in which the names were given."""
        found = np.empty_like(values)
        found[self._order] = values
        return found


def opened(
    totals: Any,
    ledger: Ledger,
    cells: Cells,
    *,
    key: Any,
    state: Any = None,
    replay: Iterable[Any] = (),
    resume: bool = False,
) -> Running:
    """As Ledger.running, whose names make the cells."""
    held = release_key(key)
    kept = ledger._kept_totals(held) if resume else None  # noqa: SLF001  the ledger's own door
    if kept is not None and kept.kind == STEPS:
        totals = _as_kept(totals, cells, held.label, dict(kept.terms))
    seal = Stepping.of(held, totals, cells.sorted, cells.terms())
    if kept is not None and kept.kind == STEPS and kept.domain != seal.manifest.domain:
        raise KeyReuseError(
            f"names must be the {kept.size[0]:,} with which {held.label!r} was reserved, in any order: count what is new in a "
            f"cell that is there, such as 'other', or begin new totals with all names under {another(held.label)}"
        )
    days, running = _each(replay, cells.OF_STEP), Running(totals, seal, cells)
    file = None if state is None else StateFile(state, seal, running._first)  # noqa: SLF001
    if not resume and next(days, None) is not None:
        raise ParameterError("replay must be left out where totals are created, for no step of theirs is reserved")
    if file is not None and not resume and file.is_there():
        raise FileError(f"{file.path} is there: resume=True goes on with its totals, and new totals have another state")
    return running._begin(ledger._run(totals, seal, resume=resume), file, days)  # noqa: SLF001


def _each(replay: Any, what: str) -> Iterator[Any]:
    """Raises: DTypeError (nothing that gives one step after the other)."""
    try:
        return iter(replay)
    except TypeError:
        raise DTypeError(f"replay must give the {what} of each step, not be {type(replay).__name__}") from None


def _as_kept(totals: Any, cells: Cells, label: str, terms: dict[str, Any]) -> Any:
    """The totals of a manifest, if they are what was asked for: what a search finds may differ.

    Raises: KeyReuseError.
    """
    own = cells.terms()
    mine = {**totals.terms(), **own}
    for name in [each for each in {**mine, **terms} if each not in totals.FOUND]:
        if mine.get(name) != terms.get(name):
            raise KeyReuseError(
                f"{label!r} is reserved with another {name}, {terms.get(name)!r:.80}, not {mine.get(name)!r:.80}: go on with "
                f"what was reserved, or pay for {another(label)}"
            )
    return type(totals).of_terms({name: value for name, value in terms.items() if name not in own})
