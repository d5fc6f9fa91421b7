# SPDX-License-Identifier: Apache-2.0
"""docs/behind/shares.md: its lines, and its figures."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from places import ROOT

PAGE = (ROOT / "docs" / "behind" / "shares.md").read_text("utf-8")
CELLS = 100_000


def ran(**changed: str) -> np.ndarray:
    """The page's code on many cells, of which some are negative; the errors of its totals."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    counts = np.arange(CELLS) % 7 - 3
    for line, other in {"counts = 2**61 - 1, np.array([120, 0, 7])": "counts = 2**61 - 1, COUNTS", **changed}.items():
        assert code.count(line) == 1
        code = code.replace(line, other)
    found: dict[str, Any] = {"COUNTS": counts}
    exec(code, found)
    return found["noisy"] - counts


def variance_is_that_of_two(noise: np.ndarray) -> bool:
    """The variance of 100,000 sums of two draws: within 6.2 deviations, wrong once in 1e9."""
    q = math.exp(-1)
    one, fourth = 2 * q / (1 - q) ** 2, 2 * q * (1 + 10 * q + q**2) / (1 - q) ** 4
    of_both, fourth_of_both = 2 * one, 2 * fourth + 6 * one**2
    spread = math.sqrt((fourth_of_both - of_both**2) / CELLS)
    return bool(np.abs(noise).max() < 200 and abs((noise**2.0).mean() - of_both) < 6.2 * spread)


def test_each_of_two_servers_adds_full_noise() -> None:
    assert variance_is_that_of_two(ran())


AT_AN_END = {'dpfast.random_bytes(32), "little") % prime': 'dpfast.random_bytes(32), "little") % 2'}


@pytest.mark.parametrize(
    "changed",
    [
        {"noised(first) + noised(second)": "noised(first) + second"},  # one trusts the other
        {"return (share + noise) % prime": "return mechanism.release(share, lower=0, upper=prime - 1)", **AT_AN_END},
        {"np.where(total > prime // 2, total - prime, total)": "total"},
    ],
)
def test_other_lines_are_noticed(changed) -> None:
    assert not variance_is_that_of_two(ran(**changed))


def test_shares_at_an_end_wrap_around() -> None:
    assert variance_is_that_of_two(ran(**AT_AN_END))


def said(text: str) -> bool:
    return text in " ".join(PAGE.split())


def test_parts_of_a_discrete_gaussian_are_none() -> None:
    k = np.arange(-40, 41)
    one = np.exp(-(k**2) / 0.2)
    one /= one.sum()
    whole = np.ones(1)
    for _ in range(100):
        whole = np.convolve(whole, one)
        cut = max(0, len(whole) // 2 - 40)
        whole = whole[cut : len(whole) - cut]
    at = np.arange(len(whole)) - len(whole) // 2
    both = (whole[:-1] > 1e-300) & (whole[1:] > 1e-300)
    spent = math.log((whole[:-1][both] ** 2 / whole[1:][both]).sum())
    assert said(
        f"a variance of {(whole * at**2).sum():.2f} and not of 10. At order 2 they spend {spent:.2f} and not 0.10"
    )


def test_a_part_that_is_missing_is_dear() -> None:
    def loss(epsilon: float, present: float) -> float:
        """The largest log ratio of neighbouring outputs."""
        q, many = math.exp(-epsilon), 2000
        rising = q * (present + np.arange(many)) / np.arange(1, many + 1)
        draw = (1 - q) ** present * np.concatenate([[1.0], np.cumprod(rising)])
        law = np.convolve(draw, draw[::-1])[many:]
        return float(np.log(law[:100] / law[1:101]).max())

    assert loss(0.1, 1) == pytest.approx(0.1)
    tenth, one = [loss(0.1, part) for part in (0.9, 0.75)], [loss(1, part) for part in (0.9, 0.75)]
    assert said(
        f"ε = 0.1 has become {tenth[0]:.3f}; of 75 it is {tenth[1]:.3f}; ε = 1 has become {one[0]:.2f} and {one[1]:.2f}"
    )
