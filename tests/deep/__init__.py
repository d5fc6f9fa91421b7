# SPDX-License-Identifier: Apache-2.0
"""Long checks: whole by `.ci/deep NAME`, one cheap case of each in tests/house/test_deep.py.

A check is a module of this package with check(cheap=...), which raises on a failure and returns
what it counted. It is due once a file that its run opened changes; with RELEASED, once there is
another version or a path that begins so changes; with cases(root), by the case.
"""
