# SPDX-License-Identifier: Apache-2.0
"""The calls of a plugin of the Container Storage Interface, as methods with plain types. Sizes are bytes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.drivers.csi import csi_pb2
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
from tonnage.drivers.csi.ephemeral_volumes import Publication
from tonnage.drivers.csi.storage_class_config import VolumeSettings

_Service = csi_pb2.PluginCapability.Service
_RPC = csi_pb2.ControllerServiceCapability.RPC

#: Seconds before the next call to a plugin that is not ready, or whose list has changed.
_RETRY_INTERVAL = 0.1

#: Limit on the pages of a list; a plugin that exceeds it has a fault.
_MAX_PAGES = 10_000


class InvalidResponse(Exception):
    """A plugin returns a response that the standard does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCapabilities:
    """The name, version and capabilities of a plugin.

    ``supports_topology`` is true if the plugin takes and reports the segments from which volumes are accessible.
    """

    name: str
    version: str
    supports_topology: bool
    can_create: bool
    can_list: bool
    reports_capacity: bool
    can_expand: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """The bytes available for volumes, and the limits of a single volume; None where the plugin sets none.

    A plugin whose volumes use more than there is may report fewer than 0 bytes; then ``available`` is 0.
    """

    reported: int
    maximum: int | None
    minimum: int | None

    @property
    def available(self) -> int:
        """The bytes for further volumes."""
        return max(self.reported, 0)


@dataclass(frozen=True, slots=True)
class PluginVolume:
    """A volume of a plugin. ``size`` is 0 if unknown. A volume without ``segments`` is accessible from all nodes."""

    id: str
    size: int
    segments: Sequence[Segment]


