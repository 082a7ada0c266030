# SPDX-License-Identifier: Apache-2.0
"""``CSIStorageCapacity`` objects of external-provisioner, decoded."""

import pytest

from tests.unit.extensions.kubernetes.provisioner.published_objects import DRIVERS, HOSTPATH, PublishedDriver
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.cluster import objects
from tonnage.extensions.kubernetes.cluster.lowered_figures import LoweredFigure
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import LabelSelector, Lease, Owner, capacity_object


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.driver)
def test_an_object_keeps_its_figures_its_owner_and_its_nodes(driver: PublishedDriver) -> None:
    body = driver.body("n1", "10Gi", "4Gi")
    body["metadata"]["resourceVersion"] = "4711"
    decoded = capacity_object(body)
    assert (decoded.full_name, decoded.version) == (f"{driver.namespace}/{body['metadata']['name']}", 4711)
    assert (decoded.capacity, decoded.maximum_volume_size) == (10 * 2**30, 4 * 2**30)
    assert decoded.metadata.owner_references is not None
    assert [owner.name for owner in decoded.metadata.owner_references] == [driver.owner]
    assert decoded.node_topology is not None
    assert str(decoded.node_topology.term) == f"{driver.node_label} = n1"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, "nothing that could match"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a = 1, b = 2"),
        (
            {
                "matchLabels": {"zone": "z1"},
                "matchExpressions": [
                    {"key": "disk", "operator": "Exists"},
                    {"key": "arch", "operator": "NotIn", "values": ["arm"]},
                ],
            },
            "arch != arm, disk, zone = z1",
        ),
    ],
)
def test_a_label_selector_is_a_term_of_a_node_selector(raw: dict[str, object], text: str) -> None:
    assert str(type_conversion.convert(raw, LabelSelector).term) == text


def test_an_object_whose_figure_was_lowered_is_as_its_provisioner_has_written_it() -> None:
    body = HOSTPATH.body("n1", "1Gi")
    body["metadata"] |= {"resourceVersion": "4711", "annotations": LoweredFigure(4700, 2**30).annotations}
    unchanged, body["capacity"] = capacity_object(body), str(2**30 - 1)
    lowered = capacity_object(body)
    assert (unchanged.capacity, unchanged.version) == (2**30, 4711)
    assert (lowered.capacity, lowered.version) == (2**30, 4700)


@pytest.mark.parametrize("change", [{"capacity": "ten"}, {"storageClassName": 7}, {"nodeTopology": []}])
def test_a_malformed_object_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidInput, match="CSIStorageCapacity: "):
        capacity_object({**HOSTPATH.body("n1", "1Gi"), **change})


def test_owners_and_leases_are_reduced_to_their_signs_of_life() -> None:
    raw = b'{"metadata": {"name": "d", "uid": "u"}, "status": {"numberReady": 3, "desiredNumberScheduled": 4}}'
    assert objects.decode(raw, Owner).ready_pods == 3
    assert objects.decode(b'{"metadata": {"name": "d", "uid": "u"}, "status": {}}', Owner).ready_pods == 0
    raw = b'{"spec": {"holderIdentity": "a", "renewTime": "2026-01-02T12:00:00.123456Z", "leaseDurationSeconds": 15}}'
    lease = objects.decode(raw, Lease)
    assert lease.spec.renew_time is not None
    assert lease.spec.renew_time.microsecond == 123456
