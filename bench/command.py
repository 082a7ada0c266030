# SPDX-License-Identifier: Apache-2.0
"""Common parts of the benchmarks' command lines: options, progress lines, and the collection of figures."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import throughput_machine as machine

_Figures = TypeVar("_Figures")


class BenchmarkError(Exception):
    """A benchmark has failed: a request was not executed, or a decision was wrong."""


def parser(description: str | None, *, pools: int) -> argparse.ArgumentParser:
    """Return a parser with the common options. ``pools`` is the default number of pools."""
    mine = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    databases = list(machine.DATABASES)
    mine.add_argument("--databases", type=listed(databases), default=databases, help=f"list of {','.join(databases)}")
    mine.add_argument("--pools", type=int, default=pools)
    mine.add_argument("--backends", type=int, default=10, help="number of backends, each with a process")
    mine.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return mine


def listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a converter of a comma-separated option whose words must all be in ``known``."""

    def convert(text: str) -> list[str]:
        unknown = [word for word in text.split(",") if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return text.split(",")

    return convert


def progress(text: str) -> None:
    """Print a progress line to standard error."""
    print(f"... {text}", file=sys.stderr, flush=True)


def collect(name: str, run: Iterable[_Figures], in_short: Callable[[_Figures], str]) -> tuple[list[_Figures], bool]:
    """Run a benchmark; return its figures and whether it ended without an error.

    ``in_short`` makes the progress line of each figure. After an error the earlier figures are returned.
    """
    measured: list[_Figures] = []
    try:
        for one in run:
            progress(in_short(one))
            measured.append(one)
    except (machine.NotAvailable, BenchmarkError, RuntimeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return measured, False
    return measured, True
