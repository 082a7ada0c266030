# SPDX-License-Identifier: Apache-2.0
"""Listings: what is on a backend's storage, held against the ledger's claims.

Nothing here changes a claim or a volume. What differs is written to the table ``discrepancies`` for people to look at,
and what volumes have that nobody claimed to the pools' ``external_gb``: where a driver reports no provisioned capacity
it counts beside what is allocated.
"""

import math
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.pools import short_name
from tonnage.ledger import bookings
from tonnage.ledger import counters
from tonnage.ledger import models
from tonnage.ledger.database import storable_text

#: Kinds of discrepancy.
ORPHAN = "orphan"
LOST = "lost"
SIZE = "size"

#: Drivers report two decimals; a difference below that is none.
_PRECISION_GB = 0.01
_LONGEST_NAME = 255

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


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a listing showed: discrepancies by kind, and how many of them the listing before did not show.

    A volume that was deleted while the listing was on its way looks like an orphan: what is ``new`` is worth another
    listing. ``unknown`` are the names of pools in which volumes were listed and which the ledger does not know (yet).
    """

    kinds: Mapping[str, int]
    new: int
    unknown: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Difference:
    kind: str
    listed_gb: float
    ledger_gb: float


@dataclass(slots=True)
class _Claimed:
    """What the claims say of one volume in one pool."""

    live_gb: int = 0
    live: bool = False
    #: All claims are confirmed or released, and ended before the driver looked.
    settled: bool = True
    #: A claim counts it, or its capacity may still be given back: it is no volume of somebody else.
    counted: bool = False


def record(session: orm.Session, backend_id: int, epoch: int, tick: int, volumes: Sequence[Listed]) -> Recorded | None:
    """Record what a backend holds, as listed in an epoch; ``tick`` was taken after the driver had looked.

    Nothing is recorded, and None returned, if the epoch is over. A volume counts as lost, or as of another size, only
    if its claims in the pool had ended before the look and nothing is under way for it; as an orphan only if no claim
    in the pool names it, whatever its state.
    """
    backend, pool = models.Backend, models.Pool
    current = session.scalar(sa.select(backend.epoch).where(backend.id == backend_id).with_for_update())
    if current != epoch:
        return None
    pools = session.execute(
        sa.select(pool.id, pool.name, pool.present, pool.external_gb)
        .where(pool.backend_id == backend_id)
        .order_by(pool.id)
        .with_for_update()
    ).all()
    ids = {short_name(row.name): row.id for row in pools}
    held, unknown = _held(volumes, ids)
    # A pool that is gone from the reports, and of which nothing is listed, was not looked at.
    seen = {row.id for row in pools if row.present} | {pool_id for pool_id, _ in held}
    claimed = _claimed(session, backend_id, epoch, tick)
    found = _compare(held, claimed, seen)
    new = _write(session, found, seen)
    external = dict.fromkeys(seen, 0.0)
    for (pool_id, name), size in held.items():
        known = claimed.get((pool_id, name))
        if known is None or not known.counted:
            external[pool_id] += size
    for row in pools:
        if row.id in seen and round(external[row.id], 2) != row.external_gb:
            session.execute(
                sa.update(pool)
                .where(pool.id == row.id)
                .values(external_gb=round(external[row.id], 2))
                .execution_options(synchronize_session=False)
            )
    session.execute(
        sa.update(backend)
        .where(backend.id == backend_id)
        .values(last_listing_at=models.utcnow())
        .execution_options(synchronize_session=False)
    )
    kinds = dict.fromkeys((ORPHAN, LOST, SIZE), 0)
    for difference in found.values():
        kinds[difference.kind] += 1
    return Recorded(kinds, new, unknown)


def _held(volumes: Iterable[Listed], ids: Mapping[str, int]) -> tuple[dict[Place, float], list[str]]:
    """Return the size of each volume that is there, and the pools that nobody knows."""
    held: dict[Place, float] = {}
    unknown = set()
    for volume in volumes:
        pool_id = ids.get(volume.pool)
        if pool_id is None:
            unknown.add(volume.pool)
            continue
        # As the column takes it: MariaDB does not tell names apart by blanks at the end.
        place = pool_id, storable_text(volume.volume_id)[:_LONGEST_NAME].rstrip(" ")
        size = float(volume.size_gb)
        held[place] = held.get(place, 0.0) + (max(0.0, size) if math.isfinite(size) else 0.0)
    return held, sorted(unknown)


def _claimed(session: orm.Session, backend_id: int, epoch: int, tick: int) -> dict[Place, _Claimed]:
    """Return what the claims on a backend say, in one query: of each volume by its id, or by its name before that."""
    claim = models.Claim
    rows = session.execute(
        sa.select(
            claim.pool_id,
            claim.volume_id,
            claim.verb,
            claim.state,
            claim.size_gb,
            claim.end_epoch,
            claim.end_tick,
            claim.reference,
        ).where(claim.backend_id == backend_id)
    )
    claimed: dict[Place, _Claimed] = {}
    for pool_id, volume_id, verb, state, size, end_epoch, end_tick, reference in rows:
        place = pool_id, volume_id
        one = claimed.get(place)
        if one is None:
            one = claimed[place] = _Claimed()
        ended = end_tick is not None and (end_epoch, end_tick) < (epoch, tick)
        if not ended or state not in (counters.CONFIRMED, counters.RELEASED):
            one.settled = False
        if verb in (bookings.MANAGE, bookings.DELETE, bookings.PURGE) and state == counters.PENDING:
            # Of size 0: what is taken over, or is on its way out, counts as what it was.
            if reference is not None:
                claimed.setdefault((pool_id, reference[:_LONGEST_NAME].rstrip(" ")), _Claimed(settled=False))
            continue
        if state in counters.LIVE:
            one.live = True
            one.live_gb += size
        # What was released after the look was still there at that moment; what has outlived its release is no longer
        # counted as anything else.
        if state in counters.LIVE or not ended:
            one.counted = True
    return claimed


def _compare(
    held: Mapping[Place, float], claimed: Mapping[Place, _Claimed], seen: Collection[int]
) -> dict[Place, _Difference]:
    found = {place: _Difference(ORPHAN, size, 0.0) for place, size in held.items() if place not in claimed}
    for place, claims in claimed.items():
        if not (claims.live and claims.settled) or place[0] not in seen:
            continue
        size = held.get(place)
        if size is None:
            found[place] = _Difference(LOST, 0.0, float(claims.live_gb))
        elif not claims.live_gb - 1 + _PRECISION_GB <= size <= claims.live_gb + _PRECISION_GB:
            # The ledger counts whole GiB, rounded up.
            found[place] = _Difference(SIZE, size, float(claims.live_gb))
    return found


def _write(session: orm.Session, found: Mapping[Place, _Difference], seen: Collection[int]) -> int:
    """Make the table say what was found in these pools; return how much of it is new."""
    table = models.Discrepancy
    known: dict[Place, tuple[int, _Difference]] = {}
    gone: list[int] = []
    if seen:
        for row in session.execute(
            sa.select(table.id, table.pool_id, table.volume_id, table.kind, table.listed_gb, table.ledger_gb).where(
                table.pool_id.in_(seen)
            )
        ):
            place = row.pool_id, row.volume_id
            known[place] = row.id, _Difference(row.kind, row.listed_gb, row.ledger_gb)
            if place not in found:
                gone.append(row.id)
    insert: list[dict[str, Any]] = []
    update: list[dict[str, Any]] = []
    for place in sorted(found):
        values = {"kind": found[place].kind, "listed_gb": found[place].listed_gb, "ledger_gb": found[place].ledger_gb}
        if place not in known:
            insert.append({"pool_id": place[0], "volume_id": place[1], **values})
        elif known[place][1] != found[place]:
            update.append({"id": known[place][0], **values})
    for part in range(0, len(gone), 1000):
        session.execute(
            sa.delete(table).where(table.id.in_(gone[part : part + 1000])).execution_options(synchronize_session=False)
        )
    if update:
        session.execute(sa.update(table), update)
    if insert:
        session.execute(sa.insert(table), insert)
    return len(insert)
