# SPDX-License-Identifier: Apache-2.0
"""Who pays for a release of counts: a ledger, or nobody; under a key once for all tries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.errors import DTypeError, ParameterError
from dpfast.privacy.parameters import flag, shown

if TYPE_CHECKING:
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

    def sealed(self, seal: Seal) -> Sealed:
        """What draws a seal, once it is reserved."""
        again = self.resume
        return seal.without_ledger(resume=again) if self.ledger is None else self.ledger.reserve(seal, resume=again)
