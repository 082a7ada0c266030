# SPDX-License-Identifier: Apache-2.0
"""``tonnage cinder quotas``: the use of quotas by the rows of Cinder, and the drift of Cinder's counters."""

import argparse
import pathlib
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tonnage.cli.display import base_commands
from tonnage.cli.display.table_columns import Column, Part

if TYPE_CHECKING:
    from tonnage.extensions.cinder.quota.quota_usage import Rules
    from tonnage.ledger.db.database import Database

#: Exit status if a counter has drifted.
FOUND = 3

_USE: Sequence[Column] = (
    Column("project_id", attrgetter("project_id"), "project"),
    Column("resource", attrgetter("resource"), "resource"),
    Column("in_use", attrgetter("use.in_use"), "in use"),
    Column("reserved", attrgetter("use.reserved"), "reserved"),
    Column("counter_in_use", attrgetter("counter_in_use"), "counter"),
    Column("counter_reserved", attrgetter("counter_reserved"), "counter of reserved"),
    Column("drift", attrgetter("drift"), "drift"),
    Column("reserved_drift", attrgetter("reserved_drift"), "drift of reserved"),
    Column("is_counted_anew", attrgetter("is_counted_anew"), None),
)

_RESERVATIONS: Sequence[Column] = (
    Column("project_id", attrgetter("project_id"), "project"),
    Column("resource", attrgetter("resource"), "resource"),
    Column("delta", attrgetter("delta"), "reserved"),
    Column("operation", lambda row: "" if row.booking is None else row.booking.operation.name, "operation"),
    Column("row_id", lambda row: None if row.booking is None else row.booking.row_id, "of"),
    Column("age_seconds", lambda row: round(row.age), "seconds ago"),
    Column("counts", attrgetter("counts"), "counts"),
)

_SUMMARY: Sequence[Column] = (
    Column("projects", lambda row: row["projects"]),
    Column("drifted_counters", lambda row: row["drifted_counters"]),
    Column("reservations_number", lambda row: row["reservations_number"], "reservations"),
)


class Quotas(base_commands.ShowOne):
    """Show what the projects of Cinder use of their quotas.

    It is counted from the rows, whichever quota driver Cinder has, and compared with the counters of Cinder's own. It
    reads the database of Cinder that --cinder-conf names, or option [cinder_shadow] cinder_connection.
    """

    group = "look"
    exit_statuses = (
        f"Exit status: 0 if no counter has drifted, {FOUND} if one has, 1 after an error, 2 for a usage error."
    )
    options = (*base_commands.LEDGER, "tonnage.extensions.cinder.watch.shadow_options")
    columns = _SUMMARY

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--cinder-conf", type=pathlib.Path, metavar="FILE", help="the configuration of Cinder")
        parser.add_argument("--project", metavar="ID", help="this project alone")
        parser.add_argument(
            "--rows", type=int, default=20, metavar="N", help="most rows of a list, 0: all (default: 20)"
        )

    def find(self, parsed_args: argparse.Namespace) -> tuple[dict[str, Any], Sequence[Part]]:
        """Return the numbers, and the lists."""
        from tonnage.extensions.cinder.quota import quota_drift, quota_reservations

        cinder, rules = self._cinder(parsed_args.cinder_conf)
        try:
            with cinder.reading(snapshot=True) as session:
                connection = session.connection()
                uses = quota_drift.read(connection, rules, parsed_args.project)
                reservations = quota_reservations.held(connection, rules, parsed_args.project)
        finally:
            cinder.close()
        drifted = [use for use in uses if use.drift or use.reserved_drift]
        most = parsed_args.rows if parsed_args.rows > 0 else None
        parts = [
            Part("drift", "Counters that have drifted", _USE, drifted, "none", most),
            Part("use", "Use of quotas", _USE, uses, "none", most),
            Part("reservations", "Reservations", _RESERVATIONS, reservations, "none", most),
        ]
        self.status = FOUND if drifted else 0
        summary = {
            "projects": len({use.project_id for use in uses}),
            "drifted_counters": len(drifted),
            "reservations_number": len(reservations),
        }
        return summary, parts

    def _cinder(self, file: pathlib.Path | None) -> tuple["Database", "Rules"]:
        """Return Cinder's database, and how Cinder counts."""
        from tonnage.capacity import errors
        from tonnage.extensions.cinder.quota.quota_usage import Rules
        from tonnage.extensions.cinder.watch import shadow_options
        from tonnage.ledger.db import database

        if file is not None:
            conf = shadow_options.of_cinder(file)
            connection, lifetime = conf.database.connection, conf.tonnage.quota_reservation_lifetime
            name, without = f"option [database] connection of {file}", conf.no_snapshot_gb_quota
        else:
            options = self.conf.cinder_shadow
            connection, lifetime = options.cinder_connection, options.quota_reservation_lifetime
            name, without = "option [cinder_shadow] cinder_connection", options.no_snapshot_gb_quota
        if not connection:
            raise errors.ConfigurationError(
                f"{name} is not set: name the configuration of Cinder with --cinder-conf, or set it to the URL of "
                "Cinder's database, such as mysql+pymysql://user:password@host/cinder"
            )
        return database.Database(database.create_engine(connection, name=name), 2), Rules(lifetime, not without)
