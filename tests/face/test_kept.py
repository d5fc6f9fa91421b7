# SPDX-License-Identifier: Apache-2.0
"""What an earlier version began ends in the same bytes, or is refused by what its seal lacks."""

from __future__ import annotations

import importlib
import json
import pickle
from hashlib import sha256

import kept
import pytest

import dpfast

RELEASED = json.loads((kept.KEPT / "released.json").read_text())
LACKING = {  # what a seal of then does not name, and so cannot be gone on with
    **{f"{end}, sorted": "does not name --sort-by" for end in ("csv", "csv.gz", "jsonl", "parquet", "arrow")},
    "tree by levels": "does not name levels",
    "histogram": "does not name adjacency",
    "gaussian threshold, l1": "with other parameters of thresholded_gaussian (sigma_squared)",  # it has a lower threshold
    **{
        f"tree by substitution, {how}": f"with other parameters of {law} of column 'level 0' ({what})"  # it has less noise
        for how, law, what in (
            ("with a total", "discrete_laplace", "epsilon"),
            ("gaussian", "discrete_gaussian", "sigma_squared"),
        )
    },
    **{f"rows, {how}": "does not name --adjacency" for how in ("domain", "sum", "threshold")},
    **{f"job, {keys} keys": "does not name adjacency" for keys in ("known", "unknown")},
}


@pytest.mark.parametrize("name", kept.CASES)
def test_a_release_that_was_begun_is_the_same_or_refused_by_what_its_seal_lacks(name, tmp_path, capsys) -> None:
    home = kept.begun(tmp_path)
    ledgers = home.ledger, home.exchanged
    before = [(each.spent, len(each.history())) for each in ledgers]
    if name in LACKING:
        with pytest.raises((dpfast.errors.KeyReuseError, SystemExit)) as caught:
            kept.CASES[name](home)
        assert LACKING[name] in str(caught.value) + capsys.readouterr().err
        assert not isinstance(caught.value, dpfast.errors.OtherInputError)
    else:
        assert sha256(kept.CASES[name](home)).hexdigest() == RELEASED[name]
    assert [(each.spent, len(each.history())) for each in ledgers] == before


def test_every_release_that_was_begun_is_tried() -> None:
    assert RELEASED.keys() == kept.CASES.keys()
    assert LACKING.keys() <= RELEASED.keys()


FORMER = {
    "dpfast.jobs.verbs Counts": "dpfast.engines.jobs.verbs",
    "dpfast.mechanisms.laplace Laplace": "dpfast.noise.mechanisms.laplace",
    "dpfast.postprocess Estimate": "dpfast.counts.postprocess",
    "dpfast.records.partitions Thresholded": "dpfast.counts.records.partitions",
    "dpfast.audit.findings Findings": "dpfast.evidence.audit.findings",
}


@pytest.mark.parametrize("named", FORMER)
def test_a_class_is_found_by_the_module_that_it_was_in(named) -> None:
    """It is the very class that there is, whichever name comes first."""
    module, name = named.split()
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    assert found is getattr(importlib.import_module(FORMER[named]), name)
    assert pickle.loads(pickle.dumps(found)) is found


def test_what_was_never_there_is_not_found() -> None:
    for name in ("dpfast.mechanisms.nothing", "dpfast.nothing", "dpfast.nothing.laplace"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    assert importlib.import_module("dpfast.audit").privacy is importlib.import_module("dpfast.evidence.audit").privacy
    with pytest.raises(AttributeError, match="nothing"):
        _ = importlib.import_module("dpfast.audit").nothing


def test_objects_that_were_pickled_are_what_they_were() -> None:
    pickled = pickle.loads((kept.KEPT / "objects.pickle").read_bytes())
    said = json.loads((kept.KEPT / "objects.json").read_text())
    assert {name: kept.told(pickle.loads(each)) for name, each in pickled.items()} == said
