# SPDX-License-Identifier: Apache-2.0
"""Figures by matplotlib, of laws, ledgers, audits and benchmarks."""
