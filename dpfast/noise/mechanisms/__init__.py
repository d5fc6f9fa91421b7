# SPDX-License-Identifier: Apache-2.0
"""The public nouns: one law, validated once, with what it spends. `laws.py` lists the laws."""
