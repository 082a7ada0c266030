# SPDX-License-Identifier: Apache-2.0
"""Tests of the announcer, from the outbox to the recipients."""

import datetime
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from oslo_messaging.notify import _impl_test

from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.unit.extensions.announcements.conftest import Configure, WebServer
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.extensions.announcements import announcer, notification_outbox
from tonnage.extensions.announcements.announcer import NOTIFICATIONS, Announcer
from tonnage.extensions.announcements.payloads import ThresholdCrossing, Usage
from tonnage.extensions.announcements.threshold_crossings import Reason
from tonnage.extensions.announcements.usage_sender import UsageReport
from tonnage.ledger.db import database

MOMENT = datetime.datetime(2026, 11, 21, 14, 20, tzinfo=datetime.UTC)
USAGE = Usage("h@b#p", 100.0, 7.0, 10.0, 93.0, 107.0)


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    yield ledger
    ledger.close()


@pytest.fixture
def build(configure: Configure, ledger: database.Database) -> Iterator[Callable[..., Announcer]]:
    """Return a function that starts an announcer with oslo.messaging's test driver and the given alert URLs."""
    started: list[Announcer] = []

    def build(*urls: str) -> Announcer:
        made = announcer.build(configure({"driver": ["test"]}, capacity_alert_urls=list(urls)), ledger)
        made.start()
        started.append(made)
        return made

    _impl_test.reset()
    yield build
    for each in started:
        each.stop()
    _impl_test.reset()


def cross(ledger: database.Database, made: Announcer, *reasons: Reason) -> None:
    crossing = ThresholdCrossing(usage=USAGE, used_percent=93.0, limit=200.0, ratio=2.0, reasons=reasons)
    ledger.run(made.put, [crossing], MOMENT)
    made.wake()


