# SPDX-License-Identifier: Apache-2.0
"""The picture of running totals: a line and a band for each cell, on light pages and dark ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the extra plots")

import dpfast
from dpfast.app.pictures import style, totals
from dpfast.app.pictures.totals import LINES, bands


@pytest.mark.parametrize("cells", [1, 3, 9])
def test_lines_lie_within_their_bands(tmp_path, monkeypatch, cells) -> None:
    drawn = []
    monkeypatch.setattr(totals, "save", lambda figure, path: (drawn.append(figure), style.save(figure, path)))
    law = dpfast.RunningTotals(30, sensitivity=dpfast.Sensitivity(1, 1), rho=1)
    noisy = dpfast.running_totals(law, np.arange(30 * cells).reshape(30, cells))
    names = [f"city ${at}$ <b>" for at in range(cells)]
    bands(noisy, names, tmp_path / "a.svg", 0.9)
    [axes], half = drawn[0].axes, noisy.interval(0.9)
    largest = np.argsort(-noisy.values[-1], kind="stable")[: len(LINES)]
    assert len(axes.get_lines()) == len(axes.collections) == len(largest)
    for cell, line, band in zip(largest, axes.get_lines(), axes.collections, strict=True):
        assert line.get_ydata() == pytest.approx(noisy.values[:, cell])
        low, high = (end(band.get_paths()[0].vertices[:, 1]) for end in (np.min, np.max))
        assert low == pytest.approx((noisy.values[:, cell] - half).min())
        assert high == pytest.approx((noisy.values[:, cell] + half).max())
    assert len({line.get_linestyle() + line.get_color() for line in axes.get_lines()}) == len(largest)
    said = " ".join(text.get_text() for text in axes.texts)
    assert "bands of 90 %; rho 1 per person" in said
    assert ("the 5 largest of 9" in said) == (cells == 9)
    picture = (tmp_path / "a.svg").read_text("utf-8")
    used = {*re.findall(r"(?:fill|stroke): (#\w+)", re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL))}
    assert used <= style.DARK.keys()
