# SPDX-License-Identifier: Apache-2.0
"""Objects in the form in which external-provisioner writes them, for the drivers TopoLVM, OpenEBS LVM and hostpath."""

from dataclasses import dataclass
from typing import Any

from tests.servers.kube_api import KubeApi
from tonnage.extensions.kubernetes.provisioner.provisioner_state import lease_name

OWNER_UID = "309cd460-2d62-4f40-bbcf-b7765aac5a6d"


@dataclass(frozen=True, kw_only=True)
class PublishedDriver:
    """A driver with one storage class, and its installation. ``manager`` is the label of objects of a node."""

    driver: str
    namespace: str
    node_label: str
    storage_class: str
    parameters: dict[str, str]
    owner_kind: str
    owner: str
    manager: str = "external-provisioner"
    has_lease: bool = True

    @property
    def owner_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{self.owner_kind.lower()}s/{self.owner}"

    @property
    def lease_path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{lease_name(self.driver)}"

    def body(self, node: str, capacity: str, most: str | None = None, name: str | None = None) -> dict[str, Any]:
        """Return the object of a node."""
        owner = {"apiVersion": "apps/v1", "kind": self.owner_kind, "name": self.owner, "uid": OWNER_UID}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {
                "name": name or f"csisc-{self.storage_class}-{node}",
                "generateName": "csisc-",
                "namespace": self.namespace,
                "uid": f"uid-{self.storage_class}-{node}",
                "creationTimestamp": "2026-01-02T12:00:00Z",
                "labels": {
                    "csi.storage.k8s.io/drivername": self.driver,
                    "csi.storage.k8s.io/managed-by": self.manager.format(node=node),
                },
                "ownerReferences": [{**owner, "controller": True}],
            },
            "storageClassName": self.storage_class,
            "nodeTopology": {"matchLabels": {self.node_label: node}},
            "capacity": capacity,
            **({} if most is None else {"maximumVolumeSize": most}),
        }

    def install(self, kube: KubeApi, ready: int = 1) -> None:
        """Add the storage class, the owner of objects with some ready pods, and the lease."""
        kube.add_class(self.storage_class, self.driver, parameters=self.parameters)
        self.set_ready(kube, ready)
        if self.has_lease:
            self.renew_lease(kube, "2026-01-02T12:00:00.000000Z")

    def set_ready(self, kube: KubeApi, ready: int) -> None:
        key = "numberReady" if self.owner_kind == "DaemonSet" else "readyReplicas"
        kube.add_object(self.owner_path, metadata={"name": self.owner, "uid": OWNER_UID}, status={key: ready})

    def renew_lease(self, kube: KubeApi, at: str, holder: str = "topolvm-controller-1") -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at}
        kube.add_object(self.lease_path, metadata={"name": lease_name(self.driver)}, spec=spec)


TOPOLVM = PublishedDriver(
    driver="topolvm.io",
    namespace="topolvm-system",
    node_label="topology.topolvm.io/node",
    storage_class="topolvm-provisioner",
    parameters={"csi.storage.k8s.io/fstype": "xfs", "topolvm.io/device-class": "ssd"},
    owner_kind="Deployment",
    owner="topolvm-controller",
)
OPENEBS_LVM = PublishedDriver(
    driver="local.csi.openebs.io",
    namespace="openebs",
    node_label="openebs.io/nodename",
    storage_class="openebs-lvmpv",
    parameters={"storage": "lvm", "volgroup": "lvmvg", "fsType": "ext4"},
    owner_kind="StatefulSet",
    owner="openebs-lvm-controller",
)
HOSTPATH = PublishedDriver(
    driver="hostpath.csi.k8s.io",
    namespace="default",
    node_label="topology.hostpath.csi/node",
    storage_class="csi-hostpath-fast",
    parameters={"kind": "fast"},
    owner_kind="DaemonSet",
    owner="csi-hostpathplugin",
    manager="external-provisioner-{node}",
    has_lease=False,
)
DRIVERS = (TOPOLVM, OPENEBS_LVM, HOSTPATH)
