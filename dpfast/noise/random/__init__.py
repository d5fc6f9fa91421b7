# SPDX-License-Identifier: Apache-2.0
"""Random words for other purposes than noise: a NumPy bit generator, and bytes."""
