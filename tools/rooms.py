# SPDX-License-Identifier: Apache-2.0
"""Moves the files of an older layout into the rooms of docs/design.md, and names them anew in texts.

Run it at the root of a branch that was cut before the move, commit, then merge or rebase. A second
run finds nothing to do.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# The tests by the room that they are about. `csrc` and `house` (the tree itself) are no rooms of the package.
TESTS = {
    "csrc": "bounds build extension key_on_stack keys_are_wiped normal_bounds proofs self_check stream",
    "privacy": "accounting_units composition exact formatting gaussian_privacy guarantee meaning parameters record sensitivity"
    " special_cases weak_guarantee",
    "noise": "above_threshold arrays bit_generator bounded_counts changing_arrays constant_work discrete_gaussian discrete_laplace"
    " equals failure gaussian key laplace laws no_raw_store noise_source one_sided_geometric processes public_inputs random_bytes"
    " randomized_response real_arrays real_intervals saturation sealed selection shared_keys small snapping timing",
    "ledger": "ledger ledger_place ledger_races ledger_restored",
    "counts": "bounded_histogram bounded_rows fixed_point_sum postprocess small_worlds thresholded trees",
    "face": "attacks everyday_tasks hostile kept nothing_private_is_shown one_noise types",
    "adapters": "adapters frames adapter_arrow adapter_arrow_capsules adapter_columns adapter_diffprivlib adapter_dlpack"
    " adapter_dp_accounting adapter_opacus adapter_opendp adapter_pandas adapter_pipeline_dp adapter_polars adapter_smartnoise"
    " adapter_tumult",
    "engines": "jobs adapter_dask adapter_duckdb adapter_polars_lazy adapter_spark",
    "evidence": "audit bench sampler selftest statistics",
    "app": "atomic_write cli csv_text everyday_files files groups held histogram_again histogram_cli histogram_hostile"
    " histogram_worlds looks passed privatize_again privatize_hostile refused_cells report terminal unheard written_meanwhile",
    "house": "assurance deep examples fuzz gallery gof layers mutation package packaging sdist sentences site skips"
    " tests words",
}
TEXTS = {".py", ".md", ".c", ".h", ".sh", ".toml", ".gappa", ".sollya", ".json", ""}


def moves() -> dict[str, str]:
    """Old path to new path, of all that are to move."""
    found = {}
    for room, names in TESTS.items():
        for name in names.split():
            found[f"tests/test_{name}.py"] = f"tests/{room}/test_{name.removeprefix('adapter_')}.py"
    return found


def renamed(text: str, moved: dict[str, str]) -> str:
    """A text that names the new places."""
    for old, new in moved.items():
        text = re.sub(rf"(?<![\w/]){re.escape(old)}", new, text)
        before, after = Path(old).stem, Path(new).stem
        if before != after:
            text = re.sub(rf"\b{before}\b", after, text)
    return text


def main() -> None:
    there = {old: new for old, new in moves().items() if Path(old).is_file()}
    for old, new in there.items():
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", old, new], check=True)
    listed = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    for path in map(Path, listed):
        keeps_names = path.is_relative_to("docs/assurance") or path.name in {"CHANGELOG.md", "rooms.py"}
        if path.is_file() and path.suffix in TEXTS and not keeps_names:
            text = path.read_text(encoding="utf-8")
            if (new := renamed(text, moves())) != text:
                path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
