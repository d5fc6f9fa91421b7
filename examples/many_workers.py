# SPDX-License-Identifier: Apache-2.0
"""One sealed release by many processes: a worker is killed, all is tried again, and paid for once.

The driver freezes the counts, has the workers digest their blocks, seals the digests, reserves the
seal, and has the workers draw. Every try may do all of this again (docs/sealed.md).
"""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import dpfast

ROWS = 65_536  # a block has so many, but for the last
MECHANISM = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)


def block(folder: Path, j: int) -> np.ndarray:
    return np.load(folder / "frozen.npy", mmap_mode="r")[j * ROWS : (j + 1) * ROWS]


def digest(folder: Path, digester: Any, j: int) -> Any:  # on a worker
    return digester(j, block(folder, j))


def draw(folder: Path, unlucky: int | None, sealed: Any, j: int) -> None:  # on a worker
    if j == unlucky:
        os.kill(os.getpid(), signal.SIGKILL)
    made = folder / f".{j}.{os.getpid()}"  # a name of this try, until all of the block is there
    with made.open("wb") as file:
        np.save(file, sealed.release(j, block(folder, j)))  # `sealed` draws this block, and nothing else
    made.replace(folder / f"noisy-{j}.npy")


def release(folder: Path, unlucky: int | None = None) -> None:
    """A whole try, from first to last; the first one and any other are the same."""
    (n,) = np.load(folder / "frozen.npy", mmap_mode="r").shape
    blocks = range(-(-n // ROWS))
    ledger, key = dpfast.Ledger(folder / "budget.db"), dpfast.KeyFile(folder / "visits.key").derive("visits 2026-11")
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        digests = workers.map(partial(digest, folder, key.digester(MECHANISM)), blocks)
        seal = key.seal(MECHANISM, digests, shape=(n,))
        sealed = ledger.reserve(seal, resume=True)  # charged now, or in an earlier try
        list(workers.map(partial(draw, folder, unlucky), map(sealed.only, blocks), blocks))


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        folder = Path(name)
        dpfast.Ledger(folder / "budget.db", epsilon=3, create=True)
        dpfast.KeyFile.create(folder / "visits.key")  # once, as `dpfast key create visits.key` does
        np.save(
            folder / "frozen.npy", np.random.default_rng(2026).poisson(3, 300_000)
        )  # private, and never computed anew

        try:
            release(folder, unlucky=4)
        except BrokenProcessPool:
            early = {file.name: file.read_bytes() for file in folder.glob("noisy-*.npy")}
            print(f"a worker was killed; {len(early)} of 5 blocks are there")
        release(folder)
        assert all((folder / name).read_bytes() == drawn for name, drawn in early.items())
        noisy = np.concatenate([np.load(folder / f"noisy-{j}.npy") for j in range(5)])
        print(f"after another try {noisy.size:,} counts are there, and what was there before has not changed")
        print(dpfast.Ledger(folder / "budget.db").history())
        print(f"each is within ±{MECHANISM.interval()} with probability 95 %")
