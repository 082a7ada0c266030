# SPDX-License-Identifier: Apache-2.0
"""Import of pools into the ledger: renewals, expiry, several processes."""

import dataclasses
import datetime

import pytest
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch, SpecPatch
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.provisioner.provisioner_import import ProvisionerImporter
from tonnage.extensions.kubernetes.provisioner.provisioner_pools import ProvisionerPool
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerState
from tonnage.ledger.db import database

DRIVER, CLASS, LIFETIME = "disk.example.com", "fast", 3600.0
GIB = 2**30
WORKING, UNKNOWN, GONE = ProvisionerState.WORKING, ProvisionerState.UNKNOWN, ProvisionerState.GONE


class Process:
    """A process that imports."""

    def __init__(self, ledger: database.Database) -> None:
        self._ledger, self._importer = ledger, ProvisionerImporter(ledger, LIFETIME)

    def read(
        self, capacity: int | None, version: int, state: ProvisionerState = WORKING, written: int | None = None
    ) -> int:
        """Import one object of n1, None if there is none, at a resource version; return the number of changes."""
        pools = {}
        if capacity is not None:
            pool = Pool(
                name="n1",
                node_list=("n1",),
                capacity=capacity * GIB,
                backing_id="disk n1",
                object_name="storage/csisc-1",
                object_version=version if written is None else written,
            )
            pools[CLASS, "n1"] = ProvisionerPool(pool, state)
        return self._importer.import_pools({DRIVER: pools} if pools else {}, version)

    def stored(self) -> list[Pool]:
        with self._ledger.reading() as session:
            return [pool for part in driver_rows.find(session, DRIVER).storage for pool in part.pools]

    def is_used(self) -> bool:
        with self._ledger.reading() as session:
            now = capacity_claims.now(session)
        return all(pool.expires_at is not None and pool.expires_at > now for pool in self.stored())

    def age(self, seconds: float) -> None:
        """Let time pass since the last sign of the provisioner."""

        time = datetime.timedelta(seconds=seconds)
        aged = [
            (CLASS, dataclasses.replace(pool, expires_at=pool.expires_at - time))
            for pool in self.stored()
            if pool.expires_at is not None
        ]
        self._ledger.run(_write, aged)


def _write(session: orm.Session, pools: list[tuple[str, Pool]]) -> None:
    driver_rows.write_pools(session, driver_rows.lock_or_create(session, DRIVER), pools)


@pytest.fixture
def process(ledger: database.Database) -> Process:
    return Process(ledger)


def test_the_first_object_makes_the_driver_and_the_last_one_leaves_it_without_room(process: Process) -> None:
    assert process.read(10, 5) == 1
    [pool] = process.stored()
    assert (pool.capacity, pool.object_name, pool.object_version) == (10 * GIB, "storage/csisc-1", 5)
    assert process.is_used()
    assert process.read(10, 6, written=5) == 0, "nothing has changed"
    assert process.read(None, 7) == 1
    assert process.stored() == []


def test_unchanged_figures_are_renewed_while_their_provisioner_works(process: Process) -> None:
    process.read(10, 5)
    process.age(LIFETIME / 2 - 60)
    assert process.read(10, 6, written=5) == 0
    process.age(120)
    assert process.read(10, 7, written=5) == 1
    process.age(LIFETIME + 1)
    assert not process.is_used()
    assert process.read(10, 8, written=5) == 1
    assert process.is_used()


def test_figures_expire_some_time_after_their_provisioner_worked_and_at_once_when_it_is_gone(process: Process) -> None:
    assert process.read(10, 5, UNKNOWN) == 0, "figures are not taken over before their provisioner works"
    process.read(10, 5)
    process.age(LIFETIME / 2 + 60)
    assert process.read(9, 6, UNKNOWN) == 1, "the figure changes, its expiry does not"
    assert process.is_used()
    process.age(LIFETIME)
    assert process.read(9, 7, UNKNOWN, written=6) == 0
    assert not process.is_used()
    process.read(9, 8, WORKING)
    assert process.read(9, 9, GONE, written=8) == 1
    assert not process.is_used()
    assert process.read(9, 10, GONE, written=8) == 0


def test_a_process_that_lags_behind_changes_nothing(ledger: database.Database, process: Process) -> None:
    late = Process(ledger)
    process.read(10, 5)
    process.read(4, 9)
    for capacity, version in ((10, 5), (None, 8)):
        late.read(capacity, version)
        assert [pool.capacity for pool in process.stored()] == [4 * GIB]
    # A cluster that was restored from a backup begins with lower versions again.
    process.age(LIFETIME + 1)
    late.read(7, 3)
    assert [pool.capacity for pool in process.stored()] == [7 * GIB]


def test_pools_of_other_writers_stay(ledger: database.Database, process: Process) -> None:
    ledger.run(driver_rows.patch, DRIVER, DriverPatch(spec=SpecPatch(capacity_tracking=False)))

    ledger.run(_write, [(CLASS, Pool(name="written", capacity=GIB))])
    process.read(10, 5)
    process.read(None, 6)
    assert [pool.name for pool in process.stored()] == ["written"]
    with ledger.reading() as session:
        assert driver_rows.find(session, DRIVER).tracking is False, "an administrator has turned it off"
