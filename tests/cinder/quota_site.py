# SPDX-License-Identifier: Apache-2.0
"""A Cinder with a quota driver, and the comparison of what its API says with rows that are counted apart."""

import contextlib
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tests.cinder import sites
from tests.servers import Cinder, MariaDB, PostgreSQL, RabbitMQ, Shape
from tests.servers.base import wait_for

DRIVER = "tonnage.extensions.cinder.quota.driver.QuotaDriver"

#: The columns of a project's use, by resource; ``d`` is false and ``u`` is true.
_COUNTS = {
    "volumes": "(SELECT COUNT(*) FROM volumes WHERE deleted = :d AND use_quota = :u AND project_id = :p)",
    "gigabytes": "(SELECT COALESCE(SUM(size), 0) FROM volumes WHERE deleted = :d AND use_quota = :u "
    "AND project_id = :p) + (SELECT COALESCE(SUM(volume_size), 0) FROM snapshots WHERE deleted = :d "
    "AND use_quota = :u AND project_id = :p)",
    "snapshots": "(SELECT COUNT(*) FROM snapshots WHERE deleted = :d AND use_quota = :u AND project_id = :p)",
    "backups": "(SELECT COUNT(*) FROM backups WHERE deleted = :d AND project_id = :p)",
    "backup_gigabytes": "(SELECT COALESCE(SUM(size), 0) FROM backups WHERE deleted = :d AND project_id = :p)",
    "groups": "(SELECT COUNT(*) FROM groups WHERE deleted = :d AND project_id = :p)",
}

_VOLUMES_OF_TYPE = (
    "FROM volumes v JOIN volume_types t ON t.id = v.volume_type_id WHERE v.deleted = :d AND v.use_quota = :u "
    "AND v.project_id = :p AND t.name = '{type}'"
)

_SNAPSHOTS_OF_TYPE = (
    "FROM snapshots s JOIN volumes v ON v.id = s.volume_id JOIN volume_types t ON t.id = v.volume_type_id "
    "WHERE s.deleted = :d AND s.use_quota = :u AND s.project_id = :p AND t.name = '{type}'"
)

#: The same of one volume type.
_COUNTS_OF_TYPE = {
    "volumes": f"(SELECT COUNT(*) {_VOLUMES_OF_TYPE})",
    "gigabytes": f"(SELECT COALESCE(SUM(v.size), 0) {_VOLUMES_OF_TYPE}) "
    f"+ (SELECT COALESCE(SUM(s.volume_size), 0) {_SNAPSHOTS_OF_TYPE})",
    "snapshots": f"(SELECT COUNT(*) {_SNAPSHOTS_OF_TYPE})",
}


def client_of(cinder: Cinder, project: str) -> Cinder:
    """Return a Cinder for an administrator of another project."""
    client = copy.copy(cinder)
    client.shape = replace(cinder.shape, project=project, token=f"admin:{project}")
    return client


@dataclass(frozen=True)
class QuotaSite:
    """A Cinder, and its database."""

    cinder: Cinder
    engine: sa.Engine

    def all(self, statement: str, **values: Any) -> Sequence[Any]:
        """Return the rows of a query."""
        with self.engine.connect() as connection:
            return connection.execute(*self._bound(statement, values)).all()

    def execute(self, statement: str, **values: Any) -> None:
        """Change rows."""
        with self.engine.begin() as connection:
            connection.execute(*self._bound(statement, values))

    def _bound(self, statement: str, values: Mapping[str, Any]) -> tuple[sa.TextClause, dict[str, Any]]:
        values = {"d": False, "u": True, "p": self.cinder.shape.project, **values}
        text = sa.text(statement)
        return text, {name: values[name] for name in text.compile().params}

    def scalar(self, statement: str, **values: Any) -> int:
        """Return the number that a query counts."""
        [row] = self.all(statement, **values)
        return int(row[0] or 0)

    def rows(self, project: str | None = None, types: Collection[str] = ()) -> dict[str, int]:
        """Return the use of a project by the rows, as of one moment; ``types`` are volume types to count as well."""
        columns = dict(_COUNTS)
        for kind in types:
            columns |= {f"{part}_{kind}": text.format(type=kind) for part, text in _COUNTS_OF_TYPE.items()}
        [row] = self.all(f"SELECT {', '.join(columns.values())}", p=project or self.cinder.shape.project)
        return {name: int(number) for name, number in zip(columns, row, strict=True)}

    def of_type(self, name: str) -> int:
        """Return the number of volumes of a type."""
        return self.rows(types=[name])[f"volumes_{name}"]

    def reservations(self) -> int:
        """Return the number of reservations."""
        return self.scalar("SELECT COUNT(*) FROM reservations WHERE deleted = :d")

    def quotas(self, project: str | None = None) -> dict[str, dict[str, int]]:
        """Return limits and use as the API tells them."""
        path = f"/os-quota-sets/{project or self.cinder.shape.project}?usage=True"
        answer: dict[str, dict[str, int]] = self.cinder.request("GET", path)["quota_set"]
        return answer

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

    def drift(self, project: str | None = None, types: Collection[str] = ()) -> dict[str, tuple[int, int]]:
        """Return how much the API tells too much, in use and reserved, where it does."""
        told, rows = self.quotas(project), self.rows(project, types)
        excess = {name: (told[name]["in_use"] - rows[name], told[name]["reserved"]) for name in rows}
        return {name: difference for name, difference in excess.items() if difference != (0, 0)}

    def agree(self, projects: Sequence[str | None] = (None,), types: Collection[str] = ()) -> None:
        """Wait until the API tells what the rows have and no reservation is left."""
        state: list[Any] = []

        def is_equal() -> bool:
            drift = {project: self.drift(project, types) for project in projects}
            state[:] = [{project: excess for project, excess in drift.items() if excess}, self.reservations()]
            return state == [{}, 0]

        try:
            wait_for(is_equal, "the quotas agree with the rows", 60)
        except TimeoutError:
            raise AssertionError(f"{state}, {[self.quotas(project) for project in projects]}") from None


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
