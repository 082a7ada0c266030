# SPDX-License-Identifier: Apache-2.0
"""Release of the claims for pods.

Claims are released when the figures include the pod's volumes, or when the pod will not have the volumes on this node.
The state of the cluster decides. A watch reports the pods to check, and each pod is checked from time to time as well.
For each volume of a claim:

* A volume that is not being provisioned keeps its claim while the pod exists, until the lease ends. Once the pod is
  deleted, has failed or has succeeded, the volume is releasable. Provisioning of a persistent volume claim has begun
  when the claim has a selected node, that of an inline volume when the pod is bound.
* While kube-scheduler evicts other pods from the node for this pod, the lease is renewed.
* A volume that is provisioned for a node without access to the pool is releasable, because the pod is on another node.
* While a volume is being provisioned and the pod exists, the lease is renewed. It is renewed once more when the volume
  has been provisioned. If its persistent volume claim is deleted meanwhile the claim ends with its lease, because the
  volume may be made nevertheless. What has been seen of the creation is in the ledger, so other processes know it too.
* After that the volume is releasable once the figures of the pool, and of all usable pools on the same disks, include
  it (:mod:`tonnage.extensions.kubernetes.fit.volume_settlement`), or once the volume is gone, which is later than its
  claim. If neither happens, or the pool was removed, the claim ends with its lease. For a pool with figures from a
  ``CSIStorageCapacity`` object the lease is renewed until then, because such figures may be as before the volume at any
  later time. A provisioner whose figures stay as they are is made to ask for them.

The claims of a pod that kube-scheduler has to try again are not subtracted from published capacity, because it compares
the pod with that: while pods are evicted for it, and while it has a claim and does not go on.

The claim of a pod is released as a whole, when all of its volumes are releasable.
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
from tonnage.extensions.kubernetes.capacity import node_accessibility
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.cluster.nodes import Node
from tonnage.extensions.kubernetes.cluster.objects import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.extensions.kubernetes.cluster.pod_volumes import INLINE_SUFFIX
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.capacity_claims import Claim, PodClaim
from tonnage.extensions.kubernetes.fit.volume_settlement import VolumeSettlement
from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: The largest number of objects of provisioners that are changed in a round. external-provisioner writes one a second.
_MOST_QUESTIONS = 10

#: How long a claim may wait for the creation of its volume until kube-scheduler should try the pod again. It doubles.
_IDLE_TIME = timedelta(seconds=5)

#: The largest number of pods whose claims are released together, in one transaction.
_BATCH = 20

#: Number of failed pods after which the rest waits for the next round: an unreachable cluster takes seconds to fail.
_MAX_FAILURES = 3


class PodLookup(Protocol):
    """The objects of a cluster that claims depend on.

    All methods raise :class:`~tonnage.extensions.kubernetes.cluster.pod_volumes.ClusterUnavailable`.
    """

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none."""

    def persistent_volume_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim, None if there is none."""

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        """Return a persistent volume, None if there is none."""

    def node_labels(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the labels of the named nodes that exist."""

    def capacity_version(self, full_name: str) -> int | None:
        """Return the resource version of a ``CSIStorageCapacity`` object, ``namespace/name``; None if there is none."""

    def ask_for_capacity(self, full_name: str) -> int | None:
        """Make the provisioner of such an object ask for its figure.

        Return the version that is older than its answer, None if it cannot be made to.
        """


class _VolumeState(enum.Enum):
    WAITING = enum.auto()
    NOMINATED = enum.auto()
    PROVISIONING = enum.auto()
    PROVISIONED = enum.auto()
    RELEASABLE = enum.auto()


