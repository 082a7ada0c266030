# SPDX-License-Identifier: Apache-2.0
"""``tonnage``: commands that show the ledger, and that explain, simulate and replay decisions."""

import logging
import sys
from typing import Any

from oslo_config import cfg

from tonnage.api import options as api_options
from tonnage.cli import setup
from tonnage.cli.commands import explain, log_replay
from tonnage.cli.overviews import pools, volumes
from tonnage.ledger.db import database
from tonnage.rpc import options as rpc_options
from tonnage.scheduler import settings

PROG = "tonnage"


def register_commands(subparsers: Any) -> None:
    pools.register(subparsers)
    volumes.register(subparsers)
    explain.register(subparsers)
    log_replay.register(subparsers)


@setup.clean_exit(PROG)
def main() -> int:
    """Run one command."""
    conf = cfg.CONF
    conf.register_cli_opt(cfg.SubCommandOpt("command", title="commands", handler=register_commands))
    register = [rpc_options.register, api_options.register, settings.register, database.register]
    setup.configure(conf, sys.argv[1:], PROG, register, daemon=False)
    if not conf.debug:
        # If no scheduler answers, one line of the command says so. The library's log lines are for debugging.
        logging.getLogger("oslo.messaging").setLevel(logging.CRITICAL)
    return int(conf.command.run(conf))
