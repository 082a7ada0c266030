# SPDX-License-Identifier: Apache-2.0
"""The registration of the options that all processes share."""

import pytest
from oslo_config import cfg

from tonnage.rpc import options


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    """A configuration without any option."""
    return cfg.ConfigOpts()


def test_the_exchange_is_that_of_the_installation(conf: cfg.ConfigOpts) -> None:
    options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    assert conf.control_exchange == "tonnage"


def test_options_of_a_driver_are_registered_only_with_drivers(conf: cfg.ConfigOpts) -> None:
    options.register(conf)
    assert "oslo_messaging_rabbit" not in conf
    options.register_with_drivers(conf)
    conf([], project="tonnage", default_config_files=[])
    assert conf.oslo_messaging_rabbit.heartbeat_timeout_threshold > 0
    assert conf.rpc_response_timeout > 0


def test_options_can_be_registered_again(conf: cfg.ConfigOpts) -> None:
    for _ in range(2):
        options.register_with_drivers(conf)
    conf([], project="tonnage", default_config_files=[])
    assert conf.storage_availability_zone == "nova"


def test_each_option_of_the_sample_is_registered(conf: cfg.ConfigOpts) -> None:
    options.register(conf)
    for group, listed in options.list_opts():
        assert group == "DEFAULT"
        assert {option.dest for option in listed} <= set(conf)
