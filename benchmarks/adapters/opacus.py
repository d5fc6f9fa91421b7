# SPDX-License-Identifier: Apache-2.0
"""Opacus: its noise for the gradients of a step, and their release."""

from __future__ import annotations

import torch
from opacus import optimizers

from adapters import compared
from dpfast.adapters import opacus as ours

VERSIONS = ("opacus", "torch")
SIZE = 1_000_000
TIMES = 5


def noise(cls, size, **options):
    """One add_noise for that many gradients, as a step calls it."""
    p = torch.nn.Parameter(torch.zeros(size))
    optimizer = cls(
        torch.optim.SGD([p], lr=1.0), noise_multiplier=1.1, max_grad_norm=1.0, expected_batch_size=1, **options
    )
    clipped = torch.rand(size)

    def run():
        for _ in range(TIMES):
            p.summed_grad = clipped.view(size)  # without the mark of the last one
            optimizer.add_noise()

    return run


def rows(size):
    for n in (-(-size // 100), size):
        for note, options in (("", {}), (", against `secure_mode`", {"secure_mode": True})):
            before, after = noise(optimizers.DPOptimizer, n, **options), noise(ours.DPOptimizer, n)
            yield compared(f"`add_noise`, {n:,} gradients{note}", before, after, TIMES * n)
