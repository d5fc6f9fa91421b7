# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments of `privatize` and `histogram`: OUT is whole with its record, or gone.

Its report is there only beside the OUT that it is about. Under a key the release is begun again
with --resume until it ends: the same bytes, one charge, no leftovers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

from places import TESTS

TIMES, FIRST = 400, 10**9
AGAIN, FRESH = 300, 20  # kills of releases under a key: in forked processes, and of command lines
KILLS = 10  # one release is killed so many times
ROWS = 20_000
ENDS = (".csv", ".parquet", ".arrow", ".npy")
TABLES = {"known": ["--domain", "city=1..400", "--intervals"], "threshold": ["--threshold", "--delta", "1e-3"]}
PAGE = "out.html"
SHOWN = 20  # rows whose numbers a page must have


def privatized(end: str, *, force: bool) -> int:
    from dpfast.app.cli import main

    chosen = [] if end == ".npy" else ["--column", "n"]
    options = [
        "--epsilon",
        "1",
        "--sensitivity",
        "1",
        "--quiet",
        *chosen,
        "--report",
        PAGE,
        *(["--force"] if force else []),
    ]
    return main(["privatize", f"in{end}", f"out{end}", *options])


def store(end: str) -> None:
    """Counts by which each row of an output is known again."""
    import numpy as np
    import pyarrow as pa
    from table_files import store as write

    counts = FIRST + 1000 * np.arange(ROWS)
    table = pa.table({"n": counts, "x": [f"row {i}" for i in range(ROWS)]})
    if end == ".csv":
        Path("in.csv").write_text("n,x\n" + "".join(f"{n},row {i}\n" for i, n in enumerate(counts)))
    elif end == ".npy":
        np.save("in.npy", counts)
    else:
        write(table, Path(f"in{end}"), rows=ROWS, compression="snappy")


def state(end: str, old: bytes | None) -> str:
    """What lies there: nothing, the older output, or a whole new one. Raises: AssertionError."""
    import numpy as np
    import pyarrow.csv
    from table_files import read

    out, record = Path(f"out{end}"), Path(f"out{end}.json")
    left = {path.name for path in Path().iterdir()} - {f"in{end}", out.name, record.name, PAGE}
    assert not left, f"left {sorted(left)}"
    if record.exists():
        json.loads(record.read_text())
    if not out.exists():
        assert not Path(PAGE).exists(), "a page without its output"
        return "record alone" if record.exists() else "nothing"
    assert record.exists() or end in {".parquet", ".arrow"}, "an output without its record"
    table = pyarrow.csv.read_csv if end == ".csv" else read
    found = np.load(out) if end == ".npy" else np.asarray(table(out)["n"])
    if paged := Path(PAGE).exists():
        page = Path(PAGE).read_text("utf-8")
        assert page.endswith("</html>\n"), "half a page"
        assert all(f">{cell:,}</td>" in page for cell in found[:SHOWN]), "a page beside another output"
    if out.read_bytes() == old:
        return "old" if paged else "old, without its page"
    noise = found - FIRST - 1000 * np.arange(ROWS)
    # At scale 1, P(0) = 0.4621 and P(|X| > 40) = 2e-18: 0.6 of 20,000 cells are 0: 1e-330.
    assert abs(noise).max() <= 40, "an output of other rows"
    assert (noise == 0).mean() < 0.6, "an output without noise"
    return "new" if paged else "new, without its page"


def kills_of_privatize(times: int, seed: int, *, nameless: bool = True) -> dict[str, int]:
    """Start a release and kill it, so many times; how often which state was left.

    nameless: whether unnamed files may be used. Raises: AssertionError (a forbidden state).
    """
    if not nameless:
        vars(os).pop("O_TMPFILE", None)
    r, states = random.Random(seed), Counter[str]()
    for number in range(times):
        end, force = ENDS[number % len(ENDS)], number // len(ENDS) % 2 == 1
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            store(end)
            begun = time.monotonic()
            assert privatized(end, force=False) == 0  # which loads everything, too
            takes = time.monotonic() - begun
            old = Path(f"out{end}").read_bytes() if force else None
            if not force:
                removed(end)
            states[one_kill(end, force=force, after=r.uniform(0, 1.2 * takes), old=old)] += 1
    return dict(states)


