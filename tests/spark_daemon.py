# SPDX-License-Identifier: Apache-2.0
"""Spark's daemon, with what the tests' tasks import: a worker, which it forks, begins at once."""

from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    try:
        import_module("dpfast")
    except ModuleNotFoundError:  # as on an executor of one test
        pass
    else:
        import_module("on_spark")
    daemon.manager()
