#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Benchmark of a restart: the time from the start of a killed scheduler to its first correct decision.

All pools but one are full of volumes, which the agents really hold. The scheduler is killed (SIGKILL), started again,
and gets a request. Its answer counts if it names the one pool with room, which only the ledger knows. The request after
the last round must be refused::

    python bench/restart.py
    python bench/restart.py --databases postgresql --pools 1000 --volumes 10000

Exit status: 0; 1 after a wrong decision or another error.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import command
import sqlalchemy as sa
import throughput_machine as machine
import throughput_tonnage as tonnage

from tonnage.ledger import models

#: Seconds that a restart may take.
_AIM = 2.0

_BATCH = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Seconds from the start of the process to each step. ``imports`` is measured separately.

    ``processor`` is the processor time in seconds, which depends least on other work on the machine.
    """

    database: str
    imports: float
    loaded: float
    listening: float
    answered: float
    processor: float
    fsyncs_per_second: float
    load_average: float


class Bench:
    """A deployment with a large ledger, and restarts of its scheduler."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._shape = tonnage.Shape(backends=arguments.backends, pools=arguments.pools)
        self._each = arguments.volumes // arguments.pools

    def run(self) -> Iterator[Restart]:
        """Measure the restarts on each requested database."""
        self._imports = _import_seconds()
        with contextlib.ExitStack() as stack:
            command.progress("starting RabbitMQ")
            broker = stack.enter_context(machine.start(machine.BUS))
            for name in self._arguments.databases:
                command.progress(f"starting {name}")
                with (
                    machine.start(machine.DATABASES[name]) as server,
                    server.database() as url,
                    broker.virtual_host() as bus,
                    tonnage.Tonnage(url, bus, self._shape, self._each, self._sections()) as deployment,
                ):
                    self._fill(deployment)
                    yield from self._restarts(name, deployment)

    def _sections(self) -> dict[str, dict[str, Any]]:
        sections: dict[str, dict[str, Any]] = {
            name: {"memory_state_file": f"{name}.json", "max_over_subscription_ratio": 1}
            for name in self._shape.spread()
        }
        # Capacity for one volume in each round.
        sections["b1:pool1"] = {"memory_pool_size_gb": self._each + self._arguments.rounds}
        return sections

    def _fill(self, deployment: tonnage.Tonnage) -> None:
        """Insert the volumes into the ledger and into the storage while the agents are stopped."""
        command.progress(f"{self._shape.pools} pools are reported; creating {self._each} volumes in each")
        deployment.stop(deployment.agents)
        with deployment.connect() as connection:
            pools = {
                name: (id, backend)
                for name, id, backend in connection.execute(
                    sa.select(models.Pool.name, models.Pool.id, models.Pool.backend_id)
                )
            }
        held: dict[str, dict[str, dict[str, Any]]] = {}
        volumes: list[dict[str, Any]] = []
        claims: list[dict[str, Any]] = []
        for name, (pool_id, backend_id) in pools.items():
            backend, _, pool = name.partition("@")[2].partition("#")
            inside = held.setdefault(backend, {}).setdefault(pool, {})
            for _ in range(self._each):
                volume_id = str(uuid.uuid4())
                inside[volume_id] = {"size_gb": 1, "provisioning": "thin"}
                volumes.append(_volume(volume_id, pool_id))
                claims.append(_claim(volume_id, pool_id, backend_id))
        for backend, inside_all in held.items():
            (deployment.folder / f"{backend}.json").write_text(json.dumps(inside_all))
        with deployment.connect() as connection:
            # A value instead of a database function, because PyMySQL sends rows that contain a function one by one.
            now = connection.execute(sa.select(models.utcnow())).scalar_one()
            for table, rows in ((models.Volume, volumes), (models.Claim, claims)):
                for start in range(0, len(rows), _BATCH):
                    part = [{**row, "created_at": now} for row in rows[start : start + _BATCH]]
                    connection.execute(sa.insert(table), part)
            for owner, mine in ((models.Pool, models.Claim.pool_id), (models.Backend, models.Claim.backend_id)):
                total = sa.select(sa.func.sum(models.Claim.size_gb)).where(mine == owner.id).scalar_subquery()
                connection.execute(sa.update(owner).values(allocated_capacity_gb=total))
        command.progress("the agents list their volumes, and report")
        deployment.agents = deployment.start_agents()
        deployment.wait_until(
            f"SELECT COUNT(*) FROM pools WHERE provisioned_capacity_gb = {self._each} AND in_flight_gb = 0",
            self._shape.pools,
            "the agents to report their volumes",
        )

    def _restarts(self, name: str, deployment: tonnage.Tonnage) -> Iterator[Restart]:
        client = deployment.client(1)
        for number in range(self._arguments.rounds):
            # Only the ledger contains the claim for the volume of the last round.
            command.progress(f"{name}, round {number + 1}: killing the scheduler, starting it again")
            _kill(deployment.schedulers.pop())
            said = len(deployment.log("scheduler1"))
            fsyncs, load = machine.fsyncs_per_second(), os.getloadavg()[0]
            began, clock = time.monotonic(), time.time()
            deployment.schedulers.append(deployment.start_scheduler(1))
            answer = json.loads(machine.ask(client, "one"))
            processor = machine.processor_seconds(deployment.schedulers[-1].pid)
            if answer["pool"] != "agents@b1#pool1":
                raise command.BenchmarkError(
                    f"{name}: placed in {answer['pool']}, where room was in agents@b1#pool1 alone"
                )
            log = deployment.log("scheduler1")[said:]
            yield Restart(
                database=name,
                imports=self._imports,
                loaded=_when(log, "Loaded") - clock,
                listening=_when(log, "Scheduler is ready") - clock,
                answered=answer["at"] - began,
                processor=processor,
                fsyncs_per_second=fsyncs,
                load_average=load,
            )
            deployment.wait_until_settled()
        if (answer := json.loads(machine.ask(client, "one")))["pool"] is not None:
            raise command.BenchmarkError(f"{name}: placed in {answer['pool']}, although all pools are full")


