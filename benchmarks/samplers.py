# SPDX-License-Identifier: Apache-2.0
"""Three peers as samplers, each by its own documented call and at scale 10, beside dpfast.

    python benchmarks/samplers.py [--rounds 7] [other options of dpfast bench]
    dpfast bench --sampler benchmarks/samplers.py:opendp --distribution discrete_laplace --epsilon 0.1

The first runs all that are installed (pip install 'dpfast[peers]'), the second one alone.
"""

from __future__ import annotations

import os.path
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

PEERS = {  # the package to look for, and the law that the call is documented to draw
    "opendp": ("opendp", "discrete_laplace"),
    "diffprivlib": ("diffprivlib", "discrete_laplace"),
    "python_dp": ("pydp", "laplace"),
}


@cache
def measurement() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=10.0)


def opendp(counts: np.ndarray) -> np.ndarray:
    return np.array(measurement()(counts.tolist()))


def diffprivlib(counts: np.ndarray) -> np.ndarray:
    from diffprivlib.mechanisms import Geometric

    return np.array([*map(Geometric(epsilon=0.1, sensitivity=1).randomise, counts.tolist())])


def python_dp(values: np.ndarray) -> np.ndarray:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    return np.array([*map(LaplaceMechanism(0.1, 1.0).add_noise, values.tolist())])


def main(options: list[str]) -> int:
    """The worst exit code of the peers that are installed."""
    from dpfast.app.cli import main as dpfast

    codes, here = [0], os.path.relpath(__file__)
    for name, (package, law) in PEERS.items():
        if find_spec(package) is None:
            print(f"{name}: skipped, it is not installed: pip install 'dpfast[peers]'", file=sys.stderr)
            continue
        codes.append(
            dpfast(["bench", "--sampler", f"{here}:{name}", "--distribution", law, "--epsilon", "0.1", *options])
        )
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
