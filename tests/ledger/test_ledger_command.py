# SPDX-License-Identifier: Apache-2.0
"""Processes and threads at one ledger; its table, its picture and the command line."""

from __future__ import annotations

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

import pytest
from fresh import python
from ledgers import CELLS, TENTH, ZEROS, command

import dpfast
from dpfast import DiscreteGaussian, Guarantee, Ledger
from dpfast.errors import LedgerError
from dpfast.privacy.formatting import amount

# ------------------------------------------------------------------ processes and threads


def test_a_ledger_pickles_forks_and_serves_threads(path) -> None:
    """No connection lives between calls; a fork amid other threads' charges works and counts."""
    output = python(
        """
        import os, pickle, signal, sys, threading
        import numpy as np
        import dpfast

        path = sys.argv[1]
        ledger, mechanism = dpfast.Ledger(path, 1000, create=True), dpfast.DiscreteLaplace(1, 1)
        ledger = pickle.loads(pickle.dumps(ledger))

        def release(n):
            for _ in range(n):
                ledger.release(mechanism, np.zeros(9, np.int64))

        threads = [threading.Thread(target=release, args=(25,)) for _ in range(4)]
        release(1)
        for thread in threads:
            thread.start()
        children = []
        for _ in range(12):
            child = os.fork()
            if child == 0:
                signal.alarm(300)  # should it hang
                status = 1
                try:
                    release(3)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        for thread in threads:
            thread.join()
        print([os.waitpid(child, 0)[1] for child in children] == [0] * 12, len(ledger.history()))
        """,
        path,
    )
    assert output.split() == ["True", str(1 + 4 * 25 + 12 * 3)]


def test_many_make_one_ledger(path) -> None:
    barrier = threading.Barrier(8)

    def make(epsilon) -> object:
        barrier.wait()
        try:
            return Ledger(path, epsilon, create=True).budget.epsilon
        except LedgerError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(make, [1, 2] * 4))
    epsilon = Ledger(path).budget.epsilon
    assert found.count(epsilon) == 1
    assert found.count(f"{path} exists") == 7
    assert pickle.loads(pickle.dumps(Ledger(path))).budget.epsilon == epsilon


# ------------------------------------------------------ the table, the picture and the command line


def test_the_history_as_a_table(ledger) -> None:
    assert str(ledger.history()) == "nothing was released yet"
    ledger.release(TENTH, ZEROS, label="by age")
    ledger.release(DiscreteGaussian.calibrated(0.25, CELLS, delta=1e-7), ZEROS)
    head, first, second = (line.split() for line in str(ledger.history()).splitlines())
    assert " ".join(head) == "# time (UTC) label mechanism epsilon delta epsilon so far delta so far"
    assert (first[0], first[2:]) == ("1", ["by", "age", "discrete_laplace", "0.1", "0", "0.1", "0"])
    assert (second[0], second[2:]) == ("2", ["discrete_gaussian", "0.25", "1e-7", "0.35", "1e-7"])
    assert len({len(line) for line in str(ledger.history()).splitlines()}) == 1
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ledger.history())
    assert list(frame["label"]) == ["by age", ""]
    assert frame["epsilon_total"].iloc[-1] == Fraction(1, 10) + Fraction(1, 4)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (Fraction(1, 10), "0.1", "0.1"),
        (Fraction(0.1), "0.1", "0.1"),
        (Fraction(0.1) * 3, "0.3", "0.3"),
        (1 - Fraction(0.1) * 9, "0.1", "0.0999999"),
        (Fraction(1, 3), "0.333334", "0.333333"),
        (Fraction(2, 3) * 10**8, "66666700", "66666600"),
        (Fraction(1e-6), "1e-6", "1e-6"),
        (Fraction(0), "0", "0"),
        (Fraction(2**64), "1.84468e19", "1.84467e19"),
    ],
    ids=str,
)
def test_figures_are_rounded_to_the_safe_side(value, up, down) -> None:
    """Spent is rounded up, left down; 0.3 names three times the float 0.1, in what is spent."""
    assert (amount(value, up=True), amount(value, up=False)) == (up, down)


