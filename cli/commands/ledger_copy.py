# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db copy``: copy of the ledger to another database."""

import argparse
import sys
from typing import Any

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.cli.commands import subcommands
from tonnage.ledger.db import database, dialects
from tonnage.ledger.repair import consistency_check, database_copy

_MORE = (
    "From then on the copy is used. Stop all schedulers and APIs before; agents may run. The URL '-' stands for a line "
    "of standard input, which no list of processes shows."
)


def register(actions: Any) -> None:
    """Add the command to those of ``db``."""
    text = "copy the ledger to an empty database, for example from SQLite to PostgreSQL"
    parser = subcommands.add(actions, "copy", text, _MORE)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--to", metavar="URL", help="the SQLAlchemy URL of the empty database")
    choice.add_argument("--undo", action="store_true", help="let this database be used again, as it was at the copy")
    parser.set_defaults(run=_run)


def _run(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    source = database.connect(conf)
    if arguments.undo:
        database_copy.undo(source)
        print("The ledger in this database may be used again")
        return 0
    url = sys.stdin.readline().strip() if arguments.to == "-" else arguments.to
    target = database.connect(conf, create=True, url=url)
    extensions = enabled_extensions.installed()
    database_copy.copy(source, target, extensions, conf.service_down_time, _show)
    drift = len(consistency_check.check(target).drift)
    address = dialects.public_address(target.engine.url)
    print(f"The ledger is in {address} now: set [database] connection of all schedulers and APIs to it")
    if drift:
        print(f"It is a true copy: 'tonnage-manage ledger check' finds {drift} thing(s) wrong, as it did here")
    return 0


def _show(table: str, rows: int) -> None:
    if rows:
        print(f"{table}: {rows} row(s)")
