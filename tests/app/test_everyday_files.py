# SPDX-License-Identifier: Apache-2.0
"""Files as people have them: how texts are read, by rules that Python's own readers confirm."""

from __future__ import annotations

import csv
import decimal
import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fresh import without
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dpfast
from dpfast.app.cli import main
from dpfast.app.tables import csv_text, files, numbers
from dpfast.app.tables.text_format import TextFormat
from dpfast.errors import FileError, ParameterError, UnusableValuesError

SECRET = "918273645"  # a count that no message may quote
LAW = ["--column", "n", "--epsilon", "1", "--sensitivity", "1", "--quiet"]
NEARLY = ["--column", "n", "--epsilon", "2**59", "--sensitivity", "1", "--quiet"]  # noise is 0, but for 1 in 10**100
PLAIN = "city,n\nOslo,10\nLima,20\n"
FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def read(text: str | bytes, folder: Path, column: str = "n", *, real: bool = False, **options: object) -> list[object]:
    """The cells of a column of a CSV of this text."""
    path = folder / "in.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    missing = options.pop("missing", None)
    source = files.open_source(path, [column], real=real, missing=missing, style=TextFormat(**options))
    return [cell for piece in source.pieces() for cell in piece.counts[0].tolist()]


def refused(capsys: pytest.CaptureFixture[str], code: int, match: str, *, expected: int | None = None) -> None:
    """One line, and no cell of the input."""
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if line and not line.startswith(("Usage:", "Try ", "Warning: epsilon"))]
    assert len(lines) == 1, said
    assert re.search(match, lines[0]), said
    assert code == expected if expected else code in {1, 2}
    assert SECRET not in said


# ------------------------------------------------------------------ the rules of numbers


def as_a_count(text: str, point: str, thousands: str | None, missing: int | None) -> int | None:
    """A reading of the rules by itself, with decimals; None where a rule refuses the text."""
    spaces = " \t\u00a0\u202f"
    text = text.strip(spaces)
    if text.lower() in {"", "nan", "na", "n/a", "#n/a", "<na>", "null", "none"}:
        return missing
    if any(letter.isdigit() and letter not in "0123456789" for letter in text) or "_" in text.replace(
        thousands or "", ""
    ):
        return None
    head, _, tail = text.partition(point)
    digits = head.lstrip("+-") if len(head) - len(head.lstrip("+-")) < 2 else ""
    if thousands is not None:
        for space in spaces[1:] if thousands in spaces else ():
            digits = digits.replace(space, " ") if space != "\t" else digits
        mark = " " if thousands in spaces else thousands
        groups = digits.split(mark)
        if len(groups) > 1 and (not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:])):
            return None
        digits = "".join(groups)
    if not digits or set(digits) - set("0123456789") or set(tail) - {"0"}:
        return None
    return int(Decimal(("-" if head.startswith("-") else "") + digits))


LETTERS = st.sampled_from(list("0123456789") * 2 + list("+-.,'’_ \u00a0\t") + ["e", "\uff11", "NA", "000", "123"])
NUMBERS = st.one_of(
    st.lists(LETTERS, max_size=8).map("".join),
    st.integers(-(10**12), 10**12).map(str),
    st.integers(-(10**12), 10**12).map("{:,}".format),
    st.integers(-(10**12), 10**12).map("{:_}".format),
    st.tuples(
        st.sampled_from(["+", " ", "-", ""]), st.integers(0, 10**9), st.sampled_from([".0", ",0", ".", ",", ".5", ""])
    ).map(lambda parts: "".join(map(str, parts))),
)


