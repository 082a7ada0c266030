# SPDX-License-Identifier: Apache-2.0
"""``tonnage volumes``, ``tonnage types`` and ``tonnage claims``."""

import argparse
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from tonnage.cli.commands import subcommands
from tonnage.cli.overviews import formats
from tonnage.cli.overviews.formats import Column, capacity

if TYPE_CHECKING:
    from oslo_config import cfg

VOLUMES: Sequence[Column] = (
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

CLAIMS: Sequence[Column] = (
    Column("id", attrgetter("id")),
    Column("volume_id", attrgetter("volume_id"), "volume"),
    Column("verb", attrgetter("verb"), "verb"),
    Column("state", attrgetter("state"), "state"),
    Column("pool", attrgetter("pool"), "pool"),
    capacity("size", attrgetter("size_gb"), "size"),
    capacity("physical", attrgetter("physical_gb")),
    Column("request_id", attrgetter("request_id"), "request"),
    Column("created_at", attrgetter("created_at")),
    Column("age_seconds", lambda row: formats.whole(row.age), "age", lambda row: formats.age(row.age)),
)


def add_volumes(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage volumes``."""
    subcommands.describe(parser, "The oldest comes first.")
    parser.add_argument("--project", metavar="ID", help="only the volumes of this project")
    parser.add_argument("--status", help="only volumes in this status, such as error")
    parser.add_argument("--pool", metavar="NAME", help="only the volumes in this pool, or in the pools of this backend")
    parser.add_argument("--type", metavar="NAME", help="only volumes of this type")
    formats.add_options(parser, VOLUMES)
    parser.set_defaults(run=_show_volumes)


def add_types(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage types``."""
    subcommands.describe(parser, "The sums are those of their volumes.")
    formats.add_options(parser, _TYPES)
    parser.set_defaults(run=_show_types)


def add_claims(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tonnage claims``."""
    subcommands.describe(parser, "Each holds a claim on capacity; the oldest comes first.")
    formats.add_options(parser, CLAIMS)
    parser.set_defaults(run=_show_claims)


def _show_volumes(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.inventory import names, volume_figures

    criteria = volume_figures.VolumeFilter(
        project_id=arguments.project, status=arguments.status, pool=arguments.pool, volume_type=arguments.type
    )
    with ledger_access.connect(conf).reading() as session:
        if arguments.pool is not None:
            names.require_pool_or_backend(session, arguments.pool)
        if arguments.type is not None:
            names.require_type(session, arguments.type)
        formats.show(arguments, VOLUMES, volume_figures.volumes(session, criteria), "There is no such volume")
    return 0


def _show_types(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.inventory import volume_figures

    with ledger_access.connect(conf).reading() as session:
        types = volume_figures.types(session)
    formats.show(arguments, _TYPES, types, "There is no volume type")
    return 0


def _show_claims(conf: "cfg.ConfigOpts", arguments: argparse.Namespace) -> int:
    from tonnage.cli.commands import ledger_access
    from tonnage.ledger.inventory import volume_figures

    with ledger_access.connect(conf).reading() as session:
        claims = volume_figures.open_claims(session)
    formats.show(arguments, CLAIMS, claims, "No operation is under way")
    return 0
