# SPDX-License-Identifier: Apache-2.0
"""Bytes by name: what the name of a file says of its format, and its bytes as they were packed.

`-` is standard input or output. It has no name, so `--format` gives its format.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

import pyarrow as pa

try:
    from lzma import LZMAError
except ImportError:  # a Python without lzma unpacks none
    LZMAError = EOFError  # type: ignore[assignment, misc]

from dpfast.errors import FileError, ParameterError

FORMATS = {
    ".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".parquet": "Parquet", ".arrow": "Arrow", ".feather": "Arrow",
    ".npy": "npy", ".npz": "npz",
}  # fmt: skip
CODECS = {".gz": "gzip", ".zst": "zstd", ".zip": "zip"}  # a zip file of one member is read, and never written
TEXTS = {"CSV", "TSV", "JSON lines"}  # what may be packed, and read from a pipe
SHEETS = {".xls", ".xlsx", ".ods"}
BLOCK = 1 << 16  # bytes that a packer gets at once
PIPE = Path("-")
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "zip": b"PK\x03\x04"}  # the first bytes of what is packed
# What zipfile raises of what is damaged; RuntimeError also of a password.
ZIP_ERRORS = zipfile.BadZipFile, zlib.error, LZMAError, EOFError, RuntimeError
State: TypeAlias = "tuple[tuple[int, ...], ...] | None"


class Form(NamedTuple):
    """The format of a file, and how it is packed: None is not at all."""

    format: str
    codec: str | None = None

    @property
    def end(self) -> str:
        """What the name of such a file ends in."""
        ends = {name: end for end, name in reversed(FORMATS.items())} | {name: end for end, name in CODECS.items()}
        return ends[self.format] + (ends[self.codec] if self.codec else "")


def form(path: Path, given: str | None = None) -> Form:
    """The form that the name of a file gives, or that `--format` gives for one without a name.

    given: such as "csv" or "csv.gz".
    Raises: ParameterError (no name gives it, or a name and `given` differ).
    """
    known = _form(path.name) if path != PIPE else None
    if known is None and given is not None and (known := _form(f".{given.removeprefix('.')}")) is None:
        raise ParameterError(f"--format must be one of {_ends()}, got {given[:40]!r}")
    if known is None and path == PIPE:
        raise ParameterError(f"--format must be given with -, which has no name: one of {_ends()}")
    if known is None:
        sheet = path.suffix.lower() in SHEETS
        raise ParameterError(
            f"{path}: the extension must be one of {' '.join(FORMATS)}, and the texts' may end in .gz or .zst; "
            + ("a spreadsheet program saves its tables as .csv" if sheet else "else --format says the format")
        )
    return known


def check_format(given: str | None, *paths: Path) -> None:
    """Raises: ParameterError (`--format` is given, and all names say their own)."""
    with suppress(OSError):  # no file can have such a name: it is refused where it is opened
        if given is not None and all(path != PIPE and (path.is_dir() or _form(path.name)) for path in paths):
            raise ParameterError("--format must be left out: the names of the files say their formats")


def _ends() -> str:
    return f"{' '.join(end[1:] for end in FORMATS)} (csv, tsv and jsonl also with .gz or .zst)"


def _form(name: str) -> Form | None:
    ends = [f".{end}" for end in name.lower().split(".")[1:]]
    codec = CODECS.get(ends.pop()) if ends and ends[-1] in CODECS else None
    found = FORMATS.get(ends[-1]) if ends else None
    return Form(found, codec) if found and (codec is None or found in TEXTS) else None


def states(paths: Sequence[Path]) -> State:
    """What changes when files are changed: their places, sizes and times. Nothing of a pipe."""
    if PIPE in paths:
        return None
    found = [path.stat() for path in paths]
    # A writer can set st_mtime_ns back, and not st_ctime_ns.
    return tuple((f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in found)


def size_of(path: Path) -> int | None:
    """Bytes of a file; None of a pipe."""
    return None if path == PIPE else path.stat().st_size


def what_is(path: Path) -> str:
    """How a message names a file."""
    return "standard input" if path == PIPE else str(path)


class Opened:
    """The bytes of a file, unpacked. `position`: how many bytes of the file itself are read."""

    def __init__(self, raw: IO[bytes], codec: str | None) -> None:
        self._raw = raw
        self.read: Callable[[int], bytes] = raw.read
        if codec == "zip":
            self.read = _one_member(raw).read
        elif codec is not None:
            self.read = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec).read

    def position(self) -> int:
        return self._raw.tell() if self._raw.seekable() else 0


def _one_member(raw: IO[bytes]) -> IO[bytes]:
    """Raises: FileError (another number of members, or a pipe, whose end has the list of them)."""
    if not raw.seekable():
        raise FileError("standard input must not be packed by zip, whose list of files is at its end: unpack it first")
    files = zipfile.ZipFile(raw)
    members = [each for each in files.infolist() if not each.is_dir()]
    if len(members) != 1:
        raise FileError(f"a zip file must contain one file, but this one contains {len(members)}: unpack it first")
    return files.open(members[0])


@contextmanager
def opened(path: Path, codec: str | None = None) -> Iterator[Opened]:
    """The bytes of a file, or of standard input, unpacked.

    Raises: FileError (what is packed is damaged or cut short, or is packed and not said to be).
    """
    if path == PIPE and sys.stdin is None:
        raise FileError("cannot read standard input: it is closed")
    with nullcontext(sys.stdin.buffer) if path == PIPE else path.open("rb") as raw, _unpacking(what_is(path), codec):
        yield Opened(raw, codec)


@contextmanager
def _unpacking(what: str, codec: str | None) -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        if codec != "zip":
            raise
        locked = isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError)
        why = "is locked by a password" if locked else "is no zip file, damaged or cut short"
        raise FileError(f"{what} {why}") from None
    except OSError as error:
        if codec is None or error.errno:
            raise
        cut = "Truncated" in str(error)  # pyarrow's word; of other damage it says something else
        why = "is cut short: its end is missing" if cut else f"is not {codec}, or damaged"
        raise FileError(f"{what} {why}") from None


def refuse_packed(path: Path, first: bytes) -> None:
    """Raises: FileError (a packed file, whose name does not say so)."""
    for codec, magic in MAGIC.items():
        if first.startswith(magic):
            end = next(end for end, name in CODECS.items() if name == codec)
            how = f"--format csv{end}" if path == PIPE else f"its name must end in {end}, such as {path.name}{end}"
            raise FileError(f"{what_is(path)} is packed by {codec}: {how}")


class _Blocks(io.RawIOBase):
    """Passes bytes on in blocks of one size, whatever the parts in which they come."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._held = stream, bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._held += data
        while len(self._held) >= BLOCK:
            self._stream.write(bytes(self._held[:BLOCK]))
            del self._held[:BLOCK]
        return len(data)

    def rest(self) -> None:
        self._stream.write(bytes(self._held))


@contextmanager
def packed(file: IO[bytes], codec: str | None) -> Iterator[IO[bytes]]:
    """A stream that packs what is written into `file`: equal bytes always into the same."""
    if codec is None:
        yield file
        return
    if codec == "zip":
        raise ParameterError("OUT must not end in .zip: .gz and .zst are written")
    with os.fdopen(os.dup(file.fileno()), "wb") as raw:  # pyarrow closes what it packs into
        stream: Any = pa.CompressedOutputStream(pa.PythonFile(raw, "w"), codec)
        try:
            blocks = _Blocks(stream)
            yield cast("IO[bytes]", blocks)
            blocks.rest()
        except BaseException:
            with suppress(Exception):
                stream.close()  # or else pyarrow would close it, and say on standard error what it cannot write
            with suppress(OSError):
                raw.close()
            raise
        stream.close()
