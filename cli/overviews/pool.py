# SPDX-License-Identifier: Apache-2.0
"""``tonnage pool``: the figures of one pool, and all that belongs to it."""

import argparse
from collections.abc import Collection, Sequence
from operator import attrgetter

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part
from tonnage.cli.overviews import pools, refused_requests, volumes
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types

_FINDINGS: Sequence[Column] = (
    Column("breach", attrgetter("breach"), "breach"),
    Column("seen_at", attrgetter("seen_at"), "since"),
    Column("because", attrgetter("text"), "because", width=80),
)


class Pool(base_commands.ShowOne):
    """Show one pool and all that belongs to it.

    Its parts are claims in flight, volumes, refusals whose nearest pool it was, findings about its reports, and the
    pools that share its storage.
    """

    group = "look"
    options = base_commands.LEDGER
    columns = pools.COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("pool", metavar="NAME", help="full name, host@backend#pool, or a part that no other has")
        parser.add_argument(
            "--rows",
            type=argument_types.number_or_all,
            default=10,
            metavar="N",
            help="most rows of each table, 0: all (default: 10)",
        )
        connection_arguments.add(parser)

    def find(self, parsed_args: argparse.Namespace) -> tuple[pools.PoolRow, Sequence[Part]]:
        """Return the pool and its parts."""
        from tonnage.cli.rest import ledger_rows
        from tonnage.ledger.catalog.refusals import RefusalFilter

        with ledger_rows.source(self.conf, parsed_args) as ledger:
            rows_by_name = {row.pool.name: row for row in pools.load(ledger)}
            name = full_name(parsed_args.pool, rows_by_name)
            row = rows_by_name[name]
            claims = ledger.rows("claims", pool=name)
            in_pool = ledger.rows("volumes", pool=name)
            refused = ledger.refusals(RefusalFilter(pool=name), 1000)
            findings = ledger.rows("findings", pool=name)
        storage = row.pool.storage
        sharing = [
            pool_row
            for pool_row in rows_by_name.values()
            if storage is not None and pool_row.pool.storage == storage and pool_row != row
        ]
        most = parsed_args.rows or None
        parts = (
            Part("claims", "Claims in flight", volumes.with_waits(volumes.CLAIMS, claims), claims, "none", most),
            Part("volumes", "Volumes", volumes.VOLUMES, in_pool, "none", most),
            Part("refusals", "Refusals whose nearest pool it was", refused_requests.COLUMNS, refused, "none", most),
            Part("findings", "Findings about its reports", _FINDINGS, findings, "none", most),
            Part("sharing", "Pools that share its storage", pools.COLUMNS, sharing, "none", most),
        )
        return row, parts


def full_name(text: str, names: Collection[str]) -> str:
    """Return the full name of the pool with this name, or of the only pool whose name contains the text.

    A pool whose name within its backend is the text comes first: with the pools ``thin`` and ``thin2``, ``thin``.

    Raises :class:`~tonnage.capacity.errors.NotFound`, and :class:`~tonnage.capacity.errors.InvalidInput` for a part of
    several names.
    """
    from tonnage.capacity import errors
    from tonnage.capacity.pools import name_suggestions
    from tonnage.capacity.pools.pool import short_name

    if text in names:
        return text
    matches = [name for name in names if short_name(name) == text] or [name for name in names if text in name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise errors.InvalidInput(
            f"{text} is a part of the names of {len(matches)} pools: {name_suggestions.listed(matches)}"
        )
    advice = name_suggestions.advice(text, names, "'tonnage pools' lists the pools")
    raise errors.NotFound(
        f"pool {text} could not be found: it is in no backend's last report, and has no volumes; {advice}"
    )
