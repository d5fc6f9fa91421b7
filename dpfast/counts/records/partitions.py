# SPDX-License-Identifier: Apache-2.0
"""Partition selection by a stability-based histogram: private keys whose noisy count is high."""

from __future__ import annotations

import math
import struct
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dpfast.counts.records.payment import Payment
from dpfast.errors import DTypeError, ParameterError, UnusableValuesError
from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.integer import IntegerMechanism
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.noise.release.arrays import ENDS, INT64, UINT64, CountArray, integer_array, plain_array
from dpfast.noise.release.counts import change_of, origin_of
from dpfast.noise.release.key import release_key, sealing
from dpfast.noise.release.names import Names
from dpfast.noise.release.secret import encode
from dpfast.privacy import gaussian_threshold, parameters
from dpfast.privacy.gaussian_threshold import Norms
from dpfast.privacy.guarantee import Guarantee, warn_if_weak
from dpfast.privacy.parameters import Real, shown, unseeded, whole
from dpfast.privacy.record import ratio, written
from dpfast.privacy.sensitivity import Sensitivity, across_parts, refuse_less
from dpfast.privacy.threshold import least_threshold

if TYPE_CHECKING:
    from dpfast.ledger import Ledger
    from dpfast.noise.release.key import ReleaseKey

BUCKETS = 256  # under a key, unless the caller says otherwise
MOST_BUCKETS = 2**32

KINDS = "iufbUSmM"  # the kinds of dtypes whose keys have an order
OBJECTS: dict[str, Any] = {  # kinds of Python objects; a bool is an int, and a datetime a date
    "bool": (bool, np.bool_), "int": (int, np.integer), "float": (float, np.floating), "str": str, "bytes": bytes,
    "datetime": datetime, "date": date, "time": time, "timedelta": timedelta, "datetime64": np.datetime64,
}  # fmt: skip
PLAIN = (np.bool_, np.integer, np.floating, np.str_, np.bytes_)
UNITS = ("D", "s", "ms", "us", "ns", "ps", "fs", "as")  # the first that holds all dates shown is taken
MONTHS = ("Y", "M")  # the units of differences that are no fixed number of days


class Thresholded(NamedTuple):
    """The keys shown, sorted; their noisy counts; the threshold that these reach; the cost.

    >>> one = dpfast.Sensitivity(l0=1, linf=1)
    >>> shown = dpfast.thresholded(["tea"], [500], epsilon=1, delta="1e-9", sensitivity=one)
    >>> shown.guarantee.epsilon, shown.counts.shape
    (Fraction(1, 1), (1,))
    """

    keys: npt.NDArray[Any]
    counts: CountArray
    threshold: int
    guarantee: Guarantee


class Showing(NamedTuple):
    """What a key needs to be shown: a noisy count, and a true one."""

    threshold: int
    pre_threshold: int

    def of(self, counts: CountArray, noisy: CountArray) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (noisy >= self.threshold) & (counts >= self.pre_threshold)
        return found


def _if_any(pre_threshold: int) -> dict[str, Any]:
    return {} if pre_threshold == 1 else {"pre_threshold": pre_threshold}


class Withheld(IntegerMechanism):
    """Noise for keys that may be withheld, and what both spend: known before a key is."""

    delta: Fraction = written(stream=ratio)
    alone: Norms = written(stream=tuple, metadata=lambda alone: {"alone": alone._asdict()})
    # by default in no record, as before there was one
    pre_threshold: int = written(
        stream=lambda least: tuple(_if_any(least).values()),
        metadata=_if_any,
        words=lambda least: {name: str(value) for name, value in _if_any(least).items()},
    )

    def _keep_terms(self, delta: Real, sensitivity: Sensitivity, pre_threshold: int) -> None:
        self._keep(
            delta=parameters.probability("delta", delta, decimal=True),
            alone=alone(sensitivity),
            pre_threshold=whole("pre_threshold", pre_threshold, 1),
        )
        warn_if_weak("delta", self.delta)

    @lockfree_property
    def threshold(self) -> int:
        """What noisy counts must reach. Raises: ParameterError (nothing reaches delta)."""
        return self._least + self.pre_threshold - 1

    @property
    def _least(self) -> int:
        """The threshold without a pre-threshold."""
        raise NotImplementedError

    def dp_event(self, *_: Any, **__: Any) -> Any:
        """Raises: ParameterError. The noise alone would leave out the delta of the threshold."""
        raise ParameterError("a threshold has a delta beside its noise, which no event has: take the guarantee")

    privacy_loss_distribution = dp_event

    @property
    def showing(self) -> Showing:
        return Showing(self.threshold, self.pre_threshold)


