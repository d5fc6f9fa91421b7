# SPDX-License-Identifier: Apache-2.0
"""Ray, by the engine of examples/with_ray.py: killed workers change no byte, and cost nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import faulted
import pytest
import visits

import dpfast
from dpfast.engines import jobs
from dpfast.engines.jobs import tasks
from dpfast.errors import OtherInputError

EXAMPLE = faulted.TESTS.parent / "examples" / "with_ray.py"
FAULTS = ("shuffle", "stage", "before", "after", "numpy")  # faulted.Fault


def alike(engines: tuple[Any, ...], rows: Any, home: Path) -> dict[str, int]:
    """Releases of each kind, in some shards and in others, are those of one process."""
    for kind in visits.KINDS:
        for name, engine in (("one", None), *((f"{i}", engine) for i, engine in enumerate(engines))):
            given = {"rows": visits.visits()} if engine is None else {"rows": rows, "engine": engine}
            visits.job(jobs, kind, home=home / kind, name=name, ledger=None, resume=True, **given)
            visits.same(home / kind, "one", name)
    return {"releases": len(visits.KINDS) * len(engines)}


def logged(engine: Any, rows: Any, home: Path) -> dict[str, int]:
    """In how many forms the logs of Ray hold the keys of releases, a failed one among them."""
    import ray

    master = dpfast.Key.generate()
    key = master.derive("known")
    how: dict[str, Any] = {"key": key, "engine": engine}
    counts = jobs.bounded_counts(rows, unit="user", stage=home / "logs.stage", **visits.KINDS["known"], **how)
    mechanism = visits.mechanism("known", counts)
    jobs.release(counts, mechanism, ledger=None, to=home / "logs.out", resume=True, **how)
    (home / "logs.stage" / tasks.name_of(0)).write_bytes(b"damaged")
    with pytest.raises(OtherInputError, match="changed after it was frozen"):
        jobs.verify(home / "logs.out", counts, mechanism, **how)
    secrets = [bytes(master), *faulted.key_bytes(key)]

    def held() -> int:
        told = [path.read_bytes() for path in (home / "ray").rglob("*") if path.is_file() and "logs" in path.parts]
        return faulted.hits(b"\n".join(told), *secrets)

    kept = held()
    ray.get(ray.remote(print).remote(secrets[0].hex(), flush=True))
    faulted.until(lambda: held() > kept)
    return {"keys in logs": kept, "planted": held() - kept}


def matrix(home: Path, faults: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """What was found under each fault; of whole releases, in logs, of a merge by order."""
    import ray
    from with_ray import Cluster

    faulted.at_home(home, *faults, "order")
    for kind in kinds:
        (home / kind).mkdir()
        visits.at_home(home / kind)
    with ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=str(home / "ray"), object_store_memory=10**8
    ):
        rows = ray.data.read_parquet(str(home / "rows"))
        found = {fault: faulted.under(Cluster(4), rows, home, fault) for fault in faults}
        if kinds:
            found["alike"] = alike((Cluster(4), Cluster(7)), rows, home)
            found["logs"] = logged(Cluster(), rows, home)
            found["order"] = faulted.refused((Cluster(4), Cluster(7)), rows, home, "order")
        return found


def check(*, cheap: bool) -> dict[str, dict[str, int]]:
    """The whole matrix; cheap: workers killed after their write. It wants `pip install ray`."""
    if cheap:
        pytest.importorskip("ray")
    with tempfile.TemporaryDirectory() as home:
        found = faulted.judged(faulted.alone("deep.ray", "cheap" if cheap else "whole", home))
    if not cheap:
        assert found["logs"]["keys in logs"] == 0 < found["logs"]["planted"]
        example = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
        assert "95 %" in example.stdout
    return found


if __name__ == "__main__":
    whole = sys.argv[1] == "whole"
    found = matrix(Path(sys.argv[2]), FAULTS if whole else ("after",), tuple(visits.KINDS) if whole else ())
    sys.stdout.write(f"{json.dumps(found)}\n")
