# SPDX-License-Identifier: Apache-2.0
"""Queries for the nodes that take volumes together, and claims on the capacity of one of them."""

import datetime
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import driver_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.driver_storage import EPHEMERAL
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.capacity.pool_cache import PoolCache
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.cluster.nodes import Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, node_decision
from tonnage.extensions.kubernetes.fit.capacity_claims import ClaimsOnDrivers
from tonnage.extensions.kubernetes.fit.node_decision import Decision, Placement
from tonnage.extensions.kubernetes.fit.scoring_shape import SPREAD, ScoringShape
from tonnage.ledger.db.database import Database

#: Largest number of volumes in a query.
MAX_VOLUMES = 128

#: Seconds for which the data of a claim are the basis of the next decision, which is checked before its claim.
_RECENT_SECONDS = 1.0

#: Seconds for which decisions read their data, after others have changed those of the last claim.
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The claims on a node. Without placements no volume needs capacity, and nothing expires."""

    node: str
    placements: tuple[Placement, ...]
    expires_at: datetime.datetime


@dataclass(frozen=True, slots=True)
class _Basis:
    """The data that a decision was made from: the pools and the claims of each driver, and the time."""

    columns: Mapping[str, PoolColumns]
    claims: ClaimsOnDrivers
    now: datetime.datetime

    def supports(self, later: "_Basis") -> bool:
        """Return whether a node that fits by these data fits by the ``later`` ones.

        So it is if no figures were written, no pool has expired, and no claim was added. A lease that has ended only
        leaves more room, and a renewed lease takes none.
        """
        if self.columns.keys() != later.columns.keys() or not later.claims.are_part_of(
            self.claims, later.now, self.now
        ):
            return False
        began, ended = pool_columns.to_microseconds(self.now), pool_columns.to_microseconds(later.now)
        return all(
            columns is later.columns[name]
            and not bool(((columns.expires_at > began) & (columns.expires_at <= ended)).any())
            for name, columns in self.columns.items()
        )


@dataclass(frozen=True, slots=True)
class _ClaimResult:
    """The result of a transaction that claims.

    ``is_supported`` tells whether the data of the decision were still valid. ``basis`` has the data after the claim,
    None if they do not help with the next one.
    """

    decision: Decision
    node_claim: NodeClaim | None
    is_supported: bool
    basis: _Basis | None = None


class NodeQueries:
    """Answers queries from the ledger. Thread-safe, and several processes may decide at once.

    ``shape`` scores the nodes of a claim.
    """

    def __init__(self, database: Database, shape: ScoringShape = SPREAD) -> None:
        self._database = database
        self.shape = shape
        self._cache = PoolCache()
        self._accessibility = AccessibilityCache()
        #: The data after the last claim, and when they were read, in seconds of the monotonic clock.
        self._recent: tuple[float, _Basis] | None = None
        #: Until when the data after the last claim are not used, in seconds of the monotonic clock.
        self._pause_end = 0.0
        self._recent_lock = threading.Lock()

    def check(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.Unavailable` if the ledger does not answer at once."""
        with self._database.reading(patient=False) as session:
            capacity_claims.now(session)

    def warm_up(self, nodes: Nodes) -> None:
        """Read the pools of all drivers, and compute which of them the nodes reach, before the first query.

        Raises :class:`~tonnage.capacity.errors.Unavailable` if the ledger does not answer.
        """
        with self._database.reading(snapshot=True) as session:
            drivers = self._cache.read(session, [driver.name for driver in driver_rows.list_all(session)])
        for name, columns in drivers.items():
            for storage in columns.storage_rows:
                self.decide([Volume(storage, name, None if storage == EPHEMERAL else storage, 1)], nodes)

    def decide(self, volumes: Sequence[Volume], nodes: Nodes, holder: str | None = None) -> Decision:
        """Return which nodes take these volumes now. The holder's own claims for the volumes do not count."""
        return self._decide_unlocked(volumes, nodes, holder)[0]

    def _decide_unlocked(self, volumes: Sequence[Volume], nodes: Nodes, holder: str | None) -> tuple[Decision, _Basis]:
        with self._database.reading(snapshot=True) as session:
            basis = self._read(session, {volume.driver for volume in volumes})
        return self._decide_on(basis, volumes, nodes, holder), basis

    def claim(
        self,
        volumes: Sequence[Volume],
        nodes: Nodes,
        holder: str,
        lease: float,
        pod: str | None = None,
        *,
        is_nominated: bool = False,
    ) -> tuple[Decision, NodeClaim | None]:
        """Claim capacity for ``lease`` seconds on the node with the highest score; None if no node fits.

        The claims replace the holder's former ones, so a repeated call renews them. ``pod`` is ``namespace/name`` of
        the pod that the claims are for. Its claims are released when they are no longer needed
        (:mod:`tonnage.extensions.kubernetes.fit.claim_release`), and those for volumes outside this query are kept.

        With ``is_nominated`` other pods are evicted for the pod. Then nothing is claimed, and None is returned, if the
        holder has an active claim for one of the volumes on a node outside of ``nodes``, and published capacity is
        without the claims.
        """
        began = time.monotonic()
        recent = self._decide_recent(volumes, nodes, holder)
        decision, basis = recent or self._decide_unlocked(volumes, nodes, holder)
        if not decision.packing.fits.any():
            return decision, None
        result = self._database.run(self._claim, decision, basis, volumes, nodes, holder, lease, pod, is_nominated)
        with self._recent_lock:
            if self._recent is None or self._recent[0] <= began:
                self._recent = None if result.basis is None else (began, result.basis)
            if recent is not None and not result.is_supported:
                # Beside other processes that claim all the time, a decision on these data is mostly made again.
                self._pause_end = time.monotonic() + _PAUSE_SECONDS
        return result.decision, result.node_claim

    def _decide_recent(self, volumes: Sequence[Volume], nodes: Nodes, holder: str) -> tuple[Decision, _Basis] | None:
        """Decide on the data after the last claim; return None if they are too old or no node fits by them.

        A claim checks its basis, and pods mostly come one after the other: the data need not be read twice for a pod.
        """
        recent, now = self._recent, time.monotonic()
        if recent is None or now - recent[0] > _RECENT_SECONDS or now < self._pause_end:
            return None
        basis = recent[1]
        if basis.columns.keys() != {volume.driver for volume in volumes}:
            return None
        decision = self._decide_on(basis, volumes, nodes, holder)
        return (decision, basis) if decision.packing.fits.any() else None

    def holds(self, holder: str, volume: str, node: str) -> bool:
        """Return whether a holder has an active claim for a volume on a node."""
        with self._database.reading() as session:
            claims = capacity_claims.list_for_holder(session, holder)
        return any((claim.volume, claim.node) == (volume, node) for claim in claims)

    def release(self, holder: str) -> None:
        """Release the claims of a holder."""
        self._database.run(capacity_claims.release, holder)

    def _claim(
        self,
        session: orm.Session,
        decision: Decision,
        basis: _Basis,
        volumes: Sequence[Volume],
        nodes: Nodes,
        holder: str,
        lease: float,
        pod: str | None,
        is_nominated: bool,
    ) -> _ClaimResult:
        columns_by_driver = self._cache.read(session, {volume.driver for volume in volumes}, lock=True)
        # After the lock, for which the transaction may have waited.
        now, has_claims = capacity_claims.now_and_has_claims(session, holder)
        claims = capacity_claims.claims_on_drivers(session, columns_by_driver.values())
        locked_basis = _Basis(columns_by_driver, claims, now)
        is_supported = basis.supports(locked_basis)
        if not is_supported:
            decision = self._decide_on(locked_basis, volumes, nodes, holder)
        if not decision.packing.fits.any():
            return _ClaimResult(decision, None, is_supported)
        requested = {volume.name for volume in volumes}
        if (
            has_claims
            and is_nominated
            and any(
                claim.volume in requested and claim.node not in nodes.names
                for claim in capacity_claims.list_for_holder(session, holder)
            )
        ):
            return _ClaimResult(decision, None, is_supported)
        scores = self.shape.scores(decision)
        node = int(np.argmax(np.where(decision.packing.fits, scores, -1.0)))
        node_claim = NodeClaim(
            nodes.names[node], tuple(decision.placements(node)), now + datetime.timedelta(seconds=lease)
        )
        if claims.has_expired(now):
            capacity_claims.delete_expired(session, {placement.uid for placement in node_claim.placements}, now)
        capacity_claims.store(
            session,
            holder,
            node_claim.node,
            node_claim.placements,
            node_claim.expires_at,
            pod,
            requested,
            has_claims=has_claims,
            is_published=not is_nominated,
        )
        # Beside other processes that claim all the time, the data of a claim seldom support the next claim.
        if not is_supported or has_claims:
            return _ClaimResult(decision, node_claim, is_supported)
        claims = claims.with_first(holder, node_claim.placements, node_claim.expires_at, pod)
        return _ClaimResult(decision, node_claim, is_supported, _Basis(columns_by_driver, claims, now))

    def _read(self, session: orm.Session, drivers: Collection[str]) -> _Basis:
        now = capacity_claims.now(session)
        columns_by_driver = self._cache.read(session, drivers)
        claims = capacity_claims.claims_on_drivers(session, columns_by_driver.values())
        return _Basis(columns_by_driver, claims, now)

    def _decide_on(self, basis: _Basis, volumes: Sequence[Volume], nodes: Nodes, holder: str | None) -> Decision:
        now = pool_columns.to_microseconds(basis.now)
        claimed = basis.claims.active(basis.now, holder, {volume.name for volume in volumes})
        return node_decision.decide(basis.columns, claimed, now, volumes, nodes, self._accessibility)