@given(
    NUMBERS,
    st.sampled_from([".", ","]),
    st.sampled_from([None, ",", ".", "'", "_", " "]),
    st.sampled_from([None, 0, 7]),
)
@example("12.000", ".", None, None)
@example("1.234", ",", ".", None)
@example("1\u00a0234", ".", " ", None)
@FUZZ
def test_a_count_is_what_another_reading_of_the_rules_gives(text, point, thousands, missing) -> None:
    if thousands == point:
        thousands = None
    expected = as_a_count(text, point, thousands, missing)
    style = TextFormat(",", decimal=point, thousands=thousands)
    try:
        (found,) = numbers.counts(pa.array([text.encode()], pa.binary()), "column 'n'", style, missing).tolist()
    except UnusableValuesError:
        found = None
    assert found == (expected if expected is None or abs(expected) < 2**63 else None)


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
    st.sampled_from([".", ","]),
)
@FUZZ
def test_a_real_value_is_what_python_reads_of_it(value, point) -> None:
    """With a plus, spaces, thousands and either decimal sign."""
    text = f" {value:+,.3f} "
    other = "." if point == "," else ","
    text = text.translate({ord(","): other, ord("."): point})
    style = TextFormat(",", decimal=point, thousands=other)
    (found,) = numbers.reals(pa.array([text.encode()], pa.binary()), "column 'x'", style).tolist()
    assert found == float(value)


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**15), max_value=10**15), min_size=1
    )
)
@FUZZ
def test_decimals_are_counts_if_nothing_is_behind_the_point(values) -> None:
    with decimal.localcontext(prec=60):
        whole = all(value == value.to_integral_value() for value in values)
    column = pa.array(values, pa.decimal128(38, 2))
    if whole:
        assert numbers.of_decimals(column, "n").to_pylist() == [int(value) for value in values]
    else:
        with pytest.raises(UnusableValuesError, match="after the decimal point"):
            numbers.of_decimals(column, "n")


RULES = [  # a cell, the message, the options that the message names and that then read the cell, the count
    ("", "an empty cell", {"missing": 5}, 5),
    (" NA ", "an empty cell", {"missing": 5}, 5),
    ("nan", "an empty cell", {"missing": 5}, 5),
    ('"12,345"', "--thousands ','", {"thousands": ","}, 12345),
    ("12.000", "--thousands '.'", {"thousands": "."}, 12000),
    ("12.000", "--decimal '.'", {"decimal": "."}, 12),
    ("12 345", "--thousands ' '", {"thousands": " "}, 12345),
    ("12'345", '--thousands "\'"', {"thousands": "'"}, 12345),
    ('"12,0"', "--decimal ','", {"decimal": ","}, 12),
    ("1_000", "--thousands '_'", {"thousands": "_"}, 1000),
]


@pytest.mark.parametrize(("cell", "message", "options", "count"), RULES)
def test_a_message_names_the_rule_and_the_option_that_helps(tmp_path, cell, message, options, count) -> None:
    text = f"n,city\n{SECRET},a\n{cell},b\n"
    with pytest.raises(
        UnusableValuesError, match="column 'n' of .* must contain whole numbers, but contains "
    ) as caught:
        read(text, tmp_path)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert read(text, tmp_path, **options) == [int(SECRET), count]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1.5", "after the decimal point: for real values"),
        ("1e6", "exponent"),
        ("inf", "infinity"),
        ("x", "not a number by any rule"),
    ],
)
def test_what_no_option_reads_is_named(tmp_path, cell, message) -> None:
    with pytest.raises(UnusableValuesError, match=message):
        read(f"n\n{SECRET}\n{cell}\n", tmp_path)


@pytest.mark.parametrize("cell", ["12", "12.0", "12.", " 12", "12 ", "+12", "012", '"12"', "12.00", "+12.0000"])
def test_what_people_write_for_twelve_is_twelve(tmp_path, cell) -> None:
    assert read(f"n,x\n{cell},1\n", tmp_path) == [12]