class Withholding(Withheld, DiscreteLaplace):
    """Discrete Laplace noise of scale l1/epsilon."""

    NAME: ClassVar[str] = "thresholded"

    def __init__(self, epsilon: Real, delta: Real, sensitivity: Sensitivity, *, pre_threshold: int = 1) -> None:
        alone(sensitivity)  # whose errors come first
        super().__init__(epsilon, sensitivity.with_public_keys())
        self._keep_terms(delta, sensitivity, pre_threshold)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta), and the rho of the noise but for the same delta.

        With probability 1 - delta no key of one unit alone is shown; then there is the noise.
        """
        return self._guarantee(self.delta)

    @property
    def _least(self) -> int:
        return least_threshold(self.epsilon / self.sensitivity, self.delta, *self.alone)


class GaussianWithholding(Withheld, DiscreteGaussian):  # type: ignore[misc]  # delta is a figure here
    """Discrete Gaussian noise for (epsilon, delta), by the sigma that has the least threshold."""

    NAME: ClassVar[str] = "thresholded_gaussian"
    epsilon: Fraction = written(stream=ratio)

    def __init__(self, epsilon: Real, delta: Real, sensitivity: Sensitivity, *, pre_threshold: int = 1) -> None:
        self._keep_terms(delta, sensitivity, pre_threshold)
        exact_epsilon = parameters.exact_positive("epsilon", epsilon, decimal=True)
        warn_if_weak("epsilon", exact_epsilon)
        sigma, least = gaussian_threshold.least_noise(
            exact_epsilon, self.delta, changed(sensitivity), self.alone, one_side=sensitivity.one_way
        )
        super().__init__(sigma, sensitivity=sensitivity.with_public_keys())
        self._keep(epsilon=exact_epsilon, _least=least)

    def _guarantee(self, change: Sensitivity) -> Guarantee:
        """(epsilon, delta), and the rho of the noise but for the same delta, as of Withholding."""
        of = super()._guarantee(change)
        about: Any = {"adjacency": of.adjacency, "unit": of.unit, "add_remove": of.add_remove}
        return Guarantee(self.epsilon, self.delta, rho=of.rho, rho_delta=self.delta, **about)

    def _across_parts(self) -> Guarantee | None:
        """The guarantee, unless `cells` bounds a part: the threshold is that of one part alone."""
        change = self._known(None)
        return self.guarantee if across_parts(change) == change else None

    def group(self, size: int) -> Guarantee:
        """That of the guarantee: the law of the noise leaves out the threshold."""
        return self.guarantee.group(size)

    @lockfree_property
    def _least(self) -> int:
        change: Any = self.sensitivity
        return gaussian_threshold.least_threshold(
            self.epsilon, self.delta, self.sigma_squared, changed(change), self.alone, one_side=change.one_way
        )


NOISE = {"laplace": Withholding, "gaussian": GaussianWithholding}


@unseeded
def thresholded(
    keys: npt.ArrayLike,
    counts: npt.ArrayLike,
    *,
    epsilon: Real,
    delta: Real,
    sensitivity: Sensitivity,
    noise: str = "laplace",
    pre_threshold: int = 1,
    ledger: Ledger | None = None,
    label: str | None = None,
    key: ReleaseKey | None = None,
    resume: bool = False,
    buckets: int = BUCKETS,
) -> Thresholded:
    """Show the keys whose noisy count is at least a threshold, with their noisy counts.

    This is partition selection, for keys that nobody knew beforehand.

    keys: one dimension, no two equal: integers, floats, strings, bytes, bools, dates and times; in
        a list or an array of objects also tuples of them. A key that is missing (None, NaN, NaT) is
        dropped before the noise. So is a key of another kind among Python objects: a refusal would
        reveal it. Objects are sorted within each kind, and 1, 1.0 and True are three keys. The keys
        *shown* decide the dtype of the result, because a width, a unit or `object` would reveal a
        hidden key. It is int64, or uint64 if they need it; float64; strings as wide as the widest;
        dates in days, or in the coarsest of seconds and their thousandths that holds all; for
        objects the dtype that np.array finds, or object.
    counts: integers, one for each key, not negative. A key with a count of 0 counts as absent.
    epsilon, delta: a float by its shortest decimal. Every call spends them.
    sensitivity: a Sensitivity. It says in how many keys (l0), by how much in each (linf) and by how
        much in all (l1) one unit of privacy changes the counts. Those of bounded_histogram refuse a
        smaller one.
    ledger: charged before the noise is drawn. label: for its history, without a key.
    key, resume: as of a mechanism's release: the same noise and the same keys for the same input,
        in whatever order it comes, and one charge. Equal keys of another dtype are another input if
        they are dates.
    buckets: under a key, into how many the keys are divided by a keyed hash: it is published, so
        choose it without a look at the data.

    noise: "laplace", discrete and of scale l1/epsilon; or "gaussian", discrete and of the least
        sigma for (epsilon, delta), or one up to a tenth larger whose threshold is lower. At (1,
        1e-6) Gaussian noise has the lower threshold from three keys a unit on: 44, 71, 166 for l0 =
        4, 10, 50, and Laplace noise 60, 156, 854. If l1 is known and far below l0 linf, Laplace
        noise is the better one.
    pre_threshold: counts below it are hidden, too, and the threshold is that much higher, less one.

    The threshold is the least T above linf that keeps delta, whatever keys one unit has alone: as
    many, with counts as high and of such a sum, as it may contribute. By Laplace noise delta is the
    chance that one of them is shown; by Gaussian noise it pays for both, and is not split. T is
    found in intervals. Keys with small counts stay hidden: the histogram loses its tail.

    Privacy: each call is (epsilon, delta)-differentially private, for the adjacency and the unit of
        the sensitivity.
    Raises: DTypeError, ParameterError; EntropyError. No message shows a key or a count.
    Source: proofs are in dpfast/privacy/threshold.py and gaussian_threshold.py; Korolova,
        Kenthapadi, Mishra, Ntoulas 2009.

    >>> one = dpfast.Sensitivity(l0=1, linf=1)  # a person has one word
    >>> words, counts = ["tea", "a secret"], [500, 1]
    >>> shown = dpfast.thresholded(words, counts, epsilon=1, delta="1e-9", sensitivity=one)
    >>> shown.keys.tolist(), shown.threshold
    (['tea'], 22)
    """
    law = withholding(noise)(epsilon, delta, sensitivity, pre_threshold=pre_threshold)
    showing = law.showing
    payment = Payment.of(ledger, label, key, resume)
    among, under = whole("buckets", buckets, 1), None if key is None else release_key(sealing(key, counts))
    if among > MOST_BUCKETS:
        raise ParameterError(f"buckets must be at most 2**32, got {parameters.shown(buckets)}")
    if ledger is None:
        names, present = _read(keys, counts, sensitivity)
    else:
        if under is not None:
            ledger.expect(under, law, resume=resume)
        called = label or "" if under is None else under.label
        with ledger._recording(law, called, unpaid=under is None):  # noqa: SLF001  the ledger's own door
            names, present = _read(keys, counts, sensitivity)
    noisy = payment.release(law, present) if under is None else _sealed(law, present, names, under, payment, among)
    shown = showing.of(present, noisy)
    return Thresholded(_of_their_own(names[shown]), noisy[shown], showing.threshold, law.guarantee)


def _refuse_less(counts: CountArray, stated: Sensitivity) -> None:
    """Refuse counts that one unit changes by more. Raises: ParameterError.

    The threshold hides what keys a unit has alone, and the noise what it changes.
    """
    found = origin_of(counts)
    if found is None:
        return
    change = change_of(counts, found).with_public_keys()
    refuse_less(change, stated, stated.adjacency, stated.unit)
    for name, most, given in zip(Norms._fields, alone(change), alone(stated), strict=True):
        if given < most:
            raise ParameterError(f"sensitivity must be of contributions with {name} of at least {most}, got {given}")


def withholding(noise: str) -> Any:
    """The class of this name. Raises: ParameterError."""
    if not isinstance(noise, str) or noise not in NOISE:
        raise ParameterError(f"noise must be one of {', '.join(NOISE)}, got {shown(noise)}")
    return NOISE[noise]


def _read(keys: npt.ArrayLike, counts: npt.ArrayLike, stated: Sensitivity) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The keys that are there, in their order, and their counts.

    Both are copies, because another thread may write the caller's arrays meanwhile.
    """
    if isinstance(keys, (list, tuple)):
        keys = np.fromiter(keys, object, len(keys))  # else tuples of one length would be rows
    names = plain_array("keys", keys, "keys that sort", None if hasattr(keys, "dtype") else object).copy()
    values = integer_array("counts", counts)
    _refuse_less(values, stated)
    values = values.copy()
    if names.ndim != 1 or values.shape != names.shape:
        raise ParameterError("keys and counts must have one dimension and equal lengths")  # how many is private
    if values.size and values.min() < 0:
        raise UnusableValuesError("counts must not be negative")
    order = _sorted(names, values > 0)
    return names[order], values[order]


