# SPDX-License-Identifier: Apache-2.0
"""Running totals: what is kept of them, what they spend, and their steps as pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpfast.counts.running.buffers import (
    LOW,
    Code,
    Integers,
    Reals,
    begun,
    decoded,
    encoded,
    largest_bound,
    must_fit,
    rounding_of,
)
from dpfast.counts.running.error import Inverse
from dpfast.counts.running.table import ROWS
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.release.arrays import integer_array
from dpfast.privacy import parameters, running
from dpfast.privacy.gaussian import near, rho_of
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real, shown
from dpfast.privacy.record import Record
from dpfast.privacy.running import Coefficients, Placed
from dpfast.privacy.sensitivity import Sensitivity, refuse_less

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpfast.counts.running.rows import BoundedTotals
    from dpfast.counts.running.steps import Running

MOST_STEPS, CEILING = 2**20, 64  # expected steps; for how many times as many a unit is hidden
FINE = 2**12  # f is such that rounding adds at most 1/FINE to what a unit moves
GUARDED = 2**8  # guard bits are such that buffers round by at most so small a part of 1
MOST_SIGMA_SQUARED = 10**18
LARGEST = 2**40  # a bound that nobody gives is at most this
FIRST_ROW = 2  # the table begins at 2^2 steps


class RunningTotals(Record):
    """Counts over time: every running total, noised step by step, for one charge.

    steps: how many steps are expected, from 1 to 2^20, such as 365 days. It is public, and decides
        the error. The promise holds for 64 times as many, the `ceiling`, and ends there.
    sensitivity: what one unit contributes to the counts of *one* step: Sensitivity(l0, linf), of
        public keys.
    rho: what all steps together spend. epsilon and delta: the same, found through rho of zCDP. An
        epsilon alone is refused: noise for it would be larger than that of each step by itself.
    per_unit_steps: in how many steps one unit contributes at most. apart: how many steps lie from
        one of its contributions to the next at least; 1 if they may follow each other.
        Corrections and rows that come late are contributions of the step in which they are counted.
    bound: X; each count of a step is clamped to [-X, X], a public number. By default the largest
        power of two for which no run of steps leaves 64 bits, at most 2^40.

    The error of a total grows with the logarithm of time: at rho = 1/2, and one contribution of 1,
    its standard deviation is 3.0 after a year of days, and 5.5 after 2^20 steps. Its own step would
    have less noise alone: windows shorter than about 8 steps are better served by noise on each.
    Privacy: all steps together are rho-zCDP, also if each step is chosen after earlier results.
    Nothing is spent here: who releases steps does.
    Raises: DTypeError, ParameterError.
    Source: Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024 (buffered linear Toeplitz);
        dpfast/privacy/running.py has the proof, dpfast/counts/running/buffers.py the encoder.

    >>> once = dpfast.Sensitivity(l0=1, linf=1)  # a person signs up once, in one region
    >>> totals = dpfast.RunningTotals(365, sensitivity=once, rho="0.5")
    >>> totals.ceiling, round(totals.interval(365), 1)
    (23360, 5.9)
    """

    steps: int
    per_unit_steps: int
    apart: int
    sensitivity: Sensitivity
    spent: Guarantee
    bound: int
    code: Code
    sigma_squared: int

    NAME: ClassVar[str] = "running_totals"
    FOUND: ClassVar[frozenset[str]] = frozenset({"decays", "weights", "bits", "guard", "sigma_squared"})

    def __init__(
        self,
        steps: int,
        *,
        sensitivity: Sensitivity,
        rho: Real | None = None,
        epsilon: Real | None = None,
        delta: Real | None = None,
        per_unit_steps: int = 1,
        apart: int = 1,
        bound: int | None = None,
    ) -> None:
        expected = parameters.whole("steps", steps, 1)
        if expected > MOST_STEPS:
            raise ParameterError(f"steps must be at most 2**20, got {shown(steps)}")
        if not isinstance(sensitivity, Sensitivity):
            raise DTypeError(
                f"sensitivity must be a Sensitivity(l0, linf) of one step's counts, not {type(sensitivity).__name__}"
            )
        running.moved(sensitivity)
        times, gap = _contributions(expected, per_unit_steps, apart)
        found = Coefficients(*ROWS[max(0, ((2 * expected**2).bit_length() - 1) // 2 - FIRST_ROW)])
        wanted = self._asked(expected, times, sensitivity, found, rho, epsilon, delta)
        self._keep(steps=expected, per_unit_steps=times, apart=gap, sensitivity=sensitivity)
        code = self._chosen(found, wanted)
        largest = min(LARGEST, largest_bound(code, self.ceiling))
        clamped = 2 ** (max(1, largest).bit_length() - 1) if bound is None else parameters.whole("bound", bound, 1)
        moved_by = running.shift(found, self._placed, running.moved(sensitivity), code.bits, self._rounding(code))
        self._keep(code=code, bound=clamped, sigma_squared=running.least_sigma_squared(wanted.rho, moved_by))
        self._settle(wanted)

    @staticmethod
    def _asked(
        steps: int,
        times: int,
        sensitivity: Sensitivity,
        found: Coefficients,
        rho: Real | None,
        epsilon: Real | None,
        delta: Real | None,
    ) -> Guarantee:
        """What was asked for, with its rho. Raises: DTypeError, ParameterError."""
        if (rho is None) == (epsilon is None) or (delta is not None and epsilon is None):
            raise ParameterError("rho, or epsilon and delta, must be given: what all steps together spend")
        about: dict[str, Any] = {"adjacency": sensitivity.adjacency, "unit": sensitivity.unit}
        if rho is not None:
            exact = parameters.exact_positive("rho", rho, decimal=True)
            warn_if_weak("rho", exact)
            return Guarantee(rho=exact, **about)
        wanted = parameters.exact_positive("epsilon", epsilon, decimal=True)
        if delta is None:
            here, alone = _pure(steps, times, sensitivity, found, wanted)
            raise ParameterError(
                f"epsilon must come with a delta, got {shown(epsilon)} alone: Laplace noise for all steps together would "
                f"leave the last total a standard deviation of about {here:.3g}, and noise on the counts of each step, summed, "
                f"leaves {alone:.3g}; give a delta too, or a rho"
            )
        small = parameters.probability("delta", delta, decimal=True)
        warn_if_weak("epsilon", wanted)
        warn_if_weak("delta", small)
        return Guarantee(wanted, small, rho=rho_of(wanted, small), **about)

    def _chosen(self, found: Coefficients, wanted: Guarantee) -> Code:
        """The encoder whose rounding is fine enough, within the noise that can be.

        Raises: ParameterError.
        """
        change = running.moved(self.sensitivity)
        guard = math.ceil(math.log2((len(found.decays) + found.total(self.ceiling)) * GUARDED / 2))
        exact = running.shift(found, self._placed, change, 0, Fraction(0))
        rounded = running.margin(self._placed, change, Fraction(1, 2))
        bits = min(max(0, math.ceil(math.log2(rounded * FINE / exact))), LOW - guard)
        while bits >= 0:
            code = Code(found, bits, guard)
            moved_by = running.shift(found, self._placed, change, bits, self._rounding(code))
            if running.least_sigma_squared(wanted.rho, moved_by) <= MOST_SIGMA_SQUARED:
                return code
            bits -= 1
        name, value = ("rho", wanted.rho) if wanted.epsilon is None else ("epsilon", wanted.epsilon)
        raise ParameterError(f"{name} must ask for noise that can be, sigma up to 1e9, got {shown(value)}")

    def _promised(self, wanted: Guarantee) -> Guarantee:
        """What was asked for, and under substitution what holds of adding a unit."""
        one = self.sensitivity.add_remove if self.sensitivity.adjacency == "substitution" else None
        if one is None:
            return wanted
        moved_by = running.shift(
            self.code.coefficients, self._placed, running.moved(one), self.code.bits, self._rounding(self.code)
        )
        rho = min(wanted.rho, moved_by**2 / (2 * self.sigma_squared))
        known = Guarantee(wanted.epsilon, wanted.delta, rho=rho, unit=wanted.unit)
        return Guarantee(
            wanted.epsilon,
            wanted.delta,
            rho=wanted.rho,
            adjacency=wanted.adjacency,
            unit=wanted.unit,
            add_remove=known,
        )

    def _settle(self, wanted: Guarantee) -> None:
        """Keep what is promised, once the integers that are kept prove it, and fit.

        Raises: ParameterError.
        """
        self._keep(spent=self._promised(wanted))
        self.code.coefficients.checked()
        must_fit(self.code, self.ceiling, self.bound)
        running.must_hide(self.spent.rho, self._moved_by, self.sigma_squared)
        if self.sigma_squared > MOST_SIGMA_SQUARED:
            raise ParameterError("sigma_squared must be at most 10**18")

    def _rounding(self, code: Code) -> Fraction:
        return rounding_of(code, self.ceiling)

    @property
    def _placed(self) -> Placed:
        return Placed(self.ceiling, self.per_unit_steps, self.apart)

    @property
    def _moved_by(self) -> Fraction:
        change = running.moved(self.sensitivity)
        return running.shift(self.code.coefficients, self._placed, change, self.code.bits, self._rounding(self.code))

    # ------------------------------------------------------------------ what it promises

    @property
    def ceiling(self) -> int:
        """For how many steps the promise holds.

        >>> dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1).ceiling
        768
        """
        return CEILING * self.steps

    @property
    def guarantee(self) -> Guarantee:
        """What all steps together spend.

        >>> once = dpfast.Sensitivity(1, 1)
        >>> dpfast.RunningTotals(12, sensitivity=once, epsilon=1, delta="1e-6").guarantee.epsilon
        Fraction(1, 1)
        """
        return self.spent

    @property
    def rho(self) -> Fraction:
        """The rho of all steps together.

        >>> dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho="0.1").rho
        Fraction(1, 10)
        """
        return self.spent.rho

    @property
    def adjacency(self) -> str:
        return self.spent.adjacency

    @property
    def unit(self) -> str:
        return self.spent.unit

    @property
    def buffers(self) -> int:
        """How many buffers an encoder has.

        >>> dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1).buffers
        4
        """
        return len(self.code.coefficients.decays)

    @lockfree_property
    def mechanism(self) -> DiscreteGaussian:
        """The noise of an encoded step. It has no guarantee, for only all steps together have one.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> totals.mechanism.sigma_squared == totals.sigma_squared
        True
        """
        return DiscreteGaussian(sigma_squared=self.sigma_squared)

    def _check_cells(self, name: str, many: int) -> None:
        """Raises: ParameterError (more cells than the sensitivity says that there are)."""
        most = self.sensitivity.cells
        if most is not None and many > most:
            raise ParameterError(f"{name} must be of at most the {most:,} cells of the sensitivity, got {many:,}")

    def _refuse_less(self, change: Sensitivity) -> None:
        """Refuse counts of a step whose change is larger. Raises: ParameterError."""
        refuse_less(change, self.sensitivity, self.adjacency, self.unit)

    def bounded(
        self,
        *,
        max_partitions: int | None = None,
        max_per_partition: int | None = None,
        max_contributions: int | None = None,
    ) -> BoundedTotals:
        """These totals of *rows*, whose units are bounded within each step and over all of them.

        The caps are those of `bounded_histogram`, of one step: what they leave of a unit must be
        what the sensitivity of these totals says, or less. Over time a unit is counted in
        per_unit_steps steps, first come, first served, `apart` steps from each other at least; its
        rows in other steps are left out. Who was counted when is a private table in the state.
        Returns: what `ledger.running` takes instead of these totals. Each of its steps takes rows,
            `step(t, keys, unit_ids)`, or `step(t, resume=True)` after a crash. `replay=` then gives
            the (keys, unit_ids) of each earlier step.
        Privacy: spends nothing; `ledger.running` charges the guarantee of these totals, once.
        Raises: DTypeError, ParameterError.

        >>> once_a_step = dpfast.Sensitivity(l0=1, linf=1)
        >>> about = {"sensitivity": once_a_step, "rho": "0.5", "per_unit_steps": 4, "apart": 7}
        >>> rows = dpfast.RunningTotals(365, **about).bounded(max_partitions=1, max_per_partition=1)
        >>> ledger = dpfast.Ledger("visits.db", rho=1, create=True)
        >>> key = dpfast.KeyFile.create("visits.key").derive("visits 2026")
        >>> running = ledger.running(rows, key=key, names=["Lima", "Oslo"], state="visits.state")
        >>> running.step(1, ["Oslo", "Lima", "Oslo"], ["ann", "bob", "bob"]).values.shape
        (2,)
        """
        from dpfast.counts.records.bounded_histogram import Bounds
        from dpfast.counts.running.rows import BoundedTotals

        return BoundedTotals(self, Bounds(max_partitions, max_per_partition, max_contributions))

    def _running(self, ledger: Any, *, names: Any, **options: Any) -> Running:
        """What takes the steps that a ledger has paid for: its own door."""
        from dpfast.counts.running.steps import Cells, opened

        cells = Cells(names)
        self._check_cells("names", cells.number)
        return opened(self, ledger, cells, **options)

    # ------------------------------------------------------------------ steps

    def begin(self, cells: int) -> tuple[Integers, Reals]:
        """An encoder and a decoder before step 1: int64 (2 d, cells), float64 (d + 1, cells).

        Together they take 24 d + 8 bytes a cell, d = `buffers`: 104 or 128. The encoder is as
        private as the counts; the decoder is made from noisy steps alone.
        Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> encoder, decoder = totals.begin(cells=3)
        >>> encoder.shape, decoder.shape
        ((8, 3), (5, 3))
        """
        many = parameters.whole("cells", cells, 1)
        self._check_cells("cells", many)
        try:
            return begun(self.code, many)
        except (ValueError, MemoryError):
            raise ParameterError(f"cells must be as many as memory has room for, got {shown(cells)}") from None

    def encode(self, encoder: Integers, counts: npt.ArrayLike) -> tuple[Integers, Integers]:
        """The counts of the next step, encoded: int64, one a cell; and the encoder after it.

        What comes back is private until it has noise. Counts are clamped to the bound. Nothing that
        is given is changed. It is for the caller to end at the ceiling.
        Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> encoder, decoder = totals.begin(cells=2)
        >>> encoded, encoder = totals.encode(encoder, [3, 0])
        >>> bool(encoded[0] == 3 * 2**totals.code.bits)
        True
        """
        _check_state("encoder", encoder, np.int64, 2 * self.buffers)
        return encoded(self.code, encoder, self.clamped(counts, encoder.shape[1]))

    def clamped(self, counts: npt.ArrayLike, cells: int) -> Integers:
        """Counts of a step within the bound: a copy in int64. Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1, bound=9)
        >>> totals.clamped([3, 12], cells=2)
        array([3, 9])
        """
        array = integer_array("counts", counts)
        if array.shape != (parameters.whole("cells", cells, 1),):
            raise ParameterError(f"counts must be one for each of {shown(cells)} cells, got shape {array.shape}")
        low, high = -self.bound, self.bound
        if array.dtype.kind == "u":  # no unsigned type has the lower end
            return np.minimum(array, np.uint64(high)).astype(np.int64)
        return np.clip(array.astype(np.int64), low, high)

    def decode(self, decoder: Reals, noisy: npt.ArrayLike) -> tuple[Reals, Reals]:
        """The totals after one more noisy step, float64; and the decoder after it.

        It sees what has noise alone, and spends nothing. A fixed order of single operations on
        doubles: the same bytes on every machine. Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> _, decoder = totals.begin(cells=1)
        >>> totals.decode(decoder, [3 * 2**totals.code.bits])[0].tolist()
        [3.0]
        """
        _check_state("decoder", decoder, np.float64, self.buffers + 1)
        array = integer_array("noisy", noisy)
        if array.shape != decoder.shape[1:]:
            raise ParameterError(f"noisy must be one for each cell, shape {decoder.shape[1:]}, got {array.shape}")
        return decoded(self.code, decoder, array.astype(np.int64))

    # ------------------------------------------------------------------ what a reader is told

    @lockfree_property
    def _inverse(self) -> Inverse:
        return Inverse.of(self.code.coefficients)

    def stddev(self, t: int, last: int | None = None) -> float:
        """The standard deviation of the total after step t, or of the sum of the last steps.

        Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
        >>> round(totals.stddev(365), 2), round(totals.stddev(365, last=7), 2)
        (3.0, 2.79)
        """
        at = self._step(t)
        noise = self._inverse.squares(at) if last is None else self._inverse.window(at, self._last(last, at))
        return math.sqrt(self.sigma_squared * noise) * 2.0**-self.code.bits

    def interval(self, t: int, level: Real = Fraction(95, 100), last: int | None = None) -> float:
        """How far from the truth the total after step t may lie, with this probability.

        last: of the sum of the last steps instead, two totals whose noise is for the most part the
            same. It is for one cell at one step; the rounding of the encoder is added.
        Raises: DTypeError, ParameterError.

        >>> totals = dpfast.RunningTotals(365, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
        >>> round(totals.interval(365), 2), round(totals.interval(365, last=7), 2)
        (5.89, 5.46)
        """
        beyond = float((1 - parameters.probability("level", level, decimal=True)) / 2)
        if not beyond:
            raise ParameterError(f"level must leave a chance that doubles hold, got {shown(level)}")
        at = self._step(t)
        seen = at if last is None else self._last(last, at)
        weighed = self._inverse.sum(at) if seen == at else 2 * self._inverse.sum(seen)
        rounded = float(self._rounding(self.code)) * 2.0**-self.code.bits * weighed
        return -NormalDist().inv_cdf(beyond) * self.stddev(t, last) + rounded

    def _step(self, t: int) -> int:
        at = parameters.whole("t", t, 1)
        if at > self.ceiling:
            raise ParameterError(f"t must be at most the ceiling, {self.ceiling:,}, got {shown(t)}")
        return at

    def _last(self, last: int, at: int) -> int:
        return min(parameters.whole("last", last, 1), at)

    @property
    def margin(self) -> float:
        """The part of what one unit moves that pays for the encoder's rounding.

        >>> totals = dpfast.RunningTotals(2**20, sensitivity=dpfast.Sensitivity(1, 1), rho="0.5")
        >>> totals.margin < 0.001
        True
        """
        change = running.moved(self.sensitivity)
        return float(running.margin(self._placed, change, self._rounding(self.code)) / self._moved_by)

    def metadata(self) -> dict[str, object]:
        """What a reader is told, for JSON.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1, bound=9)
        >>> totals.metadata()["ceiling"], totals.metadata()["clamp"]
        (768, [-9, 9])
        """
        figures = {"epsilon": self.spent.epsilon, "delta": self.spent.delta, "rho": self.spent.rho}
        return {
            "mechanism": self.NAME,
            **{name: str(value) for name, value in figures.items() if value is not None},
            "adjacency": self.adjacency,
            "unit": self.unit,
            "steps": self.steps,
            "ceiling": self.ceiling,
            "per_unit_steps": self.per_unit_steps,
            "apart": self.apart,
            "clamp": [-self.bound, self.bound],
            "stddev_at_steps": self.stddev(self.steps),
        }

    # ------------------------------------------------------------------ what is kept

    def terms(self) -> dict[str, int | str]:
        """All that a manifest keeps: integers and texts, from which `of_terms` makes an equal one.

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> dpfast.RunningTotals.of_terms(totals.terms()) == totals
        True
        """
        change = running.moved(self.sensitivity)
        found: dict[str, int | str] = {
            "steps": self.steps,
            "per_unit_steps": self.per_unit_steps,
            "apart": self.apart,
            **_of_sensitivity(self.sensitivity),
            "bound": self.bound,
            "decays": _written(self.code.coefficients.decays),
            "weights": _written(self.code.coefficients.weights),
            "bits": self.code.bits,
            "guard": self.code.guard,
            "sigma_squared": f"{self.sigma_squared}/1",
            "rho": str(self.spent.rho),
            "moved_l2_squared": str(change.l2_squared),
            "moved_cells": change.cells,
            "ceiling": self.ceiling,
        }
        if self.spent.epsilon is not None:
            found |= {"epsilon": str(self.spent.epsilon), "delta": str(self.spent.delta)}
        return found

    @classmethod
    def of_terms(cls, terms: Mapping[str, int | str]) -> RunningTotals:
        """The totals of these terms, without a search: what they promise is proved again.

        Raises: ParameterError (terms that are not those of running totals).

        >>> totals = dpfast.RunningTotals(12, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
        >>> dpfast.RunningTotals.of_terms(totals.terms() | {"sigma_squared": "9/1"})
        Traceback (most recent call last):
            ...
        dpfast.errors.ParameterError: terms must be those of running totals: sigma_squared ...
        """
        try:
            made = cls._read(dict(terms))
        except (KeyError, TypeError, ValueError, ZeroDivisionError, ParameterError, DTypeError) as error:
            raise ParameterError(f"terms must be those of running totals: {error}") from None
        if made.terms() != dict(terms):
            raise ParameterError("terms must be those of running totals, as terms() writes them")
        return made

    @classmethod
    def _read(cls, terms: dict[str, Any]) -> RunningTotals:
        if not all(type(each) in (int, str) for each in terms.values()):
            raise DTypeError("each is a whole number or a text")
        steps = parameters.whole("steps", terms["steps"], 1)
        if steps > MOST_STEPS:
            raise ParameterError(f"steps must be at most 2**20, got {steps}")
        sensitivity = _to_sensitivity(terms)
        running.moved(sensitivity)
        times, gap = _contributions(steps, terms["per_unit_steps"], terms["apart"])
        found = Coefficients(_ratios(terms["decays"]), _ratios(terms["weights"])).checked()
        code = Code(found, parameters.whole("bits", terms["bits"], 0), parameters.whole("guard", terms["guard"], 1))
        made = cls._of(
            steps=steps,
            per_unit_steps=times,
            apart=gap,
            sensitivity=sensitivity,
            bound=parameters.whole("bound", terms["bound"], 1),
            code=code,
            sigma_squared=int(parameters.exact_positive("sigma_squared", terms["sigma_squared"])),
        )
        epsilon, delta, rho = terms.get("epsilon"), terms.get("delta"), Fraction(terms["rho"])
        if epsilon is not None and rho > rho_of(Fraction(epsilon), Fraction(delta)):  # type: ignore[arg-type]  # both or none
            raise ParameterError("rho must imply the epsilon and delta")
        wanted = Guarantee(epsilon, delta, rho=rho, adjacency=sensitivity.adjacency, unit=sensitivity.unit)
        made._settle(wanted)  # noqa: SLF001  a record of its own kind
        return made

    def __repr__(self) -> str:
        return (
            f"<RunningTotals of {self.steps:,} steps, private for {self.ceiling:,}, a unit in {self.per_unit_steps:,} of "
            f"them, {self.apart:,} apart; {self.spent!r}>"
        )


def _contributions(steps: int, per_unit_steps: object, apart: object) -> tuple[int, int]:
    """Raises: DTypeError, ParameterError."""
    times, gap = parameters.whole("per_unit_steps", per_unit_steps, 1), parameters.whole("apart", apart, 1)
    for name, value in (("per_unit_steps", times), ("apart", gap)):
        if value > CEILING * steps:
            raise ParameterError(
                f"{name} must be at most {CEILING * steps:,}, the ceiling of {steps:,} steps, got {shown(value)}"
            )
    return times, gap


def _pure(steps: int, times: int, change: Sensitivity, found: Coefficients, epsilon: Fraction) -> tuple[float, float]:
    """Standard deviations of the last total under Laplace noise: of encoded steps, of counts."""
    one = times * near(change.l1 or Fraction(1)) * math.sqrt(2) / near(epsilon)
    leaks, shares = map(list, (found.leaks, found.shares))
    whole = 1 + sum(
        float(w) * -math.expm1((CEILING * steps - 1) * math.log1p(-float(q))) / float(q)
        for q, w in zip(leaks, shares, strict=True)
    )
    return one * whole * math.sqrt(Inverse.of(found).squares(steps)), one * math.sqrt(steps)


def _check_state(name: str, array: Any, dtype: type, rows: int) -> None:
    """Raises: DTypeError, ParameterError."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not array.flags.c_contiguous:
        raise DTypeError(f"{name} must be an array of {np.dtype(dtype)} in C order, as begin() makes it")
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] < 1:
        raise ParameterError(f"{name} must have shape ({rows}, cells), got {array.shape}")


def _written(ratios: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{number}/2^{shift}" for number, shift in ratios)


def _ratios(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [each.split("/2^") for each in text.split(" ")]
    return tuple((int(number[:9]), min(int(shift[:9]), LOW + 1)) for number, shift in pairs)


def _of_sensitivity(change: Sensitivity) -> dict[str, int | str]:
    found: dict[str, int | str] = {"adjacency": change.adjacency, "unit": change.unit}
    if change.contributes is None:
        return {**found, "changes_l0": int(change.l0 or 0), "changes_linf": str(change.linf)}
    l0, linf = change.contributes
    found |= {"l0": l0, "linf": str(linf), "l1": str(change.contributed), "signed": int(change.signed)}
    return found if change.cells is None else {**found, "cells": change.cells}


def _to_sensitivity(terms: dict[str, Any]) -> Sensitivity:
    about = {"adjacency": terms["adjacency"], "unit": terms["unit"]}
    if "changes_l0" in terms:
        return Sensitivity.changes(terms["changes_l0"], terms["changes_linf"], **about)
    signed = {0: False, 1: True}[terms["signed"]]
    return Sensitivity(terms["l0"], terms["linf"], l1=terms["l1"], cells=terms.get("cells"), signed=signed, **about)
