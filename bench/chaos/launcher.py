# SPDX-License-Identifier: Apache-2.0
"""A launcher of ``tonnage-agent`` with a disturbed clock, message bus and driver.

Usage: ``python launcher.py CONTROL TALLY SEED --config-file FILE``. CONTROL is a JSON file with the current
disturbances of this agent (:class:`Control`); TALLY is a file that gets a line for each disturbed report. The agent's
code is unchanged: its classes for messages and its driver are wrapped before the start.
"""

import dataclasses
import datetime
import json
import os
import pathlib
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

_control_file, _tally_file, _seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
_monotonic, _time, _sleep = time.monotonic, time.time, time.sleep
_RealDatetime = datetime.datetime


class Control:
    """The content of the control file, read again every 0.2 seconds.

    ``clock``: error of this machine's clock in seconds. ``reports``: kind of disturbance of reports, and its seconds.
    ``trouble``: share of disturbed messages and operations. ``linger``: longest pause after an operation in seconds.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def get(self, name: str, default: Any) -> Any:
        with self._lock:
            if _monotonic() >= self._next:
                self._next = _monotonic() + 0.2
                self._values = json.loads(_control_file.read_text())
            return self._values.get(name, default)


control = Control()
draw = random.Random(f"{_seed} {os.getpid()} {_time()}")


def shift_clock() -> None:
    """Shift the wall clock by the current ``clock`` of the control file. Monotonic clocks stay right."""

    def off() -> float:
        return float(control.get("clock", 0.0))

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _RealDatetime)

    class Shifted(_RealDatetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _RealDatetime.now(tz) + datetime.timedelta(seconds=off())

        @classmethod
        def utcnow(cls) -> Any:
            return _RealDatetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=off())

    time.time = lambda: _time() + off()
    time.time_ns = lambda: int((_time() + off()) * 1e9)
    datetime.datetime = Shifted  # type: ignore[misc]


def tally(what: str) -> None:
    with _tally_file.open("a") as file:
        file.write(f"{what}\n")


def later(seconds: float, work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        except Exception as error:
            print(f"launcher: a delayed message did not arrive: {error}", file=sys.stderr)

    timer = threading.Timer(seconds, run)
    timer.daemon = True
    timer.start()


def trouble_reports(client: Any, report: Any) -> None:
    """Delay, repeat, reorder and back-date the casts of the method ``report``, according to the control file."""
    cast = client.cast
    kept: list[tuple[Any, Any]] = []
    past: list[tuple[float, Any]] = []
    lock = threading.Lock()

    def send(self: Any, message: Any) -> None:
        cast(self, report, message)

    def troubled(self: Any, method: Any, message: Any) -> None:
        if method.name != report.name:
            cast(self, method, message)
            return
        kind, seconds = control.get("reports", None) or (None, 0.0)
        now = _monotonic()
        with lock:
            past.append((now, message))
            del past[:-200]
            earlier = [old for at, old in past if at <= now - seconds and old.epoch == message.epoch]
            waiting = kept.copy()
            kept.clear()
        if kind == "delayed":
            tally(kind)
            later(seconds, lambda: send(self, message))
        elif kind == "duplicated":
            tally(kind)
            send(self, message)
            for _ in range(2):
                later(draw.uniform(0, 2 * seconds), lambda: send(self, message))
        elif kind == "reordered" and not waiting:
            with lock:
                kept.append((self, message))
        elif kind == "backdated" and earlier:
            # As from a driver with a cache: the figures are old, and the report has their age.
            old = earlier[-1]
            tally(kind)
            send(
                self,
                dataclasses.replace(message, pools=old.pools, covers=old.covers, age=message.age + seconds),
            )
        else:
            send(self, message)
        for client_before, before in waiting:
            tally("reordered")
            send(client_before, before)

    client.cast = troubled


def trouble_outcomes(client: Any, outcomes: Any, unavailable: Callable[[str], Exception]) -> None:
    """Delay or repeat some calls of the method ``outcomes``, or deliver them without an answer to the agent."""
    call = client.call

    def troubled(self: Any, method: Any, message: Any) -> Any:
        if method.name != outcomes.name:
            return call(self, method, message)
        share, fate = float(control.get("trouble", 0.0)), draw.random()
        if fate < share:
            _sleep(draw.uniform(0.0, 2.0))
        elif fate < 2 * share:
            call(self, method, message)
        answer = call(self, method, message)
        if 2 * share <= fate < 3 * share:
            raise unavailable("the answer was lost on its way")
        return answer

    client.call = troubled


def trouble_commands(operations: Any) -> None:
    """Deliver some commands twice, the second time late."""
    submit = operations.submit

    def troubled(self: Any, command: Any) -> None:
        submit(self, command)
        if draw.random() < float(control.get("trouble", 0.0)):
            later(draw.uniform(0.0, 4.0), lambda: submit(self, command))

    operations.submit = troubled


def trouble_driver(driver: Any, failed: Callable[[str], Exception]) -> None:
    """Delay operations, and let some fail after their effect, so that the driver cannot exclude remains.

    The driver's own check of its limits is turned off, so that excessive promises of schedulers appear on the storage.
    """
    driver.admit = lambda *args: None

    def wrap(name: str) -> None:
        work = getattr(driver, name)

        def operation(self: Any, volume: Any, *more: Any) -> None:
            share, fate = float(control.get("trouble", 0.0)), draw.random()
            if fate < share / 2:
                raise failed(f"volume {volume.id}: {name} failed before it began, or so it seems (torture)")
            work(self, volume, *more)
            # The operation is done and its outcome is not sent: the worst moment for a kill.
            _sleep(draw.uniform(0.0, float(control.get("linger", 0.0))))
            if share / 2 <= fate < share:
                raise failed(f"volume {volume.id}: {name} failed when it was all but done (torture)")

        setattr(driver, name, operation)

    for name in ("create", "extend", "delete", "migrate"):
        wrap(name)


def main() -> None:
    warnings.simplefilter("ignore")
    shift_clock()
    from tonnage.agent.operations import Operations
    from tonnage.capacity import errors
    from tonnage.cli.daemons import agent
    from tonnage.drivers.memory.driver import MemoryDriver
    from tonnage.rpc import contract
    from tonnage.rpc.clients.scheduler_client import SchedulerClient

    trouble_reports(SchedulerClient, contract.REPORT)
    trouble_outcomes(SchedulerClient, contract.OUTCOMES, errors.Unavailable)
    trouble_commands(Operations)
    trouble_driver(MemoryDriver, errors.DriverError)
    sys.argv[:] = ["tonnage-agent", *sys.argv[4:]]
    agent.main()


if __name__ == "__main__":
    main()
