# SPDX-License-Identifier: Apache-2.0
"""The peers, each by its own documented call; those not installed are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np

from dpfast.evidence.bench.measure import Row, installed
from dpfast.evidence.bench.rows import COUNTS, PIECE, REALS, Arrays, Unsafe, written

LONGEST = 0.5  # seconds that a peer's run takes, about
# Open in the package's own tracker: precision-based attacks work on its floating-point noise.
DIFFPRIVLIB = "https://github.com/IBM/differential-privacy-library/issues/94"


class Peer(NamedTuple):
    distribution: str
    rows: Callable[[Arrays], Iterator[Row]]


def rows(a: Arrays) -> tuple[list[Row], dict[str, str], dict[str, str]]:
    """The rows of installed peers, their versions, and why others are missing."""
    found: list[Row] = []
    versions: dict[str, str] = {}
    absent: dict[str, str] = {}
    for name, peer in PEERS.items():
        here = installed(peer.distribution)
        if here is None:
            absent[name] = f"not installed (pip install {peer.distribution})"
            continue
        try:
            found += peer.rows(a)
        except Exception as error:  # a peer's own error: whatever keeps it from running here
            absent[name] = f"{peer.distribution} {here} does not run here ({type(error).__name__}: {error!s:.120})"
        else:
            versions[name] = here
    return found, versions, absent


def row(
    a: Arrays,
    name: str,
    run: Callable[[list[Any]], object],
    about_ns: int,
    called: str,
    *,
    real: bool,
    dispute: str = "",
) -> Row:
    """A peer's row: it takes its counts as Python numbers in a list."""
    arrays = REALS if real else COUNTS
    size = max(1, min(a.size, int(LONGEST / about_ns * 1e9)))
    given = a[arrays[0]][:size].tolist()
    who = name.partition(" ")[0]
    kind: Literal["disputed", "safe"] = "disputed" if dispute else "safe"
    against = a.against(*arrays)
    return Row(name, partial(run, given), size, against, kind=kind, who=who, called=called, chart=True, dispute=dispute)


def each(noise: Callable[[Any], object]) -> Callable[[list[Any]], object]:
    return lambda given: [noise(value) for value in given]


def opendp(a: Arrays) -> Iterator[Row]:
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    for law, kind, scale, about in (
        ("laplace", "i64", 1, 4_500),
        ("gaussian", "i64", 10, 7_500),
        ("laplace", "f64", 1, 18_500),
        ("gaussian", "f64", 10, 46_000),
    ):
        real, norm = kind == "f64", "l1_distance" if law == "laplace" else "l2_distance"
        domain = dp.vector_domain(dp.atom_domain(T=kind, nan=False) if real else dp.atom_domain(T=kind))
        measurement = getattr(dp.m, f"make_{law}")(domain, getattr(dp, norm)(T=kind), scale=float(scale))
        atoms = f"atom_domain(T={kind!r}{', nan=False' * real})"
        called = f"dp.m.make_{law}(vector_domain({atoms}), {norm}(T={kind!r}), scale={scale:.1f})(list)"
        name = f"OpenDP {law}, vector of {kind}, {'scale' if law == 'laplace' else 'sigma'} {scale}"
        yield row(a, name, measurement, about, called, real=real)


def diffprivlib(a: Arrays) -> Iterator[Row]:
    mechanisms = import_module("diffprivlib.mechanisms")
    delta = {"delta": 1e-6}
    table: tuple[tuple[str, dict[str, float], int, bool], ...] = (
        ("Geometric", {}, 5_200, False),
        ("Laplace", {}, 5_300, True),
        ("GaussianDiscrete", delta, 13_000, False),
        ("GaussianAnalytic", delta, 6_200, True),
    )
    for name, more, about, real in table:
        noise = each(getattr(mechanisms, name)(epsilon=1, sensitivity=1, **more).randomise)
        options = "".join(f", {key}={value:g}" for key, value in more.items())
        called = f"mechanisms.{name}(epsilon=1, sensitivity=1{options}).randomise(value) for each value of a list"
        dispute = DIFFPRIVLIB if real else ""
        yield row(a, f"diffprivlib {name}", noise, about, called, real=real, dispute=dispute)


def pydp(a: Arrays) -> Iterator[Row]:
    numerical = import_module("pydp.algorithms.numerical_mechanisms")
    for law, parameters, about in (("Laplace", (1.0, 1.0), 2_700), ("Gaussian", (1.0, 1e-6, 1.0), 2_100)):
        for kind in ("int", "float"):
            noise = each(getattr(numerical, f"{law}Mechanism")(*parameters).add_noise)
            called = f"{law}Mechanism{parameters}.add_noise({kind}) for each value of a list"
            yield row(a, f"PyDP {law}, {kind}", noise, about, called, real=kind == "float")


def randomgen(a: Arrays) -> Iterator[Row]:
    """A generator that is cryptographic, under NumPy's floating-point noise."""
    noise = Unsafe(np.random.Generator(import_module("randomgen").ChaCha(rounds=20)))
    made = "randomgen.ChaCha(rounds=20)"
    for dtype, (given, out) in (("int64", COUNTS), ("float64", REALS)):
        run = partial(noise.chunked, "laplace", a[given], a[out])
        called = f"rng = np.random.Generator({made}); {written('laplace', given)}, {PIECE} at a time"
        yield Row(
            f"NumPy laplace on randomgen's ChaCha, {dtype}", run, a.size, a.against(given, out), kind="unsafe",
            who="randomgen", called=called, chart=dtype == "int64",
        )  # fmt: skip


PEERS = {
    "OpenDP": Peer("opendp", opendp),
    "diffprivlib": Peer("diffprivlib", diffprivlib),
    "PyDP": Peer("python-dp", pydp),
    "randomgen": Peer("randomgen", randomgen),
}
