# SPDX-License-Identifier: Apache-2.0
"""``tonnage replay``: replay of a decision log under another configuration."""

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.cli.display import tables
from tonnage.extensions.replay import log_records
from tonnage.extensions.replay.replay import Replay, Replayed
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.requests.pool_selection import Rules

#: Exit status if a recorded decision would differ.
FOUND = 3

#: Decisions between two updates of the progress on a terminal.
_PROGRESS_STEP = 1000

#: A file that begins with so many unreadable lines is no log. A log can have single truncated lines.
_MAX_FOREIGN_LINES = 10


def replay(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Run ``tonnage replay``. Return its exit status."""
    by = settings.reloadable(conf)
    play = Replay(Rules(by.filters, by.weighers, by.calculation), by.default_ratio, conf.service_down_time)
    count = differ = 0
    shown: list[Replayed] = []
    most = arguments.rows if arguments.rows > 0 and not arguments.json else None
    for decision in _with_progress(play.play(_lines(arguments.files))):
        count += 1
        differ += decision.differs
        if (decision.differs or arguments.all) and (most is None or len(shown) < most):
            shown.append(decision)
    if arguments.json:
        print(json.dumps({"decisions": count, "differ": differ, "replayed": [_as_data(entry) for entry in shown]}))
    else:
        _print_table(shown, count, differ, cut=len(shown) == most)
    if play.broken:
        first, *further = play.broken
        print(
            f"tonnage: line {first} cannot be read{f', nor {len(further)} other(s)' if further else ''}; the lines "
            "after it are left out until the log begins anew",
            file=sys.stderr,
        )
    if play.lacks_volumes:
        print("tonnage: the log does not say how many volumes pools had, which a weigher asks for", file=sys.stderr)
    if not count:
        raise errors.InvalidInput(
            "there is no decision that could be replayed; a log has to be read from its beginning"
        )
    return FOUND if differ else 0


def _lines(files: Iterable[str]) -> Iterator[bytes]:
    return itertools.chain.from_iterable(map(_lines_of, files))


def _lines_of(path: str) -> Iterator[bytes]:
    with contextlib.ExitStack() as cleanup:
        try:
            file = sys.stdin.buffer if path == "-" else cleanup.enter_context(open(path, "rb"))
            yield from _checked_lines(file, path)
        except OSError as error:
            raise setup.UsageError(f"{path}: {error.strerror}") from None


def _checked_lines(lines: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Yield the lines of a decision log. Raises :class:`~tonnage.cli.setup.UsageError` for any other file."""
    foreign: list[str] = []
    is_log = False
    for number, line in enumerate(lines, 1):
        if not is_log and line.strip():
            try:
                log_records.decode(line)
                is_log = True
            except errors.InvalidInput as error:
                foreign.append(f"line {number}: {error.message}")
        if len(foreign) == _MAX_FOREIGN_LINES:
            break
        yield line
    if foreign and not is_log:
        raise setup.UsageError(
            f"{path} is no decision log (option decision_log) that this release can read; {foreign[0]}"
        )


def _with_progress(replayed: Iterable[Replayed]) -> Iterator[Replayed]:
    """Yield the replayed decisions, and show the progress on a terminal."""
    with contextlib.ExitStack() as cleanup:
        if sys.stderr.isatty():
            cleanup.callback(lambda: print("\r\033[K", end="", file=sys.stderr, flush=True))
        for number, decision in enumerate(replayed, 1):
            if number % _PROGRESS_STEP == 0 and sys.stderr.isatty():
                print(f"\r{number} decisions", end="", file=sys.stderr, flush=True)
            yield decision


def _as_data(decision: Replayed) -> dict[str, Any]:
    recorded = decision.recorded
    return {
        "time": recorded.time,
        "request_id": recorded.requests[0].request_id,
        "request": recorded.request,
        "recorded": {"pools": recorded.pools, "refusal": recorded.refusal},
        "replayed": {"pools": list(decision.pools), "refusal": decision.refusal},
        "differs": decision.differs,
    }


def _print_table(shown: list[Replayed], count: int, differ: int, *, cut: bool) -> None:
    tables.show(
        ("time", "request_id", "request", "recorded", "replayed", "differs"),
        [
            (
                decision.recorded.time,
                decision.recorded.requests[0].request_id,
                decision.recorded.request,
                ", ".join(decision.recorded.pools) or "refused",
                ", ".join(decision.pools) or "refused",
                decision.differs,
            )
            for decision in shown
        ],
        empty="Nothing differs",
    )
    if cut:
        print(f"These are the first {len(shown)}: --rows 0 shows all")
    print(f"{differ} of {count} decision(s) would differ")
