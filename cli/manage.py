# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage``: the operator's commands on the ledger."""

import argparse
import sys
from typing import Any

from oslo_config import cfg

from tonnage.cli.command_line import Program
from tonnage.cli.commands import (
    backend,
    configuration_files,
    driver,
    ledger_copy,
    migration,
    orphan,
    quota,
    subcommands,
)
from tonnage.cli.commands import ledger as ledger_commands
from tonnage.ledger.db import database, schema

#: Exit status of ``db check`` for an outdated schema. Status 1 means that the check was not possible.
_NOT_AT_HEAD = 3

_STATUSES = (
    f"Exit status: 0 if it has, or that of a later release, {_NOT_AT_HEAD} if it has to be brought up to date, 1 if "
    "nobody could look (configuration, database), 2 for a wrong command line."
)


def _db_sync(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    ledger = database.connect(conf, create=True)
    before = schema.current(ledger.engine)
    schema.sync(ledger.engine)
    after = schema.current(ledger.engine)
    print(f"The database is at revision {after}" + ("" if before == after else f" (it was at {before or 'none'})"))
    return 0


def _db_version(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    print(schema.current(database.connect(conf).engine) or "none")
    return 0


def _db_check(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    try:
        revision = schema.current(database.connect(conf).engine)
    except database.NoDatabase as error:
        print(f"{error.message[0].upper()}{error.message[1:]}")
        return _NOT_AT_HEAD
    if revision == schema.HEAD:
        print(f"The database is at revision {revision}, as this release needs it")
        return 0
    print(f"The database is at revision {revision or 'none'}; this release is made for {schema.HEAD}")
    return _NOT_AT_HEAD if revision is None or revision < schema.HEAD else 0


def register_commands(subparsers: Any) -> None:
    db = subcommands.group(subparsers, "db", "make and look after the ledger's database")
    subcommands.add(db, "sync", "bring the database to this release's schema").set_defaults(run=_db_sync)
    subcommands.add(db, "check", "tell whether the database has this release's schema", epilog=_STATUSES).set_defaults(
        run=_db_check
    )
    subcommands.add(db, "version", "show the revision that the database is at").set_defaults(run=_db_version)
    migration.register(db)
    ledger_copy.register(db)
    configuration_files.register(subparsers)
    backend.register(subparsers)
    driver.register(subparsers)
    ledger_commands.register(subparsers)
    orphan.register(subparsers)
    quota.register(subparsers)


def add_commands(subparsers: Any, name: str | None) -> None:
    """Add the commands, whichever is run."""
    register_commands(subparsers)


PROGRAM = Program(
    "tonnage-manage",
    "Look after the database of Tonnage, its backends and its quotas.",
    "Exit status: 0, 1 after an error, 2 for a wrong command line; the help of each command has others.",
    add_commands,
    (
        "tonnage.rpc.options",
        "tonnage.ledger.db.database",
        "tonnage.ledger.inventory.service_options",
        "tonnage.quotas.options",
    ),
)


def main() -> int:
    """Run one command."""
    return PROGRAM.main(sys.argv[1:])
