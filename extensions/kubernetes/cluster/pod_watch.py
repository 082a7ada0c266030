# SPDX-License-Identifier: Apache-2.0
"""A watch on the pending pods of a cluster.

Few pods are pending in any cluster. A pod that starts, ends or is deleted leaves the watch, and the server sends that
as a deletion. So an event identifies the pod to check and, unless it is a deletion, tells whether others are evicted
for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubernetes import client

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.object_watch import ObjectWatch
from tonnage.extensions.kubernetes.cluster.objects import PENDING_PODS, PodList


class PodWatch(ObjectWatch):
    """Calls ``notify`` with ``namespace/name`` of each pod that changed, or with None if any pod may have changed.

    ``nominated`` is called with the name of a pod for which kube-scheduler evicts others.
    """

    thread_name = "pod-watch"
    failure = "Pods cannot be watched, so claims for pods are released late"

    def __init__(
        self,
        api: client.ApiClient,
        notify: Callable[[str | None], None],
        nominated: Callable[[str], None] = lambda pod: None,
    ) -> None:
        super().__init__(client.CoreV1Api(api).list_pod_for_all_namespaces, field_selector=PENDING_PODS)
        self._notify, self._nominated = notify, nominated

    def _take_list(self, raw: bytes) -> str:
        version = objects.decode(raw, PodList).metadata.resource_version
        self._notify(None)
        return version

    def _take_change(self, kind: str, changed: Mapping[str, Any]) -> None:
        metadata = changed["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if kind != "DELETED" and changed.get("status", {}).get("nominatedNodeName"):
            self._nominated(name)
        self._notify(name)

    def _interrupted(self) -> None:
        """Do nothing: the next watch continues where this one ended, or begins with a list."""
