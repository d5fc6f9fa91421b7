# SPDX-License-Identifier: Apache-2.0
"""The one module that touches the C extension: status to exception, objects to addresses."""

from __future__ import annotations

import ctypes
import itertools
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from dpfast._dpf import ffi, lib
from dpfast.errors import DpfastError, EntropyError, SelfCheckError, UnusableValuesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

STREAM_VERSION: int = lib.DPF_STREAM_VERSION
TABLE_BITS: int = lib.DPF_TABLE_BITS
BATCH: int = 64 * lib.DPF_BATCH  # bytes of key stream computed at once
TABLE, FLOAT, DOUBLE = lib.DPF_TABLE, lib.DPF_FLOAT, lib.DPF_DOUBLE
EXTENDED, DOUBLE_DOUBLE, INTEGER = lib.DPF_EXTENDED, lib.DPF_DOUBLE_DOUBLE, lib.DPF_INTEGER
UNDECIDED: int = lib.DPF_UNDECIDED
INTERRUPTED: int = lib.DPF_INTERRUPTED
BLOCK: int = lib.DPF_BLOCK
SMALL: int = lib.DPF_SMALL
NOT_FINITE: int = lib.DPF_NOT_FINITE
NO_KEY: int = lib.DPF_NO_KEY
AGAIN: int = lib.DPF_AGAIN
OPEN: int = lib.DPF_OPEN
# Equal dtypes are one entry: NumPy's letter of an int64 depends on the platform, or is longlong's.
KINDS: dict[np.dtype[Any], int] = {
    np.dtype(name): getattr(lib, f"DPF_{name.upper()}")
    for name in (
        "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8", "float64", "float32",
    )
}  # fmt: skip


def _listed(name_of: Callable[[int], Any], first: int) -> dict[int, str]:
    """The names of a list in C, by number."""
    names = itertools.takewhile(lambda name: name != ffi.NULL, map(name_of, itertools.count(first)))
    return {number: ffi.string(name).decode() for number, name in enumerate(names, first)}


LAW_NUMBERS: dict[str, int] = {name: number for number, name in _listed(lib.dpf_law_name, 1).items()}
PORTABLE: int = lib.DPF_PORTABLE
# The instruction sets that the library has code for, by number, and those that this machine runs.
ISA_NAMES: dict[int, str] = _listed(lib.dpf_isa_name, 0)
ISAS: tuple[int, ...] = tuple(filter(lib.dpf_isa_runs, ISA_NAMES))

# cffi makes structs and functions when they are first asked for. Without the interpreter's lock two
# threads that ask at once fail, and a child that was forked meanwhile waits for ever: all are made
# here, for a module is imported by one thread.
FUNCTIONS: tuple[Any, ...] = tuple(getattr(lib, name) for name in dir(lib))
STRUCTS: tuple[Any, ...] = tuple(
    kind for kind in map(ffi.typeof, ffi.list_types()[0]) if kind.kind == "struct" and kind.fields is not None
)

_BITS: int = ffi.sizeof("dpf_bits")
_cast, _entropy = ffi.cast, lib.dpf_entropy
_KEY = ffi.typeof("uint8_t *")
_owned, _release, _wipe_key = ffi.gc, ffi.release, lib.dpf_wipe_key
_ADDRESS = ffi.typeof("uintptr_t")
_new_key = partial(ffi.new, ffi.typeof("uint8_t[32]"))


def address(cdata: object) -> int:
    return int(ffi.cast(_ADDRESS, cdata))


ADD_FRESH: int = address(ffi.addressof(lib, "dpf_add_fresh"))


def nonce(level: int, purpose: int = 1, candidate: int = 0) -> int:
    """The nonce of an address (csrc/stream.md); purpose 1 is noise."""
    return purpose << 56 | candidate << 24 | level


def _ask(memory: object, n: int, what: str) -> None:
    """Fill from the operating system; a signal handler runs between two calls, and may raise."""
    while (status := _entropy(memory, n)) == INTERRUPTED:
        pass
    if status != 0:
        raise EntropyError(f"the operating system gave no random {what}")


