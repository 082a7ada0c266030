# SPDX-License-Identifier: Apache-2.0
"""``tonnage``: commands that show the ledger, explain and simulate decisions, and create and delete volumes."""

import sys

from tonnage.cli.program import CommandTable, Program

COMMANDS = {
    "pools": "tonnage.cli.overviews.pools:Pools",
    "pool": "tonnage.cli.overviews.pool:Pool",
    "backends": "tonnage.cli.overviews.backend_overview:Backends",
    "volumes": "tonnage.cli.overviews.volumes:Volumes",
    "types": "tonnage.cli.overviews.volumes:Types",
    "claims": "tonnage.cli.overviews.volumes:Claims",
    "drift": "tonnage.cli.overviews.drift:Drift",
    "why": "tonnage.cli.overviews.placement_reasons:Why",
    "explain": "tonnage.cli.simulation.simulation_commands:Explain",
    "what-if": "tonnage.cli.simulation.simulation_commands:WhatIf",
    "create": "tonnage.cli.changes.volume_commands:Create",
    "delete": "tonnage.cli.changes.volume_commands:Delete",
    "refusals": "tonnage.cli.overviews.refused_requests:Refusals",
}


def program() -> Program:
    """Return the program with the commands of the installed extensions."""
    return Program(
        "tonnage",
        "Show capacity, explain decisions, create, move and delete volumes.",
        "Exit status: 0, 1 error, 2 wrong usage, 3 found or refused, 141 output closed.",
        CommandTable(COMMANDS, "commands"),
    )


def main() -> int:
    """Run one command."""
    return program().run(sys.argv[1:])
