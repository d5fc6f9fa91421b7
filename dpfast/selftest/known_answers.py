# SPDX-License-Identifier: Apache-2.0
"""The cipher against RFC 8439 and a plain one in Python; golden outputs of every law."""

from __future__ import annotations

import os
import sys
import warnings
from hashlib import blake2b
from struct import pack, unpack

import numpy as np

from dpfast import InsecureKeyWarning, ReleaseKey, _native
from dpfast.selftest.check import Outcome, Run, below, instruction_sets, sets
from dpfast.selftest.subjects import Subject, subjects
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

STREAM_VERSION = 1  # the version of these answers
GOLDEN_DRAWS = 4096
GOLDEN_START = 1000


def insecure(label: str) -> ReleaseKey:
    return fixed_key(1).derive(f"selftest/{label}")


def digest_of_draws(subject: Subject, isa: int, *, constant_work: bool) -> str:
    """The digest of 4,096 draws as decimal numbers, whichever tier decides them."""
    stream = _native.StreamKey(insecure(subject.name)._secret)  # noqa: SLF001
    draws = subject.draws(stream, GOLDEN_START, GOLDEN_DRAWS, constant_work=constant_work, isa=isa)
    return blake2b(" ".join(map(str, draws)).encode(), digest_size=12).hexdigest()


def digest_of_release(subject: Subject) -> str:
    """The digest of a release of 4,096 values under a fixed key: derived keys are in it too."""
    kind = "<i8" if subject.offset is None else "<f8"
    values = np.arange(GOLDEN_DRAWS).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        out = subject.mechanism.release(values, key=insecure(subject.name), start=GOLDEN_START)
    return blake2b(out.astype(kind).tobytes(), digest_size=12).hexdigest()


def golden(run: Run) -> Outcome:
    run.expect(_native.STREAM_VERSION == STREAM_VERSION, "the stream has another version than these outputs")
    for at, subject in enumerate(subjects()):
        run.step(at / len(subjects()))
        draws, release = GOLDEN[subject.name]
        for isa in instruction_sets():
            for constant_work in (False, True):
                found = run.under_test("digest of draws", digest_of_draws(subject, isa, constant_work=constant_work))
                run.expect(found == draws, f"{subject.name}, {_native.ISA_NAMES[isa]}: the draws are not version 1's")
        if subject.releases:
            found = run.under_test("digest of a release", digest_of_release(subject))
            run.expect(found == release, f"{subject.name}: a release under a fixed key is not version 1's")
    return run.outcome(f"{len(subjects())} laws x {GOLDEN_DRAWS:,} draws x 2 paths x {sets()}, and releases")


# BLAKE2b of draws and of a release under testing.fixed_key(1): run this module to print them.
# fmt: off
GOLDEN: dict[str, tuple[str, str]] = {
    "discrete_laplace scale 1/3": ("e8e6dd9e92c067f1f2a95049", "c8c81b7492eac8426b23d180"),
    "discrete_laplace scale 1": ("f32490389b5cd408492611f2", "0cacfba000e6e526c0dd9a7f"),
    "discrete_laplace scale 10": ("c49e3678c98617bd82fb2443", "0f531c5e9c7226b530ac82a2"),
    "discrete_laplace scale 100": ("2d278f09c2d5438238bea3ac", "febf32f4415274acb38ae95e"),
    "discrete_laplace scale 1000": ("3db68db4e04e8123184ff3b5", "9cda6e0d1e92f387f17c54e3"),
    "discrete_laplace scale 1000000": ("e5831a89ef11760befe2b165", "f9ee4aa027d0aa93c55e7363"),
    "discrete_laplace scale 1000000000000": ("b0f8cded4a7afca681f0d901", "6bf6957e3d8b3d1a83c476a7"),
    "discrete_laplace scale 1152921504606846976": ("906926407795d45cd70b56a4", "f67699f07b91caa29bdb0ba8"),
    "one_sided_geometric scale 1": ("7235fcc0c2512bbb174b6b4d", ""),
    "one_sided_geometric scale 1000": ("07e45d794aeb778411b12c22", ""),
    "one_sided_geometric scale 1125899906842624": ("0ed4fb00bd24d0b1e976d3d4", ""),
    "discrete_gaussian sigma 1": ("a828f14f2356cadee30e10c2", "304ecaa64edfecf89fcdf282"),
    "discrete_gaussian sigma 37/10": ("3f158cbcce17794f98d82cb1", "deb5a35a3f04482b6926b60f"),
    "discrete_gaussian sigma 100": ("ce0813ba2fa5b9bc89b32c12", "3730b6c0c6c5f93908836d56"),
    "discrete_gaussian sigma 129": ("b49c156bcb8ab45a62dbe4c5", "b34ee3764eb93b9285c8037c"),
    "discrete_gaussian sigma 1000000": ("0823679b4191df076471e437", "e3f53f824b49fff09da7cb6b"),
    "laplace ratio 2**20": ("636f2eafaa4c999ad3018043", "8f151c3481ca2f3eefeb82fc"),
    "gaussian ratio 2**20": ("289eea4ee982f498fa600715", "558135852e3173d8b7235eaf"),
    "laplace ratio 2**30": ("16392d4974ba556e253dcc30", "bce0a44412f49ac094f8778e"),
    "gaussian ratio 2**30": ("52860b559632ff53aefce942", "58f30d18474eec4b9283259d"),
    "laplace ratio 2**42": ("0bf5ac49dcf4370687e6c5f6", "df45337513d71e53be04f37b"),
    "gaussian ratio 2**42": ("6f450777cd24b89eecb0dcf7", "7afe90bd3ab718b64cdc55cb"),
    "laplace ratio 2**60": ("59333e854fda9d32561dc232", "389c3e7983bc503af2553bb7"),
    "gaussian ratio 2**60": ("74d48e9968ebb89d3759c26d", "917f8f6bb471dbdfcf59db07"),
    "laplace ratio 1/3": ("5e54a4ccec93a2a244e379c9", "38b4ddf51fc3256eb2e31723"),
    "gaussian ratio 3": ("46b0b06c0c1f12cf35983d24", "18359af4cfa0766246e46aec"),
    "snapping ratio 1": ("e56ab2c778715d5b062e54cf", "c2e0113644c3bfa54dc90e46"),
    "snapping ratio 3/4": ("a1bd14ac057228dc3f2e4bc5", "87d38030d986d4d2a8626fd4"),
}
# fmt: on

if __name__ == "__main__":
    for one in subjects():
        digests = digest_of_draws(one, 0, constant_work=False), digest_of_release(one) if one.releases else ""
        sys.stdout.write(f'    "{one.name}": ("{digests[0]}", "{digests[1]}"),\n')
