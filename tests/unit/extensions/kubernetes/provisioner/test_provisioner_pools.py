# SPDX-License-Identifier: Apache-2.0
"""Objects of provisioners as pools: names, nodes, shared disks, duplicates."""

from typing import Any

import pytest

from tests.unit.extensions.kubernetes.provisioner.published_objects import HOSTPATH, OPENEBS_LVM, TOPOLVM
from tonnage.extensions.kubernetes.provisioner import provisioner_pools
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import capacity_object
from tonnage.extensions.kubernetes.provisioner.provisioner_pools import ClassOfStorage, ProvisionerPool
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerState

GIB = 2**30


def raw_object(body: dict[str, Any], version: int = 1, **changes: Any) -> dict[str, Any]:
    return {**body, **changes, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def pools(
    *bodies: dict[str, Any],
    states: dict[str, ProvisionerState] | None = None,
    disks: dict[str, str] | None = None,
    **parameters: dict[str, str],
) -> dict[str, dict[tuple[str, str], ProvisionerPool]]:
    """Return the pools of objects whose classes have these parameters; without any those of hostpath."""
    classes = {name: ClassOfStorage("disk.example.com", values) for name, values in parameters.items()}
    if not classes:
        classes = {HOSTPATH.storage_class: ClassOfStorage(HOSTPATH.driver, HOSTPATH.parameters)}
    return provisioner_pools.pools_by_driver(map(capacity_object, bodies), classes, states or {}, disks or {})


def test_an_object_is_a_pool_of_its_class_named_after_its_nodes() -> None:
    classes = {
        driver.storage_class: ClassOfStorage(driver.driver, driver.parameters)
        for driver in (TOPOLVM, OPENEBS_LVM, HOSTPATH)
    }
    bodies = [raw_object(driver.body("n1", "10Gi", "4Gi"), 7) for driver in (TOPOLVM, OPENEBS_LVM, HOSTPATH)]
    made = provisioner_pools.pools_by_driver(map(capacity_object, bodies), classes, {}, {})
    assert {(name, *key) for name, driver_pools in made.items() for key in driver_pools} == {
        ("topolvm.io", "topolvm-provisioner", "topology.topolvm.io/node = n1"),
        ("local.csi.openebs.io", "openebs-lvmpv", "openebs.io/nodename = n1"),
        ("hostpath.csi.k8s.io", "csi-hostpath-fast", "topology.hostpath.csi/node = n1"),
    }
    [provisioner_pool] = made["topolvm.io"].values()
    pool = provisioner_pool.pool
    assert (pool.capacity, pool.maximum_volume_size, pool.object_version) == (10 * GIB, 4 * GIB, 7)
    assert pool.object_name == "topolvm-system/csisc-topolvm-provisioner-n1"
    assert provisioner_pool.state is ProvisionerState.UNKNOWN


@pytest.mark.parametrize(
    ("topology", "names"),
    [
        ({}, ["all nodes"]),
        (None, []),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}, ["zone in (a, b)"]),
    ],
)
def test_an_empty_selector_means_all_nodes_and_none_means_no_node(topology: Any, names: list[str]) -> None:
    made = pools(raw_object(HOSTPATH.body("n1", "1Gi"), nodeTopology=topology))
    assert [name for driver_pools in made.values() for _, name in driver_pools] == names


def test_long_selectors_have_short_names() -> None:
    values = [f"node-{number}" for number in range(100)]
    expressions = [{"key": "zone", "operator": "In", "values": values}]
    body = raw_object(HOSTPATH.body("n1", "1Gi"), nodeTopology={"matchExpressions": expressions})
    [[(_, name)]] = map(list, pools(body).values())
    assert name.startswith("nodes ")
    assert len(name) < 50


def test_objects_of_classes_that_are_not_there_are_left_out() -> None:
    assert pools(raw_object(TOPOLVM.body("n1", "1Gi"))) == {}


@pytest.mark.parametrize(
    ("second", "disks", "shared"),
    [
        ({"kind": "fast", "csi.storage.k8s.io/fstype": "xfs", "fsType": "xfs"}, {}, True),
        ({"kind": "slow"}, {}, False),
        ({"kind": "slow"}, {"a": "vg", "b": "vg"}, True),
        ({"kind": "fast"}, {"a": "vg"}, False),
    ],
)
def test_classes_with_the_same_parameters_share_their_disks(
    second: dict[str, str], disks: dict[str, str], shared: bool
) -> None:
    bodies = [
        raw_object(HOSTPATH.body(node, "1Gi", name=f"{name}-{node}"), storageClassName=name)
        for name in "ab"
        for node in ("n1", "n2")
    ]
    made = pools(*bodies, disks=disks, a={"kind": "fast"}, b=second)["disk.example.com"]
    backing = {(key[0], key[1][-2:]): entry.pool.backing_id for key, entry in made.items()}
    assert (backing["a", "n1"] == backing["b", "n1"]) is shared
    assert backing["a", "n1"] != backing["a", "n2"]


def test_of_two_objects_for_the_same_nodes_that_of_a_working_provisioner_counts_then_the_later_one() -> None:
    first, second = (
        raw_object(HOSTPATH.body("n1", size, name=name), version)
        for name, size, version in (("old", "5Gi", 8), ("new", "3Gi", 9))
    )
    [later] = pools(first, second)[HOSTPATH.driver].values()
    assert later.pool.object_name == "default/new"
    states = {"default/old": ProvisionerState.WORKING, "default/new": ProvisionerState.GONE}
    [working] = pools(first, second, states=states)[HOSTPATH.driver].values()
    assert (working.pool.object_name, working.state) == ("default/old", ProvisionerState.WORKING)
