# SPDX-License-Identifier: Apache-2.0
"""Bookings of decisions: counters, volume, claim and request key change in one transaction, together or not at all.

The counters of a pool change in one conditional update. An example: a thin volume of 300 GiB on the pool with the id 1,
whose last report said total 1000, free 480, provisioned 1400, reserved 10 %, ratio 2.0, by the calculation ``cinder``.
That report wrote the limits ``thin_limit_gb`` = 1000 * 2.0 and ``physical_limit_gb`` = 480 - 100; the decision read
generation 1 of the pool, and 20 GiB are in flight. The update is, without terms that are 0 here::

    UPDATE pools
    SET allocated_capacity_gb = allocated_capacity_gb + 300,
        in_flight_gb = in_flight_gb + 300
    WHERE id = 1 AND generation = 1 AND present
      AND provisioned_capacity_gb + in_flight_gb + shared_in_flight_gb + 300 <= thin_limit_gb
      AND 300 <= (physical_limit_gb - in_flight_physical_gb - shared_in_flight_physical_gb) * ratio

Here 1400 + 20 + 0 + 300 <= 2000 and 300 <= (380 - 0 - 0) * 2.0, so the row matches. If another scheduler has booked 300
GiB since the decision, ``in_flight_gb`` is 320 and no row matches: nothing is booked, and the decision is made anew.
Two updates at the same time wait for the lock of the row, so the second one compares what the first one wrote.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity import errors
from tonnage.capacity.arithmetic import TOLERANCE_GB, Calculation
from tonnage.capacity.request import Provisioning
from tonnage.capacity.volume_request import CreateVolume
from tonnage.ledger import models
from tonnage.ledger.claims import clone_sources, group_backends, request_keys
from tonnage.ledger.db.prepared_statements import Prepared
from tonnage.ledger.inventory import pending_claims
from tonnage.ledger.locks import pool_counters, pool_locks, scheduling_rules
from tonnage.ledger.models import claim_verbs

_INSERT_VOLUME = sa.insert(models.table(models.Volume))
_INSERT_CLAIM = sa.insert(models.table(models.Claim))


class PoolsChanged(Exception):
    """Pools changed after the decision read them, and the decision no longer holds. Nothing was booked."""

    def __init__(self, pool_ids: Iterable[int]) -> None:
        self.pool_ids = frozenset(pool_ids)
        super().__init__(f"pools {sorted(self.pool_ids)} changed meanwhile")


@dataclass(frozen=True, slots=True)
class SeenVolume:
    """An existing volume as the decision read it: its quota and its pool were decided from these values."""

    size_gb: int
    volume_type_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """One claim to book on one pool, in GiB, and to send to its agent after the commit.

    ``generation`` is the pool's generation that the decision read. ``volume`` describes a new volume, requested in
    ``requested_zone``; it is None where an existing volume is placed (again), extended or moved. ``storage_id`` is the
    storage that the pool shares with others, ``sharing`` are the known ids of those other pools.
    ``source`` is the volume that the content comes from, in the pool ``source_pool_id``; ``clone_of`` is the source
    volume of a clone. ``volume_type_id`` is the type of a new volume, or the new type of one that is retyped.
    ``group_id`` is the group whose backend a placed volume must be on.
    """

    id: str
    request_id: str
    volume_id: str
    verb: str
    pool_id: int
    pool_name: str
    backend_id: int
    generation: int
    size_gb: int
    physical_gb: int
    target_size_gb: int
    provisioning: Provisioning
    availability_zone: str = ""
    volume: CreateVolume | None = None
    requested_zone: str | None = None
    storage_id: str | None = None
    sharing: Sequence[int] = ()
    source: pending_claims.SourceVolume | None = None
    source_pool_id: int | None = None
    clone_of: str | None = None
    volume_type_id: str | None = None
    group_id: str | None = None


def book(
    session: orm.Session,
    bookings: Sequence[Booking],
    keys: Sequence[request_keys.Key],
    calculation: Calculation,
    generation: int,
    seen_volumes: Mapping[str, SeenVolume],
    hint_targets: Mapping[str, int | None] = MappingProxyType({}),
    also_changed: Collection[str] = (),
) -> dict[int, pool_counters.Counters]:
    """Book all claims in the session's transaction and return the counters of the pools that changed.

    ``keys`` are the request keys to write. ``calculation`` and ``generation`` are those of the rules that the decision
    used. ``seen_volumes`` maps the id of each volume that is extended, moved or cloned to its size and type in the
    decision. ``hint_targets`` maps the id of each volume that an affinity hint names to its pool in the decision, None
    for a volume without a pool. ``also_changed`` are further volumes that the transaction changes.

    Raises :class:`~tonnage.ledger.locks.scheduling_rules.RulesChanged` if the rules have changed since,
    :class:`PoolsChanged` if a pool no longer has room for its claims, and :class:`~tonnage.capacity.errors.Conflict` if
    a volume has left the state that the decision read. The caller must then roll the transaction back.
    """
    request_keys.insert(session, keys)
    if not bookings:
        if hint_targets:
            clone_sources.lock(session, {}, hint_targets, also_changed)
        return {}
    touched = take(session, bookings, calculation, generation)
    if joining := [(booking.group_id, booking.backend_id) for booking in bookings if booking.group_id is not None]:
        group_backends.lock_for_members(session, joining)
    clones = [(booking.clone_of, booking.source_pool_id) for booking in bookings if booking.clone_of is not None]
    if clones or hint_targets:
        # Each source of a clone with its size in GiB and its pool, as the decision read them.
        sources = {source: (seen_volumes[source].size_gb, pool_id) for source, pool_id in clones}
        changed = {booking.volume_id for booking in bookings if booking.volume is None}
        clone_sources.lock(session, sources, hint_targets, also_changed, changed)
    _write_volumes(session, bookings, seen_volumes)
    if growing := [booking.volume_id for booking in bookings if _grows(booking, seen_volumes)]:
        clone_sources.require_not_cloning(session, growing)
    insert_claims(session, bookings)
    return pool_counters.read(session, touched)


def take(
    session: orm.Session,
    bookings: Sequence[Booking],
    calculation: Calculation,
    generation: int,
    *,
    all_bounded: bool = False,
) -> Collection[int]:
    """Add claims to the counters of their pools and backends, if the current rows have room for them.

    Returns the ids of the locked pools: those of the claims, and those on the same storages.

    The ratio limits the thin claims; with ``all_bounded`` it limits the thick ones too.

    Raises :class:`~tonnage.ledger.locks.scheduling_rules.RulesChanged` and :class:`PoolsChanged` as :func:`book`.
    """
    by_pool: dict[int, list[Booking]] = {}
    by_backend: dict[int, int] = {}
    for booking in bookings:
        by_pool.setdefault(booking.pool_id, []).append(booking)
        by_backend[booking.backend_id] = by_backend.get(booking.backend_id, 0) + booking.size_gb
    sharing = {pool_id for booking in bookings for pool_id in booking.sharing}
    if sharing:
        pool_locks.lock(session, sharing | by_pool.keys())
    if not pool_counters.add_to_backends(session, by_backend, claimed_by=generation):
        scheduling_rules.require_generation(session, generation)
        raise PoolsChanged(by_pool)
    if not _apply_claims(
        session, [_claim_sums(by_pool[pool_id], all_bounded) for pool_id in sorted(by_pool)], calculation
    ):
        raise PoolsChanged(by_pool)
    return sharing | by_pool.keys()


def insert_claims(session: orm.Session, bookings: Sequence[Booking], *, sent: bool = True) -> None:
    """Insert the claims of bookings; ``sent`` is false if their commands are recorded as sent later."""
    rows = [
        {
            "id": booking.id,
            "volume_id": booking.volume_id,
            "backend_id": booking.backend_id,
            "pool_id": booking.pool_id,
            "verb": booking.verb,
            "state": pool_counters.PENDING,
            "size_gb": booking.size_gb,
            "physical_gb": booking.physical_gb,
            "target_size_gb": booking.target_size_gb,
            "provisioning": booking.provisioning.value,
            "contained_by_all": booking.storage_id is None,
            "source_pool_id": booking.source_pool_id,
            # The type that a volume gets by a move; a new volume has its type in its own row.
            "volume_type_id": booking.volume_type_id if booking.volume is None else None,
            "request_id": booking.request_id,
            "sent": sent,
        }
        for booking in bookings
    ]
    session.connection().execute(_INSERT_CLAIM, rows)


def _apply_claims(session: orm.Session, by_pool: Sequence["_ClaimSums"], calculation: Calculation) -> bool:
    """Add claims to the counters of their pools if the current rows have room for them; return whether all have."""
    batch: list[_ClaimSums] = []
    for sums in by_pool:
        is_mixed = len(sums.largest) > 1
        shares = sums.storage_id is not None and any(earlier.storage_id == sums.storage_id for earlier in batch)
        if is_mixed or shares:
            # Claims on earlier pools are written first: this keeps the one order of locks, and pools on the same
            # storage have to see them.
            if not _apply_batch(session, batch, _APPLY_CLAIMS[calculation]):
                return False
            batch = []
        if not is_mixed:
            batch.append(sums)
        elif not _apply_batch(session, [sums], _mixed_update(sums, calculation)):
            return False
    return _apply_batch(session, batch, _APPLY_CLAIMS[calculation])


def _apply_batch(session: orm.Session, batch: Sequence["_ClaimSums"], statement: Prepared) -> bool:
    """Do the same as :func:`_apply_claims` in one statement, for pools that do not share a storage with each other."""
    if not batch:
        return True
    matched = statement.change(session.connection(), [claim_sums.parameters for claim_sums in batch])
    if matched != len(batch):
        return False
    for sums in batch:
        if sums.storage_id is not None:
            pool_counters.add_to_shared(session, sums.storage_id, sums.pool_id, sums.size, sums.physical)
    return True


def _mixed_update(sums: "_ClaimSums", calculation: Calculation) -> Prepared:
    """Return the update for a mix of thin and thick claims on one pool, with the further comparisons that it needs."""
    conditions = []
    if calculation is Calculation.CINDER:
        for before, most in sums.largest.items():
            for limit, room in _PHYSICAL_ROOM:
                fits = sa.literal(float(most)) <= (room - before) * _POOL.ratio + TOLERANCE_GB
                conditions.append(sa.or_(limit.is_(None), fits))
    return Prepared(_conditional_update(calculation).where(*conditions))


@dataclass(frozen=True, slots=True)
class _ClaimSums:
    """The sums of the claims on one pool, and the ``parameters`` of the update of its counters.

    ``largest`` maps the physical capacity taken before thin claims to the largest of their sizes.
    """

    pool_id: int
    storage_id: str | None
    size: int
    physical: int
    largest: Mapping[int, int]
    parameters: Mapping[str, float]


def _claim_sums(bookings: Sequence[Booking], all_bounded: bool) -> _ClaimSums:
    """Return the sums of the claims on one pool, applied in order: each claim needs room after the claims before it.

    ``thin_sum`` is the sum of sizes up to the last claim that the ratio limits: the last thin claim, or the last one of
    all. ``thick_sum`` is the physical capacity taken up to the last thick claim. ``moved`` is the sum of the
    migrations.
    """
    thin_sum = thick_sum = size = physical = 0
    largest: dict[int, int] = {}
    for booking in bookings:
        if booking.provisioning is Provisioning.THIN:
            thin_sum = size + booking.size_gb
            largest[physical] = max(largest.get(physical, 0), booking.size_gb)
        else:
            thick_sum = physical + booking.physical_gb
            if all_bounded:
                thin_sum = size + booking.size_gb
        size += booking.size_gb
        physical += booking.physical_gb
    first = bookings[0]
    before, most = next(iter(largest.items()), (0, 0))
    parameters = {
        "on_pool": first.pool_id,
        "seen": first.generation,
        "size": size,
        "physical": physical,
        "thin_sum": float(thin_sum),
        "thick_sum": float(thick_sum),
        "before": float(before),
        "largest": float(most),
        "moved": sum(booking.size_gb for booking in bookings if booking.verb == claim_verbs.MIGRATE),
    }
    return _ClaimSums(first.pool_id, first.storage_id, size, physical, largest, parameters)


_POOL = models.table(models.Pool).c
_WHOLE = _POOL.storage_free_gb.is_(None)
#: Each physical limit of a pool (null: no limit) and the room below it.
_PHYSICAL_ROOM = (
    (
        _POOL.physical_limit_gb,
        _POOL.physical_limit_gb
        - _POOL.in_flight_physical_gb
        - sa.case((_WHOLE, _POOL.shared_in_flight_physical_gb), else_=0),
    ),
    (
        _POOL.storage_free_gb,
        _POOL.storage_free_gb - _POOL.in_flight_physical_gb - _POOL.shared_in_flight_physical_gb,
    ),
)


def _conditional_update(calculation: Calculation) -> sa.Update:
    """Return the update of a pool's counters that matches its row only if the row admits the claims.

    The comparisons are those of :func:`tonnage.capacity.arithmetic.admits`, on the limits that the last report wrote.
    The statement is the same for all claims, so that many pools are updated in one batch.
    """

    def parameter(name: str) -> sa.BindParameter[float]:
        return sa.bindparam(name, type_=sa.Double())

    promised = sa.case(
        (
            _POOL.provisioned_capacity_gb.is_(None),
            _POOL.allocated_capacity_gb + _POOL.shared_allocated_gb + _POOL.external_gb,
        ),
        else_=_POOL.provisioned_capacity_gb + _POOL.in_flight_gb + _POOL.shared_in_flight_gb,
    )
    conditions: list[sa.ColumnElement[bool]] = [
        _POOL.id == sa.bindparam("on_pool"),
        _POOL.generation == sa.bindparam("seen"),
        _POOL.present.is_(True),
        sa.or_(
            parameter("thin_sum") == 0,
            _POOL.thin_limit_gb.is_(None),
            promised + parameter("thin_sum") <= _POOL.thin_limit_gb + TOLERANCE_GB,
        ),
    ]
    for limit, room in _PHYSICAL_ROOM:
        conditions.append(
            sa.or_(parameter("thick_sum") == 0, limit.is_(None), parameter("thick_sum") <= room + TOLERANCE_GB)
        )
        if calculation is Calculation.CINDER:
            fits = parameter("largest") <= (room - parameter("before")) * _POOL.ratio + TOLERANCE_GB
            conditions.append(sa.or_(parameter("largest") == 0, limit.is_(None), fits))
    size, physical = sa.bindparam("size", type_=sa.BigInteger()), sa.bindparam("physical", type_=sa.BigInteger())
    return (
        sa.update(models.table(models.Pool))
        .where(*conditions)
        .values(
            allocated_capacity_gb=_POOL.allocated_capacity_gb + size,
            in_flight_gb=_POOL.in_flight_gb + size,
            in_flight_physical_gb=_POOL.in_flight_physical_gb + physical,
            moved_gb=_POOL.moved_gb + sa.bindparam("moved", type_=sa.BigInteger()),
        )
    )


_APPLY_CLAIMS = {calculation: Prepared(_conditional_update(calculation)) for calculation in Calculation}


def _write_volumes(session: orm.Session, bookings: Sequence[Booking], seen_volumes: Mapping[str, SeenVolume]) -> None:
    new: list[dict[str, Any]] = [
        {
            "id": volume.volume_id,
            "name": volume.name,
            "description": volume.description,
            "project_id": volume.project_id,
            "user_id": volume.user_id,
            "size_gb": volume.size_gb,
            "status": "creating",
            "volume_type_id": booking.volume_type_id,
            "availability_zone": booking.availability_zone,
            "requested_zone": booking.requested_zone,
            "pool_id": booking.pool_id,
            "provisioning": booking.provisioning.value,
            "metadata": dict(volume.metadata),
            "hints": dict(volume.hints),
            "group_id": volume.group_id,
            "source_volume_id": volume.source_volume_id,
            "attempted_pools": [],
            "request_id": booking.request_id,
        }
        for booking in bookings
        if (volume := booking.volume) is not None
    ]
    if new:
        session.connection().execute(_INSERT_VOLUME, new)
    existing = sorted(
        (booking for booking in bookings if booking.volume is None), key=lambda booking: booking.volume_id
    )
    for booking in existing:
        if _CHANGE[booking.verb].change(session.connection(), [_change(booking, seen_volumes)]) != 1:
            raise errors.Conflict(f"volume {booking.volume_id} was changed by another request; try again")


def _grows(booking: Booking, seen_volumes: Mapping[str, SeenVolume]) -> bool:
    """Return whether an existing volume grows: in its pool, or by a move."""
    if booking.verb == claim_verbs.MIGRATE:
        return booking.target_size_gb > seen_volumes[booking.volume_id].size_gb
    return booking.verb == claim_verbs.EXTEND


def _change(booking: Booking, seen_volumes: Mapping[str, SeenVolume]) -> dict[str, Any]:
    if booking.verb == claim_verbs.CREATE:
        return {
            "of_volume": booking.volume_id,
            "to_pool": booking.pool_id,
            "made": booking.provisioning.value,
            "in_zone": booking.availability_zone,
        }
    before = seen_volumes[booking.volume_id]
    as_seen = {
        "of_volume": booking.volume_id,
        "size_seen": before.size_gb,
        "type_seen": before.volume_type_id or "",
    }
    if booking.verb == claim_verbs.MIGRATE:
        purpose = "maintenance" if booking.volume_type_id is None else "retyping"
        meanwhile = "extending" if _grows(booking, seen_volumes) else purpose
        return as_seen | {"from_pool": booking.source_pool_id, "meanwhile": meanwhile}
    return as_seen | {"in_pool": booking.pool_id}


_VOLUME = models.table(models.Volume).c
_AS_SEEN = (
    _VOLUME.size_gb == sa.bindparam("size_seen"),
    sa.func.coalesce(_VOLUME.volume_type_id, "") == sa.bindparam("type_seen"),
)

#: The update of an existing volume's row for each verb, with the state that the row must be in.
_CHANGE_OF_VERB = {
    claim_verbs.CREATE: sa.update(models.table(models.Volume))
    .where(_VOLUME.id == sa.bindparam("of_volume"), _VOLUME.status == "creating", _VOLUME.pool_id.is_(None))
    .values(
        pool_id=sa.bindparam("to_pool"),
        provisioning=sa.bindparam("made"),
        availability_zone=sa.bindparam("in_zone"),
    ),
    claim_verbs.EXTEND: sa.update(models.table(models.Volume))
    .where(
        _VOLUME.id == sa.bindparam("of_volume"),
        _VOLUME.status == "available",
        _VOLUME.pool_id == sa.bindparam("in_pool"),
        *_AS_SEEN,
    )
    .values(status="extending"),
    claim_verbs.MIGRATE: sa.update(models.table(models.Volume))
    .where(
        _VOLUME.id == sa.bindparam("of_volume"),
        _VOLUME.status == "available",
        _VOLUME.pool_id == sa.bindparam("from_pool"),
        _VOLUME.group_id.is_(None),
        *_AS_SEEN,
    )
    .values(status=sa.bindparam("meanwhile"), migration_status="migrating"),
}
_CHANGE = {verb: Prepared(statement) for verb, statement in _CHANGE_OF_VERB.items()}
