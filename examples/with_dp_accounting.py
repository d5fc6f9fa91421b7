# SPDX-License-Identifier: Apache-2.0
"""A city's rides, counted by hour every day and every week.

dp-accounting says what many releases spend together.
"""

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import dpfast

DELTA = 1e-6

rides = np.random.default_rng(2026).poisson(400, 24)  # private: today's, by hour; two at most are of one person
daily = dpfast.DiscreteLaplace(epsilon=0.1, sensitivity=2)
print("rides by hour:", *daily.release(rides, lower=0))
print(f"95 %: each within ±{daily.interval(0.95)}")

print(f"\nepsilon at delta={DELTA}\n  days    sum    RDP    PLD")
for days in (1, 10, 1000):
    rdp = RdpAccountant().compose(daily.dp_event(zcdp=True), days)
    pld = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(daily.dp_event(), days))
    print(f"{days:6,} {float(days * daily.epsilon):6.2f} {rdp.get_epsilon(DELTA):6.2f} {pld.get_epsilon(DELTA):6.2f}")

change = dpfast.Sensitivity(l0=14, linf=1)  # for a week's table, 168 cells
weekly = dpfast.DiscreteGaussian.from_zcdp(0.005, change)
print(f"\n weeks    RDP    PLD  its delta, exactly (each cell within ±{weekly.interval(0.95)})")
for weeks in (1, 10, 1000):
    rdp = RdpAccountant().compose(weekly.dp_event(), weeks)
    pld = weekly.privacy_loss_distribution().self_compose(weeks).get_epsilon_for_delta(DELTA)
    exact = weekly.delta(pld, dpfast.Sensitivity(l0=weeks * change.l0, linf=1))
    print(f"{weeks:6,} {rdp.get_epsilon(DELTA):6.2f} {pld:6.2f}  {exact:.5g}")

year = daily.privacy_loss_distribution().self_compose(365)  # laws and sensitivities mix
year = year.compose(weekly.privacy_loss_distribution().self_compose(52))
print(f"\na year of both: epsilon={year.get_epsilon_for_delta(DELTA):.2f}")
