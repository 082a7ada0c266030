# SPDX-License-Identifier: Apache-2.0
"""Listings: what is on a backend's storage, held against the ledger's claims.

Nothing here changes a claim or a volume. What differs is written to the table ``discrepancies`` for people to look at,
and what volumes have that nobody claimed to the pools' ``external_gb``: where a driver reports no provisioned capacity
it counts beside what is allocated.

Only what is settled is compared. A listing is made while operations go on, and arrives later still, so it says nothing
of a claim that ended while the driver looked, or afterwards.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.names import short_name
from tonnage.ledger import models
from tonnage.ledger.claims import pool_counters
from tonnage.ledger.db import chunks
from tonnage.ledger.db.database import Overtaken, storable_text

#: It is there, and the ledger knows nothing of it.
ORPHAN = "orphan"
#: The ledger counts it, and it is not there.
LOST = "lost"
#: It has another size than the ledger counts.
SIZE = "size"
#: It is there and unclaimed, but was a volume of Tonnage's and may have been deleted since the look. If the next
#: listing shows it too, it is an orphan.
UNCLEAR = "unclear"
#: What counts as others'.
EXTERNAL = (ORPHAN, UNCLEAR)

#: Most characters of a name on the storage that are kept.
_LONGEST_NAME = 255
#: The ledger counts whole GiB, rounded up; a difference below this is none.
_PRECISION_GB = 1e-9

#: A pool's id and the name of a volume on its storage.
Place: TypeAlias = tuple[int, str]


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
) -> None:
    """Record what a backend holds, as listed in an epoch.

    Nothing is recorded of an epoch that is over, nor of a list that was overtaken by a later one: it would take back
    what that one has shown, such as volumes that nobody has claimed and that have to be counted.
    Raises :class:`~tonnage.ledger.db.database.Overtaken` if another has been recorded meanwhile.

    ``tick`` was taken after the driver had looked, ``in_hand`` are the claims that were worked on meanwhile. A volume
    counts as lost, or as of another size, only if its claims in the pool had ended before the look and nothing is under
    way for it; as an orphan only if no claim in the pool names it.
    """
    listing = _Listing(backend_id, (epoch, tick), volumes, frozenset(in_hand))
    backend = models.Backend
    marks = sa.select(backend.listing_epoch, backend.listing_tick)
    last = session.execute(marks.where(backend.id == backend_id, backend.epoch == epoch)).one_or_none()
    if last is None or tuple(last) >= (epoch, tick):
        return
    # Usually nothing is new, and then nobody has to wait for a comparison of a hundred thousand volumes.
    picture = _look(session, listing)
    if picture.is_news():
        locked = pool_counters.lock(session, picture.pools.keys())
        picture = _look(session, listing)
        _write(session, picture)
        if _write_external(session, picture):
            pool_counters.recount_shared(session, locked.shared())
    recorded: Any = session.execute(
        sa.update(backend)
        .where(backend.id == backend_id, backend.epoch == epoch)
        .where(backend.listing_epoch == last.listing_epoch, backend.listing_tick == last.listing_tick)
        .values(last_listing_at=models.utcnow(), listing_epoch=epoch, listing_tick=tick)
        .execution_options(synchronize_session=False)
    )
    if recorded.rowcount != 1:
        raise Overtaken(f"another listing of backend {backend_id} has been recorded")


def outdate(session: orm.Session, backend_id: int, epoch: int, tick: int) -> None:
    """Let no list count any more that was made at a moment or before it."""
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
    kind: str
    listed_gb: float
    ledger_gb: float


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    difference: _Difference


@dataclass(slots=True)
class _Picture:
    """What a listing shows, beside what is recorded of the pools that it is about.

    It is ``vague`` where something was under way of which the ledger knows nothing any more.
    """

    pools: Mapping[int, Any]
    recorded: Mapping[Place, _Row]
    vague: bool
    found: dict[Place, _Difference] = field(default_factory=dict)

    def add(self, place: Place, difference: _Difference) -> None:
        self.found[place[0], _recorded_name(place[1])] = difference

    def is_news(self) -> bool:
        return bool(self.external()) or {place: row.difference for place, row in self.recorded.items()} != self.found

    def external(self) -> dict[int, float]:
        """Return what others have in pools where that is not what is recorded.

        What is unclear counts: less than there is must never be counted.
        """
        sums = dict.fromkeys(self.pools, 0.0)
        for (pool_id, _), found in self.found.items():
            if found.kind in EXTERNAL:
                sums[pool_id] += found.listed_gb
        rounded = {pool_id: round(size, 6) for pool_id, size in sums.items()}
        if self.vague:
            # It may have been a volume that has been made and let go of since, and that this list does not show yet.
            rounded = {pool_id: max(size, self.pools[pool_id].external_gb) for pool_id, size in rounded.items()}
        return {pool_id: size for pool_id, size in rounded.items() if size != self.pools[pool_id].external_gb}


def _look(session: orm.Session, listing: _Listing) -> _Picture:
    pool = models.Pool
    rows = session.execute(
        sa.select(pool.id, pool.name, pool.present, pool.storage_id, pool.external_gb).where(
            pool.backend_id == listing.backend_id
        )
    ).all()
    ids = {short_name(row.name): row.id for row in rows}
    # Of pools that no report has named yet there is nowhere to record anything.
    held = {(ids[one.pool], one.volume_id): _size(one.size_gb) for one in listing.volumes if one.pool in ids}
    named = {pool_id for pool_id, _ in held}
    # A pool that is gone from the reports, and of which nothing is listed, was not looked at.
    pools = {row.id: row for row in rows if row.present or row.id in named}
    claims = _claims(session, listing)
    picture = _Picture(pools, _recorded(session, listing.backend_id, pools), not claims.ids >= listing.in_hand)
    settled = {place: size for place, size in claims.settled.items() if place not in claims.unsettled}
    for place in settled.keys() - held.keys():
        if place[0] in pools:
            picture.add(place, _Difference(LOST, 0.0, float(settled[place])))
    for place in settled.keys() & held.keys():
        if math.ceil(held[place] - _PRECISION_GB) != settled[place]:
            picture.add(place, _Difference(SIZE, held[place], float(settled[place])))
    # What is only being taken over, or purged, is counted by no claim, so it stays with what others have.
    merely_named = claims.unsettled - claims.counted
    unclaimed = held.keys() - settled.keys() - (claims.unsettled - merely_named)
    unclaimed -= _claimed_beside(session, pools, unclaimed)
    seen_before = {place for place, row in picture.recorded.items() if row.difference.kind in EXTERNAL}
    first_seen = [place for place in unclaimed if (place[0], _recorded_name(place[1])) not in seen_before]
    once_ours = _once_ours(session, {name for _, name in first_seen})
    unclear = claims.leaving.union(merely_named, (place for place in first_seen if place[1] in once_ours))
    for place in unclaimed:
        picture.add(place, _Difference(UNCLEAR if place in unclear else ORPHAN, held[place], 0.0))
    return picture


def _recorded(session: orm.Session, backend_id: int, pool_ids: Collection[int]) -> dict[Place, _Row]:
    table, pool = models.Discrepancy, models.Pool
    rows = session.execute(
        sa.select(table.id, table.pool_id, table.volume_id, table.kind, table.listed_gb, table.ledger_gb)
        .join(pool, pool.id == table.pool_id)
        .where(pool.backend_id == backend_id)
    )
    return {
        (row.pool_id, row.volume_id): _Row(row.id, _Difference(row.kind, row.listed_gb, row.ledger_gb))
        for row in rows
        if row.pool_id in pool_ids
    }


@dataclass(slots=True)
class _Claims:
    """A backend's claims as a listing can be held against them.

    ``settled`` are the GiB of what had ended before the look. Of ``unsettled`` places nothing can be said. ``counted``
    are the places of which some claim counts, or did until lately, what is there. ``leaving`` are those of released
    claims that are still kept: deleted during the look, or let go of and there all the same. ``ids`` are all.
    """

    ids: set[str] = field(default_factory=set)
    settled: dict[Place, int] = field(default_factory=dict)
    unsettled: set[Place] = field(default_factory=set)
    counted: set[Place] = field(default_factory=set)
    leaving: set[Place] = field(default_factory=set)


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
    found = _Claims()
    for claim_id, pool_id, volume_id, state, size, epoch, tick, reference in rows:
        place = pool_id, volume_id
        found.ids.add(claim_id)
        if size > 0:
            found.counted.add(place)
        ended_before = claim_id not in listing.in_hand and (epoch or 0, tick or 0) < listing.moment
        if state == pool_counters.RELEASED and ended_before:
            found.leaving.add(place)
        elif state == pool_counters.CONFIRMED and ended_before:
            found.settled[place] = found.settled.get(place, 0) + size
        else:
            found.unsettled.add(place)
            if reference is not None:
                # What is taken over goes by the volume's id only afterwards.
                found.unsettled.add((pool_id, reference))
    return found


def _claimed_beside(session: orm.Session, pools: Mapping[int, Any], unclaimed: Collection[Place]) -> set[Place]:
    """Return places whose volume another pool on the same storage claims: a driver may show it in both.

    Claims of what is no volume any more are of copies that have been left there, such as by a move, and tell nothing of
    what is elsewhere.
    """
    storages = {pool_id: row.storage_id for pool_id, row in pools.items() if row.storage_id is not None}
    wanted = {storages[pool_id] for pool_id, _ in unclaimed if pool_id in storages}
    if not wanted:
        return set()
    claim, pool, volume = models.Claim, models.Pool, models.Volume
    rows = session.execute(
        sa.select(pool.storage_id, claim.volume_id)
        .join(pool, pool.id == claim.pool_id)
        .join(volume, volume.id == claim.volume_id)
        .where(pool.storage_id.in_(wanted), claim.state != pool_counters.RELEASED)
        .distinct()
    )
    claimed = {(row[0], row[1]) for row in rows}
    return {place for place in unclaimed if (storages.get(place[0]), place[1]) in claimed}


def _once_ours(session: orm.Session, names: Collection[str]) -> set[str]:
    """Return those of the names that are, or not long ago were, ids of volumes.

    The claims of a volume go with it, so that a listing of the time before shows it as if there had never been any.
    """
    known: set[str] = set()
    for some in chunks.cut(sorted(name for name in names if len(name) <= models.LONGEST_ID and _is_storable(name))):
        for column in (models.Volume.id, models.RequestKey.volume_id):
            known.update(session.scalars(sa.select(column).where(column.in_(some))))
    return known


def _recorded_name(name: str) -> str:
    """Return a volume's name as it is recorded.

    One that a database would change is written out in quotes: it must not be taken for another volume's.
    """
    return name if _is_storable(name) and len(name) <= _LONGEST_NAME else ascii(name)[:_LONGEST_NAME]


def _is_storable(name: str) -> bool:
    # MariaDB does not tell names apart by blanks at the end.
    return storable_text(name).rstrip() == name


def _size(listed: float) -> float:
    """Return a size as it is recorded; a driver may say anything."""
    return max(0.0, listed) if math.isfinite(listed) else 0.0


def _write(session: orm.Session, picture: _Picture) -> None:
    """Make the table say what was found."""
    table = models.Discrepancy
    for some in chunks.cut([row.id for place, row in sorted(picture.recorded.items()) if place not in picture.found]):
        session.execute(sa.delete(table).where(table.id.in_(some)).execution_options(synchronize_session=False))
    insert: list[dict[str, Any]] = []
    update: list[dict[str, Any]] = []
    for (pool_id, name), found in sorted(picture.found.items()):
        values = {"kind": found.kind, "listed_gb": found.listed_gb, "ledger_gb": found.ledger_gb}
        known = picture.recorded.get((pool_id, name))
        if known is None:
            insert.append({"pool_id": pool_id, "volume_id": name, **values})
        elif known.difference != found:
            update.append({"id": known.id, **values})
    if update:
        session.execute(sa.update(table), update)
    if insert:
        session.connection().execute(sa.insert(models.table(table)).values(seen_at=models.utcnow()), insert)


def _write_external(session: orm.Session, picture: _Picture) -> bool:
    """Make the pools say what others have there; tell whether that is new."""
    rows = [{"id": pool_id, "external_gb": size} for pool_id, size in sorted(picture.external().items())]
    if rows:
        session.execute(sa.update(models.Pool), rows)
    return bool(rows)
