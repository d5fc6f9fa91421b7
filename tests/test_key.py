# SPDX-License-Identifier: Apache-2.0
"""Release keys: one key, one release of one input; equal parts get equal noise, no others."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from blake3 import blake3
from fresh import python
from hypothesis import given, settings
from hypothesis import strategies as st

import dpfast
from dpfast import (
    DiscreteLaplace,
    DTypeError,
    EntropyError,
    InsecureKeyWarning,
    Key,
    KeyReuseError,
    ParameterError,
    ReleaseKey,
)
from dpfast.release.key import encode
from dpfast.testing import FixedKey, FixedReleaseKey, fixed_key

SECRET = bytes(range(100, 132))
MECH = DiscreteLaplace(1, 10**6)  # two independent draws are equal once in four million


def master() -> Key:
    return Key.from_bytes(SECRET)


def release(
    counts: object, label: str = "x", start: int = 0, mech: DiscreteLaplace = MECH, **options: object
) -> np.ndarray:
    """A release under a key object of its own."""
    return mech.release(counts, key=master().derive(label), start=start, **options)


def independent(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results share no noise: constant difference, reordering, equal cells."""
    one, other = np.ravel(one), np.ravel(other)
    n = min(one.size, other.size)
    equal = np.isin(one, other).mean()  # by chance n / (4 * 10**6) each
    return equal < 0.02 and len(np.unique(one[:n] - other[:n])) > 0.9 * n


# ------------------------------------------------------------------ keys


def test_generated_keys_are_new() -> None:
    keys = [Key.generate() for _ in range(50)]
    assert len({bytes(key) for key in keys}) == 50
    assert all(type(key) is Key and len(bytes(key)) == 32 for key in keys)


def test_a_key_goes_through_bytes() -> None:
    assert bytes(master()) == SECRET
    again = Key.from_bytes(bytes(master()))
    assert again == master()
    assert again.derive("x") == master().derive("x")


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64])
def test_keys_of_another_length_are_refused(length) -> None:
    with pytest.raises(ParameterError, match=f"32 bytes, got {length}$") as caught:
        Key.from_bytes(b"q" * length)
    assert "qq" not in str(caught.value)


@pytest.mark.parametrize(
    "bad", [bytearray(32), memoryview(bytes(32)), "q" * 32, 7, None, [0] * 32, np.zeros(32, np.uint8)], ids=type
)
def test_keys_of_another_type_are_refused(bad) -> None:
    with pytest.raises(DTypeError, match=f"bytes, not {type(bad).__name__}$"):
        Key.from_bytes(bad)


def test_no_text_of_a_key_shows_its_secret() -> None:
    """repr, str and format show a fingerprint and the label, not four bytes of a secret."""
    key = master()
    derived = key.derive("2026 visits/count")
    fixed = fixed_key(7)
    texts = [f"{x!r} {x!s} {x}" for x in (key, derived, fixed, fixed.derive("x"))]
    assert "2026 visits/count" in texts[1]
    assert key.fingerprint in texts[0]
    assert derived.fingerprint in texts[1]
    assert all("INSECURE" in text for text in texts[2:])
    for holder, text in itertools.product((key, derived, fixed, fixed.derive("x")), texts):
        secret = holder._secret
        assert not any(secret[i : i + 4].hex() in text.lower() for i in range(29))
        assert repr(secret)[2:10] not in text
    with pytest.raises(TypeError):
        bytes(derived)  # only a master key is kept as bytes


def test_the_fingerprint_is_no_part_of_the_secret() -> None:
    """Eight hexadecimal digits of a keyed hash: they tell keys apart and nothing else."""
    prints = {Key.generate().fingerprint for _ in range(20)}
    assert len(prints) == 20
    assert all(len(print_) == 8 for print_ in prints)
    assert master().fingerprint == master().fingerprint
    assert master().derive("x").fingerprint != master().fingerprint


def test_keys_compare_and_hash() -> None:
    """By kind and secret; a fixed key is never equal to a real one of the same bytes."""
    assert master() == master()
    assert hash(master()) == hash(master())
    assert master() != Key.from_bytes(bytes(32))
    assert master().derive("a") == master().derive("a")
    assert master().derive("a") != master().derive("b")
    assert master() != FixedKey(SECRET)
    assert FixedKey(SECRET).derive("a") != master().derive("a")
    assert master() != SECRET
    assert len({master(), master(), master().derive("a"), master().derive("a"), FixedKey(SECRET)}) == 3


