# SPDX-License-Identifier: Apache-2.0
"""What a sceptic runs: the self-test, audits, benchmarks, and the statistics behind them."""
