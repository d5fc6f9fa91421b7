# SPDX-License-Identifier: Apache-2.0
"""A thread whose stack is too small ends at the page that guards it, and writes nothing beyond."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiers
from preloaded import compiled

import dpfast
from dpfast.numba import Noise

LEAST = os.sysconf("SC_THREAD_STACK_MIN") >> 10 if sys.platform == "linux" else 0  # KiB: 16, and 128 on AArch64
TOOL = r"""
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <setjmp.h>
    #include <signal.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <sys/wait.h>
    #include <unistd.h>

    enum { ROOM = 1 << 20, PAGE = 4096 };
    static char *room, other[64 << 10];
    static long size;
    static int end; /* how the thread ends that runs */
    static sigjmp_buf back;
    typedef struct {
        int64_t (*add)(const void *, int64_t, const void *, void *);
        const void *how;
        int64_t n;
        void *out;
    } job;
    static job call;

    /* 1: what lies below the guard is as it was. */
    static int untouched(void) {
        for (int64_t *at = (int64_t *)room; at < (int64_t *)(room + ROOM - size - PAGE); at++)
            if (*at)
                return 0;
        return 1;
    }

    static void fault(int number, siginfo_t *about, void *context) {
        const char *guard = room + ROOM - size - PAGE, *at = about->si_addr;
        (void)number, (void)context;
        end = untouched() ? (at >= guard && at < guard + PAGE ? 1 : 2) : 3;
        siglongjmp(back, 1);
    }

    static void *work(void *none) {
        const stack_t apart = {.ss_sp = other, .ss_size = sizeof other};
        sigaltstack(&apart, NULL);
        if (sigsetjmp(back, 1) == 0) {
            const int done = call.add(call.how, call.n, call.out, call.out) == call.n;
            end = untouched() ? (done ? 0 : 4) : 3;
        }
        return none;
    }

    static int end_on(long bytes) {
        pthread_attr_t about;
        pthread_t thread;
        size = bytes;
        room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mprotect(room + ROOM - size - PAGE, PAGE, PROT_NONE) != 0)
            return 5;
        pthread_attr_init(&about);
        if (pthread_attr_setstack(&about, room + ROOM - size, (size_t)size) != 0)
            return 5;
        end = 6;
        pthread_create(&thread, &about, work, NULL);
        pthread_join(thread, NULL);
        munmap(room, ROOM);
        return end;
    }

    /* How each call ends on stacks of these sizes, all in one child, as the fork of a large process is dear. 0: done;
       1: it ended in the guard; 2: elsewhere; 3: beyond the guard something is written; 4: failed; less: by a signal. */
    void ends_of(const job *calls, int many, const long *bytes, int sizes, int *ends) {
        int status, *found = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        const pid_t child = fork();
        if (child == 0) {
            const struct sigaction wanted = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
            sigaction(SIGSEGV, &wanted, NULL);
            sigaction(SIGBUS, &wanted, NULL);
            for (int i = 0; i < many * sizes; i++) {
                call = calls[i / sizes];
                found[i] = end_on(bytes[i % sizes]);
            }
            _exit(0);
        }
        waitpid(child, &status, 0);
        for (int i = 0; i < many * sizes; i++)
            ends[i] = WIFEXITED(status) ? found[i] : -WTERMSIG(status);
        munmap(found, PAGE);
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


class Call(ctypes.Structure):
    """A function that adds noise, how, and to what."""

    _fields_ = (("add", ctypes.c_void_p), ("how", ctypes.c_void_p), ("n", ctypes.c_int64), ("out", ctypes.c_void_p))


@pytest.fixture(scope="module")
def ends_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[list[int]]]:
    call = ctypes.CDLL(str(compiled(tmp_path_factory.mktemp("stack"), TOOL))).ends_of
    call.restype = None

    def ends(sizes: list[int], *calls: tuple[int | None, int | None, np.ndarray]) -> list[list[int]]:
        """How calls end, by KiB of stack."""
        given = (Call * len(calls))(*(Call(add, how, len(out), out.ctypes.data) for add, how, out in calls))
        bytes_ = (ctypes.c_long * len(sizes))(*(n << 10 for n in sizes))
        found = ((ctypes.c_int * len(sizes)) * len(calls))()
        call(given, len(calls), bytes_, len(sizes), found)
        return [list(each) for each in found]

    return ends


@pytest.mark.skipif(sys.platform != "linux", reason="stacks of Linux")
@pytest.mark.parametrize("law", ["DiscreteLaplace", "DiscreteGaussian", "Laplace", "Gaussian"])
def test_a_small_stack_ends_in_its_guard(ends_of, law: str) -> None:
    laws, calls = [], []
    for scale in (10, 1000, 10**8):
        laws.append(noise := Noise(getattr(dpfast, law)(*([scale] if "Gauss" in law else [1, scale]))))
        few, many = ctypes.cast(noise.address, ctypes.POINTER(ctypes.c_void_p))[:2]
        for how, n in ((few, 1), (few, 4000), (many, 100_000)):
            calls.append((tiers.ADD_FRESH, how, np.zeros(n, noise.dtype)))
    sizes = [kib for kib in (32, 100, 140, 188, 232, 400) if kib >= LEAST]
    assert ends_of(sizes, *calls) == [[1 if kib < 208 else 0 for kib in sizes]] * 9


@pytest.mark.skipif(sys.platform != "linux", reason="stacks of Linux")
def test_a_frame_that_steps_over_the_guard_is_seen(ends_of, tmp_path: Path) -> None:
    add = ctypes.CDLL(str(compiled(tmp_path, LARGE_FRAME))).add
    stepping = ctypes.cast(add, ctypes.c_void_p).value, None, np.zeros(1)
    assert ends_of([max(64, LEAST), 400], stepping, stepping) == [[3, 0]] * 2
