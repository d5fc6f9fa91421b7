# SPDX-License-Identifier: Apache-2.0
"""`dpfast audit`: a mechanism against its promise. Exit codes: 0 no finding, 1 some, 2 misuse."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from dpfast import terminal
from dpfast.app.cli.options import AS_JSON, Number, noise_of, noise_options, number, picture_file, print_json

EXAMPLES = """\b
Examples:
  dpfast audit my_noise:add --epsilon 1
  dpfast audit my_noise.py:add --epsilon 1 --distribution discrete_laplace --plot audit.png
  dpfast audit my_noise:add --epsilon 1 --delta 1e-5 --distribution gaussian --sigma 3.73
"""


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar="MODULE:FUNCTION")
@click.option("--epsilon", type=number, help="The epsilon that it promises; for Laplace mechanisms also the parameter.")
@click.option("--delta", type=number, default="0", help="The delta that it promises; by default 0.")
@noise_options
@click.option("--n", type=click.IntRange(200), default=2_000_000, show_default=True, help="Draws for each count.")
@click.option("--plot", type=picture_file, metavar="FILE", help="Draw the result in this file: .png, .svg or .pdf.")
@AS_JSON
@click.option("--quiet", is_flag=True, help="Show no progress.")
def audit(
    target: str,
    epsilon: Number | None,
    delta: Number,
    n: int,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
    **noise: Any,
) -> None:
    """Look for what FUNCTION gives away beyond its promise.

    FUNCTION takes one array of equal counts and returns it with noise, as for `dpfast bench
    --sampler`: of int64, or of float64 if --distribution is a real one. Or it is FUNCTION(count,
    n), and returns n independent noisy counts. MODULE is one that Python can import from here, or a
    file.py.

    Exit codes: 0 if nothing is found, 1 if something is, 2 for wrong usage. Each of the two audits
    accuses a mechanism that keeps its promise with probability at most one in a million.
    """
    from dpfast.evidence import audit as auditor

    if epsilon is None and (noise["distribution"] is None or plot):
        raise click.UsageError("Missing option '--epsilon': what the function promises")
    if plot:
        from dpfast.app.pictures.audit import draw  # before minutes are spent: matplotlib may be missing
    exact = noise_of(epsilon=epsilon, **noise) if noise["distribution"] else None
    function, reports = auditor.load(target), []
    with closing(terminal.Bar(quiet=quiet)) as bar:
        common: dict[str, Any] = {"n": n, "progress": lambda text: bar.show(text=text)}
        if epsilon is not None:
            real = exact is not None and not exact.INTEGERS
            of = {"delta": delta, "sensitivity": noise["sensitivity"], "real": real, **common}
            reports.append(auditor.privacy(function, epsilon, **of))
        if exact:
            reports.append(auditor.law(function, exact, on_grid=noise["granularity"] is not None, **common))
    found = any(report.found for report in reports)
    if as_json:
        facts = {report.kind: report.as_dict() for report in reports}
        print_json({"target": target, "found": found} | facts)
    else:
        click.echo("\n\n".join(report.text() for report in reports))
    if plot and reports[0].compared:
        draw(reports[0], plot)
    if found:
        click.get_current_context().exit(1)
