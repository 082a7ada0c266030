# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage orphan``: list and deletion of orphans, volumes on the storage without a claim."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from tonnage.api.context.listing_requests import ListingRequests
from tonnage.cli.commands import ledger_access, subcommands, tables
from tonnage.ledger.db import database
from tonnage.ledger.inventory import listings
from tonnage.ledger.repair import orphans
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient


def register(subparsers: Any) -> None:
    """Add the commands."""
    actions = subcommands.group(subparsers, "orphan", "show or delete volumes on the storage that no claim names")
    parser = subcommands.add(actions, "list", "have all backends list their volumes, and show those")
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.set_defaults(run=_list)
    parser = subcommands.add(actions, "purge", "have one deleted by its agent")
    parser.add_argument("pool", metavar="host@backend#pool", help="full name of the pool that it is in")
    parser.add_argument("volume", metavar="NAME", help="its name on the storage")
    parser.add_argument("--yes", action="store_true", required=True, help="confirm that its content may be deleted")
    parser.add_argument("--force", action="store_true", help="also if the ledger may be the wrong one for the pool")
    parser.set_defaults(run=_purge)


def _list(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    ledger = ledger_access.connect(conf)
    for name, last in sorted(_stale(conf, ledger).items()):
        shown = "there is none" if last.age is None else f"the last one is {last.age:.0f} s old"
        print(f"{name} has sent no listing now: {shown}", file=sys.stderr)
    with ledger.reading() as session:
        rows = orphans.load(session)
    tables.show(
        ("pool", "name", "size_gb", "first_seen"),
        [(row.pool, row.name, row.size_gb, row.seen_at.isoformat(sep=" ", timespec="seconds")) for row in rows],
        as_json=arguments.json,
        empty="The last listings had no orphans",
    )
    return 0


def _stale(conf: cfg.ConfigOpts, ledger: database.Database) -> Mapping[str, listings.LastListing]:
    """Have all backends listed, and return the last listing of each backend that was not."""
    if rpc_transport.is_local(conf):
        # tonnage-standalone cannot be reached over its message bus.
        with ledger.reading() as session:
            return listings.last(session)
    transport = rpc_transport.create(conf)
    try:
        return ListingRequests(ledger, SchedulerClient(transport), conf.service_down_time).take()
    finally:
        transport.cleanup()


def _purge(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    pool, name = arguments.pool, arguments.volume
    claim_id = ledger_access.connect(conf).run(orphans.purge, pool, name, force=arguments.force)
    print(
        f"{name} in {pool} is to be deleted (claim {claim_id}); a scheduler tells the agent within seconds, and the "
        "next listing shows that it is gone"
    )
    return 0
