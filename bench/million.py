#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a million pools on one machine: 1,000 backends with 1,000 pools and a volume in each pool.

The ledger is PostgreSQL, filled with COPY, and ``tonnage-manage ledger check`` must find no drift in it. Then a
scheduler, the REST API and the agents of all backends run on RabbitMQ. Run it with the Python that Tonnage is installed
in, small first::

    python bench/million.py --backends 20
    python bench/million.py

It prints:

* the time until all backends have joined and reported, with the processor time and memory that this takes, and the
  number of hellos that the scheduler has accepted for each of them
* the restart: the time from the start of a killed scheduler until its first decision, which is right only if it names
  the one pool with room, and whose room only the ledger knows
* the decisions, at rest and beside a steady number of changed pools: the time of one decision in the scheduler
  (``decision``), and the time until a client has its answer, after the commit (``answered``)
* the first decision about a volume type, and a refusal
* the report of a backend all of whose pools have changed, until the ledger has it
* pages of the list of pools from the REST API, and the first rows of the web page
* the memory of each process

A report carries all pools of its backend. So that 120 pools of 1,000 change from one report to the next, a backend
reports every ``--pools-per-backend`` x ``--backends`` x 0.12 / ``--changed`` seconds, a minute with the defaults.

Exit status: 0; 1 after a wrong decision or another error.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import command
import comparison_runner
import million_driver
import million_ledger
import throughput_machine as machine
import throughput_tonnage as tonnage
from million_driver import Instructions

from tests.servers import base

#: Share of a backend's pools that change from one report to the next.
_CHANGED_SHARE = 0.12

#: Longest interval between two reports, in seconds.
_LONGEST_INTERVAL = 60

_HOST = "million"
_LARGE_POOL = f"{_HOST}@{million_driver.section(0)}#{million_driver.short_name(0, 0)}"

#: Pools of a page of the REST API and of the web page.
_PAGE, _ROWS = 1000, 100

_PROJECT = "00000000000000000000000000000001"
_HEADERS = {"X-Auth-Token": f"bench:{_PROJECT}", "OpenStack-API-Version": "volume 3.72"}

#: The memory at which RabbitMQ would stop to take messages.
_BUS_MEMORY = "4GB"

#: Seconds within which a scheduler must decide after its start, and a request over HTTP be answered.
_PATIENCE = 600.0

#: Seconds within which all backends must have joined and reported.
_JOIN_PATIENCE = 1800.0

