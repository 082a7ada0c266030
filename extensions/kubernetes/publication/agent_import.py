# SPDX-License-Identifier: Apache-2.0
"""Import of the reports of agents into the storage of the drivers of a cluster.

Drivers that do not exist, or were removed, are skipped. Imported figures expire some time after the agent's last
report. Figures of a pool that the agent no longer reports, or reports for another driver, expire at once.
"""

import datetime
import logging
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import agent_pools, driver_rows
from tonnage.extensions.kubernetes.capacity.agent_pools import AgentPool
from tonnage.extensions.kubernetes.capacity.claim_sums import PoolKey
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch, PoolPatch, StatusPatch, StoragePatch
from tonnage.extensions.kubernetes.cluster.quantities import Quantity
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.publication.type_pools import TypePools
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)


class AgentImporter:
    """Imports changed pools. ``lifetime`` is the number of seconds for which figures may be used.

    ``type_pools`` has the pools of volume types for the classes of the driver ``type_driver``, if there are any.
    """

    def __init__(
        self, ledger: Database, lifetime: float, type_pools: TypePools | None = None, type_driver: str = ""
    ) -> None:
        self._ledger = ledger
        self._lifetime = lifetime
        self._type_pools, self._type_driver = type_pools, type_driver
        #: The last failure of each pool and class that cannot be imported. It is logged again only if it changes.
        self._logged_failures: dict[str, str] = {}
        #: Names of all agents' pools, present and past, and of their drivers.
        self._agent_pool_names: frozenset[str] = frozenset()
        self._agent_drivers: frozenset[str] = frozenset()

    def import_reports(self) -> int:
        """Import changed pools, and return their number. Invalid pools are skipped and logged.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database does not answer.
        """
        if self._type_pools is not None:
            # The configuration names this driver, so it is there without a patch.
            self._ledger.run(driver_rows.lock_or_create, self._type_driver)
        with self._ledger.reading(snapshot=True) as session:
            changes, failures = self._changes_in(session)
        self._log_failures(failures)
        return sum(self._ledger.run(self._import, name) for name in changes)

    def _import(self, session: orm.Session, name: str) -> int:
        """Import the changed pools of a driver, and return their number.

        They are read again under the lock of the driver: another publisher may have imported later reports by now.
        """
        if driver_rows.lock(session, name) is None:  # removed in the meantime
            return 0
        changes, _ = self._changes_in(session, name)
        if not (changed := changes.get(name)):
            return 0
        storage = tuple(
            StoragePatch(storage_class_name=storage_class, pools=tuple(pools))
            for storage_class, pools in changed.items()
        )
        driver_rows.patch(session, name, DriverPatch(status=StatusPatch(storage=storage)))
        return sum(map(len, changed.values()))

    def _changes_in(
        self, session: orm.Session, driver_name: str | None = None
    ) -> tuple[dict[str, dict[str, list[PoolPatch]]], Mapping[str, str]]:
        """Return the pools to write, by driver and storage class, and the failures of pools and classes.

        With ``driver_name``, only the pools of this driver are returned.
        """
        now = capacity_claims.now(session)
        reported_pools = agent_pools.read(session, self._lifetime)
        failures = {f"Pool {name}": failure for name, failure in reported_pools.failures.items()}
        if self._type_pools is not None:
            pools, class_failures = self._type_pools.read(session)
            reported_pools.by_driver.setdefault(self._type_driver, []).extend(pools)
            failures |= {f"Storage class {name}": failure for name, failure in class_failures.items()}
        self._agent_pool_names |= reported_pools.names
        self._agent_drivers |= reported_pools.drivers_with_pools | reported_pools.by_driver.keys()
        driver_names = {driver.name for driver in driver_rows.list_all(session)} & self._agent_drivers
        selected_names = driver_names if driver_name is None else driver_names & {driver_name}
        claimed_keys = {
            (row.claim.driver, row.claim.storage_class, row.claim.pool)
            for row in capacity_claims.list_for_pods(session)
        }
        renewal_margin = datetime.timedelta(seconds=self._lifetime / 2)
        changes_by_driver = {}
        for driver in (driver_rows.find(session, name) for name in sorted(selected_names)):
            claimed = {(storage_class, pool) for name, storage_class, pool in claimed_keys if name == driver.name}
            changes = _changes(
                driver,
                reported_pools.by_driver.get(driver.name, ()),
                self._agent_pool_names,
                now,
                renewal_margin,
                _with_shared_backing(driver, claimed),
            )
            if changes:
                changes_by_driver[driver.name] = changes
        return changes_by_driver, failures

    def _log_failures(self, failures: Mapping[str, str]) -> None:
        for name, failure in failures.items():
            if self._logged_failures.get(name) != failure:
                LOG.warning("%s is not imported: %s", name, failure)
        self._logged_failures = dict(failures)


