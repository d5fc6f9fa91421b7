# SPDX-License-Identifier: Apache-2.0
"""The one jit wrapper, and doubles as their bits."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from dpfast.paths import open_to_others, written_by_others
from dpfast.system import OWNERS

# Part of a cached kernel's name, because numba looks at a kernel's own file alone, and not at what
# it inlines from its neighbours.
DIGEST = blake2b(
    b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))), digest_size=4
).hexdigest()


OWN = Path(__file__).parent / "__pycache__"  # whoever writes there could write the code itself


@cache
def place() -> str | None:
    """The folder for compiled kernels, "" for the package's own, None for none.

    What is read there is run: numba unpickles it. So nobody else may write there.
    """
    named = numba.config.CACHE_DIR
    if named and _is_ours(Path(named)):
        return str(named)
    if not named and (OWN.is_dir() if OWN.exists() else OWN.parent.is_dir()) and _writable(OWN):
        return ""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    private = Path(home, "dpfast")
    return str(private.expanduser()) if _is_ours(private) else None


def _writable(folder: Path) -> bool:
    return os.access(folder if folder.exists() else folder.parent, os.W_OK)


def _is_ours(folder: Path) -> bool:
    """Whether nobody else may change the folder, what leads to it, or kernels in it; it is made."""
    if not OWNERS:  # nobody could say
        return False
    users = os.geteuid(), 0
    try:
        folder = folder.expanduser()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if open_to_others(folder, users) or not os.access(folder, os.W_OK):
            return False
        kept = (each for below in folder.glob("kernels_*") for each in (below, *below.rglob("*")))
        return not any(written_by_others(each, each.lstat(), users) for each in kept)
    except (OSError, RuntimeError):  # nowhere to make it; no home
        return False


def jit(signature: Any, *, inline: bool = False, parallel: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile for one signature, without the interpreter lock; cached if there is a place for it.

    signature: None to compile at each first call with other types.
    inline: into its callers before LLVM sees them. LLVM makes vectors of loops without calls.
    parallel: a prange goes to numba's threads.
    """
    options: Any = {"nogil": True, "inline": "always" if inline else "never", "parallel": parallel}

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{DIGEST}"
        before = numba.config.CACHE_DIR
        try:
            if (folder := place()) is not None:
                numba.config.CACHE_DIR = folder
                return numba.njit(signature, cache=True, **options)(function)
        except Exception:  # noqa: S110  a full disk, a damaged file: compile in every process instead
            pass
        finally:
            numba.config.CACHE_DIR = before
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
