# SPDX-License-Identifier: Apache-2.0
"""From rows to counts, and what is computed from noisy counts."""