def _volume(volume_id: str, pool_id: int) -> dict[str, Any]:
    return {
        "id": volume_id,
        "name": "filled",
        "project_id": "bench",
        "size_gb": 1,
        "status": "available",
        "pool_id": pool_id,
        "provisioning": "thin",
        "user_metadata": {},
        "hints": {},
        "attempted_pools": [],
        "request_id": f"req-{volume_id}",
    }


def _claim(volume_id: str, pool_id: int, backend_id: int) -> dict[str, Any]:
    return {
        "id": str(uuid.uuid4()),
        "volume_id": volume_id,
        "backend_id": backend_id,
        "pool_id": pool_id,
        "verb": "create",
        "state": "confirmed",
        "size_gb": 1,
        "physical_gb": 0,
        "target_size_gb": 1,
        "provisioning": "thin",
        "contained": True,
        "end_epoch": 1,
        "end_tick": 1,
        "request_id": f"req-{volume_id}",
    }


def _kill(process: "subprocess.Popen[str]") -> None:
    """Kill a daemon and its workers, as a power failure would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _import_seconds() -> float:
    """Return the seconds that a new process needs for the imports of a scheduler, as a median."""
    taken = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", "import tonnage.cli.daemons.scheduler"],
            check=True,
            env=machine.environment(),
        )
        taken.append(time.monotonic() - began)
    return statistics.median(taken)


def _when(log: str, text: str) -> float:
    """Return the time of the log line with this text, as seconds since 1970."""
    found = re.search(rf"^(\S+ \S+) .*{text}", log, re.MULTILINE)
    if found is None:
        raise command.BenchmarkError(f"the scheduler has not logged {text!r}")
    return datetime.datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S.%f").astimezone().timestamp()


def table(measured: Sequence[Restart]) -> str:
    """Return the figures as a table."""
    lines = [f"seconds after the start of the process (the aim is {_AIM:g} until the first answer)", ""]
    lines.append(
        f"{'database':<12}{'answered':>10}{'listening':>11}{'loaded':>9}{'imports':>9}"
        f"{'processor':>11}{'fsync/s':>9}{'load':>7}"
    )
    lines += [
        f"{one.database:<12}{one.answered:10.2f}{one.listening:11.2f}{one.loaded:9.2f}{one.imports:9.2f}"
        f"{one.processor:11.2f}{one.fsyncs_per_second:9.0f}{one.load_average:7.1f}"
        for one in measured
    ]
    return "\n".join(lines)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = command.parser(__doc__, pools=10_000)
    parser.add_argument("--volumes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="number of restarts of the scheduler")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    arguments = parse(words)
    measured, good = command.collect(
        "restart", Bench(arguments).run(), lambda one: f"{one.database}: answered after {one.answered:.2f} s"
    )
    if measured:
        print(json.dumps([asdict(one) for one in measured]) if arguments.json else table(measured))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
