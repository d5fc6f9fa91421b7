# SPDX-License-Identifier: Apache-2.0
"""The command line; each command has a file of its name, and codes.py what they end with."""

from __future__ import annotations

import _thread
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, cast

try:
    import click
except ModuleNotFoundError:
    sys.stderr.write("Error: the command line needs click: pip install 'dpfast[cli]'\n")
    raise SystemExit(2) from None

import dpfast
from dpfast import terminal
from dpfast.app.cli.audit import audit
from dpfast.app.cli.bench import bench
from dpfast.app.cli.codes import FAILED, INTERRUPTED, WRONG, AfterCharge, code_of
from dpfast.app.cli.explain import explain
from dpfast.app.cli.histogram import histogram
from dpfast.app.cli.info import info
from dpfast.app.cli.jobs import jobs
from dpfast.app.cli.key import key
from dpfast.app.cli.ledger import ledger
from dpfast.app.cli.look import look
from dpfast.app.cli.options import InOrder
from dpfast.app.cli.privatize import privatize, verify
from dpfast.app.cli.selftest import selftest
from dpfast.app.cli.show import show
from dpfast.app.cli.totals import totals
from dpfast.errors import DpfastError, WeakGuaranteeWarning

MOMENT = 0.01  # seconds
UNPRINTED = "cannot write standard output: {}"
WITHOUT_STATE = "where it is away, each step is given again, from 1 on, with the same rows"
EXTRAS = {"pyarrow": "cli", "rich": "cli", "matplotlib": "plot"}


COMMANDS: dict[click.Command, str] = {
    histogram: "From rows to a table of noisy counts or sums.",
    totals: "Counts over time: every running total, for one charge.",
    privatize: "Add noise to columns of a file.",
    look: "Check that keys are spelt as in the rows; private.",
    explain: "Explain what parameters guarantee and cost.",
    show: "Repeat what a released file says of itself.",
    ledger: "Keep a privacy budget in a file.",
    key: "Make a key, so that a release can be retried.",
    verify: "Draw a release again, and compare.",
    jobs: "Inspect the releases of an engine.",
    info: "Print versions, instruction set, threads, cache.",
    selftest: "Check this installation.",
    audit: "Attack the noise of a function.",
    bench: "Time the noise beside other packages.",
}


ASSIGNED = r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|(?<![\w.(])(\w+)=(?=[^=])"""  # or a caller's text, between quotes
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@click.group(
    cls=InOrder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Rows of people come first: dpfast histogram --help ends with examples.",
)
@click.version_option(dpfast.__version__)
def commands() -> None:
    """Publish counts, sums and tables without exposing any single person (differential privacy).

    The noise has exactly the distribution that a command states.
    """


for _command, _line in COMMANDS.items():
    _command.short_help = _line
    commands.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line and quote nothing private."""
    heard = [each for each in STOPS if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler)]
    for each in heard:
        signal.signal(each, _stopped)
    try:
        try:
            code = _run(arguments)
        finally:
            lost = terminal.lost()
    except KeyboardInterrupt:  # in the last line that is said
        code = INTERRUPTED
    if arguments is None:  # the process ends with this code, and no signal makes another of it meanwhile
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
    return code if code or lost is None else _failed(UNPRINTED.format(lost.strerror), FAILED)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with warnings.catch_warnings():
            _warn_in_one_line(list(arguments or sys.argv[1:])[:1])
            return commands.main(arguments, prog_name="dpfast", standalone_mode=False) or 0
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as stopped:
        said = map(str, (stopped.__cause__ or stopped).args)  # click's Abort has none
        return _failed("; ".join(["interrupted", *said]), INTERRUPTED)
    except DpfastError as error:
        message = _words(error)
        if list(arguments or sys.argv[1:])[:1] == ["ledger"]:
            message = message.removesuffix("; nothing was released")  # nothing was to be
        return _failed(message, code_of(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        return _failed(f"this needs {missing}: pip install 'dpfast[{EXTRAS[missing]}]'", WRONG)
    except Exception as error:
        return _failed(_words(error), FAILED)


def _words(error: BaseException) -> str:
    """What went wrong; of what nobody foresaw where, for its message may quote a cell."""
    if isinstance(error, AfterCharge):
        return f"{_words(cast('BaseException', error.__cause__))}; {error}"
    if isinstance(error, DpfastError):
        return _in_flags(str(error))
    *_, at = frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, OSError) and any(frame.name == "echo" for frame in frames):  # click's
        return UNPRINTED.format(error.strerror)
    return f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}; please report this"


def _stopped(number: int, frame: FrameType | None) -> None:
    """Ends the command; a moment later if Python imports, whose lock would stay held."""
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, lambda _, later: _stopped(number, later))
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            threading.Timer(MOMENT, _thread.interrupt_main, [number]).start()
        return
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _warn_in_one_line(command: list[str]) -> None:
    """Give a weak guarantee one line; commands that test noise at every epsilon give none."""
    tests = command and command[0] in ("audit", "bench", "selftest")
    silent = any("ignore".startswith(option.partition(":")[0] or "-") for option in sys.warnoptions)
    warnings.simplefilter("ignore" if tests or silent else "always", WeakGuaranteeWarning)
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, WeakGuaranteeWarning):
            terminal.tell(f"Warning: {message}")
        else:
            others(message, category, *where)

    warnings.showwarning = show  # type: ignore[assignment]


def _parameters(command: click.Command) -> list[click.Parameter]:
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return [*(each for one in inner for each in _parameters(one)), *command.params]


def _in_flags(message: str) -> str:
    """A message about parameters, such as "lower must be at most upper", in words of options."""
    options = [option for command in commands.commands.values() for option in _parameters(command) if option.opts]
    flags = {str(option.name): option.opts[0] for option in options if option.opts[0].startswith("--")}
    flags |= {"t": "T", "unit_ids": "--unit"}

    def flagged(word: re.Match[str]) -> str:
        return flags.get(word[0], word[0])

    rule = re.match(r"\w+( (and|or) \w+)? must( be at most \w+| come with \w+)?\b", message)
    end = rule.end() if rule else 0
    rest = (
        message[end:]
        .replace("step(t, resume=True)", "--resume")
        .replace("resume=True", "--resume")
        .replace("replay= gives a state again, of all earlier rows, where there is none", WITHOUT_STATE)
        .replace("create=True, or `dpfast ledger create`,", "`dpfast ledger create`")
    )
    rest = re.sub(r"(?<=is reserved with another )\w+(?=,)", flagged, rest)  # as totals say it
    rest = re.sub(r"Sensitivity\.changes\(l0=1, linf=([^,)]*)\)?", r"\1", rest)  # which a bare --sensitivity is
    if "<" not in rest:  # what a mechanism or a guarantee says of itself stays as it is
        rest = re.sub(ASSIGNED, lambda word: f"{flags[word[1]]} " if word[1] in flags else word[0], rest)
    return re.sub(r"\w+", flagged, message[:end]) + rest


def _failed(message: str, code: int) -> int:
    terminal.tell(f"Error: {terminal.printable(message)}")  # the name of a file may hold more lines
    return code