@pytest.mark.parametrize("key", [Key.generate(), fixed_key(1)], ids=lambda key: type(key).__name__)
def test_a_master_key_does_not_pickle(key) -> None:
    """Nor does it copy: the message tells what to do instead."""
    tries: list[Callable[[], object]] = [
        *(lambda protocol=protocol: pickle.dumps(key, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
        lambda: copy.copy(key),
        lambda: copy.deepcopy(key),
    ]
    for attempt in tries:
        with pytest.raises(TypeError, match="derive a release key"):
            attempt()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.filterwarnings("ignore::dpfast.InsecureKeyWarning")
def test_release_keys_pickle_without_their_record(protocol) -> None:
    """The copy is the same key with its noise, label and kind, and its own record."""
    for key in (master().derive("x"), fixed_key(3).derive("x")):
        counts = np.zeros(50, np.int64)
        first = MECH.release(counts, key=key, start=0)
        again = pickle.loads(pickle.dumps(key, protocol))
        assert again == key
        assert (again.label, again.secure, type(again)) == (key.label, key.secure, type(key))
        assert np.array_equal(MECH.release(counts, key=again, start=0), first)
        other = pickle.loads(pickle.dumps(key, protocol))
        MECH.release(counts + 1, key=other, start=0)  # this object has not seen the first part
        with pytest.raises(KeyReuseError):
            MECH.release(counts + 1, key=key, start=0)


@pytest.mark.parametrize("bad", ["", None, 7, b"x", ["x"], "\ud800"], ids=repr)
def test_labels_are_text(bad) -> None:
    for key in (master(), fixed_key(1)):
        with pytest.raises(ParameterError, match="^label must be"):
            key.derive(bad)


def test_each_label_is_another_key() -> None:
    """Near labels too; nothing is trimmed, folded or normalised."""
    labels = ["a", "b", "A", "a ", " a", "aa", "a\0", "é", "e\u0301", "a" * 10**5, "visits/count", "visits", "\N{SNOWMAN}"]  # fmt: skip
    keys = [master().derive(label) for label in labels]
    assert len(set(keys)) == len({key._secret for key in keys}) == len(labels)
    assert [key.label for key in keys] == labels
    assert all(type(key) is ReleaseKey for key in keys)
    assert master().derive("a")._secret != SECRET


def test_fixed_keys_are_loud_types_of_their_own() -> None:
    """Reproducible by number, insecure by name, never what Key gives."""
    assert fixed_key(7) == fixed_key(7)
    assert fixed_key(7) != fixed_key(8)
    assert type(fixed_key(7)) is FixedKey
    assert type(fixed_key(7).derive("x")) is FixedReleaseKey
    assert not fixed_key(7).derive("x").secure
    assert master().derive("x").secure
    assert fixed_key(-(10**30)) != fixed_key(10**30)
    for bad in ("7", 7.0, None, True):
        with pytest.raises(DTypeError, match="^number must be an int"):
            fixed_key(bad)
    assert bytes(fixed_key(7)).hex() == "e05f6663bb6309d50c8339776e4a58e9a1c8b132dbb8b42c987b43eacc00b62f"


def test_a_key_without_entropy_is_an_error(monkeypatch) -> None:

    def refuse(n: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr("secrets.token_bytes", refuse)
    with pytest.raises(EntropyError, match="gave no random key") as caught:
        Key.generate()
    assert isinstance(caught.value, OSError)


# ------------------------------------------------------------------ what the noise depends on


def test_a_retried_part_gets_equal_noise() -> None:
    """By the same key object and by another, and whatever does not change the input or the law."""
    counts = np.arange(5000)
    key = master().derive("x")
    first = MECH.release(counts, key=key, start=10)
    for _ in range(3):
        assert np.array_equal(MECH.release(counts, key=key, start=10), first)
    assert np.array_equal(release(counts, start=10), first)
    for options in ({"threads": 2}, {"constant_time": True}, {"out": np.zeros(5000, np.int64)}, {"dtype": np.int32}):
        assert np.array_equal(MECH.release(counts, key=key, start=10, **options), first)
    bounded = MECH.release(counts, key=key, start=np.int64(10), lower=-5, upper=10**6)
    assert np.array_equal(bounded, np.clip(first, -5, 10**6))
    assert np.array_equal(release(counts.astype(np.uint16), start=10), first)
    household = DiscreteLaplace(1.0, Fraction(10**6), unit="household")
    assert np.array_equal(release(counts, start=10, mech=household), first)


@pytest.mark.parametrize("n", [40, 5000])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_one_changed_count_changes_all_the_noise(n, where) -> None:
    """Two releases of neighbouring inputs never differ by the counts alone: not in one cell."""
    counts = np.arange(n)
    changed = counts.copy()
    changed[{"first": 0, "middle": n // 2, "last": n - 1}[where]] += 1
    assert independent(release(counts) - counts, release(changed) - changed)


def test_anything_else_that_differs_gives_independent_noise() -> None:
    """Epsilon, sensitivity (at equal scale, too), label, start, master key, shape, sign, cut."""
    counts = np.zeros(600, np.int64)
    base = release(counts)
    negative, unsigned = np.full(600, -1), np.full(600, 2**64 - 1, np.uint64)
    others = {
        "epsilon and sensitivity": release(counts, mech=DiscreteLaplace(2, 2 * 10**6)),
        "epsilon": release(counts, mech=DiscreteLaplace(Fraction(10**9 + 1, 10**9), 10**6)),
        "sensitivity": release(counts, mech=DiscreteLaplace(1, 10**6 + 1)),
        "label": release(counts, label="y"),
        "start": release(counts, start=1),
        "start, far": release(counts, start=600),
        "start, a group on": release(counts, start=512),
        "master": MECH.release(counts, key=Key.generate().derive("x"), start=0),
        "shape": release(counts.reshape(20, 30)),
        "another shape": release(counts.reshape(30, 20)),
        "an axis more": release(counts.reshape(600, 1)),
        "one cell more": release(np.zeros(601, np.int64)),
        "half": release(counts[:300]),
        "other half": release(counts[300:], start=300),
        "fixed": fixed_release(counts),
        "negative": release(negative) - negative,
        "unsigned": (release(unsigned, dtype=np.uint64) - unsigned).astype(np.int64),
        "without a key": MECH.release(counts),
    }
    saturated = others.pop("unsigned")
    others["unsigned"] = saturated[saturated < 0]
    for (name, one), (other_name, other) in itertools.combinations([("base", base), *others.items()], 2):
        assert independent(one, other), (name, other_name)


def fixed_release(counts: np.ndarray) -> np.ndarray:
    with pytest.warns(InsecureKeyWarning):
        return MECH.release(counts, key=fixed_key(7).derive("x"), start=0)


def test_parts_of_one_release_are_independent() -> None:
    """Equal counts in consecutive parts: no part repeats or continues another's noise."""
    key = master().derive("x")
    parts = [MECH.release(np.zeros(500, np.int64), key=key, start=500 * i) for i in range(8)]
    for one, other in itertools.combinations(parts, 2):
        assert independent(one, other)
    correlations = np.corrcoef(np.array(parts, float)) - np.eye(8)
    assert np.abs(correlations).max() < 0.4  # 28 pairs; nine standard deviations


def test_equal_parts_are_equal_across_processes() -> None:
    """A worker elsewhere that got the pickled key, or the bytes of the master, draws the same."""
    counts = np.arange(5000)
    expected = hashlib.sha256(release(counts, start=2**40).tobytes()).hexdigest()
    output = python(
        """
        import hashlib, pickle, sys
        import numpy as np
        import dpfast
        mech = dpfast.DiscreteLaplace(1, 10**6)
        keys = [pickle.loads(bytes.fromhex(sys.argv[1])), dpfast.Key.from_bytes(bytes.fromhex(sys.argv[2])).derive("x")]
        for key in keys:
            noisy = mech.release(np.arange(5000, dtype=">i4"), key=key, start=2**40, threads=2)
            print(hashlib.sha256(noisy.tobytes()).hexdigest())
        """,
        pickle.dumps(master().derive("x")).hex(),
        SECRET.hex(),
        PYTHONHASHSEED="12345",
    )
    assert output.split() == [expected, expected]


# ------------------------------------------------------------------ start


def test_start_must_stand_beside_a_key() -> None:
    """No default, for a second part at start 0 would repeat the first's numbers."""
    with pytest.raises(ParameterError, match="^start must be given beside a key"):
        MECH.release([1], key=master().derive("x"))
    with pytest.raises(ParameterError, match="^start is for parts .*there is no key, got start=0$"):
        MECH.release([1], start=0)


@pytest.mark.parametrize("bad", [1.0, "0", True, Fraction(1), np.float64(0), [0]], ids=repr)
def test_start_is_an_integer(bad) -> None:
    with pytest.raises(DTypeError, match="^start must be an int"):
        MECH.release([1], key=master().derive("x"), start=bad)


def test_start_and_size_stay_within_the_stream() -> None:
    """From 0 to 2^63 less the size; the last draws of all can be had, large scales and small."""
    for bad, n in ((-1, 3), (2**63 - 2, 3), (2**63, 1), (2**63 + 1, 0), (2**64, 1), (10**30, 1), (2**63 - 4999, 5000)):
        with pytest.raises(ParameterError, match=r"^start must .*(2\*\*63|0).*, got"):
            MECH.release(np.zeros(n, np.int64), key=master().derive("x"), start=bad)
    for scale, n in itertools.product((10, 10**5, 10**12, 2**60), (3, 5000)):
        mech = DiscreteLaplace(1, scale)
        counts = np.zeros(n, np.int64)
        last = release(counts, start=2**63 - n, mech=mech)
        assert np.array_equal(last, release(counts, start=2**63 - n, mech=mech, constant_time=True))
        assert len(np.unique(last)) > 1
    assert release(np.zeros(0, np.int64), start=2**63).shape == (0,)


@pytest.mark.parametrize(
    "bad", [SECRET, "x", 7, Key.from_bytes(SECRET), fixed_key(1), ReleaseKey], ids=lambda bad: type(bad).__name__
)
def test_only_release_keys_key_a_release(bad) -> None:
    """A master key, bytes or text are refused, with a hint and without being shown."""
    with pytest.raises(DTypeError, match=r"^key must be a release key, such as Key\.generate\(\)\.derive") as caught:
        MECH.release([1], key=bad, start=0)
    assert SECRET.hex()[:8] not in str(caught.value)


# ------------------------------------------------------------------ reuse


def test_overlapping_parts_are_refused() -> None:
    """Any overlap but one release of one part; label and range are named; out is untouched."""
    counts = np.full(100, 91)
    overlaps = [
        (counts + 1, 1000, MECH),  # the same range, another input
        (counts, 1000, DiscreteLaplace(1, 7)),  # another law
        (counts, 1001, MECH),
        (counts, 999, MECH),
        (counts, 1099, MECH),
        (counts, 901, MECH),
        (counts[:10], 1050, MECH),  # inside
        (counts[:1], 1099, MECH),
        (np.zeros(300, np.int64), 900, MECH),  # around
        (counts.reshape(10, 10), 1000, MECH),
    ]
    for other, start, mech in overlaps:
        key = master().derive("visits")
        MECH.release(counts, key=key, start=1000)
        out = np.full(other.shape, 77)
        with pytest.raises(KeyReuseError, match=f"'visits'.* {start} to {start + other.size} ") as caught:
            mech.release(other, key=key, start=start, out=out)
        assert (out == 77).all()
        assert "91" not in str(caught.value)
        assert SECRET.hex()[:8] not in str(caught.value)
        MECH.release(counts, key=key, start=1000)  # the retry is still welcome


def test_parts_that_touch_are_no_overlap() -> None:
    """In any order, with empty parts anywhere, in place, and retried."""
    key = master().derive("x")
    counts = np.zeros(100, np.int64)
    for start in (300, 100, 0, 400, 200, 100, 0):
        MECH.release(counts, key=key, start=start)
    for start in (0, 50, 100, 250, 500):
        assert MECH.release(counts[:0], key=key, start=start).size == 0
    assert len(key._parts) == 5
    with pytest.raises(KeyReuseError):
        MECH.release(np.zeros(501, np.int64), key=key, start=0)
    MECH.release(np.zeros(10, np.int64), key=key, start=500)


def test_a_part_that_was_released_in_place_is_not_released_again() -> None:
    """Its counts are gone: what stands there now is another input."""
    key = master().derive("x")
    counts = np.zeros(100, np.int64)
    MECH.release(counts, key=key, start=0, out=counts)
    with pytest.raises(KeyReuseError):
        MECH.release(counts, key=key, start=0, out=counts)


def test_records_belong_to_one_key_object() -> None:
    """Labels and objects have records of their own, as documented."""
    one, other = master().derive("a"), master().derive("b")
    MECH.release([1], key=one, start=0)
    MECH.release([2], key=other, start=0)
    MECH.release([2], key=master().derive("a"), start=0)
    with pytest.raises(KeyReuseError):
        MECH.release([2], key=one, start=0)


@given(parts=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 2)), max_size=25))
@settings(max_examples=300, deadline=None)
def test_the_record_against_a_plain_list(parts) -> None:
    """Random parts: accepted iff empty, known, or apart from all accepted before."""
    key = master().derive("x")
    accepted: list[tuple[int, int, bytes]] = []
    for begin, size, content in parts:
        part = (begin, begin + size, bytes([content]) * 32)
        fits = size == 0 or part in accepted or all(part[1] <= b or e <= part[0] for b, e, _ in accepted)
        if fits:
            key._record(*part)
            if size and part not in accepted:
                accepted.append(part)
        else:
            with pytest.raises(KeyReuseError):
                key._record(*part)
        assert sorted(accepted) == key._parts


def test_the_record_survives_threads() -> None:
    """Threads release inputs into one range: exactly one is accepted; into separate ranges, all."""
    key = master().derive("x")
    barrier = threading.Barrier(8)

    def work(number: int) -> int:
        barrier.wait(30)
        refused = 0
        for i in range(60):
            MECH.release([number, i], key=key, start=10**6 + 2 * (60 * number + i))
            try:
                MECH.release([number], key=key, start=i)
            except KeyReuseError:
                refused += 1
        return refused

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 7 * 60
    assert len(key._parts) == 9 * 60
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(key._parts))


# --------------------------------------------------------------- warnings and records of insecurity


def test_every_release_under_a_fixed_key_warns() -> None:
    """Each of them, at the caller's own line, small or large; no other release does."""
    key = fixed_key(7).derive("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i, n in enumerate((1, 3, 5000)):
            MECH.release(np.zeros(n, np.int64), key=key, start=10**5 * i)
            MECH.release(np.zeros(n, np.int64), key=key, start=10**5 * i)
            dpfast.Laplace(1, 1).release(np.zeros(n), key=fixed_key(7).derive("y"), start=0)
            MECH.release(np.zeros(n, np.int64), key=master().derive("x"), start=0)
            MECH.release(np.zeros(n, np.int64))
    assert [(w.category, w.filename) for w in caught] == [(InsecureKeyWarning, __file__)] * 9
    assert issubclass(InsecureKeyWarning, UserWarning)


def test_where_the_warning_is_an_error_nothing_is_released() -> None:
    out = np.full(3, 77)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InsecureKeyWarning):
            MECH.release([1, 2, 3], key=fixed_key(7).derive("x"), start=0, out=out)
    assert out.tolist() == [77, 77, 77]


# ---------------------------------------------------------------- the encoding and the hash, pinned

fields = st.lists(st.binary(max_size=6) | st.text(max_size=6) | st.integers(), max_size=6)
alike = ["", "1", "11", b"1", b"", 1, 11, "\0" * 8, b"\1" + b"\0" * 7, encode("1")]
near = st.lists(st.sampled_from(alike), max_size=4)


@given(fields | near, fields | near)
@settings(max_examples=500, deadline=None)
def test_the_encoding_is_injective(one, other) -> None:
    """Two lists of fields meet only if they are the same text, field for field."""

    def canonical(values: list[bytes | str | int]) -> list[bytes]:
        return [value if isinstance(value, bytes) else str(value).encode() for value in values]

    assert (encode(*one) == encode(*other)) == (canonical(one) == canonical(other))


@given(fields)
@settings(max_examples=300, deadline=None)
def test_the_encoding_can_be_read_back(values) -> None:
    """Length, eight bytes little-endian, then the field: nothing depends on what is in it."""
    data, found = encode(*values), []
    while data:
        size = int.from_bytes(data[:8], "little")
        found.append(data[8 : 8 + size])
        data = data[8 + size :]
    assert found == [value if isinstance(value, bytes) else str(value).encode() for value in values]


def expected_stream_key(
    secret: bytes, label: str, law: list[str], shape: list[int], start: int, values: list[int]
) -> bytes:
    """A part's stream key from the description alone: design section 4, dpfast/release/key.py."""

    def hashed(key: bytes, purpose: bytes, data: bytes = b"") -> bytes:
        return hashlib.blake2b(data, key=key, digest_size=32, person=purpose).digest()

    def written(*texts: bytes) -> bytes:
        return b"".join(len(text).to_bytes(8, "little") + text for text in texts)

    release_key = hashed(secret, b"release key", label.encode())
    unsigned = any(value >= 2**63 for value in values)
    header = written(*(str(number).encode() for number in (int(unsigned), start, *shape)))
    body = b"".join((value % 2**64).to_bytes(8, "little") for value in values)
    digest = blake3(header + body, key=hashed(release_key, b"part digest")).digest()
    return hashed(release_key, b"stream key", written(b"1", label.encode(), *(text.encode() for text in law), digest))


CASES = {
    "plain": ("visits/count", DiscreteLaplace(1, 10), np.arange(6).reshape(2, 3), 0),
    "fractions": ("é", DiscreteLaplace(0.1, Fraction(1, 3)), np.array([-1, 2**63 - 1, -(2**63)]), 2**62),
    "unsigned": ("u", DiscreteLaplace(3, 2), np.array([2**64 - 1, 0], np.uint64), 7),
    "scalar": ("0-d", DiscreteLaplace(1, 1), np.array(-5, np.int8), 1),
    "empty": ("none", DiscreteLaplace(1, 1), np.zeros((0, 4), np.int16), 5),
}
GOLDEN = {
    "plain": "ff37413d8b226cd246436db332f2967fcbf04ed3afec404d690bd8fb14c4e5f2",
    "fractions": "5efa0b368ba3e2e1e6b03d1237a1366ffa3e600e3c226c16b5939c33a9eb4635",
    "unsigned": "4a69e219e00abb11feaeb694cbfa573bd5e7fdc6fafd6565397e11f4e03cfc71",
    "scalar": "6feca2a187debbe61d942cdc953336c66f9ef89cbf1afd0f30c84c2f039f6223",
    "empty": "09743dfb0e9837ec3bfc8de474425940fc0ccea5ba636b2d343603466302180f",
}


@pytest.mark.parametrize("case", CASES)
def test_golden_stream_keys(case, monkeypatch) -> None:
    """Stream version 1, pinned: the key that reaches the cipher, by the description and as ever."""
    label, mech, counts, start = CASES[case]
    key = master().derive(label)
    seen = []
    real = ReleaseKey.stream_key

    def spy(self: ReleaseKey, *arguments: object) -> bytes:
        seen.append(real(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(ReleaseKey, "stream_key", spy)
    mech.release(counts, key=key, start=start)
    e, s = mech.epsilon, mech.sensitivity
    law = ["discrete_laplace", *(str(number) for number in (e.numerator, e.denominator, s.numerator, s.denominator))]
    assert seen == [expected_stream_key(SECRET, label, law, list(counts.shape), start, counts.reshape(-1).tolist())]
    assert seen[0].hex() == GOLDEN[case]


def test_the_digest_does_not_depend_on_threads_or_pieces(monkeypatch) -> None:
    """One hash of one stream of bytes, however it is fed."""
    data = np.arange(3 * 2**18)

    def digest(threads: int, *cuts: int) -> bytes:
        runs = [data[begin:end].data.cast("B") for begin, end in itertools.pairwise([0, *cuts, data.size])]
        monkeypatch.setattr("dpfast.release.key.plain_runs", lambda _: iter(runs))
        return master().derive("x").part(1, ["law"], data, 0, threads=threads).stream

    assert len({digest(1), digest(2), digest(2, 1, 1000, 2**17 + 3), digest(1, 8, 8, 9)}) == 1
    assert digest(1, 8) != digest(1, 8, 8, 8, 7)  # a planted defect: some bytes twice


def test_no_raw_key_reaches_the_cipher() -> None:
    """The stream key is neither the master's nor the release key's secret, nor tells them."""
    assert dpfast._native.STREAM_VERSION == 1
    law = ["discrete_laplace", "1", "1", "1", "1"]
    stream = expected_stream_key(SECRET, "x", law, [1], 0, [0])
    assert len({stream, SECRET, master().derive("x")._secret}) == 3
