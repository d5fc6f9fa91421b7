# SPDX-License-Identifier: Apache-2.0
"""PipelineDP: a pipeline on its local backend, what computes its metrics, and the mechanism on an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pipeline_dp
from pipeline_dp import budget_accounting, combiners, dp_computations

from adapters import compared
from dpfast.adapters import pipeline_dp as ours
from dpfast.bench.measure import Row, Run

VERSIONS = ("pipeline-dp", "python-dp")
SIZE = 4_000_000
FEWER = 100  # times fewer values for theirs
PARTITIONS, NUMBERS = 10_000, 5_000
BACKEND = pipeline_dp.LocalBackend()
M = pipeline_dp.Metrics
EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: row[2],
)
ROWS = [(number, number, number % 5) for number in range(PARTITIONS)]


def params(kind: pipeline_dp.NoiseKind, *metrics: object) -> pipeline_dp.AggregateParams:
    return pipeline_dp.AggregateParams(
        metrics=list(metrics),
        noise_kind=kind,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=5,
    )


def accountant() -> pipeline_dp.NaiveBudgetAccountant:
    return pipeline_dp.NaiveBudgetAccountant(1.0, 1e-6)


def pipeline(kind: pipeline_dp.NoiseKind) -> list[object]:
    spent = accountant()
    engine = pipeline_dp.DPEngine(spent, BACKEND)
    found = engine.aggregate(ROWS, params(kind, M.COUNT, M.SUM, M.MEAN), EXTRACTORS, range(PARTITIONS))
    spent.compute_budgets()
    return list(found)


def metrics(kind: pipeline_dp.NoiseKind, *wanted: object) -> Run:
    """From accumulators to metrics: the stage where noise is added."""
    spent = accountant()
    compound = combiners.create_compound_combiner(params(kind, *wanted), spent)
    spent.compute_budgets()
    accumulators = [(number, compound.create_accumulator([number % 5])) for number in range(PARTITIONS)]
    return lambda: list(BACKEND.map_values(accumulators, compound.compute_metrics))


def mechanism(kind: pipeline_dp.NoiseKind) -> dp_computations.AdditiveMechanism:
    spec = budget_accounting.MechanismSpec(kind.convert_to_mechanism_type(), _eps=1.0, _delta=1e-6)
    return dp_computations.create_additive_mechanism(spec, dp_computations.Sensitivities(l0=1, linf=1))


def array(kind: pipeline_dp.NoiseKind, size: int) -> Run:
    found, values = mechanism(kind), np.zeros(size)
    return lambda: found.add_noise(values)


def numbers(kind: pipeline_dp.NoiseKind) -> Run:
    found = mechanism(kind)
    return lambda: [found.add_noise(7) for _ in range(NUMBERS)]


def rows(size: int) -> Iterator[Row]:
    few = -(-size // FEWER)
    for kind in pipeline_dp.NoiseKind:
        name = kind.value.capitalize()

        def runs(values: int, kind: pipeline_dp.NoiseKind = kind) -> tuple[Run, ...]:
            return array(kind, values), numbers(kind), metrics(kind, M.COUNT), metrics(kind, M.COUNT, M.SUM, M.MEAN)

        def whole(kind: pipeline_dp.NoiseKind = kind) -> object:
            with ours.installed():
                return pipeline(kind)

        with ours.installed():
            after = *runs(size), whole
        before = *runs(few), partial(pipeline, kind)
        for row, theirs, mine, items, unit in zip(
            ("`add_noise` on an array", "`add_noise` on a number", "the stage that computes COUNT",
             "that of COUNT, SUM, MEAN", "the whole pipeline for COUNT, SUM, MEAN"),
            before, after, (size, NUMBERS, *3 * (PARTITIONS,)), ("value", "value", *3 * ("partition",)), strict=True,
        ):  # fmt: skip
            yield compared(f"{name}: {row}", theirs, mine, items, unit, few=few if items == size else None)
