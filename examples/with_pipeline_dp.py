# SPDX-License-Identifier: Apache-2.0
"""PipelineDP with noise from dpfast: visits, visitors and money spent in each of 40 shops."""

import random

import pipeline_dp

import dpfast
from dpfast.adapters import pipeline_dp as adapter

adapter.install()  # the only line that is new; what follows is PipelineDP as ever

shops = [f"shop {number:02}" for number in range(40)]
draw = random.SystemRandom()
visits = [(person, draw.choice(shops), draw.randint(1, 50)) for person in range(4_000) for _ in range(3)]

accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.5, total_delta=1e-6)
engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
metrics = pipeline_dp.Metrics
result = engine.aggregate(
    visits,
    pipeline_dp.AggregateParams(
        metrics=[metrics.COUNT, metrics.PRIVACY_ID_COUNT, metrics.SUM],
        max_partitions_contributed=3,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=50,
    ),
    pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda visit: visit[0],
        partition_extractor=lambda visit: visit[1],
        value_extractor=lambda visit: visit[2],
    ),
    public_partitions=shops,
)
accountant.compute_budgets()  # a third of epsilon for each metric

for shop, noisy in sorted(result)[:5]:
    print(f"{shop}: {noisy.count:6.1f} visits, {noisy.privacy_id_count:6.1f} visitors, {noisy.sum:8.1f} spent")
for name, linf in (("visits and visitors", 1), ("spent", 50)):
    law = dpfast.Laplace(0.5, dpfast.Sensitivity(l0=3, linf=linf, unit="privacy id"))
    print(f"95 %: {name} of all {len(shops)} shops within ±{law.interval(cells=len(shops)):.1f}")
