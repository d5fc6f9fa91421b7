# SPDX-License-Identifier: Apache-2.0
"""Releases with noise of four points: their draws are those of the intervals, by every path."""

from __future__ import annotations

import numpy as np
import pytest

from dpfast import FourPoints, Key, _native
from dpfast.errors import NoGuaranteeError
from dpfast.evidence.selftest import reference


@pytest.mark.parametrize("constant_time", [False, True])
@pytest.mark.parametrize("n", [100, 5000])
@pytest.mark.parametrize("t", [1, 10, 2**40])
def test_a_release_is_its_values_plus_the_exact_draws(t: int, n: int, constant_time: bool) -> None:
    """Fewer than 4,096 values go another way than more."""
    law, values = FourPoints(t), np.arange(n)
    key = Key.generate().derive("four points")
    digest = key.digester(law)(0, values)
    sealed = key.seal(law, [digest], shape=(n,)).without_ledger()
    out = sealed.release(0, values, constant_time=constant_time)
    read = reference.reader(law, _native.StreamKey(sealed.stream_key("", 0, digest.digest)))
    assert (out - values).tolist() == [reference.of(law).draw(read, i) for i in range(n)]
    assert {*(out - values).tolist()} == {-2 * t, -t, t, 2 * t}


def test_it_promises_nothing() -> None:
    with pytest.raises(NoGuaranteeError):
        _ = FourPoints(3).guarantee
