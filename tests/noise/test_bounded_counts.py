# SPDX-License-Identifier: Apache-2.0
"""Bounded counts know their sensitivity at every door, whatever NumPy has made of them since.

A table of what can be made of counts, by doors: what has the same cells is refused if the noise is
too small, and what has others passes. What loses its sensitivity on the way is said in
docs/records.md. Doors are found by their signatures.
"""

from __future__ import annotations

import ast
import copy
import gc
import itertools
import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from places import ROOT, VECTORS
from tiers import forget_labels, must_hide, replaced

import dpfast
from dpfast import DiscreteGaussian, DiscreteLaplace, Sensitivity
from dpfast.counts.running.steps import Cells
from dpfast.errors import ParameterError
from dpfast.noise.release.counts import BoundedCounts, Origin, origin_of
from dpfast.privacy.sensitivity import refuse_less

PACKAGE = Path(dpfast.__file__).parent
PAGE = " ".join((ROOT / "docs" / "records.md").read_text(encoding="utf-8").split())
OLD = VECTORS / "kept" / "objects.pickle"
REFUSAL = "must be made for", "made for a sensitivity", "counts of private keys", "contributions with"
CELLS, L0, LINF = 6, 3, 2
CAPS = {"max_partitions": L0, "max_per_partition": LINF}
PEOPLE = np.repeat(np.arange(40), CELLS)
ROWS = np.tile(np.arange(CELLS), 40)


KEY = dpfast.Key.generate().derive("choice of rows")


def histogram(**options: Any) -> dpfast.BoundedHistogram:
    return dpfast.bounded_histogram(ROWS, PEOPLE, **{"domain": range(CELLS), "key": KEY, **CAPS, **options})


# ------------------------------------------------------------------ what can be made of counts


class Derived(NamedTuple):
    """made: from counts. refused: with too little noise. said: the page's words that it passes."""

    made: Callable[[Any], Any]
    refused: bool
    said: str = ""


def kept(made: Callable[[Any], Any]) -> Derived:
    return Derived(made, refused=True)


def other(made: Callable[[Any], Any]) -> Derived:
    """It has no cell of the counts."""
    return Derived(made, refused=False)


def lost(made: Callable[[Any], Any], said: str) -> Derived:
    return Derived(made, refused=False, said=said)


def _after_its_end(_: Any) -> Any:
    found = histogram()
    part = np.asarray(found.counts)[1:]
    del found
    gc.collect(1)  # it was made just now
    return part


def _in_its_memory(_: Any) -> Any:
    """New arrays, some of which lie where counts lay."""
    made = [histogram().counts.copy() for _ in range(8)]
    places = {each.__array_interface__["data"][0] for each in made}
    del made
    gc.collect(1)
    new = [np.arange(CELLS) for _ in range(64)]
    return next((each for each in new if each.__array_interface__["data"][0] in places), new[0])


def _written(counts: Any) -> Any:
    own = counts.copy()
    own[:] = 7
    return own


def _pandas(counts: Any) -> Any:
    return pytest.importorskip("pandas").Series(counts, index=list("abcdef"))


