# SPDX-License-Identifier: Apache-2.0
"""``tonnage``: commands that show the ledger, and that explain, simulate and replay decisions."""

import sys
from typing import Any

from tonnage.cli.command_line import Program
from tonnage.cli.commands.subcommands import LazyCommand

#: Modules with the options of commands that read the ledger, and of commands that ask a scheduler. The address of the
#: database may contain ``$state_path``, which is one of the first.
_LEDGER = ("tonnage.rpc.options", "tonnage.ledger.db.database", "tonnage.ledger.inventory.service_options")
_SCHEDULER = ("tonnage.rpc.options", "tonnage.api.options", "tonnage.scheduler.configuration.settings")
_BOTH = (*_SCHEDULER, *_LEDGER[1:])

_OVERVIEWS = "tonnage.cli.overviews"
_SIMULATION = "tonnage.cli.simulation.simulation_arguments"

COMMANDS = (
    LazyCommand("pools", "show the figures of all pools", f"{_OVERVIEWS}.pools:add_arguments", _LEDGER),
    LazyCommand("pool", "show one pool and all that belongs to it", f"{_OVERVIEWS}.pool:add_arguments", _LEDGER),
    LazyCommand("volumes", "show the volumes of all projects", f"{_OVERVIEWS}.volumes:add_volumes", _LEDGER),
    LazyCommand("types", "show the volume types, with sums", f"{_OVERVIEWS}.volumes:add_types", _LEDGER),
    LazyCommand("claims", "show the operations under way", f"{_OVERVIEWS}.volumes:add_claims", _LEDGER),
    LazyCommand("refusals", "show the refused requests", f"{_OVERVIEWS}.refused_requests:add_arguments", _LEDGER),
    LazyCommand("why", "tell why a volume is where it is", f"{_OVERVIEWS}.placement_reasons:add_arguments", _BOTH),
    LazyCommand(
        "forecast",
        "show when pools will be full",
        "tonnage.extensions.history.forecast_commands:add_arguments",
        _LEDGER,
    ),
    LazyCommand("drift", "show where the ledger is wrong, and why", f"{_OVERVIEWS}.drift:add_arguments", _LEDGER),
    LazyCommand(
        "top", "show the fullest pools, operations and refusals, live", f"{_OVERVIEWS}.top:add_arguments", _LEDGER
    ),
    LazyCommand(
        "cinder",
        "show how Cinder's schedulers decide",
        "tonnage.extensions.cinder.commands.cinder:add_arguments",
        _LEDGER,
    ),
    LazyCommand("explain", "tell how a request would be decided now", f"{_SIMULATION}:add_explain", _SCHEDULER),
    LazyCommand("what-if", "tell the decisions if things were different", f"{_SIMULATION}:add_what_if", _SCHEDULER),
    LazyCommand("replay", "decide recorded requests again", f"{_SIMULATION}:add_replay", _SCHEDULER),
)


def add_commands(subparsers: Any, name: str | None) -> None:
    """Add the commands, with the arguments of the one with that name (None: of all)."""
    for command in COMMANDS:
        command.add(subparsers, arguments=name in (None, command.name))


PROGRAM = Program(
    "tonnage",
    "Show the capacity of Tonnage, and explain its decisions.",
    "Exit status: 0, 1 error, 2 wrong usage, 3 found or refused, 141 output closed.",
    add_commands,
)


def main() -> int:
    """Run one command."""
    return PROGRAM.main(sys.argv[1:])