class StreamKey:
    """32 bytes of C memory for a release's key: none until it is drawn or taken, none once wiped.

    Make it, then draw, use and wipe it within `try ... finally`: Ctrl-C never leaves a key unwiped.
    Wiping is one call into C, which Ctrl-C cannot come before; the object's end wipes what is left.
    """

    __slots__ = ("_bytes", "memory", "wipe")

    def __init__(self, secret: bytes | memoryview | None = None) -> None:
        """secret: to take at once, where it is no secret."""
        self._bytes = _new_key()
        self.wipe: Callable[[], None] = partial(_release, _owned(self._bytes, _wipe_key))
        if secret is not None:
            self.take(secret)

    def draw(self) -> None:
        """A fresh key. Raises: EntropyError."""
        if _entropy(self._bytes, 32) != 0:
            _ask(self._bytes, 32, "key; nothing was released")
        self.memory = self._bytes

    def take(self, secret: bytes | memoryview | int) -> None:
        """secret: the bytes, or their address."""
        _move(self._bytes, _cast(_KEY, secret) if isinstance(secret, int) else secret, 32)
        self.memory = self._bytes

    def block(self, counter: int, nonce: int) -> bytes:
        """One 64-byte block of this key's stream."""
        out = ffi.new("uint8_t[64]")
        lib.dpf_block(self.memory, counter, nonce, out)
        return bytes(ffi.buffer(out))


SLAB = 1 << 26  # bytes of key stream between two looks for Ctrl-C
NON_TEMPORAL = 1 << 21  # from so many bytes on, past the caches


