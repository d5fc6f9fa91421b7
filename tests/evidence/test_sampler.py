# SPDX-License-Identifier: Apache-2.0
"""`dpfast bench --sampler`: exact samplers pass, planted defects are found, others are refused.

| what chance can do | false-alarm rate |
| --- | --- |
| a sampler without a defect is accused by a test: of its law, its time, a fork | 1e-6 each |
| more alarms than stated in 200 tests of independent times, at a level of one half | 1e-6 |
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from scipy import stats

import dpfast
from dpfast.app.cli import main
from dpfast.errors import ParameterError
from dpfast.evidence import audit
from dpfast.evidence.bench import sampler
from dpfast.evidence.bench.sampler import NUMPY, OURS, Comparison, Forked, Sampler, Timed, compare
from dpfast.evidence.statistics import rank_correlation

PEERS = ROOT / "benchmarks" / "samplers.py"
LAW, MAIN = dpfast.DiscreteLaplace(0.1, 1), os.getpid()
PNG = b"\x89PNG"
rng = np.random.default_rng()


def exact(counts: np.ndarray) -> np.ndarray:
    return counts + LAW.sample(counts.size)


def cut_off(counts: np.ndarray) -> np.ndarray:
    """A float's Laplace noise, its fraction dropped: 0 is twice as likely as it is to be."""
    return counts + rng.laplace(0, 10, counts.size).astype(np.int64)


def seeded(counts: np.ndarray) -> np.ndarray:
    """The right law, by a generator that a fork copies."""
    p = -np.expm1(-0.1)
    return counts + rng.geometric(p, counts.size) - rng.geometric(p, counts.size)


# In 50,000 draws cut_off's share of zeros is 40 standard errors off; in 500 calls time that
# grows with the size of noise is 22 standard errors from none.
DRAWS, CALLS = 50_000, 500
SLEPT = [0.0]  # seconds
OPTIONS = ["--size", "300", "--rounds", "1", "--distribution", "discrete_laplace", "--epsilon", "0.1", "--quiet"]


def by_sleep(run: Callable[[], object]) -> tuple[float, object]:
    """What `timed` says on a machine where all but sleep takes a microsecond."""
    before = SLEPT[0]
    out = run()
    return SLEPT[0] - before + 1e-6, out


def sleeping(counts: np.ndarray) -> np.ndarray:
    """One count takes longer if its noise is large."""
    noise = LAW.sample(counts.size)
    if counts.size == 1:
        SLEPT[0] += 1e-4 * abs(int(noise[0]))
    return counts + noise


def parents_alone(counts: np.ndarray) -> np.ndarray:
    """It draws in the process that imported it, and fails in every other."""
    if os.getpid() != MAIN:
        raise OSError("planted")
    return exact(counts)


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    monkeypatch.setattr(sampler, "LONGEST", 5)
    monkeypatch.setattr(sampler, "DRAWS", (DRAWS, DRAWS))
    monkeypatch.setattr(sampler, "CALLS", (CALLS, CALLS))


def compared(function: Callable, mechanism=LAW, *, size: int = 1, **options) -> Comparison:
    """size: the most values of a timed call; what is tested does not depend on it."""
    return compare(Sampler("mine", function), mechanism, size, 1, iter, lambda _: None, **options)


@pytest.mark.chance(6 * audit.ALPHA)
def test_an_exact_sampler_passes() -> None:
    """So does ours; NumPy's noise repeats in a child. The record is JSON, and has all of it."""
    found = compared(exact, size=1_000)
    assert [*found.tested] == ["mine", OURS, NUMPY]
    for name in ("mine", OURS):
        assert found.tested[name].verdicts == ("as stated", "nothing", "fresh")
        assert not found.tested[name].wrong
    assert found.tested[NUMPY].verdicts[2] == "REPEATS"
    assert not found.wrong
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert [row["name"] for row in record["rows"]] == [*record["tests"]]
    assert record["latency"]["counts"] == [1, 3, 10, 30, 100, 300, 1_000]
    assert record["tests"]["mine"]["time"]["calls"] == CALLS
    assert record["tests"]["mine"]["law"]["false_alarm"] == audit.ALPHA
    assert "\ndistribution: discrete laplace, scale 10; 50,000 draws" in found.table()


