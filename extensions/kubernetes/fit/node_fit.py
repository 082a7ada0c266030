# SPDX-License-Identifier: Apache-2.0
"""Answers over RPC about the nodes of a cluster that take volumes together. Nothing is claimed."""

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity.driver_storage import first_duplicate
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.quantities import MAX_BYTES
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_decision import Decision
from tonnage.extensions.kubernetes.fit.node_fit_messages import (
    FitAnswer,
    FitQuery,
    NodePool,
    NodeRefusal,
    NodeVolume,
    UncheckedVolume,
)
from tonnage.extensions.kubernetes.fit.node_queries import MAX_VOLUMES, NodeQueries
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalReasons
from tonnage.ledger.db.database import Database


class NodeFit:
    """Answers from the rows of the ledger. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._queries = NodeQueries(database)

    def answer(self, query: FitQuery) -> FitAnswer:
        """Return the nodes that take the volumes, and why the others do not.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for impossible volumes.
        """
        if len(query.volumes) > MAX_VOLUMES:
            raise errors.InvalidInput(f"volumes are {len(query.volumes)}: a question takes at most {MAX_VOLUMES}")
        if (name := first_duplicate(volume.name for volume in query.volumes)) is not None:
            raise errors.InvalidInput(f"volume {name!r} is named twice")
        nodes = Nodes(Node(name, labels) for name, labels in query.nodes.items())
        return _answer(self._queries.decide([_volume(volume) for volume in query.volumes], nodes, query.holder))


def _volume(volume: NodeVolume) -> Volume:
    if volume.size is not None and not 0 <= volume.size <= MAX_BYTES:
        raise errors.InvalidInput(f"volume {volume.name!r}: size = {volume.size}: it takes 0 to {MAX_BYTES} bytes")
    return Volume(volume.name, volume.driver, volume.storage_class, volume.size)


def _answer(decision: Decision) -> FitAnswer:
    names, fractions, reasons = decision.nodes.names, decision.remaining_fraction().tolist(), RefusalReasons(decision)
    fits = decision.packing.fits.tolist()
    return FitAnswer(
        nodes={name: fractions[row] for row, name in enumerate(names) if fits[row]},
        refused={name: _refusal(reasons, row) for row, name in enumerate(names) if not fits[row]},
        unchecked=[
            UncheckedVolume(volume=unchecked.volume.name, code=unchecked.code, message=unchecked.message)
            for unchecked in decision.unchecked
        ],
    )


def _refusal(reasons: RefusalReasons, row: int) -> NodeRefusal:
    why = reasons.reason(row)
    pools = [
        NodePool(
            driver=pool.driver,
            storage_class=pool.storage_class,
            name=pool.name,
            capacity=pool.capacity,
            left=pool.headroom,
            largest=pool.max_volume_size,
            expired=pool.expired,
        )
        for pool in reasons.accessible_pools(row)
    ]
    return NodeRefusal(code=why.code, message=why.message, volumes=list(why.volumes), exact=why.exact, pools=pools)