#: The requirements: unit and largest value.
GOALS: Mapping[str, float] = {
    "restart": 20.0,
    "decision at rest, p50": 1.0,
    "decision beside changes, p95": 10.0,
    "memory of the scheduler": 4096.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure, with the load average of the machine at that time."""

    name: str
    value: float
    unit: str
    load: float

    @property
    def goal(self) -> float | None:
        """The largest value that is good enough, None without a goal."""
        return GOALS.get(self.name)


class Million(tonnage.Tonnage):
    """A deployment with a filled ledger. The agents of all backends run in a few processes."""

    def __init__(self, database: str, bus: str, arguments: argparse.Namespace) -> None:
        shape = tonnage.Shape(backends=arguments.backends, pools=arguments.backends * arguments.pools_per_backend)
        super().__init__(database, bus, shape)
        self._arguments = arguments
        self.contents = million_ledger.Contents(
            _HOST, arguments.backends, arguments.pools_per_backend, arguments.restarts
        )
        interval = round(self.shape.pools * _CHANGED_SHARE / max(1, arguments.changed))
        self.interval = max(1, min(_LONGEST_INTERVAL, interval))
        self.agent_processes: list[subprocess.Popen[str]] = []

    def _begin(self) -> None:
        manage = tonnage.COMMANDS / "tonnage-manage"
        # The check works for a while between two statements of one transaction.
        sections = {"database": {"connection": self._database, "idle_transaction_timeout": int(_PATIENCE)}}
        self._manage_conf = self._conf("manage", {}, sections)
        self._shop.run("manage", manage, "--config-file", self._manage_conf, "db", "sync")

    def check(self) -> None:
        """Check the ledger. Raises :class:`~command.BenchmarkError` if it has drifted."""
        try:
            self._shop.run(
                "check", tonnage.COMMANDS / "tonnage-manage", "--config-file", self._manage_conf, "ledger", "check"
            )
        except RuntimeError as error:
            raise command.BenchmarkError(f"ledger check: {error}") from error

    def start_scheduler(self, number: int = 1) -> "subprocess.Popen[str]":
        """Start the scheduler, which writes the times of its decisions to a file, and return at once."""
        options = {"host": "scheduler1", "service_down_time": 5 * _LONGEST_INTERVAL, "enabled_extensions": "page"}
        conf = self._conf("scheduler1", options)
        script = pathlib.Path(__file__).with_name("million_scheduler.py")
        return self._shop.start("scheduler1", sys.executable, script, self.folder / "times", "--config-file", conf)

    def start_million_agents(self) -> None:
        """Start the agents, and wait until each backend has reported."""
        site = self.folder / "site"
        metadata = site / "tonnage_bench-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tonnage-bench\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("[tonnage.drivers]\nmillion = million_driver:MillionDriver\n")
        for name in ("million_driver.py",):
            (site / name).symlink_to(pathlib.Path(__file__).with_name(name))
        processes = min(self._arguments.agent_processes, self.contents.backends)
        for process in range(processes):
            sections = {
                million_driver.section(number): {
                    "volume_driver": "million",
                    "million_number": number,
                    "million_pools": self.contents.pools,
                    "million_large": self.contents.large,
                    "million_folder": self.folder,
                }
                for number in range(process, self.contents.backends, processes)
            }
            defaults = {
                "host": _HOST,
                "enabled_backends": ", ".join(sections),
                "backend_stats_polling_interval": self.interval,
                "backend_threads": 1,
                # So many backends of a process may send at the same time.
                "rpc_conn_pool_size": len(sections),
                "service_down_time": 5 * _LONGEST_INTERVAL,
            }
            name = f"agents{process}"
            conf = self._conf(name, defaults, sections)
            script = pathlib.Path(__file__).with_name("million_agents.py")
            self.agent_processes.append(
                self._shop.start(
                    name, sys.executable, script, "--config-file", conf, variables={"PYTHONPATH": str(site)}
                )
            )
        self.wait_until(
            "SELECT COUNT(*) FROM backends WHERE epoch > 1 AND report_seq > 0",
            self.contents.backends,
            "every backend to report",
            pause=0.5,
            seconds=_JOIN_PATIENCE,
        )

    def start_client(self) -> "subprocess.Popen[str]":
        """Start the client process and wait until it has reached the scheduler."""
        script = pathlib.Path(__file__).with_name("million_client.py")
        # It waits for a scheduler that restarts.
        conf = self._conf("client", {"rpc_response_timeout": int(_PATIENCE)})
        process = self._shop.start("client", sys.executable, script, "--config-file", conf, talks=True)
        machine.ask(process, "")
        return process

    def times(self, kind: str, since: float, until: float) -> list[float]:
        """Return the numbers of this kind that the scheduler has written between two monotonic times."""
        milliseconds = []
        for line in (self.folder / "times").read_text().splitlines():
            name, at, value = line.split()
            if name == kind and since <= float(at) <= until:
                milliseconds.append(float(value))
        return milliseconds

    def until_logged(self, text: str, since: int) -> None:
        """Wait until the scheduler has logged a text, in the part of its log that begins at ``since``."""
        event = f"the scheduler to log {text!r}"
        self._shop.until(lambda: text in self.log("scheduler1")[since:], event, seconds=_PATIENCE)

    def instruct(self, instructions: Instructions) -> None:
        """Give the drivers of all agents instructions."""
        instructions.write(self.folder)


class Bench:
    """The measurements, in their order."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Figure]:
        """Measure, and yield each figure when it is there."""
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ and PostgreSQL")
            broker = stack.enter_context(machine.start(machine.BUS))
            # Each backend has a connection.
            broker.control("set_vm_memory_high_watermark", "absolute", _BUS_MEMORY)
            server = stack.enter_context(machine.start(machine.DATABASES["postgresql"]))
            url = stack.enter_context(server.database())
            bus = stack.enter_context(broker.virtual_host())
            self._million = stack.enter_context(Million(url, bus, self._arguments))
            self._servers = {"PostgreSQL": server.process.pid, "RabbitMQ": broker.process.pid}
            yield from self._prepared(url)
            self._client = self._million.start_client()
            yield from self._decisions("at rest")
            yield self._first_of_its_type()
            yield self._whole_report()
            yield from self._beside_changes()
            yield from self._memory()
            yield from self._restarts()
            yield self._refusal()
            yield from self._rest()

    def _prepared(self, url: str) -> Iterator[Figure]:
        million = self._million
        began = time.monotonic()
        million_ledger.fill(url, million.contents)
        yield _figure("ledger filled", time.monotonic() - began, "s")
        if self._arguments.check:
            command.progress("checking the ledger")
            began = time.monotonic()
            million.check()
            yield _figure("ledger check, clean", time.monotonic() - began, "s")
        command.progress("starting the scheduler")
        began = time.monotonic()
        million.schedulers = [million.start_scheduler()]
        million.until_logged("Scheduler is ready", 0)
        yield _figure("first start of the scheduler", time.monotonic() - began, "s")
        command.progress(f"starting the agents of {million.contents.backends} backends")
        scheduler = million.schedulers[0].pid
        processes = {"the scheduler": scheduler, **self._servers}
        began, used = time.monotonic(), {name: machine.processor_seconds(pid) for name, pid in processes.items()}
        million.start_million_agents()
        yield _figure("all backends joined and reported", time.monotonic() - began, "s")
        hellos = million.log("scheduler1").count("has joined")
        yield _figure("hellos accepted, for each backend", hellos / million.contents.backends, "")
        for name, pid in processes.items():
            yield _figure(f"processor of {name} meanwhile", machine.processor_seconds(pid) - used[name], "s")
        agents = sum(machine.processor_seconds(process.pid) for process in million.agent_processes)
        yield _figure("processor of the agents meanwhile", agents, "s")
        yield _figure("peak memory of the scheduler meanwhile", machine.peak_memory_bytes(scheduler) / 2**20, "MiB")

    def _decisions(self, meanwhile: str) -> Iterator[Figure]:
        """Measure decisions of a client for a while."""
        machine.ask(self._client, "go")
        time.sleep(self._arguments.warm_up)
        before = len(json.loads(machine.ask(self._client, "mark"))["seconds"])
        began = time.monotonic()
        command.progress(f"{self._arguments.seconds:g} s of decisions {meanwhile}")
        time.sleep(self._arguments.seconds)
        ended = time.monotonic()
        counts = json.loads(machine.ask(self._client, "stop"))
        if counts["refused"]:
            raise command.BenchmarkError(f"{counts['refused']} requests were refused {meanwhile}")
        answered = sorted(counts["seconds"][before:])
        decided = sorted(self._million.times("decision", began, ended))
        if not (decided and answered):
            raise command.BenchmarkError(f"nothing was decided {meanwhile}")
        yield _figure(f"decisions {meanwhile}", len(decided) / (ended - began), "a second")
        for name, seconds in (("decision", decided), ("answered", answered)):
            for share in (50, 95):
                yield _figure(f"{name} {meanwhile}, p{share}", _percentile(seconds, share) * 1000, "ms")
        changed = sum(self._million.times("report", began, ended)) / (ended - began)
        yield _figure(f"changed pools {meanwhile}", changed, "a second")

    def _first_of_its_type(self) -> Figure:
        began = time.monotonic()
        answer = json.loads(machine.ask(self._client, "silver"))
        if answer["pool"] is None:
            raise command.BenchmarkError(f"the first volume of its type: {answer['refusal']}")
        [seconds] = self._million.times("decision", began, time.monotonic())
        return _figure("first decision of a type", seconds * 1000, "ms")

    def _whole_report(self) -> Figure:
        """Return the seconds from the driver's answer until the ledger has all figures of the last backend."""
        million = self._million
        number, backend_id = million.contents.backends - 1, million.contents.backends
        command.progress("a report of one backend, all pools changed")
        before = million.number(f"SELECT COUNT(*) FROM pools WHERE backend_id = {backend_id}")
        with million.connect() as connection:
            now = connection.exec_driver_sql("SELECT timezone('utc', clock_timestamp())").scalar_one()
        million.instruct(Instructions(0, million.contents.name(number), 1))
        file = million.folder / "reported"
        _until(file.exists, "the driver to report")
        reported = float(file.read_text().split()[0])
        rows = f"SELECT COUNT(*) FROM pools WHERE backend_id = {backend_id} AND reported_at > '{now}'"
        million.wait_until(rows, before, "the report to be applied", pause=0.02)
        return _figure("full report of a backend applied", time.time() - reported, "s")

    def _beside_changes(self) -> Iterator[Figure]:
        million = self._million
        pools = max(1, round(self._arguments.changed * million.interval / million.contents.backends))
        million.instruct(Instructions(pools, "", 0))
        command.progress(f"{pools} pools change with each report of a backend, every {million.interval} s")
        time.sleep(min(million.interval, self._arguments.warm_up))
        yield from self._decisions("beside changes")
        million.instruct(Instructions())

    def _rest(self) -> Iterator[Figure]:
        """Measure the pages of lists that the REST API serves."""
        port = base.free_port()
        command.progress("starting the REST API")
        api = self._million.start_api(port)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        path, marker, seconds = f"/v3/{_PROJECT}/scheduler-stats/get_pools?detail=true&limit={_PAGE}", "", []
        for _ in range(min(self._arguments.pages, self._million.shape.pools // _PAGE)):
            began = time.perf_counter()
            pools = _get(connection, path + marker)["pools"]
            seconds.append(time.perf_counter() - began)
            if len(pools) != _PAGE:
                raise command.BenchmarkError(f"a page of {_PAGE} pools has {len(pools)}")
            marker = f"&marker={pools[-1]['name'].replace('#', '%23')}"
        if seconds:
            yield _figure(f"first page of {_PAGE} pools", seconds[0] * 1000, "ms")
            yield _figure(f"page of {_PAGE} pools, median", statistics.median(seconds) * 1000, "ms")
        if self._million.shape.pools > self._arguments.page_up_to:
            command.progress("the web page is not measured: it reads all pools (--page-up-to)")
        for name in ("first", "again") if self._million.shape.pools <= self._arguments.page_up_to else ():
            began = time.perf_counter()
            rows = _get(connection, f"/v3/{_PROJECT}/capacity-overview/pools?limit={_ROWS}")["pools"]
            yield _figure(f"first {len(rows)} rows of the web page, {name}", time.perf_counter() - began, "s")
        connection.close()
        yield _memory("the REST API", api.pid)

    def _memory(self) -> Iterator[Figure]:
        million = self._million
        yield _memory("the scheduler", million.schedulers[0].pid)
        agents = [machine.memory_bytes(process.pid) / 2**20 for process in million.agent_processes]
        yield _figure(f"memory of {len(agents)} agent processes", sum(agents), "MiB")
        for name, pid in self._servers.items():
            yield _memory(name, pid)

    def _restarts(self) -> Iterator[Figure]:
        """Kill the scheduler and start it again. Only the ledger has the large volume of the last round."""
        million = self._million
        seconds = []
        for number in range(self._arguments.restarts):
            command.progress(f"restart {number + 1}: killing the scheduler, starting it again")
            process = million.schedulers.pop()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said = len(million.log("scheduler1"))
            began = time.monotonic()
            million.schedulers.append(million.start_scheduler())
            answer = json.loads(machine.ask(self._client, "large"))
            if answer["pool"] != _LARGE_POOL:
                raise command.BenchmarkError(f"placed in {answer['pool']} ({answer['refusal']}), not in {_LARGE_POOL}")
            seconds.append(answer["at"] - began)
            loaded = re.search(r"^.*Loaded .*$", million.log("scheduler1")[said:], re.MULTILINE)
            command.progress(f"answered after {seconds[-1]:.1f} s; {loaded[0] if loaded else 'not loaded'}")
        yield _figure("restart", statistics.median(seconds), "s")
        yield _memory("the scheduler after a restart", million.schedulers[0].pid)

    def _refusal(self) -> Figure:
        began = time.monotonic()
        answer = json.loads(machine.ask(self._client, "large"))
        if answer["pool"] is not None:
            raise command.BenchmarkError(f"placed in {answer['pool']}, although no pool has room")
        return _figure("refusal", max(self._million.times("decision", began, time.monotonic())) * 1000, "ms")


def _figure(name: str, value: float, unit: str) -> Figure:
    return Figure(name=name, value=round(value, 3), unit=unit, load=round(os.getloadavg()[0], 1))


def _memory(name: str, pid: int) -> Figure:
    return _figure(f"memory of {name}", machine.memory_bytes(pid) / 2**20, "MiB")


def _percentile(values: Sequence[float], share: int) -> float:
    return values[min(len(values) - 1, len(values) * share // 100)]


def _until(condition: Any, event: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise command.BenchmarkError(f"waited {_PATIENCE:.0f} s for {event}")
        time.sleep(0.02)


def _get(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path, headers=_HEADERS)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != http.client.OK:
        raise command.BenchmarkError(f"GET {path}: {answer.status} {body[:500].decode(errors='replace')}")
    return json.loads(body)


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table."""
    rows = [[figure.name, figure.value, figure.unit, _goal(figure), figure.load] for figure in figures]
    return comparison_runner.table(["figure", "value", "unit", "goal", "load"], rows)


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    return f"{figure.goal:g}, {'reached' if figure.value <= figure.goal else 'missed'}"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--backends", type=int, default=1000, help="number of backends")
    parser.add_argument("--pools-per-backend", type=int, default=1000, help="number of pools of each backend")
    parser.add_argument("--agent-processes", type=int, default=4, help="number of processes that run the agents")
    parser.add_argument("--changed", type=int, default=2000, help="number of pools that change each second")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each measurement of decisions")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds before each of them")
    parser.add_argument("--pages", type=int, default=20, help="number of pages of pools")
    parser.add_argument(
        "--page-up-to", type=int, default=100_000, help="largest number of pools with which the web page is measured"
    )
    parser.add_argument("--restarts", type=int, default=2, help="number of restarts of the scheduler")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not check the filled ledger")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    figures, good = command.collect(
        "million", Bench(arguments).run(), lambda each: f"{each.name}: {each.value:,} {each.unit} (load {each.load})"
    )
    if figures:
        print(json.dumps([asdict(figure) for figure in figures]) if arguments.json else table(figures))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
