# SPDX-License-Identifier: Apache-2.0
"""Several schedulers on one database, as threads, and backends that do in memory what they are told."""

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
import tenacity

from tests.functional.deployment import until
from tonnage.capacity.arithmetic import Calculation
from tonnage.filters.capacity import CapacityFilter
from tonnage.filters.chain import FilterChain
from tonnage.ledger.db import database, db_errors
from tonnage.quotas.options import Settings as Quotas
from tonnage.rpc.batching.packed_reports import PackedReport
from tonnage.rpc.messages import BackendReport, Command, Hello, Outcome, PoolQuery
from tonnage.scheduler.decisions.pool_selection import Rules
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.settings import Settings
from tonnage.weighers.capacity import CapacityWeigher
from tonnage.weighers.chain import WeigherChain

_CINDER = Calculation.CINDER


class Storage:
    """Agents that do at once what they are told, and tell it when asked."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Command]] = []

    def run(self, backend: str, command: Command) -> None:
        self.done.append((backend, command))

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None: ...

    def rejoin(self, backend: str) -> None: ...

    def outcomes(self) -> list[Outcome]:
        """Return how everything ended since the last time, which is well."""
        done, self.done = self.done, []
        return [
            Outcome(
                backend=backend,
                epoch=command.epoch,
                claim_id=command.claim_id,
                ok=True,
                end_tick=5,
                size_gb=float(command.size_gb),
            )
            for backend, command in done
        ]


@contextlib.contextmanager
def running(
    engine: sa.Engine, storage: Storage, *, schedulers: int, backends: int, room: int, quotas: Quotas | None = None
) -> Iterator[list[SchedulerManager]]:
    """Run schedulers, and let them know ``backends`` with room for so many GiB each, thin, at a ratio of 1."""
    conf = SimpleNamespace(over_provisioning_calculation=_CINDER, capacity_weight_multiplier=1.0)
    cores = [
        SchedulerManager(
            Settings(
                host=f"s{number}",
                availability_zone="nova",
                calculation=_CINDER,
                default_ratio=1.0,
                # They report once, and all that follows may take its time.
                service_down_time=3600.0,
                max_attempts=3,
                batch_size=16,
                claim_lease=3600.0,
                quotas=quotas or Quotas(),
            ),
            database.Database(engine),
            storage,
            Rules(FilterChain([CapacityFilter(conf)], _CINDER), WeigherChain([CapacityWeigher(conf)]), _CINDER),
        )
        for number in range(schedulers)
    ]
    with contextlib.ExitStack() as cleanup:
        for core in cores:
            core.start()
            cleanup.callback(core.stop)
        _join(cores, backends, room)
        yield cores


def collisions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Return what collects the transactions that got into each other's way, so that one was run again."""
    found: list[BaseException] = []

    def note(_: database.Database, state: tenacity.RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        if error is not None and db_errors.is_collision(error):
            found.append(error)

    monkeypatch.setattr(database.Database, "_note_retry", note)
    return found


def report(backend: str, room: int, *, seq: int = 1, provisioned: int = 0) -> BackendReport:
    """Return a report of the first epoch of a backend: its one pool has so many GiB, thin, at a ratio of 1."""
    pool = {
        "pool_name": "p",
        "total_capacity_gb": room,
        "free_capacity_gb": room,
        "provisioned_capacity_gb": provisioned,
        "max_over_subscription_ratio": 1.0,
        "reserved_percentage": 0,
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
    }
    return BackendReport(backend=backend, epoch=1, seq=seq, covers=1, pools=[pool], ended=[])


def _join(cores: list[SchedulerManager], backends: int, room: int) -> None:
    for number in range(backends):
        name = f"h{number}@b"
        cores[0].hello(Hello(backend=name, nonce=str(number), availability_zone="nova", driver="x"))
        for core in cores:
            core.report(PackedReport.of(report(name, room)))
    until(lambda: all(len(core.get_pools(PoolQuery())) == backends for core in cores), "all know the pools")
