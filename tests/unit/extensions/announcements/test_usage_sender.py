# SPDX-License-Identifier: Apache-2.0
import datetime
import math
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.extensions.announcements.bus import NotSent
from tonnage.extensions.announcements.usage_sender import UsageReport, UsageSender

MOMENT = datetime.datetime(2026, 11, 21, 14, 20, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


def report(*free: float, backend: str = "h@b") -> UsageReport:
    pools = [
        Pool(name=f"{backend}#p{number}", total=100.0, free=each, provisioned=10.0, ratio=2.0, thin=True)
        for number, each in enumerate(free)
    ]
    return UsageReport(backend, PoolTable(pools), Calculation.CINDER, MOMENT)


class Bus:
    def __init__(self, *fails: int) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self._fails = fails
        self._calls = 0
        self.open = threading.Event()
        self.open.set()
        self.called = threading.Event()

    def send(self, message_id: str, event_type: str, payload: Mapping[str, Any]) -> None:
        self.called.set()
        self.open.wait(30)
        self._calls += 1
        if self._calls in self._fails:
            raise NotSent("nobody is there")
        self.sent.append((event_type, payload))

    def names(self) -> list[str]:
        return [payload["name_to_id"] for _, payload in self.sent]


def test_pools_and_sums_of_the_backend_have_the_keys_of_cinder() -> None:
    bus = Bus()
    UsageSender(bus, only_changes=False).send_report(report(90.0, 50.125, math.nan))
    sums = {"total": 200.0, "free": 140.12, "allocated": 0.0, "provisioned": 20.0, "virtual_free": 380.0}
    assert bus.sent[-1] == (
        "capacity.backend",
        {"name_to_id": "h@b", **sums, "reported_at": "2026-11-21T13:20:00.000000"},
    )
    # Like Cinder, leaves out a pool whose driver reports no free capacity.
    assert bus.names() == ["h@b#p0", "h@b#p1", "h@b"]
    assert [event_type for event_type, _ in bus.sent[:-1]] == ["capacity.pool"] * 2


def test_always_sends_every_report_and_changed_sends_differences() -> None:
    always, changed = Bus(), Bus()
    for bus, only_changes in ((always, False), (changed, True)):
        sender = UsageSender(bus, only_changes=only_changes)
        for free in ((90.0, 80.0), (90.0, 80.0), (90.0, 70.0)):
            sender.send_report(report(*free))
    assert always.names() == ["h@b#p0", "h@b#p1", "h@b"] * 3
    assert changed.names() == ["h@b#p0", "h@b#p1", "h@b", "h@b#p1", "h@b"]


def test_only_changes_can_be_switched_at_run_time() -> None:
    bus = Bus()
    sender = UsageSender(bus, only_changes=False)
    for only_changes in (False, True, True, False):
        sender.only_changes = only_changes
        sender.send_report(report(90.0))
    assert bus.names() == ["h@b#p0", "h@b"] * 3


def test_a_change_that_failed_is_sent_with_the_next_report() -> None:
    bus = Bus(2)
    sender = UsageSender(bus, only_changes=True)
    with pytest.raises(NotSent):
        sender.send_report(report(90.0, 80.0))
    sender.send_report(report(90.0, 80.0))
    assert bus.names() == ["h@b#p0", "h@b#p1", "h@b"]


def test_the_queue_has_the_newest_report_of_each_backend() -> None:
    """Putting a report into the queue does not block, even if the bus is slow."""
    bus = Bus()
    bus.open.clear()
    sender = UsageSender(bus, only_changes=False)
    sender.start()
    sender.put(report(1.0))
    assert bus.called.wait(30)
    for number in range(2, 100):
        sender.put(report(float(number)))
    sender.put(report(5.0, backend="h@c"))
    done = threading.Event()
    original = bus.send
    bus.send = lambda *given: (original(*given), done.set() if given[2]["name_to_id"] == "h@c" else None)
    bus.open.set()
    assert done.wait(30)
    sender.stop()
    sender.wait()
    assert [payload["free"] for event, payload in bus.sent if event == "capacity.backend"] == [1.0, 99.0, 5.0]
