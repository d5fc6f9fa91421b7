# SPDX-License-Identifier: Apache-2.0
"""What a user holds: a ledger, which pays for releases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dpfast.errors import DataDependentError, DTypeError, KeyReuseError, LedgerError, ParameterError
from dpfast.ledger import head, place, store
from dpfast.ledger.plan import Left, law_of, releases_of
from dpfast.ledger.steps import Steps
from dpfast.ledger.store import Charge, Reservation, Reserved, Store, Terms
from dpfast.ledger.table import History
from dpfast.noise.mechanisms.described import Described, Payable
from dpfast.noise.mechanisms.mechanism import Releasing
from dpfast.noise.release.counts import refuse_less
from dpfast.noise.release.key import Key, KeyFile, ReleaseKey, release_key, sealing
from dpfast.noise.release.seal import (
    BUCKETS,
    Manifest,
    Seal,
    Sealed,
    another,
    by_column,
    check_versions,
    compare,
    compare_here,
    cost_of,
    joined,
    kind_of,
    must_be_alike,
    must_continue,
    records,
    reserve_here,
)
from dpfast.noise.release.secret import ID_LENGTH, Labelled, encode
from dpfast.noise.release.steps import Stepping
from dpfast.paths import absolute
from dpfast.privacy import gaussian, parameters
from dpfast.privacy.composition import Part
from dpfast.privacy.formatting import amounts
from dpfast.privacy.guarantee import Guarantee, guarantee_of
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from typing import Unpack

    from dpfast.noise.mechanisms import released
    from dpfast.noise.mechanisms.integer import Frame, IntegerMechanism
    from dpfast.noise.mechanisms.mechanism import Paid, PaidWithoutDtype
    from dpfast.noise.mechanisms.real import RealMechanism
    from dpfast.noise.mechanisms.selection import Selection

MOST_BUDGET, LONGEST_BUDGET = 2**64, 1100  # bits of a numerator or denominator
LONGEST_TEXT = 200

Law = TypeVar("Law", bound=Releasing)


class Ledger:
    """A privacy budget in a file: every release is charged before its noise is drawn, or refused.

    path: the file. It is opened, not made: a misspelt path is an error and never a new budget.
    create: make the ledger, at a path where no file is yet.
    epsilon and delta, or rho: the total that may ever be spent, a float by its shortest decimal.
        delta beside rho is the total of the releases' own deltas, those of `thresholded` and of
        guarantees from elsewhere. Without it no such release fits.
    by: "zcdp" keeps a total (epsilon, delta) in zCDP, in which many releases cost less. The file
        fixes the largest rho, in nine digits, that implies epsilon at delta - own_delta. "gdp"
        keeps it in Gaussian differential privacy, in which releases with real Gaussian noise cost
        least: Gaussian.calibrated(…, releases=n) is paid n times. The file fixes the largest
        mu^2, in 20 digits, whose mu-GDP implies epsilon at delta. A pure epsilon pays as well; no
        other release does.
    own_delta: the total of the releases' own deltas; by default 0.
    dataset: its name; by default the file's. adjacency, unit: by default "add-remove" and "person".
        These and the total are stored. Opening refuses other terms; a release refuses a mechanism
        of another adjacency or unit.

    The budget is in (epsilon, delta), in rho, in rho and delta, or in mu^2. Each release is charged
    what it guarantees in these, and one is never traded for the other. Spends are added up as exact
    rationals; where a sum's denominator outgrows 1,024 bits, a charge is rounded up by less than
    2^-1074. Parameters may be chosen from earlier results:
    `import dpfast.ledger; help(dpfast.ledger)` has the proof.

    shared_with: the name or number of a group whose members charge it, too; by default nobody but
        the account does. With create=True the group may write to the file.

    Processes and threads may share the file, and a Ledger may be pickled or forked: two that want
    the last of the budget do not both get it. Put it on a local disk, in a folder to which nobody
    else may add a file: elsewhere it can be read, and is not charged (docs/ledger.md). A ledger
    that was deleted or restored from a copy forgets. An open Ledger notices what it saw before, and
    releases under a KeyFile what they saw. A spend is never given back, whatever became of its
    release. The file FILE.lock beside it is the ledger's lock: leave it there.
    Raises: DTypeError, ParameterError; LedgerError (no ledger, or one where it is to be made;
        damaged, locked, under two names, other terms; to be made where others may add files);
        UnsupportedError (on Windows).

    >>> ledger = dpfast.Ledger("year.db", 3, dataset="visits", unit="patient", create=True)
    >>> counts = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1, unit="patient")
    >>> noisy = ledger.release(counts, [12, 0, 7], label="visits by ward")
    >>> ledger.spent.epsilon, ledger.remaining.epsilon, ledger.fits(counts)
    (Fraction(1, 1), Fraction(2, 1), 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: Real | None = None,
        *,
        delta: Real | None = None,
        rho: Real | None = None,
        by: str | None = None,
        own_delta: Real | None = None,
        dataset: str | None = None,
        adjacency: str | None = None,
        unit: str | None = None,
        create: bool = False,
        shared_with: str | int | None = None,
    ) -> None:
        place.check_system()
        file, group = absolute(path), _group_of(shared_with)
        given = {
            "dataset": None if dataset is None else _text("dataset", dataset),
            "adjacency": None if adjacency is None else parameters.adjacency(adjacency),
            "unit": None if unit is None else _text("unit", parameters.unit(unit)),
        }
        asked = _budget(epsilon, delta, rho, by, own_delta)
        if parameters.flag("create", create):
            if not asked:
                raise ParameterError("create=True needs the total that may ever be spent: epsilon (with delta), or rho")
            about = _text("dataset", dataset or file.stem), adjacency or "add-remove", unit or "person"
            store.create(file, Terms(tuple(asked), tuple(asked.values()), *about), group)
        self._store = Store(file, group)
        terms = self._store.terms
        if asked and tuple(asked) != terms.accounting:
            raise LedgerError(f"{file} is kept in {' and '.join(terms.accounting)}, not in {' and '.join(asked)}")
        of_file = {**terms._asdict(), **dict(zip(terms.accounting, terms.budget, strict=True))}
        for name, value in {**given, **asked}.items():
            if value is not None and value != of_file[name]:
                raise LedgerError(f"{file} was made for {name} {of_file[name]!s:.60}, not {value!s:.60}")

    # ------------------------------------------------------------------ releases

    @overload
    def release(
        self, mechanism: IntegerMechanism, values: released.Whole, /, **options: Unpack[PaidWithoutDtype]
    ) -> released.Int64: ...
    @overload
    def release(
        self, mechanism: IntegerMechanism, values: released.Whole, /, **options: Unpack[Paid]
    ) -> released.OneWhole: ...
    @overload
    def release(
        self, mechanism: IntegerMechanism, values: released.Many, /, **options: Unpack[Paid]
    ) -> released.Wholes: ...
    @overload
    def release(
        self, mechanism: RealMechanism, values: released.RealNumber, /, **options: Unpack[Paid]
    ) -> released.OneReal: ...
    @overload
    def release(
        self, mechanism: RealMechanism, values: released.Many, /, **options: Unpack[Paid]
    ) -> released.Reals: ...
    @overload
    def release(self, mechanism: Releasing, values: Frame, /, **options: Unpack[Paid]) -> Frame: ...
    @overload
    def release(self, mechanism: Selection, values: released.Scores, /, *, label: str | None = ...) -> int: ...
    @overload
    def release(
        self, mechanism: Selection, values: released.Scores, /, *, k: int, label: str | None = ...
    ) -> released.Places: ...
    @overload
    def release(self, mechanism: Payable, values: Any, /, *, label: str | None = ...) -> Any: ...

    def release(
        self,
        mechanism: Payable,
        values: Any,
        /,
        *,
        label: str | None = None,
        key: ReleaseKey | None = None,
        resume: bool = False,
        **options: Any,
    ) -> Any:
        """`mechanism.release(values, **options)`, checked, then charged, then drawn.

        For a selection this is its `select`, which pays for k picks if it has k. For AboveThreshold
        it is its `run`. Randomized response charges its epsilon once: a unit spends it by all its
        answers, at most `answers_per_unit`.
        values: what the mechanism's release takes; it returns what that returns. label: for the
            history, of a release without a key; a key has its own. options: for the mechanism's
            release: out, dtype, lower, upper, clamp, missing, threads, constant_time; under a key
            names, a column of integers or strings, as many as the values and sealed with them.
        key, resume: without a key every call is a new release. Under a key the values are sealed,
            the seal is reserved, and the noise is drawn: one label, one charge, any number of tries
            (docs/sealed.md). Again only with resume=True, and only with equal values.

        A lazy expression of Polars is charged at every evaluation.
        Raises: BudgetExhausted, LedgerError; KeyReuseError (the label is reserved: without
            resume=True, under another key, for another mechanism, cost or shape); OtherInputError;
            DTypeError, ParameterError (also a mechanism of another adjacency or unit, or without a
            guarantee in the ledger's accounting unit; a fixed key); what release raises. What is
            refused for its values (DataDependentError) is recorded as a refused attempt. Nothing is
            charged then, except if the failure comes after the charge: no key from the system, a
            full memory, Ctrl-C, values that change between the seal and a draw into `out`.
        Privacy: spends what the mechanism's guarantee says, from the ledger's budget; under a key
            once for its label.

            >>> ledger = dpfast.Ledger("visits.db", epsilon=3, create=True)
            >>> mechanism = dpfast.DiscreteLaplace(epsilon=0.5, sensitivity=1)
            >>> key, cities = dpfast.Key.generate().derive("visits 2026-11"), ["Lima", "Oslo", "Pune"]
            >>> noisy = ledger.release(mechanism, [120, 80, 3], key=key, names=cities)
            >>> again = ledger.release(mechanism, [120, 80, 3], key=key, names=cities, resume=True)
            >>> bool((noisy == again).all()), float(ledger.spent.epsilon)
            (True, 0.5)
        """
        if not isinstance(mechanism, Payable):
            raise DTypeError(
                f"mechanism must be one of dpfast's, not {type(mechanism).__name__}; for others there is spend"
            )
        again = parameters.flag("resume", resume)
        refuse_less(values, mechanism)
        mechanism._check_options(options)  # noqa: SLF001
        if key is None:
            charge = self._charge("" if label is None else label, *mechanism._terms(options))  # noqa: SLF001
            if again:
                raise ParameterError("resume is for a release under a key; there is no key, got resume=True")
            with self._on_record(charge, unpaid=True):
                return mechanism._release(values, partial(self._store.charge, [charge]), **options)  # noqa: SLF001  the ledger's own door
        if label is not None:
            raise ParameterError(f"label must not be given beside a key, which has its own, got {shown(label)}")
        if not isinstance(mechanism, Releasing):
            raise ParameterError(
                f"key must be left out for a {type(mechanism).__name__}, which draws anew at every call"
            )
        public = mechanism._inputs(options.get("clamp"), options.get("missing"))  # noqa: SLF001
        about = release_key(sealing(key, values))._naming(public.named())  # noqa: SLF001
        charge = self._charge(about.label, mechanism.guarantee, mechanism.metadata())
        self._look(about, mechanism, charge, resume=again)
        reserve = partial(self._reserve, resume=again)
        with self._on_record(charge):
            return mechanism._release(values, reserve, key=about, resume=again, **options)  # noqa: SLF001

    def _recording(self, mechanism: Any, label: str, *, unpaid: bool) -> AbstractContextManager[None]:
        """Within, what is refused for its values is recorded as a refused attempt of this release.

        unpaid: whether nobody has asked yet if the budget suffices. Raises: ParameterError (a
            mechanism or a label that the ledger would refuse).
        """
        return self._on_record(self._charge(label, mechanism.guarantee, mechanism.metadata()), unpaid=unpaid)

    @contextmanager
    def _on_record(self, charge: Charge, *, unpaid: bool = False) -> Iterator[None]:
        """What is refused for its values is recorded, for the refusal tells of them.

        unpaid: whether nobody has asked yet if the budget suffices.
        """
        try:
            yield
        except DataDependentError as refused:
            record = {**charge.record, "refused": type(refused).__name__}
            self._store.refuse(charge._replace(record=record), unpaid=unpaid)
            raise

    def expect(self, key: ReleaseKey | None, mechanism: Any, *, resume: bool = False) -> bool:
        """Whether the label is reserved. It refuses what `reserve` would, whatever the values are.

        Ask before values are read that take long: whether the label is free or may be continued,
        and whether the budget suffices.
        key: a release key; or None of a release without one, of which only the budget is asked.
        mechanism, resume: as of the seal, and of reserve. Nothing is charged, and nothing is kept.
        Raises: BudgetExhausted, LedgerError; KeyReuseError (reserved without resume=True, under
            another key, for another mechanism or cost); DTypeError, ParameterError. `reserve`
            compares shape and input, too.

            >>> ledger = dpfast.Ledger("expected.db", epsilon=3, create=True)
            >>> key, mechanism = dpfast.Key.generate().derive("visits 2026-11"), dpfast.DiscreteLaplace(1, 1)
            >>> ledger.expect(key, mechanism)
            False
            >>> noisy = ledger.release(mechanism, [120, 80, 3], key=key)
            >>> ledger.expect(key, mechanism, resume=True)
            True
        """
        return self._expected(key, mechanism, resume=resume) is not None

    def _expected(
        self, key: ReleaseKey | None, mechanism: Any, *, resume: bool, follows: Mapping[str, str] | None = None
    ) -> Manifest | None:
        """As expect; the manifest of the label, if it is reserved. follows: as of _look."""
        columns = by_column(mechanism)
        if key is None:
            if parameters.flag("resume", resume):
                raise ParameterError("resume is for a release under a key; there is no key, got resume=True")
            self._store.look(self._charge("", cost_of(columns), {"mechanism": ""}), b"", lambda _: None)
            return None
        about = release_key(key)
        charge = self._charge(about.label, cost_of(columns), {"mechanism": ""})
        return self._look(about, mechanism, charge, resume=parameters.flag("resume", resume), follows=follows)

    def _look(
        self,
        key: ReleaseKey,
        mechanism: Any,
        charge: Charge,
        *,
        resume: bool,
        follows: Mapping[str, str] | None = None,
    ) -> Manifest | None:
        """The manifest of the label. What is public is compared before values are read.

        follows: terms that the seal will name if the kept one does.
        """
        there: list[Manifest] = []

        def known(found: Reserved) -> None:
            where, kept = _continued(key.label, key.id, resume, found), self._kept(found)
            kind = BUCKETS if kept.kind == BUCKETS else kind_of(mechanism)
            also = tuple(term for term in kept.terms if term in (follows or {}).items())
            terms = kept.terms if key.terms is None else joined(key.terms, also)
            columns = records(by_column(mechanism))
            like = kept._replace(kind=kind, columns=columns, terms=terms)  # shape and domain are not known yet
            must_be_alike(key.label, where, like.unlike(kept, by_column(mechanism)) or self._dearer(found, charge))
            there.append(kept)

        self._recall(key)
        self._store.look(charge, _hash(key.label), known)
        return there[0] if there else None

    def _recall(self, key: Labelled) -> None:
        """From now on the ledger must have what releases under the key's file last saw."""
        self._store.must_have(head.seen(key, self._store.terms.digest), f"the head beside {key.place}")

    def reserve(self, seal: Seal, *, resume: bool = False) -> Sealed:
        """Charge a sealed release, once for its label; the sealed key that is returned draws it.

        All columns are charged, or none, in one transaction that is on the disk before this
        returns. What is reserved is spent, whether or not a block is drawn.
        seal: of `key.seal(…)`. resume: whether this is the release again that is reserved under
            the label. Where nothing is reserved, it is reserved.
        Raises: BudgetExhausted, LedgerError; KeyReuseError, OtherInputError, as release;
            DTypeError; ParameterError. Nothing is charged then.
        Privacy: spends the seal's cost, once for its label. Source: docs/sealed.md.

            >>> ledger = dpfast.Ledger("reserved.db", epsilon=3, create=True)
            >>> key, mechanism = dpfast.Key.generate().derive("visits 2026-11"), dpfast.DiscreteLaplace(1, 1)
            >>> digests = [key.digester(mechanism)(0, [120, 80, 3])]  # each by a worker
            >>> sealed = ledger.reserve(key.seal(mechanism, digests, shape=(3,)), resume=True)
            >>> sealed.release(0, [120, 80, 3]).shape
            (3,)
        """
        if not isinstance(seal, Seal):
            raise DTypeError(f"seal must be a Seal, of key.seal(…), not {type(seal).__name__}")
        again = parameters.flag("resume", resume)
        with self._on_record(self._charge(seal.manifest.label, seal.cost, seal.metadata())):
            self._reserve(seal, resume=again)
        return seal._reserved()  # noqa: SLF001  for who has reserved

    def _reserve(self, seal: Seal, *, resume: bool) -> None:
        if not seal.secure:
            raise ParameterError("key must be secret: what is released under a fixed key is private to nobody")
        about, key = seal.manifest, bytes.fromhex(seal.key_id)
        charge = self._charge(about.label, seal.cost, {**seal.metadata(), "manifest": about.metadata()})
        charge = charge._replace(record=_priced(charge))

        def known(found: Reserved) -> None:
            where, dearer = _continued(about.label, seal.key_id, resume, found), self._dearer(found, charge)
            compare(seal, self._kept(found), (seal.tag, found.tag), where=where, unlike=dearer)

        self._recall(seal._key)  # noqa: SLF001  whose file has the head
        try:
            compare_here(seal)
        except KeyReuseError:
            self._store.look(charge, _hash(about.label), known)  # the ledger also says since when
            raise
        after = self._store.reserve(charge, Reservation(_hash(about.label), key, seal.tag), known)
        if after and seal._key.place is not None:  # noqa: SLF001
            head.note(seal._key.place, self._store.terms.digest, after)  # noqa: SLF001
        reserve_here(seal, resume=True)  # another thread may have released another input meanwhile

    # ------------------------------------------------------------------ running totals

    def running(
        self,
        totals: Any,
        *,
        key: ReleaseKey,
        names: Any,
        state: str | os.PathLike[str] | None = None,
        replay: Iterable[Any] = (),
        resume: bool = False,
    ) -> Any:
        """Charge running totals, once for all their steps; what is returned takes the steps.

        totals: a RunningTotals; or of rows, whose units are bounded over time, `totals.bounded(…)`.
        key: a release key, whose label names them for their whole life.
        names: public, of the cells, a column of integers or strings, each once. They are fixed for
            life. Counts and totals are in the order given here, which may be another the next time:
            cells are matched by name.
        state: a file for what the next step needs. It is as private as the counts, its owner's
            alone, and changed by each step; STATE.before and STATE.ahead lie beside it. Without it
            what is needed lives in this process.
        replay: where no state is there, or none is kept: the counts of the steps that were
            reserved, from step 1 on, as they were frozen; of rows (keys, unit_ids) of each. They
            are drawn again, for nothing.
        resume: whether these totals are there, and are gone on with.
        Returns: a Running. `step(t, counts)` gives the totals of step t; after a crash
            `step(t, resume=True)` the same, of the counts that were written ahead. A step's
            `.last(w, before)` is a window, from the totals as they were w steps before.
        Raises: BudgetExhausted, LedgerError; KeyReuseError (the label is reserved: without
            resume=True, under another key, for other totals, names or cost); FileError (a state
            that is damaged, or another's; one that is there before the totals are); OtherInputError
            (a replay of other counts); DTypeError; ParameterError (also resume=True where nothing
            is reserved). What is public is refused before anything is charged.
        Privacy: spends what the guarantee of the totals says, once. Source: docs/behind/running.md.

            >>> once = dpfast.Sensitivity(l0=1, linf=1)  # a person signs up once, in one city
            >>> totals = dpfast.RunningTotals(365, sensitivity=once, rho="0.5")
            >>> ledger = dpfast.Ledger("sign-ups.db", rho=1, create=True)
            >>> key = dpfast.KeyFile.create("sign-ups.key").derive("sign-ups 2026")
            >>> options = {"key": key, "names": ["Lima", "Oslo"], "state": "sign-ups.state"}
            >>> first = ledger.running(totals, **options).step(1, [120, 80])
            >>> second = ledger.running(totals, **options, resume=True).step(2, [90, 75])  # the next day
            >>> second.values.shape, ledger.spent.rho
            ((2,), Fraction(1, 2))
        """
        if not hasattr(totals, "_running"):
            raise DTypeError(f"totals must be RunningTotals, not {type(totals).__name__}")
        again = parameters.flag("resume", resume)
        return totals._running(self, key=key, names=names, state=state, replay=replay, resume=again)  # noqa: SLF001

    def _kept_totals(self, held: ReleaseKey) -> Manifest | None:
        """The manifest that is reserved under the label of running totals, if there is one."""
        there: list[Manifest] = []

        def known(found: Reserved) -> None:
            _continued(held.label, held.id, True, found)
            there.append(self._kept(found))

        self._recall(held)
        self._store.last_step(_hash(held.label), known)
        return there[0] if there else None

    def _taken(self, label: str) -> int | None:
        """How many steps of the totals of this label are reserved; None: the label is not."""
        found = self._store.last_step(_hash(label), lambda _: None)
        return None if found is None else found[0]

    def _run(self, totals: Any, seal: Stepping, *, resume: bool) -> Steps:
        """Charge running totals and create them, or open them; what reserves their steps."""
        key, about = seal.key, seal.manifest
        if not key.secure:
            raise ParameterError("key must be secret: what is released under a fixed key is private to nobody")
        record = {**totals.metadata(), "manifest": about.metadata()}
        charge = self._charge(about.label, totals.guarantee, record, "totals")
        charge = charge._replace(record=_priced(charge))

        def known(found: Reserved, again: bool = True) -> None:
            where = _continued(about.label, key.id, again, found)
            unlike = about.unlike(self._kept(found), {"": totals.mechanism}) or self._dearer(found, charge)
            must_be_alike(about.label, where, unlike)

        steps = Steps(self._store, _hash(about.label), key, known, partial(self._on_record, charge))
        self._recall(seal.key)
        if resume:
            if self._store.last_step(steps.label, known) is None:
                raise ParameterError(
                    f"resume must be left out, for nothing is reserved under {about.label!r} in {self.path}: without it the "
                    "totals are charged and created"
                )
            return steps
        reservation = Reservation(steps.label, bytes.fromhex(key.id), seal.tag_0)
        after = self._store.reserve(charge, reservation, partial(known, again=False))
        if after and key.place is not None:
            head.note(key.place, self._store.terms.digest, after)
        return steps

    def _dearer(self, found: Reserved, charge: Charge) -> str:
        """How the price of a reservation differs, in words; nothing if it does not."""
        record = _priced(charge)
        if found.entry.parameters.get("cost") != record["cost"]:
            there = [getattr(found.entry, name) for name in self._store.terms.accounting]
            return f"at another cost, {self._said(there)}, not {self._said(charge.amounts)}"
        return ""

    def _kept(self, found: Reserved) -> Manifest:
        """What a reservation keeps, to compare with. Raises: LedgerError, ParameterError."""
        try:
            kept: Any = found.entry.parameters["manifest"]
            check_versions(kept["stream"], kept["version"])
            return Manifest.of(kept)
        except (TypeError, LookupError):
            raise store.damaged(self.path, f"charge {found.entry.number} does not say what it reserved") from None

    def spend(self, *releases: Part, label: str = "") -> None:
        """Charge all these releases or none; only after this returns, draw their noise elsewhere.

        For noise of another library: dpfast's own is charged by `release` and `reserve`.

        releases: mechanisms, dpfast's or not, with a `guarantee`; or Guarantees.
        Raises: as release.

        >>> ledger = dpfast.Ledger("survey.db", 1, create=True)
        >>> ledger.spend(dpfast.Guarantee(epsilon="0.4"), label="a release of another library")
        >>> ledger.remaining.epsilon
        Fraction(3, 5)
        """
        self._store.charge([self._charge_of(label, each, "each of releases") for each in releases])

    def cost(self, release: Part) -> dict[str, Fraction]:
        """What a release would be charged: amounts by the names in which the ledger is kept.

        >>> ledger = dpfast.Ledger("costs.db", 1, create=True)
        >>> ledger.cost(dpfast.DiscreteLaplace(epsilon="0.25", sensitivity=1))
        {'epsilon': Fraction(1, 4), 'delta': Fraction(0, 1)}
        """
        return dict(zip(self._store.terms.accounting, self._charge_of("", release, "release").amounts, strict=True))

    def fits(self, release: Part) -> int | None:
        """How many more releases like this one fit; None: any number, for it spends nothing.

        >>> dpfast.Ledger("fits.db", 1, create=True).fits(dpfast.Guarantee(epsilon="0.3"))
        3
        """
        asked = self._charge_of("", release, "release").amounts
        left = zip(self._left(), asked, strict=True)
        return min((int(rest // each) for rest, each in left if each), default=None)

    def calibrated(
        self,
        law: type[Law],
        /,
        *,
        releases: int,
        sensitivity: Real | Sensitivity,
        granularity: Real | None = None,
        bound: Real | None = None,
    ) -> Law:
        """The least noisy mechanism of which n more releases fit, if nothing else is charged.

        releases: n. All of them are paid, and another one is refused. What was charged before
            counts; what is charged meanwhile is lacking in the end, and `fits` says how many still
            fit. Make it once, and write down what it spends: a plan that is made anew each week
            divides what is left anew.
        law: the class: DiscreteLaplace, Laplace, Snapping, DiscreteGaussian or Gaussian. A ledger
            by="gdp" takes no DiscreteGaussian.
        sensitivity: of one release. A number is taken for the ledger's adjacency and unit; the
            Gaussians need a Sensitivity.
        granularity, bound: as the law takes them.

        Each release spends the nth part of what is left, exactly: of the epsilon, of the epsilon
        and of the delta, of the rho or of the mu^2. A Laplace law in rho or mu^2 has the largest
        epsilon of nine digits that does. What is left in a fraction too long to be added exactly
        (1,024 bits) gives the largest part of nine digits.
        Raises: BudgetExhausted (nothing is left); LedgerError; DTypeError, ParameterError.
        Privacy: spends nothing; each release of what it returns does.

        >>> ledger = dpfast.Ledger("2027.db", epsilon=2, delta=1e-6, by="zcdp", create=True)
        >>> cases = dpfast.Sensitivity(l0=1, linf=1)
        >>> week = ledger.calibrated(dpfast.DiscreteGaussian, releases=52, sensitivity=cases)
        >>> ledger.fits(week), week.interval(0.95)
        (52, 34)
        """
        plan = Left(self._store.terms, self._store.spent(), releases_of(releases), self._amounts_of_law)
        given = {"granularity": granularity, "bound": bound}
        options = {name: value for name, value in given.items() if value is not None}
        return plan.calibrated(law_of(law), sensitivity, options)  # type: ignore[no-any-return]

    def _amounts_of_law(self, made: Part) -> tuple[Fraction, ...]:
        return self._charge_of("", made, "law").amounts

    # ------------------------------------------------------------------ records

    @property
    def budget(self) -> Guarantee:
        """The total that may ever be spent, with its adjacency and unit.

        >>> dpfast.Ledger("budget.db", 1, delta="1e-6", create=True).budget.delta
        Fraction(1, 1000000)
        """
        return self._guarantee(self._store.terms.budget)

    @property
    def spent(self) -> Guarantee:
        """What is spent so far, exactly.

        >>> dpfast.Ledger("spent.db", 1, create=True).spent.epsilon
        Fraction(0, 1)
        """
        return self._guarantee(self._store.spent())

    @property
    def remaining(self) -> Guarantee:
        """What is left, exactly.

        >>> dpfast.Ledger("left.db", 1, create=True).remaining.epsilon
        Fraction(1, 1)
        """
        return self._guarantee(self._left())

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def dataset(self) -> str:
        return self._store.terms.dataset

    def history(self) -> History:
        """All charges in their order, after their sums were found right.

        >>> ledger = dpfast.Ledger("history.db", 1, create=True)
        >>> ledger.spend(dpfast.Guarantee(epsilon="0.4"), label="pilot")
        >>> [(charge.number, charge.label, charge.epsilon) for charge in ledger.history()]
        [(1, 'pilot', Fraction(2, 5))]
        """
        return History(self._store.entries())

    def verify(self, key: KeyFile | None = None) -> int:
        """Check the whole file: SQLite's pages and indexes, each charge, all sums, each tag.

        Opening and charging look at the checkpoint and the last charge alone.
        key: a key file under which it was charged. The head beside it tells whether a copy was
            restored since, unless the head was restored with it. Without it nobody can tell.
        Returns: how many charges there are, refused attempts among them.
        Raises: LedgerError, which says what is not as it was written, or that charges are lost;
            DTypeError; ParameterError (a key in memory, which has no head).

        >>> ledger = dpfast.Ledger("checked.db", 1, create=True)
        >>> ledger.spend(dpfast.Guarantee(epsilon="0.4"), label="pilot")
        >>> ledger.verify()  # charges
        1
        """
        try:
            if key is not None and (found := _heads(key, self._store.terms)):
                self._store.must_have(found[-1], f"the head beside {key.path}")
            return self._store.verify()
        except LedgerError as error:  # nothing was to be released, and something may have been before
            error.args = (str(error).removesuffix("; nothing was released"),)
            raise

    def restored(self, key: KeyFile, *, charge: bool = False) -> Guarantee:
        """What this ledger lacks, at most, since a copy took its place; charged, if you say so.

        key: the key file under which it was charged. The head beside it has what was spent. What
            was charged without that key since, and lost, it cannot know: `spend` it, too.
        charge: whether to charge what is lacking, as far as the budget goes. The ledger then goes
            on. Labels that were reserved in between are free again. Running totals of which steps
            may be lost are paid for once more, in full.
        Raises: BudgetExhausted (what is left does not pay for these totals); LedgerError,
            DTypeError, ParameterError, as verify.

            >>> ledger, key = dpfast.Ledger("old.db", 3, create=True), dpfast.KeyFile.create("old.key")
            >>> ledger.restored(key).epsilon
            Fraction(0, 1)
        """
        pay, found = parameters.flag("charge", charge), _heads(key, self._store.terms)
        lost, after = self._store.restored(found, charge=pay)
        if pay and any(lost):
            head.note(key.path, self._store.terms.digest, after, anew=True)
        return self._guarantee(lost)

    def copy(self, path: str | os.PathLike[str]) -> Ledger:
        """Make a copy in another file: the ledger at one moment, wholly checked.

        A copy has the same budget, for the same people: keep it, or read it. What is then charged
        to one is unknown to the other.
        Raises: LedgerError (path exists, a file cannot be made there, the ledger is damaged).

        >>> backup = dpfast.Ledger("first.db", 1, create=True).copy("backup.db")
        >>> backup.budget.epsilon
        Fraction(1, 1)
        """
        file = absolute(path)
        self._store.copy(file)
        return Ledger(file)

    @classmethod
    def upgrade(cls, path: str | os.PathLike[str], *, shared_with: str | int | None = None) -> Ledger:
        """Turn a ledger of format 1 or 2, by an earlier version, into today's; then open it.

        Its budget and charges stay. Earlier versions of dpfast refuse it then.
        shared_with: as of Ledger.
        Raises: LedgerError (no ledger of these formats, or damaged: then the file is as it was);
            UnsupportedError (on Windows).

        >>> ledger = dpfast.Ledger("today.db", 1, create=True)
        >>> dpfast.Ledger.upgrade("today.db")
        Traceback (most recent call last):
            ...
        dpfast.errors.LedgerError: .../today.db is not a ledger of format 1 or 2
        """
        from dpfast.ledger.upgrade import upgrade

        place.check_system()
        file = absolute(path)
        upgrade(file, _group_of(shared_with))
        return cls(file, shared_with=shared_with)

    def metadata(self) -> dict[str, object]:
        """The budget, JSON-able, fractions as exact strings.

        >>> dpfast.Ledger("about.db", 1, unit="patient", create=True).metadata()["unit"]
        'patient'
        """
        terms = self._store.terms
        amounts = dict(zip(terms.accounting, map(str, terms.budget), strict=True))
        return {**amounts, "dataset": terms.dataset, "adjacency": terms.adjacency, "unit": terms.unit}

    def __repr__(self) -> str:
        terms = self._store.terms
        budget = amounts(dict(zip(terms.accounting, terms.budget, strict=True)), up=True)
        return f"<Ledger {self.dataset!r}: {budget} per {terms.unit}, {terms.adjacency}; {self.path}>"

    def _said(self, figures: Iterable[Fraction]) -> str:
        return amounts(dict(zip(self._store.terms.accounting, figures, strict=True)), up=True)

    def _left(self) -> tuple[Fraction, ...]:
        return tuple(most - spent for most, spent in zip(self._store.terms.budget, self._store.spent(), strict=True))

    def _guarantee(self, amounts: Iterable[Fraction]) -> Guarantee:
        terms = self._store.terms
        of = dict(zip(terms.accounting, amounts, strict=True))
        about: Any = {"adjacency": terms.adjacency, "unit": terms.unit}
        if "mu_squared" in of:
            return Guarantee(rho=of["mu_squared"] / 2, gdp=True, **about)
        if "rho" in of:
            return Guarantee(rho=of["rho"], rho_delta=of.get("delta"), **about)
        return Guarantee(of["epsilon"], of["delta"], **about)

    def _charge_of(self, label: str, release: Part, called: str) -> Charge:
        """What a release, an argument called so, will be charged."""
        about: dict[str, object] = {"mechanism": type(release).__name__}
        if isinstance(release, Described):
            about = release.metadata()
        return self._charge(label, guarantee_of(called, release), about, called)

    def _charge(self, label: str, guarantee: Guarantee, about: dict[str, object], called: str = "mechanism") -> Charge:
        """The charge for a guarantee, if it is for this ledger."""
        terms = self._store.terms
        for name in ("adjacency", "unit"):
            if getattr(guarantee, name) != getattr(terms, name):
                raise ParameterError(
                    f"{name} must be that of the ledger, {getattr(terms, name)!r}, got {getattr(guarantee, name)!r:.40}"
                )
        kept = terms.accounting
        if guarantee.epsilon is None and "epsilon" in kept:
            raise ParameterError(
                f"{called} must promise epsilon and delta, in which this ledger is kept, got {guarantee!r:.80}: its "
                ".approximate(delta) does; a ledger by='zcdp' takes all"
            )
        if "mu_squared" in kept and guarantee.mu_squared is None:
            raise ParameterError(
                f"{called} must be mu-GDP, in which this ledger is kept, as Gaussian (granularity=1 for whole numbers) and a "
                f"pure epsilon are, each charged by itself, got {guarantee!r:.80}: a ledger by='zcdp', with own_delta for "
                "deltas of releases, takes all"
            )
        if guarantee.rho_delta and "rho" in kept and not dict(zip(kept, terms.budget, strict=True)).get("delta"):
            raise ParameterError(
                f"{called} must promise rho without a delta, because this ledger has none for it, got {guarantee!r:.80}: one "
                "in rho and delta, or by='zcdp' with own_delta, takes it"
            )
        of_rho = {"delta": "rho_delta"} if "rho" in kept else {}
        amounts = tuple(getattr(guarantee, of_rho.get(name, name)) for name in kept)
        return Charge(_text("label", label), about, amounts)


# ------------------------------------------------------------------ parameters


def _heads(key: KeyFile, terms: Terms) -> tuple[head.Head, ...]:
    """Raises: LedgerError, DTypeError, ParameterError."""
    if isinstance(key, Key):
        raise ParameterError(
            "key must be a KeyFile: beside its file there is a head. A Key in memory has none, so nobody can tell "
            "whether the ledger was restored from a copy"
        )
    if not isinstance(key, KeyFile):
        raise DTypeError(f"key must be a KeyFile, not {type(key).__name__}")
    return head.heads(key, terms.digest)


def _hash(label: str) -> bytes:
    """By which a label is found: half of what a row has."""
    return blake2b(encode(label), digest_size=ID_LENGTH, person=b"ledger label").digest()


def _priced(charge: Charge) -> dict[str, object]:
    """What a reservation keeps of itself: its record, and what it cost."""
    return {**charge.record, "cost": list(map(str, charge.amounts))}


def _continued(label: str, key: str, resume: bool, found: Reserved) -> str:
    """Where the label is reserved. Raises: KeyReuseError (not continued, or under another key)."""
    where = f"(number {found.entry.number}, {found.entry.time[:10]})"
    must_continue(label, where, resume=resume)
    if found.key.hex() != key:
        raise KeyReuseError(
            f"{label!r} is reserved {where} under another key (id {found.key.hex()}, this one {key}): use that one, or pay for "
            f"{another(label)}. What a lost key has sealed cannot be continued"
        )
    return where


def _group_of(shared_with: str | int | None) -> int | None:
    """The group's number. Raises: DTypeError, ParameterError."""
    if shared_with is None:
        return None
    if isinstance(shared_with, bool) or not isinstance(shared_with, str | int):
        raise DTypeError(f"shared_with must be a group's name or number, not {type(shared_with).__name__}")
    import grp  # late: Windows has none

    try:
        number = shared_with if isinstance(shared_with, int) else grp.getgrnam(shared_with).gr_gid
    except (KeyError, ValueError):  # or a name with a null
        raise ParameterError(f"shared_with must be a group of this system, got {shown(shared_with)}") from None
    if not 0 <= number < 2**32 - 1:  # the next one leaves a group as it is
        raise ParameterError(f"shared_with must be a group's number, 0 to 2**32 - 2, got {shown(shared_with)}")
    return number


def _budget(
    epsilon: Real | None, delta: Real | None, rho: Real | None, by: str | None, own_delta: Real | None
) -> dict[str, Fraction]:
    """The budget by its figures; nothing, if none is given."""
    if epsilon is not None and rho is not None:
        raise ParameterError("epsilon or rho must be given, not both: a ledger is kept in one")
    if by is not None:
        if not isinstance(by, str) or by not in ("zcdp", "gdp") or epsilon is None or delta is None:
            raise ParameterError(
                f"by must be 'zcdp' or 'gdp', with the total epsilon and delta, or be left out, got {shown(by)}"
            )
        if by == "gdp" and own_delta is None:
            return _checked({"mu_squared": gaussian.mu_squared_of(*_total(epsilon, delta))})
        if by == "gdp":
            raise ParameterError("own_delta goes with by='zcdp': no release has a delta in a ledger by='gdp'")
        return _checked(_zcdp(epsilon, delta, 0 if own_delta is None else own_delta))
    if own_delta is not None:
        raise ParameterError("own_delta goes with by='zcdp'; beside rho it is delta")
    if epsilon is None and rho is None and delta is None:
        return {}
    total = Guarantee(epsilon, delta if rho is None else None, rho=rho, rho_delta=None if rho is None else delta)
    if total.epsilon is not None and total.delta is not None:
        return _checked({"epsilon": total.epsilon, "delta": total.delta})
    return _checked({"rho": total.rho} if delta is None else {"delta": total.rho_delta, "rho": total.rho})


def _checked(found: dict[str, Fraction]) -> dict[str, Fraction]:
    """Raises: ParameterError (nothing may be spent, or more than a file holds)."""
    for name in found.keys() - {"delta"}:
        if not found[name]:
            raise ParameterError(f"{name} must be positive, got 0")
    for name, value in found.items():
        if value > MOST_BUDGET or max(value.numerator, value.denominator).bit_length() > LONGEST_BUDGET:
            raise ParameterError(
                f"{name} must be at most 2**64 and of at most {LONGEST_BUDGET} bits, got {shown(value)}"
            )
    return found


def _zcdp(epsilon: Real, delta: Real, own_delta: Real) -> dict[str, Fraction]:
    """The totals in zCDP that imply the ledger's (epsilon, delta)."""
    wanted, total = _total(epsilon, delta)
    own = Guarantee(rho=0, rho_delta=own_delta).rho_delta
    if own >= total:
        raise ParameterError(f"own_delta must be below delta, {shown(delta)}, got {shown(own_delta)}")
    return {"delta": own, "rho": gaussian.rho_of(wanted, total - own)}


def _total(epsilon: Real, delta: Real) -> tuple[Fraction, Fraction]:
    return (
        parameters.exact_positive("epsilon", epsilon, decimal=True),
        parameters.probability("delta", delta, decimal=True),
    )


def _text(name: str, value: str) -> str:
    """A text that a terminal may be shown."""
    if not isinstance(value, str):
        raise DTypeError(f"{name} must be a string, not {type(value).__name__}")
    if len(value) > LONGEST_TEXT or not value.isprintable():
        raise ParameterError(
            f"{name} must be printable, on one line, of at most {LONGEST_TEXT} characters, got {value!r:.40}"
        )
    return str.__str__(value)  # SQLite keeps its characters, whatever its class prints
