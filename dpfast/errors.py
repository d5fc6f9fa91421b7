# SPDX-License-Identifier: Apache-2.0
"""Every exception and warning of dpfast.

A message names the parameter, the rule and the parameter's value. For private data it names only
dtype, shape and rule, never a count, a key or an index.
"""

import sys

__all__ = [
    "BudgetExhausted",
    "DTypeError",
    "DataDependentError",
    "DpfastError",
    "EntropyError",
    "FileError",
    "InsecureKeyWarning",
    "KeptStageWarning",
    "KeyReuseError",
    "LedgerError",
    "NoGuaranteeError",
    "OtherInputError",
    "ParameterError",
    "SelfCheckError",
    "StateError",
    "UnsupportedError",
    "UntestedVersionWarning",
    "UnusableValuesError",
    "WeakGuaranteeWarning",
]


def __dir__() -> list[str]:
    return __all__


class DpfastError(Exception):
    """The base of all errors of this package.

    >>> issubclass(dpfast.errors.ParameterError, dpfast.errors.DpfastError)
    True
    """


class ParameterError(DpfastError, ValueError):
    """A parameter breaks a rule.

    >>> dpfast.DiscreteLaplace(epsilon=-1, sensitivity=1)
    Traceback (most recent call last):
        ...
    dpfast.errors.ParameterError: epsilon must be positive, got -1
    """


class DTypeError(DpfastError, TypeError):
    """An array or a parameter has a kind that the mechanism does not take.

    >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release(["12"])
    Traceback (most recent call last):
        ...
    dpfast.errors.DTypeError: counts must be of an integer dtype (int8 to int64, uint8 to ...
    """


class NoGuaranteeError(ParameterError, AttributeError):
    """This object has no `guarantee`.

    It is a distribution that is no mechanism, a Gaussian made from sigma alone, or a noise_source.

    >>> dpfast.Gaussian(sigma=1).guarantee  # without a sensitivity
    Traceback (most recent call last):
        ...
    dpfast.errors.NoGuaranteeError: sensitivity must be given: this mechanism was made from ...
    """


class EntropyError(DpfastError, OSError):
    """The operating system gave no key. No output was touched.

    >>> issubclass(dpfast.errors.EntropyError, dpfast.errors.DpfastError)
    True
    """


class DataDependentError(DpfastError):
    """A refusal that depends on private values: whoever sees it learns something of them.

    It is for whoever passes the values, and holds them. A server that answers others must not pass
    it on: docs/threat_model.md lists each kind with what it tells, and a ledger records it as a
    refused attempt. Nothing was charged, unless the values changed after the charge.

        >>> mechanism = dpfast.Laplace(epsilon=1, sensitivity=1)
        >>> try:
        ...     answer = mechanism.release([7.5, float("nan")])
        ... except dpfast.errors.DataDependentError:
        ...     answer = "not ready"  # as for what was not released for other reasons
    """


class UnusableValuesError(ParameterError, DataDependentError):
    """Values that the mechanism does not take, such as a NaN or a null, or a cell of a file.

    It tells that there is one. Nothing was charged or drawn. A public `missing=` avoids it.

    >>> dpfast.Laplace(epsilon=1, sensitivity=1).release([float("nan")])
    Traceback (most recent call last):
        ...
    dpfast.errors.UnusableValuesError: values must be finite; missing=<public number>, with ...
    """


class KeyReuseError(DpfastError):
    """A label names another release, or this one, without `resume=True`.

    The message says which of key, mechanism, cost and shape differs: all public. Nothing was
    charged or drawn.

    >>> key = dpfast.Key.generate().derive("q")
    >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
    >>> noisy = mechanism.release([12, 0], key=key)
    >>> mechanism.release([12, 0], key=key)
    Traceback (most recent call last):
        ...
    dpfast.errors.KeyReuseError: 'q' is reserved in this process: resume=True continues it; ...
    """


class OtherInputError(KeyReuseError, DataDependentError):
    """The input is not the one that was sealed under this label.

    That it is another, or is not, is an exact bit that no epsilon covers: it is for who holds the
    values, and never published. Nothing of it was drawn.

    >>> key = dpfast.Key.generate().derive("q")
    >>> mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=1)
    >>> noisy = mechanism.release([12, 0], key=key)
    >>> mechanism.release([12, 1], key=key, resume=True)
    Traceback (most recent call last):
        ...
    dpfast.errors.OtherInputError: 'q': the input is not the one that was reserved in this ...
    """