LESS, ENOUGH = Sensitivity(1, 1), Sensitivity(L0, LINF)
NOISE = DiscreteLaplace(1, ENOUGH)
DERIVED = {
    "itself": kept(lambda counts: counts),
    "a plain view": kept(np.asarray),
    "a view of a view": kept(lambda counts: np.asarray(np.asarray(counts)[1:])[1:]),
    "a slice": kept(lambda counts: counts[1:4]),
    "one bin": kept(lambda counts: counts[2:3]),
    "every other, backwards": kept(lambda counts: counts[::-2]),
    "a plain view of a slice": kept(lambda counts: np.asarray(counts[2:])),
    "reshape": kept(lambda counts: counts.reshape(2, 3)),
    "transpose": kept(lambda counts: counts.reshape(2, 3).T),
    "a transpose in a row": kept(lambda counts: counts.reshape(2, 3).T.reshape(-1)),
    "places": kept(lambda counts: counts[[0, 1, 4]]),
    "a plain view of places": kept(lambda counts: np.asarray(counts[[0, 1, 4]])),
    "a mask": kept(lambda counts: counts[np.arange(CELLS) > 2]),
    "take": kept(lambda counts: np.take(counts, [1, 2])),
    "copy": kept(lambda counts: counts.copy()),
    "copy.copy": kept(copy.copy),
    "deepcopy": kept(copy.deepcopy),
    "a plain view of a copy": kept(lambda counts: np.asarray(counts.copy())),
    "astype": kept(lambda counts: counts.astype(np.int32)),
    "another byte order": kept(lambda counts: counts.astype(">i8")),
    "another type of the memory": kept(lambda counts: counts.view(np.uint64)),
    "pickle": kept(lambda counts: pickle.loads(pickle.dumps(counts))),
    "pickle of a part": kept(lambda counts: pickle.loads(pickle.dumps(counts[1:3]))),
    "the pickled histogram": kept(lambda _: pickle.loads(pickle.dumps(histogram())).counts),
    "the copied histogram": kept(lambda _: copy.deepcopy(histogram()).counts),
    "a field replaced": kept(lambda _: replaced(histogram(), counts=np.arange(CELLS)).counts),
    "sort": kept(np.sort),
    "memoryview": kept(memoryview),
    "frombuffer": kept(lambda counts: np.frombuffer(counts, np.int64)),
    "Series": kept(_pandas),
    "the array of a Series": kept(lambda counts: _pandas(counts).to_numpy()),
    "written by hand": Derived(_written, refused=True, said="that you write into keeps its sensitivity"),
    "after del": kept(_after_its_end),
    "its memory, used again": other(_in_its_memory),
    "empty_like": other(np.zeros_like),
    "noisy": other(lambda counts: NOISE.release(counts, lower=0)),
    "noisy, in an array like it": other(lambda counts: NOISE.release(counts, lower=0, out=np.empty_like(counts))),
    "one number": lost(lambda counts: counts[2], "a single number (`counts[2]`)"),
    "list": lost(lambda counts: counts.tolist(), "a list"),
    "tuple": lost(tuple, "a list or a tuple"),
    "+ 0": lost(lambda counts: counts + 0, "arithmetic"),
    "sum over an axis": lost(lambda counts: counts.reshape(2, 3).sum(axis=0), "sums"),
    "cumsum": lost(np.cumsum, "`np.cumsum`"),
    "clip": lost(lambda counts: counts.clip(0, 9), "arithmetic"),
    "matrix product": lost(lambda counts: counts.dot(np.ones((CELLS, 2), np.int64)), "arithmetic"),
    "concatenate": lost(lambda counts: np.concatenate([counts, counts]), "`np.concatenate`"),
    "tile": lost(lambda counts: np.tile(counts, 2), "`np.tile`"),
    "np.array": lost(np.array, "`np.array(counts)`"),
    "np.copy": lost(np.copy, "`np.array(counts)`"),
    "Arrow": lost(pa.array, "columns of Arrow, Polars and DLPack"),
    "Polars": lost(
        lambda counts: pytest.importorskip("polars").Series(counts), "columns of Arrow, Polars and DLPack"
    ),
    "DLPack": lost(lambda counts: np.from_dlpack(counts.copy()), "columns of Arrow, Polars and DLPack"),
    "DataFrame": lost(lambda counts: _pandas(counts).to_frame("n"), "a DataFrame"),
}  # fmt: skip


# ------------------------------------------------------------------ doors


def _sealed(values: Any, law: Any) -> Any:
    """A plain array is sealed, and the counts are drawn."""
    key = dpfast.Key.generate().derive("visits")
    seal = key.seal(law, [key.digester(law)(0, np.array(values))], shape=np.shape(values))
    return seal.without_ledger().release(0, values)


def _paid(mechanism: Any, values: Any, folder: Path) -> Any:
    """Refused, it charges nothing."""
    place = folder / "budget.db"
    ledger = dpfast.Ledger(place, 10**6, delta="0.1", create=not place.exists())
    spent = ledger.spent
    try:
        return ledger.release(mechanism, values)
    except ParameterError:
        assert ledger.spent == spent
        raise


def _listed(values: Any, stated: Sensitivity) -> Any:
    return dpfast.thresholded(range(len(values)), values, epsilon=1, delta="1e-6", sensitivity=stated)


