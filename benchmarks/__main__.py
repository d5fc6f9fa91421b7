# SPDX-License-Identifier: Apache-2.0
"""Measure and print tables: ratios, workloads, bounded_histogram, or libraries of adapters/.

    python benchmarks [TABLE ...] [--size N] [--rounds R] [--json FILE] [--markdown FILE]

`adapters` means all that are installed. In every round every row is timed right after its
reference, in one process: a change of the machine's speed falls on both. benchmarks/README.md says
how to read the result.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tables import ADAPTERS, TABLES, report, table

from dpfast.bench.page import around_marks, write_between_marks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "tables", nargs="*", default=["ratios"], metavar="TABLE", help=f"or one of {', '.join(ADAPTERS)}"
    )
    parser.add_argument("--size", type=int, help="of the table's largest array")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--markdown", type=Path, help="write each table's main rows between its marks in this file")
    options = parser.parse_args()
    names = [name for given in options.tables for name in (ADAPTERS if given == "adapters" else [given])]
    if unknown := {*names} - {*TABLES, *ADAPTERS}:
        parser.error(f"no such table: {', '.join(unknown)}")
    records = {}
    for name in names:
        try:
            table(name)
        except ImportError as missing:
            if name in options.tables:
                raise
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        if options.markdown:
            around_marks(options.markdown, name)  # fail before minutes are spent
        found = report(name, options.size, options.rounds)
        print(f"\n{name}\n\n{found.table()}", end="")
        records[name] = found.record()
        if options.markdown:
            chart = [result for result in found.results if result.row.chart]
            write_between_marks(options.markdown, name, found.markdown(chart))
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
