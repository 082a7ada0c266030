# SPDX-License-Identifier: Apache-2.0
"""Tests of the command lines of ``tonnage`` and ``tonnage-manage`` as users type them: help, files, completion."""

import os
import pathlib
import shlex
import subprocess
import sys

import pytest

from tonnage.cli import manage, tonnage
from tonnage.cli.display.base_commands import Command
from tonnage.cli.program import CommandTable, Program

FOLDER = pathlib.Path(sys.executable).parent

#: What no help may wait for.
SLOW = ("oslo_config", "sqlalchemy", "numpy", "msgspec", "yaml")

IMPORTED = """
import sys
from tonnage.cli import tonnage
try:
    tonnage.program().run(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print(*sorted({each.partition(".")[0] for each in sys.modules}), file=sys.stderr)
"""

#: The function of the package bash-completion that the completion needs, and one completion.
COMPLETE = """
_get_comp_words_by_ref() {{ cur=${{COMP_WORDS[COMP_CWORD]}}; words=("${{COMP_WORDS[@]}}"); }}
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
    assert len(shown.stdout.splitlines()) <= 48
    assert 0 < shown.stdout.index("commands:") < shown.stdout.index("options:")


def test_commands_below_one_share_its_line_and_its_own_help_names_them() -> None:
    commands = {name for name, _ in tonnage.program().command_manager}
    assert {"plan apply", "cinder plan run", "cinder quotas"} <= commands
    shown = " ".join(run(FOLDER / "tonnage", "--help").stdout.split())
    assert "plan moves of volumes for a goal; also plan apply, list, pause, resume, show and stop cinder plan" in shown
    assert "; also cinder plan apply, list, pause, resume, run, show and stop " in shown
    assert " cinder quotas show " in shown
    shown = " ".join(run(FOLDER / "tonnage", "plan", "--help").stdout.split())
    assert "Further commands: plan apply, list, pause, resume, show and stop. Exit status: 0" in shown
    shown = " ".join(run(FOLDER / "tonnage", "cinder", "--help").stdout.split())
    assert "Further commands: cinder plan and quotas." in shown


@pytest.mark.parametrize("command", ["", *(name for name, _ in tonnage.program().command_manager)])
def test_no_help_waits_for_the_import_of_libraries(command: str) -> None:
    shown = run(sys.executable, "-c", IMPORTED, *command.split(), "--help")
    assert shown.stdout.startswith("usage: tonnage")
    assert not set(SLOW) & set(shown.stderr.split())


def test_a_program_alone_prints_its_help_in_groups() -> None:
    shown = run(FOLDER / "tonnage")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == run(FOLDER / "tonnage", "--help").stdout == run(FOLDER / "tonnage", "help").stdout
    titles = [line for line in shown.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["look:", "ask:", "change:", "history:", "commands:", "options:"]
    _, _, changes = shown.stdout.partition("\nchange:\n")
    assert changes.startswith("  create  ")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("tonnage pouls", "'pouls' (did you mean pools, pool?)"),
        ("tonnage volume-list", "'volume-list' (did you mean volumes?)"),
        ("tonnage frobnicate", "'frobnicate' ('tonnage --help' lists the commands)"),
        ("tonnage-manage quotta sync", "'quotta' (did you mean quota check, quota sync?)"),
    ],
)
def test_a_command_that_nobody_has_is_a_usage_error_with_near_names(words: str, advice: str) -> None:
    name, *arguments = words.split()
    shown = run(FOLDER / name, *arguments)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert f"invalid choice: {advice}" in shown.stderr


def test_an_option_of_a_command_before_it_is_an_error_that_names_its_place() -> None:
    shown = run(FOLDER / "tonnage", "--url", "http://127.0.0.1:1", "pools")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "unrecognized arguments: --url; the options of a command follow it: tonnage COMMAND --url\n" in shown.stderr


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


PROGRAMS = {"tonnage": tonnage.program, "tonnage-manage": manage.program}


@pytest.fixture(params=sorted(PROGRAMS))
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]()


@pytest.fixture
def complete(program: Program, tmp_path: pathlib.Path) -> object:
    """A function that returns the words with which bash completes a command line of the program."""
    script = tmp_path / "completion"
    shown = run(FOLDER / program.NAME, "complete")
    assert (shown.returncode, shown.stderr) == (0, "")
    script.write_text(shown.stdout)

    def words(line: str) -> list[str]:
        typed = [program.NAME, *line.split(" ")]
        text = COMPLETE.format(script=script, words=" ".join(map(shlex.quote, typed)), prog=program.NAME)
        done = run("bash", "--norc", "--noprofile", "-c", text)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return words


def test_bash_completes_commands_options_and_names_of_files(
    program: Program, complete: object, tmp_path: pathlib.Path
) -> None:
    assert callable(complete)
    file = tmp_path / "tonnage.conf"
    file.touch()
    if program.NAME == "tonnage-manage":
        assert complete("led") == ["ledger"]
        assert set(complete("ledger ")) >= {"check", "repair"}
        assert "--pool" in complete("ledger check --p")
        return
    assert set(complete("")) >= set(tonnage.COMMANDS)
    assert complete("vol") == ["volumes"]
    assert "--status" in complete("volumes --st")
    assert complete(f"what-if --file {tmp_path}/ton") == [str(file)]


def test_the_help_of_each_command_is_consistent(program: Program) -> None:
    summaries = program.summaries()
    for name, _ in program.command_manager:
        assert summaries[name] == summaries[name][0].lower() + summaries[name][1:].rstrip("."), name
        command = program.command_manager.find_command(name.split())[0](program, None)
        if not isinstance(command, Command):
            continue
        parser = command.get_parser(name)
        assert str(parser.description).startswith(summaries[name][0].upper() + summaries[name][1:] + "."), name
        assert str(parser.description).endswith("."), name
        if parser.epilog:
            assert parser.epilog.startswith("Exit status: 0 "), name
            assert parser.epilog.endswith("."), name
        for action in parser._actions:
            assert action.help, f"{name}: {action.option_strings or action.dest} says nothing"
            if "--json" in action.option_strings:
                assert action.help == "print JSON instead of tables"


def test_a_command_of_an_extension_that_is_not_enabled_says_so(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text("[DEFAULT]\nenabled_extensions = page\n")
    shown = run(FOLDER / "tonnage", "forecast", "--config-file", file)
    expected = "tonnage: the extension 'history' is not enabled: add it to enabled_extensions\n"
    assert (shown.returncode, shown.stdout, shown.stderr) == (1, "", expected)


def test_the_words_of_a_command_may_be_shortened_and_a_group_lists_its_commands() -> None:
    shown = run(FOLDER / "tonnage-manage", "db")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "'db' (choose from db sync, db check, db version, db copy, " in shown.stderr
    assert "\nBring the database" in run(FOLDER / "tonnage-manage", "db", "syn", "--help").stdout


def test_help_of_an_unknown_command_is_a_usage_error() -> None:
    shown = run(FOLDER / "tonnage", "help", "unknown")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "Traceback" not in shown.stderr


def test_a_command_that_cannot_be_loaded_is_one_line_and_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {"pools": tonnage.COMMANDS["pools"], "broken": "tonnage.no_such_module:Broken"}
    program = Program("tonnage", "Show capacity.", "", CommandTable(commands, "manage_commands"))
    for arguments, status in ((["broken"], 1), (["--help"], 0)):
        with pytest.raises(SystemExit) as end:
            program.run(arguments)
        assert end.value.code == status
    shown = capsys.readouterr()
    problem = "cannot be loaded: ModuleNotFoundError: No module named 'tonnage.no_such_module'"
    assert shown.err == f"tonnage: the command broken {problem}\n"
    assert "broken " in shown.out
    assert "show the figures of all pools" in shown.out
