# SPDX-License-Identifier: Apache-2.0
"""Audits: what tells two counts apart is found, and nothing else is."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("an audit certifies the rates that it saw", "dpfast/audit/certify.py", "least_epsilon(lower_bound(a, left, alpha), upper_bound(b, left, alpha), test", "least_epsilon(a / left, b / left, test",
           "test_audit.py -k 'private_mechanisms or false_alarms'"),
    Mutant("noise that is used again passes an audit", "dpfast/audit/privacy.py", "    if more(again, chance):", "    if False:",
           "test_audit.py -k used_again"),
]  # fmt: skip