def until_empty(ledger: database.Database, *channels: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        with ledger.reading() as session:
            if not any(notification_outbox.load(session, channel, 1) for channel in channels):
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_bus_receives_crossings_and_figures_and_alerts_receive_crossings(
    build: Callable[..., Announcer], ledger: database.Database, web: WebServer
) -> None:
    made = build(f"1=json://127.0.0.1:{web.server_port}/one", f"2=json://127.0.0.1:{web.server_port}/two")
    cross(ledger, made, Reason.PHYSICAL)
    cross(ledger, made)
    pools = PoolTable([Pool(name="h@b#p", total=100.0, free=7.0, provisioned=93.0, ratio=2.0, thin=True)])
    made.send_usage(UsageReport("h@b", pools, Calculation.CINDER, MOMENT))
    until_empty(ledger, NOTIFICATIONS, "alert:1", "alert:2")
    deadline = time.monotonic() + 30
    while len(_impl_test.NOTIFICATIONS) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    kinds = [message["event_type"] for _, message, _, _ in _impl_test.NOTIFICATIONS]
    assert [kind for kind in kinds if "." in kind.removeprefix("capacity.")] == [
        "capacity.pool.exceeded",
        "capacity.pool.recovered",
    ]
    assert sorted(kinds)[:2] == ["capacity.backend", "capacity.pool"]
    for address in ("/one", "/two"):
        assert [body["type"] for path, body in web.posted if path.startswith(address)] == ["warning", "success"]


def test_an_unreachable_address_does_not_delay_others(
    build: Callable[..., Announcer], ledger: database.Database, web: WebServer
) -> None:
    made = build("1=json://127.0.0.1:1/", f"2=json://127.0.0.1:{web.server_port}/")
    cross(ledger, made, Reason.PROVISIONED)
    until_empty(ledger, NOTIFICATIONS, "alert:2")
    assert [body["title"] for _, body in web.posted] == ["Pool h@b#p holds too much: provisioned"]
    assert waiting(ledger) == {"alert:1": 1}


def waiting(ledger: database.Database) -> dict[str, int]:
    with ledger.reading() as session:
        rows = session.execute(sa.text("SELECT channel, COUNT(*) FROM announcements GROUP BY channel"))
        return {row[0]: row[1] for row in rows}


def test_a_restart_with_other_addresses_neither_loses_nor_repeats_messages(
    build: Callable[..., Announcer], ledger: database.Database, web: WebServer
) -> None:
    here, nowhere = f"json://127.0.0.1:{web.server_port}", "json://127.0.0.1:1/"
    made = build(nowhere, f"{here}/kept", f"moved={nowhere}")
    cross(ledger, made, Reason.PHYSICAL)
    until_empty(ledger, NOTIFICATIONS, made.channels()[1])
    made.stop()
    made = build(f"moved={here}/moved", f"{here}/new", f"{here}/kept")
    until_empty(ledger, "alert:moved")
    cross(ledger, made)
    until_empty(ledger, *made.channels())
    posted = {path.strip("/"): [body["type"] for other, body in web.posted if other == path] for path, _ in web.posted}
    assert posted == {"kept": ["warning", "success"], "moved": ["warning", "success"], "new": ["success"]}


def test_the_configuration_can_change_at_run_time(
    build: Callable[..., Announcer], configure: Configure, ledger: database.Database, web: WebServer
) -> None:
    here, nowhere = f"json://127.0.0.1:{web.server_port}", "json://127.0.0.1:1/"
    made = build(f"gone={here}/gone", f"moved={nowhere}", f"{here}/kept")
    cross(ledger, made, Reason.PHYSICAL)
    until_empty(ledger, NOTIFICATIONS, "alert:gone", made.channels()[2])
    urls = [f"{here}/kept", f"new={here}/new", f"moved={here}/moved"]
    changed = {"capacity_exceeded_percent": 50.0, "capacity_announcement_retention": 1, "notify_capacity": "changed"}
    made.reconfigure(announcer.load_config(configure(capacity_alert_urls=urls, **changed)))
    until_empty(ledger, "alert:moved")
    cross(ledger, made)
    until_empty(ledger, NOTIFICATIONS, *made.channels())
    posted = {path.strip("/"): [body["type"] for other, body in web.posted if other == path] for path, _ in web.posted}
    assert posted == {
        "gone": ["warning"],
        "kept": ["warning", "success"],
        "moved": ["warning", "success"],
        "new": ["success"],
    }
    assert "announced above 50 %" in web.posted[-1][1]["message"]
    assert made.sends_usage
    # Without alerts only the bus is left.
    made.reconfigure(announcer.load_config(configure(capacity_alert_urls=[])))
    assert made.channels() == [NOTIFICATIONS]
    made.stop()
    # The thread may be in the middle of a commit, for which stop() does not wait.
    wait_for(lambda: "announcements-alert:new" not in {each.name for each in threading.enumerate()}, "its thread")


def test_undelivered_messages_are_deleted(
    configure: Configure, ledger: database.Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Deleted are messages that are too old, and messages for alerts that no scheduler has any more."""
    made = announcer.build(configure(capacity_alert_urls=["mine=json://127.0.0.1:1/"]), ledger)
    channels = ["alert:mine", "alert:anothers", "alert:removed", "alert:new"]

    def put(channel: str, days: float) -> None:
        ledger.run(notification_outbox.enqueue, [channel], [("capacity.pool.exceeded", {})])
        with ledger.engine.begin() as connection:
            made_at, last = f"DATETIME('now', '-{days} days')", "(SELECT MAX(id) FROM announcements)"
            connection.execute(sa.text(f"UPDATE announcements SET created_at = {made_at} WHERE id = {last}"))

    for channel in channels[:3]:
        for days in (8, 6, 0.5):
            put(channel, days)
        assert ledger.run(notification_outbox.take_lease, channel, "there", 15.0)
    put("alert:new", 0.5)
    old = "UPDATE announcement_leases SET leased_at = '2026-01-01 00:00:00' WHERE channel <> 'alert:anothers'"
    with ledger.engine.begin() as connection:
        connection.execute(sa.text(old))
    ledger.run(made.purge)
    assert waiting(ledger) == {"alert:mine": 2, "alert:anothers": 2, "alert:removed": 1, "alert:new": 1}
    with ledger.engine.connect() as connection:
        leases = set(connection.scalars(sa.text("SELECT channel FROM announcement_leases")))
    assert leases == {"alert:mine", "alert:anothers"}
    assert "2 undelivered announcement(s) have been deleted (alert:removed)" in caplog.messages
    caplog.clear()
    ledger.run(made.purge)
    assert caplog.messages == []