def _tree(values: Any, stated: Sensitivity) -> Any:
    secret = dpfast.Key.generate().derive("tree")
    return dpfast.tree(values, rho=1, branching=2, sensitivity=stated, key=secret)


@cache
def _totals(stated: Sensitivity, **options: Any) -> Any:
    return dpfast.RunningTotals(9, sensitivity=stated, rho=1, **options)


NEVER = "it promises nothing for counts"
DOORS: dict[str, Callable[[Any, Sensitivity, Path], Any]] = {
    "noise/mechanisms/mechanism.py release": lambda values, stated, _: DiscreteLaplace(1, stated).release(values),
    "… by Gaussian noise": lambda values, stated, _: DiscreteGaussian.from_zcdp(1, stated).release(values),
    "… of real values": lambda values, stated, _: dpfast.Laplace(1, stated).release(values.astype(float)),
    "… with a clamp": lambda values, stated, _: DiscreteLaplace(1, stated).release(values, clamp=(0, 9)),
    "… under a key": lambda values, stated, _: DiscreteLaplace(1, stated).release(values, key=dpfast.Key.generate().derive("a")),
    f"… of sigma alone: {NEVER}": lambda values, _, __: DiscreteGaussian(99).release(values),
    "ledger/ledger.py release": lambda values, stated, folder: _paid(DiscreteLaplace(1, stated), values, folder),
    "noise/mechanisms/above_threshold.py run": lambda values, stated, _: dpfast.AboveThreshold(1, stated, threshold=0).run(values),
    "noise/mechanisms/selection.py select": lambda values, stated, _: dpfast.NoisyMax(1, stated).select(values),
    "… by Gumbel noise, of one axis": lambda values, stated, _: dpfast.Exponential(1, stated).select(values),
    "… by exponential noise, of one axis": lambda values, stated, _: dpfast.PermuteAndFlip(1, stated).select(values, k=1),
    f"noise/mechanisms/randomized_response.py release: {NEVER}": lambda values, _, __: dpfast.RandomizedResponse(1, 1000).release(values),
    "counts/records/partitions.py thresholded": lambda values, stated, _: _listed(values, stated),
    "counts/trees/release.py tree": lambda values, stated, _: dpfast.tree(values, epsilon=1, sensitivity=stated),
    "… by Gaussian noise, a tree under a key": lambda values, stated, _: _tree(values, stated),
    "counts/running/steps.py frozen": lambda values, stated, _: Cells(range(len(values))).frozen(_totals(stated, per_unit_steps=9), values),  # parts are of more steps
    "noise/release/seal.py release": lambda values, stated, _: _sealed(values, DiscreteLaplace(1, stated)),
    "noise/release/key.py digester": lambda values, stated, _: dpfast.Key.generate().derive("a").digester(DiscreteLaplace(1, stated))(0, values),
}  # fmt: skip
# What takes counts by a parameter of such a name, and is inside one of these, or of other counts.
NO_DOORS = {
    "_native.py": "inside a release",
    "adapters/": "columns go through the mechanism's release",
    "engines/": "counts lie in files, whose job has a sensitivity of its own",
    "noise/mechanisms/integer.py": "for type checkers",
    "noise/mechanisms/noise_source.py": "for type checkers",
    "noise/mechanisms/real.py": "for type checkers",
    "counts/postprocess.py": "what is noisy",
    "counts/records/amounts.py": "rows",
    "counts/records/bounded_histogram.py": "rows",
    "counts/records/fixed_point.py": "rows",
    "counts/records/leaves.py": "rows",
    "counts/records/means.py means_of": "inside mean",
    "counts/records/partitions.py of": "inside thresholded",
    "counts/records/payment.py": "inside thresholded and tree",
    "counts/records/places.py": "rows",
    "counts/running/": "integers within a step, or one step after the other: tests/counts/test_running_totals.py",
    "noise/release/arrays.py": "inside a release",
    "noise/release/columns.py": "names",
    "noise/release/counts.py": "what is tested here",
    "noise/release/key.py sealing": "inside each of these",
    "noise/release/layout.py": "inside a release",
    "noise/release/names.py": "names",
    "noise/release/steps.py chain": "inside a step",
    "counts/trees/noise.py": "inside tree",
    "counts/trees/quantiles.py": "rows",
}
TAKEN = {"answers", "counts", "scores", "values"}
ELSEWHERE = (
    "evidence/audit/",
    "evidence/bench/",
    "app/cli/",
    "noise/kernels/",
    "app/pictures/",
    "privacy/",
    "app/report/",
    "evidence/selftest/",
    "app/tables/",
)
INSIDE = "privacy/exact/"  # looked at, wherever it is


