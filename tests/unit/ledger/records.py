# SPDX-License-Identifier: Apache-2.0
"""A real ledger in memory, and rows in it that need no scheduler."""

import uuid
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa
from sqlalchemy import orm

from tests.unit.scheduler import ledgers
from tonnage.capacity.pools.pool import backend_of
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.ledger.locks import pool_counters
from tonnage.ledger.models import claim_verbs

Params = ParamSpec("Params")
T = TypeVar("T")


def new_id() -> str:
    return str(uuid.uuid4())


class Records:
    """An empty ledger. Its methods add rows with usual values, and return their ids.

    Claims take no part in counters; :meth:`recount` makes the counters agree with them.
    """

    def __init__(self) -> None:
        self.database = Database(ledgers.in_memory(self), max_retries=0)

    def run(
        self,
        work: Callable[Concatenate[orm.Session, Params], T],
        *args: Params.args,
        **kwargs: Params.kwargs,
    ) -> T:
        """Run a function of the ledger in a transaction."""
        with orm.Session(self.database.engine, expire_on_commit=False) as session, session.begin():
            return work(session, *args, **kwargs)

    def add(self, row: models.Base) -> None:
        """Add a row."""

        def insert(session: orm.Session) -> None:
            session.add(row)

        self.run(insert)

    def backend(self, name: str = "host@b", **values: Any) -> int:
        """Return the id of a backend, which is made if it is missing."""
        found = self.rows("SELECT id FROM backends WHERE name = :name", name=name)
        if not found:
            self.add(models.Backend(**{"name": name, "availability_zone": "nova", "epoch": 1} | values))
        return int(self.rows("SELECT id FROM backends WHERE name = :name", name=name)[0][0])

    def pool(self, name: str = "host@b#p", **values: Any) -> int:
        """Add a pool of 100 GiB, and its backend if it is missing."""
        row = models.Pool(
            **{
                "backend_id": self.backend(backend_of(name)),
                "name": name,
                "total_capacity_gb": 100.0,
                "free_capacity_gb": 100.0,
                "provisioned_capacity_gb": 0.0,
                "covers_epoch": 1,
            }
            | values
        )
        self.add(row)
        return row.id

    def volume(self, pool_id: int | None = None, **values: Any) -> str:
        """Add a volume of 3 GiB without a claim."""
        row = models.Volume(
            **{
                "id": new_id(),
                "project_id": "demo",
                "user_id": "user",
                "size_gb": 3,
                "status": "available",
                "pool_id": pool_id,
                "provisioning": "thin",
            }
            | values
        )
        self.add(row)
        return row.id

    def claim(self, volume_id: str, pool_id: int, **values: Any) -> str:
        """Add a confirmed claim of 3 GiB that the pool's figures contain."""
        [(backend_id,)] = self.rows("SELECT backend_id FROM pools WHERE id = :id", id=pool_id)
        row = models.Claim(
            **{
                "id": new_id(),
                "volume_id": volume_id,
                "backend_id": backend_id,
                "pool_id": pool_id,
                "verb": claim_verbs.CREATE,
                "state": pool_counters.CONFIRMED,
                "size_gb": 3,
                "physical_gb": 0,
                "target_size_gb": 3,
                "provisioning": "thin",
                "contained": True,
            }
            | values
        )
        self.add(row)
        return row.id

    def claimed_volume(self, pool_id: int, size_gb: int = 3, **values: Any) -> str:
        """Add a volume with its claim."""
        volume_id = self.volume(pool_id, size_gb=size_gb, **values)
        self.claim(volume_id, pool_id, size_gb=size_gb, target_size_gb=size_gb)
        return volume_id

    def discrepancy(self, pool_id: int, name: str, category: str, listed_gb: float = 3.0, ledger_gb: float = 0) -> None:
        """Add a difference between the ledger and the last listing."""
        self.add(
            models.Discrepancy(
                pool_id=pool_id, volume_id=name, category=category, listed_gb=listed_gb, ledger_gb=ledger_gb
            )
        )

    def recount(self) -> None:
        """Make the counters of all pools and backends agree with the claims."""
        with self.database.engine.begin() as connection:
            for column, size, condition in (
                ("allocated_capacity_gb", "size_gb", "state IN ('pending', 'confirmed', 'abandoned')"),
                ("in_flight_gb", "size_gb", "NOT contained"),
                ("in_flight_physical_gb", "physical_gb", "NOT contained"),
            ):
                total = f"(SELECT COALESCE(SUM({size}), 0) FROM claims WHERE pool_id = pools.id AND {condition})"
                connection.execute(sa.text(f"UPDATE pools SET {column} = {total}"))
            total = "(SELECT COALESCE(SUM(allocated_capacity_gb), 0) FROM pools WHERE backend_id = backends.id)"
            connection.execute(sa.text(f"UPDATE backends SET allocated_capacity_gb = {total}"))
        self.run(pool_counters.recount_shared, [name for (name,) in self.rows("SELECT name FROM storages")])

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run plain SQL, and return the rows of a query."""
        with self.database.engine.begin() as connection:
            result = connection.execute(sa.text(statement), parameters)
            return [tuple(row) for row in result] if result.returns_rows else []
