# SPDX-License-Identifier: Apache-2.0
"""The one jit wrapper, and the C functions under names that a numba cache may keep."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba import types
from numba.extending import intrinsic

from dpfast import _native

SYMBOLS = _native.symbols()
# Part of a cached kernel's name, because numba looks at a kernel's own file alone: neither at what
# it inlines from its neighbours nor at the C that it calls.
DIGEST = blake2b(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))), digest_size=4
).hexdigest()
for _name, _address in SYMBOLS.items():
    llvmlite.binding.add_symbol(_name, _address)


def external(name: str, signature: Any) -> Any:
    """A C function as numba calls it."""
    full = f"{name}_abi{_native.ABI}"
    if full not in SYMBOLS:
        raise KeyError(full)
    return types.ExternalFunction(full, signature)


def jit(signature: Any, *, inline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile for one signature, without the interpreter lock; cached if a place is writable.

    inline: into its callers before LLVM sees them. LLVM makes vectors of loops without calls.
    """
    options: Any = {"nogil": True, "inline": "always" if inline else "never"}

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_abi{_native.ABI}_{DIGEST}"
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

address, size, flag = types.uint64, types.int64, types.int32
