# SPDX-License-Identifier: Apache-2.0
"""An array whose values change between any two instructions that read it.

Its pages may not be read. What reads them nevertheless is stopped, sees one of two contents there,
and runs for one instruction. So a change by another thread comes at each moment, not by chance.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from preloaded import compiled

from dpfast.errors import OtherInputError, ParameterError

REFUSALS = ParameterError, OtherInputError
needs_single_steps = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="runs single instructions, by x86-64 Linux; and AddressSanitizer copies byte by byte",
)
TOOL = r"""
    #define _GNU_SOURCE
    #include <signal.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <ucontext.h>

    enum { TRAP = 0x100 }; /* the flag of single steps */
    static char *first;
    static const char *contents[2], *turn;
    static unsigned long size, reads, known;
    static long instruction;
    static struct sigaction fault_before, step_before;

    static void fault(int number, siginfo_t *about, void *context) {
        char *const at = about->si_addr;
        (void)number;
        if (at < first || at >= first + size) {
            sigaction(SIGSEGV, &fault_before, NULL);
            return;
        }
        mprotect(first, size, PROT_READ | PROT_WRITE);
        memcpy(first, contents[(int)turn[reads < known ? reads : known - 1]], size);
        reads++;
        instruction = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP;
    }

    static void step(int number, siginfo_t *about, void *context) {
        (void)number, (void)about;
        if (((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] == instruction)
            return; /* one that repeats itself, as memcpy's may, is not over */
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(long)TRAP;
        mprotect(first, size, PROT_NONE);
    }

    void watch(char *at, unsigned long bytes, const char *one, const char *other, const char *order, unsigned long n) {
        const struct sigaction on_fault = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
        const struct sigaction on_step = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
        first = at, size = bytes, contents[0] = one, contents[1] = other, turn = order, known = n, reads = 0;
        sigaction(SIGSEGV, &on_fault, &fault_before);
        sigaction(SIGTRAP, &on_step, &step_before);
        mprotect(first, size, PROT_NONE);
    }

    unsigned long unwatch(void) {
        mprotect(first, size, PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &fault_before, NULL);
        sigaction(SIGTRAP, &step_before, NULL);
        return reads;
    }
"""


class Turned:
    """An array of two contents, which are arrays alike."""

    def __init__(self, folder: Path, contents: tuple[np.ndarray, np.ndarray]) -> None:
        self._tool = ctypes.CDLL(str(compiled(folder, TOOL)))
        self._tool.unwatch.restype = ctypes.c_ulong
        n, dtype = contents[0].size, contents[0].dtype
        self._memory = mmap.mmap(-1, n * dtype.itemsize)  # whole pages
        self._array = np.frombuffer(self._memory, dtype, n)
        room = -(-self._array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._contents = [np.zeros(room, np.uint8) for _ in contents]
        for whole, content in zip(self._contents, contents, strict=True):
            whole[: self._array.nbytes] = content.view(np.uint8)

    def asked(self, call: Callable[[np.ndarray], Any], order: bytes) -> tuple[Any, int]:
        """What the call says of the array, and how often it was read.

        order: which content the k-th instruction sees that reads it; those behind, the last one.
        """
        at, room = ctypes.c_void_p(self._array.ctypes.data), ctypes.c_ulong(self._contents[0].size)
        self._tool.watch(
            at,
            room,
            *(whole.ctypes.data_as(ctypes.c_char_p) for whole in self._contents),
            order,
            ctypes.c_ulong(len(order)),
        )
        try:
            return call(self._array), int(self._tool.unwatch())
        except REFUSALS as error:
            return error, int(self._tool.unwatch())
        except BaseException:
            self._tool.unwatch()
            raise


def orders(reads: int, seed: int) -> Iterator[bytes]:
    """Orders of two contents, 0 and 1: of each read, it alone sees the other, or it and all behind.

    And one of each content first, at random.
    """
    rng = np.random.default_rng(seed)
    for first in 0, 1:
        for k in range(reads):
            yield bytes([first] * k + [1 - first])
            yield bytes([first] * k + [1 - first, first])
        yield bytes(rng.integers(0, 2, reads + 1, dtype=np.uint8))
