# SPDX-License-Identifier: Apache-2.0
"""A thread whose stack is too small ends at the page that guards it, and writes nothing beyond."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
import tiers
from preloaded import compiled

import dpfast
from dpfast.numba import Noise

TOOL = r"""
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <signal.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/wait.h>
    #include <unistd.h>

    enum { ROOM = 1 << 20, PAGE = 4096 };
    static char *room, other[64 << 10];
    static long size;
    static struct {
        int64_t (*add)(const void *, int64_t, const void *, void *);
        const void *how;
        int64_t n;
        void *out;
    } call;

    /* 1: what lies below the guard is as it was. */
    static int untouched(void) {
        for (char *at = room; at < room + ROOM - size - PAGE; at++)
            if (*at)
                return 0;
        return 1;
    }

    static void fault(int number, siginfo_t *about, void *context) {
        const char *guard = room + ROOM - size - PAGE, *at = about->si_addr;
        (void)number, (void)context;
        _exit(untouched() ? (at >= guard && at < guard + PAGE ? 1 : 2) : 3);
    }

    static void *work(void *none) {
        const stack_t apart = {.ss_sp = other, .ss_size = sizeof other};
        sigaltstack(&apart, NULL);
        return call.add(call.how, call.n, call.out, call.out) == call.n ? &call : none;
    }

    /* 0: done; 1: it ended in the guard; 2: elsewhere; 3: beyond the guard something is written; 4: failed. */
    int end_of(void *add, const void *how, int64_t n, void *out, long bytes) {
        int status;
        const pid_t child = fork();
        if (child != 0) {
            waitpid(child, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
        struct sigaction wanted = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        pthread_attr_t about;
        pthread_t thread;
        void *found = NULL;
        size = bytes;
        memcpy(&call.add, &add, sizeof add);
        call.how = how, call.n = n, call.out = out;
        room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mprotect(room + ROOM - size - PAGE, PAGE, PROT_NONE) != 0)
            _exit(5);
        sigaction(SIGSEGV, &wanted, NULL);
        sigaction(SIGBUS, &wanted, NULL);
        pthread_attr_init(&about);
        pthread_attr_setstack(&about, room + ROOM - size, (size_t)size);
        pthread_create(&thread, &about, work, NULL);
        pthread_join(thread, &found);
        _exit(untouched() ? (found ? 0 : 4) : 3);
    }
"""
LARGE_FRAME = """
    #include <stdint.h>
    /* As a law without dpf_reach: a frame larger than the guard, written at its far end. */
    int64_t add(const void *how, int64_t n, const void *in, void *out) {
        volatile char frame[150 << 10];
        (void)how, (void)in, (void)out;
        frame[0] = 1;
        return n * frame[0];
    }
"""


@pytest.fixture(scope="module")
def end_of(tmp_path_factory: pytest.TempPathFactory) -> ctypes._FuncPointer:
    found = ctypes.CDLL(str(compiled(tmp_path_factory.mktemp("stack"), TOOL))).end_of
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_long]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="stacks of Linux")
@pytest.mark.parametrize("law", ["DiscreteLaplace", "DiscreteGaussian", "Laplace", "Gaussian"])
def test_a_small_stack_ends_in_its_guard(end_of, law: str) -> None:
    for scale in (10, 1000, 10**8):
        noise = Noise(getattr(dpfast, law)(*([scale] if "Gauss" in law else [1, scale])))
        few, many = ctypes.cast(noise.address, ctypes.POINTER(ctypes.c_void_p))[:2]
        for how, n in ((few, 1), (few, 4000), (many, 100_000)):
            out = np.zeros(n, noise.dtype)
            add = tiers.ADD_FRESH
            ends = [end_of(add, how, n, out.ctypes.data, kib << 10) for kib in (32, 100, 140, 188, 232, 400)]
            assert ends == [1, 1, 1, 1, 0, 0], (scale, n)


@pytest.mark.skipif(sys.platform != "linux", reason="stacks of Linux")
def test_a_frame_that_steps_over_the_guard_is_seen(end_of, tmp_path: Path) -> None:
    add = ctypes.CDLL(str(compiled(tmp_path, LARGE_FRAME))).add
    out = np.zeros(1)
    assert end_of(ctypes.cast(add, ctypes.c_void_p).value, None, 1, out.ctypes.data, 64 << 10) == 3
