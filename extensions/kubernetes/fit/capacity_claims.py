# SPDX-License-Identifier: Apache-2.0
"""Claims on the capacity of drivers' pools, for volumes that are not provisioned yet.

A claim counts until it is released or expires, by the database's clock. A transaction that claims capacity locks the
drivers' rows.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity.pool_columns import ActiveClaim, PoolColumns, PoolKey
from tonnage.extensions.kubernetes.fit.node_decision import Placement
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger import models
from tonnage.ledger.db import database

_CLAIM, _POOL = tables.CsiClaim, tables.CsiPool
_TABLE = cast(sa.Table, _CLAIM.__table__)

# Statements of every decision. They are made once, on tables and not on models: that takes a part of the time.
_NOW = sa.select(models.utcnow())
_CLAIMS_ON_DRIVER = sa.select(
    _TABLE.c.holder,
    _TABLE.c.volume,
    _TABLE.c.pod,
    _TABLE.c.expires_at,
    _TABLE.c.storage_class,
    _TABLE.c.pool,
    _TABLE.c.size,
    _TABLE.c.backing_id,
    _TABLE.c.capacity,
).where(_TABLE.c.driver_uid == sa.bindparam("uid"))
_IS_PUBLISHED = sa.or_(_TABLE.c.unpublished.is_(None), _TABLE.c.unpublished.is_(sa.false()))
_OWN_CLAIM = _TABLE.c.holder == sa.bindparam("own_holder")
_NOW_AND_HAS_CLAIMS = sa.select(models.utcnow(), sa.exists().where(_OWN_CLAIM))
_EXTEND_OWN = (
    sa.update(_TABLE)
    .where(_OWN_CLAIM, _TABLE.c.expires_at > sa.bindparam("at"))
    .values(expires_at=sa.bindparam("new_expires_at"))
)
_DELETE_OWN = sa.delete(_TABLE).where(_OWN_CLAIM)
_DELETE_UNCHANGED = _DELETE_OWN.where(_TABLE.c.expires_at == sa.bindparam("old_expires_at"))
_INSERT = sa.insert(_TABLE)
_DELETE_EXPIRED = sa.delete(_TABLE).where(
    _TABLE.c.driver_uid == sa.bindparam("uid"), _TABLE.c.expires_at <= sa.bindparam("at")
)

#: A row of the claims on a driver, in the order of the statement.
ClaimRow: TypeAlias = tuple[str, str, str | None, datetime.datetime, str, str, int, str | None, int | None]


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
    ``CSIStorageCapacity`` object, ``is_unpublished`` whether published capacity is without it.
    """

    claim: Claim
    pod: str
    figures: Mapping[PoolKey, FiguresVersion]
    has_object: bool = False
    is_unpublished: bool = False