def _sealed(
    law: Withheld,
    counts: CountArray,
    names: npt.NDArray[Any],
    key: ReleaseKey,
    payment: Payment,
    buckets: int,
) -> CountArray:
    """Noisy counts of sorted keys. A bucket is a block, so the number of keys is not published."""
    runs = [canonical(name) for name in names.tolist()]
    bucket = np.array(key.buckets(runs, buckets), np.int64)
    order = np.argsort(bucket, kind="stable")
    edges = np.searchsorted(bucket[order], np.arange(buckets + 1))
    parts = [order[edges[j] : edges[j + 1]] for j in range(buckets)]
    named = [Names.of_bytes([runs[i] for i in part.tolist()]) for part in parts]
    digester = key.digester(law)
    digests = [digester(j, counts[part], names=named[j]) for j, part in enumerate(parts)]
    sealed = payment.sealed(key.seal(law, digests, buckets=buckets))
    noisy = np.empty(counts.size, np.int64)
    for j, part in enumerate(parts):
        noisy[part] = sealed.release(j, counts[part], names=named[j])
    return noisy


def canonical(name: object) -> bytes:
    """A key in bytes, its kind first: unequal keys have unequal bytes (csrc/stream.md)."""
    if isinstance(name, tuple):
        return encode("tuple", *map(canonical, name))
    body: bytes | str = str(name)
    if isinstance(name, (str, bytes)):
        body = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else bytes(name)
    elif isinstance(name, (int, np.integer, np.bool_)):
        body = str(int(name))
    elif isinstance(name, (float, np.floating)) and float(name) == name:
        body = struct.pack("<d", name + 0.0)
    return encode(str(_kind(name)), body)


