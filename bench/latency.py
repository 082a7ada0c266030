#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of latency: the time until a new volume is answered, is available, and is gone after its deletion.

One run measures, with the same clients and with volumes that are sparse files: tonnage-standalone with SQLite;
Tonnage's daemons on RabbitMQ and PostgreSQL or MariaDB; and cinder-api, cinder-scheduler and cinder-volume on the same
servers. The databases wait for the disk at each commit. Run it with the Python that Tonnage is installed in::

    python bench/latency.py
    python bench/latency.py --variants standalone,tonnage --in-flight 1 --rounds 3

Each client creates a volume, polls it until it is available, deletes it, and polls it until it is gone. Before that
the statements of such a life are counted, in a standalone of their own. The processor time is that of such a cycle with
its polls, and that of a second in which nothing is requested. Compare figures only within one run. Exit status: 0; 1
after an error; 2 if Cinder is requested and not available, so that there is no ratio.
"""

import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import command
import comparison_runner
import latency_client
import latency_deployments as deployments
import measurement
import throughput_machine as machine
from measurement import CINDER

from tests.servers import base

STANDALONE, TONNAGE = "standalone", "tonnage"

#: The stages of a volume's life, as the client sees them.
_STAGES = ("answered", "available", "gone")

#: Lives whose statements are counted.
_COUNTED_LIVES = 20

#: Seconds for which the idle processes are measured, and seconds before that, in which the start ends.
_IDLE, _QUIET = 10.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one deployment and number of clients.

    ``milliseconds`` maps each stage to its quantiles by name. ``cpu_ms`` is the processor time per volume in ms, by
    kind of process; ``idle_percent`` is the share of one processor that all processes use while nothing is requested.
    """

    variant: str
    database: str
    in_flight: int
    volumes_per_second: float
    polls_per_volume: float
    milliseconds: Mapping[str, Mapping[str, float]]
    cpu_ms: Mapping[str, float]
    idle_percent: float
    others_cpus: float
    failed: int


@dataclass(frozen=True, slots=True)
class StatementFigures:
    """The statements and transactions of the decision thread for a life, and the statements of a request in the API."""

    statements: float
    transactions: float
    of_request: float


@dataclass(frozen=True, slots=True)
class _Site:
    """A deployment: its name, its database, the port of its API, and its process ids by group."""

    variant: str
    database: str
    port: int
    groups: Mapping[str, Sequence[int]]


class Bench:
    """The servers, and the measurements on them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Figures]:
        """Measure each requested deployment, round by round."""
        arguments = self._arguments
        for _ in range(arguments.rounds if STANDALONE in arguments.variants else 0):
            with deployments.Standalone() as alone:
                yield from self._measured(_Site(STANDALONE, "sqlite", alone.port, alone.groups))
        distributed = [variant for variant in arguments.variants if variant != STANDALONE]
        if not distributed:
            return
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ")
            broker = stack.enter_context(machine.start(machine.BUS))
            for name in arguments.databases:
                command.progress(f"starting {name}")
                with machine.start(machine.DATABASES[name]) as server:
                    for variant in distributed * arguments.rounds:
                        with server.database() as url, broker.virtual_host() as bus:
                            servers = {"broker": [broker.process.pid], "database": [server.process.pid]}
                            with self._deployed(variant, name, url, bus, servers) as site:
                                yield from self._measured(site)

    @contextlib.contextmanager
    def _deployed(
        self, variant: str, name: str, url: str, bus: str, servers: Mapping[str, Sequence[int]]
    ) -> Iterator[_Site]:
        if variant == CINDER:
            with deployments.CinderDaemons(self._arguments.cinder_python, url, bus) as cinder:
                yield _Site(variant, name, cinder.port, {**cinder.groups(), **servers})
            return
        with deployments.Daemons(url, bus) as tonnage:
            port = base.free_port()
            api = tonnage.start_api(port)
            yield _Site(variant, name, port, {**tonnage.groups(), "api": [api.pid], **servers})

    def statements(self) -> StatementFigures | None:
        """Return the statements of a life, None unless the standalone is measured."""
        if STANDALONE not in self._arguments.variants:
            return None
        command.progress(f"counting the statements of {_COUNTED_LIVES} lives")
        with deployments.CountedStandalone() as alone:
            lives = latency_client.Lives(alone.port, 1, self._arguments.poll)
            lives.repeat(3)
            before = alone.statements()
            polls = lives.repeat(_COUNTED_LIVES)
            after = alone.statements()
        statements, transactions = (
            (last - first) / _COUNTED_LIVES
            for first, last in zip(before.of_decisions(), after.of_decisions(), strict=True)
        )
        # Each life has a create and a delete, whose statements in the API are few, besides its polls.
        return StatementFigures(
            statements, transactions, (after.of_api() - before.of_api()) / (polls + 2 * _COUNTED_LIVES)
        )

    def _measured(self, site: _Site) -> Iterator[Figures]:
        idle = self._idle_percent(site)
        for in_flight in self._arguments.in_flight:
            yield self._figures(site, in_flight, idle)

    def _idle_percent(self, site: _Site) -> float:
        command.progress(f"{site.database}, {site.variant}: idle for {_IDLE:g} s")
        time.sleep(_QUIET)
        usage = machine.Usage(site.groups)
        usage.begin()
        time.sleep(_IDLE)
        return 100 * sum(usage.end().values())

    def _figures(self, site: _Site, in_flight: int, idle: float) -> Figures:
        arguments = self._arguments
        with machine.ProcessGroup() as clients:
            trial = measurement.Trial(
                client=_client(clients, site.port, in_flight, arguments.poll * in_flight**0.5),
                groups=site.groups,
                warm_up=arguments.warm_up,
                seconds=arguments.seconds,
            )
            text = f"{site.database}, {site.variant}, {in_flight} at a time"
            seen = trial.measure(text)
            failures = trial.stop()["failures"]
        if failures:
            command.progress(f"{text}: {len(failures)} failed, the first: {failures[0]}")
        seen.require_answers(text)
        since = {name: _new(seen, name) for name in ("available", "gone")}
        return Figures(
            variant=site.variant,
            database=site.database,
            in_flight=in_flight,
            volumes_per_second=seen.rate,
            polls_per_volume=(seen.after["polls"] - seen.before["polls"]) / len(seen.seconds),
            milliseconds={name: _quantiles(each) for name, each in {"answered": seen.seconds, **since}.items()},
            cpu_ms=seen.cpu_ms,
            idle_percent=idle,
            others_cpus=seen.others_cpus,
            failed=len(failures),
        )


def _client(clients: machine.ProcessGroup, port: int, in_flight: int, poll: float) -> "subprocess.Popen[str]":
    """Start the clients' process and wait until it is ready."""
    script = pathlib.Path(__file__).with_name("latency_client.py")
    words = [f"--port={port}", f"--in-flight={in_flight}", f"--poll={poll}"]
    process = clients.start("client", sys.executable, script, *words, talks=True)
    machine.ask(process, "")
    return process


