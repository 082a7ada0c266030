# SPDX-License-Identifier: Apache-2.0
"""``tonnage pools``: the figures of all pools."""

import argparse
import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column, capacity

if TYPE_CHECKING:
    from oslo_config import cfg

    from tonnage.ledger.inventory.capacity_figures import PoolFigures


class _Row(NamedTuple):
    """A pool, and whether its backend is up."""

    pool: "PoolFigures"
    up: bool

    @property
    def silence(self) -> int | None:
        """Seconds since the last report of the backend."""
        return None if self.pool.silence is None else round(self.pool.silence)

    def state(self) -> str:
        if self.up:
            return "up"
        if self.silence is None:
            return "down, never reported"
        return f"down, was reported {datetime.timedelta(seconds=self.silence)} ago"


def _left(limit: float | None, *used: float | None) -> float | None:
    """Return the rest of a limit in GiB, None without a limit or with an unknown use."""
    if limit is None or None in used:
        return None
    return limit - sum(each for each in used if each is not None)


_COLUMNS: Sequence[Column] = (
    Column("pool", lambda row: row.pool.name, "pool"),
    Column("backend", lambda row: row.pool.backend),
    Column("availability_zone", lambda row: row.pool.zone),
    Column("driver", lambda row: row.pool.driver),
    Column("storage_id", lambda row: row.pool.storage),
    Column("state", lambda row: "up" if row.up else "down", "state", _Row.state),
    capacity("total", lambda row: row.pool.total_gb, "total"),
    capacity("free", lambda row: row.pool.free_gb, "free"),
    capacity("allocated", lambda row: row.pool.allocated_gb, "allocated"),
    capacity("in_flight", lambda row: row.pool.in_flight_gb, "in flight"),
    capacity("in_flight_physical", lambda row: row.pool.in_flight_physical_gb),
    capacity("provisioned", lambda row: row.pool.provisioned_gb, "provisioned"),
    capacity("virtual_limit", lambda row: row.pool.virtual_limit_gb),
    capacity("physical_limit", lambda row: row.pool.physical_limit_gb),
    capacity(
        "virtual_left",
        lambda row: _left(row.pool.virtual_limit_gb, row.pool.provisioned_gb, row.pool.in_flight_gb),
        "virtual left",
    ),
    capacity(
        "physical_left",
        lambda row: _left(row.pool.physical_limit_gb, row.pool.in_flight_physical_gb),
        "physical left",
    ),
    Column("max_over_subscription_ratio", lambda row: row.pool.ratio),
    Column("collected_at", lambda row: row.pool.collected_at),
    Column("silence_seconds", lambda row: row.silence),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "The figures are those of the ledger: the last reports, and the claims that they do not contain yet. "
        "'virtual left' bounds thin volumes by the over-subscription ratio, 'physical left' is the free space less the "
        "reserve and the claims.",
    )
    parser.add_argument("--backend", metavar="HOST@BACKEND", help="only the pools of this backend")
    formats.add_options(parser, _COLUMNS)
    parser.set_defaults(run=_show)


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.inventory import capacity_figures

    with ledger_access.connect(conf).reading() as session:
        found = capacity_figures.pools(session, backend=arguments.backend)
    rows = [_Row(pool, pool.up(conf.service_down_time)) for pool in found]
    formats.show(arguments, _COLUMNS, rows, "No backend has reported such a pool")
    return 0
