# SPDX-License-Identifier: Apache-2.0
"""Every public callable, with good arguments. What holds data holds secrets, never shown."""

from __future__ import annotations

import copy
import inspect
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from places import VECTORS

import dpfast
from dpfast.noise.mechanisms.laws import LAWS

# Private values that stand nowhere else, so that a search for their digits or letters finds them.
SECRET, VALUE, NAME, BYTES = 918_273_645, 9182736.375, "Quillfeather", b"Quillfeather, and more than it!\xff"
SEEN = re.compile(rf"9[_,]?1[_,]?8[_,]?2[_,]?7|{NAME}|{BYTES.hex()}", re.IGNORECASE)
PRIVATE = {"counts", "values", "scores", "answers", "keys", "unit_ids"}  # whatever holds the people's data

# ------------------------------------------------------------------ good arguments

FORMAT_1 = VECTORS / "ledger_format_1.db"
OPTIONS = {
    "out",
    "dtype",
    "lower",
    "upper",
    "clamp",
    "missing",
    "threads",
    "constant_time",
    "names",
    "columns",
}  # that the releases in HAND_ON hand on
HAND_ON = {"BoundedHistogram.release", "Ledger.release"}
OPEN_ENDED = {"ChaCha20.spawn.n_children"}  # a list of 2^62 things may be asked for, and takes its time
REFUSED = {  # by what has such a method for its name alone
    "ChaCha20.jumped", "OneSidedGeometric.dp_event", "OneSidedGeometric.group", "OneSidedGeometric.privacy_loss_distribution",
}  # fmt: skip
CELL = dpfast.Sensitivity(1, 1)
MECHANISM = dpfast.DiscreteLaplace(Fraction(1, 1000), 1)
RUNNING = dpfast.RunningTotals(12, sensitivity=CELL, rho="0.0000001")


def key_file() -> dpfast.KeyFile:
    path = Path(tempfile.mkdtemp()) / "made.key"
    path.touch(0o600)
    path.write_bytes(BYTES)
    return dpfast.KeyFile(path)


def sealed_once() -> Any:
    """A seal of private values, under a label of its own."""
    key = dpfast.Key.generate().derive("visits " + secrets.token_hex(8))
    return key.seal(MECHANISM, [key.digester(MECHANISM)(0, [SECRET, 1])], shape=(2,))


