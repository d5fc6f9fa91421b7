# SPDX-License-Identifier: Apache-2.0
# A counting query about one named row, asked 1,000 times: together the answers reveal it. A ledger
# refuses the sixth.
import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np

import dpfast

rng = np.random.default_rng(2026)
names = np.array(["Ada", *(f"employee {i}" for i in range(2, 501))])  # public: who works here
salaries = np.append(137_000, rng.integers(30_000, 200_000, 499))  # private
answer = np.count_nonzero((names == "Ada") & (salaries > 100_000))  # 1 or 0: one person's salary
mechanism = dpfast.DiscreteLaplace(Fraction(1, 5), sensitivity=1, adjacency="substitution", unit="employee")


def learned(answers: np.ndarray, spent: dpfast.Guarantee) -> None:
    """The belief in "yes" by Bayes' rule, from a prior of one half, and its bound by epsilon."""
    loss = np.sum(np.log(mechanism.pmf(answers - 1)) - np.log(mechanism.pmf(answers)))
    half = 1.96 * mechanism.stddev / math.sqrt(len(answers))
    least, most = spent.posterior(0.5)
    print(f"  {len(answers):,} answers, average {np.mean(answers):.2f}, 95 % within about ±{half:.2f} of the truth")
    print(
        f"  belief that it is yes: {1 / (1 + math.exp(-loss)):.2%}; epsilon {spent.epsilon} allows {least:.2%} to {most:.2%}\n"
    )


print('SELECT COUNT(*) WHERE name = "Ada" AND salary > 100000')
print(f"each answer: epsilon {mechanism.epsilon}, 95 % within ±{mechanism.interval(0.95)}\n")

print("without a ledger")
cells = mechanism.release(np.full(1_000, answer))  # a query each: nothing says that they are of one person
learned(cells, dpfast.compose(*[mechanism] * 1_000))

print("with a ledger of epsilon 1")
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "staff.ledger"
    ledger = dpfast.Ledger(file, epsilon=1, adjacency="substitution", unit="employee", create=True)
    noisy = []
    try:
        while len(noisy) < 1_000:
            noisy += [ledger.release(mechanism, answer, label="Ada")]
    except dpfast.errors.BudgetExhausted:
        print(f"  query {len(noisy) + 1} is refused, and so is every later one")
    learned(np.array(noisy), ledger.spent)
