# SPDX-License-Identifier: Apache-2.0
"""When claims for pods end: once a pod has its volumes and the figures contain them, or will not have them here.

A claim is never given back on suspicion. A watch tells which pods are to be looked at, and each is from time to time;
what follows is decided by what the cluster answers then. For each volume of a claim:

* What nobody has begun to make waits while the pod is there, until the lease ends; once the pod is gone, has failed or
  succeeded, it is free. A volume of a claim of the cluster is begun when that says for which node it is to be made, one
  that is inline when the pod is bound.
* What is made for a node that does not reach the pool is free: the pod went elsewhere.
* While it is being made, and the pod is there, the lease is renewed, and once more when it has been made.
* Then it is free after the pool's figures have been written three times, and those of all pools in use that draw on the
  same disks: what was written first, and what was being found out at that moment, may not contain it. If that does not
  happen, or the pool is gone, the lease ends.

A claim is given back as a whole, when all of its volumes are free.
"""

import enum
import itertools
import logging
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from tonnage.capacity import errors
from tonnage.k8s.capacity import node_accessibility
from tonnage.k8s.capacity.pool_cache import Catalogue
from tonnage.k8s.capacity.pool_columns import PoolKey
from tonnage.k8s.cluster.nodes import Node
from tonnage.k8s.cluster.objects import PersistentVolumeClaim, Pod
from tonnage.k8s.cluster.pod_volumes import INLINE
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.capacity_claims import Claim, PodClaim, Written
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: How often the figures have to be written after a volume was seen. Agents go on looking while tonnage-publisher has
#: yet to take over what they have reported.
_WRITES = 3

#: After so many that cannot be looked at the rest waits for the next time: a cluster that is away takes seconds to say
#: so.
_MOST_FAILURES = 3


