# SPDX-License-Identifier: Apache-2.0
"""What C leaves of a key on the stack and in vector registers: nothing, whatever runs it."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiers
from fresh import python
from places import ROOT, TESTS
from tiers import BLIND, ISAS

from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, OneSidedGeometric, _native
from dpfast.noise.mechanisms.mechanism import Mechanism

ffi, lib = _native.ffi, _native.lib

# Read below the caller's own frame. `left` counts the words, at any byte, in the caller's dead
# stack; `after` paints the stack, clears the vector registers, calls a function of up to twelve
# integers and addresses, and counts there and, a thousand each, in these registers (of x86). mask:
# what the words come under, so that no copy of them puts the key itself into registers.
PROBE = r"""
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__)
    #define STACK_POINTER(at) __asm__ volatile("mov %%rsp, %0" : "=r"(at))
    #else
    #define STACK_POINTER(at) __asm__ volatile("mov %0, sp" : "=r"(at))
    #endif
    enum { DEPTH = 1 << 18 };

    /* How many of the words lie there. It has no frame of its own, which would hide what lies below its
       caller's. Where 24 bytes are three times the same eight, words begin in the middle ones that began
       in the first: nearly all of a painted stack. */
    __attribute__((always_inline)) static inline int64_t look(const volatile char *begin, const volatile char *end,
                                                              const uint32_t *words, uint32_t mask, int64_t n) {
        int64_t found = 0;
        uint64_t seen = 0;
        for (const volatile char *at = begin; at < end - 3; at++) {
            while (at - begin >= 8 && end - at >= 16 && *(const volatile uint64_t *)(at - 8) == *(const volatile uint64_t *)at
                   && *(const volatile uint64_t *)at == *(const volatile uint64_t *)(at + 8))
                at += 8;
            const uint32_t here = *(const volatile uint32_t *)at ^ mask;
            for (int64_t w = 0; w < n; w++)
                if (here == words[w] && !(seen >> w & 1)) {
                    seen |= (uint64_t)1 << w;
                    found++;
                }
        }
        return found;
    }

    int64_t left(const uint32_t *words, uint32_t mask, int64_t n) {
        const volatile char *end;
        STACK_POINTER(end);
        return look(end - DEPTH, end, words, mask, n);
    }

    /* The vector registers, as a call left them. */
    static char registers[32 * 64] __attribute__((aligned(64)));
    #if defined(__x86_64__)
    #define KEEP(move, name, k, size) #move " %%" #name #k ", " #k " * " #size "(%0)\n"
    #define EIGHT(move, name, a, b, c, d, e, f, g, h, size)                                 \
        KEEP(move, name, a, size) KEEP(move, name, b, size) KEEP(move, name, c, size) KEEP(move, name, d, size) \
        KEEP(move, name, e, size) KEEP(move, name, f, size) KEEP(move, name, g, size) KEEP(move, name, h, size)
    #define SIXTEEN(move, name, size)                                                       \
        EIGHT(move, name, 0, 1, 2, 3, 4, 5, 6, 7, size) EIGHT(move, name, 8, 9, 10, 11, 12, 13, 14, 15, size)
    #define REGISTERS                                                                       \
        if (machine == 2)                                                                   \
            __asm__ volatile(SIXTEEN(vmovdqu64, zmm, 64)                                     \
                             EIGHT(vmovdqu64, zmm, 16, 17, 18, 19, 20, 21, 22, 23, 64)       \
                             EIGHT(vmovdqu64, zmm, 24, 25, 26, 27, 28, 29, 30, 31, 64)       \
                             : : "r"(registers) : "memory");                                \
        else if (machine == 1)                                                              \
            __asm__ volatile(SIXTEEN(vmovdqu, ymm, 32) : : "r"(registers) : "memory");      \
        else                                                                                \
            __asm__ volatile(SIXTEEN(movdqu, xmm, 16) : : "r"(registers) : "memory");
    #define CLEAR                                                                           \
        __asm__ volatile(".irp k,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"                    \
                         "pxor %xmm\\k, %xmm\\k\n.endr");                                  \
        if (machine >= 1)                                                                   \
            __asm__ volatile("vzeroall");                                                   \
        if (machine == 2)                                                                   \
            __asm__ volatile(".irp k,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"     \
                             "vpxord %zmm\\k, %zmm\\k, %zmm\\k\n.endr");
    static int kind_of_machine(void) {
        return __builtin_cpu_supports("avx512f") ? 2 : __builtin_cpu_supports("avx2") ? 1 : 0;
    }
    #else
    #define REGISTERS
    #define CLEAR                                                                           \
        __asm__ volatile(".irp k,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" \
                         "movi v\\k\\().2d, #0\n.endr");
    static int kind_of_machine(void) {
        return 0;
    }
    #endif

    /* A copy of freed memory has left in registers what this held: the key of an earlier call. */
    __attribute__((noinline)) static void paint(int machine) {
        volatile uint64_t below[DEPTH / 8];
        for (int64_t i = 0; i < DEPTH / 8; i++)
            below[i] = 0x5a5a5a5a5a5a5a5a;
        CLEAR
    }

    typedef int64_t function(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                             int64_t, int64_t);
    int64_t after(function *call, const int64_t *a, const uint32_t *words, uint32_t mask, int64_t n) {
        const int machine = kind_of_machine();
        const volatile char *end;
        int64_t found;
        paint(machine);
        call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
        REGISTERS
        STACK_POINTER(end);
        found = look(end - DEPTH, end, words, mask, n);
        return found + 1000 * look(registers, registers + sizeof registers, words, mask, n);
    }

    /* What a cipher does whose compiler runs out of registers. */
    void spills(const uint8_t *key, int64_t deep) {
        volatile char room[deep + 64];
        for (int i = 0; i < 32; i++)
            room[i] = (char)key[i];
    }
