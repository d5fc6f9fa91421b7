# SPDX-License-Identifier: Apache-2.0
"""The auditor finds planted defects, accuses nothing private, and states its power."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast.app.cli import main
from dpfast.app.pictures.audit import draw
from dpfast.errors import DTypeError, ParameterError
from dpfast.evidence import audit
from dpfast.evidence.audit.certify import least_epsilon
from dpfast.evidence.bench import sampler

NEIGHBOURS = [(0, 1)]
rng = np.random.default_rng(20120)


def geometric(n, epsilon=1) -> np.ndarray:
    return dpfast.DiscreteLaplace(epsilon, 1).sample(n)


def laplace(n, scale=1.0) -> np.ndarray:
    return rng.laplace(0, scale, n)


def grid(count, n) -> np.ndarray:
    return dpfast.Laplace(1, 1).release(np.full(n, float(count)))


def cleared(values, bit=1) -> np.ndarray:
    """Floats with the last bit of the significand cleared."""
    return (np.asarray(values, np.float64).view(np.int64) & ~np.int64(bit)).view(np.float64)


def spiked(n) -> np.ndarray:
    return np.where(rng.random(n) < 0.3, 0, geometric(n))


def signed_zero(count, n) -> np.ndarray:
    noisy = np.rint(count + laplace(n))
    return np.where(noisy == 0, math.copysign(0, count - 0.5), noisy)


DEFECTS = {
    "scale halved": (lambda x, n: x + geometric(n, 2), 20_000),
    "scale halved, floats on a grid": (lambda x, n: dpfast.Laplace(2, 1).release(np.full(n, float(x))), 20_000),
    "no noise": (lambda x, n: np.full(n, x), 1_000),
    "clipped noise": (lambda x, n: x + np.clip(geometric(n), -4, 4), 100_000),
    "clipped noise, floats": (lambda x, n: x + np.clip(np.rint(laplace(n) * 64) / 64, -4, 4), 100_000),
    "a heavier zero": (lambda x, n: x + spiked(n), 40_000),
    "low bit of the noise cleared": (lambda x, n: x + (geometric(n) & ~1), 4_000),
    "low bit of float noise cleared": (lambda x, n: x + cleared(laplace(n)), 20_000),
    "textbook Laplace in doubles": (lambda x, n: x + laplace(n), 20_000),
    "sign of zero": (signed_zero, 20_000),
    "Gaussian noise": (lambda x, n: x + dpfast.DiscreteGaussian(1).sample(n), 100_000),
    "sensitivity of 2": (lambda x, n: 2 * x + geometric(n), 20_000),
    "one side alone": (lambda x, n: x + np.abs(geometric(n)), 20_000),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name) -> None:
    """Each in the pair of counts 0 and 1, and no bound below the promise is called found."""
    function, n = DEFECTS[name]
    report = audit.privacy(function, 1, n=n, pairs=NEIGHBOURS)
    assert report.found, report.text()
    assert report.bound > 1, report.text()
    assert report.lines[-1].verdict == "found"
    assert report.event


@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1])
def test_noise_three_per_cent_too_small_is_found(epsilon) -> None:
    """From the counts 2/epsilon apart, whatever epsilon is."""
    noise = dpfast.DiscreteLaplace(1.03 * epsilon, 1)
    pairs = [(0, 1), (0, round(2 / epsilon))]
    report = audit.privacy(lambda x, n: x + noise.sample(n), epsilon, n=1_000_000, pairs=pairs)
    assert report.found
    assert epsilon < report.bound < 1.03 * epsilon


NAMES = {
    "textbook Laplace in doubles": r"the output is (no multiple of 2\*\*-5\d|.* with its lowest bit at 2\*\*-\d\d) .* % of the draws for 0",
    "low bit of the noise cleared": "the output is (odd|even)",
    "scale halved": "the output is (at least 1 |below 1 |1, 2, 3)",
    "sign of zero": r"the output is (-0\.0|0) ",
}


def named(name: str, words: str) -> bool:
    """Five of nine audits describe the defect in these words."""
    reports = (audit.privacy(DEFECTS[name][0], 1, n=40_000, pairs=NEIGHBOURS) for _ in range(9))
    return sum(1 for _ in islice((r for r in reports if re.match(words, r.event)), 5)) == 5


@pytest.mark.chance(6e-7)
@pytest.mark.parametrize("name", NAMES)
def test_events_are_named(name) -> None:
    """By the simplest that shows the defect, most of the time.

    Now and then chance makes another event the stronger one, which is a name, too: of 400 audits a
    defect, 3, 0, 3 and 0 were named otherwise. At 2.2 %, which 3 of 400 leave possible at a level
    of 0.975, five or more of nine are in 6e-7 of the runs.
    """
    assert named(name, NAMES[name])


def test_another_name_is_refused() -> None:
    """The words of one defect are not those of another."""
    assert not named("sign of zero", NAMES["scale halved"])


@pytest.mark.chance(audit.ALPHA)
def test_noise_that_is_used_again() -> None:
    """Equal in each call, or one draw for all outputs; constant outputs are another matter."""
    again = audit.privacy(lambda x, n: x + np.random.default_rng(5).laplace(0, 1, n), 1, n=2000)
    single = audit.privacy(lambda x, n: np.full(n, x + laplace(1)[0]), 1, n=2000)
    for report in (again, single):
        assert report.found
        assert math.isinf(report.bound)
        assert report.lines[0].verdict == "found"
        assert "no epsilon holds" in report.text()
    assert not audit.privacy(lambda x, n: np.zeros(n, int), 1, n=2000).found


@pytest.mark.chance(audit.ALPHA)
def test_counts_that_change_the_noise_are_scouted() -> None:
    """Rounded before the noise: 0 and 1 show nothing, 4 and 5 or 5 and 6 do."""
    report = audit.privacy(lambda x, n: 10 * round(x / 10) + geometric(n), 1, n=100_000)
    assert report.found
    assert report.lines[-1].verdict == "found"
    assert {line.verdict for line in report.lines[1:-1]} == {"passed"}
    refuses = audit.privacy(lambda x, n: x + geometric(n) if x < 100 else 1 / 0, 1, n=20_000)
    assert not refuses.found


PRIVATE = {
    "discrete Laplace": lambda x, n: x + geometric(n),
    "release": lambda x, n: dpfast.DiscreteLaplace(1, 1).release(np.full(n, x)),
    "narrow": lambda x, n: dpfast.DiscreteLaplace(1, 1).release(np.full(n, x), dtype=np.int8, lower=-2, upper=2),
    "Laplace": grid,
    "Laplace in float32": lambda x, n: dpfast.Laplace(1, 1).release(np.full(n, x, np.float32)),
    "Snapping": lambda x, n: dpfast.Snapping(1, 1, bound=64).release(np.full(n, float(x))),
    "output rounded to tens": lambda x, n: 10 * np.rint((x + geometric(n)) / 10),
    "low bit of the output cleared": lambda x, n: (x + geometric(n)) & ~1,
    "low bits of a float output cleared": lambda x, n: cleared(grid(x, n), 2**40 - 1),
    "output clamped": lambda x, n: np.clip(x + geometric(n), 0, 3),
    "a function of the output": lambda x, n: np.sqrt(np.abs(grid(x, n))),
    "floats rounded afterwards": lambda x, n: np.rint((x + laplace(n)) * 8) / 8,
    "a list": lambda x, n: (x + geometric(n)).tolist(),
    "a generator": lambda x, n: (int(y) for y in x + geometric(n)),
    "constant": lambda x, n: np.zeros(n),
}


# Other counts are looked at for "discrete Laplace", "Laplace" and others, whose noise these have.
FORMS = {
    "release", "a list", "a generator", "constant", "Laplace in float32", "low bit of the output cleared",
    "low bits of a float output cleared", "a function of the output",
}  # fmt: skip


@pytest.mark.chance(audit.ALPHA)
@pytest.mark.parametrize("name", PRIVATE)
def test_private_mechanisms_pass(name) -> None:
    """Each would be accused with probability ALPHA at most."""
    pairs = [(0, 1), (0, 2)] if name in FORMS else None  # by default also what a look at forty others finds
    report = audit.privacy(PRIVATE[name], 1, n=40_000, pairs=pairs)
    assert not report.found, report.text()
    assert report.bound <= 1, report.text()
    assert all(line.verdict == "passed" for line in report.lines)


@pytest.mark.chance(2 * audit.ALPHA)
def test_delta() -> None:
    """A Gaussian of (epsilon, delta) passes; without delta or with half the sigma it fails."""
    cells = dpfast.Sensitivity(1, 1)
    right = dpfast.DiscreteGaussian.calibrated(1, cells, delta=1e-3)
    wrong = dpfast.DiscreteGaussian(right.sigma / 2)
    options = {"n": 200_000, "pairs": [(0, 1), (0, 2)]}
    assert not audit.privacy(lambda x, n: x + right.sample(n), 1, delta=1e-3, **options).found
    assert audit.privacy(lambda x, n: x + wrong.sample(n), 1, delta=1e-3, **options).found
    assert audit.privacy(lambda x, n: x + wrong.sample(n), 1, **options).found

    def leaky(x, n) -> np.ndarray:
        return np.where(rng.random(n) < 0.01, 1000 + x, x + geometric(n))

    for delta in (0, 0.01):
        assert audit.privacy(leaky, 1, delta=delta, n=100_000, pairs=NEIGHBOURS).found is (delta == 0)


@pytest.mark.chance(2 * audit.ALPHA)
@pytest.mark.slow
def test_sensitivity() -> None:
    """Counts further apart than it are held to so many steps' epsilon."""
    noise = dpfast.DiscreteLaplace(1, 10)

    def mine(x, n) -> np.ndarray:
        return x + noise.sample(n)

    assert not audit.privacy(mine, 1, n=40_000, sensitivity=10).found
    assert not audit.privacy(mine, 1, n=40_000, sensitivity=5).found
    assert 1 < audit.privacy(mine, 1, n=40_000, sensitivity=20).bound < 2
    assert audit.privacy(mine, 0.1, n=100_000, sensitivity=10).found
    assert audit.privacy(mine, 1, n=40_000, pairs=[(0, 30)], sensitivity=10).compared.steps == 3