@dataclass(slots=True)
class _HolderState:
    """The state of a holder's claims; ``pod_exists`` tells whether its pod exists."""

    claim_keys: tuple[Hashable, ...]
    expires_at: datetime
    waiting_since: datetime
    idle_time: timedelta = _IDLE_TIME
    is_idle: bool = False
    checked_at: datetime | None = None
    pod_exists: bool = True
    states: dict[str, _VolumeState] = field(default_factory=dict)
    settlements: dict[str, VolumeSettlement] = field(default_factory=dict)
    #: The names of the persistent volumes of claims whose creation has begun, by volume; empty while they are made.
    persistent_volumes: dict[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> bool:
        """Return whether a volume is being created, or pods are evicted for its pod."""
        renewed = (_VolumeState.PROVISIONING, _VolumeState.NOMINATED)
        return self.pod_exists and any(state in renewed for state in self.states.values())

    @property
    def is_nominated(self) -> bool:
        """Return whether pods are evicted for its pod."""
        return self.pod_exists and _VolumeState.NOMINATED in self.states.values()

    @property
    def is_tried_again(self) -> bool:
        """Return whether kube-scheduler has to try the pod again."""
        return self.is_nominated or (self.waits and self.is_idle)

    @property
    def waits(self) -> bool:
        """Return whether the pod exists, and the creation of a volume has not begun."""
        return self.pod_exists and _VolumeState.WAITING in self.states.values()

    @property
    def releasable(self) -> bool:
        """Return whether all claims can be released."""
        return self.checked_at is not None and all(
            state is _VolumeState.RELEASABLE
            or (state is _VolumeState.PROVISIONED and self.settlements[volume].is_included)
            for volume, state in self.states.items()
        )


class ClaimReleaser:
    """Releases the claims of pods. ``lease`` is the number of seconds of a claim.

    ``asks`` tells whether provisioners may be made to ask for figures that stay as they are.

    One thread calls :meth:`run_once`, any thread may call :meth:`notify`. Several processes may release claims at once.
    """

    def __init__(self, database: Database, cluster: PodLookup, lease: float, *, asks: bool = True) -> None:
        self._database, self._cluster, self._lease = database, cluster, timedelta(seconds=lease)
        self._asks = asks
        #: The objects whose provisioners were made to ask in this round, with the versions before the answers.
        self._questions: dict[str, int | None] = {}
        self._last_question_failure = ""
        self._pool_cache = PoolCache()
        self._states: dict[str, _HolderState] = {}
        self._lock = threading.Lock()
        self._notified: set[str] = set()
        #: Holders whose pods could not be read in the last round.
        self._failed: set[str] = set()
        self._all_notified = False
        self._stopped = False
        #: Whether a pod has a claim and does not go on, as of the last round: kube-scheduler has not got the answer, or
        #: has refused the node itself. The claim keeps the room from others until kube-scheduler tries the pod again.
        self.has_idle_claims = False

    def stop(self) -> None:
        """Make :meth:`run_once` return after the current claim. The claims remain."""
        self._stopped = True

    def notify(self, pod: str | None) -> None:
        """Record that a pod, ``namespace/name``, has changed; with None, that any pod may have."""
        with self._lock:
            if pod is None:
                self._all_notified = True
            else:
                self._notified.add(pod)

    def run_once(self) -> int:
        """Check the pods that have changed or are due, and return the number of released claims.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read. The next round
        then checks the remaining pods.
        """
        with self._lock:
            notified, all_notified = self._notified, self._all_notified
            self._notified, self._all_notified = set(), False
        try:
            with self._database.reading(snapshot=True) as session:
                now = capacity_claims.now(session)
                rows = capacity_claims.list_for_pods(session)
        except BaseException:
            with self._lock:
                self._notified |= notified
                self._all_notified |= all_notified
            raise
        by_holder = {holder: list(part) for holder, part in itertools.groupby(rows, lambda row: row.claim.holder)}
        self._states = {holder: holder_state for holder, holder_state in self._states.items() if holder in by_holder}
        released, failures, self.has_idle_claims = 0, 0, False
        self._questions = {}
        failure: errors.Unavailable | None = None
        releasable: list[PodClaim] = []
        # Pods that failed in the last round come last, so they do not block others.
        for holder, part in sorted(by_holder.items(), key=lambda pair: pair[0] in self._failed):
            if self._stopped:
                break
            holder_state = self._state_for(holder, part, now)
            if all_notified or part[0].pod in notified:
                holder_state.checked_at = None
            if failures == _MAX_FAILURES:
                continue
            try:
                if self._process(holder_state, part, now):
                    releasable.append(part[0])
                self._failed.discard(holder)
                if len(releasable) == _BATCH:
                    batch, releasable = releasable, []
                    released += self._release(batch)
            except errors.Unavailable as error:
                failure, failures = error, failures + 1
                self._failed.add(holder)
        self._failed &= by_holder.keys()
        released += self._release(releasable)
        if failure is not None:
            raise failure
        return released

    def revive(self) -> int:
        """Renew the expired claims of volumes that are or have been created, and return their number.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger or the cluster cannot be read.
        """
        with self._database.reading(snapshot=True) as session:
            now = capacity_claims.now(session)
            rows = capacity_claims.list_for_pods(session, expired=True)
        revived = 0
        for row in rows:
            namespace, _, name = row.pod.partition("/")
            pod = self._same_pod(row, self._cluster.pod(namespace, name))
            state = self._volume_state(row, namespace, pod, _HolderState((), row.claim.expires_at, now))
            if state is _VolumeState.PROVISIONED or (state is _VolumeState.PROVISIONING and pod is not None):
                revived += self._database.run(capacity_claims.revive, row.claim, now + self._lease)
        return revived

    def _process(self, holder_state: _HolderState, rows: Sequence[PodClaim], now: datetime) -> bool:
        """Check a claim if that is due, renew it if it is needed, and return whether it can be released."""
        provisioned = False
        is_watched = holder_state.waits or holder_state.is_nominated
        interval = min(_IDLE_TIME, self._lease / 4) if is_watched else self._lease / 4
        if holder_state.checked_at is None or now - holder_state.checked_at >= interval:
            provisioned = self._check(holder_state, rows)
            holder_state.checked_at = now
            if holder_state.waits and now - holder_state.waiting_since >= holder_state.idle_time:
                self.has_idle_claims = holder_state.is_idle = True
                holder_state.idle_time *= 2
        holder = rows[0].claim.holder
        if holder_state.is_tried_again is not any(row.is_unpublished for row in rows):
            self._database.run(capacity_claims.set_published, holder, not holder_state.is_tried_again)
        if holder_state.releasable:
            return True
        self._ask(holder_state, now)
        is_needed = holder_state.needed or any(
            row.has_object and holder_state.states.get(row.claim.volume) is _VolumeState.PROVISIONED for row in rows
        )
        if provisioned or (is_needed and holder_state.expires_at - now < self._lease / 2):
            self._database.run(capacity_claims.renew, holder, holder_state.expires_at, now + self._lease)
            holder_state.expires_at = now + self._lease
        return False

    def _ask(self, holder_state: _HolderState, now: datetime) -> None:
        """Make provisioners ask for figures that do not include a volume, and stay as they are."""
        for settlement in holder_state.settlements.values() if self._asks else ():
            for name in settlement.objects_to_ask(now):
                if name not in self._questions:
                    if len(self._questions) == _MOST_QUESTIONS:
                        return
                    self._questions[name] = self._question(name)
                settlement.ask(name, self._questions[name], now)

    def _question(self, name: str) -> int | None:
        try:
            version = self._cluster.ask_for_capacity(name)
        except errors.Unavailable as error:
            if self._last_question_failure != error.message:
                LOG.warning(
                    "Claims for volumes last until CSIStorageCapacity objects have been written twice, which may never "
                    "happen: %s; let the extender patch csistoragecapacities, or set [kubernetes] "
                    "refresh_capacity_objects = false",
                    error.message,
                )
            self._last_question_failure = error.message
            return None
        self._last_question_failure = ""
        return version

    def _release(self, rows: Sequence[PodClaim]) -> int:
        """Release the claims of pods, each given by one of its claims, and return the number of pods.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger cannot be written.
        """
        if not rows:
            return 0
        # Without those that were renewed since they were read.
        expiry_by_holder = {row.claim.holder: self._states[row.claim.holder].expires_at for row in rows}
        released = self._database.run(capacity_claims.release_unchanged, expiry_by_holder)
        for row in rows:
            if row.claim.holder in released:
                LOG.info("Pod %s: released the capacity that was claimed for it on %s", row.pod, row.claim.node)
        return len(released)

    def _state_for(self, holder: str, rows: Sequence[PodClaim], now: datetime) -> _HolderState:
        """Return the updated state of a holder's claims."""
        claim_keys, expires_at = tuple(_claim_key(row.claim) for row in rows), rows[0].claim.expires_at
        holder_state = self._states.get(holder)
        if holder_state is None or holder_state.claim_keys != claim_keys:
            holder_state = self._states[holder] = _HolderState(claim_keys, expires_at, now)
        if holder_state.expires_at != expires_at:
            # Another process has renewed the claims, or kube-scheduler has tried the pod again.
            holder_state.expires_at, holder_state.checked_at = expires_at, None
            holder_state.waiting_since, holder_state.is_idle = now, False
        for row in rows:
            # The pod is checked after these figures were read.
            if (settlement := holder_state.settlements.get(row.claim.volume)) is not None:
                settlement.update(row.figures, now)
        return holder_state

    def _check(self, holder_state: _HolderState, rows: Sequence[PodClaim]) -> bool:
        """Update the state of each volume, and return whether one has been provisioned since the last check."""
        namespace, _, name = rows[0].pod.partition("/")
        pod = self._same_pod(rows[0], self._cluster.pod(namespace, name))
        holder_state.states = {row.claim.volume: self._volume_state(row, namespace, pod, holder_state) for row in rows}
        self._record_volumes(rows, holder_state.persistent_volumes)
        holder_state.pod_exists = pod is not None
        provisioned = {volume for volume, state in holder_state.states.items() if state is _VolumeState.PROVISIONED}
        settlements = holder_state.settlements
        holder_state.settlements = {
            row.claim.volume: settlements.get(row.claim.volume) or self._new_settlement(row)
            for row in rows
            if row.claim.volume in provisioned
        }
        for settlement in holder_state.settlements.values():
            self._read_versions(settlement, settlement.objects_without_version())
        return not provisioned <= settlements.keys()

    def _record_volumes(self, rows: Sequence[PodClaim], persistent_volumes: Mapping[str, str]) -> None:
        """Write the names of the volumes into the ledger: after a restart a claim may be gone, and its volume there."""
        stored = {row.claim.volume: row.persistent_volume for row in rows}
        names = {volume: name for volume, name in persistent_volumes.items() if stored.get(volume, name) != name}
        if names:
            self._database.run(capacity_claims.set_persistent_volumes, rows[0].claim.holder, names)

    @staticmethod
    def _same_pod(row: PodClaim, pod: Pod | None) -> Pod | None:
        """Return the pod if it is the one of the claim, and will still run. One of the same name may be another pod."""
        if pod is None or pod.has_ended or row.claim.holder not in (pod.holder, pod.fallback_holder):
            return None
        return pod

    def _new_settlement(self, row: PodClaim) -> VolumeSettlement:
        """Return the settlement of a volume that has just been seen."""
        settlement = VolumeSettlement()
        names = {version.object_name for version in row.figures.values() if version.object_name is not None}
        self._read_versions(settlement, names)
        return settlement

    def _read_versions(self, settlement: VolumeSettlement, names: Iterable[str]) -> None:
        """Read the present versions of objects."""
        versions = {name: self._cluster.capacity_version(name) for name in names}
        settlement.object_versions.update({name: version for name, version in versions.items() if version is not None})

    def _volume_state(self, row: PodClaim, namespace: str, pod: Pod | None, holder_state: _HolderState) -> _VolumeState:
        volume, node = row.claim.volume, row.claim.node
        if volume.endswith(INLINE_SUFFIX):
            target_node = None if pod is None else pod.spec.node_name
            provisioned = pod is not None and pod.has_started
        else:
            claim = self._cluster.persistent_volume_claim(namespace, volume)
            if claim is None and row.persistent_volume is not None:
                return self._state_of_unclaimed(row.persistent_volume)
            provisioned = claim is not None and bool(claim.spec.volume_name)
            target_node = None if claim is None else claim.selected_node or (node if provisioned else None)
            if claim is not None and target_node:
                holder_state.persistent_volumes[volume] = claim.spec.volume_name or ""
        if not target_node and pod is not None and pod.nominated_node == node:
            return _VolumeState.NOMINATED
        if not target_node:
            return _VolumeState.RELEASABLE if pod is None else _VolumeState.WAITING
        if target_node != node and not self._has_access(target_node, row):
            return _VolumeState.RELEASABLE
        return _VolumeState.PROVISIONED if provisioned else _VolumeState.PROVISIONING

    def _state_of_unclaimed(self, persistent_volume: str) -> _VolumeState:
        """Return the state of a volume whose persistent volume claim was deleted after its creation had begun."""
        if not persistent_volume:
            return _VolumeState.WAITING
        is_there = self._cluster.persistent_volume(persistent_volume) is not None
        return _VolumeState.PROVISIONED if is_there else _VolumeState.RELEASABLE

    def _has_access(self, node: str, row: PodClaim) -> bool:
        labels = self._cluster.node_labels([node]).get(node, {})
        with self._database.reading(snapshot=True) as session:
            columns = self._pool_cache.read(session, [row.claim.driver]).get(row.claim.driver)
        key = row.claim.storage_class, row.claim.pool
        if columns is None or key not in columns.row_of:
            # The pool is unknown, so the node may have access to it.
            return True
        return node_accessibility.is_accessible(columns, key, Node(node, labels))


def _claim_key(claim: Claim) -> Hashable:
    return claim.volume, claim.node, claim.driver, claim.storage_class, claim.pool