def one_kill(end: str, *, force: bool, after: float, old: bytes | None) -> str:
    child = os.fork()
    if child == 0:
        with contextlib.redirect_stderr(io.StringIO()):
            privatized(end, force=force)
        os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return state(end, old)


def store_rows() -> None:
    """People in cities: the first cities have many, and the others have one."""
    rows = [f"{i % 7 if i % 50 else 100 + i // 50 % 300},p{i % 9000}" for i in range(ROWS)]
    Path("in.csv").write_text("city,person\n" + "\n".join(rows) + "\n")


def command(end: str, kind: str | None) -> list[str]:
    """kind: of a table of rows, or None of privatize."""
    if kind is not None:
        asked = ["--by", "city", "--unit", "person", "--max-partitions", "2", *TABLES[kind]]
        return ["histogram", f"in{end}", f"out{end}", *asked, "--epsilon", "1", "--quiet", "--report", PAGE]
    chosen = [] if end == ".npy" else ["--column", "n"]
    return [
        "privatize",
        f"in{end}",
        f"out{end}",
        "--epsilon",
        "1",
        "--sensitivity",
        "1",
        "--quiet",
        *chosen,
        "--report",
        PAGE,
    ]


def begun(words: list[str], label: str, *, fresh: bool) -> int:
    """The id of a process that makes a release under a key, or goes on with it."""
    from dpfast.app.cli import main

    command = [*words, "--ledger", "budget.db", "--key-file", "a.key", "--label", label, "--resume"]
    if fresh:
        return subprocess.Popen([sys.executable, "-m", "dpfast", *command], stderr=subprocess.DEVNULL).pid
    if (child := os.fork()) == 0:
        with contextlib.redirect_stderr(io.StringIO()):
            os._exit(main(command))
    return child


def made(end: str) -> set[bytes]:
    """The output that lies there, if one does. Raises: AssertionError (something else does)."""
    ours = {
        f"in{end}",
        f"out{end}",
        f"out{end}.json",
        PAGE,
        "a.key",
        "a.key.head",
        "a.key.head.new",
        "budget.db",
        "budget.db.lock",
        "budget.db-journal",
    }
    left = {path.name for path in Path().iterdir()} - ours
    assert not left, f"left {sorted(left)}"
    out = Path(f"out{end}")
    assert out.exists() or not Path(PAGE).exists(), "a page without its output"
    return {out.read_bytes()} if out.exists() else set()


def paged() -> set[bytes]:
    """The page that lies there, if one does."""
    return {Path(PAGE).read_bytes()} if Path(PAGE).exists() else set()


def removed(end: str) -> None:
    for path in (Path(PAGE), Path(f"out{end}"), Path(f"out{end}.json")):
        path.unlink(missing_ok=True)


def one_release_killed(end: str, r: random.Random, kills: int, *, fresh: bool, kind: str | None = None) -> Counter[str]:
    """Kill a release, and begin it again, so many times; then let it end. What each kill left."""
    import dpfast

    words = command(end, kind)

    def whole(label: str) -> float:
        begin = time.monotonic()
        assert os.waitpid(begun(words, label, fresh=fresh), 0)[1] == 0, "it does not end"
        return time.monotonic() - begin

    store(end) if kind is None else store_rows()
    dpfast.KeyFile.create("a.key")
    dpfast.Ledger("budget.db", 10, delta=Fraction(1, 10), create=True)
    whole("before")
    removed(end)
    takes = whole("before")  # nothing is loaded for the first time
    removed(end)
    states, outputs, pages = Counter[str](), set[bytes](), set[bytes]()
    while states.total() - states["ended before"] < kills:
        process = begun(words, "counts", fresh=fresh)
        time.sleep(r.uniform(0, takes))
        os.kill(process, signal.SIGKILL)
        ended = os.waitpid(process, 0)[1] == 0
        outputs |= (there := made(end))
        pages |= (page := paged())
        charged = len(dpfast.Ledger("budget.db").history()) == 2
        state = (
            f"an output{'' if page else ' without its page'}"
            if there
            else "a record alone"
            if Path(f"out{end}.json").exists()
            else "no output"
        )
        states["ended before" if ended else f"{'charged' if charged else 'not charged'}, {state}"] += 1
        if r.random() < 0.3:
            removed(end)
    whole("counts")
    outputs |= made(end)
    whole("counts")  # it finds OUT complete
    assert len(outputs | made(end)) == 1, "different outputs"
    assert len(pages | paged()) == 1, "different pages"
    ledger = dpfast.Ledger("budget.db")
    assert (ledger.verify(), ledger.spent.epsilon) == (2, 2), "another number of charges"
    return states


