# SPDX-License-Identifier: Apache-2.0
"""Reports and listings held against the definitions of what drivers report, and against the ledger's claims.

A report shows by itself most of what can be wrong with it. Whether its provisioned capacity is the sum of the volumes
only a list of them can tell, and only one that was begun after the report was made and before the next one, of a pool
in which Tonnage has changed nothing meanwhile. Others may have, so what is found so is told if the next report and the
next listing show it too.
"""

import enum
import logging
import operator
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from tonnage.capacity import compliance
from tonnage.capacity import compliance_columns
from tonnage.capacity.compliance import Auditor
from tonnage.capacity.compliance import Breach
from tonnage.capacity.compliance import Volumes
from tonnage.capacity.names import pool_name
from tonnage.ledger import counters
from tonnage.ledger import findings
from tonnage.ledger import models
from tonnage.ledger import parts
from tonnage.ledger.database import Database
from tonnage.ledger.findings import Key
from tonnage.ledger.findings import Seen
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Listing

LOG = logging.getLogger(__name__)

#: So many pools that break the same definition are named in the log; a driver that breaks it usually does for all.
_NAMED = 10


class Compared(enum.Enum):
    """What came of holding a listing against the last report."""

    #: All that could be told has been.
    DONE = enum.auto()
    #: Something was found for the first time, and is to be looked at again, after another report.
    ONCE = enum.auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """A backend as a report left it; ``pools`` by their ids, each as it was reported.

    In ``moving`` ones something has ended since, or is under way. What ended before the tick ``covers`` is in the
    figures.
    """

    backend_id: int
    covers: int
    pools: Mapping[int, Mapping[str, Any]]
    moving: Collection[int]


@dataclass(slots=True)
class _Memory:
    """What is remembered of a backend: its figures, and what was listed last, by pool."""

    auditor: Auditor = field(default_factory=lambda: Auditor(supports_auto=True))
    listed: dict[str, float] = field(default_factory=dict)


