# SPDX-License-Identifier: Apache-2.0
"""What a record says, as far as it is what a record can say. Nothing of it is believed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, cast

import dpfast
from dpfast.app.report.markup import LONGEST
from dpfast.counts.records.bounded_histogram import CAPS
from dpfast.errors import DpfastError, FileError
from dpfast.noise.mechanisms import laws
from dpfast.privacy import meaning
from dpfast.privacy.formatting import amount, amounts, approximate, cost, plain, plus_minus
from dpfast.privacy.guarantee import called
from dpfast.privacy.parameters import exact_real

NUMBER = re.compile(r"-?[0-9]{1,1200}(/[0-9]{1,1200})?")
LARGEST = Fraction(2) ** 1000  # nobody has a use for a larger number, or one nearer to 0
COLUMNS = 10_000
COSTS = "epsilon", "delta", "rho"
FIGURES = "sensitivity", "bound", "granularity", "threshold", "lower", "upper", "clamp", "missing"
ALIKE = 1e-6  # what two figures for one scale may differ by
SHOWN = 100  # letters of a text


class _Odd(Exception):  # noqa: N818  what cannot be a record
    """Why."""


class Column(NamedTuple):
    """A column with noise. entry: the record's. noise: a mechanism of that noise, if it is known.

    step: what a step of its noise is worth. tree: whether it has quantiles, read from a tree.
    """

    name: str
    entry: Mapping[str, Any]
    noise: Any
    step: Fraction

    @property
    def tree(self) -> bool:
        return bool(self.entry["mechanism"] == "tree")

    def within(self, confidence: Fraction, cells: int = 1) -> Fraction | None:
        """The half-width of an interval."""
        return None if self.noise is None else Fraction(self.noise.interval(confidence, cells=cells)) * self.step

    @property
    def stddev(self) -> float:
        return float(self.noise.stddev * float(self.step))

    def law(self) -> str:
        """How its noise is drawn, in a line."""
        name = str(self.entry["mechanism"]).replace("_", " ")
        spent = {each: _number(self.entry[each]) for each in COSTS if self.entry.get(each) is not None}
        said = [cost(nonzero, plain)] if (nonzero := {each: value for each, value in spent.items() if value}) else []
        said += [f"{each} {_shown(self.entry[each])}" for each in FIGURES if self.entry.get(each) is not None]
        said += [f"in steps of {_shown(self.entry['step'])}"] if self.step != 1 else []
        if isinstance(levels := self.entry.get("levels"), list):
            said.append(f"{len(levels)} levels")
        wide = [] if self.noise is None else [f"standard deviation {approximate(self.stddev)}"]
        return ", ".join([name, *said, *wide])


class Stated(NamedTuple):
    """Intervals, as a record states them. half_widths: of the columns for which it does."""

    confidence: Fraction
    half_widths: Mapping[str, Fraction]
    jointly: bool


class Said(NamedTuple):
    """A record that is read. intervals: those that it states. clamp: the ends of values.

    reach: by how much estimated rows up to a cell of values are off, but for 5 %, if it has
    quantiles and says of which cells.
    """

    record: Mapping[str, Any]
    columns: Sequence[Column]
    guarantee: dpfast.Guarantee
    intervals: Stated | None
    clamp: tuple[Fraction, Fraction] | None = None
    reach: int | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any], where: str) -> Said:
        """where: how messages name it. Raises: FileError (no record, or one that cannot be)."""
        try:
            return cls._of(_of_an_engine(record) if "spends" in record else record)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError, DpfastError, _Odd) as error:
            own = f": {error}" if isinstance(error, (DpfastError, _Odd)) else ""
            raise FileError(f"the record in {where} is not one of dpfast, or damaged{own[:200]}") from None

    @classmethod
    def _of(cls, record: Mapping[str, Any]) -> Said:
        entries = record["releases"]
        if not isinstance(entries, list) or not 1 <= len(entries) <= COLUMNS:
            raise _Odd("it names no columns with noise")
        columns = [_column(entry, _totals(record, entry) or _noise(entry)) for entry in entries]
        about = {(_text(each.entry["adjacency"]), _text(each.entry["unit"])) for each in columns}
        if len(about) > 1:
            raise _Odd("its columns protect different units")
        ((adjacency, unit),) = about
        costs = {name: _number(record[f"{name}_total"]) for name in COSTS if f"{name}_total" in record}
        if not costs.keys() & {"epsilon", "rho"} or not any(costs.values()):
            raise _Odd("it states no cost")
        guarantee = dpfast.Guarantee(adjacency=adjacency, unit=unit, **cast("Any", costs))
        _must_add_up([each.entry for each in columns], costs)
        found = cls(record, columns, guarantee, _stated(record, columns))
        if "clamp" in found.table:
            low, high = (_number(str(exact_real("clamp", _text(end)))) for end in found.table["clamp"])
            found = found._replace(clamp=(low, high))
        if "unit_name" in found.table:
            found = found._replace(guarantee=called(guarantee, _text(found.table["unit_name"])[:LONGEST]))
        return found._replace(reach=_reach(found))

    @property
    def table(self) -> Mapping[str, Any]:
        """What a histogram says of its table."""
        found = self.record.get("histogram")
        return found if isinstance(found, Mapping) else {}

    @property
    def whole_values(self) -> bool:
        """Whether its quantiles are whole numbers, where it says of which cells they are."""
        return all(each.denominator == 1 for each in (*(self.clamp or ()), _number(self.table["step"])))

    @property
    def selected(self) -> bool:
        """Whether rows are shown where their noisy number is high."""
        return any(each.entry.get("threshold") is not None for each in self.columns)

    @property
    def each_row(self) -> bool:
        return "unit_is" in self.table

    def cost(self) -> str:
        spent = {name: _number(self.record[f"{name}_total"]) for name in COSTS if f"{name}_total" in self.record}
        said = cost({name: value for name, value in spent.items() if value}, partial(amount, up=True))
        return f"{said} per {self.guarantee.unit}, {self.guarantee.adjacency}"

    def about(self) -> Iterator[tuple[str, str]]:
        """What it says of the release, by names."""
        yield "cost", self.cost()
        yield from self._of_table()
        if not all(_is_secure(each.entry) for each in self.columns):
            said = "this noise came from a fixed key for tests, or nothing says that it did not: it protects nobody"
            yield "WARNING", said
        known = {"releases", "histogram", "secure_means", *(f"{name}_total" for name in COSTS)}
        yield from _others(self.record, known)
        if made := dict.fromkeys(_shown(each.entry["dpfast"]) for each in self.columns if "dpfast" in each.entry):
            yield "made by", f"dpfast {_shown([*made])}"

    def _of_table(self) -> Iterator[tuple[str, str]]:
        table = self.table
        if self.each_row:
            yield "unit", "each row is another unit, as whoever released it says: nothing checked that"
        if table.get("by"):
            yield "keys", _shown(table["by"])
        caps = [f"{name.replace('_', '-')} {_shown(table[name])}" for name in CAPS if name in table]
        if caps and not self.each_row:
            yield "one unit counts", f"with {', '.join(caps)}; what it has beyond was left out"
        if self.selected:
            yield "rows", "the keys whose noisy number reached the threshold"
        elif table.get("cells") == 1 and not table.get("by"):
            yield "rows", "one, the total"
        elif "cells" in table:
            yield "rows", f"all {_shown(table['cells'])} combinations of the keys, listed beforehand"
        yield from _others(table, {"by", "unit", "unit_name", "unit_is", "cells", *CAPS})

    def meaning(self) -> str:
        def delta_of(epsilon: Fraction) -> float:
            return float(self.guarantee.delta_at(epsilon))

        return meaning.promise_in_words(self.guarantee, meaning.example(self.guarantee, delta_of), "an upper bound")


def _is_secure(part: Any) -> bool:
    """Whether it, or each part of it, says that its noise came from a secret key."""
    if not isinstance(part, Mapping):
        return False
    if "secure" in part:
        return part["secure"] is True
    levels = part.get("levels")
    return isinstance(levels, list) and bool(levels) and all(map(_is_secure, levels))


def _others(part: Mapping[str, Any], known: set[str]) -> Iterator[tuple[str, str]]:
    """What is said beside what is known, by other kinds of release too; as much as people read."""
    others = [name for name in part if name not in known]
    yield from ((_shown(name), _shown(_readable(name, part[name]))) for name in others[:SHOWN])
    if len(others) > SHOWN:
        yield "and", f"{len(others) - SHOWN:,} more, which --json has"


def _readable(name: str, value: Any) -> Any:
    """The part of what is long that people read; --json has all of it."""
    with suppress(LookupError, TypeError, AttributeError, _Odd):
        if name == "intervals":
            half = value.get("half_width", {})
            each = half.items() if isinstance(half, Mapping) else [("", half)]
            ends = [f"{column} {plus_minus(_number(part))}".strip() for column, part in each]
            return ", ".join([f"{100 * float(_number(value['confidence'])):g} % of {value['of']}", *ends])
        if name == "ledger":
            budget = {each: _number(value[each]) for each in COSTS if each in value}
            return f"{value['dataset']}, of {amounts(budget, up=False)} in all per {value['unit']}"
        if name == "manifest":
            return f"drawn under a key, label {value['label']}"
    return value


def _of_an_engine(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of an engine's output, as a record."""
    spends, release = facts["spends"], facts["release"]
    totals = {f"{name}_total": spends[name] for name in ("epsilon", "delta") if name in spends}
    if (rho := spends.get("rho_spent", spends.get("rho"))) is not None:
        totals["rho_total"] = rho
    own = {"column": facts["number"], **spends, "dpfast": facts["dpfast"], "threshold": facts["threshold"]}
    table = {"by": facts["keys"], **{name: release["terms"][name] for name in CAPS if name in release["terms"]}}
    if facts["threshold"] is None:
        table["cells"] = math.prod(release["size"])
    files = facts["files"]
    found = {
        **totals,
        "histogram": table,
        "releases": [own | ({} if facts["granularity"] in (None, "1") else {"step": facts["granularity"]})],
        "label": release["label"],
    }
    return {**found, "files": len(files), "rows_in_them": sum(int(each["rows"]) for each in files)}


