# SPDX-License-Identifier: Apache-2.0
"""What the command lines of the benchmarks share: options, progress, and figures that are shown whatever happens."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import throughput_machine as machine

_Figures = TypeVar("_Figures")


class Wrong(Exception):
    """What must not be: something was not done that was to be done, or a decision was not right."""


def parser(description: str | None, *, pools: int) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have. ``pools`` is how many there are unless told."""
    mine = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    databases = list(machine.DATABASES)
    mine.add_argument("--databases", type=listed(databases), default=databases, help=f"of {','.join(databases)}")
    mine.add_argument("--pools", type=int, default=pools)
    mine.add_argument("--backends", type=int, default=10, help="that the pools belong to, a process each")
    mine.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return mine


def listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what takes apart the words of an option, each of which has to be known."""

    def convert(text: str) -> list[str]:
        unknown = [word for word in text.split(",") if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return text.split(",")

    return convert


def progress(text: str) -> None:
    """Tell a person how far it is."""
    print(f"... {text}", file=sys.stderr, flush=True)


def collect(name: str, run: Iterable[_Figures], in_short: Callable[[_Figures], str]) -> tuple[list[_Figures], bool]:
    """Return what a benchmark of that name has measured, and whether all went well; it tells each as it comes.

    What was measured before something went wrong is returned all the same.
    """
    measured: list[_Figures] = []
    try:
        for one in run:
            progress(in_short(one))
            measured.append(one)
    except (machine.NotHere, Wrong, RuntimeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return measured, False
    return measured, True
