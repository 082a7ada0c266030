# SPDX-License-Identifier: Apache-2.0
"""Deletes of volumes, and the unmanaging of volumes that stay on the storage."""

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.claims import operation_outcomes, request_keys, row_changes
from tonnage.ledger.claims.row_changes import ClaimRow, LockedRows, VolumeRow
from tonnage.ledger.db import database
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.inventory import listings, pending_claims
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.ledger.models import claim_verbs

#: States in which a volume may be deleted.
DELETABLE = ("available", "error", "error_deleting", "error_extending", "error_managing")

#: States in which a volume may be unmanaged.
UNMANAGEABLE = ("available", "error", "error_extending")


@dataclass(frozen=True, slots=True)
class Order:
    """An order to delete a volume. ``asked_at`` is a time by the database's clock before its request was sent."""

    volume_id: str
    request_id: str
    asked_at: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """The order for the agent; None if it was ordered before, or if the volume was on no pool and is gone already."""

    order: pending_claims.PendingClaim | None


def begin(session: orm.Session, orders: Sequence[Order]) -> list[Deletion | errors.TonnageError]:
    """Mark volumes as being deleted.

    Capacity returns when the agent has confirmed the delete. A second delete of the same volume gets the same answer. A
    volume on no pool is removed at once.

    A request that is delivered again gets its first answer, even if the volume has changed since. Otherwise a client
    that missed a positive answer would take the volume for lost, and a request that was refused because the volume was
    in use could still take effect much later.

    The result for a volume that cannot be deleted is a :class:`~tonnage.capacity.errors.NotFound` or, if another
    operation uses the volume, a :class:`~tonnage.capacity.errors.Conflict`. It is
    :class:`~tonnage.capacity.errors.KeyReused` if another request used the request id, and
    :class:`~tonnage.capacity.errors.Unavailable` for an order that is too old.
    """
    volumes, places, _ = _lock(session, [order.volume_id for order in orders])
    claims = LockedRows(ClaimRow)
    keys_by_request = request_keys.find(session, {order.request_id: order.asked_at for order in orders})
    answered_before = frozenset(keys_by_request)
    results: list[Deletion | errors.TonnageError] = []
    for order in orders:
        volume_id, request_id = order.volume_id, order.request_id
        try:
            if request_id in keys_by_request:
                keys_by_request[request_id].require(volume_id, claim_verbs.DELETE)
                results.append(Deletion(None))
            else:
                results.append(_begin_one(session, volumes, claims, places, volume_id, request_id))
                keys_by_request[request_id] = request_keys.Key(request_id, volume_id, claim_verbs.DELETE)
        except (errors.NotFound, errors.KeyReused, errors.Unavailable) as error:
            results.append(error)
        except request_keys.STORED_ERRORS as error:
            results.append(error)
            refused = request_keys.Key.of_error(request_id, volume_id, claim_verbs.DELETE, error)
            keys_by_request.setdefault(request_id, refused)
    request_keys.insert(
        session, [key for request_id, key in keys_by_request.items() if request_id not in answered_before]
    )
    connection = session.connection()
    volumes.write(connection)
    claims.write(connection)
    return results


def unmanage(
    session: orm.Session, request_id: str, volume_id: str, asked_at: datetime.datetime | None = None
) -> dict[int, pool_counters.Counters]:
    """Remove a volume from the ledger and leave it on the storage; return the counters of its pool.

    The allocated capacity falls at once. The provisioned capacity does not; where the driver reports none, the volume
    counts as external from now on. The same request delivered again changes nothing.

    Raises :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Conflict`, and
    :class:`~tonnage.capacity.errors.Unavailable` for a request that is too old.
    """
    volumes, _, locked = _lock(session, [volume_id], with_shared=True)
    if keys_by_request := request_keys.find(session, {request_id: asked_at}):
        keys_by_request[request_id].require(volume_id, request_keys.UNMANAGE)
        return {}
    volume = volumes.rows.get(volume_id)
    if volume is None:
        raise errors.NotFound(f"volume {volume_id} could not be found")
    if volume.status not in UNMANAGEABLE or volume.pool_id is None:
        raise errors.Conflict(
            f"volume {volume_id} is {volume.status}: only a volume in a pool that is {', '.join(UNMANAGEABLE)} "
            "can be unmanaged"
        )
    pool_id = volume.pool_id
    claim = models.Claim
    claims = session.scalars(
        sa.select(claim)
        .where(claim.volume_id == volume_id, claim.pool_id == pool_id, claim.state.in_(pool_counters.LIVE))
        .order_by(claim.id)
        .with_for_update()
    ).all()
    size = sum(row.size_gb for row in claims)
    for row in claims:
        if row.contained and (row.contained_by_all or locked.storages[pool_id] is None):
            session.delete(row)
        else:
            # Until a report contains this claim it counts as in flight, not as external capacity.
            row.state = pool_counters.RELEASED
    pool = session.get_one(models.Pool, pool_id)
    pool.external_gb += size
    # An older listing, from before the last operation on the volume, would take the external capacity back.
    epoch, tick = max(((row.end_epoch or 0, row.end_tick or 0) for row in claims), default=(0, 0))
    listings.invalidate_until(session, pool.backend_id, epoch, tick)
    operation_outcomes.forget_volume(session, volumes, volume)
    request_keys.insert(session, [request_keys.Key(request_id, volume_id, request_keys.UNMANAGE)])
    session.flush()
    volumes.write(session.connection())
    change = pool_counters.CounterChange(-size, deleted=size)
    pool_counters.add_to_pools(session, locked.backends, {pool_id: change})
    pool_counters.recount_in_flight(session, [pool_id])
    pool_counters.recount_shared(session, locked.shared)
    return pool_counters.read(session, locked.backends.keys())


