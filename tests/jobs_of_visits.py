# SPDX-License-Identifier: Apache-2.0
"""Jobs of made-up visits: their keys and counts, and engines that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import visits
from visits import KINDS

import dpfast
from dpfast.engines import jobs

ROWS = visits.visits()


def counted(home: Path, kind: str = "known", rows: Any = ROWS, name: str = "a", **changed: Any) -> jobs.Counts:
    key = dpfast.KeyFile(home / "visits.key").derive(changed.pop("label", kind))
    return jobs.bounded_counts(
        rows, **{"unit": "user", "key": key, "stage": home / f"{name}.stage", **KINDS[kind], **changed}
    )


def key_of(home: Path, label: str = "known") -> dpfast.ReleaseKey:
    return dpfast.KeyFile(home / "visits.key").derive(label)
