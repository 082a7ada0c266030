# SPDX-License-Identifier: Apache-2.0
"""The history while its writers are killed, and while clocks are set back: no row is double, none is invented."""

import datetime
import itertools
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.functional import history_process
from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tonnage.extensions.history import tables
from tonnage.extensions.history.history_writer import DAY, HOUR, INTERVAL, TEN_MINUTES
from tonnage.ledger import models
from tonnage.ledger.db import database

#: So many that a sample has several transactions.
POOLS = 3000
HOUR_LENGTH = datetime.timedelta(hours=1)
KILLS = 12
#: Growth and deletions of each pool in each round, in GiB.
GROWN, DELETED = 2, 1


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[database.Database]:
    """A ledger with pools of a backend that is up."""
    engine = database.create_engine(ledger_url)
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        session.add(models.Backend(id=1, name="host@b", last_report_at=models.utcnow()))
        session.flush()
        figures = {"total_capacity_gb": 100.0, "free_capacity_gb": 60.0, "provisioned_capacity_gb": 50.0}
        rows = [
            {"id": number, "backend_id": 1, "name": f"host@b#p{number}", **figures} for number in range(1, POOLS + 1)
        ]
        session.execute(sa.insert(models.Pool), rows)
        session.commit()
    found = database.Database(engine)
    yield found
    found.close()


class Writers:
    """Two processes that write samples."""

    def __init__(self, url: str, clock: pathlib.Path) -> None:
        self._command = [sys.executable, "-m", history_process.__name__, url, str(clock)]
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start both."""
        self._processes = [subprocess.Popen(self._command) for _ in range(2)]

    def kill(self) -> None:
        """Kill both; neither may have ended before."""
        for process in self._processes:
            assert process.poll() is None
            process.kill()
            process.wait(60)
        self._processes = []


def turns(ledger: database.Database) -> int:
    """Return the number of samples that were begun."""
    with ledger.reading() as session:
        return session.scalar(sa.select(tables.HistoryTurn.number)) or 0


def grow(ledger: database.Database) -> None:
    """Let each pool have new volumes and deleted ones."""
    pool = models.Pool
    values = {
        pool.allocated_capacity_gb: pool.allocated_capacity_gb + GROWN - DELETED,
        pool.deleted_gb: pool.deleted_gb + DELETED,
    }
    ledger.run(lambda session: session.execute(sa.update(pool).values(values)) and None)


def check(ledger: database.Database, begun: int, rounds: int, last: datetime.datetime) -> None:
    """Assert that the rows are of samples that were begun, each counted once, and of growth that there was."""
    row = tables.PoolHistory
    with ledger.reading() as session:
        rows = session.scalars(sa.select(row).order_by(row.pool_id, row.grain, row.slot)).all()
        session.expunge_all()
    by_pool: dict[int, dict[str, list[tables.PoolHistory]]] = {}
    for sample in rows:
        by_pool.setdefault(sample.pool_id, {TEN_MINUTES: [], HOUR: [], DAY: []})[sample.grain].append(sample)
    assert by_pool
    for of_pool in by_pool.values():
        hours, [day] = of_pool[HOUR], of_pool[DAY]
        assert len({one.slot for one in hours}) == len(hours)
        assert all(history_process.START.replace(minute=0) <= one.slot <= last for one in hours)
        assert max(one.samples for one in hours) <= HOUR_LENGTH.total_seconds() / INTERVAL
        assert sum(one.samples for one in hours) == day.samples <= begun
        for before, after in itertools.pairwise(hours):
            if after.slot == before.slot + HOUR_LENGTH:
                assert after.allocated_gb == before.allocated_gb + after.created_gb - after.deleted_gb
            else:
                assert after.slot > before.slot
        assert 0 <= sum(one.created_gb for one in hours) <= day.created_gb <= rounds * GROWN
        assert 0 <= sum(one.deleted_gb for one in hours) <= day.deleted_gb <= rounds * DELETED
        assert {one.moved_gb for one in (*hours, day)} == {0}


@pytest.mark.heavy
def test_killed_writers_and_a_clock_set_back_leave_no_double_and_no_invented_row(
    ledger: database.Database, ledger_url: str, tmp_path: pathlib.Path
) -> None:
    clock = tmp_path / "clock"
    began = time.time()
    clock.write_text(f"{began} 0")
    writers = Writers(ledger_url, clock)
    draw = random.Random(5)
    for _ in range(KILLS):
        writers.start()
        seen = turns(ledger)
        wait_for(lambda: turns(ledger) > seen, "a sample was begun", 60)  # noqa: B023
        time.sleep(draw.uniform(0, 0.8))  # anywhere in the sample
        writers.kill()
        grow(ledger)
    cut = turns(ledger)
    last = history_process.clock_of(clock)
    check(ledger, cut, KILLS, last)
    # Until the clock has caught up, no sample is written.
    clock.write_text(f"{began} {-3 * 6 * INTERVAL}")
    writers.start()
    wait_for(lambda: history_process.clock_of(clock) > last - HOUR_LENGTH, "the clock has two hours more", 60)
    assert turns(ledger) == cut
    wait_for(lambda: turns(ledger) >= cut + 8, "samples are written again", 60)
    writers.kill()
    check(ledger, turns(ledger), KILLS, history_process.clock_of(clock))
    with ledger.reading() as session:
        day = sa.select(sa.func.min(tables.PoolHistory.samples), sa.func.max(tables.PoolHistory.samples))
        least, most = session.execute(day.where(tables.PoolHistory.grain == DAY)).one()
    # Some writers were killed within a sample; others wrote theirs to the end. The clock runs fast: on a slow machine
    # the next sample may begin earlier, and the one before is not written to its end either.
    assert 0 < least < most <= turns(ledger)


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True, scope="module")
def test_another_scheduler_goes_on_with_the_history_when_one_is_killed(deploy: Deploy) -> None:
    """Schedulers look once a minute for whether a sample is due. The test makes it due."""
    size = {"filesystem_size_limit_gb": 10, "filesystem_provisioning": "thin"}
    with deploy({"one": size, "two": size}) as tonnage:
        tonnage.start()
        tonnage.launch_another_scheduler()
        for number in range(1, 5):
            wait_until_complete(tonnage, number)
            if number == 2:
                tonnage.kill("scheduler")
            tonnage.write("UPDATE history_turn SET sampled_at = sampled_at - INTERVAL '10 minutes'")
        samples = "SELECT SUM(samples), COUNT(DISTINCT slot) = COUNT(*) FROM pool_history GROUP BY grain, pool_id"
        assert [(int(number), is_once) for number, is_once in tonnage.sql(samples)] == [(4, True)] * 4


def wait_until_complete(tonnage: Deployment, number: int) -> None:
    """Wait until a sample was begun, and then until both pools have it."""
    wait_for(lambda: tonnage.sql("SELECT number FROM history_turn") == [(number,)], f"sample {number} was begun")
    samples = "SELECT SUM(samples) FROM pool_history WHERE grain = 'day' GROUP BY pool_id"
    wait_for(lambda: [int(one) for (one,) in tonnage.sql(samples)] == [number] * 2, f"sample {number} is complete", 30)
