# SPDX-License-Identifier: Apache-2.0
"""`dpfast explain`: what mechanisms promise, in words, in JSON and in pictures."""

from __future__ import annotations

import errno
import math
import re
import sys
from fractions import Fraction
from typing import IO

import numpy as np
import pytest
import tiers
from command import DG, LAPLACE, LAW, NAMED, ONE_CELL, G, explain, names, one_error
from matplotlib.figure import Figure
from matplotlib.image import imread

import dpfast
from dpfast.app.cli import main
from dpfast.app.cli.options import MECHANISMS
from dpfast.app.pictures import mechanisms as pictures
from dpfast.privacy import meaning
from dpfast.privacy.belief import posterior


@pytest.mark.parametrize("name", ["exponential", "permute-and-flip", "noisy-max", "above-threshold"])
def test_explain_says_whether_a_choice_is_monotonic(capsys, name) -> None:
    """Contributions' consequences are shown, with reasons; signed or bare numbers have none."""
    options = ["--mechanism", name, "--epsilon", "1"]
    cells = ["--l0", "3", "--linf", "2"]
    for change in (cells, [*cells, "--signed"], [*cells, "--adjacency", "substitution"], ["--sensitivity", "2"]):
        expected = "yes" if change is cells else "no"
        text, facts = explain(capsys, *options, *change)
        assert f" monotonic {expected}: " in text
        assert "at most 2.72 times (e^epsilon)" in text
        assert (facts["monotonic"], facts["sensitivity"]) == (expected == "yes", "2")
    for wrong in (["--cells", "5"], ["--delta", "1e-6"], ["--rho", "1"], ["--releases", "5", "--plot", "x.png"]):
        assert main(["explain", *options, *cells, *wrong]) == 2
    assert main(["privatize", "a.csv", "b.csv", *options, *cells]) == 2  # which adds noise, and chooses nothing


@pytest.mark.parametrize("name", NAMED)
def test_explain_says_what_every_mechanism_says(capsys, name) -> None:
    """JSON has the metadata, and half-widths that are the mechanism's own."""
    options, mechanism = NAMED[name][0], NAMED[name][1]()
    text, facts = explain(capsys, "--mechanism", name, *options, "--cells", "1000")
    assert mechanism.metadata().items() <= facts.items()
    for confidence, widths in facts["half_widths"].items():
        assert widths["one_cell"] == mechanism.interval(Fraction(confidence))
        assert widths["all_cells"] == mechanism.interval(Fraction(confidence), cells=1000)
    for words in ("mechanism, ", "standard deviation", "all 1,000 cells", facts["meaning"]):
        assert words in text
    assert ("granularity 2**" in text) == MECHANISMS[name].real


@pytest.mark.parametrize(
    ("options", "words", "delta_is"),
    [
        ([*DG, "--rho", "0.5", *ONE_CELL], "rho = 0.5, and (epsilon, delta)", "exact"),
        ([*DG, "--sigma", "2", *ONE_CELL], "rho = 0.125, and (epsilon, delta)", "exact"),
        ([*DG, "--rho", "0.5", "--l2-squared", "1"], "an L2 norm alone gives no better", "a bound through zCDP"),
        ([*DG, "--sigma", "1", "--l0", "1000", "--linf", "1"], "so many cells are too many", "a bound through zCDP"),
        ([*G, "--rho", "0.5", "--l2-squared", "1"], "This delta is exact", "exact"),
        ([*G, "--epsilon", "1", "--delta", "1e-9", *ONE_CELL], "with epsilon = 1 and delta = 1e-9", "exact"),
    ],
)
def test_explain_of_a_gaussian_gives_an_epsilon_and_a_delta_that_hold(capsys, options, words, delta_is) -> None:
    """A rho's epsilon for delta = 1e-6: proved by the mechanism, less than 1 % too large."""
    _, facts = explain(capsys, *options)
    assert words in facts["meaning"]
    assert facts["promise"]["delta_is"].startswith(delta_is)
    epsilon, delta = Fraction(facts["promise"]["epsilon"]), Fraction(facts["promise"]["delta"])
    squared = Fraction(facts["sigma_squared"])
    kind = dpfast.Gaussian if facts["mechanism"] == "gaussian" else dpfast.DiscreteGaussian
    if "l0" in facts:
        known = dpfast.Sensitivity(facts["l0"], Fraction(facts["linf"]))
    else:
        known = dpfast.Sensitivity.from_l2(Fraction(facts["l2_squared"]))
    mechanism = kind(sigma_squared=squared, sensitivity=known)
    assert mechanism.delta(epsilon) <= delta
    if "--epsilon" not in options:
        assert delta == Fraction(1, 10**6)
        assert mechanism.delta(epsilon * Fraction(99, 100)) > delta


