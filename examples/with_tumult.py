# SPDX-License-Identifier: Apache-2.0
"""Tumult Core with exact noise, under its own privacy function.

A column of counts in Spark gets noise batch by batch.
"""

import os
import sys
import tempfile
import warnings

from pyspark.sql import SparkSession
from tmlt.core.domains.spark_domains import (
    SparkDataFrameDomain,
    SparkIntegerColumnDescriptor,
    SparkStringColumnDescriptor,
)
from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise
from tmlt.core.measurements.spark_measurements import AddNoiseToColumn

import dpfast
from dpfast.adapters.tumult import AddNoiseToSeries

warnings.filterwarnings("ignore", module="pyspark|setuptools")  # old spellings
os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers want dpfast too
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp()).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
counts = spark.createDataFrame([(f"town {i}", 1000 * i) for i in range(1, 6)], "town string, count bigint")

domain = SparkDataFrameDomain({"town": SparkStringColumnDescriptor(), "count": SparkIntegerColumnDescriptor()})
measurement = AddNoiseToColumn(domain, AddNoiseToSeries(AddGeometricNoise(alpha=2)), "count")
for town, count in measurement(counts).collect():
    print(f"{town}: {count:,}")
print(f"a person who is in one count: epsilon {measurement.privacy_function(1)}")
print(f"95 %: all five within ±{dpfast.DiscreteLaplace(epsilon=0.5, sensitivity=1).interval(0.95, cells=5)}")
spark.stop()
