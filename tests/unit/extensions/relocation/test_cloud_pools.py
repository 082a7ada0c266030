# SPDX-License-Identifier: Apache-2.0
"""The pools of a cloud in a table."""

import dataclasses
import datetime
import math

import pytest

from tests.unit.extensions.relocation.cloud_api import INTERVAL, A, B, CloudApi
from tonnage.capacity import type_conversion
from tonnage.capacity.pools.pool_table import PoolTable
from tonnage.extensions.relocation.cinder_client import ReportedPool, Service, Volume
from tonnage.extensions.relocation.cloud_pools import Figures


@pytest.fixture
def api() -> CloudApi:
    return CloudApi({A: 100, B: 100})


def figures(api: CloudApi) -> Figures:
    pools, services = (
        type_conversion.convert(api.answer("GET", path)[1][key], tuple[row, ...])
        for path, key, row in (
            ("/scheduler-stats/get_pools", "pools", ReportedPool),
            ("/os-services", "services", Service),
        )
    )
    return Figures(pools=pools, services=services, read_at=api.now)


def table(api: CloudApi, **more: object) -> PoolTable:
    volumes = type_conversion.convert(list(api.volumes.values()), list[Volume])
    return figures(api).table(volumes, 20.0, INTERVAL, **more)  # type: ignore[arg-type]


def test_a_volume_that_has_changed_counts_as_in_flight_until_the_second_report(api: CloudApi) -> None:
    api.add(A, 10)
    volume_id = api.add(A, 5)
    api.change(volume_id)
    for seconds, in_flight in ((0, 5), (30, 5), (61, 0)):
        api.pass_time(seconds)
        pool = table(api).row(0)
        assert (pool.provisioned, pool.in_flight, pool.in_flight_physical) == (15, in_flight, in_flight)
    assert figures(api).contained_before(INTERVAL) == api.now - datetime.timedelta(seconds=INTERVAL)


def test_an_unfinished_volume_and_a_move_under_way_are_in_flight(api: CloudApi) -> None:
    api.add(A, 7, status="creating")
    assert table(api, moving={A: 3}).row(0).in_flight == 10


def test_tonnage_as_the_scheduler_shows_what_is_in_flight(api: CloudApi) -> None:
    api.pools[A] |= {"in_flight_capacity_gb": 8, "provisioned_capacity_gb": 20}
    api.change(api.add(A, 5))
    pool = table(api, moving={A: 3}).row(0)
    assert (pool.provisioned, pool.in_flight) == (12, 8)
    del api.pools[B]
    assert figures(api).contained_before(INTERVAL) == api.now


def test_the_sums_of_volumes_stand_for_a_missing_provisioned_capacity(api: CloudApi) -> None:
    api.pools[A] |= {"provisioned_capacity_gb": None, "allocated_capacity_gb": 1}
    api.change(api.add(A, 5))
    with_sums = table(api, sums={A: 5}, moving={A: 2}).row(0)
    assert (math.isnan(with_sums.provisioned), with_sums.allocated) == (True, 7)
    assert table(api, moving={A: 2}).row(0).allocated == 8


def test_pools_of_disabled_backends_are_there_and_take_nothing(api: CloudApi) -> None:
    del api.pools[A]
    api.services["h@a"]["status"] = "disabled"
    for more in ({"sums": {A: 12}}, {"hidden": [A]}):
        pools = table(api, **more)
        pool = pools.get(A)
        assert pool is not None
        assert (pool.up, pool.enabled, pool.availability_zone) == (True, False, "nova")
    assert pools.get(B).enabled  # type: ignore[union-attr]


def test_services_say_which_backends_are_up_and_enabled(api: CloudApi) -> None:
    api.services["h@a"]["state"] = "down"
    api.services["h@b"]["frozen"] = True  # type: ignore[assignment]
    # The scheduler had shown the pools just before.
    shown = figures(CloudApi({A: 100, B: 100})).pools
    pools = dataclasses.replace(figures(api), pools=shown).table((), 20.0, INTERVAL)
    assert (pools.row(0).up, pools.row(1).enabled) == (False, False)


def test_one_service_of_a_cluster_is_enough(api: CloudApi) -> None:
    api.pools["c@a#p"] = {"total": 10}
    api.services["h1@a"] = {"state": "down", "status": "enabled", "cluster": "c@a"}
    api.services["h2@a"] = {"state": "up", "status": "enabled", "cluster": "c@a"}
    row = table(api).get("c@a#p")
    assert row is not None
    assert row.up
    assert (figures(api).is_cluster("c@a#p"), figures(api).is_cluster(A)) == (True, False)


def test_a_pool_with_unusable_figures_is_left_out(api: CloudApi) -> None:
    api.pools[A] |= {"total_capacity_gb": "many"}
    assert list(table(api).names) == [B]


def test_the_time_of_a_report_is_that_of_its_pool(api: CloudApi) -> None:
    assert figures(api).reported_at(A) == api.now
    assert figures(api).reported_at("else") is None
    api.pools[A] |= {"timestamp": None}
    assert figures(api).reported_at(A) is None
    api.change(api.add(A, 5))
    assert table(api).row(0).in_flight == 5