@pytest.mark.chance(1e-6)
@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated(monkeypatch) -> None:
    """At a level of one half, noise of exactly epsilon fails at most half of 40 audits."""
    monkeypatch.setattr("dpfast.evidence.audit.findings.ALPHA", 0.5)
    found = [audit.privacy(PRIVATE["discrete Laplace"], 1, n=2000, pairs=NEIGHBOURS).found for _ in range(40)]
    assert sum(found) <= stats.binom.isf(1e-6, 40, 0.5)


@pytest.mark.chance(1e-6)
@pytest.mark.slow
def test_power_is_as_stated() -> None:
    """What it claims to find nine times of ten, it finds; with too few draws it claims nothing."""
    report = audit.privacy(PRIVATE["discrete Laplace"], 1, n=20_000, pairs=NEIGHBOURS)
    least = float(re.search(r"spends ([\d.]+)", report.could)[1])
    noise = dpfast.DiscreteLaplace(least, 1)
    found = [audit.privacy(lambda x, n: x + noise.sample(n), 1, n=20_000, pairs=NEIGHBOURS).found for _ in range(20)]
    assert 1.05 < least < 1.3
    assert sum(found) >= stats.binom.ppf(1e-6, 20, 0.9)
    few = audit.privacy(PRIVATE["discrete Laplace"], 5, n=200, pairs=NEIGHBOURS)
    assert "this audit says nothing" in few.text()


