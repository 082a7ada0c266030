# SPDX-License-Identifier: Apache-2.0
"""``tonnage pool``: the figures of one pool, and all that belongs to it."""

import argparse
from collections.abc import Sequence
from operator import attrgetter

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part
from tonnage.cli.overviews import pools, refused_requests, volumes
from tonnage.cli.simulation import argument_types

_FINDINGS: Sequence[Column] = (
    Column("breach", attrgetter("breach"), "breach"),
    Column("seen_at", attrgetter("seen_at"), "since"),
    Column("because", attrgetter("seen.text"), "because", width=80),
)


class Pool(base_commands.ShowOne):
    """Show one pool and all that belongs to it.

    Its parts are claims in flight, volumes, refusals whose nearest pool it was, findings about its reports, and the
    pools that share its storage.
    """

    options = base_commands.LEDGER
    columns = pools.COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("pool", metavar="NAME", help="full name, host@backend#pool")
        parser.add_argument(
            "--rows",
            type=argument_types.number_or_all,
            default=10,
            metavar="N",
            help="most rows of each table, 0: all (default: 10)",
        )

    def find(self, parsed_args: argparse.Namespace) -> tuple[pools.PoolRow, Sequence[Part]]:
        """Return the pool and its parts."""
        from tonnage.capacity import errors
        from tonnage.capacity.pools.pool import backend_of, short_name
        from tonnage.cli import ledger_access
        from tonnage.ledger.catalog.refusals import RefusalFilter
        from tonnage.ledger.catalog.refusals import load as load_refusals
        from tonnage.ledger.inventory import audit_findings, volume_figures

        name = parsed_args.pool
        with ledger_access.connect(self.conf).reading(snapshot=True) as session:
            rows_by_name = {row.pool.name: row for row in pools.load(session, self.conf.service_down_time)}
            if name not in rows_by_name:
                raise errors.NotFound(f"pool {name} could not be found: it is in no backend's last report")
            row = rows_by_name[name]
            claims = volume_figures.claims_in_flight(session, name)
            in_pool = list(volume_figures.volumes(session, volume_figures.VolumeFilter(pool=name)))
            refused = load_refusals(session, RefusalFilter(pool=name), 1000)
            findings = [
                finding
                for finding in audit_findings.load(session, backend_of(name))
                if finding.evidence.once is None and finding.pool == audit_findings.stored_name(short_name(name))
            ]
        storage = row.pool.storage
        sharing = [
            pool_row
            for pool_row in rows_by_name.values()
            if storage is not None and pool_row.pool.storage == storage and pool_row != row
        ]
        most = parsed_args.rows or None
        parts = (
            Part("claims", "Claims in flight", volumes.CLAIMS, claims, "none", most),
            Part("volumes", "Volumes", volumes.VOLUMES, in_pool, "none", most),
            Part("refusals", "Refusals whose nearest pool it was", refused_requests.COLUMNS, refused, "none", most),
            Part("findings", "Findings about its reports", _FINDINGS, findings, "none", most),
            Part("sharing", "Pools that share its storage", pools.COLUMNS, sharing, "none", most),
        )
        return row, parts
