# SPDX-License-Identifier: Apache-2.0
"""The one timer: what a release costs on this machine, beside familiar operations and peers."""