def _taking_counts() -> set[str]:
    """Functions with a parameter of such a name, by file and name."""
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        elsewhere = name.startswith(ELSEWHERE) and not name.startswith(INSIDE)
        if elsewhere or not any(word in path.read_text() for word in TAKEN):
            continue
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                given = {one.arg for one in (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)}
                if given & TAKEN:
                    found.add(f"{name} {each.name}")
    return found


def test_every_door_is_here() -> None:
    known, taking = {name.partition(":")[0] for name in DOORS}, _taking_counts()
    assert {each for each in taking - known if not each.startswith(tuple(NO_DOORS))} == set()
    assert {each for each in known if each[0] != "…"} - taking == {"noise/release/key.py digester"}


COUNTS = histogram().counts
ONE_AXIS = "select", "tree", "thresholded", "one axis", "run"
NEEDS_ARRAYS = "randomized_response", "seal.py"
NEEDS_NUMBERS = "run"


def _can_take(door: str, values: Any) -> bool:
    if any(word in door for word in ONE_AXIS) and np.ndim(values) != 1:
        return False
    if any(word in door for word in NEEDS_ARRAYS) and type(values).__module__.startswith(("pandas", "pyarrow")):
        return False
    if NEEDS_NUMBERS in door and type(values).__module__.startswith("pyarrow"):
        return False
    return "real values" not in door or isinstance(values, BoundedCounts)


def _outcome(door: str, values: Any, stated: Sensitivity, folder: Path) -> str:
    try:
        DOORS[door](values, stated, folder)
    except dpfast.errors.DpfastError as error:
        refused = type(error) is ParameterError and any(each in str(error) for each in REFUSAL)
        return "refused" if refused else f"{type(error).__name__}: {error}"
    return "passes"


@pytest.mark.parametrize("door", DOORS)
def test_each_door_refuses_less_than_counts_need_and_nothing_else(door, tmp_path) -> None:
    """Each cell moves by up to 2, and noise for one cell by 1 is too small."""
    wrong = []
    for name, (made, refused, _) in DERIVED.items():
        if _can_take(door, values := made(COUNTS)):
            for stated, right in ((LESS, not refused), (ENOUGH, not refused or NEVER not in door)):
                if (found := _outcome(door, values, stated, tmp_path)) != ("passes" if right else "refused"):
                    wrong.append(f"{name}: {found}, of {stated}")
    assert not wrong, "\n".join(wrong)


def test_what_passes_is_said() -> None:
    assert [name for name, derived in DERIVED.items() if derived.said not in PAGE] == []


# ------------------------------------------------------------------ how much a part needs

WORLDS = [
    {"max_partitions": 1, "max_per_partition": 1},
    {"max_partitions": 2, "max_per_partition": 2},
    {"max_contributions": 3},
    {"max_partitions": 2, "max_per_partition": 2, "max_contributions": 3},
    {"max_partitions": 3, "values": [0] * 240, "lower": -1, "upper": 1},
]  # fmt: skip
MANY = 4


