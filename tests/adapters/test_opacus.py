# SPDX-License-Identifier: Apache-2.0
"""Opacus on our noise: its training loop, accountant and flags, the law of a step, refusals."""

from __future__ import annotations

import itertools
import math
import sys
import unittest
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Never
from unittest.mock import MagicMock

import numpy as np
import pytest
import real_noise
from fresh import run
from places import ROOT
from scipy import stats

opacus = pytest.importorskip("opacus")

import torch  # noqa: E402
from opacus import optimizers  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch import nn  # noqa: E402

import dpfast  # noqa: E402
from dpfast.adapters import opacus as adapter  # noqa: E402

pytestmark = [
    pytest.mark.own_environment,
    pytest.mark.filterwarnings("ignore:Secure RNG turned off:UserWarning"),  # about its sampling
    pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]
torch.set_num_threads(1)  # threads for models this small wait for each other
SIZE = 200_000


def parameters(*shapes, dtype=torch.float32) -> list:
    found = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
    for p in found:
        p.grad_sample = None
    return found


def made(cls=adapter.DPOptimizer, params=None, *, multiplier=1.1, norm=0.7, **options) -> adapter.DPOptimizer:
    params = parameters((SIZE,)) if params is None else params
    chosen = {"expected_batch_size": 1, **options}
    return cls(torch.optim.SGD(params, lr=1.0), noise_multiplier=multiplier, max_grad_norm=norm, **chosen)


def stepped(optimizer, sums) -> list:
    """The noisy gradients of sums of clipped gradients."""
    for p, clipped in zip(optimizer.params, sums, strict=True):
        p.summed_grad = clipped
    optimizer.add_noise()
    return [p.grad for p in optimizer.params]


rejected = partial(real_noise.rejected, law=stats.norm)  # noise in units of sigma


