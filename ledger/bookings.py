# SPDX-License-Identifier: Apache-2.0
"""Bookings: decisions taking effect. Counters, volume, claim and request key change together or not at all."""

import datetime
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import TOLERANCE_GB
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.request import Provisioning
from tonnage.ledger import counters
from tonnage.ledger import models

CREATE = "create"
EXTEND = "extend"
MIGRATE = "migrate"
MANAGE = "manage"
DELETE = "delete"
PURGE = "purge"


class PoolsTaken(Exception):
    """Pools changed since the decision looked at them, and the claims no longer fit. Nothing was booked."""

    def __init__(self, pool_ids: Iterable[int]) -> None:
        self.pool_ids = frozenset(pool_ids)
        super().__init__(f"pools {sorted(self.pool_ids)} changed meanwhile")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVolume:
    """The row of a volume that is booked for the first time."""

    id: str
    size_gb: int
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    volume_type_id: str | None
    requested_zone: str | None
    source_volume_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """One claim to book on one pool, in GiB, with what the decision saw (``generation``).

    ``volume`` is the row to insert for a new volume; without it an existing one is placed (again), grown or moved.
    ``storage_id`` is what the pool draws on with others, ``sharing`` the ids of those others as far as they are known.
    ``source_pool_id`` is where a volume that is moved comes from, ``volume_type_id`` the type that it has then, if it
    gets another.
    """

    claim_id: str
    request_id: str
    volume_id: str
    verb: str
    pool_id: int
    backend_id: int
    generation: int
    size_gb: int
    physical_gb: int
    target_size_gb: int
    provisioning: Provisioning
    availability_zone: str = ""
    volume: NewVolume | None = None
    storage_id: str | None = None
    sharing: Sequence[int] = ()
    source_pool_id: int | None = None
    volume_type_id: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A request and the answer it is given."""

    request_id: str
    volume_id: str
    answer: Mapping[str, Any]


def answers(session: orm.Session, request_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the answers that these requests were given before, by request id."""
    key = models.RequestKey
    rows = session.execute(sa.select(key.request_id, key.answer).where(key.request_id.in_(request_ids)))
    return {row[0]: row[1] for row in rows}


def purge_keys(session: orm.Session, days: int) -> int:
    """Forget the keys of requests whose volume is gone, or never was, for that many days; return how many."""
    key, volume = models.RequestKey, models.Volume
    before = session.execute(sa.select(models.utcnow())).scalar_one() - datetime.timedelta(days=days)
    result = session.execute(
        sa.delete(key)
        .where(key.counted_from < before, ~sa.exists().where(volume.id == key.volume_id))
        .execution_options(synchronize_session=False)
    )
    return int(result.rowcount)  # type: ignore[attr-defined]


def book(
    session: orm.Session, bookings: Sequence[Booking], keys: Sequence[Key], calculation: Calculation
) -> dict[int, counters.Counters]:
    """Book all of them in the session's transaction and return the counters of the pools touched.

    Raises :class:`PoolsTaken` if a pool no longer admits its share, and
    :class:`~tonnage.capacity.errors.Conflict` if a volume is no longer in the state that the decision saw; the
    transaction must then be rolled back.
    """
    if keys:
        session.execute(
            sa.insert(models.RequestKey),
            [
                {"request_id": key.request_id, "volume_id": key.volume_id, "answer": dict(key.answer)}
                for key in sorted(keys, key=lambda key: key.request_id)
            ],
        )
    if not bookings:
        return {}
    by_pool: dict[int, list[Booking]] = {}
    by_backend: dict[int, int] = {}
    for booking in bookings:
        by_pool.setdefault(booking.pool_id, []).append(booking)
        by_backend[booking.backend_id] = by_backend.get(booking.backend_id, 0) + booking.size_gb
    sharing = {pool_id for booking in bookings for pool_id in booking.sharing}
    if sharing:
        counters.lock(session, sharing | by_pool.keys())
    counters.add_to_backends(session, by_backend)
    taken = [pool_id for pool_id in sorted(by_pool) if not _take(session, by_pool[pool_id], calculation)]
    if taken:
        raise PoolsTaken(taken)
    _write_volumes(session, bookings)
    session.execute(sa.insert(models.Claim), [_claim(booking) for booking in bookings])
    return counters.read(session, sharing | by_pool.keys())


def _claim(booking: Booking) -> dict[str, Any]:
    return {
        "id": booking.claim_id,
        "volume_id": booking.volume_id,
        "backend_id": booking.backend_id,
        "pool_id": booking.pool_id,
        "verb": booking.verb,
        "state": counters.PENDING,
        "size_gb": booking.size_gb,
        "physical_gb": booking.physical_gb,
        "target_size_gb": booking.target_size_gb,
        "provisioning": booking.provisioning.value,
        "everywhere": booking.storage_id is None,
        "source_pool_id": booking.source_pool_id,
        "volume_type_id": booking.volume_type_id,
        "request_id": booking.request_id,
    }


