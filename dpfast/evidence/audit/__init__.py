# SPDX-License-Identifier: Apache-2.0
"""An auditor of any mechanism, given as a function.

`function(counts)` adds noise to an array of equal counts, as `dpfast bench --sampler` takes it;
`function(count, n)` returns n independent outputs for a count. One that needs one argument is the
former.

`privacy` looks for an event whose probability grows by more than e^epsilon from a count to its
neighbour. `law` compares the noise with an exact law. Both draw afresh and say what they could have
found. Half of the draws choose events and the other half test them by Clopper-Pearson bounds. So an
audit accuses a private mechanism with probability at most ALPHA.

Source: Ding, Wang, Wang, Zhang, Kifer 2018, Detecting violations of differential privacy (choose,
then test); Bichsel, Steffen, Bogunovic, Vechev 2021, DP-Sniper (sets by the ratio of likelihoods);
Mironov 2012 (low bits of doubles); Clopper, Pearson 1934.
"""

from dpfast.evidence.audit.audited import load
from dpfast.evidence.audit.findings import ALPHA, Findings, Line
from dpfast.evidence.audit.law import law
from dpfast.evidence.audit.privacy import privacy

__all__ = ["ALPHA", "Findings", "Line", "law", "load", "privacy"]
