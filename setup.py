# SPDX-License-Identifier: Apache-2.0
from setuptools import setup

# cffi_modules has no pyproject form; the wheel is abi3, as the extension is.
setup(cffi_modules=["csrc/build_ffi.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp311"}})
