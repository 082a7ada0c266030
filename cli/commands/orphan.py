# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage orphan``: list and deletion of orphans, volumes on the storage without a claim."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column

if TYPE_CHECKING:
    from tonnage.ledger.db.database import Database
    from tonnage.ledger.inventory.listings import LastListing


class List(base_commands.Lister):
    """Have all backends list their volumes, and show those that no claim names."""

    options = base_commands.LEDGER
    columns: ClassVar[Sequence[Column]] = (
        Column("pool", attrgetter("pool"), "pool"),
        Column("name", attrgetter("name"), "name"),
        Column("size_gb", attrgetter("size_gb"), "size gb"),
        Column("first_seen", lambda row: row.seen_at.isoformat(sep=" ", timespec="seconds"), "first seen"),
    )
    empty = "The last listings had no orphans"
    has_json = True

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the orphans."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import orphans

        ledger = ledger_access.connect(self.conf)
        for name, last in sorted(self._stale(ledger).items()):
            shown = "there is none" if last.age is None else f"the last one is {last.age:.0f} s old"
            print(f"{name} has sent no listing now: {shown}", file=sys.stderr)
        with ledger.reading() as session:
            return self.columns, orphans.load(session)

    def _stale(self, ledger: "Database") -> "Mapping[str, LastListing]":
        """Have all backends listed, and return the last listing of each backend that was not."""
        from tonnage.api.context.listing_requests import ListingRequests
        from tonnage.ledger.inventory import listings
        from tonnage.rpc import transport as rpc_transport
        from tonnage.rpc.clients.scheduler_client import SchedulerClient

        if rpc_transport.is_local(self.conf):
            # tonnage-standalone cannot be reached over its message bus.
            with ledger.reading() as session:
                return listings.last(session)
        transport = rpc_transport.create(self.conf)
        try:
            return ListingRequests(ledger, SchedulerClient(transport), self.conf.service_down_time).take()
        finally:
            transport.cleanup()


class Purge(base_commands.Command):
    """Have one orphan deleted by its agent."""

    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("pool", metavar="host@backend#pool", help="full name of the pool that it is in")
        parser.add_argument("volume", metavar="NAME", help="its name on the storage")
        parser.add_argument("--yes", action="store_true", required=True, help="confirm that its content may be deleted")
        parser.add_argument("--force", action="store_true", help="also if the ledger may be the wrong one for the pool")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Claim the deletion, which a scheduler sends to the agent."""
        from tonnage.cli import ledger_access
        from tonnage.ledger.repair import orphans

        pool, name = parsed_args.pool, parsed_args.volume
        claim_id = ledger_access.connect(self.conf).run(orphans.purge, pool, name, force=parsed_args.force)
        print(
            f"{name} in {pool} is to be deleted (claim {claim_id}); a scheduler tells the agent within seconds, and "
            "the next listing shows that it is gone"
        )
        return 0