def now(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock, UTC."""
    current_time: datetime.datetime = session.execute(_NOW).scalar_one()
    return current_time


def now_and_has_claims(session: orm.Session, holder: str) -> tuple[datetime.datetime, bool]:
    """Return the time by the database's clock, UTC, and whether a holder has claims, active or expired ones."""
    current_time, has_claims = session.execute(_NOW_AND_HAS_CLAIMS, {"own_holder": holder}).one()
    return current_time, bool(has_claims)


@dataclass(frozen=True, slots=True)
class ClaimsOnDrivers:
    """All claims on some drivers, expired ones too: rows by driver name, in any order."""

    rows: Mapping[str, Sequence[ClaimRow]]

    def active(
        self, at: datetime.datetime, holder: str | None, volumes: Collection[str]
    ) -> dict[str, list[ActiveClaim]]:
        """Return the active claims on each driver at a time, by driver name.

        The holder's own claims for these volumes are left out. If the holder is not a pod, all of its claims are left
        out, because a new claim replaces them.
        """
        return {
            name: [
                ActiveClaim((storage_class, pool), size, backing_id, capacity)
                for row_holder, volume, pod, expires_at, storage_class, pool, size, backing_id, capacity in rows
                if expires_at > at and not (row_holder == holder and (pod is None or volume in volumes))
            ]
            for name, rows in self.rows.items()
        }

    def are_part_of(self, others: "ClaimsOnDrivers", at: datetime.datetime, others_at: datetime.datetime) -> bool:
        """Return whether these claims that are active at a time are among other claims that were at theirs.

        The ends of their leases do not matter.
        """
        return all(_is_part_of(rows, others.rows[name], at, others_at) for name, rows in self.rows.items())

    def with_first(
        self, holder: str, placements: Iterable[Placement], expires_at: datetime.datetime, pod: str | None
    ) -> "ClaimsOnDrivers":
        """Return these claims and the first ones of a holder, which has no claims among these."""
        rows_by_driver = {name: list(rows) for name, rows in self.rows.items()}
        for placement in placements:
            rows_by_driver[placement.driver].append(_row(holder, placement, expires_at, pod))
        return ClaimsOnDrivers(rows_by_driver)

    def has_expired(self, at: datetime.datetime) -> bool:
        """Return whether there are claims that have expired."""
        return any(row[3] <= at for rows in self.rows.values() for row in rows)


def _row(holder: str, placement: Placement, expires_at: datetime.datetime, pod: str | None) -> ClaimRow:
    """Return the row of a claim as :data:`_CLAIMS_ON_DRIVER` returns it."""
    storage_class, pool = placement.pool
    volume, backing_id = placement.volume.name, placement.backing_id
    return holder, volume, pod, expires_at, storage_class, pool, placement.size, backing_id, placement.capacity


def _is_part_of(
    rows: Sequence[ClaimRow], others: Sequence[ClaimRow], at: datetime.datetime, others_at: datetime.datetime
) -> bool:
    if rows == others and at >= others_at:
        return True
    claims, other_claims = set(rows), set(others)
    # Claims that are the same to their expiry were active too. The others are few.
    same = claims & other_claims if at >= others_at else set()
    return _without_expiry(claims - same, at) <= _without_expiry(other_claims - same, others_at)


def _without_expiry(rows: Iterable[ClaimRow], at: datetime.datetime) -> set[tuple[object, ...]]:
    """Return the active claims at a time."""
    return {row[:3] + row[4:] for row in rows if row[3] > at}


def claims_on_drivers(session: orm.Session, drivers: Iterable[PoolColumns]) -> ClaimsOnDrivers:
    """Return all claims on drivers."""
    rows: dict[str, Sequence[ClaimRow]] = {}
    for driver in drivers:
        result: Any = session.execute(_CLAIMS_ON_DRIVER, {"uid": driver.uid})
        # Tuples, which are compared much faster than rows. All at once, which takes a third of the time.
        rows[driver.name] = list(map(tuple, result.all()))
    return ClaimsOnDrivers(rows)


def store(
    session: orm.Session,
    holder: str,
    node: str,
    placements: Sequence[Placement],
    expires_at: datetime.datetime,
    pod: str | None = None,
    volumes: Collection[str] = (),
    *,
    has_claims: bool = True,
    is_published: bool = True,
) -> None:
    """Replace the claims of a holder; for a pod, only those for these ``volumes``.

    A pod's other volumes have been provisioned in the meantime, and no figures may include them yet. Their claims get
    the same expiry. ``has_claims`` tells whether the holder may have claims, active or expired ones, ``is_published``
    whether the claims are subtracted from published capacity.
    """
    if has_claims and pod is None:
        release(session, holder)
    elif has_claims:
        _replace(session, holder, volumes, expires_at)
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
        }
        for placement in placements
    ]
    if not rows:
        return
    try:
        session.execute(_INSERT, rows)
    except db_exc.DBDuplicateEntry:
        raise database.StaleRead(f"{holder} has just claimed elsewhere") from None


def release(session: orm.Session, holder: str) -> bool:
    """Delete the claims of a holder, and return whether there were any."""
    deleted: Any = session.execute(_DELETE_OWN, {"own_holder": holder})
    return bool(deleted.rowcount)


def release_unchanged(session: orm.Session, expiry_by_holder: Mapping[str, datetime.datetime]) -> set[str]:
    """Delete the claims of holders that have these expiries, and return the holders that had any.

    Claims that were renewed in the meantime remain.
    """
    released = set()
    for holder, expires_at in sorted(expiry_by_holder.items()):
        deleted: Any = session.execute(_DELETE_UNCHANGED, {"own_holder": holder, "old_expires_at": expires_at})
        if deleted.rowcount:
            released.add(holder)
    return released


def renew(session: orm.Session, holder: str, expires_at: datetime.datetime, new_expires_at: datetime.datetime) -> None:
    """Extend the claims of a holder that have this expiry.

    Expired claims are not extended, because their capacity may have been claimed again.
    """
    if expires_at > now(session):
        query = sa.update(_CLAIM).where(_CLAIM.holder == holder, _CLAIM.expires_at == expires_at)
        session.execute(query.values(expires_at=new_expires_at).execution_options(synchronize_session=False))


