# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench`: what a release costs on this machine, beside what everybody knows and beside the peers."""

from dpfast.bench.command import bench

__all__ = ["bench"]
