# SPDX-License-Identifier: Apache-2.0
"""What a user reads of a mechanism: metadata that go with its results, and its repr."""

from __future__ import annotations

from typing import ClassVar

from dpfast import _native
from dpfast.privacy.record import Record


class Described(Record):
    """A record with a name."""

    NAME: ClassVar[str]  # in metadata, on the command line and in the names of streams

    def metadata(self) -> dict[str, object]:
        """What was asked and what it spends: JSON-able, fractions as exact strings."""
        from dpfast import __version__

        versions = {"stream_version": _native.STREAM_VERSION, "dpfast": __version__}
        return {"mechanism": self.NAME, **self._entries(), **versions}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(f'{name}={value}' for name, value in self._facts().items())}>"

    def _repr_html_(self) -> str:
        from html import escape

        facts = self._facts().items()
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
