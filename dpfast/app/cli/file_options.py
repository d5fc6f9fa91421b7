# SPDX-License-Identifier: Apache-2.0
"""The options that say how files are read: those of every command that reads rows or tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpfast.app.cli.options import together
from dpfast.errors import ParameterError

if TYPE_CHECKING:
    from dpfast.app.tables.text_format import TextFormat

IN = click.Path(exists=True, allow_dash=True, path_type=Path)
BESIDE_A_LEDGER, BESIDE_A_KEY = (".lock", "-journal", "-wal", "-shm"), (".head", ".head.new")

style_options = together(  # which style_of takes
    click.option(
        "--delimiter",
        metavar="CHAR",
        help="The separator of cells in texts: a character, or tab; by default a comma, in .tsv a tab.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        show_default=True,
        help="The encoding of texts, such as utf-16, latin-1, cp1252.",
    ),
    click.option("--decimal", metavar="CHAR", help="The decimal sign of numbers in texts: '.' (the default) or ','."),
    click.option(
        "--thousands",
        metavar="CHAR",
        help="The separator of thousands in texts: , . ' ’ _ or a space; by default none.",
    ),
)
text_options = together(  # and the format, as `form`
    style_options,
    click.option(
        "--format",
        "form",
        metavar="NAME",
        help="The format of - and of files whose names do not say: csv, tsv, jsonl, csv.gz, …",
    ),
)


METADATA = click.option(
    "--metadata",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the record of the release if OUT is -; otherwise it is next to OUT.",
)


def style_of(options: dict[str, Any]) -> TextFormat:
    """Take the options of texts out of a command's, but for `form`."""
    from dpfast.app.tables.text_format import TextFormat

    return TextFormat(**{name: options.pop(name) for name in ("delimiter", "encoding", "decimal", "thousands")})


def refuse_shared(target: Path, read: Mapping[str, Path | None], metadata: Path | None = None) -> None:
    """Refuse to write over a file that the command needs: --force would replace a ledger, too.

    target: OUT, whose record may come beside it. read: files by what names them; the ledger has
    more beside it. metadata: a record elsewhere. Raises: ParameterError.
    """
    from dpfast.app.tables.streams import PIPE

    written = {"OUT": target, "the record of OUT": Path(f"{target}.json")} if target != PIPE else {}
    if metadata is not None:
        written["--metadata"] = metadata
    refuse_written(written, read)


def refuse_written(written: Mapping[str, Path], read: Mapping[str, Path | None]) -> None:
    """Refuse to write over any of these, or over what lies beside a ledger or a key file.

    Both are files by what names them. Raises: ParameterError.
    """
    from dpfast.app.tables.streams import PIPE

    needed = {name: path for name, path in read.items() if path is not None and path != PIPE}
    if "--ledger" in needed:
        ledger = os.path.realpath(needed["--ledger"])
        needed |= {f"a file of --ledger ({end})": Path(f"{ledger}{end}") for end in BESIDE_A_LEDGER}
    if "--key-file" in needed:
        key = os.path.realpath(needed["--key-file"])
        needed |= {f"a file of --key-file ({end})": Path(f"{key}{end}") for end in BESIDE_A_KEY}
    places = {name: _place(path) for name, path in needed.items()}
    for what, path in written.items():
        place = _place(path)
        for name, other in needed.items():
            if place == places[name] or _one_file(path, other):
                raise ParameterError(f"{what} must not be {name}, got {path}")


def refuse_inside(source: Path, name: str, written: Mapping[str, Path | None]) -> None:
    """Refuse to write among the files of a folder that is read: the next run would read it, too.

    name: what names the folder. Raises: ParameterError.
    """
    from dpfast.app.tables.streams import PIPE

    for what, path in written.items():
        if path is None or PIPE in {path, source} or not os.path.lexists(source):
            continue
        if os.path.realpath(source) in map(str, Path(os.path.realpath(path)).parents):
            raise ParameterError(f"{what} must not lie among the files of {name}, got {path}")


def same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, or to one place where none is yet."""
    return _place(one) == _place(other) or _one_file(one, other)


def _place(path: Path) -> str:
    """Where a path leads, whatever is there; the path itself if nobody can say."""
    with suppress(OSError):  # writing says so
        return os.path.realpath(path)
    return str(path)


def _one_file(one: Path, other: Path) -> bool:
    with suppress(OSError):  # one of them is not there
        return one.samefile(other)
    return False


def is_file(path: Path) -> bool:
    """Whether there is a file at `path`."""
    with suppress(OSError):  # no file can have such a name: it is refused where it is opened
        return path.is_file()
    return False
