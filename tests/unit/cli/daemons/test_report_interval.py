# SPDX-License-Identifier: Apache-2.0
import logging
import pathlib

import pytest
from oslo_config import cfg

from tonnage.agent import options as agent_options
from tonnage.capacity import errors
from tonnage.cli.daemons import report_interval
from tonnage.ledger.inventory import service_options


def read_config(folder: pathlib.Path, **values: int) -> cfg.ConfigOpts:
    file = folder / "tonnage.conf"
    file.write_text("\n".join(["[DEFAULT]", *(f"{name} = {value}" for name, value in values.items())]))
    conf = cfg.ConfigOpts()
    agent_options.register(conf)
    service_options.register(conf)
    conf(["--config-file", str(file)], project="tonnage")
    return conf


@pytest.mark.parametrize("alone", [True, False])
def test_the_defaults_and_equivalent_values_cause_no_warning(
    tmp_path: pathlib.Path, alone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    report_interval.check(read_config(tmp_path), alone=alone)
    report_interval.check(read_config(tmp_path, backend_stats_polling_interval=60, service_down_time=120), alone=alone)
    assert caplog.records == []


@pytest.mark.parametrize("interval", [60, 61])
def test_backends_that_would_be_down_between_two_reports_are_refused(tmp_path: pathlib.Path, interval: int) -> None:
    for alone in (True, False):
        conf = read_config(tmp_path, backend_stats_polling_interval=interval, service_down_time=60)
        with pytest.raises(errors.ConfigurationError) as raised:
            report_interval.check(conf, alone=alone)
        assert raised.value.message == (
            f"[DEFAULT] backend_stats_polling_interval = {interval} is too long for service_down_time = 60: every "
            "backend would be down between two reports; set it to 20, or service_down_time to "
            f"{3 * interval} wherever that is set"
        )
    with pytest.raises(errors.ConfigurationError):
        report_interval.check(read_config(tmp_path, backend_stats_polling_interval=interval), alone=True)


def test_an_agent_warns_about_the_default_of_the_schedulers(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The values are usual ones in Cinder, whose services send separate heartbeats."""
    report_interval.check(read_config(tmp_path, backend_stats_polling_interval=60), alone=False)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert (
        "= 60 is too long for service_down_time = 60, the default, if the schedulers have no other: every backend is"
        in (record.getMessage())
    )


def test_an_interval_that_tolerates_no_lost_report_causes_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    report_interval.check(read_config(tmp_path, backend_stats_polling_interval=31, service_down_time=60), alone=True)
    assert "one lost report takes a backend out; set it to 20, or service_down_time to 93" in caplog.text
