# SPDX-License-Identifier: Apache-2.0
"""``tonnage replay``: its arguments."""

import argparse

from tonnage.cli.display import base_commands
from tonnage.cli.simulation import argument_types


class Replay(base_commands.Command):
    """Decide recorded requests again.

    The decisions of a decision log (option decision_log) are made again by the filters, weighers, default ratio and
    calculation of this configuration. No scheduler takes part.
    """

    group = "history"
    exit_statuses = (
        "Exit status: 0 if nothing differs, 3 if something does, 1 for a configuration that cannot be used, 2 for a "
        "wrong command line or a file that is no decision log."
    )
    options = base_commands.SCHEDULER

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument(
            "files", nargs="+", metavar="FILE", help="decision logs, the oldest first; - is standard input"
        )
        parser.add_argument("--all", action="store_true", help="show also the decisions that would be the same")
        parser.add_argument("--json", action="store_true", help=base_commands.JSON)
        parser.add_argument(
            "--rows",
            type=argument_types.number_or_all,
            default=100,
            metavar="N",
            help="most rows of the table, 0: all (default: 100)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Replay the log."""
        from tonnage.extensions.replay import log_replay

        return log_replay.replay(self.conf, parsed_args)
