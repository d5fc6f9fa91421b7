# SPDX-License-Identifier: Apache-2.0
"""Fixed keys, for tests: reproducible, and they protect nobody.

>>> key = dpfast.testing.fixed_key(7).derive("test")
"""

from dpfast.noise.release.fixed_key import FixedKey, FixedReleaseKey, fixed_key

__all__ = ["FixedKey", "FixedReleaseKey", "fixed_key"]


def __dir__() -> list[str]:
    return __all__
