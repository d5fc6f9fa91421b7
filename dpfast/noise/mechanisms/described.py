# SPDX-License-Identifier: Apache-2.0
"""What a user reads of a mechanism: metadata that go with its results, and its repr."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from dpfast import _native
from dpfast.errors import DTypeError
from dpfast.privacy.parameters import SEEDS, unknown_option
from dpfast.privacy.port import port
from dpfast.privacy.record import Record
from dpfast.privacy.sensitivity import refuse_less

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dpfast.privacy.guarantee import Guarantee
    from dpfast.privacy.sensitivity import Sensitivity


class Described(Record):
    """A record with a name."""

    NAME: ClassVar[str]  # in metadata, on the command line and in the names of streams

    def metadata(self) -> dict[str, object]:
        """What was asked and what it spends: JSON-able, fractions as exact strings.

        >>> dpfast.DiscreteLaplace(epsilon="0.1", sensitivity=1).metadata()["epsilon"]
        '1/10'
        """
        versions = {"stream_version": _native.STREAM_VERSION, "dpfast": port.version}
        return {"mechanism": self.NAME, **self._entries(), **versions}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(f'{name}={value}' for name, value in self._facts().items())}>"

    def _repr_html_(self) -> str:
        from html import escape

        facts = self._facts().items()
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


class Payable(Described, ABC):
    """A mechanism whose releases a ledger can pay for: checked, then charged, then drawn."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset()  # that its release takes, beside values and keys

    def _check_options(self, options: Iterable[str]) -> None:
        """Raises: DTypeError (an option that its release does not take)."""
        unknown = sorted(set(options) - self.OPTIONS)
        if unknown:
            call = f"a release by {type(self).__name__}"
            if unknown[0] in SEEDS:
                raise DTypeError(unknown_option(call, unknown[0]))
            raise DTypeError(f"{unknown[0]!r:.40} is no option of {call}")

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    def _terms(self, _: Mapping[str, Any], /) -> tuple[Guarantee, dict[str, object]]:
        """What a release with these options spends, and what a ledger writes of it."""
        return self.guarantee, self.metadata()

    def _refuse_less(self, change: Sensitivity) -> None:
        """Refuse counts that one unit changes so. Raises: ParameterError (its noise hides less)."""
        refuse_less(change, *(getattr(self, name, None) for name in ("sensitivity", "adjacency", "unit")))

    @abstractmethod
    def _release(self, values: Any, charge: Callable[..., None] | None = None, /) -> Any:
        """charge: what a ledger does once values are found right, before a key; or it raises."""
