# SPDX-License-Identifier: Apache-2.0
"""The preemption call of kube-scheduler extenders, version 1: the pods to evict for a pod, by node.

kube-scheduler sends the nodes on which its own plug-ins would take the pod once some pods there, the victims, are gone.
The answer leaves out the nodes that would not take the volumes of the pod all the same. No eviction frees room for
them: the volume of a claim stays when its pod goes, and the room of an ephemeral volume is free only when the driver
has deleted the volume.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.objects import Metadata, Pod


class VictimPod(Struct):
    """A whole pod that would be evicted."""

    metadata: Metadata


class MetaPod(Struct):
    """The uid of a pod that would be evicted."""

    uid: objects.Name = msgspec.field(name="UID")


class Victims(Struct, rename="pascal"):
    """The pods that would be evicted from a node, and the number of disruption budgets that this would violate."""

    pods: list[VictimPod] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class MetaVictims(Struct, rename="pascal"):
    """The same, with the uids of the pods instead of the pods."""

    pods: list[MetaPod] | None = None
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class PreemptionArguments(Struct, rename="pascal"):
    """A call: a pod, and the victims by node; with uids alone if kube-scheduler sends names of nodes."""

    pod: Pod
    node_name_to_victims: dict[objects.Name, Victims | None] | None = None
    node_name_to_meta_victims: dict[objects.Name, MetaVictims | None] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        """Return the victims of each node, by their uids."""
        if self.node_name_to_meta_victims is not None:
            return {name: victims or MetaVictims() for name, victims in self.node_name_to_meta_victims.items()}
        return {
            name: MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)
            if victims
            else MetaVictims()
            for name, victims in (self.node_name_to_victims or {}).items()
        }


class PreemptionResult(Struct, rename="pascal"):
    """The answer: the victims of the nodes that remain, by their uids in both forms of the call."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def remaining(victims: Mapping[str, MetaVictims], fits: Mapping[str, bool]) -> dict[str, MetaVictims]:
    """Return the nodes from which pods may be evicted; ``fits`` tells which of them take the volumes of the pod.

    A node without victims never remains: kube-scheduler takes none, and before 1.21 it crashes at one. If such a node
    takes the volumes, room has come since the pod was filtered. Then no node remains, because no eviction is needed.
    """
    if any(fits[name] and not of_node.pods for name, of_node in victims.items()):
        return {}
    return {name: of_node for name, of_node in victims.items() if fits[name]}
