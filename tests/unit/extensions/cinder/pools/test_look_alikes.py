# SPDX-License-Identifier: Apache-2.0
"""Look-alikes of the pools that Cinder's plug-ins judge."""

from typing import Any

import pytest

from tests.unit.extensions.cinder.pools.test_known_pools import reported
from tonnage.extensions.cinder.pools import look_alikes
from tonnage.extensions.cinder.pools.look_alikes import PoolLookAlike
from tonnage.ledger.inventory.backends import PoolRow
from tonnage.ledger.locks.pool_counters import Counters

NAME = "host@backend#p"


def look_alike(counters: Counters, **stats: Any) -> PoolLookAlike:
    row = PoolRow(
        id=1,
        backend_id=1,
        name=NAME,
        generation=1,
        counters=counters,
        ratio=2.5,
        thin_limit_gb=None,
        stats=stats,
        figures_age=None,
    )
    return look_alikes.look_alike(reported(NAME)[NAME], row)


@pytest.fixture
def counters() -> Counters:
    return Counters(allocated=30, in_flight=7, in_flight_physical=4)


def test_capacity_in_flight_is_counted(counters: Counters) -> None:
    pool = look_alike(counters, total_capacity_gb=100, free_capacity_gb=50.5, provisioned_capacity_gb=40)
    assert (pool.total_capacity_gb, pool.free_capacity_gb, pool.provisioned_capacity_gb) == (100, 46.5, 47.0)
    assert (pool.allocated_capacity_gb, pool.max_over_subscription_ratio) == (30, 2.5)


@pytest.mark.parametrize("figure", ["infinite", "unknown", "90", None])
@pytest.mark.parametrize(
    "name", ["total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb", "reserved_percentage"]
)
def test_a_figure_that_is_no_number_stays_for_cinders_filters(counters: Counters, name: str, figure: Any) -> None:
    assert getattr(look_alike(counters, **{name: figure}), name) == figure


def test_without_provisioned_capacity_the_volumes_of_the_ledger_count(counters: Counters) -> None:
    pool = look_alike(counters)
    assert (pool.provisioned_capacity_gb, pool.total_capacity_gb, pool.reserved_percentage) == (30, 0, 0)


def test_a_chosen_volume_is_counted_by_its_claim_alone(counters: Counters) -> None:
    pool = look_alike(counters, free_capacity_gb=50)
    pool.consume_from_volume({"size": 10})
    assert (pool.free_capacity_gb, pool.allocated_capacity_gb) == (46, 30)
