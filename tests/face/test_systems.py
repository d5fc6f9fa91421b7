# SPDX-License-Identifier: Apache-2.0
"""Other systems, as far as they can be shown on Linux: Windows by a shim, macOS by a stand-in.

Nothing here ran on either.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from fresh import python
from places import TESTS

import dpfast
from dpfast import _native, system
from dpfast.paths import atomic_write

# ---------------------------------------------------------------------------- Windows

# Runs each code in a folder of its own; what became of it goes to a file.
EACH = """
import contextlib, io, json, os, sys, tempfile
sys.path.insert(0, sys.argv[1])
import as_windows
from pathlib import Path
import numpy as np
if {letters}:
    as_windows.letters()
{first}
codes, found = json.loads(Path(sys.argv[2]).read_text()), dict()
for name, code in codes.items():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        here = dict(globals())
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                exec(code, here)
            found[name] = repr(here.get("result"))
        except Exception as error:
            number = getattr(error, "winerror", None) or getattr(error, "errno", None)
            found[name] = f"{{type(error).__name__}} {{number or error}}"
        found[name] += "".join(f"; made {{each}}" for each in sorted(os.listdir(folder)) if each.startswith("made"))
        os.chdir("/")
Path(sys.argv[3]).write_text(json.dumps(found))
"""


def on_windows(folder: Path, codes: dict[str, str], first: str, letters: bool = False) -> dict[str, str]:
    """What became of each code under the shim: the repr of `result`, or an error."""
    (folder / "codes").write_text(json.dumps(codes))
    python(EACH.format(first=first, letters=letters), TESTS, folder / "codes", folder / "found")
    found: dict[str, str] = json.loads((folder / "found").read_text())
    return found


SPOILT = """
from types import ModuleType
from dpfast import system

def spoilt(old, new=""):
    text = Path(system.__file__).read_text()
    assert text.count(old) == 1, old
    made = ModuleType("spoilt")
    exec(text.replace(old, new), made.__dict__)
    return made

KEY = bytes(range(32))  # with 0A and 1A

