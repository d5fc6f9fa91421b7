# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/engines.md says of measured jobs: all figures come from one record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from textwrap import fill
from typing import Any

from dpfast.evidence.bench.curves import Curve
from dpfast.evidence.bench.page import markdown
from dpfast.noise.release.blocks import BLOCK
from dpfast.privacy.formatting import quantity, three_digits
from jobs.engines import SHARD

MARKS = "jobs", "jobs_limits", "jobs_growth", "jobs_tumult", "jobs_more"
NOT_YET = "Not measured yet: `{}` on a quiet machine writes it here."
COMMAND, PICTURE = "python benchmarks jobs", "../docs/engines.svg"
MAIN = 10_000_000  # rows of the job that limits are about
SHARE, COLD, TIMES = 0.05, 0.1, 5  # must: of all CPU seconds; seconds of a first block; less than Tumult
FAR, CORES = 10**11, 1_000  # rows that nobody ran, on so many cores
FAR_KEYS = 10**6, 10**8
# A step in the record, and in words; the first of each pair of lists are noise and seal.
NOISE = {"digest": "digests", "seal": "root, ledger", "draw": "draw"}
STEPS = {"bound": "bound", "merge": "merge, freeze", **NOISE, "parquet": "Parquet"}

Entry = dict[str, Any]
Table = list[list[str]]


def prose(text: str) -> str:
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def middle(entry: Entry, of: str) -> float:
    return float(median(job[of] for job in entry["warm"]))


def step(entry: Entry, *names: str) -> float:
    """CPU seconds of steps in a warm job."""
    return float(median(sum(job["steps"].get(name, 0.0) for name in names) for job in entry["warm"]))


def share(entry: Entry) -> float:
    """The part that noise and seal have in all processes' CPU seconds."""
    return float(median(sum(job["steps"].get(name, 0.0) for name in NOISE) / job["cpu"] for job in entry["warm"]))


def rows(entry: Entry) -> int:
    return int(entry["warm"][0]["rows"])


def ours(record: dict[str, Any]) -> list[Entry]:
    """The measured jobs, by rows."""
    return sorted(record["jobs"].values(), key=rows)


def main_jobs(record: dict[str, Any]) -> list[Entry]:
    """Those of 10^7 rows; or, where none has so many, of the most rows."""
    sizes = {rows(entry) for entry in ours(record)}
    size = MAIN if MAIN in sizes else max(sizes)
    return [entry for entry in ours(record) if rows(entry) == size]


def costs(record: dict[str, Any]) -> str:
    """A warm job, step by step, and the machine."""
    lines: Table = [["CPU seconds", *STEPS.values(), "the engine, and all else", "all processes", "peak memory"]]
    for entry in main_jobs(record):
        each = [step(entry, name) for name in STEPS]
        everything = middle(entry, "cpu")
        lines.append(
            [f"{entry['engine']}, {entry['version']}", *map(three_digits, each), three_digits(everything - sum(each)), three_digits(everything),
             quantity(entry["peak"], "B")]
        )  # fmt: skip
    size, keys = rows(main_jobs(record)[0]), main_jobs(record)[0]["keys"]
    of = record["machine"]
    said = (
        f"{of['processor']}, {of['cores']} cores, dpfast {of['dpfast']}, {of['date']}, load {of['load']}. A warm job of {size:,} rows "
        f"and {keys:,} keys; medians."
    )
    return f"{prose(said)}\n\n{markdown(lines)}"


def limits(record: dict[str, Any]) -> str:
    lines: Table = [["", "measured", "must", "verdict"]]

    def line(name: str, value: float, text: str, must: str, *, kept: bool) -> None:
        lines.append([name, text if not math.isnan(value) else "", must, "kept" if kept else "MISSED"])

    for entry in main_jobs(record):
        found = share(entry)
        line(f"noise and seal, of the CPU seconds of {entry['engine']}", found, f"{100 * found:.2g} %", f"{100 * SHARE:.2g} %",
             kept=found <= SHARE)  # fmt: skip
    blocks = [seconds for entry in ours(record) for seconds in entry["cold block"]]
    first = float(median(blocks))
    line("first block of a cold worker, CPU", first, quantity(first, "s"), quantity(COLD, "s"), kept=first <= COLD)
    for entry, beside in pairs(record):
        times = middle(beside, "cpu") / middle(entry, "cpu")
        name = f"{entry['engine']} beside Tumult Analytics, warm, CPU"
        line(name, times, f"{three_digits(times)} × less", f"{TIMES} × less", kept=times >= TIMES)
    return markdown(lines)


def pairs(record: dict[str, Any]) -> Iterator[tuple[Entry, Entry]]:
    """Jobs of the same rows and keys, ours and Tumult's."""
    if beside := record.get("tumult"):
        for entry in ours(record):
            if (rows(entry), entry["keys"]) == (rows(beside), beside["keys"]):
                yield entry, beside


