#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a report of 100,000 pools of one backend, while other clients create volumes.

A scheduler and the agents of small backends serve the creates, over RabbitMQ and a real database. Then an agent with a
large backend joins, so that all its pools are new, and later reports new figures of all of them. The times of the
creates are those of three periods: before the agent, from its start until the first report is applied, and from the
changed report until that is applied. Run it with the Python that Tonnage is installed in::

    python bench/large_report.py
    python bench/large_report.py --pools 20000 --databases postgresql

Exit status: 0; 1 after an error, such as a create that was not answered.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import command
import comparison_runner
import throughput_machine as machine
import throughput_tonnage as tonnage

#: The number of pools of the small backends, which take all volumes.
_SMALL_POOLS = 100

#: Longest time that a create may wait for a report, in seconds.
_AIM = 2.0

#: Seconds after a report is applied that still count, so that every create that waited for it has its answer.
_REST = 3.0

_BACKEND = "large@large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The creates of a period. Times are in milliseconds, ``applied_s`` in seconds.

    ``applied_s`` is the time from the driver's answer until the ledger has the figures of all pools. ``log_lines`` is
    the number of lines about the backend, and of warnings and errors, in the log of the scheduler.
    """

    database: str
    period: str
    creates: int
    p50: float
    p95: float
    longest: float
    applied_s: float | None = None
    log_lines: int | None = None
    log_bytes: int | None = None
    memory_mb: float | None = None


class Bench:
    """A deployment with clients that create volumes, and the agent of a large backend."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Period]:
        """Measure on each requested database."""
        shape = tonnage.Shape(backends=self._arguments.backends, pools=_SMALL_POOLS)
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ")
            broker = stack.enter_context(machine.start(machine.BUS))
            for name in self._arguments.databases:
                command.progress(f"starting {name}")
                with (
                    machine.start(machine.DATABASES[name]) as server,
                    server.database() as url,
                    broker.virtual_host() as bus,
                    tonnage.Tonnage(url, bus, shape) as deployment,
                ):
                    yield from self._periods(name, deployment)

    def _periods(self, name: str, deployment: tonnage.Tonnage) -> Iterator[Period]:
        self._client = deployment.client(self._arguments.in_flight)
        self._answered = 0
        machine.ask(self._client, "go")
        time.sleep(self._arguments.warm_up)
        self._creates()
        command.progress(f"{name}: {self._arguments.seconds:g} s of creates alone")
        time.sleep(self._arguments.seconds)
        yield self._period(name, "alone", deployment)
        for number, period in enumerate(("all pools new", "all pools changed")):
            command.progress(f"{name}: a report of {self._arguments.pools} pools, {period}")
            said = len(deployment.log("scheduler1"))
            if number == 0:
                self._start_agent(deployment)
            else:
                (deployment.folder / "used").write_text(str(number))
                self._until_reported(deployment, number)
                self._creates()
            began = self._until_reported(deployment, number)
            rows = f"SELECT COUNT(*) FROM pools WHERE name LIKE '{_BACKEND}#%%' AND free_capacity_gb = {1000 - number}"
            deployment.wait_until(rows, self._arguments.pools, "the report to be applied", pause=0.25)
            applied = time.time() - began
            time.sleep(_REST)
            yield self._period(name, period, deployment, applied, deployment.log("scheduler1")[said:])
        counts = json.loads(machine.ask(self._client, "stop"))
        if counts["refused"] or counts["failed"]:
            raise command.BenchmarkError(f"{name}: {counts['refused']} refused, {counts['failed']} failed")
        deployment.wait_until_settled()
        if drift := deployment.drift():
            raise command.BenchmarkError(f"{name}: {drift} pools with drift")

    def _start_agent(self, deployment: tonnage.Tonnage) -> None:
        """Start the agent of the large backend, with the driver of this folder."""
        site = deployment.folder / "site"
        metadata = site / "tonnage_bench-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tonnage-bench\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[tonnage.drivers]\nlarge = large_report_driver:LargeDriver\n")
        module = pathlib.Path(__file__).with_name("large_report_driver.py")
        (site / module.name).symlink_to(module)
        sections = {
            "large": {
                "volume_driver": "large",
                "large_pools": self._arguments.pools,
                "large_folder": deployment.folder,
            }
        }
        deployment.start_agent("large", sections, {"PYTHONPATH": str(site)})

    def _until_reported(self, deployment: tonnage.Tonnage, number: int) -> float:
        """Return the time at which the driver first answered with the number of the change."""
        file = deployment.folder / "reported"
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if file.exists():
                when, reported = file.read_text().split()
                if int(reported) == number:
                    return float(when)
            time.sleep(0.05)
        raise command.BenchmarkError(f"the agent of {_BACKEND} did not report: {deployment.log('large')[-2000:]}")

    def _creates(self) -> list[float]:
        """Return the sorted milliseconds of the creates that were answered since the last call."""
        seconds = json.loads(machine.ask(self._client, "mark"))["seconds"]
        since, self._answered = seconds[self._answered :], len(seconds)
        return sorted(1000 * seconds for seconds in since)

    def _period(
        self,
        database: str,
        period: str,
        deployment: tonnage.Tonnage,
        applied: float | None = None,
        log: str | None = None,
    ) -> Period:
        times = self._creates()
        if len(times) < 2:
            raise command.BenchmarkError(f"{database}, {period}: {len(times)} creates were answered")
        lines = None if log is None else [line for line in log.splitlines() if _is_about_report(line)]
        return Period(
            database=database,
            period=period,
            creates=len(times),
            p50=round(statistics.median(times), 1),
            p95=round(times[int(0.95 * len(times))], 1),
            longest=round(times[-1], 1),
            applied_s=None if applied is None else round(applied, 1),
            log_lines=None if lines is None else len(lines),
            log_bytes=None if lines is None else sum(len(line) + 1 for line in lines),
            memory_mb=round(machine.memory_bytes(deployment.schedulers[0].pid) / 2**20),
        )


def _is_about_report(line: str) -> bool:
    return _BACKEND in line or any(f" {level} " in line for level in ("WARNING", "ERROR", "CRITICAL"))


def _table(periods: Sequence[Period]) -> str:
    heads = ["database", "period", "creates", "p50 ms", "p95 ms", "longest ms"]
    heads += ["applied s", "log lines", "log bytes", "scheduler MiB"]
    rows: list[list[Any]] = [
        ["-" if value is None else value for value in asdict(period).values()] for period in periods
    ]
    longest = max((period.longest for period in periods), default=0.0) / 1000
    verdict = "reached" if longest <= _AIM else "missed"
    return f"{comparison_runner.table(heads, rows)}\n\nThe goal of {_AIM:g} s for the longest create is {verdict}."


def _in_short(period: Period) -> str:
    return f"{period.period}: longest create {period.longest:.0f} ms"


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = command.parser(__doc__, pools=100_000)
    parser.set_defaults(backends=5)
    parser.add_argument("--in-flight", type=int, default=4, help="number of clients that create volumes")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of the creates before the report")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before the measurement")
    arguments = parser.parse_args(words)
    periods, good = command.collect(
        "large_report",
        Bench(arguments).run(),
        lambda period: f"{period.period}: longest create {period.longest:.0f} ms",
    )
    if periods:
        print(json.dumps([asdict(period) for period in periods]) if arguments.json else _table(periods))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
