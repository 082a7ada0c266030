#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the REST API: requests per second for new volumes, and for the list of all pools in detail.

One run measures tonnage-api with tonnage-scheduler and agents, and cinder-api with cinder-scheduler, on the same
RabbitMQ and a database that waits for the disk at each commit, by default PostgreSQL. Both run without authentication.
Run it with the Python that Tonnage is installed in::

    python bench/api.py --profile
    python bench/api.py --what volumes --in-flight 16 --seconds 60

A request counts when it is answered: by Tonnage after the commit of the volume's pool, by Cinder after the commit of
the volume's row and the message to its scheduler. Compare figures only within one run. Exit status: 0; 1 after an
error, such as an answer that is not in the ledger; 2 if Cinder is requested and not available, so that there is no
ratio. If ``--cinder-python`` names the Python without Cinder, nothing is measured.
"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import cinder_peer
import command
import measurement
import throughput_machine as machine
import throughput_profile as profile
import throughput_tonnage as tonnage
from api_figures import FACTORS, POOLS, TONNAGE, VOLUMES, Figures, ratios, table
from measurement import CINDER

from tests.servers import base

Deployment: TypeAlias = tonnage.Tonnage | cinder_peer.Cinder


@dataclass(frozen=True, slots=True)
class Site:
    """A deployment with its API's port, its process ids by group, and the clients' processes."""

    deployment: Deployment
    port: int
    groups: Mapping[str, list[int]]
    clients: machine.ProcessGroup

    def client(self, what: str, in_flight: int) -> "subprocess.Popen[str]":
        """Start clients and wait until they are ready."""
        script = pathlib.Path(__file__).with_name("api_client.py")
        options = {"port": self.port, "what": what, "in-flight": in_flight}
        words = [f"--{name}={value}" for name, value in options.items()]
        process = self.clients.start(f"{what}-{in_flight}", sys.executable, script, *words, talks=True)
        machine.ask(process, "")
        return process

    def watches(self) -> dict[str, profile.Watch]:
        """Return the profilers of the API and of the scheduler."""
        stages = {"api": profile.API, "scheduler": profile.SCHEDULER}
        return {name: profile.Watch(self.groups[name][0], each) for name, each in stages.items()}