class Looks(Protocol):
    """What a cluster is asked. All methods raise :class:`~tonnage.k8s.cluster.pod_volumes.Unreadable`."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, None if there is none."""

    def labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of nodes; those that are not there are left out."""


class _Fate(enum.Enum):
    WAITING = enum.auto()
    MAKING = enum.auto()
    MADE = enum.auto()
    FREE = enum.auto()


@dataclass(slots=True)
class _Figures:
    """What was last written of each pool that counts for a volume, and how often since that was seen."""

    last: Mapping[PoolKey, Written] = field(default_factory=dict)
    writes: dict[PoolKey, int] = field(default_factory=dict)

    def read(self, written: Mapping[PoolKey, Written]) -> None:
        """Take in what is there. Figures that are gone say nothing, and when they return may say what they said."""
        writes = {}
        for pool, one in written.items():
            known = self.last.get(pool)
            writes[pool] = 0 if known is None else self.writes[pool] + one.follows(known)
        self.last, self.writes = written, writes

    @property
    def contain_it(self) -> bool:
        """Whether the figures contain the volume, whichever pool is looked at."""
        return bool(self.writes) and min(self.writes.values()) >= _WRITES


@dataclass(slots=True)
class _Known:
    """What is known of what a holder has claimed, and whether its pod is ``there``."""

    what: tuple[Hashable, ...]
    expires_at: datetime
    looked_at: datetime | None = None
    there: bool = True
    fates: dict[str, _Fate] = field(default_factory=dict)
    figures: dict[str, _Figures] = field(default_factory=dict)

    @property
    def making(self) -> bool:
        return self.there and _Fate.MAKING in self.fates.values()

    @property
    def free(self) -> bool:
        """Whether nothing of it has to be held any more."""
        return self.looked_at is not None and all(
            fate is _Fate.FREE or (fate is _Fate.MADE and self.figures[volume].contain_it)
            for volume, fate in self.fates.items()
        )


class Releaser:
    """Gives back what pods have claimed. ``lease`` is for how many seconds something is claimed at a time.

    One thread works, any number may :meth:`stir`; several processes do no harm to one another.
    """

    def __init__(self, database: Database, cluster: Looks, lease: float) -> None:
        self._database, self._cluster, self._lease = database, cluster, timedelta(seconds=lease)
        self._catalogue = Catalogue()
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._stirred: set[str] = set()
        #: Whose pods could not be looked at the last time.
        self._failed: set[str] = set()
        self._all_stirred = False
        self._stopped = False

    def stop(self) -> None:
        """Have :meth:`work` end after the claim that it is looking at; what is claimed stays."""
        self._stopped = True

    def stir(self, pod: str | None) -> None:
        """Note that something is new of a pod, ``namespace/name``; without one, that anything may be."""
        with self._lock:
            if pod is None:
                self._all_stirred = True
            else:
                self._stirred.add(pod)

    def work(self) -> int:
        """Look at what is new, and return how many claims have been given back.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be asked; what could
        not be looked at is the next time.
        """
        with self._lock:
            stirred, everything = self._stirred, self._all_stirred
            self._stirred, self._all_stirred = set(), False
        try:
            with self._database.reading(snapshot=True) as session:
                now = capacity_claims.now(session)
                rows = capacity_claims.of_pods(session)
        except BaseException:
            with self._lock:
                self._stirred |= stirred
                self._all_stirred |= everything
            raise
        held = {holder: list(part) for holder, part in itertools.groupby(rows, lambda row: row.claim.holder)}
        self._known = {holder: known for holder, known in self._known.items() if holder in held}
        released, failures = 0, 0
        failure: errors.Unavailable | None = None
        # One that cannot be looked at keeps no others from it.
        for holder, part in sorted(held.items(), key=lambda each: each[0] in self._failed):
            if self._stopped:
                break
            known = self._recall(holder, part)
            if everything or part[0].pod in stirred:
                known.looked_at = None
            if failures == _MOST_FAILURES:
                continue
            try:
                released += self._tend(known, part, now)
                self._failed.discard(holder)
            except errors.Unavailable as error:
                failure, failures = error, failures + 1
                self._failed.add(holder)
        self._failed &= held.keys()
        if failure is not None:
            raise failure
        return released

    def _tend(self, known: _Known, rows: Sequence[PodClaim], now: datetime) -> bool:
        """Look at a claim if it is time, and do what follows; tell whether it was given back."""
        made = False
        if known.looked_at is None or now - known.looked_at >= self._lease / 4:
            made = self._look(known, rows)
            known.looked_at = now
        holder = rows[0].claim.holder
        if known.free:
            given_back = self._database.run(capacity_claims.release, holder, known.expires_at)
            if given_back:
                LOG.info("Pod %s: what was held for it on %s is given back", rows[0].pod, rows[0].claim.node)
            return given_back
        if made or (known.making and known.expires_at - now < self._lease / 2):
            self._database.run(capacity_claims.renew, holder, known.expires_at, now + self._lease)
            known.expires_at = now + self._lease
        return False

    def _recall(self, holder: str, rows: Sequence[PodClaim]) -> _Known:
        """Return what is known of a holder's claim, brought up to date."""
        what, expires_at = tuple(_what(row.claim) for row in rows), rows[0].claim.expires_at
        known = self._known.get(holder)
        if known is None or known.what != what:
            known = self._known[holder] = _Known(what, expires_at)
        if known.expires_at != expires_at:
            # Somebody has renewed it.
            known.expires_at, known.looked_at = expires_at, None
        for row in rows:
            # What was made is seen after this was read.
            if (figures := known.figures.get(row.claim.volume)) is not None:
                figures.read(row.written)
        return known

    def _look(self, known: _Known, rows: Sequence[PodClaim]) -> bool:
        """Find out what has become of a claim's volumes, and tell whether one has been made since the last look."""
        namespace, _, name = rows[0].pod.partition("/")
        pod = self._cluster.pod(namespace, name)
        # Another one of that name is another pod.
        if pod is not None and (pod.ended or rows[0].claim.holder not in (pod.holder, pod.nameplate)):
            pod = None
        known.fates = {row.claim.volume: self._fate(row, namespace, pod) for row in rows}
        known.there = pod is not None
        made = {volume for volume, fate in known.fates.items() if fate is _Fate.MADE}
        seen = known.figures
        known.figures = {volume: seen.get(volume, _Figures()) for volume in made}
        return not made <= seen.keys()

    def _fate(self, row: PodClaim, namespace: str, pod: Pod | None) -> _Fate:
        volume, node = row.claim.volume, row.claim.node
        if volume.endswith(INLINE):
            where = None if pod is None else pod.spec.node_name
            made = pod is not None and pod.begun
        else:
            claim = self._cluster.claim(namespace, volume)
            made = claim is not None and bool(claim.spec.volume_name)
            where = None if claim is None else claim.selected_node or (node if made else None)
        if not where:
            return _Fate.FREE if pod is None else _Fate.WAITING
        if where != node and not self._reaches(where, row):
            return _Fate.FREE
        return _Fate.MADE if made else _Fate.MAKING

    def _reaches(self, node: str, row: PodClaim) -> bool:
        labels = self._cluster.labels([node]).get(node, {})
        with self._database.reading(snapshot=True) as session:
            figures = self._catalogue.read(session, [row.claim.driver]).get(row.claim.driver)
        key = row.claim.storage_class, row.claim.pool
        if figures is None or key not in figures.rows:
            # Nobody knows any more, so it may.
            return True
        return node_accessibility.reaches(figures, key, Node(node, labels))


def _what(claim: Claim) -> Hashable:
    return claim.volume, claim.node, claim.driver, claim.storage_class, claim.pool
