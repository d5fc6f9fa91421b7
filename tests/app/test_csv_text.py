# SPDX-License-Identifier: Apache-2.0
"""CSV: the chosen fields change, all else stays byte for byte, RFC 4180 is enforced."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from table_files import csv_file

from dpfast.app.tables import csv_text
from dpfast.errors import FileError, UnusableValuesError

SECRET = "918273645"  # a count that no message may quote
BAD_COUNTS = [
    "",
    "1.5",
    ".",
    "1.000",
    "1e3",
    "0x1f",
    "1_000",
    "1 000",
    "\uff11\uff12",
    "-",
    "--1",
    "+-1",
    "NA",
    "null",
    "1\n",
]


def rewritten(
    path: Path, columns: Sequence[str], change: Callable[[np.ndarray], np.ndarray] = lambda counts: counts
) -> bytes:
    """Return what becomes of a file when every count of these columns goes through `change`."""
    text = csv_text.CsvText(path)
    places = sorted(map(text.names.index, columns))
    blocks = [records.spliced(places, [change(records.counts(p)) for p in places]) for records in text.records()]
    return text.mark + text.header + b"".join(blocks)


texts = st.lists(st.sampled_from(["a", '"', "\n", "\r\n", ",", " ", "é", "0"])).map("".join)


@given(
    rows=st.lists(st.tuples(texts, st.integers(-99, 99), st.text("x,\n"))),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(1, 60),
    last_end=st.booleans(),
    mark=st.booleans(),
)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@pytest.mark.slow
def test_unchanged_counts_give_the_same_bytes(tmp_path, monkeypatch, rows, quoting, end, block, last_end, mark) -> None:
    """Any quoting, line ends and blocks, but for quotes round a count; Python's reader agrees."""
    written = io.StringIO(newline="")
    csv.writer(written, quoting=quoting, lineterminator=end).writerows([("a", "count", "z"), *rows])
    content = written.getvalue() if last_end else written.getvalue().removesuffix(end)
    source = csv_file(tmp_path, ("\ufeff" if mark else "") + content)
    monkeypatch.setattr(csv_text, "BLOCK", block)
    assert re.sub(rb',"(-?\d+)",', rb",\1,", source.read_bytes()) == rewritten(source, ["count"])
    blocks = list(csv_text.CsvText(source).records())
    columns = [[field for b in blocks for field in b.columns[place].to_pylist()] for place in range(3)]
    assert [(a, str(count), z) for a, count, z in rows] == list(zip(*columns, strict=True))
    assert [row[1] for row in rows] == [count for b in blocks for count in b.counts(1).tolist()]


def test_the_chosen_fields_alone_change(tmp_path) -> None:
    """Two columns, one of them quoted before; the rest stays, byte for byte, UTF-8 or not."""
    source = csv_file(tmp_path, b'b,id,"a"\r\n1,007,"10"\r\n-2,"x ""y"", \xff",20\r\n3,1.10,-0')
    expected = b'b,id,"a"\r\n100,007,1000\r\n-200,"x ""y"", \xff",2000\r\n300,1.10,0'
    assert expected == rewritten(source, ["a", "b"], lambda counts: counts * 100)


def test_counts_reach_the_ends_of_both_64_bit_types(tmp_path) -> None:
    source = csv_file(tmp_path, f"n,u\n{-(2**63)},{2**64 - 1}\n{2**63 - 1},0\n")
    (records,) = csv_text.CsvText(source).records()
    assert [records.counts(place).tolist() for place in (0, 1)] == [[-(2**63), 2**63 - 1], [2**64 - 1, 0]]


