# SPDX-License-Identifier: Apache-2.0
"""The behaviour of the CSI driver beyond the contract (tests/contract/test_csi.py), with a plugin on a real socket."""

import contextlib
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.drivers import configured
from tests.unit.drivers.csi.backends import Make, create_foreign, direct_plugin, figures, listed, volume
from tonnage.capacity import errors
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.capacity.reports.validation import validate
from tonnage.capacity.request import Operation, Request
from tonnage.capacity.units import GIB
from tonnage.drivers import loader
from tonnage.drivers.base import Driver
from tonnage.drivers.csi import cluster_segments, storage_class_config
from tonnage.drivers.csi.connection import Deadline
from tonnage.filters.driver import DriverFilter
from tonnage.filters.topology import TopologyFilter

_KEY = "topology.csi.test/zone"


@pytest.fixture
def zones(plugin: CsiPlugin, tmp_path: Path) -> str:
    """The options for a plugin with two zones; three nodes are in them and a fourth is in none."""
    plugin.settings.topology = True
    plugin.settings.sizes = {"z1": 6 * GIB, "z2": 4 * GIB}
    nodes = tmp_path / "nodes.json"
    write_nodes(nodes, {"n1": "z1", "n2": "z2", "n3": "z1", "n4": None})
    return f"csi_topology = labels\ncsi_topology_prefix = topology.csi.test\ncsi_nodes_file = {nodes}"


def write_nodes(file: Path, zones: dict[str, str | None]) -> None:
    items = [
        {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | ({_KEY: zone} if zone else {})}}
        for name, zone in zones.items()
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "items": items}), encoding="utf-8")


@contextlib.contextmanager
def query_timeout(driver: Driver, seconds: float) -> Iterator[None]:
    """Shorten the timeout of queries within the context."""
    driver.conf._conf.set_override("csi_look_timeout", seconds, group=driver.conf.section_name)
    yield
    driver.conf._conf.clear_override("csi_look_timeout", group=driver.conf.section_name)


# Configuration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csi_state_file = /tmp/state", r"\[csi\] csi_endpoint is not set"),
        ("csi_endpoint = unix:///csi.sock", r"\[csi\] csi_state_file is not set"),
        ("csi_storage_classes = a, a", "csi_storage_classes = a, a: at least one is needed, each once"),
        ("csi_topology = labels", "csi_topology = labels needs csi_topology_prefix"),
        ('csi_parameters = {"copies": 2}', r"\[csi:default\] csi_parameters: copies is 2; all values are text"),
        ("csi_ephemeral_folder = /srv", "csi_ephemeral_folder = /srv: name <ephemeral> among csi_storage_classes"),
    ],
)
def test_invalid_configurations_are_refused(tmp_path: Path, text: str, message: str) -> None:
    whole = "csi_endpoint" in text or "csi_state_file" in text
    rest = "" if whole else "csi_endpoint = unix:///csi.sock\ncsi_state_file = s\n"
    conf = configured.conf(tmp_path, f"[csi]\nvolume_driver = csi\n{rest}{text}\n")
    with pytest.raises(errors.ConfigurationError, match=message):
        loader.load("host@csi", "csi", conf)


