# SPDX-License-Identifier: Apache-2.0
"""Audits: what tells two counts apart is found, and nothing else is."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("an audit certifies the rates that it saw", "dpfast/evidence/audit/certify.py", "least_epsilon(lower_bound(a, left, alpha), upper_bound(b, left, alpha), test", "least_epsilon(a / left, b / left, test",
           "test_audit.py -k 'private_mechanisms or false_alarms'"),
    Mutant("noise that is used again passes an audit", "dpfast/evidence/audit/privacy.py", "    if more(again, chance):", "    if False:",
           "test_audit.py -k used_again"),
    Mutant("a delta over many neighbours is that over one", "dpfast/evidence/audit/certify.py", "return math.exp(steps * epsilon) * other + grown(delta, steps, epsilon)", "return math.exp(steps * epsilon) * other + delta",
           "test_audit.py -k several_neighbours"),
    Mutant("an upper confidence bound is rounded down", "dpfast/privacy/exact/binomial.py", "math.nextafter(1 - lower_bound(n - hits, n, alpha), 2)", "math.nextafter(1 - lower_bound(n - hits, n, alpha), 0)",
           "test_statistics.py -k rounded_up"),
    Mutant("a tail that nobody knows passes", "dpfast/privacy/exact/binomial.py", "return min(1.0, found) if math.isfinite(found) else math.nan", "return min(1.0, found) if math.isfinite(found) else 1.0",
           "test_statistics.py -k certain_events"),
]  # fmt: skip
