# SPDX-License-Identifier: Apache-2.0
"""`.ci/deep NAME` runs a long check whole and keeps its figures; `.ci/deep due` runs what is due.

Names of cases after it run these alone. Without a name it lists what is due; `.ci/deep rooms` says
what a change of a room makes due.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from assurance_page import PAGE, page

from deep import opened
from deep.record import (
    ASSURANCE,
    NEVER,
    ROOT,
    Due,
    cases,
    commit,
    digest,
    due,
    git,
    module,
    names,
    of_a_release,
    record,
    rooms,
    show,
    tree,
)

ALONE = "--alone"
MACHINERY = {
    f"tests/{name}.py"
    for name in ("assurance_page", "deep/__init__", "deep/__main__", "deep/opened", "deep/record", "places")
}


def run(*checks: tuple[str, tuple[str, ...]]) -> bool:
    """Run checks by their names and cases; False if this machine does not decide one of them.

    Looks once that all is committed: each check leaves its own figures beside the commit.
    """
    if dirty := git("status", "--porcelain"):
        sys.exit(f"commit these first, so that the figures belong to a commit:\n{dirty}")
    decided = [_run(name, chosen) for name, chosen in checks]  # one that is not decided keeps no other back
    return all(decided)


def _run(name: str, chosen: tuple[str, ...]) -> bool:
    """Run a check in a process of its own; write its figures, the commit, and the page of all.

    chosen: of a check by cases, the only ones that are tried; the others keep what they came to.
    """
    files, check, kept, read = tree(), module(name), record(name), list[str]()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        command = [sys.executable, "-m", "deep", ALONE, name, str(figures), *chosen]
        if hasattr(check, "cases") or hasattr(check, "RELEASED"):  # which say themselves what they depend on
            subprocess.run(command, cwd=ROOT, check=True)
        else:
            opened.watch(opened.SITE)
            own = f"docs/assurance/{name}.json"  # to which runs are added
            read = [path for path in opened.opened(command, ROOT, set(files)) if path not in {*MACHINERY, own}]
        found = json.loads(figures.read_text())
    if "undecided" in found:
        show(f"{name}: {found['undecided']}")
        return False
    minutes = (time.monotonic() - begun) / 60
    written = git("diff", "--name-only", "--diff-filter=d").splitlines()  # by the run: it is not older than these
    files |= {path: git("hash-object", path) for path in written}
    covers: dict[str, object]
    if hasattr(check, "cases"):
        now = cases(check, files, ROOT)
        minutes = max(minutes, kept.get("minutes", 0.0)) if chosen else minutes
        then = kept.get("cases", {}) if chosen else {}
        covers = {"cases": {case: now[case] if case in (chosen or now) else then.get(case) for case in now}}
    elif hasattr(check, "RELEASED"):
        covers = {"digest": of_a_release(check, files, ROOT)}
    else:
        covers = {"opened": read, "digest": digest(read, files)}
    date = datetime.now(UTC).date().isoformat()
    kept = {"check": name, "commit": commit(), "date": date, "minutes": round(minutes, 1)}
    ASSURANCE.mkdir(exist_ok=True)
    (ASSURANCE / f"{name}.json").write_text(json.dumps(kept | covers | {"figures": found}, indent=2) + "\n")
    PAGE.write_text(page(ASSURANCE))
    show(f"{name}: {json.dumps(found)}")
    return True


def alone(name: str, to: str, chosen: tuple[str, ...]) -> None:
    """The check itself; its figures go to a file."""
    try:
        only = {"only": chosen, "before": record(name).get("figures")} if chosen else {}
        found = module(name).check(cheap=False, **only)
    except pytest.skip.Exception as undecided:
        found = {"undecided": str(undecided)}
    Path(to).write_text(json.dumps(found))


def listed(found: list[Due]) -> None:
    for one in found:
        show(f"docs/assurance: {one.name}: {one.why}; .ci/deep {one.name} takes {one.minutes:.0f} minutes")
    if found:
        show(f"docs/assurance: {sum(one.minutes for one in found):.0f} minutes; .ci/deep due runs these")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            listed(due())
        case ["due"]:
            listed(found := due())
            sys.exit(not run(*((one.name, one.cases if record(one.name).get("cases") else ()) for one in found)))
        case ["rooms"]:
            for room, minutes in sorted(rooms().items()):
                show(f"{minutes:5.0f}  {room}")
            if unknown := [one.name for one in due() if one.why == NEVER]:
                show(f"not counted, for nobody knows yet what they open: {', '.join(unknown)}")
        case [name, *chosen] if name in names():
            if unknown := set(chosen).difference(getattr(module(name), "cases", lambda _: ())(ROOT)):
                sys.exit(f"{name} has no case {', '.join(unknown)}")
            decided = run((name, tuple(chosen)))
            listed(due())
            sys.exit(not decided)
        case [flag, name, to, *chosen] if flag == ALONE:
            alone(name, to, tuple(chosen))
        case _:
            sys.exit(f"usage: .ci/deep [due|rooms|{'|'.join(names())}]")