# By parameter, for all doors or for one; a function makes what is to be another at each call.
GOOD: dict[str, Any] = {
    "adjacency": "add-remove", "answer": 1, "bound": 8, "buffer": bytearray(8), "by": "basic", "cell_variance": 1, "cells": 2,
    "clamp": None, "confidence": 0.9, "constant_time": False, "counts": np.array([SECRET, SECRET + 1, SECRET + 2]),
    "create": True, "dataset": "d", "delta": 1e-6, "domain": ["a", "b"], "dtype": None, "epsilon": 1, "falling": False,
    "granularity": 2.0**-10, "integers": False, "jumps": 1, "k": [1, 2], "key": None, "keys": ["a", str(SECRET), "c"], "l0": 2, "label": "q",
    "law": "laplace", "linf": 2, "lower": None, "max_partitions": 2, "max_per_partition": 2, "max_records": 2, "missing": None,
    "monotonic": False, "n": 10, "n_children": 2, "noise": [0.0, 1.0], "noisy": [1.0, 2.0], "number": 7, "on_grid": False, "out": None,
    "outside": "drop", "p": 0.3, "add_remove": None, "answers_per_unit": 1, "gdp": False, "rho_delta": None, "own_delta": None, "releases": 1, "prior": 0.1, "q": [0.1, 0.9], "probability": 0.5, "records_per_unit": "up to",
    "release": dpfast.Guarantee(0.001, 1e-9), "reports": [0, 1, 1], "rho": None, "scale": 2, "scores": [SECRET, SECRET + 1],
    "secret": bytes(range(32)), "seed": None, "sensitivity": 1, "sigma": 100, "sigma_squared": None, "signed": False, "size": 3,
    "squared": 2, "step": 1, "names": None, "columns": None, "resume": False, "column": "", "shape": (3,), "buckets": None, "source": b"", "terms": None, "mechanism": MECHANISM, "threads": None, "threshold": 5, "total": 4.0, "total_variance": 1,
    "totals": [3.0, 7.0], "unit": "person", "unit_ids": ["u", str(SECRET), "u"], "upper": None,
    "value_discretization_interval": 1e-3, "values": np.array([SECRET + 0.5, SECRET + 1.5]), "zcdp": False,
    "AboveThreshold.run.answers": [SECRET, SECRET], "DiscreteGaussian.from_zcdp.rho": 0.1, "Gaussian.from_zcdp.rho": 0.1,
    "Gaussian.granularity": None, "Guarantee.rho": 0.5, "Laplace.granularity": None,
    "Ledger.expect.key": lambda: dpfast.Key.generate().derive("visits"),
    "Key.derive.label": lambda: secrets.token_hex(8), "KeyFile.derive.label": lambda: secrets.token_hex(8),
    "KeyFile.path": lambda: key_file().path, "KeyFile.create.path": lambda: Path(tempfile.mkdtemp()) / "made.key",
    "ReleaseKey.seal.digests": lambda: [dpfast.Key(BYTES).derive("visits").digester(MECHANISM)(0, [SECRET, 1, 2])], "seal.domain": None,
    "Ledger.reserve.seal": sealed_once,
    "steps": 12, "per_unit_steps": 2, "apart": 1, "t": 3, "last": 2,
    "RunningTotals.sensitivity": CELL, "RunningTotals.rho": 0.1, "RunningTotals.epsilon": None, "RunningTotals.delta": None,
    "RunningTotals.encode.encoder": lambda: RUNNING.begin(2)[0], "RunningTotals.decode.decoder": lambda: RUNNING.begin(2)[1],
    "RunningTotals.encode.counts": [SECRET, 1], "RunningTotals.clamped.counts": [SECRET, 1], "RunningTotals.decode.noisy": [SECRET, 1],
    "RunningTotals.interval.level": 0.9, "NoisyTotals.interval.level": 0.9, "of_terms.terms": RUNNING.terms(),
    "running_totals.totals": RUNNING, "running_totals.counts": [[SECRET, 1], [2, SECRET]],
    "Ledger.running.totals": lambda: dpfast.RunningTotals(4, sensitivity=CELL, epsilon=1, delta=1e-9), "Ledger.running.names": lambda: ["a", NAME],
    "Ledger.running.key": lambda: dpfast.Key.generate().derive("running " + secrets.token_hex(8)), "state": None, "replay": (),
    "Ledger.copy.path": lambda: Path(tempfile.mkdtemp()) / "copy.db", "Ledger.path": lambda: Path(tempfile.mkdtemp()) / "budget.db",
    "ledger": None, "release.mechanism": MECHANISM,
    "bound_and_add.noise": lambda: dpfast.numba.Noise(MECHANISM), "bound_and_add.values": np.array([SECRET, SECRET + 1]), "least": 0, "most": 2 * SECRET,
    **{
        f"{owner}.release.values": np.array([SECRET, SECRET + 1])
        for owner in ("DiscreteGaussian", "DiscreteLaplace", "Ledger")
    },
    "Ledger.calibrated.law": dpfast.DiscreteLaplace, "Ledger.calibrated.granularity": None, "Ledger.calibrated.bound": None,
    "Ledger.spend.releases": dpfast.Guarantee(0.001, 1e-9),
    "Ledger.upgrade.path": lambda: shutil.copy(FORMAT_1, tempfile.mkdtemp()), "RandomizedResponse.categories": 2,
    "RandomizedResponse.release.answers": [0, 1, 1], "RandomizedResponse.two_coin.epsilon": None,
    "RandomizedResponse.two_coin.probability": 0.5, "Sensitivity.keys": "public", "Sensitivity.l1": None, "bounded_histogram.domain": None,
    "bounded_histogram.values": None, "bounded_histogram.granularity": None, "max_contributions": 2,
    "BoundedHistogram.mean.delta": None, "BoundedHistogram.mean.label": None, "BoundedHistogram.mean.epsilon": 1,
    "BoundedHistogram.select.selection": dpfast.NoisyMax(1, 1),
    "BoundedHistogram.merged.parts": lambda: [bounded(key=dpfast.Key.from_bytes(bytes(range(32))).derive("q"))],
    "clip.lower": 0, "mean.noise": [MECHANISM] * 2, "variance.noise": [MECHANISM] * 3, "sums": [9, 5], "squares": [30, 20],
    **{f"{figure}.{name}": value for figure in ("mean", "variance") for name, value in {"counts": [3, 4], "lower": 0, "upper": 8, "granularity": 1}.items()},
    "compose.adjacency": None, "Ledger.by": None, "shared_with": None, "charge": False,
    "Ledger.restored.key": lambda: dpfast.KeyFile.create(Path(tempfile.mkdtemp()) / "visits.key"), "Ledger.verify.key": None, "calibrate.make": lambda: lambda spend: dpfast.DiscreteLaplace(spend, 1), "compose.delta": None, "compose.parts": dpfast.DiscreteLaplace(1, 1),
    "consistent.cells": [[1.0, 2.0], [3.0, 4.0]], "dp_event.sensitivity": None, "privacy_loss_distribution.sensitivity": None,
    "fixed_point_sum.lower": -5, "fixed_point_sum.upper": 5, "fixed_point_sum.values": np.array([SECRET + 0.5, 1.5]),
    "begin": [0, 1], "end": [2, 3], "of_sums.sums": 3, "places": [0, 2], "level": 1, "branching": 2, "levels": None, "weights": None, "workload": None, "root": False,
    "quantiles.values": np.array([SECRET, SECRET + 1, SECRET + 2]), "quantiles.lower": 0, "quantiles.upper": 12, "quantiles.by": ["a", str(SECRET), "a"],
    "quantiles.delta": None, "quantiles.label": None, "quantiles.domain": ["a", "b"], "quantiles.q": [0.1, 0.9],
    "tree.delta": None, "tree.sensitivity": CELL, "tree.label": None,
    "thresholded.counts": [SECRET, SECRET, SECRET], "thresholded.epsilon": 5, "thresholded.label": None, "thresholded.noise": "laplace",
    "select.k": 1, "picks.k": 2, "pre_threshold": 2, "thresholded.buckets": 4, "thresholded.sensitivity": CELL,
    **{
        f"{law}{way}.sensitivity": CELL
        for law in ("DiscreteGaussian", "Gaussian")
        for way in ("", ".calibrated", ".from_zcdp", ".delta", ".rho", ".dp_event", ".privacy_loss_distribution")
    },
}  # fmt: skip

