# SPDX-License-Identifier: Apache-2.0
"""A database with those tables of Cinder that quotas are counted from."""

import datetime
import uuid
from typing import Any

import sqlalchemy as sa

from tonnage.extensions.cinder.quota import quota_tables as tables
from tonnage.extensions.cinder.quota.quota_operations import CREATE_VOLUME, Booking
from tonnage.extensions.cinder.quota.quota_reservations import Amount, ReservationBook
from tonnage.extensions.cinder.quota.quota_usage import Resource, Rules
from tonnage.ledger.db import database

PROJECT = "p"

#: A time after which reservations end in any case.
LATE = datetime.datetime(2100, 1, 1)  # noqa: DTZ001  (in UTC, as in Cinder)

VOLUMES, GIGABYTES = Resource("volumes", "volumes"), Resource("gigabytes", "gigabytes")
SNAPSHOTS = Resource("snapshots", "snapshots")
BACKUPS = Resource("backups", "backups")
VOLUMES_GOLD = Resource("volumes_gold", "volumes", "t-gold")
GIGABYTES_GOLD = Resource("gigabytes_gold", "gigabytes", "t-gold")


class QuotaRows:
    """Rows of a Cinder, and its reservations."""

    def __init__(self, url: str) -> None:
        self.engine = database.create_engine(url)
        tables.VOLUMES.metadata.create_all(self.engine)
        with self.engine.begin() as connection:
            connection.execute(
                sa.DDL("CREATE UNIQUE INDEX quota_usages_one ON quota_usages (project_id, resource, race_preventer)")
            )
        self.rules = Rules(60.0)
        self.book = ReservationBook(lambda: self.rules)

    def put(self, table: sa.Table, **values: Any) -> str:
        """Add a row and return its id."""
        row_id = str(uuid.uuid4())
        defaults = {"id": row_id, "project_id": PROJECT, "deleted": False, "use_quota": True, "status": "available"}
        row = {key: value for key, value in (defaults | values).items() if key in table.c}
        with self.engine.begin() as connection:
            connection.execute(sa.insert(table).values(row))
        return row_id

    def change(self, table: sa.Table, row_id: str, **values: Any) -> None:
        """Change a row."""
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == row_id).values(values))

    def reserve(
        self, *amounts: tuple[Resource, int, int], booking: Booking | None = None, project: str = PROJECT
    ) -> str | None:
        """Reserve amounts: resources, deltas and limits."""
        booking = booking or Booking(CREATE_VOLUME)
        return self.book.reserve(self.engine.begin, project, [Amount(*amount) for amount in amounts], booking, LATE)

    def age(self, seconds: float) -> None:
        """Make all reservations older."""
        created = tables.RESERVATIONS.c.created_at
        with self.engine.begin() as connection:
            for key, at in list(connection.execute(sa.select(tables.RESERVATIONS.c.id, created))):
                connection.execute(
                    sa.update(tables.RESERVATIONS)
                    .where(tables.RESERVATIONS.c.id == key)
                    .values(created_at=at - datetime.timedelta(seconds=seconds))
                )

    def reservations(self) -> int:
        """Return the number of rows of reservations."""
        with self.engine.connect() as connection:
            return int(connection.scalar(sa.select(sa.func.count()).select_from(tables.RESERVATIONS)) or 0)

    def use(self, project: str = PROJECT) -> dict[str, tuple[int, int]]:
        """Return what is in use and what is reserved by resource."""
        found = self.book.use(self.engine.begin, {"t-gold": "gold"}, project)
        return {name: (use.in_use, use.reserved) for name, use in found.items() if use.total}

    def close(self) -> None:
        self.engine.dispose()
