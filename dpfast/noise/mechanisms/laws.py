# SPDX-License-Identifier: Apache-2.0
"""The registry of laws, for audits, the self-test, the benchmarks and the command line."""

from __future__ import annotations

from typing import Any

from dpfast.noise.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.noise.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.noise.mechanisms.gaussian import Gaussian
from dpfast.noise.mechanisms.laplace import Laplace
from dpfast.noise.mechanisms.mechanism import Mechanism
from dpfast.noise.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.noise.mechanisms.snapping import Snapping

LAWS: dict[str, type[Any]] = {
    law.NAME: law for law in (DiscreteLaplace, OneSidedGeometric, DiscreteGaussian, Laplace, Snapping, Gaussian)
}


def own_laws() -> dict[str, type[Mechanism]]:
    """Those that C knows by their own name."""
    return {name: law for name, law in LAWS.items() if name == law.LAW}
