# SPDX-License-Identifier: Apache-2.0
"""Build the extension `dpfast._dpf`: the header is the cdef, the C files are the source."""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
LAWS = ("discrete_laplace", "laplace", "gaussian", "discrete_gaussian")
SOURCES = ("entropy.c", "chacha.c", "stream.c", "store.c", "bit_generator.c", "laws.c", *(f"{law}.c" for law in LAWS))

# Strict IEEE arithmetic (no contraction, no fast-math); errno and traps are never looked at.
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]

ffi = FFI()
ffi.cdef((HERE / "dpf_abi.h").read_text())
ffi.set_source(
    "dpfast._dpf",
    '#include <alloca.h>\n#include "dpf_impl.h"',  # cffi's wrappers call alloca; cffi before 2.1 leaves it undeclared
    sources=[f"csrc/{name}" for name in SOURCES],
    include_dirs=["csrc"],
    depends=[f"csrc/{path.name}" for path in sorted(HERE.glob("*.h"))],
    extra_compile_args=FLAGS,
    py_limited_api=True,
    define_macros=[("Py_LIMITED_API", "0x030B0000")],  # cffi's own default is that of Python 3.2
)
