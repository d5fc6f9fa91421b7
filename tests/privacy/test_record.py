# SPDX-License-Identifier: Apache-2.0
"""Records: one table of fields gives equality, pickles, metadata, repr and stream names."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction

import pytest
import tiers

import dpfast
from dpfast.noise.mechanisms.laws import LAWS, own_laws
from dpfast.noise.mechanisms.mechanism import Mechanism, Releasing
from dpfast.privacy.record import Record, ratio, unwritten, written


class Pair(Record):
    first: Fraction = written(stream=ratio)
    second: int = written(metadata=lambda n: {"twice": 2 * n}, words=lambda n: {"half": str(n / 2)}, init=False)
    third: str
    hidden: object = written(metadata=unwritten, words=unwritten, init=False, compare=False)


def pair(**changed: object) -> Pair:
    return Pair._of(**{"first": Fraction(1, 2), "second": 6, "third": "x", "hidden": 1} | changed)


def test_a_field_is_written_as_the_table_says() -> None:
    """By default under its own name; a fraction exactly in metadata, and shortly in words."""
    assert pair()._entries() == {"first": "1/2", "twice": 12, "third": "x"}
    assert pair()._facts() == {"first": "0.5", "half": "3.0", "third": "x"}
    assert [numbers(value) for _, value, numbers in pair()._written("stream") if numbers] == [(1, 2)]


def test_records_are_equal_hashed_and_copied_by_their_fields() -> None:
    """Computed values are not carried; a field that is not compared is, and changes nothing."""
    one = pair()
    one._keep(computed=[])
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one), pair(hidden=2)):
        assert again == one
        assert hash(again) == hash(one)
        assert "computed" not in vars(again)
    assert pickle.loads(pickle.dumps(pair(hidden=2))).hidden == 2
    for other in (pair(first=Fraction(1, 3)), pair(second=7), pair(third="y"), (Fraction(1, 2), 6, "x")):
        assert other != one


def test_nothing_is_set_or_deleted() -> None:
    for name in ("first", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            setattr(pair(), name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match=name):
            delattr(pair(), name)


def test_the_registry_lists_every_law_by_its_name() -> None:
    """All public mechanisms that add a law's noise; and those in C, by the name that audits use."""
    public = {getattr(dpfast, name) for name in dpfast.__all__}
    laws = {each for each in public if isinstance(each, type) and issubclass(each, Mechanism)}
    assert set(LAWS.values()) == laws
    assert all(name == law.NAME for name, law in LAWS.items())
    assert set(own_laws()) == tiers.LAWS
    assert {law for law in laws if not issubclass(law, Releasing)} == {dpfast.OneSidedGeometric}
