# SPDX-License-Identifier: Apache-2.0
"""NumPy's Generator on ChaCha20 that the operating system keys: csrc/bit_generator.md."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.random import BitGenerator
from numpy.random.bit_generator import SeedlessSeedSequence

from dpfast import _native
from dpfast.errors import ParameterError, StateError
from dpfast.privacy.parameters import shown, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

_HIDDEN = "the state of a ChaCha20 is never shown, set or copied, for two with equal states draw equal numbers"


class ChaCha20(BitGenerator):
    """A NumPy bit generator: `numpy.random.Generator(dpfast.ChaCha20())`.

    Whatever the Generator draws comes of ChaCha20 under a key from the operating system: nobody can foretell a number, or
    find an earlier one in memory, for the key is replaced every 2 KiB [Bernstein 2017]. A forked child draws anew from
    its first number on. There is no seed.

    **Safe bits do not make `Generator.laplace` safe noise.** Its laws are computed in floating point, and the low bits of
    value + noise tell the value [Mir12]; so do those of `normal`. Noise is `dpfast.Laplace(...).release(values)`. What
    this is for: samples, shuffles, assignments to groups, whose randomness must be secret.

    As with every bit generator, one thread at a time: NumPy holds `lock`; other code must. `numpy.random.RandomState`
    keeps half of each pair of normal draws itself, and a forked child repeats that: use Generator.

    Raises: EntropyError; ParameterError (a seed). If a forked child gets no key from the system at its first draw, where
    NumPy lets no error through, the process ends with a line on stderr.
    """

    __slots__ = ("__weakref__", "_bits")

    def __init__(self, seed: None = None) -> None:
        if seed is not None:
            raise ParameterError(
                "ChaCha20 takes no seed: who knows it knows every number. For numbers that can be repeated take NumPy's PCG64"
            )
        super().__init__(SeedlessSeedSequence())  # type: ignore[arg-type]  # NumPy's stubs forget this one
        if not hasattr(self, "_bits"):  # a second call leaves alone what Generators point to
            self._bits = _native.Bits()
            _living.add(self)  # before there is a key, so that no fork finds one that the hook does not know
            self._bits.key()
        self._bits.connect(self.capsule)

    def spawn(self, n_children: int) -> list[ChaCha20]:
        """Independent bit generators, each under a key of its own from the operating system."""
        return [type(self)() for _ in range(whole("n_children", n_children, least=0))]

    @property
    def state(self) -> NoReturn:
        raise StateError(_HIDDEN)

    @state.setter
    def state(self, _: Mapping[str, Any]) -> NoReturn:
        raise StateError(_HIDDEN)

    @property
    def seed_seq(self) -> NoReturn:
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
    """In the child: no number of the parent's, and no lock held by a thread that is not there."""
    for bits in list(_living):
        bits._bits.wipe()  # where the system has not  # noqa: SLF001
        if bits.lock.acquire(blocking=False):  # free, or held by this thread
            bits.lock.release()
        else:
            bits.lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does  # noqa: SLF001


os.register_at_fork(after_in_child=_after_fork)
