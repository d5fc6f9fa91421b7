# SPDX-License-Identifier: Apache-2.0
"""What adapters share: they load late, name the missing extra, and refuse untested versions."""

from __future__ import annotations

import re
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, metadata
from importlib.util import find_spec
from itertools import accumulate
from typing import Never

import pytest
from fresh import python
from places import ROOT, every_test_file

import dpfast
from dpfast import adapters
from dpfast.errors import ParameterError

ADAPTERS = {
    f"dpfast.{room}.{path.stem}"
    for room in ("adapters", "engines")
    for path in (ROOT / "dpfast" / room).glob("[a-z]*.py")
}
PAGES = [ROOT / "docs" / "adapters.md", *sorted((ROOT / "docs" / "adapters").glob("*.md"))]
LONGEST = 60  # lines of a page


def test_importing_dpfast_imports_no_adapter() -> None:
    """Nor any of the libraries that adapters are for."""
    loaded = set(python("import sys, dpfast; print(*sys.modules)").split())
    assert (
        not {
            "pandas",
            "polars",
            "pyarrow",
            "diffprivlib",
            "opendp",
            "dp_accounting",
            "torch",
            "sklearn",
            "dask",
            "distributed",
            "duckdb",
            "pyspark",
        }
        & loaded
    )
    assert not any(name.startswith(("dpfast.adapters.", "dpfast.engines")) for name in loaded)


def test_an_adapter_is_an_attribute_that_comes_at_its_first_use() -> None:
    """And another attribute is refused as Python does."""
    found = python(
        "import sys, dpfast; before = set(sys.modules); dpfast.adapters.dlpack.release; print(*{*sys.modules} - before)"
    )
    assert "dpfast.adapters.dlpack" in found.split()
    with pytest.raises(AttributeError, match="module 'dpfast.adapters' has no attribute 'nothing'"):
        _ = dpfast.adapters.nothing
    assert not hasattr(dpfast.adapters, "__wrapped__")


def test_an_absent_library_names_its_extra() -> None:
    """By the name of the library or of its package."""
    with pytest.raises(ImportError, match=r"nowhere is not installed: pip install 'dpfast\[somewhere\]'"):
        adapters.library("nowhere", "somewhere", "1.0")
    with pytest.raises(ImportError, match="the-nowhere is not installed"):
        adapters.library("nowhere.inside", "somewhere", "1.0", package="the-nowhere")


def test_a_library_that_lacks_something_itself_says_so(tmp_path, monkeypatch) -> None:
    """It is not called absent."""
    (tmp_path / "broken_library.py").write_text("import what_it_lacks\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_it_lacks"):
        adapters.library("broken_library", "extra", "1.0")


@pytest.mark.parametrize(
    ("version", "tested", "fits"),
    [
        ("0.6.6", "0.6", True), ("0.6", "0.6", True), ("0.6.0rc1", "0.6", True), ("0.7.0", "0.6", False), ("0.60.1", "0.6", False),
        ("1.6.0", "0.6", False), ("2.2.0", ">=2.2", True), ("2.10.0", ">=2.2", True), ("3.0", ">=2.2", True), ("2.1.9", ">=2.2", False),
        ("1.99", ">=2.2", False), ("2", ">=2.0", False),
    ],
)  # fmt: skip
def test_versions_outside_the_tested_range_are_refused(version, tested, fits, monkeypatch) -> None:
    """A shorter version than the range counts as below it."""
    monkeypatch.setattr(metadata, "version", lambda _: version)
    if fits:
        assert adapters.library("numpy", "extra", tested).__name__ == "numpy"
    else:
        with pytest.raises(ImportError, match=f"numpy {tested}.*tested with, and found {version}"):
            adapters.library("numpy", "extra", tested)