def _contributions(caps: dict[str, Any]) -> Any:
    """All that one unit may contribute to four cells."""
    low, high = (
        caps.get("lower", 0),
        caps.get("upper", 1) * caps.get("max_per_partition", caps.get("max_contributions", 1)),
    )
    found = np.array(list(itertools.product(range(low, high + 1), repeat=MANY)))
    few = (found != 0).sum(axis=1) <= caps.get("max_partitions", MANY)
    return found[few & (np.abs(found).sum(axis=1) <= caps.get("max_contributions", 99))]


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
@pytest.mark.parametrize("caps", WORLDS, ids=["one", "two by two", "three in all", "all caps", "signed"])
def test_a_part_needs_what_one_unit_can_change_in_it_and_no_more(caps, adjacency) -> None:
    """By all contributions of a unit, in L1 and in L2; a part is never dearer than the whole."""
    counts = histogram(
        **{"max_partitions": None, "max_per_partition": None, **caps}, domain=range(MANY), adjacency=adjacency
    ).counts
    units = _contributions(caps)
    moved = units if adjacency == "add-remove" else (units[:, None] - units[None]).reshape(-1, MANY)
    about = {"adjacency": adjacency}
    for cells in range(1, MANY + 1):
        part = np.abs(moved[:, :cells])
        l1, squared = int(part.sum(axis=1).max()), int((part**2).sum(axis=1).max())
        for values in (counts[:cells], counts[::-1][:cells]):
            DiscreteLaplace(1, l1, **about).release(values)
            DiscreteGaussian.from_zcdp(1, Sensitivity.from_l2(squared, **about)).release(values)
            with pytest.raises(ParameterError, match=f"l1 of at least {l1}, got one for"):
                DiscreteLaplace(1, l1 - Fraction(1, 2), **about).release(values)
            with pytest.raises(ParameterError, match=f"l2_squared of at least {squared}, got one for"):
                DiscreteGaussian.from_zcdp(1, Sensitivity.from_l2(squared - Fraction(1, 2), **about)).release(values)
    DiscreteLaplace(1, counts.origin.sensitivity).release(np.take(counts, [0, 1, 2, 3]))


def test_noise_for_all_cells_is_enough_for_a_part() -> None:
    """The check asks for more than it needs nowhere that shows: over a grid of both."""
    cells = [
        Sensitivity(*of, l1=l1, cells=many, adjacency=adjacency, signed=signed)
        for adjacency in ("add-remove", "substitution")
        for signed in (False, True)
        for of in itertools.product((1, 2, 3), (1, 2, 3))
        for l1 in (None, 2, 4)
        for many in (None, 3, 4)
    ]
    found, parts = 0, {whole: {Origin(whole).change(n) for n in range(1, 5)} for whole in cells}
    for whole, stated in itertools.product(parts, repeat=2):
        if whole.adjacency == stated.adjacency and _covers(whole, stated):
            found += 1
            assert all(_covers(part, stated) for part in parts[whole])
    assert found > 1000


@cache
def _covers(change: Sensitivity, stated: Sensitivity) -> bool:
    try:
        refuse_less(change, stated, stated.adjacency, stated.unit)
    except ParameterError:
        return False
    return True


BOUNDS = [
    Sensitivity(*of, l1=l1, cells=many, adjacency=adjacency, signed=signed)
    for adjacency in ("add-remove", "substitution")
    for signed in (False, True)
    for of in itertools.product((1, 2, 3), (Fraction(1, 2), 1, 2, 3))
    for l1 in (None, 2, 4)
    for many in (None, 1, 3)
]


@pytest.mark.parametrize("adjacency", ["add-remove", "substitution"])
def test_what_a_mechanism_promises_holds_for_counts_that_it_takes(adjacency) -> None:
    """Its epsilon, rho, and what it says of adding and removing, beside equal noise made for them.

    Counts of ten in one cell are not those of one in ten cells, though l1 is 10 in both.
    """
    bounds = [each for each in dict.fromkeys(BOUNDS) if each.adjacency == adjacency]
    laws = [(DiscreteLaplace(1, each), each.l1) for each in bounds]
    laws += [(DiscreteGaussian(2, sensitivity=each), None) for each in bounds]
    taken = 0
    whole = [each for each in bounds if each.contributes[1] >= 1]  # counts move by whole numbers
    for (law, l1), change in itertools.product(laws, whole[::2]):
        try:
            must_hide(law, change)
        except ParameterError:
            continue
        taken += 1
        same = DiscreteGaussian(2, sensitivity=change) if l1 is None else DiscreteLaplace(change.l1 / l1, change)
        for mine, theirs in ((law.guarantee, same.guarantee), (law.guarantee.add_remove, same.guarantee.add_remove)):
            if mine is not None and theirs is not None:
                assert mine.rho >= theirs.rho, (law, change)
                assert l1 is None or mine.epsilon >= theirs.epsilon, (law, change)
    assert taken > 300
    one_cell = histogram(max_partitions=1, max_per_partition=10)
    with pytest.raises(ParameterError, match="must be made for the worst change of the counts"):
        one_cell.release(DiscreteLaplace(1, Sensitivity(10, 1)))
    ten_cells = histogram(max_partitions=6, max_per_partition=1)
    for worse in (6, Sensitivity(1, 6)):
        assert ten_cells.release(DiscreteLaplace(1, worse)).size == CELLS