def _stated(record: Mapping[str, Any], columns: Sequence[Column]) -> Stated | None:
    """Raises: _Odd."""
    found = record.get("intervals")
    if not isinstance(found, Mapping) or "confidence" not in found:
        return None
    half: Any = found.get("half_width", {})
    each = half if isinstance(half, Mapping) else {columns[0].name: half} if len(columns) == 1 else {}
    widths = {str(name): _number(part) for name, part in each.items()}
    stated = Stated(_number(found["confidence"]), widths, str(found.get("of")).endswith("jointly"))
    if not 0 < stated.confidence < 1 or min(widths.values(), default=0) < 0:
        raise _Odd("its intervals cannot be")
    return stated


def _reach(said: Said) -> int | None:
    """How far estimated rows up to a cell are off, at most. Raises: DpfastError, _Odd (no tree)."""
    from dpfast.app.cli.quantiles import reach_of  # late, for trees

    trees = [each.entry for each in said.columns if each.tree]
    if len(trees) != 1 or said.clamp is None or "step" not in said.table:
        return None
    levels = [_noise(level) for level in trees[0]["levels"]]
    return None if None in levels else reach_of(said.clamp, _number(said.table["step"]), levels, said.guarantee)


def _must_add_up(entries: Sequence[Mapping[str, Any]], costs: Mapping[str, Fraction]) -> None:
    """Raises: _Odd (what all of them spend is not what each does, as far as each says so)."""
    together = all("releases" in entry for entry in entries)  # one sigma: each says what all spend
    if together and any(entry["releases"] != len(entries) for entry in entries):
        costs = {name: value for name, value in costs.items() if name == "rho"}
    elif "epsilon" in costs:
        costs = {"delta": Fraction(0), **costs}
    for name, stated in costs.items():
        each = [spent for entry in entries if (spent := _spent(entry, name)) is not None]
        if len(each) < len(entries):
            continue
        wanted = each if together and name != "rho" else [sum(each)]
        if any(abs(stated - one) > ALIKE * max(stated, one) for one in wanted):
            raise _Odd(f"its {name} in all is not what its parts spend")


