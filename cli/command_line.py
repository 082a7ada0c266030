# SPDX-License-Identifier: Apache-2.0
"""The command line of the programs with commands: parsing, help, the completion of shells, and the run of a command.

``--help`` and the completion must not wait for the libraries, so this module imports them only to run a command.
"""

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tonnage
from tonnage.cli import config_files, output, watch
from tonnage.cli.commands import subcommands

#: Shells with completion.
SHELLS = ("bash", "zsh")


@dataclass(frozen=True, slots=True)
class Program:
    """A program with commands.

    ``add_commands`` adds the commands to the subparsers, with the arguments of at least the command of that name (None:
    of all). ``options`` are the modules whose options the configuration has if the command does not name others.
    """

    name: str
    about: str
    epilog: str
    add_commands: Callable[[Any, str | None], None]
    options: tuple[str, ...] = ()

    def parser(self, command: str | None = None) -> argparse.ArgumentParser:
        """Return the parser, with the arguments of at least that command (None: of all)."""
        parser = argparse.ArgumentParser(
            self.name, f"{self.name} [OPTION ...] COMMAND ...", self.about, self.epilog, add_help=False
        )
        # The help shows the groups in this order.
        commands = parser.add_subparsers(
            title="commands", dest="command", metavar="COMMAND", prog=self.name, required=True
        )
        self.add_commands(commands, command)
        options = parser.add_argument_group("options")
        options.add_argument("-h", "--help", action="help", help="show this help")
        config_files.add_options(options)
        options.add_argument("-d", "--debug", action="store_true", help="log at the level DEBUG")
        options.add_argument("--print-completion", action=_PrintCompletion, program=self)
        options.add_argument("--version", action="version", version=f"{self.name} {tonnage.__version__}")
        parser.set_defaults(options=self.options)
        return parser

    def main(self, argv: Sequence[str]) -> int:
        """Run a command and return its exit status."""
        with output.flushed(self.name):
            files, command_arguments = config_files.split(argv, self.name)
            command = next((argument for argument in command_arguments if not argument.startswith("-")), "")
            arguments = self.parser(command).parse_args([*files, *command_arguments])
            return _run(self.name, files, arguments)


def _run(prog: str, files: Sequence[str], arguments: argparse.Namespace) -> int:
    from oslo_config import cfg

    from tonnage.cli import setup

    with setup.clean_exit(prog):
        register = [importlib.import_module(module).register for module in arguments.options]
        debug = ["--debug"] if arguments.debug else []
        setup.configure(cfg.CONF, [*files, *debug], prog, register, daemon=False)
        run = subcommands.load(arguments.run) if isinstance(arguments.run, str) else arguments.run
        seconds = getattr(arguments, "watch", None)
        if seconds is not None:
            watch.repeat(lambda: int(run(cfg.CONF, arguments)), seconds)
        return int(run(cfg.CONF, arguments))


class _PrintCompletion(argparse.Action):
    """An option that prints the completion of a program for a shell, and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, program: Program) -> None:
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            choices=SHELLS,
            metavar="SHELL",
            help="print the completion for a shell: bash or zsh",
        )
        self._program = program

    def __call__(self, parser: argparse.ArgumentParser, namespace: object, values: Any, option: object = None) -> None:
        """Print the completion."""
        print(importlib.import_module("shtab").complete(self._program.parser(), shell=values))
        parser.exit()