def test_a_cell_that_is_taken_twice_is_refused() -> None:
    """By places, and in windows; nothing bounds how often, so no noise is enough."""
    windows = np.lib.stride_tricks
    for twice in (
        COUNTS[[0, 0]],
        COUNTS.take([1, 2, 1]),
        np.asarray(COUNTS[[0, 0]])[:1],
        np.broadcast_to(COUNTS, (2, CELLS)),
        windows.sliding_window_view(COUNTS, 2),
        windows.as_strided(COUNTS, (2, 2), (0, 8)),
    ):
        with pytest.raises(ParameterError, match="values must contain each cell of the counts once"):
            DiscreteLaplace(1, 10**6).release(twice)
    own = COUNTS[:2].copy()
    for given in (COUNTS.take([3, 1], None, own), COUNTS.take([3, 1], out=own)):  # written, and not by places
        assert given is own
        assert own.tolist() == [COUNTS[3], COUNTS[1]]
    assert NOISE.release(windows.as_strided(COUNTS, (3,), (16,))).shape == (3,)
    with pytest.raises(ParameterError, match="contributions with|made for"):
        DiscreteLaplace(1, 1).release(windows.as_strided(COUNTS, (3,), (16,)))


# ------------------------------------------------------------------ private keys


@pytest.mark.parametrize("door", DOORS)
def test_counts_of_private_keys_go_to_thresholded_alone(door, tmp_path) -> None:
    """Whole: a refusal that knew how many keys occur would tell it."""
    counts, huge = histogram(domain=None).counts, Sensitivity(99, 99)
    for values in (counts, np.asarray(counts)[1:], counts[:1]):
        if not _can_take(door, values):
            continue
        expected = "passes" if "thresholded" in door else "refused"
        assert _outcome(door, values, huge, tmp_path) == expected
        if "thresholded" in door:
            assert _outcome(door, values, Sensitivity(L0 - 1, LINF), tmp_path) == "refused"


def test_a_threshold_hides_what_a_unit_contributes() -> None:
    """Under substitution two cells change, whether a unit contributes one of them or both."""
    counts = histogram(domain=range(2), max_partitions=2, max_per_partition=1, adjacency="substitution").counts
    one, both = (Sensitivity(*of, adjacency="substitution") for of in ((1, 2), (2, 1)))
    with pytest.raises(ParameterError, match="contributions with l0 of at least 2, got 1"):
        _listed(counts, one)
    assert _listed(counts, both).guarantee.delta == Fraction(1, 10**6)


# ------------------------------------------------------------------ adjacency, unit, direction


@pytest.mark.parametrize("door", DOORS)
def test_noise_for_another_neighbour_is_refused(door, tmp_path) -> None:
    about = {"substitution": {"adjacency": "substitution"}, "household": {"unit": "household"}}
    for other in about.values():
        stated = Sensitivity(99, 99, **other)
        found = _outcome(door, COUNTS, stated, tmp_path)
        assert found == "refused" or "must be that of the counts" in found