@pytest.mark.parametrize("bad", [*BAD_COUNTS, SECRET + ".5", str(2**64), str(-(2**63) - 1)])
def test_what_is_no_plain_integer_is_refused(tmp_path, bad) -> None:
    """The message names file and column, and neither the value nor the row."""
    source = csv_file(tmp_path, f'count,x\n{SECRET},1\n"{bad}",2\n')
    with pytest.raises(UnusableValuesError, match=r"column 'count' of .*in\.csv must contain") as caught:
        rewritten(source, ["count"])
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (f"a,count\nx,{SECRET}\ny\n", "as many fields"),
        (f"a,count\nx,{SECRET},1\n", "as many fields"),
        (f"a,count\nx,{SECRET}\n\n", r"as many fields in every row as in its header \(2\), and no blank line$"),
        (f"a,count\nx\ny,{SECRET},1\n", "as many fields"),  # as many in both rows
        (f'a,count\nx,{SECRET}\n"y,2\n', "quoted field"),
        (f'a,count\n5" pipe,{SECRET}\n6" pipe,{SECRET}\n', "RFC 4180"),  # or the first count would stay as it is
        (f'a,count\n"x"y,{SECRET}\n', "RFC 4180"),
        (f"a,count\rx,{SECRET}\r", "RFC 4180"),
        (f"a,count\nx,1\ry,{SECRET}\n", "RFC 4180"),
    ],
)
def test_another_structure_is_refused(tmp_path, text, message) -> None:
    """By a message without a field of it."""
    source = csv_file(tmp_path, text)
    with pytest.raises((FileError, UnusableValuesError), match=message) as caught:
        rewritten(source, ["count"])
    assert SECRET not in str(caught.value)


def test_an_unclosed_quote_does_not_fill_the_memory(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(csv_text, "BLOCK", 100)
    monkeypatch.setattr(csv_text, "LONGEST_RECORD", 1000)
    source = csv_file(tmp_path, 'a\n"' + "1\n" * 5000)
    with pytest.raises(UnusableValuesError, match="unclosed quote"):
        rewritten(source, ["a"])


def test_columns_are_strings_without_their_quotes(tmp_path) -> None:
    """As RFC 4180 has them."""
    (records,) = csv_text.CsvText(csv_file(tmp_path, 'id,note\r\n007,"say ""hi"""\r\n"",\r\n')).records()
    assert [column.to_pylist() for column in records.columns] == [["007", ""], ['say "hi"', ""]]


def test_columns_that_are_not_utf8_are_no_strings(tmp_path) -> None:
    """The column is named by its number."""
    (records,) = csv_text.CsvText(csv_file(tmp_path, b"id,count\n\xff,5\n")).records()
    with pytest.raises(FileError, match=r"column 1 .*UTF-8"):
        _ = records.columns


# real values


@given(st.lists(st.floats(allow_nan=False), min_size=1))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_reals_come_out_as_repr_and_read_back(tmp_path, values) -> None:
    """From text to doubles as `float` does it, and back to the shortest text of the same double."""
    lines = "".join(f"{value!r}\n" for value in values)
    source = csv_file(tmp_path, "x\n" + lines)
    (records,) = csv_text.CsvText(source).records()
    read = records.reals(0)
    finite = [np.float64(value if np.isfinite(value) else np.nan) for value in values]
    assert np.array_equal(np.array(finite).view("i8"), np.where(np.isnan(read), np.nan, read).view("i8"))
    assert records.spliced([0], [np.array(values)]).decode() == lines


@given(st.from_regex(r"-?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@example("1e999")
@example("-1e-999")
@example("2.4703282292062328e-324")
@example("9007199254740993")
@example("179769313486231580793" + "0" * 288)
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@pytest.mark.slow
def test_a_decimal_is_what_float_says(tmp_path, text) -> None:
    """To the bit, at the ends of the doubles too."""
    (records,) = csv_text.CsvText(csv_file(tmp_path, f"x\n{text}\n")).records()
    assert records.reals(0).tobytes() == np.float64(text).tobytes()


@pytest.mark.parametrize("text", ["", "nan", "NaN", "inf", "-Infinity", "INF"])
def test_absent_reals_are_nan(tmp_path, text) -> None:
    (records,) = csv_text.CsvText(csv_file(tmp_path, f'x,y\n{text},1\n"{text}",1\n')).records()
    assert np.isnan(records.reals(0)).tolist() == [True, True]


@pytest.mark.parametrize("bad", ["1_0", "0x1p3", "1,5", ".", "e5", "1e", "--1", "+-1", "n", "1\n"])
def test_what_is_no_decimal_is_refused(tmp_path, bad) -> None:
    """By column and file, without value, row or context."""
    source = csv_file(tmp_path, f'x,y\n{SECRET}.5,1\n"{bad}",2\n')
    (records,) = csv_text.CsvText(source).records()
    with pytest.raises(UnusableValuesError, match=r"column 'x' of .*in\.csv must contain decimal numbers") as caught:
        records.reals(0)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
