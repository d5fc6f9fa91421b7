# SPDX-License-Identifier: Apache-2.0
"""Trees over a histogram: noise on every level, and what is computed from the noisy levels."""
