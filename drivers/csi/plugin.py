# SPDX-License-Identifier: Apache-2.0
"""What a plugin of the Container Storage Interface can be asked, in our own words. Sizes are bytes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.drivers.csi import csi_pb2
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
from tonnage.drivers.csi.ephemeral_volumes import Publication
from tonnage.drivers.csi.storage_class_config import Wish

_Service = csi_pb2.PluginCapability.Service
_RPC = csi_pb2.ControllerServiceCapability.RPC

#: Seconds before a plugin that is not ready, or whose list has changed, is asked again.
_PAUSE = 0.1

#: More pages than any list has: a plugin that never ends one has lost its way.
_MOST_PAGES = 10_000


class BadAnswer(Exception):
    """A plugin answers something that the standard does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a plugin says of itself. ``topology``: it takes, and gives, places where volumes can be reached."""

    name: str
    version: str
    topology: bool
    creates: bool
    lists: bool
    capacity: bool
    expands: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is available for volumes, and the limits of a single one; None where the plugin sets none."""

    available: int
    maximum: int | None
    minimum: int | None


@dataclass(frozen=True, slots=True)
class Held:
    """A volume that a plugin has. ``size`` is 0 if unknown; without ``segments`` it can be reached from anywhere."""

    id: str
    size: int
    segments: Sequence[Segment]


