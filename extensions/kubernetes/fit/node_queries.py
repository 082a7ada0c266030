# SPDX-License-Identifier: Apache-2.0
"""Queries for the nodes that take volumes together, and claims on the capacity of one of them."""

import datetime
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import orm

from tonnage.extensions.kubernetes.capacity import claim_rows, driver_rows, pool_columns
from tonnage.extensions.kubernetes.capacity.claim_cache import ClaimCache
from tonnage.extensions.kubernetes.capacity.claim_rows import Moment
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.capacity.driver_storage import EPHEMERAL
from tonnage.extensions.kubernetes.capacity.node_accessibility import AccessibilityCache
from tonnage.extensions.kubernetes.capacity.node_packing import PackingPools
from tonnage.extensions.kubernetes.capacity.pool_cache import DriverState, PoolCache
from tonnage.extensions.kubernetes.capacity.pool_columns import PoolColumns
from tonnage.extensions.kubernetes.cluster.nodes import Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, node_decision
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
    """The data that a decision is made from, for each driver, and their time.

    ``pools`` has the pools less the claims, without those that the decision replaces, and ``additions`` how many claims
    were added so far, None if other claims are not known.
    """

    columns: Mapping[str, PoolColumns]
    pools: Mapping[str, PackingPools]
    additions: Mapping[str, int | None]
    now: datetime.datetime

    def supports(self, later: "_Basis") -> bool:
        """Return whether a node that fits by these data fits by the ``later`` ones.

        So it is if no figures were written, no pool has expired, and no claim was added. A lease that has ended only
        leaves more room, and a renewed lease takes none.
        """
        if self.columns.keys() != later.columns.keys() or None in self.additions.values():
            return False
        began, ended = pool_columns.to_microseconds(self.now), pool_columns.to_microseconds(later.now)
        return self.additions == later.additions and all(
            columns is later.columns[name]
            and not bool(((columns.expires_at > began) & (columns.expires_at <= ended)).any())
            for name, columns in self.columns.items()
        )

    def with_claims(self, placements: Sequence[Placement]) -> "_Basis":
        """Return these data with a claim for each placement added."""
        pools, additions = dict(self.pools), dict(self.additions)
        for placement in placements:
            name, count = placement.driver, additions[placement.driver]
            claim = ActiveClaim(placement.pool, placement.size, placement.backing_id, placement.capacity)
            pools[name] = self.columns[name].subtract(pools[name], [(claim, 1)])
            additions[name] = None if count is None else count + 1
        return _Basis(self.columns, pools, additions, self.now)


@dataclass(frozen=True, slots=True)
class _ClaimResult:
    """The result of a transaction that claims.

    ``is_supported`` tells whether the data of the decision were still valid. ``basis`` has the data after the claim,
    None if they do not help with the next one, and ``states`` the locked drivers, if nothing but the claims of
    ``node_claim`` has changed on them.
    """

    decision: Decision
    node_claim: NodeClaim | None
    is_supported: bool
    basis: _Basis | None = None
    states: Mapping[str, DriverState] = field(default_factory=dict)