def test_an_untested_version_is_taken_after_an_opt_in_and_warned_of_each_time(monkeypatch) -> None:
    """Too new and too old; a tested version passes silently, an absent library stays an error."""
    monkeypatch.setattr(adapters, "_untested", False)
    version = "0.7.0"
    monkeypatch.setattr(metadata, "version", lambda _: version)
    with pytest.raises(ImportError, match=r"found 0\.7\.0: .*allow_untested\(\) accepts it anyway$"):
        adapters.library("numpy", "extra", "0.6")
    dpfast.adapters.allow_untested()
    for _ in range(2):
        for tested in ("0.6", ">=0.8"):
            with pytest.warns(
                dpfast.errors.UntestedVersionWarning, match=rf"adapter takes numpy {tested}.*, and this is 0\.7\.0"
            ) as told:
                assert adapters.library("numpy", "extra", tested).__name__ == "numpy"
            assert [warning.filename for warning in told] == [__file__]
    version = "0.6.1"
    assert adapters.library("numpy", "extra", "0.6").__name__ == "numpy"
    with pytest.raises(ImportError, match="nowhere is not installed"):
        adapters.library("nowhere", "extra", "0.6")


UNTESTED = """
import sys, warnings
from importlib import metadata
packages = dict(name.split("=") for name in sys.argv[1:])
version = metadata.version
metadata.version = lambda name: "99.0" if name in packages.values() else version(name)
import dpfast
for name in packages:
    try:
        getattr(dpfast.adapters, name)
    except ImportError as refused:
        print(name, "refused" if f"{packages[name]} " in str(refused) and "99.0" in str(refused) else refused)
dpfast.adapters.allow_untested()
for name in packages:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        getattr(dpfast.adapters, name)
    print(name, [str(warning.message).count("99.0") for warning in told if warning.category is dpfast.errors.UntestedVersionWarning])
"""


@pytest.fixture(scope="module")
def of_the_next_version() -> list[str]:
    """What a process says that has imported nothing yet, of the libraries that are here."""
    here = (name for name in NEXT if find_spec(name))
    return python(UNTESTED, *(f"{name}={LIBRARIES[name][1]}" for name in here)).splitlines()


NEXT = ("diffprivlib", "dp_accounting", "opendp", "pipeline_dp")


@pytest.mark.slow
@pytest.mark.parametrize("name", NEXT)
def test_an_adapter_of_the_next_version_is_refused_and_then_allowed(name, of_the_next_version) -> None:
    """The next version, faked."""
    pytest.importorskip(LIBRARIES[name][0])
    assert [line for line in of_the_next_version if line.startswith(name)] == [f"{name} refused", f"{name} [1]"]


# What each adapter imports first, and the name and the extra by which to install it.
LIBRARIES = {
    "arrow": ("pyarrow", "pyarrow", "arrow"),
    "dask": ("distributed", "distributed", "dask"),
    "diffprivlib": ("diffprivlib", "diffprivlib", "diffprivlib"),
    "dp_accounting": ("dp_accounting", "dp-accounting", "accounting"),
    "duckdb": ("duckdb", "duckdb", "duckdb"),
    "opacus": ("opacus", "opacus", "opacus"),
    "opendp": ("opendp.prelude", "opendp", "opendp"),
    "pandas": ("pandas", "pandas", "pandas"),
    "pipeline_dp": ("pipeline_dp", "pipeline-dp", "pipeline-dp"),
    "polars": ("polars", "polars", "polars"),
    "polars_lazy": ("polars", "polars", "polars"),
    "postgres": ("psycopg", "psycopg", "postgres"),
    "smartnoise": ("snsql", "smartnoise-sql", "smartnoise"),
    "spark": ("pyspark", "pyspark", "spark"),
    "tumult": ("tmlt.core", "tmlt.core", "tumult"),
}


ENGINES = {
    "dask": "dask",
    "duckdb": "duckdb",
    "polars_lazy": "polars",
    "postgres": "postgres",
    "spark": "spark",
}  # Polars has frames, too


def module(name: str) -> str:
    return f"dpfast.engines.{ENGINES[name]}" if name in ENGINES else f"dpfast.adapters.{name}"