# ------------------------------------------------------------------ the surface


@cache
def _kinds(function: Callable[..., Any]) -> Any:
    return inspect.signature(function).parameters


class Call(NamedTuple):
    """A public callable, with good arguments by the names of its parameters."""

    name: str
    function: Callable[..., Any]
    good: dict[str, Callable[[], Any]]

    @property
    def fuzzed(self) -> list[str]:
        return [name for name in self.good if f"{self.name}.{name}" not in OPEN_ENDED]

    @property
    def data(self) -> str | None:
        """What a release of it would overwrite in place."""
        return next((name for name in ("counts", "values") if name in self.good), None) if "out" in self.good else None

    def arguments(self, **hostile: Any) -> dict[str, Any]:
        """Good ones, but for those given."""
        assert hostile.keys() <= self.good.keys(), f"{self.name} takes no such arguments"
        return {name: hostile[name] if name in hostile else make() for name, make in self.good.items()}

    def __call__(self, arguments: dict[str, Any]) -> Any:
        kinds = _kinds(self.function)
        positional, named = [], {}
        for name, value in arguments.items():
            parameter = kinds.get(name)
            if parameter and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                positional.append(value)
            else:
                named[name] = value
        return self.function(*positional, **named)


# Results, which nobody calls, and a second name; errors; adapters, tested elsewhere.
NOT_CALLED = {"Thresholded", "adapters", "Geometric", "EACH_ROW"}
# Excused: methods that mechanisms (ReleaseKey) or NumPy (ChaCha20) call, and what refuses
# everything; of a result all but its release.
NOT_FUZZED = {
    "BoundedHistogram", "BoundedHistogram.count", "BoundedHistogram.index", "NoisyMeans", "NoisyTotals", "NoisyTree",
    "ReleaseKey", "ReleaseKey.bucketer", "ReleaseKey.buckets", "ReleaseKey.chooser", "ChaCha20.cffi", "ChaCha20.ctypes", "ChaCha20.random_raw",
    "Key.from_bytes.secret",
}  # fmt: skip


