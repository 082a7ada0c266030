# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder plan``: plans of moves for an OpenStack cloud, which move nothing."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cliff.formatters.base import ListFormatter
from stevedore.extension import Extension, ExtensionManager

from tonnage.cli.display import base_commands
from tonnage.cli.simulation import argument_types
from tonnage.extensions.moves import goal_arguments, plan_commands
from tonnage.extensions.relocation import cloud_connection

if TYPE_CHECKING:
    from tonnage.extensions.relocation.cinder_client import CinderClient
    from tonnage.extensions.relocation.plan_choices import Choices
    from tonnage.extensions.relocation.relocation import Relocation

#: The modules with the options of these commands.
OPTIONS = (*base_commands.LEDGER, "tonnage.scheduler.configuration.settings")

#: The name of the format with commands of ``openstack``.
_COMMANDS = "commands"


class _Commands(ListFormatter):
    """The format with commands of ``openstack``: the command itself prints it."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no argument."""

    def emit_list(self, column_names: Any, data: Any, stdout: Any, parsed_args: argparse.Namespace) -> None:
        """Print nothing."""


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the choices for the moves of a cloud to a parser."""
    group = parser.add_argument_group("the moves")
    group.add_argument("--attached", action="store_true", help="move volumes in use too, which Nova copies")
    group.add_argument(
        "--retype",
        action="append",
        default=[],
        type=_pair,
        metavar="OLD=NEW",
        help="give volumes of the type OLD the type NEW, so that they leave the backend that OLD demands; can be "
        "repeated",
    )
    group.add_argument(
        "--no-lock", dest="lock", action="store_false", help="let users change volumes that are available while they "
        "move; otherwise such a volume is in maintenance until its move has ended",
    )  # fmt: skip


def choices_of(client: "CinderClient", parsed_args: argparse.Namespace) -> "Choices":
    """Return the choices of a command line."""
    from tonnage.extensions.relocation.plan_choices import Choices

    return Choices(
        cloud=client.cloud, attached=parsed_args.attached, retype=dict(parsed_args.retype), lock=parsed_args.lock
    )


def connect(command: base_commands.Command, parsed_args: argparse.Namespace) -> "tuple[Relocation, str, str]":
    """Return the plans of the cloud, and the ids of the account's project and user.

    The database is that of the configuration, if it names one.
    """
    from tonnage import enabled_extensions
    from tonnage.cli import ledger_access
    from tonnage.extensions.moves import options as move_options
    from tonnage.extensions.relocation import relocation_options
    from tonnage.extensions.relocation.relocation import Relocation

    enabled_extensions.require(command.conf, "moves")
    for group, options in (*move_options.list_opts(), *relocation_options.list_opts()):
        command.conf.register_opts(options, group.name)
    database = ledger_access.connect(command.conf) if command.conf.database.connection else None
    client, project, user = cloud_connection.connect(parsed_args.os_cloud)
    return Relocation(command.conf, client, database), project, user


class CloudPlan(plan_commands.Plan):
    """Plan moves of volumes of an OpenStack cloud.

    Pools and volumes are those that Cinder's API shows. The goals are those of "tonnage plan". Nothing is moved;
    "cinder plan apply" does that. Volumes that stay are listed with the reason. The format "commands" is a script for
    the command openstack.
    """

    options = OPTIONS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        goal_arguments.add(parser)
        add_choices(parser)
        cloud_connection.add(parser)

    def _load_formatter_plugins(self) -> Any:
        """Return the formatters, with that of commands."""
        formatters = super()._load_formatter_plugins()
        point: Any = None
        own = Extension(_COMMANDS, point, _Commands, _Commands())
        return ExtensionManager.make_test_instance([*formatters, own], formatters.namespace)

    def order(self, parsed_args: argparse.Namespace) -> list[str]:
        """Return the words of the command that carries the plan out."""
        words = ["tonnage", "cinder", "plan", "apply", *goal_arguments.words(parsed_args)]
        words += ["--attached"] if parsed_args.attached else []
        words += [word for old, new in parsed_args.retype for word in ("--retype", f"{old}={new}")]
        words += [] if parsed_args.lock else ["--no-lock"]
        return words + ([] if parsed_args.os_cloud is None else ["--os-cloud", parsed_args.os_cloud])

    def make(self, parsed_args: argparse.Namespace) -> Mapping[str, Any]:
        """Return the plan as the REST API would show it."""
        import msgspec

        from tonnage.extensions.moves import plan_bodies
        from tonnage.extensions.moves.planning.plan import PlanQuery
        from tonnage.extensions.relocation import command_lines

        goal = goal_arguments.read(self._parser, parsed_args, self.subcommands)
        relocation, _, _ = connect(self, parsed_args)
        choices = choices_of(relocation.client, parsed_args)
        plan = relocation.preview(PlanQuery(**goal, options=choices.as_options()))
        if parsed_args.formatter == _COMMANDS:
            figures = relocation.planner.figures()
            clusters = {move.target for move in plan.moves if figures.is_cluster(move.target)}
            new_types = relocation.planner.new_types(plan, choices)
            for line in command_lines.lines(plan, choices, new_types, clusters, parsed_args.os_cloud):
                print(line, file=self.app.stdout)
        body: Mapping[str, Any] = msgspec.to_builtins(plan_bodies.plan_body(plan))
        return body


def _pair(text: str) -> tuple[str, str]:
    """Parse two types with ``=`` between them."""
    old, _, new = text.partition("=")
    if not old or not new or old == new:
        raise argparse.ArgumentTypeError(f"{text!r}: expected two volume types as OLD=NEW")
    return argument_types.name(old), argument_types.name(new)
