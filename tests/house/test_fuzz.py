# SPDX-License-Identifier: Apache-2.0
"""Targets of fuzzing: kept inputs hold, oracles find what is planted, findings stay mended."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest
from deep import fuzz as campaign
from fuzz import TARGETS, Finding, judged, target
from fuzz.choices import Choices

import dpfast
from dpfast.app.cli import main
from dpfast.counts.records import partitions
from dpfast.engines import jobs
from dpfast.errors import FileError

# Inputs that once broke a promise, by target.
ONCE: list[tuple[str, bytes, str]] = [
    (
        "api",
        b"\x07\x00'''''''''\xf4\x00\x00\x00\x00''\xff\xff\xff\xff\xff\xff$\x0f\x00\xc7'''''''''''''''",
        "a sigma for a huge epsilon took minutes",
    ),
    ("files", b'\1\0\0\0\0\0\0name,n\na,1\n"b', "a CSV of one piece that is cut short was charged, then refused"),
    ("files", b"\1\0\0\0\0\0\4name,n\n\xff,1\n", "a CSV that is no UTF-8 was charged, then could not become Parquet"),
    ("files", b"\1\0\0\0\0\0\0name,n,x,kind\n", "a table without rows was released without a charge"),
    ("manifest", b"\2\1\0\x08\1\2\4\t\0\3\xc8\7\t", "a damaged page of an output was an OSError of pyarrow"),
    (
        "api",
        b"\xfc\x02~\x85$\x84\x06\x07\xe0\xcc\x01\x001\x00\x00\x10\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff` \x00\x01",
        "an object array that held a NaN seemed to be changed",
    ),
    (
        "api",
        b"<\x00//////////////////////////////////////////////////////////////////////////////////////////////////////////\x10\x00\x00\x00\x00\x00\x00[",
        "a key at / was a ValueError of pathlib",
    ),
    ("api", b"\x7f\x00\xceB3333333333333333333333333301634811652", "a public number was taken for a private one"),
]


@pytest.fixture
def made(tmp_path) -> Any:
    def make(name: str) -> fuzz.Target:
        folder = tmp_path / name
        folder.mkdir()
        return target(name)(folder)

    return make


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_and_seeds_hold(made, name: str) -> None:
    one = made(name)
    inputs = [*fuzz.corpus(name).values(), *one.seeds()]
    for data in inputs[:: max(len(inputs) // 25, 1)]:
        assert judged(one, data) is None, data


@pytest.mark.parametrize(("name", "data", "why"), ONCE, ids=[why for *_, why in ONCE])
def test_what_was_found_stays_mended(made, name: str, data: bytes, why: str) -> None:
    assert judged(made(name), data) is None, why


def test_a_csv_that_is_cut_short_costs_nothing(tmp_path, monkeypatch, capsys) -> None:
    """It is read to its end before the charge, if it is one piece; found by fuzzing."""
    monkeypatch.chdir(tmp_path)
    dpfast.Ledger("l.db", 10, create=True)
    Path("in.csv").write_text('n,name\n1,a\n2,"b\n')
    law = ["--epsilon", "1", "--sensitivity", "1", "--ledger", "l.db"]
    assert main(["privatize", "in.csv", "out.csv", "--column", "n", *law]) == 1
    assert "cut short" in capsys.readouterr().err
    assert dpfast.Ledger("l.db").spent.epsilon == 0


def test_a_damaged_output_is_refused_by_an_error_of_its_own(tmp_path) -> None:
    """Whichever byte of a page is wrong: pyarrow raises several kinds; found by fuzzing."""
    import pyarrow as pa

    key = dpfast.KeyFile.create(tmp_path / "k.key").derive("q")
    counts = jobs.counted(pa.table({"k": [1, 2], "n": [3, 4]}), by="k", column="n", key=key, stage=tmp_path / "stage")
    how = dpfast.DiscreteLaplace(1, 1)
    jobs.release(counts, how, key=key, ledger=None, to=tmp_path / "out")
    (path,) = (tmp_path / "out").glob("part-*")
    whole = path.read_bytes()
    for at in range(4, 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with pytest.raises(FileError):
            jobs.verify(tmp_path / "out", counts, how, key=key)


# ------------------------------------------------------------------ oracles find planted defects


def test_noise_that_is_missing_is_found(made, monkeypatch) -> None:
    """A release that returns its values, from the API and from a file."""

    def without(_: Any, values: Any, *__: Any, **___: Any) -> Any:
        return np.array(values)

    files = made("files")
    good = b"\0\0\0\0\0\0" + b"name,n\n" + b"a,7\n" * 200
    assert judged(files, good) is None
    monkeypatch.setattr(dpfast.DiscreteLaplace, "release", without)
    assert "added no noise" in str(judged(files, good))


def test_a_key_of_one_unit_and_a_charge_that_is_forgotten_are_found(made, monkeypatch) -> None:
    """Without a threshold a table shows all keys, and without a charge it is free."""
    files, hidden = made("files"), bytes([160, 3, 1, 0, 0, 0, 1, 0])
    assert judged(files, hidden) is None
    with monkeypatch.context() as planted:
        planted.setattr(partitions.Showing, "of", lambda _, counts, __: counts > 0)
        assert "shows a key" in str(judged(files, hidden))
    monkeypatch.setattr(dpfast.Ledger, "spend", lambda *_, **__: None)
    monkeypatch.setattr(dpfast.Ledger, "release", lambda _, law, counts, **__: law.release(counts))
    assert "released with charges []" in str(judged(files, hidden))


def test_a_charge_that_is_forgotten_is_found(made, monkeypatch) -> None:
    ledger = made("ledger")
    monkeypatch.setattr(dpfast.Ledger, "spend", lambda *_, **__: None)
    assert any("and charged" in str(judged(ledger, bytes([0, 0, action, 0]))) for action in range(9))


@pytest.mark.slow
def test_an_output_that_is_taken_for_another_is_found(made, monkeypatch) -> None:
    one = made("manifest")
    monkeypatch.setattr("dpfast.engines.jobs.tasks.same", lambda *_: True)
    assert any("its rows are others" in str(judged(one, data)) for data in one.seeds())


def test_an_error_of_another_library_is_found(made, monkeypatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise KeyError("no such thing")

    one = made("ledger")
    monkeypatch.setattr(dpfast.Ledger, "verify", fails)
    assert any("KeyError" in str(judged(one, data)) for data in one.seeds())


def test_an_input_that_takes_too_long_is_found(monkeypatch) -> None:
    monkeypatch.setattr(fuzz, "CPU_LIMIT", 0.05)

    class Slow:
        def __call__(self, _: bytes) -> None:
            with fuzz.within(0.05):
                begun = time.process_time()
                while time.process_time() < begun + 5:
                    pass

    assert "CPU time" in str(judged(Slow(), b""))


def test_what_a_target_finds_is_told() -> None:
    class Broken:
        def __call__(self, _: bytes) -> None:
            raise Finding("wrong")

    assert judged(Broken(), b"") == "wrong"


# ------------------------------------------------------------------ choices and sums


def test_choices_end_in_zeros_and_patches_change_bytes() -> None:
    short = Choices(b"\1")
    assert (short.below(256), short.below(256), short.left) == (1, 0, 0)
    assert Choices(b"\0\0\1\5Z").patched(b"abc") != b"abc"
    assert Choices(b"").patched(b"abc") == b"abc"


def test_figures_add_up_over_runs(tmp_path) -> None:
    """Lines of one commit, date and target are one run; recording twice changes nothing."""
    line = {
        "commit": "c",
        "date": "2026-01-01",
        "target": "api",
        "cpu_seconds": 1800.0,
        "executions": 10,
        "findings": 1,
    }
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (line, line)))
    earlier = [{**line, "date": "2025-01-01"}]
    once = campaign.added(earlier, tmp_path)
    assert once["cpu_hours"] == 1.5
    assert once["executions"]["api"] == 30
    assert len(once["runs"]) == 2
    assert campaign.added(once["runs"], tmp_path) == once


@pytest.mark.parametrize("name", ["ledger"])
def test_a_turn_runs_and_is_logged(tmp_path, monkeypatch, name: str) -> None:
    """A second of atheris: inputs are tried, and the process ends by its CPU time.

    Then fewer inputs are kept that reach as much.
    """
    pytest.importorskip("atheris")
    assert campaign.turn(tmp_path, name, 1.0) >= 1
    logged = json.loads((tmp_path / "log.jsonl").read_text())
    assert logged["executions"] > 0
    assert logged["target"] == name
    monkeypatch.setattr(campaign, "CORPUS", tmp_path / "kept")
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path / "kept")
    campaign.minimise(tmp_path, name)
    assert 0 < len(fuzz.corpus(name)) < len(list((tmp_path / name / "corpus").iterdir()))
