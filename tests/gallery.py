# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/gallery: their code, what it printed, and the faults planted in it.

A page is text that Jupytext opens as a notebook. A block of `python` is a cell, and a block of
`text` behind it is what the cell printed. The page's last cell is its check. It raises an
AssertionError if what the figure states is not so; its false alarms are rarer than one in a million
runs. A fault of PLANTED replaces one piece of a page's code, and the check must then fail.
"""

from __future__ import annotations

import hashlib
import re
from textwrap import fill
from typing import NamedTuple

from places import ROOT

CITIES = ROOT / "examples" / "data" / "city_populations.csv"  # beside each notebook that runs
FOLDER = ROOT / "docs" / "gallery"
CELL = re.compile(r"^```python\n(?P<code>.*?)^```$\n(?:\n```text\n(?P<output>.*?)^```$\n)?", re.MULTILINE | re.DOTALL)
KEPT = "\N{NO-BREAK SPACE}"  # so that no line ends within ε = 1 or 95 %
ANSWER = re.compile(r"(?<=<!-- answer:start -->\n).*?(?=<!-- answer:end -->)", re.DOTALL)


class Fault(NamedTuple):
    """A defect by its name, the code of the page, and what stands there instead."""

    name: str
    code: str
    instead: str


PLANTED: dict[str, tuple[Fault, ...]] = {
    "planes": (
        Fault(
            "noise for one count, though a plane changes three",
            "(1, planes.sensitivity)\npublished = planes.release(mechanism)",
            "(1, 1)\npublished = mechanism.release(planes.counts)",
        ),
        Fault("noise twice", "noisy = mechanism.release(many)", "noisy = mechanism.release(mechanism.release(many))"),
    ),
    "bounds": (
        Fault("noise for one row, whatever a plane may add", "(1, counts.sensitivity)\n    many", "(1, 1)\n    many"),
        Fault("clamped before the error is measured", "mechanism.release(many)", "mechanism.release(many, lower=0)"),
    ),
    "visits": (
        Fault(
            "noise for one visit, though a row adds up to 20",
            "(1 / 2, each.sensitivity) for each in both]\npairs = list(zip(mechanisms, both, strict=True))\n"
            "noisy = [mechanism.release(each.counts)",
            "(1 / 2, 1) for each in both]\npairs = list(zip(mechanisms, both, strict=True))\n"
            "noisy = [mechanism.release(np.array(each.counts))",
        ),
        Fault("noise twice", "mechanism.release(many)", "mechanism.release(mechanism.release(many))"),
        Fault("no clamp, and a claim that there is one", "values=visits,", "values=np.minimum(visits, 20) * 3 // 2,"),
    ),
    "months": (
        Fault("noise for one airport, though a plane is in three", "Sensitivity(3, 1, ", "Sensitivity(1, 1, "),
        Fault("releases that the ledger does not see", "mechanism, ledger=ledger, label=label)", "mechanism)"),
        Fault("the whole year's noise in each month", "rho / 12, bounds", "rho, bounds"),
    ),
    "destinations": (
        Fault("a threshold for another delta", '"delta": 1e-6', '"delta": 1e-3'),
        Fault(
            "a plane that is taken to have one destination",
            '"sensitivity": change',
            '"sensitivity": dpfast.Sensitivity(1, 1)',
        ),
        Fault("a key that is shown because it occurs", "dpfast.thresholded(places, counts, **spent).keys", "places"),
    ),
    "delays": (
        Fault(
            "noise for one flight, though a plane adds 20", "sensitivity=many", "sensitivity=dpfast.Sensitivity(1, 1)"
        ),
        Fault(
            "noise twice",
            "minutes.counts, epsilon=1,",
            "dpfast.DiscreteLaplace(1 / 4, 20).release(minutes.counts), epsilon=1,",
        ),
    ),
    "so_far": (
        Fault("every flight counts, and totals hide one", 'flights.drop_duplicates("tailnum")', "flights"),
        Fault("the noise of half of the intervals", "noisy.interval(0.95)", "noisy.interval(0.5)"),
        Fault("noise on each week, too", "running_totals(totals, many)", "running_totals(totals, each.release(many))"),
    ),
    "crash": (
        Fault(
            "a generator whose state the workers share by fork",
            "return mechanism.release(counts)",
            "return counts + np.rint(np.random.laplace(0, 10, counts.size))",
        ),
        Fault("a label of its own for each try", '"cities, from Python"', '"cities, from Python" + str(_)'),
    ),
    "low_bits": (
        Fault(
            "noise in floating point",
            "mechanism.release(np.full(n, float(count)))",
            "count + numpy_rng.laplace(0, 1, n)",
        ),
        Fault("half of the noise that epsilon wants", "dpfast.Laplace(1, 1)", "dpfast.Laplace(2, 1)"),
    ),
}


def listed() -> list[str]:
    """The pages, in the order of the index."""
    return re.findall(r"\]\((\w+)\.md\)", (FOLDER / "index.md").read_text("utf-8"))


def text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8")


def cells(page: str) -> list[str]:
    """The code of each cell."""
    return [found["code"] for found in CELL.finditer(page)]


def spoilt(page: str, fault: Fault) -> str:
    """The page with the fault in its code, which has what the fault replaces exactly once."""
    code = "".join(cells(page))
    if code.count(fault.code) != 1 or page.count(fault.code) != 1:
        raise AssertionError(f"{fault.name}: {fault.code!r} must stand once in the page, in its code")
    return page.replace(fault.code, fault.instead)


def digest(page: str) -> str:
    """A digest of the code alone: it names what a recorded run has run."""
    return hashlib.sha256("\n".join(cells(page)).encode()).hexdigest()


def written(page: str, outputs: list[str], answer: str) -> str:
    """The page with the outputs of its cells, in order, and its answer."""
    left = iter(outputs)

    def cell(found: re.Match[str]) -> str:
        output = next(left)
        return f"```python\n{found['code']}```\n" + (f"\n```text\n{output}```\n" if output else "")

    said = fill(re.sub("(?<=[εδ]) = | (?=%)", lambda found: found[0].replace(" ", KEPT), answer), 100)
    new, answers = ANSWER.subn(lambda _: said + "\n", CELL.sub(cell, page))
    if answers != 1 or next(left, None) is not None:
        raise AssertionError("a page must have one answer, and a cell for each output")
    return new


INK = {"#24313d": "#e4e8ec", "#5a6772": "#98a3ad", "#1f6fb2": "#5aa7e6", "#b3541e": "#f0925a"} | {
    "#4d7a3a": "#8cc174", "#8a4fa3": "#c792de"
}  # fmt: skip


def drawn(svg: str) -> str:
    """A figure without a date or needless digits, with lighter colors on a dark page."""
    from dpfast.app.pictures.style import for_both  # which needs matplotlib

    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<!--.*?-->", "", svg)
    svg = re.sub(r' d="[^"]*"', _short, svg)
    svg = re.sub(r"^[ \t]+|[ \t]+$", "", for_both(svg, INK), flags=re.MULTILINE)
    return re.sub(r'(?<= [xy]=")(-?\d+\.\d\d)\d+', r"\1", svg)


def _short(path: re.Match[str]) -> str:
    """A path without needless letters; a hundredth of a point is enough."""
    rounded = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(path[0].split()))
    return " " + re.sub(r" ?([MLQCz]) ?", r"\1", rounded).replace(" -", "-")
