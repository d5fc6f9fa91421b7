# SPDX-License-Identifier: Apache-2.0
"""Opacus: its noise for the gradients of a step, and the release of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from opacus import optimizers
from row import Row

from dpfast.adapters import opacus as ours

VERSIONS = ("opacus", "torch")
TIMES = 5


def noise(cls: type, size: int, **options: bool) -> Callable[[], object]:
    """One add_noise for that many gradients, as a step calls it."""
    p = torch.nn.Parameter(torch.zeros(size))
    optimizer = cls(
        torch.optim.SGD([p], lr=1.0), noise_multiplier=1.1, max_grad_norm=1.0, expected_batch_size=1, **options
    )
    clipped = torch.rand(size)

    def run() -> None:
        for _ in range(TIMES):
            p.summed_grad = clipped.view(size)  # without the mark of the last one
            optimizer.add_noise()

    return run


def rows() -> list[Row]:
    return [
        Row(f"`add_noise`, {size:,} gradients{note}", noise(optimizers.DPOptimizer, size, **options),
            noise(ours.DPOptimizer, size), TIMES * size, TIMES * size)
        for size in (10_000, 1_000_000)
        for note, options in (("", {}), (", against `secure_mode`", {"secure_mode": True}))
    ]  # fmt: skip
