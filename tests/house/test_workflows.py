# SPDX-License-Identifier: Apache-2.0
"""What runs on other machines names only what is there, and the table of systems says the same."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from dpfast.app.cli import commands

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BUILT = SETTINGS["tool"]["cibuildwheel"]
SCRIPT = (ROOT / "packaging" / "wheels.sh").read_text(encoding="utf-8")
RUNNERS = {
    "ubuntu-24.04": ("Linux", "x86-64"),
    "ubuntu-24.04-arm": ("Linux", "AArch64"),
    "macos-14": ("macOS", "arm64"),
    "windows-2022": ("Windows", "x86-64"),
}
WORDS = {"run", "built, untried", "refused"}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield job
        yield from job.get("steps", [])


def tried() -> list[str]:
    """The test commands of cibuildwheel."""
    places = [BUILT, *(BUILT[name] for name in ("linux", "macos", "windows")), *BUILT["overrides"]]
    found = [each["test-command"] for each in places if "test-command" in each]
    return [line for each in found for line in ([each] if isinstance(each, str) else each)]


def faults(command: str) -> list[str]:
    """A line for each file, subcommand or extra that a command names and that is not there."""
    files = re.findall(r"(?<![\w./-])((?:\{project\}/|\./)?(?:tests|packaging|\.ci|\.github)/[\w./-]+)", command)
    found = [f"there is no {name}" for name in files if not (ROOT / name.removeprefix("{project}/")).exists()]
    found += [
        f"wheels.sh has no {name}"
        for name in re.findall(r"packaging/wheels\.sh (\w+)", command)
        if not re.search(rf"^{name}\) ", SCRIPT, re.MULTILINE)
    ]
    found += [
        f"dpfast has no command {name}"
        for name in re.findall(r"(?:^|&& |\n)\s*dpfast (\w+)", command)
        if name not in commands.commands
    ]
    extras = SETTINGS["project"]["optional-dependencies"]
    named = re.findall(r"(?:dpfast|\.)\[([\w,-]+)\]", command)
    return found + [f"there is no extra {name}" for each in named for name in each.split(",") if name not in extras]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_what_is_there(path: Path) -> None:
    workflow = read(path)
    said = [step.get("run", step.get("uses", "")) for step in steps(workflow)]
    assert [fault for each in said for fault in faults(each)] == []
    assert "secrets." not in path.read_text(encoding="utf-8")
    for job in workflow["jobs"].values():
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= workflow["jobs"].keys()


def test_cibuildwheel_tries_what_is_there() -> None:
    assert [fault for command in tried() for fault in faults(command)] == []
    assert set(BUILT["test-extras"]) <= SETTINGS["project"]["optional-dependencies"].keys()
    wanted = {text for each in SETTINGS["project"]["optional-dependencies"].values() for text in each}
    assert set(BUILT["test-requires"]) <= wanted  # as the tests' own extra says


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("python -m pytest {project}/tests/noise/test_gone.py", "there is no {project}/tests/noise/test_gone.py"),
        ("dpfast selftest && python -m pytest -q tests/gone", "there is no tests/gone"),
        ("packaging/wheels.sh gone dist/*.whl", "wheels.sh has no gone"),
        ("packaging/gone.sh", "there is no packaging/gone.sh"),
        ("./.github/workflows/gone.yml", "there is no ./.github/workflows/gone.yml"),
        ("dpfast gone", "dpfast has no command gone"),
        ("pip install 'dpfast[gone]'", "there is no extra gone"),
    ],
)
def test_what_is_not_there_is_found(command: str, says: str) -> None:
    assert faults(command) == [says]


# ------------------------------------------------------------------ a release


def unguarded(workflow: dict[str, Any]) -> list[str]:
    """The jobs that could publish without a person's word."""
    jobs = workflow["jobs"]
    found = []
    for name, job in jobs.items():
        writes = {what for what, how in (job.get("permissions") or {}).items() if how == "write"}
        publishes = writes & {"contents", "packages"} or any(
            "publish" in step.get("uses", "") for step in job.get("steps", [])
        )
        if publishes and not (job.get("environment") == "release" and job.get("needs") == "guarded"):
            found.append(name)
    return found


def test_a_release_waits_for_a_person() -> None:
    """A tag alone publishes nothing, and a repository without reviewers neither."""
    release = read(ROOT / ".github" / "workflows" / "release.yml")
    assert release["permissions"] == {}
    assert unguarded(release) == []
    [look] = release["jobs"]["guarded"]["steps"]
    assert "environments/release" in look["run"]
    assert look["run"].endswith("grep -qx required_reviewers")
    for path in WORKFLOWS:
        if path.name != "release.yml":
            workflow = read(path)
            assert workflow["permissions"] == {"contents": "read"}
            assert not any("permissions" in job for job in workflow["jobs"].values())
    for key, value in (("environment", None), ("needs", "provenance")):
        release["jobs"]["publish"][key], kept = value, release["jobs"]["publish"][key]
        assert unguarded(release) == ["publish"]
        release["jobs"]["publish"][key] = kept


# ------------------------------------------------------------------ the table of systems


