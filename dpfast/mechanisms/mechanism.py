# SPDX-License-Identifier: Apache-2.0
"""What all mechanisms share: the key of a release, the digits of a draw, and the records of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpfast import _native, exact
from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.formatting import html_table
from dpfast.privacy.parameters import exact_positive, flag, shown, whole
from dpfast.release.arrays import plain_runs
from dpfast.release.engine import BUFFER, SMALL, usable_threads
from dpfast.release.key import ReleaseKey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpfast.privacy.inputs import Ends
    from dpfast.privacy.parameters import Real
    from dpfast.privacy.sensitivity import Sensitivity

ACCEPT_WIDTH = 16  # bits of a level-0 word that accepts or rejects


class Mechanism(ABC):
    """A law with its parameters, frozen. A subclass says which law, and what it is in C and in intervals."""

    LAW: ClassVar[str]  # its name in C, in its proof and in the stream
    NAME: ClassVar[str]  # in metadata and on the command line

    @property
    @abstractmethod
    def scale(self) -> float: ...

    @property
    @abstractmethod
    def stddev(self) -> float: ...

    @property
    @abstractmethod
    def _constant_work_plan(self) -> _native.Plan:
        """For calls that do the same work for every draw."""

    @property
    @abstractmethod
    def _bulk_plan(self) -> _native.Plan:
        """With its table, built at the first bulk release."""

    @property
    @abstractmethod
    def _narrow(self) -> bool:
        """Whether every draw that C decides fits the narrow kernel."""

    @property
    @abstractmethod
    def _record(self) -> tuple[str | int, ...]:
        """The law and its exact parameters, for the derivation of stream keys."""

    @property
    @abstractmethod
    def _cell_squared(self) -> Fraction | None:
        """The square of the change of one cell that the sensitivity states, None without one: see privacy/inputs.py."""

    @property
    @abstractmethod
    def _parameters(self) -> dict[str, object]:
        """The parameters in metadata, exact ones as strings."""

    @abstractmethod
    def _facts(self) -> dict[str, str]:
        """The parameters as a reader wants them."""

    @abstractmethod
    def interval(self, confidence: Real = Fraction(95, 100), *, cells: int = 1) -> float: ...

    def _plan(self, size: int, constant_time: bool) -> tuple[bool, _native.Plan]:
        constant_work = constant_time or size < SMALL
        return constant_work, self._constant_work_plan if constant_work else self._bulk_plan

    def _key_into(
        self,
        stream: _native.StreamKey,
        key: ReleaseKey | None,
        start: int | None,
        values: npt.NDArray[np.number[Any]],
        threads: int | None,
        *also: str,
    ) -> int:
        """Put the key of one call into `stream`; its first draw's number. also: what else the released values depend on."""
        if key is None:
            if start is not None:
                raise ParameterError(
                    f"start is for parts of one release under a key; there is no key, got start={shown(start)}"
                )
            stream.draw()
            return 0
        _check_kind(key)
        if start is None:
            raise ParameterError("start must be given beside a key: the number of this part's first draw")
        first = whole("start", start)
        unsigned = values.dtype.kind == "u" and values.size > 0 and int(values.max()) >= 2**63
        workers = min(threads or usable_threads(), usable_threads())  # the hash starts as many as it is told
        part = key.part(values.shape, values.size, first, unsigned=unsigned, threads=workers)
        for run in plain_runs(values, BUFFER):
            part.update(run)
        secret = key.stream_key(_native.STREAM_VERSION, (*self._record, *also), part)
        if secret is None:
            stream.draw()
        else:
            stream.take(secret)
        return first

    @staticmethod
    def _reader(stream: _native.StreamKey, width: int) -> exact.Read:
        """The digits of any word, by the portable block function (csrc/stream.md)."""

        def read(index: int, level: int, purpose: int = exact.NOISE, candidate: int = 0) -> exact.Digits:
            def word(bits: int, at: int) -> int:
                group, within = divmod(index, 16 * 512 // bits)
                slot, lane = divmod(within, 16)
                nonce = _native.nonce(at, purpose, candidate)
                block = int.from_bytes(stream.block(16 * group + lane, nonce), "little")
                return int(block >> (slot * bits) & (2**bits - 1))

            bits = width if purpose == exact.NOISE else ACCEPT_WIDTH
            prefix = word(bits, 0)
            for at in range(1, level + 1):
                size = 64 if at < 3 else 512
                if at < 3:
                    more = word(64, at)
                else:
                    more = int.from_bytes(stream.block(index, _native.nonce(at, purpose, candidate)), "little")
                prefix, bits = prefix << size | more, bits + size
            return exact.Digits(prefix, bits)

        return read

    def metadata(self, key: ReleaseKey | None = None) -> dict[str, object]:
        """What a reader of a release needs to draw error bars: JSON-able, fractions as exact strings.

        key: the release key, if there was one: `secure` says whether it was secret. Raises: DTypeError (no release key).
        """
        from dpfast import __version__

        if key is not None:
            _check_kind(key)
        return {
            "mechanism": self.NAME,
            **self._parameters,
            "scale": self.scale,
            "stream_version": _native.STREAM_VERSION,
            "dpfast": __version__,
            "secure": key is None or key.secure,
        }

    # ------------------------------------------------------------------ for accountants

    def dp_event(self, sensitivity: Sensitivity | None = None, *, zcdp: bool = False) -> Any:
        """One release as a DpEvent of dp-accounting, for the mechanism's own adjacency.

        sensitivity: of a Gaussian made from sigma alone, or for another.
        zcdp: the release as rho-zCDP whatever its law, which the RDP accountant takes of all laws. The event of a
            DiscreteGaussian is that one in any case.

        Rounded to the side of more privacy loss: epsilon and rho up, noise down.
        Raises: ImportError (dp-accounting is not there, or untested), DTypeError, ParameterError.
        """
        from dpfast.adapters import dp_accounting

        return dp_accounting.dp_event(self, sensitivity, zcdp=flag("zcdp", zcdp))

    def privacy_loss_distribution(
        self, sensitivity: Sensitivity | None = None, *, value_discretization_interval: float = 1e-4
    ) -> Any:
        """One release as a pessimistic PrivacyLossDistribution of dp-accounting: composes, and knows delta and epsilon.

        sensitivity: as for dp_event; of a DiscreteGaussian it must be known as (l0, linf).
        value_discretization_interval: the step between losses, which all distributions that are composed share.

        Its arithmetic is theirs, in doubles: some 1e-15 of delta for each composition is beyond what it can tell.
        Raises: ImportError, DTypeError, ParameterError (also for losses above 512, or more than 2^22 points or integers).
        """
        from dpfast.adapters import dp_accounting

        # What is above 512 is refused there: any double above it will do for a number that no double holds.
        interval = exact_positive("value_discretization_interval", value_discretization_interval)
        return dp_accounting.privacy_loss_distribution(
            self, sensitivity, value_discretization_interval=float(min(interval, Fraction(2**1000)))
        )

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"<{type(self).__name__} {facts}>"

    def _repr_html_(self) -> str:
        return html_table(self._facts().items(), caption=type(self).__name__)


def _check_kind(key: object) -> None:
    if not isinstance(key, ReleaseKey):
        raise DTypeError(f"key must be a release key, such as Key.generate().derive('label'), not {type(key).__name__}")


def clamp_record(clamp: Ends | None) -> tuple[str, ...]:
    """Of the ends before the noise, for the derivation of stream keys: nothing without any."""
    return () if clamp is None else ("clamp", *map(str, clamp))
