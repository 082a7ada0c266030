# SPDX-License-Identifier: Apache-2.0
"""``tonnage drift``: the differences that the consistency check of the ledger finds, with their causes."""

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, capacity

#: Exit status if there is drift, the same as that of ``tonnage-manage ledger check``.
DRIFT = 3

COLUMNS: Sequence[Column] = (
    Column("cause", lambda row: str(row.cause), "cause", is_bad=attrgetter("drift")),
    Column("where", attrgetter("where"), "where"),
    Column("subject", attrgetter("subject"), "subject"),
    capacity("ledger", attrgetter("ledger_gb"), "ledger"),
    capacity("found", attrgetter("found_gb"), "found"),
    Column("is_drift", attrgetter("drift")),
    Column("is_mended_by_repair", attrgetter("mended"), "mended by repair"),
    Column("because", attrgetter("text"), "because", width=60),
)


class Drift(base_commands.Lister):
    """Show where the ledger is wrong, and why.

    Counters, claims, volumes and the last listings are compared; 'tonnage-manage ledger repair' corrects the drift
    that has a certain correction.
    """

    group = "look"
    exit_statuses = (
        f"Exit status: 0 if the ledger is right, {DRIFT} if something is wrong, 1 after an error, 2 for a usage error."
    )
    options = base_commands.LEDGER
    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--pool", metavar="NAME", help="only this pool")
        scope.add_argument("--backend", metavar="HOST@BACKEND", help="only the pools of this backend")
        parser.add_argument(
            "--all", action="store_true", help="also differences that are no drift, such as claims in flight"
        )

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the findings."""
        from tonnage.cli import ledger_access

        result = ledger_access.check(ledger_access.connect(self.conf), parsed_args.pool, parsed_args.backend)
        self.empty = f"{result.pools} pool(s) checked: the ledger is right"
        self.status = DRIFT if result.drift else 0
        return COLUMNS, result.findings if parsed_args.all else result.drift
