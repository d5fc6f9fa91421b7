# SPDX-License-Identifier: Apache-2.0
"""What tests of sealed releases share: keys, blocks and laws."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Key, Laplace, Snapping
from dpfast.noise.release import blocks

MECH = DiscreteLaplace(1, 10**6)  # two independent draws are equal once in four million
SECRET = bytes(range(100, 132))


def fresh(label: str = "visits") -> dpfast.ReleaseKey:
    return Key.generate().derive(label)


def known(label: str = "visits") -> dpfast.ReleaseKey:
    """The same secret each time, in another object."""
    return Key.from_bytes(SECRET).derive(label)


def cut(values: Any) -> list[Any]:
    """The blocks of an array, in order."""
    flat = np.asarray(values).reshape(-1)
    return [flat[begin : begin + blocks.BLOCK] for begin in range(0, flat.size, blocks.BLOCK)]


def sealed_of(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> Any:
    """The sealed key of an array, by way of its blocks."""
    return seal_of(key, values, mech, **options).without_ledger(resume=True)


def seal_of(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> Any:
    digester, shape = key.digester(mech, **options), np.asarray(values).shape
    return key.seal(mech, [digester(j, block) for j, block in enumerate(cut(values))], shape=shape)


def by_blocks(key: dpfast.ReleaseKey, values: Any, mech: Any = MECH, **options: Any) -> np.ndarray:
    sealed, out = sealed_of(key, values, mech, **options), []
    for j, block in reversed([*enumerate(cut(values))]):
        worker = pickle.loads(pickle.dumps(sealed.only(j)))
        out.append(worker.release(j, block, **options))
    found = np.concatenate(out[::-1]) if out else mech.release(np.asarray(values), key=key, resume=True, **options)
    return found.reshape(np.asarray(values).shape)


def independent(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results share no noise: constant difference, reordering, equal cells."""
    one, other = np.ravel(one), np.ravel(other)
    n = min(one.size, other.size)
    equal = np.isin(one, other).mean()  # by chance n / (4 * 10**6) each
    return equal < 0.05 and len(np.unique(one[:n] - other[:n])) > 0.9 * n


LAWS: dict[str, Any] = {
    "discrete_laplace": MECH,
    "narrow": DiscreteLaplace(1, 3),
    "two limbs": DiscreteLaplace(1, 2**58),
    "discrete_gaussian": DiscreteGaussian(20),
    "discrete_gaussian, large": DiscreteGaussian(10**6),
    "laplace": Laplace(1, 3),
    "laplace, wide": Laplace(1, 2.0**50, granularity=1),
    "gaussian": Gaussian(2),
    "snapping": Snapping(1, 3, bound=64),
}


def cells(mech: Any, n: int) -> np.ndarray:
    made = np.arange(n) % 23 - 5
    return made if isinstance(mech, (DiscreteLaplace, DiscreteGaussian)) else made / 4