@pytest.mark.chance(3 * audit.ALPHA)
@pytest.mark.parametrize(
    ("function", "verdicts"),
    [
        (cut_off, ("FOUND: .*zero", ".*", "REPEATS")),
        (seeded, ("as stated", ".*", "REPEATS")),
        (sleeping, ("as stated", "size(, largest 1 %)?", "fresh")),
        (parents_alone, ("as stated", "nothing", "FAILS")),
        (lambda counts: counts + 0, ("FOUND: .*", "nothing", "REPEATS")),
        (lambda counts: counts + 2 * LAW.sample(counts.size), ("FOUND: .*", "nothing", "fresh")),
    ],
    ids=["rounded wrongly", "seeded", "its time", "fails in a child", "no noise", "twice the noise"],
)
def test_planted_defects_are_found(function, verdicts, monkeypatch) -> None:
    """Whatever a clock tells is told, and makes nothing wrong."""
    if function is sleeping:
        monkeypatch.setattr(sampler, "timed", by_sleep)
    tested = compared(function).tested["mine"]
    for found, expected in zip(tested.verdicts, verdicts, strict=True):
        assert re.fullmatch(expected, found)
    assert tested.wrong is (function is not sleeping)


@pytest.mark.chance(4 * audit.ALPHA)
@pytest.mark.parametrize(
    ("mechanism", "granularity"),
    [(dpfast.Laplace(0.1, 1), None), (dpfast.Gaussian(10), None), (dpfast.Gaussian(10, granularity=2**-20), 2**-20)],
    ids=["Laplace", "Gaussian", "on a grid"],
)
def test_real_laws(mechanism, granularity) -> None:
    """Float64 arrays in and out; NumPy's noise is on no grid."""
    found = compared(mechanism.release, mechanism, on_grid=granularity is not None)
    assert found.tested["mine"].verdicts == ("as stated", "nothing", "fresh")
    assert found.tested[NUMPY].verdicts[0] == ("FOUND: grid" if granularity else "as stated")


def changing(counts: np.ndarray) -> np.ndarray:
    counts += 1
    return counts


