# SPDX-License-Identifier: Apache-2.0
"""Segments of a cluster, and the nodes from a file."""

import json
from pathlib import Path

import pytest

from tonnage.drivers.csi import cluster_segments
from tonnage.drivers.csi.cluster_segments import Node, Segment

ZONE = Segment.from_labels({"example.com/zone": "z1"})
RACK = Segment.from_labels({"example.com/zone": "z1", "example.com/rack": "r3"})


def test_segments_are_the_distinct_label_sets_with_the_prefix() -> None:
    nodes = [
        {"example.com/zone": "Z1", "example.com/rack": "R3", "kubernetes.io/os": "linux"},
        {"example.com/rack": "R3", "example.com/zone": "Z1"},
        {"example.com/zone": "Z1", "sub.example.com/rack": "R9"},
        {"example.com.other/zone": "Z7", "zone": "Z8"},
    ]
    names_by_segment = cluster_segments.segments_of_nodes(
        [Node(f"n{number}", labels) for number, labels in enumerate(nodes)], "example.com"
    )
    assert {str(segment): names for segment, names in names_by_segment.items()} == {
        "rack=R3,zone=Z1": ("n0", "n1"),
        "zone=Z1": ("n2",),
    }
    rack, zone = names_by_segment
    assert rack.is_within(zone)
    assert not zone.is_within(rack)


@pytest.mark.parametrize("text", ["", "{}", '{"items": [1]}', '{"items": [{"metadata": {"labels": {"a": 1}}}]}'])
def test_a_file_without_a_list_of_nodes_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "nodes").write_text(text)
    with pytest.raises(ValueError, match=r"."):
        cluster_segments.read_nodes(tmp_path / "nodes")


def test_a_segment_is_equal_whatever_the_order_of_its_labels() -> None:
    assert Segment.from_labels({"example.com/rack": "r3", "example.com/zone": "z1"}) == RACK
    assert str(RACK) == "rack=r3,zone=z1"


def test_all_segments_are_within_the_one_without_labels() -> None:
    assert RACK.is_within(Segment())
    assert ZONE.is_within(ZONE)
    assert not Segment().is_within(ZONE)
    assert not ZONE.is_within(Segment.from_labels({"example.com/zone": "z2"}))


def test_a_node_without_a_name_makes_its_segment_known() -> None:
    nodes = [Node("", {"example.com/zone": "z1"}), Node("n2", {"example.com/zone": "z2"})]
    assert list(cluster_segments.segments_of_nodes(nodes, "example.com").values()) == [(), ("n2",)]


def test_nodes_are_read_as_kubectl_writes_them(tmp_path: Path) -> None:
    items = [
        {"metadata": {"name": "n1", "labels": {"example.com/zone": "z1"}}},
        {"metadata": {"name": "n2"}},
        {"metadata": {"name": 7, "labels": None}},
    ]
    (tmp_path / "nodes").write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    assert cluster_segments.read_nodes(tmp_path / "nodes") == [
        Node("n1", {"example.com/zone": "z1"}),
        Node("n2", {}),
        Node("", {}),
    ]