WIDE, NORMAL = dpfast.DiscreteLaplace(1, 10**5), dpfast.DiscreteGaussian(2.5)
ON_GRID = dpfast.Gaussian(3, granularity=0.25)
LAWFUL = {
    "discrete Laplace": (PRIVATE["release"], dpfast.DiscreteLaplace(1, 1), {}),
    "discrete Laplace, wide": (lambda x, n: x + WIDE.sample(n), WIDE, {}),
    "discrete Gaussian": (lambda x, n: x + NORMAL.sample(n), NORMAL, {}),
    "Laplace": (grid, dpfast.Laplace(1, 1, granularity=2.0**-20), {"on_grid": True}),
    "Laplace in doubles": (lambda x, n: x + laplace(n), dpfast.Laplace(1, 1), {}),
    "Gaussian": (lambda x, n: ON_GRID.release(np.full(n, float(x))), ON_GRID, {"on_grid": True}),
    "Gaussian in doubles": (lambda x, n: x + rng.normal(0, 3, n), dpfast.Gaussian(3), {}),
}


@pytest.mark.chance(audit.ALPHA)
@pytest.mark.parametrize("name", LAWFUL)
def test_laws_pass(name) -> None:
    function, law, options = LAWFUL[name]
    report = audit.law(function, law, **options, n=200_000)
    assert not report.found, report.text()
    assert not report.event
    assert "scale that is" in report.could


