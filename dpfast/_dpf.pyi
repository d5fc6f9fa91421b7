# SPDX-License-Identifier: Apache-2.0
# The extension built from csrc/; csrc/dpf_abi.h is its list of names. The only Any that a reader must trust.
from typing import Any

ffi: Any
lib: Any
