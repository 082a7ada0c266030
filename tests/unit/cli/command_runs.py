# SPDX-License-Identifier: Apache-2.0
"""Runs of commands with a configuration of the test. Errors are raised, instead of ending the process."""

import pathlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tonnage.cli import manage as manage_program
from tonnage.cli.display.base_commands import Command
from tonnage.cli.program import Program
from tonnage.ledger.db import options as database_options


def run(program: Program, arguments: Sequence[str], conf: Any) -> int:
    """Run a command and return its exit status."""
    command, parsed_args = program.parse(arguments)
    assert isinstance(command, Command)
    command.conf = conf
    return program.run_command(command, parsed_args)


def manage(line: str, folder: pathlib.Path) -> int:
    """Run a command of tonnage-manage with a database in ``folder/sub``, and return its exit status."""
    options = {option.dest: option.default for option in database_options.OPTIONS}
    options["connection"] = f"sqlite:///{folder}/sub/tonnage.sqlite"
    conf = SimpleNamespace(database=SimpleNamespace(**options), service_down_time=60, enabled_extensions=["history"])
    return run(manage_program.program(), line.split(), conf)
