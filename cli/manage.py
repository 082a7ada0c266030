# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage``: the operator's commands on the ledger."""

import sys

from tonnage.cli.program import CommandTable, Program

COMMANDS = {
    "db sync": "tonnage.cli.commands.database_schema:Sync",
    "db check": "tonnage.cli.commands.database_schema:Check",
    "db version": "tonnage.cli.commands.database_schema:Version",
    "db copy": "tonnage.cli.commands.ledger_copy:Copy",
    "sample-config": "tonnage.cli.commands.configuration_files:SampleConfig",
    "backend list": "tonnage.cli.commands.backend:List",
    "backend enable": "tonnage.cli.commands.backend:Enable",
    "backend disable": "tonnage.cli.commands.backend:Disable",
    "backend drain": "tonnage.cli.commands.backend:Drain",
    "backend remove": "tonnage.cli.commands.backend:Remove",
    "driver audit": "tonnage.cli.commands.driver:Audit",
    "ledger check": "tonnage.cli.commands.ledger:Check",
    "ledger repair": "tonnage.cli.commands.ledger:Repair",
    "ledger restored": "tonnage.cli.commands.ledger:Restored",
    "orphan list": "tonnage.cli.commands.orphan:List",
    "orphan purge": "tonnage.cli.commands.orphan:Purge",
    "quota check": "tonnage.cli.commands.quota:Check",
    "quota sync": "tonnage.cli.commands.quota:Sync",
}


def program() -> Program:
    """Return the program with the commands of the installed extensions."""
    return Program(
        "tonnage-manage",
        "Look after the database of Tonnage, its backends and its quotas.",
        "Exit status: 0, 1 after an error, 2 for a wrong command line; the help of each command has others.",
        CommandTable(COMMANDS, "manage_commands"),
        with_extensions=True,
    )


def main() -> int:
    """Run one command."""
    return program().run(sys.argv[1:])