def test_every_adapter_but_that_of_a_protocol_is_of_a_library() -> None:
    """DLPack and Arrow's capsules are protocols."""
    assert {module(name) for name in (*LIBRARIES, "arrow_capsules", "dlpack")} == ADAPTERS


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("there", [None, types.ModuleType("planted")], ids=["absent", "untested"])
def test_an_adapter_without_its_library_names_the_extra(name, there, monkeypatch) -> None:
    """Absent or untested; the extra is one of pyproject.toml that asks for that library."""
    library, package, extra = LIBRARIES[name]
    for part in accumulate(library.split("."), "{}.{}".format):
        monkeypatch.setitem(sys.modules, part, there)
    monkeypatch.setattr(metadata, "version", lambda _: "0.0.1")
    monkeypatch.delitem(sys.modules, module(name), raising=False)
    says = f"{package} is not installed" if there is None else rf"dpfast's adapter takes {package} .* and found 0\.0\.1"
    other = "" if there is None else "; dpfast.adapters.allow_untested() accepts it anyway"
    with pytest.raises(ImportError, match=rf"^{says}: pip install 'dpfast\[{extra}\]'{re.escape(other)}$"):
        import_module(module(name))
    extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf'^{extra} = \["{package}(\[|[=>])', extras, re.MULTILINE)


class Library:
    """Whose noise is a name in it."""

    noise = "theirs"

    def put(self, ours) -> None:
        if self.noise == "broken":
            raise RuntimeError("planted")
        self.noise = "ours" if ours else "theirs"


def test_what_is_installed_is_uninstalled_as_often() -> Never:
    """Nested, out of order, and past exceptions."""
    library = Library()
    installer = adapters.Installer(library.put)
    with installer.installed(), installer.installed():
        installer.install()
        installer.uninstall()
        assert library.noise == "ours"
    assert library.noise == "theirs"
    with pytest.raises(KeyError, match="planted"), installer.installed():
        raise KeyError("planted")
    assert library.noise == "theirs"
    library.noise = "broken"
    with pytest.raises(RuntimeError, match="planted"):
        installer.install()
    with pytest.raises(ParameterError, match="^uninstall undoes an install, and there is none$"):
        installer.uninstall()


def test_an_uninstall_in_the_midst_of_an_install_neither_waits_nor_undoes_it() -> None:
    """As if a finalizer ran there: a lock that its thread cannot take twice hangs."""
    library = Library()

    def put(ours) -> None:
        if ours and waiting:
            waiting.pop().uninstall()
        library.put(ours)

    waiting = []
    installer = adapters.Installer(put)
    installer.install()
    waiting.append(installer)
    installer.install()
    assert library.noise == "ours"
    installer.uninstall()
    assert library.noise == "theirs"


def test_threads_share_what_is_installed() -> None:
    """Threads come and go and leave others' adapters; without the lock or the count they do not."""

    class Slow(Library):
        def put(self, ours) -> None:
            time.sleep(1e-4)
            super().put(ours)

    library, wrong = Slow(), []
    installer = adapters.Installer(library.put)

    def visit(_) -> None:
        for _ in range(50):
            with installer.installed():
                time.sleep(1e-4)
                if library.noise != "ours":
                    wrong.append("theirs, while installed")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(visit, range(4)))
    assert not wrong
    assert library.noise == "theirs"


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_adapter_has_its_page_its_tests_and_its_example(name) -> None:
    """By the adapter's name."""
    assert any(f"../examples/with_{name}.py)" in page.read_text("utf-8") for page in PAGES)
    assert f"test_{name}.py" in every_test_file()
    assert (ROOT / "examples" / f"with_{name}.py").is_file()


def test_a_page_is_a_screen_or_two_and_every_table_of_times_has_a_place() -> None:
    """Links are followed by tests/house/test_examples.py."""
    assert len(PAGES) > 10
    assert {page.stem: n for page in PAGES if (n := len(page.read_text("utf-8").splitlines())) > LONGEST} == {}
    tables = (ROOT / "benchmarks" / "adapters.md").read_text("utf-8")
    names = {path.stem for path in (ROOT / "benchmarks" / "adapters").glob("[!_]*.py")}
    assert names >= {"numpy", "pandas", "tumult"}
    for name in names:
        start, end = (tables.find(f"\n<!-- bench:{name}:{mark} -->\n") for mark in ("start", "end"))
        assert 0 < start < end, name
