# SPDX-License-Identifier: Apache-2.0
"""PipelineDP on our noise: local backend, factory, law, the budget with the choice, refusals."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from operator import itemgetter
from unittest.mock import MagicMock

import numpy as np
import pytest
from fresh import python
from gof import normal_p
from installs import are_undone_exactly
from scipy import stats

pdp = pytest.importorskip("pipeline_dp")

from pipeline_dp import budget_accounting, combiners, dp_computations  # noqa: E402
from pipeline_dp.aggregate_params import MechanismType  # noqa: E402
from pipeline_dp.report_generator import ExplainComputationReport  # noqa: E402

import dpfast  # noqa: E402
from dpfast.adapters import pipeline_dp as adapter  # noqa: E402

ALPHA = 1e-9  # false alarms of one call of rejections
# A scale that is 3 % off moves E|X| by 10.4 (Laplace) or 13.8 (Gaussian) standard errors, which
# has power 0.9999.
N = 120_000
FEWER = 4_000  # for these it is a scale that is 20 % off, with the same power
M = pdp.Metrics
LAPLACE, GAUSSIAN = pdp.NoiseKind.LAPLACE, pdp.NoiseKind.GAUSSIAN
LAWS = {LAPLACE: stats.laplace, GAUSSIAN: stats.norm}
ROWS = [(person, place, person % 5) for person in range(60) for place in "abc"]


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    assert budget_accounting.MechanismSpec is adapter._TheirSpec, "a test left the adapter installed"


def params(metrics, kind=LAPLACE, **options) -> pdp.AggregateParams:
    bounds = {"max_partitions_contributed": 2, "max_contributions_per_partition": 3, "min_value": -1, "max_value": 4}
    return pdp.AggregateParams(metrics=metrics, noise_kind=kind, **{**bounds, **options})


def requested(metrics, kind=LAPLACE, public=None, accountant=None, rows=ROWS, report=None, **options) -> list:
    """An aggregation whose budget is known, not yet computed."""
    accountant = accountant or pdp.NaiveBudgetAccountant(1.5, 1e-6)
    extractors = pdp.DataExtractors(*map(itemgetter, range(3)))  # person, partition, value
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    found = engine.aggregate(rows, params(metrics, kind, **options), extractors, public, report)
    accountant.compute_budgets()
    return found


def released(*args, **options) -> list:
    with adapter.installed():
        return list(requested(*args, **options))


def spec(kind=MechanismType.LAPLACE, eps=1.0, delta=0.0, std=None, of=adapter.MechanismSpec) -> adapter.MechanismSpec:
    return of(kind, _eps=eps, _delta=delta, _noise_standard_deviation=std)


def made(made_for, **sensitivities) -> object:
    return dp_computations.create_additive_mechanism(made_for, dp_computations.Sensitivities(**sensitivities))


def on_grid(values, granularity) -> bool:
    steps = np.asarray(values, np.float64) / granularity
    return bool(np.all(steps == np.rint(steps)))


def grid(scale) -> float:
    return 2.0 ** (math.floor(math.log2(scale)) - 20)


def rejections(noise, kind, scale) -> list:
    """What is wrong with noise of this law; each test at ALPHA / 3, union bound."""
    law, n = LAWS[kind](scale=scale), noise.size
    size, about = law.expect(abs), law.std()
    spread = math.sqrt((about**2 - size**2) / n)
    tests = {
        "shape": stats.kstest(noise, law.cdf).pvalue,
        "mean": normal_p(noise.mean() / (about / math.sqrt(n))),
        "scale": normal_p((np.abs(noise).mean() - size) / spread),
    }
    return [name for name, p in tests.items() if not p >= ALPHA / 3]


# -------------------------------------------------------------- the law, through the whole pipeline


def expected(kind, epsilon, delta, l0, linf) -> object:
    """By hand, from the sensitivities of PipelineDP's documentation."""
    if kind is LAPLACE:
        return l0 * linf / epsilon
    return dp_computations.compute_sigma(epsilon, delta, math.sqrt(l0) * linf)


