# SPDX-License-Identifier: Apache-2.0
"""``tonnage refusals``: the refused requests that the ledger has recorded."""

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tonnage.cli.display import base_commands, table_columns
from tonnage.cli.display.table_columns import Column, capacity
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types

COLUMNS: Sequence[Column] = (
    Column("refused_at", attrgetter("refused_at"), "at"),
    Column("verb", attrgetter("verb"), "verb"),
    Column("request", attrgetter("request")),
    Column("filter", attrgetter("filter")),
    Column("code", attrgetter("code"), "code"),
    Column("pool", attrgetter("pool")),
    capacity("largest_size", attrgetter("largest_size_gb")),
    Column("project_id", attrgetter("project_id")),
    Column("volume_id", attrgetter("volume_id"), "volume"),
    Column("request_id", attrgetter("request_id")),
    Column("message", attrgetter("message"), "message", width=80),
    Column("request_body", attrgetter("request_body"), text=lambda row: table_columns.json_text(row.request_body)),
)

_SUMMARY: Sequence[Column] = (
    Column("day", attrgetter("day"), "day"),
    Column("verb", attrgetter("verb"), "verb"),
    Column("filter", attrgetter("filter"), "filter"),
    Column("code", attrgetter("code"), "code"),
    Column("refusals", attrgetter("number"), "refusals"),
    Column("last_at", attrgetter("last_at"), "last"),
)


class Refusals(base_commands.Lister):
    """Show the refused requests.

    The newest comes first. 'pool' and 'code' are those of the nearest pool.
    """

    group = "history"
    options = base_commands.LEDGER
    columns = (*COLUMNS, *_SUMMARY)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--summary", action="store_true", help="count them for each day (UTC) and reason")
        parser.add_argument(
            "--pool",
            type=argument_types.name,
            metavar="NAME",
            help="only those whose nearest pool it was, or was in this backend",
        )
        parser.add_argument("--code", help="only those with this reason, such as no_capacity")
        parser.add_argument("--project", type=argument_types.name, metavar="ID", help="only those of this project")
        parser.add_argument(
            "--rows", type=argument_types.number_or_all, default=50, metavar="N", help="most rows, 0: all (default: 50)"
        )
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the refusals, or their numbers."""
        from tonnage.cli.rest import ledger_rows
        from tonnage.ledger.catalog import refusals

        criteria = refusals.RefusalFilter(project_id=parsed_args.project, pool=parsed_args.pool, code=parsed_args.code)
        is_all = criteria == refusals.RefusalFilter()
        self.empty = "No refusal is recorded" if is_all else "No such refusal is recorded"
        with ledger_rows.source(self.conf, parsed_args) as ledger:
            if parsed_args.summary:
                return _SUMMARY, ledger.refusal_counts(criteria)[: parsed_args.rows or None]
            return COLUMNS, ledger.refusals(criteria, parsed_args.rows or None)
