# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.rpc.messages import Asked, WhatIf
from tonnage.scheduler.settings import Mutable
from tonnage.scheduler.simulation import ledger_snapshot, simulator
from tonnage.scheduler.simulation.simulator import Simulator
from tonnage.weighers.chain import WeigherChain


def test_decisions_on_the_ledger_are_those_of_a_scheduler() -> None:
    world = World({"p0": StoragePool(10, 1.0, thin=False, thick=True)}).started()
    world.made(4)
    conf = SimpleNamespace(over_provisioning_calculation=Calculation.CINDER)
    filters = FilterChain([CapacityFilter(conf)], Calculation.CINDER)
    mutable = Mutable(filters, WeigherChain([]), Calculation.CINDER, 20.0)
    settings: Any = SimpleNamespace(service_down_time=60, availability_zone="nova")

    def pools(down_time: float, *sizes: int) -> list[str | None]:
        settings.service_down_time = down_time
        snapshot = ledger_snapshot.read(world.database, settings, mutable)
        question = WhatIf(requests=[Asked(create=world.create_message(size)) for size in sizes], detail=False)
        asked = simulator.requests_of(question)
        return [each.volumes[0].pool for each in Simulator(world.database).what_if(question, asked, snapshot)]

    assert pools(60, 5, 5, 1) == [f"{BACKEND}#p0", None, f"{BACKEND}#p0"]
    assert pools(-1, 1) == [None]
    world.engine.dispose()
