# SPDX-License-Identifier: Apache-2.0
"""Subcommands with consistent help: the phrase in the list of commands is the first sentence of their own help."""

import argparse
from typing import Any

JSON = "print JSON instead of tables"


def add(subparsers: Any, name: str, text: str, more: str = "", epilog: str | None = None) -> argparse.ArgumentParser:
    """Add a command. ``text`` describes it in both lists, ``more`` has further sentences of its own help."""
    description = f"{text[0].upper()}{text[1:]}.{' ' if more else ''}{more}"
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=text, description=description, epilog=epilog)
    return parser


def group(subparsers: Any, name: str, text: str) -> Any:
    """Add a command with subcommands, and return the object to which these are added."""
    return add(subparsers, name, text).add_subparsers(title="commands", dest="action", required=True)
