# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage``: the operator's commands on the ledger."""

import argparse
import sys
from typing import Any

from oslo_config import cfg

from tonnage import enabled_extensions
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
    ledger, extensions = database.connect(conf, create=True), enabled_extensions.enabled(conf)
    before = schema.current(ledger.engine)
    schema.sync(ledger.engine, extensions)
    for branch in schema.branches(ledger.engine, extensions):
        former = before.get(branch.name)
        change = f" ({'they were' if branch.name else 'it was'} at {former or 'none'})"
        print(_sentence(branch.text) + ("" if former == branch.revision else change))
    return 0


def _db_version(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    print("\n".join(schema.current(database.connect(conf).engine).values()) or "none")
    return 0


def _db_check(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    try:
        branches = schema.branches(database.connect(conf).engine, enabled_extensions.enabled(conf))
    except database.NoDatabase as error:
        print(_sentence(error.message))
        return _NOT_AT_HEAD
    for branch in branches:
        is_at_head = branch.revision == branch.head
        rest = ", as this release needs it" if is_at_head else f"; this release is made for {branch.head}"
        print(_sentence(branch.text) + rest)
    return _NOT_AT_HEAD if any(branch.is_behind for branch in branches) else 0


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


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
