# SPDX-License-Identifier: Apache-2.0
"""Figures of laws, ledgers, audits and benchmarks by matplotlib."""
