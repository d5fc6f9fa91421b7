# SPDX-License-Identifier: Apache-2.0
"""How the text of a file is read: four public options, and texts in other encodings than UTF-8.

A text is turned into UTF-8 as it is read, and back as it is written. What would not come back byte
for byte is refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from dpfast.app.tables.streams import PIPE, Opened, refuse_packed
from dpfast.errors import FileError, ParameterError, UnusableValuesError

MARKS = {  # the byte order mark of each encoding; the longer ones first
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
DELIMITERS = {"CSV": ",", "TSV": "\t"}
LIKELY = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}  # delimiters of headers, as an option names them
SPACES = " \u00a0\u202f"  # plain, no-break, narrow no-break
THOUSANDS = f",.'’_{SPACES}"


@dataclass(frozen=True)
class TextFormat:
    """What separates fields, and how letters and numbers are written.

    delimiter: one ASCII character, or "tab"; None is what the name of the file says. encoding: a
        codec of Python. decimal: "." or ","; None is ".", and refuses a count such as 12.000.
    thousands: what may stand between groups of three digits; None is nothing.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in {"tab", "\\t"}:
            object.__setattr__(self, "delimiter", "\t")
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n+-\0'):
            raise ParameterError(
                f"--delimiter must be one ASCII character such as ';' or '|', or tab, and no letter, digit, quote or sign, "
                f"got {mark[:20]!r}"
            )
        if self.decimal not in {None, ".", ","}:
            raise ParameterError(f"--decimal must be '.' or ',', got {str(self.decimal)[:20]!r}")
        if self.thousands is not None and (len(self.thousands) != 1 or self.thousands not in THOUSANDS):
            raise ParameterError(f"--thousands must be one of , . ' ’ _ or a space, got {str(self.thousands)[:20]!r}")
        if self.thousands is not None and self.thousands == self.decimal:
            raise ParameterError(
                f"--thousands must be another character than --decimal, got {self.thousands!r} for both"
            )
        object.__setattr__(self, "encoding", _codec(self.encoding))

    @property
    def point(self) -> str:
        """The decimal sign: where a point separates thousands, it is a comma."""
        return self.decimal or ("," if self.thousands == "." else ".")

    def named(self, form: str) -> TextFormat:
        """The same, with the delimiter that a format has by default."""
        return self if self.delimiter else replace(self, delimiter=DELIMITERS[form])

    def named_options(self) -> dict[str, str]:
        """Those that are not a plain CSV's, by the names of the options that give them."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        usual = {field.name: field.default for field in fields(self)} | {
            "delimiter": None if self.delimiter != "," else ","
        }
        return {f"--{name}": value for name, value in given.items() if value != usual[name]}

    def sealed(self) -> bytes:
        """What a sealed release holds of this beside the text: nothing of a plain CSV."""
        return b"" if self in {TextFormat(), TextFormat(",")} else repr(self).encode()

    def marked(self, first: bytes, path: Path) -> tuple[str, bytes]:
        """The codec of a text that begins so, and its byte order mark.

        Raises: FileError (the mark of another encoding; no mark where one decides).
        """
        refuse_packed(path, first)
        there = next((name for name, mark in MARKS.items() if first.startswith(mark)), None)
        wanted = self.encoding
        what = "standard input" if path == PIPE else path
        if there and (there == wanted or there.removesuffix("-le").removesuffix("-be") == wanted):
            return there, MARKS[there]
        if there:
            name = there.removesuffix("-le").removesuffix("-be")
            raise FileError(f"{what} begins with the byte order mark of {name}: add --encoding {name}")
        if wanted in {"utf-16", "utf-32"} and first:
            raise FileError(f"{what} has no byte order mark: --encoding must be {wanted}-le or {wanted}-be")
        return wanted, b""

    def decoded(self, file: Opened, path: Path) -> tuple[bytes, str, Callable[[int], bytes]]:
        """The byte order mark of a file, its codec, and what reads its text on, in UTF-8."""
        first = file.read(4)
        codec, mark = self.marked(first, path)
        begun = first[len(mark) :]
        if codec == "utf-8":
            ahead = [begun]
            return mark, codec, lambda size: (ahead.pop() if ahead else b"") + file.read(size)
        decoder, what = codecs.getincrementaldecoder(codec)(), "standard input" if path == PIPE else path
        ahead = [begun]

        def read(size: int) -> bytes:
            while True:
                given = (ahead.pop() if ahead else b"") + file.read(size)
                held = decoder.getstate()[0]
                try:
                    text = decoder.decode(given, final=not given)
                    back = text.encode(codec)
                except UnicodeError:
                    raise UnusableValuesError(
                        f"{what} contains bytes that are no {codec}: --encoding must be another"
                    ) from None
                if back != (held + given)[: len(back)] or len(held + given) - len(back) != len(decoder.getstate()[0]):
                    raise UnusableValuesError(
                        f"{what} would not come back byte for byte from {codec}: write it in utf-8 first"
                    )
                if text or not given:
                    return text.encode()

        return mark, codec, read

    def hint(self, header: str) -> str:
        """What to say of a header that looks as if another delimiter separated its fields."""
        others = {mark: header.count(mark) for mark in LIKELY if mark != self.delimiter}
        most = max(others, key=lambda mark: others[mark])
        if header.count(self.delimiter or ",") >= others[most]:
            return ""
        name = {"\t": "tab"}.get(most, f"'{most}'")
        return f"; this header looks like {name}-separated: add --delimiter {LIKELY[most]}"


def _codec(name: str) -> str:
    """The name of a text codec of Python that keeps ASCII, or of Unicode."""
    try:
        found = codecs.lookup(name)
        text = "a,;\t1\n".encode(found.name).decode(found.name)
    except (LookupError, ValueError, TypeError, UnicodeError):
        text = ""
    if text != "a,;\t1\n":
        raise ParameterError(
            f"--encoding must be a text encoding such as utf-8, utf-16, latin-1 or cp1252, got {name[:40]!r}"
        )
    return {"iso8859-1": "latin-1", "utf-8-sig": "utf-8"}.get(found.name, found.name)
