# SPDX-License-Identifier: Apache-2.0
"""Volumes of Cinder that move to grow: their claims, and the steps of the moves, which any scheduler can go on with.

A growth is booked in one transaction, in which the volume's own pool is found to be too small. Its record lives until
the move has ended. One scheduler owns it, and takes its steps; once that scheduler gives no sign of life, another one
does. Each step is recorded before its command is sent.
"""

import datetime
import enum
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import type_conversion
from tonnage.capacity.arithmetic import Calculation
from tonnage.extensions.cinder.ledger import observed_claims
from tonnage.extensions.cinder.ledger.tables import CinderGrowth
from tonnage.ledger import models
from tonnage.ledger.claims import bookings, request_keys
from tonnage.ledger.locks import pool_locks, scheduling_rules
from tonnage.ledger.models import claim_verbs

#: The verb of the claim of a volume that moves to grow, of its new size. The record of the growth ends it.
GROW = "grow"

#: Seconds without a sign of life of its owner after which another scheduler takes a growth over.
LEASE = 15.0


class Step(enum.StrEnum):
    """The last step that was recorded for a growth; ``UNDOING`` is followed by the end.

    ``SENT`` is recorded after the command of ``EXTENDING`` was sent, as the row of the volume does not show that.
    """

    CLAIMED = "claimed"
    MOVING = "moving"
    EXTENDING = "extending"
    SENT = "sent"
    UNDOING = "undoing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A volume that moves from the pool ``source`` to the pool ``target`` to grow. Sizes are in GiB.

    ``name_id`` is the id in the volume's name on the storage. ``reservations`` are those of the growth in Cinder's
    quotas. ``changed_at`` is the time at which ``step`` was recorded, ``age`` the number of seconds since then, and
    ``reason`` why the growth is undone.
    """

    id: str
    volume_id: str
    request_id: str
    project_id: str
    user_id: str
    source: str
    target: str
    name_id: str
    size_gb: int
    new_size_gb: int
    reservations: tuple[str, ...]
    step: Step = Step.CLAIMED
    reason: str = ""
    changed_at: datetime.datetime | None = None
    age: float = 0.0


_TABLE = models.table(CinderGrowth)
_G = _TABLE.c


def book(
    session: orm.Session,
    growth: Growth,
    growing: bookings.Booking,
    moving: bookings.Booking,
    request_key: request_keys.Key,
    owner: str,
) -> bool:
    """Book a growth, in the volume's own pool if that has room by now; return whether the volume moves instead.

    ``growing`` is the claim in the own pool and ``moving`` that in another one; both have the id of the growth, and
    the pools are locked while they are compared. Raises
    :class:`~tonnage.extensions.cinder.ledger.observed_claims.Repeated` for a known key, and
    :class:`~tonnage.ledger.claims.bookings.PoolsChanged` if neither pool admits its claim.
    """
    key = replace(request_key, answer={"claim_id": growth.id})
    earlier_key = request_keys.insert_unless_known(session, key)
    if earlier_key is not None:
        if earlier_key.answer.get("claim_id") != growth.id:
            raise observed_claims.Repeated(growth.volume_id)
        # An earlier try of this transaction was committed and got no answer.
        return session.get(CinderGrowth, growth.id) is not None
    pool_locks.lock(session, {growing.pool_id, moving.pool_id})
    generation = scheduling_rules.read_generation(session)
    pool = models.Pool
    unchanged_pool = sa.select(pool.id).where(
        pool.id == growing.pool_id, pool.generation == growing.generation, pool.present.is_(True)
    )
    if session.scalar(unchanged_pool) is None:
        raise bookings.PoolsChanged([growing.pool_id])
    try:
        with session.begin_nested():
            bookings.take(session, [growing], Calculation.STANDARD, generation, all_bounded=True)
    except bookings.PoolsChanged:
        bookings.take(session, [moving], Calculation.STANDARD, generation, all_bounded=True)
    else:
        bookings.insert_claims(session, [growing], sent=False)
        return False
    bookings.insert_claims(session, [moving], sent=False)
    columns = asdict(growth)
    del columns["age"]  # the time since changed_at
    state = columns.pop("step")
    moment = _now(session)
    session.connection().execute(
        sa.insert(_TABLE).values(**columns | {"changed_at": moment}, state=state, owner=owner, renewed_at=moment)
    )
    return True


def exist(session: orm.Session) -> bool:
    """Return whether a volume moves to grow."""
    return session.scalar(sa.select(_G.id).limit(1)) is not None


def take_over(session: orm.Session, owner: str, lease: float) -> list[Growth]:
    """Return the growths of an owner, and those whose owner gave no sign of life for ``lease`` seconds, now its own."""
    now = _now(session)
    late = now - datetime.timedelta(seconds=lease)
    connection = session.connection()
    connection.execute(
        sa.update(_TABLE)
        .where(sa.or_(_G.owner == owner, _G.renewed_at < late))
        .values(owner=owner, renewed_at=models.utcnow())
    )
    rows = connection.execute(
        sa.select(_TABLE, _G.state.label("step")).where(_G.owner == owner).order_by(_G.changed_at, _G.id)
    )
    return [
        replace(type_conversion.convert(row, Growth, from_attributes=True), age=models.age(now, row.changed_at) or 0.0)
        for row in rows
    ]


def renew(session: orm.Session, growth: Growth, owner: str) -> bool:
    """Give a sign of life of the owner; return whether it may take the next step of the growth.

    It may not if another scheduler owns the growth by now, or if a step was recorded since.
    """
    changed = session.connection().execute(
        sa.update(_TABLE).where(*_is_unchanged(growth, owner)).values(renewed_at=models.utcnow())
    )
    return bool(changed.rowcount)


def record(session: orm.Session, growth: Growth, owner: str, step: Step, reason: str = "") -> Growth | None:
    """Record the next step of a growth; return the growth with it, None if the owner may not take it.

    It may not if another scheduler owns the growth by now or has recorded a step, nor begin to move a volume whose
    claim was given up.
    """
    if step is Step.MOVING and not observed_claims.record_sent(session, growth.id):
        return None
    moment = _now(session)
    changed = session.connection().execute(
        sa.update(_TABLE)
        .where(*_is_unchanged(growth, owner))
        .values(state=step, reason=reason, renewed_at=moment, changed_at=moment)
    )
    return replace(growth, step=step, reason=reason, changed_at=moment, age=0.0) if changed.rowcount else None


def end(session: orm.Session, growth: Growth, owner: str) -> bool:
    """Delete the record of a growth, and return whether its owner may end it.

    Its claim ends with the row of the volume, as that of any migration.
    """
    ended = session.connection().execute(sa.delete(_TABLE).where(*_is_unchanged(growth, owner)))
    if not ended.rowcount:
        return False
    claims = models.table(models.Claim)
    session.connection().execute(
        sa.update(claims).where(claims.c.id == growth.id, claims.c.verb == GROW).values(verb=claim_verbs.MIGRATE)
    )
    return True


def _is_unchanged(growth: Growth, owner: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions that a growth is its owner's, and that no step was recorded since it was read."""
    return _G.id == growth.id, _G.owner == owner, _G.state == growth.step, _G.changed_at == growth.changed_at


def _now(session: orm.Session) -> datetime.datetime:
    return session.execute(sa.select(models.utcnow())).scalar_one()
