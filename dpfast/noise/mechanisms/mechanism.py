# SPDX-License-Identifier: Apache-2.0
"""What mechanisms share, and the release of those that release values: prepare, charge, draw."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypedDict

import numpy as np

from dpfast import _native
from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.mechanisms.described import Described, Payable
from dpfast.noise.mechanisms.equals import shared_property
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.release.arrays import INT64, LONG_LONG, Job, RealJob, integer_dtype, plain_array, real_dtype
from dpfast.noise.release.blocks import Blocks, is_one
from dpfast.noise.release.counts import origin_of, refuse_less
from dpfast.noise.release.engine import SMALL, Draws, as_c, check_finite, prepare_small, run, run_small
from dpfast.noise.release.layout import disjoint, memory_order, new_result
from dpfast.noise.release.names import Names
from dpfast.privacy.formatting import rounded
from dpfast.privacy.inputs import NOTHING, Inputs, inputs
from dpfast.privacy.parameters import flag, probability, step_of_losses, unknown_option, whole
from dpfast.privacy.port import port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from dpfast.noise.release.key import ReleaseKey
    from dpfast.noise.release.seal import Task
    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity


class Given(NamedTuple):
    """What a release is given beside its values: `Releasing.release` explains them."""

    out: npt.NDArray[Any] | None = None
    dtype: npt.DTypeLike | None = None
    lower: Real | None = None
    upper: Real | None = None
    clamp: tuple[Real, Real] | None = None
    missing: Real | None = None
    threads: int | None = None
    constant_time: bool = False
    key: ReleaseKey | Task | None = None
    names: Any = None
    resume: bool = False
    columns: Any = None


class Mechanism(Described, ABC):
    """A law with its parameters, frozen. A subclass says which law, in C and in intervals."""

    LAW: ClassVar[str]  # its name in C and in its proof
    SCALES: ClassVar[tuple[str, str]]  # the least and the largest scale, as messages say them

    @property
    @abstractmethod
    def scale(self) -> float: ...

    @property
    @abstractmethod
    def stddev(self) -> float: ...

    @property
    @abstractmethod
    def variance(self) -> float: ...

    @property
    @abstractmethod
    def _law(self) -> Any:
        """The law's figures in intervals."""

    @property
    @abstractmethod
    def _plan_scale(self) -> Fraction:
        """What C makes the plan from: the scale in steps of the grid, a Gaussian's squared."""

    def _made_plan(self) -> _native.Plan:
        return _native.Plan(self.LAW, self._plan_scale)

    @shared_property
    def _constant_work_plan(self) -> _native.Plan:
        """For calls that do the same work for every draw."""
        return self._made_plan()

    @shared_property
    def _bulk_plan(self) -> _native.Plan:
        """With its table, if it has one, built at the first bulk release."""
        return self._constant_work_plan.tabled()

    @property
    @abstractmethod
    def _narrow(self) -> bool:
        """Whether every draw that C decides fits the narrow kernel."""

    @property
    @abstractmethod
    def _cell_squared(self) -> Fraction | None:
        """The square of the stated change of one cell, or None (privacy/inputs.py)."""

    @abstractmethod
    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> float: ...

    # ------------------------------------------------------------------ by the names of scipy.stats

    _BEGINS: ClassVar[float] = -math.inf  # what no draw is below or at

    def mean(self) -> float:
        """The mean of the noise; 0 but for one-sided noise.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).mean()
        0.0
        """
        return 0.0

    def var(self) -> float:
        """The variance of the noise: `variance`.

        >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
        >>> mechanism.var() == mechanism.variance
        True
        """
        return self.variance

    def std(self) -> float:
        """The standard deviation of the noise: `stddev`.

        >>> round(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).std(), 3)
        1.357
        """
        return self.stddev

    def median(self) -> float:
        """The least noise x with P(noise <= x) >= 1/2: `ppf(1/2)`, and 0 but for one-sided noise.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).median()
        0.0
        """
        return float(self._noise_at(Fraction(1, 2)))

    def ppf(self, q: npt.ArrayLike) -> Any:
        """The least noise x with P(noise <= x) >= q, for a number or an array of them, 0 <= q <= 1.

        A float64, or an array of them, exact before it is rounded to a double. q = 0 gives what no
        noise is below, q = 1 infinity. Noise on a grid is that of a value on the grid. The inverse
        of `cdf`.
        Raises: DTypeError, ParameterError.

            >>> law = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
            >>> law.ppf([0.025, 0.5, 0.975]).tolist()
            [-3.0, 0.0, 3.0]
        """
        array = plain_array("q", q, "probabilities")
        if array.dtype.kind not in "iuf":
            raise DTypeError(f"q must be a probability or an array of them, not {array.dtype}")
        if not ((array >= 0) & (array <= 1)).all():
            raise ParameterError("q must lie between 0 and 1")
        ends = {0.0: self._BEGINS, 1.0: math.inf}
        found = [ends[p] if p in ends else self._noise_at(Fraction(p)) for p in array.astype(float).ravel().tolist()]
        return np.array(found, np.float64).reshape(array.shape)[()]

    @abstractmethod
    def _noise_at(self, p: Fraction) -> float:
        """The least noise that is not exceeded with probability p, 0 < p < 1."""

    @abstractmethod
    def _upto(self, k: npt.NDArray[np.float64]) -> Any:
        """P(K <= k), K the noise as a whole number: of counts, or of steps of the grid."""

    def _beyond(self, k: npt.NDArray[np.float64]) -> Any:
        """P(K > k), by symmetry: one less P(K <= k) would lose a small tail."""
        return self._upto(-k - 1)

    @lockfree_property
    def _record(self) -> tuple[str | int, ...]:
        """The law and its exact parameters, for the derivation of stream keys."""
        return self.NAME, *(n for _, value, numbers in self._written("stream") if numbers for n in numbers(value))

    def _plan(self, size: int, constant_time: bool) -> tuple[bool, _native.Plan]:
        if constant_time:
            self._check_constant_time()
        constant_work = constant_time or size < SMALL
        return constant_work, self._constant_work_plan if constant_work else self._bulk_plan

    def _check_constant_time(self) -> None:
        """Raises: ParameterError (some draws would take longer)."""

    def _half_width(self, confidence: Real, cells: int) -> Any:
        """The least half-width for `cells` independent cells, in the law's units."""
        return self._law.half_width(probability("confidence", confidence), whole("cells", cells, 1))

    @lockfree_property
    def _on_record(self) -> dict[str, object]:
        return {**super().metadata(), "scale": self.scale}

    def metadata(self, key: ReleaseKey | None = None) -> dict[str, object]:
        """What error bars of a release need: JSON-able, fractions as exact strings.

        key: the release key, if any: `secure` tells if it was secret. Raises: DTypeError (no key).

        >>> about = dpfast.DiscreteLaplace(epsilon="0.1", sensitivity=1).metadata()
        >>> about["mechanism"], about["epsilon"], about["scale"]
        ('discrete_laplace', '1/10', 10.0)
        """
        from dpfast.noise.release.key import release_key  # late, as below

        return {**self._on_record, "secure": key is None or release_key(key).secure}

    # ------------------------------------------------------------------ for accountants

    def dp_event(self, sensitivity: Sensitivity | None = None, *, zcdp: bool = False) -> Any:
        """One release as a DpEvent of dp-accounting, for the mechanism's own adjacency.

        sensitivity: for a Gaussian made from sigma alone, or to replace the mechanism's.
        zcdp: the release as rho-zCDP, which the RDP accountant takes of all laws. A
            DiscreteGaussian always gives this event.

        Rounded to the side of more privacy loss: epsilon and rho up, noise down.
        Raises: ImportError (dp-accounting is not there, or untested), DTypeError, ParameterError.

        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).dp_event()
        DiscreteLaplaceDpEvent(noise_parameter=1.0, sensitivity=1)
        """
        return port.accounting().dp_event(self, sensitivity, zcdp=flag("zcdp", zcdp))

    def privacy_loss_distribution(
        self, sensitivity: Sensitivity | None = None, *, value_discretization_interval: float = 1e-4
    ) -> Any:
        """One release as a pessimistic PrivacyLossDistribution of dp-accounting, which composes.

        sensitivity: as for dp_event; for a DiscreteGaussian it must be known as (l0, linf).
        value_discretization_interval: the step between losses, equal in all that are composed.

        dp-accounting computes in doubles: it cannot tell some 1e-15 of delta for each composition.
        Raises: ImportError, DTypeError, ParameterError (also for losses above 512, or more than
            2^22 points or integers).

        >>> loss = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).privacy_loss_distribution()
        >>> bool(loss.get_delta_for_epsilon(1.01) < 1e-9)
        True
        """
        step = step_of_losses(value_discretization_interval)
        return port.accounting().privacy_loss_distribution(self, sensitivity, value_discretization_interval=step)


