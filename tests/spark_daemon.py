# SPDX-License-Identifier: Apache-2.0
"""Spark's daemon, with what the tests' tasks import: a worker, which it forks, begins at once."""

import importlib
from contextlib import suppress

from pyspark import daemon

with suppress(ImportError):  # an executor may lack dpfast
    importlib.import_module("on_spark")

daemon.manager()
