# SPDX-License-Identifier: Apache-2.0
"""Subcommands whose help looks alike: a phrase in the list of commands, the same as a sentence in the command's own."""

import argparse
from typing import Any

JSON = "print JSON instead of tables"


def add(subparsers: Any, name: str, text: str, more: str = "", epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a command. ``text`` says what it does, ``more`` are further sentences of its own help."""
    description = f"{text[0].upper()}{text[1:]}.{' ' if more else ''}{more}"
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=text, description=description, epilog=epilog)
    return parser


def group(subparsers: Any, name: str, text: str) -> Any:
    """Add a command that has subcommands, and return what these are added to."""
    return add(subparsers, name, text).add_subparsers(title="commands", dest="action", required=True)
