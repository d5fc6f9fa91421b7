# SPDX-License-Identifier: Apache-2.0
"""The page: what was released, what it tells about one person, what it cost, how to use it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from dpfast.app.report import pictures
from dpfast.app.report.facts import DRAWN, LABELS, ROWS, Balance, Facts, Noisy
from dpfast.app.report.markup import MINUS, attribute, bullets, ends, number, pairs, plain, table, text
from dpfast.app.report.ordered import places
from dpfast.app.report.scale import Scale
from dpfast.app.report.style import CSS, POLICY
from dpfast.app.report.subject import subject
from dpfast.privacy import formatting, meaning
from dpfast.privacy.belief import posterior
from dpfast.privacy.formatting import approximate, percent

Labels: TypeAlias = Sequence[tuple[str, Sequence[object]]]

EACH_ROW = "row"  # the unit where it has no name
COLUMNS = 5  # columns with noise that the page shows; each has a picture
NAMED = 12  # columns that a sentence names
PERCENT = "\N{NO-BREAK SPACE}%"
TALL = 30  # rows that stand open
SLACK = 10  # rows more that are not worth a way to them
SELECTED = (
    "A row is shown only where its noisy number is high. So numbers near the threshold are too high on average, and the "
    "true value is below the reach of the noise more often than the percentage says."
)
DOT, LINE = 0.013, 0.009  # parts of a scale that cover 7.5 of 580 px on a desk, and 2 of 221
LONG = 12  # letters of a fraction that nobody reads
DEFINED = {
    "mechanism": "how the noise is drawn",
    "epsilon": "bound on the privacy loss, for this column",
    "delta": "probability that a privacy loss may exceed epsilon",
    "rho": "bound on the privacy loss in zero-concentrated differential privacy",
    "sigma": "parameter of Gaussian noise",
    "sigma_squared": "square of the parameter of Gaussian noise",
    "sensitivity": "how much one unit can change the column, all cells together",
    "l0": "cells of the column that one unit can change, at most",
    "linf": "how much one unit can change a cell, at most",
    "l1": "how much one unit can change the column, as a sum over cells",
    "l2": "how much one unit can change the column, in the Euclidean norm",
    "l2_squared": "square of the change in the Euclidean norm",
    "signed": "whether contributions may be negative",
    "granularity": "results are multiples of this",
    "bound": "values and results lie within ± this",
    "adjacency": "which data sets are neighbours",
    "unit": "the unit of privacy: whom the guarantee protects",
    "scale": "scale of the noise",
    "lower": "public lower bound of the noisy numbers",
    "upper": "public upper bound of the noisy numbers",
    "clamp": "public ends to which cells were clamped before the noise",
    "alone": "what one unit can change in cells that it alone has",
    "threshold": "a key is shown from this noisy number",
    "less": "what is subtracted from each value before it is added up",
    "step": "what a step of a sum is worth; sensitivity and scale are in steps",
    "pre_threshold": "a key needs so many units to be shown",
    "missing": "public number that stands in for missing cells",
    "secure": "whether the noise came from a secret random key",
    "stream_version": "version of the map from random digits to noise",
    "dpfast": "version of dpfast",
    "releases": "columns that share one sigma",
    "rho_spent": "the same spend in zero-concentrated differential privacy",
}


def page(facts: Facts) -> str:
    """Return the report as HTML: one file, without a script, and equal for equal facts.

    It loads nothing. dpfast/app/cli/report.py writes it, once OUT is whole.
    Raises: ValueError (columns of unequal lengths).
    """
    title = facts.title or f"Noisy {subject(facts.record, facts.noisy[0].name) or _kinds(facts.noisy)}: {facts.file}"
    parts = [
        f'<header><h1>{text(title, 200)}</h1>\n<p class="lead">{_lead(facts)}</p></header>\n<main>',
        *_claimed(facts),
        *_released(facts),
        *_numbers(facts),
        *_belief(facts),
        *_spent(facts),
        *_use(facts),
        *_mechanism(facts),
        "</main>",
        f"<footer><p>{_footer(facts)}</p></footer>",
    ]
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{attribute(title, 200)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
    )
    return head + "\n".join(parts) + "\n</body>\n</html>\n"


def _kinds(noisy: Sequence[Noisy]) -> str:
    """Such as "counts", or "means, sums and counts"."""
    *others, last = dict.fromkeys(each.what for each in noisy)
    return f"{', '.join(others)} and {last}" if others else last


def _names(names: Sequence[str], most: int = NAMED) -> str:
    """Names in a sentence."""
    said = ", ".join(text(name) for name in names[:most])
    return f"{said} and {len(names) - most:,} more" if len(names) > most else said


def _lead(facts: Facts) -> str:
    unit = text(facts.guarantee.unit)
    made = (
        "the true ones plus random noise" if any(map(_added, facts.noisy)) else "computed from counts with random noise"
    )
    made += "" if len({_added(each) for each in facts.noisy}) == 1 else ", or computed from such numbers"
    return (
        f"The {_kinds(facts.noisy)} on this page are {made}. The noise limits what anybody can "
        f"learn from them about any one {unit}. This is called differential privacy."
    )


def _claimed(facts: Facts) -> Iterator[str]:
    """What the promise rests on, and nobody can check."""
    if facts.each_row:
        unit = text(facts.guarantee.unit)
        other = "unit" if facts.guarantee.unit == EACH_ROW else unit
        yield (
            f'<p class="lead">Each row is taken for another {other}. Whoever released it says so; nothing has checked it.</p>'
        )


# ------------------------------------------------------------------ what was released


def _released(facts: Facts) -> Iterator[str]:
    yield "<h2>What was released</h2>"
    rows = [
        ("File", text(facts.file)),
        *([("Released", f"{_when(facts.balance)}, as the ledger has it")] if facts.balance else []),
        ("Rows", f"{facts.rows:,}"),
        ("Columns with noise", _names([each.name for each in facts.noisy])),
    ]
    if without := [*(name for name, _ in facts.labels), *facts.unshown]:
        rows.append(("Columns without noise", _names(without)))
    for each in facts.noisy[:COLUMNS] if facts.rows > ROWS else ():
        if each.least is not None and each.most is not None:
            digits = _digits(each)
            rows.append(
                (
                    f"Range of {text(each.name)}",
                    f"{number(each.least, digits)} to {number(each.most, digits)}, noise included",
                )
            )
    unit, adjacency = text(facts.guarantee.unit), facts.guarantee.adjacency
    who = (
        f"each {unit}, in the data or not"
        if adjacency == "add-remove"
        else f"the data of each {unit}, whatever they are"
    )
    rows.append(("Protects", f"{who} ({plain(adjacency)})"))
    rows.append(("Guarantee", plain(_amounts(facts))))
    yield pairs(rows)
    if facts.rows_are:
        yield f"<p>{plain(facts.rows_are)}</p>"


def _amounts(facts: Facts) -> str:
    """What all columns spend together, rounded up."""
    of = facts.guarantee
    if of.pure and of.epsilon is not None:
        return formatting.amounts({"epsilon": of.epsilon}, up=True)
    approximately = {} if of.epsilon is None else {"epsilon": of.epsilon, "delta": of.delta or Fraction(0)}
    zcdp = {"rho": of.rho, **({"delta": of.rho_delta} if of.rho_delta else {})}
    first, *others = [formatting.amounts(each, up=True) for each in (approximately, zcdp) if each]
    return f"{first} (or, counted in rho: {others[0].removeprefix('rho ')})" if others else first


# ------------------------------------------------------------------ the noisy table


def _digits(noisy: Noisy) -> int:
    """Digits after the point that a reader can use: a hundredth of an interval's width."""
    wide = max((float(b) - float(a) for a, b in zip(noisy.low, noisy.high, strict=True)), default=0.0)
    whole = all(isinstance(cell, int) for cell in (*noisy.cells, *noisy.low, *noisy.high))
    return 0 if whole or not 0 < wide < math.inf else min(12, max(0, 2 - math.floor(math.log10(wide))))


