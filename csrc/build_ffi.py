# SPDX-License-Identifier: Apache-2.0
"""Build the extension `dpfast._dpf`: the header is the cdef, the C files are the source."""

import sys
import sysconfig
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = tuple(sorted({path.name for path in HERE.glob("[a-z]*.c")} - {"dpfast.c"}))  # libdpfast has that one

# Strict IEEE arithmetic, whatever CFLAGS say: the compiler obeys the last flag, and ours come last.
# The linker needs them too: else it might add code that flushes subnormals in the whole process.
STRICT = (
    "-fno-fast-math",
    "-fno-unsafe-math-optimizations",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fno-finite-math-only",
    "-fsigned-zeros",
    "-ffp-contract=off",
)
# No code reads errno or floating-point traps.
FLAGS = ["-std=c11", "-O3", "-g0", "-fvisibility=hidden", *STRICT, "-fno-math-errno", "-fno-trapping-math"]
LINKED = FLAGS
WINDOWS = sys.platform == "win32"  # there by clang-cl, which takes MSVC's flags, and its linker
if WINDOWS:
    FLAGS, LINKED = [f"/clang:{flag}" for flag in FLAGS if flag != "-fvisibility=hidden"], []

LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")  # a free-threaded Python has no stable ABI

ffi = FFI()
ffi.cdef((HERE / "dpf_abi.h").read_text())
ffi.set_source(
    "dpfast._dpf",
    # cffi's wrappers call alloca; cffi before 2.1 leaves it undeclared
    f'#include <{"malloc" if WINDOWS else "alloca"}.h>\n#include "dpf_impl.h"\n#include "small.h"\n#include "capsule.h"',
    sources=[f"csrc/{name}" for name in SOURCES],
    include_dirs=["csrc"],
    depends=[f"csrc/{path.name}" for path in sorted(HERE.glob("*.h"))],
    extra_compile_args=FLAGS,
    extra_link_args=LINKED,
    libraries=["advapi32"] if WINDOWS else [],  # the system's random numbers
    py_limited_api=LIMITED,
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED else [],  # cffi's own default is that of Python 3.2
)
