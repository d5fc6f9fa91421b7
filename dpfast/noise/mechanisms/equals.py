# SPDX-License-Identifier: Apache-2.0
"""What equal mechanisms share: what their constructor found, and their plans."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, wraps
from inspect import signature
from itertools import filterfalse
from types import NoneType
from typing import TYPE_CHECKING, Any, ParamSpec

from dpfast import _native
from dpfast.errors import DTypeError
from dpfast.noise.mechanisms.lockfree_property import lockfree_property
from dpfast.privacy.parameters import SEEDS, unknown_option

P = ParamSpec("P")
# Types go by identity: a class may call itself equal to any other.
PLAIN = frozenset(map(id, (int, float, Fraction, str, NoneType)))


def first_of(mechanism: Any) -> Any:
    """A record that nobody else holds, whose plans serve all mechanisms with its type and law."""
    kind: Any = type(mechanism)
    kept = vars(mechanism)
    return kept.get("_first") or _first_of_equals(id(kind), kind, *map(kept.__getitem__, kind.NUMBERS))


@lru_cache(maxsize=64)
def _first_of_equals(_: int, kind: Any, *numbers: Fraction | int) -> Any:
    first = object.__new__(kind)
    vars(first).update(zip(kind.NUMBERS, numbers, strict=True))
    return first


if TYPE_CHECKING:
    shared_property = lockfree_property
else:

    class shared_property(lockfree_property):  # noqa: N801  it reads as a decorator
        """A lockfree_property that equal mechanisms share, in the proofs' floating-point mode."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            first = first_of(instance)
            if self.name not in vars(first):
                with _native.own_mode():
                    vars(first).setdefault(self.name, self.compute(first))
            return vars(instance).setdefault(self.name, vars(first)[self.name])


def fitted(check: Callable[P, None]) -> Callable[P, None]:
    """A constructor whose errors of binding name the class that was called, and what it takes."""

    @wraps(check)
    def init(self: Any, *given: Any, **named: Any) -> None:
        try:
            check(self, *given, **named)
        except TypeError:
            if unfit := _unfit(type(self), check, given, named):
                raise DTypeError(unfit) from None
            raise

    return init  # type: ignore[return-value]


def remembered(check: Callable[P, None]) -> Callable[P, None]:
    """A constructor that keeps what it found, for arguments of equal value and type.

    It keeps plain arguments alone, and each call makes a new mechanism. A subclass with its own
    constructor is checked every time.
    """

    @wraps(check)
    def init(self: Any, *given: Any, **named: Any) -> None:
        kind: Any = type(self)
        try:
            if (
                kind.__init__ is init
                and kind.__new__ is object.__new__
                and PLAIN.issuperset(map(id, map(type, (*given, *named.values()))))
            ):
                vars(self).update(_checked(id(kind), kind, check, *given, **named))
            else:
                check(self, *given, **named)
        except TypeError:
            if unfit := _unfit(kind, check, given, named):
                raise DTypeError(unfit) from None
            raise

    return init  # type: ignore[return-value]


def _unfit(kind: Any, check: Callable[..., None], given: tuple[object, ...], named: dict[str, object]) -> str | None:
    """What does not fit the constructor, and what it takes; None if the arguments fit."""
    form = signature(check)
    unknown = next(filterfalse(form.parameters.__contains__, named), None)
    wrong = unknown and f"got an unexpected keyword argument {unknown!r}"
    try:
        form.bind(None, *given, **({} if wrong else named))
    except TypeError as error:
        wrong = wrong or str(error)
    if not wrong:
        return None
    if unknown in SEEDS:
        return unknown_option(f"{kind.__name__}()", unknown)
    code = check.__code__
    first, others = code.co_varnames[1 : code.co_argcount], code.co_varnames[code.co_argcount : len(form.parameters)]
    takes = ", ".join(first) + " by place" + ", and by name " * bool(others) + ", ".join(f"{each}=" for each in others)
    sigma = f"; {kind.__name__}.calibrated(epsilon, sensitivity, delta=) finds sigma" * hasattr(kind, "calibrated")
    of_scale = unknown == "scale" and "epsilon" in form.parameters and hasattr(kind, "scale")
    scale = "; epsilon = sensitivity/scale has that scale" * of_scale
    return f"{kind.__name__}: {wrong}; it takes {takes}{sigma}{scale}"


@lru_cache(maxsize=64, typed=True)
def _checked(_: int, kind: Any, check: Callable[..., None], *given: Any, **named: Any) -> dict[str, Any]:
    """What the constructor keeps."""
    made: object = object.__new__(kind)
    check(made, *given, **named)
    return vars(made) | {"_first": first_of(made)}
