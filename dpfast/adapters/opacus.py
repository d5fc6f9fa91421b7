# SPDX-License-Identifier: Apache-2.0
"""Opacus on exact noise: optimizers and an engine that makes them.

The optimizers release the sum of clipped gradients.

    engine = PrivacyEngine()  # in the place of opacus.PrivacyEngine; all else stays
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, ...)

Clipping, sampling, scaling and accounting are Opacus's own. A step releases each parameter's
`summed_grad` by the Gaussian mechanism with sigma = noise_multiplier * max_grad_norm, the exact
product of the two numbers, on a grid of the largest power of two that is at most sigma * 2^-20. All
parameters together are the one Gaussian mechanism that the accountant knows.
Source: [ACG16] Abadi et al. 2016, Algorithm 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpfast import NoiseSource, noise_source
from dpfast.adapters import library
from dpfast.errors import DTypeError, ParameterError

opacus: Any = library("opacus", "opacus", "1.6")
torch: Any = library("torch", "opacus", ">=2.6")
optimizers: Any = opacus.optimizers

__all__ = [
    "DPOptimizer",
    "DPOptimizerFastGradientClipping",
    "DPPerLayerOptimizer",
    "DistributedDPOptimizer",
    "DistributedDPOptimizerFastGradientClipping",
    "PrivacyEngine",
]


def __dir__() -> list[str]:
    return __all__


class _Released:
    """A class before an optimizer of Opacus: its clipped sums, our noise."""

    params: list[Any]
    noise_multiplier: float
    max_grad_norm: float

    def __init__(self, *args: Any, generator: None = None, **options: Any) -> None:
        if generator is not None:
            raise ParameterError("generator must be None: this noise comes from the operating system, and has no seed")
        super().__init__(*args, generator=None, **options)  # type: ignore[call-arg]  # the class behind this one
        self._noise()  # refused now, not at the first step

    def _noise(self) -> NoiseSource:
        """The mechanism for the present noise multiplier and norm, which schedulers change."""
        # the adjusted one is Opacus's own, where its clipping adapts
        multiplier = float(getattr(self, "_adjusted_noise_multiplier", self.noise_multiplier))
        norm = float(self.max_grad_norm)
        if not (0 < multiplier < math.inf and 0 < norm < math.inf):
            raise ParameterError(
                f"noise_multiplier and max_grad_norm must be finite and positive, got {multiplier} and {norm}: "
                "there is no step without noise"
            )
        return noise_source("gaussian", Fraction(multiplier) * Fraction(norm))

    def add_noise(self) -> None:
        """Set each `grad` to a release of its `summed_grad`, of the same dtype.

        Raises: ParameterError for gradients that are not finite, and for no noise; DTypeError for
        those that are not float32 or float64 in the memory of the host. Then all `grad` are None.
        """
        noise = self._noise()
        optimizer = optimizers.optimizer
        try:
            for p in self.params:
                optimizer._check_processed_flag(p.summed_grad)  # noqa: SLF001  # as the method that this replaces
                made = np.asarray(noise.release(_array(p.summed_grad)))  # one number of a 0-d array
                p.grad = torch.from_numpy(made).view_as(p)
                optimizer._mark_as_processed(p.summed_grad)  # noqa: SLF001
        except BaseException:
            for p in self.params:
                p.grad = None
            raise


def _array(gradient: Any) -> Any:
    """The memory of a tensor, as an array."""
    if type(gradient) is not torch.Tensor or gradient.device.type != "cpu":
        raise DTypeError(
            f"gradients must be plain tensors on the CPU, not {type(gradient).__name__} on {gradient.device}: "
            "train there, or with Opacus's own noise"
        )
    if gradient.dtype not in (torch.float32, torch.float64):
        raise DTypeError(f"gradients must be of float32 or float64, not {gradient.dtype}")
    return gradient.detach().numpy()


class DPOptimizer(_Released, optimizers.DPOptimizer):  # type: ignore[misc]
    pass


class DPOptimizerFastGradientClipping(_Released, optimizers.DPOptimizerFastGradientClipping):  # type: ignore[misc]
    pass


class DPPerLayerOptimizer(_Released, optimizers.DPPerLayerOptimizer):  # type: ignore[misc]
    pass


# Theirs comes first: it adds noise on the first worker alone, through the next class in line, which
# is ours.


class DistributedDPOptimizer(optimizers.DistributedDPOptimizer, DPOptimizer):  # type: ignore[misc]
    pass


class DistributedDPOptimizerFastGradientClipping(
    optimizers.DistributedDPOptimizerFastGradientClipping,  # type: ignore[misc]
    DPOptimizerFastGradientClipping,
):
    pass


OURS = {
    getattr(optimizers, ours.__name__): ours
    for ours in (
        DPOptimizer,
        DPOptimizerFastGradientClipping,
        DPPerLayerOptimizer,
        DistributedDPOptimizer,
        DistributedDPOptimizerFastGradientClipping,
    )
}


class PrivacyEngine(opacus.PrivacyEngine):  # type: ignore[misc]
    """Opacus's engine with the optimizers of this module.

    Here secure_mode is about the sampling alone.

    Raises: ParameterError for adaptive clipping, for per-layer clipping in distributed hooks, and
    for sharded training, whose noise has other interfaces; for a noise_generator; and for no noise.
    """

    def _prepare_optimizer(
        self,
        *,
        optimizer: Any,
        distributed: bool = False,
        clipping: str = "flat",
        noise_generator: None = None,
        grad_sample_mode: str = "hooks",
        **options: Any,
    ) -> Any:
        theirs = optimizers.get_optimizer_class(
            clipping=clipping, distributed=distributed, grad_sample_mode=grad_sample_mode
        )
        if theirs not in OURS:
            raise ParameterError(f"clipping={clipping!r} here takes {theirs.__name__}, which has no release of its own")
        if isinstance(optimizer, optimizers.DPOptimizer):
            optimizer = optimizer.original_optimizer
        return OURS[theirs](optimizer=optimizer, generator=noise_generator, secure_mode=self.secure_mode, **options)
