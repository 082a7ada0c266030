# SPDX-License-Identifier: Apache-2.0
"""``tonnage refusals``: the refused requests that the ledger has recorded."""

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column, capacity
from tonnage.cli.simulation import argument_types

if TYPE_CHECKING:
    from oslo_config import cfg

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
    Column("request_body", attrgetter("request_body"), text=lambda row: formats.json_text(row.request_body)),
)

_SUMMARY: Sequence[Column] = (
    Column("day", attrgetter("day"), "day"),
    Column("verb", attrgetter("verb"), "verb"),
    Column("filter", attrgetter("filter"), "filter"),
    Column("code", attrgetter("code"), "code"),
    Column("refusals", attrgetter("number"), "refusals"),
    Column("last_at", attrgetter("last_at"), "last"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(parser, "The newest comes first. 'pool' and 'code' are those of the nearest pool.")
    parser.add_argument("--summary", action="store_true", help="count them for each day (UTC) and reason")
    parser.add_argument("--pool", metavar="NAME", help="only those whose nearest pool it was, or was in this backend")
    parser.add_argument("--code", help="only those with this reason, such as no_capacity")
    parser.add_argument("--project", metavar="ID", help="only those of this project")
    parser.add_argument(
        "--rows", type=argument_types.number_or_all, default=50, metavar="N", help="most rows, 0: all (default: 50)"
    )
    formats.add_options(parser, [*COLUMNS, *_SUMMARY])
    parser.set_defaults(run=_show)


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.catalog import refusals
    from tonnage.ledger.inventory import names

    criteria = refusals.RefusalFilter(project_id=arguments.project, pool=arguments.pool, code=arguments.code)
    empty = "No refusal is recorded" if criteria == refusals.RefusalFilter() else "No such refusal is recorded"
    with ledger_access.connect(conf).reading() as session:
        if arguments.pool is not None:
            names.require_pool_or_backend(session, arguments.pool)
        if arguments.summary:
            formats.show(arguments, _SUMMARY, refusals.count(session, criteria)[: arguments.rows or None], empty)
        else:
            formats.show(arguments, COLUMNS, refusals.load(session, criteria, arguments.rows or None), empty)
    return 0
