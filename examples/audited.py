# SPDX-License-Identifier: Apache-2.0
"""Two mechanisms for `dpfast audit`: `f(count, n)` gives n noisy counts that claim epsilon 1.

dpfast audit examples/audited.py:numpy_laplace --epsilon 1
dpfast audit examples/audited.py:exact --epsilon 1 --distribution discrete_laplace
"""

import numpy as np

import dpfast

rng = np.random.default_rng()
mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)


def numpy_laplace(count: int, n: int) -> np.ndarray:
    """What scripts do: real noise from a generator that is not made for privacy."""
    return count + rng.laplace(0, 1, n)


def exact(count: int, n: int) -> np.ndarray:
    """A release of n equal counts."""
    return mechanism.release(np.full(n, count))


if __name__ == "__main__":
    print(numpy_laplace(0, 3), exact(0, 3), f"95 %: within ±{mechanism.interval()}", sep="\n")
