# SPDX-License-Identifier: Apache-2.0
"""kube-scheduler's extender, version 1: what it sends and expects, and the decision between the two.

The types there have no JSON tags, so keys are capitalised. The scheduler sends whole nodes or, if it may, their names
alone; the answer is of the same kind. An answer without keys would refuse every node and say nothing, so all keys are
always there.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from tonnage.capacity import errors
from tonnage.k8s.cluster import objects, pod_volumes
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.cluster.objects import Pod
from tonnage.k8s.cluster.pod_volumes import Records, Unreadable
from tonnage.k8s.fit.node_decision import Decision, Volume
from tonnage.k8s.fit.node_queries import Capacity, Promise
from tonnage.k8s.fit.refusal_reasons import UNRESOLVABLE, Reasons

LOG = logging.getLogger(__name__)

#: Scores go from 0 to this.
_HIGHEST = 10

_AWAY = "Tonnage cannot look up its figures now: the log of tonnage-api has more"


class RawNodes(Struct):
    """Whole nodes, which go back as they came."""

    items: list[msgspec.Raw] | None = None


class Arguments(Struct, rename="pascal"):
    """What is sent: a pod, and the nodes that others have left."""

    pod: Pod
    nodes: RawNodes | None = None
    node_names: list[objects.Name] | None = None


class FilterResult(Struct, rename="pascal"):
    """The nodes that will do, why the others will not, or why nothing can be said.

    On those of ``failed_and_unresolvable_nodes`` nobody is evicted in vain. They are in ``failed_nodes`` too, for
    schedulers older than 1.21; later ones take the former.
    """

    nodes: RawNodes | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Struct, rename="pascal"):
    """How well a node will do."""

    host: str
    score: int


class Extender:
    """Answers kube-scheduler. With a ``lease``, in seconds, one node is left, and what the pod needs is held there."""

    def __init__(self, capacity: Capacity, records: Records, lease: float | None) -> None:
        self._capacity, self._records, self._lease = capacity, records, lease

    def filter(self, raw: bytes) -> FilterResult:
        """Return which nodes take all volumes of a pod together.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for what no scheduler sends.
        """
        arguments = objects.decode(raw, Arguments)
        pod = arguments.pod
        try:
            sent = _Sent(arguments)
            wanted = pod_volumes.volumes(pod, self._records)
            if not wanted:
                return sent.answer(range(len(sent.names)), {}, {})
            decision, promise = self._decide(pod, wanted, self._nodes(sent))
        except errors.NotFound as error:
            return FilterResult(error=error.message)
        except errors.Unavailable as error:
            LOG.warning("Pod %s: %s", pod.title, error.message)
            # It ends up in the pod's events: whoever sees those may know of the cluster, not of the ledger.
            return FilterResult(error=error.message if isinstance(error, Unreadable) else _AWAY)
        return self._answer(pod, sent, decision, promise)

    def prioritize(self, raw: bytes) -> list[HostPriority]:
        """Return for each node which share would be left there, 0..10; 0 for all if that cannot be said.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for what no scheduler sends.
        """
        arguments = objects.decode(raw, Arguments)
        sent = _Sent(arguments)
        try:
            wanted = pod_volumes.volumes(arguments.pod, self._records)
            decision = self._capacity.ask(wanted, self._nodes(sent), arguments.pod.holder)
        except (errors.NotFound, errors.Unavailable) as error:
            LOG.warning("Pod %s: %s", arguments.pod.title, error.message)
            return [HostPriority(name, 0) for name in sent.names]
        scores = (decision.left() * _HIGHEST).astype(int).tolist()
        return [HostPriority(name, score) for name, score in zip(sent.names, scores, strict=True)]

    def _decide(self, pod: Pod, wanted: Sequence[Volume], nodes: Nodes) -> tuple[Decision, Promise | None]:
        if self._lease is None:
            return self._capacity.ask(wanted, nodes, pod.holder), None
        return self._capacity.claim(wanted, nodes, pod.holder, self._lease, pod=pod.title)

    def _nodes(self, sent: "_Sent") -> Nodes:
        labels = self._records.labels(sent.names) if sent.labels is None else sent.labels
        return Nodes(Node(name, labels.get(name, {})) for name in sent.names)

    def _answer(self, pod: Pod, sent: "_Sent", decision: Decision, promise: Promise | None) -> FilterResult:
        reasons, rows = Reasons(decision), decision.taking()
        refused = {sent.names[row]: reasons.why(row) for row, fits in enumerate(decision.fit.fits.tolist()) if not fits}
        failed = {name: why.message for name, why in refused.items()}
        unresolvable = {name: why.message for name, why in refused.items() if why.code in UNRESOLVABLE}
        if promise is not None and promise.places:
            kept = sent.names.index(promise.node)
            failed |= {
                sent.names[row]: f"what the pod needs is held for it on {promise.node}" for row in rows if row != kept
            }
            rows = [kept]
        beside = "".join(f"; {each.message}" for each in decision.unchecked)
        LOG.info("Pod %s: %d of %d nodes take its volumes%s", pod.title, len(rows), len(sent.names), beside)
        return sent.answer(rows, failed, unresolvable)


class _Sent:
    """The nodes that were sent, and the way back. ``labels`` is None where only names came."""

    def __init__(self, arguments: Arguments) -> None:
        self._raw: list[msgspec.Raw] | None = None
        self.labels: Mapping[str, Mapping[str, str]] | None = None
        if arguments.node_names is not None:
            self.names: list[str] = arguments.node_names
            return
        if arguments.nodes is None:
            raise errors.InvalidInput("neither Nodes nor NodeNames were sent")
        self._raw = arguments.nodes.items or []
        nodes = [objects.decode(bytes(each), objects.Node) for each in self._raw]
        self.names = [each.metadata.name for each in nodes]
        self.labels = {each.metadata.name: each.metadata.labels or {} for each in nodes}

    def answer(self, rows: Sequence[int], failed: dict[str, str], unresolvable: dict[str, str]) -> FilterResult:
        result = FilterResult(failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable)
        if self._raw is None:
            result.node_names = [self.names[row] for row in rows]
        else:
            result.nodes = RawNodes([self._raw[row] for row in rows])
        return result
