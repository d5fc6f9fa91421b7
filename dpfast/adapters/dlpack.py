# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, by DLPack, read where they lie.

A torch tensor gives a tensor, any other array a NumPy array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpfast.errors import DTypeError

HOST = 1, 3  # DLPack's numbers of the devices whose memory the CPU reads: its own, and what is pinned for CUDA


def release(released: Callable[..., Any], values: Any, options: dict[str, Any]) -> Any:
    """The result of `released(values, **options)` for an array with `__dlpack__`.

    released: a mechanism's release. Nothing is copied.

    Raises: DTypeError (on another device, part of a graph, sparse, of a type that NumPy lacks);
        what release raises.
    """
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(values, torch.Tensor)
    kind = type(values).__name__
    if getattr(values, "requires_grad", False):
        raise DTypeError(f"{kind} requires grad, and a release has no gradient: release values.detach()")
    try:
        array = values.numpy() if is_tensor else _read(values)  # torch's DLPack forgets that a view is negated
    except (BufferError, RuntimeError, TypeError, ValueError):  # its own message is dropped, for it could quote values
        facts = (f"{name} {getattr(values, name, 'unknown')}" for name in ("dtype", "device"))
        raise DTypeError(
            f"{kind} ({', '.join(facts)}) cannot be read where it lies: it must be dense, on the CPU, and of a type of NumPy's"
        ) from None
    noisy = released(array, **options)
    return torch.from_numpy(np.asarray(noisy)) if is_tensor else noisy  # type: ignore[union-attr]


def _read(values: Any) -> npt.NDArray[Any]:
    if values.__dlpack_device__()[0] not in HOST:
        raise BufferError
    return np.from_dlpack(values)
