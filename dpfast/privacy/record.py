# SPDX-License-Identifier: Apache-2.0
"""Records: parameters, checked once, and one table of how each is kept and written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar, NoReturn, Self

from dpfast.privacy.formatting import exact as short
from dpfast.privacy.parameters import bare_names


def written(
    *,
    stream: Callable[[Any], tuple[int, ...]] | None = None,
    metadata: Callable[[Any], dict[str, object]] | None = None,
    words: Callable[[Any], dict[str, str]] | None = None,
    init: bool = True,
    compare: bool = True,
) -> Any:
    """A field of a record, and how its value is written down. Each argument is a function of it.

    stream: the numbers on which the stream of a release key depends (csrc/stream.md); by default
        none.
    metadata: the entries in the metadata; by default the value under the field's name, a Fraction
        as "3/10".
    words: the entries in the repr; by default the value in few letters under the field's name.
    """
    return field(init=init, compare=compare, metadata={"stream": stream, "metadata": metadata, "words": words})


def ratio(value: Fraction) -> tuple[int, int]:
    return value.numerator, value.denominator


def unwritten(_: object) -> dict[str, Any]:
    """Writes nothing: only the record itself knows the field."""
    return {}


@cache
def _compared(kind: type[Record]) -> tuple[str, ...]:
    return tuple(each.name for each in kind._fields() if each.compare)


class Record:
    """A frozen dataclass whose constructor checks. Its fields alone decide ==, hash and pickle."""

    NUMBERS: ClassVar[tuple[str, ...]]  # the fields on which streams, and so draws, depend

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)
        bare_names(cls)
        cls.NUMBERS = tuple(each.name for each in cls._fields() if each.metadata.get("stream"))

    def _keep(self, **values: object) -> None:
        vars(self).update(values)

    @classmethod
    def _of(cls, **values: object) -> Self:
        """A record of values that are checked."""
        made = cls.__new__(cls)
        vars(made).update(values)
        return made

    @classmethod
    def _fields(cls) -> tuple[Field[Any], ...]:
        return fields(cls)  # type: ignore[arg-type]  # a subclass is a dataclass

    def _entries(self) -> dict[str, object]:
        """The parameters in metadata, exact ones as strings."""
        found: dict[str, object] = {}
        for name, value, how in self._written("metadata"):
            found |= how(value) if how else {name: str(value) if isinstance(value, Fraction) else value}
        return found

    def _facts(self) -> dict[str, str]:
        """The parameters as a reader wants them."""
        found: dict[str, str] = {}
        for name, value, how in self._written("words"):
            found |= how(value) if how else {name: short(value) if isinstance(value, Fraction) else str(value)}
        return found

    def _differing(self, numbers: tuple[Any, ...]) -> list[str]:
        """The fields that differ by the numbers in a stream's name; none if their form does."""
        mine = [(name, how(value)) for name, value, how in self._written("stream") if how]
        ends = list(accumulate((len(own) for _, own in mine), initial=0))
        if len(numbers) != ends[-1]:
            return []
        others = (name for (name, own), at in zip(mine, ends, strict=False) if numbers[at : at + len(own)] != own)
        return [name for name in others if not name.startswith("_")]

    def _written(self, where: str) -> list[tuple[str, Any, Callable[[Any], Any] | None]]:
        return [(each.name, vars(self)[each.name], each.metadata.get(where)) for each in self._fields()]

    def __dir__(self) -> list[str]:
        """What a caller may ask for: the fields, and no constant that rooms share."""
        fields = {each.name for each in self._fields()}
        return [name for name in {*super().__dir__(), *fields} if not name.isupper()]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: vars(self)[each.name] for each in self._fields()}  # no plan, no table

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._compared() == self._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[Any, ...]:
        kind: Any = type(self)
        return tuple(map(vars(self).__getitem__, _compared(kind)))

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__} is frozen: {name} cannot be set or deleted")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)