# ------------------------------------------------------------------ the options of texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--delimiter", "ab"], "--delimiter must be one ASCII character"),
        (["--delimiter", "é"], "--delimiter must be one ASCII character"),
        (["--delimiter", '"'], "--delimiter must be one ASCII character"),
        (["--encoding", "base64"], "--encoding must be a text encoding"),
        (["--encoding", "no-such"], "--encoding must be a text encoding"),
        (["--decimal", ";"], "--decimal must be '.' or ','"),
        (["--thousands", "x"], "--thousands must be one of"),
        (["--thousands", ",", "--decimal", ","], "--thousands must be another character than --decimal"),
        (["--format", "csv"], "--format must be left out"),
        (["--dtype", "float32"], "--dtype must be an integer type"),
        (["--metadata", "m.json"], "--metadata must be left out"),
    ],
)
def test_options_that_say_nothing_good_are_refused_by_name(tmp_path, capsys, options, message) -> None:
    (tmp_path / "in.csv").write_text(PLAIN)
    code = main(["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *LAW, *options])
    refused(capsys, code, message, expected=2)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_one_count_and_one_field_are_not_many(tmp_path, capsys) -> None:
    (tmp_path / "in.csv").write_text("n\n7\n")
    assert main(["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *LAW[:-1]]) == 0
    assert capsys.readouterr().err.startswith("n: 1 count, ")
    rows = ["histogram", str(tmp_path / "in.csv"), str(tmp_path / "new.csv"), "--by", "m", "--unit", "n"]
    code = main([*rows, "--max-partitions", "1", "--domain", "7,8", "--epsilon", "1"])
    refused(capsys, code, "the header of .*in.csv has 1 field$")


@pytest.mark.parametrize(("mark", "option"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_a_header_of_another_delimiter_gives_a_hint(tmp_path, capsys, mark, option) -> None:
    (tmp_path / "in.csv").write_text(PLAIN.replace(",", mark))
    command = ["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *NEARLY]
    refused(capsys, main(command), f"looks like {re.escape(option)}-separated: add --delimiter {re.escape(option)}$")
    assert main([*command, "--delimiter", option.strip("'")]) == 0
    assert (tmp_path / "out.csv").read_text() == PLAIN.replace(",", mark)


ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "latin-1",
    "cp1252",
    "iso8859-15",
    "koi8-r",
    "shift_jis",
    "cp037",
]


@given(
    rows=st.lists(st.tuples(st.text('abzéßя日,;"\n ', max_size=6), st.integers(-999, 999)), max_size=6),
    encoding=st.sampled_from(ENCODINGS),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(4, 60),
)
@FUZZ
@pytest.mark.slow
def test_other_cells_pass_byte_for_byte_in_any_encoding(
    tmp_path, monkeypatch, rows, encoding, delimiter, end, block
) -> None:
    """And Python's csv module reads the same rows."""
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        [("city", "n"), *rows]
    )
    text = re.sub(rf'{re.escape(delimiter)}"(-?\d+)"({end})', rf"{delimiter}\1\2", written.getvalue())
    try:
        content = text.encode(encoding)
    except UnicodeEncodeError:
        return
    monkeypatch.setattr(csv_text, "BLOCK", block)
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    lines = csv_text.CsvText(path, TextFormat(delimiter, encoding))
    blocks = [lines.encoded(records.spliced([1], [records.counts(1)])) for records in lines.records()]
    assert lines.mark + lines.encoded(lines.header) + b"".join(blocks) == content
    found = [
        (city, int(n))
        for records in csv_text.CsvText(path, TextFormat(delimiter, encoding)).records()
        for city, n in zip(*(column.to_pylist() for column in records.columns), strict=True)
    ]
    assert found == [
        (city, int(n)) for city, n in list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))[1:]
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8"])
def test_the_mark_of_another_encoding_gives_the_hint(tmp_path, encoding) -> None:
    content = PLAIN.encode("utf-8-sig" if encoding == "utf-8" else encoding)
    with pytest.raises(FileError, match=f"begins with the byte order mark of {encoding}: add --encoding {encoding}$"):
        read(content, tmp_path, encoding="latin-1")
    assert read(content, tmp_path, encoding=encoding) == [10, 20]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("utf-16-le", PLAIN.encode("utf-16-le") + b"x"),
        ("utf-16", PLAIN.encode("utf-16-le")),
        ("cp1252", PLAIN.encode() + b"\x81,5\n"),
        ("iso2022_jp", PLAIN.encode() + b"\x1b$B\x1b(B,5\n"),
    ],
)
def test_an_encoding_that_does_not_fit_is_refused(tmp_path, encoding, content) -> None:
    """By the rule alone: where the bytes are depends on the data."""
    with pytest.raises((FileError, UnusableValuesError), match="--encoding must be|write it in utf-8 first") as caught:
        read(content, tmp_path, encoding=encoding)
    assert not re.search(r"byte 0x|position|Oslo", str(caught.value))


def test_noisy_reals_are_written_with_the_decimal_sign_of_the_file(tmp_path) -> None:
    for delimiter, cell in ((";", "1,5"), (",", '"1,5"')):
        path, out = tmp_path / "in.csv", tmp_path / "out.csv"
        path.write_text(f"x{delimiter}city\n{cell}{delimiter}a\n")
        options = [
            "--mechanism",
            "laplace",
            "--epsilon",
            "2**40",
            "--sensitivity",
            "1",
            "--granularity",
            "0.5",
            "--quiet",
            "--force",
        ]
        assert (
            main(
                [
                    "privatize",
                    str(path),
                    str(out),
                    "--column",
                    "x",
                    *options,
                    "--decimal",
                    ",",
                    "--delimiter",
                    delimiter,
                ]
            )
            == 0
        )
        assert out.read_text() == path.read_text()


# ------------------------------------------------------------------ files by name


def pack(path: Path, content: bytes) -> None:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content, mtime=0))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)