UNLAWFUL = {
    "rounded Laplace as geometric": (lambda x, n: np.rint(x + laplace(n)), dpfast.DiscreteLaplace(1, 1), {}),
    "scale 3 % too large": (lambda x, n: x + geometric(n, 1 / 1.03), dpfast.DiscreteLaplace(1, 1), {}),
    "scale 3 % too small": (lambda x, n: x + geometric(n, 1.03), dpfast.DiscreteLaplace(1, 1), {}),
    "Laplace 3 % too large": (lambda x, n: x + laplace(n, 1.03), dpfast.Laplace(1, 1), {}),
    "Gaussian 3 % too large": (lambda x, n: x + rng.normal(0, 1.03, n), dpfast.Gaussian(1), {}),
    "floats as whole numbers": (lambda x, n: x + laplace(n), dpfast.DiscreteLaplace(1, 1), {}),
    "off the grid": (lambda x, n: x + laplace(n), dpfast.Laplace(1, 1, granularity=2.0**-10), {"on_grid": True}),
    "a heavier zero": (lambda x, n: x + spiked(n), dpfast.DiscreteLaplace(1, 1), {}),
    "no tails": (lambda x, n: x + np.clip(geometric(n), -7, 7), dpfast.DiscreteLaplace(1, 1), {}),
    "infinite": (lambda x, n: x + laplace(n) / (rng.random(n) > 1e-4), dpfast.Laplace(1, 1), {}),
    "another law at 100": (lambda x, n: x + geometric(n, 1 + (x == 100)), dpfast.DiscreteLaplace(1, 1), {}),
    "shifted": (lambda x, n: x + 0.02 + laplace(n), dpfast.Laplace(1, 1), {}),
}


@pytest.mark.parametrize("name", UNLAWFUL)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_other_laws_are_rejected(name) -> None:
    function, law, options = UNLAWFUL[name]
    report = audit.law(function, law, **options, n=1_000_000)
    assert report.found, report.text()
    assert report.event, report.text()
    assert "FOUND" in report.text()


