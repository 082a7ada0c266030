# SPDX-License-Identifier: Apache-2.0
"""The transport: addresses and times to live."""

from typing import Any

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.rpc import contract, local_bus, options, transport
from tonnage.rpc.clients.command_sender import AgentClient


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "carrier-pigeon://roof/",
        "rabbit://a:secret@h:port/",
        "rabbit://a:sec/ret@h:1/",
        "rabbit://a:secret@[::1/",
        "kafka://a:secret@h:1/",
    ],
)
def test_an_address_that_cannot_work_is_named(url: str) -> None:
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("transport_url", url)
    with pytest.raises(errors.ConfigurationError, match=r"^\[DEFAULT\] transport_url") as raised:
        transport.create(conf)
    assert "sec" not in str(raised.value)
    assert "rabbit://user:password@host:port/" in str(raised.value)


def test_a_bus_that_no_other_daemon_reaches_is_warned_of(
    bus: transport.Transport, caplog: pytest.LogCaptureFixture
) -> None:
    transport.warn_if_local(bus.conf)
    assert "[DEFAULT] transport_url = kombu+memory:// reaches no other daemon" in caplog.text
    caplog.clear()
    bus.conf.set_override("transport_url", "rabbit://user:secret@host/")
    transport.warn_if_local(bus.conf)
    assert caplog.text == ""


def test_a_command_that_no_agent_fetches_expires(bus: transport.Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(local_bus.Driver, "send", lambda self, *given, timeout, **others: sent.append(timeout))
    bus.conf.set_override("rpc_message_ttl", 17)
    AgentClient(bus).cast("host@backend", contract.REPORT_NOW, None)
    assert sent == [17]
