# SPDX-License-Identifier: Apache-2.0
"""What agents with the ``csi`` driver report, taken over into the storage of the drivers that their plugins are.

A driver that nobody has told of, or that was removed, is left alone. Figures expire a while after the agent's last
report; those of a pool that it does not report any more do at once.
"""

import datetime
import logging
import math
from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from msgspec import Struct
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity import typed
from tonnage.capacity.selectors import NodeSelector
from tonnage.capacity.selectors import Operator
from tonnage.capacity.selectors import Requirement
from tonnage.capacity.selectors import Term
from tonnage.capacity.units import GIB
from tonnage.k8s import claims
from tonnage.k8s import store
from tonnage.k8s.drivers import Driver
from tonnage.k8s.drivers import Pool
from tonnage.k8s.figures import PoolKey
from tonnage.k8s.patches import DriverPatch
from tonnage.k8s.patches import Name
from tonnage.k8s.patches import PoolPatch
from tonnage.k8s.patches import StatusPatch
from tonnage.k8s.patches import StoragePatch
from tonnage.k8s.quantities import MOST
from tonnage.k8s.quantities import Quantity
from tonnage.ledger import models
from tonnage.ledger.database import Database

LOG = logging.getLogger(__name__)

#: Name of the storage driver whose pools have the capabilities that are looked at here.
_CSI = "csi"


@dataclass(frozen=True, slots=True)
class _Reported:
    """A pool as an agent has reported it, or does not any more."""

    storage_class: str
    pool: Pool
    present: bool


class _Stats(Struct, kw_only=True):
    """What is looked at of what an agent has reported of a pool. Sizes are GiB."""

    name: Name
    csi_plugin: Name
    storage_class: Name
    maximum_volume_size_gb: Annotated[float, Meta(ge=0, le=MOST / GIB)] | None = None
    topology_labels: dict[Annotated[str, Meta(min_length=1)], str] | None = None
    node_name: Name | None = None
    node_list: tuple[Name, ...] | None = None
    node_topology: NodeSelector | None = None
    storage_id: Name | None = None


class Feeder:
    """Takes over what is new. ``lifetime`` is for how many seconds figures are used."""

    def __init__(self, ledger: Database, lifetime: float) -> None:
        self._ledger = ledger
        self._lifetime = datetime.timedelta(seconds=lifetime)
        #: What was last said of pools that cannot be taken over; said again only when it changes.
        self._told: dict[str, str] = {}

    def feed(self) -> int:
        """Take over what is new, and return of how many pools; what cannot be meant is left out, and said in the log.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the database stays away.
        """
        with self._ledger.reading(snapshot=True) as session:
            now = claims.now(session)
            reported = self._reported(session)
            known = {driver.name for driver in store.every(session)} & reported.keys()
            drivers = [store.find(session, name) for name in sorted(known)]
            held = {(row.claim.driver, row.claim.storage_class, row.claim.pool) for row in claims.of_pods(session)}
        fed = 0
        for driver in drivers:
            waited_for = {(storage_class, pool) for name, storage_class, pool in held if name == driver.name}
            news = _news(driver, reported[driver.name], now, self._lifetime / 2, waited_for)
            if news:
                change = DriverPatch(
                    status=StatusPatch(
                        storage=tuple(
                            StoragePatch(storage_class_name=name, pools=tuple(pools)) for name, pools in news.items()
                        )
                    )
                )
                try:
                    self._ledger.run(store.patch, driver.name, change)
                except errors.NotFound:  # it was removed meanwhile
                    continue
                fed += sum(map(len, news.values()))
        return fed

    def _reported(self, session: orm.Session) -> dict[str, list[_Reported]]:
        """Return the pools of all plugins by the names of these."""
        pool, backend = models.Pool, models.Backend
        rows = session.execute(
            sa.select(
                pool.name,
                pool.present,
                pool.physical_limit_gb,
                pool.in_flight_physical_gb,
                pool.shared_in_flight_physical_gb,
                pool.stats,
                backend.last_report_at,
            )
            .join(backend, backend.id == pool.backend_id)
            .where(backend.driver == _CSI, backend.last_report_at.is_not(None))
            .order_by(pool.name)
        )
        found: dict[str, list[_Reported]] = {}
        failures: dict[str, str] = {}
        for name, present, limit, own, shared, stats, heard in rows:
            try:
                said = typed.convert({**stats, "name": name}, _Stats)
            except msgspec.ValidationError as error:
                failures[name] = str(error)
                continue
            # What the ledger has promised there is not promised again.
            room = None if limit is None else _bytes(max(limit - own - shared, 0))
            one = _pool(said, room, heard + self._lifetime)
            found.setdefault(said.csi_plugin, []).append(_Reported(said.storage_class, one, present))
        self._tell(failures)
        return found

    def _tell(self, failures: Mapping[str, str]) -> None:
        for name, failure in failures.items():
            if self._told.get(name) != failure:
                LOG.warning("Pool %s is not taken over: %s", name, failure)
        self._told = dict(failures)


def _pool(said: _Stats, room: int | None, expires_at: datetime.datetime) -> Pool:
    labels, most = said.topology_labels, said.maximum_volume_size_gb
    nodes = said.node_list if said.node_name is None else (said.node_name,)
    selector = said.node_topology or (_selector(labels) if labels else None)
    return Pool(
        name=said.name,
        node_topology=None if nodes else selector,
        node_list=nodes or None,
        capacity=room,
        maximum_volume_size=None if most is None else _bytes(most),
        expires_at=expires_at,
        backing_id=said.storage_id,
    )


def _bytes(size_gb: float) -> int:
    return min(math.floor(size_gb * GIB), MOST)


def _selector(labels: Mapping[str, str]) -> NodeSelector:
    expressions = [Requirement(key=key, operator=Operator.IN, values=(value,)) for key, value in sorted(labels.items())]
    return NodeSelector(node_selector_terms=(Term(match_expressions=tuple(expressions)),))


def _news(
    driver: Driver,
    reported: list[_Reported],
    now: datetime.datetime,
    early: datetime.timedelta,
    waited_for: Collection[PoolKey],
) -> dict[str, list[PoolPatch]]:
    """Return what is to be written, by storage classes; times that are not ``early`` over are no news.

    Of pools that are ``waited_for`` each report is: claims on them end when it has come often enough.
    """
    known = {(each.storage_class, pool.name): pool for each in driver.storage for pool in each.pools}
    news: dict[str, list[PoolPatch]] = {}
    for each in reported:
        key = each.storage_class, each.pool.name
        there, soon = known.get(key), datetime.timedelta.max if key in waited_for else early
        if not each.present:
            if there is not None and (there.expires_at is None or there.expires_at > now):
                news.setdefault(each.storage_class, []).append(PoolPatch(name=there.name, expiry_time=_utc(now)))
        elif there is None or _values(there) != _values(each.pool) or _lapses(there, each.pool, now, soon):
            news.setdefault(each.storage_class, []).append(_patch(each.pool))
    return news


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
