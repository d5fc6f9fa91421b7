# SPDX-License-Identifier: Apache-2.0
"""A server that answers others: what is refused for its values, the operator alone is told.

The operator's job publishes mean hours by ward, each month under a label of its own. Clients read
what was published. No answer shows whether a try was refused because the values were not usable, or
were others than those that were sealed: that is a fact about the data, and no epsilon covers it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import dpfast

# One person changes the mean of one ward, by at most a quarter of an hour: known beforehand.
MECHANISM = dpfast.Laplace(epsilon=1, sensitivity=dpfast.Sensitivity(l0=1, linf=0.25))


class Server:
    """What was published, by label; the operator's job, and the answers to clients."""

    def __init__(self, folder: Path) -> None:
        self.ledger = dpfast.Ledger(folder / "budget.db", epsilon=3, create=True)
        self.keys = dpfast.KeyFile.create(folder / "hours.key")
        self.published: dict[str, np.ndarray] = {}

    def publish(self, label: str, hours: np.ndarray) -> str:
        """The operator's job, which a scheduler may begin again at any time; what the log says."""
        try:
            noisy = self.ledger.release(MECHANISM, hours, key=self.keys.derive(label), resume=True)
        except dpfast.errors.DataDependentError as refused:
            return f"{type(refused).__name__}: {refused}"  # for a log that is as private as the data
        self.published[label] = noisy
        return f"{label!r} is published"

    def answer(self, label: str) -> str:
        """A client's query: one answer for all that is not published, whatever the reason."""
        noisy = self.published.get(label)
        return "not ready" if noisy is None else ", ".join(f"{mean:.2f}" for mean in noisy)


with TemporaryDirectory() as name:
    server = Server(Path(name))
    october, november = np.array([7.5, 8.25, 6.0]), np.array([7.0, np.nan, 6.5])
    print("log:   ", server.publish("hours 2026-10", october))
    first = server.answer("hours 2026-10")
    print("client:", first)

    print("log:   ", server.publish("hours 2026-10", october))  # a retry: equal values, equal noise, no charge
    october[1] += 0.25  # late rows came: another input
    print("log:   ", server.publish("hours 2026-10", october))
    assert server.answer("hours 2026-10") == first
    print("client:", first)

    print("log:   ", server.publish("hours 2026-11", november))  # a ward that nobody was in has no mean
    assert server.answer("hours 2026-11") == server.answer("hours 2026-12") == "not ready"
    print("client: not ready, as of a month that is still to come")

    print(f"spent: epsilon {server.ledger.spent.epsilon}; 95 %: within ±{MECHANISM.interval():.2f} hours")
    print(server.ledger.history())