def test_parameters_are_checked() -> None:
    fine = PRIVATE["discrete Laplace"]
    for name, value in (("epsilon", 0), ("delta", 1), ("n", 10), ("sensitivity", -1)):
        with pytest.raises(ParameterError, match=name):
            audit.privacy(fine, **{"epsilon": 1, name: value})
    with pytest.raises(ParameterError, match="pairs must contain different counts"):
        audit.privacy(fine, 1, pairs=[(1, 1)])
    with pytest.raises(DTypeError, match="callable"):
        audit.privacy(3, 1)
    for law in ("laplace", None, dpfast.Snapping(1, 1, bound=64), dpfast.NoisyMax(1, 1)):
        names = "a DiscreteLaplace, DiscreteGaussian, Laplace, Gaussian, not"
        with pytest.raises(DTypeError, match=f"mechanism must be {names}"):
            audit.law(fine, law)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, n: 1 / 0, "failed for count 0 and .* outputs: ZeroDivisionError: division by zero"),
        (lambda x, n: np.zeros(n - 1), "must return n outputs"),
        (lambda x, n: np.zeros((n, 1)), "must return n outputs"),
        (lambda x, n: 3, "failed"),
        (lambda x, n: np.full(n, np.nan), "returned NaN"),
        (lambda x, n: ["a"] * n, "must return real numbers"),
        (lambda x, n: [None] * n, "must return real numbers|NaN"),
        (lambda x, n: np.zeros(n, complex), "must return real numbers"),
    ],
)
def test_functions_that_are_none(function, words) -> None:
    with pytest.raises(ParameterError, match=words):
        audit.privacy(function, 1, n=1000)
    with pytest.raises(ParameterError, match=words):
        audit.law(function, dpfast.Laplace(1, 1), n=1000)


def test_kinds_of_outputs() -> None:
    for function in (
        lambda x, n: [2**70 + 2**20 * int(y) for y in x + geometric(n, 2)],
        lambda x, n: x + (geometric(n, 2) if x else geometric(n, 2).astype(float)),
        lambda x, n: x + geometric(n, 2) > 0,
        lambda x, n: (x + geometric(n, 2)).astype(np.uint64),
    ):
        assert audit.privacy(function, 1, n=20_000, pairs=NEIGHBOURS).found


