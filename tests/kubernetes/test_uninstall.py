# SPDX-License-Identifier: Apache-2.0
"""What the processes of an installation leave in a cluster: the cluster deletes it with the objects of the chart.

There is no garbage collector here. It deletes an object when its last owner is deleted, so the owners are checked.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, dynamic

from tests.kubernetes import manifests, test_chart
from tests.kubernetes.cluster import SELECTED_NODE, Cluster, wait_until
from tests.kubernetes.installation import Installation

pytestmark = pytest.mark.kubernetes

#: Objects that somebody makes by hand, as the page says, and records that end by themselves.
_BY_HAND = {("Secret", "tonnage-extender-tls"), ("Secret", "tonnage-kube-scheduler-tls")}
_RECORDS = {"Event"}


def present(cluster: Cluster) -> Iterator[Any]:
    """Yield the objects in the namespace of Tonnage, and those of no namespace with its name."""
    kinds = dynamic.DynamicClient(cluster.api)
    seen = set()
    for group in kinds.resources.search():
        if type(group) is not dynamic.resource.Resource or "list" not in group.verbs or "/" in group.name:
            continue
        listed = group.get(namespace=manifests.NAMESPACE) if group.namespaced else group.get()
        for body in listed.items:
            is_ours = group.namespaced or body.metadata.name.startswith("tonnage")
            # The same object is in several versions of the API.
            if is_ours and body.metadata.uid not in seen:
                seen.add(body.metadata.uid)
                yield body


def test_nothing_stays_without_the_objects_of_the_chart(cluster: Cluster, tonnage: Installation) -> None:
    """After claims, wakes, elections and publications, with the objects that all of these write."""
    cluster.add_nodes("n1")
    tonnage.set_capacities(n1="10Gi")
    cluster.add_pod("pod", a="6Gi")
    wait_until(lambda: SELECTED_NODE in (cluster.claims()["a"].metadata.annotations or {}), "room is claimed")
    custom = client.CustomObjectsApi(cluster.api)

    def published() -> list[Any]:
        listed: Any = custom.list_namespaced_custom_object(
            "storage.k8s.io", "v1alpha1", manifests.NAMESPACE, "csistoragecapacities"
        )
        return list(listed["items"])

    wait_until(published, "capacity is published")
    wait_until(
        lambda: (
            client.CoordinationV1Api(cluster.api)
            .read_namespaced_lease("tonnage-kube-scheduler", manifests.NAMESPACE)
            .spec.holder_identity
        ),
        "a scheduler is elected",
    )
    chart = {*test_chart.render(**test_chart.PLAIN), ("Namespace", "tonnage"), ("Job", "tonnage-schema")}
    objects = list(present(cluster))
    of_chart = {body.metadata.uid for body in objects if (body.kind, body.metadata.name) in chart}
    assert len(of_chart) > 20

    def stays(body: Any) -> bool:
        key, owners = (body.kind, body.metadata.name), {owner.uid for owner in body.metadata.ownerReferences or ()}
        return not (
            body.metadata.uid in of_chart or key in _BY_HAND or body.kind in _RECORDS or (owners and owners <= of_chart)
        )

    assert [(body.kind, body.metadata.name) for body in objects if stays(body)] == []
