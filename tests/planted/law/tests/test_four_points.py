# SPDX-License-Identifier: Apache-2.0
"""Releases with noise of four points: their draws are those of the intervals, by every path."""

from __future__ import annotations

import numpy as np
import pytest

from dpfast import FourPoints, InsecureKeyWarning, NoGuaranteeError, _native
from dpfast.testing import fixed_key

START = 2**40 + 77


@pytest.mark.parametrize("constant_time", [False, True])
@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("t", [1, 10, 2**40])
def test_a_release_under_a_key_is_its_values_plus_the_exact_draws(t: int, n: int, constant_time: bool) -> None:
    """Fewer than 4,096 values go another way than more."""
    law, values = FourPoints(t), np.arange(n)
    key = fixed_key(1).derive("four points")
    with pytest.warns(InsecureKeyWarning):
        out = law.release(values, key=key, start=START, constant_time=constant_time)
    part = key.part(_native.STREAM_VERSION, law._record, values, START, threads=1)
    with pytest.warns(InsecureKeyWarning):
        stream = _native.StreamKey(key.stream_key(part))
    read = law._reader(stream, 32)
    assert (out - values).tolist() == [law._law.draw(read, START + i) for i in range(n)]
    assert {*(out - values).tolist()} == {-2 * t, -t, t, 2 * t}


def test_it_promises_nothing() -> None:
    with pytest.raises(NoGuaranteeError):
        _ = FourPoints(3).guarantee