def _take(session: orm.Session, bookings: Sequence[Booking], calculation: Calculation) -> bool:
    """Add the claims of one pool to its counters if the row, as it is now, still admits them.

    The comparisons are those of :func:`tonnage.capacity.arithmetic.admits`, on the limits that the last report wrote.
    """
    pool = models.Pool
    conditions: list[sa.ColumnElement[bool]] = [
        pool.id == bookings[0].pool_id,
        pool.generation == bookings[0].generation,
        pool.present.is_(True),
    ]
    whole = pool.storage_free_gb.is_(None)
    shared = sa.case((whole, pool.shared_in_flight_physical_gb), else_=0)
    room = pool.physical_limit_gb - pool.in_flight_physical_gb - shared
    storage_room = pool.storage_free_gb - pool.in_flight_physical_gb - pool.shared_in_flight_physical_gb
    # As if they came one after the other: each is compared with what is left after those before it.
    up_to_last_thin = up_to_last_thick = sum_before = physical_before = 0
    largest: dict[int, int] = {}
    for booking in bookings:
        if booking.provisioning is Provisioning.THIN:
            up_to_last_thin = sum_before + booking.size_gb
            largest[physical_before] = max(largest.get(physical_before, 0), booking.size_gb)
        else:
            up_to_last_thick = physical_before + booking.physical_gb
        sum_before += booking.size_gb
        physical_before += booking.physical_gb
    if largest:
        promised = sa.case(
            (
                pool.provisioned_capacity_gb.is_(None),
                pool.allocated_capacity_gb + pool.shared_allocated_gb + pool.external_gb,
            ),
            else_=pool.provisioned_capacity_gb + pool.in_flight_gb + pool.shared_in_flight_gb,
        )
        fits = promised + up_to_last_thin <= pool.thin_limit_gb + TOLERANCE_GB
        conditions.append(sa.or_(pool.thin_limit_gb.is_(None), fits))
    for limit, left in ((pool.physical_limit_gb, room), (pool.storage_free_gb, storage_room)):
        if calculation is Calculation.CINDER:
            for before, most in largest.items():
                fits = sa.literal(float(most)) <= (left - before) * pool.ratio + TOLERANCE_GB
                conditions.append(sa.or_(limit.is_(None), fits))
        if up_to_last_thick:
            conditions.append(sa.or_(limit.is_(None), sa.literal(float(up_to_last_thick)) <= left + TOLERANCE_GB))
    result = session.execute(
        sa.update(pool)
        .where(*conditions)
        .values(
            allocated_capacity_gb=pool.allocated_capacity_gb + sum_before,
            in_flight_gb=pool.in_flight_gb + sum_before,
            in_flight_physical_gb=pool.in_flight_physical_gb + physical_before,
        )
        .execution_options(synchronize_session=False)
    )
    if result.rowcount != 1:  # type: ignore[attr-defined]
        return False
    storage_id = bookings[0].storage_id
    if storage_id is not None:
        counters.spread(session, storage_id, bookings[0].pool_id, sum_before, physical_before)
    return True


def _write_volumes(session: orm.Session, bookings: Sequence[Booking]) -> None:
    new = [_row(booking, booking.volume) for booking in bookings if booking.volume is not None]
    if new:
        session.execute(sa.insert(models.Volume), new)
    volume = models.Volume
    for booking in sorted(bookings, key=lambda booking: booking.volume_id):
        if booking.volume is not None:
            continue
        if booking.verb == CREATE:
            statement = (
                sa.update(volume)
                .where(volume.id == booking.volume_id, volume.status == "creating", volume.pool_id.is_(None))
                .values(
                    pool_id=booking.pool_id,
                    provisioning=booking.provisioning.value,
                    availability_zone=booking.availability_zone,
                )
            )
        elif booking.verb == MIGRATE:
            statement = (
                sa.update(volume)
                .where(
                    volume.id == booking.volume_id,
                    volume.status == "available",
                    volume.pool_id == booking.source_pool_id,
                    volume.size_gb == booking.target_size_gb,
                )
                .values(
                    status="maintenance" if booking.volume_type_id is None else "retyping", migration_status="migrating"
                )
            )
        else:
            before = booking.target_size_gb - booking.size_gb
            statement = (
                sa.update(volume)
                .where(volume.id == booking.volume_id, volume.status == "available", volume.size_gb == before)
                .values(status="extending")
            )
        result = session.execute(statement.execution_options(synchronize_session=False))
        if result.rowcount != 1:  # type: ignore[attr-defined]
            raise errors.Conflict(f"volume {booking.volume_id} was changed by another request; try again")


def _row(booking: Booking, volume: NewVolume) -> dict[str, Any]:
    return {
        "id": volume.id,
        "name": volume.name,
        "description": volume.description,
        "project_id": volume.project_id,
        "user_id": volume.user_id,
        "size_gb": volume.size_gb,
        "status": "creating",
        "volume_type_id": volume.volume_type_id,
        "availability_zone": booking.availability_zone,
        "requested_zone": volume.requested_zone,
        "pool_id": booking.pool_id,
        "provisioning": booking.provisioning.value,
        "user_metadata": dict(volume.metadata),
        "hints": dict(volume.hints),
        "source_volume_id": volume.source_volume_id,
        "attempted_pools": [],
        "request_id": booking.request_id,
    }
