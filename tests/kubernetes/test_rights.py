# SPDX-License-Identifier: Apache-2.0
"""The rights of the accounts, and the objects of the chart, as the API server sees them."""

import pytest
from kubernetes import client, dynamic

from tests.kubernetes import manifests, test_chart
from tests.kubernetes.cluster import Cluster

pytestmark = pytest.mark.kubernetes

_STORAGE = "storage.k8s.io"

#: Rights that the processes of an account use: verb, group, resource, namespace (None: all).
_USED: dict[str, list[tuple[str, str, str, str | None]]] = {
    "tonnage-extender": [
        ("get", "", "persistentvolumeclaims", None),
        ("get", _STORAGE, "storageclasses", None),
        ("list", _STORAGE, "storageclasses", None),
        ("list", "", "nodes", None),
        ("watch", "", "pods", None),
        *((verb, _STORAGE, "csistoragecapacities", None) for verb in ("get", "list", "patch", "watch")),
        *(("get", "apps", kind, None) for kind in ("daemonsets", "deployments", "replicasets", "statefulsets")),
        ("get", "coordination.k8s.io", "leases", None),
    ],
    "tonnage-publisher": [
        ("list", "", "nodes", None),
        ("list", _STORAGE, "storageclasses", None),
        *((verb, _STORAGE, "csistoragecapacities", "tonnage") for verb in ("create", "delete", "list", "update")),
    ],
}

#: Rights that none of them may have, and those that only one has.
_REFUSED: list[tuple[str, str, str, str | None]] = [
    ("get", "", "secrets", "tonnage"),
    ("list", "", "secrets", None),
    ("patch", "", "pods", None),
    ("delete", "", "pods", None),
    ("create", "", "pods", "tonnage"),
    ("update", "", "nodes", None),
    ("update", "", "persistentvolumeclaims", None),
    ("create", _STORAGE, "csistoragecapacities", "default"),
    ("update", "coordination.k8s.io", "leases", "tonnage"),
    ("update", "apps", "deployments", "tonnage"),
    ("*", "*", "*", None),
]
_REFUSED_OF: dict[str, list[tuple[str, str, str, str | None]]] = {
    "tonnage-extender": [("create", _STORAGE, "csistoragecapacities", "tonnage")],
    "tonnage-publisher": [("watch", "", "pods", None), ("list", _STORAGE, "csistoragecapacities", None)],
}


@pytest.mark.parametrize("account", _USED)
def test_an_account_can_do_what_it_needs_and_not_more(installed: Cluster, account: str) -> None:
    def has(right: tuple[str, str, str, str | None]) -> bool:
        verb, group, resource, namespace = right
        return is_allowed(installed, account, verb=verb, group=group, resource=resource, namespace=namespace or "")

    assert [right for right in _USED[account] if not has(right)] == []
    assert [right for right in (*_REFUSED, *_REFUSED_OF[account]) if has(right)] == []


def is_allowed(cluster: Cluster, account: str, **attributes: str) -> bool:
    """Return whether an account has a right."""
    user = f"system:serviceaccount:{manifests.NAMESPACE}:{account}"
    spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=client.V1ResourceAttributes(**attributes))
    review = client.AuthorizationV1Api(cluster.api).create_subject_access_review(
        client.V1SubjectAccessReview(spec=spec)
    )
    return bool(review.status.allowed)


def test_rights_for_one_object_are_for_no_other(installed: Cluster) -> None:
    claim = {"verb": "patch", "resource": "persistentvolumeclaims", "namespace": "tonnage"}
    assert is_allowed(installed, "tonnage-extender", name="tonnage-wake", **claim)
    assert not is_allowed(installed, "tonnage-extender", name="data", **claim)
    deployment = {"verb": "get", "group": "apps", "resource": "deployments", "namespace": "tonnage"}
    assert is_allowed(installed, "tonnage-publisher", name="tonnage-publisher", **deployment)
    assert not is_allowed(installed, "tonnage-publisher", name="tonnage-extender", **deployment)
    lease = {"verb": "update", "group": "coordination.k8s.io", "resource": "leases", "namespace": "tonnage"}
    assert is_allowed(installed, "tonnage-kube-scheduler", name="tonnage-kube-scheduler", **lease)
    assert not is_allowed(installed, "tonnage-kube-scheduler", name="other", **lease)


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [("create", "", "pods/binding"), ("list", "", "pods"), ("watch", _STORAGE, "csinodes")],
)
def test_the_second_scheduler_can_do_its_work(installed: Cluster, verb: str, group: str, resource: str) -> None:
    resource, _, subresource = resource.partition("/")
    assert is_allowed(
        installed, "tonnage-kube-scheduler", verb=verb, group=group, resource=resource, subresource=subresource
    )


@pytest.mark.parametrize("account", ["tonnage-kube-scheduler", "default"])
def test_other_accounts_read_no_secrets(installed: Cluster, account: str) -> None:
    for verb in ("get", "list"):
        assert not is_allowed(installed, account, verb=verb, resource="secrets", namespace="tonnage")
    assert not is_allowed(installed, account, verb="*", resource="*", group="*")


def test_the_api_server_accepts_the_objects_of_the_chart(installed: Cluster) -> None:
    """Everything that the chart has is on; the objects of the manifests are there already."""
    agents = {"local": {"configuration": "[DEFAULT]\n", "hostPaths": {"/csi": "/var/lib/kubelet/plugins/disk"}}}
    objects = test_chart.render(scheduler={"enabled": True}, agents=agents)
    kinds = dynamic.DynamicClient(installed.api)
    statuses = {}
    for name, body in objects.items():
        version = {"policy/v1": "policy/v1beta1"}.get(body["apiVersion"], body["apiVersion"])
        kind = kinds.resources.get(api_version=version, kind=body["kind"])
        namespace = body["metadata"].get("namespace")
        try:
            kind.create({**body, "apiVersion": version}, namespace=namespace, dry_run="All")
            statuses[name] = 201
        except client.ApiException as error:
            statuses[name] = error.status
    # Those that the installation has made are there.
    assert set(statuses.values()) == {201, 409}
    made = {name for name, status in statuses.items() if status == 201}
    assert {
        ("Deployment", "tonnage-scheduler"),
        ("DaemonSet", "tonnage-agent-local"),
        ("Service", "tonnage-metrics"),
        ("NetworkPolicy", "tonnage"),
    } <= made
