# SPDX-License-Identifier: Apache-2.0
"""No count is ever stored before it has its noise: another process looks after each store."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import tiers
from fresh import python
from places import TESTS

# The output's pages are read-only. A store faults and is let through by one processor step; before
# the next instruction the other process says that it has looked.
STEPPER = r"""
    #define _GNU_SOURCE
    #include <signal.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <ucontext.h>
    #include <unistd.h>

    static char *begin;
    static uint64_t size, at;
    static int tell, hear;

    static void fault(int number, siginfo_t *info, void *context) {
        char *const where = info->si_addr;
        if (where < begin || where >= begin + size) {
            signal(SIGSEGV, SIG_DFL);
            return;
        }
        at = (uint64_t)(where - begin);
        mprotect(begin, size, PROT_READ | PROT_WRITE);
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
        (void)number;
    }

    static void stepped(int number, siginfo_t *info, void *context) {
        char looked;
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
        mprotect(begin, size, PROT_READ);
        if (write(tell, &at, sizeof at) != sizeof at || read(hear, &looked, 1) != 1)
            _exit(3);
        (void)number, (void)info;
    }

    void watch(void *from, uint64_t bytes, int to, int back) {
        struct sigaction on_fault = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
        struct sigaction on_step = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
        begin = from, size = bytes, tell = to, hear = back;
        sigaction(SIGSEGV, &on_fault, 0);
        sigaction(SIGTRAP, &on_step, 0);
        mprotect(begin, size, PROT_READ);
    }

    void leave(void) {
        mprotect(begin, size, PROT_READ | PROT_WRITE);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
    }
