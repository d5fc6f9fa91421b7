# SPDX-License-Identifier: Apache-2.0
"""Post-processing: steps that spend no privacy, and the bias that each step brings.

Whatever is computed from released values and public facts alone spends no privacy [DMNS06; Dwork,
Roth 2014, Proposition 2.1]. None of these functions may see the private counts. Noise with mean 0
makes a release unbiased. Each step below except consistent() gives this up for values that look
right. The functions return new arrays of float64; clip and rounded return integers for integers.

>>> noisy = np.array([12, -3, 7])
>>> dpfast.postprocess.non_negative(noisy)
array([12.,  0.,  7.])
"""

from dpfast.counts.postprocess import Estimate as Estimate  # noqa: PLC0414  what mean returns, as pickles name it
from dpfast.counts.postprocess import clip, consistent, mean, non_negative, ordered, rounded, variance

__all__ = ["clip", "consistent", "mean", "non_negative", "ordered", "rounded", "variance"]


def __dir__() -> list[str]:
    return __all__
