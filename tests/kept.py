# SPDX-License-Identifier: Apache-2.0
"""Releases that an earlier version began, and its pickles: what this version makes of them.

`python tests/kept.py` wrote tests/vectors/kept once, with commit 8ab3011: inputs, a key, a ledger
for each adjacency that has paid for the releases here, the stages of jobs, digests of what was
released, and pickles.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from places import VECTORS

import dpfast
from dpfast.app.cli import main
from dpfast.engines import jobs
from dpfast.noise.release import seal

KEPT = VECTORS / "kept"
N = 24
SHOPS = [f"shop {i:02}" for i in range(N)]
COUNTS = [(7 * i) % 11 + 5 * (i % 3) for i in range(N)]
AREAS = [i // 3 for i in range(N)], [i // 12 for i in range(N)]  # areas of three shops, in two towns
LAW = dpfast.DiscreteLaplace(1, 1)
CAPS: dict[str, Any] = {"max_partitions": 2, "max_per_partition": 1}
BUDGET = {"epsilon": 1000, "delta": Fraction(1, 100)}


def people() -> pa.Table:
    """Rows of forty people: a shop, a town, minutes."""
    row = np.arange(300)
    return pa.table({
        "person": [f"p{i % 40}" for i in row], "shop": [SHOPS[i * i % N] for i in row],
        "town": [("east", "west")[i % 2] for i in row], "minutes": (row * 37 % 90).tolist(),
    })  # fmt: skip


def cells(path: Path) -> bytes:
    """What a file holds; how Parquet, Arrow and gzip write it depends on their versions."""
    if path.suffix in {".parquet", ".arrow"}:
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        return repr([str(table.schema.remove_metadata()), table.to_pylist()]).encode()
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


class Home:
    """A folder with a key and a ledger. resume: whether a release is gone on with."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.folder, self.resume = folder, resume
        self.key = dpfast.KeyFile(folder / "visits.key")
        self.ledger = dpfast.Ledger(folder / "budget.db")
        self.exchanged = dpfast.Ledger(folder / "exchanged.db")  # under substitution

    def paid(self, label: str) -> dict[str, Any]:
        return {"key": self.key.derive(label), "ledger": self.ledger, "resume": self.resume}

    def command(self, verb: str, source: str, out: str, label: str, *words: str) -> bytes:
        """What the command writes. An error is raised as it was, and not told by its exit code."""
        given = [verb, str(self.folder / source), str(self.folder / out), "--ledger", str(self.ledger.path), *words]
        given += ["--key-file", str(self.key.path), "--label", label, "--quiet", "--force", *["--resume"] * self.resume]
        if code := main(given):
            raise SystemExit(code)
        return cells(self.folder / out)


def array(home: Home) -> bytes:
    paid = home.paid("array")
    ledger = paid.pop("ledger")
    return ledger.release(LAW, COUNTS, **paid).tobytes()


def frame(home: Home) -> bytes:
    import pandas as pd

    table = pd.DataFrame({"east": COUNTS, "west": COUNTS[::-1]}, index=SHOPS)
    paid = home.paid("frame")
    noisy = paid.pop("ledger").release(LAW, table, **paid)
    return noisy.to_numpy().tobytes() + repr([list(noisy.index), list(noisy.columns)]).encode()


def levels_of(found: dpfast.NoisyTree) -> list[Any]:
    return [None if level is None else level.tolist() for level in found.noisy]


def grown(home: Home, label: str, **shape: Any) -> bytes:
    found = dpfast.tree(COUNTS, sensitivity=dpfast.Sensitivity(1, 1), epsilon=1, **shape, **home.paid(label))
    return repr(levels_of(found)).encode()


def threshold(home: Home) -> bytes:
    sensitivity = dpfast.Sensitivity(1, 1, keys="private")
    found = dpfast.thresholded(
        SHOPS, [40 * n for n in COUNTS], epsilon=1, delta=1e-6, sensitivity=sensitivity, **home.paid("threshold")
    )
    return repr([list(found.keys), list(found.counts)]).encode()


def gaussian(home: Home, label: str, **caps: int) -> bytes:
    found = dpfast.thresholded(
        SHOPS, [40 * n for n in COUNTS], epsilon=1, delta=1e-6, sensitivity=dpfast.Sensitivity(3, 3, keys="private", **caps),
        noise="gaussian", **home.paid(label),
    )  # fmt: skip
    return repr([list(found.keys), list(found.counts)]).encode()


