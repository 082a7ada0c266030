# SPDX-License-Identifier: Apache-2.0
"""The in-memory cache of drivers' pools."""

import pathlib

import sqlalchemy as sa

from tests.servers import ledger_schema
from tonnage.capacity import type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database

NAME = "disk.example.com"


def patch(ledger: database.Database, capacity: str) -> None:
    pools = [{"name": "p", "capacity": capacity}]
    raw = {"spec": {"capacityTracking": True}, "status": {"storage": [{"storageClassName": "fast", "pools": pools}]}}
    ledger.run(
        driver_rows.patch, NAME, type_conversion.convert(raw, DriverPatch, lambda kind, value: kind.parse(value))
    )


def test_an_earlier_snapshot_gets_the_figures_of_its_time(tmp_path: pathlib.Path) -> None:
    ledger = database.Database(database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite"))
    ledger_schema.create(ledger.engine)
    patch(ledger, "10")
    cache = PoolCache()
    with ledger.reading(snapshot=True) as earlier:
        earlier.execute(sa.select(tables.CsiDriver.version)).all()
        patch(ledger, "5")
        with ledger.reading(snapshot=True) as later:
            assert cache.read(later, [NAME])[NAME].capacity.tolist() == [5]
        assert cache.read(earlier, [NAME])[NAME].capacity.tolist() == [10]
    with ledger.reading(snapshot=True) as later:
        assert cache.read(later, [NAME])[NAME].capacity.tolist() == [5]
    ledger.close()