def unpacked(path: Path) -> bytes:
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    return pa.CompressedInputStream(str(path), codec).read() if codec else path.read_bytes()


@pytest.mark.parametrize(
    "into", ["out.csv", "out.csv.gz", "out.csv.zst", "out.tsv", "out.jsonl", "out.jsonl.gz", "out.parquet"]
)
@pytest.mark.parametrize(
    "name", ["in.csv", "in.csv.gz", "in.csv.zst", "in.tsv", "in.tsv.gz", "in.jsonl", "in.jsonl.zst"]
)
def test_any_text_becomes_any_other(tmp_path, name, into) -> None:
    texts = {
        "csv": PLAIN,
        "tsv": PLAIN.replace(",", "\t"),
        "jsonl": '{"city": "Oslo", "n": 10}\n{"city": "Lima", "n": 20}\n',
    }
    pack(tmp_path / name, texts[name.split(".")[1]].encode())
    assert main(["privatize", str(tmp_path / name), str(tmp_path / into), *NEARLY]) == 0
    out = tmp_path / into
    if into == "out.parquet":
        assert pq.read_table(out).to_pylist() == [{"city": "Oslo", "n": 10}, {"city": "Lima", "n": 20}]
        return
    kind, text = into.split(".")[1], unpacked(out).decode()
    assert text.replace('"', "") == texts[kind].replace('"', "")
    assert json.loads(out.with_name(f"{into}.json").read_text())["epsilon_total"] == str(2**59)


@pytest.mark.parametrize("cut", [1, 9, 2000])
@pytest.mark.parametrize("name", ["in.csv.gz", "in.csv.zst"])
def test_a_packed_file_cut_short_leaves_no_output_and_is_charged_at_most_once(tmp_path, capsys, name, cut) -> None:
    """Nothing is charged if the end is missed before the noise; else the message says what is."""
    rng = np.random.default_rng(1)
    pack(
        tmp_path / name,
        b"city,n\n" + b"".join(b"%d,%s\n" % (i, SECRET.encode()) for i in rng.integers(0, 2**60, 20_000)),
    )
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-cut])
    ledger = dpfast.Ledger(tmp_path / "budget.db", 10, create=True)
    code = main(["privatize", str(tmp_path / name), str(tmp_path / "out.csv"), *LAW, "--ledger", str(ledger.path)])
    refused(capsys, code, f"{name} is cut short: its end is missing", expected=1)
    assert {"budget.db", name} == {path.name for path in tmp_path.iterdir()} - {"budget.db.lock"}
    assert ledger.spent.epsilon in {0, 1}