def revive(session: orm.Session, claim: Claim, new_expires_at: datetime.datetime) -> bool:
    """Extend a claim although it may have expired, and return whether it was still there, unchanged."""
    query = sa.update(_CLAIM).where(
        _CLAIM.holder == claim.holder, _CLAIM.volume == claim.volume, _CLAIM.expires_at == claim.expires_at
    )
    updated: Any = session.execute(query.values(expires_at=new_expires_at).execution_options(synchronize_session=False))
    return bool(updated.rowcount)


def set_published(session: orm.Session, holder: str, is_published: bool) -> None:
    """Set whether the claims of a holder are subtracted from published capacity."""
    query = sa.update(_CLAIM).where(_CLAIM.holder == holder).values(unpublished=not is_published)
    session.execute(query.execution_options(synchronize_session=False))


def _replace(session: orm.Session, holder: str, volumes: Collection[str], new_expires_at: datetime.datetime) -> None:
    """Delete a pod's claims for these volumes and its expired claims, and set the expiry of its other claims."""
    at = now(session)
    # This statement comes first because it locks all rows at once, as release and renew do. So there are no deadlocks.
    session.execute(_EXTEND_OWN, {"own_holder": holder, "at": at, "new_expires_at": new_expires_at})
    own_claim = _CLAIM.holder == holder
    obsolete = sa.delete(_CLAIM).where(own_claim, sa.or_(_CLAIM.volume.in_(volumes), _CLAIM.expires_at <= at))
    session.execute(obsolete.execution_options(synchronize_session=False))


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


def published_on(session: orm.Session, uid: str, at: datetime.datetime) -> list[ActiveClaim]:
    """Return the active claims on a driver at a time that are subtracted from published capacity."""
    rows = session.execute(_CLAIMS_ON_DRIVER.where(_IS_PUBLISHED), {"uid": uid})
    return [
        ActiveClaim((row.storage_class, row.pool), row.size, row.backing_id, row.capacity)
        for row in rows
        if row.expires_at > at
    ]


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
    same_pool = sa.and_(
        _POOL.driver_uid == _CLAIM.driver_uid, _POOL.storage_class == _CLAIM.storage_class, _POOL.name == _CLAIM.pool
    )
    query = (
        sa.select(_CLAIM, tables.CsiDriver.name, _POOL)
        .join(tables.CsiDriver, tables.CsiDriver.uid == _CLAIM.driver_uid)
        .outerjoin(_POOL, same_pool)
        .where(_CLAIM.pod.is_not(None))
        .order_by(_CLAIM.holder, _CLAIM.volume)
    )
    rows = session.execute(query).all()
    shared_backings = (
        sa.select(_POOL.driver_uid, _POOL.backing_id).join(_CLAIM, same_pool).where(_CLAIM.pod.is_not(None))
    )
    by_backing: dict[tuple[str, str], dict[PoolKey, FiguresVersion]] = {}
    for backing_pool in session.scalars(
        sa.select(_POOL).where(sa.tuple_(_POOL.driver_uid, _POOL.backing_id).in_(shared_backings))
    ):
        if backing_pool.backing_id is not None and _in_use(backing_pool, at):
            by_backing.setdefault((backing_pool.driver_uid, backing_pool.backing_id), {}).update(
                _figures_versions(backing_pool)
            )
    claims = []
    for row, driver, pool in rows:
        has_object = getattr(pool, "object_name", None) is not None
        if (row.expires_at <= at) is expired and row.pod is not None:
            figures: Mapping[PoolKey, FiguresVersion] = {}
            if _in_use(pool, at):
                shared = None if pool.backing_id is None else by_backing.get((pool.driver_uid, pool.backing_id))
                figures = shared or _figures_versions(pool)
            claims.append(
                PodClaim(
                    claim=_claim(row, driver),
                    pod=row.pod,
                    figures=figures,
                    has_object=has_object,
                    is_unpublished=bool(row.unpublished),
                )
            )
    return claims


def _in_use(pool: tables.CsiPool | None, at: datetime.datetime) -> bool:
    if pool is None or pool.capacity is None:
        return False
    return pool.expires_at is None or pool.expires_at > at


def _figures_versions(pool: tables.CsiPool) -> dict[PoolKey, FiguresVersion]:
    sizes = pool.capacity, pool.maximum_volume_size
    figures = FiguresVersion(pool.version, pool.expires_at, pool.object_name, pool.object_version, sizes)
    return {(pool.storage_class, pool.name): figures}


def _claim(row: tables.CsiClaim, driver: str) -> Claim:
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
