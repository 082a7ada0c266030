# SPDX-License-Identifier: Apache-2.0
"""The tap while there is no broker; with one, see the functional tests."""

import pytest

from tests.servers import base
from tonnage.extensions.cinder.watch.bus_tap import BusTap


def test_a_bus_that_is_away_is_named_once_and_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    port = base.free_port()
    tap = BusTap([f"amqp://shadow:secret@127.0.0.1:{port}/%2F"], "openstack", 100, 2**20)
    for _ in range(2):
        tap._retry_at = 0.0
        assert tap.receive(0.01) == []
    [line] = caplog.messages
    assert line.startswith(f"The message bus of Cinder at amqp://shadow:**@127.0.0.1:{port}/")
    assert "in [cinder_shadow] transport_url" in line
    assert "secret" not in line
