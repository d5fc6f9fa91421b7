# SPDX-License-Identifier: Apache-2.0
"""The public nouns: one law, validated once, with what it spends."""

from dpfast.mechanisms.above_threshold import AboveThreshold
from dpfast.mechanisms.discrete_gaussian import DiscreteGaussian
from dpfast.mechanisms.discrete_laplace import DiscreteLaplace
from dpfast.mechanisms.gaussian import Gaussian
from dpfast.mechanisms.laplace import Laplace
from dpfast.mechanisms.laws import LAWS, own_laws
from dpfast.mechanisms.noise_source import NoiseSource, noise_source
from dpfast.mechanisms.one_sided_geometric import OneSidedGeometric
from dpfast.mechanisms.randomized_response import RandomizedResponse
from dpfast.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from dpfast.mechanisms.snapping import Snapping

__all__ = [
    "LAWS",
    "AboveThreshold",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Laplace",
    "NoiseSource",
    "NoisyMax",
    "OneSidedGeometric",
    "PermuteAndFlip",
    "RandomizedResponse",
    "Snapping",
    "noise_source",
    "own_laws",
]