# ------------------------------------------------------------------ a step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cls", [adapter.DPOptimizer, adapter.DPOptimizerFastGradientClipping])
def test_law_and_grid(cls, dtype) -> None:
    """200,000 gradients off the grid; sigma 3 % off is missed less than once in 1e9."""
    multiplier, norm = 1.1, 0.7
    sigma = Fraction(multiplier) * Fraction(norm)
    assert float(sigma) != multiplier * norm or sigma != Fraction(multiplier * norm)  # their product is rounded
    params = parameters((SIZE // 4, 2), (SIZE // 2,), (), dtype=dtype)
    optimizer = made(cls, params, multiplier=multiplier, norm=norm)
    assert optimizer._noise().sigma_squared == sigma**2
    generator = torch.Generator().manual_seed(1)
    sums = [torch.rand(p.shape, generator=generator, dtype=dtype) * 40 - 20 for p in params]
    before = [s.clone() for s in sums]
    grads = stepped(optimizer, sums)
    assert all(torch.equal(s, b) for s, b in zip(sums, before, strict=True))
    assert [(g.shape, g.dtype) for g in grads] == [(p.shape, dtype) for p in params]
    found, clean = (np.concatenate([t.numpy().ravel().astype(float) for t in ts]) for ts in (grads, sums))
    assert np.all(found / optimizer._noise().granularity % 1 == 0)
    noise = (found - clean) / float(sigma)
    assert not rejected(noise)
    assert rejected(noise * 1.03)
    assert rejected(noise / 1.03)
    halves = noise[: SIZE // 2], noise[SIZE // 2 : SIZE]  # for two parameters
    assert abs(np.corrcoef(*halves)[0, 1]) < 5 / math.sqrt(SIZE // 2)  # 6e-7


def test_any_layout() -> None:
    params = parameters((60, 50))
    optimizer = made(params=params, multiplier=1e-3)
    clipped = torch.arange(3000.0).reshape(50, 60).T
    (grad,) = stepped(optimizer, [clipped])
    assert torch.all((grad - clipped).abs() < 0.01)
    assert not torch.equal(grad, clipped)


def test_flags_are_theirs() -> None:
    optimizer = made(params=parameters((3,)))
    (p,) = optimizer.params
    stepped(optimizer, [torch.zeros(3)])
    assert p.summed_grad._processed
    with pytest.raises(ValueError, match="haven't been cleared"):
        optimizer.add_noise()
    assert p.grad is None


def test_schedules_of_noise_and_norm_are_followed() -> None:
    optimizer = made(params=parameters((SIZE,)))
    optimizer.noise_multiplier, optimizer.max_grad_norm = 2.0, torch.tensor(3.0)
    (grad,) = stepped(optimizer, [torch.zeros(SIZE)])
    assert not rejected(grad.numpy().astype(float) / 6)
    fast = made(adapter.DPOptimizerFastGradientClipping, params=parameters((SIZE,)))
    fast._adjusted_noise_multiplier = 5.0  # set by Opacus's adaptive ghost clipping
    (grad,) = stepped(fast, [torch.zeros(SIZE)])
    assert not rejected(grad.numpy().astype(float) / (5 * 0.7))


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "bad", [torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.inf]), torch.zeros(2).half(), torch.zeros(2).bfloat16(),
            torch.zeros(2, device="meta"), torch.zeros(2, dtype=torch.int64), nn.Parameter(torch.zeros(2))],
    ids=["nan", "inf", "half", "bfloat16", "elsewhere", "int64", "subclass"],
)  # fmt: skip
def test_a_failure_leaves_no_gradient(bad) -> None:
    params = parameters((2,), (2,))
    optimizer = made(params=params)
    for p in params:
        p.grad = torch.ones(2)  # as a backward pass leaves it
    with pytest.raises((dpfast.errors.DTypeError, dpfast.errors.ParameterError)):
        stepped(optimizer, [torch.zeros(2), bad])
    assert [p.grad for p in params] == [None, None]


@pytest.mark.parametrize(
    ("multiplier", "norm"), [(0.0, 1.0), (-1.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.inf)]
)
def test_no_noise_is_refused(multiplier, norm) -> None:
    with pytest.raises(
        dpfast.errors.ParameterError, match="noise_multiplier and max_grad_norm must be finite and positive"
    ):
        made(params=parameters((2,)), multiplier=multiplier, norm=norm)
    optimizer = made(params=parameters((2,)))
    optimizer.noise_multiplier, optimizer.max_grad_norm = multiplier, norm
    with pytest.raises(dpfast.errors.ParameterError, match="no step without noise"):
        stepped(optimizer, [torch.zeros(2)])


@pytest.mark.parametrize(
    "cls", [adapter.DPOptimizer, adapter.DPOptimizerFastGradientClipping, adapter.DPPerLayerOptimizer]
)
def test_a_seed_is_refused(cls) -> None:
    norm = [1.0] if cls is adapter.DPPerLayerOptimizer else 1.0
    with pytest.raises(dpfast.errors.ParameterError, match="generator must be None"):
        made(cls, parameters((2,)), norm=norm, generator=torch.Generator())


def test_every_optimizer_is_ours_or_refused() -> None:
    """Whatever Opacus's own table can give: were it to grow, this fails."""
    names = {name for name in vars(optimizers) if isinstance(getattr(optimizers, name), type)}
    refused = {"AdaClipDPOptimizer", "FSDPOptimizerFastGradientClipping", "SimpleDistributedPerLayerOptimizer"}
    assert {theirs.__name__ for theirs in adapter.OURS} == names - refused
    for theirs, ours in adapter.OURS.items():
        assert issubclass(ours, theirs)
        line = [cls for cls in ours.__mro__ if "add_noise" in vars(cls)]
        rank_first = [theirs] if "Distributed" in theirs.__name__ else []  # theirs, which asks the next one on rank 0
        assert line[: len(rank_first) + 1] == [*rank_first, adapter._Released]


# ------------------------------------------------------------------ their engine


def training(engine, rows=256, batch=32, **options) -> tuple:
    torch.manual_seed(1)
    x = torch.randn(rows, 8)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    chosen = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **options}
    return engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=batch),
        **chosen,
    )


def epoch(model, optimizer, loader, criterion=None) -> None:
    criterion = criterion or nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()