def kills_of_resumed(times: int, seed: int, *, fresh: bool = False) -> dict[str, int]:
    """How often which state was left. Raises: AssertionError (a forbidden one)."""
    r, states = random.Random(seed), Counter[str]()
    for number in range(-(-times // KILLS)):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            states += one_release_killed(ENDS[number % len(ENDS)], r, min(KILLS, times), fresh=fresh)
    return dict(sorted(states.items()))


def kills_of_tables(times: int, seed: int, *, fresh: bool = False) -> dict[str, int]:
    """The same of `histogram`: of known keys, and of keys that a threshold shows."""
    r, states = random.Random(seed), Counter[str]()
    for number in range(-(-times // KILLS)):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            kind = list(TABLES)[number % len(TABLES)]
            states += one_release_killed(".csv", r, min(KILLS, times), fresh=fresh, kind=kind)
    return dict(sorted(states.items()))


def kills_of_unkeyed_tables(times: int, seed: int) -> dict[str, int]:
    """Without a key, with a ledger: an OUT is whole and paid, and no OUT is paid at most once."""
    import dpfast
    from dpfast.app.cli import main

    r, states, known = random.Random(seed), Counter[str](), command(".csv", "known")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            store_rows()
            begin = time.monotonic()
            assert main(known) == 0
            takes = time.monotonic() - begin
            removed(".csv")
            dpfast.Ledger("budget.db", 10, create=True)
            if (process := os.fork()) == 0:
                with contextlib.redirect_stderr(io.StringIO()):
                    os._exit(main([*known, "--ledger", "budget.db"]))
            time.sleep(r.uniform(0, 1.2 * takes))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            there, charges = made(".csv"), len(dpfast.Ledger("budget.db").history())
            assert charges <= 1, "charged twice"
            for out in there:
                assert charges == 1, "an output that nobody paid"
                assert out.count(b"\n") == 401, "half an output"
                assert Path("out.csv.json").exists(), "an output without its record"
            states[f"{'charged' if charges else 'not charged'}, {'an' if there else 'no'} output"] += 1
    return dict(sorted(states.items()))


def child(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", f"import json\nfrom deep.kills_of_files import *\n{code}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def check(*, cheap: bool) -> dict[str, object]:
    """Kill. The same kills find the temporary files that releases leave where files need a name."""
    calls = f"""
figures = kills_of_privatize({16 if cheap else TIMES}, 1)
figures["under a key"] = kills_of_resumed({8 if cheap else AGAIN}, 3)
figures["of histogram"] = kills_of_unkeyed_tables({4 if cheap else AGAIN}, 5)
figures["of histogram, under a key"] = kills_of_tables({4 if cheap else AGAIN}, 6)
figures["under a key, command lines"] = kills_of_resumed({2 if cheap else FRESH}, 4, fresh=True)
print(json.dumps(figures))"""
    made = child(calls)
    assert made.returncode == 0, made.stderr[-2000:]
    if not cheap:
        named = child("kills_of_privatize(200, 2, nameless=False)")
        assert "left ['.dpfast-" in named.stderr, "the check would not see what is left"
    return json.loads(made.stdout.splitlines()[-1])
