# SPDX-License-Identifier: Apache-2.0
"""What agents report, taken over into the storage of the drivers of a cluster whose pools they have.

A driver that nobody has told of, or that was removed, is left alone. Figures expire a while after the agent's last
report; those of a pool that it does not report any more, or not for this driver, do at once.
"""

import datetime
import logging
from collections.abc import Collection, Mapping, Sequence

from tonnage.capacity import errors
from tonnage.k8s.capacity import agent_pools, driver_rows
from tonnage.k8s.capacity.agent_pools import AgentPool
from tonnage.k8s.capacity.driver_storage import Driver, Pool
from tonnage.k8s.capacity.patches import DriverPatch, PoolPatch, StatusPatch, StoragePatch
from tonnage.k8s.capacity.pool_columns import PoolKey
from tonnage.k8s.capacity.quantities import Quantity
from tonnage.k8s.fit import capacity_claims
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)


class Feeder:
    """Takes over what is new. ``lifetime`` is for how many seconds figures are used."""

    def __init__(self, ledger: Database, lifetime: float) -> None:
        self._ledger = ledger
        self._lifetime = lifetime
        #: What was last said of pools that cannot be taken over; said again only when it changes.
        self._told: dict[str, str] = {}
        #: Names of agents' pools that there are or were, and the drivers that these are or were of.
        self._names: frozenset[str] = frozenset()
        self._drivers: frozenset[str] = frozenset()

    def feed(self) -> int:
        """Take over what is new, and return of how many pools; what cannot be meant is left out, and said in the log.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database stays away.
        """
        with self._ledger.reading(snapshot=True) as session:
            now = capacity_claims.now(session)
            read = agent_pools.read(session, self._lifetime)
            self._names |= read.names
            self._drivers |= read.holding | read.of_drivers.keys()
            known = {driver.name for driver in driver_rows.every(session)} & self._drivers
            drivers = [driver_rows.find(session, name) for name in sorted(known)]
            held = {
                (row.claim.driver, row.claim.storage_class, row.claim.pool) for row in capacity_claims.of_pods(session)
            }
        self._tell(read.failures)
        fed, early = 0, datetime.timedelta(seconds=self._lifetime / 2)
        for driver in drivers:
            waited_for = _sharing(driver, {(kind, pool) for name, kind, pool in held if name == driver.name})
            news = _news(driver, read.of_drivers.get(driver.name, ()), self._names, now, early, waited_for)
            if news:
                change = DriverPatch(
                    status=StatusPatch(
                        storage=tuple(
                            StoragePatch(storage_class_name=name, pools=tuple(pools)) for name, pools in news.items()
                        )
                    )
                )
                try:
                    self._ledger.run(driver_rows.patch, driver.name, change)
                except errors.NotFound:  # it was removed meanwhile
                    continue
                fed += sum(map(len, news.values()))
        return fed

    def _tell(self, failures: Mapping[str, str]) -> None:
        for name, failure in failures.items():
            if self._told.get(name) != failure:
                LOG.warning("Pool %s is not taken over: %s", name, failure)
        self._told = dict(failures)


def _news(
    driver: Driver,
    reported: Sequence[AgentPool],
    of_agents: Collection[str],
    now: datetime.datetime,
    early: datetime.timedelta,
    waited_for: Collection[PoolKey],
) -> dict[str, list[PoolPatch]]:
    """Return what is to be written, by storage classes; times that are not ``early`` over are no news.

    Of pools that are ``waited_for`` each report is: claims on them end when it has come often enough.
    """
    known = {(each.storage_class, pool.name): pool for each in driver.storage for pool in each.pools}
    present = {(each.storage_class, each.pool.name): each.pool for each in reported if each.present}
    backing = {pool.name: pool.backing_id for pool in present.values()}
    news: dict[str, list[PoolPatch]] = {}
    for key, there in known.items():
        # The pool is gone, or of other classes or of another driver than it was.
        if there.name in of_agents and key not in present:
            # What is held there is held on the disks that it is of now.
            draws_on = backing.get(there.name, there.backing_id)
            if there.expires_at is None or there.expires_at > now or there.backing_id != draws_on:
                expired = PoolPatch(name=there.name, expiry_time=_utc(now), backing_id=draws_on)
                news.setdefault(key[0], []).append(expired)
    for key, pool in present.items():
        old, soon = known.get(key), datetime.timedelta.max if key in waited_for else early
        if old is None or _values(old) != _values(pool) or _lapses(old, pool, now, soon):
            news.setdefault(key[0], []).append(_patch(pool))
    return news


def _sharing(driver: Driver, held: Collection[PoolKey]) -> set[PoolKey]:
    """Return these pools of a driver and all that draw on the same disks."""
    pools = {(each.storage_class, pool.name): pool for each in driver.storage for pool in each.pools}
    disks = {pool.backing_id for key, pool in pools.items() if key in held and pool.backing_id is not None}
    return {key for key, pool in pools.items() if key in held or pool.backing_id in disks}


def _values(pool: Pool) -> tuple[object, ...]:
    return pool.node_topology, pool.node_list, pool.capacity, pool.maximum_volume_size, pool.backing_id


def _lapses(there: Pool, pool: Pool, now: datetime.datetime, early: datetime.timedelta) -> bool:
    """Tell whether the time of a pool should be put off, and can be."""
    if there.expires_at is None or pool.expires_at is None:
        return True
    return there.expires_at - now < early and pool.expires_at > there.expires_at


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