@pytest.fixture
def calls(monkeypatch) -> Iterator:
    """The sigmas of our releases; a call of their noise raises."""
    found = []
    original = adapter._Released._noise

    def counted(self) -> object:
        found.append(original(self).scale)
        return original(self)

    def theirs(*_, **__) -> Never:
        raise AssertionError("Opacus's own noise was called")

    monkeypatch.setattr(adapter._Released, "_noise", counted)
    for module in (optimizers.optimizer, optimizers.optimizer_fast_gradient_clipping):
        monkeypatch.setattr(module, "_generate_noise", theirs)
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, adapter.DPOptimizer),
        ({"grad_sample_mode": "ew"}, adapter.DPOptimizer),
        ({"loss_reduction": "sum"}, adapter.DPOptimizer),
        ({"clipping": "per_layer", "max_grad_norm": [1.0] * 4}, adapter.DPPerLayerOptimizer),
        ({"grad_sample_mode": "ghost"}, adapter.DPOptimizerFastGradientClipping),
    ],
    ids=["flat", "functional", "sum", "per layer", "ghost"],
)
def test_training_runs_on_our_noise(calls, options, expected) -> None:
    """One release a step; epsilon, flags and batch size are theirs."""
    engine, plain = adapter.PrivacyEngine(), opacus.PrivacyEngine()
    private = training(engine, **options)
    model, optimizer, *criterion, loader = private
    assert type(optimizer) is expected
    before = [p.detach().clone() for p in model.parameters()]
    del calls[:]
    epoch(model, optimizer, loader, *criterion)
    assert calls == [2.0 if "clipping" in options else 1.0] * len(loader)
    assert all(not torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    theirs = training(plain, **options)[1]
    for name in ("noise_multiplier", "max_grad_norm", "expected_batch_size", "loss_reduction"):
        assert getattr(optimizer, name) == getattr(theirs, name)
    for _ in range(len(loader)):
        plain.accountant.step(noise_multiplier=1.0, sample_rate=1 / len(loader))
    assert engine.get_epsilon(1e-5) == plain.get_epsilon(1e-5)


def test_training_to_an_epsilon(calls) -> None:
    engine = adapter.PrivacyEngine()
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.zeros(64, dtype=torch.long))
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=16), target_epsilon=3.0, target_delta=1e-3, epochs=2,
        max_grad_norm=1.0,
    )  # fmt: skip
    assert type(optimizer) is adapter.DPOptimizer
    for _ in range(2):
        epoch(model, optimizer, loader)
    assert 2 < engine.get_epsilon(1e-3) <= 3.0


def test_large_batches_in_parts(calls) -> None:
    """BatchMemoryManager skips steps: the noise comes once for each whole batch."""
    engine = adapter.PrivacyEngine()
    model, optimizer, loader = training(engine, poisson_sampling=False)
    del calls[:]
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=8, optimizer=optimizer) as parts:
        epoch(model, optimizer, parts)
    assert len(calls) == 256 // 32


def test_scaling_is_theirs() -> None:
    optimizer = made(params=parameters((SIZE,)), multiplier=1.0, norm=1.0, expected_batch_size=50)
    (p,) = optimizer.params
    p.grad_sample = torch.zeros(1, SIZE)
    optimizer.step()
    assert not rejected(p.grad.numpy().astype(float) * 50)
    assert torch.equal(p.detach(), -p.grad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clipping": "adaptive", "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 2.0,
          "min_clipbound": 0.1, "unclipped_num_std": 1.0}, "AdaClipDPOptimizer"),
        ({"noise_generator": torch.Generator()}, "generator must be None"),
        ({"noise_multiplier": 0.0}, "no step without noise"),
    ],
    ids=["adaptive", "seeded", "silent"],
)  # fmt: skip
def test_the_engine_refuses(options, message) -> None:
    with pytest.raises(dpfast.errors.ParameterError, match=message):
        training(adapter.PrivacyEngine(), **options)


@pytest.mark.parametrize(("clipping", "mode"), [("per_layer", "hooks"), ("flat", "ghost_fsdp")])
def test_other_seams_of_many_workers_are_refused(clipping, mode) -> None:
    with pytest.raises(dpfast.errors.ParameterError, match="has no release of its own"):
        adapter.PrivacyEngine()._prepare_optimizer(
            optimizer=None, distributed=True, clipping=clipping, grad_sample_mode=mode
        )


def test_an_optimizer_made_private_twice_is_unwrapped() -> None:
    engine = adapter.PrivacyEngine()
    plain = torch.optim.SGD(parameters((2,)), lr=1.0)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": 1}
    once = engine._prepare_optimizer(optimizer=plain, **options)
    assert engine._prepare_optimizer(optimizer=once, **options).original_optimizer is plain