class Plugin:
    """A plugin. All methods raise :class:`~tonnage.drivers.csi.connection.CallFailed` and :class:`InvalidResponse`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def wait_until_ready(self, deadline: Deadline) -> bool:
        """Wait until the plugin has started; return whether it has."""
        has_answered = False
        while True:
            try:
                response = self._connection.call(
                    "Identity/Probe", csi_pb2.ProbeRequest(), csi_pb2.ProbeResponse, deadline
                )
            except CallFailed as failure:
                if has_answered and failure.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                    return False  # the last response said so; there is no time for another one
                raise
            has_answered = True
            if not response.HasField("ready") or response.ready.value:
                return True
            if deadline.remaining() < _RETRY_INTERVAL:
                return False
            time.sleep(_RETRY_INTERVAL)

    def capabilities(self, deadline: Deadline) -> PluginCapabilities:
        """Return the plugin's name, version and capabilities."""
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
        return PluginCapabilities(
            name=info.name,
            version=info.vendor_version,
            supports_topology=_Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in services,
            can_create=_RPC.CREATE_DELETE_VOLUME in rpcs,
            can_list=_RPC.LIST_VOLUMES in rpcs,
            reports_capacity=_RPC.GET_CAPACITY in rpcs,
            can_expand=_RPC.EXPAND_VOLUME in rpcs,
        )

    def node_segment(self, deadline: Deadline) -> Segment | None:
        """Return the segment of the node on which the plugin runs; None if the plugin does not report it."""
        response = self._connection.call(
            "Node/NodeGetInfo", csi_pb2.NodeGetInfoRequest(), csi_pb2.NodeGetInfoResponse, deadline
        )
        return (
            Segment.from_labels(response.accessible_topology.segments)
            if response.accessible_topology.segments
            else None
        )

    def capacity(self, settings: VolumeSettings | None, segment: Segment | None, deadline: Deadline) -> Capacity:
        """Return the capacity for volumes with these settings in a segment.

        Without settings the query is for inline ephemeral volumes, without a segment for all segments.
        """
        response = self._connection.call(
            "Controller/GetCapacity",
            csi_pb2.GetCapacityRequest(
                volume_capabilities=[] if settings is None else [_volume_capability(settings)],
                parameters={} if settings is None else settings.parameters,
                accessible_topology=None if segment is None else _topology(segment),
            ),
            csi_pb2.GetCapacityResponse,
            deadline,
        )
        return Capacity(
            response.available_capacity,
            _optional_size(
                "maximum_volume_size", response.HasField("maximum_volume_size"), response.maximum_volume_size
            ),
            _optional_size(
                "minimum_volume_size", response.HasField("minimum_volume_size"), response.minimum_volume_size
            ),
        )

    def create(
        self, name: str, size: int, settings: VolumeSettings, segment: Segment | None, deadline: Deadline
    ) -> PluginVolume:
        """Create a volume of exactly this size, or find the existing volume of that name."""
        requirement = None if segment is None else csi_pb2.TopologyRequirement(requisite=[_topology(segment)])
        response = self._connection.call(
            "Controller/CreateVolume",
            csi_pb2.CreateVolumeRequest(
                name=name,
                capacity_range=csi_pb2.CapacityRange(required_bytes=size, limit_bytes=size),
                volume_capabilities=[_volume_capability(settings)],
                parameters=settings.parameters,
                accessibility_requirements=requirement,
            ),
            csi_pb2.CreateVolumeResponse,
            deadline,
        )
        return _plugin_volume(response.volume)

    def delete(self, volume_id: str, deadline: Deadline) -> None:
        """Delete a volume; succeeds if it does not exist."""
        self._connection.call(
            "Controller/DeleteVolume",
            csi_pb2.DeleteVolumeRequest(volume_id=volume_id),
            csi_pb2.DeleteVolumeResponse,
            deadline,
        )

    def expand(self, volume_id: str, size: int, settings: VolumeSettings, deadline: Deadline) -> int:
        """Extend a volume to exactly this size; return its new size."""
        response = self._connection.call(
            "Controller/ControllerExpandVolume",
            csi_pb2.ControllerExpandVolumeRequest(
                volume_id=volume_id,
                capacity_range=csi_pb2.CapacityRange(required_bytes=size, limit_bytes=size),
                volume_capability=_volume_capability(settings),
            ),
            csi_pb2.ControllerExpandVolumeResponse,
            deadline,
        )
        return _checked_size("capacity_bytes", response.capacity_bytes)

    def publish(self, volume: Publication, deadline: Deadline) -> None:
        """Publish an inline volume at its target, which creates it; succeeds if it is published already."""
        self._connection.call(
            "Node/NodePublishVolume",
            csi_pb2.NodePublishVolumeRequest(
                volume_id=volume.handle,
                publish_context=volume.publish_context,
                target_path=volume.target,
                volume_capability=_volume_capability(VolumeSettings()),
                volume_context=volume.volume_context,
            ),
            csi_pb2.NodePublishVolumeResponse,
            deadline,
        )

    def unpublish(self, handle: str, target: str, deadline: Deadline) -> None:
        """Unpublish an inline volume, which deletes it; succeeds if it is not published."""
        self._connection.call(
            "Node/NodeUnpublishVolume",
            csi_pb2.NodeUnpublishVolumeRequest(volume_id=handle, target_path=target),
            csi_pb2.NodeUnpublishVolumeResponse,
            deadline,
        )

    def volumes(self, deadline: Deadline) -> list[PluginVolume]:
        """Return all volumes of the plugin, including those that others have created."""
        while True:
            try:
                return self._list_volumes(deadline)
            except CallFailed as error:
                # The list has changed too much since its first page.
                if error.code is not grpc.StatusCode.ABORTED or deadline.remaining() < _RETRY_INTERVAL:
                    raise
                time.sleep(_RETRY_INTERVAL)

    def _list_volumes(self, deadline: Deadline) -> list[PluginVolume]:
        volumes_by_id: dict[str, PluginVolume] = {}
        token = ""
        for _ in range(_MAX_PAGES):
            response = self._connection.call(
                "Controller/ListVolumes",
                csi_pb2.ListVolumesRequest(starting_token=token),
                csi_pb2.ListVolumesResponse,
                deadline,
                transient_codes={grpc.StatusCode.UNAVAILABLE},
            )
            # A volume can be on two pages if others are created or deleted between them.
            volumes_by_id.update((entry.volume.volume_id, _plugin_volume(entry.volume)) for entry in response.entries)
            token = response.next_token
            if not token:
                return list(volumes_by_id.values())
        raise InvalidResponse(f"{self._connection.endpoint} ends no list of volumes in {_MAX_PAGES} pages")


def _volume_capability(settings: VolumeSettings) -> csi_pb2.VolumeCapability:
    """Return the access of volumes with these settings, each by one node."""
    mode = csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    if settings.access == "block":
        return csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = csi_pb2.VolumeCapability.MountVolume(fs_type=settings.fs_type)
    return csi_pb2.VolumeCapability(mount=mount, access_mode=mode)


def _plugin_volume(volume: csi_pb2.Volume) -> PluginVolume:
    if not volume.volume_id:
        raise InvalidResponse("a volume without volume_id")
    size = _checked_size("capacity_bytes", volume.capacity_bytes)
    return PluginVolume(
        volume.volume_id, size, [Segment.from_labels(topology.segments) for topology in volume.accessible_topology]
    )


def _topology(segment: Segment) -> csi_pb2.Topology:
    return csi_pb2.Topology(segments=dict(segment.labels))


def _optional_size(name: str, present: bool, value: Int64Value) -> int | None:
    return _checked_size(name, value.value) if present else None


def _checked_size(name: str, size: int) -> int:
    if size < 0:
        raise InvalidResponse(f"{name} = {size}, and no size is negative")
    return size