def _spent(entry: Mapping[str, Any], name: str) -> Fraction | None:
    """By a column or a level; None if it does not say so."""
    if name == "delta" and entry.get("epsilon") is not None:
        return _number(entry.get("delta") or 0)
    value = entry.get("rho_spent", entry.get("rho")) if name == "rho" else entry.get(name)
    return None if value is None else _number(value)


def _column(entry: Mapping[str, Any], noise: Any) -> Column:
    step = _number(entry["step"]) if entry.get("step") is not None else Fraction(1)
    for name in ("epsilon", "delta", "rho", "sigma_squared", "sensitivity", "step"):
        if entry.get(name) is not None and _number(entry[name]) < 0:
            raise _Odd(f"{name} is negative")
    if noise is not None and "scale" in entry and not math.isclose(noise.scale, entry["scale"], rel_tol=ALIKE):
        raise _Odd("its scale is not that of its noise")
    if {"sigma_squared", "l2_squared", "rho_spent"} <= entry.keys():
        change, squared, rho = (_number(entry[name]) for name in ("l2_squared", "sigma_squared", "rho_spent"))
        if abs(change / (2 * squared) - rho) > ALIKE * rho:
            raise _Odd("its rho is not that of its noise")
    found = Column(_text(entry.get("column", "")), {**entry, "mechanism": _text(entry["mechanism"])}, noise, step)
    if not step or (noise is not None and not math.isfinite(found.stddev)):
        raise _Odd("its noise is beyond reason")
    if found.tree and entry["adjacency"] == "add-remove":
        costs = {name: _number(entry[name]) for name in COSTS if entry.get(name) is not None}
        if levels := [level for level in entry.get("levels", []) if level is not None]:
            _must_add_up(levels, costs)
    return found


