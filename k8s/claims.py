# SPDX-License-Identifier: Apache-2.0
"""What is promised of drivers' pools until volumes are made of it, in the ledger's database.

A claim counts until it is given back or its time is over, by the database's clock. Who claims holds the drivers' rows.
"""

import datetime
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.k8s.decisions import Placed
from tonnage.k8s.figures import Claimed
from tonnage.k8s.figures import Figures
from tonnage.ledger import database
from tonnage.ledger import models

_CLAIM = models.CsiClaim


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim for a pod, ``namespace/name``.

    ``written`` is the driver's version that last wrote the figures of its pool, None if the pool is not there any more.
    """

    claim: Claim
    pod: str
    written: int | None


def now(session: orm.Session) -> datetime.datetime:
    """Return the time by the database's clock, UTC."""
    found: datetime.datetime = session.execute(sa.select(models.utcnow())).scalar_one()
    return found


def live(
    session: orm.Session, drivers: Iterable[Figures], at: datetime.datetime, holder: str | None
) -> dict[str, list[Claimed]]:
    """Return what is claimed of drivers at a time, by their names, but by that holder."""
    names = {each.uid: each.name for each in drivers}
    found: dict[str, list[Claimed]] = {name: [] for name in names.values()}
    if names:
        columns = (_CLAIM.driver_uid, _CLAIM.holder, _CLAIM.storage_class, _CLAIM.pool, _CLAIM.size, _CLAIM.expires_at)
        for row in session.execute(sa.select(*columns).where(_CLAIM.driver_uid.in_(list(names)))):
            if row.expires_at > at and row.holder != holder:
                found[names[row.driver_uid]].append(Claimed((row.storage_class, row.pool), row.size))
    return found


def put(
    session: orm.Session,
    holder: str,
    node: str,
    places: Sequence[Placed],
    expires_at: datetime.datetime,
    pod: str | None = None,
) -> None:
    """Claim this for a holder, instead of what it had."""
    release(session, holder)
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
    at, pool = now(session), models.CsiPool
    same = sa.and_(
        pool.driver_uid == _CLAIM.driver_uid, pool.storage_class == _CLAIM.storage_class, pool.name == _CLAIM.pool
    )
    chosen = (
        sa.select(_CLAIM, models.CsiDriver.name, pool.version)
        .join(models.CsiDriver, models.CsiDriver.uid == _CLAIM.driver_uid)
        .outerjoin(pool, same)
        .where(_CLAIM.pod.is_not(None))
        .order_by(_CLAIM.holder, _CLAIM.volume)
    )
    return [
        PodClaim(claim=_claim(row, driver), pod=row.pod, written=written)
        for row, driver, written in session.execute(chosen)
        if row.expires_at > at and row.pod is not None
    ]


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
