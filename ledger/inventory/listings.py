# SPDX-License-Identifier: Apache-2.0
"""Listings of the volumes on a backend's storage, compared with the ledger's claims.

Nothing here changes a claim or a volume. Differences are written to the table ``discrepancies`` for operators. The sum
of unclaimed volumes is written to the pools' ``external_gb``: where a driver reports no provisioned capacity it counts
in addition to the allocated capacity.

Only settled claims are compared. A listing is made while operations go on, and arrives later still, so it proves
nothing about a claim that ended while the driver looked, or afterwards.
"""

import datetime
import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.pools.pool import short_name
from tonnage.ledger import models
from tonnage.ledger.db import dialects
from tonnage.ledger.db.database import StaleRead
from tonnage.ledger.locks import pool_counters, pool_locks
from tonnage.ledger.models.free_text import is_storable

#: On the storage, and unknown to the ledger.
ORPHAN = "orphan"
#: Counted by the ledger, and not on the storage.
LOST = "lost"
#: On the storage with another size than in the ledger.
SIZE = "size"
#: On the storage and unclaimed, but it was a volume of Tonnage and may have been deleted since the look. If the next
#: listing shows it too, it is an orphan.
UNCLEAR = "unclear"
CATEGORIES = (ORPHAN, LOST, SIZE, UNCLEAR)
#: Categories whose sizes count as external capacity.
EXTERNAL = (ORPHAN, UNCLEAR)

#: Longest stored name of a volume on the storage, in characters.
_MAX_NAME_LENGTH = 255
#: Number of hexadecimal digits at the end of a name that is too long.
_DIGEST_LENGTH = 16
#: Tolerance, in GiB, of a comparison with the ledger's sizes, which are rounded up to whole GiB.
_PRECISION_GB = 1e-9

#: A pool's id and the name of a volume on its storage.
Location: TypeAlias = tuple[int, str]


class Listed(Protocol):
    """A volume that the storage holds. ``pool`` is the pool's name within its backend."""

    @property
    def volume_id(self) -> str: ...

    @property
    def pool(self) -> str: ...

    @property
    def size_gb(self) -> float: ...


def record(
    session: orm.Session,
    backend_id: int,
    epoch: int,
    tick: int,
    volumes: Sequence[Listed],
    in_hand: Collection[str] = (),
) -> bool:
    """Record a listing of a backend, made in an epoch; return whether the external capacity of pools has changed.

    Nothing is recorded if the epoch is over or a later listing was recorded before: an older listing would take back
    results of the later one, such as unclaimed volumes that have to be counted. Raises
    :class:`~tonnage.ledger.db.database.StaleRead` if another listing is recorded during the transaction.

    ``tick`` was taken after the driver had looked; ``in_hand`` are the claims that the agent worked on meanwhile. A
    volume counts as lost, or as of another size, only if its claims in the pool had ended before the look and no
    operation is pending for it. It counts as an orphan only if no claim in the pool names it.
    """
    listing = _Listing(backend_id, (epoch, tick), volumes, frozenset(in_hand))
    backend = models.Backend
    last_listing = sa.select(backend.listing_epoch, backend.listing_tick)
    last = session.execute(last_listing.where(backend.id == backend_id, backend.epoch == epoch)).one_or_none()
    if last is None or tuple(last) >= (epoch, tick):
        return False
    # Usually nothing has changed: the first comparison needs no locks, so other transactions do not wait for a
    # comparison of a hundred thousand volumes.
    comparison = _compare(session, listing)
    external_changed = False
    if comparison.has_changes():
        locked = pool_locks.lock(session, comparison.pools.keys())
        comparison = _compare(session, listing)
        _write(session, comparison)
        external_changed = _write_external(session, comparison)
        if external_changed:
            pool_counters.recount_shared(session, locked.shared)
    recorded: Any = session.execute(
        sa.update(backend)
        .where(backend.id == backend_id, backend.epoch == epoch)
        .where(backend.listing_epoch == last.listing_epoch, backend.listing_tick == last.listing_tick)
        .values(last_listing_at=models.utcnow(), listing_epoch=epoch, listing_tick=tick)
        .execution_options(synchronize_session=False)
    )
    if recorded.rowcount != 1:
        raise StaleRead(f"another listing of backend {backend_id} has been recorded")
    return external_changed


