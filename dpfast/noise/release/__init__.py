# SPDX-License-Identifier: Apache-2.0
"""Between a mechanism and the kernels: checked arrays, keys, and the engine that runs threads."""