@pytest.mark.parametrize("options", [[*G, "--sigma", "2"], [*DG, "--sigma", "2"]])
def test_sigma_alone_is_explained_and_promises_nothing(capsys, options) -> None:
    text, _ = explain(capsys, *options)
    assert "sigma promises nothing before it is said what one unit can change" in text
    assert "adjacency" not in text
    assert main(["explain", *options, "--unit", "household"]) == 2
    one_error(capsys.readouterr().err, "Missing option '--l0' with '--linf', or '--l2-squared'")


def test_a_rho_beyond_use_is_called_so(capsys) -> None:
    assert "so large a rho promises next to nothing" in explain(capsys, *DG, "--sigma", "0.001", *ONE_CELL)[0]


@pytest.mark.parametrize(
    ("picture", "most", "name"),
    [
        *(("noise", 0.5, name) for name in NAMED),
        *((picture, 0.6, name) for picture in ("posterior", "loss") for name in NAMED),
        *(pytest.param("costs --releases 6", 0.6, name, marks=pytest.mark.slow) for name in NAMED),
    ],
)
def test_every_law_is_drawn(tmp_path, name, picture, most) -> None:
    """And what its promise means: of a size, with some ink and none at the border."""
    path = tmp_path / "picture.png"
    words = ["--mechanism", name, *NAMED[name][0], "--plot", str(path), "--picture", *picture.split()]
    assert main(["explain", *words]) == 0
    pixels = imread(path)
    ink = (pixels[..., :3] < 0.9).any(axis=2)
    law = (720, 1840 if "gaussian" in name else 1280)
    assert pixels.shape[:2] == {"noise": law, "posterior": (1152, 1120)}.get(picture, (720, 1280))
    assert 0.02 < ink.mean() < most
    border = np.concatenate([ink[:5].ravel(), ink[-5:].ravel(), ink[:, :5].ravel(), ink[:, -5:].ravel()])
    assert not border.any(), "something is cut off"


CHOSEN = {
    name: (["--epsilon", "0.1", *ONE_CELL], lambda kind=kind: kind("0.1", dpfast.Sensitivity(1, 1)))
    for name, kind in {"exponential": dpfast.Exponential, "noisy-max": dpfast.NoisyMax}.items()
}


COSTED = [*(pytest.param(name, marks=pytest.mark.slow) for name in NAMED), *CHOSEN]


@pytest.mark.parametrize("name", COSTED)
def test_what_several_releases_cost(tmp_path, capsys, monkeypatch, name) -> None:
    """By the sum, rho and the distribution, as `compose` says it; without its library by two."""
    pytest.importorskip("dp_accounting")
    options, make = {**NAMED, **CHOSEN}[name]
    mechanism, delta, n = make(), Fraction(1, 10**6), 8
    words = ["--mechanism", name, *options, "--releases", str(n)]
    assert main(["explain", *words, "--plot", str(tmp_path / "costs.svg"), "--picture", "costs"]) == 0
    capsys.readouterr()
    said, told = explain(capsys, *words)
    several = [mechanism] * n
    each = mechanism.guarantee if mechanism.guarantee.pure else mechanism.guarantee.approximate(delta / n)
    expected = {
        "sum": n * each.epsilon,
        "rho": dpfast.Guarantee(rho=dpfast.compose(*several).rho, gdp=mechanism.guarantee.gdp)
        .approximate(delta)
        .epsilon,
        "distribution": dpfast.compose(*several, by="pld", delta=delta).epsilon,
    }
    assert f"{n} releases, delta 1e-6 epsilon by the sum of epsilons" in said
    assert f" by {'mu' if mechanism.guarantee.gdp else 'rho'} " in said
    assert told["together"] == {
        "releases": n,
        "delta": str(delta),
        "epsilon": {way: str(each) for way, each in expected.items()},
    }
    assert expected["distribution"] <= min(expected["rho"], expected["sum"])
    monkeypatch.setitem(sys.modules, "dpfast.adapters.dp_accounting", None)
    monkeypatch.delattr("dpfast.adapters.dp_accounting")
    assert explain(capsys, *words)[1]["together"]["epsilon"].keys() == {"sum", "rho"}


