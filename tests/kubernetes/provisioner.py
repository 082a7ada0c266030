# SPDX-License-Identifier: Apache-2.0
"""A provisioner of volumes that also stands in for the driver and for the controller that binds claims."""

from kubernetes import client

from tests.kubernetes.cluster import DRIVER, HOSTNAME, NAMESPACE, SELECTED_NODE, Cluster
from tonnage.extensions.kubernetes.cluster import quantities

_CONFLICT = 409

_BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


class Provisioner:
    """Nodes with these capacities, from which volumes are provisioned. ``refused`` counts the volumes that did not fit.

    It has no thread: call :meth:`run_once`.
    """

    def __init__(self, cluster: Cluster, **sizes: str) -> None:
        self._cluster = cluster
        self.free = {node: quantities.parse(size) for node, size in sizes.items()}
        self.refused = 0
        self._provisioned: set[str] = set()

    def run_once(self) -> None:
        """Provision and bind the volumes of claims with a selected node.

        If the node has no room, remove the selection, so that kube-scheduler selects again.
        """
        for claim in self._cluster.claims().values():
            node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
            if node is None or claim.spec.volume_name:
                continue
            try:
                self._provision(claim, node)
            except client.ApiException as error:
                # The claim has changed in the meantime. The next call tries again.
                if error.status != _CONFLICT:
                    raise

    def remove(self, claim: client.V1PersistentVolumeClaim) -> None:
        """Delete the volume of a claim that is gone, as the driver does."""
        volume = self._cluster.core.read_persistent_volume(claim.spec.volume_name)
        self._cluster.core.delete_persistent_volume(claim.spec.volume_name)
        [term] = volume.spec.node_affinity.required.node_selector_terms
        [node] = term.match_expressions[0].values
        self.free[node] += quantities.parse(claim.spec.resources.requests["storage"])

    def _provision(self, claim: client.V1PersistentVolumeClaim, node: str) -> None:
        volume, size = f"pvc-{claim.metadata.uid}", quantities.parse(claim.spec.resources.requests["storage"])
        if volume not in self._provisioned:
            if size > self.free[node]:
                self.refused += 1
                del claim.metadata.annotations[SELECTED_NODE]
                self._cluster.core.replace_namespaced_persistent_volume_claim(claim.metadata.name, NAMESPACE, claim)
                return
            self._make(volume, claim, node)
            self._provisioned.add(volume)
            self.free[node] -= size
        self._bind(claim, volume)

    def _make(self, name: str, claim: client.V1PersistentVolumeClaim, node: str) -> None:
        here = client.V1NodeSelectorRequirement(key=HOSTNAME, operator="In", values=[node])
        terms = [client.V1NodeSelectorTerm(match_expressions=[here])]
        spec = client.V1PersistentVolumeSpec(
            access_modes=claim.spec.access_modes,
            capacity=claim.spec.resources.requests,
            claim_ref=client.V1ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                name=claim.metadata.name,
                namespace=NAMESPACE,
                uid=claim.metadata.uid,
            ),
            csi=client.V1CSIPersistentVolumeSource(driver=DRIVER, volume_handle=name),
            node_affinity=client.V1VolumeNodeAffinity(required=client.V1NodeSelector(node_selector_terms=terms)),
            persistent_volume_reclaim_policy="Delete",
            storage_class_name=claim.spec.storage_class_name,
        )
        metadata = client.V1ObjectMeta(name=name, annotations={"pv.kubernetes.io/provisioned-by": DRIVER})
        self._cluster.core.create_persistent_volume(client.V1PersistentVolume(metadata=metadata, spec=spec))

    def _bind(self, claim: client.V1PersistentVolumeClaim, volume: str) -> None:
        claim.metadata.annotations |= _BOUND
        claim.spec.volume_name = volume
        core, name = self._cluster.core, claim.metadata.name
        claim = core.replace_namespaced_persistent_volume_claim(name, NAMESPACE, claim)
        claim.status.phase = "Bound"
        claim.status.access_modes, claim.status.capacity = claim.spec.access_modes, claim.spec.resources.requests
        core.replace_namespaced_persistent_volume_claim_status(name, NAMESPACE, claim)
