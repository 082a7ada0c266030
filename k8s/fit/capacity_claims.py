# SPDX-License-Identifier: Apache-2.0
"""What is promised of drivers' pools until volumes are made of it, in the ledger's database.

A claim counts until it is given back or its time is over, by the database's clock. Who claims holds the drivers' rows.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.k8s.capacity.pool_columns import Claimed, Figures, PoolKey
from tonnage.k8s.fit.node_decision import Placed
from tonnage.ledger import models
from tonnage.ledger.db import database

_CLAIM, _POOL = models.CsiClaim, models.CsiPool
_COUNTED = (
    _CLAIM.driver_uid,
    _CLAIM.holder,
    _CLAIM.volume,
    _CLAIM.pod,
    _CLAIM.storage_class,
    _CLAIM.pool,
    _CLAIM.size,
    _CLAIM.expires_at,
    _CLAIM.backing_id,
    _CLAIM.capacity,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A volume's claim. ``size`` is bytes, ``expires_at`` UTC."""

    holder: str
    volume: str
    node: str
    driver: str
    storage_class: str
    pool: str
    size: int
    expires_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class Written:
    """The driver's version that last wrote some figures, and when these expire, UTC."""

    version: int
    expires_at: datetime.datetime | None

    def follows(self, other: "Written") -> bool:
        """Tell whether this is of a later look: figures of the same time are of the same one."""
        return self.version != other.version and (self.expires_at is None or self.expires_at != other.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim for a pod, ``namespace/name``.

    ``written`` are the figures in use of its pool and of all others that draw on the same disks. It is empty if those
    of its own pool are not in use any more.
    """

    claim: Claim
    pod: str
    written: Mapping[PoolKey, Written]


def now(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock, UTC."""
    found: datetime.datetime = session.execute(sa.select(models.utcnow())).scalar_one()
    return found


def live(
    session: orm.Session,
    drivers: Iterable[Figures],
    at: datetime.datetime,
    holder: str | None,
    volumes: Collection[str],
) -> dict[str, list[Claimed]]:
    """Return what is claimed of drivers at a time, by their names, but what that holder has for these volumes.

    Of a holder that is no pod nothing counts: it has claimed for others before.
    """
    names = {each.uid: each.name for each in drivers}
    found: dict[str, list[Claimed]] = {name: [] for name in names.values()}
    if names:
        for row in session.execute(sa.select(*_COUNTED).where(_CLAIM.driver_uid.in_(list(names)))):
            own = row.holder == holder and (row.pod is None or row.volume in volumes)
            if row.expires_at > at and not own:
                one = Claimed((row.storage_class, row.pool), row.size, row.backing_id, row.capacity)
                found[names[row.driver_uid]].append(one)
    return found


def put(
    session: orm.Session,
    holder: str,
    node: str,
    places: Sequence[Placed],
    expires_at: datetime.datetime,
    pod: str | None = None,
    volumes: Collection[str] = (),
) -> None:
    """Claim this for a holder, instead of what it had; for a pod, instead of what it had for these ``volumes``.

    Others of a pod have been made meanwhile, and no figures may contain them yet. They are held as long as these.
    """
    if pod is None:
        release(session, holder)
    else:
        _replace(session, holder, volumes, expires_at)
    session.add_all(
        _CLAIM(
            holder=holder,
            volume=each.volume.name,
            node=node,
            driver_uid=each.uid,
            storage_class=each.pool[0],
            pool=each.pool[1],
            size=each.size,
            expires_at=expires_at,
            pod=pod,
            backing_id=each.backing_id,
            capacity=each.capacity,
        )
        for each in places
    )
    try:
        session.flush()
    except db_exc.DBDuplicateEntry:
        raise database.Overtaken(f"{holder} has just claimed elsewhere") from None


def release(session: orm.Session, holder: str, expires_at: datetime.datetime | None = None) -> bool:
    """Give back what a holder has claimed, and tell whether that was anything; with a time, unless it claimed anew."""
    chosen = sa.delete(_CLAIM).where(_CLAIM.holder == holder)
    if expires_at is not None:
        chosen = chosen.where(_CLAIM.expires_at == expires_at)
    given_back: Any = session.execute(chosen.execution_options(synchronize_session=False))
    return bool(given_back.rowcount)


def renew(session: orm.Session, holder: str, expires_at: datetime.datetime, until: datetime.datetime) -> None:
    """Let what a holder has claimed end later, unless it was claimed anew or has ended: others may have it by now."""
    if expires_at > now(session):
        chosen = sa.update(_CLAIM).where(_CLAIM.holder == holder, _CLAIM.expires_at == expires_at)
        session.execute(chosen.values(expires_at=until).execution_options(synchronize_session=False))


def _replace(session: orm.Session, holder: str, volumes: Collection[str], until: datetime.datetime) -> None:
    """Give back what a pod has claimed for these volumes, or has lost; what else it has ends at that time."""
    own, at = _CLAIM.holder == holder, now(session)
    # First, as it locks all rows at once, as whoever releases or renews does: none waits for one that waits for it.
    kept = sa.update(_CLAIM).where(own, _CLAIM.expires_at > at).values(expires_at=until)
    session.execute(kept.execution_options(synchronize_session=False))
    old = sa.delete(_CLAIM).where(own, sa.or_(_CLAIM.volume.in_(volumes), _CLAIM.expires_at <= at))
    session.execute(old.execution_options(synchronize_session=False))


def forget_ended(session: orm.Session, uids: Collection[str], at: datetime.datetime) -> None:
    """Remove the claims on drivers whose time is over."""
    ended = sa.delete(_CLAIM).where(_CLAIM.driver_uid.in_(list(uids)), _CLAIM.expires_at <= at)
    session.execute(ended.execution_options(synchronize_session=False))


def of_holder(session: orm.Session, holder: str) -> list[Claim]:
    """Return the claims of a holder whose time is not over, by volume."""
    at = now(session)
    chosen = (
        sa.select(_CLAIM, models.CsiDriver.name)
        .join(models.CsiDriver, models.CsiDriver.uid == _CLAIM.driver_uid)
        .where(_CLAIM.holder == holder)
        .order_by(_CLAIM.volume)
    )
    return [_claim(row[0], row[1]) for row in session.execute(chosen) if row[0].expires_at > at]


def of_pods(session: orm.Session) -> list[PodClaim]:
    """Return the claims for pods whose time is not over."""
    at = now(session)
    same = sa.and_(
        _POOL.driver_uid == _CLAIM.driver_uid, _POOL.storage_class == _CLAIM.storage_class, _POOL.name == _CLAIM.pool
    )
    chosen = (
        sa.select(_CLAIM, models.CsiDriver.name, _POOL)
        .join(models.CsiDriver, models.CsiDriver.uid == _CLAIM.driver_uid)
        .outerjoin(_POOL, same)
        .where(_CLAIM.pod.is_not(None))
        .order_by(_CLAIM.holder, _CLAIM.volume)
    )
    rows = session.execute(chosen).all()
    sharing = sa.select(_POOL.driver_uid, _POOL.backing_id).join(_CLAIM, same).where(_CLAIM.pod.is_not(None))
    disks: dict[tuple[str, str], dict[PoolKey, Written]] = {}
    for each in session.scalars(sa.select(_POOL).where(sa.tuple_(_POOL.driver_uid, _POOL.backing_id).in_(sharing))):
        if each.backing_id is not None and _in_use(each, at):
            disks.setdefault((each.driver_uid, each.backing_id), {}).update(_written(each))
    found = []
    for row, driver, pool in rows:
        if row.expires_at > at and row.pod is not None:
            written: Mapping[PoolKey, Written] = {}
            if _in_use(pool, at):
                shared = None if pool.backing_id is None else disks.get((pool.driver_uid, pool.backing_id))
                written = shared or _written(pool)
            found.append(PodClaim(claim=_claim(row, driver), pod=row.pod, written=written))
    return found


def _in_use(pool: models.CsiPool | None, at: datetime.datetime) -> bool:
    if pool is None or pool.capacity is None:
        return False
    return pool.expires_at is None or pool.expires_at > at


def _written(pool: models.CsiPool) -> dict[PoolKey, Written]:
    return {(pool.storage_class, pool.name): Written(pool.version, pool.expires_at)}


def _claim(row: models.CsiClaim, driver: str) -> Claim:
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
