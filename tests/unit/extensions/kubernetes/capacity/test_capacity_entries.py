# SPDX-License-Identifier: Apache-2.0
"""Entries of a driver's pools for kube-scheduler."""

import dataclasses
import datetime
from typing import Any

import pytest

from tests.unit.extensions.kubernetes.fit.decisions import GI, NOW, driver, pool, zone
from tonnage.capacity import type_conversion
from tonnage.capacity.topology.node_selectors import NodeSelector
from tonnage.extensions.kubernetes.capacity import capacity_entries
from tonnage.extensions.kubernetes.capacity.capacity_entries import HOSTNAME, CapacityEntry
from tonnage.extensions.kubernetes.capacity.claim_sums import ActiveClaim
from tonnage.extensions.kubernetes.capacity.driver_storage import EPHEMERAL, FALLBACK, Driver, Storage
from tonnage.extensions.kubernetes.cluster.nodes import Node

NODES = [Node("n1", {HOSTNAME: "n1.example.com", "disks": "2"}), Node("n2", {HOSTNAME: "n2", "disks": "8"})]


def entries(of: Driver, *classes: str) -> list[CapacityEntry]:
    built = capacity_entries.build_entries(of, classes or ("fast",), NODES, NOW)
    return sorted(built.values(), key=lambda entry: (entry.storage_class, entry.capacity))


def selector(*terms: Any) -> NodeSelector:
    return type_conversion.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


def expressions(entry: CapacityEntry) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(requirement.key, requirement.operator.value, requirement.values) for requirement in entry.selector]


def test_a_pool_of_all_nodes_has_an_empty_selector() -> None:
    [entry] = entries(driver(Storage("fast", (pool("p", 4),))))
    assert entry == CapacityEntry("disk.example.com", "fast", (), 4 * GI, None)


def test_the_largest_volume_is_at_most_the_capacity() -> None:
    pools = (pool("p", 4, maximum_volume_size=9 * GI), pool("q", 5, maximum_volume_size=2 * GI))
    assert [entry.maximum_volume_size for entry in entries(driver(Storage("fast", pools)))] == [4 * GI, 2 * GI]


def test_nodes_are_selected_by_their_hostnames() -> None:
    [entry] = entries(driver(Storage("fast", (pool("p", 4, node_list=("n2", "n1")),))))
    assert expressions(entry) == [(HOSTNAME, "In", ("n1.example.com", "n2"))]


def test_labels_are_selected_as_they_are_and_other_terms_by_the_nodes_that_match() -> None:
    labelled = pool("p", 1, node_topology=zone("a"))
    by_number = {"matchExpressions": [{"key": "disks", "operator": "Gt", "values": ["5"]}]}
    numbered = pool("q", 2, node_topology=selector(by_number))
    first, second = entries(driver(Storage("fast", (labelled, numbered))))
    assert expressions(first) == [("zone", "In", ("a",))]
    assert expressions(second) == [(HOSTNAME, "In", ("n2",))]


def test_each_alternative_of_a_topology_is_an_entry_and_an_empty_one_none() -> None:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("zone", "rack")]
    topology = selector(*terms, {"matchExpressions": []})
    built = entries(driver(Storage("fast", (pool("p", 1, node_topology=topology),))))
    assert sorted(expressions(entry)[0][0] for entry in built) == ["rack", "zone"]


def test_classes_without_a_storage_have_the_fallback_and_ephemeral_storage_is_left_out() -> None:
    storage = driver(
        Storage("fast", (pool("p", 1),)), Storage(FALLBACK, (pool("q", 2),)), Storage(EPHEMERAL, (pool("r", 3),))
    )
    assert [(entry.storage_class, entry.capacity) for entry in entries(storage, "fast", "slow")] == [
        ("fast", GI),
        ("slow", 2 * GI),
    ]


@pytest.mark.parametrize("storage", [pool("p"), pool("p", 1, expires_at=NOW)])
def test_pools_that_are_unknown_or_expired_have_no_entry(storage: Any) -> None:
    assert entries(driver(Storage("fast", (storage,)))) == []


def test_a_pool_has_an_entry_until_it_expires() -> None:
    storage = pool("p", 1, expires_at=NOW + datetime.timedelta(microseconds=1))
    assert len(entries(driver(Storage("fast", (storage,))))) == 1


def test_a_driver_that_is_not_tracked_has_no_entries() -> None:
    assert entries(driver(Storage("fast", (pool("p", 1),)), tracking=False)) == []


def test_the_name_of_an_entry_stays_with_other_sizes_alone() -> None:
    def name(*of: Any) -> str:
        [name] = capacity_entries.build_entries(driver(Storage("fast", of)), ["fast"], NODES, NOW)
        return name

    before = pool("p", 1, node_list=("n1",))
    assert name(before) == name(dataclasses.replace(before, capacity=9 * GI))
    assert name(before) != name(dataclasses.replace(before, node_list=("n2",)))


def test_figures_of_the_objects_of_others_are_not_published_again() -> None:
    pools = (pool("p", 4, object_name="storage/csisc-1", object_version=7), pool("q", 5))
    assert [entry.capacity for entry in entries(driver(Storage("fast", pools)))] == [5 * GI]


def test_capacities_are_less_the_claims_on_the_same_disks() -> None:
    stored = driver(
        Storage("fast", (pool("p", 10, backing_id="disks", maximum_volume_size=8 * GI), pool("q", 5))),
        Storage("mirrored", (pool("p", 5, backing_id="disks"),)),
    )
    claims = [ActiveClaim(("fast", "p"), 4 * GI, "disks", 10 * GI), ActiveClaim(("gone", "p"), GI)]
    built = capacity_entries.build_entries(stored, ("fast", "mirrored"), NODES, NOW, claims)
    sizes = sorted((entry.storage_class, entry.capacity, entry.maximum_volume_size) for entry in built.values())
    assert sizes == [("fast", 5 * GI, None), ("fast", 6 * GI, 6 * GI), ("mirrored", 3 * GI, None)]
