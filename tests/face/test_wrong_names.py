# SPDX-License-Identifier: Apache-2.0
"""Calls that nobody can bind: errors speak of public names, and say what replaces a seed."""

from __future__ import annotations

import inspect
import re

import doors
import pytest

import dpfast

DRAWS = {
    "AboveThreshold", "AboveThreshold.run", "DiscreteGaussian", "DiscreteGaussian.release", "DiscreteGaussian.sample", "DiscreteLaplace",
    "DiscreteLaplace.release", "DiscreteLaplace.sample", "Exponential.select", "Gaussian", "Gaussian.release", "Laplace",
    "Laplace.release", "Ledger.release", "NoisyMax.select", "OneSidedGeometric", "OneSidedGeometric.sample",
    "PermuteAndFlip", "PermuteAndFlip.select", "RandomizedResponse", "RandomizedResponse.release", "Snapping", "Snapping.release", "bounded_histogram",
    "noise_source", "thresholded", "tree",
}  # fmt: skip
WRONG = {"a misspelt option": ((), {"misspelt": 1}), "too many values": (range(40), {}), "a seed": ((), {"seed": 7})}


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> dict[str, doors.Call]:
    return {call.name: call for call in doors.surface(tmp_path_factory.mktemp("doors"))}


@pytest.mark.parametrize("wrong", WRONG)
def test_errors_of_calls_name_public_things_alone(calls, wrong) -> None:
    """Python's own begin with the function's name, and dpfast's may: not with an inner class."""
    public = {*dpfast.__all__, "Noise"}
    for name, call in calls.items():
        kinds = [each.kind for each in inspect.signature(call.function).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds and wrong == "too many values":
            continue
        values, options = WRONG[wrong]
        with pytest.raises((TypeError, ValueError)) as told:
            call.function(*values, **options)
        said = re.match(r"(?:a release by )?(\w+)(?:\.(\w+))?\(\)", str(told.value))
        if said and said[2]:
            assert said[1] in public, (name, str(told.value))
        assert not re.search(r"\b(Releasing|Sigma|Pure|IntegerNoise|Mechanism|OneAnswer|Selection)\.", str(told.value))


def test_a_seed_is_answered_with_what_there_is(calls) -> None:
    """By whatever draws noise or is the law of it, under each name that people give a seed."""
    assert calls.keys() >= DRAWS
    for name in sorted(DRAWS):
        for option in ("seed", "rng", "random_state"):
            good = calls[name].arguments()
            with pytest.raises(
                dpfast.errors.DTypeError, match=f"keyword argument '{option}'.*no seed.*testing.fixed_key"
            ) as told:
                calls[name]({**good, option: 7})
            assert name.partition(".")[0] in str(told.value) or "." in name
    histogram = doors.bounded(domain=["flu"])
    for call in (histogram.release, histogram.tree):
        with pytest.raises(dpfast.errors.DTypeError, match="no seed"):
            call(
                *[doors.MECHANISM] * (call == histogram.release),
                seed=7,
                **{} if call == histogram.release else {"epsilon": 1},
            )


def test_a_function_keeps_what_it_says_of_itself() -> None:
    """The guard against seeds changes neither its signature nor its page."""
    assert "max_partitions" in inspect.signature(dpfast.bounded_histogram).parameters
    assert dpfast.tree.__doc__.startswith("Release counts as a tree")
