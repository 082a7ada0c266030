# SPDX-License-Identifier: Apache-2.0
"""A server of the REST API on a ledger with any content, without schedulers and agents."""

import contextlib
import datetime
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tests.unit.api.cluster import configuration
from tests.unit.rpc import bus as memory_bus
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.extensions.history import coming_refusals, history_writer, tables
from tonnage.extensions.history.api import api_parts as history_api
from tonnage.extensions.history.coming_refusals import ComingRefusals, WantedVolume
from tonnage.extensions.history.daily_forecasts import Forecaster
from tonnage.extensions.page import api_parts as page_api
from tonnage.ledger import models
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc.clients.scheduler_client import SchedulerClient

#: The extensions whose figures the page shows, and the page itself.
EXTENSIONS = ("history", "page")

REPORT = {
    "total_capacity_gb": 1000.0,
    "free_capacity_gb": 400.0,
    "provisioned_capacity_gb": 1200.0,
    "reserved_percentage": 5,
    "max_over_subscription_ratio": 2.0,
    "thin_provisioning_support": True,
    "thick_provisioning_support": True,
}


#: The refusals to come of the type ``t-gold`` and of volumes without a type.
COMING = (
    ComingRefusals(
        type_id="t-gold",
        known_days=60,
        runs=20,
        refused=12,
        filter="CapacityFilter",
        message="No pool for 5 GiB 'gold': 1 pool; CapacityFilter refused 1",
        requests=[WantedVolume("", 20), *[WantedVolume("t-gold", 5)] * 41],
    ),
    ComingRefusals(type_id="", known_days=60, runs=20),
)

#: A row of the history of a pool with the figures of :data:`REPORT`.
_HISTORY = {
    "samples": 6,
    "total_gb": 1000.0,
    "physical_limit_gb": 950.0,
    "virtual_limit_gb": 2000.0,
    "in_flight_max_gb": 10,
    "allocated_gb": 900,
    "created_gb": 12,
    "deleted_gb": 4,
    "moved_gb": 0,
    "deleted_sum_gb": 0,
    "moved_sum_gb": 0,
}


def _used(used_gb: float) -> dict[str, float]:
    """Return the figures of a slot that follow from the used capacity."""
    return {
        "used_gb": used_gb,
        "used_min_gb": used_gb - 5,
        "used_max_gb": used_gb + 5,
        "provisioned_gb": 2 * used_gb,
    }


def _slots(
    end: datetime.datetime, length: datetime.timedelta, growth_gb: Sequence[float]
) -> Iterator[tuple[datetime.datetime, float]]:
    """Yield the slots up to one, each with the used capacity, which ends at that of :data:`REPORT`."""
    used = REPORT["total_capacity_gb"] - REPORT["free_capacity_gb"]
    for number, grown in enumerate(reversed(growth_gb)):
        yield end - number * length, float(used)
        used -= grown


@contextlib.contextmanager
def no_shared_results() -> Iterator[None]:
    """Let the servers that are built in the context read the ledger anew for each request."""
    lifetimes = page_api.Lifetimes(overview=0.0, pools_of_type=0.0, ledger_check=0.0)
    with (
        mock.patch.object(page_api, "LIFETIMES", lifetimes),
        mock.patch.object(history_api, "FORECASTS_LIFETIME", 0.0),
    ):
        yield


class PageServer:
    """The server, and its ledger."""

    def __init__(
        self,
        folder: pathlib.Path,
        bus: Any,
        authenticator: authentication.Authenticator | None = None,
        extensions: Sequence[str] = EXTENSIONS,
    ) -> None:
        engine = database.create_engine(f"sqlite:///{folder / 'ledger.sqlite'}")
        ledger_schema.create(engine)
        self.ledger = database.Database(engine)
        self._policy_file = folder / "policy.yaml"
        self._policy_file.write_text("{}\n")
        (folder / "tonnage.conf").write_text(f"[oslo_policy]\npolicy_file = {self._policy_file}\n")
        conf = configuration(
            [str(folder / "tonnage.conf")],
            osapi_volume_listen_port=0,
            service_down_time=3600,
            enabled_extensions=extensions,
        )
        if authenticator is None:
            authenticator = authentication.local_noauth("127.0.0.1")
        else:
            conf.set_override("auth_strategy", "keystone")
        self._scheduler = SchedulerClient(bus)
        application = app.build(conf, self.ledger, self._scheduler, authenticator)
        self._server = ApiServer(conf, application)

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
                    "ratio": {**REPORT, **report}["max_over_subscription_ratio"],
                    "allocated_capacity_gb": 900,
                }
                for pool, report in pools.items()
            ]
            if rows:
                session.execute(sa.insert(models.Pool), rows)
            session.commit()

    def add_scheduler(self) -> None:
        """Add a scheduler that is up, and a message bus that takes messages."""
        with orm.Session(self.ledger.engine) as session:
            session.add(models.Service(binary=heartbeats.SCHEDULER, host="rack0", last_seen_at=models.utcnow()))
            session.commit()
        self._scheduler.bus_takes_messages = lambda: True  # type: ignore[method-assign]

    def add_coming_refusals(self) -> None:
        """Add the type gold, and :data:`COMING`."""
        with orm.Session(self.ledger.engine) as session:
            session.add(models.VolumeType(id="t-gold", name="gold"))
            session.commit()
        self.ledger.run(coming_refusals.store, COMING)

    def add_history(self, pool: str, growth_gb: Sequence[float], **figures: Any) -> None:
        """Add the history of a pool up to now, in each grain, with the growth of each day; then make forecasts.

        ``figures`` are columns of the history.
        """
        with orm.Session(self.ledger.engine) as session:
            now = history_writer.database_time(session)
            [pool_id] = session.scalars(sa.select(models.Pool.id).where(models.Pool.name == pool))
            by_hour = np.repeat(growth_gb[-14:], 24) / 24
            by_ten_minutes = np.repeat(by_hour[-24:], 6) / 6
            hour = now.replace(minute=0, second=0, microsecond=0)
            ten_minutes = datetime.timedelta(minutes=10)
            rows = [
                {**_HISTORY, "grain": grain, "slot": slot, "pool_id": pool_id, **_used(used), **figures}
                for grain, end, length, growth in (
                    ("day", hour.replace(hour=0), datetime.timedelta(days=1), growth_gb),
                    ("hour", hour, datetime.timedelta(hours=1), by_hour),
                    ("ten_minutes", hour + (now - hour) // ten_minutes * ten_minutes, ten_minutes, by_ten_minutes),
                )
                for slot, used in _slots(end, length, growth)
            ]
            session.execute(sa.insert(tables.PoolHistory), rows)
            session.commit()
        Forecaster(self.ledger).work(lambda: True)

    def add_volume(self, pool: str, **fields: Any) -> None:
        """Add a volume to a pool."""
        with orm.Session(self.ledger.engine) as session:
            found = session.scalars(sa.select(models.Pool).where(models.Pool.name == pool)).one()
            session.add(models.Volume(pool_id=found.id, size_gb=1, status="available", project_id="demo", **fields))
            session.commit()


@contextlib.contextmanager
def page_server(
    folder: pathlib.Path,
    authenticator: authentication.Authenticator | None = None,
    extensions: Sequence[str] = EXTENSIONS,
) -> Iterator[PageServer]:
    """Run a server with an empty ledger in this folder, with noauth or, given an authenticator, with tokens."""
    with memory_bus.memory_transport() as bus:
        server = PageServer(folder, bus, authenticator, extensions)
        server.start()
        yield server
        server.close()
