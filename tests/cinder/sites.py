# SPDX-License-Identifier: Apache-2.0
"""A Cinder whose schedulers are Tonnage's, with its ledger."""

import contextlib
import json
import pathlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tests import suites
from tests.functional.deployment import COMMANDS
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape, ledger_schema
from tests.servers.base import wait_for
from tonnage.ledger.db import database


@dataclass(frozen=True)
class Site:
    """A Cinder, and the ledger of its schedulers."""

    cinder: Cinder
    ledger: sa.Engine

    def rows(self, statement: str) -> list[Any]:
        """Return the rows of a query of the ledger."""
        with self.ledger.connect() as connection:
            return list(connection.exec_driver_sql(statement))

    def figures(self, pool: str) -> tuple[int, int]:
        """Return the allocated and the in-flight capacity of a pool."""
        [row] = self.rows(f"SELECT allocated_capacity_gb, in_flight_gb FROM pools WHERE name = '{pool}'")
        return int(row[0]), int(row[1])

    def stored(self, backend: str, pool: str) -> int:
        """Return the capacity of the files in a pool in GiB."""
        folder = self.cinder.folder / "storage" / backend / pool
        return sum(file.stat().st_size for file in folder.iterdir()) // 2**30

    def settled(self, pool: str, allocated: int) -> None:
        """Wait until a pool has this allocated capacity and nothing in flight."""
        wait_for(lambda: self.figures(pool) == (allocated, 0), f"{pool} has {allocated} GiB, none in flight", 60)

    def why(self, volume_id: str) -> dict[str, Any]:
        """Return the answer of ``tonnage why`` about a volume, for which no scheduler is asked."""
        found: dict[str, Any] = json.loads(self.why_text(volume_id, "--offline", "-f", "json"))
        return found

    def explained(self, volume_id: str) -> dict[str, Any]:
        """Return the same with the answer of a scheduler about the same request now."""
        found: dict[str, Any] = json.loads(self.why_text(volume_id, "-f", "json"))
        return found

    def why_text(self, volume_id: str, *words: str) -> str:
        """Return the output of ``tonnage why``."""
        conf = pathlib.Path(self.cinder.folder) / "tonnage.conf"
        url = self.ledger.url.render_as_string(hide_password=False)
        conf.write_text(f"[DEFAULT]\ntransport_url = {self.cinder.bus}\n[database]\nconnection = {url}\n")
        done = subprocess.run(
            [COMMANDS / "tonnage", "--config-file", conf, "why", volume_id, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextlib.contextmanager
def with_ledger(
    mariadb: MariaDB, rabbitmq: RabbitMQ, shape: Shape, of_ledger: MariaDB | None = None, **options: str
) -> Iterator[Site]:
    """Run a Cinder whose schedulers use a new ledger, on the same server unless ``of_ledger`` is another one."""
    require_cinder()
    with (
        mariadb.database() as url,
        (of_ledger or mariadb).database() as ledger_url,
        rabbitmq.virtual_host() as bus,
    ):
        engine = database.create_engine(ledger_url, pool_pre_ping=True)  # tests restart the server
        ledger_schema.create(engine)
        settings = {"connection": ledger_url, "probe_interval": "2", "poll_interval": "0.5", "full_poll_interval": "5"}
        # The first question to the schedulers may come before they listen.
        sized = replace(shape, ledger={**settings, **options}, more={"rpc_response_timeout": "10", **shape.more})
        try:
            with Cinder(url.replace("charset=utf8mb4", "charset=utf8"), bus, sized) as cinder:
                yield Site(cinder, engine)
        finally:
            engine.dispose()


@contextlib.contextmanager
def stock(mariadb: MariaDB, rabbitmq: RabbitMQ, shape: Shape) -> Iterator[Cinder]:
    """Run a Cinder with its own scheduler."""
    require_cinder()
    with (
        mariadb.database() as url,
        rabbitmq.virtual_host() as bus,
        Cinder(url.replace("charset=utf8mb4", "charset=utf8"), bus, shape) as cinder,
    ):
        yield cinder


def require_cinder() -> None:
    """Skip or fail the test if Cinder is not installed."""
    if not Cinder.installed():
        suites.cannot_run("Cinder", f"Cinder is not installed; install {Cinder.packages}")
