# SPDX-License-Identifier: Apache-2.0
"""A property that is computed once, without a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as lockfree_property
else:

    class lockfree_property:  # noqa: N801  it reads as a decorator
        """As functools.cached_property, which before Python 3.12 computes under a class's lock.

        A fork in another thread would leave that lock held for ever in the child. Here two threads
        may both compute the value; both find the same one.
        """

        def __init__(self, compute: Any) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.compute(instance))


__all__ = ["lockfree_property"]
