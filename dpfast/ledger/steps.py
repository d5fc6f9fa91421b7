# SPDX-License-Identifier: Apache-2.0
"""What a ledger does for running totals: one charge, and then a tag for each step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from dpfast.errors import LedgerError, OtherInputError
from dpfast.ledger import head
from dpfast.ledger.store import Reserved, Step, Store
from dpfast.noise.release.seal import another
from dpfast.noise.release.secret import Labelled

Found = TypeVar("Found")


class Steps(NamedTuple):
    """The steps of running totals that are paid for, under one label of one ledger."""

    store: Store
    label: bytes  # a hash, by which the ledger finds it
    key: Labelled
    known: Callable[[Reserved], object]  # raises unless a reservation is that of these totals
    recorded: Callable[[], AbstractContextManager[None]]  # within, a refusal for values is recorded

    def last(self) -> tuple[int, bytes]:
        """The last step that is reserved, with its tag. Raises: LedgerError."""
        found = self.store.last_step(self.label, self.known)
        if found is None:
            raise LedgerError(
                f"{self.store.path} has no running totals {self.key.label!r} any more: it was restored from a copy; "
                "nothing was released"
            )
        return found

    def reserve(self, t: int, tag: bytes, before: bytes, ahead: Callable[[], object]) -> None:
        """Reserve step t, or find that it is reserved with this very input.

        before: the tag of the step before it.
        ahead: writes the step's counts down; it is called under the ledger's lock before a step
            that is not there is reserved, and only then: so no other input of a step takes the
            place of what was reserved.
        Raises: OtherInputError; LedgerError.
        """
        with self.recorded():
            other, after = self.store.step(self.label, Step(t, tag, before), self.known, ahead)
            if other:
                label = self.key.label
                raise OtherInputError(
                    f"{label!r}: the input is not the one with which step {t} was reserved, or an earlier step is "
                    "another: step(t, resume=True) goes on with what was written ahead; corrections go into today's step; "
                    f"other totals are new ones under {another(label)}. That it is another, or is not, is for its holder "
                    "alone, and never published"
                )
        if after is not None and self.key.place is not None:
            head.note(self.key.place, self.store.terms.digest, after)

    def locked(self, call: Callable[[], Found]) -> Found:
        """What a call returns under the ledger's lock: a state takes the place of an older one."""
        return self.store.locked(call)