def test_the_command_line_from_first_to_last(path, capsys) -> None:
    source, budget = path.with_name("in.csv"), ["--ledger", path]
    source.write_text("name,count,hours\n" + "".join(f"{n},{n},{2 * n}\n" for n in range(100)))
    law = ["--epsilon", "1/3", "--sensitivity", "1", "--quiet", *budget]
    code, out, _ = command(capsys, "ledger", "create", path, "--epsilon", "1", "--delta", "1e-6", "--dataset", "visits")
    assert (code, out) == (0, "visits: epsilon 1, delta 1e-6 in all per person, add-remove\n")
    code, _, err = command(capsys, "ledger", "create", path, "--epsilon", "1")
    assert (code, err) == (1, f"Error: {path} exists\n")
    both = ["--column", "count", "--column", "hours", "--epsilon-is", "per-column"]
    assert command(capsys, "privatize", source, path.with_name("out.csv"), *both, *law)[0] == 0
    about = json.loads(path.with_name("out.csv.json").read_text())
    terms = {"epsilon": "1", "delta": "1/1000000", "dataset": "visits", "adjacency": "add-remove", "unit": "person"}
    assert about["ledger"] == terms
    assert about["epsilon_total"] == "2/3"
    code, _, err = command(capsys, "privatize", source, path.with_name("two.csv"), *both, *law)
    assert code == 3
    assert (
        err
        == f"Error: {path}: epsilon 0.666667 is asked for and 0.333333 is left of 1; nothing was released or charged\n"
    )
    assert not path.with_name("two.csv").exists()
    assert not path.with_name("two.csv.json").exists()
    code, out, _ = command(capsys, "ledger", "show", path)
    assert code == 0
    assert out.count("in.csv: count, hours  discrete_laplace") == 2
    assert out.endswith("\nspent  epsilon 0.666667, delta 0\nleft   epsilon 0.333333, delta 1e-6\n")
    assert command(capsys, "privatize", source, path.with_name("three.csv"), "--column", "count", *law)[0] == 0
    facts = json.loads(command(capsys, "ledger", "show", path, "--json")[1])
    assert (facts["spent"], facts["left"]) == ({"epsilon": "1", "delta": "0"}, {"epsilon": "0", "delta": "1/1000000"})
    assert [release["epsilon_total"] for release in facts["releases"]] == ["1/3", "2/3", "1"]


def test_a_total_that_is_counted_in_rho_is_said_as_it_was_given(path, capsys) -> None:
    """At once in both; later in rho, with the epsilon that it implies if there is one."""
    about = "in all per person, add-remove\n"
    words = ["--epsilon", "1", "--delta", "1e-6", "--by", "zcdp"]
    _, said, _ = command(capsys, "ledger", "create", path, *words)
    assert said == f"{path.stem}: epsilon 1, delta 1e-6, counted as rho 0.024356, {about}"
    shown = command(capsys, "ledger", "show", path)[1]
    assert shown.startswith(f"{path.stem}: rho 0.024356 (about epsilon 1 at delta 1e-6) {about}")
    own = path.with_name("own.db")
    assert (
        command(capsys, "ledger", "create", own, "--rho", "0.5", "--delta", "1e-5")[1]
        == f"own: delta 1e-5, rho 0.5 {about}"
    )


def test_plan(path, capsys) -> None:
    Ledger(path, 1, delta=Decimal("1e-6"), create=True).spend(Guarantee(Decimal("0.35")))
    for options, said in [
        (["--epsilon", "0.1"], "6 more of epsilon 0.1 fit, and then epsilon 0.05, delta 1e-6 is left"),
        (
            ["--epsilon", "0.1", "--delta", "3e-7"],
            "3 more of epsilon 0.1, delta 3e-7 fit, and then epsilon 0.35, delta 1e-7 is left",
        ),
        (["--epsilon", "0.7"], "0 more of epsilon 0.7 fit"),
        (["--epsilon", "0"], "any number of more of epsilon 0 fit"),
        (
            ["--releases", "3"],
            "each of 3 more may spend epsilon 0.216666, delta 3.33333e-7, if nothing else is charged",
        ),
    ]:
        expected = f"epsilon 0.65, delta 1e-6 is left\n{said}\n"
        assert command(capsys, "ledger", "plan", path, *options) == (0, expected, "")
    code, out, _ = command(capsys, "ledger", "plan", path, "--releases", "3", "--json")
    assert json.loads(out)["each"] == {"epsilon": "13/60", "delta": "1/3000000"}
    for options in ([], ["--epsilon", 1, "--releases", 1], ["--rho", 1]):
        code, _, err = command(capsys, "ledger", "plan", path, *options)
        assert code == 2
        assert ("must promise epsilon" if "--rho" in options else "give either") in err


