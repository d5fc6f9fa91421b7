# SPDX-License-Identifier: Apache-2.0
"""Errors by the names that they had at the top: found for one version, with a note."""

from __future__ import annotations

import importlib
import pickle

import pytest

import dpfast
from dpfast import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_is_found_by_its_former_name_with_a_note(name: str) -> None:
    """The very class, and the note names the line that asked."""
    with pytest.warns(
        DeprecationWarning, match=rf"^dpfast\.{name} is dpfast\.errors\.{name}: .* version 0\.2$"
    ) as noted:
        assert getattr(dpfast, name) is getattr(errors, name)
    assert [each.filename for each in noted] == [__file__]
    with pytest.warns(DeprecationWarning, match=name) as noted:
        exec(f"from dpfast import {name}")
    assert {each.filename for each in noted} == {"<string>"}
    assert name not in {*dpfast.__all__, *dir(dpfast), *vars(dpfast)}


def test_errors_has_every_error_and_no_other_name_of_it_is_found() -> None:
    kinds = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert kinds == set(errors.__all__)
    for name in ("caller", "sys", "NothingError"):
        with pytest.raises(AttributeError, match=name):
            getattr(dpfast, name)


@pytest.mark.parametrize("name", errors.__all__)
def test_a_pickled_error_is_what_it_was(name: str) -> None:
    kind = getattr(errors, name)
    found = pickle.loads(pickle.dumps(kind("what happened")))
    assert (type(found), found.args) == (kind, ("what happened",))
    assert pickle.loads(f"cdpfast.errors\n{name}\n.".encode()) is kind  # as every version wrote it
    assert importlib.import_module(kind.__module__) is errors
