# SPDX-License-Identifier: Apache-2.0
"""Text for people: as wide as needed in a pipe, as wide as a terminal in one, no command to it."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from dpfast import terminal

ROWS = [
    ["#", "label", "epsilon", "epsilon so far"],
    ["1", "by age and region of the whole country", "0.333334", "0.333334"],
    ["2", "\x1b[31mred\x1b[0m [bold]:smile:", "0.5", "10.833334"],
]


def narrow(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))


def test_a_table_in_a_pipe_is_as_wide_as_it_needs(monkeypatch) -> None:
    """Whatever COLUMNS says: each row is a line of a pipe; no cell is a command or markup."""
    monkeypatch.setenv("COLUMNS", "20")
    lines = terminal.table(ROWS, right=2, indent=2).splitlines()
    assert lines == [
        "  #  label                                    epsilon  epsilon so far",
        "  1  by age and region of the whole country  0.333334        0.333334",
        "  2  ?[31mred?[0m [bold]:smile:                   0.5       10.833334",
    ]
    assert terminal.table([]) == ""
    assert terminal.table([["name", "x" * 200]], most=100).count("\n") == 2


@pytest.mark.parametrize("columns", [40, 45, 60])
def test_a_table_fits_a_terminal_and_cuts_no_figure(monkeypatch, columns: int) -> None:
    """Labels go on in further lines, every letter; figures stay in one piece."""
    narrow(monkeypatch, columns)
    text = terminal.table(ROWS, right=2, indent=2)
    assert max(map(len, text.splitlines())) <= columns
    for figure in ("0.333334", "0.5", "10.833334"):
        assert figure in text
    for letter in "byageandregionofthewholecountry":
        assert text.count(letter) >= ROWS[1][1].count(letter)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(map(len, terminal.paragraph("word " * 50).splitlines())) <= columns


def test_a_paragraph_in_a_pipe_has_80_columns(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert 70 < max(map(len, terminal.paragraph("word " * 50).splitlines())) <= 80


def test_progress_is_for_terminals(monkeypatch, capsys) -> None:
    """In a pipe, or if quiet, not a letter; on a terminal a bar that goes and leaves the cursor."""
    for tty, quiet in ((False, False), (True, True)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda tty=tty: tty)
        bar = terminal.Bar(10, quiet=quiet)
        bar.show(5, "half")
        bar.close()
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = terminal.Bar(10)
    bar.show(5, "half \x1b[31m [bold]")
    bar.close()
    bar.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "half ?[31m [bold]" in err
    assert " 50%" in err
    assert err.rfind("\x1b[?25h") > err.rfind("\x1b[?25l")
