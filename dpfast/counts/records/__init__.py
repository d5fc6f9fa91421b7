# SPDX-License-Identifier: Apache-2.0
"""From rows to counts and sums of bounded sensitivity; partition selection."""