def exchanged(home: Home, label: str, **how: Any) -> bytes:
    change = dpfast.Sensitivity(1, 1, adjacency="substitution")
    found = dpfast.tree(
        COUNTS, branching=3, sensitivity=change, **how, **{**home.paid(label), "ledger": home.exchanged}
    )
    return repr(levels_of(found)).encode()


def histogram(home: Home, label: str = "histogram", **how: Any) -> bytes:
    rows, paid = people(), home.paid(label)
    counted = dpfast.bounded_histogram(
        rows["shop"].to_pylist(), rows["person"].to_pylist(), domain=SHOPS, key=paid["key"], **CAPS, **how
    )
    return counted.release(dpfast.DiscreteLaplace(1, counted.sensitivity), **paid).tobytes()


def privatize(home: Home, end: str, *words: str) -> bytes:
    label = " ".join(["privatize", end, *words])
    return home.command(
        "privatize", f"in.{end}", f"out.{end}", label, "--column", "n", "--epsilon", "1", "--sensitivity", "1", *words
    )


def rows_to_counts(home: Home, label: str, *words: str) -> bytes:
    return home.command(
        "histogram", "rows.csv", "counted.csv", label, "--by", "town", "--unit", "person", "--max-partitions", "2",
        "--max-per-partition", "1", *words,
    )  # fmt: skip


def job(home: Home, kind: str, **how: Any) -> bytes:
    paid = home.paid(kind)
    stage, to = home.folder / f"{kind}.stage", home.folder / f"{kind}.out"
    counts = jobs.bounded_counts(people(), unit="person", key=paid["key"], stage=stage, **CAPS, **how)
    known = "domain" in how
    mechanism = (
        dpfast.DiscreteLaplace(1, counts.sensitivity) if known else jobs.Withholding(9, 1e-3, counts.sensitivity)
    )
    shutil.rmtree(to, ignore_errors=True)
    jobs.release(counts, mechanism, to=to, **paid)
    return repr(pq.read_table(to).to_pydict()).encode()


DOMAIN = ["--domain", "town=east,west", "--epsilon", "1"]
CASES: dict[str, Callable[[Home], bytes]] = {
    "array": array,
    "frame": frame,
    "tree by branching": lambda home: grown(home, "branching", branching=3),
    "tree by levels": lambda home: grown(home, "levels", levels=list(AREAS)),
    "tree with a total": lambda home: grown(home, "total", branching=3, root=True),
    "tree by substitution": lambda home: exchanged(home, "exchanged", epsilon=1),
    "tree by substitution, with a total": lambda home: exchanged(home, "exchanged total", epsilon=1, root=True),
    "tree by substitution, gaussian": lambda home: exchanged(home, "exchanged rho", epsilon=1, delta=1e-6, root=True),
    "threshold": threshold,
    "gaussian threshold": lambda home: gaussian(home, "gaussian"),
    "gaussian threshold, l1": lambda home: gaussian(home, "gaussian l1", l1=5),
    "histogram": histogram,
    **{
        f"{end}{how}": lambda home, end=end, words=words: privatize(home, end, *words)
        for end in ("csv", "csv.gz", "jsonl", "parquet", "arrow")
        for how, words in {"": [], ", sorted": ["--sort-by", "shop"]}.items()
    },
    "npy": lambda home: home.command("privatize", "in.npy", "out.npy", "npy", "--epsilon", "1", "--sensitivity", "1"),
    "folder": lambda home: home.command(
        "privatize", "folder", "whole.parquet", "folder", "--column", "n", "--epsilon", "1", "--sensitivity", "1"
    ),
    "rows, domain": lambda home: rows_to_counts(home, "rows 1", *DOMAIN),
    "rows, sum": lambda home: rows_to_counts(home, "rows 2", *DOMAIN, "--sum", "minutes", "--clamp", "0", "60"),
    "rows, threshold": lambda home: rows_to_counts(home, "rows 3", "--threshold", "--epsilon", "9", "--delta", "1e-3"),
    "job, known keys": lambda home: job(home, "known", by="shop", domain=SHOPS),
    "job, unknown keys": lambda home: job(home, "unknown", by=["shop", "town"], buckets=2),
}  # fmt: skip


def begun(folder: Path) -> Home:
    """A copy of what was kept, as its owner has it."""
    shutil.copytree(KEPT, folder, dirs_exist_ok=True)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    for name in ("budget.db", "exchanged.db"):
        dpfast.Ledger.upgrade(folder / name)
    return Home(folder, resume=True)


