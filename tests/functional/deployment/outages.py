# SPDX-License-Identifier: Apache-2.0
"""Load on a deployment of two schedulers, and faults of one of them in the middle of a transaction."""

import contextlib
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

from tests.functional.deployment.deployment import Deployment
from tests.servers import tcp_proxy
from tests.servers.base import wait_for
from tonnage.ledger.db import database

#: Room for far more volumes than are created.
BACKENDS: dict[str, dict[str, Any]] = {
    name: {"filesystem_size_limit_gb": 20, "max_over_subscription_ratio": 1000, "filesystem_provisioning": "thin"}
    for name in ("one", "two")
}


class Creates:
    """Threads that create volumes of 1 GiB. A context manager; its exit stops them.

    ``answers`` has the end of each request in seconds, its duration and its status; ``volume_ids`` has the ids in the
    answers with 202, ``refusals`` has the other answers.
    """

    def __init__(self, tonnage: Deployment, threads: int) -> None:
        self._tonnage, self._number = tonnage, threads
        self._ends = False
        self.refusals: list[str] = []
        self.volume_ids: list[str] = []
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
            if answer.status_code == 202:
                self.volume_ids.append(answer.json()["volume"]["id"])
            else:
                self.refusals.append(answer.text)

    def rate(self, since: float, until: float) -> float:
        """Return the number of accepted requests per second between two moments."""
        return sum(since <= end < until and status == 202 for end, _, status in self.answers) / (until - since)

    def wait_for_more(self, number: int = 30) -> None:
        """Wait until so many more requests are answered."""
        before = len(self.answers)
        wait_for(lambda: len(self.answers) >= before + number, f"{number} more requests are answered")


@contextlib.contextmanager
def frozen_in_a_transaction(tonnage: Deployment, name: str) -> Iterator[None]:
    """Freeze a scheduler while the database gives it the lock of a pool."""
    processes = tonnage.processes[name].tree()
    try:
        with waiting_for_locks(tonnage):
            for process in processes:
                process.suspend()
        yield
    finally:
        for process in processes:
            process.resume()


@contextlib.contextmanager
def cut_off_in_a_transaction(tonnage: Deployment, proxy: tcp_proxy.TcpProxy) -> Iterator[None]:
    """Lose all packets between the database and the scheduler behind the proxy while it waits for a lock."""
    try:
        with waiting_for_locks(tonnage):
            proxy.drop_packets()
        yield
    finally:
        proxy.forward_packets()


@contextlib.contextmanager
def waiting_for_locks(tonnage: Deployment) -> Iterator[None]:
    """Hold the locks of all pools, and wait until both schedulers wait for one."""
    engine = database.create_engine(tonnage.database_url)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT id FROM pools ORDER BY id FOR UPDATE")
            wait_for(lambda: waiting_transactions(tonnage) >= 2, "both schedulers wait for the lock")
            yield
    finally:
        engine.dispose()


def waiting_transactions(tonnage: Deployment) -> int:
    if tonnage.database_url.startswith("postgresql"):
        return int(tonnage.sql_value("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    return int(tonnage.sql_value("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))