class LedgerError(DpfastError):
    """A ledger cannot be read or written, is damaged or not the one meant. Nothing was released.

    >>> dpfast.Ledger("nowhere.db")
    Traceback (most recent call last):
        ...
    dpfast.errors.LedgerError: .../nowhere.db does not exist; create=True, or `dpfast ledger ...
    """


class BudgetExhausted(LedgerError):  # noqa: N818  it is what happened
    """A release would spend more than a ledger has left. Nothing was released.

    >>> ledger = dpfast.Ledger("year.db", 1, create=True)
    >>> ledger.spend(dpfast.Guarantee(epsilon=2), label="too much")
    Traceback (most recent call last):
        ...
    dpfast.errors.BudgetExhausted: .../year.db: epsilon 2 is asked for and 1 is left of 1; ...
    """


class StateError(DpfastError, TypeError, AttributeError):
    """A caller read or set the state of a bit generator.

    The state is never shown, set or copied, and hasattr returns False.

    >>> dpfast.ChaCha20().state
    Traceback (most recent call last):
        ...
    dpfast.errors.StateError: the state of a ChaCha20 is never shown, set or copied, ...
    """


class FileError(DpfastError):
    """A file cannot be read, does not hold what it should, or cannot be written.

    >>> dpfast.KeyFile("nowhere.key")
    Traceback (most recent call last):
        ...
    dpfast.errors.FileError: the key file .../nowhere.key does not exist: `dpfast key create ...
    """


class UnsupportedError(DpfastError, NotImplementedError):
    """This system lacks what a call rests on: on Windows a ledger, a key file or a job's stage.

    Nothing was charged, made or written. docs/installing.md says what each system has.

    >>> issubclass(dpfast.errors.UnsupportedError, NotImplementedError)
    True
    """


class SelfCheckError(DpfastError, RuntimeError):
    """This build of the C code does not reproduce known answers on this machine.

    >>> issubclass(dpfast.errors.SelfCheckError, dpfast.errors.DpfastError)
    True
    """


class InsecureKeyWarning(UserWarning):
    """A release was made under a fixed key: it is reproducible, and it protects nobody.

    >>> import warnings
    >>> warnings.filterwarnings("error", category=dpfast.errors.InsecureKeyWarning)
    >>> key = dpfast.testing.fixed_key(7).derive("q")
    >>> dpfast.DiscreteLaplace(epsilon=1, sensitivity=1).release([12], key=key)
    Traceback (most recent call last):
        ...
    dpfast.errors.InsecureKeyWarning: a release under a fixed key: reproducible, for tests ...
    """


class WeakGuaranteeWarning(UserWarning):
    """An epsilon or a rho above 10, or a delta above 1/1000, was asked for: it hides too little.

    A belief of one half may become one of 99.995 % by epsilon = 10. A rho of 10 is a privacy loss
    of 10 or more, half of the time, under Gaussian noise. A delta of 0.01 allows a release that
    publishes one unit in a hundred whole. One process warns of each once, and again of a larger
    figure.

    A promise is also weak if it is not about people: of what looks like a table of them, by its
    length and its columns alone, `tree` warns (a million cells) and `dpfast privatize` (more than
    10,000 rows beside columns without noise).

    >>> import warnings
    >>> warnings.filterwarnings("error", category=dpfast.errors.WeakGuaranteeWarning)
    >>> dpfast.DiscreteLaplace(epsilon=100, sensitivity=1)
    Traceback (most recent call last):
        ...
    dpfast.errors.WeakGuaranteeWarning: epsilon = 100: e^epsilon = 2.7e+43: this hides nobody
    """


class UntestedVersionWarning(UserWarning):
    """An adapter was made for a version of its library that dpfast was not tested with.

    >>> import warnings
    >>> warnings.filterwarnings("error", category=dpfast.errors.UntestedVersionWarning)
    """


class KeptStageWarning(UserWarning):
    """The counts of a job were frozen before the call, so its rows were not read.

    This is how a job goes on after a crash. One that runs again for new rows would release the old
    ones: give it a stage and a label of its own.

    >>> import warnings
    >>> warnings.filterwarnings("error", category=dpfast.errors.KeptStageWarning)
    """


def caller() -> int:
    """The level, for a warning of who asks, of the nearest function outside dpfast."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001  public in all but its name
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("dpfast."):
        level, frame = level + 1, frame.f_back
    return level
