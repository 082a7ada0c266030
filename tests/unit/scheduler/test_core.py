# SPDX-License-Identifier: Apache-2.0
import datetime
import pathlib
import uuid
from collections.abc import Iterator
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND
from tests.unit.scheduler.world import Agent
from tests.unit.scheduler.world import StoragePool
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.chain import FilterChain
from tonnage.ledger import database
from tonnage.ledger import models
from tonnage.ledger import services
from tonnage.rpc.messages import Hello
from tonnage.rpc.messages import ManageVolume
from tonnage.rpc.messages import PoolQuery
from tonnage.scheduler.core import SchedulerCore
from tonnage.scheduler.settings import Settings
from tonnage.weighers.chain import WeigherChain

DOWN_TIME = 60.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def core(tmp_path: pathlib.Path, clock: Clock) -> Iterator[SchedulerCore]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    models.Base.metadata.create_all(engine)
    settings = Settings(
        host="here",
        availability_zone="nova",
        calculation=Calculation.CINDER,
        default_ratio=20.0,
        service_down_time=DOWN_TIME,
        max_attempts=3,
        batch_size=64,
        claim_lease=60,
        drain_concurrency=4,
    )
    agents: Any = SimpleNamespace(run=lambda *given: None)
    core = SchedulerCore(settings, database.Database(engine), agents, FilterChain([]), WeigherChain([]), clock)
    core.start()
    agent = Agent({"p0": StoragePool(20, 2.0, thin=True, thick=False)})
    agent.epoch = core.hello(Hello(backend=BACKEND, nonce="n", availability_zone="nova", driver="memory")).epoch
    core.report(agent.look())
    keep_house(core)
    yield core
    core.stop()
    engine.dispose()


def state(core: SchedulerCore) -> Any:
    [pool] = core.get_pools(PoolQuery())
    return pool.capabilities["backend_state"]


def keep_house(core: SchedulerCore) -> None:
    """Have the thread keep house now."""

    def work(items: Sequence[None]) -> list[None]:
        core._keep_house()
        return [None] * len(items)

    core._thread.call(work, None)


def test_no_backend_is_down_because_the_scheduler_did_not_listen(core: SchedulerCore, clock: Clock) -> None:
    def stall(items: Sequence[None]) -> list[None]:
        clock.now += DOWN_TIME + 30
        return [None] * len(items)

    core._thread.call(stall, None)
    keep_house(core)
    assert state(core) == "up"


def test_a_backend_that_is_silent_while_the_scheduler_listens_is_down(core: SchedulerCore, clock: Clock) -> None:
    ages_ago = sa.update(models.Backend).values(last_report_at=datetime.datetime(2000, 1, 1))  # noqa: DTZ001
    core._database.run(lambda session: session.execute(ages_ago) and None)
    while clock.now <= DOWN_TIME:
        assert state(core) == "up"
        clock.now += 4
        keep_house(core)
    assert state(core) == "down"


def test_a_backend_that_another_scheduler_has_heard_is_not_down(core: SchedulerCore, clock: Clock) -> None:
    # The ledger's clock has not moved: by it the backend has just reported, to whomever.
    while clock.now <= DOWN_TIME + 30:
        clock.now += 4
        keep_house(core)
    assert state(core) == "up"


def test_nothing_is_abandoned_while_an_old_scheduler_is_there(core: SchedulerCore) -> None:
    assert not core._rpc_version < "1.1"
    old = services.Myself(binary=services.SCHEDULER, host="old", rpc_version="1.0")
    core._database.run(services.heartbeat, old)
    core._next_sweep = 0.0
    keep_house(core)
    assert not core._all_new()


def test_an_agent_of_the_release_before_is_given_nothing_to_copy(core: SchedulerCore) -> None:
    hello = Hello(backend="old@backend", nonce="n", availability_zone="nova", driver="memory")
    core.hello(hello)
    assert "old@backend" in core._outdated()
    with pytest.raises(errors.Unavailable, match=r"manage_volume needs version 1\.1 .* the agent of old@backend"):
        core.manage(
            ManageVolume(
                request_id="req-1", volume_id=str(uuid.uuid4()), pool="old@backend#p", reference="x", project_id="p"
            )
        )


def test_each_backend_is_one_schedulers_turn(core: SchedulerCore) -> None:
    assert core._has_turn(BACKEND), "who is alone has every turn"
    core._others = frozenset(["there", "elsewhere"])
    names = [f"host{number}@backend" for number in range(300)]
    mine = {name for name in names if core._has_turn(name)}
    assert 60 < len(mine) < 140
    core._others = frozenset(["there"])
    assert mine < {name for name in names if core._has_turn(name)}, "when one goes, the others share its turns"


def test_a_report_that_is_anothers_turn_is_applied_a_moment_later(core: SchedulerCore) -> None:
    core._others = frozenset(f"other{number}" for number in range(50))
    agent = Agent({"p0": StoragePool(77, 2.0, thin=True, thick=False)})
    agent.epoch, agent.seq, agent.tick = 1, 10, 10
    core.report(agent.look())
    keep_house(core)
    [pool] = core.get_pools(PoolQuery())
    assert pool.capabilities["total_capacity_gb"] == 77
