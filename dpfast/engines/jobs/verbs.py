# SPDX-License-Identifier: Apache-2.0
"""What a driver does: freeze, seal, reserve, draw, publish; and all of it again after a crash."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpfast import _native
from dpfast.counts.records.bounded_histogram import Bounds
from dpfast.counts.records.partitions import BUCKETS, Showing, Withheld, alone
from dpfast.counts.records.payment import Payment, checked_ledger
from dpfast.engines.jobs.engine import Engine, OneProcess
from dpfast.engines.jobs.folder import Folder
from dpfast.engines.jobs.keys import ipc, names_of, sort
from dpfast.engines.jobs.plan import Plan, differences, plan
from dpfast.engines.jobs.tasks import DOMAIN, Bound, Check, Digest, Draw, Freeze, Publish, domain_of, file_of, put, same
from dpfast.errors import DTypeError, FileError, KeptStageWarning, ParameterError, caller
from dpfast.noise.mechanisms.mechanism import Releasing
from dpfast.noise.release.blocks import BLOCK
from dpfast.noise.release.key import Chooser, KeyFile, ReleaseKey, release_key
from dpfast.noise.release.seal import VERSION, BlockDigest, Manifest, Seal
from dpfast.privacy.parameters import Real, flag
from dpfast.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dpfast.ledger import Ledger

TERMS, FROZEN = "terms.json", "frozen.json"  # files of a stage
MANIFEST = "_dpfast.json"  # the file of an output that lists the others
HERE = OneProcess()


class Counts:
    """Bounded counts or sums on a stage, frozen, not private yet.

    sensitivity: the change that the mechanism of a release must hide; None of counts that were made
        elsewhere. `repr` shows no value.
    """

    def __init__(self, terms: Plan, stage: Folder, hashes: dict[int, str], sensitivity: Sensitivity | None) -> None:
        self.terms, self.stage, self.hashes, self.sensitivity = terms, stage, hashes, sensitivity

    def __repr__(self) -> str:
        return f"<Counts of {self.terms.label!r} on {self.stage.place!r}, not private yet>"


def bounded_counts(
    rows: Any,
    *,
    unit: str,
    by: str | Sequence[str],
    key: ReleaseKey,
    stage: str | os.PathLike[str],
    domain: Any = None,
    buckets: int = BUCKETS,
    values: str | None = None,
    max_partitions: int | None = None,
    max_per_partition: int | None = None,
    max_contributions: int | None = None,
    lower: Real | None = None,
    upper: Real | None = None,
    granularity: Real | None = None,
    adjacency: str = "add-remove",
    privacy_unit: str = "person",
    chooser: Chooser | None = None,
    engine: Engine = HERE,
) -> Counts:
    """Freeze counts of rows by key, or sums of values, on a stage: `bounded_histogram`, in parts.

    rows: what the engine takes; of one process Arrow tables, batches or Parquet files. If the stage
        is complete they are not looked at.
    unit, by, values: columns: the ids of units, one or several of keys, and what is summed. None
        may hold nulls.
    domain: as of bounded_histogram; without it keys are unknown, and a release hides those that few
        have. buckets: of unknown keys: into how many a keyed hash puts them; it is published.
    stage: a folder of its own, private as the rows are: a path, or a URI. It is made, or begun
        again; what is on it is never replaced.
    max_partitions to privacy_unit: as of bounded_histogram (privacy_unit: its `unit`).
    chooser: `key.chooser()` of another release, to keep the keys and rows of a unit that it keeps:
        counts and sums are then of as many rows, and `postprocess.mean` is of them.

    All of these but rows, stage and engine are terms of the seal: a release of counts with another
    one under the label is refused by its name (docs/sealed.md).
    Raises: DTypeError, ParameterError (a column is not there, a stage of another release);
        FileError; UnusableValuesError, OtherInputError (the rows changed between two tries).
    """
    caps = max_partitions, max_per_partition, max_contributions
    bounds = Bounds(*caps, lower, upper, granularity, adjacency, privacy_unit)
    secret = release_key(key)
    probe(engine, secret)
    schema = engine.schema(rows)
    terms, names, sensitivity = plan(
        schema,
        secret,
        unit_column=unit,
        by=by,
        domain=domain,
        buckets=buckets,
        values=values,
        bounds=bounds,
        chooser=chooser,
    )
    folder = Folder(stage, private=True)
    folder.make()
    begin(folder, terms)
    if (hashes := kept(folder, terms)) is None:
        if names is not None and not folder.write(DOMAIN, ipc(names)):
            raise FileError(f"{folder.place} holds another domain: it is damaged")
        bucketer = None if terms.known else secret.bucketer(terms.size)
        freeze = Freeze(terms, folder)
        found = dict(engine.freeze(rows, Bound(terms, schema, chooser or secret.chooser(), bucketer, folder), freeze))
        found |= dict(engine.run(freeze, [j for j in range(terms.blocks) if j not in found]))
        hashes = [found[j] for j in range(terms.blocks)]
        if not folder.write(FROZEN, json.dumps(hashes).encode()):
            raise FileError(f"{folder.place} was frozen meanwhile, with other counts: begin on a stage of its own")
    return Counts(terms, folder, dict(enumerate(hashes)), sensitivity)


def kept(stage: Folder, terms: Plan) -> list[str] | None:
    """The hashes of a complete stage. Raises: FileError (damaged). Warns: KeptStageWarning."""
    hashes: list[str] | None = stage.facts(FROZEN, list)
    if hashes is None:
        return None
    if len(hashes) != (terms.blocks or len(hashes)) or not all(isinstance(each, str) for each in hashes):
        raise FileError(f"{FROZEN} in {stage.place} is damaged")
    warnings.warn(
        f"{stage.place} was frozen before this call, {stage.written(FROZEN)}: its counts are taken, and the rows are not "
        "read. Other rows need a stage and a label of their own",
        KeptStageWarning,
        stacklevel=caller(),
    )
    return hashes


def begin(folder: Folder, terms: Plan) -> None:
    """Write the terms on a stage that is empty, or compare. Raises: ParameterError, FileError."""
    if folder.read(TERMS) is None and folder.names():
        raise FileError(f"{folder.place} is neither empty nor a stage")
    if not folder.write(TERMS, terms.written()):
        differ = differences(terms, folder.facts(TERMS) or {})
        raise ParameterError(f"stage must be of this release, and on {folder.place} {'; '.join(differ):.400}")


def release(
    counts: Counts,
    mechanism: Any,
    *,
    key: ReleaseKey,
    ledger: Ledger | None,
    to: str | os.PathLike[str],
    resume: bool = False,
    engine: Engine = HERE,
) -> dict[str, Any]:
    """Seal the counts, reserve, draw their noise, publish: after any crash again, at one charge.

    mechanism: made for counts.sensitivity; of unknown keys `Withholding(epsilon, delta,
        counts.sensitivity)`, or GaussianWithholding if a unit has many keys. ledger: who pays; None
        says aloud that nobody does. to: a folder for the output, apart from the stage, empty or
        not there: Parquet files of 65,536 rows, sorted by key, and `_dpfast.json`, which is written
        last and lists them.
    resume: whether this is the release again that was begun under the key's label.

    Returns: what `_dpfast.json` holds.
    Raises: DTypeError, ParameterError; BudgetExhausted, LedgerError; KeyReuseError,
        OtherInputError; FileError. What is reserved stays spent: begin again with resume=True.
    Privacy: spends what the mechanism's guarantee says, once.
    """
    secret, again = _checked(counts, mechanism, key), flag("resume", resume)
    out = Folder(to)
    must_be_apart(counts.stage, out)
    there, begun = out.names(), again  # in this order, for another driver reserves before it writes there
    if ledger is not None:
        _must_be_of(checked_ledger(ledger, ", or None where nobody pays"), counts)
        begun = ledger.expect(secret, mechanism, resume=again)
    if there and not begun:
        why = "nothing of this release is reserved yet" if again else "resume=True continues what was begun there"
        raise FileError(f"{out.place} is not empty, and {why}: a release needs a folder of its own")
    out.make()
    probe(engine, secret)
    seal = seal_of(counts, mechanism, secret, engine)
    facts = _facts(counts, mechanism, seal)
    if (there := out.facts(MANIFEST)) is not None and not _alike(there, facts, "files"):
        raise ParameterError(f"{out.place} must be an output of this release, and is one of another")
    sealed = Payment(ledger, None, secret, again).sealed(seal)
    blocks, draw = list(counts.hashes), Draw(counts.terms, counts.stage, sealed, _showing(mechanism))
    if counts.terms.known:
        files = engine.run(Publish(draw, out), blocks)
    else:
        files = [put(out, j, table) for j, table in ranked(engine.run(draw, blocks), counts.terms)]
    facts["files"] = [{"name": name, "rows": rows} for name, rows in files]
    must_be_alone(out, facts["files"])
    if not out.write(MANIFEST, json.dumps(facts, indent=2).encode()):
        raise FileError(f"{MANIFEST} in {out.place} lists other files: damaged, or another's")
    return facts


def verify(
    to: str | os.PathLike[str], counts: Counts, mechanism: Any, *, key: ReleaseKey, engine: Engine = HERE
) -> None:
    """Draw an output again, and compare each of its files. Nothing is written, and nothing spent.

    counts, mechanism, key: those of the release: what an output says of itself is compared, never
    believed.
    Raises: FileError (a file differs, is missing, or is another's); OtherInputError (the stage was
        changed); DTypeError, ParameterError.
    """
    secret, out = _checked(counts, mechanism, key), Folder(to)
    if (written := out.facts(MANIFEST)) is None:
        raise FileError(f"{out.place} has no {MANIFEST}: no output, or its release was not finished")
    probe(engine, secret)
    seal = seal_of(counts, mechanism, secret, engine)
    if unlike := _unlike(written, seal.manifest):
        raise FileError(f"{out.place} was released {unlike}")
    draw = Draw(counts.terms, counts.stage, seal.without_ledger(resume=True), _showing(mechanism))
    blocks = list(counts.hashes)
    if counts.terms.known:
        files = engine.run(Check(draw, out), blocks)
    else:
        found = [(file_of(j), table) for j, table in ranked(engine.run(draw, blocks), counts.terms)]
        files = [(name, table.num_rows if same(out, name, table) else -1) for name, table in found]
    facts = {**_facts(counts, mechanism, seal), "files": [{"name": name, "rows": rows} for name, rows in files]}
    if not _alike(written, facts):
        raise FileError(f"{out.place} is not what this release gives")
    must_be_alone(out, facts["files"])


# ------------------------------------------------------------------ steps


def _checked(counts: Counts, mechanism: Any, key: Any) -> ReleaseKey:
    """The key, whose seal names the terms of the counts, if key and mechanism are for these.

    Raises: DTypeError, ParameterError.
    """
    if not isinstance(counts, Counts):
        raise DTypeError(f"counts must be those of bounded_counts, not {type(counts).__name__}")
    if not isinstance(mechanism, Releasing):
        raise DTypeError(f"mechanism must be one of dpfast's that release arrays, not {type(mechanism).__name__}")
    secret, terms = release_key(key), counts.terms
    if secret.id != terms.key:
        raise ParameterError(
            f"key must be that of the stage, which is of {terms.label!r:.60}, got {secret.label!r:.60}"
        )
    if isinstance(mechanism, Withheld) and terms.known:
        raise ParameterError("mechanism must be one that shows every key, because the domain is public")
    named = secret._naming(terms.public)  # noqa: SLF001
    if (change := counts.sensitivity) is None:
        return named
    if isinstance(mechanism, Withheld):
        if any(has < least for has, least in zip(mechanism.alone, alone(change), strict=True)):
            raise ParameterError("mechanism must be made for counts.sensitivity, or more")
        change = change.with_public_keys()
    mechanism._refuse_less(change)  # noqa: SLF001  the counts' own door
    return named


def _must_be_of(ledger: Ledger, counts: Counts) -> None:
    """Raises: ParameterError (the ledger's own refusal says `unit`, here the name of a column)."""
    unit = ledger.budget.unit
    if counts.sensitivity is not None and counts.sensitivity.unit != unit:
        raise ParameterError(
            f"privacy_unit must be the unit of the ledger, {unit!r:.60}, got {counts.sensitivity.unit!r:.60}: "
            f"bounded_counts(…, privacy_unit={unit!r:.60}), on a stage of its own"
        )


def must_be_apart(stage: Folder, out: Folder) -> None:
    """Raises: ParameterError (who is given the one gets the other)."""
    if out.meets(stage):
        raise ParameterError(
            f"to must be a folder apart from the stage, which is private: {out.place} is {stage.place}, holds it or lies in it"
        )


def must_be_alone(out: Folder, files: list[dict[str, Any]]) -> None:
    """Raises: FileError (another file is there, which a reader of the whole folder would take)."""
    listed = {each["name"] for each in files}
    if others := [name for name in out.names() if name not in listed and name[0] not in "._"]:
        raise FileError(f"{out.place} holds what is not of this release: {', '.join(map(repr, others)):.200}")


def _showing(mechanism: Any) -> Showing | None:
    return mechanism.showing if isinstance(mechanism, Withheld) else None


def seal_of(counts: Counts, mechanism: Any, key: ReleaseKey, engine: Engine) -> Seal:
    """The seal, from digests that workers make of the blocks."""
    terms, stage = counts.terms, counts.stage
    digests = engine.run(Digest(terms, stage, counts.hashes, key.digester(mechanism)), list(counts.hashes))
    return key.seal(mechanism, digests, **_size(terms, stage, digests))


def _size(terms: Plan, stage: Folder, digests: list[BlockDigest]) -> dict[str, Any]:
    """What a seal says of the rows: how many, their public names, or the number of buckets."""
    if terms.counted:
        return {"shape": (sum(each.rows for each in digests),)}
    return {"domain": names_of(domain_of(stage, terms.domain))} if terms.known else {"buckets": terms.size}


def ranked(kept: list[pa.Table], terms: Plan) -> list[tuple[int, pa.Table]]:
    """The rows shown of all buckets, sorted by key, in tables of fixed size by their rank."""
    table = sort(pa.concat_tables(kept), len(terms.by))
    return [(j, table.slice(j * BLOCK, BLOCK)) for j in range(-(-table.num_rows // BLOCK))]


def _facts(counts: Counts, mechanism: Any, seal: Seal) -> dict[str, Any]:
    """What is published of a release, beside its rows."""
    terms, how = counts.terms, counts.terms.how
    spends = mechanism.metadata()
    facts = {
        "dpfast": spends.pop("dpfast"),
        "release": seal.manifest.metadata(),
        "spends": spends,
        "keys": list(terms.by),
        "number": terms.number,
        "granularity": str(how.get("granularity") or 1),
        "threshold": mechanism.threshold if isinstance(mechanism, Withheld) else None,
    }
    found: dict[str, Any] = json.loads(json.dumps(facts))
    return found


def _unlike(written: dict[str, Any], about: Manifest) -> str:
    """How the manifest of an output differs, in words. It may have been edited."""
    try:
        return about.unlike(Manifest.of(written["release"]))
    except (TypeError, LookupError):
        return "with no manifest"


def _alike(one: dict[str, Any], other: dict[str, Any], *but: str) -> bool:
    """Whether two outputs say the same of themselves, whichever version of dpfast wrote them."""
    return {**one, **dict.fromkeys(("dpfast", *but))} == {**other, **dict.fromkeys(("dpfast", *but))}


# ------------------------------------------------------------------ workers


class Probe:
    """What a worker has: versions, and the key's file."""

    def __init__(self, key: ReleaseKey) -> None:
        self._label, self._id, self._place = key.label, key.id, key.place

    def __call__(self) -> dict[str, str | int]:
        """Raises: FileError (no key file there, or another's)."""
        from dpfast import __version__

        if self._place is not None and KeyFile(self._place).derive(self._label).id != self._id:
            raise FileError(f"the key file {self._place} holds another key on a worker")
        return {"dpfast": __version__, "stream": _native.STREAM_VERSION, "manifest": VERSION, "pyarrow": pa.__version__}


def probe(engine: Engine, key: ReleaseKey) -> None:
    """Look at all workers before a job. Raises: ParameterError, FileError."""
    check = Probe(key)
    here = check()
    for there in engine.everywhere(check):
        for name, version in here.items():
            if there.get(name) != version:
                raise ParameterError(
                    f"every worker must have {name} version {version}, as the driver has, and one has {there.get(name)}"
                )