def kept(counts: np.ndarray, out: dict[int, np.ndarray] = {}) -> np.ndarray:  # noqa: B006  kept between calls on purpose
    return np.add(counts, 1, out=out.setdefault(counts.size, np.empty_like(counts)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (changing, "leave its argument as it was, and mine changed it"),
        (kept, "return a new array, and mine returned one that it had returned before"),
        (lambda counts: counts.tolist(), r"return an array of .* shape, int64 \(1,\), and mine returned list"),
        (lambda counts: counts + 0.5, r"int64 \(1,\), and mine returned float64 \(1,\)"),
        (lambda counts: counts[1:], r"int64 \(1,\), and mine returned int64 \(0,\)"),
        (lambda _: 1 // 0, "work, and mine raised ZeroDivisionError: "),
        (lambda: 0, "work, and mine raised TypeError: "),
        (
            lambda counts: exact(counts) if counts.size < 1_000 else counts[:7],
            r"\(1000,\), and mine returned int64 \(7,\)",
        ),
    ],
    ids=["changes its input", "one buffer", "list", "dtype", "shape", "raises", "takes none", "in large calls alone"],
)
def test_a_function_that_is_no_sampler_is_refused(function, message) -> None:
    with pytest.raises(ParameterError, match=f"^sampler must .*{message}"):
        compared(function, size=1_000)


def test_rank_correlations() -> None:
    """As scipy's; nothing if one side says nothing."""
    x = rng.integers(0, 20, 500)
    y = x + rng.normal(0, 10, 500)
    assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert rank_correlation(x, y > 0) == pytest.approx(stats.spearmanr(x, y > 0).statistic)
    assert rank_correlation(np.ones(5), np.arange(5)) == 0


@pytest.mark.chance(1e-6)
def test_false_alarms_are_as_rare_as_stated(monkeypatch) -> None:
    """Times with drift, steps and outliers, independent of the noise, at a level of one half."""
    monkeypatch.setattr(audit, "ALPHA", 0.5)
    drift = 1 + np.arange(1_000) / 1_000
    times = [np.round(drift * rng.exponential(1, 1_000) ** 3, 1) for _ in range(200)]
    alarms = sum(bool(Timed(LAW.sample(1_000).astype(float), seconds).tells) for seconds in times)
    assert 20 < alarms <= stats.binom.isf(1e-6, 200, 0.5)


@pytest.mark.chance(audit.ALPHA)
def test_what_time_may_tell() -> None:
    """Each of the three is found where it alone is told; a sign says nothing of a size."""
    noise = LAW.sample(20_000).astype(float)
    size, quiet = np.abs(noise), rng.normal(0, 1, 20_000)
    assert "size" in Timed(noise, quiet + size / 30).tells
    assert Timed(noise, quiet + np.sign(noise) / 4).tells == ["sign"]  # a noise of 0, the smallest, in the middle
    assert Timed(noise, quiet + (size >= np.quantile(size, 0.99))).tells[-1] == "largest 1 %"
    assert Timed(np.zeros(1_000), quiet[:1_000]).tells == []


def test_equal_noise_may_be_an_accident() -> None:
    """Noise that is nearly always 0 says nothing after a fork; noise of two children may repeat."""
    zero, other = np.zeros(4), np.ones(4)
    assert Forked([zero, zero, zero], 4, 0.1).verdict == "too little noise to tell"
    assert Forked([other, zero, zero], 4, 1e-9).verdict == "REPEATS"
    assert (
        compared(lambda counts: counts + 0, dpfast.DiscreteLaplace(30, 1)).tested["mine"].fork.verdict.startswith("too")
    )


@pytest.mark.chance(audit.ALPHA)
def test_a_system_without_forks_says_so(tmp_path, monkeypatch, capsys) -> None:
    """A sampler is sent to no other process there; nothing is accused, and the picture is drawn."""
    monkeypatch.delattr(os, "fork")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(Path(__file__).read_text())
    assert main(["bench", "--sampler", "mine.py:exact", *OPTIONS, "--json", "it.json", "--plot", "it.svg"]) == 0
    assert json.loads(Path("it.json").read_text())["tests"]["mine.py:exact"]["fork"]["verdict"] == "no forks here"
    assert "after a fork: not tried, for this system has no forks." in capsys.readouterr().out
    assert "no forks here" in Path("it.svg").read_text()


@pytest.mark.chance(5 * audit.ALPHA)
@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch, capsys) -> None:
    """One JSON and one picture; the exit code tells wrong noise, and nothing of the time."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(Path(__file__).read_text())
    files = ["--json", "found.json", "--picture", "found.png"]
    assert main(["bench", "--sampler", "mine.py:exact", *OPTIONS, *files]) == 0
    assert json.loads(Path("found.json").read_text())["tests"]["mine.py:exact"]["wrong"] is False
    assert Path("found.png").read_bytes().startswith(PNG)
    assert "\nmine.py:exact " in capsys.readouterr().out
    for name, code in (("seeded", 1), ("cut_off", 1), ("parents_alone", 1), ("sleeping", 0), ("changing", 2)):
        assert main(["bench", "--sampler", f"mine.py:{name}", *OPTIONS, "--plot", f"{name}.svg"]) == code
        assert Path(f"{name}.svg").is_file() is (code != 2)
    assert "Error: --sampler must leave its argument as it was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sampler", "x:y"], "Missing option '--distribution'"),
        (["--sampler", "x:y", "--distribution", "gaussian"], "Missing option '--sigma'"),
        (
            ["--sampler", "x:y", "--distribution", "laplace", "--epsilon", "1", "--peers"],
            "'--sampler' takes no '--peers'",
        ),
        (["--distribution", "laplace"], "'--distribution' works only with '--sampler'"),
        (
            ["--sampler", "nowhere:y", "--distribution", "laplace", "--epsilon", "1"],
            "--sampler nowhere:y cannot be loaded",
        ),
        (
            ["--sampler", "math:pi", "--distribution", "laplace", "--epsilon", "1"],
            "--sampler math:pi must be a function, not float",
        ),
        (
            ["--sampler", "x:y", "--distribution", "laplace", "--epsilon", "1", "--plot", "x.jpg"],
            "must be a .png, .svg or .pdf",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_is_refused_first(options, message, capsys) -> None:
    assert main(["bench", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.filterwarnings(
    "ignore:overriding existing custom namespace:UserWarning"
)  # OpenDP's, over our Polars adapter's
@pytest.mark.parametrize(
    ("name", "package"), [("opendp", "opendp"), ("diffprivlib", "diffprivlib"), ("python_dp", "pydp")]
)
def test_a_peer_that_is_here_keeps_the_contract(name, package) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{name} is not installed: pip install 'dpfast[peers]'")
    peer = Sampler(name, audit.load(f"{PEERS}:{name}"))
    values = np.arange(50, dtype=np.float64 if name == "python_dp" else np.int64)
    assert (peer.new(values) != values).any()


def test_peers_that_are_not_installed_are_skipped(monkeypatch, capsys) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", [str(PEERS)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(PEERS), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().err.count("skipped, it is not installed") == 3
