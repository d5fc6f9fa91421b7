# SPDX-License-Identifier: Apache-2.0
"""Tables in files: read, checked, and written whole or not at all."""
