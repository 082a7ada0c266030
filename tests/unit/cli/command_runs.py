# SPDX-License-Identifier: Apache-2.0
"""Runs of commands with a configuration of the test. Errors are raised, instead of ending the process."""

from collections.abc import Sequence
from typing import Any

from tonnage.cli.display.base_commands import Command
from tonnage.cli.program import Program


def run(program: Program, arguments: Sequence[str], conf: Any) -> int:
    """Run a command and return its exit status."""
    command, parsed_args = program.parse(arguments)
    assert isinstance(command, Command)
    command.conf = conf
    return program.run_command(command, parsed_args)
