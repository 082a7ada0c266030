# SPDX-License-Identifier: Apache-2.0
import pathlib
from unittest import mock

import pytest

from tests.unit.extensions.announcements.conftest import Configure
from tonnage.capacity import errors
from tonnage.extensions.announcements import announcer, options
from tonnage.ledger.db import database


def test_without_recipients_the_announcer_is_disabled(configure: Configure) -> None:
    assert not announcer.build(configure(), mock.sentinel.database).enabled


def test_alerts_without_drivers_send_no_figures(configure: Configure, tmp_path: pathlib.Path) -> None:
    ledger = database.Database(database.create_engine("sqlite://"))
    made = announcer.build(configure(capacity_alert_urls=["a=json://127.0.0.1:1/", "b=json://127.0.0.1:2/"]), ledger)
    assert made.enabled
    assert not made.sends_usage
    assert made.channels() == ["alert:a", "alert:b"]
    ledger.close()


def test_a_driver_that_is_configured_twice_sends_once(configure: Configure) -> None:
    conf = configure({"driver": ["log", "noop", "log"]}, notify_capacity="changed")
    found = options.from_conf(conf)
    assert (found.drivers, found.only_changes, found.host) == (("log", "noop"), True, "here")


def test_a_hysteresis_not_below_the_threshold_is_refused(configure: Configure) -> None:
    conf = configure(capacity_exceeded_percent=5, capacity_exceeded_hysteresis=5)
    with pytest.raises(errors.ConfigurationError, match="less than capacity_exceeded_percent, which is 5"):
        announcer.validate(conf)
