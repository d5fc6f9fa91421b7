# SPDX-License-Identifier: Apache-2.0
"""Hostile command lines and damaged files: each call ends in time, says nothing private.

A call has a stated exit code and leaves a whole output or none. Children make many calls each, so a
crash is a finding; some calls are programs of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, TypeVar

from places import TESTS

CALLS, CHILD = 5000, 500  # in all, and in each child
OWN_PROCESS = 50  # one call of so many
SECONDS = 600  # for one call: some hundred times what it takes, and the first compiles kernels
T = TypeVar("T")

NUMBER, TEXT = "918273645", "HIVPOSITIVE"  # cells that no failure may quote
ROWS = 200
LAW = ["--epsilon", "1", "--sensitivity", "1"]
TABLES = [".csv", ".parquet", ".arrow", ".feather"]


OURS = {
    "l.db",
    "h.db",
    "p.db",
    "p.key.head",
    "s.state",
    "s.state.before",
    "s.state.ahead",
}  # what calls that fail may change


class Hang(BaseException):
    """A call took longer than SECONDS."""


class Call(NamedTuple):
    """A command line in a folder with its input; plain: the input is whole, and the law is LAW."""

    arguments: list[str]
    plain: bool


# ------------------------------------------------------------------ what is tried


def originals(folder: Path) -> dict[str, bytes]:
    """The whole inputs, by file name."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = [int(NUMBER), 5, 0, 12] * (ROWS // 4)
    table = pa.table(
        {
            "name": [f"{TEXT}{i}" for i in range(ROWS)],
            "n": counts,
            "x": [count + 0.25 for count in counts],
            "kind": pa.array(["a", "ü", None, TEXT] * (ROWS // 4)).dictionary_encode(),
            "tags": [[TEXT], None, [], ["b", None]] * (ROWS // 4),
        }
    ).replace_schema_metadata({b"note": TEXT.encode()})
    pq.write_table(table, folder / "t.parquet", row_group_size=64)
    for end in (".arrow", ".feather"):
        with pa.ipc.new_file(folder / f"t{end}", table.schema) as writer:
            writer.write_table(table, max_chunksize=64)
    lines = [f'{TEXT}{i},{n},{n}.25,"a,""{i}\n"\n' for i, n in enumerate(counts)]
    (folder / "t.csv").write_text("name,n,x,kind\n" + "".join(lines))
    (folder / "headerless.csv").write_text("".join(lines))
    np.save(folder / "t.npy", np.array(counts).reshape(4, -1))
    np.save(folder / "reals.npy", np.array(counts) + 0.25)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "l.db"}


def damaged(r: random.Random, data: bytes) -> bytes:
    """The same bytes but for one damage."""
    at = r.randrange(len(data) + 1)
    head = min(at, r.randrange(1, 400))
    other = bytes(r.randrange(256) for _ in range(r.randrange(1, 40)))
    marks = [b"\xef\xbb\xbf", b"\xff\xfe", b"\x1b[2J"]
    text = r.choice([b"\0", b'"', b"\r", b"\n\n", b",", b"9" * 400, b"-", b"nan", *marks, b"("])
    return r.choice(
        [
            data[:at],
            data[at:],
            data[:at] + other + data[at + len(other) :],
            data[:head] + other + data[head + len(other) :],
            data[:at] + text + data[at:],
            data[:head] + text + data[head:],
            data[:head] + bytes([data[head - 1] ^ 1 << r.randrange(8)]) + data[head + 1 :],
            data + data,
            data[: len(data) // 2] + data[len(data) // 2 :][::-1],
            b"",
        ]
    )


def usually(r: random.Random, usual: T, *others: T, odds: float = 0.15) -> T:
    return r.choice(others) if r.random() < odds else usual


def call(r: random.Random, folder: Path, inputs: dict[str, bytes]) -> Call:
    """Put an input into the folder, and say with which arguments."""
    kind = r.random()
    others = {0.08: explained, 0.16: accounted, 0.24: repeated, 0.3: looked, 0.55: counted, 0.65: totalled}
    for most, other in others.items():
        if kind < most:
            return other(r, folder, inputs)
    name = r.choice(sorted(inputs))
    end, whole = Path(name).suffix, r.random() < 0.5
    source = f"in{end}"
    (folder / source).write_bytes(inputs[name] if whole else damaged(r, inputs[name]))
    source = usually(r, source, f"no{end}", "in", "a folder", "pipe.csv", "pipe.npy", "/dev/null", "", odds=0.05)
    usual = r.choice([end, ".parquet" if end in TABLES else end])  # a list has no place in a CSV
    target = usually(r, f"out{usual}", *strange_targets(end), odds=0.1)
    column = [] if end == ".npy" else ["--column", usually(r, "n", "x", "kind", "tags", "no", "", NUMBER, "\x1b[2J")]
    law = usually(r, LAW, strange_law(r))
    law = [*law, *(["--mechanism", "laplace"] if "x" in column or name == "reals.npy" else [])]
    more = r.sample(MORE, r.choice([0, 0, 0, 1, 1, 2]))
    plain = whole and name[0] == "t" and law == LAW and not more and column in ([], ["--column", "n"])
    plain = plain and (source, target) == (f"in{end}", f"out{usual}")
    return Call(["privatize", source, target, *column, *law, *(word for one in more for word in one)], plain=plain)


def counted(r: random.Random, folder: Path, inputs: dict[str, bytes]) -> Call:
    """A table of rows: as `call` puts it."""
    name = r.choice(sorted(name for name in inputs if Path(name).suffix in TABLES))
    end, whole = Path(name).suffix, r.random() < 0.6
    (folder / f"in{end}").write_bytes(inputs[name] if whole else damaged(r, inputs[name]))
    source = usually(r, f"in{end}", "no.csv", "in", "a folder", "pipe.csv", "/dev/null", "", "-", odds=0.05)
    target = usually(r, "out.csv", "out.parquet", "out.jsonl.gz", *strange_targets(end), odds=0.2)
    by, unit = usually(r, "kind", "n", "x", "tags", "no", "", "name"), usually(r, "name", "n", "x", "tags", "no", "")
    listed = [
        "x=a,b",
        "kind=d.txt",
        "1..9",
        "9..1",
        "no.txt",
        "a folder",
        "/dev/null",
        "",
        "a,a",
        "in.csv",
        "\x1b[2J,a",
    ]
    keys = usually(r, ["--domain", "a,b"], *(["--domain", each] for each in listed), [], THRESHOLD, odds=0.4)
    law = usually(r, ["--epsilon", "1"], strange_law(r), odds=0.1)
    more = r.sample(MORE_OF_TABLES, r.choice([0, 0, 1, 1, 2]))
    plain = (
        whole
        and name[0] == "t"
        and (source, target) == (f"in{end}", "out.csv")
        and not more
        and law == ["--epsilon", "1"]
    )
    plain = plain and (by, unit) == ("kind", "name") and keys in (["--domain", "a,b"], THRESHOLD)
    words = ["--by", by, "--unit", unit, "--max-partitions", "2", *keys, *law, *(word for one in more for word in one)]
    return Call(["histogram", source, target, *words], plain=plain)


def totalled(r: random.Random, folder: Path, inputs: dict[str, bytes]) -> Call:
    """Totals, or a step of those that are there or were restored: as `call` puts it."""
    name = r.choice(sorted(name for name in inputs if Path(name).suffix in TABLES))
    end, whole = Path(name).suffix, r.random() < 0.6
    (folder / f"in{end}").write_bytes(inputs[name] if whole else damaged(r, inputs[name]))
    if r.random() < 0.1:
        return Call(
            [
                "totals",
                "show",
                usually(r, "p.db", "l.db", "no.db", "in.csv", "/dev/null", ""),
                *r.choice([[], ["--json"]]),
            ],
            plain=False,
        )
    if r.random() < 0.4:
        for place in ("s.state", "p.db"):
            shutil.copy(folder / f"{place}.0", folder / place)
        for place in ("s.state.before", "s.state.ahead", "p.key.head"):
            (folder / place).unlink(missing_ok=True)
    elif (place := folder / r.choice(["s.state", "s.state.before", "s.state.ahead"])).exists() and r.random() < 0.2:
        place.write_bytes(damaged(r, place.read_bytes() or b"x"))
    source = usually(r, f"in{end}", "no.csv", "a folder", "pipe.csv", "-", "", odds=0.05)
    target = usually(r, "out.csv", "out.parquet", "s.state", *strange_targets(end), odds=0.2)
    t = usually(r, "1", "0", "2", "513", "-1", "9" * 30, "one", "", odds=0.3)
    words = [usually(r, word, *OTHER.get(word, [word]), odds=0.1) for word in TOTALS]
    more = r.sample(MORE_OF_TOTALS, r.choice([0, 0, 1, 1, 2]))
    step = ["step", t, source, target] if r.random() < 0.7 else ["new"]
    return Call(["totals", *step, *words, *(word for one in more for word in one)], plain=False)


def looked(r: random.Random, folder: Path, inputs: dict[str, bytes]) -> Call:
    """A look at rows, whose keys no output may hold."""
    name = r.choice(sorted(name for name in inputs if Path(name).suffix in TABLES))
    end = Path(name).suffix
    (folder / f"in{end}").write_bytes(inputs[name] if r.random() < 0.7 else damaged(r, inputs[name]))
    by = usually(r, "kind", "n", "x", "tags", "no", "", "name", "week(kind)", odds=0.4)
    keys = usually(r, "A,ü", "kind=d.txt", "1..9", "no.txt", "a,a", "\x1b[2J,a", "", odds=0.4)
    more = r.sample(MORE_OF_LOOKS, r.choice([0, 0, 1, 2]))
    words = ["--by", by, "--domain", keys, *usually(r, ["--private"], []), *(word for one in more for word in one)]
    return Call(["look", usually(r, f"in{end}", "no.csv", "a folder", "pipe.csv", "-", odds=0.05), *words], plain=False)


def repeated(r: random.Random, folder: Path, inputs: dict[str, bytes]) -> Call:
    """What a file says of itself, which may be damaged."""
    end = r.choice([".csv", ".parquet", ".arrow", ".json"])
    (folder / "in.csv").write_bytes(inputs["t.csv"])
    record = RECORD if r.random() < 0.2 else damaged(r, RECORD)
    if end in {".parquet", ".arrow"}:
        (folder / f"in{end}").write_bytes(inputs[f"t{end}"] if r.random() < 0.5 else damaged(r, inputs[f"t{end}"]))
    else:
        (folder / ("in.csv.json" if end == ".csv" else "in.json")).write_bytes(record)
    source = usually(r, f"in{end}", "no.csv", "a folder", "pipe.csv", "/dev/null", "-", "", odds=0.1)
    return Call(
        [
            "show",
            source,
            *r.choice([[], ["--json"], ["--report", "out.html"], ["--report", "no/out.html"], ["--format", "csv"]]),
        ],
        plain=False,
    )


def strange_targets(end: str) -> list[str]:
    names = [f"in{end}", "/dev/null", "/dev/full", "-", "", f"no/out{end}", f"link{end}", f"x\ny{end}", f"\udcff{end}"]
    return [*names, "a" * 300 + end, "pipe.csv", "a folder", "out.txt", f"out{end}.json", "out"]


def strange_law(r: random.Random) -> list[str]:
    numbers = ["1", "0.1", "1/3", "0", "-1", "nan", "inf", "1e400", "1e-300", "2**70"]
    numbers += ["9" * 5000, "one", "1/0", "", "٣"]
    names = ["epsilon", "delta", "rho", "sigma", "sensitivity", "l0", "linf", "l2-squared", "granularity", "bound"]
    words = [word for name in r.sample(names, r.randrange(1, 5)) for word in (f"--{name}", r.choice(numbers))]
    laws = ["laplace", "snapping", "gaussian", "discrete-laplace", "discrete_gaussian", "no"]
    return [*words, *(["--mechanism", r.choice(laws)] if r.random() < 0.6 else []), *usually(r, [], ["--signed"])]


MORE = [
    ["--force"], ["--quiet"], ["--keep-metadata"], ["--constant-time"], ["--threads", "1"], ["--threads", "0"],
    ["--sort-by", "name"], ["--sort-by", "kind"], ["--sort-by", "tags"], ["--sort-by", "n"], ["--sort-by", "no"],
    ["--lower", "0"], ["--lower", "1e30"], ["--upper", "-5"], ["--upper", "x"], ["--missing", "0"], ["--missing", "nan"],
    ["--column", "x"], ["--column", "n"], ["--epsilon-is", "total"], ["--epsilon-is", "per-column"],
    ["--ledger", "l.db"], ["--ledger", "no.db"], ["--ledger", "in.csv"], ["--ledger", "a folder"], ["--ledger", "/dev/null"],
    ["--unit", ""], ["--unit", "visit"], ["--adjacency", "substitution"], ["--no-such-option"], ["\udcff"],
]  # fmt: skip


THRESHOLD = ["--threshold", "--delta", "1e-300"]  # which no key of so few rows reaches
MORE_OF_TABLES = [
    ["--force"], ["--quiet"], ["--threads", "1"], ["--explain"], ["--intervals"], ["--intervals", "2"], ["--intervals", "--jointly"],
    ["--sum", "n", "--clamp", "0", "9"], ["--sum", "x", "--clamp", "-1", "1", "--granularity", "1"], ["--clamp", "0", "9"],
    ["--quantile", "n=0.5", "--clamp", "0", "9"], ["--quantile", "x=1/3", "--quantile", "x=0.9", "--clamp", "-1", "1", "--step", "0.1"],
    ["--quantile", "n", "--clamp", "0", "9"], ["--quantile", "n=2", "--clamp", "0", "9"], ["--quantile", "n=0.5"], ["--step", "1"],
    ["--quantile", "n=0.5", "--clamp", "0", "9", "--step", "7"], ["--quantile", "x=0.5", "--clamp", "0", "2**900", "--step", "2**890"],
    ["--sum", "kind", "--clamp", "0", "9"], ["--sum", "x", "--clamp", "0", "2**900"], ["--sum", "x", "--clamp", "9", "0"],
    ["--mean", "n", "--clamp", "0", "9"], ["--mean", "x", "--clamp", "-1", "1", "--granularity", "1"], ["--mean", "no"],
    ["--mean", "kind", "--clamp", "0", "9"], ["--mean", "x", "--clamp", "0", "2**900"], ["--mean", "x", "--clamp", "9", "9"],
    ["--lower", "0"], ["--lower", "1e30"], ["--upper", "x"], ["--max-contributions", "3"], ["--max-per-partition", "9" * 30],
    ["--unit-is-row"], ["--unit-name", "<b>x"], ["--unit-name", "\x1b"], ["--strip"], ["--null", "x"], ["--null", ""], ["--unknown"], ["--bins", "n=0,2,9"], ["--bins", "kind=0,1"], ["--bins", "n=1"],
    ["--by", "week(kind)"], ["--by", "month(n, Europe/Oslo)"], ["--by", "day(x, Nowhere)"],
    ["--max-partitions", "0"], ["--by", "n"], ["--by", "kind"], ["--mechanism", "discrete-gaussian", "--delta", "1e-12"],
    ["--report", "out.html"], ["--report", "no/out.html"], ["--report", "in.csv"], ["--report-title", "x"],
    ["--ledger", "h.db"], ["--ledger", "l.db"], ["--ledger", "no.db"], ["--ledger", "in.csv"], ["--ledger", "a folder"],
    ["--key-file", "no.key"], ["--label", "x"], ["--resume"], ["--verify"], ["--encoding", "utf-16"], ["--encoding", "no"],
    ["--delimiter", ";"], ["--decimal", ","], ["--format", "csv"], ["--adjacency", "substitution"], ["--no-such-option"],
]  # fmt: skip


TOTALS = [
    "--by", "kind", "--unit", "name", "--domain", "a,b", "--max-partitions", "2", "--steps", "8", "--rho", "0.5", "--ledger", "p.db", "--key-file", "p.key",
    "--label", "x", "--state", "s.state",
]  # fmt: skip
OTHER = {  # words in place of those
    "kind": ["n", "x", "tags", "no", ""], "name": ["n", "x", "tags", "no", ""], "a,b": ["d.txt", "1..9", "a,a", ""], "8": ["0", "9" * 9, "x"],
    "0.5": ["0", "nan", "1e-300", "1"], "--rho": ["--epsilon", "--sigma"], "x": ["y", "", "\udcff"], "p.db": ["l.db", "in.csv", "a folder", "no.db"],
    "s.state": ["in.csv", "a folder", "p.db", "no/s", "pipe.csv", ""], "p.key": ["no.key", "d.txt"],
}  # fmt: skip
MORE_OF_TOTALS = [
    ["--resume"], ["--force"], ["--quiet"], ["--explain"], ["--intervals"], ["--intervals", "2"], ["--intervals", "--jointly"], ["--jointly"],
    ["--per-unit-steps", "2"], ["--per-unit-steps", "513"], ["--per-unit-steps", "0"], ["--apart", "3"], ["--apart", "9" * 30], ["--lower", "0"], ["--upper", "x"],
    ["--strip"], ["--null", "x"], ["--unknown"], ["--bins", "n=0,2,9"], ["--by", "week(kind)"], ["--max-contributions", "3"], ["--max-per-partition", "9" * 30],
    ["--epsilon", "1"], ["--delta", "1e-6"], ["--adjacency", "substitution"], ["--ledger", "l.db"], ["--ledger", "no.db"], ["--key-file", "no.key"],
    ["--shared-with", "0"], ["--encoding", "utf-16"], ["--delimiter", ";"], ["--format", "csv"], ["--metadata", "m.json"], ["--unit-is-row"],
]  # fmt: skip
MORE_OF_LOOKS = [
    ["--strip"], ["--null", "x"], ["--unknown"], ["--bins", "n=0,2,9"], ["--bins", "kind=1"], ["--json"], ["--by", "n"], ["--ledger", "l.db"],
    ["--ledger", "no.db"], ["--ledger", "in.csv"], ["--shared-with", "0"], ["--encoding", "utf-16"], ["--delimiter", ";"], ["--format", "csv"], ["--quiet"],
]  # fmt: skip
RECORD = json.dumps({
    "epsilon_total": "1", "histogram": {"by": ["kind"], "unit": "name", "max_partitions": 1, "max_per_partition": 1, "cells": 2},
    "intervals": {"confidence": "19/20", "of": "each cell", "half_width": "3"}, "releases": [
        {"column": "n", "mechanism": "discrete_laplace", "epsilon": "1", "sensitivity": "1", "adjacency": "add-remove", "unit": "name", "scale": 1.0, "secure": True},
    ],
}, indent=2).encode()  # fmt: skip


def explained(r: random.Random, *_: object) -> Call:
    more = ["--json", "--cells 0", "--cells 5", "--plot no/p.png", "--plot p.txt", "--picture loss"]
    return Call(["explain", *usually(r, LAW, strange_law(r), odds=0.7), *r.choice(more).split()], plain=False)


def accounted(r: random.Random, *_: object) -> Call:
    file = usually(r, "l.db", "no.db", "in.csv", "t.csv", "a folder", "/dev/null", "", "\udcff", odds=0.5)
    amounts = [[option, number] for option in ("--epsilon", "--rho", "--releases") for number in ("1", "0", "nan")]
    law = usually(r, "laplace", "snapping", "discrete-gaussian", "no", odds=0.5)
    change = [["--sensitivity", "1"], ["--l0", "2", "--linf", "1"], ["--mechanism", law], ["--granularity", "3"]]
    rest = [[], ["--json"], *amounts, ["--releases", "52", *r.choice(change), *r.choice(change)]]
    words = [r.choice(["show", "plan", "create"]), file, *r.choice(rest), *r.choice(rest)]
    return Call(["ledger", *words], plain=False)


# ------------------------------------------------------------------ how it is judged


def found(call: Call, code: int | None, said: str, before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """What is wrong with a call: exit code (None: an exception), words, files before and after."""
    wrong = [] if code in {0, 1, 2, 3, 4} else [f"ended with {code}"]
    wrong += [f"said {word!r}" for word in ("Traceback", "please report", "\x1b") if word in said]
    new = {name for name in after if after[name] != before.get(name)} | (before.keys() - after.keys())
    asked = " ".join(call.arguments)
    if code != 0 or call.arguments[0] == "look":
        wrong += [f"quoted {cell}" for cell in (NUMBER, TEXT) if cell in said and cell not in asked]
    if code != 0:
        allowed = {*OURS, *(["in.csv"] if "--state in.csv" in asked else [])}  # what was charged stays charged
    else:
        target = [*call.arguments, "", "", ""][4 if call.arguments[:2] == ["totals", "step"] else 2]
        allowed = {*OURS, target, f"{target}.json", f"{target}.lock", "no.db", "out.html", "m.json"}
        wrong += [
            f"shows {name!r} a hidden key"
            for name in new
            if "--threshold" in call.arguments and TEXT.encode() in after[name]
        ]
    wrong += [f"left {name!r}" for name in sorted(new - allowed)]
    if call.plain and code == 0 and after.get(call.arguments[2]) == before.get(call.arguments[1]):
        wrong.append("added no noise")
    if call.plain and code != 0:
        wrong.append(f"refused what is right: {said}")
    return wrong


def contents(folder: Path) -> dict[str, bytes]:
    """All regular files of the folder, and what they hold."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Hang in a call that takes longer."""

    def stop(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def here(arguments: list[str], seconds: float = SECONDS) -> tuple[int | None, str]:
    """The exit code and the words of a call in this process."""
    from dpfast.app.cli import main

    said = io.StringIO()
    try:
        with within(seconds), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return main(arguments), said.getvalue()
    except BaseException as error:  # whatever comes out is a finding
        return None, f"{type(error).__name__}: {said.getvalue()}"


def elsewhere(arguments: list[str]) -> tuple[int | None, str]:
    """The same of the program itself."""
    command = [sys.executable, "-m", "dpfast", *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=5 * SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, "Hang"
    return ended.returncode, (ended.stdout + ended.stderr).decode(errors="replace")


def prepared(folder: Path) -> dict[str, bytes]:
    """Enter an empty folder, and put there what calls may stumble over."""
    from dpfast import KeyFile, Ledger

    os.chdir(folder)
    inputs = originals(folder)
    Ledger("l.db", epsilon=10**6, create=True)
    Ledger("h.db", epsilon=10**6, delta=Fraction(1, 10), unit="name", create=True)
    Ledger("p.db", rho=10**6, unit="name", create=True)
    KeyFile.create("p.key")
    assert here(["totals", "new", *TOTALS])[0] == 0
    for name in ("s.state", "p.db"):
        shutil.copy(folder / name, folder / f"{name}.0")
    (folder / "d.txt").write_text("a\nü\n")
    (folder / "a folder").mkdir()
    for name in ("pipe.csv", "pipe.npy"):
        os.mkfifo(folder / name)
    return inputs


def calls(seed: int, count: int) -> None:
    """Make calls, and print what they came to as JSON: how many ended how, and what was wrong."""
    r, ended, wrong = random.Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = prepared(folder)
        kept = {path.name for path in folder.iterdir()}
        for number in range(count):
            one = call(r, folder, inputs)
            before = contents(folder)
            sys.stderr.write(f"{number} {one.arguments}\n")  # the last line names the one that crashed
            own = number % OWN_PROCESS == OWN_PROCESS - 1 and "\0" not in "".join(one.arguments)
            code, said = (elsewhere if own else here)(one.arguments)
            ended["own process" if own else "in process"] += 1
            ended["done" if code == 0 else "refused"] += 1
            faults = found(one, code, said, before, contents(folder))
            wrong += [f"seed {seed}, call {number}, {one.arguments}: {what}" for what in faults]
            for path in folder.iterdir():
                if path.name not in kept:
                    path.unlink() if not path.is_dir() else shutil.rmtree(path)
        os.chdir("/")
    sys.stdout.write(json.dumps({"ended": ended, "wrong": wrong}) + "\n")


def planted() -> int:
    """Plant a defect of each kind: each is found. Returns how many there were."""
    from dpfast.app.tables import files

    def fails(*_: object, **__: object) -> None:
        raise KeyError(TEXT)

    def quotes(*_: object, **__: object) -> None:
        raise files.FileError(f"cell {NUMBER} is wrong")

    def leaves(*_: object, **__: object) -> None:
        Path("left").write_text("")
        raise files.FileError("no")

    def waits(*_: object, **__: object) -> None:
        time.sleep(60)

    defects: list[Callable[..., None]] = [fails, quotes, leaves, waits]
    real = files.open_source
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = prepared(folder)
        for defect in defects:
            (folder / "in.csv").write_bytes(inputs["t.csv"])
            one, before = Call(["privatize", "in.csv", "out.csv", "--column", "n", *LAW], plain=False), contents(folder)
            files.open_source = defect  # type: ignore[assignment]
            try:
                code, said = here(one.arguments, seconds=1)
            finally:
                files.open_source = real
            assert found(one, code, said, before, contents(folder)), f"{defect.__name__} was not found"
            (folder / "left").unlink(missing_ok=True)
        os.chdir("/")
    return len(defects)


def child(code: str) -> str:
    """What a child prints that may import this module."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", f"from deep.fuzz_cli import *; {code}"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{code} ended with {ended.returncode}: {ended.stderr[-2000:]}"
    return ended.stdout


def check(*, cheap: bool) -> dict[str, int]:
    """Plant defects, then make all calls. Raises: AssertionError (the first ten wrong calls)."""
    ended, wrong = Counter[str](planted=int(child("print(planted())"))), []
    count, size = (50, 50) if cheap else (CALLS, CHILD)
    for seed in range(count // size):
        made = json.loads(child(f"calls({seed}, {size})").splitlines()[-1])
        ended.update(made["ended"])
        wrong += made["wrong"]
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:10])
    return dict(ended)
