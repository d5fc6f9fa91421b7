# SPDX-License-Identifier: Apache-2.0
"""NumPy's Generator on ChaCha20 with a key from the operating system: csrc/bit_generator.md."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, NoReturn

from numpy.random import BitGenerator
from numpy.random.bit_generator import SeedlessSeedSequence

from dpfast import _native
from dpfast.errors import ParameterError, StateError
from dpfast.privacy.parameters import shown, whole
from dpfast.system import at_fork

_HIDDEN = "the state of a ChaCha20 is never shown, set or copied, because two with equal states draw equal numbers"


class ChaCha20(BitGenerator):
    """A NumPy bit generator: `numpy.random.Generator(dpfast.ChaCha20())`.

    Every number of the Generator comes from ChaCha20 under a key from the operating system. Nobody
    can predict a number, or find an earlier one in memory, because the key is replaced every 2 KiB
    [Bernstein 2017]. A forked child draws anew from its first number on. There is no seed.

    **Safe bits do not make `Generator.laplace` safe noise.** Its samples, and those of `normal`,
    are computed in floating point, and the low bits of value + noise reveal the value [Mir12]. For
    noise use `dpfast.Laplace(...).release(values)`. This class is for samples, shuffles and
    assignments to groups whose randomness must be secret.

    As with every bit generator, only one thread may draw at a time. NumPy holds `lock`; other code
    must hold it, too. `numpy.random.RandomState` keeps half of each pair of normal draws itself,
    and a forked child repeats this half: use Generator.

    Raises: EntropyError; ParameterError (a seed). If a forked child gets no key from the system at
    its first draw, the process ends with a line on stderr, because NumPy passes no error on.

    >>> generator = np.random.Generator(dpfast.ChaCha20())
    >>> 0 <= generator.random() < 1
    True
    """

    __slots__ = ("__weakref__", "_bits")

    def __init__(self, seed: None = None) -> None:
        if seed is not None:
            raise ParameterError(
                "ChaCha20 takes no seed, because whoever knows it knows every number. For repeatable numbers use NumPy's PCG64"
            )
        super().__init__(SeedlessSeedSequence())  # type: ignore[arg-type]  # NumPy's stubs forget this one
        if not hasattr(self, "_bits"):  # a second call keeps what Generators point to
            self._bits = _native.Bits()
            _living.add(self)  # before there is a key: the fork hook must know every key
            self._bits.key()
        self._bits.connect(self.capsule)

    def spawn(self, n_children: int) -> list[ChaCha20]:
        """Independent bit generators, each under a key of its own from the operating system.

        >>> [type(each).__name__ for each in dpfast.ChaCha20().spawn(2)]
        ['ChaCha20', 'ChaCha20']
        """
        return [type(self)() for _ in range(whole("n_children", n_children, least=0))]

    @property
    def state(self) -> NoReturn:
        """Refused: whoever knows the state knows all draws to come.

        >>> dpfast.ChaCha20().state
        Traceback (most recent call last):
            ...
        dpfast.errors.StateError: the state of a ChaCha20 is never shown, set or copied, ...
        """
        raise StateError(_HIDDEN)

    @state.setter
    def state(self, _: Mapping[str, Any]) -> NoReturn:
        raise StateError(_HIDDEN)

    @property
    def seed_seq(self) -> NoReturn:
        """Refused: the key comes from the operating system.

        >>> dpfast.ChaCha20().seed_seq
        Traceback (most recent call last):
            ...
        dpfast.errors.StateError: a ChaCha20 has no seed sequence: ...
        """
        raise StateError("a ChaCha20 has no seed sequence: its key is the operating system's")

    def jumped(self, jumps: int = 1) -> NoReturn:
        raise StateError(f"a ChaCha20 does not jump, by {shown(jumps)} or at all: spawn() gives independent ones")

    def __reduce__(self) -> NoReturn:
        raise StateError(f"{_HIDDEN}; where another process is to draw, make a ChaCha20() there")

    __getstate__ = __copy__ = __reduce__

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise StateError(_HIDDEN)

    def __repr__(self) -> str:
        return "<dpfast.ChaCha20>"


_living: weakref.WeakSet[ChaCha20] = weakref.WeakSet()


def _after_fork() -> None:
    """The child keeps no number of the parent, and no lock of a thread that it does not have."""
    for bits in list(_living):
        bits._bits.wipe()  # if the system has not  # noqa: SLF001
        if bits.lock.acquire(blocking=False):  # free, or held by this thread
            bits.lock.release()
        else:
            bits.lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does  # noqa: SLF001


at_fork(after_in_child=_after_fork)
