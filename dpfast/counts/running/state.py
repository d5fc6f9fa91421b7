# SPDX-License-Identifier: Apache-2.0
"""The state of running totals in a file, and beside it the step before, and the counts of a step.

STATE holds what the next step needs, and STATE.before what the last one needed: so the last step
can be tried again. STATE.ahead holds the counts of the step that was begun last. Where rows are
counted, the table of their units lies in the first two, and who is counted in the last. Each is
made whole, flushed, and takes the place of the older one by a rename, under the ledger's lock. Each
file has a code under the release key, which binds it to the totals, their names and the step. All
are as private as the counts.
"""

from __future__ import annotations

import hmac
import os
import struct
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast.errors import FileError, ParameterError
from dpfast.noise.release.secret import encode
from dpfast.paths import absolute, make
from dpfast.system import flush_folder, must_have_owners, open_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dpfast.noise.release.steps import Stepping

MARK = b"dpfast running totals 1\n"
CODE = 32  # bytes of the code at the end
HEADER = struct.Struct("<16sQ32s32s")  # the id of the release key, the step, its chain and its tag
NOTHING = bytes(32)
WORDS = 2  # that a unit is, units.py
OTHERS = ".before", ".ahead", ".new"  # what the names of further files end in


class Kept(NamedTuple):
    """What is kept of a step for the next one."""

    t: int
    chain: bytes
    tag: bytes
    encoder: npt.NDArray[np.int64]
    decoder: npt.NDArray[np.float64]
    table: Any = None  # where rows are counted, uint64 (3, units): units.py


class Frozen(NamedTuple):
    """What is frozen of a step: its counts; and where rows are counted, the units that count."""

    counts: npt.NDArray[np.int64]
    units: Any = None  # uint64 (2, units)


