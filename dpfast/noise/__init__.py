# SPDX-License-Identifier: Apache-2.0
"""The laws and their release: values in, noisy values out."""
