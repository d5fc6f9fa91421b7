# SPDX-License-Identifier: Apache-2.0
"""Running totals: counts over time, noised step by step, for one charge."""