ANY_WIDTH = [
    [*G, "--sigma", "1e-9"],
    [*G, "--rho", "1", *ONE_CELL, "--granularity", "4"],
    [*G, "--epsilon", "1", "--delta", "1e-20", *ONE_CELL],
    [*DG, "--sigma", "0.001"],
    [*DG, "--sigma", "1e9", *ONE_CELL],
    [*LAPLACE, "--epsilon", "1e-9", "--sensitivity", "1"],
    [*LAPLACE, *LAW, "--granularity", "2**50"],
    [*LAPLACE, *LAW, "--granularity", "2**-60"],
    [*G, "--rho", "1e-30", *ONE_CELL],
    *(["--epsilon", epsilon, "--sensitivity", "1"] for epsilon in ("1", "30", "0.001", "1e-17")),
]
MANY_LOSSES = [*DG, "--sigma", "0.4", "--l0", "5", "--linf", "1.5"]
FEW_STEPS = ["--epsilon", "1e-15", "--sensitivity", "100"]  # its belief and its costs are drawn as those of 1e-17
ANY_SIZE = [
    ["--epsilon", "1e-17", "--sensitivity", "1"],
    ["--epsilon", "999", "--sensitivity", "2"],
    ["--epsilon", "1", "--sensitivity", "1/2"],
    [*DG, "--rho", "900", *ONE_CELL],
    MANY_LOSSES,
    [*DG, "--rho", "0.1", "--l2-squared", "7"],
    [*G, "--rho", "1e-30", *ONE_CELL],
]


