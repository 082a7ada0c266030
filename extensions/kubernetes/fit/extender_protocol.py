# SPDX-License-Identifier: Apache-2.0
"""The protocol of kube-scheduler extenders, version 1: requests, responses, and the decisions between them.

The Go types have no JSON tags, so keys are capitalised. The scheduler sends whole nodes, or only their names if it is
configured so; the response has the same kind. A response without keys would refuse every node without a reason, so all
keys are always present.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import objects, pod_volumes
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.objects import Pod
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterObjects, ClusterUnavailable
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import extender_instruments, preemption, refusal_reasons
from tonnage.extensions.kubernetes.fit.node_decision import Decision
from tonnage.extensions.kubernetes.fit.node_queries import NodeClaim, NodeQueries
from tonnage.extensions.kubernetes.fit.preemption import Nominations, PreemptionArguments, PreemptionResult
from tonnage.extensions.kubernetes.fit.refusal_reasons import RefusalReasons

LOG = logging.getLogger(__name__)

#: Number of pods for which others are evicted that are read before a decision. The tasks of claims read the others.
_MOST_NOMINATED_PODS = 4

_LEDGER_UNAVAILABLE = "Tonnage cannot look up its figures now: the log of tonnage-api has more"


class RawNodes(Struct):
    """Whole nodes, which are returned unchanged."""

    items: list[msgspec.Raw] | None = None


class Arguments(Struct, rename="pascal"):
    """A request: a pod, and the nodes that have passed the other filters."""

    pod: Pod
    nodes: RawNodes | None = None
    node_names: list[objects.Name] | None = None


class FilterResult(Struct, rename="pascal"):
    """The nodes that fit, or the reasons for all nodes if none does, or an error.

    kube-scheduler evicts no pods on ``failed_and_unresolvable_nodes``: all nodes that do not take the volumes, because
    no eviction frees room for them. These nodes are in ``failed_nodes`` too, for schedulers older than 1.21; later ones
    give precedence to the former.
    """

    nodes: RawNodes | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Struct, rename="pascal"):
    """The score of a node."""

    host: str
    score: int


class Extender:
    """Handles the requests of kube-scheduler.

    With a ``lease``, in seconds, the filter returns one node and claims the capacity for the pod's volumes there.
    ``before_claims`` is called before, and may raise :class:`~tonnage.capacity.errors.Unavailable`. ``nominations``
    claims the storage of pods for which others are evicted.
    """

    def __init__(
        self,
        queries: NodeQueries,
        cluster: ClusterObjects,
        lease: float | None,
        before_claims: Callable[[], None] | None = None,
        nominations: Nominations | None = None,
    ) -> None:
        self._queries, self._cluster, self._lease = queries, cluster, lease
        self._before_claims, self._nominations = before_claims or (lambda: None), nominations
        self._warming = False
        self._all_nodes: tuple[Mapping[str, Mapping[str, str]], Nodes] = {}, Nodes(())

    def filter(self, raw: bytes) -> FilterResult:
        """Return the nodes that take all volumes of a pod together.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a malformed request.
        """
        arguments = objects.decode(raw, Arguments)
        pod = arguments.pod
        try:
            sent_nodes = _SentNodes(arguments)
            volumes = pod_volumes.unprovisioned(pod, self._cluster)
            if not volumes:
                extender_instruments.PODS.labels("no_volumes").inc()
                return sent_nodes.answer(range(len(sent_nodes.names)), {})
            decision, node_claim = self._decide(pod, volumes, self._nodes(sent_nodes))
        except errors.NotFound as error:
            extender_instruments.PODS.labels("error").inc()
            return FilterResult(error=error.message)
        except errors.Unavailable as error:
            extender_instruments.PODS.labels("error").inc()
            LOG.warning("Pod %s: %s", pod.full_name, error.message)
            # The message appears in the pod's events. Their readers may see the cluster's errors, but not the ledger's.
            return FilterResult(error=error.message if isinstance(error, ClusterUnavailable) else _LEDGER_UNAVAILABLE)
        return self._answer(pod, sent_nodes, decision, node_claim)

    def prioritize(self, raw: bytes) -> list[HostPriority]:
        """Return the score of each node by the scoring shape, 0 to 10; 0 for all nodes after an error.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a malformed request.
        """
        arguments = objects.decode(raw, Arguments)
        sent_nodes = _SentNodes(arguments)
        try:
            volumes = pod_volumes.unprovisioned(arguments.pod, self._cluster)
            decision = self._queries.decide(volumes, self._nodes(sent_nodes), arguments.pod.holder)
        except (errors.NotFound, errors.Unavailable) as error:
            LOG.warning("Pod %s: %s", arguments.pod.full_name, error.message)
            return [HostPriority(name, 0) for name in sent_nodes.names]
        scores = self._queries.shape.priorities(decision)
        return [HostPriority(name, score) for name, score in zip(sent_nodes.names, scores, strict=True)]

    def preempt(self, raw: bytes) -> PreemptionResult:
        """Return the nodes from which pods may be evicted for a pod, with these pods.

        Raises :class:`~tonnage.capacity.errors.InvalidInput` for a malformed request,
        :class:`~tonnage.capacity.errors.NotFound` and :class:`~tonnage.capacity.errors.Unavailable` if it cannot be
        decided; kube-scheduler then evicts nothing.
        """
        arguments = objects.decode(raw, PreemptionArguments)
        pod, victims = arguments.pod, arguments.victims()
        volumes = pod_volumes.unprovisioned(pod, self._cluster)
        if not volumes:
            return PreemptionResult(preemption.remaining(victims, dict.fromkeys(victims, True)))
        self._before_claims()
        # With its own claim subtracted, kube-scheduler refuses the node of the claim, where no pod may have to go.
        claimed_nodes = self._queries.nodes_of_published_claims(pod.holder)
        if claimed_nodes:
            victims = {name: of_node for name, of_node in victims.items() if name in claimed_nodes}
        nodes = self._named(list(victims))
        decision = self._queries.decide(volumes, nodes, pod.holder)
        kept = preemption.remaining(victims, dict(zip(nodes.names, decision.packing.fits.tolist(), strict=True)))
        LOG.info("Pod %s: pods may be evicted from %d of %d nodes", pod.full_name, len(kept), len(victims))
        if kept and self._nominations is not None:
            self._nominations.expect(pod.full_name)
        return PreemptionResult(kept)

    def warm_up(self) -> None:
        """Read the nodes and the pools before the first request, which would take longer. An error is of no concern."""
        self._warming = True
        try:
            self._queries.warm_up(self._known_nodes())
            self._before_claims()
        except errors.Unavailable as error:
            LOG.info("The first pod takes longer: %s", error.message)
        finally:
            self._warming = False

    def problems(self) -> list[str]:
        """Return the reasons why the extender cannot decide on pods now; empty if it can."""
        problems = ["the pools are being read for the first time"] if self._warming else []
        try:
            self._queries.check()
        except errors.Unavailable:
            problems.append("the database of the ledger does not answer")
        try:
            self._cluster.node_labels(())
        except errors.Unavailable:
            problems.append("the API server of Kubernetes does not answer")
        return problems

    def _decide(self, pod: Pod, volumes: Sequence[Volume], nodes: Nodes) -> tuple[Decision, NodeClaim | None]:
        if self._lease is None:
            return self._queries.decide(volumes, nodes, pod.holder), None
        self._before_claims()
        if self._nominations is not None:
            self._nominations.claim(_MOST_NOMINATED_PODS)
        return self._queries.claim(volumes, nodes, pod.holder, self._lease, pod=pod.full_name)

    def _nodes(self, sent_nodes: "_SentNodes") -> Nodes:
        labels = sent_nodes.labels
        if labels is None:
            return self._named(sent_nodes.names)
        return Nodes(Node(name, labels.get(name, {})) for name in sent_nodes.names)

    def _named(self, names: Sequence[str]) -> Nodes:
        """Return the nodes with these names."""
        selection = self._known_nodes().selection(names)
        if selection is not None:
            return selection
        labels = self._cluster.node_labels(names)
        return Nodes(Node(name, labels.get(name, {})) for name in names)

    def _known_nodes(self) -> Nodes:
        """Return all nodes of the cluster, the same object while their labels stay the same."""
        labels = self._cluster.all_node_labels()
        known_labels, nodes = self._all_nodes
        if labels is not known_labels:
            nodes = (
                nodes
                if labels == known_labels
                else Nodes(Node(name, node_labels) for name, node_labels in labels.items())
            )
            self._all_nodes = labels, nodes
        return nodes

    def _answer(
        self, pod: Pod, sent_nodes: "_SentNodes", decision: Decision, node_claim: NodeClaim | None
    ) -> FilterResult:
        rows = decision.fitting_nodes()
        for code, number in refusal_reasons.counts(decision).items():
            extender_instruments.REFUSALS.labels(code.value).inc(number)
        extender_instruments.PODS.labels("fits" if rows else "refused").inc()
        # kube-scheduler shows the reasons only if no node fits. Thousands of them take most of the time.
        failed = {} if rows else self._reasons(sent_nodes, decision)
        if node_claim is not None and node_claim.placements:
            rows = [sent_nodes.names.index(node_claim.node)]
        sources = [checked_volume.volume.source for checked_volume in decision.checked]
        notes = [
            f"where {source.text} is was not checked: {source.unchecked}"
            for source in sources
            if source and source.unchecked
        ]
        unchecked = "".join(
            f"; {note}" for note in [*(unchecked_volume.message for unchecked_volume in decision.unchecked), *notes]
        )
        LOG.info(
            "Pod %s: %d of %d nodes take its volumes%s", pod.full_name, len(rows), len(sent_nodes.names), unchecked
        )
        return sent_nodes.answer(rows, failed)

    @staticmethod
    def _reasons(sent_nodes: "_SentNodes", decision: Decision) -> dict[str, str]:
        reasons = RefusalReasons(decision)
        return {name: reasons.reason(row).message for row, name in enumerate(sent_nodes.names)}


class _SentNodes:
    """The nodes of a request, and the conversion to a response. ``labels`` is None if only names were sent."""

    def __init__(self, arguments: Arguments) -> None:
        self._raw: list[msgspec.Raw] | None = None
        self.labels: Mapping[str, Mapping[str, str]] | None = None
        if arguments.node_names is not None:
            self.names: list[str] = arguments.node_names
            return
        if arguments.nodes is None:
            raise errors.InvalidInput("neither Nodes nor NodeNames were sent")
        self._raw = arguments.nodes.items or []
        nodes = [objects.decode(bytes(raw_node), objects.Node) for raw_node in self._raw]
        self.names = [node.metadata.name for node in nodes]
        self.labels = {node.metadata.name: node.metadata.labels or {} for node in nodes}

    def answer(self, rows: Sequence[int], failed: dict[str, str]) -> FilterResult:
        result = FilterResult(failed_nodes=failed, failed_and_unresolvable_nodes=failed)
        if self._raw is None:
            result.node_names = [self.names[row] for row in rows]
        else:
            result.nodes = RawNodes([self._raw[row] for row in rows])
        return result
