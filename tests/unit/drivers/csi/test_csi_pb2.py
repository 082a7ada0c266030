# SPDX-License-Identifier: Apache-2.0
"""The messages on the socket match the standard.

The numbers are those of the standard. The bytes were recorded from messages encoded with the standard's own descriptors
(release 1.2, as Kubernetes 1.20 ships them): responses have fields that are not used here.
"""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message
from grpc_tools import protoc

from tonnage.drivers.csi import csi_pb2

_FOLDER = Path(csi_pb2.__file__).resolve().parent

#: The numbers in the standard; fields that are missing here are not used.
_FIELDS = {
    "GetPluginInfoResponse": {"name": 1, "vendor_version": 2},
    "GetPluginCapabilitiesResponse": {"capabilities": 1},
    "PluginCapability": {"service": 1},
    "PluginCapability.Service": {"type": 1},
    "ProbeResponse": {"ready": 1},
    "Topology": {"segments": 1},
    "TopologyRequirement": {"requisite": 1, "preferred": 2},
    "CapacityRange": {"required_bytes": 1, "limit_bytes": 2},
    "VolumeCapability": {"block": 1, "mount": 2, "access_mode": 3},
    "VolumeCapability.MountVolume": {"fs_type": 1},
    "VolumeCapability.AccessMode": {"mode": 1},
    "Volume": {"capacity_bytes": 1, "volume_id": 2, "accessible_topology": 5},
    "CreateVolumeRequest": {
        "name": 1,
        "capacity_range": 2,
        "volume_capabilities": 3,
        "parameters": 4,
        "accessibility_requirements": 7,
    },
    "CreateVolumeResponse": {"volume": 1},
    "DeleteVolumeRequest": {"volume_id": 1},
    "ValidateVolumeCapabilitiesRequest": {
        "volume_id": 1,
        "volume_context": 2,
        "volume_capabilities": 3,
        "parameters": 4,
    },
    "ValidateVolumeCapabilitiesResponse": {"confirmed": 1, "message": 2},
    "ValidateVolumeCapabilitiesResponse.Confirmed": {"volume_context": 1, "volume_capabilities": 2, "parameters": 3},
    "ListVolumesRequest": {"max_entries": 1, "starting_token": 2},
    "ListVolumesResponse": {"entries": 1, "next_token": 2},
    "ListVolumesResponse.Entry": {"volume": 1},
    "GetCapacityRequest": {"volume_capabilities": 1, "parameters": 2, "accessible_topology": 3},
    "GetCapacityResponse": {"available_capacity": 1, "maximum_volume_size": 2, "minimum_volume_size": 3},
    "ControllerGetCapabilitiesResponse": {"capabilities": 1},
    "ControllerServiceCapability": {"rpc": 1},
    "ControllerServiceCapability.RPC": {"type": 1},
    "ControllerExpandVolumeRequest": {"volume_id": 1, "capacity_range": 2, "volume_capability": 4},
    "ControllerExpandVolumeResponse": {"capacity_bytes": 1, "node_expansion_required": 2},
    "NodePublishVolumeRequest": {
        "volume_id": 1,
        "publish_context": 2,
        "target_path": 4,
        "volume_capability": 5,
        "readonly": 6,
        "volume_context": 8,
    },
    "NodeUnpublishVolumeRequest": {"volume_id": 1, "target_path": 2},
    "NodeGetCapabilitiesResponse": {"capabilities": 1},
    "NodeServiceCapability": {"rpc": 1},
    "NodeServiceCapability.RPC": {"type": 1},
    "NodeGetInfoResponse": {"node_id": 1, "accessible_topology": 3},
}

_ENUMS = {
    "PluginCapability.Service.Type": {"UNKNOWN": 0, "CONTROLLER_SERVICE": 1, "VOLUME_ACCESSIBILITY_CONSTRAINTS": 2},
    "VolumeCapability.AccessMode.Mode": {"UNKNOWN": 0, "SINGLE_NODE_WRITER": 1},
    "ControllerServiceCapability.RPC.Type": {
        "UNKNOWN": 0,
        "CREATE_DELETE_VOLUME": 1,
        "LIST_VOLUMES": 3,
        "GET_CAPACITY": 4,
        "EXPAND_VOLUME": 9,
    },
    "NodeServiceCapability.RPC.Type": {"UNKNOWN": 0},
}


def _published() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Return the numbers of the compiled messages' fields and of the enumerations, by name."""
    messages: dict[str, dict[str, int]] = {}
    enums: dict[str, dict[str, int]] = {}

    def note(message: descriptor_pb2.DescriptorProto, prefix: str) -> None:
        name = prefix + message.name
        if message.field and not message.options.map_entry:
            messages[name] = {field.name: field.number for field in message.field}
        for enum in message.enum_type:
            enums[f"{name}.{enum.name}"] = {value.name: value.number for value in enum.value}
        for nested in message.nested_type:
            note(nested, f"{name}.")

    for message in _file().message_type:
        note(message, "")
    return messages, enums


def _file() -> descriptor_pb2.FileDescriptorProto:
    found = descriptor_pb2.FileDescriptorProto()
    csi_pb2.DESCRIPTOR.CopyToProto(found)
    return found


def test_fields_have_the_numbers_of_the_standard() -> None:
    assert csi_pb2.DESCRIPTOR.package == "csi.v1"
    assert _published() == (_FIELDS, _ENUMS)