class Inspector:
    """Belongs to one thread, but for ``found``, which is replaced as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._memories: dict[str, _Memory] = {}
        self._known: dict[str, dict[Key, Seen]] = {}
        self._mark: tuple[object, ...] = ()
        #: What pools break, by their full names.
        self.found: Mapping[str, Mapping[str, str]] = {}

    def refresh(self) -> None:
        """Take over what other schedulers have found."""
        with self._database.reading() as session:
            mark = findings.mark(session)
            if mark == self._mark:
                return  # a driver may break something for each of thousands of pools
            rows = findings.load(session)
        self._mark = mark
        known: dict[str, dict[Key, Seen]] = {}
        for row in rows:
            known.setdefault(row.backend, {})[row.key] = row.seen
        self._known = known
        self._show()

    def inspect(self, backend_id: int, message: BackendReport) -> None:
        """Look at what a report shows by itself."""
        found: dict[Key, Seen] = {}
        for place in compliance_columns.suspects(message.pools, message.supports_auto_ratio):
            pool = message.pools[place]
            name = findings.stored_name(compliance.name_of(pool))
            for breach, text in compliance.by_itself(pool, message.supports_auto_ratio).items():
                found.setdefault((name, breach.value), Seen(text))
        known = self._known.get(message.backend, {})
        reported: set[str] = set()
        if known:
            reported.update(findings.stored_name(compliance.name_of(pool)) for pool in message.pools)
        elif not found:
            return
        self._settle(
            message.backend,
            backend_id,
            found,
            {key for key in known if key[0] not in reported or key[1] not in compliance.BESIDE_VOLUMES},
        )

    def doubtful(self, backends: Mapping[int, str]) -> dict[str, bool]:
        """Return the names of those backends of which a listing is wanted, and whether that is soon.

        It is where something was found once, and where something that was found may have been mended.
        """
        with self._database.reading() as session:
            doubtful = {backends[backend_id] for backend_id in findings.doubtful(session, backends)}
        wanted = {}
        for name in backends.values():
            found = [seen for key, seen in self._known.get(name, {}).items() if key[1] in compliance.BESIDE_VOLUMES]
            unsure = any(seen.once is not None for seen in found)
            if found or name in doubtful:
                wanted[name] = unsure or name not in doubtful
        return wanted

    def compare(self, standing: Standing, listing: Listing) -> Compared:
        """Hold the figures of a report against the listing that was begun after it."""
        with self._database.reading(snapshot=True) as session:
            picture = _look(session, standing, listing)
        memory = self._memories.setdefault(listing.backend, _Memory())
        broken = {
            **memory.auditor.beside(picture.settled, picture.volumes(memory.listed)),
            **Auditor(supports_auto=True).beside(picture.busy, picture.at_least),
        }
        settled = {compliance.name_of(pool) for pool in picture.settled}
        memory.listed = {**memory.listed, **{name: picture.listed.get(name, 0.0) for name in settled}}
        known = self._known.get(listing.backend, {})
        found = {
            (name, breach.value): _seen(breach, text, known.get((name, breach.value)), listing.after)
            for name, each in broken.items()
            for breach, text in each.items()
        }
        judged = {key for key in known if key[1] in compliance.BESIDE_VOLUMES and key[0] in settled}
        self._settle(listing.backend, standing.backend_id, found, judged)
        return Compared.DONE if all(seen.once is None for seen in found.values()) else Compared.ONCE

    def _settle(self, backend: str, backend_id: int, found: Mapping[Key, Seen], judged: Collection[Key]) -> None:
        """Have the ledger say what was found, and the log what of it is new."""
        known = self._known.get(backend, {})
        same = all(key in known and known[key].once == seen.once for key, seen in found.items())
        if same and found.keys() >= set(judged):
            return
        try:
            settled = self._database.run(findings.settle, backend_id, found, judged.__contains__)
        except db_exc.DBDuplicateEntry:  # another scheduler has found it at the same moment
            settled = self._database.run(findings.settle, backend_id, found, judged.__contains__)
        left = {key: seen for key, seen in known.items() if key in found or key not in judged}
        self._known[backend] = {**left, **found}
        self._show()
        _tell(backend, {key: found[key].text for key in settled.new})
        for pool, breach in settled.mended:
            LOG.info("Pool %s: what is reported breaks %s no more", pool_name(backend, pool), breach)

    def _show(self) -> None:
        found: dict[str, dict[str, str]] = {}
        for backend, each in self._known.items():
            for (pool, breach), seen in sorted(each.items(), key=operator.itemgetter(0)):
                if seen.once is None:
                    found.setdefault(pool_name(backend, pool), {})[breach] = seen.text
        self.found = found


def _seen(breach: Breach, text: str, before: Seen | None, seq: int) -> Seen:
    """Return how a breach showed that was found after report ``seq``: it is sure if another report had it too."""
    if breach is Breach.STANDS_STILL:  # that is nothing that could show in one
        return Seen(text)
    if before is None:
        return Seen(text, seq)
    return before if before.once in (None, seq) else Seen(text)


def _tell(backend: str, new: Mapping[Key, str]) -> None:
    by_breach: dict[str, list[Key]] = {}
    for key in sorted(new):
        by_breach.setdefault(key[1], []).append(key)
    for breach, keys in by_breach.items():
        for key in keys[:_NAMED]:
            LOG.warning("Pool %s: what is reported breaks %s: %s", pool_name(backend, key[0]), breach, new[key])
        if len(keys) > _NAMED:
            LOG.warning(
                "Backend %s: %d pool(s) more break %s; see 'tonnage-manage driver audit'",
                backend,
                len(keys) - _NAMED,
                breach,
            )


@dataclass(frozen=True, slots=True)
class _Picture:
    """Pools as they were last reported: ``settled``, of which every volume is known, and ``busy`` ones.

    ``listed`` are the sums of what was listed, ``at_least`` what of Tonnage's is certainly in the figures of busy ones.
    """

    settled: Sequence[Mapping[str, Any]]
    busy: Sequence[Mapping[str, Any]]
    listed: Mapping[str, float]
    at_least: Mapping[str, Volumes]

    def volumes(self, before: Mapping[str, float]) -> dict[str, Volumes]:
        """Return what is known of the volumes of settled pools; ``before`` is what had been listed before."""
        found = {}
        for pool in self.settled:
            name = compliance.name_of(pool)
            now = self.listed.get(name, 0.0)
            found[name] = Volumes(all_gb=now, moved_gb=now - before.get(name, now))
        return found


def _look(session: orm.Session, standing: Standing, listing: Listing) -> _Picture:
    """Return what can be compared."""
    claim = models.Claim
    rows = session.execute(
        sa.select(claim.pool_id).where(claim.backend_id == standing.backend_id, claim.contained.is_(False)).distinct()
    )
    moving = {*standing.moving, *(row[0] for row in rows)}
    backend = models.Backend
    last = session.execute(
        sa.select(backend.epoch, backend.report_seq).where(backend.id == standing.backend_id)
    ).first()
    if last is None or tuple(last) != (listing.epoch, listing.after):
        # With a later report the ledger forgets what had ended by then, and nobody knows what these figures lack.
        moving.update(standing.pools)
    known: dict[str, int] = {}
    for some in parts.cut(listing.in_hand):
        known.update(
            (row[0], row[1]) for row in session.execute(sa.select(claim.id, claim.pool_id).where(claim.id.in_(some)))
        )
    if len(known) < len(set(listing.in_hand)):  # it is over already, and nobody knows where it was
        moving.update(standing.pools)
    moving.update(known.values())
    # Pools of one storage may have its figures, and are busy together.
    storages = {pool.get("storage_id") for pool_id, pool in standing.pools.items() if pool_id in moving} - {None}
    busy = {
        pool_id: compliance.name_of(pool)
        for pool_id, pool in standing.pools.items()
        if pool_id in moving or pool.get("storage_id") in storages
    }
    listed: dict[str, float] = {}
    for volume in listing.volumes:
        listed[volume.pool] = listed.get(volume.pool, 0.0) + volume.size_gb
    return _Picture(
        settled=[pool for pool_id, pool in standing.pools.items() if pool_id not in busy],
        busy=[pool for pool_id, pool in standing.pools.items() if pool_id in busy],
        listed={name: round(size, 6) for name, size in listed.items()},
        at_least=_contained(session, busy, (listing.epoch, standing.covers), listing),
    )


def _contained(
    session: orm.Session, pools: Mapping[int, str], covered: tuple[int, int], listing: Listing
) -> dict[str, Volumes]:
    """Return what of Tonnage's there was all the time: made before the report, listed after it, left alone."""
    claim = models.Claim
    sizes: dict[Key, int] = {}
    touched: set[Key] = set()
    for some in parts.cut(pools):
        rows = session.execute(
            sa.select(
                claim.pool_id, claim.volume_id, claim.state, claim.size_gb, claim.end_epoch, claim.end_tick
            ).where(claim.pool_id.in_(some))
        )
        for pool_id, volume_id, state, size, epoch, tick in rows:
            place = pools[pool_id], volume_id
            if state == counters.CONFIRMED and (epoch or 0, tick or 0) < covered:
                sizes[place] = sizes.get(place, 0) + size
            else:
                touched.add(place)
    there: dict[str, float] = {}
    for volume in listing.volumes:
        place = volume.pool, volume.volume_id
        if place in sizes and place not in touched:
            there[volume.pool] = there.get(volume.pool, 0.0) + min(volume.size_gb, sizes[place])
    return {name: Volumes(ours_gb=size) for name, size in there.items()}
