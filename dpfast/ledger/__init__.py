# SPDX-License-Identifier: Apache-2.0
"""A privacy budget kept in a file, and charged before any noise is drawn.

Why the sums suffice, if the total is fixed beforehand. Each release, with its parameters, may be
chosen from earlier results. The sums are a privacy filter: [RRUV16] Rogers, Roth, Ullman, Vadhan
2016; for rho [FZ21] Feldman, Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023; for mu [ST22].
1. A charge is recorded before its noise is drawn, and charges have an order. Whoever chooses
   release k knows results whose charges were recorded before it. So each release is chosen from
   public things and lower numbers, however processes race.
2. (epsilon, delta). Let e, d be left. Claim: all that n more releases show is (e, d)-DP. The next,
   M, spends (a, b) with a <= e and b <= d, shows y, and leaves (e - a, d - b). Let p(y), q(y) be
   the probabilities of an event after y on neighbouring data. For n - 1 the claim says
   p(y) <= f(y) + d - b, f = min(1, exp(e - a) q). M guarantees E f <= exp(a) E' f + b. So
   P = E p <= E f + d - b <= exp(a) E' f + d <= exp(e) E' q + d = exp(e) P' + d.
3. rho. Let L be the likelihood ratio of what M shows, and K(y) that of all after y. Then for each
   order t > 1: E'[L^t E'[K(y)^t]] <= exp(t (t - 1) r) exp(t (t - 1) (rho - r)), where M spends r
   and rho - r is left: [BS16] Lemma 1.7, for any choice. If the releases have deltas of their own
   (approximate zCDP), this holds of the measures that are left without the events that these deltas
   count. Along any path the deltas add up to d at most, so the events have probability d at most.
   With what rho implies at a delta d', all releases are (epsilon, d + d')-DP. Both totals are fixed
   beforehand, and neither is traded for the other. Source: Whitehouse, Ramdas, Rogers, Wu 2023,
   Theorem 1.
4. mu^2, if all releases are mu-GDP: G_mu bounds each test. Let b be the mu^2 that is left. Claim:
   all that n more releases show is sqrt(b)-GDP. The next, M, is m-GDP with m^2 <= b, shows y, and
   leaves c = b - m^2, which its choice fixes before y is seen. By Blackwell's theorem y is f(Z) on
   one data set and f(Z + m) on its neighbour, Z normal, f a random map. For n - 1 the claim says
   that all after y is g_y(Z') on the one, g_y(Z' + sqrt(c)) on the other. So all is a random map of
   (Z, Z') or of (Z + m, Z' + sqrt(c)), which lie sqrt(b) apart: by rotation it is sqrt(b)-GDP. For
   n = 0, nothing is shown. f and g depend on the neighbours, b does not; outcomes are countable, so
   that g may be any for each. The total is fixed beforehand: the largest mu^2 whose curve passes
   (epsilon, delta). Epsilon-DP is mu-GDP (mu_squared_of_epsilon in dpfast/privacy/guarantee.py has
   the proof), and pays as such. No sum of the mu^2 of several releases is traded for an epsilon.
   Source: [ST22] Smith, Thakurta 2022, arXiv 2210.17520, where it is the filter that "sums the
   squares"; Koskela, Tobaben, Honkela 2023, arXiv 2209.15596. A filter of other trade-off curves,
   stopped where their product passes a given one, is not valid: Tran, Räisä, Koskela, Honkela 2026,
   arXiv 2602.06756.
5. A sealed release is charged once, when its label is reserved. All its tries draw one execution
   of the mechanism on one input (docs/behind/sealed.md), so they show what one release shows.
6. AboveThreshold is charged once and answers for a while, and so do running totals, step after
   step. Their queries and counts may be chosen from releases made meanwhile, and these from their
   answers; points 1 to 4 do not cover this. A theorem does. A
   filter that is valid if each mechanism answers once is valid for interactive mechanisms that run
   at the same time. They may begin at any time, and earlier answers may suggest their parameters.
   The theorem holds for (epsilon, delta), for Rényi divergence of each fixed order, so for rho, and
   for trade-off functions, so for mu.
   Source: [HST+23] Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023, after Vadhan, Wang 2021;
   Lyu 2022; Vadhan, Zhang 2023.
A refusal for want of budget depends on the charges alone, which are public. A refusal for the
values of an array, such as a NaN, depends on the data: it is a DataDependentError. It is not
charged, no epsilon covers it, and the history has it as a refused attempt (docs/threat_model.md,
"Refusals that depend on the data").
"""

from dpfast.ledger.ledger import Ledger
from dpfast.ledger.table import Entry, History

__all__ = ["Entry", "History", "Ledger"]


def __dir__() -> list[str]:
    return __all__