def _changes(
    driver: Driver,
    reported: Sequence[AgentPool],
    agent_pool_names: Collection[str],
    now: datetime.datetime,
    renewal_margin: datetime.timedelta,
    claimed: Collection[PoolKey],
) -> dict[str, list[PoolPatch]]:
    """Return the pools to write, by storage class.

    A new expiry alone is not a change while the stored one is more than ``renewal_margin`` away. For ``claimed`` pools
    every report is a change, because claims on them are released after a number of reports.
    """
    stored_pools = {(storage.storage_class, pool.name): pool for storage in driver.storage for pool in storage.pools}
    current = {
        (reported_pool.storage_class, reported_pool.pool.name): reported_pool.pool
        for reported_pool in reported
        if reported_pool.present
    }
    backing = {pool.name: pool.backing_id for pool in current.values()}
    changes: dict[str, list[PoolPatch]] = {}
    for key, stored in stored_pools.items():
        # The pool was removed, or belongs to other classes or another driver now.
        if stored.name in agent_pool_names and key not in current:
            # Claims on the old pool count against the disks that the pool has now.
            backing_id = backing.get(stored.name, stored.backing_id)
            if stored.expires_at is None or stored.expires_at > now or stored.backing_id != backing_id:
                expired = PoolPatch(name=stored.name, expiry_time=_utc(now), backing_id=backing_id)
                changes.setdefault(key[0], []).append(expired)
    for key, pool in current.items():
        old, margin = stored_pools.get(key), datetime.timedelta.max if key in claimed else renewal_margin
        if old is None or _figures(old) != _figures(pool) or _expiry_is_due(old, pool, now, margin):
            changes.setdefault(key[0], []).append(_patch(pool))
    return changes


def _with_shared_backing(driver: Driver, claimed_keys: Collection[PoolKey]) -> set[PoolKey]:
    """Return these pools of a driver and all pools with the same backing."""
    pools = {(storage.storage_class, pool.name): pool for storage in driver.storage for pool in storage.pools}
    disks = {pool.backing_id for key, pool in pools.items() if key in claimed_keys and pool.backing_id is not None}
    return {key for key, pool in pools.items() if key in claimed_keys or pool.backing_id in disks}


def _figures(pool: Pool) -> tuple[object, ...]:
    return pool.node_topology, pool.node_list, pool.capacity, pool.maximum_volume_size, pool.backing_id


def _expiry_is_due(stored: Pool, pool: Pool, now: datetime.datetime, renewal_margin: datetime.timedelta) -> bool:
    """Return whether the expiry of a pool should be, and can be, extended."""
    if stored.expires_at is None or pool.expires_at is None:
        return True
    return stored.expires_at - now < renewal_margin and pool.expires_at > stored.expires_at


def _patch(pool: Pool) -> PoolPatch:
    return PoolPatch(
        name=pool.name,
        node_topology=pool.node_topology,
        node_list=pool.node_list,
        capacity=None if pool.capacity is None else Quantity(pool.capacity),
        maximum_volume_size=None if pool.maximum_volume_size is None else Quantity(pool.maximum_volume_size),
        expiry_time=None if pool.expires_at is None else _utc(pool.expires_at),
        backing_id=pool.backing_id,
    )


def _utc(time: datetime.datetime) -> datetime.datetime:
    return time.replace(tzinfo=datetime.UTC)
