# SPDX-License-Identifier: Apache-2.0
"""Plain arithmetic of privacy parameters: no arrays, no noise."""
