# SPDX-License-Identifier: Apache-2.0
"""Long checks: whole by `.ci/deep NAME`, one cheap case of each in tests/house/test_deep.py.

A check is a module of this package: COVERS, the paths whose change makes its figures old, and
check(cheap=...), which raises on a failure and returns what it counted.
"""
