# SPDX-License-Identifier: Apache-2.0
"""Schedulers that end, or that freeze in a transaction, while another scheduler goes on."""

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.functional.deployment.processes import Process
from tests.servers.base import wait_for
from tonnage.ledger.db import database

#: Room for far more volumes than are created.
BACKENDS: dict[str, dict[str, Any]] = {
    name: {"filesystem_size_limit_gb": 20, "max_over_subscription_ratio": 1000, "filesystem_provisioning": "thin"}
    for name in ("one", "two")
}

on_each_server = pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module")
#: For tests that do not depend on the kind of database.
on_one_server = pytest.mark.parametrize(
    "deploy", ["postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)], indirect=True, scope="module"
)


class Creates:
    """Threads that create volumes of 1 GiB. A context manager; its exit stops them.

    ``answers`` has the end of each request in seconds, its duration and its status.
    """

    def __init__(self, tonnage: Deployment, threads: int) -> None:
        self._tonnage, self._number = tonnage, threads
        self._ends = False
        self.answers: list[tuple[float, float, int]] = []

    def __enter__(self) -> "Creates":
        self._threads = futures.ThreadPoolExecutor(self._number)
        self._running = [self._threads.submit(self._create) for _ in range(self._number)]
        return self

    def __exit__(self, *error: object) -> None:
        self._ends = True
        self._threads.shutdown()
        for thread in self._running:
            thread.result()

    def _create(self) -> None:
        while not self._ends:
            began = time.monotonic()
            answer = self._tonnage.rest.request_volume(1)
            self.answers.append((time.monotonic(), time.monotonic() - began, answer.status_code))

    def rate(self, since: float, until: float) -> float:
        """Return the number of accepted requests per second between two moments."""
        return sum(since <= end < until and status == 202 for end, _, status in self.answers) / (until - since)

    def wait_for_more(self, number: int = 30) -> None:
        """Wait until so many more requests are answered."""
        before = len(self.answers)
        wait_for(lambda: len(self.answers) >= before + number, f"{number} more requests are answered")


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    """Two schedulers."""
    with deploy(BACKENDS) as deployment:
        deployment.start().launch_another_scheduler()
        yield deployment


@on_one_server
def test_a_scheduler_finishes_its_requests_before_it_ends(tonnage: Deployment) -> None:
    with Creates(tonnage, 16) as creates:
        for name in ("scheduler", "another", "scheduler"):
            creates.wait_for_more()
            process = tonnage.processes[name]
            process.send(signal.SIGTERM)
            assert process.wait() == 0
            assert not registered(tonnage, name)
            creates.wait_for_more()
            tonnage.launch(name)
            wait_for(lambda: ready(process) > 1, "the scheduler is ready again")  # noqa: B023
    assert {status for _, _, status in creates.answers} == {202}
    tonnage.check_at_rest()


def registered(tonnage: Deployment, name: str) -> bool:
    """Return whether the other schedulers have to agree with the rules of a scheduler."""
    host = name if name == "another" else tonnage.host
    return bool(tonnage.sql(f"SELECT 1 FROM services WHERE host = '{host}' AND default_ratio IS NOT NULL"))


def ready(process: Process) -> int:
    return process.log.read_text().count("Scheduler is ready")


@on_one_server
def test_another_ratio_applies_after_a_stop_of_all_schedulers(tonnage: Deployment) -> None:
    for name in ("scheduler", "another"):
        tonnage.processes[name].send(signal.SIGTERM)
        assert tonnage.processes[name].wait() == 0
    for conf in (tonnage.conf, tonnage.folder / "another" / "tonnage.conf"):
        conf.write_text(conf.read_text().replace("[DEFAULT]\n", "[DEFAULT]\nmax_over_subscription_ratio = 7\n", 1))
    tonnage.launch("scheduler", "another")
    for name in ("scheduler", "another"):
        wait_for(lambda: ready(tonnage.processes[name]) > 1, "the scheduler is ready again")  # noqa: B023


@on_each_server
def test_a_frozen_scheduler_that_holds_locks_does_not_stop_the_others(tonnage: Deployment) -> None:
    with Creates(tonnage, 16) as creates:
        began = time.monotonic()
        time.sleep(4)
        before = creates.rate(began, began + 4)
        with frozen_in_a_transaction(tonnage, "scheduler"):
            began = time.monotonic()
            # Its locks end after 10 seconds, and its requests are sent again after 5.
            time.sleep(20)
            assert creates.rate(began + 15, began + 20) > 0.5 * before
        creates.wait_for_more()
    assert {status for _, _, status in creates.answers} == {202}
    tonnage.check_at_rest()


@contextlib.contextmanager
def frozen_in_a_transaction(tonnage: Deployment, name: str) -> Iterator[None]:
    """Freeze a scheduler while the database gives it the lock of a pool."""
    engine = database.create_engine(tonnage.database_url)
    processes = tonnage.processes[name].tree()
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT id FROM pools FOR UPDATE")
            wait_for(lambda: waiting_transactions(tonnage) >= 2, "both schedulers wait for the lock")
            for process in processes:
                process.suspend()
        yield
    finally:
        for process in processes:
            process.resume()
        engine.dispose()


def waiting_transactions(tonnage: Deployment) -> int:
    if tonnage.database_url.startswith("postgresql"):
        return int(tonnage.sql_value("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    return int(tonnage.sql_value("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))
