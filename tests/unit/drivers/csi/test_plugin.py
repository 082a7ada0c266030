# SPDX-License-Identifier: Apache-2.0
"""The calls of a plugin on a real socket, and answers that the standard does not allow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.drivers.csi.backends import create_foreign, direct_plugin
from tonnage.capacity.units import GIB
from tonnage.drivers.csi import csi_pb2
from tonnage.drivers.csi.cluster_segments import Segment
from tonnage.drivers.csi.connection import CallFailed, Connection, Deadline
from tonnage.drivers.csi.ephemeral_volumes import Publication
from tonnage.drivers.csi.plugin import Capacity, InvalidResponse, Plugin, PluginVolume
from tonnage.drivers.csi.storage_class_config import VolumeSettings

Z1 = Segment.from_labels({"topology.csi.test/zone": "z1"})


class Answers(Connection):
    """A connection over which answers arrive one after another; an exception is raised. ``requests`` are the calls."""

    def __init__(self, answers: Sequence[Any]) -> None:
        super().__init__("unix:///csi.sock")
        self._answers = list(answers)
        self.requests: list[Any] = []

    def call(self, name: str, request: Any, *arguments: Any, **options: Any) -> Any:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def page(*ids: str, following: str = "") -> csi_pb2.ListVolumesResponse:
    """Return a page of a list with volumes of 1 GiB."""
    entries = [csi_pb2.ListVolumesResponse.Entry(volume=csi_pb2.Volume(volume_id=id, capacity_bytes=GIB)) for id in ids]
    return csi_pb2.ListVolumesResponse(entries=entries, next_token=following)


def failure(code: Any) -> CallFailed:
    return CallFailed("unix:///csi.sock", "Controller/ListVolumes", code, "", True, False)


def test_an_unset_inline_size_is_sent_as_an_empty_string(plugin: CsiPlugin, tmp_path: Path) -> None:
    """As for a pod without a size: then the plugin uses its own attribute, or its default."""
    for handle, attributes, size in (("a", {}, 64 * 2**20), ("b", {"size": "2Gi"}, 2 * GIB)):
        publication = Publication(handle=handle, size=None, target=str(tmp_path / handle), attributes=attributes)
        direct_plugin(plugin).publish(publication, Deadline(60))
        assert dict(plugin.asked("NodePublishVolume")[-1].publish_context) == {"csi.storage.k8s.io/size": ""}
        assert max(kept.size for kept in plugin.storage.all()) == size


def test_the_capabilities_are_those_of_the_plugin(plugin: CsiPlugin) -> None:
    plugin.settings.expands = False
    capabilities = direct_plugin(plugin).capabilities(Deadline(60))
    assert capabilities.name == "folders.csi.test"
    assert (capabilities.can_create, capabilities.can_list, capabilities.can_expand) == (True, True, False)
    assert (capabilities.reports_capacity, capabilities.supports_topology) == (True, False)
    plugin.settings.controller = False
    calls = len(plugin.calls)
    capabilities = direct_plugin(plugin).capabilities(Deadline(60))
    assert not capabilities.reports_capacity
    assert [name for name, _ in plugin.calls[calls:]] == ["GetPluginInfo", "GetPluginCapabilities"]


def test_a_volume_is_created_in_exactly_the_requested_size_and_segment(plugin: CsiPlugin) -> None:
    plugin.settings.topology, plugin.settings.sizes = True, {"z1": 4 * GIB}
    client, deadline = direct_plugin(plugin), Deadline(60)
    volume = client.create("tonnage-1", GIB, VolumeSettings(access="block"), Z1, deadline)
    assert (volume.size, volume.segments) == (GIB, [Z1])
    [request] = plugin.asked("CreateVolume")
    assert (request.capacity_range.required_bytes, request.capacity_range.limit_bytes) == (GIB, GIB)
    assert request.volume_capabilities[0].HasField("block")
    assert client.create("tonnage-1", GIB, VolumeSettings(access="block"), Z1, deadline) == volume
    assert client.expand(volume.id, 2 * GIB, VolumeSettings(), deadline) == 2 * GIB
    assert client.capacity(VolumeSettings(), Z1, deadline).available == 2 * GIB
    client.delete(volume.id, deadline)
    client.delete(volume.id, deadline)
    assert client.volumes(deadline) == []


def test_a_list_of_several_pages_has_each_volume_once(plugin: CsiPlugin) -> None:
    plugin.settings.page = 2
    ids = {create_foreign(plugin, GIB, f"volume-{number}") for number in range(5)}
    volumes = direct_plugin(plugin).volumes(Deadline(60))
    assert {volume.id for volume in volumes} == ids
    assert len(volumes) == 5
    connection = Answers([page("a", "b", following="2"), page("b", "c")])
    assert [volume.id for volume in Plugin(connection).volumes(Deadline(60))] == ["a", "b", "c"]
    assert [request.starting_token for request in connection.requests] == ["", "2"]


def test_a_list_that_has_changed_is_read_from_its_beginning() -> None:
    connection = Answers([page("a", following="2"), failure(grpc.StatusCode.ABORTED), page("b")])
    assert Plugin(connection).volumes(Deadline(60)) == [PluginVolume("b", GIB, [])]
    for code, seconds in ((grpc.StatusCode.ABORTED, 0), (grpc.StatusCode.INTERNAL, 60)):
        with pytest.raises(CallFailed, match=code.name):
            Plugin(Answers([failure(code), page("b")])).volumes(Deadline(seconds))


def test_a_list_without_an_end_is_an_error() -> None:
    with pytest.raises(InvalidResponse, match="ends no list of volumes in 10000 pages"):
        Plugin(Answers([page(following="2")] * 10_000)).volumes(Deadline(60))


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (csi_pb2.Volume(capacity_bytes=GIB), "a volume without volume_id"),
        (csi_pb2.Volume(volume_id="vol-1", capacity_bytes=-1), "capacity_bytes = -1, and no size is negative"),
    ],
)
def test_a_volume_without_id_or_with_a_negative_size_is_invalid(volume: csi_pb2.Volume, message: str) -> None:
    connection = Answers([csi_pb2.CreateVolumeResponse(volume=volume)])
    with pytest.raises(InvalidResponse, match=message):
        Plugin(connection).create("tonnage-1", GIB, VolumeSettings(), None, Deadline(60))


def test_limits_of_a_volume_are_optional_and_not_negative() -> None:
    def capacity(**limits: int) -> Capacity:
        answer = csi_pb2.GetCapacityResponse(available_capacity=-1)
        for name, size in limits.items():
            getattr(answer, name).value = size
        return Plugin(Answers([answer])).capacity(None, None, Deadline(60))

    assert capacity() == Capacity(-1, None, None)
    assert capacity().available == 0
    assert capacity(maximum_volume_size=0, minimum_volume_size=7) == Capacity(-1, 0, 7)
    with pytest.raises(InvalidResponse, match="minimum_volume_size = -1, and no size is negative"):
        capacity(minimum_volume_size=-1)


def test_a_node_without_labels_has_no_segment() -> None:
    answer = csi_pb2.NodeGetInfoResponse(node_id="n1")
    assert Plugin(Answers([answer])).node_segment(Deadline(60)) is None
    answer.accessible_topology.segments["topology.csi.test/zone"] = "z1"
    assert Plugin(Answers([answer])).node_segment(Deadline(60)) == Z1


def test_a_plugin_that_does_not_tell_whether_it_is_ready_is_ready() -> None:
    not_ready, ready = csi_pb2.ProbeResponse(), csi_pb2.ProbeResponse()
    not_ready.ready.value, ready.ready.value = False, True
    assert Plugin(Answers([csi_pb2.ProbeResponse()])).wait_until_ready(Deadline(60))
    assert Plugin(Answers([not_ready, ready])).wait_until_ready(Deadline(60))
    assert not Plugin(Answers([not_ready])).wait_until_ready(Deadline(0))
    late = failure(grpc.StatusCode.DEADLINE_EXCEEDED)
    assert not Plugin(Answers([not_ready, late])).wait_until_ready(Deadline(60))
    with pytest.raises(CallFailed):
        Plugin(Answers([late])).wait_until_ready(Deadline(60))
