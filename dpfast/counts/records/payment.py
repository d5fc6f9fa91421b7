# SPDX-License-Identifier: Apache-2.0
"""Who pays for a release of counts: a ledger, or nobody; under a key once for all tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.errors import DTypeError, ParameterError
from dpfast.noise.release.blocks import BLOCK
from dpfast.privacy.parameters import flag, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from dpfast.ledger import Ledger
    from dpfast.noise.release.key import ReleaseKey
    from dpfast.noise.release.seal import Seal, Sealed


def checked_ledger(ledger: Any, otherwise: str = "") -> Ledger:
    """otherwise: what else would do, in words. Raises: DTypeError."""
    from dpfast.ledger import Ledger  # late, because SQLite takes a while

    if not isinstance(ledger, Ledger):
        raise DTypeError(f"ledger must be a Ledger{otherwise}, not {type(ledger).__name__}")
    return ledger


class Payment(NamedTuple):
    """label: for the ledger's history, of a release without a key."""

    ledger: Ledger | None
    label: str | None
    key: ReleaseKey | None
    resume: bool

    @classmethod
    def of(cls, ledger: Ledger | None, label: str | None, key: ReleaseKey | None, resume: bool) -> Payment:
        """Raises: DTypeError, ParameterError (what does not go together)."""
        again = flag("resume", resume)
        if again and key is None:
            raise ParameterError("resume is for a release under a key; there is no key, got resume=True")
        if label is not None and (ledger is None or key is not None):
            raise ParameterError(f"label is for a ledger, of a release without a key, got {shown(label)}")
        return cls(None if ledger is None else checked_ledger(ledger), label, key, again)

    def release(self, noise: Any, values: Any, **options: Any) -> Any:
        """What a release without a key gives, once it is paid."""
        if self.ledger is None:
            return noise.release(values, **options)
        return self.ledger.release(noise, values, label=self.label, **options)

    def expect(self, key: ReleaseKey, columns: Any) -> None:
        """Refuse what `noise` would, whatever the values are: before they take long."""
        if self.ledger is not None:
            self.ledger.expect(key, columns, resume=self.resume)

    def noise(self, key: ReleaseKey, columns: Any, values: Mapping[str, npt.NDArray[np.int64]], **about: Any) -> None:
        """Noise on private copies, in their place: one seal and one reservation for all columns.

        columns: the mechanisms of those that get noise, by name. about: of the seal.
        """
        blocks = [
            (name, j, values[name][at : at + BLOCK])
            for name in columns
            for j, at in enumerate(range(0, values[name].size, BLOCK))
        ]
        digesters = {name: key.digester(mechanism, column=name) for name, mechanism in columns.items()}
        sealed = self.sealed(key.seal(columns, [digesters[name](j, block) for name, j, block in blocks], **about))
        for name, j, block in blocks:
            block[:] = sealed.release(j, block, column=name)  # into itself it would refuse: no retry could read it

    def sealed(self, seal: Seal) -> Sealed:
        """What draws a seal, once it is reserved."""
        again = self.resume
        return seal.without_ledger(resume=again) if self.ledger is None else self.ledger.reserve(seal, resume=again)
