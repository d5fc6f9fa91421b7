# SPDX-License-Identifier: Apache-2.0
"""Fixed keys, for tests: reproducible, and they protect nobody."""

from __future__ import annotations

from typing import ClassVar

from dpfast.noise.release.key import Key, ReleaseKey
from dpfast.noise.release.secret import LENGTH, derived, keyed
from dpfast.privacy.parameters import whole

__all__ = ["FixedKey", "FixedReleaseKey", "fixed_key"]


class FixedReleaseKey(ReleaseKey):
    """A release key that everyone can compute: each release warns, and its metadata say so."""

    __slots__ = ()
    secure: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"<INSECURE dpfast.testing.FixedReleaseKey {self.label!r}>"


class FixedKey(Key):
    """A master key that everyone can compute."""

    __slots__ = ()

    def derive(self, label: str) -> FixedReleaseKey:
        return FixedReleaseKey(derived(self, label), label)

    def __repr__(self) -> str:
        return "<INSECURE dpfast.testing.FixedKey>"


def fixed_key(number: int) -> FixedKey:
    """An insecure key for reproducible tests, such as `fixed_key(7).derive("test")`."""
    return FixedKey(keyed(b"dpfast.testing.fixed_key", "insecure", str(whole("number", number)).encode())[:LENGTH])
