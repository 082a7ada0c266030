# SPDX-License-Identifier: Apache-2.0
"""Effects of failed operations on volumes and counters."""

import pytest

from tests.unit.scheduler.world import StoragePool, World
from tonnage.capacity.request import Provisioning
from tonnage.rpc.messages import Answer, Outcome


@pytest.mark.parametrize(
    ("listed", "counted"), [(10, 10), (10.5, 11), (12, 12), (15, 15), (99, 15), (0, 10)], ids=lambda size: f"{size} GiB"
)
def test_the_real_growth_of_a_failed_extend_is_counted(listed: float, counted: int) -> None:
    world = World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}).started()
    [made] = world.create(10)
    assert isinstance(made, Answer)
    world.settle()
    world.extend(made.volume_id, 15)
    command = world.agent.commands.pop()
    world.pools["p0"].volumes[made.volume_id] = (counted, Provisioning.THIN)
    failed = Outcome(
        backend="host@backend",
        epoch=command.epoch,
        claim_id=command.claim_id,
        ok=False,
        end_tick=world.agent.next_tick(),
        size_gb=listed,
    )
    world.deliver(failed)
    assert world.rows("SELECT size_gb, status FROM volumes") == [(counted, "error_extending")]
    for table in ("pools", "backends"):
        assert world.rows(f"SELECT allocated_capacity_gb FROM {table}") == [(counted,)]
    world.report()
    assert world.rows("SELECT in_flight_gb, provisioned_capacity_gb FROM pools") == [(0, counted)]
    world.delete(made.volume_id)
    world.settle()
    assert world.rows("SELECT allocated_capacity_gb, in_flight_gb FROM pools") == [(0, 0)]
