# SPDX-License-Identifier: Apache-2.0
"""The claims on drivers in memory, updated from what has changed since they were read last.

So the work of a decision does not grow with the number of claims that are active. A claim is read when it is made, and
again when its lease should have ended, because renewals have no record.
"""

import contextlib
import datetime
import heapq
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import claim_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.claim_rows import ClaimEnd, ClaimRow, Moment
from tonnage.extensions.kubernetes.capacity.claim_sums import ClaimSums
from tonnage.extensions.kubernetes.capacity.node_packing import PackingPools
from tonnage.extensions.kubernetes.capacity.pool_cache import DriverState

#: The largest number of holders whose claims are read again one by one.
_MOST_HOLDERS = 500


class ClaimedPools(NamedTuple):
    """The pools of a driver less the claims on it.

    ``additions`` grows with each claim that is added, None if the claims are older than those of another thread.
    ``has_expired`` tells whether there are claims whose leases have ended.
    """

    pools: PackingPools
    additions: int | None
    has_expired: bool


@dataclass(slots=True)
class _Claims:
    """The claims on a driver at a moment.

    ``rows`` has the active ones by holder and volume, ``ended`` the holders of those whose leases have ended,
    ``unnumbered`` those without a number, by holder and volume. ``additions`` and ``removals`` are the numbers of
    claims that were added and removed.
    """

    uid: str
    version: int
    read_at: datetime.datetime
    rows: dict[str, dict[str, ClaimRow]] = field(default_factory=dict)
    sums: ClaimSums = field(default_factory=ClaimSums)
    leases: list[tuple[datetime.datetime, str, str]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    unnumbered: set[tuple[str, str]] = field(default_factory=set)
    additions: int = 0
    removals: int = 0

    def put(self, row: ClaimRow, now: datetime.datetime) -> None:
        """Add a claim, or replace it."""
        if row.expires_at <= now:
            self.drop(row.holder, row.volume)
            self.ended.add(row.holder)
            return
        of_holder = self.rows.setdefault(row.holder, {})
        previous = of_holder.get(row.volume)
        of_holder[row.volume] = row
        if previous is None or previous.expires_at != row.expires_at:
            heapq.heappush(self.leases, (row.expires_at, row.holder, row.volume))
        if previous is not None and previous.claim == row.claim:
            return
        if previous is not None:
            self.removals += 1
            self.sums.remove(previous.claim)
        self.additions += 1
        self.sums.add(row.claim)

    def drop(self, holder: str, volume: str) -> None:
        """Remove a claim, if it is there."""
        of_holder = self.rows.get(holder, {})
        row = of_holder.pop(volume, None)
        if row is not None:
            self.removals += 1
            self.sums.remove(row.claim)
            if not of_holder:
                del self.rows[holder]

    def apply(self, rows: Iterable[ClaimRow], ends: Iterable[ClaimEnd], now: datetime.datetime) -> None:
        """Apply changes: claims that were made, and ends of claims."""
        for row in rows:
            self.put(row, now)
        for end in ends:
            row_now = self.rows.get(end.holder, {}).get(end.volume)
            # One with the same number was made after the end.
            if row_now is not None and row_now.number is not None and row_now.number < end.number:
                self.drop(end.holder, end.volume)

    def replace_unnumbered(self, rows: Collection[ClaimRow], now: datetime.datetime) -> None:
        """Take all claims without a number."""
        keys = {(row.holder, row.volume) for row in rows}
        for holder, volume in self.unnumbered - keys:
            row = self.rows.get(holder, {}).get(volume)
            if row is not None and row.number is None:
                self.drop(holder, volume)
        for row in rows:
            self.put(row, now)
        self.unnumbered = keys

    def due(self, now: datetime.datetime) -> set[str]:
        """Return the holders of claims whose leases have or should have ended."""
        holders = set(self.ended)
        while self.leases and self.leases[0][0] <= now:
            expires_at, holder, volume = heapq.heappop(self.leases)
            row = self.rows.get(holder, {}).get(volume)
            if row is not None and row.expires_at == expires_at:
                holders.add(holder)
        return holders

    def replace(self, holders: Collection[str], rows: Iterable[ClaimRow], now: datetime.datetime) -> None:
        """Take all claims of some holders."""
        self.ended -= set(holders)
        by_holder: dict[str, dict[str, ClaimRow]] = {}
        for row in rows:
            by_holder.setdefault(row.holder, {})[row.volume] = row
        for holder in holders:
            of_holder = by_holder.get(holder, {})
            for volume in self.rows.get(holder, {}).keys() - of_holder.keys():
                self.drop(holder, volume)
            for row in of_holder.values():
                self.put(row, now)


class ClaimCache:
    """The claims on drivers. Thread-safe."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claims] = {}
        self._lock = threading.Lock()

    def claimed_pools(
        self,
        session: orm.Session,
        states: Mapping[str, DriverState],
        moment: Moment,
        holder: str | None = None,
        volumes: Collection[str] = (),
    ) -> dict[str, ClaimedPools]:
        """Return the pools of each driver at a moment less the active claims, by driver name.

        The holder's own claims for these volumes are left out. If the holder is not a pod, all of its claims are left
        out, because a new claim replaces them. The session is a snapshot, or has locked the drivers.
        """
        result = {}
        for name, state in states.items():
            with self._read(session, name, state, moment) as (claims, is_latest):
                own = () if holder is None else claims.rows.get(holder, {}).values()
                left_out = [row.claim for row in own if row.pod is None or row.volume in volumes]
                for claim in left_out:
                    claims.sums.remove(claim)
                pools = state.columns.packing_pools(pool_columns.to_microseconds(moment.now), claims.sums)
                for claim in left_out:
                    claims.sums.add(claim)
                result[name] = ClaimedPools(pools, claims.additions if is_latest else None, bool(claims.ended))
        return result

    def add(self, state: DriverState, rows: Sequence[ClaimRow]) -> None:
        """Add claims that a transaction of this process has made as the next change, which it has committed.

        ``state`` is that of the locked driver. If other changes were read in the meantime, these claims were too.
        """
        name, uid = state.columns.name, state.columns.uid
        with self._lock:
            known = self._claims.get(name)
            if known is not None and (known.uid, known.version) == (uid, state.claims_version):
                known.apply(rows, (), known.read_at)
                known.version += 1

    def has_claims(self, holder: str) -> bool:
        """Return whether a holder has active claims, as far as they have been read."""
        with self._lock:
            return any(holder in claims.rows for claims in self._claims.values())

    def removals(
        self, session: orm.Session, states: Mapping[str, DriverState], moment: Moment
    ) -> dict[str, tuple[str, int]]:
        """Return the uid of each driver, and the number of claims that were removed from it so far, by its name.

        The session is a snapshot.
        """
        result = {}
        for name, state in states.items():
            with self._read(session, name, state, moment) as (claims, _):
                result[name] = claims.uid, claims.removals
        return result

    @contextlib.contextmanager
    def _read(
        self, session: orm.Session, name: str, state: DriverState, moment: Moment
    ) -> Iterator[tuple[_Claims, bool]]:
        """Yield the claims on a driver, and whether they are the latest that this process has read."""
        uid, version = state.columns.uid, state.claims_version
        with self._lock:
            known = self._claims.get(name)
            if known is not None and known.uid == uid and known.version > version:
                yield self._read_all(session, uid, version, moment, None), False
                return
            try:
                claims = self._claims[name] = self._update(session, known, uid, version, moment)
            except BaseException:
                if known is not None:
                    # All claims are read the next time. The numbers of changes go on from these.
                    known.uid = ""
                raise
            yield claims, True

    def _update(self, session: orm.Session, known: _Claims | None, uid: str, version: int, moment: Moment) -> _Claims:
        now = moment.now
        if (
            known is None
            or known.uid != uid
            or version - known.version >= claim_rows.KEPT_CHANGES
            # By a clock that was set back, leases are active that had ended.
            or now < known.read_at
        ):
            return self._read_all(session, uid, version, moment, known)
        if known.version < version:
            known.apply(*claim_rows.since(session, uid, known.version), now)
        if moment.has_unnumbered or known.unnumbered:
            known.replace_unnumbered(claim_rows.without_number(session, uid), now)
        holders = known.due(now)
        if len(holders) > _MOST_HOLDERS:
            return self._read_all(session, uid, version, moment, known)
        if holders:
            known.replace(holders, claim_rows.of_holders(session, uid, holders), now)
        known.version, known.read_at = version, now
        return known

    @staticmethod
    def _read_all(session: orm.Session, uid: str, version: int, moment: Moment, known: _Claims | None) -> _Claims:
        claims = _Claims(uid, version, moment.now)
        for row in claim_rows.on_driver(session, uid):
            claims.put(row, moment.now)
            if row.number is None:
                claims.unnumbered.add((row.holder, row.volume))
        if known is not None:
            # All were read, and any of them may have been added or removed.
            claims.additions += known.additions + 1
            claims.removals += known.removals + 1
        return claims
