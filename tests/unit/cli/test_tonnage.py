# SPDX-License-Identifier: Apache-2.0
"""The commands of ``tonnage``."""

import pytest

from tonnage import extension
from tonnage.cli import tonnage
from tonnage.cli.display.base_commands import Command


def test_each_command_is_a_class_with_a_sentence_of_help() -> None:
    for name, reference in tonnage.COMMANDS.items():
        command = extension.load(reference)
        assert issubclass(command, Command), name
        assert (command.__doc__ or "").strip().partition("\n")[0].endswith("."), name


def test_the_program_has_its_commands_and_those_of_installed_extensions() -> None:
    declared = {name for declaration in extension.installed().values() for name in declaration.commands}
    assert declared
    names = {name for name, _ in tonnage.program().command_manager}
    assert names == tonnage.COMMANDS.keys() | declared | {"help", "complete"}
    assert not tonnage.COMMANDS.keys() & declared


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pols"], "pols"),
        (["pools", "--colour"], "--colour"),
        (["explain"], "size"),
        (["create", "0"], "0"),
    ],
)
def test_a_wrong_command_line_has_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(tonnage.program().run(arguments))
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.lower()
