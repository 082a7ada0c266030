# SPDX-License-Identifier: Apache-2.0
"""Bursts of signals, as make, terminals and process groups send them, to each daemon that runs in production.

A burst is two to six signals with pauses of up to some tens of microseconds, so that many arrive while the one before
is handled. For each daemon:

* 500 bursts of SIGHUP, half of them with signals to the workers too, as a process group gets them. After every 50
  bursts, a single SIGHUP has to be answered in the log. The daemon keeps its processes. (Not to ``tonnage-api``, which
  ends on SIGHUP: there it is one of the signals of the second kind.)
* 15 starts, each ended by random mixes of SIGTERM, SIGINT and SIGHUP with at least one of the first two: ten from a
  random moment of the first second after the daemon was ready, five from a random moment of its start, until the daemon
  has ended. More starts follow until there were 500 such bursts. The daemon has to end within 90 seconds; after it was
  ready with status 0, otherwise with any status but that of a crash.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psutil
import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment, Process
from tests.servers.base import wait_for

#: What a daemon logs when it is ready.
READY = {
    "standalone": "Tonnage is ready: ",
    "api": "The REST API listens on ",
    "scheduler": "Scheduler is ready",
    "agent": "is registered with the schedulers",
}

READ = "The configuration has been read again"

BURSTS = 500
STARTS = 15

#: Seconds until a daemon has to answer a signal, or has to have ended.
PATIENCE = 90.0

#: The exit statuses of a start that a signal has ended: 1 with a message, otherwise by the signal, which a program
#: that does not handle it yet shows as a negative number, or as 128 more.
ENDED_START = {0, 1, *(status for number in (1, 2, 15) for status in (-number, 128 + number))}


@dataclass
class Bursts:
    """A daemon, and the number of bursts that it was sent."""

    name: str
    process: Process
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    sent: int = 0

    def send(self, numbers: Sequence[signal.Signals], pids: Sequence[int]) -> None:
        """Send a burst: each signal to all of these processes, with pauses of some microseconds."""
        self.sent += 1
        for number in numbers:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            for _ in range(self.chance.randrange(1500)):
                pass

    def start(self) -> None:
        """Start the program, with an environment of its own, and wait until it is ready."""
        size = self.size()
        self.process.start({})
        wait_for(lambda: READY[self.name] in self.text(size), f"tonnage-{self.name} is ready", seconds=PATIENCE)

    def size(self) -> int:
        return self.process.log.stat().st_size if self.process.log.exists() else 0

    def text(self, start: int) -> str:
        """Return what was logged after a size of the log."""
        with self.process.log.open("rb") as log:
            log.seek(start)
            return log.read().decode()

    def reload(self) -> None:
        """Send many bursts of SIGHUP. The daemon has to answer in between and at the end."""
        workers = [process.pid for process in self.process.tree()]
        begin = self.size()
        for number in range(BURSTS):
            pids = [self.process.pid] if number % 2 else workers
            self.send([signal.SIGHUP] * self.chance.randint(2, 6), pids)
            time.sleep(self.chance.uniform(0, 0.02))
            if number % 50 == 49:
                self.require_answer()
        assert self.process.running
        assert {process.pid for process in self.process.tree()} == set(workers)
        assert "Traceback" not in self.text(begin)

    def require_answer(self) -> None:
        """Send SIGHUP once the signals before it are handled; it has to be answered."""
        size = self.size()
        while True:
            time.sleep(0.5)
            if size == (size := self.size()):
                break
        self.process.send(signal.SIGHUP)
        wait_for(lambda: READ in self.text(size), f"tonnage-{self.name} answers SIGHUP", seconds=PATIENCE)

    def stop(self) -> int:
        """Send bursts that end the daemon until it has ended, and return its exit status."""
        end = time.monotonic() + PATIENCE
        while self.process.running:
            numbers = [
                self.chance.choice((signal.SIGTERM, signal.SIGINT)),
                *self.chance.choices((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), k=self.chance.randint(1, 5)),
            ]
            self.chance.shuffle(numbers)
            pids = [self.process.pid]
            if self.chance.random() < 0.5:
                with contextlib.suppress(psutil.NoSuchProcess):
                    pids = [process.pid for process in self.process.tree()]
            self.send(numbers, pids)
            if time.monotonic() > end:
                self.process.send(signal.SIGKILL)
                pytest.fail(f"tonnage-{self.name} is deaf: it has not ended for {PATIENCE:g} s")
            time.sleep(self.chance.uniform(0, 0.02))
        return self.process.wait()


def try_bursts(bursts: Bursts) -> None:
    """Send all bursts to a daemon that runs; at the end it has stopped."""
    if bursts.name != "api":
        bursts.reload()
    begin = bursts.size()
    assert bursts.stop() == 0
    sent = bursts.sent
    for number in range(STARTS):
        if number % 3:
            bursts.start()
            time.sleep(bursts.chance.uniform(0, 1))
            assert bursts.stop() == 0, bursts.text(begin)
        else:
            bursts.process.start({})
            time.sleep(bursts.chance.uniform(0, 1.5))
            assert bursts.stop() in ENDED_START
    while bursts.sent - sent < BURSTS:
        bursts.start()
        assert bursts.stop() == 0, bursts.text(begin)
    assert "Traceback" not in bursts.text(begin), bursts.text(begin)
    bursts.start()
    bursts.process.send(signal.SIGTERM)
    try:
        assert bursts.process.wait() == 0
    except subprocess.TimeoutExpired:
        bursts.process.send(signal.SIGKILL)
        raise


@pytest.fixture
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy({"one": {"filesystem_size_limit_gb": 3}}, environment={}) as deployment:
        yield deployment.start()


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deploy", ["standalone"], indirect=True)
def test_the_standalone_is_never_deaf(tonnage: Deployment) -> None:
    try_bursts(Bursts("standalone", tonnage.processes["standalone"]))


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("deploy", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", ["scheduler", "api", "agent"])
def test_a_daemon_is_never_deaf(tonnage: Deployment, name: str) -> None:
    try_bursts(Bursts(name, tonnage.processes[name]))