def test_without_grpc_options_are_listed_and_the_driver_names_the_package(tmp_path: Path) -> None:
    program = """if True:
        import pathlib, sys
        sys.modules["grpc"] = None
        from tests.unit.drivers import configured
        from tonnage.capacity import errors
        from tonnage.drivers import loader
        from tonnage.drivers.csi import driver
        print(len(driver.CSIDriver.options) > 5)
        try:
            loader.load("host@csi", "csi", configured.conf(pathlib.Path(sys.argv[1]), "[csi]\\nvolume_driver = csi\\n"))
        except errors.ConfigurationError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert re.search(r"^True\n.*import of grpc halted.*; install it with: .*\[csi\]", done.stdout)


# Reports


def test_the_report_of_a_pool(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    driver.create(volume(size_gb=3))
    [pool] = driver.report()
    assert figures(driver) == {"default": (10.0, 7.0, 3.0)}
    assert (pool["thick_provisioning_support"], pool["thin_provisioning_support"]) == (True, False)
    assert (pool["csi_plugin"], pool["csi_plugin_version"], pool["storage_class"]) == (
        "folders.csi.test",
        "1.0",
        "default",
    )
    assert not {"topology", "node_name", "storage_id", "maximum_volume_size_gb"} & pool.keys()


def test_a_pool_for_each_class_in_each_segment(plugin: CsiPlugin, make: Make, zones: str) -> None:
    driver = make(
        f"csi_storage_classes = plain, safe, <ephemeral>\n{zones}",
        '[csi:safe]\ncsi_parameters = {"copies": "2"}\ncsi_access = block\nreserved_percentage = 50\n',
    )
    assert {name: free for name, (_, free, _) in figures(driver).items()} == {
        **{"plain/zone=z1": 6.0, "plain/zone=z2": 4.0, "safe/zone=z1": 3.0, "safe/zone=z2": 2.0},
        **{"<ephemeral>/zone=z1": 6.0, "<ephemeral>/zone=z2": 4.0},
    }
    safe = next(pool for pool in driver.report() if pool["pool_name"] == "safe/zone=z2")
    assert (safe["topology"], safe["topology_labels"]) == ({"zone": "z2"}, {_KEY: "z2"})
    assert (safe["storage_class"], safe["reserved_percentage"]) == ("safe", 50)
    requests = {
        (dict(request.parameters).get("copies"), request.accessible_topology.segments[_KEY]): request
        for request in plugin.asked("GetCapacity")
        if request.volume_capabilities
    }
    assert requests["2", "z1"].volume_capabilities[0].HasField("block")
    assert requests[None, "z1"].volume_capabilities[0].HasField("mount")
    ephemeral = [request for request in plugin.asked("GetCapacity") if not request.volume_capabilities]
    assert {request.accessible_topology.segments[_KEY] for request in ephemeral} == {"z1", "z2"}
    assert not any(request.parameters for request in ephemeral)


def test_a_node_name_finds_the_pools_of_its_segment(plugin: CsiPlugin, make: Make, zones: str) -> None:
    [*reported] = validate(make(zones).report()).pools
    pools = PoolTable(
        [Pool(name=f"h@b#{each.name}", total=9.0, free=9.0, capabilities=each.capabilities) for each in reported]
    )
    assert pools.names == ("h@b#default/zone=z1", "h@b#default/zone=z2")
    for hints, expected in (
        ({"node_name": "n3"}, [True, False]),
        ({"node_name": "n4"}, [False, False]),
        ({"accessibility_requirements": {"requisite": [{"segments": {_KEY: "z2"}}]}}, [False, True]),
    ):
        assert TopologyFilter(None).accepts(pools, Request("r", 1, hints=hints)).tolist() == expected


def test_a_volume_in_another_segment_is_deleted(plugin: CsiPlugin, make: Make, zones: str) -> None:
    driver = make(zones)
    plugin.settings.misplaced = "z2"
    with pytest.raises(errors.DriverError, match="made it in segment zone=z2, not in zone=z1; it is deleted") as caught:
        driver.create(volume(pool="default/zone=z1"))
    assert caught.value.clean
    assert (plugin.storage.all(), listed(driver)) == ([], {})
    plugin.settings.failing["DeleteVolume"] = grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(errors.DriverError, match="not in zone=z1; it could not be deleted: ") as caught:
        driver.create(volume(pool="default/zone=z1"))
    assert not caught.value.clean
    assert len(listed(driver)) == 1
    plugin.settings.failing.clear()
    driver.delete(volume(pool="default/zone=z1"))
    assert plugin.storage.all() == []


def test_the_pools_follow_the_nodes(plugin: CsiPlugin, make: Make, zones: str, tmp_path: Path) -> None:
    driver = make(zones)
    there = volume("there", pool="default/zone=z2")
    driver.create(there)
    assert list(figures(driver)) == ["default/zone=z1", "default/zone=z2"]
    assert not driver.has_news()
    write_nodes(tmp_path / "nodes.json", {"n1": "z1"})
    assert driver.has_news()
    assert list(figures(driver)) == ["default/zone=z1"]
    assert not driver.has_news()
    assert listed(driver) == {"there": ("default/zone=z2", 1.0)}
    with pytest.raises(errors.DriverError, match="no node is in that segment any more") as caught:
        driver.create(volume("other", pool="default/zone=z2"))
    assert caught.value.clean
    driver.delete(there)
    driver.delete(there)
    assert plugin.storage.all() == []
    (tmp_path / "nodes.json").write_text("[]")
    with pytest.raises(errors.DriverError, match=r"nodes.json cannot be read: there is no list 'items'"):
        driver.report()
    with pytest.raises(errors.ConfigurationError, match=r"\[csi\] csi_nodes_file = .*/nodes.json cannot be read"):
        make(zones)


def test_with_topology_node_each_node_has_its_own_pools(plugin: CsiPlugin, make: Make) -> None:
    plugin.settings.topology, plugin.settings.own = True, "z2"
    plugin.settings.sizes = {"z1": 6 * GIB, "z2": 4 * GIB}
    driver = make("csi_storage_classes = <ephemeral>, fast\ncsi_topology = node\ncsi_node_name = n2")
    assert {name: free for name, (_, free, _) in figures(driver).items()} == {"<ephemeral>/n2": 4.0, "fast/n2": 4.0}
    assert {pool["node_name"] for pool in driver.report()} == {"n2"}
    segments = {bool(call.volume_capabilities): call.accessible_topology for call in plugin.asked("GetCapacity")}
    assert dict(segments[True].segments) == {_KEY: "z2"}
    assert not any(
        call.HasField("accessible_topology")
        for call in plugin.asked("GetCapacity")
        if not call.parameters and not call.volume_capabilities
    )
    driver.create(volume(pool="fast/n2"))
    assert [kept.segment for kept in plugin.storage.all()] == ["z2"]
    with pytest.raises(errors.DriverError, match="inline ephemeral volumes are made by their nodes") as caught:
        driver.create(volume("w", pool="<ephemeral>/n2"))
    assert caught.value.clean
    assert not plugin.asked("NodePublishVolume")


def test_a_plugin_without_topology_receives_no_segments(plugin: CsiPlugin, make: Make) -> None:
    make("csi_topology = node\ncsi_node_name = n1").report()
    assert not any(call.HasField("accessible_topology") for call in plugin.asked("GetCapacity"))


def test_classes_on_the_same_disks_share_a_storage(plugin: CsiPlugin, make: Make, zones: str) -> None:
    driver = make(
        f"csi_storage_classes = plain, safe\ncsi_storage_id = disks\n{zones}",
        '[csi:safe]\ncsi_parameters = {"copies": "2"}',
    )
    shared = {pool["pool_name"]: (pool["storage_id"], pool["storage_free_capacity_gb"]) for pool in driver.report()}
    assert shared["plain/zone=z1"] == ("disks/zone=z1", 6.0)
    assert shared["safe/zone=z1"] == ("disks/zone=z1", 3.0)
    assert shared["safe/zone=z2"] == ("disks/zone=z2", 2.0)


def test_a_pool_of_unknown_capacity_is_left_out(
    plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    driver = make("csi_storage_classes = good, bad", '[csi:bad]\ncsi_parameters = {"copies": "9"}')
    for _ in range(2):
        assert list(figures(driver)) == ["good"]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(messages) == 1
    assert messages[0].startswith(
        f"Pool host@csi#bad is not reported: {plugin.endpoint} answers Controller/GetCapacity with INVALID_ARGUMENT"
    )
    plugin.stop()
    with query_timeout(driver, 2):
        assert figures(driver) == {}
    plugin.start()
    deadline = time.monotonic() + 60
    while list(figures(driver)) != ["good"]:
        assert time.monotonic() < deadline
    assert "Pool host@csi#good is reported again" in caplog.text


def test_a_report_waits_for_a_hanging_plugin_no_longer_than_its_timeout(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    plugin.settings.gates["GetCapacity"] = threading.Event()
    began = time.monotonic()
    with query_timeout(driver, 2):
        assert figures(driver) == {}
    assert time.monotonic() - began < 50, "its gate stays shut for a minute"


def test_an_invalid_response_is_not_reported(plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    driver = make()
    plugin.settings.smallest = -1
    assert figures(driver) == {}
    assert "minimum_volume_size = -1, and no size is negative" in caplog.text


# Limits


def test_the_reserved_percentage_is_enforced_before_the_plugin_is_called(plugin: CsiPlugin, make: Make) -> None:
    driver = make("reserved_percentage = 30")
    with pytest.raises(errors.CapacityExceeded, match=r"headroom 7.00 GiB"):
        driver.create(volume(size_gb=8))
    driver.create(volume(size_gb=7))
    assert not any(request.capacity_range.required_bytes == 8 * GIB for request in plugin.asked("CreateVolume"))


def test_the_largest_volume_size_is_enforced(plugin: CsiPlugin, make: Make) -> None:
    plugin.settings.largest, plugin.settings.smallest = 2 * GIB + GIB // 3, GIB // 3
    driver = make()
    [pool] = driver.report()
    assert (pool["maximum_volume_size_gb"], pool["minimum_volume_size_gb"]) == (2.33, 0.34)
    with pytest.raises(errors.CapacityExceeded, match=r"largest volume the plugin makes now has 2.33 GiB, of 10.00"):
        driver.create(volume(size_gb=3))
    assert plugin.asked("CreateVolume") == []
    driver.create(volume(size_gb=2))
    plugin.settings.largest = 6 * GIB
    driver.extend(volume(size_gb=2), 6)


@pytest.mark.parametrize(("operation", "fits"), [(Operation.CREATE, [1, 2]), (Operation.EXTEND, [1, 2, 3, 4, 5])])
def test_the_filter_function_has_the_size_limits(
    plugin: CsiPlugin, make: Make, operation: Operation, fits: list[int]
) -> None:
    """DriverFilter applies the limits together with the operator's own expression."""
    plugin.settings.largest, plugin.settings.smallest = 2 * GIB + GIB // 3, GIB // 3
    [stats] = validate(make("filter_function = volume.size < 6").report()).pools
    pools = PoolTable([Pool(name="h@b#p", total=stats.total, free=stats.free, capabilities=stats.capabilities)])
    chosen = DriverFilter(None)
    sizes = [size for size in range(9) if chosen.accepts(pools, Request("r", size, operation=operation))[0]]
    assert sizes == ([0, *fits] if operation is Operation.EXTEND else fits)
    assert chosen.reason(pools.row(0), Request("r", 3)).message == ("makes no such volume: largest volume is 2.33 GiB")
    assert chosen.reason(pools.row(0), Request("r", 0)).message == ("makes no such volume: smallest volume is 0.34 GiB")
    own = chosen.reason(pools.row(0), Request("r", 6, operation=Operation.EXTEND)).message
    assert "does not hold (volume.size is 6" in own


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.CapacityExceeded),
        (grpc.StatusCode.OUT_OF_RANGE, errors.DriverError),
        (grpc.StatusCode.INVALID_ARGUMENT, errors.DriverError),
    ],
)
def test_refusals_of_a_create(
    plugin: CsiPlugin, make: Make, code: grpc.StatusCode, error: type[errors.TonnageError]
) -> None:
    driver = make()
    plugin.settings.failing["CreateVolume"] = code
    with pytest.raises(
        error, match=f"answers Controller/CreateVolume with {code.name}: as the test wants it"
    ) as caught:
        driver.create(volume())
    assert getattr(caught.value, "clean", True)
    assert len(plugin.asked("CreateVolume")) == 1
    plugin.settings.failing.clear()
    driver.create(volume())
    assert listed(driver) == {"v": ("default", 1.0)}


