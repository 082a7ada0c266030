# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage``: database migrations."""

import sys
from typing import Any

from oslo_config import cfg

from tonnage.cli import setup
from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.rpc import options as rpc_options

PROG = "tonnage-manage"


def _db_sync(conf: cfg.ConfigOpts) -> int:
    ledger = database.connect(conf)
    before = schema.current(ledger.engine)
    schema.sync(ledger.engine)
    after = schema.current(ledger.engine)
    print(f"The database is at revision {after}" + ("" if before == after else f" (it was at {before or 'none'})"))
    return 0


def _db_version(conf: cfg.ConfigOpts) -> int:
    print(schema.current(database.connect(conf).engine) or "none")
    return 0


def _commands(subparsers: Any) -> None:
    db = subparsers.add_parser("db", help="the ledger's database").add_subparsers(dest="action", required=True)
    db.add_parser("sync", help="bring the database to this release's schema").set_defaults(run=_db_sync)
    db.add_parser("version", help="show the revision that the database is at").set_defaults(run=_db_version)


@setup.clean_exit(PROG)
def main() -> int:
    """Run one command."""
    conf = cfg.CONF
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", handler=_commands))
    setup.configure(conf, sys.argv[1:], PROG, [rpc_options.register, database.register])
    return int(conf.command.run(conf))
