# SPDX-License-Identifier: Apache-2.0
"""What a stage or an output says of itself: public terms, and never a count."""

from __future__ import annotations

from typing import Any

from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.verbs import FROZEN, MANIFEST, TERMS
from dpfast.errors import FileError
from dpfast.noise.release.seal import BUCKETS


def about(place: str) -> dict[str, Any]:
    """The facts of a stage or of an output, JSON-able. Raises: FileError (it is neither)."""
    folder = Folder(place)
    for name, facts in ((TERMS, _stage), (MANIFEST, _output)):
        if (written := folder.facts(name)) is not None:
            try:
                return facts(folder, written)
            except (LookupError, TypeError):
                raise FileError(f"{name} in {folder.place} is damaged") from None
    raise FileError(f"{folder.place} is neither a stage nor an output: it has no {TERMS} and no {MANIFEST}")


def _stage(folder: Folder, terms: dict[str, Any]) -> dict[str, Any]:
    how = {name: value for name, value in terms["how"].items() if value is not None}
    frozen = folder.written(FROZEN)
    begun = {"stage of": terms["label"], "complete": frozen is not None, "frozen": frozen, "key id": terms["key"]}
    if not terms["unit"]:
        return {**begun, "keys": terms["by"], "counts": f"{terms['values']}, counted elsewhere"}
    return {
        **begun,
        "units in": terms["unit"],
        "keys": terms["by"],
        "counts": "rows" if terms["values"] is None else f"the sum of {terms['values']}",
        "size": f"{terms['size']:,} {'public keys' if terms['domain'] else 'buckets of unknown keys'}",
        **how,
    }


def _output(_: Folder, facts: dict[str, Any]) -> dict[str, Any]:
    release, spends = facts["release"], facts["spends"]
    return {
        "output of": release["label"],
        **{name: value for name, value in spends.items() if isinstance(value, (str, int)) and name != "secure"},
        "keys": facts["keys"],
        "granularity": facts["granularity"],
        "threshold": facts["threshold"],
        "size": f"{release['size'][0]:,} {'buckets of unknown keys' if release['kind'] == BUCKETS else 'public keys'}",
        "rows": sum(each["rows"] for each in facts["files"]),
        "files": len(facts["files"]),
    }
