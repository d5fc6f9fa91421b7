# SPDX-License-Identifier: Apache-2.0
"""The report of a release: one page of HTML, from what was released and nothing else."""
