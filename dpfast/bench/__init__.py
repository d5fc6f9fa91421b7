# SPDX-License-Identifier: Apache-2.0
"""The one timer: what a release costs on this machine, beside what everybody knows and beside the peers."""