class Plugin:
    """A plugin. All methods raise :class:`~tonnage.drivers.csi.connection.CallFailed` and :class:`BadAnswer`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def wait(self, deadline: Deadline) -> bool:
        """Wait until the plugin has started; tell whether it has."""
        answered = False
        while True:
            try:
                answer = self._connection.call(
                    "Identity/Probe", csi_pb2.ProbeRequest(), csi_pb2.ProbeResponse, deadline
                )
            except CallFailed as failure:
                if answered and failure.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                    return False  # as it said; there is no time to hear it once more
                raise
            answered = True
            if not answer.HasField("ready") or answer.ready.value:
                return True
            if deadline.left() < _PAUSE:
                return False
            time.sleep(_PAUSE)

    def abilities(self, deadline: Deadline) -> Abilities:
        """Ask who the plugin is and what it can do."""
        call = self._connection.call
        info = call("Identity/GetPluginInfo", csi_pb2.GetPluginInfoRequest(), csi_pb2.GetPluginInfoResponse, deadline)
        plugin = call(
            "Identity/GetPluginCapabilities",
            csi_pb2.GetPluginCapabilitiesRequest(),
            csi_pb2.GetPluginCapabilitiesResponse,
            deadline,
        )
        services = {capability.service.type for capability in plugin.capabilities}
        rpcs = set()
        if _Service.CONTROLLER_SERVICE in services:
            controller = call(
                "Controller/ControllerGetCapabilities",
                csi_pb2.ControllerGetCapabilitiesRequest(),
                csi_pb2.ControllerGetCapabilitiesResponse,
                deadline,
            )
            rpcs = {capability.rpc.type for capability in controller.capabilities}
        return Abilities(
            name=info.name,
            version=info.vendor_version,
            topology=_Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in services,
            creates=_RPC.CREATE_DELETE_VOLUME in rpcs,
            lists=_RPC.LIST_VOLUMES in rpcs,
            capacity=_RPC.GET_CAPACITY in rpcs,
            expands=_RPC.EXPAND_VOLUME in rpcs,
        )

    def own_segment(self, deadline: Deadline) -> Segment | None:
        """Ask where the node is that the plugin runs on; None if it does not say."""
        answer = self._connection.call(
            "Node/NodeGetInfo", csi_pb2.NodeGetInfoRequest(), csi_pb2.NodeGetInfoResponse, deadline
        )
        return Segment.of(answer.accessible_topology.segments) if answer.accessible_topology.segments else None

    def capacity(self, wish: Wish | None, segment: Segment | None, deadline: Deadline) -> Capacity:
        """Ask what is available for volumes like this in a segment.

        Without a wish it is asked for inline ephemeral volumes, without a segment for wherever that is.
        """
        answer = self._connection.call(
            "Controller/GetCapacity",
            csi_pb2.GetCapacityRequest(
                volume_capabilities=[] if wish is None else [_capability(wish)],
                parameters={} if wish is None else wish.parameters,
                accessible_topology=None if segment is None else _topology(segment),
            ),
            csi_pb2.GetCapacityResponse,
            deadline,
        )
        return Capacity(
            _checked("available_capacity", answer.available_capacity),
            _optional("maximum_volume_size", answer.HasField("maximum_volume_size"), answer.maximum_volume_size),
            _optional("minimum_volume_size", answer.HasField("minimum_volume_size"), answer.minimum_volume_size),
        )

    def create(self, name: str, size: int, wish: Wish, segment: Segment | None, deadline: Deadline) -> Held:
        """Make a volume of exactly this size, or find the one of that name."""
        where = None if segment is None else csi_pb2.TopologyRequirement(requisite=[_topology(segment)])
        answer = self._connection.call(
            "Controller/CreateVolume",
            csi_pb2.CreateVolumeRequest(
                name=name,
                capacity_range=csi_pb2.CapacityRange(required_bytes=size, limit_bytes=size),
                volume_capabilities=[_capability(wish)],
                parameters=wish.parameters,
                accessibility_requirements=where,
            ),
            csi_pb2.CreateVolumeResponse,
            deadline,
        )
        return _held(answer.volume)

    def delete(self, volume_id: str, deadline: Deadline) -> None:
        """Delete a volume; succeeds if it is not there."""
        self._connection.call(
            "Controller/DeleteVolume",
            csi_pb2.DeleteVolumeRequest(volume_id=volume_id),
            csi_pb2.DeleteVolumeResponse,
            deadline,
        )

    def expand(self, volume_id: str, size: int, wish: Wish, deadline: Deadline) -> int:
        """Grow a volume to exactly this size, and return what it has then."""
        answer = self._connection.call(
            "Controller/ControllerExpandVolume",
            csi_pb2.ControllerExpandVolumeRequest(
                volume_id=volume_id,
                capacity_range=csi_pb2.CapacityRange(required_bytes=size, limit_bytes=size),
                volume_capability=_capability(wish),
            ),
            csi_pb2.ControllerExpandVolumeResponse,
            deadline,
        )
        return _checked("capacity_bytes", answer.capacity_bytes)

    def publish(self, volume: Publication, deadline: Deadline) -> None:
        """Have an inline volume made, and be where it is wanted; succeeds if it is."""
        self._connection.call(
            "Node/NodePublishVolume",
            csi_pb2.NodePublishVolumeRequest(
                volume_id=volume.handle,
                publish_context=volume.publish_context,
                target_path=volume.target,
                volume_capability=_capability(Wish()),
                volume_context=volume.volume_context,
            ),
            csi_pb2.NodePublishVolumeResponse,
            deadline,
        )

    def unpublish(self, handle: str, target: str, deadline: Deadline) -> None:
        """Have an inline volume be there no more; succeeds if it is not."""
        self._connection.call(
            "Node/NodeUnpublishVolume",
            csi_pb2.NodeUnpublishVolumeRequest(volume_id=handle, target_path=target),
            csi_pb2.NodeUnpublishVolumeResponse,
            deadline,
        )

    def volumes(self, deadline: Deadline) -> list[Held]:
        """Return all volumes that the plugin has, whoever made them."""
        while True:
            try:
                return self._listed(deadline)
            except CallFailed as error:
                # The list has changed too much to go on with it.
                if error.code is not grpc.StatusCode.ABORTED or deadline.left() < _PAUSE:
                    raise
                time.sleep(_PAUSE)

    def _listed(self, deadline: Deadline) -> list[Held]:
        found: dict[str, Held] = {}
        token = ""
        for _ in range(_MOST_PAGES):
            answer = self._connection.call(
                "Controller/ListVolumes",
                csi_pb2.ListVolumesRequest(starting_token=token),
                csi_pb2.ListVolumesResponse,
                deadline,
                passing={grpc.StatusCode.UNAVAILABLE},
            )
            # Volumes that come or go meanwhile can make one appear on two pages.
            found.update((entry.volume.volume_id, _held(entry.volume)) for entry in answer.entries)
            token = answer.next_token
            if not token:
                return list(found.values())
        raise BadAnswer(f"{self._connection.endpoint} ends no list of volumes in {_MOST_PAGES} pages")


def _capability(wish: Wish) -> csi_pb2.VolumeCapability:
    """Return how volumes will be used, each by one node."""
    mode = csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    if wish.access == "block":
        return csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = csi_pb2.VolumeCapability.MountVolume(fs_type=wish.fs_type)
    return csi_pb2.VolumeCapability(mount=mount, access_mode=mode)


def _held(volume: csi_pb2.Volume) -> Held:
    if not volume.volume_id:
        raise BadAnswer("a volume without volume_id")
    size = _checked("capacity_bytes", volume.capacity_bytes)
    return Held(volume.volume_id, size, [Segment.of(topology.segments) for topology in volume.accessible_topology])


def _topology(segment: Segment) -> csi_pb2.Topology:
    return csi_pb2.Topology(segments=dict(segment.labels))


def _optional(name: str, there: bool, value: Int64Value) -> int | None:
    return _checked(name, value.value) if there else None


def _checked(name: str, size: int) -> int:
    if size < 0:
        raise BadAnswer(f"{name} = {size}, and no size is negative")
    return size
