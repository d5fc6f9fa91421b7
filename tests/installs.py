# SPDX-License-Identifier: Apache-2.0
"""What holds for each adapter that puts its noise in the place of a library's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpfast.errors import ParameterError


def are_undone_exactly(adapter: Any, names: Callable[[], Any]) -> Any:
    """Nested, repeated, in any order, past exceptions; what `names` finds while it is installed."""
    before = names()
    for _ in range(2):
        with adapter.installed():
            during = names()
            assert during != before
            with adapter.installed():
                assert names() == during
            adapter.install()
            adapter.uninstall()
            assert names() == during
        assert names() == before
    adapter.install()
    with adapter.installed():
        adapter.uninstall()
        assert names() == during
    assert names() == before
    with pytest.raises(KeyError, match="planted"), adapter.installed():
        raise KeyError("planted")
    assert names() == before
    with pytest.raises(ParameterError, match="there is none"):
        adapter.uninstall()
    return during
