# SPDX-License-Identifier: Apache-2.0
"""The programs with commands, on cliff: their help, the run of a command, and the commands of extensions.

``--help`` must not wait for the libraries, so this module imports them only to run a command.
"""

import argparse
import difflib
import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from cliff import app, commandmanager

import tonnage
from tonnage import extension, installation
from tonnage.cli import config_files, output, watch
from tonnage.cli.display.base_commands import Command

if TYPE_CHECKING:
    from cliff import command
    from oslo_config import cfg


#: Least commands below another one that share its line in the help of a program.
_LEAST_FOLDED = 3


class CommandTable(commandmanager.CommandManager):
    """The commands of a program by their names: its own, and those of the installed extensions.

    ``own_commands`` are classes as ``module:class``, and ``field`` is the field of
    :class:`~tonnage.extension.Extension` with those of an extension. A module is imported when its command is used.
    """

    def __init__(self, own_commands: Mapping[str, str], field: str) -> None:
        super().__init__("")  # until cliff 4.12 the namespace of entry points is required
        self._extensions: dict[str, str] = {}
        self._add(own_commands)
        for name, declaration in extension.installed().items():
            commands: Mapping[str, str] = getattr(declaration, field)
            self._add(commands)
            self._extensions.update(dict.fromkeys(commands.values(), name))

    def _add(self, commands: Mapping[str, str]) -> None:
        for name, reference in commands.items():
            self.commands[name] = metadata.EntryPoint(name, reference, "")

    def extension_of(self, command: "type[command.Command]") -> str | None:
        """Return the name of the extension that a command belongs to, None for one of the core."""
        return self._extensions.get(f"{command.__module__}:{command.__qualname__}")


