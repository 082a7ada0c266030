# SPDX-License-Identifier: Apache-2.0
"""The limit of silence, and who reads it."""

import subprocess
import sys

import pytest
from oslo_config import cfg

from tonnage.capacity import number_bounds
from tonnage.ledger.inventory import service_options


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    service_options.register(conf)
    conf([], default_config_files=[])
    return conf


def test_a_backend_may_be_silent_for_a_minute_to_a_week(conf: cfg.ConfigOpts) -> None:
    assert conf.service_down_time == 60
    conf.set_override("service_down_time", number_bounds.LONGEST_WAIT)
    assert conf.service_down_time == 7 * 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "Should be greater than or equal to 1"),
        (-5, "Should be greater than or equal to 1"),
        (number_bounds.LONGEST_WAIT + 1, f"Should be less than or equal to {number_bounds.LONGEST_WAIT}"),
        ("1.5", "invalid literal"),
    ],
)
def test_other_times_are_refused(conf: cfg.ConfigOpts, seconds: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        conf.set_override("service_down_time", seconds)


def test_a_process_may_register_it_with_its_own_options_twice(conf: cfg.ConfigOpts) -> None:
    """The standalone is a scheduler and an agent."""
    service_options.register(conf)
    assert service_options.options() == [(None, service_options.OPTIONS)]


def test_an_agent_reads_it_without_a_database() -> None:
    program = "import sys; from tonnage.ledger.inventory import service_options; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "False\n"