def test_privatize_charges_nothing_for_what_it_refuses(ledger, capsys) -> None:
    """Wrong parameters, text columns, an existing OUT: no charge. A bad cell: charged."""
    source, target = ledger.path.with_name("in.csv"), ledger.path.with_name("out.csv")
    source.write_text("name,count\na,1\n")
    target.write_text("mine")
    law = ["--column", "count", "--epsilon", "0.1", "--sensitivity", "1", "--ledger", ledger.path]
    new = target.with_name("new.csv")
    for arguments, code in [
        ([source, target, *law], 1),
        ([source, new, "--column", "name", *law[2:]], 1),
        ([source, new, *law, "--lower", "2", "--upper", "1"], 2),
        ([source, new, *law, "--adjacency", "substitution"], 2),
        ([source, new, *law, "--unit", "household"], 2),
        ([source, new, *law[:-1], "nowhere.db"], 1),
        ([source, new, *law[:2], "--mechanism", "discrete-gaussian", "--rho", 1, "--l0", 1, "--linf", 1, *law[-2:]], 2),
    ]:
        found, _, err = command(capsys, "privatize", *arguments)
        assert found == code, err
        assert err.count("\n") == 1
    assert len(ledger.history()) == 0
    assert target.read_text() == "mine"
    assert not new.exists()
    source.write_text("count\n" + "1\n" * 5_000_000 + "?\n")  # beyond the first piece
    assert command(capsys, "privatize", source, new, *law, "--quiet")[0] == 4
    assert len(ledger.history()) == 1
    assert not new.exists()


def test_a_label_on_the_command_line(path, tmp_path, capsys) -> None:
    """It is met again with --resume, which the refusal names; what was refused is shown."""
    ledger, counts, out = Ledger(path, 1, create=True), tmp_path / "in.csv", tmp_path / "out.csv"
    counts.write_text("city,count\nOslo,120\nLima,80\n")
    made = dpfast.KeyFile.create(tmp_path / "visits.key").path
    options = ["--column", "count", "--epsilon", "0.1", "--sensitivity", "1", "--label", "visits"]
    options += ["--ledger", ledger.path, "--key-file", made]
    assert command(capsys, "privatize", counts, out, *options)[0] == 0
    code, _, said = command(capsys, "privatize", counts, tmp_path / "b.csv", *options)
    assert (code, "--resume continues it; new data are a new release" in said) == (1, True)
    counts.write_text("city,count\nOslo,121\nLima,80\n")
    code, _, said = command(capsys, "privatize", counts, tmp_path / "b.csv", *options, "--resume")
    assert (code, "the input is not the one that was reserved (number 1, " in said) == (1, True)
    assert "discrete_laplace, refused: OtherInputError" in command(capsys, "ledger", "show", path)[1]
    assert ledger.spent.epsilon == Fraction(1, 10)


def test_the_picture(ledger, capsys) -> None:
    from matplotlib.image import imread

    picture = ledger.path.with_name("spend.png")
    for _n in range(3):
        assert command(capsys, "ledger", "show", ledger.path, "--plot", picture)[0] == 0
        assert imread(picture).std() > 0.05
        ledger.spend(TENTH, Guarantee(Decimal("0.1"), Decimal("1e-7")))
    code, _, err = command(capsys, "ledger", "show", ledger.path, "--plot", "spend.jpg")
    assert (code, "must be a .png, .svg or .pdf" in err) == (2, True)


@pytest.mark.parametrize("content", [b"", b"city,n\nOslo,5\n", b"SQLite format 3\0" + bytes(4080)])
def test_no_lock_is_left_beside_what_is_no_ledger(content, path) -> None:
    """A file named by mistake, even of SQLite, is refused, and nothing is made beside it."""
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="is not a ledger of dpfast$"):
        Ledger(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == content