class Program(app.App):
    """A program with commands. With ``with_extensions`` its configuration has the options of enabled extensions."""

    command_manager: CommandTable
    options = argparse.Namespace(debug=False)

    def __init__(
        self, name: str, description: str, epilog: str, commands: CommandTable, *, with_extensions: bool = False
    ) -> None:
        self.NAME = name
        self._epilog = epilog
        self._with_extensions = with_extensions
        self._files: Sequence[str] = ()
        super().__init__(description, tonnage.__version__, commands)

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Return the parser of the options before the command."""
        parser = argparse.ArgumentParser(
            self.NAME, f"{self.NAME} [OPTION ...] COMMAND ...", description, self._epilog, add_help=False
        )
        options = parser.add_argument_group("options")
        options.add_argument("-h", "--help", action=_Help, nargs=0, program=self, help="show this help")
        config_files.add_options(options)
        options.add_argument("-d", "--debug", action="store_true", help="log at the level DEBUG")
        options.add_argument("--version", action="version", version=f"{self.NAME} {version}")
        return parser

    def summaries(self) -> dict[str, str]:
        """Return the first sentence of the help of each command, as a phrase."""
        return {name: summary for commands in self.groups().values() for name, summary in commands.items()}

    def groups(self) -> dict[str, dict[str, str]]:
        """Return the summaries of the commands by the titles of their groups."""
        groups: dict[str, dict[str, str]] = {}
        for name, point in self.command_manager:
            title, text = _group_and_description(point)
            sentence = " ".join(text.partition("\n\n")[0].split())
            groups.setdefault(title, {})[name] = sentence[:1].lower() + sentence[1:].rstrip(".")
        return groups

    def subcommands(self) -> dict[str, list[str]]:
        """Return the commands whose names begin with that of another one, by the longest such name."""
        below: dict[str, list[str]] = {}
        names = {name for name, _ in self.command_manager}
        for name in sorted(names):
            words = name.split()
            above = [" ".join(words[:count]) for count in range(len(words) - 1, 0, -1)]
            if parent := next(filter(names.__contains__, above), None):
                below.setdefault(parent, []).append(name)
        return below

    def print_help(self) -> None:
        """Print the help, with the commands before the options. Many commands below one share its line."""
        parser = self.build_option_parser(self.parser.description, tonnage.__version__)
        options = parser._action_groups.pop()
        folded = {name: below for name, below in self.subcommands().items() if len(below) >= _LEAST_FOLDED}
        hidden = {name for below in folded.values() for name in below}
        for title, commands in self.groups().items():
            group = parser.add_argument_group(title)
            for name, summary in commands.items():
                if name not in hidden:
                    more = f"; also {_listed(name, folded[name])}" if name in folded else ""
                    group.add_argument(name, help=f"{summary}{more}")
        parser._action_groups.append(options)
        parser.print_help()

    def run(self, argv: Sequence[str]) -> int:
        """Run a command and return its exit status. The options of configuration files may follow the command."""
        with output.flushed(self.NAME):
            self._files, arguments = config_files.split(argv, self.NAME)
            first = next((i for i, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments))
            self.options, unknown = self.parser.parse_known_args(arguments[:first])
            if unknown:
                self.parser.error(
                    f"unrecognized arguments: {' '.join(unknown)}; the options of a command follow it: "
                    f"{self.NAME} COMMAND {unknown[0]}"
                )
            if arguments[first:] in ([], ["help"]):
                self.print_help()
                return 0
            return self.run_subcommand(list(arguments[first:]))

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command and return its exit status. An error ends the process with a line on standard error."""
        command, parsed_args = self.parse(argv)
        if not isinstance(command, Command):
            try:
                return command.run(parsed_args)
            except ValueError as error:  # of cliff's command help, for an unknown command
                self.parser.error(str(error))
        from tonnage.cli import setup

        with setup.clean_exit(self.NAME):
            command.conf = self.configure(command)
            seconds = getattr(parsed_args, "watch", None)
            if seconds is not None:
                watch.repeat(lambda: self.run_command(command, parsed_args), seconds)
            return self.run_command(command, parsed_args)

    def parse(self, argv: Sequence[str]) -> "tuple[command.Command, argparse.Namespace]":
        """Return the command that a command line names, and its arguments. A usage error ends the process."""
        try:
            factory, name, arguments = self.command_manager.find_command(list(argv))
        except ValueError:
            self.parser.error(f"invalid choice: {argv[0]!r} ({self._advice(argv[0])})")
        except Exception as error:  # an installed extension can raise any error
            self.parser.exit(1, f"{self.NAME}: the command {argv[0]} {_not_loaded(error)}\n")
        command = factory(self, self.options)
        parser = command.get_parser(f"{self.NAME} {name}")
        if below := self.subcommands().get(name):
            parser.epilog = f"Further commands: {_listed(name, below)}. {parser.epilog or ''}"
            if isinstance(command, Command):
                command.subcommands = below
        return command, parser.parse_args(arguments)

    def configure(self, command: Command) -> "cfg.ConfigOpts":
        """Return the configuration of a command, with its options; without any it is not read.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` also for a command of an extension that is not
        enabled.
        """
        from oslo_config import cfg

        from tonnage import enabled_extensions
        from tonnage.cli import setup

        conf = cfg.CONF
        if not command.options:
            return conf
        register = [importlib.import_module(module).register for module in command.options]
        arguments = [*self._files, *(["--debug"] if self.options.debug else [])]
        setup.configure(conf, arguments, self.NAME, register, daemon=False, with_extensions=self._with_extensions)
        name = self.command_manager.extension_of(type(command))
        if name is not None:
            enabled_extensions.require(conf, name)
        return conf

    def run_command(self, command: Command, parsed_args: argparse.Namespace) -> int:
        """Run a command that has its configuration, and return its exit status."""
        self.stdout = sys.stdout
        return command.run(parsed_args)

    def _advice(self, word: str) -> str:
        """Return the commands that begin with a word, or with a similar word, or where all of them are listed."""
        names = [name for name, _ in self.command_manager]
        if matches := [name for name in names if name.startswith(f"{word} ")]:
            return f"choose from {', '.join(matches)}"
        similar = difflib.get_close_matches(word, dict.fromkeys(name.partition(" ")[0] for name in names))
        if matches := [name for first_word in similar for name in names if name.partition(" ")[0] == first_word]:
            return f"did you mean {', '.join(matches)}?"
        return f"'{self.NAME} --help' lists the commands"


def _listed(name: str, below: Sequence[str]) -> str:
    """Return the commands below another one in words, which name this one once."""
    words = [command.removeprefix(f"{name} ") for command in below]
    last = f" and {words[-1]}" if len(words) > 1 else ""
    return f"{name} {', '.join(words[:-1] or words)}{last}"


def _group_and_description(point: commandmanager.EntryPointWrapper | metadata.EntryPoint) -> tuple[str, str]:
    """Return the title of the group of a command, and its description: the docstring of its class."""
    try:
        command = point.load()
    except Exception as error:  # an installed extension can raise any error
        return Command.group, _not_loaded(error)
    # cliff's own commands have no group.
    return getattr(command, "group", Command.group), inspect.getdoc(command) or ""


def _not_loaded(error: Exception) -> str:
    missing = installation.missing_library(error) if isinstance(error, ModuleNotFoundError) else None
    reason = missing or f"{type(error).__name__}: {' '.join(str(error).split())}"
    return f"cannot be loaded: {reason}"


class _Help(argparse.Action):
    """The option that prints the help of a program, with the list of its commands, and ends the program."""

    def __init__(self, option_strings: Sequence[str], dest: str, program: Program, **arguments: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, **arguments)
        self._program = program

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> None:
        """Print the help."""
        self._program.print_help()
        parser.exit()
