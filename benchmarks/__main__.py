# SPDX-License-Identifier: Apache-2.0
"""Measure and print tables: those of tables.py, or of adapters/.

    python benchmarks [TABLE ...] [--row NAME] [--size N] [--rounds R] [--json FILE]
                      [--markdown PAGE ...] [--curves FILE [--largest N]]
    python benchmarks jobs|against ...

`adapters` means all that are installed. In every round every row is timed right after its
reference, in one process: a change of the machine's speed falls on both. benchmarks/README.md says
how to read the result.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

from tables import ADAPTERS, TABLES, progress, report, table, text

from dpfast.evidence.bench import curves
from dpfast.evidence.bench.measure import machine
from dpfast.evidence.bench.page import around_marks, has_marks, write_between_marks
from dpfast.evidence.bench.report import Report

ROUNDS = 7  # for the curves


def main() -> None:
    if sys.argv[1:2] in (["jobs"], ["against"]):
        import_module(sys.argv[1]).main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "tables", nargs="*", default=["ratios"], metavar="TABLE", help=f"or one of {', '.join(ADAPTERS)}"
    )
    parser.add_argument("--row", default="", metavar="NAME", help="measure only the rows whose names have this in them")
    parser.add_argument("--size", type=int, help="of the table's largest array")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument(
        "--markdown", type=Path, nargs="+", default=[], metavar="PAGE", help="write each table between its marks there"
    )
    parser.add_argument("--curves", type=Path, help="draw the time of a value against size and scale: .png or .svg")
    parser.add_argument("--largest", type=int, default=10**8, help="values at the end of the curve, 8 bytes each")
    options = parser.parse_args()
    names = [name for given in options.tables for name in (ADAPTERS if given == "adapters" else [given])]
    if unknown := {*names} - {*TABLES, *ADAPTERS}:
        parser.error(f"no such table: {', '.join(unknown)}")
    if options.row and options.markdown:
        parser.error("--markdown writes whole tables, and goes without --row")
    records: dict[str, object] = {}
    if options.curves:
        import dpfast.app.pictures.bench as draw  # before minutes are spent: matplotlib may be missing

    for name in names:
        try:
            table(name)
        except ImportError as missing:
            if name in options.tables:
                raise
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        places = [page for page in options.markdown if has_marks(page, name)]
        if options.markdown and not places:
            around_marks(options.markdown[0], name)  # fails, before minutes are spent
        found = report(name, options.size, options.rounds, options.row)
        print(f"\n{name}\n\n{found.table()}", end="")
        records[name] = found.record()
        for page in places:
            write_between_marks(page, name, text(found))
    if options.curves:
        most, rounds = curves.that_fit(options.largest), options.rounds or ROUNDS
        if most < options.largest:
            print(f"curves: memory for {options.largest:,} values is not free; they end at {most:,}", file=sys.stderr)
        size = curves.by_size(most, rounds, partial(progress, "curve against size"))
        scale = curves.by_scale(rounds, partial(progress, "curve against scale"))
        draw.costs(Report(machine(), most, rounds, []), size, scale, options.curves)
        records["curves"] = {"size": size.record("values", "seconds"), "scale": scale.record("scale", "seconds")}
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