def bounded(**options: Any) -> Any:
    """A histogram of 90 and of 7 people, of whom each has a private number."""
    rows = [NAME] * 7 + ["flu"] * 90, range(SECRET, SECRET + 97)
    return dpfast.bounded_histogram(*rows, max_partitions=1, max_per_partition=1, **options)


def objects(folder: Path) -> dict[str, Any]:
    """An object of each public class but the errors, from private values if it holds any."""
    return {
        **{
            law.__name__: law(**{name: good() for name, good in _good(law.__name__, law).items()})
            for law in LAWS.values()
        },
        "AboveThreshold": dpfast.AboveThreshold(1, CELL, threshold=10**10),
        "BoundedHistogram": bounded(domain=["flu", NAME], values=[1] * 97, lower=0, upper=1),
        "ChaCha20": dpfast.ChaCha20(),
        "Exponential": dpfast.Exponential(1, 1),
        "Geometric": dpfast.Geometric(1, 1),
        "Guarantee": dpfast.Guarantee(1, rho=0.5),
        "Key": dpfast.Key(BYTES),
        "KeyFile": key_file(),
        "Ledger": dpfast.Ledger(folder / "fuzzed.db", 10**9, delta=Fraction(1, 2), create=True),
        "NoiseSource": dpfast.noise_source("laplace", 3),
        "NoisyMax": dpfast.NoisyMax(1, 1),
        "NoisyMeans": dpfast.bounded_histogram(
            ["a"], [SECRET], values=[SECRET], lower=0, upper=2 * SECRET, domain=["a"], max_contributions=1
        ).mean(epsilon=1e-5),
        "NoisyTotals": dpfast.running_totals(RUNNING, [[SECRET, SECRET + 1]]),
        "NoisyTree": dpfast.tree([SECRET, SECRET + 1, SECRET + 2], branching=2, epsilon=1e-5, sensitivity=CELL),
        "PermuteAndFlip": dpfast.PermuteAndFlip(1, 1),
        "RandomizedResponse": dpfast.RandomizedResponse(1, 2),
        "ReleaseKey": dpfast.Key(BYTES).derive("visits"),
        "RunningTotals": RUNNING,
        "Sensitivity": bounded().sensitivity.with_public_keys(),
        "Thresholded": dpfast.thresholded([NAME, "flu"], [1, 10**6], epsilon=1, delta=1e-9, sensitivity=CELL),
    }


def surface(folder: Path) -> list[Call]:
    """Every public callable. A parameter needs a good argument in GOOD."""
    found: dict[str, Callable[..., Any]] = {}
    made = objects(folder)
    for name in (*dpfast.__all__, "numba", "testing"):
        thing = getattr(dpfast, name)
        if name in NOT_CALLED or (isinstance(thing, type) and issubclass(thing, (Exception, Warning))):
            continue
        if isinstance(thing, ModuleType):
            held = {each: getattr(thing, each) for each in thing.__all__}
            found |= {each: one for each, one in held.items() if inspect.isfunction(one) or each == "Noise"}
            continue
        if name != "NoiseSource":  # a protocol
            found[name] = thing
        if isinstance(thing, type):
            for method in dir(thing):
                kind = inspect.getattr_static(thing, method)
                if not method.startswith("_") and (callable(kind) or isinstance(kind, (classmethod, staticmethod))):
                    found[f"{name}.{method}"] = getattr(made[name], method)
    return [
        Call(name, function, _good(name, function))
        for name, function in found.items()
        if name not in NOT_FUZZED and _parameters(function)
    ]


def _parameters(function: Callable[..., Any]) -> list[str]:
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += sorted(OPTIONS) if function.__qualname__ in HAND_ON else []
        elif not name.startswith("_"):
            found.append(name)
    return found


def _good(name: str, function: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    found = {}
    for parameter in _parameters(function):
        keys = [f"{name}.{parameter}", f"{name.rpartition('.')[2]}.{parameter}", parameter]
        key = next((key for key in keys if key in GOOD), None)
        assert key is not None, f"{name} has a parameter {parameter} for which no good argument is known"
        good = GOOD[key]
        found[parameter] = good if inspect.isfunction(good) else partial(copy.deepcopy, good)
    return found