class StateFile:
    """The files of one state. like: the arrays of step 0, of which all later ones have the form."""

    def __init__(self, path: str | os.PathLike[str], seal: Stepping, like: Kept) -> None:
        """Raises: UnsupportedError, DTypeError, ParameterError, FileError."""
        must_have_owners("state=", "replay= takes the counts of earlier steps")
        self.path = Path(os.path.realpath(absolute(path, "state")))
        if self.path.suffix in OTHERS:
            raise ParameterError(f"state must end otherwise than in {self.path.suffix}, which is of another's files")
        if not os.path.isdir(self.path.parent):  # noqa: PTH112  it raises nothing
            raise FileError(f"state must lie in a folder that is there, got {self.path}")
        self.before, self.ahead = Path(f"{self.path}.before"), Path(f"{self.path}.ahead")
        try:
            os.lstat(_new(self.ahead))  # the longest name of these files
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileError(f"state must be a path that files may have, got {self.path}: {error.strerror}") from None
        if not os.access(self.path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise FileError(f"state must lie in a folder where files can be made, got {self.path}")
        self._seal, self._like = seal, like
        self._what = "counts" if like.table is None else "rows"

    def is_there(self) -> bool:
        return any(os.path.lexists(path) for path in (self.path, self.before, self.ahead))

    def claim(self) -> None:
        """Keep step 0 where nothing is: the path is taken from then on. Raises: FileError.

        Callers hold a lock, and another process may have come before.
        """
        if self._step_there() is not None:
            return
        with self._made(self.path, "state", *self._like) as made:
            self.path.hardlink_to(made)  # over nothing

    def read(self) -> list[Kept]:
        """The last step and the one before it, as far as they are there. Raises: FileError."""
        found = [self._state(path) for path in (self.path, self.before)]
        return sorted(filter(None, found), key=lambda kept: -kept.t)  # between two renames there is no STATE

    def written_ahead(self, t: int) -> Frozen | None:
        """What is frozen of a step, if it was written ahead. Raises: FileError."""
        like, table = self._like.encoder, self._like.table
        units = None if table is None else table[:WORDS]
        found = self._read(self.ahead, "ahead", [np.empty(like.shape[-1], np.int64)], units)
        return Frozen(*found[3]) if found is not None and found[0] == t else None

    def write_ahead(self, t: int, frozen: Frozen) -> None:
        """Write down what is frozen of a step, on the disk. Raises: FileError."""
        self._step_there()
        with self._made(self.ahead, "ahead", t, NOTHING, NOTHING, *frozen) as made:
            made.replace(self.ahead)

    def replace(self, kept: Kept) -> None:
        """Keep a step, unless a later one is there: callers hold a lock. Raises: FileError."""
        there = self._step_there()
        if there is not None and there >= kept.t:
            return
        with self._made(self.path, "state", *kept) as made:
            if there is not None:
                self.path.chmod(0o600)  # it may have been copied back
                self.path.replace(self.before)
            made.replace(self.path)

    @contextmanager
    def _made(
        self,
        path: Path,
        kind: str,
        t: int,
        chain: bytes,
        tag: bytes,
        *arrays: npt.NDArray[Any] | None,
    ) -> Iterator[Path]:
        """A whole file with another name."""
        made = _new(path)
        words = [_bytes_of(each) for each in arrays if each is not None]
        header = MARK + HEADER.pack(bytes.fromhex(self._seal.key.id), t, chain, tag)
        try:
            made.unlink(missing_ok=True)  # what a killed process left: writers take turns
            try:
                make(made, header, *words, self._code(kind, header, *words))
                yield made
            finally:
                made.unlink(missing_ok=True)
            flush_folder(path.parent)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}") from None

    def _state(self, path: Path) -> Kept | None:
        found = self._read(path, "state", [self._like.encoder, self._like.decoder], self._like.table)
        return None if found is None else Kept(*found[:3], *found[3])

    def _step_there(self) -> int | None:
        """The step of the state on the disk. Its code was looked at before. Raises: FileError."""
        begins = self._bytes(self.path, len(MARK) + HEADER.size)
        if begins is None:
            return None
        if len(begins) < len(MARK) + HEADER.size:
            raise FileError(f"{self.path} is damaged")
        key, t, _, _ = HEADER.unpack_from(begins, len(MARK))
        self._must_be_ours(self.path, key)
        return int(t)

    def _must_be_ours(self, path: Path, key: bytes) -> None:
        """Raises: FileError."""
        if key.hex() != self._seal.key.id:
            raise FileError(
                f"{path} was written under another key or label: each running totals have a state of their own"
            )

    def _read(
        self, path: Path, kind: str, like: list[npt.NDArray[Any]], table: npt.NDArray[Any] | None
    ) -> tuple[int, bytes, bytes, list[Any]] | None:
        """Step, chain, tag and arrays of a file; None if there is no file.

        like: arrays of the same form. table: an empty one, of as many rows, if one follows, whose
            length is what is left of the file.
        """
        begin = len(MARK) + HEADER.size
        size = begin + sum(each.nbytes for each in like) + CODE
        whole = self._bytes(path, size + 1 if table is None else -1)
        if whole is None:
            return None
        if not whole.startswith(MARK) or len(whole) < begin:
            raise FileError(f"{path} is no file of running totals")
        key, t, chain, tag = HEADER.unpack_from(whole, len(MARK))
        self._must_be_ours(path, key)
        content, left = memoryview(whole)[:-CODE], len(whole) - size
        right = left == 0 if table is None else left >= 0 and left % (table.shape[0] * table.itemsize) == 0
        if not right or not hmac.compare_digest(whole[-CODE:], self._code(kind, content)):
            raise FileError(
                f"{path} is damaged, or of other totals: replay= gives a state again, of all earlier {self._what}, where "
                "there is none"
            )
        arrays: list[Any] = []
        for each in like:
            words = np.frombuffer(content[begin : begin + each.nbytes], each.dtype.newbyteorder("<"))
            arrays.append(words.astype(each.dtype).reshape(each.shape))
            begin += each.nbytes
        if table is not None:
            arrays.append(np.frombuffer(content[begin:], "<u8").astype(np.uint64).reshape(table.shape[0], -1))
        return t, chain, tag, arrays

    def _bytes(self, path: Path, most: int) -> bytes | None:
        """Raises: FileError."""
        try:
            with open(open_private(path, follow=False), "rb") as file:  # noqa: PTH123
                return file.read(most)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}") from None

    def _code(self, kind: str, *pieces: bytes | memoryview) -> bytes:
        found = self._seal.mac()
        found.update(encode(kind))
        for piece in pieces:
            found.update(piece)
        return found.digest(length=CODE)


def _new(path: Path) -> Path:
    """Another name, which a file has until it is whole."""
    return Path(f"{path}.new")


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    words = np.ascontiguousarray(array)
    little = words if sys.byteorder == "little" else words.astype(words.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data
