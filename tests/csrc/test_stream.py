# SPDX-License-Identifier: Apache-2.0
"""The cipher, its known answers, and the addresses of csrc/stream.md."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import tiers
from tiers import ISAS

from dpfast import DiscreteLaplace, Laplace
from dpfast.errors import UnusableValuesError

KEY = bytes(range(32))


def block(key: bytes, counter: int, nonce: int) -> bytes:
    return tiers.StreamKey(key).block(counter, nonce)


def rfc_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """A block by RFC 8439's split of words 12 to 15: a 32-bit counter and a 96-bit nonce."""
    first, second, third = (int.from_bytes(nonce[i : i + 4], "little") for i in (0, 4, 8))
    return block(key, counter | first << 32, second | third << 32)


# RFC 8439, 2.3.2 and appendix A.1, vectors 1 to 5: key, counter, nonce, key stream.
RFC_VECTORS = [
    (KEY, 1, bytes.fromhex("000000090000004a00000000"),
     ("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
      "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e")),
    (bytes(32), 0, bytes(12),
     ("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
      "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586")),
    (bytes(32), 1, bytes(12),
     ("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
      "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f")),
    (bytes(31) + b"\x01", 1, bytes(12),
     ("3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
      "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0")),
    (b"\x00\xff" + bytes(30), 2, bytes(12),
     ("72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
      "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096")),
    (bytes(32), 0, bytes(11) + b"\x02",
     ("c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
      "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d")),
]  # fmt: skip


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), RFC_VECTORS)
def test_rfc_8439(key: bytes, counter: int, nonce: bytes, expected: str) -> None:
    assert rfc_block(key, counter, nonce).hex() == expected


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("base", [0, 2**32 - 16, 2**31 - 3, 2**62 - 5, 2**64 - 32])
def test_every_instruction_set_gives_the_portable_bytes(isa: int, base: int) -> None:
    """Also where the counter carries into its upper word in the middle of a batch."""
    key, nonce = os.urandom(32), int.from_bytes(os.urandom(8), "little")
    counters = [base + i for i in range(32)]
    assert tiers.blocks(isa, key, counters, nonce) == [block(key, c, nonce) for c in counters]
    scattered = [int.from_bytes(os.urandom(8), "little") for _ in range(32)]
    assert tiers.blocks(isa, key, scattered, nonce) == [block(key, c, nonce) for c in scattered]


def test_nonces_of_different_addresses_differ() -> None:
    """Purpose, candidate and level each have their own bits."""
    extremes = [(p, c, r) for p in (0, 1, 255) for c in (0, 1, 2**32 - 1) for r in (0, 1, 2**24 - 1)]
    nonces = {tiers.nonce(level, purpose, candidate) for purpose, candidate, level in extremes}
    assert len(nonces) == len(extremes)
    assert max(nonces) < 2**64


@pytest.mark.parametrize(("scale", "width"), [(10, 16), (1000, 32), (2**21, 64)])
def test_words_of_different_draws_share_no_bits(scale: int, width: int) -> None:
    """Over a few groups, (block, slot) is one-to-one and every block is full."""
    per_group = 16 * 512 // width
    places = set()
    for i in range(3 * per_group):
        group, within = divmod(i, per_group)
        places.add((16 * group + within % 16, within // 16))
    assert len(places) == 3 * per_group
    assert {slot for _, slot in places} == set(range(512 // width))
    assert tiers.constant_work_plan(DiscreteLaplace(1, scale)).width == width


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("scale", [10, 1000, 10**7, 2**50])
def test_a_draw_depends_on_its_number_alone(isa: int, scale: int) -> None:
    """Whatever call, cut, path or instruction set it is drawn by."""
    mechanism = DiscreteLaplace(1, scale)
    plan, key = tiers.bulk_plan(mechanism), tiers.StreamKey(KEY)
    for start in (0, 1, 255, 1023, 1024, 2**32 - 7, 2**63 - 5000):
        whole = plan.fill(key, start, 3000, constant_work=False, isa=0)
        for begin, end in [(0, 3000), (0, 1), (1, 2), (17, 1500), (1023, 1025), (1500, 3000), (2999, 3000)]:
            for constant_work in (False, True):
                drawn = plan.fill(key, start + begin, end - begin, constant_work=constant_work, isa=isa)
                assert drawn == whole[begin:end], (start, begin, end)


@pytest.mark.parametrize("n", [3, 5000])
@pytest.mark.parametrize("constant_work", [0, 1])
def test_a_call_that_fails_leaves_zeros(n: int, constant_work: int) -> None:
    """By C alone, in place, where only the last value is not finite: the others had their sums."""
    values = np.arange(1.0, n + 1)
    how = tiers.release_of_reals(Laplace(1, 1000), tiers.StreamKey(KEY), constant_work=constant_work)
    how.add(0, n, values, values, 0)
    assert values.any()
    values[-1] = math.nan
    with pytest.raises(UnusableValuesError):
        how.add(0, n, values, values, 0)
    assert not values.any()
