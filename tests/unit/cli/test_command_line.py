# SPDX-License-Identifier: Apache-2.0
"""Tests of the command lines of ``tonnage`` and ``tonnage-manage`` as users type them: help, files, completion."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

from tests import suites
from tonnage.cli import manage, tonnage
from tonnage.cli.command_line import Program

#: An interactive zsh in a terminal of its own, where somebody types a line and the tabulator key.
ZSH = """
zmodload zsh/zpty
zpty terminal "TERM=dumb zsh -f -i"
zpty -w terminal 'PS1=; fpath=({folder} $fpath); autoload -U compinit; compinit -u -d {folder}/dump; print rea""dy'
zpty -r -m terminal shown '*ready*' || exit 1
zpty -w -n terminal $'{typed}\\t'
zpty -r -m terminal shown '*{completed}*' || exit 1
"""

FOLDER = pathlib.Path(sys.executable).parent

#: What no help may wait for.
SLOW = ("oslo_config", "sqlalchemy", "numpy", "msgspec", "prettytable", "yaml", "rich", "shtab")

IMPORTED = """
import sys
from tonnage.cli import tonnage
try:
    tonnage.PROGRAM.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print(*sorted({each.partition(".")[0] for each in sys.modules}), file=sys.stderr)
"""

COMPLETE = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}"
COMP_POINT=${{#COMP_LINE}}
$(complete -p {prog} | sed 's/.* -F //; s/ .*//')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def run(*command: str | pathlib.Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def test_the_help_is_short_with_the_commands_first() -> None:
    shown = run(FOLDER / "tonnage", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert len(shown.stdout.splitlines()) <= 32
    assert 0 < shown.stdout.index("commands:") < shown.stdout.index("options:")


@pytest.mark.parametrize("command", ["", *(each.name for each in tonnage.COMMANDS)])
def test_no_help_waits_for_the_import_of_libraries(command: str) -> None:
    shown = run(sys.executable, "-c", IMPORTED, *command.split(), "--help")
    assert shown.stdout.startswith("usage: tonnage")
    assert not set(SLOW) & set(shown.stderr.split())


def test_a_command_that_nobody_has_is_a_usage_error() -> None:
    shown = run(FOLDER / "tonnage", "pouls")
    assert shown.returncode == 2
    assert "invalid choice: 'pouls'" in shown.stderr


def test_help_whose_reader_has_ended_has_status_141() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        done = subprocess.run(
            [FOLDER / "tonnage", "--help"],
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.fixture(scope="module", params=[tonnage.PROGRAM, manage.PROGRAM], ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    assert isinstance(request.param, Program)
    return request.param


@pytest.fixture
def complete(program: Program, tmp_path: pathlib.Path) -> object:
    """A function that returns the words with which bash completes a command line of the program."""
    script = tmp_path / "completion"
    shown = run(FOLDER / program.name, "--print-completion", "bash")
    assert (shown.returncode, shown.stderr) == (0, "")
    script.write_text(shown.stdout)

    def words(line: str) -> list[str]:
        typed = [program.name, *line.split(" ")]
        text = COMPLETE.format(script=script, words=" ".join(map(shlex.quote, typed)), prog=program.name)
        done = run("bash", "--norc", "--noprofile", "-c", text)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return words


def test_bash_completes_commands_and_options(program: Program, complete: object) -> None:
    assert callable(complete)
    assert "--config-file" in complete("--conf")
    if program is manage.PROGRAM:
        assert complete("led") == ["ledger"]
        assert set(complete("ledger ")) >= {"check", "repair"}
        assert "--pool" in complete("ledger check --p")
        return
    assert set(complete("")) >= {command.name for command in tonnage.COMMANDS}
    assert complete("vol") == ["volumes"]
    assert set(complete("pools -f ")) >= {"table", "json", "yaml", "value", "csv"}
    assert "total_bytes" in complete("pools --sort-column tot")
    assert "--status" in complete("volumes --st")


def test_bash_completes_names_of_files(program: Program, complete: object, tmp_path: pathlib.Path) -> None:
    assert callable(complete)
    file = tmp_path / "tonnage.conf"
    file.touch()
    lines = ["--config-file"]
    if program is tonnage.PROGRAM:
        lines += ["what-if --file", "explain --file", "replay"]
    for line in lines:
        assert complete(f"{line} {tmp_path}/ton") == [str(file)], line


@pytest.mark.heavy
def test_zsh_completes_commands_and_options(program: Program, tmp_path: pathlib.Path) -> None:
    if shutil.which("zsh") is None:
        suites.cannot_run("zsh", "no zsh on this machine; install zsh")
    script = tmp_path / f"_{program.name}"
    shown = run(FOLDER / program.name, "--print-completion", "zsh")
    assert (shown.returncode, shown.stderr) == (0, "")
    script.write_text(shown.stdout)
    keys = {
        "tonnage": {
            "tonnage fore": "forecast",
            "tonnage pools --sort-column tot": "total_bytes",
            "tonnage vol": "volumes",
        },
        "tonnage-manage": {"tonnage-manage led": "ledger", "tonnage-manage ledger ch": "check"},
    }
    for typed, completed in keys[program.name].items():
        text = ZSH.format(folder=tmp_path, typed=typed, completed=completed)
        done = run("zsh", "-f", "-c", text)
        assert done.returncode == 0, f"{typed}: {done.stdout}{done.stderr}"