def test_targets(tmp_path, monkeypatch) -> None:
    """MODULE:FUNCTION from here, file.py:FUNCTION from anywhere; errors say what is wrong."""
    noise = "class Noise:\n    def add(count, n):\n        return [count] * n\nx = 3\n"
    (tmp_path / "audited_noise.py").write_text(noise)
    (tmp_path / "audited_broken.py").write_text("1 / 0\n")
    assert audit.load(f"{tmp_path}/audited_noise.py:Noise.add")(1, 2) == [1, 1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert audit.load("audited_noise:Noise.add")(1, 2) == [1, 1]
    for target, words in {
        "audited_noise": "must be MODULE:FUNCTION",
        "audited_noise:": "must be MODULE:FUNCTION",
        "audited_none:f": "cannot be loaded: ModuleNotFoundError",
        "audited_broken:f": "cannot be loaded: ZeroDivisionError",
        "audited_noise:none": "cannot be loaded: AttributeError",
        "audited_noise:x": "must be a function",
        "none.py:f": "cannot be loaded: FileNotFoundError",
    }.items():
        with pytest.raises(ParameterError, match=words):
            audit.load(target)


def test_a_function_of_one_array_is_the_same_as_of_a_count_and_a_number() -> None:
    """What `bench --sampler` takes; of whole counts int64, of a real law float64."""
    kinds = set()

    def add(counts, strength=1) -> np.ndarray:
        kinds.add((counts.dtype, counts.ndim))
        noise = geometric(counts.size, 2 * strength)
        return (
            counts + noise if counts.dtype.kind == "i" else counts + np.random.default_rng().laplace(size=counts.size)
        )

    assert audit.privacy(add, 1, n=20_000, pairs=NEIGHBOURS).found
    assert not audit.privacy(add, 3, n=20_000, pairs=NEIGHBOURS).found
    assert not audit.law(dpfast.DiscreteLaplace(1, 1).release, dpfast.DiscreteLaplace(1, 1), n=20_000).found
    assert kinds == {(np.dtype(np.int64), 1)}
    assert audit.law(add, dpfast.Laplace(1, 1, granularity=1), on_grid=True, n=20_000).found  # reals off the grid
    audit.privacy(add, 1, n=20_000, pairs=[(0, 0.5)], sensitivity=0.5)
    audit.privacy(add, 1, n=20_000, pairs=NEIGHBOURS, real=True)
    assert kinds == {(np.dtype(np.int64), 1), (np.dtype(np.float64), 1)}
    for wrong in (lambda counts: counts[:-1], lambda counts: 1 / 0, lambda counts: None):
        with pytest.raises(ParameterError, match="^the audited function"):
            audit.privacy(wrong, 1, n=1000)


def test_one_function_is_audited_and_benchmarked(tmp_path, monkeypatch, capsys) -> None:
    """By one name, in two commands; the other form is for an audit alone, and bench says so."""
    text = "import numpy as np\ndef add(counts):\n    r, p = np.random.default_rng(), -np.expm1(-0.5)\n"
    text += "    return counts + r.geometric(p, counts.size) - r.geometric(p, counts.size)\n"
    text += "def drawn(count, n):\n    return add(np.full(n, count))\n"
    (tmp_path / "one_noise.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    law = ["--epsilon", "0.5", "--distribution", "discrete_laplace", "--quiet"]
    assert main(["audit", "one_noise.py:add", *law, "--n", "2000"]) == 0
    assert "passed" in capsys.readouterr().out
    monkeypatch.setattr(sampler, "DRAWS", (20_000, 20_000))
    monkeypatch.setattr(sampler, "CALLS", (100, 100))
    assert main(["bench", "--sampler", "one_noise.py:add", *law, "--size", "10", "--rounds", "1"]) == 0
    assert main(["bench", "--sampler", "one_noise.py:drawn", *law]) == 2
    assert "one_noise.py:drawn needs 2 arguments; `dpfast audit` takes" in capsys.readouterr().err


def test_report() -> None:
    """The text has a verdict a line, the dictionary goes into JSON, and progress is shown."""
    shown = []
    report = audit.privacy(DEFECTS["scale halved"][0], 1, n=20_000, progress=shown.append)
    text = report.text()
    assert len([line for line in text.splitlines() if " FOUND " in line]) == len(report.lines) - 1
    assert report.seconds > 0
    assert any("tested" in line for line in shown)
    facts = json.loads(json.dumps(report.as_dict()))
    assert facts["found"]
    assert facts["bound"] == report.bound
    assert facts["lines"][0]["verdict"] == "passed"
    again = audit.privacy(lambda x, n: x + np.arange(n), 1, n=2000)
    assert json.loads(json.dumps(again.as_dict()))["bound"] == "inf"
    law = audit.law(PRIVATE["release"], dpfast.DiscreteLaplace(1, 1), n=2000)
    assert json.loads(json.dumps(law.as_dict()))["bound"] is None


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("scale halved", "png"),
        ("textbook Laplace in doubles", "svg"),
        ("clipped noise, floats", "png"),
        ("no noise", "svg"),
    ],
)
def test_pictures(tmp_path, name, ending) -> None:
    """What is drawn knows of no format of files."""
    function, n = DEFECTS[name]
    report = audit.privacy(function, 1, n=n, pairs=NEIGHBOURS)
    draw(report, tmp_path / f"a.{ending}")
    assert (tmp_path / f"a.{ending}").stat().st_size > 5000


def test_pictures_refused(tmp_path) -> None:
    report = audit.privacy(lambda x, n: x + np.arange(n), 1, n=2000)
    with pytest.raises(ParameterError, match="plot must be"):
        draw(report, tmp_path / "a.jpg")
    with pytest.raises(ParameterError, match="came to compare"):
        draw(report, tmp_path / "a.png")


@pytest.mark.chance(audit.ALPHA)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: np.where(rng.random(n) < 0.1, np.inf, np.rint(x + laplace(n))),
        lambda x, n: np.where(rng.random(n) < 0.1, -(2**63), x + geometric(n)),
        lambda x, n: np.where(rng.random(n) < 0.1, 2**63 - 1, x + geometric(n)),
        lambda x, n: np.full(n, np.inf),
        lambda x, n: (x + geometric(n)) * 5e-324,
        lambda x, n: (x + geometric(n)) * 2.0**1010,
        lambda x, n: (x + geometric(n)).astype(np.float16),
    ],
)
def test_outputs_at_the_ends(tmp_path, function) -> None:
    """Infinities, ends of int64, subnormal and huge floats: compared, drawn, no warning."""
    report = audit.privacy(function, 1, n=4000, pairs=NEIGHBOURS)
    assert not report.found
    draw(report, tmp_path / "a.png")