def test_sums_of_both_signs_are_not_monotonic() -> None:
    sums = dpfast.bounded_histogram([0, 1], [1, 2], values=[1, -1], lower=-1, upper=1, domain=[0, 1], max_partitions=1)
    one_way, both = (dpfast.NoisyMax(1, 1, monotonic=monotonic) for monotonic in (True, False))
    with pytest.raises(ParameterError, match="monotonic must be False for these counts"):
        one_way.select(sums.counts)
    assert both.select(sums.counts) in (0, 1)
    assert one_way.select(COUNTS // 9) in range(CELLS)


def test_a_tree_is_refused_for_its_sums_alone() -> None:
    """Each leaf moves by 1, and their sum by 3."""
    counts = histogram(max_per_partition=1).counts
    with pytest.raises(ParameterError, match="must be made for l1 of at least 3, got one for 1"):
        dpfast.tree(counts, epsilon=1, sensitivity=LESS)
    both = {"max_partitions": 2, "max_per_partition": 1, "adjacency": "substitution"}
    pair = histogram(domain=range(2), **both).counts  # two leaves change, by one unit of one leaf, or of two
    stated = Sensitivity(1, 1, adjacency="substitution")  # one leaf is less for who is added
    for publish in (
        DiscreteLaplace(1, stated).release,
        lambda counts: dpfast.tree(counts, epsilon=1, branching=2, root=True, sensitivity=stated),
        lambda counts: dpfast.tree(counts, epsilon=1, branching=2, sensitivity=stated),
    ):
        with pytest.raises(ParameterError, match="made for what one unit contributes|l1 of at least 2, got one for 1"):
            publish(pair)
    one = histogram(max_partitions=1, max_per_partition=1, adjacency="substitution")
    one.tree(epsilon=1, branching=2, root=True)  # the total moves by less than the leaves in all
    tree = dpfast.tree(counts, epsilon=1, branching=3, sensitivity=Sensitivity(3, 1))
    assert tree.estimates[0].size == CELLS


# ------------------------------------------------------------------ nothing writes into counts


def test_no_release_writes_into_counts() -> None:
    """Nor into a copy, so that no noisy array is taken for counts."""
    own = COUNTS.copy()
    with pytest.raises(ValueError, match="read-only"):
        COUNTS[0] = 1
    for values, out in (
        (COUNTS, COUNTS),
        (COUNTS, own),
        (own, own),
        ([0] * CELLS, np.asarray(own)),
        (np.zeros(CELLS, np.int64), np.asarray(own)),
    ):
        for law in (NOISE, DiscreteGaussian.from_zcdp(1, ENOUGH)):
            with pytest.raises(ParameterError, match="out must be an array of its own"):
                law.release(values, out=out)
        with pytest.raises(ParameterError, match="out must be an array of its own"):
            NOISE.release(values, out=out, lower=0)
    assert (own == COUNTS).all()
    assert type(np.add(COUNTS, 1, out=own)) is BoundedCounts
    assert type(NOISE.release(COUNTS)) is np.ndarray
    assert origin_of(NOISE.release(np.array(own), out=np.empty_like(own))) is None


def test_new_arrays_are_never_taken_for_counts() -> None:
    """A million, among which counts are made and go."""
    for _ in range(1000):
        counts = COUNTS.copy()
        assert not any(map(origin_of, map(np.empty, [CELLS] * 1000)))
    assert origin_of(counts) is not None


# ------------------------------------------------------------------ sums


def test_a_sum_knows_its_sensitivity(tmp_path) -> None:
    hours = dpfast.fixed_point_sum(np.array([2.5, 90.0]), lower=0, upper=10, granularity=1, adjacency="add-remove")
    total, enough = hours.total, DiscreteLaplace(1, hours.sensitivity)
    for same in (total, copy.copy(total), copy.deepcopy(total), pickle.loads(pickle.dumps(hours)).total):
        assert same == 12
        assert isinstance(same, int)
        assert enough.release(same).dtype == np.int64
        with pytest.raises(ParameterError, match="l1 of at least 10, got one for 9"):
            DiscreteLaplace(1, 9).release(same)
        with pytest.raises(ParameterError, match="l1 of at least 10, got one for 9"):
            _paid(DiscreteLaplace(1, 9), same, tmp_path)
    for lost in (total + 0, [total], float(total), np.int64(total)):
        assert origin_of(lost) is None


# ------------------------------------------------------------------ seals, and methods


def test_an_array_of_counts_is_sealed_as_its_histogram(tmp_path) -> None:
    """With and without a ledger the same noise; and counts of another cap are another release."""
    key = dpfast.KeyFile.create(tmp_path / "visits.key").derive("visits")
    found = histogram(key=key)
    ledger = dpfast.Ledger(tmp_path / "budget.db", 9, create=True)
    first = found.release(NOISE, key=key)
    assert (NOISE.release(found.counts, key=key, resume=True) == first).all()
    assert (ledger.release(NOISE, found.counts, key=key) == first).all()
    column = pytest.importorskip("pandas").Series(found.counts)
    assert (NOISE.release(column, key=key, resume=True).to_numpy() == first).all()
    assert (ledger.release(NOISE, column, key=key, resume=True).to_numpy() == first).all()
    (entry,) = ledger.history()
    assert entry.parameters["manifest"]["terms"]["max_partitions"] == str(L0)
    wider = histogram(key=key, max_contributions=6)
    for again in (NOISE.release, ledger.release):
        given = (NOISE, wider.counts) if again == ledger.release else (wider.counts,)
        with pytest.raises(dpfast.errors.KeyReuseError, match="reserved .* max_contributions"):
            again(*given, key=key, resume=True)
    with pytest.raises(ParameterError, match="key must be that of the choice of rows"):
        NOISE.release(histogram(key=None).counts, key=key, resume=True)


def test_trees_and_thresholds_name_how_counts_were_counted(tmp_path) -> None:
    key = dpfast.Key.generate().derive("visits")
    for number, (domain, publish) in enumerate(
        [
            (range(CELLS), lambda found, **paid: found.tree(epsilon=1, **paid)),
            (None, lambda found, **paid: found.thresholded(epsilon=1, delta="1e-6", **paid)),
        ]
    ):
        ledger = dpfast.Ledger(tmp_path / f"{number}.db", 9, delta="0.1", create=True)
        found = histogram(key=key, domain=domain)
        publish(found, key=key, ledger=ledger)
        (entry,) = ledger.history()
        terms = entry.parameters["manifest"]["terms"]
        assert terms["max_per_partition"] == str(LINF)
        assert ("domain" in terms) == (domain is not None)
        with pytest.raises(dpfast.errors.KeyReuseError, match="max_contributions"):
            publish(histogram(key=key, domain=domain, max_contributions=6), key=key, ledger=ledger, resume=True)
        forget_labels()


def test_a_histogram_has_the_functions_that_take_its_counts(tmp_path) -> None:
    """As the functions, with their errors, and paid by a ledger."""
    found, key = histogram(key=KEY), dpfast.Key.generate().derive("more")
    ledger = dpfast.Ledger(tmp_path / "budget.db", 99, delta="0.1", create=True)
    ours = found.tree(rho=1, branching=2, key=key)
    theirs = dpfast.tree(found.counts, rho=1, branching=2, sensitivity=ENOUGH, key=key, resume=True)
    assert all(map(np.array_equal, ours.noisy, theirs.noisy))
    assert found.thresholded(epsilon=1, delta="1e-6").threshold == _listed(found.counts, ENOUGH).threshold
    assert found.select(dpfast.NoisyMax(1, ENOUGH), k=2).shape == (2,)
    assert found.select(dpfast.NoisyMax(1, ENOUGH), k=2, ledger=ledger, label="two").shape == (2,)
    found.tree(epsilon=1, ledger=ledger)
    found.thresholded(epsilon=1, delta="1e-6", ledger=ledger)
    assert [entry.epsilon for entry in ledger.history()] == [2, 1, 1]
    with pytest.raises(dpfast.errors.DTypeError, match="selection must be one of dpfast's, not DiscreteLaplace"):
        found.select(NOISE)
    with pytest.raises(dpfast.errors.DTypeError, match="ledger must be a Ledger, not int"):
        found.select(dpfast.NoisyMax(1, ENOUGH), ledger=1)
    with pytest.raises(ParameterError, match="weights or workload must be given, not both"):
        found.tree(epsilon=1, weights=[1], workload=[[0, 1]])


def test_pickles_of_an_earlier_version_know_it_too() -> None:
    """They held a plain array, and the terms by themselves."""
    (old,) = (made for name, made in pickle.loads(OLD.read_bytes()).items() if name.startswith("BoundedHistogram"))
    found = pickle.loads(old)
    assert found.terms.caps.partitions == 2
    assert origin_of(found.counts).sensitivity == found.sensitivity
    again = pickle.loads(pickle.dumps(found))
    assert (again.terms, again.counts.tolist()) == (found.terms, found.counts.tolist())