class Bench:
    """The servers, and the measurements on them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def run(self) -> Iterator[Figures]:
        """Measure each requested combination."""
        arguments = self._arguments
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ")
            self._broker = stack.enter_context(machine.start(machine.BUS))
            for name in arguments.databases:
                command.progress(f"starting {name}")
                with machine.start(machine.DATABASES[name]) as server:
                    for variant in arguments.variants * arguments.rounds:
                        for pools, asked in self._asked(variant).items():
                            yield from self._deployed(name, server, variant, pools, asked)

    def _asked(self, variant: str) -> dict[int, list[str]]:
        """Return the kinds of requests for a variant, by the number of pools of their deployment."""
        arguments = self._arguments
        found: dict[int, list[str]] = {}
        for what in arguments.what:
            if (variant, what) != (CINDER, FACTORS):
                found.setdefault(arguments.pools if what == VOLUMES else arguments.shown_pools, []).append(what)
        return found

    def _deployed(self, name: str, server: Any, variant: str, pools: int, asked: Sequence[str]) -> Iterator[Figures]:
        with (
            server.database() as url,
            self._broker.virtual_host() as bus,
            self._deployment(variant, url, bus, pools) as deployment,
            machine.ProcessGroup() as clients,
        ):
            port = base.free_port()
            api = deployment.start_api(port)
            groups = {**deployment.groups(), "api": [api.pid], "broker": [self._broker.process.pid]}
            site = Site(deployment, port, {**groups, "database": [server.process.pid]}, clients)
            about = {"variant": variant, "database": name, "pools": pools}
            created = 0
            for what in asked:
                for in_flight in self._arguments.in_flight:
                    figures, answered = self._measure(site, what, in_flight, about)
                    yield figures
                    if what == VOLUMES:
                        created += answered
                        _settle(deployment, created)

    def _deployment(self, variant: str, database: str, bus: str, pools: int) -> Deployment:
        arguments = self._arguments
        sizes = {"backends": arguments.backends, "pools": pools}
        if variant == TONNAGE:
            return tonnage.Tonnage(database, bus, tonnage.Shape(**sizes))
        return cinder_peer.Cinder(arguments.cinder_python, database, bus, **sizes, in_flight=1, volumes=0)

    def _measure(self, site: Site, what: str, in_flight: int, about: Mapping[str, Any]) -> tuple[Figures, int]:
        """Return the figures, and the number of requests answered during the whole load."""
        arguments = self._arguments
        trial = measurement.Trial(
            client=site.client(what, in_flight),
            groups=site.groups,
            warm_up=arguments.warm_up,
            seconds=arguments.seconds,
            placed=site.deployment.placed,
        )
        text = f"{about['database']}, {about['variant']}, {what}, {in_flight} at a time"
        seen = trial.measure(text)
        # After the measurement, because the profiler uses processor time too.
        looking = arguments.profile and about["variant"] == TONNAGE and in_flight == arguments.in_flight[-1]
        shares = {name: watch.look() for name, watch in site.watches().items()} if looking else {}
        end = trial.stop()
        failures = end["failures"]
        if failures and about["variant"] == TONNAGE:
            raise command.BenchmarkError(f"{text}: {len(failures)} failed, the first: {failures[0]}")
        if failures:
            command.progress(f"{text}: {len(failures)} failed, the first: {failures[0]}")
        seen.require_answers(text)
        cpu = seen.cpu_ms
        figures = Figures(
            **about,
            what=what,
            in_flight=in_flight,
            requests_per_second=seen.rate,
            p50_ms=seen.quantile_ms(0.5),
            p99_ms=seen.quantile_ms(0.99),
            answer_bytes=end["bytes"],
            failed=len(seen.after["failures"]) - len(seen.before["failures"]),
            cpu_ms=cpu,
            others_cpus=seen.others_cpus,
            fsyncs_per_second=seen.fsyncs,
            placed_per_second=seen.placed / seen.elapsed if what == VOLUMES else None,
            stages={name: {stage: part * cpu[name] for stage, part in each.items()} for name, each in shares.items()},
        )
        return figures, len(end["seconds"])


def _settle(deployment: Deployment, created: int) -> None:
    """Wait until all created volumes are placed.

    Raises :class:`~command.BenchmarkError` if the ledger has another number of volumes, or drift.
    """
    if isinstance(deployment, cinder_peer.Cinder):
        deployment.wait_for_placements(created)
        return
    deployment.wait_until_settled()
    placed, drift = deployment.placed(), deployment.drift()
    if placed != created or drift:
        raise command.BenchmarkError(f"{created} answered, {placed} in the ledger, {drift} pools with drift")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = command.parser(__doc__, pools=1000)
    parser.set_defaults(databases=["postgresql"])
    measurement.add_arguments(parser, [TONNAGE, CINDER], "each")
    whats = [VOLUMES, POOLS, FACTORS]
    parser.add_argument("--what", type=command.listed(whats), default=whats, help=f"list of {','.join(whats)}")
    parser.add_argument("--shown-pools", type=int, default=10_000, help="number of pools for the lists of pools")
    parser.add_argument(
        "--in-flight",
        type=_numbers,
        default=[1, 4, 16, 64],
        help="numbers of concurrent requests, measured one after another",
    )
    parser.add_argument(
        "--profile", action="store_true", help="show the processor time of API and scheduler by stage (py-spy)"
    )
    return parser.parse_args(words)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    return measurement.main(
        "api",
        arguments,
        with_cinder=CINDER in arguments.variants,
        run=lambda: Bench(arguments).run(),
        in_short=lambda one: (
            f"{one.variant}, {one.what}, {one.in_flight} at a time: {one.requests_per_second:.1f} requests/s"
        ),
        as_data=lambda measured: {"ratios": ratios(measured), "measured": [asdict(one) for one in measured]},
        as_table=table,
    )


if __name__ == "__main__":
    sys.exit(main())
