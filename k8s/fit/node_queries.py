# SPDX-License-Identifier: Apache-2.0
"""Asking which nodes take volumes together, and claiming what one of them has."""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import orm

from tonnage.k8s.capacity import driver_rows, pool_columns
from tonnage.k8s.capacity.node_accessibility import Reach
from tonnage.k8s.capacity.pool_cache import Catalogue
from tonnage.k8s.cluster.nodes import Nodes
from tonnage.k8s.fit import capacity_claims, node_decision
from tonnage.k8s.fit.node_decision import Decision, Placed, Volume
from tonnage.ledger.db.database import Database

#: Most volumes of one question.
MOST_VOLUMES = 128


@dataclass(frozen=True, slots=True)
class Promise:
    """What was claimed on which node. Nothing is, and nothing ends, where no volume needs it."""

    node: str
    places: tuple[Placed, ...]
    expires_at: datetime.datetime


class Capacity:
    """Answers by what is in the ledger. Threads may share it, and any number of processes decide at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogue = Catalogue()
        self._reach = Reach()

    def ask(self, volumes: Sequence[Volume], nodes: Nodes, holder: str | None = None) -> Decision:
        """Return which nodes take these volumes now. What the holder has claimed for them does not count."""
        with self._database.reading(snapshot=True) as session:
            return self._decide(session, {volume.driver for volume in volumes}, volumes, nodes, holder)[0]

    def claim(
        self, volumes: Sequence[Volume], nodes: Nodes, holder: str, lease: float, pod: str | None = None
    ) -> tuple[Decision, Promise | None]:
        """Choose a node, where most is left, and claim for so many seconds; None if no node takes the volumes.

        What the holder had claimed before is replaced, so asking again renews it. ``pod`` is namespace and name of the
        one that it is for, whose claim ends with its need (:mod:`tonnage.k8s.fit.claim_release`): what it has for
        volumes that are not asked for any more is kept.
        """
        decision = self.ask(volumes, nodes, holder)
        if not decision.fit.fits.any():
            return decision, None
        return self._database.run(self._claim, volumes, nodes, holder, lease, pod)

    def release(self, holder: str) -> None:
        """Give back what a holder has claimed."""
        self._database.run(capacity_claims.release, holder)

    def _claim(
        self,
        session: orm.Session,
        volumes: Sequence[Volume],
        nodes: Nodes,
        holder: str,
        lease: float,
        pod: str | None,
    ) -> tuple[Decision, Promise | None]:
        # In one order, so that nobody waits for somebody who waits for him.
        names = sorted({volume.driver for volume in volumes})
        held = [name for name in names if driver_rows.locked(session, name) is not None]
        decision, now = self._decide(session, held, volumes, nodes, holder)
        if not decision.fit.fits.any():
            return decision, None
        node = int(np.argmax(np.where(decision.fit.fits, decision.left(), -1.0)))
        promise = Promise(nodes.names[node], tuple(decision.places(node)), now + datetime.timedelta(seconds=lease))
        capacity_claims.forget_ended(session, {place.uid for place in promise.places}, now)
        asked = {volume.name for volume in volumes}
        capacity_claims.put(session, holder, promise.node, promise.places, promise.expires_at, pod, asked)
        return decision, promise

    def _decide(
        self,
        session: orm.Session,
        drivers: Collection[str],
        volumes: Sequence[Volume],
        nodes: Nodes,
        holder: str | None,
    ) -> tuple[Decision, datetime.datetime]:
        now = capacity_claims.now(session)
        known = self._catalogue.read(session, drivers)
        claimed = capacity_claims.live(session, known.values(), now, holder, {volume.name for volume in volumes})
        return node_decision.decide(known, claimed, pool_columns.moment(now), volumes, nodes, self._reach), now