def key_stream(key: StreamKey, out: object, *, isa: int | None = None) -> None:
    """Fill a writable C-contiguous buffer with plain key stream (csrc/stream.md, purpose 3)."""
    chosen, secret = best_isa() if isa is None else isa, key.memory
    with ffi.from_buffer("uint8_t[]", out) as buffer:
        size = len(buffer)
        for begin in range(0, size, SLAB):
            n = min(SLAB, size - begin)
            lib.dpf_key_stream(chosen, secret, begin // BATCH, n, buffer + begin, int(size >= NON_TEMPORAL))


def wipe(out: object) -> None:
    with ffi.from_buffer("uint8_t[]", out) as buffer:
        lib.dpf_wipe(buffer, len(buffer))


def entropy_into(out: object) -> None:
    """Fill a writable C-contiguous buffer. Raises: EntropyError; the buffer is then zeroed."""
    with ffi.from_buffer("uint8_t[]", out) as buffer:
        _ask(buffer, len(buffer), "bytes")


# small(finish, prepared, values, out) of csrc/small.h, capsule(kind) of csrc/capsule.h
_function = ctypes.pythonapi.PyCFunction_NewEx
_function.restype, _function.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
small = _function(address(lib.dpf_small()), (np.ndarray, np.empty_like, "dtype", "size"), None)

_capsule = _function(address(lib.dpf_capsule()), None, None)

new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize  # new_bytes(None, n): bytes to fill before anybody sees them
new_bytes.restype, new_bytes.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


_ARROW = {
    b"arrow_schema": lib.DPF_ARROW_SCHEMA,
    b"arrow_array": lib.DPF_ARROW_ARRAY,
    b"arrow_array_stream": lib.DPF_ARROW_STREAM,
}


def arrow_capsule(name: bytes, columns: Sequence[tuple[str, str, Any]], *, rows: bool, length: int) -> object:
    """A capsule of one of Arrow's structures, which holds copies.

    columns: Arrow's format, a name without NUL, and C-contiguous cells. rows: whether they are the
    columns of one array of rows; else there is one.
    Raises: MemoryError.
    """
    made = _capsule(_ARROW[name])
    listed = ffi.new("dpf_column[]", max(len(columns), 1))
    kept = []
    for each, (kind, called, cells) in zip(listed, columns, strict=False):
        texts = ffi.new("char[]", kind.encode()), ffi.new("char[]", called.encode())
        kept.append((texts, ffi.from_buffer(cells)))
        each.format, each.name = texts
        each.cells, each.size = kept[-1][1], cells.nbytes
    of = ffi.new("dpf_columns *", {"rows": rows, "n": len(columns), "length": length, "columns": listed})
    if lib.dpf_arrow_fill(_ARROW[name], ffi.cast("void *", _pointer(made, name)), of) != 0:
        raise MemoryError
    return made


# Locks of C alone. Waiting for one releases the interpreter lock, and no exception of a signal
# handler cuts it short. They have no owner: any thread may open one.
_python = ctypes.CDLL("", handle=ctypes.pythonapi._handle)  # noqa: SLF001
new_lock, shut, unlock, free_lock = (
    getattr(_python, f"PyThread_{name}") for name in ("allocate_lock", "acquire_lock", "release_lock", "free_lock")
)
new_lock.restype, unlock.restype, free_lock.restype = ctypes.c_void_p, None, None
shut.argtypes = ctypes.c_void_p, ctypes.c_int  # shut(lock, 1) waits; shut(lock, 0) says whether it was open
unlock.argtypes = free_lock.argtypes = (ctypes.c_void_p,)


class Bits:
    """The state of a bit generator; given back, wiped, with this object."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        best_isa()  # which checks the cipher first
        made = lib.dpf_bits_new()
        if made == ffi.NULL:
            raise MemoryError
        self._bits = ffi.gc(made, lib.dpf_bits_free)

    def key(self) -> None:
        while (status := lib.dpf_bits_key(self._bits)) == INTERRUPTED:
            pass
        if status != 0:
            raise EntropyError("the operating system gave no random key")

    def connect(self, capsule: object) -> None:
        """Put this state and our functions into a capsule of NumPy's BitGenerator: its bitgen_t."""
        target = ffi.cast("dpf_bitgen *", _pointer(capsule, b"BitGenerator"))
        target.next_uint64 = target.next_raw = ffi.addressof(lib, "dpf_next_uint64")
        target.next_uint32 = ffi.addressof(lib, "dpf_next_uint32")
        target.next_double = ffi.addressof(lib, "dpf_next_double")
        target.state = self._bits

    def wipe(self) -> None:
        """Back to all zeros: the next draw takes a key from the operating system."""
        lib.dpf_wipe(self._bits, _BITS)

    def plant(self, secret: bytes, isa: int) -> None:
        """A known stream, for tests of it."""
        self.wipe()
        ffi.memmove(self._bits.words, secret, 32)
        self._bits.keyed, self._bits.isa = 1, isa

    def bytes(self) -> bytes:
        """What lies there, for tests."""
        return bytes(ffi.buffer(self._bits))


_PLANTED = np.dtype(
    [("digits", np.uint64, 4), ("offset", np.float64), ("negative", np.int32), ("sine", np.int32)]
)  # a dpf_planted (csrc/dpf_abi.h)


def _put(digits: np.ndarray[Any, Any], numbers: Sequence[int]) -> None:
    """Numbers of 128 bits, the upper 64 first."""
    digits[:, 0] = np.array([number >> 64 for number in numbers], np.uint64)
    digits[:, 1] = np.array([number % 2**64 for number in numbers], np.uint64)


def _signed(pairs: np.ndarray[Any, Any]) -> list[int]:
    """Signed numbers of 128 bits, the lower 64 first."""
    low, high = pairs.T
    found: list[int] = low.tolist()
    for i in np.flatnonzero(high != low >> 63).tolist():
        found[i] = (int(high[i]) << 64) + found[i] % 2**64
    return found


class Plan:
    """The C record of one law with its parameters, as csrc/plan.c makes it."""

    __slots__ = ("_kept", "_plan", "address", "width")

    def __init__(self, law: str, scale: Fraction, *, one_sided: bool = False) -> None:
        """scale: in steps of the grid; of a Gaussian its square. Raises: DpfastError."""
        above, below = map(_limbs_of, (scale.numerator, scale.denominator))
        ratio = ffi.new("dpf_ratio *", (LAW_NUMBERS[law], one_sided, len(above), len(below), above, below))
        searches = ffi.new("uint64_t[]", lib.DPF_THRESHOLDS), ffi.new("uint16_t[]", lib.DPF_GUIDE)
        self._plan = ffi.new("dpf_plan *")
        if status := lib.dpf_make_plan(ratio, self._plan, *searches):
            why = "sigma_squared brings a probability too near a multiple of 2**-64: give it fewer digits"
            raise DpfastError(why if status == lib.DPF_OPEN else f"there is no plan of the {law} law for {scale}")
        self._kept: tuple[Any, ...] = searches if self._plan.search.steps else ()
        self._name()

    def _name(self) -> None:
        self.address, self.width = address(self._plan), int(self._plan.width)

    def thresholds(self) -> list[int]:
        """Those of a search, in falling order."""
        return list(itertools.takewhile(bool, self._kept[0])) if self._kept else []

    def tabled(self) -> Plan:
        """With its table, where bulk calls begin at one."""
        if self._plan.bulk != TABLE:
            return self
        table = ffi.new("int16_t[]", 2 << TABLE_BITS)
        lib.dpf_make_table(self._plan, table)
        found = object.__new__(Plan)
        found._plan, found._kept = ffi.new("dpf_plan *", self._plan[0]), (*self._kept, table)
        found._plan.table = table
        found._name()
        return found

    def fill(
        self,
        key: StreamKey,
        start: int,
        n: int,
        *,
        constant_work: bool,
        isa: int | None = None,
        offset: Sequence[float] | None = None,
    ) -> list[int | None]:
        """Draws start .. start + n - 1 without an array; None where C leaves it to the exact tier.

        offset: of a real law, where on the grid the noise of each draw begins.
        """
        how, chosen = ffi.new(_RELEASE), best_isa() if isa is None else isa
        how.plan, how.key, how.isa = self._plan, key.memory, chosen
        how.kind, how.limbs, how.constant_work = lib.DPF_NOISE, 2, constant_work
        draws, offsets = np.zeros((n, 2), np.int64), np.array(offset or [0.0] * n, np.float64)
        if lib.dpf_add(how, start, n, ffi.from_buffer(offsets), ffi.from_buffer(draws)) < 0:
            refuse(lib.DPF_OPEN)
        found: list[int | None] = [*_signed(draws)]
        for i in np.flatnonzero(draws[:, 1] < -(2**62)).tolist():
            found[i] = None
        return found

    def tier(
        self,
        tier: int,
        bits: int,
        prefixes: Sequence[int],
        *,
        angles: Sequence[int] | None = None,
        offset: float = 0.0,
        negative: bool = False,
        sine: bool = False,
        isa: int | None = None,
    ) -> list[int | None]:
        """One tier alone, on planted digits: the outcome, or None where it does not decide.

        prefixes: `bits` digits of U each; for the Gaussian all 128 of the radius, with the angles'.
        """
        n = len(prefixes)
        planted, found, decided = np.zeros(n, _PLANTED), np.zeros((n, 2), np.int64), np.zeros(n, np.uint8)
        digits = planted["digits"]
        if bits <= 64:
            digits[:, 0] = np.array(prefixes, np.uint64)
        else:
            _put(digits[:, :2], [prefix << (128 - bits) for prefix in prefixes])
        if angles is not None:
            _put(digits[:, 2:], angles)
        planted["offset"], planted["negative"], planted["sine"] = offset, negative, sine
        chosen = best_isa() if isa is None else isa
        into = ffi.from_buffer("dpf_u128[]", found), ffi.from_buffer("uint8_t[]", decided)
        lib.dpf_tier(chosen, self._plan, tier, bits, n, ffi.from_buffer("dpf_planted[]", planted), *into)
        return [value if sure else None for value, sure in zip(_signed(found), decided.tolist(), strict=True)]


class Release:
    """What one release does to each of its values: a dpf_release (csrc/dpf_abi.h)."""

    __slots__ = ("_how", "_itemsize", "_key")

    def __init__(self, how: bytes, dtype: np.dtype[Any], key: StreamKey | None = None) -> None:
        """how: of `release_bytes`, for plain values of this dtype. key: for `add`, drawn by now.

        Threads share it, so nothing writes it from now on.
        """
        self._how = _new_release(_RELEASE)
        _move(self._how, how, len(how))
        self._itemsize, self._key = dtype.itemsize, key  # which the record points at
        if key is not None:
            self._how.key = key.memory

    def add(self, start: int, n: int, values: np.ndarray, out: np.ndarray, at: int) -> None:
        """Values at .. at + n - 1 of plain arrays. Raises: as `refuse`; the results are zeros."""
        offset = at * self._itemsize
        read = _bytes(values) + offset
        done = lib.dpf_add(self._how, start, n, read, read if out is values else _bytes(out) + offset)
        if done < 0:
            refuse(done)


class Pair:
    """Two releases, of few values and of many, for dpf_add_fresh from code that numba compiles."""

    __slots__ = ("_kept", "address")

    def __init__(self, few: tuple[Release, Plan], many: tuple[Release, Plan]) -> None:
        """Each with its plan."""
        addresses = ffi.new("dpf_release *[2]", [release._how for release, _ in (few, many)])  # noqa: SLF001  of this module
        self._kept, self.address = (few, many, addresses), address(addresses)


def refuse(status: int) -> NoReturn:
    """Raise what a status of dpf_add means. Raises: UnusableValuesError, DpfastError."""
    if status == lib.DPF_NOT_FINITE:
        raise UnusableValuesError(
            "values must be finite; missing=<public number>, with clamp=(a, b), replaces NaN and infinities"
        )
    raise DpfastError("all digits of a draw leave it undecided, so nothing is released")


def release_bytes(plan: int, dtype: np.dtype[Any], limits: tuple[int, int] = (0, 0), **fields: Any) -> bytes:
    """A dpf_release, for no key yet. plan: an address; limits: of an integer; fields: as in C."""
    lower, upper = map(_limbs, limits)
    how = dict(
        fields, plan=_cast(_PLAN, plan), isa=best_isa(), kind=KINDS[dtype], lower=lower, upper=upper
    )  # fmt: skip
    return bytes(ffi.buffer(ffi.new(_RELEASE, how)))


_RELEASE, _PLAN = ffi.typeof("dpf_release *"), ffi.typeof("dpf_plan *")
_move, _new_release = ffi.memmove, ffi.new_allocator(should_clear_after_alloc=False)
_new_room = ffi.new_allocator(should_clear_after_alloc=False)  # 128 KiB that C rarely writes
_bytes = partial(ffi.from_buffer, ffi.typeof("uint8_t[]"))


def _limbs_of(number: int) -> Any:
    """A whole number above 0, in C."""
    return ffi.from_buffer("uint64_t[]", number.to_bytes(-(-number.bit_length() // 64) * 8, "little"))


def _limbs(number: int) -> tuple[int, int]:
    return number % 2**64, (number >> 64) % 2**64


def all_finite(values: np.ndarray) -> bool:
    """Whether plain doubles or floats are all finite."""
    with _bytes(values) as x:
        return bool(lib.dpf_all_finite(KINDS[values.dtype], values.size, x))


class Choice(NamedTuple):
    """How bins and rows of units are drawn by their tags: a dpf_choice (csrc/dpf_abi.h)."""

    bits: int
    base: int
    units: np.ndarray  # words, or none: a unit's is base + unit
    bins: np.ndarray
    key: tuple[int, int]
    isa: int | None = None

    def in_c(self) -> Any:
        """It, and the arrays that it points to."""
        units, bins = _words(self.units), _words(self.bins)
        isa = best_isa() if self.isa is None else self.isa
        how = ffi.new(
            "dpf_choice *", (isa, self.bits, self.key, self.base, units if self.units.size else ffi.NULL, bins)
        )
        return how, units, bins


def bounded_counts(rows: np.ndarray, how: Choice, most: int, cap: int) -> np.ndarray:
    """What each bin has if a unit keeps `most` bins, and `cap` rows in each. rows: sorted."""
    counts, (choice, *_kept) = np.zeros(how.bins.size, np.int64), how.in_c()
    heap = ffi.new("uint64_t[]", most)
    begin, many = (ffi.new("int64_t[]", most + FEW + 1) for _ in range(2))
    lib.dpf_bounded_counts(choice, _words(rows), rows.size, most, cap, heap, begin, many, _integers(counts))
    return counts


def chosen_rows(rows: np.ndarray, values: np.ndarray, how: Choice, most: int, *, shift: int, whole: bool) -> int:
    """How many rows are kept. They come first in sorted rows, and in their values, if any."""
    choice, *_kept = how.in_c()
    heap, places = ffi.new("uint64_t[]", most), ffi.new("int64_t[]", most)
    amounts = _integers(values) if values.size else ffi.NULL
    return int(lib.dpf_chosen_rows(choice, _words(rows), amounts, rows.size, shift, whole, most, heap, places))


def totals(
    rows: np.ndarray, values: np.ndarray, bits: int, size: int, ends: tuple[int, int], *, each: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What units have in each bin, as sums top 2^64 + low. values: none, if all are 1."""
    tops, lows = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    amounts = _integers(values) if values.size else ffi.NULL
    lib.dpf_totals(_words(rows), amounts, rows.size, bits, *ends, each, _integers(tops), _words(lows))
    return tops, lows


def hash_texts(key: tuple[int, int], texts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The words of texts in tags. texts: all their bytes; ends: where each ends."""
    out = np.empty(ends.size, np.uint64)
    lib.dpf_hash_texts(key, _bytes(texts), _integers(ends), ends.size, _words(out))
    return out


def look_up(rows: np.ndarray, base: int, table: np.ndarray) -> np.ndarray:
    """The entry of each row in a table that begins at base; its last entry for all others."""
    places = np.empty(rows.size, np.int64)
    lib.dpf_look_up(_words(rows), rows.size, base, _integers(table), table.size - 1, _integers(places))
    return places


def pack(units: np.ndarray, places: np.ndarray, base: int, last: int, bits: int, out: np.ndarray) -> int:
    """Into out: rows as words, (unit - base) << bits | place, without places below 0. How many.

    It is -1 if a unit is not between base and base + last.
    """
    return int(lib.dpf_pack(_words(units), _integers(places), units.size, base, last, bits, _words(out)))


def sort(words: np.ndarray, bits: int) -> None:
    """Sort words below 2^bits in place."""
    spare = np.empty(min(words.size, SPARE), np.uint64)
    lib.dpf_sort(_words(words), words.size, bits, _words(spare))


def search(wanted: np.ndarray, words: np.ndarray, shift: int, begins: np.ndarray) -> np.ndarray:
    """Where wanted words are among rising ones, or -1. begins: where buckets of 2^shift begin."""
    places = np.empty(wanted.size, np.int64)
    lib.dpf_search(
        _words(wanted), wanted.size, _words(words), shift, _integers(begins), begins.size - 1, _integers(places)
    )
    return places


FEW: int = lib.DPF_FEW
SPARE: int = lib.DPF_SPARE
_words, _integers = (partial(ffi.from_buffer, ffi.typeof(f"{kind}[]")) for kind in ("uint64_t", "int64_t"))


@contextmanager
def own_mode() -> Iterator[None]:
    """The proofs' floating-point mode, here and in threads from here, NumPy's conversions too."""
    before = lib.dpf_enter()
    try:
        yield
    finally:
        lib.dpf_leave(before)


def entropy(n: int) -> bytes:
    out = ffi.new("uint8_t[]", n)
    _ask(out, n, "bytes")
    return bytes(ffi.buffer(out, n))


def blocks(isa: int, secret: bytes, counters: Sequence[int], nonce: int) -> list[bytes]:
    """DPF_BATCH blocks at unrelated counters, by one instruction set."""
    words = ffi.new("uint32_t[]", 16 * lib.DPF_BATCH)
    lib.dpf_blocks(isa, secret, ffi.new("uint64_t[]", list(counters)), nonce, words)
    lanes = range(lib.DPF_BATCH)
    return [
        b"".join(words[lane // 16 * 256 + word * 16 + lane % 16].to_bytes(4, "little") for word in range(16))
        for lane in lanes
    ]


@cache
def checked(isa: int) -> int:
    """`isa`, once it has reproduced known blocks, draws and results of all laws and tiers here."""
    failed = lib.dpf_self_check(isa, lib.DPF_LAWS, known_answers(), _new_room("uint64_t[]", lib.DPF_CHECK))
    if failed != ffi.NULL:
        raise SelfCheckError(
            f"this build of dpfast, run with {ISA_NAMES[isa]} instructions, does not reproduce its known answers "
            f"({ffi.string(failed).decode()}), so it draws nothing; build it again without CFLAGS of your own, and if "
            "that fails, too, report it"
        )
    return isa


def known_answers() -> Any:
    """The answers that a build must know, a dpf_known each; one without a name ends them."""
    return lib.dpf_known_answers()


@cache
def best_isa() -> int:
    return checked(lib.dpf_best_isa())


def isa_name() -> str:
    return ISA_NAMES[best_isa()]
