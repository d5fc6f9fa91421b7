# SPDX-License-Identifier: Apache-2.0
"""csrc/stream.md again: the keys that reach the cipher, by the description and as ever."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from blake3 import blake3
from reference import E, H, integers, texts
from seals import SECRET, cut, known
from tiers import SEALED_ROWS

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Snapping
from dpfast.engines.jobs import GaussianWithholding
from dpfast.noise.release import seal


class Described:
    """A release by the description: columns of values, by name; each with its record and names."""

    def __init__(
        self,
        label: str,
        kind: str,
        columns: dict[str, tuple[list[Any], list[Any]]],
        size: list[int],
        rows_names: Any = None,
    ) -> None:
        self.key = H(SECRET, b"release key", label.encode())
        secret, fields = H(self.key, b"block digest"), []
        self.digests: dict[tuple[str, int], bytes] = {}
        for name, (_, values) in columns.items():
            for j, begin in enumerate(range(0, len(values), 65_536)):
                block = values[begin : begin + 65_536]
                data = E(name, j) + E(*self.values(block))
                if rows_names is not None:
                    named = rows_names[begin : begin + 65_536]
                    data += E(b"texts", *texts(named)) if isinstance(named[0], str) else E(*integers(named))
                self.digests[name, j] = blake3(data, key=secret).digest()
                fields += [len(block), self.digests[name, j]]
        root = H(self.key, b"root", E(*fields))
        self.columns, self.label = [E(name, *record) for name, (record, _) in columns.items()], label
        manifest = self.manifest(kind, size)
        self.tag = H(self.key, b"tag", E(manifest, root))
        self.sealed = H(self.key, b"sealed", E(manifest, root))

    def manifest(self, kind: str, size: list[int]) -> bytes:
        return E(1, 2, self.label, kind, "", E(*size), *self.columns)

    @staticmethod
    def values(block: list[Any]) -> list[bytes]:
        if isinstance(block[0], int):
            return integers(block)
        return [b"reals", np.array([x + 0.0 for x in block], "<f8").tobytes()]

    def stream_keys(self) -> list[bytes]:
        return [H(self.sealed, b"stream key", E(name, j, digest)) for (name, j), digest in self.digests.items()]


CASES: dict[str, tuple[str, Any, Any, dict[str, Any], list[Any]]] = {
    "plain": ("visits/count", DiscreteLaplace(1, 10), np.arange(6).reshape(2, 3), {}, ["discrete_laplace", 1, 1, 10, 1]),
    "fractions": ("é", DiscreteLaplace(Fraction(1, 10), Fraction(1, 3)), np.array([-1, 2**63 - 1, -(2**63)]), {},
                  ["discrete_laplace", 1, 10, 1, 3]),
    "unsigned": ("u", DiscreteLaplace(3, 2), np.array([2**64 - 1, 0], np.uint64), {}, ["discrete_laplace", 3, 1, 2, 1]),
    "small unsigned": ("u", DiscreteLaplace(3, 2), np.array([2**63 - 1, 0], np.uint64), {}, ["discrete_laplace", 3, 1, 2, 1]),
    "scalar": ("0-d", DiscreteLaplace(1, 1), np.array(-5, np.int8), {}, ["discrete_laplace", 1, 1, 1, 1]),
    "empty": ("none", DiscreteLaplace(1, 1), np.zeros((0, 4), np.int16), {}, ["discrete_laplace", 1, 1, 1, 1]),
    "texts": ("names", DiscreteGaussian(Fraction(37, 10)), np.array([5, 5, 5]), {"names": ["Ulm", "", "Zürich"]},
              ["discrete_gaussian", 1369, 100]),
    "repeated": ("names", DiscreteGaussian(2), np.array([5, 5, 5]), {"names": ["b", "a", "b"]}, ["discrete_gaussian", 4, 1]),
    "numbers": ("names", DiscreteGaussian(2), np.array([5, 5, 5]), {"names": [-1, 7, 2**40]}, ["discrete_gaussian", 4, 1]),
    "two blocks": ("long", DiscreteLaplace(1, 1), np.arange(65_537) % 3, {"names": range(65_537)}, ["discrete_laplace", 1, 1, 1, 1]),
    "laplace": ("reals", Laplace(1, 3), np.array([0.5, -0.0, -7.25]), {}, ["laplace", 1, 1, 3, 1, -19]),
    "gaussian": ("reals", Gaussian(2, granularity=Fraction(1, 8)), np.array([0.5, 0.1], "f4"), {}, ["gaussian", 4, 1, -3]),
    "snapping": ("reals", Snapping(1, 3, bound=64), np.array([0.5, 1e9]), {}, ["snapping", 1, 1, 3, 1, 2, 64, 1]),
}  # fmt: skip
GOLDEN = {
    "plain": "09180e51051928a68ae626bc6fec2efc",
    "fractions": "7c31607a0d4ec41757afef409722deaa",
    "unsigned": "3bfa095e8bace6c00c62f92a526f13ef",
    "small unsigned": "fca3708a57d9fbf2526637d0f3195c8f",
    "scalar": "920fe5b7db1b7a3abb2ec9f1c01cc7da",
    "empty": "c4df16fe8144d3ef3d4c0bb939eb54ba",
    "texts": "3ee9b6dea8dd7ab51811dcdd2f510bef",
    "repeated": "6cbfeb7edcbdd2a4fa98eeaebb8c2e97",
    "numbers": "0fef50482d2142dccfa0789296d4436c",
    "two blocks": "638c53d03f172365cfe354ffbce5313d",
    "laplace": "294f5d07f77164215c3776ebd55c0590",
    "gaussian": "5e83f5205abea6d4639dfd57d66a09a9",
    "snapping": "61a2deae3d29dfa7733a862487e96e0e",
    "table": "867370e8e53351efb771f489f5b29c25",
    "unknown keys, l0 and linf": "5ba9c9b71ab597407f81cf9cff482ebb",
    "unknown keys, l1": "17c32c5267432e917e17dcdbf01ca139",
    "unknown keys, gaussian": "cfeaf3fefbf83fcb8d54ded8456fdcd2",
}


@pytest.mark.parametrize("case", CASES)
def test_golden_stream_keys(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stream version 2, pinned: the keys that reach the cipher, by the description and as ever."""
    label, mech, values, options, record = CASES[case]
    cells, seen = values.reshape(-1).astype(values.dtype).tolist(), []
    if isinstance(mech, Snapping):
        cells = [min(x, 64.0) for x in cells]
    take = tiers.StreamKey.take
    monkeypatch.setattr(tiers.StreamKey, "take", lambda key, secret: seen.append(secret) or take(key, secret))
    mech.release(values, key=known(label), threads=1, **options)
    named = [*options["names"]] if options else None
    told = Described(label, "array", {"": (record, cells)}, list(values.shape), named)
    assert seen == told.stream_keys()
    made = [
        known(label).digester(mech)(j, block, names=named and named[j * SEALED_ROWS :][: block.size])
        for j, block in enumerate(cut(values))
    ]
    seal = known(label).seal(mech, made, shape=values.shape)
    assert seal.tag == told.tag
    assert known(label).id == H(told.key, b"key id")[:16].hex()
    assert hashlib.sha256(b"".join(seen) + told.tag).hexdigest()[:32] == GOLDEN[case]


