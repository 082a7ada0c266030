#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of durable placements per second: request over RabbitMQ, decision, commit in the database, answer.

One run measures concurrent requests in one transaction, each request in its own transaction, several schedulers, and
Cinder's scheduler on the same message bus and MariaDB. Run it with the Python that Tonnage is installed in::

    python bench/throughput.py
    python bench/throughput.py --databases mariadb --variants group,cinder --seconds 30

Compare figures only within one run, because other work on the machine changes all of them, work on the disk most. Exit
status: 0; 1 after an error, such as an answer that is not in the ledger; 2 if Cinder is requested and not available, so
that there is no ratio. If ``--cinder-python`` names the Python without Cinder, nothing is measured.
"""

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import cinder_peer
import command
import measurement
import throughput_machine as machine
import throughput_profile as profile
import throughput_tonnage as tonnage
from measurement import CINDER

GROUP, SINGLE, MANY = "group", "single", "many"

#: The required ratio of Tonnage's rate to Cinder's.
_AIM = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one variant. ``cpu_ms`` is the processor time per placement in ms, by kind of process."""

    variant: str
    database: str
    placements_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: Mapping[str, float]
    others_cpus: float
    fsyncs_per_second: float
    settled_seconds: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)


class Bench:
    """The servers, and the measurements of the variants on them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Figures]:
        """Measure each requested variant."""
        arguments = self._arguments
        if not arguments.variants:
            return
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ")
            self._broker = stack.enter_context(machine.start(machine.BUS))
            for name in arguments.databases:
                command.progress(f"starting {name}")
                with machine.start(machine.DATABASES[name]) as server:
                    for variant in arguments.variants * arguments.rounds:
                        if variant != CINDER:
                            yield self._tonnage(name, server, variant)
                        elif name == "mariadb":
                            yield self._cinder(name, server)

    def _tonnage(self, name: str, server: Any, variant: str) -> Figures:
        arguments = self._arguments
        shape = tonnage.Shape(
            schedulers=arguments.schedulers if variant == MANY else 1,
            backends=arguments.backends,
            pools=arguments.pools,
            batch=1 if variant == SINGLE else 64,
        )
        with (
            server.database() as url,
            self._broker.virtual_host() as bus,
            tonnage.Tonnage(url, bus, shape) as deployment,
        ):
            client = deployment.client(arguments.in_flight)
            watch = profile.Watch(deployment.schedulers[0].pid) if arguments.profile and variant == GROUP else None
            trial = self._trial(server, client, deployment.groups())
            seen = trial.measure(f"{name}, {variant}")
            # After the measurement, because the profiler uses processor time too.
            shares = {} if watch is None else watch.look()
            answered = _stop(trial, seen, variant)
            began = time.monotonic()
            deployment.wait_until_settled()
            settled = time.monotonic() - began
            placed, drift = deployment.placed(), deployment.drift()
        if placed != answered or drift:
            raise command.BenchmarkError(
                f"{variant}: {answered} answered, {placed} in the ledger, {drift} pools with drift"
            )
        return _figures(name, variant, seen, shares, settled)

    def _cinder(self, name: str, server: Any) -> Figures:
        arguments = self._arguments
        with (
            server.database() as url,
            self._broker.virtual_host() as bus,
            cinder_peer.Cinder(
                arguments.cinder_python,
                url,
                bus,
                backends=arguments.backends,
                pools=arguments.pools,
                in_flight=arguments.in_flight,
                # More than it can place, because their creation must not be measured.
                volumes=int(100 * (arguments.seconds + arguments.warm_up)) + arguments.in_flight,
            ) as peer,
        ):
            trial = self._trial(server, peer.load, peer.groups())
            seen = trial.measure(f"{name}, {CINDER}")
            answered = _stop(trial, seen, CINDER)
            placed = peer.placed()
        if placed < answered:
            raise command.BenchmarkError(f"{CINDER}: {answered} arrived, {placed} in the database")
        return _figures(name, CINDER, seen, {})

    def _trial(self, server: Any, client: Any, groups: Mapping[str, Sequence[int]]) -> measurement.Trial:
        servers = {"broker": [self._broker.process.pid], "database": [server.process.pid]}
        arguments = self._arguments
        return measurement.Trial(
            client=client, groups={**groups, **servers}, warm_up=arguments.warm_up, seconds=arguments.seconds
        )


def _stop(trial: measurement.Trial, seen: measurement.Window, variant: str) -> int:
    """Stop the load; return the number of answered requests.

    Raises :class:`~command.BenchmarkError` if a request was refused or failed.
    """
    end = trial.stop()
    if end["refused"] or end["failed"]:
        raise command.BenchmarkError(
            f"{variant}: {end['refused']} refused and {end['failed']} failed, with room for all"
        )
    seen.require_answers(variant)
    return len(end["seconds"])


def _figures(
    name: str, variant: str, seen: measurement.Window, shares: Mapping[str, float], settled_seconds: float | None = None
) -> Figures:
    cpu = seen.cpu_ms
    return Figures(
        variant=variant,
        database=name,
        placements_per_second=seen.rate,
        p50_ms=seen.quantile_ms(0.5),
        p99_ms=seen.quantile_ms(0.99),
        cpu_ms=cpu,
        others_cpus=seen.others_cpus,
        fsyncs_per_second=seen.fsyncs,
        settled_seconds=settled_seconds,
        stages={stage: share * cpu["scheduler"] for stage, share in shares.items()},
    )


def ratios(measured: Sequence[Figures]) -> dict[str, float]:
    """Return the ratios of the variants' rates, from the medians of all rounds."""
    rates: dict[tuple[str, str], float] = {}
    for one in measured:
        same = [
            each.placements_per_second
            for each in measured
            if (each.database, each.variant) == (one.database, one.variant)
        ]
        rates[one.database, one.variant] = statistics.median(same)
    found = {}
    for label, left, right in (
        ("tonnage_to_cinder", GROUP, CINDER),
        ("group_commit_to_single", GROUP, SINGLE),
        ("many_schedulers_to_one", MANY, GROUP),
    ):
        for database in machine.DATABASES:
            if (database, left) in rates and (database, right) in rates:
                found[f"{label}_{database}"] = rates[database, left] / rates[database, right]
    return found