@pytest.mark.parametrize("cls", [adapter.DistributedDPOptimizer, adapter.DistributedDPOptimizerFastGradientClipping])
def test_many_workers_get_one_noise(tmp_path, cls) -> None:
    """On the first worker ours, on others none, by their own rule."""
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        optimizer = made(cls, parameters((SIZE,)), multiplier=1.0, norm=1.0)
        assert (optimizer.rank, optimizer.world_size) == (0, 1)
        (grad,) = stepped(optimizer, [torch.zeros(SIZE)])
        assert not rejected(grad.numpy().astype(float))
        assert np.all(grad.numpy().astype(float) * 2**20 % 1 == 0)
        optimizer.rank = 1
        (grad,) = stepped(optimizer, [torch.ones(SIZE)])
        assert torch.equal(grad, torch.ones(SIZE))
    finally:
        torch.distributed.destroy_process_group()


def test_nothing_of_theirs_is_rebound() -> None:
    assert type(training(opacus.PrivacyEngine())[1]) is optimizers.DPOptimizer


def test_the_example_runs() -> None:
    found = run(ROOT / "examples" / "with_opacus.py")
    assert (found.returncode, found.stderr) == (0, "")
    assert "95 %" in found.stdout


# -------------------------------------------- Opacus's own tests of its engine, which its wheel has

SILENT = {"checkpoints", "compare_to_vanilla", "flat_clipping", "per_layer_clipping", "sample_grad_aggregation"}
SEEDED = {"deterministic_run", "noise_level"}
NO_NOISE = "there is no step without noise"


@pytest.fixture
def engine_tests(monkeypatch) -> Callable:
    """failures(engine): failed tests of linear layers' models, without torchvision's models."""
    pytest.importorskip("hypothesis")
    for name in ("torchvision", "torchvision.datasets"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    from hypothesis import Phase, settings
    from opacus.tests import privacy_engine_test

    case = privacy_engine_test.PrivacyEngineCustomLayerTest
    names = {name for name in vars(privacy_engine_test.BasePrivacyEngineTest) if name.startswith("test_")}
    names -= {"test_model_validator", "test_model_validator_after_fix", "test_validator_weight_update_check"}
    settings.register_profile("few", max_examples=20, database=None, phases=[Phase.generate])
    settings.load_profile("few")

    def failures(engine) -> dict:
        monkeypatch.setattr(privacy_engine_test, "PrivacyEngine", engine)
        result = unittest.TestResult()
        unittest.TestSuite(map(case, sorted(names))).run(result)
        return {test.id().rpartition("test_")[2]: text for test, text in result.failures + result.errors}

    failures.case = case
    return failures


class Faint(adapter.PrivacyEngine):
    """With sigma 1e-9 where none is wanted."""

    def make_private(self, *, noise_multiplier, max_grad_norm, **options) -> tuple:
        norm = np.linalg.norm(max_grad_norm)
        return super().make_private(
            noise_multiplier=noise_multiplier or 1e-9 / norm, max_grad_norm=max_grad_norm, **options
        )


@pytest.mark.filterwarnings("ignore")
def test_their_own_tests_of_the_engine(engine_tests) -> None:
    """All pass before. With ours those fail that want no noise or a seed's."""
    assert engine_tests(opacus.PrivacyEngine) == {}
    found = engine_tests(adapter.PrivacyEngine)
    assert SILENT | {"deterministic_run"} <= found.keys() <= SILENT | SEEDED
    assert all(NO_NOISE in found[name] for name in SILENT - {"compare_to_vanilla"})
    found = engine_tests(Faint)
    assert {"deterministic_run"} <= found.keys() <= SEEDED | {"compare_to_vanilla"}
    # Unclipped, with sigma 1e20, three steps make a model of NaN, whose gradients are refused.
    assert "values must be finite" in found.get("compare_to_vanilla", "values must be finite")
    case = engine_tests.case("test_basic")
    case.setUp()
    for clip, closure, steps in itertools.product([False, True], [False, True], [1, 3]):
        case._compare_to_vanilla(False, clip, not clip, "hooks", closure, steps)
