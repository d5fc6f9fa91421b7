# SPDX-License-Identifier: Apache-2.0
"""Running totals that a ledger has paid for, step by step.

The order of a step: its counts are frozen and written ahead, its tag is reserved in the ledger, its
noise is drawn, and totals and state are kept in one file. Whatever stops it, the same step with the
same counts gives the same bytes; with other counts it is refused, never noised anew.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast.counts.running.state import Frozen, Kept, StateFile
from dpfast.errors import DTypeError, FileError, KeyReuseError, LedgerError, ParameterError
from dpfast.noise.release.columns import column
from dpfast.noise.release.counts import origin_of, refuse_less
from dpfast.noise.release.key import release_key, sealing
from dpfast.noise.release.seal import another, compare_here, reserve_here
from dpfast.noise.release.steps import STEPS, Here, Stepping
from dpfast.privacy.parameters import flag, shown, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from dpfast.ledger import Ledger
    from dpfast.noise.release.seal import Manifest


class RunningStep:
    """The noisy totals of one step, or of a window of the last ones. What they tell spends nothing.

    t: its number. values: float64, in the order of the names. names: as they were given.
    """

    def __init__(
        self,
        of: tuple[Any, Manifest, str],
        t: int,
        values: npt.NDArray[np.float64],
        cells: Cells,
        last: int | None = None,
    ) -> None:
        """of: the totals, their manifest, and the id of the key."""
        (self._totals, *self._sealed), self.t, self.values, self._cells, self._last = of, t, values, cells, last
        self.names = cells.names

    @property
    def _of(self) -> tuple[Any, ...]:
        return self._sealed, self.names, self.t, self._last

    def interval(self, level: Any = 0.95) -> Any:
        """The half-width within which a value's noise stays with this probability."""
        return self._totals.interval(self.t, level, self._last)

    def last(self, steps: int, before: Any = None) -> RunningStep:
        """The sums of the last steps, with an interval of their own: a window over time.

        before: the totals after the step before the window, as they were published: its
            RunningStep, or its values in the order of these names. No state keeps them. A window
            that begins with the first step has none.
        A window is a difference of two totals, which share most of their noise, so its interval is
        less than theirs together. Windows of fewer than about 8 steps have more noise than counts
        with noise of their own would have. Raises: DTypeError, ParameterError.
        """
        seen = whole("steps", steps, 1)
        if self._last is not None:
            raise ParameterError("last is of totals, and this is a window: ask the totals themselves")
        if (seen < self.t) is (before is None):
            must = "given" if before is None else "left out"
            raise ParameterError(
                f"before must be {must} for the last {seen:,} of {self.t:,} steps: the totals before them"
            )
        earlier = 0.0 if before is None else self._totals_before(self.t - seen, before)
        of = self._totals, *self._sealed
        return RunningStep(of, self.t, self.values - earlier, self._cells, min(seen, self.t))

    def _totals_before(self, t: int, before: Any) -> npt.NDArray[np.float64]:
        """Raises: DTypeError, ParameterError."""
        if isinstance(before, RunningStep):
            if before._of != (self._sealed, self.names, t, None):  # noqa: SLF001  another of its kind
                raise ParameterError(
                    f"before must be step {t:,} of the same totals, with its names in this order, got {before!r}"
                )
            return before.values
        found = np.asarray(before)
        if found.dtype.kind not in "iuf":
            raise DTypeError(f"before must be a RunningStep or its values, not {found.dtype}")
        if found.shape != self.values.shape:
            raise ParameterError(f"before must be one for each of {self.values.size:,} names, got shape {found.shape}")
        if not np.isfinite(found).all():
            raise ParameterError("before must be finite")
        return found.astype(np.float64)

    def metadata(self) -> dict[str, object]:
        """What a reader is told: JSON-able."""
        window = {} if self._last is None else {"last": self._last}
        return {**self._totals.metadata(), **self._cells.terms(), "step": self.t, **window}

    def __repr__(self) -> str:
        window = "" if self._last is None else f", windows of {self._last}"
        return f"<RunningStep {self.t}: {self.values.size} totals{window}>"


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
        again = flag("resume", resume)
        if given is again:
            raise ParameterError(f"{self._cells.TAKES} or resume=True must be given, and one of them alone")
        kept = self._next(t)
        if again:
            return self._take(kept, self._cells.resumed(self._ahead(kept.t + 1), kept))
        return self._take(kept, self._cells.frozen(self.totals, rows, kept))

    def begun(self, t: int) -> bool:
        """Whether what step t takes was written ahead, so that resume=True takes it (with state=).

        Raises: ParameterError (a step out of order, or beyond the ceiling); LedgerError, FileError,
            DTypeError.
        """
        at = self._next(t).t + 1
        return self._file is not None and self._file.written_ahead(at) is not None

    def _next(self, t: int) -> Kept:
        """What step t goes on from. Raises: DTypeError, ParameterError, LedgerError, FileError."""
        at, ceiling = whole("t", t, 1), self.totals.ceiling
        if at > ceiling:
            raise ParameterError(
                f"t must be at most {ceiling:,}, up to which these totals are private, got {shown(t)}: go on with new "
                f"totals under {another(self._seal.manifest.label)}, which are paid for"
            )
        return self._before(at)

    def _take(self, kept: Kept, frozen: Frozen, *, keep: bool = True) -> RunningStep:
        """The step after the one that is kept. keep: whether its state goes to the disk."""
        t, file, tags = kept.t + 1, self._file, list[bytes]()
        chain = self._seal.chain(kept.chain, t, frozen.counts, frozen.units)
        encoded, encoder = self.totals.encode(kept.encoder, frozen.counts)

        def ahead() -> None:
            self._seal.compare_here(t, tags[0], note=False)
            if file is not None:
                file.write_ahead(t, frozen)

        def reserve(tag: bytes) -> None:
            tags.append(tag)
            self._steps.reserve(t, tag, kept.tag, ahead)
            self._seal.compare_here(t, tag, note=True)

        noisy = self._seal.noised(self.totals.mechanism, t, chain, encoded, reserve)
        values, decoder = self.totals.decode(kept.decoder, noisy)
        after = Kept(t, chain, tags[0], encoder, decoder, self._cells.after(kept.table, frozen.units, t))
        if file is not None and keep:
            self._steps.locked(partial(file.replace, after))
        if t > self._kept[0].t:
            self._kept = [after, kept]
        of = self.totals, self._seal.manifest, self._seal.key.id
        return RunningStep(of, t, self._cells.as_given(values), self._cells)

    def _begin(self, steps: Any, file: StateFile | None, replay: Iterable[Any]) -> Running:
        """Go on where the state is; or where none is, draw the steps of a replay again.

        steps: of the ledger, which has paid.
        """
        self._steps, self._file = steps, file
        if self._read():
            return self
        last, _ = steps.last()
        if file is not None and last == 0:
            steps.locked(file.claim)
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
        found: list[Kept] = self._steps.locked(self._file.read)
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
        if (origin := origin_of(counts)) and origin.cells not in (None, np.size(counts)):
            refuse_over_time(counts, totals, origin.cells)  # its other cells may be of other steps
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