def _confidence(noisy: Noisy) -> str:
    return f"{100 * float(noisy.confidence):g}{PERCENT}"


def _numbers(facts: Facts) -> Iterator[str]:
    yield "<h2>The noisy table</h2>"
    shown = min([facts.rows, ROWS, *(len(each.cells) for each in facts.noisy)])
    labels = [(name, cells[:shown]) for name, cells in facts.labels]
    names = _row_names(labels, facts.index, shown)
    noisy = facts.noisy[:COLUMNS]
    if len(facts.noisy) > COLUMNS:
        yield f"<p>The page shows the first {COLUMNS} of {len(facts.noisy):,} columns with noise. {_whole(facts)}</p>"
    if not shown:
        yield "<p>The table has no rows.</p>"
    keys = labels[0][1] if labels else facts.index[:shown]
    at = places(keys) if len(keys) == shown else None
    drawn = shown if at else min(shown, max(12, DRAWN // len(noisy)))
    for place, each in enumerate(noisy if shown else ()):
        yield from _picture(facts, each, names[:drawn], at, f"picture-{place}")
    if shown:
        yield _table(facts, noisy, labels, names, shown)


def _row_names(labels: Labels, index: Sequence[str], shown: int) -> list[str]:
    if not labels:
        return [*index[:shown]] or [f"row {at + 1:,}" for at in range(shown)]
    first = [cells for _, cells in labels[:LABELS]]
    found: list[str] = []
    for most in range(1, len(first) + 1):
        found = [", ".join(map(str, row)) for row in zip(*first[:most], strict=True)]
        if len(set(found)) == shown:  # the first columns that tell the rows apart
            break
    return found


def _whole(facts: Facts) -> str:
    return f"The whole table is in {text(facts.file)}."


def _picture(facts: Facts, each: Noisy, names: list[str], at: list[float] | None, label: str) -> Iterator[str]:
    """at: where the keys stand, if they are a series."""
    n, digits = len(names), _digits(each)
    scale = Scale.of(each.cells[:n], each.low[:n], each.high[:n])
    holds = "the clamped true value" if each.parameters.get("clamp") else each.holds
    mark, reach = ("the line joins the noisy numbers", "the band") if at else ("a dot is the noisy number", "a line")
    if _selected(each):
        what = f"{reach} reaches as far as {_confidence(each)} of the noise does. {SELECTED}"
    else:
        which = "All intervals at once hold" if each.jointly else "Each interval holds"
        its = f"{'their intervals' if at else 'its interval'}{_hidden(each, scale, n, series=at is not None)}"
        within = ", if it lies within the bounds" if _bounded(each) else ""
        what = f"{reach} {its}. {which} {plain(holds)} with probability at least {_confidence(each)}{within}."
    more = "" if n == facts.rows else f" The first {n:,} of {facts.rows:,} rows are drawn."
    more += " Where a key is missing the line has a gap." if at and max(at) > n - 1 else ""
    if scale.beyond:
        several = len(scale.beyond) > 1
        more += f" The scale fits the others: {len(scale.beyond):,} number{'s lie' if several else ' lies'} beyond it, written beside an arrow."
    about = subject(facts.record, each.name)
    caption = f"{text(f'{about[:1].upper()}{about[1:]}' or each.name, 400)}: {mark}, {what}{more}"
    made = (
        pictures.series(names, at, each, scale, digits, label)
        if at
        else pictures.intervals(names, each, scale, digits, label)
    )
    yield f'<figure>\n<figcaption id="{label}">{caption}</figcaption>\n{made}\n</figure>'


def _hidden(each: Noisy, scale: Scale, n: int, *, series: bool) -> str:
    """Whether intervals are too narrow to be seen behind what is drawn on them."""
    mark, width = ("line", LINE) if series else ("dot", DOT)
    spans = [
        scale.share(each.high[place]) - scale.share(each.low[place]) for place in range(n) if place not in scale.beyond
    ]
    narrow = sum(span < width for span in spans)
    if not narrow:
        return ""
    return f", which the wider {mark} hides{'' if narrow == len(spans) else ' where it is narrow'}"


def _selected(each: Noisy) -> bool:
    """Whether rows were chosen by their noisy numbers, so that no interval holds as it would."""
    return each.parameters.get("threshold") is not None


def _bounded(each: Noisy) -> bool:
    return any(each.parameters.get(name) is not None for name in ("lower", "upper"))


def _table(facts: Facts, noisy: Sequence[Noisy], labels: Labels, names: list[str], shown: int) -> str:
    kept = labels[:LABELS]
    head = [f"{text(name)} <small>no noise</small>" for name, _ in kept] or ["row"]
    for each in noisy:
        what = "all at once" if each.jointly else "each"
        ends_are = f"interval <small>{_confidence(each)}, {what}</small>"
        if _selected(each):
            ends_are = f"reach <small>of {_confidence(each)} of the noise</small>"
        head += [f"{text(each.name)} <small>noisy</small>", ends_are]
    rows = []
    for at in range(shown):
        row = [_cell(cells[at]) for _, cells in kept] or [plain(names[at])]
        for each in noisy:
            digits = _digits(each)
            row += [number(each.cells[at], digits), ends(each.low[at], each.high[at], digits)]
        rows.append(row)
    figures = max(1, len(kept))
    part = "" if shown == facts.rows else f"The first {shown:,} of {facts.rows:,} rows. {_whole(facts)} "
    fine = "The file has more digits." if any(_digits(each) for each in noisy) else ""
    open_ = shown if shown <= TALL + SLACK else TALL
    of = f"{open_:,} of {facts.rows:,} rows" if open_ < facts.rows else f"{shown:,} row{'s' * (shown != 1)}"
    caption = f"Noisy numbers, and how far the noise may reach: {of}."
    made = table("noisy", caption, head, rows[:open_], figures=figures, wide=True)
    if open_ < shown:
        rest = f"Rows {open_ + 1:,} to {shown:,} of {facts.rows:,}"
        others = table("noisy-rest", f"{rest}.", head, rows[open_:], figures=figures, wide=True)
        made += f"\n<details><summary>{rest}</summary>\n{others}\n</details>"
    return f'{made}\n<p class="note">{part}{fine}</p>' if part or fine else made


def _cell(value: object) -> str:
    return "" if value is None else text(value)


# ------------------------------------------------------------------ what it tells about one person


def _belief(facts: Facts) -> Iterator[str]:
    of, unit = facts.guarantee, text(facts.guarantee.unit)
    yield f"<h2>What this tells about one {unit}</h2>"
    holds, sure = _sure(facts)
    yield f"<p>{_sentence(meaning.promise_in_words(of, holds, 'an upper bound'))}</p>"
    if sure is None:
        yield (
            "<p>No bound on beliefs is shown: it needs a pure epsilon, or a rho without a delta, that is not too large.</p>"
        )
        return
    epsilon, but_for = sure
    yield f"<p>The picture shows {plain(meaning.belief_in_words(of, epsilon, but_for))}</p>"
    most = [(p, *map(Fraction, posterior(p, epsilon))) for p in pictures.PRIORS]
    rows = [[percent(p, up=True), percent(low, up=False), percent(high, up=True)] for p, low, high in most]
    statement = plain(meaning.statement(of))
    caption = f"Belief {statement}, before and after this release. On the dashed line it would not change."
    drawn = pictures.belief(float(epsilon), "belief")
    made = table("beliefs", f"Belief {statement}.", ["before", "after: at least", "at most"], rows, figures=0)
    yield f'<div class="belief"><figure><figcaption id="belief">{caption}</figcaption>\n{drawn}</figure>\n<div>{made}</div></div>'
    yield (
        "<p>The bound holds whatever else a reader knows. It does not bound what the numbers say about people at large: "
        "such facts would come out with or without any one of them.</p>"
    )


def _sure(facts: Facts) -> tuple[tuple[Fraction, Fraction] | None, tuple[Fraction, Fraction] | None]:
    """An (epsilon, delta) that holds, and a bound on the loss with the share that may exceed it."""
    of = facts.guarantee
    if not of.pure and of.rho > meaning.MOST_RHO:
        return None, None
    if of.epsilon is not None and of.delta is not None:
        holds = of.epsilon, of.delta
    else:
        delta = max(meaning.EXAMPLE_DELTA, 2 * of.rho_delta)
        holds = Fraction(of.approximate(delta).epsilon or 0), delta
    if facts.belief is not None or of.rho_delta:
        return holds, facts.belief
    return holds, meaning.largest_loss(of, holds)


def _sentence(said: str) -> str:
    return plain(said[:1].upper() + said[1:])


# ------------------------------------------------------------------ what was spent


def _spent(facts: Facts) -> Iterator[str]:
    unit = text(facts.guarantee.unit)
    yield "<h2>What was spent, and what is left</h2>"
    if facts.balance is None:
        yield (
            f"<p>This release spends {plain(_amounts(facts))} per {unit}. No ledger kept count of it. If other releases are about "
            f"the same data, what they spend adds up.</p>"
        )
        return
    yield from _balance(facts.balance, unit)


def _balance(of: Balance, unit: str) -> Iterator[str]:
    label = f", with the label {text(of.label)}" if of.label else ""
    yield (
        f"<p>The ledger of {text(of.dataset)} has a fixed budget per {unit}. This release is its charge number "
        f"{of.number:,}{label}, of {_when(of)}. Spent is rounded up, and left is rounded down.</p>"
    )
    names = [name for name, most in of.budget.items() if most or of.charged.get(name)]
    for name in names:
        most = of.budget[name]
        if most:
            now, before = of.charged[name] / most, (of.spent[name] - of.charged[name]) / most
            said = f"{name}: {_share(before)} of the budget was spent before, {_share(now)} by this release"
            yield f'<p class="note">{plain(said)}</p>'
            yield pictures.meter(float(before), float(now), said)
    rows = [
        [
            plain(name),
            *(formatting.amount(kept[name], up=True) for kept in (of.charged, of.spent)),
            formatting.amount(of.left[name], up=False),
            formatting.amount(of.budget[name], up=True),
        ]
        for name in names
    ]
    head = ["amount", "this release", "spent in all", "left", "budget"]
    yield table("ledger", "The ledger just after this release.", head, rows, figures=1, wide=True)


def _when(of: Balance) -> str:
    return f"{plain(of.time.replace('T', ' ').removesuffix('Z'))} UTC"


def _share(part: Fraction) -> str:
    return f"{approximate(100 * float(part), 3)} %"


# ------------------------------------------------------------------ how to use the numbers


def _use(facts: Facts) -> Iterator[str]:
    yield "<h2>How to use the numbers</h2>"
    yield bullets(_advice(facts))


def _advice(facts: Facts) -> Iterator[str]:
    first = next((each for each in facts.noisy if _added(each)), facts.noisy[0])
    if any(map(_selected, facts.noisy)):
        yield f"<strong>Only high numbers are shown.</strong> {SELECTED} A row that is missing may have a true value above 0."
    else:
        yield "<strong>Use intervals.</strong> A noisy number alone is not a fact. " + _intervals(facts)
    for names, of in _alike(facts.noisy, lambda each: list(each.widths.items())):
        widths = ", ".join(f"{plain(what)} within {plain(width)}" for what, width in of.widths.items())
        if widths:
            yield f"<strong>Noise of {names}.</strong> With probability 95{PERCENT}: {widths}."
    yield from _bounds(facts)
    if first.stddev is not None and _added(first):
        yield from _arithmetic(facts, first, first.stddev)
    yield (
        "<strong>What you compute costs nothing.</strong> Results of these numbers and of public ones alone tell no more "
        "about anyone. A new release of the same data does, and what it spends adds up."
    )
    yield from (plain(note) for note in facts.notes)


def _added(each: Noisy) -> bool:
    """Whether its noise was added to its numbers, and so has a known width."""
    return each.stddev is not None and not math.isnan(each.stddev)


def _arithmetic(facts: Facts, first: Noisy, stddev: float) -> Iterator[str]:
    """What to know before numbers are added up or divided."""
    yield (
        "<strong>Do not round or clamp again.</strong> Keep negative numbers and all digits while you compute, and round only "
        "what you print. Rounding or clamping each cell adds errors that do not cancel in sums."
    )
    if facts.rows > 1 and min(len(each.cells) for each in facts.noisy):
        total = stddev * math.sqrt(facts.rows)
        yield (
            f"<strong>Sums of cells.</strong> The noise of a sum of k cells of {text(first.name)} has the standard deviation "
            f"√k × {approximate(stddev, 3)}; for all {facts.rows:,} cells it is {approximate(total, 3)}. This is much less than the sum of the "
            "half-widths. A total that was released with its own noise is better still."
        )
        yield (
            "<strong>Differences and ratios.</strong> A difference of two cells has √2 times the noise of one. A ratio "
            "means little if its denominator is not many half-widths from 0."
        )


def _intervals(facts: Facts) -> str:
    first = facts.noisy[0]
    share = 1 - first.confidence
    if first.jointly:
        return f"All intervals of a column hold at once with probability at least {_confidence(first)}."
    if facts.rows * share < 1:
        return f"Each interval misses with probability at most {formatting.plain(100 * share)}{PERCENT}."
    better = "the half-width for all cells at once" if first.stddev is not None else "intervals that hold all at once"
    return (
        f"Each interval misses with probability at most {formatting.plain(100 * share)}{PERCENT}, so about {approximate(float(facts.rows * share), 2)} of the "
        f"{facts.rows:,} intervals of a column may miss. For statements about many rows use {better}."
    )


def _bounds(facts: Facts) -> Iterator[str]:
    """What public bounds do to the numbers, by what they are."""
    for names, of in _alike(facts.noisy, _of("mechanism", "lower", "upper", "less")):
        low, high = of.parameters.get("lower"), of.parameters.get("upper")
        if of.parameters.get("mechanism") == "snapping":
            yield f"<strong>Clamped by snapping.</strong> It clamps {names} to its bound, before and after the noise."
        elif low is None and high is None and not _selected(of) and of.stddev is not None:
            small = "" if of.parameters.get("less") else " A negative number stands for a small one."
            yield f"<strong>Not clamped after the noise.</strong> So each number of {names} is right on average.{small}"
        if low is None and high is None:
            continue
        sides = (("below", low), ("above", high))
        said = ", and ".join(f"{word} {_value(end)} are set to {_value(end)}" for word, end in sides if end is not None)
        yield (
            f"<strong>Clamped after the noise.</strong> Numbers of {names} {said}. Numbers near a bound are biased "
            "inwards on average, and so are sums of many of them. Intervals allow for it, if the true value "
            "lies within the bounds."
        )
    for names, of in _alike(facts.noisy, _of("clamp", "missing")):
        clamp, missing = of.parameters.get("clamp"), of.parameters.get("missing")
        if isinstance(clamp, Sequence) and len(clamp) == 2:
            yield (
                f"<strong>Clamped before the noise.</strong> Cells of {names} were clamped to {_value(clamp[0])} … "
                f"{_value(clamp[1])}. The intervals are for the clamped cells: where cells were outside, the numbers are biased inwards."
            )
        if missing is not None:
            yield f"<strong>Missing cells.</strong> Missing cells of {names} count as {_value(missing)}, and have noise, too."


def _of(*names: str) -> Callable[[Noisy], object]:
    return lambda each: [each.parameters.get(name) for name in names]


def _alike(noisy: Sequence[Noisy], about: Callable[[Noisy], object]) -> Iterator[tuple[str, Noisy]]:
    """The names of columns that are alike in something, and the first of them."""
    found: dict[str, list[Noisy]] = {}
    for each in noisy:
        found.setdefault(repr(about(each)), []).append(each)
    for alike in list(found.values())[:COLUMNS]:
        yield _names([each.name for each in alike]), alike[0]


def _value(value: object) -> str:
    """A public number, exactly."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("-", MINUS)
    return number(value) if isinstance(value, int) else text(value)


# ------------------------------------------------------------------ mechanism, parameters, versions


def _mechanism(facts: Facts) -> Iterator[str]:
    yield "<h2>Mechanism, parameters, versions</h2>"
    groups: dict[str, tuple[Mapping[str, object], list[str]]] = {}
    for each in facts.noisy:
        own: Mapping[str, object] = {name: value for name, value in each.parameters.items() if name != "column"}
        groups.setdefault(json.dumps(own, sort_keys=True, default=str), (own, []))[1].append(each.name)
    for at, (own, names) in enumerate(list(groups.values())[:COLUMNS]):
        rows = [
            [f"{plain(name)} <small>{plain(DEFINED.get(name, ''))}</small>", _parameter(value)]
            for name, value in own.items()
            if value is not None
        ]
        yield table(
            f"parameters-{at}", f"Exact parameters of {_names(names)}.", ["parameter", "value"], rows, figures=2
        )
    said = "\n".join(map(plain, json.dumps(facts.record, indent=2, default=str).split("\n")))
    yield (
        "<details><summary>The record of the release, as JSON</summary>\n"
        f'<pre class="scroll" role="region" aria-label="record as JSON" tabindex="0"><code>{said}</code></pre></details>'
    )


def _parameter(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " to ".join(_parameter(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(name)} {_parameter(each)}" for name, each in value.items())
    if isinstance(value, (int, float)):
        return _value(value)
    if re.fullmatch(r"\d+/\d+", str(value)) and len(str(value)) > LONG:
        return f"about {approximate(float(Fraction(str(value))))}; exactly {text(value, 400)}"
    return text(value, 400)


def _footer(facts: Facts) -> str:
    versions = dict.fromkeys(str(each.parameters["dpfast"]) for each in facts.noisy if "dpfast" in each.parameters)
    made = f" {plain(', '.join(versions))}" if versions else ""
    return f"Made by dpfast{made} together with {text(facts.file)}. The page has no script and loads nothing."
