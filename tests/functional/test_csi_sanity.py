# SPDX-License-Identifier: Apache-2.0
"""The plug-in of the tests keeps to the standard."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory

from tests.servers.csi_plugin import CsiPlugin, Settings
from tonnage.capacity.units import GIB
from tonnage.drivers.csi import csi_pb2


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[CsiPlugin]:
    with CsiPlugin(tmp_path / "volumes", Settings(sizes={"": 100 * GIB})) as plugin:
        yield plugin


def test_csi_sanity_finds_no_failure(plugin: CsiPlugin, tmp_path: Path) -> None:
    """CSI_SANITY is the path of csi-sanity, from github.com/kubernetes-csi/csi-test."""
    program = os.environ.get("CSI_SANITY")
    if not program:
        pytest.skip("CSI_SANITY names no program csi-sanity")
    done = subprocess.run(
        [
            program,
            f"--csi.endpoint={plugin.endpoint}",
            f"--csi.mountdir={tmp_path / 'mount'}",
            f"--csi.stagingdir={tmp_path / 'staging'}",
            "--ginkgo.no-color",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-20000:]
    assert " 0 Failed" in done.stdout


def call(plugin: CsiPlugin, name: str, /, **fields: Any) -> Any:
    """Call ``Service/Method`` as another client does."""
    service, method = name.split("/")
    found = csi_pb2.DESCRIPTOR.services_by_name[service].methods_by_name[method]
    request = message_factory.GetMessageClass(found.input_type)(**fields)
    response_type = message_factory.GetMessageClass(found.output_type)
    with grpc.insecure_channel(plugin.endpoint, [("grpc.default_authority", "localhost")]) as channel:
        send = channel.unary_unary(
            f"/csi.v1.{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString,
        )
        return send(request, timeout=60)


def refusal(plugin: CsiPlugin, name: str, /, **fields: Any) -> grpc.StatusCode:
    """Return the code with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call(plugin, name, **fields)
    code: grpc.StatusCode = caught.value.code()
    return code


MOUNT = csi_pb2.VolumeCapability(
    mount=csi_pb2.VolumeCapability.MountVolume(),
    access_mode=csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)
BLOCK = csi_pb2.VolumeCapability(
    block=csi_pb2.VolumeCapability.BlockVolume(),
    access_mode=csi_pb2.VolumeCapability.AccessMode(mode=csi_pb2.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)
NOT_FOUND, INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT


def create(plugin: CsiPlugin, name: str) -> str:
    """Create a volume of 1 GiB and return its id."""
    answer = call(
        plugin,
        "Controller/CreateVolume",
        name=name,
        volume_capabilities=[MOUNT],
        capacity_range=csi_pb2.CapacityRange(required_bytes=GIB),
    )
    return str(answer.volume.volume_id)


def test_capabilities_of_volumes_are_validated(plugin: CsiPlugin) -> None:
    validate = "Controller/ValidateVolumeCapabilities"
    volume_id = create(plugin, "v")
    answer = call(plugin, validate, volume_id=volume_id, volume_capabilities=[MOUNT, BLOCK])
    assert list(answer.confirmed.volume_capabilities) == [MOUNT, BLOCK]
    other = call(plugin, validate, volume_id=volume_id, volume_capabilities=[MOUNT], parameters={"copies": "2"})
    assert (other.HasField("confirmed"), other.message) == (False, "it was made with other parameters")
    assert refusal(plugin, validate, volume_capabilities=[MOUNT]) is INVALID
    assert refusal(plugin, validate, volume_id=volume_id) is INVALID
    assert refusal(plugin, validate, volume_id="vol-none", volume_capabilities=[MOUNT]) is NOT_FOUND


@pytest.mark.parametrize("capability", [MOUNT, BLOCK])
def test_ordinary_volumes_are_published_and_stay_after_it(
    plugin: CsiPlugin, tmp_path: Path, capability: csi_pb2.VolumeCapability
) -> None:
    publish, unpublish = "Node/NodePublishVolume", "Node/NodeUnpublishVolume"
    volume_id, target = create(plugin, "v"), tmp_path / "target"
    where = {"volume_id": volume_id, "target_path": str(target)}
    assert not call(plugin, "Node/NodeGetCapabilities").capabilities
    for _ in range(2):
        call(plugin, publish, volume_capability=capability, **where)
        assert target.is_dir() is capability.HasField("mount")
    for _ in range(2):
        call(plugin, unpublish, **where)
        assert not target.exists()
    assert [kept.id for kept in plugin.storage.all()] == [volume_id]
    assert refusal(plugin, publish, **where) is INVALID
    where["volume_id"] = "vol-none"
    assert refusal(plugin, publish, volume_capability=capability, **where) is NOT_FOUND


def test_pages_of_a_list_survive_a_delete_between_them(plugin: CsiPlugin) -> None:
    ids = sorted(create(plugin, f"v{number}") for number in range(5))
    first = call(plugin, "Controller/ListVolumes", max_entries=2)
    assert [entry.volume.volume_id for entry in first.entries] == ids[:2]
    call(plugin, "Controller/DeleteVolume", volume_id=ids[1])
    rest = call(plugin, "Controller/ListVolumes", starting_token=first.next_token)
    assert [entry.volume.volume_id for entry in rest.entries] == ids[2:]
    assert not rest.next_token