def test_less_than_nothing_available_counts_as_nothing(
    plugin: CsiPlugin, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.settings.expands_beyond = True
    driver = make()
    driver.create(volume(size_gb=9))
    settings = storage_class_config.storage_class("default", driver.conf, "").settings
    assert settings is not None
    direct_plugin(plugin).expand(plugin.storage.all()[0].id, 12 * GIB, settings, Deadline(60))
    assert figures(driver) == figures(driver) == {"default": (10.0, 0.0, 12.0)}
    assert not validate(driver.report()).errors
    warnings = [record.getMessage() for record in caplog.records if "available" in record.getMessage()]
    assert warnings == ["Pool host@csi#default: the plugin reports an available capacity of -2 GiB, which counts as 0"]
    with pytest.raises(errors.CapacityExceeded, match=r"headroom 0\.00 GiB"):
        driver.create(volume("w"))


# Owners of volumes


def test_the_same_id_is_a_different_volume_in_each_pool(plugin: CsiPlugin, make: Make) -> None:
    driver = make("csi_storage_classes = a, b")
    driver.create(volume(pool="a"))
    driver.create(volume(pool="b", size_gb=2))
    assert sorted(kept.size for kept in plugin.storage.all()) == [GIB, 2 * GIB]
    driver.delete(volume(pool="a"))
    assert [kept.size for kept in plugin.storage.all()] == [2 * GIB]


def test_foreign_volumes_count_and_can_be_managed(plugin: CsiPlugin, make: Make, zones: str) -> None:
    plugin.settings.page, plugin.settings.stale_tokens = 2, 1
    driver = make(f"csi_storage_classes = a, b\n{zones}")
    for number in range(5):
        driver.create(volume(str(number), pool="b/zone=z1"))
    zone = cluster_segments.Segment.from_labels({_KEY: "z2"})
    foreign = create_foreign(plugin, GIB + GIB // 2, segment=zone)
    assert listed(driver)[foreign] == ("a/zone=z2", 1.5)
    assert figures(driver)["a/zone=z2"] == (4.0, 2.5, 1.5)
    with pytest.raises(errors.DriverError, match="no such volume in that pool"):
        driver.manage(volume("mine", pool="b/zone=z1"), foreign)
    assert driver.manage(volume("mine", pool="b/zone=z2"), foreign) == 2.0
    assert listed(driver)["mine"] == ("b/zone=z2", 2.0)
    assert driver.manage(volume("mine", pool="b/zone=z2"), foreign) == 2.0
    driver.delete(volume("mine", pool="b/zone=z2"))
    assert len(plugin.storage.all()) == 5


def test_a_delete_by_the_plugins_id_reaches_a_volume_without_a_record(plugin: CsiPlugin, make: Make) -> None:
    """As for the purge of an orphan."""
    driver = make()
    driver.create(volume())
    [own] = plugin.storage.all()
    foreign = create_foreign(plugin)
    driver.delete(volume(foreign))
    assert [kept.id for kept in plugin.storage.all()] == [own.id]
    driver.delete(volume(foreign))
    driver.delete(volume("unknown"))
    # A volume of Tonnage has another id.
    driver.delete(volume(own.id))
    assert [request.volume_id for request in plugin.asked("DeleteVolume")] == [foreign]
    assert listed(driver) == {"v": ("default", 1.0)}


def test_a_delete_by_the_plugins_id_tells_why_it_fails(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    foreign = create_foreign(plugin)
    plugin.settings.failing["DeleteVolume"] = grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(errors.DriverError, match="DeleteVolume with FAILED_PRECONDITION"):
        driver.delete(volume(foreign))
    plugin.settings.failing["ListVolumes"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown, match="ListVolumes with INTERNAL"):
        driver.delete(volume(foreign))
    plugin.settings.failing.clear()
    plugin.settings.lost_answers["CreateVolume"] = grpc.StatusCode.UNKNOWN
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume())
    [made] = [kept.id for kept in plugin.storage.all() if kept.id != foreign]
    with pytest.raises(errors.DriverError, match="may be the volume of a create without a known outcome"):
        driver.delete(volume(made))
    assert len(plugin.storage.all()) == 2


def test_managing_a_recorded_volume_reads_its_current_size(plugin: CsiPlugin, make: Make) -> None:
    driver = make()
    driver.create(volume())
    settings = storage_class_config.storage_class("default", driver.conf, "").settings
    assert settings is not None
    direct_plugin(plugin).expand(plugin.storage.all()[0].id, 2 * GIB + 1, settings, Deadline(60))
    assert driver.manage(volume("w"), "v") == 3.0
    assert listed(driver) == {"w": ("default", 3.0)}
    direct_plugin(plugin).delete(plugin.storage.all()[0].id, Deadline(60))
    with pytest.raises(errors.DriverError, match="no such volume in that pool"):
        driver.manage(volume("x"), "w")


def test_operations_without_plugin_support_are_refused(plugin: CsiPlugin, make: Make) -> None:
    plugin.settings.lists = plugin.settings.expands = False
    driver = make()
    driver.create(volume())
    assert listed(driver) == {"v": ("default", 1.0)}
    with pytest.raises(errors.DriverError, match="grows no volumes") as caught:
        driver.extend(volume(), 2)
    assert caught.value.clean
    with pytest.raises(errors.DriverError, match="no such volume"):
        driver.manage(volume("w"), "something")
    plugin.settings.creates = False
    with pytest.raises(errors.DriverError, match="makes no volumes"):
        make().create(volume("w"))


# Inline ephemeral volumes

INLINE = "<ephemeral>/n1"


@pytest.fixture
def inline(tmp_path: Path) -> str:
    """The options for inline ephemeral volumes."""
    (tmp_path / "pods").mkdir()
    return (
        "csi_storage_classes = fast, <ephemeral>\ncsi_topology = node\ncsi_node_name = n1\n"
        f"csi_ephemeral_folder = {tmp_path / 'pods'}\ncsi_pod_info = true\n"
    )


def test_an_inline_volume_is_published_in_the_requested_size(
    plugin: CsiPlugin, make: Make, tmp_path: Path, inline: str
) -> None:
    driver = make(f'{inline}csi_ephemeral_attributes = {{"kind": "scratch"}}')
    inline_volume = volume("../v", 3, INLINE)
    driver.create(inline_volume)
    driver.create(inline_volume)
    [request] = plugin.asked("NodePublishVolume")
    assert dict(request.publish_context) == {"csi.storage.k8s.io/size": "3Gi"}
    assert dict(request.volume_context) == {
        "kind": "scratch",
        "csi.storage.k8s.io/ephemeral": "true",
        "csi.storage.k8s.io/pod.name": request.volume_id,
        "csi.storage.k8s.io/pod.namespace": "tonnage",
        "csi.storage.k8s.io/pod.uid": request.volume_id,
    }
    [target] = (tmp_path / "pods").iterdir()
    assert (str(target), target.name) == (request.target_path, request.volume_id)
    assert [kept.size for kept in plugin.storage.all()] == [3 * GIB]
    # The plugin does not list it, and it counts anyway.
    assert listed(driver) == {"../v": (INLINE, 3.0)}
    assert figures(driver)[INLINE] == (10.0, 7.0, 3.0)
    with pytest.raises(errors.CapacityExceeded, match="headroom 7"):
        driver.create(volume("w", 8, INLINE))
    for refused in (lambda: driver.extend(inline_volume, 4), lambda: driver.manage(volume("w", pool=INLINE), "x")):
        with pytest.raises(errors.DriverError, match="inline ephemeral volumes stay as they were made"):
            refused()
    driver.delete(inline_volume)
    driver.delete(inline_volume)
    assert (plugin.storage.all(), list((tmp_path / "pods").iterdir())) == ([], [])
    assert listed(driver) == {}


def test_an_inline_volume_with_two_sizes_is_refused(plugin: CsiPlugin, make: Make, inline: str) -> None:
    driver = make(f'{inline}csi_ephemeral_attributes = {{"size": "2Gi"}}')
    with pytest.raises(
        errors.DriverError, match="INVALID_ARGUMENT: two sizes: fsSize 3Gi and attribute size 2Gi"
    ) as caught:
        driver.create(volume("v", 3, INLINE))
    assert caught.value.clean
    assert (listed(driver), plugin.storage.all()) == ({}, [])


def test_an_interrupted_publication_is_finished_when_it_is_repeated(plugin: CsiPlugin, make: Make, inline: str) -> None:
    plugin.settings.gates["NodePublishVolume"] = gate = threading.Event()
    driver = make(f"{inline}csi_timeout = 0.3")
    with pytest.raises(errors.DriverError, match="NodePublishVolume with DEADLINE_EXCEEDED") as caught:
        driver.create(volume("v", 3, INLINE))
    assert not caught.value.clean
    gate.set()
    again = make(inline)
    assert listed(again) == {}
    again.create(volume("v", 3, INLINE))
    assert listed(again) == {"v": (INLINE, 3.0)}
    again.delete(volume("v", 3, INLINE))
    assert plugin.storage.all() == []


def test_a_publication_without_an_answer_is_undone(plugin: CsiPlugin, make: Make, inline: str) -> None:
    """Its id is known: where the repeated call fails too, and for a delete, it is unpublished."""
    driver = make(inline)
    for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
        plugin.settings.lost_answers["NodePublishVolume"] = code
        with pytest.raises(errors.DriverError, match=f"NodePublishVolume with {code.name}") as caught:
            driver.create(volume("v", 3, INLINE))
        assert caught.value.clean
        assert plugin.storage.all() == []
    plugin.settings.failing["NodeUnpublishVolume"] = grpc.StatusCode.INTERNAL
    with pytest.raises(errors.OutcomeUnknown):
        driver.create(volume("v", 3, INLINE))
    assert len(plugin.storage.all()) == 1
    plugin.settings.failing.clear()
    asked = len(plugin.asked("NodePublishVolume"))
    driver.delete(volume("v", 3, INLINE))
    assert plugin.storage.all() == []
    assert len(plugin.asked("NodePublishVolume")) == asked