def test_golden_stream_keys_of_a_table() -> None:
    """Column after column, each with its law; the kind of an input with buckets is another."""
    columns = {"é": DiscreteLaplace(1, 10), "b": Laplace(1, 3)}
    key, counts, reals = known("table"), [1, 2, 3], [0.5, 1.5, 2.5]
    made = [
        key.digester(law, column=name)(0, x) for (name, law), x in zip(columns.items(), (counts, reals), strict=True)
    ]
    records = ["discrete_laplace", 1, 1, 10, 1], ["laplace", 1, 1, 3, 1, -19]
    described = {"é": (records[0], counts), "b": (records[1], reals)}
    found = []
    for kind, size, options in (("table", [3], {"shape": (3,)}), ("buckets", [1], {"buckets": 1})):
        tiers.forget_labels()
        told = Described("table", kind, described, size)
        sealed = key.seal(columns, made, **options).without_ledger()
        keys = [sealed.stream_key(name, 0, each.digest) for name, each in zip(columns, made, strict=True)]
        assert keys == told.stream_keys()
        found += keys
    assert len({*found}) == 4
    root = H(told.key, b"root", E(b"file", 3, made[0].digest, 3, made[1].digest))
    assert key.seal(columns, made, shape=(3,), source=b"file").tag == H(
        told.key, b"tag", E(told.manifest("table", [3]), root)
    )
    assert hashlib.sha256(b"".join(found)).hexdigest()[:32] == GOLDEN["table"]


def test_golden_releases_of_few_values() -> None:
    """300 labels give the bytes that they always gave: four laws, with names of rows or none."""
    laws, found = (DiscreteLaplace(1, 10), DiscreteGaussian(3), Laplace(1, 3), Gaussian(2)), hashlib.sha256()
    for i in range(300):
        values = (np.arange(i) % 7 - 3).astype("f8" if i % 4 > 1 else ("i8", "u1", "i4")[i % 3])
        names = None if i % 5 else [f"name {j}" for j in range(i)]
        key = dpfast.Key.from_bytes(bytes(range(32))).derive(f"label {i}")
        found.update(laws[i % 4].release(values, key=key, names=names).tobytes())
    assert found.hexdigest() == "7a267c0b0294105fa34e90205b8c6f3bfbdab4645f4c162f291427d9872376c0"


