# SPDX-License-Identifier: Apache-2.0
"""The options of command lines that name configuration files."""

import argparse
from collections.abc import Sequence
from typing import Any


def add_options(parser: Any) -> None:
    """Add the options to a parser or a group of it."""
    for option, text in (
        ("--config-file", "read this file; several can be named"),
        ("--config-dir", "read the files of this folder that end with .conf"),
    ):
        parser.add_argument(option, action="append", default=[], metavar="PATH", help=text)


def split(argv: Sequence[str], prog: str) -> tuple[list[str], list[str]]:
    """Return these options, which may also follow a command, and the other arguments."""
    parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
    add_options(parser)
    parsed, remaining = parser.parse_known_args(argv)
    named = (("--config-file", parsed.config_file), ("--config-dir", parsed.config_dir))
    return [part for option, values in named for value in values for part in (option, value)], remaining


def first(argv: Sequence[str], prog: str) -> list[str]:
    """Return the arguments with these options first. oslo.config does not find them after a command."""
    files, remaining = split(argv, prog)
    return [*files, *remaining]
