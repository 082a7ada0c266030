# SPDX-License-Identifier: Apache-2.0
"""The pools of a backend, and the segments from which their volumes are accessible."""

import json
from pathlib import Path

import pytest

from tests.unit.drivers.csi.backends import section
from tonnage.capacity import errors
from tonnage.drivers.csi import plugin_settings
from tonnage.drivers.csi.class_pools import ClassPool, ClassPools
from tonnage.drivers.csi.cluster_segments import Segment

Z1, Z2 = (Segment.from_labels({"example.com/zone": zone}) for zone in ("z1", "z2"))


def class_pools(folder: Path, text: str = "", names: str = "gold, tin") -> ClassPools:
    """Return the pools of a backend on the host ``n1``."""
    conf = section(folder, f"csi_storage_classes = {names}\n{text}")
    return ClassPools(plugin_settings.storage_classes(conf, "n1@csi"), conf, "n1")


def labels(file: Path) -> str:
    return f"csi_topology = labels\ncsi_topology_prefix = example.com\ncsi_nodes_file = {file}\n"


def write_nodes(file: Path, zones: dict[str, str]) -> None:
    items = [{"metadata": {"name": name, "labels": {"example.com/zone": zone}}} for name, zone in zones.items()]
    file.write_text(json.dumps({"items": items}), encoding="utf-8")


def pool(tmp_path: Path, segment: Segment | None, text: str = "") -> ClassPool:
    """Return a pool of the class gold in a segment."""
    conf = section(tmp_path, f"csi_storage_classes = gold\n{text}")
    gold = plugin_settings.storage_classes(conf, "n1@csi")["gold"]
    return ClassPool("gold", gold, "" if segment is None else str(segment), segment)


def test_without_segments_each_class_is_a_pool(tmp_path: Path) -> None:
    pools = class_pools(tmp_path)
    assert [(pool.name, pool.segment, pool.node) for pool in pools.current()] == [
        ("gold", None, None),
        ("tin", None, None),
    ]
    assert not pools.per_node
    assert not pools.needs_topology
    assert pools.nodes_file_version() == ()


def test_each_class_has_a_pool_in_each_segment(tmp_path: Path) -> None:
    write_nodes(tmp_path / "nodes", {"n1": "z1", "n2": "z2", "n3": "z1"})
    pools = class_pools(tmp_path, labels(tmp_path / "nodes"))
    assert pools.needs_topology
    assert [(pool.name, pool.segment, pool.nodes) for pool in pools.current()] == [
        ("gold/zone=z1", Z1, ("n1", "n3")),
        ("gold/zone=z2", Z2, ("n2",)),
        ("tin/zone=z1", Z1, ("n1", "n3")),
        ("tin/zone=z2", Z2, ("n2",)),
    ]


def test_the_nodes_are_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    write_nodes(file, {"n1": "z1"})
    pools = class_pools(tmp_path, labels(file), "gold")
    version = pools.nodes_file_version()
    write_nodes(file, {"n1": "z1", "n2": "z2"})
    assert pools.nodes_file_version() != version
    assert [pool.name for pool in pools.current()] == ["gold/zone=z1", "gold/zone=z2"]


def test_a_file_of_nodes_that_cannot_be_read_changes_nothing_on_the_storage(tmp_path: Path) -> None:
    pools = class_pools(tmp_path, labels(tmp_path / "absent"))
    assert pools.nodes_file_version() == ()
    with pytest.raises(
        errors.DriverError, match=r"^csi_nodes_file = .*/absent cannot be read: .*No such file"
    ) as caught:
        pools.current()
    assert caught.value.clean


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csi_topology = labels", r"^\[csi\] csi_topology = labels needs csi_topology_prefix$"),
        ("csi_topology = labels\ncsi_topology_prefix = x", r"^\[csi\] csi_topology = labels needs csi_nodes_file$"),
    ],
)
def test_labels_need_a_prefix_and_a_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        class_pools(tmp_path, text)


@pytest.mark.parametrize(("text", "node"), [("", "n1"), ("csi_node_name = worker-7\n", "worker-7")])
def test_a_node_of_its_own_has_a_pool_of_each_class(tmp_path: Path, text: str, node: str) -> None:
    pools = class_pools(tmp_path, f"csi_topology = node\n{text}", "gold, <ephemeral>")
    assert pools.per_node
    pools.set_node_segment(Z1)
    # Inline ephemeral volumes are made where they are published, and need no segment.
    assert [(pool.name, pool.segment, pool.node) for pool in pools.current()] == [
        (f"gold/{node}", Z1, node),
        (f"<ephemeral>/{node}", None, node),
    ]


def test_the_class_of_a_pool_is_known_whatever_the_nodes_are(tmp_path: Path) -> None:
    pools = class_pools(tmp_path)
    assert pools.has_class_of("gold")
    assert pools.has_class_of("gold/zone=z9")
    assert not pools.has_class_of("silver/zone=z1")
    assert not pools.has_class_of("goldfish")


def test_pools_share_storage_only_within_a_segment(tmp_path: Path) -> None:
    assert pool(tmp_path, Z1).storage_id is None
    assert pool(tmp_path, None, "csi_storage_id = disks").storage_id == "disks"
    assert pool(tmp_path, Z1, "csi_storage_id = disks").storage_id == "disks/zone=z1"


def test_a_volume_is_accessible_from_a_pool_within_one_of_its_segments(tmp_path: Path) -> None:
    rack = Segment.from_labels({"example.com/zone": "z1", "example.com/rack": "r3"})
    assert pool(tmp_path, rack).can_reach([Z2, Z1])
    assert not pool(tmp_path, rack).can_reach([Z2])
    # The volume may be in another rack of the zone.
    assert not pool(tmp_path, Z1).can_reach([rack])
    assert pool(tmp_path, Z1).can_reach([])
    assert pool(tmp_path, None).can_reach([Z1])