def test_noise_that_was_drawn_stays_charged_and_the_message_says_so(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(csv_text, "BLOCK", 1000)
    (tmp_path / "in.csv").write_text("n\n" + f"{SECRET}\n" * 1000 + "x\n")
    ledger = dpfast.Ledger(tmp_path / "budget.db", 10, create=True)
    code = main(["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *LAW, "--ledger", str(ledger.path)])
    refused(
        capsys,
        code,
        "not a number by any rule .*; the charge in .* stays: without a key another try is another release",
        expected=4,
    )
    assert (ledger.spent.epsilon, (tmp_path / "out.csv").exists()) == (1, False)


@pytest.mark.parametrize("codec", ["gz", "zst"])
def test_a_packed_file_of_another_name_says_how_to_name_it(tmp_path, capsys, codec) -> None:
    pack(tmp_path / f"x.{codec}", PLAIN.encode())
    (tmp_path / f"x.{codec}").rename(tmp_path / "in.csv")
    code = main(["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *LAW])
    refused(capsys, code, rf"its name must end in \.{codec}, such as in\.csv\.{codec}", expected=1)


def test_a_file_that_changes_while_it_is_read_says_so_first(tmp_path, capsys, monkeypatch) -> None:
    """Before what else is wrong then: here, a record of too many fields."""
    path = tmp_path / "in.csv"
    path.write_text("n,city\n" + f"{SECRET},a\n" * 1000)
    monkeypatch.setattr(csv_text, "BLOCK", 1000)
    real = csv_text.Records.counts

    def changing(self, place, missing=None) -> np.ndarray:
        with path.open("a") as file:
            file.write("1,2,3\n")
        return real(self, place, missing)

    monkeypatch.setattr(csv_text.Records, "counts", changing)
    code = main(["privatize", str(path), str(tmp_path / "out.csv"), *LAW])
    refused(capsys, code, "in.csv has changed while it was read; OUT was not written", expected=1)
    assert [each.name for each in tmp_path.iterdir()] == ["in.csv"]


# ------------------------------------------------------------------ pipes


def piped(content: bytes, *options: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dpfast", "privatize", *options]
    return subprocess.run(command, input=content, capture_output=True, check=False, cwd=folder)


# The command line, whose standard input is a pipe that holds these bytes.
PIPED = """
    import os, sys
    read, write = os.pipe()
    os.write(write, bytes.fromhex(sys.argv.pop(1)))
    os.close(write)
    os.dup2(read, 0)
    sys.stdin = open(0, closefd=False)
    from dpfast.app.cli import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_pipe_goes_through(tmp_path) -> None:
    done = piped(PLAIN.encode(), "-", "-", *NEARLY, "--format", "csv", "--metadata", "about.json", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, PLAIN.encode())
    assert all(line.startswith(b"Warning: epsilon = ") for line in done.stderr.splitlines())  # so little noise
    assert json.loads((tmp_path / "about.json").read_text())["epsilon_total"] == str(2**59)
    packed = piped(
        gzip.compress(PLAIN.encode(), mtime=0),
        "-",
        "-",
        *NEARLY,
        "--format",
        "csv.gz",
        "--metadata",
        "b.json",
        folder=tmp_path,
    )
    assert gzip.decompress(packed.stdout) == PLAIN.encode()
    whole = piped(PLAIN.encode(), "-", "out.parquet", *NEARLY[:-1], "--format", "csv", folder=tmp_path)
    assert (whole.returncode, b"standard input, which is published" in whole.stderr) == (0, True)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (PLAIN.encode(), ["-"], "--format must be given with -"),
        (PLAIN.encode(), ["-", "--format", "csv"], "--metadata must name a file"),
        (PLAIN.encode(), ["-", "--format", "parquet"], "IN must be a file: Parquet"),
        (gzip.compress(PLAIN.encode(), mtime=0), ["-", "--format", "csv", "--metadata", "m"], "packed by gzip: .*--format csv.gz"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-3], ["-", "--format", "csv.gz", "--metadata", "m"], "standard input is cut short"),
        (b'city,n\n"Oslo', ["-", "--format", "csv", "--metadata", "m"], "standard input ends inside a quoted field"),
        (b"", ["-", "--format", "csv", "--metadata", "m"], "standard input is empty"),
        (b'{"n":1}\n{"n"', ["-", "--format", "jsonl", "--metadata", "m"], "standard input must contain an object a line"),
        (PLAIN.encode(), ["-", "--format", "csv", "--metadata", "m", "--sort-by", "city"], "IN must be a file for --sort-by"),
    ],
)  # fmt: skip
def test_a_pipe_that_cannot_go_through_gives_nothing(tmp_path, warm, content, options, message) -> None:
    done = warm.run(PIPED, content.hex(), "privatize", "-", *options, *LAW, folder=tmp_path)
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1), done.stderr
    assert re.search(message, done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_keyed_release_reads_twice_and_takes_no_pipe(tmp_path, warm) -> None:
    dpfast.KeyFile.create(tmp_path / "k.key")
    ledger = dpfast.Ledger(tmp_path / "b.db", 1, create=True)
    keyed = ["--key-file", "k.key", "--label", "x", "--ledger", "b.db", "--format", "csv"]
    done = warm.run(PIPED, PLAIN.encode().hex(), "privatize", "-", "out.csv", *LAW, *keyed, folder=tmp_path)
    assert "IN must be a file for --key-file, which reads it twice" in done.stderr
    assert ledger.spent.epsilon == 0


# ------------------------------------------------------------------ other formats, and types


def test_an_archive_gives_one_array(tmp_path, capsys) -> None:
    array = np.arange(12).reshape(3, 4)
    np.savez_compressed(tmp_path / "in.npz", n=np.asfortranarray(array), m=np.ones(3))
    assert main(["privatize", str(tmp_path / "in.npz"), str(tmp_path / "out.npz"), *NEARLY]) == 0
    found = np.load(tmp_path / "out.npz")
    assert (list(found), np.array_equal(found["n"], array)) == (["n"], True)
    assert main(["privatize", str(tmp_path / "in.npz"), str(tmp_path / "out.npy"), *NEARLY]) == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), array)
    refused(
        capsys,
        main(["privatize", str(tmp_path / "in.npz"), str(tmp_path / "o.npz"), *LAW[2:]]),
        "--column must name one of its arrays; there are 'n', 'm'",
    )


def test_an_archive_that_is_damaged_or_ambiguous_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "in.npz", n=np.arange(1000))
    whole = bytearray((tmp_path / "in.npz").read_bytes())
    whole[600] ^= 1
    (tmp_path / "in.npz").write_bytes(whole)
    with pytest.raises(FileError, match="not a whole npz file"):
        list(files.open_source(tmp_path / "in.npz", []).pieces())
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        for _ in range(2):
            archive.writestr("n.npy", b"")
    with pytest.raises(FileError, match="one array of each name"):
        files.open_source(tmp_path / "two.npz", ["n"])


def folder_of(path: Path) -> Path:
    for i, city in enumerate(["Lima", "Oslo"]):
        (path / f"city={city}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [i, 10 + i], "name": ["a", "b"]}), path / f"city={city}" / "part.parquet")
    return path


def test_a_folder_of_parquet_is_one_table(tmp_path, capsys) -> None:
    source = folder_of(tmp_path / "in")
    assert main(["privatize", str(source), str(tmp_path / "out.parquet"), *NEARLY]) == 0
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert table == {"n": [0, 10, 1, 11], "name": ["a", "b"] * 2, "city": ["Lima", "Lima", "Oslo", "Oslo"]}
    pq.write_table(pa.table({"n": [1], "other": ["a"]}), source / "city=Oslo" / "second.parquet")
    refused(
        capsys, main(["privatize", str(source), str(tmp_path / "o.parquet"), *LAW]), "must contain files of one schema"
    )
    (source / "metadata").mkdir()
    (source / "metadata" / "v1.metadata.json").touch()
    refused(capsys, main(["privatize", str(source), str(tmp_path / "o.parquet"), *LAW]), "Delta or Iceberg table")
    (tmp_path / "none").mkdir()
    refused(
        capsys,
        main(["privatize", str(tmp_path / "none"), str(tmp_path / "o.parquet"), *LAW]),
        "contains no Parquet file",
    )


def test_a_folder_whose_key_is_a_column_too_is_refused(tmp_path) -> None:
    (tmp_path / "n=1").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "n=1" / "p.parquet")
    with pytest.raises(FileError, match="one column of each name"):
        files.open_source(tmp_path, ["n"])


def test_json_lines_keep_texts_that_look_like_dates(tmp_path) -> None:
    text = '{"day": "2020-01-02", "n": 10, "l": [1, 2], "o": {"x": 1.5, "t": "2020-01-01"}}\n' * 3
    (tmp_path / "in.jsonl").write_text(text)
    assert main(["privatize", str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), *NEARLY]) == 0
    assert (tmp_path / "out.jsonl").read_text() == text


@pytest.mark.parametrize(
    "lines",
    [
        '{"n": 1, "n": 2}\n',
        "[1]\n",
        '{"n": 1}\n' * 200_000 + '{"m": 1}\n',
        '{"n": 1}\n' * 200_000 + '{"n": 1.5}\n',
        '{"n": 1}\n{"n": ',
    ],
)
def test_json_lines_of_another_shape_are_refused(tmp_path, capsys, lines) -> None:
    (tmp_path / "in.jsonl").write_text(lines)
    refused(
        capsys,
        main(["privatize", str(tmp_path / "in.jsonl"), str(tmp_path / "out.csv"), *LAW]),
        "must contain an object a line",
        expected=1,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("column", "options", "expected"),
    [
        (pa.array([1, 2]).cast(pa.decimal128(38, 0)), [], [1, 2]),
        (pa.array([Decimal("1.00"), Decimal("2.00")]), [], [1, 2]),
        (pa.array([1.0, 2.0]), [], [1, 2]),
        (pa.array(["1", "+2.0"]), [], [1, 2]),
        (pa.array(["1.000", "2"]), ["--thousands", "."], [1000, 2]),
        (pa.array([1, 2]).dictionary_encode(), [], [1, 2]),
        (pa.array([1, None]), ["--missing", "0"], [1, 0]),
        (pa.array([1.0, None]), ["--missing", "0"], [1, 0]),
        (pa.array(["1", None]), ["--missing", "0"], [1, 0]),
        (pa.array([Decimal(1), None]), ["--missing", "0"], [1, 0]),
        (pa.array([1, None]), ["--missing", "1", "--clamp", "0", "2"], [1, 1]),
    ],
)  # fmt: skip
def test_columns_that_hold_counts_are_counts(tmp_path, column, options, expected) -> None:
    pq.write_table(pa.table({"n": column}), tmp_path / "in.parquet")
    assert main(["privatize", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), *NEARLY, *options]) == 0
    assert pq.read_table(tmp_path / "out.parquet")["n"].to_pylist() == expected


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None]), "contains nulls, where every count is needed: --missing"),
        (pa.array([1.0, None]), "contains NaN or a null where a count is needed: --missing"),
        (pa.array(["1", None]), "contains an empty cell, NaN, NA or null: --missing"),
        (pa.array([1.0, 2.5]), "digits after the decimal point: for real values"),
        (pa.array([1.0, 2.0**53]), r"2\*\*53 or more"),
        (pa.array([1.0, float("inf")]), r"2\*\*53 or more"),
        (pa.array([Decimal("1.50")]), "digits after the decimal point: for real values"),
        (pa.array([Decimal(2**70)]), "fit in int64 or in uint64"),
        (pa.array([True]), "must contain integers, but contains bool"),
    ],
)  # fmt: skip
def test_columns_that_hold_none_say_why(tmp_path, capsys, column, message) -> None:
    pq.write_table(pa.table({"n": column}), tmp_path / "in.parquet")
    refused(capsys, main(["privatize", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), *LAW]), message)
    assert not (tmp_path / "out.parquet").exists()


def test_the_sensitivity_must_cover_what_is_missing(tmp_path, capsys) -> None:
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "in.parquet")
    command = ["privatize", str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), *LAW]
    refused(capsys, main([*command, "--missing", "3"]), "--missing must come with --clamp", expected=2)
    refused(
        capsys,
        main([*command, "--missing", "3", "--clamp", "0", "9"]),
        "--missing 3 may be 6 away .*--clamp",
        expected=2,
    )


@pytest.mark.parametrize("end", [".csv", ".parquet", ".npy"])
def test_a_smaller_type_saturates_at_its_public_ends(tmp_path, end) -> None:
    source, out = tmp_path / f"in{end}", tmp_path / f"out{end}"
    cells = np.array([0, 100, 1000, -1000])
    if end == ".npy":
        np.save(source, cells)
    elif end == ".csv":
        source.write_text("n\n" + "".join(f"{cell}\n" for cell in cells))
    else:
        pq.write_table(pa.table({"n": cells}), source)
    options = [*(NEARLY[2:] if end == ".npy" else NEARLY), "--dtype", "int8"]
    assert main(["privatize", str(source), str(out), *options]) == 0
    if end == ".parquet":
        found = pq.read_table(out)["n"]
        assert (str(found.type), found.to_pylist()) == ("int8", [0, 100, 127, -128])
    else:
        found = np.load(out) if end == ".npy" else np.loadtxt(out, int, skiprows=1)
        assert found.tolist() == [0, 100, 127, -128]
        assert json.loads(out.with_name(out.name + ".json").read_text())["releases"][0]["dtype"] == "int8"


# ------------------------------------------------------------------ sealed releases


@pytest.mark.parametrize(
    "options", [["--delimiter", ";"], ["--encoding", "latin-1"], ["--decimal", "."], ["--thousands", "_"]]
)
def test_a_retry_by_another_reading_is_refused_by_its_option(tmp_path, capsys, options) -> None:
    """Though each reading finds the same counts: "n" is the last column, or the first."""
    (tmp_path / "in.csv").write_text("n;m,n\n5;7,5\n6;7,6\n")
    dpfast.KeyFile.create(tmp_path / "k.key")
    ledger = dpfast.Ledger(tmp_path / "b.db", 1, create=True)
    keyed = ["--key-file", str(tmp_path / "k.key"), "--label", "x", "--ledger", str(ledger.path)]
    command = ["privatize", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *LAW, *keyed]
    assert main(command) == 0
    (tmp_path / "out.csv").unlink()
    (tmp_path / "out.csv.json").unlink()
    said = f"by a seal that does not name {options[0]}, which is {options[1]!r} here"
    refused(capsys, main([*command, "--resume", *options]), said, expected=1)
    assert (main([*command, "--resume"]), ledger.spent.epsilon) == (0, 1)


def test_a_retry_by_another_reading_is_another_input(tmp_path, capsys) -> None:
    """A name that says no format: both readings find the same counts, beside other columns."""
    (tmp_path / "in").write_text("n\tm,n\n5\t7,5\n6\t7,6\n")
    dpfast.KeyFile.create(tmp_path / "k.key")
    ledger = dpfast.Ledger(tmp_path / "b.db", 1, create=True)
    keyed = ["--key-file", str(tmp_path / "k.key"), "--label", "x", "--ledger", str(ledger.path), "--resume", "--force"]
    command = ["privatize", str(tmp_path / "in"), str(tmp_path / "out"), *LAW, *keyed, "--format"]
    assert main([*command, "csv"]) == 0
    refused(capsys, main([*command, "tsv"]), "'x': the input is not the one that was reserved", expected=1)
    assert (main([*command, "csv"]), ledger.spent.epsilon) == (0, 1)


@pytest.mark.parametrize("end", ["csv.gz", "csv.zst", "tsv", "jsonl", "jsonl.gz", "npz"])
def test_a_second_try_gives_the_same_bytes(tmp_path, end) -> None:
    rows = [(f"{i:05}", 7919 * i) for i in range(3000)]
    source, out = tmp_path / f"in.{end}", tmp_path / f"out.{end}"
    if end == "npz":
        np.savez(source, n=np.array([n for _, n in rows]))
    else:
        mark = "\t" if end == "tsv" else ","
        text = "".join(f"{name}{mark}{n}\n" for name, n in [("city", "n"), *rows])
        if "jsonl" in end:
            text = "".join(json.dumps({"city": name, "n": n}) + "\n" for name, n in rows)
        pack(source, text.encode())
    dpfast.KeyFile.create(tmp_path / "k.key")
    ledger = dpfast.Ledger(tmp_path / "b.db", 1, create=True)
    keyed = ["--key-file", str(tmp_path / "k.key"), "--label", "x", "--ledger", str(ledger.path)]
    made = []
    for more in ([], ["--resume"], ["--resume", "--threads", "1"]):
        assert main(["privatize", str(source), str(out), *LAW, *keyed, *more]) == 0
        made.append(out.read_bytes())
        assert main(["verify", str(source), str(out), *LAW, *keyed]) == 0
        out.unlink()
        out.with_name(out.name + ".json").unlink()
    assert made[0] == made[1] == made[2]
    assert ledger.spent.epsilon == 1


def test_parameters_of_a_style_are_checked_where_they_are_made() -> None:
    with pytest.raises(ParameterError, match="--delimiter must be one"):
        TextFormat(";;")
    assert TextFormat("tab").delimiter == "\t"
    assert (TextFormat(thousands=".").point, TextFormat().point) == (",", ".")


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_closed_end_of_a_pipe_is_refused_before_a_charge(tmp_path, warm, closed) -> None:
    """Python has no such stream then."""
    (tmp_path / "in.csv").write_text(PLAIN)
    dpfast.Ledger(tmp_path / "l.db", 10, create=True)
    ends = ["-", "out.csv"] if closed == "stdin" else ["in.csv", "-"]
    options = [*ends, "--format", "csv", "--metadata", "m.json", "--ledger", "l.db", *LAW]
    program = without(closed) + "from dpfast.app.cli import main; sys.exit(main(sys.argv[1:]))"
    done = warm.run(program, "privatize", *options, folder=tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"Error: cannot (read|write) standard (in|out)put: it is closed\n", done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "l.db", "l.db.lock"]
    assert dpfast.Ledger(tmp_path / "l.db").spent.epsilon == 0
