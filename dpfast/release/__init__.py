# SPDX-License-Identifier: Apache-2.0
"""What stands between a mechanism and the kernels: arrays that are checked, keys, and the engine that runs threads."""
