# SPDX-License-Identifier: Apache-2.0
"""Several schedulers, pools nearly full: nobody is turned away who would fit, and no two wait for each other."""

import random
import uuid
from collections.abc import Iterator
from concurrent import futures
from types import SimpleNamespace
from typing import Any

import pytest

from tests.functional.deployment import until
from tests.servers import database as servers
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger import database
from tonnage.ledger import schema
from tonnage.rpc.messages import BackendReport
from tonnage.rpc.messages import Command
from tonnage.rpc.messages import CreateVolume
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import PoolQuery
from tonnage.scheduler.core import SchedulerCore
from tonnage.scheduler.settings import Settings
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

BACKENDS, ROOM = 20, 40
CINDER = Calculation.CINDER
#: Twice as much as there is room for, and at the end what fits everywhere.
SIZES = [*random.Random(1).choices([2, 3, 5, 8], k=300), *[1] * 100]
POOL: dict[str, Any] = {
    "pool_name": "p",
    "total_capacity_gb": ROOM,
    "free_capacity_gb": ROOM,
    "provisioned_capacity_gb": 0,
    "max_over_subscription_ratio": 1.0,
    "reserved_percentage": 0,
    "thin_provisioning_support": True,
    "thick_provisioning_support": False,
}


class Silence:
    """Agents that are never heard."""

    def run(self, backend: str, command: Command) -> None: ...

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def rejoin(self, backend: str) -> None: ...


@pytest.fixture(params=["postgresql_server", "mariadb_server"])
def schedulers(request: pytest.FixtureRequest) -> Iterator[list[SchedulerCore]]:
    server: servers.DatabaseServer = request.getfixturevalue(request.param)
    conf = SimpleNamespace(over_provisioning_calculation=CINDER, capacity_weight_multiplier=1.0)
    with server.database() as url:
        engine = database.create_engine(url, max_overflow=30)
        schema.sync(engine)
        cores = [
            SchedulerCore(
                Settings(
                    host=f"s{number}",
                    availability_zone="nova",
                    calculation=CINDER,
                    default_ratio=1.0,
                    service_down_time=60.0,
                    max_attempts=3,
                    batch_size=64,
                    claim_lease=60.0,
                ),
                database.Database(engine),
                Silence(),
                FilterChain([CapacityFilter(conf)], CINDER),
                WeigherChain([CapacityWeigher(conf)]),
            )
            for number in range(4)
        ]
        for core in cores:
            core.start()
        yield cores
        for core in cores:
            core.stop()
        engine.dispose()


def test_the_last_gib_goes_to_whoever_asks(schedulers: list[SchedulerCore], monkeypatch: pytest.MonkeyPatch) -> None:
    collisions: list[BaseException] = []
    monkeypatch.setattr(database, "_log_retry", lambda state: collisions.append(state.outcome.exception()))
    for number in range(BACKENDS):
        name = f"h{number}@b"
        hello = Hello(backend=name, nonce=str(number), availability_zone="nova", driver="x", rpc_version="1.1")
        epoch = schedulers[0].hello(hello).epoch
        for core in schedulers:
            core.report(BackendReport(backend=name, epoch=epoch, seq=1, covers=1, pools=[POOL], ended=[]))
    until(lambda: all(len(core.get_pools(PoolQuery())) == BACKENDS for core in schedulers), "all know the pools")

    def create(number: int) -> int:
        message = CreateVolume(
            request_id=f"r{number}", volume_id=str(uuid.uuid4()), size_gb=SIZES[number], project_id="p"
        )
        return SIZES[number] if schedulers[number % len(schedulers)].place(message).pool else 0

    with futures.ThreadPoolExecutor(64) as threads:
        assert sum(threads.map(create, range(len(SIZES)))) == BACKENDS * ROOM
    assert collisions == []
