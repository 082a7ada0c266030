# SPDX-License-Identifier: Apache-2.0
"""The volumes of a cloud as plans need them."""

from typing import Any

import pytest

from tests.unit.extensions.relocation.cloud_api import CLOUD, A, B, CloudApi, CloudWorld, type_id
from tonnage.capacity import errors
from tonnage.capacity.request import Operation
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.relocation import cloud_volumes
from tonnage.extensions.relocation.cloud_volumes import CloudVolumes
from tonnage.extensions.relocation.plan_choices import Choices


@pytest.fixture
def api() -> CloudApi:
    api = CloudApi({A: 100, B: 100})
    api.pools[A]["volume_backend_name"], api.pools[B]["volume_backend_name"] = "a", "b"
    api.types |= {"gold": {"volume_backend_name": "a"}, "silver": {"volume_backend_name": "b"}}
    return api


def reader(api: CloudApi, **choices: Any) -> CloudVolumes:
    world = CloudWorld(api)
    query = PlanQuery(goal="empty", options=Choices(cloud=CLOUD, **choices).as_options())
    world.planner.model(query)
    return world.planner.volumes(query)


def test_volumes_are_read_by_pool_the_largest_first(api: CloudApi) -> None:
    small, large = api.add(A, 5), api.add(A, 9, volume_type="gold")
    api.add(A, 9, **{"os-vol-mig-status-attr:migstat": "target:x"})
    api.add(None, 3, status="creating")
    volumes = reader(api)
    volumes.load([A, B])
    assert [volume.id for volume in volumes.of(A)] == [large, small]
    assert volumes.of(B) == []
    request = volumes.of(A)[0].spec.request  # type: ignore[union-attr]
    assert (request.operation, request.size_gb, request.volume_type) == (Operation.MIGRATE, 9, "gold")
    assert (request.extra_specs, request.availability_zone) == ({"volume_backend_name": "a"}, "nova")
    assert (request.attempted, volumes.of(A)[0].is_thick) == (frozenset({A}), True)


def test_a_volume_has_its_state_and_the_reason_why_it_stays(api: CloudApi) -> None:
    free, taken = api.add(A, 5), api.add(A, 6)
    api.snapshots.append(("s1", taken))
    volumes = reader(api).read([free, taken, "gone", api.add(None, 1)])
    assert set(volumes) == {free, taken}
    assert volumes[free].state == {
        "status": "available",
        "migration_status": None,
        "volume_type": "__DEFAULT__",
        "updated_at": api.volumes[free]["updated_at"],
    }
    assert (volumes[taken].spec, "has snapshots" in volumes[taken].reason) == (None, True)


def test_volumes_are_read_when_they_are_looked_up(api: CloudApi) -> None:
    first, second = api.add(A, 5), api.add(A, 6)
    volumes = reader(api).read([first, second])
    api.requests.clear()
    assert volumes[first] is volumes.get(first)
    assert [path for _, path, _ in api.requests] == [f"/volumes/{first}", "/snapshots"]
    assert volumes.get("else") is None
    assert len(volumes) == 2


def test_a_volume_gets_another_type_on_the_way(api: CloudApi) -> None:
    volume_id = api.add(A, 5, volume_type="gold")
    spec = reader(api, retype={"gold": "silver"}).read([volume_id])[volume_id].spec
    assert spec is not None
    assert (spec.volume_type_id, spec.request.extra_specs) == ("silver", {"volume_backend_name": "b"})


def test_a_type_that_suits_the_pool_leaves_a_volume_there(api: CloudApi) -> None:
    volume_id = api.add(A, 5, volume_type="gold")
    volume = reader(api, retype={"gold": "__DEFAULT__"}).read([volume_id])[volume_id]
    assert volume.spec is None
    assert f"Cinder would leave it in {A} as type __DEFAULT__" in volume.reason


def test_an_encrypted_volume_stays_on_storage_of_its_sort(api: CloudApi) -> None:
    api.pools[A]["storage_protocol"] = "ceph"
    volume_id = api.add(A, 5, encrypted=True)
    spec = reader(api).read([volume_id])[volume_id].spec
    assert spec is not None
    assert spec.request.extra_specs == {"storage_protocol": "ceph"}


def test_types_that_cannot_be_used_are_reasons_or_errors(api: CloudApi) -> None:
    api.types["odd"] = {"provisioning:type": "fat"}
    odd, unknown = api.add(A, 5, volume_type="odd"), api.add(A, 5, volume_type="deleted")
    volumes = reader(api).read([odd, unknown])
    assert "provisioning:type is 'fat'" in volumes[odd].reason
    assert "its volume type 'deleted' could not be found" in volumes[unknown].reason
    with pytest.raises(errors.InvalidInput, match="volume type 'bronze' could not be found: the types are"):
        reader(api, retype={"gold": "bronze"}).check_retypes()


def test_types_are_looked_up_by_name_and_id(api: CloudApi) -> None:
    lookup = reader(api).lookup([])
    assert lookup.type("gold") is lookup.type(type_id("gold"))


def test_the_sums_have_all_volumes(api: CloudApi) -> None:
    api.add(A, 5), api.add(A, 6), api.add(None, 7)
    assert cloud_volumes.sums(CloudWorld(api).client.volumes()) == {A: 11}
