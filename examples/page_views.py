# SPDX-License-Identifier: Apache-2.0
"""A made-up day of page views by country, as many as the Wikimedia Foundation has: time and error.

    python examples/page_views.py [--full]

Every pair of a page and a country has a count, nearly all of them 0; those whose noisy count is at
least 450 are shown. --full takes 125 million counts: 2 GB of disk, and as much memory as cache.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import dpfast

# https://analytics.wikimedia.org/published/datasets/country_project_page_historical/00_README.html
PUBLISHED = (
    "The real release draws noise for about 125 million counts a day, of pages with more than 150 views (its README). "
    "No time and no error of it is quoted here: none was found that could be checked."
)
HIDDEN, THRESHOLD = 30, 450  # views of one person that the noise hides; the least noisy count that is shown
FULL = "--full" in sys.argv[1:]
COUNTRIES, PAGES, VIEWS = (250, 500_000, 3e8) if FULL else (25, 4_000, 3e6)


def made_up(file: Path) -> np.ndarray:
    """Views by country and page, private, on the disk; a country at a time in memory."""
    rng = np.random.default_rng(2026)
    views = np.lib.format.open_memmap(file, "w+", np.int64, (COUNTRIES, PAGES))
    of_countries, of_pages = 1 / (1 + np.arange(COUNTRIES)), 1 / (10 + np.arange(PAGES))
    for country, share in enumerate(of_countries / of_countries.sum()):
        views[country] = rng.poisson(VIEWS * share * of_pages / of_pages.sum())
    return views


with TemporaryDirectory() as name:
    folder = Path(name)
    views = made_up(folder / "views.npy")
    noisy = np.lib.format.open_memmap(folder / "noisy.npy", "w+", np.int64, views.shape)
    dpfast.KeyFile.create(folder / "views.key")
    ledger = dpfast.Ledger(folder / "budget.db", epsilon=3, create=True)
    key = dpfast.KeyFile(folder / "views.key").derive("views 2026-11-22")
    mechanism = dpfast.DiscreteLaplace(epsilon=1, sensitivity=HIDDEN)

    cpu, clock = time.process_time(), time.perf_counter()
    ledger.release(mechanism, views, key=key, out=np.asarray(noisy))
    shown = [np.flatnonzero(row >= THRESHOLD) for row in noisy]  # public from here on
    seconds, wall = time.process_time() - cpu, time.perf_counter() - clock

    # What nobody can publish of real data: how far off it is.
    true = np.concatenate([row[at] for row, at in zip(views, shown, strict=True)])
    said = np.concatenate([row[at] for row, at in zip(noisy, shown, strict=True)])
    large = sum(int((row >= THRESHOLD).sum()) for row in views)
    errors = np.abs(said - true)

print(f"{views.size:,} counts: sealed, charged, drawn and cut off in {seconds:.3g} CPU s, {wall:.3g} s")
print(
    f"shown: {said.size:,}, with {100 * true.sum() / views.sum():.3g} % of all views; epsilon = 1 for {HIDDEN} views of one person"
)
print(f"their error: median {np.median(errors):.0f} views, {100 * np.median(errors / said):.2g} % of what is shown")
print(
    f"noise is within ±{mechanism.interval()} with probability 95 %; of those shown {100 * np.mean(errors <= mechanism.interval()):.3g} % are"
)
print(
    f"of {large:,} counts of {THRESHOLD} and more {100 * (1 - np.sum(true >= THRESHOLD) / large):.2g} % are not shown"
)
print(
    f"of those shown {100 * np.mean(true < THRESHOLD):.2g} % have fewer than {THRESHOLD} views, {100 * np.mean(true == 0):.2g} % none"
)
print(PUBLISHED)
