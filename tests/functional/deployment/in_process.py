# SPDX-License-Identifier: Apache-2.0
"""Several schedulers on one database, as threads of this process, with agents that only record their commands."""

import contextlib
from collections.abc import Iterator, Sequence

import pytest
import sqlalchemy as sa
import tenacity

from tests.servers.base import wait_for
from tests.unit.scheduler import managers
from tonnage.filters.capacity import CapacityFilter
from tonnage.ledger.db import database, db_errors
from tonnage.quotas.options import Settings as Quotas
from tonnage.rpc.messages import BackendReport, Command, Hello, Outcome, PoolQuery
from tonnage.rpc.packed_reports import PackedReport
from tonnage.scheduler.manager import SchedulerManager


class RecordingAgents:
    """The agents of all backends. They record each command, and complete all commands in :meth:`outcomes`."""

    def __init__(self) -> None:
        self._commands: list[tuple[str, Command]] = []

    def run(self, backend: str, command: Command) -> None:
        self._commands.append((backend, command))

    def report_now(self, backend: str) -> None: ...

    def list_now(self, backend: str) -> None: ...

    def take_stamps(self, backend: str, storage_ids: Sequence[str]) -> None: ...

    def rejoin(self, backend: str) -> None: ...

    def outcomes(self) -> list[Outcome]:
        """Return a successful outcome of each command since the last call."""
        commands, self._commands = self._commands, []
        return [
            Outcome(
                backend=backend,
                epoch=command.epoch,
                claim_id=command.claim_id,
                ok=True,
                end_tick=5,
                size_gb=float(command.size_gb),
            )
            for backend, command in commands
        ]


@contextlib.contextmanager
def run_schedulers(
    engine: sa.Engine,
    agents: RecordingAgents,
    *,
    schedulers: int,
    backends: int,
    capacity: int,
    quotas: Quotas | None = None,
) -> Iterator[list[SchedulerManager]]:
    """Run schedulers that know these backends ``h0@b``, ``h1@b`` and so on.

    Each backend has one thin pool ``p`` of ``capacity`` GiB with a ratio of 1.
    """
    cores = [
        managers.manager(
            database.Database(engine),
            agents,
            managers.settings(
                host=f"s{number}",
                default_ratio=1.0,
                # Each backend reports once, and the test may take long after that.
                service_down_time=3600.0,
                batch_size=16,
                claim_lease=3600.0,
                quotas=quotas or Quotas(),
            ),
            [CapacityFilter],
        )
        for number in range(schedulers)
    ]
    with contextlib.ExitStack() as cleanup:
        for core in cores:
            core.start()
            cleanup.callback(core.stop)
        _add_backends(cores, backends, capacity)
        yield cores


def record_collisions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Return a list that receives the error of each transaction that is retried because of another transaction."""
    found: list[BaseException] = []

    def note(_: database.Database, state: tenacity.RetryCallState) -> None:
        assert state.outcome is not None
        error = state.outcome.exception()
        if error is not None and db_errors.is_collision(error):
            found.append(error)

    monkeypatch.setattr(database.Database, "_note_retry", note)
    return found


def report(backend: str, capacity: int, *, seq: int = 1, provisioned: int = 0) -> BackendReport:
    """Return a report of a backend's first epoch, with figures in GiB for its only pool."""
    pool = {
        "pool_name": "p",
        "total_capacity_gb": capacity,
        "free_capacity_gb": capacity,
        "provisioned_capacity_gb": provisioned,
        "max_over_subscription_ratio": 1.0,
        "reserved_percentage": 0,
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
    }
    return BackendReport(backend=backend, epoch=1, seq=seq, covers=1, pools=[pool], ended=[])


def _add_backends(cores: list[SchedulerManager], backends: int, capacity: int) -> None:
    for number in range(backends):
        name = f"h{number}@b"
        cores[0].hello(Hello(backend=name, nonce=str(number), availability_zone="nova", driver="x"))
        for core in cores:
            core.report(PackedReport.of(report(name, capacity)))
    wait_for(
        lambda: all(len(core.get_pools(PoolQuery())) == backends for core in cores), "all schedulers know all pools"
    )
