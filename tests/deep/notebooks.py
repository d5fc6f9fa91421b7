# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/gallery, run as notebooks, and each again with every fault planted in it.

A run writes the outputs, the answers and the figures into docs/gallery. A page must end with its
own check passed, and with a fault its check, or dpfast itself, must refuse. It wants
dpfast[notebooks].
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from gallery import CITIES, FOLDER, PLANTED, ROOT, digest, drawn, listed, spoilt, text, written

# By the page's check, by its ledger, or by dpfast, which refuses noise for less than a unit adds.
FOUND = "AssertionError", "BudgetExhausted", "ParameterError"


def executed(page: str, folder: Path) -> tuple[list[str], str]:
    """What the cells of a page print when it is run as a notebook, and its answer.

    folder: made here, because a page begins without the files of another run.
    """
    import jupytext
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell
    from traitlets.config import Config

    folder.mkdir()
    shutil.copy(CITIES, folder)
    notebook = jupytext.reads(page, fmt="md")
    notebook.cells.append(new_code_cell("print(answer)"))
    sockets = Config({"AsyncKernelManager": {"transport": "ipc", "ip": str(folder / "kernel")}})
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(
        notebook, config=sockets, kernel_name="python3", timeout=600, startup_timeout=600, resources=resources
    ).execute()
    outputs = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            streams = [each for each in cell.outputs if each.output_type == "stream"]
            if errors := [each.text for each in streams if each.name == "stderr"]:
                raise AssertionError(f"a page must run without warnings: {errors}")
            outputs.append("".join(each.text for each in streams))
    return outputs[:-1], outputs[-1].strip()


def refusal(page: str, folder: Path) -> str | None:
    """The kind of error that ends a page, or None."""
    from nbclient.exceptions import CellExecutionError

    try:
        executed(page, folder)
    except CellExecutionError as error:
        return str(error.ename)
    return None


def check(*, cheap: bool) -> dict[str, Any]:
    """Every page and every fault; cheap: the first page alone, which is not written."""
    if cheap:
        for needed in ("ipykernel", "jupytext", "nbclient", "statsmodels"):
            pytest.importorskip(needed)
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as home:
        patched.setenv("MATPLOTLIBRC", str(FOLDER / "matplotlibrc"))
        patched.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        for name in listed()[:1] if cheap else listed():
            page, folder = text(name), Path(home) / name
            outputs, answer = executed(page, folder)
            figure = drawn((folder / f"{name}.svg").read_text())
            planted = () if cheap else PLANTED[name]
            faults = {
                fault.name: refusal(spoilt(page, fault), folder.with_name(f"{name}-{number}"))
                for number, fault in enumerate(planted)
            }
            missed = [fault for fault, error in faults.items() if error not in FOUND]
            assert not missed, f"{name}: these faults were not found: {missed}"
            found[name] = {"code": digest(page), "cells": len(outputs), "faults": faults}
            if not cheap:
                (FOLDER / f"{name}.svg").write_text(figure)
                (FOLDER / f"{name}.md").write_text(written(page, outputs, answer), "utf-8")
    return found
