# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db copy``: copy of the ledger to another database."""

import argparse
import sys

from tonnage import extension
from tonnage.cli.display import base_commands


class Copy(base_commands.Command):
    """Copy the ledger to an empty database, for example from SQLite to PostgreSQL.

    From then on the copy is used. Stop all schedulers and APIs before; agents may run. The URL '-' stands for a line of
    standard input, which no list of processes shows.
    """

    options = base_commands.LEDGER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument("--to", metavar="URL", help="the SQLAlchemy URL of the empty database")
        choice.add_argument(
            "--undo", action="store_true", help="let this database be used again, as it was at the copy"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Copy the tables, or undo it."""
        from tonnage.ledger.db import database, dialects
        from tonnage.ledger.repair import consistency_check, database_copy

        source = database.connect(self.conf)
        if parsed_args.undo:
            database_copy.undo(source)
            print("The ledger in this database may be used again")
            return 0
        url = sys.stdin.readline().strip() if parsed_args.to == "-" else parsed_args.to
        target = database.connect(self.conf, create=True, url=url)
        extensions = extension.installed()
        database_copy.copy(source, target, extensions, self.conf.service_down_time, _show)
        drift = len(consistency_check.check(target).drift)
        address = dialects.public_address(target.engine.url)
        print(f"The ledger is in {address} now: set [database] connection of all schedulers and APIs to it")
        if drift:
            print(f"It is a true copy: 'tonnage-manage ledger check' finds {drift} thing(s) wrong, as it did here")
        return 0


def _show(table: str, rows: int) -> None:
    if rows:
        print(f"{table}: {rows} row(s)")
