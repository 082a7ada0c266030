# SPDX-License-Identifier: Apache-2.0
import json
import logging
import time
from collections.abc import Iterator

import pytest
from oslo_messaging.notify import _impl_test

from tests.servers import base
from tests.unit.extensions.announcements.conftest import Configure
from tonnage.capacity import errors
from tonnage.extensions.announcements import options
from tonnage.extensions.announcements.bus import Bus, NotSent


def bus(configure: Configure, *drivers: str, **oslo: object) -> Bus:
    conf = configure({"driver": list(drivers), **oslo})
    return Bus(conf, options.from_conf(conf))


@pytest.fixture
def recorded() -> Iterator[list[tuple[object, dict[str, object], str, int]]]:
    """The notifications that oslo.messaging's test driver received."""
    _impl_test.reset()
    yield _impl_test.NOTIFICATIONS
    _impl_test.reset()


def test_a_message_has_the_envelope_of_oslo_messaging_and_the_given_id(
    configure: Configure, recorded: list[tuple[object, dict[str, object], str, int]]
) -> None:
    sender = bus(configure, "test")
    sender.send("an-id", "capacity.pool", {"total": 1.0})
    sender.close()
    [(context, message, priority, _)] = recorded
    timestamp = message.pop("timestamp")
    assert message == {
        "message_id": "an-id",
        "publisher_id": "capacity.here",
        "event_type": "capacity.pool",
        "priority": "INFO",
        "payload": {"total": 1.0},
    }
    assert (context, priority) == ({}, "INFO")
    assert str(timestamp).startswith("20")


def test_the_log_driver_logs_notifications(configure: Configure, caplog: pytest.LogCaptureFixture) -> None:
    # The configuration of a command that another test ran may have raised the level of the library.
    caplog.set_level(logging.INFO, logger="oslo.messaging.notification")
    sender = bus(configure, "log")
    sender.send("an-id", "capacity.pool", {"total": 1.0})
    sender.close()
    [record] = caplog.records
    assert record.name == "oslo.messaging.notification.capacity.pool"
    assert json.loads(record.getMessage())["message_id"] == "an-id"


def test_without_a_reachable_bus_sending_fails_soon(configure: Configure) -> None:
    sender = bus(configure, "messagingv2", transport_url=f"rabbit://u:secret@127.0.0.1:{base.free_port()}/")
    began = time.monotonic()
    with pytest.raises(NotSent, match=r"capacity\.pool could not be sent: ") as caught:
        sender.send("an-id", "capacity.pool", {})
    assert time.monotonic() - began < 100
    assert "secret" not in caught.value.message
    sender.close()


@pytest.mark.parametrize(
    ("drivers", "url", "error"),
    [
        (["carrier-pigeon", "log"], "fake://", r"driver names carrier-pigeon: known are .*messagingv2"),
        (
            ["messagingv2"],
            "kombu+memory://",
            r"nobody could receive .* set \[oslo_messaging_\w+\] transport_url",
        ),
        (["log"], "telegraph://nowhere", r"\[oslo_messaging_notifications\] transport_url: .*telegraph"),
        (
            ["log"],
            "rabbit://user:pass/word@host:5672/",
            r"\[oslo_messaging_\w+\] transport_url is no address$",
        ),
    ],
)
def test_unusable_options_are_refused_at_the_start(
    configure: Configure, drivers: list[str], url: str, error: str
) -> None:
    with pytest.raises(errors.ConfigurationError, match=error):
        bus(configure, *drivers, transport_url=url)
