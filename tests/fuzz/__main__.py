# SPDX-License-Identifier: Apache-2.0
"""One process of atheris.

`python -m fuzz TARGET CPU_SECONDS KEEP`, or to minimise `python -m fuzz TARGET merge KEEP TO FROM`.
"""

from __future__ import annotations

import hashlib
import importlib
import mmap
import os
import re
import struct
import sys
import tempfile
import time
from pathlib import Path

import atheris

EXCLUDED = "dpfast.noise.kernels"  # numba compiles them from their own bytecode
NEVER = "1200"  # seconds of wall time after which libFuzzer calls an input a hang; the limit of ours is CPU time


def counter(path: Path) -> mmap.mmap:
    """A count that outlives the process, however it ends."""
    if not path.exists():
        path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


def main() -> None:
    name, seconds, keep = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    with atheris.instrument_imports(include=["dpfast"], exclude=[EXCLUDED]):
        import dpfast

        for each in (
            "dpfast.ledger",
            "dpfast.engines.jobs",
            "dpfast.app.cli",
            "dpfast.app.tables.files",
            "dpfast.adapters",
        ):
            importlib.import_module(each)
        for late in dpfast.__all__:
            getattr(dpfast, late)
    from fuzz import corpus as corpus_of
    from fuzz import judged, target

    corpus, findings = keep / name / "corpus", keep / name / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp())
    one = target(name)(scratch)
    executions = counter(keep / name / "executions")
    for data in [*corpus_of(name).values(), *one.seeds()]:
        if not (path := corpus / hashlib.sha1(data).hexdigest()).exists():
            path.write_bytes(data)
    limit = float("inf") if seconds == "merge" else time.process_time() + float(seconds)

    def try_one(data: bytes) -> None:
        if time.process_time() > limit:
            os._exit(0)  # libFuzzer has written its corpus
        wrong = judged(one, data)
        executions[:8] = struct.pack("<Q", struct.unpack("<Q", executions[:8])[0] + 1)
        if wrong:
            what = hashlib.sha256(re.sub(r"0x\w+|\d+|'[^']*'", "#", wrong)[:160].encode()).hexdigest()[:12]
            if not (found := findings / what).exists():
                found.write_bytes(data)
                found.with_suffix(".txt").write_text(wrong)

    where = f"-artifact_prefix={findings}/"
    merging = seconds == "merge" and not any(
        each.startswith("-merge") for each in sys.argv[4:]
    )  # not the inner process
    more = [*(["-merge=1"] if merging else []), *sys.argv[4:]] if seconds == "merge" else [str(corpus)]
    again = f"{sys.executable} -m fuzz {name} merge {keep}"  # by a shell, for each attempt of a merge
    flags = [f"-timeout={NEVER}", "-rss_limit_mb=6144", "-max_len=4096", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([again, where, *flags, *more], try_one)
    atheris.Fuzz()


main()
