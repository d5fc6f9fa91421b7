# SPDX-License-Identifier: Apache-2.0
"""The peers, each by its own documented call; those that are not installed are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dpfast.bench.measure import Row, installed
from dpfast.bench.rows import PIECE, Arrays, Unsafe, written

LONGEST = 0.5  # seconds that a run of a peer takes, about


class Peer(NamedTuple):
    distribution: str
    rows: Callable[[Arrays], Iterator[Row]]


def rows(a: Arrays) -> tuple[list[Row], dict[str, str], dict[str, str]]:
    """The rows of the peers that are here, their versions, and why the others are not."""
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
        except Exception as error:  # theirs: whatever keeps it from running here
            absent[name] = f"{peer.distribution} {here} does not run here ({type(error).__name__}: {error!s:.120})"
        else:
            versions[name] = here
    return found, versions, absent


def calls_each(a: Arrays, about_ns: int, *, real: bool = False) -> list[Any]:
    """As many counts as such a row takes, as the Python numbers of a list."""
    size = max(1, min(a.size, int(LONGEST / about_ns * 1e9)))
    return (a.reals if real else a.counts)[:size].tolist()  # type: ignore[no-any-return]


def row(a: Arrays, who: str, name: str, given: list[Any], run: Callable[[], object], called: str) -> Row:
    against = a.against_reals if isinstance(given[0], float) else a.against_counts
    return Row(f"{who} {name}", "safe", who, len(given), run, called, against, chart=True)


def each(noise: Callable[[Any], object], given: list[Any]) -> object:
    return [noise(value) for value in given]


def opendp(a: Arrays) -> Iterator[Row]:
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    table = (
        ("laplace", "i64", 1, 4_500),
        ("gaussian", "i64", 10, 7_500),
        ("laplace", "f64", 1, 18_500),
        ("gaussian", "f64", 10, 46_000),
    )
    for law, kind, scale, about in table:
        real, norm = kind == "f64", "l1_distance" if law == "laplace" else "l2_distance"
        given = calls_each(a, about, real=real)
        domain = dp.vector_domain(dp.atom_domain(T=kind, nan=False) if real else dp.atom_domain(T=kind))
        measurement = getattr(dp.m, f"make_{law}")(domain, getattr(dp, norm)(T=kind), scale=float(scale))
        atoms = f"atom_domain(T={kind!r}{', nan=False' * real})"
        called = f"dp.m.make_{law}(vector_domain({atoms}), {norm}(T={kind!r}), scale={scale:.1f})(list)"
        name = f"{law}, vector of {kind}, {'scale' if law == 'laplace' else 'sigma'} {scale}"
        yield row(a, "OpenDP", name, given, partial(measurement, given), called)


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
        mechanism = getattr(mechanisms, name)(epsilon=1, sensitivity=1, **more)
        given = calls_each(a, about, real=real)
        options = "".join(f", {key}={value:g}" for key, value in more.items())
        called = f"mechanisms.{name}(epsilon=1, sensitivity=1{options}).randomise(value) for each value of a list"
        yield row(a, "diffprivlib", name, given, partial(each, mechanism.randomise, given), called)


def pydp(a: Arrays) -> Iterator[Row]:
    numerical = import_module("pydp.algorithms.numerical_mechanisms")
    for law, parameters, about in (("Laplace", (1.0, 1.0), 2_700), ("Gaussian", (1.0, 1e-6, 1.0), 2_100)):
        for real in (False, True):
            mechanism = getattr(numerical, f"{law}Mechanism")(*parameters)
            given = calls_each(a, about, real=real)
            kind = "float" if real else "int"
            called = f"{law}Mechanism{parameters}.add_noise({kind}) for each value of a list"
            name = f"{law}, {kind}"
            yield row(a, "PyDP", name, given, partial(each, mechanism.add_noise, given), called)


def randomgen(a: Arrays) -> Iterator[Row]:
    """A generator that is cryptographic, under NumPy's floating-point noise."""
    unsafe = Unsafe(np.random.Generator(import_module("randomgen").ChaCha(rounds=20)))
    for dtype, given, out, against in (
        ("int64", a.counts, a.other, a.against_counts),
        ("float64", a.reals, a.noisy, a.against_reals),
    ):
        run = partial(unsafe.chunked, "laplace", given, out)
        called = (
            f"rng = np.random.Generator(randomgen.ChaCha(rounds=20)); {written('laplace', dtype)}, {PIECE} at a time"
        )
        name = f"NumPy laplace on randomgen's ChaCha, {dtype}"
        yield Row(name, "unsafe", "randomgen", a.size, run, called, against, chart=dtype == "int64")


PEERS = {
    "OpenDP": Peer("opendp", opendp),
    "diffprivlib": Peer("diffprivlib", diffprivlib),
    "PyDP": Peer("python-dp", pydp),
    "randomgen": Peer("randomgen", randomgen),
}
