# SPDX-License-Identifier: Apache-2.0
"""Sealed releases on engines, a file each; `jobs` is what all of them do (docs/engines.md)."""