def canonical(name: Any) -> bytes:
    if isinstance(name, tuple):
        return E("tuple", *map(canonical, name))
    kind = type(name).__name__
    body = {"float": lambda: np.float64(name + 0.0).tobytes(), "bytes": lambda: name, "bool": lambda: str(int(name))}
    return E(kind, body.get(kind, lambda: str(name))())


UNKNOWN: list[tuple[list[Any], int]] = [  # keys in their order, and how many buckets
    ([-5, 3, 2**70], 1),
    (["", "Ulm", "Zürich"], 256),
    ([(1, "a"), (1, "b"), False, b"x", 0.0, 0.5, 3, "3"], 3),
    ([], 2),
]


@pytest.mark.parametrize("mech", ["l0 and linf", "l1", "gaussian"])
def test_golden_stream_keys_of_unknown_keys(mech: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """thresholded under a key, by the description: each key's bucket, its block's stream key."""
    change = dpfast.Sensitivity(l1=5) if mech == "l1" else dpfast.Sensitivity(2, 3)
    record = ["thresholded", 1, 2, *((5, 1, 1, 100, 5, 5, 5) if mech == "l1" else (6, 1, 1, 100, 2, 3, 6))]
    how: dict[str, Any] = {}
    if mech == "gaussian":
        how = {"noise": "gaussian", "pre_threshold": 4}
        made = GaussianWithholding(Fraction(1, 2), Fraction(1, 100), change)
        record = ["thresholded_gaussian", *made.sigma_squared.as_integer_ratio(), 1, 100, 2, 3, 6, 4, 1, 2]
    found: list[bytes] = []
    for names, many in UNKNOWN:
        tiers.forget_labels()
        key, seen = H(SECRET, b"release key", b"words"), []
        counts = [7 + i for i in range(len(names))]
        in_bucket: list[list[int]] = [[] for _ in range(many)]
        for i, name in enumerate(names):
            hashed = H(H(key, b"buckets"), b"bucket", canonical(name))
            in_bucket[int.from_bytes(hashed[:8], "little") % many].append(i)
        fields, digests = [], []
        for j, places in enumerate(in_bucket):
            runs = [canonical(names[i]) for i in places]
            lengths = b"".join(len(run).to_bytes(8, "little") for run in runs)
            named = E(b"texts", lengths, b"".join(runs)) if runs else b""
            data = E("", j) + E(*integers([counts[i] for i in places])) + named
            digests.append(blake3(data, key=H(key, b"block digest")).digest())
            fields += [len(places), digests[-1]]
        manifest = E(1, 2, "words", "buckets", "", E(many), E("", *record))
        sealed = H(key, b"sealed", E(manifest, H(key, b"root", E(*fields))))
        with monkeypatch.context() as patch:
            take = tiers.StreamKey.take
            patch.setattr(
                tiers.StreamKey,
                "take",
                lambda key, secret, take=take, seen=seen: seen.append(secret) or take(key, secret),
            )
            dpfast.thresholded(names[::-1], counts[::-1], epsilon=Fraction(1, 2), delta=Fraction(1, 100), sensitivity=change,
                               key=known("words"), buckets=many, **how)  # fmt: skip
        assert seen == [H(sealed, b"stream key", E("", j, digest)) for j, digest in enumerate(digests)]
        found += seen
    assert hashlib.sha256(b"".join(found)).hexdigest()[:32] == GOLDEN[f"unknown keys, {mech}"]


@pytest.mark.parametrize("fields", [[], ["a"], ["a", b"bc"], [b"bc", "a"], ["a", b"b", "", "c"]])
def test_a_digest_has_every_field_behind_its_length(fields: list[Any]) -> None:
    begun = blake3(key=SECRET)
    found = seal.block_digest(begun, "visits", 3, fields)
    assert found == blake3(E("visits", 3, *fields), key=SECRET).digest()


def test_no_raw_key_reaches_the_cipher() -> None:
    """The stream key is neither the master's nor the release key's secret, nor tells them."""
    assert tiers.STREAM_VERSION == 2
    told = Described("x", "array", {"": (["discrete_laplace", 1, 1, 1, 1], [0])}, [1])
    assert len({*told.stream_keys(), told.sealed, told.tag, told.key, SECRET, tiers.secret_of(known("x"))}) == 5