class OptionsWithoutDtype(TypedDict, total=False):
    """What `release` takes beside values and dtype, for type checkers."""

    out: npt.NDArray[Any] | None
    lower: Real | None
    upper: Real | None
    clamp: tuple[Real, Real] | None
    missing: Real | None
    threads: int | None
    constant_time: bool
    key: ReleaseKey | None
    names: Any
    resume: bool
    columns: Any


class Options(OptionsWithoutDtype, total=False):
    """What `release` takes beside values, for type checkers."""

    dtype: npt.DTypeLike | None


class PaidWithoutDtype(OptionsWithoutDtype, total=False):
    """What `Ledger.release` takes beside mechanism, values and dtype, for type checkers."""

    label: str | None


class Paid(Options, total=False):
    """What `Ledger.release` takes beside mechanism and values, for type checkers."""

    label: str | None


def _refuse_columns(columns: object) -> None:
    if columns is not None:
        raise ParameterError("columns must be left out here, because only a frame has columns")


class Releasing(Mechanism, Payable):
    """A mechanism that releases arrays. A subclass says of what numbers, and checks them."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset(Given._fields) - {"key", "resume"}
    INTEGERS: ClassVar[bool]
    _job: ClassVar[Callable[..., Job | RealJob]]  # the arrays of a release, once all is found right with them

    @property
    def _most_cells(self) -> int | None:
        """How many cells an array may have, if Sensitivity.cells says it."""
        return None

    def _check_cells(self, size: int) -> None:
        most = self._most_cells
        if most is not None and size > most:
            raise ParameterError(
                f"values must have at most the {most} cells of the sensitivity, got {size}: make the mechanism for a "
                "Sensitivity with as many"
            )

    def _inputs(self, clamp: object, missing: object) -> Inputs:
        """Raises: DTypeError, ParameterError."""
        if missing is None and clamp is None:
            return NOTHING
        return inputs(clamp, missing, self._cell_squared, integers=self.INTEGERS)

    def release(
        self,
        values: npt.ArrayLike,
        /,
        *,
        out: npt.NDArray[Any] | None = None,
        dtype: npt.DTypeLike | None = None,
        lower: Real | None = None,
        upper: Real | None = None,
        clamp: tuple[Real, Real] | None = None,
        missing: Real | None = None,
        threads: int | None = None,
        constant_time: bool = False,
        key: ReleaseKey | None = None,
        names: Any = None,
        resume: bool = False,
        columns: Any = None,
        **unknown: Any,
    ) -> Any:
        """Return `values` plus fresh noise: the exact sum; for reals rounded to the grid once.

        Args:
            values: one entry a cell, of any shape, strides and byte order: integers of any dtype,
                or, for a mechanism on reals, float64 or float32, finite unless `missing` is given.
                A Series of pandas or Polars, a Polars expression, an Array of pyarrow or a tensor
                on the CPU gives one of its kind (docs/adapters.md). So does a frame, with `columns`
                or if it is a crosstab of pandas, whose rows have labels. Counts of
                bounded_histogram are refused if the mechanism was made for a smaller change.
            out: where to write, of the shape of values, or values itself. After a failure it holds
                zeros, so values in place are lost. It is untouched if no key could be had, or if a
                real value is refused in place or under a key. A new array lies in memory as values
                do if these fill a block of it, transposed or reversed, and there is no key; else in
                C order. Writing costs least where both lie alike.
            dtype: of the result: by default int64, or the values' own if real. A grid point that it
                does not hold becomes the nearest that it does, or its largest or smallest finite
                number; zero is always +0.0.
            lower, upper: public bounds of the result; clamping is post-processing, costs nothing.
            clamp: (a, b), public numbers of the values' type (doubles within it if real), to which
                values are clamped before the noise. The sensitivity stays that of the values.
            missing: a public number put in for every null, NaN and infinity, then clamped and
                noised like any value; without it they are refused. The sensitivity is that of the
                values with missing put in. Counts may always take 0: an absent count is a 0. Any
                other number needs clamp, and a stated change of one cell (linf; the L1 or L2 number
                if that alone is known) of at least max(b - missing, missing - a), also if missing
                is outside the clamp. A count may then be a float64: a whole number within 2^53, or
                NaN for a missing one. NumPy's integers have no nulls.
            threads: at most so many; by default all usable cores, one below some 500,000 values.
            constant_time: equal work for every draw, so that the time does not show the noise.
                Calls below 4,096 values always do so.
            key: a release key, `Key.generate().derive(label)`: the same noise for the same values,
                and other noise for any others, wherever and however often (docs/sealed.md). Not in
                place. A label names one release of one input.
            names: under a key, what the values belong to, if not their places: a column of
                integers or strings as long as the values, sealed with them. An index of pandas is
                taken unasked.
            resume: whether this is the release again that was begun under the key's label.
            columns: of a frame, the names of the columns that are released, in their order, as one
                vector. The result has these columns alone. What else you publish beside it, such as
                the keys of counts, has no noise, and tells which keys there are.
        Raises: DTypeError, ParameterError; EntropyError (no key); KeyReuseError (the label names a
            release already); UnusableValuesError and OtherInputError, which depend on the values.
        Privacy: spends what the mechanism says; under a key once, however often it is drawn.


        >>> ages = np.array([[12, 0], [7, 31]], np.int32)
        >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release(ages, lower=0).shape
        (2, 2)
        >>> dpfast.Laplace(epsilon=1, sensitivity=2).release([0.5, 2.0]).dtype
        dtype('float64')
        >>> type(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release(5))
        <class 'numpy.int64'>

        """
        if unknown:
            self._refuse_unknown(unknown)
        no_bounds = lower is None and upper is None and clamp is None and missing is None
        one_thread = threads is None or (type(threads) is int and threads > 0)  # as few values take
        no_key = key is None and names is None and resume is False and columns is None
        if (
            no_bounds
            and dtype is None
            and one_thread
            and no_key
            and constant_time is False
            and type(values) is np.ndarray
            and (values.base is None or origin_of(values.base) is None)
            and (out is None or (type(out) is np.ndarray and out.base is None) or origin_of(out) is None)
        ):
            if values.dtype is LONG_LONG:
                values = values.view(INT64)
            found = _native.small(_native.refuse, self._few, values, out)
            if found is None and values.size < SMALL and not values.flags.c_contiguous:
                found = self._few_turned(values, out)
            if found is not None:
                return found if found.ndim or out is not None else found[()]
        if key is not None:
            key = _keys().sealing(key, values)
        # Those of Given, without the record: it would take a tenth of a release of one number.
        given = out, dtype, lower, upper, clamp, missing, threads, constant_time, key, names, resume, columns
        return self._steps(values, None, given)

    def _refuse_unknown(self, options: Iterable[str]) -> NoReturn:
        takes = f"; it takes values by place, and by name {', '.join(f'{name}=' for name in Given._fields)}"
        raise DTypeError(unknown_option(f"{type(self).__name__}.release()", min(options), takes))

    @property
    @abstractmethod
    def _small_kinds(self) -> tuple[npt.DTypeLike, ...]:
        """The types of values, and of their results, that `_native.small` releases."""

    @shared_property
    def _small(self) -> tuple[object, ...]:
        """What C needs for a release of few plain values; nothing if it must go the general way."""
        if not self._narrow:
            return ()
        jobs = [self._job(np.empty(0, kind)) for kind in self._small_kinds]
        return tuple(each for job in jobs for each in prepare_small(job, self._constant_work_plan))

    @lockfree_property
    def _few(self) -> tuple[object, ...]:
        """The same, if cells need not be counted: mechanisms of other cells share the rest."""
        return self._small if self._most_cells is None else ()

    def _in_kernels(self, dtype: npt.DTypeLike | None, lower: Any, upper: Any) -> tuple[np.dtype[Any], _native.Pair]:
        """The type of values and results, and what C needs to add noise to few of them and to many.

        Raises: DTypeError, ParameterError.
        """
        if self._most_cells is not None:
            raise ParameterError(
                "mechanism must be made for a Sensitivity without cells: in a kernel nobody counts them"
            )
        wanted = (integer_dtype if self.INTEGERS else real_dtype)(self._small_kinds[0] if dtype is None else dtype)
        kind: Any = np.dtype(wanted.str)  # one of equal ones, which C knows
        if not wanted.isnative:
            raise DTypeError(f"dtype must have this machine's byte order, got {wanted}")
        if not (self._narrow or kind.itemsize == 8):
            raise DTypeError(f"dtype must be one of 64 bits for noise of this scale, got {kind}")
        with _native.own_mode():
            job = self._job(np.empty(0, kind), None, kind, lower, upper)
        plans = (self._constant_work_plan, True), (self._bulk_plan, False)
        few, many = (
            (_native.Release(as_c(job, (kind, kind), plan.address, self._narrow, work), kind), plan)
            for plan, work in plans
        )
        return kind, _native.Pair(few, many)

    def _few_turned(self, values: Any, out: Any) -> Any:
        """A release of few values that memory's order makes plain; None if nothing has happened."""
        made = new_result(values, values.dtype) if out is None else out
        if type(made) is not np.ndarray:
            return None
        turned = memory_order(values, made)
        if turned[0] is values or _native.small(_native.refuse, self._few, *turned) is None:
            return None
        return made

    def _release(self, values: Any, charge: Callable[..., None] | None = None, /, **options: Any) -> Any:
        return self._steps(values, charge, Given(**options))

    def _steps(self, values: Any, charge: Callable[..., None] | None, given: tuple[Any, ...]) -> Any:
        """A release in three steps.

        charge: what a ledger does as the second, or it raises. Under a key it is given the seal.
        given: the fields of Given.
        """
        # Prepare: what can be wrong is found here.
        out, dtype, lower, upper, clamp, missing, threads, constant_time, key, names, resume, columns = given
        public = self._inputs(clamp, missing)
        threads = None if threads is None else whole("threads", threads, 1)
        if constant_time is not False:
            constant_time = flag("constant_time", constant_time)
        if type(values) is not np.ndarray and (other := port.releaser(values, out)) is not None:
            made: np.dtype[Any] | None = INT64 if self.INTEGERS else None
            if dtype is not None:
                made = (integer_dtype if self.INTEGERS else real_dtype)(dtype).newbyteorder("=")
            options = Given(*given)._replace(dtype=made, threads=threads, constant_time=constant_time)._asdict()
            del options["out"]
            return other(lambda cells, **of: self._release(cells, charge, **of), values, options)
        _refuse_columns(columns)
        refuse_less(values, self)
        job = self._job(values, out, dtype, lower, upper, public)
        self._check_cells(job.counts.size)
        constant_work, plan = self._plan(job.counts.size, constant_time)
        if key is not None or names is not None or resume is not False:
            if not (key is None or out is None or disjoint(np.asarray(values), out)):  # a clamp has made a copy
                raise ParameterError("out must not be values themselves under a key: no retry could read them again")
            self._sealed(job, public, (constant_work, plan, threads), charge, given)
            return job.out if job.out.ndim or out is not None else job.out[()]
        if not job.counts.flags.c_contiguous and out is None:
            kind: Any = job.out.dtype
            job = job._replace(out=np.empty(0, kind))  # what lies in C order goes before other memory comes
            job = job._replace(out=new_result(job.counts, kind))
        result = job.out
        if not result.flags.c_contiguous:
            counts, turned = memory_order(job.counts, result)
            job = job._replace(counts=counts, out=turned)
        if (charge is not None or out is not None) and isinstance(job, RealJob):
            check_finite(job, final=charge is not None)
        # Charge: nothing is drawn yet, and nothing is checked any more.
        if charge is not None:
            charge()
        self._draw(job, constant_work, plan, threads)
        return result if result.ndim or out is not None else result[()]  # a number for a number

    def _draw(self, job: Job | RealJob, constant_work: bool, plan: _native.Plan, threads: int | None) -> None:
        """Fill job.out with values plus noise of a fresh stream."""
        if constant_work and self._narrow and run_small(job, plan):
            return
        stream = _native.StreamKey()
        try:
            stream.draw()
            run(job, Draws(plan.address, self._narrow, stream, 0, constant_work), threads)
        finally:
            stream.wipe()

    def _sealed(
        self,
        job: Job | RealJob,
        public: Inputs,
        work: tuple[bool, _native.Plan, int | None],
        reserve: Callable[..., None] | None,
        given: tuple[Any, ...],
    ) -> None:
        """Fill job.out under a key: each block of the values from the stream of its own digest."""
        (constant_work, plan, threads), (out, *_, key, names, resume, _) = work, given
        if key is None:
            what = "resume is" if names is None else "names are"
            raise ParameterError(f"{what} for a release under a key, and there is no key")
        again = resume is not False and flag("resume", resume)
        task = _keys().task_of(key, self, reserve, public, resume=again)
        if task.seals and out is None and names is None and is_one(job):
            task.straight(job, as_c(job, (INT64, INT64), plan.address, self._narrow, constant_work))
            return
        blocks = Blocks(
            job,
            plan.address,
            narrow=self._narrow,
            constant_work=constant_work,
            names=names if names is None or isinstance(names, Names) else Names.read("names", names, job.counts.size),
            threads=threads,
            unseen=out is None,
        )
        try:
            task.take(blocks)
        except BaseException:
            if out is None:
                job.out.fill(0)  # copies may lie there, and a second Ctrl-C may come before `forget` begins
            raise
        finally:
            blocks.forget()

    def _facts(self) -> dict[str, str]:
        half = self.interval()
        shown = half if isinstance(half, int) else rounded(Fraction(half), up=True, group="")
        return {
            **super()._facts(),
            "standard deviation": f"{self.stddev:.6g}",
            "95 % interval": f"±{shown}",
        }


@cache
def _keys() -> Any:
    """The module of keys, late: most releases have none."""
    from dpfast.noise.release import key

    return key
