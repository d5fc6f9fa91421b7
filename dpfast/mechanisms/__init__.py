# SPDX-License-Identifier: Apache-2.0
"""The public nouns: one law, validated once, with what it spends."""

from dpfast.mechanisms.discrete_laplace import DiscreteLaplace, discrete_laplace

__all__ = ["DiscreteLaplace", "discrete_laplace"]