@pytest.mark.parametrize(
    ("options", "picture", "name"),
    [
        *((options, "noise", "noise.SVG") for options in ANY_WIDTH[:-4]),
        *((options, "noise", "noise.png") for options in ANY_WIDTH[-4:]),
        (FEW_STEPS, "loss", "loss.svg"),
        *((options, picture, f"{picture}.svg") for options in ANY_SIZE for picture in ("posterior", "loss")),
        *(([*options, "--releases", "3"], "costs", "costs.svg") for options in ANY_SIZE if options != MANY_LOSSES),
        pytest.param([*MANY_LOSSES, "--releases", "3"], "costs", "costs.svg", marks=pytest.mark.slow),
    ],
)
def test_laws_and_promises_of_any_size_are_drawn(tmp_path, options, picture, name) -> None:
    assert main(["explain", *options, "--plot", str(tmp_path / name), "--picture", picture]) == 0
    content = (tmp_path / name).read_bytes()
    start, end = (b"\x89PNG", b"IEND\xaeB`\x82") if name.endswith("png") else (b"<?xml", b"</svg>\n")
    assert content.startswith(start)
    assert content.endswith(end)
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("picture", ["posterior", "loss"])
@pytest.mark.parametrize(
    "options", [[*G, "--sigma", "2"], [*DG, "--sigma", "0.001", *ONE_CELL], ["--epsilon", "1001", "--sensitivity", "1"]]
)
def test_where_nothing_is_promised_no_belief_is_drawn(tmp_path, capsys, options, picture) -> None:
    assert "belief" not in explain(capsys, *options)[0]
    assert main(["explain", *options, "--plot", str(tmp_path / "picture.png"), "--picture", picture]) == 2
    one_error(capsys.readouterr().err, "picture must be noise where nothing")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("mechanism", "known"),
    [
        (dpfast.DiscreteLaplace(2, 6), meaning.DiscreteLaplaceLoss(Fraction(1, 3), 6)),
        (dpfast.DiscreteLaplace(2, 300), meaning.DiscreteLaplaceLoss(Fraction(1, 150), 300)),
        (dpfast.DiscreteLaplace(1, 0.5), meaning.DiscreteLaplaceLoss(Fraction(2), 0)),
        (dpfast.Laplace(3, 1), meaning.LaplaceLoss(Fraction(3))),
        (
            dpfast.DiscreteLaplace(2, dpfast.Sensitivity(3, 2)),
            meaning.CellsLoss(meaning.DiscreteLaplaceLoss(Fraction(1, 3), 2), 3),
        ),
        (dpfast.Laplace(3, dpfast.Sensitivity(4, 7)), meaning.CellsLoss(meaning.LaplaceLoss(Fraction(3, 4)), 4)),
        (dpfast.Laplace(9, dpfast.Sensitivity(900, 1)), meaning.CellsLoss(meaning.LaplaceLoss(Fraction(1, 100)), 900)),
        (dpfast.Gaussian.from_zcdp(2, dpfast.Sensitivity(1, 1)), meaning.GaussianLoss(Fraction(2))),
        (dpfast.DiscreteGaussian.from_zcdp(2, dpfast.Sensitivity(5, 2)), meaning.ZCDPLoss(Fraction(2))),
        (dpfast.DiscreteGaussian.from_zcdp(8, dpfast.Sensitivity(5, 1)), meaning.ZCDPLoss(Fraction(8))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_drawn_loss_is_the_loss(mechanism, known) -> None:
    """Bars and area together are a law, of the mean that is marked and of the tail that is said."""
    bars, (where, density) = tiers.losses(pictures)(mechanism)
    middles, areas = (where[1:] + where[:-1]) / 2, (density[1:] + density[:-1]) * np.diff(where) / 2
    losses, shares = np.append(middles, list(bars)), np.append(areas, list(bars.values()))
    assert shares.sum() == pytest.approx(1, abs=3e-4)
    assert losses @ shares == pytest.approx(known.mean, rel=3e-3, abs=1e-12)
    for at in np.linspace(losses.min() + 0.013, losses.max() - 0.013, 7) if len(losses) > 1 else []:
        above = shares[losses > at].sum()
        if isinstance(known, (meaning.CellsLoss, meaning.ZCDPLoss)) and not isinstance(known, meaning.GaussianLoss):
            assert above <= known.above(Fraction(at))
        else:
            assert above == pytest.approx(known.above(Fraction(at)), abs=6e-3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--epsilon", "1"], 2, "Missing option '--sensitivity'"),
        ([*LAW, "--picture", "loss"], 2, "'--picture' says what '--plot' draws"),
        (
            [*LAW, "--plot", "law.png", "--picture", "costs"],
            2,
            "'--picture costs' draws what '--releases' cost together",
        ),
        ([*LAW, "--plot", "data.csv"], 2, "plot must be a .png, .svg or .pdf file"),
        ([*LAW, "--plot", "no/law.png"], 1, "cannot write .*law.png: No such file"),
    ],
)
def test_what_explain_cannot_do_is_one_line(tmp_path, capsys, monkeypatch, options, code, message) -> None:
    (tmp_path / "data.csv").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    assert main(["explain", *options]) == code
    one_error(capsys.readouterr().err, message)


# explain and info


def test_explain_says_what_the_mechanism_says(capsys) -> None:
    """In words, for one cell and for all; NAMED has the figures of every law."""
    assert main(["explain", *LAW, "--cells", "1000"]) == 0
    text = capsys.readouterr().out
    for words in ("scale 1\n", "1.35696", "one cell", "all 1,000 cells", "±3", "±10", "add-remove, unit: person"):
        assert words in text


RATIOS = {"1": "2.72", "0.001": "1.00101", "3": "20.1", "1e-15": "1.00000000000000101", "10": "22,100", "50": None}


@pytest.mark.parametrize(("epsilon", "ratio"), RATIOS.items())
def test_explain_rounds_its_promise_up(capsys, epsilon, ratio) -> None:
    words, _ = explain(capsys, "--epsilon", epsilon, "--sensitivity", "1")
    assert (f"at most {ratio} times (e^epsilon)" if ratio else "at most e^epsilon times as") in words


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        (["--epsilon", "1", "--sensitivity", "1"], "26.8 %", "73.2 %"),
        (["--epsilon", "0.5", "--sensitivity", "3", *LAPLACE], "37.7 %", "62.3 %"),
        (["--epsilon", "12", "--sensitivity", "1"], "0.000614 %", "99.999386 %"),
        (["--epsilon", "100", "--sensitivity", "1"], "0 %", "100 %"),
        ([*G, "--rho", "0.5", *ONE_CELL], "0.276 %", "99.724 %"),
    ],
)
def test_explain_bounds_beliefs(capsys, options, least, most) -> None:
    """A prior of 50 % in words and in JSON, rounded outwards; a Gaussian's but for its delta."""
    text, facts = explain(capsys, *options)
    assert f" 50 % {least} {most} " in text
    assert "Belief: how sure a reader can be that a certain person is in the data" in text
    after = facts["belief"]["after"]["0.5"]
    assert posterior(0.5, Fraction(facts["belief"]["epsilon"])) == tuple(after.values())
    low, high = (float(word.removesuffix(" %")) / 100 for word in (least, most))
    assert low <= after["at_least"] * (1 + 1e-12)
    assert after["at_most"] <= high * (1 + 1e-12)
    gaussian = "gaussian" in facts["mechanism"]
    assert facts["belief"]["but_for"] == ("1/1000000" if gaussian else "0")
    assert ("It holds in all but 1e-6 of releases" in text) == gaussian
    assert ("take four times the rho" in text, "take twice the epsilon" in text) == (gaussian, not gaussian)