"""


def compiled(folder: Path, name: str, source: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    library = folder / f"{name}.so"
    command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, folder / f"{name}.c", "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not shutil.which(os.environ.get("CC", "cc").split()[0]):
        pytest.skip("no C compiler")
    found = ctypes.CDLL(str(compiled(tmp_path_factory.mktemp("probe"), "probe", PROBE)))
    found.after.restype = found.left.restype = ctypes.c_int64
    return found


# --------------------------------------------- the functions, with keys that they are given or draw

KEY = bytes((73 * i * i + 41 * i + 156) % 251 for i in range(32))
MECHANISMS: dict[str, Mechanism] = {
    "table": DiscreteLaplace(1, 100),
    "double32": DiscreteLaplace(1, 10**6),
    "double64": DiscreteLaplace(1, 10**12),
    "double-double": DiscreteLaplace(1, 2**54),
    "integers": DiscreteLaplace(1, 2**60),
    "one-sided": OneSidedGeometric(1, 1000),
    "thresholds": DiscreteGaussian(sigma=3),
    "rejecting": DiscreteGaussian(sigma=1000),
    "rejecting wide": DiscreteGaussian(sigma=10**8),
}
REALS: dict[str, Mechanism] = {
    "laplace": Laplace(1, 1),
    "laplace wide": Laplace(1, 1, granularity=2.0**-50),
    "gaussian": Gaussian(sigma=1),
    "gaussian wide": Gaussian(sigma=1, granularity=2.0**-50),
}
Call = tuple[list[int], bytes | int]  # arguments; the key's words, or the address where they lie afterwards


def plant(address: int, key: bytes) -> None:
    """Copy a key byte by byte: memcpy leaves it in vector registers, and C may store these."""
    at = ffi.cast("uint8_t *", address)
    for i, byte in enumerate(key):
        at[i] = byte


class Room:
    """Memory for one call, kept for as long as this."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def __call__(self, size: int, holds: bytes = b"") -> int:
        made = ffi.new("uint8_t[]", max(size, 8) + 64)
        self.kept.append(made)
        at = -(-_native.address(made) // 64) * 64
        plant(at, holds)
        return at


def plans(mechanism: Mechanism) -> Iterator[tuple[int, int, int, int]]:
    """constant-work, plan, start and n: small and bulk, whole batches and odd ends."""
    for constant_work, plan in ((1, mechanism._constant_work_plan), (0, mechanism._bulk_plan)):
        for start, n in ((0, 1), (3, 5000), (0, 8192)):
            yield constant_work, plan.address, start, n


def release(isa: int, room: Room, plan: int, key: int, kind: int, limbs: int, constant_work: int) -> int:
    """A dpf_release: results past the caches, too, and reals on a grid of 1."""
    at = room(ffi.sizeof("dpf_release"))
    how = ffi.cast("dpf_release *", at)
    how.plan, how.key, how.isa = ffi.cast("dpf_plan *", plan), ffi.cast("uint8_t *", key), isa
    how.kind, how.limbs, how.constant_work, how.non_temporal = kind, limbs, constant_work, limbs == 2
    how.lower, how.upper = (0, 2**64 - 2**8), (0, 2**8)
    how.granularity = how.inverse = how.inverse_too = 1.0
    how.least, how.greatest = how.real_lower, how.real_upper = -(2.0**1000), 2.0**1000
    return at


def adding(isa: int, room: Room) -> Iterator[Call]:
    """Every law and width, kind of value and number of limbs."""
    for laws, kinds in (
        (MECHANISMS, (lib.DPF_NOISE, lib.DPF_INT64, lib.DPF_UINT64, lib.DPF_INT32, lib.DPF_UINT8)),
        (REALS, (lib.DPF_NOISE, lib.DPF_FLOAT64, lib.DPF_FLOAT32)),
    ):
        for mechanism, kind, limbs in itertools.product(laws.values(), kinds, (1, 2)):
            if limbs == 2 and kind in (lib.DPF_INT32, lib.DPF_UINT8):
                continue
            all_exact = limbs == 1 and kind != lib.DPF_NOISE and not tiers.narrow(mechanism)
            for constant_work, plan, start, each in plans(mechanism):
                n = -(-each // 64) if all_exact else each  # the exact tier is slow
                how = release(isa, room, plan, room(32, KEY), kind, limbs, constant_work)
                yield [how, start, n, room(8 * n), room(16 * n)], KEY


def adding_fresh(isa: int, room: Room) -> Iterator[Call]:
    """Where getrandom gives KEY alone; a plan, and one of which only the exact tier decides."""
    for mechanism, kind in ((REALS["laplace"], lib.DPF_FLOAT64), (MECHANISMS["double32"], lib.DPF_INT64)):
        blind = tiers.Plan(mechanism.LAW, **tiers.constants(mechanism) | BLIND)
        for plan in (mechanism._constant_work_plan, blind):
            room.kept.append(plan)
            for n in (1, 20):
                how = release(isa, room, plan.address, 0, kind, 1, 1)
                yield [how, n, room(8 * n), room(8 * n)], KEY


def key_stream(isa: int, room: Room) -> Iterator[Call]:
    for n in (0, 1, 2048, 10_000):
        for non_temporal in (0, 1):
            yield [isa, room(32, KEY), 7, n, room(n), non_temporal], KEY


def generator(isa: int, room: Room) -> Iterator[Call]:
    """The erased key and the one that takes its place, which another refill gives away."""
    for words in range(2):
        bits = room(ffi.sizeof("dpf_bits"))
        state = ffi.cast("dpf_bits *", bits)
        plant(bits, KEY)
        state.keyed, state.isa = 1, isa
        if words:
            twin = _native.Bits()
            plant(_native.address(twin._bits), KEY)
            twin._bits.keyed, twin._bits.isa = 1, isa
            lib.dpf_next_uint64(twin._bits)
            yield [bits], bytes(ffi.cast("uint8_t *", twin._bits)[i] for i in range(32))
        else:
            yield [bits], KEY


def mapped(holds: bytes) -> int:
    """A generator's page, for the function that gives it back."""
    page = lib.dpf_bits_new()
    plant(_native.address(page), holds)
    return _native.address(page)


def bits_key(room: Room) -> Iterator[Call]:
    at = room(ffi.sizeof("dpf_bits"))
    yield [at], at


def entropy(room: Room) -> Iterator[Call]:
    at = room(32)
    yield [at, 32], at


SCANNED: dict[str, Callable[[int, Room], Iterator[Call]]] = {
    "dpf_entropy": lambda isa, room: entropy(room),
    "dpf_wipe": lambda isa, room: iter([([room(32, KEY), 32], KEY)]),
    "dpf_wipe_key": lambda isa, room: iter([([room(32, KEY)], KEY)]),
    "dpf_block": lambda isa, room: iter([([room(32, KEY), 5, 6, room(64)], KEY)]),
    "dpf_exact_digits": lambda isa, room: iter([([room(32, KEY), 1, 0, 16, 77, 3, room(192)], KEY)]),
    "dpf_blocks": lambda isa, room: iter([([isa, room(32, KEY), room(256), 6, room(2048)], KEY)]),
    "dpf_add": adding,
    "dpf_key_stream": key_stream,
    "dpf_bits_free": lambda isa, room: iter([([mapped(KEY)], KEY)]),
    "dpf_bits_key": lambda isa, room: bits_key(room),
    "dpf_next_uint64": generator,
    "dpf_next_uint32": generator,
    "dpf_next_double": generator,
}
FRESH = {"dpf_add_fresh"}  # draws its key, and wipes it: seen where getrandom is ours
KEYLESS = {
    # No noise is drawn under the keys that choose rows, and the bound holds for public ones.
    "dpf_bounded_counts",
    "dpf_chosen_rows",
    "dpf_hash_texts",
    "dpf_look_up",
    "dpf_pack",
    "dpf_search",
    "dpf_sort",
    "dpf_totals",
    "dpf_all_finite",
    "dpf_small",
    "dpf_best_isa",
    "dpf_make_plan",
    "dpf_make_table",
    "dpf_isa_name",
    "dpf_law_name",
    "dpf_isa_runs",
    "dpf_tier",
    "dpf_exact_acceptance",
    "dpf_exact_planted",
    "dpf_enter",
    "dpf_leave",
    "dpf_bits_new",
    "dpf_known_answers",
    "dpf_self_check",
    "dpf_arrow_new",
    "dpf_arrow_fill",
    "dpf_arrow_free",
    "dpf_capsule",
}


def masked(key: bytes) -> bytes:
    """A key under a mask of ones: copies of it leave no word of the key anywhere."""
    return bytes(255 - byte for byte in key)


def on_stack(probe: ctypes.CDLL, function: int, call: Call) -> int:
    arguments, key = call
    padded = (ctypes.c_int64 * 12)(*arguments)
    if isinstance(key, int):
        words, mask = ctypes.c_void_p(key), 0
    else:
        words, mask = ctypes.create_string_buffer(masked(key), 32), 2**32 - 1
    return int(probe.after(ctypes.c_void_p(function), padded, words, ctypes.c_uint32(mask), ctypes.c_int64(8)))


def leaks(probe: ctypes.CDLL, name: str, isa: int) -> dict[tuple[str, int], int]:
    """How many words of its key each call of a function leaves: two, or one of another key, too.

    A word lies by chance among the addresses and noise on the stack in one run of 10^4. A second
    one, of this key or of another, does so in one of 10^8.
    """
    function = _native.address(ffi.addressof(lib, name))

    def look(key: bytes) -> dict[tuple[str, int], int]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setitem(globals(), "KEY", key)
            calls = enumerate(SCANNED[name](isa, Room()))
            return {(name, i): on_stack(probe, function, call) for i, call in calls}

    found = look(KEY)
    again = look(KEY[::-1]) if any(found.values()) else found
    return {call: words if several(words) else min(words, again[call]) for call, words in found.items()}


def several(words: int) -> bool:
    """The probe counts a word in a register as 1000."""
    return words % 1000 + words // 1000 > 1


def test_every_function_is_looked_at() -> None:
    """A function in dpf_abi.h is scanned here, or is said to see no key."""
    functions = {name for name in dir(lib) if name.startswith("dpf_") and callable(getattr(lib, name))}
    assert functions == set(SCANNED) | FRESH | KEYLESS
    assert not set(SCANNED) & KEYLESS


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", SCANNED)
def test_no_word_of_a_key_is_left(probe, name, isa) -> None:
    """No word of the key in vector registers or 256 KiB of dead stack, whatever the plan.

    Stack and registers hold no word before the call.
    """
    found = leaks(probe, name, isa)
    assert found
    assert not {call: words for call, words in found.items() if words}


def test_what_lies_there_by_chance_is_no_leak(probe, monkeypatch) -> None:
    """One word of one key is chance; two are a leak, and one of each of two keys."""
    for keys, left, words in (({KEY}, 1, 0), ({KEY}, 2, 2), ({KEY}, 1001, 1001), ({KEY, KEY[::-1]}, 1, 1)):
        monkeypatch.setitem(
            globals(), "on_stack", lambda _probe, _function, call, keys=keys, left=left: left * (call[1] in keys)
        )
        assert set(leaks(probe, "dpf_block", ISAS[0]).values()) == {words}


@pytest.mark.parametrize("isa", ISAS)
def test_no_word_is_left_in_a_worker_thread(probe, isa) -> None:
    """The same on the stack of a thread that is not the first."""
    found: dict[tuple[str, int], int] = {}

    def work() -> None:
        for name in ("dpf_add", "dpf_key_stream", "dpf_next_uint64"):
            found.update(leaks(probe, name, isa))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert len(found) > 50
    assert not {call: words for call, words in found.items() if words}


@pytest.mark.parametrize("deep", [0, 1000, 50_000])
def test_the_scan_finds_a_key(probe, deep) -> None:
    """A function that leaves its key in dead stack is caught, near and far below the caller."""
    room = Room()
    assert on_stack(probe, ctypes.cast(probe.spills, ctypes.c_void_p).value or 0, ([room(32, KEY), deep], KEY)) == 8


def test_what_registers_held_before_is_not_counted(probe) -> None:
    """A copy of memory leaves a key in the registers; a call that sees no key then finds none.

    The heap does this by accident: a list of a test grew, and its block ended in eight bytes of an
    earlier call's key.
    """
    size = 32 * 64  # fills the registers of any memcpy
    source, to = ctypes.create_string_buffer(KEY * (size // 32), size), ctypes.create_string_buffer(size)
    arguments, words = (ctypes.c_int64 * 12)(), ctypes.create_string_buffer(masked(KEY), 32)
    call = ctypes.c_void_p(_native.address(ffi.addressof(lib, "dpf_best_isa")))
    mask, n = ctypes.c_uint32(2**32 - 1), ctypes.c_int64(8)
    ctypes.memmove(to, source, size)
    assert probe.after(call, arguments, words, mask, n) == 0


# ------------------------------------------------------------------ how deep

MARGIN = 512  # bytes, for what the compiler does not count: alignment of frames, and a library's own
MOST = 16 << 10
PAGE = 4096
IMPL = (ROOT / "csrc/dpf_impl.h").read_text()
CIPHER = re.compile(r"(one_block|blocks|few_blocks|four_blocks|group_meanwhile)\b")  # whose frames hold a key's words
# Who calls through the table of an instruction set or of a law, and which of its functions.
THROUGH_TABLES = {
    "discrete_gaussian_bulk": r"(?!planted)\w+_level0",
    "planted_level0": r"(?!planted)\w+_(level0|short|by_floats)",
    **dict.fromkeys(("both_levels", "refine", "propose_again"), r"\w+_(decide|judge)"),
    **dict.fromkeys(("dpf_exact", "dpf_exact_planted"), r"dpf_exact_(discrete_)?(laplace|gaussian)"),
    **dict.fromkeys(("dpf_add", "dpf_add_fresh"), r"\w+_add"),
    "dpf_tier": r"\w+_tier",
    "dpf_blocks": "blocks",
    "dpf_key_stream": "batch_words|store",
    **dict.fromkeys(("dpf_refill", "dpf_refilled_uint64", "dpf_refilled_double"), "batch_words"),
    **dict.fromkeys(("dpf_isa_runs", "dpf_best_isa"), "runs"),
    "dpf_self_check": "counts_zeros",
    "dpf_bounded_counts": "bounded_counts",
    "dpf_make_plan": "(discrete_)?(laplace|gaussian)",
}
ARROW = re.compile("dpf_(release|fill|arrow)_")  # who calls through Arrow's structures: the releases alone

Graph = tuple[dict[str, int], dict[str, set[str]]]  # bytes of stack by function, and whom it calls


def graph(folder: Path) -> Graph:
    """The library as this machine's GCC builds it."""
    built = runpy.run_path(str(ROOT / "csrc" / "build_ffi.py"))
    sizes: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for name in (*built["SOURCES"], "dpfast.c"):
        command = [
            "gcc",
            *built["FLAGS"],
            '-DDPFAST_VERSION=""',
            "-fPIC",
            "-fcallgraph-info=su",
            "-c",
            str(ROOT / "csrc" / name),
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
    for file in folder.glob("*.ci"):
        text = file.read_text()
        for node, label in re.findall(r'^node: \{ title: "([^"]+)" label: "([^"]+)"', text, re.MULTILINE):
            if size := re.search(r"(\d+) bytes \((?:static|dynamic,bounded)\)", label):
                sizes[node] = int(size[1])
            else:
                assert "bytes (" not in label, f"{node} takes stack without a bound"
        for caller, callee in re.findall(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text, re.MULTILINE):
            calls.setdefault(caller, set()).add(callee)
    for caller, called in calls.items():
        if "__indirect_call" in called:
            name = caller.split(":")[-1].split(".")[0]
            wanted = r"dpf_release_\w+" if ARROW.match(name) else THROUGH_TABLES[name]
            found = {
                name
                for name in sizes
                if re.search("isa_|arrow|plan|^dpf_exact", name)
                and re.fullmatch(wanted, name.split(":")[-1].split(".")[0])
            }
            assert len(found) >= 3
            called.update(found)
    return sizes, calls


def chain(found: Graph, function: str, above: tuple[str, ...] = ()) -> int | None:
    """The most stack between a function's frame and a cipher's end, unless overwritten."""
    sizes, calls = found
    deepest = None
    for callee in calls.get(function, set()):
        if callee in above or any("scrub" in name for name in calls.get(callee, set())):
            continue
        below = chain(found, callee, (*above, function))
        if CIPHER.match(callee.split(":")[-1]):
            below = below or 0
        if below is not None:
            deepest = max(deepest or 0, 8 + sizes[callee] + below)
    return deepest


def deepest(found: Graph, function: str) -> int:
    """The most stack that a function and all that it calls take, what overwrites it left aside."""
    sizes, calls = found
    called = [callee for callee in calls.get(function, set()) if "scrub" not in callee]
    return sizes.get(function, 0) + max((8 + deepest(found, callee) for callee in called), default=0)


def frames(found: Graph, function: str, total: Callable[[int, int], int], but: set[str]) -> int:
    """The frames of a function and of all that it calls, but these, in all or the largest."""
    sizes, calls = found
    called = calls.get(function, set()) - but - {function}
    below = (frames(found, callee, total, but | {function}) for callee in called)
    return total(sizes.get(function, 0), max(below, default=0))


def down_to(found: Graph, function: str, last: str) -> int | None:
    """The most stack between a function's frame and the end of a frame that it leads to.

    What lies below a function that overwrites it is that function's own to reach.
    """
    sizes, calls = found
    called = [
        callee
        for callee in calls.get(function, set())
        if callee == last or not any("scrub" in name for name in calls.get(callee, set()))
    ]
    below = [(callee, 0 if callee == last else down_to(found, callee, last)) for callee in called]
    return max((8 + sizes[callee] + more for callee, more in below if more is not None), default=None)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="GCC alone says how much stack a call takes")
def test_the_depth_is_that_of_the_deepest_call(tmp_path) -> None:
    """The wipe reaches MARGIN beyond the cipher's last frame, for every exported function."""
    found = graph(tmp_path)
    sizes, calls = found
    assert sum(bool(CIPHER.match(name.split(":")[-1])) for name in sizes) >= 3
    scrubbing = {name: {c for c in called if "scrub" in c} for name, called in calls.items()}
    scrubbing = {name: scrubs for name, scrubs in scrubbing.items() if scrubs}
    assert len(scrubbing) >= 6
    for name, scrubs in scrubbing.items():
        depth, needed = max(sizes[scrub] for scrub in scrubs), chain(found, name) or 0
        most = MOST
        if name == "dpf_exact":  # what the laws leave there are digits and draws
            needed, most = deepest(found, name) - sizes[name], 3 * MOST
        assert needed + MARGIN <= depth <= most, f"{name}: {needed} bytes below it, {depth} overwritten"
    exactly = {name: down_to(found, name, "dpf_exact") for name in scrubbing}
    assert sum(below is not None for below in exactly.values()) >= 3 * 4  # the laws of each instruction set
    for name, below in exactly.items():  # whose own frame, with digits, no other call overwrites
        assert (below or 0) + MARGIN <= max(sizes[scrub] for scrub in scrubbing[name]), name
    for name in set(dir(lib)) & set(calls):
        assert name in scrubbing or chain(found, name) is None, f"{name} calls the cipher and does not overwrite"
    stack, near = (int(n) << 10 for n in re.findall(r"DPF_(?:STACK|NEAR) = (\d+) << 10", IMPL))
    reaching = {name for name, called in calls.items() if "dpf_reach" in called}
    makers = {f"dpfast_{law}" for law in ("discrete_laplace", "discrete_gaussian", "laplace", "gaussian")}
    assert reaching == {"dpf_add", "dpf_self_check", *makers}
    for name in set(calls) & {*dir(lib), *(each for each in calls if each.startswith("dpfast_"))}:
        if re.match("dpf_(tier|exact)", name):  # which tests alone call
            continue
        if name in reaching:
            needed = frames(found, name, lambda frame, below: frame + 8 + below, reaching - {name} | {"dpf_reach"})
            assert needed + MARGIN <= stack - near, name
        else:
            most = frames(found, name, max, reaching)
            assert most <= PAGE, f"{name} may step over the page that guards a stack"


# ------------------------------------------------------------------ whole releases

GETRANDOM = r"""
    #include <sys/random.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    /* A key that is known, for whoever asks for one: KEY of the test, once `planted` is set. */
    int planted = 0;
    ssize_t getrandom(void *at, size_t n, unsigned flags) {
        if (!planted || n != 32)
            return syscall(SYS_getrandom, at, n, flags);
        for (int i = 0; i < 32; i++)
            ((unsigned char *)at)[i] = (unsigned char)((73 * i * i + 41 * i + 156) % 251);
        return 32;
    }
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The library, and what a process preloads for it."""
    library = compiled(tmp_path_factory.mktemp("known"), "known", GETRANDOM)
    return library, os.pathsep.join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))


# In one process, as loading takes longer than all of the calls.
WORK = """
    import ctypes, os, sys, threading, unittest.mock
    import numpy as np
    import dpfast
    from dpfast import _native
    from dpfast.noise.release import engine
    sys.path.append(TESTS)
    import tiers

    probe, tool = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
    probe.left.restype = ctypes.c_int64
    planted = ctypes.c_int.in_dll(tool, "planted")
    words = ctypes.create_string_buffer(bytes.fromhex(sys.argv[3]), 32)  # under a mask
    _native.best_isa = lambda: isa  # the loop at the end tries each

    def left():
        return probe.left(words, ctypes.c_uint32(2**32 - 1), ctypes.c_int64(8))

    def deep(call, levels=20):  # far below the frames of `left`, which would overwrite its own
        return call() if levels == 0 else next(map(deep, [call], [levels - 1]))

    integers, reals = dpfast.DiscreteLaplace(1, 10), dpfast.Gaussian(sigma=1)
    wide, rejecting = dpfast.DiscreteLaplace(1, 2**60), dpfast.DiscreteGaussian(sigma=1000)
    undecided = dpfast.DiscreteLaplace(1, 10**6)
    blind = tiers.Plan(undecided.LAW, **tiers.constants(undecided) | BLIND)  # C's fast tiers decide no draw
    with unittest.mock.patch.object(dpfast.DiscreteLaplace, "_made_plan", lambda _: blind):
        undecided._constant_work_plan
    small, large, shared = np.zeros(8, np.int64), np.zeros(20_000, np.int64), np.zeros(2**19, np.int64)
    calls = {
        "small": lambda: integers.release(small),
        "undecided": lambda: undecided.release(small),
        "bulk": lambda: integers.release(large),
        "strided": lambda: integers.release(large[::2]),
        "wide": lambda: wide.release(large),
        "rejecting": lambda: rejecting.release(large),
        "small real": lambda: reals.release(small.astype(float)),
        "real": lambda: reals.release(large.astype(float)),
        "sample": lambda: integers.sample(5000),
        "responses": lambda: dpfast.RandomizedResponse(1).release(small),
        "selection": lambda: dpfast.Exponential(1, 1).select(large),
        "bytes": lambda: dpfast.random_bytes(5000),
        "generator": lambda: np.random.Generator(dpfast.ChaCha20()).random(1000),
        "two threads": lambda: integers.release(shared, threads=2),
        "real, two threads": lambda: reals.release(shared.astype(float), threads=2),
    }
    helpers, begun = 0, threading.Event()
    helps, shares = engine._Part.help, engine._Work.share

    def look(frame, event, argument):  # at the end of each Python function of a helper, on its own stack
        if event == "return" and "dpfast" in frame.f_code.co_filename:
            found["helper"] = max(found.get("helper", 0), left())

    def watched(*arguments):
        global helpers
        helpers += 1
        begun.set()
        sys.setprofile(look)
        helps(*arguments)
        sys.setprofile(None)

    def share(work, begin, end):  # the caller leaves a part to its helper
        if begin == 0 and end < work.job.counts.size:
            begun.wait(600)
            begun.clear()
        shares(work, begin, end)

    def worker():
        for name, call in calls.items():
            if "threads" not in name:
                deep(call)
                found["in a thread, " + name] = left()

    for isa in map(int, sys.argv[4:]):
        engine._Part.help, engine._Work.share = helps, shares
        planted.value = 0
        for call in calls.values():
            call()  # what loads and compiles is done
        found, helpers = {}, 0
        engine._Part.help, engine._Work.share = watched, share
        planted.value = 1
        for name, call in calls.items():
            deep(call)
            found[name] = left()
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
        assert (len(found), helpers) == (15 + 13 + 1, 2)
        print({f"{isa}, {name}": n for name, n in found.items() if n} or "")
    planted.value = 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="getrandom is Linux's")
def test_no_word_is_left_by_a_release(probe, known) -> None:
    """Nor by a whole call in Python with a known key: all kinds, in threads and helpers."""
    library, preload = known
    words = masked(KEY).hex()
    for _ in range(2):  # addresses of another process are others: what it leaves again is no chance
        script = WORK.replace("BLIND", repr(BLIND)).replace("TESTS", repr(str(TESTS)))
        left = python(script, probe._name, library, words, *ISAS, LD_PRELOAD=preload)
        assert left.count("\n") == len(ISAS)
        if not left.strip():
            return
    raise AssertionError(left)


DRAWN = """
    import ctypes, runpy, sys, types
    sys.path.insert(0, sys.argv[4])
    import numpy as np
    from dpfast._native import ffi, lib, small

    known = types.SimpleNamespace(**runpy.run_path(sys.argv[3]))  # this file
    tool, room = ctypes.CDLL(sys.argv[2]), known.Room()
    probe, keeping = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])  # the latter keeps the interpreter's lock
    probe.after.restype = keeping.after.restype = ctypes.c_int64
    planted = ctypes.c_int.in_dll(tool, "planted")
    function = int(ffi.cast("intptr_t", ffi.addressof(lib, "dpf_add_fresh")))
    mechanism, values = known.MECHANISMS["double32"], np.zeros(8, np.int64)
    plan = mechanism._constant_work_plan
    method = ctypes.cast(int(ffi.cast("intptr_t", lib.dpf_small())), ctypes.POINTER(ctypes.c_void_p))
    words = ctypes.create_string_buffer(known.masked(known.KEY), 32)

    for isa in map(int, sys.argv[5:]):
        found = {}
        for i, call in enumerate(known.adding_fresh(isa, room)):
            planted.value = 1
            found[f"{isa}, dpf_add_fresh {i}"] = known.on_stack(probe, function, call)
            planted.value = 0
            is_drawn = bytes(ffi.buffer(ffi.cast("char *", call[0][3]), 8)) != bytes(8)
            assert is_drawn or i >= 4  # counts are clamped to 0 here
        how = known.release(isa, room, plan.address, 0, lib.DPF_INT64, 1, 1)
        how = ctypes.string_at(how, ffi.sizeof("dpf_release"))
        given = (ctypes.py_object * 4)(print, (values.dtype, how, plan), values, None)
        arguments = (ctypes.c_int64 * 12)(id(small.__self__), ctypes.addressof(given), 4)
        planted.value = 1
        found[f"{isa}, a small release"] = keeping.after(
            ctypes.c_void_p(method[1]), arguments, words, ctypes.c_uint32(2**32 - 1), ctypes.c_int64(8)
        )
        planted.value = 0
        assert len(found) == 9
        print({name: n for name, n in found.items() if n} or "")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="getrandom is Linux's")
def test_no_word_is_left_of_a_key_that_c_draws(probe, known) -> None:
    """In C's own frames and registers, and in those of its call for few values."""
    library, preload = known
    here = Path(__file__)
    for _ in range(2):  # as above
        left = python(DRAWN, probe._name, library, here, here.parents[1], *ISAS, LD_PRELOAD=preload)
        assert left.count("\n") == len(ISAS)
        if not left.strip():
            return
    raise AssertionError(left)
