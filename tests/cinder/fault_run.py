# SPDX-License-Identifier: Apache-2.0
"""Clients, an operator, and faults of a Cinder with its scheduler or with Tonnage's."""

import contextlib
import functools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import psutil
from oslo_db import exception
from sqlalchemy import exc

from tests.cinder.row_watch import Row, RowWatch
from tests.cinder.unreliable_bus import UnreliableBus
from tests.servers import Cinder, MariaDB, RabbitMQ
from tests.servers.base import wait_for

#: The size of each pool in GiB.
TOTAL = 100

PLACES = {"real@b1#a": "b1", "real@b2#a": "b2"}

SCHEDULERS = ("scheduler0", "scheduler1")

#: Seconds after which a request without effect is taken for lost.
PATIENCE = 60.0

#: Seconds by which clocks are wrong. Cinder takes a service for dead whose clock is late by a minute.
OFFSETS = (-45, -20, 20, 45, 3600)


def no_reason(_row: Row) -> str:
    """Tell no reason, as Cinder's own scheduler does."""
    return "?"


@dataclass
class Outcome:
    """The result of a run. ``lost`` has the requests that had no effect, each with the reason the product tells.

    ``received`` has the creates of them that a service had received: cinder-api or the broker lost the other creates.
    Cinder has no record of that for extends.
    """

    requests: int = 0
    most: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    lost: list[tuple[Row, str]] = field(default_factory=list)
    received: list[Row] = field(default_factory=list)
    unnamed: list[Row] = field(default_factory=list)
    placed_again: dict[str, tuple[Row, Row]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lost = Counter(f"{row.status} {'in a pool' if row.host else 'without a pool'}" for row, _ in self.lost)
        return (
            f"{self.requests} requests, most in a pool {self.most}, {len(self.placed_again)} placed again, "
            f"{len(self.lost)} lost: {dict(lost)}, {len(self.received)} of them after a service had received them, "
            f"{len(self.unnamed)} of them without a reason"
        )


class FaultRun:
    """A run: :meth:`play` it, then read :attr:`outcome`. ``name_of`` tells the reason of a lost request, or nothing."""

    def __init__(
        self, cinder: Cinder, mariadb: MariaDB, rabbitmq: RabbitMQ, seed: int, name_of: Callable[[Row], str]
    ) -> None:
        self._cinder, self._mariadb, self._rabbitmq = cinder, mariadb, rabbitmq
        self._chance = random.Random(seed)
        self._name_of = name_of
        self._starting = threading.Lock()
        self._watch = RowWatch(cinder.database)
        self._began = time.monotonic()
        self.outcome = Outcome()

    def play(self, faults: int) -> None:
        """Let faults happen below load, and wait until all is quiet."""
        seeds = [self._chance.randrange(2**32) for _ in range(3)]
        bus = UnreliableBus(self._cinder.bus, self._chance.randrange(2**32))
        kinds = [self._kill, self._kill, self._suspend, self._slow, self._fail, self._restart, self._set_clock]
        self.outcome.placed_again = self._watch.placed_again
        with self._watch, bus, self._running([self._look, self._operate]):
            with self._running([functools.partial(self._ask, random.Random(seed)) for seed in seeds]):
                for number in range(1, faults + 1):
                    kind = self._chance.choice(kinds)
                    self.outcome.faults[kind.__name__.strip("_")] += 1
                    kind()
                    time.sleep(self._chance.uniform(0.5, 5))
                    if number % 25 == 0:
                        print(number, "faults:", self.outcome)
            bus.flush()
            for name in self._cinder.shape.backends:
                self._cinder.control(name)
            wait_for(lambda: not self._watch.waiting(0), "no request waits", 4 * PATIENCE)
        print(f"{bus.passed} messages on the bus, {bus.late} late, {bus.doubled} doubled")

    def _note(self, text: str, since: float = 0.0) -> None:
        """Print an event, with the seconds since the start of the run, less ``since``."""
        print(f"{time.monotonic() - self._began - since:8.1f} s {text}")

    @contextlib.contextmanager
    def _running(self, tasks: Sequence[Callable[[threading.Event], None]]) -> Iterator[None]:
        """Run tasks in threads of their own, with the event that ends them."""
        ended = threading.Event()
        threads = [threading.Thread(target=task, args=(ended,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    # Faults

    def _kill(self) -> None:
        """Kill all processes of a service at once, and start it again."""
        self._start_again(self._chance.choice((*SCHEDULERS, "volume")), 0.0)

    def _set_clock(self) -> None:
        """Kill a service, and start it with a wrong clock."""
        self._start_again(self._chance.choice((*SCHEDULERS, "volume")), self._chance.choice(OFFSETS))

    def _start_again(self, name: str, clock: float) -> None:
        """Kill a service, start it again, and mostly wait until it serves: a start takes longer than most faults."""
        starts = self._starts(name)
        self._note(f"kill {name}, clock {clock:+.0f} s")
        with self._starting:
            os.killpg(self._cinder.services[name].pid, signal.SIGKILL)
            self._cinder.services[name].wait()
            self._start(name, clock)
        if self._chance.random() < 0.7:
            wait_for(lambda: self._starts(name) > starts, f"{name} has started", 4 * PATIENCE)

    def _start(self, name: str, clock: float = 0.0) -> None:
        if name == "volume":
            self._cinder.start_service(name, "cinder-volume", patched=False, clock=clock)
        else:
            self._cinder.start_scheduler(int(name.removeprefix("scheduler")), clock)

    def _starts(self, name: str) -> int:
        return (self._cinder.folder / f"{name}.log").read_text(errors="replace").count("Starting cinder-")

    def _suspend(self) -> None:
        """Stop all processes of a service for a while."""
        name = self._chance.choice((*SCHEDULERS, "volume"))
        process = psutil.Process(self._cinder.services[name].pid)
        everyone = [process, *process.children(recursive=True)]
        self._note(f"suspend {name}")
        for each in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()
        time.sleep(self._chance.uniform(1, 8 if name == "volume" else 15))
        for each in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()
        self._note(f"resume {name}")

    def _slow(self) -> None:
        """Let looks and creations last long."""
        for name in self._cinder.shape.backends:
            look, create = self._chance.choice((0, 3)), self._chance.choice((0, 1, 4))
            self._cinder.control(name, look_seconds=look, create_seconds=create)

    def _fail(self) -> None:
        """Let the creations of a backend fail, or succeed again."""
        self._cinder.control(self._chance.choice(self._cinder.shape.backends), fail=self._chance.random() < 0.3)

    def _restart(self) -> None:
        """Kill the database or the broker, and start it with its data."""
        server = self._chance.choice((self._mariadb, self._rabbitmq))
        self._note(f"kill {server.name}")
        server.kill()
        server.start()
        self._note(f"{server.name} is there again")

    # Users and operators

    def _ask(self, chance: random.Random, ended: threading.Event) -> None:
        while not ended.wait(chance.random()):
            # Requests fail while services are away.
            with contextlib.suppress(ValueError, OSError):
                self._request(chance)
                self.outcome.requests += 1

    def _request(self, chance: random.Random) -> None:
        cinder = self._cinder
        volumes = list(cinder.volumes().values())
        done = [each["id"] for each in volumes if each["status"] in ("available", "error")]
        what = chance.random()
        if what < 0.5 or not done:
            cinder.create(chance.choice((5, 10, 20)))
        elif what < 0.7:
            volume = chance.choice([each for each in volumes if each["id"] in done])
            body = {"os-extend": {"new_size": volume["size"] + 10}}
            cinder.request("POST", f"/volumes/{volume['id']}/action", body)
        else:
            cinder.request("DELETE", f"/volumes/{chance.choice(done)}")

    def _look(self, ended: threading.Event) -> None:
        """Look at the storage all the time."""
        most = self.outcome.most
        while not ended.wait(0.1):
            with contextlib.suppress(FileNotFoundError):
                for pool, backend in PLACES.items():
                    folder = self._cinder.folder / "storage" / backend / "a"
                    most[pool] = max(most[pool], sum(file.stat().st_size for file in folder.iterdir()) // 2**30)

    def _operate(self, ended: threading.Event) -> None:
        """Find the reason of requests that are lost, remove their volumes, and start services that have ended."""
        while not ended.wait(1.0):
            with self._starting:
                for name in (*SCHEDULERS, "volume"):
                    if self._cinder.services[name].poll() is not None:
                        self._start(name)
            # Servers are away now and then.
            with contextlib.suppress(ValueError, OSError, exc.SQLAlchemyError, exception.DBError):
                for row in self._watch.waiting(PATIENCE):
                    reason = self._name_of(row)
                    if not reason and row not in self._watch.waiting(2 * PATIENCE):
                        continue
                    self._note(f"lost since then: {row.id} {row.status} {row.host}", self._watch.age(row))
                    received = self._watch.was_received(row.id)
                    self._remove(row)
                    if received:
                        self.outcome.received.append(row)
                    self.outcome.lost.append((row, reason))
                    if not reason:
                        self.outcome.unnamed.append(row)

    def _remove(self, row: Row) -> None:
        path = f"/volumes/{row.id}/action"
        self._cinder.request("POST", path, {"os-reset_status": {"status": "error"}})
        self._cinder.request("POST", path, {"os-force_delete": {}})


def remove_all(cinder: Cinder) -> None:
    """Delete all volumes, also those in error and in hand, until none is left."""

    def gone() -> bool:
        for volume_id, volume in cinder.volumes().items():
            path = f"/volumes/{volume_id}/action"
            with contextlib.suppress(ValueError):
                if volume["status"] == "deleting":
                    cinder.request("POST", path, {"os-reset_status": {"status": "error"}})
                cinder.request("POST", path, {"os-force_delete": {}})
        time.sleep(2)
        return not cinder.volumes()

    wait_for(gone, "all volumes are gone")