def objects() -> dict[str, Any]:
    """Public objects that pickle."""
    rows = people()
    made = dpfast.Key(sha256(b"a key in bytes").digest()).derive("pickled")
    sealed = made.seal(LAW, [made.digester(LAW)(0, COUNTS)], shape=(N,))
    counted = dpfast.bounded_histogram(rows["shop"].to_pylist(), rows["person"].to_pylist(), domain=SHOPS, **CAPS)
    found = [
        LAW, dpfast.DiscreteGaussian(3, sensitivity=dpfast.Sensitivity(2, 3)), dpfast.Laplace(1, 24), dpfast.Gaussian(2.5, sensitivity=dpfast.Sensitivity(1, 1)),
        dpfast.Snapping(1, 1, bound=100), dpfast.OneSidedGeometric(3, 1), dpfast.RandomizedResponse(1, 4),
        dpfast.Exponential(1, 1), dpfast.PermuteAndFlip(1, 1), dpfast.NoisyMax(1, 1),
        dpfast.AboveThreshold(1, 1, threshold=5), dpfast.Sensitivity(3, 2, adjacency="substitution"),
        LAW.guarantee, dpfast.compose(LAW, LAW), counted,
        dpfast.tree(COUNTS, branching=3, sensitivity=dpfast.Sensitivity(1, 1), epsilon=1),
        sealed.without_ledger(), made.digester(LAW), made.chooser(), made.bucketer(8), made.digester(LAW)(0, COUNTS),
        dpfast.errors.OtherInputError("other"), dpfast.errors.BudgetExhausted("none left"),
    ]  # fmt: skip
    return {f"{type(each).__name__} {i}": each for i, each in enumerate(found)}


def told(thing: Any) -> str:
    """What an object says of itself and computes, without what follows from its parameters."""
    found = [f"{thing!r}".partition(", standard deviation")[0]]
    if isinstance(thing, dpfast.NoisyTree):
        found += levels_of(thing)
    if isinstance(thing, dpfast.BoundedHistogram):
        found += thing.counts.tolist()
    if isinstance(thing, seal.Sealed):
        found += thing.release(0, COUNTS).tolist()
    if isinstance(thing, seal.Digester):
        thing = thing(0, COUNTS)
    return repr([*found, getattr(thing, "digest", None) if isinstance(thing, seal.BlockDigest) else None])


def make(folder: Path) -> None:
    """Begin all releases, under a key of their own."""
    folder.mkdir(parents=True)
    (folder / "visits.key").touch(0o600)
    (folder / "visits.key").write_bytes(sha256(b"releases that are kept").digest())
    dpfast.Ledger(folder / "budget.db", **BUDGET, create=True)
    dpfast.Ledger(folder / "exchanged.db", **BUDGET, adjacency="substitution", create=True)
    table = pa.table({"shop": SHOPS[::-1], "note": ["ab"[i % 2] for i in range(N)], "n": COUNTS})
    pq.write_table(table, folder / "in.parquet")
    (folder / "folder").mkdir()
    for i in range(2):
        pq.write_table(table.slice(12 * i, 12), folder / "folder" / f"{i}.parquet")
    with pa.ipc.new_file(folder / "in.arrow", table.schema) as out:
        out.write_table(table)
    rows = table.to_pylist()
    text = "shop,note,n\n" + "".join(f"{row['shop']},{row['note']},{row['n']}\n" for row in rows)
    (folder / "in.csv").write_text(text)
    (folder / "in.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.save(folder / "in.npy", np.array(COUNTS))
    (folder / "rows.csv").write_text(
        "person,town,minutes\n" + "".join(f"{r['person']},{r['town']},{r['minutes']}\n" for r in people().to_pylist())
    )
    home = Home(folder, resume=False)
    digests = {name: sha256(case(home)).hexdigest() for name, case in CASES.items()}
    (folder / "released.json").write_text(json.dumps(digests, indent=2) + "\n")
    things = objects()
    (folder / "objects.pickle").write_bytes(pickle.dumps({name: pickle.dumps(each) for name, each in things.items()}))
    for lock in folder.glob("*.lock"):
        lock.unlink()
    (folder / "objects.json").write_text(
        json.dumps({name: told(each) for name, each in things.items()}, indent=2) + "\n"
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT)