class NodeQueries:
    """Answers queries from the ledger. Thread-safe, and several processes may decide at once.

    ``shape`` scores the nodes of a claim.
    """

    def __init__(self, database: Database, shape: ScoringShape = SPREAD) -> None:
        self._database = database
        self.shape = shape
        self._cache, self._claims = PoolCache(), ClaimCache()
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
            states = self._cache.read_states(session, {volume.driver for volume in volumes})
            basis = self._basis(session, states, _moment(session, states), volumes, holder)[0]
        return self._decide_on(basis, volumes, nodes), basis

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
        recent = None if self._claims.has_claims(holder) else self._decide_recent(volumes, nodes)
        decision, basis = recent or self._decide_unlocked(volumes, nodes, holder)
        if not decision.packing.fits.any():
            return decision, None
        drivers = {volume.driver for volume in volumes}
        arguments = decision, basis, volumes, nodes, holder, lease, pod, is_nominated
        while isinstance(result := self._database.run(self._claim, drivers, *arguments), set):
            drivers |= result
        if result.node_claim is not None:
            self._remember(result.node_claim, result.states, holder, pod)
        with self._recent_lock:
            if self._recent is None or self._recent[0] <= began:
                self._recent = None if result.basis is None else (began, result.basis)
            if recent is not None and not result.is_supported:
                # Beside other processes that claim all the time, a decision on these data is mostly made again.
                self._pause_end = time.monotonic() + _PAUSE_SECONDS
        return result.decision, result.node_claim

    def _decide_recent(self, volumes: Sequence[Volume], nodes: Nodes) -> tuple[Decision, _Basis] | None:
        """Decide on the data after the last claim; return None if they are too old or no node fits by them.

        A claim checks its basis, and pods mostly come one after the other: the data need not be read twice for a pod.
        The data are with all claims, so the holder must not have any.
        """
        recent, now = self._recent, time.monotonic()
        if recent is None or now - recent[0] > _RECENT_SECONDS or now < self._pause_end:
            return None
        basis = recent[1]
        if basis.columns.keys() != {volume.driver for volume in volumes}:
            return None
        decision = self._decide_on(basis, volumes, nodes)
        return (decision, basis) if decision.packing.fits.any() else None

    def holds(self, holder: str, volume: str, node: str) -> bool:
        """Return whether a holder has an active claim for a volume on a node."""
        with self._database.reading() as session:
            claims = capacity_claims.list_for_holder(session, holder)
        return any((claim.volume, claim.node) == (volume, node) for claim in claims)

    def nodes_of_published_claims(self, holder: str) -> set[str]:
        """Return the nodes of the active claims of a holder that are subtracted from published capacity."""
        with self._database.reading() as session:
            return capacity_claims.nodes_of_published(session, holder)

    def release(self, holder: str) -> None:
        """Release the claims of a holder."""
        self._database.run(capacity_claims.release, holder)

    def _claim(
        self,
        session: orm.Session,
        drivers: Collection[str],
        decision: Decision,
        basis: _Basis,
        volumes: Sequence[Volume],
        nodes: Nodes,
        holder: str,
        lease: float,
        pod: str | None,
        is_nominated: bool,
    ) -> _ClaimResult | set[str]:
        """Claim under the lock of these drivers; return more drivers to lock if the holder has claims on them."""
        states = self._cache.read_states(session, drivers, lock=True)
        # After the lock, for which the transaction may have waited.
        moment = _moment(session, states, holder)
        now, has_claims = moment.now, moment.has_claims
        if has_claims and not (own_drivers := capacity_claims.drivers_of(session, [holder])) <= states.keys():
            return own_drivers
        locked_basis, has_expired = self._basis(session, states, moment, volumes, holder)
        is_supported = basis.supports(locked_basis)
        if not is_supported:
            decision = self._decide_on(locked_basis, volumes, nodes)
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
        if has_expired:
            capacity_claims.delete_expired(session, {placement.uid for placement in node_claim.placements}, now)
        capacity_claims.store(
            session,
            holder,
            node_claim.node,
            node_claim.placements,
            node_claim.expires_at,
            {state.columns.uid: state.claims_version for state in states.values()},
            pod,
            requested,
            has_claims=has_claims,
            is_published=not is_nominated,
        )
        if has_claims:
            return _ClaimResult(decision, node_claim, is_supported)
        # Beside other processes that claim all the time, the data of a claim seldom support the next claim.
        new_basis = locked_basis.with_claims(node_claim.placements) if is_supported else None
        return _ClaimResult(decision, node_claim, is_supported, new_basis, states)

    def _remember(self, node_claim: NodeClaim, states: Mapping[str, DriverState], holder: str, pod: str | None) -> None:
        """Add claims that have been committed to those in memory, so that they need not be read."""
        for name in {placement.driver for placement in node_claim.placements} & states.keys():
            rows = [
                capacity_claims.new_row(holder, placement, node_claim.expires_at, pod, states[name].claims_version + 1)
                for placement in node_claim.placements
                if placement.driver == name
            ]
            self._claims.add(states[name], rows)

    def _basis(
        self,
        session: orm.Session,
        states: Mapping[str, DriverState],
        moment: Moment,
        volumes: Sequence[Volume],
        holder: str | None,
    ) -> tuple[_Basis, bool]:
        """Return the data at a moment, and whether there are claims whose leases have ended."""
        claimed = self._claims.claimed_pools(session, states, moment, holder, {volume.name for volume in volumes})
        basis = _Basis(
            columns={name: state.columns for name, state in states.items()},
            pools={name: entry.pools for name, entry in claimed.items()},
            additions={name: entry.additions for name, entry in claimed.items()},
            now=moment.now,
        )
        return basis, any(entry.has_expired for entry in claimed.values())

    def _decide_on(self, basis: _Basis, volumes: Sequence[Volume], nodes: Nodes) -> Decision:
        now = pool_columns.to_microseconds(basis.now)
        return node_decision.decide(basis.columns, basis.pools, now, volumes, nodes, self._accessibility)


def _moment(session: orm.Session, states: Mapping[str, DriverState], holder: str | None = None) -> Moment:
    return claim_rows.moment(session, [state.columns.uid for state in states.values()], holder)
