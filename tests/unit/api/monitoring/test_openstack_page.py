# SPDX-License-Identifier: Apache-2.0
"""The page with openstack-exporter's series about Cinder."""

import gzip
import math
from collections.abc import Mapping

import pytest
import sqlalchemy as sa
from prometheus_client import parser

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.api.monitoring.openstack_page import OpenStackPage
from tonnage.quotas.limits import Resource

#: The exporter's series about Cinder, without those of single volumes, of backups, and of limits by type, and their
#: labels.
LABELS = {
    "openstack_cinder_up": set(),
    "openstack_cinder_agent_state": {"uuid", "hostname", "service", "adminState", "zone", "disabledReason"},
    "openstack_cinder_volumes": set(),
    "openstack_cinder_snapshots": set(),
    "openstack_cinder_volume_status_counter": {"status"},
    "openstack_cinder_pool_capacity_free_gb": {"name", "volume_backend_name", "vendor_name"},
    "openstack_cinder_pool_capacity_total_gb": {"name", "volume_backend_name", "vendor_name"},
    "openstack_cinder_limits_volume_max_gb": {"tenant", "tenant_id"},
    "openstack_cinder_limits_volume_used_gb": {"tenant", "tenant_id"},
}


@pytest.fixture
def world() -> World:
    """A pool of 20 GiB with volumes of 3 and 4 GiB."""
    world = World({"thin": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    world.made(3)
    world.made(4)
    return world


def samples(
    world: World, *, down_time: float = 60.0, max_pools: int = 10, max_projects: int = 10, backend: str | None = None
) -> dict[str, dict[str, float]]:
    """Return the values of each series by the values of its labels, which must be those of the exporter."""
    page = OpenStackPage(world.database, down_time, 0.0, max_pools, max_projects, {Resource.GIGABYTES: 1000})
    found: dict[str, dict[str, float]] = {}
    for family in parser.text_string_to_metric_families(gzip.decompress(page.compressed(backend)).decode()):
        for sample in family.samples:
            assert set(sample.labels) == LABELS[sample.name]
            found.setdefault(sample.name, {})[" ".join(filter(None, sample.labels.values()))] = sample.value
    return found


def of_only(values: Mapping[str, float]) -> float:
    [value] = values.values()
    return value


def test_the_page_has_the_series_of_the_exporter_in_its_units(world: World) -> None:
    found = samples(world)
    assert found.keys() == LABELS.keys()
    assert of_only(found["openstack_cinder_pool_capacity_total_gb"]) == 20
    assert (
        found["openstack_cinder_volume_status_counter"]["available"] == of_only(found["openstack_cinder_volumes"]) == 2
    )
    assert found["openstack_cinder_volume_status_counter"]["error_deleting"] == 0
    assert of_only(found["openstack_cinder_limits_volume_used_gb"]) == 7
    assert of_only(found["openstack_cinder_limits_volume_max_gb"]) == 1000
    [agent] = [key for key in found["openstack_cinder_agent_state"] if "cinder-volume" in key]
    assert BACKEND in agent


def test_a_silent_backend_is_down_and_its_pools_are_left_out(world: World) -> None:
    found = samples(world, down_time=-1)
    assert set(found["openstack_cinder_agent_state"].values()) == {0}
    assert "openstack_cinder_pool_capacity_free_gb" not in found


def test_an_unknown_capacity_is_no_number(world: World) -> None:
    with world.engine.begin() as connection:
        connection.execute(sa.text("UPDATE pools SET free_capacity_gb = NULL"))
    assert math.isnan(of_only(samples(world)["openstack_cinder_pool_capacity_free_gb"]))


def test_the_number_of_series_is_bounded(world: World) -> None:
    found = samples(world, max_pools=0, max_projects=0)
    assert not [name for name in found if "pool_capacity" in name or "limits" in name]
    assert of_only(found["openstack_cinder_volumes"]) == 2


def test_one_backend_can_be_selected(world: World) -> None:
    assert samples(world, backend=BACKEND).keys() == {
        name for name in LABELS if name.endswith(("up", "agent_state", "free_gb", "total_gb"))
    }
    assert samples(world, backend="another@backend").keys() == {"openstack_cinder_up"}