def kept(system):
    handle = system.open_private("key", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(handle, KEY)
    system.to_disk(handle)
    os.close(handle)
    handle = system.open_private("key")
    read = os.read(handle, 33)
    os.close(handle)
    return read

def replaced(system):
    Path("out").write_text("old")
    with system.temporary(Path()) as file:
        file.write(b"new")
        system.finish(file, Path())
        system.replace(file, Path("out"))
    return Path("out").read_text(), os.listdir()

def linked(system):
    with system.temporary(Path()) as file:
        file.write(b"new")
        system.finish(file, Path())
        system.link(file, Path("out"))
    system.flush_file(Path("out"))
    system.flush_folder(Path())
    return Path("out").read_text(), os.listdir()
"""
OPENED = "Path('a').write_text('x'); file = open('a'); "
TEXT = "handle = os.open('a', os.O_CREAT | os.O_RDWR{}); os.write(handle, b'a\\nb\\r\\nc\\x1ad'); "
READ = "os.close(handle); handle = os.open('a', os.O_RDONLY{}); result = os.read(handle, 32)"
IN_USE, DENIED = "PermissionError 32", f"PermissionError {errno.EACCES}"
SHIM = {
    # As measured by mingw and wine, in C.
    "rename of an open file": (OPENED + "os.rename('a', 'b')", IN_USE),
    "rename over a file": (OPENED + "os.rename('a', 'a')", "FileExistsError 183"),
    "replace by an open file": (OPENED + "Path('a').replace('b')", IN_USE),
    "replace of an open file": (OPENED + "Path('b').touch(); os.replace('b', 'a')", IN_USE),
    "unlink of an open file": (OPENED + "Path('a').unlink()", IN_USE),
    "unlink of its other name": (OPENED + "os.link('a', 'b'); os.remove('b')", IN_USE),
    "link to an open file": (OPENED + "Path('b').hardlink_to('a'); result = sorted(os.listdir())", "['a', 'b']"),
    "unlink of a closed file": (OPENED + "file.close(); os.unlink('a')", "None"),
    "a folder is not opened": ("os.open('.', os.O_RDONLY)", DENIED),
    "flush of a file for reading": (OPENED + "os.fsync(file.fileno())", DENIED),
    "flush of a file for writing": ("with open('a', 'w') as file: os.fsync(file.fileno())", "None"),
    "text is written": (TEXT.format("") + "result = os.stat('a').st_size", "10"),
    "text is read to 1A": (TEXT.format("") + READ.format(""), repr(b"a\nb\r\nc")),
    "bytes are as they are": (TEXT.format(" | os.O_BINARY") + READ.format(" | os.O_BINARY"), repr(b"a\nb\r\nc\x1ad")),
    "mode": ("Path('a').touch(0o600); result = oct(os.stat('a').st_mode), os.stat('a').st_uid", "('0o100666', 0)"),
    "mode of a folder": ("result = oct(os.stat('.').st_mode)", "'0o40777'"),
    "long": ("result = np.dtype(np.long).itemsize, np.dtype(np.ulong).itemsize", "(4, 4)"),
    "spawn": ("import multiprocessing; result = multiprocessing.get_start_method(), multiprocessing.get_all_start_methods()", "('spawn', ['spawn'])"),
    "no forks": ("os.fork()", "AttributeError module 'os' has no attribute 'fork'"),
    "no flock": ("import fcntl", "ModuleNotFoundError import of fcntl halted; None in sys.modules"),
    # What dpfast makes of it, and planted defects.
    "a key": ("result = kept(system) == KEY", "True"),
    "a key opened as text": ("result = kept(spoilt('getattr(os, \"O_BINARY\", 0)', '0')) == KEY", "False"),
    "a file replaced": ("result = replaced(system)", "('new', ['out'])"),
    "a file replaced while open": ("replaced(spoilt('        file.close()\\n'))", IN_USE),
    "a file linked": ("result = linked(system)", "('new', ['out'])"),
    "a file flushed for reading": ("linked(spoilt('_flush(path, os.O_RDWR)', '_flush(path, os.O_RDONLY)'))", DENIED),
    "a folder flushed": ("linked(spoilt('if hasattr(os, \"O_DIRECTORY\")', 'if True'))", DENIED),
}  # fmt: skip


def test_the_shim_is_as_measured_and_planted_defects_are_found(tmp_path) -> None:
    found = on_windows(tmp_path, {name: code for name, (code, _) in SHIM.items()}, SPOILT)
    assert found == {name: wanted for name, (_, wanted) in SHIM.items()}


FIRST = """
import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpfast.app.cli import main
from dpfast.paths import atomic_write

def of(kind, law, **options):
    out = law.release(np.arange(4).astype(getattr(np, kind)), **options)
    return out.dtype.kind + str(out.dtype.itemsize), out.shape

def ends(line):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(line.split())
    return code, said.getvalue().partition(" on this system")[0] if code else ""

def write(found):
    with atomic_write(Path("out"), "{}", found=found) as file:
        file.write(b"new\\n\\x1a")

def rows():
    Path("in.csv").write_text("city,visits\\nLima,120\\nOslo,80\\n")
    Path("rows.csv").write_text("person,city,hours\\n1,Lima,3\\n2,Oslo,4\\n3,Oslo,5\\n")

ROWS = ["Oslo", "Lima", "Oslo"], [1, 2, 3]
COUNTED = dict(domain=["Lima", "Oslo"], max_contributions=1)
"""
NOISE = "--epsilon 1 --sensitivity 1"
PRIVATIZE = f"rows(); result = ends('privatize in.csv {{}} --column visits {NOISE}{{}}')"
HISTOGRAM = (
    "rows(); result = ends('histogram rows.csv out.csv --by city --unit person --max-contributions 1 --epsilon 1 {}')"
)
STOPPED = """
import signal, time
from types import SimpleNamespace
from dpfast.app import cli
signal.signal(signal.SIGINT, cli._stopped)
cli._stopped(signal.SIGINT, SimpleNamespace(f_code=SimpleNamespace(co_filename="<frozen importlib._bootstrap>")))
result = "at once"
try:
    for _ in range(1000):
        time.sleep(0.01)
except KeyboardInterrupt:
    result = "a moment later"
"""
BY_SIZE = "l" not in map(str, _native.KINDS)  # by NumPy's letters no integer is released where long has 32 bits
DONE, WRONG = "(0, '')", "UnsupportedError {} must be left out on this system, whose files have no owners"
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DOORS = {
    **{kind: (f"result = of('{kind}', DiscreteLaplace(1, 1))", "('i8', (4,))") for kind in INTEGERS},
    **{f"{kind}, into": (f"result = of('{kind}', DiscreteGaussian(2), out=np.zeros(4, np.int64))", "('i8', (4,))")
       for kind in ("int32", "int64", "uint64")},
    "long": ("result = of('long', DiscreteLaplace(1, 1))", "('i8', (4,))"),
    **{kind: (f"result = of('{kind}', Laplace(1, 1))", f"('f{int(kind[-2:]) // 8}', (4,))") for kind in ("float32", "float64")},
    "a real Gaussian": ("result = of('float64', Gaussian(1))", "('f8', (4,))"),
    "threads": ("result = DiscreteLaplace(1, 1).release(np.zeros(10**6, np.int64), threads=2).shape", "(1000000,)"),
    "constant time": ("result = of('int64', DiscreteLaplace(1, 1), constant_time=True)", "('i8', (4,))"),
    "under a key": ("result = of('int64', DiscreteLaplace(1, 1), key=dpfast.Key.generate().derive('q'))", "('i8', (4,))"),
    "ChaCha20": ("result = np.random.Generator(dpfast.ChaCha20()).integers(9, size=3).shape", "(3,)"),
    "bytes": ("result = len(dpfast.random_bytes(32))", "32"),
    "selection": ("result = [law(1, 1).select([0, 900, 0]) for law in (dpfast.Exponential, dpfast.PermuteAndFlip, dpfast.NoisyMax)]", "[1, 1, 1]"),
    "records": ("result = dpfast.bounded_histogram(*ROWS, **COUNTED).counts.sum().item()", "3"),
    "fixed point": ("result = dpfast.fixed_point_sum([0.5, 1.5], lower=0, upper=2, granularity=0.5, adjacency='add-remove') is not None", "True"),
    "a tree": ("result = dpfast.tree(range(8), branching=2, epsilon=1, sensitivity=dpfast.Sensitivity(1, 1)).quantile(1 / 2) is not None", "True"),
    "a file": ("write('refuse'); result = Path('out').read_bytes(), sorted(os.listdir())", "(b'new\\n\\x1a', ['out', 'out.json'])"),
    "a file again": ("write('refuse'); write('replace'); result = sorted(os.listdir())", "['out', 'out.json']"),
    "a file that is there": ("write('refuse'); write('keep'); write('compare'); result = sorted(os.listdir())", "['out', 'out.json']"),
    "a file refused": ("write('refuse')\ntry: write('refuse')\nexcept dpfast.errors.FileError: result = sorted(os.listdir())", "['out', 'out.json']"),
    "a file that fails": ("try:\n with atomic_write(Path('out'), '{}', found='refuse'): raise ValueError\nexcept ValueError: result = os.listdir()", "[]"),
    "a file that came meanwhile": (
        "try:\n with atomic_write(Path('out'), '{}', found='refuse'): Path('out').touch()\nexcept dpfast.errors.FileError: result = os.listdir()", "['out']"),
    "CSV": (PRIVATIZE.format("out.csv", " --report page.html"), DONE),
    "Parquet": (PRIVATIZE.format("out.parquet", ""), DONE),
    "Arrow": (PRIVATIZE.format("out.arrow", ""), DONE),
    "again": (PRIVATIZE.format("out.csv", "") + f"; result = ends('privatize in.csv out.csv --column visits {NOISE} --force')", DONE),
    "to standard output": (PRIVATIZE.format("out.csv", "") + "; result = sorted(os.listdir())", "['in.csv', 'out.csv', 'out.csv.json', 'rows.csv']"),
    "histogram": (HISTOGRAM.format("--domain Lima,Oslo --report page.html"), DONE),
    "histogram of sums": (HISTOGRAM.format("--domain Lima,Oslo --sum hours --clamp 0 9"), DONE),
    "info": ("result = ends('info')", DONE),
    "explain": ("result = ends('explain --mechanism discrete-laplace --epsilon 1 --sensitivity 1')", DONE),
    "the self-test's processes": (
        "from dpfast.evidence.selftest import processes as it; result = len(set(it.pieces(it.in_child(it.family))))", "14"),
    "Ctrl-C in an import": (STOPPED, "'a moment later'"),
    # Refused, and nothing made.
    "KeyFile": ("dpfast.KeyFile('made.key')", WRONG.format("KeyFile")),
    "KeyFile.create": ("dpfast.KeyFile.create('made.key')", WRONG.format("KeyFile")),
    "Ledger": ("dpfast.Ledger('made.db')", WRONG.format("Ledger")),
    "a new Ledger": ("dpfast.Ledger('made.db', 1, create=True)", WRONG.format("Ledger")),
    "Ledger.upgrade": ("dpfast.Ledger.upgrade('made.db')", WRONG.format("Ledger")),
    "--ledger": (PRIVATIZE.format("made.csv", " --ledger made.db"), "(2, 'Error: --ledger must be left out')"),
    "--key-file": (PRIVATIZE.format("made.csv", " --key-file made.key"), "(2, 'Error: --key-file must be left out')"),
    "histogram --ledger": (HISTOGRAM.format("--domain Lima,Oslo --ledger made.db"), "(2, 'Error: --ledger must be left out')"),
    "dpfast ledger": ("result = ends('ledger create made.db --epsilon 1')", "(2, 'Error: Ledger must be left out')"),
    "dpfast key": ("result = ends('key create made.key')", "(2, 'Error: KeyFile must be left out')"),
}  # fmt: skip


@pytest.mark.slow
def test_what_works_on_windows(tmp_path) -> None:
    """What works there works under the shim, and the rest is refused in words: nothing is made.

    There int64 is "q" as well; that it is "l" all other tests see.
    """
    found = on_windows(tmp_path, {name: code for name, (code, _) in DOORS.items()}, FIRST, letters=BY_SIZE)
    wrong = {name: found[name] for name, (_, wanted) in DOORS.items() if not found[name].startswith(wanted)}
    assert wrong == {}
    assert [name for name, became in found.items() if "; made" in became] == []


# ---------------------------------------------------------------------------- macOS


class Drive:
    """Stands in for macOS: fcntl with F_FULLFSYNC, and what is flushed by it and by fsync."""

    def __init__(self, patch: pytest.MonkeyPatch, refuses: int | None = None) -> None:
        self.calls: list[str] = []
        self.refuses = refuses
        patch.setattr(system, "fcntl", SimpleNamespace(**{**vars(fcntl), "F_FULLFSYNC": 51, "fcntl": self.flush}))
        patch.setattr(os, "fsync", lambda _: self.calls.append("fsync"))
        for name in ("O_TMPFILE", "getxattr", "sched_getaffinity"):
            patch.delattr(os, name, raising=False)

    def flush(self, handle: int, command: int) -> None:
        assert command == 51
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.calls.append("folder" if Path(f"/proc/self/fd/{handle}").is_dir() else "file")


def written(path: Path) -> None:
    with atomic_write(path, found="refuse") as file:
        file.write(b"x")


def test_macos_flushes_the_drive_itself(tmp_path, monkeypatch) -> None:
    """Each file, then its folder; a key, a ledger and a head; and they work without Linux's own."""
    drive = Drive(monkeypatch)
    written(tmp_path / "out")
    assert drive.calls == ["file", "folder"]
    drive.calls.clear()
    key = dpfast.KeyFile.create(tmp_path / "a.key")
    assert drive.calls == ["file", "folder"]
    drive.calls.clear()
    ledger = dpfast.Ledger(tmp_path / "a.db", 1, create=True)
    assert drive.calls == ["file", "folder"]
    law = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
    noisy = ledger.release(law, [1, 2], key=key.derive("q"))
    assert (ledger.release(law, [1, 2], key=key.derive("q"), resume=True) == noisy).all()
    assert drive.calls == ["file", "folder", "file"]  # the head
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "a.db.lock", "a.key", "a.key.head", "out"]


@pytest.mark.parametrize("number", system.UNFLUSHED)
def test_a_file_system_without_a_full_flush(tmp_path, monkeypatch, number) -> None:
    drive = Drive(monkeypatch, number)
    written(tmp_path / "out")
    assert drive.calls == ["fsync", "fsync"]


def test_a_flush_that_fails_fails(tmp_path, monkeypatch) -> None:
    """A disk's error is no sign of a file system without one."""
    drive = Drive(monkeypatch, errno.EIO)
    with pytest.raises(dpfast.errors.FileError, match="cannot write .*out: Input/output error"):
        written(tmp_path / "out")
    assert (drive.calls, [*tmp_path.iterdir()]) == ([], [])
