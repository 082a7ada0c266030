# SPDX-License-Identifier: Apache-2.0
"""``tonnage explain`` and ``tonnage what-if``: their arguments.

The module of their work imports the decision code, which takes a second, so it is imported when they run.
"""

import argparse

from tonnage.cli.display import base_commands
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types
from tonnage.cli.simulation.argument_types import FOUND, PROJECT

#: The largest number of volumes that are asked for together.
MAX_AT_ONCE = 128
MIGRATION_POLICIES = ("never", "on-demand")
CALCULATIONS = ("cinder", "standard")


def _add_request(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the request")
    group.add_argument(
        "size",
        nargs="?",
        type=argument_types.size,
        metavar="SIZE",
        help="GiB of the volume; with --extend its new size",
    )
    group.add_argument("--type", type=argument_types.name, help="volume type, by name or id")
    group.add_argument("--zone", type=argument_types.name, help="availability zone")
    group.add_argument(
        "--hint",
        action="append",
        type=argument_types.hint,
        default=[],
        metavar="KEY=VALUE",
        help="a scheduler hint; repeatable",
    )
    group.add_argument("--source", metavar="VOLUME", help="the volume, by its id, that it shall be a copy of")
    group.add_argument(
        "--count",
        type=argument_types.count(MAX_AT_ONCE),
        metavar="N",
        help="so many volumes, all or none",
    )
    group.add_argument("--extend", metavar="VOLUME", help="the growth of a volume that is there, by its id")
    group.add_argument("--migrate", metavar="VOLUME", help="the migration of a volume that is there, to any other pool")
    group.add_argument("--to", metavar="PLACE", help="with --migrate: to this pool, or one of this backend")
    group.add_argument("--retype", metavar="VOLUME", help="another type, --type, of a volume that is there")
    group.add_argument(
        "--migration-policy",
        choices=MIGRATION_POLICIES,
        help="with --retype: whether it may be moved for that (default: never)",
    )
    group.add_argument(
        "--file",
        type=argument_types.json_file,
        metavar="FILE",
        help="a JSON list of requests, played in order; each a body of POST /volumes, or "
        '{"extend": {"volume_id": ID, "new_size": GIB}}, {"migrate": {"volume_id": ID, "host": PLACE}} or '
        '{"retype": {"volume_id": ID, "new_type": TYPE}}; - is standard input',
    )
    parser.add_argument(
        "--project",
        type=argument_types.name,
        help=f"project that asks (default: the one that credentials are for, or {PROJECT})",
    )
    connection_arguments.add(parser)
    parser.add_argument("--json", action="store_true", help=base_commands.JSON)
    parser.add_argument(
        "--rows",
        type=argument_types.number_or_all,
        default=20,
        metavar="N",
        help="most pools in a table, 0: all (default: 20)",
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("changes to simulate")
    group.add_argument(
        "--ratio",
        action="append",
        type=argument_types.ratio,
        default=[],
        metavar="[POOL=]RATIO",
        help="over-subscription ratio, a number or auto: of a pool or backend, else of pools that report none",
    )
    group.add_argument("--calculation", choices=CALCULATIONS, help="for thin volumes")
    group.add_argument(
        "--reserved",
        action="append",
        type=argument_types.percentage,
        default=[],
        metavar="[POOL=]PERCENT",
        help="reserved percentage: of a pool or backend, else of all",
    )
    group.add_argument(
        "--lose",
        action="append",
        type=argument_types.pool_or_backend,
        default=[],
        metavar="POOL",
        help="a pool or backend is gone",
    )
    group.add_argument(
        "--add",
        action="append",
        type=argument_types.new_pool,
        default=[],
        metavar="JSON",
        help="a pool more, as a driver reports it, its full name as pool_name; @FILE reads it from there",
    )
    parser.add_argument("--detail", action="store_true", help="show the pools for each request")


class _Simulation(base_commands.Command):
    """A command that asks a scheduler."""

    group = "ask"
    exit_statuses = (
        f"Exit status: 0 if all would be placed, {FOUND} if not, 1 if nobody could be asked, 2 for a wrong command "
        "line."
    )
    options = base_commands.SCHEDULER


class Explain(_Simulation):
    """Tell how a request would be decided now.

    Nothing is placed.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        _add_request(parser)
        parser.add_argument(
            "--node",
            action="append",
            type=argument_types.node,
            default=[],
            metavar="NAME[:KEY=VALUE,...]",
            help="a node, with its labels, that needs it; of several, which of them can have it",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the explanations."""
        from tonnage.cli.simulation import explain

        return explain.explain(self.conf, parsed_args)


class WhatIf(_Simulation):
    """Tell the decisions if things were different.

    Nothing is placed.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        _add_request(parser)
        _add_changes(parser)
        parser.set_defaults(node=[])

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the decisions."""
        from tonnage.cli.simulation import explain

        return explain.what_if(self.conf, parsed_args)
