# SPDX-License-Identifier: Apache-2.0
"""A scheduler with the extension ``announcements`` alone."""

import pathlib

import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from tests.unit.extensions import alone
from tests.unit.scheduler.conftest import ledger  # noqa: F401
from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.extensions.announcements.capacity_alerts import CapacityAlerts
from tonnage.ledger.db.database import Database
from tonnage.rpc import options as rpc_options


def configured(folder: pathlib.Path, text: str = "") -> cfg.ConfigOpts:
    conf = alone.conf_of(folder, "announcements", f"transport_url = kombu+memory://\n{text}")
    rpc_options.register(conf)
    return conf


def test_a_ledger_has_the_tables_of_the_outbox() -> None:
    assert alone.tables("announcements") == {"announcements", "announcement_leases"}


def test_a_scheduler_watches_reports_and_sends_on_a_thread(tmp_path: pathlib.Path, ledger: Database) -> None:  # noqa: F811
    conf = configured(tmp_path)
    with conffixture.ConfFixture(conf), alone.scheduler(conf, ledger) as parts:
        [alerts] = parts.report_observers
        assert isinstance(alerts, CapacityAlerts)
        assert alerts.extension == "announcements"
        assert (len(parts.background), len(parts.purges), len(parts.reloads)) == (1, 1, 1)


def test_all_schedulers_have_to_enable_it(tmp_path: pathlib.Path) -> None:
    """It writes in the transactions of reports."""
    assert enabled_extensions.with_transaction_hooks(configured(tmp_path)) == "announcements"


def test_options_that_contradict_each_other_are_refused_before_the_start(tmp_path: pathlib.Path) -> None:
    enabled_extensions.check(configured(tmp_path))
    text = "capacity_exceeded_percent = 5\ncapacity_exceeded_hysteresis = 5\n"
    with pytest.raises(errors.ConfigurationError, match="capacity_exceeded_hysteresis"):
        enabled_extensions.check(configured(tmp_path, text))
