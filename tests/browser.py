# SPDX-License-Identifier: Apache-2.0
"""Pages in headless Chromium: what looks wrong in them, and pictures of them.

`looks(pages)` takes any HTML files: a report's, or those of a built site. It drives Chromium over
its DevTools protocol through a pipe, so it needs no library, and pages keep their own policy.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from places import TESTS

WIDTHS = 360, 768, 1400  # px: a phone, a tablet, a desk
SCHEMES = "light", "dark"
PAPER = 718  # px: a sheet of A4 within the margins that browsers leave
HEIGHT = 800
LEAST = 4.5  # contrast of text, by WCAG 2 at level AA
SCRIPT = TESTS / "looks.js"
PRINTED = TESTS / "prints.js"
# Chromium reads commands from descriptor 3 and answers on descriptor 4.
AS_3_AND_4 = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def chromium() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Fault(NamedTuple):
    """What looks wrong. kind: "scroll", "keys", "broken", "contrast", "cut", "closed" or "dark"."""

    page: str
    width: int
    scheme: str
    kind: str
    said: str


class Browser:
    """One tab of a Chromium that is driven through a pipe."""

    def __init__(self, sending: int, receiving: int) -> None:
        self._sending, self._receiving = sending, receiving
        self._ids, self._rest, self._events = count(1), b"", list[dict[str, Any]]()
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Ask Chromium for something, and wait for the answer."""
        number, about = next(self._ids), {"sessionId": self._session} if self._session else {}
        message = {"id": number, "method": method, "params": parameters, **about}
        os.write(self._sending, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, f"{method}: {found['error']}"
                return dict(found["result"])
            self._events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._receiving, 1 << 16)
            assert chunk, "Chromium has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def show(self, page: Path, width: int, scheme: str, media: str = "screen") -> None:
        """Open a page at a width, in a colour scheme, and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not any(each.get("method") == "Page.loadEventFired" for each in self._events):
            self._events.append(self._next())

    def run(self, function: str, *arguments: object) -> Any:
        """The result of a JavaScript function in the page."""
        said = f"({function})({', '.join(map(json.dumps, arguments))})"
        found = self.call("Runtime.evaluate", expression=said, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write the whole page that is shown as a PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium with one tab, closed at the end."""
    program = chromium()
    assert program, "there is no Chromium"
    low = *os.pipe(), *os.pipe()
    for_it, sending, receiving, from_it = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={home}", "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage"]
        said = [sys.executable, "-c", AS_3_AND_4, str(for_it), str(from_it), program, *flags]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(said, pass_fds=[for_it, from_it], start_new_session=True, **quiet) as process:  # type: ignore[call-overload]
            os.close(for_it)
            os.close(from_it)
            try:
                yield Browser(sending, receiving)
            finally:
                os.close(sending)  # it ends when nobody drives it
                os.close(receiving)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()


def looks(
    pages: Iterable[Path], *, widths: Sequence[int] = WIDTHS, schemes: Sequence[str] = SCHEMES, least: float = LEAST
) -> list[Fault]:
    """What looks wrong in HTML files, at each width and in each colour scheme.

    "scroll": the page scrolls sideways. "keys": a part scrolls, and no key reaches it. "contrast":
    a text has less than `least`, by its computed colours. "cut": a picture's text leaves the page.
    """
    script, found = SCRIPT.read_text("utf-8"), []
    with browser() as tab:
        for page in pages:
            for scheme in schemes:
                for width in widths:
                    tab.show(page, width, scheme)
                    found += [Fault(page.name, width, scheme, kind, said) for kind, said in tab.run(script, least)]
    return found


def prints(pages: Iterable[Path]) -> list[Fault]:
    """What a printer would lose of HTML files, or waste on them, for a reader who likes dark pages.

    "scroll", "cut": what leaves the sheet, or a part that would have to be scrolled. "contrast": a
    text that is hard to read. "closed": a part that is not unfolded. "dark": a dark ground.
    """
    script, looking, found = PRINTED.read_text("utf-8"), SCRIPT.read_text("utf-8"), []
    with browser() as tab:
        for page in pages:
            tab.show(page, PAPER, "dark", media="print")
            seen = [*tab.run(looking, LEAST), *tab.run(script)]
            found += [
                Fault(page.name, PAPER, "dark", kind, said) for kind, said in seen if kind not in {"keys", "broken"}
            ]
    return found
