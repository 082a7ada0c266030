# SPDX-License-Identifier: Apache-2.0
"""``tonnage top``: the fullest pools, the operations under way and the last refusals, live on a terminal."""

import argparse
import datetime
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from tonnage.capacity import errors
from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats, pools
from tonnage.cli.overviews.pools import PoolRow
from tonnage.cli.simulation import argument_types

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.ledger import models
    from tonnage.ledger.db.database import Database
    from tonnage.ledger.inventory.volume_figures import ClaimFigures

#: Seconds that count as lately for refusals.
_LATELY = 3600

#: Most refusals on the screen.
_REFUSALS = 10

#: Kinds of terminals without a screen that can be overwritten.
_LINES_ONLY = ("", "dumb", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of the ledger at a moment. ``refused`` is the number of refusals in the last hour."""

    taken_at: datetime.datetime
    pools: Sequence[PoolRow]
    claims: "Sequence[ClaimFigures]"
    refusals: "Sequence[models.Refusal]"
    refused: int

    def line(self) -> str:
        """Return the state in one line."""
        capacity = pools.sums(self.pools) if self.pools else "no backend has reported a pool"
        return (
            f"{self.taken_at:%H:%M:%S} {capacity}; {len(self.claims)} operation(s) under way, {self.refused} "
            "refusal(s) in the last hour"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "Keys: q ends it, the space bar updates it now, the arrows and the page keys scroll the pools. Without a "
        "terminal it prints a line for each update.",
    )
    parser.add_argument(
        "--interval",
        type=formats.seconds,
        default=formats.WATCH_SECONDS,
        metavar="SECONDS",
        help=f"seconds between two updates (default: {formats.WATCH_SECONDS:g})",
    )
    parser.add_argument(
        "--updates",
        type=argument_types.number_or_all,
        default=0,
        metavar="N",
        help="end after so many updates; 0: never",
    )
    parser.set_defaults(run=_show)


class Lines:
    """Prints a line for each snapshot; errors go to standard error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the lines as they are."""

    def show(self, snapshot: Snapshot) -> None:
        """Print a snapshot."""
        print(snapshot.line(), flush=True)

    def fail(self, message: str) -> None:
        """Print why there is no newer snapshot."""
        print(f"tonnage: {message}", file=sys.stderr, flush=True)

    def wait(self, seconds: float) -> bool:
        """Sleep."""
        time.sleep(seconds)
        return True


class Display(Protocol):
    """A place where snapshots are shown. ``wait`` returns after some seconds, and False if the user has ended it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, snapshot: Snapshot) -> None: ...

    def fail(self, message: str) -> None: ...

    def wait(self, seconds: float) -> bool: ...


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access

    ledger = ledger_access.connect(conf)
    with _display() as display:
        updates = 0
        while True:
            _update(display, ledger, conf.service_down_time)
            updates += 1
            if updates == arguments.updates or not display.wait(arguments.interval):
                return 0


def _display() -> Display:
    """Return the screen of a terminal, or lines for anything else."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "") in _LINES_ONLY:
        return Lines()
    try:
        return subcommands.load("tonnage.cli.overviews.top_table:Screen")()  # type: ignore[no-any-return]
    except ImportError:
        from tonnage import installation

        raise errors.ConfigurationError(
            "the screen of tonnage top needs rich; without it, 'tonnage top | cat' prints lines; install it with: "
            f"{installation.install_command('top')}"
        ) from None


def _update(display: Display, ledger: "Database", down_time: float) -> None:
    """Show the state of the ledger, or why it cannot be read; it may be there again next time."""
    try:
        display.show(take(ledger, down_time))
    except errors.Unavailable as error:
        display.fail(error.message)


def take(ledger: "Database", down_time: float) -> Snapshot:
    """Return the state of the ledger, the fullest pools first. Raises Unavailable if the database does not answer."""
    from tonnage.ledger.catalog import refusals
    from tonnage.ledger.inventory import volume_figures

    with ledger.reading(patient=False) as session:
        found = pools.load(session, down_time)
        return Snapshot(
            taken_at=datetime.datetime.now().astimezone(),
            pools=sorted(found, key=lambda row: (-_fullness(row), row.pool.name)),
            claims=volume_figures.open_claims(session),
            refusals=refusals.load(session, refusals.RefusalFilter(), _REFUSALS),
            refused=refusals.count_lately(session, _LATELY),
        )


def shares(row: PoolRow) -> tuple[float | None, float | None]:
    """Return the used share of the physical capacity and the promised share of the bound of thin volumes, up to 1.

    A share is None if it is unknown or there is no bound.
    """
    pool = row.pool
    if not row.up:
        return None, None
    physical = promised = None
    if pool.total_gb and pool.free_gb is not None:
        physical = (pool.total_gb - pool.free_gb + pool.in_flight_physical_gb) / pool.total_gb
    if row.virtual_limit_gb and pool.provisioned_gb is not None:
        promised = (pool.provisioned_gb + pool.in_flight_gb) / row.virtual_limit_gb
    return _finite(physical), _finite(promised)


def _finite(share: float | None) -> float | None:
    """Return a share, None instead of one of an infinite capacity."""
    return share if share is not None and math.isfinite(share) else None


def _fullness(row: PoolRow) -> float:
    """Return the larger share. Pools that are down come after those that are up."""
    return max((each for each in shares(row) if each is not None), default=0.0 if row.up else -1.0)
