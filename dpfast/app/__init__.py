# SPDX-License-Identifier: Apache-2.0
"""What a person at a terminal meets: commands, files, reports, pictures."""