def test_what_substitution_promises_is_about_the_data_of_a_unit(capsys) -> None:
    text, _ = explain(capsys, *LAW, "--adjacency", "substitution", "--unit", "household")
    assert "replacing the data of any one household by any other data makes any result" in text
    assert "how sure a reader can be of anything about the data of a certain household" in text
    assert "twice the epsilon" not in text


def test_explain_says_the_privacy_loss(capsys) -> None:
    """Its mean, its largest value or its tail: as the closed forms have them."""
    said = {
        tuple(LAW): "on average 0.462118, never above 1 ",
        ("--epsilon", "1", "--sensitivity", "2.5"): "on average 0.263744, never above 0.8 ",  # integers move by 2
        (*LAPLACE, *LAW): "on average 0.36788, never above 1 ",
        (
            "--epsilon",
            "1",
            "--l0",
            "10",
            "--linf",
            "1",
        ): "on average 0.0499584, never above 1 ",  # not 0.36788, as of one
        ("--epsilon", "1", "--l0", "1", "--linf", "3.5"): "on average 0.289274, never above 6/7 ",
    }
    for options, words in said.items():
        assert f"privacy loss {words}" in explain(capsys, *options)[0], options
    _, facts = explain(capsys, *LAW)
    assert facts["privacy_loss"] == {"mean": pytest.approx(np.tanh(0.5), rel=1e-12), "most": "1"}
    tail = {"gaussian": lambda z: math.erfc(z / math.sqrt(2)) / 2, "discrete-gaussian": lambda z: math.exp(-(z**2) / 2)}
    for name, above in tail.items():
        text, facts = explain(capsys, "--mechanism", name, "--rho", "0.5", *ONE_CELL)
        epsilon, share = next(iter(facts["privacy_loss"]["above"].items()))
        assert epsilon == facts["promise"]["epsilon"]
        assert share == pytest.approx(above(Fraction(epsilon) - Fraction(1, 2)), rel=1e-9)  # rho, and variance 2 rho
        assert facts["privacy_loss"]["mean"] == 0.5
        found = re.search(r"on average 0\.5, above (\S+) in (at most )?(\S+) % of releases", text)
        assert (Fraction(found[1]), bool(found[2])) == (Fraction(epsilon), name != "gaussian")
        assert share <= float(found[3]) / 100 <= 1.01 * share


def test_explain_says_where_the_textbook_fails(capsys) -> None:
    """scale 1: 3 or more with probability 0.0728, where the textbook has 0.05."""
    text, facts = explain(capsys, *LAW, "--cells", "20")
    assert "95 %, textbook ±2.99574 ±5.99147" in text
    assert "beyond it with probability 7.01 %, not 5 %: go by the exact rows" in text
    widths = facts["textbook"]["half_widths"]["0.95"]
    assert widths == {"one_cell": pytest.approx(np.log(20)), "all_cells": pytest.approx(np.log(400))}
    assert facts["textbook"]["missed"]["0.95"]["one_cell"] == pytest.approx(2 * np.exp(-3) / (1 + np.exp(-1)))
    narrow = explain(capsys, "--epsilon", "1.4", "--sensitivity", "1")[0]
    assert "probability 2.41 %, so here it holds" in narrow
    assert "for all cells by the union bound" in explain(capsys, *LAPLACE, *LAW)[0]
    assert "extbook" not in explain(capsys, *G, "--rho", "1", *ONE_CELL)[0]


def test_a_picture_appears_whole_or_not_at_all(tmp_path, capsys, monkeypatch) -> None:
    def fail(_figure: Figure, file: IO[bytes], **_: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(Figure, "savefig", fail)
    (tmp_path / "law.png").write_text("old")
    assert main(["explain", *LAW, "--plot", str(tmp_path / "law.png")]) == 1
    one_error(capsys.readouterr().err, "cannot write .*law.png: No space left on device")
    assert names(tmp_path) == ["law.png"]
    assert (tmp_path / "law.png").read_text() == "old"
