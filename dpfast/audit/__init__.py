# SPDX-License-Identifier: Apache-2.0
"""An auditor of anybody's mechanism: `function(count, n)` must return n independent outputs for that count.

`privacy` looks for an event more likely, by more than e^epsilon, for one count than for its neighbour; `law` compares the
noise with an exact law. Both draw afresh and say what they could have found. Half of the draws choose the events and the
other half tests them by Clopper-Pearson bounds, so that a private mechanism is accused with probability ALPHA at most.

Source: Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy (choose, then test); Bichsel,
Steffen, Bogunovic, Vechev 2021, DP-Sniper (sets by the ratio of likelihoods); Mironov 2012 (low bits of doubles);
Clopper, Pearson 1934.
"""

from dpfast.audit.audited import load
from dpfast.audit.findings import ALPHA, Findings, Line
from dpfast.audit.law import law
from dpfast.audit.privacy import privacy

__all__ = ["ALPHA", "Findings", "Line", "law", "load", "privacy"]