@dataclass(frozen=True, slots=True, kw_only=True)
class LastListing:
    """The time of a backend's last listing, by the database's clock, None if there was none; ``age`` is in seconds.

    It is ``unclear`` if only the next listing tells whether some volumes in it are orphans. ``silence`` is the number
    of seconds since the backend's last report, None if it never reported.
    """

    at: datetime.datetime | None
    age: float | None
    unclear: bool
    silence: float | None

    def is_up(self, service_down_time: float) -> bool:
        """Return whether the backend has reported within ``service_down_time`` seconds."""
        return self.silence is not None and self.silence < service_down_time


def last(session: orm.Session, backends: Collection[str] | None = None) -> dict[str, LastListing]:
    """Return the last listings of these backends, of all if None, by name."""
    backend, pool, table = models.Backend, models.Pool, models.Discrepancy
    unclear = sa.exists().where(table.pool_id == pool.id, pool.backend_id == backend.id, table.category == UNCLEAR)
    query = sa.select(backend.name, backend.last_listing_at, backend.last_report_at, unclear, models.utcnow())
    if backends is not None:
        query = query.where(backend.name.in_(backends))
    return {
        name: LastListing(
            at=listed_at, age=models.age(now, listed_at), unclear=bool(has_unclear), silence=models.age(now, reported)
        )
        for name, listed_at, reported, has_unclear, now in session.execute(query)
    }


def has_unclear(session: orm.Session, backend_id: int) -> bool:
    """Return whether the last listing of a backend has unclear volumes: the next one tells whether they are orphans."""
    table, pool = models.Discrepancy, models.Pool
    query = sa.select(table.id).join(pool, pool.id == table.pool_id)
    query = query.where(pool.backend_id == backend_id, table.category == UNCLEAR).limit(1)
    return session.scalar(query) is not None


def invalidate_until(session: orm.Session, backend_id: int, epoch: int, tick: int) -> None:
    """Make all listings count as outdated that were made at this tick or before it."""
    backend = models.Backend
    earlier = sa.and_(backend.listing_epoch == epoch, backend.listing_tick < tick)
    session.execute(
        sa.update(backend)
        .where(backend.id == backend_id, sa.or_(backend.listing_epoch < epoch, earlier))
        .values(listing_epoch=epoch, listing_tick=tick)
        .execution_options(synchronize_session=False)
    )


@dataclass(frozen=True, slots=True)
class _Listing:
    backend_id: int
    moment: tuple[int, int]
    volumes: Sequence[Listed]
    in_hand: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Difference:
    category: str
    listed_gb: float
    ledger_gb: float


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    difference: _Difference


@dataclass(slots=True)
class _Comparison:
    """The result of comparing a listing with the ledger, and the recorded state of the pools in question.

    It is ``incomplete`` if the agent worked on a claim that the ledger no longer has.
    """

    pools: Mapping[int, Any]
    recorded: Mapping[Location, _Row]
    incomplete: bool
    differences: dict[Location, _Difference] = field(default_factory=dict)

    def add(self, location: Location, difference: _Difference) -> None:
        self.differences[location[0], _recorded_name(location[1])] = difference

    def has_changes(self) -> bool:
        return (
            bool(self.external())
            or {location: row.difference for location, row in self.recorded.items()} != self.differences
        )

    def external(self) -> dict[int, float]:
        """Return the external capacity of the pools whose recorded value differs, by pool id.

        Unclear volumes count: the capacity in use must never be counted too low.
        """
        sums = dict.fromkeys(self.pools, 0.0)
        for (pool_id, _), difference in self.differences.items():
            if difference.category in EXTERNAL:
                sums[pool_id] += difference.listed_gb
        rounded = {pool_id: round(size, 6) for pool_id, size in sums.items()}
        if self.incomplete:
            # The unknown claim may be of a volume that was created and unmanaged since, and that this listing does not
            # show yet.
            rounded = {pool_id: max(size, self.pools[pool_id].external_gb) for pool_id, size in rounded.items()}
        return {pool_id: size for pool_id, size in rounded.items() if size != self.pools[pool_id].external_gb}


