# SPDX-License-Identifier: Apache-2.0
"""Random words for other purposes than noise: a bit generator of NumPy's kind, and bytes."""
