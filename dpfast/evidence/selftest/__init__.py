# SPDX-License-Identifier: Apache-2.0
"""What a sceptic runs on an installed package: it tries every claim that a machine can try.

One hook sees the outputs of each check: a planted defect (PLANTED_DEFECTS) there shows that the
check can fail. On a sound build the random checks fail with probability at most FALSE_ALARM
together, the sum of their levels.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import dpfast
from dpfast import _native, terminal
from dpfast.errors import ParameterError
from dpfast.evidence.selftest import certificates, epsilon, known_answers, laws, processes, streams
from dpfast.evidence.selftest.check import Check, Outcome, PlantedDefect, Run, instruction_sets
from dpfast.evidence.selftest.planted_defects import PLANTED_DEFECTS
from dpfast.noise.mechanisms.laws import LAWS

__all__ = ["CHECKS", "FALSE_ALARM", "PLANTED_DEFECTS", "Check", "Outcome", "Result", "command", "run"]

FALSE_ALARM = 1e-6  # for a whole run, deep or not
DEEP = 64.0  # times as many draws
QUICK = 10.0  # seconds of processor time for all checks, where one chunk of draws leaves more


def of_law(name: str) -> Check:
    if name not in laws.POINTS:
        return Check(f"noise {name}", "draws are those of its intervals", partial(streams.by_intervals, name), 1e-9)
    points = laws.HOW_MANY[name]
    return Check(f"noise {name}", "draws under fresh keys follow the exact distribution", partial(laws.law, name), points * laws.TESTS * 2 * laws.LEVEL)  # fmt: skip


CHECKS = (
    Check("cipher", "ChaCha20 gives its known answers", known_answers.cipher),
    Check("golden", "the stream and every mechanism's map are version 2's", known_answers.golden),
    Check("tables", "tables are those of the distribution, in proved intervals", certificates.tables),
    Check("thresholds", "thresholds are those of the distribution, in proved intervals", certificates.thresholds),
    Check("decisions", "what a tier decides beside a boundary is right", certificates.decisions),
    Check("tiers", "all tiers and instruction sets make the same draws", streams.tiers, 1e-9),
    Check("releases", "a release is its values plus the exact draws", streams.releases),
    Check("cuts", "threads and cuts change no draw", streams.cuts),
    Check("keyed", "a key names one release of one input", streams.keyed, 1e-100),
    Check("p-values", "the tests of distributions have the right p-values", laws.p_values),
    Check("epsilon", "neighbouring counts give away no more than stated", epsilon.epsilon, epsilon.LEVEL),
    Check("fork", "a forked child never repeats its parent's noise", processes.fork, 1e-100),
    Check("fresh", "no two releases, in any thread, have the same noise", processes.fresh, 1e-100),
    Check("entropy", "keys differ; without one nothing is released", processes.entropy, 1e-60),
    *map(of_law, LAWS),  # last, for how long they take is known
)


@dataclass(frozen=True)
class Result:
    """A check, what came out, and how long it took."""

    check: Check
    outcome: Outcome
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """The result for JSON."""
        return {
            "name": self.check.name,
            "shows": self.check.shows,
            "passed": self.outcome.passed,
            "compared": self.outcome.compared,
            "wrong": list(self.outcome.wrong),
            "level": self.check.level,
            "seconds": round(self.seconds, 3),
        }


def run(
    checks: Iterable[Check] = CHECKS,
    *,
    factor: float = 1.0,
    defect: PlantedDefect | None = None,
    step: Callable[[Check, float], object] = lambda *_: None,
    done: Callable[[Result], object] = lambda _: None,
) -> list[Result]:
    """Run the checks in turn; an error is a failure. factor: scales how many draws there are."""
    found = []
    for check in checks:
        began = time.monotonic()
        planted = defect if defect and defect.check == check.name else None
        run = Run(factor, planted, partial(step, check))
        run.step(0.0)
        try:
            outcome = check.run(run)
        except Exception as error:
            outcome = Outcome("", (f"{type(error).__name__}: {error}",))
        found.append(Result(check, outcome, time.monotonic() - began))
        done(found[-1])
    return found


# ------------------------------------------------------------------ the command


def command(
    *, as_json: bool = False, deep: bool = False, quick: bool = False, defect: str | None = None, factor: float = 1.0
) -> int:
    """Run all checks and show a line for each; return the exit code, 1 if one failed.

    deep: an hour's worth. quick: as many draws as QUICK seconds leave. defect: a name in
    PLANTED_DEFECTS, or "list". Raises: ParameterError.
    """
    if defect == "list":
        known = PLANTED_DEFECTS.values()
        sys.stdout.write(terminal.table((each.name, each.check, each.shows) for each in known) + "\n")
        return 0
    if defect is not None and defect not in PLANTED_DEFECTS:
        raise ParameterError(f"break must be one of those that '--break list' shows, got {defect}")
    if deep and quick:
        raise ParameterError("deep and quick must not be given together: one draws more, the other less")
    planted = PLANTED_DEFECTS[defect] if defect else None
    factor = 1 / laws.CHUNKS if quick else factor * (DEEP if deep else 1.0)
    began, used, sets = time.monotonic(), time.process_time(), [_native.ISA_NAMES[isa] for isa in instruction_sets()]
    about = {
        "version": dpfast.__version__,
        "stream_version": _native.STREAM_VERSION,
        "platform": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "instruction_sets": sets,
    }
    if not as_json:
        version, stream, system, _ = about.values()
        head = f"dpfast {version} selftest, stream version {stream}, {system}: {', '.join(sets)}"
        sys.stdout.write(f"{head}\nPlanted in '{planted.check}': {planted.shows}.\n\n" if planted else f"{head}\n\n")
    found = _shown([check for check in CHECKS if not _draws(check)], {}, as_json, factor=factor, defect=planted)
    cost = {check.name: laws.seconds(check.name.removeprefix("noise ")) for check in CHECKS if _draws(check)}
    if quick:
        left = QUICK - (time.process_time() - used)
        factor = max(1, math.floor(left / sum(cost.values()))) / laws.CHUNKS
    chunks = max(1, round(laws.CHUNKS * factor))
    expected = chunks * sum(cost.values())
    if not as_json:
        sys.stdout.write(
            f"\nThe draws of {len(cost)} distributions take about {expected:.0f} s of processor time, as timed on this machine.\n\n"
        )
    found += _shown([check for check in CHECKS if _draws(check)], cost, as_json, factor=factor, defect=planted)
    passed = all(result.outcome.passed for result in found)
    seconds, draws = time.monotonic() - began, chunks * laws.CHUNK
    if as_json:
        facts = {**about, "deep": deep, "quick": quick, "break": defect, "passed": passed, "seconds": round(seconds, 3)}
        facts |= {"expected_seconds_of_draws": round(expected, 3), "false_alarm_rate": FALSE_ALARM}
        facts["finds_scale_off_by"] = laws.least_found(draws)
        facts["checks"] = [result.as_dict() for result in found]
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"\n{_verdict(found, planted, seconds, laws.least_found(draws))}\n")
    return 0 if passed else 1


def _draws(check: Check) -> bool:
    return check.name.startswith("noise ")


def _shown(
    checks: list[Check], cost: Mapping[str, float], as_json: bool, *, factor: float, defect: PlantedDefect | None
) -> list[Result]:
    """Run checks under a bar. cost: their shares of it; by default all alike."""
    shares = [cost.get(check.name, 1.0) for check in checks]
    begins = dict(zip((check.name for check in checks), accumulate(shares, initial=0.0), strict=False))
    with closing(terminal.Bar(sum(shares))) as bar:

        def step(check: Check, share: float) -> None:
            bar.show(begins[check.name] + share * cost.get(check.name, 1.0), f"{check.name}: {check.shows}")

        def done(result: Result) -> None:
            if not as_json:
                bar.close()
                sys.stdout.write(_line(result))
                sys.stdout.flush()

        return run(checks, factor=factor, defect=defect, step=step, done=done)


def _line(result: Result) -> str:
    check, outcome = result.check, result.outcome
    lines = [f"{'ok' if outcome.passed else 'FAILED':8}{result.seconds:5.1f} s  {check.name:25} {outcome.compared}"]
    if not outcome.passed:
        lines += [f"{'':17}! {line}" for line in (f"not so: {check.shows}", *outcome.wrong)]
    return "\n".join([*lines, ""])


def _verdict(found: list[Result], planted: PlantedDefect | None, seconds: float, least: float) -> str:
    failed = [result.check.name for result in found if not result.outcome.passed]
    if planted and failed == [planted.check]:
        return f"The planted defect was found by '{planted.check}', and nothing else failed."
    if planted:
        return f"The planted defect was NOT found by '{planted.check}' alone; failed: {', '.join(failed) or 'none'}."
    if failed:
        return f"FAILED: {', '.join(failed)}. Please report this, and release nothing with this build."
    return (
        f"All {len(found)} checks passed, in {seconds:.0f} s. A sound build fails by chance with a probability of at most "
        f"{FALSE_ALARM:g};\na Laplace scale {100 * least:.2f} % off is found with a probability of 99 %. `--break NAME` shows that "
        "each check can fail."
    )
