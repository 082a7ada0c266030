# SPDX-License-Identifier: Apache-2.0
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.unit.rpc import bus as memory_bus
from tonnage.rpc import transport
from tonnage.rpc.clients.bus_health import BusHealth
from tonnage.rpc.clients.scheduler_client import SchedulerClient


class Bus(transport.PatientTransport):
    """One that takes messages, refuses them, or is slow."""

    def __init__(self) -> None:
        self.sent = 0
        self.refuses = False
        self.exits = False
        self.now = 0.0
        self.taken = threading.Event()
        self.taken.set()

    def probe(self) -> None:
        self.sent += 1
        assert self.taken.wait(30)
        if self.exits:
            raise SystemExit(1)
        if self.refuses:
            raise OSError(104, "Connection reset by peer")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_many_callers_share_one_probe_until_its_result_is_old() -> None:
    bus = Bus()
    health = BusHealth(bus, fresh=5, timeout=30, clock=lambda: bus.now)
    assert [health.probe() for _ in range(3)] == [True] * 3
    assert bus.sent == 1
    bus.refuses = True
    bus.now = 4.9
    assert health.probe(), "it was found to be so a moment ago"
    bus.now = 5.1
    assert [health.probe() for _ in range(3)] == [False] * 3
    assert bus.sent == 2
    bus.refuses = False
    bus.now = 10.3
    assert health.probe()


def test_a_bus_that_does_not_say_anything_is_waited_for_once_and_not_asked_again() -> None:
    bus = Bus()
    bus.taken.clear()
    health = BusHealth(bus, fresh=5, timeout=0.01, clock=lambda: bus.now)
    assert not health.probe()
    bus.now = 60.0
    assert [health.probe() for _ in range(3)] == [False] * 3
    assert bus.sent == 1
    bus.taken.set()
    wait_until(health.probe)
    assert bus.sent == 2, "the answer to the first was old when it came"


def test_a_probe_that_fails_unexpectedly_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Bus()
    health = BusHealth(bus, fresh=5, timeout=30, clock=lambda: bus.now)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert not health.probe()
    bus.now = 6.0
    assert health.probe()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_library_that_ends_the_thread_has_not_sent_anything() -> None:
    bus = Bus()
    bus.exits = True
    health = BusHealth(bus, fresh=5, timeout=30, clock=lambda: bus.now)
    assert not health.probe()
    wait_until(lambda: all(thread.name != "bus-probe" for thread in threading.enumerate()))
    bus.exits = False
    bus.now = 6.0
    assert health.probe()


def test_the_client_of_a_bus_that_is_there_and_of_one_that_is_not() -> None:
    with memory_bus.memory_transport() as bus:
        wait_until(SchedulerClient(bus).bus_takes_messages)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with memory_bus.memory_transport(url=f"rabbit://guest:guest@127.0.0.1:{taken.getsockname()[1]}/") as bus:
            assert not SchedulerClient(bus).bus_takes_messages()
