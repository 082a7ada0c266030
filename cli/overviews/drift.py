# SPDX-License-Identifier: Apache-2.0
"""``tonnage drift``: the differences that the consistency check of the ledger finds, with their causes."""

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column, capacity

if TYPE_CHECKING:
    from oslo_config import cfg

#: Exit status if there is drift, the same as that of ``tonnage-manage ledger check``.
DRIFT = 3

_STATUSES = (
    f"Exit status: 0 if the ledger is right, {DRIFT} if something is wrong, 1 after an error, 2 for a usage error."
)

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    subcommands.describe(
        parser,
        "Counters, claims, volumes and the last listings are compared; 'tonnage-manage ledger repair' corrects the "
        "drift that has a certain correction.",
        _STATUSES,
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--pool", metavar="NAME", help="only this pool")
    scope.add_argument("--backend", metavar="HOST@BACKEND", help="only the pools of this backend")
    parser.add_argument(
        "--all", action="store_true", help="also differences that are no drift, such as claims in flight"
    )
    formats.add_options(parser, COLUMNS)
    parser.set_defaults(run=_show)


def _show(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.repair import consistency_check

    result = consistency_check.check(ledger_access.connect(conf), pool=arguments.pool, backend=arguments.backend)
    rows = result.findings if arguments.all else result.drift
    formats.show(arguments, COLUMNS, rows, f"{result.pools} pool(s) checked: the ledger is right")
    return DRIFT if result.drift else 0