def _totals(record: Mapping[str, Any], entry: Mapping[str, Any]) -> Any:
    """The noise of running totals, which the manifest's terms give; None of what is none.

    Raises: DpfastError, _Odd.
    """
    if entry["mechanism"] != dpfast.RunningTotals.NAME or not isinstance(record.get("manifest"), Mapping):
        return None
    from dpfast.app.cli.running import Noise, made_of  # late, for totals alone

    found = Noise(made_of(record["manifest"]["terms"]), entry["after_step"])
    if not math.isclose(found.stddev, entry["stddev"], rel_tol=ALIKE):
        raise _Odd("its standard deviation is not that of its noise")
    return found


def _noise(entry: Mapping[str, Any]) -> Any:
    """The mechanism whose noise this is; None of one that is not known here."""
    name = entry["mechanism"]
    if "sigma_squared" in entry:
        kind: Any = dpfast.Gaussian if name == "gaussian" else dpfast.DiscreteGaussian
        how = {"granularity": _number(entry["granularity"])} if name == "gaussian" else {}
        return kind(sigma_squared=_number(entry["sigma_squared"]), **how)
    known = {each: law for each, law in laws.LAWS.items() if hasattr(law, "INTEGERS")}
    kind = dpfast.DiscreteLaplace if name == "thresholded" else known.get(str(name))
    if kind is None or "epsilon" not in entry or "sensitivity" not in entry:
        return None
    how = {each: _number(entry[each]) for each in ("granularity", "bound") if each in entry and name != "thresholded"}
    if name == "snapping":
        how.pop("granularity", None)
    return kind(_number(entry["epsilon"]), _number(entry["sensitivity"]), **how)


def _number(value: object) -> Fraction:
    """An exact number. Raises: _Odd."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _Odd("a figure is no number")
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise _Odd("a figure is no number")
    with suppress(ZeroDivisionError):
        if not (found := Fraction(value)) or 1 / LARGEST <= abs(found) <= LARGEST:
            return found
    raise _Odd("a figure is beyond reason")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _shown(value: object) -> str:
    """Any part of the record, cut."""
    if isinstance(value, Mapping):
        said = ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    elif isinstance(value, list):
        said = ", ".join(map(_shown, value[:SHOWN]))
    elif isinstance(value, str) and NUMBER.fullmatch(value) and "/" in value:
        with suppress(_Odd):  # a name that only looks like a figure
            return plain(_number(value))[:SHOWN]
        said = value
    else:
        said = str(value)
    return f"{said[: SHOWN - 1]}…" if len(said) > SHOWN else said
