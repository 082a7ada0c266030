# SPDX-License-Identifier: Apache-2.0
"""A server of the REST API on a ledger with any content, without schedulers and agents."""

import contextlib
import datetime
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.api.cluster import configuration
from tests.unit.rpc import bus as memory_bus
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.rpc.scheduler_client import SchedulerClient

REPORT = {
    "total_capacity_gb": 1000.0,
    "free_capacity_gb": 400.0,
    "provisioned_capacity_gb": 1200.0,
    "reserved_percentage": 5,
    "max_over_subscription_ratio": 2.0,
    "thin_provisioning_support": True,
    "thick_provisioning_support": True,
}


class PageServer:
    """The server, and its ledger."""

    def __init__(
        self, folder: pathlib.Path, bus: Any, authenticator: authentication.Authenticator | None = None
    ) -> None:
        engine = database.create_engine(f"sqlite:///{folder / 'ledger.sqlite'}")
        ledger_schema.create(engine)
        self.ledger = database.Database(engine)
        self._policy_file = folder / "policy.yaml"
        self._policy_file.write_text("{}\n")
        (folder / "tonnage.conf").write_text(f"[oslo_policy]\npolicy_file = {self._policy_file}\n")
        conf = configuration([str(folder / "tonnage.conf")], osapi_volume_listen_port=0, service_down_time=3600)
        if authenticator is None:
            authenticator = authentication.local_noauth("127.0.0.1")
        else:
            conf.set_override("auth_strategy", "keystone")
        self._server = ApiServer(conf, app.build(conf, self.ledger, SchedulerClient(bus), authenticator))

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._server.url

    def start(self) -> None:
        """Serve."""
        self._server.start()

    def stop(self) -> None:
        """Stop to serve. Clients then find nobody at the address."""
        self._server.stop()

    def close(self) -> None:
        """Stop, and close the ledger."""
        self.stop()
        self.ledger.close()

    def set_policy(self, text: str) -> None:
        """Replace the content of the policy file."""
        later = self._policy_file.stat().st_mtime + 5
        self._policy_file.write_text(text)
        os.utime(self._policy_file, (later, later))

    def add_backend(
        self, name: str, pools: Mapping[str, Mapping[str, Any]], *, silence: float = 0.0, **fields: Any
    ) -> None:
        """Add a backend with these pools, which map to the differences of their reports from :data:`REPORT`.

        Its last report is ``silence`` seconds old.
        """
        with orm.Session(self.ledger.engine) as session:
            now = session.execute(sa.select(models.utcnow())).scalar_one()
            backend = models.Backend(
                name=name,
                availability_zone="nova",
                last_report_at=now - datetime.timedelta(seconds=silence),
                **fields,
            )
            session.add(backend)
            session.flush()
            rows = [
                {
                    "backend_id": backend.id,
                    "name": f"{name}#{pool}",
                    "stats": {**REPORT, **report, "pool_name": pool},
                    "ratio": 2.0,
                    "allocated_capacity_gb": 900,
                }
                for pool, report in pools.items()
            ]
            if rows:
                session.execute(sa.insert(models.Pool), rows)
            session.commit()

    def add_volume(self, pool: str, **fields: Any) -> None:
        """Add a volume to a pool."""
        with orm.Session(self.ledger.engine) as session:
            found = session.scalars(sa.select(models.Pool).where(models.Pool.name == pool)).one()
            session.add(models.Volume(pool_id=found.id, size_gb=1, status="available", project_id="demo", **fields))
            session.commit()


@contextlib.contextmanager
def page_server(
    folder: pathlib.Path, authenticator: authentication.Authenticator | None = None
) -> Iterator[PageServer]:
    """Run a server with an empty ledger in this folder, with noauth or, given an authenticator, with tokens."""
    with memory_bus.memory_transport() as bus:
        server = PageServer(folder, bus, authenticator)
        server.start()
        yield server
        server.close()
