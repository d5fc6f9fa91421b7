# SPDX-License-Identifier: Apache-2.0
"""Whether this machine makes a plan that is known: C's known answers have plans of their own."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from dpfast import _native

SHORT, LONG = (Fraction(2) ** power - Fraction(1, 3) for power in (20, 21))  # scales in csrc/known.h
KNOWN: dict[str, Callable[[], Any]] = {}  # a mechanism of each law, put here by the law


@cache
def check_plan(law: str) -> None:
    """Make one plan of csrc/known.h, if it has one of this law.

    Raises: SelfCheckError (it differs in a bit).
    """
    if law in KNOWN:
        _native.Plan(law, **KNOWN[law]()._constants()).check()  # noqa: SLF001
