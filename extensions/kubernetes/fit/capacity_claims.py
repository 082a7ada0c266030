# SPDX-License-Identifier: Apache-2.0
"""Claims on the capacity of drivers' pools, for volumes that are not provisioned yet.

A claim counts until it is released or expires, by the database's clock. A transaction that claims capacity, or releases
it, locks the drivers' rows, gives the change the next number of ``claims_version``, and records it: the claims with
their number, the ends of claims as rows of their own. So a process that has read all claims up to a number reads the
later changes alone (:mod:`tonnage.extensions.kubernetes.capacity.claim_cache`). Leases end without a record, and a
renewal, which only moves the end of a lease to a later time, has none either.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import claim_rows
from tonnage.extensions.kubernetes.capacity.claim_rows import ClaimRow
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim, PoolKey
from tonnage.extensions.kubernetes.fit.node_decision import Placement
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models
from tonnage.ledger.db import database

_CLAIM, _POOL = tables.CsiClaim, tables.CsiPool
_TABLE, _END = cast(sa.Table, _CLAIM.__table__), cast(sa.Table, tables.CsiClaimEnd.__table__)
_DRIVER = cast(sa.Table, tables.CsiDriver.__table__)

# Statements of every decision. They are made once, on tables and not on models: that takes a part of the time.
_NOW = sa.select(models.utcnow())
_IS_PUBLISHED = sa.or_(_TABLE.c.unpublished.is_(None), _TABLE.c.unpublished.is_(sa.false()))
_OWN_CLAIM = _TABLE.c.holder == sa.bindparam("own_holder")
_EXTEND_OWN = (
    sa.update(_TABLE)
    .where(_OWN_CLAIM, _TABLE.c.expires_at > sa.bindparam("at"))
    .values(expires_at=sa.bindparam("new_expires_at"))
)
_INSERT = sa.insert(_TABLE)
_DELETE_EXPIRED = sa.delete(_TABLE).where(
    _TABLE.c.driver_uid == sa.bindparam("uid"), _TABLE.c.expires_at <= sa.bindparam("at")
)
_POOL_TABLE = cast(sa.Table, _POOL.__table__)
_CLAIMS_FOR_PODS = (
    sa.select(_TABLE, _DRIVER.c.name.label("driver"))
    .join(_DRIVER, _DRIVER.c.uid == _TABLE.c.driver_uid)
    .where(_TABLE.c.pod.is_not(None))
    .order_by(_TABLE.c.holder, _TABLE.c.volume)
)
_POOLS_ON_DRIVERS = sa.select(
    _POOL_TABLE.c.driver_uid,
    _POOL_TABLE.c.storage_class,
    _POOL_TABLE.c.name,
    _POOL_TABLE.c.capacity,
    _POOL_TABLE.c.maximum_volume_size,
    _POOL_TABLE.c.expires_at,
    _POOL_TABLE.c.backing_id,
    _POOL_TABLE.c.object_name,
    _POOL_TABLE.c.object_version,
    _POOL_TABLE.c.version,
).where(_POOL_TABLE.c.driver_uid.in_(sa.bindparam("uids", expanding=True)))
_SET_VERSION = (
    sa.update(_DRIVER)
    .where(_DRIVER.c.uid == sa.bindparam("own_uid"))
    .values(claims_version=sa.bindparam("new_version"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim of a volume. ``size`` is bytes, ``expires_at`` UTC."""

    holder: str
    volume: str
    node: str
    driver: str
    storage_class: str
    pool: str
    size: int
    expires_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class FiguresVersion:
    """The driver's version at the last write of a pool's figures, and their expiry, UTC.

    ``object_name`` and ``object_version`` are those of the ``CSIStorageCapacity`` object that the figures come from.
    ``sizes`` are the capacity and the size of the largest volume, in bytes.
    """

    version: int
    expires_at: datetime.datetime | None
    object_name: str | None = None
    object_version: int | None = None
    sizes: tuple[int | None, int | None] = (None, None)

    def is_later_report_than(self, other: "FiguresVersion") -> bool:
        """Return whether these figures are of a later report. Figures with the same expiry are of the same report."""
        if self.object_name is not None:
            # A provisioner writes changed sizes. Only the expiry of an unchanged object is renewed, and others may
            # change labels.
            return self.object_version != other.object_version and self.sizes != other.sizes
        return self.version != other.version and (self.expires_at is None or self.expires_at != other.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim for a pod, ``namespace/name``.

    ``figures`` has the versions of the usable figures of its pool and of all pools on the same disks. It is empty if
    its own pool has no usable figures. ``has_object`` tells whether its pool, usable or not, comes from a
    ``CSIStorageCapacity`` object, ``is_unpublished`` whether published capacity is without it. ``persistent_volume`` is
    the name of its volume, empty while that is being made, None before.
    """

    claim: Claim
    pod: str
    figures: Mapping[PoolKey, FiguresVersion]
    has_object: bool = False
    is_unpublished: bool = False
    persistent_volume: str | None = None


def now(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock, UTC."""
    current_time: datetime.datetime = session.execute(_NOW).scalar_one()
    return current_time


def new_row(holder: str, placement: Placement, expires_at: datetime.datetime, pod: str | None, number: int) -> ClaimRow:
    """Return the row of a claim that has just been made."""
    storage_class, pool = placement.pool
    return ClaimRow(
        holder,
        placement.volume.name,
        pod,
        expires_at,
        storage_class,
        pool,
        placement.size,
        placement.backing_id,
        placement.capacity,
        number,
    )


def drivers_of(session: orm.Session, holders: Collection[str]) -> set[str]:
    """Return the names of the drivers that holders have claims on, active or expired ones."""
    query = sa.select(tables.CsiDriver.name).join(_CLAIM, _CLAIM.driver_uid == tables.CsiDriver.uid)
    return set(session.scalars(query.where(_CLAIM.holder.in_(holders)).distinct()))


def lock(session: orm.Session, names: Iterable[str]) -> dict[str, int]:
    """Lock the rows of drivers until the transaction ends, and return their ``claims_version`` by their uids."""
    versions: dict[str, int] = {}
    for name in sorted(names):
        query = sa.select(_DRIVER.c.uid, _DRIVER.c.claims_version).where(_DRIVER.c.name == name).with_for_update()
        versions.update((uid, version) for uid, version in session.execute(query))
    return versions


def store(
    session: orm.Session,
    holder: str,
    node: str,
    placements: Sequence[Placement],
    expires_at: datetime.datetime,
    versions: Mapping[str, int],
    pod: str | None = None,
    volumes: Collection[str] = (),
    *,
    has_claims: bool = True,
    is_published: bool = True,
) -> None:
    """Replace the claims of a holder; for a pod, only those for these ``volumes``.

    A pod's other volumes have been provisioned in the meantime, and no figures may include them yet. Their claims get
    the same expiry. ``versions`` has the ``claims_version`` of the locked drivers by their uids, those of the holder's
    former claims too. ``has_claims`` tells whether the holder may have claims, active or expired ones, ``is_published``
    whether the claims are subtracted from published capacity.
    """
    if has_claims:
        at = now(session)
        if pod is not None:
            # This statement comes first because it locks all rows at once, as others do. So there are no deadlocks.
            session.execute(_EXTEND_OWN, {"own_holder": holder, "at": at, "new_expires_at": expires_at})
        _end(session, [holder], versions, lambda row: pod is None or row.volume in volumes or row.expires_at <= at)
    rows = [
        {
            "holder": holder,
            "volume": placement.volume.name,
            "node": node,
            "driver_uid": placement.uid,
            "storage_class": placement.pool[0],
            "pool": placement.pool[1],
            "size": placement.size,
            "expires_at": expires_at,
            "pod": pod,
            "backing_id": placement.backing_id,
            "capacity": placement.capacity,
            "unpublished": not is_published,
            "number": versions[placement.uid] + 1,
        }
        for placement in placements
    ]
    if not rows:
        return
    try:
        session.execute(_INSERT, rows)
    except db_exc.DBDuplicateEntry:
        raise database.StaleRead(f"{holder} has just claimed elsewhere") from None
    _set_versions(session, {placement.uid for placement in placements}, versions)


def release(session: orm.Session, holder: str) -> bool:
    """Delete the claims of a holder, and return whether there were any."""
    return bool(_end(session, [holder], lock(session, drivers_of(session, [holder]))))


def release_unchanged(session: orm.Session, expiry_by_holder: Mapping[str, datetime.datetime]) -> set[str]:
    """Delete the claims of holders that have these expiries, and return the holders that had any.

    Claims that were renewed in the meantime remain.
    """
    versions = lock(session, drivers_of(session, expiry_by_holder))
    return _end(session, sorted(expiry_by_holder), versions, lambda row: row.expires_at == expiry_by_holder[row.holder])


def _end(
    session: orm.Session,
    holders: Sequence[str],
    versions: Mapping[str, int],
    is_ended: Callable[[Any], bool] = lambda row: True,
) -> set[str]:
    """Delete claims of holders, record their ends, and return the holders of these claims.

    ``versions`` has the ``claims_version`` of the locked drivers by their uids.
    """
    query = (
        sa.select(_TABLE.c.holder, _TABLE.c.volume, _TABLE.c.driver_uid, _TABLE.c.expires_at)
        .where(_TABLE.c.holder.in_(holders))
        .order_by(_TABLE.c.holder, _TABLE.c.volume)
        .with_for_update()
    )
    ended = [row for row in session.execute(query).all() if is_ended(row)]
    if not ended:
        return set()
    if not versions.keys() >= {row.driver_uid for row in ended}:
        raise database.StaleRead("claims on other drivers have just been made")
    keys = [{"own_holder": row.holder, "own_volume": row.volume} for row in ended]
    session.connection().execute(
        sa.delete(_TABLE).where(_OWN_CLAIM, _TABLE.c.volume == sa.bindparam("own_volume")), keys
    )
    ends = [
        {
            "driver_uid": row.driver_uid,
            "number": versions[row.driver_uid] + 1,
            "holder": row.holder,
            "volume": row.volume,
        }
        for row in ended
    ]
    session.execute(sa.insert(_END), ends)
    uids = {row.driver_uid for row in ended}
    _set_versions(session, uids, versions)
    for uid in sorted(uids):
        old = _END.c.number <= versions[uid] + 1 - claim_rows.KEPT_CHANGES
        session.execute(sa.delete(_END).where(_END.c.driver_uid == uid, old))
    return {row.holder for row in ended}


def _set_versions(session: orm.Session, uids: Collection[str], versions: Mapping[str, int]) -> None:
    """Give the changes of claims in this transaction the next number of each driver."""
    for uid in sorted(uids):
        session.execute(_SET_VERSION, {"own_uid": uid, "new_version": versions[uid] + 1})


def renew(session: orm.Session, holder: str, expires_at: datetime.datetime, new_expires_at: datetime.datetime) -> None:
    """Extend the claims of a holder that have this expiry.

    Expired claims are not extended, because their capacity may have been claimed again.
    """
    if expires_at > now(session):
        query = sa.update(_CLAIM).where(_CLAIM.holder == holder, _CLAIM.expires_at == expires_at)
        session.execute(query.values(expires_at=new_expires_at).execution_options(synchronize_session=False))


def revive(session: orm.Session, claim: Claim, new_expires_at: datetime.datetime) -> bool:
    """Extend a claim although it may have expired, and return whether it was still there, unchanged."""
    for uid, version in lock(session, [claim.driver]).items():
        query = sa.update(_CLAIM).where(
            _CLAIM.holder == claim.holder,
            _CLAIM.volume == claim.volume,
            _CLAIM.expires_at == claim.expires_at,
            _CLAIM.driver_uid == uid,
        )
        query = query.values(expires_at=new_expires_at, number=version + 1)
        updated: Any = session.execute(query.execution_options(synchronize_session=False))
        if updated.rowcount:
            _set_versions(session, [uid], {uid: version})
            return True
    return False


def set_persistent_volumes(session: orm.Session, holder: str, names: Mapping[str, str]) -> None:
    """Set the names of the persistent volumes that claims of a holder are for, by volume; empty while one is made."""
    for volume, name in sorted(names.items()):
        query = sa.update(_CLAIM).where(_CLAIM.holder == holder, _CLAIM.volume == volume)
        session.execute(query.values(persistent_volume=name).execution_options(synchronize_session=False))


def set_published(session: orm.Session, holder: str, is_published: bool) -> None:
    """Set whether the claims of a holder are subtracted from published capacity."""
    query = sa.update(_CLAIM).where(_CLAIM.holder == holder).values(unpublished=not is_published)
    session.execute(query.execution_options(synchronize_session=False))


def delete_expired(session: orm.Session, uids: Collection[str], at: datetime.datetime) -> None:
    """Delete the expired claims on drivers."""
    for uid in sorted(uids):
        session.execute(_DELETE_EXPIRED, {"uid": uid, "at": at})


def list_for_holder(session: orm.Session, holder: str) -> list[Claim]:
    """Return the active claims of a holder, by volume."""
    at = now(session)
    query = (
        sa.select(_CLAIM, tables.CsiDriver.name)
        .join(tables.CsiDriver, tables.CsiDriver.uid == _CLAIM.driver_uid)
        .where(_CLAIM.holder == holder)
        .order_by(_CLAIM.volume)
    )
    return [_claim(row[0], row[1]) for row in session.execute(query) if row[0].expires_at > at]


def nodes_of_published(session: orm.Session, holder: str) -> set[str]:
    """Return the nodes of the active claims of a holder that are subtracted from published capacity."""
    query = sa.select(_CLAIM.node).where(_CLAIM.holder == holder, _CLAIM.expires_at > now(session), _IS_PUBLISHED)
    return set(session.scalars(query))


def published_on(session: orm.Session, uid: str, at: datetime.datetime) -> list[ActiveClaim]:
    """Return the active claims on a driver at a time that are subtracted from published capacity."""
    rows = claim_rows.on_driver(session, uid, _IS_PUBLISHED)
    return [row.claim for row in rows if row.expires_at > at]


def published_bytes(session: orm.Session) -> dict[tuple[str, PoolKey], int]:
    """Return the sum of the active claims on each pool that are subtracted from published capacity.

    It is by the uid of the driver and the pool.
    """
    key = _CLAIM.driver_uid, _CLAIM.storage_class, _CLAIM.pool
    query = sa.select(*key, sa.func.sum(_CLAIM.size)).where(_CLAIM.expires_at > now(session), _IS_PUBLISHED)
    query = query.group_by(*key)
    return {(uid, (storage_class, pool)): int(size) for uid, storage_class, pool, size in session.execute(query)}


def list_for_pods(session: orm.Session, expired: bool = False) -> list[PodClaim]:
    """Return the active claims for pods, or the expired ones that have not been deleted yet."""
    at = now(session)
    rows = [row for row in session.execute(_CLAIMS_FOR_PODS).all() if (row.expires_at <= at) is expired]
    figures = _PodFigures(session, {row.driver_uid for row in rows}, at)
    return [
        PodClaim(
            claim=_claim(row, row.driver),
            pod=row.pod,
            figures=figures.of(row.driver_uid, (row.storage_class, row.pool)),
            has_object=(row.driver_uid, row.storage_class, row.pool) in figures.from_objects,
            is_unpublished=bool(row.unpublished),
            persistent_volume=row.persistent_volume,
        )
        for row in rows
    ]


class _PodFigures:
    """The usable figures of the pools of some drivers at a time.

    ``from_objects`` has the pools, usable or not, that come from ``CSIStorageCapacity`` objects: uid of the driver,
    storage class and name.
    """

    def __init__(self, session: orm.Session, uids: Collection[str], at: datetime.datetime) -> None:
        self.from_objects: set[tuple[str, str, str]] = set()
        self._usable: dict[tuple[str, PoolKey], Any] = {}
        self._on_disks: dict[tuple[str, str], list[Any]] = {}
        #: Made when a claim needs them, once for all claims on the same disks.
        self._versions: dict[tuple[str, PoolKey | str], Mapping[PoolKey, FiguresVersion]] = {}
        for pool in session.execute(_POOLS_ON_DRIVERS, {"uids": sorted(uids)}).all():
            if pool.object_name is not None:
                self.from_objects.add((pool.driver_uid, pool.storage_class, pool.name))
            if pool.capacity is None or (pool.expires_at is not None and pool.expires_at <= at):
                continue
            self._usable[pool.driver_uid, (pool.storage_class, pool.name)] = pool
            if pool.backing_id is not None:
                self._on_disks.setdefault((pool.driver_uid, pool.backing_id), []).append(pool)

    def of(self, uid: str, key: PoolKey) -> Mapping[PoolKey, FiguresVersion]:
        """Return the versions of the figures of a pool and of all pools on the same disks; none if it is not usable."""
        pool = self._usable.get((uid, key))
        if pool is None:
            return {}
        disks = uid, key if pool.backing_id is None else pool.backing_id
        if disks not in self._versions:
            pools = [pool] if pool.backing_id is None else self._on_disks[uid, pool.backing_id]
            self._versions[disks] = {(pool.storage_class, pool.name): _figures_version(pool) for pool in pools}
        return self._versions[disks]


def _figures_version(pool: Any) -> FiguresVersion:
    sizes = pool.capacity, pool.maximum_volume_size
    return FiguresVersion(pool.version, pool.expires_at, pool.object_name, pool.object_version, sizes)


def _claim(row: Any, driver: str) -> Claim:
    return Claim(
        holder=row.holder,
        volume=row.volume,
        node=row.node,
        driver=driver,
        storage_class=row.storage_class,
        pool=row.pool,
        size=row.size,
        expires_at=row.expires_at,
    )
