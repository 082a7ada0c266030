# SPDX-License-Identifier: Apache-2.0
"""``tonnage volumes``, ``tonnage types`` and ``tonnage claims``."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from tonnage.cli.display import base_commands, table_columns
from tonnage.cli.display.table_columns import Column, capacity
from tonnage.cli.rest import connection_arguments
from tonnage.cli.simulation import argument_types

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
    Column("waits_for", attrgetter("waits_for"), width=60),
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
    Column("age_seconds", lambda row: table_columns.whole(row.age), "age", lambda row: table_columns.age(row.age)),
    Column("waits_for", attrgetter("waits_for"), width=60),
)


def with_waits(columns: Sequence[Column], rows: Sequence[Any]) -> Sequence[Column]:
    """Return the columns of a table of volumes or claims: with the backends that they wait for, if there are any."""
    if all(row.waits_for is None for row in rows):
        return columns
    return [replace(column, heading="waits for") if column.key == "waits_for" else column for column in columns]


class Volumes(base_commands.Lister):
    """Show the volumes of all projects.

    The oldest comes first.
    """

    group = "look"
    options = base_commands.LEDGER
    columns = VOLUMES

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument(
            "--project", type=argument_types.name, metavar="ID", help="only the volumes of this project"
        )
        parser.add_argument("--status", help="only volumes in this status, such as error")
        parser.add_argument(
            "--pool",
            type=argument_types.name,
            metavar="NAME",
            help="only the volumes in this pool, or in the pools of this backend",
        )
        parser.add_argument("--type", type=argument_types.name, metavar="NAME", help="only volumes of this type")
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the volumes."""
        from tonnage.cli.rest import ledger_rows

        filters = {
            "project_id": parsed_args.project,
            "status": parsed_args.status,
            "pool": parsed_args.pool,
            "volume_type": parsed_args.type,
        }
        self.empty = "There is no such volume" if any(filters.values()) else "There is no volume"
        rows = ledger_rows.read(self.conf, parsed_args, "volumes", **filters)
        return with_waits(VOLUMES, rows), rows


class Types(base_commands.Lister):
    """Show the volume types, with sums.

    The sums are those of their volumes.
    """

    group = "look"
    options = base_commands.LEDGER
    columns = _TYPES
    empty = "There is no volume type"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the volume types."""
        from tonnage.cli.rest import ledger_rows

        return _TYPES, ledger_rows.read(self.conf, parsed_args, "types")


class Claims(base_commands.Lister):
    """Show the operations under way.

    Each holds a claim on capacity; the oldest comes first.
    """

    group = "look"
    options = base_commands.LEDGER
    columns = CLAIMS
    empty = "No operation is under way"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        connection_arguments.add(parser)

    def rows(self, parsed_args: argparse.Namespace) -> tuple[Sequence[Column], Sequence[Any]]:
        """Return the columns and the claims."""
        from tonnage.cli.rest import ledger_rows

        rows = ledger_rows.read(self.conf, parsed_args, "claims")
        return with_waits(CLAIMS, rows), rows
