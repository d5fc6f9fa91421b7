# SPDX-License-Identifier: Apache-2.0
"""Faults at random moments: Ctrl-C, storms of exceptions, threads and memory that run out."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor

from fresh import python

# Prints the interrupted release's outcome, then the time of a whole one; the next must be right.
INTERRUPTED = """
    import os, signal, sys, time, warnings
    import numpy as np
    import dpfast
    from dpfast import _native

    class Pressed(KeyboardInterrupt):
        pass

    def press(*_):
        raise Pressed

    _native.small, _native.StreamKey.draw = lambda *_: None, lambda key: key.take(bytes(range(32)))  # one stream for all
    law = {"integer": dpfast.DiscreteLaplace, "real": dpfast.Laplace}[sys.argv[1]](1, 10)
    kind = np.int64 if sys.argv[1] == "integer" else np.float64

    def release(values):
        return law.release(values, out=values)

    signal.signal(signal.SIGALRM, press)
    values, begun = np.full(100, 777, kind), time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
        release(values)
        end = "whole"
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Pressed:
        end = "interrupted"
    took = time.monotonic() - begun
    # At scale 10, at most a tenth of the counts stays; half of 100 with a chance of 1e-23.
    left = "zeros" if not values.any() else "untouched" if (values == 777).all() else "noise" if (values != 777).mean() > 0.5 else "MIXED"
    found = release(np.zeros(100, kind))
    print(end, left, took, found.tobytes().hex())
"""

# Exceptions again and again during a release: what it leaves, and who writes or stays afterwards.
STORMS = """
    import _thread, collections, random, signal, sys, time
    import numpy as np
    import dpfast

    class Boom(BaseException):
        pass

    armed = False

    def boom(*_):
        if armed:
            raise Boom

    signal.signal(signal.SIGALRM, boom)
    random.seed(int(sys.argv[2]))
    n, found = 1_500_000, collections.Counter()
    given = np.arange(10**6, 10**6 + n)
    for round_ in range(int(sys.argv[1])):
        law, values = [(dpfast.DiscreteLaplace(0.1, 1), given), (dpfast.Laplace(0.1, 1.0), given.astype(float))][round_ % 2]
        law.release(values)
        in_place, options = round_ % 6 < 2, {}
        if round_ % 6 > 3:
            options = {"key": dpfast.Key.generate().derive("stormy"), "names": np.arange(n)}
        out = values.copy() if in_place else np.full_like(values, 7)
        before = out.copy()
        counts = out if in_place else values
        armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 8e-3), random.choice([3e-5, 1e-4, 3e-4, 1e-3]))
            try:
                law.release(counts, out=out, threads=2 + round_ % 3, **options)
            finally:
                armed = False
        except Boom:
            armed = False
        at_once = out.copy()
        signal.setitimer(signal.ITIMER_REAL, 0)
        deadline = time.monotonic() + 60
        while _thread._count() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not _thread._count(), "a thread stayed"
        assert np.array_equal(at_once, out), "a helper wrote after the call"
        if not out.any():
            found["zeros"] += 1
        elif np.array_equal(out, before):
            found["untouched"] += 1
        else:
            # |noise| of scale 10 stays below 600 but for a chance of 2 n e^-60; a tenth or less of the integers is unchanged
            assert np.abs(out - values if not in_place else out - given).max() < 600, "neither zeros nor noise"
            assert (out == given).mean() < 0.2, "counts without noise"
            found["noise"] += 1
    print(*(found[name] for name in ("zeros", "untouched", "noise")))
"""

# The address space ends at so many KiB beyond what is in use, in a release that wants threads.
STARVED = """
    import resource, sys
    import numpy as np
    import dpfast

    counts, found = np.arange(10**6, 10**6 + 2_000_000), []
    law = dpfast.DiscreteLaplace(0.1, 1)
    law.release(counts, threads=1)
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    out = np.full_like(counts, 7)
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 1024, resource.RLIM_INFINITY))
    try:
        law.release(counts, out=out, threads=4)
        end = "released"
    except MemoryError:
        end = "MemoryError"
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    noise = np.abs(out - counts)
    print(end, "zeros" if not out.any() else "untouched" if (out == 7).all() else
          "noise" if noise.max() < 600 and (noise == 0).mean() < 0.2 else "MIXED")
"""


def _first(kind: str, moment: float, **environment: str) -> list[str]:
    return python(INTERRUPTED, kind, moment, **environment).split()


def _interruptions(kind: str, times: int, *, cold: bool) -> dict[str, int]:
    """At moments spread over the first release of as many processes. warm: kernels are cached."""

    def begun(moment: float) -> list[str]:
        if not cold:
            return _first(kind, moment)
        with tempfile.TemporaryDirectory() as empty:
            return _first(kind, moment, NUMBA_CACHE_DIR=empty)

    whole = begun(1000)
    assert whole[0] == "whole"
    longest = min(float(whole[2]), float(begun(1000)[2]))  # the first may have filled the cache

    def one(i: int) -> bool:
        end, left, _, found = begun(longest * (i + 0.5) / times)
        assert found == whole[3], f"the release after an interrupt at {i}/{times} differs"
        assert left != "MIXED", (i, end)
        assert left == "noise" or end == "interrupted", (i, end, left)
        return end == "interrupted"

    with ThreadPoolExecutor(2) as pool:
        return {"times": times, "interrupted": sum(pool.map(one, range(times)))}


def check(*, cheap: bool) -> dict[str, object]:
    """Interrupt first releases, cache warm and empty, raise storms, take threads, memory."""
    figures: dict[str, object] = {}
    for kind in ("integer",) if cheap else ("integer", "real"):
        figures[f"warm first release, {kind}"] = _interruptions(kind, 2 if cheap else 100, cold=False)
        if not cheap:
            figures[f"cold first release, {kind}"] = _interruptions(kind, 100, cold=True)
    storms = 4 if cheap else 200
    zeros, untouched, noise = map(int, python(STORMS, storms, 1).split())
    assert zeros + untouched + noise == storms
    figures["storms"] = {"times": storms, "zeros": zeros, "untouched": untouched, "noise": noise}
    extras = (0,) if cheap else (0, 64, 256, 1024, 4096, 9216, 20480, 40960)
    ends = [python(STARVED, extra).split() for extra in extras]
    assert all(left == "noise" if end == "released" else left in {"zeros", "untouched"} for end, left in ends), ends
    figures["memory that ends"] = {"times": len(ends), "released": sum(end == "released" for end, _ in ends)}
    return figures