def tumult(record: dict[str, Any]) -> str:
    if not (found := [*pairs(record)]):
        return NOT_YET.format(f"{COMMAND} --tumult PYTHON")
    lines: Table = [["CPU seconds", "warm", "cold", "rows of the cold job", "peak memory"]]
    for entry in [*(entry for entry, _ in found), found[0][1]]:
        cold = entry["cold"]
        lines.append(
            [f"{entry['engine']}, {entry['version']}", three_digits(middle(entry, "cpu")), three_digits(cold["cpu"]), f"{cold['rows']:,}",
             quantity(entry["peak"], "B")]
        )  # fmt: skip
    beside = found[0][1]
    said = (
        f"{rows(beside):,} rows, {beside['keys']:,} keys, equal bounds, epsilon 1, into Parquet; all processes. Warm: a later job of "
        f"the same processes, of Tumult Analytics {len(beside['warm'])}. Cold: from the start of the processes to the end of their "
        "first job."
    )
    return f"{prose(said)}\n\n{markdown(lines)}"


def growth(record: dict[str, Any]) -> str:
    lines: Table = [["", "rows", "rows a second", "CPU of a row", "noise and seal", "peak memory"]]
    for entry in ours(record):
        lines.append(
            [entry["engine"], f"{rows(entry):,}", quantity(rows(entry) / middle(entry, "wall")),
             quantity(middle(entry, "cpu") / rows(entry), "s"), f"{100 * share(entry):.2g} %", quantity(entry["peak"], "B")]
        )  # fmt: skip
    return f"{markdown(lines)}\n\n![Rows a second by engine, and the share of noise and seal, against rows]({PICTURE})"


def more(record: dict[str, Any]) -> str:
    """10^11 rows, from the unit costs of each engine's largest job."""
    largest = {entry["engine"]: entry for entry in ours(record)}  # the last of each is its largest
    lines: Table = [
        ["", "measured on rows", "CPU of a row", "hours of a CPU", f"hours on {CORES:,} cores", "noise and seal of a key",
         *(f"of {keys:,} keys" for keys in FAR_KEYS)]
    ]  # fmt: skip
    for name, entry in largest.items():
        of_a_key = step(entry, *NOISE) / entry["keys"]
        of_a_row = (middle(entry, "cpu") - step(entry, *NOISE)) / rows(entry)
        hours = FAR * of_a_row / 3600
        noise = [quantity(keys * of_a_key, "s") for keys in FAR_KEYS]
        lines.append(
            [name, f"{rows(entry):,}", quantity(of_a_row, "s"), three_digits(hours), three_digits(hours / CORES),
             quantity(of_a_key, "s"), *noise]
        )  # fmt: skip
    each = next(iter(largest.values()))
    stages = " and ".join(quantity(keys * each["warm"][0]["stage"] / each["keys"], "B") for keys in FAR_KEYS)
    blocks = " and ".join(f"{-(-keys // BLOCK):,}" for keys in FAR_KEYS)
    said = (
        f"Nobody ran {FAR:,} rows. The program computed this from the unit costs that it measured, and took each for a constant. "
        f"The rows as made up are {three_digits(FAR * record['bytes a row'] / 1e12)} TB of Parquet and {-(-FAR // SHARD):,} shards; "
        f"{' and '.join(f'{keys:,}' for keys in FAR_KEYS)} keys are {blocks} blocks, on a stage of {stages}. What a network, "
        "stragglers and retries cost is left out."
    )
    return f"{prose(said)}\n\n{markdown(lines)}"


def texts(record: dict[str, Any]) -> dict[str, str]:
    """What stands between each pair of marks."""
    if not record["jobs"]:
        return dict.fromkeys(MARKS, NOT_YET.format(COMMAND))
    return {mark: make(record) for mark, make in zip(MARKS, (costs, limits, growth, tumult, more), strict=True)}


def curves(record: dict[str, Any]) -> tuple[Curve, Curve]:
    """Rows a second, and the share of noise and seal in %, against rows."""
    at = sorted({rows(entry) for entry in ours(record)})
    found = {(entry["engine"], rows(entry)): entry for entry in ours(record)}
    names = list(dict.fromkeys(entry["engine"] for entry in ours(record)))

    def line(name: str, value: Any) -> tuple[float, ...]:
        return tuple(value(found[name, n]) if (name, n) in found else math.nan for n in at)

    speed = {name: line(name, lambda entry: rows(entry) / middle(entry, "wall")) for name in names}
    part = {name: line(name, lambda entry: 100 * share(entry)) for name in names}
    return Curve(tuple(at), speed), Curve(tuple(at), part)