@pytest.mark.parametrize("n", [FEWER, pytest.param(N, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_count_sum_and_ids_follow_their_law(kind, n) -> None:
    """Empty public partitions, so that what comes out is noise; a third of the budget each."""
    found = released([M.COUNT, M.SUM, M.PRIVACY_ID_COUNT], kind, public=range(n), rows=[(0, "dropped", 1)])
    assert [key for key, _ in found] == list(range(n))
    for name, linf in (("count", 3), ("sum", 4 * 3), ("privacy_id_count", 1)):
        noise = np.array([getattr(metrics, name) for _, metrics in found])
        scale = expected(kind, 0.5, 1e-6 / 3, 2, linf)
        assert on_grid(noise, grid(scale))
        assert rejections(noise, kind, scale) == []
        assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 6.5 / math.sqrt(n)


@pytest.mark.parametrize("n", [FEWER, pytest.param(N, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_means_follow_their_law_under_a_pld_accountant(kind, n) -> None:
    """Its budgets hold a standard deviation instead of an epsilon."""
    accountant = pdp.PLDBudgetAccountant(1.5, 1e-6, pld_discretization=1e-2)
    found = released([M.COUNT, M.SUM, M.MEAN], kind, range(n), accountant, rows=[(0, "dropped", 1)])
    counts, sums, means = np.array([(metrics.count, metrics.sum, metrics.mean) for _, metrics in found]).T
    deviation = accountant._mechanisms[0].mechanism_spec.noise_standard_deviation
    l0, linf = (2, 3) if kind is LAPLACE else (math.sqrt(2), 3)
    scale = deviation * l0 * linf / (math.sqrt(2) if kind is LAPLACE else 1)
    assert rejections(counts, kind, scale) == []
    normalized = (means - 1.5) * np.maximum(1, counts)  # the middle of [-1, 4]
    assert rejections(normalized, kind, scale * 2.5) == []
    assert np.array_equal(sums, means * counts)


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_the_law_is_the_one_before(kind) -> None:
    """Ours and PyDP's, two samples; and the same standard deviation in the reports."""
    pair = [
        made(spec(kind.convert_to_mechanism_type(), delta=1e-6, of=of), l0=2, linf=3)
        for of in (adapter.MechanismSpec, adapter._TheirSpec)
    ]
    ours, theirs = (mechanism.add_noise(np.full(N, 41.3)) for mechanism in pair)
    assert stats.ks_2samp(ours, theirs).pvalue >= ALPHA
    assert rejections(ours - 41.3, kind, pair[1].noise_parameter) == []
    assert pair[0].noise_parameter == pytest.approx(pair[1].noise_parameter, rel=1e-14)
    assert pair[0].std == pytest.approx(pair[1].std, rel=1e-11)
    assert (pair[0].noise_kind, pair[0].sensitivity) == (pair[1].noise_kind, pair[1].sensitivity)
    assert on_grid(ours, grid(pair[0].noise_parameter))
    assert not on_grid(theirs, grid(pair[0].noise_parameter))


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_defects_are_rejected(kind) -> None:
    noise = LAWS[kind].rvs(size=N, random_state=7)
    assert rejections(noise, kind, 1.0) == []
    for few, off in ((noise, 1.03), (noise[:FEWER], 1.2)):
        assert rejections(few * off, kind, 1.0) != []
        assert rejections(few / off, kind, 1.0) != []
    assert rejections(noise + 0.03, kind, 1.0) != []
    assert rejections(np.rint(noise), kind, 1.0) != []
    other = LAWS[GAUSSIAN if kind is LAPLACE else LAPLACE].rvs(size=N, random_state=7)
    assert rejections(other, kind, 1.0) != []


# -------------------------------------------------- what comes out is what they would have computed


@pytest.mark.parametrize("metrics", [[M.COUNT, M.SUM, M.PRIVACY_ID_COUNT], [M.COUNT, M.SUM, M.MEAN], [M.MEAN]])
@pytest.mark.parametrize("public", [None, ["c", "a", "nowhere"]])
def test_values_keys_and_names_are_theirs(metrics, public) -> None:
    """At a huge epsilon, where noise is some 1e-5."""
    options = {"max_partitions_contributed": 3} | ({} if M.MEAN in metrics else {"output_noise_stddev": True})
    before, after = (
        list(way(metrics, public=public, accountant=pdp.NaiveBudgetAccountant(1e7, 1e-2), **options))
        for way in (requested, released)
    )
    assert sorted(key for key, _ in after) == sorted(public or "abc")
    for key, values in after:
        theirs = dict(before)[key]
        assert values._fields == theirs._fields
        assert {type(value) for value in values} == {float}
        assert values == pytest.approx(theirs, abs=1e-3)
        assert pickle.loads(pickle.dumps(values)) == values


def test_a_block_is_one_release_of_each_metric(monkeypatch) -> None:
    sizes, release = [], dpfast.Laplace.release

    def counted(self, values, **more) -> object:
        sizes.append(values.size)
        return release(self, values, **more)

    monkeypatch.setattr(adapter, "BLOCK", 100)
    monkeypatch.setattr(dpfast.Laplace, "release", counted)
    assert len(released([M.COUNT, M.PRIVACY_ID_COUNT], public=range(250))) == 250
    assert sizes == [100, 100, 100, 100, 50, 50]


def test_no_key_no_metrics(monkeypatch) -> None:
    monkeypatch.setattr(dpfast.Laplace, "release", MagicMock(side_effect=dpfast.errors.EntropyError("none")))
    with adapter.installed():
        found = requested([M.COUNT], public=["a", "b"])
    seen = []
    with pytest.raises(dpfast.errors.EntropyError):
        seen.extend(found)
    assert seen == []


def test_reports_name_the_law() -> None:
    report = ExplainComputationReport()
    released([M.COUNT], public=["a"], report=report)
    law = "<Laplace epsilon=1.5, sensitivity=6, adjacency=add-remove, unit=privacy id"
    assert f"drawn by dpfast: {law}" in report.text()
    assert "95 % interval=±" in report.text()


def test_what_stays_theirs_runs_and_does_not_say_dpfast() -> None:
    """Percentiles, variance, vectors, thresholds: theirs; our COUNT is a release a value."""
    wide = {"max_partitions_contributed": 3}
    for metrics in ([M.COUNT, M.PERCENTILE(50)], [M.COUNT, M.PRIVACY_ID_COUNT]):
        report = ExplainComputationReport()
        more = {"post_aggregation_thresholding": True} if M.PRIVACY_ID_COUNT in metrics else {}
        public = None if more else ["a", "b", "c"]
        accountant = pdp.NaiveBudgetAccountant(150, 1e-6)  # 60 people in a partition are then over any threshold
        found = released(metrics, accountant=accountant, public=public, report=report, **wide, **more)
        assert len(found) == 3
        assert on_grid([values.count for _, values in found], grid(9 / 75))
        assert report.text().count("drawn by dpfast") == 1
    for metrics in ([M.VARIANCE, M.COUNT], [M.PERCENTILE(50)]):
        report = ExplainComputationReport()
        assert len(released(metrics, public=["a", "b"], report=report, **wide)) == 2
        assert "dpfast" not in report.text()


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_add_dp_noise(kind) -> None:
    with adapter.installed():
        accountant = pdp.NaiveBudgetAccountant(1.0, 1e-6)
        engine = pdp.DPEngine(accountant, pdp.LocalBackend())
        noise = pdp.AddDPNoiseParams(noise_kind=kind, l0_sensitivity=1, linf_sensitivity=1, output_noise_stddev=True)
        found = engine.add_dp_noise([("one", 7), ("many", np.full((100, 3), 7, np.int32))], noise)
        accountant.compute_budgets()
    one, many = dict(found)["one"], dict(found)["many"]
    step = grid(one.noise_stddev / (math.sqrt(2) if kind is LAPLACE else 1))
    assert type(one.noised_value) is float
    assert many.noised_value.shape == (100, 3)
    assert on_grid([one.noised_value, *many.noised_value.ravel()], step)
    assert len(np.unique(many.noised_value)) > 290


# ------------------------------------------------------------------ the budget carries the choice


def ours(found) -> bool:
    return on_grid([values.count for _, values in found], grid(6 / 1.5))


def test_a_budget_keeps_its_noise_whenever_it_is_spent() -> None:
    public = range(20)
    before = requested([M.COUNT], public=public)
    with adapter.installed():
        within = requested([M.COUNT], public=public)
        assert not ours(before)
    assert ours(within)
    assert not ours(requested([M.COUNT], public=public))


def test_installs_nest() -> None:
    assert are_undone_exactly(adapter, lambda: budget_accounting.MechanismSpec) is adapter.MechanismSpec


TRACES = """
import gc, sys
import pipeline_dp as pdp

def names():
    gc.collect()
    places = {name: vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "pipeline_dp"}
    places["LocalBackend"] = vars(pdp.LocalBackend)
    return {(place, key): id(value) for place, found in places.items() for key, value in found.items()}

def lazy():
    accountant = pdp.NaiveBudgetAccountant(1.5, 1e-6)
    extractors = pdp.DataExtractors(*[lambda row: row] * 3)
    bounds = {"max_partitions_contributed": 1, "max_contributions_per_partition": 1, "min_value": 0, "max_value": 1}
    params = pdp.AggregateParams(metrics=[pdp.Metrics.COUNT, pdp.Metrics.MEAN], noise_kind=pdp.NoiseKind.LAPLACE, **bounds)
    found = pdp.DPEngine(accountant, pdp.LocalBackend()).aggregate([1, 2], params, extractors, [1, 2])
    accountant.compute_budgets()
    return found

list(lazy())
before = names()
from dpfast.adapters import pipeline_dp as adapter
print("imported", before == names())
with adapter.installed():
    print("installed", before == names())
    waiting = lazy()
print("waiting", before == names())
print("noise on a grid", {values.count * 2**20 % 1 for _, values in waiting} == {0.0})
del waiting
print("uninstalled", before == names())
"""


@pytest.mark.slow
def test_all_names_are_theirs_again() -> None:
    """Importing rebinds nothing; uninstalled and without our budgets, nothing stays rebound."""
    found = python(TRACES).splitlines()
    assert found == ["imported True", "installed False", "waiting False", "noise on a grid True", "uninstalled True"]


WORKER = """
import pickle, sys
import pipeline_dp
sent = sys.stdin.buffer.read()
sys.modules["dpfast"] = None
try:
    print(pickle.loads(sent).compute_metrics(5))
except ModuleNotFoundError as error:
    print(error.name)
del sys.modules["dpfast"]
combiner = pickle.loads(sent)
print(combiner.compute_metrics(5)["count"] * 2**18 % 1, "dpfast.adapters.pipeline_dp" in sys.modules)
"""


@pytest.mark.slow
def test_a_worker_uses_our_noise_or_fails() -> None:
    """A process that knows PipelineDP alone gets a pickled combiner, as Beam's workers do.

    First it has no dpfast, and then it has.
    """
    accountant = pdp.NaiveBudgetAccountant(1.5, 1e-6)
    with adapter.installed():
        [combiner] = combiners.create_compound_combiner(params([M.COUNT]), accountant)._combiners
    accountant.compute_budgets()
    found = subprocess.run(
        [sys.executable, "-c", WORKER], input=pickle.dumps(combiner), capture_output=True, timeout=600, check=False
    )
    assert (found.returncode, found.stdout.split()) == (0, [b"dpfast.adapters", b"0.0", b"True"]), found.stderr


# ------------------------------------------------------------------ never weaker


@pytest.mark.parametrize("factors", [(3, 0.1), (7, 0.7), (10, 1 / 3), (2, math.pi), (49, 1e-3), (11, 1e9 + 0.1)])
def test_scales_are_not_below_the_exact_ones(factors) -> None:
    l0, linf = factors
    l1, l2_squared = l0 * Fraction(linf), l0 * Fraction(linf) ** 2
    for eps in (0.1, 1 / 3, 2.0):
        law = made(spec(eps=eps), l0=l0, linf=linf)._ours
        assert law.sensitivity / law.epsilon >= l1 / Fraction(eps)
        assert law.sensitivity / law.epsilon <= l1 / Fraction(eps) * (1 + Fraction(1, 2**52))
    for std in (0.3, 1.0, 7.7):
        law = made(spec(eps=None, std=std), l0=l0, linf=linf)._ours
        variance = 2 * (law.sensitivity / law.epsilon) ** 2
        assert Fraction(std) ** 2 * l1**2 <= variance <= Fraction(std) ** 2 * l1**2 * (1 + Fraction(1, 2**50))
        law = made(spec(MechanismType.GAUSSIAN, None, None, std), l0=l0, linf=linf)._ours
        variance = Fraction(std) ** 2 * l2_squared
        assert variance <= law.sigma_squared <= variance * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("eps", [0.01, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_a_calibrated_sigma_is_proved(eps, delta) -> None:
    budget = spec(MechanismType.GAUSSIAN, eps, delta)
    mechanism = made(budget, l0=3, linf=0.1)
    assert mechanism._ours.delta(eps, dpfast.Sensitivity.changes(3, 0.1)) <= delta
    theirs = made(spec(MechanismType.GAUSSIAN, eps, delta, of=adapter._TheirSpec), l0=3, linf=0.1)
    assert mechanism.noise_parameter >= theirs.std


def test_a_sigma_of_theirs_that_does_not_serve_is_not_used(monkeypatch) -> None:
    """Planted: one that is too small gives way to our own calibration."""
    small = dp_computations.GaussianMechanism.create_from_std_deviation(4.0, 1.0)
    monkeypatch.setattr(adapter, "_their_mechanism", lambda *_: small)
    found = made(spec(MechanismType.GAUSSIAN, 1.0, 1e-6), l2=1.0)
    assert found._ours == dpfast.Gaussian.calibrated(
        1.0, dpfast.Sensitivity.from_l2(1, unit="privacy id"), delta=Fraction(1e-6)
    )
    assert found.noise_parameter > 4.2


def test_norms_alone_are_taken_as_given() -> None:
    assert made(spec(eps=0.5), l1=3)._ours.sensitivity == 3
    assert made(spec(MechanismType.GAUSSIAN, None, None, 2.0), l2=3)._ours.sigma_squared == 36
    assert made(spec(eps=0.5), l0=np.int64(2), linf=np.float32(1.5))._ours.sensitivity == 3


def test_their_checks_stay() -> None:
    with pytest.raises(ValueError, match="L1 or"):
        made(spec(), l2=1)
    with pytest.raises(ValueError, match="L2 or"):
        made(spec(MechanismType.GAUSSIAN, 1.0, 1e-6), l1=1)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises((ValueError, RuntimeError)):
            made(spec(eps=bad), l1=1)
    with pytest.raises(AssertionError, match="not calculated yet"):
        made(adapter.MechanismSpec(MechanismType.LAPLACE), l1=1)


def test_values_that_are_refused() -> None:
    mechanism = made(spec(), l1=1)
    for value in ("3", None, [1.0], 1j):
        with pytest.raises((TypeError, dpfast.errors.DTypeError)):
            mechanism.add_noise(value)
    for value in (math.nan, math.inf, np.array([1.0, -math.inf])):
        with pytest.raises(dpfast.errors.ParameterError) as refused:
            mechanism.add_noise(value)
        assert "inf" not in str(refused.value).replace("infin", "")
    with pytest.raises(dpfast.errors.ParameterError):
        released([M.SUM], public=["a"], rows=[(1, "a", math.nan)])
    assert mechanism.add_noise(np.zeros((0, 2))).shape == (0, 2)
    assert type(mechanism.add_noise(np.float32(3))) is float
    assert abs(mechanism.add_noise(2**60) - 2**60) < 1e3
