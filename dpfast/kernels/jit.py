# SPDX-License-Identifier: Apache-2.0
"""The one jit wrapper, and doubles as their bits."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

# Part of a cached kernel's name, because numba looks at a kernel's own file alone, and not at what
# it inlines from its neighbours.
DIGEST = blake2b(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))), digest_size=4
).hexdigest()


def jit(signature: Any, *, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile for one signature, without the interpreter lock; cached if a place is writable.

    inline: into its callers before LLVM sees them. LLVM makes vectors of loops without calls.
    """
    options: Any = {"nogil": True, "inline": "always" if inline else "never"}

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{DIGEST}"
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except Exception:
            # No writable cache, a full disk, a damaged file: compile in every process instead.
            return numba.njit(signature, **options)(function)

    return decorate


def _bitcast(given: Any, wanted: Any) -> Any:
    @intrinsic
    def cast(typing_context: Any, value: Any) -> Any:
        """The same 64 bits as another type."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(signature.return_type))

        return wanted(given), codegen

    return cast


bits_of, double_of = _bitcast(types.float64, types.int64), _bitcast(types.int64, types.float64)

size, flag = types.int64, types.int32
