# SPDX-License-Identifier: Apache-2.0
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent import futures
from types import SimpleNamespace

import pytest

from tests.servers.base import wait_for
from tests.unit.scheduler.conftest import Clock
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool
from tonnage.capacity.request import Request
from tonnage.filters.base import PoolFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db import database
from tonnage.ledger.locks import heartbeats
from tonnage.rpc import contract
from tonnage.rpc.messages import CreateVolume, Hello, PoolQuery
from tonnage.scheduler.configuration.settings import ReloadableSettings
from tonnage.scheduler.manager import SchedulerManager
from tonnage.weighers.chain import WeigherChain


def test_a_scheduler_that_ends_need_not_be_agreed_with(core: SchedulerManager, ledger: database.Database) -> None:
    core.stop()
    with ledger.reading() as session:
        [row] = [row for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER]
    assert (row.host, row.default_ratio, row.calculation) == ("here", None, None)


def test_pools_are_shown_and_decisions_explained(core: SchedulerManager, ledger: database.Database) -> None:
    [pool] = core.get_pools(PoolQuery())
    assert pool.name == f"{BACKEND}#p0"
    assert core.get_pools(PoolQuery(name="elsewhere")) == []
    with pytest.raises(errors.InvalidInput, match="volume type 'gold' could not be found"):
        core.get_pools(PoolQuery(volume_type="gold"))
    message = CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")
    assert core.explain(message).pool == pool.name
    with ledger.reading() as session:
        assert session.connection().exec_driver_sql("SELECT COUNT(*) FROM volumes").scalar() == 0


def test_a_hello_that_no_agent_waits_for_any_more_is_not_handled(
    core: SchedulerManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "LONGEST_HELLO", 0.01)
    began, end = threading.Event(), threading.Event()

    def occupy(items: Sequence[None]) -> list[None]:
        began.set()
        assert end.wait(60)
        return [None] * len(items)

    core._thread.submit(occupy, None)
    assert began.wait(60)
    hello = Hello(backend="h@late", nonce="n", availability_zone="nova", driver="memory")
    with futures.ThreadPoolExecutor(1) as threads:
        answer = threads.submit(core.hello, hello)
        wait_for(lambda: core._thread.waiting() == 1, "the hello to wait")
        time.sleep(0.02)
        end.set()
        with pytest.raises(errors.Declined, match="waited too long"):
            answer.result()
    assert core.hosts.backend("h@late") is None


def test_fields_that_no_plugin_reads_are_warned_of(
    core: SchedulerManager, run_periodic_tasks: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    run_periodic_tasks()  # its report is applied
    backend = core.hosts.backend(BACKEND)
    assert backend is not None
    backend.rules[f"{BACKEND}#p0"] = frozenset({"filter_function"})
    run_periodic_tasks()
    assert f"filter_function has no effect on backend {BACKEND}" in caplog.text


class Nowhere(PoolFilter):
    def accepts_pool(self, pool: Pool, request: Request) -> bool:
        return False


def test_settings_change_as_a_whole_or_not_at_all(
    core: SchedulerManager, ledger: database.Database, clock: Clock, join: Callable[[], None]
) -> None:
    message = CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")
    nowhere = FilterChain([Nowhere(SimpleNamespace())])
    [factors] = core.get_pools(PoolQuery())[0].capacity_factors
    join()
    clock.step = 20.0  # the other one does not agree in time
    with pytest.raises(errors.ConfigurationError, match=r"is standard here and cinder on scheduler other, which is up"):
        core.change(ReloadableSettings(nowhere, WeigherChain([]), Calculation.STANDARD, 20.0))
    clock.step = 0.0
    assert core.explain(message).pool is not None
    assert core.get_pools(PoolQuery())[0].capacity_factors == [factors]
    # What schedulers may differ in changes at once.
    core.change(ReloadableSettings(nowhere, WeigherChain([]), Calculation.CINDER, 20.0))
    refused = core.place(message)
    assert [outcome.filter for outcome in refused.refusal.outcomes] == ["BackendStateFilter", "Nowhere"]
    ledger.run(heartbeats.leave, heartbeats.SchedulerProcess(binary=heartbeats.SCHEDULER, host="other"))
    core.change(ReloadableSettings(FilterChain([]), WeigherChain([]), Calculation.STANDARD, 20.0))
    assert core.explain(message).pool is not None
    with ledger.reading() as session:
        assert [row.calculation for row in heartbeats.load(session) if row.host == "here"] == ["standard"]
