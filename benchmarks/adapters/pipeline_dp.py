# SPDX-License-Identifier: Apache-2.0
"""PipelineDP: a pipeline on its local backend, its computation of metrics, and a mechanism."""

from __future__ import annotations

from functools import partial

import numpy as np
import pipeline_dp as theirs
from pipeline_dp import budget_accounting, combiners, dp_computations

from adapters import compared, inside
from dpfast.adapters import pipeline_dp as ours
from dpfast.evidence.bench.measure import Run

VERSIONS = ("pipeline-dp", "python-dp")
SIZE = 4_000_000
FEWER = 100  # times fewer values for theirs
PARTITIONS, NUMBERS = 10_000, 5_000
BACKEND = theirs.LocalBackend()
COUNT, THREE = [theirs.Metrics.COUNT], [theirs.Metrics.COUNT, theirs.Metrics.SUM, theirs.Metrics.MEAN]
EXTRACTORS = theirs.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: row[2]
)
ROWS = [(number, number, number % 5) for number in range(PARTITIONS)]


def params(kind: theirs.NoiseKind, metrics: list[object]) -> theirs.AggregateParams:
    return theirs.AggregateParams(
        metrics=metrics, noise_kind=kind, max_partitions_contributed=1, max_contributions_per_partition=1, min_value=0,
        max_value=5,
    )  # fmt: skip


def accountant() -> theirs.NaiveBudgetAccountant:
    return theirs.NaiveBudgetAccountant(1.0, 1e-6)


def pipeline(kind: theirs.NoiseKind) -> list[object]:
    spent = accountant()
    found = theirs.DPEngine(spent, BACKEND).aggregate(ROWS, params(kind, THREE), EXTRACTORS, range(PARTITIONS))
    spent.compute_budgets()
    return list(found)


def stage(kind: theirs.NoiseKind, wanted: list[object]) -> Run:
    """The stage from accumulators to metrics, which adds the noise."""
    spent = accountant()
    compound = combiners.create_compound_combiner(params(kind, wanted), spent)
    spent.compute_budgets()
    accumulators = [(number, compound.create_accumulator([number % 5])) for number in range(PARTITIONS)]
    return lambda: list(BACKEND.map_values(accumulators, compound.compute_metrics))


def add_noise(kind: theirs.NoiseKind, size: int) -> tuple[Run, Run]:
    """The mechanism on an array, and on one number after another."""
    spec = budget_accounting.MechanismSpec(kind.convert_to_mechanism_type(), _eps=1.0, _delta=1e-6)
    noise = dp_computations.create_additive_mechanism(spec, dp_computations.Sensitivities(l0=1, linf=1)).add_noise
    return partial(noise, np.zeros(size)), lambda: [noise(7) for _ in range(NUMBERS)]


def rows(size):
    few = -(-size // FEWER)
    for kind in theirs.NoiseKind:
        name, whole = kind.value.capitalize(), partial(pipeline, kind)
        array, number, count, three = *add_noise(kind, few), stage(kind, COUNT), stage(kind, THREE)
        with ours.installed():
            after = *add_noise(kind, size), stage(kind, COUNT), stage(kind, THREE)
        yield compared(f"{name}: `add_noise` on an array", array, after[0], size, few=few)
        yield compared(f"{name}: `add_noise` on a number", number, after[1], NUMBERS)
        for what, run, ours_in in (
            ("the stage that computes COUNT", count, after[2]),
            ("that of COUNT, SUM, MEAN", three, after[3]),
            ("the whole pipeline for COUNT, SUM, MEAN", whole, whole),
        ):
            yield compared(f"{name}: {what}", run, inside(ours, ours_in), PARTITIONS, "partition")
