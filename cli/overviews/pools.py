# SPDX-License-Identifier: Apache-2.0
"""``tonnage pools``: the figures of all pools."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tonnage.cli.display import base_commands, table_columns
from tonnage.cli.display.table_columns import Column, capacity
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types

if TYPE_CHECKING:
    from tonnage.cli.rest.ledger_rows import LedgerRows
    from tonnage.ledger.inventory.capacity_figures import PoolFigures


class PoolRow(NamedTuple):
    """A pool, and whether it is up and can have thin volumes.

    ``problem`` is the reason why it is down or in doubt, None if it is not. It is ``present`` if the last report of its
    backend had it.
    """

    pool: "PoolFigures"
    up: bool
    thin: bool
    problem: str | None = None
    present: bool = True

    @property
    def virtual_limit_gb(self) -> float | None:
        """The bound of thin volumes. None without one, and for a pool that has no thin volumes."""
        return self.pool.virtual_limit_gb if self.thin else None

    @property
    def virtual_left_gb(self) -> float | None:
        """The rest of the bound of thin volumes, None without one or while the pool is down."""
        return self._left(self.virtual_limit_gb, self.pool.provisioned_gb, self.pool.in_flight_gb)

    @property
    def physical_left_gb(self) -> float | None:
        """The free capacity less the reserve and the claims, None if it is unknown or while the pool is down.

        A part of a storage has at most the rest of the storage.
        """
        remaining = self._left(self.pool.physical_limit_gb, self.pool.in_flight_physical_gb)
        of_storage = self.pool.storage_left_gb
        return remaining if remaining is None or of_storage is None else min(remaining, of_storage)

    def _left(self, limit: float | None, *used: float | None) -> float | None:
        if not self.up or limit is None or None in used:
            return None
        return limit - sum(amount for amount in used if amount is not None)

    def state(self) -> str:
        """Return the state as a table has it: with the notice, or the last figures of a pool that is down."""
        if self.up:
            return "up" if self.pool.notice is None else f"up, {self.pool.notice.code}"
        if not self.present:
            return "down, no longer reported"
        if self.pool.silence is None:
            return "down, never reported" if self.pool.notice is None else f"down, {self.pool.notice.text}"
        was = "" if self.pool.total_gb is None else f"was {table_columns.size(self.pool.total_gb)}, "
        return f"down, {was}{table_columns.age(self.pool.silence)} ago"


def load(ledger: "LedgerRows", backend: str | None = None) -> list[PoolRow]:
    """Return all pools, or those of one backend, by name."""
    return [PoolRow(*state) for state in ledger.rows("pools", backend=backend)]


def _reported(key: str, gib: Callable[[PoolRow], float | None], heading: str | None = None) -> Column:
    """Return a column of a reported capacity. A table leaves it out for a pool that is down."""
    column = capacity(key, gib, heading)
    return replace(column, text=lambda row: column.cell(row) if row.up else "")


COLUMNS: Sequence[Column] = (
    Column("pool", lambda row: row.pool.name, "pool"),
    Column("backend", lambda row: row.pool.backend),
    Column("availability_zone", lambda row: row.pool.zone),
    Column("driver", lambda row: row.pool.driver),
    Column("storage_id", lambda row: row.pool.storage),
    Column("state", lambda row: "up" if row.up else "down", "state", PoolRow.state, is_bad=lambda row: not row.up),
    Column("problem", lambda row: row.problem),
    _reported("total", lambda row: row.pool.total_gb, "total"),
    _reported("free", lambda row: row.pool.free_gb, "free"),
    capacity("allocated", lambda row: row.pool.allocated_gb, "allocated"),
    capacity("in_flight", lambda row: row.pool.in_flight_gb, "in flight"),
    capacity("in_flight_physical", lambda row: row.pool.in_flight_physical_gb),
    _reported("provisioned", lambda row: row.pool.provisioned_gb, "provisioned"),
    _reported("virtual_limit", lambda row: row.virtual_limit_gb),
    _reported("physical_limit", lambda row: row.pool.physical_limit_gb),
    capacity("virtual_left", lambda row: row.virtual_left_gb, "virtual left"),
    capacity("physical_left", lambda row: row.physical_left_gb, "physical left"),
    Column("max_over_subscription_ratio", lambda row: row.pool.ratio),
    Column("collected_at", lambda row: row.pool.collected_at),
    Column("figures_age_seconds", lambda row: table_columns.whole(row.pool.age)),
    Column("silence_seconds", lambda row: table_columns.whole(row.pool.silence)),
)


def sums(rows: Sequence[PoolRow]) -> str:
    """Return a line with the sums over the pools that are up."""
    from tonnage.ledger.inventory import capacity_figures

    up = [row.pool for row in rows if row.up]
    if not up:
        return f"None of {len(rows)} pool(s) is up"
    totals = capacity_figures.sums(up)
    figures = (("total", totals.total_gb), ("free", totals.free_gb), ("in flight", totals.in_flight_gb))
    listed = ", ".join(f"{name} {'unknown' if gib is None else table_columns.size(gib)}" for name, gib in figures)
    note = " (pools share a storage, whose space counts once)" if totals.counts_storage_once else ""
    return f"{len(up)} of {len(rows)} pool(s) up: {listed}{note}"


class Pools(base_commands.Lister):
    """Show the figures of all pools.

    They are those of the ledger: the last reports, and the claims that these do not contain yet. 'virtual left'
    bounds thin volumes by the over-subscription ratio, 'physical left' is the free space less the reserve and the
    claims.
    """

    group = "look"
    options = base_commands.LEDGER
    columns = COLUMNS
    empty = "No backend has reported a pool"
    _footer = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument(
            "--backend", type=argument_types.name, metavar="HOST@BACKEND", help="only the pools of this backend"
        )
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[PoolRow]]:
        """Return the columns and the pools."""
        from tonnage.cli.rest import ledger_rows

        with ledger_rows.source(self.conf, parsed_args) as ledger:
            rows = load(ledger, parsed_args.backend)
        self._footer = sums(rows)
        return COLUMNS, rows

    def footer(self) -> str:
        """Return the sums over the pools that are up."""
        return self._footer
