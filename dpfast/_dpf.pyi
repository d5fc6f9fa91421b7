# SPDX-License-Identifier: Apache-2.0
# The extension built from csrc/; csrc/dpf_abi.h is its list of names. A reader must trust only
# this Any.
from typing import Any

ffi: Any
lib: Any