def _compare(session: orm.Session, listing: _Listing) -> _Comparison:
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.id, pool.name, pool.present, pool.storage_id, pool.external_gb).where(
            pool.backend_id == listing.backend_id
        )
    ).all()
    ids = {short_name(row.name): row.id for row in rows}
    # Volumes in pools that no report has named yet cannot be recorded.
    listed_sizes = {
        (ids[volume.pool], volume.volume_id): _size(volume.size_gb) for volume in listing.volumes if volume.pool in ids
    }
    named = {pool_id for pool_id, _ in listed_sizes}
    # A pool that is neither reported nor has listed volumes was not examined by the driver.
    pools = {row.id: row for row in rows if row.present or row.id in named}
    claims = _claims(session, listing)
    comparison = _Comparison(pools, _recorded(session, listing.backend_id, pools), not claims.ids >= listing.in_hand)
    settled = {location: size for location, size in claims.settled.items() if location not in claims.unsettled}
    for copy_location in settled.keys() - listed_sizes.keys():
        if copy_location[0] in pools:
            comparison.add(copy_location, _Difference(LOST, 0.0, float(settled[copy_location])))
    for copy_location in settled.keys() & listed_sizes.keys():
        if whole_size(listed_sizes[copy_location]) != settled[copy_location]:
            comparison.add(copy_location, _Difference(SIZE, listed_sizes[copy_location], float(settled[copy_location])))
    # A copy that is only being managed or purged is counted by no claim, so it stays external.
    uncounted = claims.unsettled - claims.counted
    unclaimed = listed_sizes.keys() - settled.keys() - (claims.unsettled - uncounted)
    unclaimed -= _claimed_elsewhere(session, pools, unclaimed)
    external_before = {location for location, row in comparison.recorded.items() if row.difference.category in EXTERNAL}
    first_seen = [
        location for location in unclaimed if (location[0], _recorded_name(location[1])) not in external_before
    ]
    former_volumes = _volume_ids_among(session, {name for _, name in first_seen})
    unclear = claims.leaving.union(uncounted, (location for location in first_seen if location[1] in former_volumes))
    for copy_location in unclaimed:
        comparison.add(
            copy_location,
            _Difference(UNCLEAR if copy_location in unclear else ORPHAN, listed_sizes[copy_location], 0.0),
        )
    return comparison


def _recorded(session: orm.Session, backend_id: int, pool_ids: Collection[int]) -> dict[Location, _Row]:
    table, pool = models.Discrepancy, models.Pool
    rows = session.execute(
        sa.select(table.id, table.pool_id, table.volume_id, table.category, table.listed_gb, table.ledger_gb)
        .join(pool, pool.id == table.pool_id)
        .where(pool.backend_id == backend_id)
    )
    return {
        (row.pool_id, row.volume_id): _Row(row.id, _Difference(row.category, row.listed_gb, row.ledger_gb))
        for row in rows
        if row.pool_id in pool_ids
    }


@dataclass(slots=True)
class _Claims:
    """The claims of a backend, classified for the comparison with a listing.

    ``settled`` maps locations to the GiB of claims that had ended before the look. The listing proves nothing about
    ``unsettled`` locations. ``counted`` are the locations with a claim of any size. ``leaving`` are the locations of
    released claims that are still kept: deleted during the look, or unmanaged and still on the storage. ``ids`` are the
    ids of all claims.
    """

    ids: set[str] = field(default_factory=set)
    settled: dict[Location, int] = field(default_factory=dict)
    unsettled: set[Location] = field(default_factory=set)
    counted: set[Location] = field(default_factory=set)
    leaving: set[Location] = field(default_factory=set)


def _claims(session: orm.Session, listing: _Listing) -> _Claims:
    claim = models.Claim
    rows = session.execute(
        sa.select(
            claim.id,
            claim.pool_id,
            claim.volume_id,
            claim.state,
            claim.size_gb,
            claim.end_epoch,
            claim.end_tick,
            claim.reference,
        ).where(claim.backend_id == listing.backend_id)
    )
    claims = _Claims()
    for claim_id, pool_id, volume_id, state, size, epoch, tick, reference in rows:
        location = pool_id, volume_id
        claims.ids.add(claim_id)
        if size > 0:
            claims.counted.add(location)
        ended_before = claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment
        if state == pool_counters.RELEASED and ended_before:
            claims.leaving.add(location)
        elif state == pool_counters.CONFIRMED and ended_before:
            claims.settled[location] = claims.settled.get(location, 0) + size
        else:
            claims.unsettled.add(location)
            if reference is not None:
                # A copy that is being managed has the volume's id as its name only afterwards.
                claims.unsettled.add((pool_id, reference))
    return claims


