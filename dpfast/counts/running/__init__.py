# SPDX-License-Identifier: Apache-2.0
"""Running totals: counts over time, for one charge."""
