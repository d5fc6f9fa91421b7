# SPDX-License-Identifier: Apache-2.0
"""A privacy budget kept in a file, and charged before any noise is drawn.

Why the sums suffice, though each release may be chosen from the results of earlier ones, its parameters included, as
long as the total is fixed beforehand (a privacy filter: [RRUV16] Rogers, Roth, Ullman, Vadhan 2016; of rho [FZ21] Feldman,
Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023).
1. A charge is recorded before its noise is drawn, and charges have an order. Whoever chooses release k knows results whose
   charges were recorded before it: however processes race, each release is chosen from public things and lower numbers.
2. (epsilon, delta). Let e, d be left. Claim: all that n more releases show is (e, d)-DP. The next, M, spends (a, b) with
   a <= e and b <= d, shows y, and leaves (e - a, d - b). Let p(y), q(y) be the probabilities of an event after y on
   neighbouring data. For n - 1 the claim says p(y) <= f(y) + d - b, f = min(1, exp(e - a) q), and M promises E f <=
   exp(a) E' f + b. So P = E p <= E f + d - b <= exp(a) E' f + d <= exp(e) E' q + d = exp(e) P' + d.
3. rho. With L the likelihood ratio of what M shows, K(y) that of all after y, and each order t > 1: E'[L^t E'[K(y)^t]] <=
   exp(t (t - 1) r) exp(t (t - 1) (rho - r)), where M spends r and rho - r is left: [BS16] Lemma 1.7, for any choice.
4. Parts of one release are one array's noise, shown piece by piece: one charge covers them if the array, of which the
   sensitivity speaks, is settled when its first part is released. An equal part shows again what it showed.
5. AboveThreshold is charged once and answers for a while: its queries may be chosen from releases
   made meanwhile, and these from its answers. Points 1 to 3 do not cover this. The theorem that
   does: a filter that is valid where each mechanism answers once is valid where interactive ones
   run at the same time, begun when and with what parameters earlier answers suggest; in (epsilon,
   delta), and in Rényi divergence of each fixed order, so of rho [HST+23] Haney, Shoemate, Tian,
   Vadhan, Vyrros, Xu, Zhang 2023, after Vadhan, Wang 2021; Lyu 2022; Vadhan, Zhang 2023.
A refusal for want of budget depends on the charges alone, and these are public. A refusal for the
values of an array, such as a NaN, depends on the data, is not charged, and is covered by no epsilon
(docs/threat_model.md, Errors).
"""

from dpfast.ledger.ledger import Ledger
from dpfast.ledger.table import Entry, History

__all__ = ["Entry", "History", "Ledger"]
