# SPDX-License-Identifier: Apache-2.0
"""Subcommands with consistent help: the phrase in the list of commands is the first sentence of their own help."""

import argparse
import importlib
from dataclasses import dataclass
from typing import Any

JSON = "print JSON instead of tables"

#: The functions of the completion that complete names of files, as shtab has them, which no help waits for.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command whose module is imported only if the command line names it.

    ``text`` describes it in the list of commands. ``arguments`` is the function, MODULE:NAME, that adds its arguments
    to a parser, ``options`` are the modules whose options its configuration has.
    """

    name: str
    text: str
    arguments: str
    options: tuple[str, ...]

    def add(self, subparsers: Any, *, arguments: bool) -> None:
        """Add the command. ``arguments`` tells whether to add its arguments as well."""
        parser = add(subparsers, self.name, self.text)
        parser.set_defaults(options=self.options)
        if arguments:
            load(self.arguments)(parser)


def load(reference: str) -> Any:
    """Return the function that a reference MODULE:NAME names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def add(subparsers: Any, name: str, text: str, more: str = "", epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a command. ``text`` describes it in both lists, ``more`` has further sentences of its own help."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    describe(parser, more, epilog)
    return parser


def describe(parser: argparse.ArgumentParser, more: str = "", epilog: str | None = None) -> None:
    """Give the help of a command ``more`` sentences, and its exit statuses as ``epilog``."""
    parser.description = f"{parser.description or ''}{' ' if more else ''}{more}"
    parser.epilog = epilog


def complete_files(argument: argparse.Action) -> None:
    """Let shells complete an argument with the names of files."""
    argument.complete = _FILES  # type: ignore[attr-defined]


def group(subparsers: Any, name: str, text: str) -> Any:
    """Add a command with subcommands, and return the object to which these are added."""
    return add(subparsers, name, text).add_subparsers(title="commands", dest="action", required=True)