def _new(seen: measurement.Window, name: str) -> list[float]:
    """Return the values that a client counted between the two marks, sorted."""
    return sorted(seen.after[name][len(seen.before[name]) :])


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the quantiles of sorted values in milliseconds."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: 1000 * seconds[min(len(seconds) - 1, int(share * len(seconds)))] for name, share in shares.items()}


def ratios(measured: Sequence[Figures]) -> dict[str, float]:
    """Return Cinder's p50 divided by Tonnage's, by database, number of clients and stage.

    A p50 is the median of the p50s of all rounds.
    """
    values: dict[tuple[str, int, str, str], list[float]] = {}
    for one in measured:
        for stage in _STAGES:
            key = (one.database, one.in_flight, stage, one.variant)
            values.setdefault(key, []).append(one.milliseconds[stage]["p50"])
    medians = {key: statistics.median(each) for key, each in values.items()}
    return {
        f"{database}, {in_flight} at a time, {stage}": medians[database, in_flight, stage, CINDER] / mine
        for (database, in_flight, stage, variant), mine in medians.items()
        if variant == TONNAGE and (database, in_flight, stage, CINDER) in medians
    }


def table(measured: Sequence[Figures], counted: StatementFigures | None) -> str:
    """Return a table of the figures, the ratios first, and the statements of a life."""
    lines = ["Cinder's p50 divided by Tonnage's"]
    lines += [f"  {label:<40}{ratio:8.2f}" for label, ratio in ratios(measured).items()]
    kinds = [(stage, share) for stage in _STAGES for share in ("p50", "p95", "p99")]
    groups = list(dict.fromkeys(name for one in measured for name in one.cpu_ms))
    heads = ["variant", "database", "at a time", "volumes/s", *(f"{stage} {share}" for stage, share in kinds)]
    rows = [
        [
            *(one.variant, one.database, one.in_flight, one.volumes_per_second),
            *(one.milliseconds[stage][share] for stage, share in kinds),
            *(one.polls_per_volume, one.failed or None, one.idle_percent, one.others_cpus),
            *(one.cpu_ms.get(name) for name in groups),
        ]
        for one in measured
    ]
    heads += ["polls", "failed", "idle %", "others", *(f"{name} ms" for name in groups)]
    lines += ["", comparison_runner.table(heads, rows)]
    lines.append(
        "(stages in ms; ms: processor time per volume; idle: of one processor; others: processors of other work)"
    )
    if counted is not None:
        lines.append(
            f"A life takes {counted.statements:.1f} statements in {counted.transactions:.1f} transactions of the "
            f"decision thread; a request takes {counted.of_request:.1f} statements in the API."
        )
    return "\n".join(lines)


def _in_short(one: Figures) -> str:
    medians = ", ".join(f"{name} {quantiles['p50']:.1f}" for name, quantiles in one.milliseconds.items())
    return f"{one.database}, {one.variant}, {one.in_flight} at a time: {medians} ms"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    databases = list(machine.DATABASES)
    parser.add_argument("--databases", type=command.listed(databases), default=databases, help=f"list of {databases}")
    parser.add_argument("--json", action="store_true", help="print one line of JSON and no table")
    measurement.add_arguments(parser, [STANDALONE, TONNAGE, CINDER], "each number of clients")
    parser.add_argument(
        "--in-flight",
        type=lambda text: [int(word) for word in text.split(",")],
        default=[1, 4, 16, 64],
        help="numbers of clients, measured one after another",
    )
    parser.add_argument(
        "--poll",
        type=float,
        default=0.005,
        help="seconds between two polls of a single client; n clients wait the square root of n times as long",
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)

    bench, counted = Bench(arguments), list[StatementFigures | None]()

    def run() -> Iterator[Figures]:
        counted.append(bench.statements())
        yield from bench.run()

    def as_data(measured: Sequence[Figures]) -> dict[str, Any]:
        statements = None if counted[0] is None else asdict(counted[0])
        return {
            "ratios": ratios(measured),
            "statements": statements,
            "measured": [asdict(figures) for figures in measured],
        }

    return measurement.main(
        "latency",
        arguments,
        with_cinder=CINDER in arguments.variants,
        run=run,
        in_short=_in_short,
        as_data=as_data,
        as_table=lambda measured: table(measured, counted[0]),
    )


if __name__ == "__main__":
    sys.exit(main())