class _Place(NamedTuple):
    """The pool of a volume: its backend, its storage, its name."""

    pool_id: int
    backend_id: int
    storage_id: str | None
    name: str


_VOLUME, _POOL = models.table(models.Volume).c, models.table(models.Pool).c
_PLACES = Prepared(
    sa.select(_POOL.id, _POOL.backend_id, _POOL.storage_id, _POOL.name)
    .join_from(models.table(models.Volume), models.table(models.Pool), _POOL.id == _VOLUME.pool_id)
    .where(_VOLUME.id.in_(sa.bindparam("ids", expanding=True)))
)


def _lock(
    session: orm.Session, volume_ids: Sequence[str], *, with_shared: bool = False
) -> tuple[LockedRows[VolumeRow], Mapping[int, _Place], pool_locks.LockedPools]:
    """Lock the backends and pools of the volumes, then the volumes, in the one order of locks.

    Return the volumes, the places of their pools by id, and the pools. A counter of a pool may change only
    ``with_shared``, which locks the pools on the same storages too.

    Raises :class:`~tonnage.ledger.db.database.StaleRead` if a volume has moved to another pool meanwhile.
    """
    connection = session.connection()
    places = {row[0]: _Place(*row) for row in _PLACES.rows(connection, {"ids": sorted(volume_ids)})}
    pools = {pool_locks.PoolPlace(*place[:3]) for place in places.values()}
    locked = pool_locks.lock_placed(session, pools, with_shared=with_shared)
    # The rows are read under the locks: another scheduler may have received the end of a delete meanwhile.
    volumes = row_changes.lock_volumes(connection, volume_ids)
    for row in volumes.rows.values():
        if row.pool_id is not None and row.pool_id not in places:
            raise database.StaleRead(f"volume {row.id} has moved")
    return volumes, places, locked


def _begin_one(
    session: orm.Session,
    volumes: LockedRows[VolumeRow],
    claims: LockedRows[ClaimRow],
    places: Mapping[int, _Place],
    volume_id: str,
    request_id: str,
) -> Deletion:
    volume = volumes.rows.get(volume_id)
    if volume is None or volumes.is_deleted(volume):
        raise errors.NotFound(f"volume {volume_id} could not be found")
    if volume.status == "deleting":
        return Deletion(None)
    if volume.status not in DELETABLE:
        raise errors.Conflict(
            f"volume {volume_id} is {volume.status}: only a volume that is {', '.join(DELETABLE)} can be deleted"
        )
    if volume.pool_id is None:
        operation_outcomes.forget_volume(session, volumes, volume)
        return Deletion(None)
    place = places[volume.pool_id]
    claim = ClaimRow(
        id=str(uuid.uuid4()),
        volume_id=volume.id,
        backend_id=place.backend_id,
        pool_id=place.pool_id,
        verb=claim_verbs.DELETE,
        state=pool_counters.PENDING,
        size_gb=0,
        physical_gb=0,
        target_size_gb=volume.size_gb,
        provisioning=volume.provisioning or "",
        request_id=request_id,
    )
    claims.insert(claim)
    volume.status = "deleting"
    volume.status_reason = None
    return Deletion(
        pending_claims.PendingClaim(
            id=claim.id,
            backend_id=claim.backend_id,
            pool_id=claim.pool_id,
            pool_name=place.name,
            volume_id=claim.volume_id,
            verb=claim.verb,
            target_size_gb=claim.target_size_gb,
            provisioning=claim.provisioning,
            request_id=claim.request_id,
        )
    )
