# SPDX-License-Identifier: Apache-2.0
"""The cipher against RFC 8439 and a plain one in Python; golden outputs of every law."""

from __future__ import annotations

import os
import sys
import warnings
from hashlib import blake2b
from struct import pack, unpack

import numpy as np

from dpfast import ReleaseKey, _native
from dpfast.errors import InsecureKeyWarning
from dpfast.evidence.selftest.check import Outcome, Run, below, instruction_sets, sets
from dpfast.evidence.selftest.subjects import Subject, subjects
from dpfast.testing import fixed_key

# RFC 8439, 2.3.2 and appendix A.1, vectors 1 to 5: key, counter, nonce, key stream.
RFC_8439 = (
    (
        bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"),
        ("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
         "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"),
    ),
    (
        bytes(32), 0, bytes(12),
        ("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
         "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    ),
    (
        bytes(32), 1, bytes(12),
        ("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
         "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    ),
    (
        bytes(31) + b"\x01", 1, bytes(12),
        ("3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
         "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"),
    ),
    (
        b"\x00\xff" + bytes(30), 2, bytes(12),
        ("72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
         "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"),
    ),
    (
        bytes(32), 0, bytes(11) + b"\x02",
        ("c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
         "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"),
    ),
)  # fmt: skip
ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))  # fmt: skip
LANES = 32  # counters in one call
# Where such a call begins: the upper word gets a carry, or a signed counter would.
EDGES = 0, 2**32 - 16, 2**31 - 3, 2**33 - 9, 2**62 - 5, 2**64 - LANES


def chacha20(key: bytes, counter: int, nonce: int) -> bytes:
    """One block, from the text of RFC 8439, 2.3, with a 64-bit counter and nonce."""
    start = unpack("<16I", b"expand 32-byte k" + key + pack("<QQ", counter, nonce))
    x = list(start)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            for into, add, turned, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[into] = (x[into] + x[add]) % 2**32
                mixed = x[turned] ^ x[into]
                x[turned] = (mixed << left | mixed >> (32 - left)) % 2**32
    return pack("<16I", *((word + first) % 2**32 for word, first in zip(x, start, strict=True)))


def cipher(run: Run) -> Outcome:
    for key, low, nonce, expected in RFC_8439:
        high, first, second = unpack("<3I", nonce)
        address = low | high << 32, first | second << 32
        run.expect(chacha20(key, *address).hex() == expected, "the cipher in Python is not RFC 8439's")
        for isa in instruction_sets():
            block = run.under_test("block", _native.blocks(isa, key, [address[0]] * LANES, address[1])[-1])
            run.expect(block.hex() == expected, f"{_native.ISA_NAMES[isa]}: an RFC 8439 vector does not come out")
        run.expect(_native.StreamKey(key).block(*address).hex() == expected, "dpf_block is not RFC 8439's")
    secret, random_nonce = os.urandom(32), below(2**64)
    counters = [[edge + lane for lane in range(LANES)] for edge in EDGES]
    counters.append([below(2**64) for _ in range(LANES)])
    for batch in counters:
        truth = [chacha20(secret, counter, random_nonce) for counter in batch]
        for isa in instruction_sets():
            found = run.under_test("blocks of one call", _native.blocks(isa, secret, batch, random_nonce))
            run.expect(found == truth, f"{_native.ISA_NAMES[isa]}: blocks from counter {batch[0]} on differ")
    return run.outcome(f"{len(RFC_8439)} RFC 8439 blocks, {len(counters) * LANES} beside carries x {sets()}")


# ------------------------------------------------------------------ golden outputs

STREAM_VERSION = 2  # the version of these answers
GOLDEN_DRAWS = 4096
GOLDEN_START = 1000


def insecure(label: str) -> ReleaseKey:
    return fixed_key(1).derive(f"selftest/{label}")


def digest_of_draws(subject: Subject, isa: int, *, constant_work: bool) -> str:
    """The digest of 4,096 draws as decimal numbers, whichever tier decides them."""
    stream = _native.StreamKey(blake2b(subject.name.encode(), digest_size=32).digest())
    draws = subject.draws(stream, GOLDEN_START, GOLDEN_DRAWS, constant_work=constant_work, isa=isa)
    return blake2b(" ".join(map(str, draws)).encode(), digest_size=12).hexdigest()


def digest_of_release(subject: Subject) -> str:
    """The digest of a release of 4,096 values under a fixed key: it depends on all of its seal."""
    kind = "<i8" if subject.offset is None else "<f8"
    values = np.arange(GOLDEN_DRAWS).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        out = subject.mechanism.release(values, key=insecure(subject.name))
    return blake2b(out.astype(kind).tobytes(), digest_size=12).hexdigest()


def golden(run: Run) -> Outcome:
    run.expect(_native.STREAM_VERSION == STREAM_VERSION, "the stream has another version than these outputs")
    for at, subject in enumerate(subjects()):
        run.step(at / len(subjects()))
        draws, release = GOLDEN[subject.name]
        for isa in instruction_sets():
            for constant_work in (False, True):
                found = run.under_test("digest of draws", digest_of_draws(subject, isa, constant_work=constant_work))
                run.expect(found == draws, f"{subject.name}, {_native.ISA_NAMES[isa]}: the draws are not version 2's")
        if subject.releases:
            found = run.under_test("digest of a release", digest_of_release(subject))
            run.expect(found == release, f"{subject.name}: a release under a fixed key is not version 2's")
    return run.outcome(f"{len(subjects())} mechanisms x {GOLDEN_DRAWS:,} draws x 2 paths x {sets()}, and releases")


# BLAKE2b of draws and of a release under testing.fixed_key(1): run this module to print them.
# fmt: off
GOLDEN: dict[str, tuple[str, str]] = {
    "discrete_laplace scale 1/3": ("0dc240f99ba347f622be902a", "935faef5514154ad48212eb3"),
    "discrete_laplace scale 1": ("3dfdf0cdf536fe057ffa8605", "361c26983ced22fa34c8832e"),
    "discrete_laplace scale 10": ("c1beeb9427c295d0f026f116", "8acef79cc30dbefbe61d77f2"),
    "discrete_laplace scale 100": ("d376b7ffbcef30499f709c88", "105254d4065e85c13da24d80"),
    "discrete_laplace scale 1000": ("5c1ada21638a01a010989a87", "998604ae83bb96b11b147942"),
    "discrete_laplace scale 1000000": ("34bb8e3cd72981fb798d7a77", "8690c0ccff1148b3c170de26"),
    "discrete_laplace scale 1000000000000": ("13e912733ef7d71ac3a0ad8e", "9c904c643be2d28a3856c448"),
    "discrete_laplace scale 1152921504606846976": ("16b01b77f1c2853136635ff9", "03fbc15df5f45921874a255f"),
    "one_sided_geometric scale 1": ("48b9aa4895f3e0195e78dee2", ""),
    "one_sided_geometric scale 1000": ("5c867464ad22ba60dd67abb5", ""),
    "one_sided_geometric scale 1125899906842624": ("c0bcbc4566425d7f5e507da7", ""),
    "discrete_gaussian sigma 1": ("c21485536e980955097a5d1e", "5d62edb5bdc1f0b6eb28c29f"),
    "discrete_gaussian sigma 37/10": ("a93003260991cedec7091d09", "50428742defa9902846238e8"),
    "discrete_gaussian sigma 100": ("647fcda926ea5e641d9be173", "f8e15e3705a58bb997ec1256"),
    "discrete_gaussian sigma 129": ("09d6e7389762d3c87dc7d743", "876c2df1d99023748b0e9c28"),
    "discrete_gaussian sigma 1000000": ("2a6e96d135605e0618b739da", "f7e5c8330245830ca1175190"),
    "laplace ratio 2**20": ("c3ae93f3858b89a7c118612b", "368f3ba3e5c30873cf779e84"),
    "gaussian ratio 2**20": ("d575491f836f8b91afb4a7bd", "7fe1e0ad9caa56926909b05c"),
    "laplace ratio 2**30": ("8e1920d9d7d6dffcdad196e9", "30a2aada745df3de9fa862dc"),
    "gaussian ratio 2**30": ("df1dcce1b65e83bbd3c150e8", "76d63d2aa4d9576edcd08519"),
    "laplace ratio 2**42": ("5039127a0e667633680a9418", "7d309464409513cae3ee6f46"),
    "gaussian ratio 2**42": ("4946ec7b4247fd5cc3bfa00c", "cf3e6e9a1ea5040dc8abf8e1"),
    "laplace ratio 2**60": ("f59f98977f221c24c807ff29", "795137f77e0a024471a5ba12"),
    "gaussian ratio 2**60": ("450ca41467c4f8548a2b3ff6", "f82225ab45fcc2beb64ae056"),
    "laplace ratio 1/3": ("53195845d7721ee827a541b8", "1506d3650cdd8539553213e7"),
    "gaussian ratio 3": ("7dd0123b83576c30a14c5148", "fe44613b51d9bed6e0f109d9"),
    "snapping ratio 1": ("d0ac2d769098b0667ee10615", "40cbc8e820526e47636579ab"),
    "snapping ratio 3/4": ("d1b76524e99e7c04de035c60", "fab05149f4b9a79bc6ed2dc5"),
}
# fmt: on

if __name__ == "__main__":
    for one in subjects():
        digests = digest_of_draws(one, 0, constant_work=False), digest_of_release(one) if one.releases else ""
        sys.stdout.write(f'    "{one.name}": ("{digests[0]}", "{digests[1]}"),\n')
