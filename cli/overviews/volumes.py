# SPDX-License-Identifier: Apache-2.0
"""``tonnage volumes``, ``tonnage types`` and ``tonnage claims``."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from oslo_config import cfg

from tonnage.cli.commands import ledger_access, subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column, capacity
from tonnage.ledger.inventory import volume_figures

_VOLUMES: Sequence[Column] = (
    Column("id", attrgetter("id"), "id"),
    Column("name", attrgetter("name"), "name"),
    Column("project_id", attrgetter("project_id"), "project"),
    Column("status", attrgetter("status"), "status"),
    capacity("size", attrgetter("size_gb"), "size"),
    Column("volume_type", attrgetter("volume_type"), "type"),
    Column("pool", attrgetter("pool"), "pool"),
    Column("provisioning", attrgetter("provisioning")),
    Column("status_reason", attrgetter("status_reason")),
    Column("created_at", attrgetter("created_at")),
)

_TYPES: Sequence[Column] = (
    Column("id", attrgetter("id"), "id"),
    Column("name", attrgetter("name"), "name"),
    Column("is_public", attrgetter("is_public"), "public"),
    Column("volumes", attrgetter("volumes"), "volumes"),
    capacity("size", attrgetter("size_gb"), "size"),
)

_CLAIMS: Sequence[Column] = (
    Column("id", attrgetter("id")),
    Column("volume_id", attrgetter("volume_id"), "volume"),
    Column("verb", attrgetter("verb"), "verb"),
    Column("state", attrgetter("state"), "state"),
    Column("pool", attrgetter("pool"), "pool"),
    capacity("size", attrgetter("size_gb"), "size"),
    capacity("physical", attrgetter("physical_gb")),
    Column("request_id", attrgetter("request_id"), "request"),
    Column("created_at", attrgetter("created_at"), "since"),
)


def register(subparsers: Any) -> None:
    """Add the commands."""
    parser = subcommands.add(subparsers, "volumes", "show the volumes of all projects, the oldest first")
    parser.add_argument("--project", metavar="ID", help="only the volumes of this project")
    parser.add_argument("--status", help="only volumes in this status, such as error")
    parser.add_argument("--pool", metavar="NAME", help="only the volumes in this pool, or in the pools of this backend")
    parser.add_argument("--type", metavar="NAME", help="only volumes of this type")
    formats.add_options(parser, _VOLUMES)
    parser.set_defaults(run=_show_volumes)
    parser = subcommands.add(subparsers, "types", "show the volume types, with the sums of their volumes")
    formats.add_options(parser, _TYPES)
    parser.set_defaults(run=_show_types)
    parser = subcommands.add(subparsers, "claims", "show the claims whose operation has not ended, the oldest first")
    formats.add_options(parser, _CLAIMS)
    parser.set_defaults(run=_show_claims)


def _show_volumes(conf: cfg.ConfigOpts) -> int:
    arguments = conf.command
    wanted = volume_figures.VolumeFilter(
        project_id=arguments.project, status=arguments.status, pool=arguments.pool, volume_type=arguments.type
    )
    with ledger_access.connect(conf).reading() as session:
        formats.show(arguments, _VOLUMES, volume_figures.volumes(session, wanted), "There is no such volume")
    return 0


def _show_types(conf: cfg.ConfigOpts) -> int:
    with ledger_access.connect(conf).reading() as session:
        found = volume_figures.types(session)
    formats.show(conf.command, _TYPES, found, "There is no volume type")
    return 0


def _show_claims(conf: cfg.ConfigOpts) -> int:
    with ledger_access.connect(conf).reading() as session:
        found = volume_figures.open_claims(session)
    formats.show(conf.command, _CLAIMS, found, "No operation is under way")
    return 0
