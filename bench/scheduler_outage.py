#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of an outage of one of two schedulers: accepted volumes per second before and during the outage.

In each round one of two schedulers ends by SIGTERM, freezes by SIGSTOP, and loses its connection to the database, the
last two while it waits for the lock of a pool in a transaction. During the first outage the other scheduler works alone
and undisturbed, so its rate is the best that it can reach in the others. Each rate is of ten seconds, and those of an
outage begin 15 seconds after its start. Run it with the Python that Tonnage is installed in::

    python bench/scheduler_outage.py
    python bench/scheduler_outage.py --databases postgresql --clients 64 --rounds 3

Exit status: 0; 1 after an error or a refused request.
"""

import argparse
import json
import signal
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import command
import comparison_runner
import sqlalchemy as sa
import throughput_machine as machine

from tests import servers
from tests.functional.deployment import Addresses, Deployment, outages
from tests.servers import tcp_proxy
from tests.servers.base import wait_for

#: Seconds of a rate, and seconds from the begin of an outage to the rate during it.
_SECONDS, _RECOVERY = 10.0, 15.0
#: The scheduler that has the outages. A proxy is between it and the database.
_SCHEDULER = "another"


class LoadedSchedulers:
    """Two schedulers on one database server, under load."""

    def __init__(self, tonnage: Deployment, proxy: tcp_proxy.TcpProxy, creates: outages.Creates) -> None:
        self._tonnage, self._proxy, self._creates = tonnage, proxy, creates

    def round(self) -> Iterator[tuple[str, float]]:
        """Give the name of each state and its rate, in volumes per second."""
        for name, outage in self._outages().items():
            yield "both", self._rate()
            with outage():
                time.sleep(_RECOVERY)
                yield name, self._rate()
            time.sleep(_RECOVERY)

    def _outages(self) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        return {
            "ended": self._ended,
            "frozen": lambda: outages.frozen_in_a_transaction(self._tonnage, _SCHEDULER),
            "cut off": lambda: outages.cut_off_in_a_transaction(self._tonnage, self._proxy),
        }

    def _rate(self) -> float:
        began = time.monotonic()
        time.sleep(_SECONDS)
        return self._creates.rate(began, began + _SECONDS)

    @contextmanager
    def _ended(self) -> Iterator[None]:
        process = self._tonnage.processes[_SCHEDULER]
        process.send(signal.SIGTERM)
        process.wait()
        yield
        ready = process.log.read_text().count("Scheduler is ready")
        self._tonnage.launch(_SCHEDULER)
        wait_for(
            lambda: self._tonnage.processes[_SCHEDULER].log.read_text().count("Scheduler is ready") > ready,
            "the scheduler is ready again",
        )


def measure(database: str, clients: int, rounds: int) -> Iterator[tuple[str, str, float]]:
    """Give the database, the state and the rate of each measurement."""
    with (
        machine.start(machine.DATABASES[database]) as databases,
        machine.start(servers.RabbitMQ) as broker,
        databases.database() as url,
        broker.virtual_host() as bus,
        Deployment(Addresses(url, bus), outages.BACKENDS) as tonnage,
        tcp_proxy.TcpProxy(tcp_proxy.target(sa.make_url(url))) as proxy,
    ):
        tonnage.start().launch_another_scheduler(tcp_proxy.url_through(proxy, sa.make_url(url)))
        with outages.Creates(tonnage, clients) as creates:
            time.sleep(_SECONDS)
            for _ in range(rounds):
                for state, rate in LoadedSchedulers(tonnage, proxy, creates).round():
                    yield database, state, rate
        if creates.refusals:
            raise command.BenchmarkError(f"a request was refused: {creates.refusals[0]}")


def table(medians: dict[str, dict[str, float]]) -> str:
    """Return a table of the median rates and of their ratios to those of both schedulers and of one alone."""
    heads = ["database", "state", "volumes/s", "of both", "of one alone"]
    rows = [
        [database, state, f"{rate:.0f}", f"{rate / rates['both']:.0%}", f"{rate / rates['ended']:.0%}"]
        for database, rates in medians.items()
        for state, rate in rates.items()
    ]
    return comparison_runner.table(heads, rows)


def main() -> int:
    """Measure and print; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    databases = list(machine.DATABASES)
    parser.add_argument("--databases", type=command.listed(databases), default=databases)
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    parser.add_argument("--clients", type=int, default=16, help="number of clients, each with one request at a time")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds; the figures are medians")
    arguments = parser.parse_args()
    runs = (one for name in arguments.databases for one in measure(name, arguments.clients, arguments.rounds))
    measured, good = command.collect("scheduler_outage", runs, lambda one: f"{one[0]}, {one[1]}: {one[2]:.0f}/s")
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for database, state, rate in measured:
        rates[database][state].append(rate)
    medians = {
        database: {state: statistics.median(found) for state, found in states.items()}
        for database, states in rates.items()
    }
    print(json.dumps(medians) if arguments.json else table(medians) if good else "")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
