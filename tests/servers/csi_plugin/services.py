# SPDX-License-Identifier: Apache-2.0
"""The RPC methods of the plug-in. Each method has the name of a method of the standard."""

import pathlib
from collections.abc import Sequence

from google.protobuf.wrappers_pb2 import BoolValue, Int64Value
from grpc import StatusCode

from tests.servers.csi_plugin.volumes import Kept, Refused, Settings, Storage, copies
from tonnage.drivers.csi import csi_pb2
from tonnage.extensions.kubernetes.cluster import quantities

_LONGEST_NAME = 128


class Services:
    """The RPC methods, by the rules of the standard. Raises Refused with the codes of the standard."""

    def __init__(self, settings: Settings, storage: Storage) -> None:
        self.settings = settings
        self.storage = storage

    # Identity

    def GetPluginInfo(self, request: csi_pb2.GetPluginInfoRequest) -> csi_pb2.GetPluginInfoResponse:  # noqa: N802
        return csi_pb2.GetPluginInfoResponse(name="folders.csi.test", vendor_version="1.0")

    def GetPluginCapabilities(  # noqa: N802
        self, request: csi_pb2.GetPluginCapabilitiesRequest
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        service = csi_pb2.PluginCapability.Service
        types = [service.CONTROLLER_SERVICE] if self.settings.controller else []
        types += [service.VOLUME_ACCESSIBILITY_CONSTRAINTS] if self.settings.topology else []
        return csi_pb2.GetPluginCapabilitiesResponse(
            capabilities=[csi_pb2.PluginCapability(service=service(type=type)) for type in types]
        )

    def Probe(self, request: csi_pb2.ProbeRequest) -> csi_pb2.ProbeResponse:  # noqa: N802
        self.settings.pause("Probe")
        ready = self.settings.ready
        return csi_pb2.ProbeResponse(ready=None if ready is None else BoolValue(value=ready))

    # Controller

    def ControllerGetCapabilities(  # noqa: N802
        self, request: csi_pb2.ControllerGetCapabilitiesRequest
    ) -> csi_pb2.ControllerGetCapabilitiesResponse:
        rpc = csi_pb2.ControllerServiceCapability.RPC
        has = {
            rpc.CREATE_DELETE_VOLUME: self.settings.creates,
            rpc.LIST_VOLUMES: self.settings.lists,
            rpc.GET_CAPACITY: self.settings.capacity,
            rpc.EXPAND_VOLUME: self.settings.expands,
        }
        return csi_pb2.ControllerGetCapabilitiesResponse(
            capabilities=[
                csi_pb2.ControllerServiceCapability(rpc=rpc(type=type)) for type, there in has.items() if there
            ]
        )

    def CreateVolume(self, request: csi_pb2.CreateVolumeRequest) -> csi_pb2.CreateVolumeResponse:  # noqa: N802
        if not request.name or len(request.name) > _LONGEST_NAME:
            raise Refused(StatusCode.INVALID_ARGUMENT, "name: 1 to 128 characters")
        if not request.volume_capabilities:
            raise Refused(StatusCode.INVALID_ARGUMENT, "volume_capabilities: at least one")
        self._refuse_unusable(request.volume_capabilities)
        copies(request.parameters)
        segments = self._segments(request)
        with self.storage.pending(self.settings.id_of(request.name)):
            self.settings.pause("CreateVolume")
            present = self.storage.find(self.settings.id_of(request.name))
            if present is None:
                size = self._size(request.capacity_range)
                segment = max(segments, key=lambda segment: self.storage.free(self.settings, segment))
                segment = self.settings.misplaced or segment
                present = self.storage.make(self.settings, request.name, size, segment, request.parameters)
            elif not self._fits(present, request, segments):
                raise Refused(StatusCode.ALREADY_EXISTS, f"{request.name} is there and is another")
            return csi_pb2.CreateVolumeResponse(volume=self._volume(present))

    def DeleteVolume(self, request: csi_pb2.DeleteVolumeRequest) -> csi_pb2.DeleteVolumeResponse:  # noqa: N802
        self._refuse_nameless(request.volume_id)
        with self.storage.pending(request.volume_id):
            present = self.storage.find(request.volume_id)
            if present is not None:
                self.storage.remove(present)
        return csi_pb2.DeleteVolumeResponse()

    def ControllerExpandVolume(  # noqa: N802
        self, request: csi_pb2.ControllerExpandVolumeRequest
    ) -> csi_pb2.ControllerExpandVolumeResponse:
        self._refuse_nameless(request.volume_id)
        if not request.HasField("capacity_range"):
            raise Refused(StatusCode.INVALID_ARGUMENT, "capacity_range is missing")
        size = self._size(request.capacity_range)
        with self.storage.pending(request.volume_id):
            present = self._present(request.volume_id)
            if size > present.size:
                self.storage.grow(self.settings, present, size)
        return csi_pb2.ControllerExpandVolumeResponse(capacity_bytes=max(size, present.size))

    def ValidateVolumeCapabilities(  # noqa: N802
        self, request: csi_pb2.ValidateVolumeCapabilitiesRequest
    ) -> csi_pb2.ValidateVolumeCapabilitiesResponse:
        self._refuse_nameless(request.volume_id)
        if not request.volume_capabilities:
            raise Refused(StatusCode.INVALID_ARGUMENT, "volume_capabilities: at least one")
        self._refuse_unusable(request.volume_capabilities)
        present = self._present(request.volume_id)
        if request.parameters and dict(request.parameters) != dict(present.parameters):
            return csi_pb2.ValidateVolumeCapabilitiesResponse(message="it was made with other parameters")
        return csi_pb2.ValidateVolumeCapabilitiesResponse(
            confirmed=csi_pb2.ValidateVolumeCapabilitiesResponse.Confirmed(
                volume_context=request.volume_context,
                volume_capabilities=request.volume_capabilities,
                parameters=request.parameters,
            )
        )

    def ListVolumes(self, request: csi_pb2.ListVolumesRequest) -> csi_pb2.ListVolumesResponse:  # noqa: N802
        kept = sorted((each for each in self.storage.all() if not each.inline), key=lambda each: each.id)
        if self.settings.empty_lists:
            self.settings.empty_lists -= 1
            kept = []
        if request.max_entries < 0:
            raise Refused(StatusCode.INVALID_ARGUMENT, "max_entries is negative")
        token = request.starting_token
        if token and (self.settings.stale_tokens or not token.startswith("vol-")):
            self.settings.stale_tokens -= 1
            raise Refused(StatusCode.ABORTED, f"starting_token {token!r} is none of ours")
        # The token is the last id of the page before, so that deletions between the pages lose nothing.
        later = [each for each in kept if each.id > token]
        page = later[: min(filter(None, (request.max_entries, self.settings.page)), default=len(later))]
        return csi_pb2.ListVolumesResponse(
            entries=[csi_pb2.ListVolumesResponse.Entry(volume=self._volume(each)) for each in page],
            next_token=page[-1].id if len(page) < len(later) else "",
        )

    def GetCapacity(self, request: csi_pb2.GetCapacityRequest) -> csi_pb2.GetCapacityResponse:  # noqa: N802
        self._refuse_unusable(request.volume_capabilities)
        times = copies(request.parameters)
        self.settings.pause("GetCapacity")
        segments = list(self.settings.sizes)
        if request.HasField("accessible_topology"):
            segments = self._matching(request.accessible_topology)
        elif self.settings.own:
            segments = [self.settings.own]
        least = -(2**63) if self.settings.expands_beyond else 0
        available = sum(max(self.storage.free(self.settings, segment), least) for segment in segments) // times
        largest, smallest = self.settings.largest, self.settings.smallest
        return csi_pb2.GetCapacityResponse(
            available_capacity=available,
            maximum_volume_size=Int64Value(value=min(largest, available)) if largest else None,
            minimum_volume_size=Int64Value(value=smallest) if smallest else None,
        )

    # Node

    def NodePublishVolume(  # noqa: N802
        self, request: csi_pb2.NodePublishVolumeRequest
    ) -> csi_pb2.NodePublishVolumeResponse:
        self._refuse_nameless(request.volume_id)
        if not request.HasField("volume_capability"):
            raise Refused(StatusCode.INVALID_ARGUMENT, "volume_capability is missing")
        self._refuse_unusable([request.volume_capability])
        target = pathlib.Path(request.target_path)
        if not target.is_absolute() or not target.parent.is_dir():
            raise Refused(StatusCode.INVALID_ARGUMENT, f"target_path {target}: its folder has to be there")
        inline = request.volume_context.get("csi.storage.k8s.io/ephemeral") == "true"
        size = self._inline_size(request) if inline else 0
        with self.storage.pending(request.volume_id):
            self.settings.pause("NodePublishVolume")
            if not inline:
                self._present(request.volume_id)
            elif self.storage.find(self.settings.id_of(request.volume_id)) is None:
                self.storage.make(self.settings, request.volume_id, size, self.settings.own, {}, inline=True)
            if request.volume_capability.HasField("block"):
                target.touch()
            else:
                target.mkdir(exist_ok=True)
        return csi_pb2.NodePublishVolumeResponse()

    def NodeUnpublishVolume(  # noqa: N802
        self, request: csi_pb2.NodeUnpublishVolumeRequest
    ) -> csi_pb2.NodeUnpublishVolumeResponse:
        self._refuse_nameless(request.volume_id)
        if not request.target_path:
            raise Refused(StatusCode.INVALID_ARGUMENT, "target_path is missing")
        target = pathlib.Path(request.target_path)
        with self.storage.pending(request.volume_id):
            present = self.storage.find(self.settings.id_of(request.volume_id))
            if present is not None and present.inline:
                self.storage.remove(present)
            if target.is_dir():
                target.rmdir()
            else:
                target.unlink(missing_ok=True)
        return csi_pb2.NodeUnpublishVolumeResponse()

    def NodeGetCapabilities(  # noqa: N802
        self, request: csi_pb2.NodeGetCapabilitiesRequest
    ) -> csi_pb2.NodeGetCapabilitiesResponse:
        return csi_pb2.NodeGetCapabilitiesResponse()

    def _inline_size(self, request: csi_pb2.NodePublishVolumeRequest) -> int:
        """Return the size from ``fsSize``, by the proposal on storage capacity, or from the attribute ``size``."""
        told, own = (
            context.get(key, "")
            for context, key in (
                (request.publish_context, "csi.storage.k8s.io/size"),
                (request.volume_context, "size"),
            )
        )
        if told and own:
            raise Refused(StatusCode.INVALID_ARGUMENT, f"two sizes: fsSize {told} and attribute size {own}")
        try:
            return quantities.parse(told or own or "64Mi")
        except ValueError as error:
            raise Refused(StatusCode.INVALID_ARGUMENT, str(error)) from None

    def NodeGetInfo(self, request: csi_pb2.NodeGetInfoRequest) -> csi_pb2.NodeGetInfoResponse:  # noqa: N802
        topology = csi_pb2.Topology(segments={self.settings.key: self.settings.own}) if self.settings.topology else None
        return csi_pb2.NodeGetInfoResponse(node_id=f"node-{self.settings.own}", accessible_topology=topology)

    # Helpers

    def _present(self, volume_id: str) -> Kept:
        """Return a volume that a create has made."""
        found = self.storage.find(volume_id)
        if found is None or found.inline:
            raise Refused(StatusCode.NOT_FOUND, f"there is no {volume_id}")
        return found

    def _segments(self, request: csi_pb2.CreateVolumeRequest) -> list[str]:
        """Return the segments that a volume may be in."""
        if not request.HasField("accessibility_requirements"):
            return [self.settings.own] if self.settings.own else list(self.settings.sizes)
        wanted = request.accessibility_requirements
        found = [segment for topology in wanted.requisite for segment in self._matching(topology)]
        if not found:
            raise Refused(StatusCode.RESOURCE_EXHAUSTED, "nothing can be made in any of those segments")
        return found

    def _matching(self, topology: csi_pb2.Topology) -> list[str]:
        if not self.settings.topology:
            raise Refused(StatusCode.INVALID_ARGUMENT, "a topology, and VOLUME_ACCESSIBILITY_CONSTRAINTS is not there")
        if set(topology.segments) != {self.settings.key}:
            raise Refused(StatusCode.INVALID_ARGUMENT, f"topology {dict(topology.segments)}: the key is not ours")
        return [segment for segment in self.settings.sizes if segment == topology.segments[self.settings.key]]

    def _size(self, asked: csi_pb2.CapacityRange) -> int:
        least, most = asked.required_bytes, asked.limit_bytes
        if min(least, most) < 0 or (most and least > most):
            raise Refused(StatusCode.INVALID_ARGUMENT, f"capacity_range from {least} to {most}")
        size = max(least, self.settings.smallest, 1)
        if (most and size > most) or (self.settings.largest and size > self.settings.largest):
            raise Refused(StatusCode.OUT_OF_RANGE, f"no volume has a size from {least} to {most}")
        return size

    def _fits(self, kept: Kept, request: csi_pb2.CreateVolumeRequest, segments: list[str]) -> bool:
        asked = request.capacity_range
        enough = asked.required_bytes <= kept.size and (not asked.limit_bytes or kept.size <= asked.limit_bytes)
        return enough and kept.parameters == dict(request.parameters) and kept.segment in segments

    def _volume(self, kept: Kept) -> csi_pb2.Volume:
        there = [csi_pb2.Topology(segments={self.settings.key: kept.segment})] if self.settings.topology else []
        return csi_pb2.Volume(volume_id=kept.id, capacity_bytes=kept.size, accessible_topology=there)

    @staticmethod
    def _refuse_unusable(capabilities: Sequence[csi_pb2.VolumeCapability]) -> None:
        for capability in capabilities:
            if capability.WhichOneof("access_type") is None or not capability.HasField("access_mode"):
                raise Refused(StatusCode.INVALID_ARGUMENT, "a capability without access_type or access_mode")

    @staticmethod
    def _refuse_nameless(volume_id: str) -> None:
        if not volume_id:
            raise Refused(StatusCode.INVALID_ARGUMENT, "volume_id is missing")