def refuse_over_time(counts: Any, totals: Any, steps: int) -> None:
    """Refuse bounded counts if one unit may change them in more steps than the totals hide.

    steps: in how many they may lie. Caps are of all that was counted together.
    Raises: ParameterError. It depends on public numbers alone.
    """
    if (origin := origin_of(counts)) is None:
        return
    change = origin.sensitivity
    most = change.contributes.l0 if change.contributes else change.l0
    times = min(steps, most or steps)
    if times > totals.per_unit_steps or (times > 1 and totals.apart > 1):
        raise ParameterError(
            f"totals must be made with per_unit_steps={times} or more and apart=1, because one unit may change {times} steps of "
            f"what was counted together, got per_unit_steps={totals.per_unit_steps} and apart={totals.apart}; a histogram for "
            "each step has caps of its own"
        )


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
    if not resume and next(days, running) is not running:
        raise ParameterError("replay must be left out where totals are created, for no step of theirs is reserved")
    if file is not None and not resume and file.is_there():
        raise FileError(f"{file.path} is there: resume=True goes on with its totals, and new totals have another state")
    if not resume:
        compare_here(seal.seal(totals.mechanism))
    steps = ledger._run(totals, seal, resume=resume)  # noqa: SLF001
    reserve_here(seal.seal(totals.mechanism), resume=True)
    return running._begin(steps, file, days)  # noqa: SLF001


def without_ledger(
    totals: Any, counts: npt.NDArray[Any], key: Any, names: Any, *, resume: bool
) -> npt.NDArray[np.float64]:
    """The values of all steps, (steps, cells), where nobody pays: `running_totals` under a key."""
    held, cells = release_key(key), Cells(names)
    if cells.number != counts.shape[1]:
        raise ParameterError(f"names must be one for each of {counts.shape[1]:,} cells, got {cells.number:,}")
    sealing(held, counts)  # which refuses counts of rows that a later try would choose anew
    seal = Stepping.of(held, totals, cells.sorted, cells.terms())
    running = Running(totals, seal, cells)._begin(Here(seal, totals.mechanism, resume=resume), None, ())  # noqa: SLF001
    return np.array([running.step(t, day).values for t, day in enumerate(counts, 1)])


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
    mine = {**own, **totals.terms()}
    for name in [each for each in {**mine, **terms} if each not in totals.FOUND]:
        if mine.get(name) != terms.get(name):
            raise KeyReuseError(
                f"{label!r} is reserved with another {name}, {terms.get(name)!r:.80}, not {mine.get(name)!r:.80}: go on with "
                f"what was reserved, or pay for {another(label)}"
            )
    return type(totals).of_terms({name: value for name, value in terms.items() if name not in own})