"""

WATCHED = """
    import ctypes, mmap, os, sys
    import numpy as np
    import pytest
    import dpfast

    tool, defect = ctypes.CDLL(sys.argv[1]), ""
    sys.path.append(sys.argv[2])
    import tiers
    BEFORE = 77  # in out, before

    def open_often(mechanism, room):  # C decides as little as its margins allow, and the exact tier the rest
        tiers.narrow_margins(mechanism, room)
        return mechanism

    table = open_often(dpfast.DiscreteLaplace(1, 10), 0.0)
    narrow = open_often(dpfast.DiscreteLaplace(1, 10**6), 0.49)
    wide = open_often(dpfast.DiscreteLaplace(1, 2**57), 0.49)
    rejecting = dpfast.DiscreteGaussian(sigma=1000)
    laplace = open_often(dpfast.Laplace(1, 1), 0.49)
    gaussian = open_often(dpfast.Gaussian(sigma=1), 0.49)
    wide_laplace = open_often(dpfast.Laplace(1, 1, granularity=2.0**-55), 0.49)
    wide_gaussian = open_often(dpfast.Gaussian(sigma=1, granularity=2.0**-55), 0.49)
    # name: mechanism, size, of what and into what, how the output lies, options
    i8, u8, i4, u2, f8, f4 = np.int64, np.uint64, np.int32, np.uint16, np.float64, np.float32
    CASES = {
        "int64": (table, 8892, i8, i8, "plain", {}),
        "int64, odd place": (table, 4500, i8, i8, "odd", {}),
        "int64, past the caches": (table, 8892, i8, i8, "streamed", {}),
        "int64, narrow out": (table, 4500, i8, np.int16, "plain", {}),
        "int64, bounds": (table, 4500, i8, i8, "plain", {"lower": 0, "upper": 10**15}),
        "int64, doubles": (narrow, 4500, i8, i8, "plain", {}),
        "int64, doubles, past the caches": (narrow, 8892, i8, i8, "streamed", {}),
        "int64, constant-work": (narrow, 4500, i8, i8, "plain", {"constant_time": True}),
        "int64, strided": (narrow, 4500, i8, i8, "strided", {}),
        "int64, other byte order": (narrow, 4500, ">i4", ">i8", "plain", {}),
        "int64, two axes": (narrow, 4500, i8, i8, "turned", {}),
        "int64, rejecting": (rejecting, 4500, i8, i8, "plain", {}),
        "int64 by two limbs": (wide, 4500, i8, i8, "plain", {}),
        "int64 by two limbs, past the caches": (wide, 4500, i8, i8, "streamed", {}),
        "int64 by two limbs, constant-work": (wide, 4500, i8, i8, "plain", {"constant_time": True}),
        "uint64": (narrow, 4500, u8, u8, "plain", {}),
        "uint64, table": (table, 8892, u8, u8, "plain", {}),
        "uint64, table, past the caches": (table, 8892, u8, u8, "streamed", {}),
        "int32": (narrow, 4500, i4, i4, "plain", {}),
        "int32, table": (table, 8892, i4, i4, "plain", {}),
        "int32, table, past the caches": (table, 8892, i4, i4, "streamed", {}),
        "int32, constant-work": (narrow, 1000, i4, i4, "plain", {}),
        "uint16": (narrow, 4500, u2, u2, "plain", {}),
        "uint16, table": (table, 8892, u2, u2, "plain", {}),
        "uint16, table, past the caches": (table, 8892, u2, u2, "streamed", {}),
        "uint16, constant-work": (narrow, 1000, u2, u2, "plain", {}),
        "uint8": (narrow, 4500, np.uint8, np.uint8, "plain", {}),
        "uint8, table": (table, 8892, np.uint8, np.uint8, "plain", {}),
        "uint64, constant-work": (narrow, 500, u8, u8, "plain", {}),
        "uint64, past the caches": (narrow, 4500, u8, u8, "streamed", {}),
        "uint64, to int64": (narrow, 4500, u8, i8, "plain", {}),
        "int64, to uint64": (narrow, 4500, i8, u8, "plain", {}),
        "few int64": (narrow, 500, i8, i8, "plain", {}),
        "float64": (laplace, 4500, f8, f8, "plain", {}),
        "float64, past the caches": (laplace, 4500, f8, f8, "streamed", {}),
        "float64, gaussian": (gaussian, 4500, f8, f8, "plain", {}),
        "float64, constant-work": (laplace, 4500, f8, f8, "plain", {"constant_time": True}),
        "float32": (laplace, 4500, f4, f4, "plain", {}),
        "float32, gaussian": (gaussian, 4500, f4, f4, "plain", {}),
        "float32, past the caches": (laplace, 4500, f4, f4, "streamed", {}),
        "float32, constant-work": (laplace, 4500, f4, f4, "plain", {"constant_time": True}),
        "float64, to single": (laplace, 4500, f8, f4, "plain", {}),
        "float64, missing": (laplace, 4500, f8, f8, "plain", {"missing": 0.5, "clamp": (0, 1), "lower": -1e9}),
        "float64, strided": (gaussian, 4500, f8, f8, "strided", {}),
        "few float64": (gaussian, 500, f8, f8, "plain", {}),
        "few float32": (gaussian, 1000, f4, f4, "plain", {}),
        "float64 by two limbs": (wide_laplace, 4500, f8, f8, "plain", {}),
        "float64 by two limbs, past the caches": (wide_laplace, 4500, f8, f8, "streamed", {}),
        "float64 by two limbs, gaussian": (wide_gaussian, 4500, f8, f8, "plain", {}),
        "float64 by two limbs, to single": (wide_gaussian, 4500, f8, f4, "plain", {}),
        "float64 by two limbs, few": (wide_gaussian, 500, f8, f8, "plain", {}),
    }

    def output(page, n, kind, layout):
        kind = np.dtype(kind)
        if layout == "odd":
            return np.frombuffer(page, kind, n, offset=24)
        if layout == "strided":
            return np.frombuffer(page, kind, 2 * n)[::2]
        if layout == "turned":
            return np.frombuffer(page, kind, n).reshape(50, n // 50).T
        return np.frombuffer(page, kind, n)

    patch, told_c = pytest.MonkeyPatch(), []

    def add(call, release, *arguments):  # what C is told, and C as it must not be: counts lie in out until the noise does
        told_c.append(tiers.told(release))
        if defect == "raw":
            x, y, at = arguments[2:]
            y[at + 3 : at + 19] = x[at + 3 : at + 19]
        return call(*arguments)

    def watched(mechanism, n, given, made, layout, options):
        \"\"\"How many stores another process looked at, and how many bytes it saw that were neither old, nor 0, nor final.\"\"\"
        page = mmap.mmap(-1, 2**18)
        out = output(page, n, made, layout)
        counts = (np.arange(n) % 1000 + 1000).astype(given).reshape(out.shape)
        mechanism.release(counts, dtype=np.dtype(made).newbyteorder("="), threads=1, **options)  # all is loaded
        out[...] = BEFORE
        stored, told = os.pipe()
        looked, heard = os.pipe()
        log, logged = os.pipe()
        watcher = os.fork()
        if watcher == 0:
            for end in (told, looked, log):
                os.close(end)
            found = []
            while event := os.read(stored, 8):
                at = max(0, int.from_bytes(event, "little") // 64 * 64 - 64)
                found.append(at.to_bytes(8, "little") + page[at : at + 256].ljust(256))
                os.write(heard, b"k")
            with open(logged, "wb") as file:
                file.write(b"".join(found))
            os._exit(0)
        for end in (stored, heard, logged):
            os.close(end)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        tiers.around_c(patch, add)
        tiers.past_the_caches(layout == "streamed")
        try:
            tool.watch(ctypes.c_void_p(address), ctypes.c_uint64(2**18), told, looked)
            mechanism.release(counts, out=out, threads=1, **options)
        finally:
            tool.leave()
            patch.undo()
        os.close(told)
        with open(log, "rb") as file:
            seen = np.frombuffer(file.read(), np.uint8).reshape(-1, 264)
        os.waitpid(watcher, 0)
        # Each byte that was seen, for a store may be seen half done: it is that of the end, of before, or 0.
        at, lines = seen[:, :8].copy().view(np.uint64), seen[:, 8:]
        places = at + np.arange(256, dtype=np.uint64)
        inside = places < 2**18
        final = np.frombuffer(page, np.uint8)[np.where(inside, places, 0)]
        before = np.resize(np.full(1, BEFORE, out.dtype).view(np.uint8), 256)  # cells begin at multiples of their size
        wrong = inside & (lines != final) & (lines != 0) & (lines != before)
        unchanged = (out == counts).mean()  # in the end, where the noise is 0
        return len(seen), int(wrong.sum()), float(unchanged)

    for defect in ("none", "raw"):
        for name, case in CASES.items():
            if defect != "raw" or "," not in name:
                told_c.clear()
                print(defect, name, *watched(*case), *told_c[0], sep="|")
"""


class Seen(NamedTuple):
    """Stores looked at, bytes without noise, the share of cells of noise 0; what C was told."""

    looks: int
    wrong: int
    unchanged: float
    told: tuple[int, ...]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Seen]]:
    """What was seen of each case: of C as it is, and of a planted defect."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("single steps are taken on Linux and x86-64 alone")
    if not shutil.which(os.environ.get("CC", "cc").split()[0]):
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("stepper")
    (folder / "tool.c").write_text(STEPPER)
    command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", folder / "tool.so", folder / "tool.c"]
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, dict[str, Seen]] = {"none": {}, "raw": {}}
    plain = "glibc.cpu.x86_rep_movsb_threshold=1000000"  # whole vectors: a string instruction would step byte by byte
    for line in python(WATCHED, folder / "tool.so", TESTS, GLIBC_TUNABLES=plain).splitlines():
        defect, name, looks, wrong, unchanged, *told = line.split("|")
        found[defect][name] = Seen(int(looks), int(wrong), float(unchanged), tuple(map(int, told)))
    return found


@pytest.mark.slow
def test_no_cell_lies_open(stores: dict[str, dict[str, Seen]]) -> None:
    """Every byte ever stored is 0 or the released one's, so no false alarm is possible.

    C that stored counts first, and the noise right after, would be caught: of each kind.
    """
    assert len(stores["raw"]) == 12
    assert all(seen.wrong > 0 for seen in stores["raw"].values()), stores["raw"]
    found = stores["none"]
    assert len(found) == 51
    told = {seen.told for seen in found.values()}
    widths = (tiers.KINDS[np.dtype(kind)] for kind in ("i4", "u2"))
    for kind in (tiers.INT64, tiers.FLOAT64, tiers.UINT64, tiers.FLOAT32, *widths):
        for limbs in (1, 2) if kind in (tiers.INT64, tiers.FLOAT64) else (1,):
            assert {(kind, limbs, 0, 0), (kind, limbs, 0, 1), (kind, limbs, 1, 0)} <= told
    for name, seen in found.items():
        assert seen.looks >= 50, f"{name}: hardly a store was seen"
        assert seen.unchanged < 0.2, f"{name}: most noise is 0, and a raw count looks like a released one"
    assert {name: seen.wrong for name, seen in found.items() if seen.wrong} == {}