def rows() -> list[dict[str, str]]:
    text = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    table = text.partition("## Where it was run")[2].partition("\n## ")[0]
    head, _, *lines = (line for line in table.splitlines() if line.startswith("|"))
    names = [cell.strip() for cell in head.strip("|").split("|")]
    return [dict(zip(names, (cell.strip() for cell in line.strip("|").split("|")), strict=True)) for line in lines]


def disagreements(table: list[dict[str, str]]) -> list[str]:
    """What the table says otherwise than the figures, pyproject.toml, the script and the matrix."""
    found = [f"{row['word']} is no word" for row in table if row["word"] not in WORDS]
    last = "what, where and when"
    ran = {
        (row["system"].split(",")[0], machine): row
        for row in table
        if row["word"] == "run"
        for machine in row["machine"].split(", ")
    }
    listed = [name.rpartition(" ")[2] for name in SETTINGS["project"]["classifiers"] if re.search(r":: 3\.\d+$", name)]
    machines = {
        each.replace("x86_64", "x86-64").replace("aarch64", "AArch64")
        for each in re.findall(r"^    wheel (\w+) ", SCRIPT, re.MULTILINE)
    }
    if ran.keys() != {("Linux", machine) for machine in machines}:
        found.append("what was run is not what packaging/wheels.sh builds")
    for (_, machine), row in ran.items():
        pythons = listed if machine == "x86-64" else listed[:1]
        check = "aarch64" if machine == "AArch64" else "wheels"
        kept = json.loads((ROOT / "docs" / "assurance" / f"{check}.json").read_text(encoding="utf-8"))
        date, parts = kept["date"], set(kept["figures"]) - {"selftest"}
        if check == "aarch64" and parts != set(re.findall(r"`(\w+)`", row[last])):
            found.append(f"{machine} was run in the rooms {', '.join(sorted(parts))}")
        asked = f"`.ci/deep {check}`" in row[last] and row[last].endswith(date)
        if row["Python"].split(", ") != pythons or not asked:
            found.append(f"{machine} was run by {check} on {pythons} on {date}")
    if SETTINGS["project"]["requires-python"] != f">={listed[0]}":
        found.append("requires-python is not the least Python that was run")
    by_runner = {
        (row["system"].split(",")[0].split(" ")[0], machine)
        for row in table
        if "a runner" in row[last]
        for machine in row["machine"].split(", ")
    }
    matrix = read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]["elsewhere"]["strategy"]["matrix"]["os"]
    if by_runner - {("macOS", "x86-64")} != {RUNNERS[name] for name in matrix}:
        found.append("what a runner does is not the matrix of wheels.yml")
    tags = {"3.11": "cp311-*", "3.14": "cp314-*", "3.14 free-threaded": "cp314t-*"}
    named = {python for row in table if "a runner builds" in row[last] for python in row["Python"].split(", ")}
    if {tags.get(python) for python in named | {"3.14"}} != set(BUILT["build"]):
        found.append("what a runner builds is not [tool.cibuildwheel]")
    systems = {
        name.rpartition(" :: ")[2] for name in SETTINGS["project"]["classifiers"] if name.startswith("Operating System")
    }
    if systems != {row["system"].split(",")[0] for row in table if row["word"] == "run"}:
        found.append("the classifiers name a system that nobody has run")
    return found


def test_the_table_of_systems_says_what_is_so() -> None:
    assert disagreements(rows()) == []


@pytest.mark.parametrize(
    ("at", "column", "other"),
    [
        (0, "Python", "3.11, 3.12, 3.13, 3.14"),
        (0, "what, where and when", "by `.ci/deep wheels`, 2020-01-01"),
        (1, "what, where and when", "by `.ci/deep aarch64`, 2020-01-01"),
        (1, "machine", "ppc64le"),
        (2, "word", "works"),
        (5, "word", "run"),
        (5, "machine", "x86-64"),
        (5, "Python", "3.12"),
    ],
)
def test_a_table_that_says_otherwise_is_found(at: int, column: str, other: str) -> None:
    table = rows()
    table[at][column] = other
    assert disagreements(table)


def test_a_room_that_was_not_run_is_found() -> None:
    table = rows()
    row = table[1]["what, where and when"]
    table[1]["what, where and when"] = row.replace("`adapters`", "`house`")
    [found] = disagreements(table)
    assert "adapters" in found


# ------------------------------------------------------------------ the recipe


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = read(ROOT / "packaging" / "conda" / "recipe.yaml")
    project = SETTINGS["project"]

    def plain(requirements: list[Any]) -> set[str]:
        return {each.replace(" ", "") for each in requirements if isinstance(each, str) and ">=" in each}

    context, asked = recipe["context"], recipe["requirements"]
    assert context["version"] == project["version"]
    assert f">={context['python_min']}" == project["requires-python"]
    assert plain(asked["run"]) == set(project["dependencies"])
    assert plain(asked["host"]) == set(SETTINGS["build-system"]["requires"])
    assert plain(asked["run_constraints"]) == set(project["optional-dependencies"]["cli"])
    assert recipe["build"]["python"]["entry_points"] == [f"dpfast = {project['scripts']['dpfast']}"]
    assert recipe["about"]["license"] == project["license"]
    assert [fault for test in recipe["tests"] for line in test.get("script", []) for fault in faults(line)] == []
