# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``tonnage explain``, ``what-if`` and ``replay``.

The commands themselves import the decision code, which takes a second, so they are imported when they run.
"""

import argparse
import os

from tonnage.cli.commands import subcommands
from tonnage.cli.simulation import argument_types

#: Exit status if at least one request would be refused, or a recorded decision would differ.
FOUND = 3

#: Default project of a question.
PROJECT = "demo"

#: The largest number of volumes that are asked for together.
MAX_AT_ONCE = 128
MIGRATION_POLICIES = ("never", "on-demand")
CALCULATIONS = ("cinder", "standard")

_STATUSES = (
    f"Exit status: 0 if all would be placed, {FOUND} if not, 1 if nobody could be asked, 2 for a wrong command line."
)


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage explain``."""
    subcommands.describe(parser, "Nothing is placed.", _STATUSES)
    _add_request(parser)
    parser.add_argument(
        "--node",
        action="append",
        type=argument_types.node,
        default=[],
        metavar="NAME[:KEY=VALUE,...]",
        help="a node, with its labels, that needs it; of several, which of them can have it",
    )
    parser.set_defaults(run="tonnage.cli.simulation.explain:explain")


def add_what_if(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage what-if``."""
    subcommands.describe(parser, "Nothing is placed.", _STATUSES)
    _add_request(parser)
    _add_changes(parser)
    parser.set_defaults(run="tonnage.cli.simulation.explain:what_if", node=[])


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage replay``."""
    subcommands.describe(
        parser,
        "The decisions of a decision log (option decision_log) are made again by the filters, weighers, default ratio "
        "and calculation of this configuration. No scheduler takes part.",
        f"Exit status: 0 if nothing differs, {FOUND} if something does, 1 for a configuration that cannot be used, 2 "
        "for a wrong command line or a file that is no decision log.",
    )
    logs = parser.add_argument(
        "files", nargs="+", metavar="FILE", help="decision logs, the oldest first; - is standard input"
    )
    subcommands.complete_files(logs)
    parser.add_argument("--all", action="store_true", help="show also the decisions that would be the same")
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.add_argument(
        "--rows",
        type=argument_types.number_or_all,
        default=100,
        metavar="N",
        help="most rows of the table, 0: all (default: 100)",
    )
    parser.set_defaults(run="tonnage.extensions.replay.replay_command:replay")


def _add_request(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the request")
    group.add_argument(
        "size",
        nargs="?",
        type=argument_types.size,
        metavar="SIZE",
        help="GiB of the volume; with --extend its new size",
    )
    group.add_argument("--type", help="volume type, by name or id")
    group.add_argument("--zone", help="availability zone")
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
    requests = group.add_argument(
        "--file",
        type=argument_types.json_file,
        metavar="FILE",
        help="a JSON list of requests, played in order; each a body of POST /volumes, or "
        '{"extend": {"volume_id": ID, "new_size": GIB}}, {"migrate": {"volume_id": ID, "host": PLACE}} or '
        '{"retype": {"volume_id": ID, "new_type": TYPE}}; - is standard input',
    )
    subcommands.complete_files(requests)
    parser.add_argument(
        "--project", help=f"project that asks (default: the one that credentials are for, or {PROJECT})"
    )
    add_target(parser)
    parser.add_argument("--json", action="store_true", help=subcommands.JSON)
    parser.add_argument(
        "--rows",
        type=argument_types.number_or_all,
        default=20,
        metavar="N",
        help="most pools in a table, 0: all (default: 20)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the scheduler to ask."""
    parser.add_argument(
        "--url",
        type=argument_types.url,
        metavar="http://HOST:PORT",
        help="ask the REST API that listens there, not the bus",
    )
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        default=os.environ.get("OS_CLOUD") or None,
        help="entry of clouds.yaml for authentication, where the REST API needs it (default: OS_CLOUD, else the "
        "other OS_ variables that the command openstack knows)",
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