def test_the_compiled_messages_match_the_proto_file(tmp_path: Path) -> None:
    output = tmp_path / "set"
    # The path is the one at which the compiled file was made.
    folder = tmp_path / "tonnage" / "drivers" / "csi"
    folder.mkdir(parents=True)
    (folder / "csi.proto").write_bytes((_FOLDER / "csi.proto").read_bytes())
    included = Path(protoc.__file__).parent / "_proto"
    code = protoc.main(
        ["protoc", f"-I{tmp_path}", f"-I{included}", f"--descriptor_set_out={output}", "tonnage/drivers/csi/csi.proto"]
    )
    assert code == 0
    [compiled] = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file
    compiled.ClearField("source_code_info")
    for message in (compiled, found := _file()):
        _without_json_names(message)
    assert compiled == found, "csi.proto was changed: run tools/csi-messages.sh"


def _without_json_names(file: descriptor_pb2.FileDescriptorProto) -> None:
    """Clear the JSON names, which some compilers write and some leave out."""
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            field.ClearField("json_name")


_ZONE = csi_pb2.Topology(segments={"topology.example.com/zone": "z1"})
_ZONE_BYTES = "0a1f0a19746f706f6c6f67792e6578616d706c652e636f6d2f7a6f6e6512027a31"
_WRITER = csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
_BLOCK = csi_pb2.VolumeCapability(block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=_WRITER)
_EXT4 = csi_pb2.VolumeCapability(mount=csi_pb2.VolumeCapability.MountVolume(fs_type="ext4"), access_mode=_WRITER)
_GIB = 2**30


@pytest.mark.parametrize(
    ("message", "recorded"),
    [
        (
            csi_pb2.CreateVolumeRequest(
                name="pvc-1",
                capacity_range=csi_pb2.CapacityRange(required_bytes=_GIB, limit_bytes=_GIB),
                volume_capabilities=[_EXT4],
                parameters={"copies": "2"},
                accessibility_requirements=csi_pb2.TopologyRequirement(requisite=[_ZONE]),
            ),
            "0a057076632d31120c0880808080041080808080041a0c12060a04657874341a020801220b0a06636f706965731201323a230a21"
            + _ZONE_BYTES,
        ),
        (
            csi_pb2.GetCapacityRequest(
                volume_capabilities=[_BLOCK], parameters={"copies": "2"}, accessible_topology=_ZONE
            ),
            "0a060a001a020801120b0a06636f706965731201321a21" + _ZONE_BYTES,
        ),
        (
            csi_pb2.ControllerExpandVolumeRequest(
                volume_id="vol-1",
                capacity_range=csi_pb2.CapacityRange(required_bytes=2 * _GIB, limit_bytes=2 * _GIB),
                volume_capability=_EXT4,
            ),
            "0a05766f6c2d31120c088080808008108080808008220c12060a04657874341a020801",
        ),
        (csi_pb2.DeleteVolumeRequest(volume_id="vol-1"), "0a05766f6c2d31"),
        (csi_pb2.GetCapacityRequest(), ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_requests_are_the_recorded_bytes(message: Message, recorded: str) -> None:
    assert message.SerializeToString(deterministic=True).hex() == recorded


def test_recorded_responses_are_parsed() -> None:
    made = csi_pb2.CreateVolumeResponse.FromString(
        bytes.fromhex("0a380880808080041205766f6c2d311a060a01611201622a21" + _ZONE_BYTES)
    ).volume
    assert (made.volume_id, made.capacity_bytes, list(made.accessible_topology)) == ("vol-1", _GIB, [_ZONE])
    listed = csi_pb2.ListVolumesResponse.FromString(
        bytes.fromhex("0a150a0d0880808080041205766f6c2d3112040a026e31120132")
    )
    assert [entry.volume.volume_id for entry in listed.entries] == ["vol-1"]
    assert list(listed.next_token) == ["2"]
    controller = csi_pb2.ControllerGetCapabilitiesResponse.FromString(
        bytes.fromhex("0a040a0208010a040a0208020a040a0208030a040a0208040a040a0208050a040a020809")
    )
    assert [capability.rpc.type for capability in controller.capabilities] == [1, 2, 3, 4, 5, 9]
    plugin = csi_pb2.GetPluginCapabilitiesResponse.FromString(bytes.fromhex("0a040a0208010a040a0208020a0412020801"))
    # The last one has a type that is not used here.
    assert [capability.service.type for capability in plugin.capabilities] == [1, 2, 0]
    starting = csi_pb2.ProbeResponse.FromString(bytes.fromhex("0a00"))
    assert starting.HasField("ready")
    assert not starting.ready.value
    assert not csi_pb2.ProbeResponse.FromString(b"").HasField("ready")
    node = csi_pb2.NodeGetInfoResponse.FromString(bytes.fromhex("0a026e3110081a21" + _ZONE_BYTES))
    assert (node.node_id, node.accessible_topology) == ("n1", _ZONE)
    info = csi_pb2.GetPluginInfoResponse.FromString(
        bytes.fromhex("0a18686f7374706174682e6373692e6578616d706c652e636f6d1203312e321a060a0161120162")
    )
    assert (info.name, info.vendor_version) == ("hostpath.csi.example.com", "1.2")
    grown = csi_pb2.ControllerExpandVolumeResponse.FromString(bytes.fromhex("0880808080081001"))
    assert (grown.capacity_bytes, grown.node_expansion_required) == (2 * _GIB, True)
    capacity = csi_pb2.GetCapacityResponse.FromString(bytes.fromhex("088080808014"))
    assert capacity.available_capacity == 5 * _GIB
    assert not capacity.HasField("maximum_volume_size")