def table(measured: Sequence[Figures], arguments: argparse.Namespace) -> str:
    """Return a table of the figures, the ratios first."""
    lines = ["ratios of placements per second"]
    for label, ratio in ratios(measured).items():
        aim = f"   (the aim is {_AIM})" if label.startswith("tonnage_to_cinder") else ""
        lines.append(f"  {label.replace('_', ' '):<40}{ratio:8.2f}{aim}")
    names = {
        GROUP: "group commit",
        SINGLE: "one request per transaction",
        MANY: f"group commit, {arguments.schedulers} schedulers",
        CINDER: f"Cinder {cinder_peer.RELEASE}",
    }
    groups = list(dict.fromkeys(name for one in measured for name in one.cpu_ms))
    head = f"{'variant':<30}{'database':<12}{'placed/s':>9}{'p50 ms':>8}{'p99 ms':>8}{'fsync/s':>9}{'others':>8}"
    lines += ["", " " * len(head) + "   processor ms per placement", head + "".join(f"{name:>10}" for name in groups)]
    for one in measured:
        row = f"{names[one.variant]:<30}{one.database:<12}{one.placements_per_second:9.1f}{one.p50_ms:8.0f}"
        row += f"{one.p99_ms:8.0f}{one.fsyncs_per_second:9.0f}{one.others_cpus:8.2f}"
        lines.append(
            row + "".join(f"{one.cpu_ms[name]:10.2f}" if name in one.cpu_ms else f"{'':>10}" for name in groups)
        )
    lines.append("(others: processors that other work on this machine kept busy meanwhile)")
    for one in measured:
        if one.stages:
            lines += [
                "",
                f"where the scheduler's processor time goes, ms per placement ({names[one.variant]}, {one.database})",
            ]
            lines += [f"  {stage:<44}{milliseconds:8.2f}" for stage, milliseconds in one.stages.items()]
    return "\n".join(lines)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = command.parser(__doc__, pools=1000)
    measurement.add_arguments(parser, [GROUP, SINGLE, MANY, CINDER], "each variant")
    parser.add_argument("--in-flight", type=int, default=64, help="number of concurrent requests")
    parser.add_argument("--schedulers", type=int, default=4, help="number of schedulers in the variant 'many'")
    parser.add_argument("--profile", action="store_true", help="show the scheduler's processor time by stage (py-spy)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    return measurement.main(
        "throughput",
        arguments,
        with_cinder=CINDER in arguments.variants and "mariadb" in arguments.databases,
        run=lambda: Bench(arguments).run(),
        in_short=lambda one: f"{one.database}, {one.variant}: {one.placements_per_second:.1f} placements/s",
        as_data=lambda measured: {"ratios": ratios(measured), "variants": [asdict(one) for one in measured]},
        as_table=lambda measured: table(measured, arguments),
    )


if __name__ == "__main__":
    sys.exit(main())