def alone(sensitivity: Sensitivity) -> Norms:
    """What keys one unit alone can have: how many, with what counts at most, and what sum."""
    if not isinstance(sensitivity, Sensitivity):
        raise DTypeError(f"sensitivity must be a Sensitivity(l0, linf), not {type(sensitivity).__name__}")
    cells, total = (sensitivity.l0, sensitivity.linf), sensitivity.l1
    if sensitivity.contributes is not None and not sensitivity.signed:
        cells, total = sensitivity.contributes, sensitivity.contributed
    l0, linf = cells
    if l0 is None or linf is None or total is None:
        raise ParameterError("sensitivity must be known as l0 and linf here, and this one in L2 alone")
    if linf < 1:
        raise ParameterError(f"linf must be at least 1, because counts change by whole numbers, got {linf}")
    return Norms(l0, math.floor(linf), math.floor(total))


def changed(sensitivity: Sensitivity) -> Norms:
    """What the counts of neighbours differ by, of a Sensitivity that `alone` takes."""
    l0, linf, l1 = sensitivity.l0, sensitivity.linf, sensitivity.l1
    return Norms(l0, math.floor(linf), math.floor(l1))  # type: ignore[arg-type]  # all three are known


def _sorted(names: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """The places of keys that are present and not missing, in their order; no two may be equal."""
    if names.dtype == object:
        kinds = {i: kind for i in np.flatnonzero(present).tolist() if (kind := _kind(names[i])) is not None}
        found = sorted(kinds, key=lambda i: (kinds[i], names[i]))
        equal = any(kinds[i] == kinds[j] and names[i] == names[j] for i, j in pairwise(found))
        order = np.array(found, np.intp)
    elif names.dtype.kind in KINDS:
        there = np.flatnonzero(present & (names == names))  # noqa: PLR0124  NaN, NaT
        order = there[np.argsort(names[there])]
        ordered = names[order]
        equal = bool((ordered[1:] == ordered[:-1]).any())
    else:
        raise DTypeError(f"keys must be integers, strings, dates or the like, not {names.dtype}")
    if equal:
        raise UnusableValuesError("keys must all be different: each key has one count")
    return order


def _kind(key: object) -> str | None:
    """The kind of a key, by the key alone, to sort it within; None if it is missing or has none."""
    if isinstance(key, tuple):  # a key of several columns
        kinds = [None if isinstance(each, tuple) else _kind(each) for each in key]
        return None if None in kinds else f"({', '.join(map(str, kinds))})"
    for kind, types in OBJECTS.items():
        if isinstance(key, types):
            if key != key:  # noqa: PLR0124  NaN, NaT
                return None
            # With a zone it cannot be compared with those without.
            zoned = isinstance(key, (datetime, time)) and key.utcoffset() is not None
            return f"{kind} with a zone" if zoned else kind
    return None


def _of_their_own(shown: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of the keys shown, in a dtype that depends on them alone."""
    kind = shown.dtype.kind
    if kind == "O":
        return _of_objects([key.item() if isinstance(key, PLAIN) else key for key in shown.tolist()])
    if kind in "US":
        return np.array(shown.tolist(), kind)
    if kind in "mM":
        months = kind == "m" and np.datetime_data(shown.dtype)[0] in MONTHS  # they are no fixed number of days
        kinds = [f"{kind}8[{unit}]" for unit in (MONTHS if months else UNITS)]
        return next((near for kind in kinds if ((near := shown.astype(kind)) == shown).all()), shown)
    wide = UINT64 if kind == "u" and shown.size and shown.max() > ENDS["i", 8][1] else INT64
    if kind == "f":
        return shown.astype(np.result_type(shown.dtype, np.float64))
    return shown.astype(wide if kind in "iu" else shown.dtype)


def _of_objects(keys: list[Any]) -> npt.NDArray[Any]:
    """The keys as np.array stores them; as objects if np.array changes one of them.

    It cuts null characters at the end of a text, and it turns 1 beside "a" into a text.
    """
    with suppress(ValueError, OverflowError):
        found = np.array(keys)
        if found.ndim == 1 and [(type(key), key) for key in found.tolist()] == [(type(key), key) for key in keys]:
            return found
    return np.fromiter(keys, object, len(keys))