COMMAND_NOISE = """
import numpy as np
import dpfast

def keeps(count, n):
    return count + dpfast.DiscreteLaplace(1, 1).sample(n)

def breaks(count, n):
    return count + dpfast.DiscreteLaplace(2, 1).sample(n)

def repeats(count, n):
    return count + np.random.default_rng(5).laplace(0, 1, n)
"""


@pytest.fixture
def command(tmp_path) -> Callable[..., int]:
    """`dpfast audit` of one of these functions, its promise an epsilon of 1."""
    (tmp_path / "audited_command.py").write_text(COMMAND_NOISE)
    options = ["--epsilon", "1", "--n", "20000", "--quiet"]
    return lambda name, *more: main(["audit", f"{tmp_path}/audited_command.py:{name}", *options, *more])


def test_the_command_exits_by_what_it_found(command, capsys) -> None:
    """0 nothing found, 1 found, by either audit, 2 wrong usage in one line."""
    assert command("keeps") == 0
    assert "Nothing found" in capsys.readouterr().out
    assert command("breaks") == 1
    assert "FOUND: this spends an epsilon of" in capsys.readouterr().out
    assert command("keeps", "--distribution", "discrete_gaussian", "--sigma", "2") == 1
    assert "the noise does not follow that distribution" in capsys.readouterr().out
    for name, more, words in [
        ("none", [], "cannot be loaded: AttributeError"),
        ("keeps", ["--epsilon", "-1"], "epsilon"),
        ("keeps", ["--n", "10"], "--n"),
        ("keeps", ["--plot", "a.jpg"], "plot must be a .png, .svg or .pdf file"),
        ("keeps", ["--distribution", "gaussian"], "Missing option '--sigma': gaussian needs it"),
        ("keeps", ["--distribution", "discrete_laplace", "--granularity", "1"], "takes no '--granularity'"),
        ("keeps", ["--distribution", "cauchy"], "'cauchy' is not one of"),
    ]:
        assert command(name, *more) == 2
        out, err = capsys.readouterr()
        assert not out
        assert words in err
    for law in ([], ["--distribution", "laplace"]):
        assert main(["audit", "audited_command.py:keeps", *law]) == 2
        assert "Missing option '--epsilon'" in capsys.readouterr().err


def test_the_command_in_json(command, capsys) -> None:
    for name, code in (("keeps", 0), ("breaks", 1)):
        assert command(name, "--distribution", "discrete_laplace", "--json") == code
        facts = json.loads(capsys.readouterr().out)
        assert facts["found"] == bool(code)
        assert facts["target"].endswith(f":{name}")
        for kind in ("privacy", "law"):
            assert facts[kind]["kind"] == kind
            assert facts[kind]["n"] == 20_000
            assert facts[kind]["found"] == bool(code)


def test_the_command_plots(command, tmp_path, capsys) -> None:
    """Repeated noise is found before two counts are compared: no picture, and no failure for it."""
    assert command("breaks", "--plot", f"{tmp_path}/a.png") == 1
    assert (tmp_path / "a.png").stat().st_size > 5000
    assert command("repeats", "--plot", f"{tmp_path}/b.png") == 1
    out, err = capsys.readouterr()
    assert "no epsilon holds" in out
    assert not err
    assert not (tmp_path / "b.png").exists()


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.01, 0.7])
def test_an_epsilon_over_several_neighbours_is_found_beside_a_delta_that_grows(steps: int, epsilon: float) -> None:
    """P <= e^epsilon Q + delta, step by step: delta is multiplied by 1 + e^epsilon + ..."""
    other, delta = 0.01, 1e-3
    most = other
    for _ in range(steps):
        most = math.exp(epsilon) * most + delta
    assert least_epsilon(most, other, steps, delta) == pytest.approx(epsilon, rel=1e-9)
