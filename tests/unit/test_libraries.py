# SPDX-License-Identifier: Apache-2.0
"""The requirements of setup.cfg: the core's are those of each Cinder, and programs name the extra that they lack."""

import json
import os
import pathlib
import subprocess
import sys
import tomllib
from typing import NamedTuple

import pytest

from tests.unit import libraries

ROOT = pathlib.Path(__file__).parents[2]

#: Runs command lines without some import packages, each in a fork of a process that has imported the packages which
#: most of them need.
_PROGRAMS = """
import json
import os
import sys
import tempfile
from importlib import metadata

blocked, command_lines = map(json.loads, sys.argv[1:])


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
from tonnage.cli import ledger_access, setup

runs = []
for program, *arguments in command_lines:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            sys.argv = [program, *arguments]
            [script] = metadata.entry_points(group="console_scripts", name=program)
            sys.exit(script.load()())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read())
        runs.append([status, *texts])
print(json.dumps(runs))
"""

#: The extras whose libraries each program has to have, "" for those that are always required.
_EXTRAS = {
    "tonnage": "",
    "tonnage-agent": "agent",
    "tonnage-api": "api",
    "tonnage-cinder-shadow": "all",
    "tonnage-manage": "",
    "tonnage-publisher": "all,kubernetes",
    "tonnage-scheduler": "all",
    "tonnage-standalone": "all",
    "tonnage-status": "",
}

#: Commands that need no extra, in this order, and texts that they print.
_OF_THE_CORE = {
    "tonnage-manage db sync": "is at revision",
    "tonnage-status upgrade check": "Check: Database schema",
    "tonnage pools": "pool",
    "tonnage refusals --code undecided": "No such refusal is recorded",
    "tonnage why v": "v could not be found",
}

#: A command that needs the extra api only when it runs.
_LATE = "tonnage explain 1"

#: An option that no program has.
_UNKNOWN = "--frobnicate"


class Run(NamedTuple):
    """The end of a program."""

    status: int
    output: str
    errors: str


def run(extras: str, *command_lines: str) -> list[Run]:
    """Run command lines with the libraries of an installation that has these extras alone, separated by commas."""
    blocked = libraries.import_packages_beyond(libraries.closure(filter(None, extras.split(","))))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAMS, json.dumps(sorted(blocked)), json.dumps([*map(str.split, command_lines)])],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "TONNAGE_URL"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=240,
    )
    return [Run(*each) for each in json.loads(done.stdout)]


def test_the_table_has_the_libraries_that_are_always_required() -> None:
    shared, added = libraries.versions_of_cinder()
    assert {*shared, *added} == {requirement.name for requirement in libraries.requirements()}
    assert set(added) == {"lark", "msgspec", "numpy"}


@pytest.mark.parametrize("release", range(25, 30))
def test_each_release_of_cinder_has_the_versions_that_are_always_required(release: int) -> None:
    shared, added = libraries.versions_of_cinder()
    assert all(release in versions for versions in shared.values())
    versions = {name: cells[release] for name, cells in {**shared, **added}.items() if release in cells}
    refused = {
        f"{requirement}, Cinder {release} has {versions[requirement.name]}"
        for requirement in libraries.requirements()
        if requirement.name in versions and versions[requirement.name] not in requirement.specifier
    }
    assert refused == set()


def test_the_contract_of_the_core_names_the_libraries_of_the_extras() -> None:
    """The contract of import-linter holds the code of the scheduler in Cinder to these requirements."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [forbidden] = [contract["forbidden_modules"] for contract in contracts if contract["id"] == "core-libraries"]
    names = {libraries.normalized(item.name) for extra in ("agent", "api") for item in libraries.requirements(extra)}
    owned = {libraries.normalized(name): name for name in forbidden}
    assert {*owned, "pyyaml"} - {"yaml"} == names


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The ends of command lines of an installation without extras, which has a database of its own."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "tonnage.conf").write_text(
        f"[DEFAULT]\nenabled_extensions = cinder\n[database]\nconnection = sqlite:///{folder}/ledger.sqlite\n"
    )
    programs = [program for program, extras in _EXTRAS.items() if extras]
    command_lines = [*programs, *_OF_THE_CORE, _LATE]
    options = f"--config-file {folder}/tonnage.conf"
    runs = run("", *(line.replace(" ", f" {options} ", 1) for line in command_lines))
    return dict(zip(command_lines, runs, strict=True))


@pytest.mark.heavy
@pytest.mark.parametrize("program", [program for program, extras in _EXTRAS.items() if extras])
def test_a_program_without_its_libraries_names_the_extra(core: dict[str, Run], program: str) -> None:
    status, output, errors = core[program]
    [line] = errors.splitlines()
    assert (status, output) == (1, "")
    assert line.startswith(f"{program}: the library ")
    assert f"[{_EXTRAS[program]}]' (where another service" in line


@pytest.mark.heavy
@pytest.mark.parametrize("command_line", _OF_THE_CORE)
def test_commands_on_the_ledger_need_no_extra(core: dict[str, Run], command_line: str) -> None:
    end = core[command_line]
    assert _OF_THE_CORE[command_line] in end.output + end.errors


@pytest.mark.heavy
def test_a_command_names_the_extra_of_a_library_that_it_imports_late(core: dict[str, Run]) -> None:
    end = core[_LATE]
    [line] = end.errors.splitlines()
    assert end.status == 1
    assert line.startswith("tonnage: the library falcon is not installed; install it with: ")
    assert "[api]' (where" in line


@pytest.mark.heavy
@pytest.mark.parametrize("extras", sorted(set(_EXTRAS.values())))
def test_programs_have_all_their_libraries_with_the_extra(extras: str) -> None:
    programs = [program for program in _EXTRAS if _EXTRAS[program] == extras]
    for result in run(extras, *(f"{program} {_UNKNOWN}" for program in programs)):
        assert result.status == 2
        assert "usage: " in result.errors
