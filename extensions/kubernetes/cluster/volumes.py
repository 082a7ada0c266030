# SPDX-License-Identifier: Apache-2.0
"""The volumes of a pod that have to be provisioned, and the objects that they are copied from."""

from dataclasses import dataclass, field

from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.cluster.nodes import Node


@dataclass(frozen=True, slots=True)
class CopySource:
    """The volume or snapshot that a volume is copied from, which has to be where the copy is.

    ``accessibility`` selects the nodes that reach it, None means all. ``unchecked`` is the reason why these are not
    known, if they are not.
    """

    text: str
    accessibility: NodeSelector | None = None
    unchecked: str | None = None

    def is_reached_from(self, node: Node) -> bool:
        """Return whether a node reaches it."""
        return self.accessibility is None or self.accessibility.matches(node.name, node.labels)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume to provision. ``storage_class`` is None for an inline ephemeral volume. ``size`` is bytes.

    ``selected_node`` is the node that the volume is being made for, None if its creation has not begun.
    """

    name: str
    driver: str
    storage_class: str | None
    size: int | None
    source: CopySource | None = None
    selected_node: str | None = field(default=None, compare=False)
