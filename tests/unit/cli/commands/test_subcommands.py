# SPDX-License-Identifier: Apache-2.0
"""Tests of the help of all commands, which has to be consistent."""

import argparse
from collections.abc import Iterator

import pytest

from tonnage.cli import manage, tonnage


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield all subcommands, recursively, after checking the phrases in the lists of commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            listed = {each.dest: each.help for each in action._choices_actions}
            for name, command in action.choices.items():
                assert command.description is not None, command.prog
                phrase = listed[name]
                assert phrase == phrase[0].lower() + phrase[1:].rstrip("."), command.prog
                assert command.description.startswith(phrase[0].upper() + phrase[1:] + "."), command.prog
                yield command
                yield from commands(command)


def all_commands() -> list[argparse.ArgumentParser]:
    return [command for program in (tonnage.PROGRAM, manage.PROGRAM) for command in commands(program.parser())]


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.prog)
def test_the_help_of_a_command_is_consistent(command: argparse.ArgumentParser) -> None:
    assert command.description is not None
    assert command.description.endswith(".")
    if command.epilog is not None:
        assert command.epilog.startswith("Exit status: 0 if ")
        assert command.epilog.endswith(".")
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        assert action.help, f"{action.option_strings or action.dest} says nothing"
        if "-h" not in action.option_strings:
            assert not action.help.endswith("."), action.help
            assert action.help.startswith(("JSON", "GiB")) or not action.help[0].isupper(), action.help
        if "--json" in action.option_strings:
            assert action.help == "print JSON instead of tables"