def _claimed_elsewhere(
    session: orm.Session, pools: Mapping[int, Any], unclaimed: Collection[Location]
) -> set[Location]:
    """Return the locations whose volume another pool on the same storage claims: a driver may list it in both pools.

    Only claims of existing volumes count: a claim without a volume is of a copy that was left there, for example by a
    migration, and proves nothing about other pools. A claim whose volume is lost in its pool does not count either.
    """
    storages = {pool_id: row.storage_id for pool_id, row in pools.items() if row.storage_id is not None}
    storage_ids = {storages[pool_id] for pool_id, _ in unclaimed if pool_id in storages}
    if not storage_ids:
        return set()
    claim, pool, volume, table = models.Claim, models.Pool, models.Volume, models.Discrepancy
    lost = sa.exists().where(table.pool_id == claim.pool_id, table.volume_id == volume.id, table.category == LOST)
    rows = session.execute(
        sa.select(pool.storage_id, claim.volume_id)
        .join(pool, pool.id == claim.pool_id)
        .join(volume, volume.id == claim.volume_id)
        .where(pool.storage_id.in_(storage_ids), claim.state != pool_counters.RELEASED, ~lost)
        .distinct()
    )
    claimed = {(row[0], row[1]) for row in rows}
    return {location for location in unclaimed if (storages.get(location[0]), location[1]) in claimed}


def _volume_ids_among(session: orm.Session, names: Collection[str]) -> set[str]:
    """Return the names that are ids of volumes, or were until lately.

    The claims of a deleted volume are gone, so an older listing would show it as if it had never been claimed.
    """
    volume_ids: set[str] = set()
    for chunk in dialects.in_chunks(
        sorted(name for name in names if len(name) <= models.LONGEST_ID and is_storable(name))
    ):
        for column in (models.Volume.id, models.RequestKey.volume_id):
            volume_ids.update(session.scalars(sa.select(column).where(column.in_(chunk))))
    return volume_ids


def _recorded_name(name: str) -> str:
    """Return a volume's name as it is recorded.

    A name that a database would change is recorded in quotes with escapes, so that it is not taken for another volume.
    One that is too long ends with a digest.
    """
    recorded_name = name if is_storable(name) else ascii(name)
    if len(recorded_name) <= _MAX_NAME_LENGTH:
        return recorded_name
    digest = hashlib.sha256(recorded_name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{recorded_name[: _MAX_NAME_LENGTH - _DIGEST_LENGTH - 1]}~{digest}"


def whole_size(listed_gb: float) -> int:
    """Return a size on the storage as the ledger has it, in whole GiB."""
    return math.ceil(listed_gb - _PRECISION_GB)


def _size(listed_gb: float) -> float:
    """Return a size as it is recorded: a driver may report any number, so invalid ones count as 0."""
    return max(0.0, listed_gb) if math.isfinite(listed_gb) else 0.0


def _write(session: orm.Session, comparison: _Comparison) -> None:
    """Write the discrepancies of the comparison to the table."""
    table = models.Discrepancy
    for chunk in dialects.in_chunks(
        [row.id for location, row in sorted(comparison.recorded.items()) if location not in comparison.differences]
    ):
        session.execute(sa.delete(table).where(table.id.in_(chunk)).execution_options(synchronize_session=False))
    insert: list[dict[str, Any]] = []
    update: list[dict[str, Any]] = []
    for (pool_id, name), difference in sorted(comparison.differences.items()):
        sizes = {"listed_gb": difference.listed_gb, "ledger_gb": difference.ledger_gb}
        recorded_row = comparison.recorded.get((pool_id, name))
        if recorded_row is None:
            insert.append({"pool_id": pool_id, "volume_id": name, "category": difference.category, **sizes})
        elif recorded_row.difference != difference:
            update.append({"id": recorded_row.id, "category": difference.category, **sizes})
    if update:
        session.execute(sa.update(table), update)
    if insert:
        session.connection().execute(sa.insert(models.table(table)).values(seen_at=models.utcnow()), insert)


def _write_external(session: orm.Session, comparison: _Comparison) -> bool:
    """Write the external capacity to the pools; return whether it has changed."""
    rows = [{"id": pool_id, "external_gb": size} for pool_id, size in sorted(comparison.external().items())]
    if rows:
        session.execute(sa.update(models.Pool), rows)
    return bool(rows)
