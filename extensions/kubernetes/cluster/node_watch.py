# SPDX-License-Identifier: Apache-2.0
"""A watch on the labels of a cluster's nodes, which may come some time after their nodes."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kubernetes import client

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.object_watch import ObjectWatch
from tonnage.extensions.kubernetes.cluster.objects import NodeList

#: The labels of nodes by name. It is never changed: another mapping replaces it.
NodeLabels: TypeAlias = Mapping[str, Mapping[str, str]]


class NodeWatch(ObjectWatch):
    """Keeps the labels of all nodes."""

    thread_name = "node-watch"
    failure = "Nodes cannot be watched, so changes of their labels are seen late"
    event_type = objects.NAMES_AND_LABELS_OF_ONE

    def __init__(self, api: client.ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(client.CoreV1Api(api).list_node, clock)
        self._labels: NodeLabels | None = None

    @property
    def labels(self) -> NodeLabels | None:
        """The labels of all nodes; None before the first list, while changes may be missed, and after a silence."""
        return None if self.is_silent else self._labels

    def _take_list(self, raw: bytes) -> str:
        node_list = objects.decode(raw, NodeList)
        self._labels = {node.metadata.name: node.metadata.labels or {} for node in node_list.items or ()}
        return node_list.metadata.resource_version

    def _take_change(self, kind: str, changed: Mapping[str, Any]) -> None:
        metadata, labels = changed["metadata"], dict(self._labels or {})
        name = metadata["name"]
        if kind == "DELETED":
            labels.pop(name, None)
        elif labels.get(name) == (new := metadata.get("labels") or {}):
            # Only its status has changed, as it does all the time.
            return
        else:
            labels[name] = new
        self._labels = labels

    def _interrupted(self) -> None:
        self._labels, self._resource_version = None, None
