# SPDX-License-Identifier: Apache-2.0
"""The first start of Tonnage's scheduler, also in a cloud that has 10,000 volumes in 1,000 pools.

``TONNAGE_CINDER_STARTS`` is the number of first starts in a small cloud.
"""

import itertools
import os
import signal
import time
import uuid

import sqlalchemy as sa

from tests.cinder import sites
from tests.servers import Cinder, MariaDB, RabbitMQ, Shape, ledger_schema
from tests.servers.base import wait_for
from tonnage.ledger.db import database

VOLUMES = 10_000

#: First starts in a small cloud.
STARTS = int(os.environ.get("TONNAGE_CINDER_STARTS", "5"))

SHAPE = Shape(backends=["b1", "b2"], pools=[f"p{number}" for number in range(500)], interval=10)


def add_volumes(cinder: Cinder, number: int) -> None:
    """Add volumes of 1 GiB like one that Cinder made: their rows, and their files."""
    pattern = cinder.create(1)
    assert cinder.settled([pattern])[pattern]["status"] == "available"
    engine = sa.create_engine(cinder.database, poolclass=sa.pool.NullPool)
    volumes = sa.Table("volumes", sa.MetaData(), autoload_with=engine)
    pools = itertools.cycle(cinder.pools)
    with engine.begin() as connection:
        row = connection.execute(sa.select(volumes).where(volumes.c.id == pattern)).one()._asdict()
        rows = [{**row, "id": str(uuid.uuid4()), "host": next(pools)} for _ in range(number - 1)]
        connection.execute(sa.insert(volumes), rows)
    for each in rows:
        backend, _, pool = each["host"].partition("@")[2].partition("#")
        with (cinder.folder / "storage" / backend / pool / each["id"]).open("wb") as file:
            file.truncate(2**30)


def test_the_first_start_in_a_large_cloud(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with sites.stock(mariadb_server, rabbitmq_server, SHAPE) as cinder, mariadb_server.database() as ledger_url:
        add_volumes(cinder, VOLUMES)
        cinder.end_service("scheduler0", signal.SIGTERM)
        ledger = database.create_engine(ledger_url)
        ledger_schema.create(ledger)
        (cinder.folder / "tonnage.conf").write_text(f"[tonnage]\nconnection = {ledger_url}\n")
        waiting = cinder.create(1)
        began = time.monotonic()
        cinder.start_service("scheduler0", "tonnage-cinder-scheduler", patched=False, more="tonnage.conf")
        assert cinder.settled([waiting])[waiting]["status"] == "available"
        print(f"placed {time.monotonic() - began:.1f} s after the start")
        site = sites.Site(cinder, ledger)
        counted = (
            "SELECT COUNT(*), SUM(allocated_capacity_gb), SUM(in_flight_gb), SUM(provisioned_capacity_gb) FROM pools"
        )
        wanted = [(len(cinder.pools), VOLUMES + 1, 0, VOLUMES + 1)]
        wait_for(lambda: site.rows(counted) == wanted, "the ledger has all volumes, and the figures contain them", 180)
        print(f"exact {time.monotonic() - began:.1f} s after the start")
        ledger.dispose()


def end_of_log(cinder: Cinder, service: str) -> str:
    """Return the lines of a service's log since its last start."""
    _, start, lines = (cinder.folder / f"{service}.log").read_text(errors="replace").rpartition("Starting cinder-")
    return start + lines[-5000:]


def test_no_first_start_refuses_what_waits_on_the_bus(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    """Reports may come before Cinder's scheduler has looked at its services for the first time."""
    shape = Shape(backends=["b1", "b2"], pools=["a", "b"], interval=5)
    with sites.stock(mariadb_server, rabbitmq_server, shape) as cinder:
        adopted = [cinder.create(20) for _ in range(4)]
        cinder.settled(adopted)
        service = "scheduler0"
        for number in range(STARTS):
            cinder.end_service(service, signal.SIGTERM)
            with mariadb_server.database() as ledger_url:
                ledger = database.create_engine(ledger_url)
                ledger_schema.create(ledger)
                (cinder.folder / "tonnage.conf").write_text(f"[tonnage]\nconnection = {ledger_url}\n")
                waiting = [cinder.create(1) for _ in range(2)]  # many starts must not fill the pools
                cinder.start_service(service, "tonnage-cinder-scheduler", patched=False, more="tonnage.conf")
                statuses = [volume["status"] for volume in cinder.settled(waiting).values()]
                assert statuses == ["available"] * 2, f"first start {number}: {end_of_log(cinder, service)}"
                if number == STARTS - 1:
                    cinder.end_service(service, signal.SIGTERM)
                ledger.dispose()
