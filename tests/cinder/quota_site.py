# SPDX-License-Identifier: Apache-2.0
"""A Cinder with a quota driver, and the comparison of what its API says with rows that are counted apart."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.cinder import sites
from tests.servers import Cinder, MariaDB, PostgreSQL, RabbitMQ, Shape
from tests.servers.base import wait_for

DRIVER = "tonnage.extensions.cinder.quota.driver.QuotaDriver"

#: The rows that count, by resource; ``d`` is false and ``u`` is true.
_COUNTS = {
    "volumes": "SELECT COUNT(*) FROM volumes WHERE deleted = :d AND use_quota = :u AND project_id = :p",
    "gigabytes": "SELECT (SELECT COALESCE(SUM(size), 0) FROM volumes WHERE deleted = :d AND use_quota = :u "
    "AND project_id = :p) + (SELECT COALESCE(SUM(volume_size), 0) FROM snapshots WHERE deleted = :d "
    "AND use_quota = :u AND project_id = :p)",
    "snapshots": "SELECT COUNT(*) FROM snapshots WHERE deleted = :d AND use_quota = :u AND project_id = :p",
    "backups": "SELECT COUNT(*) FROM backups WHERE deleted = :d AND project_id = :p",
}

_OF_TYPE = (
    "SELECT COUNT(*) FROM volumes JOIN volume_types ON volume_types.id = volume_type_id WHERE volumes.deleted = :d "
    "AND use_quota = :u AND project_id = :p AND volume_types.name = :t"
)


@dataclass(frozen=True)
class QuotaSite:
    """A Cinder, and its database."""

    cinder: Cinder
    engine: sa.Engine

    def scalar(self, statement: str, **values: Any) -> int:
        """Return the number that a query finds."""
        values = {"d": False, "u": True, "p": self.cinder.shape.project} | values
        text = sa.text(statement)
        with self.engine.connect() as connection:
            found = connection.execute(text, {name: values[name] for name in text.compile().params}).scalar()
        return int(found or 0)

    def rows(self, project: str | None = None) -> dict[str, int]:
        """Return the use of a project by the rows."""
        return {
            name: self.scalar(statement, p=project or self.cinder.shape.project) for name, statement in _COUNTS.items()
        }

    def of_type(self, name: str) -> int:
        """Return the number of volumes of a type."""
        return self.scalar(_OF_TYPE, t=name)

    def reservations(self) -> int:
        """Return the number of reservations."""
        return self.scalar("SELECT COUNT(*) FROM reservations WHERE deleted = :d")

    def quotas(self, project: str | None = None) -> dict[str, dict[str, int]]:
        """Return limits and use as the API tells them."""
        path = f"/os-quota-sets/{project or self.cinder.shape.project}?usage=True"
        found: dict[str, dict[str, int]] = self.cinder.request("GET", path)["quota_set"]
        return found

    def limit(self, project: str | None = None, **limits: int) -> None:
        """Set limits of a project."""
        project = project or self.cinder.shape.project
        with self.engine.begin() as connection:  # Cinder refuses a limit below the use
            for resource, hard_limit in limits.items():
                values = {"p": project, "r": resource, "l": hard_limit, "d": False}
                connection.execute(sa.text("DELETE FROM quotas WHERE project_id = :p AND resource = :r"), values)
                connection.execute(
                    sa.text("INSERT INTO quotas (project_id, resource, hard_limit, deleted) VALUES (:p, :r, :l, :d)"),
                    values,
                )

    def drift(self, project: str | None = None) -> dict[str, tuple[int, int]]:
        """Return how much the API tells too much, in use and reserved, where it does."""
        told, rows = self.quotas(project), self.rows(project)
        found = {name: (told[name]["in_use"] - rows[name], told[name]["reserved"]) for name in rows}
        return {name: difference for name, difference in found.items() if difference != (0, 0)}

    def agree(self) -> None:
        """Wait until the API tells what the rows have and no reservation is left."""
        state: list[Any] = []

        def found() -> bool:
            state[:] = [self.drift(), self.reservations()]
            return state == [{}, 0]

        try:
            wait_for(found, "the quotas agree with the rows", 60)
        except TimeoutError:
            raise AssertionError(f"{state}, {self.quotas()}") from None


@contextlib.contextmanager
def site(
    server: MariaDB | PostgreSQL, rabbitmq: RabbitMQ, driver: str | None = DRIVER, lifetime: float = 20, **options: str
) -> Iterator[QuotaSite]:
    """Run a Cinder with a quota driver, its own if ``driver`` is None.

    ``lifetime`` is that of a reservation without a row in seconds: a service may not stop for half of it.
    """
    sites.require_cinder()
    more: Mapping[str, str] = {
        "rpc_response_timeout": "10",
        "quota_snapshots": "-1",
        "reservation_clean_interval": "5",
        **({} if driver is None else {"quota_driver": driver}),
        **options,
    }
    shape = Shape(
        backends=["b1"],
        pools=["a"],
        total_gb=100_000,
        more=more,
        sections={"tonnage": {"quota_reservation_lifetime": f"{lifetime:g}"}},
    )
    with server.database() as url, rabbitmq.virtual_host() as bus:
        engine = sa.create_engine(url, pool_pre_ping=True)
        of_cinder = url.replace("charset=utf8mb4", "charset=utf8").replace("+psycopg:", "+psycopg2:")
        try:
            with Cinder(of_cinder, bus, shape) as cinder:
                yield QuotaSite(cinder, engine)
        finally:
            engine.dispose()
