# SPDX-License-Identifier: Apache-2.0
"""Hostile files under `dpfast privatize` and `dpfast histogram`, in this process.

A call ends with a stated exit code and one line; it leaves a whole output with its record or
nothing; a refused file is not charged, and another costs its epsilon; private cells are not quoted;
the output is not the input. A threshold shows no key that one unit alone has.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpfast
from dpfast.app.cli import main
from fuzz import must
from fuzz.choices import Choices

EPSILON = 1 / 1000
NUMBER, TEXT = "918273645", "HIVPOSITIVE"
ENDS = [".csv", ".csv", ".parquet", ".arrow", ".npy"]
COLUMNS = ["n", "n", "n", "x", "kind", "tags", "no", ""]
LAWS = [
    ["--epsilon", str(EPSILON), "--sensitivity", "1"],
    ["--epsilon", str(EPSILON), "--sensitivity", "1"],
    ["--epsilon", str(EPSILON), "--sensitivity", "1", "--mechanism", "laplace"],
    ["--epsilon", str(EPSILON), "--delta", "1e-6", "--l0", "1", "--linf", "1", "--mechanism", "gaussian"],
    ["--epsilon", str(EPSILON), "--delta", "1e-6", "--l0", "1", "--linf", "1", "--mechanism", "discrete-gaussian"],
]
MORE = [
    [], [], [], ["--sort-by", "name"], ["--sort-by", "kind"], ["--keep-metadata"], ["--missing", "0", "--clamp", "0", "9"],
    ["--clamp", "0", "5"], ["--lower", "0"], ["--constant-time"], ["--column", "x", "--epsilon-is", "total"],
]  # fmt: skip
TEXTS = {".csv", ".npy"}  # formats whose messages have no names of a schema, and whose record lies beside
ENOUGH = 400  # bytes of an output that is no copy by chance
KEYED = ["--key-file", "k.key", "--label", "visits"]
TABLE = range(160, 192)  # the first byte of an input for histogram
BY = ["kind", "kind", "n", "name", "kind", "x", "tags", "no"]
UNITS = ["name", "n", "kind"]
HIDDEN = ["--threshold", "--delta", "1e-12"]
KEYS = [HIDDEN, HIDDEN, ["--domain", "a,ü,b"], ["--domain", "0..99"], ["--domain", "d.txt"], ["--domain", "x=d.txt"]]
WHAT = [
    [], [], ["--intervals"], ["--report", "out.html", "--unit-name", "<plane>"], ["--mean", "x", "--clamp", "0", "9"], ["--sum", "x", "--clamp", "0", "9"],
    ["--sum", "n", "--clamp", "-5", "5", "--granularity", "1"], ["--mechanism", "discrete-gaussian", "--delta", "1e-12"],
    ["--quantile", "n=0.5", "--clamp", "0", "9"], ["--quantile", "x=0.5", "--quantile", "x=0.9", "--clamp", "-1", "1", "--step", "0.25"],
    ["--lower", "0", "--upper", "5"], ["--max-contributions", "3"], ["--max-per-partition", "2"], ["--by", "n"],
    ["--encoding", "latin-1"], ["--decimal", ","], ["--delimiter", ";"],
]  # fmt: skip


class Target:
    def __init__(self, folder: Path) -> None:
        self._home = folder / "template"
        self._home.mkdir()
        self._work = folder / "work"
        self._inputs, self._tables = inputs(self._home), count()
        dpfast.Ledger(self._home / "l.db", 1000, delta=1e-1, create=True)
        for unit in UNITS:
            dpfast.Ledger(self._home / f"{unit}.db", 1000, delta=1e-1, unit=unit, create=True)
        dpfast.KeyFile.create(self._home / "k.key")

    def seeds(self) -> Iterator[bytes]:
        for at, end in enumerate(ENDS):
            for law in range(len(LAWS)):
                head = bytes([at, law % 4 * 3 % 8, law, law, law % 2])
                yield head + b"\0" + self._inputs[end][:600]
                yield head + b"\1\2\0" + bytes(range(law, 40))
        for at, end in enumerate(ENDS[:-1]):
            yield bytes([TABLE[at], 3, 1, 0, 3, 1, 1, 0])
            for what in range(len(WHAT)):
                head = bytes([TABLE[at], what * 2 % 6, 0, what % 5, what, what % 2])
                yield head + b"\1\0\4a\nb\n"
                yield head + b"\0\0\4a\nb\n" + self._inputs[end]
                yield head + b"\1\1\4a\nb\n" + bytes(range(what, 40))

    def __call__(self, data: bytes) -> None:
        chosen = Choices(data)
        if data and data[0] in TABLE:
            self._histogram(chosen)
            return
        end, column = chosen.pick(ENDS), chosen.pick(COLUMNS)
        law, more, key = chosen.pick(LAWS), chosen.pick(MORE), chosen.below(3) == 1
        raw = chosen.below(2) == 0
        out = chosen.pick([end, end, end, ".csv", ".parquet"])
        held = chosen.rest() if raw else chosen.patched(self._inputs[end])
        columns = [] if end == ".npy" else ["--column", column]
        words = [*columns, *law, *more, "--ledger", "l.db", *(KEYED if key else []), "--threads", "1", "--quiet"]
        with self._folder(end, held) as before:
            code, said = here(["privatize", f"in{end}", f"out{out}", *words])
            self._judge(code, said, before, (end, out), "l.db")
            made = Path(f"out{out}").read_bytes() if code == 0 else b""
            must(end != out or made != held or len(made) < ENOUGH, "added no noise")
            if code == 0 and key:
                again, said = here(["verify", f"in{end}", f"out{out}", *words])
                must(again == 0, f"a release under a key cannot be drawn again: {said[-300:]}")

    def _histogram(self, chosen: Choices) -> None:
        end, by, unit = chosen.pick(ENDS[:-1]), chosen.pick(BY), chosen.pick(UNITS)
        keys, what, key = chosen.pick(KEYS), chosen.pick(WHAT), chosen.below(3) == 1
        raw = chosen.below(2) == 0
        out = chosen.pick([".csv", ".parquet", ".arrow"])
        listed = chosen.take(chosen.below(24))
        held = chosen.rest() if raw else chosen.patched(self._inputs[end])
        words = [
            "--by",
            by,
            "--unit",
            unit,
            "--max-partitions",
            "2",
            "--epsilon",
            str(EPSILON),
            *keys,
            *what,
            "--quiet",
        ]
        words += ["--ledger", f"{unit}.db", "--threads", "1"]
        words += [*KEYED[:-1], f"table {next(self._tables)}"] if key else []  # this process knows its labels
        with self._folder(end, held) as before:
            Path("d.txt").write_bytes(listed)
            code, said = here(["histogram", f"in{end}", f"out{out}", *words])
            self._judge(code, said, {*before, "d.txt"}, (end, out), f"{unit}.db", page="--report" in what)
            told = b"".join(path.read_bytes() for path in Path().glob("out*"))
            must("--threshold" not in words or TEXT.encode() not in told, "shows a key that one unit alone has")
            if code == 0 and key:
                again, said = here(["histogram", f"in{end}", f"out{out}", *words, "--verify"])
                must(again == 0, f"a release under a key cannot be drawn again: {said[-300:]}")

    @contextlib.contextmanager
    def _folder(self, end: str, held: bytes) -> Iterator[set[str]]:
        """Within a new folder that holds the input; yields the names of what lies there."""
        if self._work.exists():
            shutil.rmtree(self._work)
        shutil.copytree(self._home, self._work)
        (self._work / f"in{end}").write_bytes(held)
        with contextlib.chdir(self._work):
            yield {path.name for path in Path().iterdir()}

    def _judge(
        self, code: int | None, said: str, before: set[str], ends: tuple[str, str], paid: str, *, page: bool = False
    ) -> None:
        """paid: the ledger. page: whether a report was asked for."""
        told = said.strip()[-300:]
        new = {path.name for path in Path().iterdir()} - before - {f"{paid}.lock"}
        must(code in (0, 1, 2, 3, 4), f"ended with {code}: {told}")
        must("Traceback" not in said and "please report" not in said, f"said {told}")
        ledger = dpfast.Ledger(paid)
        charges = [float(each.epsilon) for each in ledger.history() if not each.refused] if ledger.verify() else []
        spent = 0 if code else EPSILON  # by several columns in all, which may be a charge each
        must(
            abs(sum(charges) - spent) <= 1e-9, f"was {'refused' if code else 'released'} with charges {charges}: {told}"
        )
        if code:
            must(not new, f"was refused ({told}) and left {sorted(new)}")
            quoted = [cell for cell in (NUMBER, TEXT) if cell in said and ends[0] in TEXTS]
            must(not quoted, f"quoted {quoted}: {told}")
            return
        out = f"out{ends[1]}"
        pages = {"out.html"} if page else set()
        record = {f"{out}.json"} if ends[0] in TEXTS and ends[1] in TEXTS else set()
        may = {out, f"{out}.json", "k.key.head", *pages}
        must({out, *record, *pages} <= new <= may, f"left {sorted(new)}")


def here(arguments: list[str]) -> tuple[int | None, str]:
    """The exit code and the words of a command in this process."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            return main(arguments), said.getvalue()
        except (Exception, SystemExit) as error:
            return None, f"{type(error).__name__}: {error} {said.getvalue()}"


def inputs(folder: Path) -> dict[str, bytes]:
    """A whole input of each format, by extension."""
    counts = [int(NUMBER), 5, 0, 12, 7, 31, 8, 2] * 4
    table = pa.table(
        {
            "name": [f"{TEXT}{i}" for i in range(len(counts))],
            "n": counts,
            "x": [count + 0.25 for count in counts],
            "kind": pa.array(["a", "ü", None, "b"] * (len(counts) // 4)).dictionary_encode(),
            "tags": [["t"], None, [], ["b", None]] * (len(counts) // 4),
        }
    )
    pq.write_table(table, folder / "t.parquet", row_group_size=16)
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=16)
    lines = [f'{TEXT}{i},{n},{n}.25,"a,""{i}\n"\n' for i, n in enumerate(counts)]
    (folder / "t.csv").write_text("name,n,x,kind\n" + "".join(lines))
    np.save(folder / "t.npy", np.array(counts).reshape(4, -1))
    found = {path.suffix: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        path.unlink()
    return found
