# SPDX-License-Identifier: Apache-2.0
"""What each exit code means, and which one an error has.

No private value decides on WRONG or SPENT. A release, ledger or key that is made is done, whether
or not anybody hears of it. What only prints fails if it cannot.
"""

from __future__ import annotations

from dpfast.errors import BudgetExhausted, DataDependentError, DpfastError, DTypeError, ParameterError, UnsupportedError

DONE, FAILED, WRONG, SPENT, CHARGED, INTERRUPTED = 0, 1, 2, 3, 4, 130
MEANS = {  # as docs/schedulers.md has them
    DONE: "done",
    FAILED: "failed, or the answer is no; nothing was charged",
    WRONG: "the command line is wrong, whatever the data are; nothing was charged",
    SPENT: "the budget of the ledger does not suffice; nothing was charged",
    CHARGED: "failed after the charge, or when it may have been made",
    INTERRUPTED: "Ctrl-C; another signal ends with 128 and its number",
}
_USAGE = ParameterError, DTypeError, UnsupportedError


class AfterCharge(DpfastError):  # noqa: N818  it is what happened
    """What a failure after a charge means, in words. Its cause is the failure."""


def code_of(error: DpfastError) -> int:
    if isinstance(error, (BudgetExhausted, AfterCharge)):
        return SPENT if isinstance(error, BudgetExhausted) else CHARGED
    return WRONG if isinstance(error, _USAGE) and not isinstance(error, DataDependentError) else FAILED
