# SPDX-License-Identifier: Apache-2.0
"""The table of allocations that Placement was told of."""

from typing import Any

import pytest
from oslo_db import exception as db_exc

from tests.unit.ledger.records import Records, new_id
from tonnage.extensions.placement.tables import Allocation


@pytest.fixture
def records() -> Records:
    return Records()


def allocation(**values: Any) -> Allocation:
    usual = {
        "consumer_id": new_id(),
        "consumer_type": "VOLUME",
        "volume_id": new_id(),
        "pool_id": 7,
        "project_id": "p",
        "size_gb": 3,
    }
    return Allocation(**usual | values)


def test_a_consumer_has_one_allocation_and_a_volume_may_have_several(records: Records) -> None:
    """While a volume is migrated, it takes room in two pools."""
    volume_id = new_id()
    first = allocation(volume_id=volume_id)
    consumer_id = first.consumer_id
    records.add(first)
    records.add(allocation(volume_id=volume_id, pool_id=8))
    with pytest.raises(db_exc.DBDuplicateEntry):
        records.add(allocation(consumer_id=consumer_id))


def test_a_new_allocation_is_not_in_placement_yet(records: Records) -> None:
    records.add(allocation())
    assert records.rows("SELECT generation, doubt, user_id FROM placement_allocations") == [(None, None, "")]


def test_an_allocation_outlives_its_pool_until_it_is_withdrawn(records: Records) -> None:
    pool_id = records.pool()
    records.add(allocation(pool_id=pool_id))
    records.rows("DELETE FROM pools")
    assert records.rows("SELECT pool_id FROM placement_allocations") == [(pool_id,)]
