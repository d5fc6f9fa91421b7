# SPDX-License-Identifier: Apache-2.0
"""What lower rooms ask of those above them, and `dpfast/__init__.py` hands down.

So a law knows no library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Port:
    """version: of this package.

    releaser: of values that are no NumPy array, and out; the release of their library, or None.
    accounting: the adapter of dp-accounting. Raises: ImportError (dp-accounting is not there).
    """

    version: str
    releaser: Callable[[Any, object], Callable[..., Any] | None]
    accounting: Callable[[], Any]


port = Port()
